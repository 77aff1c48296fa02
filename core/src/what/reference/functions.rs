//! Functions of f64 that the standard library lacks, each within a few units in the last place.

/// The error function.
///
/// Below 2.75 the series `2/sqrt(pi) exp(-x^2) sum 2^n x^(2n+1) / (1 3 5 ... (2n+1))`, whose terms all have one sign;
/// beyond, one minus the continued fraction of the complement.
pub fn erf(x: f64) -> f64 {
    const TWO_OVER_SQRT_PI: f64 = std::f64::consts::FRAC_2_SQRT_PI;
    let a = x.abs();
    if x.is_nan() {
        x
    } else if a > 6.0 {
        1f64.copysign(x)
    } else if a < 2.75 {
        let (mut term, mut sum, mut n) = (x, x, 0.0);
        while term.abs() > sum.abs() * 1e-18 && n < 200.0 {
            n += 1.0;
            term *= 2.0 * x * x / (2.0 * n + 1.0);
            sum += term;
        }
        TWO_OVER_SQRT_PI * gauss(x) * sum
    } else {
        (1.0 - erfc_tail(a)).copysign(x)
    }
}

/// `1 - erf(x)` for x from about 2 on: `exp(-x^2)/sqrt(pi) / (x + (1/2)/(x + 1/(x + (3/2)/(x + ...))))`, from the inside out.
fn erfc_tail(x: f64) -> f64 {
    let mut tail = x;
    for n in (1..=120).rev() {
        tail = x + f64::from(n) / 2.0 / tail;
    }
    gauss(x) * std::f64::consts::FRAC_2_SQRT_PI / 2.0 / tail
}

/// `exp(-x^2)`, with what the square lost to rounding.
fn gauss(x: f64) -> f64 {
    let square = x * x;
    (-square).exp() * (1.0 - x.mul_add(x, -square))
}

/// `1 / (1 + exp(-x))`, without overflow on either side.
pub(super) fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let e = x.exp();
        e / (1.0 + e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_matches_known_digits() {
        for (x, y) in [
            (0.0, 0.0),
            (1e-10, 1.128_379_167_095_512_5e-10),
            (0.1, 0.112_462_916_018_284_89),
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.0, 0.995_322_265_018_952_7),
            (3.0, 0.999_977_909_503_001_4),
            (4.0, 0.999_999_984_582_742_1),
            (5.5, 0.999_999_999_999_992_7),
            (10.0, 1.0),
        ] {
            assert!((erf(x) - y).abs() <= 4.0 * f64::EPSILON * y, "erf({x}) = {:e}, not {y:e}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
        assert!(erf(f64::NAN).is_nan());
        assert_eq!((erf(f64::INFINITY), erf(f64::NEG_INFINITY)), (1.0, -1.0));
        assert_eq!(erf(1e-310), 1e-310 * std::f64::consts::FRAC_2_SQRT_PI);
    }

    #[test]
    fn both_branches_of_erf_meet() {
        let (low, high) = (erf(2.75f64.next_down()), erf(2.75));
        assert!((high - low).abs() <= 2.0 * f64::EPSILON);
    }

    #[test]
    fn sigmoid_is_exact_in_both_tails() {
        assert_eq!(sigmoid(0.0), 0.5);
        assert!((sigmoid(-700.0) / (-700f64).exp() - 1.0).abs() < 1e-15);
        assert_eq!((sigmoid(800.0), sigmoid(f64::NEG_INFINITY)), (1.0, 0.0));
    }
}
