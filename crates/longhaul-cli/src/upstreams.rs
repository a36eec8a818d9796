//! The MCP servers that `serve` serves on.

use std::sync::Arc;
use std::time::Duration;

use longhaul::Server;
use longhaul::client::Options;
use longhaul::client::auth::OAuth;
use longhaul::server::Catalogue;
use longhaul_gateway::config::{Config, Reach, UpstreamServer};
use longhaul_gateway::upstream::{Names, Seen, Upstream, keep_offered};
use tokio::time::{Instant, timeout_at};

use crate::failure::Outcome;
use crate::term::clean;
use crate::{identity, state};

/// How long `serve` waits for other servers to say what they have. Whoever takes longer is listed once it has.
const PATIENCE: Duration = Duration::from_secs(5);

/// The server, with room for tools that come later, where the configuration names servers that have some.
pub(crate) fn room_for(server: Server, config: &Config) -> (Server, Option<Catalogue>) {
    if config.servers.is_empty() {
        return (server, None);
    }
    let (server, catalogue) = server.tasks_to_come(true).dynamic();
    (server, Some(catalogue))
}

/// Every server of a configuration.
#[derive(Debug, Default)]
pub(crate) struct Upstreams(Vec<Arc<Upstream>>);

/// What a person is told of them.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// One line each.
    pub(crate) servers: Vec<String>,
    /// What to look at.
    pub(crate) notes: Vec<String>,
}

impl Upstreams {
    /// Starts serving them on, and waits a moment for what they have.
    pub(crate) async fn open(config: &Config, catalogue: Option<Catalogue>) -> Outcome<Self> {
        let Some(catalogue) = catalogue else { return Ok(Self::default()) };
        let names = Arc::new(Names::new(config.names()));
        let mut all = Vec::new();
        for server in &config.servers {
            all.push(Upstream::tended(server.clone(), options(server).await?));
        }
        for upstream in &all {
            tokio::spawn(keep_offered(Arc::clone(upstream), catalogue.clone(), Arc::clone(&names)));
        }
        let until = Instant::now() + PATIENCE;
        for upstream in &all {
            let mut seen = upstream.seen();
            // Who has not answered by then is said to be waited for.
            let _ = timeout_at(until, seen.wait_for(|seen| !matches!(seen, Seen::Nothing))).await;
        }
        Ok(Self(all))
    }

    /// The names of their tools, as far as they are known.
    pub(crate) fn tools(&self) -> Vec<String> {
        let of = |upstream: &Arc<Upstream>| match &*upstream.seen().borrow() {
            Seen::Listed { tools, .. } => tools.clone(),
            Seen::Nothing | Seen::Failed { .. } => Vec::new(),
        };
        self.0.iter().flat_map(of).collect()
    }

    /// What a person is told.
    pub(crate) fn lines(&self) -> Lines {
        let mut lines = Lines::default();
        for upstream in &self.0 {
            let name = &upstream.config().name;
            lines.servers.push(match &*upstream.seen().borrow() {
                Seen::Nothing => format!("{name}   has not answered yet: its tools are listed once it has"),
                Seen::Failed { why } => {
                    format!("{name}   not reached, and tried again: {}", clean::line(why, 400))
                }
                Seen::Listed { tools, revision, notes } => {
                    lines
                        .notes
                        .extend(notes.iter().map(|note| format!("{name}: {}", clean::line(note, 400))));
                    let count = match tools.len() {
                        1 => "1 tool".to_owned(),
                        count => format!("{count} tools"),
                    };
                    format!("{name}   {count}   {revision}")
                }
            });
        }
        lines
    }

    /// Ends the connections, with the processes at their other ends.
    pub(crate) async fn close(self) {
        let mut closing = tokio::task::JoinSet::new();
        for upstream in self.0 {
            closing.spawn(async move { upstream.close().await });
        }
        closing.join_all().await;
    }
}

/// Who is signed in at a server, if anybody is.
async fn options(server: &UpstreamServer) -> Outcome<Options> {
    let options = Options::default();
    let Reach::Url(at) = &server.reach else { return Ok(options) };
    let signs_in = at.headers.iter().any(|header| header.name().as_str() == "authorization");
    match state::tokens().filter(|_| !signs_in) {
        Some(tokens) => identity::signed_in(options.oauth(OAuth::new().store(tokens)), at.url.as_str()).await,
        None => Ok(options),
    }
}
