//! The hottest operations, for callgrind to count: `cargo xtask bench check` runs this.
//!
//! Without an argument it prints a line for each: how often it does it, and its name. With a name it does that one, and with
//! a number behind it so often. All is one thread, bytes go through memory and no clock runs, so that an operation takes the
//! same instructions each time.
#![expect(clippy::print_stdout, reason = "whoever counts reads from there what can be counted")]

mod operations;
mod served;
mod wire;

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};

use operations::Operation;

fn main() -> Result<()> {
    // Time passes only when there is nothing to do, however slow the machine is.
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build()?;
    let mut operations = runtime.block_on(operations::all())?;
    let mut arguments = std::env::args().skip(1);
    let Some(name) = arguments.next() else {
        operations.iter().for_each(|operation| println!("{} {}", operation.times, operation.name));
        return Ok(());
    };
    let operation = operations.iter_mut().find(|operation| operation.name == name);
    let operation = operation.with_context(|| format!("there is no operation {name:?}"))?;
    if let Some(times) = arguments.next() {
        operation.times = times.parse().context("how often is a number")?;
    }
    // What the first ones set up belongs to none.
    repeat(&runtime, operation, WARM_UP)?;
    counted_by_callgrind(&runtime, operation)
}

/// How often an operation is done before it counts.
const WARM_UP: u32 = 20;

/// Callgrind counts while this function is on the stack: it looks for the name.
#[inline(never)]
fn counted_by_callgrind(runtime: &Runtime, operation: &mut Operation) -> Result<()> {
    repeat(runtime, operation, operation.times)
}

fn repeat(runtime: &Runtime, operation: &mut Operation, times: u32) -> Result<()> {
    runtime.block_on(async {
        for _ in 0..times {
            operation.once().await?;
        }
        Ok(())
    })
}
