//! One line of windows: which elements they have, and vectors of neighbouring windows.

use std::ops::Range;

use half::{bf16, f16};
use millstream_core::Reduce;

/// An element of the windows: where it lies from the window's first place, and the lanes that have it.
#[derive(Clone)]
pub(super) struct Element {
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

/// The lanes that have all these elements.
pub(super) fn common(elements: &[Element], lanes: usize) -> Range<usize> {
    let first = elements.iter().map(|e| e.lanes.start).max().unwrap_or(0);
    let end = elements.iter().map(|e| e.lanes.end).min().unwrap_or(lanes);
    first..end.max(first)
}

/// An image's element, computed with as f32.
pub(super) trait Pixel: Copy + Send + 'static {
    /// Its value.
    fn value(self) -> f32;

    /// Eight elements `STEP` (1 or 2) apart, and nothing behind the last.
    ///
    /// # Safety
    /// AVX2 and F16C are present; the elements and what lies between them are readable.
    #[cfg(target_arch = "x86_64")]
    unsafe fn load<const STEP: usize>(from: *const Self) -> core::arch::x86_64::__m256;
}

/// The reduction of elements at these places, one after the other.
///
/// # Safety
/// They are readable.
unsafe fn reduced<T: Pixel>(what: Reduce, image: *const T, offsets: impl Iterator<Item = isize>) -> f32 {
    let mut acc = neutral(what).unwrap_or(0.0);
    for offset in offsets {
        // SAFETY: the caller's.
        let x = unsafe { image.wrapping_offset(offset).read() }.value();
        acc = match what {
            Reduce::Max if acc.is_nan() || acc > x => acc,
            Reduce::Min if acc.is_nan() || acc < x => acc,
            Reduce::Sum => acc + x,
            _ => x,
        };
    }
    acc
}

/// The elements of a line's windows, and those of each lane that lacks some.
#[derive(Clone, Default)]
pub(super) struct Line {
    elements: Vec<Element>,
    /// The lanes that have all elements.
    inside: Range<usize>,
    /// For each other lane, the elements that it has.
    edges: Vec<(usize, Vec<isize>)>,
}

impl Line {
    /// A line of so many lanes, `step` apart in the image.
    pub fn new(elements: Vec<Element>, lanes: usize, step: isize) -> Line {
        let inside = common(&elements, lanes);
        let edges = (0..inside.start.min(lanes))
            .chain(inside.end..lanes)
            .map(|i| {
                let has = elements.iter().filter(|e| e.lanes.contains(&i));
                (i, has.map(|e| e.offset + i as isize * step).collect())
            })
            .collect();
        Line { elements, inside, edges }
    }

    /// Reduces all windows. `vectors` says whether AVX2 and F16C are present.
    ///
    /// # Safety
    /// Each element is readable, from `image` on, at `step` times each of the lanes that have it; `out` is writable for all lanes.
    pub unsafe fn run<T: Pixel>(&self, what: Reduce, image: *const T, step: isize, out: *mut f32, vectors: bool) {
        let inside = self.inside.clone();
        // SAFETY: passed on.
        unsafe {
            for (i, offsets) in &self.edges {
                out.add(*i).write(reduced(what, image, offsets.iter().copied()));
            }
            #[cfg(target_arch = "x86_64")]
            if vectors && inside.len() >= avx2::LANES {
                let all = &self.elements[..];
                match (step, what) {
                    (1, Reduce::Max) => avx2::line::<T, 1, { avx2::MAX }>(image, all, inside, out),
                    (1, Reduce::Min) => avx2::line::<T, 1, { avx2::MIN }>(image, all, inside, out),
                    (1, _) => avx2::line::<T, 1, { avx2::SUM }>(image, all, inside, out),
                    (_, Reduce::Max) => avx2::line::<T, 2, { avx2::MAX }>(image, all, inside, out),
                    (_, Reduce::Min) => avx2::line::<T, 2, { avx2::MIN }>(image, all, inside, out),
                    (_, _) => avx2::line::<T, 2, { avx2::SUM }>(image, all, inside, out),
                }
                return;
            }
            let _ = vectors;
            for i in inside {
                let at = image.wrapping_offset(i as isize * step);
                out.add(i).write(reduced(what, at, self.elements.iter().map(|e| e.offset)));
            }
        }
    }
}

impl Pixel for f32 {
    #[inline(always)]
    fn value(self) -> f32 {
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

impl Pixel for f16 {
    #[inline(always)]
    fn value(self) -> f32 {
        self.to_f32()
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load<const STEP: usize>(from: *const f16) -> core::arch::x86_64::__m256 {
        // SAFETY: the caller's.
        unsafe { core::arch::x86_64::_mm256_cvtph_ps(avx2::halves::<STEP>(from.cast())) }
    }
}

impl Pixel for bf16 {
    #[inline(always)]
    fn value(self) -> f32 {
        self.to_f32()
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

    use super::{Element, Pixel};

    pub const LANES: usize = 8;
    pub const MAX: u8 = 0;
    pub const MIN: u8 = 1;
    pub const SUM: u8 = 2;

    /// These lanes, at least a vector of them, of elements that lie `STEP` apart.
    ///
    /// # Safety
    /// AVX2 and F16C are present; each element is readable at `STEP` times each of the lanes, from `image` on, and `out` writable at
    /// them.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub unsafe fn line<T: Pixel, const STEP: usize, const WHAT: u8>(
        image: *const T,
        live: &[Element],
        lanes: Range<usize>,
        out: *mut f32,
    ) {
        let Range { start: mut at, end } = lanes;
        loop {
            // The last vector may go over lanes that the one before has written already.
            let i = at.min(end - LANES);
            let start = match WHAT {
                MAX => f32::NEG_INFINITY,
                MIN => f32::INFINITY,
                _ => 0.0,
            };
            let (mut acc, mut none) = (_mm256_set1_ps(start), _mm256_setzero_ps());
            for element in live {
                // SAFETY: the caller's.
                let x = unsafe { T::load::<STEP>(image.wrapping_offset(element.offset).wrapping_add(i * STEP)) };
                acc = match WHAT {
                    // The second operand is the result where one is NaN: lanes with a NaN are noted, so that no step waits for that.
                    MAX => _mm256_max_ps(x, acc),
                    MIN => _mm256_min_ps(x, acc),
                    _ => _mm256_add_ps(acc, x),
                };
                if WHAT != SUM {
                    none = _mm256_or_ps(none, _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
                }
            }
            acc = _mm256_or_ps(acc, none);
            // SAFETY: the caller's.
            unsafe { _mm256_storeu_ps(out.add(i), acc) };
            at = i + LANES;
            if at >= end {
                break;
            }
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
