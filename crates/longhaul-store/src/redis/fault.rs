//! What goes wrong within an operation, and what becomes of that.

use std::{fmt, sync::Arc};

use ::redis::{ErrorKind, RedisError, ServerErrorKind};

use super::address::Place;
use crate::{
    StoreError,
    error::{corrupt, said},
    networked,
};

/// Why an attempt at an operation did not come to its end.
#[derive(Debug)]
pub(super) enum Fault {
    /// The contract refuses it.
    Refused(StoreError),
    /// The server said so, or cannot be reached; nothing has been written.
    Redis { doing: &'static str, error: RedisError },
    /// The connection was lost after a write had been sent: whether it happened is not known.
    InDoubt(RedisError),
    /// Something was changed by others between the reads and the write: it is tried again.
    Changed,
}

impl Fault {
    /// Whether nothing has happened, and another attempt may come to its end.
    pub(super) fn is_worth_another_try(&self) -> bool {
        match self {
            Self::Redis { error, .. } => is_lost(error),
            Self::Changed => true,
            Self::Refused(_) | Self::InDoubt(_) => false,
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl networked::fault::Fault for Fault {
    fn refusal(self) -> Result<StoreError, Self> {
        match self {
            Self::Refused(error) => Ok(error),
            fault => Err(fault),
        }
    }
}

/// The connection, or the server behind it, is gone, or is no longer the one to write to.
pub(super) fn is_lost(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Io => true,
        ErrorKind::Server(kind) => matches!(
            kind,
            ServerErrorKind::BusyLoading
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ReadOnly
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::TryAgain
        ),
        _ => code(error) == Some("NOREPLICAS"),
    }
}

fn code(error: &RedisError) -> Option<&str> {
    error.code()
}

impl Place {
    /// What the caller is told.
    pub(super) fn error(&self, fault: Fault) -> StoreError {
        match fault {
            Fault::Refused(error) => error,
            Fault::Redis { doing, error } => self.reported(doing, error),
            Fault::InDoubt(error) => self.unreachable(error),
            Fault::Changed => self.busy("others that write the same", "it was tried too often"),
        }
    }

    pub(super) fn unreachable(&self, error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
        StoreError::Unreachable { place: self.to_string(), source: Arc::new(error) }
    }

    fn busy(&self, by: impl fmt::Display, why: &'static str) -> StoreError {
        StoreError::Busy { by: by.to_string(), source: said(why) }
    }

    fn reported(&self, doing: &'static str, error: RedisError) -> StoreError {
        if is_lost(&error) {
            return self.unreachable(error);
        }
        let place = || self.to_string().into();
        match code(&error) {
            // Its memory, or the disk that its log is on.
            Some("OOM" | "MISCONF") => StoreError::Full { place: place(), source: Arc::new(error) },
            Some("NOPERM") => StoreError::ReadOnly { place: place(), source: Arc::new(error) },
            Some("BUSY") => StoreError::Busy { by: format!("a script on {self}"), source: Arc::new(error) },
            Some("MOVED" | "CROSSSLOT") => {
                let why =
                    format!("another node of this cluster has the store ({error}); name that one in the URL");
                StoreError::Backend { doing, source: said(why) }
            }
            Some("WRONGTYPE") => StoreError::Foreign {
                place: place(),
                why: "its keys hold something else; give the store another name: ?name=…".to_owned(),
            },
            _ => StoreError::Backend { doing, source: Arc::new(error) },
        }
    }
}

/// Something that is not as it must be.
pub(super) fn damaged(what: impl ToString) -> Fault {
    Fault::Refused(corrupt(what))
}
