//! One job from its start to its end: started once, asked after, and whatever happens told as a line for people.

use std::sync::Arc;
use std::time::Duration;

use longhaul::store::{Outcome, Progress, StoreError, TaskId};
use longhaul::tasks::report::Reporter;
use reqwest::StatusCode;
use reqwest::header::HeaderValue;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use super::client::{Answer, Http, Trouble};
use super::ledger::{Handle, Kept, Known, Ledger};
use super::outcome::{self, Facts, text_at};
use super::patience::{FIRST_LOOK, FIRST_PAUSE, LONGEST_PAUSE, Patience};
use crate::config::{BoundRequest, HttpJob, Meaning, Place, format_duration};

/// Follows one job.
pub(super) struct Follower {
    pub(super) job: Arc<HttpJob>,
    pub(super) http: Http,
    pub(super) ledger: Ledger,
    pub(super) key: TaskId,
    pub(super) reporter: Reporter,
    /// Nobody is to follow it any more.
    pub(super) stop: watch::Receiver<bool>,
    /// The API may have called back.
    pub(super) woken: Arc<Notify>,
    /// Until when nothing is done but to wait, if it is worth to put the task aside meanwhile.
    pub(super) asleep: watch::Sender<Option<Instant>>,
}

/// The start of a job.
pub(super) struct Start {
    pub(super) request: BoundRequest,
    /// An earlier process may have sent it: so the job may run, whatever comes of this.
    pub(super) may_run: bool,
}

/// Nobody wants to know any more.
pub(super) struct Stopped;

type Followed<T> = Result<T, Stopped>;

/// What came of a start.
enum Begun {
    Job(Handle, Box<Kept>),
    Ended(Outcome),
}

impl Follower {
    /// Starts the job, unless that is done, and follows it to its end.
    pub(super) async fn run(mut self, start: Option<Start>, kept: Kept) -> Followed<Outcome> {
        let (handle, kept, wait) = match (kept.known.job.clone(), start) {
            // Its look may be due for long.
            (Some(handle), _) => (handle, kept, Duration::ZERO),
            (None, Some(start)) => match self.start(start, kept).await? {
                Begun::Job(handle, kept) => (handle, *kept, self.job.every().min(FIRST_LOOK)),
                Begun::Ended(outcome) => return Ok(outcome),
            },
            (None, None) => return Ok(in_doubt("nothing is known of its start")),
        };
        self.follow(&handle, kept, wait).await
    }

    async fn start(&mut self, start: Start, kept: Kept) -> Followed<Begun> {
        let give_up = Instant::now() + self.job.start_within;
        let Start { request, mut may_run } = start;
        let mut pause = FIRST_PAUSE;
        loop {
            // A start that is under way is waited for, whoever stops: only its answer says what to cancel.
            let answered = self.send(&request, true).await;
            let (trouble, wait) = match answered {
                Ok(answer) if answer.status.is_success() => return self.started(&answer, kept).await,
                Ok(answer) => match self.refused(&answer) {
                    Refused::Ended(outcome) => {
                        self.forget(&kept).await;
                        return Ok(Begun::Ended(outcome));
                    }
                    Refused::InDoubt => return Ok(Begun::Ended(in_doubt(&said(&answer)))),
                    Refused::Passing => {
                        may_run |= may_hide_a_start(answer.status);
                        (said(&answer), answer.retry_after())
                    }
                },
                Err(Trouble::TooLong(_)) if !self.job.idempotent => {
                    return Ok(Begun::Ended(in_doubt("the answer to its start is too long")));
                }
                Err(error @ Trouble::TooLong(_)) => {
                    let text = format!("{} cannot be followed: {error}", self.job.name);
                    return Ok(Begun::Ended(Outcome::lost(text)));
                }
                Err(Trouble::Unsent(text)) => (text, None),
                Err(Trouble::Unanswered(text)) if self.job.idempotent => {
                    may_run = true;
                    (text, None)
                }
                Err(Trouble::Unanswered(text)) => return Ok(Begun::Ended(in_doubt(&text))),
            };
            if Instant::now() >= give_up {
                let within = format_duration(self.job.start_within);
                let text = format!("{} could not be started within {within}: {trouble}", self.job.name);
                if may_run {
                    return Ok(Begun::Ended(Outcome::lost(text)));
                }
                self.forget(&kept).await;
                return Ok(Begun::Ended(outcome::failed(text, &self.facts(&kept.known, "", None))));
            }
            let wait = not_before(wait, pause);
            self.say(&format!(
                "waiting to be started: {trouble}; trying again in {}",
                format_duration(whole(wait))
            ));
            let waited = self.wait(wait.min(give_up.duration_since(Instant::now())), &kept.known).await;
            if !may_run && !matches!(waited, Ok(None)) {
                // Nothing has been started, and nothing will be.
                self.forget(&kept).await;
            }
            if let Some(over) = waited? {
                return Ok(Begun::Ended(over));
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// What an answer other than success means for a start.
    fn refused(&self, answer: &Answer) -> Refused {
        match Verdict::of(answer.status, self.job.idempotent) {
            Verdict::Passing => return Refused::Passing,
            Verdict::InDoubt => return Refused::InDoubt,
            Verdict::Refused => {}
        }
        let mut text = format!("{} was not started: {}", self.job.name, said(answer));
        let excerpt = answer.excerpt();
        if !excerpt.is_empty() {
            text.push_str(&format!("\n{excerpt}"));
        }
        Refused::Ended(outcome::failed(text, &Facts { job_id: "", state: None, duration_ms: 0 }))
    }

    /// Records what the API calls the job.
    async fn started(&self, answer: &Answer, kept: Kept) -> Followed<Begun> {
        let handle = match self.handle(answer) {
            Ok(handle) => handle,
            Err(problem) => {
                let text = format!("{} was started and cannot be followed: {problem}", self.job.name);
                return Ok(Begun::Ended(Outcome::lost(text)));
            }
        };
        let known = Known { job: Some(handle.clone()), ..kept.known.clone() };
        let kept = self.record(&kept, known).await?;
        // Whoever else had sent the start may have recorded it first.
        Ok(Begun::Job(kept.known.job.clone().unwrap_or(handle), Box::new(kept)))
    }

    fn handle(&self, answer: &Answer) -> Result<Handle, String> {
        let body = answer.json();
        let at = |pointer: &str| -> Result<String, String> {
            let text = text_at(body.as_ref().map_err(Clone::clone)?, pointer);
            text.ok_or_else(|| format!("the answer to its start has nothing at `{pointer}`"))
        };
        let id = self.job.id_at().map(at).transpose()?.unwrap_or_default();
        let status_url = match self.job.status_url_at() {
            None => None,
            Some(Place::Pointer(pointer)) => Some(at(pointer)?),
            Some(Place::Header(name)) => {
                let value = answer.headers.get(name).and_then(|value| value.to_str().ok());
                Some(
                    value
                        .ok_or_else(|| format!("the answer to its start has no header `{name}`"))?
                        .to_owned(),
                )
            }
        };
        if id.len() > MAX_ID || status_url.as_ref().is_some_and(|url| url.len() > MAX_URL) {
            return Err("what the API calls it is too long".to_owned());
        }
        self.job.status_request(&id, status_url.as_deref()).map_err(|error| error.to_string())?;
        Ok(Handle { id, status_url })
    }

    /// Asks after the job until it has ended, first after `wait`.
    async fn follow(&mut self, handle: &Handle, mut kept: Kept, mut wait: Duration) -> Followed<Outcome> {
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
        let may_call = known.token.is_some() && !patience.has_called();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if !may_call {
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
                Ok(Some(Kept { known: Known { called: Some(called), .. }, .. })) => {
                    patience.call();
                    let told = called.status.and_then(|body| self.read(body).ok());
                    return Ok(told.map_or(Next::Look, Next::Told));
                }
                Ok(_) => {}
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
        let at = self.job.status_at().state;
        match text_at(&body, at) {
            Some(state) => Ok(Status { state, body }),
            None => Err(format!("its status has nothing at `{at}`")),
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
                Ok(answer) if answer.status.is_success() => return Ok(Ok(value_of(&answer))),
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

    fn facts<'f>(&self, known: &Known, job_id: &'f str, state: Option<&'f str>) -> Facts<'f> {
        let age = self.ledger.age(known).as_millis();
        Facts { job_id, state, duration_ms: u64::try_from(age).unwrap_or(u64::MAX) }
    }

    /// Waits; the outcome of a job whose time is up by then, or is up meanwhile.
    async fn wait(&mut self, wait: Duration, known: &Known) -> Followed<Option<Outcome>> {
        let until_then = self.left(known).map_or(wait, |left| wait.min(left));
        tokio::select! {
            () = sleep(until_then) => {}
            () = stopped(&mut self.stop) => return Err(Stopped),
        }
        match self.job.timeout.filter(|timeout| self.ledger.age(known) >= *timeout) {
            None => Ok(None),
            Some(timeout) => {
                let id = known.job.as_ref().map_or("", |handle| handle.id.as_str());
                let timeout = format_duration(timeout);
                let text =
                    format!("{} ran longer than its timeout of {timeout} and is cancelled", self.job.name);
                Ok(Some(outcome::failed(text, &self.facts(known, id, None))))
            }
        }
    }

    /// How long it may run on, where it may not as long as it takes.
    fn left(&self, known: &Known) -> Option<Duration> {
        self.job.timeout.map(|timeout| timeout.saturating_sub(self.ledger.age(known)))
    }

    async fn send(&self, request: &BoundRequest, starts: bool) -> Result<Answer, Trouble> {
        let key = HeaderValue::from_str(self.key.as_str()).ok().filter(|_| starts && self.job.idempotent);
        let more = key.map(|key| (&self.job.key_header, key));
        self.http.send(request, more, self.job.request_timeout, self.job.max_answer).await
    }

    /// Asks, unless nobody wants to know any more.
    async fn ask(&self, request: &BoundRequest) -> Followed<Result<Answer, Trouble>> {
        let mut stop = self.stop.clone();
        tokio::select! {
            answer = self.send(request, false) => Ok(answer),
            () = stopped(&mut stop) => Err(Stopped),
        }
    }

    /// Records what is known, for as long as that takes: what is not recorded would be lost with this process.
    async fn record(&self, kept: &Kept, known: Known) -> Followed<Kept> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.ledger.change(&self.key, kept, known.clone()).await {
                Ok(Some(kept)) => return Ok(kept),
                Ok(None) => return Err(Stopped),
                Err(error) => self.store_failed(&error),
            }
            // One that is stopped is recorded all the same: it is to be cancelled.
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Nothing has been started: whoever comes next may try again.
    async fn forget(&self, kept: &Kept) {
        if let Err(error) = self.ledger.forget(&self.key, kept).await {
            self.store_failed(&error);
        }
    }

    fn store_failed(&self, error: &StoreError) {
        tracing::warn!(task = %self.key, %error, "what is known of a job cannot be recorded yet");
    }

    fn say(&self, text: &str) {
        self.reporter.status(outcome::line(text));
    }
}

enum Refused {
    /// It was not started, and will not be.
    Ended(Outcome),
    /// It may have been.
    InDoubt,
    /// It was not, and may be soon.
    Passing,
}

/// What the status of a refusal says of a start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verdict {
    /// It was not started, and the same request will not be.
    Refused,
    /// It may have been started, and must not be asked for again.
    InDoubt,
    /// It may be asked for again.
    Passing,
}

impl Verdict {
    fn of(status: StatusCode, idempotent: bool) -> Self {
        let not_now = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        let may_pass = is_passing(status) || status.is_server_error();
        match idempotent {
            _ if not_now => Self::Passing,
            // An API that stumbled may have started it first: under the same key it says so.
            true if may_pass => Self::Passing,
            false if may_hide_a_start(status) => Self::InDoubt,
            _ => Self::Refused,
        }
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

/// Completes once nobody is to follow the job any more.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone has nobody behind it.
    let _ = stop.wait_for(|stop| *stop).await;
}

fn at_result(job: &HttpJob, value: &Value, facts: &Facts<'_>) -> Outcome {
    let at = job.result_at();
    match value.pointer(at) {
        Some(value) => outcome::done(job, value, facts),
        None => outcome::failed(format!("{} is done, and its result has nothing at `{at}`", job.name), facts),
    }
}

/// The body of a result: JSON, or else text.
fn value_of(answer: &Answer) -> Value {
    answer.json().unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&answer.body).into_owned()))
}

/// A start of which nobody knows what came of it, and that must not be sent again.
pub(super) fn in_doubt(why: &str) -> Outcome {
    Outcome::lost(format!("it may have been started, and must not be started twice: {why}"))
}

fn said(answer: &Answer) -> String {
    format!("the API answered {}", answer.status)
}

/// What another try may well mend.
fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 425 | 429 | 502 | 503 | 504)
}

/// Whether a start may have been taken although it was answered so: by an API that stumbled over it, or a proxy that
/// waited in vain for what is behind it.
fn may_hide_a_start(status: StatusCode) -> bool {
    status == StatusCode::REQUEST_TIMEOUT
        || (status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE)
}

/// How long to wait: as the API asks, but never less than we would by ourselves.
fn not_before(after: Option<Duration>, pause: Duration) -> Duration {
    after.unwrap_or_default().max(pause)
}

/// Whole seconds are what people read; less than one stays as it is.
fn whole(wait: Duration) -> Duration {
    if wait >= Duration::from_secs(1) { Duration::from_secs(wait.as_secs()) } else { wait }
}

/// A wait that is worth the writes by which a task is put aside and taken up again: it takes longer than a lease is left alone.
const LONG: Duration = Duration::from_secs(10);
/// How often it is looked whether an API has called at another node.
const ELSEWHERE: Duration = Duration::from_secs(2);
const MAX_ID: usize = 1 << 10;
const MAX_URL: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_that_asks_for_no_pause_gets_ours() {
        let pause = Duration::from_secs(2);
        assert_eq!(not_before(None, pause), pause);
        assert_eq!(not_before(Some(Duration::ZERO), pause), pause);
        assert_eq!(not_before(Some(pause * 3), pause), pause * 3);
    }

    fn status(code: u16) -> StatusCode {
        StatusCode::from_u16(code).unwrap()
    }

    #[test]
    fn who_stumbles_or_gives_up_waiting_may_hide_a_start() {
        assert!([408, 500, 502, 504].into_iter().all(|code| may_hide_a_start(status(code))));
        assert!(![400, 422, 425, 429, 503].into_iter().any(|code| may_hide_a_start(status(code))));
    }

    #[test]
    fn only_under_a_key_a_start_is_asked_for_again_that_may_have_begun() {
        for code in [408, 500, 502, 504, 507] {
            assert_eq!(Verdict::of(status(code), true), Verdict::Passing, "{code}");
            assert_eq!(Verdict::of(status(code), false), Verdict::InDoubt, "{code}");
        }
        for code in [429, 503] {
            assert_eq!(Verdict::of(status(code), false), Verdict::Passing, "{code}");
        }
        for code in [400, 401, 409, 422] {
            assert_eq!(Verdict::of(status(code), true), Verdict::Refused, "{code}");
        }
    }
}
