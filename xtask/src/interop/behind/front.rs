//! Ours before others: one process, what is below it, and whether anything of that is left.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::interop::Server;
use crate::interop::server::HttpServer;
use crate::site::Site;
use crate::tally::Tally;

/// How long what was below a process may take to be gone, and a server of others to be listed.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Everything below ours has this in its environment, with a value of its own.
const MARK: &str = "INTEROP_FRONT";

/// A folder with a configuration, in which ours serves it.
#[derive(Debug)]
pub(super) struct Place {
    folder: TempDir,
    mark: OsString,
}

impl Place {
    /// A place with this configuration.
    ///
    /// # Errors
    ///
    /// When the folder cannot be made.
    pub(super) fn new(site: &Site, config: &str) -> Result<Self> {
        static PLACES: AtomicU32 = AtomicU32::new(0);
        let within = site.target.join("interop");
        fs::create_dir_all(&within).with_context(|| format!("cannot create {}", within.display()))?;
        let folder = tempfile::Builder::new().prefix("front-").tempdir_in(within)?;
        fs::write(folder.path().join("longhaul.toml"), config).context("cannot write a configuration")?;
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        Ok(Self { folder, mark: format!("{}-{number}", std::process::id()).into() })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What serves it. It runs in the root, where the paths of servers begin.
    pub(super) fn command(&self, site: &Site) -> Command {
        let mut command = Command::new(site.target.join("debug").join(Server::Commands.name()));
        command.arg("serve").arg(self.folder.path().join("longhaul.toml"));
        command.current_dir(&site.root).env(MARK, &self.mark).envs(site.noting());
        command
    }

    /// Whether every process that began below it has ended.
    ///
    /// # Errors
    ///
    /// When processes cannot be listed.
    pub(super) fn is_empty(&self) -> Result<Tally> {
        let until = Instant::now() + PATIENCE;
        loop {
            let living = marked(&self.mark)?;
            if living.is_empty() {
                return Ok(Tally::one(true));
            }
            if Instant::now() > until {
                println!("not ok - nothing of ours is left: there is\n#   {}", living.join("\n#   "));
                return Ok(Tally::one(false));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The processes with that mark, by their command lines.
fn marked(mark: &OsString) -> Result<Vec<String>> {
    let wanted = [MARK.as_bytes(), b"=", mark.as_encoded_bytes()].concat();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("processes cannot be listed")? {
        let path = entry.context("processes cannot be listed")?.path();
        // Those that end meanwhile, and those of others, cannot be read.
        let Ok(environment) = fs::read(path.join("environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == wanted) {
            let line = fs::read(path.join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            found.push(format!("{} {line}", path.display()));
        }
    }
    Ok(found)
}

/// What a server holds while it lives.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Its own process and those that began below it, by their command lines.
    pub(super) processes: Vec<String>,
    /// How many files, sockets and pipes it has open.
    pub(super) descriptors: usize,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} processes and {} descriptors", self.processes.len(), self.descriptors)
    }
}

/// Ours, which listens.
#[derive(Debug)]
pub(super) struct Front {
    // It ends before its folder does.
    server: HttpServer,
    place: Place,
}

impl Front {
    /// Serves this configuration.
    ///
    /// # Errors
    ///
    /// When it does not listen.
    pub(super) fn start(site: &Site, config: &str) -> Result<Self> {
        let place = Place::new(site, config)?;
        let server = HttpServer::run(|address| {
            let mut command = place.command(site);
            command.args(["--no-page", "--http", &address.to_string(), "--store"]);
            command.arg(format!("sqlite:{}", place.path().join("tasks.db").display()));
            Ok(command)
        })?;
        Ok(Self { server, place })
    }

    pub(super) fn url(&self) -> String {
        self.server.url()
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// What it holds now.
    ///
    /// # Errors
    ///
    /// When that cannot be seen.
    pub(super) fn held(&self) -> Result<Held> {
        let open = fs::read_dir(format!("/proc/{}/fd", self.server.pid()));
        let descriptors = open.context("its descriptors cannot be counted")?.count();
        Ok(Held { processes: marked(&self.place.mark)?, descriptors })
    }

    /// Waits until it lists a tool that begins with each of these: servers of others take their time to start.
    ///
    /// # Errors
    ///
    /// When it does not, in time.
    pub(super) fn lists<'p>(&self, site: &Site, begin: impl IntoIterator<Item = &'p str>) -> Result<()> {
        let mut awaited: Vec<&str> = begin.into_iter().collect();
        let until = Instant::now() + PATIENCE;
        loop {
            let mut command = Command::new(site.target.join("debug").join(Server::Commands.name()));
            let said = command.args(["tools", "--json", &self.url()]).output()?;
            let listed: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
            let names = listed["tools"].as_array().into_iter().flatten();
            // But those with which one goes on with a task.
            let names: Vec<&str> = names
                .filter_map(|tool| tool["name"].as_str())
                .filter(|name| !name.starts_with("task_"))
                .collect();
            awaited.retain(|begin| !names.iter().any(|name| name.starts_with(begin)));
            if awaited.is_empty() {
                return Ok(());
            }
            if Instant::now() > until {
                bail!("{} does not list tools of {awaited:?} but {names:?}", self.url());
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.place.path()
    }

    /// Kills it alone, and sees that what it has started ends.
    ///
    /// # Errors
    ///
    /// When that cannot be seen.
    pub(super) fn kill(&mut self) -> Result<Tally> {
        self.server.kill_alone()?;
        self.place.is_empty()
    }

    /// Starts it again, with the store that it had.
    ///
    /// # Errors
    ///
    /// When it does not listen.
    pub(super) fn start_again(&mut self) -> Result<()> {
        self.server.start_again()
    }
}
