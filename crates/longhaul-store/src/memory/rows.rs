//! The tasks as rows of text, for whoever keeps them somewhere else.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};

use super::{Memory, table::Table};
use crate::{
    Clock, Settings, StoreError,
    clock::{Mark, StoreClock},
};

/// Where a row stands: the number of its task, then 0 for the task itself and other numbers for what belongs to it.
pub type RowKey = (u64, u64);

/// A row that has changed.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Change {
    /// Where it stands.
    pub key: RowKey,
    /// What it is now; nothing if it is no more. Its form is this crate's own, and a later release reads it.
    pub row: Option<String>,
}

/// Tasks that somebody else keeps.
impl Memory {
    /// A store of the tasks that these rows are, in any order: what was kept of all [changes](Self::changes) so far, or
    /// nothing. Whoever had a task has it no more. Events and entries are not among them.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] for rows that are none.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::{collections::BTreeMap, sync::Arc};
    /// use longhaul_store::{Json, Memory, NewTask, Owner, Scope, Settings, SystemClock, TaskId, TaskStore};
    ///
    /// let mut kept: BTreeMap<_, String> = BTreeMap::new();
    /// let store = Memory::restored(Settings::default(), Arc::new(SystemClock::new()), &kept)?;
    /// store.create(NewTask::new(TaskId::new("t1")?, Owner::Anonymous, "build", Json::null())).await?;
    /// for change in store.changes() {
    ///     match change.row {
    ///         Some(row) => drop(kept.insert(change.key, row)),
    ///         None => drop(kept.remove(&change.key)),
    ///     }
    /// }
    ///
    /// let again = Memory::restored(Settings::default(), Arc::new(SystemClock::new()), &kept)?;
    /// assert!(again.get(Scope::Operator, &TaskId::new("t1")?).await?.is_some());
    /// # Ok(()) }
    /// ```
    pub fn restored<K, R: AsRef<str>>(
        settings: Settings,
        clock: Arc<dyn Clock>,
        rows: impl IntoIterator<Item = (K, R)>,
    ) -> Result<Self, StoreError>
    where
        K: std::borrow::Borrow<RowKey>,
    {
        let table = Table::restored(rows.into_iter().map(|(key, row)| (*key.borrow(), row)))?;
        // No later than any date that a caller was shown, whatever the clock says.
        let mark = table.latest().map(|time| Mark { time, steady: Duration::ZERO, boot: String::new() });
        Ok(Self::of(settings, StoreClock::resume(clock, mark), table))
    }

    /// The rows that have changed since this was last asked, each as it is now; nothing of a store that was not
    /// [restored](Self::restored).
    ///
    /// Between two operations they are what the first has done. An operation of this store is done when its future is
    /// first polled, so whoever lets one at a time happen and keeps its changes before anybody hears of it has a store
    /// with all the promises of a [`TaskStore`](crate::TaskStore): `wrap::Wrap` (feature `wrap`) is the place to.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        self.shared.lock().take_changes()
    }
}

/// What a row of a task is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Beneath {
    /// The task itself.
    Task,
    /// The step at this place, from 1 on.
    Step(u64),
    /// The part of this number, from 0 on.
    Part(u64),
}

impl Beneath {
    pub(super) fn key(self, task: u64) -> RowKey {
        match self {
            Self::Task => (task, 0),
            Self::Step(place) => (task, 2 * place),
            Self::Part(number) => (task, 2 * number + 1),
        }
    }

    fn of((task, row): RowKey) -> (u64, Self) {
        let beneath = match row {
            0 => Self::Task,
            _ if row.is_multiple_of(2) => Self::Step(row / 2),
            _ => Self::Part(row / 2),
        };
        (task, beneath)
    }
}

impl Table {
    fn restored<R: AsRef<str>>(rows: impl Iterator<Item = (RowKey, R)>) -> Result<Self, StoreError> {
        // A task comes before what belongs to it.
        let rows: BTreeMap<RowKey, R> = rows.collect();
        let mut table = Self::default();
        for (key, row) in &rows {
            let row = row.as_ref();
            match Beneath::of(*key) {
                (task, Beneath::Task) => table.put_back(task, read(row)?),
                (task, Beneath::Step(place)) => table.put_step_back(task, place, read(row)?)?,
                (task, Beneath::Part(number)) => table.put_part_back(task, number, read(row)?)?,
            }
        }
        table.follow_changes();
        Ok(table)
    }

    fn take_changes(&mut self) -> Vec<Change> {
        let changed: BTreeSet<RowKey> = self.followed().map(std::mem::take).unwrap_or_default();
        changed.into_iter().map(|key| Change { key, row: self.row(key) }).collect()
    }

    fn row(&self, key: RowKey) -> Option<String> {
        match Beneath::of(key) {
            (task, Beneath::Task) => self.slot(task).map(write),
            (task, Beneath::Step(place)) => self.step_at(task, place).map(write),
            (task, Beneath::Part(number)) => self.part_at(task, number).map(write),
        }
    }
}

fn write<T: Serialize>(row: &T) -> String {
    serde_json::to_string(row).expect("facts are names, numbers and JSON: all of it can be written")
}

fn read<T: DeserializeOwned>(row: &str) -> Result<T, StoreError> {
    serde_json::from_str(row)
        .map_err(|error| corrupt("a row that is no row of a task", Some(Arc::new(error))))
}

pub(super) fn corrupt(what: &str, source: Option<crate::Source>) -> StoreError {
    StoreError::Corrupt { what: what.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::conformance::{Backend, Deployment, run_all};
    use crate::wrap::{Operation, Wrap, Wrapped};
    use crate::{StepClock, StoreFuture, TaskStore, Time};

    /// Keeps every change, and sees after each operation whether what is kept is what there is.
    #[derive(Debug)]
    struct Keeper {
        memory: Memory,
        clock: StepClock,
        kept: Mutex<(usize, BTreeMap<RowKey, String>)>,
    }

    impl Keeper {
        fn keep(&self, operations: &mut usize, kept: &mut BTreeMap<RowKey, String>) {
            for Change { key, row } in self.memory.changes() {
                match row {
                    Some(row) => drop(kept.insert(key, row)),
                    None => drop(kept.remove(&key)),
                }
            }
            *operations += 1;
            // All of it is read each time, which would take long where there is much.
            if kept.len() < 40 || operations.is_multiple_of(200) {
                let clock = Arc::new(self.clock.clone());
                let again = Memory::restored(self.memory.shared.settings.clone(), clock, &*kept).unwrap();
                let (was, is) = (self.memory.shared.lock(), again.shared.lock());
                assert!(Some(again.now()) <= was.latest().max(Some(self.memory.now())));
                assert!(is.holds_what(&was), "kept: {is:#?}\n\nwas: {was:#?}");
            }
        }
    }

    impl Wrap for Arc<Keeper> {
        fn around<'a, T: Send + 'a>(
            &'a self,
            _: Operation,
            mut doing: StoreFuture<'a, T>,
        ) -> StoreFuture<'a, T> {
            Box::pin(async move {
                let mut guard = self.kept.lock().unwrap();
                let (operations, kept) = &mut *guard;
                let Poll::Ready(done) = doing.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
                    panic!("an operation of a store in memory waits for nothing");
                };
                self.keep(operations, kept);
                done
            })
        }
    }

    struct Kept;
    struct OneKept(Arc<Keeper>);

    impl Backend for Kept {
        fn deploy(&self, settings: Settings) -> Box<dyn Deployment> {
            let clock = StepClock::at(Time::from_unix_ms(1_800_000_000_000));
            let none: [(RowKey, &str); 0] = [];
            let memory = Memory::restored(settings, Arc::new(clock.clone()), none).unwrap();
            Box::new(OneKept(Arc::new(Keeper { memory, clock, kept: Mutex::default() })))
        }
    }

    impl Deployment for OneKept {
        fn join(&self) -> Arc<dyn TaskStore> {
            Arc::new(Wrapped::new(self.0.memory.another_node(), self.0.clone()))
        }

        fn advance(&self, by: Duration) {
            self.0.clock.advance(by);
        }
    }

    #[tokio::test]
    async fn what_is_kept_after_any_operation_is_what_there_is() {
        run_all(&Kept).await;
    }

    #[test]
    fn what_is_no_row_is_refused() {
        let restored = |key: RowKey, row: &str| {
            Memory::restored(Settings::default(), Arc::new(crate::SystemClock::new()), [(key, row)])
        };
        for (key, row) in [((1, 0), "{}"), ((1, 1), "null"), ((1, 2), "null"), ((1, 0), "")] {
            assert!(matches!(restored(key, row), Err(StoreError::Corrupt { .. })), "{key:?} {row:?}");
        }
    }
}
