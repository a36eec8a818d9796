//! A server of its own for each test, and requests to it.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use longhaul::proto::model::Progress;
use longhaul::transport::http::server::{Options, serve};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Echo {
    pub(crate) message: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Wait {
    pub(crate) millis: u64,
    #[serde(default)]
    pub(crate) quiet: bool,
}

pub(crate) async fn wait(cx: Cx, Wait { millis, quiet }: Wait) -> &'static str {
    if !quiet {
        cx.progress(Progress::new(1.0)).await;
    }
    tokio::time::sleep(Duration::from_millis(millis)).await;
    "waited"
}

/// A server of its own for each test.
pub(crate) struct Host {
    pub(crate) address: std::net::SocketAddr,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    pub(crate) served: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Host {
    pub(crate) async fn start(change: impl FnOnce(&mut Options)) -> Self {
        let server = Server::new("test", "1.0.0")
            .tool(Tool::typed("echo", "Echo", |_, Echo { message }| async move { message }))
            .tool(Tool::typed("wait", "Wait", wait));
        Self::start_with(server, change).await
    }

    pub(crate) async fn start_with(server: Server, change: impl FnOnce(&mut Options)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let dispatcher = server.dispatcher().unwrap();
        let mut options = Options::default();
        change(&mut options);
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(serve(dispatcher, listener, options, async {
            let _ = stopped.await;
        }));
        Self { address, stop: Some(stop), served }
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    }

    pub(crate) fn post(&self) -> http::request::Builder {
        Request::post("/mcp")
            .header("host", self.address.to_string())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
    }

    pub(crate) async fn modern(&self, method: &str, name: Option<&str>, params: Value) -> Response<Incoming> {
        let mut request =
            self.post().header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
        if let Some(name) = name {
            request = request.header("mcp-name", name);
        }
        self.send(request.body(body(method, modern_params(params))).unwrap()).await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Response<Incoming> {
        self.modern("tools/call", Some(tool), json!({"name": tool, "arguments": arguments})).await
    }

    /// Opens a session and gives its id.
    pub(crate) async fn initialize(&self) -> String {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"}});
        let response = self.send(self.post().body(body("initialize", params)).unwrap()).await;
        assert_eq!(response.status(), StatusCode::OK);
        response.headers()["mcp-session-id"].to_str().unwrap().to_owned()
    }

    pub(crate) async fn in_session(&self, session: &str, body: Full<Bytes>) -> Response<Incoming> {
        let request = self.post().header("mcp-session-id", session);
        self.send(request.header("mcp-protocol-version", "2025-11-25").body(body).unwrap()).await
    }
}

pub(crate) fn body(method: &str, params: Value) -> Full<Bytes> {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string().into()
}

pub(crate) fn modern_params(mut params: Value) -> Value {
    params["_meta"] = json!({
        "progressToken": "p",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

pub(crate) fn header<'r>(response: &'r Response<Incoming>, name: &str) -> &'r str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

pub(crate) async fn text(response: Response<Incoming>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

pub(crate) async fn read(response: Response<Incoming>) -> Value {
    let text = text(response).await;
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// The messages of a whole stream of events.
pub(crate) async fn events(response: Response<Incoming>) -> Vec<Value> {
    assert_eq!(header(&response, "content-type"), "text/event-stream");
    assert_eq!(header(&response, "x-accel-buffering"), "no");
    let text = text(response).await;
    text.lines().filter_map(|line| line.strip_prefix("data: ")).map(|data| data.parse().unwrap()).collect()
}
