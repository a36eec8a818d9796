//! A replica that takes over from its server, and has not got everything.

use std::{net::TcpListener, sync::Arc, time::Duration};

use longhaul_store::{Durability, Redis, RedisOptions, Scope, StoreError, TaskId, TaskStore};
use tokio::time::timeout;

use crate::{
    networked::{task, until},
    rig::{Server, until_so},
};

/// N6 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn n6_what_a_replica_has_not_got_is_gone_when_it_takes_over_and_no_store_had_promised_it() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let mut server =
        Server::with(&["--port", &port, "--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0"]);
    let replica = Server::with(&["--replicaof", &format!("127.0.0.1 {port}")]);
    until_so(|| replica.ask(&["INFO", "replication"]).contains("master_link_status:up"));

    let url = server.store();
    let careful = RedisOptions::new().with_patience(Duration::from_secs(10));
    let careful = careful.open(&format!("{url}&replicas=1")).await.unwrap();
    careful.create(task("replicated")).await.unwrap();
    let plain = Redis::open(&url).await.unwrap();
    for store in [&careful, &plain] {
        assert_eq!(store.durability(), Durability::Disk, "of its own disk alone: {}", store.commits());
    }

    // Each takes itself for the one that is written to, as when a network is cut in two.
    replica.say(&["REPLICAOF", "NO", "ONE"]);
    until_so(|| server.ask(&["INFO", "replication"]).contains("connected_slaves:0"));
    plain.create(task("lost")).await.unwrap();
    let refusal = careful.create(task("refused")).await.unwrap_err();
    assert!(matches!(refusal, StoreError::Unreachable { .. }), "it says that no replica has it: {refusal:?}");
    server.kill();

    let after = Redis::open(&replica.store()).await.unwrap();
    let found = async |name| after.get(Scope::Operator, &TaskId::new(name).unwrap()).await.unwrap();
    assert!(found("replicated").await.is_some(), "what was said to be on the replica is there");
    assert!(found("lost").await.is_none(), "this is what a failover costs");
    assert!(found("refused").await.is_none());
}

/// N6 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn n6_which_replica_takes_over_is_not_for_the_store_to_say_so_no_level_is_more_than_a_disk() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let mut server =
        Server::with(&["--port", &port, "--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0"]);
    let [waited_for, other] = [(); 2].map(|()| Server::with(&["--replicaof", &format!("127.0.0.1 {port}")]));
    let follows = |replica: &Server| replica.ask(&["INFO", "replication"]).contains("master_link_status:up");
    until_so(|| follows(&waited_for) && follows(&other));
    let store = Redis::open(&format!("{}&replicas=1", server.store())).await.unwrap();
    store.create(task("early")).await.unwrap();
    until_so(|| other.ask(&["EXISTS", "{t0}:task:early"]) == ":1");

    other.say(&["REPLICAOF", "NO", "ONE"]);
    store.create(task("late")).await.unwrap();
    assert_eq!((store.durability(), &*store.commits()), (Durability::Disk, "appendfsync = always, WAIT 1"));
    server.kill();

    let after = Redis::open(&other.store()).await.unwrap();
    let found = async |name| after.get(Scope::Operator, &TaskId::new(name).unwrap()).await.unwrap();
    assert!(found("early").await.is_some());
    assert!(found("late").await.is_none(), "a replica had it, and another took over");
}

#[tokio::test]
async fn while_writes_wait_for_a_replica_a_node_reads_keeps_its_leases_and_is_known_to_live() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let server = Server::with(&["--port", &port, "--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0"]);
    let replica = Server::with(&["--replicaof", &format!("127.0.0.1 {port}")]);
    until_so(|| replica.ask(&["INFO", "replication"]).contains("master_link_status:up"));
    // Longer than anything here is waited for.
    let patient = RedisOptions::new().with_patience(Duration::from_secs(600)).with_waiting(2);
    let store = Arc::new(patient.open(&format!("{}&replicas=1", server.store())).await.unwrap());
    let held = store.create(task("held")).await.unwrap().into_record();
    replica.say(&["REPLICAOF", "NO", "ONE"]);
    until_so(|| server.ask(&["INFO", "replication"]).contains("connected_slaves:0"));

    let writes = (0..5).map(|number| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.create(task(&format!("t{number}"))).await })
    });
    let writes: Vec<_> = writes.collect();
    let waiting = || server.ask(&["INFO", "clients"]).contains("blocked_clients:2");
    until(async || waiting()).await;
    let before = store.alive_until().unwrap();
    let goes_on = async {
        assert!(store.get(Scope::Operator, &held.id).await.unwrap().is_some());
        assert!(store.renew(&[(held.id.clone(), held.epoch)]).await.unwrap().is_empty());
        until(async || store.alive_until().unwrap() > before).await;
        assert!(store.claim(10, None).await.unwrap().is_empty());
    };
    timeout(Duration::from_secs(60), goes_on).await.expect("none of it waits for a replica");
    assert!(
        waiting() && writes.iter().all(|write| !write.is_finished()),
        "no more than two wait there at once"
    );
    writes.iter().for_each(tokio::task::JoinHandle::abort);
}
