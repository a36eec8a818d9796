//! Named places where a process can be made to kill itself, so that a test can restart after each of them.
//!
//! Without the feature `crash-points` a crash point is nothing. With it, a process whose environment holds
//! `LONGHAUL_CRASH_POINT=name` (or `name@3` for the third time it passes) appends the name to the file named by
//! `LONGHAUL_CRASH_REPORT`, flushes it to the disk, and sends itself SIGKILL. The supervisor gets both variables
//! from the server; the command never does.

/// Every crash point of this module: `run.*` in the server, `supervisor.*` in the supervisor.
pub const POINTS: &[&str] = &[
    "run.create.before",
    "run.create.after",
    "run.spec.before",
    "run.spec.after",
    "run.reserve.before",
    "run.reserve.after",
    "run.publish.before",
    "run.publish.after",
    "run.spawn.before",
    "run.spawn.after",
    "run.commit.before",
    "run.commit.after",
    "run.cancel.before",
    "run.cancel.after",
    "run.remove.before",
    "run.remove.after",
    "supervisor.lock.before",
    "supervisor.lock.after",
    "supervisor.socket.before",
    "supervisor.socket.after",
    "supervisor.started.before",
    "supervisor.started.after",
    "supervisor.pid.before",
    "supervisor.pid.after",
    "supervisor.command.before",
    "supervisor.command.after",
    "supervisor.committed.before",
    "supervisor.committed.after",
    "supervisor.output.before",
    "supervisor.output.after",
    "supervisor.exit.before",
    "supervisor.exit.after",
    "supervisor.publish.before",
    "supervisor.publish.after",
];

/// The variables that a server hands on to its supervisors.
#[cfg(feature = "crash-points")]
pub(super) const VARIABLES: &[&str] = &["LONGHAUL_CRASH_POINT", "LONGHAUL_CRASH_REPORT"];
#[cfg(not(feature = "crash-points"))]
pub(super) const VARIABLES: &[&str] = &[];

#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub(super) const fn crash_point(_name: &'static str) {}

#[cfg(feature = "crash-points")]
pub(super) fn crash_point(name: &'static str) {
    use std::{collections::HashMap, sync::Mutex};

    static HITS: Mutex<Option<HashMap<&'static str, u64>>> = Mutex::new(None);

    assert!(POINTS.contains(&name), "crash point {name} is not in POINTS");
    let Ok(wanted) = std::env::var("LONGHAUL_CRASH_POINT") else { return };
    let (wanted, nth) = match wanted.split_once('@') {
        Some((wanted, nth)) => (wanted, nth.parse().unwrap_or(1)),
        None => (wanted.as_str(), 1_u64),
    };
    if wanted != name {
        return;
    }
    let hit = {
        let mut hits = HITS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let hit = hits.get_or_insert_with(HashMap::new).entry(name).or_insert(0);
        *hit += 1;
        *hit
    };
    if hit == nth {
        report(name);
        let _never_returns =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        loop {
            std::thread::park();
        }
    }
}

#[cfg(feature = "crash-points")]
fn report(name: &str) {
    use std::io::Write as _;

    let Some(path) = std::env::var_os("LONGHAUL_CRASH_REPORT") else { return };
    let written = std::fs::File::options()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| writeln!(file, "{name}").and_then(|()| file.sync_all()));
    // A test that finds no report fails, so this must not pass silently as "point not reached".
    assert!(written.is_ok(), "the crash report cannot be written: {written:?}");
}
