//! The scenarios in which a client signs in.

use anyhow::{Context, Result, bail, ensure};
use longhaul::client::auth::{AuthError, Browser, Credentials, IdentityProvider, OAuth, Secret, SigningKey};
use longhaul::client::{Client, Error, Options};
use longhaul::tasks::environment::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::scenario::context;

/// What the suite takes for the address of a client's metadata. It is never fetched.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// What the suite lets a client know that signs in.
#[derive(Debug, Deserialize)]
struct Known {
    client_id: String,
    #[serde(default)]
    client_secret: Option<String>,
    #[serde(default)]
    issuer: Option<String>,
    #[serde(default)]
    private_key_pem: Option<String>,
    #[serde(default)]
    valid_jwt: Option<Secret>,
}

/// What the suite lets a client know that is vouched for by an identity provider.
#[derive(Debug, Deserialize)]
struct Vouched {
    idp_client_id: String,
    idp_id_token: Secret,
    idp_token_endpoint: String,
}

/// Whether a scenario of that name is here.
pub(crate) fn is_here(name: &str) -> bool {
    name.starts_with("auth/")
}

/// Does what the scenario of that name asks for.
pub(crate) async fn drive(name: &str, url: &str, options: Options) -> Result<()> {
    let connected = Client::connect_with(url, options.oauth(oauth(name)?)).await;
    match name {
        "auth/resource-mismatch" => {
            refused(connected, |error| matches!(error, AuthError::WrongResource { .. }))
        }
        "auth/iss-supported-missing"
        | "auth/iss-wrong-issuer"
        | "auth/iss-unexpected"
        | "auth/iss-normalized" => refused(connected, |error| matches!(error, AuthError::Mismatch { .. })),
        "auth/metadata-issuer-mismatch" => {
            refused(connected, |error| matches!(error, AuthError::Fetch { .. }))
        }
        "auth/scope-retry-limit" => {
            let used = match connected {
                Ok(client) => use_it(&client).await.map_err(anyhow::Error::from),
                Err(error) => Err(error.into()),
            };
            ensure!(used.is_err(), "a server that refuses everything let the client in");
            Ok(())
        }
        _ => {
            let client = connected?;
            // Twice: whatever has changed behind the first must not end the second.
            use_it(&client).await?;
            use_it(&client).await?;
            client.close().await;
            Ok(())
        }
    }
}

async fn use_it(client: &Client) -> Result<(), Error> {
    for tool in client.list_tools().await? {
        client.call(&tool.name, &json!({})).await?;
    }
    Ok(())
}

/// A client must not get in, and say why.
fn refused(connected: Result<Client, Error>, is_it: impl Fn(&AuthError) -> bool) -> Result<()> {
    let Err(Error::NoAccess { cause, .. }) = &connected else { bail!("it came to {connected:?}") };
    let error = cause.downcast_ref::<AuthError>().context("an error of another kind")?;
    ensure!(is_it(error), "the reason was {error:?}");
    Ok(())
}

fn oauth(name: &str) -> Result<OAuth> {
    let user = OAuth::new().browser(Straight).metadata_document(DOCUMENT)?;
    Ok(match name {
        "auth/pre-registration" => user.credentials(credentials()?),
        "auth/client-credentials-basic" | "auth/client-credentials-jwt" => {
            OAuth::client_credentials(credentials()?)
        }
        "auth/enterprise-managed-authorization" => {
            let vouched: Vouched = context()?;
            let provider = IdentityProvider::new(
                &vouched.idp_token_endpoint,
                vouched.idp_client_id,
                vouched.idp_id_token,
            )?;
            OAuth::enterprise(credentials()?, provider)
        }
        "auth/wif-jwt-bearer" => {
            let known: Known = context()?;
            let jwt = known.valid_jwt.context("the suite gives no JWT")?;
            OAuth::workload(credentials()?, move |_| std::future::ready(Ok(jwt.clone())))
        }
        _ => user,
    })
}

fn credentials() -> Result<Credentials> {
    let known: Known = context()?;
    let mut credentials = Credentials::new(known.client_id);
    if let Some(issuer) = known.issuer {
        credentials = credentials.issuer(issuer);
    }
    if let Some(secret) = known.client_secret {
        credentials = credentials.secret(secret);
    }
    if let Some(pem) = known.private_key_pem {
        credentials = credentials.key(SigningKey::from_pem(&pem)?);
    }
    Ok(credentials)
}

/// A user whom nobody asks anything: the first answer already sends it back.
#[derive(Debug)]
struct Straight;

impl Browser for Straight {
    fn redirect_uri(&self) -> &str {
        "http://localhost:3000/callback"
    }

    fn visit<'a>(&'a self, address: &'a str) -> BoxFuture<'a, Result<String, AuthError>> {
        Box::pin(async move { went(address).await.map_err(AuthError::browser) })
    }
}

/// The query with which whoever goes to `address` is sent back.
async fn went(address: &str) -> std::io::Result<String> {
    let lost = || std::io::Error::other("nobody was sent back");
    let rest = address.strip_prefix("http://").ok_or_else(lost)?;
    let (host, path) = rest.split_once('/').ok_or_else(lost)?;
    let mut stream = TcpStream::connect(host).await?;
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let headers = answer.lines().take_while(|line| !line.is_empty());
    let mut pairs = headers.filter_map(|line| line.split_once(':'));
    let location =
        pairs.find(|(name, _)| name.eq_ignore_ascii_case("location")).map(|(_, value)| value.trim());
    Ok(location.and_then(|location| location.split_once('?')).ok_or_else(lost)?.1.to_owned())
}
