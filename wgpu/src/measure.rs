//! What the device really gives, measured with kernels of its own. Takes about a second.
//!
//! - **Bandwidth of memory**: the better of copying and reading by few threads and by many, bytes read and written counted once each.
//! - **Rate**: multiply-adds that stay in registers, in f32. Other dtypes keep their guessed share of it.
//! - **Launch**: what one more small launch costs within a submission.
//! - **Transfer**: uploads of a large and of a small piece, and the same back.
//!
//! Every number is the best of several tries: other programs can only make a try slower.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_core::backend::BackendStream;
use millstream_core::how::{DeviceProfile, Transfer};
use millstream_core::memory::{HostPtr, MemoryKind, RawMemory, StreamId};
use millstream_core::{DType, Error, Result};

use crate::gpu::Gpu;
use crate::kernel::{Compiled, GROUP};
use crate::memory::{self, Block};
use crate::stream::{Call, WgpuStream};

/// How long one number may take.
const BUDGET: Duration = Duration::from_millis(100);
/// The stream's number, which no stream of core has.
const STREAM: StreamId = StreamId(u64::MAX);
/// Operations of one step of one thread.
const STEP: f64 = 64.0;

const COPY: usize = 0;
const READ: usize = 1;
const MULTIPLY_ADD: usize = 2;

/// The profile with rates, bandwidths and latencies measured.
pub(crate) fn measure(gpu: &Arc<Gpu>, mut profile: DeviceProfile) -> Result<DeviceProfile> {
    let kernel = Compiled::new(gpu, include_str!("measure.wgsl"), &["copy", "read", "multiply_add"], 2)?;
    let stream = WgpuStream::new(STREAM, gpu.clone());
    let software = profile.features.iter().any(|f| f == "software");
    // Several times the last cache, but a small part of the memory.
    let most = if software { 64 << 20 } else { 512 << 20 };
    let bytes = most.min(profile.max_binding).min(profile.memory / 8).max(1 << 20) / 256 * 256;
    let (x, y) = (Held::new(gpu, bytes)?, Held::new(gpu, bytes)?);
    let bench = Bench { gpu, stream: &stream, kernel: &kernel, x: x.block()?, y: y.block()?, units: profile.units };

    let fill = vec![0u8; bytes as usize];
    stream.batch().upload(gpu, &fill, bench.x, 0)?;
    bench.finish()?;

    let bandwidth = bench.bandwidth(bytes)?;
    let l2 = profile.levels.iter().find(|l| l.name == "L2").map_or(1 << 20, |l| l.bytes as u64);
    // Source and target together fill half of it.
    let cached = bench.bandwidth(bytes.min(l2 / 4).max(1 << 16))?.max(bandwidth);
    let rate = bench.rate()?;
    // Shared memory gives 32 words at every clock, in which a unit's 128 lanes do two operations each; what is measured of those is some
    // three quarters of what the clock allows.
    let shared = rate * (32.0 * 4.0) / (128.0 * 2.0) / 0.75;
    let last = profile.levels.len().saturating_sub(1);
    for (l, level) in profile.levels.iter_mut().enumerate() {
        level.bandwidth = match level.name.as_str() {
            _ if l == last => bandwidth,
            "L2" => cached,
            _ => level.bandwidth.max(3.0 * cached).max(shared),
        };
    }
    let guessed = profile.rate(DType::F32);
    for (_, r) in &mut profile.rates {
        *r *= rate / guessed;
    }
    profile.launch = bench.launch()?;
    profile.transfer = bench.transfer(fill)?;
    profile.measured = true;
    Ok(profile)
}

/// Memory for the time of the measurement.
struct Held<'a> {
    gpu: &'a Gpu,
    memory: Option<RawMemory>,
}

impl<'a> Held<'a> {
    fn new(gpu: &'a Gpu, bytes: u64) -> Result<Held<'a>> {
        let memory = memory::alloc(gpu, bytes as usize, MemoryKind::Device)?;
        Ok(Held { gpu, memory: Some(memory) })
    }

    fn block(&self) -> Result<&Block> {
        let memory = self.memory.as_ref().ok_or_else(|| Error::internal("memory that was given back"))?;
        memory::block(memory)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            memory::free(self.gpu, memory);
        }
    }
}

struct Bench<'a> {
    gpu: &'a Gpu,
    stream: &'a WgpuStream,
    kernel: &'a Compiled,
    x: &'a Block,
    y: &'a Block,
    units: usize,
}

impl Bench<'_> {
    fn finish(&self) -> Result<()> {
        self.stream.synchronize()
    }

    fn queue(&self, entry: usize, groups: u64, count: u64) -> Result<()> {
        let most = u64::from(self.gpu.limits.max_compute_workgroups_per_dimension);
        let grid = [groups.clamp(1, most) as u32, 1, 1];
        let words = [count as u32, 0, 0, 0, 0, 0, 0, 0];
        let call = Call { kernel: self.kernel, entry, grid, words: &words };
        self.stream.batch().launch(self.gpu, &call, &[self.x, self.y])
    }

    /// The seconds of one launch among many: so many in one go that the waiting does not count.
    fn seconds(&self, entry: usize, groups: u64, count: u64) -> Result<f64> {
        let start = Instant::now();
        let (mut repeats, mut least) = (1u32, f64::INFINITY);
        loop {
            let begin = Instant::now();
            for _ in 0..repeats {
                self.queue(entry, groups, count)?;
            }
            self.finish()?;
            let taken = begin.elapsed();
            least = least.min(taken.as_secs_f64() / f64::from(repeats));
            if start.elapsed() >= BUDGET {
                return Ok(least.max(1e-9));
            }
            if taken < BUDGET / 8 && repeats < 4096 {
                repeats *= 2;
            }
        }
    }

    fn bandwidth(&self, bytes: u64) -> Result<f64> {
        let values = bytes / 16;
        // Few threads that walk on, and one for each value: which is quicker differs from driver to driver.
        let each = (values / u64::from(GROUP)).max(1);
        let mut best = 0f64;
        for groups in [each.min(self.units as u64 * 128), each] {
            let copy = 2.0 * bytes as f64 / self.seconds(COPY, groups, values)?;
            let read = bytes as f64 / self.seconds(READ, groups, values)?;
            best = best.max(copy).max(read);
        }
        Ok(best)
    }

    fn rate(&self) -> Result<f64> {
        let (groups, steps) = (self.units as u64 * 32, 256);
        let seconds = self.seconds(MULTIPLY_ADD, groups, steps)?;
        Ok(groups as f64 * f64::from(GROUP) * steps as f64 * STEP / seconds)
    }

    fn launch(&self) -> Result<f64> {
        let timed = |launches: u32| -> Result<f64> {
            let start = Instant::now();
            let mut least = f64::INFINITY;
            while start.elapsed() < BUDGET / 2 {
                let begin = Instant::now();
                for _ in 0..launches {
                    self.queue(READ, 1, 0)?;
                }
                self.finish()?;
                least = least.min(begin.elapsed().as_secs_f64());
            }
            Ok(least)
        };
        Ok(((timed(129)? - timed(1)?) / 128.0).max(1e-7))
    }

    fn transfer(&self, mut host: Vec<u8>) -> Result<Transfer> {
        let to = HostPtr::new(host.as_mut_ptr()).ok_or_else(|| Error::internal("a vector at the null pointer"))?;
        let there_and_back = |bytes: usize| -> Result<f64> {
            let start = Instant::now();
            let mut least = f64::INFINITY;
            // The first try makes the staging buffers.
            for turn in 0.. {
                if turn > 2 && start.elapsed() >= BUDGET {
                    break;
                }
                let begin = Instant::now();
                // SAFETY: the bytes lie in `host`, which nothing else touches until the stream is finished.
                let from = unsafe { std::slice::from_raw_parts(to.as_ptr(), bytes) };
                self.stream.batch().upload(self.gpu, from, self.x, 0)?;
                self.finish()?;
                self.stream.batch().download(self.gpu, self.x, 0, to, bytes)?;
                self.finish()?;
                least = least.min(begin.elapsed().as_secs_f64() / 2.0);
            }
            Ok(least)
        };
        let (small, large) = (there_and_back(4)?, there_and_back(host.len().min(64 << 20))?);
        let bytes = host.len().min(64 << 20) as f64;
        Ok(Transfer { latency: small, bandwidth: bytes / (large - small).max(1e-9) })
    }
}
