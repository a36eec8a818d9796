//! Whom a client finds to ask for a token.

use serde_json::json;

use super::{AuthError, Grantor, Person, connect, why};

#[tokio::test]
async fn c01_c10_c16_the_whole_way_to_a_token() {
    let grantor = Grantor::start(|ways, _| ways.challenge = Some(r#"scope="a b""#.to_owned())).await;
    let person = Person::default();
    let client = connect(&grantor, &person).await.unwrap();
    client.call("x", &()).await.unwrap();
    assert_eq!(
        grantor.paths(),
        [
            "GET /.well-known/oauth-protected-resource/mcp",
            "GET /.well-known/oauth-authorization-server",
            "POST /register",
            "GET /authorize",
            "POST /token"
        ]
    );
    let authorize = &grantor.heard("GET /authorize")[0];
    let token = &grantor.heard("POST /token")[0];
    let resource = grantor.server();
    for (name, value) in
        [("resource", resource.as_str()), ("scope", "a b"), ("code_challenge_method", "S256")]
    {
        assert_eq!(authorize.parameter(name).as_deref(), Some(value));
    }
    assert_eq!(token.parameter("resource"), Some(resource));
    assert_eq!(token.parameter("client_id").as_deref(), Some("client-1"));
    let served = grantor.heard("POST /mcp");
    assert_eq!(served[0].header("authorization"), "");
    assert!(
        served.len() > 2
            && served[1..].iter().all(|one| one.header("authorization").starts_with("Bearer access-"))
    );
    assert!(served.iter().all(|one| one.query.is_empty()));
    assert_eq!(person.visits(), 1);
}

#[tokio::test]
async fn c01_c03_metadata_is_found_wherever_it_may_be() {
    for (challenge, resource_at, path, issuer_at, missed) in [
        (Some(""), "/custom/place.json", "", "/.well-known/openid-configuration", 1),
        (
            None,
            "/.well-known/oauth-protected-resource/mcp",
            "/t1",
            "/.well-known/oauth-authorization-server/t1",
            0,
        ),
        (None, "/.well-known/oauth-protected-resource", "/t1", "/.well-known/openid-configuration/t1", 2),
        (None, "/.well-known/oauth-protected-resource", "/t1", "/t1/.well-known/openid-configuration", 3),
    ] {
        let grantor = Grantor::start(|ways, url| {
            ways.challenge = challenge.map(str::to_owned);
            ways.resource_at = resource_at.to_owned();
            ways.resource = json!({ "authorization_servers": [format!("{url}{path}")] });
            ways.issuer_at = issuer_at.to_owned();
            ways.issuer = json!({ "issuer": format!("{url}{path}") });
        })
        .await;
        connect(&grantor, &Person::default()).await.unwrap_or_else(|error| panic!("{issuer_at}: {error:?}"));
        let looked = grantor.paths().iter().take_while(|what| *what != "POST /register").count();
        assert_eq!(looked, missed + 2, "{:?}", grantor.paths());
    }
}

#[tokio::test]
async fn c01_a_server_without_metadata_has_its_authorization_server_beside_it() {
    for issuer_at in ["/.well-known/oauth-authorization-server", "/nowhere"] {
        let grantor = Grantor::start(|ways, _| {
            ways.challenge = None;
            ways.resource_at = "/nowhere".to_owned();
            ways.issuer_at = issuer_at.to_owned();
        })
        .await;
        connect(&grantor, &Person::default()).await.unwrap();
        assert_eq!(grantor.heard("POST /register").len(), 1);
        assert_eq!(grantor.heard("POST /token")[0].parameter("resource"), Some(grantor.server()));
    }
}

#[tokio::test]
async fn c04_c09_c10_c20_s48_s49_what_does_not_fit_is_not_asked() {
    type Check = fn(&AuthError) -> bool;
    let wrong_resource: Check = |error| matches!(error, AuthError::WrongResource { .. });
    let fetch: Check = |error| matches!(error, AuthError::Fetch { .. });
    let unsupported: Check = |error| matches!(error, AuthError::Unsupported { .. });
    let forbidden: Check = |error| matches!(error, AuthError::Forbidden { .. });
    let nobody: Check = |error| matches!(error, AuthError::NoIssuer);
    for (resource, issuer, is_it) in [
        (json!({ "resource": "https://evil.example/mcp" }), json!({}), wrong_resource),
        (json!({ "authorization_servers": [] }), json!({}), nobody),
        (json!({ "authorization_servers": ["http://login.example"] }), json!({}), forbidden),
        (json!({ "authorization_servers": ["https://10.0.0.1"] }), json!({}), forbidden),
        (json!({}), json!({ "issuer": "https://evil.example" }), fetch),
        (json!({}), json!({ "code_challenge_methods_supported": null }), unsupported),
        (json!({}), json!({ "code_challenge_methods_supported": ["plain"] }), unsupported),
        (json!({}), json!({ "token_endpoint": "http://login.example/token" }), forbidden),
        (json!({}), json!({ "authorization_endpoint": "javascript:alert(1)" }), forbidden),
        (json!({}), json!({ "registration_endpoint": "https://169.254.169.254/" }), forbidden),
        (json!({}), json!({ "authorization_endpoint": "https://login.example/?state=theirs" }), unsupported),
        // Whatever strangers write, it is fit to be shown.
        (json!({ "resource": "https://evil.example/\u{1b}[31m" }), json!({}), wrong_resource),
        (json!({ "authorization_servers": ["\u{1b}[31m"] }), json!({}), forbidden),
        (json!({}), json!({ "scopes_supported": "x\u{1b}".repeat(9000) }), fetch),
    ] {
        let grantor =
            Grantor::start(|ways, _| (ways.resource, ways.issuer) = (resource.clone(), issuer.clone())).await;
        let person = Person::default();
        let error = why(connect(&grantor, &person).await.unwrap_err());
        assert!(is_it(&error), "{resource} {issuer}: {error:?}");
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        let shown = format!("{error} {source}");
        assert!(!shown.contains('\u{1b}') && shown.len() < 1000, "{shown}");
        assert_eq!(person.visits(), 0);
        assert!(
            grantor.paths().iter().all(|what| what.starts_with("GET /.well-known")),
            "{:?}",
            grantor.paths()
        );
    }
}
