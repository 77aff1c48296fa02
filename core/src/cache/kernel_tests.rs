//! The kernel cache with a backend that only pretends.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::disk_tests::Scratch;
use super::{DiskCache, KernelCache, KernelClass, Origin};
use crate::backend::{Backend, BackendStream, Kernel, Launch, MemoryAt, Priority, Support};
use crate::error::{Error, ErrorKind, Result};
use crate::how::{Candidate, DeviceKind, DeviceProfile, Family, Schedule, Transfer, Variant};
use crate::memory::{MemoryKind, RawMemory, StreamId};
use crate::what::{Access, Binary, DType, ExprBuilder, Op, Scalar, Unary};

/// Kernels are the text of their operation. What it does when asked to compile can be set.
#[derive(Default)]
struct Fake {
    compiled: AtomicUsize,
    loaded: AtomicUsize,
    /// How many of the next compilations fail.
    failing: AtomicU32,
    panicking: AtomicU32,
    refuses_binaries: bool,
    without_bytes: bool,
    delay: Duration,
    /// Compilations that must be under way at the same time before any of them ends.
    together: Option<Gate>,
}

#[derive(Default)]
struct Gate {
    wanted: usize,
    present: Mutex<usize>,
    changed: Condvar,
}

impl Gate {
    /// Whether as many as wanted have met here, within a few seconds.
    fn meet(&self) -> bool {
        let mut present = self.present.lock();
        *present += 1;
        self.changed.notify_all();
        let here = |p: &mut usize| *p < self.wanted;
        !self.changed.wait_while_for(&mut present, here, Duration::from_secs(10)).timed_out()
    }
}

struct FakeKernel(String, bool);

impl Kernel for FakeKernel {
    fn bytes(&self) -> Option<Vec<u8>> {
        self.1.then(|| self.0.clone().into_bytes())
    }

    fn text(&self) -> String {
        self.0.clone()
    }

    fn prepare(&self, _: &Op, _: &Schedule) -> Result<Arc<dyn Launch>> {
        Err(Error::unsupported("pretended"))
    }
}

fn text_of(op: &Op, variant: &Variant) -> String {
    format!("{:?} {variant}", op.body)
}

impl Backend for Fake {
    fn profile(&self) -> DeviceProfile {
        DeviceProfile {
            kind: DeviceKind::Cpu,
            description: String::new(),
            architecture: String::new(),
            driver: String::new(),
            memory: 0,
            levels: Vec::new(),
            rates: Vec::new(),
            matrix_rates: Vec::new(),
            warp_rates: Vec::new(),
            units: 1,
            lanes: 1,
            registers: 0,
            shared_memory: 0,
            max_group: 1,
            max_bindings: 8,
            max_binding: 0,
            offset_alignment: 1,
            walks: None,
            launch: 0.0,
            groups: None,
            unhidden: 0.0,
            unequal: 0.0,
            tolerance: crate::what::Tolerance::CPU,
            channels_last: false,
            batch_columns: 256,
            transfer: Transfer { latency: 0.0, bandwidth: 1.0 },
            features: Vec::new(),
            measured: false,
        }
    }

    fn measure(&self) -> Result<DeviceProfile> {
        Ok(self.profile())
    }

    fn alloc(&self, _: usize, _: MemoryKind) -> Result<RawMemory> {
        Err(Error::unsupported("pretended"))
    }

    fn free(&self, _: RawMemory) {}

    fn import(&self, _: &RawMemory) -> Option<RawMemory> {
        None
    }

    fn copy(&self, _: MemoryAt<'_>, _: MemoryAt<'_>, _: usize, _: &dyn BackendStream) -> Result<()> {
        Err(Error::unsupported("pretended"))
    }

    fn stream(&self, _: StreamId, _: Priority) -> Result<Arc<dyn BackendStream>> {
        Err(Error::unsupported("pretended"))
    }

    fn supports(&self, _: &Op) -> Support {
        Support::Native
    }

    fn variants(&self, _: &Op) -> Vec<Candidate> {
        vec![Candidate::plain(FAKE)]
    }

    fn compile(&self, op: &Op, variant: &Variant) -> Result<Arc<dyn Kernel>> {
        self.compiled.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(self.delay);
        if let Some(gate) = &self.together
            && !gate.meet()
        {
            return Err(Error::compile("the others never came: compilations are not parallel"));
        }
        let due = |n: &AtomicU32| n.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
        assert!(!due(&self.panicking), "pretended panic");
        if due(&self.failing) {
            return Err(Error::compile("pretended").with_code(7));
        }
        Ok(Arc::new(FakeKernel(text_of(op, variant), !self.without_bytes)))
    }

    fn load(&self, _: &Op, _: &Variant, bytes: &[u8]) -> Result<Arc<dyn Kernel>> {
        self.loaded.fetch_add(1, Ordering::SeqCst);
        if self.refuses_binaries {
            return Err(Error::compile("a binary of another driver"));
        }
        let text = String::from_utf8(bytes.to_vec()).map_err(|_| Error::format("no text"))?;
        Ok(Arc::new(FakeKernel(text, true)))
    }
}

/// `x + constant` over so many elements.
fn add(constant: impl Into<Scalar>, len: usize) -> Op {
    let constant = constant.into();
    let mut b = ExprBuilder::new();
    let (x, c) = (b.input(0, constant.dtype()), b.constant(constant));
    let sum = b.binary(Binary::Add, x, c).unwrap();
    let access = || Access::new(constant.dtype(), &[1]);
    Op::map(&[len], vec![access()], vec![access()], b.finish(&[sum])).unwrap()
}

fn unary(unary: Unary) -> Op {
    let mut b = ExprBuilder::new();
    let x = b.input(0, DType::F32);
    let y = b.unary(unary, x).unwrap();
    let access = || Access::new(DType::F32, &[1]);
    Op::map(&[100], vec![access()], vec![access()], b.finish(&[y])).unwrap()
}

const FAKE: Family = Family::new("fake");

fn plain() -> Variant {
    Variant::plain(FAKE)
}

fn no_disk() -> DiskCache {
    DiskCache::off("not needed")
}

#[test]
fn a_kernel_is_made_once_and_serves_every_size() {
    let (cache, fake) = (KernelCache::new(), Fake::default());
    let get = |op: &Op, variant: &Variant| cache.get_or_compile(op, variant, &fake, "id", &no_disk()).unwrap();
    let (first, origin) = get(&add(1.5f32, 100), &plain());
    assert_eq!(origin, Origin::Compiled);
    let (again, origin) = get(&add(1.5f32, 7000), &plain());
    assert_eq!(origin, Origin::Memory);
    assert!(Arc::ptr_eq(&first, &again));
    // Another body, dtype or variant is another kernel.
    for (op, variant) in [
        (add(2.5f32, 100), plain()),
        (add(1.5f64, 100), plain()),
        (add(1.5f32, 100), Variant::plain(Family::new("other"))),
    ] {
        let (kernel, origin) = get(&op, &variant);
        assert_eq!((origin, kernel.text()), (Origin::Compiled, text_of(&op, &variant)));
    }
    let s = cache.statistics();
    assert_eq!((s.memory_hits, s.compiles, s.disk_hits, s.failures, cache.len()), (1, 4, 0, 0, 4));
    let compiled = |family: &'static str, dtype| s.compiled.get(&(Family::new(family), dtype)).copied();
    assert_eq!(compiled("fake", DType::F32), Some(2));
    assert_eq!((compiled("fake", DType::F64), compiled("other", DType::F32)), (Some(1), Some(1)));
    cache.clear();
    assert!(cache.is_empty());
    assert_eq!(get(&add(1.5f32, 100), &plain()).1, Origin::Compiled);
}

#[test]
fn operations_whose_keys_collide_do_not_share_a_kernel() {
    let (cache, fake) = (KernelCache::new(), Fake::default());
    let mut guarded = add(1f32, 100);
    guarded.inputs[0].strides[0] = 2;
    let ops = [add(1f32, 100), add(2f32, 100), unary(Unary::Exp), guarded];
    for origin in [Origin::Compiled, Origin::Memory] {
        for op in &ops {
            let (kernel, from) = cache.with_pretended_key(op, &plain(), &fake, 42).unwrap();
            assert_eq!((from, kernel.text()), (origin, text_of(op, &plain())));
        }
    }
    assert_eq!(cache.len(), 4);
}

#[test]
fn classes_differ_exactly_where_kernels_may() {
    let class = |change: &dyn Fn(&mut Op)| {
        let mut op = add(1f32, 100);
        change(&mut op);
        KernelClass::of(&op)
    };
    let base = class(&|_| {});
    assert_eq!(base, class(&|op| op.dims[0] = 5));
    assert_eq!(base, class(&|op| op.inputs[0].base = 3), "where an operand begins is a parameter");
    let other = class(&|op| op.inputs[0].strides[0] = 7);
    assert_eq!(other, class(&|op| op.inputs[0].strides[0] = -3));
    let none = class(&|op| op.inputs[0].strides[0] = 0);
    assert_eq!(none, class(&|op| (op.inputs[0].strides[0], op.outputs[0].strides[0]) = (0, 1)));
    let classes = [base, other, none, class(&|op| op.outputs[0].strides[0] = 7), class(&|op| op.dims[0] = 1)];
    for (i, a) in classes.iter().enumerate() {
        assert!(classes[i + 1..].iter().all(|b| a != b), "{a:?}");
    }
}

#[test]
fn a_class_knows_where_guards_look_and_holds_no_size() {
    use crate::what::Guard;
    let windows = |size: usize, looks: [isize; 2], limit: usize| {
        let mut b = ExprBuilder::new();
        let x = b.input(0, DType::F32);
        let mut input = Access::new(DType::F32, &[size as isize, 1]);
        input.guards.push(Guard { coefficients: looks.as_slice().into(), offset: -(size as isize), limit });
        let output = Access::new(DType::F32, &[size as isize, 1]);
        Op::map(&[size, size], vec![input], vec![output], b.finish(&[x])).unwrap()
    };
    let base = windows(100, [1, 0], 100);
    let class = KernelClass::of(&base);
    for other in [windows(7, [1, 0], 3), windows(100, [-5, 0], 9)] {
        assert!(class.holds(&other) && KernelClass::key(&other) == KernelClass::key(&base));
    }
    for other in [windows(100, [0, 1], 100), windows(100, [1, 1], 100), windows(1, [1, 0], 100)] {
        assert!(!class.holds(&other) && class != KernelClass::of(&other));
        assert_ne!(KernelClass::key(&other), KernelClass::key(&base));
    }
    assert_eq!(format!("{class:?}"), format!("{:?}", KernelClass::of(&windows(12_345, [3, 0], 678))));
}

#[test]
fn threads_that_want_the_same_kernel_wait_for_the_one_that_makes_it() {
    let (cache, fake) = (KernelCache::new(), Fake { delay: Duration::from_millis(50), ..Fake::default() });
    let (op, start) = (add(1f32, 100), Barrier::new(8));
    let kernels: Vec<_> = std::thread::scope(|scope| {
        let ask = || {
            start.wait();
            cache.get_or_compile(&op, &plain(), &fake, "id", &no_disk()).unwrap()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(fake.compiled.load(Ordering::SeqCst), 1);
    assert_eq!(kernels.iter().filter(|(_, o)| *o == Origin::Compiled).count(), 1);
    assert!(kernels.iter().all(|(k, _)| Arc::ptr_eq(k, &kernels[0].0)));
    let s = cache.statistics();
    assert_eq!((s.memory_hits, s.compiles), (7, 1));
    assert!(s.compile_seconds >= 0.05 && s.compile_seconds < 5.0);
}

#[test]
fn a_failure_reaches_all_who_waited_and_the_next_call_tries_again() {
    let op = add(1f32, 100);
    // A thread that comes only after the failure tries again, with success; several rounds, until none did.
    let all_failed = (0..20).any(|_| {
        let fake = Fake { delay: Duration::from_millis(50), failing: AtomicU32::new(1), ..Fake::default() };
        let (cache, start) = (KernelCache::new(), Barrier::new(4));
        let ask = || {
            start.wait();
            cache.get_or_compile(&op, &plain(), &fake, "id", &no_disk()).err()
        };
        let errors: Vec<Error> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().filter_map(|t| t.join().unwrap()).collect()
        });
        assert!(errors.iter().all(|e| (e.kind(), e.code()) == (ErrorKind::Compile, Some(7))));
        assert_eq!(cache.statistics().failures, 1);
        assert!(cache.get_or_compile(&op, &plain(), &fake, "id", &no_disk()).is_ok());
        assert_eq!((cache.statistics().compiles, cache.len()), (1, 1));
        errors.len() == 4
    });
    assert!(all_failed);
}

#[test]
fn a_backend_that_panics_leaves_nobody_waiting() {
    let fake = Fake { delay: Duration::from_millis(100), panicking: AtomicU32::new(1), ..Fake::default() };
    let (cache, op) = (KernelCache::new(), add(1f32, 100));
    std::thread::scope(|scope| {
        let ask = || cache.get_or_compile(&op, &plain(), &fake, "id", &no_disk());
        let first = scope.spawn(ask);
        while fake.compiled.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(ask().err().map(|e| e.kind()), Some(ErrorKind::Internal), "the second waited for the first");
        assert!(first.join().is_err());
        assert!(ask().is_ok());
    });
}

#[test]
fn several_kernels_are_made_in_parallel_and_returned_in_order() {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(4);
    let fake = Fake { together: Some(Gate { wanted: threads, ..Gate::default() }), ..Fake::default() };
    let (cache, variant) = (KernelCache::new(), plain());
    let ops: Vec<Op> = (0..12).map(|i| add(i % 8, 100)).collect();
    let list: Vec<_> = ops.iter().map(|op| (op, &variant)).collect();
    let made = cache.compile_each(&list, &fake, "id", &no_disk());
    for (op, made) in ops.iter().zip(&made) {
        assert_eq!(made.as_ref().unwrap().0.text(), text_of(op, &variant));
    }
    assert_eq!(fake.compiled.load(Ordering::SeqCst), 8, "those that occur twice are made once");
    let made = cache.compile_each(&list, &fake, "id", &no_disk());
    assert!(made.into_iter().all(|m| m.unwrap().1 == Origin::Memory));
    assert!(cache.compile_each(&[], &fake, "id", &no_disk()).is_empty());
}

#[test]
fn those_that_fail_among_several_spoil_no_other() {
    let (cache, variant) = (KernelCache::new(), plain());
    let fake = Fake { failing: AtomicU32::new(3), ..Fake::default() };
    let ops: Vec<Op> = (0..10).map(|i| add(i, 100)).collect();
    let list: Vec<_> = ops.iter().map(|op| (op, &variant)).collect();
    let made = cache.compile_each(&list, &fake, "id", &no_disk());
    assert_eq!(made.iter().filter(|m| m.is_err()).count(), 3);
    assert!(cache.compile_all(&list, &fake, "id", &no_disk()).is_ok());
    assert_eq!(cache.statistics().compiles, 10);
    fake.failing.store(1, Ordering::SeqCst);
    let error = cache.compile_all(&[(&add(99, 100), &variant)], &fake, "id", &no_disk()).unwrap_err();
    assert_eq!(error.code(), Some(7));
}

#[test]
fn the_next_process_finds_the_kernel_on_disk() {
    let scratch = Scratch::new();
    let op = add(1f32, 100);
    let run = |op: &Op, identity: &str| {
        let (cache, fake) = (KernelCache::new(), Fake::default());
        let (kernel, origin) = cache.get_or_compile(op, &plain(), &fake, identity, &scratch.cache()).unwrap();
        assert_eq!(kernel.text(), text_of(op, &plain()));
        origin
    };
    assert_eq!(run(&op, "driver 1"), Origin::Compiled);
    assert_eq!(run(&op, "driver 1"), Origin::Disk);
    assert_eq!(run(&add(1f32, 9), "driver 1"), Origin::Disk, "sizes are no part of a kernel");
    assert_eq!(run(&op, "driver 2"), Origin::Compiled);
    assert_eq!(run(&add(2f32, 100), "driver 1"), Origin::Compiled);
    // Two NaNs look alike as text and are not.
    let nan = |bits: u32| add(f32::from_bits(bits), 100);
    assert_eq!(run(&nan(0x7fc0_0000), "driver 1"), Origin::Compiled);
    assert_eq!(run(&nan(0x7fc0_0001), "driver 1"), Origin::Compiled);
    assert_eq!(run(&nan(0x7fc0_0000), "driver 1"), Origin::Disk);
}

#[test]
fn a_binary_that_the_device_refuses_is_replaced() {
    let scratch = Scratch::new();
    let op = add(1f32, 100);
    let run = |refuses_binaries| {
        let (cache, fake) = (KernelCache::new(), Fake { refuses_binaries, ..Fake::default() });
        let (_, origin) = cache.get_or_compile(&op, &plain(), &fake, "id", &scratch.cache()).unwrap();
        (origin, cache.statistics().refused, fake.loaded.load(Ordering::SeqCst))
    };
    assert_eq!(run(false), (Origin::Compiled, 0, 0));
    let file = std::fs::read_dir(&scratch.0).unwrap().next().unwrap().unwrap().path();
    let before = std::fs::metadata(&file).unwrap().modified().unwrap() - Duration::from_secs(10);
    std::fs::File::options().write(true).open(&file).unwrap().set_modified(before).unwrap();
    assert_eq!(run(true), (Origin::Compiled, 1, 1));
    assert_ne!(std::fs::metadata(&file).unwrap().modified().unwrap(), before, "it was written again");
    assert_eq!(run(false), (Origin::Disk, 0, 1));
}

#[test]
fn a_disk_that_does_not_work_changes_nothing() {
    let scratch = Scratch::new();
    std::fs::write(&scratch.0, b"a file where the folder should be").unwrap();
    let (cache, fake, disk) = (KernelCache::new(), Fake::default(), scratch.cache());
    for origin in [Origin::Compiled, Origin::Memory] {
        assert_eq!(cache.get_or_compile(&add(1f32, 9), &plain(), &fake, "id", &disk).unwrap().1, origin);
    }
    assert!(disk.statistics().errors > 0);
}

#[test]
fn without_an_identity_or_bytes_nothing_is_written() {
    let scratch = Scratch::new();
    let disk = scratch.cache();
    let cache = KernelCache::new();
    cache.get_or_compile(&add(1f32, 9), &plain(), &Fake::default(), "", &disk).unwrap();
    assert_eq!(disk.statistics().misses, 0, "nor looked for");
    let fake = Fake { without_bytes: true, ..Fake::default() };
    cache.get_or_compile(&add(2f32, 9), &plain(), &fake, "id", &disk).unwrap();
    cache.get_or_compile(&add(3f32, 9), &plain(), &fake, "id", &disk).unwrap();
    let s = disk.statistics();
    assert_eq!((s.writes, s.misses), (0, 1), "such a family is looked for once");
    assert!(!scratch.0.exists());
    // Should one of them have bytes after all, they are kept, and the family is looked for again.
    cache.get_or_compile(&add(4f32, 9), &plain(), &Fake::default(), "id", &disk).unwrap();
    cache.get_or_compile(&add(5f32, 9), &plain(), &Fake::default(), "id", &disk).unwrap();
    let s = disk.statistics();
    assert_eq!((s.writes, s.misses), (2, 2));
}

#[test]
fn ever_new_kernels_do_not_fill_the_memory() {
    let (cache, fake) = (KernelCache::new(), Fake::default());
    let mut held = HashMap::new();
    for i in 0..3 * KernelCache::CROWDED as i64 {
        let (kernel, _) = cache.get_or_compile(&add(i, 9), &plain(), &fake, "", &no_disk()).unwrap();
        if i % 100 == 0 {
            held.insert(i, kernel);
        }
    }
    assert!(cache.len() <= KernelCache::CROWDED + held.len());
    for (i, kernel) in &held {
        let (again, origin) = cache.get_or_compile(&add(*i, 9), &plain(), &fake, "", &no_disk()).unwrap();
        assert!(origin == Origin::Memory && Arc::ptr_eq(kernel, &again), "what is in use stays");
    }
}

#[test]
fn the_cache_can_be_shared() {
    fn shared<T: Send + Sync + Any>() {}
    shared::<KernelCache>();
    shared::<DiskCache>();
}
