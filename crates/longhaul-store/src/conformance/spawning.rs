//! Tasks that tasks make: each once, each told to the one that made it, and ended with it.

use std::time::Duration;

use super::{
    Backend, ann, bob, create,
    drive::{block_on, race},
    finish, get, id, json, one, one_with, task,
};
use crate::{
    Batch, Cancellation, ChildEnd, Erasure, Fingerprint, Limits, NewChild, NewTask, Outcome, Park, Phase,
    Quota, Record, Reply, Retention, Scope, Settings, Start, Step, StepState, StoreError, TaskStore,
};

fn of() -> Fingerprint {
    Fingerprint::new([7; Fingerprint::LEN])
}

/// The child `name`, queued and due, which is the step of that name.
fn child(name: &str, store: &dyn TaskStore) -> NewChild {
    // Whose it is and how it is found is its parent's to say.
    let mut task = NewTask::new(id(name), bob(), "test", json("{}"));
    task.start = Start::Queued { not_before: store.now() };
    task.join = Some(crate::Digest::new([1; 32]));
    NewChild::new(name, of(), task)
}

async fn spawn(store: &dyn TaskStore, parent: &Record, child: NewChild) -> Record {
    let name = child.task.id.clone();
    store.write(&parent.id, parent.epoch, Batch::new().with_child(child)).await.expect("the child is made");
    get(store, &name).await.expect("it is there")
}

async fn refused(store: &dyn TaskStore, parent: &Record, child: NewChild) -> StoreError {
    store.write(&parent.id, parent.epoch, Batch::new().with_child(child)).await.expect_err("it is refused")
}

async fn claim(store: &dyn TaskStore, name: &str) -> Record {
    store.claim_one(&id(name)).await.unwrap().expect("it is due")
}

/// The state of a step of a task that is held.
async fn state(store: &dyn TaskStore, task: &Record, key: &str) -> Option<StepState> {
    let steps = store.steps(&task.id, task.epoch).await.unwrap();
    steps.into_iter().find(|step| *step.key == *key).map(|step| step.state)
}

async fn park_on(store: &dyn TaskStore, parent: &Record, keys: &[&str]) -> Record {
    let park = Park::new(vec![], None).or_children(keys.iter().map(|key| (*key).into()).collect());
    store.write(&parent.id, parent.epoch, Batch::new().with_park(park)).await.unwrap();
    get(store, &parent.id).await.unwrap()
}

fn cancelled(record: Option<Record>) -> bool {
    record.is_some_and(|record| matches!(record.outcome(), Some(Outcome::Cancelled { .. })))
}

pub(super) async fn a_child_is_made_once_and_is_its_parents_owners(backend: &dyn Backend) {
    let one = one(backend);
    let store = &*one.store;
    let parent = create(store, task("p")).await;
    let before = store.counts().await.unwrap();
    let made = spawn(store, &parent, child("c", store)).await;
    let link = made.parent.as_ref().expect("it has a parent");
    assert_eq!((&link.task, &*link.step, link.depth), (&parent.id, "c", 1));
    assert_eq!((&made.owner, made.join, made.started), (&ann(), None, false));
    assert_eq!(state(store, &parent, "c").await, Some(StepState::Child(made.id.clone())));
    // The same report, for its answer was lost; and a node that knows nothing of it.
    store.write(&parent.id, parent.epoch, Batch::new().with_child(child("c", store))).await.unwrap();
    let other = NewChild::new("c", of(), NewTask::new(id("d"), ann(), "test", json("{}")));
    assert!(matches!(refused(store, &parent, other).await, StoreError::Recorded { .. }));
    assert!(matches!(
        refused(store, &parent, NewChild { step: "d".into(), ..child("p", store) }).await,
        StoreError::AlreadyExists { .. }
    ));
    let after = store.counts().await.unwrap();
    assert_eq!((after.open, after.retained), (before.open + 1, before.retained + 1));
    let now = get(store, &parent.id).await.unwrap();
    assert_eq!((now.children.open, now.children.ended, now.steps), (1, 0, 1));
    assert!(store.get(Scope::Owner(&bob()), &made.id).await.unwrap().is_none());
}

pub(super) async fn a_step_that_is_a_task_is_made_with_it_alone(backend: &dyn Backend) {
    let one = one(backend);
    let store = &*one.store;
    let parent = create(store, task("p")).await;
    let step = Step::new("c", of(), StepState::Child(id("c")));
    let written = store.write(&parent.id, parent.epoch, Batch::new().with_step(step)).await;
    assert!(matches!(written, Err(StoreError::Recorded { .. })), "{written:?}");
    spawn(store, &parent, child("c", store)).await;
    let learnt = Step::new("c", of(), StepState::learnt(json("1")));
    let written = store.write(&parent.id, parent.epoch, Batch::new().with_step(learnt)).await;
    assert!(matches!(written, Err(StoreError::Recorded { .. })), "{written:?}");
}

pub(super) async fn who_lost_a_task_makes_no_children_of_it(backend: &dyn Backend) {
    let one = one(backend);
    let store = &*one.store;
    let parent = create(store, task("p")).await;
    store.release(&parent.id, parent.epoch).await.unwrap();
    assert!(refused(store, &parent, child("c", store)).await.is_fenced());
    let parent = claim(store, "p").await;
    finish(store, &parent).await;
    assert!(refused(store, &parent, child("c", store)).await.is_fenced());
    assert!(get(store, &id("c")).await.is_none());
}

pub(super) async fn a_child_that_ends_is_learnt_and_wakes_its_parent(backend: &dyn Backend) {
    let one = one(backend);
    let (store, other) = (&*one.store, one.deployment.join());
    let parent = create(store, task("p")).await;
    spawn(store, &parent, child("c", store)).await;
    spawn(store, &parent, child("d", store)).await;
    let parked = park_on(store, &parent, &["c", "d"]).await;
    assert!(matches!(parked.phase, Phase::Parked { until: None }), "{:?}", parked.phase);
    one.deployment.advance(Duration::from_secs(1));
    let held = other.claim_one(&id("c")).await.unwrap().expect("it is due");
    finish(&*other, &held).await;
    let due = get(store, &parent.id).await.unwrap();
    assert!(matches!(due.phase, Phase::Queued { .. }), "{:?}", due.phase);
    assert!(due.seq > parked.seq, "whoever waits looks");
    assert_eq!(due.updated_at, store.now(), "one more has ended, as callers are told");
    assert_eq!(due.status_changed_at, parked.status_changed_at, "its status is what it was");
    assert_eq!((due.children.open, due.children.ended), (1, 1));
    let parent = claim(store, "p").await;
    let Some(StepState::Learnt { value, is_error: false }) = state(store, &parent, "c").await else {
        panic!("it is learnt");
    };
    let end = ChildEnd::read(&value).unwrap();
    assert_eq!((end.task, end.outcome), (id("c"), Outcome::result(json(r#"{"content":[]}"#), false)));
    assert_eq!(state(store, &parent, "d").await, Some(StepState::Child(id("d"))));
    // It waits for what has come: it is due at once.
    let due = park_on(store, &parent, &["c", "d"]).await;
    assert!(matches!(due.phase, Phase::Queued { .. }), "{:?}", due.phase);
}

pub(super) async fn every_end_of_a_child_is_told(backend: &dyn Backend) {
    let settings = Settings { limits: Limits { max_step: 2000, ..Limits::default() }, ..Settings::default() };
    let one = one_with(backend, settings);
    let store = &*one.store;
    let parent = create(store, task("p")).await;
    for name in ["cancelled", "expired", "failed", "refused", "lost", "large"] {
        let mut new = child(name, store);
        if name == "expired" {
            new.task.retention = Retention::FromCreation(Duration::from_secs(10));
        }
        spawn(store, &parent, new).await;
    }
    store.request_cancel(Scope::Operator, &id("cancelled"), Some("enough")).await.unwrap();
    let error = Outcome::error(-32602, "no such crate", Some(json(r#"{"crate":"x"}"#)));
    let large = Outcome::result(json(&format!(r#""{}""#, "x".repeat(3000))), false);
    let failed = Outcome::result(json(r#"{"content":[]}"#), true);
    let ends = [
        ("failed", failed.clone()),
        ("refused", error.clone()),
        ("lost", Outcome::lost("gone")),
        ("large", large),
    ];
    for (name, outcome) in ends {
        let held = claim(store, name).await;
        store.finish(&held.id, held.epoch, outcome, Batch::new()).await.unwrap();
    }
    one.deployment.advance(Duration::from_secs(11));
    assert_eq!(store.sweep(10).await.unwrap().expired, [id("expired")]);
    for (name, outcome) in [
        ("cancelled", Some(Outcome::cancelled(Some("enough".into())))),
        ("expired", Some(Outcome::expired())),
        ("failed", Some(failed)),
        ("refused", Some(error)),
        ("lost", Some(Outcome::lost("gone"))),
        ("large", None),
    ] {
        let Some(StepState::Learnt { value, is_error: true }) = state(store, &parent, name).await else {
            panic!("{name} is learnt");
        };
        let end = ChildEnd::read(&value).unwrap();
        assert_eq!(end.task, id(name));
        match outcome {
            Some(outcome) => assert_eq!(end.outcome, outcome, "{name}"),
            None => assert!(matches!(end.outcome, Outcome::Error { .. }), "{name}"),
        }
    }
    let now = get(store, &parent.id).await.unwrap();
    assert_eq!((now.children.open, now.children.ended), (0, 6));
}

/// K21 of `conformance/REQUIREMENTS.md`.
pub(super) async fn a_task_that_ends_ends_its_children_and_theirs(backend: &dyn Backend) {
    let one = one(backend);
    let store = &*one.store;
    for (how, ends) in [("finish", true), ("cancel", true), ("expire", true)] {
        let name = |of: &str| format!("{how}-{of}");
        let mut new = task(&name("p"));
        if how == "expire" {
            new.retention = Retention::FromCreation(Duration::from_secs(10));
        }
        let parent = create(store, new).await;
        spawn(store, &parent, child(&name("c"), store)).await;
        let held = claim(store, &name("c")).await;
        spawn(store, &held, child(&name("cc"), store)).await;
        let mut left = child(&name("left"), store);
        left.outlives = true;
        spawn(store, &parent, left).await;
        match how {
            "finish" => drop(finish(store, &parent).await),
            "cancel" => {
                let done = store.request_cancel(Scope::Operator, &parent.id, None).await.unwrap();
                assert!(matches!(done, Cancellation::Cancelled(_)));
            }
            _ => {
                one.deployment.advance(Duration::from_secs(11));
                assert_eq!(store.sweep(10).await.unwrap().expired, std::slice::from_ref(&parent.id));
            }
        }
        assert_eq!(cancelled(get(store, &id(&name("c"))).await), ends, "{how}");
        assert_eq!(cancelled(get(store, &id(&name("cc"))).await), ends, "{how}");
        let written = store.write(&held.id, held.epoch, Batch::new().with_status_message("late")).await;
        assert!(written.is_err_and(|error| error.is_fenced()), "{how}");
        let ended = get(store, &parent.id).await.unwrap();
        let left = claim(store, &name("left")).await;
        finish(store, &left).await;
        assert_eq!(get(store, &parent.id).await.unwrap(), ended, "it has ended: {how}");
    }
    assert_eq!(store.counts().await.unwrap().open, 0);
}

pub(super) async fn a_task_that_cannot_do_without_a_child_fails_with_it(backend: &dyn Backend) {
    let one = one(backend);
    let store = &*one.store;
    let parent = create(store, task("p")).await;
    let essential = |name: &str| NewChild { essential: true, ..child(name, store) };
    spawn(store, &parent, essential("good")).await;
    spawn(store, &parent, essential("bad")).await;
    spawn(store, &parent, child("other", store)).await;
    finish(store, &claim(store, "good").await).await;
    assert!(get(store, &parent.id).await.is_some_and(|parent| !parent.is_terminal()));
    let bad = claim(store, "bad").await;
    let failed = Outcome::error(-1, "no disk", None);
    store.finish(&bad.id, bad.epoch, failed, Batch::new()).await.unwrap();
    let ended = get(store, &parent.id).await.unwrap();
    let Some(Outcome::Error { code: -32603, message, data: Some(data) }) = ended.outcome() else {
        panic!("it has failed: {ended:?}");
    };
    assert!(message.contains("no disk") && data.as_str().contains("child_failed"), "{message} {data:?}");
    assert!(cancelled(get(store, &id("other")).await));
    let written = store.write(&parent.id, parent.epoch, Batch::new().with_status_message("late")).await;
    assert!(written.is_err_and(|error| error.is_fenced()));
}

pub(super) async fn children_are_bounded(backend: &dyn Backend) {
    let limits = Limits {
        max_depth: 2,
        max_children: 2,
        max_descendants: 4,
        max_open_per_owner: 5,
        ..Limits::default()
    };
    let one = one_with(backend, Settings { limits, ..Settings::default() });
    let store = &*one.store;
    let quota = |error| match error {
        StoreError::Overloaded { what, limit } => (what, limit),
        other => panic!("{other}"),
    };
    let parent = create(store, task("p")).await;
    spawn(store, &parent, child("a", store)).await;
    let a = claim(store, "a").await;
    spawn(store, &a, child("aa", store)).await;
    let aa = claim(store, "aa").await;
    assert_eq!(quota(refused(store, &aa, child("aaa", store)).await), (Quota::Depth, 2));
    spawn(store, &parent, child("b", store)).await;
    assert_eq!(quota(refused(store, &parent, child("c", store)).await), (Quota::Children, 2));
    assert_eq!(get(store, &parent.id).await.unwrap().steps, 2, "nothing of it is recorded");
    // Its owner has as many open tasks as it may.
    create(store, task("q")).await;
    finish(store, &claim(store, "b").await).await;
    create(store, task("r")).await;
    assert_eq!(quota(refused(store, &parent, child("c", store)).await), (Quota::OpenPerOwner, 5));
    assert!(get(store, &id("c")).await.is_none());
    finish(store, &aa).await;
    spawn(store, &parent, child("c", store)).await;
    finish(store, &claim(store, "c").await).await;
    assert_eq!(quota(refused(store, &a, child("d", store)).await), (Quota::Descendants, 4));
}

pub(super) async fn bytes_below_a_task_are_bounded(backend: &dyn Backend) {
    let limits = Limits { max_descendants: 6, max_descendant_bytes: 6_000, ..Limits::default() };
    let one = one_with(backend, Settings { limits, ..Settings::default() });
    let store = &*one.store;
    let large = json(&format!("\"{}\"", "x".repeat(1_500)));
    let is_full = |error| matches!(error, StoreError::Overloaded { what: Quota::Descendants, limit: 6 });
    let parent = create(store, task("p")).await;
    // One, and one more for what it is made with.
    let mut heavy = child("a", store);
    heavy.task.arguments = large.clone();
    spawn(store, &parent, heavy).await;
    let a = claim(store, "a").await;
    spawn(store, &a, child("aa", store)).await;
    let aa = claim(store, "aa").await;
    store.finish(&aa.id, aa.epoch, Outcome::result(large, false), Batch::new()).await.unwrap();
    spawn(store, &parent, child("b", store)).await;
    // With it come what its child came to, and the step that tells it so.
    finish(store, &a).await;
    assert!(
        is_full(refused(store, &parent, child("c", store)).await),
        "three were made, of three more shares"
    );
    // Another task has all of its own.
    let other = create(store, task("q")).await;
    spawn(store, &other, child("e", store)).await;
}

pub(super) async fn a_parent_that_is_forgotten_leaves_what_outlives_it(backend: &dyn Backend) {
    let one = one(backend);
    let store = &*one.store;
    let parent = create(store, task("p")).await;
    spawn(store, &parent, NewChild { outlives: true, ..child("c", store) }).await;
    assert_eq!(store.erase(Scope::Operator, &parent.id).await.unwrap(), Erasure::Open);
    finish(store, &parent).await;
    assert_eq!(store.erase(Scope::Operator, &parent.id).await.unwrap(), Erasure::Erased);
    let held = claim(store, "c").await;
    spawn(store, &held, child("cc", store)).await;
    finish(store, &held).await;
    assert!(cancelled(get(store, &id("cc")).await));
    assert_eq!(store.counts().await.unwrap().open, 0);
}

pub(super) async fn a_child_whose_step_is_forgotten_is_a_child_still(backend: &dyn Backend) {
    let one = one(backend);
    let store = &*one.store;
    let parent = create(store, task("p")).await;
    spawn(store, &parent, child("c", store)).await;
    spawn(store, &parent, child("d", store)).await;
    let forget = Batch::new().with_forgotten("c").with_forgotten("d");
    store.write(&parent.id, parent.epoch, forget).await.unwrap();
    finish(store, &claim(store, "c").await).await;
    assert_eq!(state(store, &parent, "c").await, None);
    let now = get(store, &parent.id).await.unwrap();
    assert_eq!((now.children.open, now.children.ended, now.steps), (1, 1, 0));
    finish(store, &parent).await;
    assert!(cancelled(get(store, &id("d")).await));
}

pub(super) async fn an_end_that_meets_a_park_is_never_lost(backend: &dyn Backend) {
    let one = one(backend);
    let store = &*one.store;
    let other = one.deployment.join();
    for round in 0..8 {
        let (p, c) = (format!("p{round}"), format!("c{round}"));
        let parent = create(store, task(&p)).await;
        spawn(store, &parent, child(&c, store)).await;
        let held = claim(store, &c).await;
        race(2, |who| match who {
            0 => drop(block_on(park_on(store, &parent, &[&c]))),
            _ => drop(block_on(finish(&*other, &held))),
        });
        let due = get(store, &parent.id).await.unwrap();
        assert!(matches!(due.phase, Phase::Queued { .. }), "{:?}", due.phase);
    }
}

/// A question and a child, whichever comes first.
pub(super) async fn a_task_waits_for_answers_and_children_alike(backend: &dyn Backend) {
    let one = one(backend);
    let store = &*one.store;
    for first in ["answer", "child"] {
        let parent = create(store, task(&format!("p-{first}"))).await;
        let c = format!("c-{first}");
        spawn(store, &parent, child(&c, store)).await;
        let question = crate::Question::new(first, json("{}"));
        let step = Step::new("q", of(), StepState::Asked(question));
        let park = Park::new(vec![first.into()], None).or_children(vec![c.as_str().into()]);
        store.write(&parent.id, parent.epoch, Batch::new().with_step(step).with_park(park)).await.unwrap();
        assert!(matches!(get(store, &parent.id).await.unwrap().phase, Phase::Parked { .. }));
        match first {
            "answer" => {
                let replies = [Reply::new(first, json("1"))];
                store.answer(Scope::Operator, &parent.id, &replies).await.unwrap();
            }
            _ => drop(finish(store, &claim(store, &c).await).await),
        }
        assert!(matches!(get(store, &parent.id).await.unwrap().phase, Phase::Queued { .. }), "{first}");
    }
}
