//! Settings of the default runtime, alone in its process because there is one for all of it.

use millstream::{DType, DeviceKind, ErrorKind, Result, Tensor, empty_cache, runtime, set_memory_limit, set_threads};

#[test]
fn settings_count_from_before_the_first_use() -> Result<()> {
    assert!(set_threads(0).is_err());
    set_threads(3)?;
    set_memory_limit(64 << 20)?;
    let small = Tensor::ones(1 << 20, DType::F32).copy();
    small.eval()?;
    let device = small.device()?;
    if device.kind() == DeviceKind::Cpu {
        assert_eq!(device.profile().units, 3);
    }
    assert!(set_threads(2).is_err_and(|e| e.to_string().contains("before the first tensor")));
    assert!(set_memory_limit(1).is_err());

    // What is read, what there is no room for, and who holds the rest.
    let (held, line) = (Tensor::ones(2 << 20, DType::F32).copy(), line!());
    held.eval()?;
    let big = Tensor::ones(8 << 20, DType::F32).copy();
    big.eval()?;
    let error = Tensor::concat([&big + 1, small.clone()], 0).eval().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    let text = error.to_string();
    for part in [
        "needs 36.0 MiB for results",
        "36.0 MiB in 2 tensors",
        "32.0 MiB of f32 [8388608] from",
        "Most is held by what ",
        &format!("settings.rs:{line} made (8.0 MiB)"),
    ] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
    drop((big, held));
    assert!(empty_cache()? >= 32 << 20);
    assert!(device.pool().stats().reserved <= 32 << 20, "{}", device.pool().stats());
    assert_eq!(small.sum(..).item::<f32>()?, (1 << 20) as f32);

    // A runtime of its own writes its trace when the last handle is dropped.
    let file = std::env::temp_dir().join(format!("millstream-settings-{}.json", std::process::id()));
    let own = runtime().threads(1).memory_limit(1 << 20).trace(&file).build();
    let cpu = own.device("cpu")?;
    assert_eq!((cpu.profile().units, cpu.pool().limit()), (1, 1 << 20));
    Tensor::arange(0, 10).to(&cpu).copy().eval()?;
    drop((cpu, own));
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let _ = std::fs::remove_file(&file);
    assert!(text.contains("traceEvents") && text.contains("\"map"), "{text:.300}");
    assert!(runtime().threads(0).build().device("cpu").is_err_and(|e| e.kind() == ErrorKind::Argument));
    Ok(())
}
