//! A pool of threads for fork-join work inside one operation.
//!
//! [`Workers::run`] executes `f(0..tasks)` on the calling thread and on whichever workers are free. Every thread has a share of
//! neighbouring tasks, takes them from the front, and then from the back of whichever share has the most left. So threads find in
//! their own caches what they wrote in the job before, if tasks go through memory alike. What the pool promises:
//!
//! - It returns when every task is complete, and `f` is not touched afterwards.
//! - The caller never waits for a worker that has not taken a task: a job costs what its tasks cost even when no worker
//!   ever gets a core. There is therefore no way to deadlock, whatever calls whatever.
//! - A nested call, and a call that finds the pool busy, runs its tasks on the calling thread (and hands the rest over if
//!   the pool becomes free).
//! - A panic in a task continues on the caller, as does the wish to end its work (`interruptible`), and tasks not yet taken may be left out; the pool remains usable.
//! - The order and the thread of a task are unspecified: a result may depend on the task index only.
//!
//! Threads start at the first parallel run. An idle worker spins about 100 us, if cores are free, then sleeps: that is longer than most
//! waits for the slowest task of an operation and for the next operation of a graph. A worker that another program keeps from its core in the
//! middle of a task gets its caller's, who waits for it (`cores`). So the cores that a worker may use change; a thread that a task starts
//! inherits those of the moment.
//!
//! How: each share is a 64-bit word on a cache line of its own, on which its worker waits. Taking a task is one compare-exchange
//! on it; whoever succeeds holds the job open until it has counted that task as complete, so only then is the job's description
//! read. A late worker finds nothing to take and touches nothing. Each thread counts what it has completed on its own line, and
//! the caller adds that up: threads wait for each other's lines once when a job begins and once when it ends.

mod cores;
mod gate;

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cores::{Core, Spot};
use gate::Gate;
use millstream_core::interrupt;
use parking_lot::Mutex;

/// The most tasks of a job.
const MOST_TASKS: usize = u32::MAX as usize;

/// Tasks of a job that one thread should do: those from `next` to `end` are not yet taken. As a number, it is the word of a
/// [`Seat`]. A thread that read the word of an earlier job finds another one when it exchanges it, or one with the very same tasks to
/// take, which is as good.
#[derive(Clone, Copy)]
struct Share {
    next: u32,
    end: u32,
}

impl Share {
    fn of(word: u64) -> Share {
        Share { next: (word >> 32) as u32, end: word as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.next) << 32 | u64::from(self.end)
    }

    fn left(self) -> u32 {
        self.end.saturating_sub(self.next)
    }
}

/// How long an idle thread spins before it sleeps.
const SPIN: Duration = Duration::from_micros(100);
/// A pause this long while spinning means that another thread had the core.
const PREEMPTED: Duration = Duration::from_micros(200);
/// After being preempted while spinning, a thread goes to sleep at once this many times.
const SPIN_HOLIDAY: u32 = 16;
/// A worker with a task that runs for none of this time does not run.
const GLANCE: Duration = Duration::from_micros(5);
/// How long a caller sleeps before it looks again for workers that do not run.
const PATIENCE: Duration = Duration::from_millis(1);

const NO_CORE: Core = Core::MAX;

/// A fork-join pool; see the module's text for what it promises.
pub struct Workers {
    shared: Arc<PoolState>,
    threads: usize,
    /// Spawned at the first parallel run.
    handles: OnceLock<Mutex<Vec<JoinHandle<()>>>>,
}

/// On its own cache line, away from what other threads write.
#[repr(align(128))]
struct CacheLine<T>(T);

/// What belongs to one thread.
struct Seat {
    /// Its [`Share`] of the job.
    share: CacheLine<AtomicU64>,
    /// What it has done. Only the thread in this seat writes it; in the first one that is whoever holds `busy`.
    done: CacheLine<Done>,
    /// Where its thread runs; of the first one nothing is known.
    spot: Spot,
}

struct Done {
    /// Tasks that it has completed, in all jobs, modulo 2^32.
    count: AtomicU32,
    /// Whether it has taken a task that is not counted yet.
    working: AtomicBool,
}

struct PoolState {
    /// The caller's, then the workers'.
    seats: Box<[Seat]>,
    /// Held by the caller whose job is in the shares.
    busy: CacheLine<AtomicBool>,
    job: UnsafeCell<Job>,
    /// Jobs so far. A worker that has nothing to do in small ones stays awake while there are any.
    jobs: CacheLine<AtomicU32>,
    /// The caller's core, as of its last job; [`NO_CORE`] where nobody knows.
    core: CacheLine<AtomicUsize>,
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
    f: Option<&'static (dyn Fn(usize, usize) + Sync)>,
    /// Index of the first task of this job.
    first: usize,
    /// No share had more than one task: a worker that has done one looks for no other, because those of threads that are awake are
    /// taken already.
    single: bool,
    /// Tasks of all jobs up to this one, modulo 2^32: what all seats together have to complete.
    total: u32,
}

// SAFETY: `job` is the only field that is not Sync by itself. It is written by the holder of `busy` while no task is
// taken (all are done), and read by threads that hold a taken task; the shares and the counts of what is done order the two.
unsafe impl Sync for PoolState {}
// SAFETY: as above; the reference inside `job` is to a Sync closure and is used only while its owner waits in `run`.
unsafe impl Send for PoolState {}

impl Workers {
    /// A pool that computes on `threads` threads, the caller's included; 0 counts as 1. Starts no thread yet.
    pub fn new(threads: usize) -> Workers {
        let threads = threads.max(1);
        // Spinning on a core that a working thread needs would slow the work down. One thread waits for nobody.
        let spin = threads > 1 && threads <= crate::topology::usable_cores();
        let shared = PoolState {
            seats: (0..threads)
                .map(|_| Seat {
                    share: CacheLine(AtomicU64::new(0)),
                    done: CacheLine(Done { count: AtomicU32::new(0), working: AtomicBool::new(false) }),
                    spot: Spot::default(),
                })
                .collect(),
            busy: CacheLine(AtomicBool::new(false)),
            job: UnsafeCell::new(Job { f: None, first: 0, single: false, total: 0 }),
            jobs: CacheLine(AtomicU32::new(0)),
            core: CacheLine(AtomicUsize::new(NO_CORE)),
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
    /// Continues the first panic of a task; tasks not yet taken at that moment may be left out.
    pub fn run(&self, tasks: usize, f: &(dyn Fn(usize) + Sync)) {
        self.run_seated(tasks, &|task, _| f(task));
    }

    /// As [`Workers::run`]; a task also gets the number, below [`Workers::threads`], of a seat that no other task of this call has
    /// meanwhile.
    ///
    /// # Panics
    /// As [`Workers::run`].
    pub fn run_seated(&self, tasks: usize, f: &(dyn Fn(usize, usize) + Sync)) {
        let mut next = 0;
        while next < tasks {
            // One task, or one thread: nothing to share. The last task of a contended run goes this way too.
            if self.threads > 1 && tasks - next > 1 && self.acquire() {
                let count = (tasks - next).min(MOST_TASKS);
                let outcome = self.share(next, count as u32, f);
                self.shared.busy.0.store(false, Ordering::Release);
                if let Some(payload) = outcome {
                    resume_unwind(payload);
                }
                next += count;
            } else {
                stop_if_due();
                f(next, 0);
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
    fn share(&self, first: usize, count: u32, f: &(dyn Fn(usize, usize) + Sync)) -> Option<Box<dyn Any + Send>> {
        self.handles.get_or_init(|| Mutex::new(self.spawn()));
        let s = &*self.shared;
        // SAFETY: only the lifetime is changed. `f` outlives this call, and threads use it only while they hold a taken
        // task; this call returns after all tasks are done, when none is held.
        let f: &'static (dyn Fn(usize, usize) + Sync) = unsafe { std::mem::transmute(f) };
        let threads = s.seats.len() as u32;
        // SAFETY: `busy` is held and no task of an earlier job is held, so nobody else accesses `job` now.
        let total = unsafe {
            let job = &mut *s.job.get();
            *job = Job { f: Some(f), first, single: count <= threads, total: job.total.wrapping_add(count) };
            job.total
        };
        let mut next = 0;
        for (i, seat) in (0..).zip(&s.seats) {
            let end = next + count / threads + u32::from(i < count % threads);
            if end > next {
                // Not sequentially consistent: those stores wait for one another. The gate sees to sleepers.
                seat.share.0.store(Share { next, end }.word(), Ordering::Release);
            }
            next = end;
        }
        s.jobs.0.store(s.jobs.0.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        s.idle.wake(2);
        let core = Spot::here().unwrap_or(NO_CORE);
        if s.core.0.load(Ordering::Relaxed) != core {
            s.core.0.store(core, Ordering::Relaxed);
        }

        s.work(0);

        let counts = || s.seats.iter().map(|seat| seat.done.0.count.load(Ordering::Acquire));
        let complete = || counts().fold(0, u32::wrapping_add) == total;
        if !(complete() || s.spin && spin_until(&complete)) {
            s.wait(complete);
        }
        s.panic.lock().take()
    }

    fn spawn(&self) -> Vec<JoinHandle<()>> {
        (1..self.threads)
            .map_while(|i| {
                let shared = self.shared.clone();
                // Without a thread the work is done by those there are: the caller always takes part.
                std::thread::Builder::new().name(format!("millstream-cpu-{i}")).spawn(move || shared.worker(i)).ok()
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

impl PoolState {
    /// Returns when every task is complete: the caller has nothing else to do.
    fn wait(&self, complete: impl Fn() -> bool) {
        // Where threads have no core each, those that do not run are nothing new.
        if !self.spin || !Spot::KNOWN {
            self.finished.wait(complete);
            return;
        }
        while !complete() {
            let lent = self.held_up(&complete).and_then(|seat| seat.spot.bring(Spot::here()?).then_some(seat));
            let ready = || complete() || lent.is_some_and(|seat| !seat.done.0.working.load(Ordering::Relaxed));
            self.finished.wait_for(ready, if lent.is_some() { 10 * PATIENCE } else { PATIENCE });
            if let Some(seat) = lent {
                seat.spot.send_back();
            }
        }
    }

    /// A worker that has a task and does not run, unless all become complete.
    fn held_up(&self, complete: &dyn Fn() -> bool) -> Option<&Seat> {
        let working = |seat: &Seat| seat.done.0.working.load(Ordering::Relaxed);
        let times =
            self.seats[1..].iter().filter(|seat| working(seat)).filter_map(|seat| Some((seat, seat.spot.time()?)));
        let times: Vec<(&Seat, u64)> = times.collect();
        let start = Instant::now();
        while start.elapsed() < GLANCE {
            std::hint::spin_loop();
        }
        let still = |(seat, time): &(&Seat, u64)| working(seat) && seat.spot.time() == Some(*time);
        times.into_iter().find(still).map(|(seat, _)| seat).filter(|_| !complete())
    }

    /// The life of the worker in a seat.
    fn worker(&self, seat: usize) {
        let spot = &self.seats[seat].spot;
        spot.enter();
        let share = || Share::of(self.seats[seat].share.0.load(Ordering::Relaxed)).left() > 0;
        while !self.stop.load(Ordering::Relaxed) {
            let jobs = self.jobs.0.load(Ordering::Relaxed);
            // On a core that the caller lent it, and wants back, a worker does not spin.
            let spin = self.spin && !spot.is_lent();
            if !spin || !spin_until(&share) {
                if spin && self.jobs.0.load(Ordering::Relaxed) != jobs {
                    continue;
                }
                if spin {
                    spot.avoid(Some(self.core.0.load(Ordering::Relaxed)).filter(|core| *core != NO_CORE));
                }
                self.idle.wait(|| self.fullest(seat).is_some() || self.stop.load(Ordering::SeqCst));
            }
            // Pass the wake-up on, so that the caller does not pay for waking everyone.
            if self.idle.sleepers() && self.fullest(seat).is_some() {
                self.idle.wake(2);
            }
            self.work(seat);
        }
        spot.leave();
    }

    /// Takes and executes tasks until none is left to take, as the thread in this seat.
    fn work(&self, seat: usize) {
        let mut done = 0u32;
        let Done { count, working } = &self.seats[seat].done.0;
        while let Some(task) = self.take(seat) {
            if done == 0 {
                working.store(true, Ordering::Relaxed);
            }
            // SAFETY: this thread holds a taken task, so the job cannot end and `job` is not written.
            let job = unsafe { *self.job.get() };
            if let Some(f) = job.f
                && let Err(payload) = catch_unwind(AssertUnwindSafe(|| {
                    if seat == 0 {
                        stop_if_due();
                    }
                    f(job.first + task as usize, seat);
                }))
            {
                done = done.wrapping_add(self.cancel());
                let mut slot = self.panic.lock();
                match &*slot {
                    None => *slot = Some(payload),
                    // Dropping a payload may itself panic; a second one of the same job is left alone.
                    Some(_) => std::mem::forget(payload),
                }
            }
            done = done.wrapping_add(1);
            if job.single && seat > 0 {
                break;
            }
        }
        if done > 0 {
            working.store(false, Ordering::Relaxed);
            count.store(count.load(Ordering::Relaxed).wrapping_add(done), Ordering::Release);
            self.finished.wake(1);
        }
    }

    /// Takes one task: the first of the own share, or the last of the one that has the most left.
    fn take(&self, seat: usize) -> Option<u32> {
        let mut from = seat;
        loop {
            let word = &self.seats[from].share.0;
            let mut now = word.load(Ordering::Relaxed);
            while let share @ Share { next, end } = Share::of(now)
                && share.left() > 0
            {
                let (task, rest) = match from == seat {
                    true => (next, Share { next: next + 1, end }),
                    false => (end - 1, Share { next, end: end - 1 }),
                };
                match word.compare_exchange_weak(now, rest.word(), Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => return Some(task),
                    Err(other) => now = other,
                }
            }
            from = self.fullest(seat)?;
        }
    }

    /// The share that has the most tasks left, if any has some; among equals, the next one after this seat.
    fn fullest(&self, seat: usize) -> Option<usize> {
        let (mut most, mut found) = (0, None);
        for from in (seat..self.seats.len()).chain(0..seat) {
            let left = Share::of(self.seats[from].share.0.load(Ordering::Relaxed)).left();
            if left > most {
                (most, found) = (left, Some(from));
            }
        }
        found
    }

    /// Takes all tasks that are left, to drop them; returns how many. The caller holds a taken task.
    fn cancel(&self) -> u32 {
        let left = self.seats.iter().map(|seat| Share::of(seat.share.0.swap(0, Ordering::Relaxed)).left());
        left.fold(0, u32::wrapping_add)
    }
}

/// What unwinds a kernel that is not wanted any more.
pub(crate) struct Interrupted;

thread_local! {
    /// Whether jobs of this thread may end between two tasks.
    static INTERRUPTIBLE: Cell<bool> = const { Cell::new(false) };
}

/// Does work whose jobs end, unwound by [`Interrupted`], once who waits for it wants to stop.
pub(crate) fn interruptible<R>(work: impl FnOnce() -> R) -> R {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            INTERRUPTIBLE.set(self.0);
        }
    }
    let _back = Back(INTERRUPTIBLE.replace(true));
    work()
}

#[inline]
fn stop_if_due() {
    if INTERRUPTIBLE.get() && interrupt::is_due() {
        // Not a panic: nothing is said.
        resume_unwind(Box::new(Interrupted));
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
