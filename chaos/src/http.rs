//! The least of an HTTP/1.1 client: one request a connection, and a clear view of what was cut off.

use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// An answer, whole or cut off.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether all of it arrived.
    pub(crate) whole: bool,
    /// Whether the rest of it was waited for in vain.
    pub(crate) is_late: bool,
}

impl Answer {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Whether it is a stream of events.
    pub(crate) fn is_stream(&self) -> bool {
        self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    fn is_chunked(&self) -> bool {
        self.header("transfer-encoding").is_some_and(|coding| coding.contains("chunked"))
    }
}

/// A connection on which one request was sent, and until when all of its answer is waited for: a stream that is kept alive
/// could else be read for ever.
#[derive(Debug)]
pub(crate) struct Sent {
    stream: TcpStream,
    until: Instant,
}

/// Sends one POST, the answer of which may take so long. Dropping what it gives back closes the connection, answered or not.
pub(crate) fn post(
    address: SocketAddr,
    headers: &[(&str, &str)],
    body: &[u8],
    patience: Duration,
) -> io::Result<Sent> {
    let mut request = format!("POST /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    request += &format!("Content-Length: {}\r\n\r\n", body.len());
    let mut bytes = request.into_bytes();
    bytes.extend_from_slice(body);
    send(address, &bytes, patience)
}

/// Asks for a page, the whole of which may take so long.
pub(crate) fn get(address: SocketAddr, path: &str, patience: Duration) -> io::Result<Sent> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    send(address, request.as_bytes(), patience)
}

fn send(address: SocketAddr, request: &[u8], patience: Duration) -> io::Result<Sent> {
    let until = Instant::now() + patience;
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(patience))?;
    stream.write_all(request)?;
    Ok(Sent { stream, until })
}

impl Sent {
    /// Reads what comes, until it is whole, the peer is gone or time is up.
    ///
    /// # Errors
    ///
    /// When not even the headers came.
    pub(crate) fn answer(self) -> io::Result<Answer> {
        read(&mut BufReader::new(self))
    }

    /// The answer as it comes, if it is a stream of events.
    ///
    /// # Errors
    ///
    /// When not even the headers came.
    pub(crate) fn events(self) -> io::Result<Events<impl BufRead>> {
        Events::of(BufReader::new(self))
    }
}

impl Read for Sent {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(bytes)
    }
}

/// The events of a stream. Dropping it closes the connection.
#[derive(Debug)]
pub(crate) struct Events<R> {
    pub(crate) status: u16,
    reader: R,
    /// What has come of the next event.
    text: Vec<u8>,
    is_over: bool,
}

impl<R: BufRead> Events<R> {
    fn of(mut reader: R) -> io::Result<Self> {
        let head = head(&mut reader)?;
        // Whatever else came, nothing of it is an event.
        let is_over = !head.is_chunked() || !head.is_stream();
        Ok(Self { status: head.status, reader, text: Vec::new(), is_over })
    }
}

impl<R: BufRead> Iterator for Events<R> {
    type Item = String;

    /// What the next event carries; nothing once the time is up.
    fn next(&mut self) -> Option<String> {
        loop {
            let end = self.text.windows(2).position(|two| two == b"\n\n");
            if let Some(end) = end {
                let event: Vec<u8> = self.text.drain(..end + 2).collect();
                let event = String::from_utf8_lossy(&event);
                let data = event.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim_start);
                return Some(data.collect());
            }
            if self.is_over {
                return None;
            }
            self.is_over = !matches!(chunk(&mut self.reader, &mut self.text), Ok(1..));
        }
    }
}

/// Whether it was waited for in vain.
pub(crate) fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

fn head(reader: &mut impl BufRead) -> io::Result<Answer> {
    let status = line(reader)?;
    let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
    let mut answer = Answer { status: status.ok_or(io::ErrorKind::InvalidData)?, ..Answer::default() };
    loop {
        let header = line(reader)?;
        if header.is_empty() {
            return Ok(answer);
        }
        if let Some((name, value)) = header.split_once(':') {
            answer.headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }
}

fn read(reader: &mut impl BufRead) -> io::Result<Answer> {
    let mut answer = head(reader)?;
    let length = answer.header("content-length").and_then(|length| length.parse::<u64>().ok());
    // Whatever the reason it was cut off for, what came is what counts.
    let ended = match length {
        Some(length) => {
            let read = reader.take(length).read_to_end(&mut answer.body);
            read.map(|read| read as u64 == length)
        }
        None if answer.is_chunked() => chunks(reader, &mut answer.body),
        None => reader.read_to_end(&mut answer.body).map(|_| true),
    };
    answer.is_late = ended.as_ref().is_err_and(is_late);
    answer.whole = ended.unwrap_or(false);
    Ok(answer)
}

fn chunks(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<bool> {
    while chunk(reader, body)? > 0 {}
    Ok(true)
}

/// Reads the next chunk; how long it is, which is nothing at the end.
fn chunk(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<u64> {
    let size = line(reader)?;
    let size = u64::from_str_radix(size.split(';').next().unwrap_or_default(), 16);
    let size = size.map_err(|_| io::ErrorKind::InvalidData)?;
    let read = reader.take(size).read_to_end(body)?;
    if (read as u64) < size {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    line(reader)?;
    Ok(size)
}

fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    match line.strip_suffix(b"\r\n") {
        Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Answer {
        read(&mut text.as_bytes()).unwrap()
    }

    #[test]
    fn what_was_cut_off_is_not_whole() {
        let fixed = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        assert!(answer(fixed).whole && !answer(&fixed[..fixed.len() - 1]).whole);
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        assert_eq!((answer(chunked).body.as_slice(), answer(chunked).whole), (&b"abc"[..], true));
        let cut = answer(&chunked[..chunked.len() - 5]);
        assert_eq!((cut.body.as_slice(), cut.whole), (&b"abc"[..], false));
        assert!(read(&mut &b"HTTP/1.1 200 OK\r\nContent"[..]).is_err());
    }

    #[test]
    fn an_answer_that_is_only_kept_alive_is_not_waited_for_for_ever() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
            stream.write_all(head.as_bytes()).unwrap();
            // Until the other side has left.
            while stream.write_all(b"3\r\n:\n\n\r\n").is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let sent = post(address, &[], b"", Duration::from_millis(200)).unwrap();
        let answer = sent.answer().unwrap();
        assert!(!answer.whole && answer.is_late);
        peer.join().unwrap();
    }

    #[test]
    fn events_are_there_once_they_are_whole() {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        let text = format!("{head}9\r\n: hi\n\ndat\r\n8\r\na: 1\n\nda\r\n5\r\nta: 2\r\n0\r\n\r\n");
        let events = Events::of(text.as_bytes()).unwrap();
        assert_eq!(events.collect::<Vec<_>>(), ["", "1"]);
        let other =
            Events::of(&b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\ndata: 1\n\n"[..]).unwrap();
        assert_eq!((other.status, other.count()), (404, 0));
    }
}
