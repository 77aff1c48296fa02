// Copies bytes between any two offsets: each thread makes whole words of the destination.
// args[0]: first word of the source (may be one before its beginning), bits by which it is shifted, first word and number
// of words of the destination; args[1]: the bytes to replace in the first word and in the last.

@group(0) @binding(0) var<storage, read_write> source: array<u32>;
@group(0) @binding(1) var<storage, read_write> destination: array<u32>;
@group(1) @binding(0) var<uniform> args: array<vec4<u32>, 2>;

fn word(index: u32) -> u32 {
    if index < arrayLength(&source) {
        return source[index];
    }
    return 0u;
}

@compute @workgroup_size(64)
fn copy_bytes(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let shift = args[0].y;
    let count = args[0].w;
    for (var i = id.x; i < count; i += groups.x * 64u) {
        var value = word(args[0].x + i);
        if shift != 0u {
            value = (value >> shift) | (word(args[0].x + i + 1u) << (32u - shift));
        }
        var mask = 0xffffffffu;
        if i == 0u {
            mask &= args[1].x;
        }
        if i == count - 1u {
            mask &= args[1].y;
        }
        let at = args[0].z + i;
        if mask == 0xffffffffu {
            destination[at] = value;
        } else {
            destination[at] = (destination[at] & ~mask) | (value & mask);
        }
    }
}
