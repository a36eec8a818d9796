//! The tasks that this node holds, as it has written them last: whoever works on a task need not read it before it writes.
//!
//! Nothing depends on it. What is written is held against the row as the server has it, so that one which is otherwise by now is read
//! and all is done again.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::row::Row;
use crate::{NodeId, TaskId};

#[derive(Debug, Default)]
pub(super) struct HeldRows {
    rows: Mutex<HashMap<TaskId, Row>>,
}

impl HeldRows {
    /// Takes what is known of a task, which is known no longer: what comes of it is, if it is written.
    pub(super) fn take(&self, id: &TaskId) -> Option<Row> {
        self.lock().remove(id)
    }

    /// Keeps a row that was just written, if `node` holds the task.
    pub(super) fn keep(&self, row: Row, node: &NodeId) {
        let id = row.record.id.clone();
        let is_held = !row.record.is_terminal() && row.holder() == Some(node);
        let mut rows = self.lock();
        if is_held && row.weight() <= LARGEST && (rows.len() < MOST || rows.contains_key(&id)) {
            rows.insert(id, row);
        } else {
            rows.remove(&id);
        }
    }

    /// Something else than this node's own work may have changed these tasks.
    pub(super) fn forget<'a>(&self, ids: impl IntoIterator<Item = &'a TaskId>) {
        let mut rows = self.lock();
        for id in ids {
            rows.remove(id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, Row>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that a task is called with and has come to, at most: with that all of them take up some 4 MiB.
const LARGEST: u64 = 8 << 10;

/// How many are known at once.
const MOST: usize = 512;
