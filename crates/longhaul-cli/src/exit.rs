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
    /// It failed.
    Failed,
    /// The command line or the configuration is wrong.
    Usage,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
        })
    }
}
