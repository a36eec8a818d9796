//! One who makes tasks over HTTP, one call after the other on one connection.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

/// How long a caller waits between two looks at its task.
const LOOK: Duration = Duration::from_millis(10);

/// How often it looks at most.
const LOOKS: u32 = 6_000;

/// A connection that is kept.
#[derive(Debug)]
pub(super) struct Caller {
    host: String,
    path: String,
    stream: BufReader<TcpStream>,
}

impl Caller {
    pub(super) fn of(url: &str) -> Result<Self> {
        let rest = url.strip_prefix("http://").context("the URL must begin with http://")?;
        let (host, path) = rest.split_once('/').context("the URL must have a path")?;
        let stream = TcpStream::connect(host).context("the server does not listen")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self { host: host.to_owned(), path: format!("/{path}"), stream: BufReader::new(stream) })
    }

    /// Makes a task that works for so long; gives its id.
    pub(super) fn create(&mut self, seconds: f64) -> Result<String> {
        let arguments = json!({"name": "work", "arguments": {"seconds": seconds}});
        let created = self.ask("tools/call", "work", arguments)?;
        let id = created["taskId"].as_str().with_context(|| format!("no task: {created}"))?;
        Ok(id.to_owned())
    }

    /// How a task stands.
    pub(super) fn status(&mut self, id: &str) -> Result<String> {
        let task = self.ask("tasks/get", id, json!({"taskId": id}))?;
        Ok(task["status"].as_str().with_context(|| format!("no status: {task}"))?.to_owned())
    }

    /// Makes a task and looks at it until it has its result; gives its id.
    pub(super) fn see_through(&mut self, seconds: f64) -> Result<String> {
        let id = self.create(seconds)?;
        for _ in 0..LOOKS {
            match self.status(&id)?.as_str() {
                "completed" => return Ok(id),
                "working" => std::thread::sleep(LOOK),
                other => bail!("the task has become {other:?}"),
            }
        }
        bail!("the task does not end")
    }

    /// The result of a request.
    fn ask(&mut self, method: &str, name: &str, mut params: Value) -> Result<Value> {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1.0.0"},
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let Self { host, path, .. } = self;
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
             Mcp-Method: {method}\r\nMcp-Name: {name}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        let (mut status, mut length) = (String::new(), None);
        self.stream.read_line(&mut status)?;
        loop {
            let mut line = String::new();
            ensure!(self.stream.read_line(&mut line)? > 0, "the connection was closed");
            if line == "\r\n" {
                break;
            }
            if let Some(said) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = Some(said.trim().parse::<usize>()?);
            }
        }
        let mut body = vec![0; length.context("an answer without a length")?];
        self.stream.read_exact(&mut body)?;
        let said = || format!("{}: {}", status.trim(), String::from_utf8_lossy(&body));
        let mut answer: Value = serde_json::from_slice(&body).with_context(said)?;
        ensure!(answer["result"].is_object(), "no result: {}", said());
        Ok(answer["result"].take())
    }
}

/// Has so many callers do the same at once, each on a connection of its own.
pub(super) fn each(callers: usize, url: &str, what: impl Fn(&mut Caller) -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..callers).map(|_| scope.spawn(|| what(&mut Caller::of(url)?))).collect();
        running.into_iter().try_for_each(|caller| match caller.join() {
            Ok(done) => done,
            Err(_) => bail!("a caller has panicked"),
        })
    })
}
