//! An authorization server that says what a test tells it to, and counts who asks.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::Signer;

/// The server; it ends with the test.
pub(crate) struct LocalIssuer {
    url: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    url: String,
    keys: Vec<Value>,
    /// What is said of a token.
    active: Vec<(String, Value)>,
    fetches: usize,
    introspections: usize,
    /// What was sent to the introspection endpoint, with its `Authorization`.
    asked: Vec<(String, String)>,
    down: bool,
    metadata_issuer: Option<String>,
}

impl LocalIssuer {
    pub(crate) async fn start(signers: &[&Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let keys = signers.iter().map(|signer| signer.jwk()).collect();
        let state = Arc::new(Mutex::new(State { url: url.clone(), keys, ..State::default() }));
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                let service = service_fn(move |request| answer(Arc::clone(&state), request));
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { url, state }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("{}/introspect", self.url)
    }

    pub(crate) fn keys_url(&self) -> String {
        format!("{}/keys", self.url)
    }

    /// How often its keys were fetched.
    pub(crate) fn fetches(&self) -> usize {
        self.state.lock().unwrap().fetches
    }

    /// How often it was asked about a token.
    pub(crate) fn introspections(&self) -> usize {
        self.state.lock().unwrap().introspections
    }

    pub(crate) fn asked(&self) -> Vec<(String, String)> {
        self.state.lock().unwrap().asked.clone()
    }

    pub(crate) fn publish(&self, keys: Vec<Value>) {
        self.state.lock().unwrap().keys = keys;
    }

    pub(crate) fn vouch(&self, token: &str, says: Value) {
        self.state.lock().unwrap().active.push((token.to_owned(), says));
    }

    pub(crate) fn go_down(&self) {
        self.state.lock().unwrap().down = true;
    }

    /// Its metadata says that it is somebody else.
    pub(crate) fn pretend_to_be(&self, issuer: &str) {
        self.state.lock().unwrap().metadata_issuer = Some(issuer.to_owned());
    }
}

async fn answer(
    state: Arc<Mutex<State>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    let mut state = state.lock().unwrap();
    let (status, answer) = match head.uri.path() {
        _ if state.down => (StatusCode::SERVICE_UNAVAILABLE, json!({})),
        "/.well-known/openid-configuration" => {
            let issuer = state.metadata_issuer.clone().unwrap_or_else(|| state.url.clone());
            (StatusCode::OK, json!({"issuer": issuer, "jwks_uri": format!("{}/keys", state.url)}))
        }
        "/keys" => {
            state.fetches += 1;
            (StatusCode::OK, json!({"keys": state.keys}))
        }
        "/introspect" => {
            state.introspections += 1;
            let authorization = head.headers["authorization"].to_str().unwrap().to_owned();
            state.asked.push((body.clone(), authorization));
            let structured = body.split('&').next().unwrap_or_default().matches('.').count() == 2;
            if structured {
                // As `oidc-provider` answers, whose own JWTs are not asked about.
                return Ok(Response::builder().status(400).body(Full::default()).unwrap());
            }
            let known = state.active.iter().find(|(token, _)| body.contains(&format!("token={token}&")));
            (StatusCode::OK, known.map_or_else(|| json!({"active": false}), |(_, says)| says.clone()))
        }
        _ => (StatusCode::NOT_FOUND, json!({})),
    };
    let mut response = Response::new(Full::from(answer.to_string()));
    *response.status_mut() = status;
    Ok(response)
}
