//! An MCP client in two dialects of tasks, that knows what was acknowledged and what was not.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::http::{self, Answer};
use crate::place::Job;

/// How long one answer may take: only a hang gets there.
const PATIENCE: Duration = Duration::from_secs(60);

/// In which dialect a client speaks of tasks.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Era {
    /// The tasks extension, without a session.
    D3,
    /// The tasks of the revision before, in a session.
    D2,
}

impl Era {
    /// Both.
    pub(crate) const BOTH: [Self; 2] = [Self::D3, Self::D2];

    /// Its name in reports and keys.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::D3 => "d3",
            Self::D2 => "d2",
        }
    }
}

/// Where the server of the moment listens; clients follow it from one to the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Address(Arc<Slot>);

#[derive(Debug, Default)]
struct Slot {
    now: RwLock<Option<SocketAddr>>,
    /// Requests that were not answered in time.
    hung: Mutex<Vec<String>>,
}

impl Address {
    /// A server at this address.
    pub(crate) fn of(address: SocketAddr) -> Self {
        let this = Self::default();
        this.set(Some(address));
        this
    }

    /// From now on the server is there, or nowhere.
    pub(crate) fn set(&self, address: Option<SocketAddr>) {
        *self.0.now.write().unwrap_or_else(PoisonError::into_inner) = address;
    }

    fn now(&self) -> Option<SocketAddr> {
        *self.0.now.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was asked there, and neither answered nor cut off in the time that only a hang takes.
    pub(crate) fn hung(&self) -> Vec<String> {
        self.0.hung.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The result, byte for byte.
    Result(Box<RawValue>),
    /// The error, byte for byte.
    Error(Box<RawValue>),
    /// Nobody knows whether it was carried out.
    Silence,
}

impl Reply {
    /// The result, when the request must have been answered with one.
    pub(crate) fn result(self) -> Result<Value> {
        match self {
            Self::Result(raw) => Ok(serde_json::from_str(raw.get())?),
            Self::Error(raw) => bail!("answered with the error {}", raw.get()),
            Self::Silence => bail!("not answered"),
        }
    }
}

/// A client. Clones share its session.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    era: Era,
    address: Address,
    session: Arc<Mutex<Option<String>>>,
    /// Sessions that no server knew any more.
    lost: Arc<AtomicUsize>,
    patience: Duration,
    /// The credential that it shows, as the header has it.
    credential: Option<&'static str>,
}

/// A question that was put in a session, to be answered there.
pub(crate) struct Asked {
    client: Client,
    address: SocketAddr,
    session: String,
    id: Value,
    pub(crate) text: String,
    /// While it is, the client is there.
    _open: Box<dyn Send + Sync>,
}

impl Asked {
    /// Answers; whether that was accepted.
    pub(crate) fn answer(&self, answer: &Value) -> bool {
        let body = json!({"jsonrpc": "2.0", "id": self.id, "result": answer}).to_string();
        let answer = self.client.exchange(self.address, "", "", Some(&self.session), &body);
        answer.is_some_and(|answer| answer.status == 202)
    }
}

#[derive(Deserialize)]
struct Message {
    id: Option<Value>,
    result: Option<Box<RawValue>>,
    error: Option<Box<RawValue>>,
}

impl Client {
    /// A client of whatever server is at `address`.
    pub(crate) fn new(era: Era, address: Address) -> Self {
        let (session, lost) = Default::default();
        Self { era, address, session, lost, patience: PATIENCE, credential: None }
    }

    /// The same, which shows a credential: `Bearer TOKEN`.
    pub(crate) fn with_credential(self, credential: Option<&'static str>) -> Self {
        Self { credential, ..self }
    }

    /// The same, which closes the connection when an answer takes longer.
    pub(crate) fn with_patience(&self, patience: Duration) -> Self {
        Self { patience, ..self.clone() }
    }

    /// The same at another server, in the same session.
    pub(crate) fn at(&self, address: Address) -> Self {
        Self { address, ..self.clone() }
    }

    /// How many of its sessions were forgotten by their servers.
    pub(crate) fn lost_sessions(&self) -> usize {
        self.lost.load(Ordering::Relaxed)
    }

    /// Another client of the same server, with a session of its own.
    pub(crate) fn another(&self) -> Self {
        Self { session: Arc::default(), ..self.clone() }
    }

    /// Its dialect.
    pub(crate) fn era(&self) -> Era {
        self.era
    }

    /// Calls a tool, as a task where the dialect asks for one by the request.
    pub(crate) fn call(&self, tool: &str, job: &Job) -> Reply {
        self.call_as(&format!("create-{}", job.key), tool, job)
    }

    /// As [`Client::call`], the request named `id`.
    pub(crate) fn call_as(&self, id: &str, tool: &str, job: &Job) -> Reply {
        self.request(id, "tools/call", tool, self.call_params(tool, job))
    }

    /// Calls a tool as a client that knows nothing of tasks.
    pub(crate) fn call_held(&self, tool: &str, job: &Job) -> Reply {
        let params = json!({"name": tool, "arguments": job.arguments()});
        self.request_plainly(&format!("held-{}", job.key), "tools/call", tool, params)
    }

    /// Calls a tool and closes the connection without waiting for the answer.
    pub(crate) fn call_and_leave(&self, tool: &str, job: &Job, after: Duration) {
        let Some(address) = self.address.now() else { return };
        if self.era == Era::D2 && self.session().is_none() && !self.open_session(address) {
            return;
        }
        let body = self.body("leave", "tools/call", self.call_params(tool, job), true);
        let session = self.session();
        let headers = self.headers("tools/call", tool, session.as_deref());
        if let Ok(sent) = http::post(address, &headers, body.as_bytes(), self.patience) {
            std::thread::sleep(after);
            drop(sent);
        }
    }

    fn call_params(&self, tool: &str, job: &Job) -> Value {
        let mut params = json!({"name": tool, "arguments": job.arguments()});
        if self.era == Era::D2 {
            params["task"] = json!({});
        }
        params
    }

    /// Asks where a task stands. `id` names the request.
    pub(crate) fn task(&self, id: &str, task: &str) -> Reply {
        self.request(id, "tasks/get", task, json!({"taskId": task}))
    }

    /// Waits for a task's result, as only D2 can.
    pub(crate) fn task_result(&self, task: &str) -> Reply {
        self.request(&waiting(task), "tasks/result", task, json!({"taskId": task}))
    }

    /// What a task asks whoever waits for its result, as only D2 does; nothing if it asks nothing in time.
    pub(crate) fn question(&self, task: &str) -> Option<Asked> {
        // As any other request.
        for _attempt in 0..2 {
            let address = self.address.now()?;
            if self.session().is_none() && !self.open_session(address) {
                return None;
            }
            let session = self.session()?;
            let body = self.body(&waiting(task), "tasks/result", json!({"taskId": task}), true);
            let headers = self.headers("tasks/result", task, Some(&session));
            let sent = http::post(address, &headers, body.as_bytes(), self.patience);
            let mut events = sent.and_then(http::Sent::events).ok()?;
            if events.status == 404 {
                self.forget_session();
                continue;
            }
            let messages = events.by_ref().filter_map(|data| serde_json::from_str::<Value>(&data).ok());
            let question = messages.into_iter().find(|message| message["method"] == "elicitation/create")?;
            let text = question["params"]["message"].as_str().unwrap_or_default().to_owned();
            let client = self.clone();
            return Some(Asked {
                client,
                address,
                session,
                id: question["id"].clone(),
                text,
                _open: Box::new(events),
            });
        }
        None
    }

    /// Cancels a task.
    pub(crate) fn cancel(&self, task: &str) -> Reply {
        self.request(&format!("cancel-{task}"), "tasks/cancel", task, json!({"taskId": task}))
    }

    /// All of a stream of a task's output, read by the cursor.
    pub(crate) fn output(&self, task: &str, stream: &str) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            let uri = format!("longhaul://tasks/{task}/{stream}?after={}", bytes.len());
            let reply = self.request("read", "resources/read", &uri, json!({"uri": uri}));
            let result = reply.result().with_context(|| format!("reading {uri}"))?;
            let contents = &result["contents"][0];
            let chunk = match (contents["text"].as_str(), contents["blob"].as_str()) {
                (Some(text), _) => text.as_bytes().to_vec(),
                (None, Some(blob)) => base64::engine::general_purpose::STANDARD.decode(blob)?,
                (None, None) => bail!("{uri} has neither text nor blob: {result}"),
            };
            if chunk.is_empty() {
                return Ok(bytes);
            }
            bytes.extend(chunk);
        }
    }

    /// Sends any request and waits for its answer.
    pub(crate) fn request(&self, id: &str, method: &str, name: &str, params: Value) -> Reply {
        self.request_as(id, method, name, params, true)
    }

    /// The same of a client that knows nothing of tasks.
    pub(crate) fn request_plainly(&self, id: &str, method: &str, name: &str, params: Value) -> Reply {
        self.request_as(id, method, name, params, false)
    }

    fn request_as(&self, id: &str, method: &str, name: &str, params: Value, declares: bool) -> Reply {
        // A session that the server does not know any more is opened again, once.
        for _attempt in 0..2 {
            let Some(address) = self.address.now() else { return Reply::Silence };
            if self.era == Era::D2 && self.session().is_none() && !self.open_session(address) {
                return Reply::Silence;
            }
            let session = self.session();
            let body = self.body(id, method, params.clone(), declares);
            let Some(answer) = self.exchange(address, method, name, session.as_deref(), &body) else {
                return Reply::Silence;
            };
            if answer.status == 404 && session.is_some() {
                self.forget_session();
                continue;
            }
            return message(&answer, id);
        }
        Reply::Silence
    }

    fn open_session(&self, address: SocketAddr) -> bool {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "chaos", "version": "1"},
        });
        let body =
            json!({"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": params}).to_string();
        let Some(answer) = self.exchange(address, "initialize", "", None, &body) else { return false };
        let Some(session) = answer.header("mcp-session-id").map(str::to_owned) else { return false };
        let body = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
        let opened = self.exchange(address, "notifications/initialized", "", Some(&session), &body);
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
        opened.is_some()
    }

    fn exchange(
        &self,
        address: SocketAddr,
        method: &str,
        name: &str,
        session: Option<&str>,
        body: &str,
    ) -> Option<Answer> {
        let headers = self.headers(method, name, session);
        let answer =
            http::post(address, &headers, body.as_bytes(), self.patience).and_then(http::Sent::answer);
        let is_late = answer.as_ref().map_or_else(http::is_late, |answer| answer.is_late);
        if is_late && self.patience == PATIENCE {
            let what = format!("{} {method} {name}", self.era.name());
            self.address.0.hung.lock().unwrap_or_else(PoisonError::into_inner).push(what);
        }
        answer.ok()
    }

    fn headers<'a>(
        &self,
        method: &'a str,
        name: &'a str,
        session: Option<&'a str>,
    ) -> Vec<(&'static str, &'a str)> {
        let mut headers =
            vec![("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
        headers.extend(self.credential.map(|credential| ("Authorization", credential)));
        match self.era {
            Era::D3 => {
                headers.extend([("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)]);
                headers.extend((!name.is_empty()).then_some(("Mcp-Name", name)));
            }
            Era::D2 => {
                if let Some(session) = session {
                    headers.extend([("MCP-Protocol-Version", "2025-11-25"), ("Mcp-Session-Id", session)]);
                }
            }
        }
        headers
    }

    fn body(&self, id: &str, method: &str, mut params: Value, declares: bool) -> String {
        if self.era == Era::D3 {
            let extensions = if declares { json!({"io.modelcontextprotocol/tasks": {}}) } else { json!({}) };
            let capabilities = json!({"elicitation": {"form": {}}, "extensions": extensions});
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "chaos", "version": "1"});
            meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        }
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    }

    fn session(&self) -> Option<String> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn forget_session(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Names a request that waits for a task: one whose client has left may be open still.
fn waiting(task: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("result-{task}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The answer to request `id`, if it arrived whole: as the body, or as an event of it.
fn message(answer: &Answer, id: &str) -> Reply {
    if !answer.is_stream() {
        return if answer.whole { parse(&answer.body, id).unwrap_or(Reply::Silence) } else { Reply::Silence };
    }
    let text = String::from_utf8_lossy(&answer.body);
    // Only an event that ended with its empty line has arrived.
    let Some((whole, _)) = text.rsplit_once("\n\n") else { return Reply::Silence };
    let data = whole.lines().filter_map(|line| line.strip_prefix("data:"));
    data.filter_map(|data| parse(data.trim_start().as_bytes(), id)).next_back().unwrap_or(Reply::Silence)
}

fn parse(bytes: &[u8], id: &str) -> Option<Reply> {
    let message: Message = serde_json::from_slice(bytes).ok()?;
    let answers = message.id.as_ref().is_none_or(|found| found.is_null() || found == id);
    match (message.result, message.error) {
        (Some(result), _) if answers => Some(Reply::Result(result)),
        (None, Some(error)) if answers => Some(Reply::Error(error)),
        _ => None,
    }
}
