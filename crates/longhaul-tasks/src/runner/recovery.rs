//! Taking up what other processes left, and doing what time demands.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use longhaul_store::{
    Batch, Epoch, Filter, Json, Outcome, Page, Phase, Record, Rerun, Scope, Step, StoreError, TaskId,
};

use super::Inner;
use super::begin::{self, has_begun};
use super::bind::{bind, unbound_host};
use super::control::Controls;
use super::operation::{Done, finish, give_back, look};
use super::orphan;
use super::pause::Pauses;
use super::run::Run;
use super::runs::Listed;
use super::undo::{self, undo};
use crate::job::Attached;
use crate::note::Note;
use crate::report::Reporter;

/// How many tasks to take up, or to sweep, at a time.
const AT_A_TIME: usize = 64;

/// Tasks that were queued and had not begun here when that was asked, each at its epoch then: nothing begins before the next.
pub(super) type Idle = HashMap<TaskId, Epoch>;

/// Takes up every task that nobody works on and this node can; says how many.
pub(super) async fn recover(inner: &Arc<Inner>, idle: &mut Idle) -> Result<usize, StoreError> {
    // What this node gives back is for another.
    if inner.is_front || *inner.draining.borrow() {
        return Ok(0);
    }
    Ok(recover_own(inner).await? + recover_others(inner, idle).await?)
}

/// Those of this node's tools, in the versions it accepts.
async fn recover_own(inner: &Arc<Inner>) -> Result<usize, StoreError> {
    let runs = inner.workers.runnable();
    if runs.is_empty() {
        return Ok(0);
    }
    let mut taken = 0;
    loop {
        let claimed = inner.store.claim(AT_A_TIME, Some(&runs)).await?;
        let count = claimed.len();
        for record in claimed {
            take_up(inner, record);
        }
        taken += count;
        if count < AT_A_TIME {
            return Ok(taken);
        }
    }
}

/// Those of tools that this node does not have, or not in their version, whose jobs have begun.
async fn recover_others(inner: &Arc<Inner>, idle: &mut Idle) -> Result<usize, StoreError> {
    let (before, mut taken, mut after) = (mem::take(idle), 0, None);
    if inner.workers.others().is_none() {
        return Ok(taken);
    }
    loop {
        let page = inner.store.list(Scope::Operator, &Filter::claimable(), after.as_ref(), Page::MAX).await?;
        for record in page.tasks.iter().filter(|record| !inner.workers.run(record)) {
            let is_queued = matches!(record.phase, Phase::Queued { .. });
            let is_idle = is_queued && before.get(&record.id) == Some(&record.epoch);
            match if is_idle { Some(false) } else { has_begun_here(inner, record).await } {
                Some(true) => taken += usize::from(claim_and_take_up(inner, record).await?),
                Some(false) if is_queued => drop(idle.insert(record.id.clone(), record.epoch)),
                _ => {}
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(taken);
        }
    }
}

/// Takes up a task if nobody works on it and this node can: what has not begun of a tool that it does not have, in its version,
/// is for a node that has.
pub(super) async fn try_take_up(inner: &Arc<Inner>, record: &Record) -> Result<bool, StoreError> {
    if !can_work_on(inner, record).await {
        return Ok(false);
    }
    claim_and_take_up(inner, record).await
}

async fn claim_and_take_up(inner: &Arc<Inner>, record: &Record) -> Result<bool, StoreError> {
    let Some(claimed) = inner.store.claim_one(&record.id).await? else { return Ok(false) };
    take_up(inner, claimed);
    Ok(true)
}

/// Whether this node can go on with a task.
pub(super) async fn can_work_on(inner: &Arc<Inner>, record: &Record) -> bool {
    !inner.is_front
        && inner.workers.is_here(record)
        && (inner.workers.run(record) || has_begun_here(inner, record).await == Some(true))
}

/// Whether a task has begun as a job that this node finds; `None` where that cannot be told.
async fn has_begun_here(inner: &Inner, record: &Record) -> Option<bool> {
    let jobs = inner.workers.found(record).filter(|_| inner.workers.is_here(record))?;
    // What was never claimed has begun nowhere.
    if !record.started {
        return Some(false);
    }
    let begun = jobs.has_begun(&record.id).await;
    begun
        .inspect_err(|error| {
            tracing::warn!(task = %record.id, ?error, "whether its job has begun cannot be told yet");
        })
        .ok()
}

/// Takes up a task that was claimed. Its lease is renewed from now on.
pub(super) fn take_up(inner: &Arc<Inner>, record: Record) {
    if inner.runs.claimed_back(&record) {
        return;
    }
    if !inner.workers.is_here(&record) {
        // Bound between the look at it and the claim.
        let (id, epoch) = (record.id, record.epoch);
        let inner = Arc::clone(inner);
        return Arc::clone(&inner.environment).spawn(Box::pin(async move {
            give_back(inner, id, epoch, None).await;
        }));
    }
    inner.counts.takeovers.add(usize::from(!record.is_terminal() && record.attempt > 1));
    let listed = Listed::new(Arc::clone(inner), record.id.clone(), Controls::default());
    listed.hold(&record);
    if record.is_terminal() {
        let undoes = inner.runs.undoes();
        return inner.environment.spawn(Box::pin(async move {
            undo(listed, record).await;
            drop(undoes);
        }));
    }
    // Apart, for to find a job, or to end what is left of it, takes its time, and the next must not wait for it.
    inner.environment.spawn(Box::pin(find_job(listed, record)));
}

async fn find_job(listed: Listed, record: Record) {
    let Some(job) = listed.inner.workers.job_of(&record) else {
        return enter_again(listed, record).await;
    };
    let (reporter, reports) = Reporter::new();
    match job.attach(&record.id, Note::of(&record).begun, reporter.clone()).await {
        Attached::Lost { reason } => lose(listed, &record, &reason).await,
        Attached::Running(_) if record.rerun != Rerun::Reattach => {
            // What still runs of it is nobody's.
            if let Err(error) = job.cancel(&record.id).await {
                tracing::warn!(task = %record.id, ?error, "what is left of a lost job could not be ended");
            }
            lose(listed, &record, "the server that ran it is gone, and it is not taken up again").await;
        }
        found => {
            // Whoever wrote the row of what is here knew of no hosts.
            if !matches!(found, Attached::NeverStarted)
                && let Some(host) = unbound_host(&record, &*job)
                && bind(&listed.inner, (&record.id, &listed.controls, record.epoch), host).await.is_err()
            {
                tracing::warn!(task = %record.id, "the host of a task could not be noted: it goes on all the same");
            }
            tracing::info!(task = %record.id, tool = %record.tool, "took up a task");
            let environment = Arc::clone(&listed.inner.environment);
            let run = Run::take_up(listed, record, job, found, (reporter, reports));
            environment.spawn(Box::pin(run.drive()));
        }
    }
}

/// Enters the work of a task again whose process is gone, or which was put aside.
async fn enter_again(listed: Listed, record: Record) {
    let inner = Arc::clone(&listed.inner);
    let twice = matches!(record.rerun, Rerun::Resumable | Rerun::Restart);
    let may = twice || is_begun_by_claim(&record);
    let Some(entry) = inner.workers.entry(&record.tool).filter(|_| may) else {
        // A future of the process that is gone: it is not run twice.
        return lose(listed, &record, GONE).await;
    };
    // What is never run twice has ended no process before it has begun.
    if twice && record.attempt > inner.pace.max_attempts {
        return give_up(listed, &record).await;
    }
    // That one process has ended says nothing of the work. What has ended several would end the next one too, as fast as that can
    // start; others that were in them have not even begun, and are not charged for it.
    if let Some(losses) = begin::losses(&record) {
        begin::spare(&inner, &record).await;
        Pauses::of_work(&inner).after(losses).wait(&inner).await;
    }
    let Some(steps) = read_steps(&listed, &record).await else {
        // Somebody may have ended it in between.
        return match look(inner, record.id).await {
            Done::Seen(Some(ended)) if ended.is_undoing() => undo::begin(listed, &ended).await,
            _ => {}
        };
    };
    if !twice && has_begun(&steps) {
        return lose(listed, &record, GONE).await;
    }
    inner.counts.replays.add(usize::from(record.attempt > 1 || !steps.is_empty()));
    tracing::info!(task = %record.id, tool = %record.tool, attempt = record.attempt, "entered a task again");
    let run = Run::enter_again(listed, record, entry, steps);
    inner.environment.spawn(Box::pin(run.drive()));
}

/// Whether it had not begun when its row was written: what a front or a task has made, or an operator again, was queued, and what stood
/// in line had no place. Whoever claims it begins it, unless somebody has before.
pub(super) fn is_begun_by_claim(record: &Record) -> bool {
    record.parent.is_some() || Note::of(record).again
}

/// Why a task is lost whose work must not run twice.
const GONE: &str = "the process that ran it is gone";

/// The steps of a task that was claimed; or it is given back, uncharged, and whoever finds it next tries again.
pub(super) async fn read_steps(listed: &Listed, record: &Record) -> Option<Vec<Step>> {
    let (inner, id) = (&listed.inner, &record.id);
    let error = match inner.store.steps(id, record.epoch).await {
        Ok(steps) => return Some(steps),
        Err(error) => error,
    };
    tracing::warn!(task = %id, %error, "the steps of a task could not be read yet");
    inner.environment.sleep(inner.pace.retry_work).await;
    let spared = begin::losses(record).map(|_| record.attempt);
    give_back(Arc::clone(inner), id.clone(), record.epoch, spared).await;
    None
}

/// Ends a task whose work has ended one process after another.
async fn give_up(listed: Listed, record: &Record) {
    let attempts = record.attempt - 1;
    tracing::warn!(task = %record.id, tool = %record.tool, attempts, "a task is given up");
    let data = Json::parse(format!(r#"{{"reason":"attempts_exhausted","attempts":{attempts}}}"#)).ok();
    let message = format!("given up after {attempts} attempts, each of which ended with its process");
    let outcome = Outcome::error(INTERNAL_ERROR, message, data);
    end(listed, record, outcome).await;
}

/// The run that ends so is over before it began: nobody is to be told.
async fn end(listed: Listed, record: &Record, outcome: Outcome) {
    let (inner, controls) = (Arc::clone(&listed.inner), listed.controls.clone());
    let ended = finish(inner, record.id.clone(), controls, record.epoch, outcome, Batch::new()).await;
    if let Done::Seen(Some(ended)) = ended
        && ended.is_undoing()
    {
        undo::begin(listed, &ended).await;
    }
}

/// What a task waited for has come, or it has ended and is to be undone: it goes on here, if this node can work on it.
pub(super) async fn wake(inner: &Arc<Inner>, record: &Record) {
    if (matches!(record.phase, Phase::Queued { .. }) || record.is_undoing())
        && !*inner.draining.borrow()
        && let Err(error) = try_take_up(inner, record).await
    {
        tracing::warn!(task = %record.id, %error, "a task that is due is left to be found later");
    }
}

/// What a task waits for outside has come: one that was put aside is due, and goes on here, if this node can work on it. Where
/// that cannot be written it goes on when its time has come.
pub(super) async fn go_on(inner: &Arc<Inner>, id: &TaskId) {
    match inner.store.make_due(id).await {
        Ok(true) => wake_by_id(inner, id).await,
        Ok(false) => {}
        Err(error) => {
            tracing::warn!(task = %id, %error, "a task could not be made due: it waits for its time")
        }
    }
}

/// The same of a task that may be due.
pub(super) async fn wake_by_id(inner: &Arc<Inner>, id: &TaskId) {
    match inner.store.get(Scope::Operator, id).await {
        Ok(Some(record)) => wake(inner, &record).await,
        Ok(None) => {}
        Err(error) => tracing::warn!(task = %id, %error, "a task that may be due is left to be found later"),
    }
}

/// A task has ended, which the one that made it may have waited for.
pub(super) fn wake_parent(inner: &Arc<Inner>, ended: &Record) {
    if let Some(parent) = &ended.parent {
        let (woken, id) = (Arc::clone(inner), parent.task.clone());
        inner.environment.spawn(Box::pin(async move { wake_by_id(&woken, &id).await }));
    }
}

const INTERNAL_ERROR: i64 = -32603;

async fn lose(listed: Listed, record: &Record, reason: &str) {
    tracing::warn!(task = %record.id, tool = %record.tool, reason, "a task is lost");
    end(listed, record, Outcome::lost(reason)).await;
}

/// How many looks are left out for other nodes to renew their leases first: each sees at its own next look that time has passed.
const LOOKS_LEFT_OUT: u32 = 5;

/// Looks for tasks of dead nodes, for ever.
///
/// Where time has gone on and nobody could act, as while a laptop sleeps, all leases are over at once and none of their nodes
/// need be gone: each renews its own first.
pub(super) async fn keep_recovering(inner: Arc<Inner>, mut idle: Idle) {
    loop {
        let before = inner.store.now();
        inner.environment.sleep(inner.pace.recover_every).await;
        let passed = inner.store.now().since(before);
        if passed > inner.pace.recover_every + inner.store.lease() / 3 {
            tracing::warn!(
                ?passed,
                "time has passed in which this process stood still: tasks of others are left to them for now"
            );
            inner.renew_now.notify_one();
            // However long that takes, it looks then: a machine on which every pause is too long is no reason never to.
            inner.environment.sleep(inner.pace.recover_every * LOOKS_LEFT_OUT).await;
        }
        if let Err(error) = recover(&inner, &mut idle).await {
            tracing::warn!(%error, "could not look for tasks to take up");
        }
    }
}

/// Ends and forgets what is past its time, for ever.
pub(super) async fn keep_sweeping(inner: Arc<Inner>) {
    loop {
        match inner.store.sweep(AT_A_TIME).await {
            Ok(swept) => {
                inner.counts.sweeps.add(1);
                orphan::tell(&inner, &swept);
                for (task, steps) in &swept.owing {
                    tracing::error!(%task, steps, "a task is forgotten before its steps were undone: undo them by hand");
                }
                // There may be more: go on without a pause, but let others in. Who has come away with nothing leaves it to those who have not.
                if swept.is_full && swept.total() > 0 {
                    continue;
                }
            }
            Err(error) => tracing::warn!(%error, "could not sweep the store"),
        }
        inner.environment.sleep(inner.pace.sweep_every).await;
    }
}
