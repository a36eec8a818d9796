//! The pages that `serve` has beside its endpoint: whether there are any, and who comes to them.

use std::path::Path;
use std::sync::Arc;

use longhaul::auth::Guard;
use longhaul::proto::http::AllowList;
use longhaul::server::Dispatcher;
use longhaul::store::Registry;
use longhaul_gateway::admin::{Admin, new_key};
use longhaul_gateway::config::{Config, Listen};
use longhaul_gateway::dashboard::{Dashboard, Facts};
use longhaul_gateway::fleet::Fleet;
use longhaul_gateway::tool::Streams;
use longhaul_gateway::upstream::Upstream;

use crate::banner::{self, Page};
use crate::cmd::connect;
use crate::failure::Outcome;

/// What the pages are made with.
pub(crate) struct Around<'a> {
    pub(crate) config: &'a Config,
    pub(crate) file: &'a Path,
    pub(crate) guard: Option<&'a Guard>,
    pub(crate) registry: &'a Arc<dyn Registry>,
    pub(crate) streams: &'a Streams,
    pub(crate) fleet: &'a Fleet,
}

impl Around<'_> {
    /// The pages of a server at `place`, and how people come to them. None beyond this machine where nobody has to sign in:
    /// whoever reaches the address would be one key away from everything.
    pub(crate) async fn pages(
        &self,
        place: &Listen,
        allow: &AllowList,
        dispatcher: &Dispatcher,
        upstreams: Vec<Arc<Upstream>>,
    ) -> Outcome<Option<(Dashboard, Page)>> {
        let Self { config, file, guard, registry, streams, fleet } = *self;
        if !config.page.enabled || guard.is_none() && place.is_reachable() {
            return Ok(None);
        }
        let endpoint = banner::endpoint(place, config, allow);
        let mut facts = Facts::default();
        facts.name = config.server.name.clone();
        facts.version = config.server.version.clone();
        facts.store = config.store.url.to_string();
        facts.config = file.display().to_string();
        facts.commands = config.tools.clone();
        facts.jobs = config.jobs.iter().map(|job| job.name.clone()).collect();
        facts.upstreams = upstreams;
        facts.hosts = connect::snippets(config, file, &endpoint);
        facts.endpoint = endpoint;
        let known_as = config.auth.as_ref().and_then(|auth| auth.resource.as_ref());
        facts.is_https = known_as.is_some_and(|url| url.as_str().starts_with("https:"));
        let admin = Admin::new(dispatcher.clone(), Arc::clone(registry), streams.clone(), fleet.clone());
        let dashboard = Dashboard::new(admin, facts);
        Ok(Some(match (guard, place) {
            (Some(guard), _) => {
                (dashboard.guarded(guard.clone(), config.page.operators.clone()), Page::Token)
            }
            // Who comes by the socket needs no key.
            (None, Listen::Socket(_)) => (dashboard, Page::Token),
            (None, Listen::Address(_)) => (dashboard, Page::Key(new_key(&**registry).await?)),
        }))
    }
}
