//! Quotients and remainders by one divisor against those of wider integers, at the values where a reciprocal would be off.

use super::{Random, run2};
use crate::math::{Form, binary};
use crate::simd::Isa;
use millstream_core::{Binary, DType};

macro_rules! by_one_divisor {
    ($t:ty, $elem:ident, $name:ident) => {
        #[test]
        fn $name() {
            let mut r = Random::new();
            let mut divisors: Vec<$t> = vec![0, 1, 2, 3, 5, 6, 7, 10, 641, 1000, <$t>::MAX, <$t>::MAX - 1, <$t>::MIN];
            divisors.extend((1..<$t>::BITS).flat_map(|s| {
                let power = (1 as $t).wrapping_shl(s);
                [power, power.wrapping_sub(1), power.wrapping_add(1), power.wrapping_neg()]
            }));
            divisors.extend((0..50).map(|i| (r.bits() >> i) as $t));
            divisors.extend((0..20).map(|i| ((r.bits() >> i) as $t).wrapping_neg()));
            for isa in Isa::available() {
                let find = |op| binary(isa, op, DType::$elem, Form::VS).unwrap();
                let (quotient, remainder) = (find(Binary::FloorDiv), find(Binary::Rem));
                for &d in &divisors {
                    let mut a: Vec<$t> = vec![0, 1, 2, <$t>::MAX, <$t>::MIN, <$t>::MAX - 1, <$t>::MIN + 1];
                    for _ in 0..9 {
                        // Around multiples of the divisor.
                        let multiple = (r.bits() as $t).checked_div(d).unwrap_or(0).wrapping_mul(d);
                        a.extend([multiple, multiple.wrapping_sub(1), multiple.wrapping_add(1), r.bits() as $t]);
                    }
                    let n = a.len() - r.below(40) as usize;
                    let (mut q, mut m) = (vec![0 as $t; n], vec![0 as $t; n]);
                    run2(quotient, &a, &[d], &mut q);
                    run2(remainder, &a, &[d], &mut m);
                    for i in 0..n {
                        let (x, y) = (i128::from(a[i]), i128::from(d));
                        let want = match y {
                            0 => (0, 0),
                            _ => {
                                let low = x.div_euclid(y) - i128::from(y < 0 && x.rem_euclid(y) != 0);
                                (low as $t, (x - low * y) as $t)
                            }
                        };
                        assert_eq!((q[i], m[i]), want, "{isa:?} {x} by {y}, seed {}", r.seed);
                    }
                }
            }
        }
    };
}

by_one_divisor!(i32, I32, i32_is_divided_exactly_by_one_divisor);
by_one_divisor!(u32, U32, u32_is_divided_exactly_by_one_divisor);
by_one_divisor!(i64, I64, i64_is_divided_exactly_by_one_divisor);
by_one_divisor!(u64, U64, u64_is_divided_exactly_by_one_divisor);
