//! The servers that a configuration serves on, each tried as `serve` would: started or asked, and what it has listed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use longhaul::client::LeftOut;
use longhaul::proto::model::Tool;
use longhaul_gateway::causes::in_words;
use longhaul_gateway::config::{Config, Reach, UpstreamServer, format_duration};
use longhaul_gateway::shell;
use longhaul_gateway::upstream::Upstream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::report::Report;
use crate::failure::{Failure, Outcome};
use crate::upstreams;

/// How long all of them are waited for, side by side: a person waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// What came of trying one.
enum Tried {
    /// It says that it has this.
    Has(String),
    /// So it does, and not all of it is served, for that reason.
    HasSome(String),
    /// It does not, and why.
    Fails(String),
    /// What is kept of signing in there cannot be used.
    Unread(Failure),
    /// It has not said anything yet, and need not have.
    Silent,
}

/// Tries each of them, and tells of them in the order of the file.
pub(super) async fn examine(config: &Config, report: &mut Report) -> Outcome<()> {
    let mut trying = JoinSet::new();
    for (place, server) in config.servers.iter().enumerate() {
        let upstream = upstreams::upstream(server).await;
        trying.spawn(async move {
            let tried = match upstream {
                Ok(upstream) => tried(&upstream).await,
                Err(failure) => Tried::Unread(failure),
            };
            (place, tried)
        });
    }
    let mut tried = trying.join_all().await;
    tried.sort_by_key(|(place, _)| *place);
    for (server, (_, tried)) in config.servers.iter().zip(tried) {
        let name = &server.name;
        match tried {
            Tried::Has(what) => report.ok("servers", format!("{name}: {what}"))?,
            Tried::HasSome(what) => {
                report.warn("servers", format!("{name}: {what}"), "whoever made the server can mend that")?;
            }
            Tried::Unread(failure) => report.failure("servers", &failure.of(name))?,
            Tried::Fails(why) => report.fail("servers", format!("{name}: {why}"), advice(server))?,
            Tried::Silent => {
                let (waited, within) = (format_duration(PATIENCE), format_duration(server.start_within));
                let found = format!("{name}: it has not answered within {waited}, and has {within} to do so");
                report.warn(
                    "servers",
                    found,
                    "it may fetch something when it is first started: look again",
                )?;
            }
        }
    }
    Ok(())
}

async fn tried(upstream: &Arc<Upstream>) -> Tried {
    let looking = async {
        let client = match upstream.client().await {
            Ok(client) => client,
            Err(unreached) => return Tried::Fails(unreached.for_operator().to_string()),
        };
        let revision = client.dialect().revision();
        if !client.capabilities().tools {
            return Tried::Has(format!("no tools, {revision}"));
        }
        match client.list_tools_and_others().await {
            Ok((tools, left_out)) => match not_served(&tools, &left_out) {
                None => Tried::Has(format!("{}, {revision}", count(&tools))),
                Some(why) => Tried::HasSome(format!("{}, {revision}; {why}", count(&tools))),
            },
            Err(error) => Tried::Fails(format!("its tools cannot be listed: {}", in_words(&error))),
        }
    };
    let found = timeout(PATIENCE, looking).await.unwrap_or(Tried::Silent);
    upstream.close_for_good().await;
    found
}

/// How many tools there are, each counted once.
fn count(tools: &[Tool]) -> String {
    match tools.iter().map(|tool| &tool.name).collect::<BTreeSet<_>>().len() {
        1 => "1 tool".to_owned(),
        several => format!("{several} tools"),
    }
}

/// What of a list is not served, or not as it is listed, in the words of `serve`: the first, and how many more there are.
fn not_served(tools: &[Tool], left_out: &[LeftOut]) -> Option<String> {
    let mut seen = BTreeSet::new();
    let repeated: BTreeSet<_> =
        tools.iter().map(|tool| &*tool.name).filter(|name| !seen.insert(*name)).collect();
    let first = match left_out.first() {
        Some(LeftOut { name, why, .. }) => format!("a tool that is listed as {name} is not served: {why}"),
        None => {
            let name = repeated.first()?.escape_debug();
            format!("`{name}` is listed more than once, and served as it is listed first")
        }
    };
    Some(match left_out.len() + repeated.len() {
        1 => first,
        several => format!("{first}; and {} more", several - 1),
    })
}

/// What to do about one that cannot be reached. The arguments of a command may be secret.
fn advice(server: &UpstreamServer) -> String {
    let name = &server.name;
    match &server.reach {
        Reach::Command(command) => {
            let program = command.argv.first().map(|program| shell::word(program)).unwrap_or_default();
            format!("mend `command` of `[servers.{name}]`, which runs `{program}`, or its `cwd` or `env`")
        }
        Reach::Url(at) => {
            // What follows a `?` may be a secret.
            let mut url = at.url.clone();
            url.set_query(None);
            let url = shell::word(url.as_str()).into_owned();
            format!("start it, or mend `url` of `[servers.{name}]`; `longhaul doctor {url}` looks closer")
        }
    }
}
