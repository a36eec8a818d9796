//! Who works on the tasks, where they are kept, and the servers that are served on.

use http::StatusCode;
use maud::html;

use super::frame::{self, Page, Tab};
use super::respond::{self, Answer};
use super::route::Look;
use crate::admin::{AdminError, Nodes};
use crate::clean;
use crate::upstream::Seen;

pub(super) async fn show(look: Look<'_>) -> Result<Answer, AdminError> {
    if !look.viewer.is_operator() {
        let what = "Only the operator of the server sees its nodes.";
        let page = frame::problem(look.inner, Some(look.viewer), what);
        return Ok(respond::page(StatusCode::FORBIDDEN, page));
    }
    let (admin, facts) = (&look.inner.admin, look.inner.facts());
    let store = admin.store();
    let Nodes { nodes, oldest, newest_only } = admin.nodes(look.viewer).await?;
    let counts = admin.engine().counts().await?;
    let figures = admin.engine().figures();
    let now = admin.now();
    let body = html! {
        h1 { "Nodes" }
        section aria-labelledby="nodes-title" {
            h2 id="nodes-title" { "Who works" }
            div.scroll tabindex="0" role="group" aria-label="Nodes, a table" {
                table.cards {
                    thead { tr { th scope="col" { "Node" } th scope="col" { "Tasks it holds" } th scope="col" { "Its latest lease ends" } } }
                    tbody {
                        @for node in &nodes {
                            tr {
                                th scope="row" { code { (node.name) } @if node.is_this { " (this server)" } }
                                td { (node.tasks) }
                                td { @match node.until { Some(at) => (frame::when_ends(at, now)), None => "–" } }
                            }
                        }
                    }
                }
            }
            p.hint { "Other nodes are known by the tasks that they hold." @if let Some(most) = newest_only { " The newest " (most) " open tasks were looked at." } }
        }
        section aria-labelledby="store-title" {
            h2 id="store-title" { "Store" }
            dl {
                div { dt { "Where" } dd { code { (clean::line(&facts.store, 200)) } } }
                div { dt { "What is acknowledged" } dd { (store.durability().to_string()) } }
                div { dt { "Tasks" } dd { (counts.open) " open, " (counts.retained) " in all" } }
                @if let Some(oldest) = oldest { div { dt { "Oldest open task" } dd { (frame::ago(oldest, now)) } } }
                div { dt { "Configuration" } dd { code { (clean::line(&facts.config, 200)) } } }
                div { dt { "This release" } dd { (env!("CARGO_PKG_VERSION")) } }
            }
            details {
                summary { "What this node has counted" }
                pre tabindex="0" role="region" aria-label="Figures" { "\n" (format!("{figures:#?}")) }
            }
        }
        section aria-labelledby="upstreams-title" {
            h2 id="upstreams-title" { "Servers that are served on" }
            @if facts.upstreams.is_empty() { p.empty { "None. A " code { "[servers.NAME]" } " in the configuration adds one." } }
            @else {
                div.scroll tabindex="0" role="group" aria-label="Servers, a table" {
                    table.cards {
                        thead { tr { th scope="col" { "Server" } th scope="col" { "State" } th scope="col" { "Revision" } th scope="col" { "What it has" } } }
                        tbody {
                            @for upstream in &facts.upstreams {
                                @let seen = upstream.seen().borrow().clone();
                                tr {
                                    th scope="row" { (upstream.config().name) }
                                    @match seen {
                                        Seen::Nothing => { td { "has not answered yet" } td {} td {} },
                                        Seen::Failed { why } => { td { "not reached, and tried again: " (clean::line(&why, 300)) } td {} td {} },
                                        Seen::Listed { tools, prompts, resources, templates, revision, notes } => {
                                            td { "connected" @for note in &notes { br; span.hint { (clean::line(note, 300)) } } }
                                            td { (revision) }
                                            td { (tools.len()) " tools, " (prompts) " prompts, " (resources + templates) " resources" }
                                        },
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    };
    let page = Page { tab: Tab::Nodes, title: "Nodes", follows: None, reloads: true, body };
    Ok(respond::page(StatusCode::OK, page.render(look.inner, look.viewer)))
}
