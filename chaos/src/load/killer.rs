//! Who kills: keeps a node in its place, and ends it when so many tasks were made as the seed says.

use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::World;
use crate::mcp::Address;
use crate::place::Place;
use crate::random::Random;
use crate::server::Server;

/// How often it looks whether it is time.
const LOOK: Duration = Duration::from_millis(2);

/// Keeps the node of one place, and kills it at these numbers of tasks. The last one is left alive.
pub(super) fn kill(
    world: &World,
    place: &Place,
    address: &Address,
    moments: &[usize],
    mut random: Random,
) -> Result<Server> {
    for moment in moments {
        let mut server = start(world, place)?;
        let mut serves = false;
        while world.acknowledged() < *moment && !world.is_late() {
            serves = serves || is_there(&server, address);
            ensure!(server.ended_within(Duration::ZERO)?.is_none(), "a node ended: {}", server.said());
            thread::sleep(LOOK);
        }
        if world.is_late() {
            bail!("there was no time to kill any more: give it more minutes");
        }
        thread::sleep(Duration::from_millis(random.below(40)));
        // Not taken from the clients first: requests under way must see the kill.
        server.kill()?;
        if serves {
            world.kills.fetch_add(1, Ordering::Relaxed);
        } else {
            world.early.fetch_add(1, Ordering::Relaxed);
        }
        address.set(None);
    }
    let server = start(world, place)?;
    address.set(Some(server.ready().with_context(|| format!("the node said:\n{}", server.said()))?));
    Ok(server)
}

/// Whether the node serves; from then on clients find it.
fn is_there(server: &Server, address: &Address) -> bool {
    let serves = server.serves();
    if serves.is_some() {
        address.set(serves);
    }
    serves.is_some()
}

/// Starts a node.
pub(super) fn start(world: &World, place: &Place) -> Result<Server> {
    let mut command = Command::new(std::env::current_exe().context("this program has no name")?);
    let (name, token) = place.mark();
    command.arg("node").arg(place.store()).arg(&world.effects.0).env(name, token).stdin(Stdio::piped());
    Server::spawn(command)
}

/// At which numbers of tasks each place's node is killed: one in each part of the whole, of a place that the seed chooses.
pub(super) fn moments(kills: usize, tasks: usize, places: usize, mut random: Random) -> Vec<Vec<usize>> {
    let mut moments = vec![Vec::new(); places];
    for kill in 0..kills {
        let (begin, end) = (kill * tasks / kills, (kill + 1) * tasks / kills);
        let moment = random.between(begin as u64, end as u64) as usize;
        moments[random.index(places)].push(moment);
    }
    moments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kill_has_its_moment_before_the_last_task() {
        let moments = moments(1000, 10_000, 3, Random::new(7));
        assert_eq!(moments.iter().map(Vec::len).sum::<usize>(), 1000);
        assert!(moments.iter().all(|moments| moments.len() > 250 && moments.is_sorted()));
        assert!(moments.iter().flatten().all(|moment| *moment < 10_000));
    }
}
