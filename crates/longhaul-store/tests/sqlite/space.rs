//! A disk that is full: refused by name, nothing acknowledged that is not kept, and on again once there is room.

use std::{collections::BTreeMap, time::Duration};

use longhaul_store::{
    Batch, Cancellation, Finished, Json, Outcome, Record, Retention, Scope, Sqlite, StoreError, TaskStore,
};

use super::{
    create, get, id,
    mount::{Tmpfs, remove},
    open, task,
};

#[tokio::test]
async fn a_full_disk_refuses_creates_and_forgets_none_it_took() {
    let disk = Tmpfs::of(1 << 20);
    let path = disk.path().join("tasks.db");
    let store = open(&path);
    let mut kept = BTreeMap::new();
    let mut refused = 0;
    for number in 0..100 {
        let name = format!("t{number}");
        match store.create(task(&name, 20_000)).await {
            Ok(created) => {
                kept.insert(name, created.into_record());
            }
            Err(error) => {
                assert!(matches!(&error, StoreError::Full { place, .. } if *place == path), "{error:?}");
                assert!(error.is_retryable());
                assert_eq!(get(&store, &name).await, None);
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && !kept.is_empty(), "{refused} refused, {} kept", kept.len());
    check(&store, &kept).await;
    drop(store);
    check(&open(&path), &kept).await;
}

/// K28 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn every_write_on_a_full_disk_is_kept_or_refused() {
    let disk = Tmpfs::of(1 << 20);
    let path = disk.path().join("tasks.db");
    let mut refused = 0;
    for room in [0, 4096, 8192, 16384, 40960] {
        let store = open(&path);
        let prefix = format!("r{room}");
        let mut kept = BTreeMap::new();
        for name in ["write", "finish", "release", "cancel", "expire", "keep"] {
            let mut new = task(&format!("{prefix}-{name}"), 500);
            if name == "expire" {
                new.retention = Retention::FromCreation(Duration::ZERO);
            }
            let made = store.create(new).await.unwrap().into_record();
            kept.insert(made.id.to_string(), made);
        }
        let filler = disk.fill_up(room);
        refused += try_all(&store, &prefix, &mut kept).await;
        check(&store, &kept).await;
        remove(&filler);
        check(&store, &kept).await;
        create(&store, &format!("{prefix}-after")).await;
        drop(store);
        check(&open(&path), &kept).await;
    }
    assert!(refused > 5, "only {refused} writes were refused");
}

#[tokio::test]
async fn one_huge_write_does_not_take_small_ones_with_it() {
    let disk = Tmpfs::of(1 << 20);
    let store = open(&disk.path().join("tasks.db"));
    let huge = store.create(task("huge", 2_000_000));
    let small: [_; 8] = std::array::from_fn(|number| store.create(task(&format!("small{number}"), 10)));
    let [a, b, c, d, e, f, g, h] = small;
    let (huge, a, b, c, d, e, f, g, h) = tokio::join!(huge, a, b, c, d, e, f, g, h);
    assert!(matches!(huge, Err(StoreError::Full { .. })), "{huge:?}");
    for (number, small) in [a, b, c, d, e, f, g, h].into_iter().enumerate() {
        let made = small.unwrap_or_else(|error| panic!("small{number}: {error:?}")).into_record();
        assert_eq!(get(&store, &format!("small{number}")).await, Some(made));
    }
    assert_eq!(store.counts().await.unwrap().open, 8);
}

#[test]
fn a_disk_full_from_the_start_is_named() {
    let disk = Tmpfs::of(256 << 10);
    let filler = disk.fill_up(0);
    let refusal = Sqlite::open(disk.path().join("tasks.db")).unwrap_err();
    assert!(matches!(refusal, StoreError::Full { .. }), "{refusal:?}");
    remove(&filler);
    open(&disk.path().join("tasks.db"));
}

/// Makes every kind of write once; notes what was acknowledged and counts what was refused.
async fn try_all(store: &Sqlite, prefix: &str, kept: &mut BTreeMap<String, Record>) -> usize {
    let name = |kind: &str| format!("{prefix}-{kind}");
    let now = |kept: &BTreeMap<String, Record>, kind: &str| kept[&name(kind)].clone();
    let mut refused = 0;
    let mut note =
        |kept: &mut BTreeMap<String, Record>, result: Result<Option<Record>, StoreError>| match result {
            Ok(Some(record)) => drop(kept.insert(record.id.to_string(), record)),
            Ok(None) => {}
            Err(error) => {
                assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
                refused += 1;
            }
        };
    for round in 0..3 {
        let it = now(kept, "write");
        let report = Batch::new().with_status_message(format!("round {round}"));
        let written = store.write(&it.id, it.epoch, report).await;
        let read = get(store, it.id.as_str()).await;
        note(kept, written.map(|_| read));
        let held = [(it.id.clone(), it.epoch)];
        let renewed = store.renew(&held).await;
        let read = get(store, it.id.as_str()).await;
        note(
            kept,
            renewed.map(|fenced| {
                assert!(fenced.is_empty());
                read
            }),
        );
    }
    let it = now(kept, "finish");
    let outcome = Outcome::result(Json::parse(format!("\"{}\"", "y".repeat(6000))).unwrap(), false);
    let finished = store.finish(&it.id, it.epoch, outcome, Batch::new()).await;
    note(kept, finished.map(Finished::into_record).map(Some));
    let it = now(kept, "release");
    note(kept, store.release(&it.id, it.epoch).await.map(Some));
    let claimed = store.claim(1, None).await;
    note(kept, claimed.map(|claimed| claimed.into_iter().next()));
    let cancelled = store.request_cancel(Scope::Operator, &id(&name("cancel")), None).await;
    note(
        kept,
        cancelled.map(|cancelled| match cancelled {
            Cancellation::Cancelled(record) => Some(record),
            other => panic!("it was open: {other:?}"),
        }),
    );
    let swept = store.sweep(10).await;
    let read = get(store, &name("expire")).await;
    note(
        kept,
        swept.map(|swept| {
            assert_eq!(swept.expired, [id(&name("expire"))]);
            read
        }),
    );
    for number in 0..5 {
        let created = store.create(task(&name(&format!("new{number}")), 3000)).await;
        note(kept, created.map(|created| Some(created.into_record())));
    }
    refused
}

/// Every task is as it was last acknowledged.
async fn check(store: &Sqlite, kept: &BTreeMap<String, Record>) {
    for (name, record) in kept {
        assert_eq!(get(store, name).await.as_ref(), Some(record), "{name}");
    }
}
