//! Convolutions: `conv_f32_NxCxHxW_KxRxS_sTpP`, also of f16, bf16, f64 and in tf32, channels first; with `_gG` at the end in G groups,
//! with `_wino` Winograd's algorithm is allowed.

use millstream::{Accuracy, Conv, Tensor};

use super::cases;
use super::compute::{Build, Compute, Input, Shown, bound};
use super::networks::taps;
use super::random::Source;

/// The form of the name, for people.
pub const FORM: (&str, &str) = (
    "conv_{f32,tf32,f16,bf16,f64}_NxCxHxW_KxRxS_sTpP",
    "K filters of RxS over N images, stride T, padding P; _gG: groups, _wino: Winograd allowed",
);
/// The dtypes of its name.
const DTYPES: [&str; 5] = ["f32", "tf32", "f16", "bf16", "f64"];
/// Winograd's algorithm for tiles of 4 x 4 results takes 36 multiplications for 144.
pub const WINOGRAD_SAVES: u64 = 4;
/// Sizes beyond this are a slip of the pen.
const LARGEST: usize = 1 << 24;

/// The case of that name, if it is a convolution.
pub fn parse(name: &str) -> Option<Compute> {
    let (dtype, rest) = name.strip_prefix("conv_")?.split_once('_')?;
    let (dtype, precision) = cases::dtype(dtype, &DTYPES)?;
    let mut parts = rest.split('_');
    let (image, filters, how) = (parts.next()?, parts.next()?, parts.next()?);
    let numbers = |text: &str| -> Option<Vec<usize>> { text.split('x').map(|n| n.parse().ok()).collect() };
    let (stride, padding) = how.strip_prefix('s')?.split_once('p')?;
    let mut sizes = numbers(image).filter(|s| s.len() == 4)?;
    sizes.extend(numbers(filters).filter(|s| s.len() == 3)?);
    sizes.push(stride.parse().ok()?);
    let mut rest = parts.peekable();
    let groups: usize = match rest.next_if(|p| p.starts_with('g')) {
        Some(part) => part.strip_prefix('g')?.parse().ok()?,
        None => 1,
    };
    let (build, saving): (Build, u64) = match rest.next() {
        None => (build, 1),
        Some("wino") => (build_by_winograd, WINOGRAD_SAVES),
        Some(_) => return None,
    };
    if rest.next().is_some() || sizes.contains(&0) || groups == 0 {
        return None;
    }
    sizes.extend([padding.parse().ok()?, groups]);
    if sizes.iter().any(|&n| n > LARGEST) {
        return None;
    }
    let &[n, c, h, w, k, r, s, stride, padding, groups] = sizes.as_slice() else { return None };
    if !c.is_multiple_of(groups) || !k.is_multiple_of(groups) {
        return None;
    }
    let within = c / groups;
    let out = |size: usize, window: usize| Some((size + 2 * padding).checked_sub(window)? / stride + 1);
    let (oh, ow) = (out(h, r)?, out(w, s)?);
    let product = |list: &[usize]| list.iter().try_fold(1u64, |p, &n| p.checked_mul(n as u64)).filter(|&p| p < 1 << 38);
    let bytes = product(&[n, c, h, w])? + product(&[k, within, r, s])? + product(&[n, k, oh, ow])?;
    // Multiplications by the zeros around the image need not be computed.
    let (down, along) = (taps(h, r, stride, padding, oh), taps(w, s, stride, padding, ow));
    let flop = product(&[n, k, within])?.checked_mul(product(&[down, along])?)?.checked_mul(2)?;
    Some(Compute {
        dtype,
        precision,
        inputs: vec![Input::normal(&[n, c, h, w]), Input::normal(&[k, within, r, s])],
        elements: n * k * oh * ow,
        build,
        keep: &[1],
        expected,
        reach: 2 * within * r * s,
        whole: None,
        bound: bound(dtype),
        flop,
        saving,
        bytes: dtype.size() as u64 * bytes,
        shown: Shown::Flop,
        sizes,
    })
}

fn options(sizes: &[usize]) -> Conv {
    Conv::new().stride(sizes[7]).padding(sizes[8]).groups(sizes[9])
}

fn build(x: &[Tensor], sizes: &[usize]) -> Tensor {
    x[0].conv2d(&x[1], None, &options(sizes))
}

fn build_by_winograd(x: &[Tensor], sizes: &[usize]) -> Tensor {
    x[0].conv2d(&x[1], None, &options(sizes).accuracy(Accuracy::Winograd))
}

/// An element of the result in double precision.
fn expected(of: &[Source], sizes: &[usize], i: usize) -> f64 {
    let ([x, f, ..], &[_, c, h, w, k, r, s, stride, padding, groups]) = (of, sizes) else { return f64::NAN };
    let (oh, ow) = ((h + 2 * padding - r) / stride + 1, (w + 2 * padding - s) / stride + 1);
    let (ox, oy, filter, image) = (i % ow, i / ow % oh, i / ow / oh % k, i / ow / oh / k);
    let within = c / groups;
    let first = filter / (k / groups) * within;
    let mut sum = 0.0;
    for (channel, y, z) in (0..within).flat_map(|c| (0..r).flat_map(move |y| (0..s).map(move |z| (c, y, z)))) {
        let (iy, ix) = ((oy * stride + y).wrapping_sub(padding), (ox * stride + z).wrapping_sub(padding));
        if iy < h && ix < w {
            let element = ((image * c + first + channel) * h + iy) * w + ix;
            sum += x.at(element) * f.at(((filter * within + channel) * r + y) * s + z);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::compute::Precision;
    use millstream::DType;

    #[test]
    fn names_of_convolutions_say_all_sizes() {
        let case = parse("conv_f32_1x64x56x56_64x3x3_s1p1").unwrap();
        // Three of 3 taps at each pixel, but two at both ends.
        assert_eq!((case.elements, case.flop), (64 * 56 * 56, 2 * 64 * 64 * 166 * 166));
        assert_eq!(parse("conv_f32_1x3x224x224_64x7x7_s2p3").unwrap().elements, 64 * 112 * 112);
        let depthwise = parse("conv_f32_1x32x112x112_64x3x3_s1p1_g32").unwrap();
        assert_eq!((depthwise.flop, &depthwise.inputs[1].shape[..]), (2 * 64 * 334 * 334, &[64, 1, 3, 3][..]));
        assert_eq!(parse("conv_f32_1x64x56x56_64x3x3_s1p1_wino").unwrap().flop, case.flop);
        let half = parse("conv_bf16_1x64x56x56_64x3x3_s1p1").unwrap();
        assert_eq!((half.dtype, 2 * half.bytes, half.flop), (DType::BF16, case.bytes, case.flop));
        let tf32 = parse("conv_tf32_1x64x56x56_64x3x3_s1p1").unwrap();
        assert_eq!((tf32.dtype, tf32.precision, tf32.bytes), (DType::F32, Precision::Tf32, case.bytes));
        for bad in [
            "conv_i8_1x64x56x56_64x3x3_s1p1",
            "conv_f32_1x64x56x56_64x3x3_s1p1_g5",
            "conv_f32_1x64x56x56_64x3x3_s1p1_g0",
            "conv_f32_1x64x56x56_64x3x3_s1p1_wino_g2",
            "conv_f32_1x64x56x56_64x3x3_s1p1_direct",
            "conv_f32_1x64x56x56_64x3x3_s0p1",
            "conv_f32_1x64x56_64x3x3_s1p1",
            "conv_f32_1x64x2x2_64x3x3_s1p0",
            "conv_f32_1x64x56x56_64x3x3",
            "conv_f32_1x64x56x56_64x3x3_s1p1_",
            "conv_f32_9999999x9999999x9999999x999999_64x3x3_s1p1",
        ] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }
}
