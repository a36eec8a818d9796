//! The places that connections have. When all are taken, one makes room that only waits for its client. Where none does,
//! a few connections more come in, each for one request, which waits a moment for a place: so whoever is turned away
//! hears it, and whoever asks whether the server serves is answered.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::waiting::Waiting;

/// The places of one server.
#[derive(Debug)]
pub(super) struct Places {
    regular: Pool,
    spare: Pool,
}

/// So many places.
#[derive(Debug)]
struct Pool {
    free: Arc<Semaphore>,
    waiting: Arc<Waiting>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    #[expect(dead_code, reason = "it is held")]
    permit: OwnedSemaphorePermit,
    waiting: Arc<Waiting>,
    spare: bool,
}

/// How many connections come in beside those that have a place.
const SPARE: usize = 16;

/// How long a request of theirs waits for one.
const PATIENCE: Duration = Duration::from_secs(1);

impl Places {
    /// This many, and a few to spare.
    pub(super) fn new(limit: usize) -> Self {
        Self { regular: Pool::new(limit), spare: Pool::new(SPARE) }
    }

    /// A place for the next connection, once there is one.
    pub(super) async fn take(&self) -> std::io::Result<Place> {
        if let Ok(permit) = Arc::clone(&self.regular.free).try_acquire_owned() {
            return Ok(self.regular.place(permit, false));
        }
        if self.regular.waiting.let_one_go() {
            return self.regular.take().await.map(|permit| self.regular.place(permit, false));
        }
        self.regular.waiting.complain();
        tokio::select! {
            biased;
            permit = self.regular.room() => permit.map(|permit| self.regular.place(permit, false)),
            permit = self.spare.room() => permit.map(|permit| self.spare.place(permit, true)),
        }
    }

    /// A place for a request whose connection has none, if there is one soon.
    pub(super) async fn take_soon(&self) -> Option<Place> {
        let permit = tokio::time::timeout(PATIENCE, self.regular.room()).await.ok()?;
        permit.ok().map(|permit| self.regular.place(permit, false))
    }
}

impl Pool {
    fn new(limit: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(limit)), waiting: Arc::new(Waiting::new(limit)) }
    }

    fn place(&self, permit: OwnedSemaphorePermit, spare: bool) -> Place {
        Place { permit, waiting: Arc::clone(&self.waiting), spare }
    }

    async fn take(&self) -> std::io::Result<OwnedSemaphorePermit> {
        Arc::clone(&self.free).acquire_owned().await.map_err(std::io::Error::other)
    }

    /// A place that is free, or that a connection gives up which waits for its client now or later.
    async fn room(&self) -> std::io::Result<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return Ok(permit);
        }
        let mut free = std::pin::pin!(self.take());
        let mut asked = self.waiting.let_one_go();
        loop {
            tokio::select! {
                biased;
                permit = &mut free => return permit,
                () = self.waiting.more(), if !asked => asked = self.waiting.let_one_go(),
            }
        }
    }
}

impl Place {
    /// Where its connection waits.
    pub(super) fn waiting(&self) -> &Arc<Waiting> {
        &self.waiting
    }

    /// Whether it is one of the few beside the others.
    pub(super) fn is_spare(&self) -> bool {
        self.spare
    }
}
