//! The store's time over the lives of processes.

use std::{path::Path, sync::Arc, time::Duration};

use longhaul_store::{EventStore, Owner, Sqlite, SqliteOptions, StepClock, Stream, TaskStore, Time};

use super::create;

const START: Time = Time::from_unix_ms(1_800_000_000_000);
const HOUR: Duration = Duration::from_secs(3600);

fn open_at(path: &Path, clock: &StepClock) -> Sqlite {
    SqliteOptions::new().with_clock(Arc::new(clock.clone())).open(path).expect("the store opens")
}

/// T1, T2 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn a_process_whose_date_is_wrong_goes_on_from_the_stored_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let right = StepClock::at(START);
    let one = open_at(&path, &right);
    right.advance(HOUR);
    let made = create(&one, "t").await;
    assert_eq!(made.created_at, START.after(HOUR));

    let behind = StepClock::at(Time::from_unix_ms(0));
    let two = open_at(&path, &behind);
    assert!(two.now() >= made.created_at);
    behind.advance(HOUR);
    assert!(two.now() >= made.created_at.after(HOUR));
}

#[tokio::test]
async fn a_store_without_a_single_task_keeps_its_time_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let one = open_at(&path, &StepClock::at(START));
    one.append(Stream::new(&Owner::Anonymous, "s", "t"), "sent").await.unwrap();
    let behind = open_at(&path, &StepClock::at(Time::from_unix_ms(0)));
    assert!(behind.now() >= START);
}

#[tokio::test]
async fn what_one_process_stores_is_never_in_anothers_future() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let (slow, fast) = (StepClock::at(START), StepClock::at(START.after(HOUR / 2)));
    let (slow, fast) = (open_at(&path, &slow), open_at(&path, &fast));
    let first = create(&fast, "first").await;
    let second = create(&slow, "second").await;
    assert!(second.created_at >= first.created_at);
}

#[tokio::test]
async fn a_store_kept_shut_for_a_week_knows_the_date() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let clock = StepClock::at(START);
    create(&open_at(&path, &clock), "t").await;
    clock.advance(7 * 24 * HOUR);
    assert_eq!(open_at(&path, &clock).now(), START.after(7 * 24 * HOUR));
}
