//! Tasks as this node has read or written them last: whoever looks again before anything of them has changed is told by their version alone,
//! and whoever works on one need not read it before it writes.
//!
//! Nothing depends on it. What is read is held against the version that the server has, and what is written against the whole row, so that
//! one which is otherwise by now is read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::row::Row;
use crate::{NodeId, Record, TaskId, lately::Lately};

#[derive(Debug, Default)]
pub(super) struct Recent {
    rows: Mutex<Lately<Row>>,
}

impl Recent {
    /// What is known of a task.
    pub(super) fn find(&self, id: &TaskId) -> Option<Arc<Row>> {
        self.lock().find(id)
    }

    /// The same of one on which `node` works. It is known no longer: what comes of it is, if it is written.
    pub(super) fn take(&self, id: &TaskId, node: &NodeId) -> Option<Arc<Row>> {
        let mut rows = self.lock();
        let is_held = |row: &Arc<Row>| !row.record.is_terminal() && row.holder() == Some(node);
        let row = rows.find(id).filter(is_held)?;
        rows.remove(id);
        Some(row)
    }

    /// Keeps a row as it was just read or written.
    pub(super) fn keep(&self, row: Row) {
        let mut rows = self.lock();
        match row.is_tombstone() {
            false => rows.keep(row),
            true => rows.remove(&row.record.id),
        }
    }

    /// These tasks have changed.
    pub(super) fn forget<'a>(&self, ids: impl IntoIterator<Item = &'a TaskId>) {
        let mut rows = self.lock();
        ids.into_iter().for_each(|id| rows.remove(id));
    }

    fn lock(&self) -> MutexGuard<'_, Lately<Row>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsRef<Record> for Row {
    fn as_ref(&self) -> &Record {
        &self.record
    }
}
