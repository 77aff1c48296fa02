@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
@group(0) @binding(0) var<storage, read_write> v0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
@group(0) @binding(1) var<storage, read_write> v1: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> b2: array<f32>;
@group(0) @binding(2) var<storage, read_write> v2: array<vec4<f32>>;
@group(1) @binding(0) var<uniform> args: array<vec4<u32>, 2>;
fn zero_word() -> u32 {
    return args[1].z;
}

// x as it is, but opaque to a compiler that would merge the operations before with those after.
fn keep_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ zero_word());
}
@compute @workgroup_size(256)
fn map_by_four(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) block: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>) {
    let lane = idx(thread);
    let group = idx(block.x + block.y * grid.x);
    let groups = idx(grid.x * grid.y);
    let number0 = bitcast<idx>(args[0].x);
    let base0 = bitcast<idx>(args[0].y);
    let base1 = bitcast<idx>(args[0].z);
    let param0_0 = args[0].w;
    let base2 = bitcast<idx>(args[1].x);
    let number1 = bitcast<idx>(args[1].y);
    let step = groups * idx(256);
    var n = group * idx(256) + lane;
    while (n + step < number0) {
        let n_1 = n * idx(4);
        let n_2 = (n + step) * idx(4);
        let p_3 = base0 + n_1;
        let v_4 = v0[p_3 >> 2u];
        let p_5 = base1 + n_1;
        let v_6 = v1[p_5 >> 2u];
        let c_7 = bitcast<f32>(param0_0);
        let t_8 = (v_4.x * keep_f32(c_7));
        let t_9 = (t_8 + keep_f32(v_6.x));
        let c_10 = bitcast<f32>(param0_0);
        let t_11 = (v_4.y * keep_f32(c_10));
        let t_12 = (t_11 + keep_f32(v_6.y));
        let c_13 = bitcast<f32>(param0_0);
        let t_14 = (v_4.z * keep_f32(c_13));
        let t_15 = (t_14 + keep_f32(v_6.z));
        let c_16 = bitcast<f32>(param0_0);
        let t_17 = (v_4.w * keep_f32(c_16));
        let t_18 = (t_17 + keep_f32(v_6.w));
        let p_19 = base0 + n_2;
        let v_20 = v0[p_19 >> 2u];
        let p_21 = base1 + n_2;
        let v_22 = v1[p_21 >> 2u];
        let c_23 = bitcast<f32>(param0_0);
        let t_24 = (v_20.x * keep_f32(c_23));
        let t_25 = (t_24 + keep_f32(v_22.x));
        let c_26 = bitcast<f32>(param0_0);
        let t_27 = (v_20.y * keep_f32(c_26));
        let t_28 = (t_27 + keep_f32(v_22.y));
        let c_29 = bitcast<f32>(param0_0);
        let t_30 = (v_20.z * keep_f32(c_29));
        let t_31 = (t_30 + keep_f32(v_22.z));
        let c_32 = bitcast<f32>(param0_0);
        let t_33 = (v_20.w * keep_f32(c_32));
        let t_34 = (t_33 + keep_f32(v_22.w));
        let p_35 = base2 + n_1;
        v2[p_35 >> 2u] = vec4<f32>(t_9, t_12, t_15, t_18);
        let p_36 = base2 + n_2;
        v2[p_36 >> 2u] = vec4<f32>(t_25, t_28, t_31, t_34);
        n += step * idx(2);
    }
    if (n < number0) {
        let n_37 = n * idx(4);
        let p_38 = base0 + n_37;
        let v_39 = v0[p_38 >> 2u];
        let p_40 = base1 + n_37;
        let v_41 = v1[p_40 >> 2u];
        let c_42 = bitcast<f32>(param0_0);
        let t_43 = (v_39.x * keep_f32(c_42));
        let t_44 = (t_43 + keep_f32(v_41.x));
        let c_45 = bitcast<f32>(param0_0);
        let t_46 = (v_39.y * keep_f32(c_45));
        let t_47 = (t_46 + keep_f32(v_41.y));
        let c_48 = bitcast<f32>(param0_0);
        let t_49 = (v_39.z * keep_f32(c_48));
        let t_50 = (t_49 + keep_f32(v_41.z));
        let c_51 = bitcast<f32>(param0_0);
        let t_52 = (v_39.w * keep_f32(c_51));
        let t_53 = (t_52 + keep_f32(v_41.w));
        let p_54 = base2 + n_37;
        v2[p_54 >> 2u] = vec4<f32>(t_44, t_47, t_50, t_53);
    }
    if (group == idx(0) && lane < number1) {
        let n_55 = number0 * idx(4) + lane;
        let p_56 = base0 + n_55;
        let x_57 = v0[p_56 >> 2u][u32(p_56) & 3u];
        let p_58 = base1 + n_55;
        let x_59 = v1[p_58 >> 2u][u32(p_58) & 3u];
        let c_60 = bitcast<f32>(param0_0);
        let t_61 = (x_57 * keep_f32(c_60));
        let t_62 = (t_61 + keep_f32(x_59));
        let p_63 = base2 + n_55;
        v2[p_63 >> 2u][u32(p_63) & 3u] = t_62;
    }
}
@compute @workgroup_size(256)
fn map_by_one(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) block: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>) {
    let lane = idx(thread);
    let group = idx(block.x + block.y * grid.x);
    let groups = idx(grid.x * grid.y);
    let number0 = bitcast<idx>(args[0].x);
    let base0 = bitcast<idx>(args[0].y);
    let base1 = bitcast<idx>(args[0].z);
    let param0_0 = args[0].w;
    let base2 = bitcast<idx>(args[1].x);
    let step = groups * idx(256);
    for (var n = group * idx(256) + lane; n < number0; n += step) {
        let p_1 = base0 + n;
        let x_2 = b0[p_1];
        let p_3 = base1 + n;
        let x_4 = b1[p_3];
        let c_5 = bitcast<f32>(param0_0);
        let t_6 = (x_2 * keep_f32(c_5));
        let t_7 = (t_6 + keep_f32(x_4));
        let p_8 = base2 + n;
        b2[p_8] = t_7;
    }
}
