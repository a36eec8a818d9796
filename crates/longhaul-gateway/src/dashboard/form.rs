//! Forms as browsers send them.

use std::borrow::Cow;

/// The value of the first field of this name.
pub(super) fn value<'b>(body: &'b [u8], name: &str) -> Option<Cow<'b, str>> {
    form_urlencoded::parse(body).find(|(key, _)| key == name).map(|(_, value)| value)
}

/// The values of all fields of this name.
pub(super) fn values<'b>(body: &'b [u8], name: &str) -> Vec<Cow<'b, str>> {
    form_urlencoded::parse(body).filter(|(key, _)| key == name).map(|(_, value)| value).collect()
}

/// A part of a path or of a query, as it stands in a link.
pub(super) fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}
