//! What is packed of the operands of a contraction, and how much that copies: for the traffic of the ways that pack.

use millstream_core::DType;
use millstream_core::how::DeviceProfile;

use super::gemm_isa;
use super::packed::{self, Shape};
use super::way::{Asked, StoredMatrix};

/// What other ways read in place, and the packed GEMM copies.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unpacked {
    /// Bytes of the windows of a direct convolution; 0 for rows of a matrix; `None` without that way.
    pub(super) direct: Option<u64>,
    /// Bytes of columns, and whether they are windows.
    pub(super) columns: Option<(u64, bool)>,
    /// Bytes of the windows of a depthwise convolution.
    pub(super) depthwise: Option<u64>,
}

/// A contraction as packing sees it.
pub(super) struct Packing<'a> {
    pub(super) asked: &'a Asked<'a>,
    pub(super) profile: &'a DeviceProfile,
    unpacked: Unpacked,
    /// Strides of both operands from row to row and along K, of those that are matrices of f32 in memory.
    strides: [Option<(isize, isize)>; 2],
    /// Whether both are, the right one stored row by row: one way packs the left operand, one the right, and the matmul what it does
    /// not read in place.
    matrices: bool,
}

impl<'a> Packing<'a> {
    pub(super) fn new(asked: &'a Asked<'a>, profile: &'a DeviceProfile, unpacked: Unpacked) -> Packing<'a> {
        let strides = strides(asked);
        let matrices = matches!(strides, [Some(_), Some((1, _))]) && unpacked.direct.is_none_or(|bytes| bytes == 0);
        Packing { asked, profile, unpacked, strides, matrices }
    }

    /// Bytes of a left operand that is a matrix beside one on the right.
    pub(super) fn left(&self) -> u64 {
        if self.matrices { self.asked.bytes(self.asked.sizes.m, self.asked.sizes.k) } else { 0 }
    }

    /// Bytes of a right operand that is a matrix beside one on the left.
    pub(super) fn right(&self) -> u64 {
        if self.matrices { self.asked.bytes(self.asked.sizes.k, self.asked.sizes.n) } else { 0 }
    }

    /// What a way copies that copies so much elsewhere, of a depthwise convolution.
    pub(super) fn beside_depthwise(&self, elsewhere: u64) -> u64 {
        self.unpacked.depthwise.unwrap_or(elsewhere)
    }

    /// Matmuls that begin one after the other: of a depthwise convolution, every channel is one.
    pub(super) fn matrices(&self) -> u64 {
        self.unpacked.depthwise.map_or(0, |_| self.asked.sizes.batch as u64)
    }

    /// Bytes that the packed GEMM copies, with blocks of K of this size.
    pub(super) fn packed(&self, kc: usize) -> u64 {
        let Asked { sizes, contract, machine, .. } = *self.asked;
        // Results that an expression goes over are copied, too.
        let results = if contract.epilogue.is_acc() { 0 } else { self.asked.bytes(sizes.m, sizes.n) };
        let windows = self.windows();
        let copied = match self.unpacked.columns {
            _ if self.matrices => {
                let shape = Shape { batch: sizes.batch, m: sizes.m, n: sizes.n, k: sizes.k };
                let unpacked = packed::unpacked::<f32>(gemm_isa(machine.isa), shape, kc, self.strides);
                let packed = |bytes: u64, unpacked: bool| if unpacked { 0 } else { bytes };
                packed(self.left(), unpacked[0])
                    .saturating_add(packed(self.right(), unpacked[1]))
                    .saturating_add(results)
            }
            Some((columns, true)) if self.unpacked.direct.is_none() => 2 * columns,
            Some((columns, false)) => columns.saturating_add(results),
            // As for an image with its channels last, so that both orders of an image are priced alike.
            None if contract.acc == DType::F32 && windows == 0 => {
                self.asked.bytes(sizes.m, sizes.k).saturating_add(results)
            }
            _ => windows,
        };
        self.beside_depthwise(copied)
    }

    fn windows(&self) -> u64 {
        2 * self.unpacked.direct.unwrap_or(0)
    }
}

fn strides(asked: &Asked<'_>) -> [Option<(isize, isize)>; 2] {
    let single =
        |m: StoredMatrix| (m.dtype == DType::F32 && asked.contract.acc == DType::F32).then_some((m.row, m.col));
    asked.matrices::<f32>().map(|matrix| matrix.and_then(single))
}
