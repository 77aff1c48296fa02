//! Cases of many short calls: what one operation costs beside its arithmetic.

use std::cell::{Cell, RefCell};

use millstream::{DType, Device, Event, Idea, Tensor};

use super::random::Normal;
use super::timing::{self, Timing};
use crate::failure::Outcome;

/// A short call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `x + x` of 1,024 elements.
    AddSmall,
    /// Ten operations, then one evaluation.
    Adds10,
    /// The same as a compiled function.
    Compiled10,
    /// A sum over a part of a tensor that is another each time.
    Moving,
    /// A tensor that is one row longer each time, and a sum over it.
    Growing,
    /// A view.
    Reshape,
    /// One small operation and a full wait.
    Sync,
    /// A plan of many small kernels, none fused with another.
    Kernels100,
}

/// Times a call.
pub fn time(call: Call, device: &Device) -> Outcome<Timing> {
    let x = Normal::new(1, DType::F32).tensor(&[1024]).to(device);
    x.check()?;
    // On a device that queues, calls are queued one after the other and waited for at the end of a loop, as peers do; the
    // device's own stream runs them in order, so the last is the one to wait for.
    let queued: RefCell<Option<Event>> = RefCell::default();
    let compute = |y: Tensor| -> Outcome {
        if device.is_host() {
            y.eval()?;
        } else {
            *queued.borrow_mut() = Some(y.eval_async()?);
        }
        Ok(())
    };
    let finish = || -> Outcome { Ok(queued.take().iter().try_for_each(Event::wait)?) };
    match call {
        Call::AddSmall => timing::call(|| compute(&x + &x), finish),
        Call::Sync => timing::call(|| Ok((&x + &x).eval()?), finish),
        Call::Adds10 => {
            let ten = || {
                let mut y = x.clone();
                for _ in 0..5 {
                    y = (&y + &x).tanh();
                }
                compute(y)
            };
            timing::call(ten, finish)
        }
        Call::Compiled10 => {
            let f = millstream::compile(|x| (0..5).fold(x.clone(), |y, _| (y + x).tanh()));
            timing::call(
                || {
                    let y = f.call(&x)?;
                    compute(y)
                },
                finish,
            )
        }
        Call::Moving => {
            let at = Cell::new(0);
            let step = || {
                at.set((at.get() + 1) % 960);
                compute((x.slice(0, at.get()..at.get() + 64) * 2.0).sum(..))
            };
            timing::call(step, finish)
        }
        Call::Growing => {
            // Every length is new: nothing that was planned before can serve.
            let sequence = RefCell::new(x.reshape([128, 8]));
            let step = || {
                let next = Tensor::concat([&sequence.borrow(), &x.slice(0, ..8).reshape([1, 8])], 0);
                let next = if next.shape()[0] > 4000 { x.reshape([128, 8]) } else { next };
                let sum = next.sum(0);
                Tensor::eval_all([&next, &sum])?;
                *sequence.borrow_mut() = next;
                Ok(())
            };
            timing::loops(100, step, finish)
        }
        Call::Kernels100 => {
            // With fusion these would be one kernel: it is switched off while they are timed.
            let runtime = millstream::default_runtime()?;
            let plan = || {
                let mut y = x.clone();
                for _ in 0..100 {
                    y = &y + &x;
                }
                compute(y)
            };
            let fused = device.has(Idea::Fuse);
            runtime.set_idea(Idea::Fuse, false);
            let timing = timing::loops(50, plan, finish);
            runtime.set_idea(Idea::Fuse, fused);
            timing.map(|t| t.per(100))
        }
        Call::Reshape => {
            let m = Tensor::full([4096, 4096], 1f32).to(device).copy();
            m.eval()?;
            timing::call(|| Ok(m.reshape([2048, 8192]).check()?), finish)
        }
    }
}
