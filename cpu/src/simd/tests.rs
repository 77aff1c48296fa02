//! Every vector operation against its scalar meaning, on every instruction set of the machine.

use super::{Float, Int, Isa, Mask, Real, Simd, WithSimd, vectorize};
use std::fmt::Debug;

/// Values of every kind.
fn samples<T: Real>() -> Vec<T> {
    let mut x: Vec<f64> =
        vec![0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 1e30, -1e-30, f64::INFINITY, f64::NEG_INFINITY];
    x.extend([f64::NAN, 3.7, -3.2, 1e-40, 8_388_609.0, -0.49]);
    x.into_iter().cycle().map(T::from_f64).take(16 * 18).collect()
}

/// Applies vector functions of one and two operands to slices.
struct Apply<'a, T: Real>(&'a [T], &'a [T], Vec<Vec<T>>);

macro_rules! apply {
    ($t:ty) => {
        impl WithSimd for Apply<'_, $t> {
            type Output = Vec<Vec<$t>>;
            #[inline(always)]
            fn run<S: Simd>(mut self, s: S) -> Self::Output {
                type V<S> = <$t as Real>::V<S>;
                let lanes = V::<S>::LANES;
                for (a, b) in self.0.chunks_exact(lanes).zip(self.1.chunks_exact(lanes)) {
                    // SAFETY: the chunks have as many elements as the vector.
                    let (x, y) = unsafe { (V::<S>::load(a.as_ptr()), V::<S>::load(b.as_ptr())) };
                    let one = <$t as Real>::splat(s, 1.0);
                    let yes = |m| V::<S>::select(m, one, <$t as Real>::splat(s, 0.0));
                    let results = [
                        x + y,
                        x - y,
                        x * y,
                        x / y,
                        -x,
                        x.abs(),
                        x.sqrt(),
                        x.floor(),
                        x.ceil(),
                        x.trunc(),
                        x.round(),
                        x.sign_bit(),
                        x.max_nan(y),
                        x.min_nan(y),
                        yes(x.lt(y)),
                        yes(x.le(y)),
                        yes(x.eq(y)),
                        yes(!x.lt(y)),
                        yes(x.lt(y) | x.eq(y)),
                        yes(x.is_negative()),
                        x.mul_add(y, one),
                        x.neg_mul_add(y, one),
                        V::<S>::from_bits(x.to_bits()),
                        x ^ x.sign_bit(),
                    ];
                    for (list, r) in self.2.iter_mut().zip(results) {
                        list.extend_from_slice(&r.to_array()[..lanes]);
                    }
                    let bits = (0..lanes).fold(0, |bits, i| bits | (u32::from(a[i] < b[i]) << i));
                    assert_eq!(x.lt(y).bits(), bits);
                    assert_eq!(x.lt(y).any(), bits != 0);
                    for set in [0, 1, 0b1011, bits, !bits, u32::MAX] {
                        // SAFETY: there is an element for each lane.
                        let some = unsafe { V::<S>::load_lanes(a.as_ptr(), set, one) }.to_array();
                        for i in 0..lanes {
                            let wanted = if set & (1 << i) != 0 { a[i] } else { 1.0 };
                            assert_eq!(some[i].to_bits(), wanted.to_bits());
                        }
                    }
                    for n in 0..=lanes {
                        // SAFETY: `n` is at most the number of elements.
                        let part = unsafe { V::<S>::load_partial(a.as_ptr(), n, one) }.to_array();
                        for i in 0..lanes {
                            assert_eq!(part[i].to_bits(), if i < n { a[i] } else { 1.0 }.to_bits());
                        }
                        let mut out = [7.0; 16];
                        // SAFETY: the array holds any vector.
                        unsafe { x.store_partial(out.as_mut_ptr(), n) };
                        for i in 0..16 {
                            assert_eq!(out[i].to_bits(), if i < n { a[i] } else { 7.0 }.to_bits());
                        }
                    }
                }
                self.2
            }
        }

        impl Scalars for $t {
            fn scalar(self, y: $t) -> Vec<$t> {
                let x = self;
                let yes = |b: bool| if b { 1.0 } else { 0.0 };
                let nan = x.is_nan() || y.is_nan();
                vec![
                    x + y,
                    x - y,
                    x * y,
                    x / y,
                    -x,
                    x.abs(),
                    x.sqrt(),
                    x.floor(),
                    x.ceil(),
                    x.trunc(),
                    x.round_ties_even(),
                    (0.0 as $t).copysign(x),
                    if nan { <$t>::NAN } else { x.max(y) },
                    if nan { <$t>::NAN } else { x.min(y) },
                    yes(x < y),
                    yes(x <= y),
                    yes(x == y),
                    yes(nan || x >= y),
                    yes(x <= y),
                    yes(x.is_sign_negative()),
                    x.mul_add(y, 1.0),
                    (-x).mul_add(y, 1.0),
                    x,
                    x.abs(),
                ]
            }
            fn same(self, other: $t) -> bool {
                self == other || (self.is_nan() && other.is_nan())
            }
        }
    };
}

trait Scalars: Real + Debug {
    fn scalar(self, y: Self) -> Vec<Self>;
    fn same(self, other: Self) -> bool;
}

apply!(f32);
apply!(f64);

fn check<T: Scalars>()
where
    for<'a> Apply<'a, T>: WithSimd<Output = Vec<Vec<T>>>,
{
    let a = samples::<T>();
    // Every pairing, by shifting one against the other.
    for shift in 0..18 {
        let mut b = a.clone();
        b.rotate_left(shift);
        for isa in Isa::available() {
            let results = vectorize(isa, Apply(&a, &b, vec![Vec::new(); 24]));
            for (i, (&x, &y)) in a.iter().zip(&b).enumerate() {
                for (op, want) in x.scalar(y).into_iter().enumerate() {
                    let got = results[op][i];
                    assert!(got.same(want), "operation {op} of {x:?} and {y:?} on {isa:?} is {got:?}, not {want:?}");
                }
            }
        }
    }
}

#[test]
fn f32_vectors_compute_what_scalars_do() {
    check::<f32>();
}

#[test]
fn f64_vectors_compute_what_scalars_do() {
    check::<f64>();
}

#[test]
fn integer_vectors_shift_compare_and_select() {
    struct Ints;
    impl WithSimd for Ints {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self, s: S) {
            let a: Vec<i32> = (0..16).map(|i| 0x1234_5677_i32.wrapping_mul(-7 * i)).collect();
            let mut out = [0i32; 16];
            let n = S::F32::LANES;
            // SAFETY: both arrays hold any vector.
            unsafe {
                let x = S::I32::load(a.as_ptr());
                let y = s.i32(12345);
                let mut check = |v: S::I32, f: &dyn Fn(i32) -> i32| {
                    v.store(out.as_mut_ptr());
                    for i in 0..n {
                        assert_eq!(out[i], f(a[i]));
                    }
                };
                check(x + y, &|a| a.wrapping_add(12345));
                check(x - y, &|a| a.wrapping_sub(12345));
                check(x & y, &|a| a & 12345);
                check(x | y, &|a| a | 12345);
                check(x ^ y, &|a| a ^ 12345);
                check(x.shl::<5>(), &|a| a << 5);
                check(x.shr::<23>(), &|a| (a as u32 >> 23) as i32);
                check(S::I32::select(x.gt(y), x, y), &|a| a.max(12345));
                check(S::I32::select(x.eq(x), y, x), &|_| 12345);
                check(s.f32_to_i32(s.i32_to_f32(x.shr::<9>())), &|a| (a as u32 >> 9) as i32);
            }
            let a: Vec<i64> = (0..16).map(|i| 0x1234_5677_89ab_cdef_i64.wrapping_mul(-7 * i)).collect();
            let mut out = [0i64; 16];
            let n = S::F64::LANES;
            // SAFETY: both arrays hold any vector.
            unsafe {
                let x = S::I64::load(a.as_ptr());
                let y = s.i64(-5_000_000_000);
                let mut check = |v: S::I64, f: &dyn Fn(i64) -> i64| {
                    v.store(out.as_mut_ptr());
                    for i in 0..n {
                        assert_eq!(out[i], f(a[i]));
                    }
                };
                check(x + y, &|a| a.wrapping_add(-5_000_000_000));
                check(x - y, &|a| a.wrapping_sub(-5_000_000_000));
                check(x.shl::<13>(), &|a| a << 13);
                check(x.shr::<52>(), &|a| (a as u64 >> 52) as i64);
                check(S::I64::select(x.gt(y), x, y), &|a| a.max(-5_000_000_000));
            }
        }
    }
    for isa in Isa::available() {
        vectorize(isa, Ints);
    }
}

#[test]
fn lanes_are_summed() {
    struct Sum;
    impl WithSimd for Sum {
        type Output = (f32, usize, f64, usize);
        #[inline(always)]
        fn run<S: Simd>(self, _: S) -> Self::Output {
            let (a, b): (Vec<f32>, Vec<f64>) = ((0..16).map(|i| i as f32).collect(), (0..16).map(f64::from).collect());
            // SAFETY: sixteen elements hold any vector.
            let (x, y) = unsafe { (S::F32::load(a.as_ptr()), S::F64::load(b.as_ptr())) };
            (x.sum(), S::F32::LANES, y.sum(), S::F64::LANES)
        }
    }
    for isa in Isa::available() {
        let (x, n, y, m) = vectorize(isa, Sum);
        assert_eq!((x, y), ((n * (n - 1) / 2) as f32, (m * (m - 1) / 2) as f64));
    }
}

#[test]
fn an_instruction_set_that_the_machine_lacks_falls_back() {
    for isa in Isa::ALL {
        assert!(isa.or_portable().is_available());
    }
    assert!(Isa::detect().is_available());
    assert_eq!(Isa::available().last(), Some(Isa::Portable));
}

/// Products of low halves, shifts, and lanes in turn.
struct Halves<'a>(&'a [i64], &'a [i64]);

impl WithSimd for Halves<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let lanes = S::F64::LANES;
        for (a, b) in self.0.chunks_exact(lanes).zip(self.1.chunks_exact(lanes)) {
            let (mut product, mut both) = (vec![0i64; lanes], vec![0i64; 2 * lanes]);
            let (by, mut shifted) = (b[0] as u32 % 64, vec![0i64; lanes]);
            // SAFETY: all lists have as many elements as the vectors.
            unsafe {
                let (x, y) = (S::I64::load(a.as_ptr()), S::I64::load(b.as_ptr()));
                s.mul_low(x, y).store(product.as_mut_ptr());
                s.shr_by(x, by).store(shifted.as_mut_ptr());
                let [low, high] = s.interleave(x, y);
                low.store(both.as_mut_ptr());
                high.store(both.as_mut_ptr().add(lanes));
            }
            for i in 0..lanes {
                assert_eq!(product[i] as u64, u64::from(a[i] as u32) * u64::from(b[i] as u32));
                assert_eq!(shifted[i] as u64, a[i] as u64 >> by);
                assert_eq!(both[2 * i..2 * i + 2], [a[i], b[i]]);
            }
        }
    }
}

#[test]
fn low_halves_are_multiplied_lanes_shifted_and_taken_in_turn() {
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x ^ (x >> 29)) as i64
    };
    let mut a: Vec<i64> = vec![0, -1, i64::MAX, i64::MIN, 1, i64::from(u32::MAX), 1 << 32, 7];
    let mut b: Vec<i64> = vec![-1; a.len()];
    a.extend((0..64).map(|_| next()));
    b.extend((0..64).map(|_| next()));
    for isa in Isa::available() {
        vectorize(isa, Halves(&a, &b));
    }
}

/// Lanes of even and of odd indices, and lanes moved past the ends of vectors.
struct Moved;

impl WithSimd for Moved {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let lanes = S::F32::LANES;
        let all: Vec<f32> = (0..2 * lanes).map(|i| i as f32).collect();
        // SAFETY: the list has as many elements as two vectors, which have four lanes or more.
        let (a, b, four) =
            unsafe { (S::F32::load(all.as_ptr()), S::F32::load(all.as_ptr().add(lanes)), s.load_four(all.as_ptr())) };
        let [even, odd] = s.phases(a, b);
        let next = [s.next::<1>(a, b), s.next::<2>(a, b), s.next::<3>(a, b)];
        let before = [s.before::<1>(a, b), s.before::<2>(a, b), s.before::<3>(a, b)];
        for i in 0..lanes {
            assert_eq!([even.to_array()[i], odd.to_array()[i]], [all[2 * i], all[2 * i + 1]]);
            assert_eq!(four.to_array()[i], all[i % 4]);
            for n in 1..=3 {
                assert_eq!(next[n - 1].to_array()[i], all[i + n]);
                assert_eq!(before[n - 1].to_array()[i], all[lanes + i - n]);
            }
        }
    }
}

#[test]
fn lanes_part_and_move_past_the_ends_of_vectors() {
    for isa in Isa::available() {
        vectorize(isa, Moved);
    }
}
