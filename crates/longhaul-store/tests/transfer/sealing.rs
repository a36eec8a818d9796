//! Stores that are sealed after they were used without keys, and read whole while they are used.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use longhaul_store::{
    EntryKey, Owner, Postgres, Redis, Registry as _, Scope, Sqlite, StoreError, TaskStore as _, Value,
    sealed::{Sealed, SealingKeys, is_being_sealed, is_sealed, written_before},
    transfer::Transfer,
};

use super::{id, in_folder, lived, postgres, redis, until};

pub(crate) fn keys() -> SealingKeys {
    SealingKeys::new("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap()
}

/// More than one page of any store has, and than Redis keeps in one piece.
const MANY: usize = 300;

fn name(nth: usize) -> String {
    format!("entry-{nth:03}")
}

/// Entries that end at nearly the same moment.
async fn put_many(store: &dyn Transfer) {
    for nth in 0..MANY {
        put(store, &name(nth), Duration::from_secs(3600)).await;
    }
}

async fn put(store: &dyn Transfer, name: &str, lasts: Duration) {
    store.put(EntryKey::of_server("kind", name), Value::lasting(b"entry", lasts)).await.unwrap();
}

/// Such a store is left as it is, and is read if that is asked for; then what nodes share is sealed, and still passes away.
async fn is_sealed_if_asked<S: Transfer>(open: impl AsyncFn() -> S) {
    let (plain, ann) = (open().await, Owner::principal("ann").unwrap());
    let entries = [
        EntryKey::of_server("kind", "name"),
        EntryKey::of(&ann, "kind", "name"),
        EntryKey::spare(&ann, "kind", "name"),
    ];
    for entry in entries {
        plain.put(entry, Value::lasting(b"entry", Duration::from_secs(600))).await.unwrap();
    }
    plain.create(lived::full()).await.unwrap();
    let refusal = Sealed::open(open().await, keys()).await.unwrap_err();
    assert!(matches!(refusal, StoreError::NotSealed { .. }), "{refusal}");
    assert!(!is_sealed(&plain).await.unwrap());

    let before = plain.entry(entries[0]).await.unwrap().unwrap().expires_at.unwrap();
    drop(plain);
    let store = Sealed::open_reading_plain(open().await, keys()).await.unwrap();
    assert!(store.get(Scope::Operator, &id("full")).await.unwrap().is_some());
    let (store, plain) = (Sealed::open(open().await, keys()).await.unwrap(), open().await);
    for entry in entries {
        assert_eq!(&*store.entry(entry).await.unwrap().unwrap().value, b"entry");
        assert!(!plain.entry(entry).await.unwrap().unwrap().value.ends_with(b"entry"));
    }
    let after = plain.entry(entries[0]).await.unwrap().unwrap().expires_at.unwrap();
    assert!(before.since(after).max(after.since(before)) < Duration::from_secs(60), "{before:?} {after:?}");
    assert_eq!(written_before(&plain).await.unwrap().as_deref(), Some("task full"));
}

#[tokio::test]
async fn what_was_used_without_keys_is_sealed_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = in_folder(folder.path(), "tasks.db");
    is_sealed_if_asked(async || Sqlite::open(&file).unwrap()).await;
    let (postgres, redis) = (postgres::shared().database(), redis::shared().store());
    is_sealed_if_asked(async || Postgres::open(&postgres).await.unwrap()).await;
    is_sealed_if_asked(async || Redis::open(&redis).await.unwrap()).await;
}

/// Who works without keys would take what is sealed for what it is. Those who have them do not stand in each other's way.
async fn is_not_sealed_under_others<S: Transfer>(open: impl AsyncFn() -> S) {
    let plain = open().await;
    let keyed = open().await;
    let (refusal, ()) = tokio::join!(
        Sealed::open(keyed, keys()),
        // Whoever comes without keys now sees that.
        until(async || is_being_sealed(&plain).await.unwrap())
    );
    assert!(matches!(refusal, Err(StoreError::InUse { others: 1 })), "{refusal:?}");
    let refusal = Sealed::open_reading_plain(open().await, keys()).await;
    assert!(matches!(refusal, Err(StoreError::InUse { others: 1 })), "{refusal:?}");
    assert!(!is_sealed(&plain).await.unwrap() && !is_being_sealed(&plain).await.unwrap());
    drop(plain);
    let (one, other) = (open().await, open().await);
    let (one, other) = tokio::join!(Sealed::open(one, keys()), Sealed::open_reading_plain(other, keys()));
    let (one, _other) = (one.unwrap(), other.unwrap());
    assert!(is_sealed(one.inner()).await.unwrap() && !is_being_sealed(one.inner()).await.unwrap());
    assert_eq!(written_before(one.inner()).await.unwrap(), None);
}

#[tokio::test]
async fn a_file_is_not_sealed_while_it_is_used_without_keys() {
    let folder = tempfile::tempdir().unwrap();
    let file = in_folder(folder.path(), "tasks.db");
    is_not_sealed_under_others(async || Sqlite::open(&file).unwrap()).await;
}

#[tokio::test]
async fn a_database_is_not_sealed_while_it_is_used_without_keys() {
    let there = postgres::shared().database();
    is_not_sealed_under_others(async || Postgres::open(&there).await.unwrap()).await;
}

#[tokio::test]
async fn a_redis_server_is_not_sealed_while_it_is_used_without_keys() {
    let there = redis::shared().store();
    is_not_sealed_under_others(async || Redis::open(&there).await.unwrap()).await;
}

/// Whoever reads page by page sees all that is there, though each page is written anew, or goes, before the next is read.
async fn are_all_seen<S: Transfer>(store: S) {
    put_many(&store).await;
    let (mut seen, mut after) = (BTreeSet::new(), 0);
    loop {
        let page = store.whole_entries(after).await.unwrap();
        let Some((last, _)) = page.last() else { break };
        after = *last;
        for (nth, (_, entry)) in page.iter().enumerate() {
            let key = EntryKey::of_server("kind", &entry.name);
            match store.entry(key).await.unwrap() {
                Some(found) if nth % 2 == 0 => {
                    store.compare_and_set(key, Some(found.version), None).await.unwrap();
                }
                Some(_) => put(&store, &entry.name, Duration::from_secs(3601)).await,
                None => {}
            }
            seen.insert(entry.name.clone());
        }
    }
    assert_eq!(seen, (0..MANY).map(name).collect());
}

#[tokio::test]
async fn entries_that_move_and_go_between_pages_hide_no_others() {
    let folder = tempfile::tempdir().unwrap();
    are_all_seen(Sqlite::open(in_folder(folder.path(), "tasks.db")).unwrap()).await;
    are_all_seen(Postgres::open(&postgres::shared().database()).await.unwrap()).await;
    are_all_seen(Redis::open(&redis::shared().store()).await.unwrap()).await;
}

#[tokio::test]
async fn all_entries_are_sealed_though_many_end_at_once() {
    let there = redis::shared().store();
    let plain = Redis::open(&there).await.unwrap();
    put_many(&plain).await;
    // As the keys that servers share.
    plain.put(EntryKey::of_server("kind", "lasts"), Value::for_ever(b"entry")).await.unwrap();
    drop(plain);
    let store = Sealed::open_reading_plain(Redis::open(&there).await.unwrap(), keys()).await.unwrap();
    for name in (0..MANY).map(name).chain(["lasts".to_owned()]) {
        let key = EntryKey::of_server("kind", &name);
        assert!(!store.inner().entry(key).await.unwrap().unwrap().value.ends_with(b"entry"), "{name}");
        assert_eq!(&*store.entry(key).await.unwrap().unwrap().value, b"entry");
    }
    assert_eq!(written_before(store.inner()).await.unwrap(), None);
}

#[tokio::test]
async fn a_redis_server_that_is_started_again_between_pages_hides_no_entry() {
    let mut server = redis::Server::start();
    let store = Redis::open(&server.store()).await.unwrap();
    put_many(&store).await;
    let first = store.whole_entries(0).await.unwrap();
    let mut after = first.last().unwrap().0;
    let mut seen: BTreeSet<String> = first.into_iter().map(|(_, entry)| entry.name).collect();
    assert!(seen.len() < MANY);
    // Another process has the same entries at other places of its table.
    server.kill();
    server.launch();
    let mut is_over = false;
    until(async || {
        match store.whole_entries(after).await {
            Ok(page) => {
                is_over = page.is_empty();
                after = page.last().map_or(after, |(last, _)| *last);
                seen.extend(page.into_iter().map(|(_, entry)| entry.name));
            }
            Err(StoreError::Unreachable { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
        is_over
    })
    .await;
    assert_eq!(seen, (0..MANY).map(name).collect());
}

/// Takes a row and its place away, or puts them back, in one moment.
const TOGGLE: &str = "local place = redis.call('ZSCORE', KEYS[1], ARGV[1]) \
    if place then \
        redis.call('ZREM', KEYS[1], ARGV[1]) redis.call('RENAME', KEYS[2], KEYS[3]) redis.call('SET', KEYS[4], place) \
    else \
        redis.call('RENAME', KEYS[3], KEYS[2]) redis.call('ZADD', KEYS[1], redis.call('GET', KEYS[4]), ARGV[1]) \
    end return 1";

/// Some of each are read, and between the one and the other it goes and comes back many times.
#[tokio::test]
async fn what_goes_while_it_is_read_is_no_damage() {
    let server = redis::shared();
    let url = server.store();
    let store = Redis::open(&url).await.unwrap();
    for nth in 0..3 {
        store.create(lived::task(&format!("task-{nth}"))).await.unwrap();
    }
    put(&store, "goes", Duration::from_secs(3600)).await;
    let key = |name: &str| format!("{{{}}}:{name}", url.rsplit("name=").next().unwrap());
    let last =
        |set: &str| server.ask(&["EVAL", "return redis.call('ZRANGE', KEYS[1], -1, -1)[1]", "1", &key(set)]);
    for (set, row) in [("tasks", "task"), ("entries", "entry")] {
        let goes = last(set);
        let keys = [set.to_owned(), format!("{row}:{goes}"), format!("gone-{row}"), format!("place-{row}")];
        let [set_key, row_key, gone, place] = keys.map(|name| key(&name));
        let (over, id) = (Arc::new(AtomicBool::new(false)), goes.clone());
        let is_over = Arc::clone(&over);
        let toggling = thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                server.say(&["EVAL", TOGGLE, "4", &set_key, &row_key, &gone, &place, &id]);
            }
        });
        let (mut there, mut missing) = (0, 0);
        let looked = loop {
            let found = if row == "task" {
                let tasks = store.whole_tasks(0).await;
                tasks.map(|tasks| tasks.last().is_some_and(|(_, task)| task.record.id.as_str() == goes))
            } else {
                store.whole_entries(0).await.map(|entries| !entries.is_empty())
            };
            match found {
                Ok(true) => there += 1,
                Ok(false) => missing += 1,
                Err(error) => break Err(error),
            }
            if there >= 20 && missing >= 20 {
                break Ok(());
            }
        };
        over.store(true, Ordering::Relaxed);
        toggling.join().unwrap();
        looked.unwrap_or_else(|error| panic!("{row}: {error:?}"));
    }
}
