//! Runs one operation on the CPU and holds it against the reference.

#![allow(dead_code)] // Each test file uses its part.

use std::sync::Arc;

use millstream_core::backend::{Backend, BackendStream, Binding, Bindings, Priority};
use millstream_core::how::Candidate;
use millstream_core::memory::{MemoryKind, RawMemory, StreamId};
use millstream_core::what::{HostTensor, Tolerance, evaluate};
use millstream_core::{Access, DType, Op, Scalar};
use millstream_cpu::{CpuBackend, CpuOptions, Isa};

/// A small generator of random numbers, seeded anew in each run.
pub struct Random(u64);

impl Random {
    pub fn new() -> Random {
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed =
            std::env::var("MILLSTREAM_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(time.as_nanos() as u64 | 1);
        println!("MILLSTREAM_SEED={seed}");
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn scalar(&mut self, dtype: DType) -> Scalar {
        match dtype {
            DType::C64 => Scalar::new(num_complex::Complex::new(self.unit() as f32 - 0.5, self.unit() as f32 - 0.5)),
            DType::C128 => Scalar::new(num_complex::Complex::new(self.unit() - 0.5, self.unit() - 0.5)),
            DType::Bool => Scalar::new(self.below(4) == 0),
            d if d.is_float() => Scalar::from_f64(2.0 * self.unit() - 1.0, d),
            d => Scalar::from_int(self.next() as i64, d),
        }
    }

    pub fn tensor(&mut self, dtype: DType, len: usize) -> HostTensor {
        let mut t = HostTensor::zeros(dtype, len);
        for i in 0..len {
            t.set(i, self.scalar(dtype)).unwrap();
        }
        t
    }
}

/// How the memory of a run is laid out.
#[derive(Clone, Copy, PartialEq)]
pub enum Alignment {
    /// As the pool would give it.
    Aligned,
    /// One byte off.
    Misaligned,
}

/// The backends to test: every instruction set of the machine, on one thread and on two, and the best one on many.
pub fn backends() -> Vec<CpuBackend> {
    let mut list = Vec::new();
    for isa in Isa::available() {
        for threads in [1, 2] {
            list.push(CpuBackend::open(CpuOptions { threads: Some(threads), isa: Some(isa) }).unwrap());
        }
    }
    list.push(CpuBackend::open(CpuOptions { threads: Some(9), isa: None }).unwrap());
    list
}

/// The elements that an access needs, and the one to bind it at, so that all positions exist.
pub fn extent(access: &Access, dims: &[usize]) -> (usize, usize) {
    let (mut low, mut high) = (access.base, access.base);
    if dims.iter().zip(&access.strides).any(|(&n, &s)| n == 0 && s != 0) {
        return (1, 0);
    }
    for (&n, &s) in dims.iter().zip(&access.strides) {
        let far = (n as isize - 1) * s;
        low += far.min(0);
        high += far.max(0);
    }
    let before = (-low).max(0) as usize;
    (before + high.max(0) as usize + 1, before)
}

/// Whether the family reads an operand in place, which it does only at whole addresses; single bytes are always at one.
fn reads_in_place(op: &Op, candidate: &Candidate) -> bool {
    let wide = op.inputs.iter().take(2).any(|a| a.dtype.real().size() > 1);
    !["packed", "fixed"].contains(&candidate.variant.family.name()) && candidate.traffic.tile.blocks.len() > 1 && wide
}

/// Whether the family may refuse numbers, too: instructions for pairs of bf16 do not take very small ones.
fn refuses_numbers(op: &Op, candidate: &Candidate) -> bool {
    candidate.variant.family.name() == "dot" && op.inputs[0].dtype == DType::BF16
}

/// Runs an operation with one variant on one backend; gives the outputs' bytes, bound where `extent` says.
pub fn run(
    backend: &CpuBackend,
    stream: &dyn BackendStream,
    op: &Op,
    candidate: &Candidate,
    inputs: &[HostTensor],
    params: &[Scalar],
    alignment: Alignment,
) -> Vec<HostTensor> {
    run_reporting(backend, stream, op, candidate, inputs, params, alignment).0
}

/// As [`run`], with the reason why the launch went another way than its variant says, if it did.
pub fn run_reporting(
    backend: &CpuBackend,
    stream: &dyn BackendStream,
    op: &Op,
    candidate: &Candidate,
    inputs: &[HostTensor],
    params: &[Scalar],
    alignment: Alignment,
) -> (Vec<HostTensor>, Option<&'static str>) {
    let kernel = backend.compile(op, &candidate.variant).unwrap();
    assert!(!kernel.text().is_empty());
    let launch = kernel.prepare(op, &candidate.schedule).unwrap();
    let shift = if alignment == Alignment::Misaligned { 1 } else { 0 };
    let block = |bytes: usize| backend.alloc(bytes + 64, MemoryKind::Device).unwrap();
    let fill = |m: &RawMemory, from: &[u8]| {
        let to = m.host.unwrap().as_ptr();
        // SAFETY: the block has 64 bytes more than the tensor.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.add(shift), from.len()) };
    };
    let ins: Vec<(RawMemory, usize, usize)> = inputs
        .iter()
        .map(|t| {
            let m = block(t.bytes.len());
            fill(&m, &t.bytes);
            (m, shift + t.offset * t.dtype.size(), shift + t.bytes.len())
        })
        .collect();
    let mut outs = Vec::new();
    for access in &op.outputs {
        let (len, offset) = extent(access, &op.dims);
        let mut t = HostTensor::zeros(access.dtype, len).with_offset(offset);
        t.bytes.fill(0x5a);
        if access.dtype == DType::Bool {
            t.bytes.fill(0);
        }
        let m = block(t.bytes.len());
        fill(&m, &t.bytes);
        outs.push((m, t));
    }
    let scratch = (launch.workspace() > 0).then(|| block(launch.workspace()));
    {
        let bind = |(memory, offset, end): &(RawMemory, usize, usize)| (memory.clone(), *offset, *end);
        let ins: Vec<_> = ins.iter().map(bind).collect();
        let input_bindings: Vec<Binding<'_>> = ins
            .iter()
            .map(|(memory, offset, end)| Binding { memory, offset: *offset, start: shift, end: *end, pack_cache: None })
            .collect();
        let output_bindings: Vec<Binding<'_>> = outs
            .iter()
            .map(|(memory, t)| Binding {
                memory,
                offset: shift + t.offset * t.dtype.size(),
                start: shift,
                end: shift + t.bytes.len(),
                pack_cache: None,
            })
            .collect();
        let workspace = scratch.as_ref().map(|memory| Binding {
            memory,
            offset: 0,
            start: 0,
            end: launch.workspace(),
            pack_cache: None,
        });
        let bindings = Bindings { inputs: &input_bindings, outputs: &output_bindings, params, workspace, note: None };
        launch.run(&bindings, stream).unwrap();
        stream.synchronize().unwrap();
    }
    let reason = launch.fallback();
    // What was chosen is what runs; where the memory forbids that, the launch says so.
    if reads_in_place(op, candidate) && !refuses_numbers(op, candidate) {
        assert_eq!(reason.is_some(), alignment == Alignment::Misaligned, "{}: {reason:?}", candidate.label());
    }
    for (m, t) in &mut outs {
        let from = m.host.unwrap().as_ptr();
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(from.add(shift), t.bytes.as_mut_ptr(), t.bytes.len()) };
    }
    for (m, _, _) in ins {
        backend.free(m);
    }
    scratch.into_iter().for_each(|m| backend.free(m));
    let outs = outs.into_iter().map(|(m, t)| {
        backend.free(m);
        t
    });
    (outs.collect(), reason)
}

/// Holds an operation on fresh random inputs against the reference: on every backend, with every variant, aligned and not.
pub fn check(op: &Op, random: &mut Random, params: &[Scalar]) {
    let inputs: Vec<HostTensor> = op
        .inputs
        .iter()
        .map(|a| {
            let (len, offset) = extent(a, &op.dims);
            random.tensor(a.dtype, len).with_offset(offset)
        })
        .collect();
    check_with(op, &inputs, params);
}

/// The default stream of a backend.
pub fn default_stream(backend: &CpuBackend) -> Arc<dyn BackendStream> {
    backend.stream(StreamId(0), Priority::Normal).unwrap()
}

/// As [`check`], with these inputs.
pub fn check_with(op: &Op, inputs: &[HostTensor], params: &[Scalar]) {
    let expected = evaluate(op, inputs, params, Tolerance::CPU).unwrap();
    let mut by_variant: Vec<(String, Isa, Vec<HostTensor>)> = Vec::new();
    for backend in backends() {
        let stream = default_stream(&backend);
        let variants = backend.variants(op);
        assert!(!variants.is_empty());
        for (v, variant) in variants.iter().enumerate() {
            for alignment in [Alignment::Aligned, Alignment::Misaligned] {
                // The families that read an operand in place have another way for memory that they cannot read so.
                if alignment == Alignment::Misaligned && v > 0 && !reads_in_place(op, variant) {
                    continue;
                }
                let outputs = run(&backend, &*stream, op, variant, inputs, params, alignment);
                let who = format!("{} on {} x {}", variant.label(), backend.isa().name(), backend.threads());
                for (o, (expected, got)) in expected.iter().zip(&outputs).enumerate() {
                    for e in expected {
                        let value = got.at(e.position).unwrap();
                        if let Err(why) = e.accepts(value) {
                            panic!("{who}: output {o} at {}: {why}\n{op:#?}", e.position);
                        }
                    }
                }
                // Nothing else was touched, and threads make no difference.
                for (o, got) in outputs.iter().enumerate() {
                    let mut rest = got.clone();
                    for e in &expected[o] {
                        let i = rest.offset.checked_add_signed(e.position).unwrap();
                        rest.set(i, Scalar::zero(got.dtype)).unwrap();
                    }
                    let untouched = if got.dtype == DType::Bool { 0 } else { 0x5a };
                    assert!(
                        rest.bytes.iter().all(|&b| b == 0 || b == untouched),
                        "{who}: wrote outside its output {o}"
                    );
                }
                if alignment == Alignment::Aligned {
                    let known = by_variant.iter().find(|(l, isa, _)| *l == variant.label() && *isa == backend.isa());
                    match known {
                        Some((_, _, first)) => {
                            assert!(first == &outputs, "{who}: another result than on one thread");
                        }
                        None => by_variant.push((variant.label(), backend.isa(), outputs)),
                    }
                }
            }
        }
    }
}
