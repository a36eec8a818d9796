//! `longhaul store check`: whether what a store holds is as it must be.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use longhaul::store::{Filter, Page, Record, Scope, StoreError, TaskId, TaskStore};
use longhaul::tasks::machine::has_witness;
use longhaul_store::transfer::{Miscount, Transfer};
use longhaul_store::{Format, Sqlite, SqliteOptions};
use serde_json::{Value, json};

use super::{Kept, Which, in_words};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::store;
use crate::term::{clean, note, print};

pub(super) async fn run(which: &Which) -> Outcome {
    let kept = which.kept()?;
    let format = kept.format().await?;
    let mut findings = Findings::default();
    if let Kept::File(path) = &kept {
        for line in Sqlite::integrity(path)? {
            findings.problem(None, format!("the file is damaged: {line}"));
        }
    }
    if format.is_old() {
        let (code, what) = match format.found {
            None => ("no_store", in_words(format)),
            Some(_) => ("old_format", format!("its format is {}", in_words(format))),
        };
        let next = format!("longhaul store migrate {}", which.store);
        return Err(Failure::new(Exit::Failed, code, format!("{}: {what}", which.store)).next(next));
    }
    let (store, durability): (Arc<dyn Transfer>, String) = match &kept {
        Kept::File(path) => {
            let store = SqliteOptions::new().open_to_read(path)?;
            let durability = store.durability().to_string();
            (Arc::new(store), durability)
        }
        Kept::Database(url) => {
            let store = store::postgres().open(url.expose()).await?;
            let durability = format!("{} ({})", store.durability(), store.commits());
            (Arc::new(store), durability)
        }
        Kept::Server(url) => {
            let store = store::redis().open(url.expose()).await?;
            let durability = format!("{} ({})", store.durability(), store.commits());
            (Arc::new(store), durability)
        }
    };
    findings.look(&*store).await?;
    findings.weigh(&*store).await;
    findings.count_all(&*store).await?;
    findings.show(which, format, &durability)
}

/// What was found.
#[derive(Default)]
struct Findings {
    tasks: u64,
    open: u64,
    problems: Vec<(Option<TaskId>, String)>,
}

/// How often it is counted again what servers may have changed while it was counted.
const COUNTS: usize = 5;

/// How long they have in between to be done with it.
const PAUSE: Duration = Duration::from_millis(100);

impl Findings {
    fn problem(&mut self, task: Option<&TaskId>, what: impl Into<String>) {
        self.problems.push((task.cloned(), what.into()));
    }

    /// Looks at every task, and counts them.
    async fn look(&mut self, store: &dyn TaskStore) -> Result<(), StoreError> {
        let mut parents: HashMap<TaskId, Vec<TaskId>> = HashMap::new();
        let mut after = None;
        loop {
            let page = store.list(Scope::Operator, &Filter::all(), after.as_ref(), Page::MAX).await?;
            for record in &page.tasks {
                self.tasks += 1;
                for what in wrong_still(store, record).await? {
                    self.problem(Some(&record.id), what);
                }
                if let Some(parent) = record.parent.as_ref().filter(|_| !record.is_terminal()) {
                    parents.entry(parent.task.clone()).or_default().push(record.id.clone());
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        for (parent, children) in parents {
            // One that is forgotten has ended, and what outlives it goes on.
            if let Some(record) = store.get(Scope::Operator, &parent).await?
                && !record.is_terminal()
                && record.children.open == 0
                // They may have ended since they were listed, and only then their parent was read.
                && is_any_open(store, &children).await?
            {
                self.problem(Some(&parent), "a task that it has made goes on, and it knows of none");
            }
        }
        self.count(store).await
    }

    /// Holds what the store says of how many are open against how many there are.
    async fn count(&mut self, store: &dyn TaskStore) -> Result<(), StoreError> {
        let (mut said, mut counted) = (0, 0);
        for look in 0..COUNTS {
            if look > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            (said, counted) = (store.counts().await?.open, 0);
            let mut after = None;
            loop {
                let page = store.list(Scope::Operator, &Filter::open(), after.as_ref(), Page::MAX).await?;
                counted += page.tasks.len() as u64;
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            if said == counted {
                break;
            }
        }
        self.open = counted;
        if said != counted {
            self.problem(None, format!("it says that {said} tasks are open, and {counted} can be read"));
        }
        Ok(())
    }

    /// Holds what the store says of how many tasks take room against how many there are, with what is left of forgotten ones.
    async fn count_all(&mut self, store: &dyn Transfer) -> Result<(), StoreError> {
        let (mut said, mut counted) = (0, 0);
        for look in 0..COUNTS {
            if look > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            (said, counted) = (store.counts().await?.retained, store.rows().await?);
            if said == counted {
                return Ok(());
            }
        }
        self.problem(None, format!("it says that {said} tasks take room, and {counted} do"));
        Ok(())
    }

    /// Holds what owners are charged for their tasks against what these take.
    async fn weigh(&mut self, store: &dyn Transfer) {
        let mut wrong: Option<Vec<Miscount>> = None;
        for look in 0..COUNTS {
            if look > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            let found = match store.miscounted().await {
                Ok(found) => found,
                Err(error) => {
                    return self
                        .problem(None, format!("what owners are charged for cannot be counted: {error}"));
                }
            };
            // What servers have changed while it was counted is on one side alone; what is wrong is so by as much each time.
            let by = |miscount: &Miscount| miscount.charged.wrapping_sub(miscount.has);
            let still = |now: &Miscount| {
                let before = wrong.iter().flatten().find(|before| before.owner == now.owner);
                wrong.is_none() || before.is_some_and(|before| by(before) == by(now))
            };
            let found: Vec<Miscount> = found.iter().filter(|now| still(now)).cloned().collect();
            if found.is_empty() {
                return;
            }
            wrong = Some(found);
        }
        for found in wrong.into_iter().flatten() {
            self.problem(None, found.to_string());
        }
    }

    fn show(self, which: &Which, format: Format, durability: &str) -> Outcome {
        let exit = if self.problems.is_empty() { Exit::Done } else { Exit::Failed };
        if which.json {
            let problem = |(task, what): &(Option<TaskId>, String)| -> Value {
                json!({"taskId": task.as_ref().map(TaskId::as_str), "what": what})
            };
            let problems: Vec<Value> = self.problems.iter().map(problem).collect();
            let said = json!({
                "store": which.store.to_string(), "format": format.found, "durability": durability,
                "tasks": self.tasks, "open": self.open, "problems": problems,
            });
            print(&clean::json(&said.to_string()))?;
            return Ok(exit);
        }
        print(&format!("store     {}", which.store))?;
        print(&format!("format    {}", in_words(format)))?;
        print(&format!("writes    {}", clean::line(durability, 400)))?;
        print(&format!("tasks     {} kept, {} of them open", self.tasks, self.open))?;
        for (task, what) in &self.problems {
            let task = task.as_ref().map_or(String::new(), |task| format!("{task}: "));
            print(&format!("wrong     {}", clean::line(&format!("{task}{what}"), 400)))?;
        }
        note(match exit {
            Exit::Done => "nothing is wrong",
            _ => "keep the servers from it, take a copy, and see what the log of a server says of these",
        });
        Ok(exit)
    }
}

/// What is wrong with a task by itself, and still is when it is read again: it may have been read in the middle of a change that
/// took more than one look.
async fn wrong_still(store: &dyn TaskStore, record: &Record) -> Result<Vec<&'static str>, StoreError> {
    let mut found = wrong(record);
    if !found.is_empty() {
        let again = store.get(Scope::Operator, &record.id).await?;
        let still = again.as_ref().map(wrong).unwrap_or_default();
        found.retain(|what| still.contains(what));
    }
    Ok(found)
}

/// Whether any of these tasks has not ended by now.
async fn is_any_open(store: &dyn TaskStore, tasks: &[TaskId]) -> Result<bool, StoreError> {
    for task in tasks {
        if store.get(Scope::Operator, task).await?.is_some_and(|record| !record.is_terminal()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What is wrong with a task by itself.
fn wrong(record: &Record) -> Vec<&'static str> {
    let mut wrong = Vec::new();
    let mut must = |holds: bool, what| {
        if !holds {
            wrong.push(what);
        }
    };
    must(has_witness(record), "it is open, and nothing will ever move it on");
    must(
        record.is_terminal() == record.terminal_at.is_some(),
        "whether it has ended, and when, do not agree",
    );
    must(record.created_at <= record.updated_at, "it was changed before it was made");
    must(!record.is_terminal() || record.questions.is_empty(), "it has ended, and asks");
    must(record.steps > 0 || record.step_bytes == 0, "it has no steps, and they take room");
    must(record.parts > 0 || record.part_bytes == 0, "it has no parts, and they take room");
    wrong
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use longhaul_store::{
        Batch, Counts, Cursor, Epoch, Fingerprint, Json, Memory, NewChild, NewTask, Outcome, Overlay, Owner,
        StoreFuture, Time,
    };

    use super::*;

    /// A store that is at work while it is looked at.
    #[derive(Debug)]
    struct AtWork {
        store: Memory,
        /// How a task looks in a list, and read by its name.
        listed: fn(&mut Record),
        read: fn(&mut Record),
        /// A task that ends before the next one is read by its name.
        ending: Mutex<Option<(TaskId, Epoch)>>,
        /// How many open tasks it has not counted yet.
        uncounted: AtomicU64,
    }

    impl Overlay for AtWork {
        type Below = Memory;

        fn below(&self) -> &Memory {
            &self.store
        }

        fn get<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
            let ending = self.ending.lock().unwrap().take();
            Box::pin(async move {
                if let Some((task, epoch)) = ending {
                    self.store.finish(&task, epoch, Outcome::lost("over"), Batch::new()).await?;
                }
                let mut found = self.store.get(scope, id).await?;
                found.iter_mut().for_each(self.read);
                Ok(found)
            })
        }

        fn list<'a>(
            &'a self,
            scope: Scope<'a>,
            filter: &'a Filter,
            after: Option<&'a Cursor>,
            limit: usize,
        ) -> StoreFuture<'a, Page> {
            Box::pin(async move {
                let mut page = self.store.list(scope, filter, after, limit).await?;
                page.tasks.iter_mut().for_each(self.listed);
                Ok(page)
            })
        }

        fn counts(&self) -> StoreFuture<'_, Counts> {
            Box::pin(async move {
                let counts = self.store.counts().await?;
                Ok(Counts::new(counts.open - self.uncounted.load(Ordering::Relaxed), counts.retained))
            })
        }
    }

    /// One with a task that has made another, and how that is held.
    async fn at_work() -> (AtWork, (TaskId, Epoch)) {
        let store = Memory::new();
        let task = |name: &str| {
            let owner = Owner::principal("ann").unwrap();
            NewTask::new(TaskId::new(name).unwrap(), owner, "build", Json::parse("{}").unwrap())
        };
        let parent = store.create(task("parent")).await.unwrap().into_record();
        let mut batch = Batch::new();
        batch.child = Some(NewChild::new("child", Fingerprint::new([0; 16]), task("child")));
        store.write(&parent.id, parent.epoch, batch).await.unwrap();
        let id = TaskId::new("child").unwrap();
        let child = store.get(Scope::Operator, &id).await.unwrap().unwrap();
        let (ending, uncounted) = (Mutex::default(), AtomicU64::new(0));
        (AtWork { store, listed: |_| {}, read: |_| {}, ending, uncounted }, (id, child.epoch))
    }

    async fn problems(store: &AtWork) -> Vec<String> {
        let mut findings = Findings::default();
        findings.look(store).await.unwrap();
        findings.problems.into_iter().map(|(_, what)| what).collect()
    }

    #[tokio::test]
    async fn a_child_that_ends_while_it_is_looked_at_is_no_problem() {
        let (store, child) = at_work().await;
        *store.ending.lock().unwrap() = Some(child);
        assert_eq!(problems(&store).await, [""; 0]);
        let (mut store, _) = at_work().await;
        store.read = |record| record.children.open = 0;
        assert_eq!(problems(&store).await, ["a task that it has made goes on, and it knows of none"]);
    }

    #[tokio::test]
    async fn what_is_read_in_the_middle_of_a_change_is_no_problem() {
        let (mut store, _) = at_work().await;
        store.listed = |record| record.updated_at = Time::from_unix_ms(0);
        assert_eq!(problems(&store).await, [""; 0]);
        store.read = store.listed;
        assert_eq!(problems(&store).await, ["it was changed before it was made"; 2]);
    }

    #[tokio::test]
    async fn a_store_has_time_to_count_what_it_has() {
        let (store, _) = at_work().await;
        store.uncounted.store(1, Ordering::Relaxed);
        let store = Arc::new(store);
        let counting = Arc::clone(&store);
        tokio::spawn(async move { counting.uncounted.store(0, Ordering::Relaxed) });
        assert_eq!(problems(&store).await, [""; 0]);
    }
}
