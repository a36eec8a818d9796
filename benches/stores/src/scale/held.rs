//! A store that holds so many tasks, on a database of its own.

use std::fs;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use longhaul_store::{
    Batch, Fingerprint, Json, Limits, NewTask, Outcome, Owner, Park, PostgresOptions, Question, RedisOptions,
    Settings, SqliteOptions, Step, StepState, TaskId, TaskStore, Time,
};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::bare::Bare;
use crate::{Kind, usage};

#[path = "../../../../crates/longhaul-store/tests/postgres/rig.rs"]
#[expect(clippy::duplicate_mod, reason = "each kind of server is started by the same means")]
#[expect(dead_code, clippy::unwrap_used, reason = "it is made for tests, of what befalls databases, too")]
mod postgres;
#[path = "../../../../crates/longhaul-store/tests/redis/rig.rs"]
#[expect(dead_code, unused_imports, reason = "what befalls servers is for tests")]
mod redis;

/// Owners, who have the tasks in turn: each has more than the pages that are looked at.
pub(crate) const OWNERS: u32 = 8;

/// How many are made in a millisecond of theirs.
const A_MILLISECOND: u32 = 10;

/// Every so manieth is parked.
const PARKED: u32 = 10;

/// How many are written at once.
const AT_ONCE: usize = 256;

/// What every task is called with, and what it comes to.
pub(crate) const ARGUMENTS: &str = r#"{"crate":"crate-17","release":true,"features":["default","sqlite"]}"#;
pub(crate) const RESULT: &str =
    r#"{"content":[{"type":"text","text":"test result: ok. 412 passed; 0 failed; finished in 3.21s"}]}"#;

/// A store, and the database that it is alone on.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) tasks: u32,
    pub(crate) url: String,
    pub(crate) store: Arc<dyn TaskStore>,
    /// The same database, without the store.
    pub(crate) bare: Arc<Bare>,
    /// The processes of its database.
    pub(crate) server: Vec<u32>,
    database: Database,
}

#[derive(Debug)]
enum Database {
    File(TempDir),
    Postgres(postgres::Server),
    Redis(redis::Server),
}

impl Held {
    /// A new one with so many tasks.
    pub(crate) async fn fill(kind: Kind, tasks: u32) -> Result<Self> {
        let me = std::process::id();
        let before = usage::descendants(me);
        let (url, database) = match kind {
            Kind::Sqlite => {
                let folder = tempfile::Builder::new().prefix("longhaul-scale-").tempdir()?;
                (folder.path().join("tasks.db").display().to_string(), Database::File(folder))
            }
            Kind::Postgres => {
                // Its manual recommends a quarter of the memory of the machine; this is what the largest one needs.
                let server = postgres::Server::start_with(["shared_buffers=2GB"]);
                server.admin("ALTER SYSTEM SET synchronous_commit = off");
                server.admin("SELECT pg_reload_conf()");
                (server.empty_database(), Database::Postgres(server))
            }
            Kind::Redis => {
                let server = redis::Server::start();
                server.say(&["CONFIG", "SET", "appendfsync", "no"]);
                (server.store(), Database::Redis(server))
            }
        };
        let store = open(kind, &url).await?;
        let mut writing = JoinSet::new();
        for number in 0..tasks {
            if writing.len() >= AT_ONCE {
                writing.join_next().await.ok_or_else(|| anyhow!("nothing is written"))???;
            }
            writing.spawn(write(Arc::clone(&store), number));
        }
        while let Some(written) = writing.join_next().await {
            written??;
        }
        // From here on what is acknowledged is on disk, as it is where tasks matter.
        match &database {
            Database::File(_) => {}
            Database::Postgres(server) => {
                server.admin("ALTER SYSTEM SET synchronous_commit = on");
                server.admin("SELECT pg_reload_conf()");
                postgres::query(&url, "VACUUM ANALYZE longhaul.tasks");
                server.admin("CHECKPOINT");
            }
            Database::Redis(server) => server.say(&["CONFIG", "SET", "appendfsync", "always"]),
        }
        // Before its processes are counted: it may have one for each connection.
        let bare = Bare::open(kind, &url).await?;
        let server = usage::descendants(me).into_iter().filter(|pid| !before.contains(pid)).collect();
        Ok(Self { tasks, url, store, bare, server, database })
    }

    /// Bytes that its database keeps on disk.
    pub(crate) async fn disk(&self) -> Result<u64> {
        match &self.database {
            Database::File(folder) => size(&folder.path().join("tasks.db")),
            Database::Postgres(_) => {
                let (client, connection) = tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await?;
                let driven = tokio::spawn(connection);
                let row = client.query_one("SELECT pg_database_size(current_database())", &[]).await?;
                drop(client);
                driven.await??;
                Ok(u64::try_from(row.get::<_, i64>(0))?)
            }
            Database::Redis(server) => {
                let said = server.ask(&["INFO", "persistence"]);
                field(&said, "aof_current_size")
            }
        }
    }

    /// Bytes of memory that its database has.
    pub(crate) fn memory(&self) -> Result<u64> {
        match &self.database {
            Database::File(_) => Ok(0),
            Database::Postgres(_) => {
                // One that has ended has none.
                Ok(self.server.iter().filter_map(|pid| usage::resident(*pid).ok()).sum())
            }
            Database::Redis(server) => field(&server.ask(&["INFO", "memory"]), "used_memory"),
        }
    }
}

/// Opens a store that takes more than it is given.
pub(crate) async fn open(kind: Kind, url: &str) -> Result<Arc<dyn TaskStore>> {
    let mut limits = Limits::default();
    (limits.max_open, limits.max_open_per_owner) = (MANY, MANY);
    (limits.max_retained, limits.max_retained_per_owner) = (MANY, MANY);
    let mut settings = Settings::default();
    settings.limits = limits;
    Ok(match kind {
        Kind::Sqlite => Arc::new(SqliteOptions::new().with_settings(settings).open(url)?),
        Kind::Postgres => Arc::new(PostgresOptions::new().with_settings(settings).open(url).await?),
        Kind::Redis => Arc::new(RedisOptions::new().with_settings(settings).open(url).await?),
    })
}

/// The name of a task: as random as real ones are and as close to those that were made with it, so that they lie as those do.
pub(crate) fn name(number: u32) -> TaskId {
    let mix = |seed: u64| {
        let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    let mut bits = [0; 20];
    for (bytes, nth) in bits.chunks_mut(8).zip(0..) {
        bytes.copy_from_slice(&mix(u64::from(number) * 3 + nth).to_be_bytes()[..bytes.len()]);
    }
    TaskId::minted("test", Time::from_unix_ms(i64::from(number / A_MILLISECOND)), bits)
}

/// Whose a task is.
pub(crate) fn owner(number: u32) -> Result<Owner> {
    Ok(Owner::principal(format!("owner-{}", number % OWNERS))?)
}

async fn write(store: Arc<dyn TaskStore>, number: u32) -> Result<()> {
    let task = NewTask::new(name(number), owner(number)?, "test", Json::parse(ARGUMENTS)?);
    let task = store.create(task).await?.into_record();
    // Owners have both kinds: eight does not divide what is counted here.
    if (number / OWNERS).is_multiple_of(PARKED) {
        let key = format!("question-{number}");
        let question = Question::new(key.as_str(), Json::parse(r#"{"message":"Go on?"}"#)?);
        let step = Step::new("ask", Fingerprint::new([7; Fingerprint::LEN]), StepState::Asked(question));
        let later = Time::from_unix_ms(store.now().unix_ms() + WEEK);
        let park = Park::new(vec![key.into()], Some(later));
        store.write(&task.id, task.epoch, Batch::new().with_step(step).with_park(park)).await?;
    } else {
        let outcome = Outcome::result(Json::parse(RESULT)?, false);
        store.finish(&task.id, task.epoch, outcome, Batch::new()).await?;
    }
    Ok(())
}

fn size(file: &std::path::Path) -> Result<u64> {
    Ok(fs::metadata(file).with_context(|| format!("no {}", file.display()))?.len())
}

fn field(said: &str, name: &str) -> Result<u64> {
    let found = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.with_context(|| format!("the server says no {name}"))?.trim().parse().context("it is a number")
}

/// More tasks than are written.
const MANY: u64 = 10_000_000;

/// In milliseconds.
const WEEK: i64 = 7 * 24 * 3_600_000;
