//! A client that asks for tasks as SEP-1686 drafted them: of a peer that plays the server, and of our own.

#![expect(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

mod hosting;
#[expect(dead_code, reason = "not all that it can play is played here")]
#[path = "../peer/mod.rs"]
mod peer;
#[path = "../user/mod.rs"]
mod user;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::client::{
    AsTask, CallOptions, Client, Error, FileJournal, Journal, Options, SavedTask, Started, Target, TaskHandle,
};
use longhaul::proto::dialect::Revision;
use longhaul::proto::model::{CallToolResult, ElicitResult, TaskStatus};
use longhaul::server::{Dispatcher, TaskPolicy, ToolError, local_user};
use longhaul::{Cx, Server, Tool, driver};
use peer::Peer;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;

fn drafted() -> Value {
    json!({ "tools": {}, "tasks": { "tools": { "call": true } } })
}

fn options() -> Options {
    Options::default().drafted_tasks(true)
}

fn task(id: &str, status: &str) -> Value {
    json!({ "taskId": id, "status": status, "keepAlive": 60000, "pollFrequency": 3000, "_meta": related(id) })
}

fn text(words: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": words }] })
}

fn related(id: &str) -> Value {
    json!({ "modelcontextprotocol.io/related-task": { "taskId": id } })
}

type Calling = JoinHandle<Result<CallToolResult, Error>>;

fn spawn_call(client: &Client) -> Calling {
    let client = client.clone();
    tokio::spawn(async move { client.call("build", &json!({ "n": 1 })).await })
}

fn words(result: &CallToolResult) -> &str {
    result.content[0].as_text().unwrap()
}

/// The call, and the name that it gives its task.
async fn called(peer: &mut Peer) -> (Value, String) {
    let call = peer.expect("tools/call").await;
    let named = &call["params"]["_meta"]["modelcontextprotocol.io/task"]["taskId"];
    let id = named.as_str().unwrap_or_else(|| panic!("no task is named: {call}")).to_owned();
    (call, id)
}

async fn created(peer: &mut Peer, id: &str) {
    let params = json!({ "_meta": related(id) });
    peer.send(json!({ "jsonrpc": "2.0", "method": "notifications/tasks/created", "params": params })).await;
}

/// What is asked of a task, which must name it twice.
async fn asked(peer: &mut Peer, method: &str, id: &str) -> Value {
    let asked = peer.expect(method).await;
    assert_eq!(
        (&asked["params"]["taskId"], &asked["params"]["_meta"]),
        (&json!(id), &related(id)),
        "{asked}"
    );
    asked
}

/// A call that has become a task.
async fn started(client: &Client, peer: &mut Peer) -> (TaskHandle, Value, String) {
    let starting = tokio::spawn({
        let client = client.clone();
        let options = CallOptions::default().ttl(Duration::from_secs(60));
        async move { client.start("build", &(), options).await }
    });
    let (call, id) = called(peer).await;
    assert_eq!(call["params"]["_meta"]["modelcontextprotocol.io/task"]["keepAlive"], 60_000);
    created(peer, &id).await;
    match starting.await.unwrap().unwrap() {
        Started::Task(task) => (task, call, id),
        Started::Result(result) => panic!("{result:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn r1_04_a_call_waits_for_its_task_or_its_answer_and_polls_only_after_it_has_heard_of_one() {
    let (client, mut peer) = peer::legacy(options(), drafted()).await;
    let calling = spawn_call(&client);
    let (call, _) = called(&mut peer).await;
    peer.answer(&call, text("at once")).await;
    assert_eq!(words(&calling.await.unwrap().unwrap()), "at once");

    let calling = spawn_call(&client);
    let (_, id) = called(&mut peer).await;
    created(&mut peer, "another").await;
    tokio::time::timeout(Duration::from_secs(600), peer.message()).await.unwrap_err();
    created(&mut peer, &id).await;
    for (status, waits) in [("submitted", 0), ("working", 3), ("completed", 3)] {
        let before = Instant::now();
        let get = asked(&mut peer, "tasks/get", &id).await;
        assert!(before.elapsed() >= Duration::from_secs(waits), "{status}");
        peer.answer(&get, task(&id, status)).await;
    }
    let result = asked(&mut peer, "tasks/result", &id).await;
    peer.answer(&result, text("built")).await;
    assert_eq!(words(&calling.await.unwrap().unwrap()), "built");
}

#[tokio::test(start_paused = true)]
async fn the_answer_of_its_call_ends_a_task_and_says_why_it_has_failed() {
    let (client, mut peer) = peer::legacy(options(), drafted()).await;
    let (handle, call, id) = started(&client, &mut peer).await;
    let waiting = tokio::spawn(async move { handle.wait().await });
    let get = asked(&mut peer, "tasks/get", &id).await;
    peer.answer(&get, task(&id, "working")).await;
    peer.answer(&call, text("built")).await;
    assert_eq!(words(&waiting.await.unwrap().unwrap()), "built");

    for is_answered in [true, false] {
        let (handle, call, id) = started(&client, &mut peer).await;
        let waiting = tokio::spawn(async move { handle.wait().await });
        let get = asked(&mut peer, "tasks/get", &id).await;
        if is_answered {
            peer.refuse(&call, -32007, "no such branch").await;
        }
        let mut failed = task(&id, "failed");
        failed["error"] = json!("it broke");
        peer.answer(&get, failed).await;
        let error = waiting.await.unwrap().unwrap_err();
        let (code, said) = if is_answered { (-32007, "no such branch") } else { (-32603, "it broke") };
        assert!(peer::code(&error) == code && error.to_string().contains(said), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn r1_14_a_task_is_cancelled_by_its_call_and_looked_at_until_it_is() {
    let (client, mut peer) = peer::legacy(options(), drafted()).await;
    let (handle, call, id) = started(&client, &mut peer).await;
    let waiting = tokio::spawn(async move {
        handle.cancel().await.unwrap();
        handle.wait().await
    });
    let cancelled = peer.expect("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], call["id"]);
    for status in ["working", "cancelled"] {
        let get = asked(&mut peer, "tasks/get", &id).await;
        peer.answer(&get, task(&id, status)).await;
    }
    assert!(matches!(waiting.await.unwrap(), Err(Error::Cancelled { .. })));
    // Whoever has not made the call cannot.
    let error = client.task("another").cancel().await.unwrap_err();
    assert!(matches!(error, Error::NotOffered { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_before_it_is_a_task_is_cancelled_and_a_task_is_not() {
    let (client, mut peer) = peer::legacy(options(), drafted()).await;
    let calling = spawn_call(&client);
    let (call, _) = called(&mut peer).await;
    calling.abort();
    let cancelled = peer.expect("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], call["id"]);
    let (handle, _, id) = started(&client, &mut peer).await;
    drop(handle);
    let looking = tokio::spawn({
        let (client, id) = (client.clone(), id.clone());
        async move { client.task(id).get().await }
    });
    let get = asked(&mut peer, "tasks/get", &id).await;
    peer.answer(&get, task(&id, "input_required")).await;
    assert_eq!(looking.await.unwrap().unwrap().status, TaskStatus::InputRequired);
    drop(client);
    assert_eq!(peer.message().await, None, "nothing keeps the connection");
}

#[tokio::test(start_paused = true)]
async fn r1_16_a_task_that_has_ended_is_deleted() {
    let (client, mut peer) = peer::legacy(options(), drafted()).await;
    let (handle, _, id) = started(&client, &mut peer).await;
    let deleting = tokio::spawn(async move { handle.delete().await });
    let delete = asked(&mut peer, "tasks/delete", &id).await;
    peer.answer(&delete, json!({ "_meta": related(&id) })).await;
    deleting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_for_that_is_not_wanted_or_not_offered_or_where_there_is_something_newer() {
    let newer = json!({ "tools": {}, "tasks": { "requests": { "tools": { "call": {} } }, "tools": { "call": true } } });
    let never = CallOptions::default().as_task(AsTask::Never);
    for (options, offered, how) in [
        (Options::default(), drafted(), CallOptions::default()),
        (options(), json!({ "tools": {} }), CallOptions::default()),
        (options(), newer, never.clone()),
        (options(), drafted(), never),
    ] {
        let (client, mut peer) = peer::legacy(options, offered).await;
        let calling = tokio::spawn(async move { client.call_with("build", &(), how).await });
        let call = peer.expect("tools/call").await;
        assert_eq!(call["params"].get("_meta"), None, "{call}");
        peer.answer(&call, text("built")).await;
        calling.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_was_saved_is_asked_after_in_the_form_that_it_was_made_in() {
    let (client, mut peer) = peer::legacy(options(), drafted()).await;
    let (handle, _, id) = started(&client, &mut peer).await;
    let saved = serde_json::to_string(&handle).unwrap();
    assert_eq!(
        saved,
        format!(r#"{{"server":"a stream to peer","taskId":"{id}","tool":"build","drafted":true}}"#)
    );
    let saved: SavedTask = serde_json::from_str(&saved).unwrap();
    let (other, _) = peer::legacy(Options::default(), drafted()).await;
    let error = other.resume(&saved).unwrap_err();
    assert!(error.to_string().contains("Options::drafted_tasks"), "{error}");
    let (next, mut peer) = peer::legacy(options(), drafted()).await;
    let waiting = tokio::spawn(async move { next.resume(&saved).unwrap().wait().await });
    let get = asked(&mut peer, "tasks/get", &id).await;
    peer.answer(&get, task(&id, "completed")).await;
    let result = asked(&mut peer, "tasks/result", &id).await;
    peer.answer(&result, text("built")).await;
    assert_eq!(words(&waiting.await.unwrap().unwrap()), "built");
}

/// The journal as a process leaves it that is killed now.
fn killed(path: &Path, name: &str) -> PathBuf {
    let left = path.with_file_name(name);
    std::fs::copy(path, &left).unwrap();
    left
}

#[tokio::test]
async fn a_call_whose_process_was_killed_is_found_by_the_name_of_its_task_and_not_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let live = |path: &Path| {
        let journal = FileJournal::open(path).unwrap();
        async move {
            let (client, peer) = peer::legacy(options().journal(journal.clone()), drafted()).await;
            (client, peer, journal)
        }
    };
    let (client, mut peer, journal) = live(&path).await;
    let calling = spawn_call(&client);
    let (_, id) = called(&mut peer).await;
    // Whether its server has heard it, nobody knows now.
    let (found, lost) = (killed(&path, "found"), killed(&path, "lost"));
    created(&mut peer, &id).await;
    asked(&mut peer, "tasks/get", &id).await;
    let made = killed(&path, "made");
    calling.abort();
    drop((client, peer, journal));

    for left in [found, made] {
        let (client, mut peer, journal) = live(&left).await;
        let recovering = tokio::spawn(async move { client.recover().await.unwrap() });
        loop {
            let asked = peer.message().await.unwrap();
            assert_eq!(asked["params"]["taskId"], id, "{asked}");
            if asked["method"] == "tasks/result" {
                peer.answer(&asked, text("built")).await;
                break;
            }
            assert_eq!(asked["method"], "tasks/get", "it is not made again");
            peer.answer(&asked, task(&id, "completed")).await;
        }
        let recovered = recovering.await.unwrap();
        assert_eq!(words(recovered[0].outcome.as_ref().unwrap()), "built");
        assert!(Journal::open(&journal).await.unwrap().is_empty());
    }

    let (client, mut peer, _) = live(&lost).await;
    let recovering = tokio::spawn(async move { client.recover().await.unwrap() });
    let get = asked(&mut peer, "tasks/get", &id).await;
    peer.refuse(&get, -32602, "no such task").await;
    let list = peer.expect("tools/list").await;
    peer.answer(&list, json!({ "tools": [{ "name": "build", "inputSchema": { "type": "object" } }] })).await;
    let recovered = recovering.await.unwrap();
    assert!(matches!(recovered[0].outcome, Err(Error::Unsettled { .. })), "{recovered:?}");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Build {
    #[serde(default)]
    how: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Approve {
    go: bool,
}

/// A server of ours whose tool waits to be let go, and how often that was called.
struct Ours {
    dispatcher: Dispatcher,
    go: Arc<Semaphore>,
    calls: Arc<AtomicUsize>,
}

impl Ours {
    async fn start() -> Self {
        let (go, calls) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let (gate, counted) = (Arc::clone(&go), Arc::clone(&calls));
        let build = Tool::typed("build", "Build it", move |cx: Cx, Build { how }| {
            let gate = Arc::clone(&gate);
            counted.fetch_add(1, Ordering::SeqCst);
            async move {
                if how == "ask" {
                    let approved = cx.elicit::<Approve>("Go?").await?.accepted();
                    return Ok(format!("approved: {}", approved.is_some_and(|it| it.go)));
                }
                gate.acquire().await.unwrap().forget();
                if how == "fail" {
                    Err(ToolError::new("it does not compile"))
                } else {
                    Ok("built".to_owned())
                }
            }
        });
        let mut policy = TaskPolicy::always();
        policy.poll_interval = Duration::from_millis(30);
        let server = Server::new("ours", "1").tool(build.task(policy)).drafted_tasks(true);
        let dispatcher = server.dispatcher().unwrap();
        dispatcher.start().await.unwrap();
        Self { dispatcher, go, calls }
    }

    /// Over a stream as a program's.
    fn stream(&self) -> Target {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let ((reader, writer), options) = (tokio::io::split(ours), driver::Options::default());
        let dispatcher = self.dispatcher.clone();
        tokio::spawn(driver::serve(
            dispatcher,
            local_user(),
            reader,
            writer,
            options,
            std::future::pending(),
        ));
        let (reader, writer) = tokio::io::split(theirs);
        Target::stream(reader, writer)
    }

    #[cfg(all(feature = "http", feature = "http-client"))]
    async fn http(&self) -> std::net::SocketAddr {
        use longhaul::transport::http::server;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let options = server::Options::default();
        tokio::spawn(server::serve(self.dispatcher.clone(), listener, options, std::future::pending()));
        address
    }

    async fn connect(&self, target: Target) -> (Client, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let forms = Arc::clone(&asked);
        let options = options().revision(Revision::V2025_06_18).on_form(move |form| {
            forms.lock().unwrap().push(form.message);
            let content = serde_json::value::to_raw_value(&json!({ "go": true })).unwrap();
            async move { ElicitResult::accepted(content) }
        });
        (Client::connect_with(target, options).await.unwrap(), asked)
    }

    /// A task of that kind, under way.
    async fn begun(&self, client: &Client, how: &str) -> TaskHandle {
        match client.start("build", &json!({ "how": how }), CallOptions::default()).await.unwrap() {
            Started::Task(task) => task,
            Started::Result(result) => panic!("{result:?}"),
        }
    }

    async fn all(&self, target: impl AsyncFn() -> Target) {
        let (client, asked) = self.connect(target().await).await;
        assert!(client.capabilities().drafted_tasks && !client.capabilities().tasks);
        let task = self.begun(&client, "build").await;
        assert!(matches!(task.result().await, Err(Error::StillRunning { .. })));
        self.go.add_permits(1);
        assert_eq!(words(&task.wait().await.unwrap()), "built");
        assert_eq!(words(&task.result().await.unwrap()), "built", "again, as often as it is wanted");
        assert_eq!(task.get().await.unwrap().status, TaskStatus::Completed);
        task.delete().await.unwrap();
        assert!(matches!(task.get().await, Err(Error::NoSuchTask { .. })));

        let task = self.begun(&client, "fail").await;
        self.go.add_permits(1);
        let failed = task.wait().await.unwrap();
        assert!(failed.is_error && words(&failed).contains("does not compile"), "{failed:?}");

        let approved = client.call("build", &json!({ "how": "ask" })).await.unwrap();
        assert_eq!((words(&approved), asked.lock().unwrap().len()), ("approved: true", 1));

        let task = self.begun(&client, "build").await;
        task.cancel().await.unwrap();
        assert!(matches!(task.wait().await, Err(Error::Cancelled { .. })));

        let task = self.begun(&client, "build").await;
        let saved = task.save();
        drop((task, client));
        let (next, _) = self.connect(target().await).await;
        let task = next.resume(&saved).unwrap();
        assert_eq!(task.get().await.unwrap().status, TaskStatus::Working, "it runs on");
        self.go.add_permits(1);
        assert_eq!(words(&task.wait().await.unwrap()), "built");
        assert_eq!(self.calls.load(Ordering::SeqCst), 5);
        let unknown = next.call("none", &()).await.unwrap_err();
        assert_eq!(peer::code(&unknown), -32602);
    }
}

#[tokio::test]
async fn a_server_of_ours_over_a_stream_makes_ends_and_keeps_drafted_tasks() {
    let ours = Ours::start().await;
    ours.all(async || ours.stream()).await;
}

#[cfg(all(feature = "http", feature = "http-client"))]
mod over_http {
    use tokio::io::copy_bidirectional;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn a_server_of_ours_makes_ends_and_keeps_drafted_tasks() {
        let ours = Ours::start().await;
        let url = format!("http://{}/mcp", ours.http().await);
        ours.all(async || Target::url(url.clone())).await;
    }

    #[tokio::test]
    async fn a_task_whose_connections_break_is_looked_at_until_it_has_ended() {
        let ours = Ours::start().await;
        let server = ours.http().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let connections = Arc::new(Mutex::new(JoinSet::new()));
        let open = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let between = async move {
                    let mut far = TcpStream::connect(server).await.unwrap();
                    // How it ends is its ends' affair.
                    let _ = copy_bidirectional(&mut near, &mut far).await;
                };
                open.lock().unwrap().spawn(between);
            }
        });
        let (client, _) = ours.connect(Target::url(url)).await;
        let task = ours.begun(&client, "build").await;
        let waiting = tokio::spawn(async move { task.wait().await });
        *connections.lock().unwrap() = JoinSet::new();
        ours.go.add_permits(1);
        assert_eq!(words(&waiting.await.unwrap().unwrap()), "built");
        assert_eq!(ours.calls.load(Ordering::SeqCst), 1);
    }
}
