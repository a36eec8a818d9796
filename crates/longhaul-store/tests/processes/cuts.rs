//! The log cut short: whatever reached the disk, the store opens to a state that was once committed.

use std::{
    fs::{self, OpenOptions},
    path::Path,
};

use longhaul_store::{Sqlite, TaskStore};

use super::{contents, is_terminal, node::Node};

/// K24 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn a_log_cut_anywhere_opens_to_a_state_that_was_committed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let mut node = Node::start(&path);
    node.answer().unwrap();
    // One commit each: task n exists in every state after the n-th, and has ended in every state after the next.
    for number in 0..8 {
        assert_eq!(node.ask(format!("create t{number}")), "1");
        assert_eq!(node.ask(format!("finish t{number} 1")), "finished");
    }
    node.kill();
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
        let copied = copy.path().join("tasks.db");
        fs::copy(&path, &copied).unwrap();
        fs::copy(beside(&path, "-wal"), beside(&copied, "-wal")).unwrap();
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

/// How many of the commits the store has come to, having checked that it is in the state after exactly those.
async fn state(path: &Path) -> u64 {
    let store = Sqlite::open(path).expect("it opens");
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

fn beside(path: &Path, suffix: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A page of the log and its header.
const FRAME: u64 = 4096 + 24;
