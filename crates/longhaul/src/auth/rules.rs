//! What every token must say, whoever vouches for it: whose it is, for whom, and for how long.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

use super::refusal::Refusal;
use super::resource::Resource;
use super::verify::Verified;
use crate::server::{Principal, Scopes};

/// What every token must say to count at one server.
#[derive(Clone, Debug)]
pub struct Rules {
    pub(super) resource: Option<Resource>,
    pub(super) audiences: Vec<String>,
    pub(super) leeway: Duration,
}

/// Whether a token has to say when it ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Lifetime {
    /// It has to.
    Stated,
    /// It need not: whoever vouches for it is asked about each use.
    Asked,
}

impl Rules {
    /// Whom these claims of `issuer` prove to call.
    ///
    /// Nothing but their truth is left to whoever gives them: its signature has been checked, or it was asked.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`] when they are of another issuer, for another server, for another time, bound to a key
    /// that the caller has not shown, or about nobody.
    pub fn verified(
        &self,
        claims: Map<String, Value>,
        issuer: &str,
        lifetime: Lifetime,
    ) -> Result<Verified, Refusal> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.verified_at(now, claims, issuer, lifetime)
    }

    /// The same, at a time since 1970.
    pub(super) fn verified_at(
        &self,
        now: Duration,
        claims: Map<String, Value>,
        issuer: &str,
        lifetime: Lifetime,
    ) -> Result<Verified, Refusal> {
        if text(&claims, "iss")? != Some(issuer) {
            return Err(Refusal::Invalid("the token is of another issuer"));
        }
        self.check_audience(&claims)?;
        self.check_time(now, &claims, lifetime)?;
        if claims.contains_key("cnf") {
            // Without the proof that goes with it such a token may be anybody's (RFC 9449, 7.2).
            return Err(Refusal::Invalid("the token is bound to a key and is no bearer token"));
        }
        let subject = text(&claims, "sub")?.filter(|subject| !subject.is_empty());
        let subject = subject.ok_or(Refusal::Invalid("the token names no subject"))?;
        let client = match text(&claims, "client_id")? {
            Some(client) => client,
            None => text(&claims, "azp")?.unwrap_or_default(),
        };
        let principal = Principal::new(name(issuer, subject, client))
            .map_err(|_| Refusal::Invalid("the token names a subject that is too long"))?;
        let scopes = scopes(&claims);
        Ok(Verified::new(principal, Some(scopes)).claims(claims))
    }

    /// A token for somebody else must not count here, however good it is there.
    fn check_audience(&self, claims: &Map<String, Value>) -> Result<(), Refusal> {
        let is_ours = |audience: &str| {
            self.resource.as_ref().is_some_and(|resource| resource.is(audience))
                || self.audiences.iter().any(|ours| ours == audience)
        };
        let ours = match claims.get("aud") {
            Some(Value::String(audience)) => is_ours(audience),
            Some(Value::Array(audiences)) => audiences.iter().filter_map(Value::as_str).any(is_ours),
            _ => false,
        };
        if ours { Ok(()) } else { Err(Refusal::Invalid("the token is not for this server")) }
    }

    fn check_time(
        &self,
        now: Duration,
        claims: &Map<String, Value>,
        lifetime: Lifetime,
    ) -> Result<(), Refusal> {
        match time(claims, "exp")? {
            Some(end) if now >= end.saturating_add(self.leeway) => {
                return Err(Refusal::Invalid("the token has expired"));
            }
            None if lifetime == Lifetime::Stated => {
                return Err(Refusal::Invalid("the token does not say when it expires"));
            }
            _ => {}
        }
        match time(claims, "nbf")? {
            Some(begin) if now.saturating_add(self.leeway) < begin => {
                Err(Refusal::Invalid("the token is not valid yet"))
            }
            _ => Ok(()),
        }
    }
}

const WRONG_TYPE: Refusal = Refusal::Invalid("a claim of the token is not what it must be");

fn text<'c>(claims: &'c Map<String, Value>, name: &str) -> Result<Option<&'c str>, Refusal> {
    match claims.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(WRONG_TYPE),
    }
}

/// A point in time. What is no number is not passed over: the token would never end.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<Duration>, Refusal> {
    match claims.get(name) {
        None => Ok(None),
        Some(value) => {
            let seconds = value.as_f64().ok_or(WRONG_TYPE)?;
            Duration::try_from_secs_f64(seconds).map(Some).map_err(|_| WRONG_TYPE)
        }
    }
}

/// `scope` (RFC 9068), or `scp` as some issuers call it; either may be a list.
fn scopes(claims: &Map<String, Value>) -> Scopes {
    match claims.get("scope").or_else(|| claims.get("scp")) {
        Some(Value::String(text)) => text.split(' ').collect(),
        Some(Value::Array(scopes)) => scopes.iter().filter_map(Value::as_str).collect(),
        _ => Scopes::default(),
    }
}

/// `iss|sub|client_id`. A bar inside a part is written apart, so that no two callers have one name.
fn name(issuer: &str, subject: &str, client: &str) -> String {
    [issuer, subject, client].map(|part| part.replace('%', "%25").replace('|', "%7C")).join("|")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ISSUER: &str = "https://login.example";
    const NOW: Duration = Duration::from_secs(1_000_000);

    fn rules() -> Rules {
        Rules {
            resource: Some(Resource::parse("https://mcp.example/mcp").unwrap()),
            audiences: vec!["api://mcp".to_owned()],
            leeway: Duration::from_secs(60),
        }
    }

    /// Good claims, with some changed; `null` removes one.
    fn claims(changes: Value) -> Map<String, Value> {
        let mut claims = json!({"iss": ISSUER, "sub": "ann", "client_id": "cli", "aud": "https://mcp.example/mcp",
            "exp": 1_000_300, "scope": "read write"});
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let Value::Object(mut claims) = claims else { panic!() };
        claims.retain(|_, value| !value.is_null());
        claims
    }

    fn check(changes: Value) -> Result<Verified, Refusal> {
        rules().verified_at(NOW, claims(changes), ISSUER, Lifetime::Stated)
    }

    #[test]
    fn good_claims_prove_who_calls() {
        let verified = check(json!({})).unwrap();
        assert_eq!(verified.principal.as_str(), "https://login.example|ann|cli");
        assert_eq!(verified.scopes, Some(Scopes::parse("read write").unwrap()));
        for good in [
            json!({"aud": "api://mcp"}),
            json!({"aud": ["x", "https://MCP.example/mcp"]}),
            json!({"exp": 999_941}),
            json!({"exp": 1_000_300.5}),
            json!({"nbf": 1_000_060}),
            json!({"client_id": null}),
        ] {
            assert!(check(good.clone()).is_ok(), "{good}");
        }
    }

    #[test]
    fn s56_claims_of_the_wrong_type_or_missing_are_refused() {
        for name in ["iss", "sub", "aud", "exp"] {
            for value in [json!(null), json!(true), json!({}), json!([]), json!([[]])] {
                assert!(check(json!({name: value})).is_err(), "{name} {value}");
            }
        }
        for bad in [
            json!({"exp": "1000300"}),
            json!({"exp": -1}),
            json!({"exp": 1e300}),
            json!({"exp": [1_000_300]}),
            json!({"nbf": "0"}),
            json!({"nbf": true}),
            json!({"sub": ""}),
            json!({"sub": 7}),
            json!({"client_id": 7}),
            json!({"sub": "x".repeat(5000)}),
            json!({"cnf": {"jkt": "x"}}),
            json!({"iss": "https://login.example/"}),
            json!({"iss": "https://LOGIN.example"}),
            json!({"aud": "https://other.example/mcp"}),
            json!({"aud": ["api://other", 7]}),
            json!({"aud": "api://MCP"}),
            json!({"exp": 999_940}),
            json!({"nbf": 1_000_061}),
        ] {
            assert!(check(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_who_is_asked_each_time_need_not_say_when_a_token_ends() {
        let without = || claims(json!({"exp": null}));
        assert!(rules().verified_at(NOW, without(), ISSUER, Lifetime::Stated).is_err());
        assert!(rules().verified_at(NOW, without(), ISSUER, Lifetime::Asked).is_ok());
        let ended = claims(json!({"exp": 1}));
        assert!(rules().verified_at(NOW, ended, ISSUER, Lifetime::Asked).is_err());
    }

    #[test]
    fn no_two_callers_have_one_name() {
        let names = [
            name("i", "a|b", "c"),
            name("i", "a", "b|c"),
            name("i", "a%7Cb", "c"),
            name("i|a", "b", "c"),
            name("i", "a", "c"),
        ];
        for (index, one) in names.iter().enumerate() {
            assert_eq!(names.iter().position(|other| other == one), Some(index), "{one}");
        }
    }

    #[test]
    fn scopes_are_read_in_each_form_that_issuers_write() {
        for form in [
            json!({"scope": "b a"}),
            json!({"scope": ["a", "b"]}),
            json!({"scope": null, "scp": "a b"}),
            json!({"scope": null, "scp": ["a", "b"]}),
        ] {
            let scopes = check(form.clone()).unwrap().scopes.unwrap();
            assert_eq!(scopes.to_string(), "a b", "{form}");
        }
        assert!(check(json!({"scope": null})).unwrap().scopes.unwrap().is_empty());
    }
}
