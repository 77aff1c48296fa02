//! What comes out is what the functions give one after the other.

use std::cell::Cell;
use std::sync::Mutex;

use millstream::core::event::block_on;
use millstream::core::profiler::RecordKind;
use millstream::pipeline::Progress;
use millstream::{Cancel, Device, ErrorKind, Pipeline, Result, Tensor, default_runtime};

use crate::common::{Random, devices, devices_of};
use crate::within;

/// Random items of these shapes.
fn items(random: &mut Random, shapes: &[&[usize]]) -> Vec<Tensor> {
    let mut item = |shape: &&[usize]| {
        let values: Vec<f32> = random.floats(shape.iter().product()).iter().map(|&v| v as f32).collect();
        Tensor::from_shape(*shape, &values)
    };
    shapes.iter().map(&mut item).collect()
}

fn close(a: &Tensor, b: &Tensor) -> bool {
    let (x, y) = (a.to_vec::<f32>().unwrap(), b.to_vec::<f32>().unwrap());
    a.shape() == b.shape() && x.iter().zip(&y).all(|(x, y)| (x - y).abs() <= 1e-5 * (1.0 + y.abs()))
}

fn first(x: &Tensor) -> Tensor {
    (x.matmul(x) * 0.5 + x).tanh()
}

fn second(x: &Tensor) -> Tensor {
    x.softmax(1).transpose() - x.sum_keepdim(0)
}

#[test]
fn results_come_in_order_on_every_device_at_every_depth() {
    let mut random = Random::fresh();
    for device in devices() {
        for depth in [None, Some(1), Some(2), Some(3), Some(7)] {
            for count in [0, 1, 2, 12] {
                let given = items(&mut random, &vec![&[5, 5][..]; count]);
                let device = device.clone();
                within(120, move || {
                    let mut pipeline = Pipeline::new(&device, first).stage(&device, second);
                    if let Some(depth) = depth {
                        pipeline = pipeline.depth(depth);
                    }
                    let mut results = pipeline.run(given.clone()).unwrap();
                    for (i, x) in given.iter().enumerate() {
                        let y = results.next().unwrap().unwrap();
                        assert!(close(&y, &second(&first(x))), "{} {depth:?} item {i}", device.name());
                        assert!(y.device().unwrap().is_host());
                    }
                    assert!(results.next().is_none() && results.next().is_none());
                    assert_eq!(results.statistics().items, count as u64);
                });
            }
        }
    }
}

#[test]
fn stages_sit_on_any_devices() {
    let mut random = Random::fresh();
    let devices = devices();
    for a in &devices {
        for b in &devices {
            let (a, b, given) = (a.clone(), b.clone(), items(&mut random, &[&[6, 6][..]; 8]));
            within(120, move || {
                let weights = Tensor::full([6, 6], 0.25f32).to(&b);
                let pipeline = Pipeline::new(&a, first)
                    .stage(&b, |x| x.matmul(&weights))
                    .stage(&a, second)
                    .stage("cpu", |x| x.sum_keepdim(1));
                for (x, y) in given.iter().zip(pipeline.run(given.clone()).unwrap()) {
                    let expected = second(&first(x).matmul(&weights.to("cpu"))).sum_keepdim(1);
                    assert!(close(&y.unwrap(), &expected), "{} -> {}", a.name(), b.name());
                }
            });
        }
    }
}

#[test]
fn results_come_as_they_come_each_once() {
    for device in devices() {
        within(60, move || {
            let pipeline = Pipeline::new(&device, |x| x * 2.0).stage("cpu", |x| x + 1.0).depth(4);
            let given = (0..30).map(|i| Tensor::new([i as f32]));
            let mut seen = vec![0; 30];
            for (number, result) in pipeline.run(given).unwrap().as_they_come() {
                assert_eq!(result.unwrap().item::<f32>().unwrap(), 2.0 * number as f32 + 1.0);
                seen[number as usize] += 1;
            }
            assert_eq!(seen, vec![1; 30]);
        });
    }
}

#[test]
fn items_may_be_several_tensors_and_lists() -> Result<()> {
    for device in devices() {
        let pipeline = Pipeline::new_all(&device, |[x, y]: [&Tensor; 2]| [x + y, x * y, x.clone()])
            .stage_all("cpu", |[s, p, x]: [&Tensor; 3]| [s - p, x.clone()]);
        let pairs = (0..5).map(|i| [Tensor::new([i as f32, 1.0]), Tensor::new([2.0f32, 3.0])]);
        for (i, result) in pipeline.run(pairs)?.enumerate() {
            let [d, x] = result?;
            let i = i as f32;
            assert_eq!(d.to_vec::<f32>()?, [i + 2.0 - 2.0 * i, 1.0]);
            assert_eq!(x.to_vec::<f32>()?, [i, 1.0]);
        }
        let pipeline = Pipeline::new_many(&device, |list| Ok(vec![list.iter().copied().sum(), list[0] - list[1]]));
        let lists = (2..5).map(|n| (0..n).map(|i| Tensor::new([i as f32])).collect::<Vec<_>>());
        let sums: Result<Vec<f32>> = pipeline.run(lists)?.map(|list| list?[0].item::<f32>()).collect();
        assert_eq!(sums?, [1.0, 3.0, 6.0]);
    }
    Ok(())
}

#[test]
fn views_constants_and_items_themselves_are_results() -> Result<()> {
    for device in devices() {
        let constant = Tensor::new([7.0f32]);
        let pipeline = Pipeline::new_many(&device, |list| {
            let x = list[0];
            Ok(vec![x.clone(), x.transpose(), x.slice(0, 1..2), constant.clone(), (x + 1.0).slice(1, ..1)])
        });
        let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]]);
        // As it is, and as views that lie differently.
        for x in [x.clone(), x.transpose(), x.flip(0)] {
            let list = pipeline.run([vec![x.clone()]])?.next().unwrap()?;
            let expected = [x.clone(), x.transpose(), x.slice(0, 1..2), constant.clone(), (&x + 1.0).slice(1, ..1)];
            for (result, expected) in list.iter().zip(&expected) {
                assert_eq!(result.to_vec::<f32>()?, expected.to_vec::<f32>()?);
                assert_eq!(result.shape(), expected.shape());
            }
        }
    }
    Ok(())
}

#[test]
fn shapes_may_change_and_what_waits_is_computed_first() {
    let mut random = Random::fresh();
    for device in devices() {
        let given = items(&mut random, &[&[2, 2], &[3, 3], &[2, 2], &[1, 1], &[0, 0], &[4, 4]]);
        within(60, move || {
            let pipeline = Pipeline::new(&device, |x| first(&(x + 1.0)));
            let lazy = given.iter().map(|x| (x * 2.0).transpose());
            for (x, y) in given.iter().zip(pipeline.run(lazy).unwrap()) {
                assert!(close(&y.unwrap(), &first(&((x * 2.0).transpose() + 1.0))));
            }
        });
    }
}

#[test]
fn an_error_belongs_to_its_item_and_the_others_go_on() {
    for device in devices() {
        within(60, move || {
            let weights = Tensor::full([3, 2], 1f32);
            let pipeline = Pipeline::new("cpu", |x| x * 1.0).stage(&device, |x| x.matmul(&weights)).depth(3);
            let item = |i: usize| match i {
                4 => Ok(Tensor::full([1, 7], 1f32)),
                6 => Err(millstream::Error::format("no such page")),
                7 => Ok(Tensor::full([1, 2], 1f32).matmul(&Tensor::full([3, 3], 1f32))),
                _ => Ok(Tensor::full([1, 3], i as f32)),
            };
            let mut run = pipeline.run((0..10).map(item)).unwrap();
            for i in 0..10u64 {
                match (i, run.next().unwrap()) {
                    (4, Err(e)) => {
                        assert_eq!((e.item(), e.step(), e.kind()), (4, "stage 2", ErrorKind::Shape));
                        assert_eq!(e.device(), Some(device.name()));
                        let text = millstream::Error::from(e).to_string();
                        assert!(text.contains("stage 2 of item 4 on"), "{text}");
                    }
                    (6, Err(e)) => assert_eq!((e.item(), e.step(), e.kind()), (6, "source", ErrorKind::Format)),
                    (7, Err(e)) => assert_eq!((e.item(), e.step(), e.kind()), (7, "source", ErrorKind::Shape)),
                    (i, Ok(y)) => assert_eq!(y.to_vec::<f32>().unwrap(), [3.0 * i as f32; 2]),
                    (i, Err(e)) => panic!("item {i}: {e}"),
                }
            }
            assert!(run.next().is_none());
            assert_eq!((run.statistics().items, run.statistics().failed), (10, 3));
        });
    }
}

#[test]
fn a_device_that_there_is_not_is_an_error_of_the_run() {
    let pipeline = Pipeline::new("abacus:0", |x| x + 1.0);
    assert_eq!(pipeline.open().unwrap_err().kind(), ErrorKind::NoDevice);
}

#[test]
fn push_and_pull_keep_no_more_than_the_depth() {
    for device in devices() {
        within(60, move || {
            let pipeline = Pipeline::new(&device, |x| x + 1.0).depth(3);
            let mut flow = pipeline.open().unwrap();
            assert!(flow.pull().is_none() && flow.is_empty());
            let mut given = 0;
            for i in 0..20 {
                let left = flow.push(Tensor::new([i as f32]));
                assert_eq!(left.is_some(), i >= flow.statistics().depth as i32, "{i}");
                if let Some(result) = left {
                    assert_eq!(result.unwrap().item::<f32>().unwrap(), given as f32 + 1.0);
                    given += 1;
                }
                assert!(flow.len() <= 3);
            }
            assert!(flow.is_full());
            while let Some(result) = flow.pull() {
                assert_eq!(result.unwrap().item::<f32>().unwrap(), given as f32 + 1.0);
                given += 1;
            }
            assert_eq!(given, 20);
            // And on it goes.
            assert!(flow.push(Tensor::new([1.0f32])).is_none());
            let pulled = block_on(flow.pull_async()).unwrap().unwrap();
            assert_eq!(pulled.item::<f32>().unwrap(), 2.0);
        });
    }
}

#[test]
fn no_item_is_taken_before_there_is_room() {
    for device in devices() {
        let pipeline = Pipeline::new(&device, |x| x + 1.0).stage(&device, |x| x * 2.0);
        let taken = Cell::new(0);
        let source = (0..50).map(|i| {
            taken.set(taken.get() + 1);
            Tensor::new([i as f32])
        });
        let mut run = pipeline.run(source).unwrap();
        for done in 1..=50 {
            drop(run.next().unwrap().unwrap());
            let depth = run.statistics().depth;
            assert!(depth <= 4 && taken.get() < done + depth, "{} taken, {done} done, depth {depth}", taken.get());
        }
    }
}

#[test]
fn a_cancel_ends_the_run_with_one_error() {
    for device in devices() {
        within(60, move || {
            let cancel = Cancel::new();
            let pipeline = Pipeline::new(&device, |x| x + 1.0).cancel(&cancel);
            let mut run = pipeline.run((0..).map(|i| Tensor::new([i as f32]))).unwrap();
            for i in 0..5 {
                assert_eq!(run.next().unwrap().unwrap().item::<f32>().unwrap(), i as f32 + 1.0);
            }
            cancel.cancel();
            let error = run.next().unwrap().unwrap_err();
            assert_eq!((error.kind(), error.item()), (ErrorKind::Interrupted, 5));
            assert!(run.next().is_none() && run.next().is_none());
            // The switch of the thread serves, too.
            let other = Cancel::new();
            let pipeline = Pipeline::new(&device, |x| x + 1.0);
            let mut run = pipeline.run((0..).map(|i| Tensor::new([i as f32]))).unwrap();
            drop(run.next().unwrap().unwrap());
            other.cancel();
            assert_eq!(other.during(|| run.next().unwrap().unwrap_err().kind()), ErrorKind::Interrupted);
            assert!(run.next().is_none());
        });
    }
}

#[test]
fn dropping_at_any_time_gives_everything_back() {
    // A runtime of its own: other tests use the devices of the default one meanwhile.
    let runtime = millstream::runtime().build();
    for device in devices_of(&runtime) {
        let host = runtime.host().unwrap();
        within(120, move || {
            let pipeline =
                Pipeline::new(&host, |x| x + 1.0).stage(&device, |x| x.matmul(x)).stage(&host, |x| x * 2.0).depth(4);
            let x = Tensor::full([32, 32], 1f32);
            let run = |taken: usize| {
                let mut run = pipeline.run((0..20).map(|_| &x * 1.0)).unwrap();
                for _ in 0..taken {
                    drop(run.next().unwrap().unwrap());
                }
            };
            run(20);
            let held = |d: &Device| d.pool().stats().blocks;
            let before = (held(&host), held(&device));
            for taken in 0..=20 {
                run(taken);
            }
            // What is under way on the host's streams lets go of its memory by itself.
            let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
            while (held(&host), held(&device)) != before && std::time::Instant::now() < end {
                std::thread::yield_now();
            }
            assert_eq!((held(&host), held(&device)), before, "{}", device.name());
        });
    }
}

#[test]
fn items_that_the_program_keeps_hold_no_memory_of_the_device() -> Result<()> {
    let runtime = millstream::runtime().build();
    for device in devices_of(&runtime).into_iter().filter(|d| !d.is_host()) {
        let pipeline = Pipeline::new(&device, |x| x + 1.0);
        let given: Vec<Tensor> = (0..20).map(|i| Tensor::full([64, 64], i as f32)).collect();
        Tensor::eval_all(&given)?;
        let results: Vec<_> = pipeline.run(given.clone())?.collect();
        assert_eq!(device.pool().stats().blocks, 0, "{}", device.name());
        assert_eq!(results.len(), given.len());
        // Left there, results do.
        let pipeline = Pipeline::new(&device, |x| x + 1.0).keep_on_device();
        let results: Vec<_> = pipeline.run(given.clone())?.collect();
        assert_eq!(device.pool().stats().blocks, 20, "{}", device.name());
        for (i, y) in results.into_iter().enumerate() {
            let y = y?;
            assert!(y.device()?.same(&device));
            assert_eq!(y.to_vec::<f32>()?[4095], i as f32 + 1.0);
        }
    }
    Ok(())
}

#[test]
fn the_numbers_say_how_busy_each_step_was() -> Result<()> {
    for device in devices() {
        let told = Mutex::new(Vec::new());
        let pipeline = Pipeline::new(&device, |x| x.matmul(x)).depth(2).on_progress(|p: &Progress| {
            told.lock().unwrap().push((p.done, p.failed));
        });
        default_runtime()?.profiler().start();
        let mut run = pipeline.run((0..6).map(|i| match i {
            3 => Tensor::full([2, 3], 1f32),
            _ => Tensor::full([200, 200], 1f32),
        }))?;
        let (good, bad) = run.by_ref().fold((0, 0), |(g, b), r| if r.is_ok() { (g + 1, b) } else { (g, b + 1) });
        assert_eq!((good, bad), (5, 1));
        let all = run.statistics();
        drop(run);
        default_runtime()?.profiler().stop();
        assert_eq!((all.items, all.failed, all.depth), (6, 1, 2));
        let names: Vec<&str> = all.steps.iter().map(|s| s.name.as_str()).collect();
        match device.is_host() {
            true => assert_eq!(names, ["stage 1"]),
            false => assert_eq!(names, ["upload", "stage 1", "download"]),
        }
        let stage = all.steps.iter().find(|s| s.name == "stage 1").unwrap();
        assert!(stage.busy > 0.0 && stage.busy <= all.seconds && stage.utilisation <= 1.0, "{all:?}");
        assert!(all.waits_for().is_some());
        assert!(all.to_string().contains("waits for"), "{all}");
        let records = default_runtime()?.profiler().records();
        let records: Vec<_> = records.iter().filter(|r| r.kind == RecordKind::Pipeline).collect();
        assert!(records.iter().any(|r| &*r.name == "pipeline stage 1" && *r.device == *device.name()), "{records:?}");
        default_runtime()?.profiler().clear();
        assert_eq!(*told.lock().unwrap(), [(1, 0), (2, 0), (3, 0), (4, 1), (5, 1), (6, 1)]);
    }
    Ok(())
}
