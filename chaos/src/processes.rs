//! What runs of a place: servers, supervisors, commands and what escaped from them.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::place::Place;

/// A process that belongs to a place.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) line: String,
}

impl Process {
    /// Whether it supervises a run. A command shows its supervisor's line until it is executed, and is no supervisor.
    pub(crate) fn is_supervisor(&self) -> bool {
        let supervises = |line: &str| line.contains(" supervise ");
        let parent = parent(self.pid);
        supervises(&self.line) && parent.is_some_and(|parent: i32| !supervises(&read(parent, "cmdline")))
    }

    /// Its number, for a signal.
    pub(crate) fn number(&self) -> Option<Pid> {
        Pid::from_raw(self.pid)
    }
}

/// The living processes of a place, its servers included.
pub(crate) fn of(place: &Place) -> Vec<Process> {
    let mark = place.mark_of_all();
    let folder = place.path("").display().to_string();
    living(|process, environment| environment.contains(&mark) || process.line.contains(&folder))
}

/// The living processes of one run, its supervisor left out.
pub(crate) fn of_run(place: &Place, task: &str) -> Result<Vec<Process>> {
    let spec = place.runs().join(task).join("spec.json");
    let spec: serde_json::Value = match fs::read(&spec) {
        Ok(spec) => serde_json::from_slice(&spec)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("{} cannot be read", spec.display())),
    };
    let mark = spec["marker"].as_str().context("a run's specification has a marker")?;
    let mark = format!("LONGHAUL_RUN={mark}");
    Ok(living(|_, environment| environment.contains(&mark)))
}

/// Ends everything that a failed case has left, each process by its number.
pub(crate) fn end_all(place: &Place) {
    end(of(place));
}

/// The same by what [marks](Place::mark_of_all) its processes.
pub(crate) fn end_marked(mark: &str) {
    end(living(|_, environment| environment.contains(mark)));
}

fn end(all: Vec<Process>) {
    for process in all {
        if let Some(pid) = process.number() {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Whether the process of this number runs.
pub(crate) fn lives(pid: i32) -> bool {
    is_living(&read(pid, "stat"))
}

/// Whether it was stopped, and has come to stand still.
pub(crate) fn stands_still(pid: i32) -> bool {
    after_name(&read(pid, "stat")).starts_with('T')
}

/// The processes that a process has started.
pub(crate) fn children(parent: i32) -> Vec<i32> {
    all().filter(|pid| self::parent(*pid) == Some(parent)).collect()
}

/// Waits until nothing of the place lives but the process numbered `except`.
pub(crate) fn expect_none(place: &Place, except: Option<u32>, patience: Duration) -> Result<()> {
    let until = Instant::now() + patience;
    loop {
        let left = of(place);
        let left: Vec<Process> = left
            .into_iter()
            .filter(|left| except.is_none_or(|pid| left.pid.cast_unsigned() != pid))
            .collect();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= until {
            bail!("{} processes are left: {left:?}", left.len());
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn living(belongs: impl Fn(&Process, &str) -> bool) -> Vec<Process> {
    let own = std::process::id().cast_signed();
    all()
        .filter(|pid| *pid != own)
        .map(|pid| (Process { pid, line: read(pid, "cmdline") }, read(pid, "environ")))
        .filter(|(process, environment)| belongs(process, environment))
        // Asked last: one that has just ended shows no environment any more.
        .filter(|(process, _)| is_living(&read(process.pid, "stat")))
        .map(|(process, _)| process)
        .collect()
}

/// A file of a process as text, empty when there is no such process.
fn read(pid: i32, file: &str) -> String {
    let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// Who has started a process.
fn parent(pid: i32) -> Option<i32> {
    after_name(&read(pid, "stat")).split_whitespace().nth(1)?.parse().ok()
}

/// The number of every process.
pub(crate) fn all() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// What the line of `/proc/PID/stat` says behind the name, which may have anything in it: the state, the parent and more.
fn after_name(stat: &str) -> &str {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest.trim_start())
}

/// Whether the line of `/proc/PID/stat` is of a process that runs; one that ended and was not reaped does not.
fn is_living(stat: &str) -> bool {
    let rest = after_name(stat);
    !rest.is_empty() && !rest.starts_with(['Z', 'X'])
}
