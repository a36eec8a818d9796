//! Tokens: a code becomes a grant, a grant gives short-lived tokens, each refreshed once.
//!
//! One entry in the store is all there is of a grant. Its tokens are sealed and name it; when it is gone they are worth
//! nothing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::StatusCode;
use longhaul_tasks::store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use subtle::ConstantTimeEq as _;

use super::super::refusal::Refusal;
use super::super::resource::Resource;
use super::super::rules::{Lifetime, Rules};
use super::super::verify::{Verified, Verify, VerifyFuture};
use super::Broker;
use super::answer::{self, Answer};
use super::authorize::Request;
use super::client::handle;
use super::form::Form;
use super::upstream::Identity;
use super::vault::{Kept, Kind, Purpose, digest, secret};
use crate::seal::Unopened;
use crate::server::Scopes;

/// What a client's user has granted it.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Grant {
    resource: String,
    client: String,
    subject: String,
    scopes: String,
    claims: Map<String, Value>,
    /// How often it has been refreshed: the only token that still refreshes it says the same.
    generation: u64,
    /// When it ends, in seconds since 1970.
    until: u64,
}

/// A code, and what has become of it.
#[derive(Debug, Deserialize, Serialize)]
pub(super) enum Code {
    /// It can be redeemed.
    Good(Box<Redeemable>),
    /// It was, for this grant.
    Spent(String),
    /// It was more than once: the grant is no more, or is not to be.
    Burned(String),
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Redeemable {
    resource: String,
    request: Request,
    subject: String,
    claims: Map<String, Value>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Access {
    grant: String,
    scopes: String,
    until: u64,
}

#[derive(Debug, Deserialize, Serialize)]
struct Refresh {
    grant: String,
    generation: u64,
}

/// What tokens begin with, so that nobody else is asked about them and a leaked one is found.
const ACCESS: &str = "longhaul_access_";
const REFRESH: &str = "longhaul_refresh_";

/// How long it is remembered that a code was redeemed.
const SPENT: Duration = Duration::from_secs(10 * 60);

impl Code {
    /// How long a code can be redeemed.
    pub(super) const LASTS: Duration = Duration::from_secs(60);

    pub(super) fn new(resource: &Resource, request: &Request, identity: Identity) -> Self {
        let Identity { subject, claims } = identity;
        let resource = resource.as_str().to_owned();
        Self::Good(Box::new(Redeemable { resource, request: request.clone(), subject, claims }))
    }
}

impl Redeemable {
    /// Whether whoever brings the code is who it was given to.
    fn is_for(&self, broker: &Broker, form: &Form) -> Result<(), &'static str> {
        let request = &self.request;
        if self.resource != broker.resource.as_str() {
            return Err("the code is for another server");
        }
        if form.get("client_id").map(handle).as_ref() != Some(&request.client) {
            return Err("the code is for another client");
        }
        if form.get("redirect_uri").is_some_and(|address| address != request.redirect) {
            return Err("the code was sent to another address");
        }
        let verifier = form.get("code_verifier").unwrap_or_default();
        let proven = digest(verifier).as_bytes().ct_eq(request.challenge.as_bytes());
        if !(43..=128).contains(&verifier.len()) || !bool::from(proven) {
            return Err("`code_verifier` is not what the code was asked for with");
        }
        Ok(())
    }
}

impl Grant {
    fn left(&self) -> Duration {
        Duration::from_secs(self.until.saturating_sub(now()))
    }
}

impl Broker {
    /// `POST /token`.
    pub(super) async fn token(&self, form: &Form) -> Answer {
        if form.get("resource").is_some_and(|resource| !self.resource.is(resource)) {
            return answer::error("invalid_target", "tokens of this server are for itself alone");
        }
        let given = match form.get("grant_type") {
            Some("authorization_code") => self.redeem(form).await,
            Some("refresh_token") => self.refresh(form).await,
            _ => {
                return answer::error(
                    "unsupported_grant_type",
                    "send `authorization_code` or `refresh_token`",
                );
            }
        };
        given.unwrap_or_else(|error| answer::unavailable(&error))
    }

    async fn redeem(&self, form: &Form) -> Result<Answer, StoreError> {
        let invalid = |why: &str| Ok(answer::error("invalid_grant", why));
        let code = form.get("code").unwrap_or_default();
        let Some(Kept { value, version }) = self.vault.find::<Code>(Kind::Code, code).await? else {
            return invalid("the code is not known, or has expired");
        };
        let good = match value {
            Code::Good(good) => good,
            Code::Spent(grant) | Code::Burned(grant) => {
                // Two have it, so one of them stole it: what it gave is taken back (RFC 6749, 4.1.2). Said first,
                // for whoever is about to write the grant; if it has changed, another has said so already.
                let burned = Code::Burned(grant.clone());
                self.vault.put(Kind::Code, code, Some(version), &burned, SPENT).await?;
                self.vault.remove(Kind::Grant, &grant).await?;
                return invalid("the code was redeemed before; what it gave is taken back");
            }
        };
        let grant_id = secret();
        // Spent before it is looked at: who brings it with a wrong proof has one try.
        if !self.vault.put(Kind::Code, code, Some(version), &Code::Spent(grant_id.clone()), SPENT).await? {
            return invalid("the code is being redeemed");
        }
        if let Err(why) = good.is_for(self, form) {
            return invalid(why);
        }
        let Redeemable { resource, request, subject, claims } = *good;
        let until = now().saturating_add(self.grant.as_secs());
        let grant = Grant {
            resource,
            client: request.client,
            subject,
            scopes: request.scopes,
            claims,
            generation: 0,
            until,
        };
        self.vault.put(Kind::Grant, &grant_id, None, &grant, self.grant).await?;
        // Whoever brought the code before the grant was written has found none to take back.
        let code = self.vault.find::<Code>(Kind::Code, code).await?;
        if !code.is_some_and(|code| matches!(code.value, Code::Spent(_))) {
            self.vault.remove(Kind::Grant, &grant_id).await?;
            return invalid("the code was redeemed twice at once; what it gave is taken back");
        }
        Ok(self.tokens(grant_id, &grant, &grant.scopes))
    }

    async fn refresh(&self, form: &Form) -> Result<Answer, StoreError> {
        let invalid = |why: &str| Ok(answer::error("invalid_grant", why));
        let Some(Refresh { grant: id, generation }) =
            self.opened(REFRESH, Purpose::Refresh, form.get("refresh_token"))
        else {
            return invalid("the token is none that refreshes");
        };
        let Some(Kept { value: mut grant, version }) = self.vault.find::<Grant>(Kind::Grant, &id).await?
        else {
            return invalid("the grant is over: sign in again");
        };
        if form.get("client_id").map(handle).as_ref() != Some(&grant.client)
            || grant.resource != self.resource.as_str()
        {
            return invalid("the token is for another client");
        }
        if grant.generation != generation {
            // Two have it, so one of them stole it, and which cannot be told (RFC 9700, 4.14.2).
            self.vault.remove(Kind::Grant, &id).await?;
            return invalid("the token was used before; the grant is taken back");
        }
        let scopes = match form.get("scope") {
            None => grant.scopes.clone(),
            Some(text) => {
                let asked: Scopes = text.split(' ').filter(|scope| *scope != "offline_access").collect();
                if !grant.scopes.split(' ').collect::<Scopes>().contains_all(&asked) {
                    return Ok(answer::error("invalid_scope", "that is more than was granted"));
                }
                asked.to_string()
            }
        };
        grant.generation += 1;
        if !self.vault.put(Kind::Grant, &id, Some(version), &grant, grant.left()).await? {
            return invalid("the token is being used");
        }
        Ok(self.tokens(id, &grant, &scopes))
    }

    /// A token that lets in, and the one that gets the next.
    fn tokens(&self, id: String, grant: &Grant, scopes: &str) -> Answer {
        let lasts = self.access.min(grant.left());
        let until = now().saturating_add(lasts.as_secs());
        let access = Access { grant: id.clone(), scopes: scopes.to_owned(), until };
        let refresh = Refresh { grant: id, generation: grant.generation };
        let access = self.vault.seal(Purpose::Access, &access, lasts);
        let refresh = self.vault.seal(Purpose::Refresh, &refresh, grant.left());
        let (Some(access), Some(refresh)) = (access, refresh) else {
            return answer::error("server_error", "the token would be too long");
        };
        answer::document(
            StatusCode::OK,
            &json!({
                "access_token": format!("{ACCESS}{access}"),
                "token_type": "Bearer",
                "expires_in": lasts.as_secs(),
                "refresh_token": format!("{REFRESH}{refresh}"),
                "scope": scopes,
            }),
        )
    }

    /// `POST /revoke` (RFC 7009): either token takes the whole grant with it. One that is not known is revoked already.
    pub(super) async fn revoke(&self, form: &Form) -> Answer {
        let (token, client) = (form.get("token"), form.get("client_id").map(handle));
        let access = || self.opened::<Access>(ACCESS, Purpose::Access, token).map(|access| access.grant);
        let refresh = self.opened::<Refresh>(REFRESH, Purpose::Refresh, token).map(|refresh| refresh.grant);
        let Some(id) = refresh.or_else(access) else { return answer::document(StatusCode::OK, &json!({})) };
        let revoked = async {
            let grant = self.vault.find::<Grant>(Kind::Grant, &id).await?;
            let its_own = grant.is_some_and(|grant| Some(grant.value.client) == client);
            if its_own { self.vault.remove(Kind::Grant, &id).await } else { Ok(()) }
        };
        match revoked.await {
            Ok(()) => answer::document(StatusCode::OK, &json!({})),
            Err(error) => answer::unavailable(&error),
        }
    }

    fn opened<T: serde::de::DeserializeOwned>(
        &self,
        prefix: &str,
        purpose: Purpose,
        token: Option<&str>,
    ) -> Option<T> {
        self.vault.open(purpose, token?.strip_prefix(prefix)?).ok()
    }

    async fn check(&self, token: &str, rules: &Rules) -> Result<Option<Verified>, Refusal> {
        let Some(sealed) = token.strip_prefix(ACCESS) else { return Ok(None) };
        let unavailable = |error: StoreError| {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "a token cannot be looked up");
            Refusal::Unavailable
        };
        self.vault.ready().await.map_err(unavailable)?;
        let access: Access = self.vault.open(Purpose::Access, sealed).map_err(|why| match why {
            Unopened::Expired => Refusal::Invalid("the token has expired"),
            Unopened::NotOurs => Refusal::Invalid("the token is not known here"),
        })?;
        let grant = self.vault.find::<Grant>(Kind::Grant, &access.grant).await.map_err(unavailable)?;
        let Grant { resource, client, subject, mut claims, .. } =
            grant.ok_or(Refusal::Invalid("what the token was given for is over"))?.value;
        let own = json!({"iss": self.issuer, "aud": resource, "sub": subject, "client_id": client,
            "scope": access.scopes, "exp": access.until});
        if let Value::Object(own) = own {
            claims.extend(own);
        }
        rules.verified(claims, &self.issuer, Lifetime::Stated).map(Some)
    }
}

impl Verify for Broker {
    fn verify<'a>(&'a self, token: &'a str, rules: &'a Rules) -> VerifyFuture<'a> {
        Box::pin(self.check(token, rules))
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
