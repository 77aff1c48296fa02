//! f64 functions on vectors, with the contract of [`super::single`].

use crate::simd::{Float, Simd};

macro_rules! todo_scalar {
    ($($name:ident $f:expr;)+) => {$(
        /// A function.
        #[inline(always)]
        pub fn $name<S: Simd>(_: S, x: S::F64) -> S::F64 {
            x.patch(!0, x, $f)
        }
    )+};
}
todo_scalar! {
    exp f64::exp;
    expm1 f64::exp_m1;
    log f64::ln;
    log1p f64::ln_1p;
    tanh f64::tanh;
    sin f64::sin;
    cos f64::cos;
    sigmoid |x| 1.0 / (1.0 + (-x).exp());
    erf |x| x;
}
