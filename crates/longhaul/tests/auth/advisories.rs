//! Advisories about callers who sign in, each as its report has it.

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::rig::{Host, LocalIssuer, Signer, claims, legacy, modern, now};

/// A server, its issuer, and the tokens of two callers.
async fn two() -> (Host, LocalIssuer, Signer, [String; 2]) {
    let signer = Signer::new("k", "EdDSA");
    let issuer = LocalIssuer::start(&[&signer]).await;
    let host = Host::start(Host::protection(&issuer)).await;
    let tokens = ["ann", "bob"].map(|sub| signer.sign(&claims(&issuer, sub, json!({}))));
    (host, issuer, signer, tokens)
}

/// nginx-ui guarded `/mcp` and not `/mcp_message` beside it, and took an empty list of addresses for all of them.
#[tokio::test]
async fn advisory_cve_2026_33032() {
    let (host, ..) = two().await;
    for path in ["/mcp", "/mcp_message", "/message", "/messages/", "/sse", "/mcp/message", "/mcp?x=y"] {
        let mut request = legacy("", None, "tools/call", json!({"name": "deploy"}));
        *request.uri_mut() = path.parse().unwrap();
        assert_eq!(host.send(request).await.status, StatusCode::UNAUTHORIZED, "{path}");
    }
    let nobody = longhaul::auth::Protection::new();
    assert!(nobody.guard().is_err(), "a list of nobody is not one of everybody");
}

/// The Python SDK asked for no more than a session's id of whoever spoke in it.
#[tokio::test]
async fn advisory_cve_2026_52869() {
    let (host, _issuer, _signer, [ann, bob]) = two().await;
    let session = host.initialize(&ann).await;
    let ping = |token: &str| legacy(token, Some(&session), "ping", json!({}));
    assert_eq!(host.send(ping(&bob)).await.status, StatusCode::NOT_FOUND);
    assert_eq!(host.send(ping("")).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(host.send(ping(&ann)).await.status, StatusCode::OK);
}

/// The Python SDK gave any client any task.
#[tokio::test]
async fn advisory_cve_2026_52870() {
    let (host, _issuer, _signer, [ann, bob]) = two().await;
    let created = host.call(&ann, "work", json!({"millis": 60_000})).await.json();
    let task = created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}"));
    let ask = |token: &str, method: &str| {
        modern(token, method, Some(task), json!({"taskId": task, "inputResponses": {}}))
    };
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        assert_eq!(host.send(ask(&bob, method)).await.json()["error"]["code"], -32602, "{method}");
    }
    let list = host.send(modern(&bob, "tasks/list", None, json!({}))).await;
    assert_eq!(list.json()["error"]["code"], -32601, "nobody enumerates them");
    assert_eq!(host.send(ask(&ann, "tasks/get")).await.json()["result"]["status"], "working");
}

/// The TypeScript SDK (issue 1486) kept the tasks of all sessions together.
#[tokio::test]
async fn advisory_ts_1486() {
    let (host, _issuer, _signer, [ann, bob]) = two().await;
    let (mine, theirs) = (host.initialize(&ann).await, host.initialize(&bob).await);
    let call = json!({"name": "work", "arguments": {"millis": 10}, "task": {}});
    let created = host.send(legacy(&ann, Some(&mine), "tools/call", call)).await.json();
    let task = created["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let asked = host.send(legacy(&bob, Some(&theirs), method, json!({"taskId": task}))).await;
        assert_eq!(asked.json()["error"]["code"], -32602, "{method}");
    }
    let got = host.send(legacy(&ann, Some(&mine), "tasks/result", json!({"taskId": task}))).await;
    assert_eq!(got.text(), "worked");
}

/// A gateway had a secret from the factory, and took the address to call from a header.
#[tokio::test]
async fn advisory_ghsa_g53w_w6mj_hrpp() {
    let (host, ..) = two().await;
    for (name, value) in [
        ("authorization", "Bearer secret-api-key"),
        ("x-api-key", "secret-api-key"),
        ("router-key", "secret-api-key"),
        ("mcp-init-host", "evil.example"),
        (":authority", "evil.example"),
    ] {
        let mut request = modern("", "tools/call", Some("deploy"), json!({"name": "deploy"}));
        if let Ok(name) = name.parse::<http::HeaderName>() {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        assert_eq!(host.send(request).await.status, StatusCode::UNAUTHORIZED, "{name}: {value}");
    }
}

/// FastMCP took a token that had been made for another server.
#[tokio::test]
async fn advisory_ghsa_5h2m_4q8j_pqpj() {
    let (host, issuer, signer, [ann, _]) = two().await;
    assert_eq!(host.whoami(&ann).await.status, StatusCode::OK);
    for aud in [json!("https://other.example/mcp"), json!(["https://other.example/mcp", "x"]), Value::Null] {
        let token = signer.sign(&claims(&issuer, "ann", json!({"aud": aud})));
        assert_eq!(host.whoami(&token).await.status, StatusCode::UNAUTHORIZED, "{aud}");
    }
}

/// `jsonwebtoken` did not look at a time that was no number.
#[tokio::test]
async fn advisory_cve_2026_25537() {
    let (host, issuer, signer, _) = two().await;
    let (past, future) = (now() - 1000, now() + 1000);
    for wrong in [
        json!({"exp": past.to_string()}),
        json!({"exp": future.to_string()}),
        json!({"exp": [future]}),
        json!({"exp": {}}),
        json!({"exp": true}),
        json!({"exp": null}),
        json!({"nbf": future.to_string()}),
        json!({"nbf": [past]}),
        json!({"nbf": false}),
    ] {
        let token = signer.sign(&claims(&issuer, "ann", wrong.clone()));
        assert_eq!(host.whoami(&token).await.status, StatusCode::UNAUTHORIZED, "{wrong}");
    }
}

/// rmcp's client (issue 935) fetched what it was told to from addresses inside. Keys are fetched from the issuer that the
/// operator names, wherever a token or its issuer points.
#[tokio::test]
async fn advisory_rmcp_935_s47_nobody_sends_us_elsewhere() {
    use longhaul::auth::Issuer;
    let (host, issuer, signer, _) = two().await;
    let elsewhere = LocalIssuer::start(&[&signer]).await;
    for header in [
        json!({"alg": "EdDSA", "kid": "other", "jku": elsewhere.keys_url()}),
        json!({"alg": "EdDSA", "kid": "other", "x5u": elsewhere.keys_url()}),
    ] {
        let token = signer.sign_with(&header, &claims(&issuer, "ann", json!({})));
        assert_eq!(host.whoami(&token).await.status, StatusCode::UNAUTHORIZED);
    }
    let token = signer.sign(&claims(&elsewhere, "ann", json!({})));
    assert_eq!(host.whoami(&token).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(elsewhere.fetches(), 0);
    for inside in
        ["http://169.254.169.254/", "http://10.0.0.1/", "file:///etc/passwd", "http://localhost.evil.example"]
    {
        assert!(Issuer::new(inside).is_err(), "{inside}");
    }
}

/// rmcp's client took the metadata of another resource for that of the one it had asked. Ours says which it is of from
/// the configuration, whatever name it is asked under.
#[tokio::test]
async fn advisory_ghsa_33f5_2c5q_wgwj() {
    let (host, ..) = two().await;
    for name in ["localhost", "127.0.0.1", "localhost:9"] {
        let mut request = legacy("", None, "ping", json!({}));
        *request.method_mut() = http::Method::GET;
        *request.uri_mut() = "/.well-known/oauth-protected-resource".parse().unwrap();
        request.headers_mut().insert("host", name.parse().unwrap());
        let answer = host.send(request).await;
        assert_eq!(answer.json()["resource"], crate::rig::RESOURCE, "{name}");
    }
}
