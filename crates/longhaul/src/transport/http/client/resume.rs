//! Going on with a stream of a legacy session that broke: from where it was, after as long as its server wants.

use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::dialect::Dialect;
use longhaul_proto::http::Event;
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, HeaderName, HeaderValue};

use super::access;
use super::post::refused;
use super::read::{Events, Kind, failure, kind, whole};
use super::{PROTOCOL_VERSION, SESSION_ID, Shared};
use crate::client::error::Error;
use crate::client::table::Waiting;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// How far a stream was heard, and how long its server wants to be left alone before it is asked for the rest.
#[derive(Debug, Default)]
pub(super) struct Position {
    last_event: Option<HeaderValue>,
    retry: Option<Duration>,
    /// How often in a row nothing came of it.
    failures: u32,
}

impl Position {
    pub(super) fn note(&mut self, event: &Event) {
        let before = self.last_event.take();
        self.last_event = match event.id.as_deref().filter(|id| !id.is_empty()) {
            // What can be no header names nothing that could be asked for.
            Some(id) => HeaderValue::from_str(id).ok(),
            None => before.clone(),
        };
        // That a stream begins where it ended before is nothing new.
        if !event.data.is_empty() || self.last_event != before {
            self.failures = 0;
        }
        if let Some(retry) = event.retry_ms {
            self.retry = Some(Duration::from_millis(retry).min(LONGEST_RETRY));
        }
    }

    /// One more attempt came to nothing; whether another may be made.
    pub(super) fn fail(&mut self) -> bool {
        self.failures += 1;
        self.failures < MAX_FAILURES
    }

    /// How long to wait before the next attempt.
    pub(super) fn pause(&self) -> Duration {
        let pause = PAUSE * 2u32.saturating_pow(self.failures);
        self.retry.map_or(pause, |retry| if self.failures == 0 { retry } else { retry.max(pause) })
    }
}

/// How often in a row a stream may fail before it is given up.
const MAX_FAILURES: u32 = 6;

/// How long to wait before a stream is opened again, at first and where its server does not say.
const PAUSE: Duration = Duration::from_millis(500);

/// A server that wants to be left alone for a year is asked nevertheless.
const LONGEST_RETRY: Duration = Duration::from_secs(3600);

/// What came of opening a stream.
pub(super) enum Opened {
    Stream(Events),
    /// It may be there later.
    Failed(Error),
    /// It will not.
    Refused(Error),
}

/// Opens a stream of the session, behind `position` if anything was heard.
pub(super) async fn open(shared: &Shared, dialect: &'static Dialect, position: &Position) -> Opened {
    let session = shared.session();
    let request = || {
        let mut request = shared.http.get(shared.url.clone()).header(ACCEPT, "text/event-stream");
        if let Some(session) = &session {
            request = request.header(SESSION_ID, &session.id);
        }
        if let Some(last_event) = &position.last_event {
            request = request.header(LAST_EVENT_ID, last_event);
        }
        request.header(PROTOCOL_VERSION, dialect.revision().as_str())
    };
    let mut response = match access::send(shared, "GET", request).await {
        Ok(response) => response,
        Err(error @ (Error::SignIn { .. } | Error::NoAccess { .. })) => return Opened::Refused(error),
        Err(error) => return Opened::Failed(error),
    };
    let limits = &shared.table.options().limits;
    if response.status().is_success() && matches!(kind(&response), Kind::Events) {
        return Opened::Stream(Events::new(response, limits));
    }
    if let Some(error) = refused(shared, &response, session.as_ref()) {
        return Opened::Refused(error);
    }
    let is_passing =
        response.status().is_server_error() || response.status() == StatusCode::TOO_MANY_REQUESTS;
    match whole(&mut response, limits.max_bytes).await {
        Ok(body) if is_passing => Opened::Failed(failure(shared, &response, &body)),
        Ok(body) => Opened::Refused(failure(shared, &response, &body)),
        Err(error) => Opened::Failed(error),
    }
}

/// The rest of the stream of a request that ended for `why` before its answer came.
///
/// # Errors
///
/// `why`, where the stream cannot be gone on with; else why its server gives no more of it. Where it is not there any more, the answer
/// is lost: the request has left.
pub(super) async fn resume(
    shared: &Arc<Shared>,
    waiting: &Waiting,
    dialect: &'static Dialect,
    position: &mut Position,
    why: Error,
) -> Result<Events, Error> {
    if !dialect.resumes_streams() || position.last_event.is_none() {
        return Err(why);
    }
    tracing::debug!(error = %why, "a stream broke, and is gone on with");
    loop {
        waiting.within(tokio::time::sleep(position.pause())).await?;
        let error = match waiting.within(open(shared, dialect, position)).await? {
            Opened::Stream(events) => {
                // Unless something comes of it, it counts as an attempt that did not succeed.
                if position.fail() {
                    return Ok(events);
                }
                return Err(why);
            }
            // What was asked may have been done: whoever asked must take it neither for refused nor for unsent.
            Opened::Refused(error @ Error::SessionLost { .. }) => return Err(Error::lost(error)),
            Opened::Refused(error) => return Err(error),
            Opened::Failed(error) => error,
        };
        if !position.fail() {
            return Err(Error::lost(error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_when_to_come_back() {
        let event = |id: &str, retry_ms| {
            let mut event = Event::default();
            (event.id, event.retry_ms) = (Some(id.to_owned()), retry_ms);
            event
        };
        let mut position = Position::default();
        assert_eq!(position.pause(), PAUSE);
        position.note(&event("7", Some(40)));
        assert_eq!(
            (position.pause(), position.last_event.as_ref().unwrap().as_bytes()),
            (Duration::from_millis(40), &b"7"[..])
        );
        position.note(&event("8", None));
        assert!(position.fail());
        assert_eq!(position.pause(), PAUSE * 2, "what fails is asked less and less often");
        position.note(&event("9", Some(u64::MAX)));
        assert_eq!(position.pause(), LONGEST_RETRY);
        assert!((1..MAX_FAILURES).all(|_| position.fail()));
        assert!(!position.fail());
    }

    #[test]
    fn a_stream_that_only_says_where_it_ended_has_come_to_nothing() {
        let mut position = Position::default();
        let mut event = Event::default();
        event.id = Some("7".to_owned());
        position.note(&event);
        for _ in 1..MAX_FAILURES {
            assert!(position.fail());
            position.note(&event);
        }
        assert!(!position.fail());
        event.data = "{}".to_owned();
        position.note(&event);
        assert!(position.fail(), "this is something");
    }
}
