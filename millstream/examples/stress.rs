//! Threads that share everything: tensors still to be computed, tensors that are kept, assignments and compiled functions.
//!
//! `cargo run --release --example stress -- [seconds] [threads] [bytes]` runs for 60 seconds on 8 threads, if nothing else is
//! said. Every result must equal, bit by bit, what one thread computes alone, and after each round no block of the pool may be
//! in use that was not before. What is fused, and with it the order of sums, depends on what happens to be computed first:
//! whatever is summed is a whole number, so that no order rounds, and functions that round have one reader or come last. At the end it prints, of the last eight tenths of the time, between which bounds the bytes that
//! were allocated between rounds and the process's resident memory lay; with a number of bytes it fails if one of these ranges
//! is wider. When the runtime is closed, its memory must be given back. `scripts/sanitize` runs it under sanitizers.

#[path = "shared/heap.rs"]
mod heap;

use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use millstream::cpu::{CpuFamily, CpuOptions};
use millstream::{Compiled, DType, Device, Generator, Order, Result, Runtime, Tensor, compile, compile_all, step};

/// Rounds with different numbers, one after the other and again.
const WORLDS: u64 = 12;
/// Kinds of work in a round.
const JOBS: usize = 14;

/// Bytes that may stay allocated when a runtime is gone: lists of the process that have grown.
const LEFT: usize = 1 << 20;

/// What lives through all rounds.
struct Functions {
    block: Compiled<'static, 1, 1>,
    pair: Compiled<'static, 2, 2>,
}

impl Functions {
    fn new() -> Functions {
        Functions {
            block: compile(|x| ((x.matmul(&x.transpose()).relu().matmul(x) + x) * 0.015625).tanh()),
            pair: compile_all(|[x, y]: [&Tensor; 2]| [(x * y).sum_keepdim(1), x.maximum(y).cumsum(0)]),
        }
    }
}

/// What the threads of a round share; nothing of it is computed at first.
struct World {
    x: Tensor,
    kept: Tensor,
    pending: [Tensor; 8],
    /// Each thread assigns to its own rows.
    board: Mutex<Tensor>,
}

impl World {
    fn new(number: u64, device: &Device) -> Result<World> {
        let mut g = Generator::new(number);
        // Two shapes only: each has hundreds of plans, by what happens to be computed when, and the cache of plans is to be full early.
        let (rows, columns) = [(16, 31), (24, 40)][number as usize % 2];
        let mut draw = |shape: &[usize]| -> Result<Tensor> {
            let values = g.integers(shape, -4, 5).to_vec::<i64>()?;
            let values: Vec<f32> = values.into_iter().map(|v| v as f32).collect();
            Ok(Tensor::from_shape(shape, &values).to(device))
        };
        let (x, kept, wide) = (draw(&[rows, columns])?, draw(&[columns, columns])?, draw(&[1 << 15])?);
        let product = x.matmul(&kept).relu();
        let first = &product - product.max_keepdim(1);
        let second = &first * 2.0 + 1.0;
        let pending = [
            second.sum(0),
            (&wide * 0.5).floor() + &wide,
            second.sort(1, Order::Ascending),
            (&x - x.min_keepdim(1)).matmul(&kept),
            first,
            second,
            x.layernorm(-1, 1e-5),
            (&wide * 0.25).tanh().reshape([128, 256]).softmax(1),
        ];
        let board = Mutex::new(Tensor::zeros([8 * JOBS, columns], DType::F32).to(device));
        Ok(World { x, kept, pending, board })
    }

    /// The bytes that a job gives, which do not depend on what other threads do meanwhile.
    fn job(&self, job: usize, f: &Functions) -> Result<Vec<u8>> {
        let [a, wide, b, c, first, second, ..] = &self.pending;
        match job {
            0..=7 => self.pending[job].to_bytes(),
            8 => f.block.call(c)?.to_bytes(),
            9 => {
                let [sums, most] = f.pair.call_all([first, second])?;
                Tensor::eval_all([&most, &sums])?;
                Ok([sums.to_bytes()?, most.to_bytes()?].concat())
            }
            10 => {
                // A fork of something that others compute: only the fork changes.
                let mut fork = second.clone();
                fork.slice_assign(0, step(1..5, 2), 7.0)?;
                let half = fork.slice(1, ..4) + 3;
                fork.assign_at(|t| t.slice(1, 4..8), &half)?;
                Ok([fork.to_bytes()?, second.to_bytes()?].concat())
            }
            11 => {
                let kept = self.kept.keep()?;
                let y = self.x.matmul(&kept).matmul(&kept);
                ((y + a) * 0.0009765625).exp().to_bytes()
            }
            12 => {
                let kept = b.transpose().keep()?;
                drop(b.clone());
                first.matmul(&kept).to_bytes()
            }
            _ => (wide.reshape([128, 256]).matmul(&wide.reshape([256, 128])).max(0)).to_bytes(),
        }
    }

    /// Puts a thread's row of results where all do; reads what is there.
    fn write(&self, thread: usize, job: usize) -> Result<()> {
        let row = (thread % 8 * JOBS + job) as isize;
        let mut board = self.board.lock().expect("no thread has panicked");
        board.slice_assign(0, row..row + 1, &(self.pending[0].clone() * (row as f64 + 1.0)))?;
        let seen = board.clone();
        drop(board);
        if job.is_multiple_of(4) {
            seen.eval()?;
        }
        Ok(())
    }

    /// All rows of the board, in which each thread of eight has written all of its own.
    fn board(&self) -> Result<Vec<u8>> {
        self.board.lock().expect("no thread has panicked").to_bytes()
    }
}

/// What one thread computes alone.
fn alone(f: &Functions, number: u64, device: &Device) -> Result<Vec<Vec<u8>>> {
    let world = World::new(number, device)?;
    let mut results = (0..JOBS).map(|job| world.job(job, f)).collect::<Result<Vec<_>>>()?;
    for row in 0..8 * JOBS {
        world.write(row / JOBS, row % JOBS)?;
    }
    results.push(world.board()?);
    Ok(results)
}

/// One round: whether all threads got what one gets.
fn round(f: &Functions, number: u64, device: &Device, threads: usize, turn: u64, expected: &[Vec<u8>]) -> Result<()> {
    let world = World::new(number, device)?;
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (world, barrier) = (&world, &barrier);
                scope.spawn(move || -> Result<()> {
                    barrier.wait();
                    // Each in an order of its own: the steps have no divisor in common with the number of jobs.
                    let (start, step) =
                        (turn as usize + 3 * thread, [1, 3, 5, 9, 11, 13][(thread + turn as usize / 3) % 6]);
                    for i in 0..JOBS {
                        let job = (start + i * step) % JOBS;
                        let found = world.job(job, f)?;
                        assert!(found == expected[job], "job {job} of world {number} differs on thread {thread}");
                        world.write(thread, job)?;
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|w| w.join().expect("a thread has panicked"))
    })?;
    if threads.is_multiple_of(8) {
        assert!(world.board()? == expected[JOBS], "the board of world {number} differs");
    }
    Ok(())
}

/// The least and the most of what was seen.
#[derive(Clone, Copy)]
struct Range(usize, usize);

impl Range {
    const NONE: Range = Range(usize::MAX, 0);

    fn see(&mut self, value: usize) {
        *self = Range(self.0.min(value), self.1.max(value));
    }

    fn width(self) -> usize {
        self.1.saturating_sub(self.0)
    }
}

fn open(threads: usize) -> Result<(Runtime, Device)> {
    let family = CpuFamily::new(CpuOptions { threads: Some(threads), isa: None });
    let runtime = Runtime::builder().family(family).build();
    let device = runtime.device("cpu")?;
    Ok((runtime, device))
}

fn main() -> Result<()> {
    let number = |n: usize| std::env::args().nth(n).and_then(|a| a.parse::<usize>().ok());
    let (seconds, threads, allowed) = (number(1).unwrap_or(60), number(2).unwrap_or(8).max(1), number(3));
    let expected = {
        let (f, (_runtime, device)) = (Functions::new(), open(1)?);
        (0..WORLDS).map(|n| alone(&f, n, &device)).collect::<Result<Vec<_>>>()?
    };
    let nothing = heap::live();
    let (f, (runtime, device)) = (Functions::new(), open(4)?);
    let (start, whole) = (Instant::now(), Duration::from_secs(seconds as u64));
    let (mut turns, mut in_use) = (0u64, None);
    let (mut heap, mut resident, mut shown) = (Range::NONE, Range::NONE, 0);
    while start.elapsed() < whole || turns < WORLDS {
        let world = turns % WORLDS;
        round(&f, world, &device, threads, turns, &expected[world as usize])?;
        turns += 1;
        if world + 1 < WORLDS {
            continue;
        }
        let pool = device.pool().stats();
        let known = *in_use.get_or_insert((pool.in_use, pool.blocks));
        assert_eq!((pool.in_use, pool.blocks), known, "bytes and blocks of the pool in use after round {turns}");
        let memory = heap::status("VmRSS").unwrap_or(0);
        if start.elapsed() * 5 >= whole {
            heap.see(heap::live());
            resident.see(memory);
        }
        let tenth = start.elapsed().as_secs() * 10 / (seconds as u64).max(1);
        if tenth > shown {
            shown = tenth;
            println!(
                "{:4} s: {turns} rounds, {} bytes allocated, {} in use of {} of the pool, {} KiB resident",
                start.elapsed().as_secs(),
                heap::live(),
                pool.in_use,
                pool.reserved,
                memory >> 10
            );
        }
    }
    println!(
        "{turns} rounds on {threads} threads, results as of one. Over the last eight tenths: allocated {} to {} bytes, resident {} \
         to {} KiB",
        heap.0,
        heap.1,
        resident.0 >> 10,
        resident.1 >> 10
    );
    for (what, range) in [("allocated", heap), ("resident", resident)] {
        assert!(allowed.is_none_or(|allowed| range.width() <= allowed), "{} bytes {what} more or less", range.width());
    }
    // With the runtime go its plans and kernels. What remains belongs to the process, and was there before.
    drop((f, device, runtime));
    let left = heap::live().saturating_sub(nothing);
    println!("{left} bytes are left when the runtime is gone");
    assert!(left <= LEFT, "{left} bytes are left when the runtime is gone");
    Ok(())
}
