//! How clients become known: by registering, or by what they publish.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use longhaul::auth::{InvalidClient, KnownClient};
use longhaul::store::{Memory, Registry, Settings, SystemClock};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::rig::{APP, Browser, Front, LocalUpstream, RESOURCE, asks, damaged};

#[tokio::test]
async fn p07_an_address_that_changes_is_registered_anew() {
    let front = Front::start().await;
    let client = front.register("App", APP).await;
    for other in [
        "https://app.example/callback2",
        "https://app.example/callback/",
        "https://app.example/Callback",
        "https://app.example/callback?x",
    ] {
        let answer = Browser::default().get(&front.host, &asks(&client, other, &[])).await;
        assert_eq!((answer.status, answer.header("location")), (StatusCode::BAD_REQUEST, ""), "{other}");
        let client = front.register("App", other).await;
        let answer = Browser::default().get(&front.host, &asks(&client, other, &[])).await;
        assert_eq!(answer.status, StatusCode::OK, "{other}");
    }
    // A changed id is no id: the addresses are in it.
    let answer = Browser::default().get(&front.host, &asks(&damaged(&client), APP, &[])).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_client_registers_what_it_may_be() {
    let front = Front::start().await;
    let answer = front
        .registers(json!({"client_name": "App", "redirect_uris": [APP, "http://localhost:1/x"], "application_type": "native",
            "grant_types": ["authorization_code", "refresh_token", "implicit"], "token_endpoint_auth_method": "client_secret_basic"}))
        .await;
    assert_eq!(answer.status, StatusCode::CREATED);
    let registered = answer.json();
    assert_eq!(registered["token_endpoint_auth_method"], "none");
    assert_eq!(registered["grant_types"], json!(["authorization_code", "refresh_token"]));
    assert!(registered.get("client_secret").is_none());
    for (wrong, code) in [
        (json!({"redirect_uris": []}), "invalid_redirect_uri"),
        (json!({}), "invalid_redirect_uri"),
        (json!({"redirect_uris": [APP, "http://app.example/"]}), "invalid_redirect_uri"),
        (json!({"redirect_uris": ["javascript:alert(1)"]}), "invalid_redirect_uri"),
        (json!({"redirect_uris": ["https://app.example/#x"]}), "invalid_redirect_uri"),
        (json!({"redirect_uris": vec![APP; 9]}), "invalid_redirect_uri"),
        (
            json!({"redirect_uris": vec![format!("https://app.example/{}", "a".repeat(900)); 4]}),
            "invalid_redirect_uri",
        ),
        (json!({"redirect_uris": [APP], "grant_types": ["client_credentials"]}), "invalid_client_metadata"),
        (json!("x"), "invalid_redirect_uri"),
    ] {
        let answer = front.registers(wrong.clone()).await;
        assert_eq!(
            (answer.status, &answer.json()["error"]),
            (StatusCode::BAD_REQUEST, &json!(code)),
            "{wrong}"
        );
    }
    let long =
        front.registers(json!({"redirect_uris": [APP], "software_statement": "x".repeat(64 << 10)})).await;
    assert_eq!(long.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn s60_however_many_register_nothing_is_kept_of_them() {
    let upstream = LocalUpstream::start().await;
    // Room for the key, one spent sign-in, one code and one grant.
    let mut settings = Settings::default();
    settings.limits.max_entries = 4;
    let registry: Arc<dyn Registry> = Arc::new(Memory::with(settings, Arc::new(SystemClock::new())));
    let host = Front::host(&upstream, &registry, RESOURCE, |proxy| proxy).await;
    let front = Front { host, upstream, registry };
    let first = front.register("First", APP).await;
    for _ in 0..1_000 {
        front.register("Flood", APP).await;
    }
    // Nor of those who begin and never sign in.
    for _ in 0..50 {
        let mut stranger = Browser::default();
        let page = stranger.get(&front.host, &asks(&first, APP, &[])).await;
        assert_eq!(stranger.decide(&front.host, &page, "approve").await.status, StatusCode::SEE_OTHER);
    }
    let code = front.code(&mut Browser::default(), &first, APP).await;
    assert_eq!(front.redeem(&first, APP, &code, &[]).await.status, StatusCode::OK);
}

#[tokio::test]
async fn s60_nobody_registers_unless_it_is_said() {
    let front = Front::with(|proxy| proxy.registration(false)).await;
    let answer = front.registers(json!({"redirect_uris": [APP]})).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "a path like any other");
    let other = Front::host(&front.upstream, &front.registry, RESOURCE, |proxy| proxy).await;
    let other = Front { host: other, ..front };
    let client = other.register("App", APP).await;
    let off =
        Front::host(&other.upstream, &other.registry, RESOURCE, |proxy| proxy.registration(false)).await;
    let answer = Browser::default().get(&off, &asks(&client, APP, &[])).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "nor does one that did come in");
}

#[tokio::test]
async fn a_client_of_the_operators_is_named_plainly() {
    let front = Front::start().await;
    let page =
        Browser::default().get(&front.host, &asks("known", "https://known.example/callback", &[])).await;
    assert!(
        page.body.contains("<b>Known App</b>") && page.body.contains("The operator of this server knows it")
    );
    for id in ["", "https://app.example/", "registered:x", "longhaul_client_x", "a b", &"x".repeat(101)] {
        let error = KnownClient::new(id, "App", &[APP]).unwrap_err();
        assert!(matches!(error, InvalidClient::Id { .. }), "{id}");
    }
    let error = KnownClient::new("a", "App", &["http://app.example/"]).unwrap_err();
    assert!(matches!(error, InvalidClient::Redirect { .. }));
}

/// A web server with one document, which counts who asks.
struct Site {
    url: String,
    document: Arc<Mutex<(StatusCode, Value)>>,
    asked: Arc<AtomicUsize>,
}

impl Site {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/client.json", listener.local_addr().unwrap());
        let document = json!({"client_id": url, "client_name": "Published", "redirect_uris": [APP]});
        let document = Arc::new(Mutex::new((StatusCode::OK, document)));
        let asked = Arc::new(AtomicUsize::new(0));
        let shared = (Arc::clone(&document), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (document, asked) = shared.clone();
                let service = service_fn(move |_: Request<Incoming>| {
                    asked.fetch_add(1, Ordering::SeqCst);
                    let (status, document) = document.lock().unwrap().clone();
                    let answer = Response::builder().status(status).header("location", "http://127.0.0.1:1/");
                    let answer = answer.body(Full::<Bytes>::from(document.to_string())).unwrap();
                    async { Ok::<_, Infallible>(answer) }
                });
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { url, document, asked }
    }
}

#[tokio::test]
async fn p14_a_client_is_what_it_publishes_at_its_own_address() {
    let front = Front::with(longhaul::auth::Proxy::local_documents).await;
    let site = Site::start().await;
    let mut browser = Browser::default();
    let page = browser.get(&front.host, &asks(&site.url, APP, &[])).await;
    assert_eq!(page.status, StatusCode::OK, "{page:?}");
    assert!(
        page.body.contains("<b>Published</b>") && page.body.contains("<p class=\"host\">app.example</p>")
    );
    assert!(page.body.contains(&format!("<code>{}</code>", site.url)));
    let unlisted = browser.get(&front.host, &asks(&site.url, "https://evil.example/callback", &[])).await;
    assert_eq!((unlisted.status, unlisted.header("location")), (StatusCode::BAD_REQUEST, ""));
    assert_eq!(site.asked.load(Ordering::SeqCst), 1, "it is asked once");
    // All the way: the address is the client's name.
    let code = front.code(&mut Browser::default(), &site.url, APP).await;
    let tokens = front.redeem(&site.url, APP, &code, &[]).await.json();
    let whoami = front.host.whoami(tokens["access_token"].as_str().unwrap()).await.text();
    assert!(whoami.contains(&format!("|ann|{} ", site.url)), "{whoami}");
}

#[tokio::test]
async fn p14_what_is_published_otherwise_is_nobody() {
    let front = Front::with(longhaul::auth::Proxy::local_documents).await;
    for (status, changes) in [
        (StatusCode::OK, json!({"client_id": "http://127.0.0.1:1/client.json"})),
        (StatusCode::OK, json!({"redirect_uris": ["https://app.example/other"]})),
        (StatusCode::OK, json!({"client_name": null})),
        (StatusCode::OK, json!({"padding": "x".repeat(80 << 10)})),
        (StatusCode::NOT_FOUND, json!({})),
        (StatusCode::FOUND, json!({})),
    ] {
        let site = Site::start().await;
        {
            let mut document = site.document.lock().unwrap();
            document.0 = status;
            for (name, value) in changes.as_object().unwrap() {
                document.1[name] = value.clone();
            }
        }
        let answer = Browser::default().get(&front.host, &asks(&site.url, APP, &[])).await;
        assert_eq!(
            (answer.status, answer.header("location")),
            (StatusCode::BAD_REQUEST, ""),
            "{status} {changes:.200}"
        );
    }
}

#[tokio::test]
async fn p14_s59_nothing_on_this_machine_is_asked_for_a_stranger() {
    let front = Front::start().await;
    let site = Site::start().await;
    let answer = Browser::default().get(&front.host, &asks(&site.url, APP, &[])).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    let off = Front::with(|proxy| proxy.documents(false)).await;
    let answer = Browser::default().get(&off.host, &asks(&site.url, APP, &[])).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(site.asked.load(Ordering::SeqCst), 0);
}
