//! Convolutions, pooling, padding and contractions against plain loops in f64, on every device of this machine.

use crate::common::{Random, devices, seed};
use millstream::{Accuracy, Channels, Conv, DType, Device, Pool, Result, Tensor};

/// Values in row-major order with their shape.
#[derive(Clone)]
struct Data {
    shape: Vec<usize>,
    values: Vec<f32>,
}

impl Data {
    fn random(numbers: &mut Random, shape: &[usize]) -> Data {
        let n: usize = shape.iter().product();
        Data { shape: shape.to_vec(), values: (0..n).map(|_| numbers.unit() as f32).collect() }
    }

    fn tensor(&self, device: &Device) -> Tensor {
        Tensor::from_shape(&self.shape, &self.values).to(device)
    }

    fn at(&self, index: &[usize]) -> f64 {
        let flat = index.iter().zip(&self.shape).fold(0, |at, (i, n)| at * n + i);
        f64::from(self.values[flat])
    }
}

/// Calls `f` with every index of a shape, in row-major order.
fn each(shape: &[usize], mut f: impl FnMut(&[usize])) {
    let total: usize = shape.iter().product();
    let mut index = vec![0; shape.len()];
    for _ in 0..total {
        f(&index);
        for d in (0..shape.len()).rev() {
            index[d] += 1;
            if index[d] < shape[d] {
                break;
            }
            index[d] = 0;
        }
    }
}

/// The results with, for each, the sum of the magnitudes of what was summed.
struct Expected {
    shape: Vec<usize>,
    values: Vec<(f64, f64)>,
    terms: usize,
}

impl Expected {
    fn check(&self, got: &Tensor, about: &str) {
        let values = got.to_vec::<f32>().unwrap_or_else(|e| panic!("{about}: {e}"));
        assert_eq!(got.shape(), self.shape, "{about}");
        for (i, (&got, &(exact, magnitude))) in values.iter().zip(&self.values).enumerate() {
            let bound = (self.terms + 4) as f64 * f64::from(f32::EPSILON) / 2.0 * magnitude + 1e-30;
            let error = (f64::from(got) - exact).abs();
            assert!(error <= bound, "{about}: element {i} is {got}, not {exact} (error {error:e}, bound {bound:e})");
        }
    }
}

/// A convolution drawn at random.
#[derive(Clone, Debug)]
struct Geometry {
    batch: usize,
    groups: usize,
    within: usize,
    out: usize,
    sizes: Vec<usize>,
    kernel: Vec<usize>,
    stride: Vec<usize>,
    before: Vec<usize>,
    after: Vec<usize>,
    dilation: Vec<usize>,
}

impl Geometry {
    fn random(n: &mut Random, axes: usize) -> Geometry {
        let groups = [1, 1, 2, 3][n.below(4)];
        let many = |n: &mut Random, low: usize, high: usize| (0..axes).map(|_| low + n.below(high - low + 1)).collect();
        let (kernel, dilation): (Vec<usize>, Vec<usize>) = (many(n, 1, 3), many(n, 1, 2));
        let span: Vec<usize> = kernel.iter().zip(&dilation).map(|(k, d)| (k - 1) * d + 1).collect();
        let longest = if axes == 3 { 4 } else { 9 };
        Geometry {
            batch: 1 + n.below(3),
            groups,
            within: 1 + n.below(4),
            // Many channels take another way through the CPU than few.
            out: if n.below(3) == 0 { 8 + n.below(40) } else { 1 + n.below(5) },
            sizes: span.iter().map(|s| s + n.below(longest)).collect(),
            kernel,
            stride: many(n, 1, 3),
            before: many(n, 0, 2),
            after: many(n, 0, 2),
            dilation,
        }
    }

    fn options(&self) -> Conv {
        Conv::new()
            .stride(self.stride.as_slice())
            .padding_around(self.before.as_slice(), self.after.as_slice())
            .dilation(self.dilation.as_slice())
            .groups(self.groups)
    }

    fn pixels(&self) -> Vec<usize> {
        (0..self.sizes.len())
            .map(|a| {
                let padded = self.sizes[a] + self.before[a] + self.after[a];
                (padded - (self.kernel[a] - 1) * self.dilation[a] - 1) / self.stride[a] + 1
            })
            .collect()
    }

    /// Filters `[out, within, kernel..]` slid over `[batch, channels, sizes..]`.
    fn convolved(&self, x: &Data, w: &Data, bias: Option<&Data>) -> Expected {
        let shape = [&[self.batch, self.groups * self.out][..], &self.pixels()].concat();
        let mut values = Vec::new();
        each(&shape, |o| {
            let group = o[1] / self.out;
            let (mut sum, mut magnitude) = bias.map_or((0.0, 0.0), |b| (b.at(&o[1..2]), b.at(&o[1..2]).abs()));
            each(&[&[self.within][..], &self.kernel].concat(), |k| {
                let mut index = vec![o[0], group * self.within + k[0]];
                for a in 0..self.sizes.len() {
                    let at = o[2 + a] * self.stride[a] + k[1 + a] * self.dilation[a];
                    match at.checked_sub(self.before[a]).filter(|&i| i < self.sizes[a]) {
                        Some(i) => index.push(i),
                        None => return,
                    }
                }
                let product = x.at(&index) * w.at(&[&[o[1]], k].concat());
                sum += product;
                magnitude += product.abs();
            });
            values.push((sum, magnitude));
        });
        Expected { shape, values, terms: self.within * self.kernel.iter().product::<usize>() + 1 }
    }
}

fn apply(axes: usize, x: &Tensor, w: &Tensor, bias: Option<&Tensor>, options: &Conv) -> Tensor {
    match axes {
        1 => x.conv1d(w, bias, options),
        2 => x.conv2d(w, bias, options),
        _ => x.conv3d(w, bias, options),
    }
}

/// Tries on the CPU are cheap; on drivers in software each new kernel is compiled.
fn tries(device: &Device) -> usize {
    if device.is_host() { 40 } else { 3 }
}

#[test]
fn convolutions_equal_loops_over_every_window() {
    let seed = seed();
    for device in devices() {
        let mut n = Random::new(seed);
        for t in 0..tries(&device) {
            let axes = [2, 1, 2, 3][t % 4];
            let g = Geometry::random(&mut n, axes);
            let x = Data::random(&mut n, &[&[g.batch, g.groups * g.within][..], &g.sizes].concat());
            let w = Data::random(&mut n, &[&[g.groups * g.out, g.within][..], &g.kernel].concat());
            let b = Data::random(&mut n, &[g.groups * g.out]);
            let bias = (t % 3 > 0).then_some(&b);
            let about = format!("{} of {g:?}, bias {}", device.name(), bias.is_some());
            let expected = g.convolved(&x, &w, bias);
            let (xt, wt) = (x.tensor(&device), w.tensor(&device));
            let bt = bias.map(|b| b.tensor(&device));
            expected.check(&apply(axes, &xt, &wt, bt.as_ref(), &g.options()), &about);

            // The same with channels last, on a copy that lies so, and with the filters transposed in memory.
            let last: Vec<usize> = [0].into_iter().chain(2..axes + 2).chain([1]).collect();
            let first: Vec<usize> = [0, axes + 1].into_iter().chain(1..axes + 1).collect();
            let lying = xt.permute(&last).copy();
            let transposed = wt.permute(&last).copy().permute(&first);
            let y = apply(axes, &lying, &transposed, bt.as_ref(), &g.options().channels(Channels::Last));
            expected.check(&y.permute(&first), &format!("{about}, channels last"));
            // And one image alone, whose windows are read through a view of the batch.
            if g.batch > 1 {
                let one = apply(axes, &xt.select(0, 1), &wt, bt.as_ref(), &g.options());
                let whole = apply(axes, &xt, &wt, bt.as_ref(), &g.options()).select(0, 1);
                let difference = (one - whole).abs().max(..).item::<f32>().unwrap();
                assert!(difference <= 1e-5, "{about}: one image differs by {difference} from itself in a batch");
            }
        }
    }
}

#[test]
fn convolutions_of_many_tiles_agree_with_double_precision() -> Result<()> {
    let mut n = Random::fresh();
    let cpu = devices().into_iter().find(Device::is_host).unwrap();
    // Batch, channels, height, width, filters, window, stride, padding, dilation, groups.
    for [b, c, h, w, k, r, stride, padding, dilation, groups] in [
        [1, 70, 15, 17, 83, 3, 1, 1, 1, 1],
        [3, 40, 7, 7, 150, 3, 1, 1, 1, 1],
        [2, 3, 40, 37, 24, 7, 2, 3, 1, 1],
        [1, 64, 9, 30, 40, 3, 2, 2, 2, 2],
        [1, 300, 12, 11, 65, 1, 2, 0, 1, 1],
        [2, 24, 20, 19, 24, 5, 1, 2, 1, 3],
    ] {
        let (x, f) = (Data::random(&mut n, &[b, c, h, w]), Data::random(&mut n, &[k, c / groups, r, r]));
        let bias = Data::random(&mut n, &[k]).tensor(&cpu);
        let (x, f) = (x.tensor(&cpu), f.tensor(&cpu));
        let how = Conv::new().stride(stride).padding(padding).dilation(dilation).groups(groups);
        let wide = |t: &Tensor| t.cast(DType::F64);
        let exact = wide(&x).conv2d(&wide(&f), Some(&wide(&bias)), &how).relu();
        let magnitude = wide(&x).abs().conv2d(&wide(&f).abs(), Some(&wide(&bias).abs()), &how);
        let bound = (c / groups * r * r + 4) as f64 * f64::from(f32::EPSILON) / 2.0;
        let last = how.clone().channels(Channels::Last);
        let results = [
            x.conv2d(&f, Some(&bias), &how).relu(),
            x.conv2d(&f.copy().keep()?, Some(&bias), &how).relu(),
            x.permute(&[0, 2, 3, 1]).copy().conv2d(&f, Some(&bias), &last).relu().permute(&[0, 3, 1, 2]),
        ];
        for (i, y) in results.iter().enumerate() {
            let worst = ((wide(y) - &exact).abs() / (&magnitude + 1e-30)).max(..).item::<f64>()?;
            assert!(worst <= bound, "{worst:e} is above {bound:e}: way {i} of {b}x{c}x{h}x{w} by {k}x{r}x{r}, {how:?}");
        }
        // Without an epilogue results go straight to memory.
        let plain = x.conv2d(&f, None, &how);
        plain.eval()?;
        let plain = (plain + bias.reshape(&[k, 1, 1])).relu();
        let worst = ((wide(&plain) - &exact).abs() / (&magnitude + 1e-30)).max(..).item::<f64>()?;
        assert!(worst <= bound, "{worst:e} is above {bound:e}: plain {b}x{c}x{h}x{w} by {k}x{r}x{r}, {how:?}");
    }
    Ok(())
}

#[test]
fn transposed_convolutions_are_the_transposes_of_convolutions() {
    let seed = seed();
    for device in devices() {
        let mut n = Random::new(seed);
        for t in 0..tries(&device).div_ceil(2) {
            let axes = [2, 1, 2, 3][t % 4];
            // The convolution g maps images of `sizes` to `pixels`; its transpose maps them back.
            let mut g = Geometry::random(&mut n, axes);
            for a in 0..axes {
                let most = (g.kernel[a] - 1) * g.dilation[a];
                (g.before[a], g.after[a]) = (g.before[a].min(most), g.after[a].min(most));
            }
            let pixels = g.pixels();
            let x = Data::random(&mut n, &[&[g.batch, g.groups * g.out][..], &pixels].concat());
            let w = Data::random(&mut n, &[&[g.groups * g.out, g.within][..], &g.kernel].concat());
            // How far the last window stays from the end of the padded input.
            let left: Vec<usize> = (0..axes)
                .map(|a| {
                    let padded = g.sizes[a] + g.before[a] + g.after[a];
                    padded - (g.kernel[a] - 1) * g.dilation[a] - 1 - (pixels[a] - 1) * g.stride[a]
                })
                .collect();
            let shape = [&[g.batch, g.groups * g.within][..], &g.sizes].concat();
            let total: usize = shape.iter().product();
            let mut values = vec![(0.0, 0.0); total];
            each(&x.shape, |o| {
                let group = o[1] / g.out;
                each(&[&[g.within][..], &g.kernel].concat(), |k| {
                    let mut flat = o[0] * shape[1] + group * g.within + k[0];
                    for a in 0..axes {
                        let at = o[2 + a] * g.stride[a] + k[1 + a] * g.dilation[a];
                        match at.checked_sub(g.before[a]).filter(|&i| i < g.sizes[a]) {
                            Some(i) => flat = flat * g.sizes[a] + i,
                            None => return,
                        }
                    }
                    let product = x.at(o) * w.at(&[&[o[1]], k].concat());
                    values[flat].0 += product;
                    values[flat].1 += product.abs();
                });
            });
            let terms = g.out * g.kernel.iter().product::<usize>();
            let options = g.options().output_padding(left.as_slice());
            let (xt, wt) = (x.tensor(&device), w.tensor(&device));
            let y = match axes {
                1 => xt.conv_transpose1d(&wt, None, &options),
                2 => xt.conv_transpose2d(&wt, None, &options),
                _ => xt.conv_transpose3d(&wt, None, &options),
            };
            Expected { shape, values, terms }.check(&y, &format!("{} of {g:?}", device.name()));
        }
    }
}

#[test]
fn a_convolution_with_bias_activation_and_residual_is_one_kernel() -> Result<()> {
    let x = Tensor::ones(&[2, 8, 9, 9], DType::F32).copy();
    let w = Tensor::ones(&[6, 8, 3, 3], DType::F32).copy();
    let (b, r) = (Tensor::ones(&[6], DType::F32).copy(), Tensor::ones(&[2, 6, 9, 9], DType::F32).copy());
    Tensor::eval_all(&[&x, &w, &b, &r])?;
    let y = (x.conv2d(&w, Some(&b), &Conv::new().padding(1)) + &r).relu();
    let text = y.explain()?;
    assert!(text.contains("in 1 kernels"), "{text}");
    let values = y.to_vec::<f32>()?;
    assert_eq!((values[0], values[1], values[10]), (34.0, 50.0, 74.0));
    Ok(())
}

#[test]
fn pooling_equals_loops_over_every_window() {
    let seed = seed();
    for device in devices() {
        let mut n = Random::new(seed);
        for t in 0..tries(&device) {
            let axes = [2, 1, 2, 3][t % 4];
            let kernel: Vec<usize> = (0..axes).map(|_| 1 + n.below(3)).collect();
            let stride: Vec<usize> = (0..axes).map(|_| 1 + n.below(3)).collect();
            let padding: Vec<usize> = kernel.iter().map(|k| n.below(k / 2 + 1)).collect();
            let sizes: Vec<usize> = kernel.iter().map(|k| k + n.below(7)).collect();
            let (ceil, count_padding) = (n.below(2) == 1, n.below(2) == 1);
            let lead = [1 + n.below(2), 1 + n.below(3)];
            let x = Data::random(&mut n, &[&lead[..], &sizes].concat());
            let pixels: Vec<usize> = (0..axes)
                .map(|a| {
                    let room = sizes[a] + 2 * padding[a] - kernel[a];
                    let count = room / stride[a] + 1;
                    let more = !room.is_multiple_of(stride[a]) && count * stride[a] < sizes[a] + padding[a];
                    count + usize::from(ceil && more)
                })
                .collect();
            let shape = [&x.shape[..2], &pixels].concat();
            let (mut largest, mut means) = (Vec::new(), Vec::new());
            each(&shape, |o| {
                let (mut most, mut sum, mut magnitude) = (f64::NEG_INFINITY, 0.0, 0.0);
                let mut counted = 0;
                each(&kernel, |k| {
                    let mut index = vec![o[0], o[1]];
                    let mut inside_padding = true;
                    for a in 0..axes {
                        let at = o[2 + a] * stride[a] + k[a];
                        inside_padding &= at < sizes[a] + 2 * padding[a];
                        if let Some(i) = at.checked_sub(padding[a]).filter(|&i| i < sizes[a]) {
                            index.push(i);
                        }
                    }
                    let there = index.len() == axes + 2;
                    counted += usize::from(there || (count_padding && inside_padding));
                    if there {
                        most = most.max(x.at(&index));
                        sum += x.at(&index);
                        magnitude += x.at(&index).abs();
                    }
                });
                largest.push((most, 0.0));
                means.push((sum / counted as f64, magnitude / counted as f64));
            });
            let terms = kernel.iter().product::<usize>() + 2;
            let pool = Pool::new(kernel.as_slice())
                .stride(stride.as_slice())
                .padding(padding.as_slice())
                .ceil(ceil)
                .count_padding(count_padding);
            let xt = x.tensor(&device);
            let about = format!("{} of {:?}, {pool:?}", device.name(), x.shape);
            let (most, mean) = match axes {
                1 => (xt.max_pool1d(&pool), xt.avg_pool1d(&pool)),
                2 => (xt.max_pool2d(&pool), xt.avg_pool2d(&pool)),
                _ => (xt.max_pool3d(&pool), xt.avg_pool3d(&pool)),
            };
            Expected { shape: shape.clone(), values: largest, terms }.check(&most, &about);
            Expected { shape: shape.clone(), values: means, terms }.check(&mean, &about);
        }
    }
}

#[test]
fn adaptive_pooling_covers_every_element() {
    let seed = seed();
    let cpu = devices().into_iter().find(Device::is_host).unwrap();
    let mut n = Random::new(seed);
    for _ in 0..20 {
        let sizes = [1 + n.below(9), 1 + n.below(9)];
        let out = [1 + n.below(sizes[0]), 1 + n.below(sizes[1])];
        let x = Data::random(&mut n, &[2, 3, sizes[0], sizes[1]]);
        let shape = vec![2, 3, out[0], out[1]];
        let (mut largest, mut means) = (Vec::new(), Vec::new());
        each(&shape, |o| {
            let range = |a: usize| o[2 + a] * sizes[a] / out[a]..((o[2 + a] + 1) * sizes[a]).div_ceil(out[a]);
            let all: Vec<f64> =
                range(0).flat_map(|i| range(1).map(move |j| (i, j))).map(|(i, j)| x.at(&[o[0], o[1], i, j])).collect();
            largest.push((all.iter().copied().fold(f64::NEG_INFINITY, f64::max), 0.0));
            let count = all.len() as f64;
            means.push((all.iter().sum::<f64>() / count, all.iter().map(|v| v.abs()).sum::<f64>() / count));
        });
        let xt = x.tensor(&cpu);
        let about = format!("{sizes:?} to {out:?}");
        Expected { shape: shape.clone(), values: largest, terms: 1 }.check(&xt.adaptive_max_pool2d(out), &about);
        Expected { shape, values: means, terms: 90 }.check(&xt.adaptive_avg_pool2d(out), &about);
    }
}

#[test]
fn padding_alone_and_below_other_operations_puts_the_value_around() -> Result<()> {
    for device in devices() {
        let x = Tensor::arange(1, 7).cast(DType::F32).reshape(&[2, 3]).to(&device);
        let around = [9.0, 9.0, 9.0, 9.0, 1.0, 2.0, 3.0, 9.0, 4.0, 5.0, 6.0, 9.0];
        assert_eq!(x.pad(&[(1, 0), (0, 1)], 9.0).to_vec::<f32>()?, around);
        let doubled: Vec<f32> = around.iter().map(|v| v * 2.0 + 1.0).collect();
        assert_eq!((x.pad(&[(1, 0), (0, 1)], 9.0) * 2.0 + 1.0).to_vec::<f32>()?, doubled);
        // What is padded is computed first; what is padded twice, read through views, too.
        let y = (&x * 2.0).pad(&[(0, 1)], -1.0).transpose().pad(&[(1, 0)], 0.5).flip(1);
        assert_eq!(y.to_vec::<f32>()?, [8.0, 2.0, 0.5, 10.0, 4.0, 0.5, 12.0, 6.0, 0.5, -1.0, -1.0, 0.5]);
        assert_eq!(x.pad(&[(0, 1)], 1.0).sum(1).to_vec::<f32>()?, [7.0, 16.0]);
        // Numbers that have no memory of their own.
        let full = Tensor::full(&[2], 3.0f32).to(&device).pad(&[(1, 1)], 0.0);
        assert_eq!(full.to_vec::<f32>()?, [0.0, 3.0, 3.0, 0.0]);
    }
    let none = Tensor::zeros(&[0, 2], DType::I32).pad(&[(1, 1), (0, 0)], 4);
    assert_eq!(none.to_vec::<i32>()?, [4, 4, 4, 4]);
    assert!(Tensor::zeros(&[2], DType::I32).pad(&[(1, 1), (0, 0)], 4).check().is_err());
    assert!(Tensor::zeros(&[2], DType::I32).pad(&[(1, 1)], 0.5).check().is_err());
    Ok(())
}

#[test]
fn einsum_equals_loops_over_all_labels() {
    let seed = seed();
    for device in devices() {
        let mut n = Random::new(seed);
        for formula in [
            "ij,jk->ik",
            "ij,jk->ki",
            "bij,bjk->bik",
            "bij,jk->bki",
            "abcd,cdab->ac",
            "i,j->ij",
            "i,i->",
            "ij->ji",
            "ij->",
            "ii->i",
            "iij,jk->ki",
            "ab,bc,cd->da",
            "abc,c->b",
            "a,ab,b->",
            "ij,kj",
            "abk,cbk->cab",
        ] {
            let (from, to) = formula.split_once("->").unwrap_or((formula, if formula == "ij,kj" { "ik" } else { "" }));
            let parts: Vec<&str> = from.split(',').collect();
            let mut letters: Vec<char> = from.chars().filter(|c| *c != ',').collect();
            letters.sort_unstable();
            letters.dedup();
            let sizes: Vec<usize> = letters.iter().map(|_| 1 + n.below(5)).collect();
            let letter = |c: char| letters.iter().position(|l| *l == c).unwrap();
            let shape = |text: &str| text.chars().map(|c| sizes[letter(c)]).collect::<Vec<_>>();
            let data: Vec<Data> = parts.iter().map(|p| Data::random(&mut n, &shape(p))).collect();
            let shape = shape(to);
            let mut values = vec![(0.0, 0.0); shape.iter().product()];
            each(&sizes, |index| {
                let at = |text: &str| text.chars().map(|c| index[letter(c)]).collect::<Vec<_>>();
                let product: f64 = parts.iter().zip(&data).map(|(p, d)| d.at(&at(p))).product();
                let flat = at(to).iter().zip(&shape).fold(0, |f, (i, n)| f * n + i);
                values[flat].0 += product;
                values[flat].1 += product.abs();
            });
            let tensors: Vec<Tensor> = data.iter().map(|d| d.tensor(&device)).collect();
            let y = Tensor::einsum(formula, &tensors.iter().collect::<Vec<_>>());
            // A chain of three rounds each product in between.
            let terms = 4 * sizes.iter().product::<usize>() + 4;
            Expected { shape, values, terms }.check(&y, &format!("{} of {formula} {sizes:?}", device.name()));
        }
    }
}

#[test]
fn einsum_broadcasts_under_an_ellipsis_and_refuses_nonsense() -> Result<()> {
    let a = Tensor::arange(0, 12).reshape(&[2, 1, 2, 3]);
    let b = Tensor::arange(0, 6).reshape(&[2, 3, 1]);
    let y = Tensor::einsum("...ij,...jk->...ik", &[&a, &b]);
    assert_eq!(y.to_vec::<i64>()?, a.matmul(&b).to_vec::<i64>()?);
    assert_eq!(y.shape(), [2, 2, 2, 1]);
    assert_eq!(Tensor::einsum("...j->j...", &[&a]).shape(), [3, 2, 1, 2]);
    assert_eq!(a.vecdot(&Tensor::arange(0, 3), -1).to_vec::<i64>()?, [5, 14, 23, 32]);
    for bad in ["ij,jk->ik", "i->i", "ijkl->m", "ijkl->ii", "ij2l->i", "iikl,->"] {
        assert!(Tensor::einsum(bad, &[&a]).check().is_err(), "{bad}");
    }
    assert!(a.tensordot(&b, &[0, 0], &[0, 1]).check().is_err());
    assert!(a.tensordot(&b, &[1], &[0]).check().is_err());
    Ok(())
}

#[test]
fn mistakes_in_convolutions_are_errors_that_say_what() {
    let x = Tensor::zeros(&[1, 4, 5, 5], DType::F32);
    let w = Tensor::zeros(&[6, 4, 3, 3], DType::F32);
    let bad = [
        x.conv1d(&w, None, &Conv::new()),
        x.conv2d(&w.select(0, 0), None, &Conv::new()),
        x.conv2d(&w, None, &Conv::new().groups(2)),
        x.conv2d(&w, None, &Conv::new().groups(0)),
        x.conv2d(&w, None, &Conv::new().stride(0)),
        x.conv2d(&w, None, &Conv::new().stride([1, 1, 1])),
        x.conv2d(&w, None, &Conv::new().dilation(4)),
        x.conv2d(&w, Some(&Tensor::zeros(&[5], DType::F32)), &Conv::new()),
        x.conv2d(&w, None, &Conv::new().padding(usize::MAX / 2 + 1)),
        x.conv_transpose2d(&w, None, &Conv::new()),
        x.conv_transpose2d(&w.permute(&[1, 0, 2, 3]), None, &Conv::new().padding(9)),
        x.max_pool2d(&Pool::new(2).padding(2)),
        x.max_pool2d(&Pool::new(0)),
        x.max_pool2d(&Pool::new(9)),
        x.adaptive_avg_pool2d(0),
        x.windows([6], 1, 1),
    ];
    for (i, t) in bad.iter().enumerate() {
        assert!(t.check().is_err() && t.shape().is_empty(), "case {i}");
    }
}

#[test]
fn an_image_that_is_all_padding_gives_zeros() {
    // Before the image lies another one in the same memory, which must not be read for it.
    let all: Vec<f32> = Random::fresh().floats(3 * 8 * 12 * 12).iter().map(|&x| x as f32 + 2.0).collect();
    for device in devices() {
        let image = Tensor::from_shape(&[3, 8, 12, 12], &all).to(&device).slice(0, 1..2);
        let padded = image.pad(&[(1, 0), (0, 0), (0, 0), (0, 0)], 0).slice(0, ..1);
        let (depthwise, dense) = (Tensor::ones(&[8, 1, 3, 3], DType::F32), Tensor::ones(&[8, 8, 3, 3], DType::F32));
        let results = [
            padded.conv2d(&depthwise, None, &Conv::new().groups(8)),
            padded.conv2d(&dense, None, &Conv::new()),
            padded.conv2d(&dense, None, &Conv::new().accuracy(Accuracy::Winograd)),
        ];
        for (n, result) in results.iter().enumerate() {
            assert_eq!(result.shape(), [1, 8, 10, 10]);
            assert!(result.to_vec::<f32>().unwrap().iter().all(|&x| x == 0.0), "{} {n}", device.name());
        }
    }
}
