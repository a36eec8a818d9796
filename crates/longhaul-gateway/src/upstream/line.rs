//! The line before a server that takes so many calls at once: who comes first goes first.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Who is at a server, and who waits to be. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// How many may be at it; any number when `None`.
    at_once: Option<NonZeroU32>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    at_it: u32,
    waiting: VecDeque<oneshot::Sender<Place>>,
}

/// A place at a server, until dropped.
#[derive(Debug)]
pub(super) struct Place(Option<Line>);

impl Line {
    pub(super) fn new(at_once: Option<NonZeroU32>) -> Self {
        Self { at_once, state: Arc::default() }
    }

    /// Waits for a place; `on_wait` is told how many are at it when there is none yet.
    pub(super) async fn enter(&self, on_wait: impl FnOnce(u32)) -> Place {
        let Some(at_once) = self.at_once else { return Place(None) };
        let coming = {
            let mut state = self.lock();
            if state.at_it < at_once.get() {
                state.at_it += 1;
                return Place(Some(self.clone()));
            }
            let (place, coming) = oneshot::channel();
            state.waiting.retain(|waiting| !waiting.is_closed());
            state.waiting.push_back(place);
            coming
        };
        on_wait(at_once.get());
        coming.await.expect("whoever waits is given a place, or goes")
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(line) = self.0.take() else { return };
        loop {
            let mut state = line.lock();
            let Some(next) = state.waiting.pop_front() else {
                state.at_it -= 1;
                return;
            };
            drop(state);
            match next.send(Self(Some(line.clone()))) {
                Ok(()) => return,
                // Who waited has gone: the next one may have the place, and this one is none.
                Err(mut unclaimed) => drop(unclaimed.0.take()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn who_comes_first_goes_first_and_who_has_gone_keeps_nobody() {
        let line = Line::new(NonZeroU32::new(2));
        let never = |_| panic!("there is a place");
        let (first, second) = (line.enter(never).await, line.enter(never).await);
        let told = std::cell::Cell::new(None);
        let mut third = pin!(line.enter(|at_it| told.set(Some(at_it))));
        assert!(now(third.as_mut()).await.is_none());
        let mut gone = Box::pin(line.enter(drop));
        assert!(now(gone.as_mut()).await.is_none());
        let mut last = pin!(line.enter(drop));
        assert!(now(last.as_mut()).await.is_none());
        drop(first);
        let third = now(third.as_mut()).await.expect("it was before the others");
        assert!(now(last.as_mut()).await.is_none());
        drop(gone);
        drop(second);
        let last = now(last.as_mut()).await.expect("who was before it has gone");
        assert_eq!(told.get(), Some(2));
        assert!(now(pin!(line.enter(drop)).as_mut()).await.is_none(), "both places are taken");
        drop((third, last));
        assert_eq!(line.lock().at_it, 0);
        drop((line.enter(never).await, line.enter(never).await));
    }

    #[tokio::test]
    async fn a_place_that_was_given_to_somebody_who_goes_is_given_on() {
        let line = Line::new(NonZeroU32::new(1));
        let first = line.enter(drop).await;
        let mut gone = Box::pin(line.enter(drop));
        assert!(now(gone.as_mut()).await.is_none());
        let mut last = pin!(line.enter(drop));
        assert!(now(last.as_mut()).await.is_none());
        drop(first);
        // It has a place by now, and does not know.
        drop(gone);
        assert!(now(last.as_mut()).await.is_some());
    }

    /// What comes of it without waiting.
    async fn now<F: Future>(coming: std::pin::Pin<&mut F>) -> Option<F::Output> {
        let mut coming = coming;
        std::future::poll_fn(|cx| match coming.as_mut().poll(cx) {
            std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
            std::task::Poll::Pending => std::task::Poll::Ready(None),
        })
        .await
    }
}
