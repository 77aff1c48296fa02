//! Every failure of a device at every moment of a run: the right result, or an error that names item and device; no deadlock, no leak.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use millstream::core::sim::{Call, Faults, Late, Sim, SimFamily};
use millstream::cpu::{CpuFamily, CpuOptions};
use millstream::pipeline::ItemError;
use millstream::{Device, Error, ErrorKind, Event, Pipeline, Runtime, Sharing, Tensor};

use crate::within;

const ITEMS: usize = 7;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Streams {
    /// Work is done within the calls.
    Direct,
    /// Work is over when its event says so.
    Queued,
}

/// A runtime of its own with a simulated accelerator.
struct World {
    runtime: Runtime,
    host: Device,
    device: Device,
    sim: Sim,
    folder: PathBuf,
}

fn world(streams: Streams) -> World {
    let sim = Sim::new();
    let family = SimFamily::new(CpuFamily::new(CpuOptions::default()), "cpu", &sim);
    let family = if streams == Streams::Queued { family.queued() } else { family };
    // No kernel comes from an earlier world.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("millstream-pipeline-{}-{number}", std::process::id()));
    let runtime = millstream::runtime().family(family).cache(&folder).build();
    let (host, device) = (runtime.host().unwrap(), runtime.device("sim").unwrap());
    World { runtime, host, device, sim, folder }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn item(i: usize) -> Tensor {
    let values: Vec<f32> = (0..36).map(|n| ((n + 5 * i) as f32 * 0.37).sin()).collect();
    Tensor::from_shape([6, 6], &values)
}

fn expected(i: usize) -> Vec<f32> {
    let x = item(i) * 2.0;
    let y = x.matmul(&x).softmax(1).matmul(&x);
    ((y - 1.0).sum_keepdim(1)).to_vec::<f32>().unwrap()
}

/// Stages on the host, the device, and the host again.
fn pipeline(world: &World) -> Pipeline<'static, Tensor, Tensor> {
    Pipeline::new(&world.host, |x| x * 2.0)
        .stage(&world.device, |x| x.matmul(x).softmax(1).matmul(x))
        .stage(&world.host, |x| (x - 1.0).sum_keepdim(1))
}

/// What a run gives; its items come from the host of that world.
fn outcomes(world: &World, pipeline: &Pipeline<'_, Tensor, Tensor>) -> Vec<Result<Vec<f32>, ItemError>> {
    let host = world.host.clone();
    let run = match pipeline.run((0..ITEMS).map(move |i| item(i).to(&host))) {
        Ok(run) => run,
        // The device failed when its streams were made.
        Err(error) => {
            assert!([ErrorKind::Launch, ErrorKind::DeviceLost].contains(&error.kind()), "{error}");
            return Vec::new();
        }
    };
    run.map(|r| r.map(|y| y.to_vec::<f32>().unwrap())).collect()
}

/// Everything was given back, at the latest shortly after the devices have done what was queued. What was captured of the plans of
/// pipelines that are gone is given back here.
fn nothing_is_held(world: &World, what: &str) {
    world.runtime.empty_cache();
    let held = || (world.device.pool().stats().blocks, world.host.pool().stats().blocks);
    let end = Instant::now() + Duration::from_secs(10);
    while held() != (0, 0) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(held(), (0, 0), "{what}");
}

/// Runs with these faults, in a world of its own; all that is not right must be an error of one of these kinds that says where.
fn fails_well(streams: Streams, faults: Faults, kinds: &[ErrorKind]) -> usize {
    let what = format!("{streams:?} {faults:?}");
    let text = what.clone();
    let kinds = kinds.to_vec();
    within(60, move || {
        let world = world(streams);
        let pipeline = pipeline(&world).depth(3).timeout(Duration::from_millis(300));
        world.sim.set(faults);
        let outcomes = outcomes(&world, &pipeline);
        let mut failed = 0;
        for (i, outcome) in outcomes.iter().enumerate() {
            match outcome {
                Ok(values) => assert_eq!(*values, expected(i), "{what}: item {i}"),
                Err(error) => {
                    failed += 1;
                    assert!(kinds.contains(&error.kind()), "{what}: {error}");
                    assert_eq!((error.item(), error.device()), (i as u64, Some("sim")), "{what}: {error}");
                    assert!(!error.step().is_empty());
                }
            }
        }
        // Whoever does not answer does so now, so that what was queued ends.
        world.sim.set(Faults::default());
        drop(pipeline);
        nothing_is_held(&world, &what);
        println!("{text}: {failed} of {} failed", outcomes.len());
        failed
    })
}

/// How many calls of a kind a good run makes.
fn calls(streams: Streams, call: Call) -> u64 {
    let world = world(streams);
    world.sim.set(Faults::default());
    let outcomes = outcomes(&world, &pipeline(&world).depth(3));
    assert_eq!(outcomes.len(), ITEMS);
    for (i, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(outcome.unwrap(), expected(i));
    }
    nothing_is_held(&world, "a good run");
    world.sim.calls(call)
}

const BOTH: [Streams; 2] = [Streams::Direct, Streams::Queued];

#[test]
fn a_device_lost_at_any_call_fails_the_items_that_need_it() {
    for streams in BOTH {
        for call in [Call::Launch, Call::Copy, Call::Alloc, Call::Compile, Call::Stream] {
            let count = calls(streams, call);
            assert!(count > 0, "{call:?}");
            for n in 1..=count {
                let faults = Faults { lost_at: Some((call, n)), ..Faults::default() };
                let failed = fails_well(streams, faults, &[ErrorKind::DeviceLost]);
                assert!(failed > 0 || call == Call::Stream, "{call:?} {n}");
            }
        }
    }
}

#[test]
fn a_call_that_fails_once_fails_one_item_and_the_rest_goes_on() {
    for streams in BOTH {
        for (call, kind) in [(Call::Launch, ErrorKind::Launch), (Call::Copy, ErrorKind::Launch)] {
            for n in 1..=calls(streams, call) {
                let faults = Faults { errors_at: Some((call, n..n + 1)), ..Faults::default() };
                assert_eq!(fails_well(streams, faults, &[kind]), 1, "{call:?} {n}");
            }
        }
    }
}

#[test]
fn where_memory_is_short_fewer_items_are_in_flight() {
    for streams in BOTH {
        let count = calls(streams, Call::Alloc);
        for n in 1..=count {
            // Once: another item has it to give, or the pool asks again.
            let faults = Faults { errors_at: Some((Call::Alloc, n..n + 1)), ..Faults::default() };
            fails_well(streams, faults, &[ErrorKind::OutOfMemory]);
            // From here on for good: what there is serves, or the items fail.
            let faults = Faults { out_of_memory_at: Some(n), ..Faults::default() };
            fails_well(streams, faults, &[ErrorKind::OutOfMemory]);
        }
    }
}

#[test]
fn a_pool_that_holds_one_item_serves_many() {
    for streams in BOTH {
        within(60, move || {
            let world = world(streams);
            // Room for what one item needs (what it is, its product, scratch memory), not for what three do.
            let side = 256;
            let bytes = side * side * 4;
            let pipeline = Pipeline::new(&world.device, |x| x.matmul(x)).stage(&world.device, |x| x + 1.0).depth(3);
            world.device.pool().set_limit(5 * bytes);
            let items = (0..10).map(|i| Tensor::full([side, side], i as f32).copy());
            for (i, result) in pipeline.run(items).unwrap().enumerate() {
                let y = result.unwrap().to_vec::<f32>().unwrap();
                assert_eq!(y, vec![(i * i * side) as f32 + 1.0; side * side], "{streams:?} item {i}");
            }
            drop(pipeline);
            nothing_is_held(&world, "a small pool");
        });
    }
}

#[test]
fn an_error_that_comes_late_never_lets_a_wrong_result_through() {
    for call in [Call::Launch, Call::Copy] {
        for n in 1..=calls(Streams::Queued, call) {
            for when in [Late::Wait, Late::Record] {
                let faults = Faults { late_at: Some((call, n, when)), ..Faults::default() };
                assert!(fails_well(Streams::Queued, faults, &[ErrorKind::DeviceLost]) > 0, "{call:?} {n} {when:?}");
            }
        }
    }
}

#[test]
fn a_device_that_hangs_ends_the_run_in_time() {
    for n in 1..=calls(Streams::Queued, Call::Launch) {
        let faults = Faults { hang_at_launch: Some(n), ..Faults::default() };
        assert!(fails_well(Streams::Queued, faults, &[ErrorKind::Timeout]) > 0, "launch {n}");
    }
}

#[test]
fn a_slow_way_changes_no_result() {
    for streams in BOTH {
        let faults = Faults { copy_delay: Duration::from_millis(4), ..Faults::default() };
        assert_eq!(fails_well(streams, faults, &[]), 0);
    }
}

#[test]
fn all_steps_of_several_items_are_queued_while_the_first_one_hangs() {
    within(60, || {
        let world = world(Streams::Queued);
        let pipeline = Pipeline::new(&world.device, |x| x + 1.0).depth(3);
        // So that everything is compiled.
        pipeline.run([item(0)]).unwrap().for_each(|r| assert!(r.is_ok()));
        world.sim.set(Faults { hang_at_launch: Some(1), ..Faults::default() });
        let mut flow = pipeline.open().unwrap();
        for i in 0..3 {
            assert!(!flow.is_full());
            assert!(flow.push(item(i)).is_none());
        }
        // Nothing is finished, and yet each item has gone up, is computed, and goes down.
        assert!(flow.is_full());
        assert_eq!((world.sim.launches(), world.sim.copies()), (3, 6));
        world.sim.set(Faults::default());
        for i in 0..3 {
            let y = flow.pull().unwrap().unwrap();
            assert_eq!(y.to_vec::<f32>().unwrap(), (item(i) + 1.0).to_vec::<f32>().unwrap());
        }
        drop(flow);
        drop(pipeline);
        nothing_is_held(&world, "three items at once");
    });
}

#[test]
fn a_hanging_device_can_be_dropped_with_memory_of_others_in_flight() {
    within(60, || {
        let world = world(Streams::Queued);
        static VALUES: [f32; 36] = [2.0; 36];
        let (sender, receiver) = std::sync::mpsc::channel();
        struct Told(std::sync::mpsc::Sender<()>);
        impl Drop for Told {
            fn drop(&mut self) {
                let _ = self.0.send(());
            }
        }
        let lent = || {
            let keep = Box::new(Told(sender.clone()));
            // SAFETY: a static lives for ever, and nobody writes there.
            let buffer = unsafe {
                millstream::Buffer::import(&world.host, VALUES.as_ptr().cast(), 144, Sharing::ReadOnly, keep)
            };
            Tensor::from_buffer(
                buffer.unwrap(),
                millstream::DType::F32,
                millstream::Layout::contiguous(&[6, 6]).unwrap(),
            )
        };
        for device in [&world.device, &world.host] {
            let pipeline = Pipeline::new(device, |x| x + 1.0).stage(&world.device, |x| x * 2.0).depth(3);
            let mut flow = pipeline.open().unwrap();
            world.sim.set(Faults { hang_at_launch: Some(1), ..Faults::default() });
            (0..3).for_each(|_| assert!(flow.push(lent()).is_none()));
            drop(flow);
            world.sim.set(Faults::default());
            // The memory is let go when nobody uses it any more, not before and not never.
            (0..3).for_each(|_| receiver.recv_timeout(Duration::from_secs(20)).unwrap());
        }
        nothing_is_held(&world, "lent memory");
    });
}

#[test]
fn a_switch_ends_the_wait_for_a_device_that_hangs() {
    within(60, || {
        let world = world(Streams::Queued);
        let cancel = millstream::Cancel::new();
        let pipeline = pipeline(&world).cancel(&cancel);
        world.sim.set(Faults { hang_at_launch: Some(3), ..Faults::default() });
        let began = Event::new();
        let (switch, signal) = (cancel.clone(), began.clone());
        let other = std::thread::spawn(move || {
            signal.wait().unwrap();
            std::thread::sleep(Duration::from_millis(50));
            switch.cancel();
        });
        let host = world.host.clone();
        let run = pipeline.run((0..ITEMS).map(|i| item(i).to(&host))).unwrap();
        began.signal();
        let kinds: Vec<ErrorKind> = run.filter_map(Result::err).map(|e| Error::from(e).kind()).collect();
        assert_eq!(kinds, [ErrorKind::Interrupted]);
        other.join().unwrap();
        world.sim.set(Faults::default());
        drop(pipeline);
        nothing_is_held(&world, "a cancelled run");
    });
}
