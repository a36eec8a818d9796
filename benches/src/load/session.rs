//! A session of revision 2025-11-25: what is said to begin one, and what is said in it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use anyhow::{Context, Result, ensure};

use super::http::{post, value};

const REVISION: &str = "MCP-Protocol-Version: 2025-11-25\r\n";

/// What begins one.
pub(crate) fn hello(host: &str, path: &str, headers: &str) -> Vec<u8> {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1.0.0"}}}"#;
    post(host, path, headers, body)
}

/// What ends the handshake, in a session of these headers.
pub(crate) fn initialized(host: &str, path: &str, headers: &str) -> Vec<u8> {
    post(host, path, headers, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
}

/// What asks whether it is still there.
pub(crate) fn ping(host: &str, path: &str, headers: &str) -> Vec<u8> {
    post(host, path, headers, r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#)
}

/// The headers of a session's requests, of the head of the answer that began it; those of none, where a server has none.
pub(crate) fn headers(head: &[u8]) -> Result<String> {
    Ok(match value(head, b"\r\nmcp-session-id: ") {
        Some(id) => format!("{REVISION}Mcp-Session-Id: {}\r\n", std::str::from_utf8(id)?),
        None => REVISION.to_owned(),
    })
}

/// Begins one; returns the headers of its requests.
pub(crate) fn open(host: &str, path: &str) -> Result<String> {
    let answer = ask(host, &hello(host, path, CLOSE))?;
    ensure!(answer.starts_with("HTTP/1.1 200 "), "no session: {answer}");
    let headers = headers(answer.as_bytes())?;
    let answer = ask(host, &initialized(host, path, &format!("{CLOSE}{headers}")))?;
    ensure!(answer.starts_with("HTTP/1.1 202 "), "the session was not begun: {answer}");
    Ok(headers)
}

/// One request to a connection.
pub(crate) const CLOSE: &str = "Connection: close\r\n";

/// The answer to a request after which the connection is closed.
pub(crate) fn ask(host: &str, request: &[u8]) -> Result<String> {
    let mut stream = TcpStream::connect(host).context("the server does not listen")?;
    stream.write_all(request)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
