//! What a plan looks like to a person.

use std::fmt::Write;

use millstream_core::{Device, Result};

use super::capture::Capture;
use super::memory::Step;
use super::sites::Site;
use crate::Tensor;

/// Describes the plan for these tensors; computes nothing of it.
pub(crate) fn explain(tensors: &[&Tensor]) -> Result<String> {
    let mut text = String::new();
    let Some(first) = tensors.first() else { return Ok(text) };
    first.check()?;
    let device = first.device()?;
    let mut capture = Capture::new();
    let Some((plan, _)) = super::planned(&mut capture, tensors, &device)? else {
        let _ = writeln!(text, "{first:?} is there already; nothing is computed");
        return Ok(text);
    };
    for refusal in &plan.refusals {
        let _ = writeln!(text, "{} goes to the host: {}", refusal.name, refusal.reason);
    }
    let before = super::pieces::pieces(tensors)?.len();
    if before > 0 && device.candidates().is_empty() {
        let _ = writeln!(text, "computed in {} pieces, one after the other; as a whole it would be:", before + 1);
    }
    let profile = device.profile();
    let limits = if profile.measured { "measured" } else { "estimated; `millstream devices --measure` measures them" };
    let _ = writeln!(
        text,
        "plan for {}: {} operations in {} kernels, {} of intermediate memory (limits {limits})",
        device.name(),
        plan.nodes,
        plan.steps.len(),
        size(plan.arenas.iter().sum::<usize>() as f64)
    );
    if plan.channels_last {
        let _ = writeln!(text, "intermediate values of convolutions have their channels last");
    }
    let devices: Vec<Device> = plan
        .sites
        .iter()
        .map(|site| match *site {
            Site::Main => device.clone(),
            Site::Other(i) => capture.others[i].clone(),
            Site::Host => device.host(),
        })
        .collect();
    let several = devices.len() > 1;
    for (i, step) in plan.steps.iter().enumerate() {
        let step = match step {
            Step::Launch(launch) => launch,
            Step::Copy(c) => {
                let (from, to) = (devices[c.from.0].name(), devices[c.to.0].name());
                let _ = writeln!(text, "\n{}. copy {from} -> {to}", i + 1);
                let _ = writeln!(text, "   {}, predicted {:.1} us", size(c.bytes as f64), c.seconds * 1e6);
                continue;
            }
        };
        let (op, c, device) = (step.work.op(), &step.cost, &devices[step.device]);
        let on = if several { format!(" on {}", device.name()) } else { String::new() };
        let _ = writeln!(text, "\n{}. {}{on}", i + 1, step.work.name());
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

/// How each step of the plan for a tensor is computed, and the seconds that the cost model compared it by; computes nothing of it.
pub(crate) fn ways(tensor: &Tensor) -> Result<Vec<(String, f64)>> {
    tensor.check()?;
    let device = tensor.device()?;
    let mut capture = Capture::new();
    let Some((plan, _)) = super::planned(&mut capture, &[tensor], &device)? else { return Ok(Vec::new()) };
    let launched = plan.steps.iter().filter_map(|step| match step {
        Step::Launch(launch) => Some(&launch.work),
        Step::Copy(_) => None,
    });
    Ok(launched.map(|work| (work.candidate().label(), device.compared(work.op(), work.candidate()))).collect())
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
