//! Copies that are broken off, given up, or meddled with.

use std::{path::Path, time::Duration};

use longhaul_store::{
    EntryKey, EventStore as _, Json, NewTask, Owner, Registry as _, Scope, Settings, Sqlite, SqliteOptions,
    StoreError, Stream, TaskStore as _, Value,
    transfer::{Copied, Mark, Place, Progress, Transfer, TransferError, copy},
};

use crate::{copied, given_up, id, in_folder, lived, mark, open, postgres, redis, refused};

/// Breaks a copy off once it is as far as this.
async fn broken_off(from: &str, to: &str, is_far: impl Fn(Progress) -> bool + Send + Sync + 'static) {
    let (one, other) = (open(from).await, open(to).await);
    let names = (from.to_owned(), to.to_owned());
    let broken_off = tokio::spawn(async move {
        let (one, other) = (Place { name: &names.0, store: &*one }, Place { name: &names.1, store: &*other });
        copy(one, other, &mut |progress| assert!(!is_far(progress), "it is broken off")).await
    });
    assert!(broken_off.await.unwrap_err().is_panic());
}

/// Copies, and has somebody else do something to both once it is as far as this.
async fn disturbed(
    from: &str,
    to: &str,
    is_far: impl Fn(Progress) -> bool + Sync,
    disturb: impl AsyncFn(&dyn Transfer, &dyn Transfer) + Sync,
) -> Result<Copied, TransferError> {
    let (one, other) = (open(from).await, open(to).await);
    let (one, other) = (Place { name: from, store: &*one }, Place { name: to, store: &*other });
    let mut is_disturbed = false;
    let mut tell = |progress: Progress| {
        if !is_disturbed && is_far(progress) {
            is_disturbed = true;
            // Nothing here needs the runtime that stands still meanwhile.
            redis::block_on(disturb(one.store, other.store));
        }
    };
    let copied = copy(one, other, &mut tell).await;
    assert!(is_disturbed);
    copied
}

/// The server's own entry by which a store is out of service.
fn own() -> EntryKey<'static> {
    EntryKey::of_server("transfer", "mark")
}

#[tokio::test]
async fn what_is_left_of_a_copy_that_was_given_up_is_not_copied_over() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (in_folder(folder.path(), "tasks.db"), postgres::shared().database());
    lived::through(&Sqlite::open(&from).unwrap()).await;
    broken_off(&from, &to, |progress| progress.done.tasks > 0).await;
    let busy = open(&from).await;
    for refusal in [copied(&from, &to).await.map(drop), given_up(&from, &to).await.map(drop)] {
        assert!(matches!(refusal, Err(TransferError::InUse { .. })), "{refusal:?}");
    }
    drop(busy);
    let unfinished = Some(Mark::CopyOf(from.clone()));
    assert_eq!(refused(&to).await, unfinished, "still, though it was not gone on with");
    assert!(given_up(&from, &to).await.unwrap());
    assert!(!given_up(&from, &to).await.unwrap(), "there is nothing left to give up");
    let store = Sqlite::open(&from).unwrap();
    store.request_cancel(Scope::Operator, &id("full"), None).await.unwrap();
    drop(store);
    let refusal = copied(&from, &to).await.unwrap_err();
    assert!(matches!(refusal, TransferError::NotEmpty { .. }), "{refusal:?}");
    assert!(refused(&from).await.is_none(), "and nothing was taken out of service for it");
    assert_eq!(refused(&to).await, unfinished, "it is never served");
}

#[tokio::test]
async fn whether_a_copy_is_whole_is_known_though_it_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let from = in_folder(folder.path(), "tasks.db");
    let many = lived::through(&Sqlite::open(&from).unwrap()).await;
    let to = in_folder(folder.path(), "to.db");
    let lose = || {
        std::fs::remove_file(&to).unwrap();
        for beside in ["-wal", "-shm"] {
            // It may have gone with the last who had the store open.
            let _gone_or_not = std::fs::remove_file(format!("{to}{beside}"));
        }
    };
    for is_begun_again in [false, true] {
        broken_off(&from, &to, |progress| progress.done.tasks > 0).await;
        lose();
        assert_eq!(refused(&from).await, Some(Mark::Copying(to.clone())));
        if is_begun_again {
            assert_eq!(copied(&from, &to).await.unwrap(), many);
        } else {
            assert!(given_up(&from, &to).await.unwrap());
            assert!(refused(&from).await.is_none() && !Path::new(&to).exists());
        }
    }
    lose();
    let moved = Mark::Moved(to.clone());
    assert_eq!(mark(copied(&from, &to).await), moved, "what was done there is not done again");
    assert_eq!(mark(given_up(&from, &to).await), moved);
}

#[tokio::test]
async fn a_copy_that_was_given_up_meanwhile_never_gets_into_service() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (in_folder(folder.path(), "tasks.db"), redis::shared().store());
    lived::through(&Sqlite::open(&from).unwrap()).await;
    // As by somebody whom this store could not tell from nobody.
    let give_up = async |from: &dyn Transfer, _: &dyn Transfer| {
        let version = from.entry(own()).await.unwrap().unwrap().version;
        assert!(from.compare_and_set(own(), Some(version), None).await.unwrap().is_done());
    };
    let refusal = disturbed(&from, &to, |progress| progress.is_copied, give_up).await.unwrap_err();
    assert!(matches!(refusal, TransferError::Overtaken { .. }), "{refusal:?}");
    assert!(refused(&from).await.is_none());
    assert_eq!(refused(&to).await, Some(Mark::CopyOf(from)));
}

#[tokio::test]
async fn a_copy_in_which_there_is_more_or_less_or_something_else_is_never_served() {
    let folder = tempfile::tempdir().unwrap();
    let ann = Owner::principal("ann").unwrap();
    let (session, stream) = (EntryKey::of(&ann, "session", "s1"), Stream::new(&ann, "s1", "stream"));
    let what = [
        "an entry of kind more",
        "an entry of kind session",
        "an entry of kind session",
        "a stream of session s1",
        "a stream of session s1",
        "a stream of session s2",
        "task more",
    ];
    for (number, differs) in what.into_iter().enumerate() {
        let [from, to] = ["from", "to"].map(|name| in_folder(folder.path(), &format!("{name}{number}.db")));
        let store = Sqlite::open(&from).unwrap();
        store.put(session, Value::lasting(b"kept", Duration::from_secs(3600))).await.unwrap();
        store.append(stream, "event").await.unwrap();
        drop(store);
        let meddle = async |_: &dyn Transfer, to: &dyn Transfer| match number {
            0 => drop(to.put(EntryKey::of_server("more", "m"), Value::for_ever(b"")).await.unwrap()),
            1 => drop(to.put(session, Value::lasting(b"else", Duration::from_secs(3600))).await.unwrap()),
            2 => drop(to.put(session, Value::for_ever(b"kept")).await.unwrap()),
            3 => assert_eq!(to.append(stream, "more").await.unwrap(), 2),
            4 => assert_eq!(to.trim(&ann, "s1").await.unwrap(), 1),
            5 => assert_eq!(to.append(Stream::new(&ann, "s2", "more"), "more").await.unwrap(), 1),
            _ => {
                let more = NewTask::new(id("more"), Owner::Anonymous, "build", Json::parse("{}").unwrap());
                drop(to.create(more).await.unwrap());
            }
        };
        // All is copied but the tasks, of which there are none.
        let is_far = |progress: Progress| progress.done.streams == 1 && !progress.is_copied;
        let refusal = disturbed(&from, &to, is_far, meddle).await.unwrap_err();
        assert!(matches!(&refusal, TransferError::Differs { what, .. } if what == differs), "{refusal:?}");
        assert_eq!(refused(&to).await, Some(Mark::CopyOf(from)));
    }
}

#[tokio::test]
async fn what_is_gone_on_with_adds_only_what_lacks() {
    let ann = Owner::principal("ann").unwrap();
    for to in [postgres::shared().database(), redis::shared().store()] {
        let folder = tempfile::tempdir().unwrap();
        let from = in_folder(folder.path(), "tasks.db");
        let mut settings = Settings::default();
        settings.event_retention = Duration::from_secs(3 * 3600);
        (settings.limits.max_stream_events, settings.limits.max_stream_bytes) = (1_050, 64 << 20);
        let store = SqliteOptions::new().with_settings(settings).open(&from).unwrap();
        let stream = Stream::new(&ann, "s1", "stream");
        for number in 1..=1_100 {
            store.append(stream, &format!("event {number}")).await.unwrap();
        }
        store.put(EntryKey::of(&ann, "session", "s1"), Value::for_ever(b"kept")).await.unwrap();
        drop(store);
        // It is told how far it is before there is any task.
        broken_off(&from, &to, |progress| progress.done.events > 0 && progress.done.tasks == 0).await;
        crate::until_free(&from, &to).await;
        let store = open(&to).await;
        let (mut after, mut seen) = (50, Vec::new());
        loop {
            let events = store.replay(stream, after, 1_000).await.unwrap().unwrap();
            let Some(last) = events.last() else { break };
            after = last.number;
            seen.extend(events);
        }
        assert_eq!(seen.len(), 1_050);
        assert!(seen.iter().all(|event| *event.text == format!("event {}", event.number)));
        // And it lasts as long as it would have.
        let (_, stream) = store.whole_streams(0).await.unwrap().remove(0);
        assert_eq!((stream.begins_after, stream.last), (50, 1_100));
        assert!(stream.expires_at.since(store.now()) > Duration::from_secs(2 * 3600));
    }
}

#[tokio::test]
async fn a_stream_that_says_it_has_more_events_than_there_are_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["from.db", "to.db"].map(|name| in_folder(folder.path(), name));
    let ann = Owner::principal("ann").unwrap();
    Sqlite::open(&from).unwrap().append(Stream::new(&ann, "s1", "stream"), "event").await.unwrap();
    let file = rusqlite::Connection::open(&from).unwrap();
    assert_eq!(file.execute("UPDATE streams SET last = last + 5, kept = kept + 5", []).unwrap(), 1);
    drop(file);
    let refusal = copied(&from, &to).await.unwrap_err();
    assert!(matches!(refusal, TransferError::Store(StoreError::Corrupt { .. })), "{refusal:?}");
}
