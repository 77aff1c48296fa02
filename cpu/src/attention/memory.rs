//! Scratch memory that threads keep.

use std::cell::Cell;

use millstream_core::{Error, ErrorKind, Fault, Result};

use crate::contract::packed::Element;

/// Bytes of scratch memory that a thread keeps for its next task: fresh memory would cost a page fault every few thousand
/// bytes.
const KEPT: usize = 4 << 20;

/// A task's scratch memory.
pub(super) struct TaskMemory(Vec<ScratchLine>);

#[derive(Clone, Copy)]
#[repr(align(64))]
struct ScratchLine(#[allow(dead_code)] [u8; 64]); // Read as numbers.

thread_local! {
    static ROOM: Cell<Vec<ScratchLine>> = const { Cell::new(Vec::new()) };
}

impl TaskMemory {
    /// What the last task of this thread left, or nothing.
    pub(super) fn take() -> TaskMemory {
        TaskMemory(ROOM.take())
    }

    /// Parts of so many numbers, whose values are anything.
    pub(super) fn parts<T: Element, const N: usize>(&mut self, sizes: [usize; N]) -> Result<[&mut [T]; N]> {
        let each = size_of::<ScratchLine>() / size_of::<T>();
        let lines = sizes.map(|n| n.div_ceil(each));
        let wanted = lines.iter().fold(0usize, |sum, n| sum.saturating_add(*n));
        let bytes = wanted.saturating_mul(size_of::<ScratchLine>());
        let fault = || Fault::OutOfMemory { device: "cpu".into(), bytes, in_use: 0, reserved: 0 };
        if self.0.len() < wanted {
            // What is there is of no use: it need not move.
            self.0 = Vec::new();
            self.0.try_reserve_exact(wanted).map_err(|_| Error::new(ErrorKind::OutOfMemory, fault()))?;
            self.0.resize(wanted, ScratchLine([0; 64]));
        }
        let mut rest = &mut self.0[..];
        let mut at = 0;
        Ok(sizes.map(|n| {
            let (part, more) = std::mem::take(&mut rest).split_at_mut(lines[at]);
            (rest, at) = (more, at + 1);
            // SAFETY: these lines have room for the elements and are aligned for them, and any bytes are elements.
            unsafe { std::slice::from_raw_parts_mut(part.as_mut_ptr().cast::<T>(), n) }
        }))
    }
}

impl Drop for TaskMemory {
    fn drop(&mut self) {
        if self.0.len() * size_of::<ScratchLine>() <= KEPT {
            ROOM.set(std::mem::take(&mut self.0));
        }
    }
}
