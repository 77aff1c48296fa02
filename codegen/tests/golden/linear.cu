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
    follow();
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
        const auto batch = quotient(tile, number1);
        const auto within = tile - batch * number1;
        const auto tile_m = quotient(within, number0);
        const auto first_m = tile_m * idx(32);
        const auto first_n = (within - tile_m * number0) * idx(32);
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
        const auto s_1 = lane + idx(0);
        const auto q_2 = quotient(s_1, idx(4));
        const auto r_3 = (s_1 - q_2 * idx(4)) * idx(4);
        const auto o_4 = first_m + q_2;
        const auto inside_5 = o_4 < size_m;
        const auto o_6 = ms_select(idx(0), o_4, inside_5);
        const auto s_11 = lane + idx(64);
        const auto q_12 = quotient(s_11, idx(4));
        const auto r_13 = (s_11 - q_12 * idx(4)) * idx(4);
        const auto o_14 = first_m + q_12;
        const auto inside_15 = o_14 < size_m;
        const auto o_16 = ms_select(idx(0), o_14, inside_15);
        auto v_7 = 0.0f;
        auto v_8 = 0.0f;
        auto v_9 = 0.0f;
        auto v_10 = 0.0f;
        auto v_17 = 0.0f;
        auto v_18 = 0.0f;
        auto v_19 = 0.0f;
        auto v_20 = 0.0f;
        const auto s_21 = lane + idx(0);
        const auto q_22 = quotient(s_21, idx(8));
        const auto r_23 = (s_21 - q_22 * idx(8)) * idx(4);
        const auto o_24 = first_n + r_23;
        const auto inside_25 = o_24 < size_n;
        const auto o_26 = ms_select(idx(0), o_24, inside_25);
        const auto s_31 = lane + idx(64);
        const auto q_32 = quotient(s_31, idx(8));
        const auto r_33 = (s_31 - q_32 * idx(8)) * idx(4);
        const auto o_34 = first_n + r_33;
        const auto inside_35 = o_34 < size_n;
        const auto o_36 = ms_select(idx(0), o_34, inside_35);
        auto v_27 = 0.0f;
        auto v_28 = 0.0f;
        auto v_29 = 0.0f;
        auto v_30 = 0.0f;
        auto v_37 = 0.0f;
        auto v_38 = 0.0f;
        auto v_39 = 0.0f;
        auto v_40 = 0.0f;
        for (auto k0 = idx(0); k0 < size_k + idx(16); k0 += idx(16)) {
            v_7 = 0.0f;
            v_8 = 0.0f;
            v_9 = 0.0f;
            v_10 = 0.0f;
            const auto k_41 = k0 + r_3;
            if (inside_5 && k_41 < size_k) {
                const auto p_42 = base0 + o_6 * stride0_0 + k_41;
                const auto v_43 = v0[p_42 >> 2u];
                const auto x_44 = v_43.x;
                const auto x_45 = v_43.y;
                const auto x_46 = v_43.z;
                const auto x_47 = v_43.w;
                v_7 = x_44;
                v_8 = x_45;
                v_9 = x_46;
                v_10 = x_47;
            }
            v_17 = 0.0f;
            v_18 = 0.0f;
            v_19 = 0.0f;
            v_20 = 0.0f;
            const auto k_48 = k0 + r_13;
            if (inside_15 && k_48 < size_k) {
                const auto p_49 = base0 + o_16 * stride0_0 + k_48;
                const auto v_50 = v0[p_49 >> 2u];
                const auto x_51 = v_50.x;
                const auto x_52 = v_50.y;
                const auto x_53 = v_50.z;
                const auto x_54 = v_50.w;
                v_17 = x_51;
                v_18 = x_52;
                v_19 = x_53;
                v_20 = x_54;
            }
            v_27 = 0.0f;
            v_28 = 0.0f;
            v_29 = 0.0f;
            v_30 = 0.0f;
            const auto k_55 = k0 + q_22;
            if (inside_25 && k_55 < size_k) {
                const auto p_56 = base1 + o_26 + k_55 * stride1_2;
                const auto v_57 = v1[p_56 >> 2u];
                const auto x_58 = v_57.x;
                const auto x_59 = v_57.y;
                const auto x_60 = v_57.z;
                const auto x_61 = v_57.w;
                v_27 = x_58;
                v_28 = x_59;
                v_29 = x_60;
                v_30 = x_61;
            }
            v_37 = 0.0f;
            v_38 = 0.0f;
            v_39 = 0.0f;
            v_40 = 0.0f;
            const auto k_62 = k0 + q_32;
            if (inside_35 && k_62 < size_k) {
                const auto p_63 = base1 + o_36 + k_62 * stride1_2;
                const auto v_64 = v1[p_63 >> 2u];
                const auto x_65 = v_64.x;
                const auto x_66 = v_64.y;
                const auto x_67 = v_64.z;
                const auto x_68 = v_64.w;
                v_37 = x_65;
                v_38 = x_66;
                v_39 = x_67;
                v_40 = x_68;
            }
            if (k0 > idx(0)) {
                for (auto kk = idx(0); kk < idx(16); kk += idx(1)) {
                    const auto v_69 = left[(kk * idx(36) + y * idx(4) + idx(0)) >> 2u];
                    const auto v_70 = right[(kk * idx(36) + x * idx(4) + idx(0)) >> 2u];
                    sum_0_0 = ms_fma(v_69.x, v_70.x, sum_0_0);
                    sum_0_1 = ms_fma(v_69.x, v_70.y, sum_0_1);
                    sum_0_2 = ms_fma(v_69.x, v_70.z, sum_0_2);
                    sum_0_3 = ms_fma(v_69.x, v_70.w, sum_0_3);
                    sum_1_0 = ms_fma(v_69.y, v_70.x, sum_1_0);
                    sum_1_1 = ms_fma(v_69.y, v_70.y, sum_1_1);
                    sum_1_2 = ms_fma(v_69.y, v_70.z, sum_1_2);
                    sum_1_3 = ms_fma(v_69.y, v_70.w, sum_1_3);
                    sum_2_0 = ms_fma(v_69.z, v_70.x, sum_2_0);
                    sum_2_1 = ms_fma(v_69.z, v_70.y, sum_2_1);
                    sum_2_2 = ms_fma(v_69.z, v_70.z, sum_2_2);
                    sum_2_3 = ms_fma(v_69.z, v_70.w, sum_2_3);
                    sum_3_0 = ms_fma(v_69.w, v_70.x, sum_3_0);
                    sum_3_1 = ms_fma(v_69.w, v_70.y, sum_3_1);
                    sum_3_2 = ms_fma(v_69.w, v_70.z, sum_3_2);
                    sum_3_3 = ms_fma(v_69.w, v_70.w, sum_3_3);
                }
            }
            workgroupBarrier();
            const auto a_71 = r_3 * idx(36) + q_2;
            left[a_71 >> 2u][u32(a_71) & 3u] = v_7;
            left[(a_71 + idx(36)) >> 2u][u32((a_71 + idx(36))) & 3u] = v_8;
            left[(a_71 + idx(72)) >> 2u][u32((a_71 + idx(72))) & 3u] = v_9;
            left[(a_71 + idx(108)) >> 2u][u32((a_71 + idx(108))) & 3u] = v_10;
            const auto a_72 = r_13 * idx(36) + q_12;
            left[a_72 >> 2u][u32(a_72) & 3u] = v_17;
            left[(a_72 + idx(36)) >> 2u][u32((a_72 + idx(36))) & 3u] = v_18;
            left[(a_72 + idx(72)) >> 2u][u32((a_72 + idx(72))) & 3u] = v_19;
            left[(a_72 + idx(108)) >> 2u][u32((a_72 + idx(108))) & 3u] = v_20;
            const auto a_73 = q_22 * idx(36) + r_23;
            right[a_73 >> 2u] = vec4<f32>(v_27, v_28, v_29, v_30);
            const auto a_74 = q_32 * idx(36) + r_33;
            right[a_74 >> 2u] = vec4<f32>(v_37, v_38, v_39, v_40);
            workgroupBarrier();
        }
        const auto n_75 = first_n + x * idx(4) + idx(0);
        const auto n_76 = first_n + x * idx(4) + idx(1);
        const auto n_77 = first_n + x * idx(4) + idx(2);
        const auto n_78 = first_n + x * idx(4) + idx(3);
        const auto m_79 = first_m + y * idx(4) + idx(0);
        if (m_79 < size_m) {
            if (n_75 < size_n) {
                const auto p_80 = base2 + n_75;
                const auto x_81 = b2[p_80];
                const auto t_82 = (sum_0_0 + keep_f32(x_81));
                const auto p_83 = base2 + n_76;
                const auto x_84 = b2[p_83];
                const auto t_85 = (sum_0_1 + keep_f32(x_84));
                const auto p_86 = base2 + n_77;
                const auto x_87 = b2[p_86];
                const auto t_88 = (sum_0_2 + keep_f32(x_87));
                const auto p_89 = base2 + n_78;
                const auto x_90 = b2[p_89];
                const auto t_91 = (sum_0_3 + keep_f32(x_90));
                const auto p_92 = base3 + m_79 * stride3_0 + n_75;
                v3[p_92 >> 2u] = vec4<f32>(t_82, t_85, t_88, t_91);
            }
        }
        const auto m_93 = first_m + y * idx(4) + idx(1);
        if (m_93 < size_m) {
            if (n_75 < size_n) {
                const auto p_94 = base2 + n_75;
                const auto x_95 = b2[p_94];
                const auto t_96 = (sum_1_0 + keep_f32(x_95));
                const auto p_97 = base2 + n_76;
                const auto x_98 = b2[p_97];
                const auto t_99 = (sum_1_1 + keep_f32(x_98));
                const auto p_100 = base2 + n_77;
                const auto x_101 = b2[p_100];
                const auto t_102 = (sum_1_2 + keep_f32(x_101));
                const auto p_103 = base2 + n_78;
                const auto x_104 = b2[p_103];
                const auto t_105 = (sum_1_3 + keep_f32(x_104));
                const auto p_106 = base3 + m_93 * stride3_0 + n_75;
                v3[p_106 >> 2u] = vec4<f32>(t_96, t_99, t_102, t_105);
            }
        }
        const auto m_107 = first_m + y * idx(4) + idx(2);
        if (m_107 < size_m) {
            if (n_75 < size_n) {
                const auto p_108 = base2 + n_75;
                const auto x_109 = b2[p_108];
                const auto t_110 = (sum_2_0 + keep_f32(x_109));
                const auto p_111 = base2 + n_76;
                const auto x_112 = b2[p_111];
                const auto t_113 = (sum_2_1 + keep_f32(x_112));
                const auto p_114 = base2 + n_77;
                const auto x_115 = b2[p_114];
                const auto t_116 = (sum_2_2 + keep_f32(x_115));
                const auto p_117 = base2 + n_78;
                const auto x_118 = b2[p_117];
                const auto t_119 = (sum_2_3 + keep_f32(x_118));
                const auto p_120 = base3 + m_107 * stride3_0 + n_75;
                v3[p_120 >> 2u] = vec4<f32>(t_110, t_113, t_116, t_119);
            }
        }
        const auto m_121 = first_m + y * idx(4) + idx(3);
        if (m_121 < size_m) {
            if (n_75 < size_n) {
                const auto p_122 = base2 + n_75;
                const auto x_123 = b2[p_122];
                const auto t_124 = (sum_3_0 + keep_f32(x_123));
                const auto p_125 = base2 + n_76;
                const auto x_126 = b2[p_125];
                const auto t_127 = (sum_3_1 + keep_f32(x_126));
                const auto p_128 = base2 + n_77;
                const auto x_129 = b2[p_128];
                const auto t_130 = (sum_3_2 + keep_f32(x_129));
                const auto p_131 = base2 + n_78;
                const auto x_132 = b2[p_131];
                const auto t_133 = (sum_3_3 + keep_f32(x_132));
                const auto p_134 = base3 + m_121 * stride3_0 + n_75;
                v3[p_134 >> 2u] = vec4<f32>(t_124, t_127, t_130, t_133);
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
    follow();
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
        const auto batch = quotient(tile, number1);
        const auto within = tile - batch * number1;
        const auto tile_m = quotient(within, number0);
        const auto first_m = tile_m * idx(32);
        const auto first_n = (within - tile_m * number0) * idx(32);
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
        const auto s_1 = lane + idx(0);
        const auto q_2 = quotient(s_1, idx(16));
        const auto r_3 = (s_1 - q_2 * idx(16)) * idx(1);
        const auto o_4 = first_m + q_2;
        const auto inside_5 = o_4 < size_m;
        const auto o_6 = ms_select(idx(0), o_4, inside_5);
        const auto s_8 = lane + idx(64);
        const auto q_9 = quotient(s_8, idx(16));
        const auto r_10 = (s_8 - q_9 * idx(16)) * idx(1);
        const auto o_11 = first_m + q_9;
        const auto inside_12 = o_11 < size_m;
        const auto o_13 = ms_select(idx(0), o_11, inside_12);
        const auto s_15 = lane + idx(128);
        const auto q_16 = quotient(s_15, idx(16));
        const auto r_17 = (s_15 - q_16 * idx(16)) * idx(1);
        const auto o_18 = first_m + q_16;
        const auto inside_19 = o_18 < size_m;
        const auto o_20 = ms_select(idx(0), o_18, inside_19);
        const auto s_22 = lane + idx(192);
        const auto q_23 = quotient(s_22, idx(16));
        const auto r_24 = (s_22 - q_23 * idx(16)) * idx(1);
        const auto o_25 = first_m + q_23;
        const auto inside_26 = o_25 < size_m;
        const auto o_27 = ms_select(idx(0), o_25, inside_26);
        const auto s_29 = lane + idx(256);
        const auto q_30 = quotient(s_29, idx(16));
        const auto r_31 = (s_29 - q_30 * idx(16)) * idx(1);
        const auto o_32 = first_m + q_30;
        const auto inside_33 = o_32 < size_m;
        const auto o_34 = ms_select(idx(0), o_32, inside_33);
        const auto s_36 = lane + idx(320);
        const auto q_37 = quotient(s_36, idx(16));
        const auto r_38 = (s_36 - q_37 * idx(16)) * idx(1);
        const auto o_39 = first_m + q_37;
        const auto inside_40 = o_39 < size_m;
        const auto o_41 = ms_select(idx(0), o_39, inside_40);
        const auto s_43 = lane + idx(384);
        const auto q_44 = quotient(s_43, idx(16));
        const auto r_45 = (s_43 - q_44 * idx(16)) * idx(1);
        const auto o_46 = first_m + q_44;
        const auto inside_47 = o_46 < size_m;
        const auto o_48 = ms_select(idx(0), o_46, inside_47);
        const auto s_50 = lane + idx(448);
        const auto q_51 = quotient(s_50, idx(16));
        const auto r_52 = (s_50 - q_51 * idx(16)) * idx(1);
        const auto o_53 = first_m + q_51;
        const auto inside_54 = o_53 < size_m;
        const auto o_55 = ms_select(idx(0), o_53, inside_54);
        auto v_7 = 0.0f;
        auto v_14 = 0.0f;
        auto v_21 = 0.0f;
        auto v_28 = 0.0f;
        auto v_35 = 0.0f;
        auto v_42 = 0.0f;
        auto v_49 = 0.0f;
        auto v_56 = 0.0f;
        const auto s_57 = lane + idx(0);
        const auto q_58 = quotient(s_57, idx(32));
        const auto r_59 = (s_57 - q_58 * idx(32)) * idx(1);
        const auto o_60 = first_n + r_59;
        const auto inside_61 = o_60 < size_n;
        const auto o_62 = ms_select(idx(0), o_60, inside_61);
        const auto s_64 = lane + idx(64);
        const auto q_65 = quotient(s_64, idx(32));
        const auto r_66 = (s_64 - q_65 * idx(32)) * idx(1);
        const auto o_67 = first_n + r_66;
        const auto inside_68 = o_67 < size_n;
        const auto o_69 = ms_select(idx(0), o_67, inside_68);
        const auto s_71 = lane + idx(128);
        const auto q_72 = quotient(s_71, idx(32));
        const auto r_73 = (s_71 - q_72 * idx(32)) * idx(1);
        const auto o_74 = first_n + r_73;
        const auto inside_75 = o_74 < size_n;
        const auto o_76 = ms_select(idx(0), o_74, inside_75);
        const auto s_78 = lane + idx(192);
        const auto q_79 = quotient(s_78, idx(32));
        const auto r_80 = (s_78 - q_79 * idx(32)) * idx(1);
        const auto o_81 = first_n + r_80;
        const auto inside_82 = o_81 < size_n;
        const auto o_83 = ms_select(idx(0), o_81, inside_82);
        const auto s_85 = lane + idx(256);
        const auto q_86 = quotient(s_85, idx(32));
        const auto r_87 = (s_85 - q_86 * idx(32)) * idx(1);
        const auto o_88 = first_n + r_87;
        const auto inside_89 = o_88 < size_n;
        const auto o_90 = ms_select(idx(0), o_88, inside_89);
        const auto s_92 = lane + idx(320);
        const auto q_93 = quotient(s_92, idx(32));
        const auto r_94 = (s_92 - q_93 * idx(32)) * idx(1);
        const auto o_95 = first_n + r_94;
        const auto inside_96 = o_95 < size_n;
        const auto o_97 = ms_select(idx(0), o_95, inside_96);
        const auto s_99 = lane + idx(384);
        const auto q_100 = quotient(s_99, idx(32));
        const auto r_101 = (s_99 - q_100 * idx(32)) * idx(1);
        const auto o_102 = first_n + r_101;
        const auto inside_103 = o_102 < size_n;
        const auto o_104 = ms_select(idx(0), o_102, inside_103);
        const auto s_106 = lane + idx(448);
        const auto q_107 = quotient(s_106, idx(32));
        const auto r_108 = (s_106 - q_107 * idx(32)) * idx(1);
        const auto o_109 = first_n + r_108;
        const auto inside_110 = o_109 < size_n;
        const auto o_111 = ms_select(idx(0), o_109, inside_110);
        auto v_63 = 0.0f;
        auto v_70 = 0.0f;
        auto v_77 = 0.0f;
        auto v_84 = 0.0f;
        auto v_91 = 0.0f;
        auto v_98 = 0.0f;
        auto v_105 = 0.0f;
        auto v_112 = 0.0f;
        for (auto k0 = idx(0); k0 < size_k + idx(16); k0 += idx(16)) {
            v_7 = 0.0f;
            const auto k_113 = k0 + r_3;
            if (inside_5 && k_113 < size_k) {
                const auto p_114 = base0 + o_6 * stride0_0 + k_113;
                const auto x_115 = b0[p_114];
                v_7 = x_115;
            }
            v_14 = 0.0f;
            const auto k_116 = k0 + r_10;
            if (inside_12 && k_116 < size_k) {
                const auto p_117 = base0 + o_13 * stride0_0 + k_116;
                const auto x_118 = b0[p_117];
                v_14 = x_118;
            }
            v_21 = 0.0f;
            const auto k_119 = k0 + r_17;
            if (inside_19 && k_119 < size_k) {
                const auto p_120 = base0 + o_20 * stride0_0 + k_119;
                const auto x_121 = b0[p_120];
                v_21 = x_121;
            }
            v_28 = 0.0f;
            const auto k_122 = k0 + r_24;
            if (inside_26 && k_122 < size_k) {
                const auto p_123 = base0 + o_27 * stride0_0 + k_122;
                const auto x_124 = b0[p_123];
                v_28 = x_124;
            }
            v_35 = 0.0f;
            const auto k_125 = k0 + r_31;
            if (inside_33 && k_125 < size_k) {
                const auto p_126 = base0 + o_34 * stride0_0 + k_125;
                const auto x_127 = b0[p_126];
                v_35 = x_127;
            }
            v_42 = 0.0f;
            const auto k_128 = k0 + r_38;
            if (inside_40 && k_128 < size_k) {
                const auto p_129 = base0 + o_41 * stride0_0 + k_128;
                const auto x_130 = b0[p_129];
                v_42 = x_130;
            }
            v_49 = 0.0f;
            const auto k_131 = k0 + r_45;
            if (inside_47 && k_131 < size_k) {
                const auto p_132 = base0 + o_48 * stride0_0 + k_131;
                const auto x_133 = b0[p_132];
                v_49 = x_133;
            }
            v_56 = 0.0f;
            const auto k_134 = k0 + r_52;
            if (inside_54 && k_134 < size_k) {
                const auto p_135 = base0 + o_55 * stride0_0 + k_134;
                const auto x_136 = b0[p_135];
                v_56 = x_136;
            }
            v_63 = 0.0f;
            const auto k_137 = k0 + q_58;
            if (inside_61 && k_137 < size_k) {
                const auto p_138 = base1 + o_62 + k_137 * stride1_2;
                const auto x_139 = b1[p_138];
                v_63 = x_139;
            }
            v_70 = 0.0f;
            const auto k_140 = k0 + q_65;
            if (inside_68 && k_140 < size_k) {
                const auto p_141 = base1 + o_69 + k_140 * stride1_2;
                const auto x_142 = b1[p_141];
                v_70 = x_142;
            }
            v_77 = 0.0f;
            const auto k_143 = k0 + q_72;
            if (inside_75 && k_143 < size_k) {
                const auto p_144 = base1 + o_76 + k_143 * stride1_2;
                const auto x_145 = b1[p_144];
                v_77 = x_145;
            }
            v_84 = 0.0f;
            const auto k_146 = k0 + q_79;
            if (inside_82 && k_146 < size_k) {
                const auto p_147 = base1 + o_83 + k_146 * stride1_2;
                const auto x_148 = b1[p_147];
                v_84 = x_148;
            }
            v_91 = 0.0f;
            const auto k_149 = k0 + q_86;
            if (inside_89 && k_149 < size_k) {
                const auto p_150 = base1 + o_90 + k_149 * stride1_2;
                const auto x_151 = b1[p_150];
                v_91 = x_151;
            }
            v_98 = 0.0f;
            const auto k_152 = k0 + q_93;
            if (inside_96 && k_152 < size_k) {
                const auto p_153 = base1 + o_97 + k_152 * stride1_2;
                const auto x_154 = b1[p_153];
                v_98 = x_154;
            }
            v_105 = 0.0f;
            const auto k_155 = k0 + q_100;
            if (inside_103 && k_155 < size_k) {
                const auto p_156 = base1 + o_104 + k_155 * stride1_2;
                const auto x_157 = b1[p_156];
                v_105 = x_157;
            }
            v_112 = 0.0f;
            const auto k_158 = k0 + q_107;
            if (inside_110 && k_158 < size_k) {
                const auto p_159 = base1 + o_111 + k_158 * stride1_2;
                const auto x_160 = b1[p_159];
                v_112 = x_160;
            }
            if (k0 > idx(0)) {
                for (auto kk = idx(0); kk < idx(16); kk += idx(1)) {
                    const auto v_161 = left[(kk * idx(36) + y * idx(4) + idx(0)) >> 2u];
                    const auto v_162 = right[(kk * idx(36) + x * idx(4) + idx(0)) >> 2u];
                    sum_0_0 = ms_fma(v_161.x, v_162.x, sum_0_0);
                    sum_0_1 = ms_fma(v_161.x, v_162.y, sum_0_1);
                    sum_0_2 = ms_fma(v_161.x, v_162.z, sum_0_2);
                    sum_0_3 = ms_fma(v_161.x, v_162.w, sum_0_3);
                    sum_1_0 = ms_fma(v_161.y, v_162.x, sum_1_0);
                    sum_1_1 = ms_fma(v_161.y, v_162.y, sum_1_1);
                    sum_1_2 = ms_fma(v_161.y, v_162.z, sum_1_2);
                    sum_1_3 = ms_fma(v_161.y, v_162.w, sum_1_3);
                    sum_2_0 = ms_fma(v_161.z, v_162.x, sum_2_0);
                    sum_2_1 = ms_fma(v_161.z, v_162.y, sum_2_1);
                    sum_2_2 = ms_fma(v_161.z, v_162.z, sum_2_2);
                    sum_2_3 = ms_fma(v_161.z, v_162.w, sum_2_3);
                    sum_3_0 = ms_fma(v_161.w, v_162.x, sum_3_0);
                    sum_3_1 = ms_fma(v_161.w, v_162.y, sum_3_1);
                    sum_3_2 = ms_fma(v_161.w, v_162.z, sum_3_2);
                    sum_3_3 = ms_fma(v_161.w, v_162.w, sum_3_3);
                }
            }
            workgroupBarrier();
            const auto a_163 = r_3 * idx(36) + q_2;
            left[a_163 >> 2u][u32(a_163) & 3u] = v_7;
            const auto a_164 = r_10 * idx(36) + q_9;
            left[a_164 >> 2u][u32(a_164) & 3u] = v_14;
            const auto a_165 = r_17 * idx(36) + q_16;
            left[a_165 >> 2u][u32(a_165) & 3u] = v_21;
            const auto a_166 = r_24 * idx(36) + q_23;
            left[a_166 >> 2u][u32(a_166) & 3u] = v_28;
            const auto a_167 = r_31 * idx(36) + q_30;
            left[a_167 >> 2u][u32(a_167) & 3u] = v_35;
            const auto a_168 = r_38 * idx(36) + q_37;
            left[a_168 >> 2u][u32(a_168) & 3u] = v_42;
            const auto a_169 = r_45 * idx(36) + q_44;
            left[a_169 >> 2u][u32(a_169) & 3u] = v_49;
            const auto a_170 = r_52 * idx(36) + q_51;
            left[a_170 >> 2u][u32(a_170) & 3u] = v_56;
            const auto a_171 = q_58 * idx(36) + r_59;
            right[a_171 >> 2u][u32(a_171) & 3u] = v_63;
            const auto a_172 = q_65 * idx(36) + r_66;
            right[a_172 >> 2u][u32(a_172) & 3u] = v_70;
            const auto a_173 = q_72 * idx(36) + r_73;
            right[a_173 >> 2u][u32(a_173) & 3u] = v_77;
            const auto a_174 = q_79 * idx(36) + r_80;
            right[a_174 >> 2u][u32(a_174) & 3u] = v_84;
            const auto a_175 = q_86 * idx(36) + r_87;
            right[a_175 >> 2u][u32(a_175) & 3u] = v_91;
            const auto a_176 = q_93 * idx(36) + r_94;
            right[a_176 >> 2u][u32(a_176) & 3u] = v_98;
            const auto a_177 = q_100 * idx(36) + r_101;
            right[a_177 >> 2u][u32(a_177) & 3u] = v_105;
            const auto a_178 = q_107 * idx(36) + r_108;
            right[a_178 >> 2u][u32(a_178) & 3u] = v_112;
            workgroupBarrier();
        }
        const auto n_179 = first_n + x * idx(4) + idx(0);
        const auto n_180 = first_n + x * idx(4) + idx(1);
        const auto n_181 = first_n + x * idx(4) + idx(2);
        const auto n_182 = first_n + x * idx(4) + idx(3);
        const auto m_183 = first_m + y * idx(4) + idx(0);
        if (m_183 < size_m) {
            if (n_179 < size_n) {
                const auto p_184 = base2 + n_179;
                const auto x_185 = b2[p_184];
                const auto t_186 = (sum_0_0 + keep_f32(x_185));
                const auto p_187 = base3 + m_183 * stride3_0 + n_179;
                b3[p_187] = t_186;
            }
            if (n_180 < size_n) {
                const auto p_188 = base2 + n_180;
                const auto x_189 = b2[p_188];
                const auto t_190 = (sum_0_1 + keep_f32(x_189));
                const auto p_191 = base3 + m_183 * stride3_0 + n_180;
                b3[p_191] = t_190;
            }
            if (n_181 < size_n) {
                const auto p_192 = base2 + n_181;
                const auto x_193 = b2[p_192];
                const auto t_194 = (sum_0_2 + keep_f32(x_193));
                const auto p_195 = base3 + m_183 * stride3_0 + n_181;
                b3[p_195] = t_194;
            }
            if (n_182 < size_n) {
                const auto p_196 = base2 + n_182;
                const auto x_197 = b2[p_196];
                const auto t_198 = (sum_0_3 + keep_f32(x_197));
                const auto p_199 = base3 + m_183 * stride3_0 + n_182;
                b3[p_199] = t_198;
            }
        }
        const auto m_200 = first_m + y * idx(4) + idx(1);
        if (m_200 < size_m) {
            if (n_179 < size_n) {
                const auto p_201 = base2 + n_179;
                const auto x_202 = b2[p_201];
                const auto t_203 = (sum_1_0 + keep_f32(x_202));
                const auto p_204 = base3 + m_200 * stride3_0 + n_179;
                b3[p_204] = t_203;
            }
            if (n_180 < size_n) {
                const auto p_205 = base2 + n_180;
                const auto x_206 = b2[p_205];
                const auto t_207 = (sum_1_1 + keep_f32(x_206));
                const auto p_208 = base3 + m_200 * stride3_0 + n_180;
                b3[p_208] = t_207;
            }
            if (n_181 < size_n) {
                const auto p_209 = base2 + n_181;
                const auto x_210 = b2[p_209];
                const auto t_211 = (sum_1_2 + keep_f32(x_210));
                const auto p_212 = base3 + m_200 * stride3_0 + n_181;
                b3[p_212] = t_211;
            }
            if (n_182 < size_n) {
                const auto p_213 = base2 + n_182;
                const auto x_214 = b2[p_213];
                const auto t_215 = (sum_1_3 + keep_f32(x_214));
                const auto p_216 = base3 + m_200 * stride3_0 + n_182;
                b3[p_216] = t_215;
            }
        }
        const auto m_217 = first_m + y * idx(4) + idx(2);
        if (m_217 < size_m) {
            if (n_179 < size_n) {
                const auto p_218 = base2 + n_179;
                const auto x_219 = b2[p_218];
                const auto t_220 = (sum_2_0 + keep_f32(x_219));
                const auto p_221 = base3 + m_217 * stride3_0 + n_179;
                b3[p_221] = t_220;
            }
            if (n_180 < size_n) {
                const auto p_222 = base2 + n_180;
                const auto x_223 = b2[p_222];
                const auto t_224 = (sum_2_1 + keep_f32(x_223));
                const auto p_225 = base3 + m_217 * stride3_0 + n_180;
                b3[p_225] = t_224;
            }
            if (n_181 < size_n) {
                const auto p_226 = base2 + n_181;
                const auto x_227 = b2[p_226];
                const auto t_228 = (sum_2_2 + keep_f32(x_227));
                const auto p_229 = base3 + m_217 * stride3_0 + n_181;
                b3[p_229] = t_228;
            }
            if (n_182 < size_n) {
                const auto p_230 = base2 + n_182;
                const auto x_231 = b2[p_230];
                const auto t_232 = (sum_2_3 + keep_f32(x_231));
                const auto p_233 = base3 + m_217 * stride3_0 + n_182;
                b3[p_233] = t_232;
            }
        }
        const auto m_234 = first_m + y * idx(4) + idx(3);
        if (m_234 < size_m) {
            if (n_179 < size_n) {
                const auto p_235 = base2 + n_179;
                const auto x_236 = b2[p_235];
                const auto t_237 = (sum_3_0 + keep_f32(x_236));
                const auto p_238 = base3 + m_234 * stride3_0 + n_179;
                b3[p_238] = t_237;
            }
            if (n_180 < size_n) {
                const auto p_239 = base2 + n_180;
                const auto x_240 = b2[p_239];
                const auto t_241 = (sum_3_1 + keep_f32(x_240));
                const auto p_242 = base3 + m_234 * stride3_0 + n_180;
                b3[p_242] = t_241;
            }
            if (n_181 < size_n) {
                const auto p_243 = base2 + n_181;
                const auto x_244 = b2[p_243];
                const auto t_245 = (sum_3_2 + keep_f32(x_244));
                const auto p_246 = base3 + m_234 * stride3_0 + n_181;
                b3[p_246] = t_245;
            }
            if (n_182 < size_n) {
                const auto p_247 = base2 + n_182;
                const auto x_248 = b2[p_247];
                const auto t_249 = (sum_3_3 + keep_f32(x_248));
                const auto p_250 = base3 + m_234 * stride3_0 + n_182;
                b3[p_250] = t_249;
            }
        }
    }
}
