//! A server process that can be killed, stopped and asked to go.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::place::Place;

/// How long a server may take to come up, or to go when asked: only a hang gets there.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server process. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    said: Arc<Said>,
    /// The server itself, which is not `child` when that is a tracer around it.
    pid: Option<Pid>,
}

/// What the server has said so far.
#[derive(Debug, Default)]
struct Said {
    state: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    lines: Vec<String>,
    address: Option<SocketAddr>,
    /// Where it tells its numbers, if it does.
    metrics: Option<SocketAddr>,
    ready: bool,
    closed: bool,
}

impl Server {
    /// Starts `program before… serve …` in the place, on a port of its own.
    pub(crate) fn start(
        place: &Place,
        program: &Path,
        before: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Self> {
        let (name, token) = place.mark();
        let store = format!("sqlite:{}", place.store().display());
        let mut command = Command::new(program);
        command
            .args(before)
            .args(["serve", "longhaul.toml", "--http", "127.0.0.1:0", "--store", &store])
            .current_dir(place.path(""))
            .env(name, token)
            .env_remove("LONGHAUL_CRASH_POINT")
            .envs(variables.iter().copied())
            .stdin(Stdio::null());
        let mut server = Self::spawn(command)?;
        if !before.is_empty() {
            server.pid = None;
        }
        Ok(server)
    }

    /// Starts a command that says on standard error where it serves, and when, as the program does.
    pub(crate) fn spawn(mut command: Command) -> Result<Self> {
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let program = command.get_program().to_owned();
        let mut child = command.spawn().with_context(|| format!("cannot run {}", program.display()))?;
        let stderr = child.stderr.take().context("stderr was piped")?;
        let said = Arc::new(Said::default());
        let listener = Arc::clone(&said);
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                listener.hear(line);
            }
            listener.close();
        });
        let pid = Some(Pid::from_child(&child));
        Ok(Self { child, said, pid })
    }

    /// Waits until it serves.
    pub(crate) fn ready(&self) -> Result<SocketAddr> {
        match self.came_up()? {
            Some(address) => Ok(address),
            None => bail!("it ended before it served"),
        }
    }

    /// Waits until it serves; `None` when it ended before that.
    pub(crate) fn came_up(&self) -> Result<Option<SocketAddr>> {
        let pending = |lines: &mut Lines| !lines.ready && !lines.closed;
        let (lines, timeout) = self
            .said
            .changed
            .wait_timeout_while(self.said.lock(), PATIENCE, pending)
            .unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            bail!("the server said nothing of being ready for {} s", PATIENCE.as_secs());
        }
        Ok(lines.address.filter(|_| lines.ready))
    }

    /// Where it serves, if it does already.
    pub(crate) fn serves(&self) -> Option<SocketAddr> {
        let lines = self.said.lock();
        lines.address.filter(|_| lines.ready)
    }

    /// Where it tells its numbers, if it says so.
    pub(crate) fn metrics(&self) -> Option<SocketAddr> {
        self.said.lock().metrics
    }

    /// Everything it has said on standard error.
    pub(crate) fn said(&self) -> String {
        self.said.lock().lines.join("\n")
    }

    /// The same once it has ended: what was under way is waited for.
    pub(crate) fn all_said(&self) -> String {
        let open = |lines: &mut Lines| !lines.closed;
        let waited = self.said.changed.wait_timeout_while(self.said.lock(), PATIENCE, open);
        waited.unwrap_or_else(PoisonError::into_inner).0.lines.join("\n")
    }

    /// Ends it with SIGKILL, and waits until it is gone.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill().context("the server cannot be killed")?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.pid.context("the server's own number is not known")?;
        kill_process(pid, signal).context("the server cannot be signalled")
    }

    /// Waits until it has ended by itself.
    pub(crate) fn ended(&mut self) -> Result<ExitStatus> {
        self.ended_within(PATIENCE)?.context("the server did not end")
    }

    /// Waits until it has ended by itself, or for so long.
    pub(crate) fn ended_within(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        let until = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The process that was started.
    pub(crate) fn number(&self) -> u32 {
        self.child.id()
    }

    /// Says which process is the server, when a tracer was started around it.
    pub(crate) fn is_process(&mut self, pid: Pid) {
        self.pid = Some(pid);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended already needs neither.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Said {
    fn hear(&self, line: String) {
        let mut lines = self.lock();
        let plain = plain(&line);
        // A worker has no endpoint, and says where its health is asked for.
        let at = |word| {
            let url = plain.trim_start().strip_prefix(word)?.trim_start();
            url.strip_prefix("http://")?.split('/').next()?.parse().ok()
        };
        lines.address = at("mcp").or_else(|| at("ready")).or(lines.address);
        lines.metrics = at("metrics").or(lines.metrics);
        lines.ready |= plain.starts_with("ready");
        lines.lines.push(plain);
        self.changed.notify_all();
    }

    fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The line without ANSI sequences.
fn plain(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, sequence)) = rest.split_once('\u{1b}') {
        text.push_str(before);
        rest = sequence.find(|c: char| c.is_ascii_alphabetic()).map_or("", |end| &sequence[end + 1..]);
    }
    text + rest
}
