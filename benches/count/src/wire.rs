//! A client's end of a connection within the process, and where the server accepts the other.

use std::io;

use anyhow::{Context, Result, ensure};
use http::Extensions;
use longhaul::transport::http::server::Listen;
use longhaul::transport::memory;
use memchr::memmem::Finder;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{Mutex, mpsc};

/// Where connections come from.
pub(crate) struct Door(Mutex<mpsc::Receiver<DuplexStream>>);

/// Whoever has it can connect.
pub(crate) struct Way(mpsc::Sender<DuplexStream>);

pub(crate) fn door() -> (Way, Door) {
    let (sender, receiver) = mpsc::channel(1);
    (Way(sender), Door(Mutex::new(receiver)))
}

impl Listen for Door {
    type Stream = DuplexStream;

    async fn accept(&self) -> io::Result<(DuplexStream, Extensions)> {
        match self.0.lock().await.recv().await {
            Some(stream) => Ok((stream, Extensions::new())),
            None => std::future::pending().await,
        }
    }
}

impl Way {
    /// A connection of its own.
    pub(crate) async fn connect(&self) -> Result<Client> {
        let (ours, theirs) = memory::pair();
        self.0.send(theirs).await.context("the server has ended")?;
        Ok(Client::new(ours))
    }
}

/// A client that waits for each answer.
pub(crate) struct Client {
    stream: DuplexStream,
    read: Vec<u8>,
    looks_for: LooksFor,
}

/// What it looks for, prepared once: that must not be counted with every answer.
struct LooksFor {
    end_of_head: Finder<'static>,
    length: Finder<'static>,
    result: Finder<'static>,
    failure: Finder<'static>,
}

impl Client {
    pub(crate) fn new(stream: DuplexStream) -> Self {
        let looks_for = LooksFor {
            end_of_head: Finder::new(b"\r\n\r\n"),
            length: Finder::new(b"content-length: "),
            result: Finder::new(b"\"result\":"),
            failure: Finder::new(b"\"isError\":true"),
        };
        Self { stream, read: Vec::with_capacity(64 << 10), looks_for }
    }

    /// The body of the answer to a request over HTTP, which must be a success.
    pub(crate) async fn post(&mut self, request: &[u8]) -> Result<&[u8]> {
        self.read.clear();
        self.stream.write_all(request).await?;
        loop {
            self.read_more().await?;
            let Some(end) = self.looks_for.end_of_head.find(&self.read) else { continue };
            let length = self
                .looks_for
                .length
                .find(&self.read[..end])
                .and_then(|at| self.read[at + 16..end].split(|byte| *byte == b'\r').next())
                .with_context(|| format!("no length: {}", String::from_utf8_lossy(&self.read)))?;
            let length: usize = std::str::from_utf8(length)?.parse()?;
            if self.read.len() >= end + 4 + length {
                return self.looks_for.success(&self.read[end + 4..]);
            }
        }
    }

    /// The line that answers a line, which must be a success.
    pub(crate) async fn say(&mut self, line: &[u8]) -> Result<&[u8]> {
        self.read.clear();
        self.stream.write_all(line).await?;
        while self.read.last() != Some(&b'\n') {
            self.read_more().await?;
        }
        self.looks_for.success(&self.read)
    }

    /// Sends what is not answered.
    pub(crate) async fn tell(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(bytes).await?)
    }

    /// Reads on until this is said.
    pub(crate) async fn hear(&mut self, said: &str) -> Result<()> {
        loop {
            if let Some(at) = memchr::memmem::find(&self.read, said.as_bytes()) {
                drop(self.read.drain(..at + said.len()));
                return Ok(());
            }
            self.read_more().await?;
        }
    }

    async fn read_more(&mut self) -> Result<()> {
        let read = self.stream.read_buf(&mut self.read).await?;
        ensure!(read > 0, "the server closed the connection after {}", String::from_utf8_lossy(&self.read));
        Ok(())
    }
}

impl LooksFor {
    /// An answer that is none counts for nothing.
    fn success<'a>(&self, answer: &'a [u8]) -> Result<&'a [u8]> {
        let is_success = self.result.find(answer).is_some() && self.failure.find(answer).is_none();
        ensure!(is_success, "not a success: {}", String::from_utf8_lossy(answer));
        Ok(answer)
    }
}
