//! The write-ahead log that an earlier process has left, looked at before SQLite takes what it can of it.
//!
//! SQLite takes the frames before the first that does not fit its checksum: a commit that lost its power ends so. A bit
//! that has changed on the disk looks the same, and every commit behind it would be dropped without a word. The two can
//! be told apart, for each commit is flushed before the next is written: where a frame is followed by the end of a commit
//! and that by another frame, it was whole once. What cannot be told from a loss of power is damage to the last commit.

use std::{
    fs::{self, File},
    io::{self, BufReader, ErrorKind, Read},
    path::Path,
};

use super::{
    fault::{corrupt, io_error},
    writer_lock::beside,
};
use crate::StoreError;

/// Refuses a log in which something was damaged that had reached the disk. Nobody may write meanwhile.
///
/// # Errors
///
/// [`StoreError::Corrupt`], and what reading the file fails with.
pub(super) fn check(path: &Path) -> Result<(), StoreError> {
    let log = beside(path, "-wal");
    let failed = |error| io_error(&log, "reading the log", error);
    // SQLite throws a log away that is beside an empty file. It writes the first page before any log, so the file was cut,
    // or was moved and has left its log behind.
    if fs::metadata(path).map_err(failed)?.len() == 0 {
        let left = fs::metadata(&log).map_or(0, |log| log.len());
        return if left <= HEADER as u64 { Ok(()) } else { Err(corrupt(cut(path, &log))) };
    }
    let file = match File::open(&log) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        file => file.map_err(failed)?,
    };
    match damaged(BufReader::with_capacity(64 << 10, file)).map_err(failed)? {
        None => Ok(()),
        Some(0) => Err(corrupt(format!("the header of {} is not what was written", log.display()))),
        Some(frame) => {
            let at = format!("frame {frame} of {}", log.display());
            Err(corrupt(format!("{at} is not what was written, and commits follow that were acknowledged")))
        }
    }
}

/// What is said of a log whose file is empty.
fn cut(path: &Path, log: &Path) -> String {
    let (path, log) = (path.display(), log.display());
    format!("{path} is empty and its log {log} is not: put the file back, or remove both for a new store")
}

/// Which frame is not what was once flushed, counted from 1 on; 0 is the header.
fn damaged(mut log: impl Read) -> io::Result<Option<u64>> {
    let mut header = [0; HEADER];
    // It is written in one piece and flushed before any frame: it is there, or not at all.
    if !fill(&mut log, &mut header)? || header == [0; HEADER] {
        return Ok(None);
    }
    let order = match word(&header, 0) {
        LITTLE => u32::from_le_bytes,
        BIG => u32::from_be_bytes,
        _ => return Ok(Some(0)),
    };
    if Sum::default().over(order, &header[..24]) != Sum::read(&header[24..]) {
        return Ok(Some(0));
    }
    let page = word(&header, 8) as usize;
    if !(512..=65_536).contains(&page) {
        return Ok(Some(0));
    }
    let mut frame = vec![0; FRAME_HEADER + page];
    let mut before = Frame { stored: Sum::read(&header[24..]), belongs: true, commits: false };
    let mut broken: Option<(u64, Sum)> = None;
    let mut number = 0;
    while fill(&mut log, &mut frame)? {
        number += 1;
        let content = |seed: Sum| seed.over(order, &frame[..8]).over(order, &frame[FRAME_HEADER..]);
        let (computed, stored) = (content(before.stored), Sum::read(&frame[16..24]));
        // Frames of an earlier round of the log, which lie behind those of this one, bear other salts.
        let belongs = frame[8..16] == header[16..24];
        match broken {
            None if computed == stored && belongs => {}
            None => broken = Some((number, computed)),
            Some((at, _)) if computed == stored && belongs && before.belongs && before.commits => {
                return Ok(Some(at));
            }
            // Nothing but the checksum or the salts of the one before has changed, with which a commit ended. Within the last
            // commit a header may be of an earlier round whose page has not changed: its sector has not reached the disk.
            Some((at, sum)) if at + 1 == number && belongs && before.commits && content(sum) == stored => {
                return Ok(Some(at));
            }
            Some(_) => {}
        }
        before = Frame { stored, belongs, commits: word(&frame, 4) != 0 };
    }
    Ok(None)
}

/// What the next frame is held against.
struct Frame {
    /// The checksum that it bears: of itself and all before it.
    stored: Sum,
    belongs: bool,
    /// Whether a commit ends with it.
    commits: bool,
}

/// SQLite's checksum of its log.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Sum(u32, u32);

impl Sum {
    fn read(bytes: &[u8]) -> Self {
        Self(word(bytes, 0), word(bytes, 4))
    }

    /// This one, gone on with over these bytes: a multiple of eight.
    fn over(self, order: fn([u8; 4]) -> u32, bytes: &[u8]) -> Self {
        let Self(mut first, mut second) = self;
        for pair in bytes.chunks_exact(8) {
            let half = |at: usize| order([pair[at], pair[at + 1], pair[at + 2], pair[at + 3]]);
            first = first.wrapping_add(half(0)).wrapping_add(second);
            second = second.wrapping_add(half(4)).wrapping_add(first);
        }
        Self(first, second)
    }
}

/// A number of the log's own, which are big-endian whatever its checksums are.
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Reads as much as there is room for; whether there was so much.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Bytes of the log's header.
const HEADER: usize = 32;

/// Bytes of the header of a frame, behind which is a page.
const FRAME_HEADER: usize = 24;

/// How a log begins whose checksums are of little-endian numbers, and one of big-endian ones.
const LITTLE: u32 = 0x377f_0682;
const BIG: u32 = 0x377f_0683;

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 512;
    const FRAME: usize = FRAME_HEADER + PAGE;

    /// A log of one round, whose frames end a commit where it says so. Its pages are the same in every round.
    fn log(round: u8, ends: &[bool]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [LITTLE, 3_007_000, PAGE as u32, 0] {
            bytes.extend(word.to_be_bytes());
        }
        let salts = [round; 8];
        bytes.extend(salts);
        let mut sum = Sum::default().over(u32::from_le_bytes, &bytes);
        let write = |bytes: &mut Vec<u8>, Sum(first, second)| {
            bytes.extend(first.to_be_bytes());
            bytes.extend(second.to_be_bytes());
        };
        write(&mut bytes, sum);
        for (number, ends) in ends.iter().enumerate() {
            let begin = [number as u32 + 1, u32::from(*ends) * 9].map(u32::to_be_bytes).concat();
            let page = [number as u8; PAGE];
            sum = sum.over(u32::from_le_bytes, &begin).over(u32::from_le_bytes, &page);
            bytes.extend(begin.into_iter().chain(salts));
            write(&mut bytes, sum);
            bytes.extend(page);
        }
        bytes
    }

    /// Which frame is damaged once these bytes of a frame are as an earlier round has left them.
    fn found(ends: &[bool], frame: usize, stale: std::ops::Range<usize>) -> Option<u64> {
        let (old, mut new) = (log(1, ends), log(2, ends));
        assert_eq!(damaged(&new[..]).unwrap(), None);
        let begin = HEADER + (frame - 1) * FRAME;
        let stale = begin + stale.start..begin + stale.end;
        new[stale.clone()].copy_from_slice(&old[stale]);
        damaged(&new[..]).unwrap()
    }

    #[test]
    fn what_has_not_reached_the_disk_of_the_last_commit_is_no_damage() {
        let (salts, checksum, header) = (8..16, 16..24, 0..FRAME_HEADER);
        for stale in [salts, checksum, header] {
            for frame in [2, 3, 4] {
                let last = [true, false, false, true];
                assert_eq!(found(&last, frame, stale.clone()), None, "{stale:?} of frame {frame}");
                let earlier = [true, false, false, true, true];
                assert_eq!(found(&earlier, frame, stale.clone()), Some(frame as u64), "{stale:?} of {frame}");
            }
        }
    }
}
