//! The place of work among those of its tool that may run at once, while it waits for tasks of its own.

use std::sync::Arc;
use std::task::{Context, Poll};

use longhaul_store::Outcome;

use crate::environment::BoxFuture;
use crate::runner::keeper::Keeper;
use crate::runner::runs::Listed;
use crate::runner::worker::Place;

/// Polls work that has a place. What waits for a task that it has made gives its place back, for that task may need it,
/// and is polled next when it has one again.
pub(super) fn poll(
    work: &mut BoxFuture<'static, Outcome>,
    keeper: Option<&Keeper>,
    listed: &Listed,
    (place, returning): (&mut Place, &mut Option<BoxFuture<'static, Place>>),
    task: &mut Context<'_>,
) -> Poll<Outcome> {
    if let Some(way) = returning {
        match way.as_mut().poll(task) {
            Poll::Ready(again) => (*place, *returning) = (again, None),
            Poll::Pending => return Poll::Pending,
        }
    }
    let polled = work.as_mut().poll(task);
    if polled.is_pending()
        && keeper.is_some_and(Keeper::awaits_child)
        && let Some(given) = place.take()
    {
        *returning = Some(Arc::clone(&given.places).next(listed.inner.waits(&listed.id)));
    }
    polled
}
