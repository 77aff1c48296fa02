typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
#define ms_device __device__ __forceinline__
// What takes instructions of the GPU's own. Whoever runs kernels elsewhere has these functions already.
#ifndef ms_instructions
// The first thing a kernel does: it goes on when the one before it in the stream is through and what that wrote can be seen. Kernels so
// launched overlap in nothing but their beginnings.
ms_device void wait_for_last() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// The next kernel of the stream may be set up from now on.
ms_device void release() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
ms_device f32 f16_to_f32(u32 bits) { f32 x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((u16)bits)); return x; }
ms_device u32 f32_to_f16(f32 x) { u16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x)); return h; }
ms_device f32 reciprocal(f32 x) { f32 r; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
#endif
#define ms_complex(name, real, bytes)                                                   \
    struct alignas(bytes) name {                                                        \
        real x, y;                                                                      \
        name() = default;                                                               \
        ms_device name(real x, real y) : x(x), y(y) {}                                  \
        ms_device name operator+(name o) const { return name(x + o.x, y + o.y); }       \
        ms_device name operator-(name o) const { return name(x - o.x, y - o.y); }       \
    };
ms_complex(c64, f32, 8)
ms_complex(c128, f64, 16)
template <class T> struct alignas(sizeof(T) * 4 < 16 ? sizeof(T) * 4 : 16) vec4 {
    T x, y, z, w;
    vec4() = default;
    ms_device vec4(T x, T y, T z, T w) : x(x), y(y), z(z), w(w) {}
    ms_device T& operator[](u32 i) { return (&x)[i]; }
};
typedef vec4<u32> words4;
template <class T, class S> ms_device T bitcast(S s) {
    union { S s; T t; } both;
    both.s = s;
    return both.t;
}
template <class T> ms_device T ms_select(T no, T yes, bool c) { return c ? yes : no; }
ms_device f32 ms_abs(f32 x) { return fabsf(x); }
ms_device f64 ms_abs(f64 x) { return fabs(x); }
ms_device f32 ms_floor(f32 x) { return floorf(x); }
ms_device f64 ms_floor(f64 x) { return floor(x); }
ms_device f32 ms_ceil(f32 x) { return ceilf(x); }
ms_device f64 ms_ceil(f64 x) { return ceil(x); }
ms_device f32 ms_trunc(f32 x) { return truncf(x); }
ms_device f64 ms_trunc(f64 x) { return trunc(x); }
ms_device f32 ms_sqrt(f32 x) { return sqrtf(x); }
ms_device f64 ms_sqrt(f64 x) { return sqrt(x); }
ms_device f32 ms_fma(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
ms_device f64 ms_fma(f64 a, f64 b, f64 c) { return fma(a, b, c); }
template <class T> ms_device T ms_min(T a, T b) { return b < a ? b : a; }
template <class T> ms_device T ms_max(T a, T b) { return a < b ? b : a; }
ms_device u32 zero_word() { return 0; }
ms_device i32 quotient(i32 a, i32 b) { return i32(u32(a) / u32(b)); }
ms_device i64 quotient(i64 a, i64 b) { return i64(u64(a) / u64(b)); }
// Whether 0 <= x < limit, in one comparison.
ms_device bool in_range(i32 x, i32 limit) { return u32(x) < u32(limit); }
ms_device bool in_range(i64 x, i64 limit) { return u64(x) < u64(limit); }
ms_device void workgroupBarrier() { __syncthreads(); }
// After a step in which the first `half` threads of each row, all side by side, took over what the next `half` had. The last
// step is for the whole group to see.
template <class T> ms_device void halfBarrier(T half) {
    if (half > 32 || half == 1) __syncthreads();
    else __syncwarp();
}
ms_device void follow() {
    release();
    wait_for_last();
}
// Without the cases that division must heed: one step from the hardware's reciprocal is right to an ulp.
ms_device f32 ratio_f32(f32 a, f32 b) {
    const f32 r = reciprocal(b), q = a * r;
    return fmaf(fmaf(-b, q, a), r, q);
}
ms_device u32 mul_high_u32(u32 a, u32 b) { return __umulhi(a, b); }
ms_device f32 quotient_f32(f32 a, f32 b) { return a / b; }
ms_device f32 root_f32(f32 x) { return sqrtf(x); }
// The functions of CUDA where they are shorter than those of the library, which pay for what shader compilers may do. Their
// bounds are NVIDIA's, for compilation without fast-math: 1 ulp for exp, 2 for tanh and erf.
ms_device f32 exp_f32(f32 x) { return expf(x); }
ms_device f32 tanh_f32(f32 x) { return tanhf(x); }
ms_device f32 erf_f32(f32 x) { return erff(x); }
// 1 / (1 + e^-x), 3 ulp: exp has one, the sum half of one, the hardware's reciprocal one. Subnormal results are zero.
ms_device f32 sigmoid_f32(f32 x) { return reciprocal(1.0f + expf(-x)); }
