//! Nodes that are cut off from their server, stand still, or have a way there that comes and goes.

use std::{
    collections::HashMap,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use longhaul_store::{
    Batch, Epoch, Filter, Finished, Json, NewTask, Outcome, Owner, Progress, Record, Scope, Settings,
    StoreError, TaskId, TaskStore,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use super::{Rig, task, until, way::Weather};

fn outcome(words: &str) -> Outcome {
    Outcome::result(Json::parse(format!("{{\"by\":\"{words}\"}}")).unwrap(), false)
}

async fn outcome_of(store: &dyn TaskStore, id: &TaskId) -> Option<Outcome> {
    let task = store.get(Scope::Operator, id).await.unwrap().expect("it is there");
    task.outcome().cloned()
}

/// Takes this task, once it can be had.
async fn taken(store: &dyn TaskStore, id: &TaskId) -> Record {
    let mut claimed = Vec::new();
    until(async || {
        claimed.extend(store.claim(10, None).await.unwrap());
        !claimed.is_empty()
    })
    .await;
    assert_eq!(claimed.len(), 1);
    let claimed = claimed.remove(0);
    assert_eq!(claimed.id, *id);
    claimed
}

pub(crate) async fn n1_a_worker_that_is_cut_off_knows_it_before_another_has_its_task<R: Rig>() {
    let server = R::start();
    let url = server.store();
    let way = server.way();
    let (cut, other) =
        (R::join(&R::by(&way, &url), Settings::default()).await, R::join(&url, Settings::default()).await);
    let held = cut.create(task("held")).await.unwrap().into_record();
    until(async || cut.alive_until().is_some_and(|until| cut.now() <= until)).await;
    way.set(Weather::Cut);
    let claimed = taken(&*other, &held.id).await;
    let claimed_at = claimed.lease().expect("it is worked on").until.unix_ms()
        - i64::try_from(other.lease().as_millis()).unwrap();
    let knew = cut.alive_until().unwrap().unix_ms();
    assert!(knew < claimed_at, "it takes itself for alive until {knew}, and lost its task at {claimed_at}");
    let late = cut.write(&held.id, held.epoch, Batch::new().with_status_message("late")).await;
    assert!(matches!(late, Err(StoreError::Unreachable { .. })), "{late:?}");

    // What it learns when it is back.
    way.set(Weather::Clear);
    let mut lost = Vec::new();
    until(async || match cut.renew(&[(held.id.clone(), held.epoch)]).await {
        Ok(found) => {
            lost = found;
            true
        }
        Err(error) => {
            assert!(error.is_retryable(), "{error:?}");
            false
        }
    })
    .await;
    assert_eq!(lost, std::slice::from_ref(&held.id));
    let late = cut.finish(&held.id, held.epoch, outcome("late"), Batch::new()).await;
    assert!(late.as_ref().is_err_and(StoreError::is_fenced), "{late:?}");
    other.finish(&held.id, claimed.epoch, outcome("other"), Batch::new()).await.unwrap();
    assert_eq!(outcome_of(&*cut, &held.id).await, Some(outcome("other")));
}

/// Where the node that stands still finds its store, and says what became of it.
const STORE: &str = "LONGHAUL_TEST_STILL_STORE";
const SAID: &str = "LONGHAUL_TEST_STILL_SAID";

/// The lease of a node that stands still: nothing else ends its hold, for its session goes on.
fn brief() -> Settings {
    let mut settings = Settings::default();
    settings.lease = Duration::from_secs(2);
    settings
}

/// The node that stands still, if this process is it: it makes a task, and works on it for as long as it may.
pub(crate) async fn wait_to_be_stopped<R: Rig>() {
    let Ok(url) = std::env::var(STORE) else { return };
    let said = std::env::var(SAID).unwrap();
    let store = R::join(&url, brief()).await;
    let held = store.create(task("held")).await.unwrap().into_record();
    std::fs::write(format!("{said}.made"), "made").unwrap();
    for number in 0.. {
        let batch = Batch::new().with_progress(Progress::new(f64::from(number), None, None));
        match store.write(&held.id, held.epoch, batch).await {
            Ok(_) => {}
            // Its way there may have been given up meanwhile, and is made again.
            Err(StoreError::Unreachable { .. }) => {}
            Err(refusal) => {
                let late = store.finish(&held.id, held.epoch, outcome("late"), Batch::new()).await;
                let is_recorded = matches!(late, Ok(Finished::Recorded(_)));
                let words = format!("fenced {}, recorded {is_recorded}", refusal.is_fenced());
                std::fs::write(format!("{said}.part"), words).unwrap();
                std::fs::rename(format!("{said}.part"), said).unwrap();
                return;
            }
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// A process that does not outlive its test, though it stands still.
struct Stopped(Child);

impl Stopped {
    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ended_before = (self.0.kill(), self.0.wait());
    }
}

pub(crate) async fn n2_what_a_node_writes_that_stood_still_for_too_long_is_refused<R: Rig>() {
    let (url, folder) = (R::shared().store(), tempfile::tempdir().unwrap());
    let (said, other) = (folder.path().join("said"), R::join(&url, brief()).await);
    let mut node = Command::new(std::env::current_exe().unwrap());
    node.args(["--exact", "nodes::a_node_that_waits_to_be_stopped"]).env(STORE, &url).env(SAID, &said);
    let node = Stopped(node.stdout(Stdio::null()).spawn().unwrap());
    until(async || folder.path().join("said.made").exists()).await;
    node.signal(Signal::STOP);
    let id = TaskId::new("held").unwrap();
    let claimed = taken(&*other, &id).await;
    other.finish(&id, claimed.epoch, outcome("other"), Batch::new()).await.unwrap();
    let before = other.get(Scope::Operator, &id).await.unwrap();
    node.signal(Signal::CONT);
    until(async || said.exists()).await;
    assert_eq!(std::fs::read_to_string(&said).unwrap(), "fenced true, recorded false");
    assert_eq!(other.get(Scope::Operator, &id).await.unwrap(), before, "nothing of it is changed");
}

pub(crate) async fn n3_a_node_that_is_cut_off_says_so_and_makes_up_nothing<R: Rig>() {
    let server = R::start();
    let url = server.store();
    let way = server.way();
    let settings = Settings::default();
    let (cut, other) = (R::join(&R::by(&way, &url), settings.clone()).await, R::join(&url, settings).await);
    let made = other.create(task("made")).await.unwrap().into_record();
    assert_eq!(cut.get(Scope::Operator, &made.id).await.unwrap().as_ref(), Some(&made));
    assert!(way.asked() > 0, "one goes by it");
    way.set(Weather::Cut);
    other.finish(&made.id, made.epoch, outcome("other"), Batch::new()).await.unwrap();
    let none = TaskId::new("none").unwrap();
    let said = [
        cut.get(Scope::Operator, &made.id).await.map(drop),
        cut.get(Scope::Operator, &none).await.map(drop),
        cut.list(Scope::Operator, &Filter::default(), None, 10).await.map(drop),
        cut.counts().await.map(drop),
        cut.claim(10, None).await.map(drop),
        cut.create(task("refused")).await.map(drop),
        cut.request_cancel(Scope::Operator, &made.id, None).await.map(drop),
    ];
    for said in said {
        assert!(matches!(said, Err(StoreError::Unreachable { .. })), "{said:?}");
    }
    way.set(Weather::Clear);
    until(async || cut.counts().await.is_ok()).await;
    assert_eq!(outcome_of(&*cut, &made.id).await, Some(outcome("other")));
    let refused = TaskId::new("refused").unwrap();
    assert!(cut.get(Scope::Operator, &refused).await.unwrap().is_none(), "what was not sent was not made");
}

/// What the nodes were told.
#[derive(Debug, Default)]
struct Told {
    made: Mutex<Vec<TaskId>>,
    /// Whose outcome was recorded, each time that somebody was told that theirs was.
    ended: Mutex<HashMap<TaskId, Vec<String>>>,
    over: AtomicBool,
}

impl Told {
    /// Makes tasks and ends them.
    async fn make(self: Arc<Self>, store: Arc<dyn TaskStore>, name: &'static str) {
        for number in 0.. {
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            let id = TaskId::new(format!("{name}-{number}")).unwrap();
            // Each has its owner, for there is a bound on what one may have.
            let owner = Owner::principal(format!("owner {name} {}", number / 100)).unwrap();
            let new = NewTask::new(id.clone(), owner, "build", Json::parse("{}").unwrap());
            match store.create(new).await {
                Ok(made) => {
                    self.made.lock().unwrap().push(id.clone());
                    self.end(&*store, &id, made.into_record().epoch, name).await;
                }
                Err(error) => assert!(error.is_retryable(), "{error:?}"),
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Takes what can be taken, and ends it.
    async fn take(self: Arc<Self>, store: Arc<dyn TaskStore>, name: &'static str) {
        while !self.over.load(Ordering::Relaxed) {
            match store.claim(10, None).await {
                Ok(claimed) => {
                    for task in claimed {
                        self.end(&*store, &task.id, task.epoch, name).await;
                    }
                }
                Err(error) => assert!(error.is_retryable(), "{error:?}"),
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn end(&self, store: &dyn TaskStore, id: &TaskId, epoch: Epoch, name: &str) {
        match store.finish(id, epoch, outcome(name), Batch::new()).await {
            Ok(Finished::Recorded(_)) => {
                self.ended.lock().unwrap().entry(id.clone()).or_default().push(name.to_owned());
            }
            Ok(Finished::AlreadyTerminal(_)) => {}
            Err(error) => assert!(error.is_fenced() || error.is_retryable(), "{error:?}"),
        }
    }
}

pub(crate) async fn n5_while_the_way_comes_and_goes_nothing_acknowledged_is_lost_and_nothing_ends_twice<
    R: Rig,
>() {
    let server = R::start();
    let url = server.store();
    let way = server.way();
    let (far, near) = (R::join(&R::by(&way, &url), brief()).await, R::join(&url, brief()).await);
    let told = Arc::new(Told::default());
    let work = [
        tokio::spawn(Arc::clone(&told).make(Arc::clone(&far), "far")),
        tokio::spawn(Arc::clone(&told).take(Arc::clone(&far), "far")),
        tokio::spawn(Arc::clone(&told).make(Arc::clone(&near), "near")),
        tokio::spawn(Arc::clone(&told).take(Arc::clone(&near), "near")),
    ];
    let made = || told.made.lock().unwrap().iter().filter(|id| id.as_str().starts_with("far")).count();
    for weather in [Weather::Unanswered, Weather::Cut, Weather::Silent].into_iter().cycle().take(6) {
        let before = made();
        until(async || made() > before + 5).await;
        way.set(weather);
        // Longer than after which a node that has lost its session is taken for dead.
        sleep(Duration::from_millis(1500)).await;
        way.set(Weather::Clear);
    }
    let before = made();
    until(async || made() > before + 5).await;
    told.over.store(true, Ordering::Relaxed);
    for work in work {
        work.await.unwrap();
    }
    // Whatever was left open is taken by who is there.
    let made = told.made.lock().unwrap().clone();
    until(async || {
        for task in near.claim(100, None).await.unwrap() {
            told.end(&*near, &task.id, task.epoch, "near").await;
        }
        near.counts().await.unwrap().open == 0
    })
    .await;
    let ended = told.ended.lock().unwrap().clone();
    for id in &made {
        let ended_as = outcome_of(&*near, id).await.expect("it has ended");
        match ended.get(id).map(Vec::as_slice) {
            // Who ended it was not told.
            None => {}
            Some([by]) => assert_eq!(ended_as, outcome(by), "{id}"),
            Some(many) => panic!("{id} was ended by {many:?}"),
        }
    }
}
