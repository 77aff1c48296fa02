//! Operands read through offset tables: several row, column and K dimensions in one, and convolution's windows.
//!
//! Element `(r, k)` is at `base + rows[r] + k_offsets[k]`. A [`GuardTable`] adds coordinates the same way, and an element is outside,
//! and read as the fill value, when a coordinate is outside its extent: that is padding.

use std::marker::PhantomData;

use super::source::{Batch, PackBlock, PackSource};
use super::{Element, Widen};

/// One guarded coordinate: `rows[r] + k_offsets[k]` must be at least 0 and below `extent`.
#[derive(Clone, Copy, Debug)]
pub struct GuardTable<'a> {
    /// What each row adds.
    pub rows: &'a [i32],
    /// What each K index adds.
    pub k_offsets: &'a [i32],
    /// The first coordinate that is outside.
    pub extent: i32,
}

impl GuardTable<'_> {
    fn inside(&self, r: usize, k: usize) -> bool {
        // As unsigned numbers, negative ones are large.
        (self.rows[r].wrapping_add(self.k_offsets[k]) as u32) < self.extent.max(0) as u32
    }
}

/// A matrix in memory read through offset tables, stored as `S`.
#[derive(Clone, Copy, Debug)]
pub struct Gathered<'a, S> {
    base: *const S,
    rows: &'a [isize],
    k_offsets: &'a [isize],
    batch: Batch<'a>,
    guards: &'a [GuardTable<'a>],
    fill: S,
    life: PhantomData<&'a [S]>,
}

// SAFETY: it only reads, and the constructor demands that nobody writes during the lifetime.
unsafe impl<S: Sync> Sync for Gathered<'_, S> {}
// SAFETY: as above.
unsafe impl<S: Sync> Send for Gathered<'_, S> {}

impl<'a, S: Copy> Gathered<'a, S> {
    /// A matrix whose element `(b, r, k)` is at `base + batch(b) + rows[r] + k_offsets[k]`, in elements. For B, rows are its
    /// columns.
    ///
    /// # Safety
    /// For the lifetime, every such element that no guard excludes must be readable and not written by anybody.
    pub unsafe fn from_raw(
        base: *const S,
        rows: &'a [isize],
        k_offsets: &'a [isize],
        batch: Batch<'a>,
        guards: &'a [GuardTable<'a>],
        fill: S,
    ) -> Gathered<'a, S> {
        Gathered { base, rows, k_offsets, batch, guards, fill, life: PhantomData }
    }

    fn inside(&self, r: usize, k: usize) -> bool {
        self.guards.iter().all(|g| g.inside(r, k))
    }
}

impl<S: Widen<T>, T: Element> PackSource<T> for Gathered<'_, S> {
    fn pack(&self, block: &PackBlock, dst: &mut [T]) {
        let PackBlock { row, rows, k, k_len, panel, .. } = *block;
        let base = self.base.wrapping_offset(self.batch.offset(block.batch));
        if k_len == 0 || dst.len() < block.len() {
            return;
        }
        #[cfg(target_arch = "x86_64")]
        if super::source::same_type::<S, f32>()
            && super::source::same_type::<T, f32>()
            && is_x86_feature_detected!("avx2")
        {
            // SAFETY: S and T are f32, so this is a copy of `self` under its own type.
            let this = unsafe { &*std::ptr::from_ref(self).cast::<Gathered<'_, f32>>() };
            // SAFETY: AVX2 is present; `dst` is a slice of f32 with whole panels.
            unsafe {
                let dst = std::slice::from_raw_parts_mut(dst.as_mut_ptr().cast::<f32>(), dst.len());
                avx2::pack(this, base.cast(), block, dst);
            }
            return;
        }
        for (p, out) in dst.chunks_exact_mut(panel * k_len).enumerate() {
            for (q, out) in out.chunks_exact_mut(panel).enumerate() {
                for (i, o) in out.iter_mut().enumerate() {
                    let (r, k) = (p * panel + i, k + q);
                    *o = if r >= rows {
                        T::ZERO
                    } else if self.inside(row + r, k) {
                        // SAFETY: the maker vouched for elements that no guard excludes.
                        unsafe { *base.wrapping_offset(self.rows[row + r] + self.k_offsets[k]) }.widen()
                    } else {
                        self.fill.widen()
                    };
                }
            }
        }
    }

    fn covers(&self, batch: usize, rows: usize, k_len: usize) -> bool {
        self.batch.covers(batch)
            && self.rows.len() >= rows
            && self.k_offsets.len() >= k_len
            && self.guards.iter().all(|g| g.rows.len() >= rows && g.k_offsets.len() >= k_len)
    }

    fn same_for_batch(&self) -> bool {
        self.batch.same()
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    //! `f32` with AVX2. Two ways, by what is contiguous in memory: rows (vector loads with the guards as masks) or
    //! K indices (eight at a time, transposed).

    use super::{Gathered, PackBlock};
    use crate::contract::packed::pack::transpose_rows;
    use core::arch::x86_64::*;

    /// Most runs of adjacent rows in eight that are loaded one by one rather than gathered.
    const RUNS: usize = 3;

    /// Most guards that are held in registers.
    const GUARDS: usize = 3;

    /// Up to eight rows of a panel.
    struct Part<'a> {
        first: usize,
        have: usize,
        k: usize,
        k_len: usize,
        panel: usize,
        /// Columns of the panel to write; those past `have` are zero.
        width: usize,
        /// The least and the most that the K indices add to each guard's coordinate.
        spans: &'a [(i32, i32); GUARDS],
    }

    /// Where eight rows lie.
    enum Lanes {
        /// Runs of adjacent rows: where lane 0 would be, and which lanes belong.
        Runs([(isize, __m256i); RUNS], usize),
        /// Every second element.
        Pairs(isize),
        /// Anywhere, as 32-bit distances from an address.
        Anywhere(isize, __m256i),
    }

    /// Packs a block.
    ///
    /// # Safety
    /// AVX2 is present; the elements are as the maker of `g` vouched; `dst` has the block's whole panels.
    #[target_feature(enable = "avx2")]
    pub unsafe fn pack(g: &Gathered<'_, f32>, base: *const f32, block: &PackBlock, dst: &mut [f32]) {
        let PackBlock { row, rows, k, k_len, panel, .. } = *block;
        let mut spans = [(0, 0); GUARDS];
        for (span, guard) in spans.iter_mut().zip(g.guards) {
            let k_offsets = &guard.k_offsets[k..k + k_len];
            *span = k_offsets.iter().fold((i32::MAX, i32::MIN), |(low, high), &d| (low.min(d), high.max(d)));
        }
        for (p, out) in dst.chunks_exact_mut(panel * k_len).enumerate() {
            let first = row + p * panel;
            let have = panel.min(row + rows - first);
            // SAFETY: the panel's rows and K indices are those of the block.
            unsafe {
                if rows_adjacent(g, first, have) || !k_adjacent(g, k, k_len) {
                    let mut lane = 0;
                    while lane < panel {
                        let width = (panel - lane).min(8);
                        let have = have.saturating_sub(lane).min(width);
                        let part = Part { first: first + lane, have, k, k_len, panel, width, spans: &spans };
                        by_rows(g, base, &part, &mut out[lane..]);
                        lane += width;
                    }
                } else {
                    by_k(g, base, first, have, k, k_len, panel, out);
                }
            }
        }
    }

    /// Whether most neighbouring rows are neighbours in memory.
    fn rows_adjacent(g: &Gathered<'_, f32>, first: usize, have: usize) -> bool {
        let steps = g.rows[first..first + have].windows(2).filter(|w| w[1] - w[0] == 1).count();
        2 * steps > have
    }

    /// Whether K indices come in long runs of neighbours. The first run stands for all: dimensions are regular.
    fn k_adjacent(g: &Gathered<'_, f32>, k: usize, k_len: usize) -> bool {
        k_len >= 8 && adjacent(g, k, k + 8)
    }

    /// Whether the K indices are contiguous in memory with the same guards.
    fn adjacent(g: &Gathered<'_, f32>, from: usize, to: usize) -> bool {
        g.k_offsets[from..to].windows(2).all(|w| w[1] - w[0] == 1)
            && g.guards.iter().all(|q| q.k_offsets[from..to].windows(2).all(|w| w[0] == w[1]))
    }

    #[target_feature(enable = "avx2")]
    fn lanes(offsets: &[isize]) -> Lanes {
        let have = offsets.len();
        let mut padded = [0i32; 8];
        let start = offsets[0];
        let near = offsets.iter().all(|&o| i32::try_from(o - start).is_ok());
        let mut masks = [[0i32; 8]; RUNS];
        let mut starts = [0isize; RUNS];
        let mut runs = 0;
        for (i, &o) in offsets.iter().enumerate() {
            if i == 0 || o != offsets[i - 1] + 1 {
                if runs < RUNS {
                    starts[runs] = o - i as isize;
                }
                runs += 1;
            }
            if runs <= RUNS {
                masks[runs - 1][i] = -1;
            }
            padded[i] = (o - start) as i32;
        }
        if runs <= RUNS || !near {
            let mut all = [(0, _mm256_setzero_si256()); RUNS];
            for (i, slot) in all.iter_mut().enumerate() {
                let m = masks[i];
                *slot = (starts[i], _mm256_setr_epi32(m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7]));
            }
            // Rows too far apart for 32-bit distances have no runs to speak of; zero runs marks them.
            return Lanes::Runs(all, if runs <= RUNS { runs } else { 0 });
        }
        if have == 8 && offsets.windows(2).all(|w| w[1] - w[0] == 2) {
            return Lanes::Pairs(start);
        }
        let p = padded;
        Lanes::Anywhere(start, _mm256_setr_epi32(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]))
    }

    /// Up to eight rows of a panel, one K index after the other.
    ///
    /// # Safety
    /// As [`pack`]; `out` starts at these rows' first element.
    #[target_feature(enable = "avx2")]
    unsafe fn by_rows(g: &Gathered<'_, f32>, base: *const f32, part: &Part<'_>, out: &mut [f32]) {
        let &Part { first, have, k, k_len, panel, width, .. } = part;
        if have == 0 {
            for q in 0..k_len {
                out[q * panel..q * panel + width].fill(0.0);
            }
            return;
        }
        let lanes_at = lanes(&g.rows[first..first + have]);
        let far = matches!(lanes_at, Lanes::Runs(_, 0));
        if g.guards.len() > GUARDS || far || g.guards.iter().any(|guard| guard.extent <= 0) {
            // SAFETY: the same contract.
            unsafe { one_by_one(g, base, part, out) };
            return;
        }
        let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let exist = _mm256_cmpgt_epi32(_mm256_set1_epi32(have as i32), lane);
        // Guards that exclude none of these rows at any of these K indices are not looked at again.
        let mut active = [None; GUARDS];
        let mut count = 0;
        for (guard, &(low, high)) in g.guards.iter().zip(part.spans) {
            let mut rows = [0i32; 8];
            rows[..have].copy_from_slice(&guard.rows[first..first + have]);
            let least = rows[..have].iter().fold(i32::MAX, |a, &b| a.min(b));
            let most = rows[..have].iter().fold(i32::MIN, |a, &b| a.max(b));
            let inside = least.checked_add(low).is_some_and(|x| x >= 0)
                && most.checked_add(high).is_some_and(|x| x < guard.extent);
            if !inside {
                let c = rows;
                let rows = _mm256_setr_epi32(c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]);
                active[count] = Some((rows, _mm256_set1_epi32(guard.extent - 1), &guard.k_offsets[k..k + k_len]));
                count += 1;
            }
        }
        let even = _mm256_setr_epi32(-1, 0, -1, 0, -1, 0, -1, 0);
        // SAFETY (all three): masked-off lanes are not accessed, and the mask leaves only lanes that exist and no guard
        // excludes. A full mask is not needed for a load of lanes that all exist.
        match lanes_at {
            Lanes::Runs(runs, 1) if have == 8 && count == 0 => {
                let start = runs[0].0;
                sweep(g, base, part, exist, active, count, out, |p, _| {
                    // SAFETY: see above.
                    unsafe { _mm256_loadu_ps(p.wrapping_offset(start)) }
                });
            }
            Lanes::Runs(runs, 1) => {
                let start = runs[0].0;
                sweep(g, base, part, exist, active, count, out, |p, inside| {
                    // SAFETY: see above.
                    unsafe { _mm256_maskload_ps(p.wrapping_offset(start), inside) }
                });
            }
            Lanes::Runs(runs, count_runs) => {
                sweep(g, base, part, exist, active, count, out, |p, inside| {
                    let mut x = _mm256_setzero_ps();
                    for &(start, mask) in &runs[..count_runs.min(RUNS)] {
                        // SAFETY: see above.
                        let more =
                            unsafe { _mm256_maskload_ps(p.wrapping_offset(start), _mm256_and_si256(inside, mask)) };
                        x = _mm256_or_ps(x, more);
                    }
                    x
                });
            }
            Lanes::Pairs(start) => {
                let (low, high) =
                    (_mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3), _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7));
                sweep(g, base, part, exist, active, count, out, |p, inside| {
                    let low = _mm256_and_si256(_mm256_permutevar8x32_epi32(inside, low), even);
                    let high = _mm256_and_si256(_mm256_permutevar8x32_epi32(inside, high), even);
                    let p = p.wrapping_offset(start);
                    // SAFETY: see above.
                    let (a, b) = unsafe { (_mm256_maskload_ps(p, low), _mm256_maskload_ps(p.wrapping_add(8), high)) };
                    let mixed = _mm256_castps_pd(_mm256_shuffle_ps::<0b10_00_10_00>(a, b));
                    _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(mixed))
                });
            }
            Lanes::Anywhere(start, distances) => {
                sweep(g, base, part, exist, active, count, out, |p, inside| {
                    let inside = _mm256_castsi256_ps(inside);
                    // SAFETY: see above.
                    unsafe {
                        _mm256_mask_i32gather_ps::<4>(_mm256_setzero_ps(), p.wrapping_offset(start), distances, inside)
                    }
                });
            }
        }
    }

    /// A guard that some of eight rows need: their coordinates, the last one inside, and what the K indices add.
    type Active<'a> = Option<(__m256i, __m256i, &'a [i32])>;

    /// One K index after the other: which lanes are inside, their values by `load`, the fill value for the others.
    #[target_feature(enable = "avx2")]
    #[allow(clippy::too_many_arguments)]
    fn sweep(
        g: &Gathered<'_, f32>,
        base: *const f32,
        part: &Part<'_>,
        exist: __m256i,
        active: [Active<'_>; GUARDS],
        count: usize,
        out: &mut [f32],
        load: impl Fn(*const f32, __m256i) -> __m256,
    ) {
        match (count, active) {
            (1, [Some(a), ..]) => sweep_guarded([a], g, base, part, exist, out, load),
            (2, [Some(a), Some(b), ..]) => sweep_guarded([a, b], g, base, part, exist, out, load),
            (3, [Some(a), Some(b), Some(c)]) => sweep_guarded([a, b, c], g, base, part, exist, out, load),
            _ => sweep_guarded([], g, base, part, exist, out, load),
        }
    }

    #[target_feature(enable = "avx2")]
    fn sweep_guarded<const G: usize>(
        guards: [(__m256i, __m256i, &[i32]); G],
        g: &Gathered<'_, f32>,
        base: *const f32,
        part: &Part<'_>,
        exist: __m256i,
        out: &mut [f32],
        load: impl Fn(*const f32, __m256i) -> __m256,
    ) {
        let &Part { k, k_len, panel, width, .. } = part;
        let fill = _mm256_set1_ps(g.fill);
        for (q, (&offset, out)) in g.k_offsets[k..k + k_len].iter().zip(out.chunks_mut(panel)).enumerate() {
            let mut inside = exist;
            for (rows, last, k_offsets) in guards {
                let at = _mm256_add_epi32(rows, _mm256_set1_epi32(k_offsets[q]));
                // As unsigned numbers, negative ones are large.
                inside = _mm256_and_si256(inside, _mm256_cmpeq_epi32(_mm256_min_epu32(at, last), at));
            }
            let mut x = load(base.wrapping_offset(offset), inside);
            if G > 0 {
                let padding = _mm256_castsi256_ps(_mm256_andnot_si256(inside, exist));
                x = _mm256_or_ps(x, _mm256_and_ps(fill, padding));
            }
            if width == 8 && out.len() >= 8 {
                // SAFETY: `out` has at least eight elements.
                unsafe { _mm256_storeu_ps(out.as_mut_ptr(), x) };
            } else {
                let mut all = [0.0f32; 8];
                // SAFETY: eight elements.
                unsafe { _mm256_storeu_ps(all.as_mut_ptr(), x) };
                out[..width].copy_from_slice(&all[..width]);
            }
        }
    }

    /// The same as [`by_rows`] for whatever has no faster way.
    ///
    /// # Safety
    /// As [`by_rows`].
    unsafe fn one_by_one(g: &Gathered<'_, f32>, base: *const f32, part: &Part<'_>, out: &mut [f32]) {
        let &Part { first, have, k, k_len, panel, width, .. } = part;
        for q in 0..k_len {
            for i in 0..width {
                out[q * panel + i] = if i >= have {
                    0.0
                } else if g.inside(first + i, k + q) {
                    // SAFETY: no guard excludes it.
                    unsafe { *base.wrapping_offset(g.rows[first + i] + g.k_offsets[k + q]) }
                } else {
                    g.fill
                };
            }
        }
    }

    /// One panel, eight contiguous K indices at a time.
    ///
    /// # Safety
    /// As [`pack`].
    #[target_feature(enable = "avx2")]
    #[allow(clippy::too_many_arguments)]
    unsafe fn by_k(
        g: &Gathered<'_, f32>,
        base: *const f32,
        first: usize,
        have: usize,
        k: usize,
        k_len: usize,
        panel: usize,
        out: &mut [f32],
    ) {
        let zeros = [0.0f32; 8];
        let fills = [g.fill; 8];
        let mut q = 0;
        while q < k_len {
            if q + 8 <= k_len && adjacent(g, k + q, k + q + 8) {
                let mut lane = 0;
                while lane < panel {
                    let width = (panel - lane).min(8);
                    let mut rows = [zeros.as_ptr(); 8];
                    for (i, row) in rows.iter_mut().enumerate().take(have.saturating_sub(lane).min(width)) {
                        let r = first + lane + i;
                        *row = if g.inside(r, k + q) {
                            base.wrapping_offset(g.rows[r] + g.k_offsets[k + q])
                        } else {
                            fills.as_ptr()
                        };
                    }
                    // SAFETY: each row has eight contiguous K indices with the same guards, or is a buffer of eight.
                    unsafe { transpose_rows(&rows, width, panel, &mut out[q * panel + lane..]) };
                    lane += width;
                }
                q += 8;
            } else {
                for (i, o) in out[q * panel..(q + 1) * panel].iter_mut().enumerate() {
                    *o = if i >= have {
                        0.0
                    } else if g.inside(first + i, k + q) {
                        // SAFETY: no guard excludes it.
                        unsafe { *base.wrapping_offset(g.rows[first + i] + g.k_offsets[k + q]) }
                    } else {
                        g.fill
                    };
                }
                q += 1;
            }
        }
    }
}
