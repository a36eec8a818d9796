//! Who may speak to the server at all.

use longhaul::transport::http::server::Options;
use serde_json::json;

use crate::rig::{Host, hello, modern};

/// Paths that are, were or may be something somewhere.
pub(crate) const PATHS: [&str; 9] = [
    "/mcp",
    "/mcp/",
    "/",
    "/sse",
    "/message",
    "/messages",
    "/healthz",
    "/metrics",
    "/.well-known/oauth-protected-resource",
];

pub(crate) const METHODS: [&str; 6] = ["GET", "POST", "DELETE", "PUT", "OPTIONS", "HEAD"];

#[tokio::test]
async fn s1_a_name_that_is_rebound_reaches_nothing() {
    let host = Host::start().await;
    let port = host.address.port();
    let hosts = [
        "evil.example",
        "evil.example:80",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost.",
        "evil.example@localhost",
        "localhost@evil.example",
        "127.0.0.2",
        "0.0.0.0",
        "[::ffff:127.0.0.1]",
        "[::1",
        "localhost:80:80",
        "",
        "localhost, evil.example",
    ];
    let origins = [
        "http://evil.example",
        "https://localhost.evil.example",
        "null",
        "http://localhost@evil.example",
        "file://localhost",
        "http://127.0.0.1.evil.example:80",
        "http://",
        "localhost",
        "http://[::1",
        "chrome-extension://localhost",
        "",
    ];
    for path in PATHS {
        for method in METHODS {
            for name in hosts {
                let answer = host.request(method, path, &[("host", name)], "").await;
                assert!(matches!(answer.status, 400 | 403), "{method} {path} for {name:?}: {answer:?}");
            }
            for origin in origins {
                let answer = host.request(method, path, &[("origin", origin)], "").await;
                assert_eq!(answer.status, 403, "{method} {path} from {origin:?}: {answer:?}");
            }
        }
    }
    for twice in [
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: null\r\nConnection: close\r\n\r\n",
        "POST http://evil.example/mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    ] {
        let answer = host.raw(twice).await;
        assert!(matches!(answer.status, 400 | 403), "{twice}: {answer:?}");
    }
    for (name, origin) in [
        (format!("localhost:{port}"), "http://localhost"),
        (format!("127.0.0.1:{port}"), "http://127.0.0.1:3000"),
        (format!("[::1]:{port}"), "https://[::1]"),
    ] {
        let answer = host.post(&[("host", &name), ("origin", origin)], &hello()).await;
        assert_eq!(answer.status, 200, "{name} {origin}: {answer:?}");
    }
}

#[tokio::test]
async fn s2_what_a_page_can_post_without_asking_runs_nothing() {
    let host = Host::start().await;
    let call = modern("tools/call", json!({"name": "echo", "arguments": {"message": "hi"}})).to_string();
    for kind in [
        "text/plain",
        "text/plain; charset=utf-8",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain; application/json",
        "application/jsonp",
        "application/json+x",
        "text/json",
        "",
    ] {
        let headers = [
            ("content-type", kind),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "echo"),
        ];
        assert_eq!(host.post(&headers, &call).await.status, 415, "{kind:?}");
        let headers = [("content-type", kind)];
        assert_eq!(host.post(&headers, &hello()).await.status, 415, "{kind:?}");
    }
    // A page that a browser calls foreign is foreign, whatever its origin says of itself.
    for method in METHODS {
        let headers = [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "no-cors"),
            ("content-type", "application/json"),
        ];
        assert_eq!(host.request(method, "/mcp", &headers, &hello()).await.status, 403, "{method}");
    }
    assert_eq!(host.runs(), 0);
    let headers = [("sec-fetch-site", "cross-site"), ("origin", "http://localhost:3000")];
    assert_eq!(host.post(&headers, &hello()).await.status, 200, "an origin that is allowed is");
}

#[tokio::test]
async fn s3_no_page_is_let_in_by_a_star() {
    let host = Host::start().await;
    for origin in ["http://evil.example", "null", "http://localhost:3000"] {
        for method in METHODS {
            let answer = host
                .request(method, "/mcp", &[("origin", origin), ("access-control-request-method", "POST")], "")
                .await;
            let allowed = answer.header("access-control-allow-origin");
            assert!(
                allowed.is_none_or(|allowed| allowed == origin && origin.contains("localhost")),
                "{answer:?}"
            );
            assert!(allowed.is_none() || answer.header("vary").is_some(), "{answer:?}");
            assert_eq!(answer.header("access-control-allow-credentials"), None, "{answer:?}");
        }
    }
    let plain = host.post(&[], &hello()).await;
    assert_eq!(plain.header("access-control-allow-origin"), None, "nobody asked from a page");
}

#[tokio::test]
async fn s4_no_session_is_guessed() {
    let host = Host::start().await;
    let session = host.initialize().await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    assert_eq!(host.post(&[], &list).await.status, 400, "there is one session, and it is not this client's");
    for near in ["", "0", &session[1..], &format!("{session}0"), &session.to_uppercase(), "*", "../", "null"]
    {
        let answer = host.post(&[("mcp-session-id", near)], &list).await;
        // One without a letter is the same in upper case.
        assert!(answer.status == 404 || near == session, "{near:?}: {answer:?}");
    }
    let twice = [("mcp-session-id", session.as_str()), ("mcp-session-id", session.as_str())];
    assert_eq!(host.post(&twice, &list).await.status, 400);
}

#[tokio::test]
async fn s5_nothing_is_served_beside_the_endpoint() {
    let host = Host::with(Options::default()).await;
    for path in [
        "/",
        "/admin",
        "/api",
        "/tools",
        "/config",
        "/stdio",
        "/mcp/tools/call",
        "/mcp/..",
        "//mcp",
        "/MCP",
        "/mcp%2f",
    ] {
        for method in METHODS {
            let answer = host.request(method, path, &[("content-type", "application/json")], &hello()).await;
            assert!(matches!(answer.status, 400 | 404), "{method} {path}: {answer:?}");
            assert!(!answer.header("content-type").is_some_and(|kind| kind.contains("html")), "{answer:?}");
        }
    }
    // Not even a command can be given: what is there was there when it was built.
    for method in ["tools/add", "tools/register", "servers/add", "config/set", "admin/run", "roots/add"] {
        let answer = host.modern(method, json!({"command": "sh", "args": ["-c", "id"]})).await;
        assert_eq!((answer.status, answer.code()), (404, -32601), "{method}");
    }
}
