//! A real database of somebody who may do little, which can be killed and started again.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::Kind;
use super::remains::Remains;
use super::witness::Witness;
use crate::place::Place;
use crate::processes;

/// A database. It ends with its handle, or with this process if that ends first.
#[derive(Debug)]
pub(super) struct Database {
    kind: Kind,
    folder: TempDir,
    pub(super) address: SocketAddr,
    /// As whom it runs, if this is root.
    user: Option<(u32, u32)>,
    /// What marks its processes.
    mark: (&'static str, String),
    guard: Option<Child>,
}

/// Runs a server until its input ends; then sends it the signal by which the script is called. Whoever a shell starts beside itself
/// does not hear of SIGQUIT unless it listens for it, as PostgreSQL does.
const GUARD: &str = r#"trap '' INT; exec 3<&0; "$@" </dev/null 3<&- & echo $! >server.pid
    read -r _ <&3; kill -"$0" $!; wait $!"#;

/// How long a database may take until it answers.
const PATIENCE: Duration = Duration::from_secs(60);

impl Database {
    /// A new one, which runs.
    pub(super) fn start(kind: Kind, place: &Place) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("longhaul-fleet-").tempdir()?;
        let user = unprivileged(match kind {
            Kind::Postgres => "postgres",
            Kind::Redis => "redis",
        })?;
        if let Some((user, group)) = user {
            chown(folder.path(), Some(user), Some(group)).context("the folder cannot be given away")?;
        }
        // Free a moment ago, and nobody else's as long as nobody asks for it by its number.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let (name, token) = place.mark();
        let mark = (name, token.to_owned());
        let mut database = Self { kind, folder, address, user, mark, guard: None };
        if kind == Kind::Postgres {
            let made = database.command(&postgres()?.join("initdb")).args(INITDB).arg("data").output();
            let made = made.context("initdb cannot be started")?;
            ensure!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        }
        database.launch()?;
        Ok(database)
    }

    /// Its URL, by whatever way leads there, for somebody of this name.
    pub(super) fn url(&self, way: SocketAddr, who: &str) -> String {
        match self.kind {
            Kind::Postgres => {
                format!("postgres://tester@{way}/postgres?sslmode=disable&application_name={who}")
            }
            Kind::Redis => format!("redis://{way}"),
        }
    }

    /// Has every change of its store be seen, which is there.
    pub(super) fn witness(&self) -> Result<Witness> {
        Witness::begin(self.kind, self.address, &self.url(self.address, "witness"))
    }

    /// What is in it now.
    pub(super) fn remains(&self) -> Result<Remains> {
        Remains::of(self.kind, &self.url(self.address, "witness"))
    }

    /// Starts it, and waits until it answers.
    pub(super) fn launch(&mut self) -> Result<()> {
        let port = self.address.port().to_string();
        let mut words: Vec<String> = Vec::new();
        match self.kind {
            Kind::Postgres => {
                words.push(postgres()?.join("postgres").display().to_string());
                words.extend(["-D", "data", "-k", ".", "-p", &port].map(str::to_owned));
                let settings = ["listen_addresses=127.0.0.1", "max_connections=300", "shared_buffers=32MB"];
                words.extend(settings.iter().flat_map(|set| ["-c".to_owned(), (*set).to_owned()]));
            }
            Kind::Redis => {
                let settings = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];
                words.extend(["redis-server", "--bind", "127.0.0.1", "--port", &port].map(str::to_owned));
                words.extend(settings.map(str::to_owned));
            }
        }
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log())?;
        let mut command = Command::new("sh");
        // That of the one before.
        let _there_or_not = fs::remove_file(self.number_at());
        let ends_by = if self.kind == Kind::Postgres { "QUIT" } else { "KILL" };
        command.args(["-c", GUARD, ends_by]).args(self.prefix()).args(words);
        command.current_dir(self.folder.path()).env(self.mark.0, &self.mark.1);
        command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        self.guard = Some(command.spawn().context("sh cannot be started")?);
        let until = Instant::now() + PATIENCE;
        while !self.answers() {
            let has_ended = self.number().is_ok_and(|server| !processes::lives(server));
            if has_ended || Instant::now() > until {
                let said = fs::read_to_string(self.log()).unwrap_or_default();
                bail!("{} does not start; it said:\n{said}", self.kind);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Kills it and all that belongs to it, as a loss of power to its machine would.
    pub(super) fn kill(&mut self) -> Result<()> {
        let server = self.number()?;
        let signal = |pid, signal| {
            if let Some(pid) = Pid::from_raw(pid) {
                // A child may have ended with the server.
                let _ = kill_process(pid, signal);
            }
        };
        // It starts no more children: one that lived on would keep the memory of a database from the next.
        signal(server, Signal::STOP);
        until("stand still", || !processes::lives(server) || processes::stands_still(server))?;
        let all: Vec<i32> = std::iter::once(server).chain(processes::children(server)).collect();
        all.iter().for_each(|pid| signal(*pid, Signal::KILL));
        until("be gone", || !all.iter().any(|pid| processes::lives(*pid)))?;
        self.end()
    }

    /// The number of its process, once it has been started.
    fn number(&self) -> Result<i32> {
        let said = fs::read_to_string(self.number_at())?;
        said.trim().parse().context("its number is none")
    }

    fn number_at(&self) -> PathBuf {
        self.folder.path().join("server.pid")
    }

    fn end(&mut self) -> Result<()> {
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            guard.wait()?;
        }
        Ok(())
    }

    /// Whether it answers.
    fn answers(&self) -> bool {
        match self.kind {
            Kind::Postgres => postgres().is_ok_and(|bin| {
                let port = self.address.port().to_string();
                let mut probe = self.command(&bin.join("pg_isready"));
                probe.args(["-q", "-h", "127.0.0.1", "-p", &port]).stdin(Stdio::null());
                probe.status().is_ok_and(|status| status.success())
            }),
            Kind::Redis => TcpStream::connect(self.address).is_ok_and(|mut stream| {
                let mut answer = [0; 5];
                let asked = stream.write_all(b"PING\r\n").and_then(|()| stream.read_exact(&mut answer));
                asked.is_ok() && answer == *b"+PONG"
            }),
        }
    }

    fn command(&self, program: &Path) -> Command {
        let mut words = self.prefix();
        words.push(program.display().to_string());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(self.folder.path());
        command
    }

    /// Words before a command that make it one of somebody who may do little.
    fn prefix(&self) -> Vec<String> {
        let Some((user, group)) = self.user else { return Vec::new() };
        let [user, group] = [format!("--reuid={user}"), format!("--regid={group}")];
        vec!["setpriv".to_owned(), user, group, "--clear-groups".to_owned()]
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Nothing of it is looked at any more.
        let _ = self.end();
    }
}

/// How a database is made, before the name of its folder.
const INITDB: [&str; 7] = [
    "--no-sync",
    "--no-instructions",
    "--auth=trust",
    "--encoding=UTF8",
    "--locale=C",
    "--username=tester",
    "--pgdata",
];

/// The programs of the newest PostgreSQL that Debian's packages have installed.
fn postgres() -> Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let bins = versions.map(|version| version.path().join("bin"));
    let number = |bin: &Path| bin.parent()?.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = bins.filter(|bin| bin.join("postgres").exists()).max_by_key(|bin| number(bin));
    newest.context("PostgreSQL is missing: apt-get install -y postgresql")
}

/// Waits until a killed database has come to that.
fn until(what: &str, mut holds: impl FnMut() -> bool) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        ensure!(Instant::now() < until, "a database that is killed does not {what}");
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// As whom servers run, if this is root: the user that the package has made, or nobody.
fn unprivileged(name: &str) -> Result<Option<(u32, u32)>> {
    let id = |arguments: &[&str]| {
        let output = Command::new("id").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        text.trim().parse::<u32>().ok()
    };
    if id(&["-u"]) != Some(0) {
        return Ok(None);
    }
    let of = |name| Some((id(&["-u", name])?, id(&["-g", name])?));
    Ok(Some(of(name).or_else(|| of("nobody")).context("there is nobody who may do little")?))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// A process of it that lived on would keep its memory, with which the next does not start.
    #[test]
    fn nothing_is_left_of_one_that_is_killed_while_many_connect() {
        let place = Place::new(Path::new("nothing")).unwrap();
        let mut database = Database::start(Kind::Postgres, &place).unwrap();
        let (address, over) = (database.address, AtomicBool::new(false));
        let come = || {
            while !over.load(Ordering::Relaxed) {
                // It is not always there.
                let came = TcpStream::connect(address);
                thread::sleep(Duration::from_millis(5));
                drop(came);
            }
        };
        let went = thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(come);
            }
            let went = (0..6).try_for_each(|_| {
                database.kill()?;
                let data = database.folder.path().join("data");
                let left = processes::all().filter(|pid| processes::lives(*pid));
                let left =
                    left.filter(|pid| fs::read_link(format!("/proc/{pid}/cwd")).ok() == Some(data.clone()));
                ensure!(left.count() == 0, "something of it is left");
                database.launch()
            });
            over.store(true, Ordering::Relaxed);
            went
        });
        went.unwrap();
    }
}
