//! What the routes of an authorization server take, and what they do with anything else.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::rig::{APP, Answer, Browser, Front, RESOURCE, encoded};

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";

/// POSTs a body with these headers.
async fn post(front: &Front, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
    let request = Request::post(path).header("host", "localhost");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    front.host.send(request.body(Full::from(body.into())).unwrap()).await
}

fn error(answer: &Answer) -> (StatusCode, Value) {
    assert_eq!(answer.header("cache-control"), "no-store", "{answer:?}");
    (answer.status, answer.json()["error"].clone())
}

#[tokio::test]
async fn what_is_registered_is_one_json_object() {
    let front = Front::start().await;
    let good = json!({"client_name": "App", "redirect_uris": [APP]}).to_string();
    for kind in [JSON, "Application/JSON; charset=utf-8"] {
        let registered = post(&front, "/register", &[("content-type", kind)], good.clone()).await;
        assert_eq!(registered.status, StatusCode::CREATED, "{kind}");
    }
    for kind in [FORM, "text/plain", "text/plain; application/json", "application/jsonp"] {
        let refused = post(&front, "/register", &[("content-type", kind)], good.clone()).await;
        assert_eq!(error(&refused), (StatusCode::BAD_REQUEST, json!("invalid_client_metadata")), "{kind}");
    }
    let refused = post(&front, "/register", &[], good.clone()).await;
    assert_eq!(error(&refused), (StatusCode::BAD_REQUEST, json!("invalid_client_metadata")));
    for (bad, code) in [
        ("", "invalid_client_metadata"),
        ("{", "invalid_client_metadata"),
        ("{} {}", "invalid_client_metadata"),
        ("\u{0}", "invalid_client_metadata"),
        ("[]", "invalid_redirect_uri"),
        ("null", "invalid_redirect_uri"),
        (r#"{"redirect_uris": "https://app.example/callback"}"#, "invalid_redirect_uri"),
        (r#"{"redirect_uris": [7]}"#, "invalid_redirect_uri"),
        (r#"{"redirect_uris": [null, "https://app.example/callback"]}"#, "invalid_redirect_uri"),
    ] {
        let refused = post(&front, "/register", &[("content-type", JSON)], bad).await;
        assert_eq!(error(&refused), (StatusCode::BAD_REQUEST, json!(code)), "{bad}");
    }
    let deep = "[".repeat(20_000);
    let refused = post(&front, "/register", &[("content-type", JSON)], deep).await;
    assert_eq!(error(&refused).0, StatusCode::BAD_REQUEST);
    let no_text = post(&front, "/register", &[("content-type", JSON)], vec![0xff_u8; 9]).await;
    assert_eq!(error(&no_text).0, StatusCode::BAD_REQUEST);
}

/// A body has a bound on each route, whatever it says of its length.
#[tokio::test]
async fn no_route_takes_more_than_it_needs() {
    let front = Front::start().await;
    for (path, kind) in [("/token", FORM), ("/revoke", FORM), ("/register", JSON)] {
        let long = post(&front, path, &[("content-type", kind)], "a".repeat(33 << 10)).await;
        assert_eq!(long.status, StatusCode::PAYLOAD_TOO_LARGE, "{path}");
    }
}

#[tokio::test]
async fn a_token_is_asked_for_with_a_form_in_which_everything_stands_once() {
    let front = Front::start().await;
    let (client, tokens) = front.tokens(APP).await;
    let refresh = tokens["refresh_token"].as_str().unwrap();
    let form =
        encoded(&[("grant_type", "refresh_token"), ("client_id", &client), ("refresh_token", refresh)]);
    let asks = |headers: Vec<(&'static str, &'static str)>, form: String| {
        let front = &front;
        async move { post(front, "/token", &headers, form).await }
    };
    let is_form = || vec![("content-type", FORM)];
    for kind in [JSON, "multipart/form-data; boundary=x", "text/plain"] {
        let refused = asks(vec![("content-type", kind)], form.clone()).await;
        assert_eq!(error(&refused), (StatusCode::BAD_REQUEST, json!("invalid_request")), "{kind}");
    }
    assert_eq!(error(&asks(vec![], form.clone()).await).1, "invalid_request");
    for (wrong, code) in [
        (format!("{form}&client_id=other"), "invalid_request"),
        (format!("{form}&grant_type=authorization_code"), "invalid_request"),
        (format!("{form}&resource=https%3A%2F%2Fother.example%2Fmcp"), "invalid_target"),
        (form.replace("grant_type=refresh_token", "grant_type=password"), "unsupported_grant_type"),
        (form.replace("grant_type=refresh_token", "grant_type=client_credentials"), "unsupported_grant_type"),
        (form.replace("grant_type=refresh_token", "grant_type="), "unsupported_grant_type"),
        (form.replace("grant_type=refresh_token", "grant_type=authorization_code"), "invalid_grant"),
        (form.replace("longhaul_refresh_", "longhaul_access_"), "invalid_grant"),
        (form.replace("longhaul_refresh_", ""), "invalid_grant"),
        (String::new(), "unsupported_grant_type"),
        ("%ff%00&&==&a".to_owned(), "unsupported_grant_type"),
    ] {
        let refused = asks(is_form(), wrong.clone()).await;
        assert_eq!(error(&refused), (StatusCode::BAD_REQUEST, json!(code)), "{wrong}");
    }
    // None of them has used it up.
    assert_eq!(asks(is_form(), form).await.status, StatusCode::OK);
}

/// All clients are public. One that would be confidential is told so when it registers, and is not believed later.
#[tokio::test]
async fn a_client_that_wants_a_secret_gets_none_and_can_show_none() {
    let front = Front::start().await;
    for method in ["client_secret_basic", "client_secret_post", "private_key_jwt"] {
        let asked = json!({"redirect_uris": [APP], "token_endpoint_auth_method": method});
        let registered = front.registers(asked).await.json();
        assert_eq!(registered["token_endpoint_auth_method"], "none", "{method}");
        assert!(registered.get("client_secret").is_none(), "{method}");
        let client = registered["client_id"].as_str().unwrap();
        let code = front.code(&mut Browser::default(), client, APP).await;
        // Neither way of showing one, nor both; and its code is as good as before.
        let by_form = front.redeem(client, APP, &code, &[("client_secret", "x")]).await;
        assert_eq!(error(&by_form), (StatusCode::UNAUTHORIZED, json!("invalid_client")));
        for path in ["/token", "/revoke"] {
            let headers = [("content-type", FORM), ("authorization", "Basic eDp5")];
            let by_header = post(&front, path, &headers, encoded(&[("client_id", client)])).await;
            assert_eq!(error(&by_header), (StatusCode::UNAUTHORIZED, json!("invalid_client")), "{path}");
            assert!(by_header.header("www-authenticate").starts_with("Basic "), "{by_header:?}");
        }
        assert_eq!(front.redeem(client, APP, &code, &[]).await.status, StatusCode::OK, "{method}");
    }
    let says = Request::get("/.well-known/oauth-authorization-server").header("host", "localhost");
    let says = front.host.send(says.body(Full::default()).unwrap()).await.json();
    assert_eq!(says["token_endpoint_auth_methods_supported"], json!(["none"]));
}

#[tokio::test]
async fn a_request_that_is_sent_again_gets_nothing_twice() {
    let front = Front::start().await;
    // Who registers twice is two clients, and neither may use what the other was given.
    let clients = [front.register("App", APP).await, front.register("App", APP).await];
    assert_ne!(clients[0], clients[1]);
    let code = front.code(&mut Browser::default(), &clients[0], APP).await;
    let form = [("resource", RESOURCE)];
    assert_eq!(front.redeem(&clients[1], APP, &code, &form).await.json()["error"], "invalid_grant");
    // That was its one try, whoever made it.
    assert_eq!(front.redeem(&clients[0], APP, &code, &form).await.json()["error"], "invalid_grant");
    let code = front.code(&mut Browser::default(), &clients[0], APP).await;
    let tokens = front.redeem(&clients[0], APP, &code, &form).await;
    assert_eq!(tokens.status, StatusCode::OK);
    let again = front.redeem(&clients[0], APP, &code, &form).await;
    assert_eq!(error(&again), (StatusCode::BAD_REQUEST, json!("invalid_grant")));
    let access = tokens.json()["access_token"].as_str().unwrap().to_owned();
    assert_eq!(
        front.host.whoami(&access).await.status,
        StatusCode::UNAUTHORIZED,
        "what it gave is taken back"
    );
}
