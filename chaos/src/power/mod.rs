//! Power loss: what the server flushed before it acknowledged something, rebuilt from a trace of its system calls.
//!
//! SIGKILL spares the page cache, so it cannot show that a write was flushed. Here the files are rebuilt as a disk
//! that lost power at each acknowledgement would have them, and everything acknowledged is looked for in them; and at
//! other moments, in the middle of whatever SQLite writes, of which any part has reached the disk, in any order. Disks that
//! only claim to flush must lose something: that shows that the test can fail.

mod disk;
mod trace;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use longhaul_gateway::command::{RunsDir, State};
use longhaul_store::{Outcome, Record, Scope, Sqlite, TaskId, TaskStore as _};
use rustix::process::Signal;

use crate::history::Call;
use crate::mcp::{Address, Client, Era, Reply};
use crate::place::{AFTER, ALWAYS, Job, Place};
use crate::processes;
use crate::server::Server;
use disk::{Disk, Lies, Unflushed};
use longhaul_test::Random;
use trace::{Call as SystemCall, Event};

/// How many commands are run to their end, in each dialect. Enough for SQLite to empty its log meanwhile.
const COMMANDS: usize = 40;

/// How many commands are cancelled, in each dialect.
const CANCELLED: usize = 8;

/// How many losses show that a disk lies.
const ENOUGH: usize = 10;

/// How long one of them may take: only a hang gets there.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a client was told, and with which answer.
#[derive(Clone, Debug)]
struct Acknowledged {
    /// The id of the request, which stands in the answer.
    request: String,
    task: String,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Created,
    Cancelled,
    Ended,
}

/// Records a server under load, then cuts its power at every acknowledgement, and at so many other moments.
pub(crate) fn run(place: &Place, seed: u64, cuts: usize) -> Result<String> {
    let trace = place.path("trace");
    let mut acknowledged = Vec::new();
    let keys = record(place, &trace, &mut acknowledged)?;
    let file = File::open(&trace).context("strace wrote no trace")?;
    let events = trace::read(BufReader::new(file))?;
    let plan = Plan { place, events: &events, acknowledged: &acknowledged, keys: &keys, seed };

    let found = plan.audit(Lies::None)?;
    if !found.missing.is_empty() {
        bail!("seed {seed}: lost with the power:\n{}", found.missing.join("\n"));
    }
    let missing = plan.cut_anywhere(cuts)?;
    if !missing.is_empty() {
        bail!("seed {seed}: lost with the power, in the middle of writing:\n{}", missing.join("\n"));
    }
    ensure!(
        found.cuts == acknowledged.len(),
        "{} of {} answers are in the trace",
        found.cuts,
        acknowledged.len()
    );
    ensure!(found.effects >= 2 * COMMANDS, "only {} commands were seen to begin", found.effects);
    // What is `exit` in the end is flushed under the name that it is reserved by.
    for lies in [Lies::Files("-wal"), Lies::Files("exit.reserved"), Lies::Folders] {
        let lost = plan.audit(lies)?.missing.len();
        ensure!(lost >= ENOUGH, "a disk with {lies:?} lost {lost} answers: this test cannot fail");
    }
    let (acknowledged, effects, emptied) = (found.cuts, found.effects, plan.log_was_emptied());
    ensure!(emptied, "SQLite never emptied its log: record more commands");
    Ok(format!(
        "{acknowledged} acknowledgements, {effects} commands begun, {cuts} cuts in the middle of writing, {} system calls, \
         seed {seed}",
        events.len() / 2
    ))
}

/// Runs a server under `strace` and gives back which task each key became.
fn record(
    place: &Place,
    trace: &Path,
    acknowledged: &mut Vec<Acknowledged>,
) -> Result<BTreeMap<String, String>> {
    let calls = format!("trace={}", trace::CALLS.replace(char::is_whitespace, ""));
    let (trace, program) = (trace.display().to_string(), place.program().display().to_string());
    let options =
        ["--seccomp-bpf", "-f", "-yy", "-xx", "-s", "1000000", "-o", &trace, "-e", &calls, &program];
    let mut server = Server::start(place, Path::new("strace"), &options, &[])?;
    let address = server.ready().with_context(|| {
        format!(
            "nothing can be recorded: strace must be installed and allowed to trace; it said:\n{}",
            server.said()
        )
    })?;
    let traced = processes::of(place).into_iter().find(|process| process.line.starts_with(&program));
    server.is_process(traced.and_then(|process| process.number()).context("the traced server is not found")?);

    let address = Address::of(address);
    let workers: Vec<(Vec<Acknowledged>, BTreeMap<String, String>)> = thread::scope(|scope| {
        let workers = Era::BOTH.map(|era| {
            let client = Client::new(era, address.clone());
            scope.spawn(move || work(&client))
        });
        let joined = workers.into_iter().map(|worker| worker.join().expect("a worker does not panic"));
        joined.collect::<Result<_>>()
    })?;
    let mut keys = BTreeMap::new();
    for (told, named) in workers {
        acknowledged.extend(told);
        keys.extend(named);
    }
    server.signal(Signal::KILL)?;
    server.ended()?;
    Ok(keys)
}

/// Creates, cancels and watches tasks, and notes what was acknowledged by which answer.
fn work(client: &Client) -> Result<(Vec<Acknowledged>, BTreeMap<String, String>)> {
    let era = client.era().name();
    let (mut told, mut keys) = (Vec::new(), BTreeMap::new());
    for number in 0..COMMANDS + CANCELLED {
        let key = format!("{era}-{number}");
        let is_cancelled = number % (COMMANDS / CANCELLED) == 1 && number < COMMANDS;
        let job = if is_cancelled { Job::endless(&key) } else { Job::new(&key, 2, 0.02) };
        // Promoted ones run long enough to be.
        let is_promoted = number % 4 == 3 && !is_cancelled;
        let job = if is_promoted { Job::new(&key, 3, 0.2) } else { job };
        let mut call = Call::new(job, client.era());
        call.told(client.call(if is_promoted { AFTER } else { ALWAYS }, &call.job));
        let Some(task) = call.task.clone() else {
            bail!("{key} was not answered with a task: {:?}", call.answer);
        };
        keys.insert(key.clone(), task.clone());
        told.push(Acknowledged { request: format!("create-{key}"), task: task.clone(), what: What::Created });
        if is_cancelled {
            // Some before they begin, some while they run.
            if number % 2 == 0 {
                thread::sleep(Duration::from_millis(400));
            }
            ensure!(call.cancel(client)?, "the cancel of {key} was not answered");
            told.push(Acknowledged { request: format!("cancel-{task}"), task, what: What::Cancelled });
            continue;
        }
        let until = Instant::now() + PATIENCE;
        for look in 0_u32.. {
            let request = format!("look-{key}-{look}");
            let Reply::Result(shown) = client.task(&request, &task) else {
                bail!("{task} cannot be looked at")
            };
            if shown.get().contains("\"status\":\"completed\"") {
                told.push(Acknowledged { request, task, what: What::Ended });
                break;
            }
            ensure!(Instant::now() < until, "{task} does not end: {shown}");
            thread::sleep(Duration::from_millis(15));
        }
    }
    Ok((told, keys))
}

/// One recorded server.
struct Plan<'p> {
    place: &'p Place,
    events: &'p [Event],
    acknowledged: &'p [Acknowledged],
    /// Which task each key became.
    keys: &'p BTreeMap<String, String>,
    seed: u64,
}

/// What was found again.
#[derive(Debug, Default)]
struct Found {
    cuts: usize,
    effects: usize,
    missing: Vec<String>,
}

impl Plan<'_> {
    /// Plays the trace, and cuts the power before each answer leaves and before each command begins.
    fn audit(&self, lies: Lies) -> Result<Found> {
        let mut found = Found::default();
        let mut disk = Disk::new(&self.place.path(""), lies).with_folder("effects");
        let mut waiting: Vec<&Acknowledged> = self.acknowledged.iter().collect();
        for event in self.events {
            if let Event::Began(call) = event {
                for cut in answered(call, &mut waiting) {
                    found.cuts += 1;
                    self.cut(&disk, cut, found.cuts as u64, &mut found.missing)?;
                }
                if let Some(task) = self.begins(call) {
                    found.effects += 1;
                    let started = format!("{}/{task}/started", self.place.runs().display());
                    if !disk.has(&started) {
                        found.missing.push(format!("{task} had begun, and nothing on the disk said so"));
                    }
                }
            }
            disk.see(event)?;
            if lies != Lies::None && found.missing.len() >= ENOUGH {
                break;
            }
        }
        Ok(found)
    }

    /// Cuts the power at so many moments in which something was just written to the store, or flushed, chosen by the seed.
    /// What has not been flushed has reached the disk in any part. Says what is missing of all that was acknowledged.
    fn cut_anywhere(&self, cuts: usize) -> Result<Vec<String>> {
        let store = self.place.store().display().to_string();
        let is_of_store = |event: &Event| matches!(event, Event::Returned(call) if call.targets.first().is_some_and(|target| target.starts_with(&store)));
        let moments: Vec<usize> =
            (0..self.events.len()).filter(|at| is_of_store(&self.events[*at])).collect();
        ensure!(!moments.is_empty(), "nothing was written to the store");
        let mut random = Random::new(self.seed).part(1 << 32);
        let mut chosen: Vec<usize> = (0..cuts).map(|_| moments[random.index(moments.len())]).collect();
        chosen.sort_unstable();
        let mut chosen = chosen.into_iter().peekable();
        let mut disk = Disk::new(&self.place.path(""), Lies::None).with_folder("effects");
        let mut waiting: Vec<&Acknowledged> = self.acknowledged.iter().collect();
        let (mut told, mut missing) = (Vec::new(), Vec::new());
        for (at, event) in self.events.iter().enumerate() {
            if let Event::Began(call) = event {
                told.extend(answered(call, &mut waiting));
            }
            disk.see(event)?;
            while chosen.next_if_eq(&at).is_some() {
                let mut unflushed = Unflushed::Some(random.part(at as u64));
                random.bits();
                if let Some(problem) = self.lost_of(&disk, &told, &mut unflushed)? {
                    missing.push(format!("at event {at}, {} answers: {problem}", told.len()));
                }
            }
        }
        Ok(missing)
    }

    /// What the store does not know any more of what was told.
    fn lost_of(
        &self,
        disk: &Disk,
        told: &[&Acknowledged],
        unflushed: &mut Unflushed,
    ) -> Result<Option<String>> {
        let folder = tempfile::tempdir()?;
        let path = self.rebuild(disk, folder.path(), unflushed)?;
        if told.is_empty() && !path.exists() {
            return Ok(None);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let store = match Sqlite::open(&path) {
            Ok(store) => store,
            Err(error) => return Ok(Some(format!("the store does not open: {error}"))),
        };
        for told in told {
            let row = runtime.block_on(store.get(Scope::Operator, &TaskId::new(told.task.as_str())?));
            let holds = match (&row, told.what) {
                (Ok(Some(_)), What::Created) => true,
                (Ok(Some(row)), What::Cancelled) => matches!(row.outcome(), Some(Outcome::Cancelled { .. })),
                (Ok(Some(row)), What::Ended) => matches!(row.outcome(), Some(Outcome::Result { .. })),
                (Ok(None) | Err(_), _) => false,
            };
            if !holds {
                return Ok(Some(format!("{} {:?}: the row says {row:?}", told.request, told.what)));
            }
        }
        drop(store);
        let sound: String =
            rusqlite::Connection::open(&path)?.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        Ok((sound != "ok").then(|| format!("SQLite says of the file: {sound}")))
    }

    /// The store's files as they would be found again; the path of the first.
    fn rebuild(&self, disk: &Disk, folder: &Path, unflushed: &mut Unflushed) -> Result<PathBuf> {
        let store = self.place.store().display().to_string();
        // The journal is that of the first write, before there is a log; beside that is what was noted of it.
        for suffix in ["", "-wal", "-journal", ".writer"] {
            disk.rebuild(&format!("{store}{suffix}"), &folder.join(format!("tasks.db{suffix}")), unflushed)?;
        }
        Ok(folder.join("tasks.db"))
    }

    /// Which task's command begins with this call: it counts its run.
    fn begins(&self, call: &SystemCall) -> Option<&String> {
        let effects = self.place.path("effects").display().to_string();
        let key = call.targets.first().filter(|_| call.name == "write")?.strip_prefix(&effects)?;
        self.keys.get(key.trim_start_matches('/'))
    }

    /// The power goes as this answer leaves: is what it says on the disk, whatever else has reached it?
    fn cut(&self, disk: &Disk, told: &Acknowledged, number: u64, missing: &mut Vec<String>) -> Result<()> {
        let some = Random::new(self.seed).part(number);
        // Of a disk that lies it is enough to see that something is gone.
        let all = [Unflushed::Gone, Unflushed::Kept, Unflushed::Some(some)];
        let chosen = if disk.is_honest() { &all[..] } else { &all[..1] };
        for unflushed in chosen.iter().cloned() {
            let name = format!("{unflushed:?}");
            if let Some(problem) = self.lost(disk, told, unflushed)? {
                missing.push(format!("{} {:?} (unflushed: {name}): {problem}", told.request, told.what));
            }
        }
        Ok(())
    }

    fn lost(&self, disk: &Disk, told: &Acknowledged, mut unflushed: Unflushed) -> Result<Option<String>> {
        let folder = tempfile::tempdir()?;
        let row = match row(&self.rebuild(disk, folder.path(), &mut unflushed)?, &told.task) {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(Some("there is no row".to_owned())),
            Err(error) => return Ok(Some(format!("{error:#}"))),
        };
        match (told.what, row.outcome()) {
            (What::Created, _) | (What::Cancelled, Some(Outcome::Cancelled { .. })) => Ok(None),
            (What::Ended, Some(Outcome::Result { .. })) => {
                let runs = folder.path().join("runs");
                std::fs::DirBuilder::new().create(&runs)?;
                private(&runs)?;
                let run = format!("{}/{}", self.place.runs().display(), told.task);
                if !disk.rebuild(&run, &runs.join(&told.task), &mut unflushed)? {
                    return Ok(Some("its run directory is gone".to_owned()));
                }
                match RunsDir::open(&runs).and_then(|runs| runs.state(&told.task)) {
                    Ok(State::Exited(exit)) if exit.is_success() => Ok(None),
                    state => Ok(Some(format!("its run directory says {state:?}"))),
                }
            }
            (_, outcome) => Ok(Some(format!("the row says {outcome:?}"))),
        }
    }

    /// Whether SQLite has moved its log into the database meanwhile, which is when it overwrites what it has.
    fn log_was_emptied(&self) -> bool {
        let store = self.place.store().display().to_string();
        let writes = self.events.iter().filter(|event| {
            matches!(event, Event::Returned(call) if call.name == "pwrite64" && call.targets.first() == Some(&store))
        });
        writes.count() > 10
    }
}

fn private(folder: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?)
}

/// The answers that leave with this call; they wait no more.
fn answered<'a>(call: &SystemCall, waiting: &mut Vec<&'a Acknowledged>) -> Vec<&'a Acknowledged> {
    let answers = call.strings.iter().filter(|_| speaks_to_a_client(call));
    let said = answers.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect::<Vec<_>>();
    let is_told = |told: &Acknowledged| {
        let id = format!("\"id\":\"{}\"", told.request);
        said.iter().any(|said| said.contains(&id))
    };
    if said.is_empty() { Vec::new() } else { waiting.extract_if(.., |told| is_told(told)).collect() }
}

fn speaks_to_a_client(call: &SystemCall) -> bool {
    call.targets.first().is_some_and(|target| target.starts_with("TCP"))
}

fn row(store: &Path, task: &str) -> Result<Option<Record>> {
    if !store.exists() {
        bail!("there is no database");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let store = Sqlite::open(store)?;
    let task = TaskId::new(task)?;
    Ok(runtime.block_on(store.get(Scope::Operator, &task))?)
}
