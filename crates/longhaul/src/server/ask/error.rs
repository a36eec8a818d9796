//! Why a question has no answer.

use std::time::Duration;

use longhaul_proto::jsonrpc::ErrorObject;

/// Why a question has no answer. That the user said no is an answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The client answered with an error.
    #[error("the client refused to answer")]
    Refused(#[source] ErrorObject),
    /// The client answered with something else than what was asked for. In the modern era it is asked again instead.
    #[error("the client's answer does not fit the question: {what}")]
    #[non_exhaustive]
    Invalid {
        /// What is wrong with it.
        what: String,
    },
    /// No answer came in time.
    #[error("no answer came within {} s", after.as_secs_f64())]
    #[non_exhaustive]
    TimedOut {
        /// How long it was waited for.
        after: Duration,
    },
    /// As many questions are open in the session as may be.
    #[error("{limit} questions to this client are open, the limit: wait for one to end")]
    #[non_exhaustive]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The client cannot be reached any more.
    #[error("the client cannot be reached any more")]
    Gone,
    /// The type asked for cannot be filled in by a form.
    #[error("no form can ask for this type: {what}")]
    #[non_exhaustive]
    NoForm {
        /// Which part of it, and why.
        what: String,
    },
    /// No client may be asked to open the page.
    #[error("nobody is sent to this page: {what}")]
    #[non_exhaustive]
    NoPage {
        /// What is wrong with its address.
        what: &'static str,
    },
}
