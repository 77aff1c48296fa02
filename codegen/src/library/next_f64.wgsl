// The f64 next to another, by bits; see next.wgsl.

// The f64 next to a in the direction of b; b where they are equal.
fn nextafter_f64(a: f64, b: f64) -> f64 {
    if (is_nan_f64(a) || is_nan_f64(b)) {
        return nan_f64();
    }
    let bits = bitcast<u64>(a);
    let size_a = size_bits_f64(a);
    let size_b = size_bits_f64(b);
    let alike = (bits >> 63u) == (bitcast<u64>(b) >> 63u);
    if ((bits == bitcast<u64>(b)) || ((size_a | size_b) == 0lu)) {
        return b;
    }
    if (size_a == 0lu) {
        return bitcast<f64>((bitcast<u64>(b) & 0x8000000000000000lu) | 1lu);
    }
    return bitcast<f64>(select(bits - 1lu, bits + 1lu, alike && (size_b > size_a)));
}
