//! Joining, lookups, running reductions and random numbers, on every device.

use millstream::{DType, Device, Error, ErrorKind, Generator, Reduction, Tensor, compile};

use crate::common::{Random, devices};

fn values(random: &mut Random, n: usize) -> Vec<f32> {
    (0..n).map(|_| random.unit() as f32).collect()
}

#[test]
fn parts_are_joined_in_their_order_along_any_axis() {
    let mut random = Random::fresh();
    for device in devices() {
        for _ in 0..6 {
            let axis = random.below(3);
            let mut shape = [1 + random.below(5), 1 + random.below(5), 1 + random.below(5)];
            let mut parts = Vec::new();
            for _ in 0..2 + random.below(4) {
                shape[axis] = random.below(4);
                let data = values(&mut random, shape.iter().product());
                let x = Tensor::from_shape(&shape, &data).to(&device);
                // Some parts are computed on the way, some are read backwards.
                let x = if random.below(2) == 0 { &x * 2.0 } else { x };
                parts.push(if random.below(3) == 0 { x.flip(0) } else { x });
            }
            let joined = Tensor::concat(&parts.iter().collect::<Vec<_>>(), axis as isize);
            let mut start = 0;
            for part in &parts {
                let n = part.shape()[axis] as isize;
                let back = joined.slice(axis as isize, start..start + n);
                assert_eq!(back.to_vec::<f32>().unwrap(), part.to_vec::<f32>().unwrap(), "{}", device.name());
                start += n;
            }
            assert_eq!(joined.shape()[axis], start as usize);
            // Inside a larger graph the joined value is an intermediate one.
            let doubled = (&joined + &joined).sum(..).item::<f32>().unwrap();
            let sum: f32 = parts.iter().map(|p| p.sum(..).item::<f32>().unwrap()).sum();
            assert!((doubled - 2.0 * sum).abs() < 1e-4 * (1.0 + sum.abs()), "{doubled} {sum}");
        }
    }
}

#[test]
fn rearranging_gives_what_loops_give() {
    let x = Tensor::arange(0, 24).reshape(&[2, 3, 4]);
    assert_eq!(x.roll(&[1, -1], &[1, 2]).select(0, 0).select(0, 0).to_vec::<i64>().unwrap(), [9, 10, 11, 8]);
    assert_eq!(x.moveaxis(0, -1).shape(), [3, 4, 2]);
    assert_eq!(x.swapaxes(0, 2).shape(), [4, 3, 2]);
    assert_eq!(x.flatten(1, 2).shape(), [2, 12]);
    assert_eq!(x.repeat(2, 1).select(0, 0).select(-1, 0).to_vec::<i64>().unwrap(), [0, 0, 4, 4, 8, 8]);
    assert_eq!(x.tile(&[2, 1, 1]).select(1, 0).select(1, 0).to_vec::<i64>().unwrap(), [0, 12, 0, 12]);
    let parts = x.split(&[1, 2], 1).unwrap();
    assert_eq!((parts[0].shape().as_slice(), parts[1].shape().as_slice()), (&[2, 1, 4][..], &[2, 2, 4][..]));
    assert_eq!(Tensor::stack(&x.unstack(1).unwrap().iter().collect::<Vec<_>>(), 1).to_vec::<i64>().unwrap().len(), 24);
    assert_eq!(Tensor::stack(&[&x, &x], -1).shape(), [2, 3, 4, 2]);
    assert!(x.split(&[1, 1], 1).is_err() && Tensor::concat::<Tensor>([], 0).check().is_err());
    assert!(Tensor::concat(&[&x, &x.select(0, 0)], 0).check().is_err());
}

#[test]
fn lookups_find_what_loops_find_and_say_what_is_not_there() {
    let mut random = Random::fresh();
    for device in devices() {
        for _ in 0..4 {
            let (rows, width) = (1 + random.below(9), 1 + random.below(20));
            let data = values(&mut random, rows * width);
            let table = Tensor::from_shape(&[rows, width], &data).to(&device);
            let indices: Vec<i32> = (0..7).map(|_| random.below(2 * rows + 2) as i32 - rows as i32 - 1).collect();
            let index = Tensor::from_slice(&indices).to(&device);
            let at = |p: i32| if p < 0 { p + rows as i32 } else { p };
            let found = (&table * 3.0).take_unchecked(&index, 0).to_vec::<f32>().unwrap();
            for (i, &p) in indices.iter().enumerate() {
                for j in 0..width {
                    let got = found[i * width + j];
                    match usize::try_from(at(p)) {
                        Ok(r) if r < rows => assert_eq!(got, data[r * width + j] * 3.0, "{}", device.name()),
                        _ => assert!(got.is_nan(), "{} {got}", device.name()),
                    }
                }
            }
            // Through a transposed view, along the other axis.
            let columns = table.transpose().take_unchecked(&index, 1).transpose().to_vec::<f32>().unwrap();
            for (a, b) in columns.iter().zip(&found) {
                assert!(a * 3.0 == *b || (a.is_nan() && b.is_nan()), "{}", device.name());
            }
            let best = table.argmax_keepdim(1);
            assert_eq!(table.take_along_axis(&best, 1).to_vec::<f32>().unwrap(), table.max(1).to_vec::<f32>().unwrap());
        }
    }
    assert!(Tensor::arange(0, 3).take(&Tensor::from_slice(&[0.5f32]), 0).check().is_err());
}

/// The error of a value, and of every further read of it.
fn wrong(x: &Tensor) -> Error {
    let error = x.to_bytes().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Index, "{error}");
    assert_eq!(x.eval().unwrap_err().to_string(), x.eval().unwrap_err().to_string());
    error
}

#[test]
fn an_index_out_of_range_is_an_error_of_the_call_that_looked_it_up() {
    for device in devices() {
        let x = Tensor::arange(0, 12).reshape([3, 4]).cast(DType::F32).to(&device);
        let rows = Tensor::new([[0i32, 2], [-3, 3]]).to(&device);
        let (y, line) = (x.take(&rows, 0), line!());
        // A value that was computed from it knows, too, at each read.
        let z = (&y * 2.0).exp().sum(..);
        for _ in 0..2 {
            let error = wrong(&z);
            assert_eq!(error.location().map(|l| l.line()), Some(line), "{}", device.name());
            let text = error.to_string();
            assert!(
                text.contains("index 3 is out of range for an axis of 3") && text.contains("number 3 of"),
                "{text}"
            );
        }
        wrong(&y);
        // What does not need it is computed.
        assert_eq!(x.sum(..).item::<f32>().unwrap(), 66.0);
        let two = x.index([&Tensor::new([0i32, 1]), &Tensor::new([3i32, -5])]);
        assert!(
            wrong(&two).to_string().contains("index -5 is out of range for an axis of 4 (number 1 of the indices)")
        );
        let along = x.take_along_axis(&Tensor::new([[0u8], [1], [4]]), 1);
        assert!(along.eval_async().and_then(|e| e.wait()).is_err() || along.to_vec::<f32>().is_err());
        // Nothing is looked up in nothing.
        wrong(&Tensor::zeros([0, 2], DType::F32).to(&device).take(&Tensor::new([0i32]), 0));
        assert!(x.take(&Tensor::zeros(0, DType::I32), 0).eval().is_ok());
        for bad in [i64::MIN, -4, 3, i64::MAX] {
            let bad = Tensor::new([0, bad]);
            wrong(&x.take(&bad, 0));
            let ones = Tensor::ones([2, 4], DType::F32);
            wrong(&x.index_put([&bad], &ones));
            wrong(&x.scatter_add(0, &bad.unsqueeze(1), &ones));
        }
        // Loss of a class that is not there.
        wrong(&x.cross_entropy(&Tensor::new([0i32, 1, 4]), Reduction::Mean));
    }
}

#[test]
fn an_index_out_of_range_spoils_its_own_run_only() {
    for device in devices() {
        let table = Tensor::arange(0, 12).reshape([3, 4]).cast(DType::F32).to(&device);
        let at = |i: i32| Tensor::new([1, i]).to(&device);
        // Often enough to be captured where that is possible; bad calls in between, some of which nobody reads.
        let (sum, line) = (compile(|i| table.take(i, 0).sum(..)), line!());
        let two = compile(|i| table.take(i, 0).softmax(1).matmul(&table.transpose()));
        for turn in 0..60 {
            if turn % 7 == 3 {
                drop(sum.call(&at(5)));
                let error = sum.call(&at(-4 - turn)).and_then(|y| y.item::<f32>()).unwrap_err();
                assert!(error.to_string().contains(&format!("index {} is out of range", -4 - turn)), "{error}");
                assert_eq!(error.location().map(|l| l.line()), Some(line), "{}", device.name());
                assert_eq!(two.call(&at(3)).and_then(|y| y.to_bytes()).unwrap_err().kind(), ErrorKind::Index);
            }
            assert_eq!(sum.call(&at(turn % 3)).unwrap().item::<f32>().unwrap(), 28.0 + 16.0 * (turn % 3) as f32);
            assert!(two.call(&at(1)).unwrap().to_vec::<f32>().is_ok());
        }
        // Many at once, none read before all are there.
        let many: Vec<(i32, Tensor)> = (0..700).map(|i| (i % 97, table.take(&at(i % 97), 0).sum(..))).collect();
        many.iter().for_each(|(_, y)| drop(y.eval_async()));
        for (i, y) in &many {
            assert_eq!(y.item::<f32>().is_ok(), *i < 3, "{i} on {}", device.name());
        }
    }
}

#[test]
fn what_is_computed_from_a_bad_lookup_is_bad_wherever_it_goes() {
    for device in devices() {
        let table = Tensor::arange(0, 12).reshape([3, 4]).cast(DType::F32).to(&device);
        let good = Tensor::new([0i32, 2]).to(&device);
        let mut weights = Tensor::ones(4, DType::F32).to(&device);
        let mut line = 0;
        for step in 0..90 {
            let i = if step == 40 { Tensor::new([0i32, 9]).to(&device) } else { good.clone() };
            weights = &weights + table.take(&i, 0).mean(0) * 0.001;
            if step == 40 {
                line = line!() - 2;
            }
            if !device.is_host() {
                weights.eval_async().unwrap();
            }
            if step == 39 {
                weights.eval().unwrap();
            }
        }
        let fine = table.take(&good, 0);
        for other in devices() {
            let error = wrong(&weights.to(&other));
            assert_eq!(error.location().map(|l| l.line()), Some(line), "{} {}", device.name(), other.name());
            wrong(&(weights.to(&other) * fine.to(&other)).sum(..));
            assert!(fine.to(&other).eval().is_ok());
        }
        // Overwriting a part leaves the rest as it was; a value of its own is a new one.
        let mut part = fine.copy();
        part.set((0, ..), &weights).and_then(|()| part.eval()).unwrap_err();
        assert!((&weights * 1.0).export().is_err());
    }
}

#[test]
fn running_reductions_are_those_of_a_loop() {
    let mut random = Random::fresh();
    for device in devices() {
        for shape in [vec![7], vec![3000], vec![5, 6, 7], vec![2, 1100], vec![1, 0]] {
            let data: Vec<f32> = values(&mut random, shape.iter().product());
            let x = Tensor::from_shape(&shape, &data).to(&device);
            let axis = random.below(shape.len());
            let (running, most) = (x.cumsum(axis as isize), x.cummax(axis as isize));
            let n = shape[axis] as isize;
            if n == 0 {
                assert_eq!(running.to_vec::<f32>().unwrap().len(), 0);
                continue;
            }
            let axis = axis as isize;
            let last = running.slice(axis, n - 1..n).to_vec::<f32>().unwrap();
            let total = x.sum_keepdim(axis).to_vec::<f32>().unwrap();
            for (a, b) in last.iter().zip(&total) {
                assert!((a - b).abs() <= 1e-4, "{}: {a} {b}", device.name());
            }
            // What a running sum adds at each step is the element itself.
            let steps = running.diff(axis).to_vec::<f32>().unwrap();
            let own = x.slice(axis, 1..n).to_vec::<f32>().unwrap();
            assert!(steps.iter().zip(&own).all(|(a, b)| (a - b).abs() < 1e-3), "{}", device.name());
            let rising = most.diff(axis).min(..);
            assert!(n == 1 || rising.item::<f32>().unwrap() >= 0.0);
            assert_eq!(most.slice(axis, n - 1..n).to_vec::<f32>().unwrap(), x.max(axis).to_vec::<f32>().unwrap());
        }
        let whole = Tensor::from_slice(&[2i32, 3, -4]).to(&device).cumprod(0);
        assert_eq!(whole.to_vec::<i64>().unwrap(), [2, 6, -24]);
    }
}

#[test]
fn random_numbers_are_the_same_everywhere_and_look_random() {
    let n = 20_000;
    let draw = |device: &Device| {
        let mut g = Generator::new(42);
        let on = |t: Tensor| (t.to(device) + 0.0).to_vec::<f32>().unwrap();
        let uniform = on(g.uniform(&[n], DType::F32));
        let normal = on(g.normal(&[n], DType::F32));
        let whole = g.integers(&[n], -3, 4).to(device).to_vec::<i64>().unwrap();
        (uniform, normal, whole)
    };
    let all: Vec<_> = devices().iter().map(draw).collect();
    for (uniform, normal, whole) in &all {
        assert_eq!((uniform, whole), (&all[0].0, &all[0].2));
        assert!(normal.iter().zip(&all[0].1).all(|(a, b)| (a - b).abs() < 1e-4));
    }
    let (uniform, normal, whole) = &all[0];
    let mean = |v: &[f32]| v.iter().map(|&x| f64::from(x)).sum::<f64>() / v.len() as f64;
    assert!((mean(uniform) - 0.5).abs() < 0.02 && mean(normal).abs() < 0.04);
    let square: Vec<f32> = normal.iter().map(|x| x * x).collect();
    assert!((mean(&square) - 1.0).abs() < 0.06);
    for v in -3..4 {
        let share = whole.iter().filter(|&&w| w == v).count() as f64 / n as f64;
        assert!((share - 1.0 / 7.0).abs() < 0.02, "{v}: {share}");
    }
    // Neighbouring numbers have nothing in common.
    let product: f64 = uniform.windows(2).map(|w| f64::from(w[0] - 0.5) * f64::from(w[1] - 0.5)).sum();
    assert!((product / n as f64).abs() < 0.005);
    let mut g = Generator::new(1);
    let dropped = Tensor::ones(&[n], DType::F32).dropout(0.25, &mut g);
    assert!((dropped.mean(..).item::<f32>().unwrap() - 1.0).abs() < 0.03);
    assert!(g.integers(&[2], 3, 3).check().is_err() && g.uniform(&[2], DType::I32).check().is_err());
}
