//! Tokens for what somebody else vouches for: a platform for its workload (RFC 7523), or a company's identity provider for
//! who has signed in to it (Enterprise-Managed Authorization; RFC 8693).

use std::fmt;
use std::sync::Arc;

use longhaul_tasks::environment::BoxFuture;
use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;

use super::error::AuthError;
use super::secret::Secret;
use super::token::{FORM, Parameters};
use super::web::Web;
use crate::oauth::form;
use crate::server::Scopes;

/// Where assertions come from.
#[derive(Clone)]
pub(super) enum Assertions {
    /// Whatever makes them says one for an authorization server.
    Workload(Vouch),
    /// An identity provider makes them of who has signed in there.
    Enterprise(IdentityProvider),
}

/// Makes an assertion for the authorization server of this name.
type Vouch = Arc<dyn Fn(String) -> BoxFuture<'static, Result<Secret, AuthError>> + Send + Sync>;

/// A company's identity provider, and who has signed in to it: it decides what its people may use (Enterprise-Managed
/// Authorization).
#[derive(Clone, Debug)]
pub struct IdentityProvider {
    token_endpoint: Url,
    client_id: String,
    id_token: Secret,
}

impl IdentityProvider {
    /// The identity provider with this token endpoint, at which the client is known as `client_id`, and the id token that it
    /// gave for its user.
    ///
    /// # Errors
    ///
    /// [`AuthError::Forbidden`] when the endpoint is none of `https`, or of `http` on this machine.
    pub fn new(
        token_endpoint: &str,
        client_id: impl Into<String>,
        id_token: impl Into<Secret>,
    ) -> Result<Self, AuthError> {
        let url = Url::parse(token_endpoint).ok().filter(crate::oauth::fetch::is_safe);
        let token_endpoint = url.ok_or_else(|| AuthError::Forbidden { url: token_endpoint.to_owned() })?;
        Ok(Self { token_endpoint, client_id: client_id.into(), id_token: id_token.into() })
    }

    /// What it says to `issuer` of its user (an ID-JAG).
    async fn vouch(
        &self,
        web: &Web,
        issuer: &str,
        resource: &str,
        scopes: &Scopes,
    ) -> Result<Secret, AuthError> {
        #[derive(Deserialize)]
        struct Exchanged {
            access_token: Secret,
            issued_token_type: String,
        }
        let scope = scopes.to_string();
        let mut parameters = vec![
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("requested_token_type", ID_JAG),
            ("audience", issuer),
            ("resource", resource),
            ("subject_token", self.id_token.reveal()),
            ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
            ("client_id", &self.client_id),
        ];
        if !scope.is_empty() {
            parameters.push(("scope", &scope));
        }
        let what = "a word of the identity provider";
        let request =
            web.post(&self.token_endpoint).header(CONTENT_TYPE, FORM).body(form::encode(parameters));
        let reply = web.reply(request, &self.token_endpoint).await.map_err(AuthError::fetch(what))?;
        if !reply.status.is_success() {
            return Err(reply.refusal(what));
        }
        let exchanged: Exchanged = reply.read(what)?;
        if exchanged.issued_token_type == ID_JAG {
            Ok(exchanged.access_token)
        } else {
            Err(AuthError::refused(
                what,
                &exchanged.issued_token_type,
                Some("it gave a token of another kind"),
            ))
        }
    }
}

const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

impl Assertions {
    /// What gets a token at `issuer`.
    pub(super) async fn redeem(
        &self,
        web: &Web,
        issuer: &str,
        resource: &str,
        scopes: &Scopes,
    ) -> Result<Parameters<'static>, AuthError> {
        let assertion = match self {
            Self::Workload(vouch) => vouch(issuer.to_owned()).await?,
            Self::Enterprise(provider) => provider.vouch(web, issuer, resource, scopes).await?,
        };
        let mut parameters = vec![
            ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer".to_owned()),
            ("assertion", assertion.reveal().to_owned()),
            ("resource", resource.to_owned()),
        ];
        if !scopes.is_empty() {
            parameters.push(("scope", scopes.to_string()));
        }
        Ok(parameters)
    }

    /// Whom the user has named.
    pub(super) fn named(&self) -> Option<&Url> {
        match self {
            Self::Workload(_) => None,
            Self::Enterprise(provider) => Some(&provider.token_endpoint),
        }
    }
}

impl fmt::Debug for Assertions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workload(_) => f.write_str("Workload(…)"),
            Self::Enterprise(provider) => f.debug_tuple("Enterprise").field(provider).finish(),
        }
    }
}
