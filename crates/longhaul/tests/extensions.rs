//! Extensions of one's own: declared by both sides, each in words of its own.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what fails to unwrap fails the test")]

use longhaul::server::{BuildError, Failure};
use longhaul::{Cx, Server};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

const WEATHER: &str = "com.example/weather";

#[derive(Deserialize)]
struct Units {
    metric: bool,
}

fn weather() -> Server {
    let server =
        Server::new("weather", "1.0.0").extension(WEATHER, &json!({"units": ["metric", "imperial"]}));
    server.method("weather/now", |cx: Cx, _: Value| async move {
        let metric = cx.extension::<Units>(WEATHER)?.map(|units| units.metric);
        Ok::<_, Failure>(json!({"metric": metric}))
    })
}

struct Lines(BufReader<DuplexStream>);

impl Lines {
    fn to(server: Server) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(theirs);
        let (user, options) = (longhaul::server::local_user(), longhaul::driver::Options::default());
        let dispatcher = server.dispatcher().unwrap();
        tokio::spawn(longhaul::driver::serve(
            dispatcher,
            user,
            reader,
            writer,
            options,
            std::future::pending(),
        ));
        Self(BufReader::new(ours))
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.0.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        self.0.read_line(&mut answer).await.unwrap();
        serde_json::from_str(&answer).unwrap()
    }
}

fn modern(capabilities: &Value) -> Value {
    json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }})
}

#[tokio::test]
async fn a_server_declares_its_extension_where_the_revision_has_room_for_it() {
    let found = Lines::to(weather()).ask("server/discover", modern(&json!({}))).await;
    let declared = &found["result"]["capabilities"]["extensions"];
    assert_eq!(*declared, json!({WEATHER: {"units": ["metric", "imperial"]}}), "{found}");
    let client = json!({"name": "t", "version": "1"});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    let welcome = Lines::to(weather()).ask("initialize", hello).await;
    assert!(welcome["result"]["capabilities"].get("extensions").is_none(), "{welcome}");
}

#[tokio::test]
async fn a_handler_reads_what_its_caller_declares() {
    let mut lines = Lines::to(weather());
    let mut now = async |payload: Value| {
        lines
            .ask("weather/now", modern(&json!({"extensions": {"x.example/other": {}, WEATHER: payload}})))
            .await
    };
    assert_eq!(now(json!({"metric": false})).await["result"]["metric"], false);
    assert_eq!(now(json!({"metric": true})).await["result"]["metric"], true);
    assert_eq!(
        now(json!(null)).await["result"]["metric"],
        json!(null),
        "declared by no object, and so not at all"
    );
    let wrong = now(json!({"metric": "yes"})).await;
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
    assert!(wrong["error"]["message"].as_str().unwrap().contains("com.example/weather"), "{wrong}");
}

#[test]
fn what_no_client_could_read_is_not_declared() {
    let refused = |server: Server| match server.dispatcher() {
        Err(BuildError::Extension { id, problem, .. }) => format!("{id} {problem}"),
        other => panic!("{other:?}"),
    };
    let server = || Server::new("s", "1");
    assert!(refused(server().extension("weather", &json!({}))).contains("no identifier"));
    assert!(refused(server().extension(WEATHER, &json!(true))).contains("no JSON object"));
    assert!(refused(weather().extension(WEATHER, &json!({}))).contains("twice"));
    assert!(
        refused(server().extension("io.modelcontextprotocol/tasks", &json!({})))
            .contains("when there are tasks")
    );
}
