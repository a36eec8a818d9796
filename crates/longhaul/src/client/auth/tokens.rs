//! What a client was granted, and what it takes to get it again.

use std::sync::Arc;

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use super::error::AuthError;
use super::key::SigningKey;
use super::proof::Proofs;
use super::secret::Secret;
use super::token::Granted;
use crate::server::Scopes;

/// A token, as it is used.
#[derive(Debug)]
pub(crate) struct Tokens {
    pub(super) kept: Kept,
    /// What it is bound to.
    pub(super) proofs: Option<Arc<Proofs>>,
}

/// A token, as it is kept.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Kept {
    /// Who granted it.
    pub(super) issuer: String,
    /// What for.
    pub(super) resource: String,
    /// To whom.
    pub(super) client_id: String,
    pub(super) access: Secret,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refresh: Option<Secret>,
    /// When it counts no more, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
    /// What was asked for, which may be more than was granted.
    #[serde(default)]
    scopes: String,
    /// The key that it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Secret>,
}

impl Tokens {
    /// What was granted, and to whom for what.
    pub(super) fn granted(
        granted: Granted,
        asked: Kept,
        proofs: Option<&Arc<Proofs>>,
        now: u64,
    ) -> Result<Self, AuthError> {
        let is = |kind: &str| granted.token_type.eq_ignore_ascii_case(kind);
        let proofs = proofs.filter(|_| is("dpop")).cloned();
        if !is("bearer") && proofs.is_none() {
            let unknown = "it is of a kind that this client cannot show";
            return Err(AuthError::refused("a token", &granted.token_type, Some(unknown)));
        }
        let kept = Kept {
            expires: granted.lasts().map(|lasts| now.saturating_add(lasts)),
            access: granted.access_token,
            refresh: granted.refresh_token.or(asked.refresh),
            key: proofs.as_ref().map(|proofs| proofs.key().pkcs8().clone()),
            ..asked
        };
        Ok(Self { kept, proofs })
    }

    /// Takes up what was kept.
    pub(super) fn read(text: &Secret) -> Option<Self> {
        let kept: Kept = serde_json::from_str(text.reveal()).ok()?;
        let key = kept.key.as_ref().map(|key| SigningKey::from_pkcs8(key.reveal())).transpose().ok()?;
        Some(Self { kept, proofs: key.map(|key| Arc::new(Proofs::new(key))) })
    }

    pub(super) fn text(&self) -> Result<Secret, AuthError> {
        serde_json::to_string(&self.kept).map(Into::into).map_err(AuthError::store)
    }

    /// What was asked for.
    pub(super) fn scopes(&self) -> Scopes {
        Scopes::parse(&self.kept.scopes).unwrap_or_default()
    }

    /// Whether it will count for `early` seconds more.
    pub(super) fn is_fresh(&self, now: u64, early: u64) -> bool {
        self.kept.expires.is_none_or(|end| now.saturating_add(early) < end)
    }

    /// Whether it counts yet, as far as is known.
    pub(super) fn counts(&self, now: u64) -> bool {
        self.kept.expires.is_none_or(|end| now < end)
    }

    /// How a request shows it (RFC 6750, 2.1; RFC 9449, 7.1).
    pub(super) fn show(&self, method: &str, url: &Url) -> Result<HeaderMap, AuthError> {
        let unsendable = |_| AuthError::refused("a token", "it has a character that cannot be sent", None);
        let mut headers = HeaderMap::new();
        let token = self.kept.access.reveal();
        let mut add = |name: HeaderName, value: String| -> Result<(), AuthError> {
            let mut value = HeaderValue::from_str(&value).map_err(unsendable)?;
            value.set_sensitive(true);
            headers.insert(name, value);
            Ok(())
        };
        match &self.proofs {
            Some(proofs) => {
                add(AUTHORIZATION, format!("DPoP {token}"))?;
                add(HeaderName::from_static("dpop"), proofs.make(method, url, Some(token))?)?;
            }
            None => add(AUTHORIZATION, format!("Bearer {token}"))?,
        }
        Ok(headers)
    }
}

impl Kept {
    /// A token yet to be had.
    pub(super) fn asked(issuer: &str, resource: &str, client_id: &str, scopes: &Scopes) -> Self {
        Self {
            issuer: issuer.to_owned(),
            resource: resource.to_owned(),
            client_id: client_id.to_owned(),
            access: Secret::new(""),
            refresh: None,
            expires: None,
            scopes: scopes.to_string(),
            key: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn granted(more: serde_json::Value) -> Result<Tokens, AuthError> {
        let mut answer =
            json!({ "access_token": "s3cret", "token_type": "bearer", "refresh_token": "r3fresh" });
        answer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let asked = Kept::asked(
            "https://login.example",
            "https://mcp.example/mcp",
            "c",
            &Scopes::parse("a").unwrap(),
        );
        Tokens::granted(serde_json::from_value(answer).unwrap(), asked, None, 1000)
    }

    #[test]
    fn c16_c18_a_token_is_shown_in_its_header_and_nowhere_else() {
        let tokens = granted(json!({})).unwrap();
        let headers = tokens.show("POST", &Url::parse("https://mcp.example/mcp").unwrap()).unwrap();
        assert_eq!(headers[AUTHORIZATION], "Bearer s3cret");
        let shown = format!("{tokens:?} {headers:?}");
        assert!(!shown.contains("s3cret") && !shown.contains("r3fresh"), "{shown}");
        let again = Tokens::read(&tokens.text().unwrap()).unwrap();
        assert_eq!((again.kept.access, again.kept.refresh), (tokens.kept.access, tokens.kept.refresh));
    }

    #[test]
    fn a_token_counts_for_as_long_as_it_says() {
        for (lasts, fresh, counts) in [
            (json!(60), true, true),
            (json!("60"), true, true),
            (json!(20), false, true),
            (json!(0), false, false),
        ] {
            let tokens = granted(json!({ "expires_in": lasts })).unwrap();
            assert_eq!((tokens.is_fresh(1000, 30), tokens.counts(1000)), (fresh, counts), "{lasts}");
        }
        assert!(granted(json!({})).unwrap().is_fresh(u64::MAX, 30));
        assert!(granted(json!({ "token_type": "mac" })).is_err());
        assert!(granted(json!({ "token_type": "DPoP" })).is_err(), "nothing was proved");
        let unsendable = granted(json!({ "access_token": "a\nb" })).unwrap();
        assert!(unsendable.show("POST", &Url::parse("https://mcp.example").unwrap()).is_err());
    }
}
