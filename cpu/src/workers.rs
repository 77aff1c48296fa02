//! A pool of threads for fork-join work inside one operation.
//!
//! [`Workers::run`] executes `f(0..tasks)` on the calling thread and on whichever workers are free, each taking the next
//! task when it has finished its last one: the caller from its share at the front, the workers from the rest, and both from what is
//! left in the end. So two threads find in their own caches what they wrote in the job before, if tasks go through memory alike. What
//! the pool promises:
//!
//! - It returns when every task is complete, and `f` is not touched afterwards.
//! - The caller never waits for a worker that has not taken a task: a job costs what its tasks cost even when no worker
//!   ever gets a core. There is therefore no way to deadlock, whatever calls whatever.
//! - A nested call, and a call that finds the pool busy, runs its tasks on the calling thread (and hands the rest over if
//!   the pool becomes free).
//! - A panic in a task cancels the tasks not yet taken and continues on the caller; the pool remains usable.
//! - The order and the thread of a task are unspecified: a result may depend on the task index only.
//!
//! Threads start at the first parallel run. An idle worker spins about 100 us, if cores are free, then sleeps: that is longer than most
//! waits for the slowest task of an operation and for the next operation of a graph.
//!
//! How: one 64-bit word holds the job's number and how many tasks of both shares are not yet taken. Taking a task is one
//! compare-exchange on it; whoever succeeds holds the job open until it reports that task complete, so only then is the
//! job's description read. A late worker finds nothing to take and touches nothing.

mod gate;

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gate::Gate;
use parking_lot::Mutex;

/// Bits of the job word for each share: its tasks that are not yet taken, the workers' share lowest. The rest is the job's number: a
/// worker that read the word of an earlier job finds another one when it exchanges it, or, held up for 2^24 jobs, one with as many
/// tasks to take, which is as good.
const COUNT_BITS: u32 = 20;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
/// Those of both shares.
const LEFT_MASK: u64 = (1 << (2 * COUNT_BITS)) - 1;

/// Tasks not yet taken: of the caller's share, and of the workers'.
fn left(word: u64) -> (u32, u32) {
    ((word >> COUNT_BITS & COUNT_MASK) as u32, (word & COUNT_MASK) as u32)
}

/// How long an idle thread spins before it sleeps.
const SPIN: Duration = Duration::from_micros(100);
/// A pause this long while spinning means that another thread had the core.
const PREEMPTED: Duration = Duration::from_micros(200);
/// After being preempted while spinning, a thread goes to sleep at once this many times.
const SPIN_HOLIDAY: u32 = 16;

/// A fork-join pool; see the module's text for what it promises.
pub struct Workers {
    shared: Arc<Shared>,
    threads: usize,
    /// Spawned at the first parallel run.
    handles: OnceLock<Mutex<Vec<JoinHandle<()>>>>,
}

/// On its own cache line, away from what other threads write.
#[repr(align(128))]
struct Line<T>(T);

struct Shared {
    /// Number of the job, and tasks not yet taken.
    word: Line<AtomicU64>,
    /// Tasks taken or not, but not yet complete.
    pending: Line<AtomicU32>,
    /// Held by the caller whose job is in the word.
    busy: Line<AtomicBool>,
    job: UnsafeCell<Job>,
    /// Workers sleep here.
    idle: Gate,
    /// The caller sleeps here, for tasks that workers have taken.
    finished: Gate,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    stop: AtomicBool,
    spin: bool,
}

#[derive(Clone, Copy)]
struct Job {
    /// The lifetime is erased; it is valid for as long as a task of the job is taken and not complete.
    f: Option<&'static (dyn Fn(usize) + Sync)>,
    /// Index of the first task of this job.
    first: usize,
    /// Tasks of the caller's share, and of both.
    own: u32,
    count: u32,
}

// SAFETY: `job` is the only field that is not Sync by itself. It is written by the holder of `busy` while no task is
// taken (`pending` is 0), and read by threads that hold a taken task; the job word and `pending` order the two.
unsafe impl Sync for Shared {}
// SAFETY: as above; the reference inside `job` is to a Sync closure and is used only while its owner waits in `run`.
unsafe impl Send for Shared {}

impl Workers {
    /// A pool that computes on `threads` threads, the caller's included; 0 counts as 1. Starts no thread yet.
    pub fn new(threads: usize) -> Workers {
        let threads = threads.max(1);
        // Spinning on a core that a working thread needs would slow the work down.
        let spin = threads <= crate::topology::usable_cores();
        let shared = Shared {
            word: Line(AtomicU64::new(0)),
            pending: Line(AtomicU32::new(0)),
            busy: Line(AtomicBool::new(false)),
            job: UnsafeCell::new(Job { f: None, first: 0, own: 0, count: 0 }),
            idle: Gate::new(),
            finished: Gate::new(),
            panic: Mutex::new(None),
            stop: AtomicBool::new(false),
            spin,
        };
        Workers { shared: Arc::new(shared), threads, handles: OnceLock::new() }
    }

    /// How many threads take part, the caller's included.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Executes `f(0)` to `f(tasks - 1)`, in any order, on the caller and on free workers. See the module's text.
    ///
    /// # Panics
    /// Continues the first panic of a task; tasks not yet taken at that moment are not executed.
    pub fn run(&self, tasks: usize, f: &(dyn Fn(usize) + Sync)) {
        let mut next = 0;
        while next < tasks {
            // One task, or one thread: nothing to share. The last task of a contended run goes this way too.
            if self.threads > 1 && tasks - next > 1 && self.acquire() {
                let count = (tasks - next).min(COUNT_MASK as usize);
                let outcome = self.share(next, count as u32, f);
                self.shared.busy.0.store(false, Ordering::Release);
                if let Some(payload) = outcome {
                    resume_unwind(payload);
                }
                next += count;
            } else {
                f(next);
                next += 1;
            }
        }
    }

    fn acquire(&self) -> bool {
        let busy = &self.shared.busy.0;
        !busy.load(Ordering::Relaxed)
            && busy.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Runs one job with the workers' help. The caller holds `busy`.
    fn share(&self, first: usize, count: u32, f: &(dyn Fn(usize) + Sync)) -> Option<Box<dyn Any + Send>> {
        self.handles.get_or_init(|| Mutex::new(self.spawn()));
        let s = &*self.shared;
        // SAFETY: only the lifetime is changed. `f` outlives this call, and threads use it only while they hold a taken
        // task; this call returns after `pending` has reached 0, when no task is held.
        let f: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(f) };
        let own = count.div_ceil(self.threads.min(u32::MAX as usize) as u32);
        // SAFETY: `busy` is held and no task of an earlier job is held, so nobody else accesses `job` now.
        unsafe { *s.job.get() = Job { f: Some(f), first, own, count } };
        s.pending.0.store(count, Ordering::Relaxed);
        let number = (s.word.0.load(Ordering::Relaxed) >> (2 * COUNT_BITS)).wrapping_add(1);
        let shares = u64::from(own) << COUNT_BITS | u64::from(count - own);
        // SeqCst pairs with a worker that registers as sleeping and then looks at the word: one sees the other.
        s.word.0.store(number << (2 * COUNT_BITS) | shares, Ordering::SeqCst);
        s.idle.wake(2);

        s.work(true);

        s.finished.wait(s.spin, || s.pending.0.load(Ordering::SeqCst) == 0);
        s.panic.lock().take()
    }

    fn spawn(&self) -> Vec<JoinHandle<()>> {
        (1..self.threads)
            .map_while(|i| {
                let shared = self.shared.clone();
                // Without a thread the work is done by those there are: the caller always takes part.
                std::thread::Builder::new().name(format!("millstream-cpu-{i}")).spawn(move || shared.worker()).ok()
            })
            .collect()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.idle.wake(usize::MAX);
        if let Some(handles) = self.handles.take() {
            for handle in handles.into_inner() {
                // A worker catches what its tasks throw, so there is nothing to report here.
                let _ = handle.join();
            }
        }
    }
}

impl Shared {
    /// The life of a worker thread.
    fn worker(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            self.idle.wait(self.spin, || {
                self.word.0.load(Ordering::SeqCst) & LEFT_MASK != 0 || self.stop.load(Ordering::SeqCst)
            });
            // Pass the wake-up on, so that the caller does not pay for waking everyone.
            let (own, rest) = left(self.word.0.load(Ordering::Relaxed));
            if own + rest > 1 {
                self.idle.wake(2);
            }
            self.work(false);
        }
    }

    /// Takes and executes tasks until none is left to take, as the caller or as a worker.
    fn work(&self, caller: bool) {
        let mut done = 0;
        while let Some((own, rest)) = self.take(caller) {
            // SAFETY: this thread holds a taken task, so the job cannot end and `job` is not written.
            let job = unsafe { *self.job.get() };
            if let Some(f) = job.f {
                // The task was the first one left of its share.
                let before = if own > 0 { job.own - own } else { job.count - rest };
                let index = job.first + before as usize;
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| f(index))) {
                    done += self.cancel();
                    let mut slot = self.panic.lock();
                    match &*slot {
                        None => *slot = Some(payload),
                        // Dropping a payload may itself panic; a second one of the same job is left alone.
                        Some(_) => std::mem::forget(payload),
                    }
                }
            }
            done += 1;
        }
        if done > 0 && self.pending.0.fetch_sub(done, Ordering::SeqCst) == done {
            self.finished.wake(1);
        }
    }

    /// Takes one task, if possible from the own share; returns how many were left of its share, this one included, and 0 for the other.
    fn take(&self, caller: bool) -> Option<(u32, u32)> {
        let mut word = self.word.0.load(Ordering::Relaxed);
        loop {
            let (own, rest) = left(word);
            let (taken, less) = match (own, rest) {
                (0, 0) => return None,
                (own, rest) if own > 0 && (caller || rest == 0) => ((own, 0), 1 << COUNT_BITS),
                (_, rest) => ((0, rest), 1),
            };
            match self.word.0.compare_exchange_weak(word, word - less, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(taken),
                Err(now) => word = now,
            }
        }
    }

    /// Takes all tasks that are left, to drop them; returns how many. The caller holds a taken task.
    fn cancel(&self) -> u32 {
        let (own, rest) = left(self.word.0.fetch_and(!LEFT_MASK, Ordering::Relaxed));
        own + rest
    }
}

/// Spins until `ready`, or for the time allowed; returns whether it became ready.
fn spin_until(ready: &dyn Fn() -> bool) -> bool {
    thread_local! {
        /// Counts down the waits that do not spin because this thread was preempted while spinning. Others have cores of their own.
        static HOLIDAY: Cell<u32> = const { Cell::new(0) };
    }
    let rest = HOLIDAY.get();
    if rest > 0 {
        HOLIDAY.set(rest - 1);
        return ready();
    }
    let start = Instant::now();
    let mut last = start;
    loop {
        for _ in 0..16 {
            if ready() {
                return true;
            }
            std::hint::spin_loop();
        }
        let now = Instant::now();
        if now - last > PREEMPTED {
            HOLIDAY.set(SPIN_HOLIDAY);
            return ready();
        }
        if now - start > SPIN {
            return ready();
        }
        last = now;
    }
}

#[cfg(test)]
mod tests;
