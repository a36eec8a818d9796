//! Asking a user for a token: the address to sign in at, and what the browser brings back (OAuth 2.1, 4.1; RFC 9207).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Url;
use sha2::{Digest as _, Sha256};

use super::error::AuthError;
use super::issuer::AuthorizationServer;
use super::random_text;
use super::secret::Secret;
use super::token::Parameters;
use crate::oauth::form::Form;
use crate::server::Scopes;

/// One sign-in under way: what must come back with it, and from whom.
#[derive(Debug)]
pub(super) struct Authorization {
    /// Whose answer it must be: recorded before anybody is sent there.
    issuer: String,
    says_issuer: bool,
    state: Secret,
    verifier: Secret,
    redirect: String,
    /// Where the user signs in.
    pub(super) address: Url,
}

/// What to ask for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'w> {
    pub(super) resource: &'w str,
    pub(super) scopes: &'w Scopes,
}

impl Authorization {
    pub(super) fn begin(
        server: &AuthorizationServer,
        client_id: &str,
        redirect: &str,
        wanted: Wanted<'_>,
    ) -> Result<Self, AuthError> {
        let (state, verifier) = (random_text(), random_text());
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
        let mut address = server.authorize()?.clone();
        address
            .query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", client_id)
            .append_pair("redirect_uri", redirect)
            .append_pair("state", &state)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", wanted.resource);
        if !wanted.scopes.is_empty() {
            let scope = wanted.scopes.to_string();
            address.query_pairs_mut().append_pair("scope", &scope);
            if wanted.scopes.contains("offline_access") {
                // Without it OpenID Connect ignores the scope (OpenID Connect Core, 11).
                address.query_pairs_mut().append_pair("prompt", "consent");
            }
        }
        Ok(Self {
            issuer: server.issuer.clone(),
            says_issuer: server.says_issuer,
            state: state.into(),
            verifier: verifier.into(),
            redirect: redirect.to_owned(),
            address,
        })
    }

    /// What redeems the code in the query that the browser brought back.
    ///
    /// Nothing in it is looked at, an error neither, before it is known whose answer it is.
    pub(super) fn redeem(self, query: &str, resource: &str) -> Result<Parameters<'static>, AuthError> {
        let mismatch = |reason| AuthError::Mismatch { reason };
        let answer = query.strip_prefix('?').unwrap_or(query);
        let answer = Form::parse(answer.as_bytes()).ok_or_else(|| mismatch("it says something twice"))?;
        match answer.get("iss") {
            Some(issuer) if issuer != self.issuer => {
                return Err(mismatch("it is of another authorization server"));
            }
            None if self.says_issuer => {
                return Err(mismatch("it does not say which authorization server it is of"));
            }
            _ => {}
        }
        if answer.get("state") != Some(self.state.reveal()) {
            return Err(mismatch("it belongs to no sign-in that was begun here"));
        }
        if let Some(error) = answer.get("error") {
            return Err(AuthError::refused("the sign-in", error, answer.get("error_description")));
        }
        let code = answer.get("code").ok_or_else(|| mismatch("it has no code"))?;
        Ok(vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", code.to_owned()),
            ("redirect_uri", self.redirect),
            ("code_verifier", self.verifier.reveal().to_owned()),
            ("resource", resource.to_owned()),
        ])
    }
}
