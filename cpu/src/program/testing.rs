//! What the tests of maps and row programs share: random operations, and a comparison with the reference.

use std::sync::Arc;

use millstream_core::backend::{Binding, Bindings, Kernel};
use millstream_core::memory::{RawMemory, StreamId};
use millstream_core::what::{HostTensor, Tolerance, evaluate};
use millstream_core::{Access, Binary, DType, ExprBuilder, Id, Op, Reduce, Scalar, Unary};

use crate::backend::Machine;
use crate::simd::Isa;
use crate::stream::InlineStream;
use crate::topology::Topology;

/// Numbers that differ from run to run; a failing test prints its seed.
pub(crate) struct Random(pub u64);

impl Random {
    pub fn fresh() -> Random {
        use std::time::{SystemTime, UNIX_EPOCH};
        let seed = std::env::var("MILLSTREAM_SEED").ok().and_then(|s| s.parse().ok());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
        Random(seed.unwrap_or(now) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 32) as usize) % n.max(1)
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// From -1 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    pub fn scalar(&mut self, dtype: DType) -> Scalar {
        let kind = self.below(20);
        let part = |r: &mut Random| match kind {
            0 => r.pick(&[0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]),
            1..3 => (r.unit() * 10.0).round(),
            3 => r.unit() * 1000.0,
            _ => r.unit() * 3.0,
        };
        match dtype {
            DType::C64 => {
                Scalar::new(num_complex::Complex::new((self.unit() * 3.0) as f32, (self.unit() * 3.0) as f32))
            }
            DType::C128 => Scalar::new(num_complex::Complex::new(self.unit() * 3.0, self.unit() * 3.0)),
            d if d.is_float() => Scalar::from_f64(part(self), d),
            DType::Bool => Scalar::new(self.below(2) == 1),
            d => match kind {
                0..5 => Scalar::from_int(self.next() as i64, d),
                _ => Scalar::from_int(self.below(20) as i64 - 7, d),
            },
        }
    }

    pub fn tensor(&mut self, dtype: DType, len: usize, offset: usize) -> HostTensor {
        let mut t = HostTensor::zeros(dtype, len);
        for i in 0..len {
            let s = self.scalar(dtype);
            t.set(i, s).unwrap();
        }
        t.with_offset(offset)
    }

    /// A random expression over these inputs; `reduce` for row programs.
    pub fn expr(
        &mut self,
        inputs: &[DType],
        params: &mut Vec<Scalar>,
        rank: usize,
        size: usize,
        reduce: bool,
    ) -> (ExprBuilder, Vec<Id>) {
        let mut b = ExprBuilder::new();
        let mut pool: Vec<Id> = inputs.iter().enumerate().map(|(i, &d)| b.input(i as u16, d)).collect();
        for _ in 0..size {
            let a = self.pick(&pool);
            let dtype = b.dtype(a);
            let same: Vec<Id> = pool.iter().copied().filter(|&p| b.dtype(p) == dtype).collect();
            let other = self.pick(&same);
            let made = match self.below(15) {
                0..4 => match self.pick(Unary::ALL) {
                    // Of complex numbers with a large real part it overflows.
                    Unary::Tanh if dtype.is_complex() => b.unary(Unary::Neg, a),
                    op => b.unary(op, a),
                },
                4..9 => b.binary(self.pick(Binary::ALL), a, other),
                9 => {
                    let truths: Vec<Id> = pool.iter().copied().filter(|&p| b.dtype(p) == DType::Bool).collect();
                    if truths.is_empty() {
                        b.binary(Binary::Ne, a, other)
                    } else {
                        b.select(self.pick(&truths), a, other)
                    }
                }
                10 => Ok(b.cast(a, self.pick(&DType::ALL))),
                11 => {
                    let value = self.scalar(dtype);
                    if self.below(2) == 0 {
                        Ok(b.constant(value))
                    } else {
                        params.push(value);
                        Ok(b.param(params.len() as u16 - 1, dtype))
                    }
                }
                12 if rank > 0 && self.below(3) == 0 => {
                    let d = self.below(rank) as u8;
                    Ok(b.push(millstream_core::Node::Index(d), DType::I64))
                }
                13 => {
                    let number = self.number(&mut b, a, rank);
                    let mut key = || {
                        let value = Scalar::new(self.next() as u32);
                        match self.below(8) {
                            0 => b.cast(a, DType::U32),
                            1..4 => b.constant(value),
                            _ => {
                                params.push(value);
                                b.param(params.len() as u16 - 1, DType::U32)
                            }
                        }
                    };
                    let key = [key(), key()];
                    b.random(number, key)
                }
                _ if reduce => b.reduce(self.pick(Reduce::ALL), a),
                _ => b.binary(self.pick(&[Binary::Add, Binary::Mul, Binary::Sub]), a, other),
            };
            if let Ok(id) = made {
                pool.push(id);
            }
        }
        (b, pool)
    }

    /// The number of a random word: mostly an element's index, else what a node has.
    fn number(&mut self, b: &mut ExprBuilder, a: Id, rank: usize) -> Id {
        if rank == 0 || self.below(4) == 0 {
            return b.cast(a, DType::U32);
        }
        let mut number = b.constant(Scalar::new(self.pick(&[0i64, 0, 1, 6, -5, (1 << 32) - 20])));
        for d in 0..rank as u8 {
            if self.below(4) > 0 {
                let index = b.push(millstream_core::Node::Index(d), DType::I64);
                let factor = b.constant(Scalar::new(self.pick(&[1i64, 1, 1, 40, -1, (1 << 32) + 1])));
                let part = b.binary(Binary::Mul, index, factor).unwrap();
                number = b.binary(Binary::Add, number, part).unwrap();
            }
        }
        b.cast(number, DType::U32)
    }
}

pub(crate) fn machine(isa: Isa, threads: usize) -> Arc<Machine> {
    Arc::new(Machine::new(isa, Topology::detect(), threads))
}

/// Memory for the elements from `low` to `high` of an access, with a margin at both ends.
pub(crate) fn reach(access: &Access, dims: &[usize]) -> (isize, isize) {
    let (mut low, mut high) = (access.base, access.base);
    for (&n, &s) in dims.iter().zip(&access.strides) {
        // Even an empty row may have values of its own.
        let r = (n.max(1) as isize - 1) * s;
        low += r.min(0);
        high += r.max(0);
    }
    (low.min(0), high.max(0) + 1)
}

/// A plain access with random strides over these dimensions: some ignored, some flipped, any order, with gaps.
pub(crate) fn access(r: &mut Random, dtype: DType, dims: &[usize], injective: bool) -> Access {
    let mut order: Vec<usize> = (0..dims.len()).collect();
    for i in 0..order.len() {
        let j = i + r.below(order.len() - i);
        // Mostly row-major.
        if r.below(3) == 0 {
            order.swap(i, j);
        }
    }
    let mut strides = vec![0isize; dims.len()];
    let mut next = 1 + r.below(20).saturating_sub(17) as isize;
    for &d in order.iter().rev() {
        if !injective && r.below(5) == 0 {
            continue;
        }
        strides[d] = next;
        next *= dims[d].max(1) as isize;
        next += r.below(12).saturating_sub(8) as isize;
        if r.below(8) == 0 {
            strides[d] = -strides[d];
        }
    }
    Access::new(dtype, &strides)
}

/// Runs the operation and compares every element with the reference.
pub(crate) fn check(op: &Op, kernel: &dyn Kernel, inputs: &[HostTensor], params: &[Scalar], misalign: bool) {
    let expected = evaluate(op, inputs, params, Tolerance::CPU).unwrap();
    let shift = usize::from(misalign);
    let memories: Vec<Vec<u8>> = inputs
        .iter()
        .map(|t| {
            let mut bytes = vec![0xa5u8; shift];
            bytes.extend_from_slice(&t.bytes);
            // Room behind, so that aligned starts are possible.
            bytes.extend_from_slice(&[0; 64]);
            bytes
        })
        .collect();
    let aligned: Vec<(Vec<u128>, usize)> = memories
        .iter()
        .map(|m| {
            let mut words = vec![0u128; m.len().div_ceil(16)];
            // SAFETY: the words have room for all bytes.
            unsafe { std::ptr::copy_nonoverlapping(m.as_ptr(), words.as_mut_ptr().cast(), m.len()) };
            (words, m.len())
        })
        .collect();
    let raw: Vec<RawMemory> = aligned.iter().map(|(w, n)| RawMemory::foreign(w.as_ptr().cast(), *n)).collect();
    let bound: Vec<Binding<'_>> = raw
        .iter()
        .zip(inputs)
        .map(|(memory, t)| Binding {
            memory,
            offset: shift + t.offset * t.dtype.size(),
            start: shift,
            end: shift + t.bytes.len(),
            pack_cache: None,
        })
        .collect();
    let spans: Vec<(isize, isize)> = op.outputs.iter().map(|a| reach(a, &op.dims)).collect();
    const MARGIN: usize = 64;
    let outs: Vec<Vec<u128>> = op
        .outputs
        .iter()
        .zip(&spans)
        .map(|(a, s)| {
            let bytes = (s.1 - s.0) as usize * a.dtype.size() + 2 * MARGIN + 1;
            vec![u128::from_ne_bytes([0xa5; 16]); bytes.div_ceil(16)]
        })
        .collect();
    let raw_outs: Vec<RawMemory> = outs.iter().map(|o| RawMemory::foreign(o.as_ptr().cast(), o.len() * 16)).collect();
    let out_bound: Vec<Binding<'_>> = raw_outs
        .iter()
        .zip(&op.outputs)
        .zip(&spans)
        .map(|((memory, a), s)| Binding {
            memory,
            offset: MARGIN + shift + (-s.0) as usize * a.dtype.size(),
            start: MARGIN + shift,
            end: MARGIN + shift + (s.1 - s.0) as usize * a.dtype.size(),
            pack_cache: None,
        })
        .collect();
    let launch = kernel.prepare(op, &millstream_core::how::Schedule::default()).unwrap();
    let mut space = vec![0u128; launch.workspace().div_ceil(16) + 4];
    let space_memory = RawMemory::foreign(space.as_mut_ptr().cast::<u8>(), space.len() * 16);
    let skip = (space.as_ptr() as usize).wrapping_neg() % 64;
    let workspace =
        Some(Binding { memory: &space_memory, offset: skip, start: skip, end: space.len() * 16, pack_cache: None });
    let bindings = Bindings { inputs: &bound, outputs: &out_bound, params, workspace, note: None };
    launch.run(&bindings, &InlineStream::new(StreamId(1))).unwrap();
    for (o, want) in expected.iter().enumerate() {
        let (a, s) = (&op.outputs[o], spans[o]);
        let size = a.dtype.size();
        let len = outs[o].len() * 16;
        // SAFETY: the words live and are plain bytes.
        let bytes = unsafe { std::slice::from_raw_parts(outs[o].as_ptr().cast::<u8>(), len) };
        let mut written = vec![false; len];
        for e in want {
            let at = MARGIN + shift + (e.position - s.0) as usize * size;
            let mut t = HostTensor::zeros(a.dtype, 1);
            t.bytes.copy_from_slice(&bytes[at..at + size]);
            written[at..at + size].fill(true);
            let got = t.get(0).unwrap();
            if let Err(why) = e.accepts(got) {
                panic!("output {o} element {}: {why}\n{op:?}\nparams {params:?}\n{}", e.position, kernel.text());
            }
        }
        for (i, w) in written.iter().enumerate() {
            assert!(*w || bytes[i] == 0xa5, "output {o}: byte {i} was overwritten\n{op:?}\n{}", kernel.text());
        }
    }
}

/// Runs a kernel on plain memory, aligned and large enough, every operand beginning at its first element.
pub(crate) fn launch(kernel: &dyn Kernel, op: &Op, inputs: &[*const u8], outputs: &[*mut u8]) {
    prepared(&*kernel.prepare(op, &millstream_core::how::Schedule::default()).unwrap(), op, inputs, outputs);
}

/// Runs a prepared launch on plain memory.
pub(crate) fn prepared(
    launch: &dyn millstream_core::backend::Launch,
    op: &Op,
    inputs: &[*const u8],
    outputs: &[*mut u8],
) {
    let bytes = |a: &Access| reach(a, &op.dims).1 as usize * a.dtype.size();
    let ins: Vec<RawMemory> = inputs.iter().zip(&op.inputs).map(|(&p, a)| RawMemory::foreign(p, bytes(a))).collect();
    let outs: Vec<RawMemory> =
        outputs.iter().zip(&op.outputs).map(|(&p, a)| RawMemory::foreign(p.cast_const(), bytes(a))).collect();
    let bind = |memory| Binding { memory, offset: 0, start: 0, end: RawMemory::clone(memory).bytes, pack_cache: None };
    let (ins, outs): (Vec<_>, Vec<_>) = (ins.iter().map(bind).collect(), outs.iter().map(bind).collect());
    let bindings = Bindings { inputs: &ins, outputs: &outs, params: &[], workspace: None, note: None };
    launch.run(&bindings, &InlineStream::new(StreamId(1))).unwrap();
}
