//! The user comes back to this machine: a listener that lives as long as the program (RFC 8252, 7.3).

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_tasks::environment::BoxFuture;
use reqwest::Url;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::browser::Browser;
use super::error::AuthError;

/// The browser of this machine, and a port at which it comes back. Several sign-ins may be under way at once.
pub struct Loopback {
    listener: TcpListener,
    redirect: String,
    open: Open,
    patience: Duration,
    waiting: Arc<Waiting>,
}

/// What shows an address to the user.
type Open = Arc<dyn Fn(&str) -> io::Result<()> + Send + Sync>;

/// Who waits for whom, by the state of the sign-in.
#[derive(Debug, Default)]
struct Waiting {
    visits: Mutex<BTreeMap<Option<String>, oneshot::Sender<String>>>,
    /// Who has come and not been answered, the oldest first.
    guests: Mutex<VecDeque<AbortHandle>>,
}

/// The longest request that is read; codes can be long.
const LONGEST: usize = 32 << 10;

/// How long one request may take to come.
const HEAD: Duration = Duration::from_secs(5);

/// At most so many may have come and said nothing; one more ends the oldest. Browsers connect before they ask, and so
/// does whoever wants to keep a user from signing in.
const MAX_GUESTS: usize = 64;

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
        let (open, patience) = (Arc::new(open), Duration::from_secs(300));
        Ok(Self { listener, redirect, open, patience, waiting: Arc::default() })
    }

    /// Waits this long for the user to come back. Default 5 min.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    async fn wait(&self, address: &str) -> io::Result<String> {
        let asked = Url::parse(address).ok().and_then(|url| url.query().and_then(state));
        let mut visit = Visit::begin(&self.waiting, asked);
        (self.open)(address)?;
        tokio::select! {
            back = &mut visit.back => back.map_err(|_| io::Error::other("the same sign-in has begun again")),
            failed = self.welcome() => failed,
        }
    }

    /// Hears whoever comes, whomever they are back for.
    async fn welcome(&self) -> io::Result<String> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            let greeting = tokio::spawn(greet(stream, Arc::clone(&self.waiting)));
            let mut guests = lock(&self.waiting.guests);
            guests.retain(|guest| !guest.is_finished());
            guests.push_back(greeting.abort_handle());
            if guests.len() > MAX_GUESTS
                && let Some(oldest) = guests.pop_front()
            {
                oldest.abort();
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

/// One sign-in that is waited for, for as long as this lives.
struct Visit<'w> {
    waiting: &'w Waiting,
    state: Option<String>,
    back: oneshot::Receiver<String>,
}

impl<'w> Visit<'w> {
    fn begin(waiting: &'w Waiting, state: Option<String>) -> Self {
        let (came_back, back) = oneshot::channel();
        lock(&waiting.visits).insert(state.clone(), came_back);
        Self { waiting, state, back }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.back.close();
        let mut visits = lock(&self.waiting.visits);
        // Another may have begun in its place.
        if visits.get(&self.state).is_some_and(oneshot::Sender::is_closed) {
            visits.remove(&self.state);
        }
    }
}

/// Answers one guest, and tells who waits for them. Whoever only looked in is told so; a page that guesses ends nobody's
/// sign-in.
async fn greet(mut stream: TcpStream, waiting: Arc<Waiting>) {
    let Ok(Some(target)) = tokio::time::timeout(HEAD, target(&mut stream)).await else { return };
    let query = target.strip_prefix("/callback?");
    let awaited = query.and_then(|query| {
        let mut visits = lock(&waiting.visits);
        let awaited = visits.remove(&state(query)).or_else(|| visits.remove(&None));
        awaited.map(|awaited| (awaited, query.to_owned()))
    });
    let answer = if awaited.is_some() { BACK } else { NOT_HERE };
    let told = tokio::time::timeout(HEAD, answered(&mut stream, answer)).await;
    if !matches!(told, Ok(Ok(()))) {
        tracing::debug!("a browser went away before it was answered");
    }
    if let Some((awaited, query)) = awaited
        && awaited.send(query).is_err()
    {
        tracing::debug!("a browser came back to nobody");
    }
}

/// What a query says the state of the sign-in is.
fn state(query: &str) -> Option<String> {
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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
    async fn s51_each_of_several_sign_ins_gets_its_own_answer_once() {
        let loopback = Loopback::bind(0, |_| Ok(())).await.unwrap();
        let at = loopback.redirect_uri().to_owned();
        let visit = |state: &str| {
            let address = format!("https://login.example/authorize?state={state}");
            let loopback = &loopback;
            async move { loopback.visit(&address).await.unwrap() }
        };
        let guests = async {
            // Back in another order than they went.
            for state in ["s3", "s1", "s2"] {
                let request = format!("GET /callback?code={state}&state={state} HTTP/1.1\r\n\r\n");
                assert!(ask(&at, &request).await.starts_with("HTTP/1.1 200"));
                if state != "s2" {
                    assert!(ask(&at, &request).await.starts_with("HTTP/1.1 404"), "once");
                }
            }
        };
        let (one, two, three, ()) = tokio::join!(visit("s1"), visit("s2"), visit("s3"), guests);
        assert_eq!([one, two, three], ["s1", "s2", "s3"].map(|state| format!("code={state}&state={state}")));
        assert!(lock(&loopback.waiting.visits).is_empty());
    }

    #[tokio::test]
    async fn s52_who_comes_and_says_nothing_keeps_nobody_from_signing_in() {
        let loopback = Loopback::bind(0, |_| Ok(())).await.unwrap();
        let at = loopback.redirect_uri().to_owned();
        let address = at.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
        let guests = async {
            let mut silent = Vec::new();
            for _ in 0..2 * MAX_GUESTS {
                silent.push(TcpStream::connect(&address).await.unwrap());
            }
            let page = ask(&at, "GET /callback?state=s1&error=%3Cscript%3E HTTP/1.1\r\n\r\n").await;
            assert!(page.contains("default-src 'none'") && !page.contains("script>"), "{page}");
            // The oldest were sent away: each guest that is still heard has the list.
            for _ in 0..4 * MAX_GUESTS {
                tokio::task::yield_now().await;
            }
            assert!(Arc::strong_count(&loopback.waiting) <= MAX_GUESTS + 2);
            assert!(matches!(silent[0].read(&mut [0]).await, Ok(0) | Err(_)));
        };
        let visit = loopback.visit("https://login.example/authorize?state=s1");
        let (query, ()) = tokio::join!(visit, guests);
        assert_eq!(query.unwrap(), "state=s1&error=%3Cscript%3E");
        assert!(lock(&loopback.waiting.guests).len() <= MAX_GUESTS);
    }

    #[tokio::test]
    async fn who_does_not_come_back_is_not_waited_for_without_end() {
        let loopback = Loopback::bind(0, |_| Ok(())).await.unwrap().patience(Duration::from_millis(10));
        let ended = loopback.visit("https://login.example/authorize").await;
        assert!(matches!(ended, Err(AuthError::Browser { .. })), "{ended:?}");
    }
}
