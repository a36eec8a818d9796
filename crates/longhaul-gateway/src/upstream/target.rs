//! Where a server is, as it is connected to, and what its operator can do where nobody is let in.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use longhaul::client::{Command, Error, Options, Target};

use super::connection::Upstream;
use crate::causes::in_words;
use crate::command::{DEFAULT_PATH, is_executable};
use crate::config::{Machine, Reach};

impl Upstream {
    /// Where it is, with what is read elsewhere as it is now.
    pub(super) fn target(&self) -> Result<(Target, Options), String> {
        match &self.config.reach {
            Reach::Command(configured) => {
                let env = configured.environment(&Machine).map_err(|error| in_words(&error))?;
                let mut argv = configured.argv.iter();
                let program = argv.next().map(String::as_str).unwrap_or_default();
                find(program, &configured.cwd, &env)?;
                let mut command = Command::new(program).args(argv).current_dir(&configured.cwd).env_clear();
                if self.is_tended {
                    let words = ["tend".to_owned(), std::process::id().to_string()];
                    command = command.started_by("/proc/self/exe", words);
                }
                for (name, value) in env {
                    command = command.env(name, value);
                }
                Ok((Target::command(command), self.options.clone()))
            }
            Reach::Url(at) => {
                let mut options = self.options.clone();
                for header in &at.headers {
                    let value = header.value(&Machine).map_err(|error| in_words(&error))?;
                    let value = value.to_str().map_err(|_| format!("{} is no text", header.name()))?;
                    options = options.header(header.name().as_str(), value);
                }
                Ok((Target::url(at.url.as_str()), options))
            }
        }
    }

    /// What went wrong; and where nobody is let in, what its operator can do about that.
    pub(super) fn why(&self, error: &Error) -> String {
        let why = in_words(error);
        let Reach::Url(at) = &self.config.reach else { return why };
        if !error.is_denied() {
            return why;
        }
        let is_by_header = at.headers.iter().any(|header| header.name() == reqwest::header::AUTHORIZATION);
        if is_by_header {
            let name = &self.config.name;
            return format!("{why}; `headers.Authorization` of `[servers.{name}]` has to be another");
        }
        // Callers are told this, too, and what follows a `?` may be a secret.
        let mut url = at.url.clone();
        url.set_query(None);
        let more = if at.url.query().is_some() { "?…" } else { "" };
        format!("{why}; `longhaul login {url}{more}`, as the user who runs this server, signs in there")
    }
}

/// Whether the program is there.
fn find(program: &str, cwd: &Path, env: &[(OsString, OsString)]) -> Result<(), String> {
    let is_there = |place: &Path| is_executable(place).unwrap_or(false);
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_os_str());
    let path = path.unwrap_or_else(|| OsStr::new(DEFAULT_PATH));
    let found = if program.contains('/') {
        is_there(&cwd.join(program))
    } else {
        std::env::split_paths(path).any(|folder| is_there(&cwd.join(folder).join(program)))
    };
    if found { Ok(()) } else { Err(format!("its program `{}` is not found", program.escape_debug())) }
}
