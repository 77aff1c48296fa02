//! Copies blocks of strided matrices into micro-panels.
//!
//! Panel `p` of a block holds rows `p * panel` and on; element `(r, k)` of a panel is at `k * panel + r`. Rows that the
//! block does not have are zero, so that a micro-kernel may compute with them.

use super::Element;
use crate::prefetch::prefetch;

#[cfg(target_arch = "x86_64")]
pub(super) use avx2::transpose_rows;

/// A strided block in memory and the panels to make of it.
#[derive(Clone, Copy)]
pub(in crate::contract) struct BlockStrides {
    /// Elements from one row to the next.
    pub row: isize,
    /// Elements from one K index to the next.
    pub k: isize,
}

/// Packs `rows` by `k_len` elements.
///
/// # Safety
/// `src` is readable at `r * strides.row + k * strides.k` for every row and K index of the block. `dst` holds whole
/// panels.
pub(in crate::contract) unsafe fn pack_strided<T: Element>(
    src: *const T,
    strides: BlockStrides,
    rows: usize,
    k_len: usize,
    panel: usize,
    dst: &mut [T],
) {
    debug_assert_eq!(dst.len(), rows.div_ceil(panel) * panel * k_len);
    if k_len == 0 || rows == 0 {
        return;
    }
    // SAFETY (all below): the same contract, for the whole block or for the panels of which all rows exist.
    if strides.row == 1 {
        let full = rows / panel;
        let (whole, rest) = dst.split_at_mut(full * panel * k_len);
        // SAFETY: see above.
        unsafe { copy_rows(src, strides.k, full, k_len, panel, whole) };
        if !rest.is_empty() {
            let done = full * panel;
            // SAFETY: see above; the last panel starts at row `done`.
            unsafe { scalar(src.wrapping_add(done), strides, rows - done, k_len, panel, rest) };
        }
        return;
    }
    for (p, out) in dst.chunks_exact_mut(panel * k_len).enumerate() {
        let row = p * panel;
        let src = src.wrapping_offset(row as isize * strides.row);
        let rows = panel.min(rows - row);
        #[cfg(target_arch = "x86_64")]
        if strides.k == 1 && k_len >= 8 && is_x86_feature_detected!("avx2") {
            match size_of::<T>() {
                // SAFETY: see above; a 4-byte element is moved as its bits.
                4 => unsafe {
                    avx2::transpose4(src.cast(), strides.row, rows, k_len, panel, out.as_mut_ptr().cast());
                    continue;
                },
                // SAFETY: see above; an 8-byte element is moved as its bits.
                8 => unsafe {
                    avx2::transpose8(src.cast(), strides.row, rows, k_len, panel, out.as_mut_ptr().cast());
                    continue;
                },
                _ => {}
            }
        }
        // SAFETY: see above.
        unsafe { scalar(src, strides, rows, k_len, panel, out) };
    }
}

/// Rows are contiguous: for each K index, copy a run of `panel` elements into each panel.
///
/// # Safety
/// As [`pack_strided`] with a row stride of 1 and `panels` whole panels.
unsafe fn copy_rows<T: Element>(
    src: *const T,
    k_stride: isize,
    panels: usize,
    k_len: usize,
    panel: usize,
    dst: &mut [T],
) {
    // SAFETY: the same contract; a constant width lets the copy become a few vector moves.
    unsafe {
        match panel {
            4 => copy_runs::<T, 4>(src, k_stride, panels, k_len, dst),
            6 => copy_runs::<T, 6>(src, k_stride, panels, k_len, dst),
            8 => copy_runs::<T, 8>(src, k_stride, panels, k_len, dst),
            12 => copy_runs::<T, 12>(src, k_stride, panels, k_len, dst),
            14 => copy_runs::<T, 14>(src, k_stride, panels, k_len, dst),
            16 => copy_runs::<T, 16>(src, k_stride, panels, k_len, dst),
            32 => copy_runs::<T, 32>(src, k_stride, panels, k_len, dst),
            64 => copy_runs::<T, 64>(src, k_stride, panels, k_len, dst),
            _ => {
                for p in 0..panels {
                    let strides = BlockStrides { row: 1, k: k_stride };
                    let out = &mut dst[p * panel * k_len..][..panel * k_len];
                    scalar(src.add(p * panel), strides, panel, k_len, panel, out);
                }
            }
        }
    }
}

/// Panels written together: enough to use whole pages of the source, few enough for L1.
const SIDE_BY_SIDE: usize = 8;

/// How many K indices ahead memory is prefetched.
const K_AHEAD: isize = 8;

/// # Safety
/// As [`copy_rows`] with a panel of `R`.
unsafe fn copy_runs<T: Element, const R: usize>(
    src: *const T,
    k_stride: isize,
    panels: usize,
    k_len: usize,
    dst: &mut [T],
) {
    let dst = dst.as_mut_ptr();
    for first in (0..panels).step_by(SIDE_BY_SIDE) {
        let last = (first + SIDE_BY_SIDE).min(panels);
        for k in 0..k_len {
            let from = src.wrapping_offset(k as isize * k_stride);
            let ahead = from.wrapping_offset(K_AHEAD * k_stride);
            for p in first..last {
                // The next K index is often on another page, where no prefetcher looks.
                for line in (0..R * size_of::<T>()).step_by(64) {
                    prefetch::<false>(ahead.wrapping_add(p * R).cast::<u8>().wrapping_add(line));
                }
                // SAFETY: source rows p * R to p * R + R exist at index k of K; the destination has `panels` panels.
                unsafe { std::ptr::copy_nonoverlapping(from.add(p * R), dst.add(p * R * k_len + k * R), R) };
            }
        }
    }
}

/// One panel, any strides; also pads.
///
/// # Safety
/// As [`pack_strided`] with at most `panel` rows.
unsafe fn scalar<T: Element>(
    src: *const T,
    strides: BlockStrides,
    rows: usize,
    k_len: usize,
    panel: usize,
    dst: &mut [T],
) {
    for (k, out) in dst.chunks_exact_mut(panel).take(k_len).enumerate() {
        let from = src.wrapping_offset(k as isize * strides.k);
        for (r, o) in out.iter_mut().enumerate() {
            // SAFETY: row r and K index k are in the block.
            *o = if r < rows { unsafe { *from.wrapping_offset(r as isize * strides.row) } } else { T::ZERO };
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    //! K is contiguous: transposes in registers.

    use core::arch::x86_64::*;

    /// One panel of 4-byte elements, eight rows at a time.
    ///
    /// # Safety
    /// AVX2 is present. `src` is readable at `r * row + k` for `rows` and `k_len`, `dst` writable for a whole panel.
    #[target_feature(enable = "avx2")]
    pub unsafe fn transpose4(src: *const f32, row: isize, rows: usize, k_len: usize, panel: usize, dst: *mut f32) {
        let mut group = 0;
        while group < panel {
            let width = (panel - group).min(8);
            let have = rows.saturating_sub(group).min(width);
            let src = src.wrapping_offset(group as isize * row);
            let out = dst.wrapping_add(group);
            // SAFETY: the group's rows and columns are inside the panel.
            unsafe {
                match (width, have) {
                    (8, 8) => group4::<8, 8>(src, row, have, k_len, panel, out),
                    (6, 6) => group4::<6, 6>(src, row, have, k_len, panel, out),
                    (4, 4) => group4::<4, 4>(src, row, have, k_len, panel, out),
                    (8, _) => group4::<8, 0>(src, row, have, k_len, panel, out),
                    (6, _) => group4::<6, 0>(src, row, have, k_len, panel, out),
                    (4, _) => group4::<4, 0>(src, row, have, k_len, panel, out),
                    _ => tail(src, row, have, width, 0, k_len, panel, out),
                }
            }
            group += width;
        }
    }

    /// `W` columns of a panel; `H` is how many rows exist, or 0 for "see `have`".
    ///
    /// # Safety
    /// As [`transpose4`].
    #[target_feature(enable = "avx2")]
    unsafe fn group4<const W: usize, const H: usize>(
        src: *const f32,
        row: isize,
        have: usize,
        k_len: usize,
        panel: usize,
        dst: *mut f32,
    ) {
        let have = if H > 0 { H } else { have };
        let mut k = 0;
        while k + 8 <= k_len {
            let mut r = [_mm256_setzero_ps(); 8];
            for (i, r) in r.iter_mut().enumerate().take(W) {
                if i < have {
                    // SAFETY: row i exists and K indices k to k + 8 are in the block.
                    *r = unsafe { _mm256_loadu_ps(src.wrapping_offset(i as isize * row).add(k)) };
                }
            }
            // SAFETY: K indices k to k + 8 of this group's W columns are inside the panel.
            unsafe { store_transposed::<W>(r, panel, dst.add(k * panel)) };
            k += 8;
        }
        // SAFETY: what is left of the same block.
        unsafe { tail(src, row, have, W, k, k_len, panel, dst) };
    }

    /// Writes eight rows of eight K indices as eight columns of which the first `W` (4, 6 or 8) count.
    ///
    /// # Safety
    /// AVX2 is present. `dst` is writable for `W` elements at each of eight multiples of `panel`.
    #[target_feature(enable = "avx2")]
    unsafe fn store_transposed<const W: usize>(r: [__m256; 8], panel: usize, dst: *mut f32) {
        let (t0, t1) = (_mm256_unpacklo_ps(r[0], r[1]), _mm256_unpackhi_ps(r[0], r[1]));
        let (t2, t3) = (_mm256_unpacklo_ps(r[2], r[3]), _mm256_unpackhi_ps(r[2], r[3]));
        let (t4, t5) = (_mm256_unpacklo_ps(r[4], r[5]), _mm256_unpackhi_ps(r[4], r[5]));
        let (t6, t7) = (_mm256_unpacklo_ps(r[6], r[7]), _mm256_unpackhi_ps(r[6], r[7]));
        let lo = |a, b| _mm256_shuffle_ps::<0b01_00_01_00>(a, b);
        let hi = |a, b| _mm256_shuffle_ps::<0b11_10_11_10>(a, b);
        // Rows 0 to 3 and rows 4 to 7 of K indices (0, 4), (1, 5), (2, 6), (3, 7).
        let top = [lo(t0, t2), hi(t0, t2), lo(t1, t3), hi(t1, t3)];
        let bottom = [lo(t4, t6), hi(t4, t6), lo(t5, t7), hi(t5, t7)];
        for i in 0..4 {
            // SAFETY: K indices i and i + 4 of W columns.
            unsafe {
                let (near, far) = (dst.add(i * panel), dst.add((i + 4) * panel));
                if W == 8 {
                    _mm256_storeu_ps(near, _mm256_permute2f128_ps::<0x20>(top[i], bottom[i]));
                    _mm256_storeu_ps(far, _mm256_permute2f128_ps::<0x31>(top[i], bottom[i]));
                } else {
                    _mm_storeu_ps(near, _mm256_castps256_ps128(top[i]));
                    _mm_storeu_ps(far, _mm256_extractf128_ps::<1>(top[i]));
                    if W == 6 {
                        let (low, high) = (_mm256_castps256_ps128(bottom[i]), _mm256_extractf128_ps::<1>(bottom[i]));
                        _mm_storel_pd(near.add(4).cast(), _mm_castps_pd(low));
                        _mm_storel_pd(far.add(4).cast(), _mm_castps_pd(high));
                    }
                }
            }
        }
    }

    /// Packs eight contiguous K indices of up to eight rows that lie anywhere: `width` columns of a panel.
    ///
    /// # Safety
    /// AVX2 is present. Each of the first `width` pointers is readable for eight elements.
    #[target_feature(enable = "avx2")]
    pub unsafe fn transpose_rows(rows: &[*const f32; 8], width: usize, panel: usize, dst: &mut [f32]) {
        assert!(width <= 8 && dst.len() >= 7 * panel + width);
        let mut r = [_mm256_setzero_ps(); 8];
        for (r, &p) in r.iter_mut().zip(rows).take(width) {
            // SAFETY: the caller's.
            *r = unsafe { _mm256_loadu_ps(p) };
        }
        let out = dst.as_mut_ptr();
        // SAFETY: checked above.
        unsafe {
            match width {
                8 => store_transposed::<8>(r, panel, out),
                6 => store_transposed::<6>(r, panel, out),
                4 => store_transposed::<4>(r, panel, out),
                _ => {
                    let mut all = [0.0f32; 64];
                    store_transposed::<8>(r, 8, all.as_mut_ptr());
                    for (k, from) in all.chunks_exact(8).enumerate() {
                        dst[k * panel..k * panel + width].copy_from_slice(&from[..width]);
                    }
                }
            }
        }
    }

    /// One panel of 8-byte elements, four rows at a time.
    ///
    /// # Safety
    /// As [`transpose4`].
    #[target_feature(enable = "avx2")]
    pub unsafe fn transpose8(src: *const f64, row: isize, rows: usize, k_len: usize, panel: usize, dst: *mut f64) {
        let mut group = 0;
        while group < panel {
            let width = (panel - group).min(4);
            let have = rows.saturating_sub(group).min(width);
            let src = src.wrapping_offset(group as isize * row);
            let out = dst.wrapping_add(group);
            // SAFETY: the group's rows and columns are inside the panel.
            unsafe {
                match (width, have) {
                    (4, 4) => group8::<4, 4>(src, row, have, k_len, panel, out),
                    (2, 2) => group8::<2, 2>(src, row, have, k_len, panel, out),
                    (4, _) => group8::<4, 0>(src, row, have, k_len, panel, out),
                    (2, _) => group8::<2, 0>(src, row, have, k_len, panel, out),
                    _ => tail(src, row, have, width, 0, k_len, panel, out),
                }
            }
            group += width;
        }
    }

    /// `W` columns of a panel; `H` is how many rows exist, or 0 for "see `have`".
    ///
    /// # Safety
    /// As [`transpose4`].
    #[target_feature(enable = "avx2")]
    unsafe fn group8<const W: usize, const H: usize>(
        src: *const f64,
        row: isize,
        have: usize,
        k_len: usize,
        panel: usize,
        dst: *mut f64,
    ) {
        let have = if H > 0 { H } else { have };
        let mut k = 0;
        while k + 4 <= k_len {
            let mut r = [_mm256_setzero_pd(); 4];
            for (i, r) in r.iter_mut().enumerate().take(W) {
                if i < have {
                    // SAFETY: row i exists and K indices k to k + 4 are in the block.
                    *r = unsafe { _mm256_loadu_pd(src.wrapping_offset(i as isize * row).add(k)) };
                }
            }
            // K indices (0, 2) and (1, 3) of rows 0 and 1, then of rows 2 and 3.
            let top = [_mm256_unpacklo_pd(r[0], r[1]), _mm256_unpackhi_pd(r[0], r[1])];
            let bottom = [_mm256_unpacklo_pd(r[2], r[3]), _mm256_unpackhi_pd(r[2], r[3])];
            for i in 0..2 {
                // SAFETY: K indices k + i and k + i + 2 of this group's W columns are inside the panel.
                unsafe {
                    let (near, far) = (dst.add((k + i) * panel), dst.add((k + i + 2) * panel));
                    if W == 4 {
                        _mm256_storeu_pd(near, _mm256_permute2f128_pd::<0x20>(top[i], bottom[i]));
                        _mm256_storeu_pd(far, _mm256_permute2f128_pd::<0x31>(top[i], bottom[i]));
                    } else {
                        _mm_storeu_pd(near, _mm256_castpd256_pd128(top[i]));
                        _mm_storeu_pd(far, _mm256_extractf128_pd::<1>(top[i]));
                    }
                }
            }
            k += 4;
        }
        // SAFETY: what is left of the same block.
        unsafe { tail(src, row, have, W, k, k_len, panel, dst) };
    }

    /// K indices from `k` on, one element at a time.
    ///
    /// # Safety
    /// As [`transpose4`], for any element type.
    #[allow(clippy::too_many_arguments)]
    unsafe fn tail<T: Copy + Default>(
        src: *const T,
        row: isize,
        have: usize,
        width: usize,
        from: usize,
        k_len: usize,
        panel: usize,
        dst: *mut T,
    ) {
        for k in from..k_len {
            for i in 0..width {
                // SAFETY: row i, if it exists, and K index k are in the block; column i of K index k is in the panel.
                unsafe {
                    *dst.add(k * panel + i) =
                        if i < have { *src.wrapping_offset(i as isize * row).add(k) } else { T::default() };
                }
            }
        }
    }
}
