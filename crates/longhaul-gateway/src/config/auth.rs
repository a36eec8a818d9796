//! `[auth]`: who may call over HTTP, and how they prove it.

mod proxy;

use std::{ffi::OsString, fmt, sync::Arc};

use longhaul::{
    auth::{
        Guard, Introspection, InvalidToken, InvalidUrl, Issuer, Protection, ProtectionError, Resource,
        StaticTokens,
    },
    server::Scopes,
    store::Registry,
};
use thiserror::Error;
use toml::de::DeValue;

use super::{
    diagnostic::Diagnostic,
    environment::{EnvError, EnvSource, Sources, source},
    reader::{At, Entry, Reader, Section},
    tool::read::Context,
};

pub use proxy::{AuthProxy, PlainUpstream};

/// Who may call over HTTP, and how they prove it.
///
/// No secret stands in the file: it says where each is read.
#[derive(Clone)]
#[non_exhaustive]
pub struct Auth {
    /// The URI that clients and tokens know the server by.
    pub resource: Option<Resource>,
    /// Other names that tokens have for it.
    pub audiences: Vec<String>,
    /// What every caller needs.
    pub scopes: Scopes,
    /// Scopes that come with others.
    pub implied: Vec<(String, Scopes)>,
    /// Whose tokens count.
    pub issuers: Vec<AuthIssuer>,
    /// Tokens that the operator hands out.
    pub tokens: Vec<AuthToken>,
    /// Whether it gives tokens itself, and to whom.
    pub proxy: Option<AuthProxy>,
}

/// One `[auth.issuers.<name>]`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuthIssuer {
    /// What it calls itself in its tokens and its metadata.
    pub url: String,
    /// How its tokens are checked.
    pub check: TokenCheck,
}

/// How the tokens of an issuer are checked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TokenCheck {
    /// They are JWTs, signed with its keys; where those are is found out unless it is said.
    Keys(Option<String>),
    /// It is asked about each.
    #[non_exhaustive]
    Introspection {
        /// Where.
        url: String,
        /// What it knows this server as.
        client_id: String,
        /// And with which secret.
        secret: EnvSource,
    },
}

/// One `[auth.tokens.<name>]`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuthToken {
    /// Whoever shows it is the principal `token:NAME`.
    pub name: String,
    /// Where it is read when the server starts.
    pub source: EnvSource,
    /// What it lets its caller do; everything when `None`.
    pub scopes: Option<Scopes>,
}

/// Why a server cannot be protected as its configuration says.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AuthError {
    /// A secret is not where it should be.
    #[error("{whose} cannot be read")]
    #[non_exhaustive]
    Secret {
        /// What it is.
        whose: String,
        /// Why.
        #[source]
        source: EnvError,
    },
    /// A secret is no text.
    #[error("{whose} is not text")]
    #[non_exhaustive]
    NotText {
        /// What it is.
        whose: String,
    },
    /// A token protects nothing.
    #[error(transparent)]
    Token(#[from] InvalidToken),
    /// An address is not one that may be asked.
    #[error(transparent)]
    Url(#[from] InvalidUrl),
    /// All of it together does not do.
    #[error(transparent)]
    Protection(#[from] ProtectionError),
}

impl Auth {
    pub(super) fn read(reader: &mut Reader<'_>, section: &Section<'_>, context: Context<'_>) -> Self {
        reader.reject_unknown(
            section,
            &["resource", "audience", "scope", "implies", "issuers", "tokens", "proxy"],
        );
        let resource = reader.text(section, "resource").and_then(|text| {
            valid(reader, "resource", section, &text, |text| Resource::parse(text).map_err(drop))
        });
        let audiences = reader.texts(section, "audience").unwrap_or_default();
        let auth = Self {
            resource,
            audiences: audiences.into_iter().map(|text| text.value.to_owned()).collect(),
            scopes: scopes(reader, section, "scope").unwrap_or_default(),
            implied: implied(reader, section),
            issuers: each(reader, section, "issuers", |reader, entry| issuer(reader, entry, context)),
            tokens: each(reader, section, "tokens", |reader, entry| token(reader, entry, context)),
            proxy: AuthProxy::read(reader, section, context),
        };
        // What was written and could not be read has been said already.
        let has = |key| section.entry(key).is_some();
        if !has("issuers") && !has("tokens") && !has("proxy") {
            let help = "trust an issuer, `[auth.issuers.NAME]` with its `url`, or hand out a token, \
                        `[auth.tokens.NAME]` with the place it is read `from`; or let people sign in by way of this \
                        server, `[auth.proxy]`";
            let diagnostic = Diagnostic::error(format!("{} lets nobody in", section.place));
            reader.push(
                diagnostic.at(section.span.clone(), "none of `issuers`, `tokens` and `proxy`").help(help),
            );
        }
        if (has("issuers") || has("proxy")) && !has("resource") {
            let message = format!("{} does not say what tokens must be for", section.place);
            let help = "say what clients call this server: `resource = \"https://mcp.example.com/mcp\"`; without \
                        it tokens for other servers would count here";
            reader.push(Diagnostic::error(message).at(section.span.clone(), "no `resource`").help(help));
        }
        auth
    }

    /// The guard of a server that is protected so, its secrets read from `sources`. What is granted here is kept in
    /// `registry`, and `scopes` can be: those that the server's tools ask for.
    ///
    /// # Errors
    ///
    /// When a secret is not there or protects nothing, or signatures cannot be checked.
    pub fn guard(
        &self,
        sources: &dyn Sources,
        registry: Arc<dyn Registry>,
        scopes: &Scopes,
    ) -> Result<Guard, AuthError> {
        let mut protection = Protection::new().require(self.scopes.clone());
        if let Some(resource) = &self.resource {
            protection = protection.resource(resource.clone());
        }
        for audience in &self.audiences {
            protection = protection.audience(audience);
        }
        for (scope, others) in &self.implied {
            protection = protection.implies(scope, others.clone());
        }
        for issuer in &self.issuers {
            protection = match &issuer.check {
                TokenCheck::Keys(None) => protection.issuer(Issuer::new(&issuer.url)?),
                TokenCheck::Keys(Some(keys)) => protection.issuer(Issuer::new(&issuer.url)?.keys_at(keys)?),
                TokenCheck::Introspection { url, client_id, secret } => {
                    let secret = read(sources, secret, || format!("the secret for {url}"))?;
                    protection.introspection(Introspection::new(&issuer.url, url, client_id, &secret)?)
                }
            };
        }
        if let Some(proxy) = &self.proxy {
            let all = self.implied.iter().map(|(scope, _)| scope.as_str()).collect::<Scopes>().union(scopes);
            protection = protection.proxy(proxy.proxy(sources, registry, all)?);
        }
        let mut tokens = StaticTokens::new();
        for token in &self.tokens {
            let secret = read(sources, &token.source, || format!("the token `{}`", token.name))?;
            tokens = tokens.token(&token.name, &secret, token.scopes.clone())?;
        }
        Ok(protection.tokens(tokens).guard()?)
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth")
            .field("resource", &self.resource)
            .field("scopes", &self.scopes)
            .field("issuers", &self.issuers)
            .field("tokens", &self.tokens)
            .field("proxy", &self.proxy)
            .finish_non_exhaustive()
    }
}

fn read(sources: &dyn Sources, source: &EnvSource, whose: impl Fn() -> String) -> Result<String, AuthError> {
    let secret = source.read(sources).map_err(|source| AuthError::Secret { whose: whose(), source })?;
    OsString::into_string(secret).map_err(|_| AuthError::NotText { whose: whose() })
}

fn issuer(reader: &mut Reader<'_>, entry: &Entry<'_>, context: Context<'_>) -> Option<AuthIssuer> {
    let section = reader.table(entry, format!("issuer `{}`", entry.key.escape_debug()))?;
    reader.reject_unknown(&section, &["url", "jwks_url", "introspection"]);
    let url = url(reader, &section, "url");
    if section.entry("url").is_none() {
        let help = "write what it calls itself, as its tokens say it in `iss`: `url = \"https://login.example.com\"`";
        let diagnostic = Diagnostic::error(format!("{} has no URL", section.place));
        reader.push(diagnostic.at(section.span.clone(), "no `url`").help(help));
    }
    let check = match (section.entry("jwks_url"), section.entry("introspection")) {
        (Some(keys), Some(asked)) => {
            let message = format!("{} has its tokens checked in two ways", section.place);
            let diagnostic = Diagnostic::error(message).at(asked.key_span, "asked about each");
            reader.push(diagnostic.at(keys.key_span, "checked with its keys").help("remove one of the two"));
            None
        }
        (_, None) => Some(TokenCheck::Keys(self::url(reader, &section, "jwks_url"))),
        (None, Some(asked)) => introspection(reader, &asked, &section.place, context),
    };
    Some(AuthIssuer { url: url?, check: check? })
}

fn introspection(
    reader: &mut Reader<'_>,
    entry: &Entry<'_>,
    issuer: &str,
    context: Context<'_>,
) -> Option<TokenCheck> {
    let section = reader.table(entry, format!("`introspection` of {issuer}"))?;
    reader.reject_unknown(&section, &["url", "client_id", "secret"]);
    for key in ["url", "client_id", "secret"] {
        if section.entry(key).is_none() {
            let message = format!("{} has no `{key}`", section.place);
            let help = "it takes three: `{ url = \"https://…\", client_id = \"…\", secret = { from = \"env:NAME\" } }`";
            reader
                .push(Diagnostic::error(message).at(section.span.clone(), format!("no `{key}`")).help(help));
        }
    }
    let url = url(reader, &section, "url");
    let client_id = reader.owned(&section, "client_id");
    let secret = section.entry("secret").and_then(|entry| {
        let secret = reader.table(&entry, format!("`secret` of {}", section.place))?;
        reader.reject_unknown(&secret, &["from"]);
        source(reader, &secret, entry.span, context, AT_START)
    });
    Some(TokenCheck::Introspection { url: url?, client_id: client_id?, secret: secret? })
}

fn token(reader: &mut Reader<'_>, entry: &Entry<'_>, context: Context<'_>) -> Option<AuthToken> {
    let place = format!("token `{}`", entry.key.escape_debug());
    if let DeValue::String(_) = entry.value {
        let diagnostic = Diagnostic::error(format!("{place} stands in the file"));
        let help = "whoever reads the file could call: say where the token is read, \
                    `{ from = \"env:NAME\" }` or `{ from = \"file:PATH\" }`";
        // The text itself is not shown once more.
        reader.push(diagnostic.help(help));
        return None;
    }
    let section = reader.table(entry, place)?;
    reader.reject_unknown(&section, &["from", "scope"]);
    let source = source(reader, &section, entry.span.clone(), context, AT_START);
    let scopes = scopes(reader, &section, "scope");
    Some(AuthToken { name: entry.key.to_owned(), source: source?, scopes })
}

/// What happens to a server whose secret is not there.
const AT_START: &str = "it is read when the server starts, which fails until it is there";

fn implied(reader: &mut Reader<'_>, section: &Section<'_>) -> Vec<(String, Scopes)> {
    let place = format!("`implies` of {}", section.place);
    let Some(implies) = reader.section(section, "implies", place) else { return Vec::new() };
    let entries = implies.entries();
    let implied = entries.iter().filter_map(|entry| {
        let others = scopes(reader, &implies, entry.key)?;
        Some((entry.key.to_owned(), others))
    });
    implied.collect()
}

/// Every table of a table of tables.
fn each<T>(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    key: &str,
    mut read: impl FnMut(&mut Reader<'_>, &Entry<'_>) -> Option<T>,
) -> Vec<T> {
    let Some(tables) = reader.section(section, key, format!("`{key}` of {}", section.place)) else {
        return Vec::new();
    };
    tables.entries().iter().filter_map(|entry| read(reader, entry)).collect()
}

/// Scopes, as OAuth writes them.
pub(super) fn scopes(reader: &mut Reader<'_>, section: &Section<'_>, key: &str) -> Option<Scopes> {
    let text = reader.text(section, key)?;
    let (what, label) = match Scopes::parse(text.value) {
        Ok(scopes) if !scopes.is_empty() => return Some(scopes),
        Ok(_) => ("is empty".to_owned(), "no scope"),
        Err(error) => (format!("is not a list of scopes: {error}"), "not a scope"),
    };
    let message = format!("`{key}` of {} {what}", section.place);
    let help = "scopes stand in one string, with spaces between them: \"read write\"";
    reader.push(Diagnostic::error(message).at(text.span, label).help(help));
    None
}

fn url(reader: &mut Reader<'_>, section: &Section<'_>, key: &str) -> Option<String> {
    let text = reader.text(section, key)?;
    valid(reader, key, section, &text, |text| Issuer::new(text).map(|_| text.to_owned()).map_err(drop))
}

fn valid<T>(
    reader: &mut Reader<'_>,
    key: &str,
    section: &Section<'_>,
    text: &At<&str>,
    parse: impl Fn(&str) -> Result<T, ()>,
) -> Option<T> {
    if let Ok(value) = parse(text.value) {
        return Some(value);
    }
    let message = format!("`{key}` of {} is not a URL that tokens can be trusted to", section.place);
    let help =
        "it is `https://HOST[:PORT]/PATH`, or `http` on this machine, without query, fragment and user";
    reader.push(Diagnostic::error(message).at(text.span.clone(), "not such a URL").help(help));
    None
}
