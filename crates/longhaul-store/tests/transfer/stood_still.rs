//! A server that stands still while its store is copied, and then goes on.

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
    time::Duration,
};

use longhaul_store::{Scope, StoreError, transfer::TransferError};
use rustix::process::{Pid, Signal, kill_process};

use crate::{copied, id, in_folder, lived, open, postgres, redis, serve, until, until_free};

/// Where the server finds its store, and where it says what it was told.
const SERVED: [&str; 3] = ["LONGHAUL_TEST_SERVED", "LONGHAUL_TEST_MADE", "LONGHAUL_TEST_ENDED"];

/// Not a test: the server. It makes tasks until it is told that the store is out of service.
#[tokio::test]
async fn a_server_that_makes_tasks() {
    let [Ok(url), Ok(made), Ok(ended)] = SERVED.map(std::env::var) else { return };
    let (store, mut made) = (serve(&url).await.unwrap(), fs::File::create(made).unwrap());
    for number in 0.. {
        match store.create(lived::task(&format!("t{number}"))).await {
            Ok(_) => writeln!(made, "t{number}").unwrap(),
            Err(StoreError::OutOfService { .. }) => break,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    fs::write(ended, "ended").unwrap();
}

async fn is_seen_and_then_does_nothing_more(from: String, cut: impl Fn()) {
    let folder = tempfile::tempdir().unwrap();
    let [to, made, ended] = ["to.db", "made", "ended"].map(|name| in_folder(folder.path(), name));
    let mut server = Command::new(std::env::current_exe().unwrap());
    server.args(["--exact", "stood_still::a_server_that_makes_tasks"]).stdout(Stdio::null());
    let mut server = server.envs(SERVED.into_iter().zip([&from, &made, &ended])).spawn().unwrap();
    let said = |at: &str| fs::read_to_string(at).unwrap_or_default();
    until(async || said(&made).lines().count() > 20).await;
    let pid = Pid::from_raw(i32::try_from(server.id()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    cut();
    // Nothing of it is held any more. For all that, it lives.
    let refusal = copied(&from, &to).await.unwrap_err();
    assert!(matches!(refusal, TransferError::InUse { others: 1, .. }), "{refusal:?}");
    let copied = until_free(&from, &to).await;
    kill_process(pid, Signal::CONT).unwrap();
    until(async || !said(&ended).is_empty()).await;
    assert!(server.wait().unwrap().success());
    let (from, to) = (open(&from).await, open(&to).await);
    assert_eq!(from.counts().await.unwrap().retained, copied, "it has made nothing more there");
    for task in said(&made).lines() {
        assert!(to.get(Scope::Operator, &id(task)).await.unwrap().is_some(), "{task} was acknowledged");
    }
}

#[tokio::test]
async fn a_server_on_postgres_that_stood_still_is_seen_and_then_does_nothing_more() {
    let from = postgres::shared().database();
    let cut = || {
        let cut = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
            WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
        postgres::query(&from, cut);
    };
    is_seen_and_then_does_nothing_more(from.clone(), cut).await;
}

#[tokio::test]
async fn a_server_on_redis_that_stood_still_is_seen_and_then_does_nothing_more() {
    let server = redis::Server::start();
    let cut = || {
        for kind in ["normal", "pubsub"] {
            server.ask(&["CLIENT", "KILL", "TYPE", kind]);
        }
    };
    is_seen_and_then_does_nothing_more(server.store(), cut).await;
}
