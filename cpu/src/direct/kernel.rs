//! The micro-kernel: a few places of the image by a vector or two of channels.

/// Elements of a vector.
pub(super) const LANES: usize = 8;
/// Channels of a panel of filters: two vectors.
pub(super) const PANEL: usize = 16;
/// Most places of a tile: with two vectors of channels, 12 sums in registers.
pub(super) const MOST_PLACES: usize = 6;

/// What the kernel reads and writes.
///
/// The safety contract: each of the kernel's pixels is readable at every one of the `k` depths; `filters`, aligned to
/// vectors, for `k * PANEL` elements; `sums` is writable, and readable if `add`, for `PANEL` elements at each of as many multiples of `apart`.
pub(super) struct Tile {
    pub pixels: [*const f32; MOST_PLACES],
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

    use super::{LANES, PANEL, Tile};

    /// # Safety
    /// AVX2 and FMA are present; the contract of [`Tile`] for `P` places.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn tile<const P: usize>(t: &Tile) {
        let mut sums = [[_mm256_setzero_ps(); 2]; P];
        let pixels = t.pixels;
        let (mut filters, mut depth, mut next) = (t.filters, t.depths, t.next);
        // Measured: unrolling this loop makes it slower.
        let mut step = || {
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
        };
        let ahead = t.ahead.min(t.k);
        for _ in 0..ahead {
            _mm_prefetch::<_MM_HINT_T1>(next.cast());
            next = next.wrapping_add(PANEL);
            step();
        }
        for _ in ahead..t.k {
            step();
        }
        for (p, sum) in sums.iter().enumerate() {
            // SAFETY: the contract.
            unsafe {
                let to = t.sums.add(p * t.apart);
                let (mut low, mut high) = (sum[0], sum[1]);
                if t.add {
                    low = _mm256_add_ps(low, _mm256_loadu_ps(to));
                    high = _mm256_add_ps(high, _mm256_loadu_ps(to.add(LANES)));
                }
                _mm256_storeu_ps(to, low);
                _mm256_storeu_ps(to.add(LANES), high);
            }
        }
    }

    /// Eight rows of eight elements, turned.
    ///
    /// # Safety
    /// AVX2 is present; `from` is readable for eight elements at eight multiples of `wide`, `to` writable so by `apart`.
    #[target_feature(enable = "avx2")]
    pub unsafe fn turn(from: *const f32, wide: isize, to: *mut f32, apart: isize) {
        let mut r = [_mm256_setzero_ps(); 8];
        for (i, r) in r.iter_mut().enumerate() {
            // SAFETY: the caller's.
            *r = unsafe { _mm256_loadu_ps(from.wrapping_offset(i as isize * wide)) };
        }
        let mut half = [_mm256_setzero_ps(); 8];
        for i in 0..2 {
            let [a, b, c, d] = [r[4 * i], r[4 * i + 1], r[4 * i + 2], r[4 * i + 3]];
            let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let (low2, high2) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            half[4 * i] = _mm256_shuffle_ps::<0b01_00_01_00>(low, low2);
            half[4 * i + 1] = _mm256_shuffle_ps::<0b11_10_11_10>(low, low2);
            half[4 * i + 2] = _mm256_shuffle_ps::<0b01_00_01_00>(high, high2);
            half[4 * i + 3] = _mm256_shuffle_ps::<0b11_10_11_10>(high, high2);
        }
        for i in 0..4 {
            let near = _mm256_permute2f128_ps::<0x20>(half[i], half[4 + i]);
            let far = _mm256_permute2f128_ps::<0x31>(half[i], half[4 + i]);
            // SAFETY: the caller's.
            unsafe {
                _mm256_storeu_ps(to.wrapping_offset(i as isize * apart), near);
                _mm256_storeu_ps(to.wrapping_offset((i as isize + 4) * apart), far);
            }
        }
    }
}
