//! The micro-kernel: a few places of the image by a vector or two of channels.

use crate::gemm::{Chain, LinkWith};
use crate::links::single;

/// Elements of a vector.
pub(super) const LANES: usize = 8;
/// Channels of a panel of filters: two vectors.
pub(super) const PANEL: usize = 16;
/// Most places of a tile: with two vectors of channels, 12 sums in registers.
pub(super) const MOST_PLACES: usize = 6;

/// What the kernel reads and writes.
///
/// The safety contract: `places` has the kernel's places, and each of their pixels is readable at every one of the `k` depths; `filters`, aligned to
/// vectors, for `k * PANEL` elements; `sums` is writable, and readable if `add`, for `PANEL` elements at each of as many multiples of `apart`.
pub(super) struct Tile {
    pub image: *const f32,
    /// From the image to each of the tile's pixels, and from a pixel to its element of each depth.
    pub places: *const isize,
    pub depths: *const isize,
    pub k: usize,
    pub filters: *const f32,
    pub sums: *mut f32,
    pub apart: usize,
    /// Add to the sums rather than replace them.
    pub add: bool,
    /// So many panel rows (of a cache line each) from this address on, which need not be readable, are asked for ahead of their use.
    pub next: *const f32,
    pub ahead: usize,
}

/// Whether this machine has the kernel.
pub(super) fn available() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Computes a tile of `count` places.
///
/// # Safety
/// [`available`], and the contract of [`Tile`].
pub(super) unsafe fn run(tile: &Tile, count: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: passed on.
    unsafe {
        match count {
            1 => avx2::tile::<1>(tile),
            2 => avx2::tile::<2>(tile),
            3 => avx2::tile::<3>(tile),
            4 => avx2::tile::<4>(tile),
            5 => avx2::tile::<5>(tile),
            _ => avx2::tile::<6>(tile),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (tile, count);
}

/// Writes `[places][channels]` (rows `wide` apart) as `[channels][places]` (rows `apart` apart).
///
/// # Safety
/// `to` is writable for `places` elements at each of `channels` multiples of `apart`; `from` has `places` rows.
pub(crate) unsafe fn turn(from: &[f32], wide: usize, places: usize, channels: usize, to: *mut f32, apart: isize) {
    debug_assert!(from.len() >= places * wide && channels <= wide);
    let (mut whole_places, mut whole_channels) = (0, 0);
    #[cfg(target_arch = "x86_64")]
    if available() {
        (whole_places, whole_channels) = (places / LANES * LANES, channels / LANES * LANES);
        for c in (0..whole_channels).step_by(LANES) {
            for p in (0..whole_places).step_by(LANES) {
                let out = to.wrapping_offset(c as isize * apart).wrapping_add(p);
                // SAFETY: eight places of eight channels of both.
                unsafe { avx2::turn(from.as_ptr().add(p * wide + c), wide as isize, out, apart) };
            }
        }
    }
    let single = |c: usize, p: usize| {
        // SAFETY: the caller's.
        unsafe { to.wrapping_offset(c as isize * apart).wrapping_add(p).write(from[p * wide + c]) };
    };
    for c in 0..channels {
        let first = if c < whole_channels { whole_places } else { 0 };
        (first..places).for_each(|p| single(c, p));
    }
}

/// The results of a chain for `[places][channels]` (rows `wide` apart), channels being its rows from `row` on and places its columns from
/// `col` on.
///
/// # Safety
/// The chain has these elements, whose results nobody else uses; `from` has `places` rows of `channels`.
pub(super) unsafe fn finish(
    from: &[f32],
    wide: usize,
    (places, channels): (usize, usize),
    chain: &Chain,
    (row, col): (usize, usize),
) {
    debug_assert!(from.len() >= places * wide && channels <= wide);
    // The last vector of places may begin inside the one before it, unless what it reads is overwritten by then.
    let again = chain.links.iter().all(|l| match l.with {
        LinkWith::Elements(base, _) => base != chain.to.cast_const(),
        _ => true,
    });
    let (mut whole_places, mut whole_channels) = (0, 0);
    #[cfg(target_arch = "x86_64")]
    if available() && places >= LANES {
        whole_channels = channels / LANES * LANES;
        whole_places = if again { places } else { places / LANES * LANES };
        for c in (0..whole_channels).step_by(LANES) {
            let mut p = 0;
            while p < whole_places {
                p = p.min(places - LANES);
                // SAFETY: eight places of eight channels, of which the chain has all elements.
                unsafe { avx2::finish(from.as_ptr().add(p * wide + c), wide as isize, chain, row + c, col + p) };
                p += LANES;
            }
        }
    }
    for c in 0..channels {
        let first = if c < whole_channels { whole_places } else { 0 };
        for p in first..places {
            // SAFETY: the caller's.
            unsafe { single(chain, from[p * wide + c], row + c, col + p) };
        }
    }
}

/// Turns eight rows of eight elements, `wide` apart, into rows that are `apart` apart; false, and nothing done, where the machine
/// has no kernel for it.
///
/// # Safety
/// `from` is readable for eight elements at eight multiples of `wide`, `to` writable so by `apart`.
pub(crate) unsafe fn turn_eight(from: *const f32, wide: isize, to: *mut f32, apart: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    if available() {
        // SAFETY: the caller's, and AVX2 is there.
        unsafe { avx2::turn(from, wide, to, apart as isize) };
        return true;
    }
    let _ = (from, wide, to, apart);
    false
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use core::arch::x86_64::*;

    use super::{Chain, LANES, PANEL, Tile};
    use crate::links::avx2::apply;

    /// # Safety
    /// AVX2 and FMA are present; the contract of [`Tile`] for `P` places.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn tile<const P: usize>(t: &Tile) {
        let mut sums = [[_mm256_setzero_ps(); 2]; P];
        if t.add {
            for (p, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the contract.
                unsafe {
                    let from = t.sums.add(p * t.apart);
                    *sum = [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(LANES))];
                }
            }
        }
        let mut pixels = [t.image; P];
        for (p, pixel) in pixels.iter_mut().enumerate() {
            // SAFETY: the contract.
            *pixel = t.image.wrapping_offset(unsafe { *t.places.add(p) });
        }
        for i in 0..t.ahead {
            _mm_prefetch::<_MM_HINT_T1>(t.next.wrapping_add(i * PANEL).cast());
        }
        let (mut filters, mut depth) = (t.filters, t.depths);
        // Measured: unrolling this loop makes it slower.
        for _ in 0..t.k {
            // SAFETY: the contract; `k` steps are taken.
            unsafe {
                let at = *depth;
                let (low, high) = (_mm256_load_ps(filters), _mm256_load_ps(filters.add(LANES)));
                for p in 0..P {
                    let pixel = _mm256_broadcast_ss(&*pixels[p].offset(at));
                    sums[p][0] = _mm256_fmadd_ps(pixel, low, sums[p][0]);
                    sums[p][1] = _mm256_fmadd_ps(pixel, high, sums[p][1]);
                }
                filters = filters.add(PANEL);
                depth = depth.add(1);
            }
        }
        for (p, sum) in sums.iter().enumerate() {
            // SAFETY: the contract.
            unsafe {
                let to = t.sums.add(p * t.apart);
                _mm256_storeu_ps(to, sum[0]);
                _mm256_storeu_ps(to.add(LANES), sum[1]);
            }
        }
    }

    /// Eight rows of eight elements, turned.
    ///
    /// # Safety
    /// AVX2 is present; `from` is readable for eight elements at eight multiples of `wide`, `to` writable so by `apart`.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn turn(from: *const f32, wide: isize, to: *mut f32, apart: isize) {
        // SAFETY: the caller's.
        unsafe {
            let turned = turned(from, wide);
            for (i, row) in turned.iter().enumerate() {
                _mm256_storeu_ps(to.wrapping_offset(i as isize * apart), row[0]);
            }
        }
    }

    /// Eight rows of eight sums become results of a chain, from this row and column on.
    ///
    /// # Safety
    /// AVX2 is present; `from` is readable for eight elements at eight multiples of `wide`; the chain has all these elements.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn finish(from: *const f32, wide: isize, chain: &Chain, row: usize, col: usize) {
        // SAFETY: the caller's.
        unsafe {
            let done = apply(turned(from, wide), &chain.links, row, col);
            let to = chain.to.wrapping_offset(row as isize * chain.row).wrapping_add(col);
            for (i, row) in done.iter().enumerate() {
                _mm256_storeu_ps(to.wrapping_offset(i as isize * chain.row), row[0]);
            }
        }
    }

    /// # Safety
    /// AVX2 is present; `from` is readable for eight elements at eight multiples of `wide`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn turned(from: *const f32, wide: isize) -> [[__m256; 1]; LANES] {
        let mut r = [_mm256_setzero_ps(); LANES];
        for (i, r) in r.iter_mut().enumerate() {
            // SAFETY: the caller's.
            *r = unsafe { _mm256_loadu_ps(from.wrapping_offset(i as isize * wide)) };
        }
        let mut half = [_mm256_setzero_ps(); LANES];
        for i in 0..2 {
            let [a, b, c, d] = [r[4 * i], r[4 * i + 1], r[4 * i + 2], r[4 * i + 3]];
            let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let (low2, high2) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            half[4 * i] = _mm256_shuffle_ps::<0b01_00_01_00>(low, low2);
            half[4 * i + 1] = _mm256_shuffle_ps::<0b11_10_11_10>(low, low2);
            half[4 * i + 2] = _mm256_shuffle_ps::<0b01_00_01_00>(high, high2);
            half[4 * i + 3] = _mm256_shuffle_ps::<0b11_10_11_10>(high, high2);
        }
        let mut done = [[_mm256_setzero_ps()]; LANES];
        for i in 0..4 {
            done[i][0] = _mm256_permute2f128_ps::<0x20>(half[i], half[4 + i]);
            done[i + 4][0] = _mm256_permute2f128_ps::<0x31>(half[i], half[4 + i]);
        }
        done
    }
}
