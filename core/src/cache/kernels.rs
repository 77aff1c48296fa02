//! The compiled kernels of one device.
//!
//! Promises:
//! - A kernel that several threads ask for at once is made once; the others wait. Different kernels are made in parallel.
//! - A kernel serves exactly the operations of its [`KernelClass`]: classes are compared in full, since two of them can
//!   have the same 64-bit key.
//! - A failure is returned to all who waited, and not remembered: the next call tries again.
//! - A binary from disk that the device refuses is replaced by a newly compiled one. The disk itself can never fail a call.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::{Condvar, Mutex, RwLock};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use super::class::KernelClass;
use super::disk::DiskCache;
use crate::backend::{Backend, Kernel};
use crate::error::{Error, Result};
use crate::how::{Family, Variant};
use crate::what::{Body, DType, Node, Op};

/// Where a kernel came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// It was there, or another thread was just making it.
    Memory,
    /// Its binary was on disk.
    Disk,
    /// It was compiled.
    Compiled,
}

/// What a [`KernelCache`] has done so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelStatistics {
    /// Kernels that were there already.
    pub memory_hits: u64,
    /// Kernels made from a binary on disk.
    pub disk_hits: u64,
    /// Kernels compiled.
    pub compiles: u64,
    /// Compilations that failed.
    pub failures: u64,
    /// Binaries on disk that the device refused.
    pub refused: u64,
    /// Seconds spent compiling, of all threads together.
    pub compile_seconds: f64,
    /// Kernels compiled for each family and dtype: that of a contraction's sums, else of the first output.
    pub compiled: BTreeMap<(Family, DType), u64>,
}

/// The compiled kernels of one device. See the module for what it promises.
///
/// One cache serves one device, for as long as that device is open: kernels of two devices must not meet in it, even if
/// the devices are alike.
#[derive(Default)]
pub struct KernelCache {
    map: RwLock<Map>,
    /// Families whose last compiled kernel had no bytes: not worth a look at the disk.
    without_bytes: RwLock<Vec<Family>>,
    counts: Counts,
}

#[derive(Default)]
struct Map {
    buckets: FxHashMap<u64, SmallVec<[Entry; 1]>>,
    len: usize,
    /// The number of entries at which unused ones are next looked for; 0 stands for the first such number.
    crowded: usize,
}

struct Entry {
    class: KernelClass,
    variant: Variant,
    identity: Box<str>,
    slot: Arc<Slot>,
}

#[derive(Default)]
struct Counts {
    memory_hits: AtomicU64,
    disk_hits: AtomicU64,
    compiles: AtomicU64,
    failures: AtomicU64,
    refused: AtomicU64,
    nanoseconds: AtomicU64,
    compiled: Mutex<BTreeMap<(Family, DType), u64>>,
}

/// A kernel that is there, or being made.
#[derive(Default)]
struct Slot {
    kernel: OnceLock<Arc<dyn Kernel>>,
    /// The failure, where there will be no kernel.
    failure: Mutex<Option<Error>>,
    settled: Condvar,
}

impl Slot {
    /// Waits for the thread that makes the kernel.
    fn wait(&self) -> Result<Arc<dyn Kernel>> {
        let mut failure = self.failure.lock();
        loop {
            if let Some(kernel) = self.kernel.get() {
                return Ok(kernel.clone());
            }
            if let Some(error) = &*failure {
                return Err(error.clone());
            }
            self.settled.wait(&mut failure);
        }
    }
}

/// One kernel asked for.
struct Request<'a> {
    op: &'a Op,
    variant: &'a Variant,
    identity: &'a str,
    hash: u64,
}

impl<'a> Request<'a> {
    fn new(op: &'a Op, variant: &'a Variant, identity: &'a str, key: u64) -> Request<'a> {
        let mut hasher = FxHasher::default();
        (key, variant).hash(&mut hasher);
        Request { op, variant, identity, hash: hasher.finish() }
    }

    fn is(&self, entry: &Entry) -> bool {
        *entry.identity == *self.identity && entry.variant == *self.variant && entry.class.holds(self.op)
    }

    /// The name of the kernel on disk: text that differs wherever kernels may differ.
    fn disk_key(&self) -> Vec<u8> {
        use std::fmt::Write;
        let class = KernelClass::of(self.op);
        let (version, length) = (env!("CARGO_PKG_VERSION"), self.identity.len());
        let mut text = format!("kernel 2, {version}\n{length}:{}\n{:?}\n{class:?}\n", self.identity, self.variant);
        // Several constants look alike as text: every NaN does.
        for (node, _) in self.op.exprs().flat_map(|e| e.nodes()) {
            if let Node::Const(scalar) = node {
                let _ = write!(text, " {:032x}", u128::from_ne_bytes(scalar.bytes()));
            }
        }
        text.into_bytes()
    }
}

/// A kernel and where it came from, or why there is none.
pub type Made = Result<(Arc<dyn Kernel>, Origin)>;

impl KernelCache {
    /// How many kernels it keeps that nobody else holds, before it lets such kernels go.
    pub const CROWDED: usize = 4096;

    /// An empty cache.
    pub fn new() -> KernelCache {
        KernelCache::default()
    }

    /// The kernel that computes operations like this one in this way.
    ///
    /// `identity` names all else that the compiled bytes depend on: driver, architecture, options, the version of the code
    /// generator. Where it is empty the disk is not asked (a device whose kernels have no bytes).
    pub fn get_or_compile(
        &self,
        op: &Op,
        variant: &Variant,
        backend: &dyn Backend,
        identity: &str,
        disk: &DiskCache,
    ) -> Made {
        self.obtain(&Request::new(op, variant, identity, KernelClass::key(op)), backend, disk)
    }

    /// Makes all kernels of the list that are missing, in parallel, so that none is compiled when it is needed. All are
    /// tried; the error is the first one's in the order of the list.
    pub fn compile_all(
        &self,
        list: &[(&Op, &Variant)],
        backend: &dyn Backend,
        identity: &str,
        disk: &DiskCache,
    ) -> Result<()> {
        self.compile_each(list, backend, identity, disk).into_iter().try_for_each(|made| made.map(drop))
    }

    /// As [`KernelCache::compile_all`], with the result of each, in the order of the list.
    pub fn compile_each(
        &self,
        list: &[(&Op, &Variant)],
        backend: &dyn Backend,
        identity: &str,
        disk: &DiskCache,
    ) -> Vec<Made> {
        let requests: Vec<Request<'_>> =
            list.iter().map(|(op, variant)| Request::new(op, variant, identity, KernelClass::key(op))).collect();
        let mut results: Vec<Option<Made>> = requests.iter().map(|r| self.ready(r).map(Ok)).collect();
        let missing: Vec<usize> = (0..results.len()).filter(|&i| results[i].is_none()).collect();
        let next = AtomicUsize::new(0);
        let shared = Mutex::new(&mut results);
        let work = || {
            while let Some(&at) = missing.get(next.fetch_add(1, Relaxed)) {
                let made = self.obtain(&requests[at], backend, disk);
                shared.lock()[at] = Some(made);
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(missing.len());
        std::thread::scope(|scope| {
            let helpers: Vec<_> = (1..threads)
                // Where no thread can be had, the others do its work.
                .map_while(|_| std::thread::Builder::new().name("compile".into()).spawn_scoped(scope, work).ok())
                .collect();
            work();
            for helper in helpers {
                // A panic there has left its result empty, which is reported below.
                let _ = helper.join();
            }
        });
        let lost = || Err(Error::internal("a thread that compiled a kernel panicked"));
        results.into_iter().map(|made| made.unwrap_or_else(lost)).collect()
    }

    /// How many kernels there are, those being made included.
    pub fn len(&self) -> usize {
        self.map.read().len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all kernels. Who holds one keeps it; who waits for one gets it.
    pub fn clear(&self) {
        *self.map.write() = Map::default();
    }

    /// What it has done so far.
    pub fn statistics(&self) -> KernelStatistics {
        let c = &self.counts;
        KernelStatistics {
            memory_hits: c.memory_hits.load(Relaxed),
            disk_hits: c.disk_hits.load(Relaxed),
            compiles: c.compiles.load(Relaxed),
            failures: c.failures.load(Relaxed),
            refused: c.refused.load(Relaxed),
            compile_seconds: c.nanoseconds.load(Relaxed) as f64 * 1e-9,
            compiled: c.compiled.lock().clone(),
        }
    }

    /// The kernel if it needs no waiting.
    fn ready(&self, request: &Request<'_>) -> Option<(Arc<dyn Kernel>, Origin)> {
        let kernel = self.map.read().find(request)?.kernel.get()?.clone();
        self.counts.memory_hits.fetch_add(1, Relaxed);
        Some((kernel, Origin::Memory))
    }

    fn obtain(&self, request: &Request<'_>, backend: &dyn Backend, disk: &DiskCache) -> Made {
        if let Some(made) = self.ready(request) {
            return Ok(made);
        }
        let (slot, mine) = self.map.write().find_or_insert(request);
        if !mine {
            let kernel = slot.wait()?;
            self.counts.memory_hits.fetch_add(1, Relaxed);
            return Ok((kernel, Origin::Memory));
        }
        let mut duty = Duty { cache: self, hash: request.hash, slot, failure: None };
        let on_disk = disk.is_on() && !request.identity.is_empty();
        let family = &request.variant.family;
        let key = (on_disk && !self.without_bytes.read().contains(family)).then(|| request.disk_key());
        match self.make(request, backend, disk, key.as_deref()) {
            Ok((kernel, origin)) => {
                let _ = duty.slot.kernel.set(kernel.clone());
                drop(duty);
                // After the others were woken: they need not wait for the disk.
                if on_disk && origin == Origin::Compiled {
                    if let Some(bytes) = kernel.bytes() {
                        disk.put(&key.unwrap_or_else(|| request.disk_key()), &bytes);
                        self.without_bytes.write().retain(|f| f != family);
                    } else if key.is_some() {
                        self.without_bytes.write().push(family.clone());
                    }
                }
                Ok((kernel, origin))
            }
            Err(error) => {
                duty.failure = Some(error.clone());
                Err(error)
            }
        }
    }

    fn make(&self, request: &Request<'_>, backend: &dyn Backend, disk: &DiskCache, key: Option<&[u8]>) -> Made {
        if let Some(bytes) = key.and_then(|key| disk.get(key)) {
            if let Ok(kernel) = backend.load(request.op, request.variant, &bytes) {
                self.counts.disk_hits.fetch_add(1, Relaxed);
                return Ok((kernel, Origin::Disk));
            }
            self.counts.refused.fetch_add(1, Relaxed);
        }
        let begin = now();
        let made = backend.compile(request.op, request.variant);
        let nanoseconds = begin.map_or(0, |t| t.elapsed().as_nanos() as u64);
        self.counts.nanoseconds.fetch_add(nanoseconds, Relaxed);
        match &made {
            Ok(_) => {
                self.counts.compiles.fetch_add(1, Relaxed);
                let dtype = match &request.op.body {
                    Body::Contract(c) => c.acc,
                    _ => request.op.outputs.first().map_or(DType::F32, |a| a.dtype),
                };
                *self.counts.compiled.lock().entry((request.variant.family.clone(), dtype)).or_default() += 1;
            }
            Err(_) => {
                self.counts.failures.fetch_add(1, Relaxed);
            }
        }
        made.map(|kernel| (kernel, Origin::Compiled))
    }
}

/// The time, where the platform has a clock.
fn now() -> Option<Instant> {
    if cfg!(all(target_family = "wasm", target_os = "unknown")) { None } else { Some(Instant::now()) }
}

impl Map {
    fn find(&self, request: &Request<'_>) -> Option<&Arc<Slot>> {
        self.buckets.get(&request.hash)?.iter().find(|e| request.is(e)).map(|e| &e.slot)
    }

    /// The slot, and whether it is new: then the caller must fill it.
    fn find_or_insert(&mut self, request: &Request<'_>) -> (Arc<Slot>, bool) {
        if let Some(slot) = self.find(request) {
            return (slot.clone(), false);
        }
        if self.len >= self.crowded.max(KernelCache::CROWDED) {
            self.drop_unused();
        }
        let slot = Arc::new(Slot::default());
        self.buckets.entry(request.hash).or_default().push(Entry {
            class: KernelClass::of(request.op),
            variant: request.variant.clone(),
            identity: request.identity.into(),
            slot: slot.clone(),
        });
        self.len += 1;
        (slot, true)
    }

    /// Lets kernels go that nobody else holds. A program that makes ever new kernels must not fill the memory with them.
    fn drop_unused(&mut self) {
        self.buckets.retain(|_, bucket| {
            // No kernel yet: somebody is making it.
            bucket.retain(|e| e.slot.kernel.get().is_none_or(|k| Arc::strong_count(k) > 1));
            !bucket.is_empty()
        });
        self.len = self.buckets.values().map(SmallVec::len).sum();
        self.crowded = 2 * self.len;
    }

    fn remove(&mut self, hash: u64, slot: &Arc<Slot>) {
        let Some(bucket) = self.buckets.get_mut(&hash) else { return };
        let before = bucket.len();
        bucket.retain(|e| !Arc::ptr_eq(&e.slot, slot));
        self.len -= before - bucket.len();
        if bucket.is_empty() {
            self.buckets.remove(&hash);
        }
    }
}

/// The duty to settle a slot, whatever happens: nobody may wait for ever, even if a backend panics.
struct Duty<'a> {
    cache: &'a KernelCache,
    hash: u64,
    slot: Arc<Slot>,
    failure: Option<Error>,
}

impl Drop for Duty<'_> {
    fn drop(&mut self) {
        if self.slot.kernel.get().is_none() {
            let error = self.failure.take();
            let error = error.unwrap_or_else(|| Error::internal("the backend panicked while it made a kernel"));
            // Removed before it fails: whoever asks from now on tries again.
            self.cache.map.write().remove(self.hash, &self.slot);
            *self.slot.failure.lock() = Some(error);
        } else {
            // Between a waiter's look at the slot and its sleep it holds this lock.
            drop(self.slot.failure.lock());
        }
        self.slot.settled.notify_all();
    }
}

#[cfg(test)]
impl KernelCache {
    /// As [`KernelCache::get_or_compile`], for an operation whose key is pretended to be `key`.
    pub(super) fn with_pretended_key(&self, op: &Op, variant: &Variant, backend: &dyn Backend, key: u64) -> Made {
        self.obtain(&Request::new(op, variant, "", key), backend, &DiskCache::off("not needed"))
    }
}
