//! Who works on the tasks, where they are kept, and the servers that are served on: as a page, and as JSON.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use longhaul::store::Time;
use longhaul::tasks::runner::Figures;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::Inner;
use super::frame::{self, Page, Tab};
use super::respond::{self, Answer};
use super::route::Look;
use crate::admin::{AdminError, Nodes, span};
use crate::clean;
use crate::upstream::{Seen, Upstream};

/// What whoever is no operator is told.
const NOT_YOURS: &str = "Only the operator of the server sees its nodes.";

pub(super) async fn show(look: Look<'_>) -> Result<Answer, AdminError> {
    if !look.viewer.is_operator() {
        let page = frame::problem(look.inner, Some(look.viewer), NOT_YOURS);
        return Ok(respond::page(StatusCode::FORBIDDEN, page));
    }
    let (admin, facts) = (&look.inner.admin, look.inner.facts());
    let nodes = admin.nodes(look.viewer).await?;
    let asked = Instant::now();
    let counts = admin.engine().counts().await?;
    let answered = asked.elapsed();
    // Whoever cannot weigh it now is there all the same.
    let size = admin.store().size().await.ok().flatten();
    let now = admin.now();
    let body = html! {
        h1 { "Nodes" }
        (workers(look.inner, &nodes, now))
        section aria-labelledby="store-title" {
            h2 id="store-title" { "Store" }
            dl {
                div { dt { "Where" } dd { code { (clean::line(&facts.store, 200)) } } }
                div { dt { "What is acknowledged" } dd { (admin.store().durability().to_string()) } }
                div { dt { "Tasks" } dd { (counts.open) " open, " (counts.retained) " in all" } }
                @if let Some(size) = size { div { dt { (size_of(&facts.store)) } dd { (about(size)) } } }
                @if let Some(oldest) = nodes.oldest { div { dt { "Oldest open task" } dd { (frame::ago(oldest, now)) } } }
                div { dt { "It has just answered in" } dd { (format!("{answered:.1?}")) } }
            }
            details {
                summary { "What this node has counted" }
                (figures(&admin.engine().figures()))
            }
        }
        (configuration(look.inner, now))
        (upstreams(&facts.upstreams, now))
    };
    let page = Page { tab: Tab::Nodes, title: "Nodes", follows: None, reloads: true, body };
    Ok(respond::page(StatusCode::OK, page.render(look.inner, look.viewer)))
}

/// What the engine of this node has come across.
fn figures(figures: &Figures) -> Markup {
    let orphans = format!("{}, of which {} were cancelled", figures.orphans, figures.orphans_cancelled);
    let counted = [
        ("Longest that a task waits now", span(figures.queue_age)),
        ("Tasks taken up after another node", figures.takeovers.to_string()),
        ("Writes refused, for somebody else had the task or had ended it", figures.fenced_writes.to_string()),
        ("Times that work was entered again", figures.replays.to_string()),
        ("Tasks that nobody came back for", orphans),
        ("Sweeps", figures.sweeps.to_string()),
        (
            "Tasks that nothing would have moved on: a mistake of this release",
            figures.witness_violations.to_string(),
        ),
    ];
    html! { dl { @for (what, count) in counted { div { dt { (what) } dd { (count) } } } } }
}

/// About so many bytes.
fn about(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64),
        None => format!("{bytes} bytes"),
    }
}

/// What the size of a store is of: Redis says how much memory it uses for all that it has, and no more.
fn size_of(store: &str) -> &'static str {
    if store.starts_with("redis") { "Memory that its server uses" } else { "Size" }
}

/// Who works on the tasks.
fn workers(inner: &Inner, nodes: &Nodes, now: Time) -> Markup {
    html! {
        section aria-labelledby="nodes-title" {
            h2 id="nodes-title" { "Who serves" }
            div.scroll tabindex="0" role="group" aria-label="Nodes, a table" {
                table.cards {
                    thead { tr {
                        @for column in ["Node", "Release", "Role", "Began", "Heard of", "Tasks it holds", "Its latest lease ends"] {
                            th scope="col" { (column) }
                        }
                    } }
                    tbody {
                        @for node in &nodes.nodes {
                            tr {
                                th scope="row" {
                                    code { (node.name) }
                                    @if node.is_this { " (this server)" }
                                    @if node.member.as_ref().is_some_and(|member| member.is_draining) { " (about to go)" }
                                }
                                @match &node.member {
                                    Some(member) => {
                                        td data-label="Release: " { (clean::line(&member.release, 40)) }
                                        td data-label="Role: " { (clean::line(&member.role, 20)) }
                                        td data-label="Began " { (frame::ago(member.began, now)) }
                                        td data-label="Heard of " { (frame::ago(member.said, now)) }
                                    },
                                    None => @for label in ["Release: ", "Role: ", "Began: ", "Heard of: "] { td data-label=(label) { "–" } },
                                }
                                td data-label="Tasks it holds: " { (node.tasks) }
                                td data-label="Its latest lease ends " { @match node.until { Some(at) => (frame::when_ends(at, now)), None => "–" } }
                            }
                        }
                    }
                }
            }
            p.hint {
                "This server is release " (env!("CARGO_PKG_VERSION")) " and began " (frame::ago(inner.began, now)) ". Servers on PostgreSQL and Redis say every few seconds that they are there; other nodes are known by the tasks that they hold."
                @if let Some(most) = nodes.newest_only { " The newest " (most) " open tasks were looked at." }
            }
        }
    }
}

/// What the server was set up with, and what came of it when that was read again.
fn configuration(inner: &Inner, now: Time) -> Markup {
    let (facts, reading) = (inner.facts(), inner.reading());
    html! {
        section aria-labelledby="configuration-title" {
            h2 id="configuration-title" { "Configuration" }
            dl {
                div { dt { "File" } dd { code { (clean::line(&facts.config, 200)) } } }
                div { dt { "Read" } dd { @match &reading { Some(reading) => { (frame::ago(reading.at, now)) }, None => { "when the server began" } } } }
            }
            @if let Some(reading) = &reading {
                ul { @for line in &reading.said { li { (clean::line(line, 400)) } } }
                @if !reading.diagnostics.is_empty() {
                    pre tabindex="0" role="region" aria-label="Mistakes and warnings" { "\n" (clean::text(&reading.diagnostics)) }
                }
            }
        }
    }
}

/// The servers that are served on.
fn upstreams(all: &[Arc<Upstream>], now: Time) -> Markup {
    html! {
        section aria-labelledby="upstreams-title" {
            h2 id="upstreams-title" { "Servers that are served on" }
            @if all.is_empty() { p.empty { "None. A " code { "[servers.NAME]" } " in the configuration adds one." } }
            @else {
                div.scroll tabindex="0" role="group" aria-label="Servers, a table" {
                    table.cards {
                        thead { tr { th scope="col" { "Server" } th scope="col" { "State" } th scope="col" { "Revision" } th scope="col" { "What it has" } th scope="col" { "Its latest words" } } }
                        tbody { @for upstream in all { (row(upstream, now)) } }
                    }
                }
            }
        }
    }
}

fn row(upstream: &Upstream, now: Time) -> Markup {
    let seen = upstream.seen().borrow().clone();
    html! {
        tr {
            th scope="row" { (upstream.config().name) }
            @match seen {
                Seen::Nothing => { td { "has not answered yet" } td {} td {} },
                Seen::Failed { why } => { td { "not reached, and tried again: " (clean::line(&why, 300)) } td {} td {} },
                Seen::Listed { tools, prompts, resources, templates, revision, notes, away } => {
                    td {
                        @match away {
                            None => { "connected" @if let Some(times) = again(upstream) { ", " (times) } },
                            Some(away) => {
                                "not connected for " (frame::since(before(now, away.since.elapsed()), now)) ": "
                                (clean::line(&away.why, 300)) "; what it has is offered still"
                            },
                        }
                        @for note in &notes { br; span.hint { (clean::line(note, 300)) } }
                    }
                    td { (revision) }
                    td { (many(tools.len(), "tool")) ", " (many(prompts, "prompt")) ", " (many(resources + templates, "resource")) }
                },
            }
            td { @if let Some(line) = upstream.last_line() { code { (clean::line(&line, 200)) } } }
        }
    }
}

/// So long ago.
fn before(now: Time, ago: Duration) -> Time {
    let ago = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
    Time::from_unix_ms(now.unix_ms().saturating_sub(ago))
}

/// So many of them, in words.
fn many(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// How often a connection to it was opened anew.
fn again(upstream: &Upstream) -> Option<String> {
    let times = upstream.connections().checked_sub(1).filter(|times| *times > 0)?;
    Some(if times == 1 { "once anew".to_owned() } else { format!("{times} times anew") })
}

/// The same for scripts.
pub(super) async fn json(look: Look<'_>) -> Answer {
    if !look.viewer.is_operator() {
        return respond::json((StatusCode::FORBIDDEN, error(NOT_YOURS)));
    }
    match told(look).await {
        Ok(told) => respond::json((StatusCode::OK, told.to_string())),
        Err(failed) => respond::json((failed.status(), error(&failed.to_string()))),
    }
}

fn error(message: &str) -> String {
    json!({ "error": { "message": message } }).to_string()
}

async fn told(look: Look<'_>) -> Result<Value, AdminError> {
    let (admin, facts) = (&look.inner.admin, look.inner.facts());
    let Nodes { nodes, oldest, newest_only } = admin.nodes(look.viewer).await?;
    let counts = admin.engine().counts().await?;
    let now = admin.now();
    let ms = |at: Time| at.unix_ms().saturating_sub(now.unix_ms());
    let ago = |at: Time| u64::try_from(now.since(at).as_millis()).unwrap_or(u64::MAX);
    let nodes = nodes.iter().map(|node| {
        json!({
            "name": node.name, "isThis": node.is_this, "tasks": node.tasks, "leaseEndsInMs": node.until.map(ms),
            "release": node.member.as_ref().map(|member| &member.release),
            "role": node.member.as_ref().map(|member| &member.role),
            "upMs": node.member.as_ref().map(|member| ago(member.began)),
            "heardMsAgo": node.member.as_ref().map(|member| ago(member.said)),
            "isDraining": node.member.as_ref().map(|member| member.is_draining),
        })
    });
    Ok(json!({
        "nodes": nodes.collect::<Vec<_>>(),
        "newestOnly": newest_only,
        "store": {
            "where": facts.store, "durability": admin.store().durability().to_string(),
            "open": counts.open, "retained": counts.retained, "oldestOpenMs": oldest.map(|at| -ms(at)),
            "bytes": admin.store().size().await.ok().flatten(),
        },
        "upMs": -ms(look.inner.began),
        "configuration": facts.config,
        "readAgain": look.inner.reading().map(|reading| json!({
            "msAgo": -ms(reading.at), "said": reading.said, "diagnostics": reading.diagnostics,
        })),
        "release": env!("CARGO_PKG_VERSION"),
        "servers": facts.upstreams.iter().map(|upstream| server(upstream)).collect::<Vec<_>>(),
    }))
}

/// A server that is served on.
fn server(upstream: &Upstream) -> Value {
    let mut told = match &*upstream.seen().borrow() {
        Seen::Nothing => json!({ "state": "unknown" }),
        Seen::Failed { why } => json!({ "state": "unreachable", "why": why }),
        Seen::Listed { tools, prompts, resources, templates, revision, notes, away } => json!({
            "state": if away.is_none() { "connected" } else { "away" },
            "why": away.as_ref().map(|away| &*away.why),
            "awayMs": away.as_ref().map(|away| u64::try_from(away.since.elapsed().as_millis()).unwrap_or(u64::MAX)),
            "revision": revision, "tools": tools, "prompts": prompts, "resources": resources,
            "templates": templates, "notes": notes,
        }),
    };
    told["name"] = upstream.config().name.as_str().into();
    told["connections"] = upstream.connections().into();
    told["lastLine"] = upstream.last_line().into();
    told
}
