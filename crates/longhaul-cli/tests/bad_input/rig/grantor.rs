//! A protected server and the authorization server that it names, at one address: every token that gets others gets one,
//! once, and whoever shows it again loses all that came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use serde_json::{Value, json};

use super::eventually;

/// Both; they end with the test's process.
#[derive(Clone, Debug)]
pub(crate) struct Grantor {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// What is otherwise in the authorization server's metadata.
    issuer: Value,
    /// Access tokens that count, with what they are for.
    access: BTreeMap<String, String>,
    refresh: BTreeMap<String, String>,
    used: BTreeSet<String>,
    /// Whether somebody showed a token twice.
    was_robbed: bool,
    /// The scope that calls take.
    scope: Option<String>,
    /// A token is renewed only once so many were refused.
    refusals: usize,
    refused: usize,
    count: usize,
    heard: Vec<Heard>,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    /// Method and path.
    pub(crate) what: String,
    pub(crate) authorization: String,
    pub(crate) form: BTreeMap<String, String>,
    body: String,
}

impl Grantor {
    /// With an authorization server that says this otherwise of itself; `null` leaves a member out.
    pub(crate) fn start(issuer: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State { issuer, ..State::default() }));
        let grantor = Self { url, state };
        let serving = grantor.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let grantor = serving.clone();
                thread::spawn(move || grantor.serve(&stream));
            }
        });
        grantor
    }

    /// The address of the protected server.
    pub(crate) fn server(&self) -> String {
        format!("{}/mcp", self.url)
    }

    /// No access token counts any more, and none is renewed before so many requests were refused.
    pub(crate) fn expire(&self, refusals: usize) {
        let mut state = self.state();
        state.access.clear();
        (state.refusals, state.refused) = (refusals, 0);
    }

    /// No token counts any more.
    pub(crate) fn revoke(&self) {
        self.expire(0);
        self.state().refresh.clear();
    }

    /// Calls take this scope from now on.
    pub(crate) fn demand(&self, scope: &str) {
        self.state().scope = Some(scope.to_owned());
    }

    /// The requests of this method and path.
    pub(crate) fn heard(&self, what: &str) -> Vec<Heard> {
        self.state().heard.iter().filter(|heard| heard.what == what).cloned().collect()
    }

    /// How often a token was renewed; nobody may have shown one twice.
    #[track_caller]
    pub(crate) fn renewals(&self) -> usize {
        assert!(!self.state().was_robbed, "a token that gets others was shown twice");
        self.heard("POST /token").iter().filter(|heard| heard.form["grant_type"] == "refresh_token").count()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn serve(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        let _ = reader.read_line(&mut line);
        let mut words = line.split(' ');
        let (Some(verb), Some(target)) = (words.next(), words.next()) else { return };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            let _ = reader.read_line(&mut line);
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let body = String::from_utf8(body).unwrap();
        let heard = Heard {
            what: format!("{verb} {path}"),
            authorization: headers.remove("authorization").unwrap_or_default(),
            form: pairs(if body.is_empty() { query } else { &body }),
            body,
        };
        let (status, header, body) = self.answer(&heard);
        let body = body.to_string();
        let answer = format!(
            "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\n{header}content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        // Who asked may be gone.
        let _ = (&mut &*stream).write_all(answer.as_bytes());
    }

    fn answer(&self, heard: &Heard) -> (u16, String, Value) {
        self.state().heard.push(heard.clone());
        let url = &self.url;
        let plain = |status, body| (status, String::new(), body);
        match heard.what.as_str() {
            "GET /.well-known/oauth-protected-resource/mcp" => {
                plain(200, json!({ "resource": self.server(), "authorization_servers": [url] }))
            }
            "GET /.well-known/oauth-authorization-server" => {
                let mut document = json!({ "issuer": url, "authorization_endpoint": format!("{url}/authorize"),
                    "token_endpoint": format!("{url}/token"), "registration_endpoint": format!("{url}/register"),
                    "revocation_endpoint": format!("{url}/revoke"), "code_challenge_methods_supported": ["S256"] });
                for (name, value) in self.state().issuer.as_object().into_iter().flatten() {
                    document[name] = value.clone();
                }
                document.as_object_mut().unwrap().retain(|_, value| !value.is_null());
                plain(200, document)
            }
            "POST /register" => {
                plain(201, json!({ "client_id": "registered", "token_endpoint_auth_method": "none" }))
            }
            "POST /token" => {
                let (status, body) = self.grant(heard);
                plain(status, body)
            }
            "POST /revoke" => {
                self.revoke();
                plain(200, Value::Null)
            }
            "POST /mcp" => self.let_in(heard),
            _ => plain(404, json!({})),
        }
    }

    fn grant(&self, heard: &Heard) -> (u16, Value) {
        let refused = || (400, json!({ "error": "invalid_grant" }));
        let scope = match heard.form["grant_type"].as_str() {
            // The code is the scope that its user has agreed to.
            "authorization_code" => heard.form["code"].clone(),
            _ => {
                eventually("who waits", || {
                    let state = self.state();
                    (state.refused >= state.refusals).then_some(())
                });
                let mut state = self.state();
                let shown = &heard.form["refresh_token"];
                let Some(scope) = state.refresh.remove(shown) else {
                    if state.used.contains(shown) {
                        state.was_robbed = true;
                        state.access.clear();
                        state.refresh.clear();
                    }
                    return refused();
                };
                state.used.insert(shown.clone());
                scope
            }
        };
        let mut state = self.state();
        state.count += 1;
        let (access, refresh) = (format!("access-{}", state.count), format!("refresh-{}", state.count));
        state.access.insert(access.clone(), scope.clone());
        state.refresh.insert(refresh.clone(), scope);
        (
            200,
            json!({ "access_token": access, "token_type": "Bearer", "refresh_token": refresh, "expires_in": 3600 }),
        )
    }

    fn let_in(&self, heard: &Heard) -> (u16, String, Value) {
        let mut state = self.state();
        let request: Value = serde_json::from_str(&heard.body).unwrap();
        let shown = heard.authorization.strip_prefix("Bearer ").and_then(|token| state.access.get(token));
        let Some(granted) = shown else {
            state.refused += 1;
            let scope = r#"WWW-Authenticate: Bearer scope="use""#;
            return (401, format!("{scope}\r\n"), json!({}));
        };
        let lacks = state.scope.as_ref().filter(|scope| !granted.split(' ').any(|one| one == *scope));
        if let Some(scope) = lacks.filter(|_| request["method"] == "tools/call") {
            let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
            return (403, format!("WWW-Authenticate: {challenge}\r\n"), json!({}));
        }
        let result = match request["method"].as_str() {
            Some("server/discover") => json!({ "supportedVersions": ["2026-07-28"], "resultType": "complete",
                "ttlMs": 0, "cacheScope": "public", "capabilities": { "tools": {} } }),
            Some("tools/list") => json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "public",
                "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] }),
            _ => json!({ "resultType": "complete", "content": [{ "type": "text", "text": "done" }] }),
        };
        (200, String::new(), json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }))
    }
}

/// The parameters of a form or a query.
pub(crate) fn pairs(text: &str) -> BTreeMap<String, String> {
    let pair = |pair: &str| pair.split_once('=').map(|(name, value)| (decoded(name), decoded(value)));
    text.split('&').filter_map(pair).collect()
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => (bytes.push(byte), rest = &after[2..]),
            None => (bytes.push(if *first == b'+' { b' ' } else { *first }), rest = after),
        };
    }
    String::from_utf8(bytes).unwrap()
}
