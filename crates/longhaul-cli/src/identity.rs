//! Who this program is to an authorization server where it cannot register itself: said at `login`, and kept for the
//! verbs that follow.

use std::path::{Path, absolute};

use longhaul::client::Options;
use longhaul::client::auth::{Credentials, FileTokens, OAuth, TokenStore as _};
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Outcome};

/// Who the program is. Of a secret only the place where it is read is kept.
#[derive(clap::Args, Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Identity {
    /// The id under which the authorization server knows this program; otherwise it registers itself.
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// Where the secret of that id is read, whenever it is needed: env:NAME or file:PATH.
    #[arg(long, value_name = "SOURCE", requires_all = ["client_id", "issuer"], value_parser = source)]
    client_secret: Option<String>,
    /// The authorization server that knows the id, as it writes its own name; otherwise the first that the server names.
    #[arg(long, value_name = "URL", requires = "client_id")]
    issuer: Option<String>,
    /// The address of this program's published metadata, which is its id where authorization servers take that.
    #[arg(long, value_name = "URL", conflicts_with = "client_id")]
    client_metadata_url: Option<String>,
}

impl Identity {
    /// Who it was said to be at the last sign-in to the server at `url`, if anything was said.
    pub(crate) async fn load(store: &FileTokens, url: &str) -> Outcome<Option<Self>> {
        let kept = store.load(&kept_as(url)).await?;
        Ok(kept.and_then(|kept| serde_json::from_str(kept.reveal()).ok()))
    }

    /// Keeps it for that server, if it says anything.
    pub(crate) async fn keep(&self, store: &FileTokens, url: &str) -> Outcome<()> {
        if !self.is_said() {
            return Ok(());
        }
        let text = serde_json::to_string(self).map_err(anyhow::Error::from)?;
        Ok(store.save(&kept_as(url), text.into()).await?)
    }

    /// Forgets what was kept for that server.
    pub(crate) async fn forget(store: &FileTokens, url: &str) -> Outcome<()> {
        Ok(store.remove(&kept_as(url)).await?)
    }

    /// Whether it says anything.
    pub(crate) fn is_said(&self) -> bool {
        self.client_id.is_some() || self.client_metadata_url.is_some()
    }

    /// The variable from which its secret is read, if it is one.
    fn variable(&self) -> Option<&str> {
        self.client_secret.as_deref()?.strip_prefix("env:")
    }

    /// Signs in as this.
    pub(crate) fn applied(&self, oauth: OAuth) -> Outcome<OAuth> {
        if let Some(url) = &self.client_metadata_url {
            return Ok(oauth.metadata_document(url)?);
        }
        let Some(id) = &self.client_id else { return Ok(oauth) };
        let mut credentials = Credentials::new(id);
        if let Some(issuer) = &self.issuer {
            credentials = credentials.issuer(issuer);
        }
        if let Some(source) = &self.client_secret {
            credentials = credentials.secret(secret(source)?);
        }
        Ok(oauth.credentials(credentials))
    }
}

/// The options of a client of the server at `url`, with what was granted to whoever signed in there.
pub(crate) async fn signed_in(options: Options, url: &str) -> Outcome<Options> {
    let Some(store) = crate::state::tokens() else { return Ok(options) };
    let Some(identity) = Identity::load(&store, url).await? else { return Ok(options) };
    Ok(options.oauth(identity.applied(OAuth::new().store(store))?))
}

/// The variable from which a secret is read at each sign-in to the server at `url`, if one is.
pub(crate) async fn variable(url: &str) -> Outcome<Option<String>> {
    let Some(store) = crate::state::tokens() else { return Ok(None) };
    let identity = Identity::load(&store, url).await?;
    Ok(identity.and_then(|identity| identity.variable().map(str::to_owned)))
}

fn kept_as(url: &str) -> String {
    format!("login {url}")
}

/// Where a secret is read, so that it can be read there from any folder.
fn source(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        Some(("env", name)) if !name.is_empty() && !name.contains('=') => Ok(text.to_owned()),
        Some(("file", path)) if !path.is_empty() => {
            let path = absolute(path).map_err(|error| error.to_string())?;
            path.to_str().map(|path| format!("file:{path}")).ok_or_else(|| "its path is not UTF-8".to_owned())
        }
        _ => Err("it is env:NAME or file:PATH; on the command line everybody could read it".to_owned()),
    }
}

fn secret(source: &str) -> Outcome<String> {
    let read = match source.split_once(':') {
        Some(("env", name)) => std::env::var(name).map_err(|error| error.to_string()),
        Some((_, path)) => std::fs::read_to_string(Path::new(path)).map_err(|error| error.to_string()),
        None => Err("it names no source".to_owned()),
    };
    let read = read.map(|text| text.trim_end_matches(['\r', '\n']).to_owned());
    match read {
        Ok(secret) if !secret.is_empty() => Ok(secret),
        read => {
            let why = read.err().unwrap_or_else(|| "it is empty".to_owned());
            let what = format!("the secret of the client cannot be read from {source}: {why}");
            Err(Failure::usage(what)
                .next("provide it there, or `longhaul login` with another --client-secret"))
        }
    }
}
