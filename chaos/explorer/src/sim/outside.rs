//! The world outside of a run: what tools have done to it, whichever process they ran in.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use longhaul_store::{Epoch, Outcome, TaskId};

use super::executor::{Executor, Home};
use super::ledger::Ledger;
use super::tools::{GENTLE, STOPPED};
use crate::invariant::brief;

/// What may be done of a step that was cut off.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Care {
    Pure,
    AtLeastOnce,
    AtMostOnce,
    Reconciled,
    /// At least once, and undone if its task fails.
    Undone,
}

/// All that has happened. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Outside(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// How often each effect was had, under which epochs, by its key.
    effects: BTreeMap<String, (Care, Vec<Epoch>)>,
    /// What each attempt was told, by what it asked for.
    told: BTreeMap<String, String>,
    /// How often each effect was undone, in order, by its key.
    undone: Vec<String>,
    /// How often a task has taken its process along.
    crashes: BTreeMap<String, u32>,
}

impl Outside {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// How often a task has come so far as to take its process along.
    fn crashes(&self, id: &str) -> u32 {
        let mut state = self.lock();
        let crashes = state.crashes.entry(id.to_owned()).or_default();
        *crashes += 1;
        *crashes
    }

    /// What holds when all tasks have ended.
    pub(crate) fn look_back(&self, ledger: &Ledger) {
        let state = self.lock();
        for task in ledger.tasks().into_iter().chain(ledger.forgotten()) {
            let has_stopped = matches!(task.outcome(), Some(Outcome::Result { value, .. }) if value.as_str().contains(STOPPED));
            if has_stopped && (&*task.tool != GENTLE || task.cancelling.is_none()) {
                ledger.complain(format!("K18: nobody has cancelled {}, and it has stopped", brief(&task)));
            }
            let failed = !matches!(task.outcome(), Some(Outcome::Result { is_error: false, .. }));
            let given_up = task.undo.as_ref().is_some_and(|undo| undo.failed > 0);
            let prefix = format!("{}/", task.id);
            let theirs = state
                .effects
                .iter()
                .filter(|(key, (care, _))| *care == Care::Undone && key.starts_with(&prefix));
            for (key, _) in theirs {
                let recorded = state.told.contains_key(key);
                let undone = state.undone.iter().filter(|undone| *undone == key).count();
                if failed && recorded && undone == 0 && !given_up {
                    ledger.complain(format!(
                        "I7: {key} is not undone, and its task has failed: {:?}",
                        task.outcome()
                    ));
                }
                if undone > 0 && !failed {
                    ledger.complain(format!("I7: {key} is undone, and its task has succeeded"));
                }
            }
        }
    }
}

/// The world as one process reaches it.
#[derive(Clone, Debug)]
pub(crate) struct Hands {
    outside: Outside,
    executor: Executor,
    ledger: Ledger,
    home: Home,
    generation: u64,
    /// How many are at work in this process of those that are to be alone, and whether this is one.
    at_work: Arc<AtomicUsize>,
    is_alone: bool,
}

/// Counts as at work until it is dropped.
struct AtWork(Arc<AtomicUsize>);

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Hands {
    pub(crate) fn new(
        outside: &Outside,
        executor: &Executor,
        ledger: &Ledger,
        home: Home,
        generation: u64,
    ) -> Self {
        Self {
            outside: outside.clone(),
            executor: executor.clone(),
            ledger: ledger.clone(),
            home,
            generation,
            at_work: Arc::default(),
            is_alone: false,
        }
    }

    /// The hands of a tool of which one call is at work at a time in this process.
    pub(crate) fn one_at_a_time(&self) -> Self {
        Self { is_alone: true, ..self.clone() }
    }

    /// Has an effect; says how often it was had.
    pub(crate) fn effect(&self, key: &str, care: Care, at: Option<(TaskId, Epoch)>) -> usize {
        let home = self.home;
        self.ledger.tell(|| format!("{home:?} has the effect {key} ({care:?}) at {at:?}"));
        let _operations = self.ledger.count("effect", key, true);
        let mut broken = Vec::new();
        let mut state = self.outside.lock();
        let (_, had) = state.effects.entry(key.to_owned()).or_insert_with(|| (care, Vec::new()));
        let epoch = at.as_ref().map_or_else(Epoch::default, |(_, epoch)| *epoch);
        // An attempt that stood still past its lease and claims its task back goes on under another epoch.
        let again = had.contains(&epoch);
        had.push(epoch);
        let times = had.len();
        match care {
            Care::AtMostOnce | Care::Reconciled if times > 1 => {
                broken.push(format!("I7: {key} is had {times} times, and is {care:?}: {had:?}"));
            }
            Care::AtLeastOnce | Care::Undone if again => {
                broken.push(format!("I7: one attempt has had {key} twice: {had:?}"));
            }
            _ => {}
        }
        if care != Care::Pure && state.told.contains_key(key) {
            broken.push(format!("I7: {key} is had again, and what it came to was recorded"));
        }
        drop(state);
        if let Some((id, epoch)) = at {
            if care != Care::Pure {
                self.ledger.check_effect(&id, epoch, key);
            }
            if let Some(task) = self.ledger.task(&id)
                && task.version.to_string().split('.').next().and_then(|major| major.parse().ok())
                    > Some(self.generation)
            {
                broken.push(format!(
                    "I6: a node of generation {} works on a task of {}",
                    self.generation, task.version
                ));
            }
        }
        broken.into_iter().for_each(|broken| self.ledger.complain(broken));
        times
    }

    /// Whether the effect was had.
    pub(crate) fn had(&self, key: &str) -> Option<usize> {
        let state = self.outside.lock();
        state.effects.get(key).map(|(_, had)| had.len()).filter(|times| *times > 0)
    }

    pub(crate) fn undo(&self, key: &str) {
        let home = self.home;
        self.ledger.tell(|| format!("{home:?} undoes {key}"));
        let _operations = self.ledger.count("undo", key, true);
        self.outside.lock().undone.push(key.to_owned());
    }

    /// Work was told this; every attempt is told the same.
    pub(crate) fn told(&self, what: &str, value: &str) {
        let mut state = self.outside.lock();
        let known = state.told.entry(what.to_owned()).or_insert_with(|| value.to_owned()).clone();
        drop(state);
        if known != value {
            self.ledger.complain(format!("I7: of {what} work was told {known}, and then {value}"));
        }
    }

    /// Work was told the answer to its question: it is the first that was recorded.
    pub(crate) fn answered(&self, id: &TaskId, what: &str, value: &str) {
        self.told(what, value);
        if !self.ledger.answers(id).iter().any(|answer| answer.contains(value)) {
            self.ledger.complain(format!("I4: {id} was told {value}, which nobody has answered"));
        }
    }

    /// Takes the process along, the first times.
    pub(crate) async fn crash(&self, id: &str, times: u32) {
        if self.outside.crashes(id) <= times {
            self.executor.doom(self.home);
            pending::<()>().await;
        }
    }

    /// Takes its time.
    pub(crate) async fn take(&self, seconds: u64) {
        let _at_work = self.is_alone.then(|| self.begin());
        self.executor.sleep(self.home, Duration::from_millis(seconds * 1000 + 300)).await;
    }

    fn begin(&self) -> AtWork {
        let others = self.at_work.fetch_add(1, Ordering::Relaxed);
        if others > 0 {
            let home = self.home;
            self.ledger
                .complain(format!("G9: {home:?} is at work on {} calls that have one place", others + 1));
        }
        AtWork(Arc::clone(&self.at_work))
    }
}
