//! What a claim meets on its way through a queue.

use longhaul_store::{Accepts, Runnable, Scope, Settings, StoreError, TaskId, ToolVersion};

use super::{Rig, task, until};

pub(crate) async fn a_task_whose_host_is_damaged_keeps_no_other_from_being_claimed<R: Rig>() {
    let server = R::shared();
    let url = server.store();
    let (dying, living) =
        (R::join(&url, Settings::default()).await, R::join(&url, Settings::default()).await);
    for name in ["damaged", "sound"] {
        dying.create(task(name)).await.unwrap();
    }
    server.bind(&url, "damaged", "no host");
    drop(dying);
    let runs = [Runnable::new("build", Accepts::only(&ToolVersion::default()))];
    let mut claimed = Vec::new();
    until(async || {
        claimed.extend(living.claim(10, Some(&runs)).await.unwrap());
        !claimed.is_empty()
    })
    .await;
    assert_eq!(claimed.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["sound"]);
    assert!(living.claim(10, Some(&runs)).await.unwrap().is_empty());
    let seen = living.get(Scope::Operator, &TaskId::new("damaged").unwrap()).await;
    assert!(matches!(seen, Err(StoreError::Corrupt { .. })), "{seen:?}");
}
