//! Run with `RUSTFLAGS="--cfg loom" cargo test -p millstream-core --release loom`.

use std::sync::Arc;

use loom::alloc::Track;

use super::Ring;
use crate::sync::thread;

/// A value whose leak or double drop loom reports.
fn value(key: u64) -> Arc<Track<u64>> {
    Arc::new(Track::new(key))
}

fn check(ring: &Ring<Track<u64>, 2>, key: u64) {
    if let Some(value) = ring.get(key) {
        assert_eq!(*value.get_ref(), key, "a value of another key");
    }
}

fn bounded(preemptions: usize) -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder
}

#[test]
fn readers_and_a_writer_of_one_slot_never_meet() {
    bounded(3).check(|| {
        let ring: Arc<Ring<Track<u64>, 2>> = Arc::new(Ring::new());
        ring.push(1, value(1));
        let other = ring.clone();
        // Two more pushes come round to the slot that is being read.
        let writer = thread::spawn(move || {
            other.push(2, value(2));
            other.push(3, value(3));
        });
        check(&ring, 1);
        check(&ring, 3);
        writer.join().unwrap();
    });
}

#[test]
fn producers_of_the_same_key_leave_one_that_is_found() {
    bounded(3).check(|| {
        let ring: Arc<Ring<Track<u64>, 2>> = Arc::new(Ring::new());
        let other = ring.clone();
        let writer = thread::spawn(move || other.push(7, value(7)));
        ring.push(7, value(7));
        writer.join().unwrap();
        assert_eq!(*ring.get(7).expect("one of the two is there").get_ref(), 7);
        assert!(ring.len() <= 2);
    });
}

#[test]
fn producers_of_different_keys_wrap_around_without_a_leak() {
    bounded(2).check(|| {
        let ring: Arc<Ring<Track<u64>, 2>> = Arc::new(Ring::new());
        let writers: Vec<_> = (0..2u64)
            .map(|i| {
                let ring = ring.clone();
                thread::spawn(move || {
                    ring.push(10 + i, value(10 + i));
                    ring.push(20 + i, value(20 + i));
                    check(&ring, 10);
                })
            })
            .collect();
        check(&ring, 20);
        for writer in writers {
            writer.join().unwrap();
        }
        assert!(ring.len() <= 2);
    });
}

#[test]
fn clear_races_readers_and_producers() {
    bounded(2).check(|| {
        let ring: Arc<Ring<Track<u64>, 2>> = Arc::new(Ring::new());
        ring.push(1, value(1));
        let (reader, pusher) = (ring.clone(), ring.clone());
        let reader = thread::spawn(move || check(&reader, 1));
        let pusher = thread::spawn(move || pusher.push(2, value(2)));
        ring.clear();
        reader.join().unwrap();
        pusher.join().unwrap();
        check(&ring, 2);
        assert!(ring.get(1).is_none(), "cleared, and never pushed again");
    });
}
