//! One output stream between the command's pipe and its file.

use std::{
    fs::File,
    io::{self, Read as _},
};

use crate::command::stream::StreamFile;

/// A pipe that the command writes to, and the file that keeps what came.
#[derive(Debug)]
pub(super) struct Channel {
    /// `None` after its end.
    pipe: Option<File>,
    file: StreamFile,
}

/// What a pump found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pumped {
    /// There may be more at once.
    More,
    /// There is nothing more for now.
    Nothing,
    /// Everybody closed the pipe.
    End,
}

impl Channel {
    pub(super) const fn new(pipe: File, file: StreamFile) -> Self {
        Self { pipe: Some(pipe), file }
    }

    pub(super) const fn pipe(&self) -> Option<&File> {
        self.pipe.as_ref()
    }

    pub(super) const fn total(&self) -> u64 {
        self.file.total()
    }

    pub(super) const fn file_mut(&mut self) -> &mut StreamFile {
        &mut self.file
    }

    /// Moves what is in the pipe, a bounded amount of it, and shows it to `see` on the way.
    pub(super) fn pump(&mut self, buffer: &mut [u8], mut see: impl FnMut(&[u8])) -> Pumped {
        for _read in 0..READS {
            let Some(pipe) = &mut self.pipe else { return Pumped::End };
            match pipe.read(buffer) {
                Ok(0) => self.pipe = None,
                Ok(length) => {
                    self.file.write(&buffer[..length]);
                    see(&buffer[..length]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Pumped::Nothing,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // No error is known that a read of a pipe could end with; the command's next write tells it.
                Err(_) => self.pipe = None,
            }
        }
        if self.pipe.is_some() { Pumped::More } else { Pumped::End }
    }
}

/// The most that is read from a pipe at once.
pub(super) const BUFFER: usize = 64 << 10;

/// How many reads in a row: a flood on one stream must not keep the loop from the others.
const READS: usize = 8;
