//! The tools a node can work on.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use longhaul_store::{Accepts, HostId, Outcome, Record, Runnable};
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::figures::Queued;
use super::keeper::Keeper;
use crate::environment::BoxFuture;
use crate::job::{ExternalJob, FoundJobs};
use crate::report::Reporter;

/// A tool that a node can work on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Worker {
    /// Its name.
    pub tool: Arc<str>,
    /// In which versions the tasks are that it goes on with. Default 0.0.0 alone, which says none.
    pub accepts: Accepts,
    /// How to reach its jobs, if its calls are jobs outside this process.
    pub job: Option<Arc<dyn ExternalJob>>,
    /// How to enter its work again, if its calls are futures of this process.
    pub entry: Option<Arc<dyn Entry>>,
    /// How many of its calls may run at once on this node; the next waits. `None` for any number.
    pub limit: Option<usize>,
}

impl Worker {
    /// A tool whose calls are futures of this process.
    pub fn new(tool: impl Into<Arc<str>>) -> Self {
        Self { tool: tool.into(), accepts: Accepts::default(), job: None, entry: None, limit: None }
    }

    /// The same, going on with tasks of these versions.
    #[must_use]
    pub fn with_accepts(mut self, accepts: Accepts) -> Self {
        self.accepts = accepts;
        self
    }

    /// The same, its calls jobs outside this process.
    #[must_use]
    pub fn with_job(mut self, job: Arc<dyn ExternalJob>) -> Self {
        self.job = Some(job);
        self
    }

    /// The same, its calls futures that can be entered again.
    #[must_use]
    pub fn with_entry(mut self, entry: Arc<dyn Entry>) -> Self {
        self.entry = Some(entry);
        self
    }

    /// The same, with at most `limit` calls at once.
    #[must_use]
    pub fn with_limit(mut self, limit: Option<usize>) -> Self {
        self.limit = limit;
        self
    }
}

/// Enters work again that an earlier process left.
pub trait Entry: fmt::Debug + Send + Sync + 'static {
    /// The work of `record`, from its start: it finds what it has learnt before in its keeper. `caller` is what was
    /// written of whoever called ([`Call::context`](super::Call::context)).
    fn enter(
        &self,
        record: &Record,
        caller: Option<&RawValue>,
        keeper: Keeper,
        reporter: Reporter,
    ) -> BoxFuture<'static, Outcome>;
}

/// The places for the calls of a tool, as many as its limit says.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    pub(super) limit: usize,
}

impl Places {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        let limit = limit.max(1);
        Arc::new(Self { free: Arc::new(Semaphore::new(limit)), limit })
    }

    /// One of them, if one is free.
    fn take(self: &Arc<Self>) -> Place {
        let taken = Arc::clone(&self.free).try_acquire_owned().ok()?;
        Some(Taken { places: Arc::clone(self), _taken: taken })
    }

    /// The next of them, given in the order in which it is waited for; what `waits` gives is kept from then on.
    pub(super) fn next(
        self: Arc<Self>,
        waits: impl FnOnce(&Arc<Self>) -> Queued + Send + 'static,
    ) -> BoxFuture<'static, Place> {
        Box::pin(async move {
            // Here, where the semaphore has it wait, and not before: so both have one order.
            let _waits = waits(&self);
            // The semaphore is never closed.
            let taken = Arc::clone(&self.free).acquire_owned().await.ok()?;
            Some(Taken { places: self, _taken: taken })
        })
    }
}

/// One of these places, given back when dropped.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) places: Arc<Places>,
    _taken: OwnedSemaphorePermit,
}

/// The right to run: none is needed where nothing is limited.
pub(super) type Place = Option<Taken>;

/// Every tool of a node, with the places for its calls.
#[derive(Debug, Default)]
pub(super) struct Workers {
    entries: RwLock<HashMap<Arc<str>, Employed>>,
    /// How to reach what has begun of any other.
    others: OnceLock<Arc<dyn FoundJobs>>,
}

type Employed = (Worker, Option<Arc<Places>>);

impl Workers {
    pub(super) fn new(workers: impl IntoIterator<Item = Worker>) -> Self {
        let this = Self::default();
        workers.into_iter().for_each(|worker| this.employ(worker));
        this
    }

    /// Takes on one more, in place of the one of its name if there is one; what that one has begun goes on.
    pub(super) fn employ(&self, worker: Worker) {
        let mut workers = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let places = match workers.get(&worker.tool) {
            // What that one has begun counts towards the same limit.
            Some((before, places)) if before.limit == worker.limit => places.clone(),
            _ => worker.limit.map(Places::new),
        };
        workers.insert(Arc::clone(&worker.tool), (worker, places));
    }

    /// Reaches the jobs of every tool that is not among them by `jobs`; the first that are given stay.
    pub(super) fn reach_others(&self, jobs: Arc<dyn FoundJobs>) {
        let _the_first = self.others.set(jobs);
    }

    /// How to reach the jobs of tools that are not among them.
    pub(super) fn others(&self) -> Option<&Arc<dyn FoundJobs>> {
        self.others.get()
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<Arc<str>, Employed>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which tasks this node can work on.
    pub(super) fn runnable(&self) -> Vec<Runnable> {
        let runnable = |(worker, _): &Employed| {
            let host = worker.job.as_ref().and_then(|job| job.host().cloned());
            Runnable::new(Arc::clone(&worker.tool), worker.accepts.clone()).on(host)
        };
        self.read().values().map(runnable).collect()
    }

    /// The host that the jobs of `tool` are bound to as this node starts them.
    pub(super) fn host(&self, tool: &str) -> Option<HostId> {
        let others = || self.others().and_then(|jobs| jobs.host().cloned());
        // What a tool began that has no jobs any more is where the others' are.
        self.job(tool).and_then(|job| job.host().cloned()).or_else(others)
    }

    /// Whether the job of a task, if it has one, is where this node finds it.
    pub(super) fn is_here(&self, record: &Record) -> bool {
        record.host.is_none() || record.host == self.host(&record.tool)
    }

    /// Whether this is one of them.
    pub(super) fn run(&self, record: &Record) -> bool {
        self.read().get(&record.tool).is_some_and(|(worker, _)| worker.accepts.admits(&record.version))
    }

    pub(super) fn has(&self, tool: &str) -> bool {
        self.read().contains_key(tool)
    }

    pub(super) fn job(&self, tool: &str) -> Option<Arc<dyn ExternalJob>> {
        match self.read().get(tool) {
            Some((worker, _)) => worker.job.clone(),
            None => self.others.get().map(|jobs| Arc::clone(jobs) as Arc<dyn ExternalJob>),
        }
    }

    /// How to reach the job of a task as what has begun of any tool: where its own is not among them, or accepts its version
    /// no more. What has begun runs on as it was begun.
    pub(super) fn found(&self, record: &Record) -> Option<&Arc<dyn FoundJobs>> {
        let is_own = self.read().get(&record.tool).is_some_and(|(worker, _)| {
            // A function never begins as another's job.
            worker.job.is_none() || worker.accepts.admits(&record.version)
        });
        self.others().filter(|_| !is_own)
    }

    /// How to reach the job of a task, if its work is one: as what has begun of any tool, or else as its own tool's.
    pub(super) fn job_of(&self, record: &Record) -> Option<Arc<dyn ExternalJob>> {
        let found = self.found(record).map(|jobs| Arc::clone(jobs) as Arc<dyn ExternalJob>);
        found.or_else(|| self.job(&record.tool))
    }

    /// Whether only so many calls of `tool` may run at once.
    pub(super) fn limits(&self, tool: &str) -> bool {
        self.read().get(tool).is_some_and(|(worker, _)| worker.limit.is_some())
    }

    /// How to enter the work of `tool` again.
    pub(super) fn entry(&self, tool: &str) -> Option<Arc<dyn Entry>> {
        self.read().get(tool).and_then(|(worker, _)| worker.entry.clone())
    }

    /// A place for one more call of `tool`, or else the wait for one, of which the caller is told; what `waits` gives is kept
    /// meanwhile.
    pub(super) fn admit(
        &self,
        tool: &str,
        reporter: &Reporter,
        waits: impl FnOnce(&Arc<Places>) -> Queued + Send + 'static,
    ) -> Result<Place, BoxFuture<'static, Place>> {
        let workers = self.read();
        let Some((_, Some(places))) = workers.get(tool) else { return Ok(None) };
        if let place @ Some(_) = places.take() {
            return Ok(place);
        }
        reporter.status(format!("queued: {} of {tool} are running, its limit", places.limit));
        Err(Arc::clone(places).next(waits))
    }

    /// A place for one more call of `tool`, if one is free: what runs already cannot be made to wait for one.
    pub(super) fn free_place(&self, tool: &str) -> Place {
        let workers = self.read();
        let (_, places) = workers.get(tool)?;
        places.as_ref()?.take()
    }
}
