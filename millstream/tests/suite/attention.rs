//! Attention written by hand is the planner's attention, and nothing else is.

use crate::common::Random;
use millstream::cpu::{CpuFamily, CpuOptions};
use millstream::{DType, Device, Idea, Result, Runtime, Tensor};

/// A runtime that fuses and one that does not.
fn devices() -> (Runtime, Runtime, [Device; 2]) {
    let make = || Runtime::builder().family(CpuFamily::new(CpuOptions::default())).build();
    let (fused, plain) = (make(), make());
    plain.set_idea(Idea::Fuse, false);
    let devices = [fused.device("cpu").unwrap(), plain.device("cpu").unwrap()];
    (fused, plain, devices)
}

/// Operands of attention: `q`, `k`, `v`, numbers to add, and positions that are seen.
struct Operands {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    added: Tensor,
    seen: Tensor,
}

impl Operands {
    /// Batch, heads, queries, keys, and lengths of keys and values; some queries see nothing.
    fn new(r: &mut Random, sizes: [usize; 6], device: &Device) -> Operands {
        let [b, h, m, n, d, e] = sizes;
        let mut floats = |shape: &[usize]| {
            let data: Vec<f32> = r.floats(shape.iter().product()).iter().map(|&x| x as f32).collect();
            Tensor::from_shape(shape, &data).to(device)
        };
        let (q, k, v) = (floats(&[b, h, m, d]), floats(&[b, h, n, d]), floats(&[b, h, n, e]));
        let added = floats(&[m, n]);
        let seen: Vec<bool> = (0..m * n).map(|i| i / n % 5 != 3 && r.below(4) > 0).collect();
        Operands { q, k, v, added, seen: Tensor::from_shape(&[m, n], &seen).to(device) }
    }

    fn scores(&self) -> Tensor {
        self.q.matmul(&self.k.transpose())
    }
}

type Form = fn(&Operands) -> Tensor;

/// Ways to write attention.
const ATTENTION: [(&str, Form); 9] = [
    ("plain", |o| o.scores().softmax(-1).matmul(&o.v)),
    ("scaled", |o| (o.scores() * 0.125).softmax(-1).matmul(&o.v)),
    ("scaled from the left", |o| (-0.5 * o.scores()).softmax(3).matmul(&o.v)),
    ("divided", |o| (o.scores() / 3.0).softmax(-1).matmul(&o.v)),
    ("queries scaled", |o| (&o.q * 0.3).matmul(&o.k.transpose()).softmax(-1).matmul(&o.v)),
    ("numbers added", |o| (o.scores() * 0.25 + &o.added).softmax(-1).matmul(&o.v)),
    ("numbers added from the left", |o| (&o.added + o.scores()).softmax(-1).matmul(&o.v)),
    ("seen keys", |o| o.seen.where_(&(o.scores() / 2.0), f64::NEG_INFINITY).softmax(-1).matmul(&o.v)),
    ("softmax by hand", |o| {
        let x = o.scores() * 0.7;
        let e = (&x - x.max_keepdim(-1)).exp();
        (&e / e.sum_keepdim(-1)).matmul(&o.v)
    }),
];

/// What looks like it and is not.
const OTHERS: [(&str, Form); 9] = [
    ("softmax of columns", |o| o.scores().softmax(-2).matmul(&o.v)),
    ("keys hidden by a finite number", |o| o.seen.where_(&o.scores(), -1e9).softmax(-1).matmul(&o.v)),
    ("minus infinity where seen", |o| o.seen.where_(f64::NEG_INFINITY, &o.scores()).softmax(-1).matmul(&o.v)),
    ("without the maximum", |o| {
        let e = o.scores().exp();
        (&e / e.sum_keepdim(-1)).matmul(&o.v)
    }),
    ("another maximum", |o| {
        let x = o.scores();
        let e = (&x - (x.max_keepdim(-1) + 1.0)).exp();
        (&e / e.sum_keepdim(-1)).matmul(&o.v)
    }),
    ("scaled after the mask", |o| ((o.scores() + &o.added) * 0.5).softmax(-1).matmul(&o.v)),
    ("shares changed", |o| (o.scores().softmax(-1) * 2.0).matmul(&o.v)),
    ("shares transposed", |o| o.scores().softmax(-1).transpose().matmul(&o.q)),
    ("shares on the right", |o| o.v.transpose().matmul(&o.scores().softmax(-1).transpose())),
];

const SIZES: [usize; 6] = [2, 3, 65, 130, 32, 24];

/// Whether all agree; NaN with NaN, and infinities with themselves.
fn agree(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|(x, y)| x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= 3e-6 + 3e-5 * y.abs())
}

#[test]
fn attention_written_by_hand_is_recognised_and_gives_the_same() -> Result<()> {
    let (_fused, _plain, [device, other]) = devices();
    for (name, form) in ATTENTION {
        let mut r = Random::fresh();
        let seed = r.bits();
        let make = |device: &Device| form(&Operands::new(&mut Random::new(seed), SIZES, device));
        let (y, plain) = (make(&device), make(&other));
        let text = y.explain()?;
        assert!(text.contains("attention"), "{name} is not recognised:\n{}", text.lines().next().unwrap_or_default());
        assert!(!plain.explain()?.contains("attention"));
        let (y, plain) = (y.to_vec::<f32>()?, plain.to_vec::<f32>()?);
        assert!(agree(&y, &plain), "{name} differs");
        assert_eq!(
            name == "seen keys",
            plain.iter().any(|v| v.is_nan()),
            "{name}: a query that sees nothing gives NaN"
        );
    }
    Ok(())
}

#[test]
fn whatever_else_is_computed_as_it_is_written() -> Result<()> {
    let (_fused, _plain, [device, other]) = devices();
    let square = [2, 3, 40, 40, 16, 16];
    for (name, form) in OTHERS {
        let seed = Random::fresh().bits();
        let make = |device: &Device| form(&Operands::new(&mut Random::new(seed), square, device));
        let (y, plain) = (make(&device), make(&other));
        assert!(!y.explain()?.contains("attention"), "{name} is taken for attention");
        assert!(agree(&y.to_vec::<f32>()?, &plain.to_vec::<f32>()?), "{name} differs");
    }
    Ok(())
}

#[test]
fn in_a_chain_of_matmuls_and_softmaxes_each_matmul_is_taken_once() -> Result<()> {
    let (_fused, _plain, [device, other]) = devices();
    for length in 1..6 {
        let seed = Random::fresh().bits();
        let make = |device: &Device| {
            let o = Operands::new(&mut Random::new(seed), [2, 3, 40, 40, 40, 40], device);
            (0..length).fold(o.scores(), |x, _| x.softmax(-1).matmul(&o.v))
        };
        assert!(agree(&make(&device).to_vec::<f32>()?, &make(&other).to_vec::<f32>()?), "{length}");
    }
    Ok(())
}

#[test]
fn what_somebody_else_wants_or_reads_stays() -> Result<()> {
    let (_fused, _plain, [device, _]) = devices();
    let o = Operands::new(&mut Random::fresh(), SIZES, &device);
    // The shares are wanted, too.
    let shares = o.scores().softmax(-1);
    let y = shares.matmul(&o.v);
    Tensor::eval_all(&[&y, &shares])?;
    let rows = shares.sum(-1).to_vec::<f32>()?;
    assert!(rows.iter().all(|s| (s - 1.0).abs() < 1e-5));
    // The scores are read by another operation of the same graph.
    let scores = o.scores();
    let z = scores.softmax(-1).matmul(&o.v).sum(..) + scores.sum(..);
    assert!(!z.explain()?.contains("attention"));
    Ok(())
}

#[test]
fn the_same_graph_with_another_number_is_planned_by_that_number() -> Result<()> {
    let (_fused, _plain, [device, other]) = devices();
    // First with minus infinity, then with a number: a plan must not be mistaken for the other's.
    let hide = |o: &Operands, number: f64| o.seen.where_(&o.scores(), number).softmax(-1).matmul(&o.v);
    for number in [f64::NEG_INFINITY, -3.0, f64::NEG_INFINITY, -1e9] {
        let seed = Random::fresh().bits();
        let make = |device: &Device| hide(&Operands::new(&mut Random::new(seed), SIZES, device), number);
        assert!(agree(&make(&device).to_vec::<f32>()?, &make(&other).to_vec::<f32>()?), "{number}");
    }
    // Scales are no structure: one plan, other results.
    let o = Operands::new(&mut Random::fresh(), SIZES, &device);
    let at = |scale: f64| ((o.scores() / scale).softmax(-1).matmul(&o.v)).to_vec::<f32>();
    let expected = |scale: f64| {
        let q = (&o.q / scale).copy();
        q.eval()?;
        q.attention(&o.k, &o.v, &millstream::AttentionOptions { scale: Some(1.0), ..Default::default() })
            .to_vec::<f32>()
    };
    for scale in [2.0, 8.0, 0.5] {
        assert!(agree(&at(scale)?, &expected(scale)?), "{scale}");
    }
    Ok(())
}

#[test]
fn half_types_are_not_touched_and_double_is() -> Result<()> {
    let (_fused, _plain, [device, _]) = devices();
    let o = Operands::new(&mut Random::fresh(), SIZES, &device);
    for (dtype, is) in [(DType::F16, false), (DType::F64, true)] {
        let [q, k, v] = [&o.q, &o.k, &o.v].map(|t| t.cast(dtype).copy());
        Tensor::eval_all(&[&q, &k, &v])?;
        let y = q.matmul(&k.transpose()).softmax(-1).matmul(&v);
        assert_eq!(y.explain()?.contains("attention"), is, "{dtype}");
    }
    Ok(())
}
