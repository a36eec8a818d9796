//! One round: some of each operation, after which a store holds what it held before.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use longhaul_store::{
    Batch, Epoch, Filter, Json, NewTask, Outcome, Retention, Scope, Start, TaskId, TaskStore,
};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::bare::{self, Bare};
use crate::held::{self, ARGUMENTS, Held, RESULT};
use crate::usage::{self, Cpu};

/// What one operation took, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Spent {
    /// Of time, with eight callers at once where callers come by themselves.
    time: f64,
    /// Of this process.
    process: f64,
    /// Of the database's.
    database: f64,
}

/// How many call at once.
const CALLERS: u32 = 8;

/// How many a node claims at once.
const CLAIMED: usize = 16;

/// How many tasks a page has.
const PAGE: usize = 50;

/// How many tasks a process asks after whose memory is measured. What was asked after is kept at hand, so they are no more than the
/// smallest store holds: each process then has as many.
const LOOKED_AT: u32 = 1_000;

/// How often what finds nothing is asked.
const IN_VAIN: u32 = 50;

/// Numbers of tasks that only rounds make.
const FRESH: u32 = 1 << 30;

/// Begins to count.
struct Since<'a> {
    held: &'a Held,
    cpu: [Cpu; 2],
    time: Instant,
}

impl<'a> Since<'a> {
    fn now(held: &'a Held) -> Self {
        let cpu = [usage::cpu(&[std::process::id()]), usage::cpu(&held.server)];
        Self { held, cpu, time: Instant::now() }
    }

    fn each(self, operations: u32) -> Spent {
        let time = self.time.elapsed().as_secs_f64() * 1e6;
        let [process, database] = &self.cpu;
        let many = f64::from(operations);
        Spent {
            time: time / many,
            process: usage::between(process, &usage::cpu(&[std::process::id()])) / many,
            database: usage::between(database, &usage::cpu(&self.held.server)) / many,
        }
    }
}

/// Does so many of each operation.
pub(crate) async fn measure(held: &Held, round: usize, many: u32) -> Result<Vec<(&'static str, Spent)>> {
    let (store, first) = (&held.store, FRESH + u32::try_from(round)? * many);
    let mut found = Vec::new();

    let since = Since::now(held);
    at_once(store, first..first + many, create).await?;
    found.push(("create", since.each(many)));

    let since = Since::now(held);
    at_once(store, first..first + many, get).await?;
    found.push(("get, a new task", since.each(many)));

    let since = Since::now(held);
    let tasks = held.tasks;
    at_once(store, first..first + many, move |store, number| get(store, scattered(number, tasks))).await?;
    found.push(("get, any task", since.each(many)));

    let since = Since::now(held);
    let any =
        move |bare: Arc<Bare>, number| async move { bare.read(&held::name(scattered(number, tasks))).await };
    at_once(&held.bare, first..first + many, any).await?;
    found.push(("get, any task, by the driver alone", since.each(many)));

    let since = Since::now(held);
    let pages = (many / 8).max(1);
    for number in first..first + pages {
        list(&**store, number).await?;
    }
    found.push(("list, 50 tasks", since.each(pages * 2)));

    let since = Since::now(held);
    let mut claimed: Vec<(TaskId, Epoch)> = Vec::new();
    while claimed.len() < many as usize {
        let records = store.claim(CLAIMED, None).await?;
        ensure!(!records.is_empty(), "what was created is not there to be claimed");
        claimed.extend(records.into_iter().map(|record| (record.id, record.epoch)));
    }
    found.push(("claim", since.each(many)));

    let since = Since::now(held);
    ensure!(store.renew(&claimed).await?.is_empty(), "a lease was lost");
    found.push(("renew", since.each(many)));

    let since = Since::now(held);
    for _ in 0..IN_VAIN {
        ensure!(store.claim(CLAIMED, None).await?.is_empty(), "something is left to be claimed");
    }
    found.push(("claim, nothing due", since.each(IN_VAIN)));

    let since = Since::now(held);
    let claimed = Arc::new(claimed);
    at_once(store, 0..many, move |store, at| finish(store, Arc::clone(&claimed), at)).await?;
    found.push(("finish", since.each(many)));

    let since = Since::now(held);
    for _ in 0..IN_VAIN {
        ensure!(store.sweep(100).await?.total() == 0, "something was swept");
    }
    found.push(("sweep, nothing due", since.each(IN_VAIN)));

    at_once(store, first..first + many, erase).await?;
    let since = Since::now(held);
    let mut swept = 0;
    while swept < many as usize {
        let total = store.sweep(100).await?.total();
        ensure!(total > 0, "what was erased is not swept");
        swept += total;
    }
    found.push(("sweep", since.each(many)));
    let counts = store.counts().await?;
    ensure!(counts.retained == u64::from(held.tasks), "a round has left {} tasks", counts.retained);
    Ok(found)
}

/// Writes rows as creates do, by the driver alone; told of SQLite, where a create grows. Whatever the store keeps at hand it then
/// takes for outdated, so that this is no part of a round.
pub(crate) async fn write_alone(
    held: &Held,
    round: usize,
    many: u32,
) -> Result<Option<(&'static str, Spent)>> {
    let Bare::Sqlite(connection) = &*held.bare else { return Ok(None) };
    let first = FRESH + u32::try_from(round)? * many;
    let like = first..first + CALLERS;
    at_once(&held.store, like.clone(), create).await?;
    let names: Vec<_> = like.clone().map(held::name).collect();
    let since = Since::now(held);
    bare::write(connection, &names, 0..many)?;
    let spent = since.each(many);
    bare::remove(connection, 0..many)?;
    for record in held.store.claim(CLAIMED, None).await? {
        let outcome = Outcome::result(Json::parse(RESULT)?, false);
        held.store.finish(&record.id, record.epoch, outcome, Batch::new()).await?;
    }
    at_once(&held.store, like, erase).await?;
    ensure!(held.store.sweep(100).await?.total() == CALLERS as usize, "what was erased is not swept");
    Ok(Some(("create, by the driver alone", spent)))
}

/// Reads as callers do who ask after their tasks, some of them, each twice.
pub(crate) async fn look(store: &dyn TaskStore, tasks: u32) -> Result<()> {
    for number in (0..LOOKED_AT).chain(0..LOOKED_AT) {
        let (id, owner) = (held::name(scattered(number, tasks)), held::owner(scattered(number, tasks))?);
        ensure!(store.get(Scope::Owner(&owner), &id).await?.is_some(), "a task is not there");
    }
    for number in 0..50 {
        list(store, number).await?;
    }
    Ok(())
}

/// Has eight callers do something for each number, one after the other each.
async fn at_once<T, F, W>(on: &Arc<T>, numbers: std::ops::Range<u32>, what: F) -> Result<()>
where
    T: ?Sized + Send + Sync + 'static,
    F: Fn(Arc<T>, u32) -> W + Clone + Send + 'static,
    W: Future<Output = Result<()>> + Send,
{
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (on, what, numbers) = (Arc::clone(on), what.clone(), numbers.clone());
        callers.spawn(async move {
            for number in numbers.filter(|number| number % CALLERS == caller) {
                what(Arc::clone(&on), number).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = callers.join_next().await {
        done??;
    }
    Ok(())
}

async fn create(store: Arc<dyn TaskStore>, number: u32) -> Result<()> {
    let mut task = NewTask::new(held::name(number), held::owner(number)?, "test", Json::parse(ARGUMENTS)?);
    task.start = Start::Queued { not_before: store.now() };
    task.retention = Retention::Unlimited;
    store.create(task).await?;
    Ok(())
}

async fn get(store: Arc<dyn TaskStore>, number: u32) -> Result<()> {
    let (id, owner) = (held::name(number), held::owner(number)?);
    ensure!(store.get(Scope::Owner(&owner), &id).await?.is_some(), "task {number} is not there");
    Ok(())
}

/// A page and the one behind it.
async fn list(store: &dyn TaskStore, number: u32) -> Result<()> {
    let (owner, all) = (held::owner(number)?, Filter::all());
    let first = store.list(Scope::Owner(&owner), &all, None, PAGE).await?;
    let second = store.list(Scope::Owner(&owner), &all, first.next.as_ref(), PAGE).await?;
    ensure!(first.tasks.len() == PAGE && second.tasks.len() == PAGE, "a page is not full");
    Ok(())
}

async fn finish(store: Arc<dyn TaskStore>, claimed: Arc<Vec<(TaskId, Epoch)>>, at: u32) -> Result<()> {
    let Some((id, epoch)) = claimed.get(at as usize) else { return Ok(()) };
    store.finish(id, *epoch, Outcome::result(Json::parse(RESULT)?, false), Batch::new()).await?;
    Ok(())
}

async fn erase(store: Arc<dyn TaskStore>, number: u32) -> Result<()> {
    let (id, owner) = (held::name(number), held::owner(number)?);
    store.erase(Scope::Owner(&owner), &id).await?;
    Ok(())
}

/// A task among all, another for each number.
fn scattered(number: u32, tasks: u32) -> u32 {
    (u64::from(number).wrapping_mul(2_654_435_761) % u64::from(tasks)) as u32
}
