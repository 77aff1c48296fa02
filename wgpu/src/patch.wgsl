// Replaces the masked bytes of one or two words: the ragged ends of an upload.
// args[0]: word, mask, value, number of words; args[1]: the second word, mask, value.

@group(0) @binding(0) var<storage, read_write> words: array<u32>;
@group(1) @binding(0) var<uniform> args: array<vec4<u32>, 2>;

@compute @workgroup_size(64)
fn patch_words(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < args[0].w {
        let edge = args[id.x];
        words[edge.x] = (words[edge.x] & ~edge.y) | (edge.z & edge.y);
    }
}
