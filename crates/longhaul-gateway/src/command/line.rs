//! Lines out of a byte stream, without terminal sequences: what a person would have read last.

use memchr::memchr3;

/// Takes what a [`LineScanner`] finds.
pub(super) trait LineSink {
    /// A stretch that a carriage return or a newline ended: one state of a progress bar, or a line.
    fn segment(&mut self, bytes: &[u8]);
    /// A line that a newline ended: what stands after its last carriage return, which is not blank.
    fn line(&mut self, bytes: &[u8]);
    /// The payload of an operating system command (`ESC ]` … `BEL` or `ESC \`).
    fn osc(&mut self, payload: &[u8]);
}

/// Splits a stream into lines as it comes, in bounded memory. Only the first [`LINE_CAP`] bytes of a line count.
#[derive(Debug, Default)]
pub(super) struct LineScanner {
    state: State,
    line: Vec<u8>,
    osc: Vec<u8>,
    returned: bool,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum State {
    #[default]
    Text,
    Escape,
    /// `ESC [`, up to a final byte.
    Control,
    /// `ESC ]`, up to BEL or `ESC \`.
    Osc,
    OscEscape,
    /// `ESC P`, `ESC X`, `ESC ^`, `ESC _`, up to `ESC \`.
    Blob,
    BlobEscape,
    /// `ESC (` and its kin: one more byte.
    Designate,
}

impl LineScanner {
    pub(super) fn feed(&mut self, mut bytes: &[u8], sink: &mut impl LineSink) {
        while !bytes.is_empty() {
            if self.state == State::Text {
                let plain = memchr3(b'\n', b'\r', ESCAPE, bytes).unwrap_or(bytes.len());
                self.text(&bytes[..plain]);
                bytes = &bytes[plain..];
            }
            let Some((byte, rest)) = bytes.split_first() else { break };
            self.byte(*byte, sink);
            bytes = rest;
        }
    }

    fn text(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if std::mem::take(&mut self.returned) {
            self.line.clear();
        }
        let room = LINE_CAP - self.line.len();
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn byte(&mut self, byte: u8, sink: &mut impl LineSink) {
        // No sequence spans lines: one that never ends must not swallow the rest of the stream.
        if byte == b'\n' {
            self.state = State::Text;
            self.end_line(sink);
            return;
        }
        self.state = match (self.state, byte) {
            (State::Text, b'\r') => {
                // Told now and not with what comes next: a bar waits between its states.
                self.end_segment(sink);
                self.returned = true;
                State::Text
            }
            (State::Text, ESCAPE) | (State::Escape | State::Control, ESCAPE) => State::Escape,
            (State::Text, other) => {
                self.text(&[other]);
                State::Text
            }
            (State::Escape, b'[') => State::Control,
            (State::Escape, b']') => {
                self.osc.clear();
                State::Osc
            }
            (State::Escape, b'P' | b'X' | b'^' | b'_') => State::Blob,
            (State::Escape, b' '..=b'/') => State::Designate,
            (State::Escape | State::Designate, _) => State::Text,
            (State::Control, b' '..=b'?') => State::Control,
            (State::Control, _) => State::Text,
            (State::Osc, BELL) | (State::OscEscape, b'\\') => {
                sink.osc(&self.osc);
                State::Text
            }
            (State::Osc, ESCAPE) => State::OscEscape,
            (State::Osc, other) => {
                if self.osc.len() < OSC_CAP {
                    self.osc.push(other);
                }
                State::Osc
            }
            (State::Blob, ESCAPE) => State::BlobEscape,
            (State::Blob, _) => State::Blob,
            (State::BlobEscape, b'\\') => State::Text,
            (State::OscEscape | State::BlobEscape, _) => State::Text,
        };
    }

    fn end_segment(&self, sink: &mut impl LineSink) {
        if !self.returned && !is_blank(&self.line) {
            sink.segment(&self.line);
        }
    }

    fn end_line(&mut self, sink: &mut impl LineSink) {
        self.end_segment(sink);
        if !is_blank(&self.line) {
            sink.line(&self.line);
        }
        self.line.clear();
        self.returned = false;
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

/// A line as people may be shown it: trimmed, at most [`READABLE_CHARS`] characters, U+FFFD for what is not UTF-8,
/// and no character that moves a cursor or turns the direction of text.
pub(super) fn readable(line: &[u8]) -> String {
    let clean: String = String::from_utf8_lossy(line)
        .chars()
        .map(|char| if char == '\t' { ' ' } else { char })
        .filter(shows)
        .collect();
    clean.trim().chars().take(READABLE_CHARS).collect()
}

fn shows(char: &char) -> bool {
    let steers = matches!(*char,
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    !char.is_control() && !steers
}

/// How much of a line is looked at, in bytes.
pub(super) const LINE_CAP: usize = 4096;
/// How much of a line is shown, in characters.
pub(super) const READABLE_CHARS: usize = 200;
const OSC_CAP: usize = 64;
const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Default, Eq, PartialEq)]
    struct Found {
        segments: Vec<String>,
        lines: Vec<String>,
        oscs: Vec<String>,
    }

    impl LineSink for Found {
        fn segment(&mut self, bytes: &[u8]) {
            self.segments.push(readable(bytes));
        }
        fn line(&mut self, bytes: &[u8]) {
            self.lines.push(readable(bytes));
        }
        fn osc(&mut self, payload: &[u8]) {
            self.oscs.push(String::from_utf8_lossy(payload).into_owned());
        }
    }

    fn scan(bytes: &[u8]) -> Found {
        let mut found = Found::default();
        LineScanner::default().feed(bytes, &mut found);
        found
    }

    #[test]
    fn only_complete_lines_count() {
        assert_eq!(scan(b"one\ntwo\nthr").lines, ["one", "two"]);
        assert_eq!(scan(b"one\n\n  \r\n").lines, ["one"]);
    }

    #[test]
    fn a_line_is_what_stands_after_its_last_carriage_return() {
        let found = scan(b"10%\r20%\r30%\nunix\r\n40%\r\r\n50%\r");
        assert_eq!(found.lines, ["30%", "unix", "40%"]);
        assert_eq!(found.segments, ["10%", "20%", "30%", "unix", "40%", "50%"]);
    }

    #[test]
    fn terminal_sequences_are_no_text() {
        let line = b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07plain\x1b]8;;http://x\x1b\\link\x1b(B\x1bP1$r\x1b\\!\x1b7\n";
        assert_eq!(scan(line).lines, ["red plainlink!"]);
    }

    #[test]
    fn progress_sequences_are_handed_over() {
        assert_eq!(scan(b"\x1b]9;4;1;42\x07\x1b]9;4;1;43\x1b\\").oscs, ["9;4;1;42", "9;4;1;43"]);
    }

    #[test]
    fn a_sequence_that_never_ends_ends_with_its_line() {
        assert_eq!(
            scan(b"\x1b]0;open\nnext\n\x1b[12\nlast\n\x1bPblob\nend\n").lines,
            ["next", "last", "end"]
        );
    }

    #[test]
    fn readable_text_is_short_and_still() {
        assert_eq!(readable("  a\tb\u{7}\u{9b}c\u{202e}d\u{e0041} ".as_bytes()), "a bcd");
        assert_eq!(readable(b"bad \xff byte"), "bad \u{fffd} byte");
        assert_eq!(readable("é".repeat(300).as_bytes()).chars().count(), READABLE_CHARS);
    }

    proptest! {
        #[test]
        fn where_the_stream_is_cut_makes_no_difference(
            pieces in prop::collection::vec(prop_oneof![
                Just(&b"\n"[..]), Just(&b"\r"[..]), Just(&b"\x1b"[..]), Just(&b"["[..]), Just(&b"]9;4;1;5"[..]),
                Just(&b"\x07"[..]), Just(&b"\\"[..]), Just(&b"word"[..]), Just(&b"P"[..]), Just(&b"3m"[..]),
            ], 0..40),
            cuts in prop::collection::vec(1_usize..7, 1..60),
        ) {
            let bytes = pieces.concat();
            let (mut scanner, mut found, mut rest) = (LineScanner::default(), Found::default(), &bytes[..]);
            for cut in cuts.into_iter().cycle() {
                let (now, later) = rest.split_at(cut.min(rest.len()));
                scanner.feed(now, &mut found);
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(&found, &scan(&bytes));
            for text in found.lines.iter().chain(&found.segments) {
                prop_assert!(!text.chars().any(char::is_control));
            }
        }
    }
}
