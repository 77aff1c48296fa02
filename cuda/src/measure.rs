//! What a device really gives: measured by kernels and copies of our own. Takes about a second.
//!
//! Every number is the best of several tries: other work on the machine can only make a try slower. Where NVRTC is
//! missing, what needs a kernel stays an estimate.

use std::sync::Arc;
use std::time::Instant;

use millstream_core::backend::{Binding, Bindings, Kernel};
use millstream_core::how::{DeviceProfile, Schedule};
use millstream_core::memory::{MemoryKind, RawMemory, StreamId};
use millstream_core::{Access, Contract, DType, Expr, ExprBuilder, Op, Priority, Result};

use crate::compile::{CompileOptions, compile};
use crate::context::Context;
use crate::cublas::{self, CublasKernel};
use crate::memory;
use crate::module::Module;
use crate::profile;
use crate::staging::Staging;
use crate::stream::{CudaStream, Shape, with_params};
use crate::sys::driver as sys;

/// The kernels.
pub(crate) const TEXT: &str = include_str!("measure.cu");

/// Measured limits of a device: bytes, operations and seconds, as the names say. 0 is what could not be measured.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Measurements {
    /// Bytes a second of a copy in the device's memory, read and written bytes counted.
    pub copy: f64,
    /// Bytes a second read from the device's memory.
    pub read: f64,
    /// Bytes a second read from the L2 cache.
    pub l2: f64,
    /// Multiply-adds of f32 a second, each counting two.
    pub f32_rate: f64,
    /// Multiply-adds of f64 a second, each counting two.
    pub f64_rate: f64,
    /// Multiply-adds of f16 a second on matrix units that warps give their operands, each counting two; 0 where there are none.
    pub f16_products: f64,
    /// The same of bf16.
    pub bf16_products: f64,
    /// The same of f64.
    pub f64_products: f64,
    /// Seconds from one empty kernel of a stream to the next.
    pub launch: f64,
    /// Seconds of host time that queueing one kernel takes.
    pub launch_host: f64,
    /// Seconds from queueing an empty kernel until the host has seen it finished.
    pub round_trip: f64,
    /// Bytes a second from pinned host memory to the device.
    pub pinned_up: f64,
    /// Bytes a second from the device to pinned host memory.
    pub pinned_down: f64,
    /// Bytes a second from ordinary host memory to the device, through our staging.
    pub up: f64,
    /// Bytes a second from the device to ordinary host memory, through our staging.
    pub down: f64,
    /// Bytes a second from ordinary host memory to the device, as the driver stages it.
    pub driver_up: f64,
    /// Seconds of the smallest upload.
    pub latency: f64,
}

/// Memory that is freed with this.
struct Room(RawMemory);

impl Room {
    fn new(context: &Arc<Context>, bytes: usize, kind: MemoryKind) -> Result<Room> {
        memory::alloc(context, bytes, kind).map(Room)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        memory::free(&self.0);
    }
}

/// The kernels of `measure.cu`, loaded.
pub(crate) struct Kernels {
    module: Arc<Module>,
}

impl Kernels {
    pub(crate) fn load(context: &Arc<Context>) -> Result<Kernels> {
        let binary = compile(TEXT, &context.properties.architecture(), &CompileOptions::default())?;
        Ok(Kernels { module: Arc::new(Module::load(context, &binary)?) })
    }

    /// Queues the kernel of that name.
    pub(crate) fn launch(
        &self,
        name: &str,
        (groups, group): (u32, u32),
        addresses: &[u64],
        words: [u32; 4],
        stream: &CudaStream,
    ) -> Result<()> {
        let function = self.module.function(name)?;
        stream.launch(&self.module, Shape { function, grid: [groups, 1, 1], group, follows: false }, addresses, &words)
    }
}

/// Two timed events of a stream.
struct Stopwatch<'a> {
    context: &'a Context,
    stream: &'a CudaStream,
    events: [sys::Event; 2],
}

impl<'a> Stopwatch<'a> {
    fn new(stream: &'a CudaStream) -> Result<Stopwatch<'a>> {
        let context = stream.context();
        let events = [context.events.take(context, true)?, context.events.take(context, true)?];
        Ok(Stopwatch { context, stream, events })
    }

    /// The device's seconds for what `work` queues.
    fn time(&self, work: impl FnOnce() -> Result<()>) -> Result<f64> {
        let (context, driver) = (self.context, self.context.driver);
        let record = |event: sys::Event| {
            // SAFETY: both handles live.
            context.check(unsafe { (driver.event_record)(event, self.stream.raw()) }, "recording an event")
        };
        record(self.events[0])?;
        work()?;
        record(self.events[1])?;
        let mut milliseconds = 0f32;
        // SAFETY: the events live and were recorded; the driver writes one number.
        unsafe {
            context.check((driver.event_synchronize)(self.events[1]), "waiting for an event")?;
            context
                .check((driver.event_elapsed)(&mut milliseconds, self.events[0], self.events[1]), "reading a time")?;
        }
        Ok((f64::from(milliseconds) / 1e3).max(1e-9))
    }

    fn best(&self, tries: usize, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
        (0..tries).try_fold(f64::INFINITY, |least, _| Ok(least.min(self.time(&mut work)?)))
    }
}

impl Drop for Stopwatch<'_> {
    fn drop(&mut self) {
        if self.context.loss().is_none() {
            for event in self.events {
                self.context.events.give(event, true);
            }
        }
    }
}

/// Measures a device.
pub(crate) fn measure(context: &Arc<Context>, staging: &Staging) -> Result<Measurements> {
    context.enter()?;
    let stream = CudaStream::new(context, StreamId(u64::MAX), Priority::High)?;
    let watch = Stopwatch::new(&stream)?;
    let mut out = Measurements::default();
    let (free, _) = context.memory_info()?;
    let bytes = (free / 4).min(1 << 30) / 4096 * 4096;
    let (a, b) = (Room::new(context, bytes, MemoryKind::Device)?, Room::new(context, bytes, MemoryKind::Device)?);
    for room in [&a, &b] {
        // SAFETY: the memory has so many bytes.
        let status = unsafe { (context.driver.memset8)(room.0.address, 1, bytes, stream.raw()) };
        context.check(status, "filling memory")?;
    }
    match Kernels::load(context) {
        Ok(kernels) => by_kernels(context, &kernels, &watch, &stream, [a.0.address, b.0.address], bytes, &mut out)?,
        // Without a compiler the driver's own copy tells the bandwidth.
        Err(_) => {
            let seconds = watch.best(5, || {
                // SAFETY: both pieces of memory have so many bytes.
                let status = unsafe { (context.driver.memcpy)(a.0.address, b.0.address, bytes, stream.raw()) };
                context.check(status, "copying")
            })?;
            out.copy = 2.0 * bytes as f64 / seconds;
        }
    }
    transfers(context, staging, &watch, &stream, a.0.address, bytes.min(128 << 20), &mut out)?;
    Ok(out)
}

/// Seconds of one small launch and the wait for it by the driver's own calls: the median of many.
pub(crate) fn round_trip(context: &Arc<Context>) -> Result<f64> {
    context.enter()?;
    let stream = CudaStream::new(context, StreamId(u64::MAX), Priority::Normal)?;
    let kernels = Kernels::load(context)?;
    let function = kernels.module.function("ms_copy")?;
    let (a, b) = (Room::new(context, 4096, MemoryKind::Device)?, Room::new(context, 4096, MemoryKind::Device)?);
    let (addresses, words) = ([a.0.address, b.0.address], [256u32, 0, 0, 0]);
    let driver = context.driver;
    let mut times = Vec::with_capacity(2000);
    for _ in 0..2000 {
        let start = Instant::now();
        let status = with_params(&addresses, &words, |params| {
            // SAFETY: the kernel takes two addresses of 4096 bytes and four words, as given here.
            unsafe { (driver.launch)(function, 1, 1, 1, 256, 1, 1, 0, stream.raw(), params, std::ptr::null_mut()) }
        });
        context.check(status, "launching a kernel")?;
        // SAFETY: the stream lives.
        context.check(unsafe { (driver.stream_synchronize)(stream.raw()) }, "waiting for a stream")?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn by_kernels(
    context: &Context,
    kernels: &Kernels,
    watch: &Stopwatch<'_>,
    stream: &CudaStream,
    [a, b]: [u64; 2],
    bytes: usize,
    out: &mut Measurements,
) -> Result<()> {
    let units = context.properties.multiprocessors.max(1) as u32;
    let wide = (8 * units, 512);
    let words = |count: u64, rounds: u32| [count as u32, (count >> 32) as u32, rounds, 0];
    let pieces = bytes as u64 / 16;
    let seconds = watch.best(6, || kernels.launch("ms_copy", wide, &[a, b], words(pieces, 0), stream))?;
    out.copy = 2.0 * bytes as f64 / seconds;
    let seconds = watch.best(6, || kernels.launch("ms_read", wide, &[a, b], words(pieces, 1), stream))?;
    out.read = bytes as f64 / seconds;
    // A quarter of the cache, read over and over: the cache of large GPUs has two halves, and each unit is near one.
    let small = (context.properties.l2 / 4).clamp(1 << 20, bytes) / 16 * 16;
    let rounds = ((1usize << 30) / small).clamp(4, 256) as u32;
    let seconds = watch
        .best(4, || kernels.launch("ms_read", (4 * units, 512), &[a, b], words(small as u64 / 16, rounds), stream))?;
    out.l2 = small as f64 * f64::from(rounds) / seconds;
    for (name, steps, rate) in [("ms_fma32", 20_000, &mut out.f32_rate), ("ms_fma64", 4_000, &mut out.f64_rate)] {
        let seconds = watch.best(4, || kernels.launch(name, (4 * units, 512), &[a], [steps, 1, 0, 0], stream))?;
        *rate = f64::from(4 * units * 512) * f64::from(steps) * 16.0 / seconds;
    }
    if context.properties.capability >= (8, 0) {
        let kinds = [
            ("ms_product_f16", 16 * 8 * 16, &mut out.f16_products),
            ("ms_product_bf16", 16 * 8 * 16, &mut out.bf16_products),
            ("ms_product_f64", 8 * 8 * 4, &mut out.f64_products),
        ];
        for (name, multiply_adds, rate) in kinds {
            let (steps, warps) = (2_000, f64::from(2 * units * 512 / 32));
            let seconds = watch.best(4, || kernels.launch(name, (2 * units, 512), &[a], [steps, 0, 0, 0], stream))?;
            *rate = warps * f64::from(steps) * 8.0 * f64::from(2 * multiply_adds) / seconds;
        }
    }
    const MANY: usize = 500;
    let nothing = || kernels.launch("ms_nothing", (1, 32), &[], [0; 4], stream);
    for _ in 0..10 {
        nothing()?;
    }
    out.launch = watch.best(4, || (0..MANY).try_for_each(|_| nothing()))? / MANY as f64;
    let mut host = f64::INFINITY;
    for _ in 0..4 {
        watch.time(|| Ok(()))?;
        let start = Instant::now();
        (0..100).try_for_each(|_| nothing())?;
        host = host.min(start.elapsed().as_secs_f64() / 100.0);
    }
    out.launch_host = host;
    let mut times = Vec::with_capacity(100);
    for _ in 0..100 {
        let start = Instant::now();
        nothing()?;
        millstream_core::backend::BackendStream::synchronize(stream)?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    out.round_trip = times[times.len() / 2];
    Ok(())
}

/// Operations a second of the library's matmuls of large matrices, by dtype: what matrix units do. A dtype that the library does not take
/// is left out.
pub(crate) fn matrix_rates(context: &Arc<Context>, matmuls: &Arc<cublas::Shared>) -> Vec<(DType, f64)> {
    const SIZE: usize = 4096;
    let dtypes = [(DType::F16, DType::F32), (DType::BF16, DType::F32), (DType::F64, DType::F64)];
    let rate = |(dtype, acc): (DType, DType)| -> Result<(DType, f64)> {
        let op = matmul(SIZE, dtype, acc)?;
        let launch = CublasKernel::new(matmuls.clone(), &op, None)?.prepare(&op, &Schedule::default())?;
        context.enter()?;
        let stream = CudaStream::new(context, StreamId(u64::MAX), Priority::High)?;
        let watch = Stopwatch::new(&stream)?;
        let room = |bytes: usize| Room::new(context, bytes, MemoryKind::Device);
        let operand = room(SIZE * SIZE * dtype.size())?;
        let (out, scratch) = (room(SIZE * SIZE * acc.size())?, room(launch.workspace().max(1))?);
        // SAFETY: the memory has so many bytes.
        let status = unsafe { (context.driver.memset8)(operand.0.address, 0x3c, operand.0.bytes, stream.raw()) };
        context.check(status, "filling memory")?;
        let (x, y, w) = (binding(&operand), binding(&out), binding(&scratch));
        let bindings = Bindings { inputs: &[x, x], outputs: &[y], params: &[], workspace: Some(w), note: None };
        let seconds = watch.best(4, || launch.run(&bindings, &stream))?;
        Ok((dtype, op.flop() as f64 / seconds))
    };
    dtypes.into_iter().filter_map(|dtypes| rate(dtypes).ok()).collect()
}

fn binding(room: &Room) -> Binding<'_> {
    Binding { memory: &room.0, offset: 0, start: 0, end: room.0.bytes, pack_cache: None }
}

/// A matmul of two square matrices.
fn matmul(n: usize, dtype: DType, acc: DType) -> Result<Op> {
    let mut right = ExprBuilder::new();
    let second = right.input(1, dtype);
    let contract = Contract {
        m: 0,
        n: 1,
        k: 2,
        lhs: Expr::input(dtype),
        rhs: right.finish(&[second]),
        acc,
        epilogue: Expr::acc(acc),
        accuracy: Default::default(),
    };
    let row = n as isize;
    let inputs = vec![Access::new(dtype, &[row, 0, 1]), Access::new(dtype, &[0, 1, row])];
    Op::contract(&[n, n, n], inputs, vec![Access::new(acc, &[row, 1, 0])], contract)
}

fn transfers(
    context: &Arc<Context>,
    staging: &Staging,
    watch: &Stopwatch<'_>,
    stream: &CudaStream,
    device: u64,
    bytes: usize,
    out: &mut Measurements,
) -> Result<()> {
    let driver = context.driver;
    let pinned = Room::new(context, bytes, MemoryKind::Pinned)?;
    let host = pinned.0.address;
    // SAFETY: both sides have so many bytes and live until the stream has been waited for.
    let copy = |to: u64, from: u64| unsafe { context.check((driver.memcpy)(to, from, bytes, stream.raw()), "copying") };
    out.pinned_up = bytes as f64 / watch.best(4, || copy(device, host))?;
    out.pinned_down = bytes as f64 / watch.best(4, || copy(host, device))?;
    drop(pinned);
    let mut ordinary = vec![1u8; bytes];
    let least = |tries: usize, work: &mut dyn FnMut() -> Result<()>| -> Result<f64> {
        (0..tries).try_fold(f64::INFINITY, |least, _| {
            let start = Instant::now();
            work()?;
            millstream_core::backend::BackendStream::synchronize(stream)?;
            Ok(least.min(start.elapsed().as_secs_f64()))
        })
    };
    let from = ordinary.as_mut_ptr();
    // SAFETY: the host's memory has so many bytes and outlives the calls.
    let seconds = least(5, &mut || unsafe { staging.upload(from, device, bytes, stream) })?;
    out.up = bytes as f64 / seconds;
    // SAFETY: as above.
    let seconds = least(5, &mut || unsafe { staging.download(device, from, bytes, stream) })?;
    out.down = bytes as f64 / seconds;
    let seconds = least(3, &mut || {
        // SAFETY: as above.
        context.check(unsafe { (driver.memcpy_up)(device, from.cast_const().cast(), bytes, stream.raw()) }, "copying")
    })?;
    out.driver_up = bytes as f64 / seconds;
    // SAFETY: as above.
    out.latency = least(50, &mut || unsafe { staging.upload(from, device, 64, stream) })?;
    Ok(())
}

/// A profile with what was measured.
pub(crate) fn complete(mut profile: DeviceProfile, context: &Context, m: &Measurements) -> DeviceProfile {
    let p = &context.properties;
    let or = |measured: f64, estimate: f64| if measured > 0.0 { measured } else { estimate };
    let (f32_rate, f64_rate) = (profile.rate(millstream_core::DType::F32), profile.rate(millstream_core::DType::F64));
    profile.rates = profile::rates(p, or(m.f32_rate, f32_rate), or(m.f64_rate, f64_rate));
    let products = [(DType::F16, m.f16_products), (DType::BF16, m.bf16_products), (DType::F64, m.f64_products)];
    profile.warp_rates = products.into_iter().filter(|(_, rate)| *rate > 0.0).collect();
    let last = profile.levels.len().saturating_sub(1);
    for (i, level) in profile.levels.iter_mut().enumerate() {
        level.bandwidth = match level.name.as_str() {
            "L2" => or(m.l2, level.bandwidth),
            _ if i == last => or(m.copy.max(m.read), level.bandwidth),
            _ => level.bandwidth,
        };
    }
    // A level is never slower than the one behind it.
    for i in (0..last).rev() {
        profile.levels[i].bandwidth = profile.levels[i].bandwidth.max(profile.levels[i + 1].bandwidth);
    }
    profile.launch = or(m.launch, profile.launch);
    profile.transfer.bandwidth = or(m.up, profile.transfer.bandwidth);
    profile.transfer.latency = or(m.latency, profile.transfer.latency);
    let gigabytes = |rate: f64| (rate / 1e9).round();
    profile.features.push(format!("pinned-up-{}GB/s", gigabytes(m.pinned_up)));
    profile.features.push(format!("pinned-down-{}GB/s", gigabytes(m.pinned_down)));
    profile.measured = true;
    profile
}
