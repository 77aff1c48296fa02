//! Scattering, quantiles, padding by itself, permutations and cube roots against plain Rust.

use crate::common::Random;
use millstream::{DType, ErrorKind, Generator, Order, Padding, Result, Tensor};

/// The index of each element of a shape, row-major.
fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    let n: usize = shape.iter().product();
    (0..n)
        .map(|mut p| {
            let mut index = vec![0; shape.len()];
            for d in (0..shape.len()).rev() {
                index[d] = p % shape[d];
                p /= shape[d];
            }
            index
        })
        .collect()
}

fn flat(shape: &[usize], index: &[usize]) -> usize {
    index.iter().zip(shape).fold(0, |p, (i, n)| p * n + i)
}

/// An index as people may write it: from the front or from the end.
fn any_index(r: &mut Random, n: usize) -> i64 {
    r.below(2 * n) as i64 - n as i64
}

fn found(target: i64, n: usize) -> Option<usize> {
    let target = if target < 0 { target + n as i64 } else { target };
    usize::try_from(target).ok().filter(|&p| p < n)
}

#[test]
fn values_are_scattered_in_their_order_along_every_axis() -> Result<()> {
    let mut r = Random::fresh();
    for _ in 0..60 {
        let shape: Vec<usize> = (0..1 + r.below(3)).map(|_| 1 + r.below(5)).collect();
        let axis = r.below(shape.len());
        let mut given = shape.clone();
        given[axis] = r.below(9);
        let count: usize = given.iter().product();
        let data: Vec<i64> = (0..shape.iter().product::<usize>()).map(|i| i as i64).collect();
        let targets: Vec<i64> = (0..count).map(|_| any_index(&mut r, shape[axis])).collect();
        let values: Vec<i64> = (0..count).map(|_| r.below(1000) as i64).collect();
        let (mut put, mut sum) = (data.clone(), data.clone());
        for (i, index) in indices(&given).iter().enumerate() {
            if let Some(p) = found(targets[i], shape[axis]) {
                let mut at = index.clone();
                at[axis] = p;
                put[flat(&shape, &at)] = values[i];
                sum[flat(&shape, &at)] += values[i];
            }
        }
        let x = r.relaid(&Tensor::from_shape(&shape, &data));
        let (p, v) = (Tensor::from_shape(&given, &targets), r.relaid(&Tensor::from_shape(&given, &values)));
        let axis = axis as isize;
        assert_eq!(x.scatter(axis, &p, &v).to_vec::<i64>()?, put, "{shape:?} {given:?} {axis}");
        assert_eq!(x.scatter_add(axis, &p, &v).to_vec::<i64>()?, sum, "{shape:?} {given:?} {axis}");
        // Every dtype that holds these numbers.
        for dtype in [DType::F32, DType::F64, DType::C64, DType::I32, DType::U16] {
            let y = x.cast(dtype).scatter_add(axis, &p, &v.cast(dtype));
            let y = if dtype == DType::C64 { y.real() } else { y };
            assert_eq!(y.cast(DType::I64).to_vec::<i64>()?, sum, "{dtype}");
        }
    }
    Ok(())
}

#[test]
fn sums_are_made_in_the_order_of_the_values_and_halves_are_rounded_once() -> Result<()> {
    let ones = Tensor::ones(&[4000], DType::F16);
    let y = Tensor::zeros(&[1], DType::F16).scatter_add(0, &Tensor::zeros(&[4000], DType::I32), &ones);
    assert_eq!(y.cast(DType::F32).item::<f32>()?, 4000.0, "summed in f16 it would stop at 2048");
    let seen = Tensor::zeros(&[3], DType::Bool).scatter_add(
        0,
        &Tensor::from_slice(&[1, 1, 2]),
        &Tensor::from_slice(&[true, false, false]),
    );
    assert_eq!(seen.to_vec::<bool>()?, [false, true, false]);
    // The order matters to floats: it is that of the values, whatever the number of threads.
    let values = [1e8f32, 1.0, -1e8, 1.0];
    let y =
        Tensor::zeros(&[1], DType::F32).scatter_add(0, &Tensor::zeros(&[4], DType::I64), &Tensor::from_slice(&values));
    assert_eq!(y.item::<f32>()?, values.iter().sum::<f32>());
    Ok(())
}

#[test]
fn values_are_put_at_indices_of_several_axes() -> Result<()> {
    let mut r = Random::fresh();
    for _ in 0..40 {
        let shape = [1 + r.below(4), 1 + r.below(4), 1 + r.below(3)];
        let axes = 1 + r.below(2);
        let k = r.below(6);
        let data: Vec<i32> = (0..shape.iter().product::<usize>() as i32).collect();
        let targets: Vec<Vec<i64>> = (0..axes).map(|a| (0..k).map(|_| any_index(&mut r, shape[a])).collect()).collect();
        let inner: usize = shape[axes..].iter().product();
        let values: Vec<i32> = (0..k * inner).map(|_| r.below(1000) as i32).collect();
        let (mut put, mut sum) = (data.clone(), data.clone());
        for j in 0..k {
            let at: Option<Vec<usize>> = (0..axes).map(|a| found(targets[a][j], shape[a])).collect();
            for i in 0..inner {
                if let Some(at) = &at {
                    let p = flat(&shape[..axes], at) * inner + i;
                    put[p] = values[j * inner + i];
                    sum[p] += values[j * inner + i];
                }
            }
        }
        let x = Tensor::from_shape(&shape, &data);
        let targets: Vec<Tensor> = targets.iter().map(|p| Tensor::from_slice(p)).collect();
        let targets: Vec<&Tensor> = targets.iter().collect();
        let given: Vec<usize> = [k].iter().chain(&shape[axes..]).copied().collect();
        let v = Tensor::from_shape(&given, &values);
        assert_eq!(x.index_put(&targets, &v).to_vec::<i32>()?, put);
        assert_eq!(x.index_add(&targets, &v).to_vec::<i32>()?, sum);
    }
    Ok(())
}

#[test]
fn mistakes_in_scattering_are_errors() {
    let x = Tensor::zeros(&[2, 3], DType::F32);
    let i = Tensor::from_shape(&[2, 1], &[0i64, 1]);
    let kind = |t: Tensor| t.check().unwrap_err().kind();
    assert_eq!(kind(x.scatter(2, &i, &Tensor::ones(&[1], DType::F32))), ErrorKind::Argument);
    assert_eq!(kind(x.scatter(1, &i, &Tensor::ones(&[2, 1], DType::F64))), ErrorKind::DType);
    assert_eq!(kind(x.scatter(1, &x, &x)), ErrorKind::DType);
    assert_eq!(kind(x.scatter(1, &Tensor::from_slice(&[0i64]), &Tensor::scalar(1f32))), ErrorKind::Shape);
    assert_eq!(kind(x.scatter(1, &Tensor::zeros(&[3, 1], DType::I64), &Tensor::scalar(1f32))), ErrorKind::Shape);
    assert_eq!(kind(x.index_put::<Tensor>([], &x)), ErrorKind::Argument);
    assert_eq!(kind(x.index_add(&[&i, &i, &i], &x)), ErrorKind::Argument);
}

#[test]
fn quantiles_are_those_of_sorted_elements() -> Result<()> {
    let mut r = Random::fresh();
    for _ in 0..40 {
        let shape: Vec<usize> = (0..1 + r.below(3)).map(|_| 1 + r.below(6)).collect();
        let data: Vec<f64> =
            (0..shape.iter().product()).map(|_| if r.below(3) == 0 { 1.0 } else { r.unit() }).collect();
        let axis = r.below(shape.len());
        let q = [0.0, 1.0, 0.5, r.unit().abs()][r.below(4)];
        let x = r.relaid(&Tensor::from_shape(&shape, &data));
        let y = x.quantile_keepdim(q, axis as isize);
        let mut reduced = shape.clone();
        reduced[axis] = 1;
        assert_eq!(y.shape(), reduced);
        let y = y.to_vec::<f64>()?;
        for (i, index) in indices(&reduced).iter().enumerate() {
            let mut row: Vec<f64> = (0..shape[axis])
                .map(|j| {
                    let mut at = index.clone();
                    at[axis] = j;
                    data[flat(&shape, &at)]
                })
                .collect();
            row.sort_by(f64::total_cmp);
            let at = q * (row.len() - 1) as f64;
            let (low, high) = (row[at.floor() as usize], row[at.ceil() as usize]);
            let expected = low + (high - low) * at.fract();
            assert!((y[i] - expected).abs() <= 1e-15, "{} for {expected}", y[i]);
        }
        // Over all axes: the same as of one long row.
        let all = x.quantile(q, ..).item::<f64>()?;
        assert_eq!(all, x.reshape(&[data.len()]).quantile(q, 0).item::<f64>()?);
    }
    let odd = Tensor::from_slice(&[1.0f32, f32::NAN, 3.0]);
    assert!(odd.median(..).item::<f32>()?.is_nan());
    let infinite = Tensor::from_slice(&[f32::INFINITY, 1.0, f32::INFINITY, f32::INFINITY]);
    assert_eq!(infinite.median(..).item::<f32>()?, f32::INFINITY);
    assert_eq!(odd.quantile(1.5, ..).check().unwrap_err().kind(), ErrorKind::Argument);
    assert_eq!(Tensor::zeros(&[0], DType::F32).median(..).check().unwrap_err().kind(), ErrorKind::Argument);
    Ok(())
}

#[test]
fn padding_takes_elements_from_where_its_kind_says() -> Result<()> {
    let mut r = Random::fresh();
    for _ in 0..40 {
        let shape = [1 + r.below(3), 1 + r.below(5), 1 + r.below(5)];
        let data: Vec<i64> = (0..shape.iter().product::<usize>() as i64).collect();
        let x = r.relaid(&Tensor::from_shape(&shape, &data));
        for padding in [Padding::Reflect, Padding::Replicate, Padding::Circular] {
            let most = |n: usize| match padding {
                Padding::Reflect => n - 1,
                Padding::Circular => n,
                Padding::Replicate => 7,
            };
            let mut amount = |n: usize| (r.below(most(n) + 1), r.below(most(n) + 1));
            let amounts = [amount(shape[1]), amount(shape[2])];
            let wide = [shape[0], shape[1] + amounts[0].0 + amounts[0].1, shape[2] + amounts[1].0 + amounts[1].1];
            let from = |i: usize, before: usize, n: usize| {
                let (i, n) = (i as isize - before as isize, n as isize);
                (match padding {
                    Padding::Replicate => i.clamp(0, n - 1),
                    Padding::Circular => i.rem_euclid(n),
                    Padding::Reflect if i < 0 => -i,
                    Padding::Reflect if i >= n => 2 * (n - 1) - i,
                    Padding::Reflect => i,
                }) as usize
            };
            let expected: Vec<i64> = indices(&wide)
                .iter()
                .map(|at| {
                    let at = [at[0], from(at[1], amounts[0].0, shape[1]), from(at[2], amounts[1].0, shape[2])];
                    data[flat(&shape, &at)]
                })
                .collect();
            let y = x.pad_with(&amounts, padding);
            assert_eq!(
                (y.shape().as_slice(), y.to_vec::<i64>()?),
                (&wide[..], expected),
                "{padding:?} {shape:?} {amounts:?}"
            );
        }
    }
    let x = Tensor::from_slice(&[1, 2]);
    for (padding, amounts) in [(Padding::Reflect, (2, 0)), (Padding::Circular, (0, 3))] {
        assert_eq!(x.pad_with(&[amounts], padding).check().unwrap_err().kind(), ErrorKind::Argument);
    }
    assert!(Tensor::zeros(&[0], DType::F32).pad_with(&[(1, 0)], Padding::Replicate).check().is_err());
    Ok(())
}

#[test]
fn permutations_have_every_number_once_and_every_order_about_as_often() -> Result<()> {
    let mut generator = Generator::new(crate::common::seed());
    // The 24 orders of four, 2400 times: about 100 each; fewer than 50 or more than 150 is 5 standard deviations off.
    let mut counts = std::collections::HashMap::new();
    for _ in 0..2400 {
        *counts.entry(generator.permutation(4).to_vec::<i64>()?).or_insert(0) += 1;
    }
    assert!(counts.len() == 24 && counts.values().all(|c| (50..150).contains(c)), "{counts:?}");
    let x = Tensor::arange(0, 20).reshape(&[2, 10]);
    let y = generator.shuffle(&x, 1);
    assert_eq!(y.sort(1, Order::Ascending).to_vec::<i64>()?, x.to_vec::<i64>()?);
    assert_eq!((y.select(0, 1) - y.select(0, 0)).to_vec::<i64>()?, [10; 10], "columns stay together");
    assert!(generator.shuffle(&x, 2).check().is_err());
    assert_eq!(generator.permutation(0).shape(), [0]);
    Ok(())
}

#[test]
fn cube_roots_are_within_their_bound() -> Result<()> {
    let mut r = Random::fresh();
    let ulp = |got: f32, exact: f64| {
        let near = exact as f32;
        let spacing = f64::from(near.abs().next_up()) - f64::from(near.abs());
        (f64::from(got) - exact).abs() / spacing
    };
    let mut values: Vec<f32> =
        (0..200_000).map(|_| f32::from_bits(r.bits() as u32)).filter(|v| v.is_finite()).collect();
    values.extend([f32::MAX, f32::MIN_POSITIVE, 1e-45, 1.0, 8.0, 27.0, 1e-38]);
    let got = Tensor::from_slice(&values).cbrt().to_vec::<f32>()?;
    let worst = values.iter().zip(&got).map(|(&x, &y)| ulp(y, f64::from(x).cbrt())).fold(0.0, f64::max);
    println!("f32: {worst} units in the last target");
    assert!(worst <= 2.0, "{worst}");
    let values: Vec<f64> =
        (0..100_000).map(|_| f64::from_bits(r.bits())).filter(|v| v.is_finite()).chain([f64::MAX, 5e-324]).collect();
    let got = Tensor::from_slice(&values).cbrt().to_vec::<f64>()?;
    for (&x, &y) in values.iter().zip(&got) {
        // The library's own root is within one unit.
        let (exact, spacing) = (x.cbrt(), x.cbrt().abs().next_up() - x.cbrt().abs());
        assert!((y - exact).abs() <= 2.5 * spacing, "{x}: {y} for {exact}");
    }
    let special =
        Tensor::from_slice(&[0.0f32, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]).cbrt().to_vec::<f32>()?;
    assert_eq!(
        special[..4].iter().map(|v| v.to_bits()).collect::<Vec<_>>(),
        [0.0f32.to_bits(), (-0.0f32).to_bits(), f32::INFINITY.to_bits(), f32::NEG_INFINITY.to_bits()]
    );
    assert!(special[4].is_nan());
    assert_eq!(Tensor::from_slice(&[27i32, -64]).cbrt().to_vec::<f32>()?, [3.0, -4.0]);
    Ok(())
}
