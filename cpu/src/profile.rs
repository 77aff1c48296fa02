//! The CPU described as every device is described: levels of memory, rates of arithmetic, units.
//!
//! [`estimate`] asks the system and the processor; it costs some file reads and no measurement. Rates and bandwidths are
//! then guesses from the clock's frequency and what cores of the last decade move in one cycle; [`crate::measure`] puts
//! measured numbers in their place.

use millstream_core::DType;
use millstream_core::how::{DeviceKind, DeviceProfile, MemoryLevel, Transfer, Walks};
use millstream_core::what::Tolerance;

use crate::contract::packed;
use crate::memory;
use crate::simd::Isa;
use crate::topology::Topology;

/// The clock of a core, in hertz, where nothing is known of it.
const USUAL_CLOCK: f64 = 2.5e9;

/// What walks cost on cores of the last decade; the same for all of them, since sums are grouped by it.
pub(crate) const WALKS: Walks = Walks {
    byte: 0.025,
    near: 0.5,
    far: 1.5,
    line: 64,
    strip: 20.0,
    row_strip: 15.0,
    node: 6.0,
    row: 5.0,
    row_node: 4.0,
    reduction: 20.0,
    lane_reduction: 0.05,
    lane_search: 0.25,
    transposed: 0.1,
    pack: [0.1, 0.3, 0.7],
    pack_run: 8.0,
    pack_transposed: 0.2,
    image_transposed: 0.5,
    matrix: 2e3,
    border: 0.2,
    plane: 6.0,
    task: 13e3,
};

/// What one core does in a cycle, as far as the instruction set tells.
struct CoreRates {
    /// f32 lanes of a vector.
    lanes: usize,
    /// Vector registers.
    registers: usize,
    /// f32 operations in a cycle.
    flop: f64,
    /// Bytes from L1 in a cycle.
    bytes: f64,
}

fn core_of(isa: Isa) -> CoreRates {
    match isa {
        Isa::Avx512 => CoreRates { lanes: 16, registers: 32, flop: 64.0, bytes: 128.0 },
        Isa::Avx2 => CoreRates { lanes: 8, registers: 16, flop: 32.0, bytes: 64.0 },
        Isa::Neon => CoreRates { lanes: 4, registers: 32, flop: 16.0, bytes: 32.0 },
        Isa::Portable => CoreRates { lanes: 4, registers: 16, flop: 8.0, bytes: 32.0 },
    }
}

/// The profile before any measurement, for this many threads.
pub(crate) fn estimate(topology: &Topology, isa: Isa, threads: usize) -> DeviceProfile {
    describe(topology, isa, threads, frequency())
}

/// The profile that ways to compute an operation are compared by: one core with these caches and instructions, at a clock that
/// nobody measured. Sums are grouped in another way by each, so that no number may depend on what differs from run to run.
pub(crate) fn reference(topology: &Topology, isa: Isa) -> DeviceProfile {
    describe(topology, isa, 1, USUAL_CLOCK)
}

fn describe(topology: &Topology, isa: Isa, threads: usize, hertz: f64) -> DeviceProfile {
    let core = core_of(isa);
    let all = threads as f64;
    let rate = all * hertz * core.flop;
    let mut levels: Vec<MemoryLevel> = topology
        .caches
        .iter()
        .map(|cache| {
            // Each level outward gives a core about half as much; measured on cores of several makers.
            let share = 0.5f64.powi(i32::from(cache.level) - 1);
            MemoryLevel {
                name: format!("L{}", cache.level),
                bytes: cache.size,
                line: cache.line,
                ways: cache.ways,
                shared_by: cache.shared_by.clamp(1, threads),
                bandwidth: all * hertz * core.bytes * share,
            }
        })
        .collect();
    let installed = memory::installed();
    levels.push(MemoryLevel {
        name: "memory".into(),
        bytes: usize::try_from(installed).unwrap_or(usize::MAX),
        line: topology.l1().line,
        ways: 0,
        shared_by: threads,
        // One core keeps some 15 GB/s in flight; a handful of them fill the channels.
        bandwidth: 15e9 * all.min(8.0),
    });
    DeviceProfile {
        kind: DeviceKind::Cpu,
        description: model(),
        architecture: isa.name().into(),
        driver: String::new(),
        memory: installed,
        levels,
        rates: rates(rate, rate / 2.0, isa),
        matrix_rates: Vec::new(),
        warp_rates: Vec::new(),
        units: threads,
        lanes: core.lanes,
        registers: core.registers * core.lanes,
        shared_memory: 0,
        max_group: 1,
        max_bindings: usize::MAX,
        max_binding: isize::MAX as u64,
        offset_alignment: 1,
        walks: Some(WALKS),
        launch: if threads > 1 { 3e-6 } else { 2e-7 },
        groups: None,
        // Neighbours and the system take their share of a core, so that some finish their last task late.
        unhidden: 0.1,
        unequal: 0.5,
        tolerance: Tolerance::CPU,
        channels_last: true,
        batch_columns: 256,
        // Not infinite: a profile is kept as JSON, which has no such number.
        transfer: Transfer { latency: 0.0, bandwidth: f64::MAX },
        features: features(),
        measured: false,
    }
}

/// Rates by dtype, from those of f32 and f64. A complex product and its sum are counted as two operations but cost eight.
/// Products of narrow numbers have a rate of their own where the processor multiplies several at a time: as many times that of
/// f32 as its instructions do more in one go.
pub(crate) fn rates(f32_rate: f64, f64_rate: f64, isa: Isa) -> Vec<(DType, f64)> {
    use packed::MicroKernel as G;
    const BYTES: [DType; 2] = [DType::I8, DType::U8];
    const INTEGERS: [DType; 3] = [DType::I8, DType::U8, DType::I16];
    let mut rates = vec![
        (DType::F32, f32_rate),
        (DType::F64, f64_rate),
        (DType::I64, f64_rate),
        (DType::U64, f64_rate),
        (DType::C64, f32_rate / 4.0),
        (DType::C128, f64_rate / 4.0),
    ];
    let several: &[(G, &[DType], f64)] = match isa {
        // A tile instruction takes 16 cycles for 16 x 16 x 32 products, or 64 of bytes; two vector instructions one cycle for 32.
        Isa::Avx512 => &[
            (G::Amx, &[DType::BF16], 16.0),
            (G::AmxDot4 { signed: [true; 2] }, &BYTES, 32.0),
            (G::Avx512Bf16, &[DType::BF16], 2.0),
            (G::Avx512Dot4, &BYTES, 4.0),
            (G::Avx512Pairs, &INTEGERS, 2.0),
        ],
        Isa::Avx2 => &[(G::Avx2Dot4, &BYTES, 4.0), (G::Avx2Pairs, &INTEGERS, 2.0)],
        Isa::Neon => &[(G::NeonDot4, &BYTES, 4.0)],
        Isa::Portable => &[],
    };
    for (_, dtypes, more) in several.iter().filter(|(isa, ..)| isa.available()) {
        for &dtype in *dtypes {
            if rates.iter().all(|(d, _)| *d != dtype) {
                rates.push((dtype, more * f32_rate));
            }
        }
    }
    rates
}

/// The processor's name, as its maker gives it.
fn model() -> String {
    let named = cpuinfo("model name").or_else(brand);
    named.unwrap_or_else(|| format!("{} processor", std::env::consts::ARCH))
}

/// The first entry of this name in the system's list of processors.
fn cpuinfo(name: &str) -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name && !value.trim().is_empty()).then(|| value.trim().to_string())
    })
}

#[cfg(target_arch = "x86_64")]
fn brand() -> Option<String> {
    use core::arch::x86_64::__cpuid;
    if __cpuid(0x8000_0000).eax < 0x8000_0004 {
        return None;
    }
    let words = (0x8000_0002u32..=0x8000_0004).flat_map(|leaf| {
        let r = __cpuid(leaf);
        [r.eax, r.ebx, r.ecx, r.edx]
    });
    let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).take_while(|&b| b != 0).collect();
    let text = String::from_utf8_lossy(&bytes).trim().to_string();
    (!text.is_empty()).then_some(text)
}

#[cfg(not(target_arch = "x86_64"))]
fn brand() -> Option<String> {
    None
}

/// The clock in hertz: the most that the system states, else 2.5 GHz.
fn frequency() -> f64 {
    let stated = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
        .ok()
        .and_then(|text| text.trim().parse::<f64>().ok())
        .map(|kilohertz| kilohertz * 1e3);
    let stated = stated.or_else(|| cpuinfo("cpu MHz")?.parse::<f64>().ok().map(|megahertz| megahertz * 1e6));
    stated.filter(|hertz| (1e8..1e11).contains(hertz)).unwrap_or(USUAL_CLOCK)
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<String> {
    let list = [
        ("sse4.2", is_x86_feature_detected!("sse4.2")),
        ("avx", is_x86_feature_detected!("avx")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("f16c", is_x86_feature_detected!("f16c")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512bw", is_x86_feature_detected!("avx512bw")),
        ("avx512vnni", is_x86_feature_detected!("avx512vnni")),
        ("avx512bf16", is_x86_feature_detected!("avx512bf16")),
        ("avx512fp16", is_x86_feature_detected!("avx512fp16")),
    ];
    list.into_iter().filter(|(_, has)| *has).map(|(name, _)| name.to_string()).collect()
}

#[cfg(target_arch = "aarch64")]
fn features() -> Vec<String> {
    use std::arch::is_aarch64_feature_detected;
    let list = [
        ("neon", is_aarch64_feature_detected!("neon")),
        ("dotprod", is_aarch64_feature_detected!("dotprod")),
        ("i8mm", is_aarch64_feature_detected!("i8mm")),
        ("fp16", is_aarch64_feature_detected!("fp16")),
        ("bf16", is_aarch64_feature_detected!("bf16")),
        ("sve", is_aarch64_feature_detected!("sve")),
    ];
    list.into_iter().filter(|(_, has)| *has).map(|(name, _)| name.to_string()).collect()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn features() -> Vec<String> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_describes_this_machine_with_levels_that_grow_and_slow_down() {
        let profile = estimate(&Topology::detect(), Isa::detect(), 2);
        assert!(!profile.description.is_empty() && !profile.measured);
        assert_eq!(profile.units, 2);
        assert!(profile.levels.len() >= 2);
        for pair in profile.levels.windows(2) {
            assert!(pair[0].bytes < pair[1].bytes && pair[0].bandwidth >= pair[1].bandwidth, "{pair:?}");
        }
        assert!(profile.levels.iter().all(|l| (1..=2).contains(&l.shared_by)));
        assert_eq!(profile.levels.last().map(|l| l.name.as_str()), Some("memory"));
        let rates = [DType::I8, DType::I16, DType::I32, DType::I64].map(|d| profile.rate(d));
        assert!(rates.is_sorted_by(|a, b| a >= b), "{rates:?}");
        assert!(profile.rate(DType::F32) > 1e9 && profile.rate(DType::C64) < profile.rate(DType::F32));
    }
}
