//! What stores on a server have in common: [`Postgres`](crate::Postgres) and [`Redis`](crate::Redis).
//!
//! Here is what a store does whatever its server is: the operations of the contract and their rules, the threads on which
//! they run, the session that proves a node alive, and what a node knows of itself. Each store supplies
//!
//! - a [`Transaction`](transaction::Transaction), by which an operation reads and writes: PostgreSQL holds the rows that it is
//!   about, Redis checks by the script that writes whether everything read is still so;
//! - how it [looks](look::Look) for what is only read, in SQL or by commands;
//! - a [`Server`](server::Server): how often an operation is tried, and what goes wrong with it;
//! - what the [keeper](keeper::Keeps) of its session says there.
//!
//! Streams and the registry are each store's own, for they have nothing in common but their contracts.

#![cfg_attr(
    not(all(feature = "postgres", feature = "redis")),
    expect(dead_code, reason = "each of them says things that the other has no use for")
)]

pub(crate) mod beside;
mod family;
pub(crate) mod fault;
pub(crate) mod keeper;
pub(crate) mod look;
mod near;
pub(crate) mod node;
pub(crate) mod operation;
pub(crate) mod password;
pub(crate) mod server;
mod server_clock;
mod store;
mod suspects;
mod sweep;
pub(crate) mod transaction;
pub(crate) mod transfer;

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, sync_channel},
    },
    time::Duration,
};

use tokio::{
    runtime::{Builder, Runtime},
    sync::oneshot,
    task::JoinError,
};

use self::{
    keeper::{Keeper, Keeps},
    look::Look,
    server::Server,
    transaction::Operation,
};
use crate::{StoreError, StoreFuture, error::said};

/// A store on a server, as one node of it.
pub(crate) struct Handle<S: Server> {
    pub(crate) site: Arc<S>,
    /// `None` only while being dropped, as is the next.
    runtime: Option<Runtime>,
    parting: Option<Parting>,
}

/// How the keeper of the session is told to end.
struct Parting {
    stop: oneshot::Sender<()>,
    gone: Mutex<Receiver<()>>,
}

impl<S: Keeps> Handle<S> {
    /// Enters the store on threads of its own, and keeps the session that was made there.
    pub(crate) async fn open<F>(entering: F) -> Result<Self, StoreError>
    where
        F: Future<Output = Result<(Arc<S>, S::Session), StoreError>> + Send + 'static,
    {
        let runtime = threads()?;
        let opened = runtime.spawn(async {
            let (site, mut session) = entering.await?;
            if let Err(refusal) = keeper::greet(&*site, &mut session).await {
                // Else it would count as one that may come back.
                keeper::part(&*site, session).await;
                return Err(refusal);
            }
            let (stop, stopped) = oneshot::channel();
            let (ended, gone) = sync_channel(1);
            tokio::spawn(Keeper::new(site.clone(), stopped, ended).run(session));
            Ok((site, Parting { stop, gone: Mutex::new(gone) }))
        });
        match ended(opened.await) {
            Ok((site, parting)) => Ok(Self { site, runtime: Some(runtime), parting: Some(parting) }),
            Err(error) => {
                runtime.shutdown_background();
                Err(error)
            }
        }
    }
}

impl<S: Server> Handle<S> {
    /// The store's own threads.
    #[cfg(feature = "redis")]
    pub(crate) fn threads(&self) -> Option<&tokio::runtime::Handle> {
        self.runtime.as_ref().map(Runtime::handle)
    }

    /// Has the store's own threads do something, from its first poll on, whoever goes on to wait for it.
    pub(crate) fn on_own<'a, T, F>(&'a self, make: impl FnOnce(Arc<S>) -> F + Send + 'a) -> StoreFuture<'a, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        Box::pin(async move {
            let Some(runtime) = &self.runtime else { return Err(StoreError::Closed) };
            self.site.admit()?;
            ended(runtime.spawn(make(self.site.clone())).await)
        })
    }

    /// Does something that is done as a whole or not at all.
    pub(crate) fn change<'a, O: Operation<S::Tx>>(
        &'a self,
        make: impl FnOnce() -> O + Send + 'a,
    ) -> StoreFuture<'a, O::Done> {
        Box::pin(async move {
            let Some(runtime) = &self.runtime else { return Err(StoreError::Closed) };
            self.site.admit()?;
            let changing = self.site.clone().change(make());
            ended(match self.site.near() {
                Some(near) => near::run(&near, runtime.handle(), changing).await,
                None => runtime.spawn(changing).await,
            })
        })
    }

    /// Reads something.
    pub(crate) fn look<'a, L: Look<S::Moment>>(
        &'a self,
        make: impl FnOnce() -> L + Send + 'a,
    ) -> StoreFuture<'a, L::Found> {
        self.on_own(move |site| site.look(make()))
    }
}

impl<S: Server> Drop for Handle<S> {
    fn drop(&mut self) {
        self.site.node().hub.close();
        if let Some(Parting { stop, gone }) = self.parting.take()
            && stop.send(()).is_ok()
        {
            let gone = gone.into_inner().unwrap_or_else(PoisonError::into_inner);
            let _told_or_late = gone.recv_timeout(LONGEST_PARTING);
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl<S: Server> fmt::Debug for Handle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (place, node) = (self.site.place(), &self.site.node().id);
        f.debug_struct("Handle").field("place", &place).field("node", node).finish_non_exhaustive()
    }
}

/// The threads of a store.
pub(crate) fn threads() -> Result<Runtime, StoreError> {
    // One more than there are processors would only be woken in vain: a seventh more CPU a task.
    let processors = std::thread::available_parallelism().map_or(THREADS, usize::from);
    Builder::new_multi_thread()
        .worker_threads(THREADS.min(processors))
        .thread_name("longhaul-store")
        .enable_all()
        .build()
        .map_err(|error| StoreError::Backend {
            doing: "starting the store's threads",
            source: Arc::new(error),
        })
}

/// What became of an operation on the store's own threads.
pub(crate) fn ended<T>(ended: Result<Result<T, StoreError>, JoinError>) -> Result<T, StoreError> {
    match ended {
        Ok(result) => result,
        Err(error) if error.is_cancelled() => Err(StoreError::Closed),
        Err(_) => {
            Err(StoreError::Backend { doing: "an operation", source: said("it has panicked; see the log") })
        }
    }
}

/// How often changes are looked for that no hint has told of, unless a store is told otherwise.
pub(crate) const POLL: Duration = Duration::from_secs(2);

/// Threads of a store, at most: they do little more than wait for the server.
const THREADS: usize = 2;

/// How long the end of a handle may take.
const LONGEST_PARTING: Duration = Duration::from_secs(2);
