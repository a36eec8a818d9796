//! The environment of a command: the server's own, and what the configuration sets on top of it.

use std::{
    collections::BTreeSet,
    env,
    ffi::{OsStr, OsString},
    fmt,
    fs::File,
    io::{self, Read},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use thiserror::Error;

use super::{
    diagnostic::Diagnostic,
    reader::{Reader, Section},
    template::Template,
    tool::read::Context,
};

/// One variable that a tool sets: its name, and where its value comes from.
#[derive(Clone)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) value: VariableValue,
}

#[derive(Clone)]
pub(super) enum VariableValue {
    Template(Template),
    From(EnvSource),
}

/// Values are left out: they may be secrets.
impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            VariableValue::Template(_) => write!(f, "{}=[hidden]", self.name),
            VariableValue::From(source) => write!(f, "{} from {source}", self.name),
        }
    }
}

/// Where the value of a variable is read when a call starts, so that it never stands in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnvSource {
    /// `env:NAME`: a variable of the server's own environment.
    Variable(String),
    /// `file:PATH`: the content of a file, without its last newline.
    File(PathBuf),
}

impl fmt::Display for EnvSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

impl EnvSource {
    /// Reads the value.
    ///
    /// # Errors
    ///
    /// When the variable is not set, or the file cannot be read, is longer than [`MAX_VARIABLE`] bytes or is not
    /// text without NUL characters. The value itself is in no error.
    pub fn read(&self, sources: &dyn Sources) -> Result<OsString, EnvError> {
        match self {
            Self::Variable(name) => {
                sources.variable(name).ok_or_else(|| EnvError::Unset { name: name.clone() })
            }
            Self::File(path) => {
                let unusable = |reason| EnvError::Unusable { path: path.clone(), reason };
                let bytes = sources
                    .file(path, MAX_VARIABLE + 1)
                    .map_err(|source| EnvError::Unreadable { path: path.clone(), source })?;
                if bytes.len() > MAX_VARIABLE {
                    return Err(unusable("it is too long for a variable"));
                }
                let text = String::from_utf8(bytes).map_err(|_| unusable("it is not UTF-8 text"))?;
                if text.contains('\0') {
                    return Err(unusable("it holds a NUL character"));
                }
                let text = text.strip_suffix('\n').unwrap_or(&text);
                Ok(text.strip_suffix('\r').unwrap_or(text).into())
            }
        }
    }
}

/// Reads where a value comes from: the `from` of a table that stands at `span`. It is warned of when there is
/// nothing now; `fails` says what that means.
pub(super) fn source(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    span: Range<usize>,
    context: Context<'_>,
    fails: &str,
) -> Option<EnvSource> {
    let help = "a value is read `from = \"env:NAME\"` or `from = \"file:PATH\"`";
    if section.entry("from").is_none() {
        let message = format!("{} has no value", section.place);
        reader.push(Diagnostic::error(message).at(span, "no `from`").help(help));
        return None;
    }
    let text = reader.text(section, "from")?;
    let Some(source) = parse(text.value, context.base) else {
        let message = format!("`from` of {} names no source", section.place);
        reader.push(Diagnostic::error(message).at(text.span, "no source").help(help));
        return None;
    };
    if let Err(error) = source.read(context.sources) {
        let message = format!("{} has no value now: {}", section.place, explain(&error));
        reader.push(Diagnostic::warning(message).at(text.span, "nothing there").help(fails));
    }
    Some(source)
}

/// The source that a text names, of which a file is looked for from `base` on.
pub(super) fn parse(text: &str, base: &Path) -> Option<EnvSource> {
    match text.split_once(':')? {
        ("env", name) if !name.is_empty() && !name.contains(['=', '\0']) => {
            Some(EnvSource::Variable(name.to_owned()))
        }
        ("file", path) if !path.is_empty() && !path.contains('\0') => Some(EnvSource::File(base.join(path))),
        _ => None,
    }
}

/// Why there is nothing, with what the system said.
pub(super) fn explain(error: &EnvError) -> String {
    match error {
        EnvError::Unreadable { source, .. } => format!("{error}: {source}"),
        _ => error.to_string(),
    }
}

/// Where variables and files are read: the machine itself, or a test's idea of one.
pub trait Sources {
    /// The value of one variable of the server's environment.
    fn variable(&self, name: &str) -> Option<OsString>;

    /// Every variable of the server's environment.
    fn variables(&self) -> Vec<(OsString, OsString)>;

    /// The first `limit` bytes of a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened or read.
    fn file(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>>;
}

/// The environment and the files of this process.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "it is only a name for the machine")]
pub struct Machine;

impl Sources for Machine {
    fn variable(&self, name: &str) -> Option<OsString> {
        env::var_os(name)
    }

    fn variables(&self) -> Vec<(OsString, OsString)> {
        env::vars_os().collect()
    }

    fn file(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        let file = open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let mut bytes = Vec::new();
        file.take(limit as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Opens a file to be read, and waits for nobody: a pipe in its place would else be opened once somebody writes to it.
#[cfg(unix)]
pub(super) fn open(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    Ok(rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY,
        Mode::empty(),
    )?
    .into())
}

#[cfg(not(unix))]
pub(super) fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// What a bound call sets: a value, or the place it is read from.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Setting {
    Value(String),
    From(EnvSource),
}

/// What of the server's environment no program is given unless its own settings say so: the secrets that the server itself
/// was started with, whoever of all that it starts they are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Withheld(Arc<BTreeSet<String>>);

impl Withheld {
    /// That of a configuration which reads these `variables`.
    pub(super) fn of(variables: BTreeSet<String>) -> Self {
        Self(Arc::new(SECRETS.map(str::to_owned).into())).and(variables)
    }

    /// This, and these `variables`.
    pub(super) fn and(&self, variables: BTreeSet<String>) -> Self {
        let others = variables.into_iter().filter(|name| !EVERYDAY.contains(&name.as_str()));
        Self(Arc::new(self.0.iter().cloned().chain(others).collect()))
    }

    fn holds(&self, name: &OsStr) -> bool {
        name.as_encoded_bytes().starts_with(b"LONGHAUL_")
            || name.to_str().is_some_and(|name| self.0.contains(name))
    }
}

/// What the server itself reads under a name that stands in no file: the passwords of stores, whichever it has, for it may be said by a
/// flag, and what it shows a collector of spans.
const SECRETS: [&str; 4] =
    ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "PGPASSWORD", "REDISCLI_AUTH"];

/// What programs need to run at all, and every SDK of MCP hands on. It is no secret, though something be read from it.
const EVERYDAY: [&str; 6] = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];

/// The whole environment of one program: the server's but what is `withheld`, with `settings` on top.
pub(super) fn environment(
    settings: &[(String, Setting)],
    withheld: &Withheld,
    sources: &dyn Sources,
) -> Result<Vec<(OsString, OsString)>, EnvError> {
    let mut all = sources.variables();
    all.retain(|(name, _)| {
        let replaced = settings.iter().any(|(setting, _)| OsStr::new(setting) == name);
        !withheld.holds(name) && !replaced
    });
    for (name, setting) in settings {
        let value = match setting {
            Setting::Value(value) => value.into(),
            Setting::From(source) => source.read(sources)?,
        };
        all.push((name.into(), value));
    }
    Ok(all)
}

/// Why a variable that a tool needs has no value.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EnvError {
    /// The variable is not set where the server runs.
    #[error("the environment variable `{name}` is not set")]
    Unset {
        /// Its name.
        name: String,
    },
    /// The file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The file's content cannot be the value of a variable.
    #[error("cannot use `{}`: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// The most bytes of one variable. Linux takes no longer one, its name and `=` included.
pub const MAX_VARIABLE: usize = 128 * 1024 - 1024;
