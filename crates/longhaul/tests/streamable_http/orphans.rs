//! Tasks whose callers never learn of them.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use longhaul::server::TaskPolicy;
use longhaul::store::{
    Filter, Memory, OnOrphan, OrphanRule, Outcome, Record, Scope, Settings, StepClock, TaskId, TaskStore,
    Time,
};
use longhaul::tasks::runner::Pace;
use longhaul::transport::http::server::{Options, serve};
use longhaul::{Server, Tool};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::rig::{Host, body, modern_params, read};

const GRACE: Duration = Duration::from_secs(90);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// Looks at all tasks until they are so.
async fn until(store: &Memory, is: impl Fn(&[Record]) -> bool) -> Vec<Record> {
    for _ in 0..6000 {
        let all = store.list(Scope::Operator, &Filter::all(), None, 10).await.unwrap().tasks;
        if is(&all) {
            return all;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}", store.list(Scope::Operator, &Filter::all(), None, 10).await);
}

fn taking_tasks(mut params: Value) -> Value {
    params = modern_params(params);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    params
}

/// K2 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn k2_a_task_whose_answer_is_lost_is_cancelled_and_one_that_was_asked_after_is_not() {
    let clock = StepClock::at(Time::from_unix_ms(1_800_000_000_000));
    let store = Memory::with(Settings::default(), Arc::new(clock.clone()));
    let mut policy = TaskPolicy::always();
    policy.orphan = OrphanRule::new(GRACE, OnOrphan::Cancel);
    let long = Tool::typed("long", "Takes long", |_, _: Nothing| std::future::pending::<&str>());
    let mut pace = Pace::default();
    (pace.sweep_every, pace.recover_every) = (Duration::from_millis(10), Duration::from_millis(10));
    let server = Server::new("test", "1").tool(long.task(policy)).store(Arc::new(store.another_node()));
    let dispatcher = server.pace(pace).dispatcher().unwrap();
    dispatcher.start().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served =
        tokio::spawn(serve(dispatcher.clone(), listener, Options::default(), std::future::pending()));
    let host = Host { address, stop: None, served };

    // The answer comes as far as this machine, where nobody reads it.
    let params = taking_tasks(json!({"name": "long", "arguments": {}}));
    let text = body("tools/call", params).collect().await.unwrap().to_bytes();
    let mut lost = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/json, \
         text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: long\r\n\
         content-length: {}\r\n\r\n",
        text.len()
    );
    lost.write_all(head.as_bytes()).await.unwrap();
    lost.write_all(&text).await.unwrap();
    lost.readable().await.unwrap();
    drop(lost);
    let orphan = until(&store, |all| all.len() == 1).await.remove(0).id;

    let ask = async |method: &str, name: &str, params: Value| {
        let request = host.post().header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
        let request = request.header("mcp-name", name);
        read(host.send(request.body(body(method, taking_tasks(params))).unwrap()).await).await
    };
    let find = |all: &[Record], id: &TaskId| all.iter().find(|task| task.id == *id).cloned().unwrap();
    let mut kept = Vec::new();
    for reads in [false, true] {
        let made = ask("tools/call", "long", json!({"name": "long", "arguments": {}})).await;
        let id = made["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
        let seen = if reads {
            let uri = format!("longhaul://tasks/{id}/parts");
            ask("resources/read", &uri, json!({"uri": uri})).await
        } else {
            ask("tasks/get", &id, json!({"taskId": id})).await
        };
        assert!(seen["result"].is_object(), "{seen}");
        kept.push(id);
    }
    for id in &kept {
        let came = TaskId::new(id.as_str()).unwrap();
        until(&store, |all| find(all, &came).came_back_at.is_some()).await;
    }

    clock.advance(GRACE);
    let all = until(&store, |all| find(all, &orphan).is_terminal()).await;
    let reason = Outcome::cancelled(Some("nobody has asked after it".into()));
    assert_eq!(find(&all, &orphan).outcome(), Some(&reason));
    while dispatcher.engine().figures().orphans == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let figures = dispatcher.engine().figures();
    assert_eq!((figures.orphans, figures.orphans_cancelled), (1, 1));
    for id in kept {
        let seen = ask("tasks/get", &id, json!({"taskId": id})).await;
        assert_eq!(seen["result"]["status"], "working", "{seen}");
    }
    host.served.abort();
}
