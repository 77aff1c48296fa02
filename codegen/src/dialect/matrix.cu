// Matrix units: matrices held by the 32 threads of a warp, each thread some elements in registers.
#ifndef ms_matrix_instructions
// Four matrices of 8 by 8 elements of 16 bits: thread 8 * i + j gives the address of row j of matrix i, and gets two neighbours of
// row lane / 4 of each.
ms_device words4 load_matrices(const words4* row) {
    words4 m;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m.x), "=r"(m.y), "=r"(m.z), "=r"(m.w) : "r"((u32)__cvta_generic_to_shared(row)) : "memory");
    return m;
}
// The same, with rows and columns exchanged.
ms_device words4 load_matrices_turned(const words4* row) {
    words4 m;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m.x), "=r"(m.y), "=r"(m.z), "=r"(m.w) : "r"((u32)__cvta_generic_to_shared(row)) : "memory");
    return m;
}
// a (16 by 16) times b (16 by 8), plus c (16 by 8).
#define ms_multiply(name, kind)                                                                                          \
    ms_device vec4<f32> name(words4 a, u32 b0, u32 b1, vec4<f32> c) {                                                    \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." kind "." kind ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, " \
            "{%0, %1, %2, %3};"                                                                                          \
            : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w)                                                                 \
            : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));                                                 \
        return c;                                                                                                        \
    }
ms_multiply(multiply_f16, "f16")
ms_multiply(multiply_bf16, "bf16")
// a (8 by 4) times b (4 by 8), plus c (8 by 8): thread 4 * i + j gives row i of a and column i of b at j, and has columns 2 * j and
// 2 * j + 1 of row i.
ms_device c128 multiply_f64(f64 a, f64 b, c128 c) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(c.x), "+d"(c.y) : "d"(a), "d"(b));
    return c;
}
// Two numbers in one word, rounded to the nearest.
ms_device u32 pair_f16(f32 low, f32 high) {
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
ms_device u32 pair_bf16(f32 low, f32 high) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
// 2^x, to 2 ulp; subnormal results are zero.
ms_device f32 fast_exp2(f32 x) { f32 y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
// Asks for 16 bytes of memory to be copied to shared memory, or for zeros.
ms_device void copy_chunk(words4* to, const void* from, bool exists) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"((u32)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)), "r"(exists ? 16 : 0) : "memory");
}
// What was asked for since the last call is one lot.
ms_device void copies_asked() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for all lots of this thread but the last few.
template <int rest> ms_device void copies_arrived() { asm volatile("cp.async.wait_group %0;" :: "n"(rest) : "memory"); }
#endif
ms_device f32 lowest_f32() { return bitcast<f32>(0xff800000u); }
ms_device f32 shuffled(f32 x, i32 far) { return __shfl_xor_sync(~0u, x, far); }
ms_device u32 words_at(const u16* memory, i64 at) { return *(const u32*)(memory + at); }
ms_device void put_half(words4* array, i32 at, u32 bits) { ((u16*)array)[at] = (u16)bits; }
// From two columns of two rows, eight apart, to four columns of one: of the first row in even threads, of the second in odd ones.
ms_device vec4<f32> four_columns(vec4<f32> c) {
    const bool odd = threadIdx.x & 1;
    const f32 x = __shfl_xor_sync(~0u, odd ? c.x : c.z, 1), y = __shfl_xor_sync(~0u, odd ? c.y : c.w, 1);
    return odd ? vec4<f32>(x, y, c.z, c.w) : vec4<f32>(c.x, c.y, x, y);
}
