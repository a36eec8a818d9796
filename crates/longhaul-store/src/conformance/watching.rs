//! That changes are noticed.

use std::pin::pin;

use super::{
    Backend, create,
    drive::{must_end, poll_once},
    finish, get, one, task,
};
use crate::{Batch, Record, TaskStore};

pub(super) async fn a_change_wakes_who_watches_on_any_node(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let made = create(&*one.store, task("t")).await;
    let (mut here, mut there) = (one.store.watch(&made.id), other.watch(&made.id));
    for step in 0..3 {
        let message = format!("step {step}");
        let mut waits = (
            pin!(until(&*one.store, &mut here, &made, &message)),
            pin!(until(&*other, &mut there, &made, &message)),
        );
        assert!(poll_once(waits.0.as_mut()).is_pending() && poll_once(waits.1.as_mut()).is_pending());
        one.store
            .write(&made.id, made.epoch, Batch::new().with_status_message(message.clone()))
            .await
            .unwrap();
        must_end("a change on this node", waits.0).await;
        must_end("a change on another node", waits.1).await;
    }
}

pub(super) async fn a_change_before_the_first_look_is_not_missed(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let made = create(&*one.store, task("t")).await;
    let mut watch = other.watch(&made.id);
    assert!(!get(&*other, &made.id).await.expect("it exists").is_terminal());
    finish(&*one.store, &made).await;
    must_end("the end of the task", async {
        while !get(&*other, &made.id).await.expect("it exists").is_terminal() {
            watch.changed().await;
        }
    })
    .await;
}

pub(super) async fn a_wait_given_up_loses_no_change(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let made = create(&*one.store, task("t")).await;
    let mut watch = other.watch(&made.id);
    for _ in 0..3 {
        let mut wait = pin!(watch.changed());
        let _perhaps = poll_once(wait.as_mut());
    }
    one.store.write(&made.id, made.epoch, Batch::new().with_status_message("said")).await.unwrap();
    must_end("a change while nobody waited", until(&*other, &mut watch, &made, "said")).await;
}

pub(super) async fn a_change_is_noticed_amid_ones_own(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let watched = create(&*other, task("watched")).await;
    let own = create(&*one.store, task("own")).await;
    let mut watch = one.store.watch(&watched.id);
    for step in 0..20 {
        let message = format!("step {step}");
        let mut wait = pin!(until(&*one.store, &mut watch, &watched, &message));
        assert!(poll_once(wait.as_mut()).is_pending());
        let report = || Batch::new().with_status_message(message.clone());
        other.write(&watched.id, watched.epoch, report()).await.unwrap();
        one.store.write(&own.id, own.epoch, report()).await.unwrap();
        must_end("a change on another node amid changes of this one", wait).await;
    }
}

/// Waits by hints alone until the task says this.
async fn until(store: &dyn TaskStore, watch: &mut crate::TaskWatch, made: &Record, message: &str) {
    while get(store, &made.id).await.expect("it exists").status_message.as_deref() != Some(message) {
        watch.changed().await;
    }
}
