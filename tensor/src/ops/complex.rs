//! Functions of complex numbers that are made of functions of their parts and of complex square roots.
//!
//! Their error is relative to the modulus of the result, some ten roundoffs away from poles and branch points. Branch cuts and the
//! values at infinities, zeros and NaN are those of C and of the Python Array API: where a formula has none, the result is put in.

use std::f64::consts::FRAC_PI_2;

use millstream_core::{Scalar, Unary};

use crate::Tensor;
use crate::graph::one;

const INF: f64 = f64::INFINITY;

/// A function that devices have, as they compute it.
#[track_caller]
fn raw(op: Unary, z: &Tensor) -> Tensor {
    Tensor::build(op.name(), || Tensor::new_node(op, one(z)))
}

/// A number with the signs of a tensor.
#[track_caller]
fn signed(number: f64, x: &Tensor) -> Tensor {
    x.full_like(Scalar::from_f64(number, x.dtype())).copysign(x)
}

/// A product in which a zero wins over infinity and NaN.
#[track_caller]
fn product(a: &Tensor, b: &Tensor) -> Tensor {
    let plain = a * b;
    plain.isnan().and(&a.eq(0).or(&b.eq(0))).where_(0, &plain)
}

/// What a device gives for a function, with the values at infinities, zeros and NaN put in.
#[track_caller]
pub(crate) fn settled(op: Unary, z: &Tensor, made: Tensor) -> Tensor {
    let (x, y, re, im) = (|| z.real(), || z.imag(), || made.real(), || made.imag());
    match op {
        Unary::Sqrt => {
            let (x, y) = (x(), y());
            let re = x.eq(-INF).where_(&(y.abs() * 0.0), &re());
            let re = y.isinf().or(&x.eq(INF)).where_(INF, &re);
            let im = x.eq(INF).where_(&(&y * 0.0), &x.eq(-INF).where_(&signed(INF, &y), &im()));
            Tensor::complex(&re, &y.isinf().where_(&y, &im))
        }
        Unary::Tanh => {
            let (x, y) = (x(), y());
            // Of large x some devices do not look at y; of infinite ones some look at it.
            let lost = x.isfinite().and(&y.isfinite().not());
            let (re, im) = (lost.where_(f64::NAN, &re()), lost.where_(f64::NAN, &im()));
            let far = x.isinf();
            let (re, im) = (far.where_(&signed(1.0, &x), &re), far.where_(&signed(0.0, &y), &im));
            Tensor::complex(&x.eq(0).where_(&x, &re), &y.eq(0).where_(&y, &im))
        }
        Unary::Exp => {
            let (x, y) = (x(), y());
            let far = x.eq(INF).and(&y.isfinite().not());
            Tensor::complex(&far.where_(INF, &re()), &far.where_(f64::NAN, &im()))
        }
        _ => made,
    }
}

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
            let (x, y) = (x(), y());
            let re = &e * y.cos() - h.square() * 2.0;
            let re = x.isinf().and(&y.isfinite().not()).where_(&e, &re);
            let im = x.exp() * y.sin();
            let zero = im.isnan().and(&y.eq(0).or(&x.eq(-INF)));
            Tensor::complex(&re, &zero.where_(0, &im))
        }
        Unary::Log1p => {
            // |1 + z|^2 = 1 + (2x + x^2 + y^2), but 1 + x is exact where that sum cancels.
            let (x, y) = (x(), y());
            let near = x.lt(-0.5).and(&x.gt(-2.0));
            let far = ((&x * (&x + 2.0)) + y.square()).log1p() * 0.5;
            let shifted = &x + 1.0;
            let re = near.where_(&shifted.hypot(&y).log(), &far);
            Tensor::complex(&x.isinf().or(&y.isinf()).where_(INF, &re), &y.atan2(&shifted))
        }
        Unary::Sigmoid => {
            // The other sign where e^-z would overflow.
            let e = x().lt(0.0).where_(z, &-z).exp();
            let inverse = (&e + 1.0).recip();
            x().lt(0.0).where_(&(&e * &inverse), &inverse)
        }
        Unary::Sinh => {
            let (x, y) = (x(), y());
            let far = x.isinf().and(&y.isfinite().not());
            let re = far.where_(&x, &product(&x.sinh(), &y.cos()));
            Tensor::complex(&re, &product(&x.cosh(), &y.sin()))
        }
        Unary::Cosh => {
            let (x, y) = (x(), y());
            let far = x.isinf().and(&y.isfinite().not());
            let re = far.where_(INF, &product(&x.cosh(), &y.cos()));
            Tensor::complex(&re, &product(&x.sinh(), &y.sin()))
        }
        Unary::Tan => rotated_back(&rotated(z).tanh()),
        Unary::Asin => asin(z),
        Unary::Asinh => rotated_back(&asin(&rotated(z))),
        Unary::Acos => {
            let (plus, minus) = (raw(Unary::Sqrt, &(z + 1.0)), raw(Unary::Sqrt, &(1.0 - z)));
            let (x, y) = (x(), y());
            let far = x.isinf().or(&y.isinf());
            let re = minus.real().atan2(&plus.real()) * 2.0;
            let re = far.where_(&y.abs().atan2(&x), &x.eq(0).and(&y.isnan()).where_(FRAC_PI_2, &re));
            let im = far.where_(INF, &(plus.conj() * &minus).imag().asinh().abs());
            Tensor::complex(&re, &im.copysign(&-y))
        }
        Unary::Acosh => {
            let (plus, minus) = (raw(Unary::Sqrt, &(z + 1.0)), raw(Unary::Sqrt, &(z - 1.0)));
            let (x, y) = (x(), y());
            let far = x.isinf().or(&y.isinf());
            let re = far.where_(INF, &(minus.conj() * &plus).real().asinh());
            let im = (minus.imag().atan2(&plus.real()) * 2.0).abs();
            let im = far.where_(&y.abs().atan2(&x), &x.eq(0).and(&y.isnan()).where_(FRAC_PI_2, &im));
            Tensor::complex(&re, &im.copysign(&y))
        }
        Unary::Atanh => atanh(z),
        Unary::Atan => rotated_back(&atanh(&rotated(z))),
        _ => return None,
    })
}

#[track_caller]
fn asin(z: &Tensor) -> Tensor {
    let (plus, minus) = (raw(Unary::Sqrt, &(z + 1.0)), raw(Unary::Sqrt, &(1.0 - z)));
    let (x, y) = (z.real(), z.imag());
    let far = x.isinf().or(&y.isinf());
    let re = x.atan2(&(&minus * &plus).real());
    let re = far.where_(&x.atan2(&y.abs()), &x.eq(0).where_(&x, &re));
    let im = far.where_(INF, &(minus.conj() * &plus).imag().asinh().abs());
    Tensor::complex(&re, &im.copysign(&y))
}

#[track_caller]
fn atanh(z: &Tensor) -> Tensor {
    let (x, y) = (z.real(), z.imag());
    let far = x.isinf().or(&y.isinf());
    let square = y.square();
    // The real part is odd, the imaginary one even in x: of negative x the logarithm would cancel.
    let size = x.abs();
    let rest = 1.0 - &size;
    let re = (&size * 4.0 / (rest.square() + &square)).log1p() * 0.25;
    let re = far.or(&x.eq(0)).where_(0, &re).copysign(&x);
    let im = ((&y * 2.0).atan2(&(&rest * (&size + 1.0) - &square)) * 0.5).abs().copysign(&y);
    Tensor::complex(&re, &far.and(&y.isnan().not()).where_(&signed(FRAC_PI_2, &y), &im))
}
