//! Assignment: what changes, what does not, and what it costs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use crate::common::Random;
use millstream::core::Priority;
use millstream::core::sim::{Call, Faults, Sim, SimFamily};
use millstream::cpu::{CpuFamily, CpuOptions};
use millstream::{Buffer, DType, Device, ErrorKind, Layout, Result, Runtime, Sharing, Tensor, step};

/// A runtime of the test's own, so that its counts are the test's.
fn own() -> (Runtime, Device) {
    let runtime = Runtime::builder().family(CpuFamily::new(CpuOptions::default())).build();
    let device = runtime.device("cpu").expect("the CPU");
    (runtime, device)
}

/// 0, 1, 2, ... in memory of its own on a device.
fn counted(n: usize, device: &Device) -> Tensor {
    let x = Tensor::arange(0, n as i64).cast(DType::F32).to(device).copy();
    x.eval().unwrap();
    x
}

#[test]
fn an_unshared_tensor_is_changed_in_its_own_memory() -> Result<()> {
    let (_runtime, device) = own();
    let n = 1 << 16;
    let (mut x, value) = (counted(n, &device), counted(4, &device));
    // What it reads is there, and the plan has been made.
    x.slice_assign(0, ..4, &value)?;
    x.eval()?;
    let before = device.pool().stats();
    let address = |x: &Tensor| x.buffer().map(|b| b.identity());
    let identity = address(&x)?;
    for i in 1..100 {
        x.slice_assign(0, 7 * i..7 * i + 4, &value)?;
        x.eval()?;
    }
    let after = device.pool().stats();
    assert_eq!(after.allocations, before.allocations, "an assignment allocated");
    assert_eq!(address(&x)?, identity);
    let all = x.to_vec::<f32>()?;
    assert_eq!((all[693..697].to_vec(), all[700], all[6]), (vec![0.0, 1.0, 2.0, 3.0], 700.0, 6.0));
    Ok(())
}

#[test]
fn a_chain_of_assignments_is_computed_in_place_at_once() -> Result<()> {
    let (_runtime, device) = own();
    let n = 1 << 16;
    let (mut x, value) = (counted(n, &device), counted(1, &device));
    let allocations = device.pool().stats().allocations;
    for i in 0..50 {
        x.slice_assign(0, i..i + 1, &value)?;
    }
    x.eval()?;
    assert_eq!(device.pool().stats().allocations, allocations);
    let sum: f64 = x.cast(DType::F64).sum(..).item()?;
    assert_eq!(sum, (50..n).map(|i| i as f64).sum::<f64>());
    Ok(())
}

#[test]
fn a_value_computed_from_the_tensor_itself_costs_only_its_own_memory() -> Result<()> {
    let (_runtime, device) = own();
    let n = 1 << 16;
    let data: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let mut x = Tensor::from_slice(&data).to(&device);
    x.slice_assign(0, ..1, 0.0)?;
    x.eval()?;
    let before = device.pool().stats();
    assert!(before.peak < n * 4 * 3 / 2, "{before}: the whole was copied");
    for i in 1..20isize {
        // Each element from the one before it.
        x.assign_at(|x| x.slice(0, i..i + 1), &(x.slice(0, i - 1..i) + 2.0))?;
    }
    // A shift: what is read overlaps what is written.
    x.slice_assign(0, ..10, &x.slice(0, 1..11))?;
    x.eval()?;
    let after = device.pool().stats();
    assert!(after.peak < n * 4 * 3 / 2, "{after}: the whole was copied");
    let expected: Vec<f32> = (1..11).chain([10]).map(|i| i as f32 * 2.0).collect();
    assert_eq!(x.slice(0, ..11).to_vec::<f32>()?, expected);
    Ok(())
}

#[test]
fn whoever_has_the_old_value_keeps_it() -> Result<()> {
    let mut x = Tensor::arange(0, 6);
    x.eval()?;
    let (clone, view, pending, buffer) = (x.clone(), x.slice(0, step(1..6, 2)), &x * 10, x.buffer()?);
    x.slice_assign(0, ..3, -1)?;
    x.eval()?;
    assert_eq!(x.to_vec::<i64>()?, [-1, -1, -1, 3, 4, 5]);
    assert_eq!(clone.to_vec::<i64>()?, [0, 1, 2, 3, 4, 5]);
    assert_eq!(view.to_vec::<i64>()?, [1, 3, 5]);
    assert_eq!(pending.to_vec::<i64>()?, [0, 10, 20, 30, 40, 50]);
    let host = Tensor::runtime()?.host()?;
    assert_eq!(buffer.read(&host)?[8], 1);
    // A value that waits, read by a later one, and wanted itself afterwards.
    let mut y = &clone + 1;
    let first = y.clone();
    y.slice_assign(0, ..1, 100)?;
    let second = y.clone();
    y.slice_assign(0, 1..2, 200)?;
    assert_eq!(y.to_vec::<i64>()?, [100, 200, 3, 4, 5, 6]);
    assert_eq!(second.to_vec::<i64>()?, [100, 2, 3, 4, 5, 6]);
    assert_eq!(first.to_vec::<i64>()?, [1, 2, 3, 4, 5, 6]);
    Ok(())
}

#[test]
fn memory_of_others_is_never_written() -> Result<()> {
    let host = Tensor::runtime()?.host()?;
    let data: Box<[f32]> = (0..8).map(|i| i as f32).collect();
    let pointer = data.as_ptr();
    // SAFETY: the box stays where it is and unchanged while the buffer keeps it.
    let buffer = unsafe { Buffer::import(&host, pointer.cast(), 32, Sharing::ReadOnly, Box::new(data))? };
    let watch = buffer.clone();
    let mut x = Tensor::from_buffer(buffer, DType::F32, Layout::contiguous(&[8])?);
    x.slice_assign(0, ..4, 9.0)?;
    assert_eq!(x.to_vec::<f32>()?, [9.0, 9.0, 9.0, 9.0, 4.0, 5.0, 6.0, 7.0]);
    assert_eq!(watch.read(&host)?[4..8], 1f32.to_ne_bytes());
    Ok(())
}

#[test]
fn work_that_is_queued_reads_what_was_there_when_it_was_queued() -> Result<()> {
    let (_runtime, device) = own();
    let n = 1 << 18;
    for round in 0..20 {
        let mut x = counted(n, &device);
        let stream = device.take_stream(Priority::Normal)?;
        let y = x.sin().exp().log().tanh() * 0.0 + &x;
        let event = y.eval_on(&stream)?;
        x.slice_assign(0, step(..n as isize, 2), -1.0)?;
        x.eval()?;
        event.wait()?;
        let (y, x) = (y.to_vec::<f32>()?, x.to_vec::<f32>()?);
        assert!(y.iter().enumerate().all(|(i, &v)| v == i as f32), "round {round}");
        assert!(x.iter().enumerate().all(|(i, &v)| v == if i % 2 == 0 { -1.0 } else { i as f32 }));
    }
    Ok(())
}

#[test]
fn an_address_that_moves_finds_its_plan_again() -> Result<()> {
    let (runtime, device) = own();
    let (mut x, value) = (counted(1000, &device), counted(3, &device));
    runtime.profiler().start();
    let kernels = device.statistics().kernels;
    for i in 0..100 {
        x.slice_assign(0, i * 5..i * 5 + 3, &value)?;
        x.eval()?;
    }
    let records = runtime.profiler().records();
    let made = records.iter().filter(|r| &*r.name == "evaluate" && r.note.contains("plan Made")).count();
    assert!(made <= 1, "{made} plans for one structure");
    assert!(device.statistics().kernels.compiles <= kernels.compiles + 1);
    Ok(())
}

#[test]
fn mistakes_leave_the_tensor_as_it_was() -> Result<()> {
    let mut x = Tensor::from_shape(&[2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let kind = |r: Result<()>| r.map_err(|e| (e.kind(), e.location().is_some()));
    assert_eq!(kind(x.assign(&Tensor::from_slice(&[1.0f32, 2.0]))), Err((ErrorKind::Shape, true)));
    assert_eq!(kind(x.assign(&Tensor::from_slice(&[1.0f64]))), Err((ErrorKind::DType, true)));
    assert_eq!(kind(x.slice_assign(5, ..1, 0.0)), Err((ErrorKind::Argument, true)));
    assert_eq!(kind(x.assign_at(|x| x + 1.0, 0.0)), Err((ErrorKind::Argument, true)));
    assert_eq!(kind(x.assign_at(|x| x.unsqueeze(0).broadcast(&[2, 2, 3]), 0.0)), Err((ErrorKind::Argument, true)));
    assert_eq!(kind(x.assign_at(|x| x.windows(2, 1, 1), 0.0)), Err((ErrorKind::Argument, true)));
    let mut whole = Tensor::from_slice(&[1, 2]);
    assert_eq!(kind(whole.assign(0.5)), Err((ErrorKind::DType, true)));
    assert_eq!(kind(whole.slice_assign(0, ..1, 0.5)), Err((ErrorKind::DType, true)));
    assert_eq!(whole.to_vec::<i32>()?, [1, 2]);
    // Nothing to assign to is no mistake.
    x.slice_assign(0, 2..2, 0.0)?;
    assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    Ok(())
}

#[test]
fn a_device_lost_in_the_middle_of_an_assignment_leaves_the_old_value_elsewhere() -> Result<()> {
    for launch in 1.. {
        let sim = Sim::new();
        let cpu = || CpuFamily::new(CpuOptions { threads: Some(1), isa: None });
        let family = SimFamily::new(cpu(), "cpu", &sim).with_speed(1e4);
        let runtime = Runtime::builder().family(cpu()).family(family).build();
        let auto = runtime.auto()?;
        let data: Vec<f32> = (0..4096).map(|i| (i % 10) as f32).collect();
        let mut x = Tensor::from_shape(&[64, 64], &data).to(&auto);
        let other = Tensor::from_shape(&[64, 64], &data).to(&auto);
        let value = other.matmul(&Tensor::zeros(&[64, 64], DType::F32)).slice(0, ..2);
        x.slice_assign(0, ..2, &value)?;
        x.slice_assign(0, 1..3, &Tensor::full(&[64], 7.0f32))?;
        let total = x.matmul(&Tensor::ones(&[64, 64], DType::F32));
        sim.set(Faults { lost_at_launch: Some(launch), ..Faults::default() });
        Tensor::eval_all(&[&x, &total])?;
        let rows = x.to_vec::<f32>()?;
        assert_eq!((rows[0], rows[64], rows[128], rows[192..].to_vec()), (0.0, 7.0, 7.0, data[192..].to_vec()));
        assert_eq!(total.to_vec::<f32>()?[64], 7.0 * 64.0, "lost at launch {launch}");
        if runtime.profiler().warnings().is_empty() {
            assert!(launch > 2, "no launch failed");
            break;
        }
    }
    Ok(())
}

/// Two threads compute one waiting assignment in place, the second while the first plans it, whose launch may then fail. Gives what
/// became of each, and whether the second one waited for the first one.
fn computed_by_two(faults: Faults) -> Result<([Result<()>; 2], bool)> {
    let (sim, planned, go, stops) = (Sim::new(), Barrier::new(2), Barrier::new(2), AtomicBool::new(false));
    let points = Arc::new((planned, go, stops));
    let (planned, go, stops) = &*points;
    let asked = points.clone();
    let cpu = CpuFamily::new(CpuOptions { threads: Some(1), isa: None });
    let family = SimFamily::new(cpu, "cpu", &sim).refusing(move |_| {
        // Whether the device can compute something is asked while a plan is made.
        if asked.2.swap(false, Ordering::SeqCst) {
            asked.0.wait();
            asked.1.wait();
        }
        None
    });
    let runtime = millstream::runtime().family(family).build();
    let device = runtime.device("sim:0")?;
    let mut x = counted(1 << 16, &device);
    let base = x.buffer()?.identity();
    x.slice_assign(0, 5..9, -1.0)?;
    stops.store(true, Ordering::SeqCst);
    let before = device.pool().stats();
    sim.set(faults);
    let outcome = std::thread::scope(|scope| {
        let first = scope.spawn(|| x.eval());
        planned.wait();
        let second = scope.spawn(|| x.eval());
        std::thread::sleep(Duration::from_millis(200));
        let waits = !second.is_finished();
        go.wait();
        ([first, second].map(|t| t.join().expect("no thread panics")), waits)
    });
    assert_eq!(x.buffer()?.identity(), base, "not in place");
    assert_eq!(device.pool().stats().allocations, before.allocations, "the old value was copied");
    let found = x.to_vec::<f32>()?;
    assert!(found.iter().enumerate().all(|(i, &v)| v == if (5..9).contains(&i) { -1.0 } else { i as f32 }));
    Ok(outcome)
}

#[test]
fn who_computes_what_another_thread_computes_in_place_waits_for_it() -> Result<()> {
    let (outcomes, waited) = computed_by_two(Faults::default())?;
    assert!(outcomes.iter().all(Result::is_ok) && waited, "{outcomes:?}, waited: {waited}");
    Ok(())
}

#[test]
fn an_assignment_in_place_that_fails_is_computed_by_who_waited_for_it() -> Result<()> {
    let faults = Faults { errors_at: Some((Call::Launch, 1..2)), ..Faults::default() };
    let ([first, second], waited) = computed_by_two(faults)?;
    assert!(first.is_err() && second.is_ok() && waited, "{first:?}, {second:?}, waited: {waited}");
    Ok(())
}

/// A tensor and the numbers that it must show, row-major.
#[derive(Clone)]
struct Pair {
    tensor: Tensor,
    model: Vec<i64>,
    shape: Vec<usize>,
}

#[test]
fn random_programs_with_assignments_agree_with_a_model() -> Result<()> {
    let mut r = Random::fresh();
    for _ in 0..60 {
        let shape = vec![2 + r.below(4), 2 + r.below(4)];
        let n = shape[0] * shape[1];
        let model: Vec<i64> = (0..n as i64).collect();
        let mut all = vec![Pair { tensor: Tensor::from_shape(&shape, &model), model, shape }];
        for _ in 0..40 {
            let i = r.below(all.len());
            match r.below(8) {
                // A fork.
                0 if all.len() < 8 => all.push(all[i].clone()),
                // Something that waits.
                1 if all.len() < 8 => {
                    let p = &all[i];
                    let model = p.model.iter().map(|v| v * 2 + 1).collect();
                    all.push(Pair { tensor: &p.tensor * 2 + 1, model, shape: p.shape.clone() });
                }
                // A view in another order.
                2 => {
                    let p = &mut all[i];
                    let (rows, columns) = (p.shape[0], p.shape[1]);
                    p.model = (0..rows * columns).map(|j| p.model[(j % rows) * columns + j / rows]).collect();
                    p.shape = vec![columns, rows];
                    p.tensor = p.tensor.transpose();
                }
                3 => all[i].tensor.eval()?,
                // Somebody lets go.
                4 if all.len() > 1 => drop(all.swap_remove(i)),
                5 => {
                    // From itself: the second half of the columns from the first ones, backwards.
                    let p = &mut all[i];
                    let (columns, half) = (p.shape[1], p.shape[1] / 2);
                    let value = p.tensor.slice(1, ..half as isize).flip(1) + 3;
                    p.tensor.slice_assign(1, (columns - half) as isize..columns as isize, &value)?;
                    let old = p.model.clone();
                    for row in 0..p.shape[0] {
                        for c in 0..half {
                            p.model[row * columns + columns - half + c] = old[row * columns + half - 1 - c] + 3;
                        }
                    }
                }
                _ => {
                    let p = &mut all[i];
                    let (rows, columns) = (p.shape[0], p.shape[1]);
                    let (top, left, step) = (r.below(rows), r.below(columns), 1 + r.below(2));
                    let number = r.below(1000) as i64;
                    let back = r.below(2) == 1;
                    let view = |t: &Tensor| {
                        let t = t.slice(0, millstream::step(top..rows, step)).slice(1, left..99);
                        if back { t.flip(1) } else { t }
                    };
                    let wide = columns - left;
                    let value = Tensor::arange(number, number + wide as i64);
                    p.tensor.assign_at(view, &value)?;
                    for row in (top..rows).step_by(step) {
                        for c in 0..wide {
                            let at = if back { wide - 1 - c } else { c };
                            p.model[row * columns + left + c] = number + at as i64;
                        }
                    }
                }
            }
        }
        for p in &all {
            assert_eq!(p.tensor.to_vec::<i64>()?, p.model);
        }
    }
    Ok(())
}
