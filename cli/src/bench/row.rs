//! One line of figures: as a table's row and as a JSON object.

use millstream::{DType, Device, DeviceProfile};
use serde::{Deserialize, Serialize};

use super::compute::Shown;
use super::timing::Timing;
use crate::table::{Align, Table, short, short_or_dash};

/// A share of the limit above which the limit is measured again, and above which the share is no fact.
pub const BEATEN: f64 = 1.05;

/// What was measured of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The case's name.
    pub case: String,
    /// The device.
    pub device: String,
    /// The host's threads.
    pub threads: usize,
    /// The median time in milliseconds.
    pub ms: f64,
    /// Half of the distance between the quartiles of the times, in milliseconds.
    #[serde(default)]
    pub spread_ms: f64,
    /// Arithmetic a second, in 10^9.
    #[serde(default)]
    pub gflops: Option<f64>,
    /// Bytes a second, in 10^9.
    #[serde(default)]
    pub gbps: Option<f64>,
    /// The least time that the device's measured limits allow, over the time taken.
    #[serde(default)]
    pub limit_fraction: Option<f64>,
    /// The largest error of a sample, over the largest value.
    #[serde(default)]
    pub max_err: Option<f64>,
    /// On devices that queue, the host's part in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_us: Option<f64>,
    /// Whose clock the time is of, where it could be either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Clock>,
    /// For events, the CPU time in milliseconds of a wait of 200 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<f64>,
    /// The ideas that were switched off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
}

/// Whose clock a time is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// The host's, from the first call to the end of the wait.
    Host,
    /// The device's, between two events around the work.
    Device,
}

/// What a case takes at least.
pub struct Rates {
    /// Arithmetic.
    pub flop: u64,
    /// Bytes.
    pub bytes: u64,
    /// Which of them is said.
    pub shown: Shown,
    /// In which dtype.
    pub dtype: DType,
}

/// The least seconds that a device's limits allow: the larger of moving the bytes through the level they live in and doing
/// the arithmetic.
fn floor(rates: &Rates, profile: &DeviceProfile) -> f64 {
    let moving = profile.level_for(rates.bytes).map_or(0.0, |level| rates.bytes as f64 / level.bandwidth);
    let rate = match rates.shown {
        // What is counted in arithmetic may be done by matrix units.
        Shown::Flop => profile.peak(rates.dtype),
        Shown::Bytes => profile.rate(rates.dtype),
    };
    moving.max(rates.flop as f64 / rate)
}

impl Row {
    /// A time alone.
    pub fn new(case: &str, device: &Device, timing: Timing) -> Row {
        Row {
            case: case.to_string(),
            device: device.name().to_string(),
            threads: device.host().profile().units,
            ms: timing.ms,
            spread_ms: timing.spread,
            gflops: None,
            gbps: None,
            limit_fraction: None,
            max_err: None,
            host_us: None,
            clock: None,
            cpu_ms: None,
            without: Vec::new(),
        }
    }

    /// Adds what the time means for a case that takes so much.
    pub fn with_rates(mut self, rates: &Rates, profile: &DeviceProfile) -> Row {
        let a_second = |amount: u64| Some(amount as f64 / self.ms.max(1e-9) / 1e6);
        match rates.shown {
            Shown::Flop => self.gflops = a_second(rates.flop),
            Shown::Bytes => self.gbps = a_second(rates.bytes),
        }
        self.limit_fraction = Some(floor(rates, profile) / (self.ms.max(1e-9) * 1e-3));
        self
    }

    /// Whether it was faster than the limit by more than a measurement varies: then the limit is not known, or not this case's.
    pub fn beats_limit(&self) -> bool {
        self.limit_fraction > Some(BEATEN)
    }

    /// The row of a table.
    pub fn cells(&self) -> Vec<String> {
        let beaten = if self.beats_limit() { "above the measured limit: another limit holds here" } else { "" };
        let share = |f: f64| if self.beats_limit() { "?".into() } else { format!("{:.0} %", f * 100.0) };
        vec![
            self.device.clone(),
            self.case.clone(),
            short(self.ms),
            short_or_dash(self.gflops),
            short_or_dash(self.gbps),
            self.limit_fraction.map_or_else(|| "-".into(), share),
            self.max_err.map_or_else(|| "-".into(), |e| format!("{e:.1e}")),
            self.cpu_ms.map_or_else(|| beaten.into(), |ms| format!("{} ms of CPU time in a wait of 200 ms", short(ms))),
        ]
    }
}

/// The table of rows whose longest case has so many letters.
pub fn table(width: usize) -> Table {
    Table::new(&[
        ("device", Align::Left, 6),
        ("case", Align::Left, width),
        ("ms", Align::Right, 9),
        ("GFLOP/s", Align::Right, 8),
        ("GB/s", Align::Right, 8),
        ("% of limit", Align::Right, 0),
        ("error", Align::Right, 8),
        ("", Align::Left, 0),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream::DeviceKind;
    use millstream::core::how::{MemoryLevel, Transfer};

    fn profile() -> DeviceProfile {
        let level = |name: &str, bytes, bandwidth| MemoryLevel {
            name: name.into(),
            bytes,
            line: 64,
            ways: 8,
            shared_by: 1,
            bandwidth,
        };
        DeviceProfile {
            kind: DeviceKind::Cpu,
            description: "test".into(),
            architecture: "none".into(),
            driver: String::new(),
            memory: 1 << 30,
            levels: vec![level("L1", 1 << 10, 100e9), level("memory", 1 << 30, 10e9)],
            rates: vec![(DType::F32, 50e9)],
            matrix_rates: Vec::new(),
            units: 1,
            lanes: 8,
            registers: 16,
            shared_memory: 0,
            max_group: 1,
            max_bindings: 64,
            max_binding: u64::MAX,
            offset_alignment: 1,
            walks: None,
            launch: 0.0,
            groups: None,
            unhidden: 0.0,
            unequal: 0.0,
            tolerance: millstream::core::what::Tolerance::CPU,
            channels_last: false,
            transfer: Transfer { latency: 0.0, bandwidth: f64::INFINITY },
            features: vec![],
            measured: true,
        }
    }

    #[test]
    fn the_floor_is_the_limit_that_binds() {
        let rates = |flop, bytes| Rates { flop, bytes, shown: Shown::Bytes, dtype: DType::F32 };
        assert_eq!(floor(&rates(0, 1000), &profile()), 1000.0 / 100e9);
        assert_eq!(floor(&rates(0, 1_000_000), &profile()), 1e6 / 10e9);
        assert_eq!(floor(&rates(1_000_000_000, 1000), &profile()), 1e9 / 50e9);
    }

    fn example() -> Row {
        Row {
            case: "x_call".into(),
            device: "cpu".into(),
            threads: 2,
            ms: 0.5,
            spread_ms: 0.01,
            gflops: None,
            gbps: Some(3.0),
            limit_fraction: None,
            max_err: None,
            host_us: None,
            clock: None,
            cpu_ms: None,
            without: Vec::new(),
        }
    }

    #[test]
    fn what_beats_its_limit_is_flagged() {
        let row = |limit_fraction| Row { limit_fraction, ..example() };
        assert!(!row(None).beats_limit() && !row(Some(1.04)).beats_limit() && row(Some(1.06)).beats_limit());
        assert!(row(Some(1.04)).cells().contains(&"104 %".into()));
        let flagged = row(Some(11.0)).cells();
        assert!(flagged.contains(&"?".into()) && flagged.iter().any(|c| c.starts_with("above the measured limit")));
    }

    #[test]
    fn rows_survive_json_and_missing_figures_are_null() {
        let row = example();
        let text = serde_json::to_string(&row).unwrap();
        assert!(text.contains("\"gflops\":null") && !text.contains("host_us"), "{text}");
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row);
    }
}
