//! `longhaul page`: another key for the pages of a server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use longhaul_gateway::admin::new_key;
use longhaul_gateway::config::{Listen, StoreUrl};
use tokio::net::TcpStream;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::term::{is_watched, note, print};
use crate::{configuration, runtime, store};

/// Print a link that opens the pages of your server, once.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Whoever opens the link first is signed in as the operator of the server, for a week; the link is good for an hour.

Example:
  longhaul page")]
pub(crate) struct Args {
    /// The configuration of the server.
    #[arg(value_name = "FILE", default_value = configuration::FILE)]
    file: PathBuf,
    /// Where the server listens, if that is not what the configuration says.
    #[arg(long, value_name = "ADDR")]
    http: Option<Listen>,
    /// Where tasks are kept, if that is not what the configuration says.
    #[arg(long, value_name = "URL", value_parser = store::url)]
    store: Option<StoreUrl>,
}

pub(crate) fn run(args: &Args) -> Exit {
    runtime::run(false, link(args))
}

async fn link(args: &Args) -> Outcome {
    let mut config = configuration::read(&args.file, "its server prints a link when it is started")?;
    if let Some(url) = &args.store {
        config.store.url = url.clone();
    }
    if config.auth.is_some() {
        return Err(Failure::usage("who opens the pages of this server signs in with a token")
            .next("`operators` of `[page]` names the scope that lets a token see every task"));
    }
    if config.store.url == StoreUrl::Memory {
        return Err(Failure::usage("a store in memory is known to its server alone")
            .next("start the server again: it prints a link"));
    }
    if !config.page.enabled {
        return Err(Failure::usage("this server has no pages").next("`enabled` of `[page]` gives it some"));
    }
    let address = match args.http.as_ref().unwrap_or(&config.http.listen) {
        place @ Listen::Address(address) if place.is_reachable() => {
            return Err(Failure::usage(format!(
                "a server at {address} has no pages, for other machines reach it and nobody signs in"
            ))
            .next("`[auth]` says who signs in, or have it listen at 127.0.0.1"));
        }
        Listen::Address(address) if address.port() == 0 => {
            return Err(Failure::usage("its server listens at a port that the system chose")
                .next("name the address that it has said: --http 127.0.0.1:PORT"));
        }
        Listen::Address(address) => *address,
        Listen::Socket(_) => {
            return Err(Failure::usage("no browser reaches a Unix socket").next(
                "scripts need no key there: curl --unix-socket FILE http://localhost/admin/api/tasks",
            ));
        }
    };
    store::must_be_there(&config.store.url)?;
    let opened = store::look(&config.store).await?;
    let key = new_key(&*opened.registry).await?;
    print(&format!("http://{address}/?key={key}"))?;
    if !listens(address).await {
        note(&format!("note: nothing listens at {address} now: the link opens once its server is started"));
    }
    if is_watched() {
        note("good once, and for an hour");
    }
    Ok(Exit::Done)
}

/// Whether anybody takes connections there.
async fn listens(address: SocketAddr) -> bool {
    let connecting = TcpStream::connect(address);
    matches!(tokio::time::timeout(PATIENCE, connecting).await, Ok(Ok(_)))
}

/// How long a server of this machine may take to be connected to.
const PATIENCE: Duration = Duration::from_secs(2);
