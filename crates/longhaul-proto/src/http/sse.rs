//! Server-sent events: framing them, and reading them back within a bound.

/// Appends an event. `data` must hold no line end, which is true of every message of ours.
pub fn write_event(out: &mut Vec<u8>, id: Option<&str>, data: &[u8]) {
    if let Some(id) = id {
        out.extend_from_slice(b"id: ");
        out.extend_from_slice(id.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\n\n");
}

/// Appends an event of the kind `kind`.
pub fn write_named_event(out: &mut Vec<u8>, kind: &str, data: &[u8]) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(kind.as_bytes());
    out.push(b'\n');
    write_event(out, None, data);
}

/// Appends an event without data: a client that has it knows from where to resume, and after how long.
pub fn write_priming(out: &mut Vec<u8>, id: &str, retry_ms: u128) {
    out.extend_from_slice(format!("id: {id}\nretry: {retry_ms}\ndata:\n\n").as_bytes());
}

/// Appends a comment, which keeps proxies from closing a quiet stream.
pub fn write_comment(out: &mut Vec<u8>) {
    out.extend_from_slice(b":\n\n");
}

/// One event, read back.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// Its id, if it has one.
    pub id: Option<String>,
    /// Its kind; empty means `message`.
    pub kind: String,
    /// Its data, lines joined by line ends.
    pub data: String,
    /// How long to wait before connecting again, in milliseconds.
    pub retry_ms: Option<u64>,
}

/// Reads events out of a stream of bytes, however it is cut.
#[derive(Debug)]
pub struct EventDecoder {
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    after_return: bool,
    size: usize,
    max_event: usize,
}

/// An event is longer than the reader allows.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("an event is longer than the limit of {limit} bytes")]
#[non_exhaustive]
pub struct EventTooLong {
    /// The limit, in bytes.
    pub limit: usize,
}

impl EventDecoder {
    /// A decoder that refuses events longer than `max_event` bytes.
    pub fn new(max_event: usize) -> Self {
        Self {
            line: Vec::new(),
            event: Event::default(),
            has_data: false,
            after_return: false,
            size: 0,
            max_event,
        }
    }

    /// Takes the next bytes and hands every event they complete to `each`.
    ///
    /// # Errors
    ///
    /// When an event grows past the limit; the decoder is then of no further use.
    pub fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(Event)) -> Result<(), EventTooLong> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_return) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', rest);
            let part = &rest[..end.unwrap_or(rest.len())];
            self.size += part.len();
            if self.size > self.max_event {
                return Err(EventTooLong { limit: self.max_event });
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else { return Ok(()) };
            self.after_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            self.handle_line(&mut each);
        }
        Ok(())
    }

    fn handle_line(&mut self, each: &mut impl FnMut(Event)) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            self.size = 0;
            let event = std::mem::take(&mut self.event);
            if std::mem::take(&mut self.has_data) || event.retry_ms.is_some() || event.id.is_some() {
                each(event);
            }
            return;
        }
        let text = String::from_utf8_lossy(&line);
        let (field, value) = text.split_once(':').unwrap_or((&text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.event.kind),
            "retry" => self.event.retry_ms = value.parse().ok(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(chunks: &[&[u8]]) -> Vec<Event> {
        let mut decoder = EventDecoder::new(100);
        let mut events = Vec::new();
        for chunk in chunks {
            decoder.feed(chunk, |event| events.push(event)).unwrap();
        }
        events
    }

    #[test]
    fn what_is_written_is_read_back_however_it_is_cut() {
        let mut bytes = Vec::new();
        write_event(&mut bytes, Some("7"), br#"{"a":1}"#);
        write_comment(&mut bytes);
        write_event(&mut bytes, None, b"second");
        for size in 1..bytes.len() {
            let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
            let events = decode(&chunks);
            assert_eq!(events.len(), 2, "cut every {size}");
            assert_eq!((events[0].id.as_deref(), events[0].data.as_str()), (Some("7"), r#"{"a":1}"#));
            assert_eq!(events[1].data, "second");
        }
    }

    #[test]
    fn others_ways_of_writing_are_read() {
        let events = decode(&[b"event: x\r\ndata:a\r\ndata\r\nretry: 50\r\n\r\n", b"data: b\r\rdata: open"]);
        assert_eq!(events.len(), 2);
        assert_eq!((events[0].kind.as_str(), events[0].data.as_str()), ("x", "a\n"));
        assert_eq!(events[0].retry_ms, Some(50));
        assert_eq!(events[1].data, "b");
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut decoder = EventDecoder::new(100);
        assert_eq!(decoder.feed(&[b'x'; 101], |_| ()), Err(EventTooLong { limit: 100 }));
    }
}
