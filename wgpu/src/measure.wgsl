// What a device is measured with. args[0].x: values of four, or steps.

@group(0) @binding(0) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> y: array<vec4<f32>>;
@group(1) @binding(0) var<uniform> args: array<vec4<u32>, 2>;

@compute @workgroup_size(64)
fn copy(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let step = groups.x * 64u;
    let count = args[0].x;
    for (var i = id.x; i < count; i += step) {
        y[i] = x[i];
    }
}

@compute @workgroup_size(64)
fn read(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let step = groups.x * 64u;
    let count = args[0].x;
    var sum = vec4<f32>(0.0);
    for (var i = id.x; i < count; i += step) {
        sum += x[i];
    }
    // Never true for what is in the buffer, but the compiler cannot know.
    if sum.x == 1.5 {
        y[0] = sum;
    }
}

// Eight independent chains of four lanes: 64 operations a step.
@compute @workgroup_size(64)
fn multiply_add(@builtin(global_invocation_id) id: vec3<u32>) {
    let a = vec4<f32>(f32(id.x & 15u) * 0.001 + 0.5);
    let b = vec4<f32>(0.25, 0.5, 0.75, 1.0);
    var c0 = b;
    var c1 = b + 1.0;
    var c2 = b + 2.0;
    var c3 = b + 3.0;
    var c4 = b + 4.0;
    var c5 = b + 5.0;
    var c6 = b + 6.0;
    var c7 = b + 7.0;
    let count = args[0].x;
    for (var i = 0u; i < count; i++) {
        c0 = c0 * a + b;
        c1 = c1 * a + b;
        c2 = c2 * a + b;
        c3 = c3 * a + b;
        c4 = c4 * a + b;
        c5 = c5 * a + b;
        c6 = c6 * a + b;
        c7 = c7 * a + b;
    }
    let sum = c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7;
    if sum.x == 1.5 {
        y[0] = sum;
    }
}
