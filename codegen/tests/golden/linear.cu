typedef i32 idx;
struct Args { u32 w[16]; };

// x as it is, but opaque to a compiler that would merge the operations before with those after.
__device__ __forceinline__ f32 keep_f32(f32 x) {
    return bitcast<f32>(bitcast<u32>(x) ^ zero_word());
}
__shared__ vec4<f32> left[144];
__shared__ vec4<f32> right[144];
extern "C" __global__ void __launch_bounds__(64) contract_by_four(const f32* b0, const f32* b1, const f32* b2, f32* __restrict__ b3, const __grid_constant__ Args args) {
    auto const v0 = (const vec4<f32>*)b0;
    auto const v1 = (const vec4<f32>*)b1;
    auto const v2 = (const vec4<f32>*)b2;
    auto const v3 = (vec4<f32>*)b3;
    const idx lane = threadIdx.x;
    const idx group = blockIdx.x + idx(blockIdx.y) * gridDim.x;
    const idx groups = idx(gridDim.x) * gridDim.y;
    wait_for_last();
    const auto number0 = bitcast<idx>(args.w[0]);
    const auto number1 = bitcast<idx>(args.w[1]);
    const auto number2 = bitcast<idx>(args.w[2]);
    const auto number3 = bitcast<idx>(args.w[3]);
    const auto number4 = bitcast<idx>(args.w[4]);
    const auto number5 = bitcast<idx>(args.w[5]);
    const auto base0 = bitcast<idx>(args.w[6]);
    const auto stride0_0 = bitcast<idx>(args.w[7]);
    const auto base1 = bitcast<idx>(args.w[8]);
    const auto stride1_2 = bitcast<idx>(args.w[9]);
    const auto base2 = bitcast<idx>(args.w[10]);
    const auto base3 = bitcast<idx>(args.w[11]);
    const auto stride3_0 = bitcast<idx>(args.w[12]);
    const auto size_m = number3;
    const auto size_n = number4;
    const auto size_k = number5;
    const auto y = quotient(lane, idx(8));
    const auto x = lane - y * idx(8);
    for (auto tile = group; tile < number2; tile += groups) {
        const auto slice = quotient(tile, number1);
        const auto within = tile - slice * number1;
        const auto tile_m = quotient(within, number0);
        const auto first_m = tile_m * idx(32);
        const auto first_n = (within - tile_m * number0) * idx(32);
        const auto batch = slice;
        const auto begin = idx(0);
        const auto until = size_k;
        auto sum_0_0 = 0.0f;
        auto sum_0_1 = 0.0f;
        auto sum_0_2 = 0.0f;
        auto sum_0_3 = 0.0f;
        auto sum_1_0 = 0.0f;
        auto sum_1_1 = 0.0f;
        auto sum_1_2 = 0.0f;
        auto sum_1_3 = 0.0f;
        auto sum_2_0 = 0.0f;
        auto sum_2_1 = 0.0f;
        auto sum_2_2 = 0.0f;
        auto sum_2_3 = 0.0f;
        auto sum_3_0 = 0.0f;
        auto sum_3_1 = 0.0f;
        auto sum_3_2 = 0.0f;
        auto sum_3_3 = 0.0f;
        const auto q_1 = quotient(lane, idx(4));
        const auto r_2 = (lane - q_1 * idx(4)) * idx(4);
        const auto o_3 = first_m + q_1;
        const auto inside_4 = o_3 < size_m;
        const auto o_5 = ms_select(idx(0), o_3, inside_4);
        const auto p_6 = base0 + o_5 * stride0_0;
        const auto q_11 = q_1 + idx(16);
        const auto o_12 = first_m + q_11;
        const auto inside_13 = o_12 < size_m;
        const auto o_14 = ms_select(idx(0), o_12, inside_13);
        const auto p_15 = base0 + o_14 * stride0_0;
        auto v_7 = 0.0f;
        auto v_8 = 0.0f;
        auto v_9 = 0.0f;
        auto v_10 = 0.0f;
        auto v_16 = 0.0f;
        auto v_17 = 0.0f;
        auto v_18 = 0.0f;
        auto v_19 = 0.0f;
        const auto q_20 = quotient(lane, idx(8));
        const auto r_21 = (lane - q_20 * idx(8)) * idx(4);
        const auto o_22 = first_n + r_21;
        const auto inside_23 = o_22 < size_n;
        const auto o_24 = ms_select(idx(0), o_22, inside_23);
        const auto p_25 = base1 + o_24;
        const auto q_30 = q_20 + idx(8);
        auto v_26 = 0.0f;
        auto v_27 = 0.0f;
        auto v_28 = 0.0f;
        auto v_29 = 0.0f;
        auto v_31 = 0.0f;
        auto v_32 = 0.0f;
        auto v_33 = 0.0f;
        auto v_34 = 0.0f;
        for (auto k0 = begin; k0 < until + idx(16); k0 += idx(16)) {
            const auto k_35 = k0 + r_2;
            const auto p_36 = p_6 + k_35;
            v_7 = 0.0f;
            v_8 = 0.0f;
            v_9 = 0.0f;
            v_10 = 0.0f;
            if ((k_35 < until)) {
                const auto v_37 = v0[p_36 >> 2u];
                const auto x_38 = v_37.x;
                const auto x_39 = v_37.y;
                const auto x_40 = v_37.z;
                const auto x_41 = v_37.w;
                v_7 = x_38;
                v_8 = x_39;
                v_9 = x_40;
                v_10 = x_41;
            }
            const auto p_42 = p_15 + k_35;
            v_16 = 0.0f;
            v_17 = 0.0f;
            v_18 = 0.0f;
            v_19 = 0.0f;
            if ((k_35 < until)) {
                const auto v_43 = v0[p_42 >> 2u];
                const auto x_44 = v_43.x;
                const auto x_45 = v_43.y;
                const auto x_46 = v_43.z;
                const auto x_47 = v_43.w;
                v_16 = x_44;
                v_17 = x_45;
                v_18 = x_46;
                v_19 = x_47;
            }
            const auto k_48 = k0 + q_20;
            const auto p_49 = p_25 + k_48 * stride1_2;
            v_26 = 0.0f;
            v_27 = 0.0f;
            v_28 = 0.0f;
            v_29 = 0.0f;
            if ((k_48 < until)) {
                const auto v_50 = v1[p_49 >> 2u];
                const auto x_51 = v_50.x;
                const auto x_52 = v_50.y;
                const auto x_53 = v_50.z;
                const auto x_54 = v_50.w;
                v_26 = x_51;
                v_27 = x_52;
                v_28 = x_53;
                v_29 = x_54;
            }
            const auto k_55 = k0 + q_30;
            const auto p_56 = p_25 + k_55 * stride1_2;
            v_31 = 0.0f;
            v_32 = 0.0f;
            v_33 = 0.0f;
            v_34 = 0.0f;
            if ((k_55 < until)) {
                const auto v_57 = v1[p_56 >> 2u];
                const auto x_58 = v_57.x;
                const auto x_59 = v_57.y;
                const auto x_60 = v_57.z;
                const auto x_61 = v_57.w;
                v_31 = x_58;
                v_32 = x_59;
                v_33 = x_60;
                v_34 = x_61;
            }
            if (k0 > begin) {
                for (auto kk = idx(0); kk < idx(16); kk += idx(1)) {
                    const auto v_62 = left[(kk * idx(36) + y * idx(4) + idx(0)) >> 2u];
                    const auto v_63 = right[(kk * idx(36) + x * idx(4) + idx(0)) >> 2u];
                    sum_0_0 = ms_fma(v_62.x, v_63.x, sum_0_0);
                    sum_0_1 = ms_fma(v_62.x, v_63.y, sum_0_1);
                    sum_0_2 = ms_fma(v_62.x, v_63.z, sum_0_2);
                    sum_0_3 = ms_fma(v_62.x, v_63.w, sum_0_3);
                    sum_1_0 = ms_fma(v_62.y, v_63.x, sum_1_0);
                    sum_1_1 = ms_fma(v_62.y, v_63.y, sum_1_1);
                    sum_1_2 = ms_fma(v_62.y, v_63.z, sum_1_2);
                    sum_1_3 = ms_fma(v_62.y, v_63.w, sum_1_3);
                    sum_2_0 = ms_fma(v_62.z, v_63.x, sum_2_0);
                    sum_2_1 = ms_fma(v_62.z, v_63.y, sum_2_1);
                    sum_2_2 = ms_fma(v_62.z, v_63.z, sum_2_2);
                    sum_2_3 = ms_fma(v_62.z, v_63.w, sum_2_3);
                    sum_3_0 = ms_fma(v_62.w, v_63.x, sum_3_0);
                    sum_3_1 = ms_fma(v_62.w, v_63.y, sum_3_1);
                    sum_3_2 = ms_fma(v_62.w, v_63.z, sum_3_2);
                    sum_3_3 = ms_fma(v_62.w, v_63.w, sum_3_3);
                }
            }
            workgroupBarrier();
            const auto a_64 = r_2 * idx(36) + q_1;
            (&left[0].x)[a_64] = v_7;
            (&left[0].x)[(a_64 + idx(36))] = v_8;
            (&left[0].x)[(a_64 + idx(72))] = v_9;
            (&left[0].x)[(a_64 + idx(108))] = v_10;
            const auto a_65 = r_2 * idx(36) + q_11;
            (&left[0].x)[a_65] = v_16;
            (&left[0].x)[(a_65 + idx(36))] = v_17;
            (&left[0].x)[(a_65 + idx(72))] = v_18;
            (&left[0].x)[(a_65 + idx(108))] = v_19;
            const auto a_66 = q_20 * idx(36) + r_21;
            right[a_66 >> 2u] = vec4<f32>(v_26, v_27, v_28, v_29);
            const auto a_67 = q_30 * idx(36) + r_21;
            right[a_67 >> 2u] = vec4<f32>(v_31, v_32, v_33, v_34);
            workgroupBarrier();
        }
        release();
        const auto n_68 = first_n + x * idx(4) + idx(0);
        const auto n_69 = first_n + x * idx(4) + idx(1);
        const auto n_70 = first_n + x * idx(4) + idx(2);
        const auto n_71 = first_n + x * idx(4) + idx(3);
        const auto m_72 = first_m + y * idx(4) + idx(0);
        if (m_72 < size_m) {
            if (n_68 < size_n) {
                const auto p_73 = base2 + n_68;
                const auto x_74 = b2[p_73];
                const auto t_75 = (sum_0_0 + keep_f32(x_74));
                const auto p_76 = base2 + n_69;
                const auto x_77 = b2[p_76];
                const auto t_78 = (sum_0_1 + keep_f32(x_77));
                const auto p_79 = base2 + n_70;
                const auto x_80 = b2[p_79];
                const auto t_81 = (sum_0_2 + keep_f32(x_80));
                const auto p_82 = base2 + n_71;
                const auto x_83 = b2[p_82];
                const auto t_84 = (sum_0_3 + keep_f32(x_83));
                const auto p_85 = base3 + m_72 * stride3_0 + n_68;
                v3[p_85 >> 2u] = vec4<f32>(t_75, t_78, t_81, t_84);
            }
        }
        const auto m_86 = first_m + y * idx(4) + idx(1);
        if (m_86 < size_m) {
            if (n_68 < size_n) {
                const auto p_87 = base2 + n_68;
                const auto x_88 = b2[p_87];
                const auto t_89 = (sum_1_0 + keep_f32(x_88));
                const auto p_90 = base2 + n_69;
                const auto x_91 = b2[p_90];
                const auto t_92 = (sum_1_1 + keep_f32(x_91));
                const auto p_93 = base2 + n_70;
                const auto x_94 = b2[p_93];
                const auto t_95 = (sum_1_2 + keep_f32(x_94));
                const auto p_96 = base2 + n_71;
                const auto x_97 = b2[p_96];
                const auto t_98 = (sum_1_3 + keep_f32(x_97));
                const auto p_99 = base3 + m_86 * stride3_0 + n_68;
                v3[p_99 >> 2u] = vec4<f32>(t_89, t_92, t_95, t_98);
            }
        }
        const auto m_100 = first_m + y * idx(4) + idx(2);
        if (m_100 < size_m) {
            if (n_68 < size_n) {
                const auto p_101 = base2 + n_68;
                const auto x_102 = b2[p_101];
                const auto t_103 = (sum_2_0 + keep_f32(x_102));
                const auto p_104 = base2 + n_69;
                const auto x_105 = b2[p_104];
                const auto t_106 = (sum_2_1 + keep_f32(x_105));
                const auto p_107 = base2 + n_70;
                const auto x_108 = b2[p_107];
                const auto t_109 = (sum_2_2 + keep_f32(x_108));
                const auto p_110 = base2 + n_71;
                const auto x_111 = b2[p_110];
                const auto t_112 = (sum_2_3 + keep_f32(x_111));
                const auto p_113 = base3 + m_100 * stride3_0 + n_68;
                v3[p_113 >> 2u] = vec4<f32>(t_103, t_106, t_109, t_112);
            }
        }
        const auto m_114 = first_m + y * idx(4) + idx(3);
        if (m_114 < size_m) {
            if (n_68 < size_n) {
                const auto p_115 = base2 + n_68;
                const auto x_116 = b2[p_115];
                const auto t_117 = (sum_3_0 + keep_f32(x_116));
                const auto p_118 = base2 + n_69;
                const auto x_119 = b2[p_118];
                const auto t_120 = (sum_3_1 + keep_f32(x_119));
                const auto p_121 = base2 + n_70;
                const auto x_122 = b2[p_121];
                const auto t_123 = (sum_3_2 + keep_f32(x_122));
                const auto p_124 = base2 + n_71;
                const auto x_125 = b2[p_124];
                const auto t_126 = (sum_3_3 + keep_f32(x_125));
                const auto p_127 = base3 + m_114 * stride3_0 + n_68;
                v3[p_127 >> 2u] = vec4<f32>(t_117, t_120, t_123, t_126);
            }
        }
    }
}
extern "C" __global__ void __launch_bounds__(64) contract_by_one(const f32* b0, const f32* b1, const f32* b2, f32* __restrict__ b3, const __grid_constant__ Args args) {
    auto const v0 = (const vec4<f32>*)b0;
    auto const v1 = (const vec4<f32>*)b1;
    auto const v2 = (const vec4<f32>*)b2;
    auto const v3 = (vec4<f32>*)b3;
    const idx lane = threadIdx.x;
    const idx group = blockIdx.x + idx(blockIdx.y) * gridDim.x;
    const idx groups = idx(gridDim.x) * gridDim.y;
    wait_for_last();
    const auto number0 = bitcast<idx>(args.w[0]);
    const auto number1 = bitcast<idx>(args.w[1]);
    const auto number2 = bitcast<idx>(args.w[2]);
    const auto number3 = bitcast<idx>(args.w[3]);
    const auto number4 = bitcast<idx>(args.w[4]);
    const auto number5 = bitcast<idx>(args.w[5]);
    const auto base0 = bitcast<idx>(args.w[6]);
    const auto stride0_0 = bitcast<idx>(args.w[7]);
    const auto base1 = bitcast<idx>(args.w[8]);
    const auto stride1_2 = bitcast<idx>(args.w[9]);
    const auto base2 = bitcast<idx>(args.w[10]);
    const auto base3 = bitcast<idx>(args.w[11]);
    const auto stride3_0 = bitcast<idx>(args.w[12]);
    const auto size_m = number3;
    const auto size_n = number4;
    const auto size_k = number5;
    const auto y = quotient(lane, idx(8));
    const auto x = lane - y * idx(8);
    for (auto tile = group; tile < number2; tile += groups) {
        const auto slice = quotient(tile, number1);
        const auto within = tile - slice * number1;
        const auto tile_m = quotient(within, number0);
        const auto first_m = tile_m * idx(32);
        const auto first_n = (within - tile_m * number0) * idx(32);
        const auto batch = slice;
        const auto begin = idx(0);
        const auto until = size_k;
        auto sum_0_0 = 0.0f;
        auto sum_0_1 = 0.0f;
        auto sum_0_2 = 0.0f;
        auto sum_0_3 = 0.0f;
        auto sum_1_0 = 0.0f;
        auto sum_1_1 = 0.0f;
        auto sum_1_2 = 0.0f;
        auto sum_1_3 = 0.0f;
        auto sum_2_0 = 0.0f;
        auto sum_2_1 = 0.0f;
        auto sum_2_2 = 0.0f;
        auto sum_2_3 = 0.0f;
        auto sum_3_0 = 0.0f;
        auto sum_3_1 = 0.0f;
        auto sum_3_2 = 0.0f;
        auto sum_3_3 = 0.0f;
        const auto q_1 = quotient(lane, idx(16));
        const auto r_2 = (lane - q_1 * idx(16)) * idx(1);
        const auto o_3 = first_m + q_1;
        const auto inside_4 = o_3 < size_m;
        const auto o_5 = ms_select(idx(0), o_3, inside_4);
        const auto p_6 = base0 + o_5 * stride0_0;
        const auto q_8 = q_1 + idx(4);
        const auto o_9 = first_m + q_8;
        const auto inside_10 = o_9 < size_m;
        const auto o_11 = ms_select(idx(0), o_9, inside_10);
        const auto p_12 = base0 + o_11 * stride0_0;
        const auto q_14 = q_1 + idx(8);
        const auto o_15 = first_m + q_14;
        const auto inside_16 = o_15 < size_m;
        const auto o_17 = ms_select(idx(0), o_15, inside_16);
        const auto p_18 = base0 + o_17 * stride0_0;
        const auto q_20 = q_1 + idx(12);
        const auto o_21 = first_m + q_20;
        const auto inside_22 = o_21 < size_m;
        const auto o_23 = ms_select(idx(0), o_21, inside_22);
        const auto p_24 = base0 + o_23 * stride0_0;
        const auto q_26 = q_1 + idx(16);
        const auto o_27 = first_m + q_26;
        const auto inside_28 = o_27 < size_m;
        const auto o_29 = ms_select(idx(0), o_27, inside_28);
        const auto p_30 = base0 + o_29 * stride0_0;
        const auto q_32 = q_1 + idx(20);
        const auto o_33 = first_m + q_32;
        const auto inside_34 = o_33 < size_m;
        const auto o_35 = ms_select(idx(0), o_33, inside_34);
        const auto p_36 = base0 + o_35 * stride0_0;
        const auto q_38 = q_1 + idx(24);
        const auto o_39 = first_m + q_38;
        const auto inside_40 = o_39 < size_m;
        const auto o_41 = ms_select(idx(0), o_39, inside_40);
        const auto p_42 = base0 + o_41 * stride0_0;
        const auto q_44 = q_1 + idx(28);
        const auto o_45 = first_m + q_44;
        const auto inside_46 = o_45 < size_m;
        const auto o_47 = ms_select(idx(0), o_45, inside_46);
        const auto p_48 = base0 + o_47 * stride0_0;
        auto v_7 = 0.0f;
        auto v_13 = 0.0f;
        auto v_19 = 0.0f;
        auto v_25 = 0.0f;
        auto v_31 = 0.0f;
        auto v_37 = 0.0f;
        auto v_43 = 0.0f;
        auto v_49 = 0.0f;
        const auto q_50 = quotient(lane, idx(32));
        const auto r_51 = (lane - q_50 * idx(32)) * idx(1);
        const auto o_52 = first_n + r_51;
        const auto inside_53 = o_52 < size_n;
        const auto o_54 = ms_select(idx(0), o_52, inside_53);
        const auto p_55 = base1 + o_54;
        const auto q_57 = q_50 + idx(2);
        const auto q_59 = q_50 + idx(4);
        const auto q_61 = q_50 + idx(6);
        const auto q_63 = q_50 + idx(8);
        const auto q_65 = q_50 + idx(10);
        const auto q_67 = q_50 + idx(12);
        const auto q_69 = q_50 + idx(14);
        auto v_56 = 0.0f;
        auto v_58 = 0.0f;
        auto v_60 = 0.0f;
        auto v_62 = 0.0f;
        auto v_64 = 0.0f;
        auto v_66 = 0.0f;
        auto v_68 = 0.0f;
        auto v_70 = 0.0f;
        for (auto k0 = begin; k0 < until + idx(16); k0 += idx(16)) {
            const auto k_71 = k0 + r_2;
            const auto p_72 = p_6 + k_71;
            v_7 = 0.0f;
            if ((k_71 < until)) {
                const auto x_73 = b0[p_72];
                v_7 = x_73;
            }
            const auto p_74 = p_12 + k_71;
            v_13 = 0.0f;
            if ((k_71 < until)) {
                const auto x_75 = b0[p_74];
                v_13 = x_75;
            }
            const auto p_76 = p_18 + k_71;
            v_19 = 0.0f;
            if ((k_71 < until)) {
                const auto x_77 = b0[p_76];
                v_19 = x_77;
            }
            const auto p_78 = p_24 + k_71;
            v_25 = 0.0f;
            if ((k_71 < until)) {
                const auto x_79 = b0[p_78];
                v_25 = x_79;
            }
            const auto p_80 = p_30 + k_71;
            v_31 = 0.0f;
            if ((k_71 < until)) {
                const auto x_81 = b0[p_80];
                v_31 = x_81;
            }
            const auto p_82 = p_36 + k_71;
            v_37 = 0.0f;
            if ((k_71 < until)) {
                const auto x_83 = b0[p_82];
                v_37 = x_83;
            }
            const auto p_84 = p_42 + k_71;
            v_43 = 0.0f;
            if ((k_71 < until)) {
                const auto x_85 = b0[p_84];
                v_43 = x_85;
            }
            const auto p_86 = p_48 + k_71;
            v_49 = 0.0f;
            if ((k_71 < until)) {
                const auto x_87 = b0[p_86];
                v_49 = x_87;
            }
            const auto k_88 = k0 + q_50;
            const auto p_89 = p_55 + k_88 * stride1_2;
            v_56 = 0.0f;
            if ((k_88 < until)) {
                const auto x_90 = b1[p_89];
                v_56 = x_90;
            }
            const auto k_91 = k0 + q_57;
            const auto p_92 = p_55 + k_91 * stride1_2;
            v_58 = 0.0f;
            if ((k_91 < until)) {
                const auto x_93 = b1[p_92];
                v_58 = x_93;
            }
            const auto k_94 = k0 + q_59;
            const auto p_95 = p_55 + k_94 * stride1_2;
            v_60 = 0.0f;
            if ((k_94 < until)) {
                const auto x_96 = b1[p_95];
                v_60 = x_96;
            }
            const auto k_97 = k0 + q_61;
            const auto p_98 = p_55 + k_97 * stride1_2;
            v_62 = 0.0f;
            if ((k_97 < until)) {
                const auto x_99 = b1[p_98];
                v_62 = x_99;
            }
            const auto k_100 = k0 + q_63;
            const auto p_101 = p_55 + k_100 * stride1_2;
            v_64 = 0.0f;
            if ((k_100 < until)) {
                const auto x_102 = b1[p_101];
                v_64 = x_102;
            }
            const auto k_103 = k0 + q_65;
            const auto p_104 = p_55 + k_103 * stride1_2;
            v_66 = 0.0f;
            if ((k_103 < until)) {
                const auto x_105 = b1[p_104];
                v_66 = x_105;
            }
            const auto k_106 = k0 + q_67;
            const auto p_107 = p_55 + k_106 * stride1_2;
            v_68 = 0.0f;
            if ((k_106 < until)) {
                const auto x_108 = b1[p_107];
                v_68 = x_108;
            }
            const auto k_109 = k0 + q_69;
            const auto p_110 = p_55 + k_109 * stride1_2;
            v_70 = 0.0f;
            if ((k_109 < until)) {
                const auto x_111 = b1[p_110];
                v_70 = x_111;
            }
            if (k0 > begin) {
                for (auto kk = idx(0); kk < idx(16); kk += idx(1)) {
                    const auto v_112 = left[(kk * idx(36) + y * idx(4) + idx(0)) >> 2u];
                    const auto v_113 = right[(kk * idx(36) + x * idx(4) + idx(0)) >> 2u];
                    sum_0_0 = ms_fma(v_112.x, v_113.x, sum_0_0);
                    sum_0_1 = ms_fma(v_112.x, v_113.y, sum_0_1);
                    sum_0_2 = ms_fma(v_112.x, v_113.z, sum_0_2);
                    sum_0_3 = ms_fma(v_112.x, v_113.w, sum_0_3);
                    sum_1_0 = ms_fma(v_112.y, v_113.x, sum_1_0);
                    sum_1_1 = ms_fma(v_112.y, v_113.y, sum_1_1);
                    sum_1_2 = ms_fma(v_112.y, v_113.z, sum_1_2);
                    sum_1_3 = ms_fma(v_112.y, v_113.w, sum_1_3);
                    sum_2_0 = ms_fma(v_112.z, v_113.x, sum_2_0);
                    sum_2_1 = ms_fma(v_112.z, v_113.y, sum_2_1);
                    sum_2_2 = ms_fma(v_112.z, v_113.z, sum_2_2);
                    sum_2_3 = ms_fma(v_112.z, v_113.w, sum_2_3);
                    sum_3_0 = ms_fma(v_112.w, v_113.x, sum_3_0);
                    sum_3_1 = ms_fma(v_112.w, v_113.y, sum_3_1);
                    sum_3_2 = ms_fma(v_112.w, v_113.z, sum_3_2);
                    sum_3_3 = ms_fma(v_112.w, v_113.w, sum_3_3);
                }
            }
            workgroupBarrier();
            const auto a_114 = r_2 * idx(36) + q_1;
            (&left[0].x)[a_114] = v_7;
            const auto a_115 = r_2 * idx(36) + q_8;
            (&left[0].x)[a_115] = v_13;
            const auto a_116 = r_2 * idx(36) + q_14;
            (&left[0].x)[a_116] = v_19;
            const auto a_117 = r_2 * idx(36) + q_20;
            (&left[0].x)[a_117] = v_25;
            const auto a_118 = r_2 * idx(36) + q_26;
            (&left[0].x)[a_118] = v_31;
            const auto a_119 = r_2 * idx(36) + q_32;
            (&left[0].x)[a_119] = v_37;
            const auto a_120 = r_2 * idx(36) + q_38;
            (&left[0].x)[a_120] = v_43;
            const auto a_121 = r_2 * idx(36) + q_44;
            (&left[0].x)[a_121] = v_49;
            const auto a_122 = q_50 * idx(36) + r_51;
            (&right[0].x)[a_122] = v_56;
            const auto a_123 = q_57 * idx(36) + r_51;
            (&right[0].x)[a_123] = v_58;
            const auto a_124 = q_59 * idx(36) + r_51;
            (&right[0].x)[a_124] = v_60;
            const auto a_125 = q_61 * idx(36) + r_51;
            (&right[0].x)[a_125] = v_62;
            const auto a_126 = q_63 * idx(36) + r_51;
            (&right[0].x)[a_126] = v_64;
            const auto a_127 = q_65 * idx(36) + r_51;
            (&right[0].x)[a_127] = v_66;
            const auto a_128 = q_67 * idx(36) + r_51;
            (&right[0].x)[a_128] = v_68;
            const auto a_129 = q_69 * idx(36) + r_51;
            (&right[0].x)[a_129] = v_70;
            workgroupBarrier();
        }
        release();
        const auto n_130 = first_n + x * idx(4) + idx(0);
        const auto n_131 = first_n + x * idx(4) + idx(1);
        const auto n_132 = first_n + x * idx(4) + idx(2);
        const auto n_133 = first_n + x * idx(4) + idx(3);
        const auto m_134 = first_m + y * idx(4) + idx(0);
        if (m_134 < size_m) {
            if (n_130 < size_n) {
                const auto p_135 = base2 + n_130;
                const auto x_136 = b2[p_135];
                const auto t_137 = (sum_0_0 + keep_f32(x_136));
                const auto p_138 = base3 + m_134 * stride3_0 + n_130;
                b3[p_138] = t_137;
            }
            if (n_131 < size_n) {
                const auto p_139 = base2 + n_131;
                const auto x_140 = b2[p_139];
                const auto t_141 = (sum_0_1 + keep_f32(x_140));
                const auto p_142 = base3 + m_134 * stride3_0 + n_131;
                b3[p_142] = t_141;
            }
            if (n_132 < size_n) {
                const auto p_143 = base2 + n_132;
                const auto x_144 = b2[p_143];
                const auto t_145 = (sum_0_2 + keep_f32(x_144));
                const auto p_146 = base3 + m_134 * stride3_0 + n_132;
                b3[p_146] = t_145;
            }
            if (n_133 < size_n) {
                const auto p_147 = base2 + n_133;
                const auto x_148 = b2[p_147];
                const auto t_149 = (sum_0_3 + keep_f32(x_148));
                const auto p_150 = base3 + m_134 * stride3_0 + n_133;
                b3[p_150] = t_149;
            }
        }
        const auto m_151 = first_m + y * idx(4) + idx(1);
        if (m_151 < size_m) {
            if (n_130 < size_n) {
                const auto p_152 = base2 + n_130;
                const auto x_153 = b2[p_152];
                const auto t_154 = (sum_1_0 + keep_f32(x_153));
                const auto p_155 = base3 + m_151 * stride3_0 + n_130;
                b3[p_155] = t_154;
            }
            if (n_131 < size_n) {
                const auto p_156 = base2 + n_131;
                const auto x_157 = b2[p_156];
                const auto t_158 = (sum_1_1 + keep_f32(x_157));
                const auto p_159 = base3 + m_151 * stride3_0 + n_131;
                b3[p_159] = t_158;
            }
            if (n_132 < size_n) {
                const auto p_160 = base2 + n_132;
                const auto x_161 = b2[p_160];
                const auto t_162 = (sum_1_2 + keep_f32(x_161));
                const auto p_163 = base3 + m_151 * stride3_0 + n_132;
                b3[p_163] = t_162;
            }
            if (n_133 < size_n) {
                const auto p_164 = base2 + n_133;
                const auto x_165 = b2[p_164];
                const auto t_166 = (sum_1_3 + keep_f32(x_165));
                const auto p_167 = base3 + m_151 * stride3_0 + n_133;
                b3[p_167] = t_166;
            }
        }
        const auto m_168 = first_m + y * idx(4) + idx(2);
        if (m_168 < size_m) {
            if (n_130 < size_n) {
                const auto p_169 = base2 + n_130;
                const auto x_170 = b2[p_169];
                const auto t_171 = (sum_2_0 + keep_f32(x_170));
                const auto p_172 = base3 + m_168 * stride3_0 + n_130;
                b3[p_172] = t_171;
            }
            if (n_131 < size_n) {
                const auto p_173 = base2 + n_131;
                const auto x_174 = b2[p_173];
                const auto t_175 = (sum_2_1 + keep_f32(x_174));
                const auto p_176 = base3 + m_168 * stride3_0 + n_131;
                b3[p_176] = t_175;
            }
            if (n_132 < size_n) {
                const auto p_177 = base2 + n_132;
                const auto x_178 = b2[p_177];
                const auto t_179 = (sum_2_2 + keep_f32(x_178));
                const auto p_180 = base3 + m_168 * stride3_0 + n_132;
                b3[p_180] = t_179;
            }
            if (n_133 < size_n) {
                const auto p_181 = base2 + n_133;
                const auto x_182 = b2[p_181];
                const auto t_183 = (sum_2_3 + keep_f32(x_182));
                const auto p_184 = base3 + m_168 * stride3_0 + n_133;
                b3[p_184] = t_183;
            }
        }
        const auto m_185 = first_m + y * idx(4) + idx(3);
        if (m_185 < size_m) {
            if (n_130 < size_n) {
                const auto p_186 = base2 + n_130;
                const auto x_187 = b2[p_186];
                const auto t_188 = (sum_3_0 + keep_f32(x_187));
                const auto p_189 = base3 + m_185 * stride3_0 + n_130;
                b3[p_189] = t_188;
            }
            if (n_131 < size_n) {
                const auto p_190 = base2 + n_131;
                const auto x_191 = b2[p_190];
                const auto t_192 = (sum_3_1 + keep_f32(x_191));
                const auto p_193 = base3 + m_185 * stride3_0 + n_131;
                b3[p_193] = t_192;
            }
            if (n_132 < size_n) {
                const auto p_194 = base2 + n_132;
                const auto x_195 = b2[p_194];
                const auto t_196 = (sum_3_2 + keep_f32(x_195));
                const auto p_197 = base3 + m_185 * stride3_0 + n_132;
                b3[p_197] = t_196;
            }
            if (n_133 < size_n) {
                const auto p_198 = base2 + n_133;
                const auto x_199 = b2[p_198];
                const auto t_200 = (sum_3_3 + keep_f32(x_199));
                const auto p_201 = base3 + m_185 * stride3_0 + n_133;
                b3[p_201] = t_200;
            }
        }
    }
}
