//! A client and the tasks of our own server, in both dialects.

#![expect(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::client::{AsTask, CallOptions, Client, Error, Options, Started, Target};
use longhaul::proto::dialect::{Dialect, Revision};
use longhaul::proto::model::{Progress, TaskStatus};
use longhaul::server::{TaskPolicy, ToolError, local_user};
use longhaul::{Cx, Server, Tool, driver};
use serde_json::json;
use tokio::sync::Notify;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Build {
    #[serde(default)]
    fail: bool,
}

/// A server with a tool that is a task at once and ends when it is let go.
async fn serve() -> (Target, Arc<Notify>) {
    let go = Arc::new(Notify::new());
    let gate = Arc::clone(&go);
    let build = Tool::typed("build", "Build it", move |cx: Cx, Build { fail }| {
        let gate = Arc::clone(&gate);
        async move {
            cx.progress(Progress::new(1.0).of(2.0).saying("half way")).await;
            gate.notified().await;
            if fail { Err(ToolError::new("it does not compile")) } else { Ok("built") }
        }
    });
    let mut policy = TaskPolicy::always();
    policy.poll_interval = Duration::from_millis(30);
    let server = Server::new("ours", "1").tool(build.task(policy));
    let dispatcher = server.dispatcher().unwrap();
    dispatcher.start().await.unwrap();
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(ours);
    let options = driver::Options::default();
    tokio::spawn(driver::serve(dispatcher, local_user(), reader, writer, options, std::future::pending()));
    let (reader, writer) = tokio::io::split(theirs);
    (Target::stream(reader, writer), go)
}

async fn connect(revision: Revision) -> (Client, Arc<Notify>) {
    let (target, go) = serve().await;
    (Client::connect_with(target, Options::default().revision(revision)).await.unwrap(), go)
}

async fn start(client: &Client) -> longhaul::client::TaskHandle {
    match client.start("build", &(), CallOptions::default()).await.unwrap() {
        Started::Task(task) => task,
        Started::Result(result) => panic!("{result:?}"),
    }
}

/// The revisions in which a call can be a task.
fn revisions_with_tasks() -> impl Iterator<Item = Revision> {
    let has_tasks = |dialect: &&Dialect| dialect.asks_for_tasks() || dialect.has_tasks_extension();
    Revision::ALL.into_iter().map(Dialect::of).filter(has_tasks).map(Dialect::revision)
}

#[tokio::test]
async fn a_call_is_driven_through_its_task_to_its_result() {
    for revision in revisions_with_tasks() {
        let (client, go) = connect(revision).await;
        go.notify_one();
        let result = client.call("build", &json!({})).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some("built"), "{revision}");
        go.notify_one();
        let failed = client.call("build", &json!({ "fail": true })).await.unwrap();
        assert!(failed.is_error, "{revision}: a tool that fails is a result in either dialect");
    }
}

#[tokio::test]
async fn a_task_can_be_left_and_found_again_by_its_id() {
    for revision in revisions_with_tasks() {
        let (client, go) = connect(revision).await;
        let id = start(&client).await.id().to_owned();
        let task = client.task(id.as_str());
        assert_eq!(task.get().await.unwrap().status, TaskStatus::Working);
        assert!(matches!(task.result().await, Err(Error::StillRunning { .. })));
        go.notify_one();
        assert_eq!(task.wait().await.unwrap().content[0].as_text(), Some("built"));
        assert_eq!(task.result().await.unwrap().content[0].as_text(), Some("built"));
    }
}

#[tokio::test]
async fn a_cancelled_task_is_cancelled_in_either_dialect() {
    for revision in revisions_with_tasks() {
        let (client, _go) = connect(revision).await;
        let task = start(&client).await;
        task.cancel().await.unwrap();
        assert!(matches!(task.wait().await, Err(Error::Cancelled { .. })), "{revision}");
        let unknown = client.task("no-such-task-2345").cancel().await;
        assert!(matches!(unknown, Err(Error::NoSuchTask { .. })), "{revision}: {unknown:?}");
    }
}

#[tokio::test]
async fn progress_of_a_legacy_task_is_heard() {
    let (client, go) = connect(Dialect::newest_legacy().revision()).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let progress = Arc::clone(&seen);
    let options = CallOptions::default().on_progress(move |point| progress.lock().unwrap().push(point.value));
    let Started::Task(task) = client.start("build", &(), options).await.unwrap() else { panic!() };
    go.notify_one();
    task.wait().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [1.0]);
}

#[tokio::test]
async fn a_call_that_may_not_become_a_task_is_held_open() {
    for revision in revisions_with_tasks() {
        let (client, go) = connect(revision).await;
        go.notify_one();
        let options = CallOptions::default().as_task(AsTask::Never);
        let started = client.start("build", &(), options).await.unwrap();
        assert!(matches!(started, Started::Result(_)), "{revision}: {started:?}");
    }
}
