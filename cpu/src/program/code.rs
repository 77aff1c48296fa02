//! Finished code: steps over slots.
//!
//! A slot is an entry of the table of pointers that a [`super::frame::Frame`] keeps: registers, single values, inputs,
//! outputs and cached rows, in that order. Code does not change after it is made and serves any number of frames at once.

use std::fmt::Write;

use millstream_core::{DType, Scalar};
use smallvec::SmallVec;

use crate::math::BlockFn;

/// Where an operand of a step is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum At {
    /// The operand is not used.
    None,
    /// A register: a block in the fastest memory.
    Register(u16),
    /// A single value.
    Single(u16),
    /// An input's memory, at the current block.
    Input(u16),
    /// An output's memory, at the current block.
    Output(u16),
    /// A value cached for each element of the row, at the current block.
    Cached(u16),
}

/// One instruction.
#[derive(Clone, Copy)]
pub(crate) enum Step<P> {
    /// A kernel over the block.
    Call {
        /// The kernel.
        f: BlockFn,
        /// Its name, for the listing.
        name: &'static str,
        /// The element type of its operands, for the listing.
        dtype: DType,
        /// Where the result goes.
        dst: P,
        /// The operands.
        src: [P; 3],
    },
    /// Elements of an input that is strided or guarded into a register, `size` bytes each.
    Load {
        /// The input.
        input: u16,
        /// The register, or the single value.
        dst: P,
        /// Bytes of an element.
        size: u8,
    },
    /// A register to an output with a stride.
    Store {
        /// The output.
        output: u16,
        /// The register.
        src: P,
        /// Bytes of an element.
        size: u8,
    },
    /// The index along the lanes into a register.
    Iota {
        /// The register.
        dst: P,
    },
    /// The index along another dimension into a single value.
    IndexOf {
        /// The dimension.
        dim: u8,
        /// The single value.
        dst: P,
    },
    /// Random words that follow each other along the lanes.
    Words {
        /// The kernel: [`crate::math::random_run`].
        f: BlockFn,
        /// Where the words go.
        dst: P,
        /// The number of the word of the strip's first lane, and the two words of the key: single values.
        src: [P; 3],
    },
    /// Folds the block into an accumulator.
    Fold {
        /// The accumulator.
        fold: u16,
        /// The block, or the first of two whose products are folded.
        a: P,
        /// The second block, if products are folded.
        b: P,
    },
}

/// How many bytes of single values, as one value each of the largest type.
pub(crate) type Singles = SmallVec<[u128; 16]>;

/// Finished code.
pub(crate) struct Code {
    /// The segments, in the order in which they were opened.
    pub segments: Vec<Box<[Step<u16>]>>,
    /// How many registers there are.
    pub registers: usize,
    /// Bytes that an element takes in a register: the largest of all values.
    pub width: usize,
    /// The single values as they are before the first step: constants.
    pub singles: Singles,
    /// Single values that are launch parameters: the slot among the singles, the parameter, the node's dtype.
    pub params: Vec<(u16, u16, DType)>,
    /// How many inputs there are.
    pub inputs: usize,
    /// How many outputs there are.
    pub outputs: usize,
    /// How many cached rows there are.
    pub cached: usize,
}

impl Code {
    /// The first slot of the single values.
    pub fn first_single(&self) -> usize {
        self.registers
    }

    /// The first slot of the inputs.
    pub fn first_input(&self) -> usize {
        self.registers + self.singles.len()
    }

    /// The first slot of the outputs.
    pub fn first_output(&self) -> usize {
        self.first_input() + self.inputs
    }

    /// The first slot of the cached rows.
    pub fn first_cached(&self) -> usize {
        self.first_output() + self.outputs
    }

    /// All slots; one more, which points nowhere, follows them.
    pub fn slots(&self) -> usize {
        self.first_cached() + self.cached
    }

    /// The slot of a location.
    pub fn slot(&self, at: At) -> u16 {
        let i = match at {
            At::None => self.slots(),
            At::Register(r) => r as usize,
            At::Single(u) => self.first_single() + u as usize,
            At::Input(i) => self.first_input() + i as usize,
            At::Output(o) => self.first_output() + o as usize,
            At::Cached(k) => self.first_cached() + k as usize,
        };
        i as u16
    }

    /// Writes constants and parameters to single values that begin at `to`; there must be room for all.
    pub fn fill_singles(&self, to: &mut [u128], params: &[Scalar]) {
        for (t, s) in to.iter_mut().zip(&self.singles) {
            *t = *s;
        }
        for &(s, p, dtype) in &self.params {
            let value = params.get(p as usize).copied().unwrap_or(Scalar::zero(dtype));
            if let Some(t) = to.get_mut(s as usize) {
                *t = single(&value);
            }
        }
    }

    /// How many elements a block has, if all registers together may take `bytes`.
    pub fn block(&self, bytes: usize) -> usize {
        match self.registers * self.width {
            0 => 4096,
            each => (bytes / each / 64 * 64).clamp(64, 1024),
        }
    }

    /// Bytes that the registers take for blocks of this many elements.
    pub fn scratch(&self, block: usize) -> usize {
        self.registers * self.width * block
    }

    fn slot_name(&self, slot: u16) -> String {
        let s = slot as usize;
        if s < self.first_single() {
            format!("r{s}")
        } else if s < self.first_input() {
            format!("s{}", s - self.first_single())
        } else if s < self.first_output() {
            format!("in{}", s - self.first_input())
        } else if s < self.first_cached() {
            format!("out{}", s - self.first_output())
        } else {
            format!("cached{}", s - self.first_cached())
        }
    }

    /// A segment as lines of text.
    pub fn listing(&self, segment: usize, indent: &str, out: &mut String) {
        for step in &self.segments[segment] {
            let _ = match *step {
                Step::Call { name, dtype, dst, src, .. } => {
                    let mut line = format!("{indent}{} = {name}.{dtype}", self.slot_name(dst));
                    for (i, s) in src.into_iter().enumerate() {
                        if (s as usize) < self.slots() {
                            let _ = write!(line, "{}{}", if i == 0 { " " } else { ", " }, self.slot_name(s));
                        }
                    }
                    writeln!(out, "{line}")
                }
                Step::Load { input, dst, size } => {
                    writeln!(out, "{indent}{} = gather in{input} ({size} bytes each)", self.slot_name(dst))
                }
                Step::Store { output, src, size } => {
                    writeln!(out, "{indent}out{output} = scatter {} ({size} bytes each)", self.slot_name(src))
                }
                Step::Iota { dst } => writeln!(out, "{indent}{} = index along the lanes", self.slot_name(dst)),
                Step::IndexOf { dim, dst } => {
                    writeln!(out, "{indent}{} = index along dimension {dim}", self.slot_name(dst))
                }
                Step::Words { dst, src: [first, k0, k1], .. } => {
                    let [first, k0, k1] = [first, k0, k1].map(|s| self.slot_name(s));
                    writeln!(out, "{indent}{} = random words from {first} on, key {k0}, {k1}", self.slot_name(dst))
                }
                Step::Fold { fold, a, b } if (b as usize) < self.slots() => {
                    writeln!(out, "{indent}fold {fold} with {} * {}", self.slot_name(a), self.slot_name(b))
                }
                Step::Fold { fold, a, .. } => writeln!(out, "{indent}fold {fold} with {}", self.slot_name(a)),
            };
        }
    }

    /// The constants and parameters as lines of text.
    pub fn listing_singles(&self, indent: &str, out: &mut String) {
        for (single, param, dtype) in &self.params {
            let _ = writeln!(out, "{indent}s{single} = parameter {param} ({dtype})");
        }
    }
}

/// The bytes of a value in the type in which it is computed with.
pub(crate) fn single(value: &Scalar) -> u128 {
    let value = match value.dtype() {
        DType::F16 | DType::BF16 => Scalar::new(value.to_f64() as f32),
        _ => *value,
    };
    u128::from_ne_bytes(value.bytes())
}
