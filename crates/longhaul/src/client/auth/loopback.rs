//! The user comes back to this machine: a listener that lives as long as the program (RFC 8252, 7.3).

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use longhaul_tasks::environment::BoxFuture;
use reqwest::Url;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::browser::Browser;
use super::error::AuthError;

/// The browser of this machine, and a port at which it comes back.
pub struct Loopback {
    listener: TcpListener,
    redirect: String,
    open: Open,
    patience: Duration,
}

/// What shows an address to the user.
type Open = Arc<dyn Fn(&str) -> io::Result<()> + Send + Sync>;

/// The longest request that is read; codes can be long.
const LONGEST: usize = 32 << 10;

/// How long one request may take to come.
const HEAD: Duration = Duration::from_secs(5);

impl Loopback {
    /// Listens at `port` of 127.0.0.1, at any that is free if that is 0. `open` is given the address to sign in at, and must not
    /// block: it starts a browser, or shows the address to its user.
    ///
    /// Clients are registered with the port: whoever keeps registrations asks for the same one again.
    ///
    /// # Errors
    ///
    /// When the port is taken.
    pub async fn bind(
        port: u16,
        open: impl Fn(&str) -> io::Result<()> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let redirect = format!("http://{}/callback", listener.local_addr()?);
        Ok(Self { listener, redirect, open: Arc::new(open), patience: Duration::from_secs(300) })
    }

    /// Waits this long for the user to come back. Default 5 min.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    async fn wait(&self, address: &str) -> io::Result<String> {
        (self.open)(address)?;
        let state = state(address);
        loop {
            let (mut stream, _) = self.listener.accept().await?;
            let Ok(Some(target)) = tokio::time::timeout(HEAD, target(&mut stream)).await else { continue };
            let query = target
                .strip_prefix("/callback?")
                .filter(|query| state.is_none() || state == self::state(query));
            // Whoever only looked in is told so; a page that guesses ends nobody's sign-in.
            let answer = if query.is_some() { BACK } else { NOT_HERE };
            let told = tokio::time::timeout(HEAD, answered(&mut stream, answer)).await;
            if !matches!(told, Ok(Ok(()))) {
                tracing::debug!("a browser went away before it was answered");
            }
            if let Some(query) = query {
                return Ok(query.to_owned());
            }
        }
    }
}

impl Browser for Loopback {
    fn redirect_uri(&self) -> &str {
        &self.redirect
    }

    fn visit<'a>(&'a self, address: &'a str) -> BoxFuture<'a, Result<String, AuthError>> {
        Box::pin(async move {
            let late = || io::Error::new(io::ErrorKind::TimedOut, "the browser has not come back in time");
            let waited = tokio::time::timeout(self.patience, self.wait(address)).await;
            waited.unwrap_or_else(|_| Err(late())).map_err(AuthError::browser)
        })
    }
}

impl fmt::Debug for Loopback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loopback").field("redirect", &self.redirect).finish_non_exhaustive()
    }
}

/// What an address, or its query, says the state of the sign-in is.
fn state(address: &str) -> Option<String> {
    let query = match Url::parse(address) {
        Ok(url) => url.query().unwrap_or_default().to_owned(),
        Err(_) => address.to_owned(),
    };
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(name, _)| name == "state").map(|(_, state)| state.into_owned())
}

/// The target of a GET; `None` for anything else.
async fn target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > LONGEST || stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let head = String::from_utf8(head).ok()?;
    let mut words = head.lines().next()?.split(' ');
    (words.next() == Some("GET")).then(|| words.next().map(str::to_owned)).flatten()
}

async fn answered(stream: &mut TcpStream, answer: &str) -> io::Result<()> {
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

const BACK: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nCache-Control: no-store\r\n\
    Referrer-Policy: no-referrer\r\nContent-Security-Policy: default-src 'none'\r\nConnection: close\r\n\r\n\
    <!doctype html><title>Back to your program</title><p>You can close this page and go back to your program.</p>";

const NOT_HERE: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(loopback: &str, request: &str) -> String {
        let address = loopback.strip_prefix("http://").unwrap().split('/').next().unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn c11_only_who_comes_back_from_this_sign_in_is_taken() {
        let loopback = Loopback::bind(0, |_| Ok(())).await.unwrap();
        let at = loopback.redirect_uri().to_owned();
        let visits = loopback.visit("https://login.example/authorize?a=b&state=s1");
        let guests = async {
            for other in [
                "GET /favicon.ico",
                "GET /callback?code=x",
                "GET /callback?code=x&state=s2",
                "POST /callback?state=s1",
            ] {
                let answer = ask(&at, &format!("{other} HTTP/1.1\r\n\r\n")).await;
                assert!(!answer.starts_with("HTTP/1.1 200"), "{other}: {answer}");
            }
            ask(&at, "GET /callback?code=x%20y&state=s1 HTTP/1.1\r\nHost: x\r\n\r\n").await
        };
        let (query, page) = tokio::join!(visits, guests);
        assert_eq!(query.unwrap(), "code=x%20y&state=s1");
        assert!(page.contains("go back to your program"), "{page}");
    }

    #[tokio::test]
    async fn who_does_not_come_back_is_not_waited_for_without_end() {
        let loopback = Loopback::bind(0, |_| Ok(())).await.unwrap().patience(Duration::from_millis(10));
        let ended = loopback.visit("https://login.example/authorize").await;
        assert!(matches!(ended, Err(AuthError::Browser { .. })), "{ended:?}");
    }
}
