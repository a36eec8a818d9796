//! How the program ends: the same codes for every verb.

use std::process::ExitCode;

use tokio::signal::unix::SignalKind;

/// Each end of the program with its code and what `--help` says of it, in one place: no code can be left out there.
macro_rules! ends {
    ($($(#[$doc:meta])* $end:ident = $code:literal, $said:literal;)*) => {
        /// How the program ended.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub(crate) enum Exit {
            $($(#[$doc])* $end,)*
        }

        impl From<Exit> for ExitCode {
            fn from(exit: Exit) -> Self {
                Self::from(match exit {
                    $(Exit::$end => $code,)*
                })
            }
        }

        const CODES: &[(u8, &str)] = &[$(($code, $said)),*];
    };
}

ends! {
    /// It did what was asked.
    Done = 0, "done";
    /// It failed, or the tool or task did.
    Failed = 1, "the tool or task failed";
    /// The command line or the configuration is wrong.
    Usage = 2, "usage or configuration";
    /// Somebody has to sign in first.
    SignIn = 3, "sign-in needed";
    /// The server cannot be reached.
    Unreachable = 4, "unreachable";
    /// There is no such tool, task or audit trail.
    NotFound = 5, "no such tool, task or audit trail";
    /// An answer is needed and nobody can be asked.
    InputRequired = 6, "an answer is needed and nobody can be asked";
    /// What was waited for still runs.
    StillRunning = 7, "still running";
    /// What was waited for was cancelled.
    Cancelled = 8, "cancelled";
    /// The user left; what runs, runs on.
    Detached = 130, "detached by Ctrl-C; a server: told so twice, it stopped at once";
}

/// The codes, for `--help`.
pub(crate) fn help() -> String {
    let mut help = "Exit codes:".to_owned();
    for (code, said) in CODES.iter().copied().chain([AT_ONCE]) {
        help.push_str(&format!("\n  {code:<3}  {said}"));
    }
    help
}

/// What [`at_once`] comes to of a server; of anything else, and by Ctrl-C, it is that of who leaves.
const AT_ONCE: (u8, &str) = (143, "a server was told twice by SIGTERM to stop, and stopped at once");

/// Ends the process where it stands, with the code that a shell gives one that this signal has ended.
#[expect(clippy::exit, reason = "the one place, so that each code is known")]
pub(crate) fn at_once(signal: SignalKind) -> ! {
    std::process::exit(128 + signal.as_raw_value())
}
