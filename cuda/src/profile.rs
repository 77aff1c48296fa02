//! A device's properties as the profile that the cost model reads. Rates are estimates until they are measured.

use millstream_codegen::{Dialect, Target};
use millstream_core::DType;
use millstream_core::how::{DeviceKind, DeviceProfile, MemoryLevel, Transfer};
use millstream_core::what::Tolerance;

use crate::properties::CudaProperties;
use crate::sys;

/// Seconds that a launch takes beyond its work, before anybody has measured it.
const LAUNCH: f64 = 3e-6;

/// Seconds that a launch takes which needs what the one before it wrote, as seen on an H200: it is set up meanwhile.
const DEPENDENT_LAUNCH: f64 = 2.5e-6;

/// The most buffers of one kernel: all its parameters together have 4 KiB, of which the words take a part.
const MAX_BUFFERS: usize = 64;

/// Static shared memory of one group, which every architecture has. Kernels ask for no more.
const STATIC_SHARED: usize = 48 << 10;

/// The profile as far as the properties tell.
pub(crate) fn estimate(p: &CudaProperties) -> DeviceProfile {
    let clock = p.clock as f64;
    let units = p.multiprocessors.max(1);
    let f32_rate = units as f64 * p.lanes() as f64 * 2.0 * clock;
    let memory = p.bandwidth().max(1e9);
    let mut features = p.features();
    features.push("pinned".into());
    features.push(if sys::nvrtc::is_there() { "nvrtc".into() } else { "no-nvrtc".into() });
    features.push(if sys::cublaslt::is_there() { "cublaslt".into() } else { "no-cublaslt".into() });
    DeviceProfile {
        kind: DeviceKind::Cuda,
        description: p.name.clone(),
        architecture: p.architecture(),
        driver: format!("CUDA {}.{}", p.driver.0, p.driver.1),
        memory: p.memory,
        levels: vec![
            MemoryLevel {
                name: "shared".into(),
                bytes: p.shared_multiprocessor.max(STATIC_SHARED),
                line: 128,
                ways: 0,
                shared_by: 1,
                // 32 banks of 4 bytes a clock.
                bandwidth: (units as f64 * 128.0 * clock).max(3.0 * memory),
            },
            MemoryLevel {
                name: "L2".into(),
                bytes: p.l2.max(1 << 20),
                line: 128,
                ways: 0,
                shared_by: units,
                // Measured ones are 2 to 4 times the memory's.
                bandwidth: 2.0 * memory,
            },
            MemoryLevel {
                name: "memory".into(),
                bytes: usize::try_from(p.memory).unwrap_or(usize::MAX),
                line: 128,
                ways: 0,
                shared_by: units,
                // What a good kernel reaches of the memory's own rate.
                bandwidth: 0.9 * memory,
            },
        ],
        rates: rates(p, f32_rate, f32_rate * p.double_lanes() as f64 / p.lanes() as f64),
        matrix_rates: Vec::new(),
        warp_rates: Vec::new(),
        units,
        lanes: p.warp,
        registers: p.registers.1,
        shared_memory: STATIC_SHARED,
        max_group: p.max_group,
        max_bindings: MAX_BUFFERS,
        max_binding: p.memory,
        offset_alignment: 1,
        walks: None,
        launch: LAUNCH,
        groups: Some(millstream_codegen::groups(DEPENDENT_LAUNCH)),
        unhidden: 0.0,
        unequal: 0.0,
        tolerance: Tolerance::GPU,
        channels_last: false,
        batch_columns: 256,
        transfer: Transfer { latency: 8e-6, bandwidth: if p.integrated { 0.5 * memory } else { 20e9 } },
        features,
        measured: false,
    }
}

/// The rates of a profile from those of f32 and f64.
pub(crate) fn rates(p: &CudaProperties, f32_rate: f64, f64_rate: f64) -> Vec<(DType, f64)> {
    let integers = f32_rate * p.integer_lanes() as f64 / p.lanes() as f64;
    let wide = integers / 4.0;
    vec![
        (DType::F32, f32_rate),
        (DType::F64, f64_rate),
        (DType::I32, integers),
        (DType::U32, integers),
        (DType::I64, wide),
        (DType::U64, wide),
    ]
}

/// What kernels are written for.
pub(crate) fn target(p: &CudaProperties) -> Target {
    Target {
        dialect: Dialect::Cuda,
        float64: true,
        int64: true,
        max_group: p.max_group.min(1024) as u32,
        // The least of the three axes, so that it holds for each.
        max_grid: 65_535,
        shared_memory: STATIC_SHARED,
        max_buffers: MAX_BUFFERS,
        units: p.multiprocessors.max(1),
        matrices: (p.capability >= (8, 0)).then_some(32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_h200_is_estimated_near_its_data_sheet() {
        let p = CudaProperties {
            name: "NVIDIA H200".into(),
            capability: (9, 0),
            memory: 141 << 30,
            multiprocessors: 132,
            warp: 32,
            max_group: 1024,
            l2: 60 << 20,
            clock: 1_980_000_000,
            memory_clock: 3_201_000_000,
            memory_bus: 6144,
            registers: (65_536, 65_536),
            shared_multiprocessor: 228 << 10,
            ..CudaProperties::default()
        };
        let profile = estimate(&p);
        assert!((6.5e13..6.8e13).contains(&profile.rate(DType::F32)), "{}", profile.rate(DType::F32));
        assert!((4e12..5e12).contains(&profile.main_memory().unwrap().bandwidth));
        assert!(profile.levels.windows(2).all(|l| l[0].bandwidth > l[1].bandwidth));
        assert_eq!((profile.architecture.as_str(), profile.units, profile.lanes), ("sm_90", 132, 32));
        assert!(!profile.measured);
        assert_eq!(target(&p).units, 132);
    }
}
