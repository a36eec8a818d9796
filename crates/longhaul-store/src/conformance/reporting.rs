//! What workers report.

use std::time::Duration;

use super::{Backend, create, finish, get, one, task};
use crate::{Batch, Progress, TaskStore};

pub(super) async fn progress_only_rises(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    let report = async |value: f64, total: Option<f64>, message: Option<&str>| {
        let progress = Progress::new(value, total, message.map(Into::into));
        one.store.write(&made.id, made.epoch, Batch::new().with_progress(progress)).await.unwrap();
        get(&*one.store, &made.id).await.expect("it exists").progress
    };
    let shown = |value: f64, total: Option<f64>, message: &str| {
        Some(Progress::new(value, total, Some(message.into())))
    };
    assert_eq!(report(f64::NAN, None, None).await, None);
    assert_eq!(report(3.0, Some(f64::INFINITY), Some("three")).await, shown(3.0, None, "three"));
    assert_eq!(report(4.0, Some(10.0), None).await, shown(4.0, Some(10.0), "three"));
    for dropped in [4.0, 0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(report(dropped, Some(99.0), None).await, shown(4.0, Some(10.0), "three"), "{dropped}");
    }
    assert_eq!(report(0.0, None, Some("once more")).await, shown(4.0, Some(10.0), "once more"));
    assert_eq!(report(4.5, None, Some("on")).await, shown(4.5, Some(10.0), "on"));
}

pub(super) async fn a_report_that_says_nothing_new_changes_nothing(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    let report = || {
        let progress = Progress::new(1.0, Some(2.0), None);
        Batch::new().with_progress(progress).with_status_message("half")
    };
    let seq = one.store.write(&made.id, made.epoch, report()).await.unwrap();
    let before = get(&*one.store, &made.id).await.expect("it exists");
    assert_eq!((seq, before.status_message.as_deref()), (before.seq, Some("half")));
    one.deployment.advance(Duration::from_secs(1));
    assert_eq!(one.store.write(&made.id, made.epoch, report()).await.unwrap(), seq);
    assert_eq!(one.store.write(&made.id, made.epoch, Batch::new()).await.unwrap(), seq);
    assert_eq!(get(&*one.store, &made.id).await, Some(before.clone()));

    one.store.write(&made.id, made.epoch, Batch::new().with_status_message("whole")).await.unwrap();
    let after = get(&*one.store, &made.id).await.expect("it exists");
    assert_eq!((after.status_message.as_deref(), after.progress), (Some("whole"), before.progress));
    assert_eq!(after.updated_at, one.store.now());
    assert_eq!(after.status_changed_at, made.created_at, "no caller saw another status");
}

pub(super) async fn changes_at_one_instant_have_dates_of_their_own(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    let mut dates = vec![made.updated_at];
    for words in ["one", "two", "three"] {
        let report = Batch::new().with_status_message(words);
        one.store.write(&made.id, made.epoch, report).await.unwrap();
        dates.push(get(&*one.store, &made.id).await.expect("it exists").updated_at);
    }
    let ended = finish(&*one.store, &made).await;
    dates.push(ended.updated_at);
    assert!(dates.is_sorted_by(|earlier, later| earlier < later), "{dates:?}");
    assert!(ended.terminal_at.is_some_and(|at| at <= ended.updated_at), "{ended:?}");
}

pub(super) async fn every_change_has_a_greater_number(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let t1 = create(&*one.store, task("t1")).await;
    let t2 = create(&*other, task("t2")).await;
    let mut last = t2.seq;
    assert!(t1.seq < last);
    for step in 1..5 {
        let (store, made) = if step % 2 == 0 { (&one.store, &t1) } else { (&other, &t2) };
        let report = Batch::new().with_status_message(format!("step {step}"));
        let seq = store.write(&made.id, made.epoch, report).await.unwrap();
        assert!(seq > last);
        last = seq;
    }
    assert!(finish(&*one.store, &t1).await.seq > last);
}

pub(super) async fn a_renewal_changes_nothing_anyone_can_see(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    one.deployment.advance(Duration::from_secs(5));
    assert!(one.store.renew(&[(made.id.clone(), made.epoch)]).await.unwrap().is_empty());
    let mut after = get(&*one.store, &made.id).await.expect("it exists");
    assert!(after.lease().map(|lease| lease.until) > made.lease().map(|lease| lease.until));
    after.phase = made.phase.clone();
    assert_eq!(after, made);
}
