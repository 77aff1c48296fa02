//! Records summed up, as numbers and as a table.

use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::record::{Record, RecordKind, Warning};

/// What all records of one name, device and kind come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The records' name.
    pub name: Arc<str>,
    /// Their device.
    pub device: Arc<str>,
    /// Their kind.
    pub kind: RecordKind,
    /// How many there are.
    pub count: u64,
    /// Seconds of all together.
    pub total: f64,
    /// Seconds of the shortest.
    pub min: f64,
    /// Seconds on average.
    pub mean: f64,
    /// Seconds of the longest.
    pub max: f64,
    /// Bytes of all together.
    pub bytes: u64,
    /// Arithmetic operations of all together.
    pub flop: u64,
    /// 10^9 bytes a second, over the total time; 0 where no time was measured.
    pub gbps: f64,
    /// 10^9 operations a second, over the total time; 0 where no time was measured.
    pub gflops: f64,
    /// The share of the limit that was reached, each record weighing by its time; `None` where no record has one.
    pub limit_fraction: Option<f64>,
}

/// A time that can be added up: not negative, not infinite, not NaN.
pub(super) fn sound(seconds: f64) -> f64 {
    if seconds.is_finite() { seconds.max(0.0) } else { 0.0 }
}

pub(super) fn summarize<'a>(records: impl Iterator<Item = &'a Record>) -> Vec<Summary> {
    /// Seconds of the records that have a limit, and those seconds times the share reached.
    #[derive(Default)]
    struct Limit {
        seconds: f64,
        reached: f64,
        shares: (f64, u64),
    }
    let mut groups: FxHashMap<(&str, &str, RecordKind), (Summary, Limit)> = FxHashMap::default();
    for r in records {
        let (s, limit) = groups.entry((&*r.name, &*r.device, r.kind)).or_insert_with(|| {
            let none = Summary {
                name: r.name.clone(),
                device: r.device.clone(),
                kind: r.kind,
                count: 0,
                total: 0.0,
                min: f64::INFINITY,
                mean: 0.0,
                max: 0.0,
                bytes: 0,
                flop: 0,
                gbps: 0.0,
                gflops: 0.0,
                limit_fraction: None,
            };
            (none, Limit::default())
        });
        let seconds = sound(r.seconds);
        s.count += 1;
        s.total += seconds;
        s.min = s.min.min(seconds);
        s.max = s.max.max(seconds);
        s.bytes = s.bytes.saturating_add(r.bytes);
        s.flop = s.flop.saturating_add(r.flop);
        if let Some(share) = r.limit_fraction.filter(|f| f.is_finite()) {
            limit.seconds += seconds;
            limit.reached += seconds * share;
            limit.shares = (limit.shares.0 + share, limit.shares.1 + 1);
        }
    }
    let mut list: Vec<Summary> = groups
        .into_values()
        .map(|(mut s, limit)| {
            let rate = |amount: u64| if s.total > 0.0 { amount as f64 / s.total * 1e-9 } else { 0.0 };
            (s.gbps, s.gflops) = (rate(s.bytes), rate(s.flop));
            s.mean = s.total / s.count as f64;
            s.limit_fraction = match limit.shares {
                (_, 0) => None,
                // Times too short to measure weigh alike.
                (sum, count) if limit.seconds == 0.0 => Some(sum / count as f64),
                _ => Some(limit.reached / limit.seconds),
            };
            s
        })
        .collect();
    list.sort_by(|a, b| {
        b.total.total_cmp(&a.total).then_with(|| (&a.name, &a.device, a.kind).cmp(&(&b.name, &b.device, b.kind)))
    });
    list
}

/// A summary to print: aligned columns, then what was dropped, then the warnings.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// One row for each name, device and kind.
    pub rows: Vec<Summary>,
    /// Records that are not counted in the rows, because they were dropped.
    pub dropped: u64,
    /// The warnings.
    pub warnings: Vec<Warning>,
}

/// Names longer than this are cut in a table.
const WIDEST: usize = 40;

fn on_one_line(text: &str) -> String {
    let mut short: String = text.chars().take(WIDEST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(WIDEST).is_some() {
        short.pop();
        short.push('…');
    }
    short
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.3} s"),
        s if s >= 1e-3 => format!("{:.3} ms", s * 1e3),
        s if s >= 1e-6 => format!("{:.3} us", s * 1e6),
        s => format!("{:.0} ns", s * 1e9),
    }
}

fn rate(giga: f64) -> String {
    match giga {
        0.0 => "-".to_string(),
        g if g < 10.0 => format!("{g:.2}"),
        g => format!("{g:.1}"),
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let titles =
            ["name", "kind", "device", "count", "total", "min", "mean", "max", "GB/s", "GFLOP/s", "% of limit"];
        let mut cells = vec![titles.map(str::to_string)];
        cells.extend(self.rows.iter().map(|s| {
            let limit = s.limit_fraction.map_or_else(|| "-".to_string(), |x| format!("{:.1}", x * 100.0));
            [
                on_one_line(&s.name),
                s.kind.to_string(),
                on_one_line(&s.device),
                s.count.to_string(),
                time(s.total),
                time(s.min),
                time(s.mean),
                time(s.max),
                rate(s.gbps),
                rate(s.gflops),
                limit,
            ]
        }));
        let widths: [usize; 11] =
            std::array::from_fn(|c| cells.iter().map(|row| row[c].chars().count()).max().unwrap_or(0));
        for row in &cells {
            let mut line = String::new();
            for (c, (cell, width)) in row.iter().zip(widths).enumerate() {
                let gap = if c == 0 { "" } else { "  " };
                line += &if c < 3 { format!("{gap}{cell:<width$}") } else { format!("{gap}{cell:>width$}") };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        if self.dropped > 0 {
            writeln!(f, "{} earlier records were dropped and are not counted", self.dropped)?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        Ok(())
    }
}
