//! Runs one case on a device and checks what it wrote.

use std::sync::Arc;

use super::case::{Case, POISON};
use crate::backend::{Binding, Bindings};
use crate::buffer::{Buffer, Mode, Resident, Storage};
use crate::check::{Check, Checks};
use crate::device::Device;
use crate::dispatcher::{Work, bind};
use crate::error::Result;
use crate::how::Candidate;
use crate::memory::MemoryKind;
use crate::what::{DType, Expected, HostTensor};

/// What came of a case.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict {
    pub elements: usize,
    pub undetermined: usize,
    /// The error of the element that came nearest to its bound, and that bound.
    pub error: f64,
    pub bound: f64,
    pub failure: Option<String>,
}

impl Verdict {
    /// Takes over the worse of both.
    pub fn worsen(&mut self, other: Verdict) {
        self.elements = self.elements.max(other.elements);
        self.undetermined = self.undetermined.max(other.undetermined);
        if share(other.error, other.bound) >= share(self.error, self.bound) {
            (self.error, self.bound) = (other.error, other.bound);
        }
        if self.failure.is_none() {
            self.failure = other.failure;
        }
    }
}

/// How much of its bound an error takes.
fn share(error: f64, bound: f64) -> f64 {
    if error == 0.0 { 0.0 } else { error / bound }
}

/// The operation's work with this variant.
pub(super) fn work(case: &Case, candidate: &Candidate) -> Arc<Work> {
    Work::new(case.op.clone(), candidate.clone(), case.name.clone())
}

/// Runs the work of a case and gives the bytes of its outputs, margins and all.
pub(super) fn execute(device: &Device, case: &Case, work: &Arc<Work>) -> Result<Vec<Vec<u8>>> {
    let (host, stream) = (device.host(), device.stream());
    let prepared = device.prepare(work)?;
    let upload = |t: &HostTensor| -> Result<(Buffer, Resident)> {
        let buffer = Buffer::from_bytes(&host, &t.bytes, Mode::Automatic)?;
        let resident = buffer.on(device, stream)?;
        if let Some(event) = &resident.ready {
            stream.depend(event)?;
        }
        Ok((buffer, resident))
    };
    let inputs = case.inputs.iter().map(upload).collect::<Result<Vec<_>>>()?;
    let mut outputs = Vec::new();
    for t in &case.outputs {
        let (buffer, _) = upload(t)?;
        // The poison is on the device now, and the value about to be written replaces it there.
        let resident = buffer.write(device, stream)?;
        outputs.push((buffer, resident));
    }
    let scratch = match prepared.workspace() {
        0 => None,
        n => Some(Storage::alloc(device, n, MemoryKind::Device, stream)?),
    };
    let bound = |list: &'_ [(Buffer, Resident)], tensors: &[HostTensor], owned: &[std::ops::Range<usize>]| {
        let bindings = list.iter().zip(tensors).zip(owned).map(|(((_, resident), t), owned)| {
            let (size, at) = (t.dtype.size(), resident.storage.offset());
            (at + owned.start * size, owned.len() * size, (t.offset - owned.start) * size)
        });
        bindings.collect::<Vec<_>>()
    };
    let ranges = bound(&inputs, &case.inputs, &case.inputs_owned);
    let input_bindings: Vec<Binding<'_>> = inputs
        .iter()
        .zip(ranges)
        .map(|((_, r), (start, n, offset))| bind(r.storage.memory(), start, n, offset))
        .collect();
    let ranges = bound(&outputs, &case.outputs, &case.outputs_owned);
    let output_bindings: Vec<Binding<'_>> = outputs
        .iter()
        .zip(ranges)
        .map(|((_, r), (start, n, offset))| bind(r.storage.memory(), start, n, offset))
        .collect();
    let check = match prepared.notes() {
        true => Some(Check::new(device, [(work.clone(), None)].into())?),
        false => None,
    };
    let bindings = Bindings {
        inputs: &input_bindings,
        outputs: &output_bindings,
        params: &case.params,
        workspace: scratch.as_ref().map(|s| bind(s.memory(), s.offset(), prepared.workspace(), 0)),
        note: check.as_ref().map(|check| check.note(0)),
    };
    device.launch(&prepared, &bindings, stream)?;
    let event = if stream.is_synchronous() { None } else { Some(stream.record()?) };
    if let Some(event) = &event {
        for storage in inputs.iter().chain(&outputs).map(|(_, r)| &r.storage).chain(&scratch) {
            storage.used_on(stream, event);
        }
        check.iter().for_each(|check| check.queued(event));
    }
    let checks = Checks::join(check.as_slice(), std::iter::empty());
    outputs
        .iter()
        .map(|(buffer, _)| {
            buffer.written(device, event.clone());
            buffer.depends_on(checks.clone());
            buffer.read(&host)
        })
        .collect()
}

/// Compares what a device wrote with what it must have written, and everything else with the poison.
pub(super) fn of(case: &Case, expected: &[Vec<Expected>], got: &[Vec<u8>]) -> Verdict {
    let mut verdict = Verdict::default();
    for (o, ((want, bytes), before)) in expected.iter().zip(got).zip(&case.outputs).enumerate() {
        let size = before.dtype.size();
        let after = HostTensor { dtype: before.dtype, bytes: bytes.clone(), offset: before.offset };
        let mut written = vec![false; after.len()];
        let fail = |verdict: &mut Verdict, at: isize, why: String| {
            if verdict.failure.is_none() {
                verdict.failure = Some(format!("output {o}, element {at}: {why}"));
            }
        };
        for e in want {
            let at = before.offset.checked_add_signed(e.position).filter(|&i| i < written.len());
            let Some((at, value)) = at.zip(after.at(e.position)) else {
                fail(&mut verdict, e.position, "lies outside the memory of the case".into());
                continue;
            };
            written[at] = true;
            verdict.elements += 1;
            if after.dtype == DType::Bool && bytes[at] > 1 {
                fail(&mut verdict, e.position, format!("the byte {:#x} is no truth value", bytes[at]));
                continue;
            }
            if e.bound == f64::INFINITY {
                verdict.undetermined += 1;
                continue;
            }
            match e.accepts(value) {
                Ok(error) => {
                    if share(error, e.bound) >= share(verdict.error, verdict.bound) {
                        (verdict.error, verdict.bound) = (error, e.bound);
                    }
                }
                Err(why) => fail(&mut verdict, e.position, why),
            }
        }
        let touched = (0..after.len()).find(|&i| !written[i] && bytes[i * size..][..size].iter().any(|&b| b != POISON));
        if let Some(i) = touched {
            fail(
                &mut verdict,
                i as isize - before.offset as isize,
                "was overwritten, but is not part of the output".into(),
            );
        }
    }
    verdict
}
