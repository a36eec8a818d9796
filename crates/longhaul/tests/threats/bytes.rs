//! What bytes can be made to mean.

use std::time::Duration;

use longhaul::driver::{self, Options};
use longhaul::server::Principal;
use longhaul::transport::http::server;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::rig::{self, Host, modern};

fn call(message: &str) -> Value {
    modern("tools/call", json!({"name": "echo", "arguments": {"message": message}}))
}

#[tokio::test]
async fn s13_headers_and_body_say_the_same_or_nothing_runs() {
    let host = Host::start().await;
    let body = call("hi").to_string();
    let right = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "echo")];
    assert_eq!(host.post(&right, &body).await.status, 200);
    for (name, values) in [
        ("mcp-method", &["", "tools/list", "TOOLS/CALL", "tools/call,tools/list", "tools/call;x"][..]),
        (
            "mcp-name",
            &["", "nap", "Echo", "echo,nap", "=?base64?bmFw?=", "=?base64?ZWNobw?=", "=?base64?!!?="],
        ),
        ("mcp-protocol-version", &["2025-11-25", "v999", "2026-07-28, 2025-11-25"]),
    ] {
        let others: Vec<_> = right.into_iter().filter(|(other, _)| *other != name).collect();
        let without = host.post(&others, &body).await;
        assert_eq!((without.status, without.code()), (400, -32020), "without {name}: {without:?}");
        for value in values {
            let mut headers = others.clone();
            headers.push((name, value));
            let answer = host.post(&headers, &body).await;
            assert_eq!(answer.status, 400, "{name}: {value:?}: {answer:?}");
        }
        // Given twice, one reader could take the first and another the last.
        let mut headers = right.to_vec();
        headers.push((name, right.iter().find(|(other, _)| *other == name).unwrap().1));
        assert_eq!(host.post(&headers, &body).await.status, 400, "{name} twice");
    }
    assert_eq!(host.runs(), 1);
    let mut encoded = right.to_vec();
    encoded[2].1 = "=?base64?ZWNobw==?=";
    assert_eq!(host.post(&encoded, &body).await.status, 200);
}

/// Bytes that two readers could understand as two messages, or one of them not at all.
fn ambiguous() -> Vec<String> {
    let whole = call("hi").to_string();
    let with = |from: &str, to: &str| {
        assert!(whole.contains(from), "{from}");
        whole.replacen(from, to, 1)
    };
    vec![
        with(r#""method":"tools/call""#, r#""method":"tools/call","method":"ping""#),
        with(r#""method":"tools/call""#, r#""Method":"tools/call""#),
        with(r#""method":"tools/call""#, r#""method\u0000":"tools/call""#),
        with(r#""method":"tools/call""#, r#""\u0000method":"tools/call""#),
        with(r#""method":"tools/call""#, r#""METHOD":"tools/call""#),
        with(r#""method":"tools/call""#, r#""method":"tools/call","\u006dethod":"ping""#),
        with(r#""jsonrpc":"2.0""#, r#""JSONRPC":"2.0""#),
        with(r#""jsonrpc":"2.0""#, r#""jsonrpc":"2.0","jsonrpc":"2.0""#),
        with(r#""id":1"#, r#""id":1,"id":2"#),
        with(r#""id":1"#, r#""id":1.5"#),
        with(r#""id":1"#, r#""id":{}"#),
        with(r#""id":1"#, r#""id":[1]"#),
        with(r#""id":1"#, r#""id":true"#),
        with(r#""name":"echo""#, r#""name":"echo","name":"nap""#),
        with(r#""name":"echo""#, r#""Name":"echo""#),
        with(r#""name":"echo""#, r#""name":["echo"]"#),
        with(r#""params":{"#, r#""params":{},"params":{"#),
        with(r#""arguments":{"#, r#""arguments":{},"arguments":{"#),
        format!("\u{feff}{whole}"),
        format!("{whole}{whole}"),
        format!("{whole}x"),
        format!("[{whole}]"),
        format!("{whole},"),
        whole.replace('"', "'"),
        with(r#""message":"hi""#, r#""message":"\ud800""#),
        with(r#""message":"hi""#, "\"message\":\"h\u{1}i\""),
        with(r#""message":"hi""#, r#""message":"hi",}"#),
        with(r#""message":"hi""#, r#"/* */"message":"hi""#),
        with(r#""message":"hi""#, r#""message":NaN"#),
    ]
}

#[tokio::test]
async fn s14_what_could_be_read_in_two_ways_is_not_read() {
    let host = Host::start().await;
    let headers =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "echo")];
    for body in ambiguous() {
        let answer = host.post(&headers, &body).await;
        let refused = answer.status >= 400
            || answer.json()["result"]["isError"] == true
            || answer.json().get("error").is_some();
        assert!(refused, "{body}: {answer:?}");
    }
    assert_eq!(host.runs(), 0);
    // An escape is no difference: both readers understand it alike.
    let escaped = call("hi").to_string().replace("tools/call", r"tools\/c\u0061ll");
    assert_eq!(host.post(&headers, &escaped).await.status, 200);
}

#[tokio::test]
async fn s15_what_is_nested_or_counted_without_end_is_refused() {
    let host = Host::with(server::Options::default()).await;
    let headers =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "echo")];
    let whole = call("hi").to_string();
    let bomb =
        |open: &str, close: &str, depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        for depth in [100, 100_000] {
            for member in ["arguments", "_meta", "other"] {
                let bomb = bomb(open, close, depth);
                let body = match member {
                    "other" => whole.replacen(r#""id":1"#, &format!(r#""id":1,"other":{bomb}"#), 1),
                    "_meta" => whole.replacen(r#""progressToken":"p""#, &format!(r#""x":{bomb}"#), 1),
                    _ => whole.replacen(r#""hi""#, &bomb, 1),
                };
                let answer = host.post(&headers, &body).await;
                assert_eq!(answer.status, 400, "{open}{member} {depth}: {:.300}", answer.body);
            }
        }
    }
    for number in ["1e999999", "9007199254740993", &"9".repeat(100_000), "-0", "1e-999999"] {
        let answer = host.post(&headers, &whole.replacen(r#""hi""#, number, 1)).await;
        assert_eq!(answer.json()["result"]["isError"], true, "{number:.20} is no text: {:.300}", answer.body);
        let odd = host.post(&headers, &whole.replacen(r#""id":1"#, &format!(r#""id":{number}"#), 1)).await;
        // An id that is taken comes back as it was, to the last digit.
        assert!(
            odd.status >= 400 || odd.body.contains(&format!(r#""id":{}"#, number.trim_start_matches('-'))),
            "{odd:?}"
        );
    }
    assert_eq!(host.call("echo", json!({"message": "hi"})).await.status, 200);
}

#[tokio::test]
async fn s16_no_text_ends_its_event() {
    let host = Host::with(server::Options::default().always_stream(true)).await;
    for text in [
        "a\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n",
        "a\r\revent: x\rdata: y\r\r",
        "a\r\nid: 7\r\n",
        "\u{2028}\u{85}",
        "\0",
        ": comment\n",
        "retry: 1\n\n",
    ] {
        let answer = host.call("echo", json!({"message": text})).await;
        assert_eq!(answer.header("content-type"), Some("text/event-stream"), "{answer:?}");
        assert_eq!(answer.messages().len(), 1, "{answer:?}");
        assert_eq!(answer.json()["result"]["content"][0]["text"], text);
        let body = answer
            .body
            .split("\r\n")
            .filter(|part| !part.is_empty() && part.len() > 6)
            .collect::<Vec<_>>()
            .concat();
        assert!(!body.contains('\r'), "{body:?}");
        let fields: Vec<_> = body.lines().filter(|line| !line.is_empty()).collect();
        assert!(fields.iter().all(|line| line.starts_with("data: ") || line.starts_with(':')), "{fields:?}");
    }
    let session = host.initialize().await;
    for event in ["a\tb", "a b", "\u{e9}", ":", "data:"] {
        let headers =
            [("accept", "text/event-stream"), ("mcp-session-id", session.as_str()), ("last-event-id", event)];
        assert_eq!(host.request("GET", "/mcp", &headers, "").await.status, 400, "{event:?}");
    }
}

#[tokio::test]
async fn s18_no_bytes_end_a_server() {
    let host = Host::start().await;
    let answer = host.call("panic", json!({})).await;
    assert_eq!(answer.code(), -32603);
    assert!(!answer.body.contains("on purpose"), "what it says of itself stays in the log");
    // Over a byte stream: anything at all, and then a ping.
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(theirs);
    let dispatcher = rig::server(&host.runs).dispatcher().unwrap();
    let principal = Principal::new("t").unwrap();
    let never = std::future::pending();
    tokio::spawn(driver::serve(dispatcher, principal, reader, writer, Options::default(), never));
    let (reader, mut writer) = tokio::io::split(ours);
    let mut lines = BufReader::new(reader).lines();
    let seeds = [
        call("hi").to_string(),
        rig::hello(),
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#.to_owned(),
    ];
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % u64::try_from(below).unwrap()).unwrap()
    };
    for turn in 0..3000 {
        let mut bytes = seeds[turn % seeds.len()].clone().into_bytes();
        for _ in 0..=next(6) {
            let at = next(bytes.len().max(1));
            match next(4) {
                _ if bytes.is_empty() => {}
                0 => bytes[at] = u8::try_from(next(256)).unwrap(),
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, b"{}[]\",:\\0n"[next(10)]),
                _ => bytes.truncate(at.max(1)),
            }
        }
        bytes.retain(|byte| *byte != b'\n');
        bytes.push(b'\n');
        writer.write_all(&bytes).await.unwrap();
    }
    let ping = json!({"jsonrpc": "2.0", "id": "still here?", "method": "ping"});
    writer.write_all(format!("{ping}\n").as_bytes()).await.unwrap();
    let answered = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == "still here?" {
                return;
            }
        }
        panic!("the connection ended");
    };
    tokio::time::timeout(Duration::from_secs(60), answered).await.unwrap();
}

#[tokio::test]
async fn s44_what_is_packed_is_not_unpacked() {
    let host = Host::start().await;
    for encoding in ["gzip", "deflate", "br", "zstd", "gzip, gzip"] {
        let headers = [("content-encoding", encoding)];
        let answer = host.post(&headers, "\u{1f}\u{8b}\u{8}").await;
        assert!(matches!(answer.status, 400 | 415), "{encoding}: {answer:?}");
    }
}
