//! What is left of a run whose supervisor was killed, and how it is ended.
//!
//! The supervisor was the parent of all, so the kernel's tree no longer says what belongs to the run. These do:
//!
//! - the run's unguessable mark in the environment that a process was started with;
//! - the session of the supervisor, for a process that began while the supervisor was known to live: the number
//!   of a session is not given away while anyone is in it;
//! - that session, when one of the processes above is in it: then it is still the same session;
//! - descent from one of these.
//!
//! A process that is none of them is never touched, whatever number it has.

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::{
    layout::{FileError, PID, PID_SIZE, RunDir},
    process::{self, Process, raw},
    record::{self, Content},
    spec::{MARKER_VARIABLE, StoredSpec},
    status,
};

/// The `pid` file: for people, and for telling what is left.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct PidFacts {
    /// Boot id and pid namespace.
    pub(super) namespace: String,
    /// The supervisor, which is also its session.
    pub(super) supervisor: i32,
    pub(super) supervisor_start_ticks: u64,
    /// The command, which is also its process group; `None` until it has started.
    pub(super) command: Option<i32>,
    pub(super) command_start_ticks: Option<u64>,
}

/// The processes of a run that lives.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Processes {
    /// Its supervisor, whose number is that of its session, too.
    pub supervisor: i32,
    /// The command, whose number is that of its process group, too; `None` until it has started.
    pub command: Option<i32>,
}

impl PidFacts {
    /// Those that live, of a run whose supervisor does.
    pub(super) fn processes(&self) -> Processes {
        Processes { supervisor: self.supervisor, command: self.command }
    }

    /// Of the calling supervisor.
    pub(super) fn of_self() -> Self {
        let own = rustix::process::getpid();
        Self {
            namespace: process::namespace_id(),
            supervisor: raw(own),
            supervisor_start_ticks: Process::of(raw(own)).map_or(0, |own| own.start_ticks),
            command: None,
            command_start_ticks: None,
        }
    }

    pub(super) fn read(run: &RunDir) -> Result<Option<Self>, FileError> {
        let file = run.read(PID)?;
        let content = record::read(&file, PID_SIZE).map_err(FileError::at("read", &run.file_path(PID)))?;
        Ok(match content {
            Content::Whole(facts) => Some(facts),
            Content::Empty | Content::Damaged => None,
        })
    }

    pub(super) fn write(&self, run: &RunDir) -> Result<(), FileError> {
        let file = run.write(PID)?;
        let path = run.file_path(PID);
        record::write(&file, PID_SIZE, self).map_err(FileError::at("write", &path))?;
        file.sync_all().map_err(FileError::at("flush", &path))
    }
}

/// Ends what is left of a lost run: SIGTERM, its grace, SIGKILL. Blocks meanwhile. Gives back how many could not
/// be ended. Several may do this at once.
///
/// # Errors
///
/// When the directory cannot be read; nothing was signalled then.
pub(super) fn end(run: &RunDir, spec: &StoredSpec) -> Result<usize, FileError> {
    // Without the file nothing was started yet.
    let Some(facts) = PidFacts::read(run)? else { return Ok(0) };
    if facts.namespace != process::namespace_id() {
        return Ok(0);
    }
    let last_alive = status::read(run)?.alive_ticks.max(facts.command_start_ticks.unwrap_or(0));
    let mark = format!("{MARKER_VARIABLE}={}", spec.marker);
    let left = || {
        find(&process::all(), &facts, last_alive, |process| {
            process::was_started_with(process, mark.as_bytes())
        })
    };
    Ok(end_all(left, spec.grace()))
}

/// Ends what `left` finds, until it finds nothing; gives back how many could not be ended.
fn end_all(mut left: impl FnMut() -> Vec<Process>, grace: Duration) -> usize {
    let began = Instant::now();
    for process in left() {
        process.signal(Signal::TERM);
        process.signal(Signal::CONT);
    }
    // The list of processes is no snapshot: who forks while it is read, or is just executing another program and
    // shows no environment, can be missing in one look, and not in two.
    let mut looked_in_vain = false;
    loop {
        let left = left();
        let waited = began.elapsed();
        if (left.is_empty() && looked_in_vain) || waited > grace + KILL_PATIENCE {
            return left.len();
        }
        looked_in_vain = left.is_empty();
        if waited >= grace {
            for process in left {
                process.signal(Signal::KILL);
            }
        }
        thread::sleep(PAUSE);
    }
}

/// The processes that belong to the run, parents first where that is known.
fn find(
    all: &[Process],
    facts: &PidFacts,
    last_alive: u64,
    is_marked: impl Fn(&Process) -> bool,
) -> Vec<Process> {
    let session = facts.supervisor;
    let lived_beside = |process: &Process| {
        process.session == session
            && (facts.supervisor_start_ticks..=last_alive).contains(&process.start_ticks)
    };
    let is_living = |process: &&Process| !process.is_zombie;
    let mut found: Vec<Process> = all
        .iter()
        .filter(is_living)
        .filter(|process| lived_beside(process) || is_marked(process))
        .copied()
        .collect();
    if found.iter().any(|process| process.session == session) {
        let more = all.iter().filter(is_living).filter(|process| process.session == session);
        let more: Vec<Process> = more.filter(|process| !found.contains(process)).copied().collect();
        found.extend(more);
    }
    let roots: Vec<i32> = found.iter().map(|process| raw(process.pid)).collect();
    found.extend(process::descendants(all, &roots).iter().filter(is_living));
    // A supervisor of another run that a command of this one started is found by descent, and it must be: the
    // tree belongs to the run. The caller is not part of what it ends.
    found.retain(|process| process.pid != rustix::process::getpid());
    found
}

const KILL_PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
impl Processes {
    /// Makes a run of this directory, which lives by these as long as its lock is kept, which is given back.
    pub(crate) fn play(self, dir: &std::path::Path) -> std::fs::File {
        use super::layout::{LOCK, STARTED};
        std::fs::create_dir(dir).unwrap();
        let run = RunDir::open(dir).unwrap();
        for (name, content) in [(LOCK, Vec::new()), (STARTED, Vec::new()), (PID, record::reserved(PID_SIZE))]
        {
            run.create(name, &content).unwrap();
        }
        let facts = PidFacts { supervisor: self.supervisor, command: self.command, ..PidFacts::of_self() };
        facts.write(&run).unwrap();
        let lock = run.write(LOCK).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
        lock
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::Pid;

    use super::*;

    const SESSION: i32 = 500_000;

    fn facts() -> PidFacts {
        PidFacts {
            namespace: String::new(),
            supervisor: SESSION,
            supervisor_start_ticks: 100,
            command: Some(500_001),
            command_start_ticks: Some(101),
        }
    }

    fn process(pid: i32, parent: i32, session: i32, start_ticks: u64) -> Process {
        Process { pid: Pid::from_raw(pid).unwrap(), parent, session, start_ticks, is_zombie: false }
    }

    fn found(all: &[Process], marked: &[i32]) -> Vec<i32> {
        find(all, &facts(), 150, |process| marked.contains(&raw(process.pid)))
            .iter()
            .map(|found| raw(found.pid))
            .collect()
    }

    #[test]
    fn the_session_counts_while_the_supervisor_was_known_to_live() {
        assert_eq!(found(&[process(7, 1, SESSION, 120)], &[]), [7]);
    }

    /// K23 of `conformance/REQUIREMENTS.md`.
    #[test]
    fn a_later_session_of_the_same_number_is_left_alone() {
        assert!(found(&[process(SESSION, 1, SESSION, 900), process(7, 1, SESSION, 901)], &[]).is_empty());
        assert!(found(&[process(7, 1, SESSION, 99)], &[]).is_empty(), "older than the supervisor");
    }

    #[test]
    fn one_certain_member_vouches_for_the_session() {
        assert_eq!(found(&[process(7, 1, SESSION, 120), process(8, 1, SESSION, 900)], &[]), [7, 8]);
        assert_eq!(found(&[process(7, 1, SESSION, 880), process(8, 1, SESSION, 900)], &[7]), [7, 8]);
    }

    #[test]
    fn who_left_the_session_is_known_by_its_mark_and_vouches_for_its_children() {
        let all = [process(7, 1, 7, 120), process(8, 7, 8, 900), process(9, 1, 9, 120)];
        assert_eq!(found(&all, &[7]), [7, 8]);
    }

    #[test]
    fn one_look_in_vain_is_not_enough() {
        // A process that forks while the list is read is missing in the second look, and there in the third.
        let nobody = process(i32::MAX, 1, SESSION, 120);
        let mut looks = [vec![nobody], vec![], vec![nobody], vec![], vec![]].into_iter();
        assert_eq!(end_all(|| looks.next().expect("two looks in vain end it"), Duration::ZERO), 0);
        assert_eq!(looks.len(), 0, "and nothing before that");
    }

    #[test]
    fn the_dead_need_no_end() {
        let zombie = Process { is_zombie: true, ..process(7, 1, SESSION, 120) };
        assert!(found(&[zombie], &[7]).is_empty());
    }
}
