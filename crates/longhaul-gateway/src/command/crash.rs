//! Named places where a process can be made to kill itself, so that a test can restart after each of them.
//!
//! The mechanism is the store's ([`longhaul_store::crash_point`]): without the feature `crash-points` a crash point is
//! nothing. The supervisor gets the variables that name the point from the server; the command never does.

use longhaul_store::crash_point as store;

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
    "run.remove.renamed",
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
    "supervisor.data.before",
    "supervisor.data.after",
    "supervisor.overwrite.before",
    "supervisor.overwrite.after",
    "supervisor.position.before",
    "supervisor.position.after",
    "supervisor.status.before",
    "supervisor.status.after",
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

/// Marks a point that the process may be told to die at.
#[inline(always)]
pub(super) fn crash_point(name: &'static str) {
    debug_assert!(POINTS.contains(&name), "crash point {name} is not in POINTS");
    store::crash_point(name);
}
