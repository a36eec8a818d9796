//! Why tasks do not move, as the pages and scripts are told.

use super::*;

#[tokio::test]
async fn a_task_that_waits_for_its_place_says_how_many_come_before_it() {
    let mut policy = TaskPolicy::always();
    policy.limit = Some(1);
    let scene = Scene::of(Tool::typed("deploy", "Deploys", deploy).task(policy).reentrant(true)).await;
    let browser = scene.enter().await;
    let asking = browser.deploy().await;
    browser.until(&asking, "It asks").await;
    let mut waiting = Vec::new();
    for said in [", next in line", " behind 1 other", " behind 2 others"] {
        let place = browser.deploy().await;
        let page = browser.until(&place, &format!("queued{said}: limit 1 for `deploy`")).await;
        assert!(page.contains("working"), "{page}");
        waiting.push(place);
    }
    let list = browser.page("/").await;
    assert!(list.contains("queued behind 2 others: limit 1 for `deploy`"), "{list}");

    // Who leaves the line is no longer before anybody.
    assert_eq!(browser.submit(&format!("{}/cancel", waiting[0]), "").await.status(), StatusCode::SEE_OTHER);
    browser.until(&waiting[2], "queued behind 1 other: limit 1 for `deploy`").await;
    let (_, told) = browser.api(Method::GET, &waiting[2][1..], &Value::Null).await;
    assert_eq!(told["now"], "queued behind 1 other: limit 1 for `deploy`", "{told}");
    assert_eq!(browser.submit(&format!("{asking}/cancel"), "").await.status(), StatusCode::SEE_OTHER);
    browser.until(&waiting[1], "It asks").await;
    browser.until(&waiting[2], "queued, next in line: limit 1 for `deploy`").await;
}
