//! Tasks that have made others, while those are at work.

use std::{sync::Arc, time::Duration};

use longhaul_store::{
    Batch, Cancellation, Fingerprint, NewChild, Scope, Settings, Start, StoreError, TaskId, TaskStore,
};
use tokio::time::timeout;

use super::{Rig, task};

/// Every one of them reports as fast as it can, on two nodes.
pub(crate) async fn a_task_with_many_children_at_work_can_be_ended<R: Rig>() {
    const MANY: usize = 200;
    let url = R::shared().store();
    let mut settings = Settings::default();
    settings.limits.max_open_per_owner = 2 * MANY as u64;
    let nodes = [R::join(&url, settings.clone()).await, R::join(&url, settings).await];
    let parent = nodes[0].create(task("parent")).await.unwrap().into_record();
    let of = Fingerprint::new([1; Fingerprint::LEN]);
    for number in 0..MANY {
        let mut child = task(&format!("child{number}"));
        child.start = Start::Queued { not_before: nodes[0].now() };
        let child = NewChild::new(format!("s{number}"), of, child);
        nodes[0].write(&parent.id, parent.epoch, Batch::new().with_child(child)).await.unwrap();
    }
    let mut held = Vec::new();
    for node in [0, 1] {
        let claimed = nodes[node].claim(MANY / 2, None).await.unwrap();
        held.extend(claimed.into_iter().map(|child| (node, child.id, child.epoch)));
    }
    assert_eq!(held.len(), MANY);
    let reports = held.into_iter().map(|(node, id, epoch)| {
        let node: Arc<dyn TaskStore> = Arc::clone(&nodes[node]);
        tokio::spawn(async move {
            for number in 0u64.. {
                let report = Batch::new().with_status_message(format!("{number}"));
                match node.write(&id, epoch, report).await {
                    Ok(_) => {}
                    // It may be one of too many that write at once.
                    Err(error) if error.is_retryable() => {}
                    Err(error) => return error,
                }
            }
            unreachable!("it reports until it is ended")
        })
    });
    let reports: Vec<_> = reports.collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let cancelling = nodes[0].request_cancel(Scope::Operator, &parent.id, None);
    let cancelled = timeout(Duration::from_secs(60), cancelling).await.expect("it is done").unwrap();
    assert!(matches!(cancelled, Cancellation::Cancelled(_)), "{cancelled:?}");
    for reporting in reports {
        let error = reporting.await.unwrap();
        assert!(matches!(error, StoreError::Fenced { .. }), "{error:?}");
    }
    for number in 0..MANY {
        let child = TaskId::new(format!("child{number}")).unwrap();
        let child = nodes[1].get(Scope::Operator, &child).await.unwrap();
        assert!(child.is_some_and(|child| child.is_terminal()), "child{number}");
    }
}
