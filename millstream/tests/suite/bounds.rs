//! Graphs that are never read are computed by themselves, so that neither they nor what they hold grow without end.

use millstream::cpu::{CpuFamily, CpuOptions};
use millstream::{DType, Device, Result, Runtime, Tensor};

fn own() -> (Runtime, Device) {
    let runtime = Runtime::builder().family(CpuFamily::new(CpuOptions::default())).build();
    let device = runtime.device("cpu").expect("the CPU");
    runtime.profiler().start();
    (runtime, device)
}

/// How often a trigger was the reason of an evaluation.
fn times(runtime: &Runtime, trigger: &str) -> usize {
    let records = runtime.profiler().records();
    records.iter().filter(|r| &*r.name == "evaluate" && r.note.starts_with(trigger)).count()
}

#[test]
fn a_loop_that_never_evaluates_keeps_its_memory_flat() -> Result<()> {
    const MIB: usize = 1 << 20;
    let (runtime, device) = own();
    let n = 2 * MIB;
    let mut total = Tensor::zeros(&[n], DType::F32).to(&device);
    let mut peaks = Vec::new();
    for round in 0..3 {
        for _ in 0..40 {
            // 8 MiB that nobody but the waiting sum holds.
            let part = Tensor::full(&[n], 1.0f32).to(&device).copy();
            part.eval()?;
            total = total + part;
        }
        peaks.push(device.pool().stats().peak);
        assert!(peaks[round] < 300 * MIB, "{} MiB", peaks[round] / MIB);
    }
    // What 120 parts would have taken: 960 MiB.
    assert!(times(&runtime, "Bytes") >= 3, "{:?}", runtime.profiler().records());
    assert_eq!(total.slice(0, ..2).to_vec::<f32>()?, [120.0; 2]);
    Ok(())
}

#[test]
fn what_others_hold_or_the_result_needs_anyway_does_not_count() -> Result<()> {
    let (runtime, device) = own();
    let n = 80 << 20;
    let big = Tensor::full(&[n], 1u8).to(&device).copy();
    big.eval()?;
    // Each step reads 80 MiB that the program holds itself.
    let mut all = Vec::new();
    let mut total = big.clone();
    for _ in 0..8 {
        total = total + &big;
        all.push(total.clone());
    }
    // A chain over one large value that nobody else has gains nothing by being cut.
    let mut chain = Tensor::full(&[4 * n], 1u8).to(&device).copy();
    chain.eval()?;
    for _ in 0..4 {
        chain = chain + 1;
    }
    assert_eq!((times(&runtime, "Bytes"), times(&runtime, "Nodes")), (0, 0));
    assert_eq!(total.slice(0, ..1).to_vec::<u8>()?, [9]);
    assert_eq!(chain.slice(0, 7..8).to_vec::<u8>()?, [5]);
    Ok(())
}

#[test]
fn a_graph_that_grows_wide_is_computed_by_itself() -> Result<()> {
    let (runtime, device) = own();
    let one = Tensor::full(&[4], 1.0f32).to(&device).copy();
    one.eval()?;
    // A tree: never deeper than 14, in all more than 10,000 operations.
    let mut level: Vec<Tensor> = (0..8192).map(|i| &one * (i % 2) as f64).collect();
    while level.len() > 1 {
        level = level.chunks(2).map(|pair| &pair[0] + &pair[1]).collect();
    }
    assert!(times(&runtime, "Nodes") > 0);
    assert_eq!(level[0].to_vec::<f32>()?, [4096.0; 4]);
    Ok(())
}

#[test]
fn what_is_shared_counts_once() -> Result<()> {
    let (runtime, device) = own();
    let mut x = Tensor::full(&[3], 1.0f64).to(&device).copy();
    x.eval()?;
    // Sixty operations, though counted by their paths there would be 2^60.
    for _ in 0..60 {
        x = &x + &x;
    }
    assert_eq!(times(&runtime, "Nodes") + times(&runtime, "Depth"), 0);
    assert_eq!(x.to_vec::<f64>()?, [60f64.exp2(); 3]);
    assert_eq!(x.sum(..).item::<f64>()?, 3.0 * 60f64.exp2());
    Ok(())
}

#[test]
fn a_graph_that_grows_deep_is_computed_by_itself() -> Result<()> {
    let (runtime, device) = own();
    let mut x = Tensor::full(&[2], 0.0f32).to(&device);
    for _ in 0..5000 {
        x = x + 1.0;
    }
    let records = runtime.profiler().records();
    let deep: Vec<_> = records.iter().filter(|r| r.note.starts_with("Depth")).collect();
    assert!(deep.len() > 50 && deep.iter().filter(|r| r.note.contains("Made")).count() < 8, "{deep:?}");
    assert_eq!(x.to_vec::<f32>()?, [5000.0; 2]);
    Ok(())
}

#[test]
fn a_network_needs_little_more_memory_than_the_values_it_is_at() -> Result<()> {
    const MIB: usize = 1 << 20;
    for threads in [1, 2] {
        let options = CpuOptions { threads: Some(threads), isa: None };
        let runtime = Runtime::builder().family(CpuFamily::new(options)).build();
        let device = runtime.device("cpu")?;
        let full = |shape: &[usize]| -> Result<Tensor> {
            let t = Tensor::full(shape, 0.01f32).to(&device).copy();
            t.eval()?;
            Ok(t)
        };
        let (x, wide, narrow) = (full(&[4, 256, 512])?, full(&[512, 2048])?, full(&[2048, 512])?);
        let before = device.pool().stats().in_use;
        let block = |x: &Tensor| x + x.layernorm(-1, 1e-5).matmul(&wide).gelu().matmul(&narrow);
        let y = block(&block(&block(&x)));
        y.eval()?;
        // The most that lives at once: the block's input and its norm (or its result), 2 MiB each, and the wide value, 8 MiB.
        // Packing both operands of its larger matmul would take 12 MiB.
        let peak = device.pool().stats().peak - before;
        assert!(peak <= 12 * MIB + 3 * MIB, "{peak} bytes with {threads} threads");
    }
    Ok(())
}
