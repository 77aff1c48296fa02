//! Lookups: elements of a table at places that other inputs say.
//!
//! Where the places are the same along the last dimension and table and result lie side by side, as for the rows of an
//! embedding, whole runs are copied. Elsewhere positions are computed for a block of elements, then the elements moved.

use std::sync::Arc;

use millstream_core::backend::{Bindings, Kernel, Launch};
use millstream_core::{Body, DType, Dims, Error, Lookup, Op, Result};
use smallvec::SmallVec;

use crate::backend::Machine;
use crate::program::{Base, Operand, bases, seek, step};
use crate::stream::{CpuLaunch, Run};

/// Elements whose positions are known at a time.
const BLOCK: usize = 256;
/// Bytes of results that make a task.
const TASK: usize = 256 << 10;
/// The position of an element that does not exist.
const NOWHERE: isize = isize::MIN;

/// A lookup compiled for the CPU: there is nothing to compile.
pub(crate) struct GatherKernel {
    machine: Arc<Machine>,
}

impl GatherKernel {
    pub(crate) fn new(machine: Arc<Machine>) -> GatherKernel {
        GatherKernel { machine }
    }
}

impl Kernel for GatherKernel {
    fn text(&self) -> String {
        "gather: positions of a block of elements, then the elements\n".into()
    }

    fn prepare(&self, op: &Op) -> Result<Arc<dyn Launch>> {
        let Body::Gather(lookups) = &op.body else {
            return Err(Error::internal(format!("a {} operation is no lookup", op.name())));
        };
        let size = op.inputs[0].dtype.size();
        let lookups: SmallVec<[Lookup; 2]> =
            lookups.iter().map(|l| Lookup { stride: l.stride * size as isize, ..*l }).collect();
        let operands: Vec<Operand> = op.inputs.iter().chain(&op.outputs).map(Operand::new).collect();
        let last = op.dims.len().checked_sub(1);
        let output = operands.len() - 1;
        let runs = last.is_some_and(|d| {
            let beside = |o: &Operand| o.strides[d] == size as isize;
            beside(&operands[0]) && beside(&operands[output]) && operands[1..output].iter().all(|o| o.ignores(d))
        });
        let strips: usize = op.dims.iter().take(last.unwrap_or(0)).product();
        let lanes = last.map_or(1, |d| op.dims[d]);
        let per_task = (TASK / (lanes * size).max(1)).max(1);
        Ok(Arc::new(CpuLaunch(Arc::new(Gather {
            machine: self.machine.clone(),
            fill: op.inputs[0].fill.bytes(),
            dims: op.dims.clone(),
            outer: (0..last.unwrap_or(0)).collect(),
            empty: op.dims.contains(&0),
            places: op.inputs[1..].iter().map(|a| a.dtype).collect(),
            size,
            lookups,
            operands,
            runs,
            strips,
            lanes,
            per_task,
        }))))
    }
}

struct Gather {
    machine: Arc<Machine>,
    fill: [u8; 16],
    dims: Dims,
    outer: SmallVec<[usize; 6]>,
    empty: bool,
    /// The dtypes of the places.
    places: SmallVec<[DType; 2]>,
    /// Bytes of an element.
    size: usize,
    /// Strides in bytes.
    lookups: SmallVec<[Lookup; 2]>,
    /// The table, the places, the result.
    operands: Vec<Operand>,
    /// Whether whole strips are copied.
    runs: bool,
    strips: usize,
    lanes: usize,
    per_task: usize,
}

impl Run for Gather {
    fn execute(&self, bindings: &Bindings<'_>) -> Result<()> {
        if self.empty {
            return Ok(());
        }
        let bases = bases(bindings, &self.operands)?;
        self.machine.workers.run(self.strips.div_ceil(self.per_task), &|t| {
            let from = t * self.per_task;
            self.strips(&bases, from, self.strips.min(from + self.per_task));
        });
        Ok(())
    }
}

impl Gather {
    fn strips(&self, bases: &[Base], from: usize, to: usize) {
        let last = self.operands.len() - 1;
        let lane = self.outer.len();
        let stride = |o: usize| self.operands[o].strides.get(lane).copied().unwrap_or(0);
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.dims.len());
        seek(&mut index, &self.dims, &self.outer, from);
        let mut positions = [0isize; BLOCK];
        for _ in from..to {
            let at = |o: usize| bases[o].first.wrapping_offset(self.operands[o].offset(&index));
            let (table, result) = (at(0), at(last));
            let count = if self.runs { 1 } else { self.lanes };
            let mut done = 0;
            while done < count {
                let n = (count - done).min(BLOCK);
                for (i, p) in positions[..n].iter_mut().enumerate() {
                    *p = (done + i) as isize * stride(0);
                }
                for (j, lookup) in self.lookups.iter().enumerate() {
                    let from = at(j + 1).wrapping_offset(done as isize * stride(j + 1));
                    // SAFETY: the dispatcher checked that all places of the index space lie in their binding.
                    unsafe { look_up(&mut positions[..n], self.places[j], from, stride(j + 1), lookup) };
                }
                let to = result.wrapping_offset(done as isize * stride(last));
                // SAFETY: the dispatcher checked the result's places and the table's reach over all lookups; a position that is
                // not `NOWHERE` is within that reach.
                unsafe {
                    if self.runs {
                        self.run(table, positions[0], to);
                    } else {
                        self.elements(table, &positions[..n], to, stride(last));
                    }
                }
                done += n;
            }
            step(&mut index, &self.dims, &self.outer);
        }
    }

    /// Copies a whole strip, or fills it.
    unsafe fn run(&self, table: *const u8, position: isize, to: *mut u8) {
        let bytes = self.lanes * self.size;
        // SAFETY: as promised by the caller.
        unsafe {
            if position != NOWHERE {
                std::ptr::copy_nonoverlapping(table.wrapping_offset(position), to, bytes);
            } else {
                for i in 0..self.lanes {
                    std::ptr::copy_nonoverlapping(self.fill.as_ptr(), to.add(i * self.size), self.size);
                }
            }
        }
    }

    unsafe fn elements(&self, table: *const u8, positions: &[isize], to: *mut u8, stride: isize) {
        // SAFETY: as promised by the caller.
        unsafe {
            match self.size {
                1 => moved::<1>(table, positions, to, stride, &self.fill),
                2 => moved::<2>(table, positions, to, stride, &self.fill),
                4 => moved::<4>(table, positions, to, stride, &self.fill),
                8 => moved::<8>(table, positions, to, stride, &self.fill),
                _ => moved::<16>(table, positions, to, stride, &self.fill),
            }
        }
    }
}

/// Moves elements of `N` bytes from their positions.
unsafe fn moved<const N: usize>(table: *const u8, positions: &[isize], to: *mut u8, stride: isize, fill: &[u8; 16]) {
    for (i, &p) in positions.iter().enumerate() {
        let from = if p == NOWHERE { fill.as_ptr() } else { table.wrapping_offset(p) };
        // SAFETY: as promised by the caller; the element of a fill value has at most 16 bytes.
        unsafe {
            to.offset(i as isize * stride).cast::<[u8; N]>().write_unaligned(from.cast::<[u8; N]>().read_unaligned())
        };
    }
}

/// Adds the share of one axis to each position.
unsafe fn look_up(positions: &mut [isize], dtype: DType, from: *const u8, stride: isize, lookup: &Lookup) {
    // SAFETY: as promised by the caller.
    unsafe {
        match dtype {
            DType::I8 => add::<i8>(positions, from, stride, lookup),
            DType::I16 => add::<i16>(positions, from, stride, lookup),
            DType::I32 => add::<i32>(positions, from, stride, lookup),
            DType::U8 => add::<u8>(positions, from, stride, lookup),
            DType::U16 => add::<u16>(positions, from, stride, lookup),
            DType::U32 => add::<u32>(positions, from, stride, lookup),
            DType::U64 => add::<u64>(positions, from, stride, lookup),
            _ => add::<i64>(positions, from, stride, lookup),
        }
    }
}

/// An integer as a place; one that is larger than all places stays so.
trait Place: Copy {
    fn place(self) -> i64;
}

macro_rules! places {
    ($($t:ty),+) => {$(
        impl Place for $t {
            fn place(self) -> i64 {
                i64::try_from(self).unwrap_or(i64::MAX)
            }
        }
    )+};
}
places!(i8, i16, i32, i64, u8, u16, u32, u64);

unsafe fn add<T: Place>(positions: &mut [isize], from: *const u8, stride: isize, lookup: &Lookup) {
    let size = lookup.size as i64;
    for (i, p) in positions.iter_mut().enumerate() {
        // SAFETY: as promised by the caller.
        let wanted = unsafe { from.offset(i as isize * stride).cast::<T>().read_unaligned() }.place();
        let wanted = if wanted < 0 { wanted.wrapping_add(size) } else { wanted };
        let inside = (0..size).contains(&wanted) && *p != NOWHERE;
        *p = if inside { *p + wanted as isize * lookup.stride } else { NOWHERE };
    }
}
