//! The format of the database, and how it is set.

use std::time::Duration;

use longhaul_store::{
    Batch, Durability, Fingerprint, Json, Outcome, Postgres, PostgresOptions, Retention, Scope, SeenStep,
    Settings, Start, Step, StepState, StoreError, TaskId, TaskStore,
};

use crate::{
    networked::task,
    rig::{query, shared, try_query},
};

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
    assert!(matches!(refusal, StoreError::Newer { found: 999, supported: 5 }), "{refusal:?}");
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

#[tokio::test]
async fn a_damaged_row_keeps_no_other_from_being_forgotten() {
    let url = shared().database();
    let mut settings = Settings::default();
    settings.min_result_retention = Duration::ZERO;
    let store = PostgresOptions::new().with_settings(settings).open(&url).await.unwrap();
    let damages = [
        ("owner", "'\\xff'::bytea"),
        ("nth", "-1"),
        ("phase", "77"),
        ("rerun", "-1"),
        ("arguments", "'{'"),
        ("spells", "'{'"),
    ];
    // The damaged ones are due first, and are among the same few.
    let names = damages.iter().map(|(column, _)| *column).chain(["sound", "sound-too"]);
    for name in names {
        let mut new = task(name);
        new.retention = Retention::AfterTerminal(Duration::ZERO);
        let made = store.create(new).await.unwrap().into_record();
        let outcome = Outcome::result(Json::parse("{}").unwrap(), false);
        store.finish(&made.id, made.epoch, outcome, Batch::new()).await.unwrap();
    }
    for (column, value) in damages {
        query(&url, &format!("UPDATE longhaul.tasks SET {column} = {value} WHERE id = '{column}'"));
    }
    let swept = store.sweep(100).await.unwrap();
    assert_eq!(swept.erased, 2);
    for name in ["sound", "sound-too"] {
        assert!(store.get(Scope::Operator, &TaskId::new(name).unwrap()).await.unwrap().is_none(), "{name}");
    }
    for (column, value) in damages {
        let kept = format!("(SELECT {column} = {value} FROM longhaul.tasks WHERE id = '{column}')");
        assert!(try_query(&url, &format!("DO $$ BEGIN ASSERT {kept}; END $$")), "{column} is left as it is");
    }
    assert_eq!(store.sweep(100).await.unwrap().erased, 0);
}

#[tokio::test]
async fn a_task_whose_id_is_damaged_keeps_no_other_from_its_worker_or_its_end() {
    let url = shared().database();
    let store = Postgres::open(&url).await.unwrap();
    for name in ["nameless", "sound", "brief", "brief-too"] {
        let mut new = task(name);
        new.start = Start::Queued { not_before: store.now() };
        if name.starts_with("brief") {
            new.retention = Retention::FromCreation(Duration::ZERO);
        }
        store.create(new).await.unwrap();
    }
    query(&url, "UPDATE longhaul.tasks SET id = '../' || id WHERE id IN ('nameless', 'brief')");
    let expired = store.sweep(100).await.unwrap().expired;
    assert_eq!(expired.iter().map(TaskId::as_str).collect::<Vec<_>>(), ["brief-too"]);
    let claimed = store.claim(100, None).await.unwrap();
    assert_eq!(claimed.iter().map(|claim| claim.id.as_str()).collect::<Vec<_>>(), ["sound"]);
}

#[tokio::test]
async fn steps_of_an_earlier_release_are_read_without_their_times() {
    let url = shared().database();
    let store = Postgres::open(&url).await.unwrap();
    let mut new = task("t");
    let of = Fingerprint::new([1; Fingerprint::LEN]);
    let learnt = StepState::learnt(Json::parse("1").unwrap());
    new.steps = vec![Step::new("begun", of, StepState::Begun), Step::new("learnt", of, learnt)];
    let made = store.create(new.clone()).await.unwrap().into_record();
    let times = async || {
        let steps = store.steps(&made.id, made.epoch).await.unwrap();
        let seen = store.seen_steps(Scope::Operator, &made.id, 0, 10).await.unwrap().unwrap();
        assert_eq!(seen.steps, steps.iter().map(SeenStep::of).collect::<Vec<_>>());
        steps.iter().map(|step| (step.began_at.is_some(), step.learnt_at.is_some())).collect::<Vec<_>>()
    };
    assert_eq!(times().await, [(true, false), (false, true)]);
    query(&url, "UPDATE longhaul.steps SET asked_at = NULL, until = NULL");
    assert_eq!(times().await, [(false, false), (false, false)]);
    // What it had begun is learnt by this one.
    let learnt = StepState::learnt(Json::parse("1").unwrap());
    let report = Batch::new().with_step(Step::new("begun", of, learnt));
    store.write(&made.id, made.epoch, report).await.unwrap();
    assert_eq!(times().await, [(false, true), (false, false)]);
}
