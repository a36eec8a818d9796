//! What the example promises.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;

use longhaul::Client;
use longhaul::client::Options;
use serde_json::{Value, json};
use tokio::net::TcpListener;

mod notebook;

const ANN: &str = "ann-0123456789abcdef0123456789abcdef";
const BOB: &str = "bob-0123456789abcdef0123456789abcdef";

#[tokio::test]
async fn who_shows_a_token_comes_in_and_does_what_it_allows() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = notebook::server().unwrap();
    tokio::spawn(server.serve_http(listener, notebook::options(ANN, BOB).unwrap()));

    let client = |token: &'static str| Client::connect_with(url.as_str(), Options::default().bearer(token));
    let ann = client(ANN).await.unwrap();
    let noted = ann.call("write", &json!({"text": "buy milk"})).await.unwrap();
    assert_eq!(noted.content[0].as_text(), Some("noted"));
    let bob = client(BOB).await.unwrap();
    let read = bob.call("read", &json!({})).await.unwrap();
    assert_eq!(read.content[0].as_text(), Some("token:ann: buy milk"));
    ann.close().await;
    bob.close().await;

    assert_eq!(call(&url, None, "read").await, (401, "Bearer scope=\"read\"".to_owned()));
    let (status, challenge) = call(&url, Some("a-token-that-nobody-has-handed-out-0123456789"), "read").await;
    assert_eq!(status, 401);
    assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
    // What is lacking is said whole.
    let (status, challenge) = call(&url, Some(BOB), "write").await;
    assert_eq!(status, 403);
    assert!(challenge.contains("scope=\"read write\", error=\"insufficient_scope\""), "{challenge}");
}

/// One call as a client of the modern era makes it: the status, and the challenge.
async fn call(url: &str, token: Option<&str>, tool: &str) -> (u16, String) {
    let meta: HashMap<&str, Value> = HashMap::from([
        ("io.modelcontextprotocol/protocolVersion", json!("2026-07-28")),
        ("io.modelcontextprotocol/clientCapabilities", json!({})),
    ]);
    let params = json!({"name": tool, "arguments": {"text": "x"}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let mut request = reqwest::Client::new()
        .post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", tool)
        .body(body.to_string());
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let answer = request.send().await.unwrap();
    let challenge = answer.headers().get("www-authenticate");
    (answer.status().as_u16(), challenge.map_or(String::new(), |text| text.to_str().unwrap().to_owned()))
}

#[test]
fn whoever_starts_it_without_tokens_is_told_what_to_set() {
    let started =
        std::process::Command::new(env!("CARGO_BIN_EXE_protected")).env_remove("ANN_TOKEN").output();
    let said = String::from_utf8(started.unwrap().stderr).unwrap();
    assert!(said.starts_with("Error: set ANN_TOKEN to 32 random characters or more\n"), "{said}");
}
