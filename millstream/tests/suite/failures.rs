//! Every call that a device can fail at, at once or later: the result is right or a typed error names the cause, and whatever
//! comes after is as if nothing had happened.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use millstream::core::sim::{Call, Faults, Late, Sim, SimFamily};
use millstream::core::{Buffer, Layout, Priority, Sharing, block_on};
use millstream::cpu::{CpuFamily, CpuOptions};
use millstream::{Cancel, DType, Device, ErrorKind, Result, Runtime, Tensor, interruptible};

fn cpu() -> CpuFamily {
    CpuFamily::new(CpuOptions { threads: Some(1), isa: None })
}

/// A runtime with the CPU and these devices, and a cache of its own, in which nothing is yet.
fn runtime(family: SimFamily) -> Runtime {
    static FOLDERS: AtomicUsize = AtomicUsize::new(0);
    let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("millstream-failures-{}-{number}", std::process::id()));
    Runtime::builder().family(cpu()).family(family).cache(folder).build()
}

fn simulated(queued: bool) -> (Runtime, Device, Sim) {
    let sim = Sim::new();
    let family = SimFamily::new(cpu(), "cpu", &sim);
    let runtime = runtime(if queued { family.queued() } else { family });
    let device = runtime.device("sim").expect("the simulated device");
    (runtime, device, sim)
}

/// Runs a test's body; fails if it takes so long that something must have been forgotten or locked for ever.
fn limited(body: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let (done, over) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || {
        let result = body();
        let _ = done.send(());
        result
    });
    if over.recv_timeout(Duration::from_secs(120)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
        panic!("not over after two minutes");
    }
    worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Five kernels that cannot be fused into fewer.
fn program(x: &Tensor) -> Tensor {
    let y = x.matmul(x).softmax(1).matmul(x);
    (y.sum_keepdim(0) + x).layernorm(-1, 1e-5)
}

fn input(device: &Device) -> Tensor {
    let data: Vec<f32> = (0..64).map(|i| (i as f32 * 0.37).sin()).collect();
    Tensor::from_shape(&[8, 8], &data).to(device)
}

/// The program from its input to its values, and again with what is held of it.
fn run(device: &Device) -> Result<Vec<f32>> {
    let x = input(device);
    let y = program(&x);
    y.eval()?;
    (&y + &x - &x).to_vec::<f32>().and_then(|_| y.to_vec::<f32>())
}

const CALLS: [Call; 4] = [Call::Alloc, Call::Compile, Call::Launch, Call::Copy];

/// How many calls of each kind a run takes, what it gives, and the bytes that stay in use.
fn honest(queued: bool) -> Result<([u64; 4], Vec<f32>, usize)> {
    let (_, device, sim) = simulated(queued);
    sim.set(Faults::default());
    let values = run(&device)?;
    let counts = CALLS.map(|call| sim.calls(call));
    assert!(counts.iter().all(|&n| n >= 1) && counts[2] >= 3 && counts[3] >= 2, "{counts:?}");
    Ok((counts, values, device.pool().stats().in_use))
}

#[test]
fn every_call_may_fail_once_and_the_next_try_succeeds() -> Result<()> {
    limited(|| {
        for queued in [false, true] {
            let (counts, expected, in_use) = honest(queued)?;
            for (call, count) in CALLS.into_iter().zip(counts) {
                let mut failed = 0;
                for n in 1..=count {
                    let (runtime, device, sim) = simulated(queued);
                    sim.set(Faults { errors_at: Some((call, n..n + 1)), ..Faults::default() });
                    match run(&device) {
                        Ok(values) => assert_eq!(values, expected, "{call:?} {n}"),
                        Err(e) => {
                            failed += 1;
                            let kind = match call {
                                Call::Alloc => ErrorKind::OutOfMemory,
                                Call::Compile => ErrorKind::Compile,
                                _ => ErrorKind::Launch,
                            };
                            assert_eq!(e.kind(), kind, "{call:?} {n}: {e}");
                        }
                    }
                    assert!(!device.is_lost());
                    assert_eq!(run(&device)?, expected, "{call:?} {n}");
                    assert!(device.pool().stats().in_use <= in_use, "{call:?} {n} keeps memory");
                    assert_eq!(run(&runtime.host()?)?, expected);
                }
                // No memory for a moment: the pool asks again.
                assert!((failed > 0) == (call != Call::Alloc), "{call:?} failed {failed} times");
            }
        }
        Ok(())
    })
}

#[test]
fn out_of_memory_for_a_while_is_an_error_and_then_over() -> Result<()> {
    limited(|| {
        let (_, expected, _) = honest(true)?;
        let (_, device, sim) = simulated(true);
        sim.set(Faults { errors_at: Some((Call::Alloc, 1..20)), ..Faults::default() });
        assert_eq!(run(&device).unwrap_err().kind(), ErrorKind::OutOfMemory);
        while sim.calls(Call::Alloc) < 20 {
            let _ = run(&device);
        }
        assert_eq!(run(&device)?, expected);
        Ok(())
    })
}

/// What must hold of a device that was lost: the host goes on, and opened again it works again.
fn lost_cleanly(runtime: &Runtime, device: &Device, sim: &Sim, expected: &[f32]) -> Result<()> {
    sim.set(Faults::default());
    assert_eq!(run(&runtime.host()?)?, expected);
    assert_eq!(run(device).unwrap_err().kind(), ErrorKind::DeviceLost);
    assert!(device.is_lost());
    sim.repair();
    let again = runtime.device("sim")?;
    assert!(!again.same(device));
    assert_eq!(run(&again)?, expected);
    Ok(())
}

#[test]
fn the_device_may_be_lost_at_every_call() -> Result<()> {
    limited(|| {
        for queued in [false, true] {
            let (counts, expected, _) = honest(queued)?;
            for (call, count) in CALLS.into_iter().zip(counts) {
                for n in 1..=count {
                    let (runtime, device, sim) = simulated(queued);
                    sim.set(Faults { lost_at: Some((call, n)), ..Faults::default() });
                    let error = run(&device).expect_err("the device is lost");
                    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{call:?} {n}: {error}");
                    lost_cleanly(&runtime, &device, &sim, &expected)?;
                }
            }
        }
        Ok(())
    })
}

#[test]
fn a_failure_that_shows_later_is_never_a_wrong_value() -> Result<()> {
    limited(|| {
        let (counts, expected, _) = honest(true)?;
        for (call, count) in CALLS.into_iter().zip(counts).skip(2) {
            for (n, late) in (1..=count).flat_map(|n| [(n, Late::Wait), (n, Late::Record)]) {
                let (runtime, device, sim) = simulated(true);
                sim.set(Faults { late_at: Some((call, n, late)), ..Faults::default() });
                let error = run(&device).map(|v| assert_eq!(v, expected)).expect_err("it must show");
                assert_eq!(error.kind(), ErrorKind::DeviceLost, "{call:?} {n} {late:?}: {error}");
                assert_eq!(error.code(), Some(-1), "{error}");
                lost_cleanly(&runtime, &device, &sim, &expected)?;
            }
        }
        let (_, device, sim) = simulated(true);
        sim.set(Faults { late_at: Some((Call::Launch, 1, Late::Wait)), ..Faults::default() });
        let y = program(&input(&device));
        y.buffer()?;
        assert_eq!(device.stream().synchronize().unwrap_err().kind(), ErrorKind::DeviceLost);
        Ok(())
    })
}

#[test]
fn who_waits_for_a_device_that_hangs_may_stop_waiting() -> Result<()> {
    limited(|| {
        let (_, expected, _) = honest(true)?;
        let (_, device, sim) = simulated(true);
        run(&device)?;
        sim.set(Faults { hang_at_launch: Some(1), ..Faults::default() });
        let y = program(&input(&device));
        // Evaluates, but does not wait.
        y.buffer()?;
        let event = y.buffer()?.event().expect("the event of a queued launch");
        assert!(!event.is_complete());
        assert!(!event.wait_timeout(Duration::from_millis(30))?);
        // Somebody else is not held up.
        assert_eq!(run(&device.host())?, expected);
        std::thread::scope(|scope| -> Result<()> {
            let waiting = scope.spawn(|| y.to_vec::<f32>());
            let awaiting = scope.spawn(|| block_on(event.clone()));
            std::thread::sleep(Duration::from_millis(30));
            assert!(!waiting.is_finished() && !awaiting.is_finished());
            sim.set(Faults::default());
            awaiting.join().expect("no panic")?;
            assert_eq!(waiting.join().expect("no panic")?, expected);
            Ok(())
        })?;
        assert_eq!(run(&device)?, expected);
        Ok(())
    })
}

#[test]
fn who_waits_for_a_device_that_hangs_may_be_interrupted() -> Result<()> {
    limited(|| {
        let (_, expected, _) = honest(true)?;
        let (_, device, sim) = simulated(true);
        run(&device)?;
        sim.set(Faults { hang_at_launch: Some(1), ..Faults::default() });
        let y = program(&input(&device));
        let cancel = Cancel::new();
        std::thread::scope(|scope| {
            let switch = cancel.clone();
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(30));
                switch.cancel();
            });
            for work in [&|| y.eval() as Result<()>, &|| y.to_vec::<f32>().map(drop)] as [&dyn Fn() -> Result<()>; 2] {
                assert_eq!(cancel.during(work).unwrap_err().kind(), ErrorKind::Interrupted);
            }
        });
        sim.set(Faults::default());
        assert_eq!(y.to_vec::<f32>()?, expected);
        assert_eq!(run(&device)?, expected);
        Ok(())
    })
}

#[test]
fn a_long_kernel_of_the_cpu_is_interrupted() -> Result<()> {
    limited(|| {
        thread_local! {
            static ASKED: Cell<u32> = const { Cell::new(0) };
        }
        for threads in [1, 3] {
            let cpu = CpuFamily::new(CpuOptions { threads: Some(threads), isa: None });
            let runtime = Runtime::builder().family(cpu).build();
            let host = runtime.host()?;
            // One kernel; its first tasks take much less time than all of them.
            let x = Tensor::ones([2000, 2000], DType::F64).to(&host);
            x.eval()?;
            let y = x.matmul(&x);
            ASKED.set(0);
            let stop = || {
                ASKED.set(ASKED.get() + 1);
                true
            };
            let error = interruptible(stop, || y.eval()).unwrap_err();
            assert_eq!((error.kind(), ASKED.get()), (ErrorKind::Interrupted, 1), "{error}");
            // Nothing of it is there, and nothing is broken.
            assert_eq!(y.i((1999, 1999)).item::<f64>()?, 2000.0);
            assert_eq!(y.min(..).item::<f64>()?, 2000.0);
        }
        Ok(())
    })
}

#[test]
fn streams_and_measurements_that_fail_are_errors() -> Result<()> {
    limited(|| {
        let sim = Sim::new();
        let runtime = runtime(SimFamily::new(cpu(), "cpu", &sim).queued());
        sim.set(Faults { errors_at: Some((Call::Stream, 1..2)), ..Faults::default() });
        let error = runtime.device("sim").unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Launch, Some(-5)));
        let device = runtime.device("sim")?;
        sim.set(Faults { errors_at: Some((Call::Stream, 1..2)), ..Faults::default() });
        assert_eq!(device.take_stream(Priority::High).unwrap_err().code(), Some(-5));
        device.take_stream(Priority::High)?;
        sim.set(Faults { errors_at: Some((Call::Measure, 1..2)), ..Faults::default() });
        let before = device.profile();
        assert_eq!(device.measure().unwrap_err().code(), Some(-6));
        assert_eq!(device.profile(), before);
        assert!(device.measure()?.measured);
        sim.set(Faults { lost_at: Some((Call::Measure, 1)), ..Faults::default() });
        assert_eq!(device.measure_again().unwrap_err().kind(), ErrorKind::DeviceLost);
        assert!(device.is_lost());
        assert_eq!(run(&device).unwrap_err().kind(), ErrorKind::DeviceLost);
        Ok(())
    })
}

/// Twenty kernels, one upon the other: softmax along columns keeps two matmuls from becoming attention.
fn twenty(x: &Tensor) -> Tensor {
    (0..10).fold(x.clone(), |y, _| y.matmul(x).softmax(0))
}

#[test]
fn two_devices_may_fail_one_after_the_other() -> Result<()> {
    limited(|| {
        let host = Runtime::builder().family(cpu()).build().host()?;
        let expected = twenty(&input(&host)).to_vec::<f32>()?;
        for (queued, n) in [false, true].into_iter().flat_map(|queued| [1, 2, 7, 20].map(|n| (queued, n))) {
            let (one, other) = (Sim::new(), Sim::new());
            let family = SimFamily::new(cpu(), "cpu", &one).beside(&other).with_speed(1e4);
            let runtime = runtime(if queued { family.queued() } else { family });
            let auto = runtime.auto()?;
            for sim in [&one, &other] {
                sim.set(Faults { lost_at: Some((Call::Launch, n)), ..Faults::default() });
            }
            assert_eq!(twenty(&input(&auto)).to_vec::<f32>()?, expected, "lost at {n}");
            let warnings = runtime.profiler().warnings();
            assert!(warnings.iter().any(|w| w.text.contains("sim failed")), "{warnings:?}");
            assert!(warnings.iter().any(|w| w.text.contains("sim:1 failed")), "{warnings:?}");
        }
        Ok(())
    })
}

#[test]
fn faults_among_threads_reach_those_they_concern() -> Result<()> {
    limited(|| {
        let (_, expected, _) = honest(true)?;
        for queued in [false, true] {
            // Captured plans keep the memory of their intermediate values, one instance for each thread that runs at once.
            let (_, calm, _) = simulated(queued);
            for _ in 0..20 {
                run(&calm)?;
            }
            let in_use = calm.pool().stats().in_use;
            for call in CALLS {
                let (_, device, sim) = simulated(queued);
                sim.set(Faults { errors_at: Some((call, 2..40)), ..Faults::default() });
                std::thread::scope(|scope| {
                    for _ in 0..4 {
                        scope.spawn(|| {
                            for _ in 0..20 {
                                match run(&device) {
                                    Ok(values) => assert_eq!(values, expected),
                                    Err(e) => assert!(
                                        matches!(
                                            e.kind(),
                                            ErrorKind::OutOfMemory | ErrorKind::Compile | ErrorKind::Launch
                                        ),
                                        "{e}"
                                    ),
                                }
                            }
                        });
                    }
                });
                sim.set(Faults::default());
                assert_eq!(run(&device)?, expected);
                assert!(device.pool().stats().in_use <= 4 * in_use, "{} bytes are left", device.pool().stats().in_use);
            }
            // Few launches come before the plan is captured, whose replays are none; copies come with each run.
            for lost_at in [(Call::Launch, 6), (Call::Copy, 30)] {
                let (runtime, device, sim) = simulated(queued);
                sim.set(Faults { lost_at: Some(lost_at), ..Faults::default() });
                std::thread::scope(|scope| {
                    for _ in 0..4 {
                        scope.spawn(|| {
                            for _ in 0..20 {
                                match run(&device) {
                                    Ok(values) => assert_eq!(values, expected),
                                    Err(e) => assert_eq!(e.kind(), ErrorKind::DeviceLost, "{e}"),
                                }
                            }
                        });
                    }
                });
                lost_cleanly(&runtime, &device, &sim, &expected)?;
            }
        }
        Ok(())
    })
}

#[test]
fn memory_of_others_is_let_go_whatever_fails() -> Result<()> {
    limited(|| {
        let values: Arc<Vec<f32>> = Arc::new((0..64).map(|i| i as f32).collect());
        let doubled: Vec<f32> = values.iter().map(|v| v * 2.0).collect();
        for (call, lost) in CALLS.into_iter().flat_map(|call| [(call, false), (call, true)]) {
            let (runtime, device, sim) = simulated(true);
            {
                let keep = Box::new(values.clone());
                // SAFETY: the values live as long as what is held, and nobody writes to them.
                let buffer =
                    unsafe { Buffer::import(&runtime.host()?, values.as_ptr().cast(), 256, Sharing::ReadOnly, keep) }?;
                let x = Tensor::from_buffer(buffer, DType::F32, Layout::contiguous(&[64])?);
                if lost {
                    sim.set(Faults { lost_at: Some((call, 1)), ..Faults::default() });
                    let error = (&x.to(&device) * 2.0).to_vec::<f32>().unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{call:?}: {error}");
                } else {
                    sim.set(Faults { errors_at: Some((call, 1..2)), ..Faults::default() });
                    let y = &x.to(&device) * 2.0;
                    // No memory for a moment: the pool asks again.
                    assert_eq!(y.to_vec::<f32>().is_err(), call != Call::Alloc, "{call:?}");
                    assert_eq!(y.to_vec::<f32>()?, doubled, "{call:?}");
                }
                assert_eq!(x.to_vec::<f32>()?, *values);
            }
            drop((runtime, device));
            assert_eq!(Arc::strong_count(&values), 1, "{call:?}: somebody still holds the memory");
        }
        Ok(())
    })
}

/// Runs a compiled function until it is captured, with other values each time.
fn repeated(device: &Device, times: u32) -> Vec<Result<Vec<f32>>> {
    (0..times).map(|i| (program(&input(device)) * (i as f32)).to_vec::<f32>()).collect()
}

#[test]
fn captures_and_replays_may_fail() -> Result<()> {
    limited(|| {
        let times = 12;
        let expected: Vec<Vec<f32>> =
            repeated(&Runtime::builder().family(cpu()).build().host()?, times).into_iter().collect::<Result<_>>()?;
        let (_, device, sim) = simulated(true);
        sim.set(Faults::default());
        assert_eq!(repeated(&device, times).into_iter().collect::<Result<Vec<_>>>()?, expected);
        let (captures, replays) = (sim.calls(Call::Capture), sim.calls(Call::Replay));
        assert!(captures >= 1 && replays >= 4, "{captures} captures, {replays} replays");
        for (call, count) in [(Call::Capture, captures), (Call::Replay, replays)] {
            for n in 1..=count {
                let (_, device, sim) = simulated(true);
                sim.set(Faults { errors_at: Some((call, n..n + 1)), ..Faults::default() });
                let mut failed = 0;
                for (result, expected) in repeated(&device, times).into_iter().zip(&expected) {
                    match result {
                        Ok(values) => assert_eq!(values, *expected, "{call:?} {n}"),
                        Err(e) => {
                            failed += 1;
                            assert_eq!(e.kind(), ErrorKind::Launch, "{call:?} {n}: {e}");
                        }
                    }
                }
                assert!(failed <= 1 && !device.is_lost(), "{call:?} {n} failed {failed} times");

                for late in [None, Some(Late::Wait), Some(Late::Record)] {
                    let (runtime, device, sim) = simulated(true);
                    sim.set(match late {
                        None => Faults { lost_at: Some((call, n)), ..Faults::default() },
                        Some(late) => Faults { late_at: Some((call, n, late)), ..Faults::default() },
                    });
                    let results = repeated(&device, times);
                    assert!(results.iter().any(Result::is_err), "{call:?} {n} {late:?}");
                    for (result, expected) in results.into_iter().zip(&expected) {
                        match result {
                            Ok(values) => assert_eq!(values, *expected, "{call:?} {n} {late:?}"),
                            Err(e) => assert_eq!(e.kind(), ErrorKind::DeviceLost, "{call:?} {n} {late:?}: {e}"),
                        }
                    }
                    let honest = run(&runtime.host()?)?;
                    lost_cleanly(&runtime, &device, &sim, &honest)?;
                }
            }
        }
        Ok(())
    })
}
