//! An API of jobs as the engine knows jobs.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul::proto::model::CallToolResult;
use longhaul::server::JobTool;
use longhaul::store::{Json, Outcome, Scope, StoreError, TaskId, TaskStore};
use longhaul::tasks::environment::BoxFuture;
use longhaul::tasks::job::{Attached, ExternalJob, JobError, JobRun, NotStarted};
use longhaul::tasks::project;
use longhaul::tasks::report::Reporter;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use super::callback::Tokens;
use super::client::Http;
use super::end::Ending;
use super::follower::Follower;
use super::ledger::{Kept, Ledger, Said};
use super::outcome;
use super::start::{Start, in_doubt};
use crate::config::{ArgumentErrors, Callback, CallbackBody, HttpJob, Meaning};

/// A configured API: each call of it is a job there.
#[derive(Debug)]
pub struct JobOverHttp {
    ending: Ending,
    live: Live,
    tokens: Tokens,
}

impl JobOverHttp {
    /// The API, what is known of its jobs kept in `ledger`, which is of the same store as their tasks, as `tokens` are.
    pub fn new(
        job: Arc<HttpJob>,
        http: Http,
        ledger: Ledger,
        store: Arc<dyn TaskStore>,
        tokens: Tokens,
    ) -> Self {
        Self { ending: Ending::new(job, http, ledger, store), live: Live::default(), tokens }
    }

    /// The API as it is configured.
    #[must_use]
    pub fn job(&self) -> &HttpJob {
        &self.ending.job
    }

    pub(super) fn ending(&self) -> &Ending {
        &self.ending
    }

    /// The API has called back, be it for the first time or again: `false` if nothing waits for that.
    pub(super) async fn called(&self, key: &TaskId, token: &str, body: &[u8]) -> Result<bool, StoreError> {
        let Some(callback) = &self.job().callback else { return Ok(false) };
        let Ending { ledger, store, .. } = &self.ending;
        let open = store.get(Scope::Operator, key).await?.is_some_and(|record| !record.is_terminal());
        if !open {
            return Ok(false);
        }
        let said = match callback.body {
            CallbackBody::Ignored => Said::default(),
            CallbackBody::Status => self.said(body),
        };
        let noted = match ledger.call(key, token, &said).await {
            // What is too long to be kept is asked for.
            Err(StoreError::TooLarge { .. }) => ledger.call(key, token, &Said::default()).await,
            noted => noted,
        }?;
        if noted {
            self.live.wake(key);
        }
        Ok(noted)
    }

    /// What the body of a call says of its job.
    fn said(&self, body: &[u8]) -> Said {
        let status: Option<Value> = serde_json::from_slice(body).ok();
        let state = status.as_ref().and_then(|status| outcome::state(self.job(), status));
        let is_end = state.is_some_and(|state| self.job().meaning(&state) != Meaning::Running);
        Said { status, is_end }
    }

    /// The token for a job that is about to be started, where its API can call back.
    fn token(&self, key: &TaskId) -> Option<String> {
        let job = self.job();
        let lasting = job.timeout.map_or(Callback::LASTING, |timeout| timeout + job.start_within);
        job.callback.as_ref().and_then(|_| self.tokens.make(&job.name, key, lasting))
    }

    fn follow(&self, key: &TaskId, start: Option<Start>, kept: Kept, reporter: Reporter) -> Arc<dyn JobRun> {
        let (stop, stopped) = watch::channel(false);
        let (end, ended) = watch::channel(None);
        let Ending { job, http, ledger, .. } = self.ending.clone();
        let woken = Arc::new(Notify::new());
        let at_it = self.live.enter(key, stop.clone(), Arc::clone(&woken));
        let (lies_down, asleep) = watch::channel(None);
        let key = key.clone();
        let follower = Follower {
            job,
            http,
            ledger,
            key: key.clone(),
            reporter,
            stop: stopped,
            woken,
            asleep: lies_down,
        };
        tokio::spawn(async move {
            if let Ok(outcome) = follower.run(start, kept).await {
                end.send_replace(Some(outcome));
            }
            drop(at_it);
        });
        Arc::new(HttpRun { key, ended, asleep, stop, ending: self.ending.clone() })
    }

    /// What is known of a job, however long the store takes to say so.
    async fn find(&self, key: &TaskId) -> Option<Kept> {
        loop {
            match self.ending.ledger.find(key).await {
                Ok(kept) => return kept,
                Err(error) => {
                    tracing::warn!(task = %key, %error, "what is known of a job cannot be read yet")
                }
            }
            sleep(PAUSE).await;
        }
    }
}

impl JobTool for JobOverHttp {
    fn check(&self, arguments: &str) -> Result<Json, CallToolResult> {
        let bound = self.job().bind(arguments).map_err(|errors| CallToolResult::error(errors.to_string()))?;
        Json::parse(bound.arguments).map_err(|error| CallToolResult::error(error.to_string()))
    }

    fn secret(&self) -> Vec<String> {
        let secret = self.job().inputs().iter().filter(|input| input.secret);
        secret.map(|input| input.name.clone()).collect()
    }
}

impl ExternalJob for JobOverHttp {
    /// What runs elsewhere cannot be made to end with this process.
    fn row_first(&self) -> bool {
        true
    }

    fn start<'a>(
        &'a self,
        key: &'a TaskId,
        arguments: &'a Json,
        _durable: bool,
        reporter: Reporter,
    ) -> BoxFuture<'a, Result<Arc<dyn JobRun>, NotStarted>> {
        Box::pin(async move {
            let unfit = |errors: ArgumentErrors| {
                NotStarted::Failed(project::stored(&CallToolResult::error(errors.to_string())))
            };
            // Nothing is noted of what cannot be sent.
            self.job().bind(arguments.as_str()).map_err(unfit)?;
            let begun = self.ending.ledger.begin(key, &self.job().name, self.token(key)).await;
            let (kept, new) = begun.map_err(|error| unwritten(&error))?;
            let token = kept.known.token.as_deref().unwrap_or_default();
            let bound = self.job().bind_with(arguments.as_str(), token).map_err(unfit)?;
            if !new && kept.known.job.is_none() && !self.job().idempotent {
                return Err(in_doubt("the server ended while it was being started").into());
            }
            let start = Start { request: bound.start, may_run: !new };
            Ok(self.follow(key, Some(start), kept, reporter))
        })
    }

    fn attach<'a>(&'a self, key: &'a TaskId, begun: bool, reporter: Reporter) -> BoxFuture<'a, Attached> {
        Box::pin(async move {
            match self.find(key).await {
                Some(kept) if kept.known.job.is_some() => {
                    Attached::Running(self.follow(key, None, kept, reporter))
                }
                Some(_) if !self.job().idempotent => {
                    let Outcome::Lost { reason } = in_doubt("the server ended while it was being started")
                    else {
                        return Attached::Lost { reason: "it may have been started".into() };
                    };
                    Attached::Lost { reason }
                }
                None if begun => Attached::Lost { reason: "nothing is known of it".into() },
                // Sent again under its key, a start that was sent starts nothing more.
                Some(_) | None => Attached::NeverStarted,
            }
        })
    }

    fn cancel<'a>(&'a self, key: &'a TaskId) -> BoxFuture<'a, Result<(), JobError>> {
        Box::pin(async move {
            self.live.stop(key).await;
            self.ending.end(key).await;
            Ok(())
        })
    }

    fn discard<'a>(&'a self, key: &'a TaskId) -> BoxFuture<'a, ()> {
        Box::pin(self.ending.end_if_over(key))
    }
}

fn unwritten(error: &StoreError) -> NotStarted {
    NotStarted::Overloaded(format!("what is known of its job cannot be kept: {error}").into())
}

/// The jobs that this process follows, and how each is stopped.
#[derive(Debug, Default)]
struct Live(Arc<Mutex<HashMap<TaskId, Followed>>>);

#[derive(Debug)]
struct Followed {
    stop: watch::Sender<bool>,
    /// Told each time its API calls back.
    woken: Arc<Notify>,
    /// Closed once nobody is at it any more.
    at_it: watch::Receiver<()>,
}

/// Somebody follows a job, until dropped.
struct AtIt {
    _at_it: watch::Sender<()>,
}

impl Live {
    fn enter(&self, key: &TaskId, stop: watch::Sender<bool>, woken: Arc<Notify>) -> AtIt {
        let (sender, at_it) = watch::channel(());
        let mut live = self.lock();
        // Those that have ended are of no use.
        live.retain(|_, followed| followed.at_it.has_changed().is_ok());
        live.insert(key.clone(), Followed { stop, woken, at_it });
        AtIt { _at_it: sender }
    }

    /// Has a job looked at now, if this process follows it.
    fn wake(&self, key: &TaskId) {
        if let Some(followed) = self.lock().get(key) {
            followed.woken.notify_one();
        }
    }

    /// Lets go of a job, and waits until what was being asked of the API has been answered and recorded.
    async fn stop(&self, key: &TaskId) {
        let followed = self.lock().remove(key);
        if let Some(Followed { stop, mut at_it, .. }) = followed {
            stop.send_replace(true);
            // Nothing is ever sent: it ends with its sender.
            while at_it.changed().await.is_ok() {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, Followed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One job, as this process follows it.
struct HttpRun {
    key: TaskId,
    ended: watch::Receiver<Option<Outcome>>,
    /// Until when nothing is done but to wait.
    asleep: watch::Receiver<Option<Instant>>,
    stop: watch::Sender<bool>,
    ending: Ending,
}

impl JobRun for HttpRun {
    /// It outlives this process anyway.
    fn keep(&self) -> BoxFuture<'_, Result<(), JobError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let _outcome = self.outcome(true).await;
        })
    }

    fn asleep(&self) -> BoxFuture<'_, Duration> {
        let mut asleep = self.asleep.clone();
        Box::pin(async move {
            match asleep.wait_for(Option::is_some).await.map(|until| *until) {
                Ok(Some(until)) => until.saturating_duration_since(Instant::now()),
                // Nobody follows it any more.
                _ => std::future::pending().await,
            }
        })
    }

    /// Its API may have called at another node while this one still had the task.
    fn is_woken(&self) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            match self.ending.ledger.find(&self.key).await {
                Ok(kept) => kept.is_some_and(|kept| kept.known.is_unheard()),
                Err(error) => {
                    tracing::debug!(task = %self.key, %error, "whether a job's API has called is not known");
                    false
                }
            }
        })
    }

    fn outcome(&self, _kept: bool) -> BoxFuture<'_, Outcome> {
        let mut ended = self.ended.clone();
        Box::pin(async move {
            match ended.wait_for(Option::is_some).await.map(|outcome| outcome.clone()) {
                Ok(Some(outcome)) => outcome,
                // Nobody is to follow it, or its task has ended: there is nothing to say of it here.
                _ => std::future::pending().await,
            }
        })
    }
}

/// With its last follower goes what was known of it, if its task has ended.
impl Drop for HttpRun {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        // While the runtime ends nothing more is done: the next server does it.
        if let Ok(runtime) = Handle::try_current() {
            let (ending, key) = (self.ending.clone(), self.key.clone());
            runtime.spawn(async move { ending.end_if_over(&key).await });
        }
    }
}

impl fmt::Debug for HttpRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRun").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Between two tries to read the store.
const PAUSE: Duration = Duration::from_secs(1);
