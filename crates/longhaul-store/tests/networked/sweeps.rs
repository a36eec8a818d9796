//! What is asked of a server to forget what is past its time.

use std::time::Duration;

use longhaul_store::{Batch, Json, Outcome, Retention, Settings};

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
