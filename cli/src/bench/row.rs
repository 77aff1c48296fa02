//! One line of figures: as a table's row and as a JSON object.

use millstream::{DType, Device, DeviceProfile};
use serde::{Deserialize, Serialize};

use super::compute::Shown;
use super::timing::Timing;
use crate::table::{Align, Table, short, time};

/// A share of the limit above which the limit is measured again, and above which the row is suspect.
const BEATEN: f64 = 1.05;

/// What was measured of one case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Whether it beats that limit by more than measuring explains: the limit or the time is wrong.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspect: bool,
    /// Which step ran elsewhere than on the device, where and why. Such a case has no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<String>,
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
    /// For a stream of items, the share of the time in which the device computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
    /// For a stream of items, how many were in flight at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<usize>,
    /// For a stream of items, what it waited for most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// The ideas that were switched off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
}

fn is_false(flag: &bool) -> bool {
    !flag
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
    /// Arithmetic of the definition.
    pub flop: u64,
    /// The algorithms allowed may take as little as one part in this many of it.
    pub saving: u64,
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
    moving.max(rates.flop as f64 / rates.saving as f64 / rate)
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
            ..Row::default()
        }
    }

    /// Adds what the time means for a case that takes so much.
    pub fn with_rates(mut self, rates: &Rates, profile: &DeviceProfile) -> Row {
        let a_second = |amount: u64| Some(amount as f64 / self.ms.max(1e-9) / 1e6);
        match rates.shown {
            Shown::Flop => self.gflops = a_second(rates.flop),
            Shown::Bytes => self.gbps = a_second(rates.bytes),
        }
        let fraction = floor(rates, profile) / (self.ms.max(1e-9) * 1e-3);
        (self.limit_fraction, self.suspect) = (Some(fraction), fraction > BEATEN);
        self
    }

    /// The same for a case of which a step ran elsewhere: what the device could do says nothing about it.
    pub fn placed(self, reason: String) -> Row {
        Row { limit_fraction: None, suspect: false, placed: Some(reason), ..self }
    }

    /// What is to be said beside the figures.
    fn remark(&self) -> String {
        if let Some(reason) = &self.placed {
            return reason.clone();
        }
        if self.suspect {
            return "suspect: faster than the measured limit".into();
        }
        if let (Some(utilisation), Some(in_flight)) = (self.utilisation, self.in_flight) {
            let waits = self.waits_for.as_deref().unwrap_or("nothing");
            return format!("device {:.0} % busy, {in_flight} in flight, waits for: {waits}", 100.0 * utilisation);
        }
        self.cpu_ms.map_or_else(String::new, |ms| format!("{} of CPU time in a wait of 200 ms", time(ms)))
    }

    /// The row of a table.
    pub fn cells(&self) -> Vec<String> {
        // No figure of a suspect row stands as a fact.
        let mark = if self.suspect { "?" } else { "" };
        let rate = |value: Option<f64>| value.map_or_else(|| "-".into(), |v| short(v) + mark);
        let share = |f: f64| if self.suspect { mark.into() } else { format!("{:.0} %", f * 100.0) };
        vec![
            self.device.clone(),
            self.case.clone(),
            time(self.ms) + mark,
            rate(self.gflops),
            rate(self.gbps),
            self.limit_fraction.map_or_else(|| "-".into(), share),
            self.max_err.map_or_else(|| "-".into(), |e| format!("{e:.1e}")),
            self.remark(),
        ]
    }
}

/// The table of rows whose longest case has so many letters.
pub fn table(width: usize) -> Table {
    Table::new(&[
        ("device", Align::Left, 6),
        ("case", Align::Left, width),
        ("time", Align::Right, 9),
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
            warp_rates: Vec::new(),
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
            batch_columns: 256,
            transfer: Transfer { latency: 0.0, bandwidth: f64::INFINITY },
            features: vec![],
            measured: true,
        }
    }

    #[test]
    fn the_floor_is_the_limit_that_binds() {
        let rates = |flop, bytes| Rates { flop, saving: 1, bytes, shown: Shown::Bytes, dtype: DType::F32 };
        assert_eq!(floor(&rates(0, 1000), &profile()), 1000.0 / 100e9);
        assert_eq!(floor(&rates(0, 1_000_000), &profile()), 1e6 / 10e9);
        assert_eq!(floor(&rates(1_000_000_000, 1000), &profile()), 1e9 / 50e9);
        let winograd = Rates { saving: 4, ..rates(1_000_000_000, 1000) };
        assert_eq!(floor(&winograd, &profile()), 0.25e9 / 50e9);
    }

    fn row(ms: f64) -> Row {
        Row { case: "x".into(), device: "vulkan:0".into(), threads: 2, ms, ..Row::default() }
    }

    #[test]
    fn a_figure_above_its_limit_is_marked() {
        // 10^6 bytes take 0.1 ms at least.
        let rates = Rates { flop: 0, saving: 1, bytes: 1_000_000, shown: Shown::Bytes, dtype: DType::F32 };
        let (honest, suspect) = (row(0.0962).with_rates(&rates, &profile()), row(0.004).with_rates(&rates, &profile()));
        assert!(!honest.suspect && suspect.suspect && row(0.0943).with_rates(&rates, &profile()).suspect);
        let json = |row: &Row| serde_json::to_string(row).unwrap();
        assert!(json(&suspect).contains("\"suspect\":true") && !json(&honest).contains("suspect"));
        let cells = suspect.cells();
        assert_eq!((&cells[2][..], &cells[5][..]), ("4.00 us?", "?"));
        assert_eq!(honest.cells()[5], "104 %");
        assert!(cells[4].ends_with('?') && cells[7].contains("suspect") && !honest.cells().concat().contains('?'));
    }

    #[test]
    fn a_row_placed_elsewhere_says_so_and_has_no_limit() {
        let rates = Rates { flop: 0, saving: 1, bytes: 1_000_000, shown: Shown::Bytes, dtype: DType::F32 };
        let placed = row(0.004).with_rates(&rates, &profile()).placed("attention on cpu: no".into());
        assert!(!placed.suspect && placed.limit_fraction.is_none() && placed.gbps.is_some());
        assert!(serde_json::to_string(&placed).unwrap().contains("\"placed\":\"attention on cpu: no\""));
        assert_eq!(placed.cells().last().map(String::as_str), Some("attention on cpu: no"));
    }

    fn example() -> Row {
        Row {
            case: "x_call".into(),
            device: "cpu".into(),
            threads: 2,
            ms: 0.5,
            spread_ms: 0.01,
            gbps: Some(3.0),
            ..Row::default()
        }
    }

    #[test]
    fn rows_survive_json_and_missing_figures_are_null() {
        let row = example();
        let text = serde_json::to_string(&row).unwrap();
        assert!(text.contains("\"gflops\":null") && !text.contains("host_us"), "{text}");
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row);
    }
}
