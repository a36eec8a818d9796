//! Advisories against other implementations, each as its report has it. Those about callers who sign in are among the
//! tests of `auth`, those about commands among those of the gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longhaul::client::{Client, Options as ClientOptions, Target};
use longhaul::server::{Resource, ResourceTemplate};
use longhaul::transport::http::server::Options;
use longhaul::{Cx, Server};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use crate::door::{METHODS, PATHS};
use crate::rig::{Answer, Host, hear, hello, modern, request};

/// The TypeScript SDK checked no `Host` unless it was told to: a page could open a session on this machine.
#[tokio::test]
async fn advisory_cve_2025_66414() {
    let host = Host::with(Options::default().max_sessions(1)).await;
    let name = format!("evil.example:{}", host.address.port());
    let page = [("host", name.as_str()), ("origin", "http://evil.example")];
    assert_eq!(host.post(&page, &hello()).await.status, 403);
    assert_eq!(host.post(&page[..1], &hello()).await.status, 403);
    host.initialize().await;
}

/// The Python SDK did the same for the routes of HTTP+SSE.
#[tokio::test]
async fn advisory_cve_2025_66416() {
    let host = Host::start().await;
    for (method, path) in [
        ("GET", "/sse"),
        ("POST", "/messages?session_id=x"),
        ("POST", "/message?sessionId=x"),
        ("GET", "/mcp"),
    ] {
        let page = [("host", "evil.example"), ("accept", "text/event-stream")];
        assert_eq!(host.request(method, path, &page, "").await.status, 403, "{method} {path}");
    }
}

/// The Go SDK did the same.
#[tokio::test]
async fn advisory_cve_2026_34742() {
    let host = Host::start().await;
    let body = modern("server/discover", json!({})).to_string();
    let page = [
        ("host", "rebound.example"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "server/discover"),
    ];
    assert_eq!(host.post(&page, &body).await.status, 403);
    assert_eq!(host.post(&page[1..], &body).await.status, 200);
}

/// The Java SDK checked no `Origin`.
#[tokio::test]
async fn advisory_cve_2026_35568() {
    let host = Host::start().await;
    for origin in ["http://evil.example", "null"] {
        assert_eq!(host.post(&[("origin", origin)], &hello()).await.status, 403, "{origin}");
    }
}

/// rmcp compared no `Host`; a name that only begins like an allowed one must not do.
#[tokio::test]
async fn advisory_cve_2026_42559() {
    let host = Host::start().await;
    for name in [
        "localhost.evil.example",
        "127.0.0.1.nip.example",
        "localhostevil",
        "127.0.0.10",
        "evil.example#localhost",
    ] {
        assert_eq!(host.post(&[("host", name)], &hello()).await.status, 403, "{name}");
    }
}

/// The Python SDK guarded one transport and forgot another.
#[tokio::test]
async fn advisory_cve_2026_59950() {
    let host = Host::start().await;
    for path in PATHS {
        for method in METHODS {
            let page = [
                ("origin", "http://evil.example"),
                ("connection", "Upgrade"),
                ("upgrade", "websocket"),
                ("sec-websocket-version", "13"),
                ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ];
            assert_eq!(host.request(method, path, &page, "").await.status, 403, "{method} {path}");
        }
    }
}

/// Docker's gateway checked neither name nor caller.
#[tokio::test]
async fn advisory_cve_2025_64443() {
    let host = Host::start().await;
    let call = modern("tools/call", json!({"name": "echo", "arguments": {"message": "hi"}})).to_string();
    let right = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "echo")];
    for page in [("host", "rebound.example"), ("origin", "http://rebound.example")] {
        let headers: Vec<_> = right.into_iter().chain([page]).collect();
        assert_eq!(host.post(&headers, &call).await.status, 403);
    }
    assert_eq!(host.runs(), 0);
}

/// The Go SDK read a body whatever its type: a page could post one without asking.
#[tokio::test]
async fn advisory_cve_2026_33252() {
    let host = Host::start().await;
    assert_eq!(host.post(&[("content-type", "text/plain")], &hello()).await.status, 415);
    assert_eq!(host.request("POST", "/mcp", &[], &hello()).await.status, 415);
}

/// The Java SDK let every page read its answers, the session's id among them.
#[tokio::test]
async fn advisory_cve_2026_34237() {
    let host = Host::start().await;
    for origin in [None, Some(("origin", "http://evil.example")), Some(("origin", "http://localhost"))] {
        let answer = host.post(&Vec::from_iter(origin), &hello()).await;
        assert_ne!(answer.header("access-control-allow-origin"), Some("*"), "{answer:?}");
        if origin != Some(("origin", "http://localhost")) {
            assert_eq!(answer.header("access-control-expose-headers"), None, "{answer:?}");
        }
    }
}

/// Inspector's proxy ran whatever command it was asked to, by whoever asked.
#[tokio::test]
async fn advisory_cve_2025_49596() {
    let host = Host::start().await;
    for (method, path) in [
        ("GET", "/sse?transportType=stdio&command=touch&args=/tmp/x"),
        ("GET", "/stdio?command=touch"),
        ("POST", "/mcp?transportType=stdio&command=touch"),
        ("GET", "/mcp?url=http://127.0.0.1/"),
    ] {
        let page =
            [("origin", "http://0.0.0.0:6274"), ("content-type", "application/json"), ("accept", "*/*")];
        assert_eq!(host.request(method, path, &page, &hello()).await.status, 403, "{method} {path}");
        assert_ne!(
            host.request("GET", path, &[("accept", "text/event-stream")], "").await.status,
            200,
            "{path}"
        );
    }
}

/// Inspector showed an address it was given as a link, scripts included. Nothing here is shown as a page.
#[tokio::test]
async fn advisory_cve_2025_58444() {
    let host = Host::start().await;
    let script = "<script>alert(1)</script>";
    for answer in [
        host.request("GET", "/<script>alert(1)</script>", &[], "").await,
        host.request("GET", "/mcp?x=javascript:alert(1)", &[("accept", script)], "").await,
        host.post(&[("origin", "javascript:alert(1)")], &hello()).await,
        host.post(&[("host", script)], &hello()).await,
        host.post(&[("mcp-session-id", script)], &request(script, json!({})).to_string()).await,
        host.modern(script, json!({})).await,
        host.call(script, json!({})).await,
    ] {
        let kind = answer.header("content-type").unwrap_or("none");
        assert!(
            ["application/json", "text/plain", "none"].iter().any(|safe| kind.starts_with(safe)),
            "{answer:?}"
        );
    }
}

/// The Ruby SDK gave a session's stream to whoever asked for it last.
#[tokio::test]
async fn advisory_cve_2026_33946() {
    let host = Host::start().await;
    let session = host.initialize().await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(host.listen(&session).await);
    }
    let call = request("tools/call", json!({"name": "long_nap", "arguments": {"millis": 20}, "task": {}}));
    host.in_session(&session, &call).await;
    let first = hear(&mut streams[0], Duration::from_millis(500)).await;
    assert!(first.body.contains("notifications/tasks/status"), "{first:?}");
}

/// oatpp-mcp took an address in memory for the id of a session.
#[tokio::test]
async fn advisory_cve_2025_6515() {
    let host = Host::start().await;
    let (first, _gone) = (host.initialize().await, host.initialize().await);
    let close = host.request("DELETE", "/mcp", &[("mcp-session-id", &first)], "").await;
    assert_eq!(close.status, 204);
    for _ in 0..50 {
        let next = host.initialize().await;
        assert_ne!(next, first, "no id comes again");
        let common = next.bytes().zip(first.bytes()).take_while(|(a, b)| a == b).count();
        assert!(common < 16, "{next} begins like {first}");
    }
}

/// FrontMCP replayed events by names that repeat in every session.
#[tokio::test]
async fn advisory_ghsa_84j6_jc92_77jm() {
    let host = Host::start().await;
    let (ours, theirs) = (host.initialize().await, host.initialize().await);
    let call = request(
        "tools/call",
        json!({"name": "nap", "arguments": {"millis": 1}, "_meta": {"progressToken": 1}}),
    );
    let answer = host.in_session(&theirs, &call).await;
    let event = answer.body.lines().find_map(|line| line.strip_prefix("id:")).unwrap().trim();
    for event in
        [event, "1", "1_0", "_GET_stream", "_GET_stream_0", &format!("{theirs}-0"), &format!("{theirs}_1_0")]
    {
        let headers =
            [("accept", "text/event-stream"), ("mcp-session-id", ours.as_str()), ("last-event-id", event)];
        assert_eq!(host.request("GET", "/mcp", &headers, "").await.status, 400, "{event}");
    }
}

/// FastMCP (issue 4402) called the stream of every session alike.
#[tokio::test]
async fn advisory_fastmcp_4402() {
    let host = Host::start().await;
    let (ours, theirs) = (host.initialize().await, host.initialize().await);
    let listen = async |session: &str, last: Option<&str>| {
        let mut stream = host.connect().await;
        let last = last.map(|last| format!("Last-Event-ID: {last}\r\n")).unwrap_or_default();
        let get = format!(
            "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\n{last}\r\n"
        );
        stream.write_all(get.as_bytes()).await.unwrap();
        hear(&mut stream, Duration::from_millis(200)).await
    };
    let first =
        |answer: &Answer| answer.body.lines().find_map(|line| line.strip_prefix("id: ")).map(str::to_owned);
    let (mine, other) = (listen(&ours, None).await, listen(&theirs, None).await);
    let (mine, other) = (first(&mine).unwrap(), first(&other).unwrap());
    assert_ne!(mine, other);
    assert_eq!(listen(&ours, Some(&other)).await.status, 400);
    assert_eq!(listen(&ours, Some(&mine)).await.status, 200);
}

/// The TypeScript SDK kept one table of requests for all clients, whose ids all begin at 0.
#[tokio::test]
async fn advisory_cve_2026_25536() {
    let host = Host::start().await;
    let sessions = [host.initialize().await, host.initialize().await];
    let ask = |number: usize| {
        let (host, session) = (&host, sessions[number].as_str());
        async move {
            let params = json!({"name": "nap", "arguments": {"millis": 100 - 60 * number}, "_meta": {"progressToken": 0}});
            let call = json!({"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": params});
            host.in_session(session, &call).await.messages()
        }
    };
    let (first, second) = tokio::join!(ask(0), ask(1));
    for messages in [first, second] {
        let answers = messages.iter().filter(|message| message.get("result").is_some()).count();
        assert_eq!((messages.len(), answers), (2, 1), "its own progress and its own answer: {messages:?}");
    }
}

/// rmcp kept a session for every POST that nobody followed up.
#[tokio::test]
async fn advisory_ghsa_9pj6_vhgr_3mwh() {
    let host = Host::with(Options::default().max_sessions(8)).await;
    for _ in 0..100 {
        let answer = host.post(&[], &hello()).await;
        assert_eq!(answer.status, 200, "who comes later is not kept out: {answer:?}");
    }
    let list = request("tools/list", json!({}));
    for _ in 0..20 {
        assert_eq!(
            host.post(&[], &list.to_string()).await.status,
            400,
            "and no session is made of anything else"
        );
    }
}

/// The Go SDK took `Method` for `method`.
#[tokio::test]
async fn advisory_cve_2026_27896() {
    let host = Host::start().await;
    let call = modern("tools/call", json!({"name": "echo", "arguments": {"message": "hi"}})).to_string();
    let headers =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "echo")];
    for (right, wrong) in [
        ("method", "Method"),
        ("params", "PARAMS"),
        ("jsonrpc", "JsonRpc"),
        ("arguments", "Arguments"),
        ("message", "Message"),
        ("name", "NAME"),
        ("_meta", "_Meta"),
        ("io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/ProtocolVersion"),
    ] {
        let body = call.replacen(&format!("\"{right}\":"), &format!("\"{wrong}\":"), 1);
        assert_ne!(body, call);
        host.post(&headers, &body).await;
        assert_eq!(host.runs(), 0, "{wrong}");
    }
}

/// And `method\0` as well.
#[tokio::test]
async fn advisory_ghsa_q382_vc8q_7jhj() {
    let host = Host::start().await;
    let call = modern("tools/call", json!({"name": "echo", "arguments": {"message": "hi"}})).to_string();
    let headers =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "echo")];
    for member in ["method", "params", "name", "arguments", "message"] {
        for named in [
            format!(r"{member}\u0000"),
            format!(r"\u0000{member}"),
            format!("{member}\0"),
            format!("{member} "),
        ] {
            let body = call.replacen(&format!("\"{member}\":"), &format!("\"{named}\":"), 1);
            assert_ne!(body, call);
            host.post(&headers, &body).await;
            assert_eq!(host.runs(), 0, "{named:?}");
        }
    }
}

/// The Python SDK went down with one message that it could not read.
#[tokio::test]
async fn advisory_cve_2025_53366() {
    let host = Host::start().await;
    for message in [
        json!({}),
        json!([]),
        json!(null),
        json!("x"),
        json!({"jsonrpc": "2.0"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": 7}),
        json!({"jsonrpc": "2.0", "id": null, "method": "ping"}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled"}),
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": {}}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"clientInfo": 7}}),
    ] {
        let answer = host.post(&[], &message.to_string()).await;
        assert!(answer.status >= 400 || answer.status == 202, "{message}: {answer:?}");
    }
    assert_eq!(host.call("echo", json!({"message": "hi"})).await.status, 200);
}

/// And with a client that hung up while it was answered.
#[tokio::test]
async fn advisory_cve_2025_53365() {
    let host = Host::start().await;
    let session = host.initialize().await;
    for millis in [0, 1, 5, 20] {
        let call = request(
            "tools/call",
            json!({"name": "nap", "arguments": {"millis": 50}, "_meta": {"progressToken": millis}}),
        );
        let body = json!({"jsonrpc": "2.0", "id": millis, "method": "tools/call", "params": call["params"]})
            .to_string();
        let mut stream = host.connect().await;
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
            Mcp-Session-Id: {session}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(millis)).await;
        stream.set_zero_linger().unwrap();
        drop(stream);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(host.call("echo", json!({"message": "hi"})).await.status, 200);
}

/// `h3` and Hono let a line end in a text end its event.
#[tokio::test]
async fn advisory_ghsa_4hxc_9384_m385() {
    let host = Host::with(Options::default().always_stream(true)).await;
    let answer = host.call("echo", json!({"message": "a\rdata: b\r\revent: c\n\nid: 7\n\n"})).await;
    assert_eq!(answer.messages().len(), 1, "{answer:?}");
    assert_eq!(answer.body.matches("data:").count(), 2, "its own, and the one in the text: {answer:?}");
    assert!(!answer.body.contains("\nevent:") && !answer.body.contains("\nid: 7"), "{answer:?}");
}

/// Nor does what a client calls the event that it had last get into an answer.
#[tokio::test]
async fn advisory_ghsa_p6xx_57qc_3wxr() {
    let host = Host::start().await;
    let session = host.initialize().await;
    let get = format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\n\
        Last-Event-ID: a\rdata: x\r\n\r\n"
    );
    let answer = host.raw(&get).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(!answer.body.contains("data:"), "{answer:?}");
}

/// A server whose templates and resources say what they were read with.
fn library() -> Server {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Book {
        name: String,
    }
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Split {
        f: String,
    }
    let book = |_: Cx, Book { name }: Book| async move { format!("book {name}") };
    let split = |_: Cx, Split { f }: Split| async move { format!("the last is {f}") };
    Server::new("library", "1.0.0")
        .resource(Resource::text("test://shelf/one", "one", "one"))
        .resource_template(ResourceTemplate::typed("test://book/{name}/text", "book", book))
        .resource_template(ResourceTemplate::typed("test://split/{+a,b,c,d,e,f}/end", "split", split))
}

/// Reads a resource over a byte stream of its own.
async fn read(uri: &str) -> Value {
    let (ours, theirs) = tokio::io::duplex(1 << 22);
    let (reader, writer) = tokio::io::split(theirs);
    let dispatcher = library().dispatcher().unwrap();
    let principal = longhaul::server::Principal::new("t").unwrap();
    let never = std::future::pending();
    tokio::spawn(longhaul::driver::serve(
        dispatcher,
        principal,
        reader,
        writer,
        longhaul::driver::Options::default(),
        never,
    ));
    let (reader, mut writer) = tokio::io::split(ours);
    let asked = modern("resources/read", json!({"uri": uri}));
    writer.write_all(format!("{asked}\n").as_bytes()).await.unwrap();
    let line = BufReader::new(reader).lines().next_line().await.unwrap().unwrap();
    serde_json::from_str(&line).unwrap()
}

/// FastMCP put a parameter into a path as it was: `../admin` left the path that the operator had written.
#[tokio::test]
async fn advisory_cve_2026_32871() {
    assert_eq!(read("test://book/a/text").await["result"]["contents"][0]["text"], "book a");
    for escape in [
        "test://book/../admin/text",
        "test://book/a/b/text",
        "test://book//text",
        "test://book/a/text/../../admin",
        "test://book/a/text?x",
        "test://book/a/text#x",
    ] {
        let answer = read(escape).await;
        assert_eq!(answer["error"]["code"], -32602, "{escape}: {answer}");
    }
    // What is encoded is one value, which its function is given as it was meant: it never was part of the path.
    let answer = read("test://book/..%2Fadmin/text").await;
    assert!(
        answer["error"].is_object() || answer["result"]["contents"][0]["text"] == "book ../admin",
        "{answer}"
    );
}

/// The filesystem server took a name that only begins like an allowed folder, and a link out of one.
#[tokio::test]
async fn advisory_cve_2025_53109() {
    for near in [
        "test://shelf/one/../two",
        "test://shelf/one_more",
        "test://shelf/one/",
        "test://shelf/./one",
        "TEST://shelf/one",
        "test://shelf/%6Fne",
    ] {
        let answer = read(near).await;
        assert_eq!(answer["error"]["code"], -32602, "{near}: {answer}");
    }
}

/// The same server compared paths by how they begin.
#[tokio::test]
async fn advisory_cve_2025_53110() {
    let answer = read("test://shelf/one../../../etc/passwd").await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

/// The git server took a path out of its repository. What is read here is found by its name and opened by nobody.
#[tokio::test]
async fn advisory_cve_2026_27735() {
    for path in [
        "file:///etc/passwd",
        "/etc/passwd",
        "../../etc/passwd",
        "test://shelf/../../etc/passwd",
        "file://localhost/etc/passwd",
    ] {
        let answer = read(path).await;
        assert_eq!(answer["error"]["code"], -32602, "{path}: {answer}");
    }
}

/// The TypeScript SDK matched URIs with an expression that took for ever over some of them. One that goes back to try
/// another way would come to no end here: each comma of the last could be the one that parts two of the variables.
#[tokio::test]
async fn advisory_cve_2026_0621() {
    let uris = [
        format!("test://book/{}/tex", "a,".repeat(400_000)),
        format!("test://book/{}/tex", "a,".repeat(4_000)),
        format!("test://split/{}/en", ",".repeat(8_000)),
    ];
    for uri in uris {
        let answer = read(&uri).await;
        assert_eq!(answer["error"]["code"], -32602, "{uri:.40} {answer:.200}");
    }
    let answer = read("test://split/1,2,3,4,5,6,7/end").await;
    assert_eq!(answer["result"]["contents"][0]["text"], "the last is 6,7");
}

/// Takes one connection after another, answers each with `answer`, and counts them.
async fn fixed(answer: String) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let mut request = [0; 8192];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (url, asked)
}

/// rmcp's client sent the headers it was given to wherever it was sent on to.
#[tokio::test]
async fn advisory_cve_2026_64684() {
    let (thief, asked) = fixed("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned()).await;
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        let answer = format!(
            "HTTP/1.1 {status}\r\nLocation: {thief}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let (server, was_asked) = fixed(answer).await;
        let options = ClientOptions::default().bearer("canary");
        assert!(Client::connect_with(Target::url(server), options).await.is_err(), "{status}");
        assert!(was_asked.load(Ordering::SeqCst) > 0);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0, "nobody was sent on");
}
