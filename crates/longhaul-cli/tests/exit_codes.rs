//! The exit codes that only other people's servers lead to.

#![expect(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::{Value, json};

const LONGHAUL: &str = env!("CARGO_BIN_EXE_longhaul");

/// A server that answers each request with a status line and a body; its URL.
fn server(answer: fn(&Value) -> (&'static str, Value)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || serve(stream.unwrap(), answer));
        }
    });
    url
}

fn serve(mut stream: TcpStream, answer: fn(&Value) -> (&'static str, Value)) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let (status, body) = answer(&serde_json::from_slice(&body).unwrap_or_default());
        let body = body.to_string();
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
    }
}

fn call(url: &str) -> (i32, String) {
    let output = Command::new(LONGHAUL).args(["call", url, "ask"]).stdin(Stdio::null()).output().unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_server_that_wants_a_sign_in_is_3() {
    let url = server(|_| ("401 Unauthorized", json!({})));
    let (code, err) = call(&url);
    assert_eq!(code, 3, "{err}");
    assert!(err.starts_with("error: "), "{err}");
}

#[test]
fn a_tool_that_would_ask_and_says_so_before_is_6() {
    let url = server(|request| match request["method"].as_str() {
        Some("tools/call") => {
            let data = json!({ "requiredCapabilities": { "elicitation": { "form": {} } } });
            let error =
                json!({ "code": -32021, "message": "missing required client capability", "data": data });
            ("400 Bad Request", json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }))
        }
        _ => ("200 OK", offering(request)),
    });
    let (code, err) = call(&url);
    assert_eq!(code, 6, "{err}");
    assert!(err.contains("needs answers while it runs"), "{err}");
}

#[test]
fn a_tool_that_asks_when_nobody_can_answer_is_6() {
    let url = server(|request| {
        let form = json!({ "mode": "form", "message": "how?", "requestedSchema": { "type": "object", "properties": {} } });
        let questions = json!({ "q": { "method": "elicitation/create", "params": form } });
        let asked =
            json!({ "resultType": "input_required", "requestState": "s", "inputRequests": questions });
        match request["method"].as_str() {
            Some("tools/call") => {
                ("200 OK", json!({ "jsonrpc": "2.0", "id": request["id"], "result": asked }))
            }
            _ => ("200 OK", offering(request)),
        }
    });
    let (code, err) = call(&url);
    assert_eq!(code, 6, "{err}");
    assert!(err.starts_with("error: "), "{err}");
}

/// What a server says that has one tool.
fn offering(request: &Value) -> Value {
    let result = match request["method"].as_str() {
        Some("server/discover") => json!({
            "supportedVersions": ["2026-07-28"], "resultType": "complete", "ttlMs": 0,
            "cacheScope": "public", "capabilities": { "tools": {} },
        }),
        _ => json!({
            "tools": [{ "name": "ask", "inputSchema": { "type": "object" } }],
            "resultType": "complete", "ttlMs": 0, "cacheScope": "public",
        }),
    };
    json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })
}
