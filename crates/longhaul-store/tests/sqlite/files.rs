//! The files of a store: whose they are, and which are none of ours.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    pin::pin,
    task::{Context, Waker},
};

use longhaul_store::{
    Batch, Durability, Filter, Fingerprint, Json, Outcome, Part, PartContent, Progress, Scope, Sqlite,
    SqliteOptions, Step, StepState, StoreError, TaskStore,
    transfer::{Miscount, Transfer as _},
};

use super::{
    create, get,
    mount::{Tmpfs, remove},
    open, task,
};

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
async fn what_is_noted_of_the_log_is_held_against_it_where_nothing_can_be_written() {
    let (folder, disk) = (tempfile::tempdir().unwrap(), Tmpfs::of(1 << 20));
    let (path, copied) = (folder.path().join("tasks.db"), disk.path().join("tasks.db"));
    let store = Sqlite::open(&path).unwrap();
    create(&store, "t").await;
    let with = |path: &Path, suffix: &str| PathBuf::from(format!("{}{suffix}", path.display()));
    for suffix in ["", "-wal", ".writer"] {
        fs::copy(with(&path, suffix), with(&copied, suffix)).unwrap();
    }
    // The last commit is not what was acknowledged.
    let log = with(&copied, "-wal");
    let mut bytes = fs::read(&log).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&log, bytes).unwrap();
    disk.make_read_only();
    let refusal = SqliteOptions::new().open_or_read(&copied).unwrap_err();
    let StoreError::Corrupt { what, .. } = &refusal else { panic!("{refusal:?}") };
    assert!(what.contains("stop every server on this store") && what.contains("tasks.db.writer"), "{what}");
    disk.make_writable();
}

#[tokio::test]
async fn what_cannot_be_written_can_still_be_read() {
    let disk = Tmpfs::of(1 << 20);
    let path = disk.path().join("tasks#1.db");
    let look = || SqliteOptions::new().open_or_read(&path).unwrap();
    let store = look();
    let made = create(&store, "t").await;
    drop(store);
    disk.make_read_only();
    let reader = look();
    assert_eq!(get(&reader, "t").await, Some(made.clone()));
    let listed = reader.list(Scope::Operator, &Filter::all(), None, 10).await.unwrap().tasks;
    assert_eq!(listed.first(), Some(&made));
    let refusal = reader.create(task("u", 2)).await.unwrap_err();
    assert!(
        matches!(&refusal, StoreError::ReadOnly { place, .. } if place.starts_with(disk.path())),
        "{refusal:?}"
    );
    drop(reader);
    disk.make_writable();

    let filler = disk.fill_up(0);
    let reader = look();
    assert_eq!(get(&reader, "t").await, Some(made));
    let refusal = reader.create(task("u", 2)).await.unwrap_err();
    assert!(matches!(refusal, StoreError::Full { .. }), "{refusal:?}");
    drop(reader);
    remove(&filler);

    // Beside a node, whose log has what is new, and whose leases stay its own.
    let store = open(&path);
    let made = create(&store, "u").await;
    disk.fill_up(0);
    let reader = look();
    assert_eq!(get(&reader, "u").await, Some(made));
    assert!(reader.claim(10, None).await.unwrap().is_empty(), "a living node has them");
}

#[tokio::test]
async fn an_empty_file_beside_its_log_is_no_new_store() {
    let folder = tempfile::tempdir().unwrap();
    let (path, log) = (folder.path().join("tasks.db"), folder.path().join("tasks.db-wal"));
    let store = open(&path);
    create(&store, "t").await;
    let (file, frames) = (fs::read(&path).unwrap(), fs::read(&log).unwrap());
    drop(store);
    // As a process leaves them that was killed after its file was cut, or before its file was moved.
    for is_there in [true, false] {
        fs::write(&log, &frames).unwrap();
        if is_there {
            fs::write(&path, "").unwrap()
        } else {
            fs::remove_file(&path).unwrap()
        }
        let refusal = Sqlite::open(&path).unwrap_err();
        let StoreError::Corrupt { what, .. } = &refusal else { panic!("{refusal:?}") };
        assert!(what.contains("tasks.db-wal") && what.contains("put the file back"), "{what}");
        assert_eq!(fs::read(&log).unwrap(), frames, "what was acknowledged is still there");
    }
    fs::write(&path, file).unwrap();
    assert!(get(&open(&path), "t").await.is_some(), "nothing is lost once it is back");
}

/// A way to look at a store that is no node.
type Look = fn(&Path) -> Result<(), StoreError>;

#[tokio::test]
async fn who_only_looks_takes_nothing_of_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let (path, log) = (folder.path().join("tasks.db"), folder.path().join("tasks.db-wal"));
    let store = open(&path);
    create(&store, "t").await;
    let (file, frames) = (fs::read(&path).unwrap(), fs::read(&log).unwrap());
    drop(store);
    let looks: [Look; 3] = [
        |path| Sqlite::format(path).map(drop),
        |path| Sqlite::integrity(path).map(drop),
        |path| SqliteOptions::new().open_to_read(path).map(drop),
    ];
    // A bit of the first frame, which others follow; and a file that was cut.
    let (mut damaged, cut) = (frames.clone(), Vec::new());
    damaged[32 + 24 + 100] ^= 1;
    for (file, frames) in [(&file, &damaged), (&cut, &frames)] {
        for look in looks {
            fs::write(&path, file).unwrap();
            fs::write(&log, frames).unwrap();
            let refusal = look(&path).unwrap_err();
            assert!(
                matches!(&refusal, StoreError::Corrupt { what, .. } if what.contains("tasks.db-wal")),
                "{refusal:?}"
            );
            let is_as_before = fs::read(&path).unwrap() == *file && fs::read(&log).unwrap() == *frames;
            assert!(is_as_before, "what was acknowledged is still there");
        }
    }
    fs::write(&path, file).unwrap();
    fs::write(&log, frames).unwrap();
    for look in looks {
        look(&path).unwrap();
    }
    assert!(get(&open(&path), "t").await.is_some());
}

#[tokio::test]
async fn what_is_read_where_there_is_no_room_keeps_its_log() {
    let disk = Tmpfs::of(1 << 20);
    let (path, log) = (disk.path().join("tasks.db"), disk.path().join("tasks.db-wal"));
    let store = open(&path);
    create(&store, "t").await;
    let (file, mut frames) = (fs::read(&path).unwrap(), fs::read(&log).unwrap());
    drop(store);
    frames[32 + 24 + 100] ^= 1;
    fs::write(&path, file).unwrap();
    fs::write(&log, &frames).unwrap();
    disk.fill_up(0);
    let refusal = SqliteOptions::new().open_or_read(&path).unwrap_err();
    assert!(matches!(refusal, StoreError::Corrupt { .. }), "{refusal:?}");
    assert!(fs::read(&log).unwrap() == frames, "what was acknowledged is still there");
}

#[tokio::test]
async fn who_only_looks_is_no_node_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let store = open(&path);
    let made = create(&store, "t").await;
    let reader = SqliteOptions::new().open_to_read(&path).unwrap();
    assert_eq!(get(&reader, "t").await, Some(made));
    let refusal = reader.create(task("u", 2)).await.unwrap_err();
    assert!(matches!(refusal, StoreError::ReadOnly { .. }), "{refusal:?}");
    assert_eq!(fs::read_dir(folder.path().join("tasks.db.nodes")).unwrap().count(), 1, "that of the store");
    drop((store, reader));

    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.pragma_update(None, "user_version", 1).unwrap();
    drop(conn);
    let refusal = SqliteOptions::new().open_to_read(&path).unwrap_err();
    assert!(matches!(refusal, StoreError::Backend { .. }), "{refusal:?}");
    assert_eq!(Sqlite::format(&path).unwrap().found, Some(1), "it is for others to change");
    let nowhere = folder.path().join("nowhere.db");
    assert!(SqliteOptions::new().open_to_read(&nowhere).is_err() && !nowhere.exists());
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
        let found = store.get(Scope::Operator, &super::id(column)).await;
        assert!(
            matches!(&found, Err(StoreError::Corrupt { what, .. }) if what.contains(column)),
            "{column}: {found:?}"
        );
        assert!(get(&store, "sound").await.is_some());
    }
    create(&store, "nameless").await;
    conn.execute("UPDATE tasks SET id = '../' || id WHERE id = 'nameless'", []).unwrap();
    create(&store, "sound-too").await;
    let listed = store.list(Scope::Operator, &Filter::all(), None, 1000).await.unwrap().tasks;
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

#[tokio::test]
async fn what_tasks_take_that_an_older_release_has_written_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let store = open(&path);
    let of = Fingerprint::new([1; Fingerprint::LEN]);
    let learnt = StepState::learnt(Json::parse(format!("\"{}\"", "x".repeat(70_000))).unwrap());
    let (open_one, ended, failed) =
        (create(&store, "open").await, create(&store, "ended").await, create(&store, "failed").await);
    let report = Batch::new()
        .with_step(Step::new("s", of, learnt))
        .with_part(Part::new("p", PartContent::Text("größer".into())))
        .with_progress(Progress::new(1.0, None, Some("halb".into())))
        .with_status_message("für Menschen");
    for made in [&open_one, &ended] {
        store.write(&made.id, made.epoch, report.clone()).await.unwrap();
    }
    let result = Outcome::result(Json::parse("{\"as\": \"ä\"}").unwrap(), false);
    store.finish(&ended.id, ended.epoch, result, Batch::new()).await.unwrap();
    let error = Outcome::error(-1, "schön", Some(Json::parse("[1]").unwrap()));
    store.finish(&failed.id, failed.epoch, error, Batch::new()).await.unwrap();
    let gone = create(&store, "gone").await;
    store.request_cancel(Scope::Operator, &gone.id, None).await.unwrap();
    store.erase(Scope::Operator, &gone.id).await.unwrap();
    let mut weighs = 0;
    for name in ["open", "ended", "failed"] {
        weighs += get(&store, name).await.unwrap().weight();
    }
    drop(store);
    let charged = |path: &Path| {
        let conn = rusqlite::Connection::open(path).unwrap();
        let charged: i64 = conn.query_row("SELECT task_bytes FROM accounts", [], |row| row.get(0)).unwrap();
        charged.unsigned_abs()
    };
    assert_eq!(charged(&path), weighs);
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch("ALTER TABLE accounts DROP COLUMN task_bytes; PRAGMA user_version = 14").unwrap();
    drop(conn);
    let store = open(&path);
    assert_eq!(store.miscounted().await.unwrap(), []);
    drop(store);
    assert_eq!(charged(&path), weighs);
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch("UPDATE accounts SET task_bytes = task_bytes + 1").unwrap();
    assert_eq!(open(&path).miscounted().await.unwrap(), [Miscount::new("ann", weighs + 1, weighs)]);
}
