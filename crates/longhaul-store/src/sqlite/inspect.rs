//! Looking at a file without becoming a node on it, and without changing its format.

use std::{fs, path::Path};

use rusqlite::Connection;

use super::{
    Sqlite, SqliteOptions,
    fault::{io_error, sqlite_error},
    log,
    open::refuse_scrap,
    presence, read, schema,
    writer_lock::{WriterLock, beside},
};
use crate::{Format, StoreError};

impl Sqlite {
    /// In which format the store in this file is. The file is not changed.
    ///
    /// # Errors
    ///
    /// [`StoreError::Newer`], [`StoreError::Foreign`], [`StoreError::Corrupt`], and [`StoreError::Backend`] where there is no
    /// file. [`StoreError::Busy`] where somebody writes for longer than 5 s, and [`StoreError::ReadOnly`] and
    /// [`StoreError::Full`] where the lock file beside it cannot be made.
    pub fn format(path: impl AsRef<Path>) -> Result<Format, StoreError> {
        Ok(look(path.as_ref())?.1)
    }

    /// Whether a node is at work on the store of this name, of this process or another, though its file be gone. `false` where that
    /// does not show. Nothing is changed.
    #[must_use]
    pub fn is_in_use(path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        presence::is_any_alive(&beside(&path, ".nodes"))
    }

    /// What is wrong with the file as SQLite sees it: every page and every index is read. Empty where nothing is.
    ///
    /// # Errors
    ///
    /// As [`format`](Self::format); [`StoreError::Corrupt`] where not even that can be told.
    pub fn integrity(path: impl AsRef<Path>) -> Result<Vec<String>, StoreError> {
        let path = path.as_ref();
        let (conn, _) = look(path)?;
        let mut said = Vec::new();
        conn.pragma_query(None, "integrity_check", |row| {
            said.push(row.get::<_, String>(0)?);
            Ok(())
        })
        .map_err(|error| sqlite_error(path, "checking the file", error))?;
        said.retain(|line| line != "ok");
        Ok(said)
    }
}

/// Opens a connection that reads, and looks at the format. As when a store is opened, its log comes first: SQLite takes what it
/// can of a damaged one, and throws the rest away when the last connection is closed.
fn look(path: &Path) -> Result<(Connection, Format), StoreError> {
    let path = &fs::canonicalize(path).map_err(|error| io_error(path, "opening the file", error))?;
    refuse_scrap(path)?;
    let turn = WriterLock::open(beside(path, ".writer"))?;
    let turn = turn.acquire(SqliteOptions::new().patience)?;
    log::check(path, turn.flushed()?)?;
    let conn = read::open_at(path, false).map_err(|error| sqlite_error(path, "opening the file", error))?;
    let newest = schema::MIGRATIONS.len() as u32;
    // It is the first to read, and so takes the log in while nobody writes.
    let found = match schema::look(&conn, path, schema::MIGRATIONS)? {
        schema::Found::Empty => None,
        schema::Found::Older(found) => Some(found as u32),
        schema::Found::Current => Some(newest),
    };
    Ok((conn, Format::new(found, newest)))
}
