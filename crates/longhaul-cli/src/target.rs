//! Whom a verb speaks to: a URL, or a command after `--`.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use longhaul::client::auth::OAuth;
use longhaul::client::{Client, Command, Error, Options, Target};
use longhaul::proto::dialect::Revision;
use longhaul::proto::jsonrpc::Code;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::handles::Place;
use crate::hosts::{self, Here};
use crate::term::{clean, note};
use crate::{identity, state};

/// How to reach a server.
#[derive(clap::Args, Debug)]
pub(crate) struct TargetArgs {
    /// Speak this protocol revision; otherwise what the server speaks is found out.
    #[arg(long, value_name = "DATE", value_parser = revision)]
    pub(crate) revision: Option<Revision>,
    /// Sign in with the bearer token that this environment variable holds.
    #[arg(long, value_name = "NAME")]
    pub(crate) token_env: Option<String>,
    /// A command that serves MCP over its standard input and output, instead of a URL.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// A server as the command line names it.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) reach: Reach,
    /// The name that a host has for it, by which later commands find it: `vscode:ci`.
    alias: Option<String>,
    /// The token that the host shows it.
    bearer: Option<Secret>,
    /// What else it sends it with each request.
    headers: Vec<(String, Secret)>,
}

/// A word that has to be the URL of a server over HTTP.
///
/// # Errors
///
/// That it is none, and what one looks like.
pub(crate) fn http_url(word: &str) -> Outcome<&str> {
    let url = reqwest::Url::parse(word).ok();
    let is_http = url.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if is_http && !word.contains(char::is_control) {
        return Ok(word);
    }
    let failure = Failure::usage(format!("`{}` is no URL of a server", clean::line(word, 400)));
    Err(if looks_like_host(word) {
        failure.next(format!("did you mean `http://{}`?", clean::line(word, 400)))
    } else {
        failure.next("one begins with http:// or https://, such as http://127.0.0.1:8420/mcp")
    })
}

/// The URL of a server that is written where others may read it; its user is told of what looks like a secret there.
///
/// # Errors
///
/// That it is none, or holds what signs somebody in.
pub(crate) fn shown_url(word: &str) -> Outcome<&str> {
    let Ok(url) = reqwest::Url::parse(http_url(word)?) else { return Ok(word) };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Failure::usage("the URL holds a user name or a password").next(
            "leave them out, for whoever reads what is written would have them: whoever uses the server signs in itself",
        ));
    }
    if let Some(name) = url.query_pairs().find_map(|(name, value)| is_secret(&name, &value).then_some(name)) {
        let name = clean::line(&name, 80);
        note(&format!("note: `{name}` in the URL looks like a secret: whoever reads what is written has it"));
    }
    Ok(word)
}

/// Whether a parameter of a URL is likely to let somebody in. What stands for something else is none.
fn is_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words = ["token", "secret", "passw", "pwd", "auth", "credential", "signature"];
    let is_named = words.iter().any(|word| name.contains(word)) || name.ends_with("key") || name == "sig";
    is_named && !value.is_empty() && !value.starts_with(['$', '{', '<'])
}

/// What is never shown.
#[derive(Clone)]
struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// How a server is reached.
#[derive(Clone, Debug)]
pub(crate) enum Reach {
    /// At this URL.
    Url(String),
    /// By a command that serves over its standard input and output.
    Command { words: Vec<OsString>, folder: Option<PathBuf>, env: Variables },
}

/// Variables of a command, of which the names alone are shown.
#[derive(Clone, Default)]
pub(crate) struct Variables(Vec<(String, String)>);

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl TargetArgs {
    /// Takes the server out of the words of a command line; the words after it remain.
    pub(crate) fn server<'w>(&self, words: &'w [String], verb: &str) -> Outcome<(Server, &'w [String])> {
        let is_url = |word: &String| {
            word.starts_with("unix:") || (word.contains("://") && !word.contains('=')) || hosts::is_name(word)
        };
        match (words.split_first(), self.command.is_empty()) {
            (Some((word, _)), false) if is_url(word) => {
                Err(Failure::usage(format!("two servers are named: {word}, and a command after `--`")))
            }
            (_, false) => Ok((Server::command(self.command.clone(), None), words)),
            (Some((word, rest)), true) if is_url(word) => Ok((Server::of_word(word)?, rest)),
            (Some((word, _)), true) => Err(no_url(word, verb)),
            (None, true) => Err(Failure::usage("no server is named").next(format!(
                "longhaul {verb} http://127.0.0.1:8420/mcp …, or longhaul {verb} … -- command that serves"
            ))),
        }
    }

    /// Options of a client of `server` that says who it is.
    pub(crate) fn options(&self, server: &Server) -> Outcome<Options> {
        let mut options = Options::default();
        if let Some(revision) = self.revision {
            options = options.revision(revision);
        }
        if let Some(name) = &self.token_env {
            options = options.bearer(token(name)?);
        } else if let Some(Secret(token)) = &server.bearer {
            options = options.bearer(token.as_str());
        } else if server.shows_itself() {
            // What it is shown says who asks.
        } else if let Some(store) = state::tokens() {
            options = options.oauth(OAuth::new().store(store));
        }
        for (name, Secret(value)) in &server.headers {
            // A token that is named here comes before what the host shows.
            if !(name.eq_ignore_ascii_case("authorization") && self.token_env.is_some()) {
                options = options.header(name.as_str(), value.as_str());
            }
        }
        Ok(options)
    }
}

impl Server {
    pub(crate) fn url(url: &str) -> Self {
        Self::at(Reach::Url(url.to_owned()))
    }

    pub(crate) fn command(words: Vec<OsString>, folder: Option<PathBuf>) -> Self {
        Self::at(Reach::Command { words, folder, env: Variables::default() })
    }

    fn at(reach: Reach) -> Self {
        Self { reach, alias: None, bearer: None, headers: Vec::new() }
    }

    /// The server that a word of the command line names: a URL, or what a host has under a name.
    pub(crate) fn of_word(word: &str) -> Outcome<Self> {
        if hosts::is_name(word) { hosts::server(word, &Here::now()) } else { Ok(Self::url(word)) }
    }

    /// The same under the name that a host has for it.
    pub(crate) fn called(self, alias: String) -> Self {
        Self { alias: Some(alias), ..self }
    }

    /// The same with a token, unless the command line gives one.
    pub(crate) fn with_bearer(self, token: String) -> Self {
        Self { bearer: Some(Secret(token)), ..self }
    }

    /// The same with a header, which is sent to its URL and nowhere else.
    pub(crate) fn with_header(mut self, name: String, value: String) -> Self {
        self.headers.push((name, Secret(value)));
        self
    }

    /// Whether what it is sent says who asks.
    fn shows_itself(&self) -> bool {
        self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
    }

    /// The same with variables for its command.
    pub(crate) fn with_env(mut self, variables: Vec<(String, String)>) -> Self {
        if let Reach::Command { env, .. } = &mut self.reach {
            env.0.extend(variables);
        }
        self
    }

    /// Connects. A server that is silent is waited for, and a person is told so.
    pub(crate) async fn connect(&self, options: Options, json: bool) -> Outcome<Client> {
        let target = match &self.reach {
            Reach::Url(url) => Target::url(url),
            Reach::Command { words, folder, env } => {
                let mut words = words.iter();
                let program = words.next().cloned().unwrap_or_default();
                let mut command = Command::new(program).args(words);
                if let Some(folder) = folder {
                    command = command.current_dir(folder);
                }
                for (name, value) in &env.0 {
                    command = command.env(name, value);
                }
                // However this process ends, the other does so after it.
                #[cfg(target_os = "linux")]
                {
                    let words = ["tend-group".to_owned(), std::process::id().to_string()];
                    command = command.started_by("/proc/self/exe", words);
                }
                Target::command(command)
            }
        };
        let options = match &self.reach {
            Reach::Url(url) => identity::signed_in(options, url).await?,
            Reach::Command { .. } => options,
        };
        let revision = options.revision;
        let mut connecting = std::pin::pin!(Client::connect_with(target, options));
        let connected = match tokio::time::timeout(PATIENCE, connecting.as_mut()).await {
            Ok(connected) => connected,
            Err(_) => {
                if !json {
                    note(&format!("note: {} has not answered yet; still waiting", self.name()));
                }
                connecting.await
            }
        };
        connected.map_err(|error| self.failure(error, revision))
    }

    /// Whether a line of its standard error says that it could not be started, which its [failure](Self::failure) says.
    pub(crate) fn is_unstarted(&self, line: &str) -> bool {
        match &self.reach {
            Reach::Command { words, .. } => {
                words.first().is_some_and(|program| line.starts_with(&unstarted(&program.to_string_lossy())))
            }
            Reach::Url(_) => false,
        }
    }

    /// Why it was not connected to; in that revision alone, if there is one.
    pub(crate) fn failure(&self, error: Error, revision: Option<Revision>) -> Failure {
        let not_started = |program: &str, cause: &dyn fmt::Display| {
            let message = format!("the command `{program}` cannot be started: {cause}");
            Failure::new(Exit::Unreachable, "unreachable", message).next(
                "what follows after `--` is the command that serves, found in PATH or named by its path",
            )
        };
        match (&self.reach, &error) {
            (Reach::Command { .. }, Error::Unreachable { target, cause, .. }) => not_started(target, cause),
            (Reach::Command { .. }, Error::Died { program, last_words, .. })
                if let Some(cause) = last_words.strip_prefix(&unstarted(program)) =>
            {
                not_started(program, &cause)
            }
            (_, Error::TimedOut { .. }) => {
                self.no_server(format!("{} does not answer: {error}", self.name()))
            }
            // Every server can be greeted, though not in every revision.
            (_, Error::Answer(answer)) if answer.code == Code::METHOD_NOT_FOUND => match revision {
                None => self.no_server(format!("{} is no MCP server: {}", self.name(), answer.message)),
                Some(asked) => {
                    let message = format!("{} does not speak {asked}: {}", self.name(), answer.message);
                    Failure::new(Exit::Failed, "protocol", message)
                        .next("leave out --revision: what it speaks is found out")
                }
            },
            _ => error.into(),
        }
    }

    /// That something is there which may be no server.
    fn no_server(&self, message: String) -> Failure {
        Failure::new(Exit::Unreachable, "unreachable", message).next(match &self.reach {
            Reach::Url(_) => "something listens there: is it an MCP server, and is this its path?",
            Reach::Command { .. } => "does the command serve MCP over its standard input and output?",
        })
    }

    /// What a person calls it.
    pub(crate) fn name(&self) -> String {
        if let Some(alias) = &self.alias {
            return clean::line(alias, 128);
        }
        match &self.reach {
            Reach::Url(url) => clean::line(url, 400),
            Reach::Command { words, .. } => {
                let program = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
                format!("the command `{}`", clean::line(&program, 128))
            }
        }
    }

    /// Where a later verb finds it again; `None` where words could not be written down.
    pub(crate) fn place(&self) -> Option<Place> {
        if let Some(alias) = &self.alias {
            // What the host says of it may hold secrets, so that is read again.
            return Some(Place::Named { name: alias.clone(), folder: std::env::current_dir().ok()? });
        }
        match &self.reach {
            Reach::Url(url) => Some(Place::Url(url.clone())),
            Reach::Command { words, folder, .. } => {
                let words: Option<Vec<String>> =
                    words.iter().map(|word| word.to_str().map(str::to_owned)).collect();
                let folder = folder.clone().or_else(|| std::env::current_dir().ok());
                Some(Place::Command { words: words?, folder: folder? })
            }
        }
    }

    /// How a later command names this server, where it can.
    pub(crate) fn named(&self) -> Option<&str> {
        if self.alias.is_some() {
            return self.alias.as_deref();
        }
        match &self.reach {
            Reach::Url(url) => Some(url),
            Reach::Command { .. } => None,
        }
    }
}

/// How whoever was to start a program begins to say that it cannot.
fn unstarted(program: &str) -> String {
    format!("{program} cannot be started: ")
}

/// How long a server may be silent before a person is told.
const PATIENCE: Duration = Duration::from_secs(5);

/// The token in an environment variable. On the command line every user of the machine could read it.
fn token(name: &str) -> Outcome<String> {
    match std::env::var(name) {
        Ok(token) if !token.trim().is_empty() => Ok(token.trim().to_owned()),
        _ => Err(Failure::usage(format!("the environment variable `{name}` holds no token"))
            .next(format!("--token-env takes the variable's name: {name}=… longhaul …"))),
    }
}

fn no_url(word: &str, verb: &str) -> Failure {
    let failure = Failure::usage(format!("`{word}` is no URL, and no command follows after `--`"));
    if looks_like_host(word) {
        failure.next(format!("did you mean `http://{word}`?"))
    } else {
        failure.next(format!(
            "longhaul {verb} http://127.0.0.1:8420/mcp …, or longhaul {verb} … -- command that serves"
        ))
    }
}

fn looks_like_host(word: &str) -> bool {
    word.contains(':') && word.contains('/') && !word.contains("://") || word.starts_with("localhost")
}

pub(crate) fn revision(date: &str) -> Result<Revision, String> {
    Revision::from_date(date)
        .ok_or_else(|| format!("this release speaks {}", Revision::ALL.map(Revision::as_str).join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_others_read_holds_nothing_that_signs_in() {
        for word in ["https://ann:pw@h/mcp", "https://ann@h/mcp", "https://:pw@h/mcp"] {
            let refused = shown_url(word).unwrap_err();
            assert!(refused.line().contains("a user name or a password"), "{refused:?}");
            assert!(!format!("{refused:?}").contains("pw"), "{refused:?}");
        }
        assert_eq!(shown_url("https://h/mcp?team=a").unwrap(), "https://h/mcp?team=a");
        for (name, value, secret) in [
            ("token", "x", true),
            ("api_key", "x", true),
            ("X-Auth", "x", true),
            ("key", "${input:key}", false),
            ("key", "", false),
            ("keyboard", "us", false),
            ("design", "new", false),
        ] {
            assert_eq!(is_secret(name, value), secret, "{name}={value}");
        }
    }

    #[tokio::test]
    async fn who_listens_and_says_nothing_is_not_reached() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server::url(&format!("http://{}/mcp", listener.local_addr().unwrap()));
        let hasty = Options::default().request_timeout(Duration::from_millis(200));
        let failure = server.connect(hasty, true).await.unwrap_err();
        assert_eq!(failure.exit, Exit::Unreachable);
        assert!(failure.line().contains("does not answer"), "{failure:?}");
    }

    #[tokio::test]
    async fn what_a_host_sends_with_it_goes_to_its_url_and_is_never_shown() {
        use tokio::io::AsyncReadExt as _;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server::url(&format!("http://{}/mcp", listener.local_addr().unwrap()));
        let server = server
            .with_header("X-Key".to_owned(), "s3cret".to_owned())
            .with_header("Authorization".to_owned(), "Basic czpz".to_owned());
        assert!(!format!("{server:?}").contains("s3cret"));
        let args = TargetArgs { revision: None, token_env: None, command: Vec::new() };
        let heard = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = vec![0; 4096];
            let read = stream.read(&mut bytes).await.unwrap();
            String::from_utf8_lossy(&bytes[..read]).into_owned()
        };
        tokio::select! {
            heard = heard => {
                assert!(heard.contains("x-key: s3cret") && heard.contains("authorization: Basic czpz"), "{heard}");
            }
            connected = server.connect(args.options(&server).unwrap(), true) => panic!("{connected:?}"),
        }
    }
}
