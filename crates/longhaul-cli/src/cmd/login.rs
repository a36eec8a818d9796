//! `longhaul login` and `longhaul logout`: tokens for the verbs that follow.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use longhaul::client::auth::{AuthError, FileTokens, Loopback, OAuth};
use longhaul::client::{Client, Options};
use longhaul::server::Scopes;
use longhaul_gateway::causes::in_words;

use crate::browser;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::identity::Identity;
use crate::state;
use crate::target::{Server, http_url};
use crate::term::{clean, note};

/// Sign in to a server with the browser, for `call`, `tools` and `tasks`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
What is granted is kept in longhaul/tokens.json under $XDG_STATE_HOME (~/.local/state), which you alone can read.

Examples:
  longhaul login https://mcp.example.com/mcp
  longhaul login https://mcp.example.com/mcp --scope \"read write\"
  longhaul login https://mcp.example.com/mcp --client-id app --client-secret env:APP_SECRET \\
      --issuer https://login.example.com")]
pub(crate) struct Args {
    /// The URL of the server.
    #[arg(value_name = "URL")]
    url: String,
    /// Ask for these scopes, besides those that the server asks for by itself.
    #[arg(long, value_name = "SCOPES", value_parser = scopes)]
    scope: Option<Scopes>,
    #[command(flatten)]
    identity: Identity,
    /// The port of this machine that the browser comes back to, where the authorization server insists on one.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Only show the address to sign in at.
    #[arg(long)]
    no_browser: bool,
    /// Let the server name an authorization server in a private network.
    #[arg(long)]
    private_network: bool,
}

/// Forget the token for a server, and have it taken back.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  longhaul logout https://mcp.example.com/mcp")]
pub(crate) struct OutArgs {
    /// The URL of the server.
    #[arg(value_name = "URL")]
    url: String,
}

pub(crate) fn run(args: &Args) -> Exit {
    crate::runtime::run(false, login(args))
}

pub(crate) fn run_out(args: &OutArgs) -> Exit {
    crate::runtime::run(false, logout(args))
}

/// The port that browsers come back to, if it is free: authorization servers know the client by it.
const PORT: u16 = 38420;

async fn login(args: &Args) -> Outcome {
    http_url(&args.url)?;
    let asked = Arc::new(AtomicBool::new(false));
    let (no_browser, was_asked) = (args.no_browser, Arc::clone(&asked));
    let open = move |address: &str| {
        was_asked.store(true, Ordering::Release);
        note(&format!("Sign in at\n  {}", clean::line(address, 8000)));
        if !no_browser && let Err(error) = browser::open(address) {
            note(&format!("note: no browser was opened ({error}); open the address yourself"));
        }
        Ok(())
    };
    let loopback = match (Loopback::bind(args.port.unwrap_or(PORT), open.clone()).await, args.port) {
        (Ok(loopback), _) => loopback,
        (Err(_), None) => Loopback::bind(0, open).await.map_err(anyhow::Error::from)?,
        (Err(error), Some(port)) => return Err(taken(port, &error)),
    };
    let store = store()?;
    let kept = if args.identity.is_said() { None } else { Identity::load(&store, &args.url).await? };
    let identity = kept.as_ref().unwrap_or(&args.identity);
    let oauth = OAuth::new().browser(loopback).store(store.clone()).private_networks(args.private_network);
    let oauth = identity.applied(oauth)?.scopes(args.scope.clone().unwrap_or_default());
    let client = connected(&args.url, Options::default().oauth(oauth)).await?;
    // Some servers tell everybody what they are, and nobody what they have.
    let listed = client.list_tools().await;
    client.close().await;
    listed?;
    let url = clean::line(&args.url, 400);
    if asked.load(Ordering::Acquire) {
        identity.keep(&store, &args.url).await?;
        note(&format!("Signed in to {url}."));
    } else {
        note(&format!("{url} lets you in already."));
    }
    Ok(Exit::Done)
}

/// Connects to the server at `url`. One that says nothing is not reached.
async fn connected(url: &str, options: Options) -> Outcome<Client> {
    Client::connect_with(url, options).await.map_err(|error| Server::url(url).failure(error, None))
}

async fn logout(args: &OutArgs) -> Outcome {
    http_url(&args.url)?;
    let store = store()?;
    let identity = Identity::load(&store, &args.url).await?.unwrap_or_default();
    let signed_out = identity.applied(OAuth::new().store(store.clone()))?.sign_out(&args.url).await?;
    Identity::forget(&store, &args.url).await?;
    let url = clean::line(&args.url, 400);
    if signed_out {
        note(&format!("Signed out of {url}."));
        return Ok(Exit::Done);
    }
    Err(Failure::new(Exit::NotFound, "not_signed_in", format!("there is no token for {url}"))
        .next("give the URL as it was given to `longhaul login`"))
}

fn scopes(text: &str) -> Result<Scopes, String> {
    Scopes::parse(text).map_err(|error| error.to_string())
}

fn taken(port: u16, error: &io::Error) -> Failure {
    Failure::usage(format!("the browser cannot come back to port {port}: {error}"))
        .next("end what listens there, or give another --port")
}

fn store() -> Outcome<FileTokens> {
    state::tokens()
        .ok_or_else(|| Failure::usage("there is nowhere to keep tokens").next("set HOME to your home"))
}

impl From<AuthError> for Failure {
    fn from(error: AuthError) -> Self {
        Self::new(Exit::SignIn, "auth_required", in_words(&error))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_server_that_says_nothing_is_not_reached() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let hasty = Options::default().request_timeout(Duration::from_millis(200));
        let failure = connected(&url, hasty).await.unwrap_err();
        assert_eq!(failure.exit, Exit::Unreachable);
        assert!(failure.line().contains("does not answer"), "{failure:?}");
    }
}
