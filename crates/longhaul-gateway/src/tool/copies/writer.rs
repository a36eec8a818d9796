//! The node that watches a run copies what it writes.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use longhaul::store::{Owner, Scope, StoreError, Swap, TaskId, Version};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::piece::{PIECE, Piece};
use super::{Copied, KEPT, PLACES, Place};
use crate::command::{Chunk, Cut, Output, Run, RunsDir, Status, Stream};

pub(super) struct Writer {
    place: Arc<Place>,
    runs: RunsDir,
    dir: PathBuf,
    task: String,
    /// Whose task it is, once that is known.
    owner: Option<Owner>,
    streams: [Tail; 2],
}

/// How far a stream was copied.
struct Tail {
    stream: Stream,
    /// Where the piece begins that is to be put next; before it was looked what is there, nowhere.
    begins: Option<u64>,
    /// The last piece as it was put, and its version.
    last: (Option<Piece>, Option<Version>),
    /// When all that is kept was put anew.
    renewed: Option<Instant>,
}

/// Why something was not copied now.
#[derive(Debug, thiserror::Error)]
enum NotCopied {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("what it wrote cannot be read")]
    Files(#[from] io::Error),
    /// There is nothing to copy, or nobody to do it, any more.
    #[error("it is over")]
    Over,
}

impl NotCopied {
    /// Whether it would be the same in a minute.
    fn is_for_long(&self) -> bool {
        matches!(
            self,
            Self::Store(
                StoreError::Overloaded { .. }
                    | StoreError::TooLarge { .. }
                    | StoreError::Full { .. }
                    | StoreError::Closed
            )
        )
    }
}

/// What one pass over the streams has come to.
enum Pass {
    /// All that there was is copied.
    CaughtUp,
    /// There is more.
    Behind,
}

impl Writer {
    pub(super) fn new(place: &Arc<Place>, runs: &RunsDir, run: &Run) -> Self {
        let tail = |stream| Tail { stream, begins: None, last: (None, None), renewed: None };
        Self {
            place: Arc::clone(place),
            runs: runs.clone(),
            dir: run.dir().to_owned(),
            task: run.id().to_owned(),
            owner: None,
            streams: [Stream::Stdout, Stream::Stderr].map(tail),
        }
    }

    /// Copies until nobody tells of the run any more, and then what there is by then.
    /// `caught_up` is dropped as soon as nobody is to wait for it.
    pub(super) async fn until_over(
        mut self,
        mut updates: watch::Receiver<Status>,
        caught_up: watch::Sender<()>,
    ) {
        let mut over = pin!(async { while updates.changed().await.is_ok() {} });
        let mut is_told = false;
        loop {
            tokio::select! {
                () = sleep(EVERY) => {}
                () = over.as_mut() => break,
            }
            match self.copy().await {
                Ok(_) => is_told = false,
                Err(NotCopied::Over) => return,
                Err(error) => {
                    if !std::mem::replace(&mut is_told, true) {
                        let why = std::error::Error::source(&error).map(ToString::to_string);
                        tracing::warn!(%error, why, task = self.task, "what a command writes is not copied: other hosts do not see it");
                    }
                    tokio::select! {
                        () = sleep(PAUSE) => {}
                        () = over.as_mut() => break,
                    }
                }
            }
        }
        self.finish(caught_up).await;
        // Where nobody else does, who makes such entries makes room for the next.
        if let Err(error) = self.place.registry.sweep_entries(SWEPT).await {
            tracing::debug!(%error, "old copies stay until they are swept");
        }
    }

    /// Copies what is left, and has all of it kept from now on.
    async fn finish(&mut self, caught_up: watch::Sender<()>) {
        let mut caught_up = Some(caught_up);
        self.streams.iter_mut().for_each(|tail| tail.renew_after(STALE));
        for _ in 0..TRIES {
            match self.copy().await {
                Ok(Pass::Behind) => {}
                Ok(Pass::CaughtUp) | Err(NotCopied::Over) => return,
                Err(error) => {
                    // The task ends without it.
                    caught_up = None;
                    if error.is_for_long() {
                        return;
                    }
                    sleep(PAUSE).await;
                }
            }
        }
        drop(caught_up);
    }

    async fn copy(&mut self) -> Result<Pass, NotCopied> {
        let owner = match &self.owner {
            Some(owner) => owner,
            None => {
                let id = TaskId::new(self.task.as_str()).map_err(|_| NotCopied::Over)?;
                let record = self.place.tasks.get(Scope::Operator, &id).await?.ok_or(NotCopied::Over)?;
                self.owner.insert(record.owner)
            }
        };
        let mut passed = Ok(Pass::CaughtUp);
        for tail in &mut self.streams {
            let copied = Copied { place: &self.place, owner, task: &self.task, stream: tail.stream };
            // What one of them cannot be does not keep the other back.
            match tail.copy(&copied, &self.runs, &self.dir).await {
                Ok(Pass::CaughtUp) => {}
                Ok(Pass::Behind) => passed = passed.map(|_| Pass::Behind),
                Err(error) => passed = Err(error),
            }
        }
        passed
    }
}

impl Tail {
    /// Has all that is kept put anew, if the oldest of it may be that old.
    fn renew_after(&mut self, age: Duration) {
        let is_due = self.renewed.is_none_or(|renewed| renewed.elapsed() > age);
        if self.begins.is_some() && is_due {
            (self.begins, self.last.0, self.renewed) = (Some(0), None, Some(Instant::now()));
        }
    }

    /// Copies what is new, as much of it as is kept at most: more may come meanwhile.
    async fn copy(&mut self, copied: &Copied<'_>, runs: &RunsDir, dir: &Path) -> Result<Pass, NotCopied> {
        // What is kept would end before the command does.
        self.renew_after(KEPT / 2);
        let mut begins = match self.begins {
            Some(begins) => begins,
            None => match copied.last().await? {
                // A node before this one has copied some, nobody knows when.
                Some((last, version)) => {
                    (self.last, self.renewed) = ((Some(last), Some(version)), Some(Instant::now()));
                    0
                }
                None => {
                    self.renewed = Some(Instant::now());
                    0
                }
            },
        };
        // One to get to the oldest that is kept, one for a gap and one for the last piece.
        for _ in 0..PLACES + 3 {
            let Some(found) = self.read(runs, dir, begins).await? else { return Ok(Pass::CaughtUp) };
            let oldest = (found.total / PIECE).saturating_sub(PLACES) * PIECE;
            if found.start < oldest {
                begins = oldest;
                continue;
            }
            let (is_behind, next) = (found.next < found.total, found.next);
            let piece = Piece { start: found.start, is_end: found.done, text: found.bytes };
            if piece.is_full() {
                copied.put_full(&piece).await?;
                begins = piece.end();
            } else if is_behind {
                // Either there is more by now, or what follows is not kept: then the next begins behind that. Of a piece in which
                // there is such a gap only what is behind it is kept.
                let Some(follows) = self.read(runs, dir, next).await? else { return Ok(Pass::CaughtUp) };
                if follows.gap.is_some() {
                    if follows.start / PIECE > piece.number() && !piece.text.is_empty() {
                        copied.put_full(&piece).await?;
                    }
                    begins = follows.start;
                }
            } else {
                self.begins = Some(begins);
                self.put(copied, piece).await?;
                return Ok(Pass::CaughtUp);
            }
            self.begins = Some(begins);
        }
        Ok(Pass::Behind)
    }

    /// Puts the last piece, unless that is done, or another has put more of it. Of what wrote nothing there is none.
    async fn put(&mut self, copied: &Copied<'_>, piece: Piece) -> Result<(), NotCopied> {
        for _ in 0..MOST_MEETINGS {
            let is_there = self.last.0.as_ref().is_some_and(|last| last.reach() >= piece.reach());
            if is_there || piece.end() == 0 {
                return Ok(());
            }
            let (is_there, entry) = match copied.put_last(&piece, self.last.1).await? {
                Swap::Done(entry) => (true, entry),
                Swap::Found(entry) => {
                    let theirs = entry.as_ref().and_then(|entry| Piece::read(&entry.value));
                    (theirs.is_some_and(|theirs| theirs.reach() >= piece.reach()), entry)
                }
            };
            self.last = (is_there.then(|| piece.clone()), entry.map(|entry| entry.version));
        }
        Ok(())
    }

    /// The bytes from there on, up to where streams are cut; `None` where there is no such stream.
    async fn read(&self, runs: &RunsDir, dir: &Path, begins: u64) -> Result<Option<Chunk>, NotCopied> {
        let (dir, stream) = (dir.to_owned(), self.stream);
        let most = usize::try_from(PIECE - begins % PIECE).unwrap_or(usize::MAX);
        let read = move |_: &RunsDir| match Output::open(&dir, stream) {
            Ok(output) => output.read(begins, most, Cut::Anywhere).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(io::Error::other(error)),
        };
        let mut found = runs.blocking(read).await.ok_or(NotCopied::Over)??;
        if let Some(found) = &mut found {
            found.end_before(found.start / PIECE * PIECE + PIECE);
        }
        Ok(found)
    }
}

/// How often what grows is copied.
const EVERY: Duration = Duration::from_secs(1);

/// How long nothing is tried after a failure.
const PAUSE: Duration = Duration::from_secs(5);

/// How often it is tried after the end.
const TRIES: u32 = 12;

/// How many old entries are swept after a run.
const SWEPT: usize = 100;

/// How old what is kept may be when its command ends, else it is put anew.
const STALE: Duration = Duration::from_secs(60);

/// How often two that copy the same may meet over its last piece before one leaves it for later.
const MOST_MEETINGS: u32 = 4;
