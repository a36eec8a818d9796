//! A store of tasks in a redb file: what it takes to keep them in a database that longhaul knows nothing of.
//!
//! What each operation means is `Memory`'s to know. Here the rows that an operation has changed are kept before anybody
//! hears of it, by one function that stands around all of them: an operation that a later release adds is kept as well.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;

use longhaul_store::wrap::{Operation, Wrap, Wrapped};
use longhaul_store::{
    Change, Clock, Durability, Memory, RowKey, Settings, StoreError, StoreFuture, TaskStore,
};
use redb::{Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};

const ROWS: TableDefinition<'_, RowKey, &str> = TableDefinition::new("longhaul-tasks");

/// A file of tasks, open in this process alone.
#[derive(Debug)]
pub(crate) struct RedbTasks {
    memory: Arc<Memory>,
    keeper: Keeper,
}

impl RedbTasks {
    /// Opens the file, or makes it.
    pub(crate) fn open(
        path: impl AsRef<Path>,
        settings: Settings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let database = Database::create(path).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => StoreError::Busy {
                by: format!("whoever has {} open", path.display()),
                source: Arc::new(error),
            },
            error => failed("opening its file", error),
        })?;
        let rows = read(&database).map_err(|error| failed("reading its rows", error))?;
        let memory = Arc::new(Memory::restored(settings, clock, rows)?);
        let (writes, due) = mpsc::channel();
        let writer = Writer { database, path: path.to_owned() };
        thread::spawn(move || due.into_iter().for_each(|write| writer.write(write)));
        let keeper = Keeper { memory: memory.clone(), turn: Arc::default(), writes };
        Ok(Self { memory, keeper })
    }

    /// A node, which gives up its tasks when it is dropped. A server is one.
    pub(crate) fn node(&self) -> impl TaskStore + use<> {
        Wrapped::new(self.memory.another_node(), self.keeper.clone())
    }
}

/// Lets one operation at a time happen, and keeps what it has changed.
#[derive(Clone, Debug)]
struct Keeper {
    memory: Arc<Memory>,
    turn: Arc<Mutex<Turn>>,
    writes: mpsc::Sender<Write>,
}

#[derive(Debug, Default)]
struct Turn {
    /// A change could not be kept: from then on the file is right, and this process is not.
    failed: bool,
}

/// What an operation has changed. Nobody else has a turn until it is kept, though its caller be gone.
struct Write {
    changes: Vec<Change>,
    turn: OwnedMutexGuard<Turn>,
    kept: oneshot::Sender<Result<(), StoreError>>,
}

impl Wrap for Keeper {
    fn around<'a, T: Send + 'a>(&'a self, _: Operation, doing: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let turn = self.turn.clone().lock_owned().await;
            if turn.failed {
                return Err(StoreError::Closed);
            }
            // Done at once: between this and the writer nothing waits, so that nothing is done and not kept.
            let done = doing.await;
            let changes = self.memory.changes();
            if !changes.is_empty() {
                let (kept, told) = oneshot::channel();
                self.writes.send(Write { changes, turn, kept }).map_err(|_| StoreError::Closed)?;
                told.await.map_err(|_| StoreError::Closed)??;
            }
            done
        })
    }

    fn durability(&self, _: Durability) -> Durability {
        Durability::Disk
    }
}

/// The thread that waits for the disk.
struct Writer {
    database: Database,
    path: PathBuf,
}

impl Writer {
    fn write(&self, write: Write) {
        let Write { changes, mut turn, kept } = write;
        let result = self.commit(&changes).map_err(|error| failed("keeping its rows", error));
        if let Err(error) = &result {
            tracing::error!(%error, "{} is not written any more; start again", self.path.display());
            turn.failed = true;
        }
        drop(turn);
        // Whoever asked may be gone.
        drop(kept.send(result));
    }

    /// All of it or nothing; on the disk when this returns.
    fn commit(&self, changes: &[Change]) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        {
            let mut rows = transaction.open_table(ROWS)?;
            for Change { key, row, .. } in changes {
                match row {
                    Some(row) => drop(rows.insert(key, row.as_str())?),
                    None => drop(rows.remove(key)?),
                }
            }
        }
        Ok(transaction.commit()?)
    }
}

fn read(database: &Database) -> Result<Vec<(RowKey, String)>, redb::Error> {
    // So that a new file has the table.
    let transaction = database.begin_write()?;
    transaction.open_table(ROWS)?;
    transaction.commit()?;
    let rows = database.begin_read()?.open_table(ROWS)?;
    rows.iter()?
        .map(|row| row.map(|(key, row)| (key.value(), row.value().to_owned())))
        .map(|row| Ok(row?))
        .collect()
}

fn failed(doing: &'static str, error: impl Into<redb::Error> + fmt::Debug) -> StoreError {
    StoreError::Backend { doing, source: Arc::new(error.into()) }
}
