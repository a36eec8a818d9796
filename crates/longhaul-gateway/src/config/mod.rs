//! The configuration file: read once, checked whole, and from then on a model without doubts.
//!
//! [`load`] reads a file and [`check`] a text; either gives a [`Config`] with its warnings, or every mistake of the
//! file at once ([`Diagnostics`]), shown as `rustc` shows its own. A [`CommandTool`] then turns the arguments of a call
//! into a command line with [`CommandTool::bind`], and tells clients what it takes with
//! [`CommandTool::input_schema`].
//!
//! ```toml
//! [tools.test]
//! description = "Run a crate's tests"
//! command = ["cargo", "test", "-p", "{crate}"]
//! input.crate = { type = "string", description = "Package name" }
//! ```
//!
//! Relative paths (`cwd`, `file:` sources, `sqlite:` stores, `state`) start at the folder of the file, wherever the
//! server is started.

use std::collections::BTreeSet;

use longhaul::server::Scopes;

mod argument;
mod audit;
mod auth;
mod bind;
mod calls;
mod change;
mod check;
mod diagnostic;
mod duration;
mod environment;
mod file_schema;
mod http;
mod input;
mod job;
mod listen;
mod machine;
mod metrics;
mod outline;
mod page;
mod pattern;
mod policy;
mod polls;
mod quotas;
mod reader;
mod schema;
mod sealing;
mod server;
mod size;
mod spelling;
mod store;
mod template;
mod tool;
mod upstream;
mod value;
mod versions;
mod violation;
mod written;

pub(crate) use tool::read::COMPANIONS;

pub use self::{
    argument::{ArgumentError, ArgumentErrors},
    audit::Audit,
    auth::{Auth, AuthError, AuthIssuer, AuthProxy, AuthToken, PlainUpstream, TokenCheck},
    bind::{Bound, MAX_COMMAND_LINE},
    calls::Calls,
    change::{Changed, Changes},
    check::{Checked, MAX_FILE, check, check_with, load},
    diagnostic::{Colour, Diagnostic, Diagnostics, MAX_RENDERED, Severity},
    duration::{DurationError, format_duration, parse_duration},
    environment::{EnvError, EnvSource, MAX_VARIABLE, Machine, Sources},
    file_schema::file_schema,
    http::Http,
    input::{Input, Kind, MAX_VALUE, Presence, Range, Text},
    job::{
        BoundHeader, BoundJob, BoundRequest, Callback, CallbackBody, HeaderError, HttpJob, Meaning, Place,
        StatusAt, Unfit,
    },
    listen::{InvalidListen, Listen},
    metrics::Metrics,
    outline::REFERENCE,
    page::Page,
    pattern::Pattern,
    policy::{Join, Output},
    polls::Polls,
    quotas::Quotas,
    sealing::{Sealing, SealingError},
    server::{Role, Server},
    size::{SizeError, format_size, parse_size},
    store::{DatabaseUrl, Store, StoreUrl, StoreUrlError},
    template::escape_placeholders,
    tool::{Annotations, CommandTool, Progress},
    upstream::{Reach, UpstreamCommand, UpstreamPolicy, UpstreamServer, UpstreamStart, UpstreamUrl},
    value::{Number, Value},
    versions::Versions,
    violation::{Rule, Violation},
};

/// A whole configuration, checked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// What the server says about itself.
    pub server: Server,
    /// Where tasks and output are kept.
    pub store: Store,
    /// Where the server listens.
    pub http: Http,
    /// The pages for people at a browser.
    pub page: Page,
    /// Where numbers for whoever watches the server are; nowhere when `None`.
    pub metrics: Option<Metrics>,
    /// How many calls callers may make.
    pub calls: Calls,
    /// How much callers may ask about tasks.
    pub polls: Polls,
    /// Where it is noted what becomes of tasks; nowhere when `None`.
    pub audit: Option<Audit>,
    /// Who may call over HTTP; everybody who reaches the address when `None`.
    pub auth: Option<Auth>,
    /// The tools, in the order of the file.
    pub tools: Vec<CommandTool>,
    /// The APIs of jobs, in the order of the file: tools like the others.
    pub jobs: Vec<HttpJob>,
    /// The MCP servers whose tools are served on, in the order of the file.
    pub servers: Vec<UpstreamServer>,
    /// What its programs do not inherit.
    withheld: environment::Withheld,
    /// As it was written.
    written: written::Written,
}

impl Config {
    /// The tool of this name.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&CommandTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// The name of every tool that the file itself names: those of other servers are theirs to name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let tools = self.tools.iter().map(|tool| tool.name.as_str());
        tools.chain(self.jobs.iter().map(|job| job.name.as_str()))
    }

    /// The variables of the server's environment that something is read from: secrets, as a rule.
    ///
    /// # Examples
    ///
    /// ```
    /// let text = "[tools.t]\ncommand = [\"t\"]\nenv.TOKEN = { from = \"env:CI_TOKEN\" }";
    /// let config = longhaul_gateway::config::check("longhaul.toml", text)?.config;
    /// assert_eq!(config.variables().into_iter().collect::<Vec<_>>(), ["CI_TOKEN"]);
    /// # Ok::<(), longhaul_gateway::config::Diagnostics>(())
    /// ```
    #[must_use]
    pub fn variables(&self) -> BTreeSet<String> {
        self.written.variables()
    }

    /// Keeps more variables of the server's environment from every program: those from which the server reads what is not in the
    /// file, as the secret with which it signs in somewhere.
    ///
    /// # Examples
    ///
    /// ```
    /// let before = longhaul_gateway::config::check("longhaul.toml", "[tools.t]\ncommand = [\"t\"]")?.config;
    /// let mut config = before.clone();
    /// config.withhold(["APP_SECRET".to_owned()].into());
    /// assert_eq!(config.changes_since(&before).tools.changed, ["t"]);
    /// # Ok::<(), longhaul_gateway::config::Diagnostics>(())
    /// ```
    pub fn withhold(&mut self, variables: BTreeSet<String>) {
        self.withheld = self.withheld.and(variables);
        for tool in &mut self.tools {
            tool.withheld = self.withheld.clone();
        }
        for server in &mut self.servers {
            if let Reach::Command(command) = &mut server.reach {
                command.withheld = self.withheld.clone();
            }
        }
    }

    /// Every scope that some tool asks for.
    #[must_use]
    pub fn scopes(&self) -> Scopes {
        let scopes = self.tools.iter().map(|tool| &tool.scopes);
        let scopes = scopes.chain(self.jobs.iter().map(|job| &job.scopes));
        let of_servers =
            self.servers.iter().flat_map(|server| server.tools.values().chain([&server.defaults]));
        let scopes = scopes.chain(of_servers.map(|policy| &policy.scopes));
        scopes.fold(Scopes::default(), |all, scopes| all.union(scopes))
    }
}
