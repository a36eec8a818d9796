//! A database that is killed before its log has what it acknowledged.

use std::time::Duration;

use longhaul_store::{Durability, Postgres, Scope, TaskId, TaskStore};
use tokio::{task::spawn_blocking, time::sleep};

use crate::{
    networked::{task, until},
    rig::Server,
};

/// How often what is late may be in the log all the same: it is written every ten seconds, whenever that is.
const TRIES: usize = 5;

/// N6 of `conformance/REQUIREMENTS.md`.
#[tokio::test(flavor = "multi_thread")]
async fn n6_what_the_log_had_not_got_is_lost_as_the_level_says() {
    let start = || {
        let server = Server::start();
        for late in ["synchronous_commit = off", "wal_writer_delay = '10s'"] {
            server.admin(&format!("ALTER SYSTEM SET {late}"));
        }
        server.admin("SELECT pg_reload_conf()");
        server
    };
    let mut server = spawn_blocking(start).await.unwrap();
    let url = server.database();
    let store = loop {
        // It is set so within a moment.
        let store = Postgres::open(&url).await.unwrap();
        if store.durability() == Durability::Process {
            break store;
        }
        sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(store.commits(), "synchronous_commit = off");
    store.create(task("early")).await.unwrap();
    server.admin("CHECKPOINT");
    for number in 0..TRIES {
        let late = format!("late-{number}");
        until(async || store.create(task(&late)).await.is_ok()).await;
        let killed = move || {
            server.kill();
            server.launch();
            server
        };
        server = spawn_blocking(killed).await.unwrap();
        until(async || store.get(Scope::Operator, &id("early")).await.is_ok()).await;
        let found = async |name: &str| store.get(Scope::Operator, &id(name)).await.unwrap().is_some();
        assert!(found("early").await, "what the log had is there");
        if !found(&late).await {
            return;
        }
    }
    panic!("nothing was lost in {TRIES} kills, though nothing waits for the log");
}

fn id(name: &str) -> TaskId {
    TaskId::new(name).unwrap()
}
