//! What SQLite and the file system report, as errors of the contract.

use std::{io, path::Path, sync::Arc};

use rusqlite::{ErrorCode, ffi};

use crate::StoreError;
pub(super) use crate::error::{corrupt, said};

/// What SQLite reported.
pub(super) fn sqlite_error(place: &Path, doing: &'static str, error: rusqlite::Error) -> StoreError {
    let (code, extended) = match &error {
        rusqlite::Error::SqliteFailure(error, _) => (error.code, error.extended_code),
        _ => (ErrorCode::Unknown, 0),
    };
    let (place, source) = (place.to_owned(), Arc::new(error));
    match code {
        ErrorCode::DiskFull => StoreError::Full { place, source },
        // The shared index of the log could not grow: SQLite has no plainer word for it.
        ErrorCode::SystemIoFailure if extended == ffi::SQLITE_IOERR_SHMSIZE => {
            StoreError::Full { place, source }
        }
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreError::ReadOnly { place, source },
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            StoreError::Busy { by: format!("another connection to {}", place.display()), source }
        }
        ErrorCode::DatabaseCorrupt => {
            StoreError::Corrupt { what: place.display().to_string(), source: Some(source) }
        }
        ErrorCode::NotADatabase => StoreError::Foreign { place, why: "it is no SQLite database".to_owned() },
        _ => StoreError::Backend { doing, source },
    }
}

/// What the file system reported of a file beside the database.
pub(super) fn io_error(place: &Path, doing: &'static str, error: io::Error) -> StoreError {
    let place = place.to_owned();
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            StoreError::ReadOnly { place, source: Arc::new(error) }
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::Full { place, source: Arc::new(error) }
        }
        _ => StoreError::Backend { doing, source: said(format!("{}: {error}", place.display())) },
    }
}
