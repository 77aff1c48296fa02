//! Functions of complex numbers that are made of functions of their parts and of complex square roots.
//!
//! Their error is relative to the modulus of the result, some ten roundoffs away from poles and branch points. Branch cuts are
//! those of C and of the Python Array API; infinities and NaN inside of a formula may spread.

use millstream_core::Unary;

use crate::Tensor;

/// `i z`.
fn rotated(z: &Tensor) -> Tensor {
    Tensor::complex(&-z.imag(), &z.real())
}

/// `-i z`.
fn rotated_back(z: &Tensor) -> Tensor {
    Tensor::complex(&z.imag(), &-z.real())
}

/// Both parts by the same function.
fn parts(z: &Tensor, f: impl Fn(&Tensor) -> Tensor) -> Tensor {
    Tensor::complex(&f(&z.real()), &f(&z.imag()))
}

/// The function of complex numbers, if it can be made of others; `None` where it does not exist.
#[track_caller]
pub(crate) fn unary(op: Unary, z: &Tensor) -> Option<Tensor> {
    let (x, y) = (|| z.real(), || z.imag());
    Some(match op {
        Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round => parts(z, |t| t.unary(op)),
        Unary::Sign => {
            let modulus = z.abs();
            modulus.eq(0.0).where_(&z.zeros_like(), &(z / &modulus))
        }
        Unary::Rsqrt => z.sqrt().recip(),
        Unary::Exp2 => {
            let (size, angle) = (x().exp2(), y() * std::f64::consts::LN_2);
            Tensor::complex(&(&size * angle.cos()), &(&size * angle.sin()))
        }
        Unary::Log2 => z.log() * std::f64::consts::LOG2_E,
        Unary::Log10 => z.log() * std::f64::consts::LOG10_E,
        Unary::Expm1 => {
            // e^x cos y - 1 = (e^x - 1) cos y - 2 sin^2(y/2).
            let (e, h) = (x().expm1(), (y() * 0.5).sin());
            Tensor::complex(&(&e * y().cos() - h.square() * 2.0), &(x().exp() * y().sin()))
        }
        Unary::Log1p => {
            // |1 + z|^2 = 1 + (2x + x^2 + y^2), but 1 + x is exact where that sum cancels.
            let (x, y) = (x(), y());
            let near = x.lt(-0.5).and(&x.gt(-2.0));
            let far = ((&x * (&x + 2.0)) + y.square()).log1p() * 0.5;
            let shifted = &x + 1.0;
            Tensor::complex(&near.where_(&shifted.hypot(&y).log(), &far), &y.atan2(&shifted))
        }
        Unary::Sigmoid => {
            // The other sign where e^-z would overflow.
            let e = x().lt(0.0).where_(z, &-z).exp();
            let inverse = (&e + 1.0).recip();
            x().lt(0.0).where_(&(&e * &inverse), &inverse)
        }
        Unary::Sinh => Tensor::complex(&(x().sinh() * y().cos()), &(x().cosh() * y().sin())),
        Unary::Cosh => Tensor::complex(&(x().cosh() * y().cos()), &(x().sinh() * y().sin())),
        Unary::Tan => rotated_back(&rotated(z).tanh()),
        Unary::Asin => asin(z),
        Unary::Asinh => rotated_back(&asin(&rotated(z))),
        Unary::Acos => {
            let (plus, minus) = ((z + 1.0).sqrt(), (1.0 - z).sqrt());
            let re = minus.real().atan2(&plus.real()) * 2.0;
            Tensor::complex(&re, &(plus.conj() * &minus).imag().asinh())
        }
        Unary::Acosh => {
            let (plus, minus) = ((z + 1.0).sqrt(), (z - 1.0).sqrt());
            let im = minus.imag().atan2(&plus.real()) * 2.0;
            Tensor::complex(&(minus.conj() * &plus).real().asinh(), &im)
        }
        Unary::Atanh => atanh(z),
        Unary::Atan => rotated_back(&atanh(&rotated(z))),
        _ => return None,
    })
}

fn asin(z: &Tensor) -> Tensor {
    let (plus, minus) = ((z + 1.0).sqrt(), (1.0 - z).sqrt());
    let re = z.real().atan2(&(&minus * &plus).real());
    Tensor::complex(&re, &(minus.conj() * &plus).imag().asinh())
}

fn atanh(z: &Tensor) -> Tensor {
    let (x, y) = (z.real(), z.imag());
    let square = y.square();
    // The real part is odd, the imaginary one even in x: of negative x the logarithm would cancel.
    let size = x.abs();
    let rest = 1.0 - &size;
    let re = ((&size * 4.0 / (rest.square() + &square)).log1p() * 0.25).copysign(&x);
    let im = (&y * 2.0).atan2(&(&rest * (&size + 1.0) - &square)) * 0.5;
    Tensor::complex(&re, &im)
}
