//! Reads what a command wrote, by a cursor into the stream, while it runs and after.

use std::{fs::File, io, os::unix::fs::FileExt as _, path::Path};

use super::{
    exit::Gap,
    layout::{CANCEL, FileError, POSITION_SIZE, RunDir, STARTED, Stream},
    lock,
    position::Position,
    record::{self, Content},
};

/// One output stream of a run, open for reading.
///
/// The cursor counts bytes of the stream as the command wrote it, so it stays valid while the middle of a long
/// stream is dropped, over restarts of server and supervisor, and after the end. Reading blocks only on the page
/// cache and the disk.
#[derive(Debug)]
pub struct Output {
    data: File,
    record: File,
    run: Option<RunDir>,
}

/// Where a chunk may end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Cut {
    /// At any byte.
    Anywhere,
    /// Between characters of UTF-8. Bytes that belong to no character are cut anywhere.
    AtChar,
}

/// A stretch of an output stream.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Chunk {
    /// The bytes `start..next` of the stream.
    pub bytes: Vec<u8>,
    /// Where in the stream `bytes` begins: the cursor that was asked for, or behind a gap.
    pub start: u64,
    /// The cursor for the next read.
    pub next: u64,
    /// How many bytes the command has written so far.
    pub total: u64,
    /// What is missing between the cursor that was asked for and `start`.
    pub gap: Option<Gap>,
    /// The supervisor said that no more will come.
    pub closed: bool,
    /// Nothing follows this chunk, now or later.
    pub done: bool,
}

impl Output {
    /// Opens a stream of the run in `dir`.
    ///
    /// # Errors
    ///
    /// When the directory or the stream's files cannot be opened.
    pub fn open(dir: &Path, stream: Stream) -> Result<Self, FileError> {
        let run = RunDir::open(dir)?;
        Ok(Self { data: run.read(stream.name())?, record: run.read(stream.position_name())?, run: Some(run) })
    }

    #[cfg(test)]
    pub(super) const fn of_files(data: File, record: File) -> Self {
        Self { data, record, run: None }
    }

    /// Reads at most `max` bytes (at least one, and at least four with [`Cut::AtChar`]) from cursor `after` on.
    ///
    /// A chunk never spans a gap: where bytes are missing, [`Chunk::gap`] names them and the chunk begins behind
    /// them. A cursor beyond the end reads nothing and gets the end as its next cursor.
    ///
    /// # Errors
    ///
    /// When the stream's files cannot be read or are damaged.
    pub fn read(&self, after: u64, max: usize, cut: Cut) -> io::Result<Chunk> {
        let max = max.max(if cut == Cut::AtChar { 4 } else { 1 });
        // Asked first: whoever is found dead here has written all that it ever will.
        let ended = self.supervisor_is_gone()?;
        let mut position = self.position()?;
        for _lap in 0..LAPS {
            let (start, wanted) = stretch(&position, after, max);
            let bytes = self.bytes(&position, start, wanted)?;
            let later = self.position()?;
            if later.head == position.head
                && later.tail == position.tail
                && is_intact(&later, start, bytes.len())
            {
                return Ok(chunk(&later, Wish { after, cut, ended }, start, bytes));
            }
            position = later;
        }
        // The command laps every read: all the same the caller learns how far it has come.
        let start = position.tail_start().max(after).min(position.end);
        Ok(chunk(&position, Wish { after, cut: Cut::Anywhere, ended: false }, start, Vec::new()))
    }

    /// Reads the end of the stream: its last `max` bytes, or fewer when fewer are kept in one piece.
    ///
    /// # Errors
    ///
    /// As [`Output::read`].
    pub fn read_end(&self, max: usize, cut: Cut) -> io::Result<Chunk> {
        let position = self.position()?;
        let earliest = position.middle_gap().map_or(0, |gap| gap.to);
        let wanted = position.end.saturating_sub(max as u64);
        let start = earliest.max(wanted);
        let mut chunk = self.read(start, max, cut)?;
        if cut == Cut::AtChar && start > 0 && chunk.gap.is_none() {
            chunk.drop_continuation();
        }
        Ok(chunk)
    }

    fn bytes(&self, position: &Position, start: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            let offset = start + filled as u64;
            let piece =
                usize::try_from(position.contiguous(offset)).unwrap_or(usize::MAX).min(length - filled);
            self.data.read_exact_at(&mut bytes[filled..filled + piece], position.physical(offset))?;
            filled += piece;
        }
        Ok(bytes)
    }

    fn position(&self) -> io::Result<Position> {
        match record::read(&self.record, POSITION_SIZE)? {
            Content::Whole(position) => Ok(position),
            Content::Empty => Ok(Position::default()),
            Content::Damaged => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the record of the stream's position is damaged: the bytes are in the file, their order is not known",
            )),
        }
    }

    fn supervisor_is_gone(&self) -> io::Result<bool> {
        let Some(run) = &self.run else { return Ok(false) };
        let gone = || {
            if run.exists(STARTED)? {
                return Ok(!lock::is_held(run)?);
            }
            // One that was withdrawn before it started never writes.
            run.exists(CANCEL)
        };
        gone().map_err(|error: FileError| error.source)
    }
}

impl Chunk {
    /// Nothing that is behind `after`, so far.
    pub(crate) fn none_yet(after: u64) -> Self {
        Self {
            bytes: Vec::new(),
            start: after,
            next: after,
            total: after,
            gap: None,
            closed: false,
            done: false,
        }
    }

    /// Begins and ends it between characters: `is_inside` says that it may begin in the middle of one, `goes_on` that what its last
    /// bytes begin may be completed.
    pub(crate) fn cut_at_chars(&mut self, is_inside: bool, goes_on: bool) {
        if is_inside {
            self.drop_continuation();
        }
        if goes_on {
            self.end_before(self.next - partial_char(&self.bytes) as u64);
        }
    }

    /// Leaves out what is from there on.
    pub(crate) fn end_before(&mut self, end: u64) {
        let kept = usize::try_from(end.saturating_sub(self.start)).unwrap_or(usize::MAX);
        if kept < self.bytes.len() {
            self.bytes.truncate(kept);
            self.next = end;
            self.done = false;
        }
    }

    /// Behind a gap a stream may go on in the middle of a character.
    fn drop_continuation(&mut self) {
        let inside = self.bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
        self.bytes.drain(..inside);
        self.start += inside as u64;
        self.gap = self.gap.map(|gap| Gap { from: gap.from, to: self.start });
    }
}

#[derive(Clone, Copy)]
struct Wish {
    after: u64,
    cut: Cut,
    ended: bool,
}

/// Which bytes to read for a cursor: a piece of the head or of the tail.
fn stretch(position: &Position, after: u64, max: usize) -> (u64, usize) {
    let gap = position.middle_gap();
    let (start, limit) = match gap {
        Some(gap) if after < gap.from => (after, gap.from),
        Some(gap) => (after.max(gap.to), position.end),
        None => (after, position.end),
    };
    let start = start.min(position.end);
    let length = limit.saturating_sub(start);
    (start, usize::try_from(length).unwrap_or(max).min(max))
}

/// Whether none of the `length` bytes from `start` on was overwritten while they were read.
fn is_intact(later: &Position, start: u64, length: usize) -> bool {
    start + length as u64 <= later.head || start.max(later.head) >= later.tail_start()
}

fn chunk(position: &Position, wish: Wish, start: u64, bytes: Vec<u8>) -> Chunk {
    let Wish { after, cut, ended } = wish;
    let ended = ended || position.closed;
    let next = start + bytes.len() as u64;
    let mut chunk = Chunk {
        gap: Gap::between(after, start),
        bytes,
        start,
        next,
        total: position.total,
        closed: position.closed,
        done: false,
    };
    if cut == Cut::AtChar {
        let follows = next < position.end && position.middle_gap().is_none_or(|gap| gap.from != next);
        let may_follow = next == position.end && next == position.total && !ended;
        chunk.cut_at_chars(chunk.gap.is_some(), follows || may_follow);
    }
    // What the file did not take at the end is a gap too, named once everything before it was read.
    if chunk.bytes.is_empty() && chunk.next == position.end && position.end < position.total {
        chunk.gap = Gap::between(
            chunk.gap.map_or_else(|| after.max(position.end).min(position.total), |gap| gap.from),
            position.total,
        );
        chunk.start = position.total;
        chunk.next = position.total;
    }
    chunk.done = ended && chunk.next == position.total;
    chunk
}

/// How many bytes at the end begin a character that the next bytes could complete.
fn partial_char(bytes: &[u8]) -> usize {
    let window = &bytes[bytes.len().saturating_sub(3)..];
    for (index, byte) in window.iter().enumerate() {
        let expected = match byte {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => continue,
        };
        let tail = &window[index..];
        let incomplete = std::str::from_utf8(tail)
            .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none());
        if tail.len() < expected && incomplete {
            return tail.len();
        }
    }
    0
}

/// How often a read that was overtaken begins again before it returns without bytes.
const LAPS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_character_that_could_be_completed_is_partial() {
        assert_eq!(partial_char(b"ab\xc3"), 1);
        assert_eq!(partial_char("aé".as_bytes()), 0);
        assert_eq!(partial_char(b"\xe2\x82"), 2);
        assert_eq!(partial_char(b"\xf0\x9f\x98"), 3);
        assert_eq!(partial_char("\u{1f600}".as_bytes()), 0);
        assert_eq!(partial_char(b"\xff\x80\x80"), 0);
        assert_eq!(partial_char(b"\xe0\x80"), 0, "an overlong form is no character");
        assert_eq!(partial_char(b""), 0);
    }
}
