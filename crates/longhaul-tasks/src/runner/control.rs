//! What a run is told from outside, in a few bytes: there is one for every call that waits.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// Something a run is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Control {
    /// The caller no longer wants the answer.
    Cancel,
    /// Nobody wants the answer: the last of those who joined the call, whose caller had left, has left.
    Unwanted,
    /// The caller is gone for good.
    Leave,
    /// So is the last of those who wanted the call.
    Abandoned,
    /// The process is about to go.
    Drain,
    /// It goes now, and takes the work with it.
    CutOff,
    /// The row may no longer be this node's.
    LookAgain,
    /// The work is about to have an effect: there must be a row first.
    WantsRow,
    /// The work asks: its caller is to have a task.
    Asks,
    /// Its lease is about to be over, or holds again.
    Lease,
}

impl Control {
    /// The most urgent first.
    const ALL: [Self; 10] = [
        Self::Cancel,
        Self::Unwanted,
        Self::Leave,
        Self::Abandoned,
        Self::Drain,
        Self::CutOff,
        Self::LookAgain,
        Self::WantsRow,
        Self::Asks,
        Self::Lease,
    ];

    const fn bit(self) -> u16 {
        match self {
            Self::Cancel => 1,
            Self::Drain => 2,
            Self::LookAgain => 4,
            Self::Unwanted => 8,
            Self::Leave => 16,
            Self::Abandoned => 32,
            Self::WantsRow => 64,
            Self::Asks => 128,
            Self::Lease => 256,
            Self::CutOff => 512,
        }
    }
}

/// Reaches one run. Clones reach the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Controls(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// What it has been told and not heard.
    told: u16,
    /// The run, while it waits.
    waiting: Option<Waker>,
}

impl Controls {
    /// Whether both reach the same run.
    pub(super) fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Tells the run; once until it has heard. A run that has ended hears nothing.
    pub(super) fn tell(&self, control: Control) {
        let mut state = self.lock();
        state.told |= control.bit();
        let waiting = state.waiting.take();
        drop(state);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    /// What the run is told next. For the run alone; dropping the future loses nothing.
    pub(super) async fn next(&self) -> Control {
        poll_fn(|cx| {
            let mut state = self.lock();
            if let Some(control) = state.take() {
                return Poll::Ready(control);
            }
            state.waiting = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self) -> Option<Control> {
        let control = Control::ALL.into_iter().find(|control| self.told & control.bit() != 0)?;
        self.told &= !control.bit();
        Some(control)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn next(controls: &Controls) -> Option<Control> {
        match pin!(controls.next()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(control) => Some(control),
            Poll::Pending => None,
        }
    }

    #[test]
    fn each_is_heard_once_the_most_urgent_first() {
        let controls = Controls::default();
        assert_eq!(next(&controls), None);
        for control in [Control::LookAgain, Control::Cancel, Control::LookAgain] {
            controls.clone().tell(control);
        }
        assert_eq!(next(&controls), Some(Control::Cancel));
        assert_eq!(next(&controls), Some(Control::LookAgain));
        assert_eq!(next(&controls), None);
    }

    #[tokio::test]
    async fn whoever_waits_is_woken_though_an_earlier_wait_was_dropped() {
        let controls = Controls::default();
        {
            let mut dropped = pin!(controls.next());
            assert!(dropped.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            controls.tell(Control::Drain);
        }
        assert_eq!(controls.next().await, Control::Drain);
        let (heard, ()) = tokio::join!(controls.next(), async { controls.tell(Control::Cancel) });
        assert_eq!(heard, Control::Cancel);
    }
}
