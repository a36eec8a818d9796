//! A server that is a child process: started, listened to, and never left behind.
//!
//! It ends with its process group. What has left that, such as by `setsid`, is not looked for: a server's durable commands do so on
//! purpose, and must go on when whoever called them has gone.

use std::collections::VecDeque;
use std::fmt;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

use crate::client::Command;
use crate::client::error::Error;
use crate::client::table::Table;
use crate::driver::lines::{Line, Lines};

/// A child process and what it says. Dropped before it has [ended](Self::end), it is ended in the
/// background; without a runtime to do that in, it is killed.
pub(crate) struct Child {
    program: String,
    process: Process,
    words: Arc<LastWords>,
    listener: JoinHandle<()>,
    /// Ended in order: nothing of its group is left, and its number may be another's by now.
    ended: AtomicBool,
}

/// The process itself: clones name the same.
#[derive(Clone)]
struct Process {
    group: Group,
    exited: watch::Receiver<Option<ExitStatus>>,
    /// Waits for the process; aborted, it kills it.
    reaper: AbortHandle,
    grace: Duration,
}

impl Child {
    /// Starts the program in a process group of its own. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] when it cannot be started.
    pub(crate) fn start(
        command: &Command,
        table: &Arc<Table>,
    ) -> Result<(Self, ChildStdout, ChildStdin), Error> {
        let program = command.program();
        let mut words = command.starter.iter().chain([&command.program]).chain(&command.args);
        let mut spawning = tokio::process::Command::new(words.next().unwrap_or(&command.program));
        if !command.inherits_env {
            spawning.env_clear();
        }
        spawning.args(words).envs(command.env.iter().map(|(name, value)| (name, value)));
        spawning.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        if let Some(folder) = &command.current_dir {
            spawning.current_dir(folder);
        }
        #[cfg(unix)]
        spawning.process_group(0);
        let mut child = spawning
            .spawn()
            .map_err(|error| Error::Unreachable { target: program.clone(), cause: Arc::new(error) })?;
        let stdin = child.stdin.take().expect("it was asked for as a pipe");
        let stdout = child.stdout.take().expect("it was asked for as a pipe");
        let stderr = child.stderr.take().expect("it was asked for as a pipe");
        let group = Group::of(&child);
        let (sender, exited) = watch::channel(None);
        let guard = KillOnDrop(Some(group));
        let reaper = tokio::spawn(async move {
            match child.wait().await {
                Ok(status) => drop(sender.send_replace(Some(status))),
                Err(error) => tracing::warn!(%error, "a child process cannot be waited for"),
            }
            guard.defuse();
        });
        let words = Arc::new(LastWords::default());
        let listener = tokio::spawn(listen(stderr, Arc::clone(&words), Arc::clone(table)));
        let process =
            Process { group, exited, reaper: reaper.abort_handle(), grace: table.options().close_grace };
        Ok((Self { program, process, words, listener, ended: AtomicBool::new(false) }, stdout, stdin))
    }

    /// Ends the process, whose input must be closed already: waits, tells its group to end, waits, kills
    /// the group. Whatever of the group outlives its leader goes the same way.
    pub(crate) async fn end(&self) {
        self.process.clone().end().await;
        self.ended.store(true, Ordering::Release);
    }

    /// How it ended, if it has, or does within a moment of having closed its output.
    pub(crate) async fn obituary(&self) -> Option<Error> {
        let mut exited = self.process.exited.clone();
        let status = tokio::time::timeout(MOMENT, wait(&mut exited)).await.ok()??;
        // The pipe may hold words still; something it left behind may hold the pipe.
        let mut said = self.words.closed.subscribe();
        let _ = tokio::time::timeout(MOMENT, said.wait_for(|closed| *closed)).await;
        let last_words = self.words.text();
        Some(Error::Died { program: self.program.clone(), status: spoken(status), last_words })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.listener.abort();
        if *self.ended.get_mut() {
            return;
        }
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(self.process.clone().end())),
            // Without a runtime nobody has waited for it either, so its number is still its own.
            Err(_) if self.process.exited.borrow().is_none() => {
                self.process.group.kill();
                self.process.reaper.abort();
            }
            Err(_) => {}
        }
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("program", &self.program).finish_non_exhaustive()
    }
}

impl Process {
    async fn end(mut self) {
        let guard = KillOnDrop(Some(self.group));
        if !self.exits_within(self.grace).await {
            self.group.terminate();
            if !self.exits_within(self.grace).await {
                self.group.kill();
                #[cfg(not(unix))]
                self.reaper.abort();
                // Nothing survives this; an unknown status is as good as a known one.
                let _ = wait(&mut self.exited).await;
            }
        }
        self.group.end_rest(self.grace).await;
        guard.defuse();
    }

    async fn exits_within(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, wait(&mut self.exited)).await.is_ok()
    }
}

/// The status once the process has ended; `None` when that cannot be known.
async fn wait(exited: &mut watch::Receiver<Option<ExitStatus>>) -> Option<ExitStatus> {
    exited.wait_for(Option::is_some).await.ok().and_then(|status| *status)
}

/// How long to wait for what must be about to come.
const MOMENT: Duration = Duration::from_secs(1);

fn spoken(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("killed by signal {signal}");
    }
    status.code().map_or_else(|| status.to_string(), |code| format!("exit code {code}"))
}

/// Kills a group that nobody waits for any more, such as when the runtime ends.
struct KillOnDrop(Option<Group>);

impl KillOnDrop {
    fn defuse(mut self) {
        self.0 = None;
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            group.kill();
        }
    }
}

/// The processes of one child: itself and what it started, as far as that stayed in its group.
#[derive(Clone, Copy, Debug)]
struct Group {
    #[cfg(unix)]
    id: Option<rustix::process::Pid>,
}

#[cfg(unix)]
impl Group {
    fn of(child: &tokio::process::Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        Self { id }
    }

    fn signal(self, signal: rustix::process::Signal) {
        if let Some(id) = self.id
            && let Err(error) = rustix::process::kill_process_group(id, signal)
            && error != rustix::io::Errno::SRCH
        {
            tracing::debug!(%error, "a process group cannot be signalled");
        }
    }

    fn terminate(self) {
        self.signal(rustix::process::Signal::TERM);
    }

    fn kill(self) {
        self.signal(rustix::process::Signal::KILL);
    }

    fn is_empty(self) -> bool {
        self.id.is_none_or(|id| rustix::process::test_kill_process_group(id) == Err(rustix::io::Errno::SRCH))
    }

    /// Ends what its leader has left behind.
    async fn end_rest(self, grace: Duration) {
        if self.is_empty() {
            return;
        }
        self.terminate();
        let until = tokio::time::Instant::now() + grace;
        while !self.is_empty() {
            if tokio::time::Instant::now() >= until {
                return self.kill();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Elsewhere there are no groups: closing the input, and killing the process when its handle is dropped,
/// is all there is.
#[cfg(not(unix))]
impl Group {
    fn of(_: &tokio::process::Child) -> Self {
        Self {}
    }

    fn terminate(self) {}

    fn kill(self) {}

    async fn end_rest(self, _: Duration) {}
}

/// The end of what a process said.
#[derive(Debug, Default)]
struct LastWords {
    lines: Mutex<VecDeque<String>>,
    closed: watch::Sender<bool>,
}

/// How many bytes of last words are kept.
const KEPT: usize = 4 << 10;

impl LastWords {
    fn push(&self, line: &str) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_back(line.to_owned());
        while lines.iter().map(String::len).sum::<usize>() > KEPT && lines.len() > 1 {
            lines.pop_front();
        }
    }

    fn text(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

async fn listen(mut stderr: ChildStderr, words: Arc<LastWords>, table: Arc<Table>) {
    let mut lines = Lines::new(KEPT);
    let say = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        words.push(&line);
        table.say(&line);
    };
    while let Some(()) = more(&mut stderr, &mut lines).await {
        while let Some(line) = lines.next() {
            match line {
                Line::Whole(bytes) => say(bytes),
                Line::TooLong => say(b"(a line too long to keep)"),
                Line::Skipped { .. } => {}
            }
        }
    }
    if !lines.rest().is_empty() {
        say(lines.rest());
    }
    words.closed.send_replace(true);
}

/// Reads on; `None` at the end, of whatever kind: what cannot be read says no more.
async fn more(stderr: &mut (impl AsyncRead + Unpin), lines: &mut Lines) -> Option<()> {
    match stderr.read_buf(lines.space(KEPT)).await {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(()),
    }
}
