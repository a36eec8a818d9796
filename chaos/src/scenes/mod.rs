//! Particular misfortunes, each as a story: what happens, and what must be true afterwards.

mod callers;
mod program;
mod servers;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::case::Case;
use crate::mcp::{Address, Client, Era};
use crate::place::Place;
use crate::server::Server;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(90);

/// Every scene, in each dialect.
pub(crate) fn cases(only: Option<&str>) -> Vec<Case> {
    type Scene = (&'static str, fn(&Place, Era) -> Result<String>);
    let scenes: &[Scene] = &[
        (
            "a stopped server loses its lease to another and records nothing when it comes back",
            servers::stopped_for_long,
        ),
        (
            "a second server leaves running tasks alone and takes them up from a dead one",
            servers::second_server,
        ),
        ("a server stopped for a while goes on as if nothing had been", servers::stopped_for_a_while),
        ("SIGTERM hands held calls over, and their commands live on", servers::terminated),
        ("SIGTERM again and again loses nothing", servers::terminated_again_and_again),
        ("a server whose program was deleted still starts commands", program::deleted),
        ("a server whose program was replaced still starts commands", program::replaced),
        ("a server short of descriptors loses nothing that it finds again", program::short_of_descriptors),
        ("a cancel sent many times at once is one cancel", callers::cancelled_at_once),
        ("a result asked for by many is the same for all", callers::asked_by_many),
        ("a caller that is gone before the answer leaves at most one run", callers::gone_before_the_answer),
        ("a request id used again is a call of its own", callers::same_request_id),
    ];
    scenes
        .iter()
        .flat_map(|(name, scene)| Era::BOTH.map(|era| (*name, *scene, era)))
        .filter(|(name, ..)| only.is_none_or(|only| name.contains(only)))
        .map(|(name, scene, era)| Case::new(format!("{name} {}", era.name()), move |place| scene(place, era)))
        .collect()
}

/// A server and a client of it.
fn serve(place: &Place, era: Era) -> Result<(Server, Client)> {
    let server = place.serve(&[])?;
    let address = Address::of(server.ready()?);
    Ok((server, Client::new(era, address)))
}

/// Waits until something is so.
fn until(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while !holds()? {
        ensure!(began.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
