//! `millstream verify`: every operation and dtype on every device against the reference, and every function of `eval` against
//! what it must equal.

mod functions;
mod identities;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use millstream::{DType, Device};
use millstream_core::conformance::{self, Options, Part, Row};
use serde::Serialize;

use crate::args;
use crate::devices;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::output::{Progress, say};
use crate::table::{Align, Table};
use functions::Functions;

/// What became of one operation in one dtype on one device, over all layouts.
#[derive(Debug, Serialize)]
struct Line {
    op: String,
    dtype: DType,
    device: String,
    /// Whether the device computes it itself; if not, the planner places it on another one.
    native: bool,
    /// Why not.
    reason: Option<String>,
    cases: usize,
    elements: usize,
    /// The error that came nearest to its bound, and that bound.
    max_err: f64,
    bound: f64,
    passed: bool,
    failure: Option<String>,
}

/// Runs the command.
pub fn run(args: &args::Verify) -> Outcome {
    interrupt::install();
    let runtime = millstream::default_runtime()?;
    let devices = devices::chosen(runtime, args.device.as_deref())?;
    let mut options = Options::default();
    options.seed = args.seed.unwrap_or(options.seed);
    let mut failed = 0;
    for device in &devices {
        let lines = lines(device, &options)?;
        failed += lines.iter().filter(|l| !l.passed).count();
        if args.json {
            for line in &lines {
                say(serde_json::to_string(line).map_err(|e| Failure::failed(e.to_string()))?)?;
            }
        } else {
            say(table(&lines))?;
            say(summary(device, &lines, options.seed))?;
        }
    }
    if failed > 0 {
        return Err(Failure::failed(format!("{failed} operations differ from the reference"))
            .suggest(format!("repeat with the same inputs: millstream verify --seed {}", options.seed)));
    }
    Ok(())
}

/// Runs the suite part by part, so that it can be interrupted and seen to move.
fn lines(device: &Device, options: &Options) -> Outcome<Vec<Line>> {
    let progress = Progress::new(options.parts.len() + Functions::count());
    let mut lines: BTreeMap<(usize, String, DType), Line> = BTreeMap::new();
    for (number, &part) in options.parts.iter().enumerate() {
        progress.at(format!("{}: {}", device.name(), part.name()));
        let one = Options { parts: vec![part], ..options.clone() };
        for row in conformance::run(device, &one).rows {
            let group = if part == Part::Layout { format!("{} (layouts)", row.op) } else { row.op.clone() };
            let key = (number, group.clone(), row.dtype);
            add(&mut lines, key, Line::new(group, &row));
        }
        progress.step();
        interrupt::check()?;
    }
    let functions = Functions::new(device, options.seed)?;
    progress.at(format!("{}: functions", device.name()));
    for number in 0..Functions::count() {
        for line in functions.check(number) {
            let key = (options.parts.len(), line.op.clone(), line.dtype);
            add(&mut lines, key, line);
        }
        progress.step();
        interrupt::check()?;
    }
    Ok(lines.into_values().collect())
}

/// Joins a line to those of the same operation and dtype in the same part of the suite.
fn add(lines: &mut BTreeMap<(usize, String, DType), Line>, key: (usize, String, DType), line: Line) {
    match lines.entry(key) {
        Entry::Vacant(entry) => drop(entry.insert(line)),
        Entry::Occupied(mut entry) => entry.get_mut().join(line),
    }
}

impl Line {
    /// Of no case yet.
    fn empty(op: String, dtype: DType, device: &str) -> Line {
        Line {
            op,
            dtype,
            device: device.to_string(),
            native: true,
            reason: None,
            cases: 0,
            elements: 0,
            max_err: 0.0,
            bound: 0.0,
            passed: true,
            failure: None,
        }
    }

    fn new(op: String, row: &Row) -> Line {
        let failure = row.failure.as_ref().map(|failure| format!("{} layout: {failure}", row.layout));
        Line {
            native: row.not_native.is_none(),
            reason: row.not_native.clone(),
            cases: 1,
            elements: row.elements,
            max_err: row.error,
            bound: row.bound,
            passed: failure.is_none(),
            failure,
            ..Line::empty(op, row.dtype, &row.device)
        }
    }

    /// Adds what became of other cases of the same operation.
    fn join(&mut self, other: Line) {
        self.cases += other.cases;
        self.elements += other.elements;
        self.native &= other.native;
        self.reason = self.reason.take().or(other.reason);
        self.passed &= other.passed;
        self.failure = self.failure.take().or(other.failure);
        if nearness(other.max_err, other.bound) >= nearness(self.max_err, self.bound) {
            (self.max_err, self.bound) = (other.max_err, other.bound);
        }
    }

    fn share(&self) -> f64 {
        nearness(self.max_err, self.bound)
    }
}

/// The error as a share of its bound.
fn nearness(error: f64, bound: f64) -> f64 {
    match error / bound {
        _ if error == 0.0 => 0.0,
        share if share.is_nan() => f64::INFINITY,
        share => share,
    }
}

/// One line for each operation: its dtypes, and the worst of them.
fn table(lines: &[Line]) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for group in lines.chunk_by(|a, b| a.op == b.op) {
        let Some(first) = group.first() else { continue };
        let worst = group.iter().max_by(|a, b| a.share().total_cmp(&b.share())).unwrap_or(first);
        let names: Vec<_> = group.iter().map(|l| l.dtype.name()).collect();
        let elsewhere = group.iter().filter(|l| !l.native).count();
        let bad: Vec<_> = group.iter().filter(|l| !l.passed).map(|l| l.dtype.name()).collect();
        let state = match (bad.is_empty(), elsewhere) {
            (false, _) => format!("FAILED in {}", bad.join(" ")),
            (true, 0) => "passed".into(),
            (true, n) if n == group.len() => "placed elsewhere".into(),
            (true, n) => format!("passed, {n} placed elsewhere"),
        };
        rows.push(vec![
            first.device.clone(),
            first.op.clone(),
            group.iter().map(|l| l.cases).sum::<usize>().to_string(),
            format!("{:.2e}", worst.max_err),
            format!("{:.2e}", worst.bound),
            state,
            if names.len() == DType::ALL.len() { "all".into() } else { names.join(" ") },
        ]);
    }
    let columns = [
        ("device", Align::Left, 0),
        ("operation", Align::Left, 0),
        ("cases", Align::Right, 0),
        ("worst error", Align::Right, 0),
        ("its bound", Align::Right, 0),
        ("result", Align::Left, 0),
        ("dtypes", Align::Left, 0),
    ];
    Table::new(&columns).fit(&rows).text(&rows)
}

fn summary(device: &Device, lines: &[Line], seed: u64) -> String {
    let mut out = String::new();
    for line in lines.iter().filter(|l| !l.passed) {
        out += &format!("FAILED {} {}: {}\n", line.op, line.dtype, line.failure.as_deref().unwrap_or_default());
    }
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in lines.iter().filter_map(|l| l.reason.as_deref()) {
        *reasons.entry(reason).or_default() += 1;
    }
    for (reason, count) in reasons {
        out += &format!("placed elsewhere ({count}): {reason}\n");
    }
    let failed = lines.iter().filter(|l| !l.passed).count();
    let native = lines.iter().filter(|l| l.native).count();
    out += &format!(
        "{}: {} operations by dtype, {native} native, {} placed elsewhere, {failed} failed; {} cases, seed {seed}",
        device.name(),
        lines.len(),
        lines.len() - native,
        lines.iter().map(|l| l.cases).sum::<usize>(),
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(op: &str, dtype: DType, error: f64, bound: f64, failure: Option<&str>) -> Row {
        Row {
            part: Part::Unary,
            op: op.into(),
            dtype,
            layout: "flipped",
            device: "cpu".into(),
            not_native: None,
            elements: 10,
            undetermined: 0,
            error,
            bound,
            failure: failure.map(String::from),
        }
    }

    #[test]
    fn the_case_nearest_to_its_bound_stands_for_all() {
        let mut line = Line::new("exp".into(), &row("exp", DType::F32, 1.0, 10.0, None));
        line.join(Line::new("exp".into(), &row("exp", DType::F32, 0.5, 1.0, None)));
        line.join(Line::new("exp".into(), &row("exp", DType::F32, 0.0, 0.0, None)));
        assert_eq!((line.max_err, line.bound, line.cases, line.elements), (0.5, 1.0, 3, 30));
        assert!(line.passed);
        line.join(Line::new("exp".into(), &row("exp", DType::F32, f64::NAN, 1.0, Some("NaN"))));
        assert!(!line.passed && line.failure.as_deref() == Some("flipped layout: NaN"));
    }

    #[test]
    fn the_table_names_the_dtypes_that_failed() {
        let lines = [
            Line::new("exp".into(), &row("exp", DType::F32, 1.0, 2.0, None)),
            Line::new("exp".into(), &row("exp", DType::F64, 3.0, 2.0, Some("too far"))),
        ];
        let text = table(&lines);
        assert!(text.contains("FAILED in f64") && text.contains("f32 f64"), "{text}");
    }
}
