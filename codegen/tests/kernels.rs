//! Every kernel that the conformance suite asks for is well-formed in both languages.

use std::collections::{BTreeMap, HashSet};

use millstream_codegen::{Dialect, Program, Target, generate, supports, variants};
use millstream_core::backend::Support;
use millstream_core::how::Transfer;
use millstream_core::{DeviceKind, DeviceProfile, Op};

fn target(dialect: Dialect) -> Target {
    Target {
        dialect,
        float64: true,
        int64: true,
        max_group: 1024,
        max_grid: 65535,
        shared_memory: 32 << 10,
        max_buffers: 8,
        units: 16,
    }
}

/// The profile only orders the ways to compute: any will do.
fn profile() -> DeviceProfile {
    DeviceProfile {
        kind: DeviceKind::Vulkan,
        description: String::new(),
        architecture: String::new(),
        driver: String::new(),
        memory: 1 << 30,
        levels: Vec::new(),
        rates: Vec::new(),
        units: 16,
        lanes: 32,
        registers: 65536,
        shared_memory: 32 << 10,
        max_group: 1024,
        max_bindings: 8,
        max_binding: 1 << 30,
        offset_alignment: 256,
        launch: 1e-6,
        transfer: Transfer { latency: 1e-5, bandwidth: 1e10 },
        features: Vec::new(),
        measured: false,
    }
}

fn programs(target: &Target) -> Vec<(Op, String, Program)> {
    let profile = profile();
    let mut seen = HashSet::new();
    let mut list = Vec::new();
    for op in millstream_core::conformance::ops(1).unwrap() {
        if supports(&op, target) != Support::Native {
            continue;
        }
        for variant in variants(&op, target, &profile) {
            if seen.insert((op.kernel_key(), variant.clone())) {
                let program = generate(&op, &variant, target).unwrap();
                program.prepare(&op).unwrap();
                list.push((op.clone(), variant.label(), program));
            }
        }
    }
    list
}

#[test]
fn every_wgsl_kernel_is_valid() {
    let list = programs(&target(Dialect::Wgsl));
    assert!(list.len() > 500, "{}", list.len());
    let mut wrong = BTreeMap::new();
    for (op, label, program) in &list {
        let text = &program.text;
        let checked = naga::front::wgsl::parse_str(text).map_err(|e| e.emit_to_string(text)).and_then(|module| {
            let all = naga::valid::Capabilities::all();
            naga::valid::Validator::new(naga::valid::ValidationFlags::all(), all)
                .validate(&module)
                .map_err(|e| e.emit_to_string(text))
        });
        if let Err(why) = checked {
            let first = why.lines().next().unwrap_or_default().to_string();
            wrong.entry(first).or_insert_with(|| (0, format!("{label}: {why}\n{text}\n{op:?}"))).0 += 1;
        }
    }
    for (why, (count, example)) in &wrong {
        println!("{count} times {why}");
        if std::env::var("MILLSTREAM_SHOW").is_ok() {
            println!("{example}");
        }
    }
    assert!(
        wrong.is_empty(),
        "{} kinds of errors in {} kernels; MILLSTREAM_SHOW=1 shows examples",
        wrong.len(),
        list.len()
    );
}
