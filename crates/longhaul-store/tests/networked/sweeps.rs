//! What is asked of a server to forget what is past its time.

use std::time::Duration;

use longhaul_store::{
    Batch, Fingerprint, Json, NewChild, Outcome, Retention, Scope, Settings, Start, StoreError, TaskId,
};

use super::{Rig, task};

/// A node writes now and then beside, such as that it is there.
pub(crate) async fn many_tasks_are_forgotten_by_few_writes<R: Rig>() {
    const MANY: usize = 200;
    let server = R::start();
    let url = server.store();
    let mut settings = Settings::default();
    settings.min_result_retention = Duration::ZERO;
    settings.tombstone = Duration::ZERO;
    let store = R::join(&url, settings).await;
    for number in 0..MANY {
        let mut new = task(&format!("t{number}"));
        new.retention = Retention::AfterTerminal(Duration::ZERO);
        let made = store.create(new).await.unwrap().into_record();
        let outcome = Outcome::result(Json::parse("{}").unwrap(), false);
        store.finish(&made.id, made.epoch, outcome, Batch::new()).await.unwrap();
    }
    let before = server.writes();
    let forgotten = store.sweep(2 * MANY).await.unwrap();
    let removed = store.sweep(2 * MANY).await.unwrap();
    assert_eq!((forgotten.erased, removed.removed), (MANY, MANY));
    let writes = server.writes() - before;
    assert!(writes < MANY as u64 / 2, "{writes} writes");
}

/// As many of each kind as a sweep looks at, and behind them one more. What cannot be told to the task that made one keeps it from
/// its end, and what cannot be read keeps it from that, too.
pub(crate) async fn tasks_that_cannot_be_ended_keep_no_other_from_its_end<R: Rig>() {
    const AT_A_TIME: usize = 16;
    let url = R::shared().store();
    let store = R::join(&url, Settings::default()).await;
    let brief = |name: &str| {
        let mut brief = task(name);
        brief.retention = Retention::FromCreation(Duration::from_millis(1));
        brief.start = Start::Queued { not_before: store.now() };
        brief
    };
    let parent = store.create(task("parent")).await.unwrap().into_record();
    let of = Fingerprint::new([1; Fingerprint::LEN]);
    for number in 0..AT_A_TIME {
        let child = NewChild::new(format!("s{number}"), of, brief(&format!("child{number}")));
        store.write(&parent.id, parent.epoch, Batch::new().with_child(child)).await.unwrap();
        R::shared().damage_step(&url, "parent", &format!("s{number}"));
        store.create(brief(&format!("damaged{number}"))).await.unwrap();
        R::shared().bind(&url, &format!("damaged{number}"), "no host");
    }
    let last = store.create(brief("last")).await.unwrap().into_record();
    let first = store.sweep(AT_A_TIME).await;
    assert!(matches!(first, Err(StoreError::Corrupt { .. })), "it says why it did nothing: {first:?}");
    let mut expired = Vec::new();
    for _ in 0..2 {
        // What they come to may be nothing.
        expired.extend(store.sweep(AT_A_TIME).await.map_or_else(|_| Vec::new(), |swept| swept.expired));
    }
    assert_eq!(expired, std::slice::from_ref(&last.id));
    let child = TaskId::new("child0").unwrap();
    assert!(!store.get(Scope::Operator, &child).await.unwrap().is_some_and(|child| child.is_terminal()));
}
