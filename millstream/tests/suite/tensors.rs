//! What tensors compute, through the public interface.

use millstream::{DType, ErrorKind, Result, Tensor, step};

#[test]
fn arithmetic_broadcasts_and_promotes() -> Result<()> {
    let column = Tensor::from_shape(&[3, 1], &[1i32, 2, 3]);
    let row = Tensor::from_slice(&[0.5f32, 1.5]);
    let sum = &column + &row;
    assert_eq!((sum.shape().as_slice(), sum.dtype()), (&[3usize, 2][..], DType::F32));
    assert_eq!(sum.to_vec::<f32>()?, [1.5, 2.5, 2.5, 3.5, 3.5, 4.5]);
    assert_eq!((2 * &column - 1).to_vec::<i32>()?, [1, 3, 5]);
    assert_eq!((&column / 2).to_vec::<f32>()?, [0.5, 1.0, 1.5]);
    assert_eq!((&column * 0.5).dtype(), DType::F32);
    assert_eq!(column.floor_div(-2).to_vec::<i32>()?, [-1, -1, -2]);
    assert_eq!((1.0 / Tensor::from_slice(&[2.0f64])).to_vec::<f64>()?, [0.5]);
    Ok(())
}

#[test]
fn views_show_the_same_values_without_copies() -> Result<()> {
    let x = Tensor::arange(0, 24).reshape(&[2, 3, 4]);
    assert_eq!(x.permute(&[2, 0, 1]).select(0, 1).to_vec::<i64>()?, [1, 5, 9, 13, 17, 21]);
    assert_eq!(x.flip(-1).select(0, 0).select(0, 0).to_vec::<i64>()?, [3, 2, 1, 0]);
    assert_eq!(x.slice(1, step(..3, 2)).slice(2, step(-1..0, -2)).to_vec::<i64>()?, [3, 1, 11, 9, 15, 13, 23, 21]);
    assert_eq!(x.transpose().reshape(&[24]).to_vec::<i64>()?[..4], [0, 4, 8, 1]);
    assert_eq!(x.unsqueeze(1).shape(), [2, 1, 3, 4]);
    assert_eq!(x.unsqueeze(-1).squeeze(-1).shape(), x.shape());
    let one = Tensor::from_slice(&[7i64]).broadcast(&[2, 3]);
    assert_eq!((one + 1).to_vec::<i64>()?, [8; 6]);
    Ok(())
}

#[test]
fn operations_on_views_of_computed_values_agree_with_those_on_copies() -> Result<()> {
    let x = Tensor::arange(0, 60).reshape(&[3, 4, 5]).cast(DType::F32);
    let y = (&x * 2.0).exp2_like();
    let fused = (y.permute(&[2, 1, 0]).slice(1, step(1..4, 2)) + 1.0).flip(0);
    let whole = y.to_vec::<f32>()?;
    let mut expected = Vec::new();
    for k in (0..5).rev() {
        for j in [1, 3] {
            for i in 0..3 {
                expected.push(whole[i * 20 + j * 5 + k] + 1.0);
            }
        }
    }
    assert_eq!(fused.to_vec::<f32>()?, expected);
    Ok(())
}

/// A few chained maps, exact in f32 for small whole numbers.
trait Exp2Like {
    fn exp2_like(&self) -> Tensor;
}

impl Exp2Like for Tensor {
    fn exp2_like(&self) -> Tensor {
        (self + 3.0).abs().maximum(1.0) * 0.25
    }
}

#[test]
fn reductions_over_any_axes() -> Result<()> {
    let x = Tensor::arange(0, 24).reshape(&[2, 3, 4]);
    assert_eq!(x.sum(..).item::<i64>()?, 276);
    assert_eq!(x.sum(1).to_vec::<i64>()?, [12, 15, 18, 21, 48, 51, 54, 57]);
    assert_eq!(x.sum_keepdim([0, 2]).shape(), [1, 3, 1]);
    assert_eq!(x.sum([0, 2]).to_vec::<i64>()?, [60, 92, 124]);
    assert_eq!(x.max(-1).to_vec::<i64>()?, [3, 7, 11, 15, 19, 23]);
    assert_eq!(x.min(0).to_vec::<i64>()?[..3], [0, 1, 2]);
    assert_eq!(x.argmax([1, 2]).to_vec::<i64>()?, [11, 11]);
    assert_eq!(x.mean(2).to_vec::<f32>()?, [1.5, 5.5, 9.5, 13.5, 17.5, 21.5]);
    assert_eq!(x.cast(DType::F64).var_corrected(1.0, 2).to_vec::<f64>()?[0], 5.0 / 3.0);
    assert_eq!(x.gt(10).any([1, 2]).to_vec::<bool>()?, [true, true]);
    assert_eq!(x.gt(10).all([1, 2]).to_vec::<bool>()?, [false, true]);
    Ok(())
}

#[test]
fn softmax_and_layernorm_along_inner_and_outer_axes() -> Result<()> {
    let data: Vec<f64> = (0..35).map(|i| ((i * 37) % 11) as f64 - 5.0).collect();
    let x = Tensor::from_shape(&[5, 7], &data);
    for axis in [0, 1] {
        let y = x.softmax(axis);
        let total = y.sum(axis).to_vec::<f64>()?;
        assert!(total.iter().all(|t| (t - 1.0).abs() < 1e-14), "{total:?}");
        let logs = x.log_softmax(axis).exp().to_vec::<f64>()?;
        for (a, b) in y.to_vec::<f64>()?.iter().zip(&logs) {
            assert!((a - b).abs() < 1e-14);
        }
    }
    let n = x.layernorm(-1, 0.0);
    let mean = n.mean(1).to_vec::<f64>()?;
    let var = n.var(1).to_vec::<f64>()?;
    assert!(mean.iter().all(|m| m.abs() < 1e-14) && var.iter().all(|v| (v - 1.0).abs() < 1e-13));
    assert_eq!(Tensor::from_slice(&[1000.0f32, 1000.0]).softmax(0).to_vec::<f32>()?, [0.5, 0.5]);
    Ok(())
}

#[test]
fn matmuls_of_every_rank() -> Result<()> {
    let a = Tensor::arange(0, 6).reshape(&[2, 3]);
    let b = Tensor::arange(0, 12).reshape(&[3, 4]);
    assert_eq!(a.matmul(&b).to_vec::<i64>()?, [20, 23, 26, 29, 56, 68, 80, 92]);
    assert_eq!(a.matmul(&a.transpose()).to_vec::<i64>()?, [5, 14, 14, 50]);
    let v = Tensor::from_slice(&[1i64, 1, 1]);
    assert_eq!(v.matmul(&v).item::<i64>()?, 3);
    assert_eq!(v.matmul(&b).shape(), [4]);
    assert_eq!(a.matmul(&v).to_vec::<i64>()?, [3, 12]);
    let batch = Tensor::arange(0, 24).reshape(&[2, 1, 3, 4]).cast(DType::F32);
    let other = Tensor::arange(0, 40).reshape(&[5, 4, 2]).cast(DType::F32);
    let out = batch.matmul(&other);
    assert_eq!(out.shape(), [2, 5, 3, 2]);
    let (x, y, z) = (batch.to_vec::<f32>()?, other.to_vec::<f32>()?, out.to_vec::<f32>()?);
    for (i, &got) in z.iter().enumerate() {
        let (p, q, m, n) = (i / 30, i / 6 % 5, i / 2 % 3, i % 2);
        let want: f32 = (0..4).map(|k| x[p * 12 + m * 4 + k] * y[q * 8 + k * 2 + n]).sum();
        assert_eq!(got, want);
    }
    Ok(())
}

#[test]
fn a_linear_layer_with_everything_fused_is_right() -> Result<()> {
    let (m, k, n) = (33, 70, 41);
    let value = |i: usize| ((i * 7919) % 201) as f32 / 100.0 - 1.0;
    let a: Vec<f32> = (0..m * k).map(value).collect();
    let b: Vec<f32> = (0..k * n).map(|i| value(i + 5)).collect();
    let bias: Vec<f32> = (0..n).map(|i| value(i + 9)).collect();
    let (ta, tb, tc) = (Tensor::from_shape(&[m, k], &a), Tensor::from_shape(&[k, n], &b), Tensor::from_slice(&bias));
    let y = ((&ta * 2.0).matmul(&tb) + &tc).gelu() + ta.sum_keepdim(1);
    let got = y.to_vec::<f32>()?;
    for i in 0..m {
        let row: f64 = (0..k).map(|p| a[i * k + p] as f64).sum();
        for j in 0..n {
            let dot: f64 =
                (0..k).map(|p| 2.0 * a[i * k + p] as f64 * b[p * n + j] as f64).sum::<f64>() + bias[j] as f64;
            let want = 0.5 * dot * (1.0 + erf(dot / std::f64::consts::SQRT_2)) + row;
            assert!((got[i * n + j] as f64 - want).abs() < 2e-4, "{} {want}", got[i * n + j]);
        }
    }
    Ok(())
}

/// Good to about 1e-7, which is enough here.
fn erf(x: f64) -> f64 {
    let steps = 2000;
    let h = x / steps as f64;
    let f = |t: f64| (-t * t).exp();
    let inner: f64 = (1..steps).map(|i| f(i as f64 * h) * if i % 2 == 1 { 4.0 } else { 2.0 }).sum();
    2.0 / std::f64::consts::PI.sqrt() * h / 3.0 * (f(0.0) + inner + f(x))
}

#[test]
fn halves_are_computed_in_single_precision() -> Result<()> {
    let x = Tensor::from_slice(&[0.1f32, 0.2, 0.3]);
    for dtype in [DType::F16, DType::BF16] {
        let h = x.cast(dtype);
        let back = (&h + &h).cast(DType::F32).to_vec::<f32>()?;
        let exact = h.cast(DType::F32).to_vec::<f32>()?;
        for (b, e) in back.iter().zip(&exact) {
            assert_eq!(*b, 2.0 * e);
        }
        assert_eq!(h.matmul(&h).dtype(), dtype);
    }
    Ok(())
}

#[test]
fn empty_tensors_are_no_special_case() -> Result<()> {
    let none = Tensor::from_shape::<f32>(&[0, 3], &[]);
    assert_eq!((&none + 1.0).exp().to_vec::<f32>()?, [0f32; 0]);
    assert_eq!(none.sum(0).to_vec::<f32>()?, [0.0; 3]);
    assert_eq!(none.sum(1).to_vec::<f32>()?, [0f32; 0]);
    assert_eq!(none.prod(..).item::<f32>()?, 1.0);
    assert!(none.mean(..).item::<f32>()?.is_nan());
    assert_eq!(none.max(0).check().unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(none.softmax(0).to_vec::<f32>()?, [0f32; 0]);
    let tall = Tensor::from_shape::<f32>(&[3, 0], &[]);
    assert_eq!(tall.matmul(&none).to_vec::<f32>()?, [0.0; 9]);
    assert_eq!((tall.matmul(&none) + 1.0).to_vec::<f32>()?, [1.0; 9]);
    for shape in [[0, usize::MAX, usize::MAX], [usize::MAX, usize::MAX, 0], [usize::MAX, 0, 2]] {
        let vast = Tensor::zeros(&shape, DType::F32);
        assert_eq!(((&vast + 1.0).exp() * &vast).to_vec::<f32>()?, [0f32; 0]);
        assert_eq!(vast.permute(&[2, 0, 1]).copy().to_vec::<f32>()?, [0f32; 0]);
        assert_eq!(vast.sum(..).item::<f32>()?, 0.0);
    }
    // A sum over no index at all, though there are many along one dimension.
    let (x, y) = (Tensor::zeros([3, 1usize << 40, 0], DType::F32), Tensor::zeros([4, 0, 1usize << 40], DType::F32));
    assert_eq!(Tensor::einsum("iba,jab->ij", &[&x, &y]).to_vec::<f32>()?, [0.0; 12]);
    let (x, y) = (
        Tensor::zeros([3, 1usize << 40, 1 << 40, 0], DType::F32),
        Tensor::zeros([4, 0, 1usize << 40, 1 << 40], DType::F32),
    );
    assert_eq!(Tensor::einsum("ibca,jacb->ij", &[&x, &y]).to_vec::<f32>()?, [0.0; 12]);
    assert!(!none.any(..).item::<bool>()?);
    assert!(none.all(..).item::<bool>()?);
    Ok(())
}

#[test]
fn nan_and_infinity_follow_the_rules() -> Result<()> {
    let x = Tensor::from_slice(&[1.0f32, f32::NAN, f32::NEG_INFINITY]);
    assert!(x.max(..).item::<f32>()?.is_nan());
    assert_eq!(x.argmax(..).item::<i64>()?, 1);
    assert_eq!(x.eq(&x).to_vec::<bool>()?, [true, false, true]);
    assert_eq!(x.isnan().to_vec::<bool>()?, [false, true, false]);
    assert_eq!(x.cast(DType::I32).to_vec::<i32>()?, [1, 0, i32::MIN]);
    assert_eq!(x.relu().to_vec::<f32>()?[2], 0.0);
    assert!(x.relu().to_vec::<f32>()?[1].is_nan());
    Ok(())
}

#[test]
fn choosing_by_a_condition() -> Result<()> {
    let x = Tensor::arange(-2, 3);
    assert_eq!(x.lt(0).where_(-1, &x).to_vec::<i64>()?, [-1, -1, 0, 1, 2]);
    assert_eq!(x.where_(&x, 0).check().unwrap_err().kind(), ErrorKind::DType);
    assert_eq!(x.ge(0).where_(1.5, 0.0).dtype(), DType::F32);
    Ok(())
}

#[test]
fn several_values_are_computed_in_one_plan() -> Result<()> {
    let x = Tensor::arange(0, 1000).cast(DType::F64);
    let y = x.sqrt();
    let (a, b) = (&y + 1.0, y.sum(..));
    Tensor::eval_all(&[&a, &b, &y])?;
    let roots = y.to_vec::<f64>()?;
    assert_eq!(a.to_vec::<f64>()?[10], roots[10] + 1.0);
    assert!((b.item::<f64>()? - roots.iter().sum::<f64>()).abs() < 1e-8);
    Ok(())
}

#[test]
fn a_value_is_read_without_blocking() -> Result<()> {
    let x = Tensor::arange(0, 100_000).cast(DType::F64);
    let y = (&x * 2.0).sum(..);
    let event = y.eval_async()?;
    event.wait()?;
    assert_eq!(y.item::<f64>()?, 99_999.0 * 100_000.0);
    let z = millstream::core::block_on(async { (&x + 1.0).slice(0, ..3).to_vec_async::<f64>().await })?;
    assert_eq!(z, [1.0, 2.0, 3.0]);
    Ok(())
}

#[test]
fn complex_numbers_compute() -> Result<()> {
    use num_complex::Complex;
    let x = Tensor::from_slice(&[Complex::new(0.0f32, 1.0), Complex::new(3.0, 4.0)]);
    assert_eq!((&x * &x).to_vec::<Complex<f32>>()?, [Complex::new(-1.0, 0.0), Complex::new(-7.0, 24.0)]);
    assert_eq!(x.abs().to_vec::<f32>()?, [1.0, 5.0]);
    assert_eq!(x.lt(&x).check().unwrap_err().kind(), ErrorKind::DType);
    assert_eq!(x.sum(..).item::<Complex<f32>>()?, Complex::new(3.0, 5.0));
    Ok(())
}
