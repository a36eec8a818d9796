//! A store that cannot be used: who asks after a task is told so, and nothing that is not true.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use longhaul::proto::dialect::{Dialect, Revision};
use longhaul::proto::jsonrpc::{Limits, Message};
use longhaul::proto::model::ClientCapabilities;
use longhaul::server::{Caller, Dispatched, Dispatcher, Exchange, Principal, TaskPolicy};
use longhaul::store::{
    Answered, Batch, CallKey, CancelAsked, Cancellation, Counts, Created, Cursor, Durability, Epoch, Erasure,
    Filter, Finished, Memory, NewTask, NodeId, Outcome, Owner, Page, Parts, Record, Reply, Runnable, Scope,
    Step, StoreError, StoreFuture, Swept, TaskId, TaskStore, TaskWatch, Time,
};
use longhaul::{Server, Tool};
use serde_json::{Value, json};

/// A store in memory that can be cut off.
#[derive(Debug)]
struct Cut {
    store: Memory,
    off: AtomicBool,
}

impl Cut {
    fn guard<'a, T: Send + 'a>(&'a self, done: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        if !self.off.load(Ordering::SeqCst) {
            return done;
        }
        let source = Arc::new(std::io::Error::other("the disk at /dev/secret is gone"));
        Box::pin(std::future::ready(Err(StoreError::Backend { doing: "reading", source })))
    }
}

impl TaskStore for Cut {
    fn create(&self, task: NewTask) -> StoreFuture<'_, Created> {
        self.guard(self.store.create(task))
    }
    fn get<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        self.guard(self.store.get(scope, id))
    }
    fn called<'a>(&'a self, owner: &'a Owner, key: &'a CallKey) -> StoreFuture<'a, Option<Record>> {
        self.guard(self.store.called(owner, key))
    }
    fn list<'a>(
        &'a self,
        scope: Scope<'a>,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> StoreFuture<'a, Page> {
        self.guard(self.store.list(scope, filter, after, limit))
    }
    fn claim<'a>(&'a self, limit: usize, runs: Option<&'a [Runnable]>) -> StoreFuture<'a, Vec<Record>> {
        self.guard(self.store.claim(limit, runs))
    }
    fn claim_one<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        self.guard(self.store.claim_one(id))
    }
    fn renew<'a>(&'a self, held: &'a [(TaskId, Epoch)]) -> StoreFuture<'a, Vec<TaskId>> {
        self.guard(self.store.renew(held))
    }
    fn release<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Record> {
        self.guard(self.store.release(id, epoch))
    }
    fn write<'a>(&'a self, id: &'a TaskId, epoch: Epoch, batch: Batch) -> StoreFuture<'a, u64> {
        self.guard(self.store.write(id, epoch, batch))
    }
    fn steps<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Vec<Step>> {
        self.guard(self.store.steps(id, epoch))
    }
    fn parts<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<Parts>> {
        self.guard(self.store.parts(scope, id, after, limit))
    }
    fn answer<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        replies: &'a [Reply],
    ) -> StoreFuture<'a, Answered> {
        self.guard(self.store.answer(scope, id, replies))
    }
    fn finish<'a>(
        &'a self,
        id: &'a TaskId,
        epoch: Epoch,
        outcome: Outcome,
        last: Batch,
    ) -> StoreFuture<'a, Finished> {
        self.guard(self.store.finish(id, epoch, outcome, last))
    }
    fn request_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, Cancellation> {
        self.guard(self.store.request_cancel(scope, id, reason))
    }
    fn ask_to_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, CancelAsked> {
        self.guard(self.store.ask_to_cancel(scope, id, reason))
    }

    fn came_back<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, bool> {
        self.guard(self.store.came_back(scope, id))
    }
    fn erase<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Erasure> {
        self.guard(self.store.erase(scope, id))
    }
    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        self.guard(self.store.sweep(limit))
    }
    fn counts(&self) -> StoreFuture<'_, Counts> {
        self.guard(self.store.counts())
    }
    fn watch(&self, id: &TaskId) -> TaskWatch {
        self.store.watch(id)
    }
    fn now(&self) -> Time {
        self.store.now()
    }
    fn lease(&self) -> Duration {
        self.store.lease()
    }

    fn durability(&self) -> Durability {
        self.store.durability()
    }
    fn node(&self) -> &NodeId {
        self.store.node()
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
    let exchange =
        Exchange::new(&request.id, dialect, dialect.request(method).unwrap(), &request.params, caller);
    let mut out = Vec::new();
    if let Dispatched::Pending(answer) = dispatcher.dispatch(exchange, &mut out) {
        (_, out) = answer.await;
    }
    serde_json::from_slice(&out).unwrap()
}

/// N3 of `conformance/REQUIREMENTS.md`: a node that is cut from its store says so, and invents nothing.
#[tokio::test]
async fn who_asks_after_a_task_is_told_that_the_store_fails() {
    let store = Arc::new(Cut { store: Memory::new(), off: AtomicBool::new(false) });
    let never = |_, _: Nothing| async {
        std::future::pending::<()>().await;
        "never"
    };
    let build = Tool::typed("build", "Build", never).task(TaskPolicy::always());
    let server = Server::new("test", "1").tool(build).store(Arc::clone(&store) as Arc<dyn TaskStore>);
    let dispatcher = server.dispatcher().unwrap();
    for (revision, methods) in [
        (Revision::V2025_11_25, ["tasks/get", "tasks/cancel", "tasks/result"]),
        (Revision::V2026_07_28, ["tasks/get", "tasks/cancel", "tasks/update"]),
    ] {
        let call = json!({"name": "build", "arguments": {}, "task": {}});
        let created = ask(&dispatcher, revision, "tools/call", call).await["result"].clone();
        let id = created["taskId"].as_str().or_else(|| created["task"]["taskId"].as_str()).unwrap();
        store.off.store(true, Ordering::SeqCst);
        for method in methods {
            let params = json!({"taskId": id, "inputResponses": {}});
            let error = ask(&dispatcher, revision, method, params).await["error"].clone();
            assert_eq!(error["code"], -32603, "{method}: {error}");
            assert!(!error.to_string().contains("secret"), "where it is kept is nobody's: {error}");
        }
        store.off.store(false, Ordering::SeqCst);
        let params = json!({"taskId": id});
        let task = ask(&dispatcher, revision, "tasks/get", params).await["result"].clone();
        assert_eq!(task["status"], "working", "and it goes on: {task}");
    }
}
