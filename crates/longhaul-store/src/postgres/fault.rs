//! What goes wrong within an operation, and what becomes of that.

use std::{fmt, sync::Arc};

use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::{Error, error::SqlState};

use super::address::Place;
use crate::{
    StoreError, TaskId,
    error::{corrupt, said},
    networked,
};

/// Why an attempt at an operation did not come to its end.
#[derive(Debug)]
pub(super) enum Fault {
    /// The contract refuses it.
    Refused(StoreError),
    /// The database said so.
    Database { doing: &'static str, error: Error },
    /// The connection was lost after the commit had been sent: whether it happened is not known.
    InDoubt { error: Error },
    /// No connection could be had.
    Pool(PoolError),
    /// Others meet it at the same place: it is tried again.
    Again,
    /// This task has a family: it is tried again with that held first.
    Family(TaskId),
}

impl Fault {
    pub(super) fn database(doing: &'static str, error: Error) -> Self {
        Self::Database { doing, error }
    }

    /// Whether nothing has happened, and another attempt may come to its end.
    pub(super) fn is_worth_another_try(&self) -> bool {
        match self {
            Self::Database { error, .. } => is_collision(error) || is_lost(error),
            Self::Pool(PoolError::Backend(error)) => is_lost(error),
            Self::Again => true,
            Self::Refused(_) | Self::InDoubt { .. } | Self::Pool(_) | Self::Family(_) => false,
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

/// Two transactions stood in each other's way, and this one gave way.
pub(super) fn is_collision(error: &Error) -> bool {
    matches!(error.code(), Some(code) if *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED)
}

/// Others hold what it waits for, or have been faster.
pub(super) fn is_in_the_way(error: &Error) -> bool {
    is_collision(error) || error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// The connection, or the database behind it, is gone.
pub(super) fn is_lost(error: &Error) -> bool {
    let Some(code) = error.code() else {
        // What the database has not said is of the way to it, or of a value, which has no source that is I/O.
        return error.is_closed() || is_io(error);
    };
    code.code().starts_with("08")
        || [
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::DATABASE_DROPPED,
            // It has become a standby.
            SqlState::READ_ONLY_SQL_TRANSACTION,
        ]
        .contains(code)
}

fn is_io(error: &Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if inner.is::<std::io::Error>() || inner.is::<tokio::time::error::Elapsed>() {
            return true;
        }
        source = inner.source();
    }
    // "timeout waiting for server", which has no source.
    error.to_string().contains("timeout")
}

impl Place {
    /// What the caller is told.
    pub(super) fn error(&self, fault: Fault) -> StoreError {
        match fault {
            Fault::Refused(error) => error,
            Fault::Database { doing, error } => self.reported(doing, error),
            Fault::InDoubt { error } => self.unreachable(error),
            Fault::Pool(PoolError::Backend(error)) => self.reported("connecting", error),
            Fault::Pool(PoolError::Timeout(TimeoutType::Wait)) => self.busy(
                "this node's own operations, which hold all of its connections",
                "no connection has become free in time",
            ),
            Fault::Pool(error) => self.unreachable(error),
            Fault::Again | Fault::Family(_) => {
                self.busy("others that write the same", "it was tried too often")
            }
        }
    }

    pub(super) fn unreachable(&self, error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
        StoreError::Unreachable { place: self.to_string(), source: Arc::new(error) }
    }

    fn busy(&self, by: impl fmt::Display, why: &'static str) -> StoreError {
        StoreError::Busy { by: by.to_string(), source: said(why) }
    }

    fn reported(&self, doing: &'static str, error: Error) -> StoreError {
        if is_lost(&error) {
            return self.unreachable(error);
        }
        let Some(code) = error.code() else { return StoreError::Backend { doing, source: Arc::new(error) } };
        let source = |error| Arc::new(error);
        match code {
            code if *code == SqlState::DISK_FULL => {
                StoreError::Full { place: self.to_string().into(), source: source(error) }
            }
            code if *code == SqlState::TOO_MANY_CONNECTIONS => StoreError::Busy {
                by: format!("others: {self} has as many connections as it allows"),
                source: source(error),
            },
            code if is_in_the_way(&error) || *code == SqlState::QUERY_CANCELED => {
                StoreError::Busy { by: format!("another connection to {self}"), source: source(error) }
            }
            code if [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED].contains(code) => {
                StoreError::Corrupt { what: self.to_string(), source: Some(source(error)) }
            }
            code if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
                StoreError::ReadOnly { place: self.to_string().into(), source: source(error) }
            }
            _ => StoreError::Backend { doing, source: source(error) },
        }
    }
}

/// A row that is not as it must be.
pub(super) fn damaged(what: impl ToString) -> Fault {
    Fault::Refused(corrupt(what))
}
