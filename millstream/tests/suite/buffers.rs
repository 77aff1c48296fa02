//! Buffers, streams and events through a device and a simulated one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream::core::sim::{Sim, SimFamily};
use millstream::core::{Priority, block_on};
use millstream::cpu::{CpuFamily, CpuOptions};
use millstream::{
    AttentionOptions, Buffer, Conv, DType, Device, ErrorKind, Generator, Layout, Mode, Order, Result, Sharing, Tensor,
};

fn devices() -> (Device, Device, Sim) {
    let sim = Sim::new();
    let family = SimFamily::new(CpuFamily::new(CpuOptions::default()), "cpu", &sim);
    let runtime = millstream::runtime().family(family).build();
    (runtime.host().expect("the host"), runtime.device("sim").expect("sim"), sim)
}

#[test]
fn a_value_moves_only_when_it_is_needed_and_stale() -> Result<()> {
    let (host, device, sim) = devices();
    let buffer = Buffer::from_bytes(&host, &[1, 2, 3, 4], Mode::Automatic)?;
    assert!(buffer.is_current(&host) && !buffer.is_current(&device));
    buffer.on(&device, device.stream())?;
    buffer.on(&device, device.stream())?;
    assert_eq!(sim.copies(), 1);
    assert!(buffer.is_current(&host) && buffer.is_current(&device));
    // A write on the device makes the host's replica stale; reading there brings the new value.
    buffer.write(&device, device.stream())?;
    assert!(!buffer.is_current(&host) && buffer.is_current(&device));
    assert_eq!(buffer.read(&host)?.len(), 4);
    assert_eq!(sim.copies(), 2);
    buffer.write(&host, host.stream())?;
    buffer.drop_stale();
    assert!(!buffer.is_current(&device));
    Ok(())
}

#[test]
fn an_explicit_buffer_moves_only_on_demand() -> Result<()> {
    let (host, device, _) = devices();
    let buffer = Buffer::from_bytes(&host, &[7; 16], Mode::Explicit)?;
    let error = buffer.on(&device, device.stream()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
    assert!(error.suggestion().is_some_and(|s| s.contains("move_to")));
    buffer.move_to(&device)?;
    assert!(buffer.on(&device, device.stream()).is_ok());
    Ok(())
}

#[test]
fn unified_memory_serves_both_sides_without_a_copy() -> Result<()> {
    let (host, device, sim) = devices();
    let buffer = Buffer::new(&device, 64, Mode::Unified, device.stream())?;
    assert!(buffer.is_current(&host) && buffer.is_current(&device));
    assert_eq!(buffer.read(&host)?.len(), 64);
    assert_eq!(sim.copies(), 0);
    Ok(())
}

#[test]
fn foreign_memory_is_used_in_place_and_let_go() -> Result<()> {
    struct Owner(Vec<u8>, Arc<AtomicBool>);
    impl Drop for Owner {
        fn drop(&mut self) {
            self.1.store(true, Ordering::SeqCst);
        }
    }
    let (host, _, _) = devices();
    let gone = Arc::new(AtomicBool::new(false));
    // Begin at an odd address: alignment is a property, not an assumption.
    let mut bytes = vec![0u8; 41];
    for i in 0..10 {
        bytes[1 + 4 * i..5 + 4 * i].copy_from_slice(&(i as f32).to_ne_bytes());
    }
    let owner = Box::new(Owner(bytes, gone.clone()));
    let pointer = owner.0[1..].as_ptr();
    // SAFETY: the owner keeps the 40 bytes alive and nobody writes them.
    let buffer = unsafe { Buffer::import(&host, pointer, 40, Sharing::ReadOnly, owner) }?;
    let x = Tensor::from_buffer(buffer, DType::F32, Layout::contiguous(&[10])?);
    assert_eq!((&x * 2.0).to_vec::<f32>()?[9], 18.0);
    assert!(!gone.load(Ordering::SeqCst));
    drop(x);
    assert!(gone.load(Ordering::SeqCst));
    Ok(())
}

#[test]
fn a_layout_that_leaves_its_buffer_is_refused() -> Result<()> {
    let (host, _, _) = devices();
    let buffer = Buffer::from_bytes(&host, &[0; 16], Mode::Automatic)?;
    let tensor = Tensor::from_buffer(buffer, DType::F32, Layout::contiguous(&[5])?);
    assert_eq!(tensor.check().unwrap_err().kind(), ErrorKind::Shape);
    Ok(())
}

#[test]
fn streams_run_in_order_and_wait_for_each_other() -> Result<()> {
    let (host, _, _) = devices();
    assert!(host.stream().is_synchronous());
    let (first, second) = (host.take_stream(Priority::Normal)?, host.take_stream(Priority::High)?);
    let gate = millstream::Event::new();
    first.depend(&gate)?;
    let passed = first.record()?;
    second.depend(&passed)?;
    let done = second.record_timed()?;
    assert!(!done.is_complete());
    gate.signal();
    block_on(async { done.clone().await })?;
    assert!(passed.is_complete());
    host.return_stream(first);
    host.return_stream(second);
    Ok(())
}

#[test]
fn memory_comes_back_when_tensors_go() -> Result<()> {
    let (host, _, _) = devices();
    let in_use = || host.pool().stats().in_use;
    let before = in_use();
    let x = Tensor::from_slice(&vec![1.0f32; 10_000]).to(&host);
    for round in 0..200 {
        let y = (&x * round as f64).exp().reshape(&[100, 100]).softmax(1).matmul(&x.reshape(&[100, 100]));
        y.eval()?;
        if round % 3 == 0 {
            y.eval_async()?.wait()?;
        }
    }
    let reserved = host.pool().stats().reserved;
    for round in 0..200 {
        (&x + round as f64).tanh().eval()?;
    }
    assert_eq!(host.pool().stats().reserved, reserved);
    drop(x);
    assert_eq!(in_use(), before);
    host.pool().trim(0);
    Ok(())
}

#[test]
fn many_threads_share_and_evaluate_tensors() -> Result<()> {
    let (host, _, _) = devices();
    let x = Tensor::arange(0, 4096).to(&host).cast(DType::F64);
    let shared = (&x * 0.5).sqrt();
    let expected: Vec<f64> = (0..4096).map(|i| (i as f64 * 0.5).sqrt()).collect();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8)
            .map(|t| {
                let (x, shared, expected) = (&x, &shared, &expected);
                scope.spawn(move || -> Result<()> {
                    for i in 0..50 {
                        let y = shared + (t * 50 + i) as f64;
                        let got = y.to_vec::<f64>()?;
                        assert!(got.iter().zip(expected).all(|(g, e)| *g == e + (t * 50 + i) as f64));
                        let z = (x + shared).sum(..);
                        z.eval()?;
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|w| w.join().expect("no panic"))
    })
}

/// The tensor with its bytes at an odd address.
fn at_odd_address(x: &Tensor, host: &Device) -> Result<Tensor> {
    let bytes = x.to_bytes()?;
    let mut owner = Box::new(vec![0u8; bytes.len() + 2]);
    // Where the allocation begins is not ours to say; one of two neighbours is odd.
    let start = 1 - owner.as_ptr().addr() % 2;
    owner[start..start + bytes.len()].copy_from_slice(&bytes);
    let pointer = owner[start..].as_ptr();
    // SAFETY: the owner keeps the bytes alive and nobody writes them.
    let buffer = unsafe { Buffer::import(host, pointer, bytes.len(), Sharing::ReadOnly, owner) }?;
    Ok(Tensor::from_buffer(buffer, x.dtype(), Layout::contiguous(&x.shape())?))
}

#[test]
fn every_operation_reads_memory_at_odd_addresses() -> Result<()> {
    let (host, _, _) = devices();
    let mut random = Generator::new(5);
    for (dtype, within) in [(DType::F32, 1e-4), (DType::F64, 1e-12), (DType::F16, 0.01), (DType::BF16, 0.1)] {
        let [x, y, z] = [(); 3].map(|()| random.normal(&[40, 40], DType::F64).cast(dtype));
        let indices = random.integers(&[7, 40], 0, 40);
        let results = |x: &Tensor, y: &Tensor, z: &Tensor, indices: &Tensor| {
            let causal = AttentionOptions { causal: true, mask: Some(z), scale: None };
            vec![
                x.attention(y, z, &AttentionOptions::default()),
                x.transpose().attention(&y.transpose(), &z.transpose(), &causal),
                x.take(indices, 0),
                x.take_along_axis(indices, 0),
                x.cumsum(0),
                x.cummax(1),
                Tensor::concat(&[x, &y.flip(0)], 1),
                x.sort(0, Order::Ascending),
                x.pad(&[(1, 2)], 3.0).exp(),
                x.matmul(y) + z,
                x.transpose().matmul(&y.transpose()),
                x.select(0, 0).matmul(y),
                x.unsqueeze(0).conv1d(&y.slice(1, ..3).unsqueeze(1), None, &Conv::new().groups(40)),
                x.softmax(1) - y,
                x.sum(0) + z.max(1),
                x.transpose().contiguous(),
                x.argmax(0),
            ]
        };
        let want = results(&x, &y, &z, &indices);
        let odd = [&x, &y, &z, &indices].map(|t| at_odd_address(t, &host));
        let [x, y, z, indices] = odd;
        for (i, (got, want)) in results(&x?, &y?, &z?, &indices?).iter().zip(&want).enumerate() {
            // Sums may be grouped otherwise.
            let (got, want) = (got.cast(DType::F64).to_vec::<f64>()?, want.cast(DType::F64).to_vec::<f64>()?);
            let close = |(g, w): (&f64, &f64)| (g - w).abs() <= within * (1.0 + w.abs());
            assert!(got.len() == want.len() && got.iter().zip(&want).all(close), "{dtype} {i}");
        }
    }
    Ok(())
}
