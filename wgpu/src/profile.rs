//! What a device is and can do, as far as its driver says; the rest is guessed from what kind of device it is.

use millstream_core::DType;
use millstream_core::how::{DeviceProfile, MemoryLevel, Transfer};
use millstream_core::what::Tolerance;

use crate::family::Api;
use crate::gpu::Gpu;
use crate::memory::largest;

/// The most buffers that we give a kernel. Some drivers name a number without meaning; more than this would be slow.
const BINDINGS: u32 = 64;

/// Seconds that a launch takes which needs what the one before it wrote, as seen on an H200 through Vulkan: the device first comes to rest.
const DEPENDENT_LAUNCH: f64 = 10e-6;

/// Guesses for one kind of device, until it is measured.
struct Guess {
    units: usize,
    memory: u64,
    bandwidth: f64,
    rate: f64,
    l2: usize,
    transfer: f64,
    launch: f64,
}

fn guess(kind: wgpu::DeviceType) -> Guess {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    match kind {
        wgpu::DeviceType::DiscreteGpu => Guess {
            units: 64,
            memory: 8 << 30,
            bandwidth: 500e9,
            rate: 10e12,
            l2: 8 << 20,
            transfer: 10e9,
            launch: 5e-6,
        },
        wgpu::DeviceType::Cpu => Guess {
            units: cores,
            memory: 4 << 30,
            bandwidth: 10e9,
            rate: 10e9 * cores as f64,
            l2: 1 << 20,
            transfer: 5e9,
            launch: 20e-6,
        },
        _ => Guess {
            units: 16,
            memory: 4 << 30,
            bandwidth: 50e9,
            rate: 1e12,
            l2: 1 << 20,
            transfer: 10e9,
            launch: 10e-6,
        },
    }
}

/// The profile before any measurement. `reduced` says why the device has less than its adapter shows.
pub(crate) fn estimate(gpu: &Gpu, adapter: &wgpu::Adapter, reduced: Option<&str>) -> DeviceProfile {
    let info = adapter.get_info();
    let limits = &gpu.limits;
    let mut guess = guess(info.device_type);
    let (memory, units) = facts(adapter);
    guess.memory = memory.unwrap_or(guess.memory);
    if let Some(units) = units {
        // So much more arithmetic, and about so much more memory to feed it.
        let more = units as f64 / guess.units as f64;
        (guess.units, guess.rate, guess.bandwidth) = (units, guess.rate * more, guess.bandwidth * more);
        guess.l2 = units * (256 << 10);
    }
    let lanes = info.subgroup_min_size.max(1) as usize;
    let shared = limits.max_compute_workgroup_storage_size as usize;
    let has = |f: wgpu::Features| gpu.features.contains(f);
    let (f64s, int64) = (has(wgpu::Features::SHADER_F64), has(wgpu::Features::SHADER_INT64));
    let mut features = Vec::new();
    for (name, there) in [
        ("f16", has(wgpu::Features::SHADER_F16)),
        ("f64", f64s),
        ("int64", int64),
        ("matrices", has(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX)),
        ("subgroups", has(wgpu::Features::SUBGROUP)),
        ("timestamps", gpu.timer.is_some()),
        ("immediates", has(wgpu::Features::IMMEDIATES)),
        ("pipeline-cache", has(wgpu::Features::PIPELINE_CACHE)),
        ("software", info.device_type == wgpu::DeviceType::Cpu),
        ("reduced", reduced.is_some()),
    ] {
        if there {
            features.push(name.to_string());
        }
    }
    let mut description = info.name.clone();
    if let Some(why) = reduced {
        let why = why.lines().next().unwrap_or_default();
        description = format!("{description} (opened with less than it shows: {why})");
    }
    let caps = std::env::var("GALLIUM_OVERRIDE_CPU_CAPS").ok();
    if let Some(what) = known_wrong(gpu.api, &info.name, wide_vectors(), caps.as_deref()) {
        description = format!("{description} ({what})");
    }
    let mut rates = vec![(DType::F32, guess.rate), (DType::I32, guess.rate / 2.0)];
    if f64s {
        rates.push((DType::F64, guess.rate / 16.0));
    }
    if int64 {
        rates.push((DType::I64, guess.rate / 8.0));
    }
    DeviceProfile {
        kind: gpu.api.kind(),
        description,
        architecture: format!("{:04x}:{:04x}", info.vendor, info.device),
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_string(),
        memory: guess.memory,
        levels: vec![
            level("shared", shared, 1, guess.bandwidth * 10.0),
            level("L2", guess.l2, guess.units, guess.bandwidth * 3.0),
            level("memory", usize::try_from(guess.memory).unwrap_or(usize::MAX), guess.units, guess.bandwidth),
        ],
        rates,
        matrix_rates: Vec::new(),
        warp_rates: Vec::new(),
        units: guess.units,
        lanes,
        registers: 65536,
        shared_memory: shared,
        max_group: limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x) as usize,
        max_bindings: limits.max_storage_buffers_per_shader_stage.min(limits.max_bindings_per_bind_group).min(BINDINGS)
            as usize,
        max_binding: largest(limits),
        offset_alignment: limits.min_storage_buffer_offset_alignment.max(256) as usize,
        walks: None,
        launch: guess.launch,
        groups: Some(millstream_codegen::groups(DEPENDENT_LAUNCH)),
        unhidden: 0.0,
        unequal: 0.0,
        tolerance: Tolerance::LOOSE,
        channels_last: false,
        batch_columns: 256,
        transfer: Transfer { latency: 2.0 * guess.launch, bandwidth: guess.transfer },
        features,
        measured: false,
    }
}

/// What is known to be wrong with a driver, in words.
///
/// lavapipe with LLVM 15 gives wrong numbers in the tail of a vector where the processor has AVX-512, as in gelu of seven elements. Later
/// versions were not tried.
fn known_wrong(api: Api, name: &str, avx512: bool, caps: Option<&str>) -> Option<&'static str> {
    let version = name.strip_prefix("llvmpipe (LLVM ")?.split('.').next()?.parse::<u32>().ok()?;
    let affected = api == Api::Vulkan && version <= 15 && avx512 && caps.is_none();
    affected.then_some("its driver is known to compute wrong numbers with AVX-512; set GALLIUM_OVERRIDE_CPU_CAPS=avx")
}

fn wide_vectors() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::is_x86_feature_detected!("avx512f");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

fn level(name: &str, bytes: usize, shared_by: usize, bandwidth: f64) -> MemoryLevel {
    MemoryLevel { name: name.into(), bytes, line: 64, ways: 0, shared_by, bandwidth }
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))]
fn facts(adapter: &wgpu::Adapter) -> (Option<u64>, Option<usize>) {
    crate::vulkan::facts(adapter).map_or((None, None), |facts| (facts.memory, facts.units))
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows)))]
fn facts(_adapter: &wgpu::Adapter) -> (Option<u64>, Option<usize>) {
    (None, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_is_known_to_be_wrong_says_so() {
        let name = "llvmpipe (LLVM 15.0.6, 256 bits)";
        let what = known_wrong(Api::Vulkan, name, true, None);
        assert!(what.is_some_and(|w| w.contains("GALLIUM_OVERRIDE_CPU_CAPS")));
        assert_eq!(known_wrong(Api::Vulkan, name, true, Some("avx")), None);
        assert_eq!(known_wrong(Api::Vulkan, name, false, None), None);
        assert_eq!(known_wrong(Api::Gl, name, true, None), None);
        assert_eq!(known_wrong(Api::Vulkan, "NVIDIA H200", true, None), None);
    }
}
