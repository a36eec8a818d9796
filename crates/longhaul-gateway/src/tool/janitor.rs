//! Ends and removes what no task needs any more.
//!
//! A server can die between recording that a task is cancelled and ending its command, or before it
//! removes a run whose task is forgotten. Whoever comes next puts that right.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use longhaul::store::{Record, Scope, StoreError, TaskId, TaskStore};
use tokio::task::JoinSet;

use super::run;
use crate::command::{RunsDir, RunsError, State};

/// Tidies `runs` at once and then every `every`, for as long as the runtime lives.
pub async fn keep_tidy(store: Arc<dyn TaskStore>, runs: RunsDir, every: Duration) {
    let mut memory = Memory::default();
    loop {
        match tidy_all(&*store, &runs, &mut memory).await {
            Ok(Tidied { ended: 0, removed: 0 }) => {}
            Ok(tidied) => tracing::info!(tidied.ended, tidied.removed, "tidied up after old runs"),
            Err(error) => tracing::warn!(%error, "old runs could not be looked through"),
        }
        tokio::time::sleep(every).await;
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Tidied {
    /// Runs that went on although their task had ended.
    pub ended: usize,
    /// Runs whose task is forgotten.
    pub removed: usize,
}

/// Ends runs whose task has ended, and removes those whose task is forgotten. Runs that belong to a call
/// which is not on disk yet are left to their server, and those of [another store](RunsDir::with_store) to that.
///
/// # Errors
///
/// When the store cannot be read.
pub async fn tidy(store: &dyn TaskStore, runs: &RunsDir) -> Result<Tidied, StoreError> {
    tidy_all(store, runs, &mut Memory::default()).await
}

/// What one look remembers for the next.
#[derive(Debug, Default)]
struct Memory {
    /// Runs of which nothing is left or will come, so that each is seen to once.
    cleared: HashSet<String>,
    /// What went wrong last with a run, so that it is said once.
    trouble: HashMap<String, String>,
    /// How many runs of another store were left alone.
    strangers: usize,
}

impl Memory {
    fn keep_only(&mut self, ids: &HashSet<String>) {
        self.cleared.retain(|id| ids.contains(id));
        self.trouble.retain(|id, _| ids.contains(id));
    }

    /// Notes how many runs of another store there are, and says so once: their tasks may be in a file that was moved.
    fn left_alone(&mut self, strangers: usize, runs: &RunsDir) {
        if strangers > self.strangers {
            let dir = runs.path().display();
            tracing::warn!(
                "{strangers} run(s) in {dir} belong to another store and are left alone, but count: put that store's file \
                 back, or remove their directories if it is gone for good"
            );
        }
        self.strangers = strangers;
    }

    fn failed(&mut self, id: &str, error: &dyn Display) {
        let error = error.to_string();
        if self.trouble.get(id) != Some(&error) {
            tracing::warn!(id, error, "a run could not be tidied up: its files stay, and count");
            self.trouble.insert(id.to_owned(), error);
        }
    }
}

/// Something to do about one run.
#[derive(Debug, Eq, PartialEq)]
enum Duty {
    /// It goes on, or may still begin, although its task has ended, or is forgotten since.
    End { tool: Option<Arc<str>>, alive: bool },
    /// Its supervisor was killed: what is left of it is ended.
    Clear { then_remove: bool },
    /// Nobody knows of it.
    Remove,
    /// It is another store's.
    LeaveAlone,
}

/// What came of it.
#[derive(Debug, Default)]
struct Did {
    ended: bool,
    removed: bool,
    cleared: bool,
}

async fn tidy_all(store: &dyn TaskStore, runs: &RunsDir, memory: &mut Memory) -> Result<Tidied, StoreError> {
    let mut tidied = Tidied::default();
    let ids = match runs.blocking(RunsDir::ids).await {
        Some(Ok(ids)) => ids,
        Some(Err(error)) => {
            tracing::warn!(%error, "the runs cannot be listed");
            return Ok(tidied);
        }
        None => return Ok(tidied),
    };
    let ids: HashSet<String> = ids.into_iter().collect();
    memory.keep_only(&ids);
    // To end a run takes as long as its grace, and the next must not wait for it.
    let mut busy = JoinSet::new();
    let mut strangers = 0;
    for id in ids {
        let duty = match duty(store, runs, &id, memory).await {
            // One damaged task keeps nobody else's run from being seen to.
            Err(error @ (StoreError::Corrupt { .. } | StoreError::NoKey { .. })) => {
                memory.failed(&id, &error);
                continue;
            }
            duty => duty?,
        };
        if let Some(duty) = duty {
            if duty == Duty::LeaveAlone {
                strangers += 1;
                continue;
            }
            if busy.len() >= AT_ONCE {
                settle(&mut busy, &mut tidied, memory).await;
            }
            let runs = runs.clone();
            busy.spawn(async move {
                let did = see_to(&runs, &id, duty).await;
                (id, did)
            });
        }
    }
    while !busy.is_empty() {
        settle(&mut busy, &mut tidied, memory).await;
    }
    memory.left_alone(strangers, runs);
    Ok(tidied)
}

/// How many runs are seen to at once.
const AT_ONCE: usize = 16;

/// What is to be done about a run, by what its directory and its task say.
async fn duty(
    store: &dyn TaskStore,
    runs: &RunsDir,
    id: &str,
    memory: &mut Memory,
) -> Result<Option<Duty>, StoreError> {
    let Ok(task) = TaskId::new(id) else { return Ok(None) };
    // The run is looked at first: a task that is not there afterwards was not there before.
    let name = id.to_owned();
    let look = move |runs: &RunsDir| Ok::<_, RunsError>((runs.state(&name)?, runs.is_committed(&name)?));
    let (state, was_a_tasks) = match runs.blocking(look).await {
        Some(Ok(seen)) => seen,
        Some(Err(error)) => {
            memory.failed(id, &error);
            return Ok(None);
        }
        None => return Ok(None),
    };
    let record = store.get(Scope::Operator, &task).await?;
    if record.is_none() && state != State::Absent {
        // A task that this store does not know may be one that another still knows.
        let name = id.to_owned();
        match runs.blocking(move |runs| runs.is_of_store(&name)).await {
            Some(Ok(true)) => {}
            Some(Ok(false)) => return Ok(Some(Duty::LeaveAlone)),
            Some(Err(error)) => {
                memory.failed(id, &error);
                return Ok(None);
            }
            None => return Ok(None),
        }
    }
    let has_ended = record.as_ref().is_some_and(Record::is_terminal);
    let cleared = memory.cleared.contains(id);
    Ok(match (state, record) {
        (State::Alive { .. }, Some(record)) if has_ended => {
            Some(Duty::End { tool: Some(record.tool), alive: true })
        }
        // Its host was away for so long that its task was lost, and then forgotten.
        (State::Alive { .. }, None) if was_a_tasks => Some(Duty::End { tool: None, alive: true }),
        // A supervisor on its way, started by a server that was killed, must not begin now.
        (State::Fresh, Some(record)) if has_ended && !cleared => {
            Some(Duty::End { tool: Some(record.tool), alive: false })
        }
        // Its task may have ended before its supervisor was killed, or have been lost with both.
        (State::Lost, Some(_)) if has_ended && !cleared => Some(Duty::Clear { then_remove: false }),
        (State::Lost, None) if !cleared => Some(Duty::Clear { then_remove: true }),
        // The last is a run prepared by a server that was killed before it started anything.
        (State::Lost | State::Exited(_) | State::Fresh, None) => Some(Duty::Remove),
        _ => None,
    })
}

type Settled = (String, Result<Did, String>);

/// Waits for one run to be seen to.
async fn settle(busy: &mut JoinSet<Settled>, tidied: &mut Tidied, memory: &mut Memory) {
    match busy.join_next().await {
        Some(Ok((id, Ok(did)))) => {
            tidied.ended += usize::from(did.ended);
            tidied.removed += usize::from(did.removed);
            memory.trouble.remove(&id);
            if did.cleared {
                memory.cleared.insert(id);
            }
        }
        Some(Ok((id, Err(error)))) => memory.failed(&id, &error),
        // Nobody else tidies up: the other runs are not to wait for the one whose files make it panic.
        Some(Err(error)) => tracing::error!(%error, "seeing to a run was cut short"),
        None => {}
    }
}

async fn see_to(runs: &RunsDir, id: &str, duty: Duty) -> Result<Did, String> {
    let mut did = Did::default();
    match duty {
        Duty::End { tool, alive } => {
            let tool = tool.as_deref().unwrap_or("forgotten");
            tracing::info!(id, tool, "ending a command whose task has ended");
            run::cancel(runs, id).await.map_err(|error| error.to_string())?;
            (did.ended, did.cleared) = (alive, !alive);
        }
        Duty::Clear { then_remove } => {
            let name = id.to_owned();
            let survivors = runs.blocking(move |runs| runs.end_leftovers(&name)).await;
            let Some(survivors) = survivors else { return Ok(did) };
            did.cleared = survivors.map_err(|error| error.to_string())? == 0;
            // While something of it runs, it is looked at again, and for that its files are needed.
            did.removed = did.cleared && then_remove && remove_if_done_with(runs, id).await?;
        }
        Duty::Remove => did.removed = remove_if_done_with(runs, id).await?,
        Duty::LeaveAlone => {}
    }
    Ok(did)
}

/// Removes a run of which there is no task, if it was a task's, which is then forgotten, or if nothing has happened in
/// it for so long that no server can still be reading it. A call that never became a task has its run removed by its
/// own server.
async fn remove_if_done_with(runs: &RunsDir, id: &str) -> Result<bool, String> {
    let id = id.to_owned();
    let removed = runs.blocking(move |runs| {
        match was_a_tasks(runs, &id).and_then(|was| Ok(was || is_old(runs, &id)?)) {
            Ok(false) => Ok(false),
            Ok(true) => runs.remove(&id).map_err(|error| error.to_string()),
            // Another server was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(format!("its files cannot be looked at: {error}")),
        }
    });
    removed.await.unwrap_or(Ok(false))
}

/// A run is committed when the row of its task is on the disk, and never before.
fn was_a_tasks(runs: &RunsDir, id: &str) -> io::Result<bool> {
    runs.is_committed(id).map_err(io::Error::other)
}

fn is_old(runs: &RunsDir, id: &str) -> io::Result<bool> {
    let dir = runs.dir(id).map_err(io::Error::other)?;
    for entry in std::fs::read_dir(dir)? {
        // What is of the future is new.
        let age = entry?.metadata()?.modified()?.elapsed().unwrap_or_default();
        if age < OLD {
            return Ok(false);
        }
    }
    Ok(true)
}

/// How long a run without a task is left alone after its last change.
const OLD: Duration = Duration::from_secs(10 * 60);

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use longhaul::store::{Json, Memory as Tasks, NewTask, Overlay, Owner, StoreFuture};

    use super::*;
    use crate::command::Spec;

    fn runs() -> (tempfile::TempDir, RunsDir) {
        let root = tempfile::tempdir().unwrap();
        let runs = RunsDir::open(root.path().join("runs")).unwrap();
        (root, runs)
    }

    /// Prepares a run, as a server does that is then killed.
    fn prepare(runs: &RunsDir, id: &str, age: Duration) {
        let dir = runs.prepare(id, &Spec::new(["/bin/true"], "/")).unwrap();
        for entry in std::fs::read_dir(dir).unwrap() {
            let file = File::options().write(true).open(entry.unwrap().path()).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }
    }

    #[tokio::test]
    async fn a_prepared_run_that_no_task_knows_is_removed_when_it_is_old() {
        let ((_root, runs), tasks) = (runs(), Tasks::new());
        prepare(&runs, "old", OLD);
        prepare(&runs, "new", OLD / 2);
        prepare(&runs, "known", OLD);
        let arguments = Json::parse("{}").unwrap();
        let known = NewTask::new(TaskId::new("known").unwrap(), Owner::Anonymous, "tool", arguments);
        tasks.create(known).await.unwrap();

        let tidied = tidy(&tasks, &runs).await.unwrap();
        assert_eq!(tidied, Tidied { ended: 0, removed: 1 });
        let mut left = runs.ids().unwrap();
        left.sort();
        assert_eq!(left, ["known", "new"]);
    }

    #[tokio::test]
    async fn a_run_whose_task_is_forgotten_is_removed_at_once() {
        let ((_root, runs), tasks) = (runs(), Tasks::new());
        let spec = Spec::new(["/bin/true"], "/");
        runs.prepare_committed("was-a-task", &spec).unwrap();
        runs.prepare("may-become-one", &spec).unwrap();
        assert_eq!(tidy(&tasks, &runs).await.unwrap(), Tidied { ended: 0, removed: 1 });
        assert_eq!(runs.ids().unwrap(), ["may-become-one"]);
    }

    #[tokio::test]
    async fn a_run_of_another_store_is_left_alone() {
        let ((root, unnamed), tasks) = (runs(), Tasks::new());
        let of = |store: &str| RunsDir::open(root.path().join("runs")).unwrap().with_store(store);
        let spec = Spec::new(["/bin/true"], "/");
        of("theirs").prepare_committed("theirs", &spec).unwrap();
        of("ours").prepare_committed("ours", &spec).unwrap();
        unnamed.prepare_committed("nobodys", &spec).unwrap();

        let mut memory = Memory::default();
        let tidied = tidy_all(&tasks, &of("ours"), &mut memory).await.unwrap();
        assert_eq!((tidied, memory.strangers), (Tidied { ended: 0, removed: 1 }, 2));
        let tidied = tidy_all(&tasks, &unnamed, &mut memory).await.unwrap();
        assert_eq!((tidied, memory.strangers), (Tidied { ended: 0, removed: 1 }, 1));
        assert_eq!(unnamed.ids().unwrap(), ["theirs"]);
    }

    /// A store in which one task cannot be read.
    #[derive(Debug)]
    struct Damaged(Tasks);

    impl Overlay for Damaged {
        type Below = Tasks;

        fn below(&self) -> &Tasks {
            &self.0
        }

        fn get<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
            if id.as_str() == "damaged" {
                let what = "task damaged".to_owned();
                return Box::pin(std::future::ready(Err(StoreError::Corrupt { what, source: None })));
            }
            TaskStore::get(&self.0, scope, id)
        }
    }

    #[tokio::test]
    async fn a_task_that_cannot_be_read_keeps_no_other_run_from_being_removed() {
        let ((_root, runs), tasks) = (runs(), Damaged(Tasks::new()));
        prepare(&runs, "damaged", OLD);
        for number in 0..10 {
            prepare(&runs, &format!("old-{number}"), OLD);
        }
        let mut memory = Memory::default();
        let tidied = tidy_all(&tasks, &runs, &mut memory).await.unwrap();
        assert_eq!(tidied, Tidied { ended: 0, removed: 10 });
        assert!(memory.trouble["damaged"].contains("task damaged"), "{:?}", memory.trouble);
        assert_eq!(runs.ids().unwrap(), ["damaged"], "nobody knows whether its task has ended");
    }

    #[tokio::test]
    async fn a_panic_over_one_run_does_not_end_the_looking() {
        let (mut tidied, mut memory) = (Tidied::default(), Memory::default());
        let mut busy = JoinSet::new();
        busy.spawn(async { panic!("a bug") });
        settle(&mut busy, &mut tidied, &mut memory).await;
        assert_eq!(tidied, Tidied::default());
    }

    #[tokio::test]
    async fn a_run_that_cannot_be_removed_is_no_secret_and_does_not_keep_the_others() {
        let ((_root, runs), tasks) = (runs(), Tasks::new());
        prepare(&runs, "damaged", OLD);
        prepare(&runs, "old", OLD);
        std::fs::remove_file(runs.dir("damaged").unwrap().join("lock")).unwrap();

        let mut memory = Memory::default();
        let tidied = tidy_all(&tasks, &runs, &mut memory).await.unwrap();
        assert_eq!(tidied, Tidied { ended: 0, removed: 1 });
        let trouble = memory.trouble.get("damaged").unwrap();
        assert!(trouble.contains("cannot open") && trouble.contains("lock"), "{trouble}");

        std::fs::remove_dir_all(runs.dir("damaged").unwrap()).unwrap();
        tidy_all(&tasks, &runs, &mut memory).await.unwrap();
        assert!(memory.trouble.is_empty(), "what is gone is forgotten");
    }
}
