//! A server, as its clients see it.

use std::time::{Duration, Instant};

use longhaul::client::{Client, Error};
use longhaul::proto::dialect::{Dialect, Era, Revision};
use longhaul::proto::model::SubscriptionFilter;
use serde_json::Value;

use super::report::Report;
use crate::failure::{Failure, Outcome};
use crate::signature::Signature;
use crate::target::{Reach, Server, TargetArgs};
use crate::term::clean;

/// How long one question may take: a person waits.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long the first word of a stream may take.
const FIRST_WORD: Duration = Duration::from_secs(5);

/// Looks at a server; what depends on what has failed is not looked at.
pub(super) async fn examine(server: &Server, target: &TargetArgs, report: &mut Report) -> Outcome<()> {
    let began = Instant::now();
    let client = match connect(server, target, target.revision).await {
        Ok(client) => client,
        Err(failure) => {
            report.failure("reach", &failure)?;
            return Ok(());
        }
    };
    report.ok("reach", format!("{} answers in {} ms", server.name(), began.elapsed().as_millis()))?;
    let done = looked_at(server, target, &client, report).await;
    client.close().await;
    done
}

async fn connect(server: &Server, target: &TargetArgs, revision: Option<Revision>) -> Outcome<Client> {
    let mut options = target.options(server)?.request_timeout(PATIENCE);
    if let Some(revision) = revision {
        options = options.revision(revision);
    }
    server.connect(options, true).await
}

async fn looked_at(
    server: &Server,
    target: &TargetArgs,
    client: &Client,
    report: &mut Report,
) -> Outcome<()> {
    let dialect = client.dialect();
    let era_of = |dialect: &Dialect| if dialect.era() == Era::Modern { "modern" } else { "legacy" };
    let info = client.server_info().map(|info| format!("{} {}", info.name, info.version)).unwrap_or_default();
    report.ok(
        "revision",
        format!(
            "{}, of the {} era   {}",
            dialect.revision().as_str(),
            era_of(dialect),
            clean::line(&info, 120)
        ),
    )?;
    let other = other_era(server, target, dialect).await;
    match &other {
        Some(Ok(other)) => {
            report.ok(
                "revision",
                format!(
                    "and {}, of the {} era",
                    other.dialect().revision().as_str(),
                    era_of(other.dialect())
                ),
            )?;
        }
        Some(Err(_)) if dialect.era() == Era::Modern => {
            let found = "no session can be opened: most hosts speak that alone today";
            report.warn("revision", found, "serve the legacy era too")?;
        }
        Some(Err(_)) => report
            .ok("revision", "it does not speak the modern era, so a lost connection ends its session")?,
        None => {}
    }
    if !tools(client, report).await? {
        return Ok(());
    }
    tasks(client, other.as_ref().and_then(|other| other.as_ref().ok()), report)?;
    if let Reach::Url(url) = &server.reach {
        signing_in(url, target, report)?;
        streams(client, other.as_ref().and_then(|other| other.as_ref().ok()), report).await?;
        clock(url, report).await?;
    }
    if let Some(Ok(other)) = other {
        other.close().await;
    }
    Ok(())
}

/// A connection in the other era; `None` where one revision is asked for.
async fn other_era(server: &Server, target: &TargetArgs, dialect: &Dialect) -> Option<Outcome<Client>> {
    if target.revision.is_some() {
        return None;
    }
    let other = Revision::ALL.into_iter().find(|revision| Dialect::of(*revision).era() != dialect.era())?;
    Some(connect(server, target, Some(other)).await)
}

/// What it offers; whether that could be asked.
async fn tools(client: &Client, report: &mut Report) -> Outcome<bool> {
    let began = Instant::now();
    let tools = match client.list_tools().await {
        Ok(tools) => tools,
        Err(error) => {
            report.failure("tools", &Failure::from(error))?;
            return Ok(false);
        }
    };
    let took = began.elapsed().as_millis();
    if tools.is_empty() {
        report.warn("tools", "it has none", "is it the server that was meant?")?;
        return Ok(true);
    }
    report.ok("tools", format!("{} in {took} ms", tools.len()))?;
    // Claude Code leaves out what is longer than 128 as `mcp__SERVER__TOOL`, and Gemini CLI renames past 63.
    let long: Vec<&str> =
        tools.iter().map(|tool| tool.name.as_str()).filter(|name| name.len() > LONG).collect();
    if let Some(name) = long.first() {
        let found =
            format!("{} names are longer than {LONG} signs, such as {}", long.len(), clean::line(name, 80));
        report.warn("tools", found, "some hosts cut, rename or leave out tools of such names")?;
    }
    let silent =
        tools.iter().filter(|tool| tool.description.as_deref().unwrap_or_default().is_empty()).count();
    if silent > 0 {
        let found = format!("{silent} of them do not say what they do");
        report.warn("tools", found, "a model chooses by the description")?;
    }
    let unread = tools.iter().find(|tool| {
        serde_json::from_str::<Value>(tool.input_schema.get()).is_ok_and(|schema| !schema.is_object())
    });
    if let Some(tool) = unread {
        let line = Signature::of(tool).line();
        report.fail(
            "tools",
            format!("the arguments of {line} are no JSON Schema of an object"),
            "mend its inputSchema",
        )?;
    }
    Ok(true)
}

/// How long a name may be in every host.
const LONG: usize = 50;

fn tasks(client: &Client, other: Option<&Client>, report: &mut Report) -> Outcome<()> {
    let dialects: Vec<&str> = [Some(client), other]
        .into_iter()
        .flatten()
        .filter(|client| client.capabilities().tasks)
        .map(|client| match client.dialect().asks_for_tasks() {
            true => "2025-11-25 (VS Code)",
            false => "the extension io.modelcontextprotocol/tasks (Claude Code)",
        })
        .collect();
    if dialects.is_empty() {
        let found = "calls cannot become tasks: one lives as long as its connection and its host's patience, often 60 s";
        return report.warn("tasks", found, "what takes longer needs a server with tasks");
    }
    report.ok("tasks", dialects.join(", "))
}

/// Whom it lets in: we are in.
fn signing_in(url: &str, target: &TargetArgs, report: &mut Report) -> Outcome<()> {
    let host =
        url.split_once("://").map_or(url, |(_, rest)| rest).split(['/', '?']).next().unwrap_or_default();
    let name = host.rsplit('@').next().unwrap_or_default();
    let is_here = ["localhost", "127.0.0.1", "[::1]"]
        .iter()
        .any(|here| name.strip_prefix(here).is_some_and(|rest| rest.is_empty() || rest.starts_with(':')));
    if is_here || url.starts_with("unix:") {
        return report.ok("auth", "it lets this program in, and is on this machine");
    }
    if url.starts_with("http://") {
        let found = "it is not encrypted on the way: whoever listens there can call its tools and read what they answer";
        return report.warn("auth", found, "serve it behind https");
    }
    let by = if target.token_env.is_some() {
        "by the token of --token-env"
    } else {
        "with what is kept, or nothing"
    };
    report.ok("auth", format!("it lets this program in, {by}"))
}

/// Whether what a server says while a request is open comes through at once.
async fn streams(client: &Client, other: Option<&Client>, report: &mut Report) -> Outcome<()> {
    let modern =
        [Some(client), other].into_iter().flatten().find(|client| client.dialect().era() == Era::Modern);
    let Some(client) = modern else {
        return report.ok("streams", "not looked at: only the modern era has a stream that speaks first");
    };
    let began = Instant::now();
    match tokio::time::timeout(FIRST_WORD, client.subscribe(SubscriptionFilter::default().lists())).await {
        Ok(Ok(_subscription)) => report
            .ok("streams", format!("the first word comes through in {} ms", began.elapsed().as_millis())),
        Ok(Err(Error::NotOffered { .. } | Error::Answer(_))) => {
            report.ok("streams", "not looked at: it has no news to subscribe to")
        }
        Ok(Err(error)) => report.failure("streams", &Failure::from(error)),
        Err(_) => {
            let found = format!(
                "no word of a stream has come in {} s: something on the way keeps them back",
                FIRST_WORD.as_secs()
            );
            report.fail("streams", found, "turn off buffering in the proxy (nginx: proxy_buffering off), and compression of text/event-stream")
        }
    }
}

/// How far its clock may be from ours before tokens and expiries go wrong.
const DRIFT: u64 = 60;

async fn clock(url: &str, report: &mut Report) -> Outcome<()> {
    let began = jiff::Timestamp::now();
    let asked = async {
        let web = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(PATIENCE)
            .build()?;
        web.get(url).header("accept", "text/plain").send().await
    };
    let answer = match url.starts_with("http") {
        true => asked.await.ok(),
        false => None,
    };
    let date = answer.as_ref().and_then(|answer| answer.headers().get("date")?.to_str().ok());
    let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
    let Some(date) = date else {
        return report.ok("clock", "not looked at: its answers have no date");
    };
    let apart = date.timestamp().as_second().abs_diff(began.as_second());
    if apart <= DRIFT {
        return report.ok("clock", format!("it agrees with this machine's within {} s", apart.max(1)));
    }
    let found =
        format!("it is {apart} s from this machine's: tokens may count as expired, or as not yet valid");
    report.warn("clock", found, "have both synchronised (NTP)")
}
