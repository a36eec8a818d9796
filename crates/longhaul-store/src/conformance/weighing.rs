//! How many bytes an owner's tasks may take.

use std::time::Duration;

use super::{
    Backend, Payload, ann, bob, create, get, id, json,
    limits::{limited, refused},
    one_with,
};
use crate::{
    Batch, Fingerprint, NewChild, NewTask, Outcome, Park, Part, PartContent, Progress, Quota, Record,
    Retention, Scope, Start, Step, StepState, StoreError, TaskStore,
};

/// S4 of `conformance/REQUIREMENTS.md`.
pub(super) async fn bytes_kept_for_one_owner_are_bounded(backend: &dyn Backend) {
    let most = 3 * weight(backend, LARGE);
    let one = one_with(backend, limited(|limits| limits.max_task_bytes_per_owner = most));
    let store = &*one.store;
    let other = one.deployment.join();
    create(store, of_length("t1", LARGE)).await;
    let second = create(&*other, of_length("t2", LARGE)).await;
    refused(store, of_length("t3", LARGE + 1), Quota::TaskBytesPerOwner, most).await;
    let mut bobs = of_length("bobs", 2 * LARGE);
    bobs.owner = bob();
    create(store, bobs).await;
    create(store, of_length("t3", LARGE)).await;
    refused(&*other, of_length("t4", 0), Quota::TaskBytesPerOwner, most).await;
    // A task that ends is kept as long as before; one that is forgotten leaves its room.
    store.request_cancel(Scope::Operator, &second.id, None).await.unwrap();
    refused(store, of_length("t4", 0), Quota::TaskBytesPerOwner, most).await;
    store.erase(Scope::Operator, &second.id).await.unwrap();
    create(store, of_length("t4", LARGE)).await;
    refused(store, of_length("t5", 0), Quota::TaskBytesPerOwner, most).await;
}

pub(super) async fn what_a_task_makes_is_among_its_owners_bytes(backend: &dyn Backend) {
    let most = 2 * weight(backend, LARGE);
    let one = one_with(backend, limited(|limits| limits.max_task_bytes_per_owner = most));
    let store = &*one.store;
    let parent = create(store, of_length("parent", LARGE)).await;
    let child = |length: usize| {
        let mut task = of_length("child", length);
        task.start = Start::Queued { not_before: store.now() };
        Batch::new().with_child(NewChild::new("child", FINGERPRINT, task))
    };
    let refusal = store.write(&parent.id, parent.epoch, child(LARGE + 1)).await;
    assert!(
        matches!(&refusal, Err(StoreError::Overloaded { what: Quota::TaskBytesPerOwner, limit }) if *limit == most),
        "{refusal:?}"
    );
    assert_eq!(get(store, &id("child")).await, None);
    store.write(&parent.id, parent.epoch, child(LARGE)).await.unwrap();
    refused(store, of_length("next", 0), Quota::TaskBytesPerOwner, most).await;
}

pub(super) async fn what_the_work_of_a_task_keeps_is_among_its_owners_bytes(backend: &dyn Backend) {
    let few = weight(backend, FEW);
    // Of an open task all of it but 64 KiB is counted.
    let most = 2 * backend.kept(Payload::Json, LARGE) as u64 + few + (64 << 10);
    let one = one_with(backend, limited(|limits| limits.max_task_bytes_per_owner = most));
    let store = &*one.store;
    let is_full = async || refused(store, of_length("none", MORE), Quota::TaskBytesPerOwner, most).await;
    let made = create(store, of_length("steps", FEW)).await;
    let steps = Batch::new().with_step(learnt("one", LARGE)).with_step(learnt("two", LARGE));
    store.write(&made.id, made.epoch, steps).await.unwrap();
    is_full().await;
    // It may still grow: who makes new ones is refused.
    store.write(&made.id, made.epoch, Batch::new().with_step(learnt("three", LARGE))).await.unwrap();
    let forgotten =
        ["one", "two", "three"].into_iter().fold(Batch::new(), |batch, key| batch.with_forgotten(key));
    store.write(&made.id, made.epoch, forgotten).await.unwrap();
    let parts = create(store, of_length("parts", MORE)).await;
    end(store, &made, Outcome::cancelled(None)).await;
    let part = |key: &str| Part::new(key, PartContent::Json(json(&text(LARGE))));
    let given = Batch::new().with_part(part("one")).with_part(part("two"));
    store.write(&parts.id, parts.epoch, given).await.unwrap();
    is_full().await;
    end(store, &parts, Outcome::cancelled(None)).await;
    // What one came to counts as well.
    let outcome = create(store, of_length("outcome", FEW)).await;
    store
        .finish(&outcome.id, outcome.epoch, Outcome::result(json(&text(2 * LARGE)), false), Batch::new())
        .await
        .unwrap();
    is_full().await;
    store.erase(Scope::Operator, &outcome.id).await.unwrap();
    create(store, of_length("last", MORE)).await;
}

pub(super) async fn an_owner_has_its_bytes_back_however_a_task_is_forgotten(backend: &dyn Backend) {
    let most = weight(backend, 10 * LARGE);
    let settings = limited(|limits| limits.max_task_bytes_per_owner = most);
    let tombstone = settings.tombstone;
    let one = one_with(backend, settings);
    let store = &*one.store;
    for way in ["finished", "failed", "cancelled", "expired", "asked", "erased", "undone"] {
        let mut new = of_length(way, FEW);
        new.retention = Retention::AfterTerminal(Duration::from_secs(1));
        match way {
            "expired" => new.retention = Retention::FromCreation(Duration::from_secs(1)),
            "asked" => new.cancel_grace = Some(Duration::from_millis(1)),
            "undone" => new.steps = vec![Step::new("owed", FINGERPRINT, StepState::Owed)],
            _ => {}
        }
        let made = create(store, new).await;
        let made = worked_on(store, made).await;
        match way {
            "finished" => end_with(store, &made, Outcome::result(json(&text(LARGE)), true)).await,
            "failed" | "undone" => end_with(store, &made, Outcome::lost("it is gone")).await,
            "asked" => drop(store.ask_to_cancel(Scope::Operator, &made.id, Some("no more")).await.unwrap()),
            "expired" => {}
            _ => drop(store.request_cancel(Scope::Operator, &made.id, Some("enough")).await.unwrap()),
        }
        if way == "undone" {
            let held = store.claim_one(&made.id).await.unwrap().expect("it is to be undone");
            store.write(&held.id, held.epoch, Batch::new().with_step(learnt("owed", LARGE))).await.unwrap();
        }
        if way == "erased" {
            store.erase(Scope::Operator, &made.id).await.unwrap();
        }
        for _ in 0..3 {
            one.deployment.advance(tombstone);
            store.sweep(100).await.unwrap();
        }
        assert_eq!(store.counts().await.unwrap().retained, 0, "{way}");
        // There is room to the last byte, and for no more.
        let all = create(store, of_length("all", 10 * LARGE)).await;
        refused(store, of_length("none", 0), Quota::TaskBytesPerOwner, most).await;
        end(store, &all, Outcome::cancelled(None)).await;
        store.sweep(100).await.unwrap();
    }
}

/// A task at whose work everything has happened that changes what it takes.
async fn worked_on(store: &dyn TaskStore, made: Record) -> Record {
    let (task, epoch) = (&made.id, made.epoch);
    let report = Batch::new()
        .with_step(learnt("first", LARGE))
        .with_step(learnt("gone", LARGE))
        .with_part(Part::new("part", PartContent::Text("in words".into())))
        .with_status_message("at work")
        .with_progress(Progress::new(1.0, None, Some("a little".into())));
    store.write(task, epoch, report).await.unwrap();
    store.write(task, epoch, Batch::new().with_forgotten("gone")).await.unwrap();
    let mut child = of_length("child", FEW);
    child.retention = Retention::AfterTerminal(Duration::from_secs(1));
    child.start = Start::Queued { not_before: store.now() };
    store
        .write(task, epoch, Batch::new().with_child(NewChild::new("child", FINGERPRINT, child)))
        .await
        .unwrap();
    let aside = Batch::new().with_park(Park::new(Vec::new(), Some(store.now())));
    store.write(task, epoch, aside).await.unwrap();
    store.claim_one(task).await.unwrap().expect("it is due")
}

/// Ends a task and has it forgotten.
async fn end(store: &dyn TaskStore, task: &Record, outcome: Outcome) {
    end_with(store, task, outcome).await;
    store.erase(Scope::Operator, &task.id).await.unwrap();
}

async fn end_with(store: &dyn TaskStore, task: &Record, outcome: Outcome) {
    store.finish(&task.id, task.epoch, outcome, Batch::new()).await.unwrap();
}

/// What a task [`of_length`] weighs before anything comes of it.
fn weight(backend: &dyn Backend, length: usize) -> u64 {
    (backend.kept(Payload::Json, text(length).len()) + backend.kept(Payload::Json, "null".len())) as u64
}

/// Ann's task with so much to be called with, claimed by whoever creates it.
fn of_length(name: &str, length: usize) -> NewTask {
    NewTask::new(id(name), ann(), "build", json(&text(length)))
}

fn learnt(key: &str, length: usize) -> Step {
    Step::new(key, FINGERPRINT, StepState::learnt(json(&text(length))))
}

/// A text of JSON that has so many letters.
fn text(length: usize) -> String {
    format!("\"{}\"", "x".repeat(length))
}

const FINGERPRINT: Fingerprint = Fingerprint::new([7; Fingerprint::LEN]);
const LARGE: usize = 100_000;
const MORE: usize = 150_000;
const FEW: usize = 100;
