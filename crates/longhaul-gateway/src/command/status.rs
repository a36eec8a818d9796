//! What a run says of itself while it runs: [`Status`], and the `status` file that holds the latest.

use serde::{Deserialize, Serialize};

use super::{
    layout::{FileError, RunDir, STATUS, STATUS_SIZE},
    progress::Progress,
    record::{self, Content},
};

/// The latest news of a run, at most one a second.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Status {
    /// Rises with each publication.
    pub sequence: u64,
    /// How far the command says it is.
    pub progress: Option<Progress>,
    /// The last complete line of whichever stream wrote last, without terminal sequences, after its last carriage
    /// return, at most 200 characters. Blank lines do not count.
    pub line: Option<String>,
    /// Bytes written to standard output so far.
    pub stdout_bytes: u64,
    /// Bytes written to standard error so far.
    pub stderr_bytes: u64,
    /// When this was published, in clock ticks since boot: the supervisor was alive then.
    pub(super) alive_ticks: u64,
}

/// Reads `status`: the default before anything was published, or when the file is damaged (it is only news).
pub(super) fn read(run: &RunDir) -> Result<Status, FileError> {
    let file = run.read(STATUS)?;
    let content = record::read(&file, STATUS_SIZE).map_err(FileError::at("read", &run.file_path(STATUS)))?;
    Ok(match content {
        Content::Whole(status) => status,
        Content::Empty | Content::Damaged => Status::default(),
    })
}
