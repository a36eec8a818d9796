//! Why a verb did not do what was asked: for a person, or as one line for a program.

use longhaul::client::Error;
use longhaul::client::auth::AuthError;
use longhaul::proto::jsonrpc::{Code, ErrorObject};
use longhaul::store::StoreError;
use longhaul_gateway::causes::in_words;
use longhaul_gateway::shell;
use serde::{Deserialize, Serialize};

use crate::exit::Exit;
use crate::term::{clean, note};

/// A failure, what it is called, and what to do next.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// A word for programs; empty when there is nothing to say.
    code: &'static str,
    message: String,
    next: Option<String>,
    /// What else a program is told, under a name.
    about: Option<(&'static str, serde_json::Value)>,
}

/// What a verb returns: how the program ends, or why not so.
pub(crate) type Outcome<T = Exit> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(exit: Exit, code: &'static str, message: impl Into<String>) -> Self {
        Self { exit, code, message: message.into(), next: None, about: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    /// An end of which all has been said.
    pub(crate) fn silent(exit: Exit) -> Self {
        Self::new(exit, "", "")
    }

    /// Whoever reads our output has gone: that ends the program, and is no failure.
    pub(crate) fn reader_gone() -> Self {
        Self::silent(Exit::Done)
    }

    /// With what to do about it.
    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// With what a program is told besides.
    pub(crate) fn about(mut self, name: &'static str, value: serde_json::Value) -> Self {
        self.about = Some((name, value));
        self
    }

    /// The same, said of something.
    pub(crate) fn of(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// What to do about it.
    pub(crate) fn next_step(&self) -> Option<&str> {
        self.next.as_deref()
    }

    /// It in one line, for a person.
    pub(crate) fn line(&self) -> String {
        clean::line(&self.message, 400)
    }

    /// Says it on standard error, as one JSON line if `json`.
    pub(crate) fn report(&self, json: bool) -> Exit {
        #[derive(Serialize)]
        struct Line<'a> {
            error: Body<'a>,
        }
        #[derive(Serialize)]
        struct Body<'a> {
            code: &'a str,
            message: &'a str,
            next: Option<&'a str>,
            #[serde(flatten)]
            about: std::collections::BTreeMap<&'a str, &'a serde_json::Value>,
        }
        if self.code.is_empty() {
            return self.exit;
        }
        if json {
            let about = self.about.iter().map(|(name, value)| (*name, value)).collect();
            let error = Body { code: self.code, message: &self.message, next: self.next.as_deref(), about };
            note(&clean::json(&serde_json::to_string(&Line { error }).unwrap_or_default()));
        } else {
            note(&format!("error: {}", clean::text(&self.message)));
            if let Some(next) = &self.next {
                note(&format!("help: {}", clean::text(next)));
            }
        }
        self.exit
    }
}

/// A command line that is none, as a program is told of it.
impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Self {
        let text = error.render().to_string();
        let (said, more) = text.split_once("\n\n").unwrap_or((&text, ""));
        let said = said.strip_prefix("error: ").unwrap_or("the command line says too little");
        let message = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines = || more.lines().map(str::trim);
        // What follows `--` is a command here, and no value.
        let tip =
            lines().filter_map(|line| line.strip_prefix("tip: ")).find(|tip| !tip.starts_with("to pass "));
        let usage = lines().find_map(|line| line.strip_prefix("Usage: "));
        Self::usage(message).next(tip.or(usage).unwrap_or("--help shows what can be said"))
    }
}

/// A failure of the program's own surroundings.
impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Exit::Failed, "failed", format!("{error:#}"))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new(Exit::Failed, "store", in_words(&error))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = in_words(&error);
        let of = |exit, code| Self::new(exit, code, message.clone());
        match &error {
            Error::Target { .. } => of(Exit::Usage, "usage"),
            Error::Arguments { .. } => of(Exit::Usage, "usage"),
            Error::Unreachable { .. } => of(Exit::Unreachable, "unreachable")
                .next("is the server running, and is this where it listens?"),
            // What the system said is of sockets and bodies, and says no more.
            Error::Lost { .. } => {
                Self::new(Exit::Unreachable, "lost", error.to_string()).next("is the server still running?")
            }
            Error::Died { last_words, .. } if last_words.is_empty() => of(Exit::Unreachable, "server_ended")
                .next("does the command serve MCP over its standard input and output?"),
            Error::Died { last_words, .. } => {
                Self::new(Exit::Unreachable, "server_ended", format!("{message}\n{last_words}"))
                    .next("its last words may say why; run the same again once that is mended")
            }
            Error::SignIn { with_token: true, target, .. } => of(Exit::SignIn, "auth_required").next(format!(
                "is the token meant for this server, and has it not expired? `longhaul login {target}` gets another"
                )),
            Error::SignIn { target, .. } => of(Exit::SignIn, "auth_required").next(format!(
                "`longhaul login {target}` signs in; --token-env NAME takes the token in that environment variable"
            )),
            Error::NoAccess { target, cause, .. } => match cause.downcast_ref() {
                Some(AuthError::ScopeNeeded { scope, .. }) => of(Exit::SignIn, "auth_required").next(format!(
                    "`longhaul login {} --scope {}` signs in for it",
                    shell::word(target),
                    shell::word(scope)
                )),
                _ => of(Exit::SignIn, "auth_required"),
            },
            Error::Http { .. } => of(Exit::Unreachable, "http"),
            Error::SessionLost { .. } => of(Exit::Unreachable, "session_lost").next("run the same again"),
            Error::NoSuchTask { .. } => of(Exit::NotFound, "no_such_task")
                .next("it may have been forgotten, or belong to somebody else; a server knows no task by the beginning of its id"),
            Error::Cancelled { .. } => of(Exit::Cancelled, "cancelled"),
            Error::StillRunning { .. } => of(Exit::StillRunning, "still_running"),
            Error::InputRequired { .. } => of(Exit::InputRequired, "input_required"),
            Error::TimedOut { .. } => of(Exit::Failed, "timed_out"),
            Error::Failed { .. } => of(Exit::Failed, "failed"),
            Error::Answer(error) => Self::from(error),
            _ => of(Exit::Failed, "protocol"),
        }
    }
}

/// What a server answered with instead of a result.
impl From<&ErrorObject> for Failure {
    fn from(error: &ErrorObject) -> Self {
        let message = format!("{} ({})", error.message, error.code.0);
        #[derive(Deserialize)]
        struct About {
            reason: String,
        }
        let about = error.data.as_ref().and_then(|data| serde_json::from_str::<About>(data.get()).ok());
        let lost = about.is_some_and(|about| about.reason == "worker_lost");
        match error.code {
            _ if lost => Self::new(Exit::Failed, "worker_lost", message),
            Code::FORBIDDEN => {
                Self::new(Exit::SignIn, "forbidden", message).next("sign in with a token that has the scope")
            }
            // Tasks are declared, so what is missing is a way to ask.
            Code::MISSING_CAPABILITY => Self::new(
                Exit::InputRequired,
                "input_required",
                format!("this needs answers while it runs, and nobody here gives them: {message}"),
            ),
            Code::OVERLOADED => Self::new(Exit::Failed, "overloaded", message),
            _ => Self::new(Exit::Failed, "answer", message),
        }
    }
}
