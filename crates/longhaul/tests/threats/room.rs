//! What a caller can use up.

use std::time::Duration;

use longhaul::proto::jsonrpc::Limits;
use longhaul::transport::http::server::Options;
use longhaul_test::Log;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::door::{METHODS, PATHS};
use crate::rig::{Host, hear, hello, modern, request};

#[tokio::test]
async fn s9_what_is_no_handshake_leaves_no_session() {
    let host = Host::with(Options::default().max_sessions(1)).await;
    for params in
        [json!({}), json!({"protocolVersion": "2025-11-25"}), json!([]), json!({"protocolVersion": 7})]
    {
        for _ in 0..20 {
            let answer = host.post(&[], &request("initialize", params.clone()).to_string()).await;
            assert_eq!((answer.status, answer.header("mcp-session-id")), (400, None), "{answer:?}");
        }
    }
    host.initialize().await;
}

/// Sessions that nobody uses do not keep others out, however many are opened.
#[tokio::test]
async fn s9_sessions_that_nobody_uses_make_room() {
    let host = Host::with(Options::default().max_sessions(4)).await;
    let used = host.initialize().await;
    let ping = request("ping", json!({}));
    assert_eq!(host.in_session(&used, &ping).await.status, 200);
    for _ in 0..50 {
        host.initialize().await;
    }
    assert_eq!(host.in_session(&used, &ping).await.status, 200, "one that is used stays");
}

/// One session cannot have every connection, whatever it opens.
#[tokio::test]
async fn s9_the_streams_of_a_session_leave_room_for_others() {
    let host = Host::with(Options::default().max_connections(16)).await;
    let session = host.initialize().await;
    let mut streams = Vec::new();
    for nth in 0..40 {
        let opened = tokio::time::timeout(Duration::from_secs(20), host.listen(&session)).await;
        streams.push(opened.unwrap_or_else(|_| panic!("stream {nth} is refused")));
    }
    assert_eq!(host.call("echo", json!({"message": "hi"})).await.status, 200);
    // The last ones are open still.
    for stream in &mut streams[32..] {
        let heard = hear(stream, Duration::from_millis(20)).await;
        assert!(!heard.body.ends_with("0\r\n\r\n") && !heard.head.ends_with("0"), "{heard:?}");
    }
}

/// Nor do requests that do not end, and connections that ask nothing more, while those that are answered stay.
#[tokio::test]
async fn s11_unfinished_requests_make_room() {
    let long = Duration::from_secs(600);
    let host =
        Host::with(Options::default().max_connections(4).body_timeout(long).header_timeout(long)).await;
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n";
    let nap = modern("tools/call", json!({"name": "nap", "arguments": {"millis": 1500}})).to_string();
    let mut busy = host.connect().await;
    let mirrored = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: nap\r\n";
    let request = format!("{head}{mirrored}Connection: close\r\nContent-Length: {}\r\n\r\n{nap}", nap.len());
    busy.write_all(request.as_bytes()).await.unwrap();
    while host.runs() < 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let ping = request_of_ping();
    let rests = [
        "Content-Length: 1000\r\n\r\n{".to_owned(),
        "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n".to_owned(),
        format!("Content-Length: {}\r\n\r\n{ping}", ping.len()),
    ];
    for rest in &rests {
        let mut held = Vec::new();
        for _ in 0..10 {
            let mut stream = host.connect().await;
            stream.write_all(format!("{head}{rest}").as_bytes()).await.unwrap();
            held.push(stream);
        }
        let echo = host.call("echo", json!({"message": "hi"})).await;
        assert_eq!(echo.status, 200, "{rest}: {echo:?}");
    }
    let rested = hear(&mut busy, Duration::from_secs(20)).await;
    assert!(rested.body.contains("rested"), "{rested:?}");
}

fn request_of_ping() -> String {
    request("ping", json!({})).to_string()
}

/// A client that writes all it has before it reads anything hears why that is refused.
#[tokio::test]
async fn s10_who_sends_what_is_refused_is_told_why() {
    let host = Host::with(Options::default()).await;
    // More than waits between two programs.
    let long = " ".repeat(24 << 20);
    let chunked = format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
    let whole = format!("Content-Length: {}\r\n\r\n{long}", long.len());
    let json = "Content-Type: application/json\r\nAccept: */*\r\n";
    for (path, headers, status) in [
        ("/mcp", json, 413),
        ("/mcp", "Accept: */*\r\n", 415),
        ("/mcp", "Origin: http://evil.example\r\n", 403),
        ("/nowhere", json, 404),
    ] {
        for body in [&whole, &chunked] {
            let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}");
            let mut stream = host.connect().await;
            let written = stream.write_all(format!("{head}Connection: close\r\n{body}").as_bytes()).await;
            assert!(written.is_ok(), "{head} {}: {written:?}", &body[..20]);
            let answer = hear(&mut stream, Duration::from_secs(20)).await;
            assert_eq!(answer.status, status, "{head} {}: {answer:?}", &body[..20]);
        }
    }
    // Who asks whether to send it is told not to.
    let asks = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\n{json}Expect: 100-continue\r\n");
    let answer = host.raw(format!("{asks}Content-Length: {}\r\n\r\n", long.len())).await;
    assert_eq!(answer.status, 413, "{answer:?}");
    // Or to do so, and is as all others from there on.
    let mut stream = host.connect().await;
    let (head, body) = chunked.split_once("\r\n\r\n").unwrap();
    stream.write_all(format!("{asks}Connection: close\r\n{head}\r\n\r\n").as_bytes()).await.unwrap();
    let mut asked = [0; 25];
    stream.read_exact(&mut asked).await.unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(body.as_bytes()).await.unwrap();
    let answer = hear(&mut stream, Duration::from_secs(20)).await;
    assert_eq!(answer.status, 413, "{answer:?}");
}

/// Answers that nobody reads keep no more than they may, and whoever has read least makes room.
#[tokio::test]
async fn s11_answers_that_nobody_reads_make_room() {
    // More than waits between two programs.
    const LONG: usize = 16 << 20;
    let mut limits = Limits::default();
    limits.max_bytes = 2 * LONG;
    let host = Host::with(Options::default().limits(limits).max_writing(LONG * 5 / 2)).await;
    let body = modern("tools/call", json!({"name": "echo", "arguments": {"message": "x".repeat(LONG)}}));
    let body = body.to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut unread = Vec::new();
    for _ in 0..3 {
        let mut stream = host.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut begins = [0; 12];
        stream.read_exact(&mut begins).await.unwrap();
        assert_eq!(&begins, b"HTTP/1.1 200");
        unread.push(stream);
    }
    let mut whole = Vec::new();
    for mut stream in unread {
        let mut rest = Vec::new();
        // Of one that was ended only what had been written comes.
        let _ = stream.read_to_end(&mut rest).await;
        whole.push(rest.len() > LONG);
    }
    assert_eq!(whole, [false, true, true]);
}

#[tokio::test]
async fn s10_no_body_is_longer_than_it_may_be() {
    let mut limits = Limits::default();
    limits.max_bytes = 10_000;
    let host = Host::with(Options::default().limits(limits)).await;
    let long = format!("{}{}", hello(), " ".repeat(10_000));
    for path in PATHS {
        for method in METHODS {
            let headers = [("content-type", "application/json"), ("accept", "*/*")];
            let answer = host.request(method, path, &headers, &long).await;
            let expected =
                if (method, path) == ("POST", "/mcp") { answer.status == 413 } else { answer.status >= 400 };
            assert!(
                expected || method == "OPTIONS" || method == "HEAD" || path == "/healthz",
                "{method} {path}: {answer:?}"
            );
        }
    }
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n";
    // In pieces, without saying how long it is.
    let chunk = format!("{:x}\r\n{}\r\n", 4000, " ".repeat(4000));
    let answer =
        host.raw(format!("{head}Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", chunk.repeat(3))).await;
    assert_eq!(answer.status, 413, "{answer:?}");
    // Saying that it is longer than anything, or two things at once.
    let answer = host.raw(format!("{head}Content-Length: 99999999999\r\n\r\n{{")).await;
    assert_eq!(answer.status, 413, "{answer:?}");
    for lie in [
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: -1",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Content-Length: 0x5",
    ] {
        let answer = host.raw(format!("{head}{lie}\r\n\r\n{}", "{}   ")).await;
        assert!(answer.status != 200, "{lie}: {answer:?}");
    }
    // Headers are bounded as well.
    let many: String = (0..1000).map(|n| format!("x-{n}: y\r\n")).collect();
    let answer = host.raw(format!("{head}{many}\r\n")).await;
    assert!(matches!(answer.status, 0 | 400 | 431), "{answer:?}");
    let answer = host.raw(format!("{head}x: {}\r\n\r\n", "y".repeat(1 << 20))).await;
    assert!(matches!(answer.status, 0 | 400 | 431), "{answer:?}");
    let of_length =
        |length| format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nx: {}\r\n\r\n", "y".repeat(length));
    assert_eq!(host.raw(of_length(60 << 10)).await.status, 415);
    let answer = host.raw(of_length(128 << 10)).await;
    assert!(matches!(answer.status, 0 | 431), "{answer:?}");
    assert_eq!(host.runs(), 0);
}

/// Whoever sends too much hears so, however short a time it has for its next headers.
#[tokio::test]
async fn s10_who_is_refused_and_writes_on_hears_why() {
    let short = Duration::from_millis(200);
    let host = Host::with(Options::default().header_timeout(short)).await;
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n";
    let mut stream = host.connect().await;
    stream.write_all(format!("{head}Content-Length: 50000000\r\n\r\n").as_bytes()).await.unwrap();
    for _ in 0..20 {
        stream.write_all(&[b' '; 10_000]).await.unwrap();
        tokio::time::sleep(short / 4).await;
    }
    let mut heard = [0; 12];
    stream.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"HTTP/1.1 413");
}

#[tokio::test]
async fn s11_who_is_slow_is_let_go() {
    let (short, long) = (Duration::from_millis(200), Duration::from_secs(10));
    let options = Options::default().header_timeout(short).body_timeout(short);
    let host = Host::with(options).await;
    // A header that does not end, the first or behind another request, and a connection that says nothing at all.
    let asked =
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nPOST /mcp HTTP/1.1\r\nHost: localhost\r\nX-A: b";
    for begun in ["POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-A: b", asked, ""] {
        let mut stream = host.connect().await;
        stream.write_all(begun.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        tokio::time::timeout(long, stream.read_to_end(&mut rest)).await.unwrap().unwrap();
    }
    // A header of which a byte comes now and then.
    let mut stream = host.connect().await;
    stream.write_all(b"POST /mcp HTTP/1.1\r\nX-A: ").await.unwrap();
    let drip = async {
        while stream.write_all(b"b").await.is_ok() {
            tokio::time::sleep(short / 4).await;
        }
    };
    tokio::time::timeout(long, drip).await.unwrap();
    // A body of which a byte comes now and then.
    let mut stream = host.connect().await;
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n";
    stream.write_all(format!("{head}Content-Length: 1000\r\n\r\n").as_bytes()).await.unwrap();
    let (mut reading, mut writing) = stream.split();
    let drip = async {
        loop {
            tokio::time::sleep(short / 4).await;
            if writing.write_all(b" ").await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    let mut heard = [0; 12];
    tokio::select! {
        heard_it = tokio::time::timeout(long, reading.read_exact(&mut heard)) => { heard_it.unwrap().unwrap(); }
        () = drip => unreachable!("it goes on for ever"),
    }
    assert_eq!(&heard, b"HTTP/1.1 408");
    // Meanwhile everybody else is served.
    assert_eq!(host.call("echo", json!({"message": "hi"})).await.status, 200);
}

/// Who reads a long answer slowly asks nothing meanwhile, and has it all.
#[tokio::test]
async fn s11_who_reads_slowly_is_no_silent_client() {
    const LONG: usize = 3_900_000;
    let short = Duration::from_millis(200);
    let host = Host::with(Options::default().header_timeout(short)).await;
    let body = modern("tools/call", json!({"name": "echo", "arguments": {"message": "y".repeat(LONG)}}));
    let body = body.to_string();
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n\
        MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n";
    let mut stream = host.connect_narrowly().await;
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
    let (mut read, mut piece) = (0, vec![0; 64 << 10]);
    while read < LONG {
        if read < 20_000 {
            tokio::time::sleep(short).await;
        }
        let more = stream.read(&mut piece).await.unwrap();
        assert!(more > 0, "it ends after {read} bytes");
        read += more;
    }
    // Then it is one.
    stream.read_to_end(&mut Vec::new()).await.unwrap();
}

#[tokio::test]
async fn s12_no_flood_of_streams_is_spoken() {
    let host = Host::start().await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";
    let answer = host.raw(preface).await;
    assert!(matches!(answer.status, 0 | 400 | 505), "{answer:?}");
    assert!(!answer.head.contains('\u{4}'), "no frame comes back: {answer:?}");
    let upgrade =
        [("connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c"), ("http2-settings", "AAMAAABk")];
    assert_ne!(host.post(&upgrade, &hello()).await.status, 101);
}

#[tokio::test]
async fn s20_what_is_too_much_is_refused_before_it_runs() {
    let host = Host::with(Options::default().max_running(2)).await;
    let mut naps = JoinSet::new();
    let call = modern("tools/call", json!({"name": "nap", "arguments": {"millis": 3000}})).to_string();
    for _ in 0..2 {
        let mut stream = host.connect().await;
        let call = call.clone();
        let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n\
            MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: nap\r\n";
        let request = format!("{head}Content-Length: {}\r\n\r\n{call}", call.len());
        naps.spawn(async move {
            stream.write_all(request.as_bytes()).await.unwrap();
            hear(&mut stream, Duration::from_millis(800)).await
        });
    }
    while host.runs() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let refused = host.call("echo", json!({"message": "hi"})).await;
    assert_eq!((refused.status, refused.code()), (429, -31001), "{refused:?}");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(host.runs(), 2, "it has not run");
    naps.join_all().await;
    // Who hung up makes room.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(host.call("echo", json!({"message": "hi"})).await.status, 200);
}

/// However many sessions somebody opens, their streams do not keep others out, and somebody else's stream stays.
#[tokio::test]
async fn s9_the_streams_of_many_sessions_leave_room_for_others() {
    let host = Host::with(Options::default().max_connections(16)).await;
    let honest = host.initialize().await;
    let mut stays = host.listen(&honest).await;
    let mut streams = Vec::new();
    for _ in 0..6 {
        let session = host.initialize().await;
        for nth in 0..5 {
            let opened = tokio::time::timeout(Duration::from_secs(20), host.listen(&session)).await;
            streams.push(opened.unwrap_or_else(|_| panic!("stream {nth} is refused")));
        }
    }
    assert_eq!(host.call("echo", json!({"message": "hi"})).await.status, 200);
    assert_eq!(host.request("GET", "/healthz", &[], "").await.body, "ok");
    let mut byte = [0; 512];
    while let Ok(read) = tokio::time::timeout(Duration::from_millis(100), stays.read(&mut byte)).await {
        assert_ne!(read.unwrap(), 0, "the stream of whoever has one makes no room for those who have many");
    }
}

/// Where every connection is busy, whoever asks whether the server serves is answered; and whoever asks for more
/// waits a moment for a place, and then is told to come back.
#[tokio::test]
async fn a_server_whose_connections_are_all_busy_says_so() {
    let log = Log::of_this_thread();
    let host = Host::with(Options::default().max_connections(2)).await;
    let nap = async |millis: u64| {
        let call = modern("tools/call", json!({"name": "nap", "arguments": {"millis": millis}})).to_string();
        let mut stream = host.connect().await;
        let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n\
            MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: nap\r\n";
        let request = format!("{head}Content-Length: {}\r\n\r\n{call}", call.len());
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    };
    let _busy = [nap(60_000).await, nap(4_000).await];
    while host.runs() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for _ in 0..40 {
        let health = host.request("GET", "/healthz", &[], "").await;
        assert_eq!((health.status, health.body.as_str()), (200, "ok"));
    }
    let refused = host.call("echo", json!({"message": "hi"})).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("5")), "{refused:?}");
    assert_eq!(host.runs(), 2, "it has not run");
    let said = log.text();
    let warned =
        said.lines().filter(|line| line.contains("WARN") && line.contains("every connection")).count();
    assert_eq!(warned, 1, "once a minute: {said}");
    // Once there is a place, it is had by whoever waits for it.
    let mut status = 503;
    for _ in 0..10 {
        status = host.call("echo", json!({"message": "hi"})).await.status;
        if status != 503 {
            break;
        }
    }
    assert_eq!(status, 200);
}
