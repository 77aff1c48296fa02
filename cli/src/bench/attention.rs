//! Attention: a sequence against itself, causal or not, and one query against a sequence.

use millstream::{AttentionOptions, DType};

use super::compute::{Compute, Input, Precision, Shown, bound, bytes};
use super::random::Source;

/// `softmax(q k' / sqrt(d)) v` over batch and heads, as many queries as keys.
pub fn attention(dtype: DType, sizes: &[usize]) -> Compute {
    let s = sizes[2];
    with_queries(dtype, sizes, s, s * s)
}

/// The same where no query sees a key after its own.
pub fn causal(dtype: DType, sizes: &[usize]) -> Compute {
    let s = sizes[2];
    Compute {
        build: |x, _| x[0].attention(&x[1], &x[2], &AttentionOptions { causal: true, ..Default::default() }),
        expected: |of, sizes, i| expected(of, sizes, i, sizes[2], i / sizes[3] % sizes[2] + 1),
        ..with_queries(dtype, sizes, s, s * (s + 1) / 2)
    }
}

/// One query against all keys, as a model that writes its next word computes it: the keys and values are read once.
pub fn decode(dtype: DType, sizes: &[usize]) -> Compute {
    Compute {
        expected: |of, sizes, i| expected(of, sizes, i, 1, sizes[2]),
        shown: Shown::Bytes,
        ..with_queries(dtype, sizes, 1, sizes[2])
    }
}

/// So many queries of each head, which see so many keys in all.
fn with_queries(dtype: DType, sizes: &[usize], queries: usize, scores: usize) -> Compute {
    let (b, h, s, d) = (sizes[0], sizes[1], sizes[2], sizes[3]);
    let (query, key) = (Input::normal(&[b, h, queries, d]), Input::normal(&[b, h, s, d]));
    let elements = b * h * queries * d;
    Compute {
        dtype,
        precision: Precision::Full,
        sizes: sizes.to_vec(),
        inputs: vec![query, key.clone(), key],
        elements,
        build: |x, _| x[0].attention(&x[1], &x[2], &AttentionOptions::default()),
        keep: &[],
        expected: |of, sizes, i| expected(of, sizes, i, sizes[2], sizes[2]),
        reach: 3 * s * d,
        whole: None,
        bound: bound(dtype),
        flop: 4 * (b * h * d) as u64 * scores as u64,
        saving: 1,
        bytes: bytes(dtype, &[2 * elements, 2 * b * h * s * d]),
        shown: Shown::Flop,
    }
}

/// An element of the result where each head has so many queries, and this element's sees the first keys only.
fn expected(of: &[Source], sizes: &[usize], i: usize, queries: usize, seen: usize) -> f64 {
    let ([q, k, v, ..], &[_, _, s, d]) = (of, sizes) else { return f64::NAN };
    let (query, head, column) = (i / d, i / (queries * d), i % d);
    let scale = 1.0 / (d as f64).sqrt();
    let score = |j: usize| (0..d).map(|c| q.at(query * d + c) * k.at((head * s + j) * d + c)).sum::<f64>() * scale;
    let scores: Vec<f64> = (0..seen).map(score).collect();
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = scores.iter().map(|x| (x - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().enumerate().map(|(j, p)| p / sum * v.at((head * s + j) * d + column)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_causal_query_counts_the_keys_that_it_sees() {
        let (all, half) = (attention(DType::F16, &[2, 3, 5, 8]), causal(DType::F16, &[2, 3, 5, 8]));
        assert_eq!((all.flop, half.flop), (4 * 6 * 8 * 25, 4 * 6 * 8 * 15));
        assert_eq!((all.bytes, half.bytes), (2 * 4 * 6 * 5 * 8, all.bytes));
    }

    #[test]
    fn decoding_reads_keys_and_values_once() {
        let case = decode(DType::F32, &[2, 3, 5, 8]);
        assert_eq!((case.flop, case.elements), (4 * 6 * 8 * 5, 6 * 8));
        assert_eq!(case.bytes, 4 * (2 * 6 * 8 + 2 * 6 * 5 * 8));
    }
}
