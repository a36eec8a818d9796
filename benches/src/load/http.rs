//! Calls over HTTP/1.1: so many connections, kept alive, each waiting for its answer before it calls again.

use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};

use super::Over;
use super::numbered::{FIRST, MOST, Numbered};
use super::report::Figures;

/// How long a whole run may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// Whether a body is the answer to the call of that number.
pub(crate) type Check = Rc<dyn Fn(u32, &[u8]) -> Result<()>>;

/// What is asked, and what must be answered.
pub(crate) struct Exchange {
    /// The whole requests, head and body, which calls take in turn by their numbers.
    pub(crate) requests: Vec<Numbered>,
    /// Whether a body is the answer to the call of that number.
    pub(crate) check: Check,
    /// The answer to the first call, if all are alike.
    pub(crate) pattern: Rc<dyn Fn() -> Option<String>>,
}

/// A POST of `body`; each header more ends its line.
pub(crate) fn post(host: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Makes the calls and returns what was found.
pub(crate) fn run(over: &Over, exchange: impl FnOnce(&str, &str) -> Result<Exchange>) -> Result<Figures> {
    let (calls, connections) = (over.calls.get(), over.connections.get());
    ensure!(calls <= MOST, "at most {MOST} calls can be told apart");
    let rest = over.url.strip_prefix("http://").context("the URL must begin with http://")?;
    let (host, path) = rest.split_once('/').context("the URL must have a path")?;
    let address: SocketAddr = host.parse().context("the URL must name an address and a port")?;
    let Exchange { requests, check, pattern } = exchange(host, &format!("/{path}"))?;
    let calling = async {
        let mut callers = Vec::new();
        for nth in 0..connections {
            let from = |nth: u64| u32::try_from(u64::from(calls) * nth / u64::from(connections));
            let (from, to) = (from(u64::from(nth))?, from(u64::from(nth) + 1)?);
            let caller = Caller::connect(address, requests.clone(), Rc::clone(&check)).await?;
            callers.push(caller.call(FIRST + from..FIRST + to));
        }
        all(callers, calls).await
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let calling = async { tokio::time::timeout(PATIENCE, calling).await.context("the server is too slow")? };
    let mut figures = runtime.block_on(LocalSet::new().run_until(calling))?;
    figures.answer = pattern();
    Ok(figures)
}

/// Runs all callers at once.
async fn all(callers: Vec<impl Future<Output = Result<Vec<u32>>> + 'static>, calls: u32) -> Result<Figures> {
    let began = Instant::now();
    let mut running = JoinSet::new();
    for caller in callers {
        running.spawn_local(caller);
    }
    let mut latencies = Vec::new();
    while let Some(called) = running.join_next().await {
        latencies.extend(called??);
    }
    let took = began.elapsed();
    ensure!(latencies.len() == calls as usize, "{} of {calls} calls were answered", latencies.len());
    Ok(Figures::new(calls, took).with_latencies(latencies))
}

struct Caller {
    connection: Connection,
    requests: Vec<Numbered>,
    check: Check,
}

impl Caller {
    async fn connect(address: SocketAddr, requests: Vec<Numbered>, check: Check) -> Result<Self> {
        Ok(Self { connection: Connection::to(address).await?, requests, check })
    }

    /// Makes these calls one after the other; returns how long each took, in microseconds.
    async fn call(mut self, numbers: std::ops::Range<u32>) -> Result<Vec<u32>> {
        let mut latencies = Vec::with_capacity(numbers.len());
        let requests = self.requests.len();
        for number in numbers {
            let began = Instant::now();
            let request = self.requests[number as usize % requests].of(number);
            let answer = self.connection.ask(request, "200").await;
            let answer = answer.with_context(|| format!("the answer to call {number}"))?;
            (self.check)(number, answer.body)?;
            latencies.push(u32::try_from(began.elapsed().as_micros())?);
        }
        Ok(latencies)
    }
}

/// A connection that is kept alive.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// An answer, as its connection has it.
pub(crate) struct Answer<'c> {
    /// Up to the end of its last header.
    pub(crate) head: &'c [u8],
    /// Its chunks joined, if it came in such.
    pub(crate) body: &'c [u8],
}

impl Connection {
    /// Connects to a server.
    ///
    /// # Errors
    ///
    /// When it does not listen.
    pub(crate) async fn to(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.context("the server does not listen")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4096) })
    }

    /// Sends a request, and reads its answer.
    ///
    /// # Errors
    ///
    /// When it is of another status, or is cut off.
    pub(crate) async fn ask(&mut self, request: &[u8], status: &str) -> Result<Answer<'_>> {
        self.stream.write_all(request).await?;
        let (head, body) = self.receive(status).await?;
        Ok(Answer { head: &self.buffer[..head], body: &self.buffer[body] })
    }

    /// Reads one response; returns where its head ends in the buffer and where its body is.
    async fn receive(&mut self, status: &str) -> Result<(usize, std::ops::Range<usize>)> {
        self.buffer.clear();
        loop {
            ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the connection was closed");
            let Some(end) = memchr::memmem::find(&self.buffer, b"\r\n\r\n") else { continue };
            let (head, body) = (&self.buffer[..end + 2], end + 4);
            let said =
                head.strip_prefix(b"HTTP/1.1 ").is_some_and(|said| said.starts_with(status.as_bytes()));
            ensure!(said, "not {status}: {}", String::from_utf8_lossy(head));
            let Some(length) = value(head, b"\r\ncontent-length: ") else {
                if let Some(body) = chunks(&mut self.buffer, body)? {
                    return Ok((end + 2, body));
                }
                continue;
            };
            let length: usize = std::str::from_utf8(length)?.parse().context("a content-length")?;
            if self.buffer.len() >= body + length {
                ensure!(self.buffer.len() == body + length, "more than one answer");
                return Ok((end + 2, body..body + length));
            }
        }
    }
}

/// The value of a header, whose name stands between a line's end and a space.
pub(crate) fn value<'h>(head: &'h [u8], name: &[u8]) -> Option<&'h [u8]> {
    // Ours has small letters, and costs nothing then.
    let start = memchr::memmem::find(head, name)
        .or_else(|| head.windows(name.len()).position(|window| window.eq_ignore_ascii_case(name)))?;
    head[start + name.len()..].split(|byte| *byte == b'\r').next()
}

/// Joins the chunks of a body where they lie, once the last is there; returns where the body is.
fn chunks(buffer: &mut [u8], start: usize) -> Result<Option<std::ops::Range<usize>>> {
    ensure!(
        value(&buffer[..start], b"\r\ntransfer-encoding: ") == Some(b"chunked"),
        "neither a length nor chunks: {}",
        String::from_utf8_lossy(&buffer[..start])
    );
    if !buffer.ends_with(b"\r\n0\r\n\r\n") {
        return Ok(None);
    }
    let (mut from, mut to) = (start, start);
    loop {
        let line = memchr::memmem::find(&buffer[from..], b"\r\n").context("a chunk without a size")?;
        let size = usize::from_str_radix(std::str::from_utf8(&buffer[from..from + line])?, 16)?;
        if size == 0 {
            return Ok(Some(start..to));
        }
        let chunk = from + line + 2;
        ensure!(chunk + size + 2 <= buffer.len(), "a chunk is longer than the answer");
        buffer.copy_within(chunk..chunk + size, to);
        (from, to) = (chunk + size + 2, to + size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_joined_where_they_lie() {
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut buffer = [head.as_slice(), b"3\r\nabc\r\n2\r\nde\r\n"].concat();
        assert_eq!(chunks(&mut buffer, head.len()).unwrap(), None);
        buffer.extend_from_slice(b"0\r\n\r\n");
        let body = chunks(&mut buffer, head.len()).unwrap().unwrap();
        assert_eq!(&buffer[body], b"abcde");
        assert!(chunks(&mut b"HTTP/1.1 200 OK\r\n\r\nabc".to_vec(), 19).is_err());
    }

    #[test]
    fn a_header_is_found_in_any_case() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nx: y\r\n";
        assert_eq!(value(head, b"\r\ncontent-length: "), Some(b"12".as_slice()));
        assert_eq!(value(head, b"\r\nage: "), None);
    }
}
