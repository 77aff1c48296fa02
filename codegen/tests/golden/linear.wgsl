@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
@group(0) @binding(0) var<storage, read_write> v0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
@group(0) @binding(1) var<storage, read_write> v1: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> b2: array<f32>;
@group(0) @binding(3) var<storage, read_write> b3: array<f32>;
@group(0) @binding(3) var<storage, read_write> v3: array<vec4<f32>>;
@group(1) @binding(0) var<uniform> args: array<vec4<u32>, 4>;
fn zero_word() -> u32 {
    return args[3].y;
}

// x as it is, but opaque to a compiler that would merge the operations before with those after.
fn keep_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ zero_word());
}
var<workgroup> left: array<vec4<f32>, 144>;
var<workgroup> right: array<vec4<f32>, 144>;
@compute @workgroup_size(64)
fn contract_by_four(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) block: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>) {
    let lane = idx(thread);
    let group = idx(block.x + block.y * grid.x);
    let groups = idx(grid.x * grid.y);
    let number0 = bitcast<idx>(args[0].x);
    let number1 = bitcast<idx>(args[0].y);
    let number2 = bitcast<idx>(args[0].z);
    let number3 = bitcast<idx>(args[0].w);
    let number4 = bitcast<idx>(args[1].x);
    let number5 = bitcast<idx>(args[1].y);
    let base0 = bitcast<idx>(args[1].z);
    let stride0_0 = bitcast<idx>(args[1].w);
    let base1 = bitcast<idx>(args[2].x);
    let stride1_2 = bitcast<idx>(args[2].y);
    let base2 = bitcast<idx>(args[2].z);
    let base3 = bitcast<idx>(args[2].w);
    let stride3_0 = bitcast<idx>(args[3].x);
    let size_m = number3;
    let size_n = number4;
    let size_k = number5;
    let y = quotient(lane, idx(8));
    let x = lane - y * idx(8);
    for (var tile = group; tile < number2; tile += groups) {
        let batch = quotient(tile, number1);
        let within = tile - batch * number1;
        let tile_m = quotient(within, number0);
        let first_m = tile_m * idx(32);
        let first_n = (within - tile_m * number0) * idx(32);
        var sum_0_0 = 0.0f;
        var sum_0_1 = 0.0f;
        var sum_0_2 = 0.0f;
        var sum_0_3 = 0.0f;
        var sum_1_0 = 0.0f;
        var sum_1_1 = 0.0f;
        var sum_1_2 = 0.0f;
        var sum_1_3 = 0.0f;
        var sum_2_0 = 0.0f;
        var sum_2_1 = 0.0f;
        var sum_2_2 = 0.0f;
        var sum_2_3 = 0.0f;
        var sum_3_0 = 0.0f;
        var sum_3_1 = 0.0f;
        var sum_3_2 = 0.0f;
        var sum_3_3 = 0.0f;
        let s_1 = lane + idx(0);
        let q_2 = quotient(s_1, idx(4));
        let r_3 = (s_1 - q_2 * idx(4)) * idx(4);
        let o_4 = first_m + q_2;
        let inside_5 = o_4 < size_m;
        let o_6 = select(idx(0), o_4, inside_5);
        let s_11 = lane + idx(64);
        let q_12 = quotient(s_11, idx(4));
        let r_13 = (s_11 - q_12 * idx(4)) * idx(4);
        let o_14 = first_m + q_12;
        let inside_15 = o_14 < size_m;
        let o_16 = select(idx(0), o_14, inside_15);
        var v_7 = 0.0f;
        var v_8 = 0.0f;
        var v_9 = 0.0f;
        var v_10 = 0.0f;
        var v_17 = 0.0f;
        var v_18 = 0.0f;
        var v_19 = 0.0f;
        var v_20 = 0.0f;
        let s_21 = lane + idx(0);
        let q_22 = quotient(s_21, idx(8));
        let r_23 = (s_21 - q_22 * idx(8)) * idx(4);
        let o_24 = first_n + r_23;
        let inside_25 = o_24 < size_n;
        let o_26 = select(idx(0), o_24, inside_25);
        let s_31 = lane + idx(64);
        let q_32 = quotient(s_31, idx(8));
        let r_33 = (s_31 - q_32 * idx(8)) * idx(4);
        let o_34 = first_n + r_33;
        let inside_35 = o_34 < size_n;
        let o_36 = select(idx(0), o_34, inside_35);
        var v_27 = 0.0f;
        var v_28 = 0.0f;
        var v_29 = 0.0f;
        var v_30 = 0.0f;
        var v_37 = 0.0f;
        var v_38 = 0.0f;
        var v_39 = 0.0f;
        var v_40 = 0.0f;
        for (var k0 = idx(0); k0 < size_k + idx(16); k0 += idx(16)) {
            v_7 = 0.0f;
            v_8 = 0.0f;
            v_9 = 0.0f;
            v_10 = 0.0f;
            let k_41 = k0 + r_3;
            if (inside_5 && k_41 < size_k) {
                let p_42 = base0 + o_6 * stride0_0 + k_41;
                let v_43 = v0[p_42 >> 2u];
                v_7 = v_43.x;
                v_8 = v_43.y;
                v_9 = v_43.z;
                v_10 = v_43.w;
            }
            v_17 = 0.0f;
            v_18 = 0.0f;
            v_19 = 0.0f;
            v_20 = 0.0f;
            let k_44 = k0 + r_13;
            if (inside_15 && k_44 < size_k) {
                let p_45 = base0 + o_16 * stride0_0 + k_44;
                let v_46 = v0[p_45 >> 2u];
                v_17 = v_46.x;
                v_18 = v_46.y;
                v_19 = v_46.z;
                v_20 = v_46.w;
            }
            v_27 = 0.0f;
            v_28 = 0.0f;
            v_29 = 0.0f;
            v_30 = 0.0f;
            let k_47 = k0 + q_22;
            if (inside_25 && k_47 < size_k) {
                let p_48 = base1 + o_26 + k_47 * stride1_2;
                let v_49 = v1[p_48 >> 2u];
                v_27 = v_49.x;
                v_28 = v_49.y;
                v_29 = v_49.z;
                v_30 = v_49.w;
            }
            v_37 = 0.0f;
            v_38 = 0.0f;
            v_39 = 0.0f;
            v_40 = 0.0f;
            let k_50 = k0 + q_32;
            if (inside_35 && k_50 < size_k) {
                let p_51 = base1 + o_36 + k_50 * stride1_2;
                let v_52 = v1[p_51 >> 2u];
                v_37 = v_52.x;
                v_38 = v_52.y;
                v_39 = v_52.z;
                v_40 = v_52.w;
            }
            if (k0 > idx(0)) {
                for (var kk = idx(0); kk < idx(16); kk += idx(1)) {
                    let v_53 = left[(kk * idx(36) + y * idx(4) + idx(0)) >> 2u];
                    let v_54 = right[(kk * idx(36) + x * idx(4) + idx(0)) >> 2u];
                    sum_0_0 = fma(v_53.x, v_54.x, sum_0_0);
                    sum_0_1 = fma(v_53.x, v_54.y, sum_0_1);
                    sum_0_2 = fma(v_53.x, v_54.z, sum_0_2);
                    sum_0_3 = fma(v_53.x, v_54.w, sum_0_3);
                    sum_1_0 = fma(v_53.y, v_54.x, sum_1_0);
                    sum_1_1 = fma(v_53.y, v_54.y, sum_1_1);
                    sum_1_2 = fma(v_53.y, v_54.z, sum_1_2);
                    sum_1_3 = fma(v_53.y, v_54.w, sum_1_3);
                    sum_2_0 = fma(v_53.z, v_54.x, sum_2_0);
                    sum_2_1 = fma(v_53.z, v_54.y, sum_2_1);
                    sum_2_2 = fma(v_53.z, v_54.z, sum_2_2);
                    sum_2_3 = fma(v_53.z, v_54.w, sum_2_3);
                    sum_3_0 = fma(v_53.w, v_54.x, sum_3_0);
                    sum_3_1 = fma(v_53.w, v_54.y, sum_3_1);
                    sum_3_2 = fma(v_53.w, v_54.z, sum_3_2);
                    sum_3_3 = fma(v_53.w, v_54.w, sum_3_3);
                }
            }
            workgroupBarrier();
            let a_55 = r_3 * idx(36) + q_2;
            left[a_55 >> 2u][u32(a_55) & 3u] = v_7;
            left[(a_55 + idx(36)) >> 2u][u32((a_55 + idx(36))) & 3u] = v_8;
            left[(a_55 + idx(72)) >> 2u][u32((a_55 + idx(72))) & 3u] = v_9;
            left[(a_55 + idx(108)) >> 2u][u32((a_55 + idx(108))) & 3u] = v_10;
            let a_56 = r_13 * idx(36) + q_12;
            left[a_56 >> 2u][u32(a_56) & 3u] = v_17;
            left[(a_56 + idx(36)) >> 2u][u32((a_56 + idx(36))) & 3u] = v_18;
            left[(a_56 + idx(72)) >> 2u][u32((a_56 + idx(72))) & 3u] = v_19;
            left[(a_56 + idx(108)) >> 2u][u32((a_56 + idx(108))) & 3u] = v_20;
            let a_57 = q_22 * idx(36) + r_23;
            right[a_57 >> 2u] = vec4<f32>(v_27, v_28, v_29, v_30);
            let a_58 = q_32 * idx(36) + r_33;
            right[a_58 >> 2u] = vec4<f32>(v_37, v_38, v_39, v_40);
            workgroupBarrier();
        }
        let n_59 = first_n + x * idx(4) + idx(0);
        let n_60 = first_n + x * idx(4) + idx(1);
        let n_61 = first_n + x * idx(4) + idx(2);
        let n_62 = first_n + x * idx(4) + idx(3);
        let m_63 = first_m + y * idx(4) + idx(0);
        if (m_63 < size_m) {
            if (n_59 < size_n) {
                let p_64 = base2 + n_59;
                let x_65 = b2[p_64];
                let t_66 = (sum_0_0 + keep_f32(x_65));
                let p_67 = base2 + n_60;
                let x_68 = b2[p_67];
                let t_69 = (sum_0_1 + keep_f32(x_68));
                let p_70 = base2 + n_61;
                let x_71 = b2[p_70];
                let t_72 = (sum_0_2 + keep_f32(x_71));
                let p_73 = base2 + n_62;
                let x_74 = b2[p_73];
                let t_75 = (sum_0_3 + keep_f32(x_74));
                let p_76 = base3 + m_63 * stride3_0 + n_59;
                v3[p_76 >> 2u] = vec4<f32>(t_66, t_69, t_72, t_75);
            }
        }
        let m_77 = first_m + y * idx(4) + idx(1);
        if (m_77 < size_m) {
            if (n_59 < size_n) {
                let p_78 = base2 + n_59;
                let x_79 = b2[p_78];
                let t_80 = (sum_1_0 + keep_f32(x_79));
                let p_81 = base2 + n_60;
                let x_82 = b2[p_81];
                let t_83 = (sum_1_1 + keep_f32(x_82));
                let p_84 = base2 + n_61;
                let x_85 = b2[p_84];
                let t_86 = (sum_1_2 + keep_f32(x_85));
                let p_87 = base2 + n_62;
                let x_88 = b2[p_87];
                let t_89 = (sum_1_3 + keep_f32(x_88));
                let p_90 = base3 + m_77 * stride3_0 + n_59;
                v3[p_90 >> 2u] = vec4<f32>(t_80, t_83, t_86, t_89);
            }
        }
        let m_91 = first_m + y * idx(4) + idx(2);
        if (m_91 < size_m) {
            if (n_59 < size_n) {
                let p_92 = base2 + n_59;
                let x_93 = b2[p_92];
                let t_94 = (sum_2_0 + keep_f32(x_93));
                let p_95 = base2 + n_60;
                let x_96 = b2[p_95];
                let t_97 = (sum_2_1 + keep_f32(x_96));
                let p_98 = base2 + n_61;
                let x_99 = b2[p_98];
                let t_100 = (sum_2_2 + keep_f32(x_99));
                let p_101 = base2 + n_62;
                let x_102 = b2[p_101];
                let t_103 = (sum_2_3 + keep_f32(x_102));
                let p_104 = base3 + m_91 * stride3_0 + n_59;
                v3[p_104 >> 2u] = vec4<f32>(t_94, t_97, t_100, t_103);
            }
        }
        let m_105 = first_m + y * idx(4) + idx(3);
        if (m_105 < size_m) {
            if (n_59 < size_n) {
                let p_106 = base2 + n_59;
                let x_107 = b2[p_106];
                let t_108 = (sum_3_0 + keep_f32(x_107));
                let p_109 = base2 + n_60;
                let x_110 = b2[p_109];
                let t_111 = (sum_3_1 + keep_f32(x_110));
                let p_112 = base2 + n_61;
                let x_113 = b2[p_112];
                let t_114 = (sum_3_2 + keep_f32(x_113));
                let p_115 = base2 + n_62;
                let x_116 = b2[p_115];
                let t_117 = (sum_3_3 + keep_f32(x_116));
                let p_118 = base3 + m_105 * stride3_0 + n_59;
                v3[p_118 >> 2u] = vec4<f32>(t_108, t_111, t_114, t_117);
            }
        }
    }
}
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
    let base0 = bitcast<idx>(args[1].z);
    let stride0_0 = bitcast<idx>(args[1].w);
    let base1 = bitcast<idx>(args[2].x);
    let stride1_2 = bitcast<idx>(args[2].y);
    let base2 = bitcast<idx>(args[2].z);
    let base3 = bitcast<idx>(args[2].w);
    let stride3_0 = bitcast<idx>(args[3].x);
    let size_m = number3;
    let size_n = number4;
    let size_k = number5;
    let y = quotient(lane, idx(8));
    let x = lane - y * idx(8);
    for (var tile = group; tile < number2; tile += groups) {
        let batch = quotient(tile, number1);
        let within = tile - batch * number1;
        let tile_m = quotient(within, number0);
        let first_m = tile_m * idx(32);
        let first_n = (within - tile_m * number0) * idx(32);
        var sum_0_0 = 0.0f;
        var sum_0_1 = 0.0f;
        var sum_0_2 = 0.0f;
        var sum_0_3 = 0.0f;
        var sum_1_0 = 0.0f;
        var sum_1_1 = 0.0f;
        var sum_1_2 = 0.0f;
        var sum_1_3 = 0.0f;
        var sum_2_0 = 0.0f;
        var sum_2_1 = 0.0f;
        var sum_2_2 = 0.0f;
        var sum_2_3 = 0.0f;
        var sum_3_0 = 0.0f;
        var sum_3_1 = 0.0f;
        var sum_3_2 = 0.0f;
        var sum_3_3 = 0.0f;
        let s_1 = lane + idx(0);
        let q_2 = quotient(s_1, idx(16));
        let r_3 = (s_1 - q_2 * idx(16)) * idx(1);
        let o_4 = first_m + q_2;
        let inside_5 = o_4 < size_m;
        let o_6 = select(idx(0), o_4, inside_5);
        let s_8 = lane + idx(64);
        let q_9 = quotient(s_8, idx(16));
        let r_10 = (s_8 - q_9 * idx(16)) * idx(1);
        let o_11 = first_m + q_9;
        let inside_12 = o_11 < size_m;
        let o_13 = select(idx(0), o_11, inside_12);
        let s_15 = lane + idx(128);
        let q_16 = quotient(s_15, idx(16));
        let r_17 = (s_15 - q_16 * idx(16)) * idx(1);
        let o_18 = first_m + q_16;
        let inside_19 = o_18 < size_m;
        let o_20 = select(idx(0), o_18, inside_19);
        let s_22 = lane + idx(192);
        let q_23 = quotient(s_22, idx(16));
        let r_24 = (s_22 - q_23 * idx(16)) * idx(1);
        let o_25 = first_m + q_23;
        let inside_26 = o_25 < size_m;
        let o_27 = select(idx(0), o_25, inside_26);
        let s_29 = lane + idx(256);
        let q_30 = quotient(s_29, idx(16));
        let r_31 = (s_29 - q_30 * idx(16)) * idx(1);
        let o_32 = first_m + q_30;
        let inside_33 = o_32 < size_m;
        let o_34 = select(idx(0), o_32, inside_33);
        let s_36 = lane + idx(320);
        let q_37 = quotient(s_36, idx(16));
        let r_38 = (s_36 - q_37 * idx(16)) * idx(1);
        let o_39 = first_m + q_37;
        let inside_40 = o_39 < size_m;
        let o_41 = select(idx(0), o_39, inside_40);
        let s_43 = lane + idx(384);
        let q_44 = quotient(s_43, idx(16));
        let r_45 = (s_43 - q_44 * idx(16)) * idx(1);
        let o_46 = first_m + q_44;
        let inside_47 = o_46 < size_m;
        let o_48 = select(idx(0), o_46, inside_47);
        let s_50 = lane + idx(448);
        let q_51 = quotient(s_50, idx(16));
        let r_52 = (s_50 - q_51 * idx(16)) * idx(1);
        let o_53 = first_m + q_51;
        let inside_54 = o_53 < size_m;
        let o_55 = select(idx(0), o_53, inside_54);
        var v_7 = 0.0f;
        var v_14 = 0.0f;
        var v_21 = 0.0f;
        var v_28 = 0.0f;
        var v_35 = 0.0f;
        var v_42 = 0.0f;
        var v_49 = 0.0f;
        var v_56 = 0.0f;
        let s_57 = lane + idx(0);
        let q_58 = quotient(s_57, idx(32));
        let r_59 = (s_57 - q_58 * idx(32)) * idx(1);
        let o_60 = first_n + r_59;
        let inside_61 = o_60 < size_n;
        let o_62 = select(idx(0), o_60, inside_61);
        let s_64 = lane + idx(64);
        let q_65 = quotient(s_64, idx(32));
        let r_66 = (s_64 - q_65 * idx(32)) * idx(1);
        let o_67 = first_n + r_66;
        let inside_68 = o_67 < size_n;
        let o_69 = select(idx(0), o_67, inside_68);
        let s_71 = lane + idx(128);
        let q_72 = quotient(s_71, idx(32));
        let r_73 = (s_71 - q_72 * idx(32)) * idx(1);
        let o_74 = first_n + r_73;
        let inside_75 = o_74 < size_n;
        let o_76 = select(idx(0), o_74, inside_75);
        let s_78 = lane + idx(192);
        let q_79 = quotient(s_78, idx(32));
        let r_80 = (s_78 - q_79 * idx(32)) * idx(1);
        let o_81 = first_n + r_80;
        let inside_82 = o_81 < size_n;
        let o_83 = select(idx(0), o_81, inside_82);
        let s_85 = lane + idx(256);
        let q_86 = quotient(s_85, idx(32));
        let r_87 = (s_85 - q_86 * idx(32)) * idx(1);
        let o_88 = first_n + r_87;
        let inside_89 = o_88 < size_n;
        let o_90 = select(idx(0), o_88, inside_89);
        let s_92 = lane + idx(320);
        let q_93 = quotient(s_92, idx(32));
        let r_94 = (s_92 - q_93 * idx(32)) * idx(1);
        let o_95 = first_n + r_94;
        let inside_96 = o_95 < size_n;
        let o_97 = select(idx(0), o_95, inside_96);
        let s_99 = lane + idx(384);
        let q_100 = quotient(s_99, idx(32));
        let r_101 = (s_99 - q_100 * idx(32)) * idx(1);
        let o_102 = first_n + r_101;
        let inside_103 = o_102 < size_n;
        let o_104 = select(idx(0), o_102, inside_103);
        let s_106 = lane + idx(448);
        let q_107 = quotient(s_106, idx(32));
        let r_108 = (s_106 - q_107 * idx(32)) * idx(1);
        let o_109 = first_n + r_108;
        let inside_110 = o_109 < size_n;
        let o_111 = select(idx(0), o_109, inside_110);
        var v_63 = 0.0f;
        var v_70 = 0.0f;
        var v_77 = 0.0f;
        var v_84 = 0.0f;
        var v_91 = 0.0f;
        var v_98 = 0.0f;
        var v_105 = 0.0f;
        var v_112 = 0.0f;
        for (var k0 = idx(0); k0 < size_k + idx(16); k0 += idx(16)) {
            v_7 = 0.0f;
            let k_113 = k0 + r_3;
            if (inside_5 && k_113 < size_k) {
                let p_114 = base0 + o_6 * stride0_0 + k_113;
                let x_115 = b0[p_114];
                v_7 = x_115;
            }
            v_14 = 0.0f;
            let k_116 = k0 + r_10;
            if (inside_12 && k_116 < size_k) {
                let p_117 = base0 + o_13 * stride0_0 + k_116;
                let x_118 = b0[p_117];
                v_14 = x_118;
            }
            v_21 = 0.0f;
            let k_119 = k0 + r_17;
            if (inside_19 && k_119 < size_k) {
                let p_120 = base0 + o_20 * stride0_0 + k_119;
                let x_121 = b0[p_120];
                v_21 = x_121;
            }
            v_28 = 0.0f;
            let k_122 = k0 + r_24;
            if (inside_26 && k_122 < size_k) {
                let p_123 = base0 + o_27 * stride0_0 + k_122;
                let x_124 = b0[p_123];
                v_28 = x_124;
            }
            v_35 = 0.0f;
            let k_125 = k0 + r_31;
            if (inside_33 && k_125 < size_k) {
                let p_126 = base0 + o_34 * stride0_0 + k_125;
                let x_127 = b0[p_126];
                v_35 = x_127;
            }
            v_42 = 0.0f;
            let k_128 = k0 + r_38;
            if (inside_40 && k_128 < size_k) {
                let p_129 = base0 + o_41 * stride0_0 + k_128;
                let x_130 = b0[p_129];
                v_42 = x_130;
            }
            v_49 = 0.0f;
            let k_131 = k0 + r_45;
            if (inside_47 && k_131 < size_k) {
                let p_132 = base0 + o_48 * stride0_0 + k_131;
                let x_133 = b0[p_132];
                v_49 = x_133;
            }
            v_56 = 0.0f;
            let k_134 = k0 + r_52;
            if (inside_54 && k_134 < size_k) {
                let p_135 = base0 + o_55 * stride0_0 + k_134;
                let x_136 = b0[p_135];
                v_56 = x_136;
            }
            v_63 = 0.0f;
            let k_137 = k0 + q_58;
            if (inside_61 && k_137 < size_k) {
                let p_138 = base1 + o_62 + k_137 * stride1_2;
                let x_139 = b1[p_138];
                v_63 = x_139;
            }
            v_70 = 0.0f;
            let k_140 = k0 + q_65;
            if (inside_68 && k_140 < size_k) {
                let p_141 = base1 + o_69 + k_140 * stride1_2;
                let x_142 = b1[p_141];
                v_70 = x_142;
            }
            v_77 = 0.0f;
            let k_143 = k0 + q_72;
            if (inside_75 && k_143 < size_k) {
                let p_144 = base1 + o_76 + k_143 * stride1_2;
                let x_145 = b1[p_144];
                v_77 = x_145;
            }
            v_84 = 0.0f;
            let k_146 = k0 + q_79;
            if (inside_82 && k_146 < size_k) {
                let p_147 = base1 + o_83 + k_146 * stride1_2;
                let x_148 = b1[p_147];
                v_84 = x_148;
            }
            v_91 = 0.0f;
            let k_149 = k0 + q_86;
            if (inside_89 && k_149 < size_k) {
                let p_150 = base1 + o_90 + k_149 * stride1_2;
                let x_151 = b1[p_150];
                v_91 = x_151;
            }
            v_98 = 0.0f;
            let k_152 = k0 + q_93;
            if (inside_96 && k_152 < size_k) {
                let p_153 = base1 + o_97 + k_152 * stride1_2;
                let x_154 = b1[p_153];
                v_98 = x_154;
            }
            v_105 = 0.0f;
            let k_155 = k0 + q_100;
            if (inside_103 && k_155 < size_k) {
                let p_156 = base1 + o_104 + k_155 * stride1_2;
                let x_157 = b1[p_156];
                v_105 = x_157;
            }
            v_112 = 0.0f;
            let k_158 = k0 + q_107;
            if (inside_110 && k_158 < size_k) {
                let p_159 = base1 + o_111 + k_158 * stride1_2;
                let x_160 = b1[p_159];
                v_112 = x_160;
            }
            if (k0 > idx(0)) {
                for (var kk = idx(0); kk < idx(16); kk += idx(1)) {
                    let v_161 = left[(kk * idx(36) + y * idx(4) + idx(0)) >> 2u];
                    let v_162 = right[(kk * idx(36) + x * idx(4) + idx(0)) >> 2u];
                    sum_0_0 = fma(v_161.x, v_162.x, sum_0_0);
                    sum_0_1 = fma(v_161.x, v_162.y, sum_0_1);
                    sum_0_2 = fma(v_161.x, v_162.z, sum_0_2);
                    sum_0_3 = fma(v_161.x, v_162.w, sum_0_3);
                    sum_1_0 = fma(v_161.y, v_162.x, sum_1_0);
                    sum_1_1 = fma(v_161.y, v_162.y, sum_1_1);
                    sum_1_2 = fma(v_161.y, v_162.z, sum_1_2);
                    sum_1_3 = fma(v_161.y, v_162.w, sum_1_3);
                    sum_2_0 = fma(v_161.z, v_162.x, sum_2_0);
                    sum_2_1 = fma(v_161.z, v_162.y, sum_2_1);
                    sum_2_2 = fma(v_161.z, v_162.z, sum_2_2);
                    sum_2_3 = fma(v_161.z, v_162.w, sum_2_3);
                    sum_3_0 = fma(v_161.w, v_162.x, sum_3_0);
                    sum_3_1 = fma(v_161.w, v_162.y, sum_3_1);
                    sum_3_2 = fma(v_161.w, v_162.z, sum_3_2);
                    sum_3_3 = fma(v_161.w, v_162.w, sum_3_3);
                }
            }
            workgroupBarrier();
            let a_163 = r_3 * idx(36) + q_2;
            left[a_163 >> 2u][u32(a_163) & 3u] = v_7;
            let a_164 = r_10 * idx(36) + q_9;
            left[a_164 >> 2u][u32(a_164) & 3u] = v_14;
            let a_165 = r_17 * idx(36) + q_16;
            left[a_165 >> 2u][u32(a_165) & 3u] = v_21;
            let a_166 = r_24 * idx(36) + q_23;
            left[a_166 >> 2u][u32(a_166) & 3u] = v_28;
            let a_167 = r_31 * idx(36) + q_30;
            left[a_167 >> 2u][u32(a_167) & 3u] = v_35;
            let a_168 = r_38 * idx(36) + q_37;
            left[a_168 >> 2u][u32(a_168) & 3u] = v_42;
            let a_169 = r_45 * idx(36) + q_44;
            left[a_169 >> 2u][u32(a_169) & 3u] = v_49;
            let a_170 = r_52 * idx(36) + q_51;
            left[a_170 >> 2u][u32(a_170) & 3u] = v_56;
            let a_171 = q_58 * idx(36) + r_59;
            right[a_171 >> 2u][u32(a_171) & 3u] = v_63;
            let a_172 = q_65 * idx(36) + r_66;
            right[a_172 >> 2u][u32(a_172) & 3u] = v_70;
            let a_173 = q_72 * idx(36) + r_73;
            right[a_173 >> 2u][u32(a_173) & 3u] = v_77;
            let a_174 = q_79 * idx(36) + r_80;
            right[a_174 >> 2u][u32(a_174) & 3u] = v_84;
            let a_175 = q_86 * idx(36) + r_87;
            right[a_175 >> 2u][u32(a_175) & 3u] = v_91;
            let a_176 = q_93 * idx(36) + r_94;
            right[a_176 >> 2u][u32(a_176) & 3u] = v_98;
            let a_177 = q_100 * idx(36) + r_101;
            right[a_177 >> 2u][u32(a_177) & 3u] = v_105;
            let a_178 = q_107 * idx(36) + r_108;
            right[a_178 >> 2u][u32(a_178) & 3u] = v_112;
            workgroupBarrier();
        }
        let n_179 = first_n + x * idx(4) + idx(0);
        let n_180 = first_n + x * idx(4) + idx(1);
        let n_181 = first_n + x * idx(4) + idx(2);
        let n_182 = first_n + x * idx(4) + idx(3);
        let m_183 = first_m + y * idx(4) + idx(0);
        if (m_183 < size_m) {
            if (n_179 < size_n) {
                let p_184 = base2 + n_179;
                let x_185 = b2[p_184];
                let t_186 = (sum_0_0 + keep_f32(x_185));
                let p_187 = base3 + m_183 * stride3_0 + n_179;
                b3[p_187] = t_186;
            }
            if (n_180 < size_n) {
                let p_188 = base2 + n_180;
                let x_189 = b2[p_188];
                let t_190 = (sum_0_1 + keep_f32(x_189));
                let p_191 = base3 + m_183 * stride3_0 + n_180;
                b3[p_191] = t_190;
            }
            if (n_181 < size_n) {
                let p_192 = base2 + n_181;
                let x_193 = b2[p_192];
                let t_194 = (sum_0_2 + keep_f32(x_193));
                let p_195 = base3 + m_183 * stride3_0 + n_181;
                b3[p_195] = t_194;
            }
            if (n_182 < size_n) {
                let p_196 = base2 + n_182;
                let x_197 = b2[p_196];
                let t_198 = (sum_0_3 + keep_f32(x_197));
                let p_199 = base3 + m_183 * stride3_0 + n_182;
                b3[p_199] = t_198;
            }
        }
        let m_200 = first_m + y * idx(4) + idx(1);
        if (m_200 < size_m) {
            if (n_179 < size_n) {
                let p_201 = base2 + n_179;
                let x_202 = b2[p_201];
                let t_203 = (sum_1_0 + keep_f32(x_202));
                let p_204 = base3 + m_200 * stride3_0 + n_179;
                b3[p_204] = t_203;
            }
            if (n_180 < size_n) {
                let p_205 = base2 + n_180;
                let x_206 = b2[p_205];
                let t_207 = (sum_1_1 + keep_f32(x_206));
                let p_208 = base3 + m_200 * stride3_0 + n_180;
                b3[p_208] = t_207;
            }
            if (n_181 < size_n) {
                let p_209 = base2 + n_181;
                let x_210 = b2[p_209];
                let t_211 = (sum_1_2 + keep_f32(x_210));
                let p_212 = base3 + m_200 * stride3_0 + n_181;
                b3[p_212] = t_211;
            }
            if (n_182 < size_n) {
                let p_213 = base2 + n_182;
                let x_214 = b2[p_213];
                let t_215 = (sum_1_3 + keep_f32(x_214));
                let p_216 = base3 + m_200 * stride3_0 + n_182;
                b3[p_216] = t_215;
            }
        }
        let m_217 = first_m + y * idx(4) + idx(2);
        if (m_217 < size_m) {
            if (n_179 < size_n) {
                let p_218 = base2 + n_179;
                let x_219 = b2[p_218];
                let t_220 = (sum_2_0 + keep_f32(x_219));
                let p_221 = base3 + m_217 * stride3_0 + n_179;
                b3[p_221] = t_220;
            }
            if (n_180 < size_n) {
                let p_222 = base2 + n_180;
                let x_223 = b2[p_222];
                let t_224 = (sum_2_1 + keep_f32(x_223));
                let p_225 = base3 + m_217 * stride3_0 + n_180;
                b3[p_225] = t_224;
            }
            if (n_181 < size_n) {
                let p_226 = base2 + n_181;
                let x_227 = b2[p_226];
                let t_228 = (sum_2_2 + keep_f32(x_227));
                let p_229 = base3 + m_217 * stride3_0 + n_181;
                b3[p_229] = t_228;
            }
            if (n_182 < size_n) {
                let p_230 = base2 + n_182;
                let x_231 = b2[p_230];
                let t_232 = (sum_2_3 + keep_f32(x_231));
                let p_233 = base3 + m_217 * stride3_0 + n_182;
                b3[p_233] = t_232;
            }
        }
        let m_234 = first_m + y * idx(4) + idx(3);
        if (m_234 < size_m) {
            if (n_179 < size_n) {
                let p_235 = base2 + n_179;
                let x_236 = b2[p_235];
                let t_237 = (sum_3_0 + keep_f32(x_236));
                let p_238 = base3 + m_234 * stride3_0 + n_179;
                b3[p_238] = t_237;
            }
            if (n_180 < size_n) {
                let p_239 = base2 + n_180;
                let x_240 = b2[p_239];
                let t_241 = (sum_3_1 + keep_f32(x_240));
                let p_242 = base3 + m_234 * stride3_0 + n_180;
                b3[p_242] = t_241;
            }
            if (n_181 < size_n) {
                let p_243 = base2 + n_181;
                let x_244 = b2[p_243];
                let t_245 = (sum_3_2 + keep_f32(x_244));
                let p_246 = base3 + m_234 * stride3_0 + n_181;
                b3[p_246] = t_245;
            }
            if (n_182 < size_n) {
                let p_247 = base2 + n_182;
                let x_248 = b2[p_247];
                let t_249 = (sum_3_3 + keep_f32(x_248));
                let p_250 = base3 + m_234 * stride3_0 + n_182;
                b3[p_250] = t_249;
            }
        }
    }
}
