use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::Workers;

fn counts(n: usize) -> Vec<AtomicUsize> {
    (0..n).map(|_| AtomicUsize::new(0)).collect()
}

fn all_once(counts: &[AtomicUsize]) -> bool {
    counts.iter().all(|c| c.load(Ordering::Relaxed) == 1)
}

#[test]
fn every_task_runs_exactly_once_for_any_thread_and_task_count() {
    for threads in [0, 1, 2, 3, 8] {
        let w = Workers::new(threads);
        assert_eq!(w.threads(), threads.max(1));
        for tasks in [0, 1, 2, 3, 7, 64, 1000] {
            for _ in 0..20 {
                let seen = counts(tasks);
                w.run(tasks, &|i| {
                    seen[i].fetch_add(1, Ordering::Relaxed);
                });
                assert!(all_once(&seen), "{threads} threads, {tasks} tasks");
            }
        }
    }
}

#[test]
fn no_two_tasks_have_a_seat_at_the_same_time() {
    for threads in [1, 2, 3, 8] {
        let w = Workers::new(threads);
        let seats = counts(threads);
        for round in 0..200 {
            w.run_seated(round % 40, &|task, seat| {
                assert_eq!(seats[seat].fetch_add(1, Ordering::SeqCst), 0, "seat {seat} is taken");
                // Tasks of different lengths, so that threads take from each other's shares.
                for _ in 0..task * 20 {
                    std::hint::spin_loop();
                }
                seats[seat].fetch_sub(1, Ordering::SeqCst);
            });
        }
    }
}

#[test]
fn a_slow_thread_loses_its_share_to_the_others() {
    let w = Workers::new(2);
    let me = std::thread::current().id();
    let mine = AtomicUsize::new(0);
    let patience = Instant::now() + Duration::from_secs(20);
    w.run(40, &|_| {
        if std::thread::current().id() == me {
            mine.fetch_add(1, Ordering::Relaxed);
        } else {
            // The worker stays in its first task until the caller has done all others.
            while mine.load(Ordering::Relaxed) < 39 && Instant::now() < patience {
                std::thread::yield_now();
            }
        }
    });
    assert!(mine.load(Ordering::Relaxed) >= 39, "{mine:?}");
}

#[test]
fn many_tasks_run_once_each() {
    let w = Workers::new(2);
    let seen = counts(2_500_000);
    w.run(seen.len(), &|i| {
        seen[i].fetch_add(1, Ordering::Relaxed);
    });
    assert!(all_once(&seen));
}

#[test]
fn work_written_by_tasks_is_visible_when_run_returns() {
    let w = Workers::new(3);
    for round in 0..2000usize {
        let cells: Vec<AtomicUsize> = counts(9);
        w.run(9, &|i| cells[i].store(round + i, Ordering::Relaxed));
        for (i, c) in cells.iter().enumerate() {
            assert_eq!(c.load(Ordering::Relaxed), round + i);
        }
    }
}

#[test]
fn nested_runs_complete_on_the_thread_that_calls_them() {
    let w = Workers::new(4);
    for _ in 0..50 {
        let total = AtomicUsize::new(0);
        w.run(8, &|_| {
            let me = std::thread::current().id();
            w.run(8, &|_| {
                assert_eq!(std::thread::current().id(), me);
                w.run(2, &|_| {
                    total.fetch_add(1, Ordering::Relaxed);
                });
            });
        });
        assert_eq!(total.load(Ordering::Relaxed), 128);
    }
}

#[test]
fn several_threads_may_call_at_the_same_time() {
    let w = Workers::new(3);
    std::thread::scope(|scope| {
        for caller in 0..4usize {
            let w = &w;
            scope.spawn(move || {
                for round in 0..300 {
                    let n = 1 + (round * 7 + caller) % 40;
                    let seen = counts(n);
                    w.run(n, &|i| {
                        std::hint::black_box((0..(i * 20)).sum::<usize>());
                        seen[i].fetch_add(1, Ordering::Relaxed);
                    });
                    assert!(all_once(&seen));
                }
            });
        }
    });
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_survives() {
    let w = Workers::new(3);
    for round in 0..100usize {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            w.run(20, &|i| {
                if i == round % 20 {
                    std::panic::resume_unwind(Box::new(format!("task {i} failed")));
                }
            })
        }));
        let payload = caught.unwrap_err();
        assert_eq!(*payload.downcast_ref::<String>().unwrap(), format!("task {} failed", round % 20));
        let seen = counts(20);
        w.run(20, &|i| {
            seen[i].fetch_add(1, Ordering::Relaxed);
        });
        assert!(all_once(&seen));
    }
}

#[test]
fn panics_in_every_task_yield_one_panic() {
    let w = Workers::new(4);
    for _ in 0..50 {
        let caught = catch_unwind(AssertUnwindSafe(|| w.run(16, &|i| std::panic::resume_unwind(Box::new(i)))));
        assert!(caught.unwrap_err().downcast_ref::<usize>().is_some_and(|&i| i < 16));
    }
}

#[test]
fn a_pool_can_be_dropped_unused_sleeping_or_right_after_work() {
    drop(Workers::new(4));
    for pause in [0, 1, 5] {
        for _ in 0..10 {
            let w = Workers::new(3);
            w.run(6, &|_| {});
            std::thread::sleep(Duration::from_millis(pause));
            drop(w);
        }
    }
}

#[test]
fn threads_start_at_the_first_parallel_run_and_are_named() {
    let w = Workers::new(3);
    assert!(w.handles.get().is_none());
    w.run(1, &|_| {});
    assert!(w.handles.get().is_none(), "one task needs no thread");
    let names = parking_lot::Mutex::new(std::collections::HashSet::new());
    let me = std::thread::current().id();
    // Tasks that wait give every worker the time to come.
    for _ in 0..20 {
        w.run(12, &|_| {
            if std::thread::current().id() != me {
                names.lock().insert(std::thread::current().name().unwrap_or("").to_string());
            }
            std::thread::sleep(Duration::from_millis(1));
        });
    }
    let names = names.into_inner();
    assert!(!names.is_empty());
    assert!(names.iter().all(|n| n == "millstream-cpu-1" || n == "millstream-cpu-2"), "{names:?}");
}

#[test]
fn both_threads_take_part_when_there_is_work() {
    let w = Workers::new(2);
    let me = std::thread::current().id();
    let helped = AtomicUsize::new(0);
    for _ in 0..10 {
        w.run(10, &|_| {
            std::thread::sleep(Duration::from_millis(1));
            if std::thread::current().id() != me {
                helped.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    assert!(helped.load(Ordering::Relaxed) > 20, "{helped:?} of 100 tasks");
}

#[cfg(target_os = "linux")]
#[test]
fn a_pool_that_waits_burns_no_cpu_time() {
    fn cpu_time() -> Duration {
        let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is to a live timespec.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
        Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
    }
    // The caller waits for a worker that sleeps in its task: it must sleep too.
    let w = Workers::new(2);
    let me = std::thread::current().id();
    let before = cpu_time();
    let start = Instant::now();
    for _ in 0..5 {
        w.run(2, &|_| {
            let here = std::thread::current().id() == me;
            std::thread::sleep(Duration::from_millis(if here { 1 } else { 20 }));
        });
    }
    let (cpu, wall) = (cpu_time() - before, start.elapsed());
    assert!(cpu < wall / 4, "{cpu:?} of {wall:?}");
}

#[test]
#[ignore = "prints timings"]
fn fork_join_latency() {
    let w = Workers::new(std::env::var("T").ok().and_then(|t| t.parse().ok()).unwrap_or(2));
    for tasks in [2, 8, 16, 64] {
        let mut times: Vec<f64> = (0..20000)
            .map(|_| {
                let start = Instant::now();
                w.run(tasks, &|i| {
                    std::hint::black_box(i);
                });
                start.elapsed().as_nanos() as f64 / 1e3
            })
            .collect();
        times.sort_by(f64::total_cmp);
        println!(
            "{tasks} empty tasks: median {:.2} us, 90% {:.2} us",
            times[times.len() / 2],
            times[times.len() * 9 / 10]
        );
    }
    for pause in [0, 100, 1000] {
        let mut times: Vec<f64> = (0..300)
            .map(|_| {
                std::thread::sleep(Duration::from_micros(pause));
                let start = Instant::now();
                let took = AtomicUsize::new(0);
                w.run(2, &|_| {
                    let t = Instant::now();
                    while t.elapsed() < Duration::from_micros(200) {
                        std::hint::spin_loop();
                    }
                    took.fetch_add(1, Ordering::Relaxed);
                });
                start.elapsed().as_nanos() as f64 / 1e3 - 200.0
            })
            .collect();
        times.sort_by(f64::total_cmp);
        println!("two tasks of 200 us after {pause} us of sleep: overhead median {:.2} us", times[times.len() / 2]);
    }
}

#[cfg(target_os = "linux")]
mod on_linux {
    use super::*;
    use crate::workers::cores::Spot;

    /// The cores that this thread is allowed.
    fn allowed() -> Vec<usize> {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).unwrap();
        list.trim()
            .split(',')
            .flat_map(|range| {
                let (from, to) = range.split_once('-').unwrap_or((range, range));
                from.parse().unwrap()..=to.parse().unwrap()
            })
            .collect()
    }

    /// What a thread of its own, with its spot, answers.
    fn beside<T: Send>(ask: impl FnOnce(&Spot) -> T + Send) -> T {
        let spot = Spot::default();
        let ask = || {
            spot.enter();
            let answer = ask(&spot);
            spot.leave();
            answer
        };
        std::thread::scope(|scope| scope.spawn(ask).join().unwrap())
    }

    #[test]
    fn a_worker_sleeps_elsewhere_than_on_its_callers_core() {
        let all = allowed();
        for &core in &all {
            let (without, again) = beside(|spot| {
                spot.avoid(Some(core));
                let without = allowed();
                spot.avoid(None);
                (without, allowed())
            });
            let others: Vec<usize> = all.iter().copied().filter(|c| *c != core).collect();
            assert_eq!(without, if others.is_empty() { all.clone() } else { others });
            assert_eq!(again, without, "a core that nobody knows changes nothing");
        }
        // Then another one's core: the first is allowed again.
        if let [first, second, ..] = all[..] {
            let cores = beside(|spot| {
                spot.avoid(Some(first));
                spot.avoid(Some(second));
                allowed()
            });
            assert_eq!(cores, all.iter().copied().filter(|c| *c != second).collect::<Vec<usize>>());
        }
    }

    #[test]
    fn a_worker_that_is_brought_is_sent_back_to_what_it_was_allowed() {
        let all = allowed();
        for &core in &all {
            let (brought, still, back) = beside(|spot| {
                assert!(spot.bring(core) && spot.is_lent() && !spot.bring(core), "nobody is lent two cores");
                let brought = allowed();
                // Sleeping there does not make it forget where it belongs.
                spot.avoid(Some(core));
                let still = allowed();
                spot.send_back();
                assert!(!spot.is_lent());
                spot.send_back();
                (brought, still, allowed())
            });
            assert_eq!((brought, still, back), (vec![core], vec![core], all.clone()));
        }
    }

    #[test]
    fn cores_that_somebody_else_forbids_stay_forbidden() {
        let all = allowed();
        let [first, second, ..] = all[..] else { return };
        beside(|spot| {
            // Somebody moves the thread by hand, here by another spot of it.
            let hand = Spot::default();
            hand.enter();
            assert!(hand.bring(first));
            spot.avoid(Some(second));
            spot.avoid(Some(first));
            assert_eq!(allowed(), [first], "there is no other core to avoid this one");
            assert!(!spot.bring(second));
            // Or while it is on a core that was lent to it.
            assert!(spot.bring(first));
            hand.send_back();
            spot.send_back();
            assert_eq!(allowed(), all);
        });
    }

    #[test]
    fn a_thread_that_is_gone_is_not_moved() {
        let spot = Spot::default();
        assert!(spot.time().is_none() && !spot.bring(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                spot.enter();
                assert!(spot.time().is_some());
                spot.leave();
            });
        });
        assert!(spot.time().is_none() && !spot.bring(0) && !spot.bring(usize::MAX));
    }

    #[test]
    fn a_worker_that_stands_still_in_a_task_completes_it_and_keeps_its_cores() {
        let w = Workers::new(2);
        let me = std::thread::current().id();
        let before = allowed();
        let lent = AtomicUsize::new(0);
        for _ in 0..4 {
            let begun = AtomicUsize::new(0);
            let seen = counts(2);
            w.run(2, &|i| {
                begun.fetch_add(1, Ordering::SeqCst);
                let patience = Instant::now() + Duration::from_secs(20);
                while begun.load(Ordering::SeqCst) < 2 && Instant::now() < patience {
                    std::thread::yield_now();
                }
                // Whoever sleeps does not run, as one whose core a neighbour has.
                if std::thread::current().id() != me {
                    std::thread::sleep(Duration::from_millis(5));
                    lent.fetch_add(usize::from(w.shared.seats[1].spot.is_lent()), Ordering::Relaxed);
                }
                seen[i].fetch_add(1, Ordering::Relaxed);
            });
            assert!(all_once(&seen));
        }
        // Only one that has a core of its own is waited for in this way.
        assert!(lent.into_inner() > 0 || !w.shared.spin, "the caller lent its core");
        assert_eq!(allowed(), before, "the caller's own cores are nobody's business");
        assert!(!w.shared.seats[1].spot.is_lent());
    }
}
