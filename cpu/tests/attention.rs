//! Attention against the reference: blocks of keys and panels of queries that end anywhere, hidden keys, a few queries, any strides.

mod common;

use common::{Random, check, check_with, extent};
use millstream_core::what::HostTensor;
use millstream_core::{Access, DType, Op, Scalar};

/// Queries, keys, d, e.
type Sizes = [usize; 4];

/// Heads of queries that share the keys of one, and values of their own.
fn attention(dtype: DType, [m, n, d, e]: Sizes, causal: bool, mask: Option<Access>) -> Op {
    let heads = 2;
    let dims = [heads, m, n, d, e];
    let [mi, ni, di, ei] = [m, n, d, e].map(|x| x as isize);
    let access = |strides: [isize; 5]| Access::new(dtype, &strides);
    let mut inputs = vec![access([di, 2 * di, 0, 1, 0]), access([0, 0, di, 1, 0]), access([ni * ei, 0, ei, 0, 1])];
    inputs.extend(mask);
    Op::attention(&dims, inputs, access([mi * ei, ei, 0, 0, 1]), causal).unwrap()
}

fn scale(dtype: DType, x: f64) -> [Scalar; 1] {
    [Scalar::from_f64(x, dtype.compute())]
}

#[test]
fn blocks_of_keys_and_panels_of_queries_end_anywhere() {
    let mut random = Random::new();
    let sizes = [[5, 3, 4, 3], [33, 600, 6, 5], [40, 1200, 3, 15], [70, 577, 9, 17], [16, 64, 20, 29]];
    for (i, sizes) in sizes.into_iter().enumerate() {
        let dtype = [DType::F32, DType::F64, DType::F32, DType::BF16, DType::F16][i];
        // A large scale makes shares that differ much, so that later keys outweigh those before.
        for x in [0.3, 25.0] {
            check(&attention(dtype, sizes, false, None), &mut random, &scale(dtype, x));
        }
    }
}

#[test]
fn later_keys_are_hidden() {
    let mut random = Random::new();
    for sizes in [[65, 65, 4, 6], [90, 20, 5, 3], [20, 620, 5, 3], [3, 50, 8, 8], [4, 2, 3, 3]] {
        for dtype in [DType::F32, DType::F64] {
            check(&attention(dtype, sizes, true, None), &mut random, &scale(dtype, 0.7));
        }
    }
}

#[test]
fn masks_hide_keys_or_are_added() {
    let mut random = Random::new();
    for sizes in [[37, 640, 5, 4], [3, 90, 6, 7], [9, 9, 3, 3]] {
        let [m, n, ..] = sizes.map(|x| x as isize);
        for causal in [false, true] {
            for (kind, strides) in [
                (DType::Bool, [0, n, 1, 0, 0]),
                (DType::F32, [m * n, 1, m, 0, 0]),
                (DType::Bool, [0, 0, 1, 0, 0]),
                (DType::F32, [0, 1, 0, 0, 0]),
            ] {
                let op = attention(DType::F32, sizes, causal, Some(Access::new(kind, &strides)));
                check(&op, &mut random, &scale(DType::F32, 1.3));
            }
        }
    }
}

#[test]
fn few_queries_read_keys_and_values_where_they_lie() {
    let mut random = Random::new();
    for (i, m) in [1, 2, 4].into_iter().enumerate() {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            let sizes = [m, [700, 33, 1][i], 12, 20];
            check(&attention(dtype, sizes, false, None), &mut random, &scale(dtype, 0.4));
        }
    }
}

#[test]
fn a_scale_may_be_negative_or_zero() {
    let mut random = Random::new();
    for sizes in [[35, 70, 5, 6], [2, 70, 5, 6]] {
        for x in [-0.8, 0.0] {
            check(&attention(DType::F32, sizes, false, None), &mut random, &scale(DType::F32, x));
        }
    }
}

#[test]
fn infinite_scores_give_what_the_reference_says() {
    let mut random = Random::new();
    // Of the first block's keys, or of all, every score is minus infinity.
    for (sizes, lowest) in [([20, 700, 1, 3], 650), ([20, 700, 1, 3], 700), ([2, 40, 1, 3], 40), ([2, 40, 1, 3], 39)] {
        let op = attention(DType::F32, sizes, false, None);
        let mut inputs: Vec<HostTensor> = op
            .inputs
            .iter()
            .map(|a| {
                let (len, offset) = extent(a, &op.dims);
                random.tensor(a.dtype, len).with_offset(offset)
            })
            .collect();
        let len = extent(&op.inputs[0], &op.dims).0;
        (0..len).for_each(|i| inputs[0].set(i, Scalar::from_f64(1.0, DType::F32)).unwrap());
        (0..lowest).for_each(|i| inputs[1].set(i, Scalar::from_f64(f64::NEG_INFINITY, DType::F32)).unwrap());
        check_with(&op, &inputs, &scale(DType::F32, 0.5));
    }
}
