//! Who looks, and whether it is they who ask: keys, cookies, and pages of others.

use http::header::{COOKIE, HOST, ORIGIN, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Method};
use longhaul::server::Caller;
use longhaul::store::StoreError;
use std::time::Duration;

use super::Inner;
use super::respond::Answer;
use crate::admin::Viewer;

/// Whoever is let in, if anybody is: by a credential or a socket, or by the cookie of a session.
pub(super) async fn viewer(
    inner: &Inner,
    visitor: Option<Caller>,
    headers: &HeaderMap,
) -> Result<Option<Viewer>, StoreError> {
    if let Some(caller) = visitor {
        return Ok(Some(proven(inner, caller)));
    }
    match token(headers) {
        // Where callers sign in, whoever came with a key before that has to as well.
        Some(token) => inner.admin.sessions().find(&token, inner.guard.is_none()).await,
        None => Ok(None),
    }
}

/// A caller whose credential counts. Where none is asked for it came by the socket, which is the operator's.
pub(super) fn proven(inner: &Inner, caller: Caller) -> Viewer {
    let Some(_guard) = &inner.guard else { return Viewer::operator() };
    let scopes = caller.grant.as_deref().and_then(|grant| grant.scopes());
    // A credential that is good for everything says nothing of being an operator's.
    let is_operator = match (&inner.operators, scopes) {
        (Some(needed), Some(scopes)) => scopes.contains_all(needed),
        _ => false,
    };
    Viewer::of(caller, is_operator)
}

/// Whether a request comes from a page of ours, or from no page at all.
///
/// The cookie comes along with requests of every server on this machine, for browsers tell hosts apart and no ports. So
/// whatever changes something must say that it comes from here; what only reads must not say otherwise.
pub(super) fn is_from_here(method: &Method, headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let reads = matches!(*method, Method::GET | Method::HEAD);
    match text("sec-fetch-site") {
        Some("same-origin") => return true,
        // Typed, or followed from a bookmark or a terminal.
        Some("none") => return reads,
        Some(_) => return reads && text("sec-fetch-mode") == Some("navigate"),
        None => {}
    }
    let origin = text(ORIGIN.as_str());
    let (Some(origin), Some(host)) = (origin, text(HOST.as_str())) else {
        // Scripts of people have neither; what they send as JSON no form of a page can.
        return reads || origin.is_none() && is_json(headers);
    };
    origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host))
}

/// Whether the body claims to be JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(http::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(longhaul::proto::http::is_json)
}

/// The name of our cookie. Browsers keep those of all ports together.
fn name(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').map(|(_, port)| port);
    let port = port.filter(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    format!("longhaul-{}", port.unwrap_or("80"))
}

/// What the browser shows.
pub(super) fn token(headers: &HeaderMap) -> Option<String> {
    let name = name(headers);
    let texts = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
}

/// Gives the browser what it shows from now on.
pub(super) fn set(inner: &Inner, answer: &mut Answer, headers: &HeaderMap, token: &str, lasts: Duration) {
    let (name, lasts) = (name(headers), lasts.as_secs());
    let secure = if inner.facts().is_https { "; Secure" } else { "" };
    let cookie = format!("{name}={token}; Path=/; HttpOnly; SameSite=Strict{secure}; Max-Age={lasts}");
    if let Ok(mut cookie) = HeaderValue::from_str(&cookie) {
        cookie.set_sensitive(true);
        answer.headers_mut().append(SET_COOKIE, cookie);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (http::HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn only_a_page_of_ours_changes_anything() {
        fn ours(method: &Method, pairs: &[(&'static str, &'static str)]) -> bool {
            is_from_here(method, &headers(pairs))
        }
        let host = ("host", "127.0.0.1:8420");
        for good in [
            &[host, ("sec-fetch-site", "same-origin")][..],
            &[host, ("origin", "http://127.0.0.1:8420")],
            &[host, ("content-type", "application/json")],
        ] {
            assert!(ours(&Method::POST, good) && ours(&Method::GET, good), "{good:?}");
        }
        for bad in [
            &[host][..],
            &[host, ("content-type", "application/x-www-form-urlencoded")],
            &[host, ("sec-fetch-site", "same-site"), ("origin", "http://127.0.0.1:8420")],
            &[host, ("sec-fetch-site", "cross-site"), ("content-type", "application/json")],
            &[host, ("sec-fetch-site", "none")],
            &[host, ("origin", "http://127.0.0.1:3000")],
            &[host, ("origin", "http://127.0.0.1:3000"), ("content-type", "application/json")],
            &[host, ("origin", "null")],
            &[host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")],
        ] {
            assert!(!ours(&Method::POST, bad), "{bad:?}");
        }
        assert!(!ours(&Method::GET, &[host, ("sec-fetch-site", "same-site"), ("sec-fetch-mode", "cors")]));
        assert!(!ours(&Method::GET, &[host, ("origin", "http://127.0.0.1:3000")]));
        assert!(ours(
            &Method::GET,
            &[host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]
        ));
        assert!(ours(&Method::GET, &[host]));
    }

    #[test]
    fn each_port_has_a_cookie_of_its_own() {
        let jar = ("cookie", "longhaul-1=a; longhaul-8420=b; other=c");
        assert_eq!(token(&headers(&[("host", "127.0.0.1:8420"), jar])).as_deref(), Some("b"));
        assert_eq!(token(&headers(&[("host", "[::1]:1"), jar])).as_deref(), Some("a"));
        assert_eq!(token(&headers(&[("host", "localhost"), jar])), None);
        assert_eq!(token(&headers(&[("host", "[::1]"), jar])), None);
    }
}
