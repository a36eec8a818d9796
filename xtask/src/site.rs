//! Where the checks run: the repository, its build folder, and the time they have.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::mem;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::tally::Tally;

/// The variable that has what commands print shown as it comes, when it is not empty.
pub(crate) const VERBOSE: &str = "XTASK_VERBOSE";

/// The most lines that are shown of a command that failed.
const SHOWN: usize = 2_000;

/// The most lines of it that are shown again at the end of everything, where whoever sees no more than that finds the
/// reason.
const RECALLED: usize = 80;

/// How long the end of a command's output is waited for after its end, on any machine.
const LAST_WORDS: Duration = Duration::from_secs(30);

/// How often a running command is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// The place and the time of one run.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// The root of the repository.
    pub(crate) root: PathBuf,
    /// Where cargo builds, and where everything else that is made here goes.
    pub(crate) target: PathBuf,
    /// When everything must be done.
    pub(crate) deadline: Instant,
    /// Where programs of ours note what they say, if they do.
    pub(crate) notes: Option<PathBuf>,
    /// What commands said of what failed.
    complaints: Arc<Mutex<Vec<String>>>,
    /// Whether the programs of the tests were built by the tests.
    pub(crate) are_programs_built: Arc<AtomicBool>,
    /// Whether what commands print is shown though they succeed.
    is_verbose: bool,
    /// How long the end of a command's output is waited for after its end.
    last_words: Duration,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Whether it exited with 0.
    pub(crate) success: bool,
    /// What it printed, by lines.
    pub(crate) lines: Vec<String>,
}

impl Site {
    /// A place where nothing has run yet.
    pub(crate) fn new(root: PathBuf, target: PathBuf, deadline: Instant) -> Self {
        let is_verbose = std::env::var_os(VERBOSE).is_some_and(|value| !value.is_empty());
        Self {
            root,
            target,
            deadline,
            notes: None,
            complaints: Arc::default(),
            are_programs_built: Arc::default(),
            is_verbose,
            last_words: LAST_WORDS,
        }
    }

    /// The same place, where nothing has been said of failures yet.
    pub(crate) fn apart(&self) -> Self {
        Self { complaints: Arc::default(), ..self.clone() }
    }

    /// A cargo command in the root.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(arguments).current_dir(&self.root);
        command
    }

    /// A cargo command in the root that takes of the processors what others leave.
    pub(crate) fn patient_cargo(&self, arguments: &[&str]) -> Command {
        let cargo = self.cargo(arguments);
        let mut command = Command::new("nice");
        command.arg("-n10").arg(cargo.get_program()).args(arguments).current_dir(&self.root);
        command
    }

    /// What a program of ours has in its environment to note what it says.
    pub(crate) fn noting(&self) -> Option<(&'static str, &Path)> {
        self.notes.as_deref().map(|folder| ("LONGHAUL_WIRE", folder))
    }

    /// Runs a command to its end and prints it; if it fails, also what it printed. Past the deadline it and its
    /// children are killed.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or was still running at the deadline. A failed exit is not an error.
    pub(crate) fn run(&self, command: &mut Command) -> Result<Ran> {
        self.run_telling(command, told)
    }

    /// As [`Site::run`], with what is worth showing of a failure chosen by `telling`.
    ///
    /// # Errors
    ///
    /// As [`Site::run`].
    pub(crate) fn run_telling(
        &self,
        command: &mut Command,
        telling: fn(&[String]) -> Vec<&str>,
    ) -> Result<Ran> {
        println!("$ {}", shown(command));
        let begun = Instant::now();
        let (said, saying) = io::pipe().context("cannot make a pipe")?;
        let mut child = command
            .envs(self.noting())
            .stdin(Stdio::null())
            .stdout(saying.try_clone().context("cannot make a pipe")?)
            .stderr(saying)
            .spawn()
            .with_context(|| format!("cannot run {}", command.get_program().display()))?;
        // The command's ends of the pipe would keep it open here as well.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let is_verbose = self.is_verbose;
        let pipe = fs::read_link(format!("/proc/self/fd/{}", said.as_raw_fd())).unwrap_or_default();
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let (end, ended) = mpsc::channel::<()>();
        let reading = Arc::clone(&lines);
        thread::spawn(move || {
            read(BufReader::new(said), |line| {
                if is_verbose {
                    println!("{line}");
                }
                reading.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            });
            drop(end);
        });
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if Instant::now() > self.deadline {
                kill_tree(&mut child);
                break None;
            }
            thread::sleep(LOOK);
        };
        // What outlives the command may keep its output open. Whoever started that did not end it, and that is a fault.
        let is_left = matches!(ended.recv_timeout(self.last_words), Err(mpsc::RecvTimeoutError::Timeout));
        let lines = mem::take(&mut *lines.lock().unwrap_or_else(PoisonError::into_inner));
        let success = status.is_some_and(|status| status.success()) && !is_left;
        let mut told: Vec<&str> = if success { Vec::new() } else { telling(&lines) };
        let left: Vec<String> = if is_left { holders(&pipe) } else { Vec::new() };
        if is_left {
            told.push("it is over, and something that it started has not ended:");
            told.extend(left.iter().map(String::as_str));
        }
        if !is_verbose {
            last(&told, SHOWN).for_each(|line| println!("{line}"));
        }
        let complaints = lines.iter().filter(|line| is_complaint(line)).cloned();
        let mut kept = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(complaints);
        kept.extend(last(&told, RECALLED).map(Cow::into_owned));
        drop(kept);
        let took = begun.elapsed().as_secs_f64();
        match status {
            None => bail!("{} was still running when the time was up, and was killed", shown(command)),
            Some(status) if !success => println!("  failed after {took:.1} s: {status}"),
            Some(_) => println!("  took {took:.1} s"),
        }
        Ok(Ran { success, lines })
    }

    /// What could not be carried out is one failure: it is printed, and kept as the complaints of commands are.
    pub(crate) fn failed(&self, what: &str, error: &anyhow::Error) -> Tally {
        self.complain(format!("{what} could not be carried out: {error:#}"))
    }

    /// One failure, with its reason, which is printed and kept as the complaints of commands are.
    pub(crate) fn complain(&self, complaint: String) -> Tally {
        println!("{complaint}");
        self.complaints.lock().unwrap_or_else(PoisonError::into_inner).push(complaint);
        Tally::one(false)
    }

    /// The lines in which commands named what failed, and the last of what they said of it, since this was last asked.
    pub(crate) fn complaints(&self) -> Vec<String> {
        mem::take(&mut *self.complaints.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// As [`Site::run`], for a command whose failure leaves nothing to go on with.
    ///
    /// # Errors
    ///
    /// When the command fails in any way.
    pub(crate) fn must_run(&self, command: &mut Command) -> Result<Ran> {
        let ran = self.run(command)?;
        if !ran.success {
            bail!("{} failed", shown(command));
        }
        Ok(ran)
    }
}

/// Kills a process and everything it started that can still be traced to it.
pub(crate) fn kill_tree(child: &mut Child) {
    let descendants = descendants(child.id());
    if !descendants.is_empty() {
        let mut kill = Command::new("kill");
        kill.arg("-KILL").args(descendants.iter().map(u32::to_string)).stderr(Stdio::null());
        // Those that ended meanwhile make it fail, and that is fine.
        drop(kill.status());
    }
    drop(child.kill());
    drop(child.wait());
}

/// The command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    // Cargo tells its children where it lies; everyone else finds it by its name.
    let program =
        program.file_name().filter(|name| *name == "cargo").unwrap_or_else(|| command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Whether a line of a command's output names something that failed, as libtest, TAP and our drivers do.
fn is_complaint(line: &str) -> bool {
    line.starts_with("not ok ")
        || line.starts_with("FAILED ")
        || (line.starts_with("test ") && line.ends_with("FAILED"))
}

/// What is worth showing of a command that failed: all but what it said of successes.
fn told(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).filter(|line| !line.starts_with("ok ")).collect()
}

/// The last of the lines, and a word of how many there were before.
fn last<'a>(lines: &'a [&str], most: usize) -> impl Iterator<Item = Cow<'a, str>> {
    let left_out = lines.len().saturating_sub(most);
    let before = (left_out > 0).then(|| Cow::Owned(format!("({left_out} lines before)")));
    before.into_iter().chain(lines[left_out..].iter().map(|line| Cow::Borrowed(*line)))
}

fn read(mut reader: impl BufRead, mut each: impl FnMut(String)) {
    let mut line = Vec::new();
    while matches!(reader.read_until(b'\n', &mut line), Ok(read) if read > 0) {
        each(String::from_utf8_lossy(&line).trim_end().to_owned());
        line.clear();
    }
}

/// The other processes that hold a pipe open, a line each; none where there is no `/proc`.
fn holders(pipe: &Path) -> Vec<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let others = processes.filter(|process| !process.ends_with(std::process::id().to_string()));
    let is_held = |process: &PathBuf| {
        let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|file| file == pipe)
    };
    let words = |process: PathBuf| {
        let words = fs::read(process.join("cmdline")).unwrap_or_default();
        let pid = process.file_name().unwrap_or_default().display();
        format!("  {pid}: {}", String::from_utf8_lossy(&words).replace('\0', " ").trim_end())
    };
    others.filter(is_held).map(words).collect()
}

/// The processes below `ancestor`; none where there is no `/proc`.
fn descendants(ancestor: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(parent) = parent_of(&entry.path()) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut waiting = vec![ancestor];
    while let Some(parent) = waiting.pop() {
        let born = children.remove(&parent).unwrap_or_default();
        found.extend(&born);
        waiting.extend(born);
    }
    found
}

fn parent_of(process: &Path) -> Option<u32> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    // The name in parentheses may hold anything, so count from its end: state, then parent.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(allowed: Duration) -> Site {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        Site::new(root.clone(), root, Instant::now() + allowed)
    }

    #[test]
    fn output_and_exit_are_kept_apart() {
        let ran = site(Duration::from_secs(60))
            .run(Command::new("sh").args(["-c", "echo a; echo b; exit 3"]))
            .unwrap();
        assert!(!ran.success);
        assert_eq!(ran.lines, ["a", "b"]);
    }

    #[test]
    fn what_commands_say_of_failures_is_kept() {
        let site = site(Duration::from_secs(60));
        let said = "echo 'test a ... ok'; echo 'test b ... FAILED'; echo 'not ok 3 - c'; echo 'FAILED  d'";
        site.run(Command::new("sh").args(["-c", said])).unwrap();
        assert_eq!(site.complaints(), ["test b ... FAILED", "not ok 3 - c", "FAILED  d"]);
        assert!(site.complaints().is_empty());
        site.run(Command::new("sh").args(["-c", "seq 1000; echo 'not ok 1'; exit 1"])).unwrap();
        let complaints = site.complaints();
        assert_eq!(complaints[..2], ["not ok 1", "(921 lines before)"]);
        assert_eq!(
            (complaints.len(), complaints.last().unwrap().as_str()),
            (82, "not ok 1"),
            "the reason comes last"
        );
    }

    #[test]
    fn what_could_not_be_carried_out_is_a_failure_with_its_reason() {
        let site = site(Duration::from_secs(60));
        let error = anyhow::anyhow!("no such file").context("cannot start it");
        assert_eq!(site.failed("echo over stdio", &error), Tally::one(false));
        assert_eq!(
            site.complaints(),
            ["echo over stdio could not be carried out: cannot start it: no such file"]
        );
    }

    #[test]
    fn a_command_past_the_deadline_is_killed_with_its_children() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // The background process would hold the pipe open for a minute if it were left alive.
        let script = format!("sleep 60 & echo $! > {}; wait", file.path().display());
        let error =
            site(Duration::from_millis(500)).run(Command::new("sh").args(["-c", &script])).unwrap_err();
        assert!(error.to_string().contains("was killed"), "{error}");
        let pid = fs::read_to_string(file.path()).unwrap();
        let stat = PathBuf::from(format!("/proc/{}/stat", pid.trim()));
        let is_alive = || fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        // The kernel delivers the signal in its own time, and init reaps in its own.
        for _ in 0..200 {
            if !is_alive() {
                return;
            }
            thread::sleep(LOOK);
        }
        panic!("process {pid} is still alive");
    }

    #[test]
    fn what_outlives_a_command_is_named_beside_all_that_was_said() {
        let site = Site { last_words: Duration::from_secs(1), ..site(Duration::from_secs(60)) };
        let ran = site.run(Command::new("sh").args(["-c", "echo begun; sleep 7 & exit 0"])).unwrap();
        assert!(!ran.success, "it left something behind");
        assert_eq!(ran.lines, ["begun"]);
        let complaints = site.complaints();
        assert!(complaints.last().unwrap().ends_with(": sleep 7"), "{complaints:?}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = site(Duration::from_secs(60)).run(&mut Command::new("no-such-program")).unwrap_err();
        assert_eq!(error.to_string(), "cannot run no-such-program");
    }
}
