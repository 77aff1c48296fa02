//! Every constant of the maths functions, in one place, so that other languages can take them over unchanged.
//!
//! Polynomials are minimax fits made for this project (weighted Remez exchange, coefficients rounded one after another
//! with the rest refitted), lowest power first. The comment gives the largest relative error of the polynomial itself.

/// Constants of the f32 functions.
pub mod single {
    /// 1.5 * 2^23: added to |x| < 2^22 it leaves x rounded to an integer in the low bits of the sum.
    pub const ROUND: f32 = 12_582_912.0;
    /// log2(e).
    pub const LOG2_E: f32 = std::f32::consts::LOG2_E;
    /// ln(2) with its low 9 bits cleared, so that n * LN2_HI is exact for |n| < 512.
    pub const LN2_HI: f32 = 0.693_145_75;
    /// ln(2) - LN2_HI.
    pub const LN2_LO: f32 = 1.428_606_8e-6;
    /// Below it e^x rounds to 0.
    pub const EXP_MIN: f32 = -104.0;
    /// Above it e^x is infinite.
    pub const EXP_MAX: f32 = 89.0;
    /// e^r = 1 + r + r^2 P(r), |r| <= ln(2)/2: 2^-28.2.
    pub const EXP: [f32; 5] =
        [4.999_999_404e-1, 1.666_651_666e-1, 4.166_810_587e-2, 8.369_131_014e-3, 1.383_643_481e-3];
    /// e^r - 1 = r + r^2 P(r), |r| <= ln(2)/2: 2^-26.1.
    pub const EXPM1: [f32; 5] =
        [4.999_999_702e-1, 1.666_653_901e-1, 4.166_774_452e-2, 8.367_057_890e-3, 1.383_938_245e-3];
    /// Below it e^x - 1 rounds to -1.
    pub const EXPM1_MIN: f32 = -17.5;
    /// tanh(x) rounds to 1 above it.
    pub const TANH_MAX: f32 = 9.02;
    /// What is added to 2x log2(e) before it is rounded.
    pub const TANH_SHIFT: f32 = -0.1;
    /// (e^2r - 1) / 2 = r + r^2 P(r), -0.4 <= 2r / ln(2) <= 0.6: 2^-26.1.
    pub const TANH: [f32; 5] =
        [1.000_000_358, 6.666_644_216e-1, 3.332_579_732e-1, 1.336_625_814e-1, 4.745_120_555e-2];
    /// Less the bits of a positive d it gives the bits of about -1 / d, within 13%.
    pub const NEG_INVERSE_BITS: i32 = 0xfef3_11c7_u32 as i32;
    /// ln(1 + f) = f - f^2/2 + f^3 P(f), sqrt(1/2) <= 1 + f < sqrt(2): 2^-27.3.
    pub const LOG: [f32; 8] = [
        3.333_333_135e-1,
        -2.500_082_552e-1,
        2.000_126_541e-1,
        -1.662_321_389e-1,
        1.420_069_188e-1,
        -1.316_049_397e-1,
        1.276_959_926e-1,
        -7.644_014_060e-2,
    ];
    /// The bits of sqrt(1/2).
    pub const SQRT_HALF_BITS: i32 = 0x3f35_04f3;
}
