//! Cutting a stream of bytes into lines, within a bound.

use longhaul_proto::jsonrpc::GLIMPSED;

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
    /// How much of it was.
    skipped: usize,
    /// How it begins, and how it ends so far.
    head: Vec<u8>,
    tail: Vec<u8>,
}

/// What the next line is.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Line<'a> {
    /// A line, without its end.
    Whole(&'a [u8]),
    /// A line past the bound, which will be skipped. Said once.
    TooLong,
    /// The end of that line.
    Skipped {
        /// How it began.
        head: &'a [u8],
        /// How it ended.
        tail: &'a [u8],
    },
}

impl Lines {
    pub(crate) fn new(max_line: usize) -> Self {
        let (buffer, head, tail) = (Vec::new(), Vec::new(), Vec::new());
        Self { buffer, start: 0, searched: 0, max_line, skipping: false, skipped: 0, head, tail }
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
            if std::mem::take(&mut self.skipping) {
                self.skip_to(end);
                self.start = end + 1;
                self.searched = self.start;
                return Some(Line::Skipped { head: &self.head, tail: &self.tail });
            }
            if end - self.start > self.max_line {
                // Its end is found again, and said next.
                self.searched = end;
                return Some(self.begin_to_skip(end));
            }
            let line = self.start..end;
            self.start = end + 1;
            self.searched = self.start;
            if !self.buffer[line.clone()].trim_ascii().is_empty() {
                break line;
            }
        };
        Some(Line::Whole(self.buffer[line].trim_ascii()))
    }

    /// How much of a line past the bound was skipped so far; nothing where none is.
    #[cfg(any(feature = "client", test))]
    pub(crate) fn skipped(&self) -> usize {
        if self.skipping { self.skipped } else { 0 }
    }

    fn no_line_yet(&mut self) -> Option<Line<'_>> {
        let end = self.buffer.len();
        self.searched = end;
        if self.skipping {
            self.skip_to(end);
            return None;
        }
        (end - self.start > self.max_line).then(|| self.begin_to_skip(end))
    }

    /// Passes over what is there of a line past the bound.
    fn begin_to_skip(&mut self, end: usize) -> Line<'static> {
        (self.skipping, self.skipped) = (true, 0);
        let head = &self.buffer[self.start..end];
        self.head = head[..head.len().min(GLIMPSED)].to_vec();
        self.tail.clear();
        self.skip_to(end);
        Line::TooLong
    }

    fn skip_to(&mut self, end: usize) {
        let bytes = &self.buffer[self.start..end];
        self.skipped = self.skipped.saturating_add(bytes.len());
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(GLIMPSED)..]);
        self.tail.drain(..self.tail.len().saturating_sub(GLIMPSED));
        self.start = end;
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
                    Line::Skipped { .. } => continue,
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
    fn of_a_line_that_is_skipped_both_ends_are_told_wherever_the_chunks_break() {
        let text = format!("head{}tail\nnext\n", "x".repeat(5 * GLIMPSED));
        for size in [1, 7, GLIMPSED, text.len()] {
            let (mut lines, mut said) = (Lines::new(9), Vec::new());
            for chunk in text.as_bytes().chunks(size) {
                lines.space(chunk.len()).extend_from_slice(chunk);
                while let Some(line) = lines.next() {
                    said.push(match line {
                        Line::Whole(line) => String::from_utf8(line.to_vec()).unwrap(),
                        Line::TooLong => "too long".to_owned(),
                        Line::Skipped { head, tail } => {
                            assert!(head.starts_with(b"head") && tail.ends_with(b"tail"), "{size}");
                            assert!(head.len() <= GLIMPSED && tail.len() == GLIMPSED, "{size}");
                            "skipped".to_owned()
                        }
                    });
                }
            }
            assert_eq!(said, ["too long", "skipped", "next"], "{size}");
            assert_eq!(lines.skipped(), 0);
        }
    }

    #[test]
    fn a_skipped_line_holds_no_memory() {
        let mut lines = Lines::new(16);
        for _ in 0..1000 {
            lines.space(1000).extend_from_slice(&[b'x'; 1000]);
            let _ = lines.next();
        }
        assert_eq!(lines.skipped(), 1_000_000);
        assert!(lines.buffer.capacity() < 10_000);
    }
}
