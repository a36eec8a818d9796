//! Commands that outlive the server that started them.
//!
//! A command runs under a small supervisor process of its own. The supervisor leads its own session, drains the
//! command's output into bounded files, enforces timeout and limits, and records how the command ended, whether or
//! not a server lives. A server starts it ([`Run::start`]), tells it that it may live on ([`Run::commit`]), and a
//! later server finds it again ([`Run::attach`]). Until it is committed a run ends with the server that started it,
//! so that a call that was lost leaves nothing behind.
//!
//! Everything between them is a directory per run ([`RunsDir`]) in a versioned format. Its lock and files alone say
//! what became of a run ([`State`]); the socket in it is only faster. [`Output`] reads what the command wrote, by a
//! cursor, while it runs and after.
//!
//! Linux only has all of it. On other Unix systems a process that calls `setsid` leaves the run: there is no
//! subreaper and no `/proc` to find it again.
//!
//! # Examples
//!
//! ```no_run
//! use longhaul_gateway::command::{Cut, Run, RunsDir, Spec, Stream};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let runs = RunsDir::open("/var/lib/longhaul/runs")?;
//! let spec = Spec::new(["make", "-j4"], "/srv/project").with_env([("PATH", "/usr/bin:/bin")]);
//! let run = Run::start(&runs, "task-1", &spec).await?;
//! run.commit().await?;
//! let exit = run.wait().await?;
//! let end = run.output(Stream::Stdout)?.read_end(64 << 10, Cut::AtChar)?;
//! println!("{:?}: {}", exit.code, String::from_utf8_lossy(&end.bytes));
//! # Ok(())
//! # }
//! ```
#![cfg(unix)]

mod blocking;
mod crash;
mod exit;
mod host;
mod launch;
mod layout;
mod leftover;
mod line;
mod link;
mod lock;
mod output;
mod position;
mod process;
mod program;
mod progress;
mod protocol;
mod record;
mod run;
mod runs;
mod spec;
mod state;
mod status;
mod stream;
mod supervisor;

pub use crash::POINTS as CRASH_POINTS;
pub use exit::{Cause, Exit, Gap, StartFailure, StreamSummary};
pub use launch::{StartError, SupervisorProgram};
pub use layout::{FileError, Stream};
pub use leftover::Processes;
pub use output::{Chunk, Cut, Output};
pub use progress::Progress;
pub use run::{Run, RunError};
pub use runs::{RunsDir, RunsError, Usage};
pub use spec::{Noted, Spec, SpecError};
pub use state::State;
pub use status::Status;
pub use supervisor::supervise;
#[cfg(target_os = "linux")]
pub use supervisor::{tend, tend_group};

pub(crate) use program::{DEFAULT_PATH, is_executable};
