//! Serves `work`, whose calls are durable tasks at once, on a store of any kind: `bench-tasks STORE`.
//!
//! It listens on a free port of this machine and prints its URL as the first line.
#![expect(clippy::print_stdout, reason = "whoever measures reads the URL from there")]

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use longhaul::server::{PollOptions, TaskPolicy};
use longhaul::store::{Limits, Rerun, Settings, TaskStore};
use longhaul::tasks::runner::Pace;
use longhaul::transport::http::server::Options;
use longhaul::{Server, Tool};
use longhaul_store::{PostgresOptions, RedisOptions, SqliteOptions};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::net::TcpListener;

/// As the program has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Serves tasks.
#[derive(Parser)]
struct Arguments {
    /// The store: an SQLite file, or the URL of a database
    store: String,
}

#[derive(Deserialize, JsonSchema)]
struct Work {
    /// For how long it works.
    seconds: f64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = Arguments::parse().store;
    let store: Arc<dyn TaskStore> = match url.split(':').next() {
        Some("postgres") => Arc::new(PostgresOptions::new().with_settings(roomy()).open(&url).await?),
        Some("redis" | "redis+unix") => {
            Arc::new(RedisOptions::new().with_settings(roomy()).open(&url).await?)
        }
        _ => Arc::new(SqliteOptions::new().with_settings(roomy()).open(&url)?),
    };
    let work = Tool::typed("work", "Work for a while", |_, Work { seconds }| async move {
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        format!("worked {seconds}")
    });
    // What a server did that was killed is done again, as Docket does.
    let mut policy = TaskPolicy::always();
    policy.rerun = Rerun::Restart;
    let polls = PollOptions::default().each(MANY).in_all(MANY);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    // As the program looks for what a dead server has left, on a database.
    let mut pace = Pace::default();
    pace.recover_every = Duration::from_millis(200);
    let server = Server::new("bench", "1.0.0").tool(work.task(policy)).store(store).polls(polls).pace(pace);
    Ok(server.serve_http(listener, Options::default()).await?)
}

/// More than is asked for.
const MANY: u32 = 10_000_000;

/// Everybody who measures is one anonymous caller, with more tasks than such a caller may have.
fn roomy() -> Settings {
    let (mut limits, many) = (Limits::default(), u64::from(MANY));
    (limits.max_open, limits.max_open_anonymous, limits.max_open_per_stranger) = (many, many, many);
    (limits.max_retained, limits.max_retained_per_owner) = (many, many);
    let mut settings = Settings::default();
    settings.limits = limits;
    settings
}
