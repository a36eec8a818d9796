//! One client over a byte stream: what goes in, line by line, and what must come out.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use longhaul::driver::{self, DriverError, Options};
use longhaul::proto::model::Progress;
use longhaul::server::{Principal, TaskMode, TaskPolicy};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    message: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Wait {
    seconds: u64,
}

async fn wait(cx: Cx, Wait { seconds }: Wait) -> &'static str {
    for second in 1..=seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        #[expect(clippy::cast_precision_loss, reason = "a few seconds")]
        cx.progress(Progress::new(second as f64)).await;
    }
    "waited"
}

async fn quiet(_: Cx, Wait { seconds }: Wait) -> &'static str {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    "waited"
}

#[expect(clippy::panic, reason = "the bug under test")]
async fn panicking(_: Cx, _: Wait) {
    tokio::task::yield_now().await;
    panic!("a bug in a tool");
}

fn server() -> Server {
    Server::new("test", "1.0.0")
        .tool(Tool::typed("echo", "Echo", |_, Echo { message }| async move { message }))
        .tool(Tool::typed("wait", "Wait", wait))
        .tool(Tool::typed("bug", "Panic", panicking))
        .tool(
            Tool::typed("follow", "Wait", quiet)
                .task(TaskPolicy::new(TaskMode::After(Duration::from_secs(2)))),
        )
}

/// The far end of a served connection.
struct Client {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    served: JoinHandle<Result<(), DriverError>>,
    stop: Option<oneshot::Sender<()>>,
}

impl Client {
    fn connect(options: Options) -> Self {
        let (ours, theirs) = tokio::io::duplex(4096);
        let (reader, writer) = tokio::io::split(theirs);
        let dispatcher = server().dispatcher().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let principal = Principal::new("test").unwrap();
        let served =
            tokio::spawn(driver::serve_only_client(dispatcher, principal, reader, writer, options, async {
                match stopped.await {
                    Ok(()) => {}
                    Err(_) => std::future::pending().await,
                }
            }));
        let (reader, writer) = tokio::io::split(ours);
        Self { reader: BufReader::new(reader), writer, served, stop: Some(stop) }
    }

    async fn send(&mut self, line: impl AsRef<[u8]>) {
        self.writer.write_all(line.as_ref()).await.unwrap();
        self.writer.write_all(b"\n").await.unwrap();
    }

    async fn call(&mut self, id: u64, tool: &str, arguments: Value) {
        let meta = json!({
            "progressToken": id,
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        self.send(request.to_string()).await;
    }

    async fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    async fn receive_text(&mut self, id: u64) -> String {
        let answer = self.receive().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }
}

#[tokio::test]
async fn s17_garbage_is_answered_and_the_connection_goes_on() {
    let mut client = Client::connect(Options::default());
    let cases: [(&[u8], i64, Value); 7] = [
        (b"{", -32700, Value::Null),
        (b"\xff\xfe", -32700, Value::Null),
        (b"[]", -32600, Value::Null),
        (br#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600, json!(1)),
        (br#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#, -32602, json!(2)),
        (br#"{"jsonrpc":"2.0","id":3,"method":"ping","params":{"_meta":7}}"#, -32602, json!(3)),
        (br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, Value::Null),
    ];
    for (line, code, id) in cases {
        client.send(line).await;
        let answer = client.receive().await;
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{answer}");
    }
    client.call(9, "echo", json!({"message": "still here"})).await;
    assert_eq!(client.receive_text(9).await, "still here");
}

#[tokio::test]
async fn s10_a_message_past_the_limit_is_refused_and_the_next_one_read() {
    let mut options = Options::default();
    options.limits.max_bytes = 1000;
    let mut client = Client::connect(options);
    client.send("x".repeat(20_000)).await;
    assert_eq!(client.receive().await["error"]["code"], -32600);
    client.call(1, "echo", json!({"message": "short"})).await;
    assert_eq!(client.receive_text(1).await, "short");
}

#[tokio::test]
async fn wrong_tools_and_arguments_say_what_is_wrong() {
    let mut client = Client::connect(Options::default());
    client.call(1, "ecco", json!({})).await;
    let answer = client.receive().await;
    assert_eq!(answer["error"], json!({"code": -32602, "message": "unknown tool: ecco"}));
    client.call(2, "echo", json!({"message": 7})).await;
    let answer = client.receive().await;
    assert_eq!(answer["result"]["isError"], true, "a model can read it and try again");
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("invalid arguments: `message`: invalid type: integer `7`, expected a string"),
        "{text}"
    );
    client.call(3, "echo", json!([1])).await;
    assert_eq!(client.receive().await["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn progress_comes_before_the_answer_and_in_order() {
    let mut client = Client::connect(Options::default());
    client.call(5, "wait", json!({"seconds": 3})).await;
    for expected in [1.0, 2.0, 3.0] {
        let params = &client.receive().await["params"];
        assert_eq!((&params["progressToken"], &params["progress"]), (&json!(5), &json!(expected)));
    }
    assert_eq!(client.receive_text(5).await, "waited");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_is_never_heard_of_again() {
    let mut client = Client::connect(Options::default());
    client.call(1, "wait", json!({"seconds": 5})).await;
    assert_eq!(client.receive().await["params"]["progress"], 1.0);
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#).await;
    client.call(1, "wait", json!({"seconds": 1})).await;
    assert_eq!(client.receive().await["params"]["progress"], 1.0, "the id is free again at once");
    assert_eq!(client.receive_text(1).await, "waited");
    client.call(2, "echo", json!({"message": "nothing else was sent"})).await;
    assert_eq!(client.receive_text(2).await, "nothing else was sent");
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_still_open_is_refused() {
    let mut client = Client::connect(Options::default());
    client.call(1, "wait", json!({"seconds": 1})).await;
    client.call(1, "echo", json!({"message": "me too"})).await;
    assert_eq!(client.receive().await["error"]["code"], -32600);
    assert_eq!(client.receive().await["params"]["progress"], 1.0);
    assert_eq!(client.receive_text(1).await, "waited");
}

#[tokio::test]
async fn s18_a_panicking_tool_is_answered_and_harms_nobody() {
    let mut client = Client::connect(Options::default());
    client.call(1, "bug", json!({"seconds": 0})).await;
    let answer = client.receive().await;
    assert_eq!(answer["error"]["code"], -32603);
    assert!(!answer.to_string().contains("a bug in a tool"), "the message stays in the log");
    client.call(2, "echo", json!({"message": "alive"})).await;
    assert_eq!(client.receive_text(2).await, "alive");
}

#[tokio::test(start_paused = true)]
async fn reading_stops_while_all_places_are_taken() {
    let mut options = Options::default();
    options.max_open = 2;
    let mut client = Client::connect(options);
    for id in 1..=2 {
        client.call(id, "wait", json!({"seconds": 1})).await;
    }
    client.call(3, "echo", json!({"message": "third"})).await;
    let mut answered = Vec::new();
    while answered.len() < 3 {
        let message = client.receive().await;
        answered.extend(message["id"].as_u64());
    }
    assert_eq!(answered[2], 3, "the third waited for a place: {answered:?}");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_input_ends_the_connection_at_once() {
    let mut client = Client::connect(Options::default());
    client.call(1, "wait", json!({"seconds": 1000})).await;
    client.call(2, "echo", json!({"message": "answered before the end"})).await;
    assert_eq!(client.receive_text(2).await, "answered before the end");
    client.writer.shutdown().await.unwrap();
    client.served.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn stopping_hands_held_calls_over_and_lets_others_end() {
    let mut client = Client::connect(Options::default());
    client.call(1, "follow", json!({"seconds": 1000})).await;
    client.call(2, "wait", json!({"seconds": 3})).await;
    assert_eq!(client.receive().await["params"]["progress"], 1.0);
    let began = tokio::time::Instant::now();
    client.stop.take().unwrap().send(()).unwrap();
    let mut texts = Vec::new();
    while texts.len() < 2 {
        let message = client.receive().await;
        texts.extend(message["result"]["content"][0]["text"].as_str().map(str::to_owned));
    }
    assert!(texts[0].contains("task_wait"), "{texts:?}");
    assert_eq!(texts[1], "waited");
    client.served.await.unwrap().unwrap();
    assert_eq!(began.elapsed().as_secs(), 2, "no longer than the last answer took");
}

#[tokio::test(start_paused = true)]
async fn stopping_waits_no_longer_than_it_may() {
    let mut client = Client::connect(Options::default());
    client.call(1, "wait", json!({"seconds": 1000})).await;
    client.receive().await;
    let began = tokio::time::Instant::now();
    client.stop.take().unwrap().send(()).unwrap();
    let cut_off = loop {
        let message = client.receive().await;
        if message["id"] == 1 {
            break message;
        }
    };
    assert_eq!(cut_off["error"]["data"], json!({"reason": "stopping"}), "{cut_off}");
    client.served.await.unwrap().unwrap();
    assert_eq!(began.elapsed().as_secs(), 10);
}

#[tokio::test]
async fn a_session_and_self_describing_requests_share_a_connection() {
    let mut client = Client::connect(Options::default());
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    client.send(hello.to_string()).await;
    assert_eq!(client.receive().await["result"]["protocolVersion"], "2025-11-25");
    client.send(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#).await;
    assert_eq!(client.receive().await, json!({"jsonrpc": "2.0", "id": 2, "result": {}}));
    client.call(3, "echo", json!({"message": "modern"})).await;
    assert_eq!(client.receive().await["result"]["resultType"], "complete");
    let legacy = json!({"name": "echo", "arguments": {"message": "legacy"}});
    client
        .send(json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": legacy}).to_string())
        .await;
    assert_eq!(
        client.receive().await["result"],
        json!({"content": [{"type": "text", "text": "legacy"}]}),
        "a session of 2025-11-25 sees nothing of the later revision"
    );
    client.send(hello.to_string()).await;
    assert_eq!(client.receive().await["error"]["code"], -32600, "a session opens once");
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_answered_in_one_line_once_all_of_it_is_answered_or_cancelled() {
    let mut client = Client::connect(Options::default());
    let request = |id: u64, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let initialize = |revision: &str| {
        let info = json!({"name": "t", "version": "1"});
        request(0, "initialize", json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": info}))
    };
    let wait = |id: u64, seconds: u64| {
        request(id, "tools/call", json!({"name": "wait", "arguments": {"seconds": seconds}}))
    };
    client.send(json!([initialize("2025-03-26")]).to_string()).await;
    assert_eq!(client.receive().await["error"]["code"], -32600, "there is no session yet");
    client.send(initialize("2025-03-26").to_string()).await;
    client.receive().await;
    client
        .send(
            json!([
                wait(1, 3),
                request(2, "ping", json!({})),
                initialize("2025-03-26"),
                7,
                wait(3, 1),
                wait(4, 60)
            ])
            .to_string(),
        )
        .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4}});
    client.send(cancel.to_string()).await;
    let answers = client.receive().await;
    let answers: Vec<_> = answers
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| (answer["id"].as_u64(), answer["error"]["code"].as_i64()))
        .collect();
    let expected =
        [(Some(2), None), (Some(0), Some(-32600)), (None, Some(-32600)), (Some(3), None), (Some(1), None)];
    assert_eq!(answers, expected);
    client.send("[]").await;
    assert_eq!(client.receive().await["error"]["code"], -32600);
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    client.send(json!([notice]).to_string()).await;
    client.send(request(9, "ping", json!({})).to_string()).await;
    assert_eq!(client.receive().await["id"], 9, "a batch of notifications is not answered");

    let mut newer = Client::connect(Options::default());
    newer.send(initialize("2025-06-18").to_string()).await;
    newer.receive().await;
    newer.send(json!([request(1, "ping", json!({}))]).to_string()).await;
    assert_eq!(newer.receive().await["error"]["code"], -32600);
}
