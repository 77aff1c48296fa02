//! What a program holds is not thrown away: how often operations are computed, counted.

use crate::common::Random;
use millstream::core::RecordKind;
use millstream::cpu::{CpuFamily, CpuOptions};
use millstream::{AttentionOptions, Conv, DType, Device, Generator, Result, Runtime, Tensor, compile};

fn own() -> (Runtime, Device) {
    let runtime = Runtime::builder().family(CpuFamily::new(CpuOptions { threads: Some(1), isa: None })).build();
    let device = runtime.device("cpu").expect("the CPU");
    runtime.profiler().start();
    (runtime, device)
}

/// How many launches had a name like this since the last call.
fn launches(runtime: &Runtime, name: &str) -> usize {
    let is = |r: &millstream::core::Record| r.kind == RecordKind::Step && r.name.contains(name);
    runtime.profiler().records().iter().filter(|r| is(r)).count()
}

/// How many operations were computed although they had been before.
fn again(runtime: &Runtime) -> usize {
    runtime.profiler().records().iter().filter(|r| r.kind == RecordKind::Again).count()
}

fn random(shape: &[usize], device: &Device) -> Tensor {
    let data: Vec<f32> = Random::fresh().floats(shape.iter().product()).iter().map(|&x| x as f32 * 0.1).collect();
    let x = Tensor::from_shape(shape, &data).to(device);
    x.eval().expect("memory");
    x
}

#[test]
fn a_loop_that_reads_what_it_holds_computes_each_matmul_once() -> Result<()> {
    let (runtime, device) = own();
    let (mut h, w) = (random(&[8, 16], &device), random(&[16, 16], &device));
    let mut expected = h.clone();
    for _ in 0..60 {
        h = h.matmul(&w).tanh();
        let sum = h.sum(..).item::<f32>()?;
        expected = expected.matmul(&w).tanh();
        expected.eval()?;
        assert_eq!(sum, expected.sum(..).item::<f32>()?);
    }
    let matmuls = launches(&runtime, "contract");
    assert!(matmuls <= 120, "{matmuls} for 60 of the loop and 60 of the check");
    assert_eq!(again(&runtime), 0);
    Ok(())
}

#[test]
fn nothing_is_computed_more_than_twice() -> Result<()> {
    let (runtime, device) = own();
    // Cheap: each value is computed with what reads it, and once more with what comes after.
    let mut x = random(&[100], &device);
    for i in 0..200 {
        x = &x * 0.5 + i as f64;
        x.max(..).item::<f32>()?;
    }
    let computed = again(&runtime);
    assert!(computed <= 2 * 200, "{computed} of 400 operations computed again");
    // Two readers of one value that is held.
    runtime.profiler().clear();
    let y = (&x + 1.0).sqrt();
    y.sum(..).item::<f32>()?;
    assert_eq!(again(&runtime), 0);
    y.max(..).item::<f32>()?;
    assert_eq!(again(&runtime), 2);
    y.min(..).item::<f32>()?;
    assert_eq!(again(&runtime), 2);
    Ok(())
}

#[test]
fn random_numbers_that_are_held_are_drawn_once() -> Result<()> {
    let (runtime, device) = own();
    let x = random(&[4, 32], &device);
    let w = Generator::new(3).normal(&[32, 32], DType::F32).to(&device);
    let first = x.matmul(&w).to_vec::<f32>()?;
    runtime.profiler().clear();
    assert_eq!(x.matmul(&w).to_vec::<f32>()?, first);
    assert_eq!(launches(&runtime, ""), launches(&runtime, "contract"));
    Ok(())
}

#[test]
fn row_programs_and_attention_with_names_stay_one_kernel() -> Result<()> {
    let (runtime, device) = own();
    let x = random(&[16, 64], &device);
    let most = x.max_keepdim(1);
    let e = (&x - &most).exp();
    let sum = e.sum_keepdim(1);
    let y = &e / &sum;
    y.eval()?;
    assert_eq!(launches(&runtime, ""), 1, "{:?}", runtime.profiler().records());
    // Read, each is computed once more, and then it is there.
    let total = sum.sum(..).item::<f32>()?;
    let all: f32 = e.to_vec::<f32>()?.iter().sum();
    assert!((total - all).abs() < 1e-3 * all);

    let (q, k, v) = (random(&[2, 64, 32], &device), random(&[2, 64, 32], &device), random(&[2, 64, 32], &device));
    let by_hand = |q: &Tensor| {
        let scores = q.matmul(&k.transpose()) / 32f64.sqrt();
        let shares = scores.softmax(2);
        let out = shares.matmul(&v);
        (scores, shares, out)
    };
    by_hand(&q).2.eval()?;
    runtime.profiler().clear();
    let (scores, shares, out) = by_hand(&(&q + 0.0));
    let expected = (&q + 0.0).attention(&k, &v, &AttentionOptions::default());
    let out = out.to_vec::<f32>()?;
    for (a, b) in out.iter().zip(expected.to_vec::<f32>()?) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
    let matmul = scores.softmax(2).matmul(&v).to_vec::<f32>()?;
    let from_shares = shares.matmul(&v).to_vec::<f32>()?;
    for (a, (b, c)) in out.iter().zip(matmul.iter().zip(&from_shares)) {
        assert!((a - b).abs() < 1e-5 && (a - c).abs() < 1e-5, "{a} {b} {c}");
    }
    Ok(())
}

#[test]
fn a_matmul_and_what_follows_are_both_kept() -> Result<()> {
    let (runtime, device) = own();
    let (x, w) = (random(&[8, 16], &device), random(&[16, 16], &device));
    let h = x.matmul(&w);
    let a = h.relu();
    let loss = (&a * &a).sum(..).item::<f32>()?;
    runtime.profiler().clear();
    let (h, a) = (h.to_vec::<f32>()?, a.to_vec::<f32>()?);
    assert_eq!(launches(&runtime, "contract"), 0);
    let mut sum = 0.0;
    for (h, a) in h.iter().zip(&a) {
        assert_eq!(h.max(0.0), *a);
        sum += a * a;
    }
    assert!((sum - loss).abs() <= 1e-4 * sum);
    Ok(())
}

#[test]
fn memory_that_nobody_can_read_is_not_kept() -> Result<()> {
    let (_runtime, device) = own();
    let (x, w) = (random(&[256, 256], &device), random(&[256, 256], &device));
    let program = || {
        let a = x.matmul(&w).relu();
        let b = a.matmul(&w).relu();
        b.matmul(&w)
    };
    // Workspaces stay for the next run.
    program().eval()?;
    let before = device.pool().stats().in_use;
    let out = program();
    out.eval()?;
    assert_eq!(device.pool().stats().in_use - before, 256 * 256 * 4);
    Ok(())
}

#[test]
fn values_that_a_compiled_function_holds_are_computed_once() -> Result<()> {
    let (runtime, device) = own();
    let (x, w) = (random(&[8, 8], &device), random(&[8, 8], &device));
    let square = w.matmul(&w);
    let inner = square.clone();
    let f = compile(move |x| {
        let y = x.matmul(&inner);
        y.relu()
    });
    let _ = f.call(&x)?;
    assert_eq!(launches(&runtime, "contract"), 2);
    let _ = f.call(&x)?;
    square.eval()?;
    assert_eq!(launches(&runtime, "contract"), 3);
    Ok(())
}

/// One token through a small transformer layer that appends to its caches.
struct Layer {
    weights: [Tensor; 4],
    keys: Tensor,
    values: Tensor,
}

impl Layer {
    fn new(d: usize, most: usize, device: &Device) -> Layer {
        let zeros = |shape: &[usize]| {
            let t = Tensor::zeros(shape, DType::F32).to(device).copy();
            t.eval().expect("memory");
            t
        };
        Layer {
            weights: std::array::from_fn(|_| random(&[d, d], device)),
            keys: zeros(&[most, d]),
            values: zeros(&[most, d]),
        }
    }

    fn token(&mut self, x: &Tensor, at: usize) -> Result<Tensor> {
        let [q, k, v, out] = &self.weights;
        let (query, key, value) = (x.matmul(q), x.matmul(k), x.matmul(v));
        let (i, after) = (at as isize, at as isize + 1);
        self.keys.slice_assign(0, i..after, &key)?;
        self.values.slice_assign(0, i..after, &value)?;
        let keys = self.keys.slice(0, ..after);
        let shares = query.matmul(&keys.transpose()).softmax(1);
        Ok(x + shares.matmul(&self.values.slice(0, ..after)).matmul(out))
    }
}

#[test]
fn a_cache_that_grows_computes_nothing_again() -> Result<()> {
    const TOKENS: usize = 200;
    const D: usize = 32;
    let (runtime, device) = own();
    let mut layers: Vec<Layer> = (0..3).map(|_| Layer::new(D, TOKENS, &device)).collect();
    let mut x = random(&[1, D], &device);
    let (mut allocated, mut compiled) = (0, 0);
    for at in 0..TOKENS {
        runtime.profiler().clear();
        for layer in &mut layers {
            x = layer.token(&x, at)?;
        }
        x = x.layernorm(-1, 1e-5);
        x.max(..).item::<f32>()?;
        // Four weights, scores and the mean of values; attention may be one of its own.
        let matmuls = launches(&runtime, "contract") + launches(&runtime, "attention");
        assert!(matmuls <= 6 * layers.len(), "{matmuls} at token {at}");
        assert_eq!(again(&runtime), 0, "at token {at}");
        if at == 2 {
            allocated = device.pool().stats().in_use;
            compiled = device.statistics().kernels.compiles;
        }
    }
    assert!(device.pool().stats().in_use <= allocated + 4096);
    assert_eq!(device.statistics().kernels.compiles, compiled);
    Ok(())
}

#[test]
fn a_thousand_cheap_steps_are_not_computed_again_at_bounds() -> Result<()> {
    let (runtime, device) = own();
    let mut u = random(&[32, 48], &device);
    for _ in 0..1000 {
        let around = u.roll(&[1], &[0]) + u.roll(&[-1], &[0]) + u.roll(&[1], &[1]) + u.roll(&[-1], &[1]);
        u = &u + (around - &u * 4.0) * 0.1;
    }
    u.eval()?;
    assert_eq!(again(&runtime), 0);
    Ok(())
}

#[test]
fn a_filter_that_is_computed_lazily_is_stored_once() -> Result<()> {
    let (runtime, device) = own();
    let image = random(&[1, 16, 128, 128], &device);
    let g = random(&[16, 7], &device);
    let filter = (g.unsqueeze(1) * g.unsqueeze(2)).unsqueeze(1);
    let expected = image.conv2d(&filter.copy(), None, &Conv::new().padding(3).groups(16)).to_vec::<f32>()?;
    runtime.profiler().clear();
    let filter = (g.unsqueeze(1) * g.unsqueeze(2)).unsqueeze(1);
    let y = image.conv2d(&filter, None, &Conv::new().padding(3).groups(16));
    assert_eq!(y.to_vec::<f32>()?, expected);
    assert_eq!(launches(&runtime, ""), 2, "{:?}", runtime.profiler().records());
    Ok(())
}
