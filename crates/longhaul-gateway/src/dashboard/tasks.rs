//! The list of tasks.

use http::StatusCode;
use longhaul::store::{Cursor, Record, Time};
use longhaul::tasks::shown_arguments;
use maud::{Markup, html};

use super::form::{encoded, value};
use super::frame::{self, Page, Tab};
use super::respond::{self, Answer};
use super::route::{Asked, Look};
use crate::admin::{Admin, AdminError, Cancelled, Find, Listing, PAGE, Pace, State, Viewer, Why, state_of};
use crate::clean;

/// Which page of which list is asked for.
pub(super) struct Wanted {
    typed: String,
    state: Option<State>,
    after: Option<Cursor>,
    /// What of it is not understood.
    problem: Option<String>,
}

impl Wanted {
    pub(super) fn of(asked: &Asked<'_>) -> Self {
        let says = |name| asked.says(name).filter(|value| !value.is_empty());
        let typed = says("q").unwrap_or_default();
        Self::read(&typed, &says("status").unwrap_or_default(), says("after").map(Cursor::from_text))
    }

    fn read(typed: &str, status: &str, after: Option<Cursor>) -> Self {
        let (state, problem) = match State::named(Some(status)) {
            Ok(state) => (state, None),
            Err(problem) => (None, Some(problem)),
        };
        Self { typed: typed.chars().take(LONGEST).collect(), state, after, problem }
    }

    /// The query of a page with another status, or that begins elsewhere.
    fn query(&self, state: Option<State>, after: Option<&Cursor>) -> String {
        let mut query = String::new();
        let mut add = |name: &str, value: &str| {
            if !value.is_empty() {
                query.push(if query.is_empty() { '?' } else { '&' });
                query += &format!("{name}={}", encoded(value));
            }
        };
        add("q", &self.typed);
        add("status", state.map_or("", State::word));
        add("after", after.map_or("", Cursor::as_str));
        query
    }

    /// The query of this very page.
    pub(super) fn own_query(&self) -> String {
        self.query(self.state, self.after.as_ref())
    }

    pub(super) fn find(&self) -> Result<Find, AdminError> {
        if let Some(problem) = &self.problem {
            return Err(AdminError::Unreadable(problem.clone()));
        }
        Find::read(&self.typed, self.state).map_err(AdminError::Unreadable)
    }

    pub(super) async fn list(&self, admin: &Admin, viewer: &Viewer) -> Result<Listing, AdminError> {
        self.list_again(admin, viewer, &mut Pace::default()).await
    }

    /// The same for who follows it, at its pace.
    pub(super) async fn list_again(
        &self,
        admin: &Admin,
        viewer: &Viewer,
        pace: &mut Pace,
    ) -> Result<Listing, AdminError> {
        admin.list_again(viewer, &self.find()?, self.after.as_ref(), PAGE, pace).await
    }
}

/// The most characters of a filter.
const LONGEST: usize = 400;

pub(super) async fn show(look: Look<'_>, asked: &Asked<'_>) -> Result<Answer, AdminError> {
    let wanted = Wanted::of(asked);
    let (listing, problem) = match wanted.list(&look.inner.admin, look.viewer).await {
        Ok(listing) => (listing, None),
        Err(AdminError::Unreadable(why)) => (Listing::default(), Some(why)),
        Err(error) => return Err(error),
    };
    let now = look.inner.admin.now();
    let status = if problem.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    let body = html! {
        h1 { "Tasks" }
        (counts(&wanted, &listing))
        form.find method="get" action="/" role="search" {
            label for="q" { "Filter" }
            input id="q" name="q" type="search" value=(wanted.typed) placeholder="tool:test status:failed since:2h" aria-describedby="filter-help";
            @if let Some(state) = wanted.state { input type="hidden" name="status" value=(state.word()); }
            button type="submit" { "Show" }
            p.hint id="filter-help" { "Words, or " code { "tool:" } " " code { "status:" } " " code { "owner:" } " " code { "since:" } " " code { "conversation:" } }
        }
        @if let Some(problem) = &problem { p.problem role="alert" { (problem) } }
        @if let Some(cancelled) = asked.says("cancelled").and_then(|count| count.parse::<usize>().ok()) {
            p.done role="status" { (cancelled) @if cancelled == 1 { " task was" } @else { " tasks were" } " cancelled." }
            (cancel_on(&wanted, asked, now))
        }
        p.new { a.button id="new" href={ "/" (wanted.query(wanted.state, None)) } hidden {} }
        (table(look, &listing, now))
        (cancel_these(&wanted, &listing, now))
        @if let Some(next) = &listing.next {
            p.more { a.button href={ "/" (wanted.query(wanted.state, Some(next))) } { "Older tasks" } }
        }
    };
    let query = wanted.own_query();
    let follows = format!("/events{}{}view=tasks", query, if query.is_empty() { '?' } else { '&' });
    let follows = Some(follows).filter(|_| problem.is_none());
    let page = Page { tab: Tab::Tasks, title: "Tasks", follows, reloads: problem.is_none(), body };
    Ok(respond::page(status, page.render(look.inner, look.viewer)))
}

/// A way to cancel all that are open of the tasks that were filtered for.
fn cancel_these(wanted: &Wanted, listing: &Listing, now: Time) -> Markup {
    let is_of_some = wanted.find().is_ok_and(|find| find.is_of_some());
    let is_open = |record: &Record| !record.is_terminal();
    if !is_of_some || !listing.asking.iter().chain(&listing.tasks).any(is_open) {
        return html! {};
    }
    let state = wanted.state.map(|state| state.name().to_owned() + " ").unwrap_or_default();
    html! {
        details.all {
            summary.button { "Cancel the open ones…" }
            p {
                "Every open " (state) "task "
                @if !wanted.typed.is_empty() { "that " code { (clean::line(&wanted.typed, 100)) } " finds " }
                "ends now, for good, also those on later pages; what was begun after this page was made goes on. "
                "Commands get SIGTERM, and SIGKILL after their grace."
            }
            (cancel_form(wanted, &now.unix_ms().to_string(), "", "Cancel the open ones"))
        }
    }
}

/// A way to go on where one look at the open tasks, in which some were cancelled, has ended.
fn cancel_on(wanted: &Wanted, asked: &Asked<'_>, now: Time) -> Markup {
    // The address may be anybody's: nothing is cancelled that is begun after this page was made.
    let until =
        asked.says("until").and_then(|until| until.parse().ok()).map(|until: i64| until.min(now.unix_ms()));
    match (asked.says("on"), until) {
        (Some(on), Some(until)) => html! {
            p { "There may be more of them among the older ones." }
            (cancel_form(wanted, &until.to_string(), &on, "Go on cancelling"))
        },
        _ => html! {},
    }
}

fn cancel_form(wanted: &Wanted, until: &str, after: &str, words: &str) -> Markup {
    html! {
        form method="post" action="/cancel" {
            input type="hidden" name="q" value=(wanted.typed);
            input type="hidden" name="status" value=(wanted.state.map_or("", State::word));
            input type="hidden" name="until" value=(until);
            @if !after.is_empty() { input type="hidden" name="after" value=(after); }
            button.danger type="submit" { (words) }
        }
    }
}

pub(super) async fn cancel_all(look: Look<'_>, asked: &Asked<'_>) -> Result<Answer, AdminError> {
    let says = |name| value(asked.body, name).unwrap_or_default();
    let until = says("until").parse().map_err(|_| AdminError::Unreadable("`until` is a time".to_owned()))?;
    let wanted = Wanted::read(&says("q"), &says("status"), None);
    let admin = &look.inner.admin;
    let after = Some(says("after")).filter(|after| !after.is_empty()).map(Cursor::from_text);
    let (find, until) = (wanted.find()?, Time::from_unix_ms(until));
    let Cancelled { tasks, next } = admin.cancel_all(look.viewer, &find, until, after.as_ref()).await?;
    let query = wanted.query(wanted.state, None);
    let and = if query.is_empty() { '?' } else { '&' };
    let on = next.map(|next| format!("&until={}&on={}", until.unix_ms(), encoded(next.as_str())));
    Ok(respond::see_other(&format!("/{query}{and}cancelled={tasks}{}", on.unwrap_or_default())))
}

/// How many there are of what, each a link to those.
pub(super) fn counts(wanted: &Wanted, listing: &Listing) -> Markup {
    let counts = listing.counts;
    let some = |state| {
        let more = if counts.has_more(state) { "+" } else { "" };
        format!("{}{more}", frame::count(counts.of(state) as u64))
    };
    let link = |state: Option<State>, words: String| {
        let current = (state == wanted.state).then_some("true");
        html! { li { a href={ "/" (wanted.query(state, None)) } aria-current=[current] { (words) } } }
    };
    let all = counts.all.map_or_else(|| "all".to_owned(), |all| format!("{} in all", frame::count(all)));
    let needs = if counts.of(State::Input) == 1 { "needs" } else { "need" };
    html! {
        ul.counts id="counts" aria-label="By status" {
            (link(Some(State::Input), format!("{} {needs} input", some(State::Input))))
            @for state in [State::Working, State::Completed, State::Failed, State::Cancelled] {
                (link(Some(state), format!("{} {}", some(state), state.name())))
            }
            (link(None, all))
        }
    }
}

fn table(look: Look<'_>, listing: &Listing, now: Time) -> Markup {
    let is_empty = listing.asking.is_empty() && listing.tasks.is_empty();
    html! {
        @if is_empty {
            p.empty { "No tasks here. " a href="/tools" { "Call a tool" } ", or " a href="/connect" { "connect a host" } "." }
        } @else {
            table.tasks {
                caption.unseen { "Tasks: those that need input first, then the newest" }
                thead {
                    tr {
                        th scope="col" { "Status" }
                        th scope="col" { "Task" }
                        th scope="col" { "Now" }
                        th scope="col" { "Started" }
                        th scope="col" { "Took" }
                    }
                }
                tbody id="tasks" {
                    @for record in listing.asking.iter().chain(&listing.tasks) { (row(record, &look.inner.admin.why(look.viewer, record, now), now)) }
                }
            }
        }
    }
}

/// One task in the list.
pub(super) fn row(record: &Record, sentence: &Why, now: Time) -> Markup {
    let id = record.id.as_str();
    html! {
        tr id=(row_id(id)) {
            td { (frame::badge(state_of(record))) }
            th scope="row" {
                a href={ "/tasks/" (encoded(id)) } { (clean::line(&record.tool, 60)) }
                " " span.arguments { (arguments(record)) }
                " " code.id { (short(id)) }
            }
            td.now {
                (bar(record))
                (sentence.words)
                @if let Some(when) = sentence.when { " " (frame::when(when)) }
            }
            td { (frame::ago(record.created_at, now)) }
            td { (frame::took(record, now)) }
        }
    }
}

pub(super) fn row_id(id: &str) -> String {
    format!("t-{id}")
}

/// The task whose row is called so.
pub(super) fn id_of_row(row: &str) -> Option<&str> {
    row.strip_prefix("t-")
}

/// The arguments in a line.
fn arguments(record: &Record) -> String {
    let shown = shown_arguments(record);
    let value: serde_json::Value = serde_json::from_str(shown.as_str()).unwrap_or_default();
    let line = match value {
        serde_json::Value::Object(members) => {
            let member = |(name, value): (&String, &serde_json::Value)| match value {
                serde_json::Value::String(text) => format!("{name}={text}"),
                other => format!("{name}={other}"),
            };
            members.iter().take(8).map(member).collect::<Vec<_>>().join(" ")
        }
        serde_json::Value::Null => String::new(),
        other => other.to_string(),
    };
    clean::line(&line, 100)
}

/// Enough of an id to know it again.
pub(super) fn short(id: &str) -> String {
    let end = id.rsplit_once('-').map_or(id, |(_, end)| end);
    clean::line(end, 9)
}

/// How far a task is, where it is known of how much.
pub(super) fn bar(record: &Record) -> Markup {
    let progress = record.progress.as_ref().filter(|_| !record.is_terminal());
    let (value, total) = match progress.and_then(|progress| Some((progress.value, progress.total?))) {
        Some((value, total)) if total > 0.0 && value >= 0.0 => (value.min(total), total),
        _ => return html! {},
    };
    html! { progress value=(value) max=(total) aria-label="Progress" { (value) "/" (total) } " " }
}

#[cfg(test)]
mod tests {
    use longhaul::store::{Json, Owner, TaskId};

    use super::*;
    use crate::admin::why;

    #[test]
    fn what_others_wrote_is_text() {
        let arguments =
            Json::parse(r#"{"x":"<script>alert(1)</script>","y":"\u001b]52;c;a\u0007\u202e"}"#).unwrap();
        let at = Time::from_unix_ms(0);
        let id = TaskId::new("t-0123456789abcdef").unwrap();
        let mut record = Record::new(id, Owner::Anonymous, "<b>", arguments, Json::null(), at);
        record.status_message = Some("\"><img src=x onerror=alert(1)>".into());
        let html = row(&record, &why(&record, None, at), at).into_string();
        assert!(!html.contains("<script") && !html.contains("<img") && !html.contains("<b>"), "{html}");
        assert!(!html.contains(['\u{1b}', '\u{202e}']), "{html}");
    }
}
