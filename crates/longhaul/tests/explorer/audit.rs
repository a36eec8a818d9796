//! What must hold after every single operation, whoever asked for it: the invariants I1, I2, I5, I6, I8, I10, I12.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use longhaul::tasks::project::{self, View};
use longhaul_store::wrap::{Operation, Wrap};
use longhaul_store::{Filter, Phase, Record, Scope, StoreError, StoreFuture, TaskId, TaskStore};

use crate::clock::Simulated;

/// Looks at every task after every operation, by a node of its own, which never works.
#[derive(Clone, Debug)]
pub(crate) struct Audit(Arc<Shared>);

struct Shared {
    clock: Simulated,
    observer: Arc<dyn TaskStore>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    operations: usize,
    tasks: BTreeMap<TaskId, Record>,
    /// The step and the text of each question, by its task and its key.
    questions: HashMap<(TaskId, Arc<str>), (Arc<str>, String)>,
    /// The key of each step that asks.
    asking: HashMap<(TaskId, Arc<str>), Arc<str>>,
    broken: Vec<String>,
}

/// No scenario needs as many, unless something goes round in circles.
const TOO_MANY: usize = 20_000;

impl Audit {
    pub(crate) fn new(observer: Arc<dyn TaskStore>, clock: Simulated) -> Self {
        Self(Arc::new(Shared { clock, observer, state: Mutex::default() }))
    }

    /// Notes that a promise is broken.
    pub(crate) fn complain(&self, what: impl Into<String>) {
        let (what, mut state) = (what.into(), self.lock());
        if !state.broken.contains(&what) {
            state.broken.push(what);
        }
    }

    /// The promises that were broken so far.
    pub(crate) fn broken(&self) -> Vec<String> {
        self.lock().broken.clone()
    }

    /// Every task that there is.
    pub(crate) fn tasks(&self) -> Vec<Record> {
        self.0.clock.passed();
        at_once(self.0.observer.list(Scope::Operator, &Filter::all(), None, 1000)).unwrap().tasks
    }

    /// How much there is: open, and taking room.
    pub(crate) fn counts(&self) -> (u64, u64) {
        self.0.clock.passed();
        let counts = at_once(self.0.observer.counts()).unwrap();
        (counts.open, counts.retained)
    }

    fn look(&self, operation: Operation, error: Option<&StoreError>) {
        let tasks = self.tasks();
        let open = tasks.iter().filter(|task| !task.is_terminal()).count() as u64;
        let counted = self.counts().0;
        if counted != open {
            self.complain(format!(
                "I12: after {operation} {counted} tasks are counted as open, and {open} are"
            ));
        }
        let mut known = std::mem::take(&mut self.lock().tasks);
        for task in &tasks {
            if let Some(wrong) = no_witness(task) {
                self.complain(format!("I8: after {operation} nothing will move a task on: {wrong}"));
            }
            self.check_questions(task);
            let Some(before) = known.remove(&task.id) else { continue };
            if error.is_some_and(StoreError::is_fenced) && before != *task {
                self.complain(format!(
                    "I6: a fenced {operation} changed {} to {}",
                    brief(&before),
                    brief(task)
                ));
            }
            if before.is_terminal() && before != *task {
                self.complain(format!(
                    "I2: {operation} changed a task that has ended, {}, to {}",
                    brief(&before),
                    brief(task)
                ));
            }
            if let Some(wrong) = dates(&before, task) {
                self.complain(format!("I10: {operation} {wrong}: {}, then {}", brief(&before), brief(task)));
            }
        }
        for gone in known.into_values().filter(|gone| !gone.is_terminal()) {
            self.complain(format!("I3: after {operation} an open task is gone: {}", brief(&gone)));
        }
        self.lock().tasks = tasks.into_iter().map(|task| (task.id.clone(), task)).collect();
    }

    fn check_questions(&self, task: &Record) {
        for question in &task.questions {
            let (asked, request) = (question.key.clone(), question.request.as_str().to_owned());
            let is_new = (question.step.clone(), request);
            let mut state = self.lock();
            let known =
                state.questions.entry((task.id.clone(), asked.clone())).or_insert_with(|| is_new.clone());
            let same = *known == is_new;
            let step = (task.id.clone(), question.step.clone());
            let one = *state.asking.entry(step).or_insert_with(|| asked.clone()) == asked;
            drop(state);
            if !same || !one {
                self.complain(format!("I5: a question changed, or its key: {question:?}"));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }
}

/// What matters of a task.
pub(crate) fn brief(task: &Record) -> String {
    let Record { id, tool, phase, epoch, attempt, updated_at, questions, progress, .. } = task;
    let at = updated_at.unix_ms();
    format!(
        "{tool} {id} at {epoch:?}, attempt {attempt}, changed at {at}: {phase:?}, {progress:?}, asks {questions:?}"
    )
}

/// Why nothing would ever move this task on.
fn no_witness(task: &Record) -> Option<String> {
    match &task.phase {
        // Its node, or the end of its lease.
        Phase::Running { .. } | Phase::Done(_) | Phase::Queued { .. } => None,
        Phase::Parked { until: Some(_) } => None,
        Phase::Parked { until: None } if task.questions.is_empty() => Some(brief(task)),
        Phase::Parked { until: None } => None,
        other => Some(format!("{other:?}")),
    }
}

/// What is wrong with the dates of a task that was so and is so now.
fn dates(before: &Record, now: &Record) -> Option<&'static str> {
    let seen = |task: &Record| {
        let status = (project::status(task, View::D1), project::status(task, View::D3));
        let words = (task.status_message.clone(), task.progress.clone());
        (status, words, task.questions.clone(), task.outcome().cloned())
    };
    let changed = seen(before) != seen(now);
    if now.epoch < before.epoch {
        Some("set an epoch back")
    } else if now.updated_at < before.updated_at {
        Some("set a date back")
    } else if changed && now.updated_at == before.updated_at {
        Some("changed what a caller sees without a date")
    } else if !changed && now.updated_at != before.updated_at {
        Some("changed a date and nothing that a caller sees")
    } else {
        None
    }
}

impl Wrap for Audit {
    fn around<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        doing: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            self.lock().operations += 1;
            if self.lock().operations > TOO_MANY {
                self.complain(format!("{operation} is asked for without end"));
                return pending().await;
            }
            // The store's own threads are told the time that was read here.
            self.0.clock.tick();
            self.0.clock.passed();
            let done = at_once(doing);
            self.look(operation, done.as_ref().err());
            done
        })
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Audit")
    }
}

/// Does an operation of a store while nothing else happens: simulated time must not pass meanwhile.
fn at_once<T>(doing: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut doing = pin!(tokio::task::unconstrained(doing));
    loop {
        match doing.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}
