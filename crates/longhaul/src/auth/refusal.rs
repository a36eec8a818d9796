//! Why a request is not let in, and what its caller is told to do about it.

use http::{HeaderValue, StatusCode};

use crate::server::Scopes;

/// Why a request is not let in (RFC 6750, 3.1).
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It shows no token.
    #[error("sign in: send an Authorization header with a bearer token")]
    NoToken,
    /// It shows one in a way that nobody may.
    #[error("{0}")]
    Malformed(&'static str),
    /// The token does not count here.
    #[error("{0}")]
    Invalid(&'static str),
    /// The token lacks some of these scopes.
    #[error("this takes a token with the scope {0}")]
    Scope(Scopes),
    /// Whether the token counts cannot be told now.
    #[error("tokens cannot be checked now: try again")]
    Unavailable,
}

impl Refusal {
    /// The status that says so.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::NoToken | Self::Invalid(_) => StatusCode::UNAUTHORIZED,
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::Scope(_) => StatusCode::FORBIDDEN,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// What RFC 6750 calls it. Who has shown no token has made no mistake yet.
    fn code(&self) -> Option<&'static str> {
        match self {
            Self::NoToken | Self::Unavailable => None,
            Self::Malformed(_) => Some("invalid_request"),
            Self::Invalid(_) => Some("invalid_token"),
            Self::Scope(_) => Some("insufficient_scope"),
        }
    }

    /// `WWW-Authenticate`: which scopes to ask for, and where it says who grants them. All that the operation
    /// needs is in one challenge, what every request needs included.
    pub(super) fn challenge(&self, required: &Scopes, metadata: Option<&str>) -> Option<HeaderValue> {
        let scope = match self {
            Self::Unavailable => return None,
            Self::Scope(needed) => required.union(needed),
            _ => required.clone(),
        };
        let mut parameters = Vec::new();
        let mut add = |name: &str, value: &str| parameters.push(format!(r#"{name}="{}""#, unquoted(value)));
        if let Some(metadata) = metadata {
            add("resource_metadata", metadata);
        }
        if !scope.is_empty() {
            add("scope", &scope.to_string());
        }
        if let Some(code) = self.code() {
            add("error", code);
            add("error_description", &self.to_string());
        }
        let challenge = format!("Bearer {}", parameters.join(", "));
        HeaderValue::from_str(challenge.trim_end()).ok()
    }
}

/// Text that ends no quoted string and no header.
fn unquoted(text: &str) -> String {
    let plain = |c: char| if matches!(c, ' '..='~') && !matches!(c, '"' | '\\') { c } else { '\'' };
    text.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = "https://mcp.example/.well-known/oauth-protected-resource/mcp";

    fn challenge(refusal: &Refusal, required: &str) -> String {
        let required = Scopes::parse(required).unwrap();
        refusal.challenge(&required, Some(METADATA)).unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn r3_a_challenge_says_where_to_get_what() {
        assert_eq!(
            challenge(&Refusal::NoToken, "mcp"),
            format!(r#"Bearer resource_metadata="{METADATA}", scope="mcp""#)
        );
        assert_eq!(
            challenge(&Refusal::Invalid("the token has expired"), ""),
            format!(
                r#"Bearer resource_metadata="{METADATA}", error="invalid_token", error_description="the token has expired""#
            )
        );
        assert_eq!(Refusal::NoToken.challenge(&Scopes::default(), None).unwrap(), "Bearer");
    }

    #[test]
    fn r5_all_scopes_of_an_operation_are_in_one_challenge() {
        let lacking = challenge(&Refusal::Scope(Scopes::parse("deploy audit").unwrap()), "mcp");
        assert!(lacking.contains(r#"scope="audit deploy mcp", error="insufficient_scope""#), "{lacking}");
    }

    #[test]
    fn nothing_in_a_challenge_ends_its_header() {
        assert_eq!(unquoted("a\"b\\c\r\nd\u{e9}"), "a'b'c''d'");
    }

    #[test]
    fn who_cannot_be_checked_is_not_sent_to_sign_in() {
        assert_eq!(Refusal::Unavailable.challenge(&Scopes::default(), Some(METADATA)), None);
        assert_eq!(Refusal::Unavailable.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
