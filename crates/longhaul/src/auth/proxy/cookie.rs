//! Cookies: from this host, for this host, out of reach of scripts and of other sites' requests.

use cookie::time::Duration as CookieTime;
use cookie::{Cookie, SameSite};
use http::{HeaderMap, HeaderValue};
use std::time::Duration;

/// No other host, no other path and no plain connection can set a cookie whose name begins so.
const PREFIX: &str = "__Host-longhaul-";

/// The longest cookie that browsers keep, its name included.
const LONGEST: usize = 4096;

/// The value of a cookie that came with a request.
pub(super) fn find(headers: &HeaderMap, name: &str) -> Option<String> {
    let name = format!("{PREFIX}{name}");
    let texts = headers.get_all(http::header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut cookies = texts.flat_map(Cookie::split_parse).filter_map(Result::ok);
    cookies.find(|cookie| cookie.name() == name).map(|cookie| cookie.value().to_owned())
}

/// `Set-Cookie`; `None` when no browser would keep it.
pub(super) fn set(name: &str, value: &str, lasting: Duration) -> Option<HeaderValue> {
    let name = format!("{PREFIX}{name}");
    if name.len() + value.len() > LONGEST {
        return None;
    }
    let lasting = CookieTime::try_from(lasting).unwrap_or(CookieTime::ZERO);
    let cookie = Cookie::build((name, value)).path("/").secure(true).http_only(true).same_site(SameSite::Lax);
    let mut header = HeaderValue::from_str(&cookie.max_age(lasting).build().to_string()).ok()?;
    header.set_sensitive(true);
    Some(header)
}

/// `Set-Cookie` that ends one.
pub(super) fn end(name: &str) -> Option<HeaderValue> {
    set(name, "", Duration::ZERO)
}
