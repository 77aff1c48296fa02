alias idx = i32;
alias c64 = vec2<f32>;
alias words4 = vec4<u32>;
fn quotient(a: idx, b: idx) -> idx {
    return idx(u32(a) / u32(b));
}
fn in_range(x: idx, limit: idx) -> bool {
    return u32(x) < u32(limit);
}
fn byte_of(word: u32, at: idx) -> u32 {
    return (word >> ((u32(at) & 3u) * 8u)) & 255u;
}
fn half_of(word: u32, at: idx) -> u32 {
    return (word >> ((u32(at) & 1u) * 16u)) & 65535u;
}
