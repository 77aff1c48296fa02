//! Tables of figures in the project's pages are written from recorded runs (bench/results): no figure in them is typed by hand.
//!
//! A table stands between a comment that says what it shows and the comment `<!-- end -->`:
//! - `<!-- gain IDEA: CASE... -->`: each case with the idea and without, on every machine that has both, from `patterns.jsonl`;
//! - `<!-- share: CASE... -->`: what each case moves or computes, and its share of the device's limit, from the same;
//! - `<!-- beside RECORD [PEERS] threads=N [KEY=VALUE...] [mean]: CASE... -->`: ours beside the fastest peer. `RECORD` is a file without its ending,
//!   `PEERS` that of the peers (else `RECORD-peers`), keys and values are those of the rows, `conv_*` means all such cases, and `mean` asks for the geometric mean of the ratios.
//!   If the comment has several lines, each names one case and, after a colon, says it in words.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

const PAGES: [&str; 4] = ["README.md", "docs/cpu-kernels.md", "docs/figures.md", "docs/memory.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A recorded row.
#[derive(Clone)]
struct Row(Value);

impl Row {
    fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_default()
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.0[key].as_f64()
    }

    fn ms(&self) -> f64 {
        self.number("ms").expect("a row has a time")
    }

    /// What was switched off.
    fn without(&self) -> Vec<String> {
        let list = self.0["without"].as_array();
        list.into_iter().flatten().filter_map(|v| v.as_str().map(String::from)).collect()
    }

    /// Whether it has this key with this value.
    fn has(&self, key: &str, value: &str) -> bool {
        match &self.0[key] {
            Value::String(s) => s == value,
            other => other.as_f64().is_some() && other.as_f64() == value.parse().ok(),
        }
    }

    /// The machine, as people name it, and what of it was used.
    fn machine(&self) -> String {
        let machine = self.text("machine").split(" (").next().unwrap_or_default();
        match self.text("device").split(':').next() {
            Some("cpu") if self.has("threads", "1") => format!("{machine}, one core"),
            Some("cpu") => format!("{machine}, {} cores", self.0["threads"]),
            Some(family) => format!("{machine}, {family}"),
            None => machine.to_string(),
        }
    }

    /// The share of the limit. One above it says that the limit was not known when the row was recorded, or that an algorithm saves
    /// multiplications that the share counts: neither is a share.
    fn limit(&self) -> String {
        let share = self.number("limit_fraction").filter(|f| *f <= 1.05);
        share.map_or_else(|| "-".into(), |f| format!("{:.0} %", f * 100.0))
    }
}

/// Three digits.
fn short(x: f64) -> String {
    let digits = (2 - x.abs().max(1e-9).log10().floor() as i32).max(0) as usize;
    format!("{x:.digits$}")
}

fn time(ms: f64) -> String {
    match ms {
        _ if ms < 0.1 => format!("{} us", short(ms * 1e3)),
        _ if ms < 1e3 => format!("{} ms", short(ms)),
        _ => format!("{} s", short(ms / 1e3)),
    }
}

/// The rows of a record that have a time.
fn read(record: &str) -> Vec<Row> {
    let path = root().join("bench/results").join(format!("{record}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let rows = text.lines().map(|line| Row(serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))));
    rows.filter(|r| r.number("ms").is_some()).collect()
}

/// The record of patterns, by case, machine and what was switched off; of several rows the fastest.
type Patterns = BTreeMap<(String, String, Vec<String>), Row>;

fn patterns() -> Patterns {
    let mut all = Patterns::new();
    for row in read("patterns") {
        let key = (row.text("case").to_string(), row.machine(), row.without());
        if all.get(&key).is_none_or(|other| row.ms() < other.ms()) {
            all.insert(key, row);
        }
    }
    all
}

/// The rows of one case and set of ideas switched off, in the order of machines.
fn rows<'a>(all: &'a Patterns, case: &'a str, without: &'a [String]) -> impl Iterator<Item = (&'a String, &'a Row)> {
    let wanted = move |k: &(String, String, Vec<String>)| k.0 == case && k.2 == without;
    all.iter().filter(move |(k, _)| wanted(k)).map(|(k, row)| (&k.1, row))
}

fn gains(all: &Patterns, ideas: &str, cases: &str) -> String {
    // `tile+cublas` compares with both switched off with only the second switched off.
    let mut off: Vec<String> = ideas.split('+').map(String::from).collect();
    let idea = off[0].clone();
    off.sort();
    let on: Vec<String> = off.iter().filter(|i| **i != idea).cloned().collect();
    let mut text =
        String::from("| case | machine | without | with | gain | of the limit |\n|---|---|---|---|---|---|\n");
    for case in cases.split_whitespace() {
        let before = text.len();
        for (machine, row) in rows(all, case, &on) {
            let Some(without) = all.get(&(case.to_string(), machine.clone(), off.clone())) else { continue };
            let (a, b, gain) = (time(without.ms()), time(row.ms()), without.ms() / row.ms());
            text += &format!("| `{case}` | {machine} | {a} | {b} | {gain:.2}x | {} |\n", row.limit());
        }
        assert!(text.len() > before, "no machine has {case} with {idea} and without");
    }
    text
}

fn shares(all: &Patterns, cases: &str) -> String {
    let mut text = String::from("| case | machine | time | rate | of the limit |\n|---|---|---|---|---|\n");
    for case in cases.split_whitespace() {
        let before = text.len();
        for (machine, row) in rows(all, case, &[]) {
            let rate = match (row.number("gflops"), row.number("gbps")) {
                (Some(g), _) => format!("{} GFLOP/s", short(g)),
                (_, Some(g)) => format!("{} GB/s", short(g)),
                _ => "-".into(),
            };
            text += &format!("| `{case}` | {machine} | {} | {rate} | {} |\n", time(row.ms()), row.limit());
        }
        assert!(text.len() > before, "no machine has {case}");
    }
    text
}

fn peer(name: &str) -> &str {
    match name {
        "torch" => "PyTorch",
        "numpy" => "NumPy",
        "onnxruntime" => "ONNX Runtime",
        other => other,
    }
}

/// A table of ours beside the fastest peer; `lines` are the cases, with their words if there are any.
fn beside(head: &str, lines: &[(&str, Option<&str>)]) -> String {
    let (mut files, mut keys, mut mean) = (Vec::new(), Vec::new(), false);
    for word in head.split_whitespace() {
        match word.split_once('=') {
            Some(pair) => keys.push(pair),
            None if word == "mean" => mean = true,
            None => files.push(word.to_string()),
        }
    }
    let ours = files.first().expect("a record").clone();
    let theirs = files.get(1).cloned().unwrap_or_else(|| format!("{ours}-peers"));
    // Values of several words are written with dots.
    let wanted = |r: &Row| r.without().is_empty() && keys.iter().all(|(k, v)| r.has(k, &v.replace('.', " ")));
    let ours: Vec<Row> = read(&ours).into_iter().filter(wanted).collect();
    let theirs: Vec<Row> = read(&theirs).into_iter().filter(wanted).collect();
    let fastest = |rows: &[Row], case: &str| {
        let of = rows.iter().filter(|r| r.text("case") == case);
        of.min_by(|a, b| a.ms().total_cmp(&b.ms())).cloned()
    };
    let mut text =
        String::from("| work | Millstream | of the limit | the fastest peer | ratio |\n|---|---|---|---|---|\n");
    let mut ratios = Vec::new();
    for (pattern, words) in lines {
        let cases: Vec<&str> = match pattern.strip_suffix('*') {
            Some(start) => {
                let mut cases: Vec<&str> = Vec::new();
                for case in ours.iter().map(|r| r.text("case")).filter(|c| c.starts_with(start)) {
                    if !cases.contains(&case) {
                        cases.push(case);
                    }
                }
                cases.sort();
                cases
            }
            None => vec![pattern],
        };
        assert!(!cases.is_empty(), "no case {pattern} of {head}");
        for case in cases {
            let row = fastest(&ours, case).unwrap_or_else(|| panic!("no {case} of {head}"));
            // Peers do not know the ways that we may choose.
            let other = fastest(&theirs, case).or_else(|| fastest(&theirs, case.trim_end_matches("_wino")));
            let (name, times) = (words.map_or_else(|| format!("`{case}`"), String::from), time(row.ms()));
            let Some(other) = other else { panic!("no peer has {case} of {head}") };
            let ratio = other.ms() / row.ms();
            ratios.push(ratio);
            let (theirs, by) = (time(other.ms()), peer(other.text("peer")));
            text += &format!("| {name} | {times} | {} | {theirs} ({by}) | {ratio:.2}x |\n", row.limit());
        }
    }
    if mean {
        let mean = (ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len() as f64).exp();
        text += &format!("| geometric mean | | | | {mean:.2}x |\n");
    }
    text
}

/// The table that a comment asks for, if it does.
fn table(comment: &str, all: &Patterns) -> Option<String> {
    let (head, rest) = comment.split_once(':')?;
    let (what, head) = head.trim().split_once(' ').unwrap_or((head.trim(), ""));
    let lines: Vec<&str> = rest.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    Some(match what {
        "gain" => gains(all, head, rest),
        "share" => shares(all, rest),
        "beside" if comment.contains('\n') => {
            let said = |l: &&'_ str| l.contains(':');
            assert!(lines.iter().all(said), "{comment}: a line is a case, a colon and words");
            let pairs: Vec<_> =
                lines.iter().filter_map(|l| l.split_once(':')).map(|(c, w)| (c.trim(), Some(w.trim()))).collect();
            beside(head, &pairs)
        }
        "beside" => beside(head, &rest.split_whitespace().map(|case| (case, None)).collect::<Vec<_>>()),
        _ => panic!("{comment}: a table shows a gain, a share, or ours beside the peers'"),
    })
}

/// A page with its tables made anew.
fn written(page: &str, all: &Patterns) -> String {
    let mut text = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once("<!-- ") {
        let (comment, after) = after.split_once("-->\n").expect("a comment has an end");
        text += &format!("{before}<!-- {comment}-->\n");
        rest = after;
        if let Some(table) = table(comment.trim_end(), all) {
            let (_, after) = rest.split_once("<!-- end -->").expect("a table has an end");
            text += &format!("{table}<!-- end -->");
            rest = after;
        }
    }
    text + rest
}

#[test]
fn the_tables_of_pages_are_those_of_the_records() {
    let all = patterns();
    for name in PAGES {
        let path = root().join(name);
        let page = std::fs::read_to_string(&path).expect(name);
        let text = written(&page, &all);
        if std::env::var("MILLSTREAM_GOLDEN").is_ok_and(|v| v == "write") {
            std::fs::write(&path, &text).expect(name);
        } else {
            assert!(page == text, "{name} is old: MILLSTREAM_GOLDEN=write cargo test -p millstream-cli --test pages");
        }
    }
}
