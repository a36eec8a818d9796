//! What a server says when it lets nobody in: its `WWW-Authenticate` (RFC 9110, 11.6.1; RFC 6750; RFC 9728, 5.1).

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};

use crate::server::Scopes;

/// What a server asks for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Challenge {
    /// Tokens are to be bound to a key (RFC 9449).
    pub(super) dpop: bool,
    /// Where its metadata is.
    pub(super) metadata: Option<String>,
    /// What the operation needs.
    pub(super) scope: Option<Scopes>,
    /// What is wrong with what was shown.
    pub(super) error: Option<String>,
}

impl Challenge {
    /// The challenge of an answer. One that asks for nothing that we could do is as none.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let values = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let all: Vec<(String, Vec<(String, String)>)> = values.flat_map(challenges).collect();
        let of = |scheme: &str| all.iter().find(|(name, _)| name == scheme);
        let Some((scheme, parameters)) = of("bearer").or_else(|| of("dpop")) else {
            return Self::default();
        };
        let text = |name: &str| {
            let found = parameters.iter().find(|(parameter, _)| parameter == name);
            found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
        };
        Self {
            dpop: scheme == "dpop",
            metadata: text("resource_metadata"),
            // What is no scope could be asked of nobody.
            scope: text("scope")
                .and_then(|scope| Scopes::parse(&scope).ok())
                .filter(|scope| !scope.is_empty()),
            error: text("error"),
        }
    }

    /// Whether a token with more scopes would be let in.
    pub(super) fn wants_more(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

/// The challenges of one header, names in lower case. What is not of their form is passed over.
fn challenges(value: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut all: Vec<(String, Vec<(String, String)>)> = Vec::new();
    let mut rest = value;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let Some(first) = rest.chars().next() else { return all };
        let word = &rest[..rest.find(|c| !is_token(c)).unwrap_or(rest.len())];
        if word.is_empty() {
            rest = &rest[first.len_utf8()..];
            continue;
        }
        rest = &rest[word.len()..];
        let after = rest.trim_start_matches([' ', '\t']);
        match (after.strip_prefix('='), all.last_mut()) {
            (Some(after), Some((_, parameters))) => {
                let (value, left) = parameter(after.trim_start_matches([' ', '\t']));
                parameters.push((word.to_ascii_lowercase(), value));
                rest = left;
            }
            _ => all.push((word.to_ascii_lowercase(), Vec::new())),
        }
    }
}

/// The value of a parameter, and what follows it.
fn parameter(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            _ => value.push(c),
        }
    }
    (value, "")
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn challenge(values: &[&str]) -> Challenge {
        let pair = |value: &&str| (WWW_AUTHENTICATE, HeaderValue::from_str(value).unwrap());
        Challenge::of(&values.iter().map(pair).collect())
    }

    #[test]
    fn c02_a_challenge_is_read_however_it_is_written() {
        let expected = Challenge {
            dpop: false,
            metadata: Some("https://mcp.example/m,x".to_owned()),
            scope: Some(Scopes::parse("a b").unwrap()),
            error: Some("invalid_token".to_owned()),
        };
        for values in [
            &[r#"Bearer resource_metadata="https://mcp.example/m,x", scope="a b", error="invalid_token""#][..],
            &[r#"bearer scope = "b a",error=invalid_token ,resource_metadata="https://mcp.example/m\,x""#],
            &[
                r#"Basic realm="x, Bearer scope=\"c\"", BEARER Scope="a b", Error="invalid_token", Resource_Metadata="https://mcp.example/m,x""#,
            ],
            &[
                "Negotiate abc==",
                r#"Bearer error="invalid_token",scope="a b",resource_metadata="https://mcp.example/m,x""#,
            ],
        ] {
            assert_eq!(challenge(values), expected, "{values:?}");
        }
    }

    #[test]
    fn c02_what_is_no_challenge_asks_for_nothing() {
        for values in [
            &[][..],
            &["Basic realm=\"x\""],
            &["\"Bearer\" = x"],
            &[", ,"],
            &["Bearer"],
            &["Bearer scope=\""],
        ] {
            assert_eq!(challenge(values), Challenge::default(), "{values:?}");
        }
        assert!(challenge(&[r#"DPoP error="use_dpop_nonce""#]).dpop);
        assert!(!challenge(&["DPoP", "Bearer"]).dpop);
    }
}
