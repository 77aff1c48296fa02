//! A plan that runs ten thousand times leaves the memory of host and device as it was.
//!
//! Alone in its process, because it looks at what the whole process holds. On devices in software it runs fewer times.

use std::collections::VecDeque;

use millstream::{Device, Tensor, default_runtime};

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
    // What the program keeps of its results, so that they do not always lie in the same place.
    const KEPT: usize = 3;
    let runtime = default_runtime().unwrap();
    for (name, there) in runtime.list() {
        let device = match there.and_then(|()| runtime.device(&name)) {
            Ok(device) => device,
            Err(error) => {
                println!("{name} is left out: {error}");
                continue;
            }
        };
        let in_software = device.profile().features.iter().any(|f| f == "software");
        let rounds = match (device.is_host(), in_software) {
            (false, false) => 10_000,
            (true, _) => 1000,
            (false, true) => 50,
        };
        let x = Tensor::from_shape(&[64, 64], &[0.01f32; 64 * 64]).to(&device);
        let mut kept: VecDeque<Tensor> = VecDeque::new();
        let mut run = |times: usize| {
            for _ in 0..times {
                let y = program(&x);
                y.eval().unwrap();
                kept.push_back(y);
                if kept.len() > KEPT {
                    kept.pop_front();
                }
            }
        };
        run(rounds / 10);
        let before = (device.pool().stats(), resident(), free(&device));
        run(rounds);
        let after = (device.pool().stats(), resident(), free(&device));
        println!("{name}: {rounds} rounds, {before:?} before, {after:?} after");
        assert_eq!((after.0.in_use, after.0.blocks), (before.0.in_use, before.0.blocks), "{name}");
        assert!(after.0.reserved <= before.0.reserved, "{name}: {before:?} {after:?}");
        // The system gives memory in pieces: a leak of a hundred bytes in each round would still show.
        const PIECE: usize = 1 << 20;
        if let (Some(was), Some(is)) = (before.1, after.1) {
            assert!(is <= was + PIECE, "{name}: the process held {was} bytes, now {is}");
        }
        if let (Some(was), Some(is)) = (before.2, after.2) {
            assert!(was <= is + PIECE, "{name}: {was} bytes of the device were free, now {is}");
        }
    }
}
