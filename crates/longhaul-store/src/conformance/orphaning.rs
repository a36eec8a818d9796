//! Tasks for which nobody comes back.

use std::time::Duration;

use super::{Backend, ann, bob, create, finish, get, id, one, task};
use crate::{
    Batch, Fingerprint, NewChild, NewTask, OnOrphan, OrphanRule, Outcome, Record, Retention, Scope,
    StoreError, Swept, TaskStore,
};

const GRACE: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_millis(1);

fn awaiting(name: &str, then: OnOrphan) -> NewTask {
    let mut task = task(name);
    task.orphan = Some(OrphanRule::new(GRACE, then));
    task
}

async fn orphans(store: &dyn TaskStore) -> Vec<(String, OnOrphan)> {
    let swept = store.sweep(10).await.unwrap();
    assert_eq!(swept.total(), swept.orphans.len(), "{swept:?}");
    swept.orphans.into_iter().map(|(task, then)| (task.to_string(), then)).collect()
}

/// What a caller can see of it.
fn shown(record: &Record) -> Record {
    Record { orphan_at: None, came_back_at: None, ..record.clone() }
}

pub(super) async fn a_task_for_which_nobody_comes_is_an_orphan_once(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let made = create(&*one.store, awaiting("t", OnOrphan::Keep)).await;
    assert_eq!(made.orphan_at, Some(made.created_at.after(GRACE)));
    one.deployment.advance(GRACE - MOMENT);
    assert_eq!(one.store.sweep(10).await.unwrap(), Swept::default());
    one.deployment.advance(MOMENT);
    assert_eq!(orphans(&*other).await, [("t".to_owned(), OnOrphan::Keep)]);
    assert_eq!(one.store.sweep(10).await.unwrap(), Swept::default(), "it is told of once");
    let kept = get(&*one.store, &made.id).await.expect("it goes on");
    assert_eq!(shown(&kept), shown(&made), "and nobody sees that it is one");
    one.store.write(&made.id, made.epoch, Batch::new().with_status_message("on")).await.unwrap();
    assert!(
        one.store.came_back(Scope::Owner(&ann()), &made.id).await.unwrap(),
        "late, but that is known now"
    );
    assert_eq!(one.store.sweep(10).await.unwrap(), Swept::default(), "and it was one once");
}

pub(super) async fn an_orphan_is_cancelled_if_it_is_to_be(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, awaiting("t", OnOrphan::Cancel)).await;
    one.deployment.advance(GRACE);
    assert_eq!(orphans(&*one.store).await, [("t".to_owned(), OnOrphan::Cancel)]);
    let ended = get(&*one.store, &made.id).await.expect("its end can be read");
    assert_eq!(ended.outcome(), Some(&Outcome::cancelled(Some("nobody has asked after it".into()))));
    assert!(ended.seq > made.seq, "whoever follows it hears");
    let late = one.store.write(&made.id, made.epoch, Batch::new().with_status_message("late")).await;
    assert!(matches!(late, Err(StoreError::Fenced { .. })), "{late:?}");
    assert_eq!(one.store.sweep(10).await.unwrap(), Swept::default());
}

pub(super) async fn a_task_whose_owner_came_back_is_no_orphan(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let made = create(&*one.store, awaiting("t", OnOrphan::Cancel)).await;
    let foreign = bob();
    assert!(!other.came_back(Scope::Owner(&foreign), &made.id).await.unwrap(), "it is not there for him");
    one.deployment.advance(GRACE - MOMENT);
    assert!(other.came_back(Scope::Owner(&ann()), &made.id).await.unwrap());
    assert!(!one.store.came_back(Scope::Owner(&ann()), &made.id).await.unwrap(), "that is known");
    let known = get(&*one.store, &made.id).await.unwrap();
    assert_eq!((known.orphan_at, known.came_back_at), (None, Some(one.store.now())));
    assert_eq!(shown(&known), shown(&made), "that somebody looks changes nothing");
    one.deployment.advance(GRACE * 100);
    assert_eq!(one.store.sweep(10).await.unwrap(), Swept::default());
    // It is never too late before it is found out.
    let late = create(&*one.store, awaiting("late", OnOrphan::Cancel)).await;
    one.deployment.advance(GRACE * 2);
    assert!(one.store.came_back(Scope::Operator, &late.id).await.unwrap());
    assert_eq!(one.store.sweep(10).await.unwrap(), Swept::default());
    assert!(!one.store.came_back(Scope::Operator, &id("never")).await.unwrap());
    // It is known of one that could be no orphan, too, until it has ended.
    let waited = create(&*one.store, task("waited")).await;
    assert!(other.came_back(Scope::Operator, &waited.id).await.unwrap());
    assert_eq!(get(&*one.store, &waited.id).await.unwrap().came_back_at, Some(one.store.now()));
    let ended = finish(&*one.store, &create(&*one.store, task("ended")).await).await;
    assert!(!other.came_back(Scope::Operator, &ended.id).await.unwrap());
}

pub(super) async fn whoever_could_not_come_to_a_node_that_died_has_as_long_again(backend: &dyn Backend) {
    let one = one(backend);
    let mut dying = one.deployment.join();
    let made = create(&*dying, awaiting("t", OnOrphan::Cancel)).await;
    for _ in 0..3 {
        one.deployment.advance(GRACE * 2);
        let next = one.deployment.join();
        drop(dying);
        let taken = next.claim_one(&made.id).await.unwrap().expect("its node is dead");
        assert_eq!(taken.orphan_at, Some(next.now().after(GRACE)), "as long as at first, however many die");
        dying = next;
    }
    one.deployment.advance(GRACE - MOMENT);
    drop(dying);
    let taken = one.store.claim_one(&made.id).await.unwrap().expect("its node is dead");
    assert_eq!(taken.orphan_at, Some(one.store.now().after(GRACE)));
    assert_eq!(one.store.sweep(10).await.unwrap(), Swept::default());
    one.deployment.advance(GRACE);
    one.store.renew(&[(taken.id.clone(), taken.epoch)]).await.unwrap();
    assert_eq!(orphans(&*one.store).await, [("t".to_owned(), OnOrphan::Cancel)]);
}

pub(super) async fn what_ends_before_or_is_asked_to_is_no_orphan(backend: &dyn Backend) {
    let one = one(backend);
    let done = create(&*one.store, awaiting("done", OnOrphan::Cancel)).await;
    let done = finish(&*one.store, &done).await;
    assert_eq!(done.orphan_at, None);
    let mut asked = awaiting("asked", OnOrphan::Cancel);
    asked.cancel_grace = Some(GRACE * 10);
    let asked = create(&*one.store, asked).await;
    one.store.ask_to_cancel(Scope::Operator, &asked.id, None).await.unwrap();
    let mut brief = awaiting("brief", OnOrphan::Cancel);
    brief.retention = Retention::FromCreation(GRACE);
    let brief = create(&*one.store, brief).await;
    assert_eq!(brief.orphan_at, None, "its own time is up no later");
    one.deployment.advance(GRACE);
    let swept = one.store.sweep(10).await.unwrap();
    assert_eq!((&swept.expired[..], swept.total()), (&[brief.id][..], 1));
    assert_eq!(get(&*one.store, &done.id).await, Some(done));
}

pub(super) async fn what_a_task_has_made_is_no_orphan(backend: &dyn Backend) {
    let one = one(backend);
    let parent = create(&*one.store, task("parent")).await;
    let of = Fingerprint::new([1; Fingerprint::LEN]);
    let child = NewChild::new("child", of, awaiting("child", OnOrphan::Cancel));
    one.store.write(&parent.id, parent.epoch, Batch::new().with_child(child)).await.unwrap();
    let made = get(&*one.store, &id("child")).await.unwrap();
    assert_eq!(made.orphan_at, None, "its parent hears of its end");
    // An orphan takes along what it has made.
    let top = create(&*one.store, awaiting("top", OnOrphan::Cancel)).await;
    let child = NewChild::new("child", of, task("below"));
    one.store.write(&top.id, top.epoch, Batch::new().with_child(child)).await.unwrap();
    one.deployment.advance(GRACE);
    assert_eq!(orphans(&*one.store).await, [("top".to_owned(), OnOrphan::Cancel)]);
    assert!(get(&*one.store, &id("below")).await.unwrap().is_terminal());
    assert!(!get(&*one.store, &made.id).await.unwrap().is_terminal());
}
