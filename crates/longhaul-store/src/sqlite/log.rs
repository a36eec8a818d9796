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
    // SQLite throws a log away that is beside an empty file.
    if fs::metadata(path).map_err(failed)?.len() == 0 {
        return Ok(());
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
            // Nothing but its salts has changed.
            None if computed == stored => return Ok(Some(number)),
            None => broken = Some((number, computed)),
            Some((at, _)) if computed == stored && belongs && before.belongs && before.commits => {
                return Ok(Some(at));
            }
            // Nothing but the checksum of the one before has changed.
            Some((at, sum)) if at + 1 == number && belongs && content(sum) == stored => return Ok(Some(at)),
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
