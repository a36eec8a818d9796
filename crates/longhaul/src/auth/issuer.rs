//! An issuer of JWTs, and the check of its tokens.

use reqwest::Url;

use super::fetch::{self, FetchError, InvalidUrl};
use super::jwt::Jwt;
use super::keys::{Keys, Source};
use super::metadata;
use super::refusal::Refusal;
use super::rules::{Lifetime, Rules};
use super::verify::{Verified, Verify, VerifyFuture};

/// An authorization server whose access tokens are JWTs (RFC 9068).
#[derive(Clone, Debug)]
pub struct Issuer {
    name: String,
    url: Url,
    keys: Option<Url>,
}

impl Issuer {
    /// The issuer that calls itself `name` in its tokens, byte for byte; where its keys are is found out from its
    /// metadata.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`] when it is none of `https`, or of `http` on this machine.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidUrl> {
        let name = name.into();
        let url = fetch::url(&name)?;
        Ok(Self { name, url, keys: None })
    }

    /// Says where its keys are, so that nothing need be found out.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`] as for the issuer itself.
    pub fn keys_at(mut self, url: &str) -> Result<Self, InvalidUrl> {
        self.keys = Some(fetch::url(url)?);
        Ok(self)
    }

    /// What it calls itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn verifier(self) -> Result<JwtVerifier, FetchError> {
        let Self { name, url, keys } = self;
        let http = fetch::client(keys.as_ref().unwrap_or(&url))?;
        let source = match keys {
            Some(keys) => Source::At(keys),
            None => Source::Of { issuer: name.clone(), metadata: metadata::places(&url) },
        };
        Ok(JwtVerifier { issuer: name, keys: Keys::new(http, source) })
    }
}

/// Checks the JWTs of one issuer.
#[derive(Debug)]
pub(super) struct JwtVerifier {
    issuer: String,
    keys: Keys,
}

impl JwtVerifier {
    async fn check(&self, token: &str, rules: &Rules) -> Result<Option<Verified>, Refusal> {
        let Some(jwt) = Jwt::take_apart(token).filter(|jwt| jwt.issuer() == Some(&self.issuer)) else {
            return Ok(None);
        };
        jwt.check_kind()?;
        // Before its claims: whoever forges a token is not told what else is wrong with it.
        let key = self.keys.find(&jwt.header).await?;
        jwt.check_signature(&key)?;
        rules.verified(jwt.claims, &self.issuer, Lifetime::Stated).map(Some)
    }
}

impl Verify for JwtVerifier {
    fn verify<'a>(&'a self, token: &'a str, rules: &'a Rules) -> VerifyFuture<'a> {
        Box::pin(self.check(token, rules))
    }
}
