//! The conformance suite: what every backend must compute, tested against the reference.
//!
//! [`run`] takes a device through every function, operator and cast in every dtype, reductions and row programs,
//! contractions and convolutions, and random fused expressions, all over awkward layouts (empty, of size 1, broadcast,
//! flipped, strided, permuted, misaligned, padded). Inputs are fresh random values from a seed that the report carries.
//! Outputs are poisoned beforehand, and the memory around them must stay as it was. Results are held to the bounds that
//! [`crate::what::evaluate`] derives. An operation that the device does not support is reported with the device's reason;
//! that is no failure.
//!
//! A backend runs the suite in its tests with [`conformance_tests!`](crate::conformance_tests).

mod case;
mod contracts;
mod graphs;
mod indexed;
mod maps;
mod random;
mod rows;
#[cfg(test)]
mod tests;
mod verdict;

use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::backend::Support;
use crate::device::Device;
use crate::dispatcher::Work;
use crate::error::{Error, ErrorKind, Result};
use crate::how::Candidate;
use crate::what::{DType, Op, Tolerance, evaluate};

use case::Case;
pub use random::{Domain, Random};
use verdict::Verdict;

/// A part of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Every function of one value in every dtype.
    Unary,
    /// Every operator of two values in every dtype.
    Binary,
    /// Casts between all dtypes.
    Cast,
    /// Selection, copies, fills, indices, several outputs.
    Map,
    /// Every layout, and lengths around vector widths.
    Layout,
    /// Every reduction in every dtype.
    Reduce,
    /// Row programs: softmax, normalisation, pooling.
    Rows,
    /// Matmuls.
    Matmul,
    /// Batches, einsums, convolutions, computed operands and results.
    Contract,
    /// Lookups in tables, and running reductions.
    Indexed,
    /// Random fused expressions.
    Graph,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 11] = [
        Part::Unary,
        Part::Binary,
        Part::Cast,
        Part::Map,
        Part::Layout,
        Part::Reduce,
        Part::Rows,
        Part::Matmul,
        Part::Contract,
        Part::Indexed,
        Part::Graph,
    ];

    /// The plain name.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Unary => "unary",
            Part::Binary => "binary",
            Part::Cast => "cast",
            Part::Map => "map",
            Part::Layout => "layout",
            Part::Reduce => "reduce",
            Part::Rows => "rows",
            Part::Matmul => "matmul",
            Part::Contract => "contract",
            Part::Indexed => "indexed",
            Part::Graph => "graph",
        }
    }

    fn cases(self, seed: u64) -> Result<Vec<Case>> {
        // A part's inputs depend on the seed alone, not on which other parts run.
        let mut random = Random::new(seed.wrapping_add(self as u64 * 0x1000_0001));
        match self {
            Part::Unary => maps::unary(&mut random),
            Part::Binary => maps::binary(&mut random),
            Part::Cast => maps::cast(&mut random),
            Part::Map => maps::other(&mut random),
            Part::Layout => maps::layouts(&mut random),
            Part::Reduce => rows::reductions(&mut random),
            Part::Rows => rows::programs(&mut random),
            Part::Matmul => contracts::matmuls(&mut random),
            Part::Contract => contracts::forms(&mut random),
            Part::Indexed => indexed::cases(&mut random),
            Part::Graph => graphs::graphs(&mut random),
        }
    }
}

/// What to run, and how strictly.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the random inputs come from.
    pub seed: u64,
    /// The parts to run.
    pub parts: Vec<Part>,
    /// Only operations whose name contains this.
    pub filter: String,
    /// How exact the device's functions must be; by its family where there is none.
    pub tolerance: Option<Tolerance>,
    /// How many of the device's ways to compute an operation are tried: the chosen one first.
    pub variants: usize,
}

impl Default for Options {
    /// Everything, with a fresh seed, or the one that `MILLSTREAM_SEED` gives, in three ways for each operation, or as many as
    /// `MILLSTREAM_VARIANTS` says: devices in software take long to compile.
    fn default() -> Options {
        let number = |name: &str| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
        let given = number("MILLSTREAM_SEED");
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
        Options {
            seed: given.unwrap_or_else(clock),
            parts: Part::ALL.to_vec(),
            filter: String::new(),
            tolerance: None,
            variants: number("MILLSTREAM_VARIANTS").map_or(3, |n| n as usize),
        }
    }
}

/// What became of one case.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The part of the suite.
    pub part: Part,
    /// The operation.
    pub op: String,
    /// The dtype of its first input.
    pub dtype: DType,
    /// How its operands lie in memory.
    pub layout: &'static str,
    /// The device.
    pub device: String,
    /// Why the device does not compute it itself; `None` where it does.
    pub not_native: Option<String>,
    /// How many elements were checked.
    pub elements: usize,
    /// How many of them could have had any value, because rounding decides.
    pub undetermined: usize,
    /// The error of the element that came nearest to its bound.
    pub error: f64,
    /// That element's bound.
    pub bound: f64,
    /// What is wrong; `None` where the case passed or is not native.
    pub failure: Option<String>,
}

impl Row {
    /// Whether nothing is wrong.
    pub fn passed(&self) -> bool {
        self.failure.is_none()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { op, dtype, layout, device, .. } = self;
        write!(f, "{device:8} {op:20} {dtype:5} {layout:18} ")?;
        match (&self.failure, &self.not_native) {
            (Some(why), _) => write!(f, "FAILED: {why}"),
            (None, Some(reason)) => write!(f, "not native: {reason}"),
            (None, None) => write!(f, "error {:9.2e} of {:9.2e}  passed", self.error, self.bound),
        }
    }
}

/// What became of all cases.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The device.
    pub device: String,
    /// The seed of the random inputs: the same seed gives the same cases.
    pub seed: u64,
    /// One row for each case.
    pub rows: Vec<Row>,
    /// How long it took.
    pub seconds: f64,
}

impl Report {
    /// The cases that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|r| !r.passed())
    }

    /// Whether no case failed.
    pub fn passed(&self) -> bool {
        self.failures().next().is_none()
    }
}

impl fmt::Display for Report {
    /// A summary, and the first failures with the seed that repeats them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.failures().count();
        let native = self.rows.iter().filter(|r| r.not_native.is_none()).count();
        let (all, other) = (self.rows.len(), self.rows.len() - native);
        writeln!(
            f,
            "{}: {all} cases, {} passed, {other} not native, {failed} failed, in {:.1} s",
            self.device,
            native - failed.min(native),
            self.seconds
        )?;
        for row in self.failures().take(40) {
            writeln!(f, "  {row}")?;
        }
        if failed > 0 {
            writeln!(f, "repeat with MILLSTREAM_SEED={}", self.seed)?;
        }
        Ok(())
    }
}

/// The operations of the suite's cases, for checks that need no device, such as compiling all their kernels.
pub fn ops(seed: u64) -> Result<Vec<Op>> {
    let mut ops = Vec::new();
    for part in Part::ALL {
        ops.extend(part.cases(seed)?.into_iter().map(|case| case.op));
    }
    Ok(ops)
}

/// Runs the suite on a device. Never panics; everything that went wrong is in the report.
pub fn run(device: &Device, options: &Options) -> Report {
    let started = Instant::now();
    let mut rows = Vec::new();
    for &part in &options.parts {
        match part.cases(options.seed) {
            Ok(cases) => run_part(device, options, part, cases, &mut rows),
            Err(e) => rows.push(Row {
                failure: Some(format!("the cases could not be made: {e}")),
                ..row(device, part, part.name(), DType::F32, "")
            }),
        }
    }
    Report { device: device.name().into(), seed: options.seed, rows, seconds: started.elapsed().as_secs_f64() }
}

fn row(device: &Device, part: Part, op: &str, dtype: DType, layout: &'static str) -> Row {
    Row {
        part,
        op: op.into(),
        dtype,
        layout,
        device: device.name().into(),
        not_native: None,
        elements: 0,
        undetermined: 0,
        error: 0.0,
        bound: 0.0,
        failure: None,
    }
}

/// The ways in which a case is computed: the chosen one, the fixed one, then others, the last first.
fn variants(device: &Device, op: &Op, most: usize) -> Result<Vec<Candidate>> {
    let (chosen, _) = device.choose(op)?;
    let mut list = vec![chosen];
    let all = device.backend().variants(op);
    let first = all.first().cloned();
    for v in first.into_iter().chain(all.into_iter().rev()) {
        if list.len() < most && !list.iter().any(|l: &Candidate| l.is_same_as(&v)) {
            list.push(v);
        }
    }
    Ok(list)
}

fn run_part(device: &Device, options: &Options, part: Part, mut cases: Vec<Case>, rows: &mut Vec<Row>) {
    cases.retain(|c| c.name.contains(&options.filter));
    let planned: Vec<(Case, Vec<Arc<Work>>, Row)> = cases
        .into_iter()
        .map(|case| {
            let mut row = row(device, part, &case.name, case.dtype, case.layout);
            let list = match device.supports(&case.op) {
                Support::No(reason) => {
                    row.not_native = Some(reason);
                    Vec::new()
                }
                Support::Native => variants(device, &case.op, options.variants.max(1)).unwrap_or_else(|e| {
                    row.failure = Some(line(&e));
                    Vec::new()
                }),
            };
            let works = list.iter().map(|v| verdict::work(&case, v)).collect();
            (case, works, row)
        })
        .collect();
    // Compiling in parallel saves most of the time on GPUs. What does not compile fails again below, in its own row.
    let works: Vec<_> = planned.iter().flat_map(|(_, works, _)| works.iter().cloned()).collect();
    let _ = device.compile(&works);
    let tolerance = options.tolerance.unwrap_or_else(|| device.profile().tolerance);
    for (case, works, mut row) in planned {
        if !works.is_empty() {
            let verdict = check(device, &case, &works, tolerance);
            (row.elements, row.undetermined) = (verdict.elements, verdict.undetermined);
            (row.error, row.bound, row.failure) = (verdict.error, verdict.bound, verdict.failure);
        }
        if let (Part::Graph, Some(why)) = (part, &mut row.failure) {
            // The name of a random expression says nothing: show it.
            *why = format!("{why} in {:?}", case.op.exprs().collect::<Vec<_>>());
        }
        rows.push(row);
    }
}

/// The worst that came of computing a case in each of these ways.
fn check(device: &Device, case: &Case, works: &[Arc<Work>], tolerance: Tolerance) -> Verdict {
    let failed = |why: String| Verdict { failure: Some(why), ..Verdict::default() };
    let expected = match evaluate(&case.op, &case.inputs, &case.params, tolerance) {
        Ok(expected) => expected,
        Err(e) if e.kind() == ErrorKind::Index => return refused(device, case, works, &e),
        Err(e) => return failed(format!("the reference: {}", line(&e))),
    };
    let mut verdict = Verdict::default();
    for work in works {
        let mut one = match verdict::execute(device, case, work) {
            Ok(got) => verdict::of(case, &expected, &got),
            Err(e) => failed(line(&e)),
        };
        one.failure = one.failure.map(|why| format!("{why} (variant {})", work.candidate().label()));
        verdict.worsen(one);
    }
    verdict
}

/// Whether a device finds what the reference finds wrong with the values of a case.
fn refused(device: &Device, case: &Case, works: &[Arc<Work>], expected: &Error) -> Verdict {
    let failed = |why: String| Verdict { failure: Some(why), ..Verdict::default() };
    for work in works {
        match verdict::execute(device, case, work) {
            Err(e) if e.kind() == expected.kind() && e.fault().to_string() == expected.fault().to_string() => {}
            Err(e) => return failed(format!("{} and not {}", line(&e), expected.fault())),
            Ok(_) => return failed(format!("nothing was said of this: {}", expected.fault())),
        }
    }
    Verdict::default()
}

/// An error as one line of a table.
fn line(error: &Error) -> String {
    error.to_string().lines().next().unwrap_or_default().into()
}

/// Makes one test for each part of the suite, for the device that the expression gives.
///
/// ```ignore
/// mod conformance {
///     millstream_core::conformance_tests!(super::my_device());
/// }
/// ```
#[macro_export]
macro_rules! conformance_tests {
    ($device:expr) => {
        $crate::conformance_tests!(@parts $device,
            unary_functions: Unary, binary_operators: Binary, casts: Cast, maps: Map, layouts: Layout,
            reductions: Reduce, row_programs: Rows, matmuls: Matmul, contractions: Contract,
            lookups_and_scans: Indexed, random_graphs: Graph);
    };
    (@parts $device:expr, $($name:ident: $part:ident),*) => {
        $(
            #[test]
            fn $name() {
                let device: $crate::Device = $device;
                let options = $crate::conformance::Options {
                    parts: vec![$crate::conformance::Part::$part],
                    ..Default::default()
                };
                let report = $crate::conformance::run(&device, &options);
                assert!(report.passed() && !report.rows.is_empty(), "{report}");
            }
        )*
    };
}
