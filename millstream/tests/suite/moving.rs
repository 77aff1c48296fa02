//! Loops in which offsets move or sizes grow: no kernel is compiled for them, and planning takes microseconds.

use std::time::Instant;

use millstream::cpu::{CpuFamily, CpuOptions};
use millstream::{AttentionOptions, DType, Device, Result, Runtime, Tensor};

fn own() -> (Runtime, Device) {
    let runtime = Runtime::builder().family(CpuFamily::new(CpuOptions::default())).build();
    let device = runtime.device("cpu").expect("the CPU");
    (runtime, device)
}

/// Plans made, by what the profile says.
fn made(runtime: &Runtime) -> usize {
    runtime.profiler().records().iter().filter(|r| &*r.name == "evaluate" && r.note.contains("plan Made")).count()
}

fn filled(shape: &[usize], device: &Device) -> Tensor {
    let x = Tensor::full(shape, 1.0f32).to(device).copy();
    x.eval().unwrap();
    x
}

/// Runs steps 0 to `last`; from `warm` on none may compile. Gives the median seconds of those.
fn steps(device: &Device, warm: usize, last: usize, mut step: impl FnMut(usize) -> Result<()>) -> Result<f64> {
    let mut times = Vec::new();
    let mut compiles = 0;
    for i in 0..last {
        if i == warm {
            compiles = device.statistics().kernels.compiles;
        }
        let start = Instant::now();
        step(i)?;
        if i >= warm {
            times.push(start.elapsed().as_secs_f64());
        }
    }
    assert_eq!(device.statistics().kernels.compiles, compiles, "a step compiled a kernel");
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Far above what planning takes even in a test build on a busy machine, far below what a compiler would take.
const PLANNING: f64 = 5e-3;

#[test]
fn a_slice_that_moves_through_memory_finds_its_plan_again() -> Result<()> {
    let (runtime, device) = own();
    let x = filled(&[2000, 8], &device);
    runtime.profiler().start();
    let seconds = steps(&device, 3, 500, |i| {
        let window = x.slice(0, i as isize..i as isize + 64);
        assert_eq!((window * 2.0).sum(..).item::<f32>()?, 1024.0);
        Ok(())
    })?;
    assert_eq!(made(&runtime), 1);
    assert!(seconds < PLANNING, "{seconds}");
    Ok(())
}

#[test]
fn a_slice_that_moves_through_a_value_still_to_be_computed_compiles_nothing() -> Result<()> {
    let (_runtime, device) = own();
    let x = filled(&[300, 8], &device);
    let seconds = steps(&device, 3, 200, |i| {
        // The softmax stands alone, so that the slice is of a value in memory.
        let y = x.softmax(0).slice(0, i as isize..i as isize + 64);
        assert!((y.sum(..).item::<f32>()? - 8.0 * 64.0 / 300.0).abs() < 1e-4);
        Ok(())
    })?;
    assert!(seconds < PLANNING, "{seconds}");
    Ok(())
}

#[test]
fn a_sequence_that_grows_by_one_each_step_compiles_nothing() -> Result<()> {
    let (_runtime, device) = own();
    let row = filled(&[1, 8], &device);
    let mut sequence = row.clone();
    let seconds = steps(&device, 70, 400, |i| {
        sequence = Tensor::concat(&[&sequence, &row], 0);
        let centred = &sequence - sequence.mean_keepdim(0);
        let total = centred.square().sum(..) + sequence.sum(..);
        Tensor::eval_all(&[&sequence, &total])?;
        assert_eq!(total.item::<f32>()?, 8.0 * (i + 2) as f32);
        Ok(())
    })?;
    assert!(seconds < PLANNING, "{seconds}");
    Ok(())
}

#[test]
fn decoding_over_a_growing_cache_compiles_nothing_and_copies_nothing() -> Result<()> {
    let (_runtime, device) = own();
    let (heads, most, width) = (2, 400, 16);
    let mut keys = Tensor::zeros(&[heads, most, width], DType::F32).to(&device);
    let mut values = keys.clone();
    let weights = filled(&[width, width], &device);
    let mut held = 0;
    let seconds = steps(&device, 70, 300, |i| {
        let token = (Tensor::full(&[heads, 1, width], 0.01 * i as f32).to(&device)).matmul(&weights);
        let at = i as isize;
        keys.slice_assign(1, at..at + 1, &token)?;
        values.slice_assign(1, at..at + 1, &token)?;
        let (k, v) = (keys.slice(1, ..at + 1), values.slice(1, ..at + 1));
        let y = token.attention(&k, &v, &AttentionOptions { causal: true, ..Default::default() });
        Tensor::eval_all(&[&keys, &values, &y])?;
        assert_eq!(y.shape(), [heads, 1, width]);
        if i == 2 {
            held = device.pool().stats().in_use;
        }
        Ok(())
    })?;
    let (stats, cache) = (device.pool().stats(), heads * most * width * 4);
    assert!(stats.peak < held + cache, "{stats}: a cache of {cache} bytes was copied");
    assert!(seconds < PLANNING, "{seconds}");
    Ok(())
}
