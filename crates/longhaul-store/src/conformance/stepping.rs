//! What the work of a task has learnt.

use std::time::Duration;

use super::{Backend, Payload, ann, create, finish, get, id, json, limits::limited, one, one_with, task};
use crate::{
    Answered, Batch, Digest, Fingerprint, Outcome, Progress, Question, Quota, Record, Reply, Retention,
    Scope, Settings, Step, StepState, StoreError, TaskStore,
};

pub(super) async fn steps_come_back_in_the_order_in_which_they_began(backend: &dyn Backend) {
    let one = one(backend);
    let mut new = task("t");
    new.steps = vec![learnt("first", "1"), begun("second")];
    let made = create(&*one.store, new).await;
    assert_eq!((made.steps, one.store.steps(&made.id, made.epoch).await.unwrap().len()), (2, 2));
    let fails = StepState::Learnt { value: json("{\"code\":1}"), is_error: true };
    let report = Batch::new()
        .with_step(step("a third", fails))
        .with_step(learnt("second", "[ 2 ]"))
        .with_step(step("4", StepState::Due(one.store.now())));
    one.store.write(&made.id, made.epoch, report).await.unwrap();
    let found = one.store.steps(&made.id, made.epoch).await.unwrap();
    let keys: Vec<_> = found.iter().map(|step| &*step.key).collect();
    assert_eq!(keys, ["first", "second", "a third", "4"]);
    assert_eq!(untimed(found.clone())[1], learnt("second", "[ 2 ]"));
    let record = get(&*one.store, &made.id).await.expect("it exists");
    let bytes: usize = found.iter().map(|step| size(backend, step)).sum();
    assert_eq!((record.steps, record.step_bytes), (4, bytes as u64));
}

pub(super) async fn another_node_that_takes_over_finds_every_step(backend: &dyn Backend) {
    let one = one(backend);
    let dying = one.deployment.join();
    let made = create(&*dying, task("t")).await;
    for number in 0..5 {
        let report = Batch::new().with_step(learnt(&format!("step {number}"), &number.to_string()));
        dying.write(&made.id, made.epoch, report).await.unwrap();
    }
    drop(dying);
    let taken = one.store.claim_one(&made.id).await.unwrap().expect("its holder is dead");
    let steps = one.store.steps(&taken.id, taken.epoch).await.unwrap();
    let expected: Vec<_> = (0..5).map(|n| learnt(&format!("step {n}"), &n.to_string())).collect();
    assert_eq!(untimed(steps), expected);
    assert_eq!(taken.steps, 5);
}

pub(super) async fn who_learns_a_step_is_the_first_of_a_new_row_of_attempts(backend: &dyn Backend) {
    let one = one(backend);
    let mut holder = one.deployment.join();
    let mut held = create(&*holder, task("t")).await;
    for (report, attempt) in [
        (Batch::new().with_progress(Progress::new(1.0, None, None)), 2),
        (Batch::new().with_step(begun("a")), 3),
        (Batch::new().with_step(learnt("a", "1")), 2),
        (Batch::new().with_step(learnt("a", "1")), 3),
        (Batch::new().with_step(learnt("b", "2")).with_step(begun("c")), 2),
    ] {
        let said = format!("{report:?}");
        holder.write(&held.id, held.epoch, report).await.unwrap();
        holder = one.deployment.join();
        held = holder.claim_one(&held.id).await.unwrap().expect("its holder is dead");
        assert_eq!(held.attempt, attempt, "after {said}");
    }
    assert_eq!(get(&*one.store, &held.id).await.map(|seen| seen.attempt), Some(2));
}

pub(super) async fn what_was_learnt_never_changes(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    let write = async |step: Step| {
        let batch = Batch::new().with_step(begun("beside")).with_step(step).with_status_message("said");
        one.store.write(&made.id, made.epoch, batch).await
    };
    one.store.write(&made.id, made.epoch, Batch::new().with_step(learnt("s", "1"))).await.unwrap();
    let before = get(&*one.store, &made.id).await.expect("it exists");
    let other = Step::new("s", Fingerprint::new([9; 16]), StepState::learnt(json("1")));
    for refused in [learnt("s", "2"), begun("s"), other, step("s", StepState::Due(one.store.now()))] {
        let refusal = write(refused).await;
        assert!(matches!(&refusal, Err(StoreError::Recorded { key, .. }) if **key == *"s"), "{refusal:?}");
        assert_eq!(get(&*one.store, &made.id).await.as_ref(), Some(&before), "nothing of it is recorded");
    }
    assert_eq!(untimed(one.store.steps(&made.id, made.epoch).await.unwrap()), [learnt("s", "1")]);
    let again = Batch::new().with_step(learnt("s", "1"));
    assert_eq!(one.store.write(&made.id, made.epoch, again).await.unwrap(), before.seq, "nor is it new");
}

pub(super) async fn who_lost_a_task_learns_nothing_of_it(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let lost = create(&*one.store, task("t")).await;
    let released = one.store.release(&lost.id, lost.epoch).await.unwrap();
    assert_fenced(&*one.store, &lost).await;
    assert_fenced(&*other, &released).await;
    let held = other.claim_one(&lost.id).await.unwrap().expect("it is due");
    assert_fenced(&*one.store, &lost).await;
    assert!(one.store.steps(&held.id, held.epoch).await.unwrap().is_empty());
    finish(&*other, &held).await;
    assert_fenced(&*other, &held).await;
    let never = other.steps(&id("never"), held.epoch).await;
    assert!(matches!(never, Err(StoreError::Fenced { .. })), "{never:?}");
}

pub(super) async fn last_steps_come_with_the_outcome(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    one.store.write(&made.id, made.epoch, Batch::new().with_step(learnt("s", "1"))).await.unwrap();
    let differs = Batch::new().with_step(learnt("s", "2"));
    let refusal = one.store.finish(&made.id, made.epoch, Outcome::lost("x"), differs).await;
    assert!(matches!(refusal, Err(StoreError::Recorded { .. })), "{refusal:?}");
    assert!(!get(&*one.store, &made.id).await.expect("it exists").is_terminal());
    let last = Batch::new().with_step(learnt("last", "2"));
    let ended = one.store.finish(&made.id, made.epoch, Outcome::lost("x"), last).await.unwrap();
    let ended = ended.into_record();
    assert_eq!(ended.steps, 2);
    assert_eq!(get(&*one.store, &made.id).await, Some(ended));
}

pub(super) async fn a_call_that_joins_brings_no_steps(backend: &dyn Backend) {
    let one = one(backend);
    let mut new = task("t");
    new.join = Some(Digest::new([1; 32]));
    let made = create(&*one.store, new.clone()).await;
    new.id = id("joins");
    new.steps = vec![learnt("s", "1")];
    assert_eq!(create(&*one.store, new).await, made);
    assert!(one.store.steps(&made.id, made.epoch).await.unwrap().is_empty());
}

pub(super) async fn a_forgotten_task_leaves_no_steps(backend: &dyn Backend) {
    let settings = Settings { tombstone: Duration::ZERO, ..Settings::default() };
    let one = one_with(backend, settings);
    let mut brief = task("t");
    brief.retention = Retention::AfterTerminal(Duration::ZERO);
    brief.steps = vec![learnt("s", "1")];
    let made = create(&*one.store, brief).await;
    finish(&*one.store, &made).await;
    for _ in 0..2 {
        one.deployment.advance(Duration::from_secs(1));
        one.store.sweep(10).await.unwrap();
    }
    let again = create(&*one.store, task("t")).await;
    assert!(one.store.steps(&again.id, again.epoch).await.unwrap().is_empty());
    assert_eq!((again.steps, again.step_bytes), (0, 0));
}

/// S4 of `conformance/REQUIREMENTS.md`.
pub(super) async fn steps_are_bounded(backend: &dyn Backend) {
    let long = |key: &str| learnt(key, &"1".repeat(20));
    // There is room for one of them, and not for two.
    let at_most = size(backend, &learnt("s", &"1".repeat(23)));
    let settings = limited(|limits| {
        (limits.max_steps, limits.max_step) = (2, at_most);
        limits.max_step_bytes = 2 * size(backend, &long("a")) as u64 - 4;
    });
    let one = one_with(backend, settings);
    let made = create(&*one.store, task("t")).await;
    let write = async |steps: Vec<Step>| {
        let mut batch = Batch::new().with_status_message("said");
        batch.steps = steps;
        one.store.write(&made.id, made.epoch, batch).await
    };
    let refused = |quota: Quota, result: Result<u64, StoreError>| match result {
        Err(StoreError::Overloaded { what, .. }) => assert_eq!(what, quota),
        other => panic!("{quota:?}: {other:?}"),
    };
    let large = write(vec![learnt("s", &format!("\"{}\"", "x".repeat(40)))]).await;
    assert!(matches!(large, Err(StoreError::TooLarge { limit, .. }) if limit == at_most), "{large:?}");
    refused(Quota::Steps, write(vec![begun("a"), begun("b"), begun("c")]).await);
    refused(Quota::StepBytes, write(vec![long("a"), long("b")]).await);
    assert_eq!(get(&*one.store, &made.id).await.as_ref(), Some(&made), "what was refused changed nothing");
    assert!(one.store.steps(&made.id, made.epoch).await.unwrap().is_empty());
    write(vec![begun("a"), begun("b")]).await.unwrap();
    write(vec![learnt("a", "1")]).await.unwrap();
    refused(Quota::Steps, write(vec![begun("c")]).await);
    let mut new = task("u");
    new.steps = vec![begun("a"), begun("b"), begun("c")];
    refused(Quota::Steps, one.store.create(new).await.map(|_| 0));
    assert_eq!(get(&*one.store, &id("u")).await, None);
}

pub(super) async fn what_is_forgotten_makes_room_and_is_learnt_anew(backend: &dyn Backend) {
    let one = one_with(backend, limited(|limits| limits.max_steps = 3));
    let made = create(&*one.store, task("t")).await;
    let question = StepState::Asked(Question::new("q", json("[]")));
    let mut batch = Batch::new().with_step(learnt("a", "1")).with_step(learnt("b", "1"));
    one.store.write(&made.id, made.epoch, batch.with_step(step("c", question))).await.unwrap();
    let before = get(&*one.store, &made.id).await.expect("it exists");

    batch = Batch::new().with_forgotten("a").with_step(learnt("b", "2"));
    let refusal = one.store.write(&made.id, made.epoch, batch).await;
    assert!(matches!(refusal, Err(StoreError::Recorded { .. })), "{refusal:?}");
    assert_eq!(get(&*one.store, &made.id).await.as_ref(), Some(&before), "nothing of it is done");
    assert_eq!(one.store.steps(&made.id, made.epoch).await.unwrap().len(), 3);

    batch = Batch::new().with_forgotten("a").with_forgotten("a").with_forgotten("never").with_forgotten("c");
    batch = batch.with_step(learnt("a", "22")).with_step(learnt("d", "3"));
    one.store.write(&made.id, made.epoch, batch).await.unwrap();
    let expected = [learnt("b", "1"), learnt("a", "22"), learnt("d", "3")];
    assert_eq!(untimed(one.store.steps(&made.id, made.epoch).await.unwrap()), expected);
    let after = get(&*one.store, &made.id).await.expect("it exists");
    let bytes: usize = expected.iter().map(|step| size(backend, step)).sum();
    assert_eq!((after.steps, after.step_bytes, after.questions.len()), (3, bytes as u64, 0));
    let answered = one.store.answer(Scope::Operator, &made.id, &[Reply::new("q", json("1"))]).await.unwrap();
    assert!(matches!(answered, Answered::Recorded { taken: 0, .. }), "it is no longer asked: {answered:?}");
}

/// Nothing is read or written at this record's epoch.
async fn assert_fenced(store: &dyn TaskStore, held: &Record) {
    let report = Batch::new().with_step(learnt("late", "1"));
    let written = store.write(&held.id, held.epoch, report).await;
    assert!(matches!(written, Err(StoreError::Fenced { .. })), "{written:?}");
    let read = store.steps(&held.id, held.epoch).await;
    assert!(matches!(read, Err(StoreError::Fenced { .. })), "{read:?}");
    let seen = store.get(Scope::Owner(&ann()), &held.id).await.unwrap();
    assert_eq!(seen.map(|record| record.steps), Some(0));
}

/// Bytes that a step takes where it is kept.
pub(super) fn size(backend: &dyn Backend, step: &Step) -> usize {
    let payload = match &step.state {
        StepState::Asked(question) => question.request.as_str().len(),
        StepState::Learnt { value, .. } => value.as_str().len(),
        _ => return step.size(),
    };
    step.size() - payload + backend.kept(Payload::Json, payload)
}

/// What they are, whenever that was.
pub(super) fn untimed(steps: Vec<Step>) -> Vec<Step> {
    steps.into_iter().map(|step| step.between(None, None).answered(None)).collect()
}

pub(super) fn begun(key: &str) -> Step {
    step(key, StepState::Begun)
}

pub(super) fn learnt(key: &str, value: &str) -> Step {
    step(key, StepState::learnt(json(value)))
}

pub(super) fn step(key: &str, state: StepState) -> Step {
    Step::new(key, Fingerprint::new([7; 16]), state)
}
