//! A plan made from that of a graph with other sizes is the one that would have been made from nothing.
//!
//! Random programs are run over many sizes in one runtime, where each finds the plans of those before it, and each once more in
//! a runtime of its own. Plans are compared as people read them, results bit by bit.

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

/// How many plans were made in this way since the profile was cleared.
fn plans(runtime: &Runtime, how: &str) -> usize {
    let is = |r: &millstream::core::Record| r.kind == RecordKind::Evaluate && r.note.contains(&format!("plan {how}"));
    runtime.profiler().records().iter().filter(|r| is(r)).count()
}

fn values(shape: &[usize], seed: u64, device: &Device) -> Tensor {
    let data: Vec<f32> = Random::new(seed).floats(shape.iter().product()).iter().map(|&x| x as f32).collect();
    let x = Tensor::from_shape(shape, &data).to(device);
    x.eval().expect("memory");
    x
}

/// A matrix of a program, and the names of its sizes.
#[derive(Clone)]
struct Value {
    t: Tensor,
    dims: [usize; 2],
}

/// A program under way: what it does depends on its seed, never on sizes.
struct Program {
    sizes: Vec<usize>,
    values: Vec<Value>,
}

impl Program {
    /// The name of a new size.
    fn size(&mut self, n: usize) -> usize {
        self.sizes.push(n);
        self.sizes.len() - 1
    }

    /// The last value of which this is true.
    fn find(&self, is: impl Fn(&Value) -> bool) -> Option<Value> {
        self.values.iter().rev().skip(1).find(|v| is(v)).cloned()
    }

    fn step(&mut self, random: &mut Random) {
        let x = self.values[random.below(self.values.len())].clone();
        let [r, c] = x.dims;
        let (rows, columns) = (self.sizes[r], self.sizes[c]);
        let same = self.find(|v| v.dims == x.dims).unwrap_or_else(|| x.clone());
        let (t, dims) = match random.below(20) {
            0 => (x.t.tanh(), [r, c]),
            1 => (&x.t * 1.5 - 0.25, [r, c]),
            2 => (&x.t + &same.t, [r, c]),
            3 => (&x.t - x.t.sum(1).unsqueeze(1) * 0.1, [r, c]),
            4 => (&x.t * same.t.sum(0).unsqueeze(0), [r, c]),
            5 => (x.t.softmax(1), [r, c]),
            6 => (x.t.layernorm(-1, 1e-5), [r, c]),
            7 => match self.find(|v| v.dims[0] == c) {
                Some(y) => (x.t.matmul(&y.t).tanh(), [r, y.dims[1]]),
                None => (x.t.matmul(&x.t.transpose()), [r, r]),
            },
            8 => (x.t.transpose(), [c, r]),
            9 => match self.find(|v| v.dims[0] == r) {
                Some(y) => {
                    let joined = self.size(columns + self.sizes[y.dims[1]]);
                    (Tensor::concat([&x.t, &y.t], 1), [r, joined])
                }
                None => (x.t.abs(), [r, c]),
            },
            10 => {
                let half = self.size(columns / 2);
                (x.t.slice(1, ..columns as isize / 2), [r, half])
            }
            11 => (x.t.roll(1, 1), [r, c]),
            12 => {
                let more = self.size(columns + 3);
                (x.t.pad(&[(0, 0), (1, 2)], 0.5), [r, more])
            }
            13 => {
                let (one, all) = (self.size(1), self.size(rows * columns));
                (x.t.reshape(&[1, rows * columns]), [one, all])
            }
            14 => (x.t.cumsum(0), [r, c]),
            15 => (x.t.tril(0), [r, c]),
            16 => (x.t.cast(DType::F16).sin().cast(DType::F32), [r, c]),
            17 => (x.t.flip(1).exp(), [r, c]),
            // Attention, by hand.
            18 => match self.find(|v| v.dims == x.dims) {
                Some(k) => {
                    let scores = x.t.matmul(&k.t.transpose()) / 2.0;
                    (scores.softmax(1).matmul(&same.t), [r, c])
                }
                None => (x.t.relu(), [r, c]),
            },
            _ => {
                let last = rows.saturating_sub(1) as isize;
                let fewer = self.size(rows.saturating_sub(1));
                (x.t.slice(0, ..last), [fewer, c])
            }
        };
        self.values.push(Value { t, dims });
    }
}

/// The last values of a program of this seed over these sizes.
fn program(seed: u64, [n, m]: [usize; 2], device: &Device) -> [Tensor; 2] {
    let mut random = Random::new(seed);
    let sizes = vec![n, m, 6];
    let all = [[0, 1], [1, 0], [1, 2], [0, 1]];
    let value =
        |(i, dims): (usize, [usize; 2])| Value { t: values(&dims.map(|d| sizes[d]), seed + i as u64, device), dims };
    let mut p = Program { values: all.into_iter().enumerate().map(value).collect(), sizes };
    for _ in 0..4 + random.below(12) {
        p.step(&mut random);
    }
    let mut last = p.values.into_iter().rev().map(|v| v.t);
    let [a, b] = [last.next(), last.next()];
    [a.expect("steps"), b.expect("steps")]
}

/// What people read of a plan, but for times, which are measured, and the texts of kernels, which serve all sizes.
fn explained(t: &Tensor) -> String {
    match t.explain() {
        Ok(text) => {
            let is_plan = |l: &&str| !l.contains("predicted") && !l.starts_with("   | ");
            text.lines().filter(is_plan).collect::<Vec<_>>().join("\n")
        }
        Err(error) => error.to_string(),
    }
}

/// The plans and the results of a program.
fn outcome(seed: u64, sizes: [usize; 2], device: &Device) -> (String, Vec<String>) {
    let [a, b] = program(seed, sizes, device);
    let text = explained(&a);
    let all = Tensor::eval_all([&a, &b]);
    let bytes = |t: &Tensor| match t.to_bytes() {
        Ok(bytes) => format!("{bytes:?}"),
        Err(error) => error.to_string(),
    };
    (text, vec![format!("{:?}", all.is_ok()), bytes(&a), bytes(&b)])
}

#[test]
fn plans_of_other_sizes_are_those_made_from_nothing() {
    let first = seed();
    let list = [
        [3, 4],
        [4, 5],
        [5, 6],
        [7, 9],
        [8, 8],
        [9, 8],
        [6, 6],
        [6, 7],
        [1, 5],
        [2, 5],
        [5, 1],
        [5, 2],
        [0, 4],
        [4, 0],
        [13, 17],
        [31, 64],
        [32, 64],
        [64, 64],
        [65, 64],
        [64, 63],
        [127, 12],
        [128, 13],
        [12, 130],
    ];
    let mut resized = 0;
    for n in 0..40 {
        let seed = first.wrapping_add(n * 7919);
        let (runtime, device) = own();
        for sizes in list {
            let (plan, results) = outcome(seed, sizes, &device);
            let (_fresh, alone) = own();
            let (expected_plan, expected) = outcome(seed, sizes, &alone);
            assert_eq!(plan, expected_plan, "program {seed} over {sizes:?}");
            assert!(results == expected, "program {seed} over {sizes:?} gives other values");
        }
        resized += plans(&runtime, "Resized");
    }
    assert!(resized > 100, "{resized} plans were made from others");
}

/// One token through a layer of a transformer, written by hand.
fn token(x: &Tensor, weights: &[Tensor; 3], past: &mut Option<[Tensor; 2]>) -> Tensor {
    const HEADS: usize = 4;
    let width = x.shape()[1];
    let three = (x.layernorm(-1, 1e-5).matmul(&weights[0])).reshape(&[3, HEADS, 1, width / HEADS]);
    let [q, k, v] = [0, 1, 2].map(|i| three.select(0, i));
    let [k, v] = match past {
        Some([keys, values]) => [Tensor::concat([&*keys, &k], 1), Tensor::concat([&*values, &v], 1)],
        None => [k, v],
    };
    let scores = q.matmul(&k.transpose()) / (width as f64 / HEADS as f64).sqrt();
    let seen = scores.softmax(-1).matmul(&v).reshape(&[1, width]);
    *past = Some([k, v]);
    let x = x + seen.matmul(&weights[1]);
    &x + x.layernorm(-1, 1e-5).matmul(&weights[2]).gelu()
}

#[test]
fn a_cache_that_grows_is_planned_by_what_grows() -> Result<()> {
    let (runtime, device) = own();
    let width = 32;
    let weights = [
        values(&[width, 3 * width], 1, &device),
        values(&[width, width], 2, &device),
        values(&[width, width], 3, &device),
    ];
    let mut past: [Option<[Tensor; 2]>; 3] = Default::default();
    for t in 0..100 {
        runtime.profiler().clear();
        let mut x = values(&[1, width], 10 + t, &device);
        for past in &mut past {
            x = token(&x, &weights, past);
        }
        let bytes = x.to_bytes()?;
        assert!(t < 4 || plans(&runtime, "Made") == 0, "token {t}: {:?}", runtime.profiler().records());
        assert!(!bytes.is_empty());
    }
    Ok(())
}
