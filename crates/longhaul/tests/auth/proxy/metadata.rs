//! What clients are told of the authorization server, and who may ask it.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use longhaul::auth::{Protection, Proxy, Upstream};
use longhaul::store::Memory;
use serde_json::{Value, json};
use std::sync::Arc;

use crate::rig::{Answer, Front, Host};

async fn send(host: &Host, method: Method, path: &str, origin: Option<&str>) -> Answer {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    if let Some(origin) = origin {
        request = request.header("origin", origin);
    }
    host.send(request.body(Full::<Bytes>::default()).unwrap()).await
}

#[tokio::test]
async fn p13_p15_clients_find_the_server_and_all_of_it_is_safe() {
    let front = Front::start().await;
    let resource =
        send(&front.host, Method::GET, "/.well-known/oauth-protected-resource/mcp", None).await.json();
    assert_eq!(resource["authorization_servers"], json!(["https://mcp.example"]));
    let says = send(&front.host, Method::GET, "/.well-known/oauth-authorization-server", None).await.json();
    assert_eq!(says["issuer"], "https://mcp.example");
    for (endpoint, path) in [
        ("authorization", "authorize"),
        ("token", "token"),
        ("registration", "register"),
        ("revocation", "revoke"),
    ] {
        assert_eq!(says[format!("{endpoint}_endpoint")], format!("https://mcp.example/{path}"));
    }
    assert_eq!(says["authorization_response_iss_parameter_supported"], true);
    assert_eq!(says["code_challenge_methods_supported"], json!(["S256"]));
    assert_eq!(says["token_endpoint_auth_methods_supported"], json!(["none"]));
    assert_eq!(says["client_id_metadata_document_supported"], true);
    assert_eq!(says["scopes_supported"], json!(["audit", "deploy", "mcp"]));
    let off = Front::with(|proxy| proxy.registration(false).documents(false)).await;
    let says = send(&off.host, Method::GET, "/.well-known/oauth-authorization-server", None).await.json();
    assert_eq!(says.get("registration_endpoint"), None::<&Value>);
    assert_eq!(says["client_id_metadata_document_supported"], false);
}

#[test]
fn advisory_cve_2025_6514_p15_no_upstream_and_no_server_is_reached_in_the_clear() {
    for bad in ["http://login.example", "ftp://login.example", "https://me@login.example"] {
        assert!(Upstream::new(bad, "x", "y").is_err(), "{bad}");
    }
    let upstream = Upstream::new("https://login.example", "x", "s3cret").unwrap();
    assert!(!format!("{upstream:?}").contains("s3cret"));
    let nameless = Protection::new().proxy(Proxy::new(upstream, Arc::new(Memory::new())));
    assert!(nameless.guard().unwrap_err().to_string().contains("no URI of its own"));
}

#[tokio::test]
async fn each_endpoint_is_asked_in_its_own_way_and_from_no_foreign_page() {
    let front = Front::start().await;
    for (path, method, other) in [
        ("/authorize", Method::GET, Method::POST),
        ("/authorize/consent", Method::POST, Method::GET),
        ("/authorize/callback", Method::GET, Method::POST),
        ("/token", Method::POST, Method::GET),
        ("/register", Method::POST, Method::PUT),
        ("/revoke", Method::POST, Method::DELETE),
    ] {
        let answer = send(&front.host, other, path, None).await;
        assert_eq!(
            (answer.status, answer.header("allow")),
            (StatusCode::METHOD_NOT_ALLOWED, method.as_str()),
            "{path}"
        );
        let foreign = send(&front.host, method, path, Some("https://evil.example")).await;
        assert_eq!(foreign.status, StatusCode::FORBIDDEN, "{path}");
    }
}
