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
        let slice = quotient(tile, number1);
        let within = tile - slice * number1;
        let tile_m = quotient(within, number0);
        let first_m = tile_m * idx(32);
        let first_n = (within - tile_m * number0) * idx(32);
        let batch = slice;
        let begin = idx(0);
        let until = size_k;
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
        let q_1 = quotient(lane, idx(4));
        let r_2 = (lane - q_1 * idx(4)) * idx(4);
        let o_3 = first_m + q_1;
        let inside_4 = o_3 < size_m;
        let o_5 = select(idx(0), o_3, inside_4);
        let p_6 = base0 + o_5 * stride0_0;
        let q_11 = q_1 + idx(16);
        let o_12 = first_m + q_11;
        let inside_13 = o_12 < size_m;
        let o_14 = select(idx(0), o_12, inside_13);
        let p_15 = base0 + o_14 * stride0_0;
        var v_7 = 0.0f;
        var v_8 = 0.0f;
        var v_9 = 0.0f;
        var v_10 = 0.0f;
        var v_16 = 0.0f;
        var v_17 = 0.0f;
        var v_18 = 0.0f;
        var v_19 = 0.0f;
        let q_20 = quotient(lane, idx(8));
        let r_21 = (lane - q_20 * idx(8)) * idx(4);
        let o_22 = first_n + r_21;
        let inside_23 = o_22 < size_n;
        let o_24 = select(idx(0), o_22, inside_23);
        let p_25 = base1 + o_24;
        let q_30 = q_20 + idx(8);
        var v_26 = 0.0f;
        var v_27 = 0.0f;
        var v_28 = 0.0f;
        var v_29 = 0.0f;
        var v_31 = 0.0f;
        var v_32 = 0.0f;
        var v_33 = 0.0f;
        var v_34 = 0.0f;
        for (var k0 = begin; k0 < until + idx(16); k0 += idx(16)) {
            let k_35 = k0 + r_2;
            let p_36 = p_6 + k_35;
            v_7 = 0.0f;
            v_8 = 0.0f;
            v_9 = 0.0f;
            v_10 = 0.0f;
            if ((k_35 < until)) {
                let v_37 = v0[p_36 >> 2u];
                v_7 = v_37.x;
                v_8 = v_37.y;
                v_9 = v_37.z;
                v_10 = v_37.w;
            }
            let p_38 = p_15 + k_35;
            v_16 = 0.0f;
            v_17 = 0.0f;
            v_18 = 0.0f;
            v_19 = 0.0f;
            if ((k_35 < until)) {
                let v_39 = v0[p_38 >> 2u];
                v_16 = v_39.x;
                v_17 = v_39.y;
                v_18 = v_39.z;
                v_19 = v_39.w;
            }
            let k_40 = k0 + q_20;
            let p_41 = p_25 + k_40 * stride1_2;
            v_26 = 0.0f;
            v_27 = 0.0f;
            v_28 = 0.0f;
            v_29 = 0.0f;
            if ((k_40 < until)) {
                let v_42 = v1[p_41 >> 2u];
                v_26 = v_42.x;
                v_27 = v_42.y;
                v_28 = v_42.z;
                v_29 = v_42.w;
            }
            let k_43 = k0 + q_30;
            let p_44 = p_25 + k_43 * stride1_2;
            v_31 = 0.0f;
            v_32 = 0.0f;
            v_33 = 0.0f;
            v_34 = 0.0f;
            if ((k_43 < until)) {
                let v_45 = v1[p_44 >> 2u];
                v_31 = v_45.x;
                v_32 = v_45.y;
                v_33 = v_45.z;
                v_34 = v_45.w;
            }
            if (k0 > begin) {
                for (var kk = idx(0); kk < idx(16); kk += idx(1)) {
                    let v_46 = left[(kk * idx(36) + y * idx(4) + idx(0)) >> 2u];
                    let v_47 = right[(kk * idx(36) + x * idx(4) + idx(0)) >> 2u];
                    sum_0_0 = fma(v_46.x, v_47.x, sum_0_0);
                    sum_0_1 = fma(v_46.x, v_47.y, sum_0_1);
                    sum_0_2 = fma(v_46.x, v_47.z, sum_0_2);
                    sum_0_3 = fma(v_46.x, v_47.w, sum_0_3);
                    sum_1_0 = fma(v_46.y, v_47.x, sum_1_0);
                    sum_1_1 = fma(v_46.y, v_47.y, sum_1_1);
                    sum_1_2 = fma(v_46.y, v_47.z, sum_1_2);
                    sum_1_3 = fma(v_46.y, v_47.w, sum_1_3);
                    sum_2_0 = fma(v_46.z, v_47.x, sum_2_0);
                    sum_2_1 = fma(v_46.z, v_47.y, sum_2_1);
                    sum_2_2 = fma(v_46.z, v_47.z, sum_2_2);
                    sum_2_3 = fma(v_46.z, v_47.w, sum_2_3);
                    sum_3_0 = fma(v_46.w, v_47.x, sum_3_0);
                    sum_3_1 = fma(v_46.w, v_47.y, sum_3_1);
                    sum_3_2 = fma(v_46.w, v_47.z, sum_3_2);
                    sum_3_3 = fma(v_46.w, v_47.w, sum_3_3);
                }
            }
            workgroupBarrier();
            let a_48 = r_2 * idx(36) + q_1;
            left[a_48 >> 2u][u32(a_48) & 3u] = v_7;
            left[(a_48 + idx(36)) >> 2u][u32((a_48 + idx(36))) & 3u] = v_8;
            left[(a_48 + idx(72)) >> 2u][u32((a_48 + idx(72))) & 3u] = v_9;
            left[(a_48 + idx(108)) >> 2u][u32((a_48 + idx(108))) & 3u] = v_10;
            let a_49 = r_2 * idx(36) + q_11;
            left[a_49 >> 2u][u32(a_49) & 3u] = v_16;
            left[(a_49 + idx(36)) >> 2u][u32((a_49 + idx(36))) & 3u] = v_17;
            left[(a_49 + idx(72)) >> 2u][u32((a_49 + idx(72))) & 3u] = v_18;
            left[(a_49 + idx(108)) >> 2u][u32((a_49 + idx(108))) & 3u] = v_19;
            let a_50 = q_20 * idx(36) + r_21;
            right[a_50 >> 2u] = vec4<f32>(v_26, v_27, v_28, v_29);
            let a_51 = q_30 * idx(36) + r_21;
            right[a_51 >> 2u] = vec4<f32>(v_31, v_32, v_33, v_34);
            workgroupBarrier();
        }
        let n_52 = first_n + x * idx(4) + idx(0);
        let n_53 = first_n + x * idx(4) + idx(1);
        let n_54 = first_n + x * idx(4) + idx(2);
        let n_55 = first_n + x * idx(4) + idx(3);
        let m_56 = first_m + y * idx(4) + idx(0);
        if (m_56 < size_m) {
            if (n_52 < size_n) {
                let p_57 = base2 + n_52;
                let x_58 = b2[p_57];
                let t_59 = (sum_0_0 + keep_f32(x_58));
                let p_60 = base2 + n_53;
                let x_61 = b2[p_60];
                let t_62 = (sum_0_1 + keep_f32(x_61));
                let p_63 = base2 + n_54;
                let x_64 = b2[p_63];
                let t_65 = (sum_0_2 + keep_f32(x_64));
                let p_66 = base2 + n_55;
                let x_67 = b2[p_66];
                let t_68 = (sum_0_3 + keep_f32(x_67));
                let p_69 = base3 + m_56 * stride3_0 + n_52;
                v3[p_69 >> 2u] = vec4<f32>(t_59, t_62, t_65, t_68);
            }
        }
        let m_70 = first_m + y * idx(4) + idx(1);
        if (m_70 < size_m) {
            if (n_52 < size_n) {
                let p_71 = base2 + n_52;
                let x_72 = b2[p_71];
                let t_73 = (sum_1_0 + keep_f32(x_72));
                let p_74 = base2 + n_53;
                let x_75 = b2[p_74];
                let t_76 = (sum_1_1 + keep_f32(x_75));
                let p_77 = base2 + n_54;
                let x_78 = b2[p_77];
                let t_79 = (sum_1_2 + keep_f32(x_78));
                let p_80 = base2 + n_55;
                let x_81 = b2[p_80];
                let t_82 = (sum_1_3 + keep_f32(x_81));
                let p_83 = base3 + m_70 * stride3_0 + n_52;
                v3[p_83 >> 2u] = vec4<f32>(t_73, t_76, t_79, t_82);
            }
        }
        let m_84 = first_m + y * idx(4) + idx(2);
        if (m_84 < size_m) {
            if (n_52 < size_n) {
                let p_85 = base2 + n_52;
                let x_86 = b2[p_85];
                let t_87 = (sum_2_0 + keep_f32(x_86));
                let p_88 = base2 + n_53;
                let x_89 = b2[p_88];
                let t_90 = (sum_2_1 + keep_f32(x_89));
                let p_91 = base2 + n_54;
                let x_92 = b2[p_91];
                let t_93 = (sum_2_2 + keep_f32(x_92));
                let p_94 = base2 + n_55;
                let x_95 = b2[p_94];
                let t_96 = (sum_2_3 + keep_f32(x_95));
                let p_97 = base3 + m_84 * stride3_0 + n_52;
                v3[p_97 >> 2u] = vec4<f32>(t_87, t_90, t_93, t_96);
            }
        }
        let m_98 = first_m + y * idx(4) + idx(3);
        if (m_98 < size_m) {
            if (n_52 < size_n) {
                let p_99 = base2 + n_52;
                let x_100 = b2[p_99];
                let t_101 = (sum_3_0 + keep_f32(x_100));
                let p_102 = base2 + n_53;
                let x_103 = b2[p_102];
                let t_104 = (sum_3_1 + keep_f32(x_103));
                let p_105 = base2 + n_54;
                let x_106 = b2[p_105];
                let t_107 = (sum_3_2 + keep_f32(x_106));
                let p_108 = base2 + n_55;
                let x_109 = b2[p_108];
                let t_110 = (sum_3_3 + keep_f32(x_109));
                let p_111 = base3 + m_98 * stride3_0 + n_52;
                v3[p_111 >> 2u] = vec4<f32>(t_101, t_104, t_107, t_110);
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
        let slice = quotient(tile, number1);
        let within = tile - slice * number1;
        let tile_m = quotient(within, number0);
        let first_m = tile_m * idx(32);
        let first_n = (within - tile_m * number0) * idx(32);
        let batch = slice;
        let begin = idx(0);
        let until = size_k;
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
        var v_7 = 0.0f;
        var v_13 = 0.0f;
        var v_19 = 0.0f;
        var v_25 = 0.0f;
        var v_31 = 0.0f;
        var v_37 = 0.0f;
        var v_43 = 0.0f;
        var v_49 = 0.0f;
        let q_50 = quotient(lane, idx(32));
        let r_51 = (lane - q_50 * idx(32)) * idx(1);
        let o_52 = first_n + r_51;
        let inside_53 = o_52 < size_n;
        let o_54 = select(idx(0), o_52, inside_53);
        let p_55 = base1 + o_54;
        let q_57 = q_50 + idx(2);
        let q_59 = q_50 + idx(4);
        let q_61 = q_50 + idx(6);
        let q_63 = q_50 + idx(8);
        let q_65 = q_50 + idx(10);
        let q_67 = q_50 + idx(12);
        let q_69 = q_50 + idx(14);
        var v_56 = 0.0f;
        var v_58 = 0.0f;
        var v_60 = 0.0f;
        var v_62 = 0.0f;
        var v_64 = 0.0f;
        var v_66 = 0.0f;
        var v_68 = 0.0f;
        var v_70 = 0.0f;
        for (var k0 = begin; k0 < until + idx(16); k0 += idx(16)) {
            let k_71 = k0 + r_2;
            let p_72 = p_6 + k_71;
            v_7 = 0.0f;
            if ((k_71 < until)) {
                let x_73 = b0[p_72];
                v_7 = x_73;
            }
            let p_74 = p_12 + k_71;
            v_13 = 0.0f;
            if ((k_71 < until)) {
                let x_75 = b0[p_74];
                v_13 = x_75;
            }
            let p_76 = p_18 + k_71;
            v_19 = 0.0f;
            if ((k_71 < until)) {
                let x_77 = b0[p_76];
                v_19 = x_77;
            }
            let p_78 = p_24 + k_71;
            v_25 = 0.0f;
            if ((k_71 < until)) {
                let x_79 = b0[p_78];
                v_25 = x_79;
            }
            let p_80 = p_30 + k_71;
            v_31 = 0.0f;
            if ((k_71 < until)) {
                let x_81 = b0[p_80];
                v_31 = x_81;
            }
            let p_82 = p_36 + k_71;
            v_37 = 0.0f;
            if ((k_71 < until)) {
                let x_83 = b0[p_82];
                v_37 = x_83;
            }
            let p_84 = p_42 + k_71;
            v_43 = 0.0f;
            if ((k_71 < until)) {
                let x_85 = b0[p_84];
                v_43 = x_85;
            }
            let p_86 = p_48 + k_71;
            v_49 = 0.0f;
            if ((k_71 < until)) {
                let x_87 = b0[p_86];
                v_49 = x_87;
            }
            let k_88 = k0 + q_50;
            let p_89 = p_55 + k_88 * stride1_2;
            v_56 = 0.0f;
            if ((k_88 < until)) {
                let x_90 = b1[p_89];
                v_56 = x_90;
            }
            let k_91 = k0 + q_57;
            let p_92 = p_55 + k_91 * stride1_2;
            v_58 = 0.0f;
            if ((k_91 < until)) {
                let x_93 = b1[p_92];
                v_58 = x_93;
            }
            let k_94 = k0 + q_59;
            let p_95 = p_55 + k_94 * stride1_2;
            v_60 = 0.0f;
            if ((k_94 < until)) {
                let x_96 = b1[p_95];
                v_60 = x_96;
            }
            let k_97 = k0 + q_61;
            let p_98 = p_55 + k_97 * stride1_2;
            v_62 = 0.0f;
            if ((k_97 < until)) {
                let x_99 = b1[p_98];
                v_62 = x_99;
            }
            let k_100 = k0 + q_63;
            let p_101 = p_55 + k_100 * stride1_2;
            v_64 = 0.0f;
            if ((k_100 < until)) {
                let x_102 = b1[p_101];
                v_64 = x_102;
            }
            let k_103 = k0 + q_65;
            let p_104 = p_55 + k_103 * stride1_2;
            v_66 = 0.0f;
            if ((k_103 < until)) {
                let x_105 = b1[p_104];
                v_66 = x_105;
            }
            let k_106 = k0 + q_67;
            let p_107 = p_55 + k_106 * stride1_2;
            v_68 = 0.0f;
            if ((k_106 < until)) {
                let x_108 = b1[p_107];
                v_68 = x_108;
            }
            let k_109 = k0 + q_69;
            let p_110 = p_55 + k_109 * stride1_2;
            v_70 = 0.0f;
            if ((k_109 < until)) {
                let x_111 = b1[p_110];
                v_70 = x_111;
            }
            if (k0 > begin) {
                for (var kk = idx(0); kk < idx(16); kk += idx(1)) {
                    let v_112 = left[(kk * idx(36) + y * idx(4) + idx(0)) >> 2u];
                    let v_113 = right[(kk * idx(36) + x * idx(4) + idx(0)) >> 2u];
                    sum_0_0 = fma(v_112.x, v_113.x, sum_0_0);
                    sum_0_1 = fma(v_112.x, v_113.y, sum_0_1);
                    sum_0_2 = fma(v_112.x, v_113.z, sum_0_2);
                    sum_0_3 = fma(v_112.x, v_113.w, sum_0_3);
                    sum_1_0 = fma(v_112.y, v_113.x, sum_1_0);
                    sum_1_1 = fma(v_112.y, v_113.y, sum_1_1);
                    sum_1_2 = fma(v_112.y, v_113.z, sum_1_2);
                    sum_1_3 = fma(v_112.y, v_113.w, sum_1_3);
                    sum_2_0 = fma(v_112.z, v_113.x, sum_2_0);
                    sum_2_1 = fma(v_112.z, v_113.y, sum_2_1);
                    sum_2_2 = fma(v_112.z, v_113.z, sum_2_2);
                    sum_2_3 = fma(v_112.z, v_113.w, sum_2_3);
                    sum_3_0 = fma(v_112.w, v_113.x, sum_3_0);
                    sum_3_1 = fma(v_112.w, v_113.y, sum_3_1);
                    sum_3_2 = fma(v_112.w, v_113.z, sum_3_2);
                    sum_3_3 = fma(v_112.w, v_113.w, sum_3_3);
                }
            }
            workgroupBarrier();
            let a_114 = r_2 * idx(36) + q_1;
            left[a_114 >> 2u][u32(a_114) & 3u] = v_7;
            let a_115 = r_2 * idx(36) + q_8;
            left[a_115 >> 2u][u32(a_115) & 3u] = v_13;
            let a_116 = r_2 * idx(36) + q_14;
            left[a_116 >> 2u][u32(a_116) & 3u] = v_19;
            let a_117 = r_2 * idx(36) + q_20;
            left[a_117 >> 2u][u32(a_117) & 3u] = v_25;
            let a_118 = r_2 * idx(36) + q_26;
            left[a_118 >> 2u][u32(a_118) & 3u] = v_31;
            let a_119 = r_2 * idx(36) + q_32;
            left[a_119 >> 2u][u32(a_119) & 3u] = v_37;
            let a_120 = r_2 * idx(36) + q_38;
            left[a_120 >> 2u][u32(a_120) & 3u] = v_43;
            let a_121 = r_2 * idx(36) + q_44;
            left[a_121 >> 2u][u32(a_121) & 3u] = v_49;
            let a_122 = q_50 * idx(36) + r_51;
            right[a_122 >> 2u][u32(a_122) & 3u] = v_56;
            let a_123 = q_57 * idx(36) + r_51;
            right[a_123 >> 2u][u32(a_123) & 3u] = v_58;
            let a_124 = q_59 * idx(36) + r_51;
            right[a_124 >> 2u][u32(a_124) & 3u] = v_60;
            let a_125 = q_61 * idx(36) + r_51;
            right[a_125 >> 2u][u32(a_125) & 3u] = v_62;
            let a_126 = q_63 * idx(36) + r_51;
            right[a_126 >> 2u][u32(a_126) & 3u] = v_64;
            let a_127 = q_65 * idx(36) + r_51;
            right[a_127 >> 2u][u32(a_127) & 3u] = v_66;
            let a_128 = q_67 * idx(36) + r_51;
            right[a_128 >> 2u][u32(a_128) & 3u] = v_68;
            let a_129 = q_69 * idx(36) + r_51;
            right[a_129 >> 2u][u32(a_129) & 3u] = v_70;
            workgroupBarrier();
        }
        let n_130 = first_n + x * idx(4) + idx(0);
        let n_131 = first_n + x * idx(4) + idx(1);
        let n_132 = first_n + x * idx(4) + idx(2);
        let n_133 = first_n + x * idx(4) + idx(3);
        let m_134 = first_m + y * idx(4) + idx(0);
        if (m_134 < size_m) {
            if (n_130 < size_n) {
                let p_135 = base2 + n_130;
                let x_136 = b2[p_135];
                let t_137 = (sum_0_0 + keep_f32(x_136));
                let p_138 = base3 + m_134 * stride3_0 + n_130;
                b3[p_138] = t_137;
            }
            if (n_131 < size_n) {
                let p_139 = base2 + n_131;
                let x_140 = b2[p_139];
                let t_141 = (sum_0_1 + keep_f32(x_140));
                let p_142 = base3 + m_134 * stride3_0 + n_131;
                b3[p_142] = t_141;
            }
            if (n_132 < size_n) {
                let p_143 = base2 + n_132;
                let x_144 = b2[p_143];
                let t_145 = (sum_0_2 + keep_f32(x_144));
                let p_146 = base3 + m_134 * stride3_0 + n_132;
                b3[p_146] = t_145;
            }
            if (n_133 < size_n) {
                let p_147 = base2 + n_133;
                let x_148 = b2[p_147];
                let t_149 = (sum_0_3 + keep_f32(x_148));
                let p_150 = base3 + m_134 * stride3_0 + n_133;
                b3[p_150] = t_149;
            }
        }
        let m_151 = first_m + y * idx(4) + idx(1);
        if (m_151 < size_m) {
            if (n_130 < size_n) {
                let p_152 = base2 + n_130;
                let x_153 = b2[p_152];
                let t_154 = (sum_1_0 + keep_f32(x_153));
                let p_155 = base3 + m_151 * stride3_0 + n_130;
                b3[p_155] = t_154;
            }
            if (n_131 < size_n) {
                let p_156 = base2 + n_131;
                let x_157 = b2[p_156];
                let t_158 = (sum_1_1 + keep_f32(x_157));
                let p_159 = base3 + m_151 * stride3_0 + n_131;
                b3[p_159] = t_158;
            }
            if (n_132 < size_n) {
                let p_160 = base2 + n_132;
                let x_161 = b2[p_160];
                let t_162 = (sum_1_2 + keep_f32(x_161));
                let p_163 = base3 + m_151 * stride3_0 + n_132;
                b3[p_163] = t_162;
            }
            if (n_133 < size_n) {
                let p_164 = base2 + n_133;
                let x_165 = b2[p_164];
                let t_166 = (sum_1_3 + keep_f32(x_165));
                let p_167 = base3 + m_151 * stride3_0 + n_133;
                b3[p_167] = t_166;
            }
        }
        let m_168 = first_m + y * idx(4) + idx(2);
        if (m_168 < size_m) {
            if (n_130 < size_n) {
                let p_169 = base2 + n_130;
                let x_170 = b2[p_169];
                let t_171 = (sum_2_0 + keep_f32(x_170));
                let p_172 = base3 + m_168 * stride3_0 + n_130;
                b3[p_172] = t_171;
            }
            if (n_131 < size_n) {
                let p_173 = base2 + n_131;
                let x_174 = b2[p_173];
                let t_175 = (sum_2_1 + keep_f32(x_174));
                let p_176 = base3 + m_168 * stride3_0 + n_131;
                b3[p_176] = t_175;
            }
            if (n_132 < size_n) {
                let p_177 = base2 + n_132;
                let x_178 = b2[p_177];
                let t_179 = (sum_2_2 + keep_f32(x_178));
                let p_180 = base3 + m_168 * stride3_0 + n_132;
                b3[p_180] = t_179;
            }
            if (n_133 < size_n) {
                let p_181 = base2 + n_133;
                let x_182 = b2[p_181];
                let t_183 = (sum_2_3 + keep_f32(x_182));
                let p_184 = base3 + m_168 * stride3_0 + n_133;
                b3[p_184] = t_183;
            }
        }
        let m_185 = first_m + y * idx(4) + idx(3);
        if (m_185 < size_m) {
            if (n_130 < size_n) {
                let p_186 = base2 + n_130;
                let x_187 = b2[p_186];
                let t_188 = (sum_3_0 + keep_f32(x_187));
                let p_189 = base3 + m_185 * stride3_0 + n_130;
                b3[p_189] = t_188;
            }
            if (n_131 < size_n) {
                let p_190 = base2 + n_131;
                let x_191 = b2[p_190];
                let t_192 = (sum_3_1 + keep_f32(x_191));
                let p_193 = base3 + m_185 * stride3_0 + n_131;
                b3[p_193] = t_192;
            }
            if (n_132 < size_n) {
                let p_194 = base2 + n_132;
                let x_195 = b2[p_194];
                let t_196 = (sum_3_2 + keep_f32(x_195));
                let p_197 = base3 + m_185 * stride3_0 + n_132;
                b3[p_197] = t_196;
            }
            if (n_133 < size_n) {
                let p_198 = base2 + n_133;
                let x_199 = b2[p_198];
                let t_200 = (sum_3_3 + keep_f32(x_199));
                let p_201 = base3 + m_185 * stride3_0 + n_133;
                b3[p_201] = t_200;
            }
        }
    }
}
