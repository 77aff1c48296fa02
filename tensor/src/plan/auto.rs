//! The device `auto`: each computation goes where it is done the soonest.
//!
//! A graph is planned for every candidate that could win, which costs microseconds once the plans are there, and priced by
//! the cost model, the moves of its inputs included. If the cheapest candidate fails in a way that another device could mend, the next one
//! computes the graph from inputs that still live, and a warning says so.

use std::sync::Arc;
use std::time::Instant;

use millstream_core::runtime::is_recoverable;
use millstream_core::{Device, Error, Record, RecordKind};

use super::capture::{Capture, Planned, Unplanned};
use super::instance::Runnable;
use super::memory::Step;
use super::{Trigger, execute, given, note_computed, plan_for};

/// Computes a captured graph on one of the device's candidates.
pub(super) fn run(capture: &mut Capture, auto: &Device, trigger: Trigger) -> Planned<()> {
    let mut priced: Vec<(f64, Device, Arc<Runnable>)> = Vec::new();
    let mut failure = None;
    let mut least = f64::INFINITY;
    for device in auto.candidates().iter().filter(|d| !d.is_lost()) {
        // Planning compiles: a device that could not win even with nothing but one launch is not asked. The host comes first.
        if moving(capture, device) + device.profile().launch >= least {
            continue;
        }
        match plan_for(capture, device) {
            Ok((plan, _)) => {
                let steps: f64 = plan.steps.iter().map(Step::seconds).sum();
                let seconds = moving(capture, device) + steps;
                least = least.min(seconds);
                priced.push((seconds, device.clone(), plan));
            }
            Err(Unplanned::Failed(error)) if is_recoverable(error.kind()) => failure = Some(warn(auto, device, error)),
            Err(unplanned) => return Err(unplanned),
        }
    }
    priced.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (seconds, device, plan) in priced {
        let started = auto.profiler().is_on().then(Instant::now);
        match execute(&plan, &given(capture, &plan), &device, &capture.others, device.stream()) {
            Ok(()) => {
                if let Some(started) = started {
                    auto.profiler().record(Record {
                        name: "evaluate".into(),
                        kind: RecordKind::Evaluate,
                        device: device.name().into(),
                        seconds: started.elapsed().as_secs_f64(),
                        note: format!("{trigger:?}, chosen by auto for {:.1} us", seconds * 1e6),
                        ..Record::at(auto.profiler(), started)
                    });
                }
                note_computed(capture, auto, trigger);
                return Ok(());
            }
            Err(error) if is_recoverable(error.kind()) => failure = Some(warn(auto, &device, error)),
            Err(error) => return Err(error.into()),
        }
    }
    Err(failure.unwrap_or_else(|| Error::no_device("no device is left that could compute this")).into())
}

fn warn(auto: &Device, device: &Device, error: Error) -> Error {
    auto.profiler().warn(format!("{} failed and another device goes on: {error}", device.name()));
    error
}

/// Predicted seconds to bring the inputs of a graph to a device.
fn moving(capture: &Capture, device: &Device) -> f64 {
    let inputs = capture.leaves.iter().filter_map(|leaf| leaf.value()?.as_ref().ok());
    inputs.filter(|b| !b.is_current(device)).map(|b| b.device().seconds_to(device, b.len())).sum()
}
