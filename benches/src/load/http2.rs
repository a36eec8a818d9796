//! Many requests over few connections of HTTP/2, to a server that is known to speak it.

use std::cell::Cell;
use std::net::SocketAddr;
use std::num::NonZeroU32;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

/// Connections that requests take in turn.
pub(crate) struct Connections {
    all: Vec<SendRequest<Full<Bytes>>>,
    next: Cell<usize>,
}

impl Connections {
    /// So many to a server.
    ///
    /// # Errors
    ///
    /// When it does not listen, or does not speak HTTP/2.
    pub(crate) async fn to(address: SocketAddr, connections: NonZeroU32) -> Result<Self> {
        let mut all = Vec::new();
        for _ in 0..connections.get() {
            let stream = TcpStream::connect(address).await.context("the server does not listen")?;
            stream.set_nodelay(true)?;
            let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            all.push(sender);
        }
        Ok(Self { all, next: Cell::new(0) })
    }

    /// Sends a request that is written as HTTP/1.1 has it; what is answered with a success.
    ///
    /// # Errors
    ///
    /// When it is answered otherwise.
    pub(crate) async fn ask(&self, request: &str) -> Result<Body> {
        let nth = self.next.get();
        self.next.set((nth + 1) % self.all.len());
        let mut sender = self.all[nth].clone();
        sender.ready().await?;
        let answer = sender.send_request(converted(request)?).await?;
        ensure!(answer.status() == 200, "{request} was answered with {}", answer.status());
        Ok(Body(answer.into_body()))
    }
}

/// The body of an answer.
pub(crate) struct Body(Incoming);

impl Body {
    /// Its next bytes, behind those; how many they are, none at its end.
    ///
    /// # Errors
    ///
    /// When it is cut off.
    pub(crate) async fn read(&mut self, unread: &mut Vec<u8>) -> Result<usize> {
        while let Some(frame) = self.0.frame().await {
            if let Some(bytes) = frame?.data_ref().filter(|bytes| !bytes.is_empty()) {
                unread.extend_from_slice(bytes);
                return Ok(bytes.len());
            }
        }
        Ok(0)
    }
}

/// The same request for HTTP/2, which has no headers of connections and hosts.
fn converted(request: &str) -> Result<Request<Full<Bytes>>> {
    let (head, body) = request.split_once("\r\n\r\n").context("a request has a head")?;
    let mut lines = head.lines();
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (Some(verb), Some(path)) = (first.next(), first.next()) else { bail!("no request: {request}") };
    let mut host = "";
    let mut converted = Request::builder().method(verb);
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        match name {
            "Host" => host = value,
            "Connection" => {}
            name => converted = converted.header(name, value),
        }
    }
    Ok(converted.uri(format!("http://{host}{path}")).body(Full::from(body.to_owned()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_the_same_over_either_version() {
        let request =
            converted("POST /mcp HTTP/1.1\r\nHost: h:1\r\nConnection: close\r\nA: b\r\n\r\n{}").unwrap();
        assert_eq!(
            (request.method().as_str(), request.uri().to_string().as_str()),
            ("POST", "http://h:1/mcp")
        );
        let headers: Vec<_> = request.headers().iter().collect();
        assert!(headers.len() == 1 && headers[0].0 == "a" && headers[0].1 == "b", "{headers:?}");
        assert!(converted("POST").is_err());
    }
}
