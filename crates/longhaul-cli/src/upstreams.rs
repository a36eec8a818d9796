//! The MCP servers that `serve` serves on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use longhaul::Server;
use longhaul::client::Options;
use longhaul::client::auth::OAuth;
use longhaul::server::Catalogue;
use longhaul::store::Registry;
use longhaul_gateway::config::{Config, Reach, UpstreamServer, UpstreamUrl};
use longhaul_gateway::upstream::{Seen, Upstream, Upstreams as Serving};
use tokio::time::{Instant, timeout_at};

use crate::failure::Outcome;
use crate::term::clean;
use crate::{identity, state};

/// How long `serve` waits for other servers to say what they have. Whoever takes longer is listed once it has.
const PATIENCE: Duration = Duration::from_secs(5);

/// Every server of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct Upstreams(Serving);

/// What a person is told of them.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// One line each.
    pub(crate) servers: Vec<String>,
    /// What to look at.
    pub(crate) notes: Vec<String>,
}

impl Upstreams {
    /// Those of that configuration.
    pub(crate) async fn new(config: &Config, registry: &Arc<dyn Registry>) -> Outcome<Self> {
        let mut all = Vec::new();
        for server in &config.servers {
            all.push(upstream(server).await?);
        }
        Ok(Self(Serving::new(all, config.names()).known_by(Arc::clone(registry))))
    }

    /// The server, with room for what they have, though there be none yet.
    pub(crate) fn room(&self, server: Server) -> (Server, Catalogue) {
        self.0.room(server)
    }

    /// Starts serving them on, and waits a moment for what they have.
    pub(crate) async fn open(&self, catalogue: &Catalogue) {
        self.0.keep_offered(catalogue);
        let until = Instant::now() + PATIENCE;
        for upstream in self.0.iter() {
            let mut seen = upstream.seen();
            // Who has not answered by then is said to be waited for.
            let _ = timeout_at(until, seen.wait_for(|seen| !matches!(seen, Seen::Nothing))).await;
        }
    }

    /// The names of their tools, as far as they are known.
    pub(crate) fn tools(&self) -> Vec<String> {
        let of = |upstream: &Arc<Upstream>| match &*upstream.seen().borrow() {
            Seen::Listed { tools, .. } => tools.clone(),
            Seen::Nothing | Seen::Failed { .. } => Vec::new(),
        };
        self.0.iter().flat_map(|upstream| of(&upstream)).collect()
    }

    /// Each of them.
    pub(crate) fn all(&self) -> Vec<Arc<Upstream>> {
        self.0.iter().collect()
    }

    /// Takes the name of one more tool of the configuration.
    ///
    /// # Errors
    ///
    /// The server that has a tool of this name.
    pub(crate) fn take_tool(&self, name: &str) -> Result<(), String> {
        self.0.take_tool(name)
    }

    /// Serves on these from here on, in the order of `names`, and those of before that are named.
    pub(crate) fn change(&self, put: Vec<Arc<Upstream>>, names: &[String], catalogue: &Catalogue) {
        self.0.change(put, names, catalogue);
    }

    /// What a person is told.
    pub(crate) fn lines(&self) -> Lines {
        let mut lines = Lines::default();
        for upstream in self.0.iter() {
            let name = &upstream.config().name;
            lines.servers.push(match &*upstream.seen().borrow() {
                Seen::Nothing => format!("{name}   has not answered yet: what it has is listed once it has"),
                Seen::Failed { why } => {
                    format!("{name}   not reached, and tried again: {}", clean::line(why, 400))
                }
                Seen::Listed { tools, prompts, resources, templates, revision, notes, away } => {
                    lines
                        .notes
                        .extend(notes.iter().map(|note| format!("{name}: {}", clean::line(note, 400))));
                    let has = counts(&[
                        (tools.len(), "tool"),
                        (*prompts, "prompt"),
                        (*resources, "resource"),
                        (*templates, "template"),
                    ]);
                    let away = away.as_ref().map_or_else(String::new, |away| {
                        format!("   not connected, and offered still: {}", clean::line(&away.why, 400))
                    });
                    format!("{name}   {has}   {revision}{away}")
                }
            });
        }
        lines
    }

    /// Ends the connections, with the processes at their other ends.
    pub(crate) async fn close(self) {
        self.0.close().await;
    }
}

/// A server as it is configured, with who is signed in there.
///
/// # Errors
///
/// When what is kept of signing in cannot be read.
pub(crate) async fn upstream(server: &UpstreamServer) -> Outcome<Arc<Upstream>> {
    Ok(Upstream::tended(server.clone(), options(server).await?))
}

/// How many there are of each kind, but of those of which there are none; always of the first.
fn counts(kinds: &[(usize, &str)]) -> String {
    let has_any = |(place, (count, _)): &(usize, &(usize, &str))| *place == 0 || *count > 0;
    let words = kinds.iter().enumerate().filter(has_any).map(|(_, (count, kind))| match count {
        1 => format!("1 {kind}"),
        count => format!("{count} {kind}s"),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// The configuration, such that no program inherits a secret with which this one signs in at its servers.
///
/// # Errors
///
/// When what is kept of signing in cannot be read.
pub(crate) async fn withholding(mut config: Config) -> Outcome<Config> {
    let mut secrets = BTreeSet::new();
    for at in config.servers.iter().filter_map(signed_in_at) {
        secrets.extend(identity::variable(at.url.as_str()).await?);
    }
    config.withhold(secrets);
    Ok(config)
}

/// Where a server is at which one signs in by `longhaul login`.
fn signed_in_at(server: &UpstreamServer) -> Option<&UpstreamUrl> {
    let Reach::Url(at) = &server.reach else { return None };
    let has_header = at.headers.iter().any(|header| header.name().as_str() == "authorization");
    (!has_header).then_some(at)
}

/// Who is signed in at a server, if anybody is.
async fn options(server: &UpstreamServer) -> Outcome<Options> {
    let options = Options::default();
    match signed_in_at(server).zip(state::tokens()) {
        Some((at, tokens)) => {
            identity::signed_in(options.oauth(OAuth::new().store(tokens)), at.url.as_str()).await
        }
        None => Ok(options),
    }
}
