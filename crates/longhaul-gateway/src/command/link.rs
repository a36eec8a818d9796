//! The server's end of a connection to a supervisor, and the task that keeps it for as long as the run is watched.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    sync::{mpsc, oneshot, watch},
    time::sleep,
};

use super::{
    blocking::blocking,
    crash::crash_point,
    exit::Exit,
    layout::{CANCEL, FileError, RunDir},
    leftover,
    protocol::{self, Event, MAX_LINE, Request},
    run::RunError,
    state::{self, State},
    status::Status,
};

/// A connection, read event by event.
#[derive(Debug)]
pub(super) struct Lines {
    stream: UnixStream,
    incoming: Vec<u8>,
}

impl Lines {
    pub(super) const fn new(stream: UnixStream) -> Self {
        Self { stream, incoming: Vec::new() }
    }

    /// The next event, or `None` when the supervisor is gone. Cancel safe.
    pub(super) async fn next(&mut self) -> io::Result<Option<Event>> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.incoming) {
                let line: Vec<u8> = self.incoming.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line).unwrap_or(Event::Unknown)));
            }
            if self.incoming.len() > MAX_LINE {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if self.stream.read_buf(&mut self.incoming).await? == 0 {
                return Ok(None);
            }
        }
    }

    async fn send(&mut self, request: Request) -> io::Result<()> {
        self.stream.write_all(&protocol::line(&request)).await
    }
}

/// What is asked of the task, and where the answer goes.
pub(super) struct Ask {
    pub(super) request: Request,
    pub(super) answer: oneshot::Sender<Result<(), RunError>>,
}

/// How the run turned out: its end, or why that will not be known.
pub(super) type Outcome = Result<Exit, RunError>;

/// The task behind a [`Run`](super::Run).
pub(super) struct Link {
    pub(super) dir: PathBuf,
    pub(super) asks: mpsc::Receiver<Ask>,
    pub(super) outcome: watch::Sender<Option<Outcome>>,
    pub(super) status: watch::Sender<Status>,
    /// Asked and not answered yet.
    pub(super) open: Vec<Ask>,
}

impl Link {
    /// Watches the run to its end, over connections that break.
    pub(super) async fn keep(mut self, mut connection: Option<Lines>) {
        let outcome = loop {
            if let Some(lines) = connection.take() {
                let mut heard = false;
                if let Some(exit) = self.converse(lines, &mut heard).await {
                    break Ok(exit);
                }
                if !heard {
                    // Turned away: too many are attached. The next try is not at once.
                    self.go_by_files().await;
                }
            }
            // Nobody on the line: the lock and the files say what there is to know.
            match self.look().await {
                Ok(Seen::Over(outcome)) => break outcome,
                Ok(Seen::Connected(lines)) => connection = Some(lines),
                Ok(Seen::Unreachable) => self.go_by_files().await,
                Err(error) if error.is_passing() => {
                    tracing::debug!(%error, "a run cannot be looked at now");
                    self.go_by_files().await;
                }
                Err(error) => break Err(RunError::Files(Arc::new(error))),
            }
        };
        self.asks.close();
        while let Some(ask) = self.asks.recv().await {
            self.open.push(ask);
        }
        self.outcome.send_replace(Some(outcome.clone()));
        for ask in self.open.drain(..) {
            // What is over on the disk needs neither commit nor cancel.
            let _asker_left = ask.answer.send(outcome.as_ref().map(|_| ()).map_err(Clone::clone));
        }
    }

    /// Talks until the run ends or the connection does, and notes whether the supervisor said anything.
    async fn converse(&mut self, mut lines: Lines, heard: &mut bool) -> Option<Exit> {
        for ask in &self.open {
            lines.send(ask.request).await.ok()?;
        }
        loop {
            tokio::select! {
                event = lines.next() => {
                    let event = event.ok()??;
                    *heard = true;
                    match event {
                    Event::Exit(exit) => return Some(exit),
                    Event::Status(status) => { self.status.send_replace(status); }
                    Event::Committed => self.answer(Request::Commit, &Ok(())),
                    Event::CommitFailed { message } => self.answer(Request::Commit, &Err(RunError::Commit { message })),
                    Event::Cancelling => self.answer(Request::Cancel, &Ok(())),
                    Event::Running { .. } | Event::Refused { .. } | Event::NotUnderstood | Event::Unknown => {}
                    }
                }
                ask = self.asks.recv() => {
                    // The `Run` is gone; so is this task in a moment.
                    let ask = ask?;
                    let request = ask.request;
                    self.open.push(ask);
                    lines.send(request).await.ok()?;
                }
            }
        }
    }

    fn answer(&mut self, request: Request, answer: &Result<(), RunError>) {
        for ask in self.open.extract_if(.., |ask| ask.request == request) {
            let _asker_left = ask.answer.send(answer.clone());
        }
    }

    async fn look(&self) -> Result<Seen, FileError> {
        let dir = self.dir.clone();
        let Some(looked) = blocking(move || look(&dir)).await else {
            return Ok(Seen::Over(Err(RunError::Unwatched)));
        };
        let (seen, run) = looked?;
        let Some(run) = run else { return Ok(seen) };
        let connected = UnixStream::connect(run.socket_path()).await;
        Ok(connected.map_or(seen, |stream| Seen::Connected(Lines::new(stream))))
    }

    /// A supervisor lives that cannot be talked to: a cancel reaches it as a file, a commit has to wait.
    async fn go_by_files(&mut self) {
        if self.open.iter().any(|ask| ask.request == Request::Cancel) {
            let dir = self.dir.clone();
            let left = blocking(move || leave_cancel(&dir)).await.unwrap_or(Err(RunError::Unwatched));
            self.answer(Request::Cancel, &left);
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            Some(ask) = self.asks.recv() => self.open.push(ask),
        }
    }
}

enum Seen {
    Over(Outcome),
    Connected(Lines),
    Unreachable,
}

/// Looks at the directory, and ends what is left of a lost run.
fn look(dir: &Path) -> Result<(Seen, Option<RunDir>), FileError> {
    let id = || dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let run = match RunDir::open(dir) {
        Ok(run) => run,
        Err(error) if error.is_not_found() => {
            return Ok((Seen::Over(Err(RunError::Absent { id: id() })), None));
        }
        Err(error) => return Err(error),
    };
    Ok(match state::of_run(&run)? {
        State::Exited(exit) => (Seen::Over(Ok(*exit)), None),
        State::Absent => (Seen::Over(Err(RunError::Absent { id: id() })), None),
        State::Fresh => (Seen::Over(Err(RunError::NotStarted { id: id() })), None),
        State::Alive { .. } => (Seen::Unreachable, Some(run)),
        State::Lost => {
            let survivors = leftover::end(&run, &state::spec(&run)?)?;
            (Seen::Over(Err(RunError::Lost { id: id(), survivors })), None)
        }
    })
}

/// Sees to it that a run in which nothing was started never starts; gives back what it is then. Both sides write
/// before they look: a supervisor that does not see `cancel` had written `started` before, and that is seen here.
pub(super) fn withdraw(dir: &Path) -> Result<State, RunError> {
    let state = || state::of(dir).map_err(|error| RunError::Files(Arc::new(error)));
    match state()? {
        State::Fresh => {
            leave_cancel(dir)?;
            state()
        }
        other => Ok(other),
    }
}

fn leave_cancel(dir: &Path) -> Result<(), RunError> {
    let failed = |error| RunError::Files(Arc::new(error));
    crash_point("run.cancel.before");
    let run = RunDir::open(dir).map_err(failed)?;
    match run.create_flushed(CANCEL, b"") {
        Err(error) if !error.is_already_exists() => return Err(failed(error)),
        _ => run.sync().map_err(failed)?,
    }
    crash_point("run.cancel.after");
    Ok(())
}

/// Between two looks at a supervisor that lives and does not answer: it is about to, or has just ended.
const PAUSE: Duration = Duration::from_millis(50);
