//! Faults: what goes wrong at which operation.

use std::{
    fmt,
    future::pending,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use super::{Operation, Wrap};
use crate::{StoreError, StoreFuture};

/// Which operations go wrong, and how. Clones share the plan.
///
/// Operations are counted from 1 on, in the order in which they are first polled. Without a plan nothing goes wrong.
///
/// A crash is that of the process which holds the store: from then on no operation is done and none is answered, as if
/// the caller were gone. What it has in memory is the caller's to drop, and another handle on the same store is the
/// process that comes next.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use longhaul_store::wrap::{Fault, Faults, Moment, Wrapped};
/// use longhaul_store::{Json, Memory, NewTask, Owner, Scope, StoreError, TaskId, TaskStore};
///
/// let (memory, faults) = (Memory::new(), Faults::new());
/// faults.plan(2, Moment::After, Fault::Fail(StoreError::Closed));
/// faults.plan(3, Moment::Before, Fault::Crash);
/// let store = Wrapped::new(memory.another_node(), faults.clone());
///
/// let ann = Owner::principal("ann")?;
/// let new = |id| Ok::<_, Box<dyn std::error::Error>>(NewTask::new(TaskId::new(id)?, ann.clone(), "t", Json::parse("{}")?));
/// assert!(store.create(new("t1")?).await.is_ok());
/// assert!(store.create(new("t2")?).await.is_err(), "it was done, and its caller hears of a failure");
/// let third = store.create(new("t3")?);
/// tokio::select! { _ = third => unreachable!(), () = faults.crashed() => {} }
///
/// assert_eq!(faults.operations().len(), 3);
/// assert_eq!(memory.counts().await?.retained, 2);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    crashed: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    operations: Vec<Operation>,
    planned: Vec<(usize, Moment, Fault)>,
}

/// Before an operation is done, or when it is done and its caller has not heard.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "there is nothing in between, for an operation is atomic")]
pub enum Moment {
    /// It has not been done.
    Before,
    /// It has been done.
    After,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "before",
            Self::After => "after",
        })
    }
}

/// What goes wrong.
#[non_exhaustive]
pub enum Fault {
    /// The process ends: neither this operation nor any later one is answered, and no later one is done.
    Crash,
    /// The operation fails so.
    Fail(StoreError),
    /// The operation goes on when this completes.
    Wait(Pin<Box<dyn Future<Output = ()> + Send>>),
}

impl Fault {
    /// The operation goes on when `until` completes, which begins then.
    ///
    /// ```
    /// use std::time::Duration;
    /// use longhaul_store::wrap::Fault;
    ///
    /// let slow = Fault::wait(async { tokio::time::sleep(Duration::from_secs(1)).await });
    /// # drop(slow);
    /// ```
    #[must_use]
    pub fn wait(until: impl Future<Output = ()> + Send + 'static) -> Self {
        Self::Wait(Box::pin(until))
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash => f.write_str("Crash"),
            Self::Fail(error) => f.debug_tuple("Fail").field(error).finish(),
            Self::Wait(_) => f.write_str("Wait"),
        }
    }
}

impl Faults {
    /// Nothing goes wrong.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the operation of this number go wrong, once.
    pub fn plan(&self, number: usize, moment: Moment, fault: Fault) {
        self.lock().planned.push((number, moment, fault));
    }

    /// The process ends now.
    pub fn crash(&self) {
        self.0.crashed.send_replace(true);
    }

    /// Whether the process has ended.
    #[must_use]
    pub fn has_crashed(&self) -> bool {
        *self.0.crashed.borrow()
    }

    /// Completes once the process has ended.
    pub async fn crashed(&self) {
        // The sender is ours, and lives as long as this is borrowed.
        let _ = self.0.crashed.subscribe().wait_for(|crashed| *crashed).await;
    }

    /// The operations so far, in their order.
    #[must_use]
    pub fn operations(&self) -> Vec<Operation> {
        self.lock().operations.clone()
    }

    /// Counts an operation.
    fn begin(&self, operation: Operation) -> usize {
        let mut state = self.lock();
        state.operations.push(operation);
        state.operations.len()
    }

    fn due(&self, number: usize, moment: Moment) -> Option<Fault> {
        let planned = &mut self.lock().planned;
        let at = planned.iter().position(|(of, when, _)| *of == number && *when == moment)?;
        Some(planned.remove(at).2)
    }

    async fn suffer(&self, number: usize, moment: Moment) -> Result<(), StoreError> {
        match self.due(number, moment) {
            None => {}
            Some(Fault::Crash) => self.crash(),
            Some(Fault::Fail(error)) => return Err(error),
            Some(Fault::Wait(until)) => until.await,
        }
        if self.has_crashed() { pending().await } else { Ok(()) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wrap for Faults {
    fn around<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        doing: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            if self.has_crashed() {
                return pending().await;
            }
            let number = self.begin(operation);
            self.suffer(number, Moment::Before).await?;
            let done = doing.await;
            self.suffer(number, Moment::After).await?;
            done
        })
    }
}
