//! What everybody is told before they are let in.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::HeaderValue;
use hyper::{Method, Request, Response, StatusCode};
use longhaul::proto::http::AllowList;
use longhaul::server::Caller;
use longhaul::tasks::environment::BoxFuture;
use longhaul::transport::http::server::{Options, PageBody, Pages, Peer, WrongCredential};
use serde_json::json;

use crate::rig::{Answer, Host, LocalIssuer, METADATA, RESOURCE, Signer, claims, legacy, modern};

const PLACES: [&str; 2] =
    ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"];

fn request(method: &str, path: &str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
}

async fn host() -> (Host, LocalIssuer, Signer) {
    let signer = Signer::new("k", "EdDSA");
    let issuer = LocalIssuer::start(&[&signer]).await;
    (Host::start(Host::protection(&issuer)).await, issuer, signer)
}

#[tokio::test]
async fn s4_without_a_token_nothing_is_there_but_the_metadata() {
    let (host, _issuer, _signer) = host().await;
    for path in
        ["/mcp", "/mcp/", "/", "/sse", "/message", "/messages", "/health", "/admin", "/.well-known", "//mcp"]
    {
        for method in ["GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "BREW"] {
            for session in [None, Some("0123456789abcdef0123456789abcdef")] {
                let mut request = request(method, path);
                if let Some(session) = session {
                    request = request.header("mcp-session-id", session);
                }
                let answer = host.send(request.body(Full::default()).unwrap()).await;
                assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{method} {path}");
                let challenge = format!("Bearer resource_metadata=\"{METADATA}\", scope=\"mcp\"");
                assert_eq!(answer.header("www-authenticate"), challenge, "{method} {path}");
            }
        }
    }
    // Whoever looks whether the server serves has no token, and learns nothing else.
    for (method, status) in [("GET", 200), ("HEAD", 200), ("POST", 401), ("OPTIONS", 401)] {
        let answer = host.send(request(method, "/healthz").body(Full::default()).unwrap()).await;
        assert_eq!(answer.status.as_u16(), status, "{method}");
        assert!(matches!(answer.body.as_str(), "ok" | "") || status == 401, "{answer:?}");
    }
    // Documents of others, which clients look for: a token would not make them be here.
    for path in
        ["/.well-known/", "/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"]
    {
        for method in ["GET", "POST", "OPTIONS"] {
            let answer = host.send(request(method, path).body(Full::default()).unwrap()).await;
            assert_eq!(
                (answer.status, answer.header("www-authenticate")),
                (StatusCode::NOT_FOUND, ""),
                "{path}"
            );
        }
    }
    for request in [
        modern("", "tools/call", Some("whoami"), json!({"name": "whoami"})),
        modern("", "server/discover", None, json!({})),
        legacy("", None, "initialize", json!({})),
        legacy("", None, "ping", json!({})),
    ] {
        assert_eq!(host.send(request).await.status, StatusCode::UNAUTHORIZED);
    }
}

#[tokio::test]
async fn r1_the_metadata_says_who_grants_access() {
    let (host, issuer, _) = host().await;
    for place in PLACES {
        let answer = host.send(request("GET", place).body(Full::default()).unwrap()).await;
        assert_eq!((answer.status, answer.header("content-type")), (StatusCode::OK, "application/json"));
        assert_eq!(
            answer.json(),
            json!({"resource": RESOURCE, "authorization_servers": [issuer.url()],
                "scopes_supported": ["mcp"], "bearer_methods_supported": ["header"]})
        );
        assert_eq!(answer.header("access-control-allow-origin"), "", "nobody asked from a page");
        let answer = host.send(request("POST", place).body(Full::default()).unwrap()).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
    }
}

#[tokio::test]
async fn s3_r7_a_page_that_is_allowed_reads_the_metadata_and_no_other_does() {
    let (host, ..) = host().await;
    for method in ["GET", "OPTIONS"] {
        let page = request(method, PLACES[0]).header("origin", "http://localhost:3000");
        let answer = host.send(page.body(Full::default()).unwrap()).await;
        assert!(answer.status.is_success(), "{method}");
        assert_eq!(answer.header("access-control-allow-origin"), "http://localhost:3000");
        assert_eq!(
            (answer.header("vary"), answer.header("access-control-allow-credentials")),
            ("Origin", "")
        );
        for origin in ["https://evil.example", "null"] {
            let page = request(method, PLACES[0]).header("origin", origin);
            assert_eq!(host.send(page.body(Full::default()).unwrap()).await.status, StatusCode::FORBIDDEN);
        }
    }
    let rebound =
        Request::get(PLACES[0]).header("host", "evil.example").body(Full::<Bytes>::default()).unwrap();
    assert_eq!(host.send(rebound).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn s3_a_listed_page_learns_how_to_sign_in_and_no_other_does() {
    let signer = Signer::new("k", "EdDSA");
    let issuer = LocalIssuer::start(&[&signer]).await;
    let (page, stranger) = ("https://app.example", "https://evil.example");
    let guard = Host::protection(&issuer).guard().unwrap();
    let host = Host::with(Options::default().guard(guard).allow(AllowList::new(["localhost"], [page]))).await;
    let ask = async |request: http::request::Builder, origin: &str| {
        host.send(request.header("origin", origin).body(Full::default()).unwrap()).await
    };
    // A browser shows no token before it has been told that it may.
    let preflight = || {
        let asked = request("OPTIONS", "/mcp").header("access-control-request-method", "POST");
        asked.header("access-control-request-headers", "authorization,content-type")
    };
    let told = ask(preflight(), page).await;
    assert_eq!(told.status, StatusCode::NO_CONTENT);
    assert_eq!(told.header("access-control-allow-headers"), "authorization,content-type");
    assert_eq!(told.header("access-control-allow-origin"), page);
    assert_eq!(ask(preflight(), stranger).await.status, StatusCode::FORBIDDEN);

    let refused = ask(request("POST", "/mcp"), page).await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    let token = signer.sign(&claims(&issuer, "ann", json!({})));
    let mut deploy = modern(&token, "tools/call", Some("deploy"), json!({"name": "deploy"}));
    deploy.headers_mut().insert("origin", page.parse().unwrap());
    let lacking = host.send(deploy).await;
    assert_eq!(lacking.status, StatusCode::FORBIDDEN);
    for answer in [refused, lacking] {
        assert_eq!(answer.header("access-control-allow-origin"), page);
        assert!(answer.header("access-control-expose-headers").contains("WWW-Authenticate"));
        assert!(answer.header("www-authenticate").starts_with("Bearer "));
    }
}

#[tokio::test]
async fn s19_what_a_request_says_of_its_host_changes_nothing() {
    let (host, _issuer, _) = host().await;
    let plain = async |path: &str| {
        host.send(request("GET", path).body(Full::default()).unwrap()).await.without_date()
    };
    let (metadata, refused) = (plain(PLACES[0]).await, plain("/mcp").await);
    for (name, value) in [
        ("x-forwarded-host", "evil.example"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-prefix", "/evil"),
        ("x-original-url", "/.well-known/oauth-protected-resource"),
        ("x-rewrite-url", "/.well-known/oauth-protected-resource"),
        ("x-http-method-override", "OPTIONS"),
        ("x-real-ip", "127.0.0.1"),
        ("x-authenticated-user", "admin"),
        ("x-forwarded-user", "admin"),
        ("x-api-key", "secret-api-key"),
        ("x-longhaul-principal", "local:0"),
        ("forwarded", "for=127.0.0.1;host=evil.example"),
        ("via", "1.1 evil.example"),
        ("proxy-authorization", "Bearer x"),
        ("cookie", "access_token=x"),
        ("authorization", "Basic bG9jYWw6MA=="),
        ("referer", "https://evil.example"),
        ("host", "localhost:9"),
        ("host", "127.0.0.1:80"),
    ] {
        for (path, expected) in [(PLACES[0], &metadata), ("/mcp", &refused)] {
            let mut request = request("GET", path);
            if name == "host" {
                request.headers_mut().unwrap().remove("host");
            }
            let answer: Answer = host.send(request.header(name, value).body(Full::default()).unwrap()).await;
            assert_eq!(&answer.without_date(), expected, "{name}: {value}");
        }
    }
}

#[tokio::test]
async fn r2_a_token_counts_in_one_header_only() {
    let (host, issuer, signer) = host().await;
    let token = signer.sign(&claims(&issuer, "ann", json!({})));
    for (path, tokens) in [
        (format!("/mcp?access_token={token}"), 0),
        (format!("/mcp?access_token={token}"), 1),
        (format!("/mcp?a=b&access_token={token}"), 1),
        ("/mcp".to_owned(), 2),
    ] {
        let mut request = request("POST", &path);
        for _ in 0..tokens {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let answer = host.send(request.body(Full::default()).unwrap()).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path} {tokens}");
        assert!(answer.header("www-authenticate").contains("error=\"invalid_request\""));
    }
    // In a body it is not even looked for.
    let form = request("POST", "/mcp").body(Full::from(format!("access_token={token}"))).unwrap();
    assert_eq!(host.send(form).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn r10_who_shows_bad_tokens_again_and_again_is_told_to_wait_and_a_good_one_comes_in_all_the_same() {
    let signer = Signer::new("k", "EdDSA");
    let issuer = LocalIssuer::start(&[&signer]).await;
    let options = Options::default().guard(Host::protection(&issuer).guard().unwrap());
    let server = longhaul::Server::new("protected", "1.0.0");
    let service = server.into_http_service(options).await.unwrap();
    let good = signer.sign(&claims(&issuer, "ann", json!({})));
    let ask = async |peer: [u8; 4], token: &str| {
        let mut request = modern(token, "tools/list", None, json!({}));
        request.extensions_mut().insert(Peer(peer.into()));
        let answer = tower_service::Service::call(&mut service.clone(), request).await.unwrap();
        let wait = answer.headers().get("retry-after").map(|wait| wait.to_str().unwrap().to_owned());
        (answer.status(), wait.and_then(|wait| wait.parse::<u64>().ok()))
    };
    let (here, there) = ([192, 0, 2, 1], [192, 0, 2, 2]);
    for _ in 0..100 {
        // Whoever has none has made no mistake.
        assert_eq!(ask(here, "").await.0, StatusCode::UNAUTHORIZED);
    }
    for _ in 0..30 {
        assert_eq!(ask(here, "bad").await, (StatusCode::UNAUTHORIZED, None));
    }
    let (status, wait) = ask(here, "bad").await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert!((1..=60).contains(&wait.unwrap()), "{wait:?}");
    assert_eq!(ask(here, &good).await.0, StatusCode::OK);
    assert_eq!(ask(here, "").await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(ask(there, "bad").await.0, StatusCode::UNAUTHORIZED);
}

/// A page that takes tokens by a form, and knows none.
#[derive(Debug)]
struct SignIn;

impl Pages for SignIn {
    fn has(&self, _: &Method, path: &str) -> bool {
        path == "/sign-in"
    }

    fn answer(&self, _: Option<Caller>, request: Request<Bytes>) -> BoxFuture<'_, Response<PageBody>> {
        let mut answer = Response::new(PageBody::Whole(Bytes::new()));
        *answer.status_mut() = StatusCode::UNAUTHORIZED;
        if !request.body().is_empty() {
            answer.extensions_mut().insert(WrongCredential);
            answer.headers_mut().insert("set-cookie", HeaderValue::from_static("session=; Max-Age=0"));
        }
        Box::pin(async { answer })
    }
}

#[tokio::test]
async fn r10_what_is_shown_to_a_page_in_vain_counts_with_what_is_shown_in_a_header() {
    let issuer = LocalIssuer::start(&[&Signer::new("k", "EdDSA")]).await;
    let options = Options::default().guard(Host::protection(&issuer).guard().unwrap()).pages(SignIn);
    let service = longhaul::Server::new("protected", "1.0.0").into_http_service(options).await.unwrap();
    let ask = async |peer: [u8; 4], mut request: Request<Full<Bytes>>| {
        request.extensions_mut().insert(Peer(peer.into()));
        let answer = tower_service::Service::call(&mut service.clone(), request).await.unwrap();
        // What it takes back of what was shown, it takes back from whoever has to wait, too.
        let takes_back =
            answer.headers().get("set-cookie").is_some_and(|cookie| cookie == "session=; Max-Age=0");
        (answer.status(), answer.headers().contains_key("retry-after"), takes_back)
    };
    let sign_in = |token: &'static str| request("POST", "/sign-in").body(Full::from(token)).unwrap();
    let (here, there) = ([192, 0, 2, 1], [192, 0, 2, 2]);
    for _ in 0..100 {
        assert_eq!(
            ask(here, sign_in("")).await,
            (StatusCode::UNAUTHORIZED, false, false),
            "it has shown none"
        );
    }
    for _ in 0..15 {
        assert_eq!(ask(here, sign_in("token=bad")).await, (StatusCode::UNAUTHORIZED, false, true));
        let in_header = modern("bad", "tools/list", None, json!({}));
        assert_eq!(ask(here, in_header).await, (StatusCode::UNAUTHORIZED, false, false));
    }
    assert_eq!(ask(here, sign_in("token=bad")).await, (StatusCode::TOO_MANY_REQUESTS, true, true));
    assert_eq!(ask(here, sign_in("")).await, (StatusCode::UNAUTHORIZED, false, false));
    assert_eq!(ask(there, sign_in("token=bad")).await, (StatusCode::UNAUTHORIZED, false, true));
}
