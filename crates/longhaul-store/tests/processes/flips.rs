//! Bits that have changed on the disk: what was acknowledged is there, or the error says that something is damaged.

use std::{
    fs,
    io::{Seek as _, SeekFrom, Write as _},
    path::Path,
};

use longhaul_store::{Filter, Scope, Sqlite, StoreError, TaskStore};

use super::cuts::{FRAME, beside, copy_to, sixteen_commits, state_of};

/// K24 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn a_bit_of_the_log_that_has_changed_is_noticed() {
    let (noticed, lost) = flip_everywhere(true).await;
    assert!(noticed > 100 && lost == 0, "{noticed} noticed, {lost} taken for a loss of power");
}

/// What is noted of the log once it was flushed is not flushed itself. Where power was lost it may be gone, and then a bit of
/// the last commit that has changed looks like a sector that never reached the disk. K24 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn without_its_note_a_changed_bit_of_the_last_commit_is_taken_for_a_loss_of_power() {
    let (noticed, lost) = flip_everywhere(false).await;
    assert!(noticed > 100 && lost > 10, "{noticed} noticed, {lost} taken for a loss of power");
}

/// Opens a store with a bit changed here and there in its log, with the note of what was flushed or without: how often that
/// is noticed, and how often the last commit is missing instead.
async fn flip_everywhere(noted: bool) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    sixteen_commits(&path);
    let copy = |folder: &Path| {
        let copied = copy_to(&path, folder);
        if noted {
            fs::copy(beside(&path, ".writer"), beside(&copied, ".writer")).unwrap();
        }
        copied
    };
    let log = fs::read(beside(&path, "-wal")).unwrap();
    let frame = FRAME as usize;
    let count = (log.len() - 32) / frame;
    // Every byte of the log's header and of frames' headers, and of each frame some more.
    let header = (0..32).map(|at| (0, at));
    let frames = (0..count).flat_map(|number| {
        let within =
            [number % 24, (number + 8) % 24, (number + 16) % 24, 24 + number * 31, 24 + number * 17 + 2048];
        within.into_iter().map(move |at| (number + 1, 32 + number * frame + at % frame))
    });
    let is_last = |number: usize| log[32 + (number - 1) * frame..][4..8] != [0; 4];
    let last_commit = (1..count).rev().find(|number| is_last(*number)).unwrap() + 1;
    let (mut noticed, mut lost) = (0, 0);
    let mut place = tempfile::tempdir().unwrap();
    let mut copied = copy(place.path());
    for (number, at) in header.chain(frames) {
        let mut file = fs::OpenOptions::new().write(true).open(beside(&copied, "-wal")).unwrap();
        let mut put = |byte: u8| {
            file.seek(SeekFrom::Start(at as u64)).unwrap();
            file.write_all(&[byte]).unwrap();
        };
        put(log[at] ^ (1 << (at % 8)));
        match Sqlite::open(&copied) {
            Err(StoreError::Corrupt { what, .. }) => {
                assert!(what.contains("-wal"), "{what}");
                noticed += 1;
                // Nothing else was touched.
                put(log[at]);
            }
            Err(other) => panic!("frame {number}, byte {at}: {other}"),
            Ok(store) => {
                assert!(number >= last_commit, "frame {number} of {last_commit}, byte {at}: not noticed");
                assert_eq!(state_of(store, &copied).await, 15, "frame {number}, byte {at}");
                lost += 1;
                place = tempfile::tempdir().unwrap();
                copied = copy(place.path());
            }
        }
    }
    assert_eq!(state_of(Sqlite::open(&copied).unwrap(), &copied).await, 16, "as it was, it is whole");
    (noticed, lost)
}

/// What SQLite itself cannot notice is a value that is another value now. Nothing else may come of it.
#[tokio::test]
async fn a_bit_of_the_file_that_has_changed_ends_in_an_answer_or_an_error_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    sixteen_commits(&path);
    // What is in the log goes into the file.
    drop(Sqlite::open(&path).unwrap());
    assert!(!beside(&path, "-wal").exists());
    let file = fs::read(&path).unwrap();
    let (mut errors, mut same, mut other) = (0, 0, 0);
    let sound = facts(&path).await.unwrap();
    // All of the file's header; of each page its header, what points to its cells, and some of these.
    let pages = (0..file.len() / PAGE).flat_map(|page| {
        let within = (0..12).chain((12..PAGE).step_by(409)).map(move |at| (at * 7 + page) % PAGE);
        within.chain(0..8).map(move |at| page * PAGE + at)
    });
    for at in (0..100).chain(pages) {
        let copy = tempfile::tempdir().unwrap();
        let copied = copy_to(&path, copy.path());
        let mut changed = file.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(&copied, changed).unwrap();
        match facts(&copied).await {
            Ok(facts) if facts == sound => same += 1,
            Ok(_) => other += 1,
            Err(_) => errors += 1,
        }
    }
    assert!(errors > 20 && same > 20, "{errors} errors, {same} without effect, {other} read otherwise");
}

/// Each task as it is read, by its name and in a list.
async fn facts(path: &Path) -> Result<Vec<String>, StoreError> {
    let store = Sqlite::open(path)?;
    let mut facts = Vec::new();
    for number in 0..8 {
        let id = longhaul_store::TaskId::new(format!("t{number}")).unwrap();
        facts.push(format!("{:?}", store.get(Scope::Operator, &id).await?));
    }
    let page = store.list(Scope::Operator, &Filter::all(), None, 100).await?;
    facts.extend(page.tasks.iter().map(|task| format!("{task:?}")));
    Ok(facts)
}

/// A page of the file.
const PAGE: usize = 4096;
