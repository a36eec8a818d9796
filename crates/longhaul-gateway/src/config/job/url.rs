//! A URL with placeholders: each value is one part of it, and none can lead elsewhere.

use std::fmt::Write as _;

use reqwest::Url;

use crate::config::{
    argument::ArgumentError,
    template::{Piece, Template},
    value::Value,
};

/// A URL whose scheme, host and port are the configuration's own.
#[derive(Clone, Debug)]
pub(in crate::config) struct UrlTemplate {
    template: Template,
    /// The URL with a letter for each value.
    base: Url,
}

/// Why a text is no such URL.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum UrlMistake {
    #[error("{0}")]
    Malformed(String),
    #[error("it is not of `http` or `https`")]
    Scheme,
    #[error("a value would choose its scheme, host or port")]
    ValueInHost,
    #[error("it holds a user name or a password")]
    Credentials,
    #[error("it ends with a fragment, which is never sent")]
    Fragment,
}

impl UrlTemplate {
    /// Holds the text to what it promises.
    pub(super) fn new(template: Template) -> Result<Self, UrlMistake> {
        let with = |letter: &str| {
            let piece = |piece: &Piece| match piece {
                Piece::Literal(text) => text.clone(),
                Piece::Input(_) => letter.to_owned(),
            };
            let text: String = template.pieces().iter().map(piece).collect();
            Url::parse(&text).map_err(|error| UrlMistake::Malformed(error.to_string()))
        };
        // Two values that differ must not lead to two hosts.
        let (base, other) = (with("x")?, with("7")?);
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(UrlMistake::Scheme);
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(UrlMistake::Credentials);
        }
        if base.origin() != other.origin() {
            return Err(UrlMistake::ValueInHost);
        }
        if base.fragment().is_some() {
            return Err(UrlMistake::Fragment);
        }
        Ok(Self { template, base })
    }

    /// The URL as it leads to its host.
    pub(super) fn base(&self) -> &Url {
        &self.base
    }

    /// Whether values stand in it.
    pub(super) fn has_values(&self) -> bool {
        self.template.inputs().next().is_some()
    }

    /// The URL with these values, each encoded as one part of it.
    pub(super) fn bind(&self, names: &[&str], values: &[Option<Value>]) -> Result<Url, ArgumentError> {
        let unfit = |index: usize, reason| {
            let name = names.get(index).copied().unwrap_or_default().to_owned();
            ArgumentError::Unfit { name, place: "the URL", reason }
        };
        let (mut text, mut segment, mut in_segment, mut in_query) =
            (String::new(), String::new(), None, false);
        let close = |segment: &str, holds: Option<usize>| match (holds, segment) {
            (Some(index), "") => Err(unfit(index, "the part of the path that it fills would be empty")),
            (Some(index), "." | "..") => Err(unfit(index, "it would lead to another path")),
            _ => Ok(()),
        };
        for piece in self.template.pieces() {
            let part = match piece {
                Piece::Literal(literal) => literal.clone(),
                Piece::Input(index) => {
                    in_segment = Some(*index);
                    let value = values.get(*index).and_then(Option::as_ref).and_then(Value::text);
                    encode(&value.unwrap_or_default())
                }
            };
            for c in part.chars() {
                match c {
                    _ if in_query => {}
                    '/' | '?' => {
                        close(&segment, in_segment.take())?;
                        segment.clear();
                        in_query = c == '?';
                    }
                    c => segment.push(c),
                }
            }
            text.push_str(&part);
        }
        if !in_query {
            close(&segment, in_segment)?;
        }
        let first = in_segment.or_else(|| self.template.inputs().next()).unwrap_or_default();
        let url = Url::parse(&text).map_err(|_| unfit(first, "there would be no URL"))?;
        let segments = |url: &Url| url.path_segments().map_or(0, Iterator::count);
        if url.origin() != self.base.origin() || segments(&url) != segments(&self.base) {
            return Err(unfit(first, "it would lead elsewhere"));
        }
        Ok(url)
    }
}

/// Every byte that could mean something in a URL, encoded.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a string takes all");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn template(text: &str) -> Result<UrlTemplate, UrlMistake> {
        UrlTemplate::new(Template::resolve(text, |_| Some(0)).unwrap())
    }

    fn bound(text: &str, value: &str) -> Result<String, ArgumentError> {
        let values = [Some(Value::String(value.to_owned()))];
        template(text).unwrap().bind(&["v"], &values).map(Into::into)
    }

    #[test]
    fn a_value_is_one_part_of_its_url() {
        assert_eq!(
            bound("https://a.example/j/{v}/x", "a/b?c#d%2e").unwrap(),
            "https://a.example/j/a%2Fb%3Fc%23d%252e/x"
        );
        assert_eq!(
            bound("https://a.example/j?q={v}&n=1", "a&b=c d").unwrap(),
            "https://a.example/j?q=a%26b%3Dc%20d&n=1"
        );
        assert_eq!(bound("https://a.example/j?q={v}", "..").unwrap(), "https://a.example/j?q=..");
        for value in ["", ".", ".."] {
            assert!(bound("https://a.example/j/{v}", value).is_err(), "{value:?}");
            assert!(bound("https://a.example/j/{v}/cancel", value).is_err(), "{value:?}");
        }
        assert!(bound("https://a.example/j/{v}{v}", ".").is_err(), "two dots of two values");
        assert!(bound("https://a.example/j/.{v}", ".").is_err(), "one of them the author's");
    }

    #[test]
    fn what_a_value_could_lead_elsewhere_is_no_template() {
        for text in [
            "https://{v}/j",
            "https://a.{v}/j",
            "{v}://a.example/",
            "https://a.example:{v}/",
            "https://a.example{v}/",
        ] {
            assert!(template(text).is_err(), "{text}");
        }
        for text in [
            "ftp://a.example/",
            "https://u:p@a.example/",
            "https://a.example/#x",
            "a.example/j",
            "file:///etc",
        ] {
            assert!(template(text).is_err(), "{text}");
        }
    }

    proptest! {
        /// FastMCP's CVE-2026-32871 and its kin: whatever a value is, host and path stay.
        #[test]
        fn s39_no_value_leaves_its_place(value in "[a-z./\\\\%25e?#@: \\u{0}-\\u{20}é]{0,12}") {
            let text = "https://a.example:8443/api/v1/{v}/status?a=1";
            if let Ok(url) = bound(text, &value) {
                prop_assert!(url.starts_with("https://a.example:8443/api/v1/") && url.ends_with("/status?a=1"), "{url}");
                let inner = &url["https://a.example:8443/api/v1/".len()..url.len() - "/status?a=1".len()];
                prop_assert!(!inner.contains(['/', '?', '#', '\\']), "{url}");
            }
        }
    }
}
