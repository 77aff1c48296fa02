//! Every constant of the maths functions, in one place, so that other languages can take them over unchanged.
//!
//! Polynomials are minimax fits made for this project (weighted Remez exchange, coefficients rounded one after another
//! with the rest refitted), lowest power first. The comment gives the largest relative error of the polynomial itself.

/// Constants of the f32 functions.
pub mod single {
    /// 1.5 * 2^23: added to |x| < 2^22 it leaves x rounded to an integer in the low bits of the sum.
    pub const ROUND: f32 = 12582912.0;
    /// log2(e).
    pub const LOG2_E: f32 = std::f32::consts::LOG2_E;
    /// ln(2) with its low 9 bits cleared, so that n * LN2_HI is exact for |n| < 512.
    pub const LN2_HI: f32 = 0.69314575;
    /// ln(2) - LN2_HI.
    pub const LN2_LO: f32 = 1.4286068e-6;
    /// Below it e^x rounds to 0.
    pub const EXP_MIN: f32 = -104.0;
    /// Above it e^x is infinite.
    pub const EXP_MAX: f32 = 89.0;
    /// e^r = 1 + r + r^2 P(r), |r| <= ln(2)/2: 2^-28.2.
    pub const EXP: [f32; 5] = [0.49999994, 0.16666517, 0.041668106, 0.008369131, 0.0013836435];
    /// e^r - 1 = r + r^2 P(r), |r| <= ln(2)/2: 2^-26.1.
    pub const EXPM1: [f32; 5] = [0.49999997, 0.16666539, 0.041667745, 0.008367058, 0.0013839382];
    /// Below it e^x - 1 rounds to -1.
    pub const EXPM1_MIN: f32 = -17.5;
    /// Below it in size e^x - 1 rounds to x.
    pub const EXPM1_TINY: f32 = 2.9802322e-8;
    /// tanh(x) rounds to 1 above it.
    pub const TANH_MAX: f32 = 9.02;
    /// What is added to 2x log2(e) before it is rounded.
    pub const TANH_SHIFT: f32 = -0.1;
    /// (e^2r - 1) / 2 = r + r^2 P(r), -0.4 <= 2r / ln(2) <= 0.6: 2^-26.1.
    pub const TANH: [f32; 5] = [1.0000004, 0.6666644, 0.33325797, 0.13366258, 0.047451206];
    /// Below it tanh is h - h (h / (1 + h)), above it h / (1 + h).
    pub const TANH_SMALL: f32 = 0.6;
    /// ln(1 + f) = f - f^2/2 + f^3 P(f), sqrt(1/2) <= 1 + f < sqrt(2): 2^-27.3.
    pub const LOG: [f32; 8] =
        [0.3333333, -0.25000826, 0.20001265, -0.16623214, 0.14200692, -0.13160494, 0.127696, -0.07644014];
    /// The bits of sqrt(1/2).
    pub const SQRT_HALF_BITS: i32 = 0x3f35_04f3;
    /// 1 / pi.
    pub const INV_PI: f32 = std::f32::consts::FRAC_1_PI;
    /// pi in three parts of 24 bits, each rounded down, so that `n PI[0]` cancels exactly.
    pub const PI: [f32; 3] = [3.1415925, 1.5099579e-7, 1.0780605e-14];
    /// Up to it three parts of pi are enough.
    pub const TRIG_MAX: f32 = 100000.0;
    /// sin r = r + r^3 P(r^2), |r| <= pi/4: 2^-27.9.
    pub const SIN: [f32; 3] = [-0.16666655, 0.008332187, -1.9517896e-4];
    /// cos r = 1 - r^2/2 + r^4 P(r^2), |r| <= pi/4: 2^-33.0.
    pub const COS: [f32; 3] = [0.041666646, -0.001388731, 2.4432327e-5];
    /// The binary digits of 1 / pi after the point, 32 to a word.
    pub const INV_PI_WORDS: [u32; 8] =
        [0x517c_c1b7, 0x2722_0a94, 0xfe13_abe8, 0xfa9a_6ee0, 0x6db1_4acc, 0x9e21_c820, 0xff28_b1d5, 0xef5d_e2b0];
    /// Up to it erf is a polynomial, above it 1 - e^-g.
    pub const ERF_SMALL: f32 = 0.95;
    /// From it on erf rounds to 1.
    pub const ERF_MAX: f32 = 3.95;
    /// erf x = x + x P(x^2), |x| <= ERF_SMALL: 2^-30.0.
    pub const ERF: [f32; 7] =
        [0.12837917, -0.3761263, 0.11283626, -0.02685574, 0.0051924605, -8.0508046e-4, 8.002782e-5];
    /// g(x) = -ln(1 - erf x), ERF_SMALL <= x <= ERF_MAX: 2^-29.5 of erf x.
    pub const ERF_TAIL: [f32; 7] =
        [2.4307655e-4, 1.1274816, 0.6375062, 0.10364958, -0.022091987, 0.0030095985, -1.925313e-4];
    /// atanh z = z (1 + v/3 + v^2 P(v)), v = z^2, |z| <= 0.1716: 2^-36.8.
    pub const POW: [f32; 3] = [0.20000076, 0.14273544, 0.11709884];
    /// 1/3 as a sum.
    pub const THIRD: [f32; 2] = [0.33333334, -9.934108e-9];
    /// 2 log2(e) as a sum.
    pub const TWO_LOG2_E: [f32; 2] = [2.88539, 3.851926e-8];
    // The inverse and hyperbolic functions.
    /// tan r = r + r^3 P(r^2), |r| <= pi/4: 2^-29.5.
    pub const TAN: [f32; 7] = [0.3333335, 0.13332672, 0.054059446, 0.02128277, 0.010837704, 8.385933e-5, 0.0043803686];
    /// atan t = t + t^3 P(t^2), |t| <= 1: 2^-28.5.
    pub const ATAN: [f32; 9] = [
        -0.333333,
        0.1999853,
        -0.14264043,
        0.10951187,
        -0.08400679,
        0.057912596,
        -0.031135248,
        0.010892815,
        -0.0017889651,
    ];
    /// asin s = s + s^3 P(s^2), |s| <= 1/2: 2^-31.7.
    pub const ASIN: [f32; 6] = [0.1666666, 0.07500522, 0.044513352, 0.031839523, 0.014312173, 0.03770212];
    /// sinh x = x + x^3 P(x^2), |x| <= 1: 2^-31.6.
    pub const SINH: [f32; 4] = [0.16666667, 0.0083333105, 0.00019842896, 2.782212e-6];
    /// atanh x = x + x^3 P(x^2), |x| <= 1/2: 2^-32.8.
    pub const ATANH: [f32; 7] = [0.33333337, 0.19999622, 0.14297815, 0.10929401, 0.10524456, 0.01696122, 0.18513627];
    /// pi as a sum.
    pub const PI_SUM: [f32; 2] = [std::f32::consts::PI, -8.742278e-8];
    /// log10(2) with its low bits cleared, so that n LOG10_2_HI is exact for |n| < 512.
    pub const LOG10_2_HI: f32 = 0.3010254;
    /// log10(2) - LOG10_2_HI.
    pub const LOG10_2_LO: f32 = 4.605039e-6;
    /// Below it 2^x rounds to 0.
    pub const EXP2_MIN: f32 = -151.0;
    /// Above it 2^x is infinite.
    pub const EXP2_MAX: f32 = 128.5;
    /// Above it sinh x and cosh x are infinite.
    pub const COSH_MAX: f32 = 89.5;
}

/// Constants of the f64 functions, with the meaning of their namesakes in [`single`].
pub mod double {
    /// 1.5 * 2^52.
    pub const ROUND: f64 = 6_755_399_441_055_744.0;
    /// log2(e).
    pub const LOG2_E: f64 = std::f64::consts::LOG2_E;
    /// ln(2) with its low 11 bits cleared.
    pub const LN2_HI: f64 = 0.693_147_180_559_890_3;
    /// ln(2) - LN2_HI.
    pub const LN2_LO: f64 = 5.497_923_018_708_371e-14;
    /// Below it e^x rounds to 0.
    pub const EXP_MIN: f64 = -746.0;
    /// Above it e^x is infinite.
    pub const EXP_MAX: f64 = 710.0;
    /// Below it e^x - 1 rounds to -1.
    pub const EXPM1_MIN: f64 = -38.0;
    /// Below it in size e^x - 1 rounds to x.
    pub const EXPM1_TINY: f64 = 5.551_115_123_125_783e-17;
    /// tanh(x) rounds to 1 above it.
    pub const TANH_MAX: f64 = 19.1;
    /// What is added to 2x log2(e) before it is rounded.
    pub const TANH_SHIFT: f64 = -0.1;
    /// Below it tanh is h - h (h / (1 + h)), above it h / (1 + h).
    pub const TANH_SMALL: f64 = 0.6;
    /// The bits of 1.
    pub const ONE_BITS: i64 = 0x3ff0_0000_0000_0000;
    /// The bits of sqrt(1/2).
    pub const SQRT_HALF_BITS: i64 = 0x3fe6_a09e_667f_3bcd;
    /// The bits of the mantissa.
    pub const MANTISSA: i64 = 0x000f_ffff_ffff_ffff;
    /// 2^52.
    pub const TWO52: f64 = 4_503_599_627_370_496.0;
    /// The bits of 2^52.
    pub const TWO52_BITS: i64 = 0x4330_0000_0000_0000;
    /// 2^1022.
    pub const TWO1022: f64 = 4.494_232_837_155_79e307;
    /// 1 / pi.
    pub const INV_PI: f64 = std::f64::consts::FRAC_1_PI;
    /// pi in three parts of 53 bits, each rounded down.
    pub const PI: [f64; 3] = [std::f64::consts::PI, 1.224_646_799_147_353e-16, 2.165_713_347_843_827_8e-32];
    /// Up to it three parts of pi are enough.
    pub const TRIG_MAX: f64 = 1.0e5;
    /// e^r = 1 + r + r^2 P(r), |r| <= ln(2)/2: 2^-56.5.
    pub const EXP: [f64; 10] = [
        0.500_000_000_000_001_1,
        0.166_666_666_666_664_1,
        0.041_666_666_666_529_17,
        0.008_333_333_333_495_483,
        0.001_388_888_894_392_793,
        0.000_198_412_695_050_274_36,
        2.480_149_275_734_197e-5,
        2.755_758_713_667_258_2e-6,
        2.763_038_053_185_137_6e-7,
        2.500_002_356_952_255_3e-8,
    ];
    /// e^r - 1 = r + r^2 P(r), |r| <= ln(2)/2: 2^-59.7.
    pub const EXPM1: [f64; 11] = [
        0.5,
        0.166_666_666_666_666_77,
        0.041_666_666_666_666_505,
        0.008_333_333_333_321_608,
        0.001_388_888_888_896_291,
        0.000_198_412_698_862_056_36,
        2.480_158_717_182_312e-5,
        2.755_724_410_600_019_5e-6,
        2.755_740_295_256_556_5e-7,
        2.510_908_091_456_841e-8,
        2.087_532_677_076_509_7e-9,
    ];
    /// (e^2r - 1) / 2 = r + r^2 P(r), -0.4 <= 2r / ln(2) <= 0.6: 2^-58.1.
    pub const TANH: [f64; 11] = [
        1.0,
        0.666_666_666_666_666_4,
        0.333_333_333_333_343_36,
        0.133_333_333_333_463_84,
        0.044_444_444_441_790_22,
        0.012_698_412_681_924_945,
        0.003_174_603_470_794_713_8,
        0.000_705_467_986_002_279_5,
        0.000_141_078_559_821_891_85,
        2.566_243_682_618_628_6e-5,
        4.556_173_179_441_035e-6,
    ];
    /// 2 atanh z = 2z + z v P(v), v = z^2, |z| <= 0.1716: 2^-59.1.
    pub const LOG: [f64; 7] = [
        0.666_666_666_666_673_5,
        0.399_999_999_994_110_7,
        0.285_714_287_432_681_4,
        0.222_221_984_754_347_35,
        0.181_835_697_683_349_03,
        0.153_139_025_185_744_65,
        0.147_975_149_786_014_23,
    ];
    /// sin r = r + r^3 P(r^2), |r| <= pi/4: 2^-56.9.
    pub const SIN: [f64; 6] = [
        -0.166_666_666_666_666_3,
        0.008_333_333_333_322_005,
        -0.000_198_412_698_294_960_53,
        2.755_731_358_779_62e-6,
        -2.505_074_233_294_551_5e-8,
        1.589_590_604_524_462_5e-10,
    ];
    /// cos r = 1 - r^2/2 + r^4 P(r^2), |r| <= pi/4: 2^-59.2.
    pub const COS: [f64; 6] = [
        0.041_666_666_666_666_595,
        -0.001_388_888_888_887_289_5,
        2.480_158_728_874_781_4e-5,
        -2.755_731_414_852_613_5e-7,
        2.087_569_656_050_447_3e-9,
        -1.135_830_991_172_928_4e-11,
    ];
    /// Up to it erf is a polynomial, above it 1 - e^-g.
    pub const ERF_SMALL: f64 = 1.0;
    /// From it on erf rounds to 1.
    pub const ERF_MAX: f64 = 6.0;
    /// The tail's polynomial is in x - ERF_CENTRE.
    pub const ERF_CENTRE: f64 = 2.25;
    /// erf x = x + x P(x^2), |x| <= ERF_SMALL: 2^-56.3.
    pub const ERF: [f64; 13] = [
        0.128_379_167_095_512_6,
        -0.376_126_389_031_837_5,
        0.112_837_916_709_548_54,
        -0.026_866_170_645_072_334,
        0.005_223_977_624_775_18,
        -0.000_854_832_697_840_214_4,
        0.000_120_553_310_240_436_54,
        -1.492_559_318_769_431_1e-5,
        1.646_096_754_106_176_5e-6,
        -1.634_996_772_920_427_7e-7,
        1.465_748_319_162_383_2e-8,
        -1.136_409_634_322_434_8e-9,
        5.942_548_120_968_251e-11,
    ];
    /// g(x) = -ln(1 - erf x), ERF_SMALL <= x <= ERF_MAX: 2^-54.9 of erf x.
    pub const ERF_TAIL: [f64; 20] = [
        6.527_459_896_365_818,
        4.882_913_810_544_551,
        0.934_867_566_878_124_4,
        0.013_312_548_394_268_693,
        -0.002_771_336_832_185_804,
        0.000_554_840_909_102_349_2,
        -0.000_102_637_788_847_014_44,
        1.660_389_768_396_493_3e-5,
        -2.048_284_865_642_604_5e-6,
        7.209_392_861_376_69e-8,
        6.161_863_569_169_493e-8,
        -2.662_363_070_565_786e-8,
        7.351_447_052_939_687e-9,
        -1.566_794_688_140_602_8e-9,
        2.475_286_476_068_422e-10,
        -2.290_555_812_975_073_3e-11,
        -2.509_641_718_802_475_7e-12,
        3.334_297_955_269_762_6e-12,
        -1.303_659_907_949_776_9e-12,
        1.787_114_512_623_098_8e-13,
    ];
    // The inverse and hyperbolic functions.
    /// tan r = r + r^3 P(r^2), |r| <= pi/4: 2^-59.9.
    pub const TAN: [f64; 15] = [
        0.333_333_333_333_333_8,
        0.133_333_333_333_253_42,
        0.053_968_253_972_903_064,
        0.021_869_488_399_325_475,
        0.008_863_237_922_093_974,
        0.003_592_100_885_884_438_3,
        0.001_456_045_505_310_146_4,
        0.000_588_864_766_359_685_2,
        0.000_243_750_817_518_929_74,
        8.355_816_351_694_963e-05,
        6.722_611_616_431_719e-05,
        -2.564_280_742_848_253_7e-05,
        4.864_658_134_227_761_6e-05,
        -2.428_075_361_661_838e-05,
        9.800_908_873_042_23e-06,
    ];
    /// atan t = t + t^3 P(t^2), |t| <= 1: 2^-57.6.
    pub const ATAN: [f64; 20] = [
        -0.333_333_333_333_330_7,
        0.199_999_999_999_517_5,
        -0.142_857_142_825_881_36,
        0.111_111_110_073_426_79,
        -0.090_909_070_078_019,
        0.076_922_798_888_894_07,
        -0.066_664_044_228_750_05,
        0.058_805_298_050_221_88,
        -0.052_535_267_713_389_95,
        0.047_223_483_563_357_62,
        -0.042_192_436_642_790_17,
        0.036_643_164_185_782_64,
        -0.029_905_758_130_621_934,
        0.021_987_095_512_752_85,
        -0.013_902_597_462_193_512,
        0.007_197_899_850_220_401,
        -0.002_885_616_696_347_946_5,
        0.000_831_561_963_200_732_3,
        -0.000_152_211_625_205_505_34,
        1.323_004_660_395_188_6e-05,
    ];
    /// asin s = s + s^3 P(s^2), |s| <= 1/2: 2^-59.9.
    pub const ASIN: [f64; 13] = [
        0.166_666_666_666_667_6,
        0.074_999_999_999_708_63,
        0.044_642_857_174_564_82,
        0.030_381_942_709_651_54,
        0.022_372_214_942_291_23,
        0.017_351_612_735_563_415,
        0.013_980_812_726_528_846,
        0.011_398_970_878_577_193,
        0.010_779_948_272_620_76,
        0.003_707_483_015_947_898,
        0.021_704_989_205_144_6,
        -0.020_995_773_126_327_864,
        0.032_626_669_120_761_33,
    ];
    /// sinh x = x + x^3 P(x^2), |x| <= 1: 2^-61.8.
    pub const SINH: [f64; 7] = [
        0.166_666_666_666_666_69,
        0.008_333_333_333_332_912,
        0.000_198_412_698_415_934_1,
        2.755_731_910_675_638e-06,
        2.505_213_099_881_360_5e-08,
        1.605_665_915_885_853_5e-10,
        7.776_600_402_582_697e-13,
    ];
    /// atanh x = x + x^3 P(x^2), |x| <= 1/2: 2^-60.9.
    pub const ATANH: [f64; 14] = [
        0.333_333_333_333_332_8,
        0.200_000_000_000_185_58,
        0.142_857_142_833_948_99,
        0.111_111_112_575_073_54,
        0.090_909_036_186_862_32,
        0.076_924_398_119_724_62,
        0.066_644_975_966_281_58,
        0.059_073_083_300_392_175,
        0.050_589_710_810_207_17,
        0.059_512_707_443_781_09,
        -0.005_141_982_750_868_397,
        0.174_479_664_044_066_87,
        -0.195_479_529_889_573_46,
        0.240_735_364_095_604_73,
    ];
    /// pi as a sum.
    pub const PI_SUM: [f64; 2] = [std::f64::consts::PI, 1.224_646_799_147_353_2e-16];
    /// log10(2) with its low 12 bits cleared.
    pub const LOG10_2_HI: f64 = 0.301_029_995_663_839_14;
    /// log10(2) - LOG10_2_HI.
    pub const LOG10_2_LO: f64 = 1.420_502_322_726_61e-13;
    /// Below it 2^x rounds to 0.
    pub const EXP2_MIN: f64 = -1076.0;
    /// Above it 2^x is infinite.
    pub const EXP2_MAX: f64 = 1024.5;
    /// Above it sinh x and cosh x are infinite.
    pub const COSH_MAX: f64 = 710.5;
}
