//! Undoing what a task did that has failed: its work is entered once more, up to where it was, to learn how.
//!
//! It is worked on as any task is: in one of its tool's places, under a lease that is renewed, and given back when this
//! process goes.

use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;

use longhaul_store::{Batch, Json, Park, Record, StepState, Time};

use super::Inner;
use super::control::Control;
use super::keeper::{Keeper, Undoing};
use super::operation::{give_back, is_leased_here, put_aside};
use super::pause::Pauses;
use super::recovery::{read_steps, wake};
use super::runs::Listed;
use crate::note::Note;
use crate::report::Reporter;

/// Undoes what a task owes that was claimed for it.
pub(super) async fn undo(listed: Listed, record: Record) {
    let Some(steps) = read_steps(&listed, &record).await else { return };
    let keeper = Keeper::undo(steps, &record);
    keeper.seat(&listed.inner, &record.id, &listed.controls);
    let mut work = pin!(Attempt::new(&listed.inner, &record, &keeper).carry_out());
    let mut leaving = pin!(async {
        listed.inner.draining().await;
        keeper.quiet().await;
    });
    loop {
        tokio::select! {
            biased;
            told = listed.controls.next() => {
                if told == Control::LookAgain && !is_held(&listed, &keeper).await {
                    return tracing::info!(task = %listed.id, "another node undoes a task");
                }
            }
            () = &mut leaving => {
                let (inner, id) = (Arc::clone(&listed.inner), listed.id.clone());
                let giving_back = give_back(inner, id, keeper.epoch().unwrap_or_default(), None);
                listed.leave();
                return drop(giving_back.await);
            }
            () = &mut work => break,
        }
    }
    let left = keeper.owed().len();
    if left == 0 {
        return tracing::info!(task = %listed.id, tool = %record.tool, "a task is undone");
    }
    tracing::warn!(task = %listed.id, tool = %record.tool, left, "not all of a task could be undone yet: it is tried again");
    let aside = Batch::new().with_park(Park::new(Vec::new(), None));
    let (inner, id) = (Arc::clone(&listed.inner), listed.id.clone());
    let putting_aside = put_aside(inner, id, keeper.epoch().unwrap_or_default(), aside);
    listed.leave();
    let _ = putting_aside.await;
}

/// The work of a task is over that has ended: what it did is undone from now on, here if that can be.
pub(super) async fn begin(listed: Listed, record: &Record) {
    // Before it is claimed: whoever takes it up must not take this run for one that is at it. Until now it may have been claimed back.
    let (inner, epoch) = (Arc::clone(&listed.inner), listed.leave());
    drop(listed);
    if inner.runs.has(&record.id) {
        // This node has claimed it meanwhile to undo it, for the lease on it was over: that run is at it, and this must not free it.
        return;
    }
    let mut due = None;
    if is_leased_here(&inner, record) {
        // Somebody else has ended it, and perhaps this node has claimed it since.
        let epoch = epoch.map_or(record.epoch, |epoch| epoch.max(record.epoch));
        match inner.store.release(&record.id, epoch).await {
            Ok(released) => due = Some(released),
            Err(error) => {
                inner.counts.refused(&error);
                tracing::warn!(task = %record.id, %error, "a task is undone when the lease on it is over");
            }
        }
    }
    wake(&inner, due.as_ref().unwrap_or(record)).await;
}

/// Whether the task is this node's still, under whichever epoch: it may have claimed it back. Callers may find it no more,
/// so that its record cannot be asked for.
async fn is_held(listed: &Listed, keeper: &Keeper) -> bool {
    let mut pauses = Pauses::of_store();
    while let Some(epoch) = listed.epoch() {
        match listed.inner.store.renew(&[(listed.id.clone(), epoch)]).await {
            Ok(fenced) if fenced.is_empty() => {
                keeper.hold(epoch);
                return true;
            }
            Ok(_) if listed.epoch() == Some(epoch) => {
                listed.inner.counts.fenced_writes.add(1);
                return false;
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(task = %listed.id, %error, "whether a task is still held cannot be told yet");
                pauses.wait(&listed.inner).await;
            }
        }
    }
    false
}

/// One attempt at all that a task owes.
struct Attempt<'a> {
    inner: &'a Arc<Inner>,
    record: &'a Record,
    keeper: &'a Keeper,
    /// The how-many-eth in a row that did not get on.
    nth: u32,
}

impl<'a> Attempt<'a> {
    fn new(inner: &'a Arc<Inner>, record: &'a Record, keeper: &'a Keeper) -> Self {
        let nth = record.undo.as_ref().map_or(1, |undo| undo.attempt);
        Self { inner, record, keeper, nth }
    }

    /// Undoes what the work says how to undo, the latest first. Of the rest it may say so the next time, unless that was
    /// the last.
    async fn carry_out(mut self) {
        let Self { inner, record, keeper, .. } = self;
        if let Some(losses) = self.nth.checked_sub(2) {
            Pauses::of_work(inner).after(losses).wait(inner).await;
        }
        // What was being undone each time a process ended is given up; the others are not.
        if self.nth > inner.pace.max_attempts
            && let Some(key) = keeper.owed().first()
        {
            let why = "given up after as many attempts as there may be".to_owned();
            if !self.record(key, Err(why), inner.store.now()).await {
                return;
            }
        }
        let waits = inner.waits(&record.id);
        let _place = match inner.workers.admit(&record.tool, &Reporter::new().0, waits) {
            Ok(place) => place,
            Err(admission) => admission.await,
        };
        tracing::info!(task = %record.id, tool = %record.tool, attempt = self.nth, "a task is being undone");
        self.learn().await;
        for key in keeper.owed() {
            let goes_on = match keeper.take_undoing(&key) {
                Some(undoing) => self.until_done(&key, undoing).await,
                None if self.nth >= inner.pace.max_attempts => {
                    let why = "its tool does not reach the step any more that would be undone";
                    self.record(&key, Err(why.to_owned()), inner.store.now()).await
                }
                None => true,
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Enters the work, and drops it once it has said how all is undone that is owed.
    async fn learn(&self) {
        let Self { inner, record, keeper, .. } = self;
        let Some(entry) = inner.workers.entry(&record.tool) else { return };
        let (reporter, _unheard) = Reporter::new();
        let note = Note::of(record);
        inner.counts.replays.add(1);
        let work = entry.enter(record, note.caller.as_deref(), (*keeper).clone(), reporter);
        tokio::select! {
            biased;
            () = keeper.is_all_known() => {}
            never = self.ask_to_end() => match never {},
            _ = work => {}
            // It waits where it was, and has said what it will.
            () = inner.environment.sleep(inner.pace.undo_entry) => {}
        }
    }

    /// Whoever was asked to end is told so again, once it has got to where it was without.
    async fn ask_to_end(&self) -> Infallible {
        let Self { inner, record, keeper, .. } = self;
        inner.environment.sleep(inner.pace.undo_entry / 4).await;
        if let Some(reason) = &record.cancelling {
            keeper.be_asked_to_end(reason);
        }
        pending().await
    }

    /// Undoes one step, which may take several tries; whether to go on with the others. Between two tries the task can be
    /// given back.
    async fn until_done(&mut self, key: &str, mut undoing: Undoing) -> bool {
        let Self { inner, record, keeper, .. } = *self;
        let (mut tries, mut pauses, began) = (0, Pauses::of_work(inner), inner.store.now());
        loop {
            if *inner.draining.borrow() {
                return pending().await;
            }
            let under_way = keeper.body();
            keeper.make_sure().await;
            let limit = inner.pace.undo_try;
            let tried = tokio::select! {
                biased;
                tried = undoing() => tried,
                () = inner.environment.sleep(limit) => Err(format!("it took longer than {limit:?}")),
            };
            tries += 1;
            match tried {
                Err(why) if tries < inner.pace.max_attempts => {
                    tracing::warn!(task = %record.id, step = key, why, tries, "a step could not be undone yet");
                }
                tried => return self.record(key, tried, began).await,
            }
            drop(under_way);
            pauses.wait(inner).await;
        }
    }

    /// Records that a step is undone, which began then, or why it will not be, which is logged too; whether it could.
    async fn record(&mut self, key: &str, done: Result<(), String>, began: Time) -> bool {
        let (task, tool) = (&self.record.id, &self.record.tool);
        let state = match done {
            Ok(()) => StepState::learnt(Json::null()),
            Err(mut why) => {
                tracing::error!(%task, %tool, step = key, why, "a step could not be undone: undo it by hand");
                why.truncate(why.floor_char_boundary(LONGEST_REASON));
                let value = serde_json::value::to_raw_value(&why).map_or_else(|_| Json::null(), Json::from);
                StepState::Learnt { value, is_error: true }
            }
        };
        match self.keeper.record_undone(key, state, began).await {
            Ok(()) => {
                // It gets on.
                self.nth = 1;
                true
            }
            Err(error) => {
                tracing::error!(%task, step = key, %error, "what became of undoing a step cannot be recorded");
                false
            }
        }
    }
}

/// Bytes of why a step could not be undone: there is room for them in what is owed.
const LONGEST_REASON: usize = 200;
