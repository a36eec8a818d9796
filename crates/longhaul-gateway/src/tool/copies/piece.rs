//! A piece of a stream as it is kept, and how pieces are put together again.

use std::cmp::Reverse;

use super::{Begin, PLACES};
use crate::command::{Chunk, Gap};

/// Where streams are cut, in bytes: no piece reaches over a multiple of it. With its head it fits into any entry of the default limits.
pub(super) const PIECE: u64 = 60 << 10;

/// What is kept of the bytes of a stream between two cuts: some of them in one stretch, mostly all.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Piece {
    /// Where in the stream it begins.
    pub(super) start: u64,
    /// The stream has its end behind it.
    pub(super) is_end: bool,
    pub(super) text: Vec<u8>,
}

impl Piece {
    /// As it is kept.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + self.text.len());
        bytes.extend_from_slice(&self.start.to_be_bytes());
        bytes.push(u8::from(self.is_end));
        bytes.extend_from_slice(&self.text);
        bytes
    }

    /// As it was kept; `None` for what no node has.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (start, rest) = bytes.split_first_chunk::<8>()?;
        let (is_end, text) = rest.split_first()?;
        let start = u64::from_be_bytes(*start);
        // Where it would end is known, however long it is.
        start.checked_add(text.len() as u64)?;
        Some(Self { start, is_end: *is_end == 1, text: text.to_vec() })
    }

    /// Between which cuts it is.
    pub(super) fn number(&self) -> u64 {
        self.start / PIECE
    }

    pub(super) fn end(&self) -> u64 {
        self.start + self.text.len() as u64
    }

    /// How far it goes, and how much of that it has: which of two is more of the same stream.
    pub(super) fn reach(&self) -> (u64, bool, Reverse<u64>) {
        (self.end(), self.is_end, Reverse(self.start))
    }

    /// Whether nothing more can come to it.
    pub(super) fn is_full(&self) -> bool {
        !self.text.is_empty() && self.end().is_multiple_of(PIECE)
    }
}

const HEAD: usize = size_of::<u64>() + 1;

/// A stretch of a stream that is put together from its pieces.
#[derive(Debug)]
pub(super) struct Reading<'l> {
    /// The cursor that was asked for, behind which it is said what is missing.
    asked: Option<u64>,
    most: usize,
    last: &'l Piece,
    /// The piece that comes next, until there is enough.
    next: Option<u64>,
    /// Where what was found begins.
    start: u64,
    text: Vec<u8>,
    /// What follows what was found is not kept.
    is_torn: bool,
}

impl<'l> Reading<'l> {
    /// At most `most` bytes of the stream that ends with `last`, of which all before the newest may be lost.
    pub(super) fn new(begin: Begin, most: usize, last: &'l Piece) -> Self {
        // A character that is cut could not be told from one that is still to come.
        let most = most.max(4);
        let (asked, start) = match begin {
            Begin::After(after) => (Some(after), after),
            Begin::BeforeEnd => (None, last.end().saturating_sub(most as u64)),
        };
        let oldest = last.number().saturating_sub(PLACES);
        let next = Some((start / PIECE).max(oldest));
        let mut reading = Self { asked, most, last, next, start, text: Vec::new(), is_torn: false };
        reading.end_with_last();
        reading
    }

    /// The full piece that is needed next.
    pub(super) fn wants(&self) -> Option<u64> {
        self.next
    }

    /// Takes the piece that was needed; `None` if it is not kept any more.
    pub(super) fn take(&mut self, piece: Option<&Piece>) {
        let Some(number) = self.next else { return };
        self.next = Some(number + 1);
        self.add(piece);
        self.end_with_last();
    }

    fn end_with_last(&mut self) {
        if self.next.is_some_and(|number| number >= self.last.number()) {
            let last = self.last;
            self.add(Some(last));
            self.next = None;
        }
    }

    fn add(&mut self, piece: Option<&Piece>) {
        let end = self.start + self.text.len() as u64;
        let Some(piece) = piece.filter(|piece| piece.end() > end) else { return };
        if !self.text.is_empty() && piece.start > end {
            if self.asked.is_some() {
                // What is missing is named by who reads on from behind what was found.
                (self.next, self.is_torn) = (None, true);
                return;
            }
            // The end is wanted, in one piece.
            self.text.clear();
        }
        if self.text.is_empty() {
            self.start = self.start.max(piece.start);
        }
        let known = self.start + self.text.len() as u64 - piece.start;
        let new = usize::try_from(known).ok().and_then(|known| piece.text.get(known..));
        self.text.extend_from_slice(new.unwrap_or_default());
        if self.text.len() >= self.most {
            self.text.truncate(self.most);
            self.next = None;
        }
    }

    /// What was found, cut between characters.
    pub(super) fn chunk(mut self) -> Chunk {
        // Whoever was at the host before may have read more than is copied yet, and does not go back.
        let beyond = self.asked.filter(|_| !self.last.is_end).unwrap_or(0);
        let (total, closed) = (self.last.end().max(beyond), self.last.is_end);
        if self.text.is_empty() {
            self.start = total;
        }
        let start = self.start;
        let next = start + self.text.len() as u64;
        let gap = self.asked.and_then(|asked| Gap::between(asked, start));
        let mut chunk = Chunk { bytes: self.text, start, next, total, gap, closed, done: false };
        let is_inside = gap.is_some() || (self.asked.is_none() && start > 0);
        let goes_on = if next < total { !self.is_torn } else { !closed };
        chunk.cut_at_chars(is_inside, goes_on);
        chunk.done = closed && chunk.next == total;
        chunk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream of which the byte at `n` is the low byte of `n / 7`, all of it below 128.
    fn text(start: u64, length: u64) -> Vec<u8> {
        (start..start + length).map(|at| (at / 7 % 128) as u8).collect()
    }

    fn piece(start: u64, length: u64) -> Piece {
        Piece { start, is_end: false, text: text(start, length) }
    }

    /// What is read, where these full pieces are kept.
    fn read(kept: &[Piece], last: &Piece, after: u64, most: usize) -> Chunk {
        put_together(kept, Reading::new(Begin::After(after), most, last))
    }

    fn put_together(kept: &[Piece], mut reading: Reading<'_>) -> Chunk {
        while let Some(number) = reading.wants() {
            reading.take(kept.iter().find(|piece| piece.number() == number));
        }
        reading.chunk()
    }

    #[test]
    fn a_piece_is_read_as_it_was_kept_and_what_is_none_is_none() {
        let piece = Piece { start: 70_000, is_end: true, text: b"a\0\xff".to_vec() };
        assert_eq!(Piece::read(&piece.bytes()), Some(piece));
        assert_eq!(Piece::read(b"short"), None);
        assert_eq!(Piece::read(&[0xff; 10]), None, "no stream is as long as that");
        assert!(!Piece { start: PIECE, is_end: false, text: Vec::new() }.is_full());
    }

    #[test]
    fn what_was_copied_is_read_whole_from_anywhere() {
        let kept = [piece(0, PIECE), piece(PIECE, PIECE)];
        let last = piece(2 * PIECE, 100);
        for after in [0, 1, PIECE - 1, PIECE, 2 * PIECE, 2 * PIECE + 99] {
            let chunk = read(&kept, &last, after, usize::MAX);
            assert_eq!((chunk.start, chunk.next, chunk.gap), (after, last.end(), None));
            assert_eq!(chunk.bytes, text(after, last.end() - after), "{after}");
        }
        let some = read(&kept, &last, 10, 70_000);
        assert_eq!((some.start, some.next, some.done), (10, 70_010, false));
        let end = put_together(&kept, Reading::new(Begin::BeforeEnd, 70_000, &last));
        assert_eq!((end.start, end.next, end.gap), (last.end() - 70_000, last.end(), None));
        // What is not copied yet was read at the host: nobody goes back.
        let beyond = read(&kept, &last, last.end() + 5, 10);
        assert_eq!((beyond.start, beyond.next, beyond.bytes.len()), (last.end() + 5, last.end() + 5, 0));
        assert_eq!((beyond.gap, beyond.done), (None, false));
        let ended = Piece { is_end: true, ..last.clone() };
        let beyond = read(&kept, &ended, 1 << 40, 10);
        assert_eq!((beyond.start, beyond.total, beyond.done), (last.end(), last.end(), true));
    }

    #[test]
    fn what_is_not_kept_any_more_is_a_gap_that_is_named_once() {
        let last = piece(3 * PIECE, 10);
        let kept = [piece(PIECE, PIECE)];
        let chunk = read(&kept, &last, 5, usize::MAX);
        assert_eq!(
            (chunk.start, chunk.next),
            (PIECE, 2 * PIECE),
            "what follows a gap is not joined to what is before it"
        );
        assert_eq!(chunk.gap.map(|gap| (gap.from, gap.to)), Some((5, PIECE)));
        let chunk = read(&kept, &last, chunk.next, usize::MAX);
        assert_eq!(chunk.gap.map(|gap| (gap.from, gap.to)), Some((2 * PIECE, 3 * PIECE)));
        assert_eq!((chunk.start, chunk.next), (3 * PIECE, last.end()));
        let end = put_together(&kept, Reading::new(Begin::BeforeEnd, 1 << 20, &last));
        assert_eq!(
            (end.start, end.next, end.gap),
            (3 * PIECE, last.end(), None),
            "the end is what is wanted"
        );
    }

    #[test]
    fn a_character_whose_rest_is_not_kept_is_read_as_what_there_is_of_it() {
        let mut first = piece(0, PIECE - 1);
        first.text.push("é".as_bytes()[0]);
        let last = piece(2 * PIECE, 10);
        let chunk = read(&[first], &last, PIECE - 2, 100);
        assert_eq!((chunk.next, chunk.bytes.len()), (PIECE, 2));
    }

    #[test]
    fn what_is_older_than_there_are_places_is_not_even_looked_for() {
        let last = piece(1000 * PIECE, 10);
        assert_eq!(Reading::new(Begin::After(0), 10, &last).wants(), Some(1000 - PLACES));
        assert_eq!(Reading::new(Begin::After(0), 10, &piece(10, 5)).wants(), None);
    }

    #[test]
    fn no_character_is_cut_but_at_the_end_of_what_was_written() {
        let mut last = Piece { start: 0, is_end: false, text: "é".as_bytes()[..1].to_vec() };
        let chunk = read(&[], &last, 0, 10);
        assert_eq!((chunk.next, chunk.total), (0, 1), "its other half may come");
        last.is_end = true;
        let chunk = read(&[], &last, 0, 10);
        assert_eq!((chunk.next, chunk.done), (1, true));
    }
}
