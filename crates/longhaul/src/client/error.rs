//! Why a request of ours failed, by what its caller can do about it.

use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::connection::PendingLimit;
use longhaul_proto::dialect::{Revision, Unsupported};
use longhaul_proto::jsonrpc::{Code, ErrorObject};
use longhaul_proto::model::CallToolResult;

use super::journal::JournalError;

/// A cause from below.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// Why a connection could not be made, or a request got no result.
///
/// A tool that fails is none of these: it answers with a result that says so.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The target cannot be one: a URL that is none, a scheme that is not `http` or `https`, or one for which this build lacks
    /// a feature, which is named then.
    #[error("{target:?} is no server to connect to: {reason}")]
    #[non_exhaustive]
    Target {
        /// What was given.
        target: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody is there: the connection was refused, the name is unknown, the program does not exist.
    #[error("cannot reach {target}")]
    #[non_exhaustive]
    Unreachable {
        /// Who was to be reached.
        target: String,
        /// What the system said.
        #[source]
        cause: Cause,
    },
    /// The connection ended before the answer came.
    #[error("the connection ended before the answer came")]
    #[non_exhaustive]
    Lost {
        /// What the system said, if it said anything.
        #[source]
        cause: Option<Cause>,
    },
    /// The server's process ended before the answer came.
    #[error("the server {program:?} ended ({status}){}", if last_words.is_empty() { "" } else { "; its last words:" })]
    #[non_exhaustive]
    Died {
        /// The program.
        program: String,
        /// How it ended.
        status: String,
        /// The last lines of its standard error, at most 4 KiB.
        last_words: String,
    },
    /// The server does not let anybody in who has not signed in (HTTP 401).
    #[error("{target} {}", if *with_token { "does not accept the token it was shown" } else { "asks for a sign-in" })]
    #[non_exhaustive]
    SignIn {
        /// Who asks.
        target: String,
        /// It was shown a token.
        with_token: bool,
    },
    /// No token is to be had that the server lets in, or none may be shown to it.
    #[error("{target} lets nobody in without a token, and none is to be had")]
    #[non_exhaustive]
    NoAccess {
        /// Who asks for one.
        target: String,
        /// Why there is none: with the feature `oauth`, a `client::auth::AuthError`.
        #[source]
        cause: Cause,
    },
    /// An HTTP status without a JSON-RPC answer.
    #[error("{target} answered HTTP {status}{}{body}", if body.is_empty() { "" } else { ": " })]
    #[non_exhaustive]
    Http {
        /// Who answered.
        target: String,
        /// The status.
        status: u16,
        /// The beginning of the body, at most 300 characters; or what was done instead of answering, and what helps, where the
        /// head says that: a redirect, which is not followed, or something that is no MCP.
        body: String,
        /// How long the server asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// The session is gone (HTTP 404), and so was the one that was opened in its place.
    #[error("the session with {target} is gone; connect again")]
    #[non_exhaustive]
    SessionLost {
        /// Whose session.
        target: String,
    },
    /// The peer says what the protocol does not allow.
    #[error("the server breaks the protocol: {what}")]
    #[non_exhaustive]
    Protocol {
        /// What it did.
        what: String,
    },
    /// There is no revision that both sides speak.
    #[error(transparent)]
    Incompatible(#[from] Unsupported),
    /// The negotiated revision, or this server, has no such thing.
    #[error("{what} is not offered by this server (revision {revision})")]
    #[non_exhaustive]
    NotOffered {
        /// What was wanted.
        what: &'static str,
        /// The negotiated revision.
        revision: Revision,
    },
    /// The server answered with an error.
    #[error(transparent)]
    Answer(ErrorObject),
    /// The tool says that it failed: a result, for whoever reads it as one ([`Client::call`](super::Client::call)).
    #[error("{tool} failed: {text}")]
    #[non_exhaustive]
    Failed {
        /// Which tool.
        tool: String,
        /// What it says.
        text: String,
    },
    /// The structure of a result is not what the schema of its tool says ([`Options::validate`](super::Options)).
    #[error("the result of {tool} does not fit its schema: {what}")]
    #[non_exhaustive]
    Unfit {
        /// Which tool.
        tool: String,
        /// What is wrong with it.
        what: String,
        /// The result as it came.
        result: Box<CallToolResult>,
    },
    /// No answer and no progress came in time.
    #[error("no answer within {}", spoken(*after))]
    #[non_exhaustive]
    TimedOut {
        /// How long was waited.
        after: Duration,
    },
    /// The arguments of a call are no JSON object.
    #[error("the arguments of a call must be a JSON object: {reason}")]
    #[non_exhaustive]
    Arguments {
        /// What they are instead.
        reason: String,
    },
    /// The server knows no such task, or not for us; it may have been forgotten.
    #[error("no such task: {id}")]
    #[non_exhaustive]
    NoSuchTask {
        /// The id asked for.
        id: String,
        /// What the server answered with.
        answer: Option<ErrorObject>,
    },
    /// The task was cancelled.
    #[error("task {id} was cancelled")]
    #[non_exhaustive]
    Cancelled {
        /// Which task.
        id: String,
    },
    /// The task has not ended yet.
    #[error("task {id} is still running")]
    #[non_exhaustive]
    StillRunning {
        /// Which task.
        id: String,
    },
    /// The server asks something that nobody here can answer.
    #[error("the server asks for an answer, and nobody here can give one")]
    #[non_exhaustive]
    InputRequired {
        /// The task that waits for it; it goes on waiting.
        task: Option<String>,
    },
    /// It waits for an answer and asks nothing that it has not been answered: it was cancelled, if it was a task.
    #[error("{} asks for an answer again and again, and nothing new ({times} times)", spoken_task(task.as_deref()))]
    #[non_exhaustive]
    Stuck {
        /// The task, if the call was one.
        task: Option<String>,
        /// How often in a row it was found so.
        times: u32,
    },
    /// A call was sent, and what became of it is not known: it may have been done. It was not made again, for its server does not
    /// make calls once, and its tool does not say that it may be called twice.
    #[error(
        "a call of {tool} was sent and its answer never came: see whether it was done, and call again if not"
    )]
    #[non_exhaustive]
    Unsettled {
        /// Which tool.
        tool: String,
    },
    /// What was to be noted first could not be: nothing was done.
    #[error("the journal keeps nothing")]
    Journal(#[from] JournalError),
    /// The store in which tasks are hosted for the server ([`Hosting`](super::Hosting)) cannot be used.
    #[error("the store of hosted tasks cannot be used")]
    #[non_exhaustive]
    Hosting {
        /// What the store said.
        #[source]
        cause: Cause,
    },
    /// Too many requests are open.
    #[error(transparent)]
    Pending(#[from] PendingLimit),
}

impl Error {
    /// Whether the same request may succeed later with nothing changed on our side.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } | Self::Pending(_) => true,
            Self::Http { status, .. } => matches!(status, 429 | 502 | 503 | 504),
            Self::Answer(_) => self.retry_after().is_some(),
            _ => false,
        }
    }

    /// Whether what was asked after is not there, or no longer: asking again is in vain.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::NoSuchTask { .. })
    }

    /// Whether the server does not let its caller do this: signing in, or another token, may help.
    pub fn is_denied(&self) -> bool {
        match self {
            Self::SignIn { .. } | Self::NoAccess { .. } => true,
            Self::Http { status, .. } => matches!(status, 401 | 403),
            Self::Answer(error) => error.code == Code::FORBIDDEN,
            _ => false,
        }
    }

    /// Whether the server has too much to do, or was asked too often: [`retry_after`](Self::retry_after) may say until when.
    pub fn is_throttled(&self) -> bool {
        match self {
            Self::Http { status, .. } => *status == 429,
            Self::Answer(error) => error.code == Code::OVERLOADED || error.retry_after().is_some(),
            _ => false,
        }
    }

    /// What the server answered with, its code and its data, if it answered with an error.
    pub fn answer(&self) -> Option<&ErrorObject> {
        match self {
            Self::Answer(error) | Self::NoSuchTask { answer: Some(error), .. } => Some(error),
            _ => None,
        }
    }

    /// Whether what was asked for may have been begun all the same.
    pub(crate) fn leaves_open(&self) -> bool {
        match self {
            Self::Lost { .. } | Self::Died { .. } | Self::TimedOut { .. } | Self::Protocol { .. } => true,
            Self::SessionLost { .. } | Self::Unsettled { .. } => true,
            // Who answers with something else than was asked for may have done it.
            Self::Http { status, .. } => *status >= 500 || *status < 300,
            Self::InputRequired { task } | Self::Stuck { task, .. } => task.is_some(),
            _ => false,
        }
    }

    /// Whether it ran out of time.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }

    /// How long the server asks to be left alone, if it does.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Http { retry_after, .. } => *retry_after,
            Self::Answer(error) => error.retry_after(),
            _ => None,
        }
    }

    pub(crate) fn lost(cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Lost { cause: Some(Arc::new(cause)) }
    }

    pub(crate) fn protocol(what: impl Into<String>) -> Self {
        Self::Protocol { what: what.into() }
    }
}

fn spoken_task(task: Option<&str>) -> String {
    task.map_or_else(|| "the call".to_owned(), |id| format!("task {id}"))
}

fn spoken(after: Duration) -> String {
    if after.subsec_millis() == 0 { format!("{} s", after.as_secs()) } else { format!("{after:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overload_says_when_to_come_back() {
        let busy =
            ErrorObject::new(Code::INTERNAL, "busy").with_data(&serde_json::json!({ "retryAfterMs": 250 }));
        let error = Error::Answer(busy);
        assert!(error.is_retryable());
        assert_eq!(error.retry_after(), Some(Duration::from_millis(250)));
        assert!(!Error::Answer(ErrorObject::internal("no")).is_retryable());
    }

    #[test]
    fn gone_denied_and_throttled_are_told_apart_and_keep_what_was_answered() {
        let told = |error: &Error| [error.is_gone(), error.is_denied(), error.is_throttled()];
        let http =
            |status| Error::Http { target: String::new(), status, body: String::new(), retry_after: None };
        let gone =
            ErrorObject::invalid_params("unknown").with_data(&serde_json::json!({ "reason": "expired" }));
        let gone = Error::NoSuchTask { id: "t".to_owned(), answer: Some(gone) };
        assert_eq!(told(&gone), [true, false, false]);
        let answer = gone.answer().unwrap();
        assert!(
            answer.code == Code::INVALID_PARAMS && answer.data.as_ref().unwrap().get().contains("expired")
        );
        let sign_in = Error::SignIn { target: String::new(), with_token: true };
        for denied in [sign_in, http(403), Error::Answer(ErrorObject::new(Code::FORBIDDEN, "scope"))] {
            assert_eq!(told(&denied), [false, true, false], "{denied:?}");
        }
        let busy = ErrorObject::internal("busy").with_data(&serde_json::json!({ "retryAfterMs": 250 }));
        for throttled in [http(429), Error::Answer(busy)] {
            assert_eq!(told(&throttled), [false, false, true], "{throttled:?}");
        }
        assert_eq!(told(&http(503)), [false; 3]);
    }
}
