//! Being let in: what a request shows, and what is done when the server refuses it.

use reqwest::{RequestBuilder, Response};

use super::Shared;
use super::read::unsent;
use crate::client::error::Error;

/// The tries of one request.
#[derive(Debug)]
pub(super) struct Access<'s> {
    #[cfg_attr(not(feature = "oauth"), expect(dead_code, reason = "nobody signs in"))]
    shared: &'s Shared,
    #[cfg(feature = "oauth")]
    round: crate::client::auth::Round,
    #[cfg(feature = "oauth")]
    used: Option<std::sync::Arc<crate::client::auth::Tokens>>,
}

impl<'s> Access<'s> {
    pub(super) fn new(shared: &'s Shared) -> Self {
        Self {
            shared,
            #[cfg(feature = "oauth")]
            round: crate::client::auth::Round::default(),
            #[cfg(feature = "oauth")]
            used: None,
        }
    }

    /// What to show now. It may take until a token is renewed.
    #[cfg(feature = "oauth")]
    pub(super) async fn shown(&mut self, method: &str) -> Result<reqwest::header::HeaderMap, Error> {
        let Some(authorizer) = &self.shared.authorizer else { return Ok(reqwest::header::HeaderMap::new()) };
        let refused = |error| denied(self.shared, false, error);
        // What it takes to sign in is large and rare, and is no part of each request.
        self.used = Box::pin(authorizer.token()).await.map_err(refused)?;
        match &self.used {
            Some(tokens) => authorizer.show(tokens, method).map_err(refused),
            None => Ok(reqwest::header::HeaderMap::new()),
        }
    }

    #[cfg(not(feature = "oauth"))]
    #[expect(clippy::needless_pass_by_ref_mut, reason = "who signs in keeps count")]
    pub(super) async fn shown(&mut self, _: &str) -> Result<reqwest::header::HeaderMap, Error> {
        Ok(reqwest::header::HeaderMap::new())
    }

    /// Whether the request may be sent again, after what it was refused for was got. It may take as long as a user does.
    #[cfg(feature = "oauth")]
    pub(super) async fn again(&mut self, response: &Response) -> Result<bool, Error> {
        let Some(authorizer) = &self.shared.authorizer else { return Ok(false) };
        let used = self.used.as_ref();
        let answering = authorizer.answer(&mut self.round, used, response.status(), response.headers());
        Box::pin(answering).await.map_err(|error| denied(self.shared, used.is_some(), error))
    }

    #[cfg(not(feature = "oauth"))]
    #[expect(clippy::needless_pass_by_ref_mut, reason = "who signs in keeps count")]
    pub(super) async fn again(&mut self, _: &Response) -> Result<bool, Error> {
        Ok(false)
    }
}

/// Sends a request that is in no hurry, until the server lets it in or it is clear that it will not.
pub(super) async fn send(
    shared: &Shared,
    method: &str,
    request: impl Fn() -> RequestBuilder,
) -> Result<Response, Error> {
    let mut access = Access::new(shared);
    loop {
        let shown = access.shown(method).await?;
        let response = request().headers(shown).send().await.map_err(|error| unsent(shared, error))?;
        if !access.again(&response).await? {
            return Ok(response);
        }
    }
}

#[cfg(feature = "oauth")]
fn denied(shared: &Shared, with_token: bool, error: crate::client::auth::AuthError) -> Error {
    match error {
        crate::client::auth::AuthError::SignInNeeded => Error::SignIn { target: shared.target(), with_token },
        error => Error::NoAccess { target: shared.target(), cause: std::sync::Arc::new(error) },
    }
}
