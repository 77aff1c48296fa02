//! Every kernel that the conformance suite asks for is well-formed in both languages.

use std::collections::{BTreeMap, HashSet};

use millstream_codegen::{Dialect, Program, Target, generate, supports, variants};
use millstream_core::backend::Support;
use millstream_core::cache::KernelClass;
use millstream_core::how::{Candidate, IndexWidth, Transfer};
use millstream_core::{Access, DType, DeviceKind, DeviceProfile, ExprBuilder, Op, Unary};

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
        matrices: Some(32),
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
        matrix_rates: Vec::new(),
        warp_rates: Vec::new(),
        units: 16,
        lanes: 32,
        registers: 65536,
        shared_memory: 32 << 10,
        max_group: 1024,
        max_bindings: 8,
        max_binding: 1 << 30,
        offset_alignment: 256,
        walks: None,
        launch: 1e-6,
        groups: None,
        unhidden: 0.0,
        unequal: 0.0,
        tolerance: millstream_core::what::Tolerance::GPU,
        channels_last: false,
        batch_columns: 256,
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
        for Candidate { variant, schedule, .. } in variants(&op, target, &profile) {
            if seen.insert((KernelClass::of(&op), variant.clone())) {
                let program = generate(&op, &variant, target).unwrap();
                program.prepare(&op, &schedule).unwrap();
                list.push((op.clone(), variant.to_string(), program));
            }
        }
    }
    list
}

/// The kernel in the language of Metal, and each entry in that of Direct3D; no compiler of theirs has seen it.
fn write_for_others(module: &naga::Module, info: &naga::valid::ModuleInfo) -> Result<(), String> {
    use naga::back::{hlsl, msl};
    // What `wgpu` asks of current devices.
    let options = msl::Options { lang_version: (2, 4), ..Default::default() };
    msl::write_string(module, info, &options, &msl::PipelineOptions::default()).map_err(|e| format!("Metal: {e}"))?;
    let options = hlsl::Options { shader_model: hlsl::ShaderModel::V6_0, ..Default::default() };
    for entry in &module.entry_points {
        let which = hlsl::PipelineOptions { entry_point: Some((entry.stage, entry.name.clone())) };
        let mut text = String::new();
        let written = hlsl::Writer::new(&mut text, &options, &which).write(module, info, None);
        let written = written.map_err(|e| format!("Direct3D: {e}"))?;
        written.entry_point_names.into_iter().collect::<Result<Vec<_>, _>>().map_err(|e| format!("Direct3D: {e}"))?;
    }
    Ok(())
}

#[test]
fn every_wgsl_kernel_is_valid_and_can_be_written_for_metal_and_direct3d() {
    let list = programs(&target(Dialect::Wgsl));
    assert!(list.len() > 500, "{}", list.len());
    let (mut wrong, mut others) = (BTreeMap::new(), 0);
    for (op, label, program) in &list {
        let text = &program.text;
        let checked = naga::front::wgsl::parse_str(text).map_err(|e| e.emit_to_string(text)).and_then(|module| {
            let all = naga::valid::Capabilities::all();
            let info = naga::valid::Validator::new(naga::valid::ValidationFlags::all(), all)
                .validate(&module)
                .map_err(|e| e.emit_to_string(text))?;
            // Neither has f64 through `wgpu`, nor matrices of this size.
            if text.contains("f64") || text.contains("coop_mat") {
                return Ok(());
            }
            others += 1;
            write_for_others(&module, &info)
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
    assert!(others > 400, "{others}");
    let matrices = list.iter().filter(|(_, label, _)| label.starts_with("matrices")).count();
    assert!(matrices > 0, "no kernel for matrix units");
}

#[test]
fn what_32_bits_do_not_reach_is_indexed_by_64_or_refused() {
    let negation = |elements: usize| {
        let (access, mut expr) = (Access::new(DType::F32, &[1]), ExprBuilder::new());
        let x = expr.input(0, DType::F32);
        let y = expr.unary(Unary::Neg, x).unwrap();
        Op::map(&[elements], vec![access.clone()], vec![access], expr.finish(&[y])).unwrap()
    };
    let (large, small) = (negation((1 << 31) + 7), negation(1 << 20));
    let (wgsl, cuda) = (target(Dialect::Wgsl), target(Dialect::Cuda));
    assert!(matches!(supports(&large, &wgsl), Support::No(reason) if reason.contains("32 bits")));
    assert_eq!((supports(&small, &wgsl), supports(&large, &cuda)), (Support::Native, Support::Native));
    for (op, width) in [(&large, IndexWidth::Wide), (&small, IndexWidth::Narrow)] {
        for Candidate { variant, schedule, .. } in variants(op, &cuda, &profile()) {
            assert_eq!(variant.index, width);
            generate(op, &variant, &cuda).unwrap().prepare(op, &schedule).unwrap();
        }
    }
}
