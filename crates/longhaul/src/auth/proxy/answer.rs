//! Answers: JSON for programs, pages and redirects for people.

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, SET_COOKIE,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Value, json};

use longhaul_tasks::store::StoreError;

/// The answer to a request.
pub(crate) type Answer = Response<Bytes>;

/// A JSON document that nobody keeps.
pub(super) fn document(status: StatusCode, value: &Value) -> Answer {
    let mut answer = Response::new(Bytes::from(value.to_string()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// An error, as OAuth says it to programs (RFC 6749, 5.2).
pub(super) fn error(code: &str, description: &str) -> Answer {
    document(StatusCode::BAD_REQUEST, &json!({"error": code, "error_description": description}))
}

/// `401` for a client that shows a secret: none was given to any (RFC 6749, 5.2).
pub(super) fn no_secrets() -> Answer {
    let description = "clients have no secret here: send `client_id` in the form, and neither `Authorization` nor `client_secret`";
    let says = json!({"error": "invalid_client", "error_description": description});
    let mut answer = document(StatusCode::UNAUTHORIZED, &says);
    let challenge = HeaderValue::from_static("Basic realm=\"clients without secrets\"");
    answer.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    answer
}

/// What the store could not do now.
pub(super) fn unavailable(error: &StoreError) -> Answer {
    let error = error as &dyn std::error::Error;
    tracing::warn!(error, "the store of an authorization server fails");
    let says = json!({"error": "temporarily_unavailable", "error_description": "try again"});
    document(StatusCode::SERVICE_UNAVAILABLE, &says)
}

/// Sends the browser elsewhere. `303`, so that no form is sent on with it.
pub(super) fn redirect(to: &str, cookies: impl IntoIterator<Item = Option<HeaderValue>>) -> Answer {
    let Ok(location) = HeaderValue::from_str(to) else {
        return page(StatusCode::BAD_REQUEST, "No such address", "");
    };
    let mut answer = Response::new(Bytes::new());
    *answer.status_mut() = StatusCode::SEE_OTHER;
    let headers = answer.headers_mut();
    headers.insert(LOCATION, location);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    for cookie in cookies.into_iter().flatten() {
        headers.append(SET_COOKIE, cookie);
    }
    answer
}

/// A page with this content, which is HTML. It is shown in no frame, runs nothing and loads nothing.
pub(super) fn page(status: StatusCode, title: &str, content: &str) -> Answer {
    let text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <style>{STYLE}</style></head><body><main><h1>{title}</h1>{content}</main></body></html>\n",
        title = escaped(title)
    );
    let mut answer = Response::new(Bytes::from(text));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // `no-referrer` would send the form without its origin.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    answer
}

/// No `form-action`: browsers hold it against each redirect after the form, and where those lead the upstream knows.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'";

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;margin:2em auto;max-width:36em;padding:0 1em}\
     code{word-break:break-all}.host{font-size:1.4em;font-weight:bold}button{font:inherit;padding:.4em 1.2em;\
     margin-right:1em}.warning{border-left:.3em solid #c60;padding-left:.8em}";

/// A page that says what is wrong and sends nobody anywhere.
pub(super) fn refusal(status: StatusCode, what: &str) -> Answer {
    page(status, "This sign-in cannot go on", &format!("<p>{}</p>", escaped(what)))
}

/// A stranger's text within a page: no markup, and nothing that turns its direction or cannot be seen.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() || is_invisible(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}
