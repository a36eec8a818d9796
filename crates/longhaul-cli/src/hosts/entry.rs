//! What a host's file says of one server, and the server that it means.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};

use longhaul_gateway::shell;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde_json::{Map, Value};

use super::variables::replace;
use super::{Here, Host, Variables, file, name_of};
use crate::failure::{Failure, Outcome};
use crate::target::Server;
use crate::term::{clean, note};

/// One server of a host.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) host: &'static Host,
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    pub(super) value: Map<String, Value>,
    /// What its user is asked for (VS Code).
    pub(super) inputs: Vec<Value>,
    /// The folder of the project.
    pub(super) workspace: PathBuf,
}

impl Entry {
    /// What a file says of one server, whatever else is in it.
    pub(super) fn alone(host: &'static Host, name: &str, file: &Path, value: &Value) -> Self {
        Self {
            host,
            name: name.to_owned(),
            file: file.to_owned(),
            value: value.as_object().cloned().unwrap_or_default(),
            inputs: Vec::new(),
            workspace: PathBuf::new(),
        }
    }

    /// How it is named on a command line.
    pub(crate) fn target(&self) -> String {
        format!("{}:{}", self.host.name, self.name)
    }

    fn text(&self, member: &str) -> Option<&str> {
        self.value.get(member)?.as_str()
    }

    /// The program and its arguments: side by side, or in one list (opencode).
    fn command(&self) -> Option<Vec<&str>> {
        let texts = |member: &str| {
            let list = self.value.get(member).and_then(Value::as_array).into_iter().flatten();
            list.map(|word| word.as_str().unwrap_or_default())
        };
        let words: Vec<&str> = match self.text("command") {
            Some(program) => std::iter::once(program).chain(texts("args")).collect(),
            None => texts("command").collect(),
        };
        Some(words).filter(|words| !words.is_empty())
    }

    fn url(&self) -> Option<&str> {
        ["url", "httpUrl", "serverUrl"].iter().find_map(|member| self.text(member))
    }

    /// Where it is, without what may be secret: no arguments, no query, no user.
    pub(crate) fn place(&self) -> String {
        let place = match (self.command(), self.url()) {
            (Some(words), _) => format!("{} …", words[0]),
            (None, Some(url)) => {
                let bare = url.split(['?', '#']).next().unwrap_or_default();
                match bare.split_once("://") {
                    Some((scheme, rest)) => {
                        let (authority, path) =
                            rest.split_once('/').map_or((rest, None), |(a, p)| (a, Some(p)));
                        let host = authority.rsplit('@').next().unwrap_or_default();
                        let path = path.map(|path| format!("/{path}")).unwrap_or_default();
                        format!("{scheme}://{host}{path}")
                    }
                    None => bare.to_owned(),
                }
            }
            (None, None) => "(neither a command nor a URL)".to_owned(),
        };
        clean::line(&place, 200)
    }

    /// What is started, whole, before anything in it is replaced: whoever reads it learns what runs, and no secret that stands
    /// elsewhere.
    fn command_line(words: &[&str]) -> String {
        let line = words.iter().map(|word| shell::word(word).into_owned()).collect::<Vec<_>>().join(" ");
        clean::line(&line, LONGEST)
    }

    /// The server that is meant, with everything replaced as its host would.
    pub(crate) fn resolve(&self, here: &Here) -> Outcome<Server> {
        self.resolved(here)
            .map_err(|failure| failure.of(&format!("{} in {}", self.target(), self.file.display())))
    }

    fn resolved(&self, here: &Here) -> Outcome<Server> {
        let mut known = BTreeMap::new();
        let mut set = |text: &str| self.replaced(text, here, &mut known);
        let texts =
            |member: &str| self.value.get(member).and_then(Value::as_object).cloned().unwrap_or_default();
        if let Some(command) = self.command() {
            note(&format!(
                "note: {} starts {}",
                clean::line(&self.target(), 80),
                Self::command_line(&command)
            ));
            let mut words = Vec::<OsString>::new();
            for word in command {
                words.push(set(word)?.into());
            }
            let mut env = match self.text("envFile") {
                Some(path) => read_env(&set(path)?)?,
                None => Vec::new(),
            };
            for (name, value) in texts("env").into_iter().chain(texts("environment")) {
                let value = match value {
                    Value::String(text) => set(&text)?,
                    Value::Null => continue,
                    other => other.to_string(),
                };
                env.push((name, value));
            }
            let folder = self.text("cwd").map(&mut set).transpose()?.map(PathBuf::from);
            let folder = folder.unwrap_or_else(|| self.workspace.clone());
            return Ok(Server::command(words, Some(folder)).with_env(env).called(self.target()));
        }
        let Some(url) = self.url() else {
            return Err(Failure::usage("it has neither a command nor a URL"));
        };
        let mut server = Server::url(&set(url)?).called(self.target());
        let variable = |name: &str| std::env::var(name).ok();
        let mut headers = Vec::new();
        for (name, value) in texts("headers").into_iter().chain(texts("http_headers")) {
            headers.push((name, set(value.as_str().unwrap_or_default())?));
        }
        for (name, value) in texts("env_http_headers") {
            headers.extend(value.as_str().and_then(variable).map(|value| (name, value)));
        }
        if let Some(token) = self.text("bearer_token_env_var").and_then(variable) {
            headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
        }
        for (name, value) in headers {
            match value.split_once(' ') {
                Some((scheme, token))
                    if name.eq_ignore_ascii_case("authorization")
                        && scheme.eq_ignore_ascii_case("bearer") =>
                {
                    server = server.with_bearer(token.trim().to_owned());
                }
                _ => server = server.with_header(name, value),
            }
        }
        Ok(server)
    }

    fn replaced(&self, text: &str, here: &Here, known: &mut BTreeMap<String, String>) -> Outcome<String> {
        let variables = self.host.variables;
        replace(text, variables, &mut |name| {
            if let Variables::Shell { .. } = variables {
                return Ok(std::env::var(name).ok());
            }
            let folder = || self.workspace.display().to_string();
            Ok(match name {
                "workspaceFolder" => Some(folder()),
                "workspaceFolderBasename" => Some(name_of(&self.workspace)),
                "userHome" => here.home.as_ref().map(|home| home.display().to_string()),
                "pathSeparator" | "/" => Some(std::path::MAIN_SEPARATOR.to_string()),
                _ => match name.split_once(':') {
                    Some(("env", name)) => std::env::var(name).ok(),
                    Some(("input", id)) if variables == (Variables::Editor { inputs: true }) => {
                        if !known.contains_key(id) {
                            known.insert(id.to_owned(), self.input(id)?);
                        }
                        known.get(id).cloned()
                    }
                    _ => None,
                },
            })
        })
    }

    /// What the user is asked for: read from a variable, else asked, else what it is by default.
    fn input(&self, id: &str) -> Outcome<String> {
        let signs = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let variable = format!("LONGHAUL_INPUT_{}", id.chars().map(signs).collect::<String>());
        if let Ok(value) = std::env::var(&variable) {
            return Ok(value);
        }
        let input = self.inputs.iter().find(|input| input.get("id").and_then(Value::as_str) == Some(id));
        let text = |member: &str| input.and_then(|input| input.get(member)).and_then(Value::as_str);
        let is_secret = input.and_then(|input| input.get("password")).and_then(Value::as_bool) == Some(true);
        let default = text("default").map(str::to_owned);
        let asked = clean::line(text("description").unwrap_or(id), 200);
        let typed = ask(&asked, is_secret).filter(|typed| !typed.is_empty());
        typed.or(default).ok_or_else(|| {
            Failure::usage(format!("the input `{}` has to be given: {asked}", clean::line(id, 80)))
                .next(format!("set the environment variable {variable}, or run this at a terminal"))
        })
    }
}

/// Asks whoever sits here, if somebody does.
fn ask(asked: &str, is_secret: bool) -> Option<String> {
    let mut input = std::io::stdin();
    if !input.is_terminal() || !std::io::stderr().is_terminal() {
        return None;
    }
    let _ = write!(std::io::stderr(), "{asked}: ");
    if !is_secret {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        return Some(line.trim_end_matches(['\r', '\n']).to_owned());
    }
    let before = tcgetattr(&input).ok()?;
    let mut quiet = before.clone();
    // Ctrl-C comes as a sign, so that the terminal is put back in any case.
    quiet.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
    tcsetattr(&input, OptionalActions::Flush, &quiet).ok()?;
    let (mut typed, mut sign) = (Vec::new(), [0]);
    let ended = loop {
        match input.read(&mut sign) {
            Ok(1) => match sign[0] {
                b'\r' | b'\n' => break true,
                0x03 | 0x04 => break false,
                0x08 | 0x7f => drop(typed.pop()),
                byte if typed.len() < LONGEST => typed.push(byte),
                _ => {}
            },
            _ => break false,
        }
    };
    let _ = tcsetattr(&input, OptionalActions::Flush, &before);
    note("");
    ended.then(|| String::from_utf8_lossy(&typed).into_owned())
}

/// The longest secret, in bytes.
const LONGEST: usize = 64 << 10;

/// The variables of a file of `NAME=value` lines.
fn read_env(path: &str) -> Outcome<Vec<(String, String)>> {
    let text = file::text(path.as_ref())
        .map_err(|error| Failure::usage(format!("its `envFile` {path}: {error}")))?;
    let line = |line: &str| {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
        let value = value.trim();
        let quoted = |sign| value.strip_prefix(sign).and_then(|rest| rest.strip_suffix(sign));
        Some((name.trim().to_owned(), quoted('"').or_else(|| quoted('\'')).unwrap_or(value).to_owned()))
    };
    Ok(file::unmarked(&text).lines().filter_map(line).collect())
}
