//! Pooling: `maxpool_f32_NxCxHxW_kKsTpP` and `avgpool_...`, channels first: windows of KxK, stride T, padding P.

use millstream::{DType, Pool};

use super::compute::{Build, Compute, Expected, Input, bytes, elementwise};
use super::random::Source;

/// The forms of the names, for people.
pub const FORMS: [(&str, &str); 2] = [
    ("maxpool_f32_NxCxHxW_kKsTpP", "the largest of each window of KxK, stride T, padding P"),
    ("avgpool_f32_NxCxHxW_kKsTpP", "the mean of each window, padding counted"),
];
/// Sizes beyond this are a slip of the pen.
const LARGEST: usize = 1 << 24;

/// The case of that name, if it is pooling.
pub fn parse(name: &str) -> Option<Compute> {
    let (op, rest) = name.split_once("_f32_")?;
    let (image, how) = rest.split_once('_')?;
    let (window, how) = how.strip_prefix('k')?.split_once('s')?;
    let (stride, padding) = how.split_once('p')?;
    let mut sizes: Vec<usize> = image.split('x').map(|n| n.parse().ok()).collect::<Option<_>>()?;
    sizes.extend([window.parse::<usize>().ok()?, stride.parse().ok()?]);
    if sizes.len() != 6 || sizes.contains(&0) {
        return None;
    }
    sizes.push(padding.parse().ok()?);
    let &[n, c, h, w, window, stride, padding] = sizes.as_slice() else { return None };
    if sizes.iter().any(|&n| n > LARGEST) || padding > window / 2 {
        return None;
    }
    let out = |size: usize| Some((size + 2 * padding).checked_sub(window)? / stride + 1);
    let (oh, ow) = (out(h)?, out(w)?);
    let product = |list: [usize; 4]| list.iter().try_fold(1usize, |p, &n| p.checked_mul(n)).filter(|&p| p < 1 << 38);
    let (read, elements) = (product([n, c, h, w])?, product([n, c, oh, ow])?);
    let (build, expected): (Build, Expected) = match op {
        "maxpool" => (
            |x, sizes| x[0].max_pool2d(&options(sizes)),
            |of, sizes, i| inside(of, sizes, i).fold(f64::NEG_INFINITY, f64::max),
        ),
        "avgpool" => (
            |x, sizes| x[0].avg_pool2d(&options(sizes)),
            |of, sizes, i| inside(of, sizes, i).sum::<f64>() / (sizes[4] * sizes[4]) as f64,
        ),
        _ => return None,
    };
    let dtype = DType::F32;
    Some(Compute {
        inputs: vec![Input::normal(&[n, c, h, w])],
        build,
        expected,
        reach: window * window,
        bytes: bytes(dtype, &[read, elements]),
        sizes,
        ..elementwise(dtype, elements, 1, (window * window) as u64)
    })
}

fn options(sizes: &[usize]) -> Pool {
    Pool::new(sizes[4]).stride(sizes[5]).padding(sizes[6])
}

/// The elements of the image that window `i` has.
fn inside(of: &[Source], sizes: &[usize], i: usize) -> impl Iterator<Item = f64> {
    let (h, w, window, stride, padding) = (sizes[2], sizes[3], sizes[4], sizes[5], sizes[6]);
    let (oh, ow) = ((h + 2 * padding - window) / stride + 1, (w + 2 * padding - window) / stride + 1);
    let (ox, oy, plane, x) = (i % ow, i / ow % oh, i / ow / oh, of[0]);
    (0..window * window).filter_map(move |tap| {
        let iy = (oy * stride + tap / window).wrapping_sub(padding);
        let ix = (ox * stride + tap % window).wrapping_sub(padding);
        (iy < h && ix < w).then(|| x.at((plane * h + iy) * w + ix))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pooling_say_all_sizes() {
        let case = parse("maxpool_f32_2x3x9x8_k3s2p1").unwrap();
        assert_eq!((case.elements, case.reach), (2 * 3 * 5 * 4, 9));
        assert_eq!(parse("avgpool_f32_1x1x4x4_k2s2p0").unwrap().elements, 4);
        for bad in [
            "maxpool_f32_2x3x9_k3s2p1",
            "maxpool_f32_2x3x9x8_k3s2p2",
            "maxpool_f32_2x3x9x8_k3s0p1",
            "maxpool_f32_2x3x9x8_k3s2",
            "maxpool_f32_2x3x2x2_k5s1p1",
            "maxpool_f32_2x3x9x8x7_k3s2p1",
            "minpool_f32_2x3x9x8_k3s2p1",
            "avgpool_f32_9999999x9999999x9999999x999999_k2s2p0",
        ] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }
}
