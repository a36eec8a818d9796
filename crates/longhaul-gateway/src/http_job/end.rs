//! The end of a job whose call is over: the API is told, for sure, and what was known of it goes.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul::store::{Scope, StoreError, TaskId, TaskStore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::client::{Http, Trouble};
use super::job::JobOverHttp;
use super::jobs::Jobs;
use super::ledger::{Handle, Kept, Ledger};
use super::outcome;
use crate::config::{HttpJob, Meaning};

/// Ends jobs of one API.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) job: Arc<HttpJob>,
    pub(super) http: Http,
    pub(super) ledger: Ledger,
    pub(super) store: Arc<dyn TaskStore>,
    /// Those that are being ended.
    busy: Arc<Mutex<HashSet<TaskId>>>,
}

/// Why a job is not ended yet.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotEnded {
    #[error("what is known of it cannot be read or changed")]
    Store(#[from] StoreError),
    #[error("the API has not taken the cancel: {0}")]
    Api(String),
    /// And it may never do so.
    #[error("the API refuses the cancel with a 409, and {0}")]
    Refused(String),
}

impl Ending {
    pub(super) fn new(job: Arc<HttpJob>, http: Http, ledger: Ledger, store: Arc<dyn TaskStore>) -> Self {
        Self { job, http, ledger, store, busy: Arc::default() }
    }

    /// Ends a job, in the background if the API cannot be told now: for as long as this process lives, and then the
    /// next one does.
    pub(super) async fn end(&self, key: &TaskId) {
        let Some(busy) = self.enter(key) else { return };
        if let Err(error) = self.try_end(key).await {
            tracing::warn!(task = %key, %error, "a job goes on although its call is over: trying again");
            let (this, key) = (self.clone(), key.clone());
            tokio::spawn(async move { this.keep_ending(&key, busy).await });
        }
    }

    async fn keep_ending(&self, key: &TaskId, _busy: Busy) {
        let mut pause = FIRST_PAUSE;
        let mut refused = None;
        loop {
            sleep(pause).await;
            match self.try_end(key).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::debug!(task = %key, %error, "a job is not cancelled yet");
                    refused = match error {
                        NotEnded::Refused(_) => refused.or_else(|| Some(Instant::now())),
                        NotEnded::Store(_) | NotEnded::Api(_) => None,
                    };
                    if refused.is_some_and(|since| since.elapsed() >= REFUSED) {
                        return self.give_up(key, &error).await;
                    }
                }
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Lets a job run that cannot be cancelled. What was known of it goes, or it would be tried again for ever.
    async fn give_up(&self, key: &TaskId, error: &NotEnded) {
        tracing::warn!(task = %key, job = self.job.name, %error, "a job cannot be cancelled and may run on");
        let forgotten = match self.ledger.find(key).await {
            Ok(Some(kept)) => self.ledger.forget(key, &kept).await,
            found => found.map(|_| ()),
        };
        if let Err(error) = forgotten {
            tracing::warn!(task = %key, %error, "what is known of a job cannot be forgotten yet");
        }
    }

    /// Ends a job whose task has ended, or which never became one; leaves any other alone.
    pub(super) async fn end_if_over(&self, key: &TaskId) {
        match self.store.get(Scope::Operator, key).await {
            Ok(Some(record)) if !record.is_terminal() => {}
            Ok(_) => self.end(key).await,
            Err(error) => tracing::debug!(task = %key, %error, "whether a task has ended cannot be told now"),
        }
    }

    async fn try_end(&self, key: &TaskId) -> Result<(), NotEnded> {
        let Some(kept) = self.ledger.find(key).await? else { return Ok(()) };
        match &kept.known.job {
            _ if kept.known.over => {}
            Some(handle) => self.cancel(key, handle).await?,
            // Whoever is starting it is told as well, and learns what there is to cancel.
            None if self.ledger.age(&kept.known) < self.job.start_within + STARTING => return Ok(()),
            None => tracing::warn!(
                task = %key,
                job = self.job.name,
                "a job may run on although its call is over: what the API calls it was never learnt"
            ),
        }
        self.forget(key, &kept).await
    }

    async fn forget(&self, key: &TaskId, kept: &Kept) -> Result<(), NotEnded> {
        Ok(self.ledger.forget(key, kept).await?)
    }

    /// Tells the API, which may know already.
    async fn cancel(&self, key: &TaskId, handle: &Handle) -> Result<(), NotEnded> {
        let (job, id) = (&self.job, handle.id.as_str());
        let request = match job.cancel_request(id) {
            Ok(Some(request)) => request,
            Ok(None) => {
                tracing::info!(task = %key, job = job.name, id, "a job runs on: its API has no way to cancel it");
                return Ok(());
            }
            Err(error) => {
                tracing::warn!(task = %key, job = job.name, id, %error, "a job cannot be cancelled and runs on");
                return Ok(());
            }
        };
        let answer = self.http.send(&request, None, job.request_timeout, job.max_answer).await;
        let answer = answer.map_err(|error| NotEnded::Api(error.to_string()))?;
        match answer.status.as_u16() {
            // It is not there (any more).
            404 | 410 => Ok(()),
            409 => self.has_ended(handle).await,
            _ if answer.status.is_success() => Ok(()),
            status if is_for_now(status) => Err(NotEnded::Api(format!("it answered {status}"))),
            status => {
                tracing::warn!(task = %key, job = job.name, id, status, "a job refuses to be cancelled and may run on");
                Ok(())
            }
        }
    }

    /// Whether a job that is not to be cancelled has ended: its status says so.
    async fn has_ended(&self, handle: &Handle) -> Result<(), NotEnded> {
        let job = &self.job;
        let refused = |why: String| Err(NotEnded::Refused(why));
        let request = match job.status_request(&handle.id, handle.status_url.as_deref()) {
            Ok(request) => request,
            Err(error) => return refused(format!("cannot be asked how the job stands: {error}")),
        };
        let answer = self.http.send(&request, None, job.request_timeout, job.max_answer).await;
        let answer = match answer {
            // Which it will be the next time, too.
            Err(error @ Trouble::TooLong(_)) => {
                return refused(format!("says how the job stands, but {error}"));
            }
            answer => answer.map_err(|error| NotEnded::Api(format!("a 409, and then: {error}")))?,
        };
        let status = answer.status.as_u16();
        if is_for_now(status) {
            return Err(NotEnded::Api(format!("a 409, and then it answered {status}")));
        }
        match answer.json().ok().and_then(|status| outcome::state(job, &status)) {
            _ if matches!(status, 404 | 410) => Ok(()),
            Some(state) if answer.status.is_success() => match job.meaning(&state) {
                Meaning::Done | Meaning::Failed => Ok(()),
                Meaning::Running => refused(format!("says that the job is `{}`", outcome::line(&state))),
            },
            _ => refused(format!("does not say how the job stands (it answered {status})")),
        }
    }

    fn enter(&self, key: &TaskId) -> Option<Busy> {
        let entered = lock(&self.busy).insert(key.clone());
        entered.then(|| Busy(Arc::clone(&self.busy), key.clone()))
    }
}

/// A job that is being ended, until dropped.
struct Busy(Arc<Mutex<HashSet<TaskId>>>, TaskId);

impl Drop for Busy {
    fn drop(&mut self) {
        lock(&self.0).remove(&self.1);
    }
}

fn lock(busy: &Mutex<HashSet<TaskId>>) -> MutexGuard<'_, HashSet<TaskId>> {
    busy.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends what was left of calls that are over, at once and then every `every`, for as long as the runtime lives: a
/// server can die between recording that a task is cancelled and telling the API.
///
/// Only what the ledger knows is looked at: the jobs that are under way, and not the tasks that are kept.
pub async fn keep_tidy(jobs: Jobs, every: Duration) {
    loop {
        if let Err(error) = tidy(&jobs).await {
            tracing::warn!(%error, "old jobs could not be looked through");
        }
        sleep(every).await;
    }
}

async fn tidy(jobs: &Jobs) -> Result<(), StoreError> {
    let ledger = jobs.ledger();
    if jobs.now().is_empty() {
        return Ok(());
    }
    let mut after: Option<String> = None;
    loop {
        let keys = ledger.keys(after.as_deref()).await?;
        let mut looks = JoinSet::new();
        for key in keys.iter().filter_map(|key| TaskId::new(key.as_str()).ok()) {
            // Some at a time: an API that does not answer keeps those of no other waiting.
            if looks.len() >= AT_A_TIME {
                looks.join_next().await;
            }
            let jobs = jobs.clone();
            looks.spawn(async move {
                // What is damaged keeps no other from its end.
                if let Err(error) = end_what_is_over(&jobs, &key).await {
                    tracing::warn!(task = %key, %error, "whether a job is over cannot be told");
                }
            });
        }
        // One that panics has been told of by its thread, and ends nobody else's.
        while looks.join_next().await.is_some() {}
        match keys.into_iter().next_back() {
            Some(last) => after = Some(last),
            None => return Ok(()),
        }
    }
}

/// Ends this job, if its call is over and it is one of these.
async fn end_what_is_over(jobs: &Jobs, key: &TaskId) -> Result<(), StoreError> {
    let Some(kept) = jobs.ledger().find(key).await? else { return Ok(()) };
    let all = jobs.now();
    let job = all.iter().find(|job| job.job().name == kept.known.tool);
    // Of an older release's only the task says which tool it was.
    let job = match (job, kept.known.tool.as_str()) {
        (None, "") => tool_of(jobs.store(), key, &all).await?,
        (job, _) => job,
    };
    if let Some(job) = job {
        job.ending().end_if_over(key).await;
    }
    Ok(())
}

async fn tool_of<'j>(
    store: &Arc<dyn TaskStore>,
    key: &TaskId,
    jobs: &'j [Arc<JobOverHttp>],
) -> Result<Option<&'j Arc<JobOverHttp>>, StoreError> {
    let record = store.get(Scope::Operator, key).await?;
    Ok(record.and_then(|record| jobs.iter().find(|job| job.job().name == *record.tool)))
}

/// Whether a status says nothing of the job, and another may be answered later.
fn is_for_now(status: u16) -> bool {
    matches!(status, 401 | 403 | 408 | 425 | 429 | 500..)
}

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long a cancel is sent again that an API refuses with a 409 although the job has not ended.
const REFUSED: Duration = Duration::from_secs(10 * 60);
/// How many jobs are looked at side by side.
const AT_A_TIME: usize = 16;
/// How long a start is given beyond the time it is tried for.
const STARTING: Duration = Duration::from_secs(15 * 60);
