//! The write-ahead log that an earlier process has left, looked at before SQLite takes what it can of it.
//!
//! SQLite takes the frames before the first that does not fit its checksum: a commit that lost its power ends so. A bit
//! that has changed on the disk looks the same, and every commit behind it would be dropped without a word. The two can
//! be told apart, for each commit is flushed before the next is written: where a frame is followed by the end of a commit
//! and that by another frame, it was whole once; and of the last commit a note says so ([`Flushed`]). Where that has not
//! outlived a loss of power, damage to the last commit cannot be told from it.

use std::{
    fs::{self, File},
    io::{self, BufReader, ErrorKind, Read},
    ops::Range,
    path::Path,
};

use super::{
    fault::{corrupt, io_error},
    flushed::{Flushed, read_at},
    writer_lock::beside,
};
use crate::StoreError;

/// Refuses a log in which something was damaged that had reached the disk: what a later commit shows to have done so, or what
/// is `flushed`. Nobody may write meanwhile.
///
/// # Errors
///
/// [`StoreError::Corrupt`], and what reading the file fails with.
pub(super) fn check(path: &Path, flushed: Option<Flushed>) -> Result<(), StoreError> {
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
    let damage = damaged(BufReader::with_capacity(64 << 10, file), flushed).map_err(failed)?;
    let Some(damage) = damage else { return Ok(()) };
    let what = match damage {
        Damage::Header => format!("the header of {} is not what was written", log.display()),
        Damage::Followed(frame) => {
            let at = format!("frame {frame} of {}", log.display());
            format!("{at} is not what was written, and commits follow that were acknowledged")
        }
        Damage::Flushed { from, to } => {
            let (log, note) = (log.display(), beside(path, ".writer"));
            format!(
                "{log} has lost what was acknowledged, from frame {from} to frame {to}: stop every server on this store; \
                 then put back what was there, or remove {} to go on without anything written since frame {from}",
                note.display()
            )
        }
    };
    Err(corrupt(what))
}

/// What is not as it was once flushed. Frames are counted from 1 on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Damage {
    Header,
    /// A frame, behind which there is a later commit.
    Followed(u64),
    /// Of these frames, the last included, it was noted that they were flushed: the first is not what was written, and so
    /// nothing behind it counts.
    Flushed {
        from: u64,
        to: u64,
    },
}

/// What is said of a log whose file is empty.
fn cut(path: &Path, log: &Path) -> String {
    let (path, log) = (path.display(), log.display());
    format!("{path} is empty and its log {log} is not: put the file back, or remove both for a new store")
}

/// What is not what was once flushed.
fn damaged(mut log: impl Read, flushed: Option<Flushed>) -> io::Result<Option<Damage>> {
    let mut header = [0; HEADER];
    // It is written in one piece and flushed before any frame: it is there, or not at all.
    if !fill(&mut log, &mut header)? || header == [0; HEADER] {
        return Ok(None);
    }
    let order = match word(&header, 0) {
        LITTLE => u32::from_le_bytes,
        BIG => u32::from_be_bytes,
        _ => return Ok(Some(Damage::Header)),
    };
    if Sum::default().over(order, &header[..24]) != Sum::read(&header[24..]) {
        return Ok(Some(Damage::Header));
    }
    let page = word(&header, PAGE_SIZE) as usize;
    if !(512..=65_536).contains(&page) {
        return Ok(Some(Damage::Header));
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
        let belongs = frame[8..16] == header[SALTS];
        match broken {
            None if computed == stored && belongs => {}
            None => broken = Some((number, computed)),
            Some((at, _)) if computed == stored && belongs && before.belongs && before.commits => {
                return Ok(Some(Damage::Followed(at)));
            }
            // Nothing but the checksum or the salts of the one before has changed, with which a commit ended. Within the last
            // commit a header may be of an earlier round whose page has not changed: its sector has not reached the disk.
            Some((at, sum)) if at + 1 == number && belongs && before.commits && content(sum) == stored => {
                return Ok(Some(Damage::Followed(at)));
            }
            Some(_) => {}
        }
        before = Frame { stored, belongs, commits: word(&frame, 4) != 0 };
    }
    // Of another round nothing is known, be it an earlier one or that of another file.
    let flushed =
        flushed.filter(|flushed| flushed.salts == header[SALTS]).map_or(0, |flushed| flushed.frames);
    let whole = broken.map_or(number, |(at, _)| at - 1);
    Ok((whole < flushed).then_some(Damage::Flushed { from: whole + 1, to: flushed }))
}

/// The salts of the round of this log, which its header bears.
pub(super) fn salts(log: &File) -> io::Result<[u8; 8]> {
    let (mut header, mut salts) = ([0; HEADER], [0; 8]);
    read_at(log, &mut header, 0)?;
    salts.copy_from_slice(&header[SALTS]);
    Ok(salts)
}

/// Whether nothing follows on this end of the log: it is in the same round still, and what lies behind the end, if anything
/// does, is of an earlier one. Who commits writes to the log first.
pub(super) fn ends_at(log: &File, page: u32, end: Flushed) -> io::Result<bool> {
    let frame = FRAME_HEADER as u64 + u64::from(page);
    let mut behind = [0; FRAME_HEADER];
    match read_at(log, &mut behind, HEADER as u64 + end.frames * frame) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
        read => {
            read?;
            if behind[8..16] == end.salts {
                return Ok(false);
            }
        }
    }
    // Looked at last: no round comes again, so what lay there lay there in this one.
    Ok(salts(log)? == end.salts)
}

/// How large a page is, which a log says in its header and which stays so.
pub(super) fn page(log: &File) -> io::Result<u32> {
    let mut header = [0; HEADER];
    read_at(log, &mut header, 0)?;
    Ok(word(&header, PAGE_SIZE))
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
pub(super) struct Sum(u32, u32);

impl Sum {
    fn read(bytes: &[u8]) -> Self {
        Self(word(bytes, 0), word(bytes, 4))
    }

    pub(super) fn bytes(self) -> [u8; 8] {
        (u64::from(self.0) << 32 | u64::from(self.1)).to_be_bytes()
    }

    /// This one, gone on with over these bytes: a multiple of eight.
    pub(super) fn over(self, order: fn([u8; 4]) -> u32, bytes: &[u8]) -> Self {
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

/// Where in it is said how large a page is.
const PAGE_SIZE: usize = 8;

/// Where in it the salts are.
const SALTS: Range<usize> = 16..24;

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
        bytes.extend(sum.bytes());
        for (number, ends) in ends.iter().enumerate() {
            let begin = [number as u32 + 1, u32::from(*ends) * 9].map(u32::to_be_bytes).concat();
            let page = [number as u8; PAGE];
            sum = sum.over(u32::from_le_bytes, &begin).over(u32::from_le_bytes, &page);
            bytes.extend(begin.into_iter().chain(salts).chain(sum.bytes()));
            bytes.extend(page);
        }
        bytes
    }

    /// What is damaged once these bytes of a frame are as an earlier round has left them, and so many frames were flushed.
    fn found(ends: &[bool], frame: usize, stale: Range<usize>, flushed: Option<u64>) -> Option<Damage> {
        let (old, mut new) = (log(1, ends), log(2, ends));
        let flushed = flushed.map(|frames| Flushed { salts: [2; 8], frames });
        assert_eq!(damaged(&new[..], flushed).unwrap(), None);
        let begin = HEADER + (frame - 1) * FRAME;
        let stale = begin + stale.start..begin + stale.end;
        new[stale.clone()].copy_from_slice(&old[stale]);
        damaged(&new[..], flushed).unwrap()
    }

    #[test]
    fn what_has_not_reached_the_disk_of_the_last_commit_is_no_damage() {
        let (salts, checksum, header) = (8..16, 16..24, 0..FRAME_HEADER);
        for stale in [salts, checksum, header] {
            for frame in [2, 3, 4] {
                let (last, number) = ([true, false, false, true], frame as u64);
                for flushed in [None, Some(1)] {
                    assert_eq!(found(&last, frame, stale.clone(), flushed), None, "{stale:?} of {frame}");
                }
                let damage = Some(Damage::Flushed { from: number, to: 4 });
                assert_eq!(found(&last, frame, stale.clone(), Some(4)), damage, "{stale:?} of {frame}");
                let earlier = [true, false, false, true, true];
                let damage = Some(Damage::Followed(number));
                assert_eq!(found(&earlier, frame, stale.clone(), None), damage, "{stale:?} of {frame}");
            }
        }
    }

    #[test]
    fn what_follows_on_an_end_shows() {
        let mut file = tempfile::tempfile().unwrap();
        let mut ends_at = |bytes: &[u8], round: u8, frames: u64| {
            file.set_len(0).unwrap();
            io::Seek::rewind(&mut file).unwrap();
            io::Write::write_all(&mut file, bytes).unwrap();
            ends_at(&file, PAGE as u32, Flushed { salts: [round; 8], frames }).ok()
        };
        let (old, new) = (log(1, &[true; 3]), log(2, &[true]));
        assert_eq!(
            (ends_at(&old, 1, 3), ends_at(&old, 1, 2), ends_at(&old, 2, 3)),
            (Some(true), Some(false), Some(false))
        );
        // Another round is written over the one before.
        let over = [&new[..], &old[new.len()..]].concat();
        assert_eq!(
            (ends_at(&over, 2, 1), ends_at(&over, 2, 0), ends_at(&over, 1, 3)),
            (Some(true), Some(false), Some(false))
        );
        // A frame begins with its header.
        assert_eq!(ends_at(&old[..HEADER + 2 * FRAME + FRAME_HEADER], 1, 2), Some(false));
        assert_eq!(
            (ends_at(&[], 1, 0), ends_at(&old[..HEADER - 1], 1, 0)),
            (None, None),
            "no log yet, or no longer"
        );
    }

    #[test]
    fn a_log_that_ends_before_what_was_flushed_was_cut() {
        let log = log(2, &[true, false, true]);
        let cut = |frames: usize, salt: u8, flushed: u64| {
            let flushed = Some(Flushed { salts: [salt; 8], frames: flushed });
            damaged(&log[..HEADER + frames * FRAME], flushed).unwrap()
        };
        assert_eq!((cut(3, 2, 3), cut(1, 2, 1), cut(1, 1, 3)), (None, None, None));
        let lost = |from, to| Some(Damage::Flushed { from, to });
        assert_eq!((cut(1, 2, 3), cut(0, 2, 1)), (lost(2, 3), lost(1, 1)));
    }
}
