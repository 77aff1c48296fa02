//! `millstream bench --regret`: every way to compute a case, timed beside the one that the cost model chooses.
//!
//! The ways of a case are the places in the cost model's order ([`Runtime::set_rank`]); each is planned, launched and checked as any evaluation
//! is. They are timed in turn, several rounds of them, and the least of each one's medians counts: what else runs on the machine can only add to
//! one. The regret is what the choice takes beyond the best, as a share of the best.
//!
//! [`Runtime::set_rank`]: millstream::Runtime::set_rank

use millstream::{Result, Tensor};
use serde::Serialize;

use super::cases::{Case, Kind};
use super::compute::{Compute, Precision};
use super::{Bench, largest_error, timing};
use crate::failure::{Exit, Failure, Outcome};
use crate::interrupt;
use crate::output::{Progress, note, say};
use crate::table::{Align, Table, time};

/// Times that every way is timed.
const ROUNDS: usize = 3;
/// Ways of one operation, at most; no backend offers nearly as many.
const MOST: usize = 64;

/// One way to compute a case.
#[derive(Clone, Debug, Serialize)]
struct Taken {
    /// What the plan launches.
    way: String,
    /// The least median in milliseconds.
    ms: f64,
    /// What the cost model compared it by, in milliseconds.
    predicted_ms: f64,
}

/// What the choice of a case cost.
#[derive(Clone, Debug, Serialize)]
struct Regret {
    case: String,
    device: String,
    threads: usize,
    chosen: String,
    chosen_ms: f64,
    best: String,
    best_ms: f64,
    regret: f64,
    /// All ways, the chosen one first.
    ways: Vec<Taken>,
}

impl Regret {
    fn of(case: &str, bench: &Bench<'_>, ways: Vec<Taken>) -> Option<Regret> {
        let chosen = ways.first()?;
        let best = ways.iter().min_by(|a, b| a.ms.total_cmp(&b.ms))?;
        Some(Regret {
            case: case.into(),
            device: bench.device.name().into(),
            threads: bench.device.host().profile().units,
            chosen: chosen.way.clone(),
            chosen_ms: chosen.ms,
            best: best.way.clone(),
            best_ms: best.ms,
            regret: chosen.ms / best.ms.max(1e-9) - 1.0,
            ways,
        })
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.case.clone(),
            self.ways.len().to_string(),
            time(self.chosen_ms),
            time(self.best_ms),
            format!("{:.0} %", self.regret * 100.0),
            self.chosen.clone(),
            if self.regret > 0.0 { self.best.clone() } else { String::new() },
        ]
    }
}

/// The mean of all regrets, and the worst with its case.
fn summary(all: &[Regret]) -> Option<(f64, &Regret)> {
    let worst = all.iter().max_by(|a, b| a.regret.total_cmp(&b.regret))?;
    Some((all.iter().map(|r| r.regret).sum::<f64>() / all.len() as f64, worst))
}

/// Measures these cases; those that are no tensors to be computed have no ways.
pub(super) fn run(bench: &Bench<'_>, cases: &[Case], json: bool) -> Outcome {
    let wide = cases.iter().map(|c| c.name.len()).max().unwrap_or_default();
    let columns = [("case", Align::Left, wide), ("ways", Align::Right, 0), ("chosen", Align::Right, 9)];
    let more =
        [("best", Align::Right, 9), ("regret", Align::Right, 0), ("chosen", Align::Left, 32), ("best", Align::Left, 0)];
    let table = Table::new(&[&columns[..], &more[..]].concat());
    let progress = Progress::new(cases.len());
    let (mut all, mut failure) = (Vec::new(), None::<Failure>);
    for case in cases {
        interrupt::check()?;
        progress.at(case.name.clone());
        let measured = match &case.kind {
            Kind::Compute(compute) => measure(bench, compute),
            _ => Err(Failure::usage("only what is computed from tensors has ways that can be compared")),
        };
        bench.runtime.set_rank(0);
        progress.step();
        match measured.map(|ways| Regret::of(&case.name, bench, ways)) {
            Ok(Some(regret)) => {
                if json {
                    progress.say(serde_json::to_string(&regret).map_err(|e| Failure::failed(e.to_string()))?)?;
                } else {
                    if all.is_empty() {
                        progress.say(table.head())?;
                    }
                    progress.say(table.line(&regret.cells()))?;
                }
                all.push(regret);
            }
            Ok(None) => {}
            Err(trouble) if trouble.exit == Exit::Interrupted => return Err(trouble),
            Err(mut trouble) => {
                trouble.message = trouble.message.map(|m| format!("{}: {m}", case.name));
                if let Some(earlier) = failure.replace(trouble) {
                    note(earlier.to_string());
                }
            }
        }
    }
    if let Some((mean, worst)) = summary(&all) {
        let text = format!(
            "regret of {} cases: {:.1} % in the mean, {:.0} % at worst ({})",
            all.len(),
            mean * 100.0,
            worst.regret * 100.0,
            worst.case
        );
        // Standard output belongs to the JSON lines, if they were asked for.
        if json { note(text) } else { say(text)? }
    }
    failure.map_or(Ok(()), Err)
}

/// Times every way to compute a case.
fn measure(bench: &Bench<'_>, compute: &Compute) -> Outcome<Vec<Taken>> {
    if compute.precision == Precision::Tf32 {
        return Err(Failure::usage("no precision but that of the dtype can be chosen"));
    }
    let (sources, inputs) = compute.inputs();
    let mut inputs: Vec<Tensor> = inputs.iter().map(|t| t.to(&bench.device)).collect();
    inputs.iter().try_for_each(Tensor::check)?;
    for &i in compute.keep {
        inputs[i] = inputs[i].keep()?;
    }
    let make = || (compute.build)(&inputs, &compute.sizes);
    let names = |rank: usize| -> Result<(String, f64)> {
        bench.runtime.set_rank(rank);
        let steps = make().ways()?;
        let names: Vec<&str> = steps.iter().map(|(way, _)| way.as_str()).collect();
        Ok((names.join(", "), steps.iter().map(|(_, seconds)| seconds).sum()))
    };
    let mut ways: Vec<Taken> = Vec::new();
    for rank in 0..MOST {
        let (way, seconds) = names(rank)?;
        // Beyond the last there is the first again.
        if rank > 0 && way == ways[0].way {
            break;
        }
        let error = largest_error(compute, &sources, &make())?;
        if error > compute.bound {
            return Err(Failure::failed(format!(
                "wrong result of {way}: error {error:.2e}, bound {:.2e}",
                compute.bound
            )));
        }
        ways.push(Taken { way, ms: f64::INFINITY, predicted_ms: seconds * 1e3 });
    }
    // Alone there is nothing to compare it with.
    let rounds = if ways.len() > 1 { ROUNDS } else { 1 };
    let seconds = bench.seconds / (rounds * ways.len()) as f64;
    for _ in 0..rounds {
        for (rank, taken) in ways.iter_mut().enumerate() {
            bench.runtime.set_rank(rank);
            let one = Bench { runtime: bench.runtime, device: bench.device.clone(), seconds, without: Vec::new() };
            let timing: timing::Timing = super::time(&one, &|| Ok(make()))?.timing;
            taken.ms = taken.ms.min(timing.ms);
        }
    }
    Ok(ways)
}
