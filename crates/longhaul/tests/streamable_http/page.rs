//! What a page in a browser, and whoever looks after the server, is told.

use http_body_util::Full;
use hyper::{Request, StatusCode};
use longhaul::proto::http::AllowList;
use serde_json::json;

use crate::rig::{Host, body, header, text};

#[tokio::test]
async fn pages_of_listed_origins_read_answers_and_no_others_do() {
    let allow = AllowList::new(["localhost"], ["https://app.example"]);
    let host = Host::start(|options| options.allow = allow).await;
    let ask = async |method: &str, origin: &str, preflight: bool| {
        let mut request = Request::builder().method(method).uri("/mcp").header("host", "localhost");
        request = request.header("origin", origin).header("content-type", "application/json");
        if preflight {
            request = request
                .header("access-control-request-method", "POST")
                .header("access-control-request-headers", "mcp-param-region");
        }
        host.send(request.body(body("ping", json!({}))).unwrap()).await
    };
    let (page, neighbour) = ("https://app.example", "http://localhost:5173");
    let allowed = ask("OPTIONS", page, true).await;
    assert_eq!(allowed.status(), StatusCode::NO_CONTENT);
    assert_eq!(header(&allowed, "access-control-allow-origin"), page);
    assert_eq!(header(&allowed, "access-control-allow-methods"), "GET, POST, DELETE");
    assert_eq!(header(&allowed, "access-control-allow-headers"), "mcp-param-region");
    let answer = ask("POST", page, false).await;
    assert_eq!((answer.status(), header(&answer, "access-control-allow-origin")), (StatusCode::OK, page));
    let exposed = header(&answer, "access-control-expose-headers");
    assert!(["Mcp-Session-Id", "WWW-Authenticate", "Retry-After"].iter().all(|name| exposed.contains(name)));
    assert_eq!(header(&answer, "vary"), "Origin");
    for (origin, status) in [(neighbour, StatusCode::OK), ("https://evil.example", StatusCode::FORBIDDEN)] {
        let answer = ask("POST", origin, false).await;
        assert_eq!(answer.status(), status, "{origin}");
        assert_eq!(header(&answer, "access-control-allow-origin"), "", "{origin}");
        let refused = ask("OPTIONS", origin, true).await;
        assert!(refused.status().is_client_error(), "{origin}");
        assert_eq!(header(&refused, "access-control-allow-origin"), "", "{origin}");
    }
}

#[tokio::test]
async fn health_is_told_and_unknown_revisions_are_refused_on_every_method() {
    let host = Host::start(|_| ()).await;
    let get =
        |path: &str| Request::get(path).header("host", "localhost").header("accept", "text/event-stream");
    let health = host.send(get("/healthz").body(Full::default()).unwrap()).await;
    assert_eq!((health.status(), text(health).await.as_str()), (StatusCode::OK, "ok"));
    let session = host.initialize().await;
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    for (version, status) in [("2025-11-25", 202), ("2024-01-01", 400)] {
        let request = host.post().header("mcp-session-id", &session).header("mcp-protocol-version", version);
        let answer = host.send(request.body(notice.clone().into()).unwrap()).await;
        assert_eq!(answer.status().as_u16(), status, "{version}");
    }
    let request = get("/mcp").header("mcp-session-id", &session).header("mcp-protocol-version", "2024-01-01");
    assert_eq!(host.send(request.body(Full::default()).unwrap()).await.status(), StatusCode::BAD_REQUEST);
}
