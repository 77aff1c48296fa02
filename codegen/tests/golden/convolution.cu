typedef i32 idx;
struct Args { u32 w[40]; };

__shared__ vec4<f32> left[272];
__shared__ vec4<f32> right[272];
__shared__ vec4<idx> steps[16];
extern "C" __global__ void __launch_bounds__(64) contract_by_one(const f32* b0, const f32* b1, f32* __restrict__ b2, u32* __restrict__ work, const __grid_constant__ Args args) {
    auto const v0 = (const vec4<f32>*)b0;
    auto const v1 = (const vec4<f32>*)b1;
    auto const v2 = (vec4<f32>*)b2;
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
    const auto number6 = bitcast<idx>(args.w[6]);
    const auto number7 = bitcast<idx>(args.w[7]);
    const auto base0 = bitcast<idx>(args.w[8]);
    const auto stride0_0 = bitcast<idx>(args.w[9]);
    const auto fill1_0 = args.w[10];
    const auto size2 = bitcast<idx>(args.w[11]);
    const auto base1 = bitcast<idx>(args.w[12]);
    const auto stride1_1 = bitcast<idx>(args.w[13]);
    const auto guard1_0 = bitcast<idx>(args.w[14]);
    const auto share1_0_1 = bitcast<idx>(args.w[15]);
    const auto guard1_1 = bitcast<idx>(args.w[16]);
    const auto share1_1_2 = bitcast<idx>(args.w[17]);
    const auto size5 = bitcast<idx>(args.w[18]);
    const auto size4 = bitcast<idx>(args.w[19]);
    const auto stride0_3 = bitcast<idx>(args.w[20]);
    const auto stride0_4 = bitcast<idx>(args.w[21]);
    const auto stride1_3 = bitcast<idx>(args.w[22]);
    const auto stride1_4 = bitcast<idx>(args.w[23]);
    const auto share1_0_4 = bitcast<idx>(args.w[24]);
    const auto share1_1_5 = bitcast<idx>(args.w[25]);
    const auto low1 = bitcast<idx>(args.w[26]);
    const auto high1 = bitcast<idx>(args.w[27]);
    const auto limit1_0 = bitcast<idx>(args.w[28]);
    const auto limit1_1 = bitcast<idx>(args.w[29]);
    const auto work_base = bitcast<idx>(args.w[30]);
    const auto size_m = number3;
    const auto size_n = number4;
    const auto size_k = number5;
    const auto y = quotient(lane, idx(8));
    const auto x = lane - y * idx(8);
    for (auto tile = group; tile < number2; tile += groups) {
        const auto slice = quotient(tile, number1);
        const auto within = tile - slice * number1;
        const auto tile_m = quotient(within, number0);
        const auto first_m = tile_m * idx(64);
        const auto first_n = (within - tile_m * number0) * idx(64);
        const auto part = quotient(slice, number6);
        const auto batch = slice - part * number6;
        const auto begin = part * number7;
        const auto until = ms_min(size_k, begin + number7);
        auto sum_0_0 = 0.0f;
        auto sum_0_1 = 0.0f;
        auto sum_0_2 = 0.0f;
        auto sum_0_3 = 0.0f;
        auto sum_0_4 = 0.0f;
        auto sum_0_5 = 0.0f;
        auto sum_0_6 = 0.0f;
        auto sum_0_7 = 0.0f;
        auto sum_1_0 = 0.0f;
        auto sum_1_1 = 0.0f;
        auto sum_1_2 = 0.0f;
        auto sum_1_3 = 0.0f;
        auto sum_1_4 = 0.0f;
        auto sum_1_5 = 0.0f;
        auto sum_1_6 = 0.0f;
        auto sum_1_7 = 0.0f;
        auto sum_2_0 = 0.0f;
        auto sum_2_1 = 0.0f;
        auto sum_2_2 = 0.0f;
        auto sum_2_3 = 0.0f;
        auto sum_2_4 = 0.0f;
        auto sum_2_5 = 0.0f;
        auto sum_2_6 = 0.0f;
        auto sum_2_7 = 0.0f;
        auto sum_3_0 = 0.0f;
        auto sum_3_1 = 0.0f;
        auto sum_3_2 = 0.0f;
        auto sum_3_3 = 0.0f;
        auto sum_3_4 = 0.0f;
        auto sum_3_5 = 0.0f;
        auto sum_3_6 = 0.0f;
        auto sum_3_7 = 0.0f;
        auto sum_4_0 = 0.0f;
        auto sum_4_1 = 0.0f;
        auto sum_4_2 = 0.0f;
        auto sum_4_3 = 0.0f;
        auto sum_4_4 = 0.0f;
        auto sum_4_5 = 0.0f;
        auto sum_4_6 = 0.0f;
        auto sum_4_7 = 0.0f;
        auto sum_5_0 = 0.0f;
        auto sum_5_1 = 0.0f;
        auto sum_5_2 = 0.0f;
        auto sum_5_3 = 0.0f;
        auto sum_5_4 = 0.0f;
        auto sum_5_5 = 0.0f;
        auto sum_5_6 = 0.0f;
        auto sum_5_7 = 0.0f;
        auto sum_6_0 = 0.0f;
        auto sum_6_1 = 0.0f;
        auto sum_6_2 = 0.0f;
        auto sum_6_3 = 0.0f;
        auto sum_6_4 = 0.0f;
        auto sum_6_5 = 0.0f;
        auto sum_6_6 = 0.0f;
        auto sum_6_7 = 0.0f;
        auto sum_7_0 = 0.0f;
        auto sum_7_1 = 0.0f;
        auto sum_7_2 = 0.0f;
        auto sum_7_3 = 0.0f;
        auto sum_7_4 = 0.0f;
        auto sum_7_5 = 0.0f;
        auto sum_7_6 = 0.0f;
        auto sum_7_7 = 0.0f;
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
        const auto q_50 = q_1 + idx(32);
        const auto o_51 = first_m + q_50;
        const auto inside_52 = o_51 < size_m;
        const auto o_53 = ms_select(idx(0), o_51, inside_52);
        const auto p_54 = base0 + o_53 * stride0_0;
        const auto q_56 = q_1 + idx(36);
        const auto o_57 = first_m + q_56;
        const auto inside_58 = o_57 < size_m;
        const auto o_59 = ms_select(idx(0), o_57, inside_58);
        const auto p_60 = base0 + o_59 * stride0_0;
        const auto q_62 = q_1 + idx(40);
        const auto o_63 = first_m + q_62;
        const auto inside_64 = o_63 < size_m;
        const auto o_65 = ms_select(idx(0), o_63, inside_64);
        const auto p_66 = base0 + o_65 * stride0_0;
        const auto q_68 = q_1 + idx(44);
        const auto o_69 = first_m + q_68;
        const auto inside_70 = o_69 < size_m;
        const auto o_71 = ms_select(idx(0), o_69, inside_70);
        const auto p_72 = base0 + o_71 * stride0_0;
        const auto q_74 = q_1 + idx(48);
        const auto o_75 = first_m + q_74;
        const auto inside_76 = o_75 < size_m;
        const auto o_77 = ms_select(idx(0), o_75, inside_76);
        const auto p_78 = base0 + o_77 * stride0_0;
        const auto q_80 = q_1 + idx(52);
        const auto o_81 = first_m + q_80;
        const auto inside_82 = o_81 < size_m;
        const auto o_83 = ms_select(idx(0), o_81, inside_82);
        const auto p_84 = base0 + o_83 * stride0_0;
        const auto q_86 = q_1 + idx(56);
        const auto o_87 = first_m + q_86;
        const auto inside_88 = o_87 < size_m;
        const auto o_89 = ms_select(idx(0), o_87, inside_88);
        const auto p_90 = base0 + o_89 * stride0_0;
        const auto q_92 = q_1 + idx(60);
        const auto o_93 = first_m + q_92;
        const auto inside_94 = o_93 < size_m;
        const auto o_95 = ms_select(idx(0), o_93, inside_94);
        const auto p_96 = base0 + o_95 * stride0_0;
        auto v_7 = 0.0f;
        auto v_13 = 0.0f;
        auto v_19 = 0.0f;
        auto v_25 = 0.0f;
        auto v_31 = 0.0f;
        auto v_37 = 0.0f;
        auto v_43 = 0.0f;
        auto v_49 = 0.0f;
        auto v_55 = 0.0f;
        auto v_61 = 0.0f;
        auto v_67 = 0.0f;
        auto v_73 = 0.0f;
        auto v_79 = 0.0f;
        auto v_85 = 0.0f;
        auto v_91 = 0.0f;
        auto v_97 = 0.0f;
        const auto q_98 = quotient(lane, idx(64));
        const auto r_99 = (lane - q_98 * idx(64)) * idx(1);
        const auto fill_100 = bitcast<f32>(fill1_0);
        const auto o_101 = first_n + r_99;
        const auto inside_102 = o_101 < size_n;
        const auto o_103 = ms_select(idx(0), o_101, inside_102);
        const auto q_104 = quotient(o_103, size2);
        const auto i_105 = o_103 - q_104 * size2;
        const auto p_106 = base1 + q_104 * stride1_1 + i_105;
        const auto g_107 = guard1_0 + q_104 * share1_0_1;
        const auto g_108 = guard1_1 + i_105 * share1_1_2;
        const auto q_110 = q_98 + idx(1);
        const auto q_112 = q_98 + idx(2);
        const auto q_114 = q_98 + idx(3);
        const auto q_116 = q_98 + idx(4);
        const auto q_118 = q_98 + idx(5);
        const auto q_120 = q_98 + idx(6);
        const auto q_122 = q_98 + idx(7);
        const auto q_124 = q_98 + idx(8);
        const auto q_126 = q_98 + idx(9);
        const auto q_128 = q_98 + idx(10);
        const auto q_130 = q_98 + idx(11);
        const auto q_132 = q_98 + idx(12);
        const auto q_134 = q_98 + idx(13);
        const auto q_136 = q_98 + idx(14);
        const auto q_138 = q_98 + idx(15);
        auto v_109 = 0.0f;
        auto v_111 = 0.0f;
        auto v_113 = 0.0f;
        auto v_115 = 0.0f;
        auto v_117 = 0.0f;
        auto v_119 = 0.0f;
        auto v_121 = 0.0f;
        auto v_123 = 0.0f;
        auto v_125 = 0.0f;
        auto v_127 = 0.0f;
        auto v_129 = 0.0f;
        auto v_131 = 0.0f;
        auto v_133 = 0.0f;
        auto v_135 = 0.0f;
        auto v_137 = 0.0f;
        auto v_139 = 0.0f;
        auto ahead_140 = idx(0);
        auto ahead_141 = idx(0);
        auto ahead_142 = idx(0);
        auto ahead_143 = idx(0);
        if (lane < idx(16)) {
            const auto k_144 = begin + lane;
            const auto q_145 = quotient(k_144, size5);
            const auto i_146 = k_144 - q_145 * size5;
            const auto q_147 = quotient(q_145, size4);
            const auto i_148 = q_145 - q_147 * size4;
            ahead_140 = idx(0) + q_147 * stride0_3 + i_148 * stride0_4 + i_146;
            ahead_141 = idx(0) + q_147 * stride1_3 + i_148 * stride1_4 + i_146;
            ahead_142 = idx(0) + i_148 * share1_0_4;
            ahead_143 = idx(0) + i_146 * share1_1_5;
        }
        if (lane < idx(16)) {
            steps[lane * idx(1) + idx(0)] = vec4<idx>(ahead_140, ahead_141, ahead_142, ahead_143);
        }
        workgroupBarrier();
        for (auto k0 = begin; k0 < until + idx(16); k0 += idx(16)) {
            const auto k_149 = k0 + r_2;
            const auto s_150 = steps[r_2 * idx(1) + idx(0)];
            const auto p_151 = p_6 + s_150.x;
            v_7 = 0.0f;
            if ((k_149 < until)) {
                const auto x_152 = b0[p_151];
                v_7 = x_152;
            }
            const auto p_153 = p_12 + s_150.x;
            v_13 = 0.0f;
            if ((k_149 < until)) {
                const auto x_154 = b0[p_153];
                v_13 = x_154;
            }
            const auto p_155 = p_18 + s_150.x;
            v_19 = 0.0f;
            if ((k_149 < until)) {
                const auto x_156 = b0[p_155];
                v_19 = x_156;
            }
            const auto p_157 = p_24 + s_150.x;
            v_25 = 0.0f;
            if ((k_149 < until)) {
                const auto x_158 = b0[p_157];
                v_25 = x_158;
            }
            const auto p_159 = p_30 + s_150.x;
            v_31 = 0.0f;
            if ((k_149 < until)) {
                const auto x_160 = b0[p_159];
                v_31 = x_160;
            }
            const auto p_161 = p_36 + s_150.x;
            v_37 = 0.0f;
            if ((k_149 < until)) {
                const auto x_162 = b0[p_161];
                v_37 = x_162;
            }
            const auto p_163 = p_42 + s_150.x;
            v_43 = 0.0f;
            if ((k_149 < until)) {
                const auto x_164 = b0[p_163];
                v_43 = x_164;
            }
            const auto p_165 = p_48 + s_150.x;
            v_49 = 0.0f;
            if ((k_149 < until)) {
                const auto x_166 = b0[p_165];
                v_49 = x_166;
            }
            const auto p_167 = p_54 + s_150.x;
            v_55 = 0.0f;
            if ((k_149 < until)) {
                const auto x_168 = b0[p_167];
                v_55 = x_168;
            }
            const auto p_169 = p_60 + s_150.x;
            v_61 = 0.0f;
            if ((k_149 < until)) {
                const auto x_170 = b0[p_169];
                v_61 = x_170;
            }
            const auto p_171 = p_66 + s_150.x;
            v_67 = 0.0f;
            if ((k_149 < until)) {
                const auto x_172 = b0[p_171];
                v_67 = x_172;
            }
            const auto p_173 = p_72 + s_150.x;
            v_73 = 0.0f;
            if ((k_149 < until)) {
                const auto x_174 = b0[p_173];
                v_73 = x_174;
            }
            const auto p_175 = p_78 + s_150.x;
            v_79 = 0.0f;
            if ((k_149 < until)) {
                const auto x_176 = b0[p_175];
                v_79 = x_176;
            }
            const auto p_177 = p_84 + s_150.x;
            v_85 = 0.0f;
            if ((k_149 < until)) {
                const auto x_178 = b0[p_177];
                v_85 = x_178;
            }
            const auto p_179 = p_90 + s_150.x;
            v_91 = 0.0f;
            if ((k_149 < until)) {
                const auto x_180 = b0[p_179];
                v_91 = x_180;
            }
            const auto p_181 = p_96 + s_150.x;
            v_97 = 0.0f;
            if ((k_149 < until)) {
                const auto x_182 = b0[p_181];
                v_97 = x_182;
            }
            const auto k_183 = k0 + q_98;
            const auto s_184 = steps[q_98 * idx(1) + idx(0)];
            const auto p_185 = p_106 + s_184.y;
            const auto g_186 = g_107 + s_184.z;
            const auto g_187 = g_108 + s_184.w;
            v_109 = ms_select(0.0f, fill_100, k_183 < until);
            if ((k_183 < until) & in_range(p_185 - low1, high1 - low1) & in_range(g_186, limit1_0) & in_range(g_187, limit1_1)) {
                const auto x_188 = b1[p_185];
                v_109 = x_188;
            }
            const auto k_189 = k0 + q_110;
            const auto s_190 = steps[q_110 * idx(1) + idx(0)];
            const auto p_191 = p_106 + s_190.y;
            const auto g_192 = g_107 + s_190.z;
            const auto g_193 = g_108 + s_190.w;
            v_111 = ms_select(0.0f, fill_100, k_189 < until);
            if ((k_189 < until) & in_range(p_191 - low1, high1 - low1) & in_range(g_192, limit1_0) & in_range(g_193, limit1_1)) {
                const auto x_194 = b1[p_191];
                v_111 = x_194;
            }
            const auto k_195 = k0 + q_112;
            const auto s_196 = steps[q_112 * idx(1) + idx(0)];
            const auto p_197 = p_106 + s_196.y;
            const auto g_198 = g_107 + s_196.z;
            const auto g_199 = g_108 + s_196.w;
            v_113 = ms_select(0.0f, fill_100, k_195 < until);
            if ((k_195 < until) & in_range(p_197 - low1, high1 - low1) & in_range(g_198, limit1_0) & in_range(g_199, limit1_1)) {
                const auto x_200 = b1[p_197];
                v_113 = x_200;
            }
            const auto k_201 = k0 + q_114;
            const auto s_202 = steps[q_114 * idx(1) + idx(0)];
            const auto p_203 = p_106 + s_202.y;
            const auto g_204 = g_107 + s_202.z;
            const auto g_205 = g_108 + s_202.w;
            v_115 = ms_select(0.0f, fill_100, k_201 < until);
            if ((k_201 < until) & in_range(p_203 - low1, high1 - low1) & in_range(g_204, limit1_0) & in_range(g_205, limit1_1)) {
                const auto x_206 = b1[p_203];
                v_115 = x_206;
            }
            const auto k_207 = k0 + q_116;
            const auto s_208 = steps[q_116 * idx(1) + idx(0)];
            const auto p_209 = p_106 + s_208.y;
            const auto g_210 = g_107 + s_208.z;
            const auto g_211 = g_108 + s_208.w;
            v_117 = ms_select(0.0f, fill_100, k_207 < until);
            if ((k_207 < until) & in_range(p_209 - low1, high1 - low1) & in_range(g_210, limit1_0) & in_range(g_211, limit1_1)) {
                const auto x_212 = b1[p_209];
                v_117 = x_212;
            }
            const auto k_213 = k0 + q_118;
            const auto s_214 = steps[q_118 * idx(1) + idx(0)];
            const auto p_215 = p_106 + s_214.y;
            const auto g_216 = g_107 + s_214.z;
            const auto g_217 = g_108 + s_214.w;
            v_119 = ms_select(0.0f, fill_100, k_213 < until);
            if ((k_213 < until) & in_range(p_215 - low1, high1 - low1) & in_range(g_216, limit1_0) & in_range(g_217, limit1_1)) {
                const auto x_218 = b1[p_215];
                v_119 = x_218;
            }
            const auto k_219 = k0 + q_120;
            const auto s_220 = steps[q_120 * idx(1) + idx(0)];
            const auto p_221 = p_106 + s_220.y;
            const auto g_222 = g_107 + s_220.z;
            const auto g_223 = g_108 + s_220.w;
            v_121 = ms_select(0.0f, fill_100, k_219 < until);
            if ((k_219 < until) & in_range(p_221 - low1, high1 - low1) & in_range(g_222, limit1_0) & in_range(g_223, limit1_1)) {
                const auto x_224 = b1[p_221];
                v_121 = x_224;
            }
            const auto k_225 = k0 + q_122;
            const auto s_226 = steps[q_122 * idx(1) + idx(0)];
            const auto p_227 = p_106 + s_226.y;
            const auto g_228 = g_107 + s_226.z;
            const auto g_229 = g_108 + s_226.w;
            v_123 = ms_select(0.0f, fill_100, k_225 < until);
            if ((k_225 < until) & in_range(p_227 - low1, high1 - low1) & in_range(g_228, limit1_0) & in_range(g_229, limit1_1)) {
                const auto x_230 = b1[p_227];
                v_123 = x_230;
            }
            const auto k_231 = k0 + q_124;
            const auto s_232 = steps[q_124 * idx(1) + idx(0)];
            const auto p_233 = p_106 + s_232.y;
            const auto g_234 = g_107 + s_232.z;
            const auto g_235 = g_108 + s_232.w;
            v_125 = ms_select(0.0f, fill_100, k_231 < until);
            if ((k_231 < until) & in_range(p_233 - low1, high1 - low1) & in_range(g_234, limit1_0) & in_range(g_235, limit1_1)) {
                const auto x_236 = b1[p_233];
                v_125 = x_236;
            }
            const auto k_237 = k0 + q_126;
            const auto s_238 = steps[q_126 * idx(1) + idx(0)];
            const auto p_239 = p_106 + s_238.y;
            const auto g_240 = g_107 + s_238.z;
            const auto g_241 = g_108 + s_238.w;
            v_127 = ms_select(0.0f, fill_100, k_237 < until);
            if ((k_237 < until) & in_range(p_239 - low1, high1 - low1) & in_range(g_240, limit1_0) & in_range(g_241, limit1_1)) {
                const auto x_242 = b1[p_239];
                v_127 = x_242;
            }
            const auto k_243 = k0 + q_128;
            const auto s_244 = steps[q_128 * idx(1) + idx(0)];
            const auto p_245 = p_106 + s_244.y;
            const auto g_246 = g_107 + s_244.z;
            const auto g_247 = g_108 + s_244.w;
            v_129 = ms_select(0.0f, fill_100, k_243 < until);
            if ((k_243 < until) & in_range(p_245 - low1, high1 - low1) & in_range(g_246, limit1_0) & in_range(g_247, limit1_1)) {
                const auto x_248 = b1[p_245];
                v_129 = x_248;
            }
            const auto k_249 = k0 + q_130;
            const auto s_250 = steps[q_130 * idx(1) + idx(0)];
            const auto p_251 = p_106 + s_250.y;
            const auto g_252 = g_107 + s_250.z;
            const auto g_253 = g_108 + s_250.w;
            v_131 = ms_select(0.0f, fill_100, k_249 < until);
            if ((k_249 < until) & in_range(p_251 - low1, high1 - low1) & in_range(g_252, limit1_0) & in_range(g_253, limit1_1)) {
                const auto x_254 = b1[p_251];
                v_131 = x_254;
            }
            const auto k_255 = k0 + q_132;
            const auto s_256 = steps[q_132 * idx(1) + idx(0)];
            const auto p_257 = p_106 + s_256.y;
            const auto g_258 = g_107 + s_256.z;
            const auto g_259 = g_108 + s_256.w;
            v_133 = ms_select(0.0f, fill_100, k_255 < until);
            if ((k_255 < until) & in_range(p_257 - low1, high1 - low1) & in_range(g_258, limit1_0) & in_range(g_259, limit1_1)) {
                const auto x_260 = b1[p_257];
                v_133 = x_260;
            }
            const auto k_261 = k0 + q_134;
            const auto s_262 = steps[q_134 * idx(1) + idx(0)];
            const auto p_263 = p_106 + s_262.y;
            const auto g_264 = g_107 + s_262.z;
            const auto g_265 = g_108 + s_262.w;
            v_135 = ms_select(0.0f, fill_100, k_261 < until);
            if ((k_261 < until) & in_range(p_263 - low1, high1 - low1) & in_range(g_264, limit1_0) & in_range(g_265, limit1_1)) {
                const auto x_266 = b1[p_263];
                v_135 = x_266;
            }
            const auto k_267 = k0 + q_136;
            const auto s_268 = steps[q_136 * idx(1) + idx(0)];
            const auto p_269 = p_106 + s_268.y;
            const auto g_270 = g_107 + s_268.z;
            const auto g_271 = g_108 + s_268.w;
            v_137 = ms_select(0.0f, fill_100, k_267 < until);
            if ((k_267 < until) & in_range(p_269 - low1, high1 - low1) & in_range(g_270, limit1_0) & in_range(g_271, limit1_1)) {
                const auto x_272 = b1[p_269];
                v_137 = x_272;
            }
            const auto k_273 = k0 + q_138;
            const auto s_274 = steps[q_138 * idx(1) + idx(0)];
            const auto p_275 = p_106 + s_274.y;
            const auto g_276 = g_107 + s_274.z;
            const auto g_277 = g_108 + s_274.w;
            v_139 = ms_select(0.0f, fill_100, k_273 < until);
            if ((k_273 < until) & in_range(p_275 - low1, high1 - low1) & in_range(g_276, limit1_0) & in_range(g_277, limit1_1)) {
                const auto x_278 = b1[p_275];
                v_139 = x_278;
            }
            if (lane < idx(16)) {
                const auto k_279 = k0 + idx(16) + lane;
                const auto q_280 = quotient(k_279, size5);
                const auto i_281 = k_279 - q_280 * size5;
                const auto q_282 = quotient(q_280, size4);
                const auto i_283 = q_280 - q_282 * size4;
                ahead_140 = idx(0) + q_282 * stride0_3 + i_283 * stride0_4 + i_281;
                ahead_141 = idx(0) + q_282 * stride1_3 + i_283 * stride1_4 + i_281;
                ahead_142 = idx(0) + i_283 * share1_0_4;
                ahead_143 = idx(0) + i_281 * share1_1_5;
            }
            if (k0 > begin) {
                for (auto kk = idx(0); kk < idx(16); kk += idx(1)) {
                    const auto v_284 = left[(kk * idx(68) + y * idx(4) + idx(0)) >> 2u];
                    const auto v_285 = left[(kk * idx(68) + y * idx(4) + idx(32)) >> 2u];
                    const auto v_286 = right[(kk * idx(68) + x * idx(4) + idx(0)) >> 2u];
                    const auto v_287 = right[(kk * idx(68) + x * idx(4) + idx(32)) >> 2u];
                    sum_0_0 = ms_fma(v_284.x, v_286.x, sum_0_0);
                    sum_0_1 = ms_fma(v_284.x, v_286.y, sum_0_1);
                    sum_0_2 = ms_fma(v_284.x, v_286.z, sum_0_2);
                    sum_0_3 = ms_fma(v_284.x, v_286.w, sum_0_3);
                    sum_0_4 = ms_fma(v_284.x, v_287.x, sum_0_4);
                    sum_0_5 = ms_fma(v_284.x, v_287.y, sum_0_5);
                    sum_0_6 = ms_fma(v_284.x, v_287.z, sum_0_6);
                    sum_0_7 = ms_fma(v_284.x, v_287.w, sum_0_7);
                    sum_1_0 = ms_fma(v_284.y, v_286.x, sum_1_0);
                    sum_1_1 = ms_fma(v_284.y, v_286.y, sum_1_1);
                    sum_1_2 = ms_fma(v_284.y, v_286.z, sum_1_2);
                    sum_1_3 = ms_fma(v_284.y, v_286.w, sum_1_3);
                    sum_1_4 = ms_fma(v_284.y, v_287.x, sum_1_4);
                    sum_1_5 = ms_fma(v_284.y, v_287.y, sum_1_5);
                    sum_1_6 = ms_fma(v_284.y, v_287.z, sum_1_6);
                    sum_1_7 = ms_fma(v_284.y, v_287.w, sum_1_7);
                    sum_2_0 = ms_fma(v_284.z, v_286.x, sum_2_0);
                    sum_2_1 = ms_fma(v_284.z, v_286.y, sum_2_1);
                    sum_2_2 = ms_fma(v_284.z, v_286.z, sum_2_2);
                    sum_2_3 = ms_fma(v_284.z, v_286.w, sum_2_3);
                    sum_2_4 = ms_fma(v_284.z, v_287.x, sum_2_4);
                    sum_2_5 = ms_fma(v_284.z, v_287.y, sum_2_5);
                    sum_2_6 = ms_fma(v_284.z, v_287.z, sum_2_6);
                    sum_2_7 = ms_fma(v_284.z, v_287.w, sum_2_7);
                    sum_3_0 = ms_fma(v_284.w, v_286.x, sum_3_0);
                    sum_3_1 = ms_fma(v_284.w, v_286.y, sum_3_1);
                    sum_3_2 = ms_fma(v_284.w, v_286.z, sum_3_2);
                    sum_3_3 = ms_fma(v_284.w, v_286.w, sum_3_3);
                    sum_3_4 = ms_fma(v_284.w, v_287.x, sum_3_4);
                    sum_3_5 = ms_fma(v_284.w, v_287.y, sum_3_5);
                    sum_3_6 = ms_fma(v_284.w, v_287.z, sum_3_6);
                    sum_3_7 = ms_fma(v_284.w, v_287.w, sum_3_7);
                    sum_4_0 = ms_fma(v_285.x, v_286.x, sum_4_0);
                    sum_4_1 = ms_fma(v_285.x, v_286.y, sum_4_1);
                    sum_4_2 = ms_fma(v_285.x, v_286.z, sum_4_2);
                    sum_4_3 = ms_fma(v_285.x, v_286.w, sum_4_3);
                    sum_4_4 = ms_fma(v_285.x, v_287.x, sum_4_4);
                    sum_4_5 = ms_fma(v_285.x, v_287.y, sum_4_5);
                    sum_4_6 = ms_fma(v_285.x, v_287.z, sum_4_6);
                    sum_4_7 = ms_fma(v_285.x, v_287.w, sum_4_7);
                    sum_5_0 = ms_fma(v_285.y, v_286.x, sum_5_0);
                    sum_5_1 = ms_fma(v_285.y, v_286.y, sum_5_1);
                    sum_5_2 = ms_fma(v_285.y, v_286.z, sum_5_2);
                    sum_5_3 = ms_fma(v_285.y, v_286.w, sum_5_3);
                    sum_5_4 = ms_fma(v_285.y, v_287.x, sum_5_4);
                    sum_5_5 = ms_fma(v_285.y, v_287.y, sum_5_5);
                    sum_5_6 = ms_fma(v_285.y, v_287.z, sum_5_6);
                    sum_5_7 = ms_fma(v_285.y, v_287.w, sum_5_7);
                    sum_6_0 = ms_fma(v_285.z, v_286.x, sum_6_0);
                    sum_6_1 = ms_fma(v_285.z, v_286.y, sum_6_1);
                    sum_6_2 = ms_fma(v_285.z, v_286.z, sum_6_2);
                    sum_6_3 = ms_fma(v_285.z, v_286.w, sum_6_3);
                    sum_6_4 = ms_fma(v_285.z, v_287.x, sum_6_4);
                    sum_6_5 = ms_fma(v_285.z, v_287.y, sum_6_5);
                    sum_6_6 = ms_fma(v_285.z, v_287.z, sum_6_6);
                    sum_6_7 = ms_fma(v_285.z, v_287.w, sum_6_7);
                    sum_7_0 = ms_fma(v_285.w, v_286.x, sum_7_0);
                    sum_7_1 = ms_fma(v_285.w, v_286.y, sum_7_1);
                    sum_7_2 = ms_fma(v_285.w, v_286.z, sum_7_2);
                    sum_7_3 = ms_fma(v_285.w, v_286.w, sum_7_3);
                    sum_7_4 = ms_fma(v_285.w, v_287.x, sum_7_4);
                    sum_7_5 = ms_fma(v_285.w, v_287.y, sum_7_5);
                    sum_7_6 = ms_fma(v_285.w, v_287.z, sum_7_6);
                    sum_7_7 = ms_fma(v_285.w, v_287.w, sum_7_7);
                }
            }
            workgroupBarrier();
            const auto a_288 = r_2 * idx(68) + q_1;
            (&left[0].x)[a_288] = v_7;
            const auto a_289 = r_2 * idx(68) + q_8;
            (&left[0].x)[a_289] = v_13;
            const auto a_290 = r_2 * idx(68) + q_14;
            (&left[0].x)[a_290] = v_19;
            const auto a_291 = r_2 * idx(68) + q_20;
            (&left[0].x)[a_291] = v_25;
            const auto a_292 = r_2 * idx(68) + q_26;
            (&left[0].x)[a_292] = v_31;
            const auto a_293 = r_2 * idx(68) + q_32;
            (&left[0].x)[a_293] = v_37;
            const auto a_294 = r_2 * idx(68) + q_38;
            (&left[0].x)[a_294] = v_43;
            const auto a_295 = r_2 * idx(68) + q_44;
            (&left[0].x)[a_295] = v_49;
            const auto a_296 = r_2 * idx(68) + q_50;
            (&left[0].x)[a_296] = v_55;
            const auto a_297 = r_2 * idx(68) + q_56;
            (&left[0].x)[a_297] = v_61;
            const auto a_298 = r_2 * idx(68) + q_62;
            (&left[0].x)[a_298] = v_67;
            const auto a_299 = r_2 * idx(68) + q_68;
            (&left[0].x)[a_299] = v_73;
            const auto a_300 = r_2 * idx(68) + q_74;
            (&left[0].x)[a_300] = v_79;
            const auto a_301 = r_2 * idx(68) + q_80;
            (&left[0].x)[a_301] = v_85;
            const auto a_302 = r_2 * idx(68) + q_86;
            (&left[0].x)[a_302] = v_91;
            const auto a_303 = r_2 * idx(68) + q_92;
            (&left[0].x)[a_303] = v_97;
            const auto a_304 = q_98 * idx(68) + r_99;
            (&right[0].x)[a_304] = v_109;
            const auto a_305 = q_110 * idx(68) + r_99;
            (&right[0].x)[a_305] = v_111;
            const auto a_306 = q_112 * idx(68) + r_99;
            (&right[0].x)[a_306] = v_113;
            const auto a_307 = q_114 * idx(68) + r_99;
            (&right[0].x)[a_307] = v_115;
            const auto a_308 = q_116 * idx(68) + r_99;
            (&right[0].x)[a_308] = v_117;
            const auto a_309 = q_118 * idx(68) + r_99;
            (&right[0].x)[a_309] = v_119;
            const auto a_310 = q_120 * idx(68) + r_99;
            (&right[0].x)[a_310] = v_121;
            const auto a_311 = q_122 * idx(68) + r_99;
            (&right[0].x)[a_311] = v_123;
            const auto a_312 = q_124 * idx(68) + r_99;
            (&right[0].x)[a_312] = v_125;
            const auto a_313 = q_126 * idx(68) + r_99;
            (&right[0].x)[a_313] = v_127;
            const auto a_314 = q_128 * idx(68) + r_99;
            (&right[0].x)[a_314] = v_129;
            const auto a_315 = q_130 * idx(68) + r_99;
            (&right[0].x)[a_315] = v_131;
            const auto a_316 = q_132 * idx(68) + r_99;
            (&right[0].x)[a_316] = v_133;
            const auto a_317 = q_134 * idx(68) + r_99;
            (&right[0].x)[a_317] = v_135;
            const auto a_318 = q_136 * idx(68) + r_99;
            (&right[0].x)[a_318] = v_137;
            const auto a_319 = q_138 * idx(68) + r_99;
            (&right[0].x)[a_319] = v_139;
            if (lane < idx(16)) {
                steps[lane * idx(1) + idx(0)] = vec4<idx>(ahead_140, ahead_141, ahead_142, ahead_143);
            }
            workgroupBarrier();
        }
        release();
        const auto n_320 = first_n + x * idx(4) + idx(0);
        const auto n_321 = first_n + x * idx(4) + idx(1);
        const auto n_322 = first_n + x * idx(4) + idx(2);
        const auto n_323 = first_n + x * idx(4) + idx(3);
        const auto n_324 = first_n + x * idx(4) + idx(32);
        const auto n_325 = first_n + x * idx(4) + idx(33);
        const auto n_326 = first_n + x * idx(4) + idx(34);
        const auto n_327 = first_n + x * idx(4) + idx(35);
        const auto m_328 = first_m + y * idx(4) + idx(0);
        if (m_328 < size_m) {
            const auto p_329 = (slice * size_m + m_328) * size_n;
            if (n_320 < size_n) {
                const auto p_330 = work_base + (p_329 + n_320) * idx(1);
                work[p_330 + idx(0)] = bitcast<u32>(sum_0_0);
            }
            if (n_321 < size_n) {
                const auto p_331 = work_base + (p_329 + n_321) * idx(1);
                work[p_331 + idx(0)] = bitcast<u32>(sum_0_1);
            }
            if (n_322 < size_n) {
                const auto p_332 = work_base + (p_329 + n_322) * idx(1);
                work[p_332 + idx(0)] = bitcast<u32>(sum_0_2);
            }
            if (n_323 < size_n) {
                const auto p_333 = work_base + (p_329 + n_323) * idx(1);
                work[p_333 + idx(0)] = bitcast<u32>(sum_0_3);
            }
            if (n_324 < size_n) {
                const auto p_334 = work_base + (p_329 + n_324) * idx(1);
                work[p_334 + idx(0)] = bitcast<u32>(sum_0_4);
            }
            if (n_325 < size_n) {
                const auto p_335 = work_base + (p_329 + n_325) * idx(1);
                work[p_335 + idx(0)] = bitcast<u32>(sum_0_5);
            }
            if (n_326 < size_n) {
                const auto p_336 = work_base + (p_329 + n_326) * idx(1);
                work[p_336 + idx(0)] = bitcast<u32>(sum_0_6);
            }
            if (n_327 < size_n) {
                const auto p_337 = work_base + (p_329 + n_327) * idx(1);
                work[p_337 + idx(0)] = bitcast<u32>(sum_0_7);
            }
        }
        const auto m_338 = first_m + y * idx(4) + idx(1);
        if (m_338 < size_m) {
            const auto p_339 = (slice * size_m + m_338) * size_n;
            if (n_320 < size_n) {
                const auto p_340 = work_base + (p_339 + n_320) * idx(1);
                work[p_340 + idx(0)] = bitcast<u32>(sum_1_0);
            }
            if (n_321 < size_n) {
                const auto p_341 = work_base + (p_339 + n_321) * idx(1);
                work[p_341 + idx(0)] = bitcast<u32>(sum_1_1);
            }
            if (n_322 < size_n) {
                const auto p_342 = work_base + (p_339 + n_322) * idx(1);
                work[p_342 + idx(0)] = bitcast<u32>(sum_1_2);
            }
            if (n_323 < size_n) {
                const auto p_343 = work_base + (p_339 + n_323) * idx(1);
                work[p_343 + idx(0)] = bitcast<u32>(sum_1_3);
            }
            if (n_324 < size_n) {
                const auto p_344 = work_base + (p_339 + n_324) * idx(1);
                work[p_344 + idx(0)] = bitcast<u32>(sum_1_4);
            }
            if (n_325 < size_n) {
                const auto p_345 = work_base + (p_339 + n_325) * idx(1);
                work[p_345 + idx(0)] = bitcast<u32>(sum_1_5);
            }
            if (n_326 < size_n) {
                const auto p_346 = work_base + (p_339 + n_326) * idx(1);
                work[p_346 + idx(0)] = bitcast<u32>(sum_1_6);
            }
            if (n_327 < size_n) {
                const auto p_347 = work_base + (p_339 + n_327) * idx(1);
                work[p_347 + idx(0)] = bitcast<u32>(sum_1_7);
            }
        }
        const auto m_348 = first_m + y * idx(4) + idx(2);
        if (m_348 < size_m) {
            const auto p_349 = (slice * size_m + m_348) * size_n;
            if (n_320 < size_n) {
                const auto p_350 = work_base + (p_349 + n_320) * idx(1);
                work[p_350 + idx(0)] = bitcast<u32>(sum_2_0);
            }
            if (n_321 < size_n) {
                const auto p_351 = work_base + (p_349 + n_321) * idx(1);
                work[p_351 + idx(0)] = bitcast<u32>(sum_2_1);
            }
            if (n_322 < size_n) {
                const auto p_352 = work_base + (p_349 + n_322) * idx(1);
                work[p_352 + idx(0)] = bitcast<u32>(sum_2_2);
            }
            if (n_323 < size_n) {
                const auto p_353 = work_base + (p_349 + n_323) * idx(1);
                work[p_353 + idx(0)] = bitcast<u32>(sum_2_3);
            }
            if (n_324 < size_n) {
                const auto p_354 = work_base + (p_349 + n_324) * idx(1);
                work[p_354 + idx(0)] = bitcast<u32>(sum_2_4);
            }
            if (n_325 < size_n) {
                const auto p_355 = work_base + (p_349 + n_325) * idx(1);
                work[p_355 + idx(0)] = bitcast<u32>(sum_2_5);
            }
            if (n_326 < size_n) {
                const auto p_356 = work_base + (p_349 + n_326) * idx(1);
                work[p_356 + idx(0)] = bitcast<u32>(sum_2_6);
            }
            if (n_327 < size_n) {
                const auto p_357 = work_base + (p_349 + n_327) * idx(1);
                work[p_357 + idx(0)] = bitcast<u32>(sum_2_7);
            }
        }
        const auto m_358 = first_m + y * idx(4) + idx(3);
        if (m_358 < size_m) {
            const auto p_359 = (slice * size_m + m_358) * size_n;
            if (n_320 < size_n) {
                const auto p_360 = work_base + (p_359 + n_320) * idx(1);
                work[p_360 + idx(0)] = bitcast<u32>(sum_3_0);
            }
            if (n_321 < size_n) {
                const auto p_361 = work_base + (p_359 + n_321) * idx(1);
                work[p_361 + idx(0)] = bitcast<u32>(sum_3_1);
            }
            if (n_322 < size_n) {
                const auto p_362 = work_base + (p_359 + n_322) * idx(1);
                work[p_362 + idx(0)] = bitcast<u32>(sum_3_2);
            }
            if (n_323 < size_n) {
                const auto p_363 = work_base + (p_359 + n_323) * idx(1);
                work[p_363 + idx(0)] = bitcast<u32>(sum_3_3);
            }
            if (n_324 < size_n) {
                const auto p_364 = work_base + (p_359 + n_324) * idx(1);
                work[p_364 + idx(0)] = bitcast<u32>(sum_3_4);
            }
            if (n_325 < size_n) {
                const auto p_365 = work_base + (p_359 + n_325) * idx(1);
                work[p_365 + idx(0)] = bitcast<u32>(sum_3_5);
            }
            if (n_326 < size_n) {
                const auto p_366 = work_base + (p_359 + n_326) * idx(1);
                work[p_366 + idx(0)] = bitcast<u32>(sum_3_6);
            }
            if (n_327 < size_n) {
                const auto p_367 = work_base + (p_359 + n_327) * idx(1);
                work[p_367 + idx(0)] = bitcast<u32>(sum_3_7);
            }
        }
        const auto m_368 = first_m + y * idx(4) + idx(32);
        if (m_368 < size_m) {
            const auto p_369 = (slice * size_m + m_368) * size_n;
            if (n_320 < size_n) {
                const auto p_370 = work_base + (p_369 + n_320) * idx(1);
                work[p_370 + idx(0)] = bitcast<u32>(sum_4_0);
            }
            if (n_321 < size_n) {
                const auto p_371 = work_base + (p_369 + n_321) * idx(1);
                work[p_371 + idx(0)] = bitcast<u32>(sum_4_1);
            }
            if (n_322 < size_n) {
                const auto p_372 = work_base + (p_369 + n_322) * idx(1);
                work[p_372 + idx(0)] = bitcast<u32>(sum_4_2);
            }
            if (n_323 < size_n) {
                const auto p_373 = work_base + (p_369 + n_323) * idx(1);
                work[p_373 + idx(0)] = bitcast<u32>(sum_4_3);
            }
            if (n_324 < size_n) {
                const auto p_374 = work_base + (p_369 + n_324) * idx(1);
                work[p_374 + idx(0)] = bitcast<u32>(sum_4_4);
            }
            if (n_325 < size_n) {
                const auto p_375 = work_base + (p_369 + n_325) * idx(1);
                work[p_375 + idx(0)] = bitcast<u32>(sum_4_5);
            }
            if (n_326 < size_n) {
                const auto p_376 = work_base + (p_369 + n_326) * idx(1);
                work[p_376 + idx(0)] = bitcast<u32>(sum_4_6);
            }
            if (n_327 < size_n) {
                const auto p_377 = work_base + (p_369 + n_327) * idx(1);
                work[p_377 + idx(0)] = bitcast<u32>(sum_4_7);
            }
        }
        const auto m_378 = first_m + y * idx(4) + idx(33);
        if (m_378 < size_m) {
            const auto p_379 = (slice * size_m + m_378) * size_n;
            if (n_320 < size_n) {
                const auto p_380 = work_base + (p_379 + n_320) * idx(1);
                work[p_380 + idx(0)] = bitcast<u32>(sum_5_0);
            }
            if (n_321 < size_n) {
                const auto p_381 = work_base + (p_379 + n_321) * idx(1);
                work[p_381 + idx(0)] = bitcast<u32>(sum_5_1);
            }
            if (n_322 < size_n) {
                const auto p_382 = work_base + (p_379 + n_322) * idx(1);
                work[p_382 + idx(0)] = bitcast<u32>(sum_5_2);
            }
            if (n_323 < size_n) {
                const auto p_383 = work_base + (p_379 + n_323) * idx(1);
                work[p_383 + idx(0)] = bitcast<u32>(sum_5_3);
            }
            if (n_324 < size_n) {
                const auto p_384 = work_base + (p_379 + n_324) * idx(1);
                work[p_384 + idx(0)] = bitcast<u32>(sum_5_4);
            }
            if (n_325 < size_n) {
                const auto p_385 = work_base + (p_379 + n_325) * idx(1);
                work[p_385 + idx(0)] = bitcast<u32>(sum_5_5);
            }
            if (n_326 < size_n) {
                const auto p_386 = work_base + (p_379 + n_326) * idx(1);
                work[p_386 + idx(0)] = bitcast<u32>(sum_5_6);
            }
            if (n_327 < size_n) {
                const auto p_387 = work_base + (p_379 + n_327) * idx(1);
                work[p_387 + idx(0)] = bitcast<u32>(sum_5_7);
            }
        }
        const auto m_388 = first_m + y * idx(4) + idx(34);
        if (m_388 < size_m) {
            const auto p_389 = (slice * size_m + m_388) * size_n;
            if (n_320 < size_n) {
                const auto p_390 = work_base + (p_389 + n_320) * idx(1);
                work[p_390 + idx(0)] = bitcast<u32>(sum_6_0);
            }
            if (n_321 < size_n) {
                const auto p_391 = work_base + (p_389 + n_321) * idx(1);
                work[p_391 + idx(0)] = bitcast<u32>(sum_6_1);
            }
            if (n_322 < size_n) {
                const auto p_392 = work_base + (p_389 + n_322) * idx(1);
                work[p_392 + idx(0)] = bitcast<u32>(sum_6_2);
            }
            if (n_323 < size_n) {
                const auto p_393 = work_base + (p_389 + n_323) * idx(1);
                work[p_393 + idx(0)] = bitcast<u32>(sum_6_3);
            }
            if (n_324 < size_n) {
                const auto p_394 = work_base + (p_389 + n_324) * idx(1);
                work[p_394 + idx(0)] = bitcast<u32>(sum_6_4);
            }
            if (n_325 < size_n) {
                const auto p_395 = work_base + (p_389 + n_325) * idx(1);
                work[p_395 + idx(0)] = bitcast<u32>(sum_6_5);
            }
            if (n_326 < size_n) {
                const auto p_396 = work_base + (p_389 + n_326) * idx(1);
                work[p_396 + idx(0)] = bitcast<u32>(sum_6_6);
            }
            if (n_327 < size_n) {
                const auto p_397 = work_base + (p_389 + n_327) * idx(1);
                work[p_397 + idx(0)] = bitcast<u32>(sum_6_7);
            }
        }
        const auto m_398 = first_m + y * idx(4) + idx(35);
        if (m_398 < size_m) {
            const auto p_399 = (slice * size_m + m_398) * size_n;
            if (n_320 < size_n) {
                const auto p_400 = work_base + (p_399 + n_320) * idx(1);
                work[p_400 + idx(0)] = bitcast<u32>(sum_7_0);
            }
            if (n_321 < size_n) {
                const auto p_401 = work_base + (p_399 + n_321) * idx(1);
                work[p_401 + idx(0)] = bitcast<u32>(sum_7_1);
            }
            if (n_322 < size_n) {
                const auto p_402 = work_base + (p_399 + n_322) * idx(1);
                work[p_402 + idx(0)] = bitcast<u32>(sum_7_2);
            }
            if (n_323 < size_n) {
                const auto p_403 = work_base + (p_399 + n_323) * idx(1);
                work[p_403 + idx(0)] = bitcast<u32>(sum_7_3);
            }
            if (n_324 < size_n) {
                const auto p_404 = work_base + (p_399 + n_324) * idx(1);
                work[p_404 + idx(0)] = bitcast<u32>(sum_7_4);
            }
            if (n_325 < size_n) {
                const auto p_405 = work_base + (p_399 + n_325) * idx(1);
                work[p_405 + idx(0)] = bitcast<u32>(sum_7_5);
            }
            if (n_326 < size_n) {
                const auto p_406 = work_base + (p_399 + n_326) * idx(1);
                work[p_406 + idx(0)] = bitcast<u32>(sum_7_6);
            }
            if (n_327 < size_n) {
                const auto p_407 = work_base + (p_399 + n_327) * idx(1);
                work[p_407 + idx(0)] = bitcast<u32>(sum_7_7);
            }
        }
    }
}
extern "C" __global__ void __launch_bounds__(256) contract_parts(const f32* b0, const f32* b1, f32* __restrict__ b2, u32* __restrict__ work, const __grid_constant__ Args args) {
    auto const v0 = (const vec4<f32>*)b0;
    auto const v1 = (const vec4<f32>*)b1;
    auto const v2 = (vec4<f32>*)b2;
    const idx lane = threadIdx.x;
    const idx group = blockIdx.x + idx(blockIdx.y) * gridDim.x;
    const idx groups = idx(gridDim.x) * gridDim.y;
    follow();
    const auto size2 = bitcast<idx>(args.w[11]);
    const auto work_base = bitcast<idx>(args.w[30]);
    const auto number8 = bitcast<idx>(args.w[31]);
    const auto number9 = bitcast<idx>(args.w[32]);
    const auto size1 = bitcast<idx>(args.w[33]);
    const auto base2 = bitcast<idx>(args.w[34]);
    const auto stride2_0 = bitcast<idx>(args.w[35]);
    const auto stride2_1 = bitcast<idx>(args.w[36]);
    for (auto n = group * idx(256) + lane; n < number8; n += groups * idx(256)) {
        const auto q_1 = quotient(n, size2);
        const auto i_2 = n - q_1 * size2;
        const auto q_3 = quotient(q_1, size1);
        const auto i_4 = q_1 - q_3 * size1;
        auto sum = 0.0f;
        auto part = idx(0);
        while (part + idx(3) < number9) {
            const auto p_5 = work_base + ((part + idx(0)) * number8 + n) * idx(1);
            const auto x_6 = bitcast<f32>(work[p_5 + idx(0)]);
            const auto p_7 = work_base + ((part + idx(1)) * number8 + n) * idx(1);
            const auto x_8 = bitcast<f32>(work[p_7 + idx(0)]);
            const auto p_9 = work_base + ((part + idx(2)) * number8 + n) * idx(1);
            const auto x_10 = bitcast<f32>(work[p_9 + idx(0)]);
            const auto p_11 = work_base + ((part + idx(3)) * number8 + n) * idx(1);
            const auto x_12 = bitcast<f32>(work[p_11 + idx(0)]);
            sum = (sum + x_6);
            sum = (sum + x_8);
            sum = (sum + x_10);
            sum = (sum + x_12);
            part += idx(4);
        }
        while (part + idx(0) < number9) {
            const auto p_13 = work_base + ((part + idx(0)) * number8 + n) * idx(1);
            const auto x_14 = bitcast<f32>(work[p_13 + idx(0)]);
            sum = (sum + x_14);
            part += idx(1);
        }
        const auto p_15 = base2 + q_3 * stride2_0 + i_4 * stride2_1 + i_2;
        b2[p_15] = sum;
    }
}
