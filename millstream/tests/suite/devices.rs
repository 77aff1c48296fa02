//! Every device of this machine computes the same programs, alone and together.

use crate::common::{Random, devices, devices_of, seed};
use millstream::core::profiler::RecordKind;
use millstream::{DType, Device, Devices, ErrorKind, Tensor};

/// A program of some steps over square matrices, drawn from the numbers. Values stay near 1, so that devices can be compared.
fn program(numbers: &mut Random, device: &Device) -> Tensor {
    let n = 3 + numbers.below(30);
    let data = |numbers: &mut Random| {
        let values: Vec<f32> = (0..n * n).map(|_| numbers.unit() as f32).collect();
        Tensor::from_shape(&[n, n], &values).to(device)
    };
    let mut live = vec![data(numbers), data(numbers)];
    for _ in 0..4 + numbers.below(8) {
        let a = live[numbers.below(live.len())].clone();
        let b = live[numbers.below(live.len())].clone();
        let next = match numbers.below(14) {
            0 => &a + &b,
            1 => &a * &b,
            2 => (&a - &b).tanh(),
            3 => a.softmax(numbers.below(2) as isize),
            4 => a.matmul(&b) * (1.0 / n as f32),
            5 => a.transpose(),
            6 => a.layernorm(-1, 1e-3),
            7 => (&a * 0.5).exp() * 0.5,
            8 => &a - a.mean_keepdim(numbers.below(2) as isize),
            9 => a.abs().sqrt() - a.sigmoid(),
            10 => (&a * &b).max_keepdim(1) + &b,
            11 => a.flip(0),
            12 => a.sin() * b.cos(),
            _ => a.lt(&b).where_(&a, &b),
        };
        live.push(next);
    }
    live.pop().unwrap()
}

#[test]
fn random_programs_agree_on_all_devices() {
    let seed = seed();
    let devices = devices();
    assert!(
        devices.len() >= 2,
        "this compares devices; a driver in software will do (Debian: mesa-vulkan-drivers libvulkan1)"
    );
    let host = devices[0].clone();
    for case in 0..40 {
        let expected = program(&mut Random::new(seed + case), &host).to_vec::<f32>().unwrap();
        for device in &devices[1..] {
            let got = program(&mut Random::new(seed + case), device).to_vec::<f32>().unwrap();
            assert_eq!(got.len(), expected.len());
            for (i, (g, e)) in got.iter().zip(&expected).enumerate() {
                let close = (g - e).abs() <= 2e-3 * (1.0 + e.abs());
                assert!(
                    close,
                    "{} element {i}: {g} instead of {e} (MILLSTREAM_SEED={seed}, case {case})",
                    device.name()
                );
            }
        }
    }
}

#[test]
fn tensors_of_several_devices_meet_in_one_expression_and_the_moves_are_seen() {
    let runtime = millstream::runtime().build();
    for device in devices_of(&runtime).into_iter().filter(|d| !d.is_host()) {
        let here = Tensor::from_slice(&[1.0f32, 2.0, 3.0]).to(&runtime.host().unwrap());
        let there = (Tensor::from_slice(&[10.0f32, 20.0, 30.0]).to(&device) * 2.0).exp().log();
        there.eval().unwrap();
        runtime.profiler().start();
        let sum = &here + &there;
        assert!(sum.device().unwrap().same(&device));
        let values = sum.to_vec::<f32>().unwrap();
        let moves: Vec<_> =
            runtime.profiler().records().into_iter().filter(|r| r.kind == RecordKind::Move).map(|r| r.note).collect();
        for (got, want) in values.iter().zip([21.0, 42.0, 63.0]) {
            assert!((got - want).abs() < 1e-3, "{got} instead of {want}");
        }
        let name = device.name();
        assert!(moves.iter().any(|m| *m == format!("cpu -> {name}")), "{moves:?}");
        assert!(moves.iter().any(|m| *m == format!("{name} -> cpu")), "{moves:?}");
    }
}

#[test]
fn what_a_device_cannot_compute_goes_to_the_host_and_the_profile_says_so() {
    let runtime = millstream::runtime().build();
    for device in devices_of(&runtime) {
        let lacks = !device.is_host() && !device.profile().features.iter().any(|f| f == "f64");
        let x = Tensor::from_slice(&[1.0f32, 4.0, 9.0]).to(&device);
        runtime.profiler().start();
        let y = (x.sqrt().cast(DType::F64) * 0.5).cast(DType::F32).exp();
        let got = y.to_vec::<f32>().unwrap();
        for (g, e) in got.iter().zip([0.5f32.exp(), 1f32.exp(), 1.5f32.exp()]) {
            assert!((g - e).abs() < 1e-5, "{}: {g} instead of {e}", device.name());
        }
        let placed = |r: &millstream::core::profiler::Record| {
            r.kind == RecordKind::Placed && r.note.contains(device.name()) && r.note.contains("f64")
        };
        assert_eq!(runtime.profiler().records().iter().any(placed), lacks, "{}", device.name());
    }
}

#[test]
fn the_automatic_device_keeps_small_work_on_the_host() {
    let auto = Device::auto().unwrap();
    let x = Tensor::from_slice(&[1.0f32; 100]).to(&auto);
    let y = &x + &x;
    assert_eq!(y.to_vec::<f32>().unwrap(), [2.0; 100]);
    assert!(y.buffer().unwrap().device().is_host(), "100 numbers are added where they are");
    let best = Device::best().unwrap();
    assert!(auto.candidates().contains(&best));
}

#[test]
fn a_named_device_is_strict() {
    let error = Device::named("cuda:77").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoDevice, "{error}");
    assert_eq!(Device::named("webgl2").unwrap_err().kind(), ErrorKind::NoDevice);
}
