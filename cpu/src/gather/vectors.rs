//! Indices to elements of 4 and 8 bytes in one go, eight at a time, by the gathers of AVX-512.
//!
//! Positions never leave registers, and more of the table's lines are under way than loads one after another would have.

use std::arch::x86_64::*;

use millstream_core::{DType, Lookup};

use super::moves::{Moves, Soon};
use crate::prefetch::prefetch;

/// Indices that lie one after the other.
pub(super) struct Indices<'a> {
    pub from: *const u8,
    pub dtype: DType,
    pub lookup: &'a Lookup,
    pub count: usize,
    pub soon: Soon,
}

/// Looks up all indices: whether all are inside their axis; `None` where this way does not serve. Steps are those of the table, the
/// indices and the result.
///
/// # Safety
/// The machine has AVX-512 F, BW, DQ and VL. The indices, and `bytes` bytes of the result for each, exist; so does what each index that
/// is inside its axis leads to in the table.
pub(super) unsafe fn look_up(
    indices: &mut Indices<'_>,
    table: *const u8,
    to: *mut u8,
    steps: [isize; 3],
    bytes: usize,
    moves: &Moves,
) -> Option<bool> {
    if steps[1] != indices.dtype.size() as isize || steps[2] != bytes as isize {
        return None;
    }
    let streams = moves.streams && (to as usize).is_multiple_of(64);
    macro_rules! by {
        ($load:ident) => {
            match (bytes, streams) {
                // SAFETY: the caller's promise.
                (4, false) => unsafe { elements::<$load, Four, false>(indices, table, to, steps[0], moves) },
                // SAFETY: as above.
                (4, true) => unsafe { elements::<$load, Four, true>(indices, table, to, steps[0], moves) },
                // SAFETY: as above.
                (8, false) => unsafe { elements::<$load, Eight, false>(indices, table, to, steps[0], moves) },
                // SAFETY: as above.
                (8, true) => unsafe { elements::<$load, Eight, true>(indices, table, to, steps[0], moves) },
                _ => return None,
            }
        };
    }
    Some(match indices.dtype {
        DType::I8 => by!(I8),
        DType::I16 => by!(I16),
        DType::I32 => by!(I32),
        DType::U8 => by!(U8),
        DType::U16 => by!(U16),
        DType::U32 => by!(U32),
        DType::U64 => by!(U64),
        _ => by!(I64),
    })
}

/// Eight neighbouring indices as i64; one that is larger than all indices stays so.
trait Load {
    type Index: Copy + Default;
    unsafe fn load(from: *const Self::Index) -> __m512i;
}

macro_rules! load {
    ($($name:ident $t:ty, $from:ident => $e:expr;)+) => {$(
        struct $name;
        impl Load for $name {
            type Index = $t;
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            unsafe fn load($from: *const $t) -> __m512i {
                // SAFETY: the caller promises eight indices.
                unsafe { $e }
            }
        }
    )+};
}
load! {
    I8 i8, p => _mm512_cvtepi8_epi64(_mm_loadl_epi64(p.cast()));
    U8 u8, p => _mm512_cvtepu8_epi64(_mm_loadl_epi64(p.cast()));
    I16 i16, p => _mm512_cvtepi16_epi64(_mm_loadu_si128(p.cast()));
    U16 u16, p => _mm512_cvtepu16_epi64(_mm_loadu_si128(p.cast()));
    I32 i32, p => _mm512_cvtepi32_epi64(_mm256_loadu_si256(p.cast()));
    U32 u32, p => _mm512_cvtepu32_epi64(_mm256_loadu_si256(p.cast()));
    I64 i64, p => _mm512_loadu_si512(p.cast());
    U64 u64, p => _mm512_min_epu64(_mm512_loadu_si512(p.cast()), _mm512_set1_epi64(i64::MAX));
}

/// Elements of one size, eight at a time.
trait GatherElement {
    const BYTES: usize;
    /// Eight of them.
    type Vector: Copy;
    unsafe fn fill(moves: &Moves) -> Self::Vector;
    /// Those at these positions, or `fill` where the mask has no bit.
    unsafe fn gather(fill: Self::Vector, mask: __mmask8, at: __m512i, table: *const u8) -> Self::Vector;
    /// Writes twice eight; past the caches to whole lines if `STREAM`.
    unsafe fn store<const STREAM: bool>(to: *mut u8, x: [Self::Vector; 2]);
    unsafe fn store_some(to: *mut u8, mask: __mmask8, x: Self::Vector);
}

struct Four;
impl GatherElement for Four {
    const BYTES: usize = 4;
    type Vector = __m256i;
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn fill(moves: &Moves) -> __m256i {
        _mm256_set1_epi32(moves.filled())
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn gather(fill: __m256i, mask: __mmask8, at: __m512i, table: *const u8) -> __m256i {
        // SAFETY: the caller promises an element at each position with a bit.
        unsafe { _mm512_mask_i64gather_epi32::<1>(fill, mask, at, table.cast()) }
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn store<const STREAM: bool>(to: *mut u8, [x, y]: [__m256i; 2]) {
        let both = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(x), y);
        // SAFETY: the caller promises room, aligned to 64 bytes where it is streamed to.
        unsafe { if STREAM { _mm512_stream_si512(to.cast(), both) } else { _mm512_storeu_si512(to.cast(), both) } }
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn store_some(to: *mut u8, mask: __mmask8, x: __m256i) {
        // SAFETY: the caller promises room for elements with a bit.
        unsafe { _mm256_mask_storeu_epi32(to.cast(), mask, x) }
    }
}

struct Eight;
impl GatherElement for Eight {
    const BYTES: usize = 8;
    type Vector = __m512i;
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn fill(moves: &Moves) -> __m512i {
        _mm512_set1_epi64(moves.filled())
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn gather(fill: __m512i, mask: __mmask8, at: __m512i, table: *const u8) -> __m512i {
        // SAFETY: the caller promises an element at each position with a bit.
        unsafe { _mm512_mask_i64gather_epi64::<1>(fill, mask, at, table.cast()) }
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn store<const STREAM: bool>(to: *mut u8, x: [__m512i; 2]) {
        for (i, x) in x.into_iter().enumerate() {
            let to = to.wrapping_add(i * 64).cast();
            // SAFETY: the caller promises room, aligned to 64 bytes where it is streamed to.
            unsafe { if STREAM { _mm512_stream_si512(to, x) } else { _mm512_storeu_si512(to.cast(), x) } }
        }
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn store_some(to: *mut u8, mask: __mmask8, x: __m512i) {
        // SAFETY: the caller promises room for elements with a bit.
        unsafe { _mm512_mask_storeu_epi64(to.cast(), mask, x) }
    }
}

const LANES: usize = 8;
const _: () = assert!(Soon::SHARE == 2 * LANES);
/// Indices from those that are looked up to those whose elements are prefetched.
const AHEAD: usize = 64;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn elements<L: Load, E: GatherElement, const STREAM: bool>(
    indices: &mut Indices<'_>,
    table: *const u8,
    to: *mut u8,
    step: isize,
    moves: &Moves,
) -> bool {
    let from = indices.from.cast::<L::Index>();
    let step = step as i64;
    let (size, stride) = (indices.lookup.size as i64, indices.lookup.stride as i64);
    let (size, stride) = (_mm512_set1_epi64(size), _mm512_set1_epi64(stride));
    // Which of eight indices are inside, and where they lead from where the table itself is for each.
    let look = |indices: __m512i, lanes: __m512i| {
        let wanted = _mm512_add_epi64(indices, _mm512_and_si512(size, _mm512_srai_epi64::<63>(indices)));
        let inside = _mm512_cmplt_epu64_mask(wanted, size);
        (inside, _mm512_add_epi64(lanes, _mm512_mullo_epi64(wanted, stride)))
    };
    // SAFETY: the caller promises the instruction set, the indices and the result; only what is inside its axis is read.
    unsafe {
        let fill = E::fill(moves);
        let mut lanes = _mm512_mullo_epi64(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0), _mm512_set1_epi64(step));
        let next = _mm512_set1_epi64(step.wrapping_mul(LANES as i64));
        let later = _mm512_set1_epi64(step.wrapping_mul(AHEAD as i64));
        let mut all = __mmask8::MAX;
        let mut i = 0;
        while i + Soon::SHARE <= indices.count {
            let mut both = [fill; 2];
            for x in &mut both {
                if moves.very_far && i + AHEAD + LANES <= indices.count {
                    let (inside, at) = look(L::load(from.add(i + AHEAD)), _mm512_add_epi64(lanes, later));
                    prefetch_run(table, _mm512_maskz_mov_epi64(inside, at));
                }
                let (inside, at) = look(L::load(from.add(i)), lanes);
                all &= inside;
                *x = E::gather(fill, inside, at, table);
                lanes = _mm512_add_epi64(lanes, next);
                i += LANES;
            }
            indices.soon.prefetch(Soon::SHARE);
            E::store::<STREAM>(to.add((i - Soon::SHARE) * E::BYTES), both);
        }
        while i < indices.count {
            let left = (indices.count - i).min(LANES);
            let mut rest = [L::Index::default(); LANES];
            let bytes = left * size_of::<L::Index>();
            std::ptr::copy_nonoverlapping(from.add(i).cast::<u8>(), rest.as_mut_ptr().cast(), bytes);
            let (inside, at) = look(L::load(rest.as_ptr()), lanes);
            let some = u8::MAX >> (LANES - left);
            all &= inside | !some;
            E::store_some(to.add(i * E::BYTES), some, E::gather(fill, inside & some, at, table));
            lanes = _mm512_add_epi64(lanes, next);
            i += LANES;
        }
        all == __mmask8::MAX
    }
}

/// Prefetches what lies at these positions, in L2, which has more lines under way than L1.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn prefetch_run(table: *const u8, positions: __m512i) {
    let mut all = [0i64; LANES];
    // SAFETY: the array has room for eight.
    unsafe { _mm512_storeu_si512(all.as_mut_ptr().cast(), positions) };
    for at in all {
        prefetch::<false>(table.wrapping_offset(at as isize));
    }
}
