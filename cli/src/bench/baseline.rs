//! Figures saved in a file, and how new ones compare with them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use millstream::Device;
use serde::{Deserialize, Serialize};

use super::row::Row;
use super::timing::Timing;
use crate::failure::{Failure, Outcome};
use crate::table::{Align, Table, time};

/// A row with what must be known to compare it later.
#[derive(Serialize, Deserialize)]
struct Saved {
    #[serde(flatten)]
    row: Row,
    #[serde(default)]
    machine: String,
    #[serde(default)]
    date: String,
    #[serde(default)]
    commit: String,
}

/// A file to which rows are appended.
pub struct Store {
    path: PathBuf,
    file: File,
    machine: String,
    commit: String,
}

impl Store {
    /// Opens the file, so that a path that cannot be written is known before anything runs.
    pub fn open(path: &Path, device: &Device) -> Outcome<Store> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let file = file.map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?;
        Ok(Store { path: path.to_path_buf(), file, machine: machine(device), commit: commit() })
    }

    /// Appends a row as one line.
    pub fn append(&self, row: &Row) -> Outcome {
        let saved = Saved {
            row: row.clone(),
            machine: self.machine.clone(),
            date: date(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())),
            commit: self.commit.clone(),
        };
        let failed = |e: &dyn std::fmt::Display| Failure::failed(format!("{}: {e}", self.path.display()));
        let line = serde_json::to_string(&saved).map_err(|e| failed(&e))? + "\n";
        // One call for a line: two programs that append to one file do not mix their lines.
        (&self.file).write_all(line.as_bytes()).map_err(|e| failed(&e))
    }
}

/// What the figures were taken on.
fn machine(device: &Device) -> String {
    let p = device.profile();
    format!("{} ({}), {} {}", p.description.trim(), p.architecture, std::env::consts::OS, std::env::consts::ARCH)
}

/// The commit checked out where the program runs, or the program's version.
fn commit() -> String {
    let git = Command::new("git").args(["rev-parse", "HEAD"]).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let text = git.ok().filter(|o| o.status.success()).map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string());
    let hash = |t: &String| t.len() >= 40 && t.chars().all(|c| c.is_ascii_hexdigit());
    text.filter(hash).unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_string())
}

/// Seconds since 1970 as `2026-01-31T12:00:00Z`.
fn date(seconds: u64) -> String {
    let (days, rest) = (seconds / 86400, seconds % 86400);
    // Counted in eras of 400 years that begin on the first of March, so that the leap day is the last of its year.
    let shifted = days + 719468;
    let (era, day_of_era) = (shifted / 146097, shifted % 146097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// What rows are matched by.
type Key = (String, String, usize, Vec<String>);

fn key(row: &Row) -> Key {
    (row.case.clone(), row.device.clone(), row.threads, row.without.clone())
}

/// Earlier figures.
pub struct Baseline {
    rows: BTreeMap<Key, Timing>,
    machines: BTreeSet<String>,
}

/// What a comparison found.
pub struct Verdict {
    /// The table.
    pub text: String,
    /// How many cases are slower beyond noise.
    pub regressions: usize,
}

/// So many times the observed spread is noise.
const NOISE: f64 = 3.0;
/// No noise is more than this part of the slower figure: what takes twice as long has changed.
const MOST_NOISE: f64 = 0.5;

impl Baseline {
    /// Reads a file that [`Store`] or `bench --json` wrote.
    pub fn load(path: &Path) -> Outcome<Baseline> {
        let wrong = |what: String| Failure::usage(format!("{}: {what}", path.display()));
        let text = fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
        let mut all: BTreeMap<Key, Vec<Row>> = BTreeMap::new();
        let mut machines = BTreeSet::new();
        for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
            let Saved { row, machine, .. } =
                serde_json::from_str(line).map_err(|e| wrong(format!("line {}: {e}", i + 1)))?;
            machines.insert(machine);
            if !(row.ms.is_finite() && row.ms > 0.0) {
                return Err(wrong(format!("line {}: ms is {}, not a time", i + 1, row.ms)));
            }
            all.entry(key(&row)).or_default().push(row);
        }
        if all.is_empty() {
            return Err(wrong("there are no figures in it".into()).suggest("make it with millstream bench --save"));
        }
        // Of several runs, the median counts; how they differ is part of the noise.
        let sum_up = |rows: Vec<Row>| {
            let runs = Timing::of(rows.iter().map(|r| r.ms).collect());
            let within = Timing::of(rows.iter().map(|r| r.spread_ms).collect());
            Timing { ms: runs.ms, spread: runs.spread.max(within.ms) }
        };
        machines.remove("");
        Ok(Baseline { rows: all.into_iter().map(|(k, rows)| (k, sum_up(rows))).collect(), machines })
    }

    /// What to say where the figures come from another machine, so that a comparison says little.
    pub fn foreign(&self, device: &Device) -> Option<String> {
        let here = machine(device);
        let other = self.machines.iter().find(|m| **m != here)?;
        Some(format!("note: the baseline has figures of another machine: {other}; this one: {here}"))
    }

    /// Compares new rows: slower than `tolerance` times the baseline, and beyond the noise of both, is a regression.
    pub fn compare(&self, rows: &[Row], tolerance: f64) -> Verdict {
        let mut regressions = 0;
        let mut cells = Vec::new();
        for row in rows {
            let name = vec![row.device.clone(), row.case.clone()];
            let Some(before) = self.rows.get(&key(row)) else {
                let none = ["-".into(), time(row.ms), "-".into(), "not in the baseline".into()];
                cells.push([name, none.to_vec()].concat());
                continue;
            };
            let noise = (NOISE * before.spread.max(row.spread_ms)).min(MOST_NOISE * before.ms.max(row.ms));
            let change = row.ms - before.ms;
            let verdict = if row.ms > tolerance * before.ms && change > noise {
                regressions += 1;
                "SLOWER"
            } else if before.ms > tolerance * row.ms && -change > noise {
                "faster"
            } else {
                "same"
            };
            let figures = [time(before.ms), time(row.ms), format!("{:.2}x", row.ms / before.ms), verdict.into()];
            cells.push([name, figures.to_vec()].concat());
        }
        let columns = [
            ("device", Align::Left, 0),
            ("case", Align::Left, 0),
            ("baseline", Align::Right, 0),
            ("now", Align::Right, 0),
            ("ratio", Align::Right, 0),
            ("", Align::Left, 0),
        ];
        let mut text = Table::new(&columns).fit(&cells).text(&cells);
        let new: Vec<Key> = rows.iter().map(key).collect();
        let missing: Vec<String> = self
            .rows
            .keys()
            .filter(|k| !new.contains(k))
            .map(|(case, device, threads, without)| {
                let without: String = without.iter().map(|idea| format!(", without {idea}")).collect();
                format!("{case} ({device}, {threads} threads{without})")
            })
            .collect();
        if !missing.is_empty() {
            text += &format!("\nin the baseline, but not run: {}", missing.join(", "));
        }
        Verdict { text, regressions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: &str, ms: f64, spread_ms: f64) -> Row {
        Row { case: case.into(), device: "cpu".into(), threads: 2, ms, spread_ms, ..Row::default() }
    }

    fn baseline(rows: &[Row]) -> Baseline {
        let rows = rows.iter().map(|r| (key(r), Timing { ms: r.ms, spread: r.spread_ms })).collect();
        Baseline { rows, machines: BTreeSet::new() }
    }

    #[test]
    fn only_what_is_slower_beyond_noise_is_a_regression() {
        let old = baseline(&[row("a", 10.0, 0.1), row("b", 10.0, 2.0), row("c", 10.0, 0.1), row("gone", 1.0, 0.1)]);
        let new = [row("a", 12.0, 0.1), row("b", 12.0, 0.1), row("c", 11.0, 0.1), row("new", 1.0, 0.1)];
        let verdict = old.compare(&new, 1.15);
        assert_eq!(verdict.regressions, 1, "{}", verdict.text);
        assert!(verdict.text.lines().any(|l| l.contains(" a ") && l.contains("SLOWER")), "{}", verdict.text);
        assert!(verdict.text.contains("not in the baseline") && verdict.text.contains("gone (cpu, 2 threads)"));
        assert_eq!(old.compare(&new, 1.05).regressions, 2);
        // However noisy a run is, several times the time is no noise.
        assert_eq!(old.compare(&[row("a", 30.0, 12.0)], 1.15).regressions, 1);
        assert_eq!(old.compare(&[row("a", 19.0, 12.0)], 1.15).regressions, 0);
    }

    #[test]
    fn figures_without_an_idea_are_another_case() {
        let without = Row { without: vec!["fuse".into()], ..row("a", 30.0, 0.1) };
        let verdict = baseline(&[row("a", 10.0, 0.1)]).compare(std::slice::from_ref(&without), 1.15);
        assert!(verdict.regressions == 0 && verdict.text.contains("not in the baseline"), "{}", verdict.text);
        let verdict = baseline(&[without]).compare(&[row("a", 10.0, 0.1)], 1.15);
        assert!(verdict.text.contains("a (cpu, 2 threads, without fuse)"), "{}", verdict.text);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_767_225_600, "2026-01-01T00:00:00Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
        ] {
            assert_eq!(date(seconds), text);
        }
    }
}
