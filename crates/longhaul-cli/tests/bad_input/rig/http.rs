//! The least of an HTTP/1.1 client, which sends whatever it is given.

use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::HANG;

/// An answer.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The JSON-RPC answer: the body, or the last event of it.
    #[track_caller]
    pub(crate) fn message(&self) -> Value {
        let text = self.text();
        let is_stream = self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        let json = match is_stream {
            true => text.lines().rev().find_map(|line| line.strip_prefix("data:")).unwrap_or_default(),
            false => &text,
        };
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {} {text:?}", self.status))
    }
}

/// A connection that gives up only when the peer hangs.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, HANG).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream.set_write_timeout(Some(HANG)).unwrap();
    stream
}

/// The bytes of one request.
pub(crate) fn request(verb: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{verb} {path} HTTP/1.1\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    let given = |name: &str| headers.iter().any(|(key, _)| key.eq_ignore_ascii_case(name));
    if !given("host") {
        head += "Host: 127.0.0.1\r\n";
    }
    if !given("content-length") && !given("transfer-encoding") {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

/// Sends these bytes on a connection of their own and reads one answer.
///
/// A server that refuses early may close before it was sent everything: what it said counts.
#[track_caller]
pub(crate) fn send(address: SocketAddr, bytes: &[u8]) -> Answer {
    let mut stream = connect(address);
    let written = stream.write_all(bytes);
    match read(&mut BufReader::new(&stream)) {
        Ok(answer) => answer,
        Err(error) => panic!("no answer: {error} (after writing: {written:?})"),
    }
}

/// Reads one answer.
pub(crate) fn read(reader: &mut impl BufRead) -> io::Result<Answer> {
    let status = line(reader)?;
    let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
    let mut answer = Answer { status: status.ok_or(io::ErrorKind::InvalidData)?, ..Answer::default() };
    loop {
        let header = line(reader)?;
        if header.is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':') {
            answer.headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }
    let length = answer.header("content-length").and_then(|length| length.parse::<usize>().ok());
    if answer.header("transfer-encoding").is_some_and(|coding| coding.contains("chunked")) {
        chunks(reader, &mut answer.body)?;
    } else if let Some(length) = length {
        answer.body.resize(length, 0);
        reader.read_exact(&mut answer.body)?;
    } else if !matches!(answer.status, 202 | 204) {
        reader.read_to_end(&mut answer.body)?;
    }
    Ok(answer)
}

fn chunks(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let size = u64::from_str_radix(&line(reader)?, 16).map_err(|_| io::ErrorKind::InvalidData)?;
        let read = reader.take(size).read_to_end(body)?;
        line(reader)?;
        if size == 0 {
            return Ok(());
        }
        assert_eq!(read as u64, size, "cut off within a chunk");
    }
}

fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    match line.strip_suffix(b"\r\n") {
        Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
