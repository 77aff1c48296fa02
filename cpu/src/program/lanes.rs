//! Moving elements between memory with a stride and registers without.

use super::frame::Cursor;

macro_rules! by_size {
    ($size:expr, $t:ident => $e:expr) => {
        match $size {
            1 => {
                type $t = u8;
                $e
            }
            2 => {
                type $t = u16;
                $e
            }
            4 => {
                type $t = u32;
                $e
            }
            8 => {
                type $t = u64;
                $e
            }
            _ => {
                type $t = [u64; 2];
                $e
            }
        }
    };
}

/// Reads lanes `done..done + n` of a strip into `dst`; `from` is where lane `done` would lie. Lanes outside the cursor's
/// range give its fill and are not read.
///
/// # Safety
/// `dst` is writable for `n` elements of `size` bytes; the lanes within the cursor's range are readable.
#[inline]
pub(crate) unsafe fn load(dst: *mut u8, from: *const u8, cursor: &Cursor, done: usize, n: usize, size: usize) {
    let first = cursor.first.clamp(done, done + n) - done;
    let end = cursor.end.clamp(done + first, done + n) - done;
    // SAFETY: `first <= end <= n`; the rest is the caller's promise.
    unsafe {
        if first > 0 {
            fill(dst, &cursor.fill, first, size);
        }
        if end > first {
            let from = from.wrapping_offset(first as isize * cursor.stride);
            gather(dst.add(first * size), from, cursor.stride, end - first, size);
        }
        if end < n {
            fill(dst.add(end * size), &cursor.fill, n - end, size);
        }
    }
}

/// One value into `n` elements.
unsafe fn fill(dst: *mut u8, value: &u128, n: usize, size: usize) {
    by_size!(size, T => {
        // SAFETY: the caller promises `n` elements; the value has 16 bytes.
        unsafe {
            let x = (&raw const *value).cast::<T>().read_unaligned();
            for i in 0..n {
                dst.cast::<T>().add(i).write_unaligned(x);
            }
        }
    })
}

/// `dst[i] = from[i * stride]`, the stride in bytes.
///
/// # Safety
/// All those elements of `size` bytes exist.
pub(crate) unsafe fn gather(dst: *mut u8, from: *const u8, stride: isize, n: usize, size: usize) {
    if stride == size as isize {
        // SAFETY: both sides have `n` neighbouring elements; they may be the same memory.
        unsafe { std::ptr::copy(from, dst, n * size) };
        return;
    }
    by_size!(size, T => {
        let dst = dst.cast::<T>();
        // SAFETY: the caller promises every element at its stride.
        unsafe {
            let mut i = 0;
            while i + 4 <= n {
                let p = from.offset(i as isize * stride);
                let a = p.cast::<T>().read_unaligned();
                let b = p.offset(stride).cast::<T>().read_unaligned();
                let c = p.offset(2 * stride).cast::<T>().read_unaligned();
                let d = p.offset(3 * stride).cast::<T>().read_unaligned();
                dst.add(i).cast::<[T; 4]>().write_unaligned([a, b, c, d]);
                i += 4;
            }
            while i < n {
                dst.add(i).write_unaligned(from.offset(i as isize * stride).cast::<T>().read_unaligned());
                i += 1;
            }
        }
    })
}

/// `to[i * stride] = src[i]`, the stride in bytes.
///
/// # Safety
/// All those elements of `size` bytes exist.
pub(crate) unsafe fn scatter(to: *mut u8, stride: isize, src: *const u8, n: usize, size: usize) {
    if stride == size as isize {
        // SAFETY: both sides have `n` neighbouring elements.
        unsafe { std::ptr::copy(src, to, n * size) };
        return;
    }
    by_size!(size, T => {
        for i in 0..n {
            // SAFETY: the caller promises every element at its stride.
            unsafe {
                let x = src.cast::<T>().add(i).read_unaligned();
                to.offset(i as isize * stride).cast::<T>().write_unaligned(x);
            }
        }
    })
}

/// Orders streamed stores before what follows.
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64; a fence has no other effect.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
