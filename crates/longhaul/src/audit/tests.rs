//! What a folder of a trail promises.

use std::fs;
use std::path::{Path, PathBuf};

use longhaul_tasks::store::Json;

use super::*;
use crate::locked::Locked;

fn event(number: usize) -> Event {
    Event {
        what: What::Created,
        at: Time::from_unix_ms(1_000),
        node: NodeId::new("n").unwrap(),
        task: Some(TaskId::new(format!("task-{number}")).unwrap()),
        tool: None,
        owner: None,
        by: None,
    }
}

fn open(folder: &Path, node: &str, options: AuditOptions) -> AuditFolder {
    AuditFolder::open(folder, &NodeId::new(node).unwrap(), options).unwrap()
}

/// A chain of so many events.
fn write(folder: &Path, node: &str, events: usize) {
    let audit = open(folder, node, AuditOptions::default());
    (0..events).for_each(|number| audit.note(event(number)));
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn only_the_engines_own_reasons_are_told() {
    let end = |data: &str| End::of(&Outcome::error(-32603, "secret", Some(Json::parse(data).unwrap())));
    let told = |reason| Some(End::Error { code: -32603, reason });
    assert_eq!(end(r#"{"reason":"nondeterminism","step":"secret"}"#), told(Some("nondeterminism")));
    assert_eq!(end(r#"{"reason":"the secret is 42"}"#), told(None));
}

#[test]
fn what_was_noted_is_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for node in ["a", "b", "c"] {
            scope.spawn(|| write(folder.path(), node, 100));
        }
    });
    let verdict = verify(folder.path(), &[]).unwrap();
    assert_eq!((verdict.entries, verdict.files, verdict.heads.len()), (303, 3, 3));
    assert_eq!((verdict.problems, verdict.remarks), (vec![], vec![]));
    let entries = entries(folder.path(), |entry| entry.task.as_deref() == Some("task-7")).unwrap();
    assert_eq!(entries.len(), 3);
    assert_eq!((&*entries[0].at, &*entries[0].what), ("1970-01-01T00:00:01.000Z", "created"));
}

#[cfg(unix)]
#[test]
fn the_trail_is_its_users_alone() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("trail");
    write(&trail, "a", 1);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&trail), mode(&files(&trail)[0])), (0o700, 0o600));
}

#[test]
fn what_is_changed_is_found() {
    type Change = fn(&mut Vec<String>);
    let changes: [(&str, Change); 8] = [
        ("a word", |lines| lines[5] = lines[5].replace("task-4", "task-9")),
        ("the first word", |lines| lines[0] = lines[0].replace("began", "begun")),
        ("a line taken out", |lines| drop(lines.remove(5))),
        ("the first taken out", |lines| drop(lines.remove(0))),
        ("a line twice", |lines| lines.insert(5, lines[5].clone())),
        ("two lines the other way round", |lines| lines.swap(5, 6)),
        ("no entry", |lines| lines.insert(5, "{}".to_owned())),
        ("the end taken off", |lines| lines.truncate(8)),
    ];
    for (what, change) in changes {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a", 9);
        // A later chain knows how this one stood.
        write(folder.path(), "b", 1);
        assert_eq!(verify(folder.path(), &[]).unwrap().problems, Vec::<String>::new(), "{what}");
        let file = &files(folder.path())[0];
        let mut lines: Vec<_> = fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect();
        change(&mut lines);
        fs::write(file, lines.join("\n") + "\n").unwrap();
        assert_ne!(verify(folder.path(), &[]).unwrap().problems, Vec::<String>::new(), "{what}");
        fs::remove_file(file).unwrap();
        assert_ne!(verify(folder.path(), &[]).unwrap().problems, Vec::<String>::new(), "all of it");
    }
}

#[test]
fn the_end_of_the_last_chain_is_known_by_who_keeps_its_digest() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", 9);
    let kept = [verify(folder.path(), &[]).unwrap().heads[0].hash.clone()];
    assert!(verify(folder.path(), &kept).unwrap().problems.is_empty());
    let file = &files(folder.path())[0];
    let text = fs::read_to_string(file).unwrap();
    let end = text.trim_end().rfind('\n').unwrap();
    fs::write(file, &text[..=end]).unwrap();
    assert!(verify(folder.path(), &[]).unwrap().problems.is_empty(), "nothing follows that would know");
    assert_eq!(verify(folder.path(), &kept).unwrap().problems.len(), 1);
    // As `kill -9` in the middle of a write leaves it.
    fs::write(file, &text[..end + 20]).unwrap();
    let verdict = verify(folder.path(), &[]).unwrap();
    assert_eq!((verdict.problems.len(), verdict.remarks.len()), (0, 1), "{verdict:?}");
}

#[test]
fn files_are_bounded_and_what_goes_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let options = AuditOptions::default().max_file(1).max_files(4);
    let lasting = open(folder.path(), "lasting", options.clone());
    for node in 0..6 {
        let audit = open(folder.path(), &format!("node{node}"), options.clone());
        for number in 0..4 {
            for audit in [&audit, &lasting] {
                audit.note(event(number));
                audit.flush();
            }
        }
    }
    assert_eq!(files(folder.path()).len(), 4);
    let verdict = verify(folder.path(), &[]).unwrap();
    assert_eq!((verdict.problems, verdict.remarks), (vec![], vec![]));
    // What is taken out beside that is found.
    let oldest = files(folder.path()).into_iter().find(|file| file.to_string_lossy().contains("lasting"));
    fs::remove_file(oldest.unwrap()).unwrap();
    assert_ne!(verify(folder.path(), &[]).unwrap().problems, Vec::<String>::new());
}

#[test]
fn nothing_to_write_begins_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let audit = open(folder.path(), "a", AuditOptions::default().max_file(1));
    for number in 0..2 {
        audit.flush();
        audit.note(event(number));
        audit.flush();
    }
    drop(audit);
    let files: Vec<_> = files(folder.path()).iter().map(|file| fs::metadata(file).unwrap().len()).collect();
    assert!(files.len() == 3 && !files.contains(&0), "{files:?}");
}

/// Another process may be looking at it, or removing it.
#[test]
fn a_file_that_cannot_go_now_keeps_those_that_come_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let options = AuditOptions::default().max_file(1);
    let earlier = open(folder.path(), "earlier", options.clone());
    for number in 0..4 {
        earlier.note(event(number));
        earlier.flush();
    }
    drop(earlier);
    let is_clean = || verify(folder.path(), &[]).unwrap().problems.is_empty();
    let first = fs::OpenOptions::new().append(true).open(&files(folder.path())[0]).unwrap();
    let first = Locked::take(first).unwrap();
    let audit = open(folder.path(), "later", options.max_files(3));
    assert!(files(folder.path()).len() > 3 && is_clean());
    drop(first);
    audit.note(event(4));
    audit.flush();
    assert!(files(folder.path()).len() == 3 && is_clean());
}

#[test]
fn what_cannot_be_written_waits_and_what_cannot_wait_is_counted() {
    let place = tempfile::tempdir().unwrap();
    let (folder, away) = (place.path().join("trail"), place.path().join("away"));
    let audit = open(&folder, "a", AuditOptions::default().max_file(1).max_waiting(4));
    fs::rename(&folder, &away).unwrap();
    // No folder can be made there.
    fs::write(&folder, "").unwrap();
    for number in 0..10 {
        audit.note(event(number));
        audit.flush();
    }
    fs::remove_file(&folder).unwrap();
    fs::rename(&away, &folder).unwrap();
    audit.flush();
    let verdict = verify(&folder, &[]).unwrap();
    assert_eq!(verdict.problems, Vec::<String>::new());
    assert_eq!(entries(&folder, |entry| entry.what == "created").unwrap().len(), 4, "{verdict:?}");
    assert_eq!(verdict.remarks.len(), 1, "{verdict:?}");
    let missed = entries(&folder, |entry| entry.what == "missed").unwrap();
    assert_eq!(missed[0].count, Some(6));
    audit.note(event(11));
    drop(audit);
    assert_eq!(entries(&folder, |entry| entry.task.as_deref() == Some("task-11")).unwrap().len(), 1);
}

/// As when it was made, and its folder could not be synced.
#[test]
fn a_file_that_could_not_be_begun_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let options = AuditOptions::default().max_file(1);
    let audit = open(folder.path(), "a", options.clone());
    fs::write(folder.path().join("a-000002.jsonl"), "").unwrap();
    for number in 0..3 {
        audit.note(event(number));
        audit.flush();
    }
    let later = open(folder.path(), "b", options);
    drop((audit, later));
    let verdict = verify(folder.path(), &[]).unwrap();
    assert_eq!((verdict.problems, verdict.remarks), (vec![], vec![]));
    assert_eq!(entries(folder.path(), |entry| entry.what == "created").unwrap().len(), 3);
    let empty = |file: &PathBuf| fs::metadata(file).unwrap().len() == 0;
    let (began, left): (Vec<_>, Vec<_>) = files(folder.path()).into_iter().partition(|file| !empty(file));
    assert_eq!(left, [folder.path().join("a-000002.jsonl")], "{began:?}");
    assert!(began.contains(&folder.path().join("a-000003.jsonl")), "{began:?}");
}

#[test]
fn a_folder_that_is_moved_or_removed_is_begun_again_and_the_chain_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let (folder, away) = (place.path().join("trail"), place.path().join("away"));
    let audit = open(&folder, "a", AuditOptions::default());
    let note = |number| {
        audit.note(event(number));
        audit.flush();
    };
    let tasks = |folder: &Path| -> Vec<_> {
        entries(folder, |entry| entry.task.is_some()).unwrap().into_iter().map(|e| e.task.unwrap()).collect()
    };
    note(0);
    fs::rename(&folder, &away).unwrap();
    note(1);
    note(2);
    assert_eq!(
        (tasks(&away), tasks(&folder)),
        (vec!["task-0".into()], vec!["task-1".into(), "task-2".into()])
    );
    assert_eq!(files(&folder).len(), 1, "it is begun again once");
    let missing = verify(&folder, &[]).unwrap().problems;
    assert!(missing.len() == 1 && missing[0].contains("those before it are missing"), "{missing:?}");
    // Another in its place is not its own.
    let began = files(&folder).remove(0);
    fs::remove_file(&began).unwrap();
    fs::write(&began, "").unwrap();
    note(3);
    assert_eq!((tasks(&folder), fs::read(&began).unwrap()), (vec!["task-3".into()], vec![]));
    fs::remove_dir_all(&folder).unwrap();
    note(4);
    assert_eq!(tasks(&folder), ["task-4"]);
    fs::rename(files(&folder).remove(0), away.join("a-000004.jsonl")).unwrap();
    fs::remove_dir(&folder).unwrap();
    fs::rename(&away, &folder).unwrap();
    note(5);
    drop(audit);
    let verdict = verify(&folder, &[]).unwrap();
    assert_eq!((tasks(&folder), verdict.files), (vec!["task-0".into(), "task-4".into(), "task-5".into()], 2));
}
