//! The cases: what a benchmark's name means. The names are those with which peers are timed, for any sizes.

use millstream::DType;

use super::calls::Call;
use super::compute::{self, Compute};
use super::conv;
use super::events::Waiting;
use super::moves;
use super::networks::{self, Pass};
use super::pool;
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
    /// A copy from or to the host.
    Transfer(Transfer),
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
    dtypes: &'static [DType],
    sizes: &'static [&'static str],
    about: &'static str,
    make: fn(DType, &[usize]) -> Compute,
}

const FACTORS: &[DType] = &[DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8];
const SINGLE: &[DType] = &[DType::F32];
const MATRICES: &[&str] = &["M", "K", "N"];
const ROWS: &[&str] = &["R", "C"];
const ELEMENTS: &[&str] = &["N"];

const FORMS: &[Form] = &[
    Form {
        op: "matmul",
        dtypes: FACTORS,
        sizes: MATRICES,
        about: "C = A @ B, row-major; of i8 in i32",
        make: compute::matmul,
    },
    Form { op: "bmm", dtypes: SINGLE, sizes: &["B", "M", "K", "N"], about: "a batch of products", make: compute::bmm },
    Form {
        op: "linear",
        dtypes: &[DType::F32, DType::BF16],
        sizes: MATRICES,
        about: "gelu(A @ B + bias)",
        make: compute::linear,
    },
    Form {
        op: "attention",
        dtypes: &[DType::F32, DType::BF16],
        sizes: &["B", "H", "S", "D"],
        about: "softmax(q k' / root of D) v",
        make: compute::attention,
    },
    Form { op: "copy", dtypes: SINGLE, sizes: ELEMENTS, about: "a copy", make: compute::copy },
    Form { op: "add", dtypes: SINGLE, sizes: ELEMENTS, about: "x + y", make: compute::add },
    Form { op: "exp", dtypes: SINGLE, sizes: ELEMENTS, about: "exp(x)", make: compute::exp },
    Form {
        op: "chain",
        dtypes: SINGLE,
        sizes: ELEMENTS,
        about: "tanh(1.5x + y) * sigmoid(x) - sqrt(|y|)",
        make: compute::chain,
    },
    Form { op: "sum", dtypes: SINGLE, sizes: ELEMENTS, about: "the sum of all", make: compute::sum },
    Form { op: "softmax", dtypes: SINGLE, sizes: ROWS, about: "softmax of each row", make: compute::softmax },
    Form {
        op: "layernorm",
        dtypes: SINGLE,
        sizes: ROWS,
        about: "each row to mean 0, variance 1",
        make: compute::layernorm,
    },
    Form { op: "transpose", dtypes: SINGLE, sizes: ROWS, about: "a transposed copy", make: compute::transpose },
    Form { op: "colsum", dtypes: SINGLE, sizes: ROWS, about: "the sum of each column", make: compute::colsum },
    Form { op: "argmax", dtypes: SINGLE, sizes: ROWS, about: "the place of each row's largest", make: moves::argmax },
    Form { op: "cumsum", dtypes: SINGLE, sizes: ROWS, about: "running sums along rows", make: moves::cumsum },
    Form { op: "colcumsum", dtypes: SINGLE, sizes: ROWS, about: "running sums down columns", make: moves::colcumsum },
    Form { op: "sort", dtypes: SINGLE, sizes: ROWS, about: "each row sorted", make: moves::sort },
    Form { op: "argsort", dtypes: SINGLE, sizes: ROWS, about: "the places of each sorted row", make: moves::argsort },
    Form { op: "topk", dtypes: SINGLE, sizes: &["R", "C", "K"], about: "the K largest of each row", make: moves::topk },
    Form {
        op: "take",
        dtypes: SINGLE,
        sizes: &["R", "C", "N"],
        about: "N rows of a table of RxC, at random places",
        make: moves::take,
    },
    Form { op: "gather", dtypes: SINGLE, sizes: ROWS, about: "random elements of each row", make: moves::gather },
    Form {
        op: "scatteradd",
        dtypes: SINGLE,
        sizes: ELEMENTS,
        about: "numbers added at random places",
        make: moves::scatteradd,
    },
    Form { op: "mask", dtypes: SINGLE, sizes: ELEMENTS, about: "the elements above 0", make: moves::mask },
    Form { op: "uniform", dtypes: SINGLE, sizes: ELEMENTS, about: "random numbers from 0 to 1", make: moves::uniform },
    Form { op: "normal", dtypes: SINGLE, sizes: ELEMENTS, about: "random normal numbers", make: moves::normal },
    Form {
        op: "integers",
        dtypes: &[DType::I64],
        sizes: ELEMENTS,
        about: "random integers below 1000",
        make: moves::integers,
    },
];

const NAMED: &[(&str, &str, Kind)] = &[
    ("addsmall_call", "x + x of 1,024 elements, computed", Kind::Call(Call::AddSmall)),
    ("adds10_call", "y = x; five times y = tanh(y + x); computed", Kind::Call(Call::Adds10)),
    ("compiled10_call", "the same as a compiled function", Kind::Call(Call::Compiled10)),
    ("moving_call", "the sum of 64 elements, each time at another place", Kind::Call(Call::Moving)),
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
pub const STANDARD: &[&str] = &[
    "copy_f32_16777216",
    "add_f32_16777216",
    "chain_f32_4194304",
    "sum_f32_16777216",
    "softmax_f32_4096x1024",
    "layernorm_f32_4096x1024",
    "transpose_f32_4096x4096",
    "colsum_f32_4096x4096",
    "matmul_f32_1024x1024x1024",
    "matmul_f32_4096x64x256",
    "linear_f32_512x1024x1024",
    "addsmall_call",
];

/// A case larger than this many bytes is a slip of the pen.
const LARGEST: u64 = 1 << 42;

impl Case {
    /// The case of that name; else what cases look like.
    pub fn parse(name: &str) -> Outcome<Case> {
        let kind = match NAMED.iter().find(|(n, ..)| *n == name) {
            Some((.., kind)) => kind.clone(),
            None if transfer(name).is_some() => transfer(name).map_or(Kind::Floor, Kind::Transfer),
            None if networks::parse(name).is_some() => networks::parse(name).map_or(Kind::Floor, Kind::Network),
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
    let mut parts = name.split('_');
    let (Some(op), Some(dtype), Some(sizes), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return Err(unknown());
    };
    let form = FORMS.iter().find(|f| f.op == op).ok_or_else(unknown)?;
    let dtype = form.dtypes.iter().find(|d| d.name() == dtype).ok_or_else(unknown)?;
    let sizes: Option<Vec<usize>> = sizes.split('x').map(|s| s.parse().ok().filter(|n| *n > 0)).collect();
    let sizes = sizes.filter(|s| s.len() == form.sizes.len());
    let sizes =
        sizes.ok_or_else(|| format!("{name:?} needs the sizes {} as numbers from 1 on", form.sizes.join("x")))?;
    // Every operand of every form has at most the product of two sizes, of a lookup not of its first and last; arithmetic has the
    // product of all.
    let product = |list: &[usize]| list.iter().try_fold(1u64, |n, &s| n.checked_mul(s as u64));
    let small = |p: Option<u64>| p.is_some_and(|p| p <= LARGEST / 16);
    let apart = |i: usize, j: usize| op == "take" && (i, j) == (0, 2);
    let pairs = (0..sizes.len()).flat_map(|i| (i + 1..sizes.len()).map(move |j| (i, j)));
    let operands = sizes.iter().all(|&a| small(Some(a as u64)))
        && pairs.filter(|&(i, j)| !apart(i, j)).all(|(i, j)| small(product(&[sizes[i], sizes[j]])));
    let fits = operands && product(&sizes).is_some_and(|p| p < 1 << 60);
    if !fits {
        return Err(format!("{name:?} is too large"));
    }
    Ok((form.make)(*dtype, &sizes))
}

/// The forms of cases for people.
pub fn list() -> String {
    let forms = FORMS.iter().map(|f| {
        let dtypes: Vec<_> = f.dtypes.iter().map(|d| d.name()).collect();
        let dtypes = if dtypes.len() == 1 { dtypes.concat() } else { format!("{{{}}}", dtypes.join(",")) };
        (format!("{}_{dtypes}_{}", f.op, f.sizes.join("x")), f.about)
    });
    let copies = ["upload", "download"].map(|way| (format!("{way}_f32_N"), "a copy from or to ordinary host memory"));
    let convolutions = [conv::FORM].into_iter().chain(pool::FORMS).chain(networks::FORMS);
    let convolutions = convolutions.map(|(form, about)| (form.to_string(), about));
    let named = NAMED.iter().map(|(name, about, _)| (name.to_string(), *about));
    forms
        .chain(convolutions)
        .chain(copies)
        .chain(named)
        .map(|(form, about)| format!("  {form:<36} {about}"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_cases_and_the_names_of_peers_exist() {
        for name in STANDARD.iter().copied().chain([
            "matmul_bf16_1x2x3",
            "linear_bf16_7x5x3",
            "exp_f32_1",
            "coldstart",
            "resnet50_f32_1",
            "resnet50_f32_4_wino",
            "mobilenet_f32_1",
            "mobilenet_f32_4096",
            "take_f32_16777216x1x16777216",
        ]) {
            assert!(Case::parse(name).is_ok(), "{name}");
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
