//! The head of a request, whose headers that matter here are found in one pass.

use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Uri};

/// Where it is asked whether the server serves.
const ALIVE: &str = "/healthz";
/// Where it is asked whether it should be sent more.
pub(super) const READY: &str = "/readyz";

/// The head of a request.
#[derive(Debug)]
pub(super) struct Head<'h> {
    pub(super) method: &'h Method,
    pub(super) uri: &'h Uri,
    /// Every header.
    pub(super) headers: &'h HeaderMap,
    pub(super) accept: Header<'h>,
    pub(super) content_length: Header<'h>,
    pub(super) content_type: Header<'h>,
    pub(super) fetch_mode: Header<'h>,
    pub(super) fetch_site: Header<'h>,
    pub(super) host: Header<'h>,
    pub(super) idempotency_key: Header<'h>,
    pub(super) last_event_id: Header<'h>,
    pub(super) mcp_method: Header<'h>,
    pub(super) mcp_name: Header<'h>,
    pub(super) origin: Header<'h>,
    pub(super) session_id: Header<'h>,
    pub(super) version: Header<'h>,
}

impl<'h> Head<'h> {
    pub(super) fn of(parts: &'h Parts) -> Self {
        let mut head = Self {
            method: &parts.method,
            uri: &parts.uri,
            headers: &parts.headers,
            accept: Header::default(),
            content_length: Header::default(),
            content_type: Header::default(),
            fetch_mode: Header::default(),
            fetch_site: Header::default(),
            host: Header::default(),
            idempotency_key: Header::default(),
            last_event_id: Header::default(),
            mcp_method: Header::default(),
            mcp_name: Header::default(),
            origin: Header::default(),
            session_id: Header::default(),
            version: Header::default(),
        };
        for (name, value) in &parts.headers {
            let header = match name.as_str() {
                "accept" => &mut head.accept,
                "content-length" => &mut head.content_length,
                "content-type" => &mut head.content_type,
                "sec-fetch-mode" => &mut head.fetch_mode,
                "sec-fetch-site" => &mut head.fetch_site,
                "host" => &mut head.host,
                "idempotency-key" => &mut head.idempotency_key,
                "last-event-id" => &mut head.last_event_id,
                "mcp-method" => &mut head.mcp_method,
                "mcp-name" => &mut head.mcp_name,
                "origin" => &mut head.origin,
                "mcp-session-id" => &mut head.session_id,
                "mcp-protocol-version" => &mut head.version,
                _ => continue,
            };
            header.give(value);
        }
        head
    }

    pub(super) fn path(&self) -> &'h str {
        self.uri.path()
    }

    /// Whether the body claims to be JSON.
    pub(super) fn has_json(&self) -> bool {
        self.content_type.text().is_some_and(longhaul_proto::http::is_json)
    }

    /// Whether it only asks how the server is.
    pub(super) fn asks_for_health(&self) -> bool {
        matches!(self.path(), ALIVE | READY) && matches!(*self.method, Method::GET | Method::HEAD)
    }
}

/// One header of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Header<'h> {
    first: Option<&'h HeaderValue>,
    is_given_again: bool,
}

impl<'h> Header<'h> {
    /// The first that was given.
    pub(super) fn first(self) -> Option<&'h HeaderValue> {
        self.first
    }

    /// The text of the first, if it is text.
    pub(super) fn text(self) -> Option<&'h str> {
        self.first?.to_str().ok()
    }

    /// Whether it was given more than once.
    pub(super) fn is_given_again(self) -> bool {
        self.is_given_again
    }

    /// Whether it was given and is no text: it must not pass for absent.
    pub(super) fn is_unreadable(self) -> bool {
        self.first.is_some_and(|value| value.to_str().is_err())
    }

    fn give(&mut self, value: &'h HeaderValue) {
        match self.first {
            Some(_) => self.is_given_again = true,
            None => self.first = Some(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn the_first_counts_and_a_second_is_seen() {
        let request = Request::builder().header("MCP-Protocol-Version", "a").header("host", "h");
        let (parts, ()) = request.header("mcp-protocol-version", "b").body(()).unwrap().into_parts();
        let head = Head::of(&parts);
        assert_eq!((head.version.text(), head.version.is_given_again()), (Some("a"), true));
        assert_eq!((head.host.text(), head.host.is_given_again()), (Some("h"), false));
        assert_eq!((head.origin.text(), head.origin.is_unreadable()), (None, false));
    }

    #[test]
    fn what_is_no_text_is_not_absent() {
        let value = HeaderValue::from_bytes(b"\xff").unwrap();
        let (parts, ()) = Request::builder().header("mcp-session-id", value).body(()).unwrap().into_parts();
        let head = Head::of(&parts);
        assert_eq!((head.session_id.text(), head.session_id.is_unreadable()), (None, true));
    }
}
