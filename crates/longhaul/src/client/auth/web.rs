//! Where a client asks for tokens: where its user sent it, and where a server may send it.
//!
//! A server names whoever grants tokens for it. So what it names is asked only if it is public, unless the user said
//! more: a server must not have us ask what only we can reach.

use std::net::IpAddr;
use std::sync::Arc;

use reqwest::header::{ACCEPT, HeaderMap};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, StatusCode, Url, tls};
use serde::de::DeserializeOwned;

use super::error::AuthError;
use super::limits::Limits;
use crate::oauth::fetch::{self, Bounds, FetchError, is_safe};
use crate::oauth::metadata;
use crate::oauth::public::{Public, is_public};
use crate::transport::http::client::is_loopback;

/// Asks authorization servers, and servers for their metadata.
#[derive(Debug)]
pub(super) struct Web {
    /// Whom the user named: they are asked wherever they are.
    named: Vec<(Url, Client)>,
    others: Client,
    reach: Reach,
    bounds: Bounds,
}

/// How near a server may send us.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reach {
    /// To public addresses.
    Public,
    /// There, and to this machine: the server is on it.
    Local,
    /// Anywhere.
    Any,
}

/// An answer of a token endpoint or the like, whatever its status.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Web {
    /// For a sign-in to the first of those whom the user has `named`.
    pub(super) fn new(named: &[&Url], private: bool, limits: Limits) -> Result<Self, AuthError> {
        let reach = match (private, named.first().is_some_and(|server| is_loopback(server))) {
            (true, _) => Reach::Any,
            (false, true) => Reach::Local,
            (false, false) => Reach::Public,
        };
        let prepared = AuthError::fetch("a connection");
        let named = named.iter().map(|url| Ok(((*url).clone(), fetch::client(url)?)));
        let named = named.collect::<Result<_, FetchError>>().map_err(&prepared)?;
        let mut builder = Client::builder()
            .redirect(Policy::none())
            .connect_timeout(limits.timeout)
            .min_tls_version(tls::Version::TLS_1_2);
        if reach != Reach::Any {
            // A proxy would find the addresses itself, and reach those that this machine may not.
            let resolver = Public { local: reach == Reach::Local };
            builder = builder.no_proxy().dns_resolver(Arc::new(resolver));
        }
        let others = builder.build().map_err(|error| prepared(FetchError::Tls(error.into())))?;
        let bounds = Bounds { timeout: limits.timeout, longest: limits.max_answer };
        Ok(Self { named, others, reach, bounds })
    }

    /// An address that somebody gave us, if it may be asked.
    pub(super) fn address(&self, text: &str) -> Result<Url, AuthError> {
        let forbidden = || AuthError::forbidden(text);
        let url = Url::parse(text).map_err(|_| forbidden())?;
        let nobody = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        if !nobody || !is_safe(&url) || (self.trusted(&url).is_none() && !self.is_in_reach(&url)) {
            return Err(forbidden());
        }
        Ok(url)
    }

    /// The JSON document there.
    pub(super) async fn json<T: DeserializeOwned>(&self, url: &Url) -> Result<T, FetchError> {
        self.bounds.json(self.client(url).get(url.clone()), url).await
    }

    /// What the authorization server at `url`, which calls itself `issuer`, says of itself.
    pub(super) async fn metadata<T: DeserializeOwned>(
        &self,
        url: &Url,
        issuer: &str,
    ) -> Result<T, FetchError> {
        let places = metadata::places(url);
        Ok(metadata::discover(self.client(url), issuer, &places, self.bounds).await?.document)
    }

    /// The client for whoever is there.
    pub(super) fn client(&self, url: &Url) -> &Client {
        self.trusted(url).unwrap_or(&self.others)
    }

    /// A request that has something to say.
    pub(super) fn post(&self, url: &Url) -> RequestBuilder {
        self.client(url).post(url.clone()).header(ACCEPT, "application/json").timeout(self.bounds.timeout)
    }

    /// Its answer, within bounds.
    pub(super) async fn reply(&self, request: RequestBuilder, url: &Url) -> Result<Reply, FetchError> {
        let sent = request.send().await;
        let response = sent.map_err(|error| FetchError::Unreachable(error.without_url().into()))?;
        let (status, headers) = (response.status(), response.headers().clone());
        Ok(Reply { status, headers, body: self.bounds.body(response, url).await? })
    }

    fn trusted(&self, url: &Url) -> Option<&Client> {
        let named = self.named.iter().find(|(named, _)| named.origin() == url.origin());
        named.map(|(_, client)| client)
    }

    /// A name is held against its addresses when it is looked up; an address is looked at here.
    fn is_in_reach(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let address: Option<IpAddr> = host.parse().ok();
        match self.reach {
            Reach::Any => true,
            Reach::Local => is_loopback(url) || address.is_none_or(is_public),
            Reach::Public => !is_loopback(url) && address.is_none_or(is_public),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn web(server: &str, private: bool) -> Web {
        Web::new(&[&Url::parse(server).unwrap()], private, Limits::default()).unwrap()
    }

    #[test]
    fn c21_s47_a_server_may_send_nobody_to_what_only_its_client_reaches() {
        let far = web("https://mcp.example/mcp", false);
        for good in ["https://login.example/a?b", "https://8.8.8.8/a", "https://mcp.example/x"] {
            assert!(far.address(good).is_ok(), "{good}");
        }
        for bad in [
            "http://login.example/",
            "http://127.0.0.1:9/",
            "https://127.0.0.1/",
            "https://localhost/",
            "https://10.0.0.1/",
            "https://169.254.169.254/latest",
            "https://[::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://2130706433/",
            "https://me@login.example/",
            "https://login.example/#x",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "",
        ] {
            assert!(matches!(far.address(bad), Err(AuthError::Forbidden { .. })), "{bad}");
        }
        let near = web("http://127.0.0.1:1/mcp", false);
        assert!(
            near.address("http://localhost:9/").is_ok() && near.address("https://login.example/").is_ok()
        );
        assert!(near.address("https://10.0.0.1/").is_err() && near.address("http://10.0.0.1/").is_err());
        let ours = web("https://mcp.corp.example/mcp", true);
        assert!(ours.address("https://10.0.0.1/").is_ok() && ours.address("http://10.0.0.1/").is_err());
    }

    #[tokio::test]
    async fn c21_s47_a_name_of_this_machine_is_not_asked_for_a_server_elsewhere() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let far = web("https://mcp.example/mcp", false);
        // Passed by hand where the name would be held back before.
        let url = Url::parse(&format!("http://localhost:{port}/")).unwrap();
        assert!(far.json::<serde_json::Value>(&url).await.is_err());
        let nobody = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(nobody.is_err(), "nobody came");
    }
}
