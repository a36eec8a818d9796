//! A server as a process of its own, so that a test can kill it.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use longhaul_gateway::command::{Run, StartError};

use super::scene::{runs_at, sh};

/// A process that starts a run, or finds it, and goes through some steps with it. Killed when dropped.
pub(crate) struct Server {
    process: Child,
    said: BufReader<ChildStdout>,
}

impl Server {
    /// Steps: `little` (keep 1 KiB of each stream), `start`, `attach`, `commit`, `unplug` (attach where there is no socket), `cancel`, `wait`, `remove`, `hang`. The server says each when it is done.
    pub(crate) fn new(runs: &Path, id: &str, script: &str, steps: &[&str]) -> Self {
        Self::with_env(runs, id, script, steps, &[])
    }

    pub(crate) fn with_env(
        runs: &Path,
        id: &str,
        script: &str,
        steps: &[&str],
        env: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        Self::spawn(command.envs(env.iter().copied()), runs, id, script, steps)
    }

    /// One whose flushes, renames and words are noted, and those of all that it starts.
    pub(crate) fn traced(runs: &Path, id: &str, script: &str, steps: &[&str], trace: &Path) -> Self {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-y", "-s", "64", "-e", "trace=fsync,fdatasync,write,execve,/rename", "-o"]);
        Self::spawn(strace.arg(trace).arg(std::env::current_exe().unwrap()), runs, id, script, steps)
    }

    fn spawn(command: &mut Command, runs: &Path, id: &str, script: &str, steps: &[&str]) -> Self {
        let mut process = command
            .args(["--exact", "server::a_server_process", "--ignored", "--nocapture", "--test-threads=1"])
            .envs([
                ("TEST_SERVER_ID", id),
                ("TEST_SERVER_SCRIPT", script),
                ("TEST_SERVER_STEPS", &steps.join(",")),
            ])
            .env("TEST_SERVER_RUNS", runs)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stdout.take().unwrap());
        Self { process, said }
    }

    /// Reads until the server has said `word`. `false` when it ended first.
    pub(crate) fn hear(&mut self, word: &str) -> bool {
        let mut line = String::new();
        loop {
            line.clear();
            if self.said.read_line(&mut line).unwrap() == 0 {
                return false;
            }
            // The test harness, whose process this is, writes before and after.
            if line.trim_end().ends_with(&format!("server: {word}")) {
                return true;
            }
        }
    }

    /// Kills it, and waits until every process that it was about to start has been executed: until then such a
    /// process holds the server's descriptors and looks like the server.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.said.read_to_end(&mut Vec::new()).unwrap();
    }

    /// Waits until it has ended, and all that it has started.
    pub(crate) fn end(mut self) {
        self.process.wait().unwrap();
    }

    #[cfg(feature = "crash-points")]
    pub(crate) fn wait(mut self) -> std::process::ExitStatus {
        self.process.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _reaped = self.process.wait();
    }
}

#[test]
#[ignore = "a process that other tests start"]
fn a_server_process() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let runs = runs_at(Path::new(&variable("TEST_SERVER_RUNS")));
    let (id, steps) = (variable("TEST_SERVER_ID"), variable("TEST_SERVER_STEPS"));
    let mut spec = sh(&variable("TEST_SERVER_SCRIPT"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut run = None;
        for step in steps.split(',') {
            match step {
                "little" => spec = spec.clone().with_max_output(1 << 10),
                "start" => run = Some(started(Run::start(&runs, &id, &spec).await)),
                "attach" => run = Some(Run::attach(&runs, &id).await.unwrap()),
                "commit" => run.as_ref().unwrap().commit().await.unwrap(),
                "unplug" => {
                    drop(run.take());
                    std::fs::remove_file(runs.dir(&id).unwrap().join("control.sock")).unwrap();
                    run = Some(Run::attach(&runs, &id).await.unwrap());
                }
                "cancel" => run.as_ref().unwrap().cancel().await.unwrap(),
                "wait" => drop(run.as_ref().unwrap().wait().await.unwrap()),
                "remove" => assert!(runs.remove(&id).unwrap()),
                "hang" => tokio::time::sleep(Duration::from_secs(600)).await,
                other => panic!("no step {other}"),
            }
            std::io::stdout().write_all(format!("server: {step}\n").as_bytes()).unwrap();
            std::io::stdout().flush().unwrap();
        }
    });
}

fn started(started: Result<Run, StartError>) -> Run {
    started.unwrap_or_else(|error| panic!("not started: {error}: {error:?}"))
}
