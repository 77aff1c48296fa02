//! Plans that span several devices: values go where they are read, and what a device refuses goes to the host.

use millstream::core::Priority;
use millstream::core::profiler::RecordKind;
use millstream::core::sim::{Faults, Sim, SimFamily};
use millstream::core::{Op, what::Body};
use millstream::cpu::{CpuFamily, CpuOptions};
use millstream::{DType, Device, Order, Result, Runtime, Tensor, compile};

/// Refuses functions of the host and f64, as many GPUs do.
fn refuses(op: &Op) -> Option<String> {
    if matches!(op.body, Body::Host(_)) {
        return Some("it is computed on the host".into());
    }
    // Also where only an intermediate value of the expression has that type.
    format!("{op:?}").contains("F64").then(|| "it has no f64".into())
}

/// A runtime with two simulated devices that refuse some operations, and their controls.
fn two() -> (Runtime, [Device; 2], Sim) {
    let sim = Sim::new();
    let family = SimFamily::new(CpuFamily::new(CpuOptions::default()), "cpu", &sim).refusing(refuses);
    let folder = std::env::temp_dir().join(format!("millstream-several-{}-{:p}", std::process::id(), &sim));
    let runtime = millstream::runtime().family(family).cache(folder).build();
    let devices = ["sim:0", "sim:1"].map(|name| runtime.device(name).expect("a simulated device"));
    (runtime, devices, sim)
}

fn input(device: &Device) -> Tensor {
    let data: Vec<f32> = (0..64).map(|i| (i as f32 * 0.37).sin() + if i % 9 == 0 { 4.0 } else { 0.0 }).collect();
    Tensor::from_shape(&[8, 8], &data).to(device)
}

/// Two halves, the second with an operation of the host in its middle.
fn program(x: &Tensor, y: &Tensor) -> Tensor {
    let left = x.matmul(x).softmax(1);
    let right = (y.matmul(y).sort(1, Order::Ascending) * 2.0).exp();
    right.log() - left
}

fn notes(runtime: &Runtime, kind: RecordKind) -> Vec<String> {
    runtime.profiler().records().into_iter().filter(|r| r.kind == kind).map(|r| r.note).collect()
}

#[test]
fn one_plan_computes_on_two_devices_and_the_host_and_the_profile_tells() -> Result<()> {
    let (runtime, [a, b], _) = two();
    let host = runtime.host()?;
    let expected = program(&input(&host), &input(&host)).to_vec::<f32>()?;
    let run = || program(&input(&a), &input(&b)).to_vec::<f32>();
    let got = run()?;
    for (g, e) in got.iter().zip(&expected) {
        assert!((g - e).abs() < 1e-4, "{g} instead of {e}");
    }
    runtime.profiler().start();
    assert_eq!(run()?, got);
    let evaluations = notes(&runtime, RecordKind::Evaluate);
    assert_eq!(evaluations.len(), 1, "{evaluations:?}");
    assert!(evaluations[0].contains("Cached"), "{evaluations:?}");
    let moves = notes(&runtime, RecordKind::Move);
    for way in ["sim:1 -> cpu", "cpu -> sim:1"] {
        assert!(moves.iter().any(|m| m == way), "{moves:?}");
    }
    assert!(moves.iter().any(|m| m == "sim:0 -> sim:1" || m == "sim:1 -> sim:0"), "one copy, not two: {moves:?}");
    let placed = notes(&runtime, RecordKind::Placed);
    assert_eq!(placed, ["not on sim:1: it is computed on the host"]);
    Ok(())
}

#[test]
fn a_refused_group_is_split_and_only_what_must_go_goes() -> Result<()> {
    let (runtime, [a, _], _) = two();
    let x = input(&a).abs();
    let y = || ((x.sqrt() + 1.0).cast(DType::F64) * 0.5).cast(DType::F32).exp();
    let explained = y().explain()?;
    assert!(explained.contains("on sim:0") && explained.contains("on cpu"), "{explained}");
    runtime.profiler().start();
    let got = y().to_vec::<f32>()?;
    let names = |device: &str| -> Vec<String> {
        let records = runtime.profiler().records().into_iter();
        let own = records.filter(|r| r.kind == RecordKind::Step && &*r.device == device);
        own.map(|r| r.name.to_string()).collect()
    };
    assert!(names("sim:0").iter().any(|n| n.contains("sqrt")) && names("sim:0").iter().any(|n| n.contains("exp")));
    assert!(names("cpu").iter().all(|n| !n.contains("sqrt") && !n.contains("exp")), "{:?}", names("cpu"));
    for (g, v) in got.iter().zip(x.to_vec::<f32>()?) {
        let e = (f64::from(v.sqrt() + 1.0) * 0.5).exp() as f32;
        assert!((g - e).abs() <= 1e-5 * e, "{g} instead of {e}");
    }
    Ok(())
}

#[test]
fn a_plan_that_fails_on_one_device_leaves_nothing_and_runs_again() -> Result<()> {
    let (_, [a, b], _) = two();
    let expected = program(&input(&a), &input(&b)).to_vec::<f32>()?;
    for n in 1..200 {
        let (runtime, [a, b], sim) = two();
        let (x, y) = (input(&a), input(&b));
        let in_use = |d: &Device| d.pool().stats().in_use;
        let host = runtime.host()?;
        let z = program(&x, &y);
        let before = in_use(&host);
        sim.set(Faults { copy_error_at: Some(n), ..Faults::default() });
        match z.eval() {
            Ok(()) => {
                assert!(n > 3, "a copy must have failed");
                return Ok(());
            }
            Err(error) => {
                assert!(error.to_string().contains("told to fail"), "{error}");
                assert_eq!(in_use(&host), before, "copy {n}");
                sim.set(Faults::default());
                assert_eq!(z.to_vec::<f32>()?, expected);
            }
        }
    }
    panic!("the copies never ended");
}

#[test]
fn on_a_queueing_stream_devices_wait_for_one_another() -> Result<()> {
    let (_, [a, b], sim) = two();
    let expected = program(&input(&a), &input(&b)).to_vec::<f32>()?;
    sim.set(Faults { copy_delay: std::time::Duration::from_millis(2), ..Faults::default() });
    let stream = b.take_stream(Priority::Normal)?;
    for _ in 0..6 {
        let z = program(&input(&a), &input(&b)).to(&b);
        z.eval_on(&stream)?.wait()?;
        assert_eq!(z.to_vec::<f32>()?, expected);
    }
    b.return_stream(stream);
    Ok(())
}

#[test]
fn a_compiled_function_with_a_host_function_is_one_plan() -> Result<()> {
    let (runtime, [a, _], _) = two();
    let f = compile(|x| (x.matmul(x).sort(1, Order::Ascending) * 2.0).exp());
    let x = input(&a);
    let expected = (x.matmul(&x).sort(1, Order::Ascending) * 2.0).exp().to_vec::<f32>()?;
    assert_eq!(f.call(&x)?.to_vec::<f32>()?, expected);
    runtime.profiler().start();
    let y = f.call(&x)?;
    assert_eq!(notes(&runtime, RecordKind::Evaluate).len(), 1);
    assert_eq!(y.to_vec::<f32>()?, expected);
    Ok(())
}

#[test]
fn results_of_several_devices_come_from_one_plan() -> Result<()> {
    let (runtime, [a, b], _) = two();
    let (x, y) = (input(&a) * 2.0, input(&b) * 3.0);
    runtime.profiler().start();
    Tensor::eval_all(&[&x, &y])?;
    assert_eq!(notes(&runtime, RecordKind::Evaluate).len(), 1);
    assert!(x.buffer()?.device().same(&a) && y.buffer()?.device().same(&b));
    Ok(())
}
