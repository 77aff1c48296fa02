typedef i32 idx;
struct Args { u32 w[8]; };

// x as it is, but opaque to a compiler that would merge the operations before with those after.
__device__ __forceinline__ f32 keep_f32(f32 x) {
    return bitcast<f32>(bitcast<u32>(x) ^ zero_word());
}
extern "C" __global__ void __launch_bounds__(256) map_by_four(const f32* b0, const f32* b1, f32* __restrict__ b2, const __grid_constant__ Args args) {
    auto const v0 = (const vec4<f32>*)b0;
    auto const v1 = (const vec4<f32>*)b1;
    auto const v2 = (vec4<f32>*)b2;
    const idx lane = threadIdx.x;
    const idx group = blockIdx.x + idx(blockIdx.y) * gridDim.x;
    const idx groups = idx(gridDim.x) * gridDim.y;
    follow();
    const auto number0 = bitcast<idx>(args.w[0]);
    const auto base0 = bitcast<idx>(args.w[1]);
    const auto base1 = bitcast<idx>(args.w[2]);
    const auto param0_0 = args.w[3];
    const auto base2 = bitcast<idx>(args.w[4]);
    const auto number1 = bitcast<idx>(args.w[5]);
    const auto step = groups * idx(256);
    auto n = group * idx(256) + lane;
    while (n + step < number0) {
        const auto n_1 = n * idx(4);
        const auto n_2 = (n + step) * idx(4);
        const auto p_3 = base0 + n_1;
        const auto v_4 = v0[p_3 >> 2u];
        const auto x_5 = v_4.x;
        const auto x_6 = v_4.y;
        const auto x_7 = v_4.z;
        const auto x_8 = v_4.w;
        const auto p_9 = base1 + n_1;
        const auto v_10 = v1[p_9 >> 2u];
        const auto x_11 = v_10.x;
        const auto x_12 = v_10.y;
        const auto x_13 = v_10.z;
        const auto x_14 = v_10.w;
        const auto c_15 = bitcast<f32>(param0_0);
        const auto t_16 = (x_5 * keep_f32(c_15));
        const auto t_17 = (t_16 + keep_f32(x_11));
        const auto c_18 = bitcast<f32>(param0_0);
        const auto t_19 = (x_6 * keep_f32(c_18));
        const auto t_20 = (t_19 + keep_f32(x_12));
        const auto c_21 = bitcast<f32>(param0_0);
        const auto t_22 = (x_7 * keep_f32(c_21));
        const auto t_23 = (t_22 + keep_f32(x_13));
        const auto c_24 = bitcast<f32>(param0_0);
        const auto t_25 = (x_8 * keep_f32(c_24));
        const auto t_26 = (t_25 + keep_f32(x_14));
        const auto p_27 = base0 + n_2;
        const auto v_28 = v0[p_27 >> 2u];
        const auto x_29 = v_28.x;
        const auto x_30 = v_28.y;
        const auto x_31 = v_28.z;
        const auto x_32 = v_28.w;
        const auto p_33 = base1 + n_2;
        const auto v_34 = v1[p_33 >> 2u];
        const auto x_35 = v_34.x;
        const auto x_36 = v_34.y;
        const auto x_37 = v_34.z;
        const auto x_38 = v_34.w;
        const auto c_39 = bitcast<f32>(param0_0);
        const auto t_40 = (x_29 * keep_f32(c_39));
        const auto t_41 = (t_40 + keep_f32(x_35));
        const auto c_42 = bitcast<f32>(param0_0);
        const auto t_43 = (x_30 * keep_f32(c_42));
        const auto t_44 = (t_43 + keep_f32(x_36));
        const auto c_45 = bitcast<f32>(param0_0);
        const auto t_46 = (x_31 * keep_f32(c_45));
        const auto t_47 = (t_46 + keep_f32(x_37));
        const auto c_48 = bitcast<f32>(param0_0);
        const auto t_49 = (x_32 * keep_f32(c_48));
        const auto t_50 = (t_49 + keep_f32(x_38));
        const auto p_51 = base2 + n_1;
        v2[p_51 >> 2u] = vec4<f32>(t_17, t_20, t_23, t_26);
        const auto p_52 = base2 + n_2;
        v2[p_52 >> 2u] = vec4<f32>(t_41, t_44, t_47, t_50);
        n += step * idx(2);
    }
    if (n < number0) {
        const auto n_53 = n * idx(4);
        const auto p_54 = base0 + n_53;
        const auto v_55 = v0[p_54 >> 2u];
        const auto x_56 = v_55.x;
        const auto x_57 = v_55.y;
        const auto x_58 = v_55.z;
        const auto x_59 = v_55.w;
        const auto p_60 = base1 + n_53;
        const auto v_61 = v1[p_60 >> 2u];
        const auto x_62 = v_61.x;
        const auto x_63 = v_61.y;
        const auto x_64 = v_61.z;
        const auto x_65 = v_61.w;
        const auto c_66 = bitcast<f32>(param0_0);
        const auto t_67 = (x_56 * keep_f32(c_66));
        const auto t_68 = (t_67 + keep_f32(x_62));
        const auto c_69 = bitcast<f32>(param0_0);
        const auto t_70 = (x_57 * keep_f32(c_69));
        const auto t_71 = (t_70 + keep_f32(x_63));
        const auto c_72 = bitcast<f32>(param0_0);
        const auto t_73 = (x_58 * keep_f32(c_72));
        const auto t_74 = (t_73 + keep_f32(x_64));
        const auto c_75 = bitcast<f32>(param0_0);
        const auto t_76 = (x_59 * keep_f32(c_75));
        const auto t_77 = (t_76 + keep_f32(x_65));
        const auto p_78 = base2 + n_53;
        v2[p_78 >> 2u] = vec4<f32>(t_68, t_71, t_74, t_77);
    }
    if (group == idx(0) && lane < number1) {
        const auto n_79 = number0 * idx(4) + lane;
        const auto p_80 = base0 + n_79;
        const auto x_81 = b0[p_80];
        const auto p_82 = base1 + n_79;
        const auto x_83 = b1[p_82];
        const auto c_84 = bitcast<f32>(param0_0);
        const auto t_85 = (x_81 * keep_f32(c_84));
        const auto t_86 = (t_85 + keep_f32(x_83));
        const auto p_87 = base2 + n_79;
        b2[p_87] = t_86;
    }
}
extern "C" __global__ void __launch_bounds__(256) map_by_one(const f32* b0, const f32* b1, f32* __restrict__ b2, const __grid_constant__ Args args) {
    auto const v0 = (const vec4<f32>*)b0;
    auto const v1 = (const vec4<f32>*)b1;
    auto const v2 = (vec4<f32>*)b2;
    const idx lane = threadIdx.x;
    const idx group = blockIdx.x + idx(blockIdx.y) * gridDim.x;
    const idx groups = idx(gridDim.x) * gridDim.y;
    follow();
    const auto number0 = bitcast<idx>(args.w[0]);
    const auto base0 = bitcast<idx>(args.w[1]);
    const auto base1 = bitcast<idx>(args.w[2]);
    const auto param0_0 = args.w[3];
    const auto base2 = bitcast<idx>(args.w[4]);
    const auto step = groups * idx(256);
    for (auto n = group * idx(256) + lane; n < number0; n += step) {
        const auto p_1 = base0 + n;
        const auto x_2 = b0[p_1];
        const auto p_3 = base1 + n;
        const auto x_4 = b1[p_3];
        const auto c_5 = bitcast<f32>(param0_0);
        const auto t_6 = (x_2 * keep_f32(c_5));
        const auto t_7 = (t_6 + keep_f32(x_4));
        const auto p_8 = base2 + n;
        b2[p_8] = t_7;
    }
}
