//! What a task has given so far: what its command has written, by bytes, or the parts of a function, by their number.

use longhaul::store::{PartContent, Record};
use serde::Serialize;

use super::{Admin, AdminError, Viewer};
use crate::clean;
use crate::command::Stream;

/// A stretch of a stream, made safe to show.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stretch {
    pub(crate) stream: &'static str,
    /// Where it begins.
    pub(crate) start: u64,
    /// Where the next one does.
    pub(crate) next: u64,
    /// How much there is in all.
    pub(crate) total: u64,
    /// How many bytes before it were not kept.
    pub(crate) missing: u64,
    pub(crate) text: String,
    /// The same as it was written: not safe to show.
    #[serde(skip)]
    pub(crate) written: String,
    /// Nothing will follow.
    pub(crate) done: bool,
}

/// Where a stretch begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum From {
    /// Behind so much of it.
    After(u64),
    /// So many bytes before its end, or parts.
    End(usize),
}

/// The stream of parts.
pub(crate) const PARTS: &str = "parts";

/// How much is read at once, in bytes.
const READ: usize = 256 << 10;

/// How many parts.
const MOST_PARTS: usize = 500;

impl Admin {
    /// The streams that a task has: those of a command, or the parts of a function.
    pub(crate) async fn streams(&self, record: &Record) -> Vec<&'static str> {
        if self.0.streams.has(record).await {
            vec![Stream::Stdout.name(), Stream::Stderr.name()]
        } else {
            vec![PARTS]
        }
    }

    /// A stretch of a stream of a task that `viewer` was shown; `None` if the task has no such stream.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub(crate) async fn output(
        &self,
        viewer: &Viewer,
        record: &Record,
        stream: &str,
        from: From,
    ) -> Result<Option<Stretch>, AdminError> {
        if stream == PARTS {
            return self.parts(viewer, record, from).await;
        }
        let Some(stream) = [Stream::Stdout, Stream::Stderr].into_iter().find(|one| one.name() == stream)
        else {
            return Ok(None);
        };
        let read = match from {
            From::After(after) => self.0.streams.read(record, stream, after, READ).await?,
            From::End(most) => self.0.streams.read_end(record, stream, most).await?,
        };
        let Some(chunk) = read else { return Ok(None) };
        let missing = chunk.gap.map_or(0, |gap| gap.bytes());
        let written = String::from_utf8_lossy(&chunk.bytes).into_owned();
        let text = clean::text(&written);
        let (start, next, total, done) = (chunk.start, chunk.next, chunk.total, chunk.done);
        Ok(Some(Stretch { stream: stream.name(), start, next, total, missing, text, written, done }))
    }

    async fn parts(
        &self,
        viewer: &Viewer,
        record: &Record,
        from: From,
    ) -> Result<Option<Stretch>, AdminError> {
        let after = match from {
            From::After(after) => after,
            From::End(_) => u64::from(record.parts).saturating_sub(MOST_PARTS as u64),
        };
        let parts = self.store().parts(viewer.scope(), &record.id, after, MOST_PARTS).await?;
        Ok(parts.map(|parts| {
            let (mut text, mut written) = (String::new(), String::new());
            for part in &parts.parts {
                let part = match part {
                    PartContent::Text(text) => text,
                    PartContent::Json(json) => json.as_str(),
                };
                text += &clean::text(part);
                text.push('\n');
                written += part;
                written.push('\n');
            }
            let (start, next, total) = (parts.start, parts.next(), parts.total);
            let done = parts.ended && next >= total;
            Stretch { stream: PARTS, start, next, total, missing: 0, text, written, done }
        }))
    }
}
