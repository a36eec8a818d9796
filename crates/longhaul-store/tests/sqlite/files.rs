//! The files of a store: whose they are, and which are none of ours.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    pin::pin,
    task::{Context, Waker},
};

use longhaul_store::{Durability, Filter, Sqlite, StoreError, TaskStore};

use super::{create, get, mount::Tmpfs, open, task};

#[tokio::test]
async fn s25_files_are_for_their_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let store = open(&path);
    create(&store, "t").await;
    let mode = |name: &str| fs::metadata(folder.path().join(name)).expect(name).permissions().mode() & 0o777;
    for name in ["tasks.db", "tasks.db-wal", "tasks.db-shm", "tasks.db.writer"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    assert_eq!(mode("tasks.db.nodes"), 0o700);
    assert_eq!(mode(&format!("tasks.db.nodes/{}", store.node())), 0o600);
    assert_eq!(store.durability(), Durability::Disk);
}

#[tokio::test]
async fn what_was_written_is_there_after_the_next_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let store = open(&path);
    let made = create(&store, "t").await;
    drop(store);
    assert_eq!(get(&open(&path), "t").await, Some(made));
    assert_eq!(
        fs::read_dir(folder.path().join("tasks.db.nodes")).unwrap().count(),
        0,
        "every node signs off"
    );
}

#[tokio::test]
async fn a_handle_being_dropped_finishes_what_is_in_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let store = open(&path);
    for number in 0..50 {
        let mut create = pin!(store.create(task(&format!("t{number}"), 2)));
        let _given_up = create.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    drop(store);
    assert_eq!(open(&path).counts().await.unwrap().open, 50);
}

#[tokio::test]
async fn a_link_leads_to_the_same_store() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("tasks.db"), folder.path().join("link.db"));
    let store = open(&path);
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let linked = open(&link);
    assert_eq!(linked.path(), store.path());
    create(&store, "t").await;
    assert!(get(&linked, "t").await.is_some());
    assert!(linked.claim(10, None).await.unwrap().is_empty(), "the other node is seen to be alive");
}

/// V1 of `conformance/REQUIREMENTS.md`.
#[test]
fn a_file_of_a_newer_release_is_refused_by_both_versions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    drop(open(&path));
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.pragma_update(None, "user_version", 99).unwrap();
    drop(conn);
    let refusal = Sqlite::open(&path).unwrap_err();
    let text = refusal.to_string();
    let StoreError::Newer { found: 99, supported } = refusal else { panic!("{refusal:?}") };
    assert!(text.contains("99") && text.contains(&format!("up to {supported}")), "{text}");
}

#[test]
fn what_is_no_store_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    fs::write(&text, "a few words\n".repeat(500)).unwrap();
    let other = folder.path().join("other.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE notes (text)").unwrap();
    for path in [&text, &other] {
        let before = fs::read(path).unwrap();
        let refusal = Sqlite::open(path).unwrap_err();
        assert!(matches!(refusal, StoreError::Foreign { .. }), "{refusal:?}");
        assert!(fs::read(path).unwrap() == before, "{} has changed", path.display());
    }
    assert!(Sqlite::open(folder.path()).is_err(), "a folder is no file");
    let refusal = Sqlite::open(folder.path().join("no/such/folder/tasks.db")).unwrap_err();
    assert!(matches!(refusal, StoreError::Backend { .. }), "{refusal:?}");
}

#[test]
fn damage_is_called_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    drop(open(&path));
    let mut bytes = fs::read(&path).unwrap();
    for byte in &mut bytes[100..] {
        *byte = 0xa5;
    }
    fs::write(&path, bytes).unwrap();
    let refusal = Sqlite::open(&path).unwrap_err();
    assert!(matches!(refusal, StoreError::Corrupt { .. }), "{refusal:?}");
    assert!(!refusal.is_retryable());
}

#[tokio::test]
async fn s27_a_damaged_row_is_an_error_and_its_neighbours_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let store = open(&path);
    let damages = [
        ("phase", "77"),
        ("arguments", "'{'"),
        ("rerun", "-1"),
        ("dialect", "9"),
        ("retention", "9"),
        ("epoch", "-5"),
        ("lease_node", "'../x'"),
        ("lease_until", "NULL"),
        ("join_digest", "x'00'"),
        ("attempt", "-1"),
    ];
    create(&store, "sound").await;
    let conn = rusqlite::Connection::open(&path).unwrap();
    for (column, value) in damages {
        create(&store, column).await;
        conn.execute(&format!("UPDATE tasks SET {column} = {value} WHERE id = '{column}'"), []).unwrap();
        let found = store.get(longhaul_store::Scope::Operator, &super::id(column)).await;
        assert!(
            matches!(&found, Err(StoreError::Corrupt { what, .. }) if what.contains(column)),
            "{column}: {found:?}"
        );
        assert!(get(&store, "sound").await.is_some());
    }
    create(&store, "sound-too").await;
    let listed = store.list(longhaul_store::Scope::Operator, &Filter::all(), None, 1000).await.unwrap().tasks;
    assert_eq!(listed.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["sound-too", "sound"]);
    drop(store);
    let claimed = open(&path).claim(1000, None).await.unwrap();
    let mut claimed: Vec<_> = claimed.iter().map(|claim| claim.id.as_str()).collect();
    claimed.sort();
    assert_eq!(claimed, ["sound", "sound-too"]);
}

#[tokio::test]
async fn a_file_system_that_is_read_only_is_named() {
    let disk = Tmpfs::of(4 << 20);
    let path = disk.path().join("tasks.db");
    let store = open(&path);
    let made = create(&store, "t").await;
    drop(store);
    disk.make_read_only();
    for path in [&path, &disk.path().join("another.db")] {
        let refusal = Sqlite::open(path).unwrap_err();
        assert!(
            matches!(&refusal, StoreError::ReadOnly { place, .. } if place.starts_with(disk.path())),
            "{refusal:?}"
        );
    }
    disk.make_writable();
    assert_eq!(get(&open(&path), "t").await, Some(made));
}
