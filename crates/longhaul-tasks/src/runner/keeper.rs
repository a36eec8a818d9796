//! The journal of one call: in memory while there is no row, on disk from then on.

mod begin;
mod ending;
mod giving;
mod state;
mod undo;

use std::collections::HashMap;
use std::fmt;
use std::future::pending;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use longhaul_store::{
    Batch, Epoch, Fingerprint, Json, Limits, NewChild, Park, Record, Rerun, Step, StepState, StoreError,
    TaskId, Time, ToolVersion,
};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

pub use self::undo::Undoing;
use super::Inner;
use super::control::{Control, Controls};
use super::operation::is_final;
use super::pause::Pauses;
use super::runs::Hold;
use crate::journal::Journal;
use crate::machine::Refusal;

/// What the work of one call has learnt, and how it learns more. Clones keep the same journal.
///
/// A call that is no task yet keeps it in memory; with the row it is written, and every later step on its own. Work
/// that has lost its task hears nothing more: what it asks of its keeper never completes, until it is dropped.
#[derive(Clone, Default)]
pub struct Keeper(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Tells that something has changed.
    news: Notify,
    seat: OnceLock<Seat>,
    /// The engine that the call goes to if it takes long, and its tool; there is none of a call that is made otherwise.
    begun: Option<(Arc<Inner>, Arc<str>)>,
    /// What the call will be called as a task, minted when it is first asked for: most calls end sooner.
    id: OnceLock<TaskId>,
    /// How long ago it was first begun when it was entered here.
    before: Duration,
    /// The version of its tool that began it.
    version: ToolVersion,
    /// The work may be entered again.
    entered_again: bool,
    /// It is entered to learn how what it did is undone.
    undoing: bool,
}

/// How the run of the call is reached, and the store.
struct Seat {
    inner: Arc<Inner>,
    id: TaskId,
    controls: Controls,
}

#[derive(Default)]
struct State {
    standing: Standing,
    /// There was a try to write the row of which nobody knows whether it has.
    unsure: bool,
    steps: Vec<Step>,
    by_key: HashMap<Arc<str>, usize>,
    /// Bytes that they take, as the limits count them.
    bytes: u64,
    /// Steps whose effect is under way: the work cannot be put aside.
    bodies: usize,
    /// How the questions are to stand that the work has let go of.
    let_go: Vec<Step>,
    /// It was dropped before its end.
    is_cut_off: bool,
    /// How many of its children have ended, as far as it has looked.
    children_ended: u32,
    /// What the work waits for.
    waits: Vec<Arc<Wait>>,
    /// How to undo what it has done, by the keys of the steps that are owed.
    undo: HashMap<Arc<str>, Undoing>,
    /// It has given parts, in this attempt or in an earlier one.
    has_given: bool,
    /// It is asked to end, for this reason; empty words if none was given.
    asked_to_end: Option<Arc<str>>,
    /// It has said that it ends for being asked to.
    gave_up: bool,
}

#[derive(Default)]
enum Standing {
    /// There is no row.
    #[default]
    Loose,
    /// The row is being written.
    Writing,
    /// There is none, and none is wanted: nothing of the call survives its process.
    InPlace,
    /// It could not be written.
    Refused(Refusal),
    /// The row is held at this epoch.
    Held(Epoch),
}

enum Wait {
    /// For the answer to the question of this public name.
    Question(Arc<str>),
    /// For the end of the task that is the step of this key.
    Child(Arc<str>),
    /// For a time.
    Time(Time),
}

/// Why a step is not recorded, which ends the work or is for it to know.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// Another step is recorded under this key: entered again, the work did not repeat itself.
    #[error("step {key} is recorded otherwise: entered again, the work did something else than before")]
    #[non_exhaustive]
    Diverged {
        /// The key.
        key: Arc<str>,
    },
    /// What it came to is no longer what the work makes of it.
    #[error(
        "what step {key} came to was recorded as something else than it is read as now, by version {version} of its tool"
    )]
    #[non_exhaustive]
    Changed {
        /// The key.
        key: Arc<str>,
        /// The version of the tool that began the task.
        version: ToolVersion,
        /// Why it cannot be read.
        #[source]
        why: Arc<serde_json::Error>,
    },
    /// The store will not take it.
    #[error("a step could not be recorded")]
    Refused(#[source] StoreError),
    /// The call cannot become a task, as it must before it has an effect.
    #[error("the call could not be made durable: {}", .0.message)]
    NotDurable(Refusal),
}

impl StepError {
    /// The step under this key, if it is about one.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Diverged { key } | Self::Changed { key, .. } => Some(key),
            Self::Refused(_) | Self::NotDurable(_) => None,
        }
    }

    /// The work did something else under `key` than before.
    pub fn diverged(key: &str) -> Self {
        Self::Diverged { key: key.into() }
    }
}

impl Keeper {
    /// The journal of a call that begins, and whose work is never entered again.
    pub fn new() -> Self {
        Self::default()
    }

    /// The journal of a call of `tool` that begins; `entered_again`: its work may be.
    pub(super) fn of(inner: Arc<Inner>, tool: Arc<str>, entered_again: bool) -> Self {
        Self(Arc::new(Shared { begun: Some((inner, tool)), entered_again, ..Shared::default() }))
    }

    /// The journal of a task that is entered `now`, with what was learnt before.
    pub(super) fn resume(steps: Vec<Step>, record: &Record, now: Time) -> Self {
        let (version, epoch) = (record.version.clone(), record.epoch);
        let entered_again = record.rerun != Rerun::Never;
        let before = match record.rerun {
            // One that was claimed as it was created has no spell of work written down.
            Rerun::Resumable | Rerun::Restart => {
                now.since(record.spells.first().map_or(record.created_at, |first| first.from))
            }
            // Work that is never run twice begins now, however long it has stood in line.
            _ => Duration::ZERO,
        };
        let this = Self(Arc::new(Shared { before, entered_again, version, ..Shared::default() }));
        let mut state = this.lock();
        steps.into_iter().for_each(|step| state.put(step));
        (state.standing, state.children_ended) = (Standing::Held(epoch), record.children.ended);
        state.has_given = record.parts > 0;
        drop(state);
        this
    }

    /// From now on the call is reached so.
    pub(super) fn seat(&self, inner: &Arc<Inner>, id: &TaskId, controls: &Controls) {
        let seat = Seat { inner: Arc::clone(inner), id: id.clone(), controls: controls.clone() };
        let _once = (self.0.id.set(id.clone()), self.0.seat.set(seat));
        self.0.news.notify_waiters();
    }

    /// There will be no row.
    pub(super) fn stay_loose(&self) {
        self.change(|state| state.standing = Standing::InPlace);
    }

    /// The row is about to be written, with these steps.
    pub(super) fn begin_commit(&self) -> Vec<Step> {
        let mut state = self.lock();
        state.standing = Standing::Writing;
        state.steps.clone()
    }

    /// The row could not be written; for good, if the refusal says so.
    pub(super) fn commit_failed(&self, refusal: &Refusal) {
        self.change(|state| {
            state.unsure |= refusal.unsure;
            state.standing = Standing::Refused(refusal.clone());
        });
    }

    /// The row is held at `epoch`.
    pub(super) fn hold(&self, epoch: Epoch) {
        self.change(|state| state.standing = Standing::Held(epoch));
    }

    /// Looks whether anything was learnt from elsewhere, by a record that has just been read and is ours; says whether
    /// it could.
    pub(super) async fn look(&self, record: &Record) -> bool {
        let is_answered = |step: &Step| match &step.state {
            StepState::Asked(asked) => !record.questions.iter().any(|open| open.key == asked.key),
            _ => false,
        };
        let ended = record.children.ended;
        let learnt = {
            let state = self.lock();
            state.children_ended != ended || state.steps.iter().any(is_answered)
        };
        let Some(seat) = self.0.seat.get().filter(|_| learnt) else { return true };
        match self.reload(seat, record.epoch).await {
            Ok(()) => {
                self.change(|state| state.children_ended = ended);
                true
            }
            Err(error) => {
                // Who is fenced learns so from its record.
                tracing::warn!(task = %seat.id, %error, "the steps of a task could not be read yet");
                false
            }
        }
    }

    /// Reads the steps again.
    async fn reload(&self, seat: &Seat, epoch: Epoch) -> Result<(), StoreError> {
        let steps = seat.inner.store.steps(&seat.id, epoch).await?;
        self.change(|state| steps.into_iter().for_each(|step| state.put(step)));
        Ok(())
    }

    /// What the work waits for, if that is all it does.
    pub(super) fn idle(&self) -> Option<Park> {
        let state = self.lock();
        // Work that is asked to end has not long for it.
        let is_busy = state.bodies > 0 || !state.let_go.is_empty() || state.asked_to_end.is_some();
        if is_busy || state.waits.is_empty() || !matches!(state.standing, Standing::Held(_)) {
            return None;
        }
        let (mut on, mut children, mut until) = (Vec::new(), Vec::new(), None::<Time>);
        for wait in &state.waits {
            match &**wait {
                Wait::Question(key) => on.push(Arc::clone(key)),
                Wait::Child(key) => children.push(Arc::clone(key)),
                Wait::Time(at) => until = Some(until.map_or(*at, |until| until.min(*at))),
            }
        }
        Some(Park::new(on, until).or_children(children))
    }

    /// Whether the work waits for a task that it has made, with no effect under way.
    pub(super) fn awaits_child(&self) -> bool {
        let state = self.lock();
        state.bodies == 0 && state.waits.iter().any(|wait| matches!(**wait, Wait::Child(_)))
    }

    /// Completes once the work has done nothing but wait for so long, or never; withdraws what it lets go of meanwhile.
    pub(super) async fn idled(&self, hot: Option<Duration>) {
        let Some(seat) = self.0.seat.get() else { return pending().await };
        loop {
            let news = self.0.news.notified();
            if let Err(error) = self.withdraw().await {
                // It is busy still: the next that it records ends it.
                tracing::warn!(task = %seat.id, %error, "a question that nobody waits for cannot be withdrawn yet");
            }
            match hot {
                Some(hot) if self.idle().is_some() => tokio::select! {
                    () = news => {}
                    () = seat.inner.environment.sleep(hot) => return,
                },
                _ => news.await,
            }
        }
    }

    /// Takes over what was learnt before the call went to the engine.
    pub fn adopt(&self, journal: &Journal) {
        self.change(|state| journal.learnt().for_each(|step| state.put(step)));
    }

    /// Completes once no effect is under way.
    pub(super) async fn quiet(&self) {
        loop {
            let news = self.0.news.notified();
            if self.lock().bodies == 0 {
                return;
            }
            news.await;
        }
    }

    /// How long ago the work was first begun when it was entered here, by the store's time; nothing if that was the first time.
    pub fn worked_before(&self) -> Duration {
        self.0.before
    }

    /// What the step under `key` came to cannot be read.
    pub fn changed(&self, key: &str, why: serde_json::Error) -> StepError {
        StepError::Changed { key: key.into(), version: self.0.version.clone(), why: Arc::new(why) }
    }

    /// How far the step under `key` is.
    ///
    /// # Errors
    ///
    /// [`StepError::Diverged`] if it is another step than `of`.
    pub fn find(&self, key: &str, of: Fingerprint) -> Result<Option<StepState>, StepError> {
        self.lock().known(key, of)
    }

    /// Whether it is known what the step under `key` came to, whatever it is.
    pub fn has_learnt(&self, key: &str) -> bool {
        self.lock().find(key).is_some_and(|step| matches!(step.state, StepState::Learnt { .. }))
    }

    /// What the step under `key` is, if there is one.
    pub fn what_is(&self, key: &str) -> Option<Fingerprint> {
        self.lock().find(key).map(|step| step.of)
    }

    /// Records a step: when this returns, a crash does not lose it, if there is a row.
    ///
    /// # Errors
    ///
    /// Whatever [`StepError`] there is; [`StepError::Diverged`] if its key has come to something else.
    pub async fn record(&self, step: Step) -> Result<(), StepError> {
        self.note_as(None, vec![step]).await
    }

    /// Records a step, and in the same moment that the task owes what undoes it.
    ///
    /// # Errors
    ///
    /// As [`record`](Self::record).
    pub async fn record_owing(&self, step: Step, owed: Step) -> Result<(), StepError> {
        self.note_as(None, vec![step, owed]).await
    }

    /// Records a step in the place of all whose keys begin with `prefix`, and of its own.
    ///
    /// # Errors
    ///
    /// Whatever [`StepError`] there is.
    pub async fn replace(&self, prefix: &str, step: Step) -> Result<(), StepError> {
        self.note_as(Some(prefix), vec![step]).await
    }

    /// Records a step unless its key has come to something already, as that of a question may which somebody else
    /// answers; gives what stands.
    ///
    /// # Errors
    ///
    /// Whatever [`StepError`] there is; [`StepError::Diverged`] if another step stands there.
    pub async fn settle(&self, step: Step) -> Result<StepState, StepError> {
        let key = Arc::clone(&step.key);
        self.withdraw().await?;
        self.note(None, vec![step], None).await?.pop().ok_or(StepError::Diverged { key })
    }

    /// The work no longer waits for the answer to the question under `key`. It is withdrawn before anything else is
    /// recorded, and whoever enters the work again finds that it [let go](Self::has_let_go) of it.
    pub fn let_go(&self, key: &str, of: Fingerprint) {
        if !self.has_let_go(key) {
            self.change(|state| {
                if !state.is_cut_off {
                    state.let_go.push(Step::new(key, of, withdrawn()));
                }
            });
        }
    }

    /// The work is dropped, and entered again elsewhere: what it lets go of with its end, it has not let go of itself.
    pub(super) fn cut_off(&self) {
        self.change(|state| state.is_cut_off = true);
    }

    /// Whether the work has let go of the question under `key`: nothing ever came of it, whatever was answered.
    pub fn has_let_go(&self, key: &str) -> bool {
        let state = self.lock();
        let is_withdrawn = |key: &str| state.find(key).is_some_and(|step| step.state == withdrawn());
        is_withdrawn(key) || is_withdrawn(&answered_in_vain(key))
    }

    /// The open questions whose keys begin with `prefix`.
    pub fn open_questions(&self, prefix: &str) -> Vec<(Arc<str>, Fingerprint)> {
        let is_open =
            |step: &&Step| matches!(step.state, StepState::Asked(_)) && step.key.starts_with(prefix);
        self.lock().steps.iter().filter(is_open).map(|step| (Arc::clone(&step.key), step.of)).collect()
    }

    /// Withdraws the questions that the work has let go of. What cannot be is tried again before anything else is
    /// recorded: whoever enters the work again must not find the question open, or answered, and go another way.
    ///
    /// # Errors
    ///
    /// Whatever [`StepError`] there is: the work must not go on as if it were withdrawn.
    async fn withdraw(&self) -> Result<(), StepError> {
        while let Some(step) = self.first_let_go() {
            // In a box: whoever waits holds no room for what is hardly ever done.
            Box::pin(self.withdraw_one(step)).await?;
        }
        Ok(())
    }

    fn first_let_go(&self) -> Option<Step> {
        self.lock().let_go.first().cloned()
    }

    async fn withdraw_one(&self, step: Step) -> Result<(), StepError> {
        let stand = self.note(None, vec![step.clone()], None).await?;
        // Somebody has answered before. It stands, and that the work did not wait for it stands beside it.
        if stand.iter().any(|stands| *stands != step.state) {
            let in_vain = Step::new(answered_in_vain(&step.key), step.of, step.state.clone());
            self.note(None, vec![in_vain], None).await?;
        }
        self.change(|state| state.let_go.retain(|other| other.key != step.key));
        Ok(())
    }

    /// Notes steps that are to stand as they are.
    async fn note_as(&self, prefix: Option<&str>, steps: Vec<Step>) -> Result<(), StepError> {
        self.withdraw().await?;
        let stand = self.note(prefix, steps.clone(), None).await?;
        let begins = steps.iter().any(|step| matches!(step.state, StepState::Begun));
        for (Step { key, state, .. }, stands) in steps.into_iter().zip(stand) {
            // A question may be answered as soon as it is asked.
            let is_answered = matches!((&state, &stands), (StepState::Asked(_), StepState::Learnt { .. }));
            if stands != state && !is_answered {
                return Err(StepError::Diverged { key });
            }
        }
        if begins {
            self.make_sure().await;
        }
        Ok(())
    }

    /// Makes a task, and notes in the same moment that it is this step; gives what stands there.
    pub(super) async fn note_child(&self, step: Step, child: NewChild) -> Result<StepState, StepError> {
        let key = Arc::clone(&step.key);
        self.withdraw().await?;
        self.note(None, vec![step], Some(child)).await?.pop().ok_or(StepError::Diverged { key })
    }

    /// Notes steps, all or none, of which the only one may be a task that is made; gives what stands in their places, for
    /// something may have stood there.
    async fn note(
        &self,
        prefix: Option<&str>,
        steps: Vec<Step>,
        child: Option<NewChild>,
    ) -> Result<Vec<StepState>, StepError> {
        if self.is_undoing() {
            return pending().await;
        }
        self.write(prefix, steps, child).await
    }

    /// The same, also of work that is entered to be undone.
    async fn write(
        &self,
        prefix: Option<&str>,
        steps: Vec<Step>,
        child: Option<NewChild>,
    ) -> Result<Vec<StepState>, StepError> {
        let mut pauses = Pauses::of_store();
        loop {
            let news = self.0.news.notified();
            let epoch = match &mut *self.lock() {
                State { standing: Standing::Loose | Standing::InPlace | Standing::Refused(_), .. }
                    if child.is_some() =>
                {
                    return Err(StepError::NotDurable(Refusal::new("only a task makes tasks", false)));
                }
                state @ State {
                    standing: Standing::Loose | Standing::InPlace | Standing::Refused(_), ..
                } => {
                    let gone = state.replaced(prefix, &steps);
                    state.admit(&gone, &steps, self.limits()).map_err(StepError::Refused)?;
                    state.forget(&gone);
                    return state.settle(&steps);
                }
                State { standing: Standing::Held(epoch), .. } => Some(*epoch),
                State { standing: Standing::Writing, .. } => None,
            };
            let (Some(epoch), Some(seat)) = (epoch, self.0.seat.get()) else {
                news.await;
                continue;
            };
            let gone = self.lock().replaced(prefix, &steps);
            let mut batch = Batch::new();
            (batch.forget, batch.child) = (gone.clone(), child.clone());
            // A child's step is written with it.
            batch.steps = if child.is_none() { steps.clone() } else { Vec::new() };
            let alive = seat.inner.store.alive_until();
            match seat.inner.store.write(&seat.id, epoch, batch).await {
                Ok(_) => {
                    if alive.is_some() {
                        seat.inner.runs.wrote(&seat.id, epoch, alive);
                    }
                    // An answer may have come before it: a question is read again with the record.
                    if steps.iter().any(|step| matches!(step.state, StepState::Asked(_))) {
                        seat.controls.tell(Control::LookAgain);
                    }
                    return self.change(|state| {
                        state.forget(&gone);
                        state.settle(&steps)
                    });
                }
                Err(StoreError::Recorded { .. }) => match self.reload(seat, epoch).await {
                    Ok(()) => return self.lock().standing(&steps),
                    Err(error) => self.not_written(seat, error, news, &mut pauses).await?,
                },
                Err(error) => self.not_written(seat, error, news, &mut pauses).await?,
            }
        }
    }

    /// Waits until what was not written is worth another try.
    async fn not_written(
        &self,
        seat: &Seat,
        error: StoreError,
        news: Notified<'_>,
        pauses: &mut Pauses,
    ) -> Result<(), StepError> {
        match error {
            StoreError::Fenced { .. } => {
                seat.inner.counts.fenced_writes.add(1);
                seat.controls.tell(Control::LookAgain);
                news.await;
            }
            error @ (StoreError::TooLarge { .. }
            | StoreError::Overloaded { .. }
            | StoreError::AlreadyExists { .. }) => return Err(StepError::Refused(error)),
            error if is_final(&error) => return Err(StepError::Refused(error)),
            error => {
                tracing::warn!(task = %seat.id, %error, "what a task has learnt could not be recorded yet");
                pauses.wait(&seat.inner).await;
            }
        }
        Ok(())
    }

    /// Sees to it that nobody else can be at the task when an effect begins, as somebody may be if what allowed the effect
    /// came late, or this process stood still. Completes never for who has lost the task.
    pub(super) async fn make_sure(&self) {
        let Some(seat) = self.0.seat.get() else { return };
        let (inner, mut pauses) = (&seat.inner, Pauses::of_store());
        loop {
            let news = self.0.news.notified();
            // Without a row there is no lease.
            let Some(epoch) = self.epoch() else { return };
            if inner.runs.lets_begin(&seat.id, &seat.controls, inner) {
                return;
            }
            let hold = Hold::renewed(inner);
            match inner.store.renew(&[(seat.id.clone(), epoch)]).await {
                Ok(fenced) if fenced.is_empty() => {
                    inner.runs.renewed(&seat.id, epoch, hold);
                    // Also where the run is on no list any more, for it is being put aside.
                    if hold.lets_begin(inner) {
                        return;
                    }
                    // Whether this node is taken for dead is not known for the moment, or the answer came late.
                    pauses.wait(inner).await;
                }
                Ok(_) => {
                    inner.counts.fenced_writes.add(1);
                    seat.controls.tell(Control::LookAgain);
                    news.await;
                }
                Err(error) => {
                    tracing::warn!(task = %seat.id, %error, "whether a task is still held cannot be told yet");
                    pauses.wait(inner).await;
                }
            }
        }
    }

    /// Whether the call is a task, so that what is recorded survives.
    pub fn is_durable(&self) -> bool {
        matches!(self.lock().standing, Standing::Held(_))
    }

    /// Makes the call a task, if it is none: what has an effect needs that first. `asking`: and its caller is to be
    /// told of it, for it has something to do.
    ///
    /// # Errors
    ///
    /// [`StepError::NotDurable`].
    pub async fn become_durable(&self, asking: bool) -> Result<(), StepError> {
        if self.is_undoing() {
            return pending().await;
        }
        let mut told = false;
        loop {
            let news = self.0.news.notified();
            match &self.lock().standing {
                Standing::InPlace if !asking => return Ok(()),
                Standing::InPlace => {
                    let refusal = Refusal::new("a call that becomes no task asks nobody later", false);
                    return Err(StepError::NotDurable(refusal));
                }
                Standing::Held(_) if !asking || told => return Ok(()),
                Standing::Refused(refusal) if told || refusal.lasting => {
                    return Err(StepError::NotDurable(refusal.clone()));
                }
                _ => {}
            }
            match self.0.seat.get().filter(|_| !told) {
                Some(seat) => {
                    // What it was refused before may be granted now.
                    self.change(State::try_again);
                    seat.controls.tell(if asking { Control::Asks } else { Control::WantsRow });
                    told = true;
                }
                None => news.await,
            }
        }
    }

    /// What came of the step under `key`, once that is known: an answer, by whomever it was given, or the end of the
    /// task that it is.
    pub async fn learnt(&self, key: &str) -> (Json, bool) {
        let wait = match self.lock().find(key) {
            Some(Step { state: StepState::Asked(question), .. }) => {
                Some(Wait::Question(Arc::clone(&question.key)))
            }
            Some(Step { state: StepState::Child(_), key, .. }) => Some(Wait::Child(Arc::clone(key))),
            _ => None,
        };
        let _waits = wait.map(|wait| self.wait_for(wait));
        loop {
            let news = self.0.news.notified();
            if let Some(StepState::Learnt { value, is_error }) = self.lock().find(key).map(|step| &step.state)
            {
                return (value.clone(), *is_error);
            }
            news.await;
        }
    }

    /// Completes at `time`, by the store's clock.
    pub async fn until(&self, time: Time) {
        let Some(seat) = self.0.seat.get() else { return pending().await };
        let _waits = self.wait_for(Wait::Time(time));
        loop {
            let now = seat.inner.store.now();
            if now >= time {
                return;
            }
            // The store's clock may be stepped by more than ours has run.
            seat.inner.environment.sleep(time.since(now).min(LONGEST_SLEEP)).await;
        }
    }

    /// The store's time.
    pub fn now(&self) -> Option<Time> {
        let begun = self.0.begun.as_ref().map(|(inner, _)| inner);
        self.engine().or(begun).map(|inner| inner.store.now())
    }

    /// How the call is reached, and the store, once the engine has it.
    pub(super) fn engine(&self) -> Option<&Arc<Inner>> {
        self.0.seat.get().map(|seat| &seat.inner)
    }

    /// The task's id, by which effects are told from those of other tasks; known before there is a task.
    pub fn id(&self) -> Option<TaskId> {
        let Shared { begun, id, .. } = &*self.0;
        match begun {
            Some((inner, tool)) => Some(id.get_or_init(|| inner.mint(tool)).clone()),
            None => id.get().cloned(),
        }
    }

    /// Under which epoch this attempt holds the task, if there is one: another attempt has another.
    pub fn epoch(&self) -> Option<Epoch> {
        match self.lock().standing {
            Standing::Held(epoch) => Some(epoch),
            _ => None,
        }
    }

    /// Whether the work may be entered again, so that what it learns is worth keeping.
    pub fn is_entered_again(&self) -> bool {
        self.0.entered_again
    }

    /// Fills `bytes` with randomness that nobody can guess.
    pub fn random(&self, bytes: &mut [u8]) {
        if let Some(seat) = self.0.seat.get() {
            seat.inner.environment.random(bytes);
        }
    }

    /// An effect is under way, until this is dropped: the work is not put aside meanwhile.
    pub fn body(&self) -> Body {
        self.change(|state| state.bodies += 1);
        Body(self.clone())
    }

    /// How much the store takes: as much is kept before there is a row.
    fn limits(&self) -> &Limits {
        static DEFAULT: LazyLock<Limits> = LazyLock::new(Limits::default);
        let begun = self.0.begun.as_ref().map(|(inner, _)| inner);
        begun.or_else(|| self.engine()).map_or(&DEFAULT, |inner| &inner.limits)
    }

    fn wait_for(&self, wait: Wait) -> Waits {
        let wait = Arc::new(wait);
        self.change(|state| state.waits.push(Arc::clone(&wait)));
        Waits(self.clone(), wait)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let changed = change(&mut state);
        drop(state);
        self.0.news.notify_waiters();
        changed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("steps", &self.lock().steps.len()).finish_non_exhaustive()
    }
}

/// An effect that is under way, until dropped.
#[derive(Debug)]
pub struct Body(Keeper);

impl Drop for Body {
    fn drop(&mut self) {
        self.0.change(|state| state.bodies -= 1);
    }
}

/// Something the work waits for, until dropped.
struct Waits(Keeper, Arc<Wait>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.change(|state| state.waits.retain(|wait| !Arc::ptr_eq(wait, &self.1)));
    }
}

/// What a question came to that was withdrawn.
fn withdrawn() -> StepState {
    StepState::Learnt { value: Json::null(), is_error: true }
}

/// The key under which it stands that nobody waited for the answer to the question under `key`; it begins as that one, so
/// that both are forgotten together.
fn answered_in_vain(key: &str) -> String {
    format!("{key} in vain")
}

/// How long the clocks of the store and of this process are trusted to run alike.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);
