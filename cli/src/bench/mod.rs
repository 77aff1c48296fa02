//! `millstream bench`, and the table that `millstream` alone prints.
//!
//! A time is the median of one evaluation through the public tensor API: the plan cached, the graph built anew each time (networks are
//! compiled functions), inputs on the device, outputs fresh tensors, from the first call to completion. Every result is checked against a
//! computation in double precision, so that a fast wrong answer is no result. Work of a device that queues is timed by its own events; if
//! one of the steps runs elsewhere, by the host's clock, and the row says where. A figure above the device's limit is marked as suspect.

mod attention;
mod baseline;
mod calls;
mod cases;
mod compute;
mod conv;
mod events;
mod launches;
mod moves;
mod networks;
mod pipelines;
mod pool;
mod programs;
mod random;
mod regret;
mod row;
mod timing;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use millstream::core::profiler::RecordKind;
use millstream::{DType, Device, Error, Idea, Result, Runtime, Tensor, compile};

use crate::args;
use crate::devices;
use crate::failure::{Exit, Failure, Outcome};
use crate::interrupt;
use crate::output::{Progress, note, say};
use baseline::{Baseline, Store};
use cases::{Case, Direction, Kind, Transfer};
use compute::{Compute, Precision, Shown};
use networks::{Network, Pass};
use random::{Normal, Source};
use row::{Clock, Rates, Row};
use timing::Timing;

/// The most repeats of one case; on GPUs, where each is waited for, fewer.
const REPEATS: usize = 2000;
const REPEATS_QUEUED: usize = 300;

/// How many elements of a result are checked, and how many input elements that may take.
const SAMPLES: usize = 4096;
const SAMPLE_WORK: usize = 1 << 22;

/// The largest relative error of a network's results: about fifty layers' roundings.
const NETWORK_BOUND: f64 = 1e-4;

/// Where cases run.
struct Bench<'a> {
    runtime: &'a Runtime,
    device: Device,
    seconds: f64,
    /// The ideas that are switched off.
    without: Vec<String>,
}

/// Runs `bench`.
pub fn run(args: &args::Bench) -> Outcome {
    if args.list {
        return say(cases::list());
    }
    interrupt::install();
    let runtime = millstream::default_runtime()?;
    // Everything that the user gave is checked before the first case runs.
    let named = args.cases.iter().map(String::as_str);
    let cases: Vec<Case> =
        if args.cases.is_empty() { standard()? } else { named.map(Case::parse).collect::<Outcome<_>>()? };
    let mut without: Vec<String> = args.without.clone();
    without.sort();
    without.dedup();
    for idea in &without {
        runtime.set_idea(idea.parse::<Idea>()?, false);
    }
    let baseline = args.compare.as_deref().map(Baseline::load).transpose()?;
    let device = match &args.device {
        Some(name) => runtime.device(name)?,
        None => runtime.default_device()?,
    };
    let store = args.save.as_deref().map(|path| Store::open(path, &device)).transpose()?;

    let bench = Bench { runtime, device, seconds: args.seconds, without };
    if args.regret {
        return regret::run(&bench, &cases, args.json);
    }
    let mut report = Report::new(&cases, args.json, cases.len());
    for case in &cases {
        if let Some(row) = report.take(&bench, case)?
            && let Some(store) = &store
        {
            store.append(&row)?;
        }
    }
    let (rows, failure) = report.end();
    if let Some(baseline) = baseline {
        if let Some(warning) = baseline.foreign(&bench.device) {
            note(warning);
        }
        let verdict = baseline.compare(&rows, args.tolerance);
        // Standard output belongs to the JSON lines, if they were asked for.
        if args.json {
            note(&verdict.text);
        } else {
            say(&verdict.text)?;
        }
        if verdict.regressions > 0 && failure.is_none() {
            return Err(Failure::failed(format!("{} cases are slower than the baseline", verdict.regressions)));
        }
    }
    failure.map_or(Ok(()), Err)
}

/// Runs the standard cases on every device.
pub fn tour(args: &args::Tour) -> Outcome {
    interrupt::install();
    let runtime = millstream::default_runtime()?;
    let mut devices = devices::chosen(runtime, args.device.as_deref())?;
    if args.device.is_none() {
        // A GPU's driver in software is this processor once more, and slow: it is shown only if it is asked for.
        devices.retain(|device| {
            let in_software = device.profile().features.iter().any(|f| f == "software");
            if in_software {
                note(format!("{0} is a driver in software; --device {0} shows it", device.name()));
            }
            !in_software
        });
    }
    let cases = standard()?;
    let count = devices.len() * cases.len();
    // A third of a minute of measuring at most, so that preparing and checking end within the minute, too.
    let seconds = args.seconds.unwrap_or((20.0 / count as f64).clamp(0.05, 0.75));
    say("What is timed, through the tensor API, in f32:")?;
    say(cases::explained())?;
    say("")?;
    let mut report = Report::new(&cases, false, count);
    for device in devices {
        let bench = Bench { runtime, device, seconds, without: Vec::new() };
        for case in &cases {
            report.take(&bench, case)?;
        }
    }
    let (_, failure) = report.end();
    say("% of limit: the time that the device's measured bandwidth and arithmetic allow, over the time taken.")?;
    say("error: the largest difference from a computation in double precision, over the largest value.")?;
    failure.map_or(Ok(()), Err)
}

fn standard() -> Outcome<Vec<Case>> {
    cases::STANDARD.iter().map(|(name, _)| Case::parse(name)).collect()
}

/// Prints rows as they come and remembers what went wrong.
struct Report {
    json: bool,
    table: crate::table::Table,
    progress: Progress,
    rows: Vec<Row>,
    failure: Option<Failure>,
}

impl Report {
    fn new(cases: &[Case], json: bool, steps: usize) -> Report {
        let width = cases.iter().map(|c| c.name.len()).max().unwrap_or_default();
        Report { json, table: row::table(width), progress: Progress::new(steps), rows: Vec::new(), failure: None }
    }

    /// Times one case and prints its row. A case that fails does not stop the others; an interrupt or a closed pipe does.
    fn take(&mut self, bench: &Bench<'_>, case: &Case) -> Outcome<Option<Row>> {
        interrupt::check()?;
        self.progress.at(format!("{} {}", bench.device.name(), case.name));
        let progress = &self.progress;
        let measured = match &case.kind {
            Kind::Pipeline(stream) => {
                let bar = progress.part(pipelines::ITEMS);
                pipelines::measure(&case.name, &bench.device, bench.seconds, *stream, &|| bar.turn())
            }
            _ => measure(bench, case),
        };
        self.progress.step();
        let row = match measured {
            Ok(row) => Row { without: bench.without.clone(), ..row },
            Err(failure) if failure.exit == Exit::Interrupted => return Err(failure),
            Err(mut failure) => {
                failure.message = failure.message.map(|m| format!("{} on {}: {m}", case.name, bench.device.name()));
                self.fail(failure);
                return Ok(None);
            }
        };
        if self.json {
            self.progress.say(serde_json::to_string(&row).map_err(|e| Failure::failed(e.to_string()))?)?;
        } else {
            if self.rows.is_empty() {
                self.progress.say(self.table.head())?;
            }
            self.progress.say(self.table.line(&row.cells()))?;
        }
        self.rows.push(row.clone());
        if let (Kind::Compute(compute), Some(error)) = (&case.kind, row.max_err)
            && error > compute.bound
        {
            let text = format!(
                "{} on {}: wrong result: error {error:.2e}, bound {:.2e}",
                case.name, row.device, compute.bound
            );
            self.fail(Failure::failed(text));
            return Ok(None);
        }
        Ok(Some(row))
    }

    /// Notes a failure; all but the last are printed here, the last by whoever ends the program.
    fn fail(&mut self, failure: Failure) {
        if let Some(earlier) = self.failure.replace(failure) {
            note(earlier.to_string());
        }
    }

    fn end(self) -> (Vec<Row>, Option<Failure>) {
        (self.rows, self.failure)
    }
}

/// Times one case.
fn measure(bench: &Bench<'_>, case: &Case) -> Outcome<Row> {
    let device = &bench.device;
    match &case.kind {
        Kind::Compute(compute) => measure_compute(bench, &case.name, compute),
        Kind::Network(pass) => measure_network(bench, &case.name, *pass),
        Kind::Decode(tokens) => programs::decode(&case.name, *tokens, device, bench.seconds),
        Kind::Transfer(transfer) => measure_transfer(bench, &case.name, *transfer),
        Kind::Pipeline(stream) => pipelines::measure(&case.name, device, bench.seconds, *stream, &|| ()),
        Kind::Floor => match device.launch_floor()? {
            Some(seconds) => Ok(Row::new(&case.name, device, Timing { ms: seconds * 1e3, spread: 0.0 })),
            None => Err(Failure::usage("the device finishes work within the call: there is no wait to time")),
        },
        Kind::Call(call) => Ok(Row::new(&case.name, device, calls::time(*call, device)?)),
        Kind::ColdStart => Ok(Row::new(&case.name, device, cold_start(device, bench.seconds)?)),
        Kind::Event(how) => {
            let (timing, cpu_ms) = events::time(*how, bench.seconds)?;
            Ok(Row { cpu_ms, ..Row::new(&case.name, device, timing) })
        }
        Kind::Launch { prepared } => {
            Ok(Row::new(&case.name, device, launches::time(bench.runtime, device, *prepared)?))
        }
    }
}

fn measure_compute(bench: &Bench<'_>, name: &str, compute: &Compute) -> Outcome<Row> {
    let device = &bench.device;
    if compute.precision == Precision::Tf32 {
        // Never f32 under another name: it would be slower than what peers do, and more exact.
        let text =
            format!("contractions in tf32 on {}: no precision but that of the dtype can be chosen", device.name());
        return Err(Error::unsupported(text).suggest("take the case of the same name in f32, f16 or bf16").into());
    }
    let profile = device.measure()?;
    if compute.bytes > profile.memory {
        return Err(Failure::usage(format!("needs {} bytes, but the device has {}", compute.bytes, profile.memory)));
    }
    let (sources, inputs) = compute.inputs();
    let mut inputs: Vec<Tensor> = inputs.iter().map(|t| t.to(device)).collect();
    inputs.iter().try_for_each(Tensor::check)?;
    for &i in compute.keep {
        inputs[i] = inputs[i].keep()?;
    }
    let timed = time(bench, &|| Ok((compute.build)(&inputs, &compute.sizes)))?;
    let max_err = largest_error(compute, &sources, &(compute.build)(&inputs, &compute.sizes))?;
    let Compute { flop, saving, bytes, shown, dtype, .. } = *compute;
    let rates = Rates { flop, saving, bytes, shown, dtype };
    timed.row(name, device, &rates, max_err)
}

/// Times the forward pass of a network, and holds it against the same in double precision.
fn measure_network(bench: &Bench<'_>, name: &str, Pass { shape, batch }: Pass) -> Outcome<Row> {
    let device = &bench.device;
    let network = Arc::new(Network::new(shape, device)?);
    let images = networks::images(batch, device)?;
    let compiled = {
        let network = Arc::clone(&network);
        compile(move |x| network.forward(x))
    };
    let timed = time(bench, &|| compiled.call(&images))?;
    let values = compiled.call(&images)?.to_vec::<f32>()?;
    let double = network.cast(DType::F64)?.forward(&images.cast(DType::F64)).to_vec::<f64>()?;
    let largest = double.iter().fold(0f64, |most, x| most.max(x.abs()));
    let error = values.iter().zip(&double).map(|(x, y)| (f64::from(*x) - y).abs());
    // A maximum would leave NaN out.
    let error = error.fold(0f64, |most, e| if e <= most { most } else { e });
    let max_err = if error.is_finite() { error / largest.max(f64::MIN_POSITIVE) } else { f64::MAX };
    let (work, pixels) = (network.work(), images.len() as u64);
    let bytes = 4 * (work.weights + pixels);
    let saving = networks::saving(shape);
    let rates = Rates { flop: batch as u64 * work.flop, saving, bytes, shown: Shown::Flop, dtype: DType::F32 };
    let row = timed.row(name, device, &rates, max_err)?;
    if max_err > NETWORK_BOUND {
        return Err(Failure::failed(format!("wrong result: error {max_err:.2e}, bound {NETWORK_BOUND:.2e}")));
    }
    Ok(row)
}

/// Times of an evaluation.
struct Timed {
    timing: Timing,
    /// The host's part, where the device queues.
    host_us: Option<f64>,
    clock: Clock,
    /// Which step ran elsewhere, where and why.
    placed: Option<String>,
}

impl Timed {
    fn row(self, name: &str, device: &Device, rates: &Rates, max_err: f64) -> Outcome<Row> {
        let Timed { timing, host_us, clock, placed } = self;
        let mut row = Row::new(name, device, timing).with_rates(rates, &*device.measure()?);
        // Once in a run: it takes seconds.
        static AGAIN: AtomicBool = AtomicBool::new(false);
        if let Some(reason) = placed {
            row = row.placed(reason);
        } else if !device.candidates().is_empty() {
            // The limit would be that of the device that was chosen, which may differ from one evaluation to the next.
            (row.limit_fraction, row.suspect) = (None, false);
        } else if row.suspect && !AGAIN.swap(true, Ordering::Relaxed) {
            row = row.with_rates(rates, &*device.measure_better()?);
        }
        Ok(Row { max_err: Some(max_err), host_us, clock: Some(clock), ..row })
    }
}

/// Evaluates a tensor once, and says which step ran elsewhere than on the device, where and why.
fn placed(device: &Device, make: &dyn Fn() -> Result<Tensor>) -> Outcome<Option<String>> {
    let profiler = device.profiler();
    let (was_on, since) = (profiler.is_on(), profiler.now());
    profiler.start();
    let computed = make().and_then(|result| result.eval());
    let records = profiler.records();
    if !was_on {
        profiler.stop();
    }
    computed?;
    let elsewhere = records.into_iter().find(|r| r.kind == RecordKind::Placed && r.start >= since);
    Ok(elsewhere.map(|r| format!("{} on {}, {}", r.name, r.device, r.note)))
}

/// Times the evaluation of a tensor that is made anew each time.
fn time(bench: &Bench<'_>, make: &dyn Fn() -> Result<Tensor>) -> Outcome<Timed> {
    let device = &bench.device;
    let mut host_us = Vec::new();
    // The device `auto` has no stream of its own whose clock could tell the time.
    let by_host = device.is_host() || !device.candidates().is_empty();
    let most = if by_host { REPEATS } else { REPEATS_QUEUED };
    let in_software = device.profile().features.iter().any(|f| f == "software");
    let placed = if by_host { None } else { placed(device, make)? };
    let mut clock = if by_host || placed.is_some() { Clock::Host } else { Clock::Device };
    let mut once = || {
        let start = Instant::now();
        if by_host {
            make()?.eval()?;
            return Ok(start.elapsed());
        }
        let before = device.stream().record_timed()?;
        let began = Instant::now();
        let result = make()?;
        result.eval_on(device.stream())?;
        host_us.push(began.elapsed().as_secs_f64() * 1e6);
        let after = device.stream().record_timed()?;
        // Peers wait by asking: a thread that slept would begin the next repeat late, and the device would count that.
        while !in_software && !after.is_complete() {
            std::hint::spin_loop();
        }
        after.wait()?;
        let elapsed = start.elapsed();
        if placed.is_some() {
            // The device's events do not see what the host does.
            return Ok(elapsed);
        }
        Ok(after.elapsed_since(&before).unwrap_or_else(|| {
            clock = Clock::Host;
            elapsed
        }))
    };
    if !by_host && !in_software {
        timing::settle(timing::STRETCH, &mut once)?;
    }
    let timing = timing::repeat(bench.seconds, most, &mut once)?;
    Ok(Timed { timing, host_us: (!by_host).then(|| Timing::of(host_us).ms), clock, placed })
}

/// Times a copy between ordinary host memory and the device, by the host's clock.
fn measure_transfer(bench: &Bench<'_>, name: &str, transfer: Transfer) -> Outcome<Row> {
    let device = &bench.device;
    if device.is_host() {
        return Err(Failure::usage("the host copies nothing to itself"));
    }
    let host = device.host();
    let values = Normal::new(0, DType::F32).tensor(&[transfer.elements]).to(&host);
    let timing = timing::repeat(bench.seconds, REPEATS_QUEUED, || match transfer.direction {
        Direction::Up => {
            // A value that was never on the device, in memory as programs have it.
            let fresh = values.copy();
            fresh.eval()?;
            let buffer = fresh.buffer()?;
            let start = Instant::now();
            buffer.move_to(device)?;
            buffer.on(device, device.stream())?.wait()?;
            Ok(start.elapsed())
        }
        Direction::Down => {
            let fresh = values.to(device).copy();
            fresh.eval()?;
            let buffer = fresh.buffer()?;
            let start = Instant::now();
            buffer.on(&host, host.stream())?.wait()?;
            Ok(start.elapsed())
        }
    })?;
    let bytes = (transfer.elements * 4) as f64;
    Ok(Row { gbps: Some(bytes / timing.ms / 1e6), clock: Some(Clock::Host), ..Row::new(name, device, timing) })
}

/// The largest error of the result or of a sample of its elements, divided by the largest value among them.
fn largest_error(compute: &Compute, sources: &[Source], result: &Tensor) -> Outcome<f64> {
    let values: Vec<f64> = match result.dtype() {
        DType::F64 => result.to_vec::<f64>()?,
        DType::I64 => result.to_vec::<i64>()?.into_iter().map(|v| v as f64).collect(),
        DType::I32 => result.to_vec::<i32>()?.into_iter().map(f64::from).collect(),
        _ => result.cast(DType::F32).to_vec::<f32>()?.into_iter().map(f64::from).collect(),
    };
    if let Some(whole) = compute.whole {
        let error = whole(sources, &compute.sizes, &values);
        return Ok(if error.is_finite() { error } else { f64::MAX });
    }
    if values.len() != compute.elements {
        return Err(Failure::failed(format!("the result has {} elements, not {}", values.len(), compute.elements)));
    }
    let count = compute.elements.min(SAMPLES).min((SAMPLE_WORK / compute.reach.max(1)).max(64));
    let (mut error, mut largest) = (0f64, 0f64);
    for sample in 0..count {
        interrupt::check()?;
        let i = if count == compute.elements { sample } else { random::mix(sample as u64) as usize % compute.elements };
        let expected = (compute.expected)(sources, &compute.sizes, i);
        largest = largest.max(expected.abs());
        let difference = (values.get(i).copied().unwrap_or(f64::NAN) - expected).abs();
        // JSON has no infinity: the largest number stands for a result that is no number.
        error = error.max(if difference.is_finite() { difference } else { f64::MAX });
    }
    Ok(if error == f64::MAX { error } else { error / largest.max(f64::MIN_POSITIVE) })
}

/// Times a new process of this program that adds numbers on the device.
fn cold_start(device: &Device, seconds: f64) -> Outcome<Timing> {
    let program = std::env::current_exe().map_err(|e| Failure::failed(format!("this program cannot be found: {e}")))?;
    timing::repeat(seconds, 50, || {
        let start = Instant::now();
        let mut command = Command::new(&program);
        command.args(["eval", "sum([1, 1, 1, 1] + 1)", "--device", device.name()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).env_remove("MILLSTREAM_TRACE");
        let status = command.status().map_err(|e| Failure::failed(format!("a new process: {e}")))?;
        if !status.success() {
            return Err(Failure::failed(format!("the new process ended with {status}")));
        }
        Ok(start.elapsed())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str) -> Compute {
        match Case::parse(name).unwrap_or_else(|f| panic!("{f}")).kind {
            Kind::Compute(compute) => compute,
            other => panic!("{other:?}"),
        }
    }

    fn error_of(name: &str, change: impl Fn(Tensor) -> Tensor) -> f64 {
        let compute = case(name);
        let (sources, inputs) = compute.inputs();
        largest_error(&compute, &sources, &change((compute.build)(&inputs, &compute.sizes)))
            .unwrap_or_else(|f| panic!("{f}"))
    }

    #[test]
    fn every_case_computes_what_its_reference_says() {
        for name in [
            "matmul_f32_17x33x9",
            "matmul_f64_5x64x7",
            "matmul_f16_12x40x6",
            "matmul_bf16_8x16x8",
            "linear_f32_6x20x10",
            "linear_bf16_6x20x10",
            "bmm_f16_3x9x17x5",
            "bmm_bf16_3x9x17x5",
            "attention_f32_2x3x9x8",
            "attention_f16_2x3x9x8",
            "attention_bf16_2x3x9x40",
            "attention_f32_2x3x9x8_causal",
            "attention_f16_2x3x33x8_causal",
            "attention_bf16_2x3x33x8_causal",
            "decode_f32_2x3x77x8",
            "decode_f16_2x3x77x64",
            "decode_bf16_2x3x77x64",
            "conv_f32_2x6x9x8_4x3x3_s2p1_g2",
            "conv_f32_1x8x12x12_8x3x3_s1p1_wino",
            "conv_f16_2x6x9x8_4x3x3_s1p1",
            "conv_bf16_2x6x9x8_6x3x3_s1p1_g6",
            "rowsum_f32_13x77",
            "copy_f32_1001",
            "add_f32_1001",
            "exp_f32_1001",
            "chain_f32_1001",
            "sum_f32_10001",
            "softmax_f32_13x77",
            "layernorm_f32_13x77",
            "transpose_f32_13x77",
            "colsum_f32_13x77",
            "matmul_i8_9x70x11",
            "bmm_f32_3x9x17x5",
            "argmax_f32_13x77",
            "cumsum_f32_13x77",
            "colcumsum_f32_13x77",
            "sort_f32_13x77",
            "argsort_f32_13x77",
            "topk_f32_13x77x5",
            "topk_f32_3x7x9",
            "take_f32_40x7x90",
            "gather_f32_13x77",
            "scatteradd_f32_1001",
            "mask_f32_1001",
            "uniform_f32_20001",
            "normal_f32_20001",
            "integers_i64_20001",
            "maxpool_f32_2x3x9x8_k3s2p1",
            "avgpool_f32_2x3x9x8_k3s1p1",
            "heatslices_f32_13x77",
            "heatroll_f32_13x77",
            "heatpad_f32_13x77",
            "heatconv_f32_13x77",
            "life_u8_13x77",
            "kmeans_f32_300x5x4",
            "train_f32_40x6x9",
        ] {
            let error = error_of(name, |t| t);
            assert!(error <= case(name).bound, "{name}: {error:e}");
        }
    }

    #[test]
    fn a_wrong_result_is_seen() {
        for name in
            ["matmul_f32_17x33x9", "chain_f32_1001", "softmax_f32_13x77", "transpose_f32_13x13", "sort_f32_13x77"]
        {
            assert!(error_of(name, |t| t * 1.01) > case(name).bound, "{name}");
        }
        for name in
            ["cumsum_f32_13x13", "colcumsum_f32_13x13", "argsort_f32_13x13", "gather_f32_13x13", "topk_f32_9x13x5"]
        {
            assert!(error_of(name, |t| t.flip(1)) > case(name).bound, "{name}");
        }
        for name in ["heatroll_f32_13x13", "heatpad_f32_13x13", "life_u8_13x13"] {
            assert!(error_of(name, |t| t.flip(1)) > case(name).bound, "{name}");
        }
        for name in ["kmeans_f32_300x5x4", "train_f32_40x6x9"] {
            assert!(error_of(name, |t| t * 1.1) > case(name).bound, "{name}");
        }
        for name in ["uniform_f32_20001", "normal_f32_20001", "integers_i64_20001", "scatteradd_f32_1001"] {
            assert!(error_of(name, |t| t + 1) > case(name).bound, "{name}");
        }
        assert_eq!(error_of("mask_f32_1001", |t| t.slice(0, ..-1)), f64::MAX, "an element is missing");
        assert!(error_of("transpose_f32_9x9", |t| t.transpose()) > 0.1);
        assert_eq!(error_of("add_f32_100", |t| t / 0.0 * 0.0), f64::MAX, "NaN is the largest error");
    }
}
