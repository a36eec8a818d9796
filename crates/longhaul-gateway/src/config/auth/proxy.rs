//! `[auth.proxy]`: the server as its own authorization server, before one that knows none of its clients.

use std::{sync::Arc, time::Duration};

use longhaul::{
    auth::{InvalidClient, KnownClient, Proxy, Upstream},
    server::Scopes,
    store::Registry,
};

use super::{AT_START, AuthError, each, read, url};
use crate::config::{
    diagnostic::Diagnostic,
    environment::{EnvSource, Sources, source},
    reader::{Entry, Reader, Section},
    tool::read::Context,
};

/// `[auth.proxy]`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuthProxy {
    /// Where people sign in.
    pub upstream: String,
    /// Where it is asked, if it has no metadata to say so.
    pub plain: Option<PlainUpstream>,
    /// What it knows this server as.
    pub client_id: String,
    /// And with which secret.
    pub secret: EnvSource,
    /// What it is asked for besides who signs in.
    pub upstream_scope: String,
    /// Whether clients may register themselves.
    pub registration: bool,
    /// Whether clients may publish who they are.
    pub documents: bool,
    /// Clients that the operator knows.
    pub clients: Vec<KnownClient>,
    /// How long a token lets in; by default as long as [`Proxy::access`] says.
    pub access: Option<Duration>,
    /// How long it is until somebody has to sign in again; by default as long as [`Proxy::grant`] says.
    pub grant: Option<Duration>,
}

/// Where an upstream without OpenID Connect is asked: `authorize_url`, `token_url` and `user`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PlainUpstream {
    /// Where people sign in.
    pub authorize: String,
    /// Where it gives tokens.
    pub token: String,
    /// What says whose a token is.
    pub user: String,
    /// The member of what it says that names the owner.
    pub subject: String,
}

const KEYS: &[&str] = &[
    "upstream",
    "authorize_url",
    "token_url",
    "user",
    "client_id",
    "secret",
    "upstream_scope",
    "registration",
    "documents",
    "clients",
    "access",
    "grant",
];

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl AuthProxy {
    pub(super) fn read(reader: &mut Reader<'_>, auth: &Section<'_>, context: Context<'_>) -> Option<Self> {
        let section = reader.section(auth, "proxy", "`[auth.proxy]`".to_owned())?;
        reader.reject_unknown(&section, KEYS);
        for (key, help) in [
            ("upstream", "say where people sign in: `upstream = \"https://login.example.com\"`"),
            ("client_id", "register this server there, once, and write the id it got: `client_id = \"…\"`"),
            (
                "secret",
                "say where the secret that goes with the id is read: `secret = { from = \"env:NAME\" }`",
            ),
        ] {
            if section.entry(key).is_none() {
                let diagnostic = Diagnostic::error(format!("{} has no `{key}`", section.place));
                reader.push(diagnostic.at(section.span.clone(), format!("no `{key}`")).help(help));
            }
        }
        let upstream = url(reader, &section, "upstream");
        let plain = plain(reader, &section);
        let client_id = reader.owned(&section, "client_id");
        let secret = section.entry("secret").and_then(|entry| {
            let secret = reader.table(&entry, format!("`secret` of {}", section.place))?;
            reader.reject_unknown(&secret, &["from"]);
            source(reader, &secret, entry.span, context, AT_START)
        });
        let upstream_scope = super::scopes(reader, &section, "upstream_scope").unwrap_or_default();
        let registration = reader.boolean(&section, "registration").is_some_and(|on| on.value);
        let documents = reader.boolean(&section, "documents").is_none_or(|on| on.value);
        let clients = each(reader, &section, "clients", client);
        if !registration && !documents && section.entry("clients").is_none() {
            let message = format!("{} knows no client and lets none make itself known", section.place);
            let help = "name one, `[auth.proxy.clients.NAME]` with its `redirect_uris`, or let clients come by \
                        themselves: `documents = true`, `registration = true`";
            reader
                .push(Diagnostic::error(message).at(section.span.clone(), "nobody could sign in").help(help));
        }
        let access = reader.duration(&section, "access", (MINUTE, DAY));
        let grant = reader.duration(&section, "grant", (MINUTE, 90 * DAY));
        let upstream_scope = upstream_scope.to_string();
        let (upstream, client_id, secret) = (upstream?, client_id?, secret?);
        Some(Self {
            upstream,
            plain,
            client_id,
            secret,
            upstream_scope,
            registration,
            documents,
            clients,
            access,
            grant,
        })
    }

    /// What is served, its secret read from `sources`, for clients that may ask for `scopes`.
    pub(super) fn proxy(
        &self,
        sources: &dyn Sources,
        registry: Arc<dyn Registry>,
        scopes: Scopes,
    ) -> Result<Proxy, AuthError> {
        let secret = read(sources, &self.secret, || format!("the secret for {}", self.upstream))?;
        let mut upstream =
            Upstream::new(&self.upstream, &self.client_id, &secret)?.scope(&self.upstream_scope);
        if let Some(PlainUpstream { authorize, token, user, subject }) = &self.plain {
            upstream = upstream.asked_at(authorize, token, user, subject)?;
        }
        let mut proxy = Proxy::new(upstream, registry)
            .scopes(scopes)
            .registration(self.registration)
            .documents(self.documents);
        if let Some(access) = self.access {
            proxy = proxy.access(access);
        }
        if let Some(grant) = self.grant {
            proxy = proxy.grant(grant);
        }
        Ok(self.clients.iter().cloned().fold(proxy, Proxy::client))
    }
}

/// All of it or nothing.
fn plain(reader: &mut Reader<'_>, section: &Section<'_>) -> Option<PlainUpstream> {
    let keys = ["authorize_url", "token_url", "user"];
    let first = keys.iter().find_map(|key| section.entry(key))?;
    for key in keys {
        if section.entry(key).is_none() {
            let help = "an upstream without OpenID Connect has `authorize_url`, `token_url` and \
                        `user = { url = \"https://…\", subject = \"id\" }`; one with it has none of them";
            let diagnostic = Diagnostic::error(format!("{} has no `{key}`", section.place));
            reader.push(diagnostic.at(first.key_span.clone(), "goes with it").help(help));
        }
    }
    let authorize = url(reader, section, "authorize_url");
    let token = url(reader, section, "token_url");
    let user = reader.section(section, "user", format!("`user` of {}", section.place))?;
    reader.reject_unknown(&user, &["url", "subject"]);
    for key in ["url", "subject"] {
        if user.entry(key).is_none() {
            let help = "it takes two: `{ url = \"https://…\", subject = \"id\" }`";
            let diagnostic = Diagnostic::error(format!("{} has no `{key}`", user.place));
            reader.push(diagnostic.at(user.span.clone(), format!("no `{key}`")).help(help));
        }
    }
    let (user, subject) = (url(reader, &user, "url"), reader.owned(&user, "subject"));
    Some(PlainUpstream { authorize: authorize?, token: token?, user: user?, subject: subject? })
}

/// One `[auth.proxy.clients.<name>]`: its name is its id.
fn client(reader: &mut Reader<'_>, entry: &Entry<'_>) -> Option<KnownClient> {
    let section = reader.table(entry, format!("client `{}`", entry.key.escape_debug()))?;
    reader.reject_unknown(&section, &["name", "redirect_uris"]);
    let name = reader.owned(&section, "name").unwrap_or_else(|| entry.key.to_owned());
    let redirects = reader.texts(&section, "redirect_uris");
    if section.entry("redirect_uris").is_none() {
        let help = "write where it is called back: `redirect_uris = [\"https://app.example.com/callback\"]`";
        let diagnostic = Diagnostic::error(format!("{} has no `redirect_uris`", section.place));
        reader.push(diagnostic.at(section.span.clone(), "no `redirect_uris`").help(help));
    }
    let redirects = redirects?;
    let texts: Vec<&str> = redirects.iter().map(|redirect| redirect.value).collect();
    let error = match KnownClient::new(entry.key, name, &texts) {
        Ok(client) => return Some(client),
        Err(error) => error,
    };
    let span = match &error {
        InvalidClient::Redirect { redirect, .. } => {
            redirects.iter().find(|one| one.value == redirect).map(|one| one.span.clone())
        }
        _ => None,
    };
    let diagnostic = Diagnostic::error(format!("{} cannot be known: {error}", section.place));
    reader.push(diagnostic.at(span.unwrap_or(section.span), "not this"));
    None
}
