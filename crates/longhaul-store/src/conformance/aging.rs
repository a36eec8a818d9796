//! What time does to tasks.

use std::time::Duration;

use super::{
    Backend, ann,
    asking::asking,
    bob, create,
    creation::{keyed, once},
    drive::{block_on, race},
    finish, get, id, json, one, one_with, queued,
    stepping::learnt,
    task,
};
use crate::{
    Batch, Cancellation, Erasure, Filter, Finished, Outcome, Reply, Retention, Scope, Settings, Start,
    StoreError, Swept, TaskId, TaskStore, Time,
};

/// V2 of `conformance/REQUIREMENTS.md`.
pub(super) async fn an_open_task_ends_with_an_error_when_its_time_is_up(backend: &dyn Backend) {
    let one = one(backend);
    let mut new = task("t");
    new.retention = Retention::FromCreation(minutes(1));
    let made = create(&*one.store, new).await;
    assert_eq!(made.expires_at, Some(made.created_at.after(minutes(1))));
    one.deployment.advance(minutes(1) - Duration::from_secs(1));
    assert_eq!(one.store.sweep(10).await.unwrap(), Swept::default());
    one.deployment.advance(Duration::from_secs(1));
    let swept = one.store.sweep(10).await.unwrap();
    assert_eq!((&swept.expired[..], swept.total()), (&[made.id.clone()][..], 1));

    let ended = get(&*one.store, &made.id).await.expect("its outcome can be read");
    let Some(Outcome::Error { code: -32603, message, data: None }) = ended.outcome() else {
        panic!("{ended:?}")
    };
    assert_eq!(&**message, "task expired");
    assert!(ended.epoch > made.epoch);
    assert_eq!(ended.expires_at, Some(one.store.now().after(Settings::default().min_result_retention)));
    let late = one.store.write(&made.id, made.epoch, Batch::new().with_status_message("late")).await;
    assert!(matches!(late, Err(StoreError::Fenced { .. })), "{late:?}");
}

pub(super) async fn an_outcome_can_be_read_for_a_while_however_late_it_came(backend: &dyn Backend) {
    let one = one(backend);
    let floor = Settings::default().min_result_retention;
    let mut new = task("late");
    new.retention = Retention::FromCreation(minutes(10));
    let late = create(&*one.store, new.clone()).await;
    new.id = id("early");
    let early = create(&*one.store, new).await;
    let early = finish(&*one.store, &early).await;
    assert_eq!(early.expires_at, Some(early.created_at.after(minutes(10))));
    one.deployment.advance(minutes(10) - Duration::from_secs(1));
    let late = finish(&*one.store, &late).await;
    assert_eq!(late.expires_at, Some(one.store.now().after(floor)));

    one.deployment.advance(floor - Duration::from_secs(1));
    assert_eq!(get(&*one.store, &early.id).await, None);
    assert_eq!(get(&*one.store, &late.id).await, Some(late.clone()));
    one.deployment.advance(Duration::from_secs(1));
    assert_eq!(get(&*one.store, &late.id).await, None);
}

pub(super) async fn a_finished_task_is_forgotten_in_two_steps(backend: &dyn Backend) {
    let one = one(backend);
    let mut new = task("t");
    new.retention = Retention::AfterTerminal(minutes(1));
    let made = create(&*one.store, new).await;
    assert_eq!(made.expires_at, None);
    one.deployment.advance(Duration::from_secs(86_400 * 30));
    assert_eq!(one.store.sweep(10).await.unwrap(), Swept::default(), "an open one never expires");
    let ended = finish(&*one.store, &made).await;
    assert_eq!(ended.expires_at, Some(one.store.now().after(minutes(1))));
    one.deployment.advance(minutes(1));

    for swept in [false, true] {
        if swept {
            let swept = one.store.sweep(10).await.unwrap();
            assert_eq!((swept.erased, swept.total()), (1, 1));
        }
        assert_eq!(get(&*one.store, &made.id).await, None);
        let list = one.store.list(Scope::Owner(&ann()), &Filter::all(), None, 10).await.unwrap();
        assert!(list.tasks.is_empty());
        let cancel = one.store.request_cancel(Scope::Owner(&ann()), &made.id, None).await.unwrap();
        assert_eq!(cancel, Cancellation::NotFound);
        let late = one.store.finish(&made.id, made.epoch, Outcome::lost("late"), Batch::new()).await;
        assert!(matches!(late, Err(StoreError::Fenced { .. })), "{late:?}");
        assert!(one.store.claim_one(&made.id).await.unwrap().is_none());
        assert!(matches!(one.store.create(task("t")).await, Err(StoreError::AlreadyExists { .. })));
    }
    one.deployment.advance(Settings::default().tombstone - Duration::from_secs(1));
    assert_eq!(one.store.sweep(10).await.unwrap(), Swept::default());
    one.deployment.advance(Duration::from_secs(1));
    let swept = one.store.sweep(10).await.unwrap();
    assert_eq!((swept.removed, swept.total()), (1, 1));
    assert_eq!(one.store.counts().await.unwrap().retained, 0);
    create(&*one.store, task("t")).await;
}

/// T4 of `conformance/REQUIREMENTS.md`.
pub(super) async fn a_task_whose_time_is_up_meets_whatever_comes_then_once(backend: &dyn Backend) {
    let one = one(backend);
    let nodes: Vec<_> = (0..4).map(|_| one.deployment.join()).collect();
    for round in 0..24 {
        let mut new = task(&format!("t{round}"));
        new.retention = Retention::FromCreation(minutes(1));
        let made = create(&*nodes[0], new).await;
        let asks = Batch::new().with_step(asking("q"));
        nodes[0].write(&made.id, made.epoch, asks).await.expect("it is asked");
        one.deployment.advance(minutes(1));
        let seen = race(4, |index| {
            let node = &nodes[index];
            match index {
                0 => drop(block_on(node.sweep(100)).expect("it can be swept")),
                1 if round % 3 == 0 => {
                    drop(block_on(node.request_cancel(Scope::Owner(&ann()), &made.id, None)))
                }
                1 if round % 3 == 1 => {
                    let reply = [Reply::new("q", json("1"))];
                    drop(block_on(node.answer(Scope::Owner(&ann()), &made.id, &reply)));
                }
                1 => drop(block_on(node.finish(&made.id, made.epoch, Outcome::lost("x"), Batch::new()))),
                _ => return block_on(node.get(Scope::Owner(&ann()), &made.id)).expect("it can be read"),
            }
            None
        });
        one.store.sweep(100).await.expect("it can be swept");
        let ended = get(&*one.store, &made.id).await.expect("its end can be read for a while");
        assert!(ended.is_terminal() && ended.questions.is_empty(), "{ended:?}");
        let ends = seen.iter().flatten().filter(|seen| seen.is_terminal());
        assert!(ends.into_iter().all(|seen| *seen == ended), "nobody saw another end: {seen:?}");
        let late = one.store.finish(&made.id, made.epoch, Outcome::lost("late"), Batch::new()).await;
        assert_eq!(late.expect("it has ended"), Finished::AlreadyTerminal(ended));
    }
}

pub(super) async fn a_task_kept_for_ever_is_kept(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    let mut endless = task("endless");
    endless.retention = Retention::FromCreation(Duration::MAX);
    let endless = create(&*one.store, endless).await;
    let ended = finish(&*one.store, &made).await;
    assert_eq!((made.expires_at, ended.expires_at), (None, None));
    one.deployment.advance(Duration::from_secs(86_400 * 3650));
    assert_eq!(one.store.sweep(10).await.unwrap(), Swept::default());
    assert_eq!(get(&*one.store, &made.id).await, Some(ended));
    assert_eq!(endless.expires_at, Some(Time::from_unix_ms(i64::MAX)));
    assert!(get(&*one.store, &endless.id).await.is_some());
}

pub(super) async fn an_expired_task_is_not_claimed(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let mut new = queued("queued", &*one.store);
    new.retention = Retention::FromCreation(minutes(1));
    create(&*one.store, new.clone()).await;
    (new.id, new.start) = (id("orphan"), Start::Claimed);
    create(&*other, new).await;
    drop(other);
    one.deployment.advance(minutes(1));
    assert!(one.store.claim(10, None).await.unwrap().is_empty());
    assert_eq!(one.store.sweep(10).await.unwrap().expired.len(), 2);
}

pub(super) async fn a_sweep_takes_no_more_than_asked(backend: &dyn Backend) {
    let settings = Settings { tombstone: minutes(1), ..Settings::default() };
    let one = one_with(backend, settings);
    for number in 0..5 {
        let mut new = task(&format!("t{number}"));
        new.retention = Retention::AfterTerminal(minutes(1));
        let made = create(&*one.store, new).await;
        finish(&*one.store, &made).await;
    }
    one.deployment.advance(minutes(1));
    assert_eq!(one.store.sweep(0).await.unwrap().total(), 0);
    for (total, is_full) in [(3, true), (2, false), (0, false)] {
        let swept = one.store.sweep(3).await.unwrap();
        assert_eq!((swept.total(), swept.is_full), (total, is_full));
    }
}

/// K20 of `conformance/REQUIREMENTS.md`.
pub(super) async fn sweeps_that_race_do_each_thing_once(backend: &dyn Backend) {
    let one = one(backend);
    for number in 0..10 {
        let mut open = task(&format!("open{number}"));
        open.retention = Retention::FromCreation(minutes(1));
        create(&*one.store, open).await;
        let mut done = task(&format!("done{number}"));
        done.retention = Retention::AfterTerminal(minutes(1));
        let done = create(&*one.store, done).await;
        finish(&*one.store, &done).await;
    }
    one.deployment.advance(minutes(1));
    let nodes: Vec<_> = (0..4).map(|_| one.deployment.join()).collect();
    let swept = race(4, |index| block_on(nodes[index].sweep(100)).unwrap());
    assert_eq!(swept.iter().map(|swept| swept.expired.len()).sum::<usize>(), 10);
    assert_eq!(swept.iter().map(|swept| swept.erased).sum::<usize>(), 10);
}

/// Stores may do many at once, of several owners.
pub(super) async fn a_sweep_of_many_does_to_each_what_time_demands(backend: &dyn Backend) {
    let settings = Settings { tombstone: minutes(1), ..Settings::default() };
    let one = one_with(backend, settings);
    let (mut done, mut open, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..150 {
        let mut new = task(&format!("t{number}"));
        new.owner = if number % 2 == 0 { ann() } else { bob() };
        new.once = Some(once(&format!("key{number}"), 1));
        new.steps = vec![learnt("first", "1")];
        new.retention = match number % 3 {
            0 => Retention::AfterTerminal(minutes(1)),
            1 => Retention::FromCreation(minutes(1)),
            _ => Retention::Unlimited,
        };
        let made = create(&*one.store, new).await;
        match number % 3 {
            0 => done.push(finish(&*one.store, &made).await.id),
            1 => open.push(made.id),
            _ => kept.push(finish(&*one.store, &made).await),
        }
    }
    one.deployment.advance(minutes(1));
    let swept = one.store.sweep(1000).await.unwrap();
    assert_eq!((swept.erased, swept.removed, swept.total()), (50, 0, 100));
    assert_eq!(
        (sorted(swept.forgotten), sorted(swept.expired)),
        (sorted(done.clone()), sorted(open.clone()))
    );
    for id in &done {
        assert_eq!(get(&*one.store, id).await, None);
    }
    for id in open {
        assert!(get(&*one.store, &id).await.is_some_and(|task| task.is_terminal()), "{id} has ended");
    }
    for task in &kept {
        assert_eq!(get(&*one.store, &task.id).await.as_ref(), Some(task), "nothing is done to it");
    }
    let counts = one.store.counts().await.unwrap();
    assert_eq!((counts.open, counts.retained), (0, 150));

    one.deployment.advance(minutes(1));
    let swept = one.store.sweep(1000).await.unwrap();
    assert_eq!((swept.removed, swept.total()), (50, 50));
    assert_eq!(one.store.counts().await.unwrap().retained, 100);
    // What was taken is free again.
    let mut again = task(done[0].as_str());
    again.once = Some(once("key0", 2));
    create(&*one.store, again).await;
}

fn sorted(mut ids: Vec<TaskId>) -> Vec<TaskId> {
    ids.sort();
    ids
}

pub(super) async fn what_is_erased_is_forgotten_at_once(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, keyed("t", &ann(), 1)).await;
    let (owner, other) = (ann(), bob());
    let (hers, his) = (Scope::Owner(&owner), Scope::Owner(&other));
    assert_eq!(one.store.erase(hers, &made.id).await.unwrap(), Erasure::Open);
    finish(&*one.store, &made).await;
    assert_eq!(one.store.erase(his, &made.id).await.unwrap(), Erasure::NotFound);
    assert_eq!(one.store.erase(hers, &made.id).await.unwrap(), Erasure::Erased);
    assert_eq!(one.store.erase(hers, &made.id).await.unwrap(), Erasure::NotFound);
    assert_eq!(get(&*one.store, &made.id).await, None);
    assert!(matches!(one.store.create(task("t")).await, Err(StoreError::AlreadyExists { .. })));
    let again = one.store.create(keyed("again", &ann(), 1)).await;
    assert!(matches!(again, Err(StoreError::KeySpent { .. })), "{again:?}");
    one.deployment.advance(Settings::default().tombstone);
    assert_eq!(one.store.sweep(10).await.unwrap().removed, 1);
    assert_eq!(one.store.counts().await.unwrap().retained, 0);
}

pub(super) async fn what_is_erased_leaves_room_if_nobody_can_ask_for_it(backend: &dyn Backend) {
    let one = one(backend);
    for (round, new) in [task("t"), keyed("t", &ann(), 1)].into_iter().enumerate() {
        let made = create(&*one.store, new).await;
        finish(&*one.store, &made).await;
        assert_eq!(one.store.erase(Scope::Operator, &made.id).await.unwrap(), Erasure::Erased);
        let late = one.store.finish(&made.id, made.epoch, Outcome::lost("late"), Batch::new()).await;
        assert!(late.is_err(), "{late:?}");
        assert_eq!(one.store.sweep(10).await.unwrap().removed, 1 - round, "{round}");
        assert_eq!(one.store.counts().await.unwrap().retained, round as u64, "{round}");
        let late = one.store.finish(&made.id, made.epoch, Outcome::lost("late"), Batch::new()).await;
        assert!(late.is_err(), "{late:?}");
    }
}

fn minutes(number: u64) -> Duration {
    Duration::from_secs(60 * number)
}
