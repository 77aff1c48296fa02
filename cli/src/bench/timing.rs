//! How long something takes: the protocol that peers are timed with, too.

use std::time::{Duration, Instant};

use crate::failure::Outcome;
use crate::interrupt;

/// A time and how much it varied, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// The median.
    pub ms: f64,
    /// Half of the distance between the quartiles.
    pub spread: f64,
}

impl Timing {
    /// Sums up single times in milliseconds.
    pub fn of(mut times: Vec<f64>) -> Timing {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let i = ((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1));
            times.get(i).copied().unwrap_or_default()
        };
        Timing { ms: at(0.5), spread: (at(0.75) - at(0.25)) / 2.0 }
    }

    /// The same for one of `n` equal parts.
    pub fn per(self, n: usize) -> Timing {
        Timing { ms: self.ms / n as f64, spread: self.spread / n as f64 }
    }
}

/// Times one piece of work: three times unmeasured, then at least five times until the time is over or there are enough.
pub fn repeat(seconds: f64, most: usize, mut work: impl FnMut() -> Outcome<Duration>) -> Outcome<Timing> {
    for _ in 0..3 {
        interrupt::check()?;
        work()?;
    }
    let mut times = Vec::new();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while times.len() < 5 || (Instant::now() < end && times.len() < most) {
        interrupt::check()?;
        times.push(work()?.as_secs_f64() * 1e3);
    }
    Ok(Timing::of(times))
}

/// A stretch of work while a device comes up to speed.
pub const STRETCH: Duration = Duration::from_millis(400);
/// How many of them there are at most.
const STRETCHES: usize = 10;

/// Lets a device come up to speed: repeats work until a stretch of it is no longer faster than the one before.
///
/// Drivers raise a GPU's clock step by step while it is busy and lower it while it is not, at least through graphics APIs: on an
/// H200 through Vulkan from 1980 to 345 MHz within the three seconds that preparing the next case may take.
pub fn settle(stretch: Duration, mut work: impl FnMut() -> Outcome<Duration>) -> Outcome {
    let mut before = f64::INFINITY;
    for _ in 0..STRETCHES {
        let (start, mut times) = (Instant::now(), Vec::new());
        while times.is_empty() || start.elapsed() < stretch {
            interrupt::check()?;
            times.push(work()?.as_secs_f64());
        }
        let now = Timing::of(times).ms;
        if now > 0.98 * before {
            break;
        }
        before = now;
    }
    Ok(())
}

/// How many calls a loop makes whose single calls are too short to time.
pub const CALLS: usize = 1000;

/// Times a call in seven loops of [`CALLS`], each with `after` at its end.
pub fn call(call: impl FnMut() -> Outcome, after: impl FnMut() -> Outcome) -> Outcome<Timing> {
    loops(CALLS, call, after)
}

/// Times a call in seven loops of so many, each with `after` at its end.
pub fn loops(calls: usize, mut call: impl FnMut() -> Outcome, mut after: impl FnMut() -> Outcome) -> Outcome<Timing> {
    let mut times = Vec::new();
    for round in 0..8 {
        interrupt::check()?;
        let start = Instant::now();
        for _ in 0..calls {
            call()?;
        }
        after()?;
        // The first round warms up.
        if round > 0 {
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(Timing::of(times).per(calls))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_ignores_outliers() {
        let timing = Timing::of(vec![1.0, 900.0, 2.0, 3.0, 2.5]);
        assert_eq!(timing.ms, 2.5);
        assert!(timing.spread <= 1.0);
        assert_eq!(Timing::of(vec![]).ms, 0.0);
    }

    #[test]
    fn a_device_settles_when_it_is_no_faster_than_before() {
        let settle = |times: &[u64]| {
            let mut runs = 0;
            let settled = settle(Duration::ZERO, || {
                runs += 1;
                Ok(Duration::from_millis(times[(runs - 1).min(times.len() - 1)]))
            });
            settled.map(|()| runs).unwrap_or_else(|f| panic!("{f}"))
        };
        assert_eq!(settle(&[5]), 2);
        assert_eq!(settle(&[50, 40, 30, 20, 20]), 5);
        assert_eq!(settle(&(1..100).rev().map(|n| n * n).collect::<Vec<_>>()), STRETCHES);
    }

    #[test]
    fn work_is_repeated_at_least_five_times_after_warming_up() {
        let mut runs = 0;
        let timing = repeat(0.0, 2000, || {
            runs += 1;
            Ok(Duration::from_millis(runs))
        });
        assert_eq!(runs, 8);
        assert_eq!(timing.unwrap_or_else(|f| panic!("{f}")).ms, 6.0);
    }
}
