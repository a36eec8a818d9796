//! The transport: one text frame, one message.

use std::io;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use longhaul::proto::http::AllowList;
use longhaul::transport::message::{Receive, Transmit, lines};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::{StatusCode, header};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config, connect_async_with_config};

struct Incoming<S>(SplitStream<WebSocketStream<S>>);

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Receive for Incoming<S> {
    async fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            return match self.0.next().await {
                Some(Ok(Message::Text(text))) => Ok(Some(text.as_bytes().to_vec())),
                Some(Ok(Message::Binary(bytes))) => Ok(Some(bytes.to_vec())),
                // The library answers pings by itself.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
                None | Some(Ok(Message::Close(_))) => Ok(None),
                Some(Err(error)) => Err(failed(error)),
            };
        }
    }
}

struct Outgoing<S>(SplitSink<WebSocketStream<S>, Message>);

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Transmit for Outgoing<S> {
    async fn transmit(&mut self, message: Vec<u8>) -> io::Result<()> {
        let text = String::from_utf8(message).map_err(io::Error::other)?;
        self.0.send(Message::text(text)).await.map_err(failed)
    }

    async fn close(&mut self) -> io::Result<()> {
        self.0.close().await.map_err(failed)
    }
}

/// A peer that has gone is no failure.
fn failed(error: tungstenite::Error) -> io::Error {
    match error {
        tungstenite::Error::Io(error) => error,
        tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => {
            io::ErrorKind::BrokenPipe.into()
        }
        other => io::Error::other(other),
    }
}

type Halves = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

fn halves<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(socket: WebSocketStream<S>) -> Halves {
    let (outgoing, incoming) = socket.split();
    let (reader, writer) = lines(Incoming(incoming), Outgoing(outgoing));
    (Box::new(reader), Box::new(writer))
}

fn bounded(max_bytes: usize) -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(Some(max_bytes)).max_frame_size(Some(max_bytes))
}

/// The server's end, for a client that `allow` lets in.
pub(crate) async fn accept(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    allow: AllowList,
    max_bytes: usize,
) -> tungstenite::Result<Halves> {
    #[expect(clippy::result_large_err, reason = "the library's own signature")]
    let may_come_in = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        let text = |name| request.headers().get(name).map(|value| value.to_str().unwrap_or("unreadable"));
        allow.check(text(header::HOST), text(header::ORIGIN)).map(|()| response).map_err(|refused| {
            let mut refusal = ErrorResponse::new(Some(refused.to_string()));
            *refusal.status_mut() = StatusCode::FORBIDDEN;
            refusal
        })
    };
    Ok(halves(accept_hdr_async_with_config(stream, may_come_in, Some(bounded(max_bytes))).await?))
}

/// The client's end.
pub(crate) async fn connect(url: &str, max_bytes: usize) -> tungstenite::Result<Halves> {
    let (socket, _) = connect_async_with_config(url, Some(bounded(max_bytes)), true).await?;
    Ok(halves(socket))
}
