//! From indices to positions: each index is counted from the end if it is negative, held against its axis, and becomes bytes.

use millstream_core::{DType, Lookup};

use super::NOWHERE;

/// Adds the share of one axis to each position; one that does not exist becomes [`NOWHERE`] and stays so. Whether all exist along
/// this axis.
///
/// # Safety
/// There is a index of this dtype for each position, `step` bytes from one to the next.
#[inline(always)]
pub(super) unsafe fn look_up(
    positions: &mut [isize],
    dtype: DType,
    from: *const u8,
    step: isize,
    lookup: &Lookup,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        match dtype {
            DType::I8 => add::<i8>(positions, from, step, lookup),
            DType::I16 => add::<i16>(positions, from, step, lookup),
            DType::I32 => add::<i32>(positions, from, step, lookup),
            DType::U8 => add::<u8>(positions, from, step, lookup),
            DType::U16 => add::<u16>(positions, from, step, lookup),
            DType::U32 => add::<u32>(positions, from, step, lookup),
            DType::U64 => add::<u64>(positions, from, step, lookup),
            _ => add::<i64>(positions, from, step, lookup),
        }
    }
}

/// The index of this dtype that lies here.
///
/// # Safety
/// There is one.
pub(super) unsafe fn read(dtype: DType, at: *const u8) -> i128 {
    macro_rules! by {
        ($($name:ident $t:ty),+; $rest:ty) => {
            match dtype {
                // SAFETY: the caller's promise.
                $(DType::$name => unsafe { at.cast::<$t>().read_unaligned() }.into(),)+
                // SAFETY: as above.
                _ => unsafe { at.cast::<$rest>().read_unaligned() }.into(),
            }
        };
    }
    by!(I8 i8, I16 i16, I32 i32, U8 u8, U16 u16, U32 u32, U64 u64; i64)
}

/// An integer as a index; one that is larger than all indices stays so.
pub(super) trait TableIndex: Copy {
    fn as_index(self) -> i64;
}

macro_rules! table_index {
    ($($t:ty),+) => {$(
        impl TableIndex for $t {
            #[inline(always)]
            fn as_index(self) -> i64 {
                i64::try_from(self).unwrap_or(i64::MAX)
            }
        }
    )+};
}
table_index!(i8, i16, i32, i64, u8, u16, u32, u64);

#[inline(always)]
unsafe fn add<T: TableIndex>(positions: &mut [isize], from: *const u8, step: isize, lookup: &Lookup) -> bool {
    // The compiler makes vectors of a loop over neighbours only if it knows that they are.
    // SAFETY: the caller's promise.
    unsafe {
        if step == size_of::<T>() as isize {
            each(positions, lookup, |i| from.cast::<T>().add(i).read_unaligned())
        } else {
            each(positions, lookup, |i| from.offset(i as isize * step).cast::<T>().read_unaligned())
        }
    }
}

#[inline(always)]
fn each<T: TableIndex>(positions: &mut [isize], lookup: &Lookup, read: impl Fn(usize) -> T) -> bool {
    let size = lookup.size as i64;
    let mut outside = 0;
    for (i, p) in positions.iter_mut().enumerate() {
        let wanted = read(i).as_index();
        let wanted = wanted.wrapping_add(size & (wanted >> 63));
        let exists = (wanted as u64) < size as u64;
        outside |= i64::from(!exists);
        let there = p.wrapping_add((wanted as isize).wrapping_mul(lookup.stride));
        *p = if exists && *p != NOWHERE { there } else { NOWHERE };
    }
    outside == 0
}
