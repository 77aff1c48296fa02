@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
@group(0) @binding(0) var<storage, read_write> v0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
@group(0) @binding(1) var<storage, read_write> v1: array<vec4<f32>>;
@group(1) @binding(0) var<uniform> args: array<vec4<u32>, 2>;
fn zero_word() -> u32 {
    return args[1].z;
}

// 2^n for -126 <= n <= 127; exact.
fn pow2_f32(n: i32) -> f32 {
    return bitcast<f32>(u32(n + 127) << 23u);
}
// Whether x is NaN.
fn is_nan_f32(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
// y, or x where x is NaN.
fn keep_nan_f32(y: f32, x: f32) -> f32 {
    return bitcast<f32>(select(bitcast<u32>(y), bitcast<u32>(x), is_nan_f32(x)));
}
// x as it is, but opaque to a compiler that would merge the operations before with those after.
fn keep_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ zero_word());
}
// e^r - 1 for |r| <= ln(2)/2, to 2^-28 of e^r.
fn exp_core_f32(r: f32) -> f32 {
    let r2 = r * r;
    let a = fma(0.16666517f, r, 0.49999994f);
    let b = fma(0.008369131f, r, 0.041668106f);
    let p = fma(fma(0.0013836435f, r2, b), r2, a);
    return fma(p, r2, r);
}
// 1.5 * 2^23: added to |x| < 2^22 it leaves x rounded to an integer in the low bits of the sum.
const ROUND_F32 = 12582912.0f;
// log2(e).
const LOG2_E_F32 = 1.442695f;
// ln(2) - LN2_HI.
const LN2_LO_F32 = 1.4286068e-6f;
// ln(2) with its low 9 bits cleared, so that n LN2_HI is exact for |n| < 512.
const LN2_HI_F32 = 0.69314575f;
// e^x 2^k for |k| <= 4, 1 ulp; the result may leave the range where e^x alone would not, and the other way round.
fn exp_scaled_f32(x: f32, k: i32) -> f32 {
    let low = select(x, -107.0f, x < -107.0f);
    let y = select(low, 92.0f, low > 92.0f);
    let t = keep_f32(fma(y, LOG2_E_F32, ROUND_F32));
    let n = t - ROUND_F32;
    let r = fma(-n, LN2_LO_F32, keep_f32(fma(-n, LN2_HI_F32, y)));
    let q = exp_core_f32(r);
    // 2^n in two factors, so that n = 128 works and subnormal results round once.
    let e = (bitcast<i32>(t) - 0x4b400000) + k;
    let part = e >> 1u;
    let scale = pow2_f32(part);
    return keep_nan_f32(fma(q, scale, scale) * pow2_f32(e - part), x);
}
// e^x, 1 ulp.
fn exp_f32(x: f32) -> f32 {
    return exp_scaled_f32(x, 0);
}
// The larger; NaN if either is.
fn max_f32(a: f32, b: f32) -> f32 {
    return keep_nan_f32(keep_nan_f32(select(b, a, a > b), b), a);
}
var<workgroup> all_f32: array<f32, 256>;
@compute @workgroup_size(256)
fn rows_by_4(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) block: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>) {
    let lane = idx(thread);
    let group = idx(block.x + block.y * grid.x);
    let groups = idx(grid.x * grid.y);
    let number0 = bitcast<idx>(args[0].x);
    let number1 = bitcast<idx>(args[0].y);
    let base0 = bitcast<idx>(args[0].z);
    let stride0_0 = bitcast<idx>(args[0].w);
    let base1 = bitcast<idx>(args[1].x);
    let stride1_0 = bitcast<idx>(args[1].y);
    let beside = quotient(lane, idx(16));
    let member = lane - beside * idx(16);
    let length = number1;
    let team = group;
    let teams = groups;
    let part = idx(0);
    let parts = idx(1);
    for (var first = team * idx(16); first < number0; first += teams * idx(16)) {
        let live = first + beside < number0;
        let row = select(number0 - idx(1), first + beside, live);
        let e_1 = (member + idx(0)) * idx(4);
        let inside_2 = e_1 < length;
        let e_3 = select(idx(0), e_1, inside_2);
        var sum_4 = bitcast<f32>(0xff800000u + zero_word());
        let p_5 = base0 + row * stride0_0 + e_3;
        let v_6 = v0[p_5 >> 2u];
        sum_4 = select(sum_4, max_f32(sum_4, v_6.x), inside_2);
        sum_4 = select(sum_4, max_f32(sum_4, v_6.y), inside_2);
        sum_4 = select(sum_4, max_f32(sum_4, v_6.z), inside_2);
        sum_4 = select(sum_4, max_f32(sum_4, v_6.w), inside_2);
        all_f32[lane] = sum_4;
        workgroupBarrier();
        for (var half = idx(8); half > idx(0); half = half >> 1u) {
            if (member < half) {
                all_f32[lane] = max_f32(all_f32[lane], all_f32[lane + half * idx(1)]);
            }
            workgroupBarrier();
        }
        let r_7 = all_f32[beside * idx(16)];
        workgroupBarrier();
        var sum_8 = 0.0f;
        let t_9 = (v_6.x - keep_f32(r_7));
        let t_10 = exp_f32(t_9);
        let t_11 = (v_6.y - keep_f32(r_7));
        let t_12 = exp_f32(t_11);
        let t_13 = (v_6.z - keep_f32(r_7));
        let t_14 = exp_f32(t_13);
        let t_15 = (v_6.w - keep_f32(r_7));
        let t_16 = exp_f32(t_15);
        sum_8 = select(sum_8, (sum_8 + t_10), inside_2);
        sum_8 = select(sum_8, (sum_8 + t_12), inside_2);
        sum_8 = select(sum_8, (sum_8 + t_14), inside_2);
        sum_8 = select(sum_8, (sum_8 + t_16), inside_2);
        all_f32[lane] = sum_8;
        workgroupBarrier();
        for (var half = idx(8); half > idx(0); half = half >> 1u) {
            if (member < half) {
                all_f32[lane] = (all_f32[lane] + all_f32[lane + half * idx(1)]);
            }
            workgroupBarrier();
        }
        let r_17 = all_f32[beside * idx(16)];
        workgroupBarrier();
        let t_18 = (t_10 / keep_f32(r_17));
        let t_19 = (t_12 / keep_f32(r_17));
        let t_20 = (t_14 / keep_f32(r_17));
        let t_21 = (t_16 / keep_f32(r_17));
        if (live && inside_2) {
            let p_22 = base1 + row * stride1_0 + e_3;
            v1[p_22 >> 2u] = vec4<f32>(t_18, t_19, t_20, t_21);
        }
    }
}
@compute @workgroup_size(256)
fn rows_by_1(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) block: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>) {
    let lane = idx(thread);
    let group = idx(block.x + block.y * grid.x);
    let groups = idx(grid.x * grid.y);
    let number0 = bitcast<idx>(args[0].x);
    let number1 = bitcast<idx>(args[0].y);
    let base0 = bitcast<idx>(args[0].z);
    let stride0_0 = bitcast<idx>(args[0].w);
    let base1 = bitcast<idx>(args[1].x);
    let stride1_0 = bitcast<idx>(args[1].y);
    let beside = quotient(lane, idx(16));
    let member = lane - beside * idx(16);
    let length = number1;
    let team = group;
    let teams = groups;
    let part = idx(0);
    let parts = idx(1);
    for (var first = team * idx(16); first < number0; first += teams * idx(16)) {
        let live = first + beside < number0;
        let row = select(number0 - idx(1), first + beside, live);
        let e_1 = (member + idx(0));
        let inside_2 = e_1 < length;
        let e_3 = select(idx(0), e_1, inside_2);
        let e_4 = (member + idx(16));
        let inside_5 = e_4 < length;
        let e_6 = select(idx(0), e_4, inside_5);
        let e_7 = (member + idx(32));
        let inside_8 = e_7 < length;
        let e_9 = select(idx(0), e_7, inside_8);
        let e_10 = (member + idx(48));
        let inside_11 = e_10 < length;
        let e_12 = select(idx(0), e_10, inside_11);
        var sum_13 = bitcast<f32>(0xff800000u + zero_word());
        let p_14 = base0 + row * stride0_0 + e_3;
        let x_15 = b0[p_14];
        sum_13 = select(sum_13, max_f32(sum_13, x_15), inside_2);
        let p_16 = base0 + row * stride0_0 + e_6;
        let x_17 = b0[p_16];
        sum_13 = select(sum_13, max_f32(sum_13, x_17), inside_5);
        let p_18 = base0 + row * stride0_0 + e_9;
        let x_19 = b0[p_18];
        sum_13 = select(sum_13, max_f32(sum_13, x_19), inside_8);
        let p_20 = base0 + row * stride0_0 + e_12;
        let x_21 = b0[p_20];
        sum_13 = select(sum_13, max_f32(sum_13, x_21), inside_11);
        all_f32[lane] = sum_13;
        workgroupBarrier();
        for (var half = idx(8); half > idx(0); half = half >> 1u) {
            if (member < half) {
                all_f32[lane] = max_f32(all_f32[lane], all_f32[lane + half * idx(1)]);
            }
            workgroupBarrier();
        }
        let r_22 = all_f32[beside * idx(16)];
        workgroupBarrier();
        var sum_23 = 0.0f;
        let t_24 = (x_15 - keep_f32(r_22));
        let t_25 = exp_f32(t_24);
        sum_23 = select(sum_23, (sum_23 + t_25), inside_2);
        let t_26 = (x_17 - keep_f32(r_22));
        let t_27 = exp_f32(t_26);
        sum_23 = select(sum_23, (sum_23 + t_27), inside_5);
        let t_28 = (x_19 - keep_f32(r_22));
        let t_29 = exp_f32(t_28);
        sum_23 = select(sum_23, (sum_23 + t_29), inside_8);
        let t_30 = (x_21 - keep_f32(r_22));
        let t_31 = exp_f32(t_30);
        sum_23 = select(sum_23, (sum_23 + t_31), inside_11);
        all_f32[lane] = sum_23;
        workgroupBarrier();
        for (var half = idx(8); half > idx(0); half = half >> 1u) {
            if (member < half) {
                all_f32[lane] = (all_f32[lane] + all_f32[lane + half * idx(1)]);
            }
            workgroupBarrier();
        }
        let r_32 = all_f32[beside * idx(16)];
        workgroupBarrier();
        let t_33 = (t_25 / keep_f32(r_32));
        if (live && inside_2) {
            let p_34 = base1 + row * stride1_0 + e_3;
            b1[p_34] = t_33;
        }
        let t_35 = (t_27 / keep_f32(r_32));
        if (live && inside_5) {
            let p_36 = base1 + row * stride1_0 + e_6;
            b1[p_36] = t_35;
        }
        let t_37 = (t_29 / keep_f32(r_32));
        if (live && inside_8) {
            let p_38 = base1 + row * stride1_0 + e_9;
            b1[p_38] = t_37;
        }
        let t_39 = (t_31 / keep_f32(r_32));
        if (live && inside_11) {
            let p_40 = base1 + row * stride1_0 + e_12;
            b1[p_40] = t_39;
        }
    }
}
