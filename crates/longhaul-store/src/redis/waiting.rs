//! Connections for writes that wait until replicas have them: whatever else is said on such a one waits as well.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use ::redis::{RedisResult, aio::MultiplexedConnection};
use tokio::sync::{Semaphore, SemaphorePermit};

/// As many as writes may wait at once. Each is one write's alone meanwhile.
pub(super) struct Waiting {
    places: Semaphore,
    idle: Mutex<Vec<MultiplexedConnection>>,
}

/// A connection that is one write's alone. It is closed with its handle, unless it is given back: the server may still be
/// waiting on it.
pub(super) struct Taken<'a> {
    pub(super) connection: MultiplexedConnection,
    _place: SemaphorePermit<'a>,
    of: &'a Waiting,
}

impl Waiting {
    pub(super) fn new(most: usize) -> Self {
        Self { places: Semaphore::new(most.clamp(1, Semaphore::MAX_PERMITS)), idle: Mutex::default() }
    }

    /// Takes one, which is made where none is idle.
    pub(super) async fn take(
        &self,
        make: impl Future<Output = RedisResult<MultiplexedConnection>>,
    ) -> RedisResult<Taken<'_>> {
        let place = self.places.acquire().await;
        let place = place.map_err(std::io::Error::other)?;
        let idle = self.idle().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => make.await?,
        };
        Ok(Taken { connection, _place: place, of: self })
    }

    /// One of them, or another connection to the same server, has been seen to be gone: so are those that are idle.
    pub(super) fn forget(&self) {
        self.idle().clear();
    }

    fn idle(&self) -> MutexGuard<'_, Vec<MultiplexedConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken<'_> {
    /// Everything that was said on it is answered.
    pub(super) fn give_back(self) {
        self.of.idle().push(self.connection);
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("places", &self.places).finish_non_exhaustive()
    }
}
