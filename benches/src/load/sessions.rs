//! Sessions of revision 2025-11-25 in which nothing is open: how much memory the server has for each.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, timeout};

use super::http::Connection;
use super::{memory, session};

/// What was found.
#[derive(Debug, Serialize)]
pub(crate) struct Found {
    /// The server's memory a session, in kB.
    kb: f64,
    /// How many were begun a second.
    per_second: f64,
}

/// By how many connections they are begun, one after the other by each.
const CONNECTIONS: usize = 16;

/// How long everything may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// Begins so many sessions, and looks whether each is still there once all are.
pub(crate) fn run(url: &str, sessions: usize, pid: u32) -> Result<Found> {
    let rest = url.strip_prefix("http://").context("the URL must begin with http://")?;
    let (host, path) = rest.split_once('/').context("the URL must have a path")?;
    let server = Rc::new(Server { address: host.parse()?, host: host.to_owned(), path: format!("/{path}") });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let measuring =
        async { timeout(PATIENCE, measure(&server, sessions, pid)).await.context("the server is too slow")? };
    runtime.block_on(LocalSet::new().run_until(measuring))
}

async fn measure(server: &Rc<Server>, sessions: usize, pid: u32) -> Result<Found> {
    // What the first requests make the server set up is not counted.
    Rc::clone(server).begin(CONNECTIONS).await?;
    let (before, began) = (memory::resident(pid)?, Instant::now());
    let mut beginning = JoinSet::new();
    for nth in 0..CONNECTIONS {
        let from = |nth| sessions * nth / CONNECTIONS;
        beginning.spawn_local(Rc::clone(server).begin(from(nth + 1) - from(nth)));
    }
    let mut begun = Vec::with_capacity(CONNECTIONS);
    while let Some(some) = beginning.join_next().await {
        begun.push(some??);
    }
    let took = began.elapsed().as_secs_f64();
    // What was begun last has settled.
    sleep(Duration::from_secs(1)).await;
    let kb = (memory::resident(pid)? - before) / sessions as f64;
    let mut looking = JoinSet::new();
    for some in begun {
        looking.spawn_local(Rc::clone(server).look(some));
    }
    while let Some(looked) = looking.join_next().await {
        looked??;
    }
    Ok(Found { kb, per_second: sessions as f64 / took })
}

struct Server {
    address: SocketAddr,
    host: String,
    path: String,
}

impl Server {
    /// Begins so many on one connection; returns the headers of their requests.
    async fn begin(self: Rc<Self>, sessions: usize) -> Result<Vec<String>> {
        let mut connection = Connection::to(self.address).await?;
        let mut begun = Vec::with_capacity(sessions);
        for _ in 0..sessions {
            let hello = session::hello(&self.host, &self.path, "");
            let headers = session::headers(connection.ask(&hello, "200").await?.head)?;
            ensure!(headers.contains("Mcp-Session-Id"), "the server has no sessions");
            let initialized = session::initialized(&self.host, &self.path, &headers);
            connection.ask(&initialized, "202").await?;
            begun.push(headers);
        }
        Ok(begun)
    }

    /// Asks in each whether it is there.
    async fn look(self: Rc<Self>, sessions: Vec<String>) -> Result<()> {
        let mut connection = Connection::to(self.address).await?;
        for headers in sessions {
            let ping = session::ping(&self.host, &self.path, &headers);
            let answer = connection.ask(&ping, "200").await.context("a session is gone")?;
            let is_pong = memchr::memmem::find(answer.body, br#""result":{}"#).is_some();
            ensure!(is_pong, "not a pong: {}", String::from_utf8_lossy(answer.body));
        }
        Ok(())
    }
}
