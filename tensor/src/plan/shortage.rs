//! What is said where memory does not suffice: who holds what.

use millstream_core::{Buffer, Error, ErrorKind, Result};

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

/// Passes a result on; to an error for want of memory it adds what the evaluation needs, and the largest tensors that it reads.
pub(crate) fn explained<R>(result: Result<R>, capture: &Capture, plan: &Plan) -> Result<R> {
    result.map_err(|error| if error.kind() == ErrorKind::OutOfMemory { advised(error, capture, plan) } else { error })
}

fn advised(error: Error, capture: &Capture, plan: &Plan) -> Error {
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
    error.suggest(text)
}
