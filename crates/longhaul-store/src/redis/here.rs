//! A connection of the runtime in which the store was opened, for what is done most: most of what asking after a task cost, and much of
//! what writing did, were the ways between that runtime and the store's own threads.
//!
//! Nothing depends on it: where there is no such connection, not yet or not any more, the store's own threads do it. Whatever only reads may
//! also be given up at any moment.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use ::redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisResult, aio::MultiplexedConnection};
use tokio::runtime::{Handle, RuntimeFlavor};

use super::link::{LONGEST_CONNECT, is_gone};

/// A connection that is served by the opener's runtime.
pub(super) struct Here {
    opener: Handle,
    /// Whose timers are known to run, whichever runtime or none at all waits.
    own: Handle,
    client: Client,
    patience: Duration,
    state: Mutex<State>,
}

enum State {
    /// Another try is worth it from then on.
    Absent(Instant),
    Coming,
    There(Arc<There>),
    /// That runtime serves no connections.
    Never,
}

pub(super) struct There {
    connection: MultiplexedConnection,
    /// Of which of the store's own connections it is as old.
    generation: u64,
}

impl There {
    pub(super) fn connection(&self) -> MultiplexedConnection {
        self.connection.clone()
    }
}

impl fmt::Debug for Here {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Here").finish_non_exhaustive()
    }
}

impl Here {
    /// On the runtime that this is called in; `None` if it is none.
    pub(super) fn new(own: Handle, client: Client, patience: Duration) -> Option<Arc<Self>> {
        let opener = Handle::try_current().ok()?;
        let state = Mutex::new(State::Absent(Instant::now()));
        Some(Arc::new(Self { opener, own, client, patience, state }))
    }

    /// Asks something, over a connection that was made since the store's own was lost last; `None` where others have to.
    pub(super) async fn ask<T: FromRedisValue>(self: &Arc<Self>, asked: &Cmd, generation: u64) -> Option<T> {
        let there = self.take(generation)?;
        let mut connection = there.connection();
        connection.set_response_timeout(self.patience.min(MOMENT));
        let answered: RedisResult<T> = Within::new(&self.own, asked.query_async(&mut connection)).await;
        match answered {
            Ok(answer) => Some(answer),
            Err(error) => {
                tracing::debug!(%error, "a task is read by the store's own threads");
                if is_gone(&error) {
                    self.lost(&there);
                }
                None
            }
        }
    }

    /// The runtime in which the store was opened.
    pub(super) fn opener(&self) -> &Handle {
        &self.opener
    }

    /// Whether it may do what is not to be given up. Where one thread does everything, whatever holds it up for long would make that late.
    pub(super) fn may_write(&self) -> bool {
        self.opener.runtime_flavor() == RuntimeFlavor::MultiThread
    }

    /// This connection is of no use any more.
    pub(super) fn lost(&self, there: &Arc<There>) {
        let mut state = self.lock();
        if matches!(&*state, State::There(now) if Arc::ptr_eq(now, there)) {
            *state = State::Absent(Instant::now());
        }
    }

    /// The connection, for who is in that runtime, if it was made since the store's own was lost last.
    pub(super) fn take(self: &Arc<Self>, generation: u64) -> Option<Arc<There>> {
        // Who waits elsewhere may well keep that runtime from going on.
        Handle::try_current().ok().filter(|current| current.id() == self.opener.id())?;
        let mut state = self.lock();
        match &*state {
            State::There(there) if there.generation == generation => return Some(Arc::clone(there)),
            State::Absent(from) if *from > Instant::now() => return None,
            State::There(_) | State::Absent(_) => *state = State::Coming,
            State::Coming | State::Never => return None,
        }
        drop(state);
        let here = Arc::clone(self);
        self.opener.spawn(async move {
            let coming = Coming(here);
            let how = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(coming.0.patience.min(LONGEST_CONNECT)))
                .set_response_timeout(Some(coming.0.patience));
            match coming.0.client.get_multiplexed_async_connection_with_config(&how).await {
                Ok(connection) => {
                    *coming.0.lock() = State::There(Arc::new(There { connection, generation }));
                }
                Err(error) => tracing::debug!(%error, "no connection of the opener's runtime"),
            }
        });
        None
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection is being made: until that is given up, also because the opener's runtime ends or can make none, which is a panic.
struct Coming(Arc<Here>);

impl Drop for Coming {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if matches!(&*state, State::Coming) {
            let is_unable = std::thread::panicking();
            *state = if is_unable { State::Never } else { State::Absent(Instant::now() + PAUSE) };
        }
    }
}

/// Something that is done with the timers of a runtime, and by tasks of it, on whatever thread it is polled.
pub(super) struct Within<'r, F> {
    runtime: &'r Handle,
    doing: Pin<Box<F>>,
}

impl<'r, F> Within<'r, F> {
    pub(super) fn new(runtime: &'r Handle, doing: F) -> Self {
        Self { runtime, doing: Box::pin(doing) }
    }
}

impl<F: Future> Future for Within<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _entered = self.runtime.enter();
        self.doing.as_mut().poll(cx)
    }
}

/// How long no connection is made after that has failed.
const PAUSE: Duration = Duration::from_secs(1);

/// How long an answer is waited for before the store's own threads are asked.
const MOMENT: Duration = Duration::from_millis(500);
