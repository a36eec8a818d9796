//! How the program ends: the same codes for every verb.

use std::process::ExitCode;

/// The codes, for `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0    done
  1    the tool or task failed
  2    usage or configuration
  3    sign-in needed
  4    unreachable
  5    no such tool or task
  6    an answer is needed and nobody can be asked
  7    still running
  8    cancelled
  130  detached";

/// How the program ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done,
    /// It failed, or the tool or task did.
    Failed,
    /// The command line or the configuration is wrong.
    Usage,
    /// Somebody has to sign in first.
    SignIn,
    /// The server cannot be reached.
    Unreachable,
    /// There is no such tool or task.
    NotFound,
    /// An answer is needed and nobody can be asked.
    InputRequired,
    /// What was waited for still runs.
    StillRunning,
    /// What was waited for was cancelled.
    Cancelled,
    /// The user left; what runs, runs on.
    Detached,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::SignIn => 3,
            Exit::Unreachable => 4,
            Exit::NotFound => 5,
            Exit::InputRequired => 6,
            Exit::StillRunning => 7,
            Exit::Cancelled => 8,
            Exit::Detached => 130,
        })
    }
}
