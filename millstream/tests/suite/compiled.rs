//! Compiled functions give what the functions give, for less.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::Random;
use millstream::core::sim::{Sim, SimFamily};
use millstream::cpu::{CpuFamily, CpuOptions};
use millstream::{DType, Device, ErrorKind, Generator, Order, Result, Runtime, Tensor, compile, compile_all};

fn own() -> (Runtime, Device) {
    let runtime = Runtime::builder().family(CpuFamily::new(CpuOptions::default())).build();
    let device = runtime.device("cpu").expect("the CPU");
    (runtime, device)
}

fn random(r: &mut Random, shape: &[usize]) -> Tensor {
    let data: Vec<f32> = r.floats(shape.iter().product()).iter().map(|&v| v as f32).collect();
    Tensor::from_shape(shape, &data)
}

/// Several kernels, several views, two results.
fn program([x, y]: [&Tensor; 2]) -> [Tensor; 2] {
    let p = (x.matmul(y) * 0.5 + 1.0).softmax(1);
    let q = (&p - x.transpose().matmul(&p)).layernorm(-1, 1e-5).slice(1, ..3).flip(0);
    [p, q]
}

#[test]
fn a_compiled_function_gives_what_the_function_gives() -> Result<()> {
    let mut r = Random::fresh();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let f = compile_all(move |inputs| {
        counted.fetch_add(1, Ordering::Relaxed);
        program(inputs)
    });
    for round in 0..12 {
        // Other values each time; every third time another shape, every fourth another layout; addresses that move.
        let n = 4 + round % 3;
        let big = random(&mut r, &[2 * n, n]);
        let start = r.below(n) as isize;
        let x = big.slice(0, start..start + n as isize);
        let x = if round % 4 == 0 { x.transpose() } else { x };
        let y = random(&mut r, &[n, n]);
        let (got, expected) = (f.call_all([&x, &y])?, program([&x, &y]));
        for (got, expected) in got.iter().zip(&expected) {
            assert_eq!(got.shape(), expected.shape());
            assert_eq!(got.to_vec::<f32>()?, expected.to_vec::<f32>()?, "round {round}");
        }
    }
    assert_eq!(calls.load(Ordering::Relaxed), f.kinds(), "the function was called more often than its graph was built");
    assert_eq!(f.kinds(), 6);
    Ok(())
}

#[test]
fn later_calls_neither_plan_nor_compile_nor_call() -> Result<()> {
    let (runtime, device) = own();
    let f = compile_all(program);
    let mut r = Random::fresh();
    let (x, y) = (random(&mut r, &[5, 5]).to(&device), random(&mut r, &[5, 5]).to(&device));
    let _ = f.call_all([&x, &y])?;
    runtime.profiler().start();
    let kernels = device.statistics().kernels.compiles;
    for _ in 0..10 {
        let _ = f.call_all([&x, &y])?;
    }
    let records = runtime.profiler().records();
    let evaluations: Vec<_> = records.iter().filter(|e| &*e.name == "evaluate").collect();
    assert_eq!(evaluations.len(), 10);
    assert!(evaluations.iter().all(|e| e.note.starts_with("Call, plan Cached")), "{evaluations:?}");
    assert_eq!(device.statistics().kernels.compiles, kernels);
    // The operations themselves find the very same plan.
    let [p, q] = program([&x, &y]);
    Tensor::eval_all(&[&p, &q])?;
    let last = runtime.profiler().records();
    assert!(last.iter().rev().find(|e| &*e.name == "evaluate").unwrap().note.starts_with("Eval, plan Cached"));
    Ok(())
}

#[test]
fn results_that_take_no_computing_are_views_of_arguments_or_what_the_function_held() -> Result<()> {
    let held = Tensor::from_slice(&[7i64, 8]);
    let f = compile_all(move |[x]: [&Tensor; 1]| [x.transpose(), held.clone(), x + 1, Tensor::arange(0, 3)]);
    for start in [0isize, 1] {
        let x = Tensor::arange(0, 9).reshape(&[3, 3]).contiguous();
        x.eval()?;
        let x = x.slice(0, start..start + 2);
        let [view, same, more, range] = f.call_all([&x])?;
        let first = 3 * start as i64;
        assert_eq!(view.to_vec::<i64>()?, [0, 3, 1, 4, 2, 5].map(|v| v + first));
        assert_eq!((same.to_vec::<i64>()?, range.to_vec::<i64>()?), (vec![7, 8], vec![0, 1, 2]));
        assert_eq!(more.to_vec::<i64>()?, [1, 2, 3, 4, 5, 6].map(|v| v + first));
    }
    let only = compile(|x| x.flip(0));
    assert_eq!(only.call(&Tensor::from_slice(&[1, 2, 3]))?.to_vec::<i32>()?, [3, 2, 1]);
    Ok(())
}

#[test]
fn what_does_not_depend_on_arguments_is_computed_once() -> Result<()> {
    let (_runtime, device) = own();
    let weights = Tensor::from_shape(&[64, 64], &[0.5f32; 4096]).to(&device);
    let mut power = weights.clone();
    for _ in 0..5 {
        power = power.matmul(&weights) * 0.03125;
    }
    let on = device.clone();
    let f = compile(move |x| x.matmul(&power) + Generator::new(5).uniform(&[1, 64], DType::F32).to(&on));
    let x = Tensor::ones(&[1, 64], DType::F32).to(&device);
    let first = f.call(&x)?.to_vec::<f32>()?;
    let launches = device.statistics().launches;
    for _ in 0..10 {
        assert_eq!(f.call(&x)?.to_vec::<f32>()?, first);
    }
    assert_eq!(device.statistics().launches - launches, 10, "more than one kernel a call");
    Ok(())
}

#[test]
fn what_needs_values_or_makes_mistakes_is_an_error_at_the_call() -> Result<()> {
    let x = Tensor::from_slice(&[1.0f32, 2.0]);
    let reads = compile(|x| x * x.sum(..).item::<f32>().unwrap_or(f32::NAN));
    assert!(reads.call(&x)?.to_vec::<f32>()?[0].is_nan(), "a value was read that is not there");
    let shapes = compile(|x| x.mask(&x.gt(1.0)));
    let error = shapes.call(&x).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
    assert!(error.suggestion().is_some());
    let wrong = compile(|x| x.matmul(&Tensor::zeros(&[3, 3], DType::F32)));
    let error = wrong.call(&x).unwrap_err();
    assert!(error.location().is_some_and(|l| l.file().ends_with("compiled.rs")), "{error}");
    // The thread goes on as before, also after a panic in a function.
    let panics = compile(|_| panic!("on purpose"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| panics.call(&x))).is_err());
    let mut deep = x.clone();
    for _ in 0..2000 {
        deep = deep + 1.0;
    }
    assert_eq!(deep.to_vec::<f32>()?, [2001.0, 2002.0]);
    // A mistake in an argument is that mistake.
    let bad = Tensor::from_shape(&[3], &[1.0f32]);
    assert_eq!(compile(|x| x + 1.0).call(&bad).unwrap_err().kind(), ErrorKind::Shape);
    Ok(())
}

#[test]
fn graphs_of_several_plans_or_devices_work_the_same() -> Result<()> {
    let sim = Sim::new();
    let cpu = || CpuFamily::new(CpuOptions { threads: Some(1), isa: None });
    let runtime = Runtime::builder().family(cpu()).family(SimFamily::new(cpu(), "cpu", &sim)).build();
    let host = runtime.host()?;
    for device in [host.clone(), runtime.device("sim")?, runtime.auto()?] {
        let (there, other) = (device.clone(), Tensor::from_slice(&[10.0f32, 20.0, 30.0]).to(&host));
        // Only the host sorts; both outputs of a call are used; something lives on another device.
        let f = compile_all(move |[x]: [&Tensor; 1]| {
            let (values, indices) = (x * 2.0).topk(2, 0, Order::Descending);
            [&values + 1.0, indices + 100, (x + &other.to(&there)).sum(..)]
        });
        for shift in 0..3 {
            let x = (Tensor::from_slice(&[1.0f32, 3.0, 2.0]).to(&device) + shift as f64).copy();
            let [values, indices, sum] = f.call_all([&x])?;
            let s = shift as f32;
            assert_eq!(values.to_vec::<f32>()?, [7.0 + 2.0 * s, 5.0 + 2.0 * s], "{}", device.name());
            assert_eq!(indices.to_vec::<i64>()?, [101, 102]);
            assert_eq!(sum.item::<f32>()?, 66.0 + 3.0 * s);
        }
        assert_eq!(f.kinds(), 1);
    }
    Ok(())
}

#[test]
fn arguments_are_never_overwritten_and_may_be_the_same() -> Result<()> {
    let f = compile_all(|[x, y]: [&Tensor; 2]| {
        let mut z = x.clone();
        z.slice_assign(0, 1..3, &(y.slice(0, ..2) * 10.0)).unwrap();
        [z]
    });
    let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0]);
    for _ in 0..3 {
        let [z] = f.call_all([&x, &x])?;
        assert_eq!(z.to_vec::<f32>()?, [1.0, 10.0, 20.0, 4.0]);
        assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
        let [again] = f.call_all([&z, &x.transpose_last()])?;
        assert_eq!(again.to_vec::<f32>()?, [1.0, 10.0, 20.0, 4.0]);
    }
    Ok(())
}

#[test]
fn what_a_function_holds_is_never_overwritten() -> Result<()> {
    let f = compile(|x| {
        let mut z = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0]);
        z.slice_assign(0, 1..3, &(x * 10.0)).unwrap();
        z
    });
    let call = |v: f32| f.call(&Tensor::from_slice(&[v, v + 1.0]));
    let (first, second) = (call(1.0)?, call(5.0)?);
    assert_eq!(second.to_vec::<f32>()?, [1.0, 50.0, 60.0, 4.0]);
    assert_eq!(first.to_vec::<f32>()?, [1.0, 10.0, 20.0, 4.0]);
    Ok(())
}

/// A view that changes nothing.
trait Same {
    fn transpose_last(&self) -> Tensor;
}

impl Same for Tensor {
    fn transpose_last(&self) -> Tensor {
        self.unsqueeze(0).squeeze(0)
    }
}

#[test]
fn many_threads_call_one_function() -> Result<()> {
    let f = Arc::new(compile(|x| (x * 2.0).exp().sum(0)));
    let threads: Vec<_> = (0..4)
        .map(|t| {
            let f = f.clone();
            std::thread::spawn(move || -> Result<()> {
                for i in 0..100 {
                    let n = 1 + (t + i) % 5;
                    let y = f.call(&Tensor::zeros(&[n, 2], DType::F32))?;
                    assert_eq!(y.to_vec::<f32>()?, [n as f32; 2]);
                }
                Ok(())
            })
        })
        .collect();
    threads.into_iter().try_for_each(|t| t.join().expect("no panic"))
}
