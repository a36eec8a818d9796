//! A configuration that is read again while it is served: what can change does, and the rest is said to wait.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use longhaul::Tool;
use longhaul::server::Catalogue;
use longhaul_gateway::command::RunsDir;
use longhaul_gateway::config::{self, Changed, Checked, Colour, Config, Diagnostics, StoreUrl};
use longhaul_gateway::dashboard::Dashboard;
use longhaul_gateway::http_job::Jobs;
use longhaul_gateway::tool::{Copies, command_tool, job_tool};
use longhaul_gateway::upstream::Upstream;
use rustix::process::{getpid, kill_process};
use tokio::signal::unix::Signal;

use crate::term::note;
use crate::upstreams::{Upstreams, upstream, withholding};
use crate::watch::{News, Watch};

/// What is served and can be changed.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) catalogue: Catalogue,
    pub(crate) upstreams: Upstreams,
    pub(crate) runs: RunsDir,
    pub(crate) copies: Copies,
    pub(crate) jobs: Jobs,
    pub(crate) pages: Option<Dashboard>,
}

/// Keeps what is served like its configuration.
#[derive(Debug)]
pub(crate) struct Reload {
    file: PathBuf,
    /// As the server began: what holds for the whole process is as it says.
    first: Config,
    /// As it is served: what was read last, as far as that could be taken over.
    now: Config,
    served: Served,
}

/// What is left as it was, by name, and why.
#[derive(Debug, Default)]
struct Refused {
    names: BTreeSet<String>,
    why: Vec<String>,
}

impl Refused {
    fn push(&mut self, name: &str, why: String) {
        self.names.insert(name.to_owned());
        self.why.push(why);
    }
}

impl Reload {
    /// What is `served` is as that file said.
    pub(crate) fn new(file: PathBuf, config: Config, served: Served) -> Self {
        Self { file, first: config.clone(), now: config, served }
    }

    /// Reads the configuration whenever it may be another, for as long as the runtime lives.
    pub(crate) async fn keep(mut self, mut watch: Watch, mut hangups: Signal) {
        let file = self.file.display().to_string();
        loop {
            match watch.news(&mut hangups).await {
                News::Again => {
                    let (said, diagnostics) = self.again().await;
                    for line in &said {
                        note(&format!("{file} {line}"));
                    }
                    if let Some(pages) = &self.served.pages {
                        pages.read_again(said, diagnostics);
                    }
                }
                News::Gone => note(&format!("{file} is not there any more: what was read before goes on")),
                News::HungUp => {
                    // As if it was asked to: what runs is let go in order.
                    if kill_process(getpid(), rustix::process::Signal::TERM).is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Reads it once more: what came of that, and what its author should look at, who is shown it.
    async fn again(&mut self) -> (Vec<String>, String) {
        let path = self.file.clone();
        let loaded = tokio::task::spawn_blocking(move || config::load(&path)).await;
        match loaded {
            Ok(Ok(Checked { config, warnings, .. })) => {
                show(&warnings);
                let said = match withholding(config).await {
                    Ok(config) => self.take(config).await,
                    Err(failure) => vec![format!("what was read before goes on: {}", failure.line())],
                };
                let said = said.into_iter().map(|line| format!("was read again: {line}"));
                (said.collect(), warnings.render(Colour::Never))
            }
            Ok(Err(mistakes)) => {
                show(&mistakes);
                let said = "was read again and has mistakes: what was read before goes on".to_owned();
                (vec![said], mistakes.render(Colour::Never))
            }
            Err(error) => (vec![format!("could not be read again: {error}")], String::new()),
        }
    }

    /// Serves what it says from here on, and gives what is to be said of that.
    async fn take(&mut self, config: Config) -> Vec<String> {
        let mut changes = config.changes_since(&self.now);
        let (put, mut refused) = self.tools(&config, &changes.tools, &changes.jobs);
        let gone: Vec<&String> = changes.tools.removed.iter().chain(&changes.jobs.removed).collect();
        let gone = gone.into_iter().filter(|name| config.names().all(|other| other != name.as_str()));
        match self.served.catalogue.renew(gone, put) {
            Ok(unfit) => {
                for (name, why) in unfit {
                    refused.push(&name, format!("`{name}` is not served: {why}"));
                }
            }
            // It serves no more.
            Err(error) => return vec![error.to_string()],
        }
        let (servers, left) = self.servers(&config, &changes.servers).await;
        let waiting = self.waiting(&config);
        self.now = config.but_for(&refused.names, &left.names, &self.now);
        if !changes.servers.is_empty() {
            let names: Vec<String> = self.now.servers.iter().map(|server| server.name.clone()).collect();
            self.served.upstreams.change(servers, &names, &self.served.catalogue);
        }
        changes.tools.retain(|name| !refused.names.contains(name));
        changes.jobs.retain(|name| !refused.names.contains(name));
        changes.servers.retain(|name| !left.names.contains(name));
        let mut said =
            told(&[("tool", &changes.tools), ("job", &changes.jobs), ("server", &changes.servers)]);
        said.extend(refused.why.into_iter().chain(left.why).chain(waiting));
        if let Some(pages) = &self.served.pages {
            let mut facts = (*pages.facts()).clone();
            facts.commands.clone_from(&self.now.tools);
            facts.jobs = self.now.jobs.iter().map(|job| job.name.clone()).collect();
            facts.upstreams = self.served.upstreams.all();
            pages.tell(facts);
        }
        if said.is_empty() {
            said.push("nothing that is served has changed".to_owned());
        }
        said
    }

    /// What holds for the whole process and is not as the configuration says.
    fn waiting(&self, config: &Config) -> Vec<String> {
        let elsewhere = config.jobs.iter().filter(|job| {
            let host = job.callback.as_ref().and_then(|callback| callback.url.host_str());
            host.is_some_and(|host| !self.lets_in(host))
        });
        let mut waiting: Vec<String> = elsewhere
            .map(|job| {
                let job = &job.name;
                format!("callbacks of `{job}` come to another name of this server: that takes effect at the next start")
            })
            .collect();
        let sections = config.changes_since(&self.first).at_next_start;
        if !sections.is_empty() {
            let what = sections.iter().map(|name| format!("`[{name}]`")).collect::<Vec<_>>().join(", ");
            waiting.push(format!(
                "what it says in {what} is not what is served: that takes effect at the next start"
            ));
        }
        waiting
    }

    /// The tools of its own that are served from here on as they are now, and why others are not.
    fn tools(&self, config: &Config, tools: &Changed, jobs: &Changed) -> (Vec<Tool>, Refused) {
        let (mut put, mut refused) = (Vec::new(), Refused::default());
        let mut is_free = |name: &str| match self.served.upstreams.take_tool(name) {
            Ok(()) => true,
            Err(server) => {
                let why = format!(
                    "`{name}` is a tool of the server `{server}`, which callers know: that changes at the next start"
                );
                refused.push(name, why);
                false
            }
        };
        let tools: Vec<&str> = tools.put().filter(|name| is_free(name)).collect();
        let jobs: Vec<&str> = jobs.put().filter(|name| is_free(name)).collect();
        for tool in config.tools.iter().filter(|tool| tools.contains(&tool.name.as_str())) {
            if self.has_no_runs() {
                let name = &tool.name;
                let why = format!(
                    "`{name}` needs a place for its run files, `state` of `[store]`: that takes effect at the next start"
                );
                refused.push(name, why);
            } else {
                let Served { runs, copies, .. } = &self.served;
                put.push(command_tool(Arc::new(tool.clone()), runs.clone(), copies.clone()));
            }
        }
        for job in config.jobs.iter().filter(|job| jobs.contains(&job.name.as_str())) {
            match self.served.jobs.put(job) {
                Ok(over_http) => put.push(job_tool(&over_http)),
                Err(error) => refused.push(&job.name, format!("`{}` is not served: {error}", job.name)),
            }
        }
        (put, refused)
    }

    /// A database has no folder for what commands write, and none was named when the server began without commands.
    fn has_no_runs(&self) -> bool {
        let store = &self.first.store;
        matches!(store.url, StoreUrl::Postgres(_) | StoreUrl::Redis(_))
            && store.state.is_none()
            && self.first.tools.is_empty()
    }

    /// Whether callbacks under this name were expected from the start.
    fn lets_in(&self, host: &str) -> bool {
        let known = self.first.jobs.iter().filter_map(|job| job.callback.as_ref()?.url.host_str());
        let own = ["localhost", "127.0.0.1", "[::1]"];
        let configured = self.first.http.allowed_hosts.iter().flatten();
        let configured = configured.map(|name| name.rsplit_once(':').map_or(name.as_str(), |(name, _)| name));
        known.chain(own).chain(configured).any(|name| name == host)
    }

    /// Those servers, made to be served on, and why others are left as they were.
    async fn servers(&self, config: &Config, servers: &Changed) -> (Vec<Arc<Upstream>>, Refused) {
        let (mut put, mut left) = (Vec::new(), Refused::default());
        for server in config.servers.iter().filter(|server| servers.put().any(|name| name == server.name)) {
            match upstream(server).await {
                Ok(upstream) => put.push(upstream),
                Err(failure) => {
                    let name = &server.name;
                    left.push(name, format!("the server `{name}` is left as it was: {}", failure.line()));
                }
            }
        }
        (put, left)
    }
}

/// Shows what the author of a configuration should look at, as at the start.
fn show(diagnostics: &Diagnostics) {
    // If nobody reads it, nobody is told.
    let _ = write!(anstream::stderr().lock(), "{}", diagnostics.render(Colour::Always));
}

/// What is there now, is another and is gone.
fn told(kinds: &[(&str, &Changed)]) -> Vec<String> {
    let mut said = Vec::new();
    for (kind, changed) in kinds {
        let Changed { added, changed, removed, .. } = changed;
        for (names, what) in [(added, "added"), (changed, "changed"), (removed, "removed")] {
            if !names.is_empty() {
                let plural = if names.len() == 1 { "" } else { "s" };
                said.push(format!("{kind}{plural} {what}: {}", names.join(" ")));
            }
        }
    }
    said
}
