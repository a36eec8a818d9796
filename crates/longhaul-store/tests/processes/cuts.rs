//! The log cut short: whatever reached the disk, the store opens to a state that was once committed.

use std::{
    fs::{self, OpenOptions},
    ops::Range,
    path::{Path, PathBuf},
};

use longhaul_store::{Sqlite, TaskStore};

use super::{contents, is_terminal, node::Node};

/// K24 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn a_log_cut_anywhere_opens_to_a_state_that_was_committed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    sixteen_commits(&path);
    let log = fs::metadata(beside(&path, "-wal")).expect("a killed process leaves its log").len();

    let mut states = Vec::new();
    // Every frame's edge and its neighbours, and places in between.
    let edges = (0..).map(|frame| 32 + frame * FRAME).take_while(|at| *at <= log);
    let mut offsets: Vec<u64> =
        edges.flat_map(|at| [at.saturating_sub(1), at, at + 1, at + 24, at + 2000]).collect();
    offsets.extend([0, 1, 16, 31, log - 1, log]);
    offsets.retain(|at| *at <= log);
    offsets.sort_unstable();
    offsets.dedup();
    for cut in offsets {
        let copy = tempfile::tempdir().unwrap();
        let copied = copy_to(&path, copy.path());
        OpenOptions::new().write(true).open(beside(&copied, "-wal")).unwrap().set_len(cut).unwrap();
        states.push((cut, state(&copied).await));
    }
    let steps: Vec<u64> = states.iter().map(|(_, state)| *state).collect();
    assert!(steps.is_sorted(), "more of the log never holds less: {states:?}");
    assert_eq!(steps.last(), Some(&16), "the whole log holds everything that was acknowledged");
    for step in 0..=16 {
        assert!(steps.contains(&step), "no cut leads to state {step}: {states:?}");
    }
}

/// K24 of `conformance/REQUIREMENTS.md`.
#[test]
fn at_every_byte_of_its_last_frames_a_log_holds_the_commits_that_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    // The first are in the file itself, so that little is to be read each time.
    let mut node = Node::start(&path);
    node.answer().unwrap();
    commits(&mut node, 0..7);
    assert!(node.leave().success());
    let mut node = Node::start(&path);
    node.answer().unwrap();
    commits(&mut node, 7..8);
    node.kill();
    let log = fs::read(beside(&path, "-wal")).unwrap();
    // Where each commit is whole: behind the frame that says how large the file is then.
    let is_last = |frame: &[u8]| frame[4..8] != [0; 4];
    let frames = log[32..].chunks_exact(FRAME as usize).zip(1..);
    let ends: Vec<u64> =
        frames.filter(|(frame, _)| is_last(frame)).map(|(_, number)| 32 + number * FRAME).collect();
    let [second, last] = ends[..] else { panic!("{} commits", ends.len()) };
    assert_eq!(last, log.len() as u64);
    // From the end on: what is cut off is never needed again, so the same files do for all.
    for cut in (last - 2 * FRAME..=last).rev() {
        let expected = 16 - i64::from(cut < last) - i64::from(cut < second);
        OpenOptions::new().write(true).open(beside(&path, "-wal")).unwrap().set_len(cut).unwrap();
        fs::remove_file(beside(&path, "-shm")).unwrap();
        let conn = rusqlite::Connection::open(&path).unwrap();
        // The log stays as it is.
        conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
        let seq: i64 = conn.query_row("SELECT seq FROM store", [], |row| row.get(0)).unwrap();
        assert_eq!(seq, expected, "cut at {cut} of {last}");
    }
}

/// Leaves a log with one commit each: task n exists in every state after the 2n-th, and has ended in every one after the
/// next.
pub(crate) fn sixteen_commits(path: &Path) {
    let mut node = Node::start(path);
    node.answer().unwrap();
    commits(&mut node, 0..8);
    node.kill();
}

fn commits(node: &mut Node, tasks: Range<usize>) {
    for number in tasks {
        assert_eq!(node.ask(format!("create t{number}")), "1");
        assert_eq!(node.ask(format!("finish t{number} 1")), "finished");
    }
}

/// Copies a store that nobody has open, as a crash has left it.
pub(crate) fn copy_to(path: &Path, folder: &Path) -> PathBuf {
    let copied = folder.join("tasks.db");
    fs::copy(path, &copied).unwrap();
    if beside(path, "-wal").exists() {
        fs::copy(beside(path, "-wal"), beside(&copied, "-wal")).unwrap();
    }
    copied
}

/// How many of the commits the store has come to, having checked that it is in the state after exactly those.
async fn state(path: &Path) -> u64 {
    state_of(Sqlite::open(path).expect("it opens"), path).await
}

pub(crate) async fn state_of(store: Sqlite, path: &Path) -> u64 {
    let seq = {
        let newest = store
            .list(longhaul_store::Scope::Operator, &longhaul_store::Filter::all(), None, 1)
            .await
            .unwrap();
        newest.tasks.first().map_or(0, |task| task.seq)
    };
    for number in 0..8 {
        let expected = match seq {
            _ if seq <= number * 2 => None,
            _ => Some(seq > number * 2 + 1),
        };
        assert_eq!(is_terminal(&store, &format!("t{number}")).await, expected, "t{number} in state {seq}");
    }
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.open, counts.retained), (seq % 2, seq.div_ceil(2)), "state {seq}");
    drop(store);
    contents(path);
    seq
}

pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A page of the log and its header.
pub(crate) const FRAME: u64 = 4096 + 24;
