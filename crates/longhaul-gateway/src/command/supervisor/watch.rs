//! The loop: waits for the command, its output, the servers and the clock, and decides when the run is over.
//!
//! The command is done when its main process has ended and its output has: both pipes at their end, or silent for
//! [`QUIET`], or [`DRAIN`] over. What still lives of its tree then, and [`LEAVING`] later where the pipes are at their end, is ended. As subreaper the supervisor is the
//! parent of every orphan, so "no child left" means that the whole tree is gone.

use std::{
    os::fd::AsFd as _,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, WaitStatus},
};

use super::{
    Started,
    board::Board,
    channel::{BUFFER, Channel, Pumped},
    ending::{Ending, later},
    peers::Peers,
    program::Command,
    reap::reap,
    signals::Signals,
    unix_milliseconds,
};
use crate::command::{
    crash::crash_point,
    exit::{Cause, Exit, ExitFile},
    layout::{CANCEL, COMMITTED, RunDir},
    process,
    protocol::{Event, PROTOCOL, Request},
    spec::{self, StoredSpec},
};

/// Everything that is watched, and what is known of it.
pub(super) struct Watch<'a> {
    run: &'a RunDir,
    spec: StoredSpec,
    pid: Pid,
    started: Instant,
    started_at_ms: u64,
    channels: [Channel; 2],
    progress: Option<std::io::PipeReader>,
    board: Board,
    peers: Peers,
    signals: Signals,
    committed: bool,
    /// The end of the main process.
    ended: Option<Ended>,
    last_output: Instant,
    /// When the last pipe was found at its end.
    closed: Option<Instant>,
    has_children: bool,
    /// How many processes the command had left.
    left: u32,
    /// Why the run is being ended, when that is not the command's own doing.
    cause: Option<Cause>,
    ending: Option<Ending>,
    next_look: Instant,
    buffer: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Ended {
    status: WaitStatus,
    at: Instant,
    at_ms: u64,
}

/// What a poll can report on.
#[derive(Clone, Copy)]
enum Source {
    Signal,
    Output(usize),
    Progress,
    Listener,
    Peer(usize),
}

impl<'a> Watch<'a> {
    /// Of a run that is `committed` already: one may be before it starts, and needs no second commit.
    pub(super) fn new(
        run: &'a RunDir,
        started: Started,
        committed: bool,
        peers: Peers,
        signals: Signals,
    ) -> Self {
        let Started { spec, command, files: [stdout_file, stderr_file], board } = started;
        let Command { pid, started, started_at_ms, outputs: [stdout, stderr], progress } = command;
        Self {
            run,
            spec,
            pid,
            started,
            started_at_ms,
            channels: [Channel::new(stdout, stdout_file), Channel::new(stderr, stderr_file)],
            progress: Some(progress),
            board,
            peers,
            signals,
            committed,
            ended: None,
            last_output: started,
            closed: None,
            has_children: true,
            left: 0,
            cause: None,
            ending: None,
            next_look: started,
            buffer: vec![0; BUFFER],
        }
    }

    /// Watches until the run is over, and records how it ended.
    pub(super) fn watch_to_the_end(mut self, exit_file: &ExitFile) -> ExitCode {
        self.peers.broadcast(&Event::Running { protocol: PROTOCOL, committed: self.committed });
        let survivors = loop {
            for (source, flags) in self.wait_for_news() {
                self.attend(source, flags);
            }
            self.peers.forget_gone();
            self.reap();
            let now = Instant::now();
            self.look_for_reasons_to_end(now);
            if let Some(survivors) = self.is_over(now) {
                break survivors;
            }
            self.publish(now, false);
        };
        self.drain_the_rest();
        let exit = self.close(survivors);
        record(self.run, exit_file, self.peers, &exit)
    }

    fn wait_for_news(&self) -> Vec<(Source, PollFlags)> {
        let mut sources = vec![Source::Signal, Source::Listener];
        let mut fds = vec![
            PollFd::new(self.signals.wake(), PollFlags::IN),
            PollFd::new(self.peers.listener(), PollFlags::IN),
        ];
        for (stream, channel) in self.channels.iter().enumerate() {
            if let Some(pipe) = channel.pipe() {
                sources.push(Source::Output(stream));
                fds.push(PollFd::new(pipe, PollFlags::IN));
            }
        }
        if let Some(progress) = &self.progress {
            sources.push(Source::Progress);
            fds.push(PollFd::new(progress, PollFlags::IN));
        }
        for (number, stream, flags) in self.peers.waits() {
            sources.push(Source::Peer(number));
            fds.push(PollFd::from_borrowed_fd(stream.as_fd(), flags));
        }
        let now = Instant::now();
        let patience = self.deadline(now).saturating_duration_since(now);
        let patience = Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap_or(1),
            tv_nsec: patience.subsec_nanos().into(),
        };
        match poll(&mut fds, Some(&patience)) {
            Ok(_) => sources
                .into_iter()
                .zip(fds.iter().map(PollFd::revents))
                .filter(|(_, flags)| !flags.is_empty())
                .collect(),
            Err(Errno::INTR) => Vec::new(),
            // Out of memory, most likely: everything is non-blocking, so trying all of it is only slower.
            Err(_) => {
                thread::sleep(Duration::from_millis(10));
                sources.into_iter().map(|source| (source, PollFlags::IN | PollFlags::OUT)).collect()
            }
        }
    }

    /// When to wake even if nothing happens.
    fn deadline(&self, now: Instant) -> Instant {
        let timeout = self.spec.timeout_ms.filter(|_| self.ended.is_none() && self.ending.is_none());
        let timeout = timeout.map(|timeout| later(self.started, Duration::from_millis(timeout)));
        let ending = self.ending.as_ref().map(Ending::deadline);
        let drained = self.ended.filter(|_| self.ending.is_none()).map(|ended| self.done_at(ended));
        let times = [timeout, ending, drained, self.board.deadline(), Some(self.next_look)];
        times.into_iter().flatten().min().unwrap_or(now)
    }

    fn attend(&mut self, source: Source, flags: PollFlags) {
        match source {
            Source::Signal => {
                if self.signals.take_terminate() {
                    self.end_because(Cause::Cancelled);
                }
            }
            Source::Output(stream) => {
                self.pump(stream);
            }
            Source::Progress => self.pump_progress(),
            Source::Listener => {
                let running = Event::Running { protocol: PROTOCOL, committed: self.committed };
                self.peers.accept(&[running, Event::Status(self.board.published().clone())]);
            }
            Source::Peer(number) => {
                if flags.contains(PollFlags::OUT) {
                    self.peers.flush(number);
                }
                for request in self.peers.receive(number) {
                    self.answer(number, request);
                }
            }
        }
    }

    fn answer(&mut self, number: usize, request: Request) {
        let event = match request {
            Request::Commit => match self.commit() {
                Ok(()) => Event::Committed,
                Err(message) => Event::CommitFailed { message },
            },
            Request::Cancel => {
                self.end_because(Cause::Cancelled);
                Event::Cancelling
            }
            Request::Unknown => Event::NotUnderstood,
        };
        self.peers.send(number, &event);
    }

    fn commit(&mut self) -> Result<(), String> {
        if !self.committed {
            crash_point("supervisor.committed.before");
            self.run.commit().map_err(|error| super::with_causes(&error))?;
            crash_point("supervisor.committed.after");
            self.committed = true;
        }
        Ok(())
    }

    fn pump(&mut self, stream: usize) -> Pumped {
        let board = &mut self.board;
        let before = self.channels[stream].total();
        let pumped = self.channels[stream].pump(&mut self.buffer, |bytes| board.see_output(stream, bytes));
        if self.channels[stream].total() > before {
            self.last_output = Instant::now();
        }
        if self.closed.is_none() && self.channels.iter().all(|channel| channel.pipe().is_none()) {
            self.closed = Some(Instant::now());
        }
        pumped
    }

    fn pump_progress(&mut self) {
        use std::io::{ErrorKind, Read as _};

        for _read in 0..16 {
            let Some(pipe) = &mut self.progress else { return };
            match pipe.read(&mut self.buffer) {
                Ok(0) => self.progress = None,
                Ok(length) => self.board.see_progress(&self.buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.progress = None,
            }
        }
    }

    /// Reaps every child that has ended: the command, and what it left behind.
    fn reap(&mut self) {
        let reaped = reap(self.pid);
        self.has_children = reaped.has_children;
        if let Some(status) = reaped.program {
            self.ended = Some(Ended { status, at: Instant::now(), at_ms: unix_milliseconds() });
        }
    }

    fn look_for_reasons_to_end(&mut self, now: Instant) {
        let timeout = self.spec.timeout_ms.map(|timeout| later(self.started, Duration::from_millis(timeout)));
        if self.ended.is_none() && timeout.is_some_and(|timeout| now >= timeout) {
            self.end_because(Cause::TimedOut);
        }
        if !self.committed && !self.peers.has_owner() {
            self.end_because(Cause::Abandoned);
        }
        if now >= self.next_look {
            self.next_look = now + LOOK;
            // One that cannot be seen now is looked for again.
            if self.run.exists(CANCEL).unwrap_or(false) {
                self.end_because(Cause::Cancelled);
            }
        }
    }

    /// Begins to end the run. The first reason stays, and a command that had ended by itself needs none.
    fn end_because(&mut self, cause: Cause) {
        if self.ended.is_none() && self.cause.is_none() {
            self.cause = Some(cause);
        }
        self.begin_to_end();
    }

    fn begin_to_end(&mut self) {
        if self.ending.is_none() {
            self.ending = Some(Ending::begin(Instant::now(), self.spec.grace(), self.group()));
        }
    }

    /// The command's process group, while the number is surely its own: until its leader is reaped.
    fn group(&self) -> Option<Pid> {
        self.ended.is_none().then_some(self.pid)
    }

    /// Whether everything is over, and how many processes could not be ended.
    fn is_over(&mut self, now: Instant) -> Option<u32> {
        let group = self.group();
        if let Some(ended) = self.ended.filter(|_| self.ending.is_none()) {
            if now < self.done_at(ended) {
                return None;
            }
            self.end_what_is_left();
        }
        if self.ended.is_some() && !self.has_children {
            return Some(0);
        }
        let in_vain = self.ending.as_mut().is_some_and(|ending| ending.advance(now, group));
        in_vain.then(living)
    }

    /// Ends what a command that has ended by itself had in the background.
    fn end_what_is_left(&mut self) {
        if self.has_children {
            self.left = living();
            self.begin_to_end();
        }
    }

    /// Until when output is waited for after the end of the main process; and then what still lives, for a process closes its output
    /// before it is seen to have ended.
    fn done_at(&self, ended: Ended) -> Instant {
        match self.closed {
            Some(closed) if self.has_children => closed.max(ended.at) + LEAVING,
            Some(closed) => closed,
            None => (self.last_output.max(ended.at) + QUIET).min(ended.at + DRAIN),
        }
    }

    /// Takes what is still in the pipes. Nobody of the tree writes any more; who else holds a pipe has had its time.
    fn drain_the_rest(&mut self) {
        let deadline = Instant::now() + QUIET;
        for stream in 0..self.channels.len() {
            while self.pump(stream) == Pumped::More && Instant::now() < deadline {}
        }
        self.pump_progress();
    }

    fn publish(&mut self, now: Instant, at_once: bool) {
        let totals = [self.channels[0].total(), self.channels[1].total()];
        if let Some(status) = self.board.publish(now, totals, at_once) {
            self.peers.broadcast_news(&Event::Status(status.clone()));
        }
    }

    fn close(&mut self, survivors: u32) -> Exit {
        self.publish(Instant::now(), true);
        crash_point("supervisor.output.before");
        let [stdout, stderr] = &mut self.channels;
        let [stdout, stderr] = [stdout, stderr].map(|channel| {
            channel.file_mut().close();
            channel.file_mut().summary()
        });
        crash_point("supervisor.output.after");
        let (at, at_ms) =
            self.ended.map_or_else(|| (Instant::now(), unix_milliseconds()), |ended| (ended.at, ended.at_ms));
        let duration = at.saturating_duration_since(self.started);
        Exit {
            cause: self.cause.unwrap_or(Cause::Exited),
            code: self.ended.and_then(|ended| ended.status.exit_status()),
            signal: self.ended.and_then(|ended| ended.status.terminating_signal()),
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            started_at_ms: self.started_at_ms,
            ended_at_ms: at_ms,
            stdout,
            stderr,
            survivors,
            left: self.left,
            failure: None,
        }
    }
}

/// How many processes descend from this one.
fn living() -> u32 {
    u32::try_from(process::living_descendants_of_self().len()).unwrap_or(u32::MAX)
}

/// Records how the run ended, then says so to everybody attached. A disk that refuses gets a while to recover.
pub(super) fn record(run: &RunDir, exit_file: &ExitFile, peers: Peers, exit: &Exit) -> ExitCode {
    for _attempt in 0..RECORD_ATTEMPTS {
        match exit_file.publish(run, exit) {
            Ok(()) => {
                peers.say_last(&Event::Exit(exit.clone()));
                // The directory of a run that is no task's goes now. That of a task's is kept, and should the disk
                // refuse, it is kept as it is.
                if run.exists(COMMITTED).unwrap_or(false) {
                    let _kept_as_it_is = spec::forget_secrets(run);
                }
                return ExitCode::SUCCESS;
            }
            // Somebody removed the directory, and with it whoever might read it.
            Err(error) if error.is_not_found() => return ExitCode::FAILURE,
            Err(_full_or_broken) => thread::sleep(RECORD_PAUSE),
        }
    }
    ExitCode::FAILURE
}

/// Silence that ends the wait for output after the end of the main process.
const QUIET: Duration = Duration::from_secs(2);
/// The longest wait for output after the end of the main process.
const DRAIN: Duration = Duration::from_secs(10);
/// How long what has closed its output may take to end by itself: no longer than nobody minds who leaves something in the background.
const LEAVING: Duration = Duration::from_millis(50);
/// How often the directory is looked at for a cancel that came without a socket.
const LOOK: Duration = Duration::from_secs(1);
/// The space is reserved, so only a broken disk, or one that copies on write and is full, gets here.
const RECORD_ATTEMPTS: u32 = 60;
const RECORD_PAUSE: Duration = Duration::from_secs(1);
