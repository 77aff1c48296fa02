//! From the dtype of a sum to the Rust type in which it is computed.

use half::{bf16, f16};
use millstream_core::DType;
use num_complex::Complex;

use crate::contract::packed::{Dot4, Element, MicroKernel, PackSource, Pairs, Side, Untyped};
use crate::simd::{Simd, WithSimd, vectorize};
use crate::workers::Workers;

/// A type of accumulators, with the stored types that are read as it without a program.
pub(crate) trait AccElement: Element + millstream_core::Element {
    /// Whether a matrix stored as this dtype can be packed directly.
    fn reads(dtype: DType) -> bool;

    /// A matrix of a dtype that [`AccElement::reads`]; `None` otherwise.
    fn strided<'a>(matrix: Untyped<'a>) -> Option<Box<dyn PackSource<Self> + 'a>>;

    /// Writes the lower bits of accumulators, which lie `step` elements apart. Accumulators of other types than i32 are not written.
    fn lower(from: &[Self], step: usize, to: LowerBits<'_>, isa: crate::simd::Isa) {
        let _ = (from, step, to, isa);
    }

    /// How matmuls of matrices stored as these dtypes are computed several numbers at a time, where the machine does that.
    fn together(lhs: DType, rhs: DType, isa: crate::simd::Isa) -> Option<MicroKernel> {
        let _ = (lhs, rhs, isa);
        None
    }

    /// A matrix for [`AccElement::together`]; `None` if its numbers are not fit for that.
    fn grouped<'a>(matrix: Untyped<'a>, how: How, extent: Extent<'_>) -> Option<Box<dyn PackSource<Self> + 'a>> {
        let _ = (matrix, how, extent);
        None
    }
}

/// Narrow integers that accumulators are stored as.
pub(crate) enum LowerBits<'a> {
    Bytes(&'a mut [u8]),
    Halves(&'a mut [u16]),
}

/// Writes the lower bits of accumulators that lie `step` apart.
struct Lower<'a, N> {
    from: &'a [i32],
    step: usize,
    to: &'a mut [N],
}

macro_rules! lower {
    ($($n:ty)*) => {$(impl WithSimd for Lower<'_, $n> {
        type Output = ();

        #[inline(always)]
        fn run<V: Simd>(self, _: V) {
            if self.step == 1 {
                for (to, &sum) in self.to.iter_mut().zip(self.from) {
                    *to = sum as $n;
                }
            } else {
                for (to, &sum) in self.to.iter_mut().zip(self.from.iter().step_by(self.step)) {
                    *to = sum as $n;
                }
            }
        }
    })*};
}
lower!(u8 u16);

/// How a matrix is packed several numbers at a time: for which instruction set, on which side, and what the other side is stored as.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub(crate) isa: MicroKernel,
    pub(crate) side: Side,
    pub(crate) other: DType,
}

/// How much there is of an operand: matrices, rows and K indices; and the workers that read it.
#[derive(Clone, Copy)]
pub(crate) struct Extent<'a> {
    pub(crate) batch: usize,
    pub(crate) rows: usize,
    pub(crate) k_len: usize,
    pub(crate) workers: &'a Workers,
}

macro_rules! accumulators {
    ($($t:ty, $dtype:ident: $($stored:ident as $s:ty),* $(| $more:tt)?;)*) => {$(
        impl AccElement for $t {
            fn reads(dtype: DType) -> bool {
                matches!(dtype, DType::$dtype $(| DType::$stored)*)
            }

            fn strided<'a>(matrix: Untyped<'a>) -> Option<Box<dyn PackSource<Self> + 'a>> {
                match matrix.dtype() {
                    DType::$dtype => Some(Box::new(matrix.typed::<$t>()?)),
                    $(DType::$stored => Some(Box::new(matrix.typed::<$s>()?)),)*
                    _ => None,
                }
            }

            $(accumulators!(@ $more);)?
        }
    )*};
    (@ halves) => {
        fn together(lhs: DType, rhs: DType, isa: crate::simd::Isa) -> Option<MicroKernel> {
            if isa != crate::simd::Isa::Avx512 || (lhs, rhs) != (DType::BF16, DType::BF16) {
                return None;
            }
            [MicroKernel::Amx, MicroKernel::Avx512Bf16].into_iter().find(|isa| isa.available())
        }

        fn grouped<'a>(matrix: Untyped<'a>, how: How, extent: Extent<'_>) -> Option<Box<dyn PackSource<Self> + 'a>> {
            let pairs = Pairs::new((how.isa, how.side), matrix.typed::<bf16>()?, extent.k_len);
            if !pairs.ordinary(extent.batch, extent.rows, extent.workers) {
                return None;
            }
            Some(Box::new(pairs))
        }
    };
    (@ integers) => {
        fn lower(from: &[i32], step: usize, to: LowerBits<'_>, isa: crate::simd::Isa) {
            match to {
                LowerBits::Bytes(to) => vectorize(isa, Lower { from, step, to }),
                LowerBits::Halves(to) => vectorize(isa, Lower { from, step, to }),
            }
        }

        fn together(lhs: DType, rhs: DType, isa: crate::simd::Isa) -> Option<MicroKernel> {
            let bytes = |d: DType| matches!(d, DType::I8 | DType::U8);
            let narrow = |d: DType| bytes(d) || d == DType::I16;
            if !narrow(lhs) || !narrow(rhs) {
                return None;
            }
            let tiles = MicroKernel::AmxDot4 { signed: [lhs == DType::I8, rhs == DType::I8] };
            let list: &[MicroKernel] = match isa {
                crate::simd::Isa::Avx512 => &[tiles, MicroKernel::Avx512Dot4, MicroKernel::Avx512Pairs, MicroKernel::Avx2Pairs],
                crate::simd::Isa::Avx2 => &[MicroKernel::Avx2Dot4, MicroKernel::Avx2Pairs],
                crate::simd::Isa::Neon => &[MicroKernel::NeonDot4],
                crate::simd::Isa::Portable => &[],
            };
            let four = bytes(lhs) && bytes(rhs);
            list.iter().copied().find(|isa| isa.available() && (four || isa.together() == 2))
        }

        fn grouped<'a>(matrix: Untyped<'a>, how: How, extent: Extent<'_>) -> Option<Box<dyn PackSource<Self> + 'a>> {
            let Extent { k_len, .. } = extent;
            let (slot, other) = ((how.isa, how.side), how.other == DType::I8);
            Some(match (matrix.dtype(), how.isa.together()) {
                (DType::I8, 4) => Box::new(Dot4::new(slot, other, matrix.typed::<i8>()?, k_len)),
                (DType::U8, 4) => Box::new(Dot4::new(slot, other, matrix.typed::<u8>()?, k_len)),
                (DType::I8, 2) => Box::new(Pairs::new(slot, matrix.typed::<i8>()?, k_len)),
                (DType::U8, 2) => Box::new(Pairs::new(slot, matrix.typed::<u8>()?, k_len)),
                (DType::I16, 2) => Box::new(Pairs::new(slot, matrix.typed::<i16>()?, k_len)),
                _ => return None,
            })
        }
    };
}
accumulators! {
    f32, F32: F16 as f16, BF16 as bf16 | halves;
    f64, F64: F32 as f32, F16 as f16, BF16 as bf16;
    i32, I32: I8 as i8, U8 as u8, I16 as i16, U16 as u16, U32 as u32 | integers;
    i64, I64: I8 as i8, U8 as u8, I16 as i16, U16 as u16, I32 as i32, U32 as u32, U64 as u64;
    Complex<f32>, C64: ;
    Complex<f64>, C128: ;
}

/// Work that is generic over the type of the sum.
pub(crate) trait Visit {
    /// What it gives.
    type Output;

    /// Does it.
    fn visit<T: AccElement>(self) -> Self::Output;
}

/// Does the work in the type in which a sum of this dtype is computed: f32 for the half types, i32 and i64 for integers, of whose accumulators the
/// lower bits are taken, and i32 counts for truth values.
pub(crate) fn visit<V: Visit>(acc: DType, work: V) -> V::Output {
    match acc {
        DType::F16 | DType::BF16 | DType::F32 => work.visit::<f32>(),
        DType::F64 => work.visit::<f64>(),
        DType::Bool | DType::I8 | DType::I16 | DType::I32 | DType::U8 | DType::U16 | DType::U32 => work.visit::<i32>(),
        DType::I64 | DType::U64 => work.visit::<i64>(),
        DType::C64 => work.visit::<Complex<f32>>(),
        DType::C128 => work.visit::<Complex<f64>>(),
    }
}
