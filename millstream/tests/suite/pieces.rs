//! Large graphs are computed in pieces: the values are those of computing each operation by itself, nothing is computed twice, and a
//! program that repeats itself is planned once.

use crate::common::{Random, seed};
use millstream::core::RecordKind;
use millstream::cpu::{CpuFamily, CpuOptions};
use millstream::{DType, Device, Result, Runtime, Tensor};

fn own() -> (Runtime, Device) {
    let runtime = Runtime::builder().family(CpuFamily::new(CpuOptions { threads: Some(1), isa: None })).build();
    let device = runtime.device("cpu").expect("the CPU");
    runtime.profiler().start();
    (runtime, device)
}

fn values(shape: &[usize], seed: u64, device: &Device) -> Tensor {
    let data: Vec<f32> = Random::new(seed).floats(shape.iter().product()).iter().map(|&x| x as f32).collect();
    Tensor::from_shape(shape, &data).to(device)
}

/// How many records of this kind say this.
fn count(runtime: &Runtime, kind: RecordKind, note: &str) -> usize {
    runtime.profiler().records().iter().filter(|r| r.kind == kind && r.note.contains(note)).count()
}

/// A long program whose steps are random: each reads two of the last values. Of integers, so that it does not matter what is computed
/// together.
fn program(seed: u64, steps: usize, device: &Device, each: &dyn Fn(&Tensor)) -> Vec<Tensor> {
    let mut random = Random::new(seed);
    let mut matrix = || {
        let data: Vec<i64> = (0..36).map(|_| random.below(1000) as i64).collect();
        Tensor::from_shape(&[6, 6], &data).to(device)
    };
    let mut last: Vec<Tensor> = (0..4).map(|_| matrix()).collect();
    for _ in 0..steps {
        let (x, y) = (last[random.below(4)].clone(), last[random.below(4)].clone());
        let made = match random.below(9) {
            0 => x.matmul(&y),
            1 => x + y,
            2 => x * 3 - y,
            3 => Tensor::concat([&x.slice(0, ..3), &y.slice(0, 3..)], 0),
            4 => x.transpose() + 1,
            5 => x.roll(1, 1).maximum(&y),
            6 => x.cumsum(0),
            7 => y + Tensor::arange(0, 6),
            _ => x - y.sum(1).unsqueeze(1),
        };
        each(&made);
        last[random.below(4)] = made;
    }
    last
}

#[test]
fn random_programs_give_what_they_give_step_by_step() -> Result<()> {
    let first = seed();
    for n in 0..30 {
        let seed = first.wrapping_add(n * 7919);
        let (runtime, device) = own();
        let whole = program(seed, 500 + n as usize * 5, &device, &|_| ());
        Tensor::eval_all(&whole)?;
        assert!(count(&runtime, RecordKind::Evaluate, "Eval") > 1, "program {seed} was no large graph");
        assert_eq!(count(&runtime, RecordKind::Again, ""), 0, "program {seed}: {:?}", runtime.profiler().records());
        let (_runtime, device) = own();
        let steps = program(seed, 500 + n as usize * 5, &device, &|x| x.eval().expect("memory"));
        for (a, b) in whole.iter().zip(&steps) {
            assert_eq!(a.to_bytes()?, b.to_bytes()?, "program {seed}");
        }
    }
    Ok(())
}

#[test]
fn a_loop_is_planned_once_wherever_it_is_read() -> Result<()> {
    let (runtime, device) = own();
    let (x, mut w) = (values(&[8, 5], 1, &device), values(&[5, 5], 2, &device));
    for step in 0..1000 {
        let h = x.matmul(&w).tanh();
        w -= x.transpose().matmul(&(&h - &x)) * 0.01;
        if step % 83 == 0 {
            h.sum(..).item::<f32>()?;
        }
        if step == 300 {
            // From here on everything was seen, but for how it begins and ends.
            runtime.profiler().clear();
        }
    }
    w.eval()?;
    let [made, cached] = ["Made", "Cached"].map(|how| count(&runtime, RecordKind::Evaluate, how));
    assert!(cached > 3 * made, "{made} plans made, {cached} found");
    Ok(())
}

#[test]
fn assignments_stay_in_place_across_pieces() -> Result<()> {
    const LEN: usize = 1 << 20;
    let (_runtime, device) = own();
    let mut x = Tensor::zeros(LEN, DType::F32).to(&device).copy();
    x.eval()?;
    let before = device.pool().stats().in_use;
    for i in 0..600 {
        x.set(i..i + 1, &Tensor::full(1, i as f32))?;
    }
    let sum = x.slice(0, ..600).sum(..).item::<f32>()?;
    assert_eq!(sum, (0..600).sum::<usize>() as f32);
    let peak = device.pool().stats().peak;
    assert!(peak < before + LEN, "{peak} bytes, {before} of them before");
    Ok(())
}
