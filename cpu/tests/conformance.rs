//! The conformance suite on the CPU: every instruction set of the machine, on one thread and on two.

use millstream_core::conformance::{Options, Part, run};
use millstream_core::{Device, Runtime};
use millstream_cpu::{CpuFamily, CpuOptions, Isa};

fn device(isa: Isa, threads: usize) -> Device {
    let folder = std::env::temp_dir().join(format!("millstream-conformance-{}", std::process::id()));
    let family = CpuFamily::new(CpuOptions { threads: Some(threads), isa: Some(isa) });
    Runtime::builder().family(family).cache(folder).build().device("cpu").unwrap()
}

fn conforms(part: Part) {
    for isa in Isa::available() {
        for threads in [1, 2] {
            let device = device(isa, threads);
            let report = run(&device, &Options { parts: vec![part], ..Options::default() });
            let native = report.rows.iter().all(|r| r.not_native.is_none());
            assert!(report.passed() && native && !report.rows.is_empty(), "{} x {threads}: {report}", isa.name());
        }
    }
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
