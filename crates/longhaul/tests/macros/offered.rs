//! Functions with `#[prompt]` and `#[resource]`, plain functions, and what all of them share.

use std::sync::Mutex;
use std::thread::{self, ThreadId};

use longhaul::client::{Client, Target};
use longhaul::server::{BuildError, Catalogue, Prompt, Resource, ResourceTemplate, State};
use longhaul::{Cx, Server, Tool, prompt, resource, tool};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

struct Notes {
    kept: Mutex<Vec<String>>,
    /// Where requests are read.
    home: ThreadId,
}

impl Notes {
    fn new() -> Self {
        Self { kept: Mutex::default(), home: thread::current().id() }
    }
}

/// Keep a note.
#[tool]
fn keep(notes: State<Notes>, text: String) -> usize {
    assert_ne!(thread::current().id(), notes.home, "what may take its time holds up no request");
    let mut kept = notes.kept.lock().unwrap();
    kept.push(text);
    kept.len()
}

/// Count the notes.
#[tool(inline)]
fn count(cx: Cx, notes: State<Notes>) -> usize {
    assert_eq!(thread::current().id(), notes.home);
    assert!(cx.state::<Notes>().is_some() && cx.state::<String>().is_none());
    notes.kept.lock().unwrap().len()
}

/// Go through the notes.
#[prompt(title = "Go through them")]
async fn go_through(
    notes: State<Notes>,
    /// How many at most.
    most: Option<u32>,
) -> String {
    let kept = notes.kept.lock().unwrap();
    kept.iter().take(most.unwrap_or(10) as usize).cloned().collect::<Vec<_>>().join("; ")
}

/// Say what nobody names.
#[tool(inline)]
fn unnamed() -> Result<impl longhaul::server::IntoToolResult, longhaul::server::ToolError> {
    Ok("unnamed")
}

/// The latest note.
#[resource(uri = "notes://latest", mime_type = "text/plain")]
fn latest(notes: State<Notes>) -> Option<String> {
    notes.kept.lock().unwrap().last().cloned()
}

/// Every note.
#[resource(uri = "notes://{number}", name = "note")]
async fn note(number: usize, notes: State<Notes>) -> Option<String> {
    notes.kept.lock().unwrap().get(number).cloned()
}

fn server() -> Server {
    let server = Server::new("s", "1").tool(keep).tool(count).tool(unnamed).prompt(go_through);
    server.resource(latest).resource_template(note)
}

fn serve(server: Server) -> DuplexStream {
    let dispatcher = server.dispatcher().unwrap();
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(theirs);
    let (user, options) = (longhaul::server::local_user(), longhaul::driver::Options::default());
    tokio::spawn(longhaul::driver::serve(dispatcher, user, reader, writer, options, std::future::pending()));
    ours
}

async fn client(server: Server) -> Client {
    let (reader, writer) = tokio::io::split(serve(server));
    Client::connect(Target::stream(reader, writer)).await.unwrap()
}

#[test]
fn each_says_what_it_is() {
    let prompt = Prompt::from(go_through);
    let definition = prompt.definition();
    assert_eq!(
        (definition.name.as_str(), definition.title.as_deref()),
        ("go_through", Some("Go through them"))
    );
    assert_eq!(definition.description.as_deref(), Some("Go through the notes."));
    let [most] = definition.arguments.as_slice() else { panic!("{definition:?}") };
    assert_eq!(
        (most.name.as_str(), most.required, most.description.as_deref()),
        ("most", false, Some("How many at most."))
    );
    let resource = Resource::from(latest);
    assert_eq!(
        (resource.definition().uri.as_str(), resource.definition().mime_type.as_deref()),
        ("notes://latest", Some("text/plain"))
    );
    assert_eq!(ResourceTemplate::from(note).definition().name, "note");
    let schema: Value = serde_json::from_str(Tool::from(keep).definition().input_schema.get()).unwrap();
    assert_eq!(schema["required"], json!(["text"]), "what is shared is no argument");
}

#[tokio::test]
async fn what_is_shared_reaches_every_kind() {
    let client = client(server().state(Notes::new())).await;
    let call = async |name: &str, arguments: Value| {
        let result = client.call(name, &arguments).await.unwrap();
        result.content[0].as_text().unwrap().to_owned()
    };
    assert_eq!(call("keep", json!({"text": "one"})).await, "1");
    assert_eq!(call("keep", json!({"text": "two"})).await, "2");
    assert_eq!(call("count", json!({})).await, "2");
    assert_eq!(call("unnamed", json!({})).await, "unnamed");
    let read = async |uri: &str| client.read_resource(uri).await.map(|read| read.contents[0].text.clone());
    assert_eq!(read("notes://latest").await.unwrap().as_deref(), Some("two"));
    assert_eq!(read("notes://0").await.unwrap().as_deref(), Some("one"));
    assert!(read("notes://2").await.is_err() && read("notes://first").await.is_err());
}

#[tokio::test]
async fn what_is_shared_reaches_a_prompt() {
    let notes = Notes::new();
    notes.kept.lock().unwrap().extend(["one", "two", "three"].map(str::to_owned));
    let mut lines = serve(server().state(notes));
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"}, "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": "go_through", "arguments": {"most": "2"}, "_meta": meta});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": params});
    lines.write_all(format!("{request}\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    BufReader::new(lines).read_line(&mut answer).await.unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["result"]["messages"][0]["content"]["text"], "one; two", "{answer}");
}

#[test]
fn what_needs_a_state_that_is_not_there_is_refused_at_the_start() {
    let refusal = server().dispatcher().unwrap_err();
    assert!(matches!(&refusal, BuildError::NoState { .. }), "{refusal:?}");
    let message = refusal.to_string();
    assert!(
        message.contains("tool \"keep\"") && message.contains("Notes`: give it to the server"),
        "{message}"
    );
    let later = |change: fn(&Catalogue) -> bool| {
        let (server, catalogue) = Server::new("s", "1").dynamic();
        let _dispatcher = server.dispatcher().unwrap();
        change(&catalogue)
    };
    assert!(later(|catalogue| catalogue.add(Prompt::from(go_through)).is_err()));
    assert!(later(|catalogue| catalogue.add(Resource::from(latest)).is_err()));
    assert!(later(|catalogue| catalogue.put(ResourceTemplate::from(note)).is_err()));
}
