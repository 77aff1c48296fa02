//! Quotients and remainders of integers by one divisor: a multiplication by its reciprocal instead of a division.
//!
//! The reciprocal of a divisor `d` of `w` bits is rounded up with one bit more than `w`, of which the highest is left out; so the
//! quotient is exact for every dividend (Granlund, Montgomery: Division by invariant integers using multiplication, 1994).
//! Blocks are of i32, u32, i64 and u64. Divisors that are not positive, and very short blocks, are divided by as usual.

use super::each::{CHUNK, Zip, write};
use super::entry::{Block, C, V, resolve, resolve_scalar};
use super::int::{FloorDiv, Rem};
use super::{Binary, BlockFn, DType};
use crate::simd::{Float, Int, Isa, MAX_LANES, Simd};
use std::marker::PhantomData;

/// Blocks shorter than this do not pay for a reciprocal.
const SHORT: usize = 16;

/// A divisor above 1 as a factor and a shift: `n / d` is `(t + (n - t) / 2) >> shift`, where `t` is the upper half of
/// `n * factor`.
#[derive(Clone, Copy)]
struct Reciprocal {
    factor: u64,
    shift: u32,
}

impl Reciprocal {
    /// That of `d` for dividends of so many bits, at most 64; `d` is above 1 and has no more.
    #[inline(always)]
    fn new(d: u64, bits: u32) -> Reciprocal {
        let ceiling = u64::BITS - (d - 1).leading_zeros();
        let rest = (1u128 << ceiling) - u128::from(d);
        Reciprocal { factor: ((rest << bits) / u128::from(d)) as u64 + 1, shift: ceiling - 1 }
    }
}

/// `dst = a / *b`, or the remainder.
struct By<T, const REM: bool>(PhantomData<T>);

macro_rules! narrow {
    ($t:ty, $unsigned:ty) => {
        impl<const REM: bool> Block for By<$t, REM> {
            #[inline(always)]
            unsafe fn run<S: Simd>(s: S, dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
                // SAFETY: the caller promises `n` elements at `dst` and `a`, one at `b`; `i` stays within them.
                unsafe {
                    let d = b.cast::<$t>().read_unaligned();
                    if n < SHORT || d <= 1 {
                        return usual::<S, $t, REM>(s, dst, a, b, c, n);
                    }
                    let Reciprocal { factor, shift } = Reciprocal::new(d as u64, 32);
                    let factor = factor as u32;
                    let (dst, a) = (dst.cast::<$t>(), a.cast::<$t>());
                    let one = |x: $t| {
                        // All ones for a negative number: its complement is divided, so that the quotient is rounded down.
                        let sign = if x < 0 as $t { <$unsigned>::MAX } else { 0 };
                        let m = x as $unsigned ^ sign;
                        let t = ((u64::from(m) * u64::from(factor)) >> 32) as u32;
                        let q = (t + ((m - t) >> 1)).wrapping_shr(shift) ^ sign;
                        (if REM { (x as $unsigned).wrapping_sub(q.wrapping_mul(d as $unsigned)) } else { q }) as $t
                    };
                    let mut i = 0;
                    while i + CHUNK <= n {
                        let x = a.add(i).cast::<[$t; CHUNK]>().read_unaligned();
                        write(dst.add(i), |j| one(x[j]));
                        i += CHUNK;
                    }
                    while i < n {
                        dst.add(i).write_unaligned(one(a.add(i).read_unaligned()));
                        i += 1;
                    }
                }
            }
        }
    };
}

narrow!(u32, u32);
narrow!(i32, u32);

macro_rules! wide {
    ($t:ty) => {
        impl<const REM: bool> Block for By<$t, REM> {
            #[inline(always)]
            unsafe fn run<S: Simd>(s: S, dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
                let lanes = S::F64::LANES;
                // SAFETY: the caller promises `n` elements at `dst` and `a`, one at `b`; `i` stays within them, or within a buffer.
                unsafe {
                    let d = b.cast::<$t>().read_unaligned();
                    if n < SHORT || d <= 1 {
                        return usual::<S, $t, REM>(s, dst, a, b, c, n);
                    }
                    let signed = <$t>::MIN != 0;
                    let divisor = d as u64;
                    let by = Reciprocal::new(divisor, 64);
                    let (dst, a) = (dst.cast::<i64>(), a.cast::<i64>());
                    let mut i = 0;
                    while i + lanes <= n {
                        one::<S, REM>(s, S::I64::load(a.add(i)), divisor, by, signed).store(dst.add(i));
                        i += lanes;
                    }
                    if i < n {
                        let mut rest = [0i64; MAX_LANES];
                        std::ptr::copy_nonoverlapping(a.add(i), rest.as_mut_ptr(), n - i);
                        one::<S, REM>(s, S::I64::load(rest.as_ptr()), divisor, by, signed).store(rest.as_mut_ptr());
                        std::ptr::copy_nonoverlapping(rest.as_ptr(), dst.add(i), n - i);
                    }
                }
            }
        }
    };
}

wide!(u64);
wide!(i64);

/// The quotient of a vector of u64, or of i64 rounded down, or the remainder.
#[inline(always)]
fn one<S: Simd, const REM: bool>(s: S, x: S::I64, d: u64, by: Reciprocal, signed: bool) -> S::I64 {
    let zero = s.i64(0);
    // All ones for a negative number: its complement is divided, so that the quotient is rounded down.
    let sign = if signed { S::I64::select(zero.gt(x), s.i64(-1), zero) } else { zero };
    let m = x ^ sign;
    let t = upper_product(s, m, by.factor);
    let q = s.shr_by(t + (m - t).shr::<1>(), by.shift) ^ sign;
    if REM { x - product(s, q, d) } else { q }
}

/// The upper halves of the products of u64 with one factor.
#[inline(always)]
fn upper_product<S: Simd>(s: S, x: S::I64, factor: u64) -> S::I64 {
    let (f0, f1) = (s.i64((factor & u64::from(u32::MAX)) as i64), s.i64((factor >> 32) as i64));
    let (x0, x1) = (x, x.shr::<32>());
    let (low, cross) = (s.mul_low(x0, f0), s.mul_low(x0, f1));
    let middle = s.mul_low(x1, f0) + low.shr::<32>() + (cross & s.i64(i64::from(u32::MAX)));
    s.mul_low(x1, f1) + cross.shr::<32>() + middle.shr::<32>()
}

/// The lower halves of the products of u64 with one factor.
#[inline(always)]
fn product<S: Simd>(s: S, x: S::I64, factor: u64) -> S::I64 {
    let (f0, f1) = (s.i64(factor as i64), s.i64((factor >> 32) as i64));
    s.mul_low(x, f0) + (s.mul_low(x.shr::<32>(), f0) + s.mul_low(x, f1)).shl::<32>()
}

/// As kernels divide whose divisors differ.
///
/// # Safety
/// As for [`BlockFn`], with one divisor.
#[inline(always)]
unsafe fn usual<S: Simd, T: super::int::Integer, const REM: bool>(
    s: S,
    dst: *mut u8,
    a: *const u8,
    b: *const u8,
    c: *const u8,
    n: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if REM {
            Zip::<Rem<T>, V, C>::run(s, dst, a, b, c, n)
        } else {
            Zip::<FloorDiv<T>, V, C>::run(s, dst, a, b, c, n)
        }
    }
}

fn of<const REM: bool>(isa: Isa, elem: DType) -> Option<BlockFn> {
    Some(match elem {
        DType::I32 => resolve_scalar::<By<i32, REM>>(isa),
        DType::U32 => resolve_scalar::<By<u32, REM>>(isa),
        DType::I64 => resolve::<By<i64, REM>>(isa),
        DType::U64 => resolve::<By<u64, REM>>(isa),
        _ => return None,
    })
}

/// The quotient, rounded down, or the remainder, where all elements have one divisor.
pub fn by_one(isa: Isa, op: Binary, elem: DType) -> Option<BlockFn> {
    match op {
        Binary::FloorDiv => of::<false>(isa, elem),
        Binary::Rem => of::<true>(isa, elem),
        _ => None,
    }
}
