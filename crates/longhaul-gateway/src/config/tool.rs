//! A command served as a tool, after every key has been checked.

use std::{fmt, num::NonZeroU32, path::PathBuf, time::Duration};

use longhaul::{
    server::{Scopes, TaskMode},
    store::{OrphanRule, Rerun},
};

use super::{
    environment::{EnvSource, Variable, VariableValue, Withheld},
    input::{Input, Kind},
    pattern::Pattern,
    policy::{Join, Output},
    template::{Piece, Template},
    versions::Versions,
};

mod command;
mod interpreter;
pub(super) mod read;
mod runs;
mod script;
pub(super) mod variable;

/// One `[tools.<name>]`.
///
/// Its parts that depend on each other (the command line, its inputs, the environment, standard input) can only be
/// read; the rest can be changed, for flags win over the file.
#[derive(Clone)]
#[non_exhaustive]
pub struct CommandTool {
    /// Its name: 1 to 128 of letters, digits, `_`, `.` and `-`.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// What it does, in words for the model that chooses it.
    pub description: Option<String>,
    /// The folder it runs in, resolved against the folder of the configuration file.
    pub cwd: PathBuf,
    /// How long it may run; without a limit when `None`.
    pub timeout: Option<Duration>,
    /// How long it has between being told to end and being killed.
    pub grace: Duration,
    /// How many of it may run at once; any number when `None`.
    pub limit: Option<NonZeroU32>,
    /// What its standard output is.
    pub output: Output,
    /// How many bytes of each output stream are kept.
    pub max_output: u64,
    /// What it says about its own behaviour.
    pub annotations: Annotations,
    /// What a caller needs to call it, on top of what every caller needs.
    pub scopes: Scopes,
    /// When a call becomes a task.
    pub task: TaskMode,
    /// How long its outcome is kept.
    pub ttl: Duration,
    /// When a task of it for which nobody comes back is an orphan, and what becomes of it then.
    pub orphan: OrphanRule,
    /// What becomes of it when the server dies.
    pub rerun: Rerun,
    /// Its version, and those of the tasks that it begins and goes on with.
    pub versions: Versions,
    /// How long a call is held open for a caller that knows no tasks.
    pub hold: Duration,
    /// How its output tells its progress.
    pub progress: Option<Progress>,
    /// What a second call with the same arguments does.
    pub join: Join,
    pub(super) command: Vec<Template>,
    pub(super) env: Vec<Variable>,
    pub(super) withheld: Withheld,
    pub(super) stdin: Option<Template>,
    pub(super) inputs: Vec<Input>,
}

impl CommandTool {
    /// The inputs, in the order of the file.
    #[must_use]
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The command line as configured, with its placeholders: what a person is shown.
    pub fn command(&self) -> impl Iterator<Item = String> {
        self.command.iter().map(|template| self.written(template))
    }

    /// The program, as configured.
    #[must_use]
    pub fn program(&self) -> String {
        self.command.first().map(|template| self.written(template)).unwrap_or_default()
    }

    /// The variables whose values are read elsewhere when a call starts.
    pub fn env_sources(&self) -> impl Iterator<Item = (&str, &EnvSource)> {
        self.env.iter().filter_map(|variable| match &variable.value {
            VariableValue::From(source) => Some((variable.name.as_str(), source)),
            VariableValue::Template(_) => None,
        })
    }

    /// The tool as one calls it: `test(crate: string, release?: boolean = false)`.
    #[must_use]
    pub fn signature(&self) -> String {
        signature(&self.name, &self.inputs)
    }

    /// The inputs that take a list.
    pub(super) fn is_list(&self, index: usize) -> bool {
        matches!(self.inputs[index].kind, Kind::Array(_))
    }

    /// The inputs whose values may not begin with `-`, because they begin an argument that would then be an option.
    pub(super) fn refuses_dash(&self, index: usize) -> bool {
        let mut options = self.command.iter().take_while(|template| template.as_literal() != Some("--"));
        !self.inputs[index].allow_dash && options.any(|template| template.first_input() == Some(index))
    }

    /// Whether it sets this variable.
    pub(super) fn sets(&self, variable: &str) -> bool {
        self.env.iter().any(|set| set.name == variable)
    }

    fn written(&self, template: &Template) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Literal(text) => text.clone(),
            Piece::Input(index) => format!("{{{}}}", self.inputs[*index].name),
        };
        template.pieces().iter().map(piece).collect()
    }
}

/// A tool as one calls it.
pub(super) fn signature(name: &str, inputs: &[Input]) -> String {
    let inputs: Vec<String> = inputs.iter().map(Input::signature).collect();
    format!("{name}({})", inputs.join(", "))
}

/// Leaves out the texts of the environment and of standard input, which may be secrets.
impl fmt::Debug for CommandTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandTool")
            .field("name", &self.name)
            .field("command", &self.command().collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .field("env", &self.env)
            .field("inputs", &self.inputs)
            .field("task", &self.task)
            .field("rerun", &self.rerun)
            .finish_non_exhaustive()
    }
}

/// What a tool says about its own behaviour, in the words of the specification. `None`: it says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Annotations {
    /// It changes nothing.
    pub read_only_hint: Option<bool>,
    /// What it changes may be lost.
    pub destructive_hint: Option<bool>,
    /// Calling it twice with the same arguments does no more than calling it once.
    pub idempotent_hint: Option<bool>,
    /// It deals with the world outside the machine.
    pub open_world_hint: Option<bool>,
}

/// How lines of output tell progress: a pattern, and which of its groups is what.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Searched for in each line. Its first group is the progress made, and the second, if any, the total.
    pub pattern: Pattern,
}

/// The limits and defaults of a tool.
pub(super) mod limits {
    use std::time::Duration;

    pub(in super::super) const GRACE: Duration = Duration::from_secs(10);
    pub(in super::super) const GRACE_MAX: Duration = Duration::from_secs(3600);
    pub(in super::super) const TASK_AFTER: Duration = Duration::from_secs(2);
    pub(in super::super) const ORPHAN_GRACE: Duration = Duration::from_secs(60);
    pub(in super::super) const ORPHAN_GRACE_MIN: Duration = Duration::from_secs(1);
    pub(in super::super) const ORPHAN_GRACE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
    pub(in super::super) const TTL: Duration = Duration::from_secs(24 * 3600);
    pub(in super::super) const TTL_MIN: Duration = Duration::from_secs(1);
    pub(in super::super) const TTL_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
    pub(in super::super) const HOLD: Duration = Duration::from_secs(50);
    pub(in super::super) const HOLD_MIN: Duration = Duration::from_secs(1);
    pub(in super::super) const DAY: Duration = Duration::from_secs(24 * 3600);
    pub(in super::super) const TIMEOUT_MIN: Duration = Duration::from_millis(1);
    pub(in super::super) const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
    pub(in super::super) const MAX_OUTPUT: u64 = 64 << 20;
    pub(in super::super) const MAX_OUTPUT_MIN: u64 = 1 << 10;
    pub(in super::super) const MAX_OUTPUT_MAX: u64 = 1 << 40;
    pub(in super::super) const MAX_NAME: usize = 128;
    pub(in super::super) const LONG_NAME: usize = 50;
    pub(in super::super) const MAX_PATTERN_GROUPS: usize = 2;
}
