//! Normalisations, losses and resizing against plain loops.

use millstream::{Interpolation, Reduction, Tensor};

use crate::common::Random;

fn values(random: &mut Random, n: usize) -> Vec<f32> {
    (0..n).map(|_| 2.0 * random.unit() as f32).collect()
}

fn close(got: &[f32], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (g, w) in got.iter().zip(want) {
        assert!((f64::from(*g) - w).abs() <= 1e-5 * (1.0 + w.abs()), "{g} instead of {w}");
    }
}

#[test]
fn normalisations_are_those_of_loops() {
    let mut random = Random::fresh();
    let (n, c, l) = (3, 6, 5);
    let data = values(&mut random, n * c * l);
    let x = Tensor::from_shape(&[n, c, l], &data);
    let wide: Vec<f64> = data.iter().map(|&v| v.into()).collect();

    let mut want = Vec::new();
    for row in wide.chunks(l) {
        let mean = row.iter().map(|v| v * v).sum::<f64>() / l as f64;
        want.extend(row.iter().map(|v| v / (mean + 1e-5).sqrt()));
    }
    close(&x.rmsnorm(-1, 1e-5).to_vec::<f32>().unwrap(), &want);

    let mut want = Vec::new();
    for group in wide.chunks(c / 2 * l) {
        let mean = group.iter().sum::<f64>() / group.len() as f64;
        let variance = group.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / group.len() as f64;
        want.extend(group.iter().map(|v| (v - mean) / (variance + 1e-5).sqrt()));
    }
    close(&x.groupnorm(2, 1e-5).to_vec::<f32>().unwrap(), &want);

    let (mean, variance) = (values(&mut random, c), (0..c).map(|i| 0.5 + i as f32).collect::<Vec<_>>());
    let want: Vec<f64> = (0..n * c * l)
        .map(|i| {
            let k = i / l % c;
            (wide[i] - f64::from(mean[k])) / (f64::from(variance[k]) + 1e-5).sqrt()
        })
        .collect();
    let y = x.batchnorm(&Tensor::from_slice(&mean), &Tensor::from_slice(&variance), 1e-5);
    close(&y.to_vec::<f32>().unwrap(), &want);
    assert!(x.groupnorm(4, 1e-5).check().is_err() && x.rmsnorm(9, 1e-5).check().is_err());
    assert!(x.batchnorm(&Tensor::from_slice(&[1.0f32]), &Tensor::from_slice(&variance), 0.0).check().is_err());
}

#[test]
fn losses_are_those_of_loops() {
    let mut random = Random::fresh();
    let (n, c) = (5, 7);
    let (x, y) = (values(&mut random, n * c), values(&mut random, n * c));
    let (tx, ty) = (Tensor::from_shape(&[n, c], &x), Tensor::from_shape(&[n, c], &y));
    let each =
        |f: fn(f64, f64) -> f64| -> Vec<f64> { x.iter().zip(&y).map(|(&a, &b)| f(a.into(), b.into())).collect() };
    close(&tx.mse_loss(&ty, Reduction::None).to_vec::<f32>().unwrap(), &each(|a, b| (a - b).powi(2)));
    close(&tx.l1_loss(&ty, Reduction::None).to_vec::<f32>().unwrap(), &each(|a, b| (a - b).abs()));
    let huber = each(|a, b| if (a - b).abs() <= 0.7 { (a - b).powi(2) / 2.0 } else { 0.7 * ((a - b).abs() - 0.35) });
    close(&tx.huber_loss(&ty, 0.7, Reduction::None).to_vec::<f32>().unwrap(), &huber);
    let mean = huber.iter().sum::<f64>() / huber.len() as f64;
    close(&[tx.huber_loss(&ty, 0.7, Reduction::Mean).item::<f32>().unwrap()], &[mean]);

    let classes: Vec<i64> = (0..n).map(|_| random.below(c) as i64).collect();
    let want: Vec<f64> = x
        .chunks(c)
        .zip(&classes)
        .map(|(row, &k)| row.iter().map(|&v| f64::from(v).exp()).sum::<f64>().ln() - f64::from(row[k as usize]))
        .collect();
    let loss = tx.cross_entropy(&Tensor::from_slice(&classes), Reduction::None);
    close(&loss.to_vec::<f32>().unwrap(), &want);
    let want = each(|a, b| (1.0 + a.exp()).ln() - a * b);
    close(&tx.bce_with_logits(&ty, Reduction::None).to_vec::<f32>().unwrap(), &want);
    let (p, q) = (tx.softmax(1), ty.softmax(1));
    assert!(q.log().kl_div(&p, Reduction::Sum).item::<f32>().unwrap() > 0.0);
    assert!(p.log().kl_div(&p, Reduction::Sum).item::<f32>().unwrap().abs() < 1e-5);
    let cosine = tx.cosine_similarity(&tx, 1, 1e-8).to_vec::<f32>().unwrap();
    assert!(cosine.iter().all(|v| (v - 1.0).abs() < 1e-5));
    let infinite = Tensor::from_slice(&[f32::NEG_INFINITY, f32::NEG_INFINITY]).logsumexp(0);
    assert_eq!(infinite.item::<f32>().unwrap(), f32::NEG_INFINITY);
}

#[test]
fn resizing_keeps_lines_straight() {
    let x = Tensor::arange(0, 6).cast(millstream::DType::F32).reshape(&[2, 3]);
    let nearest = x.interpolate(&[4, 6], Interpolation::Nearest);
    assert_eq!(nearest.select(0, 1).to_vec::<f32>().unwrap(), [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
    let linear = x.interpolate(&[5], Interpolation::Linear).select(0, 0).to_vec::<f32>().unwrap();
    close(&linear, &[0.0, 0.4, 1.0, 1.6, 2.0]);
    assert_eq!(x.interpolate(&[2, 3], Interpolation::Linear).to_vec::<f32>().unwrap(), x.to_vec::<f32>().unwrap());
    assert!(x.interpolate(&[1, 1, 1], Interpolation::Linear).check().is_err());
}

/// `softmax(scale * q k' + mask) v` from primitives, with heads of keys repeated.
fn plain(q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>) -> Tensor {
    let shared = (q.shape()[1] / k.shape()[1]).max(1);
    let (k, v) = (k.repeat(shared, 1), v.repeat(shared, 1));
    let scores = q.matmul(&k.transpose()) * (1.0 / (q.shape()[3] as f64).sqrt());
    let scores = match mask {
        Some(mask) => mask.where_(&scores, f64::NEG_INFINITY),
        None => scores,
    };
    scores.softmax(-1).matmul(&v)
}

#[test]
fn attention_is_what_its_parts_make_on_every_device() {
    use millstream::{AttentionOptions, DType, Generator, default_runtime};
    let mut g = Generator::new(5);
    let runtime = default_runtime().unwrap();
    for (name, there) in runtime.list() {
        let Ok(device) = there.and_then(|()| runtime.device(&name)) else { continue };
        for (b, h, kv, m, n, d, e) in [(2, 4, 4, 9, 9, 8, 8), (1, 6, 2, 33, 70, 64, 32), (1, 3, 1, 1, 300, 16, 5)] {
            let q = g.normal(&[b, h, m, d], DType::F32).to(&device);
            let k = g.normal(&[b, kv, n, d], DType::F32).to(&device);
            let v = g.normal(&[b, kv, n, e], DType::F32).to(&device);
            // Some layouts that are not those of plain memory.
            let v = v.transpose().contiguous().transpose();
            let whole = q.attention(&k, &v, &AttentionOptions::default());
            let want: Vec<f64> = plain(&q, &k, &v, None).to_vec::<f32>().unwrap().iter().map(|&x| x.into()).collect();
            close(&whole.to_vec::<f32>().unwrap(), &want);

            let (i, j) = (Tensor::arange(0, m as i64).unsqueeze(1), Tensor::arange(0, n as i64));
            let seen = (i + (n as i64 - m as i64)).ge(&j).to(&device);
            let causal = q.attention(&k, &v, &AttentionOptions { causal: true, ..Default::default() });
            let masked = q.attention(&k, &v, &AttentionOptions { mask: Some(&seen), ..Default::default() });
            let want: Vec<f64> =
                plain(&q, &k, &v, Some(&seen)).to_vec::<f32>().unwrap().iter().map(|&x| x.into()).collect();
            close(&causal.to_vec::<f32>().unwrap(), &want);
            close(&masked.to_vec::<f32>().unwrap(), &want);
        }
    }
    let x = g.normal(&[2, 3, 4], DType::F32);
    assert!(x.attention(&x.select(0, 0), &x, &AttentionOptions::default()).check().is_err());
    assert!(x.attention(&g.normal(&[2, 3, 5], DType::F32), &x, &AttentionOptions::default()).check().is_err());
}
