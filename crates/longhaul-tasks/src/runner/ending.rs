//! Work that is asked to end, and decides how: it is told, and ended once its time for that is up.

use std::sync::Arc;

use longhaul_store::{Record, Scope};

use super::keeper::Keeper;
use super::{Engine, Inner};

/// Tells the work of a task that this node holds that it is to end, if it is. Once its time is up the task is cancelled:
/// by this node, or if it cannot by whoever sweeps next.
pub(super) fn ask_to_end(inner: &Arc<Inner>, keeper: &Keeper, record: &Record) {
    let (Some(reason), Some(until)) = (&record.cancelling, record.expires_at) else { return };
    if !keeper.be_asked_to_end(reason) {
        return;
    }
    tracing::info!(task = %record.id, "the work of a task is asked to end");
    let (engine, id, reason) = (Engine(Arc::clone(inner)), record.id.clone(), Arc::clone(reason));
    let grace = until.since(inner.store.now());
    inner.environment.spawn(Box::pin(async move {
        engine.0.environment.sleep(grace).await;
        let reason = Some(&*reason).filter(|reason| !reason.is_empty());
        if let Err(error) = engine.cancel(Scope::Operator, &id, reason).await {
            tracing::warn!(task = %id, %error, "a task whose work did not end in time is left to be cancelled later");
        }
    }));
}
