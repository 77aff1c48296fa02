//! The tables of docs/memory.md are written from recorded runs (bench/results/patterns.jsonl): no figure in them is typed by hand.
//!
//! A table stands between two comments. The first says what it shows:
//! - `<!-- gain IDEA: CASE... -->`: each case with the idea and without, on every machine that has both;
//! - `<!-- share: CASE... -->`: what each case moves or computes, and its share of the device's limit.

use std::collections::BTreeMap;

use serde::Deserialize;

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/memory.md");
const RECORDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../bench/results/patterns.jsonl");

#[derive(Deserialize)]
struct Row {
    case: String,
    device: String,
    threads: usize,
    ms: f64,
    gflops: Option<f64>,
    gbps: Option<f64>,
    limit_fraction: Option<f64>,
    machine: String,
    #[serde(default)]
    without: Vec<String>,
}

impl Row {
    /// The machine, as people name it, and what of it was used.
    fn place(&self) -> String {
        let machine = self.machine.split(" (").next().unwrap_or_default();
        match self.device.split(':').next() {
            Some("cpu") if self.threads == 1 => format!("{machine}, one core"),
            Some("cpu") => format!("{machine}, {} cores", self.threads),
            Some(family) => format!("{machine}, {family}"),
            None => machine.to_string(),
        }
    }
}

/// Three digits.
fn short(x: f64) -> String {
    let digits = (2 - x.abs().max(1e-9).log10().floor() as i32).max(0) as usize;
    format!("{x:.digits$}")
}

fn time(ms: f64) -> String {
    if ms < 0.1 { format!("{} us", short(ms * 1e3)) } else { format!("{} ms", short(ms)) }
}

/// The record, by case, place and what was switched off; of several rows the fastest.
type Records = BTreeMap<(String, String, Vec<String>), Row>;

fn records() -> Records {
    let text = std::fs::read_to_string(RECORDS).expect("the record of runs");
    let mut all = Records::new();
    for row in text.lines().map(|line| serde_json::from_str::<Row>(line).expect(line)) {
        let key = (row.case.clone(), row.place(), row.without.clone());
        if all.get(&key).is_none_or(|other| row.ms < other.ms) {
            all.insert(key, row);
        }
    }
    all
}

fn limit(row: &Row) -> String {
    row.limit_fraction.map_or_else(|| "-".into(), |f| format!("{:.0} %", f * 100.0))
}

/// The rows of one case and set of ideas switched off, in the order of places.
fn rows<'a>(records: &'a Records, case: &'a str, without: &'a [String]) -> impl Iterator<Item = (&'a String, &'a Row)> {
    let wanted = move |k: &(String, String, Vec<String>)| k.0 == case && k.2 == without;
    records.iter().filter(move |(k, _)| wanted(k)).map(|(k, row)| (&k.1, row))
}

fn gains(records: &Records, ideas: &str, cases: &str) -> String {
    // `tile+cublas` compares with both switched off with only the second switched off.
    let mut off: Vec<String> = ideas.split('+').map(String::from).collect();
    let idea = off[0].clone();
    off.sort();
    let on: Vec<String> = off.iter().filter(|i| **i != idea).cloned().collect();
    let mut text =
        String::from("| case | machine | without | with | gain | of the limit |\n|---|---|---|---|---|---|\n");
    for case in cases.split_whitespace() {
        let before = text.len();
        for (place, row) in rows(records, case, &on) {
            let Some(without) = records.get(&(case.to_string(), place.clone(), off.clone())) else { continue };
            let (a, b, gain) = (time(without.ms), time(row.ms), without.ms / row.ms);
            text += &format!("| `{case}` | {place} | {a} | {b} | {gain:.2}x | {} |\n", limit(row));
        }
        assert!(text.len() > before, "no machine has {case} with {idea} and without");
    }
    text
}

fn shares(records: &Records, cases: &str) -> String {
    let mut text = String::from("| case | machine | time | rate | of the limit |\n|---|---|---|---|---|\n");
    for case in cases.split_whitespace() {
        let before = text.len();
        for (place, row) in rows(records, case, &[]) {
            let rate = match (row.gflops, row.gbps) {
                (Some(g), _) => format!("{} GFLOP/s", short(g)),
                (_, Some(g)) => format!("{} GB/s", short(g)),
                _ => "-".into(),
            };
            text += &format!("| `{case}` | {place} | {} | {rate} | {} |\n", time(row.ms), limit(row));
        }
        assert!(text.len() > before, "no machine has {case}");
    }
    text
}

/// The guide with its tables made anew.
fn written(guide: &str, records: &Records) -> String {
    let mut text = String::new();
    let mut inside = false;
    for line in guide.lines() {
        let head = line.strip_prefix("<!-- ").and_then(|l| l.strip_suffix(" -->"));
        if head == Some("end") {
            inside = false;
        }
        if !inside {
            text += line;
            text += "\n";
        }
        let table = match head.and_then(|h| h.split_once(':')) {
            Some(("share", cases)) => shares(records, cases),
            Some((what, cases)) => match what.strip_prefix("gain ") {
                Some(ideas) => gains(records, ideas, cases),
                None => panic!("{line}: a table shows a gain or a share"),
            },
            None => continue,
        };
        inside = true;
        text += &table;
    }
    assert!(!inside, "the last table has no end");
    text
}

#[test]
fn the_tables_of_the_guide_are_those_of_the_record() {
    let guide = std::fs::read_to_string(GUIDE).expect("the guide");
    let text = written(&guide, &records());
    if std::env::var("MILLSTREAM_GOLDEN").is_ok_and(|v| v == "write") {
        std::fs::write(GUIDE, &text).expect("the guide is written");
    } else {
        assert!(
            guide == text,
            "docs/memory.md is old: MILLSTREAM_GOLDEN=write cargo test -p millstream-cli --test guide"
        );
    }
}
