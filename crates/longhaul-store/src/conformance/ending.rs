//! How tasks end, and that they end once.

use std::time::Duration;

use super::{
    Backend, ann, create,
    drive::{block_on, race},
    finish, get, id, json, one, queued, task,
};
use crate::{
    Batch, Cancellation, Epoch, Finished, Outcome, Progress, Record, Retention, Scope, Settings, StoreError,
    TaskStore,
};

pub(super) async fn every_kind_of_outcome_comes_back_as_it_was(backend: &dyn Backend) {
    let one = one(backend);
    let outcomes = [
        Outcome::result(json(r#"{ "content":[ {"type":"text","text":"é\u0000"} ] }"#), false),
        Outcome::result(json("{}"), true),
        Outcome::error(-32603, "it broke; '", None),
        Outcome::error(i64::MIN, "", Some(json("[1, 2]"))),
        Outcome::cancelled(None),
        Outcome::cancelled(Some("enough".into())),
        Outcome::lost("its worker is gone"),
        Outcome::result(json(&format!("\"{}\"", "y".repeat(3 << 20))), false),
    ];
    for (number, outcome) in outcomes.into_iter().enumerate() {
        let made = create(&*one.store, task(&format!("t{number}"))).await;
        one.deployment.advance(Duration::from_secs(1));
        let ended = one.store.finish(&made.id, made.epoch, outcome.clone(), Batch::new()).await.unwrap();
        let Finished::Recorded(ended) = ended else { panic!("it was open: {ended:?}") };
        assert_eq!(ended.outcome(), Some(&outcome));
        let now = one.store.now();
        assert_eq!((ended.terminal_at, ended.status_changed_at, ended.updated_at), (Some(now), now, now));
        assert_eq!(get(&*one.store, &made.id).await, Some(ended));
    }
}

pub(super) async fn an_outcome_is_recorded_once(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let made = create(&*one.store, task("t")).await;
    let ended = finish(&*one.store, &made).await;
    for store in [&one.store, &other] {
        for epoch in [made.epoch, made.epoch.next(), Epoch::new(0)] {
            let again = store.finish(&made.id, epoch, Outcome::lost("late"), Batch::new()).await.unwrap();
            assert_eq!(again, Finished::AlreadyTerminal(ended.clone()));
        }
    }
    let never = one.store.finish(&id("never"), made.epoch, Outcome::lost("late"), Batch::new()).await;
    assert!(matches!(never, Err(StoreError::Fenced { .. })), "{never:?}");
}

pub(super) async fn a_last_report_comes_with_the_outcome(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    let last =
        Batch::new().with_progress(Progress::new(9.0, Some(9.0), None)).with_status_message("all done");
    let ended = one.store.finish(&made.id, made.epoch, Outcome::lost("x"), last).await.unwrap().into_record();
    assert_eq!(ended.progress, Some(Progress::new(9.0, Some(9.0), None)));
    assert_eq!(ended.status_message.as_deref(), Some("all done"));
    assert_eq!(get(&*one.store, &made.id).await, Some(ended));
}

pub(super) async fn a_task_that_has_ended_never_changes(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let finished = create(&*one.store, task("finished")).await;
    let finished = (finished.epoch, finish(&*one.store, &finished).await);
    let cancelled = create(&*one.store, task("cancelled")).await;
    let cancel = one.store.request_cancel(Scope::Operator, &cancelled.id, Some("why")).await.unwrap();
    let Cancellation::Cancelled(after) = cancel else { panic!("it was open: {cancel:?}") };
    let mut brief = task("expired");
    brief.retention = Retention::FromCreation(Duration::from_secs(1));
    let expired = create(&*one.store, brief).await;
    one.deployment.advance(Duration::from_secs(1));
    assert_eq!(one.store.sweep(10).await.unwrap().expired, std::slice::from_ref(&expired.id));
    let gone = get(&*one.store, &expired.id).await.expect("its outcome is still there");

    one.deployment.advance(Settings::default().lease);
    for (epoch, ended) in [finished, (cancelled.epoch, after), (expired.epoch, gone)] {
        for store in [&one.store, &other] {
            try_everything(&**store, epoch, &ended).await;
            assert_eq!(get(&**store, &ended.id).await.as_ref(), Some(&ended));
        }
    }
}

async fn try_everything(store: &dyn TaskStore, held: Epoch, ended: &Record) {
    let id = &ended.id;
    for epoch in [held, ended.epoch, ended.epoch.next()] {
        let report = Batch::new().with_progress(Progress::new(1e9, None, None)).with_status_message("late");
        assert!(matches!(store.write(id, epoch, report.clone()).await, Err(StoreError::Fenced { .. })));
        assert!(matches!(store.release(id, epoch).await, Err(StoreError::Fenced { .. })));
        assert_eq!(store.renew(&[(id.clone(), epoch)]).await.unwrap(), std::slice::from_ref(id));
        let again = store.finish(id, epoch, Outcome::result(json("1"), false), report).await.unwrap();
        assert_eq!(again, Finished::AlreadyTerminal(ended.clone()));
    }
    let cancel = store.request_cancel(Scope::Owner(&ann()), id, Some("late")).await.unwrap();
    assert_eq!(cancel, Cancellation::AlreadyTerminal(ended.clone()));
    assert!(store.claim_one(id).await.unwrap().is_none());
    assert!(store.claim(100, None).await.unwrap().iter().all(|claim| claim.id != *id));
    assert!(!store.sweep(100).await.unwrap().expired.contains(id));
}

pub(super) async fn a_cancel_holds_at_once_and_fences_the_worker(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let made = create(&*one.store, task("t")).await;
    let cancel = other.request_cancel(Scope::Owner(&ann()), &made.id, Some("enough")).await.unwrap();
    let Cancellation::Cancelled(cancelled) = cancel else { panic!("it was open: {cancel:?}") };
    assert_eq!(cancelled.outcome(), Some(&Outcome::cancelled(Some("enough".into()))));
    assert!(cancelled.epoch > made.epoch);
    assert_eq!(get(&*one.store, &made.id).await.as_ref(), Some(&cancelled));
    let late = one.store.write(&made.id, made.epoch, Batch::new().with_status_message("late")).await;
    assert!(matches!(late, Err(StoreError::Fenced { .. })), "{late:?}");
    assert_eq!(
        one.store.renew(&[(made.id.clone(), made.epoch)]).await.unwrap(),
        std::slice::from_ref(&made.id)
    );
    let late = one.store.finish(&made.id, made.epoch, Outcome::lost("late"), Batch::new()).await.unwrap();
    assert_eq!(late, Finished::AlreadyTerminal(cancelled));
}

pub(super) async fn a_queued_task_can_be_cancelled(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, queued("t", &*one.store)).await;
    let cancel = one.store.request_cancel(Scope::Owner(&ann()), &made.id, None).await.unwrap();
    assert!(
        matches!(cancel, Cancellation::Cancelled(task) if task.outcome() == Some(&Outcome::cancelled(None)))
    );
    assert!(one.store.claim(10, None).await.unwrap().is_empty());
}

pub(super) async fn a_cancel_with_a_long_reason_still_cancels(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    let reason = "é".repeat(1 << 20);
    let cancel = one.store.request_cancel(Scope::Owner(&ann()), &made.id, Some(&reason)).await.unwrap();
    let Cancellation::Cancelled(task) = cancel else { panic!("it was open") };
    let Some(Outcome::Cancelled { reason: Some(kept) }) = task.outcome() else { panic!("{task:?}") };
    assert!(
        !kept.is_empty() && kept.len() <= Settings::default().limits.max_text && reason.starts_with(&**kept)
    );
}

/// D6 of `conformance/REQUIREMENTS.md`.
pub(super) async fn a_task_that_is_finished_and_cancelled_at_once_ends_once(backend: &dyn Backend) {
    let one = one(backend);
    let nodes: Vec<_> = (0..4).map(|_| one.deployment.join()).collect();
    for round in 0..25 {
        let made = create(&*nodes[0], task(&format!("t{round}"))).await;
        let seen = race(4, |index| {
            let node = &nodes[index];
            if index % 2 == 0 {
                let outcome = Outcome::lost(format!("by {index}"));
                match block_on(node.finish(&made.id, made.epoch, outcome, Batch::new())).unwrap() {
                    Finished::Recorded(task) => (true, task),
                    Finished::AlreadyTerminal(task) => (false, task),
                }
            } else {
                match block_on(node.request_cancel(Scope::Owner(&ann()), &made.id, Some("stop"))).unwrap() {
                    Cancellation::Cancelled(task) => (true, task),
                    Cancellation::AlreadyTerminal(task) => (false, task),
                    Cancellation::NotFound => panic!("it exists"),
                }
            }
        });
        assert_eq!(seen.iter().filter(|(first, _)| *first).count(), 1, "{seen:?}");
        assert!(seen.iter().all(|(_, task)| *task == seen[0].1), "{seen:?}");
    }
}
