//! Requests to the APIs of jobs: bounded, without redirects, and never to what only this machine should reach.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use longhaul::client::redirected;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};

use crate::causes::in_words;
use crate::config::{BoundRequest, Machine};

/// Sends requests. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Http(Client);

/// What an API answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// Where it sends whoever asked, in words, if it does.
    pub(super) redirects: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// Nothing has reached the API.
    #[error("{0}")]
    Unsent(String),
    /// Something may have.
    #[error("{0}")]
    Unanswered(String),
    /// What it answered is too long to be read.
    #[error("the answer is longer than {0} bytes")]
    TooLong(u64),
}

impl Http {
    /// A client for all jobs of a server.
    ///
    /// # Errors
    ///
    /// When the system's certificates cannot be used.
    pub fn new() -> Result<Self, reqwest::Error> {
        let builder = Client::builder()
            .redirect(Policy::none())
            .connect_timeout(CONNECT)
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
            .dns_resolver(Arc::new(NotNear));
        builder.build().map(Self)
    }

    /// Sends a request, with one header more if there is one, and reads the answer: at most `longest` bytes, within
    /// `timeout`.
    pub(super) async fn send(
        &self,
        request: &BoundRequest,
        more: Option<(&HeaderName, HeaderValue)>,
        timeout: Duration,
        longest: u64,
    ) -> Result<Answer, Trouble> {
        let begun = Instant::now();
        let answered = self.exchange(request, more, timeout, longest).await;
        // What else is in a URL may be secret.
        let (method, host, took) = (&request.method, request.url.host_str(), begun.elapsed());
        match &answered {
            Ok(answer) => {
                let (status, bytes) = (answer.status.as_u16(), answer.body.len());
                tracing::debug!(%method, host, status, bytes, ?took, "an API of jobs has answered");
            }
            Err(error) => tracing::debug!(%method, host, %error, ?took, "an API of jobs has not answered"),
        }
        answered
    }

    async fn exchange(
        &self,
        request: &BoundRequest,
        more: Option<(&HeaderName, HeaderValue)>,
        timeout: Duration,
        longest: u64,
    ) -> Result<Answer, Trouble> {
        let mut sent = self.0.request(request.method.clone(), request.url.clone()).timeout(timeout);
        sent = sent.header(ACCEPT, HeaderValue::from_static("application/json"));
        for header in &request.headers {
            let value = header.value(&Machine).map_err(|error| Trouble::Unsent(in_words(&error)))?;
            sent = sent.header(header.name(), value);
        }
        if let Some((name, value)) = more {
            sent = sent.header(name, value);
        }
        if let Some(body) = &request.body {
            sent = sent.header(CONTENT_TYPE, HeaderValue::from_static("application/json")).body(body.clone());
        }
        let mut response = sent.send().await.map_err(trouble)?;
        let (status, headers) = (response.status(), response.headers().clone());
        let redirects = redirect(&response);
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(trouble)? {
            if (body.len() + chunk.len()) as u64 > longest {
                return Err(Trouble::TooLong(longest));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status, headers, body, redirects })
    }
}

impl Answer {
    /// When the API wants to be asked again, within an hour.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let text = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        let wait = match text.parse::<u64>() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => {
                let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
                at.duration_since(Timestamp::now()).try_into().unwrap_or_default()
            }
        };
        Some(wait.min(LONGEST_WAIT))
    }

    /// Its body as JSON.
    pub(super) fn json(&self) -> Result<serde_json::Value, String> {
        serde_json::from_slice(&self.body).map_err(|error| match self.kind() {
            Some(kind) if !kind.to_ascii_lowercase().contains("json") => {
                format!("the answer is not JSON, but {kind}")
            }
            _ => format!("the answer is not JSON: {error}"),
        })
    }

    /// What it says that its body is.
    fn kind(&self) -> Option<&str> {
        let kind = self.headers.get(CONTENT_TYPE)?.to_str().ok()?.split(';').next()?.trim();
        Some(kind).filter(|kind| (1..=LONGEST_KIND).contains(&kind.len()))
    }

    /// The beginning of its body, for people.
    pub(super) fn excerpt(&self) -> String {
        let text = String::from_utf8_lossy(&self.body[..self.body.len().min(4 * EXCERPT)]);
        let text = text.trim();
        let cut: String = text.chars().take(EXCERPT).collect();
        if cut.len() < text.len() { format!("{cut}…") } else { cut }
    }
}

/// Where a response sends whoever asked, in words.
fn redirect(response: &Response) -> Option<String> {
    let there = response.headers().get(LOCATION).filter(|_| response.status().is_redirection())?;
    redirected(response.url().as_str(), there.to_str().ok()?)
}

fn trouble(error: reqwest::Error) -> Trouble {
    let error = error.without_url();
    let text = if error.is_timeout() { "there was no answer in time".to_owned() } else { in_words(&error) };
    if error.is_connect() || error.is_builder() { Trouble::Unsent(text) } else { Trouble::Unanswered(text) }
}

/// Finds the addresses of names, but for those at which clouds give their machines' credentials to whoever asks. A
/// configuration that wants one names the address itself.
struct NotNear;

impl Resolve for NotNear {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found: Vec<SocketAddr> = found.filter(|address| !is_near(address.ip())).collect();
            if found.is_empty() {
                return Err(
                    "the name has only addresses of this machine's own link, which are not asked".into()
                );
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Whether an address is of the link, or one that a cloud keeps for its own services.
fn is_near(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_unspecified() || ip.octets() == [100, 100, 100, 200],
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => is_near(IpAddr::V4(ip)),
            None => {
                let amazons = ip.segments() == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254];
                ip.is_unicast_link_local() || ip.is_unspecified() || amazons
            }
        },
    }
}

const CONNECT: Duration = Duration::from_secs(10);
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
const EXCERPT: usize = 1000;
/// What is longer is no media type.
const LONGEST_KIND: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_the_machine_should_reach_is_not_asked_by_name() {
        for near in ["169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "fd00:ec2::254", "0.0.0.0", "::"]
        {
            assert!(is_near(near.parse().unwrap()), "{near}");
        }
        for other in ["127.0.0.1", "10.0.0.7", "203.0.113.9", "::1", "fd12::1"] {
            assert!(!is_near(other.parse().unwrap()), "{other}");
        }
    }

    #[test]
    fn where_an_api_sends_is_told_to_whoever_could_write_that_and_not_what_may_be_a_secret() {
        let sent = |status: u16, there: &str| {
            let response = http::Response::builder().status(status).header(LOCATION, there).body("").unwrap();
            redirect(&response.into())
        };
        let there = "https://ann:hush@h.example/jobs?key=hush#token=hush";
        let said = "it redirects to https://h.example/jobs, which is not followed: write that";
        assert_eq!(sent(307, there).as_deref(), Some(said));
        assert_eq!(sent(200, there), None);
    }

    #[test]
    fn when_to_come_back_is_seconds_or_a_date() {
        let answer = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, value.parse().unwrap());
            Answer { status: StatusCode::OK, headers, body: Vec::new(), redirects: None }.retry_after()
        };
        assert_eq!(answer("7"), Some(Duration::from_secs(7)));
        assert_eq!(answer("99999999"), Some(LONGEST_WAIT));
        assert_eq!(answer("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO), "it is past");
        assert_eq!(answer("soon"), None);
    }
}
