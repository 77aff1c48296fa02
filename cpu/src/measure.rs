//! What this machine really gives, measured with the threads that the device uses. Takes about a second.
//!
//! - **Rates**: multiply-adds that stay in registers, for f32 and f64.
//! - **Bandwidth of each cache**: the faster of reading (a sum) and copying, over data that fills half of it.
//! - **Bandwidth of memory**: the best of reading, copying and `a = b + s * c`, bytes read and written counted once each,
//!   over data several times the last cache. The best is the limit that reports compare with.
//! - **Launch**: an empty job, handed to all workers and finished.
//!
//! Every number is the best of several tries: other programs on the machine can only make a try slower.

use std::ptr::NonNull;
use std::time::{Duration, Instant};

use millstream_core::Result;
use millstream_core::how::DeviceProfile;

use crate::memory::Memory;
use crate::profile::rates;
use crate::shared::Shared;
use crate::simd::{Float, Isa, Real, Simd, WithSimd, vectorize};
use crate::workers::Workers;

/// How long one number may take.
const BUDGET: Duration = Duration::from_millis(90);

/// The profile with rates, bandwidths and latency measured.
pub(crate) fn measure(mut profile: DeviceProfile, isa: Isa, workers: &Workers) -> Result<DeviceProfile> {
    let f32_rate = arithmetic::<f32>(isa, workers);
    let f64_rate = arithmetic::<f64>(isa, workers);
    profile.rates = rates(f32_rate, f64_rate, isa);
    let threads = workers.threads();
    let last = profile.levels.len().saturating_sub(1);
    let largest = profile.levels[..last].iter().map(|l| l.bytes * threads.div_ceil(l.shared_by)).max().unwrap_or(0);
    for (l, level) in profile.levels.iter_mut().enumerate() {
        level.bandwidth = if l < last {
            cache(isa, workers, level.bytes / 2 / level.shared_by.max(1))?
        } else {
            memory(isa, workers, (4 * largest).clamp(64 << 20, (512 << 20).max(2 * largest)).min(level.bytes / 4))?
        };
    }
    // A level that a busy machine measured below the one behind it cannot be slower than that.
    for l in (0..last).rev() {
        profile.levels[l].bandwidth = profile.levels[l].bandwidth.max(profile.levels[l + 1].bandwidth);
    }
    profile.launch = latency(workers);
    profile.measured = true;
    Ok(profile)
}

/// Repeats `job` until the time is over and gives the least seconds that one call took.
fn best(mut job: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut least = f64::INFINITY;
    loop {
        let begin = Instant::now();
        job();
        least = least.min(begin.elapsed().as_secs_f64());
        if start.elapsed() >= BUDGET {
            return least.max(1e-9);
        }
    }
}

/// Independent chains of multiply-adds: enough to hide the latency of two units of any current core.
const CHAINS: usize = 12;
const STEPS: usize = 20_000;

struct Fma<T>(T);

impl<T: Real> WithSimd for Fma<T> {
    type Output = T;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> T {
        let x = T::splat(s, self.0);
        let y = T::splat(s, T::from_f64(0.999));
        let mut chains = [x; CHAINS];
        for _ in 0..STEPS {
            for c in &mut chains {
                *c = c.madd(y, x);
            }
        }
        chains.into_iter().fold(x, |a, b| a + b).sum()
    }
}

struct Lanes<T>(std::marker::PhantomData<T>);

impl<T: Real> WithSimd for Lanes<T> {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> usize {
        T::V::<S>::LANES
    }
}

fn arithmetic<T: Real>(isa: Isa, workers: &Workers) -> f64 {
    let tasks = 4 * workers.threads();
    let seconds = best(|| {
        workers.run(tasks, &|i| {
            std::hint::black_box(vectorize(isa, Fma(T::from_f64(1e-3 * (i + 1) as f64))));
        });
    });
    let lanes = vectorize(isa, Lanes::<T>(std::marker::PhantomData));
    (2 * CHAINS * STEPS * lanes * tasks) as f64 / seconds
}

/// What one pass over the data does.
#[derive(Clone, Copy, PartialEq)]
enum Pass {
    /// Sums a.
    Read,
    /// Copies a to b.
    Copy,
    /// b = a + s * b.
    Triad,
}

struct MemoryWalk {
    pass: Pass,
    a: *const f32,
    b: *mut f32,
    count: usize,
    rounds: usize,
    /// Writes past the caches, as kernels do for outputs that exceed them.
    stream: bool,
}

impl WithSimd for MemoryWalk {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let lanes = S::F32::LANES;
        let step = 8 * lanes;
        let scale = s.f32(0.5);
        let mut acc = [s.f32(0.0); 8];
        for _ in 0..self.rounds {
            let mut i = 0;
            while i + step <= self.count {
                for (j, sum) in acc.iter_mut().enumerate() {
                    let at = i + j * lanes;
                    // SAFETY: a and b have `count` elements each, of which these are some; b is written by this task only
                    // and aligned to whole vectors.
                    unsafe {
                        let x = S::F32::load(self.a.add(at));
                        match self.pass {
                            Pass::Read => *sum = *sum + x,
                            Pass::Copy if self.stream => x.stream(self.b.add(at)),
                            Pass::Copy => x.store(self.b.add(at)),
                            Pass::Triad => {
                                let y = S::F32::load(self.b.add(at)).madd(scale, x);
                                y.store(self.b.add(at));
                            }
                        }
                    }
                }
                i += step;
            }
        }
        if self.stream {
            s.stream_fence();
        }
        acc.into_iter().reduce(|x, y| x + y).map_or(0.0, Float::sum)
    }
}

/// Room for vectors, aligned to whole ones; zeros.
struct Room {
    memory: Memory,
    block: NonNull<u8>,
    bytes: usize,
}

impl Room {
    fn new(elements: usize) -> Result<Room> {
        let (memory, bytes) = (Memory::default(), 4 * elements.max(1));
        let block = memory.alloc(bytes)?;
        // SAFETY: the block is new and has so many bytes.
        unsafe { block.as_ptr().write_bytes(0, bytes) };
        Ok(Room { memory, block, bytes })
    }

    fn share(&self) -> Shared<f32> {
        Shared(self.block.as_ptr().cast())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: `alloc` gave the block with this size, and what shared it is done.
        unsafe { self.memory.free(self.block, self.bytes) };
    }
}

/// Bytes a second when every thread walks over `bytes` of its own.
fn cache(isa: Isa, workers: &Workers, bytes: usize) -> Result<f64> {
    let threads = workers.threads();
    // Half for each of the two arrays, whole steps of every instruction set.
    let half = (bytes / 2 / 4 / 128).max(1) * 128;
    let room = Room::new(2 * half * threads)?;
    let base = room.share();
    let rounds = (1 << 19) / half + 1;
    let mut rate = 0.0f64;
    for (pass, factor) in [(Pass::Read, 2), (Pass::Copy, 2)] {
        let seconds = best(|| {
            workers.run(threads, &|i| {
                let a = base.at(2 * half * i);
                // A read walks over both halves.
                let count = if pass == Pass::Read { 2 * half } else { half };
                let rounds = if pass == Pass::Read { rounds.div_ceil(2) } else { rounds };
                let walk = MemoryWalk { pass, a, b: base.at(2 * half * i + half), count, rounds, stream: false };
                std::hint::black_box(vectorize(isa, walk));
            });
        });
        let bytes = if pass == Pass::Read { rounds.div_ceil(2) * 2 * half } else { rounds * half * factor };
        rate = rate.max((4 * bytes * threads) as f64 / seconds);
    }
    Ok(rate)
}

/// Bytes a second from memory: the best of reading, copying (through the caches and past them) and a triad.
fn memory(isa: Isa, workers: &Workers, bytes: usize) -> Result<f64> {
    const PIECE: usize = 1 << 18;
    let half = (bytes / 2 / 4 / PIECE).max(1) * PIECE;
    let room = Room::new(2 * half)?;
    let base = room.share();
    // Touch all pages first, from the threads that will use them.
    workers.run(2 * half / PIECE, &|i| {
        // SAFETY: the piece lies in the data and belongs to this task.
        unsafe { std::slice::from_raw_parts_mut(base.at(i * PIECE), PIECE) }.fill(1.0);
    });
    let mut rate = 0.0f64;
    for (pass, stream, moved) in
        [(Pass::Read, false, 4), (Pass::Copy, false, 8), (Pass::Copy, true, 8), (Pass::Triad, false, 12)]
    {
        let seconds = best(|| {
            workers.run(half / PIECE, &|i| {
                let (a, b) = (base.at(i * PIECE), base.at(half + i * PIECE));
                let walk = MemoryWalk { pass, a, b, count: PIECE, rounds: 1, stream };
                std::hint::black_box(vectorize(isa, walk));
            });
        });
        rate = rate.max((moved * half) as f64 / seconds);
    }
    Ok(rate)
}

/// Seconds to hand an empty task to every worker and see them finished.
fn latency(workers: &Workers) -> f64 {
    let threads = workers.threads();
    let mut times: Vec<f64> = (0..200)
        .map(|_| {
            let start = Instant::now();
            workers.run(threads, &|i| {
                std::hint::black_box(i);
            });
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2].max(5e-8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;
    use millstream_core::DType;

    /// Seconds that this thread has computed; 0 where nobody counts them.
    fn busy() -> f64 {
        #[cfg(target_os = "linux")]
        {
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the pointer is to a value that lives through the call.
            unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
            time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
        }
        #[cfg(not(target_os = "linux"))]
        0.0
    }

    #[test]
    fn measured_numbers_are_plausible_and_ordered() {
        let workers = Workers::new(1);
        let isa = Isa::detect();
        let start = busy();
        let estimate = crate::profile::estimate(&Topology::detect(), isa, 1);
        let profile = measure(estimate, isa, &workers).unwrap();
        assert!(profile.measured);
        // Not by the clock: other programs may have the processor meanwhile.
        let taken = busy() - start;
        assert!(taken < 4.0, "took {taken} seconds of the processor");
        for dtype in [DType::F32, DType::F64] {
            assert!((1e8..1e15).contains(&profile.rate(dtype)), "{dtype}: {}", profile.rate(dtype));
        }
        assert!(profile.levels.iter().all(|l| (1e8..1e14).contains(&l.bandwidth)), "{:?}", profile.levels);
        assert!(profile.levels.windows(2).all(|p| p[0].bandwidth >= p[1].bandwidth));
        assert!((1e-8..1e-2).contains(&profile.launch));
    }
}
