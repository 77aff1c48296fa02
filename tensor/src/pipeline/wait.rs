//! Waiting for whichever of several events comes first.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use millstream_core::Event;
use millstream_core::event::EventFuture;

/// Resolves when one of the events is over, well or not.
pub(super) struct Any(Vec<EventFuture>);

impl Any {
    pub fn of(events: &[Event]) -> Any {
        Any(events.iter().map(IntoFuture::into_future).collect())
    }
}

impl Future for Any {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let over = self.0.iter_mut().any(|f| Pin::new(f).poll(context).is_ready());
        if over || self.0.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Wakes a thread that sleeps in an event.
struct Bell(Event);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.signal();
    }
}

/// Waits until one of the events is over, or may be, but not longer than this.
pub(super) fn any(events: &[Event], most: Option<Duration>) {
    // How an event ended is its owner's to ask.
    let wait = |event: &Event| match most {
        Some(most) => drop(event.wait_timeout(most)),
        None => drop(event.wait()),
    };
    match events {
        [] => {}
        [event] => wait(event),
        several => {
            let bell = Event::new();
            let waker = Waker::from(Arc::new(Bell(bell.clone())));
            let mut first = Any::of(several);
            if Pin::new(&mut first).poll(&mut Context::from_waker(&waker)).is_pending() {
                wait(&bell);
            }
        }
    }
}
