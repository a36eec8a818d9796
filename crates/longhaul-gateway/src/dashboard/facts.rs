//! What is known of a task beside what it asks, went through and came to.

use longhaul::store::{Dialect, Outcome, Owner, Record, Rerun, Time};
use longhaul::tasks::{calling_client, calling_conversation};
use maud::{Markup, html};

use super::form::encoded;
use super::{Facts, frame};
use crate::admin::{Viewer, trace_id};
use crate::clean;
use crate::command::Processes;
use crate::tool::Ended;

/// Whence it is known.
pub(super) struct Known<'a> {
    pub(super) server: &'a Facts,
    pub(super) viewer: &'a Viewer,
    /// Those of its command, while it runs here.
    pub(super) processes: Option<Processes>,
}

type Fact = (&'static str, Markup);

/// All else that is known of a task.
pub(super) fn section(known: &Known<'_>, record: &Record, now: Time) -> Markup {
    let mut facts = times(record, now);
    facts.extend(caller(record));
    facts.extend(work(record, now));
    facts.extend(command(known, record));
    if let Some(trace) = trace_id(record) {
        facts.push(("Trace", html! { code { (trace) } }));
    }
    if let Some(once) = &record.once {
        let key = clean::line(once.key.as_str(), 200);
        facts.push(("Idempotency key", html! { code { (key) } ": the same call under it finds this task" }));
    }
    html! {
        section id="facts" aria-labelledby="facts-title" {
            h2 id="facts-title" { "Facts" }
            dl { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } }
        }
    }
}

fn times(record: &Record, now: Time) -> Vec<Fact> {
    let mut facts = vec![
        ("Created", html! { (frame::date(record.created_at)) }),
        ("Last changed", frame::ago(record.updated_at, now)),
    ];
    if let Some(ended) = record.terminal_at {
        facts.push(("Ended", html! { (frame::date(ended)) }));
    }
    if let Some(at) = record.expires_at {
        facts.push((if record.is_terminal() { "Forgotten" } else { "Ends" }, frame::within(at, now)));
    }
    facts
}

/// Who called, and how.
fn caller(record: &Record) -> Vec<Fact> {
    let owner = match &record.owner {
        Owner::Principal(principal) => clean::line(principal.as_str(), 200),
        Owner::Anonymous => "nobody in particular: whoever has the id".to_owned(),
    };
    let dialect = match record.dialect {
        Dialect::Held => "held open for its caller",
        Dialect::D1 => "a drafted task (SEP-1686)",
        Dialect::D2 => "a task of 2025-11-25",
        Dialect::D3 => "a task of the tasks extension",
        _ => "of a later release",
    };
    let mut facts = vec![("Owner", html! { (owner) })];
    if let Some(client) = calling_client(record) {
        facts.push(("Client", html! { (clean::line(&client, 200)) }));
    }
    if let Some(name) = calling_conversation(record) {
        facts.push(("Conversation", conversation(&name)));
    }
    facts.push(("Kind", html! { (dialect) }));
    facts
}

/// Its name, which leads to all tasks of it where a filter can say it.
fn conversation(name: &str) -> Markup {
    let shown = clean::line(name, 200);
    if name.contains(char::is_whitespace) {
        return html! { code { (shown) } };
    }
    let all = encoded(&format!("conversation:{name}"));
    html! { code { (shown) } ": " a href={ "/?q=" (all) } { "all of its tasks" } }
}

fn work(record: &Record, now: Time) -> Vec<Fact> {
    let rerun = match record.rerun {
        Rerun::Reattach => "it goes on by itself, and is found again",
        Rerun::Resumable => "it goes on from its last step",
        Rerun::Restart => "it begins anew",
        Rerun::Never => "it is lost: it never runs twice",
        _ => "as a later release says",
    };
    let mut facts = vec![
        ("If its server dies", html! { (rerun) }),
        // Not the number that the timeline gives an attempt: this one begins anew whenever the task gets on.
        ("Attempts lost in a row", html! { (record.attempt.saturating_sub(1)) }),
        ("Epoch", html! { (record.epoch.to_string()) }),
    ];
    if let Some(lease) = record.lease() {
        let ends = frame::when_ends(lease.until, now);
        facts.push((
            "Node",
            html! { (lease.node.to_string()) "; its lease ends " (ends) " unless it says more" },
        ));
    }
    facts.push(("Version of the tool", html! { (record.version.to_string()) }));
    facts
}

/// What of its command is known, and how that ended. Where it runs on the server's machine is the operator's to know.
fn command(known: &Known<'_>, record: &Record) -> Vec<Fact> {
    let Known { server, viewer, processes } = known;
    let mut facts = Vec::new();
    if let Some(command) = server.commands.iter().find(|command| *command.name == *record.tool) {
        let line = command.command().collect::<Vec<_>>().join(" ");
        facts.push(("Command", html! { code { (clean::line(&line, 400)) } }));
        if viewer.is_operator() {
            let folder = command.cwd.display().to_string();
            facts.push(("Folder", html! { code { (clean::line(&folder, 400)) } }));
        }
    }
    if let Some(Processes { supervisor, command, .. }) = processes {
        facts.push((
            "Processes",
            html! {
                "supervisor " (supervisor) ", whose session it is"
                @if let Some(command) = command { "; command " (command) ", which leads its group" }
            },
        ));
    }
    let exit = match record.outcome() {
        Some(Outcome::Error { code, .. }) => Some(format!("error {code}")),
        outcome => Ended::of(outcome).map(|ended| ended.to_string()),
    };
    if let Some(exit) = exit {
        facts.push(("Ended with", html! { (exit) }));
    }
    facts
}
