//! What happens when a device fails: a typed error, nothing lost, and the program goes on.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use millstream::core::sim::{Faults, Sim, SimFamily};
use millstream::cpu::{CpuFamily, CpuOptions};
use millstream::{Device, ErrorKind, Result, Runtime, Tensor};

/// A runtime with a simulated accelerator, and its controls.
fn simulated() -> (Runtime, Device, Sim) {
    let sim = Sim::new();
    let family = SimFamily::new(CpuFamily::new(CpuOptions::default()), "cpu", &sim);
    let folder = std::env::temp_dir().join(format!("millstream-faults-{}-{:p}", std::process::id(), &sim));
    let runtime = millstream::runtime().family(family).cache(folder).build();
    let device = runtime.device("sim").expect("the simulated device");
    (runtime, device, sim)
}

/// Five kernels that cannot be fused into fewer.
fn program(x: &Tensor) -> Tensor {
    let y = x.matmul(x).softmax(1).matmul(x);
    (y.sum_keepdim(0) + x).layernorm(-1, 1e-5)
}

fn input(device: &Device) -> Tensor {
    let data: Vec<f32> = (0..64).map(|i| (i as f32 * 0.37).sin()).collect();
    Tensor::from_shape(&[8, 8], &data).to(device)
}

#[test]
fn the_simulated_device_computes_what_the_cpu_does() -> Result<()> {
    let (runtime, device, sim) = simulated();
    let expected = program(&input(&runtime.host()?)).to_vec::<f32>()?;
    assert_eq!(program(&input(&device)).to_vec::<f32>()?, expected);
    assert!(sim.launches() >= 3 && sim.copies() >= 2);
    assert!(sim.clock() > Duration::ZERO);
    Ok(())
}

#[test]
fn a_move_between_devices_is_in_the_profile() -> Result<()> {
    let (runtime, device, _) = simulated();
    runtime.profiler().start();
    let here = Tensor::from_slice(&[1.0f32, 2.0]).to(&runtime.host()?);
    let there = Tensor::from_slice(&[3.0f32, 4.0]).to(&device);
    let sum = &here + &there;
    assert!(sum.device()?.same(&device));
    assert_eq!(sum.to_vec::<f32>()?, [4.0, 6.0]);
    let moves: Vec<_> = runtime.profiler().records().into_iter().filter(|r| &*r.name == "move").collect();
    assert!(moves.iter().any(|m| m.note == "cpu -> sim") && moves.iter().any(|m| m.note == "sim -> cpu"), "{moves:?}");
    Ok(())
}

#[test]
fn running_out_of_memory_at_any_allocation_is_clean() -> Result<()> {
    let (_, device, sim) = simulated();
    let x = input(&device);
    let expected = program(&x).to_vec::<f32>()?;
    for n in 1.. {
        // A fresh device each time, so that the pool holds nothing.
        let (_, device, sim) = simulated();
        let x = input(&device);
        sim.set(Faults { out_of_memory_at: Some(n), ..Faults::default() });
        let y = program(&x);
        match y.to_vec::<f32>() {
            Ok(values) => {
                assert_eq!(values, expected);
                assert!(n > 1, "the first allocation must have failed");
                break;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
                assert!(error.suggestion().is_some());
                // With memory again, the same tensor gives its value.
                sim.set(Faults::default());
                assert_eq!(y.to_vec::<f32>()?, expected);
            }
        }
    }
    sim.set(Faults::default());
    Ok(())
}

#[test]
fn a_compile_error_is_returned_and_a_second_try_succeeds() -> Result<()> {
    let (runtime, device, sim) = simulated();
    let x = input(&device);
    sim.set(Faults { compile_error_at: Some(2), ..Faults::default() });
    let y = program(&x);
    let error = y.eval().unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Compile, Some(-3)));
    assert!(error.location().is_some_and(|l| l.file().ends_with("faults.rs")), "{error}");
    assert_eq!(runtime.errors().count(ErrorKind::Compile), 1);
    y.eval()?;
    Ok(())
}

#[test]
fn a_device_lost_at_any_launch_is_reported_with_the_step_and_the_host_goes_on() -> Result<()> {
    let launches = {
        let (_, device, sim) = simulated();
        let x = input(&device);
        sim.set(Faults::default());
        program(&x).eval()?;
        sim.launches()
    };
    assert!(launches >= 3);
    for n in 1..=launches {
        let (runtime, device, sim) = simulated();
        let x = input(&device);
        sim.set(Faults { lost_at_launch: Some(n), ..Faults::default() });
        let error = program(&x).eval().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
        assert!(error.chain().iter().any(|c| c.contains("on sim")), "{error}");
        assert!(device.is_lost());
        // Later work there fails at once; the host still has the input and computes.
        assert_eq!((&x + 1.0).eval().unwrap_err().kind(), ErrorKind::DeviceLost);
        let host = runtime.host()?;
        assert_eq!(program(&x.to(&host)).to_vec::<f32>()?.len(), 64);
        // Opened again, it works again.
        assert_eq!(runtime.device("sim").unwrap_err().kind(), ErrorKind::DeviceLost);
        sim.repair();
        let again = runtime.device("sim")?;
        assert!(!again.same(&device));
        program(&input(&again)).eval()?;
    }
    Ok(())
}

#[test]
fn what_lived_only_on_a_lost_device_is_gone_and_says_so() -> Result<()> {
    let (runtime, device, sim) = simulated();
    let y = &input(&device) * 2.0;
    y.eval()?;
    sim.set(Faults { lost_at_launch: Some(1), ..Faults::default() });
    assert!((&y + 1.0).eval().is_err());
    let error = y.to(&runtime.host()?).to_vec::<f32>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceLost);
    assert!(error.suggestion().is_some_and(|s| s.contains("again")));
    Ok(())
}

#[test]
fn a_failed_copy_is_an_error_and_the_next_read_succeeds() -> Result<()> {
    let (_, device, sim) = simulated();
    let y = &input(&device) + 1.0;
    y.eval()?;
    sim.set(Faults { copy_error_at: Some(1), ..Faults::default() });
    assert_eq!(y.to_vec::<f32>().unwrap_err().kind(), ErrorKind::Launch);
    assert_eq!(y.to_vec::<f32>()?.len(), 64);
    Ok(())
}

#[test]
fn a_slow_copy_is_waited_for() -> Result<()> {
    let (_, device, sim) = simulated();
    let y = &input(&device) + 1.0;
    y.eval()?;
    sim.set(Faults { copy_delay: Duration::from_millis(30), ..Faults::default() });
    let started = std::time::Instant::now();
    assert_eq!(y.to_vec::<f32>()?.len(), 64);
    assert!(started.elapsed() >= Duration::from_millis(30));
    Ok(())
}

#[test]
fn kernels_come_from_the_disk_in_a_second_run() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("millstream-kernels-{}", std::process::id()));
    let run = || -> Result<_> {
        let sim = Sim::new();
        let family = SimFamily::new(CpuFamily::new(CpuOptions::default()), "cpu", &sim);
        let runtime = millstream::runtime().family(family).cache(&folder).build();
        let device = runtime.device("sim")?;
        program(&input(&device)).eval()?;
        Ok(device.statistics().kernels)
    };
    let first = run()?;
    let second = run()?;
    // A corrupt file is ignored and written anew.
    for entry in std::fs::read_dir(&folder).expect("the cache's folder") {
        std::fs::write(entry.expect("an entry").path(), b"not a kernel").expect("written");
    }
    let third = run()?;
    let _ = std::fs::remove_dir_all(&folder);
    assert!(first.compiles >= 3 && first.disk_hits == 0, "{first:?}");
    assert!(second.compiles == 0 && second.disk_hits == first.compiles, "{second:?}");
    assert!(third.compiles == first.compiles, "{third:?}");
    Ok(())
}

/// A device that stands for the CPU and for a simulated one that claims to be far faster.
fn automatic() -> (Runtime, Device, Sim) {
    let sim = Sim::new();
    let cpu = || CpuFamily::new(CpuOptions { threads: Some(1), isa: None });
    let family = SimFamily::new(cpu(), "cpu", &sim).with_speed(1e4);
    // A folder of its own: nothing is there yet, so that everything has to be compiled.
    static FOLDERS: AtomicUsize = AtomicUsize::new(0);
    let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("millstream-auto-{}-{number}", std::process::id()));
    let runtime = Runtime::builder().family(cpu()).family(family).cache(folder).build();
    let auto = runtime.auto().expect("the device that stands for all");
    (runtime, auto, sim)
}

/// Twenty kernels, one upon the other: softmax along columns keeps two matmuls from becoming attention.
fn twenty(x: &Tensor) -> Tensor {
    (0..10).fold(x.clone(), |y, _| y.matmul(x).softmax(0))
}

#[test]
fn whatever_step_fails_another_device_goes_on() -> Result<()> {
    let (runtime, auto, sim) = automatic();
    let expected = twenty(&input(&runtime.host()?)).to_vec::<f32>()?;
    assert_eq!(twenty(&input(&auto)).to_vec::<f32>()?, expected);
    assert_eq!(sim.launches(), 20, "the simulated device was not chosen");
    assert!(runtime.profiler().warnings().is_empty());

    type Fault = fn(u64) -> Faults;
    let faults: [Fault; 3] = [
        |n| Faults { lost_at_launch: Some(n), ..Faults::default() },
        |n| Faults { compile_error_at: Some(n), ..Faults::default() },
        |n| Faults { out_of_memory_at: Some(n), ..Faults::default() },
    ];
    for (kind, fault) in faults.into_iter().enumerate() {
        let mut failed = 0;
        for n in 1..=40 {
            let (runtime, auto, sim) = automatic();
            let x = input(&auto);
            sim.set(fault(n));
            assert_eq!(twenty(&x).to_vec::<f32>()?, expected, "fault {kind} at {n}");
            let warnings = runtime.profiler().warnings();
            if warnings.is_empty() {
                break;
            }
            assert!(warnings[0].text.contains("sim failed"), "{warnings:?}");
            failed += 1;
        }
        // A launch for each step; two kernels; one piece of memory for all.
        assert!(failed >= [20, 2, 1][kind], "fault {kind} showed {failed} times");
        assert!(failed < 40);
    }
    Ok(())
}

#[test]
fn what_died_with_a_device_is_a_clear_error() -> Result<()> {
    let (runtime, auto, sim) = automatic();
    let y = twenty(&input(&auto));
    y.eval()?;
    assert_eq!(sim.launches(), 20);
    sim.set(Faults { lost_at_launch: Some(1), ..Faults::default() });
    let error = (&y * 2.0).to_vec::<f32>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    assert!(error.suggestion().is_some());
    assert!(!runtime.profiler().warnings().is_empty());
    // What still lives can be computed from again.
    assert_eq!(twenty(&input(&auto)).to_vec::<f32>()?.len(), 64);
    Ok(())
}

/// The text of a profile with another number in each field of this name.
fn forged(text: &str, field: &str, value: &str) -> String {
    let name = format!("\"{field}\":");
    let (first, others) = text.split_once(&name).expect("the field");
    others.split(&name).fold(first.to_string(), |done, rest| {
        let end = rest.find([',', '}']).expect("its end");
        format!("{done}{name}{value}{}", &rest[end..])
    })
}

/// The key under which the profile of a device lies in the cache.
fn key(profile: &millstream::DeviceProfile) -> Vec<u8> {
    let (p, version) = (profile, env!("CARGO_PKG_VERSION"));
    let identity = format!("sim/{}/{}/{}/{}", p.description, p.driver, p.architecture, p.units);
    format!("profile 2 {version} {identity}").into_bytes()
}

#[test]
fn a_forged_profile_changes_no_fact() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("millstream-forged-{}", std::process::id()));
    let open = || {
        let family = SimFamily::new(CpuFamily::new(CpuOptions::default()), "cpu", &Sim::new());
        millstream::runtime().family(family).cache(&folder).build()
    };
    let runtime = open();
    let device = runtime.device("sim")?;
    let honest = device.measure()?;
    let text = runtime.disk().get(&key(&honest)).expect("the stored profile");
    let mut text = String::from_utf8(text).expect("text");
    for (field, value) in [
        ("max_binding", "64"),
        ("max_bindings", "0"),
        ("offset_alignment", "4294967296"),
        ("memory", "1"),
        ("units", "0"),
        ("lanes", "0"),
        ("max_group", "0"),
        ("kind", "\"webgpu\""),
        ("launch", "-1.0"),
    ] {
        text = forged(&text, field, value);
    }
    assert!(runtime.disk().put(&key(&honest), text.as_bytes()));
    let again = open();
    let device = again.device("sim")?;
    let read = device.profile();
    let _ = std::fs::remove_dir_all(&folder);
    assert!(read.measured, "the forged file was not found");
    assert_eq!(*read, millstream::core::DeviceProfile { launch: read.launch, ..(*honest).clone() });
    assert!(read.launch >= 0.0);
    assert_eq!(program(&input(&device)).to_vec::<f32>()?, program(&input(&again.host()?)).to_vec::<f32>()?);
    Ok(())
}

#[test]
fn stored_rates_at_the_ends_of_their_range_make_nothing_wrong() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("millstream-rates-{}", std::process::id()));
    let open = || {
        let family = SimFamily::new(CpuFamily::new(CpuOptions::default()), "cpu", &Sim::new());
        millstream::runtime().family(family).cache(&folder).build()
    };
    let expected = program(&input(&open().host()?)).to_vec::<f32>()?;
    for rate in ["5e-324", "1e-300", "1.0", "1e300", "1.7e308"] {
        let runtime = open();
        let honest = runtime.device("sim")?.measure_again()?;
        let text = runtime.disk().get(&key(&honest)).expect("the stored profile");
        let mut text = String::from_utf8(text).expect("text");
        for field in ["launch", "latency", "bandwidth"] {
            text = forged(&text, field, rate);
        }
        let (before, rates) = text.split_once("\"rates\":[").expect("the rates");
        let (_, after) = rates.split_once("]]").expect("their end");
        let text = format!("{before}\"rates\":[[\"f32\",{rate}]]{after}");
        assert!(runtime.disk().put(&key(&honest), text.as_bytes()));
        let again = open();
        let device = again.device("sim")?;
        let read = device.profile();
        let expected_rate = rate.parse::<f64>().expect("a number");
        assert_eq!((read.launch, read.rate(millstream::DType::F32)), (expected_rate, expected_rate), "not read");
        for device in [device, again.auto()?] {
            // Another choice of kernels rounds differently.
            let found = program(&input(&device)).to_vec::<f32>()?;
            let near = found.iter().zip(&expected).all(|(f, e)| (f - e).abs() < 1e-5);
            assert!(near && found.len() == expected.len(), "rates of {rate} on {}: {found:?}", device.name());
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    Ok(())
}

#[test]
fn a_cache_that_fails_says_so_once_in_the_profile() -> Result<()> {
    let file = std::env::temp_dir().join(format!("millstream-no-folder-{}", std::process::id()));
    std::fs::write(&file, b"a file where the folder should be").expect("written");
    let family = SimFamily::new(CpuFamily::new(CpuOptions::default()), "cpu", &Sim::new());
    let runtime = millstream::runtime().family(family).cache(&file).build();
    let device = runtime.device("sim")?;
    for _ in 0..3 {
        program(&input(&device)).eval()?;
    }
    let _ = std::fs::remove_file(&file);
    let warnings = runtime.profiler().warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].text.starts_with("disk cache: ") && warnings[0].count == 1, "{warnings:?}");
    Ok(())
}
