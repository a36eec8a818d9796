//! What the tests share: a state directory of their own, small commands, and a look at what is left of them.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use longhaul_gateway::command::{
    Cut, Exit, Output, Run, RunError, RunsDir, Spec, State, Stream, SupervisorProgram,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::timeout;

/// The supervisor that the tests start.
pub(crate) const SUPERVISOR: &str = env!("CARGO_BIN_EXE_longhaul-supervise");

/// Far more than anything here takes: only a hang gets there.
pub(crate) const HANG: Duration = Duration::from_secs(120);

/// A state directory that goes with the test.
pub(crate) struct Scene {
    pub(crate) runs: RunsDir,
    pub(crate) root: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        Self { runs: runs_at(&root.path().join("runs")), root }
    }

    /// A file beside the runs, for a command to talk to its test with.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Runs a script to its end.
    pub(crate) async fn run(&self, script: &str) -> (Exit, Run) {
        self.run_spec(&sh(script)).await
    }

    pub(crate) async fn run_spec(&self, spec: &Spec) -> (Exit, Run) {
        let run = Run::start(&self.runs, "run", spec).await.unwrap();
        let exit = end_of(&run).await;
        (exit, run)
    }
}

pub(crate) fn runs_at(path: &Path) -> RunsDir {
    RunsDir::open(path).unwrap().with_supervisor(SupervisorProgram::new(SUPERVISOR))
}

/// A shell script with a short grace.
pub(crate) fn sh(script: &str) -> Spec {
    Spec::new(["/bin/sh", "-c", script], "/")
        .with_env([("PATH", "/usr/local/bin:/usr/bin:/bin")])
        .with_grace(Duration::from_millis(400))
}

pub(crate) async fn end_of(run: &Run) -> Exit {
    timeout(HANG, run.wait()).await.expect("the run ends").expect("the run is not lost")
}

pub(crate) async fn loss_of(run: &Run) -> RunError {
    timeout(HANG, run.wait()).await.expect("the loss is noticed").expect_err("the run is lost")
}

/// Everything that is kept of a stream.
pub(crate) fn bytes_of(dir: &Path, stream: Stream) -> Vec<u8> {
    let output = Output::open(dir, stream).unwrap();
    let (mut bytes, mut cursor) = (Vec::new(), 0);
    loop {
        let chunk = output.read(cursor, 1 << 20, Cut::Anywhere).unwrap();
        bytes.extend(&chunk.bytes);
        if chunk.next == cursor {
            return bytes;
        }
        cursor = chunk.next;
    }
}

pub(crate) fn text_of(run: &Run, stream: Stream) -> String {
    String::from_utf8(bytes_of(run.dir(), stream)).unwrap()
}

/// Waits for something that will be so soon, and fails when it never is.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < HANG, "never: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// As [`eventually`], for a test on a runtime of one thread.
pub(crate) async fn soon<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < HANG, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) async fn file_appears(path: &Path) -> String {
    soon(&format!("{}", path.display()), || fs::read_to_string(path).ok().filter(|text| text.ends_with('\n')))
        .await
}

/// The run's mark in the environment of its processes.
pub(crate) fn marker(dir: &Path) -> String {
    let spec: serde_json::Value = serde_json::from_slice(&fs::read(dir.join("spec.json")).unwrap()).unwrap();
    spec["marker"].as_str().unwrap().to_owned()
}

/// A fact in the run's `pid` file.
pub(crate) fn pid_fact(dir: &Path, name: &str) -> Option<i32> {
    let record = fs::read_to_string(dir.join("pid")).ok()?;
    let json = record.get(..record.len().checked_sub(17)?)?;
    let facts: serde_json::Value = serde_json::from_str(json).ok()?;
    facts[name].as_i64().and_then(|pid| pid.try_into().ok())
}

pub(crate) fn supervisor_pid(dir: &Path) -> Pid {
    let pid = eventually("the supervisor's pid", || pid_fact(dir, "supervisor"));
    Pid::from_raw(pid).unwrap()
}

/// Whether a process runs; one that ended and was not reaped yet by its parent does not.
pub(crate) fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// The living processes whose command line or environment holds `text`, as (pid, command line).
pub(crate) fn processes_with(text: &str) -> Vec<(i32, String)> {
    let own = std::process::id().cast_signed();
    let holds = |pid: i32, file: &str| {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ")
    };
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != own && lives(*pid))
        .map(|pid| (pid, holds(pid, "cmdline"), holds(pid, "environ")))
        .filter(|(_, cmdline, environ)| cmdline.contains(text) || environ.contains(text))
        .map(|(pid, cmdline, _)| (pid, cmdline))
        .collect()
}

/// Fails when anything of the run is left: its supervisor, or what carries its mark.
pub(crate) fn expect_nothing_left(dir: &Path) {
    let left = processes_with(&marker(dir));
    assert!(left.is_empty(), "left of the run: {left:?}");
    eventually("the supervisor's own end", || {
        processes_with(&dir.display().to_string())
            .iter()
            .all(|(_, line)| !line.contains("supervise"))
            .then_some(())
    });
}

pub(crate) fn kill(pid: Pid, signal: Signal) {
    kill_process(pid, signal).unwrap();
}

pub(crate) fn is_alive(runs: &RunsDir, id: &str) -> bool {
    matches!(runs.state(id).unwrap(), State::Alive { .. })
}
