//! What a server over HTTP asks, as tasks that it names (SEP-1686) and its client hosts.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use longhaul::client::{Client, Hosting, Options};
use longhaul::proto::dialect::Revision;
use longhaul::proto::model::ElicitResult;
use longhaul_test::Lasting;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::played::{Heard, eventually, play, respond};

/// A server that says what it has to say before it lists its tools.
struct Asking {
    url: String,
    heard: Arc<Mutex<Vec<Heard>>>,
    says: Arc<Mutex<Option<Value>>>,
    session: Arc<AtomicUsize>,
}

impl Asking {
    async fn play() -> Self {
        let (says, session) = (Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(1)));
        let (next, number) = (Arc::clone(&says), Arc::clone(&session));
        let (url, heard) = play(move |request| {
            let own = format!("mcp-session-id: s-{}", number.load(Ordering::SeqCst));
            let id = &request.body["id"];
            match request.body["method"].as_str() {
                Some("initialize") => {
                    let info = json!({ "name": "asks", "version": "1" });
                    let result = json!({ "protocolVersion": "2025-11-25", "serverInfo": info, "capabilities": { "tools": {} } });
                    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
                    respond("200 OK", "application/json", &format!("{own}\r\n"), &answer.to_string())
                }
                Some("tools/list") if request.has(&own) => {
                    let says: Option<Value> = next.lock().unwrap().take();
                    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "tools": [] } });
                    let events: Vec<_> =
                        says.into_iter().chain([answer]).map(|it| format!("data: {it}\n\n")).collect();
                    respond("200 OK", "text/event-stream", "", &events.concat())
                }
                Some("tools/list") => respond("404 Not Found", "text/plain", "", "no such session"),
                None if request.head.starts_with("GET") => {
                    respond("405 Method Not Allowed", "text/plain", "", "")
                }
                _ => respond("202 Accepted", "text/plain", "", ""),
            }
        })
        .await;
        Self { url, heard, says, session }
    }

    async fn connect(&self, options: &Options) -> Client {
        let options = options.clone().revision(Revision::V2025_11_25);
        Client::connect_with(self.url.as_str(), options).await.unwrap()
    }

    /// Says that to its client.
    async fn say(&self, client: &Client, message: Value) {
        *self.says.lock().unwrap() = Some(message);
        client.list_tools().await.unwrap();
    }

    async fn ask(&self, client: &Client, id: u64, method: &str, params: Value) {
        self.say(client, json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
    }

    /// What is answered to its request.
    async fn answer(&self, id: u64) -> Value {
        let answer = || {
            let heard = self.heard.lock().unwrap();
            let mut answers =
                heard.iter().filter(|it| it.body["id"] == id && it.body.get("method").is_none());
            answers.next().map(|answer| answer.body.clone())
        };
        eventually("it is not answered", || answer().is_some()).await;
        answer().unwrap()
    }

    /// What it was told by that notification.
    fn told(&self, method: &str) -> Vec<Value> {
        let heard = self.heard.lock().unwrap();
        let told = heard.iter().filter(|heard| heard.body["method"] == method);
        told.map(|heard| heard.body["params"].clone()).collect()
    }

    async fn is_told_of_tasks(&self, how_many: usize) {
        eventually("it hears of no task", || self.told(CREATED).len() == how_many).await;
        assert_eq!(self.told(CREATED)[how_many - 1], json!({ "_meta": related() }));
    }
}

const CREATED: &str = "notifications/tasks/created";

/// A client whose user answers when they are let, and how often they were asked.
fn hosting(hosting: Hosting) -> (Options, Arc<Notify>, Arc<AtomicUsize>) {
    let (answers, asked) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (let_go, count) = (Arc::clone(&answers), Arc::clone(&asked));
    let options = Options::default().drafted_tasks(true).host_tasks(hosting).on_form(move |_| {
        let let_go = Arc::clone(&let_go);
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            let_go.notified().await;
            ElicitResult::declined()
        }
    });
    (options, answers, asked)
}

fn form() -> Value {
    let schema = json!({ "type": "object", "properties": {} });
    let meta = json!({ "modelcontextprotocol.io/task": { "taskId": "ask" } });
    json!({ "mode": "form", "message": "Go?", "requestedSchema": schema, "_meta": meta })
}

fn related() -> Value {
    json!({ "modelcontextprotocol.io/related-task": { "taskId": "ask" } })
}

fn about() -> Value {
    json!({ "taskId": "ask", "_meta": related() })
}

#[tokio::test]
async fn a_drafted_task_is_told_of_before_its_answer_and_outlives_the_session_that_asked() {
    let server = Asking::play().await;
    let (options, answers, asked) = hosting(Hosting::default());
    let client = server.connect(&options).await;
    server.ask(&client, 1, "elicitation/create", form()).await;
    server.is_told_of_tasks(1).await;
    server.ask(&client, 2, "tasks/get", about()).await;
    assert_eq!(server.answer(2).await["result"]["status"], "working");

    // Its server forgets the session, and comes back to the task in the next.
    server.session.store(2, Ordering::SeqCst);
    server.ask(&client, 3, "tasks/get", about()).await;
    assert_eq!(server.answer(3).await["result"]["status"], "working");
    server.ask(&client, 4, "elicitation/create", form()).await;
    server.is_told_of_tasks(2).await;
    answers.notify_one();
    let said = json!({ "action": "decline", "_meta": related() });
    assert_eq!(server.answer(4).await["result"], said);
    server.ask(&client, 5, "tasks/result", about()).await;
    assert_eq!(server.answer(5).await["result"], said);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let heard = server.heard.lock().unwrap();
    // In the session that is now, that id is nothing that was asked.
    assert!(!heard.iter().any(|heard| heard.body["id"] == 1 && heard.body["result"]["action"].is_string()));
    let told = heard.iter().position(|heard| heard.body["method"] == CREATED).unwrap();
    let answered = heard.iter().position(|heard| heard.body["result"]["action"].is_string()).unwrap();
    assert!(told < answered);
}

#[tokio::test]
async fn a_drafted_question_is_withdrawn_over_http_too() {
    let server = Asking::play().await;
    let (options, _, asked) = hosting(Hosting::default());
    let client = server.connect(&options).await;
    server.ask(&client, 1, "elicitation/create", form()).await;
    server.is_told_of_tasks(1).await;
    let withdrawn = json!({ "requestId": 1, "reason": "too late" });
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": withdrawn });
    server.say(&client, cancelled).await;
    for id in 2.. {
        server.ask(&client, id, "tasks/get", about()).await;
        if server.answer(id).await["result"]["status"] == "cancelled" {
            break;
        }
    }
    let answers = server.heard.lock().unwrap().iter().filter(|heard| heard.body["id"] == 1).count();
    // The client's own first request is of that id.
    assert_eq!((answers, asked.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn a_drafted_task_on_a_disk_is_found_by_its_name_in_the_next_connection() {
    let server = Asking::play().await;
    let (options, answers, asked) = hosting(Hosting::in_store(Lasting::default()));
    let client = server.connect(&options).await;
    server.ask(&client, 1, "elicitation/create", form()).await;
    server.is_told_of_tasks(1).await;
    drop(client);

    let client = server.connect(&options).await;
    server.ask(&client, 2, "tasks/get", about()).await;
    assert_eq!(server.answer(2).await["result"]["status"], "working");
    server.ask(&client, 3, "elicitation/create", form()).await;
    server.is_told_of_tasks(2).await;
    answers.notify_one();
    assert_eq!(server.answer(3).await["result"], json!({ "action": "decline", "_meta": related() }));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}
