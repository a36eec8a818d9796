//! Named points at which a test makes the process kill itself.
//!
//! Without the feature `crash-points` a point is an empty function; with it, the process that finds its point in
//! `LONGHAUL_CRASH_POINT` (`name`, or `name@3` for the third time it is reached) appends the name to the file in
//! `LONGHAUL_CRASH_REPORT`, syncs it, and ends itself with SIGKILL.

/// Every point in this crate: before and after the commit of each kind of write, and at every statement of a migration.
pub const POINTS: &[&str] = &[
    "store.open.before",
    "store.open.after",
    "store.migrate.statement",
    "store.create.before",
    "store.create.after",
    "store.claim.before",
    "store.claim.after",
    "store.renew.before",
    "store.renew.after",
    "store.release.before",
    "store.release.after",
    "store.write.before",
    "store.write.after",
    "store.answer.before",
    "store.answer.after",
    "store.finish.before",
    "store.finish.after",
    "store.cancel.before",
    "store.cancel.after",
    "store.came_back.before",
    "store.came_back.after",
    "store.make_due.before",
    "store.make_due.after",
    "store.sweep.before",
    "store.sweep.after",
    "store.erase.before",
    "store.erase.after",
];

/// Marks a point that the process may be told to die at.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub fn crash_point(_name: &str) {}

#[cfg(feature = "crash-points")]
pub use armed::crash_point;

#[cfg(feature = "crash-points")]
mod armed {
    use std::{
        env,
        fs::OpenOptions,
        io::{self, Write as _},
        sync::{
            OnceLock,
            atomic::{AtomicU64, Ordering},
        },
    };

    /// The one point this process dies at.
    struct Target {
        name: String,
        hits_left: AtomicU64,
    }

    /// Marks a point that the process may be told to die at.
    pub fn crash_point(name: &str) {
        static TARGET: OnceLock<Option<Target>> = OnceLock::new();
        let target = TARGET.get_or_init(|| env::var("LONGHAUL_CRASH_POINT").ok().map(|text| parse(&text)));
        if let Some(target) = target
            && target.name == name
            && target.hits_left.fetch_sub(1, Ordering::SeqCst) == 1
        {
            if let Err(error) = report(name) {
                tracing::error!(name, %error, "a crash point was reached and could not be reported");
            }
            die();
        }
    }

    fn parse(text: &str) -> Target {
        let (name, hit) =
            text.split_once('@').map_or((text, 1), |(name, hit)| (name, hit.parse().unwrap_or(1)));
        Target { name: name.to_owned(), hits_left: AtomicU64::new(hit) }
    }

    fn report(name: &str) -> io::Result<()> {
        let Some(path) = env::var_os("LONGHAUL_CRASH_REPORT") else { return Ok(()) };
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        writeln!(file, "{name}")?;
        file.sync_all()
    }

    #[cfg(unix)]
    fn die() {
        use rustix::process::{Signal, getpid, kill_process};
        // If even this fails, an abort is as sudden.
        if kill_process(getpid(), Signal::KILL).is_err() {
            std::process::abort();
        }
        loop {
            std::thread::park();
        }
    }

    #[cfg(not(unix))]
    fn die() {
        std::process::abort();
    }
}
