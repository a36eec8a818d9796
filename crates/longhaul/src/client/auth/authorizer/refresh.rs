//! Another token by the one that gets others, once for all who share it; and the end of both.

use std::sync::Arc;

use super::super::error::AuthError;
use super::super::now;
use super::super::token;
use super::super::tokens::Tokens;
use super::{Authorizer, HeldTurn};

impl Authorizer {
    /// Gets another token by the one that gets others; `None` if it counts no more. It goes on if whoever waits for it
    /// goes away: an answer that nobody keeps would cost the user a sign-in.
    pub(super) async fn refresh(
        self: &Arc<Self>,
        turn: &HeldTurn,
        tokens: Arc<Tokens>,
    ) -> Result<Option<Arc<Tokens>>, AuthError> {
        let (this, turn) = (Arc::clone(self), Arc::clone(turn));
        let refreshing = tokio::spawn(async move {
            let refreshed = this.refresh_now(&tokens).await;
            drop(turn);
            refreshed
        });
        // It ends otherwise only with the whole process.
        refreshing.await.unwrap_or_else(|error| Err(AuthError::store(error)))
    }

    async fn refresh_now(&self, tokens: &Tokens) -> Result<Option<Arc<Tokens>>, AuthError> {
        // A token that gets others may do so once, and whoever uses it again is taken for a thief: of all processes that
        // share it one uses it, and the others find what that one has kept.
        let _held = self.holding.hold().await?;
        match self.holding.look().await? {
            Some(current) if current.kept.access == tokens.kept.access => {}
            other => return Ok(other),
        }
        let Some(refresh) = &tokens.kept.refresh else { return Ok(None) };
        let web = self.places.web()?;
        let server = self.places.granter(&web, &tokens.kept.issuer).await?;
        let client = match self.client(&web, &server, None).await {
            Ok(client) if client.id == tokens.kept.client_id => client,
            Ok(_) | Err(AuthError::NoClient { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let parameters = vec![
            ("grant_type", "refresh_token".to_owned()),
            ("refresh_token", refresh.reveal().to_owned()),
            ("resource", tokens.kept.resource.clone()),
        ];
        match token::ask(&web, &server, &client, parameters, tokens.proofs.as_deref()).await {
            Ok(granted) => {
                let renewed = Tokens::granted(granted, tokens.kept.clone(), tokens.proofs.as_ref(), now())?;
                self.holding.keep(renewed).await.map(Some)
            }
            // What counts no more is not tried again.
            Err(AuthError::Refused { error, .. }) if GONE.contains(&error.as_str()) => {
                self.holding.forget().await?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Forgets the token, here and where it is kept, and has it taken back. Whether there was one.
    pub(crate) async fn sign_out(&self) -> Result<bool, AuthError> {
        let _turn = self.turn().await;
        self.load().await?;
        let held = self.holding.hold().await?;
        let Some(tokens) = self.holding.look().await? else { return Ok(false) };
        self.holding.forget().await?;
        drop(held);
        if let Err(error) = self.take_back(&tokens).await {
            // It ends by itself, and nobody here has it any more.
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the authorization server was not told that a token is not used any more");
        }
        Ok(true)
    }

    async fn take_back(&self, tokens: &Tokens) -> Result<(), AuthError> {
        let web = self.places.web()?;
        let server = self.places.granter(&web, &tokens.kept.issuer).await?;
        let client = self.client(&web, &server, None).await?;
        // With the one that gets others go all that it got (RFC 7009, 2.1).
        let token = tokens.kept.refresh.as_ref().unwrap_or(&tokens.kept.access);
        token::revoke(&web, &server, &client, token).await
    }
}

/// What an authorization server says of a token that gets no other any more (RFC 6749, 5.2).
const GONE: [&str; 4] = ["invalid_grant", "invalid_client", "unauthorized_client", "invalid_target"];
