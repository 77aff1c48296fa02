//! The conformance suite on the first CUDA device. Skipped, with the reason printed, where there is none.

mod common;

use millstream_core::Device;
use millstream_core::conformance::{Options, Part, run};

fn conforms(part: Part) {
    let Some(device) = common::device() else { return };
    check(&device, part);
}

fn check(device: &Device, part: Part) {
    // Every way that the device offers, cuBLASLt included, not only the chosen one, unless a checker makes each one slow.
    let few = std::env::var_os("MILLSTREAM_VARIANTS").is_some();
    let options = Options { parts: vec![part], ..Options::default() };
    let report = run(device, &Options { variants: if few { options.variants } else { 12 }, ..options });
    let native = report.rows.iter().filter(|r| r.not_native.is_none()).count();
    println!("{report}");
    assert!(report.passed() && native > 0, "{report}");
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
