//! The servers that a configuration serves on, each tried as `serve` would: started or asked, and what it has listed.

use std::sync::Arc;
use std::time::Duration;

use longhaul_gateway::causes::in_words;
use longhaul_gateway::config::{Config, Reach, UpstreamServer, format_duration};
use longhaul_gateway::shell;
use longhaul_gateway::upstream::Upstream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::report::Report;
use crate::failure::Outcome;
use crate::upstreams;

/// How long all of them are waited for, side by side: a person waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// What came of trying one.
enum Tried {
    /// It says that it has this.
    Has(String),
    /// It does not, and why.
    Fails(String),
    /// It has not said anything yet, and need not have.
    Silent,
}

/// Tries each of them, and tells of them in the order of the file.
pub(super) async fn examine(config: &Config, report: &mut Report) -> Outcome<()> {
    let mut trying = JoinSet::new();
    for (place, server) in config.servers.iter().enumerate() {
        let upstream = upstreams::upstream(server).await?;
        trying.spawn(async move { (place, tried(&upstream).await) });
    }
    let mut tried = trying.join_all().await;
    tried.sort_by_key(|(place, _)| *place);
    for (server, (_, tried)) in config.servers.iter().zip(tried) {
        let name = &server.name;
        match tried {
            Tried::Has(what) => report.ok("servers", format!("{name}: {what}"))?,
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
        match client.list_tools().await {
            Ok(tools) if tools.len() == 1 => Tried::Has(format!("1 tool, {revision}")),
            Ok(tools) => Tried::Has(format!("{} tools, {revision}", tools.len())),
            Err(error) => Tried::Fails(format!("its tools cannot be listed: {}", in_words(&error))),
        }
    };
    let found = timeout(PATIENCE, looking).await.unwrap_or(Tried::Silent);
    upstream.close_for_good().await;
    found
}

/// What to do about one that cannot be reached.
fn advice(server: &UpstreamServer) -> String {
    let name = &server.name;
    match &server.reach {
        Reach::Command(command) => {
            let words: Vec<_> = command.argv.iter().map(|word| shell::word(word)).collect();
            let words = words.join(" ");
            format!("mend `command` of `[servers.{name}]`; `longhaul tools -- {words}` tries it alone")
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
