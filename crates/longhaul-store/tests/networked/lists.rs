//! Lists of thousands of tasks, page by page, while they come and go.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use longhaul_store::{Batch, Filter, Json, Outcome, Owner, Retention, Scope, Settings, TaskStore};

use super::{Rig, task};

/// How many make tasks at once.
const MAKERS: usize = 8;

/// How many that stay, and half as many that go, each makes.
const EACH: usize = 250;

/// Each page is asked of another node than the one before. S3 of `conformance/REQUIREMENTS.md`.
pub(crate) async fn s3_a_list_of_thousands_meets_each_lasting_task_once_while_others_come_and_go<R: Rig>() {
    let url = R::shared().store();
    let mut settings = Settings::default();
    settings.min_result_retention = Duration::ZERO;
    settings.limits.max_open_per_owner = settings.limits.max_open;
    let nodes = [R::join(&url, settings.clone()).await, R::join(&url, settings).await];
    let makers: Vec<_> = (0..MAKERS).map(|maker| tokio::spawn(make(Arc::clone(&nodes[0]), maker))).collect();
    for maker in makers {
        maker.await.unwrap();
    }
    let ann = Owner::principal("ann").unwrap();
    let (mut met, mut cursor, mut pages, mut gone) = (BTreeMap::<String, usize>::new(), None, 0, 0);
    loop {
        let (one, other) = (&nodes[pages % 2], &nodes[(pages + 1) % 2]);
        let page = one.list(Scope::Owner(&ann), &Filter::all(), cursor.as_ref(), 100).await.unwrap();
        for record in page.tasks {
            *met.entry(record.id.to_string()).or_default() += 1;
        }
        gone += other.sweep(30).await.unwrap().total();
        other.create(task(&format!("new-{pages}"))).await.unwrap();
        (pages, cursor) = (pages + 1, page.next);
        if cursor.is_none() {
            break;
        }
    }
    let lasting = MAKERS * EACH;
    assert!(gone > 0 && pages > lasting / 100, "{gone} went in {pages} pages");
    assert_eq!(met.keys().filter(|name| name.starts_with("lasting")).count(), lasting);
    assert!(met.values().all(|times| *times == 1), "met twice");
}

/// Tasks that stay, and among them some that are to go.
async fn make(store: Arc<dyn TaskStore>, maker: usize) {
    for number in 0..EACH {
        store.create(task(&format!("lasting-{maker}-{number}"))).await.unwrap();
        if number % 2 == 0 {
            let mut brief = task(&format!("brief-{maker}-{number}"));
            brief.retention = Retention::AfterTerminal(Duration::ZERO);
            let made = store.create(brief).await.unwrap().into_record();
            let outcome = Outcome::result(Json::parse("{}").unwrap(), false);
            store.finish(&made.id, made.epoch, outcome, Batch::new()).await.unwrap();
        }
    }
}
