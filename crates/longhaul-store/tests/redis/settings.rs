//! What the server must be set to, and what follows from how it is set.

use longhaul_store::{Durability, Redis, RedisOptions, StoreError, TaskStore};

use crate::rig::{Server, shared};

/// N6 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn the_level_is_what_the_server_does() {
    let server = Server::start();
    let url = server.store();
    for (log, sync, level, words) in [
        ("yes", "always", Durability::Disk, "appendfsync = always"),
        ("yes", "everysec", Durability::Process, "appendfsync = everysec"),
        ("no", "always", Durability::Volatile, "appendonly = no"),
    ] {
        server.say(&["CONFIG", "SET", "appendonly", log, "appendfsync", sync]);
        let store = Redis::open(&url).await.unwrap();
        assert_eq!((store.durability(), &*store.commits()), (level, words));
    }
}

#[tokio::test]
async fn a_server_that_throws_away_what_it_keeps_is_refused() {
    let server = Server::with(&["--maxmemory-policy", "allkeys-lru"]);
    let refusal = Redis::open(&server.store()).await.unwrap_err();
    let why = std::error::Error::source(&refusal).map(ToString::to_string).unwrap_or_default();
    assert!(why.contains("set it to noeviction"), "{refusal:?}");
    server.say(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    assert!(Redis::open(&server.store()).await.is_ok());
}

#[tokio::test]
async fn a_replica_is_refused() {
    let server = Server::with(&["--replicaof", "127.0.0.1 1"]);
    let refusal = Redis::open(&server.store()).await.unwrap_err();
    let why = std::error::Error::source(&refusal).map(ToString::to_string).unwrap_or_default();
    assert!(why.contains("a replica"), "{refusal:?}");
}

#[tokio::test]
async fn what_is_no_store_is_left_alone_and_a_newer_one_too() {
    let url = shared().store();
    let name = url.rsplit('=').next().unwrap();
    let format = format!("{{{name}}}:format");
    let found = async || RedisOptions::new().format(&url).await.map(|format| format.found);
    assert_eq!(found().await.unwrap(), None);
    assert_eq!(found().await.unwrap(), None, "whoever looks makes none");
    shared().say(&["SET", &format, "cargo"]);
    let refusal = Redis::open(&url).await.unwrap_err();
    assert!(matches!(refusal, StoreError::Foreign { .. }), "{refusal:?}");
    assert!(matches!(found().await, Err(StoreError::Foreign { .. })));
    shared().say(&["DEL", &format]);
    shared().say(&["HSET", &format, "format", "999", "readable_by", "1"]);
    assert!(Redis::open(&url).await.is_ok(), "it says that this release can go on");
    assert_eq!(found().await.unwrap(), Some(999));
    shared().say(&["HSET", &format, "readable_by", "999"]);
    let refusal = Redis::open(&url).await.unwrap_err();
    assert!(matches!(refusal, StoreError::Newer { found: 999, supported: 1 }), "{refusal:?}");
    assert!(matches!(found().await, Err(StoreError::Newer { .. })));
}

#[tokio::test]
async fn what_no_replica_has_is_not_acknowledged_where_one_must() {
    let url = format!("{}&replicas=1", shared().store());
    let options = RedisOptions::new().with_patience(std::time::Duration::from_millis(500));
    // Its format is the first that is written.
    let refusal = options.open(&url).await.unwrap_err();
    assert!(matches!(refusal, StoreError::Unreachable { .. }), "{refusal:?}");
}
