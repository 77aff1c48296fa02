//! Events from many threads, as futures, and with the device's time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::on_each;
use millstream_core::backend::Priority;
use millstream_core::{Buffer, Mode, block_on};

#[test]
fn many_threads_wait_for_the_same_and_for_different_events() {
    on_each(|device| {
        let host = device.host();
        let bytes = vec![7u8; 1 << 20];
        let done = Arc::new(AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for round in 0..6 {
                let buffer = Buffer::from_bytes(&host, &bytes, Mode::Automatic).unwrap();
                let stream = if round % 2 == 0 {
                    device.stream().clone()
                } else {
                    device.take_stream(Priority::Normal).unwrap()
                };
                buffer.on(device, &stream).unwrap();
                let event = stream.record().unwrap();
                for t in 0..4 {
                    let (event, done) = (event.clone(), done.clone());
                    scope.spawn(move || {
                        match t {
                            0 => event.wait().unwrap(),
                            1 => assert!(event.wait_timeout(Duration::from_secs(30)).unwrap()),
                            2 => block_on(async { event.clone().await }).unwrap(),
                            _ => {
                                while !event.is_complete() {
                                    std::thread::yield_now();
                                }
                            }
                        }
                        assert!(event.is_complete() && event.error().is_none());
                        done.fetch_add(1, Ordering::Relaxed);
                    });
                }
            }
        });
        assert_eq!(done.load(Ordering::Relaxed), 24);
    });
}

#[test]
fn an_event_on_a_stream_without_work_is_complete_at_once() {
    on_each(|device| {
        let stream = device.take_stream(Priority::Normal).unwrap();
        let event = stream.record().unwrap();
        let start = Instant::now();
        event.wait().unwrap();
        assert!(start.elapsed() < Duration::from_secs(1));
        stream.synchronize().unwrap();
        stream.depend(&event).unwrap();
    });
}

#[test]
fn timed_events_measure_the_devices_time_where_it_has_a_clock() {
    on_each(|device| {
        let host = device.host();
        let stream = device.stream();
        let first = stream.record_timed().unwrap();
        let buffer = Buffer::from_bytes(&host, &vec![1u8; 8 << 20], Mode::Automatic).unwrap();
        buffer.on(device, stream).unwrap();
        let second = stream.record_timed().unwrap();
        second.wait().unwrap();
        let has_clock = device.profile().features.iter().any(|f| f == "timestamps");
        match second.elapsed_since(&first) {
            Some(time) => assert!(has_clock && time < Duration::from_secs(20), "{time:?}"),
            None => assert!(!has_clock, "{} has a clock, but tells no time", device.name()),
        }
    });
}

#[test]
fn a_small_wait_is_quick() {
    on_each(|device| {
        let host = device.host();
        let buffer = Buffer::from_bytes(&host, &[1u8; 4], Mode::Automatic).unwrap();
        let resident = buffer.on(device, device.stream()).unwrap();
        resident.wait().unwrap();
        let mut least = Duration::MAX;
        for _ in 0..200 {
            let start = Instant::now();
            let twin = Buffer::from_storage(resident.storage.clone(), 4, Mode::Automatic);
            assert_eq!(twin.read(&host).unwrap(), [1; 4]);
            least = least.min(start.elapsed());
        }
        println!("{}: a read of four bytes takes {least:?}", device.name());
        assert!(least < Duration::from_millis(50));
    });
}
