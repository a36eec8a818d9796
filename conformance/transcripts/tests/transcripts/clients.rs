//! Our client, held to the rules that are a client's: what it says to a server that is played.

use std::time::Duration;

use longhaul::client::Target;
use longhaul::proto::dialect::Dialect;
use longhaul_test::transcript::{Leg, Over, Row, Said};
use longhaul_transcripts::client::act;
use serde_json::Value;
use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf,
    WriteHalf, split,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::legs::{all, hold};

/// How long a client may take to say something.
const SILENCE: Duration = Duration::from_secs(30);

/// Holds our client to every row of clients over `over`.
pub(crate) async fn hold_clients(over: Over) {
    let mut rows = all(over);
    rows.retain(|(row, _)| row.client.is_some());
    match over {
        Over::Http => hold(rows, 4, async |row, dialect| Posts::of(row, dialect).await).await,
        _ => hold(rows, 1, async |row, dialect| Stream::of(row, dialect)).await,
    }
}

/// Has the client do what the row says, until that is let go.
fn begin(row: &Row, dialect: &'static Dialect, target: Target) -> Acting {
    let story = row.client.clone().unwrap_or_default();
    Acting(tokio::spawn(async move {
        // Where it was not told to its end the server is gone before the client.
        let _ = act(&story, target, dialect.revision()).await;
    }))
}

/// The client, which ends with this.
struct Acting(JoinHandle<()>);

impl Drop for Acting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The server's end of a stream of bytes.
struct Stream {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    _client: Acting,
}

impl Stream {
    fn of(row: &Row, dialect: &'static Dialect) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = split(theirs);
        let client = begin(row, dialect, Target::stream(reader, writer));
        let (reader, writer) = split(ours);
        Self { lines: BufReader::new(reader).lines(), writer, _client: client }
    }
}

impl Leg for Stream {
    async fn say(&mut self, said: Said<'_>) -> Result<(), String> {
        let line = format!("{}\n", said.text);
        self.writer.write_all(line.as_bytes()).await.map_err(|error| error.to_string())
    }

    async fn hear(&mut self, _: &Value, _: &[String]) -> Result<Value, String> {
        let line = tokio::time::timeout(SILENCE, self.lines.next_line()).await;
        let line = line.map_err(|_| "nothing came".to_owned())?.map_err(|error| error.to_string())?;
        let line = line.ok_or("the client has gone")?;
        serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))
    }

    fn status(&mut self) -> Result<u16, String> {
        Err("a client answers with no status".to_owned())
    }

    async fn wait(&mut self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

/// A message of the client's, and where its answer goes if it is a request.
struct Post {
    head: String,
    message: Value,
    stream: Option<TcpStream>,
}

/// Streamable HTTP: each message of the client's a POST, each answer a stream of its own.
struct Posts {
    arrived: mpsc::UnboundedReceiver<Post>,
    /// The head of what was heard last.
    head: String,
    /// What was asked and not answered yet, the oldest first.
    open: Vec<(Value, TcpStream)>,
    served: JoinHandle<()>,
    _client: Acting,
}

impl Posts {
    async fn of(row: &Row, dialect: &'static Dialect) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let (sender, arrived) = mpsc::unbounded_channel();
        let served = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(take(stream, sender.clone()));
            }
        });
        let client = begin(row, dialect, Target::url(url));
        Self { arrived, head: String::new(), open: Vec::new(), served, _client: client }
    }
}

impl Drop for Posts {
    fn drop(&mut self) {
        self.served.abort();
    }
}

/// Takes what comes on a connection. A request keeps it, for its answer.
async fn take(mut stream: TcpStream, sender: mpsc::UnboundedSender<Post>) -> Option<()> {
    loop {
        let (head, body) = read(&mut stream).await?;
        if !head.starts_with("POST") {
            stream.write_all(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n").await.ok()?;
            continue;
        }
        let message: Value = serde_json::from_slice(&body).ok()?;
        if message.get("id").is_some() && message.get("method").is_some() {
            let begun = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
            stream.write_all(begun).await.ok()?;
            return sender.send(Post { head, message, stream: Some(stream) }).ok();
        }
        sender.send(Post { head, message, stream: None }).ok()?;
        stream.write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n").await.ok()?;
    }
}

/// A request of HTTP: its head and its body.
async fn read(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        stream.read_buf(&mut bytes).await.ok().filter(|read| *read > 0)?;
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let length = field(&head, "content-length").parse().unwrap_or(0);
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        stream.read_buf(&mut body).await.ok().filter(|read| *read > 0)?;
    }
    Some((head, body))
}

/// A field of a head, nothing if it is not there.
fn field(head: &str, name: &str) -> String {
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    let mut named = fields.filter(|(known, _)| known.eq_ignore_ascii_case(name));
    named.next().map_or("", |(_, value)| value.trim()).to_owned()
}

impl Leg for Posts {
    async fn say(&mut self, said: Said<'_>) -> Result<(), String> {
        let message = said.message.ok_or("a server says messages")?;
        let answers = |(id, _): &(Value, TcpStream)| message.get("method").is_none() && *id == message["id"];
        let at = self.open.iter().position(answers);
        // What is asked meanwhile comes with the answer that has been waited for longest.
        let (_, stream) = self.open.get_mut(at.unwrap_or(0)).ok_or("nothing is waited for")?;
        let event = format!("data: {}\n\n", said.text);
        stream.write_all(event.as_bytes()).await.map_err(|error| error.to_string())?;
        if let Some(at) = at {
            self.open.remove(at);
        }
        Ok(())
    }

    async fn hear(&mut self, _: &Value, _: &[String]) -> Result<Value, String> {
        let post = tokio::time::timeout(SILENCE, self.arrived.recv()).await;
        let Post { head, message, stream } =
            post.map_err(|_| "nothing came".to_owned())?.ok_or("nothing is served")?;
        self.head = head;
        self.open.extend(stream.map(|stream| (message["id"].clone(), stream)));
        Ok(message)
    }

    fn status(&mut self) -> Result<u16, String> {
        Err("a client answers with no status".to_owned())
    }

    fn header(&mut self, name: &str) -> Result<String, String> {
        Ok(field(&self.head, name))
    }

    async fn wait(&mut self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}
