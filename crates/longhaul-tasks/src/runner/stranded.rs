//! Tasks that no node can go on with, for their tool is gone, accepts their version no more, or runs on a host of which no node
//! is there: each is queued and says so where its caller looks, until a node comes that can. What is bound to a host is lost if
//! none comes for too long.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use longhaul_store::{
    Batch, Epoch, Filter, Outcome, Page, Phase, Record, Rerun, Scope, StoreError, TaskId, Time, ToolVersion,
};

use super::Inner;
use super::begin::has_begun;
use super::control::Control;
use super::recovery::{can_work_on, is_begun_by_claim, take_up, wake_parent};
use crate::report::Reporter;

/// What was seen of them.
#[derive(Default)]
struct Seen {
    /// Where each was at the last look.
    places: HashMap<TaskId, Epoch>,
    /// Since when the store could be used at each look: before that, nodes that live may not have been able to say so.
    since: Option<Time>,
}

/// Tells of such tasks, for ever.
pub(super) async fn keep_telling(inner: Arc<Inner>) {
    let mut seen = Seen::default();
    loop {
        if let Err(error) = look(&inner, &mut seen).await {
            tracing::warn!(%error, "could not look for tasks that no node runs");
            seen.since = None;
        }
        inner.environment.sleep(inner.pace.strand_after).await;
    }
}

/// Looks for tasks that were at the same place at the last look, when other nodes could have taken them since.
async fn look(inner: &Arc<Inner>, seen: &mut Seen) -> Result<(), StoreError> {
    let before = mem::take(&mut seen.places);
    if *inner.draining.borrow() {
        return Ok(());
    }
    let (mut after, mut longest) = (None, Duration::ZERO);
    loop {
        let page = inner.store.list(Scope::Operator, &Filter::claimable(), after.as_ref(), Page::MAX).await?;
        let now = inner.store.now();
        let looked = *seen.since.get_or_insert(now);
        for record in &page.tasks {
            let due = due_since(record);
            longest = longest.max(now.since(due));
            let was_there = before.get(&record.id) == Some(&record.epoch);
            match see(inner, record, now.since(due.max(looked)), was_there).await {
                Ok(false) => continue,
                Ok(true) => {}
                Err(error) if error.is_retryable() || matches!(error, StoreError::Closed) => {
                    return Err(error);
                }
                // Those behind it are looked at all the same.
                Err(error) => {
                    tracing::warn!(task = %record.id, %error, "a task that no node runs could not be seen to yet");
                }
            }
            seen.places.insert(record.id.clone(), record.epoch);
        }
        after = page.next;
        if after.is_none() {
            inner.counts.due.set(longest);
            return Ok(());
        }
    }
}

/// Sees to a task that nobody has claimed for so long, and that may have been there at the last look; whether it has to be looked at
/// again.
async fn see(
    inner: &Arc<Inner>,
    record: &Record,
    unclaimed: Duration,
    was_there: bool,
) -> Result<bool, StoreError> {
    let is_here = inner.workers.is_here(record);
    if unclaimed >= inner.pace.host_grace && !is_here {
        lose(inner, &record.id).await?;
        return Ok(false);
    }
    // What is told says so once; that a node of its host is there has to be said again and again.
    let is_near = record.host.is_some() && is_here && unclaimed >= inner.pace.host_grace / 2;
    if is_near && !inner.is_front && !can_work_on(inner, record).await {
        keep(inner, &record.id).await?;
        return Ok(false);
    }
    // A front runs nothing, which says nothing of others.
    if inner.is_front || is_told(record) || can_work_on(inner, record).await {
        return Ok(false);
    }
    if was_there {
        tell(inner, &record.id).await?;
    }
    Ok(true)
}

/// Since when an open task could have been taken up, as far as it can be told: of one whose node has died, since its lease is
/// over.
fn due_since(record: &Record) -> Time {
    match &record.phase {
        Phase::Queued { not_before: at } | Phase::Parked { until: Some(at) } => *at,
        Phase::Running { lease } => lease.until,
        _ => record.updated_at,
    }
}

/// Queues a task that nobody works on, and says why it is there.
async fn tell(inner: &Arc<Inner>, id: &TaskId) -> Result<(), StoreError> {
    let Some(record) = inner.store.claim_one(id).await? else { return Ok(()) };
    if inner.runs.tell(id, Control::LookAgain) {
        // It is at work here, and its lease had run out.
        return Ok(());
    }
    let told = match is_over(inner, &record).await {
        Ok(true) => {
            // Nothing of it will run: it is lost, in whichever version it was.
            take_up(inner, record);
            return Ok(());
        }
        Ok(false) => {
            let message = message(&record);
            tracing::warn!(task = %id, tool = %record.tool, version = %record.version, "no node runs a task");
            inner.store.write(id, record.epoch, Batch::new().with_status_message(message)).await.map(drop)
        }
        Err(error) => Err(error),
    };
    inner.store.release(id, record.epoch).await?;
    told
}

/// Whether a task is a function's that never runs twice and has begun. One that has not is for a node that accepts its version.
async fn is_over(inner: &Inner, record: &Record) -> Result<bool, StoreError> {
    let is_future = inner.workers.has(&record.tool) && inner.workers.job(&record.tool).is_none();
    if record.rerun != Rerun::Never || !is_future {
        return Ok(false);
    }
    Ok(!is_begun_by_claim(record) || has_begun(&inner.store.steps(&record.id, record.epoch).await?))
}

/// A node of its host is there, though it cannot go on with the task either: nobody else ends it.
async fn keep(inner: &Arc<Inner>, id: &TaskId) -> Result<(), StoreError> {
    let Some(record) = inner.store.claim_one(id).await? else { return Ok(()) };
    if inner.runs.tell(id, Control::LookAgain) {
        return Ok(());
    }
    inner.store.release(id, record.epoch).await.map(drop)
}

/// Ends a task whose host is gone: what may still run there ends when a node of it comes back.
async fn lose(inner: &Arc<Inner>, id: &TaskId) -> Result<(), StoreError> {
    let Some(record) = inner.store.claim_one(id).await? else { return Ok(()) };
    let grace = inner.pace.host_grace.as_secs();
    let reason = format!("no node has been on the host that it ran on for {grace} s");
    tracing::warn!(task = %id, tool = %record.tool, reason, "a task is lost");
    let ended = inner.store.finish(id, record.epoch, Outcome::lost(reason), Batch::new()).await?;
    wake_parent(inner, &ended.into_record());
    Ok(())
}

/// Whether the task says already that nobody runs it.
fn is_told(record: &Record) -> bool {
    record.status_message.as_deref() == Some(&message(record))
}

/// A task is taken up that may say that nobody would.
pub(super) fn take_back(record: &Record, reporter: &Reporter) {
    if is_told(record) {
        reporter.status("taken up again");
    }
}

/// Made of the task alone, so that whoever sees it knows whether it was said.
fn message(record: &Record) -> String {
    let (tool, version) = (&record.tool, &record.version);
    let what = match *version == ToolVersion::default() {
        true => tool.to_string(),
        false => format!("version {version} of {tool}"),
    };
    match record.host {
        Some(_) => format!("waiting for a node on its host that runs {what}"),
        None => format!("queued: no node runs {what}"),
    }
}
