//! Tasks behind a proxy that knows nothing of streams: it cuts them after a while, or passes nothing on before it has all.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Response;
use hyper::body::Incoming;
use longhaul::server::TaskPolicy;
use longhaul::{Server, Tool};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::questions::Events;
use crate::rig::{Host, body, header, modern_params, read};

/// What stands between a client and its server.
#[derive(Clone)]
enum Proxy {
    /// Passes everything on, until it is told to cut all that is open.
    Cuts(Arc<Notify>),
    /// Passes an answer on once its server has closed the connection.
    Buffers,
}

impl Proxy {
    /// Stands before a server from now on.
    async fn before(self, host: &Host) -> Host {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, to) = (listener.local_addr().unwrap(), host.address);
        let served = tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await?;
                tokio::spawn(self.clone().pass(near, to));
            }
        });
        Host { address, stop: None, served }
    }

    async fn pass(self, mut near: TcpStream, to: SocketAddr) {
        let mut far = TcpStream::connect(to).await.unwrap();
        match self {
            Self::Cuts(cut) => tokio::select! {
                _ = copy_bidirectional(&mut near, &mut far) => {}
                () = cut.notified() => {}
            },
            Self::Buffers => {
                let ((mut asked, mut answered), (mut answer, mut ask)) = (near.split(), far.split());
                let mut whole = Vec::new();
                tokio::select! {
                    _ = copy(&mut asked, &mut ask) => {}
                    _ = answer.read_to_end(&mut whole) => {}
                }
                // Whoever asked may have gone.
                let _ = answered.write_all(&whole).await;
            }
        }
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// A server whose one tool is a task, which goes on once it may.
async fn serving() -> (Host, Arc<Notify>) {
    let may_end = Arc::new(Notify::new());
    let waits = Arc::clone(&may_end);
    let work = Tool::typed("work", "Work", move |_, _: Nothing| {
        let waits = Arc::clone(&waits);
        async move {
            waits.notified().await;
            "worked"
        }
    });
    let server = Server::new("test", "1.0.0").tool(work.task(TaskPolicy::always()));
    (Host::start_with(server, |_| ()).await, may_end)
}

/// Asks as a client that takes tasks, on a connection that ends with the answer.
async fn ask(host: &Host, method: &str, name: Option<&str>, params: Value) -> Response<Incoming> {
    let mut params = modern_params(params);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let request = host.post().header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
    let request = name.into_iter().fold(request, |request, name| request.header("mcp-name", name));
    host.send(request.header("connection", "close").body(body(method, params)).unwrap()).await
}

async fn start(host: &Host) -> String {
    let call = json!({"name": "work", "arguments": {}});
    let created = read(ask(host, "tools/call", Some("work"), call).await).await;
    created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned()
}

/// Polls the task; whatever stands between, the answer is one object.
async fn get(host: &Host, id: &str) -> Value {
    let response = ask(host, "tasks/get", Some(id), json!({"taskId": id})).await;
    assert_eq!(header(&response, "content-type"), "application/json");
    read(response).await["result"].clone()
}

/// Polls it until it has ended.
async fn ended(host: &Host, id: &str) -> Value {
    for _ in 0..6000 {
        let task = get(host, id).await;
        if task["status"] != "working" {
            return task;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{id} never ends");
}

fn follow(id: &str) -> Value {
    json!({"notifications": {"taskIds": [id]}})
}

/// Follows the task: what the first message about it says, behind the acknowledgement.
async fn followed(host: &Host, id: &str) -> (Events, Value) {
    let mut events = Events::of(ask(host, "subscriptions/listen", None, follow(id)).await);
    let acknowledged = events.next().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{acknowledged}");
    assert_eq!(acknowledged["params"]["notifications"]["taskIds"], json!([id]));
    let told = events.next().await;
    assert_eq!(told["method"], "notifications/tasks", "{told}");
    assert_eq!(told["params"]["_meta"]["dev.longhaul/seq"], 1, "{told}");
    (events, told["params"].clone())
}

/// N10 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn n10_a_stream_that_a_proxy_cuts_is_opened_again_and_begins_with_how_things_stand() {
    let (host, may_end) = serving().await;
    let cut = Arc::new(Notify::new());
    let through = Proxy::Cuts(Arc::clone(&cut)).before(&host).await;
    let id = start(&through).await;
    for _ in 0..2 {
        let (events, told) = followed(&through, &id).await;
        assert_eq!(told["status"], "working", "{told}");
        cut.notify_waiters();
        events.breaks_off().await;
        assert_eq!(get(&through, &id).await["status"], "working", "who polls notices nothing");
    }
    // What becomes of it meanwhile is told first.
    may_end.notify_one();
    let polled = ended(&through, &id).await;
    let (_events, told) = followed(&through, &id).await;
    assert_eq!((&told["status"], &told["result"]), (&json!("completed"), &polled["result"]), "{told}");
}

/// N10 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn n10_who_polls_through_a_proxy_that_buffers_misses_nothing() {
    let (host, may_end) = serving().await;
    let through = Proxy::Buffers.before(&host).await;
    let id = start(&through).await;
    let listening = ask(&through, "subscriptions/listen", None, follow(&id));
    let silent = tokio::time::timeout(Duration::from_millis(100), listening).await;
    assert!(silent.is_err(), "{silent:?}");
    assert_eq!(get(&through, &id).await["status"], "working");
    may_end.notify_one();
    assert_eq!(ended(&through, &id).await["result"]["content"][0]["text"], "worked");
}
