//! Who is at one job: it has the job started and followed, waits for it, and records what is learnt of it.

use std::sync::Arc;
use std::time::Duration;

use longhaul::store::{Outcome, StoreError, TaskId};
use longhaul::tasks::report::Reporter;
use reqwest::StatusCode;
use reqwest::header::HeaderValue;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use super::client::{Answer, Http, Trouble};
use super::ledger::{Kept, Known, Ledger};
use super::outcome::{self, Facts};
use super::patience::{FIRST_LOOK, FIRST_PAUSE, LONGEST_PAUSE};
use super::start::{Begun, Start, in_doubt};
use crate::config::{BoundRequest, HttpJob, format_duration};

/// Who is at one job.
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

/// Nobody wants to know any more.
pub(super) struct Stopped;

pub(super) type Followed<T> = Result<T, Stopped>;

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

    pub(super) fn facts<'f>(&self, known: &Known, job_id: &'f str, state: Option<&'f str>) -> Facts<'f> {
        let age = self.ledger.age(known).as_millis();
        Facts { job_id, state, duration_ms: u64::try_from(age).unwrap_or(u64::MAX) }
    }

    /// Waits; the outcome of a job whose time is up by then, or is up meanwhile.
    pub(super) async fn wait(&mut self, wait: Duration, known: &Known) -> Followed<Option<Outcome>> {
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
    pub(super) fn left(&self, known: &Known) -> Option<Duration> {
        self.job.timeout.map(|timeout| timeout.saturating_sub(self.ledger.age(known)))
    }

    pub(super) async fn send(&self, request: &BoundRequest, starts: bool) -> Result<Answer, Trouble> {
        let key = HeaderValue::from_str(self.key.as_str()).ok().filter(|_| starts && self.job.idempotent);
        let more = key.map(|key| (&self.job.key_header, key));
        self.http.send(request, more, self.job.request_timeout, self.job.max_answer).await
    }

    /// Asks, unless nobody wants to know any more.
    pub(super) async fn ask(&self, request: &BoundRequest) -> Followed<Result<Answer, Trouble>> {
        let mut stop = self.stop.clone();
        tokio::select! {
            answer = self.send(request, false) => Ok(answer),
            () = stopped(&mut stop) => Err(Stopped),
        }
    }

    /// Records what is known, for as long as that takes: what is not recorded would be lost with this process.
    pub(super) async fn record(&self, kept: &Kept, known: Known) -> Followed<Kept> {
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
    pub(super) async fn forget(&self, kept: &Kept) {
        if let Err(error) = self.ledger.forget(&self.key, kept).await {
            self.store_failed(&error);
        }
    }

    pub(super) fn store_failed(&self, error: &StoreError) {
        tracing::warn!(task = %self.key, %error, "what is known of a job cannot be recorded yet");
    }

    pub(super) fn say(&self, text: &str) {
        self.reporter.status(outcome::line(text));
    }
}

/// Completes once nobody is to follow the job any more.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone has nobody behind it.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// What an answer other than success says, in words.
pub(super) fn said(answer: &Answer) -> String {
    let said = format!("the API answered {}", answer.status);
    match &answer.redirects {
        Some(elsewhere) => format!("{said}: {elsewhere}"),
        None => said,
    }
}

/// What another try may well mend.
pub(super) fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 425 | 429 | 502 | 503 | 504)
}

/// How long to wait: as the API asks, but never less than we would by ourselves.
pub(super) fn not_before(after: Option<Duration>, pause: Duration) -> Duration {
    after.unwrap_or_default().max(pause)
}

/// Whole seconds are what people read; less than one stays as it is.
pub(super) fn whole(wait: Duration) -> Duration {
    if wait >= Duration::from_secs(1) { Duration::from_secs(wait.as_secs()) } else { wait }
}

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
}
