//! The endpoint as a service that somebody else's application serves.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, StatusCode};
use longhaul::proto::method::Method;
use longhaul::server::{Caller, Principal};
use longhaul::service::{Level, PerCaller};
use longhaul::transport::http::server::{AnswerBody, HttpService, Options, Peer};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};
use tower_service::Service;

use crate::rig::{body, modern_params, wait};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

async fn whoami(cx: Cx, _: Nothing) -> String {
    cx.principal().map_or("nobody", |principal| principal.as_str()).to_owned()
}

async fn mounted(drain: Duration) -> HttpService {
    let server = Server::new("mounted", "1.0.0").tool(Tool::typed("whoami", "Say who calls", whoami));
    let server = server.tool(Tool::typed("wait", "Wait", wait));
    server.into_http_service(Options::default().drain(drain)).await.unwrap()
}

fn call(path: &str, host: &str, tool: &str, arguments: Value) -> Request<Full<Bytes>> {
    let params = modern_params(json!({"name": tool, "arguments": arguments}));
    Request::post(path)
        .header("host", host)
        .header("content-type", "application/json")
        .header("accept", "application/json")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", tool)
        .body(body("tools/call", params))
        .unwrap()
}

async fn read(response: Response<AnswerBody>) -> Value {
    serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

#[tokio::test]
async fn its_paths_and_its_callers_are_for_the_application_to_say() {
    let mut service = mounted(Duration::from_secs(1)).await;
    for path in ["/", "/mcp", "/any/where"] {
        let answer = service.call(call(path, "localhost", "whoami", json!({}))).await.unwrap();
        assert_eq!(read(answer).await["result"]["content"][0]["text"], "nobody", "{path}");
    }
    let mut known = call("/", "localhost", "whoami", json!({}));
    known.extensions_mut().insert(Caller::new(Some(Principal::new("ann").unwrap())));
    let answer = service.call(known).await.unwrap();
    assert_eq!(read(answer).await["result"]["content"][0]["text"], "ann");
    let foreign = service.call(call("/", "evil.example", "whoami", json!({}))).await.unwrap();
    assert_eq!(foreign.status(), StatusCode::FORBIDDEN);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_before_its_application_is_answered() {
    let mut service = mounted(Duration::from_secs(2)).await;
    let quick =
        tokio::spawn(service.call(call("/", "localhost", "wait", json!({"millis": 500, "quiet": true}))));
    let slow =
        tokio::spawn(service.call(call("/", "localhost", "wait", json!({"millis": 60_000, "quiet": true}))));
    tokio::time::sleep(Duration::from_millis(10)).await;
    let began = tokio::time::Instant::now();
    service.stop().await;
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    let answer = read(quick.await.unwrap().unwrap()).await;
    assert_eq!(answer["result"]["content"][0]["text"], "waited");
    let answer = read(slow.await.unwrap().unwrap()).await;
    assert_eq!(answer["error"]["data"]["reason"], "stopping", "{answer}");
}

#[tokio::test]
async fn strangers_of_one_network_do_not_use_up_what_others_may_ask() {
    let bounds = PerCaller::new().rate(1, Duration::from_secs(3600));
    let server = Server::new("mounted", "1.0.0").tool(Tool::typed("whoami", "Say who calls", whoami));
    let server = server.layer(Level::Method(Method::CallTool), bounds);
    let mut service = server.into_http_service(Options::default()).await.unwrap();
    let mut ask = async |from: Option<&str>| {
        let mut request = call("/", "localhost", "whoami", json!({}));
        if let Some(from) = from {
            request.extensions_mut().insert(Peer(from.parse().unwrap()));
        }
        service.call(request).await.unwrap().status()
    };
    for stranger in [Some("192.0.2.1"), Some("192.0.2.2"), Some("2001:db8::1"), None] {
        assert_eq!(ask(stranger).await, StatusCode::OK, "{stranger:?}");
        assert_eq!(ask(stranger).await, StatusCode::TOO_MANY_REQUESTS, "{stranger:?}");
    }
    assert_eq!(ask(Some("2001:db8::2")).await, StatusCode::TOO_MANY_REQUESTS, "of a network that was there");
}
