//! What is said where memory does not suffice: who holds what.

use millstream_core::{Buffer, Device, Error, ErrorKind, Fault, Result};

use super::capture::Capture;
use super::memory::Plan;

/// How many tensors are named.
const NAMED: usize = 3;

/// Bytes in the unit that people use.
fn size(bytes: usize) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} bytes"),
    }
}

/// Passes a result on; to an error for want of memory it adds what the evaluation needs, the largest tensors that it
/// reads, and who holds the most of the device's memory.
pub(crate) fn explained<R>(result: Result<R>, capture: &Capture, plan: &Plan, device: &Device) -> Result<R> {
    let of_memory = |error: &Error| error.kind() == ErrorKind::OutOfMemory;
    result.map_err(|error| if of_memory(&error) { advised(error, capture, plan, device) } else { error })
}

fn advised(error: Error, capture: &Capture, plan: &Plan, device: &Device) -> Error {
    let results: usize = plan.outputs.iter().filter(|o| o.over.is_none()).map(|o| o.bytes).sum();
    let between: usize = plan.arenas.iter().sum();
    let bytes = |buffer: &Result<Buffer>| buffer.as_ref().map_or(0, Buffer::len);
    let mut read: Vec<_> = capture.leaves.iter().map(|n| (n.value().map_or(0, bytes), n)).collect();
    read.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let all: usize = read.iter().map(|(bytes, _)| bytes).sum();
    let mut text = format!(
        "free tensors that are no longer needed, work in smaller pieces, or raise the limit. The evaluation needs {} for results and \
         {} between them, and reads {} in {} tensors",
        size(results),
        size(between),
        size(all),
        read.len()
    );
    for (i, (bytes, node)) in read.iter().take(NAMED).enumerate() {
        let (file, line) = (node.location.file(), node.location.line());
        let before = if i == 0 { ": " } else { ", " };
        text += &format!("{before}{} of {} {:?} from {file}:{line}", size(*bytes), node.dtype, &node.shape[..]);
    }
    let host = device.host();
    let short = |d: &&Device| matches!(error.fault(), Fault::OutOfMemory { device, .. } if device == d.name());
    if let Some(short) = [device, &host].into_iter().chain(&capture.others).find(short) {
        for (i, held) in short.pool().largest(NAMED).iter().enumerate() {
            text += if i == 0 { ". Most is held by " } else { ", " };
            text += &match held.place {
                Some(place) => format!("what {}:{} made ({}", place.file(), place.line(), size(held.bytes)),
                None => format!("memory between the steps of evaluations ({}", size(held.bytes)),
            };
            text += &match held.blocks {
                1 => ")".into(),
                n => format!(" in {n} tensors)"),
            };
        }
    }
    error.suggest(text)
}
