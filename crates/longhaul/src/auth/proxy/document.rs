//! Clients whose id is an address, and what they publish of themselves there (Client ID Metadata Documents).
//!
//! A stranger says which address that is. So it is fetched from the public internet alone, once for many, and within
//! bounds.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{ACCEPT, CACHE_CONTROL, HeaderMap};
use reqwest::redirect::Policy;
use reqwest::{Url, tls};
use serde_json::Value;
use tokio::time::Instant;

use super::super::fetch::{FetchError, is_safe};
use super::client::{self, Client, Source};
use super::turns::Turns;
use crate::oauth::public::{Public, is_public};
use crate::transport::http::client::is_loopback;

/// Fetches what clients publish.
#[derive(Debug)]
pub(super) struct Documents {
    http: reqwest::Client,
    /// Whether this machine counts as public.
    local: bool,
    turns: Turns,
    known: Mutex<HashMap<String, (Client, Instant)>>,
}

/// The longest document.
const LONGEST: usize = 64 << 10;

/// How long fetching one may take in all.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How many are kept.
const MAX_KNOWN: usize = 256;

/// How long one is kept: as long as it says, within these, and the second if it says nothing.
const KEPT: [Duration; 3] = [Duration::ZERO, Duration::from_secs(5 * 60), Duration::from_secs(60 * 60)];

/// The longest address.
const LONGEST_ID: usize = 1024;

impl Documents {
    pub(super) fn new(local: bool) -> Result<Self, FetchError> {
        let builder = reqwest::Client::builder()
            .redirect(Policy::none())
            .timeout(TIMEOUT)
            .min_tls_version(tls::Version::TLS_1_2)
            // A proxy would find the addresses itself, and reach those that this machine may not.
            .no_proxy()
            .https_only(!local)
            .dns_resolver(Arc::new(Public { local }));
        let http = builder.build().map_err(|error| FetchError::Tls(error.into()))?;
        Ok(Self { http, local, turns: Turns::default(), known: Mutex::default() })
    }

    /// The client that publishes itself at `id`.
    ///
    /// # Errors
    ///
    /// What to say to whoever follows it.
    pub(super) async fn client(&self, id: &str) -> Result<Client, &'static str> {
        let url = self
            .address(id)
            .ok_or("The address that the program gives as its name is none that may be asked.")?;
        if let Some(client) = self.recall(id) {
            return Ok(client);
        }
        let busy = "Too many programs are being asked who they are: try again in a moment.";
        let _turn = self.turns.take(url.host_str().unwrap_or_default()).ok_or(busy)?;
        let (document, kept) = self.fetch(url).await.map_err(|error| {
            let error = error.without_url();
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "a client's document cannot be fetched"
            );
            "The program does not say who it is: what it publishes could not be fetched."
        })?;
        let client = document.and_then(|document| read(id, &document));
        let client = client.ok_or("What the program publishes of itself is not what it must be.")?;
        self.remember(id, &client, kept);
        Ok(client)
    }

    /// The address, if it is one that may be fetched and is written in the one way it can be written.
    fn address(&self, id: &str) -> Option<Url> {
        let url = Url::parse(id).ok()?;
        // A name is held against its addresses when it is looked up.
        let ip: Option<IpAddr> = url.host_str()?.trim_matches(['[', ']']).parse().ok();
        let public = ip.is_none_or(is_public);
        let plain = url.as_str() == id && id.len() <= LONGEST_ID && url.path().len() > 1;
        let nobody = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        let near = self.local && is_loopback(&url) && is_safe(&url);
        (plain && nobody && ((url.scheme() == "https" && public) || near)).then_some(url)
    }

    /// What is there, and how long it holds; `None` if it is nothing like a document.
    async fn fetch(&self, url: Url) -> Result<(Option<Value>, Duration), reqwest::Error> {
        let mut response = self.http.get(url).header(ACCEPT, "application/json").send().await?;
        if response.status() != http::StatusCode::OK {
            return Ok((None, Duration::ZERO));
        }
        let kept = lifetime(response.headers());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > LONGEST {
                return Ok((None, Duration::ZERO));
            }
            body.extend_from_slice(&chunk);
        }
        Ok((serde_json::from_slice(&body).ok(), kept))
    }

    fn recall(&self, id: &str) -> Option<Client> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(id).filter(|(_, until)| Instant::now() < *until).map(|(client, _)| client.clone())
    }

    /// What cannot be read is not kept: whoever publishes it may mend it.
    fn remember(&self, id: &str, client: &Client, kept: Duration) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if known.len() >= MAX_KNOWN {
            known.retain(|_, (_, until)| now < *until);
        }
        if known.len() < MAX_KNOWN && !kept.is_zero() {
            known.insert(id.to_owned(), (client.clone(), now + kept));
        }
    }
}

/// The client of a document, if it is of this very address and holds what it must.
fn read(id: &str, document: &Value) -> Option<Client> {
    let text = |name: &str| document.get(name).and_then(Value::as_str);
    // A shared secret would be published with it, and other proofs are not asked for here.
    let public = matches!(text("token_endpoint_auth_method"), None | Some("none"));
    let its_own = text("client_id") == Some(id) && public && document.get("client_secret").is_none();
    let (name, redirects) = (client::name(document)?, client::redirects(document)?);
    its_own.then(|| Client { handle: id.to_owned(), name, redirects, source: Source::Document })
}

/// How long an answer holds (RFC 9111).
fn lifetime(headers: &HeaderMap) -> Duration {
    let [shortest, usual, longest] = KEPT;
    let Some(control) = headers.get(CACHE_CONTROL).and_then(|value| value.to_str().ok()) else {
        return usual;
    };
    let control = control.to_ascii_lowercase();
    let mut directives = control.split(',').map(str::trim);
    if directives.clone().any(|one| one == "no-store" || one == "no-cache") {
        return shortest;
    }
    let age = directives.find_map(|one| one.strip_prefix("max-age=")?.parse().ok());
    age.map_or(usual, Duration::from_secs).min(longest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn p14_s59_only_public_addresses_are_asked() {
        let documents = Documents::new(false).unwrap();
        for good in [
            "https://app.example/client.json",
            "https://app.example:8443/a/b?v=1",
            "https://8.8.8.8/c",
            "https://[2606:4700::1]/c",
        ] {
            assert!(documents.address(good).is_some(), "{good}");
        }
        for bad in [
            "http://app.example/client.json",
            "https://app.example",
            "https://app.example/",
            "https://app.example/client.json#x",
            "https://me@app.example/client.json",
            "https://APP.example/client.json",
            "https://app.example:443/client.json",
            "https://app.example/a/../client.json",
            "https://app.example/./client.json",
            "https://127.0.0.1/c",
            "https://localhost.localdomain.\\/c",
            "https://0x7f.1/c",
            "https://2130706433/c",
            "https://10.0.0.1/c",
            "https://169.254.169.254/latest/meta-data",
            "https://192.168.1.1/c",
            "https://172.31.0.1/c",
            "https://100.64.0.1/c",
            "https://0.0.0.0/c",
            "https://224.0.0.1/c",
            "https://255.255.255.255/c",
            "https://[::1]/c",
            "https://[::]/c",
            "https://[::ffff:127.0.0.1]/c",
            "https://[::ffff:7f00:1]/c",
            "https://[64:ff9b::7f00:1]/c",
            "https://[2002:7f00:1::]/c",
            "https://[fe80::1]/c",
            "https://[fd00::1]/c",
            "https://[2001:db8::1]/c",
            "file:///etc/passwd",
            "gopher://app.example/c",
            "data:application/json,{}",
            "",
        ] {
            assert!(documents.address(bad).is_none(), "{bad}");
        }
    }

    #[tokio::test]
    async fn p14_s59_a_name_of_this_machine_is_not_asked() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let id = format!("https://localhost:{}/client.json", listener.local_addr().unwrap().port());
        assert!(Documents::new(false).unwrap().client(&id).await.is_err());
        let nobody = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(nobody.is_err(), "nobody came");
    }

    /// In a process of its own, which has the proxy in its environment.
    #[tokio::test]
    async fn p14_s59_a_proxy_of_the_environment_is_not_asked() {
        const NAME: &str = "auth::proxy::document::tests::p14_s59_a_proxy_of_the_environment_is_not_asked";
        const INNER: &str = "LONGHAUL_TEST_DOCUMENT_PROXY";
        if std::env::var_os(INNER).is_some() {
            assert!(Documents::new(false).unwrap().client("https://client.invalid/c").await.is_err());
            return;
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("http://{}", listener.local_addr().unwrap());
        let mut inner = tokio::process::Command::new(std::env::current_exe().unwrap());
        inner.args([NAME, "--exact"]).env(INNER, "1").env_remove("NO_PROXY").env_remove("no_proxy");
        for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"] {
            inner.env(name, &proxy);
        }
        tokio::select! {
            ended = inner.output() => {
                let ended = ended.unwrap();
                let says = String::from_utf8_lossy(&ended.stdout);
                assert!(ended.status.success() && says.contains("1 passed"), "{says}");
            }
            _ = listener.accept() => panic!("the proxy was asked"),
        }
    }

    #[test]
    fn p14_a_document_is_of_its_own_address() {
        let id = "https://app.example/client.json";
        let document = |changes: Value| {
            let mut document =
                json!({"client_id": id, "client_name": "App", "redirect_uris": ["https://app.example/cb"]});
            for (name, value) in changes.as_object().unwrap() {
                document[name] = value.clone();
            }
            document
        };
        assert!(read(id, &document(json!({}))).is_some());
        assert!(read(id, &document(json!({"token_endpoint_auth_method": "none"}))).is_some());
        for bad in [
            json!({"client_id": "https://app.example/client.json/"}),
            json!({"client_id": "https://other.example/client.json"}),
            json!({"client_id": null}),
            json!({"client_name": null}),
            json!({"client_name": " "}),
            json!({"redirect_uris": []}),
            json!({"redirect_uris": "https://app.example/cb"}),
            json!({"redirect_uris": ["https://app.example/cb", "javascript:alert(1)"]}),
            json!({"redirect_uris": vec!["https://app.example/cb"; 9]}),
            json!({"token_endpoint_auth_method": "client_secret_basic"}),
            json!({"client_secret": "x"}),
        ] {
            assert!(read(id, &document(bad.clone())).is_none(), "{bad}");
        }
    }

    #[test]
    fn p14_a_document_is_kept_as_long_as_it_says() {
        let lasts = |text: &'static str| {
            let control = http::HeaderValue::from_static(text);
            lifetime(&HeaderMap::from_iter([(CACHE_CONTROL, control)])).as_secs()
        };
        assert_eq!(lifetime(&HeaderMap::new()).as_secs(), 300);
        assert_eq!(
            [lasts("max-age=60"), lasts("public, Max-Age=90"), lasts("max-age=99999999")],
            [60, 90, 3600]
        );
        assert_eq!([lasts("no-store"), lasts("max-age=60, no-cache"), lasts("max-age=x")], [0, 0, 300]);
    }
}
