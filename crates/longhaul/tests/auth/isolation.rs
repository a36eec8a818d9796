//! What one caller has is nobody else's.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, StatusCode};
use longhaul::transport::http::server::Options;
use longhaul_test::Log;
use serde_json::{Value, json};

use crate::rig::{Host, LocalIssuer, Signer, claims, legacy, modern, now};

/// A server, and the tokens of two callers who differ by `changes`.
async fn two(changes: Value) -> (Host, LocalIssuer, String, String) {
    let signer = Signer::new("k", "EdDSA");
    let issuer = LocalIssuer::start(&[&signer]).await;
    let host = Host::start(Host::protection(&issuer)).await;
    let ann = signer.sign(&claims(&issuer, "ann", json!({})));
    let other = signer.sign(&claims(&issuer, "ann", changes));
    (host, issuer, ann, other)
}

fn within(token: &str, session: &str, method: &str) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri("/mcp")
        .header("host", "localhost")
        .header("accept", "text/event-stream")
        .header("mcp-session-id", session)
        .header("authorization", format!("Bearer {token}"))
        .body(Full::default())
        .unwrap()
}

#[tokio::test]
async fn s6_r6_a_session_of_somebody_else_is_not_there() {
    // The same person through another client is another caller.
    for changes in [json!({"sub": "bob"}), json!({"client_id": "other"}), json!({"client_id": null})] {
        let (host, _issuer, ann, other) = two(changes.clone()).await;
        let session = host.initialize(&ann).await;
        let unknown = "0".repeat(session.len());
        let notice = |token: &str, session: &str| {
            let body = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
            let mut request = legacy(token, Some(session), "x", json!({}));
            *request.body_mut() = body.into();
            request
        };
        let response = |token: &str, session: &str| {
            let body = json!({"jsonrpc": "2.0", "id": 1, "result": {}}).to_string();
            let mut request = legacy(token, Some(session), "x", json!({}));
            *request.body_mut() = body.into();
            request
        };
        for (what, foreign, absent) in [
            (
                "request",
                legacy(&other, Some(&session), "tools/list", json!({})),
                legacy(&other, Some(&unknown), "tools/list", json!({})),
            ),
            ("notification", notice(&other, &session), notice(&other, &unknown)),
            ("response", response(&other, &session), response(&other, &unknown)),
            ("stream", within(&other, &session, "GET"), within(&other, &unknown, "GET")),
            ("end", within(&other, &session, "DELETE"), within(&other, &unknown, "DELETE")),
        ] {
            let (foreign, absent) = (host.send(foreign).await, host.send(absent).await);
            assert_eq!(foreign.status, StatusCode::NOT_FOUND, "{what} {changes}");
            assert_eq!(foreign.without_date(), absent.without_date(), "{what} {changes}");
        }
        let mine = host.send(legacy(&ann, Some(&session), "tools/list", json!({}))).await;
        assert_eq!(mine.status, StatusCode::OK, "it is still there for its own");
    }
}

/// Whoever has taken all places that sessions may have, and uses them, keeps nobody else out.
#[tokio::test]
async fn s9_who_has_most_sessions_makes_room_for_others() {
    let signer = Signer::new("k", "EdDSA");
    let issuer = LocalIssuer::start(&[&signer]).await;
    let guard = Host::protection(&issuer).guard().unwrap();
    let host = Host::with(Options::default().guard(guard).max_sessions(4)).await;
    let [ann, bob, eve] =
        ["ann", "bob", "eve"].map(|sub| signer.sign(&claims(&issuer, sub, json!({"sub": sub}))));
    let used = async |token: &str, session: &str| {
        host.send(legacy(token, Some(session), "tools/list", json!({}))).await.status == StatusCode::OK
    };
    let mut taken = Vec::new();
    for _ in 0..4 {
        let session = host.initialize(&eve).await;
        assert!(used(&eve, &session).await);
        taken.push(session);
    }
    // Of what it has the one that was used longest ago goes, and that is not the oldest.
    assert!(used(&eve, &taken[0]).await);
    let first = host.initialize(&ann).await;
    assert!(used(&ann, &first).await);
    assert!(!used(&eve, &taken[1]).await && used(&eve, &taken[0]).await);
    let second = host.initialize(&bob).await;
    assert!(used(&bob, &second).await);
    // Each has a fair part now, so that nobody has to make room.
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"}});
    for token in [&eve, &ann] {
        let full = host.send(legacy(token, None, "initialize", hello.clone())).await;
        assert_eq!(full.status, StatusCode::TOO_MANY_REQUESTS, "{full:?}");
    }
    assert!(used(&ann, &first).await && used(&bob, &second).await);
}

/// A1, X1 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn s21_r9_a_task_of_somebody_else_is_not_there() {
    let (host, _issuer, ann, bob) = two(json!({"sub": "bob"})).await;
    let created = host.call(&ann, "work", json!({"millis": 50})).await.json();
    let task = created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
    let (mine, theirs) = (host.initialize(&ann).await, host.initialize(&bob).await);
    let call = json!({"name": "work", "arguments": {"millis": 50}, "task": {}});
    let created = host.send(legacy(&ann, Some(&mine), "tools/call", call)).await.json();
    let older =
        created["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();

    let absent = "x".repeat(task.len());
    for state in ["open", "ended"] {
        for (id, method) in [&task, &older]
            .into_iter()
            .flat_map(|id| ["tasks/get", "tasks/update", "tasks/cancel"].map(|method| (id, method)))
        {
            let ask = |id: &str| modern(&bob, method, Some(id), json!({"taskId": id, "inputResponses": {}}));
            let (foreign, absent) = (host.send(ask(id)).await, host.send(ask(&absent)).await);
            assert_eq!(foreign.json()["error"]["code"], -32602, "{state} {method} {foreign:?}");
            assert_eq!(foreign.without_date(), absent.without_date(), "{state} {method}");
        }
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            let ask = |id: &str| legacy(&bob, Some(&theirs), method, json!({"taskId": id}));
            let (foreign, absent) = (host.send(ask(&older)).await, host.send(ask(&absent)).await);
            assert_eq!(foreign.json()["error"]["code"], -32602, "{state} {method} {foreign:?}");
            assert_eq!(foreign.without_date(), absent.without_date(), "{state} {method}");
        }
        for companion in ["task_wait", "task_output", "task_cancel"] {
            let ask = async |id: &str| {
                let answer = host.call(&bob, companion, json!({"id": id})).await.without_date();
                answer.body.replace(id, "ID")
            };
            assert_eq!(ask(&older).await, ask(&absent).await, "{state} {companion}");
        }
        let list = async |token: &str, session: &str| {
            let answer = host.send(legacy(token, Some(session), "tasks/list", json!({}))).await.json();
            answer["result"]["tasks"].clone()
        };
        assert_eq!(list(&bob, &theirs).await, json!([]), "{state}");
        assert_eq!(list(&ann, &mine).await[0]["taskId"], json!(older), "{state}");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    for (id, method) in [(&task, "tasks/get"), (&older, "tasks/get")] {
        let answer = host.send(modern(&ann, method, Some(id), json!({"taskId": id}))).await.json();
        assert_eq!(answer["result"]["status"], "completed", "{answer}");
    }
}

/// A3 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn s62_a_task_outlives_the_token_that_began_it() {
    let signer = Signer::new("k", "EdDSA");
    let issuer = LocalIssuer::start(&[&signer]).await;
    let host = Host::start(Host::protection(&issuer).leeway(Duration::ZERO)).await;
    let short = signer.sign(&claims(&issuer, "ann", json!({"exp": now() + 2})));
    let created = host.call(&short, "work", json!({"millis": 2500})).await.json();
    let task = created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
    let ask = |token: &str| modern(token, "tasks/get", Some(&task), json!({"taskId": task}));
    tokio::time::sleep(Duration::from_millis(3000)).await;
    let late = host.send(ask(&short)).await;
    assert_eq!((late.status, late.body.as_str()), (StatusCode::UNAUTHORIZED, "the token has expired"));
    let renewed = signer.sign(&claims(&issuer, "ann", json!({})));
    let answer = host.send(ask(&renewed)).await.json();
    assert_eq!(answer["result"]["status"], "completed", "{answer}");
}

/// A7 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn s64_r12_no_token_is_logged_or_told() {
    let log = Log::of_this_thread();
    let signer = Signer::new("k", "EdDSA");
    let issuer = LocalIssuer::start(&[&signer]).await;
    let host = Host::start(Host::protection(&issuer)).await;
    let mut answers = String::new();
    let mut tokens = Vec::new();
    for (turn, changes) in
        [json!({}), json!({"exp": 1}), json!({"aud": "x"}), json!({"scope": ""}), json!({"iss": "x"})]
            .into_iter()
            .enumerate()
    {
        let token = signer.sign(&claims(&issuer, &format!("ann{turn}"), changes));
        answers += &format!("{:?}", host.whoami(&token).await);
        let broken = token.replace('.', "-");
        answers += &format!("{:?}", host.whoami(&broken).await);
        tokens.extend([token, broken]);
    }
    let log = log.text();
    assert!(log.contains("the token has expired"), "it is said why somebody was not let in: {log}");
    for token in &tokens {
        for part in token.split(['.', '-']).filter(|part| part.len() > 30) {
            // Every token has the same header.
            if token.starts_with(part) {
                continue;
            }
            assert!(!log.contains(part), "a token is in the log");
            assert!(!answers.contains(part), "a token is in an answer");
        }
    }
}
