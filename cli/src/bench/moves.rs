//! Cases that move data more than they compute: running sums, sorting, lookups, random numbers. Bytes are those that the results
//! need at least, each read or written once; a sort is no faster for that, but its share of the limit is then comparable.

use millstream::{DType, Generator, Order};

use super::compute::{Build, Compute, Input, bytes, elementwise, rows};
use super::random::Source;

/// The seed of random results; any would do.
const SEED: u64 = 3;
/// One more than the largest of the random integers.
const RANGE: i64 = 1000;

/// The largest difference, over the largest value of `right`; infinite if the counts differ or something is no number.
pub(super) fn difference(values: &[f64], right: &[f64]) -> f64 {
    if values.len() != right.len() {
        return f64::INFINITY;
    }
    let largest = right.iter().fold(f64::MIN_POSITIVE, |most, v| most.max(v.abs()));
    let error = values.iter().zip(right).map(|(v, r)| (v - r).abs());
    // A maximum would leave NaN out.
    error.fold(0f64, |most, e| if e <= most { most } else { e }) / largest
}

/// Running sums along each row.
pub fn cumsum(dtype: DType, sizes: &[usize]) -> Compute {
    Compute {
        build: |x, _| x[0].cumsum(1),
        whole: Some(|of, sizes, values| {
            let mut right = of[0].values(values.len());
            for row in right.chunks_mut(sizes[1]) {
                row.iter_mut().fold(0.0, |sum, x| {
                    *x += sum;
                    *x
                });
            }
            difference(values, &right)
        }),
        ..rows(dtype, sizes, 1)
    }
}

/// Running sums down each column.
pub fn colcumsum(dtype: DType, sizes: &[usize]) -> Compute {
    Compute {
        build: |x, _| x[0].cumsum(0),
        whole: Some(|of, sizes, values| {
            let mut right = of[0].values(values.len());
            for i in sizes[1]..right.len() {
                right[i] += right[i - sizes[1]];
            }
            difference(values, &right)
        }),
        ..rows(dtype, sizes, 1)
    }
}

/// Each row of the input in ascending order, with the indices before.
fn sorted(of: &[Source], sizes: &[usize]) -> Vec<Vec<(f64, usize)>> {
    let values = of[0].values(sizes[0] * sizes[1]);
    let row = |row: &[f64]| {
        let mut list: Vec<(f64, usize)> = row.iter().copied().zip(0..).collect();
        list.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        list
    };
    values.chunks(sizes[1]).map(row).collect()
}

/// Each row in ascending order.
pub fn sort(dtype: DType, sizes: &[usize]) -> Compute {
    Compute {
        build: |x, _| x[0].sort(1, Order::Ascending),
        whole: Some(|of, sizes, values| {
            let right: Vec<f64> = sorted(of, sizes).into_iter().flatten().map(|e| e.0).collect();
            difference(values, &right)
        }),
        bound: 0.0,
        ..rows(dtype, sizes, 0)
    }
}

/// Where the elements of each row in ascending order are.
pub fn argsort(dtype: DType, sizes: &[usize]) -> Compute {
    let elements = sizes[0] * sizes[1];
    Compute {
        build: |x, _| x[0].argsort(1, Order::Ascending),
        whole: Some(|of, sizes, values| {
            let right: Vec<f64> = sorted(of, sizes).into_iter().flatten().map(|e| e.1 as f64).collect();
            difference(values, &right)
        }),
        bound: 0.0,
        bytes: bytes(dtype, &[elements]) + bytes(DType::I64, &[elements]),
        ..rows(dtype, sizes, 0)
    }
}

/// The largest of each row, largest first.
pub fn topk(dtype: DType, sizes: &[usize]) -> Compute {
    let (r, c, k) = (sizes[0], sizes[1], sizes[2].min(sizes[1]));
    Compute {
        sizes: vec![r, c, k],
        elements: r * k,
        build: |x, sizes| x[0].topk(sizes[2], 1, Order::Descending).0,
        whole: Some(|of, sizes, values| {
            let first = |row: Vec<(f64, usize)>| row.into_iter().rev().take(sizes[2]).map(|e| e.0).collect::<Vec<_>>();
            difference(values, &sorted(of, sizes).into_iter().flat_map(first).collect::<Vec<_>>())
        }),
        bound: 0.0,
        bytes: bytes(dtype, &[r * c, r * k]),
        ..rows(dtype, &[r, c], 0)
    }
}

/// The index of the largest of each row.
pub fn argmax(dtype: DType, sizes: &[usize]) -> Compute {
    let (r, c) = (sizes[0], sizes[1]);
    Compute {
        elements: r,
        build: |x, _| x[0].argmax(1),
        expected: |of, sizes, i| {
            let at = |j: usize| of[0].at(i * sizes[1] + j);
            (1..sizes[1]).fold(0, |best, j| if at(j) > at(best) { j } else { best }) as f64
        },
        bound: 0.0,
        bytes: bytes(dtype, &[r * c]) + bytes(DType::I64, &[r]),
        ..rows(dtype, sizes, 1)
    }
}

/// Some rows of a table, at random indices.
pub fn take(dtype: DType, sizes: &[usize]) -> Compute {
    let (r, c, n) = (sizes[0], sizes[1], sizes[2]);
    Compute {
        sizes: sizes.to_vec(),
        inputs: vec![Input::normal(&[r, c]), Input::indices(&[n], r)],
        build: |x, _| x[0].take(&x[1], 0),
        expected: |of, sizes, i| of[0].at(of[1].index(i / sizes[1]) * sizes[1] + i % sizes[1]),
        bound: 0.0,
        bytes: bytes(dtype, &[n * c, n * c]) + bytes(DType::I64, &[n]),
        ..elementwise(dtype, n * c, 1, 0)
    }
}

/// An element of the same row for each, at random indices.
pub fn gather(dtype: DType, sizes: &[usize]) -> Compute {
    let (r, c) = (sizes[0], sizes[1]);
    Compute {
        inputs: vec![Input::normal(&[r, c]), Input::indices(&[r, c], c)],
        build: |x, _| x[0].take_along_axis(&x[1], 1),
        expected: |of, sizes, i| of[0].at(i / sizes[1] * sizes[1] + of[1].index(i)),
        reach: 1,
        bound: 0.0,
        bytes: bytes(dtype, &[r * c, r * c]) + bytes(DType::I64, &[r * c]),
        ..rows(dtype, sizes, 0)
    }
}

/// As many numbers added to those of a vector, at random indices.
pub fn scatteradd(dtype: DType, sizes: &[usize]) -> Compute {
    let n = sizes[0];
    Compute {
        inputs: vec![Input::normal(&[n]), Input::normal(&[n]), Input::indices(&[n], n)],
        build: |x, _| x[0].scatter_add(0, &x[2], &x[1]),
        whole: Some(|of, sizes, values| {
            let (mut right, added) = (of[0].values(sizes[0]), of[1].values(sizes[0]));
            for (i, v) in added.into_iter().enumerate() {
                right[of[2].index(i)] += v;
            }
            difference(values, &right)
        }),
        bytes: bytes(dtype, &[3 * n]) + bytes(DType::I64, &[n]),
        ..elementwise(dtype, n, 2, 1)
    }
}

/// The elements above 0.
pub fn mask(dtype: DType, sizes: &[usize]) -> Compute {
    let n = sizes[0];
    Compute {
        build: |x, _| x[0].mask(&x[0].gt(0.0)),
        whole: Some(|of, sizes, values| {
            let right: Vec<f64> = of[0].values(sizes[0]).into_iter().filter(|v| *v > 0.0).collect();
            difference(values, &right)
        }),
        bound: 0.0,
        // About half of them.
        bytes: bytes(dtype, &[n, n / 2]),
        ..elementwise(dtype, n, 1, 0)
    }
}

/// How far mean and variance are from what they should be, over the width of the distribution.
fn moments(values: &[f64], mean: f64, variance: f64) -> f64 {
    let n = values.len() as f64;
    let found = values.iter().sum::<f64>() / n;
    let spread = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
    ((found - mean).abs() / variance.sqrt()).max((spread - variance).abs() / variance)
}

/// A random result: nothing is read, and its bound is what so many random numbers may be off.
fn random(dtype: DType, sizes: &[usize], build: Build) -> Compute {
    let n = sizes[0];
    let bound = 8.0 / (n as f64).sqrt();
    Compute { build, bound, bytes: bytes(dtype, &[n]), ..elementwise(dtype, n, 0, 0) }
}

/// Random numbers from 0 to 1.
pub fn uniform(dtype: DType, sizes: &[usize]) -> Compute {
    Compute {
        whole: Some(|_, _, values| {
            let inside = values.iter().all(|v| (0.0..1.0).contains(v));
            if inside { moments(values, 0.5, 1.0 / 12.0) } else { f64::INFINITY }
        }),
        ..random(dtype, sizes, |_, sizes| Generator::new(SEED).uniform(sizes, DType::F32))
    }
}

/// Random numbers of the normal distribution.
pub fn normal(dtype: DType, sizes: &[usize]) -> Compute {
    Compute {
        whole: Some(|_, _, values| moments(values, 0.0, 1.0)),
        ..random(dtype, sizes, |_, sizes| Generator::new(SEED).normal(sizes, DType::F32))
    }
}

/// Random integers from 0 to 999.
pub fn integers(dtype: DType, sizes: &[usize]) -> Compute {
    Compute {
        whole: Some(|_, _, values| {
            let range = RANGE as f64;
            let inside = values.iter().all(|v| (0.0..range).contains(v) && v.fract() == 0.0);
            if inside { moments(values, (range - 1.0) / 2.0, (range * range - 1.0) / 12.0) } else { f64::INFINITY }
        }),
        ..random(dtype, sizes, |_, sizes| Generator::new(SEED).integers(sizes, 0, RANGE))
    }
}
