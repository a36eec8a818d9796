//! How a database gets the format of this release, while nodes of older ones go on with their work.

use std::{pin::pin, sync::Arc, time::Duration};

use refinery::{Migration, Runner, Target};
use tokio::time::{Instant, interval_at, sleep};
use tokio_postgres::{Client, Error, types::Type};

use super::{
    address::Place,
    fault::{Fault, is_collision, is_in_the_way, is_lost},
    link::Direct,
    migrations::{Found, Statement, VERSIONS, look, newest},
};
use crate::{
    StoreError,
    error::{Source, corrupt, said},
};

/// Makes sure that the database has the format of this release, or one that it can work with.
///
/// One node at a time changes anything; the others wait for it, and then find it done. Whoever waits does so for
/// `patience` at most: for another node, or for others that hold the tables.
///
/// # Errors
///
/// [`StoreError::Busy`], [`StoreError::Newer`], [`StoreError::Foreign`], and those of the database.
pub(super) async fn prepare(direct: &Direct, patience: Duration) -> Result<(), StoreError> {
    let gate = direct.connect().await?.client;
    if look(direct, &gate).await? == Found::Current {
        return Ok(());
    }
    if direct.is_pooled {
        let source = said(
            "through a pooler the store's format cannot be changed; open it once directly, without `pooler`",
        );
        return Err(StoreError::Backend { doing: "preparing the store", source });
    }
    // It says nothing for as long as the change takes.
    let lasting = gate.batch_execute("SET idle_session_timeout = 0").await;
    lasting.map_err(|error| direct.place.error(Fault::database("preparing the store", error)))?;
    let until = Instant::now() + patience;
    let mut waiting = Waiting { place: &direct.place, patience, until, told: None };
    while !has_turn(direct, &gate).await? {
        let by = "another node, which brings its format up to date".to_owned();
        waiting.pause(by, said("that node is not done yet")).await?;
        if look(direct, &gate).await? == Found::Current {
            return Ok(());
        }
    }
    let found = look(direct, &gate).await?;
    if found != Found::Current {
        let client = direct.connect().await?.client;
        let failed = |error| direct.place.error(Fault::database("preparing the store", error));
        let row = client.query_typed_one("SELECT pg_backend_pid()", &[]).await.map_err(failed)?;
        let own = row.try_get(0).map_err(failed)?;
        Upgrade { direct, gate, client, own, waiting }.run(found).await?;
        tracing::info!(store = %direct.place, format = newest(), "the store has the format of this release");
    }
    Ok(())
}

/// Takes the turn to change the format, if nobody has it, for as long as the connection lives.
///
/// No statement waits for it: it would see the store as it was when it began, and an index that is built beside others'
/// work is not done before nobody does.
async fn has_turn(direct: &Direct, gate: &Client) -> Result<bool, StoreError> {
    let failed = |error| direct.place.error(Fault::database("waiting for a turn to migrate", error));
    let take = format!("SELECT pg_try_advisory_lock({MIGRATOR})");
    let row = gate.query_typed_one(&take, &[]).await.map_err(failed)?;
    row.try_get(0).map_err(failed)
}

/// A change of the format under way.
struct Upgrade<'a> {
    direct: &'a Direct,
    /// The connection that has the turn.
    gate: Client,
    /// The one on which the change is made.
    client: Client,
    /// What that one is called in the database.
    own: i32,
    waiting: Waiting<'a>,
}

/// A part of it, which is made as a whole or not at all.
enum Part {
    /// What makes the formats up to there.
    Migrations(Target),
    /// A statement of one of them.
    Statement(&'static Statement),
}

impl Upgrade<'_> {
    async fn run(mut self, found: Found) -> Result<(), StoreError> {
        let failed = |error| self.direct.place.error(Fault::database("preparing the store", error));
        // Whoever is to keep the store need not be allowed to make schemas, where somebody made this one.
        let has = "SELECT 1 FROM pg_namespace WHERE nspname = 'longhaul'";
        if self.client.query_opt(has, &[]).await.map_err(failed)?.is_none() {
            self.client.batch_execute("CREATE SCHEMA longhaul").await.map_err(failed)?;
        }
        self.client.batch_execute("SET statement_timeout = 0").await.map_err(failed)?;
        let Found::Older(version) = found else {
            return self.make(Part::Migrations(Target::Latest)).await;
        };
        for (version, number) in VERSIONS.iter().zip(1..).skip(version as usize) {
            for statement in version.beside {
                self.make(Part::Statement(statement)).await?;
                // What it took is no patience with anybody.
                self.waiting.begin();
            }
            let is_made = !version.beside.is_empty();
            let target = if is_made { Target::FakeVersion(number) } else { Target::Version(number) };
            self.make(Part::Migrations(target)).await?;
        }
        Ok(())
    }

    /// Makes a part, as often as others stand in its way.
    async fn make(&mut self, part: Part) -> Result<(), StoreError> {
        let mut collisions = 0;
        loop {
            let Err(source) = self.attempt(&part).await else { return Ok(()) };
            match said_by_database(&*source) {
                // Whoever gives way in a deadlock may have worked for longer than there is patience, and who was in the way gets on.
                Some(error) if is_collision(error) && collisions < MOST_COLLISIONS => {
                    collisions += 1;
                    tracing::debug!(%error, "a change of the store's format gave way, and is made again");
                    sleep(PAUSE).await;
                }
                Some(error) if is_in_the_way(error) => {
                    let by = in_the_way(&self.gate, self.own).await;
                    self.waiting.pause(by, source).await?;
                }
                Some(error) if is_lost(error) => {
                    return Err(StoreError::Unreachable { place: self.direct.place.to_string(), source });
                }
                _ => {
                    return Err(StoreError::Backend {
                        doing: "bringing the store's format up to date",
                        source,
                    });
                }
            }
        }
    }

    /// Tries it once. What takes long is told of.
    async fn attempt(&mut self, part: &Part) -> Result<(), Source> {
        let Self { client, gate, own, waiting, .. } = self;
        let place = waiting.place;
        let patience = match part {
            Part::Statement(Statement::Long(_)) => waiting.left().max(BRIEF),
            _ => BRIEF,
        };
        let making = async {
            // While it waits for a table, all who come after it wait: rather than that, it is tried again.
            let waits = format!("SET lock_timeout = {}", patience.as_millis());
            client.batch_execute(&waits).await.map_err(source)?;
            match part {
                Part::Migrations(target) => {
                    let runner = runner(place).map_err(source)?.set_target(*target);
                    runner.run_async(client).await.map(drop).map_err(source)
                }
                Part::Statement(Statement::Brief(sql)) => client.batch_execute(sql).await.map_err(source),
                Part::Statement(Statement::Long(all)) => {
                    for sql in *all {
                        client.batch_execute(sql).await.map_err(source)?;
                    }
                    Ok(())
                }
            }
        };
        let mut making = pin!(making);
        let mut ticks = interval_at(Instant::now() + TOLD_EVERY, TOLD_EVERY);
        loop {
            tokio::select! {
                made = &mut making => return made,
                _ = ticks.tick() => {
                    let others = in_the_way(gate, *own).await;
                    tracing::warn!(store = %place, others, "the store's format is being brought up to date");
                }
            }
        }
    }
}

fn runner(place: &Place) -> Result<Runner, StoreError> {
    let migrations = VERSIONS.iter().map(|version| Migration::unapplied(version.name, version.sql));
    let migrations = migrations.collect::<Result<Vec<_>, _>>();
    let migrations = migrations.map_err(|error| corrupt(format!("the migrations of {place}: {error}")))?;
    let mut runner =
        Runner::new(&migrations).set_grouped(true).set_abort_divergent(true).set_abort_missing(false);
    runner.set_migration_table_name("longhaul.migrations");
    Ok(runner)
}

fn source(error: impl std::error::Error + Send + Sync + 'static) -> Source {
    Arc::new(error)
}

/// What the database has said, wherever in an error that stands.
fn said_by_database<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e Error> {
    std::iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref())
}

/// Whose transactions have been open for a while, as far as this node may know that: nobody else is in the way for long.
async fn in_the_way(gate: &Client, own: i32) -> String {
    let look = "SELECT string_agg(format('session %s (%s)', pid, coalesce(nullif(application_name, ''), 'no name')), ', ') \
        FROM pg_stat_activity WHERE datname = current_database() AND backend_type IN ('client backend', 'autovacuum worker') \
        AND xact_start < now() - interval '1 second' AND pid <> $1 AND wait_event_type IS DISTINCT FROM 'Lock'";
    let found = gate.query_typed_opt(look, &[(&own, Type::INT4)]).await;
    let named = found.ok().flatten().and_then(|row| row.try_get::<_, Option<String>>(0).ok().flatten());
    named.unwrap_or_else(|| "another transaction on the database".to_owned())
}

/// The patience with whoever stands in the way, of which an operator hears.
struct Waiting<'a> {
    place: &'a Place,
    patience: Duration,
    until: Instant,
    told: Option<Instant>,
}

impl Waiting<'_> {
    fn begin(&mut self) {
        self.until = Instant::now() + self.patience;
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Waits a moment for them.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] once it has lasted too long.
    async fn pause(&mut self, by: String, source: Source) -> Result<(), StoreError> {
        if self.left().is_zero() {
            return Err(StoreError::Busy { by, source });
        }
        if self.told.is_none_or(|told| told.elapsed() >= TOLD_EVERY) {
            let left = self.left().as_secs();
            tracing::warn!(
                store = %self.place, by, left,
                "the store's format cannot be brought up to date yet; it is tried for so many seconds more"
            );
            self.told = Some(Instant::now());
        }
        sleep(PAUSE).await;
        Ok(())
    }
}

/// The advisory lock of whoever changes the format: "longhaul" in ASCII.
const MIGRATOR: i64 = 0x6c6f_6e67_6861_756c;

/// How long a change waits for a table while all others wait behind it. Only after a second (`deadlock_timeout`) does
/// PostgreSQL send an autovacuum away that is in the way.
const BRIEF: Duration = Duration::from_millis(1500);

/// The time between two tries, in which others get on.
const PAUSE: Duration = Duration::from_millis(500);

/// How often a change is made again that gave way in a deadlock, whatever patience is left.
const MOST_COLLISIONS: u32 = 5;

/// How often an operator hears of what takes long.
const TOLD_EVERY: Duration = Duration::from_secs(10);
