//! `longhaul page`: another key for the pages of a server.

use std::path::PathBuf;

use longhaul_gateway::admin::new_key;
use longhaul_gateway::config::{self, Listen, StoreUrl};

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::term::{is_watched, note, print};
use crate::{runtime, store};

/// Print a link that opens the pages of your server, once.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Whoever opens the link first is signed in as the operator of the server, for a week; the link is good for an hour.

Example:
  longhaul page")]
pub(crate) struct Args {
    /// The configuration of the server.
    #[arg(value_name = "FILE", default_value = "longhaul.toml")]
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
    let mut config = match config::load(&args.file) {
        Ok(checked) => checked.config,
        Err(_) => {
            let file = args.file.display();
            return Err(Failure::usage(format!("{file} is no configuration that can be used"))
                .next(format!("`longhaul check {file}` says why")));
        }
    };
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
    let address = match args.http.as_ref().unwrap_or(&config.http.listen) {
        Listen::Address(address) => *address,
        Listen::Socket(_) => {
            return Err(Failure::usage("no browser reaches a Unix socket").next(
                "scripts need no key there: curl --unix-socket FILE http://localhost/admin/api/tasks",
            ));
        }
    };
    let opened = store::look(&config.store).await?;
    let key = new_key(&*opened.registry).await?;
    print(&format!("http://{address}/?key={key}"))?;
    if is_watched() {
        note("good once, and for an hour");
    }
    Ok(Exit::Done)
}
