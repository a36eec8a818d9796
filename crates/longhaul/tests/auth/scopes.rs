//! What a token lets its caller do.

use std::sync::atomic::Ordering;

use hyper::StatusCode;
use longhaul::server::Scopes;
use serde_json::json;

use crate::rig::{Host, LocalIssuer, METADATA, Signer, TOOL_RUNS, claims, legacy};

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
        let before = TOOL_RUNS.load(Ordering::SeqCst);
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
        let ran = TOOL_RUNS.load(Ordering::SeqCst) - before;
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
