//! What becomes of a task that ends without success while something is owed.

use std::time::Duration;

use super::{
    Backend, create, finish, get, json, one, queued,
    stepping::{learnt, step, untimed},
    task,
};
use crate::{
    Accepts, Batch, Cancellation, Erasure, Finished, Outcome, Park, Progress, Record, Retention, Runnable,
    Scope, Settings, StepState, StoreError, TaskStore, UndoPhase,
};

fn owed(key: &str) -> crate::Step {
    step(key, StepState::Owed)
}

/// A task that has done something and owes two steps.
async fn owing(store: &dyn TaskStore, name: &str, retention: Retention) -> Record {
    let mut new = task(name);
    new.retention = retention;
    new.steps = vec![learnt("charge", "1"), owed("undo charge")];
    let made = create(store, new).await;
    let batch = Batch::new().with_step(learnt("ship", "2")).with_step(owed("undo ship"));
    store.write(&made.id, made.epoch, batch).await.unwrap();
    let record = get(store, &made.id).await.expect("it exists");
    assert_eq!((record.owed, &record.undo), (2, &None));
    record
}

async fn fail(store: &dyn TaskStore, task: &Record) -> Record {
    let outcome = Outcome::error(-32603, "broke", None);
    store.finish(&task.id, task.epoch, outcome, Batch::new()).await.unwrap().into_record()
}

/// All that a caller may see of it.
fn seen(record: &Record) -> Record {
    let mut seen = record.clone();
    (seen.epoch, seen.undo, seen.owed, seen.steps, seen.step_bytes) = (Default::default(), None, 0, 0, 0);
    seen
}

fn undone(key: &str) -> Batch {
    Batch::new().with_step(learnt(key, "null"))
}

fn attempt(record: &Record) -> Option<u32> {
    record.undo.as_ref().map(|undo| undo.attempt)
}

const A_SECOND: Duration = Duration::from_secs(1);

/// K19 of `conformance/REQUIREMENTS.md`.
pub(super) async fn a_task_that_failed_is_undone_and_nobody_sees_it(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let made = owing(&*one.store, "t", Retention::Unlimited).await;
    let failed = fail(&*one.store, &made).await;
    assert!(failed.is_terminal() && failed.is_undoing());
    let late = one.store.write(&made.id, made.epoch, undone("undo ship")).await;
    assert!(matches!(late, Err(StoreError::Fenced { .. })), "whoever ended it does not hold it: {late:?}");
    one.deployment.advance(A_SECOND);

    assert!(other.claim(10, Some(&[Runnable::new("other", Accepts::default())])).await.unwrap().is_empty());
    let claimed = other.claim(10, Some(&[Runnable::new("build", Accepts::default())])).await.unwrap();
    let [held] = &claimed[..] else { panic!("it is due, not {claimed:?}") };
    assert_eq!((held.epoch, seen(held)), (failed.epoch.next(), seen(&failed)));
    assert_eq!(held.lease().map(|lease| &lease.node), Some(other.node()));
    let steps = untimed(other.steps(&held.id, held.epoch).await.unwrap());
    assert_eq!(steps[1], owed("undo charge"));
    assert_eq!(steps[3], owed("undo ship"));

    let said = Batch::new().with_status_message("undoing").with_progress(Progress::new(9.0, None, None));
    other.write(&held.id, held.epoch, said.with_step(learnt("undo ship", "null"))).await.unwrap();
    let error = StepState::Learnt { value: json("\"no\""), is_error: true };
    let last = Batch::new().with_step(step("undo charge", error));
    other.write(&held.id, held.epoch, last).await.unwrap();
    let undone = get(&*one.store, &held.id).await.expect("it exists");
    assert_eq!((seen(&undone), undone.owed), (seen(&failed), 0), "not even the number of its change");
    let undo = undone.undo.expect("it was undone");
    assert_eq!((undo.phase, undo.until, undo.attempt, undo.failed), (UndoPhase::Done, None, 1, 1));
    one.deployment.advance(Duration::from_secs(3600));
    assert!(other.claim(10, None).await.unwrap().is_empty());
    assert!(other.claim_one(&held.id).await.unwrap().is_none());
}

pub(super) async fn what_ends_well_or_owes_nothing_is_not_undone(backend: &dyn Backend) {
    let one = one(backend);
    let made = owing(&*one.store, "well", Retention::Unlimited).await;
    assert_eq!(finish(&*one.store, &made).await.undo, None);
    let plain = create(&*one.store, task("plain")).await;
    assert_eq!(fail(&*one.store, &plain).await.undo, None);
    assert!(one.store.claim(10, None).await.unwrap().is_empty());
}

pub(super) async fn what_is_cancelled_or_expires_or_says_it_failed_is_undone(backend: &dyn Backend) {
    let one = one(backend);
    let made = owing(&*one.store, "cancelled", Retention::Unlimited).await;
    let cancelled = one.store.request_cancel(Scope::Operator, &made.id, None).await.unwrap();
    let Cancellation::Cancelled(cancelled) = cancelled else { panic!("{cancelled:?}") };
    assert!(cancelled.is_undoing());
    let made = owing(&*one.store, "says-so", Retention::Unlimited).await;
    let outcome = Outcome::result(json("{}"), true);
    one.store.finish(&made.id, made.epoch, outcome, Batch::new()).await.unwrap();
    owing(&*one.store, "expired", Retention::FromCreation(Duration::from_secs(5))).await;
    one.deployment.advance(Duration::from_secs(5));
    assert_eq!(one.store.sweep(10).await.unwrap().expired.len(), 1);
    one.deployment.advance(Settings::default().lease);
    assert_eq!(one.store.claim(10, None).await.unwrap().len(), 3);
}

/// K18 and K19 of `conformance/REQUIREMENTS.md`.
pub(super) async fn nothing_is_undone_while_it_may_still_be_done(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    for (name, ends) in [("given-back", 0), ("overdue", 1), ("dead", 2)] {
        let worker = one.deployment.join();
        let made = owing(&*worker, name, Retention::Unlimited).await;
        other.request_cancel(Scope::Operator, &made.id, None).await.unwrap();
        assert!(other.claim_one(&made.id).await.unwrap().is_none(), "its worker may not have heard");
        let fenced = worker.renew(&[(made.id.clone(), made.epoch)]).await.unwrap();
        assert_eq!(fenced.first(), Some(&made.id));
        let late = worker.write(&made.id, made.epoch, undone("undo ship")).await;
        assert!(matches!(late, Err(StoreError::Fenced { .. })), "{late:?}");
        assert!(worker.release(&made.id, made.epoch).await.is_err());
        let now = get(&*worker, &made.id).await.expect("it exists");
        match ends {
            0 => drop(worker.release(&made.id, now.epoch).await.unwrap()),
            1 => one.deployment.advance(Settings::default().lease + A_SECOND),
            _ => drop(worker),
        }
        let held = other.claim_one(&made.id).await.unwrap().expect("its worker is gone");
        assert_eq!(attempt(&held), Some(1), "{name}");
    }
}

pub(super) async fn one_node_at_a_time_undoes_a_task(backend: &dyn Backend) {
    let one = one(backend);
    let (other, third) = (one.deployment.join(), one.deployment.join());
    let made = owing(&*one.store, "t", Retention::Unlimited).await;
    fail(&*one.store, &made).await;
    let held = one.store.claim_one(&made.id).await.unwrap().expect("it is due");
    let lease = Settings::default().lease;
    for _ in 0..3 {
        assert!(other.claim_one(&made.id).await.unwrap().is_none());
        one.deployment.advance(lease - A_SECOND);
        assert!(one.store.renew(&[(held.id.clone(), held.epoch)]).await.unwrap().is_empty());
    }
    one.deployment.advance(lease + A_SECOND);
    let again = one.store.claim_one(&made.id).await.unwrap().expect("its lease has run out");
    assert_eq!(attempt(&again), Some(1), "it stood still and lost nothing");
    one.deployment.advance(lease + A_SECOND);
    let taken = other.claim_one(&made.id).await.unwrap().expect("its lease has run out");
    assert_eq!(attempt(&taken), Some(2));
    let late = one.store.write(&again.id, again.epoch, undone("undo ship")).await;
    assert!(matches!(late, Err(StoreError::Fenced { .. })), "{late:?}");
    let fenced = one.store.renew(&[(again.id.clone(), again.epoch)]).await.unwrap();
    assert_eq!(fenced.first(), Some(&again.id));
    let released = other.release(&taken.id, taken.epoch).await.unwrap();
    assert_eq!(seen(&released), seen(&taken));
    let given = third.claim_one(&made.id).await.unwrap().expect("it was given back");
    assert_eq!(attempt(&given), Some(2), "and that was not charged");
    drop(third);
    let found = other.claim(10, None).await.unwrap();
    let [found] = &found[..] else { panic!("whoever undid it is dead: {found:?}") };
    assert_eq!(attempt(found), Some(3));
}

pub(super) async fn undoing_that_gets_on_is_charged_anew(backend: &dyn Backend) {
    let one = one(backend);
    let made = owing(&*one.store, "t", Retention::Unlimited).await;
    fail(&*one.store, &made).await;
    for nth in 1..4 {
        let node = one.deployment.join();
        let held = node.claim_one(&made.id).await.unwrap().expect("it is due");
        assert_eq!(attempt(&held), Some(nth));
    }
    let node = one.deployment.join();
    let held = node.claim_one(&made.id).await.unwrap().expect("it is due");
    node.write(&held.id, held.epoch, undone("undo ship")).await.unwrap();
    assert_eq!(attempt(&get(&*one.store, &made.id).await.expect("it exists")), Some(1));
    assert!(node.renew(&[(held.id.clone(), held.epoch)]).await.unwrap().is_empty(), "it is held still");
    node.write(&held.id, held.epoch, undone("undo ship")).await.unwrap();
    drop(node);
    let held = one.store.claim_one(&made.id).await.unwrap().expect("it is due");
    assert_eq!(attempt(&held), Some(2), "one for the claim that got on, one for this");
    one.store.write(&held.id, held.epoch, undone("undo ship")).await.unwrap();
    assert_eq!(attempt(&get(&*one.store, &made.id).await.expect("it exists")), Some(2), "nothing new");
}

pub(super) async fn undoing_that_is_put_aside_is_charged_and_due_at_its_time(backend: &dyn Backend) {
    let one = one(backend);
    let made = owing(&*one.store, "t", Retention::Unlimited).await;
    fail(&*one.store, &made).await;
    for nth in 1..4 {
        let held = one.store.claim_one(&made.id).await.unwrap().expect("it is due");
        assert_eq!(attempt(&held), Some(nth));
        let later = one.store.now().after(Duration::from_secs(60));
        let aside = Batch::new().with_park(Park::new(vec![], Some(later)));
        one.store.write(&held.id, held.epoch, aside).await.unwrap();
        assert!(one.store.steps(&held.id, held.epoch).await.is_err(), "it is not held any more");
        assert!(one.store.claim_one(&made.id).await.unwrap().is_none(), "and not due");
        one.deployment.advance(Duration::from_secs(61));
    }
    let held = one.store.claim_one(&made.id).await.unwrap().expect("it is due");
    let last = undone("undo ship").with_step(learnt("undo charge", "null"));
    one.store.write(&held.id, held.epoch, last.with_park(Park::new(vec![], None))).await.unwrap();
    let done = get(&*one.store, &made.id).await.expect("it exists");
    assert!(!done.is_undoing(), "what owes nothing waits for nothing: {done:?}");
}

pub(super) async fn a_task_that_is_undone_takes_only_what_it_owes(backend: &dyn Backend) {
    let one = one(backend);
    let made = owing(&*one.store, "t", Retention::Unlimited).await;
    let failed = fail(&*one.store, &made).await;
    let held = one.store.claim_one(&made.id).await.unwrap().expect("it is due");
    for other in [learnt("new", "1"), learnt("charge", "2"), step("undo ship", StepState::Begun)] {
        let refused = one.store.write(&held.id, held.epoch, Batch::new().with_step(other)).await;
        assert!(matches!(refused, Err(StoreError::Recorded { .. })), "{refused:?}");
    }
    let ended = one.store.finish(&held.id, held.epoch, Outcome::lost("x"), Batch::new()).await.unwrap();
    assert!(matches!(ended, Finished::AlreadyTerminal(_)), "{ended:?}");
    let cancelled = one.store.request_cancel(Scope::Operator, &held.id, None).await.unwrap();
    assert!(matches!(cancelled, Cancellation::AlreadyTerminal(_)), "{cancelled:?}");
    let now = get(&*one.store, &held.id).await.expect("it exists");
    assert_eq!(seen(&now), seen(&failed));
    for key in ["undo ship", "undo charge"] {
        one.store.write(&held.id, held.epoch, undone(key)).await.unwrap();
    }
    assert_eq!(one.store.erase(Scope::Operator, &held.id).await.unwrap(), Erasure::Erased);
    create(&*one.store, queued("next", &*one.store)).await;
    assert_eq!(one.store.claim(10, None).await.unwrap().len(), 1, "nothing is left of it to be claimed");
}

pub(super) async fn what_is_erased_or_expires_is_undone_all_the_same(backend: &dyn Backend) {
    let one = one(backend);
    let erased = owing(&*one.store, "erased", Retention::Unlimited).await;
    let expired = owing(&*one.store, "expired", Retention::AfterTerminal(Duration::ZERO)).await;
    let other = one.deployment.join();
    for made in [&erased, &expired] {
        fail(&*one.store, made).await;
    }
    assert_eq!(one.store.erase(Scope::Operator, &erased.id).await.unwrap(), Erasure::Erased);
    one.deployment.advance(A_SECOND);
    for made in [&erased, &expired] {
        assert!(get(&*one.store, &made.id).await.is_none(), "its callers find it no more");
        assert_eq!(one.store.erase(Scope::Operator, &made.id).await.unwrap(), Erasure::NotFound);
        assert_eq!(one.store.sweep(10).await.unwrap().total(), 0, "but it is kept");
        let held = other.claim_one(&made.id).await.unwrap().expect("it is due");
        assert_eq!(untimed(other.steps(&held.id, held.epoch).await.unwrap())[3], owed("undo ship"));
        other.write(&held.id, held.epoch, undone("undo ship")).await.unwrap();
        assert!(other.renew(&[(held.id.clone(), held.epoch)]).await.unwrap().is_empty());
        other.write(&held.id, held.epoch, undone("undo charge")).await.unwrap();
        let swept = one.store.sweep(10).await.unwrap();
        assert_eq!((swept.erased, swept.owing), (1, vec![]), "and then it goes");
    }
}

pub(super) async fn a_task_is_kept_until_it_is_undone_and_not_for_ever(backend: &dyn Backend) {
    let one = one(backend);
    let made = owing(&*one.store, "t", Retention::AfterTerminal(Duration::ZERO)).await;
    fail(&*one.store, &made).await;
    let keep = Settings::default().undo_retention;
    one.deployment.advance(keep - Duration::from_secs(60));
    assert_eq!(one.store.sweep(10).await.unwrap().total(), 0);
    let held = one.store.claim_one(&made.id).await.unwrap().expect("it is due");
    one.deployment.advance(Duration::from_secs(120));
    assert!(one.store.claim_one(&made.id).await.unwrap().is_none());
    let swept = one.store.sweep(10).await.unwrap();
    assert_eq!((swept.erased, swept.owing), (1, vec![(made.id, 2)]), "and what nobody undid is told");
    let late = one.store.write(&held.id, held.epoch, undone("undo ship")).await;
    assert!(matches!(late, Err(StoreError::Fenced { .. })), "{late:?}");
    assert!(one.store.claim(10, None).await.unwrap().is_empty());
}
