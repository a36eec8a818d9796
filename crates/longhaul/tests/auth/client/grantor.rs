//! A protected server and the authorization server that it names, at one address of this machine: it does what a test
//! says, and remembers what it was asked.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;

use crate::rig::{base64, parameters};

/// The two servers; they end with the test.
#[derive(Clone, Debug)]
pub(crate) struct Grantor {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

/// How they behave.
#[derive(Debug)]
pub(crate) struct Ways {
    /// What the challenge of a 401 says besides where the metadata is; `None` leaves that out, too.
    pub(crate) challenge: Option<String>,
    /// Where the server's metadata is.
    pub(crate) resource_at: String,
    /// What is otherwise in the server's metadata; `null` leaves a member out.
    pub(crate) resource: Value,
    /// Where the authorization server's metadata is.
    pub(crate) issuer_at: String,
    /// What is otherwise in the authorization server's metadata; `null` leaves a member out.
    pub(crate) issuer: Value,
    /// What is otherwise in the answer to a registration.
    pub(crate) registration: Value,
    /// What comes back besides code and state.
    pub(crate) back: Vec<(String, String)>,
    /// What is otherwise in the answer of the token endpoint.
    pub(crate) token: Value,
    /// The scope that calling a tool takes.
    pub(crate) tool_scope: Option<String>,
    /// Whether tokens that get others are given, each once.
    pub(crate) refreshes: bool,
    /// Whether proofs have to have a nonce.
    pub(crate) nonce: bool,
    /// What is not answered as it should be, by method and path.
    pub(crate) odd: BTreeMap<&'static str, Odd>,
}

/// An answer that is none.
#[derive(Clone, Debug)]
pub(crate) enum Odd {
    /// It is elsewhere.
    Redirect(String),
    /// It has so many bytes.
    Long(usize),
    /// It never comes.
    Never,
}

#[derive(Debug)]
struct State {
    ways: Ways,
    /// By token: the scopes.
    tokens: BTreeMap<String, BTreeSet<String>>,
    refresh: BTreeMap<String, BTreeSet<String>>,
    /// By code: the scopes and the challenge.
    codes: BTreeMap<String, (BTreeSet<String>, String)>,
    heard: Vec<Heard>,
    count: usize,
}

/// What one request was.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    /// Method and path.
    pub(crate) what: String,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Heard {
    /// A parameter of its form or query.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        let text = if self.body.is_empty() { &self.query } else { &self.body };
        parameters(&format!("?{text}")).remove(name)
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl Grantor {
    pub(crate) async fn start(change: impl FnOnce(&mut Ways, &str)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut ways = Ways {
            challenge: Some(String::new()),
            resource_at: "/.well-known/oauth-protected-resource/mcp".to_owned(),
            resource: json!({}),
            issuer_at: "/.well-known/oauth-authorization-server".to_owned(),
            issuer: json!({}),
            registration: json!({}),
            back: Vec::new(),
            token: json!({}),
            tool_scope: None,
            refreshes: false,
            nonce: false,
            odd: BTreeMap::new(),
        };
        change(&mut ways, &url);
        let state = State {
            ways,
            tokens: BTreeMap::new(),
            refresh: BTreeMap::new(),
            codes: BTreeMap::new(),
            heard: Vec::new(),
            count: 0,
        };
        let grantor = Self { url, state: Arc::new(Mutex::new(state)) };
        let serving = grantor.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let grantor = serving.clone();
                let service = service_fn(move |request| {
                    let grantor = grantor.clone();
                    async move { Ok::<_, Infallible>(grantor.answer(request).await) }
                });
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
            }
        });
        grantor
    }

    pub(crate) fn server(&self) -> String {
        format!("{}/mcp", self.url)
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Ways)) {
        change(&mut self.state().ways);
    }

    /// No token that was given counts any more.
    pub(crate) fn revoke_access(&self) {
        self.state().tokens.clear();
    }

    /// No token that gets others does, either.
    pub(crate) fn revoke_all(&self) {
        self.revoke_access();
        self.state().refresh.clear();
    }

    /// The requests of this method and path.
    pub(crate) fn heard(&self, what: &str) -> Vec<Heard> {
        self.state().heard.iter().filter(|heard| heard.what == what).cloned().collect()
    }

    /// All requests, as far as they are about signing in.
    pub(crate) fn paths(&self) -> Vec<String> {
        let state = self.state();
        state.heard.iter().map(|heard| heard.what.clone()).filter(|what| what != "POST /mcp").collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        let what = format!("{} {}", head.method, head.uri.path());
        let query = head.uri.query().unwrap_or_default().to_owned();
        let heard = Heard { what, query, headers: head.headers, body };
        let odd = {
            let mut state = self.state();
            state.heard.push(heard.clone());
            state.ways.odd.get(heard.what.as_str()).cloned()
        };
        let (status, headers, body) = match odd {
            Some(Odd::Redirect(to)) => (307, vec![("location", to)], Value::Null),
            Some(Odd::Long(bytes)) => plain(200, "x".repeat(bytes).into()),
            Some(Odd::Never) => std::future::pending().await,
            None => self.state().answer(&self.url, &heard),
        };
        let mut response = Response::builder().status(status).header("content-type", "application/json");
        for (name, value) in headers {
            response = response.header(name, value);
        }
        response.body(Full::from(body.to_string())).unwrap()
    }
}

type Answer = (u16, Vec<(&'static str, String)>, Value);

fn plain(status: u16, body: Value) -> Answer {
    (status, Vec::new(), body)
}

fn with(mut base: Value, changes: &Value) -> Value {
    for (name, value) in changes.as_object().unwrap() {
        base[name] = value.clone();
    }
    base.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    base
}

impl State {
    fn answer(&mut self, url: &str, heard: &Heard) -> Answer {
        let what = heard.what.as_str();
        if what == format!("GET {}", self.ways.resource_at) {
            let document = json!({ "resource": format!("{url}/mcp"), "authorization_servers": [url] });
            return plain(200, with(document, &self.ways.resource));
        }
        if what == format!("GET {}", self.ways.issuer_at) {
            let document = json!({ "issuer": url, "authorization_endpoint": format!("{url}/authorize"),
                "token_endpoint": format!("{url}/token"), "registration_endpoint": format!("{url}/register"),
                "revocation_endpoint": format!("{url}/revoke"),
                "token_endpoint_auth_methods_supported": ["none"],
                "code_challenge_methods_supported": ["plain", "S256"] });
            return plain(200, with(document, &self.ways.issuer));
        }
        match what {
            "POST /mcp" => self.serve(url, heard),
            "POST /register" => {
                self.count += 1;
                let made = json!({ "client_id": format!("client-{}", self.count) });
                plain(201, with(made, &self.ways.registration))
            }
            "GET /authorize" => self.authorize(heard),
            "POST /token" => self.token(heard),
            "POST /revoke" => {
                let token = heard.parameter("token").unwrap();
                self.refresh.remove(&token);
                self.tokens.clear();
                plain(200, Value::Null)
            }
            _ => plain(404, json!({})),
        }
    }

    fn authorize(&mut self, heard: &Heard) -> Answer {
        self.count += 1;
        let code = format!("code-{}", self.count);
        let scopes = heard.parameter("scope").unwrap_or_default();
        let scopes = scopes.split(' ').filter(|scope| !scope.is_empty()).map(str::to_owned).collect();
        self.codes.insert(code.clone(), (scopes, heard.parameter("code_challenge").unwrap()));
        let state = heard.parameter("state").unwrap();
        let mut back = vec![("code".to_owned(), code), ("state".to_owned(), state)];
        for (name, value) in &self.ways.back {
            back.retain(|(other, _)| other != name);
            back.push((name.clone(), value.clone()));
        }
        let back = form_urlencoded::Serializer::new(String::new()).extend_pairs(back).finish();
        let location = format!("{}?{back}", heard.parameter("redirect_uri").unwrap());
        (302, vec![("location", location)], Value::Null)
    }

    fn token(&mut self, heard: &Heard) -> Answer {
        let refused =
            |error: &str| plain(400, json!({ "error": error, "error_description": "no\u{1b}[31m" }));
        let of = |name: &str| heard.parameter(name).unwrap_or_default();
        if self.ways.nonce && !heard.header("dpop").is_empty() && !has_nonce(heard.header("dpop"), "as") {
            let nonce = vec![("dpop-nonce", "as".to_owned())];
            return (400, nonce, json!({ "error": "use_dpop_nonce" }));
        }
        let scopes = match of("grant_type").as_str() {
            "authorization_code" => match self.codes.remove(&of("code")) {
                Some((scopes, challenge)) if base64(Sha256::digest(of("code_verifier"))) == challenge => {
                    scopes
                }
                _ => return refused("invalid_grant"),
            },
            "refresh_token" => match self.refresh.remove(&of("refresh_token")) {
                Some(scopes) => scopes,
                None => return refused("invalid_grant"),
            },
            "client_credentials" => of("scope").split(' ').map(str::to_owned).collect(),
            "urn:ietf:params:oauth:grant-type:jwt-bearer" if of("assertion") == "vouched for" => {
                of("scope").split(' ').map(str::to_owned).collect()
            }
            "urn:ietf:params:oauth:grant-type:token-exchange" => {
                let vouched = json!({ "access_token": "vouched for", "token_type": "N_A",
                    "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag" });
                return plain(200, with(vouched, &self.ways.token));
            }
            _ => return refused("unsupported_grant_type"),
        };
        self.count += 1;
        let token = format!("access-{}", self.count);
        self.tokens.insert(token.clone(), scopes.clone());
        let kind = if heard.header("dpop").is_empty() { "Bearer" } else { "DPoP" };
        let mut granted = json!({ "access_token": token, "token_type": kind, "expires_in": 3600 });
        if self.ways.refreshes {
            let refresh = format!("refresh-{}", self.count);
            self.refresh.insert(refresh.clone(), scopes);
            granted["refresh_token"] = refresh.into();
        }
        plain(200, with(granted, &self.ways.token))
    }

    fn serve(&self, url: &str, heard: &Heard) -> Answer {
        let request: Value = serde_json::from_str(&heard.body).unwrap();
        let shown = heard.header("authorization");
        let token = shown.strip_prefix("Bearer ").or_else(|| shown.strip_prefix("DPoP "));
        let metadata = format!(r#"resource_metadata="{url}{}""#, self.ways.resource_at);
        let Some(scopes) = token.and_then(|token| self.tokens.get(token)) else {
            let challenge = self.ways.challenge.as_ref();
            let challenge = challenge.map_or_else(
                || "Bearer".to_owned(),
                |more| {
                    let scheme = if self.ways.nonce { "DPoP" } else { "Bearer" };
                    if more.is_empty() {
                        format!("{scheme} {metadata}")
                    } else {
                        format!("{scheme} {metadata}, {more}")
                    }
                },
            );
            return (401, vec![("www-authenticate", challenge)], json!({}));
        };
        if self.ways.nonce && !has_nonce(heard.header("dpop"), "rs") {
            let challenge = r#"DPoP error="use_dpop_nonce""#.to_owned();
            return (401, vec![("www-authenticate", challenge), ("dpop-nonce", "rs".to_owned())], json!({}));
        }
        let lacks = self.ways.tool_scope.as_ref().filter(|scope| !scopes.contains(*scope));
        if let Some(scope) = lacks.filter(|_| request["method"] == "tools/call") {
            let challenge = format!(r#"Bearer error="insufficient_scope", scope="{scope}", {metadata}"#);
            return (403, vec![("www-authenticate", challenge)], json!({}));
        }
        let result = match request["method"].as_str() {
            Some("server/discover") => json!({ "supportedVersions": ["2026-07-28"], "resultType": "complete",
                "ttlMs": 0, "cacheScope": "public", "capabilities": { "tools": {} } }),
            Some("tools/list") => {
                json!({ "tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "public" })
            }
            _ => json!({ "resultType": "complete", "content": [{ "type": "text", "text": "done" }] }),
        };
        plain(200, json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }))
    }
}

/// Whether the claims of a proof have this nonce.
fn has_nonce(proof: &str, nonce: &str) -> bool {
    use base64::Engine as _;
    let claims = proof.split('.').nth(1).unwrap_or_default();
    let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).unwrap_or_default();
    serde_json::from_slice::<Value>(&claims).is_ok_and(|claims| claims["nonce"] == nonce)
}
