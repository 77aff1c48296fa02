//! Every kernel of the conformance suite compiles for every architecture, without a GPU.
//!
//! NVRTC is found as the backend finds it; `MILLSTREAM_NVRTC` may name its file. There are thousands of kernels, a tenth of a
//! second each for each architecture: an ordinary run takes a fresh sample of them, with every family; `MILLSTREAM_KERNELS=all`,
//! which CI sets, takes all for all. Of a compilation's time a third goes by before the compiler has looked at the text, so kernels are compiled in
//! batches.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_core::cache::stable_hash;
use millstream_core::conformance::{Options, ops};
use millstream_core::{ErrorKind, testing};
use millstream_cuda::{CompileOptions, CudaProperties, compile, nvrtc_version, programs};

/// The compiler, or `None` with the reason printed; a failure where it is required.
fn has_compiler() -> bool {
    match nvrtc_version() {
        Ok(_) => true,
        Err(error) => {
            assert!(!testing::is_required("cuda"), "{error}");
            testing::missing("nvrtc", &error);
            false
        }
    }
}

/// A device of this architecture, as far as kernels depend on it.
fn device(capability: (u32, u32)) -> CudaProperties {
    CudaProperties {
        capability,
        multiprocessors: 132,
        warp: 32,
        max_group: 1024,
        max_threads: 2048,
        clock: 1_500_000_000,
        memory: 16 << 30,
        l2: 40 << 20,
        memory_clock: 2_000_000_000,
        memory_bus: 4096,
        shared_multiprocessor: 96 << 10,
        ..CudaProperties::default()
    }
}

/// The most kernels of one family in a sample.
const SAMPLE: usize = 8;

/// The architectures.
const CAPABILITIES: [(u32, u32); 3] = [(7, 5), (8, 0), (9, 0)];

/// The seed of all tests of this run, so that they see the same kernels.
fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| Options::default().seed)
}

/// The kernels to compile: all, or some of each family.
fn chosen(texts: HashMap<String, String>) -> Vec<(String, String)> {
    let seed = seed();
    let mut list: Vec<(String, String)> = texts.into_iter().collect();
    if std::env::var("MILLSTREAM_KERNELS").is_ok_and(|which| which == "all") {
        return list;
    }
    // In the seed's order: another one every time.
    list.sort_by_cached_key(|(text, _)| stable_hash(format!("{seed} {text}").as_bytes()));
    let mut taken: HashMap<String, usize> = HashMap::new();
    list.retain(|(_, label)| {
        // The words before the numbers of the tile.
        let family: String = label.chars().filter(|c| !c.is_ascii_digit()).collect();
        let count = taken.entry(family).or_default();
        *count += 1;
        *count <= SAMPLE
    });
    list
}

/// Kernels that are compiled together.
const BATCH: usize = 16;

/// These texts as one: each in a namespace of its own, behind the beginning that they share. `None` for texts that begin unlike.
fn together(batch: &[(String, String)]) -> Option<String> {
    let parts = |text: &'_ str| text.find("typedef i32 idx;").or_else(|| text.find("typedef i64 idx;"));
    let first = &batch.first()?.0;
    let beginning = &first[..parts(first)?];
    let mut all = beginning.to_string();
    for (n, (text, _)) in batch.iter().enumerate() {
        let own = text.strip_prefix(beginning)?;
        // Names of C functions are the same in every namespace.
        all += &format!("namespace kernel_{n} {{\n{}\n}}\n", own.replace("extern \"C\" ", ""));
    }
    Some(all)
}

/// The texts of a batch that do not compile, with what the compiler says.
fn failures(batch: &[(String, String)], architecture: &str) -> Vec<String> {
    let options = CompileOptions { hasty: true, ..CompileOptions::default() };
    let good = |text: &str| compile(text, architecture, &options).map(|b| assert!(b.is_native && !b.bytes.is_empty()));
    let all = together(batch).expect("invariant: all kernels of a dialect begin alike");
    if good(&all).is_ok() {
        return Vec::new();
    }
    let alone = batch.iter().filter_map(|(text, label)| Some(format!("{label}: {}\n{text}", good(text).err()?)));
    let list: Vec<String> = alone.collect();
    // A batch that fails although each text alone compiles is a fault of the batch.
    if list.is_empty() { vec![format!("a batch of {}: {}", batch.len(), good(&all).unwrap_err())] } else { list }
}

fn conforms(capability: (u32, u32)) {
    if !has_compiler() {
        return;
    }
    let seed = seed();
    let properties = device(capability);
    // Operations share kernels: one text is compiled once.
    let mut texts: HashMap<String, String> = HashMap::new();
    let mut count = 0;
    for op in ops(seed).unwrap() {
        count += 1;
        for (label, program) in programs(&op, &properties).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{op:?}")) {
            texts.entry(program.text.clone()).or_insert_with(|| format!("{} as {label}", op.name()));
        }
    }
    let all = texts.len();
    assert!(all > 100, "only {all} kernels of {count} operations");
    let list = chosen(texts);
    let batches: Vec<&[(String, String)]> = list.chunks(BATCH).collect();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let failures: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut failed = Vec::new();
                    while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                        failed.extend(failures(batch, &properties.architecture()));
                    }
                    failed
                })
            })
            .collect();
        workers.into_iter().flat_map(|w| w.join().unwrap()).collect()
    });
    println!("{}: {} of {all} kernels of {count} operations, seed {seed}", properties.architecture(), list.len());
    if let Some(first) = failures.first() {
        panic!("seed {seed}: {} of {} kernels do not compile; the first:\n{first}", failures.len(), list.len());
    }
}

#[test]
fn every_kernel_of_the_suite_compiles_for_turing() {
    conforms(CAPABILITIES[0]);
}

#[test]
fn every_kernel_of_the_suite_compiles_for_ampere() {
    conforms(CAPABILITIES[1]);
}

#[test]
fn every_kernel_of_the_suite_compiles_for_hopper() {
    conforms(CAPABILITIES[2]);
}

#[test]
fn the_kernels_that_measure_compile_and_options_are_heeded() {
    if !has_compiler() {
        return;
    }
    let text = include_str!("../src/measure.cu");
    let plain = compile(text, "sm_90", &CompileOptions::default()).unwrap();
    let lines = CompileOptions { line_info: true, max_registers: Some(32), hasty: false };
    let with_lines = compile(text, "sm_90", &lines).unwrap();
    assert!(plain.is_native && plain.bytes.starts_with(b"\x7fELF"));
    assert!(with_lines.bytes.len() > plain.bytes.len());
}

#[test]
fn a_text_that_does_not_compile_shows_the_compilers_log() {
    if !has_compiler() {
        return;
    }
    let error = compile("extern \"C\" __global__ void k() { no_such_thing(); }", "sm_80", &CompileOptions::default());
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Compile);
    assert!(error.to_string().contains("no_such_thing"), "{error}");
    let error = compile("", "sm_x", &CompileOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
}

#[test]
fn a_gpu_newer_than_the_compiler_gets_ptx() {
    if !has_compiler() {
        return;
    }
    let binary = compile("extern \"C\" __global__ void k() {}", "sm_999", &CompileOptions::default()).unwrap();
    assert!(!binary.is_native && binary.bytes.ends_with(b"\0"));
    assert!(String::from_utf8_lossy(&binary.bytes).contains(".target"));
}
