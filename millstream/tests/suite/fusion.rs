//! What is fused, and that it changes no result.

use millstream::{DType, Idea, Result, Tensor};
use proptest::prelude::*;

/// How many kernels the plan for a value has.
fn kernels(x: &Tensor) -> usize {
    let text = x.explain().expect("a plan");
    let at = text.find(" kernels").expect("a count");
    text[..at].rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a number")
}

fn matrix(rows: usize, columns: usize) -> Tensor {
    let data: Vec<f32> = (0..rows * columns).map(|i| ((i * 7919) % 401) as f32 / 100.0 - 2.0).collect();
    Tensor::from_shape(&[rows, columns], &data)
}

#[test]
fn a_chain_of_maps_is_one_kernel() {
    let (x, y) = (matrix(8, 9), matrix(8, 9));
    let z = (&x * 1.5 + &y).tanh() * x.sigmoid() - y.abs().sqrt();
    assert_eq!(kernels(&z), 1);
}

#[test]
fn normalisations_written_from_primitives_are_one_kernel() {
    let x = matrix(8, 9);
    assert_eq!(kernels(&x.softmax(1)), 1);
    assert_eq!(kernels(&x.softmax(0)), 1);
    assert_eq!(kernels(&x.log_softmax(1)), 1);
    assert_eq!(kernels(&x.layernorm(-1, 1e-5)), 1);
    assert_eq!(kernels(&x.var(1)), 1);
    let (scale, shift) = (matrix(1, 9), matrix(1, 9));
    assert_eq!(kernels(&((&x * 2.0).layernorm(-1, 1e-5) * &scale + &shift).relu()), 1);
    let e = (&x - x.max_keepdim(1)).exp();
    assert_eq!(kernels(&e.sum(1).log()), 1);
}

#[test]
fn maps_fuse_into_the_reduction_that_reads_them() {
    let x = matrix(8, 9);
    assert_eq!(kernels(&(&x * &x).sum(..).sqrt()), 1);
    assert_eq!(kernels(&x.exp().transpose().sum(1)), 1);
}

#[test]
fn a_matmul_takes_in_what_surrounds_it() {
    let (a, b, bias) = (matrix(8, 9), matrix(9, 5), matrix(1, 5));
    assert_eq!(kernels(&(a.matmul(&b) + &bias).gelu()), 1);
    assert_eq!(kernels(&(a.relu().matmul(&(&b * 2.0)) * 0.5 + &matrix(8, 5))), 1);
    assert_eq!(kernels(&a.matmul(&b).matmul(&matrix(5, 4))), 2);
    assert_eq!(kernels(&a.matmul(&b).softmax(1)), 2);
}

#[test]
fn shared_values_are_computed_once() {
    let x = matrix(8, 9);
    let y = x.exp();
    assert_eq!(kernels(&(&y + y.sin() * &y)), 1);
    let s = x.sum_keepdim(1);
    assert_eq!(kernels(&(&x / &s + &s)), 1);
    // Two reductions over different axes cannot share a pass; the map they share is stored once.
    let both = y.sum_keepdim(0) + y.sum_keepdim(1);
    assert!(kernels(&both) <= 4);
}

#[test]
fn plans_are_found_again_for_other_numbers_offsets_and_tensors() -> Result<()> {
    let runtime = millstream::runtime().build();
    let device = runtime.host()?;
    let x = matrix(16, 8).to(&device);
    let profiler = runtime.profiler();
    profiler.start();
    for i in 0..8 {
        let row = x.slice(0, i..i + 4) * i as f64 + 1.0;
        row.eval()?;
    }
    profiler.stop();
    let made = profiler.records().iter().filter(|r| r.note.contains("plan Made")).count();
    let cached = profiler.records().iter().filter(|r| r.note.contains("plan Cached")).count();
    assert_eq!((made, cached), (1, 7));
    Ok(())
}

#[test]
fn ten_equal_launches_give_nine_ring_hits() -> Result<()> {
    let device = millstream::runtime().build().host()?;
    let x = matrix(4, 4).to(&device);
    (&x + 1.0).eval()?;
    let before = device.statistics();
    for _ in 0..10 {
        (&x - 1.0).eval()?;
    }
    let after = device.statistics();
    assert_eq!(after.launches - before.launches, 10);
    // Planning prepares the launch once; every launch after it finds it in the ring.
    assert!(after.ring_hits - before.ring_hits >= 9, "{after:?}");
    Ok(())
}

/// How much memory the plan for a value needs beside its result.
fn intermediate(x: &Tensor) -> String {
    let text = x.explain().expect("a plan");
    let at = text.find(" of intermediate").expect("an amount");
    text[..at].rsplit(", ").next().unwrap_or_default().to_string()
}

/// A step of the heat equation on a grid without borders.
fn heat(u: &Tensor) -> Tensor {
    let (up, down) = (u.roll(&[1], &[0]), u.roll(&[-1], &[0]));
    let (left, right) = (u.roll(&[1], &[1]), u.roll(&[-1], &[1]));
    u + (up + down + left + right - u * 4.0) * 0.1
}

#[test]
fn shifted_rolled_padded_and_joined_views_fuse() -> Result<()> {
    let u = matrix(2000, 3000);
    u.eval()?;
    let rolled = heat(&u);
    // The inside, four edges and four corners.
    assert_eq!((kernels(&rolled), intermediate(&rolled).as_str()), (9, "0 B"));

    let inside = |x: &Tensor| {
        let cross = x.slice(0, ..-2).slice(1, 1..-1) + x.slice(0, 2..2000).slice(1, 1..-1);
        x.slice(0, 1..-1).slice(1, 1..-1) * 0.5 + cross * 0.25
    };
    let padded = &u + inside(&u).pad(&[(1, 1), (1, 1)], 0.0);
    assert_eq!((kernels(&padded), intermediate(&padded).as_str()), (5, "0 B"));

    let rows = Tensor::concat(&[&u.slice(0, ..1), &(u.slice(0, 1..-1) * 0.5), &u.slice(0, -1..2000)], 0);
    let joined = rows.tanh() + &u;
    assert_eq!((kernels(&joined), intermediate(&joined).as_str()), (3, "0 B"));
    Ok(())
}

#[test]
fn what_only_one_kernel_needs_is_not_stored_beside_its_input() -> Result<()> {
    let u = matrix(2000, 3000);
    u.eval()?;
    // Of the first step its result is stored, and not four times it, which only the second reads.
    assert_eq!(intermediate(&heat(&heat(&u))), "24.00 MB");
    Ok(())
}

/// A step of a random program.
#[derive(Clone, Debug)]
enum Step {
    Unary(u8, usize),
    Binary(u8, usize, usize),
    Reduce(u8, usize, u8),
    View(u8, usize, u8),
    /// Makes a value of several parts.
    Parts(u8, usize, u8),
    Matmul(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (any::<u8>(), any::<usize>()).prop_map(|(o, a)| Step::Unary(o, a)),
        4 => (any::<u8>(), any::<usize>(), any::<usize>()).prop_map(|(o, a, b)| Step::Binary(o, a, b)),
        2 => (any::<u8>(), any::<usize>(), any::<u8>()).prop_map(|(o, a, x)| Step::Reduce(o, a, x)),
        3 => (any::<u8>(), any::<usize>(), any::<u8>()).prop_map(|(o, a, x)| Step::View(o, a, x)),
        3 => (any::<u8>(), any::<usize>(), any::<u8>()).prop_map(|(o, a, x)| Step::Parts(o, a, x)),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Step::Matmul(a, b)),
    ];
    prop::collection::vec(step, 1..14)
}

/// Runs a random program; `each` sees every value as it is made.
fn program(steps: &[Step], inputs: &[Tensor], mut each: impl FnMut(&Tensor)) -> Vec<Tensor> {
    let mut values: Vec<Tensor> = inputs.to_vec();
    for step in steps {
        let at = |i: &usize| values[i % values.len()].clone();
        let made = match step {
            Step::Unary(o, a) => {
                let x = at(a);
                match o % 5 {
                    0 => x.tanh(),
                    1 => x.abs(),
                    2 => x * 0.5,
                    3 => x.maximum(0.25),
                    _ => x.sin(),
                }
            }
            Step::Binary(o, a, b) => {
                let (x, y) = (at(a), at(b));
                match o % 4 {
                    0 => x + y,
                    1 => x - y,
                    2 => x * y.tanh(),
                    _ => x.minimum(&y),
                }
            }
            Step::Reduce(o, a, axis) => {
                let x = at(a);
                if x.rank() == 0 || x.is_empty() {
                    continue;
                }
                let axis = (*axis as usize % x.rank()) as isize;
                match o % 4 {
                    0 => x.mean_keepdim(axis),
                    1 => x.max_keepdim(axis),
                    2 => x.softmax(axis),
                    _ => x.sum(axis) * 0.1,
                }
            }
            Step::View(o, a, axis) => {
                let x = at(a);
                if x.rank() == 0 {
                    continue;
                }
                let axis = (*axis as usize % x.rank()) as isize;
                match o % 5 {
                    0 if x.rank() > 1 => x.transpose(),
                    1 => x.flip(axis),
                    2 if x.shape()[axis as usize] > 2 => x.slice(axis, 1..-1),
                    3 => x.reshape(&[x.len()]),
                    _ => x.unsqueeze(axis),
                }
            }
            Step::Parts(o, a, axis) => {
                let x = at(a);
                if x.rank() == 0 || x.shape().contains(&0) {
                    continue;
                }
                let axis = *axis as usize % x.rank();
                let by = axis as isize;
                let mut around = vec![(0, 0); x.rank()];
                around[axis] = (1, 2);
                match o % 6 {
                    0 => x.roll(&[1], &[by]),
                    1 => x.roll(&[-1], &[by]) - &x,
                    2 => x.pad(&around, 0.5).slice(by, 1..-2) * 2.0,
                    3 => x.pad(&around, -1.0),
                    4 => Tensor::concat(&[&x.slice(by, ..1).cos(), &x, &x.slice(by, -1..x.shape()[axis] as isize)], by),
                    _ => {
                        let mut y = x.copy();
                        y.slice_assign(by, ..1, &x.slice(by, -1..x.shape()[axis] as isize)).expect("a part of it");
                        y
                    }
                }
            }
            Step::Matmul(a, b) => {
                let (x, y) = (at(a), at(b));
                if x.rank() < 2 || y.rank() < 2 {
                    continue;
                }
                x.matmul(&y) * 0.2
            }
        };
        if made.check().is_ok() && made.len() <= 20_000 && made.rank() <= 6 {
            each(&made);
            values.push(made);
        }
    }
    values
}

fn close(a: &Tensor, b: &Tensor) -> std::result::Result<(), TestCaseError> {
    let (x, y) = (a.to_vec::<f64>().expect("left"), b.to_vec::<f64>().expect("right"));
    prop_assert_eq!(x.len(), y.len());
    for (i, (p, q)) in x.iter().zip(&y).enumerate() {
        prop_assert!(
            (p - q).abs() <= 1e-9 * (1.0 + p.abs()) || p == q || (p.is_nan() && q.is_nan()),
            "element {i}: {p} and {q}"
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn fused_equals_unfused(list in steps(), seed in 1usize..1000) {
        let data = |n: usize, s: usize| -> Vec<f64> { (0..n).map(|i| ((i * 7919 + s * 31) % 197) as f64 / 98.5 - 1.0).collect() };
        let inputs = [
            Tensor::from_shape(&[4, 6], &data(24, seed)),
            Tensor::from_shape(&[6], &data(6, seed + 1)),
            Tensor::from_shape(&[6, 4], &data(24, seed + 2)).transpose(),
            Tensor::from_shape(&[4, 1], &data(4, seed + 3)),
        ];
        // Lazily, all at once; and step by step, each value computed before the next is described.
        let fused = program(&list, &inputs, |_| {});
        let stepwise = program(&list, &inputs, |x| x.eval().expect("a value"));
        let last: Vec<&Tensor> = fused.iter().rev().take(3).collect();
        Tensor::eval_all(&last).expect("values");
        for (a, b) in fused.iter().zip(&stepwise) {
            close(a, b)?;
        }
        // And with fusion switched off altogether.
        let runtime = millstream::runtime().build();
        runtime.set_idea(Idea::Fuse, false);
        let device = runtime.host().expect("the host");
        let moved: Vec<Tensor> = inputs.iter().map(|x| x.to(&device)).collect();
        let plain = program(&list, &moved, |_| {});
        if let (Some(a), Some(b)) = (plain.last(), stepwise.last()) {
            close(a, b)?;
        }
    }
}

#[test]
fn casts_fuse_and_round_where_they_stand() -> Result<()> {
    let x = Tensor::from_slice(&[1.0f32, 1.000_3, 1.9]);
    let through = x.cast(DType::F16).cast(DType::F32) - &x;
    assert_eq!(kernels(&through), 1);
    assert!(through.to_vec::<f32>()?[1] != 0.0);
    assert_eq!(x.cast(DType::I8).cast(DType::F32).to_vec::<f32>()?, [1.0, 1.0, 1.0]);
    Ok(())
}

#[test]
fn differences_with_scaled_values_are_right_whatever_the_form() -> Result<()> {
    let data: Vec<f64> = (0..24).map(|i| ((i * 7919 + 43 * 31) % 197) as f64 / 98.5 - 1.0).collect();
    let x = Tensor::from_shape(&[4, 6], &data);
    let scaled = &x - x.softmax(1) * 0.5;
    let (got, soft) = (scaled.to_vec::<f64>()?, x.softmax(1).to_vec::<f64>()?);
    for i in 0..24 {
        assert!((got[i] - (data[i] - 0.5 * soft[i])).abs() < 1e-12, "element {i}: {}", got[i]);
    }
    let long: Vec<f32> = (0..5000).map(|i| i as f32 / 7.0).collect();
    let y = Tensor::from_slice(&long);
    for (tensor, f) in [(&y - &y * 0.25, 0.75f32), (&y * 0.25 - &y, -0.75)] {
        for (got, v) in tensor.to_vec::<f32>()?.iter().zip(&long) {
            assert!((got - f * v).abs() <= 1e-4 * v.abs());
        }
    }
    for (got, v) in (&y * 0.25 - 3.0).to_vec::<f32>()?.iter().zip(&long) {
        assert!((got - (0.25 * v - 3.0)).abs() <= 1e-4 * (1.0 + v.abs()));
    }
    Ok(())
}
