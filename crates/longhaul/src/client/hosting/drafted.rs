//! What a server asks, as tasks that SEP-1686 drafted: it names each, is told when there is one, and is answered all the same.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::dialect::{Dialect, DraftedTask, Keep, write_drafted_relation};
use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_proto::method::Notice;
use longhaul_tasks::environment::BoxFuture;
use longhaul_tasks::key;
use longhaul_tasks::machine::Plan;
use longhaul_tasks::project;
use longhaul_tasks::runner::{Answer, Call, Observed, Observer, Ticket};
use longhaul_tasks::store::{Dialect as Door, Digest, Once, Record, Retention};
use sha2::{Digest as _, Sha256};

use super::asked::whole;
use super::{Hosting, Said, written};
use crate::client::journal::name_of;
use crate::client::owed::{Owing, Unwanted};
use crate::hosted::{WriteResult, not_found, taken};
use crate::server::{Envelope, Push, Write, not_begun, refused};
use crate::wire::{self, By};

/// A question that is to be a drafted task.
pub(super) struct Drafted {
    /// What its server calls it.
    id: Arc<str>,
    /// The same, and which question it stands for.
    once: Once,
    keep: Keep,
}

impl Drafted {
    /// The task that a question of this kind, with these `params`, is to be.
    ///
    /// # Errors
    ///
    /// `-32602`: it cannot be called so.
    pub(super) fn of(task: DraftedTask, kind: &str, params: &str) -> Result<Self, ErrorObject> {
        let key = key::drafted(&task.id).map_err(|_| {
            ErrorObject::invalid_params(format!(
                "invalid params: the `taskId` of a task has 1 to {} visible ASCII characters",
                key::LONGEST
            ))
        })?;
        let question = Digest::new(Sha256::digest(name_of(kind, params)).into());
        Ok(Self { id: task.id.into(), once: Once::new(key, question), keep: task.keep })
    }

    /// Makes `call` this task, of which its server is told by `push`.
    pub(super) fn lay_out(
        &self,
        call: &mut Call,
        hosting: &Hosting,
        dialect: &'static Dialect,
        push: &Arc<dyn Push>,
    ) {
        (call.plan, call.dialect) = (Plan::in_place_once(), Door::D1);
        call.once = Some(self.once.clone());
        call.retention = hosting.keeps(self.keep);
        call.observer = Arc::new(Told { dialect, id: Arc::clone(&self.id), push: Arc::clone(push) });
    }

    /// What the question is answered with, once its task has ended.
    pub(super) async fn answered(self, mut ticket: Ticket, envelope: Envelope, owing: Owing) -> Said {
        match owing.while_wanted(&mut ticket).await {
            Ok(answer) => written(&envelope, told(answer, self.id)).into(),
            Err(Unwanted::Withdrawn) => {
                ticket.cancel();
                Said::nothing()
            }
            // Its server may come back to the task.
            Err(Unwanted::Gone) => Said::nothing(),
        }
    }
}

/// Tells a server that there is its task.
struct Told {
    dialect: &'static Dialect,
    id: Arc<str>,
    push: Arc<dyn Push>,
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Observer for Told {
    fn observe<'a>(&'a self, observed: Observed<'a>) -> BoxFuture<'a, ()> {
        if let Observed::Kept { .. } = observed {
            let message = wire::notification(By::Client, self.dialect, Notice::TaskCreated, |params| {
                write_drafted_relation(params, &self.id);
            });
            if let Some(message) = message {
                self.push.push(message);
            }
        }
        Box::pin(std::future::ready(()))
    }
}

impl Hosting {
    /// How long a drafted task is kept after its end.
    fn keeps(&self, keep: Keep) -> Retention {
        Retention::AfterTerminal(match keep {
            Keep::Unsaid => self.ttl.min(self.max_ttl),
            Keep::Millis(millis) => Duration::from_millis(millis).min(self.max_ttl),
            Keep::Unlimited => self.max_ttl,
        })
    }
}

/// What a server is told that waits for the answer to its question.
fn told(answer: Answer, id: Arc<str>) -> Write {
    match answer {
        Answer::Outcome(outcome) => match project::value(&outcome, Some(&id)) {
            Ok(value) => {
                let write = whole(value.clone());
                Box::new(move |envelope, out| {
                    envelope.result(out, |writer| {
                        writer.drafted_task(&id);
                        write(writer);
                    })
                })
            }
            Err(error) => refused(error),
        },
        Answer::Refused(refusal) => refused(match refusal.reason {
            Some(reason) => taken(&id, reason),
            None => not_begun(refusal),
        }),
        // Who waits to the end is never handed over.
        Answer::Task(_) | Answer::HandOver(_) => refused(ErrorObject::internal("the task has not ended")),
    }
}

/// The result of a task, for whoever fetches it.
pub(super) fn result(record: &Record) -> Result<WriteResult, ErrorObject> {
    let outcome = record.outcome().ok_or_else(not_found)?;
    Ok(whole(project::value(outcome, None)?.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drafted_task_is_kept_no_longer_than_its_host_lets_it() {
        let hosting = Hosting::default().ttl(Duration::from_secs(60), Duration::from_secs(600));
        for (keep, seconds) in [
            (Keep::Unsaid, 60),
            (Keep::Millis(0), 0),
            (Keep::Millis(5_000), 5),
            (Keep::Millis(u64::MAX), 600),
            (Keep::Unlimited, 600),
        ] {
            let kept = Retention::AfterTerminal(Duration::from_secs(seconds));
            assert_eq!(hosting.keeps(keep), kept, "{keep:?}");
        }
    }
}
