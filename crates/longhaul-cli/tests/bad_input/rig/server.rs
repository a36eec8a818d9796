//! A server process: what it says, how it ends, how much memory it holds.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::place::Place;
use super::{HANG, eventually};

/// A server over HTTP. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    said: Arc<Said>,
}

/// What a process has said on standard error.
#[derive(Debug, Default)]
pub(crate) struct Said {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: Vec<String>,
    address: Option<SocketAddr>,
    ready: bool,
    closed: bool,
}

impl Server {
    /// Starts `longhaul serve longhaul.toml` on a port of its own, and waits until it serves.
    pub(crate) fn start(place: &Place) -> Self {
        Self::start_with(place, &[], &[])
    }

    /// The same, with more arguments and variables.
    pub(crate) fn start_with(place: &Place, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let server = Self::launch(place, arguments, variables);
        assert!(server.said.ready(), "it ended before it served; it said:\n{}", server.said());
        server
    }

    /// The same, which may open only so many files.
    pub(crate) fn start_limited(place: &Place, files: usize) -> Self {
        let command = place.program();
        let script = format!("ulimit -n {files}; exec \"$@\"");
        let mut limited = Command::new("sh");
        limited.args(["-c", &script, "sh"]).arg(command.get_program());
        limited.args(["serve", "longhaul.toml", "--http", "127.0.0.1:0", "--store", "sqlite:tasks.db"]);
        limited.current_dir(place.path(""));
        limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let server = Self::spawn(&mut limited);
        assert!(server.said.ready(), "it ended before it served; it said:\n{}", server.said());
        server
    }

    /// The same, not waiting: it may well refuse to serve.
    pub(crate) fn launch(place: &Place, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = place.program();
        command.args(["serve", "longhaul.toml", "--http", "127.0.0.1:0"]).args(arguments);
        if !arguments.contains(&"--store") {
            command.args(["--store", "sqlite:tasks.db"]);
        }
        command.envs(variables.iter().copied());
        Self::spawn(&mut command)
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = Said::listen(child.stderr.take().unwrap());
        Self { child, said }
    }

    /// Waits until it serves. `false` when it ended before that.
    pub(crate) fn serves(&self) -> bool {
        self.said.ready()
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.said.lock().address.unwrap()
    }

    /// Everything it has said so far.
    pub(crate) fn said(&self) -> String {
        self.said.text()
    }

    /// Its number.
    pub(crate) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Waits until nothing else runs in its place. A cancel is answered before its command has ended: a server that is killed in
    /// between leaves that to the next one.
    pub(crate) fn is_alone(&self, place: &Place) {
        let others = || place.processes().into_iter().any(|(pid, _)| pid != self.pid());
        eventually("the end of every command", || (!others()).then_some(()));
    }

    /// Ends it with SIGKILL, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    /// Waits until it has ended by itself, and has said its last.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let status = eventually("the end of the server", || self.child.try_wait().unwrap());
        self.said.closed();
        status
    }

    /// The memory it holds, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        memory(self.pid())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the server said:\n{}", self.said());
        }
        // One that has ended already needs neither.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The resident memory of a process, in bytes.
pub(crate) fn memory(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

impl Said {
    /// Collects what comes, in a thread of its own.
    pub(crate) fn listen(stderr: impl std::io::Read + Send + 'static) -> Arc<Self> {
        let said = Arc::new(Self::default());
        let listener = Arc::clone(&said);
        thread::spawn(move || {
            for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                listener.hear(&String::from_utf8_lossy(&line));
            }
            listener.lock().closed = true;
            listener.changed.notify_all();
        });
        said
    }

    /// Waits until it serves. `false` when it ended before that.
    pub(crate) fn ready(&self) -> bool {
        self.wait(|state| state.ready || state.closed);
        self.lock().ready
    }

    /// Waits until nothing more can come.
    pub(crate) fn closed(&self) {
        self.wait(|state| state.closed);
    }

    /// Everything so far.
    pub(crate) fn text(&self) -> String {
        self.lock().lines.join("\n")
    }

    fn wait(&self, until: impl Fn(&State) -> bool) {
        let waited = self.changed.wait_timeout_while(self.lock(), HANG, |state| !until(state));
        let (_state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "it said nothing more for {} s", HANG.as_secs());
    }

    fn hear(&self, line: &str) {
        let mut state = self.lock();
        if let Some(url) = line.trim_start().strip_prefix("mcp") {
            let address = url.trim_start().strip_prefix("http://").and_then(|rest| rest.split('/').next());
            state.address = address.and_then(|address| address.parse().ok());
        }
        state.ready |= line.starts_with("ready");
        state.lines.push(line.to_owned());
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
