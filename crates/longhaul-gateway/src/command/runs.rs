//! The directory of all run directories: makes them whole, counts their bytes, removes them.

use std::{
    collections::HashMap,
    fs,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use longhaul::store::HostId;

use super::{
    blocking::blocking,
    crash::crash_point,
    exit, host,
    launch::SupervisorProgram,
    layout::{
        CANCEL, COMMITTED, COMMITTED_RESERVED, FileError, LOCK, PID, PID_SIZE, POSITION_SIZE, RunDir, SPEC,
        STATUS, STATUS_SIZE, STDIN, Stream, is_run_id,
    },
    leftover::{self, PidFacts, Processes},
    link::withdraw,
    lock::Lock,
    record,
    run::RunError,
    spec::{Spec, SpecError, StoredSpec},
    state::{self, State},
};

/// Where run directories are kept, and how much they may take together. Cheap to clone; clones share what they know.
///
/// Its operations do file system calls and block on them; from async code call them through `spawn_blocking`. The
/// async methods of [`Run`](super::Run) do.
#[derive(Clone, Debug)]
pub struct RunsDir {
    path: PathBuf,
    max_bytes: u64,
    supervisor: SupervisorProgram,
    outlive_server: bool,
    store: Option<Arc<str>>,
    host: Option<HostId>,
    named: Arc<Named>,
    accounts: Arc<Mutex<Accounts>>,
    /// Held while it is decided whether one more run fits: by the latest count, if there was one.
    admission: Arc<Mutex<Option<Counted>>>,
}

/// How much the run directories take.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Usage {
    /// What ended runs take on the disk, and what open ones may come to take, in bytes.
    pub bytes: u64,
    /// How many runs there are.
    pub runs: usize,
    /// How many of them have not ended.
    pub open: usize,
}

/// A run directory that could not be made, found or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunsError {
    /// An id that cannot name a directory.
    #[error("{id:?} cannot name a run: use 1 to 128 letters, digits, `-` and `_`")]
    BadId {
        /// The id as given.
        id: String,
    },
    /// A command that cannot be run anywhere.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// There is a run of this id.
    #[error("there is a run {id} already: attach to it, or remove it when it has ended")]
    Exists {
        /// Its id.
        id: String,
    },
    /// There would be more bytes in run directories than allowed. Nothing was started.
    #[error(
        "run files may take {max} bytes in all, ended runs and what open ones may write have {used}, and this run may need {needed}: wait until some have ended and their `ttl` is over, lower `ttl` or `max_output`, or raise `max_run_bytes`"
    )]
    Full {
        /// What is taken or spoken for.
        used: u64,
        /// What the refused run may come to take.
        needed: u64,
        /// The limit.
        max: u64,
    },
    /// The run has not ended.
    #[error("the run {id} has not ended: cancel it first")]
    Open {
        /// Its id.
        id: String,
    },
    /// Others could read or change what is in the directory.
    #[error("{} belongs to another user or can be read by others (mode {mode:03o}): choose another state directory, or `chmod 700` it", path.display())]
    NotPrivate {
        /// The directory.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The system refused a file operation, a full disk among others: see [`FileError::is_disk_full`].
    #[error(transparent)]
    File(#[from] FileError),
    /// The file that names the host of the directory names none.
    #[error("{} does not name a host: remove it, and a name is made; tasks whose commands run here are lost then", path.display())]
    NoHost {
        /// The file.
        path: PathBuf,
    },
    /// The system gave no random bytes.
    #[error("the system gives no random numbers")]
    Random(#[source] getrandom::Error),
}

impl RunsDir {
    /// The limit of a directory that sets none: 10 GiB.
    pub const DEFAULT_MAX_BYTES: u64 = 10 << 30;

    /// Opens the directory at `path`, which is made with mode 0700 where it is missing.
    ///
    /// # Errors
    ///
    /// When it cannot be made or opened, or is not this user's alone.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RunsError> {
        let path = std::path::absolute(path.as_ref()).map_err(FileError::at("find", path.as_ref()))?;
        let named = Named::new(make_private(&path)?);
        let runs = Self {
            path,
            max_bytes: Self::DEFAULT_MAX_BYTES,
            supervisor: SupervisorProgram::default(),
            outlive_server: true,
            store: None,
            host: None,
            named: Arc::new(named),
            accounts: Arc::default(),
            admission: Arc::default(),
        };
        runs.sweep()?;
        Ok(runs)
    }

    /// Sets how many bytes all run directories may take. A run that has not ended counts with all that its limits
    /// let it write. Servers that share the directory each count for themselves and may together pass the limit by
    /// what they start within seconds of each other.
    #[must_use]
    pub const fn with_max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Sets the program that supervisors are, where it is not this one.
    #[must_use]
    pub fn with_supervisor(mut self, supervisor: SupervisorProgram) -> Self {
        self.supervisor = supervisor;
        self
    }

    /// Lets no run live on without its server: for tasks that end with it, too.
    #[must_use]
    pub const fn ending_with_server(mut self) -> Self {
        self.outlive_server = false;
        self
    }

    /// Says which store the tasks of these runs are in, by its [name](crate::tool::store_name()). Each run that is made notes it.
    #[must_use]
    pub fn with_store(mut self, name: impl Into<Arc<str>>) -> Self {
        self.store = Some(name.into());
        self
    }

    /// Makes the directory a host: tasks whose commands run here are bound to it, and only nodes that use this directory start,
    /// find and end them. It is for directories beside which there are others with tasks in the same store. The name is in the
    /// directory, so that one which is copied is to be a host of its own only without its file `.host`.
    ///
    /// # Errors
    ///
    /// When the name can neither be read nor written, or there are no random numbers to make it of.
    pub fn as_host(mut self) -> Result<Self, RunsError> {
        self.named.flush(&self.path)?;
        self.host = Some(host::of(&self.path, || {
            let mut bits = [0; 10];
            getrandom::fill(&mut bits).map_err(RunsError::Random)?;
            Ok(HostId::from_entropy(bits))
        })?);
        Ok(self)
    }

    /// The host that it is.
    pub fn host(&self) -> Option<&HostId> {
        self.host.as_ref()
    }

    /// Whether a run was made for this store, so that a task which is not in it is nowhere. One that names none was made for
    /// none that has a name. `true` where there is no such run.
    ///
    /// # Errors
    ///
    /// When the id is none, or what the run was made with cannot be read.
    pub fn is_of_store(&self, id: &str) -> Result<bool, RunsError> {
        match RunDir::open(&self.dir(id)?) {
            Ok(run) => Ok(state::spec(&run)?.store.as_deref() == self.store.as_deref()),
            Err(error) if error.is_not_found() => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Where all of them are.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether runs may be [committed](super::Run::commit).
    pub(crate) const fn outlive_server(&self) -> bool {
        self.outlive_server
    }

    /// Where the directory of a run is, or would be.
    ///
    /// # Errors
    ///
    /// [`RunsError::BadId`].
    pub fn dir(&self, id: &str) -> Result<PathBuf, RunsError> {
        if is_run_id(id) { Ok(self.path.join(id)) } else { Err(RunsError::BadId { id: id.to_owned() }) }
    }

    /// Makes the directory of a run, whole and on the disk, with all the space that its end will need. Starts
    /// nothing: see [`Run::launch`](super::Run::launch).
    ///
    /// # Errors
    ///
    /// When the command can be run nowhere, the id is taken, the limit is reached, or the disk refuses. Nothing is
    /// left behind then.
    pub fn prepare(&self, id: &str, spec: &Spec) -> Result<PathBuf, RunsError> {
        self.prepare_as(id, spec, false)
    }

    /// As [`prepare`](Self::prepare), for a run that is committed before it starts: it never ends with the server
    /// that starts it, unless [all do](Self::ending_with_server).
    ///
    /// # Errors
    ///
    /// As [`prepare`](Self::prepare).
    pub fn prepare_committed(&self, id: &str, spec: &Spec) -> Result<PathBuf, RunsError> {
        self.prepare_as(id, spec, self.outlive_server)
    }

    /// Commits a run that was [prepared](Self::prepare) and in which nothing was started. One that has started is told
    /// by [`Run::commit`](super::Run::commit), and nothing is done here.
    ///
    /// # Errors
    ///
    /// When the id is none, or the directory cannot be read or written.
    pub fn commit_prepared(&self, id: &str) -> Result<(), RunsError> {
        let run = RunDir::open(&self.dir(id)?)?;
        if self.outlive_server && state::of_run(&run)? == State::Fresh {
            run.commit()?;
        }
        Ok(())
    }

    fn prepare_as(&self, id: &str, spec: &Spec, committed: bool) -> Result<PathBuf, RunsError> {
        spec.validate()?;
        let path = self.dir(id)?;
        self.be_there()?;
        if path.symlink_metadata().is_ok() {
            return Err(RunsError::Exists { id: id.to_owned() });
        }
        self.admit(id, spec)?;
        let made = self.make(id, spec, committed, &path);
        self.accounts().admitted.remove(id);
        made.map(|()| path)
    }

    /// What a run's directory says of it.
    ///
    /// # Errors
    ///
    /// When the id is none, or the directory cannot be read.
    pub fn state(&self, id: &str) -> Result<State, RunsError> {
        Ok(state::of(&self.dir(id)?)?)
    }

    /// The processes of a run that is [`State::Alive`]; `None` of any other, also of none.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read.
    pub fn processes(&self, id: &str) -> Result<Option<Processes>, RunsError> {
        let Ok(dir) = self.dir(id) else { return Ok(None) };
        let run = match RunDir::open(&dir) {
            Ok(run) => run,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match state::of_run(&run)? {
            State::Alive { .. } => Ok(PidFacts::read(&run)?.map(|facts| facts.processes())),
            _ => Ok(None),
        }
    }

    /// Whether a run is committed, or was when it ended. `false` when there is none.
    ///
    /// # Errors
    ///
    /// When the id is none, or the directory cannot be read.
    pub fn is_committed(&self, id: &str) -> Result<bool, RunsError> {
        match RunDir::open(&self.dir(id)?) {
            Ok(run) => Ok(run.exists(COMMITTED)?),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Sees to it that a [`State::Fresh`] run never starts, and gives back what it is then: [`State::Fresh`] still,
    /// or, when a supervisor was faster, what became of it.
    ///
    /// # Errors
    ///
    /// When the id is none, or the directory cannot be read or written.
    pub fn withdraw(&self, id: &str) -> Result<State, RunError> {
        let dir = self.dir(id).map_err(|_no_id| RunError::Absent { id: id.to_owned() })?;
        withdraw(&dir)
    }

    /// Ends what is left of a [`State::Lost`] run's processes, and gives back how many could not be ended. May take
    /// as long as the run's grace. Does nothing to a run in any other state.
    ///
    /// # Errors
    ///
    /// When the id is none, or the directory cannot be read.
    pub fn end_leftovers(&self, id: &str) -> Result<usize, RunsError> {
        let run = RunDir::open(&self.dir(id)?)?;
        if state::of_run(&run)? != State::Lost {
            return Ok(0);
        }
        Ok(leftover::end(&run, &state::spec(&run)?)?)
    }

    /// The ids of all runs, in no order.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read.
    pub fn ids(&self) -> Result<Vec<String>, RunsError> {
        let entries = fs::read_dir(&self.path).map_err(FileError::at("list", &self.path))?;
        let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
        let names: std::io::Result<Vec<_>> = names.collect();
        let names = names.map_err(FileError::at("list", &self.path))?;
        Ok(names.into_iter().flatten().filter(|name| is_run_id(name)).collect())
    }

    /// Counts what all runs take.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read. A run that is removed meanwhile counts nothing.
    pub fn usage(&self) -> Result<Usage, RunsError> {
        let mut usage = Usage::default();
        let mut ended = HashMap::new();
        // Noted before the runs are listed, and taken off by what is there: a run whose directory appears meanwhile
        // counts once.
        let mut coming = self.accounts().admitted.clone();
        for id in self.ids()? {
            let known = self.accounts().ended.get(&id).copied();
            // An ended run does not change any more, so it is measured once.
            let measured = known.map(|bytes| (bytes, false)).or_else(|| measure(&self.path.join(&id)));
            let Some((bytes, open)) = measured else { continue };
            usage.bytes = usage.bytes.saturating_add(bytes);
            coming.remove(&id);
            usage.runs += 1;
            usage.open += usize::from(open);
            if !open {
                ended.insert(id, bytes);
            }
        }
        self.accounts().ended = ended;
        usage.bytes = coming.values().fold(usage.bytes, |sum, bytes| sum.saturating_add(*bytes));
        Ok(usage)
    }

    /// Removes a run that has ended, was never started, or is lost. `false` when there is none.
    ///
    /// # Errors
    ///
    /// [`RunsError::Open`] for a run whose supervisor lives; or the directory cannot be removed.
    pub fn remove(&self, id: &str) -> Result<bool, RunsError> {
        let path = self.dir(id)?;
        let run = match RunDir::open(&path) {
            Ok(run) => run,
            Err(error) if error.is_not_found() => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        // Held until the directory is gone, so that no supervisor begins in it meanwhile. One that has recorded its
        // end holds the lock for some moments more.
        let lock = match state::of_run(&run)? {
            State::Alive { .. } => None,
            _ => Lock::take(&run, || true)?,
        };
        let Some(lock) = lock else { return Err(RunsError::Open { id: id.to_owned() }) };
        crash_point("run.remove.before");
        let doomed = self.path.join(format!("{DOOMED}{id}-{}", nonce()?));
        fs::rename(&path, &doomed).map_err(FileError::at("remove", &path))?;
        crash_point("run.remove.renamed");
        fs::remove_dir_all(&doomed).map_err(FileError::at("remove", &doomed))?;
        crash_point("run.remove.after");
        drop(lock);
        self.accounts().ended.remove(id);
        // There may be room now.
        *self.admission.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(true)
    }

    /// Runs `work`, which may block, where it may. `None` when the runtime is shutting down and will not run it; a
    /// panic in it goes on here.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Option<T> {
        let runs = self.clone();
        blocking(move || work(&runs)).await
    }

    pub(super) const fn supervisor(&self) -> &SupervisorProgram {
        &self.supervisor
    }

    /// Makes the directory again if somebody has removed it: what is to come must not suffer for what is gone.
    fn be_there(&self) -> Result<(), RunsError> {
        match fs::symlink_metadata(&self.path) {
            // One whose runs end with their server goes when that ends, and stays away.
            Err(error) if self.outlive_server && error.kind() == std::io::ErrorKind::NotFound => {
                tracing::error!(
                    dir = %self.path.display(),
                    "the directory of run files is gone and with it all output of commands: it is made again"
                );
                make_private(&self.path)?;
                match &self.host {
                    Some(name) => host::of(&self.path, || Ok(name.clone())).map(drop),
                    None => Ok(()),
                }
            }
            // Whatever else there is about it, the next step meets it.
            _ => Ok(()),
        }
    }

    /// Speaks for the bytes that the run may need.
    fn admit(&self, id: &str, spec: &Spec) -> Result<(), RunsError> {
        let stdin = spec.stdin.as_ref().map_or(0, |bytes| bytes.len() as u64);
        let needed = allowance(spec.max_output).saturating_add(stdin);
        let mut latest = self.admission.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |counted: &Counted| counted.bytes.saturating_add(needed) <= self.max_bytes;
        // What was removed or has ended since may have made room, and others may have taken some.
        let believed =
            |counted: &Counted| counted.at.elapsed() < if fits(counted) { RECOUNT } else { RECOUNT_FULL };
        let counted = match latest.filter(believed) {
            Some(counted) => counted,
            None => Counted { bytes: self.usage()?.bytes, at: Instant::now() },
        };
        if !fits(&counted) {
            *latest = Some(counted);
            return Err(RunsError::Full { used: counted.bytes, needed, max: self.max_bytes });
        }
        *latest = Some(Counted { bytes: counted.bytes.saturating_add(needed), ..counted });
        self.accounts().admitted.insert(id.to_owned(), needed);
        Ok(())
    }

    fn make(&self, id: &str, spec: &Spec, committed: bool, path: &Path) -> Result<(), RunsError> {
        self.named.flush(&self.path)?;
        let marker = nonce()?;
        let temporary = self.path.join(format!("{NEW}{id}-{marker}"));
        let mut stored = StoredSpec::new(spec, marker);
        stored.store = self.store.as_deref().map(str::to_owned);
        // It is held until it is complete.
        let made = fill(&temporary, spec, committed, &stored).and_then(|_held| {
            crash_point("run.publish.before");
            // Fails on a directory that is there and not empty, and a run directory never is.
            fs::rename(&temporary, path).map_err(FileError::at("create", path))?;
            sync_dir(&self.path)?;
            crash_point("run.publish.after");
            Ok(())
        });
        made.map_err(|error| {
            // What cannot be removed now is swept later.
            let _swept_later = fs::remove_dir_all(&temporary);
            let taken = matches!(
                error.source.kind(),
                std::io::ErrorKind::DirectoryNotEmpty | std::io::ErrorKind::AlreadyExists
            );
            if taken { RunsError::Exists { id: id.to_owned() } } else { RunsError::File(error) }
        })
    }

    /// Removes what a server that was killed left half made or half removed.
    fn sweep(&self) -> Result<(), FileError> {
        let entries = fs::read_dir(&self.path).map_err(FileError::at("list", &self.path))?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let age = entry
                .metadata()
                .and_then(|metadata| metadata.modified())
                .ok()
                .and_then(|time| time.elapsed().ok());
            // By a clock that was set, or is another server's, it looks old to us while it is made.
            let is_held = || RunDir::open(&entry.path()).and_then(|dir| dir.hold()).is_ok_and(|held| !held);
            let half_made = name.starts_with(NEW) && age.is_some_and(|age| age > HALF_MADE) && !is_held();
            if half_made || name.starts_with(DOOMED) {
                // Another server may be at it too.
                let _theirs = fs::remove_dir_all(entry.path());
            }
        }
        Ok(())
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What all runs took when they were counted, and what was admitted since may take. To count is to list them all.
#[derive(Clone, Copy, Debug)]
struct Counted {
    bytes: u64,
    at: Instant,
}

#[derive(Debug, Default)]
struct Accounts {
    /// What ended runs take, measured once.
    ended: HashMap<String, u64>,
    /// What runs may take whose directories are being made.
    admitted: HashMap<String, u64>,
}

fn fill(path: &Path, spec: &Spec, committed: bool, stored: &StoredSpec) -> Result<RunDir, FileError> {
    crash_point("run.create.before");
    fs::DirBuilder::new().mode(0o700).create(path).map_err(FileError::at("create", path))?;
    let run = RunDir::open(path)?;
    run.hold()?;
    crash_point("run.create.after");

    crash_point("run.spec.before");
    let json = serde_json::to_vec(stored).map_err(FileError::at("write", &run.file_path(SPEC)))?;
    if let Some(stdin) = &spec.stdin {
        run.create_flushed(STDIN, stdin)?;
    }
    run.create_flushed(SPEC, &json)?;
    crash_point("run.spec.after");

    crash_point("run.reserve.before");
    exit::reserve(&run)?;
    run.create_flushed(STATUS, &record::reserved(STATUS_SIZE))?;
    run.create_flushed(PID, &record::reserved(PID_SIZE))?;
    for stream in Stream::BOTH {
        run.create(stream.name(), b"")?;
        run.create_flushed(stream.position_name(), &record::reserved(POSITION_SIZE))?;
    }
    run.create(if committed { COMMITTED } else { COMMITTED_RESERVED }, b"")?;
    run.create(LOCK, b"")?.flush().map_err(FileError::at("write", &run.file_path(LOCK)))?;
    run.sync()?;
    crash_point("run.reserve.after");
    Ok(run)
}

/// What a run takes, and whether it may still take more. `None` when it is gone or is none.
fn measure(path: &Path) -> Option<(u64, bool)> {
    let run = RunDir::open(path).ok()?;
    let open = match state::of_run(&run).ok()? {
        State::Alive { .. } => true,
        // One that was withdrawn takes no more.
        State::Fresh => !run.exists(CANCEL).ok()?,
        State::Absent | State::Exited(_) | State::Lost => false,
    };
    let entries = fs::read_dir(path).ok()?;
    let on_disk =
        entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.blocks() * 512);
    let on_disk: u64 = on_disk.sum();
    if !open {
        return Some((on_disk, false));
    }
    let spec = state::spec(&run).ok()?;
    Some((allowance(spec.max_output).max(on_disk), true))
}

/// What a run with this limit may come to take: both streams, and its small files.
const fn allowance(max_output: u64) -> u64 {
    max_output.saturating_mul(2).saturating_add(SMALL_FILES)
}

/// Makes the directory where it is missing; one that is there must be this user's alone. Says whether it was missing.
fn make_private(path: &Path) -> Result<bool, RunsError> {
    let was_missing = make_durably(path)?;
    let metadata = fs::metadata(path).map_err(FileError::at("open", path))?;
    let mode = metadata.permissions().mode() & 0o777;
    if metadata.uid() != rustix::process::geteuid().as_raw() || mode & 0o077 != 0 {
        return Err(RunsError::NotPrivate { path: path.to_owned(), mode });
    }
    Ok(was_missing)
}

/// Makes a directory where it is missing, and those above it, each name flushed: who flushes what is in it later
/// must find it again. Says whether it was missing.
fn make_durably(path: &Path) -> Result<bool, FileError> {
    let parents = path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
    let missing: Vec<&Path> = path.ancestors().take_while(|dir| !dir.exists()).collect();
    let failed = |error| FileError::at("create", path)(error);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    parents.take(missing.len()).try_for_each(sync_dir)?;
    Ok(!missing.is_empty())
}

/// Whether the name of the directory itself is known to be on the disk. One that was there when it was opened may have been made a
/// moment ago, by somebody who has not flushed it yet. A flush waits for the disk, so a start leaves it until there is something
/// in the directory that must be found again.
#[derive(Debug)]
struct Named(AtomicBool);

impl Named {
    fn new(flushed: bool) -> Self {
        Self(AtomicBool::new(flushed))
    }

    fn flush(&self, path: &Path) -> Result<(), FileError> {
        if !self.0.load(Ordering::Acquire) {
            path.parent().map_or(Ok(()), sync_dir)?;
            self.0.store(true, Ordering::Release);
        }
        Ok(())
    }
}

pub(super) fn sync_dir(path: &Path) -> Result<(), FileError> {
    fs::File::open(path).and_then(|dir| dir.sync_all()).map_err(FileError::at("flush", path))
}

fn nonce() -> Result<String, RunsError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(RunsError::Random)?;
    Ok(bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}")))
}

/// Runs that are being made and removed have names that no run has.
const NEW: &str = ".new-";
const DOOMED: &str = ".old-";
/// For how long a count is believed while there is room by it.
const RECOUNT: Duration = Duration::from_secs(5);
/// For how long it is believed that there is none: many may ask at once, and each count lists every run.
const RECOUNT_FULL: Duration = Duration::from_secs(1);
/// Making a directory takes milliseconds; whoever began this long ago was killed.
const HALF_MADE: Duration = Duration::from_secs(600);
const SMALL_FILES: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_whose_directory_is_there_already_counts_once() {
        let root = tempfile::tempdir().unwrap();
        let runs = RunsDir::open(root.path().join("runs")).unwrap();
        let spec = Spec::new(["/bin/true"], "/").with_max_output(1 << 20);
        runs.prepare("made", &spec).unwrap();
        let once = runs.usage().unwrap().bytes;
        // As it is between the moment its directory appears and the one it is taken off the list.
        runs.accounts().admitted.insert("made".to_owned(), allowance(1 << 20));
        assert_eq!(runs.usage().unwrap().bytes, once);
        runs.accounts().admitted.insert("coming".to_owned(), 5);
        assert_eq!(runs.usage().unwrap().bytes, once + 5);
    }

    /// T1 of `conformance/REQUIREMENTS.md`.
    #[test]
    fn what_is_being_made_is_not_swept_though_it_looks_old() {
        let root = tempfile::tempdir().unwrap();
        let runs = RunsDir::open(root.path().join("runs")).unwrap();
        let path = runs.path().join(".new-made-1");
        let stored = StoredSpec::new(&Spec::new(["/bin/true"], "/"), "1".to_owned());
        let made = fill(&path, &Spec::new(["/bin/true"], "/"), false, &stored).unwrap();
        let long_ago = std::time::SystemTime::now() - 2 * HALF_MADE;
        fs::File::open(&path).unwrap().set_modified(long_ago).unwrap();
        // Another server starts, by whose clock it is an hour later.
        let other = RunsDir::open(runs.path()).unwrap();
        assert!(path.exists(), "somebody is at it");
        drop(made);
        other.sweep().unwrap();
        assert!(!path.exists(), "whoever made it is gone");
    }
}
