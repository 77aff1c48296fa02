//! Values that stay the same are packed once; nobody can tell but by the clock and the memory.

use crate::common::Random;
use millstream::core::Priority;
use millstream::cpu::{CpuFamily, CpuOptions};
use millstream::{Accuracy, Buffer, Channels, Conv, DType, Device, Event, Layout, Mode, Result, Tensor};

fn values(r: &mut Random, count: usize) -> Vec<f32> {
    (0..count).map(|_| r.unit() as f32).collect()
}

fn tensor(r: &mut Random, shape: &[usize], device: &Device) -> Tensor {
    Tensor::from_shape(shape, &values(r, shape.iter().product())).to(device)
}

/// A CPU of its own, so that other tests' memory is not in its pool.
fn cpu(threads: usize) -> Device {
    let family = CpuFamily::new(CpuOptions { threads: Some(threads), ..CpuOptions::default() });
    millstream::core::Runtime::builder().family(family).build().device("cpu").unwrap()
}

fn bits(x: &Tensor) -> Vec<u64> {
    x.cast(DType::F64).to_vec::<f64>().unwrap().into_iter().map(f64::to_bits).collect()
}

#[test]
fn matmuls_with_cached_operands_are_the_same_bit_by_bit() {
    let (mut r, device) = (Random::fresh(), cpu(2));
    let mut singles = 0;
    for (m, k, n) in [(33, 70, 65), (130, 300, 97), (2, 64, 17), (257, 9, 40), (5, 600, 1), (1, 33, 50), (64, 2048, 49)]
    {
        for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16, DType::I8, DType::I32] {
            let (x, w) = (tensor(&mut r, &[m, k], &device) * 100.0, tensor(&mut r, &[k, n], &device) * 100.0);
            let (x, w) = (x.cast(dtype), w.cast(dtype));
            // What is still to be computed may be computed inside a matmul, which is another one then.
            Tensor::eval_all(&[&x, &w]).unwrap();
            let transposed = |t: &Tensor| {
                let transposed = t.transpose().copy();
                transposed.eval().map(|()| transposed).unwrap()
            };
            let (right, right_transposed, left) = (w.copy(), transposed(&w), transposed(&x));
            let plain = bits(&x.matmul(&w));
            let plain_transposed = bits(&x.matmul(&transposed(&w).transpose()));
            let plain_left = bits(&transposed(&x).transpose().matmul(&w));
            for cached in [&right, &right_transposed, &left] {
                let _ = cached.keep().unwrap();
            }
            for round in 0..2 {
                let about = format!("{m} {k} {n} {dtype} round {round}");
                assert_eq!(bits(&x.matmul(&right)), plain, "right {about}");
                assert_eq!(bits(&x.matmul(&right_transposed.transpose())), plain_transposed, "transposed {about}");
                assert_eq!(bits(&left.transpose().matmul(&w)), plain_left, "left {about}");
            }
            let forms = right.buffer().unwrap().packed_forms().0;
            let all = [&right, &right_transposed, &left].map(|t| t.buffer().unwrap().packed_forms().0);
            singles += if dtype == DType::F32 { all.iter().sum() } else { 0 };
            // One of f32, or of a small matmul, may be read in place.
            let least = usize::from(dtype != DType::F32 && m * k * n > 40 * 40 * 40);
            assert!(
                (least..=1).map(|forms| forms * usize::from(m > 1 && n > 1)).any(|n| n == forms),
                "{m} {k} {n} {dtype}"
            );
        }
    }
    assert!(singles > 0, "no operand of f32 was cached");
}

#[test]
fn cached_bytes_serve_operands_of_either_sign() {
    let (mut r, device) = (Random::fresh(), cpu(2));
    let wide = |t: &Tensor| t.cast(DType::I32);
    for own in [DType::I8, DType::U8] {
        let bytes = |r: &mut Random, shape: &[usize], dtype: DType| {
            let numbers = tensor(r, shape, &device) * 100.0;
            let numbers = numbers.cast(DType::I32).cast(dtype);
            numbers.eval().map(|()| numbers).unwrap()
        };
        let w = bytes(&mut r, &[61, 61], own);
        let cached = w.copy().keep().unwrap();
        for round in 0..2 {
            for other in [DType::I8, DType::U8, DType::I16] {
                let x = bytes(&mut r, &[61, 61], other);
                let about = format!("{own} with {other}, round {round}");
                assert_eq!(bits(&wide(&x).matmul(&wide(&cached))), bits(&wide(&x).matmul(&wide(&w))), "right {about}");
                assert_eq!(bits(&wide(&cached).matmul(&wide(&x))), bits(&wide(&w).matmul(&wide(&x))), "left {about}");
            }
        }
    }
}

#[test]
fn parts_of_a_cached_value_are_distinct() {
    let (mut r, device) = (Random::fresh(), cpu(1));
    let w = tensor(&mut r, &[40, 50], &device);
    let x = tensor(&mut r, &[30, 20], &device);
    let all = w.copy().keep().unwrap();
    for _ in 0..2 {
        for (row, col) in [(0, 0), (3, 0), (0, 5), (20, 29), (7, 11)] {
            let part = |t: &Tensor| t.slice(0, row..row + 20).slice(1, col..col + 21);
            assert_eq!(bits(&x.matmul(&part(&all))), bits(&x.matmul(&part(&w))), "{row} {col}");
            let back = |t: &Tensor| part(t).flip(0);
            assert_eq!(bits(&x.matmul(&back(&all))), bits(&x.matmul(&back(&w))), "{row} {col} flipped");
        }
    }
    // Matrices that begin at the same address, but lie otherwise from there on.
    let w = tensor(&mut r, &[4, 40, 300], &device);
    let x = tensor(&mut r, &[2, 300, 41], &device);
    let all = w.copy().keep().unwrap();
    for _ in 0..2 {
        for (first, step) in [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2)] {
            let part = |t: &Tensor| t.slice(0, millstream::step(first..first + step + 1, step));
            assert_eq!(bits(&part(&all).matmul(&x)), bits(&part(&w).matmul(&x)), "{first} by {step}");
        }
    }
}

#[test]
fn filters_that_are_cached_give_the_same_results_every_time() -> Result<()> {
    let (mut r, device) = (Random::fresh(), cpu(2));
    for channels in [Channels::First, Channels::Last] {
        for (groups, out) in [(1, 36), (3, 36), (3, 96)] {
            let shape = if channels == Channels::First { [2, 6, 17, 16] } else { [2, 17, 16, 6] };
            let (x, w) = (tensor(&mut r, &shape, &device), tensor(&mut r, &[out, 6 / groups, 3, 3], &device));
            let bias = tensor(&mut r, &[out], &device);
            let how = Conv::new().padding(1).groups(groups).channels(channels);
            let plain = bits(&x.conv2d(&w, Some(&bias), &how).relu());
            let cached = w.copy().keep()?;
            for _ in 0..3 {
                assert_eq!(bits(&x.conv2d(&cached, Some(&bias), &how).relu()), plain);
            }
        }
    }
    Ok(())
}

#[test]
fn forms_of_one_value_for_plain_filters_and_for_winograd_do_not_mix() -> Result<()> {
    let (mut r, device) = (Random::fresh(), cpu(2));
    let (x, w) = (tensor(&mut r, &[1, 64, 28, 28], &device), tensor(&mut r, &[72, 64, 3, 3], &device));
    let plain = Conv::new().padding(1);
    let winograd = plain.clone().accuracy(Accuracy::Winograd);
    let expected = [&plain, &winograd].map(|how| bits(&x.conv2d(&w, None, how)));
    assert_ne!(expected[0], expected[1], "Winograd's algorithm was not chosen");
    let cached = w.copy().keep()?;
    for _ in 0..2 {
        for (how, expected) in [&plain, &winograd].into_iter().zip(&expected) {
            assert_eq!(&bits(&x.conv2d(&cached, None, how)), expected, "{how:?}");
        }
    }
    Ok(())
}

#[test]
fn a_new_value_in_the_memory_of_a_cached_one_is_not_taken_for_it() {
    let (mut r, device) = (Random::fresh(), cpu(1));
    let x = tensor(&mut r, &[64, 128], &device);
    for round in 0..12 {
        let w = tensor(&mut r, &[128, 96], &device);
        let plain = bits(&x.matmul(&w));
        let cached = (&w + 0.0f32).keep().unwrap();
        assert_eq!(bits(&x.matmul(&cached)), plain, "round {round}");
        drop(cached);
        // Most likely computed into the memory that was just given up, and cached instead.
        let again = (&w * 2.0f32).keep().unwrap();
        assert_eq!(bits(&x.matmul(&again)), bits(&(x.matmul(&w) * 2.0f32)), "round {round}");
    }
}

#[test]
fn a_launch_that_waits_in_a_queue_packs_the_value_it_was_queued_with() -> Result<()> {
    let (mut r, device) = (Random::fresh(), cpu(1));
    let x = tensor(&mut r, &[48, 64], &device);
    let (first, second) = (tensor(&mut r, &[64, 80], &device), tensor(&mut r, &[64, 80], &device));
    Tensor::eval_all(&[&x, &first, &second])?;
    let (plain_first, plain_second) = (bits(&x.matmul(&first)), bits(&x.matmul(&second)));
    let stream = device.take_stream(Priority::Normal)?;
    for _ in 0..10 {
        let gate = Event::new();
        stream.depend(&gate)?;
        let old = &first + 0.0;
        old.eval_on(&stream)?;
        let _ = old.keep()?;
        let by_old = x.matmul(&old);
        by_old.eval_on(&stream)?;
        drop(old);
        // On the same stream memory is used again at once, while the matmul above still waits.
        let new = &second + 0.0;
        new.eval_on(&stream)?;
        let _ = new.keep()?;
        let by_new = x.matmul(&new);
        by_new.eval_on(&stream)?;
        gate.signal();
        assert_eq!(bits(&by_old), plain_first);
        assert_eq!(bits(&by_new), plain_second);
        assert_eq!(bits(&x.matmul(&new)), plain_second);
    }
    device.return_stream(stream);
    Ok(())
}

#[test]
fn writing_a_buffer_ends_what_was_cached_of_it() -> Result<()> {
    let (mut r, device) = (Random::fresh(), cpu(1));
    let (old, new) = (values(&mut r, 64 * 80), values(&mut r, 64 * 80));
    let bytes = |v: &[f32]| v.iter().flat_map(|f| f.to_ne_bytes()).collect::<Vec<u8>>();
    let buffer = Buffer::from_bytes(&device, &bytes(&old), Mode::Automatic)?;
    let whole =
        || Ok::<_, millstream::Error>(Tensor::from_buffer(buffer.clone(), DType::F32, Layout::contiguous(&[64, 80])?));
    let x = tensor(&mut r, &[40, 64], &device);
    let plain = |v: &[f32]| bits(&x.matmul(&Tensor::from_shape(&[64, 80], v).to(&device)));
    buffer.keep();
    assert_eq!(bits(&x.matmul(&whole()?)), plain(&old));
    assert_eq!(buffer.packed_forms().0, 1);
    let storage = buffer.write(&device, device.stream())?.storage;
    let to = storage.host_pointer().unwrap();
    // SAFETY: the buffer has these bytes, and nothing reads it meanwhile.
    unsafe { std::ptr::copy_nonoverlapping(bytes(&new).as_ptr(), to, new.len() * 4) };
    buffer.written(&device, None);
    assert_eq!(buffer.packed_forms(), (0, 0));
    assert_eq!(bits(&x.matmul(&whole()?)), plain(&new));
    // It is another value: whoever wants it cached says so again.
    assert_eq!(buffer.packed_forms(), (0, 0));
    buffer.keep();
    assert_eq!(bits(&x.matmul(&whole()?)), plain(&new));
    assert_eq!(buffer.packed_forms().0, 1);
    Ok(())
}

#[test]
fn what_is_cached_is_counted_bounded_and_given_back() -> Result<()> {
    let (mut r, device) = (Random::fresh(), cpu(2));
    let in_use = || device.pool().stats().in_use;
    let x = tensor(&mut r, &[40, 300], &device);
    // Now it lies on that device.
    x.sum(..).eval()?;
    let before = in_use();
    let w = tensor(&mut r, &[300, 300], &device).keep()?;
    let without = in_use();
    x.matmul(&w).eval()?;
    let (forms, bytes) = w.buffer()?.packed_forms();
    assert_eq!(forms, 1);
    assert!(bytes >= 300 * 300 * 4 && in_use() >= without + bytes, "{bytes}");
    // However many parts are read, forms take a bounded share.
    for i in 0..100 {
        x.matmul(&w.slice(1, i..i + 200)).eval()?;
    }
    let (forms, bytes) = w.buffer()?.packed_forms();
    assert!(forms > 1 && bytes <= 4 * 300 * 300 * 4 + (64 << 10), "{forms} {bytes}");
    drop(w);
    assert_eq!(in_use(), before);
    // Without room for it, matmuls are computed all the same.
    let w = tensor(&mut r, &[300, 300], &device).keep()?;
    let plain = bits(&x.matmul(&w.copy()));
    device.pool().trim(0);
    device.pool().set_limit(device.pool().stats().reserved);
    let filler: Vec<Buffer> =
        std::iter::from_fn(|| Buffer::new(&device, 64 << 10, Mode::Automatic, device.stream()).ok()).collect();
    drop(filler.into_iter().take(8).collect::<Vec<_>>());
    let matmul = x.matmul(&w);
    if matmul.eval().is_ok() {
        device.pool().set_limit(usize::MAX);
        assert_eq!(bits(&matmul), plain);
    }
    Ok(())
}

#[test]
fn many_threads_share_a_cached_value() -> Result<()> {
    let (mut r, device) = (Random::fresh(), cpu(2));
    for _ in 0..5 {
        let (x, w) = (tensor(&mut r, &[60, 70], &device), tensor(&mut r, &[70, 90], &device));
        Tensor::eval_all(&[&x, &w])?;
        let plain = bits(&x.matmul(&w.copy()));
        let cached = w.keep()?;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        assert_eq!(bits(&x.matmul(&cached)), plain);
                    }
                });
            }
        });
        assert_eq!(cached.buffer()?.packed_forms().0, 1);
    }
    Ok(())
}

#[test]
fn numbers_do_not_depend_on_the_threads() {
    let mut r = Random::fresh();
    // Deep, flat, narrow, and large enough for strips.
    let shapes = [[1024, 768, 300], [64, 4096, 64], [40, 300, 700], [513, 700, 900], [196, 1152, 256]];
    for [m, k, n] in shapes {
        let (x, w) = (values(&mut r, m * k), values(&mut r, k * n));
        let matmul = |threads: usize| {
            let device = cpu(threads);
            let (x, w) =
                (Tensor::from_shape(&[m, k], &x[..]).to(&device), Tensor::from_shape(&[k, n], &w[..]).to(&device));
            [bits(&x.matmul(&w)), bits(&(x.matmul(&w) * 0.5).relu())]
        };
        let one = matmul(1);
        for threads in [2, 3, 7, 16] {
            assert!(matmul(threads) == one, "{m} x {k} x {n} with {threads} threads");
        }
    }
    let (image, filters) = (values(&mut r, 32 * 40 * 40), values(&mut r, 96 * 32 * 9));
    for (accuracy, window) in [(Accuracy::Full, 3), (Accuracy::Winograd, 3), (Accuracy::Full, 1)] {
        let conv = Conv::new().padding(window / 2).accuracy(accuracy);
        let made = |threads: usize| {
            let device = cpu(threads);
            let image = Tensor::from_shape(&[1, 32, 40, 40], &image[..]).to(&device);
            let filters = &filters[..96 * 32 * window * window];
            let filters = Tensor::from_shape(&[96, 32, window, window], filters).to(&device);
            bits(&image.conv2d(&filters, None, &conv))
        };
        let one = made(1);
        for threads in [2, 5, 16] {
            assert!(made(threads) == one, "{accuracy:?} with {threads} threads");
        }
    }
}
