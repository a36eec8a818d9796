//! The tool: it charges once, and asks once.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use longhaul::server::{Elicited, State, ToolError};
use longhaul::{Cx, Server, tool};
use schemars::JsonSchema;
use serde::Deserialize;

/// Where the money goes: a file with a line for each charge.
struct Ledger(PathBuf);

impl Ledger {
    /// A payment service would take the key, and charge once however often it is asked under it.
    async fn charge(&self, amount: u64, key: &str) -> Result<String, ToolError> {
        let mut ledger = OpenOptions::new().create(true).append(true).open(&self.0)?;
        writeln!(ledger, "{amount} {key}")?;
        Ok(format!("receipt for {amount}"))
    }
}

#[derive(Deserialize, JsonSchema)]
struct Ship {
    /// Whether to send it now.
    now: bool,
}

/// Order something, and have it sent.
#[tool(task = "always", rerun = "resumable")]
async fn order(cx: Cx, ledger: State<Ledger>, item: String, amount: u64) -> Result<String, ToolError> {
    let key = cx.effect_key("charge");
    let receipt = cx.step("charge", || ledger.charge(amount, &key)).at_most_once().await?;
    // Who follows the task has the receipt now, whatever becomes of the order.
    cx.emit(receipt.as_str()).await?;
    // Nothing of this task is in memory while it waits, be it for a week.
    let Elicited::Accepted(Ship { now: true }) = cx.elicit::<Ship>(format!("Send {item}?")).await? else {
        return Ok(format!("{receipt}; {item} is kept for you"));
    };
    Ok(format!("{receipt}; {item} is on its way"))
}

/// The server, which writes its charges here.
pub(crate) fn server(ledger: PathBuf) -> Server {
    Server::new("orders", "1.0.0").state(Ledger(ledger)).tool(order)
}
