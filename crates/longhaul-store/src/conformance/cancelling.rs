//! Tasks whose work is asked to end, and decides how.

use std::time::Duration;

use super::{Backend, ann, asking::asking, bob, create, finish, get, id, json, one, queued, task};
use crate::{
    Batch, CancelAsked, Cancellation, Finished, NewTask, Outcome, Park, Phase, Record, Retention, Scope,
    StoreError, TaskStore,
};

const GRACE: Duration = Duration::from_secs(10);

fn cooperative(name: &str) -> NewTask {
    let mut task = task(name);
    task.cancel_grace = Some(GRACE);
    task
}

async fn ask(store: &dyn TaskStore, task: &Record) -> Record {
    match store.ask_to_cancel(Scope::Owner(&ann()), &task.id, Some("enough")).await.unwrap() {
        CancelAsked::Requested(record) => record,
        other => panic!("its work is asked: {other:?}"),
    }
}

pub(super) async fn a_task_whose_work_is_asked_to_end_is_open_until_it_has_decided(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let made = create(&*one.store, cooperative("t")).await;
    let asked = ask(&*other, &made).await;
    assert_eq!((asked.cancelling.as_deref(), asked.cancel_grace), (Some("enough"), Some(GRACE)));
    assert_eq!(asked.expires_at, Some(one.store.now().after(GRACE)));
    assert!(
        asked.seq > made.seq && asked.epoch == made.epoch,
        "whoever follows it hears, and nobody is fenced"
    );
    assert_eq!(get(&*one.store, &made.id).await, Some(asked));
    one.store.write(&made.id, made.epoch, Batch::new().with_status_message("cleaning up")).await.unwrap();
    let outcome = Outcome::result(json("{}"), false);
    let ended = one.store.finish(&made.id, made.epoch, outcome.clone(), Batch::new()).await.unwrap();
    let Finished::Recorded(ended) = ended else { panic!("it was open: {ended:?}") };
    assert_eq!((ended.outcome(), ended.expires_at), (Some(&outcome), None), "it is kept as it was to be");
    let late = other.ask_to_cancel(Scope::Owner(&ann()), &made.id, None).await.unwrap();
    assert_eq!(late, CancelAsked::AtOnce(Cancellation::AlreadyTerminal(ended)));
}

pub(super) async fn work_that_is_asked_to_end_has_its_time_and_no_more(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let made = create(&*one.store, cooperative("t")).await;
    let asked = ask(&*one.store, &made).await;
    one.deployment.advance(GRACE / 2);
    assert_eq!(ask(&*other, &made).await, asked, "asked again it has no more time");
    one.deployment.advance(GRACE / 2 - Duration::from_millis(1));
    assert!(one.store.sweep(10).await.unwrap().expired.is_empty());
    one.deployment.advance(Duration::from_millis(1));
    assert_eq!(other.sweep(10).await.unwrap().expired, std::slice::from_ref(&made.id));
    let ended = get(&*one.store, &made.id).await.expect("its outcome is still there");
    assert_eq!(ended.outcome(), Some(&Outcome::cancelled(Some("enough".into()))));
    let late = one.store.write(&made.id, made.epoch, Batch::new().with_status_message("late")).await;
    assert!(matches!(late, Err(StoreError::Fenced { .. })), "{late:?}");
    // One that was to end before is cancelled, too, and no later for it.
    let mut brief = cooperative("brief");
    brief.retention = Retention::FromCreation(Duration::from_secs(1));
    let brief = create(&*one.store, brief).await;
    assert_eq!(ask(&*one.store, &brief).await.expires_at, brief.expires_at);
}

pub(super) async fn what_has_no_time_or_never_began_is_cancelled_at_once(backend: &dyn Backend) {
    let one = one(backend);
    let mut waiting = queued("waiting", &*one.store);
    waiting.cancel_grace = Some(GRACE);
    for new in [task("hasty"), waiting] {
        let made = create(&*one.store, new).await;
        let owner = bob();
        let foreign = one.store.ask_to_cancel(Scope::Owner(&owner), &made.id, None).await.unwrap();
        assert_eq!(foreign, CancelAsked::AtOnce(Cancellation::NotFound));
        let asked = one.store.ask_to_cancel(Scope::Owner(&ann()), &made.id, Some("enough")).await.unwrap();
        let CancelAsked::AtOnce(Cancellation::Cancelled(ended)) = asked else { panic!("{asked:?}") };
        assert_eq!(ended.outcome(), Some(&Outcome::cancelled(Some("enough".into()))));
        assert!(ended.epoch > made.epoch);
    }
    let never = one.store.ask_to_cancel(Scope::Operator, &id("never"), None).await.unwrap();
    assert_eq!(never, CancelAsked::AtOnce(Cancellation::NotFound));
}

pub(super) async fn what_was_put_aside_is_due_to_hear_that_it_is_to_end(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let park = || Batch::new().with_step(asking("q")).with_park(Park::new(vec!["q".into()], None));
    let made = create(&*one.store, cooperative("aside")).await;
    one.store.write(&made.id, made.epoch, park()).await.unwrap();
    let asked = ask(&*one.store, &made).await;
    assert_eq!(asked.phase, Phase::Queued { not_before: one.store.now() });
    assert_eq!(asked.questions.len(), 1, "it is asked still");
    let taken = other.claim_one(&made.id).await.unwrap().expect("it is due");
    assert_eq!(taken.cancelling.as_deref(), Some("enough"));
    finish(&*other, &taken).await;
    // And what is put aside by who has not heard of it.
    let made = create(&*one.store, cooperative("unheard")).await;
    ask(&*other, &made).await;
    one.store.write(&made.id, made.epoch, park()).await.unwrap();
    assert!(other.claim_one(&made.id).await.unwrap().is_some());
}

pub(super) async fn a_cancel_at_once_does_not_wait_for_who_was_asked(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, cooperative("t")).await;
    ask(&*one.store, &made).await;
    let cancel = one.store.request_cancel(Scope::Owner(&ann()), &made.id, None).await.unwrap();
    assert!(
        matches!(cancel, Cancellation::Cancelled(task) if task.outcome() == Some(&Outcome::cancelled(None)))
    );
}
