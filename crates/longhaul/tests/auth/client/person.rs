//! A user who signs in at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use longhaul::client::auth::{AuthError, Browser};
use longhaul::tasks::environment::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Goes where it is sent and back, and counts how often.
#[derive(Clone, Debug, Default)]
pub(crate) struct Person {
    visits: Arc<AtomicUsize>,
    /// Does not come back.
    away: bool,
    /// Comes back there, if it is said.
    back: Option<&'static str>,
}

impl Person {
    /// Who does not come back.
    pub(crate) fn away() -> Self {
        Self { away: true, ..Self::default() }
    }

    /// Who comes back to this address.
    pub(crate) fn back_at(address: &'static str) -> Self {
        Self { back: Some(address), ..Self::default() }
    }

    pub(crate) fn visits(&self) -> usize {
        self.visits.load(Ordering::SeqCst)
    }
}

impl Browser for Person {
    fn redirect_uri(&self) -> &str {
        self.back.unwrap_or("http://127.0.0.1:4000/callback")
    }

    fn visit<'a>(&'a self, address: &'a str) -> BoxFuture<'a, Result<String, AuthError>> {
        Box::pin(async move {
            self.visits.fetch_add(1, Ordering::SeqCst);
            if self.away {
                return Err(AuthError::browser(std::io::Error::other("closed")));
            }
            let (host, path) = address.strip_prefix("http://").unwrap().split_once('/').unwrap();
            let mut stream = TcpStream::connect(host).await.unwrap();
            let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            let location = answer.lines().find_map(|line| line.strip_prefix("location: ")).unwrap();
            Ok(location.split_once('?').unwrap().1.to_owned())
        })
    }
}
