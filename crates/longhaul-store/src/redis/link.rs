//! The connection on which operations run.

use std::{fmt, time::Duration};

use ::redis::{
    AsyncConnectionConfig, Client, FromRedisValue, Pipeline, RedisError, RedisResult, Script,
    aio::MultiplexedConnection,
};
use tokio::sync::Mutex;

use super::{
    commit::{Block, Commit},
    fault::{Fault, damaged, is_lost},
};

/// A connection that all share, and that is made again when it is lost.
pub(super) struct Link {
    client: Client,
    patience: Duration,
    /// Each with its number, so that nobody throws away one that is newer than the one they had.
    connection: Mutex<(u64, Option<MultiplexedConnection>)>,
    replicas: usize,
    scripts: Scripts,
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
    pub(super) fn new(client: Client, patience: Duration, replicas: usize) -> Self {
        let commit = include_str!("commit.lua");
        let scripts = Scripts { commit: script(commit), commit_in_want: script_in_want(commit) };
        Self { client, patience, connection: Mutex::new((0, None)), replicas, scripts }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    async fn take(&self) -> RedisResult<(u64, MultiplexedConnection)> {
        let mut held = self.connection.lock().await;
        if let (number, Some(connection)) = &*held {
            return Ok((*number, connection.clone()));
        }
        let how = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.patience.min(LONGEST_CONNECT)))
            .set_response_timeout(Some(self.patience));
        let made = self.client.get_multiplexed_async_connection_with_config(&how).await?;
        *held = (held.0 + 1, Some(made.clone()));
        Ok((held.0, made))
    }

    async fn lost(&self, number: u64) {
        let mut held = self.connection.lock().await;
        if held.0 == number {
            held.1 = None;
        }
    }

    /// The connection has just been seen to be gone.
    pub(super) async fn forget(&self) {
        self.connection.lock().await.1 = None;
    }

    /// Asks several things at once, each at a moment of its own.
    pub(super) async fn ask<T: FromRedisValue>(
        &self,
        doing: &'static str,
        asked: &Pipeline,
    ) -> Result<T, Fault> {
        let failed = |error| Fault::Redis { doing, error };
        let (number, mut connection) = self.take().await.map_err(failed)?;
        match asked.query_async(&mut connection).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(failed(self.noted(number, error).await)),
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
        let (number, mut connection) = self.take().await.map_err(failed)?;
        match invoke(script, keys, args, &mut connection).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(failed(self.noted(number, error).await)),
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
        let (number, mut connection) = self.take().await.map_err(|error| Fault::Redis { doing, error })?;
        match invoke(script, keys, args, &mut connection).await {
            Ok(answer) => {
                self.replicated(&mut connection).await?;
                Ok(answer)
            }
            Err(error) => {
                let error = self.noted(number, error).await;
                // What the server itself refuses has not happened.
                let is_in_doubt = error.code().is_none() && is_lost(&error);
                Err(if is_in_doubt { Fault::InDoubt(error) } else { Fault::Redis { doing, error } })
            }
        }
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

    /// Waits until so many replicas have what this connection has written.
    async fn replicated(&self, connection: &mut MultiplexedConnection) -> Result<(), Fault> {
        if self.replicas == 0 {
            return Ok(());
        }
        let patience = (self.patience / 2).as_millis() as u64;
        let mut wait = ::redis::cmd("WAIT");
        let asked: RedisResult<usize> = wait.arg(self.replicas).arg(patience).query_async(connection).await;
        match asked {
            Ok(reached) if reached >= self.replicas => Ok(()),
            Ok(reached) => {
                let why = format!("written, but {reached} replicas of {} have it", self.replicas);
                Err(Fault::InDoubt(std::io::Error::other(why).into()))
            }
            Err(error) => Err(Fault::InDoubt(error)),
        }
    }

    async fn noted(&self, number: u64, error: RedisError) -> RedisError {
        if error.is_unrecoverable_error() || error.is_io_error() {
            self.lost(number).await;
        }
        error
    }
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
const LONGEST_CONNECT: Duration = Duration::from_secs(5);
