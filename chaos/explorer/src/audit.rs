//! Looks at every task after every single operation, whoever asked for it: what must hold is in `invariant.rs`.

use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use longhaul_store::wrap::{Operation, Wrap};
use longhaul_store::{Filter, Record, Scope, StoreError, StoreFuture, TaskId, Time};

use crate::clock::Simulated;
use crate::invariant::{History, brief, family};
use crate::place::Observer;

/// Looks at every task after every operation, by a node of its own, which never works.
#[derive(Clone, Debug)]
pub(crate) struct Audit(Arc<Shared>);

struct Shared {
    clock: Simulated,
    observer: Observer,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    operations: usize,
    history: History,
    sweeps: Sweeps,
    broken: Vec<String>,
}

/// What the tasks that were forgotten have left, and when the process that runs has last swept.
#[derive(Default)]
struct Sweeps {
    /// From when on a sweep has something to do with each, or until when it is a tombstone.
    left: BTreeMap<TaskId, Left>,
    /// When the process began, or last swept.
    last: Option<Time>,
}

#[derive(Clone, Copy)]
enum Left {
    All { swept_at: Option<Time> },
    Tombstone { until: Time },
}

/// A node sweeps as often, and one that stops no more for as long as that takes.
const SWEPT_EVERY: Duration = Duration::from_secs(30 + 15);

/// How long a store remembers by default that a task was there.
const KEPT: Duration = Duration::from_secs(60 * 60);

/// No sweep takes as long, nor what comes between it and a look.
const A_MOMENT: Duration = Duration::from_secs(1);

/// No scenario needs as many, unless something goes round in circles.
const TOO_MANY: usize = 20_000;

impl Audit {
    pub(crate) fn new(observer: Observer, clock: Simulated) -> Self {
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
        at_once(self.0.observer.store().list(Scope::Operator, &Filter::all(), None, 1000)).unwrap().tasks
    }

    /// A process begins, and with it its sweeps.
    pub(crate) fn begin(&self) {
        let now = self.0.observer.store().now();
        self.lock().sweeps.last = Some(now);
    }

    /// How much there is: open, and taking room.
    pub(crate) fn counts(&self) -> (u64, u64) {
        self.0.clock.passed();
        let counts = at_once(self.0.observer.store().counts()).unwrap();
        (counts.open, counts.retained)
    }

    fn look(&self, operation: Operation, error: Option<&StoreError>) {
        let tasks = self.tasks();
        let open = tasks.iter().filter(|task| !task.is_terminal()).count() as u64;
        let (counted, retained) = self.counts();
        let now = self.0.observer.store().now();
        if counted != open {
            self.complain(format!(
                "I12: after {operation} {counted} tasks are counted as open, and {open} are"
            ));
        }
        for wrong in self.0.observer.miscounted() {
            self.complain(format!("I12: after {operation} {wrong}"));
        }
        let fenced = error.is_some_and(StoreError::is_fenced);
        let mut state = self.lock();
        let mut broken = Vec::new();
        for task in &tasks {
            broken.extend(state.history.see(task.clone(), &operation, fenced, now));
            broken.extend(family(task, tasks.iter()));
        }
        let is_there = |id: &TaskId| tasks.iter().any(|task| task.id == *id);
        let gone: Vec<TaskId> = state.history.tasks().keys().filter(|id| !is_there(id)).cloned().collect();
        for id in gone {
            let Some((gone, wrong)) = state.history.forget(&id, &operation, now) else { continue };
            state.sweeps.left.insert(id, Left::All { swept_at: gone.swept_at() });
            broken.extend(wrong);
        }
        if operation == Operation::Sweep && error.is_none() {
            state.sweeps.sweep(now);
            let is_late = |task: &&Record| task.expires_at.is_some_and(|at| at.after(A_MOMENT) <= now);
            let late = tasks.iter().filter(|task| !task.is_terminal()).filter(is_late).map(brief);
            broken
                .extend(late.map(|late| format!("I11: a sweep has left open what was out of time: {late}")));
        }
        let most = (tasks.len() + state.sweeps.left.len()) as u64;
        if retained > most {
            broken.push(format!("I11: after {operation} {retained} tasks take room, and {most} may"));
        }
        if state.sweeps.last.is_none_or(|last| now.since(last) > SWEPT_EVERY) {
            broken.push(format!("I11: at {operation} nobody has swept for long"));
        }
        drop(state);
        broken.into_iter().for_each(|broken| self.complain(broken));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }
}

impl Sweeps {
    /// Does what a sweep does.
    fn sweep(&mut self, now: Time) {
        self.last = Some(now);
        self.left.retain(|_, left| match *left {
            Left::All { swept_at } => {
                if swept_at.is_some_and(|at| at <= now) {
                    *left = Left::Tombstone { until: now.after(KEPT) };
                }
                true
            }
            Left::Tombstone { until } => now < until,
        });
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
pub(crate) fn at_once<T>(doing: impl Future<Output = T>) -> T {
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
