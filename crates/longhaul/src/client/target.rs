//! Whom to connect to.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncWrite};

/// A server: by its URL, as a program to run, or at the other end of a pair of streams.
#[non_exhaustive]
pub enum Target {
    /// Streamable HTTP at this URL; `unix:FILE` is a socket of this machine. Needs the feature `http-client`.
    #[non_exhaustive]
    Url(String),
    /// A program that serves over its standard input and output. Needs the feature `child-process`.
    #[non_exhaustive]
    Command(Command),
    /// A server at the other end of these streams, one message a line.
    #[non_exhaustive]
    Stream {
        /// Where its messages come from.
        reader: Box<dyn AsyncRead + Send + Unpin>,
        /// Where ours go.
        writer: Box<dyn AsyncWrite + Send + Unpin>,
    },
}

impl Target {
    /// The server at this URL.
    pub fn url(url: impl Into<String>) -> Self {
        Self::Url(url.into())
    }

    /// The server that this program is.
    pub fn command(command: Command) -> Self {
        Self::Command(command)
    }

    /// The server at the other end of `reader` and `writer`.
    pub fn stream(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self::Stream { reader: Box::new(reader), writer: Box::new(writer) }
    }
}

impl Target {
    /// What it is called, without what may be a secret: the environment of a program is left out, and of a URL all but
    /// where it leads.
    pub(super) fn name(&self) -> Option<String> {
        match self {
            Self::Url(url) => {
                let url = url.split(['?', '#']).next().unwrap_or_default();
                Some(match url.split_once("://") {
                    Some((scheme, rest)) => {
                        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                        format!("{scheme}://{}{path}", host.rsplit('@').next().unwrap_or_default())
                    }
                    None => url.to_owned(),
                })
            }
            Self::Command(command) => {
                let words = [&command.program].into_iter().chain(&command.args);
                Some(words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
            }
            Self::Stream { .. } => None,
        }
    }
}

impl Target {
    /// As which server it is known from one connection to the next: by all of a URL, and by where a program runs besides.
    /// Nobody knows who is at the other end of streams.
    pub(super) fn identity(&self) -> Option<String> {
        match self {
            Self::Url(url) => Some(url.clone()),
            Self::Command(command) => {
                let folder = command.current_dir.clone().or_else(|| std::env::current_dir().ok());
                Some(format!("{:?} {:?} {folder:?}", command.program, command.args))
            }
            Self::Stream { .. } => None,
        }
    }
}

/// A URL, or else a command line whose words are separated by spaces (no quoting: for anything more, build
/// a [`Command`]).
impl From<&str> for Target {
    fn from(text: &str) -> Self {
        if text.contains("://") || text.starts_with("unix:") {
            return Self::url(text);
        }
        let mut words = text.split_whitespace();
        Self::Command(Command::new(words.next().unwrap_or_default()).args(words))
    }
}

impl From<Command> for Target {
    fn from(command: Command) -> Self {
        Self::Command(command)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => f.debug_tuple("Url").field(url).finish(),
            Self::Command(command) => f.debug_tuple("Command").field(command).finish(),
            Self::Stream { .. } => f.write_str("Stream"),
        }
    }
}

/// A program to run as a server, for which the feature `child-process` is needed. It inherits this process's environment unless that is [cleared](Self::env_clear); its standard error is read, never
/// shown. When the client ends, so do the program and what it has started, as far as that has stayed in its process group: what has
/// left it, as a server's durable commands do, lives on.
///
/// # Examples
///
/// ```
/// use longhaul::client::Command;
///
/// let command = Command::new("npx").args(["-y", "@modelcontextprotocol/server-everything"]);
/// assert_eq!(command.program(), "npx");
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Command {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    /// The words before them.
    pub(crate) starter: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) inherits_env: bool,
    pub(crate) current_dir: Option<PathBuf>,
}

impl Command {
    /// A program, by its path or by its name on `PATH`.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            starter: Vec::new(),
            env: Vec::new(),
            inherits_env: true,
            current_dir: None,
        }
    }

    /// With more arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Started by another program, which is called with these arguments, then with this program and its own: one that limits it, or
    /// ends it once whoever runs it is gone. What is said of the server names this program all the same.
    ///
    /// ```
    /// use longhaul::client::Command;
    ///
    /// let command = Command::new("server").args(["--stdio"]).started_by("nice", ["-n", "10"]);
    /// assert_eq!(command.program(), "server");
    /// ```
    #[must_use]
    pub fn started_by(
        mut self,
        program: impl Into<OsString>,
        args: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        self.starter = vec![program.into()];
        self.starter.extend(args.into_iter().map(Into::into));
        self
    }

    /// With an environment variable of its own.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// With no environment but what it is given by [`env`](Self::env).
    #[must_use]
    pub fn env_clear(mut self) -> Self {
        self.inherits_env = false;
        self.env.clear();
        self
    }

    /// Run in this folder.
    #[must_use]
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.current_dir = Some(folder.into());
        self
    }

    /// The program as it shows itself in errors.
    pub fn program(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_a_url_or_a_command_line() {
        for url in ["http://localhost:1/mcp", "unix:/run/longhaul.sock"] {
            assert!(matches!(Target::from(url), Target::Url(_)));
        }
        let Target::Command(command) = Target::from("server  --stdio x") else { panic!() };
        assert_eq!((command.program().as_str(), command.args.len()), ("server", 2));
    }

    #[test]
    fn a_name_has_no_secret() {
        for (target, name) in [
            ("https://me:secret@a.example:8/mcp?token=1#x", "https://a.example:8/mcp"),
            ("http://a.example", "http://a.example"),
            ("unix:/run/s.sock", "unix:/run/s.sock"),
            ("server  --stdio", "server --stdio"),
        ] {
            assert_eq!(Target::from(target).name().unwrap(), name);
        }
    }
}
