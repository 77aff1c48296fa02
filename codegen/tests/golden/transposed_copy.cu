typedef i32 idx;
struct Args { u32 w[12]; };

__shared__ f32 square0[1024];
extern "C" __global__ void __launch_bounds__(256) map_by_squares(const u16* b0, u16* __restrict__ b1, const __grid_constant__ Args args) {
    auto const v0 = (const vec4<u16>*)b0;
    auto const v1 = (vec4<u16>*)b1;
    const idx lane = threadIdx.x;
    const idx group = blockIdx.x + idx(blockIdx.y) * gridDim.x;
    const idx groups = idx(gridDim.x) * gridDim.y;
    follow();
    const auto number0 = bitcast<idx>(args.w[0]);
    const auto number1 = bitcast<idx>(args.w[1]);
    const auto number2 = bitcast<idx>(args.w[2]);
    const auto size1 = bitcast<idx>(args.w[3]);
    const auto size0 = bitcast<idx>(args.w[4]);
    const auto base0 = bitcast<idx>(args.w[5]);
    const auto stride0_1 = bitcast<idx>(args.w[6]);
    const auto base1 = bitcast<idx>(args.w[7]);
    const auto stride1_0 = bitcast<idx>(args.w[8]);
    const auto x = lane % idx(32);
    const auto y = quotient(lane, idx(32));
    for (auto tile = group; tile < number2; tile += groups) {
        const auto q = quotient(tile, number0);
        const auto column = tile - q * number0;
        const auto left = column * idx(32);
        const auto batch = quotient(q, number1);
        const auto slant = q - batch * number1 + column;
        const auto top = (slant - quotient(slant, number1) * number1) * idx(32);
        const auto i_1 = ms_min(top + x, size0 - idx(1));
        const auto i_2 = ms_min(left + y + idx(0), size1 - idx(1));
        const auto p_3 = base0 + i_1 + i_2 * stride0_1;
        const auto x_4 = f16_to_f32(u32(b0[p_3]));
        const auto i_5 = ms_min(left + y + idx(8), size1 - idx(1));
        const auto p_6 = base0 + i_1 + i_5 * stride0_1;
        const auto x_7 = f16_to_f32(u32(b0[p_6]));
        const auto i_8 = ms_min(left + y + idx(16), size1 - idx(1));
        const auto p_9 = base0 + i_1 + i_8 * stride0_1;
        const auto x_10 = f16_to_f32(u32(b0[p_9]));
        const auto i_11 = ms_min(left + y + idx(24), size1 - idx(1));
        const auto p_12 = base0 + i_1 + i_11 * stride0_1;
        const auto x_13 = f16_to_f32(u32(b0[p_12]));
        square0[(y + idx(0)) * idx(32) + (x ^ ((y + idx(0)) & idx(31)))] = x_4;
        square0[(y + idx(8)) * idx(32) + (x ^ ((y + idx(8)) & idx(31)))] = x_7;
        square0[(y + idx(16)) * idx(32) + (x ^ ((y + idx(16)) & idx(31)))] = x_10;
        square0[(y + idx(24)) * idx(32) + (x ^ ((y + idx(24)) & idx(31)))] = x_13;
        workgroupBarrier();
        const auto i_14 = top + y + idx(0);
        const auto i_15 = left + x;
        if (i_14 < size0 && i_15 < size1) {
            const auto x_16 = square0[x * idx(32) + ((y + idx(0)) ^ (x & idx(31)))];
            const auto p_17 = base1 + i_14 * stride1_0 + i_15;
            b1[p_17] = u16(f32_to_f16(x_16));
        }
        const auto i_18 = top + y + idx(8);
        const auto i_19 = left + x;
        if (i_18 < size0 && i_19 < size1) {
            const auto x_20 = square0[x * idx(32) + ((y + idx(8)) ^ (x & idx(31)))];
            const auto p_21 = base1 + i_18 * stride1_0 + i_19;
            b1[p_21] = u16(f32_to_f16(x_20));
        }
        const auto i_22 = top + y + idx(16);
        const auto i_23 = left + x;
        if (i_22 < size0 && i_23 < size1) {
            const auto x_24 = square0[x * idx(32) + ((y + idx(16)) ^ (x & idx(31)))];
            const auto p_25 = base1 + i_22 * stride1_0 + i_23;
            b1[p_25] = u16(f32_to_f16(x_24));
        }
        const auto i_26 = top + y + idx(24);
        const auto i_27 = left + x;
        if (i_26 < size0 && i_27 < size1) {
            const auto x_28 = square0[x * idx(32) + ((y + idx(24)) ^ (x & idx(31)))];
            const auto p_29 = base1 + i_26 * stride1_0 + i_27;
            b1[p_29] = u16(f32_to_f16(x_28));
        }
        workgroupBarrier();
    }
}
