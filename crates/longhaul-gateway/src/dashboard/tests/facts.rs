//! What the pages and scripts are told of who called a task, and how its command ended.

use longhaul::store::{Json, Owner, Record, TaskId, Time};
use longhaul::tasks::project;

use super::*;
use crate::dashboard::task::facts;

/// A task whose row says this of its call.
fn task(note: &Value) -> Record {
    let (id, at) = (TaskId::new("t-1").unwrap(), Time::from_unix_ms(0));
    let note = Json::parse(note.to_string()).unwrap();
    Record::new(id, Owner::Anonymous, "deploy", Json::null(), note, at)
}

/// The facts of a task as a page has them.
fn shown(record: &Record) -> String {
    facts(&Facts::default(), record, Time::from_unix_ms(1000)).into_string()
}

#[test]
fn who_called_and_in_which_trace_is_told_where_it_is_known() {
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("00-{trace}-b7ad6b7169203331-01");
    let page =
        shown(&task(&json!({ "begun": true, "client": "claude-code <2>", "caller": { "trace": parent } })));
    assert!(page.contains("<dt>Client</dt><dd>claude-code &lt;2&gt;</dd>"), "{page}");
    assert!(page.contains(&format!("<dt>Trace</dt><dd><code>{trace}</code></dd>")), "{page}");
    let page = shown(&task(&json!({ "begun": true })));
    assert!(!page.contains("<dt>Client</dt>") && !page.contains("<dt>Trace</dt>"), "{page}");
}

#[test]
fn a_command_that_has_ended_says_how() {
    let ended = |run: Value| {
        let mut record = task(&Value::Null);
        let result = CallToolResult::new(Vec::new()).with_meta(Meta::new().with("dev.longhaul/run", &run));
        record.phase = longhaul::store::Phase::Done(project::stored(&result));
        shown(&record)
    };
    for (run, said) in [
        (json!({ "exitCode": 0, "signal": null, "durationMs": 5 }), "exit code 0"),
        (json!({ "exitCode": 3, "signal": null, "durationMs": 5 }), "exit code 3"),
        (json!({ "exitCode": null, "signal": 9, "durationMs": 5 }), "SIGKILL (signal 9)"),
    ] {
        let page = ended(run);
        assert!(page.contains(&format!("<dt>Ended with</dt><dd>{said}</dd>")), "{said}: {page}");
    }
    let page = ended(json!({ "exitCode": null, "signal": null, "durationMs": 5 }));
    assert!(!page.contains("Ended with"), "nobody knows: {page}");
}

#[tokio::test]
async fn a_task_names_the_client_that_called() {
    let scene = Scene::new().await;
    let browser = scene.enter().await;
    let place = browser.deploy().await;
    let page = browser.until(&place, "It asks").await;
    // The pages call as clients do.
    let (_, told) = browser.api(Method::GET, &place[1..], &Value::Null).await;
    let client = told["client"].as_str().unwrap_or_else(|| panic!("{told}"));
    assert!(page.contains(&format!("<dt>Client</dt><dd>{client}</dd>")), "{client}: {page}");
    assert!(client.starts_with("longhaul ") && told.get("exitCode").is_none(), "{told}");
}
