//! What is done to many tasks at once, and what scripts are told of nodes.

use longhaul::store::{Json, NewTask, Owner, TaskId};

use super::*;

/// Three tasks that wait for an answer, two of them for `stage`.
async fn three(browser: &Browser<'_>) {
    for to in ["stage", "prod", "stage"] {
        let called = browser.submit("/tools/deploy", &format!("a.to={to}")).await;
        let place = called.headers()[LOCATION].to_str().unwrap().to_owned();
        browser.until(&place, "It asks").await;
    }
}

async fn open(browser: &Browser<'_>) -> u64 {
    let (_, list) = browser.api(Method::GET, "tasks", &Value::Null).await;
    list["counts"]["inputRequired"].as_u64().unwrap() + list["counts"]["working"].as_u64().unwrap()
}

#[tokio::test]
async fn all_that_was_filtered_for_is_cancelled_and_nothing_else() {
    let scene = Scene::new().await;
    let browser = scene.enter().await;
    three(&browser).await;
    assert!(
        !browser.page("/").await.contains("Cancel the open ones"),
        "nobody cancels everything by one button"
    );
    let page = browser.page("/?q=stage").await;
    assert!(page.contains("Cancel the open ones"), "{page}");
    let until = page.split_once("name=\"until\" value=\"").unwrap().1.split('"').next().unwrap();

    // One that is begun behind the page goes on.
    tokio::time::sleep(Duration::from_millis(2)).await;
    browser.deploy().await;
    let done = browser.submit("/cancel", &format!("q=stage&status=&until={until}")).await;
    let place = done.headers()[LOCATION].to_str().unwrap().to_owned();
    assert_eq!((done.status(), &*place), (StatusCode::SEE_OTHER, "/?q=stage&cancelled=2"));
    assert!(browser.page(&place).await.contains("2 tasks were cancelled"));
    assert_eq!(open(&browser).await, 2);

    for (body, status) in [
        ("q=&status=&until=9999999999999", StatusCode::BAD_REQUEST),
        ("q=stage&status=&until=soon", StatusCode::BAD_REQUEST),
        ("q=since:long&status=&until=0", StatusCode::BAD_REQUEST),
        ("q=stage&status=completed&until=9999999999999", StatusCode::SEE_OTHER),
        ("q=nothing&status=&until=9999999999999", StatusCode::SEE_OTHER),
    ] {
        assert_eq!(browser.submit("/cancel", body).await.status(), status, "{body}");
        assert_eq!(open(&browser).await, 2, "{body}");
    }
}

#[tokio::test]
async fn a_script_cancels_all_that_it_filters_for() {
    let scene = Scene::new().await;
    let browser = scene.enter().await;
    three(&browser).await;
    for wrong in [json!({}), json!({ "q": "" }), json!({ "status": "odd" }), json!({ "tool": "deploy" })] {
        let (status, refused) = browser.api(Method::POST, "cancel", &wrong).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{wrong}: {refused}");
    }
    assert_eq!(open(&browser).await, 3);
    let (status, done) = browser.api(Method::POST, "cancel", &json!({ "q": "prod" })).await;
    assert_eq!((status, &done), (StatusCode::OK, &json!({ "cancelled": 1, "more": false, "next": null })));
    let (_, done) = browser.api(Method::POST, "cancel", &json!({ "status": "input" })).await;
    assert_eq!((&done["cancelled"], open(&browser).await), (&json!(2), 0));
    let (_, list) = browser.api(Method::GET, "tasks", &Value::Null).await;
    let counts = &list["counts"];
    assert_eq!([&counts["cancelled"], &counts["completed"], &counts["all"]], [3, 0, 3], "{counts}");
    assert_eq!([&counts["moreOpen"], &counts["moreEnded"]], [false, false], "{counts}");
    let page = browser.page("/").await;
    for said in ["0 need input", "0 working", "0 completed", "0 failed", "3 cancelled", "3 in all"] {
        assert!(page.contains(&format!(">{said}</a>")), "{said}: {page}");
    }
}

#[tokio::test]
async fn one_look_reads_so_much_and_says_where_the_next_goes_on() {
    let scene = Scene::new().await;
    let browser = scene.enter().await;
    let store = scene.dispatcher.engine().store();
    let make = async |name: String, owner: &str, arguments: &str| {
        let (id, owner) = (TaskId::new(&*name).unwrap(), Owner::principal(owner).unwrap());
        store.create(NewTask::new(id, owner, "deploy", Json::parse(arguments).unwrap())).await.unwrap();
    };
    make("needle".to_owned(), "ann", r#"{"to":"needle"}"#).await;
    // More than one look reads, of as many callers as may have them open.
    for number in 0..2_100 {
        make(format!("hay-{number}"), ["ann", "bob", "eve"][number % 3], r#"{"to":"hay"}"#).await;
    }
    let cancel = async |after: Value| {
        let (status, done) =
            browser.api(Method::POST, "cancel", &json!({ "q": "needle", "after": after })).await;
        assert_eq!(status, StatusCode::OK, "{done}");
        done
    };
    let first = cancel(Value::Null).await;
    assert_eq!([&first["cancelled"], &first["more"]], [&json!(0), &json!(true)], "{first}");
    let until = scene.dispatcher.engine().store().now().unix_ms();
    let page = browser.submit("/cancel", &format!("q=needle&status=&until={until}")).await;
    let place = page.headers()[LOCATION].to_str().unwrap().to_owned();
    let page = browser.page(&place).await;
    let next = first["next"].as_str().unwrap();
    let goes_on = format!("name=\"after\" value=\"{next}\"");
    assert!(page.contains("0 tasks were cancelled") && page.contains("Go on cancelling"), "{page}");
    assert!(page.contains(&goes_on) && page.contains(&format!("value=\"{until}\"")), "{page}");
    let second = cancel(json!(next)).await;
    assert_eq!(second, json!({ "cancelled": 1, "more": false, "next": null }));
}

#[tokio::test]
async fn a_caller_cancels_its_own_alone_and_hears_of_no_nodes() {
    let guard = Protection::new().tokens(StaticTokens::new().token("ann", ANNS, None).unwrap());
    let mut scene = Scene::new().await;
    three(&scene.enter().await).await;
    let operators = Some(Scopes::parse("operate").unwrap());
    scene.dashboard = scene.dashboard.clone().guarded(guard.guard().unwrap(), operators);
    let all = json!({ "q": "tool:deploy" });
    let (status, done) = scene.post_as(caller("ann", "call"), "/admin/api/cancel", &all).await;
    assert_eq!((status, &done["cancelled"]), (StatusCode::OK, &json!(0)));
    let refused = scene.as_caller(caller("ann", "call"), "/admin/api/nodes").await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);

    let told = scene.as_caller(caller("op", "operate"), "/admin/api/nodes").await;
    assert_eq!(told.status(), StatusCode::OK);
    let told: Value = serde_json::from_str(&text(told).await).unwrap();
    let node = &told["nodes"][0];
    assert_eq!((&node["isThis"], told["nodes"].as_array().unwrap().len()), (&json!(true), 1), "{told}");
    assert_eq!((&told["store"]["open"], &told["servers"]), (&json!(3), &json!([])), "{told}");
    assert!(told["store"]["oldestOpenMs"].as_i64().is_some_and(|age| age >= 0), "{told}");
    let (_, done) = scene.post_as(caller("op", "operate"), "/admin/api/cancel", &all).await;
    assert_eq!(done["cancelled"], 3);
}
