//! The conformance suite on `sim` over the CPU: the same operations, with every value moved to the device and back as with
//! an accelerator whose memory the host cannot address.

use millstream_core::conformance::{Options, Part, run};
use millstream_core::sim::{Sim, SimFamily};
use millstream_core::{Device, Runtime};
use millstream_cpu::{CpuFamily, CpuOptions};

/// A simulated device over the CPU, beside the CPU itself, which is the host.
fn device(sim: &Sim) -> Device {
    let folder = std::env::temp_dir().join(format!("millstream-sim-conformance-{}", std::process::id()));
    let cpu = || CpuFamily::new(CpuOptions { threads: Some(1), isa: None });
    let runtime = Runtime::builder().family(cpu()).family(SimFamily::new(cpu(), "cpu", sim)).cache(folder).build();
    runtime.device("sim").unwrap()
}

mod conformance {
    millstream_core::conformance_tests!(super::device(&super::Sim::new()));
}

#[test]
fn the_suite_really_moves_values_to_the_device_and_back() {
    let sim = Sim::new();
    let report = run(&device(&sim), &Options { parts: vec![Part::Layout], ..Options::default() });
    assert!(report.passed(), "{report}");
    assert!(sim.launches() > 0 && sim.copies() > sim.launches(), "{} {}", sim.launches(), sim.copies());
    assert!(!sim.clock().is_zero());
}
