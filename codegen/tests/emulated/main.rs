//! CUDA kernels run on the host, where there is a C++ compiler: the text that a GPU would be given, with a header that stands for CUDA.
//!
//! What is tested is the text: indices, edges, layouts in shared memory, fragments of matrix units, barriers. It is held to the same
//! reference and the same bounds as on a GPU. An ordinary run takes a fresh sample of the suite's operations; `MILLSTREAM_KERNELS=all`
//! takes all, `MILLSTREAM_KERNELS=5` a fifth;
//! `MILLSTREAM_ONLY=attention` takes those whose name contains it.

mod device;

use std::path::PathBuf;
use std::sync::OnceLock;

use device::{Family, compiler, hash};
use millstream_codegen::{Dialect, Target, groups, variants};
use millstream_core::conformance::{Options, Part, ops, run};
use millstream_core::how::{Candidate, MemoryLevel, Transfer, cost};
use millstream_core::{Body, DType, DeviceKind, DeviceProfile, Op, Runtime, testing};

/// A small GPU, so that few groups have much to do.
fn target() -> Target {
    Target {
        dialect: Dialect::Cuda,
        float64: true,
        int64: true,
        max_group: 1024,
        max_grid: 65_535,
        shared_memory: 48 << 10,
        max_buffers: 64,
        units: 3,
        matrices: Some(32),
    }
}

fn profile() -> DeviceProfile {
    let level = |name: &str, bytes, bandwidth| MemoryLevel {
        name: name.into(),
        bytes,
        line: 128,
        ways: 0,
        shared_by: 3,
        bandwidth,
    };
    DeviceProfile {
        kind: DeviceKind::Cuda,
        description: "the host, for CUDA".into(),
        architecture: "sm_90".into(),
        driver: String::new(),
        memory: 1 << 30,
        levels: vec![level("shared", 96 << 10, 6e11), level("L2", 4 << 20, 4e11), level("memory", 1 << 30, 1e11)],
        rates: vec![(DType::F32, 1e12), (DType::F64, 5e11)],
        matrix_rates: Vec::new(),
        warp_rates: vec![(DType::F16, 5e12), (DType::BF16, 5e12), (DType::F64, 1e12)],
        units: 3,
        lanes: 32,
        registers: 65_536,
        shared_memory: 48 << 10,
        max_group: 1024,
        max_bindings: 64,
        max_binding: 1 << 30,
        offset_alignment: 1,
        walks: None,
        launch: 3e-6,
        groups: Some(groups(2.5e-6)),
        unhidden: 0.0,
        unequal: 0.0,
        tolerance: millstream_core::what::Tolerance::GPU,
        channels_last: false,
        batch_columns: 256,
        transfer: Transfer { latency: 1e-5, bandwidth: 1e10 },
        features: Vec::new(),
        measured: true,
    }
}

/// One operation of so many is in a sample, if `MILLSTREAM_KERNELS` does not say another number; of those for matrix units, more.
const SHARE: u64 = 24;
const SHARE_OF_UNITS: u64 = 4;

fn takes(op: &Op) -> bool {
    let given = std::env::var("MILLSTREAM_KERNELS").unwrap_or_default();
    let taken = |d: DType| matches!(d, DType::F16 | DType::BF16 | DType::F64);
    let taken = op.inputs.iter().any(|a| taken(a.dtype));
    let units = matches!(op.body, Body::Attention(_)) || matches!(op.body, Body::Contract(_)) && taken;
    let share = match given.parse() {
        _ if given == "all" => 1,
        Ok(share) => share,
        Err(_) if units => SHARE_OF_UNITS,
        Err(_) => SHARE,
    };
    hash(op, seed()).is_multiple_of(share)
}

/// The seed of all tests of this run, so that they take the same operations.
fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| Options::default().seed)
}

fn conforms(part: Part) {
    if compiler().is_none() {
        return testing::missing("g++", &"no compiler for C++ that makes shared libraries");
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("emulated-cache");
    let family = Family { target: target(), profile: profile(), takes };
    let device = Runtime::builder().family(family).cache(folder).build().device("cpu").unwrap();
    // Matrix units are among the later ways to compute a contraction.
    let variants = if matches!(part, Part::Matmul | Part::Contract) { 6 } else { 3 };
    let filter = std::env::var("MILLSTREAM_ONLY").unwrap_or_default();
    let report = run(&device, &Options { parts: vec![part], seed: seed(), variants, filter, ..Options::default() });
    let native = report.rows.iter().filter(|r| r.not_native.is_none()).count();
    println!("{report}");
    assert!(report.passed(), "{report}");
    println!("{native} of {} operations ran", report.rows.len());
}

macro_rules! parts {
    ($($name:ident: $part:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                conforms(Part::$part);
            }
        )*
    };
}

parts! {
    unary_functions: Unary,
    binary_operators: Binary,
    casts: Cast,
    maps: Map,
    layouts: Layout,
    reductions: Reduce,
    row_programs: Rows,
    matmuls: Matmul,
    contractions: Contract,
    lookups_and_scans: Indexed,
    random_graphs: Graph,
}

#[test]
fn kernels_for_matrix_units_are_taken_only_where_their_rate_is_known() {
    let known = profile();
    let unknown = DeviceProfile { warp_rates: Vec::new(), ..profile() };
    let family = |op: &Op, profile: &DeviceProfile| {
        let seconds = |c: &Candidate| cost(op, Some(&c.traffic), profile).seconds;
        let all = variants(op, &target(), profile).into_iter();
        let best = all.min_by(|a, b| seconds(a).total_cmp(&seconds(b))).unwrap();
        best.variant.family.name().to_string()
    };
    let (mut contractions, mut attentions) = (0, 0);
    for op in ops(seed()).unwrap() {
        let half = matches!(op.inputs.first().map(|a| a.dtype), Some(DType::F16 | DType::BF16));
        match op.body {
            Body::Contract(_) => {
                contractions += usize::from(family(&op, &known) == "units");
                assert_ne!(family(&op, &unknown), "units", "{op:?}");
            }
            Body::Attention(_) if half => {
                // The smallest take as long as a launch, whichever way.
                attentions += usize::from(family(&op, &known) == "flash");
                assert_ne!(family(&op, &unknown), "flash", "{op:?}");
            }
            _ => {}
        }
    }
    assert!(contractions > 10 && attentions > 3, "{contractions} contractions, {attentions} of attention");
}
