//! From path and method to the page that answers.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use longhaul::auth::Refusal;
use longhaul::server::Caller;

use super::respond::{self, Answer};
use super::{Inner, connect, door, form, frame, live, nodes, question, result, task, tasks, tools};
use crate::admin::{self, AdminError, Viewer};

/// What a page is made of: who serves it, and for whom.
#[derive(Clone, Copy)]
pub(super) struct Look<'a> {
    pub(super) inner: &'a Inner,
    pub(super) viewer: &'a Viewer,
}

/// A request for a page.
pub(super) struct Asked<'r> {
    pub(super) head: &'r Parts,
    pub(super) body: &'r Bytes,
    path: Vec<Cow<'r, str>>,
}

impl<'r> Asked<'r> {
    fn of(head: &'r Parts, body: &'r Bytes) -> Self {
        let parts = head.uri.path().split('/').skip(1).map(decoded);
        Self { head, body, path: parts.collect() }
    }

    pub(super) fn query(&self) -> &'r str {
        self.head.uri.query().unwrap_or_default()
    }

    /// What the query says under this name.
    pub(super) fn says(&self, name: &str) -> Option<Cow<'r, str>> {
        form::value(self.query().as_bytes(), name)
    }

    /// As [`Asked::says`], all that it says so.
    pub(super) fn all(&self, name: &str) -> Vec<Cow<'r, str>> {
        form::values(self.query().as_bytes(), name)
    }
}

/// The first parts of the paths that are ours.
const OURS: [&str; 12] = [
    "tasks", "tools", "nodes", "connect", "cancel", "events", "sign-in", "sign-out", "page.css", "live.js",
    "find.js", "icon.svg",
];

pub(super) fn has(method: &Method, path: &str) -> bool {
    let mut parts = path.split('/').skip(1);
    let (Some(first), second) = (parts.next(), parts.next()) else { return false };
    match first {
        // The root alone, and only to read it: who sends messages there is told where they belong.
        "" => second.is_none() && matches!(*method, Method::GET | Method::HEAD),
        "admin" => second == Some("api"),
        _ => OURS.contains(&first),
    }
}

fn decoded(part: &str) -> Cow<'_, str> {
    // These mean something in forms alone.
    let escaped = part.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    let pair = form_urlencoded::parse(escaped.as_bytes()).next();
    match pair {
        Some((name, _)) if part.contains('%') => Cow::Owned(name.into_owned()),
        _ => Cow::Borrowed(part),
    }
}

pub(super) async fn answer(inner: &Inner, visitor: Option<Caller>, request: Request<Bytes>) -> Answer {
    let (head, body) = request.into_parts();
    let asked = Asked::of(&head, &body);
    let path: Vec<&str> = asked.path.iter().map(|part| &**part).collect();
    if let Some(file) = file(&head.method, &path) {
        return file;
    }
    if !door::is_from_here(&head.method, &head.headers) {
        let what = "forbidden: the request comes from a page of somebody else's";
        return respond::sentence(StatusCode::FORBIDDEN, what);
    }
    if let Some(answer) = enter(inner, &asked, &path).await {
        return answer;
    }
    let viewer = match door::viewer(inner, visitor, &head.headers).await {
        Ok(Some(viewer)) => viewer,
        Ok(None) => return stranger(inner, &head.headers, &path),
        Err(error) => return failed(inner, None, &error.into()),
    };
    let look = Look { inner, viewer: &viewer };
    if let ["admin", "api", ..] = path[..] {
        return script(look, &asked).await;
    }
    match seen(look, &asked, &path).await {
        Ok(answer) => answer,
        Err(error) => failed(inner, Some(&viewer), &error),
    }
}

/// What is no secret.
fn file(method: &Method, path: &[&str]) -> Option<Answer> {
    if *method != Method::GET && *method != Method::HEAD {
        return None;
    }
    Some(match path {
        ["page.css"] => respond::file("text/css; charset=utf-8", include_str!("page.css")),
        ["live.js"] => respond::file("text/javascript; charset=utf-8", include_str!("live.js")),
        ["find.js"] => respond::file("text/javascript; charset=utf-8", include_str!("find.js")),
        ["icon.svg"] => respond::file("image/svg+xml", include_str!("icon.svg")),
        _ => return None,
    })
}

/// Lets in whoever comes with a key or a token, and lets go who leaves.
async fn enter(inner: &Inner, asked: &Asked<'_>, path: &[&str]) -> Option<Answer> {
    let (sessions, headers) = (inner.admin.sessions(), &asked.head.headers);
    match (&asked.head.method, path) {
        (&Method::GET, [""]) => {
            // Where callers sign in, no key lets anybody in.
            let key = asked.says("key").filter(|_| inner.guard.is_none())?;
            // A browser that looks ahead spends nothing.
            if headers.get("sec-purpose").is_some_and(|purpose| purpose.as_bytes().starts_with(b"prefetch")) {
                return Some(respond::sentence(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "a key is not fetched ahead",
                ));
            }
            Some(match sessions.spend(&key).await {
                Ok(true) => opened(inner, headers, None).await,
                Ok(false) => {
                    let why = "That key is not good any more: each opens the page once.";
                    respond::in_vain(respond::page(
                        StatusCode::UNAUTHORIZED,
                        frame::outside(inner, Some(why)),
                    ))
                }
                Err(error) => failed(inner, None, &error.into()),
            })
        }
        (&Method::POST, ["sign-in"]) => {
            let token = form::value(asked.body, "token").unwrap_or_default();
            Some(match signed_in(inner, token.trim()).await {
                Ok(viewer) => opened(inner, headers, Some(&viewer)).await,
                Err(refusal) => turned_away(inner, &refusal),
            })
        }
        (&Method::POST, ["sign-out"]) => {
            let token = door::token(headers).unwrap_or_default();
            let ended = match sessions.end(&token).await {
                Ok(ended) => ended,
                Err(error) => return Some(failed(inner, None, &error.into())),
            };
            let mut answer = respond::see_other("/");
            door::set(inner, &mut answer, headers, "", std::time::Duration::ZERO);
            Some(if ended || token.is_empty() { answer } else { respond::in_vain(answer) })
        }
        _ => None,
    }
}

/// Whose token it is, if it counts.
async fn signed_in(inner: &Inner, token: &str) -> Result<Viewer, Refusal> {
    let guard = inner.guard.as_ref().ok_or(Refusal::Invalid("no token counts here"))?;
    let bearer = HeaderValue::from_str(&format!("Bearer {token}"));
    let bearer = bearer.map_err(|_| Refusal::Invalid("a token is plain text"))?;
    let headers = HeaderMap::from_iter([(http::header::AUTHORIZATION, bearer)]);
    Ok(door::proven(inner, guard.admit(&headers, None).await?))
}

/// What whoever signs in is told whose token does not let it in.
fn turned_away(inner: &Inner, refusal: &Refusal) -> Answer {
    tracing::debug!(%refusal, "nobody was let in to the page");
    let page = |status, why: &str| respond::page(status, frame::outside(inner, Some(why)));
    match refusal {
        // Nothing is known against it.
        Refusal::Unavailable => {
            let mut answer = page(refusal.status(), "Tokens cannot be checked now: try again in a moment.");
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
            answer
        }
        Refusal::Scope(needed) => page(
            refusal.status(),
            &format!("That token is not good for this: it has to have the scope {needed}."),
        ),
        _ => respond::in_vain(page(StatusCode::UNAUTHORIZED, "That token does not count here.")),
    }
}

async fn opened(inner: &Inner, headers: &HeaderMap, viewer: Option<&Viewer>) -> Answer {
    match inner.admin.sessions().open(viewer).await {
        Ok((token, lasts)) => {
            let mut answer = respond::see_other("/");
            door::set(inner, &mut answer, headers, &token, lasts);
            answer
        }
        Err(error) => failed(inner, None, &error.into()),
    }
}

/// Whoever is not let in learns how to be, and nothing else.
fn stranger(inner: &Inner, headers: &HeaderMap, path: &[&str]) -> Answer {
    let mut answer = match path {
        ["admin" | "events", ..] => {
            let what = r#"{"error":{"message":"sign in first: open the page with a key, or send a token"}}"#;
            respond::json((StatusCode::UNAUTHORIZED, what.to_owned()))
        }
        _ => respond::page(StatusCode::UNAUTHORIZED, frame::outside(inner, None)),
    };
    if door::token(headers).is_none() {
        return answer;
    }
    // It would come along with each request of each tab, and count each time.
    door::set(inner, &mut answer, headers, "", std::time::Duration::ZERO);
    // A cookie that is over, or was made up, had the store looked at.
    respond::in_vain(answer)
}

async fn script(look: Look<'_>, asked: &Asked<'_>) -> Answer {
    let method = &asked.head.method;
    if *method == Method::POST && !door::is_json(&asked.head.headers) {
        let what = r#"{"error":{"message":"send Content-Type: application/json"}}"#;
        return respond::json((StatusCode::UNSUPPORTED_MEDIA_TYPE, what.to_owned()));
    }
    let (path, query, body) = (&asked.path[2..], asked.query(), asked.body);
    let request = admin::Asked { method, path, query, body };
    if *method == Method::GET && *path == ["nodes"] {
        // What is served on is known here.
        return match request.check() {
            Ok(()) => nodes::json(look).await,
            Err(error) => respond::json(admin::failed(&error)),
        };
    }
    respond::json(admin::answer(&look.inner.admin, look.viewer, request).await)
}

async fn seen(look: Look<'_>, asked: &Asked<'_>, path: &[&str]) -> Result<Answer, AdminError> {
    let get = matches!(asked.head.method, Method::GET | Method::HEAD);
    let post = asked.head.method == Method::POST;
    match path {
        [""] if get => tasks::show(look, asked).await,
        ["tasks", id] if get => task::show(look, id, StatusCode::OK, None).await,
        ["tasks", id, "output", stream] if get => task::plain(look, id, stream, asked).await,
        ["tasks", id, "content", number] if get => result::picture(look, id, number).await,
        ["tasks", id, "answer"] if post => question::answer(look, id, asked).await,
        ["tasks", id, "cancel"] if post => task::cancel(look, id).await,
        ["tasks", id, "again"] if post => task::again(look, id).await,
        ["cancel"] if post => tasks::cancel_all(look, asked).await,
        ["tools"] if get => tools::list(look).await,
        ["tools", name] if get => tools::show(look, name).await,
        ["tools", name] if post => tools::call(look, name, asked).await,
        ["nodes"] if get => nodes::show(look).await,
        ["connect"] if get => Ok(connect::show(look)),
        ["events"] if get => live::follow(look, asked).await,
        _ => {
            let what = if get { "There is no such page." } else { "Nothing of this page is done so." };
            let status = if get { StatusCode::NOT_FOUND } else { StatusCode::METHOD_NOT_ALLOWED };
            Ok(respond::page(status, frame::problem(look.inner, Some(look.viewer), what)))
        }
    }
}

/// An error, as a page.
pub(super) fn failed(inner: &Inner, viewer: Option<&Viewer>, error: &AdminError) -> Answer {
    if error.status().is_server_error() {
        tracing::error!(?error, "a page cannot be shown");
    }
    let mut answer = respond::page(error.status(), frame::problem(inner, viewer, &error.to_string()));
    if let Some(after) = error.retry_after() {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(after.as_secs() + 1));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_ours_is_taken() {
        for ours in ["/", "/tasks/x", "/tools", "/admin/api/tasks", "/page.css"] {
            assert!(has(&Method::GET, ours), "{ours}");
        }
        for not in ["", "/mcp", "/admin", "/admin/x", "//", "/healthz", "/task", "/favicon.ico", "*"] {
            assert!(!has(&Method::GET, not), "{not}");
        }
        assert!(!has(&Method::POST, "/") && has(&Method::POST, "/tools/x"));
    }

    #[test]
    fn a_part_of_a_path_is_what_it_says() {
        assert_eq!(decoded("a+b"), "a+b");
        assert_eq!(decoded("a%2Fb+c"), "a/b+c");
        assert_eq!(decoded("a=b&c"), "a=b&c");
        assert_eq!(decoded("a=b&c%20d"), "a=b&c d");
    }
}
