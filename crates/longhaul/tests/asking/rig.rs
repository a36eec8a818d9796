//! Servers whose tools ask, and clients that answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longhaul::driver::{self, Options};
use longhaul::proto::dialect::Dialect;
use longhaul::proto::jsonrpc::{Limits, Message};
use longhaul::proto::model::{
    CreateMessageParams, ElicitUrl, Field, Form, InputKind, Progress, RequestMeta, SamplingMessage,
    ToolAnnotations,
};
use longhaul::server::{
    AskError, Caller, Dispatched, Dispatcher, Elicited, Exchange, Principal, Prompt, Resource, RoundOptions,
    TaskMode, TaskPolicy, ToolError,
};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Nothing {}

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Nap {
    millis: u64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Path {
    /// What to delete.
    pub(crate) path: String,
}

/// Whether to go on.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Approve {
    /// Yes or no.
    go: bool,
}

#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Name {
    #[schemars(length(min = 1))]
    name: String,
}

/// How often the tools have run, and how often they have got to their ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) begun: Arc<AtomicUsize>,
    pub(crate) ended: Arc<AtomicUsize>,
    pub(crate) dropped: Arc<AtomicUsize>,
}

impl Counts {
    pub(crate) fn now(&self) -> (usize, usize) {
        (self.begun.load(Ordering::SeqCst), self.ended.load(Ordering::SeqCst))
    }
}

/// Counts a handler that is dropped, ended or not.
struct Dropped(Counts);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

async fn delete(counts: Counts, cx: Cx, Path { path }: Path) -> Result<String, ToolError> {
    counts.begun.fetch_add(1, Ordering::SeqCst);
    let _dropped = Dropped(counts.clone());
    let answer = cx.elicit::<Approve>(format!("Delete {path}?")).key("approve").await?;
    cx.progress(Progress::new(1.0)).await;
    let done = match answer {
        Elicited::Accepted(Approve { go: true }) => format!("deleted {path}"),
        Elicited::Accepted(_) => format!("kept {path}"),
        Elicited::Declined => "declined".to_owned(),
        Elicited::Cancelled => "cancelled".to_owned(),
    };
    counts.ended.fetch_add(1, Ordering::SeqCst);
    Ok(done)
}

async fn greet(counts: Counts, cx: Cx, _: Nothing) -> Result<String, ToolError> {
    counts.begun.fetch_add(1, Ordering::SeqCst);
    let Some(Name { name }) = cx.elicit::<Name>("Who are you?").await?.accepted() else {
        return Ok("nobody".to_owned());
    };
    let form = Form::new().with("colour", Field::choice(["blue", "green"]));
    let colour = cx.elicit_form(format!("Which colour, {name}?"), form).await?.accepted();
    let poem = CreateMessageParams::new(vec![SamplingMessage::user(format!("A poem for {name}"))], 50);
    let poem = cx.sample(poem).await?.text();
    counts.ended.fetch_add(1, Ordering::SeqCst);
    Ok(format!("{name} {} {poem}", colour.map_or_else(String::new, |colour| colour.to_string())))
}

async fn all(cx: Cx, _: Nothing) -> Result<String, ToolError> {
    let poem = CreateMessageParams::new(vec![SamplingMessage::user("A poem")], 50);
    let (name, poem, roots) = tokio::join!(cx.elicit::<Name>("Who?"), cx.sample(poem), cx.roots());
    let name = name?.accepted().map_or_else(String::new, |name| name.name);
    Ok(format!("{name} {} {}", poem?.text(), roots?.iter().map(|root| root.uri.as_str()).collect::<String>()))
}

async fn errors(cx: Cx, _: Nothing) -> String {
    let question = cx.elicit::<Name>("Who?").within(Duration::from_secs(30));
    match question.await {
        Ok(_) => "answered".to_owned(),
        Err(AskError::Refused(error)) => format!("refused: {error}"),
        Err(other) => format!("failed: {other}"),
    }
}

/// How long `patient` waits for a name.
pub(crate) const PATIENT: Duration = Duration::from_millis(200);

/// Takes a name for granted, and asks for another.
async fn patient(cx: Cx, _: Nothing) -> Result<String, ToolError> {
    let name = |answer: Elicited<Name>| answer.accepted().map_or_else(String::new, |name| name.name);
    let default = Elicited::Accepted(Name { name: "nobody".to_owned() });
    let first = name(cx.elicit::<Name>("Who?").within(PATIENT).or(default).await?);
    Ok(format!("{first} and {}", name(cx.elicit::<Name>("And?").await?)))
}

/// What stands for no answer does not fit the form.
async fn unfit(cx: Cx, _: Nothing) -> String {
    let default = Elicited::Accepted(Name { name: String::new() });
    match cx.elicit::<Name>("Who?").within(PATIENT).or(default).await {
        Err(AskError::Invalid { what, .. }) => format!("invalid: {what}"),
        _ => "asked".to_owned(),
    }
}

async fn polite(cx: Cx, _: Nothing) -> Result<String, ToolError> {
    if cx.can_ask(InputKind::Form) {
        let _ = cx.elicit::<Name>("Who?").await?;
        return Ok("a form".to_owned());
    }
    if cx.can_ask(InputKind::Sampling) {
        let text = cx.sample(CreateMessageParams::new(vec![SamplingMessage::user("Who?")], 9)).await?.text();
        return Ok(format!("a sample: {text}"));
    }
    Ok("nothing".to_owned())
}

async fn visit(cx: Cx, _: Nothing) -> Result<String, ToolError> {
    let page = ElicitUrl::new("Sign in", "https://example.com/in", "e1");
    Ok(format!("{:?}", cx.elicit_url(page).await?))
}

/// Asks something else each time, which a handler that is entered again must not.
async fn fickle(counts: Counts, cx: Cx, _: Nothing) -> Result<String, ToolError> {
    let time = counts.begun.fetch_add(1, Ordering::SeqCst);
    let _ = cx.elicit::<Name>(format!("Who, for the time number {time}?")).await?;
    Ok("done".to_owned())
}

/// Asks in a loop, under one key.
async fn many(cx: Cx, _: Nothing) -> Result<String, ToolError> {
    let mut names = Vec::new();
    while names.len() < 3 {
        match cx.elicit::<Name>("Another?").key("name").await? {
            Elicited::Accepted(Name { name }) => names.push(name),
            _ => break,
        }
    }
    Ok(names.join(","))
}

/// Takes its time once it is answered.
async fn nap(counts: Counts, cx: Cx, Nap { millis }: Nap) -> Result<String, ToolError> {
    counts.begun.fetch_add(1, Ordering::SeqCst);
    let _dropped = Dropped(counts.clone());
    let _ = cx.elicit::<Name>("Who?").await?;
    tokio::time::sleep(Duration::from_millis(millis)).await;
    counts.ended.fetch_add(1, Ordering::SeqCst);
    Ok("rested".to_owned())
}

fn counted<F>(
    counts: &Counts,
    tool: fn(Counts, Cx, Nothing) -> F,
) -> impl Fn(Cx, Nothing) -> F + Send + Sync + 'static
where
    F: Future<Output = Result<String, ToolError>> + Send + 'static,
{
    let counts = counts.clone();
    move |cx, nothing| tool(counts.clone(), cx, nothing)
}

/// Asks, then works for five seconds; a task after two.
fn task(name: &str, counts: &Counts) -> Tool {
    let counts = counts.clone();
    let work = move |cx, _: Nothing| nap(counts.clone(), cx, Nap { millis: 5000 });
    Tool::typed(name, "Ask, then work", work).task(TaskPolicy::new(TaskMode::After(Duration::from_secs(2))))
}

pub(crate) fn server(counts: &Counts) -> Server {
    let (its, napping) = (counts.clone(), counts.clone());
    let reads = ToolAnnotations::new().with_read_only(true);
    Server::new("asking", "1.0.0")
        .tool(
            Tool::typed("delete", "Delete a file", move |cx, path| delete(its.clone(), cx, path))
                .asks(InputKind::Form),
        )
        .tool(Tool::typed("greet", "Greet", counted(counts, greet)).annotations(reads))
        .tool(Tool::typed("greet_once", "Greet", counted(counts, greet)))
        .tool(Tool::typed("all", "Ask for everything", all).reentrant(true))
        .tool(Tool::typed("all_once", "Ask for everything", all))
        .tool(Tool::typed("errors", "Say what went wrong", errors))
        .tool(Tool::typed("nap", "Take a nap", move |cx, millis| nap(napping.clone(), cx, millis)))
        .tool(task("task", counts).reentrant(true))
        .tool(task("task_once", counts))
        .tool(Tool::typed("patient", "Ask for a while", patient).reentrant(true))
        .tool(Tool::typed("patient_once", "Ask for a while", patient))
        .tool(Tool::typed("unfit", "Ask in vain", unfit))
        .tool(Tool::typed("polite", "Ask what can be asked", polite).reentrant(true))
        .tool(Tool::typed("visit", "Send the user away", visit))
        .tool(Tool::typed("fickle", "Ask anew", counted(counts, fickle)).reentrant(true))
        .tool(Tool::typed("many", "Ask thrice", many).reentrant(true))
        .prompt(Prompt::typed("write", "Write to someone", |cx: Cx, Nothing {}| async move {
            let name = cx.elicit::<Name>("To whom?").await?.accepted();
            Ok::<_, AskError>(format!("Write to {}", name.map_or_else(String::new, |name| name.name)))
        }))
        .resource(Resource::new("test://asked", "asked", |cx: Cx| async move {
            let name = cx.elicit::<Name>("Who reads?").await?.accepted();
            Ok::<_, AskError>(format!("for {}", name.map_or_else(String::new, |name| name.name)))
        }))
}

pub(crate) fn able() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}})
}

pub(crate) fn accept(content: Value) -> Value {
    json!({"action": "accept", "content": content})
}

pub(crate) fn sampled(text: &str) -> Value {
    json!({"role": "assistant", "content": {"type": "text", "text": text}, "model": "m"})
}

/// A server without a connection: each request is given to it where it stands.
pub(crate) struct Bare {
    pub(crate) dispatcher: Dispatcher,
    pub(crate) counts: Counts,
}

impl Bare {
    pub(crate) fn new() -> Self {
        Self::with(|server| server)
    }

    pub(crate) fn with(change: impl FnOnce(Server) -> Server) -> Self {
        let counts = Counts::default();
        Self { dispatcher: change(server(&counts)).dispatcher().unwrap(), counts }
    }

    pub(crate) fn bounded(rounds: RoundOptions) -> Self {
        Self::with(|server| server.rounds(rounds))
    }

    /// Calls a tool in the modern era, as this principal.
    pub(crate) async fn ask_as(&self, principal: &str, method: &str, mut params: Value) -> Value {
        if params.get("_meta").is_none() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": able(),
            });
        }
        let text = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let Message::Request(request) = Message::decode(text.as_bytes(), &Limits::default()).unwrap() else {
            panic!("{text}");
        };
        let meta: RequestMeta<'_> = request.params.read("_meta").unwrap().unwrap();
        let dialect = Dialect::of_request(&meta, None, method).unwrap();
        let mut caller = Caller::new(Some(Principal::new(principal).unwrap()));
        caller.capabilities = meta.client_capabilities.unwrap();
        let method = dialect.request(method).unwrap();
        let exchange = Exchange::new(&request.id, dialect, method, &request.params, caller);
        let mut out = Vec::new();
        match self.dispatcher.dispatch(exchange, &mut out) {
            Dispatched::Answered(_) => {}
            Dispatched::Pending(answer) => (_, out) = answer.await,
        }
        serde_json::from_slice(&out).unwrap()
    }

    pub(crate) async fn call(&self, params: Value) -> Value {
        self.ask_as("ann", "tools/call", params).await
    }

    /// Calls again with the state of `asked` and these answers.
    pub(crate) async fn answer(&self, mut params: Value, asked: &Value, answers: Value) -> Value {
        params["requestState"] = asked["result"]["requestState"].clone();
        params["inputResponses"] = answers;
        self.call(params).await
    }
}

#[track_caller]
pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// The keys of what an answer asks, in order.
#[track_caller]
pub(crate) fn asked(answer: &Value) -> Vec<&str> {
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    assert!(answer["result"]["requestState"].is_string(), "{answer}");
    answer["result"]["inputRequests"].as_object().unwrap().keys().map(String::as_str).collect()
}

#[track_caller]
pub(crate) fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer}"))
}

/// The far end of a connection over a byte stream.
pub(crate) struct Client {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    pub(crate) counts: Counts,
}

impl Client {
    pub(crate) fn connect(options: Options) -> Self {
        let counts = Counts::default();
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(theirs);
        let dispatcher = server(&counts).dispatcher().unwrap();
        let principal = Principal::new("ann").unwrap();
        let never = std::future::pending();
        tokio::spawn(driver::serve(dispatcher, principal, reader, writer, options, never));
        let (reader, writer) = tokio::io::split(ours);
        Self { reader: BufReader::new(reader), writer, counts }
    }

    /// Opens a session of this revision.
    pub(crate) async fn session(revision: &str, options: Options) -> Self {
        let mut client = Self::connect(options);
        let params = json!({"protocolVersion": revision, "capabilities": able(),
            "clientInfo": {"name": "t", "version": "1"}});
        client.send(json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": params})).await;
        assert_eq!(client.receive().await["result"]["protocolVersion"], revision);
        client
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn call(&mut self, id: u64, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).await;
    }

    pub(crate) async fn answer(&mut self, question: &Value, result: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": result})).await;
    }

    pub(crate) async fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }
}
