//! What every page has: head, navigation, and a place for what is new.

use longhaul::store::{Record, Time};
use maud::{DOCTYPE, Markup, Render, html};

use super::{Facts, Inner};
use crate::admin::{State, Viewer, When, past, span};
use crate::{clean, tool};

/// Where a page stands among the others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Tab {
    Tasks,
    Tools,
    Nodes,
    Connect,
    None,
}

const TABS: [(Tab, &str, &str); 4] = [
    (Tab::Tasks, "/", "Tasks"),
    (Tab::Tools, "/tools", "Tools"),
    (Tab::Nodes, "/nodes", "Nodes"),
    (Tab::Connect, "/connect", "Connect"),
];

/// A page, before it is one.
pub(super) struct Page<'a> {
    pub(super) tab: Tab,
    pub(super) title: &'a str,
    /// What it follows, as `events` takes it.
    pub(super) follows: Option<String>,
    /// Without scripts it is loaded anew now and then: not where somebody may be filling in a form.
    pub(super) reloads: bool,
    pub(super) body: Markup,
}

impl Page<'_> {
    pub(super) fn render(self, inner: &Inner, viewer: &Viewer) -> Markup {
        let server = clean::line(&inner.facts().name, 80);
        let Page { tab, title, follows, reloads, body } = self;
        // The nodes are the operator's alone.
        let is_theirs = |(each, ..): &(Tab, &str, &str)| *each != Tab::Nodes || viewer.is_operator();
        let tabs = TABS.into_iter().filter(is_theirs);
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    (head(titled(title, &inner.facts())))
                    @if reloads { noscript { meta http-equiv="refresh" content="5"; } }
                    script src="/live.js" defer {}
                    script src="/find.js" defer {}
                }
                body data-now=(inner.admin.now().unix_ms()) data-follow=[follows] {
                    a.skip href="#main" { "Skip to the content" }
                    header.top {
                        p.brand { a href="/" { (server) } }
                        nav aria-label="Pages" {
                            ul {
                                @for (each, place, name) in tabs {
                                    li { a href=(place) aria-current=[(each == tab).then_some("page")] { (name) } }
                                }
                            }
                        }
                        form.who method="post" action="/sign-out" {
                            span { (who(viewer)) }
                            button.plain type="submit" { "Sign out" }
                        }
                    }
                    main id="main" tabindex="-1" { (body) }
                    p.unseen id="news" role="status" {}
                    p.connection id="connection" hidden { "Not connected to the server. Trying again…" }
                }
            }
        }
    }
}

/// What a window with a page of this server is called.
pub(super) fn titled(title: &str, server: &Facts) -> Markup {
    html! { (title) " · " (clean::line(&server.name, 80)) }
}

fn head(title: impl Render) -> Markup {
    html! {
        meta charset="utf-8";
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="color-scheme" content="light dark";
        title { (title) }
        link rel="icon" href="/icon.svg" type="image/svg+xml";
        link rel="stylesheet" href="/page.css";
    }
}

fn who(viewer: &Viewer) -> String {
    let name = viewer.principal().map(|principal| clean::line(principal, 60)).unwrap_or_default();
    if viewer.is_operator() { "operator".to_owned() } else { name }
}

/// For whoever is not let in: how to be.
pub(super) fn outside(inner: &Inner, why: Option<&str>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head { (head("Sign in · longhaul")) }
            body {
                main.outside id="main" {
                    h1 { "Sign in" }
                    @if let Some(why) = why { p.problem role="alert" { (why) } }
                    @if inner.guard.is_some() {
                        p { "Paste a token that counts at this server. It is not kept." }
                        form method="post" action="/sign-in" {
                            label for="token" { "Token" }
                            input id="token" name="token" type="password" autocomplete="off" required;
                            button type="submit" { "Sign in" }
                        }
                    } @else {
                        p { "This page belongs to whoever runs the server." }
                        p { "Open the link that " code { "longhaul serve" } " has printed, or ask for another where its configuration is:" }
                        pre tabindex="0" aria-label="Command" { code { "longhaul page" } }
                    }
                }
            }
        }
    }
}

/// A page that only says what is wrong.
pub(super) fn problem(inner: &Inner, viewer: Option<&Viewer>, what: &str) -> Markup {
    let body = html! {
        h1 { "That did not work" }
        p.problem role="alert" { (clean::line(what, 400)) }
        p { a href="/" { "To the tasks" } }
    };
    match viewer {
        Some(viewer) => {
            let page =
                Page { tab: Tab::None, title: "That did not work", follows: None, reloads: false, body };
            page.render(inner, viewer)
        }
        None => html! {
            (DOCTYPE)
            html lang="en" {
                head { (head("That did not work · longhaul")) }
                body { main.outside id="main" { (body) } }
            }
        },
    }
}

/// Where a task stands: a sign, a word and a colour.
pub(super) fn badge(state: State) -> Markup {
    let sign = match state {
        State::Input => "?",
        State::Working => "▸",
        State::Completed => "✓",
        State::Failed => "✗",
        State::Cancelled => "–",
    };
    html! {
        span class={ "badge " (state.word()) } { span aria-hidden="true" { (sign) } " " (state.name()) }
    }
}

/// A button that copies the text of an element, where the script finds that it can; `what` says which.
pub(super) fn copy(element: &str, what: &str) -> Markup {
    html! { button.plain.copy type="button" data-copies=(element) aria-label=(what) { "Copy" } }
}

/// How long ago a moment was. The script keeps it true.
pub(super) fn ago(at: Time, now: Time) -> Markup {
    time(at, "ago", &past(now.since(at)))
}

/// How long it took, or has taken so far.
pub(super) fn took(record: &Record, now: Time) -> Markup {
    let took = span(tool::took(record, now));
    if record.is_terminal() {
        html! { (took) }
    } else {
        time(record.created_at, "since", &took)
    }
}

/// How long something has gone on by now.
pub(super) fn since(at: Time, now: Time) -> Markup {
    time(at, "since", &span(now.since(at)))
}

/// In how long a moment is.
pub(super) fn within(at: Time, now: Time) -> Markup {
    time(at, "until", &format!("in {}", span(at.since(now))))
}

/// The moment that a sentence ends with.
pub(super) fn when(when: When) -> Markup {
    time(when.at, "for", &when.span())
}

/// When something ends or has ended.
pub(super) fn when_ends(at: Time, now: Time) -> Markup {
    if at > now { within(at, now) } else { ago(at, now) }
}

fn time(at: Time, manner: &str, words: &str) -> Markup {
    let date = date(at);
    html! { time datetime=(date) title=(date) data-at=(at.unix_ms()) data-manner=(manner) { (words) } }
}

/// A number, its digits in groups.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// RFC 3339, to the second.
pub(super) fn date(at: Time) -> String {
    match jiff::Timestamp::from_millisecond(at.unix_ms()) {
        Ok(at) => format!("{at:.0}"),
        Err(_) => "the end of time".to_owned(),
    }
}
