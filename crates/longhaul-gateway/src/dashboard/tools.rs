//! The tools of the server, and forms that call them.
use http::StatusCode;
use longhaul::proto::model::CallToolResult;
use longhaul::server::TaskMode;
use longhaul::store::{Rerun, Time};
use maud::{Markup, html};
use serde_json::{Map, Number, Value};

use super::form::{encoded, value};
use super::frame::{self, Page, Tab};
use super::respond::{self, Answer};
use super::route::{Asked, Look};
use super::{Inner, result, tasks};
use crate::admin::{AdminError, Calling, Offered, Runs, span};
use crate::clean;
use crate::config::format_duration;

pub(super) async fn list(look: Look<'_>) -> Result<Answer, AdminError> {
    let admin = &look.inner.admin;
    let (tools, runs, now) =
        (admin.tools(look.viewer).await?, admin.runs(look.viewer, None).await?, admin.now());
    let body = html! {
        h1 { "Tools" }
        @if tools.is_empty() { p.empty { "This server offers no tools." } }
        @else {
            div.scroll tabindex="0" role="region" aria-label="Tools" {
                table.cards {
                    caption.unseen { "Every tool that you can call" }
                    thead { tr { th scope="col" { "Tool" } th scope="col" { "What it does" } th scope="col" { "Where it is from" } th scope="col" { "As a task" } th scope="col" { "Lately" } } }
                    tbody {
                        @for tool in &tools {
                            tr {
                                th scope="row" { a href={ "/tools/" (encoded(&tool.name)) } { (clean::line(&tool.name, 128)) } }
                                td { (clean::line(tool.description.as_deref().unwrap_or_default(), 200)) }
                                td { (source(look.inner, &tool.name)) }
                                td { (policy(look.inner, &tool.name)) }
                                td data-label="Lately: " { (lately(&runs, &tool.name, now)) }
                            }
                        }
                    }
                }
            }
            @if let Some(most) = runs.newest_only { p.hint { "The newest " (frame::count(most as u64)) " tasks were looked at for what is said of them." } }
        }
    };
    let page = Page { tab: Tab::Tools, title: "Tools", follows: None, reloads: false, body };
    Ok(respond::page(StatusCode::OK, page.render(look.inner, look.viewer)))
}

/// How many tasks there are of a tool, when the latest began and how long they take.
fn lately(runs: &Runs, tool: &str, now: Time) -> Markup {
    let are_all = runs.newest_only.is_none();
    let Some(runs) = runs.of(tool) else {
        return html! { "no tasks" @if !are_all { " among the newest" } };
    };
    html! {
        a href={ "/?q=" (encoded(&format!("tool:{tool}"))) } { (runs.tasks) @if runs.tasks == 1 { " task" } @else { " tasks" } }
        @if let Some(at) = runs.began() { ", the latest " (frame::ago(at, now)) }
        @if let Some(median) = runs.median() { "; median " (span(median)) }
    }
}

/// Where a tool is from.
fn source(inner: &Inner, name: &str) -> String {
    let facts = inner.facts();
    if facts.commands.iter().any(|command| command.name == name) {
        return "command".to_owned();
    }
    if facts.jobs.iter().any(|job| job == name) {
        return "job".to_owned();
    }
    let serves = |upstream: &&std::sync::Arc<crate::upstream::Upstream>| match &*upstream.seen().borrow() {
        crate::upstream::Seen::Listed { tools, .. } => tools.iter().any(|tool| tool == name),
        _ => false,
    };
    match facts.upstreams.iter().find(serves) {
        Some(upstream) => format!("server {}", upstream.config().name),
        None => "this server".to_owned(),
    }
}

/// When a call of a tool becomes a task, and what becomes of it then.
fn policy(inner: &Inner, name: &str) -> String {
    // It may have gone since it was listed.
    let Some(policy) = inner.admin.policy(name) else { return String::new() };
    let when = match policy.mode {
        TaskMode::Never => return "never".to_owned(),
        TaskMode::After(after) if !after.is_zero() => format!("after {}", format_duration(after)),
        TaskMode::After(_) => "at once".to_owned(),
        TaskMode::Required => "only".to_owned(),
        TaskMode::ByHand => "where it says so".to_owned(),
    };
    let rerun = match policy.rerun {
        Rerun::Reattach => "goes on",
        Rerun::Resumable => "goes on from its last step",
        Rerun::Restart => "begins anew",
        _ => "is lost",
    };
    let limit = policy.limit.map(|limit| format!(", {limit} at once")).unwrap_or_default();
    format!("{when}; {rerun} if this server dies{limit}")
}

pub(super) async fn show(look: Look<'_>, name: &str) -> Result<Answer, AdminError> {
    let tool = find(look, name).await?;
    page(look, &tool, StatusCode::OK, None).await
}

async fn find(look: Look<'_>, name: &str) -> Result<Offered, AdminError> {
    let tools = look.inner.admin.tools(look.viewer).await?;
    tools.into_iter().find(|tool| tool.name == name).ok_or(AdminError::NoTool)
}

/// A call that was refused or failed at once, so that nobody has to type it again.
struct Refused<'a> {
    why: &'a str,
    body: &'a [u8],
    /// What it came to.
    result: Option<&'a CallToolResult>,
}

async fn page(
    look: Look<'_>,
    tool: &Offered,
    status: StatusCode,
    refused: Option<&Refused<'_>>,
) -> Result<Answer, AdminError> {
    let admin = &look.inner.admin;
    let runs = match admin.runs(look.viewer, Some(&tool.name)).await {
        // What was typed is worth more than what is said beside it.
        Err(error) if refused.is_some() => {
            tracing::debug!(?error, "what a tool has done lately cannot be told for now");
            None
        }
        runs => Some(runs?),
    };
    let now = admin.now();
    let name = clean::line(&tool.name, 128);
    let inputs = inputs(tool.input_schema.get());
    let body = html! {
        p.crumbs { a href="/tools" { "Tools" } }
        h1 { (name) }
        @if let Some(description) = &tool.description { p.message { (clean::text(description)) } }
        @let policy = policy(look.inner, &tool.name);
        p.hint {
            (source(look.inner, &tool.name))
            @if !policy.is_empty() { " · as a task: " (policy) }
            @if let Some(runs) = &runs {
                " · " (lately(runs, &tool.name, now))
                @if runs.newest_only.is_some() && runs.of(&tool.name).is_some() { "; older ones were not looked at" }
            }
        }
        section aria-labelledby="call-title" {
            h2 id="call-title" { "Call it" }
            @if let Some(refused) = refused {
                p.problem role="alert" { (clean::text(refused.why)) }
                @if let Some(result) = refused.result { (result::contents(result, None)) }
            }
            form.answer method="post" action={ "/tools/" (encoded(&tool.name)) } {
                @for (number, input) in inputs.iter().enumerate() { (field(number, input, refused)) }
                @if inputs.is_empty() { p.hint { "It takes no arguments." } }
                p.buttons { button type="submit" { "Call" } }
            }
        }
        @if let Some(runs) = runs.as_ref().and_then(|runs| runs.of(&tool.name)) {
            section aria-labelledby="latest-title" {
                h2 id="latest-title" { "Its latest tasks" }
                ul.latest {
                    @for run in &runs.latest {
                        li {
                            (frame::badge(run.state)) " "
                            a href={ "/tasks/" (encoded(run.id.as_str())) } { code { (tasks::short(run.id.as_str())) } }
                            " " (frame::ago(run.began, now))
                        }
                    }
                }
            }
        }
        details {
            summary { "Its schema" }
            pre tabindex="0" role="region" aria-label="Schema of the arguments" { "\n" (result::pretty(tool.input_schema.get())) }
        }
    };
    let page = Page { tab: Tab::Tools, title: &name, follows: None, reloads: false, body };
    Ok(respond::page(status, page.render(look.inner, look.viewer)))
}

/// One argument, as far as a form can tell.
#[derive(Debug)]
struct Input {
    name: String,
    title: String,
    help: Option<String>,
    kind: Kind,
    /// Nobody who looks over a shoulder is to read it.
    is_secret: bool,
    is_required: bool,
    default: Option<Value>,
    /// The least and the most that it may be, as far as a browser can hold it to that.
    bounds: [Option<String>; 2],
}

#[derive(Debug, PartialEq)]
enum Kind {
    Text,
    Whole,
    Number,
    Flag,
    /// One of these.
    Choice(Vec<String>),
    /// A text a line.
    Lines,
    /// Whatever else: written as JSON.
    Json,
}

/// The arguments that a schema names.
fn inputs(schema: &str) -> Vec<Input> {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let input = |(name, property): (&String, &Value)| Input {
        name: name.clone(),
        title: property["title"].as_str().unwrap_or(name).to_owned(),
        help: property["description"].as_str().map(str::to_owned),
        kind: kind(property),
        is_secret: property["writeOnly"] == true || property["format"] == "password",
        is_required: required.contains(&name.as_str()),
        default: property.get("default").cloned(),
        bounds: ["minimum", "maximum"].map(|key| bound(property, key)),
    };
    properties.map(input).collect()
}

/// A bound of a number. A browser counts whole numbers from the least one on, so that this has to be one.
fn bound(property: &Value, key: &str) -> Option<String> {
    let is_whole = property["type"] == "integer";
    let bound = property[key].as_number()?;
    (!is_whole || bound.is_i64()).then(|| bound.to_string())
}

fn kind(property: &Value) -> Kind {
    let texts = |values: &Value| {
        let values = values.as_array()?;
        values.iter().map(|value| Some(value.as_str()?.to_owned())).collect::<Option<Vec<_>>>()
    };
    if let Some(options) = texts(&property["enum"]) {
        return Kind::Choice(options);
    }
    match property["type"].as_str() {
        Some("string") => Kind::Text,
        Some("integer") => Kind::Whole,
        Some("number") => Kind::Number,
        Some("boolean") => Kind::Flag,
        Some("array") if property["items"]["type"] == "string" => Kind::Lines,
        _ => Kind::Json,
    }
}

fn named(name: &str) -> String {
    format!("a.{name}")
}

fn field(number: usize, input: &Input, refused: Option<&Refused<'_>>) -> Markup {
    let (id, key) = (format!("a-{number}"), named(&input.name));
    let text = match refused {
        _ if input.is_secret => String::new(),
        Some(refused) => value(refused.body, &key).unwrap_or_default().into_owned(),
        None => match (&input.kind, &input.default) {
            (_, None) => String::new(),
            (Kind::Lines, Some(Value::Array(lines))) => {
                lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
            }
            (_, Some(Value::String(text))) => text.clone(),
            (_, Some(other)) => other.to_string(),
        },
    };
    let described = input.help.as_ref().map(|_| format!("{id}-help"));
    let (required, optional) = (input.is_required, if input.is_required { "" } else { " (optional)" });
    let note = match input.kind {
        Kind::Lines => " – one a line",
        Kind::Json => " – as JSON",
        _ => "",
    };
    let choices: Vec<String> = match &input.kind {
        Kind::Choice(options) => options.clone(),
        Kind::Flag => vec!["true".to_owned(), "false".to_owned()],
        _ => Vec::new(),
    };
    let [least, most] = &input.bounds;
    html! {
        div.field {
            label for=(id) { (clean::line(&input.title, 120)) (optional) (note) }
            @match &input.kind {
                Kind::Text | Kind::Whole | Kind::Number if input.is_secret => input id=(id) name=(key) type="password" autocomplete="off" required[required] aria-describedby=[described];,
                Kind::Text => input id=(id) name=(key) type="text" value=(text) required[required] aria-describedby=[described];,
                Kind::Whole => input id=(id) name=(key) type="number" step="1" min=[least] max=[most] value=(text) required[required] aria-describedby=[described];,
                Kind::Number => input id=(id) name=(key) type="number" step="any" min=[least] max=[most] value=(text) required[required] aria-describedby=[described];,
                Kind::Choice(_) | Kind::Flag => select id=(id) name=(key) required[required] aria-describedby=[described] {
                    option value="" selected[text.is_empty()] { "–" }
                    @for choice in &choices { option value=(choice) selected[*choice == text] { (clean::line(choice, 120)) } }
                },
                Kind::Lines | Kind::Json if input.is_secret => textarea.secret id=(id) name=(key) rows="4" autocomplete="off" required[required] aria-describedby=[described] {},
                Kind::Lines | Kind::Json => textarea id=(id) name=(key) rows="4" required[required] aria-describedby=[described] { (text) },
            }
            @if let Some(help) = &input.help { p.hint id={ (id) "-help" } { (clean::text(help)) } }
        }
    }
}

/// What was filled in, as arguments. What was left empty is left out.
fn arguments(inputs: &[Input], body: &[u8]) -> Result<Map<String, Value>, String> {
    let mut arguments = Map::new();
    for input in inputs {
        let text = value(body, &named(&input.name)).unwrap_or_default();
        if text.is_empty() && !(input.is_required && input.kind == Kind::Text) {
            continue;
        }
        let wrong = |what: &str| format!("`{}` takes {what}", input.name);
        let value = match &input.kind {
            Kind::Text | Kind::Choice(_) => Value::from(&*text),
            Kind::Whole => Value::from(text.parse::<i64>().map_err(|_| wrong("a whole number"))?),
            Kind::Number => {
                let number = text.parse().ok().and_then(Number::from_f64);
                Value::Number(number.ok_or_else(|| wrong("a number"))?)
            }
            Kind::Flag => Value::from(text == "true"),
            Kind::Lines => text.lines().filter(|line| !line.is_empty()).map(Value::from).collect(),
            Kind::Json => serde_json::from_str(&text).map_err(|error| wrong(&format!("JSON: {error}")))?,
        };
        arguments.insert(input.name.clone(), value);
    }
    Ok(arguments)
}

/// Calls a tool.
pub(super) async fn call(look: Look<'_>, name: &str, asked: &Asked<'_>) -> Result<Answer, AdminError> {
    let tool = find(look, name).await?;
    let refuse = async |why: &str| {
        let refused = Refused { why, body: asked.body, result: None };
        page(look, &tool, StatusCode::UNPROCESSABLE_ENTITY, Some(&refused)).await
    };
    let arguments = match arguments(&inputs(tool.input_schema.get()), asked.body) {
        Ok(arguments) => arguments,
        Err(why) => return refuse(&why).await,
    };
    match look.inner.admin.call(look.viewer, name, &arguments).await {
        Ok(Calling::Task(id)) => Ok(respond::see_other(&format!("/tasks/{}", encoded(&id)))),
        Ok(Calling::Result(result)) if result.is_error => {
            let why = "It failed at once. What was filled in is still there.";
            let failed = Refused { why, body: asked.body, result: Some(&result) };
            page(look, &tool, StatusCode::OK, Some(&failed)).await
        }
        Ok(Calling::Result(result)) => Ok(came_to(look, name, &result)),
        Err(AdminError::Refused(why)) => refuse(&why).await,
        Err(error) => Err(error),
    }
}

/// What a call came to that was over at once.
pub(super) fn came_to(look: Look<'_>, name: &str, result: &CallToolResult) -> Answer {
    let title = if result.is_error { "It failed" } else { "Result" };
    let body = html! {
        p.crumbs { a href="/tools" { "Tools" } " / " a href={ "/tools/" (encoded(name)) } { (clean::line(name, 128)) } }
        h1 { (title) }
        p.hint { "The call was over before it had to become a task, so the list of tasks does not have it." }
        (result::contents(result, None))
    };
    let page = Page { tab: Tab::Tools, title, follows: None, reloads: false, body };
    respond::page(StatusCode::OK, page.render(look.inner, look.viewer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_takes_what_a_schema_says() {
        let schema = r#"{"type":"object","required":["crate","n"],"properties":{
            "crate":{"type":"string"},"n":{"type":"integer"},"x":{"type":"number"},"go":{"type":"boolean"},
            "to":{"enum":["stage","prod"]},"args":{"type":"array","items":{"type":"string"}},"any":{}}}"#;
        let inputs = inputs(schema);
        let fill = |body: &str| arguments(&inputs, body.as_bytes()).map(|all| Value::Object(all).to_string());
        let full = "a.crate=api&a.n=3&a.x=0.5&a.go=false&a.to=prod&a.args=a%0D%0Ab&a.any=%5B1%5D";
        assert_eq!(
            fill(full).unwrap(),
            r#"{"any":[1],"args":["a","b"],"crate":"api","go":false,"n":3,"to":"prod","x":0.5}"#
        );
        assert_eq!(fill("a.crate=&a.n=1").unwrap(), r#"{"crate":"","n":1}"#);
        for wrong in ["a.crate=x&a.n=y", "a.n=1&a.any=%7B", "a.n=1&a.x=many"] {
            assert!(fill(wrong).unwrap_err().contains("takes"), "{wrong}");
        }
    }

    #[test]
    fn a_form_holds_numbers_to_what_a_schema_says() {
        let shown = |property: &str| {
            let schema = format!(r#"{{"properties":{{"n":{property}}}}}"#);
            field(0, &inputs(&schema)[0], None).into_string()
        };
        let whole = shown(r#"{"type":"integer","minimum":1,"maximum":10}"#);
        assert!(whole.contains(r#"step="1" min="1" max="10""#), "{whole}");
        let number = shown(r#"{"type":"number","minimum":0.5}"#);
        assert!(number.contains(r#"min="0.5""#) && !number.contains("max="), "{number}");
        let odd = shown(r#"{"type":"integer","minimum":0.5,"maximum":"x"}"#);
        assert!(!odd.contains("min=") && !odd.contains("max="), "{odd}");
    }
}
