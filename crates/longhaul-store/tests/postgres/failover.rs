//! A standby that takes over, and what it has then.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use longhaul_store::{Durability, Postgres, PostgresOptions, Scope, StoreError, TaskId, TaskStore};
use tokio::task::spawn_blocking;

use crate::{
    networked::{outages::Kept, task, until},
    rig::{Server, query, try_query},
};

/// A database and its standby, as their nodes know them.
struct Pair {
    first: Server,
    standby: Server,
    database: String,
}

impl Pair {
    /// Each commit waits until the standby has it, or none does.
    async fn start(is_synchronous: bool) -> Self {
        let made = move || {
            let first = Server::start();
            let standby = first.standby();
            let database = first.database().rsplit('/').next().unwrap().to_owned();
            if is_synchronous {
                first.admin("ALTER SYSTEM SET synchronous_standby_names = '*'");
                first.admin("SELECT pg_reload_conf()");
            }
            Self { first, standby, database }
        };
        let pair = spawn_blocking(made).await.unwrap();
        let state = if is_synchronous { "sync" } else { "async" };
        let follows = format!("SELECT 1 / count(*) FROM pg_stat_replication WHERE sync_state = '{state}'");
        until(async || try_query(&pair.first.url("postgres"), &follows)).await;
        pair
    }

    async fn node(&self) -> Postgres {
        let url =
            format!("postgres://tester@{},{}/{}", self.first.host(), self.standby.host(), self.database);
        let options = PostgresOptions::new().with_connections(4).with_patience(Duration::from_secs(2));
        options.open(&url).await.unwrap()
    }

    /// Waits until the standby has all that its first has.
    async fn is_even(&self) {
        let even =
            "SELECT 1 / count(*) FROM pg_stat_replication WHERE replay_lsn >= pg_current_wal_flush_lsn()";
        until(async || try_query(&self.first.url("postgres"), even)).await;
    }

    /// The first is gone for good, and the other takes over.
    async fn fail_over(mut self) -> Self {
        let over = move || {
            self.first.kill();
            query(&self.standby.url("postgres"), "SELECT pg_promote()");
            self
        };
        spawn_blocking(over).await.unwrap()
    }

    async fn without_standby(mut self) -> Self {
        let away = move || {
            self.standby.kill();
            self
        };
        spawn_blocking(away).await.unwrap()
    }

    async fn with_standby(mut self) -> Self {
        let back = move || {
            self.standby.launch();
            self
        };
        spawn_blocking(back).await.unwrap()
    }
}

async fn is_there(store: &Postgres, name: &str) -> bool {
    matches!(store.get(Scope::Operator, &TaskId::new(name).unwrap()).await, Ok(Some(_)))
}

/// N6 of `conformance/REQUIREMENTS.md`.
#[tokio::test(flavor = "multi_thread")]
async fn n6_nothing_that_was_acknowledged_is_lost_where_a_standby_must_have_it() {
    let pair = Pair::start(true).await;
    let store = Arc::new(pair.node().await);
    assert_eq!(store.durability(), Durability::Replicated, "{}", store.commits());
    let kept = Arc::new(Kept::default());
    let workers: Vec<_> = (0..4)
        .map(|worker| tokio::spawn(Arc::clone(&kept).work(Arc::clone(&store) as Arc<dyn TaskStore>, worker)))
        .collect();
    until(async || kept.acknowledged() > 50).await;
    let _pair = pair.fail_over().await;
    let before = kept.acknowledged();
    until(async || kept.acknowledged() > before + 20).await;
    kept.stop.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.unwrap();
    }
    kept.is_all_in(&*store).await;
    // One machine is left, and whoever asks is told so. Whether anybody was told of an error meanwhile is chance: what had not
    // been sent yet is sent again.
    until(async || store.durability() == Durability::Disk).await;
}

/// N6 of `conformance/REQUIREMENTS.md`.
#[tokio::test(flavor = "multi_thread")]
async fn n6_nothing_is_acknowledged_or_seen_while_no_standby_has_it() {
    let pair = Pair::start(true).await;
    let store = pair.node().await;
    let pair = pair.without_standby().await;
    let refusal = store.create(task("late")).await.unwrap_err();
    assert!(matches!(refusal, StoreError::Unreachable { .. }) && refusal.is_retryable(), "{refusal:?}");
    assert!(!is_there(&store, "late").await, "whoever makes the call again would be told that it is kept");
    let _pair = pair.with_standby().await;
    until(async || is_there(&store, "late").await).await;
}

/// N6 of `conformance/REQUIREMENTS.md`.
#[tokio::test(flavor = "multi_thread")]
async fn n6_what_no_standby_had_is_lost_as_the_level_says() {
    let pair = Pair::start(false).await;
    let store = pair.node().await;
    assert_eq!((store.durability(), &*store.commits()), (Durability::Disk, "synchronous_commit = on"));
    store.create(task("early")).await.unwrap();
    pair.is_even().await;
    let pair = pair.without_standby().await;
    store.create(task("late")).await.unwrap();
    // It comes back when there is nobody to follow any more.
    let mut pair = pair;
    let over = move || {
        pair.first.kill();
        pair.standby.launch();
        query(&pair.standby.url("postgres"), "SELECT pg_promote()");
        pair
    };
    let _pair = spawn_blocking(over).await.unwrap();
    until(async || is_there(&store, "early").await).await;
    assert!(!is_there(&store, "late").await, "it was on one disk, as the level says");
    // The node goes on with what there is.
    until(async || store.create(task("late")).await.is_ok()).await;
}
