//! One task: what it asks, what can be done about it, what it went through, gave and came to.

use bytes::Bytes;
use http::StatusCode;
use longhaul::store::Record;
use longhaul::tasks::shown_arguments;
use maud::{Markup, html};
use tokio::sync::mpsc;

use super::call_line::CallLine;
use super::colour::Painter;
use super::facts::{self, Known};
use super::form::encoded;
use super::frame::{self, Page, Tab};
use super::question::{self, Filled};
use super::respond::{self, Answer};
use super::route::{Asked, Look};
use super::{Facts, result, tasks, timeline, tools};
use crate::admin::{AdminError, Calling, From, PARTS, State, Stretch, Why, state_of};
use crate::clean;

/// How many bytes of output a page begins with.
const OUTPUT: usize = 64 << 10;

/// The page of a task; `filled` is an answer that did not fit.
pub(super) async fn show(
    look: Look<'_>,
    id: &str,
    status: StatusCode,
    filled: Option<&Filled>,
) -> Result<Answer, AdminError> {
    let admin = &look.inner.admin;
    let record = admin.task(look.viewer, id).await?;
    let streams = admin.streams(&record).await;
    let mut outputs = Vec::new();
    for stream in streams {
        outputs.extend(admin.output(look.viewer, &record, stream, From::End(OUTPUT)).await?);
    }
    let again = if record.is_terminal() { admin.made_again(look.viewer, &record).await } else { Vec::new() };
    let (steps, now) = (timeline::steps(admin, look.viewer, &record).await, admin.now());
    let server = look.inner.facts();
    let processes = admin.processes(look.viewer, &record).await;
    let known = Known { server: &server, viewer: look.viewer, processes };
    let title = title(&record);
    let outputs: Vec<_> = outputs.into_iter().map(Painted::of).collect();
    let offsets: String =
        outputs.iter().map(|painted| format!("&{}={}", painted.stretch.stream, painted.next)).collect();
    let follows = format!("/events?view=task&id={}{offsets}", encoded(record.id.as_str()));
    let body = html! {
        p.crumbs { a href="/" { "Tasks" } }
        h1 { (clean::line(&record.tool, 128)) }
        p.identity { "Task " code id="task-id" { (record.id.as_str()) } " " (frame::copy("task-id", "Copy the id")) }
        (state(&record, &admin.why(look.viewer, &record, now)))
        (question::section(&record, now, filled))
        (actions(&server, &record))
        @for other in &again {
            p.hint { "It was run again as " a href={ "/tasks/" (encoded(other)) } { (other) } }
        }
        (timeline::timeline(&record, steps.as_ref(), now))
        @for painted in &outputs { (output(&record, painted)) }
        (result::section(&record))
        (arguments(&record))
        (facts::section(&known, &record, now))
    };
    let reloads = !record.is_terminal() && record.questions.is_empty();
    // What was typed and refused stays: a page that follows would show the question anew.
    let follows = filled.is_none().then_some(follows);
    let page = Page { tab: Tab::Tasks, title: &title, follows, reloads, body };
    Ok(respond::page(status, page.render(look.inner, look.viewer)))
}

/// What its page is called.
pub(super) fn title(record: &Record) -> String {
    format!("{} {}", clean::line(&record.tool, 60), State::name(state_of(record)))
}

/// Where it stands.
pub(super) fn state(record: &Record, sentence: &Why) -> Markup {
    html! {
        p.state id="state" {
            (frame::badge(state_of(record)))
            " " (tasks::bar(record))
            span.now { (sentence.words) @if let Some(when) = sentence.when { " " (frame::when(when)) } }
        }
    }
}

/// What can be done about it.
pub(super) fn actions(server: &Facts, record: &Record) -> Markup {
    let place = format!("/tasks/{}", encoded(record.id.as_str()));
    html! {
        div.actions id="actions" {
            @if record.is_terminal() {
                form method="post" action={ (place) "/again" } {
                    button type="submit" { "Run again" }
                    span.hint { "the same call, as a new task" }
                }
            } @else {
                details {
                    summary.button { "Cancel…" }
                    p { "The task ends now, for good. A command gets SIGTERM, and SIGKILL after its grace; what it has written is kept." }
                    form method="post" action={ (place) "/cancel" } {
                        button.danger type="submit" { "Cancel the task" }
                    }
                }
            }
            p.hint { "From a terminal: " code { "longhaul tasks " (if record.is_terminal() { "result" } else { "watch" }) " " (record.id.as_str()) } " · " a href={ "/admin/api" (place) } { "As JSON" } }
            @if let Some(CallLine { text, without }) = CallLine::of(&server.endpoint, record) {
                p.hint {
                    "The same call as a command: " code id="call-line" { (text) } " " (frame::copy("call-line", "Copy the command"))
                    @if !without.is_empty() { " It lacks what is secret: " (clean::line(&without.join(", "), 200)) "." }
                }
            }
        }
    }
}

/// A stretch with its colours.
struct Painted {
    stretch: Stretch,
    html: Markup,
    /// Where the next one begins: a colour that it is cut in is left to that.
    next: u64,
}

impl Painted {
    fn of(stretch: Stretch) -> Self {
        let mut painter = Painter::default();
        let html = painter.paint(&stretch.written);
        // Parts are counted by their number, and cut nowhere.
        let left = if stretch.stream == PARTS { 0 } else { painter.left() as u64 };
        Self { next: stretch.next - left, stretch, html }
    }
}

/// A stream of what it has given.
fn output(record: &Record, painted: &Painted) -> Markup {
    let Painted { stretch, html: written, next } = painted;
    let name = stretch.stream;
    let title = match name {
        "stdout" => "Output",
        "stderr" => "Standard error",
        _ => "Parts",
    };
    let is_silent = stretch.total == 0 && (record.is_terminal() || name != "stdout");
    html! {
        section.output id={ "section-" (name) } hidden[is_silent] {
            h2 id={ "title-" (name) } { (title) }
            p.tools {
                label { input type="checkbox" data-follows=(name) checked; " Follow" }
                label { input type="checkbox" data-wraps=(name) checked; " Wrap lines" }
                a href={ "/tasks/" (encoded(record.id.as_str())) "/output/" (name) } { "As plain text" }
                span.finder data-finds=(name) hidden {
                    label for={ "find-" (name) } { "Find" }
                    input id={ "find-" (name) } type="search" autocomplete="off" spellcheck="false";
                    button.plain type="button" data-step="-1" aria-label="The one before" { "↑" }
                    button.plain type="button" data-step="1" aria-label="The next one" { "↓" }
                    output for={ "find-" (name) } {}
                }
            }
            @if stretch.start > 0 {
                p.hint { "The beginning is not shown here." @if stretch.missing > 0 { " " (stretch.missing) " bytes were not kept." } }
            }
            pre.log.wraps id={ "log-" (name) } role="log" aria-live="off" tabindex="0" aria-labelledby={ "title-" (name) } data-next=(next) {
                "\n" (written)
            }
        }
    }
}

/// What it was called with.
fn arguments(record: &Record) -> Markup {
    let shown = shown_arguments(record);
    html! {
        section aria-labelledby="arguments-title" {
            h2 id="arguments-title" { "Arguments" }
            pre tabindex="0" aria-labelledby="arguments-title" { (result::pretty(shown.as_str())) }
        }
    }
}

pub(super) async fn cancel(look: Look<'_>, id: &str) -> Result<Answer, AdminError> {
    look.inner.admin.cancel(look.viewer, id).await?;
    Ok(respond::see_other(&format!("/tasks/{}", encoded(id))))
}

pub(super) async fn again(look: Look<'_>, id: &str) -> Result<Answer, AdminError> {
    let record = look.inner.admin.task(look.viewer, id).await?;
    match look.inner.admin.again(look.viewer, id).await? {
        Calling::Task(id) => Ok(respond::see_other(&format!("/tasks/{}", encoded(&id)))),
        Calling::Result(result) => Ok(tools::came_to(look, &record.tool, &result)),
    }
}

/// A stream as plain text, from a byte on, until there is no more for now.
pub(super) async fn plain(
    look: Look<'_>,
    id: &str,
    stream: &str,
    asked: &Asked<'_>,
) -> Result<Answer, AdminError> {
    let after = match asked.says("from") {
        Some(from) => from.parse().map_err(|_| AdminError::Unreadable("`from` is a number".to_owned()))?,
        None => 0,
    };
    let record = look.inner.admin.task(look.viewer, id).await?;
    let (admin, viewer, stream) = (look.inner.admin.clone(), look.viewer.clone(), stream.to_owned());
    let first = admin.output(&viewer, &record, &stream, From::After(after)).await?;
    let Some(mut stretch) = first else {
        return Err(AdminError::Unreadable("there is no such stream".to_owned()));
    };
    let (sender, pieces) = mpsc::channel(2);
    tokio::spawn(async move {
        loop {
            let next = stretch.next;
            let Some(text) = told(stretch) else { return };
            if !text.is_empty() && sender.send(Bytes::from(text)).await.is_err() {
                return;
            }
            match admin.output(&viewer, &record, &stream, From::After(next)).await {
                Ok(Some(next)) => stretch = next,
                _ => return,
            }
        }
    });
    Ok(respond::text(pieces))
}

/// A stretch as text that says what it lacks; `None` if it is where there is no more for now. One whose text is empty is
/// not: all that it had may have been characters that nobody sees.
fn told(stretch: Stretch) -> Option<String> {
    match stretch.missing {
        0 if stretch.next == stretch.start => None,
        0 => Some(stretch.text),
        missing => Some(format!("[{missing} bytes are gone]\n{}", stretch.text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_ends_where_nothing_more_was_read() {
        let stretch = |next: u64, missing: u64, text: &str| {
            let (text, written) = (text.to_owned(), String::new());
            told(Stretch {
                stream: "stdout",
                start: 10,
                next,
                total: 20,
                missing,
                text,
                written,
                done: false,
            })
        };
        assert_eq!(stretch(10, 0, ""), None);
        assert_eq!(stretch(20, 0, "").as_deref(), Some(""), "what was read is not shown, and more follows");
        assert_eq!(stretch(20, 0, "a").as_deref(), Some("a"));
        assert_eq!(stretch(20, 3, "a").as_deref(), Some("[3 bytes are gone]\na"));
        assert_eq!(stretch(10, 3, "").as_deref(), Some("[3 bytes are gone]\n"));
    }
}
