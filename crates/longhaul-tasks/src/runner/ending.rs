//! Work that is asked to end, and decides how: it is told, and ended once its time for that is up.

use std::sync::Arc;

use longhaul_store::{Record, Scope};

use super::keeper::Keeper;
use super::{Engine, Inner};
use crate::environment::BoxFuture;

/// Tells the work of a task that this node holds that it is to end, if it is. Completes once its time for that is up;
/// nothing if it is not asked to end, or was told before.
pub(super) fn ask_to_end(inner: &Inner, keeper: &Keeper, record: &Record) -> Option<BoxFuture<'static, ()>> {
    let (reason, until) = (record.cancelling.as_ref()?, record.expires_at?);
    if !keeper.be_asked_to_end(reason) {
        return None;
    }
    tracing::info!(task = %record.id, "the work of a task is asked to end");
    Some(inner.environment.sleep(until.since(inner.store.now())))
}

/// Cancels a task whose work has not ended in its time; where that cannot be written, whoever sweeps next does.
///
/// Not by its run: that is over before all is done.
pub(super) fn end(inner: &Arc<Inner>, record: &Record) {
    let (engine, id) = (Engine(Arc::clone(inner)), record.id.clone());
    let reason = record.cancelling.clone().filter(|reason| !reason.is_empty());
    inner.environment.spawn(Box::pin(async move {
        if let Err(error) = engine.cancel(Scope::Operator, &id, reason.as_deref()).await {
            tracing::warn!(task = %id, %error, "a task whose work did not end in time is left to be cancelled later");
        }
    }));
}
