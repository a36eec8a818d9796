//! A server that is killed at any moment while the suite runs against it. What the suite makes of that is nobody's
//! business; what is left of it in the store is what counts.

use std::hash::{BuildHasher, RandomState};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::interop::HttpServer;
use crate::site::{Site, kill_tree, shown};

/// The longest that a server lives, in milliseconds: long enough for a task to be made, asked after and parked.
const LONGEST_LIFE: u64 = 1500;

/// Kills the server this often, each time at a random moment, while what `suite` gives runs against its address, one
/// after the other.
///
/// # Errors
///
/// When the server does not start again, or the suite cannot be run.
pub(super) fn kill(
    site: &Site,
    server: &mut HttpServer,
    kills: usize,
    suite: impl Fn(usize, &str) -> Command,
) -> Result<()> {
    let (url, mut number) = (server.url(), 0);
    let mut running = Running::start(site, suite(number, &url))?;
    for _ in 0..kills {
        thread::sleep(Duration::from_millis(RandomState::new().hash_one(()) % LONGEST_LIFE));
        server.kill_and_start_again()?;
        if running.has_ended()? {
            number += 1;
            running = Running::start(site, suite(number, &url))?;
        }
    }
    println!("the server was killed {kills} times");
    Ok(())
}

/// The suite, which ends with this.
struct Running(Child);

impl Running {
    fn start(site: &Site, mut suite: Command) -> Result<Self> {
        println!("$ {} &", shown(&suite));
        suite.envs(site.noting()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        suite.spawn().map(Self).with_context(|| format!("cannot run {}", suite.get_program().display()))
    }

    fn has_ended(&mut self) -> Result<bool> {
        Ok(self.0.try_wait()?.is_some())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        kill_tree(&mut self.0);
    }
}
