//! Processes that contend, stop, and are killed.

use std::{collections::BTreeSet, time::Duration};

use longhaul_store::{Batch, EventStore, Json, NewTask, Owner, Sqlite, Stream, TaskId, TaskStore};
use rustix::process::Signal;

use super::{contents, is_terminal, node::Node};

#[test]
fn processes_that_write_at_once_all_get_through() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let mut nodes: Vec<_> = (0..3).map(|_| Node::start(&path)).collect();
    for node in &mut nodes {
        assert!(node.answer().unwrap().starts_with("open "));
    }
    for (number, node) in nodes.iter_mut().enumerate() {
        node.order(format!("hammer n{number} 40 4"));
    }
    let mut said = BTreeSet::new();
    for node in &mut nodes {
        loop {
            let answer = node.answer().expect("it goes on to its end");
            if answer == "hammered" {
                break;
            }
            said.insert(answer);
        }
    }
    assert_eq!(said.len(), 3 * 4 * (40 + 20));
    for node in nodes {
        assert!(node.leave().success());
    }
    let (all, ended) = contents(&path);
    assert_eq!((all.len(), ended.len()), (3 * 4 * 40, 3 * 4 * 20));
}

#[tokio::test]
async fn a_killed_node_loses_its_leases_at_once_and_a_living_one_keeps_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let (mut dying, mut living) = (Node::start(&path), Node::start(&path));
    let name = dying.answer().unwrap().trim_start_matches("open ").to_owned();
    living.answer().unwrap();
    for number in 0..3 {
        assert_eq!(dying.ask(format!("create dying{number}")), "1");
        assert_eq!(living.ask(format!("create living{number}")), "1");
    }
    let store = Sqlite::open(&path).unwrap();
    assert!(store.claim(10, None).await.unwrap().is_empty());
    assert_eq!(living.ask("claim 10"), "");
    let proof = folder.path().join("tasks.db.nodes").join(name);
    assert!(proof.exists());

    dying.kill();
    let claimed = store.claim(10, None).await.unwrap();
    let ids: Vec<_> = claimed.iter().map(|claim| claim.id.as_str()).collect();
    assert_eq!(ids, ["dying0", "dying1", "dying2"]);
    assert!(claimed.iter().all(|claim| claim.attempt == 2));
    assert!(!proof.exists(), "the dead node's file is removed");
    assert_eq!(living.ask("claim 10"), "", "and these are taken now");
    assert_eq!(living.ask("renew living0 1"), "0");
    assert!(living.leave().success());
    assert_eq!(store.claim(10, None).await.unwrap().len(), 3, "who leaves in order is gone, too");
}

#[tokio::test]
async fn what_a_killed_process_sent_is_replayed_by_another_and_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let (mut dying, mut living) = (Node::start(&path), Node::start(&path));
    for node in [&mut dying, &mut living] {
        assert!(node.answer().unwrap().starts_with("open "));
    }
    assert_eq!((dying.ask("append one"), dying.ask("append two")), ("1".to_owned(), "2".to_owned()));
    dying.kill();
    assert_eq!(living.ask("append three"), "3");
    let store = Sqlite::open(&path).unwrap();
    let missed = store.replay(Stream::new(&Owner::Anonymous, "s", "t"), 1, 10).await.unwrap();
    let missed = missed.expect("it can be resumed");
    assert_eq!(missed.iter().map(|event| &*event.text).collect::<Vec<_>>(), ["two", "three"]);
}

#[tokio::test]
async fn a_stopped_node_is_not_dead() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let mut stopped = Node::start(&path);
    stopped.answer().unwrap();
    assert_eq!(stopped.ask("create t"), "1");
    stopped.signal(Signal::STOP);
    let store = Sqlite::open(&path).unwrap();
    assert!(store.claim(10, None).await.unwrap().is_empty());
    store.request_cancel(longhaul_store::Scope::Operator, &TaskId::new("t").unwrap(), None).await.unwrap();
    stopped.signal(Signal::CONT);
    assert!(stopped.ask("write t 1 late").contains("no longer held at epoch 1"));
    assert_eq!(stopped.ask("renew t 1"), "1");
}

#[tokio::test]
async fn a_change_in_one_process_is_noticed_in_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let store = Sqlite::open(&path).unwrap();
    let task = NewTask::new(TaskId::new("t").unwrap(), Owner::Anonymous, "build", Json::parse("{}").unwrap());
    let made = store.create(task).await.unwrap().into_record();
    let mut other = Node::start(&path);
    other.answer().unwrap();
    for round in ["one", "two"] {
        assert_eq!(other.ask("watch t"), "watching");
        store.write(&made.id, made.epoch, Batch::new().with_status_message(round)).await.unwrap();
        assert_eq!(other.answer().as_deref(), Some(round));
    }
}

#[tokio::test]
async fn what_a_killed_process_said_was_done_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let (mut made, mut ended) = (BTreeSet::new(), BTreeSet::new());
    for round in 0..12 {
        let mut node = Node::start(&path);
        node.answer().unwrap();
        node.order(format!("hammer r{round} 100000 {}", 1 + round % 8));
        // It dies in the middle of things: after as many words as the round says, and some time more.
        for _ in 0..(round * 20) {
            note(&node.answer().unwrap(), &mut made, &mut ended);
        }
        std::thread::sleep(Duration::from_micros(round * 137));
        node.signal(Signal::KILL);
        while let Some(answer) = node.answer() {
            note(&answer, &mut made, &mut ended);
        }
        drop(node);
        let store = Sqlite::open(&path).unwrap();
        for id in &made {
            assert_eq!(is_terminal(&store, id).await.map(|it| it || !ended.contains(id)), Some(true), "{id}");
        }
        drop(store);
    }
    assert!(made.len() > 100 && ended.len() > 50, "{} made, {} ended", made.len(), ended.len());
    let (all, all_ended) = contents(&path);
    assert!(all.is_superset(&made) && all_ended.is_superset(&ended));
}

fn note(answer: &str, made: &mut BTreeSet<String>, ended: &mut BTreeSet<String>) {
    match answer.split_once(' ') {
        Some(("made", id)) => made.insert(id.to_owned()),
        Some(("ended", id)) => ended.insert(id.to_owned()),
        _ => panic!("{answer}"),
    };
}
