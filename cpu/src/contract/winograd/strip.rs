//! A few rows of an image with its border, channels contiguous.

use super::ImageAxis;
use super::transform::BLOCK;

/// Pixels and channels that are transposed at once.
const EIGHT: usize = 8;

/// What is copied: rows of at most [`BLOCK`] channels.
pub(super) struct Window {
    /// The first channel's element of all coordinates 0.
    pub image: *const f32,
    pub channel: isize,
    pub channels: usize,
    pub y: ImageAxis,
    pub x: ImageAxis,
    /// The coordinate of the first row; columns begin at the offset of `x`.
    pub row: isize,
    pub rows: usize,
    pub columns: usize,
}

impl Window {
    /// Writes `rows` rows of `columns` pixels of [`BLOCK`] channels; zeros where there is no element.
    ///
    /// # Safety
    /// Elements of these channels are readable where both coordinates are in their limits; `to` is writable for all.
    pub(super) unsafe fn copy(&self, to: *mut f32) {
        let end = self.columns as isize;
        let first = (-self.x.offset).clamp(0, end);
        let last = (self.x.limit.saturating_sub(self.x.offset)).clamp(first, end);
        let (first, count) = (first as usize, (last - first) as usize);
        for r in 0..self.rows {
            let to = to.wrapping_add(r * self.columns * BLOCK);
            let y = self.row + r as isize;
            // SAFETY: the caller's: a row of the copy, and elements inside the limits.
            unsafe {
                if !(0..self.y.limit).contains(&y) || count == 0 {
                    to.write_bytes(0, self.columns * BLOCK);
                    continue;
                }
                to.write_bytes(0, first * BLOCK);
                let begin = (first as isize + self.x.offset) * self.x.step;
                let from = self.image.wrapping_offset(y * self.y.step + begin);
                self.row(from, count, to.wrapping_add(first * BLOCK));
                to.wrapping_add((first + count) * BLOCK).write_bytes(0, (self.columns - first - count) * BLOCK);
            }
        }
    }

    /// # Safety
    /// `from` is readable for `count` pixels of all channels, `to` writable for as many of [`BLOCK`].
    unsafe fn row(&self, from: *const f32, count: usize, to: *mut f32) {
        if self.channel == 1 {
            for p in 0..count {
                let (from, to) = (from.wrapping_offset(p as isize * self.x.step), to.wrapping_add(p * BLOCK));
                // SAFETY: the caller's.
                unsafe {
                    if self.channels == BLOCK {
                        to.cast::<[f32; BLOCK]>().write_unaligned(from.cast::<[f32; BLOCK]>().read_unaligned());
                    } else {
                        to.write_bytes(0, BLOCK);
                        for c in 0..self.channels {
                            to.add(c).write(from.add(c).read_unaligned());
                        }
                    }
                }
            }
            return;
        }
        for c in (0..BLOCK).step_by(EIGHT) {
            let (from, to) = (from.wrapping_offset(c as isize * self.channel), to.wrapping_add(c));
            let here = self.channels.saturating_sub(c).min(EIGHT);
            let whole = here == EIGHT && self.x.step == 1 && count >= EIGHT;
            let mut p = 0;
            while whole && p < count {
                // The last piece goes over pixels that are there already.
                let at = p.min(count - EIGHT);
                // SAFETY: eight channels of eight pixels of both.
                let transposed = unsafe {
                    crate::contract::direct::transpose_eight(
                        from.wrapping_add(at),
                        self.channel,
                        to.wrapping_add(at * BLOCK),
                        BLOCK,
                    )
                };
                if !transposed {
                    break;
                }
                p += EIGHT;
            }
            for p in p.min(count)..count {
                for i in 0..EIGHT {
                    let at = i as isize * self.channel + p as isize * self.x.step;
                    // SAFETY: the caller's.
                    unsafe {
                        let value = if i < here { from.wrapping_offset(at).read_unaligned() } else { 0.0 };
                        to.wrapping_add(p * BLOCK + i).write(value);
                    }
                }
            }
        }
    }
}
