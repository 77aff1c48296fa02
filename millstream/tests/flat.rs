//! A plan that runs ten thousand times leaves the memory of host and device as it was.
//!
//! Alone in its process, because it looks at what the whole process holds. A device that is too slow for ten thousand runs, as
//! those in software are, runs as often as it can in twenty seconds. The test says how often that was, what it could look at, and
//! the smallest leak in each run that it would have seen.

#[path = "suite/common/mod.rs"]
mod common;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use common::devices;
use millstream::core::testing;
use millstream::{Device, Tensor};

/// Bytes of host memory that the process has touched and holds; `None` where the system does not say.
fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(text.split_whitespace().nth(1)?.parse::<usize>().ok()? * 4096)
}

/// Free bytes of the device's memory as its driver counts them; `None` where the device's family does not say.
fn free(device: &Device) -> Option<usize> {
    #[cfg(feature = "cuda")]
    if let Some(number) = device.name().strip_prefix("cuda:") {
        let backend = millstream_cuda::CudaBackend::open(number.parse().ok()?, Default::default()).ok()?;
        return backend.memory_info().ok().map(|(free, _)| free);
    }
    let _ = device;
    None
}

/// Twenty operations in several kernels.
fn program(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    for i in 0..5 {
        y = (y.matmul(x) + x).tanh().softmax(i % 2);
    }
    y
}

#[test]
fn ten_thousand_evaluations_leave_memory_flat() {
    // What the program keeps of its results, so that they do not always lie at the same address.
    const HELD: usize = 3;
    const ROUNDS: usize = 10_000;
    // The system gives memory in pieces.
    const PIECE: usize = 1 << 20;
    for device in devices() {
        let name = device.name().to_string();
        let x = Tensor::from_shape([64, 64], &[0.01f32; 64 * 64]).to(&device);
        let mut held: VecDeque<Tensor> = VecDeque::new();
        let mut run = |times: usize| {
            let end = Instant::now() + Duration::from_secs(20);
            for n in 0..times {
                if Instant::now() > end {
                    return n;
                }
                let y = program(&x);
                y.eval().unwrap();
                held.push_back(y);
                if held.len() > HELD {
                    held.pop_front();
                }
            }
            times
        };
        run(ROUNDS / 100);
        let before = (device.pool().stats(), resident(), free(&device));
        let rounds = run(ROUNDS);
        let after = (device.pool().stats(), resident(), free(&device));
        println!("{name}: {rounds} rounds, {before:?} before, {after:?} after");
        if rounds < ROUNDS {
            testing::left_out(&format!("{name}: memory was watched over {rounds} evaluations instead of {ROUNDS}"));
        }
        for (seen, what) in
            [(after.1.is_some(), "the process's memory"), (after.2.is_some(), "the driver's free memory")]
        {
            match seen {
                true => println!("{name}: {what} is seen; a leak of {} bytes in each run shows", PIECE / rounds + 1),
                false if device.is_host() => {}
                false => testing::left_out(&format!("{name}: {what} cannot be asked for; the pool's counts are")),
            }
        }
        assert_eq!((after.0.in_use, after.0.blocks), (before.0.in_use, before.0.blocks), "{name}");
        assert!(after.0.reserved <= before.0.reserved, "{name}: {before:?} {after:?}");
        if let (Some(was), Some(is)) = (before.1, after.1) {
            assert!(is <= was + PIECE, "{name}: the process held {was} bytes, now {is}");
        }
        if let (Some(was), Some(is)) = (before.2, after.2) {
            assert!(was <= is + PIECE, "{name}: {was} bytes of the device were free, now {is}");
        }
    }
}
