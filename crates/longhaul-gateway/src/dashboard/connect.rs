//! How to tell a host of this server.

use http::StatusCode;
use maud::html;

use super::frame::{Page, Tab};
use super::respond::{self, Answer};
use super::route::Look;
use crate::clean;

pub(super) fn show(look: Look<'_>) -> Answer {
    let facts = look.inner.facts();
    let body = html! {
        h1 { "Connect" }
        p { "The endpoint of this server is " code { (clean::line(&facts.endpoint, 200)) } "." }
        p.hint { "On this machine " code { "longhaul connect HOST" } " writes the same, and shows it first." }
        @for (number, snippet) in facts.hosts.iter().enumerate() {
            @let id = format!("host-{number}");
            section aria-labelledby=(id) {
                h2 id=(id) { (snippet.host) }
                p { (snippet.how) }
                pre tabindex="0" aria-labelledby=(id) { "\n" (clean::text(&snippet.text)) }
                @if !snippet.link.is_empty() {
                    p { a href=(snippet.link) { "Add it to " (snippet.host) } }
                }
            }
        }
    };
    let page = Page { tab: Tab::Connect, title: "Connect", follows: None, reloads: false, body };
    respond::page(StatusCode::OK, page.render(look.inner, look.viewer))
}
