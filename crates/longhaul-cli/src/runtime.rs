//! Running a verb that waits for others.

use std::future::Future;

use anyhow::Context;

use crate::exit::Exit;
use crate::failure::Outcome;

/// Runs a verb to its end and reports its failure, as JSON if `json`.
pub(crate) fn run(json: bool, verb: impl Future<Output = Outcome>) -> Exit {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let ended = match built.context("the runtime cannot start") {
        Ok(runtime) => {
            let ended = runtime.block_on(verb);
            // Whatever is still under way, nobody waits for it.
            runtime.shutdown_background();
            ended
        }
        Err(error) => Err(error.into()),
    };
    ended.unwrap_or_else(|failure| failure.report(json))
}
