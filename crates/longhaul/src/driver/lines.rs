//! Cutting a stream of bytes into lines, within a bound.

/// Bytes that have come but are not yet used.
#[derive(Debug)]
pub(crate) struct Lines {
    buffer: Vec<u8>,
    start: usize,
    /// How far the buffer is known to hold no line end.
    searched: usize,
    max_line: usize,
    /// A line past the bound is being skipped.
    skipping: bool,
}

/// What the next line is.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Line<'a> {
    /// A line, without its end.
    Whole(&'a [u8]),
    /// A line past the bound, which will be skipped. Said once.
    TooLong,
}

impl Lines {
    pub(crate) fn new(max_line: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, searched: 0, max_line, skipping: false }
    }

    /// Where to read into: at least `room` spare bytes.
    pub(crate) fn space(&mut self, room: usize) -> &mut Vec<u8> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        if self.buffer.is_empty() && self.buffer.capacity() > IDLE_CAPACITY {
            self.buffer = Vec::new();
        }
        self.buffer.reserve(room);
        &mut self.buffer
    }

    /// The next line, if a whole one (or one past the bound) is there. Blank lines are passed over.
    pub(crate) fn next(&mut self) -> Option<Line<'_>> {
        let line = loop {
            let found = memchr::memchr(b'\n', &self.buffer[self.searched..]);
            let Some(end) = found.map(|at| self.searched + at) else {
                return self.no_line_yet();
            };
            let line = self.start..end;
            self.start = end + 1;
            self.searched = self.start;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if line.len() > self.max_line {
                return Some(Line::TooLong);
            }
            if !self.buffer[line.clone()].trim_ascii().is_empty() {
                break line;
            }
        };
        Some(Line::Whole(self.buffer[line].trim_ascii()))
    }

    fn no_line_yet(&mut self) -> Option<Line<'_>> {
        self.searched = self.buffer.len();
        if !self.skipping && self.buffer.len() - self.start <= self.max_line {
            return None;
        }
        self.start = self.buffer.len();
        let first = !std::mem::replace(&mut self.skipping, true);
        first.then_some(Line::TooLong)
    }

    /// What is left when the input ends in the middle of a line.
    pub(crate) fn rest(&self) -> &[u8] {
        if self.skipping { &[] } else { self.buffer[self.start..].trim_ascii() }
    }
}

/// A buffer that has grown past this is let go once it is empty.
const IDLE_CAPACITY: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(max_line: usize, chunks: &[&str]) -> Vec<String> {
        let mut lines = Lines::new(max_line);
        let mut seen = Vec::new();
        for chunk in chunks {
            lines.space(chunk.len()).extend_from_slice(chunk.as_bytes());
            while let Some(line) = lines.next() {
                seen.push(match line {
                    Line::Whole(line) => String::from_utf8(line.to_vec()).unwrap(),
                    Line::TooLong => "too long".to_owned(),
                });
            }
        }
        let rest = lines.rest();
        if !rest.is_empty() {
            seen.push(format!("rest {}", String::from_utf8_lossy(rest)));
        }
        seen
    }

    #[test]
    fn lines_are_found_wherever_the_chunks_break() {
        assert_eq!(cut(9, &["a", "b\nc", "\n\r\n", "d\r\n", "e"]), ["ab", "c", "d", "rest e"]);
        assert_eq!(cut(9, &["\n\n \n"]), [""; 0]);
    }

    #[test]
    fn a_line_past_the_bound_is_skipped_and_said_once() {
        assert_eq!(cut(3, &["abcd\nef\n"]), ["too long", "ef"]);
        assert_eq!(cut(3, &["ab", "cd", "ef", "gh\ni\n"]), ["too long", "i"]);
        assert_eq!(cut(3, &["abcdef"]), ["too long"]);
    }

    #[test]
    fn a_skipped_line_holds_no_memory() {
        let mut lines = Lines::new(16);
        for _ in 0..1000 {
            lines.space(1000).extend_from_slice(&[b'x'; 1000]);
            let _ = lines.next();
        }
        assert!(lines.buffer.capacity() < 10_000);
    }
}
