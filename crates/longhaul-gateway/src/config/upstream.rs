//! An MCP server whose tools are served on, after every key has been checked.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::{fmt, num::NonZeroU32, path::PathBuf, time::Duration};

use longhaul::{
    proto::dialect::Revision,
    server::{Scopes, TaskMode},
    store::{OrphanRule, Rerun},
};
use reqwest::Url;

use super::{
    environment::{self, EnvError, Setting, Sources, Withheld},
    job::BoundHeader,
    policy::Join,
    versions::Versions,
};

pub(super) mod read;

/// One `[servers.<name>]`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UpstreamServer {
    /// Its name, of letters, digits, `_` and `-`.
    pub name: String,
    /// How it is reached.
    pub reach: Reach,
    /// The revision that is spoken with it and no other; `None` finds out the newest that it speaks.
    pub revision: Option<Revision>,
    /// What stands before the names of its tools; `None` puts `NAME_` before those that are taken.
    pub prefix: Option<String>,
    /// The file with what its tools said of themselves when they were first seen; one that says something else is not served.
    pub pins: Option<PathBuf>,
    /// When it is started, or connected to, first.
    pub start: UpstreamStart,
    /// Whether its prompts are served.
    pub prompts: bool,
    /// Whether its resources are.
    pub resources: bool,
    /// How long it may take to start and to say what it offers.
    pub start_within: Duration,
    /// How long it may leave a ping unanswered before it is taken to hang.
    pub ping_within: Duration,
    /// How many calls and other requests of callers may be under way at once, of all its tools together; any number when `None`.
    pub at_once: Option<NonZeroU32>,
    /// What holds for its tools that are not mentioned.
    pub defaults: UpstreamPolicy,
    /// What holds for those that are, by their names there.
    pub tools: BTreeMap<String, UpstreamPolicy>,
}

/// How a server is reached.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "the two transports")]
pub enum Reach {
    /// It is a program, which serves over its standard input and output.
    Command(UpstreamCommand),
    /// It serves over HTTP.
    Url(UpstreamUrl),
}

/// When a server is started, or connected to, first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever serves must know each")]
pub enum UpstreamStart {
    /// `at-once`: what it has is what it says itself.
    #[default]
    AtOnce,
    /// `first-call`: by whatever needs it first. Until then what it had when it was last connected is offered.
    FirstCall,
}

impl UpstreamStart {
    /// Each by its word.
    pub(super) const ALL: [(&str, Self); 2] = [("at-once", Self::AtOnce), ("first-call", Self::FirstCall)];
}

/// A program that serves.
#[derive(Clone)]
#[non_exhaustive]
pub struct UpstreamCommand {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The folder it runs in.
    pub cwd: PathBuf,
    env: Vec<(String, Setting)>,
    pub(super) withheld: Withheld,
}

/// A server over HTTP.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UpstreamUrl {
    /// Its endpoint.
    pub url: Url,
    /// The headers that every request to it has.
    pub headers: Vec<BoundHeader>,
}

/// What holds for a tool of another server: when its calls become tasks, and what becomes of them.
///
/// What the server says of its tools itself is not trusted: a call is made once, unless `rerun` says that it may be made again.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UpstreamPolicy {
    /// Whether it is served.
    pub enabled: bool,
    /// What a caller needs to call it, on top of what every caller needs.
    pub scopes: Scopes,
    /// When a call becomes a task.
    pub task: TaskMode,
    /// How long its outcome is kept.
    pub ttl: Duration,
    /// When a task of it for which nobody comes back is an orphan, and what becomes of it then.
    pub orphan: OrphanRule,
    /// What becomes of a call when this server dies: `Never` again, or `Restart`. What has become a task of the other
    /// server's is gone on with, whatever this says.
    pub rerun: Rerun,
    /// Its version, and those of the tasks that it begins and goes on with.
    pub versions: Versions,
    /// How long a call is held open for a caller that knows no tasks.
    pub hold: Duration,
    /// What a second call with the same arguments does.
    pub join: Join,
    /// How many of it may run at once; any number when `None`.
    pub limit: Option<NonZeroU32>,
    /// How long a call may take in all, restarts of this server included; without a limit when `None`.
    pub timeout: Option<Duration>,
    /// How long a call may go without answer and progress; without a limit when `None`.
    pub idle: Option<Duration>,
}

impl Reach {
    /// All that is configured of how it is reached, so that another way is spelt otherwise. There may be secrets in it.
    ///
    /// What is read elsewhere is spelt by where that is: the same secret may be a new one each day.
    pub(crate) fn spelt(&self) -> String {
        match self {
            Self::Command(UpstreamCommand { argv, cwd, env, .. }) => {
                let env = env.iter().map(|(name, setting)| match setting {
                    Setting::Value(value) => format!("{name:?} is {value:?}"),
                    Setting::From(source) => format!("{name:?} from {source:?}"),
                });
                format!("{argv:?} in {cwd:?} with {:?}", env.collect::<BTreeSet<_>>())
            }
            Self::Url(UpstreamUrl { url, headers }) => {
                // In their order: which of two of one name comes first may be read from it.
                format!("{url} with {:?}", headers.iter().map(BoundHeader::spelt).collect::<Vec<_>>())
            }
        }
    }
}

impl UpstreamServer {
    /// What holds for one of its tools, by its name there.
    #[must_use]
    pub fn policy(&self, tool: &str) -> &UpstreamPolicy {
        self.tools.get(tool).unwrap_or(&self.defaults)
    }
}

impl UpstreamCommand {
    /// Whether it sets this variable.
    pub(super) fn sets(&self, variable: &str) -> bool {
        self.env.iter().any(|(name, _)| name == variable)
    }

    /// The whole environment of the program: this server's own without its secrets (`LONGHAUL_*`, what the configuration
    /// reads or [withholds](super::Config::withhold), passwords of stores, headers for a collector), with the configured variables on top. Values that are kept elsewhere are read now.
    ///
    /// # Errors
    ///
    /// When such a value is not there.
    pub fn environment(&self, sources: &dyn Sources) -> Result<Vec<(OsString, OsString)>, EnvError> {
        environment::environment(&self.env, &self.withheld, sources)
    }
}

/// Values of variables are left out: they may be secrets.
impl fmt::Debug for UpstreamCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamCommand")
            .field("argv", &self.argv)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

/// The limits and defaults of a server.
mod limits {
    use std::time::Duration;

    pub(super) const START_WITHIN: Duration = Duration::from_secs(60);
    pub(super) const START_WITHIN_MIN: Duration = Duration::from_millis(100);
    pub(super) const START_WITHIN_MAX: Duration = Duration::from_secs(3600);
    pub(super) const PING_WITHIN: Duration = Duration::from_secs(10);
    pub(super) const PING_WITHIN_MIN: Duration = Duration::from_millis(100);
    pub(super) const PING_WITHIN_MAX: Duration = Duration::from_secs(3600);
    pub(super) const MAX_NAME: usize = 32;
}
