use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::{CAPACITY, Hit, Ring};
use crate::error::Error;

/// Counts the values that are alive, and carries its key twice so that a torn read shows.
struct Counted<'a>(u64, &'a AtomicUsize, u64);

impl<'a> Counted<'a> {
    fn new(key: u64, alive: &'a AtomicUsize) -> Arc<Self> {
        alive.fetch_add(1, Ordering::Relaxed);
        Arc::new(Counted(key, alive, !key))
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0u8) | 1
}

#[test]
fn ten_equal_launches_give_nine_hits() {
    let ring: Ring<u32> = Ring::new();
    let hits = (0..10)
        .filter(|_| {
            let (value, hit) = ring.get_or_push_with(42, || Ok(Arc::new(7))).unwrap();
            assert_eq!(*value, 7);
            hit == Hit::Hit
        })
        .count();
    assert_eq!(hits, 9);
    assert_eq!(ring.len(), 1);
}

#[test]
fn a_value_that_cannot_be_made_is_not_stored() {
    let ring: Ring<u32> = Ring::new();
    assert!(ring.get_or_push_with(1, || Err(Error::launch("no"))).is_err());
    assert!(ring.is_empty());
    assert!(ring.get(1).is_none());
}

#[test]
fn wrap_around_evicts_the_oldest_and_only_it() {
    let ring: Ring<u64, 16> = Ring::new();
    for round in 0..100u64 {
        ring.push(round * 1000, Arc::new(round));
        for older in 0..=round {
            let found = ring.get(older * 1000).map(|value| *value);
            let still_there = round - older < 16;
            assert_eq!(found, still_there.then_some(older), "key {older} after {round}");
        }
        assert_eq!(ring.len(), (round as usize + 1).min(16));
    }
}

#[test]
fn a_full_ring_finds_nearly_all_of_its_keys() {
    let mut state = seed();
    for pattern in 0..3 {
        let ring: Ring<u64> = Ring::new();
        let keys: Vec<u64> = (0..CAPACITY as u64)
            .map(|i| match pattern {
                0 => random(&mut state),
                1 => i,
                _ => i << 48,
            })
            .collect();
        for &key in &keys {
            ring.push(key, Arc::new(key));
        }
        let found = keys.iter().filter(|key| ring.get(**key).is_some_and(|value| *value == **key)).count();
        assert!(found >= CAPACITY - 4, "only {found} of pattern {pattern}");
    }
}

#[test]
fn the_last_of_equal_keys_is_found() {
    let ring: Ring<u32, 8> = Ring::new();
    for i in 0..20 {
        ring.push(5, Arc::new(i));
        assert_eq!(ring.get(5).as_deref(), Some(&i));
    }
}

#[test]
fn clear_forgets_everything_and_the_ring_goes_on() {
    let alive = AtomicUsize::new(0);
    let ring: Ring<Counted, 8> = Ring::new();
    for key in 0..30 {
        ring.push(key, Counted::new(key, &alive));
    }
    assert_eq!(alive.load(Ordering::Relaxed), 8);
    ring.clear();
    assert_eq!((ring.len(), alive.load(Ordering::Relaxed)), (0, 0));
    assert!((0..30).all(|key| ring.get(key).is_none()));
    ring.push(3, Counted::new(3, &alive));
    assert!(ring.get(3).is_some());
    drop(ring);
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

#[test]
fn a_held_value_outlives_its_slot() {
    let ring: Ring<u64, 4> = Ring::new();
    ring.push(1, Arc::new(11));
    let held = ring.get(1).unwrap();
    for key in 100..200 {
        ring.push(key, Arc::new(key));
    }
    assert!(ring.get(1).is_none());
    assert_eq!(*held, 11);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn many_threads_never_see_another_keys_value_and_leak_none() {
    let alive = AtomicUsize::new(0);
    {
        let ring: Ring<Counted, 16> = Ring::new();
        let (hits, seed) = (AtomicUsize::new(0), seed());
        thread::scope(|scope| {
            for i in 0..4u64 {
                let (ring, alive, hits) = (&ring, &alive, &hits);
                scope.spawn(move || {
                    let mut state = seed ^ (i + 1);
                    for step in 0..50_000 {
                        let key = random(&mut state) % 24;
                        let (value, hit) = ring.get_or_push_with(key, || Ok(Counted::new(key, alive))).unwrap();
                        assert_eq!((value.0, value.2), (key, !key));
                        hits.fetch_add((hit == Hit::Hit) as usize, Ordering::Relaxed);
                        if step % 5000 == 0 {
                            ring.clear();
                        }
                    }
                });
            }
        });
        assert!(hits.load(Ordering::Relaxed) > 1000);
        assert!(ring.len() <= 16);
    }
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

/// Not a test of the machine: it prints, for `cargo test --release -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn how_long_a_hit_takes() {
    let ring: Ring<u64> = Ring::new();
    let keys: Vec<u64> = (0..64u64).map(|i| i.wrapping_mul(0x1234_5678_9ABC_DEF1)).collect();
    for &key in &keys {
        ring.push(key, Arc::new(key));
    }
    // The best of many short runs: neighbours are noisy.
    let best = (0..200).map(|_| {
        let start = std::time::Instant::now();
        for _ in 0..100 {
            for &key in &keys {
                std::hint::black_box(ring.get(key));
            }
        }
        start.elapsed()
    });
    println!("{:.1} ns a hit", best.min().unwrap().as_nanos() as f64 / (100 * keys.len()) as f64);
}
