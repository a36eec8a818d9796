//! Tasks and tools as JSON, below `/admin/api`: what their pages do, a script can.
//!
//! ```text
//! GET  tasks?q=&status=&after=&limit=      POST tasks/ID/answer   {"key", "action", "content"}
//! GET  tasks/ID                            POST tasks/ID/cancel
//! GET  tasks/ID/output?stream=&after=      POST tasks/ID/again
//! GET  tasks/ID/steps?after=&limit=
//! POST cancel                              {"q", "status", "after"}
//! GET  tools                               POST tools/NAME        {arguments}
//! ```

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use longhaul::proto::jsonrpc::clip;
use longhaul::proto::model::ElicitAction;
use longhaul::store::Cursor;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::output::From;
use super::{
    Admin, AdminError, Calling, Cancelled, Find, PAGE, Reaction, Shown, ShownStep, State, Viewer, course,
};

/// An answer: its status, and JSON.
type Answer = (StatusCode, String);

/// How many steps are given at once, unless it is asked for fewer.
const STEPS: usize = 1000;

/// What was asked, below the root of the interface.
#[derive(Debug)]
pub(crate) struct Asked<'r> {
    pub(crate) method: &'r Method,
    /// The parts of the path, decoded.
    pub(crate) path: &'r [Cow<'r, str>],
    pub(crate) query: &'r str,
    pub(crate) body: &'r Bytes,
}

impl Asked<'_> {
    /// What the query says under this name.
    fn says(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut pairs = form_urlencoded::parse(self.query.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value)
    }

    fn number(&self, name: &str) -> Result<Option<u64>, AdminError> {
        let number = |text: Cow<'_, str>| {
            let what = || format!("`{name}` is a number, from 0 on, and not `{}`", clip(&text));
            text.parse().map_err(|_| AdminError::Unreadable(what()))
        };
        self.says(name).map(number).transpose()
    }

    /// Checks that the query says nothing that would be passed over.
    ///
    /// # Errors
    ///
    /// What it says that is not known here, and what is.
    pub(crate) fn check(&self) -> Result<(), AdminError> {
        let path: Vec<&str> = self.path.iter().map(|part| &**part).collect();
        let known: &[&str] = match (self.method, &path[..]) {
            (&Method::GET, ["tasks"]) => &["q", "status", "after", "limit"],
            (&Method::GET, ["tasks", _, "output"]) => &["stream", "after"],
            (&Method::GET, ["tasks", _, "steps"]) => &["after", "limit"],
            _ => &[],
        };
        let mut names = form_urlencoded::parse(self.query.as_bytes()).map(|(name, _)| name);
        let Some(name) = names.find(|name| !known.contains(&&**name)) else { return Ok(()) };
        let known = match known {
            [] => "nothing".to_owned(),
            known => known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        };
        Err(AdminError::Unreadable(format!("the query knows no `{}` here, but {known}", clip(&name))))
    }

    fn json<T: for<'de> Deserialize<'de>>(&self) -> Result<T, AdminError> {
        let unreadable =
            |error: serde_json::Error| AdminError::Unreadable(format!("the body cannot be read: {error}"));
        serde_json::from_slice(self.body).map_err(unreadable)
    }
}

/// Answers a request for the interface.
pub(crate) async fn answer(admin: &Admin, viewer: &Viewer, asked: Asked<'_>) -> Answer {
    route(admin, viewer, &asked).await.unwrap_or_else(|error| failed(&error))
}

/// What is answered where there is no answer.
pub(crate) fn failed(error: &AdminError) -> Answer {
    if error.status().is_server_error() {
        tracing::error!(?error, "the interface for scripts cannot answer");
    }
    let mut what = json!({ "message": error.to_string() });
    if let Some(after) = error.retry_after() {
        what["retryAfterMs"] = u64::try_from(after.as_millis()).unwrap_or(u64::MAX).into();
    }
    (error.status(), json!({ "error": what }).to_string())
}

async fn route(admin: &Admin, viewer: &Viewer, asked: &Asked<'_>) -> Result<Answer, AdminError> {
    asked.check()?;
    let path: Vec<&str> = asked.path.iter().map(|part| &**part).collect();
    match (asked.method, &path[..]) {
        (&Method::GET, ["tasks"]) => tasks(admin, viewer, asked).await,
        (&Method::GET, ["tasks", id]) => {
            let record = admin.task(viewer, id).await?;
            Ok(ok(&admin.whole(viewer, &record).await))
        }
        (&Method::GET, ["tasks", id, "output"]) => output(admin, viewer, asked, id).await,
        (&Method::GET, ["tasks", id, "steps"]) => steps(admin, viewer, asked, id).await,
        (&Method::POST, ["tasks", id, "answer"]) => {
            let record = admin.react(viewer, id, reaction(asked)?).await?;
            Ok(ok(&admin.whole(viewer, &record).await))
        }
        (&Method::POST, ["tasks", id, "cancel"]) => {
            admin.cancel(viewer, id).await?;
            Ok(ok(&json!({ "taskId": id, "status": State::Cancelled.word() })))
        }
        (&Method::POST, ["tasks", id, "again"]) => Ok(called(&admin.again(viewer, id).await?)),
        (&Method::POST, ["cancel"]) => cancel_all(admin, viewer, asked).await,
        (&Method::GET, ["tools"]) => tools(admin, viewer).await,
        (&Method::POST, ["tools", name]) => {
            let arguments: Map<String, Value> = asked.json()?;
            Ok(called(&admin.call(viewer, name, &arguments).await?))
        }
        _ => {
            let what = json!({ "error": { "message": "nothing of the interface is here, by this method" } });
            Ok((StatusCode::NOT_FOUND, what.to_string()))
        }
    }
}

/// Cancels all open tasks that a list is of.
async fn cancel_all(admin: &Admin, viewer: &Viewer, asked: &Asked<'_>) -> Result<Answer, AdminError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Which {
        #[serde(default)]
        q: String,
        status: Option<String>,
        after: Option<String>,
    }
    let Which { q, status, after } = asked.json()?;
    let state = State::named(status.as_deref()).map_err(AdminError::Unreadable)?;
    let find = Find::read(&q, state).map_err(AdminError::Unreadable)?;
    let after = after.filter(|after| !after.is_empty()).map(Cursor::from_text);
    let Cancelled { tasks, next } = admin.cancel_all(viewer, &find, admin.now(), after.as_ref()).await?;
    Ok(ok(&json!({
        "cancelled": tasks, "more": next.is_some(), "next": next.as_ref().map(Cursor::as_str),
    })))
}

async fn tasks(admin: &Admin, viewer: &Viewer, asked: &Asked<'_>) -> Result<Answer, AdminError> {
    let state = State::named(asked.says("status").as_deref()).map_err(AdminError::Unreadable)?;
    let find = Find::read(&asked.says("q").unwrap_or_default(), state).map_err(AdminError::Unreadable)?;
    let after = asked.says("after").filter(|after| !after.is_empty()).map(Cursor::from_text);
    let limit = asked.number("limit")?.map_or(PAGE, |limit| usize::try_from(limit).unwrap_or(PAGE));
    let listing = admin.list(viewer, &find, after.as_ref(), limit).await?;
    let now = admin.now();
    let shown: Vec<Shown> =
        listing.asking.iter().chain(&listing.tasks).map(|record| admin.brief(viewer, record, now)).collect();
    let counts = listing.counts;
    Ok(ok(&json!({
        "tasks": shown,
        "next": listing.next.as_ref().map(Cursor::as_str),
        "counts": {
            "inputRequired": counts.of(State::Input), "working": counts.of(State::Working),
            "completed": counts.of(State::Completed), "failed": counts.of(State::Failed),
            "cancelled": counts.of(State::Cancelled), "all": counts.all,
            "moreOpen": counts.has_more(State::Working), "moreEnded": counts.has_more(State::Completed),
        },
    })))
}

async fn output(admin: &Admin, viewer: &Viewer, asked: &Asked<'_>, id: &str) -> Result<Answer, AdminError> {
    let record = admin.task(viewer, id).await?;
    let after = asked.number("after")?.unwrap_or(0);
    let stream = match asked.says("stream") {
        Some(stream) => stream,
        None => admin.streams(&record).await.first().copied().unwrap_or_default().into(),
    };
    match admin.output(viewer, &record, &stream, From::After(after)).await? {
        Some(stretch) => Ok(ok(&stretch)),
        None => Err(AdminError::Unreadable("there is no such stream".to_owned())),
    }
}

async fn steps(admin: &Admin, viewer: &Viewer, asked: &Asked<'_>, id: &str) -> Result<Answer, AdminError> {
    let record = admin.task(viewer, id).await?;
    let after = asked.number("after")?.unwrap_or(0);
    let limit = asked.number("limit")?.map_or(STEPS, |limit| usize::try_from(limit).unwrap_or(STEPS));
    let seen = admin.steps(viewer, &record, after, limit).await?;
    let now = admin.now();
    let legs = course(&record, now);
    let steps: Vec<ShownStep> =
        seen.steps.iter().map(|step| ShownStep::of(step, &record, &legs, now)).collect();
    let next = Some(seen.next()).filter(|next| *next < seen.total);
    Ok(ok(&json!({ "recorded": seen.total, "steps": steps, "next": next })))
}

fn reaction(asked: &Asked<'_>) -> Result<Reaction, AdminError> {
    #[derive(Deserialize)]
    struct Body {
        key: String,
        action: Option<String>,
        content: Option<Box<RawValue>>,
        answer: Option<Box<RawValue>>,
    }
    let Body { key, action, content, answer } = asked.json()?;
    if let Some(answer) = answer {
        return Ok(Reaction { key, answer });
    }
    match (action.as_deref(), content) {
        (Some("decline"), _) => Ok(Reaction::without_content(&key, ElicitAction::Decline)),
        (Some("cancel"), _) => Ok(Reaction::without_content(&key, ElicitAction::Cancel)),
        (Some("accept") | None, Some(content)) => {
            Ok(Reaction::of(&key, &longhaul::proto::model::ElicitResult::accepted(content)))
        }
        (Some("accept"), None) => Ok(Reaction::without_content(&key, ElicitAction::Accept)),
        _ => Err(AdminError::Unreadable("`action` is accept, decline or cancel".to_owned())),
    }
}

/// What a call came to.
fn called(calling: &Calling) -> Answer {
    match calling {
        Calling::Task(id) => (StatusCode::CREATED, json!({ "taskId": id }).to_string()),
        Calling::Result(result) => ok(&json!({ "result": result })),
    }
}

async fn tools(admin: &Admin, viewer: &Viewer) -> Result<Answer, AdminError> {
    let (tools, runs, now) = (admin.tools(viewer).await?, admin.runs(viewer, None).await?, admin.now());
    let shown = tools.iter().map(|tool| {
        let runs = runs.of(&tool.name).map(|runs| {
            json!({
                "tasks": runs.tasks, "latestMsAgo": runs.began().map(|at| ms(now.since(at))),
                "medianMs": runs.median().map(ms),
            })
        });
        json!({
            "name": tool.name, "title": tool.title, "description": tool.description,
            "inputSchema": tool.input_schema, "runs": runs,
        })
    });
    Ok(ok(&json!({ "tools": shown.collect::<Vec<_>>() })))
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn ok(body: &impl Serialize) -> Answer {
    match serde_json::to_string(body) {
        Ok(text) => (StatusCode::OK, text),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "{}".to_owned()),
    }
}
