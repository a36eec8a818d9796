//! A store that cannot be used: who asks after a task is told so, and nothing that is not true.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use longhaul::proto::dialect::{Dialect, Revision};
use longhaul::proto::jsonrpc::{Limits, Message};
use longhaul::proto::model::ClientCapabilities;
use longhaul::server::{Caller, Dispatched, Dispatcher, Exchange, Principal, TaskPolicy};
use longhaul::store::{Memory, Operation, Overlay, StoreError, StoreFuture, TaskStore};
use longhaul::{Server, Tool};
use serde_json::{Value, json};

/// A store in memory that can be cut off.
#[derive(Debug)]
struct Cut {
    store: Memory,
    off: AtomicBool,
    /// Whether that is only for a while.
    passes: bool,
}

impl Overlay for Cut {
    type Below = Memory;

    fn below(&self) -> &Memory {
        &self.store
    }

    fn around<'a, T: Send + 'a>(&'a self, _: Operation, doing: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        if !self.off.load(Ordering::SeqCst) {
            return doing;
        }
        let source = Arc::new(std::io::Error::other("the disk at /dev/secret is gone"));
        let place = "postgres://secret.example/tasks".to_owned();
        Box::pin(std::future::ready(Err(match self.passes {
            true => StoreError::Unreachable { place, source },
            false => StoreError::Backend { doing: "reading", source },
        })))
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// The answer to a request of a caller that takes tasks.
async fn ask(dispatcher: &Dispatcher, revision: Revision, method: &str, params: Value) -> Value {
    let text = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let Message::Request(request) = Message::decode(text.as_bytes(), &Limits::default()).unwrap() else {
        panic!("{text}");
    };
    let dialect = Dialect::of(revision);
    let mut caller = Caller::new(Some(Principal::new("ann").unwrap()));
    let declared = r#"{"extensions": {"io.modelcontextprotocol/tasks": {}}}"#;
    caller.capabilities = serde_json::from_str::<ClientCapabilities>(declared).unwrap();
    let mut exchange =
        Exchange::new(&request.id, dialect, dialect.request(method).unwrap(), &request.params, caller);
    exchange.idempotency_key = params["_meta"]["dev.longhaul/idempotencyKey"].as_str().map(Into::into);
    let mut out = Vec::new();
    if let Dispatched::Pending(answer) = dispatcher.dispatch(exchange, &mut out) {
        (_, out) = answer.await;
    }
    serde_json::from_slice(&out).unwrap()
}

/// A server whose tool never ends, on a store that can be cut off.
fn server(passes: bool) -> (Dispatcher, Arc<Cut>) {
    let store = Arc::new(Cut { store: Memory::new(), off: AtomicBool::new(false), passes });
    let never = |_, _: Nothing| async {
        std::future::pending::<()>().await;
        "never"
    };
    let build = Tool::typed("build", "Build", never).task(TaskPolicy::always());
    let server = Server::new("test", "1").tool(build).store(Arc::clone(&store) as Arc<dyn TaskStore>);
    (server.dispatcher().unwrap(), store)
}

/// N3 of `conformance/REQUIREMENTS.md`: a node that is cut from its store says so, and invents nothing. What may pass can be told
/// from what a task has come to, which `tasks/result` answers with as well.
#[tokio::test]
async fn who_asks_after_a_task_is_told_that_the_store_fails() {
    for (revision, methods) in [
        (Revision::V2025_11_25, ["tasks/get", "tasks/cancel", "tasks/result"]),
        (Revision::V2026_07_28, ["tasks/get", "tasks/cancel", "tasks/update"]),
    ] {
        for passes in [false, true] {
            let (dispatcher, store) = server(passes);
            let call = json!({"name": "build", "arguments": {}, "task": {}});
            let created = ask(&dispatcher, revision, "tools/call", call).await["result"].clone();
            let id = created["taskId"].as_str().or_else(|| created["task"]["taskId"].as_str()).unwrap();
            store.off.store(true, Ordering::SeqCst);
            for method in methods {
                let params = json!({"taskId": id, "inputResponses": {}});
                let error = ask(&dispatcher, revision, method, params).await["error"].clone();
                assert_eq!(error["code"], -32603, "{method}: {error}");
                assert!(!error.to_string().contains("secret"), "where it is kept is nobody's: {error}");
                assert_eq!(error["data"]["retryAfterMs"].is_u64(), passes, "{method}: {error}");
            }
            store.off.store(false, Ordering::SeqCst);
            let params = json!({"taskId": id});
            let task = ask(&dispatcher, revision, "tasks/get", params).await["result"].clone();
            assert_eq!(task["status"], "working", "and it goes on: {task}");
        }
    }
}

/// Nobody knows whether a call was begun whose row was on its way to a store that went away: one with a key may be made again.
#[tokio::test]
async fn a_call_with_a_key_may_be_made_again_when_the_store_was_away() {
    let (dispatcher, store) = server(true);
    let call = async |key: Option<&str>| {
        let meta = key.map_or_else(|| json!({}), |key| json!({"dev.longhaul/idempotencyKey": key}));
        let params = json!({"name": "build", "arguments": {}, "_meta": meta});
        ask(&dispatcher, Revision::V2026_07_28, "tools/call", params).await
    };
    store.off.store(true, Ordering::SeqCst);
    for (key, again) in [(None, false), (Some("dOD1VxQmtsqMZa0o9aVqHg"), true)] {
        let error = call(key).await["error"].clone();
        assert_eq!(
            (error["code"].as_i64(), error["data"]["retryAfterMs"].is_u64()),
            (Some(-32603), again),
            "{error}"
        );
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    store.off.store(false, Ordering::SeqCst);
    assert!(call(Some("dOD1VxQmtsqMZa0o9aVqHg")).await["result"]["taskId"].is_string());
}
