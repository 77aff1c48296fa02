//! What a plan looks like to a person.

use std::fmt::Write;

use millstream_core::Result;

use super::capture::Capture;
use super::{Planned, Trigger, Whose, evaluate, place_on_host, whole};
use crate::Tensor;

/// Describes the plan for these tensors; computes nothing of it.
pub(crate) fn explain(tensors: &[&Tensor]) -> Result<String> {
    let mut text = String::new();
    let Some(first) = tensors.first() else { return Ok(text) };
    first.check()?;
    let device = first.device()?;
    let plan = loop {
        let mut capture = Capture::new();
        if let Some(foreign) = capture.walk(tensors, &device, Whose::Own)? {
            // What another device computes is a leaf here.
            evaluate(&[&whole(&foreign)?], Trigger::Explain, None)?;
            continue;
        }
        if capture.nodes.is_empty() {
            let _ = writeln!(text, "{first:?} is there already; nothing is computed");
            return Ok(text);
        }
        match super::plan_for(&mut capture, &device)?.0 {
            Planned::Plan(plan) => break plan,
            Planned::Refused(refusal) => {
                let _ = writeln!(text, "{} goes to the host: {}", refusal.name, refusal.reason);
                place_on_host(&capture, &refusal, &device, None)?;
            }
        }
    };
    let profile = device.profile();
    let limits = if profile.measured { "measured" } else { "estimated; `millstream devices --measure` measures them" };
    let _ = writeln!(
        text,
        "plan for {}: {} operations in {} kernels, {} of intermediate memory (limits {limits})",
        device.name(),
        plan.nodes,
        plan.steps.len(),
        size(plan.arena as f64)
    );
    if plan.channels_last {
        let _ = writeln!(text, "intermediate values of convolutions have their channels last");
    }
    for (i, step) in plan.steps.iter().enumerate() {
        let op = step.work.op();
        let c = &step.cost;
        let _ = writeln!(text, "\n{}. {}", i + 1, step.work.name());
        let _ = writeln!(text, "   index space {:?}, variant {}", &op.dims[..], step.work.candidate().label());
        let _ = writeln!(
            text,
            "   {} at least, {:.3} Mflop, predicted {:.1} us, bound by {}",
            size(c.bytes as f64),
            c.flop as f64 / 1e6,
            c.seconds * 1e6,
            c.bound
        );
        for line in millstream_codegen::listing(op).lines() {
            let _ = writeln!(text, "   {line}");
        }
        for line in device.prepare(&step.work)?.text().lines() {
            let _ = writeln!(text, "   | {line}");
        }
    }
    Ok(text)
}

/// Bytes for people.
fn size(bytes: f64) -> String {
    match bytes {
        b if b >= 1e9 => format!("{:.2} GB", b / 1e9),
        b if b >= 1e6 => format!("{:.2} MB", b / 1e6),
        b if b >= 1e3 => format!("{:.2} kB", b / 1e3),
        b => format!("{b} B"),
    }
}
