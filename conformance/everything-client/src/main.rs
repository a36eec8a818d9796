//! The client that the official conformance suite starts, once for each scenario: `everything-client URL`.
//!
//! The suite says in the environment which scenario it is, in which revision, and what the client must know beforehand.
//! Whoever does all that its scenario asks for prints `done` and ends with 0: the suite itself does not look at that.

mod auth;
mod scenario;
mod skill;

use std::env;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use longhaul::client::{Client, Options};
use longhaul::proto::dialect::Revision;
use longhaul::proto::model::{CreateMessageResult, ElicitResult, Root};

/// The suite waits for a client that hangs, however long it takes: this one ends by itself, well before the 30 s
/// after which it counts as hanging.
const WATCHDOG: Duration = Duration::from_secs(20);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    thread::spawn(|| {
        thread::sleep(WATCHDOG);
        complain("this took too long");
        std::process::exit(3);
    });
    match run().await {
        Ok(()) => {
            say("done");
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let (Some(url), None) = (arguments.next(), arguments.next()) else {
        bail!("usage: everything-client URL, as the suite runs it");
    };
    let name = env::var("MCP_CONFORMANCE_SCENARIO").context("the suite names no scenario")?;
    if auth::is_here(&name) {
        return auth::drive(&name, &url, options()?).await;
    }
    let client = Client::connect_with(url.as_str(), options()?).await?;
    scenario::drive(&name, &client).await?;
    client.close().await;
    Ok(())
}

/// A client that answers whatever it is asked, in the revision that the suite wants.
fn options() -> Result<Options> {
    let date = env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").context("the suite names no revision")?;
    let revision = Revision::from_date(&date).with_context(|| format!("no revision is dated {date}"))?;
    let options = Options::default().revision(revision);
    // A user who sends every form as it comes, once what must be confirmed is confirmed.
    let options =
        options.on_form(|form| async move { ElicitResult::accepted(scenario::filled_in(&form.form)) });
    let options = options.on_sample(|_| async { Ok(CreateMessageResult::new("a-model", "a sample")) });
    Ok(options.on_roots(|| async { vec![Root::new("file:///work")] }))
}

#[expect(clippy::print_stdout, reason = "this is how the suite is told")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "this is how people are told")]
fn complain(text: &str) {
    eprintln!("{text}");
}
