//! A node that answers and works on nothing: what is called there is queued for nodes that do, and followed for its callers.

use std::sync::Arc;

use longhaul_store::{Created, Start};

use super::Inner;
use super::call::{Answer, Call, Ticket, Waiter, named};
use super::control::Controls;
use super::follow::{Again, Whose};
use super::operation::{Done, commit};
use super::run::new_task;
use crate::machine::{Caller, Event, Refusal};
use crate::note::Note;
use crate::project;

/// Makes a task of a call, which whoever claims it begins, and waits for it as its caller does.
pub(super) fn queue(inner: &Arc<Inner>, call: Call) -> Ticket {
    let controls = Controls::default();
    let (waiter, ticket) = Waiter::new(&inner.runs, controls.clone());
    let id = named(inner, &call);
    let mut task = new_task(&id, &call);
    task.caller = Note {
        again: true,
        caller: call.context,
        client: call.client,
        conversation: call.conversation,
        secret: call.secret,
        ..Note::default()
    }
    .json();
    task.start = Start::Queued { not_before: inner.store.now() };
    let wait = |time| inner.environment.sleep(time);
    let told = call.after.filter(|_| call.plan.caller == Caller::TakesTask && !call.plan.tells_at_once);
    let (hold, told) = (call.hold.map(wait), told.map(wait));
    let (inner, plan, observer) = (Arc::clone(inner), call.plan, Some(call.observer));
    Arc::clone(&inner.environment).spawn(Box::pin(async move {
        let found = match inner.store.create(task.clone()).await {
            Ok(Created::New(record) | Created::Joined(record)) => Ok(Arc::new(record)),
            // It may be there, though that could not be said.
            _ => match commit(Arc::clone(&inner), task, false).await {
                Done::Committed(record) | Done::Again(record) => Ok(record),
                Done::Event(Event::CommitFailed(refusal)) => Err(refusal),
                _ => Err(Refusal::new("the call could not be written", false)),
            },
        };
        match found {
            Ok(record) => {
                let is_own = record.id == id;
                // Nobody has called before: who cancels the call cancels the task.
                let whose = if is_own { Whose::Own } else { Whose::Anothers };
                let record = if is_own { project::as_begun(record) } else { record };
                let again = Again { inner, plan, controls, waiter, observer, hold, told, whose };
                again.follow(record).await;
            }
            Err(refusal) => waiter.tell(Answer::Refused(refusal)),
        }
    }));
    ticket
}
