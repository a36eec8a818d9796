//! One job that runs: asked after until it has ended, and whatever happens told as a line for people.

use std::sync::Arc;
use std::time::Duration;

use longhaul::store::{Outcome, Progress};
use reqwest::StatusCode;
use serde_json::Value;
use tokio::time::Instant;

use super::client::{Answer, Trouble};
use super::follower::{Followed, Follower, Stopped, is_passing, not_before, said, whole};
use super::ledger::{Handle, Kept, Known};
use super::outcome::{self, Facts, text_at};
use super::patience::Patience;
use crate::config::{BoundRequest, HttpJob, Meaning, Output, format_duration};

impl Follower {
    /// Asks after the job until it has ended, first after `wait`.
    pub(super) async fn follow(
        &mut self,
        handle: &Handle,
        mut kept: Kept,
        mut wait: Duration,
    ) -> Followed<Outcome> {
        let job = Arc::clone(&self.job);
        let request = match job.status_request(&handle.id, handle.status_url.as_deref()) {
            Ok(request) => request,
            Err(error) => return Ok(Outcome::lost(format!("{} cannot be followed: {error}", job.name))),
        };
        let mut patience = kept.known.patience.clone();
        loop {
            kept = self.lie_down(kept, &patience, wait).await?;
            let next = self.next(wait, &kept.known, &mut patience).await;
            self.asleep.send_replace(None);
            let seen = match next? {
                Next::Over(over) => return Ok(over),
                Next::Told(status) => Seen::Status(status, None),
                Next::Look => self.look(&request).await?,
            };
            wait = match seen {
                Seen::Status(status, after) => {
                    patience.hear();
                    match job.meaning(&status.state) {
                        Meaning::Running => {
                            self.report(&status);
                            not_before(after, patience.pause(job.every()))
                        }
                        Meaning::Done => return self.done(handle, kept, status).await,
                        Meaning::Failed => {
                            let facts = self.facts(&kept.known, &handle.id, Some(&status.state));
                            let failed =
                                outcome::failed(outcome::reason(&job, &status.body, &status.state), &facts);
                            return self.over(kept, failed).await;
                        }
                    }
                }
                Seen::Gone(said) => match patience.lose(self.ledger.now(), job.gone_after) {
                    true => {
                        let text = format!(
                            "{} is gone: the API no longer knows the job {} ({said})",
                            job.name, handle.id
                        );
                        let facts = self.facts(&kept.known, &handle.id, None);
                        return self.over(kept, outcome::failed(text, &facts)).await;
                    }
                    false => job.every(),
                },
                Seen::Unusable(problem) => match patience.misread() {
                    true => {
                        let text = format!("{} cannot be followed: {problem}", job.name);
                        return Ok(outcome::failed(text, &self.facts(&kept.known, &handle.id, None)));
                    }
                    false => job.every(),
                },
                Seen::Trouble(said, after) => {
                    let wait = not_before(after, patience.back_off(job.every()));
                    self.say(&format!(
                        "the API does not answer: {said}; asking again in {}",
                        format_duration(whole(wait))
                    ));
                    wait
                }
            };
        }
    }

    /// Asks how the job stands.
    async fn look(&self, request: &BoundRequest) -> Followed<Seen> {
        Ok(match self.ask(request).await? {
            Ok(answer) if answer.status.is_success() => {
                match answer.json().and_then(|body| self.read(body)) {
                    Ok(status) => Seen::Status(status, answer.retry_after()),
                    Err(problem) => Seen::Unusable(problem),
                }
            }
            Ok(answer) => self.without(&answer),
            Err(trouble @ Trouble::TooLong(_)) => Seen::Unusable(trouble.to_string()),
            Err(trouble) => Seen::Trouble(trouble.to_string(), None),
        })
    }

    /// Before a long wait: says that nothing is done but to wait, once whoever goes on would know what is known here. What was
    /// noted before such a wait is kept true from then on.
    async fn lie_down(&self, mut kept: Kept, patience: &Patience, wait: Duration) -> Followed<Kept> {
        let (is_long, noted) = (wait >= LONG, &kept.known.patience);
        if noted != patience && (is_long || *noted != Patience::default()) {
            let known = Known { patience: patience.clone(), ..kept.known.clone() };
            match self.ledger.change(&self.key, &kept, known).await {
                Ok(Some(changed)) => kept = changed,
                Ok(None) => return Err(Stopped),
                Err(error) => {
                    self.store_failed(&error);
                    return Ok(kept);
                }
            }
        }
        if is_long {
            let wait = self.left(&kept.known).map_or(wait, |left| left.min(wait));
            self.asleep.send_replace(Some(Instant::now() + wait));
        }
        Ok(kept)
    }

    /// Waits for the time of the next look, or until the API calls back: here, or at another node.
    async fn next(&mut self, wait: Duration, known: &Known, patience: &mut Patience) -> Followed<Next> {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if known.token.is_none() {
                return Ok(self.wait(left, known).await?.map_or(Next::Look, Next::Over));
            }
            let woken = Arc::clone(&self.woken);
            let waited = tokio::select! {
                waited = self.wait(left.min(ELSEWHERE), known) => waited?,
                () = woken.notified() => None,
            };
            if let Some(over) = waited {
                return Ok(Next::Over(over));
            }
            match self.ledger.find(&self.key).await {
                Ok(kept) => {
                    if let Some(called) = kept.as_ref().and_then(|kept| kept.known.unheard(patience)) {
                        patience.call(called.nth);
                        let told = called.said.status.clone().and_then(|body| self.read(body).ok());
                        return Ok(told.map_or(Next::Look, Next::Told));
                    }
                }
                Err(error) => {
                    tracing::debug!(task = %self.key, %error, "whether a job's API has called is not known")
                }
            }
            if Instant::now() >= until {
                return Ok(Next::Look);
            }
        }
    }

    /// What an answer other than success means for a job that runs. Only what is about the job itself ends it: an API
    /// that is down, or does not know us for a while, comes back.
    fn without(&self, answer: &Answer) -> Seen {
        let said = said(answer);
        match answer.status {
            StatusCode::NOT_FOUND | StatusCode::GONE => Seen::Gone(said),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Seen::Trouble(said, answer.retry_after()),
            status if status.is_server_error() || is_passing(status) => {
                Seen::Trouble(said, answer.retry_after())
            }
            _ => Seen::Unusable(said),
        }
    }

    fn read(&self, body: Value) -> Result<Status, String> {
        match outcome::state(&self.job, &body) {
            Some(state) => Ok(Status { state, body }),
            None => Err(format!("its status has nothing at `{}`", self.job.status_at().state)),
        }
    }

    fn report(&self, status: &Status) {
        let at = self.job.status_at();
        let message = at.message.and_then(|pointer| text_at(&status.body, pointer));
        let message = message.map(|message| outcome::line(&message)).filter(|message| !message.is_empty());
        if let Some((value, total)) = outcome::progress(&status.body, &at) {
            self.reporter.progress(Progress::new(value, total, message.as_deref().map(Arc::from)));
        }
        self.say(&message.unwrap_or_else(|| outcome::line(&status.state)));
    }

    /// The job has ended well: what did it come to?
    async fn done(&mut self, handle: &Handle, kept: Kept, status: Status) -> Followed<Outcome> {
        let job = Arc::clone(&self.job);
        let facts = self.facts(&kept.known, &handle.id, Some(&status.state));
        let outcome = match job.result_request(&handle.id) {
            Ok(None) => at_result(&job, &status.body, &facts),
            Ok(Some(request)) => match self.fetch(&request, &kept.known).await? {
                Ok(value) => at_result(&job, &value, &facts),
                Err(Failed::Over(outcome)) => return Ok(outcome),
                Err(Failed::Unusable(problem)) => outcome::failed(
                    format!("{} is done, and its result cannot be read: {problem}", job.name),
                    &facts,
                ),
            },
            Err(error) => outcome::failed(format!("{} is done, and {error}", job.name), &facts),
        };
        self.over(kept, outcome).await
    }

    /// Fetches a result, for as long as that takes.
    async fn fetch(&mut self, request: &BoundRequest, known: &Known) -> Followed<Result<Value, Failed>> {
        let mut patience = Patience::default();
        loop {
            let wait = match self.ask(request).await? {
                Ok(answer) if answer.status.is_success() => {
                    return Ok(value_of(&answer, self.job.output).map_err(Failed::Unusable));
                }
                Err(trouble @ Trouble::TooLong(_)) => return Ok(Err(Failed::Unusable(trouble.to_string()))),
                Err(trouble) => {
                    let wait = patience.back_off(self.job.every());
                    self.say(&format!("done; its result does not come yet: {trouble}"));
                    wait
                }
                Ok(answer) => match self.without(&answer) {
                    Seen::Trouble(said, after) => {
                        self.say(&format!("done; its result does not come yet: {said}"));
                        not_before(after, patience.back_off(self.job.every()))
                    }
                    // It may come a moment after the state says so.
                    _ if !patience.lose(self.ledger.now(), self.job.gone_after) => self.job.every(),
                    _ => return Ok(Err(Failed::Unusable(said(&answer)))),
                },
            };
            if let Some(over) = self.wait(wait, known).await? {
                return Ok(Err(Failed::Over(over)));
            }
        }
    }

    /// Notes that there is nothing more to cancel.
    async fn over(&self, kept: Kept, outcome: Outcome) -> Followed<Outcome> {
        let known = Known { over: true, ..kept.known.clone() };
        self.record(&kept, known).await?;
        Ok(outcome)
    }
}

/// What comes next for a job that runs.
enum Next {
    /// Its time is up.
    Over(Outcome),
    /// The API has said how it stands.
    Told(Status),
    /// The API is to be asked.
    Look,
}

/// What was seen of a job that runs.
enum Seen {
    Status(Status, Option<Duration>),
    /// The API does not know it.
    Gone(String),
    /// What the API says of it cannot be read.
    Unusable(String),
    /// The API says nothing of it.
    Trouble(String, Option<Duration>),
}

struct Status {
    state: String,
    body: Value,
}

/// Why there is no result.
enum Failed {
    /// The call has ended meanwhile.
    Over(Outcome),
    Unusable(String),
}

fn at_result(job: &HttpJob, value: &Value, facts: &Facts<'_>) -> Outcome {
    let at = job.result_at();
    match value.pointer(at) {
        Some(value) => outcome::done(job, value, facts),
        None => outcome::failed(format!("{} is done, and its result has nothing at `{at}`", job.name), facts),
    }
}

/// The body of a result: JSON; or else text, where that is as good.
fn value_of(answer: &Answer, output: Output) -> Result<Value, String> {
    match (answer.json(), output) {
        (Err(_), Output::Text) => Ok(Value::String(String::from_utf8_lossy(&answer.body).into_owned())),
        (value, _) => value,
    }
}

/// A wait that is worth the writes by which a task is put aside and taken up again: it takes longer than a lease is left alone.
const LONG: Duration = Duration::from_secs(10);
/// How often it is looked whether an API has called at another node.
const ELSEWHERE: Duration = Duration::from_secs(2);
