//! The start of one job: sent once, or under a key, and what the API calls the job is recorded.

use longhaul::store::Outcome;
use reqwest::StatusCode;
use serde_json::Value;
use tokio::time::Instant;

use super::client::{Answer, Trouble};
use super::follower::{Followed, Follower, is_passing, not_before, said, whole};
use super::ledger::{Handle, Kept, Known};
use super::outcome::{self, Facts};
use super::patience::{FIRST_PAUSE, LONGEST_PAUSE};
use crate::config::{BoundRequest, Place, format_duration};

/// The start of a job.
pub(super) struct Start {
    pub(super) request: BoundRequest,
    /// An earlier process may have sent it: so the job may run, whatever comes of this.
    pub(super) may_run: bool,
}

/// What came of a start.
pub(super) enum Begun {
    Job(Handle, Box<Kept>),
    Ended(Outcome),
}

impl Follower {
    /// Starts the job, for as long as that is tried.
    pub(super) async fn start(&mut self, start: Start, kept: Kept) -> Followed<Begun> {
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

    /// What the API calls the job, as its answer to the start says.
    fn handle(&self, answer: &Answer) -> Result<Handle, String> {
        let body = answer.json();
        let at = |pointer: &str, longest| -> Result<String, String> {
            name_at(body.as_ref().map_err(Clone::clone)?, pointer, longest)
        };
        let id = self.job.id_at().map(|pointer| at(pointer, MAX_ID)).transpose()?.unwrap_or_default();
        let status_url = match self.job.status_url_at() {
            None => None,
            Some(Place::Pointer(pointer)) => Some(at(pointer, MAX_URL)?),
            Some(Place::Header(name)) => {
                let value = answer.headers.get(name).and_then(|value| value.to_str().ok());
                let value = value.ok_or_else(|| format!("the answer to its start has no header `{name}`"))?;
                if value.len() > MAX_URL {
                    return Err(format!("the header `{name}` of the answer to its start is too long"));
                }
                Some(value.to_owned())
            }
        };
        self.job.status_request(&id, status_url.as_deref()).map_err(|error| error.to_string())?;
        Ok(Handle { id, status_url })
    }
}

/// What an answer calls something: a text, or the digits of a whole number. What else stands there was mistaken for a name by
/// whoever wrote the pointer, and no URL made of it would be the job's.
fn name_at(body: &Value, pointer: &str, longest: usize) -> Result<String, String> {
    let wrong = |what: &str| Err(format!("the answer to its start has {what} at `{pointer}`"));
    let name = match body.pointer(pointer) {
        None | Some(Value::Null) => return wrong("nothing"),
        Some(Value::String(text)) if text.is_empty() => return wrong("an empty text"),
        Some(Value::String(text)) => text.clone(),
        // Of a number that takes more bits not all digits are known.
        Some(Value::Number(number)) if number.is_f64() => {
            return wrong("a number that is no whole one of 64 bits");
        }
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Bool(_)) => return wrong("neither a text nor a number (but true or false)"),
        Some(Value::Array(_)) => return wrong("neither a text nor a number (but a list)"),
        Some(Value::Object(_)) => return wrong("neither a text nor a number (but an object)"),
    };
    if name.len() > longest {
        return wrong(&format!("{} bytes, more than {longest},", name.len()));
    }
    Ok(name)
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

/// A start of which nobody knows what came of it, and that must not be sent again.
pub(super) fn in_doubt(why: &str) -> Outcome {
    Outcome::lost(format!("it may have been started, and must not be started twice: {why}"))
}

/// Whether a start may have been taken although it was answered so: by an API that stumbled over it, or a proxy that
/// waited in vain for what is behind it.
fn may_hide_a_start(status: StatusCode) -> bool {
    status == StatusCode::REQUEST_TIMEOUT
        || (status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE)
}

const MAX_ID: usize = 1 << 10;
const MAX_URL: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_is_called_by_a_text_or_a_number_and_by_nothing_else() {
        let name = |id: Value| name_at(&json!({ "id": id }), "/id", 8);
        for (id, known_as) in
            [(json!("job-1"), "job-1"), (json!(7), "7"), (json!(-7), "-7"), (json!("12345678"), "12345678")]
        {
            assert_eq!(name(id).as_deref(), Ok(known_as));
        }
        for (id, what) in [
            (json!({ "uuid": "7" }), "an object"),
            (json!(["7"]), "a list"),
            (json!(true), "true or false"),
            (json!(null), "nothing"),
            (json!(""), "an empty text"),
            (json!(7.5), "no whole one"),
            (serde_json::from_str("123456789012345678901").unwrap(), "no whole one"),
            (json!("123456789"), "9 bytes, more than 8"),
        ] {
            let refused = name(id).unwrap_err();
            assert!(refused.contains(what) && refused.contains("`/id`"), "{refused}");
        }
        assert!(name_at(&json!([]), "/id", 8).unwrap_err().contains("nothing at `/id`"));
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
