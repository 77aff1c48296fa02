//! Sorting, searching and sets against plain Rust.

use std::cmp::Ordering;

use crate::common::Random;
use millstream::{DType, ErrorKind, Order, Result, Side, Tensor};

/// The promised order of floats.
fn compare(a: &f32, b: &f32) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => a.partial_cmp(b).unwrap(),
        (x, y) => x.cmp(&y),
    }
}

fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

/// Values with many ties, zeros of both signs, infinities and NaNs.
fn awkward(random: &mut Random, n: usize) -> Vec<f32> {
    let special = [0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN];
    (0..n)
        .map(|_| match random.below(4) {
            0 => special[random.below(special.len())],
            1 => random.unit() as f32,
            _ => random.below(5) as f32 - 2.0,
        })
        .collect()
}

/// The elements along an axis, lane by lane: the row-major positions.
fn lanes(shape: &[usize], axis: usize) -> Vec<Vec<usize>> {
    let inner: usize = shape[axis + 1..].iter().product();
    let outer: usize = shape[..axis].iter().product();
    let n = shape[axis];
    (0..outer * inner).map(|l| (0..n).map(|i| l / inner * n * inner + i * inner + l % inner).collect()).collect()
}

#[test]
fn sorting_is_stable_along_every_axis_with_nan_as_the_largest() -> Result<()> {
    let mut random = Random::fresh();
    for _ in 0..60 {
        let shape = random.shape(3, 9);
        let values = awkward(&mut random, shape.iter().product());
        let x = random.relaid(&Tensor::from_shape(&shape, &values));
        let axis = random.below(shape.len());
        let descending = random.below(2) == 1;
        let k = random.below(shape[axis] + 1);
        let order = if descending { Order::Descending } else { Order::Ascending };
        let sorted = x.sort(axis, order).to_vec::<f32>()?;
        let indices = x.argsort(axis, order).to_vec::<i64>()?;
        let (top, top_indices) = x.topk(k, axis, order);
        let (top, top_indices) = (top.contiguous(), top_indices.contiguous());
        let mut cut = shape.clone();
        cut[axis] = k;
        assert_eq!(top.shape(), cut);
        let (top, top_indices) = (top.to_vec::<f32>()?, top_indices.to_vec::<i64>()?);
        for (lane, short) in lanes(&shape, axis).iter().zip(lanes(&cut, axis)) {
            let mut order: Vec<usize> = (0..lane.len()).collect();
            order.sort_by(|&a, &b| {
                let o = compare(&values[lane[a]], &values[lane[b]]);
                if descending { o.reverse() } else { o }
            });
            for (i, &from) in order.iter().enumerate() {
                assert_eq!(indices[lane[i]], from as i64);
                assert!(same(sorted[lane[i]], values[lane[from]]));
                if i < k {
                    assert_eq!(top_indices[short[i]], from as i64);
                    assert!(same(top[short[i]], values[lane[from]]));
                }
            }
        }
    }
    Ok(())
}

#[test]
fn every_dtype_sorts() -> Result<()> {
    let mut random = Random::fresh();
    for dtype in DType::ALL {
        let values: Vec<i64> = (0..50).map(|_| random.below(100) as i64 - 50).collect();
        let x = Tensor::from_slice(&values).cast(dtype);
        let ready = x.to_bytes()?;
        let sorted = x.sort(0, Order::Ascending);
        let whole = |t: &Tensor| if dtype.is_complex() { t.to_bytes() } else { t.cast(DType::F64).to_bytes() };
        let x = Tensor::from_bytes(&[50], dtype, &ready);
        let indices = x.argsort(0, Order::Ascending).to_vec::<i64>()?;
        if !dtype.is_complex() {
            let numbers = sorted.cast(DType::F64).to_vec::<f64>()?;
            assert!(numbers.windows(2).all(|w| w[0] <= w[1]), "{dtype}: {numbers:?}");
            let from = x.cast(DType::F64).to_vec::<f64>()?;
            assert!(indices.iter().zip(&numbers).all(|(&p, v)| from[p as usize] == *v), "{dtype}");
        }
        assert_eq!(whole(&sorted.sort(0, Order::Descending).flip(0))?, whole(&sorted)?, "{dtype}");
    }
    Ok(())
}

#[test]
fn distinct_elements_come_with_indices_and_counts() -> Result<()> {
    let mut random = Random::fresh();
    for _ in 0..40 {
        let shape = random.shape(3, 7);
        let values = awkward(&mut random, shape.iter().product());
        let x = random.relaid(&Tensor::from_shape(&shape, &values));
        let (distinct, first, inverse, counts) = x.unique_all();
        assert_eq!(inverse.shape(), shape);
        let (d, f) = (distinct.to_vec::<f32>()?, first.to_vec::<i64>()?);
        let (i, c) = (inverse.to_vec::<i64>()?, counts.to_vec::<i64>()?);
        assert!(d.windows(2).all(|w| compare(&w[0], &w[1]) == Ordering::Less || w[0].is_nan()));
        assert_eq!(c.iter().sum::<i64>(), values.len() as i64);
        for (at, &v) in values.iter().enumerate() {
            let n = i[at] as usize;
            assert!(d[n] == v || d[n].is_nan() && v.is_nan());
            let equal = (0..values.len()).filter(|&j| i[j] as usize == n);
            assert_eq!((equal.clone().count() as i64, equal.min()), (c[n], Some(f[n] as usize)));
            assert!(!v.is_nan() || c[n] == 1);
            assert!(same(values[f[n] as usize], d[n]));
        }
        let bits = |t: &Tensor| t.contiguous().to_bytes();
        assert_eq!(bits(&x.unique_values())?, bits(&distinct)?);
        assert_eq!(bits(&x.unique_counts().1)?, bits(&counts)?);
        assert_eq!(bits(&x.unique_inverse().1)?, bits(&inverse)?);
    }
    Ok(())
}

#[test]
fn masks_and_indices_pick_the_true_elements_in_order() -> Result<()> {
    let mut random = Random::fresh();
    for _ in 0..40 {
        let shape = random.shape(3, 6);
        let n: usize = shape.iter().product();
        let truth: Vec<bool> = (0..n).map(|_| random.below(3) == 0).collect();
        let mask = random.relaid(&Tensor::from_shape(&shape, &truth));
        let indices = mask.nonzero()?;
        let count = truth.iter().filter(|&&t| t).count();
        assert_eq!(mask.count_nonzero(..).item::<i64>()?, count as i64);
        let lists = indices.iter().map(|t| t.to_vec::<i64>()).collect::<Result<Vec<_>>>()?;
        let found: Vec<usize> =
            (0..count).map(|i| lists.iter().zip(&shape).fold(0, |at, (list, &n)| at * n + list[i] as usize)).collect();
        let expected: Vec<usize> = (0..n).filter(|&i| truth[i]).collect();
        assert_eq!(found, expected);

        let mut whole = shape.clone();
        whole.push(2);
        let x = random.relaid(&Tensor::arange(0, 2 * n as i64).reshape(&whole));
        let picked = x.mask(&mask);
        assert_eq!(picked.shape(), [count, 2]);
        let rows: Vec<i64> = expected.iter().flat_map(|&i| [2 * i as i64, 2 * i as i64 + 1]).collect();
        assert_eq!(picked.to_vec::<i64>()?, rows);
    }
    let x = Tensor::arange(0, 4);
    assert_eq!(x.mask(&x).check().unwrap_err().kind(), ErrorKind::DType);
    assert_eq!(x.mask(&Tensor::from_slice(&[true])).check().unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(Tensor::scalar(1.0f32).nonzero().unwrap_err().kind(), ErrorKind::Shape);
    Ok(())
}

#[test]
fn searching_finds_indices_and_membership() -> Result<()> {
    let mut random = Random::fresh();
    for _ in 0..30 {
        let (n, shape) = (random.below(20), random.shape(2, 8));
        let mut sorted = awkward(&mut random, n);
        sorted.sort_by(compare);
        let values = awkward(&mut random, shape.iter().product());
        let (table, x) = (Tensor::from_slice(&sorted), random.relaid(&Tensor::from_shape(&shape, &values)));
        let (left, right) = (table.searchsorted(&x, Side::Left), table.searchsorted(&x, Side::Right));
        let found = x.isin(&table).to_vec::<bool>()?;
        let missing = (!x.isin(&table)).to_vec::<bool>()?;
        let (left, right) = (left.to_vec::<i64>()?, right.to_vec::<i64>()?);
        for (i, v) in values.iter().enumerate() {
            assert_eq!(left[i] as usize, sorted.iter().filter(|s| compare(s, v) == Ordering::Less).count());
            assert_eq!(right[i] as usize, sorted.iter().filter(|s| compare(s, v) != Ordering::Greater).count());
            assert_eq!((found[i], missing[i]), (sorted.contains(v), !sorted.contains(v)));
        }
    }
    assert!(Tensor::zeros(&[2, 2], DType::F32).searchsorted(&Tensor::scalar(1.0f32), Side::Left).check().is_err());
    Ok(())
}

#[test]
fn wrong_arguments_are_errors_of_their_kind() {
    let x = Tensor::zeros(&[2, 3], DType::F32);
    assert_eq!(x.sort(2, Order::Ascending).check().unwrap_err().kind(), ErrorKind::Argument);
    assert_eq!(x.topk(4, 1, Order::Descending).0.check().unwrap_err().kind(), ErrorKind::Argument);
    let error = x.sort(7, Order::Ascending).argsort(0, Order::Descending).check().unwrap_err();
    assert_eq!(error.op(), Some("sort"));
    assert!(error.location().unwrap().file().ends_with("sorting.rs"));
}
