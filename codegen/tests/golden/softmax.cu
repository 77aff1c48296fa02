typedef i32 idx;
struct Args { u32 w[8]; };

// x as it is, but opaque to a compiler that would merge the operations before with those after.
__device__ __forceinline__ f32 keep_f32(f32 x) {
    return bitcast<f32>(bitcast<u32>(x) ^ zero_word());
}
// Whether x is NaN.
__device__ __forceinline__ bool is_nan_f32(f32 x) {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
// y, or x where x is NaN.
__device__ __forceinline__ f32 keep_nan_f32(f32 y, f32 x) {
    return bitcast<f32>(ms_select(bitcast<u32>(y), bitcast<u32>(x), is_nan_f32(x)));
}
// The larger; NaN if either is.
__device__ __forceinline__ f32 max_f32(f32 a, f32 b) {
    return keep_nan_f32(keep_nan_f32(ms_select(b, a, a > b), b), a);
}
__shared__ f32 all_f32[256];
extern "C" __global__ void __launch_bounds__(256) rows_by_4(const f32* b0, f32* __restrict__ b1, const __grid_constant__ Args args) {
    auto const v0 = (const vec4<f32>*)b0;
    auto const v1 = (vec4<f32>*)b1;
    const idx lane = threadIdx.x;
    const idx group = blockIdx.x + idx(blockIdx.y) * gridDim.x;
    const idx groups = idx(gridDim.x) * gridDim.y;
    follow();
    const auto number0 = bitcast<idx>(args.w[0]);
    const auto number1 = bitcast<idx>(args.w[1]);
    const auto base0 = bitcast<idx>(args.w[2]);
    const auto stride0_0 = bitcast<idx>(args.w[3]);
    const auto base1 = bitcast<idx>(args.w[4]);
    const auto stride1_0 = bitcast<idx>(args.w[5]);
    const auto beside = quotient(lane, idx(16));
    const auto member = lane - beside * idx(16);
    const auto length = number1;
    const auto team = group;
    const auto teams = groups;
    const auto part = idx(0);
    const auto parts = idx(1);
    for (auto first = team * idx(16); first < number0; first += teams * idx(16)) {
        const auto live = first + beside < number0;
        const auto row = ms_select(number0 - idx(1), first + beside, live);
        const auto e_1 = (member + idx(0)) * idx(4);
        const auto inside_2 = e_1 < length;
        const auto e_3 = ms_select(idx(0), e_1, inside_2);
        auto sum_4 = bitcast<f32>(0xff800000u + zero_word());
        const auto p_5 = base0 + row * stride0_0 + e_3;
        const auto v_6 = v0[p_5 >> 2u];
        const auto x_7 = v_6.x;
        const auto x_8 = v_6.y;
        const auto x_9 = v_6.z;
        const auto x_10 = v_6.w;
        sum_4 = ms_select(sum_4, max_f32(sum_4, x_7), inside_2);
        sum_4 = ms_select(sum_4, max_f32(sum_4, x_8), inside_2);
        sum_4 = ms_select(sum_4, max_f32(sum_4, x_9), inside_2);
        sum_4 = ms_select(sum_4, max_f32(sum_4, x_10), inside_2);
        all_f32[lane] = sum_4;
        workgroupBarrier();
        for (auto half = idx(8); half > idx(0); half = half >> 1u) {
            if (member < half) {
                all_f32[lane] = max_f32(all_f32[lane], all_f32[lane + half * idx(1)]);
            }
            halfBarrier(half);
        }
        const auto r_11 = all_f32[beside * idx(16)];
        workgroupBarrier();
        auto sum_12 = 0.0f;
        const auto t_13 = (x_7 - keep_f32(r_11));
        const auto t_14 = exp_f32(t_13);
        const auto t_15 = (x_8 - keep_f32(r_11));
        const auto t_16 = exp_f32(t_15);
        const auto t_17 = (x_9 - keep_f32(r_11));
        const auto t_18 = exp_f32(t_17);
        const auto t_19 = (x_10 - keep_f32(r_11));
        const auto t_20 = exp_f32(t_19);
        sum_12 = ms_select(sum_12, (sum_12 + t_14), inside_2);
        sum_12 = ms_select(sum_12, (sum_12 + t_16), inside_2);
        sum_12 = ms_select(sum_12, (sum_12 + t_18), inside_2);
        sum_12 = ms_select(sum_12, (sum_12 + t_20), inside_2);
        all_f32[lane] = sum_12;
        workgroupBarrier();
        for (auto half = idx(8); half > idx(0); half = half >> 1u) {
            if (member < half) {
                all_f32[lane] = (all_f32[lane] + all_f32[lane + half * idx(1)]);
            }
            halfBarrier(half);
        }
        const auto r_21 = all_f32[beside * idx(16)];
        workgroupBarrier();
        const auto t_22 = (t_14 / keep_f32(r_21));
        const auto t_23 = (t_16 / keep_f32(r_21));
        const auto t_24 = (t_18 / keep_f32(r_21));
        const auto t_25 = (t_20 / keep_f32(r_21));
        if (live && inside_2) {
            const auto p_26 = base1 + row * stride1_0 + e_3;
            v1[p_26 >> 2u] = vec4<f32>(t_22, t_23, t_24, t_25);
        }
    }
}
extern "C" __global__ void __launch_bounds__(256) rows_by_1(const f32* b0, f32* __restrict__ b1, const __grid_constant__ Args args) {
    auto const v0 = (const vec4<f32>*)b0;
    auto const v1 = (vec4<f32>*)b1;
    const idx lane = threadIdx.x;
    const idx group = blockIdx.x + idx(blockIdx.y) * gridDim.x;
    const idx groups = idx(gridDim.x) * gridDim.y;
    follow();
    const auto number0 = bitcast<idx>(args.w[0]);
    const auto number1 = bitcast<idx>(args.w[1]);
    const auto base0 = bitcast<idx>(args.w[2]);
    const auto stride0_0 = bitcast<idx>(args.w[3]);
    const auto base1 = bitcast<idx>(args.w[4]);
    const auto stride1_0 = bitcast<idx>(args.w[5]);
    const auto beside = quotient(lane, idx(16));
    const auto member = lane - beside * idx(16);
    const auto length = number1;
    const auto team = group;
    const auto teams = groups;
    const auto part = idx(0);
    const auto parts = idx(1);
    for (auto first = team * idx(16); first < number0; first += teams * idx(16)) {
        const auto live = first + beside < number0;
        const auto row = ms_select(number0 - idx(1), first + beside, live);
        const auto e_1 = (member + idx(0));
        const auto inside_2 = e_1 < length;
        const auto e_3 = ms_select(idx(0), e_1, inside_2);
        const auto e_4 = (member + idx(16));
        const auto inside_5 = e_4 < length;
        const auto e_6 = ms_select(idx(0), e_4, inside_5);
        const auto e_7 = (member + idx(32));
        const auto inside_8 = e_7 < length;
        const auto e_9 = ms_select(idx(0), e_7, inside_8);
        const auto e_10 = (member + idx(48));
        const auto inside_11 = e_10 < length;
        const auto e_12 = ms_select(idx(0), e_10, inside_11);
        auto sum_13 = bitcast<f32>(0xff800000u + zero_word());
        const auto p_14 = base0 + row * stride0_0 + e_3;
        const auto x_15 = b0[p_14];
        sum_13 = ms_select(sum_13, max_f32(sum_13, x_15), inside_2);
        const auto p_16 = base0 + row * stride0_0 + e_6;
        const auto x_17 = b0[p_16];
        sum_13 = ms_select(sum_13, max_f32(sum_13, x_17), inside_5);
        const auto p_18 = base0 + row * stride0_0 + e_9;
        const auto x_19 = b0[p_18];
        sum_13 = ms_select(sum_13, max_f32(sum_13, x_19), inside_8);
        const auto p_20 = base0 + row * stride0_0 + e_12;
        const auto x_21 = b0[p_20];
        sum_13 = ms_select(sum_13, max_f32(sum_13, x_21), inside_11);
        all_f32[lane] = sum_13;
        workgroupBarrier();
        for (auto half = idx(8); half > idx(0); half = half >> 1u) {
            if (member < half) {
                all_f32[lane] = max_f32(all_f32[lane], all_f32[lane + half * idx(1)]);
            }
            halfBarrier(half);
        }
        const auto r_22 = all_f32[beside * idx(16)];
        workgroupBarrier();
        auto sum_23 = 0.0f;
        const auto t_24 = (x_15 - keep_f32(r_22));
        const auto t_25 = exp_f32(t_24);
        sum_23 = ms_select(sum_23, (sum_23 + t_25), inside_2);
        const auto t_26 = (x_17 - keep_f32(r_22));
        const auto t_27 = exp_f32(t_26);
        sum_23 = ms_select(sum_23, (sum_23 + t_27), inside_5);
        const auto t_28 = (x_19 - keep_f32(r_22));
        const auto t_29 = exp_f32(t_28);
        sum_23 = ms_select(sum_23, (sum_23 + t_29), inside_8);
        const auto t_30 = (x_21 - keep_f32(r_22));
        const auto t_31 = exp_f32(t_30);
        sum_23 = ms_select(sum_23, (sum_23 + t_31), inside_11);
        all_f32[lane] = sum_23;
        workgroupBarrier();
        for (auto half = idx(8); half > idx(0); half = half >> 1u) {
            if (member < half) {
                all_f32[lane] = (all_f32[lane] + all_f32[lane + half * idx(1)]);
            }
            halfBarrier(half);
        }
        const auto r_32 = all_f32[beside * idx(16)];
        workgroupBarrier();
        const auto t_33 = (t_25 / keep_f32(r_32));
        if (live && inside_2) {
            const auto p_34 = base1 + row * stride1_0 + e_3;
            b1[p_34] = t_33;
        }
        const auto t_35 = (t_27 / keep_f32(r_32));
        if (live && inside_5) {
            const auto p_36 = base1 + row * stride1_0 + e_6;
            b1[p_36] = t_35;
        }
        const auto t_37 = (t_29 / keep_f32(r_32));
        if (live && inside_8) {
            const auto p_38 = base1 + row * stride1_0 + e_9;
            b1[p_38] = t_37;
        }
        const auto t_39 = (t_31 / keep_f32(r_32));
        if (live && inside_11) {
            const auto p_40 = base1 + row * stride1_0 + e_12;
            b1[p_40] = t_39;
        }
    }
}
