//! Operands as slices of their element type, and rows of them for tasks.

use std::ops::Range;

use millstream_core::what::Fork;
use millstream_core::{Element, Error, Result};

/// The elements of an input.
pub(crate) fn read<T: Element>(bytes: &[u8]) -> Result<&[T]> {
    check::<T>(bytes.as_ptr(), bytes.len())?;
    // SAFETY: address and length are right for T; elements are plain data, and the bytes of bool tensors are 0 or 1.
    Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) })
}

/// The elements of an output.
pub(crate) fn write<T: Element>(bytes: &mut [u8]) -> Result<&mut [T]> {
    check::<T>(bytes.as_ptr(), bytes.len())?;
    if T::DTYPE == millstream_core::DType::Bool {
        // What lies there may be no truth value yet.
        bytes.fill(0);
    }
    // SAFETY: as in `read`; every other element type takes any bytes.
    Ok(unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / size_of::<T>()) })
}

/// The elements of an output that may not be wanted.
pub(crate) fn write_if<'a, T: Element>(output: &'a mut Option<&mut [u8]>) -> Result<Option<&'a mut [T]>> {
    output.as_mut().map(|bytes| write(bytes)).transpose()
}

fn check<T>(at: *const u8, bytes: usize) -> Result<()> {
    if bytes.is_multiple_of(size_of::<T>()) && at.addr().is_multiple_of(align_of::<T>()) {
        Ok(())
    } else {
        Err(Error::internal("an operand of a host function is not made of its elements"))
    }
}

/// Rows of some outputs, for tasks that each write their own.
pub(crate) struct Rows<T> {
    start: *mut T,
    row: usize,
    rows: usize,
}

// SAFETY: `Rows` only hands out disjoint rows, each once at a time, as its one user `rows` sees to.
unsafe impl<T: Send> Sync for Rows<T> {}

impl<T> Rows<T> {
    /// `rows` rows of `row` elements, or no rows to write at all.
    pub(crate) fn new(slice: Option<&mut [T]>, rows: usize) -> Rows<T> {
        match slice {
            Some(slice) => {
                let row = slice.len().checked_div(rows).unwrap_or(0);
                Rows { start: slice.as_mut_ptr(), row, rows }
            }
            None => Rows { start: std::ptr::null_mut(), row: 0, rows: 0 },
        }
    }

    /// Row `i`; `None` if there are none.
    ///
    /// # Safety
    /// No two live slices may be of one row, and the slice that this was made of must outlive them.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn at(&self, i: usize) -> Option<&mut [T]> {
        // SAFETY: row `i` lies inside the slice; the caller sees to it that nobody else has it.
        (i < self.rows)
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.start.wrapping_add(i * self.row), self.row) })
    }
}

/// Memory that tasks share, each writing elements of its own.
pub(crate) struct Raw<T>(*mut T);

impl<T> Clone for Raw<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Raw<T> {}

// SAFETY: whoever calls its functions promises that no two threads use one element.
unsafe impl<T: Send> Sync for Raw<T> {}
// SAFETY: as before.
unsafe impl<T: Send> Send for Raw<T> {}

impl<T> Raw<T> {
    #[inline]
    pub(crate) fn of(slice: &mut [T]) -> Raw<T> {
        Raw(slice.as_mut_ptr())
    }

    /// The memory of an output. Before it is read as `T`, values of `T` have to be there.
    pub(crate) fn output(bytes: &mut [u8]) -> Result<Raw<T>> {
        check::<T>(bytes.as_ptr(), bytes.len())?;
        Ok(Raw(bytes.as_mut_ptr().cast()))
    }

    /// The same memory as that of others.
    #[inline]
    pub(crate) fn cast<U>(self) -> Raw<U> {
        Raw(self.0.cast())
    }

    /// From the element `at` on.
    ///
    /// # Safety
    /// There are at least `at` elements.
    #[inline]
    pub(crate) unsafe fn from(self, at: usize) -> Raw<T> {
        // SAFETY: the caller's promise.
        Raw(unsafe { self.0.add(at) })
    }

    /// # Safety
    /// There is an element `at`, which nobody else uses now.
    #[inline]
    pub(crate) unsafe fn write(self, at: usize, value: T) {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(at).write(value) }
    }

    /// # Safety
    /// There is an element `at`, which nobody writes now.
    #[inline]
    pub(crate) unsafe fn read(self, at: usize) -> T
    where
        T: Copy,
    {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(at).read() }
    }

    /// # Safety
    /// There are these elements, which nobody else uses as long as the slice lives, and the memory outlives it.
    #[inline]
    pub(crate) unsafe fn slice<'a>(self, range: Range<usize>) -> &'a mut [T] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(range.start), range.len()) }
    }
}

/// Elements of work that make a task worth handing over.
pub(crate) const TASK: usize = 1 << 14;

/// Calls `f` with all of `rows` rows in ranges, each of which is a task; a row is `work` elements.
pub(crate) fn for_ranges(fork: &dyn Fork, rows: usize, work: usize, f: &(dyn Fn(Range<usize>) + Sync)) {
    let each = (TASK / work.max(1)).clamp(1, rows.max(1));
    fork.run(rows.div_ceil(each), &|task| f(task * each..rows.min((task + 1) * each)));
}

/// Calls `f` for every row, several rows of `work` elements each to a task. The first error wins.
pub(crate) fn for_rows(
    fork: &dyn Fork,
    rows: usize,
    work: usize,
    f: &(dyn Fn(usize) -> Result<()> + Sync),
) -> Result<()> {
    let failure = std::sync::Mutex::new(None);
    for_ranges(fork, rows, work, &|range| {
        for row in range {
            if let Err(error) = f(row) {
                let mut first = failure.lock().unwrap_or_else(|p| p.into_inner());
                // The first row's error, whichever thread was faster.
                if first.as_ref().is_none_or(|(at, _)| row < *at) {
                    *first = Some((row, error));
                }
                return;
            }
        }
    });
    match failure.into_inner().unwrap_or_else(|p| p.into_inner()) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

/// Calls `$body` with `$T` the Rust type of a dtype.
macro_rules! with_type {
    ($dtype:expr, $T:ident => $body:expr) => {{
        use millstream_core::DType;
        macro_rules! of {
            ($type:ty) => {{
                type $T = $type;
                $body
            }};
        }
        match $dtype {
            DType::Bool => of!(bool),
            DType::I8 => of!(i8),
            DType::I16 => of!(i16),
            DType::I32 => of!(i32),
            DType::I64 => of!(i64),
            DType::U8 => of!(u8),
            DType::U16 => of!(u16),
            DType::U32 => of!(u32),
            DType::U64 => of!(u64),
            DType::F16 => of!(half::f16),
            DType::BF16 => of!(half::bf16),
            DType::F32 => of!(f32),
            DType::F64 => of!(f64),
            DType::C64 => of!(num_complex::Complex<f32>),
            DType::C128 => of!(num_complex::Complex<f64>),
        }
    }};
}
pub(crate) use with_type;
