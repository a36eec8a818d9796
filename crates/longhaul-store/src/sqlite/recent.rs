//! Tasks that were read lately, for those who look again before anything of them has changed.
//!
//! Whoever waits for a task asks for it again and again, and mostly nothing has changed. Whether anything was committed since, by
//! whichever process, shows in SQLite's log: a commit puts its frames behind the last of the commit before it, or begins another
//! round of the log, which bears other salts, and only then can anybody see it. Two short reads of a file tell, and no lock is
//! taken. What this process commits itself takes away the tasks that it changes and leaves the others, which are read from here
//! while it waits for the disk, too: nobody else can commit meanwhile.
//!
//! So what is said of a task was so at a moment after it was asked for, as with a read of the file. What writes to the file
//! without taking [turns](super::writer_lock) is seen as well, unless it does so in the microseconds in which a commit of this process is
//! being counted: then a task that it has changed is read as it was until somebody else commits.

use std::{
    collections::HashSet,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use foldhash::fast::RandomState;
use rusqlite::Connection;

use super::{
    fault::{io_error, sqlite_error},
    flushed::Flushed,
    log,
    writer_lock::beside,
};
use crate::{Record, StoreError, TaskId, lately::Lately};

/// SQLite's log of one file, and what was read of that lately.
#[derive(Debug)]
pub(super) struct Recent {
    path: PathBuf,
    /// The log, once there was something in it. SQLite has no locks on it, which closing it would drop.
    log: OnceLock<File>,
    /// How large a page of it is, in bytes.
    page: OnceLock<u32>,
    kept: Mutex<Kept>,
}

/// What is so for as long as the log ends there.
#[derive(Debug, Default)]
struct Kept {
    end: Option<Flushed>,
    /// This process is committing something that follows on the end, and changes these.
    changing: Option<HashSet<TaskId, RandomState>>,
    tasks: Lately<Record>,
    /// When a reader last looked where the log ends.
    sought: Option<Instant>,
}

impl Recent {
    /// For this file of tasks.
    pub(super) fn new(file: &Path) -> Self {
        Self {
            path: beside(file, "-wal"),
            log: OnceLock::new(),
            page: OnceLock::new(),
            kept: Mutex::default(),
        }
    }

    /// A task as it is, if it was read and nothing of it can have changed since.
    pub(super) fn find(&self, id: &TaskId) -> Option<Arc<Record>> {
        let (end, found) = {
            let mut kept = self.lock();
            let (end, found) = (kept.end?, kept.tasks.find(id)?);
            if kept.changing.is_some() {
                return Some(found);
            }
            (end, found)
        };
        // Looked at last: what was so at this end is so still.
        self.is_last(end).then_some(found)
    }

    /// Where the log ends, for who is about to read something of the file to [keep](Self::keep) it.
    ///
    /// Where another process commits all the time what is kept would be of no use, so that the end is looked for now and then only.
    pub(super) fn end(&self, conn: &Connection) -> Option<Flushed> {
        let known = {
            let mut kept = self.lock();
            if kept.changing.is_some() || kept.end.is_some_and(|end| self.is_last(end)) {
                return kept.end;
            }
            let now = Instant::now();
            if kept.sought.is_some_and(|at| now.duration_since(at) < PAUSE) {
                return None;
            }
            kept.sought = Some(now);
            kept.end
        };
        // Where that cannot be told each read is of the file, and whatever is wrong there is said by that.
        let end = self.committed(conn).ok().flatten()?;
        let mut kept = self.lock();
        if kept.end == known && kept.changing.is_none() && known != Some(end) {
            kept.begin_anew(Some(end));
        }
        kept.end.filter(|kept| *kept == end)
    }

    /// Keeps what was read after the log ended at `before`, unless it may have changed since.
    pub(super) fn keep(&self, before: Option<Flushed>, record: &Record) {
        let mut kept = self.lock();
        let Some(end) = before.filter(|_| kept.end == before) else { return };
        let is_same = match &kept.changing {
            Some(changing) => !changing.contains(&record.id),
            None => self.is_last(end),
        };
        if is_same {
            kept.tasks.keep(record.clone());
        }
    }

    /// Begins a commit that changes these tasks. Nobody else can commit now, and nothing was written to the log yet.
    pub(super) fn change(&self, changed: Vec<TaskId>) -> Changing<'_> {
        let mut kept = self.lock();
        if kept.end.is_some_and(|end| self.is_last(end)) {
            for id in &changed {
                kept.tasks.remove(id);
            }
            kept.changing = Some(changed.into_iter().collect());
        } else {
            kept.begin_anew(None);
        }
        Changing { recent: self, end: None }
    }

    /// How much was committed to the log, as this connection sees it; nothing if another round of it has begun meanwhile.
    ///
    /// # Errors
    ///
    /// When the log cannot be read.
    pub(super) fn committed(&self, conn: &Connection) -> Result<Option<Flushed>, StoreError> {
        let failed = |error| io_error(&self.path, "reading the log's header", error);
        let log = self.log().map_err(failed)?;
        let salts = log::salts(log).map_err(failed)?;
        // Which does nothing but say how many frames there are.
        let counted = conn
            .prepare_cached("PRAGMA wal_checkpoint(NOOP)")
            .and_then(|mut frames| frames.query_row([], |row| row.get::<_, u32>(1)))
            .map_err(|error| sqlite_error(&self.path, "counting the frames of the log", error))?;
        let is_same = log::salts(log).map_err(failed)? == salts;
        Ok(is_same.then_some(Flushed { salts, frames: counted.into() }))
    }

    /// Whether the log ends there; `false` also where it cannot be read, which is said by whoever must read it.
    fn is_last(&self, end: Flushed) -> bool {
        let ends = || {
            let log = self.log()?;
            let page = match self.page.get() {
                Some(page) => *page,
                None => {
                    let page = log::page(log)?;
                    *self.page.get_or_init(|| page)
                }
            };
            log::ends_at(log, page, end)
        };
        ends().unwrap_or(false)
    }

    /// The log, which is there for as long as a connection is.
    fn log(&self) -> io::Result<&File> {
        if let Some(log) = self.log.get() {
            return Ok(log);
        }
        let opened = File::open(&self.path)?;
        Ok(self.log.get_or_init(|| opened))
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A commit of this process, under way until dropped.
#[derive(Debug)]
pub(super) struct Changing<'a> {
    recent: &'a Recent,
    end: Option<Flushed>,
}

impl Changing<'_> {
    /// It has succeeded, and the log ends there now.
    pub(super) fn done(mut self, end: Option<Flushed>) {
        self.end = end;
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let mut kept = self.recent.lock();
        match kept.changing.take() {
            Some(_) if self.end.is_some() => kept.end = self.end,
            // What has become of it is not known, or not what was before it.
            _ => kept.begin_anew(self.end),
        }
    }
}

impl Kept {
    fn begin_anew(&mut self, end: Option<Flushed>) {
        *self = Self { end, sought: self.sought, ..Self::default() };
    }
}

/// The least time between two looks for the end of a log to which others write.
const PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;
    use crate::{
        Batch, Json, NewTask, OnOrphan, OrphanRule, Owner, Park, Progress, Retention, Scope, Sqlite,
        StepClock, TaskStore as _, Time,
        lately::{LARGEST, ROOM, SMALLEST},
        sqlite::{SqliteOptions, read},
    };

    fn task(name: &str) -> NewTask {
        NewTask::new(TaskId::new(name).unwrap(), Owner::Anonymous, "build", Json::parse("{}").unwrap())
    }

    async fn get(store: &Sqlite, id: &TaskId) -> Option<Record> {
        store.get(Scope::Operator, id).await.unwrap()
    }

    fn said(message: &str) -> Batch {
        Batch::new().with_status_message(message)
    }

    #[tokio::test]
    async fn what_was_read_is_found_until_it_has_changed() {
        let dir = tempfile::tempdir().unwrap();
        let store = Sqlite::open(dir.path().join("tasks.db")).unwrap();
        let (one, two) = (TaskId::new("one").unwrap(), TaskId::new("two").unwrap());
        for id in [&one, &two] {
            store.create(task(id.as_str())).await.unwrap();
            assert!(store.site.recent.find(id).is_none(), "nobody has read it");
            assert_eq!(get(&store, id).await.as_ref(), store.site.recent.find(id).as_deref());
        }
        assert!(store.site.recent.find(&one).is_some(), "what changes no task takes none away");
        store.request_cancel(Scope::Operator, &two, None).await.unwrap();
        assert!(store.site.recent.find(&one).is_some(), "nor what changes another");
        assert!(store.site.recent.find(&two).is_none());
        assert!(get(&store, &two).await.unwrap().is_terminal());
        assert!(store.site.recent.find(&two).is_some());
    }

    #[tokio::test]
    async fn nobody_reads_here_what_belongs_to_another() {
        let dir = tempfile::tempdir().unwrap();
        let store = Sqlite::open(dir.path().join("tasks.db")).unwrap();
        let owner = |name: &str| Owner::principal(name).unwrap();
        let (ann, bob) = (owner("ann"), owner("bob"));
        let mut new = task("one");
        new.owner = ann.clone();
        let id = new.id.clone();
        store.create(new).await.unwrap();
        for _ in 0..2 {
            assert!(store.get(Scope::Owner(&ann), &id).await.unwrap().is_some());
            assert!(store.get(Scope::Owner(&bob), &id).await.unwrap().is_none());
        }
    }

    #[tokio::test]
    async fn what_is_past_its_time_is_found_by_nobody() {
        let (dir, clock) =
            (tempfile::tempdir().unwrap(), StepClock::at(Time::from_unix_ms(1_700_000_000_000)));
        let options = SqliteOptions::new().with_clock(Arc::new(clock.clone()));
        let store = options.open(dir.path().join("tasks.db")).unwrap();
        let id = TaskId::new("one").unwrap();
        let mut new = task("one");
        new.retention = Retention::AfterTerminal(Duration::from_secs(60));
        store.create(new).await.unwrap();
        store.request_cancel(Scope::Operator, &id, None).await.unwrap();
        let ended = get(&store, &id).await.unwrap();
        assert!(store.site.recent.find(&id).is_some());
        clock.advance(ended.expires_at.unwrap().since(store.now()));
        assert_eq!(get(&store, &id).await, None);
    }

    #[tokio::test]
    async fn every_write_of_a_task_takes_it_away() {
        let (dir, clock) =
            (tempfile::tempdir().unwrap(), StepClock::at(Time::from_unix_ms(1_700_000_000_000)));
        let options = SqliteOptions::new().with_clock(Arc::new(clock.clone()));
        let store = options.open(dir.path().join("tasks.db")).unwrap();
        let outside = read::open(&store.site).unwrap();
        let id = TaskId::new("one").unwrap();
        let check = async |what: &str| {
            let there = read::get(&outside, &store.site, Scope::Operator, &id, store.now()).unwrap();
            assert_eq!(get(&store, &id).await, there, "after {what}");
            assert_eq!(store.site.recent.find(&id).as_deref(), there.as_ref(), "after {what}");
        };
        let mut new = task("one");
        new.orphan = Some(OrphanRule::new(Duration::from_secs(3600), OnOrphan::Cancel));
        let epoch = store.create(new).await.unwrap().into_record().epoch;
        check("create").await;
        clock.advance(Duration::from_secs(1));
        assert_eq!(store.renew(&[(id.clone(), epoch)]).await.unwrap(), []);
        check("renew").await;
        store.write(&id, epoch, said("half")).await.unwrap();
        check("write").await;
        assert!(store.came_back(Scope::Operator, &id).await.unwrap());
        check("came_back").await;
        let until = store.now().after(Duration::from_secs(60));
        store.write(&id, epoch, Batch::new().with_park(Park::new(vec![], Some(until)))).await.unwrap();
        check("park").await;
        assert!(store.make_due(&id).await.unwrap());
        check("make_due").await;
        let epoch = store.claim_one(&id).await.unwrap().unwrap().epoch;
        check("claim").await;
        store.release(&id, epoch).await.unwrap();
        check("release").await;
        store.request_cancel(Scope::Operator, &id, Some("enough")).await.unwrap();
        check("request_cancel").await;
        store.erase(Scope::Operator, &id).await.unwrap();
        check("erase").await;
    }

    #[tokio::test]
    async fn what_another_process_commits_is_seen_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let one = Sqlite::open(dir.path().join("tasks.db")).unwrap();
        // Another handle stands for another process.
        let other = Sqlite::open(one.path()).unwrap();
        let id = TaskId::new("one").unwrap();
        one.create(task("one")).await.unwrap();
        assert!(get(&one, &id).await.is_some() && one.site.recent.find(&id).is_some());
        other.request_cancel(Scope::Operator, &id, None).await.unwrap();
        assert!(one.site.recent.find(&id).is_none());
        assert!(get(&one, &id).await.unwrap().is_terminal());
        // Without a write of its own, too, it finds out where the log ends.
        std::thread::sleep(PAUSE);
        assert!(get(&one, &id).await.unwrap().is_terminal());
        assert!(one.site.recent.find(&id).is_some_and(|found| found.is_terminal()));
    }

    #[tokio::test]
    async fn what_is_kept_has_its_bound() {
        let dir = tempfile::tempdir().unwrap();
        let store = Sqlite::open(dir.path().join("tasks.db")).unwrap();
        let text = |bytes: usize| Json::parse(format!("{:?}", "x".repeat(bytes))).unwrap();
        let ids: Vec<TaskId> = (0..100).map(|n| TaskId::new(format!("t{n}")).unwrap()).collect();
        for id in &ids {
            let mut new = task(id.as_str());
            new.arguments = text(LARGEST - SMALLEST - 1024);
            store.create(new).await.unwrap();
            get(&store, id).await.unwrap();
        }
        let found = ids.iter().filter(|id| store.site.recent.find(id).is_some()).count();
        assert!((ROOM / LARGEST / 2 - 1..=ROOM / LARGEST + 2).contains(&found), "{found}");
        let mut new = task("large");
        new.arguments = text(LARGEST);
        let large = new.id.clone();
        store.create(new).await.unwrap();
        assert!(get(&store, &large).await.is_some() && store.site.recent.find(&large).is_none());
    }

    /// Two processes, each of which writes of its tasks and reads those of both: no read is older than what was acknowledged
    /// before it began.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_read_is_older_than_what_was_acknowledged() {
        const WRITES: u32 = 300;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tasks.db");
        let stores: Vec<Arc<Sqlite>> = (0..2).map(|_| Arc::new(Sqlite::open(&path).unwrap())).collect();
        let acknowledged: Arc<Vec<(TaskId, AtomicU64)>> =
            Arc::new((0..4).map(|n| (TaskId::new(format!("t{n}")).unwrap(), AtomicU64::new(0))).collect());
        // One process has three of them and the other one.
        let of = |nth: usize| stores[nth / 3].clone();
        let mut epochs = Vec::new();
        for (nth, (id, _)) in acknowledged.iter().enumerate() {
            epochs.push(of(nth).create(task(id.as_str())).await.unwrap().into_record().epoch);
        }
        let over = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = (stores.iter().cloned())
            .map(|store| {
                let (acknowledged, over) = (acknowledged.clone(), over.clone());
                tokio::spawn(async move {
                    let mut from_memory = 0;
                    while !over.load(Ordering::Acquire) {
                        for (id, seq) in acknowledged.iter() {
                            let at_least = seq.load(Ordering::Acquire);
                            from_memory += u64::from(store.site.recent.find(id).is_some());
                            let found = get(&store, id).await.unwrap().seq;
                            assert!(found >= at_least, "{id}: {found} after {at_least}");
                        }
                        tokio::task::yield_now().await;
                    }
                    from_memory
                })
            })
            .collect();
        let writers: Vec<_> = (epochs.into_iter().enumerate())
            .map(|(nth, epoch)| {
                // And writes much less.
                let (store, writes) = (of(nth), if nth < 3 { WRITES } else { WRITES / 30 });
                let acknowledged = acknowledged.clone();
                tokio::spawn(async move {
                    let (id, seq) = &acknowledged[nth];
                    for number in 0..writes {
                        let progress = Progress::new(f64::from(number), None, None);
                        let written =
                            store.write(id, epoch, Batch::new().with_progress(progress)).await.unwrap();
                        seq.fetch_max(written, Ordering::Release);
                        tokio::time::sleep(Duration::from_millis(if nth == 0 { 0 } else { 3 })).await;
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        over.store(true, Ordering::Release);
        for reader in readers {
            assert!(reader.await.unwrap() > 0, "none was read from memory, so that nothing was shown");
        }
    }
}
