//! A small fixed-size file that is overwritten in place: JSON, padding, and a checksum that tells a torn write.
//!
//! The size is written out when the file is made, so a later overwrite needs no space on the disk.

use std::{
    fs::File,
    io::{self, ErrorKind},
    os::unix::fs::FileExt as _,
};

use serde::{Serialize, de::DeserializeOwned};

/// What a record file holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Content<T> {
    /// Its space is reserved, and nothing was written yet.
    Empty,
    /// A whole record.
    Whole(T),
    /// Bytes that are no whole record: a torn write, or another hand.
    Damaged,
}

/// The bytes that reserve a record of `size` bytes.
pub(super) fn reserved(size: usize) -> Vec<u8> {
    let mut bytes = vec![b' '; size];
    if let Some(last) = bytes.last_mut() {
        *last = b'\n';
    }
    bytes
}

/// Overwrites the record in `file` with `value`. Does not flush.
///
/// # Errors
///
/// When `value` does not fit into `size` bytes, or the file cannot be written.
pub(super) fn write<T: Serialize>(file: &File, size: usize, value: &T) -> io::Result<()> {
    file.write_all_at(&encode(size, value)?, 0)
}

/// Reads the record in `file`, again when a writer was in the middle of it.
///
/// # Errors
///
/// When the file cannot be read.
pub(super) fn read<T: DeserializeOwned>(file: &File, size: usize) -> io::Result<Content<T>> {
    let mut content = Content::Damaged;
    for _attempt in 0..READ_ATTEMPTS {
        let mut bytes = vec![0; size];
        content = match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => decode(&bytes),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Content::Damaged,
            Err(error) => return Err(error),
        };
        if !matches!(content, Content::Damaged) {
            break;
        }
        std::thread::yield_now();
    }
    Ok(content)
}

fn encode<T: Serialize>(size: usize, value: &T) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(value)?;
    let room = size.saturating_sub(TRAILER);
    if bytes.len() > room {
        let problem = format!("a record of {} bytes does not fit into its {room}", bytes.len());
        return Err(io::Error::new(ErrorKind::InvalidInput, problem));
    }
    bytes.resize(room, b' ');
    let sum = checksum(&bytes);
    bytes.extend_from_slice(format!("{sum:016x}\n").as_bytes());
    Ok(bytes)
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Content<T> {
    let Some(room) = bytes.len().checked_sub(TRAILER) else { return Content::Damaged };
    let (body, trailer) = bytes.split_at(room);
    if trailer != format!("{:016x}\n", checksum(body)).as_bytes() {
        let blank = bytes.iter().all(|byte| matches!(byte, b' ' | b'\n'));
        return if blank { Content::Empty } else { Content::Damaged };
    }
    serde_json::from_slice(body).map_or(Content::Damaged, Content::Whole)
}

/// FNV-1a: enough to tell a torn write; nobody is being kept out.
fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Sixteen hexadecimal digits and a newline.
const TRAILER: usize = 17;

/// A writer is in the middle of a record for microseconds; a torn one stays torn.
const READ_ATTEMPTS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 128;

    fn file_with(bytes: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file
    }

    #[test]
    fn reserved_space_reads_as_empty() {
        assert_eq!(read::<u32>(&file_with(&reserved(SIZE)), SIZE).unwrap(), Content::Empty);
    }

    #[test]
    fn a_shorter_record_replaces_a_longer_one() {
        let file = file_with(&reserved(SIZE));
        write(&file, SIZE, &"a much longer text").unwrap();
        write(&file, SIZE, &"short").unwrap();
        assert_eq!(read::<String>(&file, SIZE).unwrap(), Content::Whole("short".to_owned()));
        assert_eq!(file.metadata().unwrap().len(), SIZE as u64);
    }

    #[test]
    fn every_torn_write_is_told() {
        let (old, new) =
            (encode(SIZE, &"aaaaaaaaaaaaaaaaaaaa").unwrap(), encode(SIZE, &"bbbbbbbbbbbbbbbbbbbb").unwrap());
        for cut in 2..SIZE - 1 {
            let torn = [&new[..cut], &old[cut..]].concat();
            if torn != old && torn != new {
                assert_eq!(decode::<String>(&torn), Content::Damaged, "cut at {cut}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_the_old_record_stays() {
        let file = file_with(&reserved(SIZE));
        write(&file, SIZE, &1).unwrap();
        write(&file, SIZE, &"x".repeat(SIZE)).unwrap_err();
        assert_eq!(read::<u32>(&file, SIZE).unwrap(), Content::Whole(1));
    }
}
