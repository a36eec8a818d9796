//! What a claim meets on its way through a queue.

use longhaul_store::{Accepts, Filter, Runnable, Scope, Settings, Start, StoreError, TaskId, ToolVersion};

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

pub(crate) async fn what_a_claim_could_take_is_found_however_much_is_open<R: Rig>() {
    let url = R::shared().store();
    let store = R::join(&url, Settings::default()).await;
    let mut queued = task("queued");
    queued.start = Start::Queued { not_before: store.now() };
    store.create(queued).await.unwrap();
    store.create(task("held")).await.unwrap();
    R::shared().crowd(&url, "held");
    let page = store.list(Scope::Operator, &Filter::claimable(), None, 10).await.unwrap();
    assert_eq!(page.tasks.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["queued"]);
    assert_eq!(page.next, None, "and nothing else is read");
}
