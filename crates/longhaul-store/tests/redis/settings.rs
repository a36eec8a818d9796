//! What the server must be set to, and what follows from how it is set.

use longhaul_store::{Durability, Redis, RedisOptions, Scope, StoreError, TaskId, TaskStore};

use crate::{
    networked::task,
    rig::{Server, free_port, shared, until_so},
};

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

/// N6 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn n6_what_is_there_when_the_server_was_killed_is_what_the_level_says() {
    for (settings, level, is_there) in [
        (["--appendonly", "yes", "--appendfsync", "always"], Durability::Disk, true),
        // Its machine has it, and loses it with its power.
        (["--appendonly", "yes", "--appendfsync", "no"], Durability::Process, true),
        (["--appendonly", "no", "--appendfsync", "always"], Durability::Volatile, false),
    ] {
        let mut server = Server::with(&settings);
        let url = server.store();
        let store = Redis::open(&url).await.unwrap();
        assert_eq!(store.durability(), level, "{}", store.commits());
        store.create(task("late")).await.unwrap();
        server.kill();
        server.launch();
        let after = Redis::open(&url).await.unwrap();
        let found = after.get(Scope::Operator, &TaskId::new("late").unwrap()).await.unwrap();
        assert_eq!(found.is_some(), is_there, "{level:?}");
    }
}

#[tokio::test]
async fn a_store_that_another_node_of_a_cluster_has_is_said_to_be_there() {
    let node = || {
        let [port, bus] = [free_port().to_string(), free_port().to_string()];
        let words =
            ["--cluster-enabled", "yes", "--bind", "127.0.0.1", "--port", &port, "--cluster-port", &bus];
        (Server::with(&words), port, bus)
    };
    let ((one, ..), (other, port, bus)) = (node(), node());
    one.say(&["CLUSTER", "ADDSLOTSRANGE", "0", "8191"]);
    other.say(&["CLUSTER", "ADDSLOTSRANGE", "8192", "16383"]);
    one.say(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
    until_so(|| {
        [&one, &other].iter().all(|node| node.ask(&["CLUSTER", "INFO"]).contains("cluster_state:ok"))
    });
    let (mut here, mut there) = (0, 0);
    while here == 0 || there == 0 {
        let url = one.store();
        let tag = url.rsplit('=').next().unwrap();
        let slot = one.ask(&["CLUSTER", "KEYSLOT", tag]);
        if slot.trim_start_matches(':').parse::<u32>().unwrap() < 8192 {
            Redis::open(&url).await.unwrap();
            here += 1;
            continue;
        }
        let refusal = Redis::open(&url).await.unwrap_err();
        let why = std::error::Error::source(&refusal).map(ToString::to_string).unwrap_or_default();
        assert!(
            why.contains("another node of this cluster has the store") && why.contains(&port),
            "{refusal:?}"
        );
        there += 1;
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
