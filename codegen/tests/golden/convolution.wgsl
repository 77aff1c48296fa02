@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
@group(0) @binding(2) var<storage, read_write> b2: array<f32>;
@group(0) @binding(3) var<storage, read_write> work: array<u32>;
@group(1) @binding(0) var<uniform> args: array<vec4<u32>, 10>;
fn zero_word() -> u32 {
    return args[9].y;
}

var<workgroup> left: array<vec4<f32>, 272>;
var<workgroup> right: array<vec4<f32>, 272>;
var<workgroup> steps: array<vec4<idx>, 16>;
@compute @workgroup_size(64)
fn contract_by_one(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) block: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>) {
    let lane = idx(thread);
    let group = idx(block.x + block.y * grid.x);
    let groups = idx(grid.x * grid.y);
    let number0 = bitcast<idx>(args[0].x);
    let number1 = bitcast<idx>(args[0].y);
    let number2 = bitcast<idx>(args[0].z);
    let number3 = bitcast<idx>(args[0].w);
    let number4 = bitcast<idx>(args[1].x);
    let number5 = bitcast<idx>(args[1].y);
    let number6 = bitcast<idx>(args[1].z);
    let number7 = bitcast<idx>(args[1].w);
    let base0 = bitcast<idx>(args[2].x);
    let stride0_0 = bitcast<idx>(args[2].y);
    let fill1_0 = args[2].z;
    let size2 = bitcast<idx>(args[2].w);
    let base1 = bitcast<idx>(args[3].x);
    let stride1_1 = bitcast<idx>(args[3].y);
    let guard1_0 = bitcast<idx>(args[3].z);
    let share1_0_1 = bitcast<idx>(args[3].w);
    let guard1_1 = bitcast<idx>(args[4].x);
    let share1_1_2 = bitcast<idx>(args[4].y);
    let size5 = bitcast<idx>(args[4].z);
    let size4 = bitcast<idx>(args[4].w);
    let stride0_3 = bitcast<idx>(args[5].x);
    let stride0_4 = bitcast<idx>(args[5].y);
    let stride1_3 = bitcast<idx>(args[5].z);
    let stride1_4 = bitcast<idx>(args[5].w);
    let share1_0_4 = bitcast<idx>(args[6].x);
    let share1_1_5 = bitcast<idx>(args[6].y);
    let low1 = bitcast<idx>(args[6].z);
    let high1 = bitcast<idx>(args[6].w);
    let limit1_0 = bitcast<idx>(args[7].x);
    let limit1_1 = bitcast<idx>(args[7].y);
    let work_base = bitcast<idx>(args[7].z);
    let size_m = number3;
    let size_n = number4;
    let size_k = number5;
    let y = quotient(lane, idx(8));
    let x = lane - y * idx(8);
    for (var tile = group; tile < number2; tile += groups) {
        let slice = quotient(tile, number1);
        let within = tile - slice * number1;
        let tile_m = quotient(within, number0);
        let first_m = tile_m * idx(64);
        let first_n = (within - tile_m * number0) * idx(64);
        let part = quotient(slice, number6);
        let batch = slice - part * number6;
        let begin = part * number7;
        let until = min(size_k, begin + number7);
        var sum_0_0 = 0.0f;
        var sum_0_1 = 0.0f;
        var sum_0_2 = 0.0f;
        var sum_0_3 = 0.0f;
        var sum_0_4 = 0.0f;
        var sum_0_5 = 0.0f;
        var sum_0_6 = 0.0f;
        var sum_0_7 = 0.0f;
        var sum_1_0 = 0.0f;
        var sum_1_1 = 0.0f;
        var sum_1_2 = 0.0f;
        var sum_1_3 = 0.0f;
        var sum_1_4 = 0.0f;
        var sum_1_5 = 0.0f;
        var sum_1_6 = 0.0f;
        var sum_1_7 = 0.0f;
        var sum_2_0 = 0.0f;
        var sum_2_1 = 0.0f;
        var sum_2_2 = 0.0f;
        var sum_2_3 = 0.0f;
        var sum_2_4 = 0.0f;
        var sum_2_5 = 0.0f;
        var sum_2_6 = 0.0f;
        var sum_2_7 = 0.0f;
        var sum_3_0 = 0.0f;
        var sum_3_1 = 0.0f;
        var sum_3_2 = 0.0f;
        var sum_3_3 = 0.0f;
        var sum_3_4 = 0.0f;
        var sum_3_5 = 0.0f;
        var sum_3_6 = 0.0f;
        var sum_3_7 = 0.0f;
        var sum_4_0 = 0.0f;
        var sum_4_1 = 0.0f;
        var sum_4_2 = 0.0f;
        var sum_4_3 = 0.0f;
        var sum_4_4 = 0.0f;
        var sum_4_5 = 0.0f;
        var sum_4_6 = 0.0f;
        var sum_4_7 = 0.0f;
        var sum_5_0 = 0.0f;
        var sum_5_1 = 0.0f;
        var sum_5_2 = 0.0f;
        var sum_5_3 = 0.0f;
        var sum_5_4 = 0.0f;
        var sum_5_5 = 0.0f;
        var sum_5_6 = 0.0f;
        var sum_5_7 = 0.0f;
        var sum_6_0 = 0.0f;
        var sum_6_1 = 0.0f;
        var sum_6_2 = 0.0f;
        var sum_6_3 = 0.0f;
        var sum_6_4 = 0.0f;
        var sum_6_5 = 0.0f;
        var sum_6_6 = 0.0f;
        var sum_6_7 = 0.0f;
        var sum_7_0 = 0.0f;
        var sum_7_1 = 0.0f;
        var sum_7_2 = 0.0f;
        var sum_7_3 = 0.0f;
        var sum_7_4 = 0.0f;
        var sum_7_5 = 0.0f;
        var sum_7_6 = 0.0f;
        var sum_7_7 = 0.0f;
        let q_1 = quotient(lane, idx(16));
        let r_2 = (lane - q_1 * idx(16)) * idx(1);
        let o_3 = first_m + q_1;
        let inside_4 = o_3 < size_m;
        let o_5 = select(idx(0), o_3, inside_4);
        let p_6 = base0 + o_5 * stride0_0;
        let q_8 = q_1 + idx(4);
        let o_9 = first_m + q_8;
        let inside_10 = o_9 < size_m;
        let o_11 = select(idx(0), o_9, inside_10);
        let p_12 = base0 + o_11 * stride0_0;
        let q_14 = q_1 + idx(8);
        let o_15 = first_m + q_14;
        let inside_16 = o_15 < size_m;
        let o_17 = select(idx(0), o_15, inside_16);
        let p_18 = base0 + o_17 * stride0_0;
        let q_20 = q_1 + idx(12);
        let o_21 = first_m + q_20;
        let inside_22 = o_21 < size_m;
        let o_23 = select(idx(0), o_21, inside_22);
        let p_24 = base0 + o_23 * stride0_0;
        let q_26 = q_1 + idx(16);
        let o_27 = first_m + q_26;
        let inside_28 = o_27 < size_m;
        let o_29 = select(idx(0), o_27, inside_28);
        let p_30 = base0 + o_29 * stride0_0;
        let q_32 = q_1 + idx(20);
        let o_33 = first_m + q_32;
        let inside_34 = o_33 < size_m;
        let o_35 = select(idx(0), o_33, inside_34);
        let p_36 = base0 + o_35 * stride0_0;
        let q_38 = q_1 + idx(24);
        let o_39 = first_m + q_38;
        let inside_40 = o_39 < size_m;
        let o_41 = select(idx(0), o_39, inside_40);
        let p_42 = base0 + o_41 * stride0_0;
        let q_44 = q_1 + idx(28);
        let o_45 = first_m + q_44;
        let inside_46 = o_45 < size_m;
        let o_47 = select(idx(0), o_45, inside_46);
        let p_48 = base0 + o_47 * stride0_0;
        let q_50 = q_1 + idx(32);
        let o_51 = first_m + q_50;
        let inside_52 = o_51 < size_m;
        let o_53 = select(idx(0), o_51, inside_52);
        let p_54 = base0 + o_53 * stride0_0;
        let q_56 = q_1 + idx(36);
        let o_57 = first_m + q_56;
        let inside_58 = o_57 < size_m;
        let o_59 = select(idx(0), o_57, inside_58);
        let p_60 = base0 + o_59 * stride0_0;
        let q_62 = q_1 + idx(40);
        let o_63 = first_m + q_62;
        let inside_64 = o_63 < size_m;
        let o_65 = select(idx(0), o_63, inside_64);
        let p_66 = base0 + o_65 * stride0_0;
        let q_68 = q_1 + idx(44);
        let o_69 = first_m + q_68;
        let inside_70 = o_69 < size_m;
        let o_71 = select(idx(0), o_69, inside_70);
        let p_72 = base0 + o_71 * stride0_0;
        let q_74 = q_1 + idx(48);
        let o_75 = first_m + q_74;
        let inside_76 = o_75 < size_m;
        let o_77 = select(idx(0), o_75, inside_76);
        let p_78 = base0 + o_77 * stride0_0;
        let q_80 = q_1 + idx(52);
        let o_81 = first_m + q_80;
        let inside_82 = o_81 < size_m;
        let o_83 = select(idx(0), o_81, inside_82);
        let p_84 = base0 + o_83 * stride0_0;
        let q_86 = q_1 + idx(56);
        let o_87 = first_m + q_86;
        let inside_88 = o_87 < size_m;
        let o_89 = select(idx(0), o_87, inside_88);
        let p_90 = base0 + o_89 * stride0_0;
        let q_92 = q_1 + idx(60);
        let o_93 = first_m + q_92;
        let inside_94 = o_93 < size_m;
        let o_95 = select(idx(0), o_93, inside_94);
        let p_96 = base0 + o_95 * stride0_0;
        var v_7 = 0.0f;
        var v_13 = 0.0f;
        var v_19 = 0.0f;
        var v_25 = 0.0f;
        var v_31 = 0.0f;
        var v_37 = 0.0f;
        var v_43 = 0.0f;
        var v_49 = 0.0f;
        var v_55 = 0.0f;
        var v_61 = 0.0f;
        var v_67 = 0.0f;
        var v_73 = 0.0f;
        var v_79 = 0.0f;
        var v_85 = 0.0f;
        var v_91 = 0.0f;
        var v_97 = 0.0f;
        let q_98 = quotient(lane, idx(64));
        let r_99 = (lane - q_98 * idx(64)) * idx(1);
        let fill_100 = bitcast<f32>(fill1_0);
        let o_101 = first_n + r_99;
        let inside_102 = o_101 < size_n;
        let o_103 = select(idx(0), o_101, inside_102);
        let q_104 = quotient(o_103, size2);
        let i_105 = o_103 - q_104 * size2;
        let p_106 = base1 + q_104 * stride1_1 + i_105;
        let g_107 = guard1_0 + q_104 * share1_0_1;
        let g_108 = guard1_1 + i_105 * share1_1_2;
        let q_110 = q_98 + idx(1);
        let q_112 = q_98 + idx(2);
        let q_114 = q_98 + idx(3);
        let q_116 = q_98 + idx(4);
        let q_118 = q_98 + idx(5);
        let q_120 = q_98 + idx(6);
        let q_122 = q_98 + idx(7);
        let q_124 = q_98 + idx(8);
        let q_126 = q_98 + idx(9);
        let q_128 = q_98 + idx(10);
        let q_130 = q_98 + idx(11);
        let q_132 = q_98 + idx(12);
        let q_134 = q_98 + idx(13);
        let q_136 = q_98 + idx(14);
        let q_138 = q_98 + idx(15);
        var v_109 = 0.0f;
        var v_111 = 0.0f;
        var v_113 = 0.0f;
        var v_115 = 0.0f;
        var v_117 = 0.0f;
        var v_119 = 0.0f;
        var v_121 = 0.0f;
        var v_123 = 0.0f;
        var v_125 = 0.0f;
        var v_127 = 0.0f;
        var v_129 = 0.0f;
        var v_131 = 0.0f;
        var v_133 = 0.0f;
        var v_135 = 0.0f;
        var v_137 = 0.0f;
        var v_139 = 0.0f;
        var ahead_140 = idx(0);
        var ahead_141 = idx(0);
        var ahead_142 = idx(0);
        var ahead_143 = idx(0);
        if (lane < idx(16)) {
            let k_144 = begin + lane;
            let q_145 = quotient(k_144, size5);
            let i_146 = k_144 - q_145 * size5;
            let q_147 = quotient(q_145, size4);
            let i_148 = q_145 - q_147 * size4;
            ahead_140 = idx(0) + q_147 * stride0_3 + i_148 * stride0_4 + i_146;
            ahead_141 = idx(0) + q_147 * stride1_3 + i_148 * stride1_4 + i_146;
            ahead_142 = idx(0) + i_148 * share1_0_4;
            ahead_143 = idx(0) + i_146 * share1_1_5;
        }
        if (lane < idx(16)) {
            steps[lane * idx(1) + idx(0)] = vec4<idx>(ahead_140, ahead_141, ahead_142, ahead_143);
        }
        workgroupBarrier();
        for (var k0 = begin; k0 < until + idx(16); k0 += idx(16)) {
            let k_149 = k0 + r_2;
            let s_150 = steps[r_2 * idx(1) + idx(0)];
            let p_151 = p_6 + s_150.x;
            v_7 = 0.0f;
            if ((k_149 < until)) {
                let x_152 = b0[p_151];
                v_7 = x_152;
            }
            let p_153 = p_12 + s_150.x;
            v_13 = 0.0f;
            if ((k_149 < until)) {
                let x_154 = b0[p_153];
                v_13 = x_154;
            }
            let p_155 = p_18 + s_150.x;
            v_19 = 0.0f;
            if ((k_149 < until)) {
                let x_156 = b0[p_155];
                v_19 = x_156;
            }
            let p_157 = p_24 + s_150.x;
            v_25 = 0.0f;
            if ((k_149 < until)) {
                let x_158 = b0[p_157];
                v_25 = x_158;
            }
            let p_159 = p_30 + s_150.x;
            v_31 = 0.0f;
            if ((k_149 < until)) {
                let x_160 = b0[p_159];
                v_31 = x_160;
            }
            let p_161 = p_36 + s_150.x;
            v_37 = 0.0f;
            if ((k_149 < until)) {
                let x_162 = b0[p_161];
                v_37 = x_162;
            }
            let p_163 = p_42 + s_150.x;
            v_43 = 0.0f;
            if ((k_149 < until)) {
                let x_164 = b0[p_163];
                v_43 = x_164;
            }
            let p_165 = p_48 + s_150.x;
            v_49 = 0.0f;
            if ((k_149 < until)) {
                let x_166 = b0[p_165];
                v_49 = x_166;
            }
            let p_167 = p_54 + s_150.x;
            v_55 = 0.0f;
            if ((k_149 < until)) {
                let x_168 = b0[p_167];
                v_55 = x_168;
            }
            let p_169 = p_60 + s_150.x;
            v_61 = 0.0f;
            if ((k_149 < until)) {
                let x_170 = b0[p_169];
                v_61 = x_170;
            }
            let p_171 = p_66 + s_150.x;
            v_67 = 0.0f;
            if ((k_149 < until)) {
                let x_172 = b0[p_171];
                v_67 = x_172;
            }
            let p_173 = p_72 + s_150.x;
            v_73 = 0.0f;
            if ((k_149 < until)) {
                let x_174 = b0[p_173];
                v_73 = x_174;
            }
            let p_175 = p_78 + s_150.x;
            v_79 = 0.0f;
            if ((k_149 < until)) {
                let x_176 = b0[p_175];
                v_79 = x_176;
            }
            let p_177 = p_84 + s_150.x;
            v_85 = 0.0f;
            if ((k_149 < until)) {
                let x_178 = b0[p_177];
                v_85 = x_178;
            }
            let p_179 = p_90 + s_150.x;
            v_91 = 0.0f;
            if ((k_149 < until)) {
                let x_180 = b0[p_179];
                v_91 = x_180;
            }
            let p_181 = p_96 + s_150.x;
            v_97 = 0.0f;
            if ((k_149 < until)) {
                let x_182 = b0[p_181];
                v_97 = x_182;
            }
            let k_183 = k0 + q_98;
            let s_184 = steps[q_98 * idx(1) + idx(0)];
            let p_185 = p_106 + s_184.y;
            let g_186 = g_107 + s_184.z;
            let g_187 = g_108 + s_184.w;
            v_109 = select(0.0f, fill_100, k_183 < until);
            if ((k_183 < until) & in_range(p_185 - low1, high1 - low1) & in_range(g_186, limit1_0) & in_range(g_187, limit1_1)) {
                let x_188 = b1[p_185];
                v_109 = x_188;
            }
            let k_189 = k0 + q_110;
            let s_190 = steps[q_110 * idx(1) + idx(0)];
            let p_191 = p_106 + s_190.y;
            let g_192 = g_107 + s_190.z;
            let g_193 = g_108 + s_190.w;
            v_111 = select(0.0f, fill_100, k_189 < until);
            if ((k_189 < until) & in_range(p_191 - low1, high1 - low1) & in_range(g_192, limit1_0) & in_range(g_193, limit1_1)) {
                let x_194 = b1[p_191];
                v_111 = x_194;
            }
            let k_195 = k0 + q_112;
            let s_196 = steps[q_112 * idx(1) + idx(0)];
            let p_197 = p_106 + s_196.y;
            let g_198 = g_107 + s_196.z;
            let g_199 = g_108 + s_196.w;
            v_113 = select(0.0f, fill_100, k_195 < until);
            if ((k_195 < until) & in_range(p_197 - low1, high1 - low1) & in_range(g_198, limit1_0) & in_range(g_199, limit1_1)) {
                let x_200 = b1[p_197];
                v_113 = x_200;
            }
            let k_201 = k0 + q_114;
            let s_202 = steps[q_114 * idx(1) + idx(0)];
            let p_203 = p_106 + s_202.y;
            let g_204 = g_107 + s_202.z;
            let g_205 = g_108 + s_202.w;
            v_115 = select(0.0f, fill_100, k_201 < until);
            if ((k_201 < until) & in_range(p_203 - low1, high1 - low1) & in_range(g_204, limit1_0) & in_range(g_205, limit1_1)) {
                let x_206 = b1[p_203];
                v_115 = x_206;
            }
            let k_207 = k0 + q_116;
            let s_208 = steps[q_116 * idx(1) + idx(0)];
            let p_209 = p_106 + s_208.y;
            let g_210 = g_107 + s_208.z;
            let g_211 = g_108 + s_208.w;
            v_117 = select(0.0f, fill_100, k_207 < until);
            if ((k_207 < until) & in_range(p_209 - low1, high1 - low1) & in_range(g_210, limit1_0) & in_range(g_211, limit1_1)) {
                let x_212 = b1[p_209];
                v_117 = x_212;
            }
            let k_213 = k0 + q_118;
            let s_214 = steps[q_118 * idx(1) + idx(0)];
            let p_215 = p_106 + s_214.y;
            let g_216 = g_107 + s_214.z;
            let g_217 = g_108 + s_214.w;
            v_119 = select(0.0f, fill_100, k_213 < until);
            if ((k_213 < until) & in_range(p_215 - low1, high1 - low1) & in_range(g_216, limit1_0) & in_range(g_217, limit1_1)) {
                let x_218 = b1[p_215];
                v_119 = x_218;
            }
            let k_219 = k0 + q_120;
            let s_220 = steps[q_120 * idx(1) + idx(0)];
            let p_221 = p_106 + s_220.y;
            let g_222 = g_107 + s_220.z;
            let g_223 = g_108 + s_220.w;
            v_121 = select(0.0f, fill_100, k_219 < until);
            if ((k_219 < until) & in_range(p_221 - low1, high1 - low1) & in_range(g_222, limit1_0) & in_range(g_223, limit1_1)) {
                let x_224 = b1[p_221];
                v_121 = x_224;
            }
            let k_225 = k0 + q_122;
            let s_226 = steps[q_122 * idx(1) + idx(0)];
            let p_227 = p_106 + s_226.y;
            let g_228 = g_107 + s_226.z;
            let g_229 = g_108 + s_226.w;
            v_123 = select(0.0f, fill_100, k_225 < until);
            if ((k_225 < until) & in_range(p_227 - low1, high1 - low1) & in_range(g_228, limit1_0) & in_range(g_229, limit1_1)) {
                let x_230 = b1[p_227];
                v_123 = x_230;
            }
            let k_231 = k0 + q_124;
            let s_232 = steps[q_124 * idx(1) + idx(0)];
            let p_233 = p_106 + s_232.y;
            let g_234 = g_107 + s_232.z;
            let g_235 = g_108 + s_232.w;
            v_125 = select(0.0f, fill_100, k_231 < until);
            if ((k_231 < until) & in_range(p_233 - low1, high1 - low1) & in_range(g_234, limit1_0) & in_range(g_235, limit1_1)) {
                let x_236 = b1[p_233];
                v_125 = x_236;
            }
            let k_237 = k0 + q_126;
            let s_238 = steps[q_126 * idx(1) + idx(0)];
            let p_239 = p_106 + s_238.y;
            let g_240 = g_107 + s_238.z;
            let g_241 = g_108 + s_238.w;
            v_127 = select(0.0f, fill_100, k_237 < until);
            if ((k_237 < until) & in_range(p_239 - low1, high1 - low1) & in_range(g_240, limit1_0) & in_range(g_241, limit1_1)) {
                let x_242 = b1[p_239];
                v_127 = x_242;
            }
            let k_243 = k0 + q_128;
            let s_244 = steps[q_128 * idx(1) + idx(0)];
            let p_245 = p_106 + s_244.y;
            let g_246 = g_107 + s_244.z;
            let g_247 = g_108 + s_244.w;
            v_129 = select(0.0f, fill_100, k_243 < until);
            if ((k_243 < until) & in_range(p_245 - low1, high1 - low1) & in_range(g_246, limit1_0) & in_range(g_247, limit1_1)) {
                let x_248 = b1[p_245];
                v_129 = x_248;
            }
            let k_249 = k0 + q_130;
            let s_250 = steps[q_130 * idx(1) + idx(0)];
            let p_251 = p_106 + s_250.y;
            let g_252 = g_107 + s_250.z;
            let g_253 = g_108 + s_250.w;
            v_131 = select(0.0f, fill_100, k_249 < until);
            if ((k_249 < until) & in_range(p_251 - low1, high1 - low1) & in_range(g_252, limit1_0) & in_range(g_253, limit1_1)) {
                let x_254 = b1[p_251];
                v_131 = x_254;
            }
            let k_255 = k0 + q_132;
            let s_256 = steps[q_132 * idx(1) + idx(0)];
            let p_257 = p_106 + s_256.y;
            let g_258 = g_107 + s_256.z;
            let g_259 = g_108 + s_256.w;
            v_133 = select(0.0f, fill_100, k_255 < until);
            if ((k_255 < until) & in_range(p_257 - low1, high1 - low1) & in_range(g_258, limit1_0) & in_range(g_259, limit1_1)) {
                let x_260 = b1[p_257];
                v_133 = x_260;
            }
            let k_261 = k0 + q_134;
            let s_262 = steps[q_134 * idx(1) + idx(0)];
            let p_263 = p_106 + s_262.y;
            let g_264 = g_107 + s_262.z;
            let g_265 = g_108 + s_262.w;
            v_135 = select(0.0f, fill_100, k_261 < until);
            if ((k_261 < until) & in_range(p_263 - low1, high1 - low1) & in_range(g_264, limit1_0) & in_range(g_265, limit1_1)) {
                let x_266 = b1[p_263];
                v_135 = x_266;
            }
            let k_267 = k0 + q_136;
            let s_268 = steps[q_136 * idx(1) + idx(0)];
            let p_269 = p_106 + s_268.y;
            let g_270 = g_107 + s_268.z;
            let g_271 = g_108 + s_268.w;
            v_137 = select(0.0f, fill_100, k_267 < until);
            if ((k_267 < until) & in_range(p_269 - low1, high1 - low1) & in_range(g_270, limit1_0) & in_range(g_271, limit1_1)) {
                let x_272 = b1[p_269];
                v_137 = x_272;
            }
            let k_273 = k0 + q_138;
            let s_274 = steps[q_138 * idx(1) + idx(0)];
            let p_275 = p_106 + s_274.y;
            let g_276 = g_107 + s_274.z;
            let g_277 = g_108 + s_274.w;
            v_139 = select(0.0f, fill_100, k_273 < until);
            if ((k_273 < until) & in_range(p_275 - low1, high1 - low1) & in_range(g_276, limit1_0) & in_range(g_277, limit1_1)) {
                let x_278 = b1[p_275];
                v_139 = x_278;
            }
            if (lane < idx(16)) {
                let k_279 = k0 + idx(16) + lane;
                let q_280 = quotient(k_279, size5);
                let i_281 = k_279 - q_280 * size5;
                let q_282 = quotient(q_280, size4);
                let i_283 = q_280 - q_282 * size4;
                ahead_140 = idx(0) + q_282 * stride0_3 + i_283 * stride0_4 + i_281;
                ahead_141 = idx(0) + q_282 * stride1_3 + i_283 * stride1_4 + i_281;
                ahead_142 = idx(0) + i_283 * share1_0_4;
                ahead_143 = idx(0) + i_281 * share1_1_5;
            }
            if (k0 > begin) {
                for (var kk = idx(0); kk < idx(16); kk += idx(1)) {
                    let v_284 = left[(kk * idx(68) + y * idx(4) + idx(0)) >> 2u];
                    let v_285 = left[(kk * idx(68) + y * idx(4) + idx(32)) >> 2u];
                    let v_286 = right[(kk * idx(68) + x * idx(4) + idx(0)) >> 2u];
                    let v_287 = right[(kk * idx(68) + x * idx(4) + idx(32)) >> 2u];
                    sum_0_0 = fma(v_284.x, v_286.x, sum_0_0);
                    sum_0_1 = fma(v_284.x, v_286.y, sum_0_1);
                    sum_0_2 = fma(v_284.x, v_286.z, sum_0_2);
                    sum_0_3 = fma(v_284.x, v_286.w, sum_0_3);
                    sum_0_4 = fma(v_284.x, v_287.x, sum_0_4);
                    sum_0_5 = fma(v_284.x, v_287.y, sum_0_5);
                    sum_0_6 = fma(v_284.x, v_287.z, sum_0_6);
                    sum_0_7 = fma(v_284.x, v_287.w, sum_0_7);
                    sum_1_0 = fma(v_284.y, v_286.x, sum_1_0);
                    sum_1_1 = fma(v_284.y, v_286.y, sum_1_1);
                    sum_1_2 = fma(v_284.y, v_286.z, sum_1_2);
                    sum_1_3 = fma(v_284.y, v_286.w, sum_1_3);
                    sum_1_4 = fma(v_284.y, v_287.x, sum_1_4);
                    sum_1_5 = fma(v_284.y, v_287.y, sum_1_5);
                    sum_1_6 = fma(v_284.y, v_287.z, sum_1_6);
                    sum_1_7 = fma(v_284.y, v_287.w, sum_1_7);
                    sum_2_0 = fma(v_284.z, v_286.x, sum_2_0);
                    sum_2_1 = fma(v_284.z, v_286.y, sum_2_1);
                    sum_2_2 = fma(v_284.z, v_286.z, sum_2_2);
                    sum_2_3 = fma(v_284.z, v_286.w, sum_2_3);
                    sum_2_4 = fma(v_284.z, v_287.x, sum_2_4);
                    sum_2_5 = fma(v_284.z, v_287.y, sum_2_5);
                    sum_2_6 = fma(v_284.z, v_287.z, sum_2_6);
                    sum_2_7 = fma(v_284.z, v_287.w, sum_2_7);
                    sum_3_0 = fma(v_284.w, v_286.x, sum_3_0);
                    sum_3_1 = fma(v_284.w, v_286.y, sum_3_1);
                    sum_3_2 = fma(v_284.w, v_286.z, sum_3_2);
                    sum_3_3 = fma(v_284.w, v_286.w, sum_3_3);
                    sum_3_4 = fma(v_284.w, v_287.x, sum_3_4);
                    sum_3_5 = fma(v_284.w, v_287.y, sum_3_5);
                    sum_3_6 = fma(v_284.w, v_287.z, sum_3_6);
                    sum_3_7 = fma(v_284.w, v_287.w, sum_3_7);
                    sum_4_0 = fma(v_285.x, v_286.x, sum_4_0);
                    sum_4_1 = fma(v_285.x, v_286.y, sum_4_1);
                    sum_4_2 = fma(v_285.x, v_286.z, sum_4_2);
                    sum_4_3 = fma(v_285.x, v_286.w, sum_4_3);
                    sum_4_4 = fma(v_285.x, v_287.x, sum_4_4);
                    sum_4_5 = fma(v_285.x, v_287.y, sum_4_5);
                    sum_4_6 = fma(v_285.x, v_287.z, sum_4_6);
                    sum_4_7 = fma(v_285.x, v_287.w, sum_4_7);
                    sum_5_0 = fma(v_285.y, v_286.x, sum_5_0);
                    sum_5_1 = fma(v_285.y, v_286.y, sum_5_1);
                    sum_5_2 = fma(v_285.y, v_286.z, sum_5_2);
                    sum_5_3 = fma(v_285.y, v_286.w, sum_5_3);
                    sum_5_4 = fma(v_285.y, v_287.x, sum_5_4);
                    sum_5_5 = fma(v_285.y, v_287.y, sum_5_5);
                    sum_5_6 = fma(v_285.y, v_287.z, sum_5_6);
                    sum_5_7 = fma(v_285.y, v_287.w, sum_5_7);
                    sum_6_0 = fma(v_285.z, v_286.x, sum_6_0);
                    sum_6_1 = fma(v_285.z, v_286.y, sum_6_1);
                    sum_6_2 = fma(v_285.z, v_286.z, sum_6_2);
                    sum_6_3 = fma(v_285.z, v_286.w, sum_6_3);
                    sum_6_4 = fma(v_285.z, v_287.x, sum_6_4);
                    sum_6_5 = fma(v_285.z, v_287.y, sum_6_5);
                    sum_6_6 = fma(v_285.z, v_287.z, sum_6_6);
                    sum_6_7 = fma(v_285.z, v_287.w, sum_6_7);
                    sum_7_0 = fma(v_285.w, v_286.x, sum_7_0);
                    sum_7_1 = fma(v_285.w, v_286.y, sum_7_1);
                    sum_7_2 = fma(v_285.w, v_286.z, sum_7_2);
                    sum_7_3 = fma(v_285.w, v_286.w, sum_7_3);
                    sum_7_4 = fma(v_285.w, v_287.x, sum_7_4);
                    sum_7_5 = fma(v_285.w, v_287.y, sum_7_5);
                    sum_7_6 = fma(v_285.w, v_287.z, sum_7_6);
                    sum_7_7 = fma(v_285.w, v_287.w, sum_7_7);
                }
            }
            workgroupBarrier();
            let a_288 = r_2 * idx(68) + q_1;
            left[a_288 >> 2u][u32(a_288) & 3u] = v_7;
            let a_289 = r_2 * idx(68) + q_8;
            left[a_289 >> 2u][u32(a_289) & 3u] = v_13;
            let a_290 = r_2 * idx(68) + q_14;
            left[a_290 >> 2u][u32(a_290) & 3u] = v_19;
            let a_291 = r_2 * idx(68) + q_20;
            left[a_291 >> 2u][u32(a_291) & 3u] = v_25;
            let a_292 = r_2 * idx(68) + q_26;
            left[a_292 >> 2u][u32(a_292) & 3u] = v_31;
            let a_293 = r_2 * idx(68) + q_32;
            left[a_293 >> 2u][u32(a_293) & 3u] = v_37;
            let a_294 = r_2 * idx(68) + q_38;
            left[a_294 >> 2u][u32(a_294) & 3u] = v_43;
            let a_295 = r_2 * idx(68) + q_44;
            left[a_295 >> 2u][u32(a_295) & 3u] = v_49;
            let a_296 = r_2 * idx(68) + q_50;
            left[a_296 >> 2u][u32(a_296) & 3u] = v_55;
            let a_297 = r_2 * idx(68) + q_56;
            left[a_297 >> 2u][u32(a_297) & 3u] = v_61;
            let a_298 = r_2 * idx(68) + q_62;
            left[a_298 >> 2u][u32(a_298) & 3u] = v_67;
            let a_299 = r_2 * idx(68) + q_68;
            left[a_299 >> 2u][u32(a_299) & 3u] = v_73;
            let a_300 = r_2 * idx(68) + q_74;
            left[a_300 >> 2u][u32(a_300) & 3u] = v_79;
            let a_301 = r_2 * idx(68) + q_80;
            left[a_301 >> 2u][u32(a_301) & 3u] = v_85;
            let a_302 = r_2 * idx(68) + q_86;
            left[a_302 >> 2u][u32(a_302) & 3u] = v_91;
            let a_303 = r_2 * idx(68) + q_92;
            left[a_303 >> 2u][u32(a_303) & 3u] = v_97;
            let a_304 = q_98 * idx(68) + r_99;
            right[a_304 >> 2u][u32(a_304) & 3u] = v_109;
            let a_305 = q_110 * idx(68) + r_99;
            right[a_305 >> 2u][u32(a_305) & 3u] = v_111;
            let a_306 = q_112 * idx(68) + r_99;
            right[a_306 >> 2u][u32(a_306) & 3u] = v_113;
            let a_307 = q_114 * idx(68) + r_99;
            right[a_307 >> 2u][u32(a_307) & 3u] = v_115;
            let a_308 = q_116 * idx(68) + r_99;
            right[a_308 >> 2u][u32(a_308) & 3u] = v_117;
            let a_309 = q_118 * idx(68) + r_99;
            right[a_309 >> 2u][u32(a_309) & 3u] = v_119;
            let a_310 = q_120 * idx(68) + r_99;
            right[a_310 >> 2u][u32(a_310) & 3u] = v_121;
            let a_311 = q_122 * idx(68) + r_99;
            right[a_311 >> 2u][u32(a_311) & 3u] = v_123;
            let a_312 = q_124 * idx(68) + r_99;
            right[a_312 >> 2u][u32(a_312) & 3u] = v_125;
            let a_313 = q_126 * idx(68) + r_99;
            right[a_313 >> 2u][u32(a_313) & 3u] = v_127;
            let a_314 = q_128 * idx(68) + r_99;
            right[a_314 >> 2u][u32(a_314) & 3u] = v_129;
            let a_315 = q_130 * idx(68) + r_99;
            right[a_315 >> 2u][u32(a_315) & 3u] = v_131;
            let a_316 = q_132 * idx(68) + r_99;
            right[a_316 >> 2u][u32(a_316) & 3u] = v_133;
            let a_317 = q_134 * idx(68) + r_99;
            right[a_317 >> 2u][u32(a_317) & 3u] = v_135;
            let a_318 = q_136 * idx(68) + r_99;
            right[a_318 >> 2u][u32(a_318) & 3u] = v_137;
            let a_319 = q_138 * idx(68) + r_99;
            right[a_319 >> 2u][u32(a_319) & 3u] = v_139;
            if (lane < idx(16)) {
                steps[lane * idx(1) + idx(0)] = vec4<idx>(ahead_140, ahead_141, ahead_142, ahead_143);
            }
            workgroupBarrier();
        }
        let n_320 = first_n + x * idx(4) + idx(0);
        let n_321 = first_n + x * idx(4) + idx(1);
        let n_322 = first_n + x * idx(4) + idx(2);
        let n_323 = first_n + x * idx(4) + idx(3);
        let n_324 = first_n + x * idx(4) + idx(32);
        let n_325 = first_n + x * idx(4) + idx(33);
        let n_326 = first_n + x * idx(4) + idx(34);
        let n_327 = first_n + x * idx(4) + idx(35);
        let m_328 = first_m + y * idx(4) + idx(0);
        if (m_328 < size_m) {
            let p_329 = (slice * size_m + m_328) * size_n;
            if (n_320 < size_n) {
                let p_330 = work_base + (p_329 + n_320) * idx(1);
                work[p_330 + idx(0)] = bitcast<u32>(sum_0_0);
            }
            if (n_321 < size_n) {
                let p_331 = work_base + (p_329 + n_321) * idx(1);
                work[p_331 + idx(0)] = bitcast<u32>(sum_0_1);
            }
            if (n_322 < size_n) {
                let p_332 = work_base + (p_329 + n_322) * idx(1);
                work[p_332 + idx(0)] = bitcast<u32>(sum_0_2);
            }
            if (n_323 < size_n) {
                let p_333 = work_base + (p_329 + n_323) * idx(1);
                work[p_333 + idx(0)] = bitcast<u32>(sum_0_3);
            }
            if (n_324 < size_n) {
                let p_334 = work_base + (p_329 + n_324) * idx(1);
                work[p_334 + idx(0)] = bitcast<u32>(sum_0_4);
            }
            if (n_325 < size_n) {
                let p_335 = work_base + (p_329 + n_325) * idx(1);
                work[p_335 + idx(0)] = bitcast<u32>(sum_0_5);
            }
            if (n_326 < size_n) {
                let p_336 = work_base + (p_329 + n_326) * idx(1);
                work[p_336 + idx(0)] = bitcast<u32>(sum_0_6);
            }
            if (n_327 < size_n) {
                let p_337 = work_base + (p_329 + n_327) * idx(1);
                work[p_337 + idx(0)] = bitcast<u32>(sum_0_7);
            }
        }
        let m_338 = first_m + y * idx(4) + idx(1);
        if (m_338 < size_m) {
            let p_339 = (slice * size_m + m_338) * size_n;
            if (n_320 < size_n) {
                let p_340 = work_base + (p_339 + n_320) * idx(1);
                work[p_340 + idx(0)] = bitcast<u32>(sum_1_0);
            }
            if (n_321 < size_n) {
                let p_341 = work_base + (p_339 + n_321) * idx(1);
                work[p_341 + idx(0)] = bitcast<u32>(sum_1_1);
            }
            if (n_322 < size_n) {
                let p_342 = work_base + (p_339 + n_322) * idx(1);
                work[p_342 + idx(0)] = bitcast<u32>(sum_1_2);
            }
            if (n_323 < size_n) {
                let p_343 = work_base + (p_339 + n_323) * idx(1);
                work[p_343 + idx(0)] = bitcast<u32>(sum_1_3);
            }
            if (n_324 < size_n) {
                let p_344 = work_base + (p_339 + n_324) * idx(1);
                work[p_344 + idx(0)] = bitcast<u32>(sum_1_4);
            }
            if (n_325 < size_n) {
                let p_345 = work_base + (p_339 + n_325) * idx(1);
                work[p_345 + idx(0)] = bitcast<u32>(sum_1_5);
            }
            if (n_326 < size_n) {
                let p_346 = work_base + (p_339 + n_326) * idx(1);
                work[p_346 + idx(0)] = bitcast<u32>(sum_1_6);
            }
            if (n_327 < size_n) {
                let p_347 = work_base + (p_339 + n_327) * idx(1);
                work[p_347 + idx(0)] = bitcast<u32>(sum_1_7);
            }
        }
        let m_348 = first_m + y * idx(4) + idx(2);
        if (m_348 < size_m) {
            let p_349 = (slice * size_m + m_348) * size_n;
            if (n_320 < size_n) {
                let p_350 = work_base + (p_349 + n_320) * idx(1);
                work[p_350 + idx(0)] = bitcast<u32>(sum_2_0);
            }
            if (n_321 < size_n) {
                let p_351 = work_base + (p_349 + n_321) * idx(1);
                work[p_351 + idx(0)] = bitcast<u32>(sum_2_1);
            }
            if (n_322 < size_n) {
                let p_352 = work_base + (p_349 + n_322) * idx(1);
                work[p_352 + idx(0)] = bitcast<u32>(sum_2_2);
            }
            if (n_323 < size_n) {
                let p_353 = work_base + (p_349 + n_323) * idx(1);
                work[p_353 + idx(0)] = bitcast<u32>(sum_2_3);
            }
            if (n_324 < size_n) {
                let p_354 = work_base + (p_349 + n_324) * idx(1);
                work[p_354 + idx(0)] = bitcast<u32>(sum_2_4);
            }
            if (n_325 < size_n) {
                let p_355 = work_base + (p_349 + n_325) * idx(1);
                work[p_355 + idx(0)] = bitcast<u32>(sum_2_5);
            }
            if (n_326 < size_n) {
                let p_356 = work_base + (p_349 + n_326) * idx(1);
                work[p_356 + idx(0)] = bitcast<u32>(sum_2_6);
            }
            if (n_327 < size_n) {
                let p_357 = work_base + (p_349 + n_327) * idx(1);
                work[p_357 + idx(0)] = bitcast<u32>(sum_2_7);
            }
        }
        let m_358 = first_m + y * idx(4) + idx(3);
        if (m_358 < size_m) {
            let p_359 = (slice * size_m + m_358) * size_n;
            if (n_320 < size_n) {
                let p_360 = work_base + (p_359 + n_320) * idx(1);
                work[p_360 + idx(0)] = bitcast<u32>(sum_3_0);
            }
            if (n_321 < size_n) {
                let p_361 = work_base + (p_359 + n_321) * idx(1);
                work[p_361 + idx(0)] = bitcast<u32>(sum_3_1);
            }
            if (n_322 < size_n) {
                let p_362 = work_base + (p_359 + n_322) * idx(1);
                work[p_362 + idx(0)] = bitcast<u32>(sum_3_2);
            }
            if (n_323 < size_n) {
                let p_363 = work_base + (p_359 + n_323) * idx(1);
                work[p_363 + idx(0)] = bitcast<u32>(sum_3_3);
            }
            if (n_324 < size_n) {
                let p_364 = work_base + (p_359 + n_324) * idx(1);
                work[p_364 + idx(0)] = bitcast<u32>(sum_3_4);
            }
            if (n_325 < size_n) {
                let p_365 = work_base + (p_359 + n_325) * idx(1);
                work[p_365 + idx(0)] = bitcast<u32>(sum_3_5);
            }
            if (n_326 < size_n) {
                let p_366 = work_base + (p_359 + n_326) * idx(1);
                work[p_366 + idx(0)] = bitcast<u32>(sum_3_6);
            }
            if (n_327 < size_n) {
                let p_367 = work_base + (p_359 + n_327) * idx(1);
                work[p_367 + idx(0)] = bitcast<u32>(sum_3_7);
            }
        }
        let m_368 = first_m + y * idx(4) + idx(32);
        if (m_368 < size_m) {
            let p_369 = (slice * size_m + m_368) * size_n;
            if (n_320 < size_n) {
                let p_370 = work_base + (p_369 + n_320) * idx(1);
                work[p_370 + idx(0)] = bitcast<u32>(sum_4_0);
            }
            if (n_321 < size_n) {
                let p_371 = work_base + (p_369 + n_321) * idx(1);
                work[p_371 + idx(0)] = bitcast<u32>(sum_4_1);
            }
            if (n_322 < size_n) {
                let p_372 = work_base + (p_369 + n_322) * idx(1);
                work[p_372 + idx(0)] = bitcast<u32>(sum_4_2);
            }
            if (n_323 < size_n) {
                let p_373 = work_base + (p_369 + n_323) * idx(1);
                work[p_373 + idx(0)] = bitcast<u32>(sum_4_3);
            }
            if (n_324 < size_n) {
                let p_374 = work_base + (p_369 + n_324) * idx(1);
                work[p_374 + idx(0)] = bitcast<u32>(sum_4_4);
            }
            if (n_325 < size_n) {
                let p_375 = work_base + (p_369 + n_325) * idx(1);
                work[p_375 + idx(0)] = bitcast<u32>(sum_4_5);
            }
            if (n_326 < size_n) {
                let p_376 = work_base + (p_369 + n_326) * idx(1);
                work[p_376 + idx(0)] = bitcast<u32>(sum_4_6);
            }
            if (n_327 < size_n) {
                let p_377 = work_base + (p_369 + n_327) * idx(1);
                work[p_377 + idx(0)] = bitcast<u32>(sum_4_7);
            }
        }
        let m_378 = first_m + y * idx(4) + idx(33);
        if (m_378 < size_m) {
            let p_379 = (slice * size_m + m_378) * size_n;
            if (n_320 < size_n) {
                let p_380 = work_base + (p_379 + n_320) * idx(1);
                work[p_380 + idx(0)] = bitcast<u32>(sum_5_0);
            }
            if (n_321 < size_n) {
                let p_381 = work_base + (p_379 + n_321) * idx(1);
                work[p_381 + idx(0)] = bitcast<u32>(sum_5_1);
            }
            if (n_322 < size_n) {
                let p_382 = work_base + (p_379 + n_322) * idx(1);
                work[p_382 + idx(0)] = bitcast<u32>(sum_5_2);
            }
            if (n_323 < size_n) {
                let p_383 = work_base + (p_379 + n_323) * idx(1);
                work[p_383 + idx(0)] = bitcast<u32>(sum_5_3);
            }
            if (n_324 < size_n) {
                let p_384 = work_base + (p_379 + n_324) * idx(1);
                work[p_384 + idx(0)] = bitcast<u32>(sum_5_4);
            }
            if (n_325 < size_n) {
                let p_385 = work_base + (p_379 + n_325) * idx(1);
                work[p_385 + idx(0)] = bitcast<u32>(sum_5_5);
            }
            if (n_326 < size_n) {
                let p_386 = work_base + (p_379 + n_326) * idx(1);
                work[p_386 + idx(0)] = bitcast<u32>(sum_5_6);
            }
            if (n_327 < size_n) {
                let p_387 = work_base + (p_379 + n_327) * idx(1);
                work[p_387 + idx(0)] = bitcast<u32>(sum_5_7);
            }
        }
        let m_388 = first_m + y * idx(4) + idx(34);
        if (m_388 < size_m) {
            let p_389 = (slice * size_m + m_388) * size_n;
            if (n_320 < size_n) {
                let p_390 = work_base + (p_389 + n_320) * idx(1);
                work[p_390 + idx(0)] = bitcast<u32>(sum_6_0);
            }
            if (n_321 < size_n) {
                let p_391 = work_base + (p_389 + n_321) * idx(1);
                work[p_391 + idx(0)] = bitcast<u32>(sum_6_1);
            }
            if (n_322 < size_n) {
                let p_392 = work_base + (p_389 + n_322) * idx(1);
                work[p_392 + idx(0)] = bitcast<u32>(sum_6_2);
            }
            if (n_323 < size_n) {
                let p_393 = work_base + (p_389 + n_323) * idx(1);
                work[p_393 + idx(0)] = bitcast<u32>(sum_6_3);
            }
            if (n_324 < size_n) {
                let p_394 = work_base + (p_389 + n_324) * idx(1);
                work[p_394 + idx(0)] = bitcast<u32>(sum_6_4);
            }
            if (n_325 < size_n) {
                let p_395 = work_base + (p_389 + n_325) * idx(1);
                work[p_395 + idx(0)] = bitcast<u32>(sum_6_5);
            }
            if (n_326 < size_n) {
                let p_396 = work_base + (p_389 + n_326) * idx(1);
                work[p_396 + idx(0)] = bitcast<u32>(sum_6_6);
            }
            if (n_327 < size_n) {
                let p_397 = work_base + (p_389 + n_327) * idx(1);
                work[p_397 + idx(0)] = bitcast<u32>(sum_6_7);
            }
        }
        let m_398 = first_m + y * idx(4) + idx(35);
        if (m_398 < size_m) {
            let p_399 = (slice * size_m + m_398) * size_n;
            if (n_320 < size_n) {
                let p_400 = work_base + (p_399 + n_320) * idx(1);
                work[p_400 + idx(0)] = bitcast<u32>(sum_7_0);
            }
            if (n_321 < size_n) {
                let p_401 = work_base + (p_399 + n_321) * idx(1);
                work[p_401 + idx(0)] = bitcast<u32>(sum_7_1);
            }
            if (n_322 < size_n) {
                let p_402 = work_base + (p_399 + n_322) * idx(1);
                work[p_402 + idx(0)] = bitcast<u32>(sum_7_2);
            }
            if (n_323 < size_n) {
                let p_403 = work_base + (p_399 + n_323) * idx(1);
                work[p_403 + idx(0)] = bitcast<u32>(sum_7_3);
            }
            if (n_324 < size_n) {
                let p_404 = work_base + (p_399 + n_324) * idx(1);
                work[p_404 + idx(0)] = bitcast<u32>(sum_7_4);
            }
            if (n_325 < size_n) {
                let p_405 = work_base + (p_399 + n_325) * idx(1);
                work[p_405 + idx(0)] = bitcast<u32>(sum_7_5);
            }
            if (n_326 < size_n) {
                let p_406 = work_base + (p_399 + n_326) * idx(1);
                work[p_406 + idx(0)] = bitcast<u32>(sum_7_6);
            }
            if (n_327 < size_n) {
                let p_407 = work_base + (p_399 + n_327) * idx(1);
                work[p_407 + idx(0)] = bitcast<u32>(sum_7_7);
            }
        }
    }
}
@compute @workgroup_size(256)
fn contract_parts(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) block: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>) {
    let lane = idx(thread);
    let group = idx(block.x + block.y * grid.x);
    let groups = idx(grid.x * grid.y);
    let size2 = bitcast<idx>(args[2].w);
    let work_base = bitcast<idx>(args[7].z);
    let number8 = bitcast<idx>(args[7].w);
    let number9 = bitcast<idx>(args[8].x);
    let size1 = bitcast<idx>(args[8].y);
    let base2 = bitcast<idx>(args[8].z);
    let stride2_0 = bitcast<idx>(args[8].w);
    let stride2_1 = bitcast<idx>(args[9].x);
    for (var n = group * idx(256) + lane; n < number8; n += groups * idx(256)) {
        let q_1 = quotient(n, size2);
        let i_2 = n - q_1 * size2;
        let q_3 = quotient(q_1, size1);
        let i_4 = q_1 - q_3 * size1;
        var sum = 0.0f;
        var part = idx(0);
        while (part + idx(3) < number9) {
            let p_5 = work_base + ((part + idx(0)) * number8 + n) * idx(1);
            let x_6 = bitcast<f32>(work[p_5 + idx(0)]);
            let p_7 = work_base + ((part + idx(1)) * number8 + n) * idx(1);
            let x_8 = bitcast<f32>(work[p_7 + idx(0)]);
            let p_9 = work_base + ((part + idx(2)) * number8 + n) * idx(1);
            let x_10 = bitcast<f32>(work[p_9 + idx(0)]);
            let p_11 = work_base + ((part + idx(3)) * number8 + n) * idx(1);
            let x_12 = bitcast<f32>(work[p_11 + idx(0)]);
            sum = (sum + x_6);
            sum = (sum + x_8);
            sum = (sum + x_10);
            sum = (sum + x_12);
            part += idx(4);
        }
        while (part + idx(0) < number9) {
            let p_13 = work_base + ((part + idx(0)) * number8 + n) * idx(1);
            let x_14 = bitcast<f32>(work[p_13 + idx(0)]);
            sum = (sum + x_14);
            part += idx(1);
        }
        let p_15 = base2 + q_3 * stride2_0 + i_4 * stride2_1 + i_2;
        b2[p_15] = sum;
    }
}
