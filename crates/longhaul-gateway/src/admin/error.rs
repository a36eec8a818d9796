//! Why a question about tasks has no answer, or nothing was done.

use std::time::Duration;

use http::StatusCode;
use longhaul::proto::jsonrpc::ErrorObject;
use longhaul::store::StoreError;

use crate::tool::StreamError;

/// Why a question about tasks has no answer, or nothing was done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// There is none for whoever asks: unknown, forgotten and somebody else's are one answer.
    #[error("there is no such task")]
    NoTask,
    /// There is no such tool.
    #[error("there is no such tool")]
    NoTool,
    /// What was asked for cannot be understood.
    #[error("{0}")]
    Unreadable(String),
    /// It cannot be done as things stand.
    #[error("{0}")]
    Refused(String),
    /// Too much is asked about tasks, by this caller or by all, or too much of what is not there.
    #[error("{}", .0.message)]
    TooOften(ErrorObject),
    /// The store cannot be read or written.
    #[error("the store of tasks could not be used; try again")]
    Store(#[source] StoreError),
    /// What a command has written cannot be read.
    #[error("the output cannot be read; the log of the server says why")]
    Output(#[source] StreamError),
}

impl AdminError {
    /// As a status of HTTP.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::NoTask | Self::NoTool => StatusCode::NOT_FOUND,
            Self::Unreadable(_) => StatusCode::BAD_REQUEST,
            Self::Refused(_) => StatusCode::CONFLICT,
            Self::TooOften(_) | Self::Store(StoreError::Overloaded { .. }) => StatusCode::TOO_MANY_REQUESTS,
            Self::Store(StoreError::TooLarge { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Store(_) | Self::Output(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
    /// When to ask again what was asked too often.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::TooOften(error) => error.retry_after(),
            _ => None,
        }
    }
}

impl From<StoreError> for AdminError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::InvalidCursor => Self::Unreadable(
                "`after` is no place in this list: it is the `next` of the page before, or is left out"
                    .to_owned(),
            ),
            error => Self::Store(error),
        }
    }
}

impl From<StreamError> for AdminError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Store(error) => error.into(),
            error => Self::Output(error),
        }
    }
}
