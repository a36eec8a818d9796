//! Where the job of a task begins is in its row before it begins, so that no node elsewhere begins it once more.

use std::sync::Arc;

use longhaul_store::{Batch, Epoch, HostId, Record, StoreError, TaskId};

use super::Inner;
use super::control::Controls;
use super::operation::{Done, Operation, is_ours, look};
use crate::job::ExternalJob;
use crate::machine::{Event, Refusal};

/// The host that a task is to be bound to before `job` begins for it; `None` where its row says already, or where its jobs are
/// found anywhere.
pub(super) fn unbound_host(record: &Record, job: &dyn ExternalJob) -> Option<HostId> {
    job.host().filter(|_| record.host.is_none()).cloned()
}

/// Does something to a task once it is bound.
pub(super) fn first(
    inner: Arc<Inner>,
    (id, controls, epoch): (TaskId, Controls, Epoch),
    host: HostId,
    then: Operation,
) -> Operation {
    Box::pin(async move {
        match bind(&inner, (&id, &controls, epoch), host).await {
            Ok(()) => then.await,
            Err(done) => done,
        }
    })
}

/// Binds a task that the run which `controls` reach holds; or else gives what is to be reported of it: that it is not the run's
/// any more, or that it could not be written now.
pub(super) async fn bind(
    inner: &Arc<Inner>,
    (id, controls, mut epoch): (&TaskId, &Controls, Epoch),
    host: HostId,
) -> Result<(), Done> {
    let not_yet =
        |why: &str| Err(Done::Event(Event::Refused(Refusal::new(format!("{UNBOUND}: {why}"), true))));
    loop {
        match inner.store.write(id, epoch, Batch::new().with_host(host.clone())).await {
            Ok(_) => return Ok(()),
            Err(StoreError::Fenced { .. }) => {
                inner.counts.fenced_writes.add(1);
                match look(Arc::clone(inner), id.clone()).await {
                    // This node's own claim brought it in again, for its lease had run out.
                    Done::Seen(Some(record))
                        if record.epoch == epoch.next()
                            && is_ours(inner, &record)
                            && inner.runs.is(id, controls) =>
                    {
                        epoch = record.epoch;
                    }
                    Done::Unseen => return not_yet("the task cannot be read"),
                    seen => return Err(seen),
                }
            }
            Err(error) => {
                tracing::warn!(task = %id, %error, "where a job is to begin could not be written yet");
                return not_yet("the task cannot be written");
            }
        }
    }
}

/// Why a job does not begin yet, for its caller.
const UNBOUND: &str = "the host that it is to run on could not be noted";
