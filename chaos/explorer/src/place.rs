//! Where tasks are kept, and what nodes share beside them: what outlives every process of a run.

use std::fmt;
use std::sync::Arc;

use longhaul_store::{
    Memory, Registry, Settings, Sqlite, TaskStore,
    transfer::{Miscount, Transfer as _},
};

use crate::audit::at_once;
use crate::clock::Simulated;

/// A kind of store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Memory,
    Sqlite,
}

impl Kind {
    pub(crate) const ALL: &[Self] = &[Self::Memory, Self::Sqlite];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Sqlite => "SQLite",
        })
    }
}

/// An empty store, which nodes can join.
pub(crate) enum Place {
    Memory(Memory),
    File(tempfile::TempDir, Simulated),
}

impl Place {
    pub(crate) fn empty(kind: Kind, clock: &Simulated) -> Self {
        match kind {
            Kind::Memory => Self::Memory(Memory::with(Settings::default(), Arc::new(clock.clone()))),
            Kind::Sqlite => Self::File(folder(), clock.clone()),
        }
    }

    /// A node of its own, dead when dropped: its tasks, and what nodes share beside them.
    pub(crate) fn join(&self) -> (Arc<dyn TaskStore>, Arc<dyn Registry>) {
        match self.observe() {
            Observer::Memory(memory) => (Arc::clone(&memory) as _, memory),
            Observer::Sqlite(file) => (Arc::clone(&file) as _, file),
        }
    }

    /// The same, which can be asked whether its figures are right.
    pub(crate) fn observe(&self) -> Observer {
        match self {
            Self::Memory(memory) => Observer::Memory(Arc::new(memory.another_node())),
            Self::File(folder, clock) => {
                let options = longhaul_store::SqliteOptions::new().with_clock(Arc::new(clock.clone()));
                Observer::Sqlite(Arc::new(options.open(folder.path().join("tasks.db")).unwrap()))
            }
        }
    }
}

/// A node that never works.
pub(crate) enum Observer {
    Memory(Arc<Memory>),
    Sqlite(Arc<Sqlite>),
}

impl Observer {
    pub(crate) fn store(&self) -> &dyn TaskStore {
        match self {
            Self::Memory(memory) => &**memory,
            Self::Sqlite(file) => &**file,
        }
    }

    /// The owners that are charged for other bytes of tasks than they have.
    pub(crate) fn miscounted(&self) -> Vec<Miscount> {
        match self {
            Self::Memory(memory) => memory.miscounted(),
            Self::Sqlite(file) => at_once(file.miscounted()).unwrap(),
        }
    }
}

/// In memory where there is such a place: what a disk does to writes is tried elsewhere, and its flushes take time.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}
