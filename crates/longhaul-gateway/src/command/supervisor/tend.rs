//! Tends a program that serves whoever started this process, over the streams that this one was given: once either of the
//! two has ended, so does everything that the program has started, wherever it went, or what of it has stayed in its process group.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write as _},
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::OwnedFd,
    io::Errno,
    process::{
        DumpableBehavior, Pid, PidfdFlags, Signal, WaitStatus, getpgrp, getpid, getppid,
        kill_current_process_group, pidfd_open, set_child_subreaper, set_dumpable_behavior, setpgid,
    },
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
};

use super::{ending::Ending, reap::reap, signals::Signals};
use crate::command::process;

/// Runs `program` for the process with the number `starter`, which must be this one's parent. This is what
/// `longhaul tend PID PROGRAM …` does; a server starts it for a server that it serves on, people do not.
///
/// The program gets the standard streams of this process, which keeps none of them. SIGTERM ends it and all that it has
/// started, at once the orderly and after a second the other way; so does the end of `starter`, however it came, once the
/// program has had two seconds to end by itself when its input did.
///
/// The process ends as the program did, by the same exit code or the same signal; with 127 when it could not be started.
pub fn tend(starter: i32, program: &OsString, arguments: &[OsString]) -> ExitCode {
    let tended = become_its_subreaper().and_then(|()| Tended::start(starter, program, arguments));
    tended.map_or_else(|error| not_started(program, &error), Tended::run)
}

/// The same, but nothing ends by it that has left the process group, which this process leads: a server's durable commands do so on
/// purpose. While `starter` lives the group is its to end. This is what `longhaul tend-group PID PROGRAM …` does.
pub fn tend_group(starter: i32, program: &OsString, arguments: &[OsString]) -> ExitCode {
    let tended = lead_a_group().and_then(|()| Tended::start(starter, program, arguments));
    tended.map_or_else(|error| not_started(program, &error), Tended::run_in_group)
}

fn become_its_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

fn lead_a_group() -> io::Result<()> {
    if getpgrp() != getpid() {
        setpgid(None, None)?;
    }
    Ok(())
}

fn not_started(program: &OsString, error: &io::Error) -> ExitCode {
    let said = format!("{} cannot be started: {error}\n", program.to_string_lossy());
    // Without a stderr the exit code has to do.
    let _said = io::stderr().write_all(said.as_bytes());
    ExitCode::from(127)
}

/// A program that runs.
struct Tended {
    program: Pid,
    status: Option<WaitStatus>,
    starter: Starter,
    signals: Signals,
    ending: Option<Ending>,
    /// When the program should have ended by itself, its starter being gone.
    orphaned_until: Option<Instant>,
}

impl Tended {
    fn start(starter: i32, program: &OsString, arguments: &[OsString]) -> io::Result<Self> {
        let signals = Signals::handle()?;
        // What of the streams is held here would keep the other side from seeing that the program has closed it.
        let null = File::options().read(true).write(true).open("/dev/null")?;
        let starter = Starter::of(starter)?;
        // Not waited for by this handle: the loop reaps every child, this one and what it leaves behind, by number.
        let program = Pid::from_child(&Command::new(program).args(arguments).spawn()?);
        dup2_stdin(&null)?;
        dup2_stdout(&null)?;
        dup2_stderr(&null)?;
        Ok(Self { program, status: None, starter, signals, ending: None, orphaned_until: None })
    }

    fn run(mut self) -> ExitCode {
        loop {
            self.reap();
            let now = Instant::now();
            let is_told = self.signals.take_terminate();
            let is_late = self.orphaned_until.is_some_and(|until| now >= until);
            if self.ending.is_none() && (is_told || is_late || self.status.is_some()) {
                self.ending = Some(Ending::begin(now, GRACE, None));
            }
            if let Some(ending) = &mut self.ending {
                let is_given_up = ending.advance(now, None);
                if is_given_up || self.status.is_some() && process::living_descendants_of_self().is_empty() {
                    return end_as(self.status);
                }
            }
            self.wait();
        }
    }

    fn run_in_group(mut self) -> ExitCode {
        loop {
            self.reap();
            // Who tells the group to end tells the program, too.
            let _is_told = self.signals.take_terminate();
            match self.orphaned_until {
                None if self.status.is_some() => return end_as(self.status),
                Some(until) if self.status.is_some() || Instant::now() >= until => {
                    end_own_group();
                    return end_as(self.status);
                }
                _ => self.wait(),
            }
        }
    }

    /// Takes note of what has ended: the program, or what it left to us.
    fn reap(&mut self) {
        // Its number may be another's once it is reaped, and then its status is known.
        let reaped = reap(self.program).program.filter(|_| self.status.is_none());
        self.status = self.status.or(reaped);
    }

    /// Waits until something has happened, or should.
    fn wait(&mut self) {
        let now = Instant::now();
        let ending = self.ending.as_ref().map(Ending::deadline);
        let until = [ending, self.orphaned_until].into_iter().flatten().min();
        let patience =
            until.map_or(LONGEST_WAIT, |until| until.saturating_duration_since(now).min(LONGEST_WAIT));
        let patience = Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap_or(1),
            tv_nsec: patience.subsec_nanos().into(),
        };
        let mut waits = vec![PollFd::new(self.signals.wake(), PollFlags::IN)];
        if self.orphaned_until.is_none()
            && let Some(end) = &self.starter.end
        {
            waits.push(PollFd::new(end, PollFlags::IN));
        }
        let polled = poll(&mut waits, Some(&patience));
        let is_over = waits.get(1).is_some_and(|end| !end.revents().is_empty());
        if self.orphaned_until.is_none() && (is_over || self.starter.is_gone()) {
            self.orphaned_until = Some(Instant::now() + PATIENCE);
        }
        // A wait that fails must not become a loop that never rests.
        if polled.is_err_and(|error| error != Errno::INTR) {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Whoever started this process.
struct Starter {
    pid: Pid,
    /// Readable once it has ended. Linux has none before 5.3, and some sandboxes allow none: then the end is seen at the next look.
    end: Option<OwnedFd>,
}

impl Starter {
    /// It, if it is this process's parent.
    fn of(pid: i32) -> io::Result<Self> {
        let gone = || io::Error::other("whoever started this is gone");
        let pid = Pid::from_raw(pid).ok_or_else(gone)?;
        let starter = Self { pid, end: pidfd_open(pid, PidfdFlags::empty()).ok() };
        // The number could be another's by now, and then the parent is another, too.
        if starter.is_gone() { Err(gone()) } else { Ok(starter) }
    }

    /// Whoever has no parent any more has another.
    fn is_gone(&self) -> bool {
        getppid() != Some(self.pid)
    }
}

/// This process is in it, heeds the first signal no more than any that it was sent before, and ends by the second.
fn end_own_group() {
    for signal in [Signal::TERM, Signal::CONT] {
        // Whoever is left that cannot be signalled is not ours to end.
        let _delivered = kill_current_process_group(signal);
    }
    std::thread::sleep(GRACE);
    let _delivered = kill_current_process_group(Signal::KILL);
}

/// Ends this process by the signal that ended the program, or gives the program's exit code: whoever waits for this one is to see
/// how that one ended.
fn end_as(status: Option<WaitStatus>) -> ExitCode {
    let Some(status) = status else { return ExitCode::FAILURE };
    if let Some(signal) = status.terminating_signal() {
        // The core, if there is to be one, is the program's.
        let _without_core = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        // It comes back where the signal ends nothing by default: those of real time are not known there.
        let _ended = signal_hook::low_level::emulate_default_handler(signal);
        return code(128 + signal);
    }
    status.exit_status().map_or(ExitCode::FAILURE, code)
}

fn code(code: i32) -> ExitCode {
    u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// How long what is told to end may take for it.
const GRACE: Duration = Duration::from_secs(1);

/// How long a program may take to end by itself once whoever it serves is gone.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long nothing is looked at: a signal that comes just before is seen then.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
