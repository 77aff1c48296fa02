//! One line of windows: which elements they have, and vectors of neighbouring windows.

use std::ops::Range;

use half::{bf16, f16};
use millstream_core::Reduce;

/// An element of the windows: where it lies from the window's first pixel, and the lanes that have it.
#[derive(Clone)]
pub(super) struct WindowElement {
    pub offset: isize,
    pub lanes: Range<usize>,
}

/// What changes nothing.
pub(super) fn neutral(what: Reduce) -> Option<f32> {
    match what {
        Reduce::Max => Some(f32::NEG_INFINITY),
        Reduce::Min => Some(f32::INFINITY),
        Reduce::Sum => Some(0.0),
        _ => None,
    }
}

/// An image's element, computed with as f32.
pub(super) trait PixelElement: Copy + Send + 'static {
    /// Its value.
    fn value(self) -> f32;

    /// Its value.
    ///
    /// # Safety
    /// AVX2 and F16C are present.
    #[cfg(target_arch = "x86_64")]
    unsafe fn quick(self) -> f32;

    /// Eight elements `STEP` (1 or 2) apart, and nothing behind the last.
    ///
    /// # Safety
    /// AVX2 and F16C are present; the elements and what lies between them are readable.
    #[cfg(target_arch = "x86_64")]
    unsafe fn load<const STEP: usize>(from: *const Self) -> core::arch::x86_64::__m256;
}

/// The reduction of values, one after the other; of equal ones, as the two zeros are, the first, as by vectors.
#[inline(always)]
fn joined(what: Reduce, acc: f32, x: f32) -> f32 {
    match what {
        Reduce::Max if acc.is_nan() || acc >= x => acc,
        Reduce::Min if acc.is_nan() || acc <= x => acc,
        Reduce::Sum => acc + x,
        _ => x,
    }
}

/// The elements of a line's windows, and those of each lane that lacks some.
pub(super) struct WindowLine {
    /// Where the elements lie from a window's first pixel.
    offsets: Vec<isize>,
    /// The lanes that have all elements.
    inside: Range<usize>,
    /// The other lanes, each with the end of its elements in the list of all of theirs, which lie from the line's first pixel.
    edges: Vec<(usize, usize)>,
    held: Vec<isize>,
}

impl WindowLine {
    /// A line of so many lanes, `step` apart in the image.
    pub fn new(elements: &[WindowElement], lanes: usize, step: isize) -> WindowLine {
        let first = elements.iter().map(|e| e.lanes.start).max().unwrap_or(0).min(lanes);
        let end = elements.iter().map(|e| e.lanes.end).min().unwrap_or(lanes).max(first);
        let (mut edges, mut held) = (Vec::new(), Vec::new());
        for i in (0..first).chain(end..lanes) {
            let has = elements.iter().filter(|e| e.lanes.contains(&i));
            held.extend(has.map(|e| e.offset + i as isize * step));
            edges.push((i, held.len()));
        }
        WindowLine { offsets: elements.iter().map(|e| e.offset).collect(), inside: first..end, edges, held }
    }

    /// Reduces all windows. `vectors` says whether AVX2 and F16C are present.
    ///
    /// # Safety
    /// Each element is readable, from `image` on, at `step` times each of the lanes that have it; `out` is writable for all lanes.
    pub unsafe fn run<T: PixelElement>(
        &self,
        what: Reduce,
        image: *const T,
        step: isize,
        out: *mut f32,
        vectors: bool,
    ) {
        // SAFETY: passed on.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if vectors {
                match (step, what) {
                    (1, Reduce::Max) => avx2::line::<T, 1, { avx2::MAX }>(self, image, out),
                    (1, Reduce::Min) => avx2::line::<T, 1, { avx2::MIN }>(self, image, out),
                    (1, _) => avx2::line::<T, 1, { avx2::SUM }>(self, image, out),
                    (_, Reduce::Max) => avx2::line::<T, 2, { avx2::MAX }>(self, image, out),
                    (_, Reduce::Min) => avx2::line::<T, 2, { avx2::MIN }>(self, image, out),
                    (_, _) => avx2::line::<T, 2, { avx2::SUM }>(self, image, out),
                }
                return;
            }
            let _ = vectors;
            let reduced = |image: *const T, offsets: &[isize]| {
                let mut acc = neutral(what).unwrap_or(0.0);
                for &offset in offsets {
                    acc = joined(what, acc, image.wrapping_offset(offset).read().value());
                }
                acc
            };
            let mut start = 0;
            for &(lane, end) in &self.edges {
                out.add(lane).write(reduced(image, &self.held[start..end]));
                start = end;
            }
            for i in self.inside.clone() {
                out.add(i).write(reduced(image.wrapping_offset(i as isize * step), &self.offsets));
            }
        }
    }
}

impl PixelElement for f32 {
    #[inline(always)]
    fn value(self) -> f32 {
        self
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn quick(self) -> f32 {
        self
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load<const STEP: usize>(from: *const f32) -> core::arch::x86_64::__m256 {
        use core::arch::x86_64::*;
        // SAFETY: the caller's.
        unsafe {
            let low = _mm256_loadu_ps(from);
            if STEP == 1 {
                return low;
            }
            let high = _mm256_loadu_ps(from.add(7));
            // 0 2 8 10 4 6 12 14, then in order.
            let mixed = _mm256_shuffle_ps::<0b11_01_10_00>(low, high);
            _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(mixed)))
        }
    }
}

impl PixelElement for f16 {
    #[inline(always)]
    fn value(self) -> f32 {
        self.to_f32()
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn quick(self) -> f32 {
        {
            use core::arch::x86_64::*;
            _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(self.to_bits()))))
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load<const STEP: usize>(from: *const f16) -> core::arch::x86_64::__m256 {
        // SAFETY: the caller's.
        unsafe { core::arch::x86_64::_mm256_cvtph_ps(avx2::halves::<STEP>(from.cast())) }
    }
}

impl PixelElement for bf16 {
    #[inline(always)]
    fn value(self) -> f32 {
        self.to_f32()
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn quick(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load<const STEP: usize>(from: *const bf16) -> core::arch::x86_64::__m256 {
        use core::arch::x86_64::*;
        // SAFETY: the caller's.
        let wide = unsafe { _mm256_cvtepu16_epi32(avx2::halves::<STEP>(from.cast())) };
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use core::arch::x86_64::*;
    use std::ops::Range;

    use millstream_core::Reduce;

    use super::{PixelElement, WindowLine, joined};

    const LANES: usize = 8;
    pub const MAX: u8 = 0;
    pub const MIN: u8 = 1;
    pub const SUM: u8 = 2;

    /// A line of windows `STEP` (1 or 2) apart.
    ///
    /// # Safety
    /// As for [`WindowLine::run`]; AVX2 and F16C are present.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub unsafe fn line<T: PixelElement, const STEP: usize, const WHAT: u8>(
        line: &WindowLine,
        image: *const T,
        out: *mut f32,
    ) {
        let (what, none) = match WHAT {
            MAX => (Reduce::Max, f32::NEG_INFINITY),
            MIN => (Reduce::Min, f32::INFINITY),
            _ => (Reduce::Sum, 0.0),
        };
        // SAFETY: the caller's; the lanes of vectors have all elements.
        unsafe {
            let one = |image: *const T, offsets: &[isize]| {
                let mut acc = none;
                for &offset in offsets {
                    acc = joined(what, acc, image.wrapping_offset(offset).read().quick());
                }
                acc
            };
            let mut start = 0;
            for &(lane, end) in &line.edges {
                out.add(lane).write(one(image, line.held.get_unchecked(start..end)));
                start = end;
            }
            let Range { start: mut at, end } = line.inside;
            while at + 2 * LANES <= end {
                vectors::<T, STEP, WHAT, 2>(&line.offsets, image, at, out);
                at += 2 * LANES;
            }
            while at < end && line.inside.len() >= LANES {
                // The last vector may go over lanes that the one before has written already.
                vectors::<T, STEP, WHAT, 1>(&line.offsets, image, at.min(end - LANES), out);
                at += LANES;
            }
            while at < end {
                out.add(at).write(one(image.wrapping_add(at * STEP), &line.offsets));
                at += 1;
            }
        }
    }

    /// `N` vectors of lanes from `at` on.
    ///
    /// # Safety
    /// All these lanes have all elements.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn vectors<T: PixelElement, const STEP: usize, const WHAT: u8, const N: usize>(
        offsets: &[isize],
        image: *const T,
        at: usize,
        out: *mut f32,
    ) {
        let start = match WHAT {
            MAX => f32::NEG_INFINITY,
            MIN => f32::INFINITY,
            _ => 0.0,
        };
        let (mut acc, mut none) = ([_mm256_set1_ps(start); N], [_mm256_setzero_ps(); N]);
        let image = image.wrapping_add(at * STEP);
        for &offset in offsets {
            for n in 0..N {
                // SAFETY: the caller's.
                let x = unsafe { T::load::<STEP>(image.wrapping_offset(offset).wrapping_add(n * LANES * STEP)) };
                acc[n] = match WHAT {
                    // The second operand is the result where one is NaN: lanes with a NaN are noted, so that no step waits for that.
                    MAX => _mm256_max_ps(x, acc[n]),
                    MIN => _mm256_min_ps(x, acc[n]),
                    _ => _mm256_add_ps(acc[n], x),
                };
                if WHAT != SUM {
                    none[n] = _mm256_or_ps(none[n], _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
                }
            }
        }
        for n in 0..N {
            // SAFETY: the caller's.
            unsafe { _mm256_storeu_ps(out.add(at + n * LANES), _mm256_or_ps(acc[n], none[n])) };
        }
    }

    /// Eight elements of two bytes, `STEP` (1 or 2) apart, and nothing behind the last.
    ///
    /// # Safety
    /// They and what lies between them are readable.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub unsafe fn halves<const STEP: usize>(from: *const u16) -> __m128i {
        // SAFETY: the caller's.
        unsafe {
            let low = _mm_loadu_si128(from.cast());
            if STEP == 1 {
                return low;
            }
            let high = _mm_loadu_si128(from.add(7).cast());
            // The even ones of the first eight, and of those from the eighth on the odd ones.
            let even = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1);
            let odd = _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, 2, 3, 6, 7, 10, 11, 14, 15);
            _mm_or_si128(_mm_shuffle_epi8(low, even), _mm_shuffle_epi8(high, odd))
        }
    }
}
