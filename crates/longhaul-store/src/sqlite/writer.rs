//! The one thread that writes: it commits what has come together, and answers only then.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rusqlite::Connection;
use tokio::sync::mpsc;

use super::{
    flushed::Flushed,
    job::{Job, pass},
    tx::{Care, Site, Tx},
    writer_lock::{Turn, WriterLock},
};
use crate::StoreError;

/// The writer's end of the queue, its connection and its turn.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) site: Arc<Site>,
    pub(super) conn: Connection,
    pub(super) turn: WriterLock,
    pub(super) patience: Duration,
    /// How long a group may collect before it is committed.
    pub(super) longest_group: Duration,
}

impl Writer {
    /// Works until nobody can send any more.
    pub(super) fn run(self, mut queue: mpsc::Receiver<Box<dyn Job>>) {
        while let Some(first) = queue.blocking_recv() {
            let mut jobs = vec![first];
            // Whoever is about to write may come along: on a busy processor they would otherwise wait for this thread,
            // and each group be small. On an idle one this costs nothing.
            thread::yield_now();
            // Those in line wait for the turn together; one by one, each would wait as long as the one before it.
            while jobs.len() < LARGEST_GROUP
                && let Ok(job) = queue.try_recv()
            {
                jobs.push(job);
            }
            match self.commit(&mut jobs, Some(&mut queue)) {
                // One huge write may have filled the disk for many small ones: each gets its own chance.
                Err(StoreError::Full { .. }) if jobs.len() > 1 => {
                    for job in jobs {
                        let mut alone = vec![job];
                        let result = self.commit(&mut alone, None);
                        self.remember(&result);
                        settle(alone, &result);
                    }
                }
                result => {
                    self.remember(&result);
                    settle(jobs, &result);
                }
            }
        }
    }

    /// Remembers that nothing can be written, for who asks whether more should be sent.
    fn remember(&self, result: &Result<(), StoreError>) {
        match result {
            // The turn comes, and whether the file is there is looked at when somebody asks.
            Ok(()) | Err(StoreError::Busy { .. } | StoreError::Gone { .. }) => {}
            Err(error) => *self.site.failing() = Some(error.clone()),
        }
    }

    /// Runs the jobs, and any that arrive meanwhile, in one transaction.
    fn commit(
        &self,
        jobs: &mut Vec<Box<dyn Job>>,
        mut more: Option<&mut mpsc::Receiver<Box<dyn Job>>>,
    ) -> Result<(), StoreError> {
        self.site.file.check()?;
        let turn = self.turn.acquire(self.patience)?;
        let mut result = self.transact(&turn, jobs, &mut more, Care::Trusting);
        if matches!(result, Ok(Group::Spoilt)) {
            self.roll_back();
            result = self.transact(&turn, jobs, &mut more, Care::Savepoints);
        }
        if result.is_err() {
            self.roll_back();
        }
        result.map(drop)
    }

    fn roll_back(&self) {
        if !self.conn.is_autocommit()
            && let Err(error) = self.conn.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "a failed transaction cannot be rolled back");
        }
    }

    fn transact(
        &self,
        turn: &Turn<'_>,
        jobs: &mut Vec<Box<dyn Job>>,
        more: &mut Option<&mut mpsc::Receiver<Box<dyn Job>>>,
        care: Care,
    ) -> Result<Group, StoreError> {
        let failed = |error| self.site.error("writing", error);
        let began = Instant::now();
        let mut tx = Tx::begin(&self.conn, &self.site).map_err(failed)?;
        let before = tx.seq();
        let mut done = 0;
        loop {
            while let Some(job) = jobs.get_mut(done) {
                if !self.run_one(&mut tx, &mut **job, care)? {
                    return Ok(Group::Spoilt);
                }
                done += 1;
            }
            let full = done >= LARGEST_GROUP || began.elapsed() >= self.longest_group;
            match more.as_mut().filter(|_| !full).and_then(|queue| queue.try_recv().ok()) {
                Some(job) => jobs.push(job),
                None => break,
            }
        }
        let after = tx.seq();
        if !tx.is_dirty() {
            return tx.end().map(|()| Group::Committed).map_err(failed);
        }
        pass(jobs, |points| points.before);
        let (changes, changing) = {
            let mut told = self.site.told();
            let committed = tx.commit().map_err(failed)?;
            // If another process wrote in between, its changes are still to be told: the watcher sees the gap.
            if *told == before {
                *told = after;
            }
            committed
        };
        let flushed = self.flushed();
        changing.done(flushed);
        Self::note(turn, flushed);
        // Gone meanwhile: what was committed may be in no file that anybody finds.
        self.site.file.check()?;
        *self.site.failing() = None;
        pass(jobs, |points| points.after);
        for (task, seq) in &changes {
            self.site.hub.wake(task, *seq);
        }
        Ok(Group::Committed)
    }

    /// How much of the log has reached the disk, which is all of it, for each commit is flushed. Who has the turn alone sees no
    /// other round of it begin, but the turn is not one's alone once somebody has removed the file of its lock.
    fn flushed(&self) -> Option<Flushed> {
        let found = self.site.recent.committed(&self.conn);
        found.unwrap_or_else(|error| {
            tracing::debug!(%error, "how much of the log is flushed cannot be told");
            None
        })
    }

    /// Notes it for who opens the store next. What was noted before stays true, so that this may fail: on a full disk, say, where
    /// nobody would want to read of it again and again.
    fn note(turn: &Turn<'_>, flushed: Option<Flushed>) {
        if let Some(Err(error)) = flushed.map(|flushed| turn.note(flushed)) {
            tracing::debug!(%error, "how much of the log is flushed cannot be noted");
        }
    }

    /// Runs a job so that its failure takes back its own changes only; `false` if that cannot be done.
    fn run_one(&self, tx: &mut Tx<'_>, job: &mut dyn Job, care: Care) -> Result<bool, StoreError> {
        let failed = |error| self.site.error("writing", error);
        let mark = tx.mark(care).map_err(failed)?;
        match job.run(tx) {
            Ok(()) => tx.keep(care).map(|()| true).map_err(failed),
            // Some failures (no space, no memory, I/O) end the whole transaction, and so they are the group's.
            Err(error) if self.conn.is_autocommit() => Err(error),
            Err(_) => tx.take_back(&mark, care).map_err(failed),
        }
    }
}

/// What became of a group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Group {
    Committed,
    /// An operation failed halfway, and the others must not suffer for it: they are all to be done again with care.
    Spoilt,
}

fn settle(jobs: Vec<Box<dyn Job>>, result: &Result<(), StoreError>) {
    for job in jobs {
        job.settle(result.clone());
    }
}

/// The most operations of one group.
const LARGEST_GROUP: usize = 512;

/// How long a group usually may collect before it is committed.
pub(super) const LONGEST_GROUP: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::{
        Json, NewTask, NodeId, Owner, Scope, Sqlite, TaskId, TaskStore as _,
        sqlite::{
            job::{Jobs, Points},
            operation, read,
        },
    };

    const POINTS: Points = Points { before: "test.before", after: "test.after" };

    fn task(name: &str) -> NewTask {
        NewTask::new(TaskId::new(name).unwrap(), Owner::Anonymous, "build", Json::parse("{}").unwrap())
    }

    /// A writer that has not begun yet, on a store that is open.
    fn idle_writer(store: &Sqlite) -> Writer {
        let conn = Connection::open(store.path()).unwrap();
        conn.pragma_update(None, "synchronous", "full").unwrap();
        let turn = WriterLock::open(store.path().with_extension("other-writer")).unwrap();
        // However slow the machine, the group is one.
        let longest_group = Duration::from_secs(60);
        Writer { site: store.site.clone(), conn, turn, patience: Duration::from_secs(5), longest_group }
    }

    #[tokio::test]
    async fn what_waits_in_line_is_committed_together_and_a_failure_stays_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let store = Sqlite::open(dir.path().join("tasks.db")).unwrap();
        let writer = idle_writer(&store);
        let (sender, queue) = mpsc::channel(16);
        let jobs = Jobs(sender);
        let site = store.site.clone();
        let calls = (0..10).map(|number| {
            let (jobs, site) = (jobs.clone(), site.clone());
            let node: NodeId = store.presence.node().clone();
            async move {
                jobs.call(&POINTS, move |tx| {
                    let created = operation::create(tx, &node, &task(&format!("t{number}")))?;
                    // Whoever reads from outside still sees nothing, so nobody's write is committed before the rest.
                    let outside = read::open(&site).map_err(|error| site.error("reading", error))?;
                    assert_eq!(read::counts(&outside, &site)?.open, 0);
                    if number == 3 { Err(StoreError::InvalidCursor) } else { Ok(created) }
                })
                .await
            }
        });
        let calls: Vec<_> = calls.map(|call| tokio::spawn(call)).collect();
        tokio::task::yield_now().await;
        drop(jobs);
        let (done, finished) = oneshot::channel();
        let thread = thread::spawn(move || {
            writer.run(queue);
            done.send(()).unwrap();
        });
        finished.await.unwrap();
        thread.join().unwrap();
        for (number, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap().is_err(), number == 3, "{number}");
            let found =
                store.get(Scope::Operator, &TaskId::new(format!("t{number}")).unwrap()).await.unwrap();
            assert_eq!(found.is_some(), number != 3, "{number}");
        }
        let counts = store.counts().await.unwrap();
        assert_eq!((counts.open, counts.retained), (9, 9), "the one that failed is not counted");
        let account = "SELECT open, retained, last FROM accounts";
        let account = Connection::open(store.path()).unwrap().query_row(account, [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        });
        assert_eq!(account.unwrap(), (9, 9, 9), "nor charged to its owner");
    }

    #[tokio::test]
    async fn a_group_in_which_everything_is_refused_writes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = Sqlite::open(dir.path().join("tasks.db")).unwrap();
        store.create(task("t")).await.unwrap();
        let conn = Connection::open(store.path()).unwrap();
        let version = || conn.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0)).unwrap();
        let before = version();
        for _ in 0..3 {
            assert!(store.create(task("t")).await.is_err());
        }
        assert_eq!(version(), before);
        store.create(task("u")).await.unwrap();
        assert_ne!(version(), before);
    }

    #[tokio::test]
    async fn a_closed_queue_is_reported() {
        let (sender, queue) = mpsc::channel(1);
        drop(queue);
        let refusal = Jobs(sender).call(&POINTS, |_| Ok(())).await.unwrap_err();
        assert!(matches!(refusal, StoreError::Closed));
        assert!(!refusal.is_retryable());
    }
}
