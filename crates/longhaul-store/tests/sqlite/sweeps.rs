//! What a sweep can do nothing to.

use std::{sync::Arc, time::Duration};

use longhaul_store::{
    Batch, Clock as _, Fingerprint, NewChild, NewTask, Retention, Scope, SqliteOptions, Start, StepClock,
    StoreError, TaskStore, Time,
};

use super::{create, id, task};

/// As many of each kind as a sweep looks at, and behind them one more.
#[tokio::test]
async fn tasks_that_cannot_be_ended_keep_no_other_from_its_end() {
    const AT_A_TIME: usize = 16;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let clock = StepClock::at(Time::from_unix_ms(1_800_000_000_000));
    let store = SqliteOptions::new().with_clock(Arc::new(clock.clone())).open(&path).unwrap();
    let brief = |name: &str, seconds: u64| -> NewTask {
        let mut brief = task(name, 2);
        brief.retention = Retention::FromCreation(Duration::from_secs(seconds));
        brief.start = Start::Queued { not_before: clock.wall() };
        brief
    };
    let parent = create(&store, "parent").await;
    let of = Fingerprint::new([1; Fingerprint::LEN]);
    for number in 0..AT_A_TIME {
        // What cannot be told to the task that made one keeps it from its end, and what cannot be read keeps it from that, too.
        let child = NewChild::new(format!("s{number}"), of, brief(&format!("child{number}"), 1));
        store.write(&parent.id, parent.epoch, Batch::new().with_child(child)).await.unwrap();
        store.create(brief(&format!("unread{number}"), 1)).await.unwrap();
        store.create(brief(&format!("nobodys{number}"), 1)).await.unwrap();
    }
    let last = store.create(brief("last", 2)).await.unwrap().into_record();
    let conn = rusqlite::Connection::open(&path).unwrap();
    for damage in [
        "UPDATE steps SET state = 99",
        "UPDATE tasks SET rerun = 99 WHERE id LIKE 'unread%'",
        "UPDATE tasks SET id = '../' || id WHERE id LIKE 'nobodys%'",
    ] {
        assert_eq!(conn.execute(damage, []).unwrap(), AT_A_TIME);
    }
    clock.advance(Duration::from_secs(10));
    let mut expired = Vec::new();
    for _ in 0..4 {
        match store.sweep(AT_A_TIME).await {
            Ok(swept) => expired.extend(swept.expired),
            Err(StoreError::Corrupt { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(expired, std::slice::from_ref(&last.id));
    assert!(
        store.get(Scope::Operator, &id("child0")).await.unwrap().is_none_or(|child| !child.is_terminal())
    );
    // What was mended meanwhile has its turn.
    conn.execute("UPDATE tasks SET rerun = 0 WHERE id LIKE 'unread%'", []).unwrap();
    clock.advance(Duration::from_secs(200));
    let mut expired = 0;
    for _ in 0..4 {
        expired += store.sweep(AT_A_TIME).await.map_or(0, |swept| swept.expired.len());
    }
    assert_eq!(expired, AT_A_TIME);
}
