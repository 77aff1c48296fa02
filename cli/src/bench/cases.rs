//! The cases: what a benchmark's name means. The names are those with which peers are timed, for any sizes.

use millstream::DType;

use super::attention;
use super::calls::Call;
use super::compute::{self, Compute, Precision};
use super::conv;
use super::events::Waiting;
use super::moves;
use super::networks::{self, Pass};
use super::pipelines::{self, Stream};
use super::pool;
use super::programs;
use crate::failure::{Failure, Outcome};

/// A case to time.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name, as given.
    pub name: String,
    /// What is timed.
    pub kind: Kind,
}

/// What a case times.
#[derive(Clone, Debug)]
pub enum Kind {
    /// One evaluation of a tensor.
    Compute(Compute),
    /// A forward pass of a network.
    Network(Pass),
    /// So many tokens, one after the other.
    Decode(usize),
    /// A copy from or to the host.
    Transfer(Transfer),
    /// A stream of items through a pipeline.
    Pipeline(Stream),
    /// One of many short calls.
    Call(Call),
    /// One small launch and the wait for it by bare driver calls.
    Floor,
    /// A new process that adds two numbers on the device.
    ColdStart,
    /// The way from a signal to the thread that waits for it.
    Event(Waiting),
    /// The host's part of one small launch, with the ring of prepared launches or without.
    Launch {
        /// Whether the ring is used.
        prepared: bool,
    },
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the host to the device.
    Up,
    /// From the device to the host.
    Down,
}

/// A copy between the host's memory and the device's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Which way.
    pub direction: Direction,
    /// How many f32.
    pub elements: usize,
}

/// A family of cases: an operation, dtypes, and sizes in the order of their names.
struct Form {
    op: &'static str,
    dtypes: &'static [&'static str],
    sizes: &'static [&'static str],
    /// What the name ends with.
    ending: &'static str,
    about: &'static str,
    make: fn(DType, &[usize]) -> Compute,
}

const fn form(
    op: &'static str,
    dtypes: &'static [&'static str],
    sizes: &'static [&'static str],
    about: &'static str,
    make: fn(DType, &[usize]) -> Compute,
) -> Form {
    Form { op, dtypes, sizes, ending: "", about, make }
}

impl Form {
    const fn ending(self, ending: &'static str) -> Form {
        Form { ending, ..self }
    }
}

const FACTORS: &[&str] = &["f32", "tf32", "f16", "bf16", "f64", "i8"];
const FLOATS: &[&str] = &["f32", "f16", "bf16", "f64"];
const SINGLE: &[&str] = &["f32"];
const MATRICES: &[&str] = &["M", "K", "N"];
const HEADS: &[&str] = &["B", "H", "S", "D"];
const ROWS: &[&str] = &["R", "C"];
const ELEMENTS: &[&str] = &["N"];

const FORMS: &[Form] = &[
    form("matmul", FACTORS, MATRICES, "C = A @ B, row-major; of i8 in i32", compute::matmul),
    form("bmm", FLOATS, &["B", "M", "K", "N"], "a batch of matmuls", compute::bmm),
    form("linear", FLOATS, MATRICES, "gelu(A @ B + bias)", compute::linear),
    form("attention", FLOATS, HEADS, "softmax(q k' / root of D) v", attention::attention),
    form("attention", FLOATS, HEADS, "the same, each query seeing the keys up to its own", attention::causal)
        .ending("_causal"),
    form("decode", FLOATS, HEADS, "the same for one query against S keys", attention::decode),
    form("copy", SINGLE, ELEMENTS, "a copy", compute::copy),
    form("add", SINGLE, ELEMENTS, "x + y", compute::add),
    form("exp", SINGLE, ELEMENTS, "exp(x)", compute::exp),
    form("chain", SINGLE, ELEMENTS, "tanh(1.5x + y) * sigmoid(x) - sqrt(|y|)", compute::chain),
    form("sum", SINGLE, ELEMENTS, "the sum of all", compute::sum),
    form("softmax", SINGLE, ROWS, "softmax of each row", compute::softmax),
    form("layernorm", SINGLE, ROWS, "each row to mean 0, variance 1", compute::layernorm),
    form("transpose", SINGLE, ROWS, "a transposed copy", compute::transpose),
    form("colsum", SINGLE, ROWS, "the sum of each column", compute::colsum),
    form("rowsum", SINGLE, ROWS, "the sum of each row", compute::rowsum),
    form("argmax", SINGLE, ROWS, "the index of each row's largest", moves::argmax),
    form("cumsum", SINGLE, ROWS, "running sums along rows", moves::cumsum),
    form("colcumsum", SINGLE, ROWS, "running sums down columns", moves::colcumsum),
    form("sort", SINGLE, ROWS, "each row sorted", moves::sort),
    form("argsort", SINGLE, ROWS, "the indices of each sorted row", moves::argsort),
    form("topk", SINGLE, &["R", "C", "K"], "the K largest of each row", moves::topk),
    form("take", SINGLE, &["R", "C", "N"], "N rows of a table of RxC, at random indices", moves::take),
    form("gather", SINGLE, ROWS, "random elements of each row", moves::gather),
    form("scatteradd", SINGLE, ELEMENTS, "numbers added at random indices", moves::scatteradd),
    form("mask", SINGLE, ELEMENTS, "the elements above 0", moves::mask),
    form("uniform", SINGLE, ELEMENTS, "random numbers from 0 to 1", moves::uniform),
    form("normal", SINGLE, ELEMENTS, "random normal numbers", moves::normal),
    form("integers", &["i64"], ELEMENTS, "random integers below 1000", moves::integers),
    form(
        "heatslices",
        SINGLE,
        ROWS,
        "a step of the heat equation inside a plate of RxC, by slices",
        programs::heat_slices,
    ),
    form("heatroll", SINGLE, ROWS, "the same on a plate without edges, by rolling it", programs::heat_roll),
    form("heatpad", SINGLE, ROWS, "the same with zeros around the plate, by padding it", programs::heat_pad),
    form("heatconv", SINGLE, ROWS, "the same by a convolution", programs::heat_conv),
    form("life", &["u8"], ROWS, "a generation of Game of Life on a field of RxC, by rolling it", programs::life),
    form("kmeans", SINGLE, &["N", "D", "K"], "a round of k-means: N points of D numbers, K centres", programs::kmeans),
    form(
        "train",
        SINGLE,
        &["B", "I", "H"],
        "ten steps of training of two layers on B rows, losses read",
        programs::train,
    ),
];

const NAMED: &[(&str, &str, Kind)] = &[
    ("addsmall_call", "x + x of 1,024 elements, computed", Kind::Call(Call::AddSmall)),
    ("adds10_call", "y = x; five times y = tanh(y + x); computed", Kind::Call(Call::Adds10)),
    ("compiled10_call", "the same as a compiled function", Kind::Call(Call::Compiled10)),
    ("moving_call", "the sum of 64 elements, each time at another address", Kind::Call(Call::Moving)),
    ("growing_call", "a tensor of some hundred rows made one row longer, and its sum", Kind::Call(Call::Growing)),
    ("reshape_call", "a view of a 4096 x 4096 tensor as 2048 x 8192", Kind::Call(Call::Reshape)),
    ("sync_call", "one small op and a full wait for it", Kind::Call(Call::Sync)),
    ("sync_floor", "a small launch and the wait for it by bare driver calls", Kind::Floor),
    (
        "kernels100_call",
        "a plan of 100 small kernels, fusion switched off; for each of them",
        Kind::Call(Call::Kernels100),
    ),
    ("coldstart", "a new process that adds numbers on the device", Kind::ColdStart),
    ("event_wake", "waking a thread in Event::wait (cpu_ms: CPU time of a wait of 200 ms)", Kind::Event(Waiting::Wait)),
    ("event_poll", "the same for a thread that polls every 50 us", Kind::Event(Waiting::Poll)),
    ("launch_prepared", "the host's part of a launch from the ring", Kind::Launch { prepared: true }),
    ("launch_unprepared", "the same without the ring, the kernel compiled", Kind::Launch { prepared: false }),
];

/// What runs where no case is named: every kind of limit, within seconds.
pub const STANDARD: &[(&str, &str)] = &[
    ("copy_f32_16777216", "64 MiB are copied"),
    ("add_f32_16777216", "x + y of 16M numbers"),
    ("chain_f32_4194304", "tanh(1.5x + y) * sigmoid(x) - sqrt(abs(y)) of 4M numbers, in one pass"),
    ("sum_f32_16777216", "the sum of 16M numbers"),
    ("softmax_f32_4096x1024", "softmax of 4096 rows of 1024"),
    ("layernorm_f32_4096x1024", "layer norm of 4096 rows of 1024"),
    ("transpose_f32_4096x4096", "a matrix of 4096 x 4096 is transposed"),
    ("colsum_f32_4096x4096", "the sums of the columns of such a matrix"),
    ("matmul_f32_1024x1024x1024", "a product of two square matrices"),
    ("matmul_f32_4096x64x256", "a thin product: 4096 x 64 by 64 x 256"),
    ("linear_f32_512x1024x1024", "gelu(x @ w + bias), a layer of a network, in one pass"),
    ("addsmall_call", "x + x of 1,024 numbers: what an operation costs besides its arithmetic"),
];

/// The standard cases in words.
pub fn explained() -> String {
    let width = STANDARD.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let line = |(name, about): &(&str, &str)| format!("  {name:<width$}  {about}");
    STANDARD.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A case larger than this many bytes is a slip of the pen.
const LARGEST: u64 = 1 << 42;

impl Case {
    /// The case of that name; else what cases look like.
    pub fn parse(name: &str) -> Outcome<Case> {
        let kind = match NAMED.iter().find(|(n, ..)| *n == name) {
            Some((.., kind)) => kind.clone(),
            None if transfer(name).is_some() => transfer(name).map_or(Kind::Floor, Kind::Transfer),
            None if pipelines::parse(name).is_some() => pipelines::parse(name).map_or(Kind::Floor, Kind::Pipeline),
            None if networks::parse(name).is_some() => networks::parse(name).map_or(Kind::Floor, Kind::Network),
            None if programs::parse(name).is_some() => programs::parse(name).map_or(Kind::Floor, Kind::Decode),
            None if conv::parse(name).is_some() => conv::parse(name).map_or(Kind::Floor, Kind::Compute),
            None if pool::parse(name).is_some() => pool::parse(name).map_or(Kind::Floor, Kind::Compute),
            None => {
                Kind::Compute(sized(name).map_err(|why| Failure::usage(why).suggest(format!("one of\n{}", list())))?)
            }
        };
        Ok(Case { name: name.to_string(), kind })
    }
}

/// `upload_f32_N` or `download_f32_N`.
fn transfer(name: &str) -> Option<Transfer> {
    let (direction, rest) = match name.split_once("_f32_")? {
        ("upload", rest) => (Direction::Up, rest),
        ("download", rest) => (Direction::Down, rest),
        _ => return None,
    };
    let elements = rest.parse().ok().filter(|n| (1..=LARGEST as usize / 16).contains(n))?;
    Some(Transfer { direction, elements })
}

/// A case of a form with sizes. The error is a sentence.
fn sized(name: &str) -> Result<Compute, String> {
    let unknown = || format!("there is no case {:?}", name.chars().take(80).collect::<String>());
    let (op, rest) = name.split_once('_').ok_or_else(unknown)?;
    let (dtype, rest) = rest.split_once('_').ok_or_else(unknown)?;
    let (sizes, ending) = rest.split_at(rest.find('_').unwrap_or(rest.len()));
    let form = FORMS.iter().find(|f| f.op == op && f.ending == ending).ok_or_else(unknown)?;
    let (dtype, precision) = self::dtype(dtype, form.dtypes).ok_or_else(unknown)?;
    let sizes: Option<Vec<usize>> = sizes.split('x').map(|s| s.parse().ok().filter(|n| *n > 0)).collect();
    let sizes = sizes.filter(|s| s.len() == form.sizes.len());
    let sizes =
        sizes.ok_or_else(|| format!("{name:?} needs the sizes {} as numbers from 1 on", form.sizes.join("x")))?;
    // Every operand of every form has at most the product of two sizes, of a lookup not of its first and last; arithmetic has the
    // product of all.
    let product = |list: &[usize]| list.iter().try_fold(1u64, |n, &s| n.checked_mul(s as u64));
    let small = |p: Option<u64>| p.is_some_and(|p| p <= LARGEST / 16);
    let exempt = |i: usize, j: usize| op == "take" && (i, j) == (0, 2);
    let pairs = (0..sizes.len()).flat_map(|i| (i + 1..sizes.len()).map(move |j| (i, j)));
    let operands = sizes.iter().all(|&a| small(Some(a as u64)))
        && pairs.filter(|&(i, j)| !exempt(i, j)).all(|(i, j)| small(product(&[sizes[i], sizes[j]])));
    let fits = operands && product(&sizes).is_some_and(|p| p < 1 << 60);
    if !fits {
        return Err(format!("{name:?} is too large"));
    }
    Ok(Compute { precision, ..(form.make)(dtype, &sizes) })
}

/// What a name's dtype means, if it is one of those that its form takes. `tf32` is f32, multiplied less exactly.
pub fn dtype(name: &str, of: &[&str]) -> Option<(DType, Precision)> {
    if !of.contains(&name) {
        return None;
    }
    match name {
        "tf32" => Some((DType::F32, Precision::Tf32)),
        _ => name.parse().ok().map(|dtype| (dtype, Precision::Full)),
    }
}

/// The forms of cases for people.
pub fn list() -> String {
    let forms = FORMS.iter().map(|f| {
        let dtypes = if let [one] = f.dtypes { one.to_string() } else { format!("{{{}}}", f.dtypes.join(",")) };
        (format!("{}_{dtypes}_{}{}", f.op, f.sizes.join("x"), f.ending), f.about)
    });
    let copies = ["upload", "download"].map(|way| (format!("{way}_f32_N"), "a copy from or to ordinary host memory"));
    let programs = networks::FORMS.into_iter().chain(pipelines::FORMS).chain([programs::FORM]);
    let convolutions = [conv::FORM].into_iter().chain(pool::FORMS).chain(programs);
    let convolutions = convolutions.map(|(form, about)| (form.to_string(), about));
    let named = NAMED.iter().map(|(name, about, _)| (name.to_string(), *about));
    forms
        .chain(convolutions)
        .chain(copies)
        .chain(named)
        .map(|(form, about)| format!("  {form:<44} {about}"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_cases_and_the_names_of_peers_exist() {
        for name in STANDARD.iter().map(|(name, _)| *name).chain([
            "matmul_bf16_1x2x3",
            "linear_bf16_7x5x3",
            "exp_f32_1",
            "coldstart",
            "resnet50_f32_1",
            "resnet50_f32_4_wino",
            "mobilenet_f32_1",
            "mobilenet_f32_4096",
            "take_f32_16777216x1x16777216",
            "gpt2_f32_200",
        ]) {
            assert!(Case::parse(name).is_ok(), "{name}");
        }
    }

    /// Names as sweeps over random shapes draw them, of every family and dtype.
    #[test]
    fn every_name_that_peers_are_timed_by_is_a_case() {
        let mut names = Vec::new();
        for dtype in ["f32", "tf32", "f16", "bf16", "f64"] {
            names.extend(["1x4211x7", "8192x1x8192", "64x16384x8191"].map(|s| format!("matmul_{dtype}_{s}")));
        }
        for dtype in ["f32", "f16", "bf16", "f64"] {
            names.extend(["1x4x32x40", "8x32x8192x128"].map(|s| format!("attention_{dtype}_{s}")));
            names.extend(["1x4x33x32", "8x12x8191x96"].map(|s| format!("attention_{dtype}_{s}_causal")));
            names.extend(["1x8x64x64", "16x32x32768x128"].map(|s| format!("decode_{dtype}_{s}")));
            names.push(format!("bmm_{dtype}_12x128x64x127"));
        }
        for dtype in ["f32", "tf32", "f16", "bf16", "f64"] {
            let shapes = [
                "1x3x416x312_16x7x7_s2p3",
                "64x2048x7x7_1000x1x1_s1p0",
                "16x672x14x14_672x5x5_s2p2_g672",
                "1x16x7x7_16x3x3_s1p1_g16",
            ];
            names.extend(shapes.map(|s| format!("conv_{dtype}_{s}")));
        }
        let rows = ["softmax", "layernorm", "transpose", "colsum", "rowsum", "argmax", "cumsum", "colcumsum", "sort"];
        for op in rows.into_iter().chain(["argsort"]) {
            names.extend(["1x262144", "1048576x2", "764154x3"].map(|s| format!("{op}_f32_{s}")));
        }
        for op in ["copy", "add", "exp", "chain", "sum", "upload", "download"] {
            names.extend(["1", "4097", "536870912"].map(|n| format!("{op}_f32_{n}")));
        }
        names.extend(
            ["linear_f32_7x5x3", "linear_bf16_7x5x3", "topk_f32_8953x4x4", "topk_f32_3x262144x128"].map(String::from),
        );
        names.extend(["addsmall", "adds10", "reshape", "sync"].map(|c| format!("{c}_call")));
        for name in names {
            let case = Case::parse(&name).unwrap_or_else(|f| panic!("{name}: {f}"));
            if let Kind::Compute(compute) = case.kind {
                assert_eq!(compute.precision == Precision::Tf32, name.contains("_tf32_"), "{name}");
            }
        }
    }

    #[test]
    fn other_names_are_refused_with_the_forms() {
        for name in [
            "",
            "matmul",
            "matmul_f32",
            "matmul_f32_1x2",
            "matmul_f32_1x2x3x4",
            "matmul_i16_1x2x3",
            "matmul_f32_0x2x3",
            "matmul_f32_-1x2x3",
            "softmax_f64_2x2",
            "add_f32_",
            "add_f32_1_2",
            "add_f32_99999999999999999999",
            "matmul_f32_4294967296x4294967296x4294967296",
            "colsum_f32_9223372036854775807x3",
            "take_f32_16777216x16777216x1",
            "attention_i8_1x2x3x4",
            "attention_f32_1x2x3x4_",
            "attention_f32_1x2x3x4_causal_causal",
            "decode_f32_1x2x3x4_causal",
            "softmax_tf32_2x2",
            "conv",
            "resnet50_f32_0",
            "resnet50_f32_100000",
            "resnet50_f64_1",
            "mobilenet",
            "mobilenet_f32_",
            "mobilenet_f32_0",
            "mobilenet_f32_4097",
            "mobilenet_f32_1_wino",
            "mobilenet_f64_1",
            "ADD_f32_5",
        ] {
            let failure = Case::parse(name).expect_err(name);
            assert_eq!(failure.exit as u8, 2, "{name}");
            assert!(failure.to_string().contains("softmax_f32_RxC"), "{name}: {failure}");
        }
    }
}
