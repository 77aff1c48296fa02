//! Sizes and numbers at the edges of what there is: nothing, one, too much. Results follow the definition; what cannot be
//! computed is an error, never a panic.

use crate::common::{Random, devices};
use millstream::{
    AttentionOptions, Conv, DType, ErrorKind, FftNorm, Interpolation, MatrixNorm, Order, Pool, Reduction, Tensor,
};

#[test]
fn lookups_in_an_axis_without_elements_find_nothing() {
    for device in devices() {
        let none: [f32; 0] = [];
        let table = Tensor::from_shape(&[0, 3], &none).to(&device);
        let indices = Tensor::from_slice(&[0i32, -1]).to(&device);
        let found = table.take_unchecked(&indices, 0).to_vec::<f32>().unwrap();
        assert!(found.len() == 6 && found.iter().all(|v| v.is_nan()), "{}: {found:?}", device.name());
        let cut = Tensor::from_shape(&[4, 3], &[1i32; 12]).to(&device).slice(0, 2..2);
        assert_eq!(cut.take_unchecked(&indices, 0).to_vec::<i32>().unwrap(), [0; 6]);
        assert_eq!(cut.index_unchecked(&[&indices, &indices]).to_vec::<i32>().unwrap(), [0; 2]);
        assert_eq!(cut.take_unchecked(&indices, 1).shape(), [0, 2]);
        assert!(cut.take_unchecked(&indices, 1).to_vec::<i32>().unwrap().is_empty());
        let nowhere = indices.slice(0, ..0);
        assert_eq!(cut.take_unchecked(&nowhere, 0).to_vec::<i32>().unwrap(), [0i32; 0]);
    }
}

#[test]
fn indices_far_out_of_range_are_not_taken_for_near_ones() {
    let host = &devices()[0];
    let table = Tensor::from_slice(&[10i32, 11, 12]).to(host);
    let signed = [1i64 << 31, 1 << 32, (1 << 32) + 1, i64::MAX, i64::MIN, i64::MIN + 1, -(1 << 32) - 1, -4, -3, 2];
    let found = table.take_unchecked(&Tensor::from_slice(&signed), 0).to_vec::<i32>().unwrap();
    assert_eq!(found, [0, 0, 0, 0, 0, 0, 0, 0, 10, 12]);
    let unsigned = [1u64 << 63, u64::MAX, u64::MAX - 2, 1 << 32, 3, 2];
    assert_eq!(table.take_unchecked(&Tensor::from_slice(&unsigned), 0).to_vec::<i32>().unwrap(), [0, 0, 0, 0, 0, 12]);
    let narrow = [255u8, 253, 2];
    assert_eq!(table.take_unchecked(&Tensor::from_slice(&narrow), 0).to_vec::<i32>().unwrap(), [0, 0, 12]);
}

#[test]
fn a_graph_may_hold_more_numbers_than_sixteen_bits_can_count() {
    let n = 66_000;
    let parts: Vec<Tensor> = (0..n).map(|i| Tensor::full(&[1], i as f32)).collect();
    let joined = Tensor::concat(&parts.iter().collect::<Vec<_>>(), 0).to_vec::<f32>().unwrap();
    assert!(joined.iter().enumerate().all(|(i, v)| *v == i as f32));
}

/// `softmax(scale q k' + mask) v` by loops, for one batch.
fn attended(q: &[f64], k: &[f64], v: &[f64], sizes: [usize; 4], causal: bool, seen: Option<&[bool]>) -> Vec<f64> {
    let [m, n, d, e] = sizes;
    let scale = 1.0 / (d.max(1) as f64).sqrt();
    let mut out = vec![0.0; m * e];
    for i in 0..m {
        let sees = |j: usize| (!causal || j + m <= i + n) && seen.is_none_or(|s| s[i * n + j]);
        let keys: Vec<usize> = (0..n).filter(|&j| sees(j)).collect();
        let score = |j: usize| scale * (0..d).map(|c| q[i * d + c] * k[j * d + c]).sum::<f64>();
        let most = keys.iter().map(|&j| score(j)).fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = keys.iter().map(|&j| (score(j) - most).exp()).sum();
        for c in 0..e {
            let sum: f64 = keys.iter().map(|&j| (score(j) - most).exp() * v[j * e + c]).sum();
            out[i * e + c] = if keys.is_empty() { 0.0 } else { sum / total };
        }
    }
    out
}

#[test]
fn attention_over_axes_of_any_size_and_layout_is_that_of_loops() {
    let mut random = Random::fresh();
    for device in devices() {
        for round in 0..if device.is_host() { 40 } else { 8 } {
            let [m, n, d, e] =
                [0; 4].map(|_| if random.below(5) == 0 { random.below(2) } else { 1 + random.below(20) });
            let (kv, share) = (1 + random.below(3), 1 + random.below(3));
            let heads = kv * share;
            let mut operand = |shape: [usize; 3]| {
                let data: Vec<f32> = (0..shape.iter().product()).map(|_| 2.0 * random.unit() as f32).collect();
                let wide: Vec<f64> = data.iter().map(|&x| f64::from(x)).collect();
                let x = Tensor::from_shape(&shape, &data).to(&device);
                let x = match random.below(3) {
                    0 => x.flip(1).contiguous().flip(1),
                    1 => x.transpose().contiguous().transpose(),
                    _ => x,
                };
                (x, wide)
            };
            let ((q, qs), (k, ks), (v, vs)) = (operand([heads, m, d]), operand([kv, n, d]), operand([kv, n, e]));
            let causal = random.below(2) == 0;
            // Some rows see nothing at all.
            let seen: Vec<bool> = (0..m)
                .flat_map(|_| {
                    let blind = random.below(4) == 0;
                    (0..n).map(|_| !blind && random.below(3) > 0).collect::<Vec<_>>()
                })
                .collect();
            // Minus infinity added to a score hides a key as well.
            let mask = match random.below(2) {
                0 => Tensor::from_shape(&[m, n], &seen),
                _ => {
                    let added = |s: &bool| if *s { 0.0 } else { f32::NEG_INFINITY };
                    Tensor::from_shape(&[m, n], &seen.iter().map(added).collect::<Vec<_>>())
                }
            };
            let mask = mask.to(&device);
            let masked = random.below(2) == 0;
            let options = AttentionOptions { causal, mask: masked.then_some(&mask), scale: None };
            let got = q.attention(&k, &v, &options);
            assert_eq!(got.shape(), [heads, m, e]);
            let got = got.to_vec::<f32>().unwrap();
            for h in 0..heads {
                let part = |x: &[f64], h: usize, size: usize| x[h * size..(h + 1) * size].to_vec();
                let g = h / share;
                let seen = masked.then_some(&seen[..]);
                let (q, k, v) = (part(&qs, h, m * d), part(&ks, g, n * d), part(&vs, g, n * e));
                let want = attended(&q, &k, &v, [m, n, d, e], causal, seen);
                for (a, b) in got[h * m * e..(h + 1) * m * e].iter().zip(&want) {
                    let what =
                        format!("{} round {round}: {m} {n} {d} {e} {heads}/{kv} {causal} {masked}", device.name());
                    assert!((f64::from(*a) - b).abs() < 1e-4, "{what}: {a} instead of {b}");
                }
            }
        }
    }
}

#[test]
fn running_sums_along_axes_of_any_size_and_direction_are_those_of_loops() {
    let mut random = Random::fresh();
    for device in devices() {
        for _ in 0..12 {
            let shape = [random.below(4), 1 + random.below(70), random.below(4)];
            let axis = random.below(3);
            let data: Vec<i32> = (0..shape.iter().product()).map(|_| random.below(9) as i32 - 4).collect();
            let x = random.relaid(&Tensor::from_shape(&shape, &data).to(&device));
            let back = random.below(2) == 0;
            let x = if back { x.flip(axis as isize) } else { x };
            let got = x.cummax(axis as isize).to_vec::<i32>().unwrap();
            let step: usize = shape[axis + 1..].iter().product();
            let n = shape[axis];
            for (i, g) in got.iter().enumerate() {
                let (at, first) = (i / step % n, i - i / step % n * step);
                let element = |j: usize| data[first + if back { n - 1 - j } else { j } * step];
                assert_eq!(Some(*g), (0..=at).map(element).max(), "{} {shape:?} {axis}", device.name());
            }
        }
    }
}

#[test]
fn parts_without_elements_and_of_other_dtypes_are_joined() {
    let none: [f32; 0] = [];
    let (a, b) = (Tensor::from_slice(&none), Tensor::from_slice(&[1i32, 2]));
    let c = Tensor::from_slice(&[true]);
    let joined = Tensor::concat(&[&a, &b, &c, &a], 0);
    assert_eq!(joined.dtype(), DType::F32);
    assert_eq!(joined.to_vec::<f32>().unwrap(), [1.0, 2.0, 1.0]);
    assert!(Tensor::concat(&[&a, &a], 0).to_vec::<f32>().unwrap().is_empty());
    let wide = Tensor::zeros(&[0, 4], DType::F32);
    assert_eq!(Tensor::concat(&[&wide, &wide], 1).shape(), [0, 8]);
    let (long, words) = (Tensor::from_slice(&[1i64]), Tensor::from_slice(&[1u64]));
    assert_eq!(Tensor::concat(&[&long, &words], 0).check().unwrap_err().kind(), ErrorKind::DType);
}

/// Sizes that are allowed because one of them is 0, and whose others multiply to more than a number can hold.
fn vast() -> Tensor {
    Tensor::zeros(&[0, 1usize << 40, 1 << 40], DType::F32)
}

#[test]
fn sizes_that_multiply_to_too_much_are_errors() {
    let (x, most) = (Tensor::from_shape(&[1, 1, 5], &[1.0f32, 2.0, 3.0, 4.0, 5.0]), usize::MAX);
    let w = Tensor::from_shape(&[1, 1, 2], &[1.0f32, 1.0]);
    let lazy = Tensor::zeros(&[1 << 22, 1 << 22], DType::F32);
    let tall = Tensor::zeros([1usize << 40, 0], DType::F32);
    let tensors: Vec<(&str, Tensor)> = vec![
        ("flatten", vast().flatten(1, 2)),
        ("sort", vast().sort(0, Order::Ascending)),
        ("topk", vast().topk(0, 0, Order::Descending).0),
        ("fft", vast().fft(None, 0, FftNorm::Backward)),
        ("long fft", x.fft(Some(most), 2, FftNorm::Backward)),
        ("long rfft", x.rfft(Some(most), 2, FftNorm::Backward)),
        ("groupnorm", vast().unsqueeze(0).groupnorm(1, 0.0)),
        ("mask", vast().mask(&Tensor::from_shape(&[0], &[true; 0]))),
        ("kron", tall.kron(&tall)),
        ("inv", lazy.inv()),
        ("svd", lazy.svdvals()),
        ("pad", x.pad(&[(most, 1)], 0)),
        ("wide pad", x.pad(&[(1 << 60, 0)], 0)),
        ("pool padding", x.max_pool1d(&Pool::new(most).padding(most / 2))),
        ("pool dilation", x.max_pool1d(&Pool::new(2).dilation(most))),
        ("pool stride", x.avg_pool1d(&Pool::new(9).stride(most))),
        ("adaptive", x.adaptive_avg_pool1d(1usize << 45)),
        ("windows", x.windows(2, 1, most)),
        ("conv padding", x.conv1d(&w, None, &Conv::new().padding(most))),
        ("conv dilation", x.conv1d(&w, None, &Conv::new().dilation(most))),
        ("conv groups", x.conv1d(&Tensor::zeros(&[0, 2, 1], DType::F32), None, &Conv::new().groups(1 << 63))),
        ("transposed dilation", x.conv_transpose1d(&w, None, &Conv::new().dilation(most))),
        ("transposed stride", x.conv_transpose1d(&w, None, &Conv::new().stride(most))),
        ("transposed padding", x.conv_transpose1d(&w, None, &Conv::new().padding(most))),
        ("transposed output", x.conv_transpose1d(&w, None, &Conv::new().stride(most).output_padding(most - 1))),
        ("repeat", x.repeat(most, 2)),
        ("tile", x.tile(&[most])),
        ("one_hot", Tensor::from_slice(&[0i64]).one_hot(most, DType::F32)),
        ("interpolate", x.interpolate(&[most], Interpolation::Linear)),
        ("eye", Tensor::eye(most, most, 0, DType::F32)),
        ("linspace", Tensor::linspace(0.0, 1.0, most, DType::F32)),
        ("arange_by", Tensor::arange_by(0.0, 1e300, 1.0, DType::F32)),
        ("fftfreq", Tensor::fftfreq(most, 1.0)),
        ("rfftfreq", Tensor::rfftfreq(most, 1.0)),
    ];
    for (name, tensor) in tensors {
        assert!(tensor.eval().is_err(), "{name} gave {:?}", tensor.shape());
    }
    assert!(vast().nonzero().is_ok_and(|list| list.iter().all(|t| t.shape() == [0])));
}

#[test]
fn padding_by_huge_amounts_is_read_where_it_is_small() {
    let x = Tensor::arange(0, 64).reshape(&[2, 32]).slice(1, ..1);
    let padded = x.pad(&[(1 << 50, 1), (0, 0)], 7);
    // A reader looks through the padding; whoever wants all of it runs out of memory.
    let near = padded.slice(0, (1usize << 50) - 1..(1 << 50) + 3) + 1;
    assert_eq!(near.to_vec::<i64>().unwrap(), [8, 1, 33, 8]);
    assert_eq!(padded.eval().unwrap_err().kind(), ErrorKind::OutOfMemory);
}

#[test]
fn matrices_without_rows_or_columns_have_factors() {
    for (m, n) in [(0, 0), (0, 3), (3, 0)] {
        for batch in [&[][..], &[0], &[2]] {
            let shape: Vec<usize> = batch.iter().copied().chain([m, n]).collect();
            let x = Tensor::zeros(&shape, DType::F64);
            let mut made = vec![x.qr().0, x.qr_complete().0, x.qr().1, x.qr_complete().1, x.pinv(None), x.svdvals()];
            made.extend([x.svd_full().0, x.svd_full().2, x.svd().0, x.svd().2, x.matrix_rank(None)]);
            made.extend([x.matrix_norm(MatrixNorm::Frobenius), x.diagonal(0), x.trace(0)]);
            if m == n {
                made.extend([x.inv(), x.det(), x.slogdet().1, x.cholesky(), x.eigvalsh(), x.eigh().1, x.solve(&x)]);
                made.extend([x.matrix_power(0), x.matrix_power(3), x.matrix_power(-2)]);
            }
            for t in made {
                t.eval().unwrap_or_else(|e| panic!("{shape:?}: {e}"));
            }
        }
    }
}

#[test]
fn losses_and_norms_of_nothing_are_numbers() {
    let x = Tensor::zeros(&[0, 3], DType::F32);
    let classes = Tensor::zeros(&[0], DType::I64);
    assert_eq!(x.cross_entropy(&classes, Reduction::Sum).item::<f32>().unwrap(), 0.0);
    assert!(x.cross_entropy(&classes, Reduction::Mean).item::<f32>().unwrap().is_nan());
    assert_eq!(x.logsumexp(0).check().unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(x.layernorm(-1, 1e-5).shape(), [0, 3]);
    assert!(x.softmax(0).to_vec::<f32>().unwrap().is_empty());
}

#[test]
fn formulas_of_any_form_are_sums_or_errors() {
    let mut random = Random::fresh();
    let pieces = ["i", "j", "k", "i", "j", ",", ",", "->", "...", ".", " ", "I", "é", "1", "-", ">", ""];
    let mut computed = 0;
    for _ in 0..4000 {
        let formula: String = (0..random.below(10)).map(|_| pieces[random.below(pieces.len())]).collect();
        // Mostly as many operands as the formula names.
        let named = formula.split("->").next().unwrap_or_default().split(',').count();
        let count = if random.below(8) == 0 { random.below(4) } else { named };
        let operands: Vec<Tensor> = (0..count)
            .map(|_| Tensor::ones(&(0..random.below(4)).map(|_| random.below(3)).collect::<Vec<_>>(), DType::F32))
            .collect();
        let result = Tensor::einsum(&formula, &operands.iter().collect::<Vec<_>>());
        match result.check() {
            Ok(()) => {
                let values = result.to_vec::<f32>().unwrap_or_else(|e| panic!("{formula:?}: {e}"));
                assert!(values.iter().all(|v| *v >= 0.0 && v.fract() == 0.0), "{formula:?}: {values:?}");
                computed += 1;
            }
            Err(e) => assert!(matches!(e.kind(), ErrorKind::Argument | ErrorKind::Shape), "{formula:?}: {e}"),
        }
    }
    assert!(computed > 50, "{computed}");
}

#[test]
fn scores_of_minus_infinity_give_nan_where_every_key_is_seen() {
    for device in devices() {
        let q = Tensor::from_shape(&[3, 1], &[1.0f32, f32::NEG_INFINITY, 2.0]).to(&device);
        let k = Tensor::from_shape(&[70, 1], &[1.0f32; 70]).to(&device);
        let v = Tensor::from_shape(&[70, 2], &[3.0f32; 140]).to(&device);
        let by_hand = q.matmul(&k.transpose()).softmax(-1).matmul(&v).to_vec::<f32>().unwrap();
        let attended = q.attention(&k, &v, &AttentionOptions::default()).to_vec::<f32>().unwrap();
        for list in [by_hand, attended] {
            assert_eq!(list.iter().map(|x| x.is_nan()).collect::<Vec<_>>(), [false, false, true, true, false, false]);
            assert!(list.iter().all(|x| x.is_nan() || (x - 3.0).abs() < 1e-5), "{}: {list:?}", device.name());
        }
    }
}
