//! A server that has one of each, others before it, and who calls those.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::client::{CallOptions, Client, Options, Started, Target, TaskHandle};
use longhaul::proto::dialect::{Dialect, Revision};
use longhaul::proto::http::AllowList;
use longhaul::proto::model;
use longhaul::server::{
    Catalogue, Dispatcher, Elicited, Prompt, ReadFuture, Resource, ResourceTemplate, Resources, ToolError,
    ToolFuture, ToolHandler, local_user, not_found,
};
use longhaul::transport::http::server;
use longhaul::transport::{memory, stdio};
use longhaul::{Cx, Server, Tool, driver};
use longhaul_gateway::config::{UpstreamServer, check};
use longhaul_gateway::upstream::{Seen, Upstream, Upstreams};
use serde_json::json;
use tokio::net::TcpListener;

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Nothing {}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Who {
    name: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Id {
    id: u64,
}

/// What no list shows.
#[derive(Debug)]
struct Hidden(String);

impl Resources for Hidden {
    fn templates(&self) -> Vec<model::ResourceTemplate> {
        vec![model::ResourceTemplate::new("any://{path*}", "any")]
    }

    fn has(&self, uri: &str) -> bool {
        uri == self.0
    }

    fn read<'a>(&'a self, _: Cx, uri: &'a str) -> ReadFuture<'a> {
        Box::pin(async move {
            let contents = model::ResourceContents::text(uri, "text/plain", "hidden");
            if self.has(uri) { Ok(model::ReadResourceResult::fresh(contents)) } else { Err(not_found(uri)) }
        })
    }
}

/// A server with one of each, which calls itself `name`.
pub(crate) fn one_of_each(name: &'static str) -> (Server, Catalogue) {
    let (server, catalogue) = Server::new(name, "1.0.0").dynamic();
    let greet =
        Prompt::typed("greet", "Greet somebody", |_, Who { name }| async move { format!("Hello, {name}!") })
            .title("A greeting")
            .complete("name", |_, typed| async move {
                ["ann", "bob"].into_iter().filter(|name| name.starts_with(&typed.value)).collect::<Vec<_>>()
            });
    let rows =
        ResourceTemplate::typed("rows://{id}", "rows", |_, Id { id }| async move { format!("row {id}") })
            .complete("id", |_, typed| async move { vec![format!("{}0", typed.value)] });
    let logs = Tool::typed("logs", "Log", |cx: Cx, Nothing {}| async move {
        cx.log(model::LoggingLevel::Debug, "detail").await;
        cx.log(model::LoggingLevel::Error, "trouble").await;
        "logged"
    });
    let odd = Tool::typed("odd", "What no revision has", |_, Nothing {}| async {
        serde_json::from_str::<model::CallToolResult>(ODD).map_err(|error| ToolError::new(error.to_string()))
    });
    let asks = Tool::typed("asks", "Ask whoever calls", |cx: Cx, Nothing {}| async move {
        cx.elicit::<Who>("Who are you?").await.map(|who| match who {
            Elicited::Accepted(Who { name }) => name,
            _ => "nobody".to_owned(),
        })
    });
    let endless = Tool::typed("endless", "Begin, and never end", |cx: Cx, Nothing {}| async move {
        cx.progress(model::Progress::new(1.0)).await;
        std::future::pending::<&str>().await
    });
    let who = Tool::typed("who", "Who it is", move |_, Nothing {}| async move { name });
    let pid =
        Tool::typed("pid", "Which process it is", |_, Nothing {}| async { std::process::id().to_string() });
    let busy = Tool::typed("busy", "Work, and do nothing else", |cx: Cx, Nothing {}| async move {
        cx.progress(model::Progress::new(1.0)).await;
        // What is to be sent before is sent.
        tokio::time::sleep(Duration::from_millis(50)).await;
        std::thread::sleep(Duration::from_secs(2));
        "done"
    });
    let steps = Tool::typed("steps", "Work, and say how far it is", |cx: Cx, Nothing {}| async move {
        for step in 1..=15_u8 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            cx.progress(model::Progress::new(f64::from(step))).await;
        }
        "stepped"
    });
    let server = server
        .tool(who)
        .tool(pid)
        .tool(busy)
        .tool(steps)
        .tool(logs)
        .tool(odd)
        .tool(asks)
        .tool(endless)
        .prompt(greet)
        .resource(Resource::text("notes://today", "today", name).title("Today").mime_type("text/x-note"))
        .resource_template(rows)
        .resources(Arc::new(Hidden(format!("hidden://{name}"))));
    (server, catalogue)
}

struct Strange;

impl ToolHandler for Strange {
    fn call(&self, _: Cx, _: &str) -> Result<ToolFuture, model::CallToolResult> {
        Err(model::CallToolResult::text("strange"))
    }
}

/// Definitions with what no revision has.
pub(crate) fn strange() -> (Tool, Prompt, Resource, ResourceTemplate) {
    fn read<T: serde::de::DeserializeOwned>(text: &str) -> T {
        serde_json::from_str(text).unwrap()
    }
    let hints = r#"{"title":"Strange","calm":[true]}"#;
    let tool = format!(
        r#"{{"name":"strange","inputSchema":{{"type":"object"}},"annotations":{hints},"cost":1.50}}"#
    );
    let tool: model::Tool = read(&tool);
    let argument = r#"{"name":"a","kind":"name"}"#;
    let prompt: model::Prompt =
        read(&format!(r#"{{"name":"strange","arguments":[{argument}],"cost":1.50}}"#));
    let resource: model::Resource =
        read(r#"{"uri":"strange://a","name":"a","annotations":{"priority":0.5,"calm":true},"cost":1.50}"#);
    let template: model::ResourceTemplate =
        read(r#"{"uriTemplate":"strange://a/{b}","name":"ab","cost":1.50}"#);
    (
        Tool::raw(tool, Strange),
        Prompt::raw(prompt, |_, _| async { "strange" }),
        Resource::raw(resource, |_| async { Err::<model::ReadResourceResult, _>(not_found("strange://a")) }),
        ResourceTemplate::raw(template, |_, uri: String| async move {
            Err::<model::ReadResourceResult, _>(not_found(&uri))
        }),
    )
}

/// A result with what no revision has.
pub(crate) const ODD: &str = r#"{"content":[{"type":"smell","of":["roses"]},{"type":"text","text":"a","tone":"calm"}],"cost":{"cents":1.50}}"#;

/// The endpoint of a server, for as long as the test runs.
pub(crate) async fn over_http(dispatcher: Dispatcher) -> String {
    serve_at(TcpListener::bind("127.0.0.1:0").await.unwrap(), dispatcher)
}

/// The same where it is to be.
pub(crate) fn serve_at(listener: TcpListener, dispatcher: Dispatcher) -> String {
    let address = listener.local_addr().unwrap();
    tokio::spawn(server::serve(dispatcher, listener, server::Options::default(), std::future::pending()));
    format!("http://{address}/mcp")
}

/// The lines of a configuration that reach it so.
pub(crate) fn at(name: &str, url: &str, more: &str) -> UpstreamServer {
    let text = format!("[servers.{name}]\nurl = {url:?}\n{more}");
    check("longhaul.toml", &text).unwrap_or_else(|mistakes| panic!("{mistakes}")).config.servers.remove(0)
}

/// The server of this program itself, over its standard streams: see `serves_on_its_standard_streams`.
pub(crate) fn as_a_program(name: &str, more: &str) -> UpstreamServer {
    as_that_program("rig::serves_on_its_standard_streams", name, more)
}

/// What of this program is no test, but a server over its standard streams.
pub(crate) fn as_that_program(test: &str, name: &str, more: &str) -> UpstreamServer {
    let program = std::env::current_exe().unwrap();
    let words = [test, "--exact", "--ignored", "--nocapture"];
    let text = format!(
        "[servers.{name}]\ntask = \"never\"\ncwd = \"/\"\ncommand = [{program:?}, {}]\nenv.SERVES = \"yes\"\n{more}\n",
        words.map(|word| format!("{word:?}")).join(", ")
    );
    check("longhaul.toml", &text).unwrap_or_else(|mistakes| panic!("{mistakes}")).config.servers.remove(0)
}

/// No test, but a server for one.
#[tokio::test]
#[ignore = "it is a program that others start"]
async fn serves_on_its_standard_streams() {
    if std::env::var_os("SERVES").is_none() {
        return;
    }
    let (mut server, _catalogue) = one_of_each("program");
    if let Ok(description) = std::env::var("LATE") {
        server = server.tool(Tool::typed("late", description, |_, Nothing {}| async { "late" }));
    }
    let (reader, writer) = stdio::stdio();
    let (options, never) = (driver::Options::default(), std::future::pending());
    let dispatcher = server.dispatcher().unwrap();
    driver::serve_only_client(dispatcher, local_user(), reader, writer, options, never).await.unwrap();
    // Nothing more is to be said where messages were.
    std::process::exit(0);
}

/// The server of this program in a process of its own, at an address: see `serves_over_http`.
pub(crate) struct Elsewhere(std::process::Child);

impl Elsewhere {
    /// Starts it with one more prompt, of this name.
    pub(crate) fn at(address: SocketAddr, prompt: &str) -> Self {
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        program.args(["rig::serves_over_http", "--exact", "--ignored", "--nocapture"]);
        program.env("SERVES", address.to_string()).env("PROMPT", prompt).stdout(Stdio::null());
        // By whose end it learns that nobody is there any more, however that came.
        program.stdin(Stdio::piped());
        Self(program.spawn().unwrap())
    }

    /// With SIGKILL, so that it tells nobody.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

/// No test, but a server for one.
#[tokio::test]
#[ignore = "it is a program that others start"]
async fn serves_over_http() {
    let Ok(address) = std::env::var("SERVES") else { return };
    std::thread::spawn(|| {
        let _over = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    let (server, catalogue) = one_of_each("elsewhere");
    let (dispatcher, prompt) = (server.dispatcher().unwrap(), std::env::var("PROMPT").unwrap());
    catalogue.put(Prompt::raw(model::Prompt::new(&*prompt), |_, _| async { "p" })).unwrap();
    let listener = TcpListener::bind(&address).await.unwrap();
    // It may be another address of this machine than the one that is let in.
    let host = listener.local_addr().unwrap().ip().to_string();
    let allow = AllowList::new([host], [""; 0]);
    let (options, never) = (server::Options::default().allow(allow), std::future::pending());
    server::serve(dispatcher, listener, options, never).await.unwrap();
}

/// A server before others.
pub(crate) struct Front {
    pub(crate) dispatcher: Dispatcher,
    pub(crate) upstreams: Upstreams,
    _catalogue: Catalogue,
}

impl Front {
    /// Serves those servers on, and waits until it knows what they have. They are spoken to in `revision`.
    pub(crate) async fn before(servers: Vec<UpstreamServer>, revision: Revision) -> Self {
        Self::begin(servers, revision).once_listed().await
    }

    /// The same front, once it knows what they have.
    pub(crate) async fn once_listed(self) -> Self {
        for upstream in self.upstreams.iter() {
            let mut seen = upstream.seen();
            let listed = seen.wait_for(|seen| matches!(seen, Seen::Listed { .. }));
            let listed = tokio::time::timeout(Duration::from_secs(60), listed).await.is_ok();
            assert!(listed, "it is not listed: {:?}", upstream.seen().borrow());
        }
        self
    }

    /// Begins to serve those servers on.
    pub(crate) fn begin(servers: Vec<UpstreamServer>, revision: Revision) -> Self {
        Self::with(servers, revision, |upstreams| upstreams, |server| server)
    }

    /// The same of servers and of one before them that are more than that.
    pub(crate) fn with(
        servers: Vec<UpstreamServer>,
        revision: Revision,
        behind: impl FnOnce(Upstreams) -> Upstreams,
        before: impl FnOnce(Server) -> Server,
    ) -> Self {
        let options = Options::default().revision(revision);
        let all = servers.into_iter().map(|server| Upstream::new(server, options.clone())).collect();
        let upstreams = behind(Upstreams::new(all, ["own"]));
        let own = Tool::typed("own", "One's own", |_, Nothing {}| async { "own" });
        let (server, catalogue) = upstreams.room(before(Server::new("front", "1.0.0").tool(own)));
        let dispatcher = server.dispatcher().unwrap();
        upstreams.keep_offered(&catalogue);
        Self { dispatcher, upstreams, _catalogue: catalogue }
    }

    pub(crate) async fn caller(&self, options: Options) -> Client {
        let target: Target = memory::serve(self.dispatcher.clone(), local_user());
        Client::connect_with(target, options.cache(false)).await.unwrap()
    }

    /// What is to be known of a server.
    pub(crate) fn notes(&self, place: usize) -> Vec<String> {
        match &*self.upstreams.iter().nth(place).unwrap().seen().borrow() {
            Seen::Listed { notes, .. } => notes.clone(),
            seen => panic!("{seen:?}"),
        }
    }
}

/// The newest revision of each era.
pub(crate) fn both_eras() -> [Revision; 2] {
    [Dialect::newest_legacy(), Dialect::newest_modern()].map(Dialect::revision)
}

/// A call that has become a task.
pub(crate) async fn begun(client: &Client, tool: &str) -> TaskHandle {
    match client.start(tool, &json!({}), CallOptions::default()).await.unwrap() {
        Started::Task(task) => task,
        Started::Result(result) => panic!("it is no task: {result:?}"),
    }
}

/// Waits until a task says so of itself, and works all the same.
pub(crate) async fn says(task: &TaskHandle, words: &str) {
    eventually(&format!("the task does not say: {words}"), async || {
        let task = task.get().await.unwrap();
        assert_eq!(task.status, model::TaskStatus::Working, "{task:?}");
        task.status_message.is_some_and(|said| said.contains(words))
    })
    .await;
}

/// Waits until it is so.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..3000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}");
}

/// What a client hears in its log.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    pub(crate) fn options(&self, level: model::LoggingLevel) -> Options {
        let heard = Arc::clone(&self.0);
        Options::default().on_log(level, move |message| {
            let line = format!("{} {:?} {}", message.level, message.logger, message.data.get());
            heard.lock().unwrap().push(line);
        })
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}
