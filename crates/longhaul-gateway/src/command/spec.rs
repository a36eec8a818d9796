//! What to run and within which limits: [`Spec`], its checks, and `spec.json`.

use std::{
    ffi::{OsStr, OsString},
    fmt, io,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use regex::bytes::{Regex, RegexBuilder};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{
    layout::{FileError, RunDir, SPEC, SPEC_WITHOUT_SECRETS, STDIN},
    state,
};

/// One command: argv, directory, environment, input, limits.
///
/// ```
/// use longhaul_gateway::command::Spec;
/// use std::time::Duration;
///
/// let spec = Spec::new(["cargo", "test"], "/srv/project")
///     .with_env([("PATH", "/usr/local/bin:/usr/bin:/bin")])
///     .with_timeout(Duration::from_secs(3600));
/// assert_eq!(spec.argv[0], "cargo");
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Spec {
    /// The program and its arguments; a program without `/` is looked up in the `PATH` of [`Spec::env`].
    pub argv: Vec<OsString>,
    /// The absolute directory that the command starts in.
    pub cwd: PathBuf,
    /// The whole environment of the command, to which only `LONGHAUL_RUN` is added: it marks what the command
    /// starts, so that the remains of a run whose supervisor was killed can be told from other processes.
    pub env: Vec<(OsString, OsString)>,
    /// What the command reads from stdin; `None` is `/dev/null`. At most [`Spec::MAX_STDIN`] bytes.
    pub stdin: Option<Vec<u8>>,
    /// How long the command may run before it is ended; `None` is as long as it likes.
    pub timeout: Option<Duration>,
    /// From SIGTERM to SIGKILL when the run is ended. Ten seconds unless set.
    pub grace: Duration,
    /// How many bytes of each output stream are kept: the first half and the last. 64 MiB unless set.
    pub max_output: u64,
    /// A pattern over output lines whose first group is a progress value and whose second, if any, is the total.
    pub progress: Option<String>,
    /// What the server notes for whoever reads the run's end, itself or another: see [`Noted`]. Means nothing to
    /// the supervisor.
    pub note: Option<serde_json::Value>,
}

impl Spec {
    /// The greatest input of a command, in bytes.
    pub const MAX_STDIN: usize = 64 << 20;
    /// The grace of a spec that sets none.
    pub const DEFAULT_GRACE: Duration = Duration::from_secs(10);
    /// The output limit of a spec that sets none, in bytes per stream.
    pub const DEFAULT_MAX_OUTPUT: u64 = 64 << 20;

    /// A command with an empty environment, no input, no timeout, and the default limits.
    pub fn new<A: Into<OsString>>(argv: impl IntoIterator<Item = A>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            cwd: cwd.into(),
            env: Vec::new(),
            stdin: None,
            timeout: None,
            grace: Self::DEFAULT_GRACE,
            max_output: Self::DEFAULT_MAX_OUTPUT,
            progress: None,
            note: None,
        }
    }

    /// Replaces the environment.
    #[must_use]
    pub fn with_env<K: Into<OsString>, V: Into<OsString>>(
        mut self,
        env: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.env = env.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        self
    }

    /// Sets what the command reads from stdin.
    #[must_use]
    pub fn with_stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Sets how long the command may run.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the time from SIGTERM to SIGKILL.
    #[must_use]
    pub const fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets how many bytes of each stream are kept.
    #[must_use]
    pub const fn with_max_output(mut self, bytes: u64) -> Self {
        self.max_output = bytes;
        self
    }

    /// Sets the pattern that finds progress in output lines.
    #[must_use]
    pub fn with_progress(mut self, pattern: impl Into<String>) -> Self {
        self.progress = Some(pattern.into());
        self
    }

    /// Sets what is noted for whoever reads the run's end.
    #[must_use]
    pub fn with_note(mut self, note: serde_json::Value) -> Self {
        self.note = Some(note);
        self
    }

    /// Checks everything that needs no look at the machine.
    ///
    /// # Errors
    ///
    /// The first [`SpecError`] found.
    pub fn validate(&self) -> Result<(), SpecError> {
        if self.argv.first().is_none_or(|program| program.is_empty()) {
            return Err(SpecError::NoProgram);
        }
        if !self.cwd.is_absolute() {
            return Err(SpecError::RelativeDirectory { cwd: self.cwd.clone() });
        }
        let texts = self.argv.iter().chain(self.env.iter().flat_map(|(key, value)| [key, value]));
        if texts.chain([&self.cwd.as_os_str().to_owned()]).any(|text| text.as_bytes().contains(&0)) {
            return Err(SpecError::Nul);
        }
        if let Some((key, _)) =
            self.env.iter().find(|(key, _)| key.is_empty() || key.as_bytes().contains(&b'='))
        {
            return Err(SpecError::VariableName { name: key.to_string_lossy().into_owned() });
        }
        let stdin_bytes = self.stdin.as_ref().map_or(0, Vec::len);
        if stdin_bytes > Self::MAX_STDIN {
            return Err(SpecError::StdinTooLong { bytes: stdin_bytes });
        }
        self.progress.as_deref().map_or(Ok(()), |pattern| compile(pattern).map(|_| ()))
    }
}

/// What a run was started with that matters once it has ended, for whichever process reads its end.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Noted {
    /// [`Spec::timeout`].
    pub timeout: Option<Duration>,
    /// [`Spec::note`].
    pub note: Option<serde_json::Value>,
}

impl Noted {
    /// Reads it from the directory of a run. Does file system calls and blocks on them.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read, or was written by a release whose format this one does not know.
    pub fn read(dir: &Path) -> Result<Self, FileError> {
        let stored = state::spec(&RunDir::open(dir)?)?;
        Ok(Self { timeout: stored.timeout_ms.map(Duration::from_millis), note: stored.note })
    }
}

/// Shows no environment values and no input: both may hold secrets.
impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec")
            .field("argv", &self.argv)
            .field("cwd", &self.cwd)
            .field("env", &self.env.iter().map(|(key, _)| key).collect::<Vec<_>>())
            .field("stdin_bytes", &self.stdin.as_ref().map(Vec::len))
            .field("timeout", &self.timeout)
            .field("grace", &self.grace)
            .field("max_output", &self.max_output)
            .field("progress", &self.progress)
            .field("note", &self.note)
            .finish()
    }
}

/// A command that cannot be run on any machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// No program, or an empty one.
    #[error("the command has no program: its first element must name one")]
    NoProgram,
    /// A directory that depends on where the server happens to be.
    #[error("the directory {} is relative: give an absolute one", cwd.display())]
    RelativeDirectory {
        /// The directory as given.
        cwd: PathBuf,
    },
    /// A NUL byte, which no argument, variable or path can carry.
    #[error("an argument, a variable or the directory contains a NUL byte: remove it")]
    Nul,
    /// A name that no environment can hold.
    #[error("{name:?} cannot be the name of an environment variable: it is empty or contains `=`")]
    VariableName {
        /// The name as given.
        name: String,
    },
    /// More input than a run directory takes.
    #[error("stdin has {bytes} bytes, more than the {} allowed: pass a file name instead", Spec::MAX_STDIN)]
    StdinTooLong {
        /// How many bytes were given.
        bytes: usize,
    },
    /// A pattern that is no regular expression, or too large a one.
    #[error("the progress pattern {pattern:?} cannot be compiled: correct it")]
    Pattern {
        /// The pattern as given.
        pattern: String,
        /// Where it is wrong.
        #[source]
        source: Box<regex::Error>,
    },
    /// A pattern that can find nothing.
    #[error(
        "the progress pattern {pattern:?} has no group: put the value in parentheses, as in `(\\d+)/(\\d+)`"
    )]
    PatternWithoutGroup {
        /// The pattern as given.
        pattern: String,
    },
}

/// Compiles a progress pattern, bounded in size.
pub(super) fn compile(pattern: &str) -> Result<Regex, SpecError> {
    let regex = RegexBuilder::new(pattern).size_limit(PATTERN_SIZE).dfa_size_limit(PATTERN_SIZE).build();
    let regex = regex
        .map_err(|source| SpecError::Pattern { pattern: pattern.to_owned(), source: Box::new(source) })?;
    if regex.captures_len() < 2 {
        return Err(SpecError::PatternWithoutGroup { pattern: pattern.to_owned() });
    }
    Ok(regex)
}

/// `spec.json`: the contract between the server that wrote it and the supervisor, of this release or a later one.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct StoredSpec {
    pub(super) format: u32,
    /// The value of `LONGHAUL_RUN` in the command's environment: unguessable, so that no process of another run
    /// is taken for one of this.
    pub(super) marker: String,
    pub(super) argv: Vec<Text>,
    pub(super) cwd: Text,
    pub(super) env: Vec<(Text, Text)>,
    pub(super) stdin: bool,
    pub(super) timeout_ms: Option<u64>,
    pub(super) grace_ms: u64,
    pub(super) max_output: u64,
    pub(super) progress: Option<String>,
    #[serde(default)]
    pub(super) note: Option<serde_json::Value>,
    /// The store that its task is in, if that has a name.
    #[serde(default)]
    pub(super) store: Option<String>,
}

impl StoredSpec {
    pub(super) fn new(spec: &Spec, marker: String) -> Self {
        Self {
            format: FORMAT,
            marker,
            argv: spec.argv.iter().cloned().map(Text).collect(),
            cwd: Text(spec.cwd.clone().into_os_string()),
            env: spec.env.iter().map(|(key, value)| (Text(key.clone()), Text(value.clone()))).collect(),
            stdin: spec.stdin.is_some(),
            timeout_ms: spec.timeout.map(milliseconds),
            grace_ms: milliseconds(spec.grace),
            max_output: spec.max_output,
            progress: spec.progress.clone(),
            note: spec.note.clone(),
            store: None,
        }
    }

    /// Reads `spec.json`.
    ///
    /// # Errors
    ///
    /// When it is no JSON, or of a format that this release does not know.
    pub(super) fn parse(json: &[u8]) -> io::Result<Self> {
        let version: Version = serde_json::from_slice(json)?;
        if version.format != FORMAT {
            let problem = format!(
                "the run directory has format {}, this release knows {FORMAT}: use the release that wrote it, or a later one",
                version.format
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, problem));
        }
        Ok(serde_json::from_slice(json)?)
    }

    /// The same without what the command was given, for a run that has ended.
    fn without_secrets(mut self) -> Self {
        self.argv.clear();
        self.env.clear();
        self.stdin = false;
        self
    }

    pub(super) fn cwd(&self) -> &Path {
        Path::new(&self.cwd.0)
    }

    pub(super) const fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }

    /// The value of a variable; the last one wins, as it does for the command.
    pub(super) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.env.iter().rev().find(|(key, _)| key.0 == name).map(|(_, value)| value.0.as_os_str())
    }
}

/// Takes out of the directory of a run that has ended what its command was given: arguments, environment and input may
/// hold secrets, and nothing needs them any more. Whoever reads `spec.json` meanwhile finds it whole, the old or the new.
///
/// # Errors
///
/// When the disk refuses, a full one among others: it is all still there then.
pub(super) fn forget_secrets(run: &RunDir) -> Result<(), FileError> {
    let path = run.file_path(SPEC);
    let json =
        serde_json::to_vec(&state::spec(run)?.without_secrets()).map_err(FileError::at("write", &path))?;
    run.unlink(STDIN)?;
    run.create_flushed(SPEC_WITHOUT_SECRETS, &json)?;
    run.rename(SPEC_WITHOUT_SECRETS, SPEC)
}

#[derive(Deserialize)]
struct Version {
    format: u32,
}

/// Text of the operating system: a JSON string when it is UTF-8, else an array of its bytes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Text(pub(super) OsString);

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => self.0.as_bytes().serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> de::Visitor<'de> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, or an array of bytes for text that is not UTF-8")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
        Ok(Text(text.into()))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Text, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = seq.next_element::<u8>()? {
            bytes.push(byte);
        }
        Ok(Text(OsString::from_vec(bytes)))
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The format of run directories that this release writes and reads.
pub(super) const FORMAT: u32 = 1;

/// Marks every process of a run, by inheritance.
pub(super) const MARKER_VARIABLE: &str = "LONGHAUL_RUN";

/// Bounds the memory of a progress pattern.
const PATTERN_SIZE: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(spec: &Spec) -> StoredSpec {
        StoredSpec::parse(&serde_json::to_vec(&StoredSpec::new(spec, "m".to_owned())).unwrap()).unwrap()
    }

    #[test]
    fn text_that_is_not_utf8_survives_the_file() {
        let odd = OsString::from_vec(vec![b'a', 0xff, b'b']);
        let stored =
            round_trip(&Spec::new([OsString::from("x"), odd.clone()], "/").with_env([("K", odd.clone())]));
        assert_eq!(stored.argv[1].0, odd);
        assert_eq!(stored.variable("K"), Some(odd.as_os_str()));
    }

    #[test]
    fn a_format_of_a_later_release_is_refused_by_name() {
        let mut stored = StoredSpec::new(&Spec::new(["x"], "/"), String::new());
        stored.format = 99;
        let error = StoredSpec::parse(&serde_json::to_vec(&stored).unwrap()).unwrap_err();
        assert!(error.to_string().contains("format 99"), "{error}");
    }

    #[test]
    fn a_field_of_a_later_release_is_ignored() {
        let mut json = serde_json::to_value(StoredSpec::new(&Spec::new(["x"], "/"), String::new())).unwrap();
        json["niceness"] = 5.into();
        StoredSpec::parse(json.to_string().as_bytes()).unwrap();
    }

    #[test]
    fn secrets_are_not_in_the_debug_text() {
        let spec = Spec::new(["x"], "/").with_env([("TOKEN", "hunter2")]).with_stdin("hunter3");
        let text = format!("{spec:?}");
        assert!(text.contains("TOKEN") && !text.contains("hunter"), "{text}");
    }

    #[test]
    fn what_no_machine_can_run_is_refused() {
        let no_args: [&str; 0] = [];
        assert!(matches!(Spec::new(no_args, "/").validate(), Err(SpecError::NoProgram)));
        assert!(matches!(Spec::new([""], "/").validate(), Err(SpecError::NoProgram)));
        assert!(matches!(Spec::new(["x"], "here").validate(), Err(SpecError::RelativeDirectory { .. })));
        assert!(matches!(Spec::new(["x", "a\0b"], "/").validate(), Err(SpecError::Nul)));
        let with_env = |key: &str| Spec::new(["x"], "/").with_env([(key, "v")]).validate();
        assert!(matches!(with_env("A=B"), Err(SpecError::VariableName { .. })));
        assert!(matches!(with_env(""), Err(SpecError::VariableName { .. })));
        let with_pattern = |pattern: &str| Spec::new(["x"], "/").with_progress(pattern).validate();
        assert!(matches!(with_pattern("("), Err(SpecError::Pattern { .. })));
        assert!(matches!(with_pattern("a{1000}{1000}"), Err(SpecError::Pattern { .. })));
        assert!(matches!(with_pattern("done"), Err(SpecError::PatternWithoutGroup { .. })));
        with_pattern(r"(\d+)/(\d+)").unwrap();
    }
}
