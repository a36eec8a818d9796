//! The format of the database, and how it is set.

use longhaul_store::{Durability, Postgres, PostgresOptions, StoreError, TaskStore};

use crate::rig::{query, shared};

#[tokio::test]
async fn nodes_that_meet_over_an_empty_database_make_one_store() {
    let url = shared().empty_database();
    let opens = (0..4).map(|_| {
        let url = url.clone();
        tokio::spawn(async move { Postgres::open(&url).await })
    });
    for open in opens.collect::<Vec<_>>() {
        let store = open.await.unwrap().unwrap();
        assert_eq!(store.counts().await.unwrap().retained, 0);
    }
}

#[tokio::test]
async fn a_newer_store_is_opened_if_it_says_that_this_release_can_go_on() {
    let url = shared().database();
    query(
        &url,
        "INSERT INTO longhaul.migrations SELECT 999, 'later', applied_on, checksum FROM longhaul.migrations LIMIT 1",
    );
    assert!(Postgres::open(&url).await.is_ok());
    query(&url, "UPDATE longhaul.store SET readable_by = 999");
    let refusal = Postgres::open(&url).await.unwrap_err();
    assert!(matches!(refusal, StoreError::Newer { found: 999, supported: 2 }), "{refusal:?}");
}

#[tokio::test]
async fn what_is_no_store_is_left_alone() {
    let url = shared().empty_database();
    query(&url, "CREATE SCHEMA longhaul; CREATE TABLE longhaul.cargo (tons bigint)");
    let refusal = Postgres::open(&url).await.unwrap_err();
    assert!(matches!(refusal, StoreError::Foreign { .. }), "{refusal:?}");
    query(&url, "DROP TABLE longhaul.cargo");
    assert!(Postgres::open(&url).await.is_ok(), "a schema that was made for it is its own");
}

#[tokio::test]
async fn through_a_pooler_no_format_is_changed() {
    let url = shared().empty_database();
    let refusal = PostgresOptions::new().with_pooler(true).open(&url).await.unwrap_err();
    assert!(matches!(refusal, StoreError::Backend { .. }), "{refusal:?}");
}

/// N6 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn the_level_is_what_the_database_does() {
    let url = shared().database();
    let store = Postgres::open(&url).await.unwrap();
    assert_eq!((store.durability(), &*store.commits()), (Durability::Disk, "synchronous_commit = on"));
    drop(store);
    let name = url.rsplit('/').next().unwrap();
    query(&url, &format!("ALTER DATABASE {name} SET synchronous_commit = off"));
    let store = Postgres::open(&url).await.unwrap();
    assert_eq!((store.durability(), &*store.commits()), (Durability::Process, "synchronous_commit = off"));
}
