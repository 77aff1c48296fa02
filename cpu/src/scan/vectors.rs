//! Parts of rows by vectors of AVX-512: eight running totals in three steps.
//!
//! In a vector, each element is joined with the one before it, then with what is two before, then four. What is before the vector is
//! joined last, so that of one vector only its total waits for the vector before. Short rows that lie one behind the other go the same
//! way, with masks that say which lanes are of one row.

use std::arch::x86_64::*;

use super::items::{Compensated, Item, MAX, PROD, SUM, neutral};
use super::walks::{Carry, MOST_SHORT, RowPart, Rows, Walk, WalkAlong, WalkWriting};

/// Elements of a step: two vectors of totals.
const STEP: usize = 16;

/// Items whose totals are vectors of 64-bit lanes.
pub(super) trait Wide: Item {
    unsafe fn load(from: *const Self) -> [__m512i; 2];
    unsafe fn store<const STREAM: bool>(to: *mut Self, x: [__m512i; 2]);
    unsafe fn neutral<const OP: u8>() -> __m512i;
    unsafe fn both<const OP: u8>(a: __m512i, b: __m512i) -> __m512i;
    /// The total, of which only the first lane counts, merged behind `carry`; `lost` is what its additions lost.
    unsafe fn merged<const OP: u8>(carry: &Carry, own: __m512i, lost: __m512i) -> Carry;
    /// A carry in every lane, and what its additions lost.
    unsafe fn spread(carry: &Carry) -> [__m512i; 2];
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn write<const STREAM: bool>(to: *mut __m512i, x: __m512i) {
    // SAFETY: the caller promises room, aligned where it is streamed to.
    unsafe { if STREAM { _mm512_stream_si512(to, x) } else { _mm512_storeu_si512(to, x) } }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn real<const OP: u8>(a: __m512i, b: __m512i) -> __m512i {
    let (a, b) = (_mm512_castsi512_pd(a), _mm512_castsi512_pd(b));
    _mm512_castpd_si512(match OP {
        SUM => _mm512_add_pd(a, b),
        PROD => _mm512_mul_pd(a, b),
        // The instruction gives `b` where either is NaN, so only a NaN in `a` is left to bring back.
        MAX => _mm512_mask_mov_pd(_mm512_max_pd(a, b), _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(a, a), a),
        _ => _mm512_mask_mov_pd(_mm512_min_pd(a, b), _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(a, a), a),
    })
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn splat(x: f64) -> __m512i {
    _mm512_castpd_si512(_mm512_set1_pd(x))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn first(x: __m512i) -> f64 {
    _mm512_cvtsd_f64(_mm512_castsi512_pd(x))
}

impl Wide for f32 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn load(from: *const f32) -> [__m512i; 2] {
        // SAFETY: the caller promises sixteen elements.
        let (a, b) = unsafe { (_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))) };
        [_mm512_castpd_si512(_mm512_cvtps_pd(a)), _mm512_castpd_si512(_mm512_cvtps_pd(b))]
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn store<const STREAM: bool>(to: *mut f32, x: [__m512i; 2]) {
        let [a, b] = [_mm512_cvtpd_ps(_mm512_castsi512_pd(x[0])), _mm512_cvtpd_ps(_mm512_castsi512_pd(x[1]))];
        let both = _mm512_insertf32x8::<1>(_mm512_castps256_ps512(a), b);
        // SAFETY: the caller's promise.
        unsafe { write::<STREAM>(to.cast(), _mm512_castps_si512(both)) }
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn neutral<const OP: u8>() -> __m512i {
        splat(neutral::<OP>())
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn both<const OP: u8>(a: __m512i, b: __m512i) -> __m512i {
        real::<OP>(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn merged<const OP: u8>(carry: &Carry, own: __m512i, _: __m512i) -> Carry {
        // SAFETY: the caller promises a total of this type.
        Carry::of(f32::merge::<OP>(unsafe { carry.get() }, first(own)))
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn spread(carry: &Carry) -> [__m512i; 2] {
        // SAFETY: the caller promises a total of this type.
        [splat(unsafe { carry.get() }), splat(-0.0)]
    }
}

impl Wide for f64 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn load(from: *const f64) -> [__m512i; 2] {
        // SAFETY: the caller promises sixteen elements.
        unsafe { [_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add(8).cast())] }
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn store<const STREAM: bool>(to: *mut f64, x: [__m512i; 2]) {
        // SAFETY: the caller's promise.
        unsafe {
            write::<STREAM>(to.cast(), x[0]);
            write::<STREAM>(to.add(8).cast(), x[1]);
        }
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn neutral<const OP: u8>() -> __m512i {
        splat(neutral::<OP>())
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn both<const OP: u8>(a: __m512i, b: __m512i) -> __m512i {
        real::<OP>(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn merged<const OP: u8>(carry: &Carry, own: __m512i, lost: __m512i) -> Carry {
        let own = Compensated { high: first(own), low: first(lost) };
        // SAFETY: the caller promises a total of this type.
        Carry::of(f64::merge::<OP>(unsafe { carry.get() }, own))
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn spread(carry: &Carry) -> [__m512i; 2] {
        // SAFETY: the caller promises a total of this type.
        let Compensated { high, low } = unsafe { carry.get() };
        // What an infinite sum lost is no number.
        [splat(high), splat(if high.is_finite() { low } else { -0.0 })]
    }
}

impl Wide for i64 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn load(from: *const i64) -> [__m512i; 2] {
        // SAFETY: the caller promises sixteen elements.
        unsafe { [_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add(8).cast())] }
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn store<const STREAM: bool>(to: *mut i64, x: [__m512i; 2]) {
        // SAFETY: the caller's promise.
        unsafe {
            write::<STREAM>(to.cast(), x[0]);
            write::<STREAM>(to.add(8).cast(), x[1]);
        }
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn neutral<const OP: u8>() -> __m512i {
        _mm512_set1_epi64(i64::identity::<OP>())
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn both<const OP: u8>(a: __m512i, b: __m512i) -> __m512i {
        match OP {
            SUM => _mm512_add_epi64(a, b),
            PROD => _mm512_mullo_epi64(a, b),
            MAX => _mm512_max_epi64(a, b),
            _ => _mm512_min_epi64(a, b),
        }
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn merged<const OP: u8>(carry: &Carry, own: __m512i, _: __m512i) -> Carry {
        let own = _mm_cvtsi128_si64(_mm512_castsi512_si128(own));
        // SAFETY: the caller promises a total of this type.
        Carry::of(i64::merge::<OP>(unsafe { carry.get() }, own))
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn spread(carry: &Carry) -> [__m512i; 2] {
        // SAFETY: the caller promises a total of this type.
        [_mm512_set1_epi64(unsafe { carry.get() }), splat(-0.0)]
    }
}

/// The walk of an operation on an item, with AVX-512.
pub(super) const fn walk<T: Wide, const OP: u8, const LOST: bool>() -> WalkAlong {
    along::<T, OP, LOST>
}

/// Walks a part of a row. `LOST` says that sums are compensated.
///
/// # Safety
/// The machine has AVX-512 F, BW, DQ and VL; the part's elements exist on both sides; `carry` is a total of `T`.
unsafe fn along<T: Wide, const OP: u8, const LOST: bool>(part: &RowPart, carry: &mut Carry) {
    // SAFETY: the caller's promise.
    unsafe {
        match part.writing {
            WalkWriting::Nothing => run::<T, OP, LOST, false, false>(part, carry),
            WalkWriting::Plain => run::<T, OP, LOST, true, false>(part, carry),
            WalkWriting::Stream => run::<T, OP, LOST, true, true>(part, carry),
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn run<T: Wide, const OP: u8, const LOST: bool, const WRITE: bool, const STREAM: bool>(
    part: &RowPart,
    carry: &mut Carry,
) {
    let (from, to) = (part.from.cast::<T>(), part.to.cast::<T>());
    // SAFETY: the caller promises the instruction set and the elements; steps stay within them.
    unsafe {
        let neutral = T::neutral::<OP>();
        let last = _mm512_set1_epi64(7);
        let [before, before_lost] = T::spread(carry);
        let mut own = neutral;
        let mut lost = splat(-0.0);
        let mut step = |x: [__m512i; 2]| {
            let mut y = x;
            for y in &mut y {
                let mut p = *y;
                p = T::both::<OP>(_mm512_alignr_epi64::<7>(p, neutral), p);
                p = T::both::<OP>(_mm512_alignr_epi64::<6>(p, neutral), p);
                p = T::both::<OP>(_mm512_alignr_epi64::<4>(p, neutral), p);
                let total = _mm512_permutexvar_epi64(last, p);
                if LOST {
                    if WRITE {
                        let behind = real::<SUM>(own, real::<SUM>(real::<SUM>(before_lost, lost), p));
                        *y = real::<SUM>(before, behind);
                    }
                    let sum = real::<SUM>(own, total);
                    lost = real::<SUM>(lost, rest(own, total, sum));
                    own = sum;
                } else {
                    if WRITE {
                        *y = T::both::<OP>(T::both::<OP>(before, own), p);
                    }
                    own = T::both::<OP>(own, total);
                }
            }
            y
        };
        let whole = part.elements / STEP * STEP;
        for i in (0..whole).step_by(STEP) {
            let y = step(T::load(from.add(i)));
            if WRITE {
                T::store::<STREAM>(to.add(i), y);
            }
        }
        let left = part.elements - whole;
        if left > 0 {
            let mut room = [T::result(T::identity::<OP>()); STEP];
            let bytes = left * size_of::<T>();
            std::ptr::copy_nonoverlapping(from.add(whole).cast::<u8>(), room.as_mut_ptr().cast(), bytes);
            let y = step(T::load(room.as_ptr()));
            if WRITE {
                T::store::<false>(room.as_mut_ptr(), y);
                std::ptr::copy_nonoverlapping(room.as_ptr().cast::<u8>(), to.add(whole).cast(), bytes);
            }
        }
        *carry = T::merged::<OP>(carry, own, lost);
    }
}

/// What an addition lost; nothing where the sum is not finite.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn rest(a: __m512i, b: __m512i, sum: __m512i) -> __m512i {
    let (a, b, sum) = (_mm512_castsi512_pd(a), _mm512_castsi512_pd(b), _mm512_castsi512_pd(sum));
    let grown = _mm512_sub_pd(sum, a);
    let rest = _mm512_add_pd(_mm512_sub_pd(a, _mm512_sub_pd(sum, grown)), _mm512_sub_pd(b, grown));
    let is_number = _mm512_cmp_pd_mask::<_CMP_ORD_Q>(rest, rest);
    _mm512_castpd_si512(_mm512_maskz_mov_pd(is_number, rest))
}

/// Which lanes of a vector are joined with what, by the index in its row of the vector's first element.
#[derive(Clone, Copy, Default)]
struct Joins {
    /// Lanes whose row reaches one, two and four elements back.
    back: [u8; 3],
    /// Lanes of a row that began before the vector.
    before: u8,
    /// All lanes if that row goes on after the vector.
    on: u8,
    /// The same index for the next vector.
    next: u8,
}

impl Joins {
    fn of(first: usize, n: usize) -> Joins {
        let mask = |which: &dyn Fn(usize) -> bool| (0..8).filter(|&l| which(l)).fold(0, |mask, l| mask | 1 << l);
        let before = |l: usize| first > 0 && first + l < n;
        Joins {
            back: [1, 2, 4].map(|back| mask(&|l| (first + l) % n >= back)),
            before: mask(&before),
            on: if before(7) { u8::MAX } else { 0 },
            next: ((first + 8) % n) as u8,
        }
    }
}

/// The walk of an operation over neighbouring rows of at most [`MOST_SHORT`] elements, with AVX-512.
pub(super) const fn short_walk<T: Wide, const OP: u8>() -> Walk {
    short::<T, OP>
}

/// Walks neighbouring short rows as one: in a vector, only elements of one row are joined.
///
/// # Safety
/// The machine has AVX-512 F, BW, DQ and VL; the rows' elements lie one behind the other, and exist on both sides; results begin with
/// a line where they are written past the caches.
unsafe fn short<T: Wide, const OP: u8>(rows: &Rows) {
    // SAFETY: the caller's promise.
    unsafe { if rows.streams { short_run::<T, OP, true>(rows) } else { short_run::<T, OP, false>(rows) } }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn short_run<T: Wide, const OP: u8, const STREAM: bool>(rows: &Rows) {
    let (from, to, n) = (rows.from.cast::<T>(), rows.to.cast::<T>(), rows.elements.min(MOST_SHORT));
    let mut joins = [Joins::default(); MOST_SHORT];
    for (first, joins) in joins.iter_mut().enumerate().take(n) {
        *joins = Joins::of(first, n);
    }
    // SAFETY: the caller promises the instruction set and the elements; steps stay within them, and indices below `n`.
    unsafe {
        let neutral = T::neutral::<OP>();
        let last = _mm512_set1_epi64(7);
        let (mut carry, mut first) = (neutral, 0u8);
        let mut step = |x: [__m512i; 2]| {
            let mut y = x;
            for y in &mut y {
                let joins = joins.get_unchecked(usize::from(first));
                let mut p = *y;
                let back = _mm512_alignr_epi64::<7>(p, neutral);
                p = _mm512_mask_mov_epi64(p, joins.back[0], T::both::<OP>(back, p));
                let back = _mm512_alignr_epi64::<6>(p, neutral);
                p = _mm512_mask_mov_epi64(p, joins.back[1], T::both::<OP>(back, p));
                let back = _mm512_alignr_epi64::<4>(p, neutral);
                p = _mm512_mask_mov_epi64(p, joins.back[2], T::both::<OP>(back, p));
                let total = _mm512_permutexvar_epi64(last, p);
                *y = _mm512_mask_mov_epi64(p, joins.before, T::both::<OP>(carry, p));
                carry = _mm512_mask_mov_epi64(total, joins.on, T::both::<OP>(carry, total));
                first = joins.next;
            }
            y
        };
        let elements = rows.rows * n;
        let whole = elements / STEP * STEP;
        for i in (0..whole).step_by(STEP) {
            let y = step(T::load(from.add(i)));
            T::store::<STREAM>(to.add(i), y);
        }
        let left = elements - whole;
        if left > 0 {
            let mut room = [T::result(T::identity::<OP>()); STEP];
            let bytes = left * size_of::<T>();
            std::ptr::copy_nonoverlapping(from.add(whole).cast::<u8>(), room.as_mut_ptr().cast(), bytes);
            let y = step(T::load(room.as_ptr()));
            T::store::<false>(room.as_mut_ptr(), y);
            std::ptr::copy_nonoverlapping(room.as_ptr().cast::<u8>(), to.add(whole).cast(), bytes);
        }
    }
}
