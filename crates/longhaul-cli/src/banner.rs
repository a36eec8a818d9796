//! What `serve` says when it is ready: on standard error, for a person.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use longhaul::auth::Resource;
use longhaul::proto::dialect::Revision;
use longhaul::proto::http::AllowList;
use longhaul::store::Counts;
use longhaul_gateway::config::{Auth, Config, EnvSource, Listen, Role};
use longhaul_gateway::shell;

use crate::metrics::{self, Told};
use crate::term::clean;
use crate::{other_users, systemd, upstreams};

/// How people come to the pages.
pub(crate) enum Page {
    /// With this key, once.
    Key(String),
    /// With a token of their own.
    Token,
}

/// What the store had when the server began.
pub(crate) struct Open {
    pub(crate) counts: Counts,
    /// What its acknowledged writes survive, where that is for somebody else to set.
    pub(crate) survives: Option<String>,
    /// How many tasks it took up.
    pub(crate) taken_up: usize,
    /// Whether the configuration is read again whenever it is written.
    pub(crate) watched: bool,
    /// The tools of those that are not in its configuration.
    pub(crate) foreign: BTreeSet<Arc<str>>,
}

/// Says where the server listens and whom it lets in, what it offers, which store it has, and what to do next.
pub(crate) fn show(
    config: &Config,
    file: &Path,
    listening: Option<(&Listen, &AllowList)>,
    page: Option<&Page>,
    numbers: Option<&Told>,
    open: &Open,
    upstreams: &upstreams::Lines,
) {
    let tools: Vec<&str> = config.names().collect();
    let name = clean::line(&config.server.name, 128);
    anstream::eprintln!("longhaul {}   {name} {}", env!("CARGO_PKG_VERSION"), config.server.version);
    anstream::eprintln!("  config   {}{}", file.display(), if open.watched { ", watching" } else { "" });
    match config.server.role {
        Role::All => {}
        Role::Front => {
            anstream::eprintln!("  role     front: workers on the same store do what is called here")
        }
        Role::Worker => anstream::eprintln!("  role     worker: it answers nobody"),
    }
    anstream::eprintln!("  store    {}   {}", config.store.url, open_tasks(open.counts.open, open.taken_up));
    if let Some(survives) = &open.survives {
        anstream::eprintln!("  writes   {}", clean::line(survives, 400));
    }
    anstream::eprintln!("  tools    {}", if tools.is_empty() { "none".to_owned() } else { tools.join(" ") });
    for server in &upstreams.servers {
        anstream::eprintln!("  server   {server}");
    }
    if let (Some(_), Some(auth)) = (listening, &config.auth) {
        anstream::eprintln!("  auth     {}", vouched_for_by(auth));
    }
    let callers = listening.and_then(|(place, _)| callers(config, place));
    let notes = systemd::note().into_iter().chain(foreign(&open.foreign)).chain(callers);
    for note in notes.chain(upstreams.notes.iter().cloned()) {
        anstream::eprintln!("  note     {note}");
    }
    let (lines, ready) = reached(config, &name, listening, page);
    for line in lines {
        anstream::eprintln!("  {line}");
    }
    match numbers {
        Some(Told::At(Listen::Address(address))) => {
            anstream::eprintln!("  metrics  http://{address}{}", metrics::PATH);
        }
        Some(Told::At(place)) => anstream::eprintln!("  metrics  {place}   {}", metrics::PATH),
        Some(Told::Nowhere(place)) => {
            anstream::eprintln!("  note     {place} is taken, so nobody is told the numbers of this server");
        }
        None => {}
    }
    anstream::eprintln!("ready{ready}");
}

/// Where callers and people come in, a line each, and what to do next.
fn reached(
    config: &Config,
    name: &str,
    listening: Option<(&Listen, &AllowList)>,
    page: Option<&Page>,
) -> (Vec<String>, String) {
    match listening {
        Some((Listen::Address(address), _)) if config.server.role == Role::Worker => {
            (Vec::new(), format!("    http://{address}/healthz   and /readyz"))
        }
        Some((place, _)) if config.server.role == Role::Worker => {
            (Vec::new(), format!("    {place}   /healthz and /readyz"))
        }
        Some((place @ Listen::Socket(_), _)) => (
            vec![format!("mcp      {place}   {}", revisions())],
            format!("    next: longhaul tools {}", shell::word(&place.to_string())),
        ),
        Some((&Listen::Address(address), allow)) => {
            let hosts = config.http.allowed_hosts.as_deref().unwrap_or_default();
            let host = host(address, hosts, allow);
            let url = format!("http://{host}/mcp");
            let mut lines = vec![format!("mcp      {url}   {}", revisions())];
            lines.extend(page.map(|page| match page {
                Page::Key(key) => format!("page     http://{host}/?key={key}   (once)"),
                Page::Token => format!("page     http://{host}/   (sign in with a token)"),
            }));
            let (known, token) = config.auth.as_ref().map(sign_in).unwrap_or_default();
            let url = known.unwrap_or(&url);
            (lines, format!("    next: claude mcp add --transport http {} {url}{token}", shell::word(name)))
        }
        None => (vec![format!("mcp      standard input and output   {}", revisions())], String::new()),
    }
}

/// The URL that a client has to use for its tokens to count, and what else it needs where no issuer gives it one.
fn sign_in(auth: &Auth) -> (Option<&str>, String) {
    let has_issuer = !auth.issuers.is_empty() || auth.proxy.is_some();
    let header = match auth.tokens.first().map(|token| &token.source) {
        Some(EnvSource::Variable(name)) if !has_issuer => format!("${name}"),
        Some(_) if !has_issuer => "TOKEN".to_owned(),
        _ => return (auth.resource.as_ref().map(Resource::as_str), String::new()),
    };
    (None, format!(" --header \"Authorization: Bearer {header}\""))
}

/// Whose tokens count.
fn vouched_for_by(auth: &Auth) -> String {
    let issuers = auth.issuers.iter().map(|issuer| clean::line(&issuer.url, 128));
    let tokens: Vec<String> = auth.tokens.iter().map(|token| clean::line(&token.name, 128)).collect();
    let own = (!tokens.is_empty()).then(|| format!("the tokens of {}", tokens.join(" ")));
    let here = auth.proxy.as_ref();
    let here =
        here.map(|proxy| format!("sign-in by way of this server at {}", clean::line(&proxy.upstream, 128)));
    issuers.chain(here).chain(own).collect::<Vec<_>>().join(", ")
}

/// The oldest and the newest revision that is spoken.
fn revisions() -> String {
    match Revision::ALL {
        [newest, .., oldest] => format!("{oldest} to {newest}"),
    }
}

fn open_tasks(open: u64, taken_up: usize) -> String {
    match (open, taken_up) {
        (0, 0) => "no open tasks".to_owned(),
        (1, 0) => "1 open task".to_owned(),
        (open, 0) => format!("{open} open tasks"),
        (open, 1) => format!("{open} open, 1 taken up"),
        (open, taken_up) => format!("{open} open, {taken_up} taken up"),
    }
}

fn foreign(tools: &BTreeSet<Arc<str>>) -> Option<String> {
    let tools: Vec<String> = tools.iter().map(|tool| clean::line(tool, 128)).collect();
    (!tools.is_empty()).then(|| {
        format!("tasks of tools that are not configured any more were taken up: {}", tools.join(" "))
    })
}

/// The URL of the endpoint, for those on this machine.
pub(crate) fn endpoint(place: &Listen, config: &Config, allow: &AllowList) -> String {
    match place {
        Listen::Socket(_) => place.to_string(),
        Listen::Address(address) => {
            let hosts = config.http.allowed_hosts.as_deref().unwrap_or_default();
            format!("http://{}/mcp", host(*address, hosts, allow))
        }
    }
}

/// A host and port under which the server lets callers in: that of others, where it is served to others.
pub(crate) fn host(address: SocketAddr, hosts: &[String], allow: &AllowList) -> String {
    let (ip, port) = (address.ip(), address.port());
    let named = hosts.iter().map(|host| if has_port(host) { host.clone() } else { format!("{host}:{port}") });
    let own = match ip {
        IpAddr::V4(_) if ip.is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port).to_string(),
        IpAddr::V6(_) if ip.is_unspecified() => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port).to_string(),
        _ => address.to_string(),
    };
    let mut candidates: Vec<String> = named.collect();
    candidates.insert(if ip.is_unspecified() { candidates.len() } else { 0 }, own);
    let usable = candidates.into_iter().find(|host| allow.check(Some(host), None).is_ok());
    usable.unwrap_or_else(|| address.to_string())
}

fn has_port(host: &str) -> bool {
    host.rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
}

/// What to tell of those who may call, or may not, if it may surprise.
fn callers(config: &Config, place: &Listen) -> Option<String> {
    let Listen::Address(address) = place else { return None };
    match &config.http.allowed_hosts {
        Some(hosts) if hosts.is_empty() => Some("allowed_hosts is empty: nobody is let in".to_owned()),
        // Whoever comes has to sign in, and the name that tokens know the server by is let in.
        _ if config.auth.is_some() => None,
        None if address.ip().is_unspecified() => {
            let system = rustix::system::uname();
            let name = clean::line(&system.nodename().to_string_lossy(), 128);
            Some(format!(
                "only this machine is let in: for others, list the names they call it by, as in [http] allowed_hosts = [\"{name}\"]"
            ))
        }
        _ if address.ip().is_loopback() => other_users::note(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_one_that_is_let_in() {
        let list = |hosts: &[&str]| AllowList::new(hosts.iter().copied(), [""; 0]);
        let at = |address: &str, hosts: &[&str], allow: &AllowList| {
            let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
            host(address.parse().unwrap(), &hosts, allow)
        };
        assert_eq!(at("127.0.0.1:8420", &[], &AllowList::loopback()), "127.0.0.1:8420");
        assert_eq!(at("0.0.0.0:8420", &[], &AllowList::loopback()), "127.0.0.1:8420");
        assert_eq!(at("[::]:8420", &[], &AllowList::loopback()), "[::1]:8420");
        let hosts = ["ci.example", "127.0.0.1"];
        assert_eq!(at("0.0.0.0:8420", &hosts, &list(&hosts)), "ci.example:8420");
        assert_eq!(at("127.0.0.1:8420", &hosts, &list(&hosts)), "127.0.0.1:8420");
        // A proxy calls it by the name that it has for others.
        let hosts = ["mcp.example:443"];
        assert_eq!(at("127.0.0.1:8420", &hosts, &list(&hosts)), "mcp.example:443");
    }
}
