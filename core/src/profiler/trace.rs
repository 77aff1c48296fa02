//! The trace event format of Perfetto and `chrome://tracing`.
//!
//! Viewers want the events of one thread to lie beside or inside each other. Records of several host threads, or of copies
//! beside kernels, need not, so each stream becomes as many threads as it takes.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use super::record::{Record, RecordKind, Warning};
use super::summary::sound;

/// What belongs on one thread of a device's process, if it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Evaluate,
    Compile,
    Queue(u64),
    Stream(u64),
}

impl Lane {
    fn of(record: &Record) -> Lane {
        match record.kind {
            RecordKind::Evaluate | RecordKind::Again => Lane::Evaluate,
            RecordKind::Compile => Lane::Compile,
            RecordKind::Queued => Lane::Queue(record.stream),
            _ => Lane::Stream(record.stream),
        }
    }

    fn name(self) -> String {
        match self {
            Lane::Evaluate => "evaluate".to_string(),
            Lane::Compile => "compile".to_string(),
            Lane::Queue(number) => format!("queue of stream {number}"),
            Lane::Stream(number) => format!("stream {number}"),
        }
    }
}

/// The ends of the events that are open on a thread, outermost first.
type Open = Vec<u64>;

/// The first thread on which an event from `start` to `end` lies beside or inside all others. Events come in the order of
/// their starts.
fn lane_of(threads: &mut Vec<(u64, Open)>, start: u64, end: u64, next: &mut u64) -> u64 {
    for (number, open) in threads.iter_mut() {
        while open.last().is_some_and(|&e| e <= start) {
            open.pop();
        }
        if open.last().is_none_or(|&e| e >= end) {
            open.push(end);
            return *number;
        }
    }
    let number = *next;
    *next += 1;
    threads.push((number, vec![end]));
    number
}

/// Microseconds, the format's unit, without a detour through floating point.
fn micros(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
}

fn quoted(text: &str) -> io::Result<String> {
    Ok(serde_json::to_string(text)?)
}

/// Writes a whole trace.
pub(super) fn write(mut records: Vec<Record>, warnings: &[Warning], dropped: u64, out: impl Write) -> io::Result<()> {
    let length = |r: &Record| (sound(r.seconds) * 1e9).round() as u64;
    // Of events that start together the longest comes first: the others lie inside it.
    records.sort_by_key(|r| (r.start, std::cmp::Reverse(length(r))));
    let mut out = BufWriter::new(out);
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"dropped\":{dropped}}},\"traceEvents\":[")?;
    let mut separator = "\n";
    let mut event = |out: &mut BufWriter<_>, text: &str| -> io::Result<()> {
        let comma = std::mem::replace(&mut separator, ",\n");
        write!(out, "{comma}{{{text}}}")
    };
    let mut devices: BTreeMap<Arc<str>, u64> = BTreeMap::new();
    let mut lanes: BTreeMap<(u64, Lane), Vec<(u64, Open)>> = BTreeMap::new();
    let mut next = 1;
    for r in &records {
        let count = devices.len() as u64;
        // Process 0 is left to the warnings.
        let process = *devices.entry(r.device.clone()).or_insert(count + 1);
        let nanoseconds = length(r);
        let threads = lanes.entry((process, Lane::of(r))).or_default();
        let thread = lane_of(threads, r.start, r.start.saturating_add(nanoseconds), &mut next);
        let mut args = format!("\"bytes\":{},\"flop\":{}", r.bytes, r.flop);
        if nanoseconds > 0 {
            let per_second = |amount: u64| amount as f64 / nanoseconds as f64;
            args += &format!(",\"GB/s\":{:.3},\"GFLOP/s\":{:.3}", per_second(r.bytes), per_second(r.flop));
        }
        if let Some(percent) = r.limit_fraction.map(|f| f * 100.0).filter(|p| p.is_finite()) {
            args += &format!(",\"% of limit\":{percent:.2}");
        }
        if !r.note.is_empty() {
            args += &format!(",\"note\":{}", quoted(&r.note)?);
        }
        event(
            &mut out,
            &format!(
                "\"name\":{},\"cat\":\"{}\",\"ph\":\"X\",\"ts\":{},\"dur\":{},\"pid\":{process},\"tid\":{thread},\"args\":{{{args}}}",
                quoted(&r.name)?,
                r.kind,
                micros(r.start),
                micros(nanoseconds)
            ),
        )?;
    }
    for w in warnings {
        event(
            &mut out,
            &format!(
                "\"name\":{},\"cat\":\"warning\",\"ph\":\"i\",\"s\":\"g\",\"ts\":{},\"pid\":0,\"tid\":0,\"args\":{{\"count\":{}}}",
                quoted(&w.text)?,
                micros(w.time),
                w.count
            ),
        )?;
    }
    let named = |kind: &str, process: u64, thread: u64, name: &str| -> io::Result<String> {
        let name = quoted(name)?;
        Ok(format!("\"name\":\"{kind}\",\"ph\":\"M\",\"pid\":{process},\"tid\":{thread},\"args\":{{\"name\":{name}}}"))
    };
    if !warnings.is_empty() {
        event(&mut out, &named("process_name", 0, 0, "warnings")?)?;
    }
    for (device, process) in &devices {
        event(&mut out, &named("process_name", *process, 0, device)?)?;
    }
    for ((process, lane), threads) in &lanes {
        for (thread, _) in threads {
            event(&mut out, &named("thread_name", *process, *thread, &lane.name())?)?;
        }
    }
    out.write_all(b"\n]}\n")?;
    out.flush()
}
