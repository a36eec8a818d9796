//! Who kills: keeps a node in its place, and ends it when so many tasks were made as the seed says, or lets it stand still
//! until others have taken its work.

use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use longhaul_test::Random;
use rustix::process::Signal;

use super::effects::{Stop, moment, now};
use super::{World, node, witness};
use crate::mcp::Address;
use crate::place::Place;
use crate::server::Server;

/// How often it looks whether it is time.
const LOOK: Duration = Duration::from_millis(2);

/// How often a node stands still, at most, until it has lost something.
const TRIES: usize = 3;

/// How long a node is given for what is to happen to it when it stands still.
const STANDS_STILL: Duration = node::LEASE.saturating_add(Duration::from_secs(1));

/// How long it then goes on, at least.
const GOES_ON: Duration = Duration::from_millis(500);

/// Keeps the node of one place, and kills it at these numbers of tasks. The last one is left alive.
pub(super) fn kill(
    world: &World,
    place: &Place,
    address: &Address,
    moments: &[Moment],
    mut random: Random,
) -> Result<Server> {
    for Moment { tasks: moment, stops } in moments {
        let mut server = start(world, place)?;
        let mut serves = false;
        let mut tries = if *stops { TRIES } else { 0 };
        while (tries > 0 || world.acknowledged() < *moment) && !world.is_late() {
            serves = serves || is_there(&server, address);
            if world.acknowledged() == world.plan.tasks {
                tries = 0;
            }
            if tries > 0 && serves && world.acknowledged() >= *moment {
                tries = stand_still(world, place, address, &server)?.map_or(tries, |lost| match lost {
                    true => 0,
                    false => tries - 1,
                });
            }
            ensure!(server.ended_within(Duration::ZERO)?.is_none(), "a node ended: {}", server.said());
            thread::sleep(LOOK);
        }
        if world.is_late() {
            bail!("there was no time to kill any more: give it more minutes");
        }
        thread::sleep(Duration::from_millis(random.below(40)));
        // Not taken from the clients first: requests under way must see the kill.
        end(world, &mut server)?;
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

/// Ends a node, and notes when.
pub(super) fn end(world: &World, server: &mut Server) -> Result<()> {
    let when = now();
    server.kill()?;
    if let Some(node) = name(&server.all_said()) {
        world.ended(node, when);
    }
    Ok(())
}

/// The name that a node has in the store, once it has said so.
pub(super) fn name(said: &str) -> Option<&str> {
    said.lines().find_map(|line| line.strip_prefix(node::NAME))
}

/// Stops a node that works on something, until another has taken that or could have; whether one has. One that was stopped
/// in the middle of a write keeps the others from theirs.
fn stand_still(world: &World, place: &Place, address: &Address, server: &Server) -> Result<Option<bool>> {
    let said = server.said();
    let node = name(&said).context("a node has not said who it is")?;
    if !witness::holds(&place.store(), node)? {
        return Ok(None);
    }
    let (from, began) = (moment(), Instant::now());
    server.signal(Signal::STOP)?;
    // What it was asked before waits for it.
    address.set(None);
    let mut lost = false;
    while !lost && began.elapsed() < STANDS_STILL {
        thread::sleep(Duration::from_millis(100));
        lost = witness::has_lost(&place.store(), node)?;
    }
    // The others are in the middle of it when it comes back.
    thread::sleep(Duration::from_millis(100));
    server.signal(Signal::CONT)?;
    world.stopped(Stop { node: node.to_owned(), from, until: moment(), is_cut_off: false });
    address.set(server.serves());
    if !lost {
        // Whoever had the turn to write ends that.
        thread::sleep(GOES_ON);
    }
    Ok(Some(lost))
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
    command.arg("node").arg(place.store()).arg(&world.effects.folder).env(name, token).stdin(Stdio::piped());
    Server::spawn(command)
}

/// When a node is killed.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Moment {
    /// When so many tasks were made.
    tasks: usize,
    /// It stands still before.
    stops: bool,
}

/// One in how many kills is of a node that stood still before.
const STOPS: usize = 40;

/// At which numbers of tasks each place's node is killed: one in each part of the whole, of a place that the seed chooses.
pub(super) fn moments(kills: usize, tasks: usize, places: usize, mut random: Random) -> Vec<Vec<Moment>> {
    let mut moments = vec![Vec::new(); places];
    for kill in 0..kills {
        let (begin, end) = (kill * tasks / kills, (kill + 1) * tasks / kills);
        let tasks = random.between(begin as u64, end as u64) as usize;
        // Not the first ones, when little is under way.
        let stops = kill % STOPS == STOPS / 4;
        moments[random.index(places)].push(Moment { tasks, stops });
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
        assert!(moments.iter().flatten().all(|moment| moment.tasks < 10_000));
        assert_eq!(moments.iter().flatten().filter(|moment| moment.stops).count(), 25);
    }
}
