//! What is fetched from authorization servers: within bounds, and from nowhere but where it was asked for.

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, RequestBuilder, Response, Url};
use serde::de::DeserializeOwned;

use crate::transport::http::client::{http_client, is_loopback};

/// What kept an HTTP client from its work.
type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why something could not be had from an authorization server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// TLS cannot be set up here.
    #[error("TLS cannot be set up; are the system's certificates installed?")]
    Tls(#[source] Source),
    /// It could not be reached, or took too long.
    #[error("it could not be reached")]
    Unreachable(#[source] Source),
    /// It has no such thing.
    #[error("{url} answered with the status {status}")]
    #[non_exhaustive]
    Status {
        /// What was asked for.
        url: String,
        /// The answer.
        status: u16,
    },
    /// It says too much.
    #[error("{url} is longer than {limit} bytes")]
    #[non_exhaustive]
    TooLong {
        /// What was asked for.
        url: String,
        /// How many bytes it may have.
        limit: usize,
    },
    /// It is not what it should be.
    #[error("{url} is not what it should be: {reason}")]
    #[non_exhaustive]
    Malformed {
        /// What was asked for.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// A text that is no URL of an authorization server.
#[cfg(feature = "auth")]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{}` is no URL of an authorization server: it is https://HOST[:PORT]/PATH, or http on this machine, without query, fragment and user", url.escape_debug())]
#[non_exhaustive]
pub struct InvalidUrl {
    /// The text.
    pub url: String,
}

/// How long a fetch may take in all, and how many bytes may come of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) timeout: Duration,
    pub(crate) longest: usize,
}

impl Default for Bounds {
    /// The longest document is the field's.
    fn default() -> Self {
        Self { timeout: TIMEOUT, longest: 1 << 20 }
    }
}

/// How long a fetch may take, unless said.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the URL of an authorization server.
#[cfg(feature = "auth")]
pub(crate) fn url(text: &str) -> Result<Url, InvalidUrl> {
    let invalid = || InvalidUrl { url: text.to_owned() };
    let url = Url::parse(text).map_err(|_| invalid())?;
    let plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    if plain && url.password().is_none() && is_safe(&url) { Ok(url) } else { Err(invalid()) }
}

/// Whether nobody in between can read or change what is said to it: `https`, or `http` within this machine.
pub(crate) fn is_safe(url: &Url) -> bool {
    url.has_host() && (url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url)))
}

/// A client for one authorization server. It follows no redirects.
pub(crate) fn client(url: &Url) -> Result<Client, FetchError> {
    http_client(url, TIMEOUT, HeaderMap::new()).build().map_err(|error| FetchError::Tls(error.into()))
}

/// The JSON document that `request` for `url` gives.
#[cfg(feature = "auth")]
pub(crate) async fn json<T: DeserializeOwned>(request: RequestBuilder, url: &Url) -> Result<T, FetchError> {
    Bounds::default().json(request, url).await
}

impl Bounds {
    /// The JSON document that `request` for `url` gives.
    pub(crate) async fn json<T: DeserializeOwned>(
        self,
        request: RequestBuilder,
        url: &Url,
    ) -> Result<T, FetchError> {
        let sent = request.header("accept", "application/json").timeout(self.timeout).send().await;
        let response = sent.map_err(unreachable)?;
        if !response.status().is_success() {
            return Err(FetchError::Status { url: url.to_string(), status: response.status().as_u16() });
        }
        // What is in it stays out of the error: it may say who has a token.
        serde_json::from_slice(&self.body(response, url).await?).map_err(|error| FetchError::Malformed {
            url: url.to_string(),
            reason: format!("{:?} error in line {}", error.classify(), error.line()),
        })
    }

    /// What `url` answered, within bounds.
    pub(crate) async fn body(self, mut response: Response, url: &Url) -> Result<Vec<u8>, FetchError> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > self.longest {
                return Err(FetchError::TooLong { url: url.to_string(), limit: self.longest });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// A stranger's words, fit for terminals and logs.
pub(crate) fn shown(text: &str) -> String {
    text.chars().map(|c| if matches!(c, ' '..='~') { c } else { '?' }).take(SHOWN).collect()
}

/// At most so many characters of a stranger's are shown.
const SHOWN: usize = 200;

fn unreachable(error: reqwest::Error) -> FetchError {
    FetchError::Unreachable(error.without_url().into())
}

#[cfg(all(test, feature = "auth"))]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_can_listen_to_is_fetched() {
        for good in [
            "https://login.example",
            "https://login.example:8443/t1",
            "http://127.0.0.1:9/",
            "http://[::1]:9/",
        ] {
            assert!(url(good).is_ok(), "{good}");
        }
        for bad in [
            "http://login.example",
            "ftp://login.example",
            "https://a@b/",
            "https://b/?q",
            "https://b/#f",
            "file:///etc/passwd",
            "login.example",
            "http://localhost.evil.example/",
        ] {
            assert!(url(bad).is_err(), "{bad}");
        }
    }
}
