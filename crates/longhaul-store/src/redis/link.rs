//! The connections on which operations run.

use std::{
    fmt, io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ::redis::{
    AsyncConnectionConfig, Client, FromRedisValue, Pipeline, RedisError, RedisResult, Script,
    aio::MultiplexedConnection,
};
use tokio::{runtime::Handle, sync::Mutex, time::timeout};

use super::{
    commit::{Block, Commit},
    fault::{Fault, damaged, is_lost},
    here::{Here, There, Within},
    waiting::Waiting,
};

/// A connection that all share, and that is made again when it is lost; and those on which writes wait for replicas.
pub(super) struct Link {
    client: Client,
    patience: Duration,
    /// The store's own threads, which serve the connections.
    own: Handle,
    /// Each with its number, so that nobody throws away one that is newer than the one they had.
    connection: Mutex<(u64, Option<MultiplexedConnection>)>,
    /// The other one, of the runtime in which the store was opened.
    here: OnceLock<Arc<Here>>,
    replicas: usize,
    waiting: Waiting,
    scripts: Scripts,
    /// How often the connection that all share was given up.
    generation: AtomicU64,
}

/// Which connection somebody has.
enum Whose {
    /// That of this number, which all share.
    Own(u64),
    Here(Arc<There>),
}

/// Every script is atomic. What makes room runs though the server has none, what takes room does not.
struct Scripts {
    commit: Script,
    commit_in_want: Script,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

/// A script that takes room.
pub(super) fn script(body: &str) -> Script {
    Script::new(&format!("#!lua\n{body}"))
}

/// A script that takes none to speak of, or makes some.
pub(super) fn script_in_want(body: &str) -> Script {
    Script::new(&format!("#!lua flags=allow-oom\n{body}"))
}

/// A script that only reads.
pub(super) fn reading(body: &str) -> Script {
    Script::new(&format!("#!lua flags=no-writes\n{body}"))
}

impl Link {
    /// `replicas` must have what is written, for which so many `writes` wait at once. It is made on the store's own threads.
    pub(super) fn new(client: Client, patience: Duration, replicas: usize, writes: usize) -> Self {
        let commit = include_str!("commit.lua");
        let scripts = Scripts { commit: script(commit), commit_in_want: script_in_want(commit) };
        let waiting = Waiting::new(writes);
        Self {
            client,
            patience,
            own: Handle::current(),
            connection: Mutex::new((0, None)),
            here: OnceLock::new(),
            replicas,
            waiting,
            scripts,
            generation: AtomicU64::new(0),
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Another once the connection was given up: what is as old is of no more use.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// There is a runtime in which the store was opened.
    pub(super) fn is_opened_from(&self, here: Option<Arc<Here>>) {
        if let Some(here) = here {
            let _there_is_one = self.here.set(here);
        }
    }

    /// The connection of the runtime in which the store was opened.
    pub(super) fn here(&self) -> Option<&Arc<Here>> {
        self.here.get()
    }

    /// That runtime, if this is called in it and it may do what writes.
    pub(super) fn near(&self) -> Option<Handle> {
        // What waits for replicas has connections of its own.
        let here = self.here().filter(|here| self.replicas == 0 && here.may_write())?;
        here.take(self.generation()).map(|_| here.opener().clone())
    }

    async fn take(&self) -> RedisResult<(Whose, MultiplexedConnection)> {
        if let Some(there) = self.here().and_then(|here| here.take(self.generation())) {
            let connection = there.connection();
            return Ok((Whose::Here(there), connection));
        }
        let mut held = self.connection.lock().await;
        if let (number, Some(connection)) = &*held {
            return Ok((Whose::Own(*number), connection.clone()));
        }
        let made = self.connect().await?;
        *held = (held.0 + 1, Some(made.clone()));
        Ok((Whose::Own(held.0), made))
    }

    /// Makes one that the store's own threads serve, whoever asks for it.
    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let how = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.patience.min(LONGEST_CONNECT)))
            .set_response_timeout(Some(self.patience));
        let connecting = self.client.get_multiplexed_async_connection_with_config(&how);
        Within::new(&self.own, connecting).await
    }

    async fn lost(&self, whose: Whose) {
        match whose {
            Whose::Own(number) => {
                let mut held = self.connection.lock().await;
                if held.0 == number {
                    held.1 = None;
                    self.generation.fetch_add(1, Ordering::Relaxed);
                }
            }
            Whose::Here(there) => self.here.get().into_iter().for_each(|here| here.lost(&there)),
        }
    }

    /// The connection has just been seen to be gone.
    pub(super) async fn forget(&self) {
        self.connection.lock().await.1 = None;
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.waiting.forget();
    }

    /// Asks several things at once, each at a moment of its own.
    pub(super) async fn ask<T: FromRedisValue>(
        &self,
        doing: &'static str,
        asked: &Pipeline,
    ) -> Result<T, Fault> {
        let failed = |error| Fault::Redis { doing, error };
        let (whose, mut connection) = self.take().await.map_err(failed)?;
        match asked.query_async(&mut connection).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(failed(self.noted(whose, error).await)),
        }
    }

    /// Runs a script that reads, or writes what nobody is to wait for.
    pub(super) async fn read<T: FromRedisValue>(
        &self,
        doing: &'static str,
        script: &Script,
        keys: &[String],
        args: &[Vec<u8>],
    ) -> Result<T, Fault> {
        let failed = |error| Fault::Redis { doing, error };
        let (whose, mut connection) = self.take().await.map_err(failed)?;
        match invoke(script, keys, args, &mut connection).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(failed(self.noted(whose, error).await)),
        }
    }

    /// Runs a script that writes. Whatever goes wrong with the connection meanwhile leaves it open whether that happened.
    pub(super) async fn write<T: FromRedisValue>(
        &self,
        doing: &'static str,
        script: &Script,
        keys: &[String],
        args: &[Vec<u8>],
    ) -> Result<T, Fault> {
        if self.replicas > 0 {
            return self.write_and_wait(doing, script, keys, args).await;
        }
        let (whose, mut connection) = self.take().await.map_err(|error| Fault::Redis { doing, error })?;
        match invoke(script, keys, args, &mut connection).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(wrote_or_not(doing, self.noted(whose, error).await)),
        }
    }

    /// The same, and waits until so many replicas have it, on a connection on which nobody else waits for that.
    async fn write_and_wait<T: FromRedisValue>(
        &self,
        doing: &'static str,
        script: &Script,
        keys: &[String],
        args: &[Vec<u8>],
    ) -> Result<T, Fault> {
        // Nothing is written yet, and what is to be written is of a moment ago.
        let taken = timeout(self.patience / 2, self.waiting.take(self.connect())).await;
        let taken = taken.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()));
        let mut taken = taken.map_err(|error| Fault::Redis { doing, error })?;
        let wrote = invoke(script, keys, args, &mut taken.connection).await;
        let answer = wrote.map_err(|error| wrote_or_not(doing, self.noted_of_waiting(error)))?;
        let mut wait = ::redis::cmd("WAIT");
        wait.arg(self.replicas).arg((self.patience / 2).as_millis() as u64);
        let waited: RedisResult<usize> = wait.query_async(&mut taken.connection).await;
        let reached = waited.map_err(|error| Fault::InDoubt(self.noted_of_waiting(error)))?;
        taken.give_back();
        if reached >= self.replicas {
            return Ok(answer);
        }
        let why = format!("written, but {reached} replicas of {} have it", self.replicas);
        Err(Fault::InDoubt(io::Error::other(why).into()))
    }

    /// Writes what an operation has come to; tells what became of each of its blocks.
    pub(super) async fn commit(&self, commit: &mut Commit) -> Result<Vec<Block>, Fault> {
        commit.end();
        let script = if commit.grows() { &self.scripts.commit } else { &self.scripts.commit_in_want };
        let said: Vec<Vec<i64>> = self.write("writing", script, commit.keys(), commit.args()).await?;
        let blocks =
            said.iter().map(|block| Block::of(block).ok_or_else(|| damaged("an answer of a script")));
        blocks.collect()
    }

    async fn noted(&self, whose: Whose, error: RedisError) -> RedisError {
        if is_gone(&error) {
            self.lost(whose).await;
        }
        error
    }

    fn noted_of_waiting(&self, error: RedisError) -> RedisError {
        if is_gone(&error) {
            self.waiting.forget();
        }
        error
    }
}

/// The connection is of no use any more.
pub(super) fn is_gone(error: &RedisError) -> bool {
    error.is_unrecoverable_error() || error.is_io_error()
}

/// Whether a write happened that failed so is not known, unless the server itself refuses it.
fn wrote_or_not(doing: &'static str, error: RedisError) -> Fault {
    let is_in_doubt = error.code().is_none() && is_lost(&error);
    if is_in_doubt { Fault::InDoubt(error) } else { Fault::Redis { doing, error } }
}

async fn invoke<T: FromRedisValue>(
    script: &Script,
    keys: &[String],
    args: &[Vec<u8>],
    connection: &mut MultiplexedConnection,
) -> RedisResult<T> {
    let mut invocation = script.prepare_invoke();
    for key in keys {
        invocation.key(key);
    }
    for arg in args {
        invocation.arg(arg.as_slice());
    }
    invocation.invoke_async(connection).await
}

/// The longest that the making of a connection takes.
pub(super) const LONGEST_CONNECT: Duration = Duration::from_secs(5);
