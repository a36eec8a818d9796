//! How tasks come to be.

use std::pin::pin;

use super::{
    Backend, ann, bob, create,
    drive::{block_on, poll_once, race},
    finish, get, id, json, one, queued, task,
};
use crate::{
    CallKey, Created, Dialect, Digest, Epoch, NewTask, Once, Owner, Phase, Rerun, Retention, Scope, Settings,
    Start, StoreError, TaskStore,
};

pub(super) async fn a_created_task_is_there_for_every_node_at_once(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let made = create(&*one.store, task("t")).await;
    assert_eq!(get(&*other, &made.id).await.as_ref(), Some(&made));
    assert_eq!(get(&*one.store, &made.id).await.as_ref(), Some(&made));
    assert_ne!(one.store.node(), other.node());
}

pub(super) async fn a_task_is_born_claimed_by_the_node_that_made_it(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    let lease = made.lease().expect("it is running");
    assert_eq!(
        (&lease.node, made.attempt, made.epoch, made.started),
        (one.store.node(), 1, Epoch::FIRST, true)
    );
    assert!(lease.until > one.store.now());
    assert_eq!(
        lease.until,
        made.created_at.after(one.store.lease()),
        "a lease lasts as long as the store says"
    );
    assert!(one.deployment.join().claim(10, None).await.unwrap().is_empty());
}

pub(super) async fn a_queued_task_has_not_been_started(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, queued("t", &*one.store)).await;
    assert!(matches!(made.phase, Phase::Queued { .. }));
    assert_eq!((made.attempt, made.started, made.epoch), (0, false, Epoch::new(0)));
}

pub(super) async fn payloads_come_back_byte_for_byte(backend: &dyn Backend) {
    let one = one(backend);
    let odd = r#"{ "a" : [1.0, 1e400, -0, 12345678901234567890], "b":"\u0000 ' \" {} %s ; DROP TABLE tasks", "é":null }"#;
    let owner = Owner::principal("o'brien \u{0} \"x\" {} é\n").unwrap();
    let mut new = NewTask::new(id("t-_.~:1"), owner.clone(), "a'tool\u{0}", json(odd));
    new.caller = json(r#"[ true ]"#);
    (new.rerun, new.dialect, new.retention) = (Rerun::Resumable, Dialect::D2, Retention::AfterTerminal(DAY));
    new.start = Start::Queued { not_before: one.store.now().after(DAY) };
    new.join = Some(Digest::new([7; 32]));
    new.status_message = Some("waiting; ' \u{1b}[0m é".into());
    new.once = Some(once("!~\"'%/x", 8));
    new.poll_interval_ms = Some(1234);
    let made = create(&*one.store, new).await;
    let read = one.store.get(Scope::Owner(&owner), &made.id).await.unwrap().expect("it exists");
    assert_eq!(read, made);
    assert_eq!((read.arguments.as_str(), read.caller.as_str()), (odd, "[ true ]"));
    assert_eq!((&*read.tool, read.rerun, read.dialect), ("a'tool\u{0}", Rerun::Resumable, Dialect::D2));
    assert_eq!((read.retention, read.poll_interval_ms), (Retention::AfterTerminal(DAY), Some(1234)));

    let large = format!("\"{}\"", "x".repeat(2 << 20));
    let made = create(&*one.store, NewTask::new(id("large"), ann(), "t", json(&large))).await;
    assert_eq!(get(&*one.store, &made.id).await.expect("it exists").arguments.as_str(), large);
}

pub(super) async fn an_id_is_used_once(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    let mut second = task("t");
    second.owner = bob();
    assert!(matches!(one.store.create(second).await, Err(StoreError::AlreadyExists { id }) if id == made.id));
    finish(&*one.store, &made).await;
    assert!(matches!(one.store.create(task("t")).await, Err(StoreError::AlreadyExists { .. })));
    assert_eq!(one.store.counts().await.unwrap().retained, 1);
}

pub(super) async fn the_same_call_joins_the_task_that_is_open(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let joining = |name: &str, owner: Owner| {
        let mut new = task(name);
        (new.owner, new.join) = (owner, Some(Digest::new([1; 32])));
        new
    };
    let first = create(&*one.store, joining("first", ann())).await;
    assert_eq!(other.create(joining("second", ann())).await.unwrap(), Created::Joined(first.clone()));
    assert_eq!(get(&*one.store, &id("second")).await, None);
    assert!(matches!(other.create(joining("bobs", bob())).await.unwrap(), Created::New(_)));
    let mut different = joining("different", ann());
    different.join = Some(Digest::new([2; 32]));
    assert!(matches!(other.create(different).await.unwrap(), Created::New(_)));

    finish(&*one.store, &first).await;
    assert!(
        matches!(other.create(joining("third", ann())).await.unwrap(), Created::New(task) if task.id == id("third"))
    );
}

pub(super) async fn strangers_never_join(backend: &dyn Backend) {
    let one = one(backend);
    for name in ["first", "second"] {
        let mut new = task(name);
        (new.owner, new.join) = (Owner::Anonymous, Some(Digest::new([1; 32])));
        assert!(matches!(one.store.create(new).await.unwrap(), Created::New(_)));
    }
}

pub(super) async fn a_create_given_up_midway_is_whole_or_nothing(backend: &dyn Backend) {
    let one = one(backend);
    for round in 0..20 {
        let name = format!("t{round}");
        {
            let mut create = pin!(one.store.create(task(&name)));
            let _unknown = poll_once(create.as_mut());
        }
        let again = one.store.create(task(&name)).await;
        assert!(matches!(again, Ok(Created::New(_)) | Err(StoreError::AlreadyExists { .. })), "{again:?}");
        let whole = get(&*one.store, &id(&name)).await.expect("it exists either way");
        assert_eq!(whole.arguments, task(&name).arguments);
    }
    assert_eq!(one.store.counts().await.unwrap().open, 20);
}

pub(super) async fn creates_racing_under_one_id_make_one_task(backend: &dyn Backend) {
    let one = one(backend);
    let nodes: Vec<_> = (0..4).map(|_| one.deployment.join()).collect();
    let results = race(4, |index| block_on(nodes[index].create(task("t"))));
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert!(results.iter().all(|r| matches!(r, Ok(Created::New(_)) | Err(StoreError::AlreadyExists { .. }))));
}

pub(super) async fn creates_racing_under_one_digest_make_one_task(backend: &dyn Backend) {
    let one = one(backend);
    let nodes: Vec<_> = (0..4).map(|_| one.deployment.join()).collect();
    let results = race(4, |index| {
        let mut new = task(&format!("t{index}"));
        new.join = Some(Digest::new([9; 32]));
        block_on(nodes[index].create(new)).unwrap()
    });
    assert_eq!(results.iter().filter(|result| matches!(result, Created::New(_))).count(), 1);
    let ids: Vec<_> = results.into_iter().map(|result| result.into_record().id).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

pub(super) async fn a_call_under_a_key_is_made_once(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    for owner in [ann(), Owner::Anonymous] {
        let (first, again) = match &owner {
            Owner::Principal(_) => ("first", "again"),
            Owner::Anonymous => ("stranger", "stranger-again"),
        };
        let made = create(&*one.store, keyed(first, &owner, 1)).await;
        assert_eq!(made.once, Some(once("key", 1)));
        assert_eq!(other.create(keyed(again, &owner, 1)).await.unwrap(), Created::Again(made.clone()));
        assert_eq!(other.create(keyed(first, &owner, 1)).await.unwrap(), Created::Again(made.clone()));
        let ended = finish(&*one.store, &made).await;
        assert_eq!(other.create(keyed(again, &owner, 1)).await.unwrap(), Created::Again(ended.clone()));
        assert_eq!(get(&*one.store, &id(again)).await, None);
        assert_eq!(other.called(&owner, &once("key", 1).key).await.unwrap(), Some(ended));
    }
    assert_eq!(one.store.counts().await.unwrap().retained, 2);
}

pub(super) async fn a_key_stands_for_one_call_of_one_owner(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, keyed("first", &ann(), 1)).await;
    for ended in [false, true] {
        if ended {
            finish(&*one.store, &made).await;
        }
        let before = one.store.counts().await.unwrap();
        let refusal = one.store.create(keyed("other", &ann(), 2)).await;
        assert!(matches!(refusal, Err(StoreError::KeyTaken)), "{refusal:?}");
        assert_eq!(get(&*one.store, &id("other")).await, None);
        assert_eq!(one.store.counts().await.unwrap(), before, "nothing was created");
    }
    let key = &once("key", 1).key;
    assert_eq!(one.store.called(&bob(), key).await.unwrap(), None);
    let bobs = one.store.create(keyed("bobs", &bob(), 2)).await.unwrap();
    assert!(matches!(bobs, Created::New(_)));
    let found = one.store.called(&bob(), key).await.unwrap();
    assert_eq!(found, Some(bobs.into_record()));
    assert_eq!(one.store.called(&ann(), &once("another", 1).key).await.unwrap(), None);
}

pub(super) async fn a_key_is_spent_until_the_tombstone_goes(backend: &dyn Backend) {
    let one = one(backend);
    let mut new = keyed("first", &ann(), 1);
    new.retention = Retention::AfterTerminal(DAY);
    let made = create(&*one.store, new).await;
    finish(&*one.store, &made).await;
    one.deployment.advance(DAY);
    for swept in [false, true] {
        if swept {
            assert_eq!(one.store.sweep(10).await.unwrap().erased, 1);
        }
        let again = one.store.create(keyed("again", &ann(), 1)).await;
        assert!(matches!(&again, Err(StoreError::KeySpent { id }) if *id == made.id), "{again:?}");
        assert!(matches!(one.store.create(keyed("other", &ann(), 2)).await, Err(StoreError::KeyTaken)));
        assert_eq!(one.store.called(&ann(), &once("key", 1).key).await.unwrap(), None);
    }
    one.deployment.advance(Settings::default().tombstone);
    assert_eq!(one.store.sweep(10).await.unwrap().removed, 1);
    assert!(matches!(one.store.create(keyed("anew", &ann(), 2)).await.unwrap(), Created::New(_)));
}

pub(super) async fn creates_racing_under_one_key_make_one_task(backend: &dyn Backend) {
    let one = one(backend);
    let nodes: Vec<_> = (0..4).map(|_| one.deployment.join()).collect();
    let results =
        race(4, |index| block_on(nodes[index].create(keyed(&format!("t{index}"), &ann(), 1))).unwrap());
    assert_eq!(results.iter().filter(|result| matches!(result, Created::New(_))).count(), 1);
    let ids: Vec<_> = results.into_iter().map(|result| result.into_record().id).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(one.store.counts().await.unwrap().retained, 1);
}

/// A task of this owner that is created once under one key, for a call with this fingerprint.
pub(super) fn keyed(name: &str, owner: &Owner, of: u8) -> NewTask {
    let mut new = task(name);
    (new.owner, new.once) = (owner.clone(), Some(once("key", of)));
    new
}

pub(super) fn once(key: &str, of: u8) -> Once {
    Once::new(CallKey::new(key).unwrap(), Digest::new([of; 32]))
}

const DAY: std::time::Duration = std::time::Duration::from_secs(86_400);
