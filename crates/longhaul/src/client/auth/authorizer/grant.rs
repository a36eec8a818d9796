//! A token from the beginning: by the grant that a client has, as the client that the authorization server knows.

use std::sync::Arc;

use reqwest::Url;

use super::super::authorization::{Authorization, Wanted};
use super::super::error::AuthError;
use super::super::issuer::AuthorizationServer;
use super::super::key::SigningKey;
use super::super::proof::Proofs;
use super::super::registration::{Client, Proof, Registration};
use super::super::token::{self, Parameters};
use super::super::tokens::{Kept, Tokens};
use super::super::web::Web;
use super::super::{Browser, Grant, now};
use super::Authorizer;
use super::place::Place;
use crate::oauth::fetch::is_safe;

impl Authorizer {
    /// Gets a token from the beginning.
    pub(super) async fn grant(&self, web: &Web, place: &Place) -> Result<Tokens, AuthError> {
        let proofs = match self.holding.current().and_then(|current| current.proofs.clone()) {
            Some(proofs) if place.binds => Some(proofs),
            None if place.binds => Some(Arc::new(Proofs::new(SigningKey::generate()?))),
            _ => None,
        };
        let server = &place.server;
        let (client, parameters) = match &self.oauth.grant {
            Grant::User(None) => return Err(AuthError::SignInNeeded),
            Grant::User(Some(browser)) => self.sign_in(web, &**browser, place).await?,
            Grant::Client => {
                let client = self.client(web, server, None).await?;
                let mut parameters = vec![
                    ("grant_type", "client_credentials".to_owned()),
                    ("resource", place.resource.clone()),
                ];
                if !place.scopes.is_empty() {
                    parameters.push(("scope", place.scopes.to_string()));
                }
                (client, parameters)
            }
            Grant::Vouched(assertions) => {
                let client = self.client(web, server, None).await?;
                let redeem = assertions.redeem(web, &server.issuer, &place.resource, &place.scopes);
                (client, redeem.await?)
            }
        };
        let granted = token::ask(web, server, &client, parameters, proofs.as_deref()).await?;
        let asked = Kept::asked(&server.issuer, &place.resource, &client.id, &place.scopes);
        Tokens::granted(granted, asked, proofs.as_ref(), now())
    }

    /// Lets a user sign in: what then gets the token.
    async fn sign_in(
        &self,
        web: &Web,
        browser: &dyn Browser,
        place: &Place,
    ) -> Result<(Client, Parameters<'static>), AuthError> {
        let redirect = browser.redirect_uri();
        // Whoever listens on the way back could read the code.
        if !Url::parse(redirect).is_ok_and(|redirect| is_safe(&redirect)) {
            return Err(AuthError::UnsafeRedirect { redirect: redirect.to_owned() });
        }
        // What nobody can sign in at is found out before anything is registered there.
        place.server.authorize()?;
        let client = self.client(web, &place.server, Some(redirect)).await?;
        let mut scopes = place.scopes.clone();
        // Asked for alone it would be all that is granted.
        if place.server.offline && !scopes.is_empty() {
            scopes = scopes.union(&["offline_access"].into_iter().collect());
        }
        let wanted = Wanted { resource: &place.resource, scopes: &scopes };
        let begun = Authorization::begin(&place.server, &client.id, redirect, wanted)?;
        let query = browser.visit(begun.address.as_str()).await?;
        Ok((client, begun.redeem(&query, &place.resource)?))
    }

    /// Who we are to an authorization server (2026-07-28, Client Registration). All servers that name it share that: a
    /// registration is its issuer's, and no other's. Without `redirect`, for a token that is there already.
    pub(super) async fn client(
        &self,
        web: &Web,
        server: &AuthorizationServer,
        redirect: Option<&str>,
    ) -> Result<Client, AuthError> {
        if let Some(credentials) = &self.oauth.credentials {
            self.places.bind(&server.issuer)?;
            return Ok(credentials.at(server));
        }
        if let Some(id) = self.oauth.document.as_ref().filter(|_| server.takes_documents) {
            return Ok(Client { id: id.clone(), proof: Proof::None });
        }
        let name = format!("client {}", server.issuer);
        let kept = self.oauth.store.load(&name).await?;
        let kept: Option<Registration> = kept.and_then(|kept| serde_json::from_str(kept.reveal()).ok());
        match (kept, redirect) {
            (Some(kept), None) => kept.client(),
            (Some(kept), Some(redirect)) if kept.serves(redirect, now()) => kept.client(),
            (_, Some(redirect)) => {
                let made = Registration::make(web, server, &self.oauth.name, redirect).await?;
                let text = serde_json::to_string(&made).map_err(AuthError::store)?;
                self.oauth.store.save(&name, text.into()).await?;
                made.client()
            }
            (None, None) => Err(AuthError::no_client(&server.issuer)),
        }
    }
}
