//! What is known of one run: every task as its store has it, what was promised to whom, and what was broken.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use longhaul_store::{
    Epoch, Memory, NodeId, Owner, Phase, Record, Rerun, Scope, TaskId, TaskStore, Time, UndoPhase,
};

use longhaul::tasks::key;

use super::executor::Executor;
use super::nodes::QUIET;
use crate::invariant::{History, brief, family};

/// Clones are the same.
#[derive(Clone)]
pub(crate) struct Ledger(Arc<Shared>);

struct Shared {
    executor: Executor,
    /// A node of its own, which never works.
    observer: Memory,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    history: History,
    /// How long each epoch's lease lasted, at the most, and whose it was.
    leases: BTreeMap<(TaskId, Epoch), (NodeId, Time)>,
    /// Which task each key is.
    keys: BTreeMap<(String, String), TaskId>,
    /// The first answer that was recorded to each question.
    answers: BTreeMap<(TaskId, Arc<str>), String>,
    /// When each tombstone may go.
    tombstones: BTreeMap<TaskId, Time>,
    /// When each task that is not there any more went, and what it was.
    gone: BTreeMap<TaskId, (Time, Record)>,
    broken: Vec<String>,
    /// Lines of what happened, if they are asked for.
    trace: Option<Vec<String>>,
    /// What happened, as a number.
    digest: DefaultHasher,
    operations: u64,
}

impl Ledger {
    pub(crate) fn new(executor: &Executor, observer: Memory, traced: bool) -> Self {
        let state = State { trace: traced.then(Vec::new), ..State::default() };
        Self(Arc::new(Shared { executor: executor.clone(), observer, state: Mutex::new(state) }))
    }

    /// Notes that an invariant is broken.
    pub(crate) fn complain(&self, what: impl Into<String>) {
        let what = what.into();
        self.tell(|| format!("BROKEN {what}"));
        let mut state = self.lock();
        if state.broken.len() < 10 && !state.broken.contains(&what) {
            state.broken.push(what);
        }
    }

    pub(crate) fn broken(&self) -> Vec<String> {
        self.lock().broken.clone()
    }

    /// Whether nothing is broken.
    pub(crate) fn is_whole(&self) -> bool {
        self.lock().broken.is_empty()
    }

    /// Notes what happens, where somebody will read it.
    pub(crate) fn tell(&self, what: impl FnOnce() -> String) {
        if self.lock().trace.is_none() {
            return;
        }
        let line = format!("{} {}", clock(self.0.executor.now()), what());
        if let Some(trace) = &mut self.lock().trace {
            trace.push(line);
        }
    }

    pub(crate) fn trace(&self) -> Vec<String> {
        self.lock().trace.clone().unwrap_or_default()
    }

    /// What happened, as a number, and how many operations it was.
    pub(crate) fn digest(&self) -> (u64, u64) {
        let state = self.lock();
        (state.digest.finish(), state.operations)
    }

    /// An operation was done; says how many there were by now.
    pub(crate) fn count(&self, what: impl Hash, id: &str, ok: bool) -> u64 {
        let now = self.0.executor.now();
        let mut state = self.lock();
        state.operations += 1;
        (now, what, id, ok).hash(&mut state.digest);
        state.operations
    }

    /// Looks at a task that an operation may have changed; says whether it has.
    pub(crate) fn look(&self, id: &TaskId, operation: &dyn fmt::Display, fenced: bool) -> bool {
        let found = at_once(self.0.observer.get(Scope::Operator, id)).expect("a store in memory is read");
        let now = self.0.observer.now();
        let mut broken = Vec::new();
        let mut state = self.lock();
        let changed = match found {
            Some(task) => {
                state.note_lease(&task, &mut broken);
                let changed = state.history.tasks().get(id) != Some(&task);
                broken.extend(state.history.see(task, operation, fenced, now));
                changed
            }
            None => {
                let gone = state.history.forget(id, operation, now);
                let is_gone = gone.is_some();
                if let Some((last, wrong)) = gone {
                    state.tombstones.insert(id.clone(), now.after(TOMBSTONE));
                    state.gone.insert(id.clone(), (now, last));
                    broken.extend(wrong);
                }
                is_gone
            }
        };
        drop(state);
        if changed {
            self.0.executor.stir();
        }
        broken.into_iter().for_each(|broken| self.complain(broken));
        changed
    }

    /// Looks at what must hold of all tasks together, when all were looked at that an operation may have changed.
    pub(crate) fn look_at_all(&self, changed: &[TaskId], operation: &dyn fmt::Display) {
        let counted = self.counts().0;
        let mut broken = Vec::new();
        let state = self.lock();
        let open = state.history.open();
        if counted != open {
            broken
                .push(format!("I12: after {operation} {counted} tasks are counted as open, and {open} are"));
        }
        let tasks = state.history.tasks();
        let parents = changed.iter().filter_map(|id| tasks.get(id));
        broken.extend(parents.filter_map(|task| family(task, tasks.values())));
        drop(state);
        let wrong = self.0.observer.miscounted().into_iter();
        broken.extend(wrong.map(|wrong| format!("I12: after {operation} {wrong}")));
        broken.into_iter().for_each(|broken| self.complain(broken));
    }

    /// A task with all that made it and all that was made of it, which change with it.
    pub(crate) fn family_of(&self, id: &TaskId) -> Vec<TaskId> {
        let state = self.lock();
        let tasks = state.history.tasks();
        let parent = |id: &TaskId| tasks.get(id)?.parent.as_ref().map(|link| link.task.clone());
        let topmost = |id: &TaskId| {
            let mut top = id.clone();
            while let Some(above) = parent(&top) {
                top = above;
            }
            top
        };
        let top = topmost(id);
        let others = tasks.keys().filter(|other| *other != id && topmost(other) == top);
        std::iter::once(id.clone()).chain(others.cloned()).collect()
    }

    /// The store's time.
    pub(crate) fn now(&self) -> Time {
        self.0.observer.now()
    }

    /// How many there are, open and in all.
    pub(crate) fn counts(&self) -> (u64, u64) {
        at_once(self.0.observer.counts()).map_or((0, 0), |counts| (counts.open, counts.retained))
    }

    /// The task as it was last seen.
    pub(crate) fn task(&self, id: &TaskId) -> Option<Record> {
        self.lock().history.tasks().get(id).cloned()
    }

    /// Where a task is, in short.
    pub(crate) fn outline(&self, id: &TaskId) -> String {
        let Some(task) = self.task(id) else { return "gone".to_owned() };
        let Record { phase, epoch, attempt, questions, owed, undo, .. } = &task;
        let phase = match phase {
            Phase::Running { lease } => format!("{} has it", lease.node),
            Phase::Queued { .. } => "queued".to_owned(),
            Phase::Parked { until } => format!("put aside until {until:?}"),
            Phase::Done(outcome) => format!("{outcome:?}, owes {owed}, {undo:?}"),
            other => format!("{other:?}"),
        };
        format!("{phase}, {epoch:?}, attempt {attempt}, asks {}", questions.len())
    }

    pub(crate) fn tasks(&self) -> Vec<Record> {
        self.lock().history.tasks().values().cloned().collect()
    }

    /// The tasks that are not there any more, as they were last seen. One that was still to be undone is left out: whether it
    /// was is not known.
    pub(crate) fn forgotten(&self) -> Vec<Record> {
        let state = self.lock();
        state.gone.values().map(|(_, last)| last).filter(|last| !last.is_undoing()).cloned().collect()
    }

    /// The task that a caller has named so.
    pub(crate) fn drafted(&self, name: &str) -> Option<TaskId> {
        let state = self.lock();
        let there = state.history.tasks().values();
        let ever = there.chain(state.gone.values().map(|(_, last)| last));
        ever.into_iter().find(|task| key::drafted_id(task) == Some(name)).map(|task| task.id.clone())
    }

    /// Whoever has an effect now holds its task, and its lease has not run out while it did not look.
    pub(crate) fn check_effect(&self, id: &TaskId, epoch: Epoch, what: &str) {
        let now = self.0.observer.now();
        let state = self.lock();
        let Some(task) = state.history.tasks().get(id) else { return };
        // What is never entered again asks nobody: once it is lost nobody else does it either.
        if task.rerun == Rerun::Never {
            return;
        }
        let lease = |epoch| state.leases.get(&(id.clone(), epoch));
        let ran_out = lease(epoch).is_some_and(|(_, until)| *until < now);
        // Its node has claimed it back before anybody else could: the same attempt goes on, and learns of it by and by.
        let claimed_back = task.epoch == epoch.next()
            && lease(epoch).map(|(node, _)| node) == lease(task.epoch).map(|(node, _)| node);
        if task.epoch != epoch && ran_out && !claimed_back {
            let task = brief(task);
            drop(state);
            self.complain(format!("I7: {what} is done at {epoch:?} when its lease has run out: {task}"));
        }
    }

    /// A task was created under this key, which is free again once all that was left of an earlier one is gone.
    pub(crate) fn note_key(&self, owner: &Owner, key: &str, id: &TaskId) {
        let whose = match owner {
            Owner::Principal(principal) => principal.as_str().to_owned(),
            Owner::Anonymous => String::new(),
        };
        let now = self.0.observer.now();
        let mut state = self.lock();
        let before = state.keys.insert((whose, key.to_owned()), id.clone());
        let taken = before.filter(|known| known != id && !state.is_spent(known, now));
        drop(state);
        if let Some(known) = taken {
            self.complain(format!("I13: the key {key} is {known} and {id}"));
        }
    }

    /// Whether a task is gone, and its key with it.
    pub(crate) fn is_spent(&self, id: &str) -> bool {
        let now = self.0.observer.now();
        TaskId::new(id).is_ok_and(|id| self.lock().is_spent(&id, now))
    }

    /// An answer was recorded, or one came too late.
    pub(crate) fn note_answer(&self, id: &TaskId, question: &Arc<str>, value: &str) {
        self.lock().answers.entry((id.clone(), Arc::clone(question))).or_insert_with(|| value.to_owned());
    }

    /// The first answers that were recorded to questions of a task.
    pub(crate) fn answers(&self, id: &TaskId) -> BTreeSet<String> {
        let state = self.lock();
        state.answers.iter().filter(|((of, _), _)| of == id).map(|(_, value)| value.clone()).collect()
    }

    pub(crate) fn has_answer(&self, id: &TaskId, question: &str) -> bool {
        self.lock().answers.contains_key(&(id.clone(), question.into()))
    }

    /// When time will next demand something, as the executor has it; `None` while something is held, or became due so
    /// shortly that nobody may have looked for it.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        let now = self.0.observer.now();
        let mut state = self.lock();
        let mut next = Time::from_unix_ms(i64::MAX);
        let may_be_unseen = |at: &Time| at.after(QUIET) >= now;
        state.tombstones.retain(|_, at| may_be_unseen(at));
        for at in state.tombstones.values() {
            next = next.min(*at);
        }
        for task in state.history.tasks().values() {
            if task.lease().is_some_and(|lease| lease.until > now) {
                return None;
            }
            let times = match (&task.phase, task.undo.as_ref().map(|undo| &undo.phase)) {
                (Phase::Queued { not_before }, _) | (_, Some(UndoPhase::Queued { not_before })) => {
                    [Some(*not_before), task.swept_at()]
                }
                (Phase::Parked { until }, _) => [*until, task.swept_at()],
                _ => [None, task.swept_at()],
            };
            // Deadlines of questions are times to go on at, too.
            let deadlines = task.questions.iter().filter_map(|question| question.deadline);
            for at in times.into_iter().flatten().chain(deadlines).filter(may_be_unseen) {
                next = next.min(at);
            }
        }
        drop(state);
        (next >= now).then(|| self.0.executor.now() + next.since(now).min(LONG))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }
}

impl State {
    /// Nothing is left of a task that went so long ago.
    fn is_spent(&self, id: &TaskId, now: Time) -> bool {
        self.gone.get(id).is_some_and(|(gone, _)| now.since(*gone) >= KEPT)
    }

    fn note_lease(&mut self, task: &Record, broken: &mut Vec<String>) {
        let Some(lease) = task.lease() else { return };
        let key = (task.id.clone(), task.epoch);
        let (node, until) = self.leases.entry(key).or_insert_with(|| (lease.node.clone(), lease.until));
        *until = lease.until.max(*until);
        if *node != lease.node {
            broken.push(format!("I6: two nodes have had one epoch of {}", brief(task)));
        }
    }
}

/// Longer than any run.
const LONG: Duration = Duration::from_secs(1 << 32);

/// For how long a store remembers by default that a task was there, and under which key.
const KEPT: Duration = Duration::from_secs(60 * 60);

/// The same, and as long as it may take until one is made.
const TOMBSTONE: Duration = Duration::from_secs(60 * 60 + 25);

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ledger")
    }
}

/// A time of the run, for people.
pub(crate) fn clock(now: Duration) -> String {
    let (seconds, millis) = (now.as_secs(), now.subsec_millis());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    format!("day {days:2} {:02}:{:02}:{:02}.{millis:03}", rest / 3600, rest / 60 % 60, rest % 60)
}

/// What a store in memory does, it does at once.
fn at_once<T>(doing: impl Future<Output = T>) -> T {
    match pin!(doing).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("a store in memory waits"),
    }
}
