//! Writes one output stream into its bounded file, while readers read it.
//!
//! Before bytes are overwritten the record says so, and after they are stored it says that, so a reader that looks
//! at the record before and after its read knows which bytes it can trust. When the disk fills, the file stops
//! growing and becomes a smaller head and ring over the space it has.

use std::{fs::File, io, os::unix::fs::FileExt as _};

use super::{
    crash::crash_point,
    exit::{StreamSummary, clip},
    layout::{FileError, POSITION_SIZE, RunDir, Stream},
    position::Position,
    record,
};

/// The writing end of one stream's file.
#[derive(Debug)]
pub(super) struct StreamFile {
    data: File,
    record: File,
    position: Position,
    /// The file takes nothing any more, not even in place of what it has.
    broken: bool,
}

impl StreamFile {
    pub(super) fn open(run: &RunDir, stream: Stream, max_output: u64) -> Result<Self, FileError> {
        let (data, record) = (run.write(stream.name())?, run.write(stream.position_name())?);
        let file = Self::new(data, record, max_output);
        file.publish().map_err(FileError::at("write", &run.file_path(stream.position_name())))?;
        Ok(file)
    }

    fn new(data: File, record: File, max_output: u64) -> Self {
        Self { data, record, position: Position::new(max_output), broken: max_output == 0 }
    }

    /// Takes the next bytes of the stream. Never fails: what cannot be kept is counted.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        let length = bytes.len() as u64;
        let next_total = self.position.total + length;
        if !self.broken {
            crash_point("supervisor.data.before");
            let result = self.store(bytes, &|data, bytes, at| data.write_at(bytes, at));
            if let Err(error) = result {
                self.broken = true;
                self.position.fault = Some(clip(&error.to_string(), 200));
            }
            crash_point("supervisor.data.after");
        }
        self.position.total = next_total;
        crash_point("supervisor.position.before");
        self.publish_or_note();
        crash_point("supervisor.position.after");
    }

    /// Says that no more will come, and flushes everything to the disk.
    pub(super) fn close(&mut self) {
        self.position.closed = true;
        self.publish_or_note();
        for file in [&self.data, &self.record] {
            if let Err(error) = file.sync_all() {
                self.position.fault.get_or_insert_with(|| clip(&error.to_string(), 200));
            }
        }
    }

    pub(super) const fn total(&self) -> u64 {
        self.position.total
    }

    pub(super) fn summary(&self) -> StreamSummary {
        self.position.summary()
    }

    /// Stores `bytes` at the end of what is stored. An error is final.
    fn store(&mut self, mut bytes: &[u8], write_at: &WriteAt<'_>) -> io::Result<()> {
        while !bytes.is_empty() {
            let growing = self.position.end < self.position.capacity();
            if !growing {
                bytes = self.announce_overwrite(bytes)?;
            }
            let at = self.position.physical(self.position.end);
            let room = usize::try_from(self.position.contiguous(self.position.end)).unwrap_or(usize::MAX);
            match write_at(&self.data, &bytes[..bytes.len().min(room)], at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    self.position.end += written as u64;
                    self.position.reserved = self.position.reserved.max(self.position.end);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if growing && self.position.end > 0 && is_full(&error) => {
                    self.stop_growing(&error)
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells readers what is about to be overwritten, and skips what would be overwritten by the same call.
    fn announce_overwrite<'a>(&mut self, bytes: &'a [u8]) -> io::Result<&'a [u8]> {
        let skipped = (bytes.len() as u64).saturating_sub(self.position.tail);
        let position = &mut self.position;
        let reserved = position.end + bytes.len() as u64;
        if reserved > position.reserved {
            position.reserved = reserved;
            position.total = position.total.max(position.end);
            crash_point("supervisor.overwrite.before");
            self.publish()?;
            crash_point("supervisor.overwrite.after");
        }
        self.position.end += skipped;
        Ok(&bytes[usize::try_from(skipped).unwrap_or(bytes.len())..])
    }

    /// Makes a head and a ring of the space that the file has. Every stored byte stays where it is.
    fn stop_growing(&mut self, error: &io::Error) {
        let limits = Position::new(self.position.end);
        self.position.head = limits.head;
        self.position.tail = limits.tail;
        self.position.fault = Some(clip(&error.to_string(), 200));
    }

    fn publish(&self) -> io::Result<()> {
        record::write(&self.record, POSITION_SIZE, &self.position)
    }

    fn publish_or_note(&mut self) {
        if let Err(error) = self.publish() {
            self.position.fault.get_or_insert_with(|| clip(&error.to_string(), 200));
        }
    }
}

/// `pwrite`, or what a test puts in its place.
type WriteAt<'a> = dyn Fn(&File, &[u8], u64) -> io::Result<usize> + 'a;

/// The file cannot grow: the disk, the quota, or the process's limit on file sizes.
fn is_full(error: &io::Error) -> bool {
    super::layout::is_disk_full(error) || error.kind() == io::ErrorKind::FileTooLarge
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::command::output::{Cut, Output};

    fn stream(max_output: u64) -> (StreamFile, Output) {
        let (data, record) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        record.write_all_at(&record::reserved(POSITION_SIZE), 0).unwrap();
        let output = Output::of_files(data.try_clone().unwrap(), record.try_clone().unwrap());
        let file = StreamFile::new(data, record, max_output);
        file.publish().unwrap();
        (file, output)
    }

    struct Read {
        /// Offset and bytes.
        pieces: Vec<(u64, Vec<u8>)>,
        gaps: Vec<(u64, u64)>,
        total: u64,
    }

    /// What is to be kept of `length` bytes when there is room for `limit`.
    fn first_and_last(length: usize, limit: usize) -> [std::ops::Range<usize>; 2] {
        let head = limit / 2;
        if length <= limit { [0..length, length..length] } else { [0..head, length - (limit - head)..length] }
    }

    /// Reads everything that is kept.
    fn read_all(output: &Output, max: usize) -> Read {
        let (mut pieces, mut gaps, mut cursor) = (Vec::new(), Vec::new(), 0);
        for _step in 0..10_000 {
            let chunk = output.read(cursor, max, Cut::Anywhere).unwrap();
            gaps.extend(chunk.gap.map(|gap| (gap.from, gap.to)));
            if !chunk.bytes.is_empty() {
                pieces.push((chunk.start, chunk.bytes.clone()));
            }
            if chunk.next == cursor && chunk.bytes.is_empty() {
                return Read { pieces, gaps, total: chunk.total };
            }
            cursor = chunk.next;
        }
        panic!("the reader never came to the end");
    }

    fn expect_kept(output: &Output, all: &[u8], kept: &[std::ops::Range<usize>], max: usize) {
        let Read { pieces, gaps, total } = read_all(output, max);
        assert_eq!(total, all.len() as u64);
        let mut seen = vec![false; all.len()];
        for (start, bytes) in pieces {
            let start = usize::try_from(start).unwrap();
            assert_eq!(bytes, &all[start..start + bytes.len()], "at {start}");
            seen[start..start + bytes.len()].fill(true);
        }
        for (offset, seen) in seen.into_iter().enumerate() {
            assert_eq!(seen, kept.iter().any(|range| range.contains(&offset)), "byte {offset}");
            let in_gap = gaps.iter().any(|(from, to)| (*from..*to).contains(&(offset as u64)));
            assert_eq!(seen, !in_gap, "byte {offset} and the gaps {gaps:?}");
        }
    }

    proptest! {
        #[test]
        fn first_and_last_halves_are_kept(
            max_output in 0_u64..40,
            writes in prop::collection::vec(0_usize..30, 0..12),
            read_size in 1_usize..50,
        ) {
            let (mut file, output) = stream(max_output);
            let mut all = Vec::new();
            for length in writes {
                let bytes: Vec<u8> = (all.len()..all.len() + length).map(|n| (n % 251) as u8).collect();
                file.write(&bytes);
                all.extend(bytes);
            }
            let limit = usize::try_from(max_output).unwrap();
            expect_kept(&output, &all, &first_and_last(all.len(), limit), read_size);
            let summary = file.summary();
            prop_assert_eq!(summary.kept, all.len().min(limit) as u64);
            prop_assert_eq!(summary.is_truncated(), summary.gap.is_some());
            prop_assert_eq!(summary.gap.map_or(0, |gap| gap.bytes()), summary.total - summary.kept);
        }

        #[test]
        fn a_full_disk_leaves_a_smaller_head_and_ring(
            disk in 1_usize..60,
            writes in prop::collection::vec(0_usize..30, 0..12),
            read_size in 1_usize..50,
        ) {
            let (mut file, output) = stream(1000);
            let mut all = Vec::new();
            for length in writes {
                let bytes: Vec<u8> = (all.len()..all.len() + length).map(|n| (n % 251) as u8).collect();
                let small_disk = |data: &File, bytes: &[u8], at: u64| {
                    let room = disk.saturating_sub(usize::try_from(at).unwrap());
                    if room == 0 { Err(io::ErrorKind::StorageFull.into()) } else { data.write_at(&bytes[..bytes.len().min(room)], at) }
                };
                file.store(&bytes, &small_disk).unwrap();
                all.extend(bytes);
                file.position.total = all.len() as u64;
                file.publish().unwrap();
            }
            expect_kept(&output, &all, &first_and_last(all.len(), disk), read_size);
            prop_assert_eq!(file.summary().fault.is_some(), all.len() > disk);
        }
    }

    #[test]
    fn a_file_that_takes_nothing_more_is_a_gap_at_the_end() {
        let (mut file, output) = stream(100);
        file.write(b"kept");
        file.broken = true;
        file.write(b"lost");
        let chunk = output.read(0, 100, Cut::Anywhere).unwrap();
        assert_eq!((chunk.bytes.as_slice(), chunk.next, chunk.total), (&b"kept"[..], 4, 8));
        let chunk = output.read(4, 100, Cut::Anywhere).unwrap();
        assert_eq!((chunk.bytes.len(), chunk.next, chunk.gap.unwrap().bytes()), (0, 8, 4));
        assert_eq!(file.summary().kept, 4);
    }

    #[test]
    fn a_reader_beside_a_flood_never_sees_a_wrong_byte() {
        // Each byte is a function of its offset, so a byte from the wrong turn of the ring shows.
        let value = |offset: u64| (offset.wrapping_mul(2_654_435_761) >> 13) as u8;
        let (mut file, output) = stream(64 << 10);
        let writer = std::thread::spawn(move || {
            let mut next = 0;
            for length in (0..6000).map(|turn| 1 + (turn * 977) % 9000) {
                let bytes: Vec<u8> = (next..next + length).map(value).collect();
                file.write(&bytes);
                next += length;
            }
            file.close();
            next
        });
        let (mut cursor, mut read, mut done) = (0, 0, false);
        while !done {
            let chunk = output.read(cursor, 10_000, Cut::Anywhere).unwrap();
            for (offset, byte) in (chunk.start..).zip(&chunk.bytes) {
                assert_eq!(*byte, value(offset), "byte {offset}");
            }
            assert!(chunk.next >= cursor && chunk.start + chunk.bytes.len() as u64 == chunk.next);
            read += chunk.bytes.len();
            cursor = chunk.next;
            done = chunk.closed && chunk.next == chunk.total;
        }
        assert_eq!(cursor, writer.join().unwrap());
        assert!(read >= 64 << 10);
    }
}
