//! What a token lets its caller do.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::StatusCode;
use longhaul::proto::method::Method;
use longhaul::server::Scopes;
use longhaul::service::{BoxError, Level, Next, Request, Response};
use longhaul::transport::http::server::Options;
use serde_json::json;
use tower_layer::layer_fn;
use tower_service::Service;

use crate::rig::{Host, LocalIssuer, METADATA, Signer, TOOL_RUNS, claims, legacy, server};

#[tokio::test]
async fn s61_a_tool_is_out_of_reach_until_its_scopes_are_granted() {
    let signer = Signer::new("k", "EdDSA");
    let issuer = LocalIssuer::start(&[&signer]).await;
    let protection = Host::protection(&issuer)
        .implies("admin", Scopes::parse("mcp operator").unwrap())
        .implies("operator", Scopes::parse("deploy audit").unwrap())
        // Whoever goes in circles arrives all the same.
        .implies("audit", Scopes::parse("audit").unwrap());
    let host = Host::start(protection).await;
    for (scope, whoami, deploy, challenge) in [
        ("", 403, 403, "scope=\"mcp\""),
        ("deploy audit", 403, 403, "scope=\"mcp\""),
        ("MCP", 403, 403, "scope=\"mcp\""),
        ("mcp", 200, 403, "scope=\"audit deploy mcp\""),
        ("mcp deploy", 200, 403, "scope=\"audit deploy mcp\""),
        ("mcp deployaudit", 200, 403, "scope=\"audit deploy mcp\""),
        ("mcp audit deploy other", 200, 200, ""),
        ("mcp operator", 200, 200, ""),
        ("admin", 200, 200, ""),
    ] {
        let token = signer.sign(&claims(&issuer, "ann", json!({"scope": scope})));
        let session = if whoami == 200 { host.initialize(&token).await } else { String::new() };
        let before = TOOL_RUNS.get();
        assert_eq!(host.whoami(&token).await.status, whoami, "{scope}");
        let call = json!({"name": "deploy", "arguments": {}});
        let mut answers = vec![host.call(&token, "deploy", json!({})).await];
        if whoami == 200 {
            answers.push(host.send(legacy(&token, Some(&session), "tools/call", call.clone())).await);
        }
        for answer in &answers {
            assert_eq!(answer.status, deploy, "{scope}");
            if deploy == 403 {
                let said = answer.header("www-authenticate");
                let expected = format!(
                    "Bearer resource_metadata=\"{METADATA}\", {challenge}, error=\"insufficient_scope\""
                );
                assert!(said.starts_with(&expected), "{scope}: {said}");
            } else {
                assert_eq!(answer.text(), "deployed", "{scope}");
            }
        }
        let ran = TOOL_RUNS.get() - before;
        assert_eq!(ran, if deploy == 200 { answers.len() } else { 0 }, "{scope}");
    }
}

#[tokio::test]
async fn who_lacks_a_scope_sees_the_tool_and_is_answered_in_its_own_words() {
    let signer = Signer::new("k", "EdDSA");
    let issuer = LocalIssuer::start(&[&signer]).await;
    let host = Host::start(Host::protection(&issuer)).await;
    let token = signer.sign(&claims(&issuer, "ann", json!({})));
    let session = host.initialize(&token).await;
    let list = host.send(legacy(&token, Some(&session), "tools/list", json!({}))).await.json();
    assert!(list["result"]["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "deploy"));
    let call = json!({"name": "deploy", "arguments": {}});
    let refused = host.send(legacy(&token, Some(&session), "tools/call", call.clone())).await;
    let error = &refused.json()["error"];
    assert_eq!(error["code"], -31003);
    assert_eq!(error["data"], json!({"reason": "insufficient_scope", "scope": "audit deploy"}));
    // The exchange is closed: its id can be used again.
    let again = host.send(legacy(&token, Some(&session), "tools/call", call)).await;
    assert_eq!(again.json()["error"]["code"], -31003);
    // Arguments that are wrong, too, and a task, too.
    for call in [
        json!({"name": "deploy", "arguments": {"x": 1}}),
        json!({"name": "deploy", "arguments": {}, "task": {}}),
    ] {
        let refused = host.send(legacy(&token, Some(&session), "tools/call", call)).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN);
    }
}

/// A layer that waits before it lets a call through hides neither the status nor the way to the scopes.
#[tokio::test]
async fn who_lacks_a_scope_learns_it_behind_a_layer_that_waits() {
    let signer = Signer::new("k", "EdDSA");
    let issuer = LocalIssuer::start(&[&signer]).await;
    let guard = Host::protection(&issuer).guard().unwrap();
    let slow = server().layer(Level::Server, layer_fn(|inner| Slow { inner }));
    let host = Host::of(slow, Options::default().guard(guard)).await;
    let token = signer.sign(&claims(&issuer, "ann", json!({"scope": "mcp"})));
    let session = host.initialize(&token).await;
    let call = json!({"name": "deploy", "arguments": {}});
    for refused in [
        host.call(&token, "deploy", json!({})).await,
        host.send(legacy(&token, Some(&session), "tools/call", call)).await,
    ] {
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{refused:?}");
        assert_eq!(refused.json()["error"]["code"], -31003);
        let challenge = refused.header("www-authenticate");
        assert!(
            challenge.contains("scope=\"audit deploy mcp\", error=\"insufficient_scope\""),
            "{challenge}"
        );
    }
}

/// A layer that takes a moment.
#[derive(Clone)]
struct Slow {
    inner: Next,
}

impl Service<Request> for Slow {
    type Response = Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let mut inner = self.inner.clone();
        Box::pin(async move {
            // The handshake of a session does not wait.
            if request.method() == Method::CallTool {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            inner.call(request).await
        })
    }
}
