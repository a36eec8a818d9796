//! How much of the write-ahead log is known to have reached the disk.
//!
//! Behind the last commit of a log nothing follows that would show that it was whole once. So whoever writes notes in the
//! writers' lock file, once a commit was flushed and before it is acknowledged, how many frames there are by then. The note
//! itself is not flushed, for that would cost as much as the commit: whatever is found of it is true, and without it nothing
//! is known. `log.rs` holds the log to it.

use std::{
    fs::File,
    io::{self, ErrorKind},
};

use super::log::Sum;

/// So many frames of this round of the log have reached the disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Flushed {
    /// The round's salts, which each of its frames bears.
    pub(super) salts: [u8; 8],
    /// How many frames.
    pub(super) frames: u64,
}

impl Flushed {
    /// What the file says; nothing if it does not say it in full.
    pub(super) fn read(file: &File) -> io::Result<Option<Self>> {
        let mut bytes = [0; LENGTH];
        match read_at(file, &mut bytes, 0) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let (mut salts, mut frames) = ([0; 8], [0; 8]);
        salts.copy_from_slice(&bytes[..8]);
        frames.copy_from_slice(&bytes[8..16]);
        let note = Self { salts, frames: u64::from_be_bytes(frames) };
        Ok((note.bytes() == bytes).then_some(note))
    }

    /// Says it in the file, in place of what that said before.
    pub(super) fn write(self, file: &File) -> io::Result<()> {
        write_first(file, &self.bytes())
    }

    fn bytes(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&self.salts);
        bytes[8..16].copy_from_slice(&self.frames.to_be_bytes());
        let sum = Sum::default().over(u32::from_be_bytes, &bytes[..16]);
        bytes[16..].copy_from_slice(&sum.bytes());
        bytes
    }
}

/// Reads bytes of a file from there on, wherever it stands.
#[cfg(unix)]
pub(super) fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
}

#[cfg(windows)]
pub(super) fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    let mut read = 0;
    while read < bytes.len() {
        match std::os::windows::fs::FileExt::seek_read(file, &mut bytes[read..], at + read as u64)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            more => read += more,
        }
    }
    Ok(())
}

#[cfg(unix)]
fn write_first(file: &File, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, 0)
}

#[cfg(not(unix))]
fn write_first(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    io::Seek::rewind(&mut file)?;
    io::Write::write_all(&mut file, bytes)
}

/// The salts, the number, and a checksum of both.
const LENGTH: usize = 24;

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, SeekFrom, Write as _};

    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written_or_not_at_all() {
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(Flushed::read(&file).unwrap(), None);
        for frames in [1, u64::MAX] {
            let note = Flushed { salts: *b"saltsalt", frames };
            note.write(&file).unwrap();
            assert_eq!(Flushed::read(&file).unwrap(), Some(note));
        }
        for at in 0..LENGTH {
            Flushed { salts: [7; 8], frames: 9 }.write(&file).unwrap();
            file.seek(SeekFrom::Start(at as u64)).unwrap();
            file.write_all(&[0xa5]).unwrap();
            assert_eq!(Flushed::read(&file).unwrap(), None, "{at}");
        }
        file.set_len(LENGTH as u64 - 1).unwrap();
        assert_eq!(Flushed::read(&file).unwrap(), None);
    }
}
