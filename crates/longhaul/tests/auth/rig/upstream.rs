//! An authorization server that knows one client and lets nobody register: people sign in at once, as whom the test
//! says.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;

use super::{Signer, base64, now};

/// The server; it ends with the test.
pub(crate) struct LocalUpstream {
    url: String,
    state: Arc<Mutex<State>>,
}

struct State {
    url: String,
    signer: Signer,
    /// By code: what the id token says, and the challenge it was asked for with.
    codes: HashMap<String, (Value, String)>,
    says_issuer: bool,
    /// What it says of whoever's token it is shown.
    user: Value,
    /// Every form that the token endpoint got.
    forms: Vec<String>,
}

impl LocalUpstream {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let signer = Signer::new("upstream", "ES256");
        let (codes, forms) = (HashMap::new(), Vec::new());
        let state = Arc::new(Mutex::new(State {
            url: url.clone(),
            signer,
            codes,
            says_issuer: true,
            user: Value::Null,
            forms,
        }));
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                let service = service_fn(move |request| answer(Arc::clone(&state), request));
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { url, state }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What its token endpoint was sent.
    pub(crate) fn forms(&self) -> Vec<String> {
        self.state.lock().unwrap().forms.clone()
    }

    /// Somebody who was sent to `address` signs in: where the browser is sent back to.
    pub(crate) fn sign_in(&self, address: &str, subject: &str) -> String {
        self.sign_in_with(address, json!({"sub": subject, "email": format!("{subject}@example.com")}))
    }

    /// The same, and the id token says this besides, or otherwise; `null` leaves a claim out.
    pub(crate) fn sign_in_with(&self, address: &str, says: Value) -> String {
        let asked = parameters(address);
        assert_eq!(asked["client_id"], "longhaul");
        assert_eq!(asked["code_challenge_method"], "S256");
        let mut claims =
            json!({"iss": self.url, "aud": "longhaul", "exp": now() + 60, "nonce": asked["nonce"]});
        for (name, value) in says.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let mut state = self.state.lock().unwrap();
        let code = format!("upstream-code-{}", state.codes.len());
        state.codes.insert(code.clone(), (claims, asked["code_challenge"].clone()));
        format!("{}?code={code}&state={}&iss={}", asked["redirect_uri"], asked["state"], self.url)
    }
}

/// The parameters of an address.
pub(crate) fn parameters(address: &str) -> HashMap<String, String> {
    let query = address.split_once('?').map_or("", |(_, query)| query);
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

async fn answer(
    state: Arc<Mutex<State>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    let mut state = state.lock().unwrap();
    let url = state.url.clone();
    let (status, answer) = match head.uri.path() {
        "/.well-known/openid-configuration" => (
            StatusCode::OK,
            json!({"issuer": url, "jwks_uri": format!("{url}/keys"), "token_endpoint": format!("{url}/token"),
                "authorization_endpoint": format!("{url}/auth"),
                "authorization_response_iss_parameter_supported": state.says_issuer}),
        ),
        "/keys" => (StatusCode::OK, json!({"keys": [state.signer.jwk()]})),
        "/token" => {
            state.forms.push(body.clone());
            let sent = parameters(&format!("?{body}"));
            let known = state.codes.remove(&sent["code"]);
            let verifier = sent.get("code_verifier").map_or("", String::as_str);
            match known {
                Some((claims, challenge)) if base64(Sha256::digest(verifier)) == challenge => {
                    let basic = head.headers.get("authorization").map(|value| value.to_str().unwrap());
                    let in_form = sent.get("client_secret").map(String::as_str);
                    assert!(basic == Some("Basic bG9uZ2hhdWw6czNjcmV0") || in_form == Some("s3cret"));
                    state.user = json!({"id": 42, "login": claims["sub"], "email": null});
                    let id_token =
                        state.signer.sign_with(&json!({"alg": "ES256", "kid": "upstream"}), &claims);
                    (StatusCode::OK, json!({"access_token": "upstream-access", "id_token": id_token}))
                }
                _ => (StatusCode::BAD_REQUEST, json!({"error": "invalid_grant"})),
            }
        }
        "/user" => {
            assert_eq!(head.headers["authorization"], "Bearer upstream-access");
            assert!(head.headers.contains_key("user-agent"));
            (StatusCode::OK, state.user.clone())
        }
        _ => (StatusCode::NOT_FOUND, json!({})),
    };
    let mut response = Response::new(Full::from(answer.to_string()));
    *response.status_mut() = status;
    Ok(response)
}
