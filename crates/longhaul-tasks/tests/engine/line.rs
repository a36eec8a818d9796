//! Work that stands in line for a place among the calls of its tool, while one process after the other ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul_store::{
    Filter, Memory, NewTask, Outcome, Owner, Page, Phase, Record, Rerun, Scope, Start, TaskId, TaskStore,
};
use longhaul_tasks::environment::BoxFuture;
use longhaul_tasks::machine::{Caller, Plan};
use longhaul_tasks::report::Reporter;
use longhaul_tasks::runner::{Call, Engine, Entry, Keeper, Pace, Work, Worker};
use serde_json::value::RawValue;
use tokio::sync::Notify;

use super::rig::{InOneThread, ann, json, now, success, task};

/// A tool, one call of which may run at once; how often the work of each call has begun, in all processes.
#[derive(Clone, Debug, Default)]
struct Narrow {
    begun: Arc<Mutex<HashMap<TaskId, usize>>>,
    news: Arc<Notify>,
    /// How long the work has gone on before, as it was entered last.
    before: Arc<Mutex<Duration>>,
    /// The work ends, and does not run for ever.
    ends: bool,
}

impl Narrow {
    fn work(&self, id: TaskId) -> BoxFuture<'static, Outcome> {
        let this = self.clone();
        Box::pin(async move {
            *this.begun.lock().unwrap().entry(id).or_default() += 1;
            this.news.notify_one();
            if this.ends { success() } else { std::future::pending().await }
        })
    }

    fn ending(&self) -> Self {
        Self { ends: true, ..self.clone() }
    }

    fn begun(&self, id: &TaskId) -> usize {
        self.begun.lock().unwrap().get(id).copied().unwrap_or_default()
    }

    /// A process in which this is done, until it is killed.
    fn in_process<T>(&self, store: &Memory, done: impl AsyncFnOnce(&Engine) -> T) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        let node = Arc::new(store.another_node());
        let worker = Worker::new("narrow").with_entry(Arc::new(self.clone())).with_limit(Some(1));
        let engine = Engine::new(node, Arc::new(InOneThread), Pace::default(), [worker]);
        runtime.block_on(async {
            engine.start().await.unwrap();
            let done = tokio::time::timeout(Duration::from_secs(3600), done(&engine));
            done.await.expect("it is done within an hour")
        })
    }

    fn call(&self, caller: Caller, rerun: Rerun) -> Call {
        let keeper = Keeper::new();
        let (this, its) = (self.clone(), keeper.clone());
        let work = Work::Future(Box::pin(async move {
            let id = its.id().unwrap();
            this.work(id).await
        }));
        let mut call = Call::new(ann(), "narrow", json("{}"), work);
        call.plan = Plan::new(caller, caller == Caller::AsksForTask);
        (call.rerun, call.keeper, call.after) = (rerun, keeper, Some(Duration::from_secs(2)));
        call
    }
}

impl Entry for Narrow {
    fn enter(
        &self,
        record: &Record,
        _: Option<&RawValue>,
        keeper: Keeper,
        _: Reporter,
    ) -> BoxFuture<'static, Outcome> {
        *self.before.lock().unwrap() = keeper.worked_before();
        self.work(record.id.clone())
    }
}

fn found(store: &Memory, id: &TaskId) -> Record {
    now(store.get(Scope::Operator, id)).unwrap().unwrap()
}

/// Two calls of the tool by whoever calls so, the second of which stands in line.
fn two_calls(narrow: &Narrow, store: &Memory, caller: Caller) -> [TaskId; 2] {
    narrow.in_process(store, async |engine| {
        let first = engine.call(narrow.call(caller, Rerun::Never));
        let second = engine.call(narrow.call(caller, Rerun::Never));
        let ids = [task(first.await), task(second.await)];
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(ids.each_ref().map(|id| narrow.begun(id)), [1, 0]);
        ids
    })
}

#[test]
fn what_is_never_run_twice_and_stood_in_line_is_begun_by_the_next_process() {
    for caller in [Caller::AsksForTask, Caller::TakesTask] {
        let (store, narrow) = (Memory::new(), Narrow::default());
        let [first, second] = two_calls(&narrow, &store, caller);
        // Of the store's time, which nobody holds.
        std::thread::sleep(Duration::from_millis(20));
        let ended = narrow.ending().in_process(&store, async |engine| {
            let ended = engine.ended(Scope::Operator, &second).await.unwrap().unwrap();
            tokio::time::sleep(Duration::from_secs(60)).await;
            ended
        });
        assert_eq!((ended.outcome(), narrow.begun(&second)), (Some(&success()), 1), "{caller:?}");
        assert_eq!(*narrow.before.lock().unwrap(), Duration::ZERO, "it stood in line, and begins now");
        let lost = found(&store, &first);
        assert!(matches!(lost.outcome(), Some(Outcome::Lost { .. })), "{lost:?}");
        assert_eq!(narrow.begun(&first), 1);
    }
}

#[test]
fn what_is_never_run_twice_is_not_begun_again_once_it_has_left_the_line() {
    let (store, narrow) = (Memory::new(), Narrow::default());
    let [_, second] = two_calls(&narrow, &store, Caller::AsksForTask);
    narrow.in_process(&store, async |_| {
        narrow.news.notified().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    });
    assert_eq!(narrow.begun(&second), 1);
    narrow.in_process(&store, async |engine| engine.ended(Scope::Operator, &second).await.unwrap());
    let lost = found(&store, &second);
    assert!(matches!(lost.outcome(), Some(Outcome::Lost { .. })), "{lost:?}");
    assert_eq!(narrow.begun(&second), 1);
}

#[test]
fn what_is_never_run_twice_and_stands_in_line_is_given_back_by_a_node_that_stops() {
    let (store, narrow) = (Memory::new(), Narrow::default());
    let second = narrow.in_process(&store, async |engine| {
        let first = engine.call(narrow.call(Caller::AsksForTask, Rerun::Never));
        let second = engine.call(narrow.call(Caller::AsksForTask, Rerun::Never));
        let (_, second) = (task(first.await), task(second.await));
        tokio::time::sleep(Duration::from_secs(1)).await;
        engine.drain(Duration::from_secs(5)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        second
    });
    let back = found(&store, &second);
    assert!(matches!(back.phase, Phase::Queued { .. }), "{back:?}");
    assert_eq!(back.attempt, 0);
    narrow.ending().in_process(&store, async |engine| engine.ended(Scope::Operator, &second).await.unwrap());
    assert_eq!((found(&store, &second).outcome(), narrow.begun(&second)), (Some(&success()), 1));
}

/// Whoever waits for it is handed over as the node stops: only then it has a row.
#[test]
fn what_stands_in_line_without_a_row_is_given_back_once_it_has_one() {
    for rerun in [Rerun::Never, Rerun::Resumable] {
        let (store, narrow) = (Memory::new(), Narrow::default());
        let second = narrow.in_process(&store, async |engine| {
            let first = engine.call(narrow.call(Caller::AsksForTask, rerun));
            let mut second = narrow.call(Caller::TakesTask, rerun);
            second.after = Some(Duration::from_secs(600));
            let second = engine.call(second);
            drop(first.await);
            tokio::time::sleep(Duration::from_secs(1)).await;
            engine.drain(Duration::from_secs(5)).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            task(second.await)
        });
        let back = found(&store, &second);
        assert!(matches!(back.phase, Phase::Queued { .. }), "{rerun:?}: {back:?}");
        assert_eq!(narrow.begun(&second), 0);
    }
}

/// However many processes end while it stands in line.
#[test]
fn what_has_never_begun_is_not_given_up() {
    let (store, narrow) = (Memory::new(), Narrow::default());
    let [_, second] = two_calls(&narrow, &store, Caller::AsksForTask);
    for _ in 0..10 {
        // Gone as soon as it has claimed it.
        now(store.another_node().claim_one(&second)).unwrap().unwrap();
    }
    narrow.ending().in_process(&store, async |engine| engine.ended(Scope::Operator, &second).await.unwrap());
    assert_eq!((found(&store, &second).outcome(), narrow.begun(&second)), (Some(&success()), 1));
}

/// Each process ends as soon as anything begins in it.
#[test]
fn k26_a_process_that_ends_is_charged_to_what_had_begun_in_it() {
    const MANY: usize = 6;
    let (store, narrow) = (Memory::new(), Narrow::default());
    for number in 0..MANY {
        let id = TaskId::new(format!("t{number}")).unwrap();
        let mut new = NewTask::new(id, Owner::Anonymous, "narrow", json("{}"));
        (new.rerun, new.start) = (Rerun::Resumable, Start::Queued { not_before: store.now() });
        now(store.create(new)).unwrap();
    }
    let open = || {
        let open = now(store.list(Scope::Operator, &Filter::open(), None, Page::MAX));
        open.unwrap().tasks.len()
    };
    let mut processes = 0;
    while open() > 0 {
        processes += 1;
        assert!(processes < 100, "it goes on for ever");
        narrow.in_process(&store, async |_| {
            let _begun = tokio::time::timeout(Duration::from_secs(600), narrow.news.notified()).await;
        });
    }
    for number in 0..MANY {
        let ended = found(&store, &TaskId::new(format!("t{number}")).unwrap());
        assert!(matches!(ended.outcome(), Some(Outcome::Error { .. })), "{ended:?}");
        let begun = narrow.begun(&ended.id);
        // The first two that are claimed and never begin are charged all the same: nothing tells of them.
        assert!((3..=5).contains(&begun), "{} has begun {begun} times", ended.id);
    }
}
