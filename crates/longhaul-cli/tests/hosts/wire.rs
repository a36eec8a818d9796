//! What a host speaks over: the pipes of a server that it has started, or HTTP. What is heard of all streams comes in one
//! line, as hosts see it.

use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long anything may take: only a hang gets there.
pub(crate) const HANG: Duration = Duration::from_secs(120);

/// Looks until there is something to see.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + HANG;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A way to one server.
#[derive(Debug)]
pub(crate) struct Wire {
    to: To,
    heard: Receiver<Value>,
}

#[derive(Debug)]
enum To {
    Child(Child, Mutex<ChildStdin>),
    Http(Http),
}

impl Wire {
    /// Starts the server, which serves whoever has.
    pub(crate) fn child(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (tell, heard) = mpsc::channel();
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
                // A host that is gone hears nothing.
                let _ = tell.send(message);
            }
        });
        // A host that did not read what its server says beside would stop it.
        thread::spawn(move || BufReader::new(stderr).lines().map_while(Result::ok).for_each(drop));
        let stdin = Mutex::new(child.stdin.take().unwrap());
        Self { to: To::Child(child, stdin), heard }
    }

    /// Speaks to a server over HTTP.
    pub(crate) fn http(address: SocketAddr, revision: &'static str, token: Option<&'static str>) -> Self {
        let (tell, heard) = mpsc::channel();
        let (session, last) = (Arc::default(), Mutex::default());
        Self { to: To::Http(Http { address, revision, token, session, last, tell }), heard }
    }

    /// Sends a message.
    pub(crate) fn send(&self, message: &Value) {
        match &self.to {
            To::Child(_, stdin) => {
                let mut stdin = stdin.lock().unwrap();
                stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
            }
            To::Http(http) => http.post(message),
        }
    }

    /// The next message, if one comes within so long.
    pub(crate) fn receive(&self, within: Duration) -> Option<Value> {
        self.heard.recv_timeout(within).ok()
    }

    /// Opens the stream on which the server speaks unasked.
    pub(crate) fn listen(&self) {
        if let To::Http(http) = &self.to {
            http.request("GET", "", "");
        }
    }

    /// Leaves the request that was sent last.
    pub(crate) fn hang_up(&self) {
        if let To::Http(Http { last, .. }) = &self.to
            && let Some(stream) = last.lock().unwrap().take()
        {
            // One that the server has closed is left already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if let To::Child(child, _) = &mut self.to {
            // One that has ended already needs neither.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A client of HTTP/1.1 with a connection for each request.
#[derive(Debug)]
struct Http {
    address: SocketAddr,
    revision: &'static str,
    token: Option<&'static str>,
    session: Arc<Mutex<Option<String>>>,
    /// The connection of the last request.
    last: Mutex<Option<TcpStream>>,
    tell: Sender<Value>,
}

impl Http {
    fn post(&self, message: &Value) {
        let mut headers = "Content-Type: application/json\r\n".to_owned();
        let method = message["method"].as_str().unwrap_or_default();
        if self.revision >= "2026" {
            headers += &format!("Mcp-Method: {method}\r\n");
            let name = message["params"]["name"].as_str().or_else(|| message["params"]["taskId"].as_str());
            headers += &name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
        }
        if method != "initialize" {
            headers += &format!("MCP-Protocol-Version: {}\r\n", self.revision);
        }
        self.request("POST", &headers, &message.to_string());
    }

    /// Sends a request, waits for its status, and tells of its messages as they come.
    fn request(&self, verb: &str, headers: &str, body: &str) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let mut head = format!("{verb} /mcp HTTP/1.1\r\nHost: {}\r\n{headers}", self.address);
        head += "Accept: application/json, text/event-stream\r\n";
        head += &self.token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        if let Some(session) = &*of(&self.session) {
            head += &format!("Mcp-Session-Id: {session}\r\n");
        }
        head += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(head.as_bytes()).unwrap();
        *of(&self.last) = Some(stream.try_clone().unwrap());
        let (session, tell) = (Arc::clone(&self.session), self.tell.clone());
        let reading = thread::spawn(move || {
            // Whoever hangs up, or whose server dies, reads no further.
            let _ = read(stream, &session, &tell);
        });
        // A session is open before anything is said in it.
        if self.revision < "2026" && of(&self.session).is_none() {
            reading.join().unwrap();
        }
    }
}

fn of<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(stream: TcpStream, session: &Mutex<Option<String>>, tell: &Sender<Value>) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut is_chunked, mut line) = (0, false, String::new());
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            if line.trim_end().is_empty() {
                break;
            }
            assert!(line.contains(" 20"), "{line}");
            continue;
        };
        match (name.to_ascii_lowercase().as_str(), value) {
            ("content-length", value) => length = value.parse().unwrap(),
            ("transfer-encoding", value) => is_chunked = value == "chunked",
            ("mcp-session-id", value) => *of(session) = Some(value.to_owned()),
            _ => {}
        }
    }
    if !is_chunked {
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        if !body.is_empty() {
            // A host that is gone hears nothing.
            let _ = tell.send(serde_json::from_slice(&body)?);
        }
        return Ok(());
    }
    for line in BufReader::new(Chunks { reader, left: 0 }).lines() {
        // The first event of a stream says nothing.
        if let Some(data) = line?.strip_prefix("data:").map(str::trim).filter(|data| !data.is_empty()) {
            let _ = tell.send(serde_json::from_str(data)?);
        }
    }
    Ok(())
}

/// A body that comes in chunks.
struct Chunks<R> {
    reader: R,
    left: u64,
}

impl<R: io::BufRead> Read for Chunks<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let mut size = String::new();
            // The end of the chunk before, and the size of this one.
            while size.trim().is_empty() {
                size.clear();
                if self.reader.read_line(&mut size)? == 0 {
                    return Ok(0);
                }
            }
            self.left = u64::from_str_radix(size.trim(), 16).map_err(|_| io::ErrorKind::InvalidData)?;
            if self.left == 0 {
                return Ok(0);
            }
        }
        let read = (&mut self.reader).take(self.left).read(into)?;
        self.left -= read as u64;
        Ok(read)
    }
}
