//! How much there may be.

use std::{sync::Arc, time::Duration};

use super::{
    Backend, Payload, ann, bob, create,
    creation::keyed,
    drive::{block_on, race},
    finish, get, id, json, one_with, task,
};
use crate::{
    Batch, CancelAsked, Cancellation, Created, Digest, Fingerprint, Limits, NewChild, NewTask, OnOrphan,
    OrphanRule, Outcome, Owner, Progress, Quota, Retention, Scope, Settings, Share, Start, StoreError,
    TaskStore,
};

pub(super) async fn open_tasks_of_one_owner_are_bounded(backend: &dyn Backend) {
    let one = one_with(backend, limited(|limits| limits.max_open_per_owner = 2));
    let first = create(&*one.store, task("t1")).await;
    create(&*one.store, task("t2")).await;
    refused(&*one.store, task("t3"), Quota::OpenPerOwner, 2).await;
    let mut other = task("t4");
    other.owner = bob();
    create(&*one.store, other).await;
    finish(&*one.store, &first).await;
    create(&*one.store, task("t5")).await;
}

/// A4 of `conformance/REQUIREMENTS.md`.
pub(super) async fn open_tasks_of_strangers_are_bounded_together(backend: &dyn Backend) {
    let one =
        one_with(backend, limited(|limits| (limits.max_open_anonymous, limits.max_open_per_owner) = (1, 2)));
    create(&*one.store, strange("t1", None)).await;
    refused(&*one.store, strange("t2", None), Quota::OpenAnonymous, 1).await;
    create(&*one.store, task("t3")).await;
}

/// A4 of `conformance/REQUIREMENTS.md`.
pub(super) async fn open_tasks_of_each_stranger_are_bounded(backend: &dyn Backend) {
    let one = one_with(backend, limited(|limits| limits.max_open_per_stranger = 2));
    let (store, other) = (&*one.store, one.deployment.join());
    let first = create(store, strange("t1", Some(1))).await;
    assert_eq!(first.share, Some(Share::new(1)));
    create(&*other, strange("t2", Some(1))).await;
    drop(other);
    refused(store, strange("t3", Some(1)), Quota::OpenPerStranger, 2).await;
    let other = one.deployment.join();
    refused(&*other, strange("t3", Some(1)), Quota::OpenPerStranger, 2).await;
    // Nobody else is kept from anything: neither other strangers, be they told apart or not, nor who has a name.
    for (name, share) in [("t4", Some(2)), ("t5", Some(u64::MAX)), ("t6", None), ("t7", None), ("t8", None)] {
        create(store, strange(name, share)).await;
    }
    for name in ["t9", "t10", "t11"] {
        let mut named = task(name);
        named.share = Some(Share::new(1));
        assert_eq!(create(store, named).await.share, None);
    }
    finish(store, &first).await;
    create(store, strange("t3", Some(1))).await;
    refused(store, strange("t12", Some(1)), Quota::OpenPerStranger, 2).await;
}

pub(super) async fn strangers_are_not_told_apart_where_one_may_have_every_place(backend: &dyn Backend) {
    let both = |limits: &mut Limits| (limits.max_open_anonymous, limits.max_open_per_stranger) = (2, 2);
    let one = one_with(backend, limited(both));
    for name in ["t1", "t2"] {
        assert_eq!(create(&*one.store, strange(name, Some(1))).await.share, None);
    }
    refused(&*one.store, strange("t3", Some(1)), Quota::OpenAnonymous, 2).await;
}

pub(super) async fn a_stranger_has_its_place_back_however_a_task_ends(backend: &dyn Backend) {
    let one = one_with(backend, limited(|limits| limits.max_open_per_stranger = 1));
    let store = &*one.store;
    for way in ["finished", "cancelled", "expired", "erased", "orphaned", "released"] {
        let mut new = strange(way, Some(1));
        new.retention = Retention::FromCreation(Duration::from_secs(1));
        if way == "orphaned" {
            new.orphan = Some(OrphanRule::new(Duration::from_millis(500), OnOrphan::Cancel));
        }
        let made = create(store, new).await;
        refused(store, strange("none", Some(1)), Quota::OpenPerStranger, 1).await;
        match way {
            "finished" => drop(finish(store, &made).await),
            "expired" | "orphaned" => {
                one.deployment.advance(Duration::from_secs(1));
                store.sweep(10).await.unwrap();
            }
            "released" => {
                store.release(&made.id, made.epoch).await.unwrap();
                refused(store, strange("none", Some(1)), Quota::OpenPerStranger, 1).await;
                let held = store.claim_one(&made.id).await.unwrap().expect("it was given back");
                finish(store, &held).await;
            }
            way => {
                store.request_cancel(Scope::Operator, &made.id, None).await.unwrap();
                if way == "erased" {
                    store.erase(Scope::Operator, &made.id).await.unwrap();
                }
            }
        }
        match get(store, &made.id).await {
            // It tells nothing any more of who made it.
            Some(ended) => assert_eq!(ended.share, None, "{way}"),
            None => assert_eq!(way, "erased"),
        }
    }
    create(store, strange("last", Some(1))).await;
}

pub(super) async fn whoever_ends_a_strangers_task_is_told_whose_it_was(backend: &dyn Backend) {
    let one = one_with(backend, limited(|limits| limits.max_open_per_stranger = 1));
    let store = &*one.store;
    for way in ["finished", "cancelled", "asked"] {
        let made = create(store, strange(way, Some(1))).await;
        let scope = Scope::Operator;
        let ended = match way {
            "finished" => finish(store, &made).await,
            "cancelled" => match store.request_cancel(scope, &made.id, None).await.unwrap() {
                Cancellation::Cancelled(ended) => ended,
                other => panic!("it was open: {other:?}"),
            },
            _ => match store.ask_to_cancel(scope, &made.id, None).await.unwrap() {
                CancelAsked::AtOnce(Cancellation::Cancelled(ended)) => ended,
                other => panic!("it was open: {other:?}"),
            },
        };
        assert_eq!(ended.share, Some(Share::new(1)), "{way}");
        // It is told nobody else.
        let kept = get(store, &made.id).await.unwrap();
        assert_eq!(kept.share, None, "{way}");
        let again = store.request_cancel(scope, &made.id, None).await.unwrap();
        assert_eq!(again, Cancellation::AlreadyTerminal(kept), "{way}");
    }
}

pub(super) async fn what_a_strangers_task_makes_is_counted_with_it(backend: &dyn Backend) {
    let one = one_with(backend, limited(|limits| limits.max_open_per_stranger = 2));
    let store = &*one.store;
    let parent = create(store, strange("parent", Some(1))).await;
    let child = |name: &str| {
        let mut task = task(name);
        task.start = Start::Queued { not_before: store.now() };
        Batch::new().with_child(NewChild::new(name, Fingerprint::new([7; Fingerprint::LEN]), task))
    };
    store.write(&parent.id, parent.epoch, child("one")).await.unwrap();
    assert_eq!(get(store, &id("one")).await.unwrap().share, parent.share);
    let full = store.write(&parent.id, parent.epoch, child("two")).await;
    assert!(
        matches!(full, Err(StoreError::Overloaded { what: Quota::OpenPerStranger, limit: 2 })),
        "{full:?}"
    );
    assert_eq!(get(store, &id("two")).await, None);
    let held = store.claim_one(&id("one")).await.unwrap().expect("it is due");
    finish(store, &held).await;
    store.write(&parent.id, parent.epoch, child("two")).await.unwrap();
}

pub(super) async fn strangers_that_race_make_no_more_than_they_may(backend: &dyn Backend) {
    let one = one_with(backend, limited(|limits| limits.max_open_per_stranger = 1));
    // The first of all strangers, and when others have been there.
    for share in [1, 2] {
        let nodes: Vec<_> = (0..4).map(|_| one.deployment.join()).collect();
        let made = race(4, |index| {
            block_on(nodes[index].create(strange(&format!("t{share}-{index}"), Some(share))))
        });
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1, "{made:?}");
        assert_eq!(one.store.counts().await.unwrap().open, share);
    }
}

pub(super) async fn open_tasks_in_all_are_bounded(backend: &dyn Backend) {
    let one = one_with(backend, limited(|limits| limits.max_open = 1));
    let first = create(&*one.store, task("t1")).await;
    let mut other = task("t2");
    other.owner = bob();
    refused(&*one.store, other.clone(), Quota::Open, 1).await;
    finish(&*one.store, &first).await;
    create(&*one.store, other).await;
}

pub(super) async fn tasks_kept_are_bounded(backend: &dyn Backend) {
    let mut settings = limited(|limits| (limits.max_retained, limits.max_retained_per_owner) = (3, 2));
    settings.tombstone = Duration::from_secs(60);
    let one = one_with(backend, settings);
    for name in ["t1", "t2"] {
        let mut new = task(name);
        new.retention = Retention::AfterTerminal(Duration::from_secs(60));
        let made = create(&*one.store, new).await;
        finish(&*one.store, &made).await;
    }
    refused(&*one.store, task("t3"), Quota::RetainedPerOwner, 2).await;
    let bobs = |name: &str| NewTask::new(id(name), bob(), "build", json("{}"));
    create(&*one.store, bobs("t4")).await;
    refused(&*one.store, bobs("t5"), Quota::Retained, 3).await;

    one.deployment.advance(Duration::from_secs(60));
    assert_eq!(one.store.sweep(10).await.unwrap().erased, 2);
    refused(&*one.store, task("t6"), Quota::RetainedPerOwner, 2).await;
    one.deployment.advance(Duration::from_secs(60));
    assert_eq!(one.store.sweep(10).await.unwrap().removed, 2);
    create(&*one.store, task("t7")).await;
}

pub(super) async fn a_full_store_still_joins(backend: &dyn Backend) {
    let one = one_with(backend, limited(|limits| limits.max_open = 1));
    let joining = |name: &str| {
        let mut new = task(name);
        new.join = Some(Digest::new([1; 32]));
        new
    };
    let first = create(&*one.store, joining("first")).await;
    assert_eq!(one.store.create(joining("second")).await.unwrap(), Created::Joined(first));
    refused(&*one.store, task("third"), Quota::Open, 1).await;
}

pub(super) async fn a_full_store_still_knows_a_key(backend: &dyn Backend) {
    let one = one_with(backend, limited(|limits| limits.max_open = 1));
    let first = create(&*one.store, keyed("first", &ann(), 1)).await;
    let again = one.store.create(keyed("again", &ann(), 1)).await.unwrap();
    assert_eq!(again, Created::Again(first));
    assert!(matches!(one.store.create(keyed("other", &ann(), 2)).await, Err(StoreError::KeyTaken)));
}

/// S4 of `conformance/REQUIREMENTS.md`.
pub(super) async fn what_is_too_large_is_refused(backend: &dyn Backend) {
    let kept = |payload, bytes| backend.kept(payload, bytes);
    let settings = limited(|limits| {
        (limits.max_arguments, limits.max_caller) = (kept(Payload::Json, 10), kept(Payload::Json, 10));
        (limits.max_outcome, limits.max_text) = (kept(Payload::Json, 10), kept(Payload::Text, 10));
    });
    let one = one_with(backend, settings.clone());
    let long = || json("\"123456789\"");
    let fits = || NewTask::new(id("t"), bob(), "build", json("{}"));
    let mut arguments = fits();
    arguments.arguments = long();
    let mut caller = fits();
    caller.caller = long();
    let mut tool = fits();
    // It is kept as it is.
    tool.tool = "x".repeat(settings.limits.max_text + 1).into();
    let mut message = fits();
    message.status_message = Some("01234567890".into());
    let (json_kept, text_kept) = (kept(Payload::Json, 11), kept(Payload::Text, 11));
    for (what, new, size) in [
        ("arguments", arguments, json_kept),
        ("caller", caller, json_kept),
        ("tool", tool, settings.limits.max_text + 1),
        ("message", message, text_kept),
    ] {
        let at_most =
            if size == json_kept { settings.limits.max_arguments } else { settings.limits.max_text };
        let refusal = one.store.create(new).await;
        assert!(
            matches!(refusal, Err(StoreError::TooLarge { found, limit, .. }) if (found, limit) == (size, at_most)),
            "{what}: {refusal:?}"
        );
    }
    assert_eq!(one.store.counts().await.unwrap().retained, 0);

    let made = create(&*one.store, fits()).await;
    let text: Arc<str> = "01234567890".into();
    let reports = [
        Batch::new().with_status_message(text.clone()),
        Batch::new().with_progress(Progress::new(1.0, None, Some(text.clone()))),
    ];
    for report in reports {
        let refusal = one.store.write(&made.id, made.epoch, report.clone()).await;
        assert!(matches!(refusal, Err(StoreError::TooLarge { .. })), "{refusal:?}");
        let refusal = one.store.finish(&made.id, made.epoch, Outcome::lost("gone"), report).await;
        assert!(matches!(refusal, Err(StoreError::TooLarge { .. })), "{refusal:?}");
    }
    let words: Arc<str> = "x".repeat(settings.limits.max_outcome + 1).into();
    for outcome in
        [Outcome::result(long(), false), Outcome::error(1, words.clone(), None), Outcome::lost(words)]
    {
        let refusal = one.store.finish(&made.id, made.epoch, outcome, Batch::new()).await;
        assert!(matches!(refusal, Err(StoreError::TooLarge { .. })), "{refusal:?}");
    }
    assert_eq!(get(&*one.store, &made.id).await, Some(made), "what was refused has changed nothing");
}

/// A stranger's task, which is claimed by whoever creates it.
fn strange(name: &str, share: Option<u64>) -> NewTask {
    let mut new = NewTask::new(id(name), Owner::Anonymous, "build", json("{}"));
    new.share = share.map(Share::new);
    new
}

pub(super) async fn refused(store: &dyn TaskStore, new: NewTask, quota: Quota, at: u64) {
    let (name, before) = (new.id.clone(), store.counts().await.unwrap());
    let refusal = store.create(new).await.expect_err("there is no room");
    assert!(refusal.is_retryable());
    assert!(
        matches!(&refusal, StoreError::Overloaded { what, limit } if (*what, *limit) == (quota, at)),
        "{refusal:?}"
    );
    assert_eq!(get(store, &name).await, None);
    assert_eq!(store.counts().await.unwrap(), before);
}

pub(super) fn limited<T>(limit: impl FnOnce(&mut Limits) -> T) -> Settings {
    let mut settings = Settings::default();
    limit(&mut settings.limits);
    settings
}
