//! A protected server that is its own authorization server, before a [`LocalUpstream`]; and a client of it.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use longhaul::auth::{KnownClient, Protection, Proxy, Resource, Upstream};
use longhaul::server::Scopes;
use longhaul::store::{Memory, Registry};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::browser::encoded;
use super::upstream::parameters;
use super::{Answer, Browser, Host, LocalUpstream, RESOURCE, base64};

pub(crate) const VERIFIER: &str = "a-verifier-that-is-as-long-as-it-has-to-be-0123456789";
pub(crate) const APP: &str = "https://app.example/callback";
pub(crate) const CLI: &str = "http://127.0.0.1:4000/callback";

/// The server and its upstream.
pub(crate) struct Front {
    pub(crate) host: Host,
    pub(crate) upstream: LocalUpstream,
    pub(crate) registry: Arc<dyn Registry>,
}

impl Front {
    pub(crate) async fn start() -> Self {
        Self::with(|proxy| proxy).await
    }

    pub(crate) async fn with(change: impl FnOnce(Proxy) -> Proxy) -> Self {
        let upstream = LocalUpstream::start().await;
        let registry: Arc<dyn Registry> = Arc::new(Memory::new());
        let host = Self::host(&upstream, &registry, RESOURCE, change).await;
        Self { host, upstream, registry }
    }

    /// One more server on this upstream and this store.
    pub(crate) async fn host(
        upstream: &LocalUpstream,
        registry: &Arc<dyn Registry>,
        resource: &str,
        change: impl FnOnce(Proxy) -> Proxy,
    ) -> Host {
        let upstream = Upstream::new(upstream.url(), "longhaul", "s3cret").unwrap().scope("email");
        Self::before(upstream, registry, resource, change).await
    }

    /// One more server, before an upstream that is asked otherwise.
    pub(crate) async fn before(
        upstream: Upstream,
        registry: &Arc<dyn Registry>,
        resource: &str,
        change: impl FnOnce(Proxy) -> Proxy,
    ) -> Host {
        let known = KnownClient::new("known", "Known App", &["https://known.example/callback"]).unwrap();
        let proxy = Proxy::new(upstream, Arc::clone(registry))
            .scopes(Scopes::parse("deploy audit").unwrap())
            .client(known)
            .registration(true);
        let protection = Protection::new()
            .resource(Resource::parse(resource).unwrap())
            .require(Scopes::parse("mcp").unwrap())
            .proxy(change(proxy));
        Host::start(protection).await
    }

    /// Registers a client that is called back there.
    pub(crate) async fn register(&self, name: &str, redirect: &str) -> String {
        let answer = self.registers(json!({"client_name": name, "redirect_uris": [redirect]})).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
        answer.json()["client_id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn registers(&self, metadata: Value) -> Answer {
        let request = Request::post("/register").header("host", "localhost");
        let request = request.header("content-type", "application/json");
        self.host.send(request.body(Full::from(metadata.to_string())).unwrap()).await
    }

    /// All the way from the client's question to its code.
    pub(crate) async fn code(&self, browser: &mut Browser, client: &str, redirect: &str) -> String {
        let back = self.back(browser, &asks(client, redirect, &[]), "ann").await;
        parameters(back.header("location"))["code"].clone()
    }

    /// Asks, approves and signs in: what the browser is told then.
    pub(crate) async fn back(&self, browser: &mut Browser, address: &str, subject: &str) -> Answer {
        let page = browser.get(&self.host, address).await;
        assert_eq!(page.status, StatusCode::OK, "{page:?}");
        let to = browser.decide(&self.host, &page, "approve").await;
        let back = self.upstream.sign_in(to.header("location"), subject);
        browser.get(&self.host, &back).await
    }

    /// A client with its tokens.
    pub(crate) async fn tokens(&self, redirect: &str) -> (String, Value) {
        let client = self.register("App", redirect).await;
        let code = self.code(&mut Browser::default(), &client, redirect).await;
        let answer = self.redeem(&client, redirect, &code, &[]).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        (client, answer.json())
    }

    /// Redeems a code, with some parameters changed; an empty one is left out.
    pub(crate) async fn redeem(
        &self,
        client: &str,
        redirect: &str,
        code: &str,
        changes: &[(&str, &str)],
    ) -> Answer {
        let form = changed(
            &[
                ("grant_type", "authorization_code"),
                ("client_id", client),
                ("redirect_uri", redirect),
                ("code", code),
                ("code_verifier", VERIFIER),
            ],
            changes,
        );
        self.post("/token", &form).await
    }

    pub(crate) async fn refresh(&self, client: &str, tokens: &Value, changes: &[(&str, &str)]) -> Answer {
        let token = tokens["refresh_token"].as_str().unwrap();
        let form = [("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", token)];
        self.post("/token", &changed(&form, changes)).await
    }

    /// A form from a program.
    pub(crate) async fn post(&self, path: &str, form: &[(String, String)]) -> Answer {
        let form: Vec<(&str, &str)> =
            form.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let request = Request::post(path).header("host", "localhost");
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        self.host.send(request.body(Full::<Bytes>::from(encoded(&form))).unwrap()).await
    }
}

/// What a client sends its user to, with some parameters changed; an empty one is left out.
pub(crate) fn asks(client: &str, redirect: &str, changes: &[(&str, &str)]) -> String {
    let challenge = base64(Sha256::digest(VERIFIER));
    let form = changed(
        &[
            ("response_type", "code"),
            ("client_id", client),
            ("redirect_uri", redirect),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("state", "its-state"),
            ("scope", "mcp"),
            ("resource", RESOURCE),
        ],
        changes,
    );
    let form: Vec<(&str, &str)> = form.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    format!("/authorize?{}", encoded(&form))
}

fn changed(form: &[(&str, &str)], changes: &[(&str, &str)]) -> Vec<(String, String)> {
    let others = form.iter().filter(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
    let all = others.chain(changes).filter(|(_, value)| !value.is_empty());
    all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}
