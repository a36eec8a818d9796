//! What a server notes, and of which store's tasks.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_tasks::store::{Owner, Record, TaskId, TaskStore, Time};
use tokio::time::Instant;

use super::guesses::{Guesses, is_over};
use super::{Audit, Event, Forged, Party, What};

/// The trail of one server. Clones are one.
#[derive(Clone, Debug)]
pub(crate) struct Trail(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    audit: Arc<dyn Audit>,
    store: Arc<dyn TaskStore>,
    /// The tasks whose ends were given to their owners last.
    fetched: Mutex<VecDeque<TaskId>>,
    /// What callers have asked after in vain.
    guesses: Mutex<HashMap<Owner, Guesses>>,
    /// When it was last noted of a caller that it brings what was not given to it.
    forged: Mutex<HashMap<(Owner, Forged), Instant>>,
    /// Whether it is noted that the machine's date is not followed.
    date_refused: AtomicBool,
}

/// Of how many tasks it is remembered that it was noted: whoever polls on does not fill the trail.
const REMEMBERED: usize = 1024;

impl Trail {
    pub(crate) fn new(audit: Arc<dyn Audit>, store: Arc<dyn TaskStore>) -> Self {
        Self(Arc::new(Inner {
            audit,
            store,
            fetched: Mutex::default(),
            guesses: Mutex::default(),
            forged: Mutex::default(),
            date_refused: AtomicBool::new(false),
        }))
    }

    pub(super) fn store(&self) -> &Arc<dyn TaskStore> {
        &self.0.store
    }

    /// This happened to a task.
    pub(super) fn note(&self, what: What, record: &Record, by: Option<Party>) {
        let mut event = self.event(what, by);
        event.task = Some(record.id.clone());
        event.tool = Some(Arc::clone(&record.tool));
        event.owner = Some(Party::of(&record.owner));
        self.0.audit.note(event);
    }

    /// A task made another, which is called so and does its work with this tool.
    pub(super) fn note_child(&self, (id, tool): (TaskId, Arc<str>)) {
        let mut event = self.event(What::Created, None);
        (event.task, event.tool) = (Some(id), Some(tool));
        self.0.audit.note(event);
    }

    /// The same of a task of which only its id is known.
    pub(super) fn note_of(&self, what: What, id: &TaskId, by: Option<Party>) {
        let mut event = self.event(what, by);
        event.task = Some(id.clone());
        self.0.audit.note(event);
    }

    /// Its caller learns what the task has come to, if it has ended. Noted when it is new.
    pub(crate) fn fetched(&self, record: &Record, by: &Owner) {
        if !record.is_terminal() {
            return;
        }
        {
            let mut fetched = self.0.fetched.lock().unwrap_or_else(PoisonError::into_inner);
            if fetched.contains(&record.id) {
                return;
            }
            if fetched.len() == REMEMBERED {
                fetched.pop_front();
            }
            fetched.push_back(record.id.clone());
        }
        self.note(What::Fetched, record, Some(Party::of(by)));
    }

    /// So many tasks were asked after that are not there for who asked. Noted once they are `from` in a while.
    pub(crate) fn guessed(&self, tasks: u32, from: u32, by: Owner) {
        let due = {
            let mut all = self.0.guesses();
            // Whoever is known is looked up without a copy of its name.
            match all.get_mut(&by) {
                Some(guesses) => guesses.missed(tasks, from, Instant::now()),
                None => all.entry(by.clone()).or_default().missed(tasks, from, Instant::now()),
            }
        };
        // Nobody waits for a trail.
        if let Some(tasks) = due {
            self.0.note_guesses(tasks, &by);
        }
    }

    /// Notes what waits no longer for more of its caller's, and forgets what nothing hangs on any more. To be called now and then.
    pub(super) fn tidy(&self) {
        let now = Instant::now();
        self.0.tell_guesses(|guesses| guesses.due(now));
        self.0.guesses().retain(|_, guesses| !guesses.is_over(now));
        self.0.forged().retain(|_, told| !is_over(Some(*told), now));
    }

    /// Notes what waits still: the server has ended.
    pub(crate) fn tell_last_guesses(&self) {
        self.0.tell_last_guesses();
    }

    /// Whoever asked in vain too often is refused.
    pub(crate) fn refused(&self, by: &Owner) {
        self.0.audit.note(self.event(What::Refused, Some(Party::of(by))));
    }

    /// Whoever answers in one session what was asked in another.
    pub(crate) fn strayed(&self, by: &Owner) {
        self.0.audit.note(self.event(What::StrayAnswer, Some(Party::of(by))));
    }

    /// Whoever brings what was not given to it. Noted once in a while of each.
    pub(crate) fn forged(&self, what: Forged, by: &Owner) {
        let now = Instant::now();
        let is_noted = {
            let mut forged = self.0.forged();
            let key = (by.clone(), what);
            let is_noted = !is_over(forged.get(&key).copied(), now);
            if !is_noted {
                forged.insert(key, now);
            }
            is_noted
        };
        // Nobody waits for a trail.
        if !is_noted {
            self.0.audit.note(self.event(What::Forged(what), Some(Party::of(by))));
        }
    }

    /// How the machine's date stands to the store's time. Noted when it begins not to be followed.
    pub(super) fn date(&self, refused: Option<Time>) {
        let was_noted = self.0.date_refused.swap(refused.is_some(), Ordering::Relaxed);
        if let Some(date) = refused.filter(|_| !was_noted) {
            self.0.audit.note(self.event(What::DateRefused(date), None));
        }
    }

    fn event(&self, what: What, by: Option<Party>) -> Event {
        self.0.event(what, by)
    }
}

impl Inner {
    fn event(&self, what: What, by: Option<Party>) -> Event {
        let (at, node) = (self.store.now(), self.store.node().clone());
        Event { what, at, node, task: None, tool: None, owner: None, by }
    }

    fn guesses(&self) -> MutexGuard<'_, HashMap<Owner, Guesses>> {
        self.guesses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forged(&self) -> MutexGuard<'_, HashMap<(Owner, Forged), Instant>> {
        self.forged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes as many of each caller's as `due` gives.
    fn tell_guesses(&self, due: impl Fn(&mut Guesses) -> Option<u32>) {
        let told: Vec<_> = {
            let mut all = self.guesses();
            all.iter_mut().filter_map(|(by, guesses)| Some((due(guesses)?, by.clone()))).collect()
        };
        for (tasks, by) in told {
            self.note_guesses(tasks, &by);
        }
    }

    fn tell_last_guesses(&self) {
        let now = Instant::now();
        self.tell_guesses(|guesses| guesses.rest(now));
    }

    fn note_guesses(&self, tasks: u32, by: &Owner) {
        let tasks = usize::try_from(tasks).unwrap_or(usize::MAX);
        self.audit.note(self.event(What::AskedInVain(tasks), Some(Party::of(by))));
    }
}

impl Drop for Inner {
    /// A server that nobody has served to its end ends here.
    fn drop(&mut self) {
        self.tell_last_guesses();
    }
}
