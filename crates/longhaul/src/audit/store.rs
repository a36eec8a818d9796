//! A store whose tasks are told of in the trail, whoever works on them.

use std::sync::Arc;

use longhaul_tasks::store::{
    Answered, Batch, CancelAsked, Cancellation, Created, Epoch, Erasure, Finished, Lease, NewTask, OnOrphan,
    Outcome, Overlay, Record, Reply, Runnable, Scope, SpellOver, Step, StepState, StoreError, StoreFuture,
    Swept, TaskId, TaskStore,
};

use super::{End, Party, Trail, What};

/// The store of a trail, which notes what is done to its tasks. What it refuses or fails at is not noted.
#[derive(Debug)]
pub(crate) struct Audited(pub(crate) Trail);

/// Who asks; the operator and the node itself are nobody else.
fn party(scope: Scope<'_>) -> Option<Party> {
    match scope {
        Scope::Owner(owner) => Some(Party::of(owner)),
        Scope::Operator => None,
    }
}

/// How many of these steps are questions that somebody is to answer.
fn asked(steps: &[Step]) -> usize {
    steps.iter().filter(|step| matches!(step.state, StepState::Asked(_))).count()
}

impl Audited {
    /// This node has just claimed the task. A claim by who had its work before is no news, nor is one to undo it.
    fn claimed(&self, record: &Record) {
        let [earlier @ .., spell] = &*record.spells else { return };
        // Who claims back what is its own goes on with the spell that it had.
        let begins = |lease: &Lease| lease.until <= spell.from.after(self.below().lease());
        if record.is_terminal() || !record.lease().is_some_and(begins) {
            return;
        }
        let before = earlier.last();
        if let Some(lost) = before.filter(|before| matches!(before.over, Some(SpellOver::Lost(_)))) {
            self.0.note(What::AttemptLost(lost.node.clone()), record, None);
        }
        if before.is_none_or(|before| before.node != spell.node) {
            self.0.note(What::Claimed, record, None);
        }
    }
}

impl Overlay for Audited {
    type Below = dyn TaskStore;

    fn below(&self) -> &Self::Below {
        &**self.0.store()
    }

    fn create(&self, task: NewTask) -> StoreFuture<'_, Created> {
        Box::pin(async move {
            let asked = asked(&task.steps);
            let created = self.below().create(task).await?;
            if let Created::New(record) = &created {
                self.0.note(What::Created, record, Some(Party::of(&record.owner)));
                if asked > 0 {
                    self.0.note(What::Asked(asked), record, None);
                }
            }
            Ok(created)
        })
    }

    fn claim<'a>(&'a self, limit: usize, runs: Option<&'a [Runnable]>) -> StoreFuture<'a, Vec<Record>> {
        Box::pin(async move {
            let claimed = self.below().claim(limit, runs).await?;
            claimed.iter().for_each(|record| self.claimed(record));
            Ok(claimed)
        })
    }

    fn claim_one<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        Box::pin(async move {
            let claimed = self.below().claim_one(id).await?;
            claimed.iter().for_each(|record| self.claimed(record));
            Ok(claimed)
        })
    }

    fn answer<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        replies: &'a [Reply],
    ) -> StoreFuture<'a, Answered> {
        Box::pin(async move {
            let answered = self.below().answer(scope, id, replies).await?;
            if let Answered::Recorded { record, taken: taken @ 1.. } = &answered {
                self.0.note(What::Answered(*taken), record, party(scope));
            }
            Ok(answered)
        })
    }

    fn finish<'a>(
        &'a self,
        id: &'a TaskId,
        epoch: Epoch,
        outcome: Outcome,
        last: Batch,
    ) -> StoreFuture<'a, Finished> {
        Box::pin(async move {
            let finished = self.below().finish(id, epoch, outcome.clone(), last).await;
            match &finished {
                Ok(Finished::Recorded(record)) => {
                    let what = record.outcome().and_then(End::of).map_or(What::Cancelled, What::Ended);
                    self.0.note(what, record, None);
                }
                // The same outcome is a report that was made again.
                Ok(Finished::AlreadyTerminal(record)) if record.outcome() != Some(&outcome) => {
                    self.0.note(What::LateOutcome, record, None);
                }
                Err(StoreError::Fenced { .. }) => self.0.note_of(What::LateOutcome, id, None),
                Ok(Finished::AlreadyTerminal(_)) | Err(_) => {}
            }
            finished
        })
    }

    fn request_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, Cancellation> {
        Box::pin(async move {
            let cancellation = self.below().request_cancel(scope, id, reason).await?;
            if let Cancellation::Cancelled(record) = &cancellation {
                self.0.note(What::Cancelled, record, party(scope));
            }
            Ok(cancellation)
        })
    }

    fn ask_to_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, CancelAsked> {
        Box::pin(async move {
            let asked = self.below().ask_to_cancel(scope, id, reason).await?;
            match &asked {
                CancelAsked::AtOnce(Cancellation::Cancelled(record)) => {
                    self.0.note(What::Cancelled, record, party(scope));
                }
                CancelAsked::Requested(record) => self.0.note(What::AskedToEnd, record, party(scope)),
                CancelAsked::AtOnce(_) => {}
            }
            Ok(asked)
        })
    }

    fn erase<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Erasure> {
        Box::pin(async move {
            let erasure = self.below().erase(scope, id).await?;
            if erasure == Erasure::Erased {
                self.0.note_of(What::Deleted, id, party(scope));
            }
            Ok(erasure)
        })
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        Box::pin(async move {
            let swept = self.below().sweep(limit).await?;
            for id in &swept.expired {
                self.0.note_of(What::Ended(End::Expired), id, None);
            }
            for (id, then) in &swept.orphans {
                self.0.note_of(What::Orphaned, id, None);
                if *then == OnOrphan::Cancel {
                    self.0.note_of(What::Cancelled, id, None);
                }
            }
            for id in &swept.forgotten {
                self.0.note_of(What::Forgotten, id, None);
            }
            // Here, for every node sweeps again and again.
            self.0.date(self.below().refused_date());
            self.0.tidy();
            Ok(swept)
        })
    }

    fn write<'a>(&'a self, id: &'a TaskId, epoch: Epoch, batch: Batch) -> StoreFuture<'a, u64> {
        let child = batch.child.as_ref().map(|child| (child.task.id.clone(), Arc::clone(&child.task.tool)));
        let asked = asked(&batch.steps);
        if child.is_none() && asked == 0 {
            return self.below().write(id, epoch, batch);
        }
        Box::pin(async move {
            let seq = self.below().write(id, epoch, batch).await?;
            if asked > 0 {
                self.0.note_of(What::Asked(asked), id, None);
            }
            if let Some(child) = child {
                self.0.note_child(child);
            }
            Ok(seq)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    use longhaul_tasks::store::{
        Fingerprint, Json, Memory, OrphanRule, Owner, Park, Question, Rerun, Settings, Start, StepClock, Time,
    };

    use super::super::{Audit, Event};
    use super::*;

    #[derive(Debug, Default)]
    struct Kept(Mutex<Vec<Event>>);

    impl Audit for Kept {
        fn note(&self, event: Event) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        }
    }

    /// A store and its clock, and what the nodes note that are on it.
    struct Rig {
        clock: StepClock,
        store: Memory,
        kept: Arc<Kept>,
    }

    const START: Time = Time::from_unix_ms(1_800_000_000_000);
    const LEASE: Duration = Duration::from_secs(30);

    impl Rig {
        fn new() -> Self {
            let clock = StepClock::at(START);
            let store = Memory::with(Settings::default(), Arc::new(clock.clone()));
            assert_eq!(store.lease(), LEASE);
            Self { clock, store, kept: Arc::default() }
        }

        fn node(&self) -> Audited {
            let audit = Arc::clone(&self.kept) as Arc<dyn Audit>;
            Audited(Trail::new(audit, Arc::new(self.store.another_node())))
        }

        /// What was noted since the last look, of which task it may be.
        fn noted(&self) -> Vec<What> {
            let events = std::mem::take(&mut *self.kept.0.lock().unwrap());
            let all = format!("{events:?}");
            assert!(!all.contains("secret"), "{all}");
            events.into_iter().map(|event| event.what).collect()
        }
    }

    fn task(start: Start) -> NewTask {
        let secret = Json::parse("\"secret\"").unwrap();
        let mut task =
            NewTask::new(TaskId::new("t").unwrap(), Owner::principal("ann").unwrap(), "build", secret);
        (task.start, task.rerun) = (start, Rerun::Restart);
        task
    }

    fn claimed_at_once() -> NewTask {
        task(Start::Claimed)
    }

    fn question(key: &str) -> Step {
        let asked = StepState::Asked(Question::new(key, Json::parse("\"secret\"").unwrap()));
        Step::new(format!("ask {key}"), Fingerprint::new([0; Fingerprint::LEN]), asked)
    }

    fn done(value: &str) -> Outcome {
        Outcome::result(Json::parse(format!("\"secret {value}\"")).unwrap(), false)
    }

    async fn created(on: &Audited, task: NewTask) -> Record {
        TaskStore::create(on, task).await.unwrap().into_record()
    }

    #[tokio::test]
    async fn who_takes_work_up_is_noted_and_whose_work_is_lost() {
        let rig = Rig::new();
        let (one, other) = (rig.node(), rig.node());
        let queued = created(&one, task(Start::Queued { not_before: START })).await;
        assert!(TaskStore::claim_one(&one, &queued.id).await.unwrap().is_some());
        assert_eq!(rig.noted(), [What::Created, What::Claimed]);

        rig.clock.advance(LEASE);
        let taken = TaskStore::claim(&other, 10, None).await.unwrap();
        assert_eq!(taken.len(), 1);
        let lost = What::AttemptLost(TaskStore::node(&one).clone());
        assert_eq!(rig.noted(), [lost, What::Claimed]);
    }

    #[tokio::test]
    async fn a_node_that_goes_on_with_what_it_had_is_no_news() {
        let rig = Rig::new();
        let (one, other) = (rig.node(), rig.node());
        let made = created(&one, claimed_at_once()).await;
        rig.clock.advance(LEASE);
        let again = TaskStore::claim_one(&other, &made.id).await.unwrap().unwrap();
        rig.noted();

        // It stood still past its lease, and nobody came.
        rig.clock.advance(LEASE);
        let back = TaskStore::claim_one(&other, &again.id).await.unwrap().unwrap();
        let park = Batch::new().with_park(Park::new(Vec::new(), Some(rig.store.now())));
        TaskStore::write(&other, &back.id, back.epoch, park).await.unwrap();
        assert!(TaskStore::claim_one(&other, &back.id).await.unwrap().is_some(), "it is due");
        assert_eq!(rig.noted(), []);
    }

    #[tokio::test]
    async fn what_is_asked_is_counted_and_not_told() {
        let rig = Rig::new();
        let one = rig.node();
        let mut asks = claimed_at_once();
        asks.steps.push(question("first"));
        let made = created(&one, asks).await;
        assert_eq!(rig.noted(), [What::Created, What::Asked(1)]);
        let two = Batch::new().with_step(question("second")).with_step(question("third"));
        TaskStore::write(&one, &made.id, made.epoch, two).await.unwrap();
        TaskStore::write(&one, &made.id, made.epoch, Batch::new().with_status_message("secret"))
            .await
            .unwrap();
        assert_eq!(rig.noted(), [What::Asked(2)]);
    }

    #[tokio::test]
    async fn an_outcome_that_comes_too_late_is_noted_and_one_that_comes_again_is_not() {
        let rig = Rig::new();
        let (one, other) = (rig.node(), rig.node());
        let made = created(&one, claimed_at_once()).await;
        let finish = |on, record: &Record, outcome| {
            let (on, id, epoch): (&Audited, _, _) = (on, record.id.clone(), record.epoch);
            async move { TaskStore::finish(on, &id, epoch, outcome, Batch::new()).await }
        };
        rig.clock.advance(LEASE);
        let taken = TaskStore::claim_one(&other, &made.id).await.unwrap().unwrap();
        rig.noted();
        assert!(finish(&one, &made, done("late")).await.unwrap_err().is_fenced());
        assert_eq!(rig.noted(), [What::LateOutcome]);
        for _ in 0..2 {
            finish(&other, &taken, done("in time")).await.unwrap();
        }
        assert_eq!(rig.noted(), [What::Ended(End::Result)]);
        finish(&one, &made, done("later")).await.unwrap();
        assert_eq!(rig.noted(), [What::LateOutcome]);
    }

    #[tokio::test]
    async fn an_orphan_is_noted_also_where_it_is_kept() {
        for (then, more) in [(OnOrphan::Keep, None), (OnOrphan::Cancel, Some(What::Cancelled))] {
            let rig = Rig::new();
            let one = rig.node();
            let mut lonely = claimed_at_once();
            lonely.orphan = Some(OrphanRule::new(Duration::from_secs(5), then));
            created(&one, lonely).await;
            rig.clock.advance(Duration::from_secs(5));
            for _ in 0..2 {
                TaskStore::sweep(&one, 10).await.unwrap();
            }
            let told = [Some(What::Created), Some(What::Orphaned), more];
            assert_eq!(rig.noted(), told.into_iter().flatten().collect::<Vec<_>>(), "{then:?}");
        }
    }

    #[tokio::test]
    async fn a_date_that_is_not_followed_is_noted_once() {
        let rig = Rig::new();
        let one = rig.node();
        let sweep_twice = async || {
            for _ in 0..2 {
                TaskStore::sweep(&one, 10).await.unwrap();
            }
            rig.noted()
        };
        let (close, far) = (Duration::from_secs(3599), Duration::from_secs(2 * 3600));
        rig.clock.step_wall(START.after(close));
        assert_eq!(sweep_twice().await, []);
        for _ in 0..2 {
            rig.clock.step_wall(START.after(close + far));
            assert_eq!(sweep_twice().await, [What::DateRefused(START.after(close + far))]);
            rig.clock.step_wall(START);
            assert_eq!(sweep_twice().await, []);
        }
    }
}
