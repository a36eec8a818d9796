//! Stores that are copied into others of another kind: nothing is lost, and nothing runs twice.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::duplicate_mod, reason = "each kind of server is started by the same means")]

#[path = "../postgres/rig.rs"]
#[expect(dead_code, reason = "what befalls databases is for their own tests")]
mod postgres;
#[path = "../redis/rig.rs"]
#[expect(dead_code, reason = "what befalls servers is for their own tests")]
mod redis;

mod disturbed;
mod lived;
mod sealing;
mod stood_still;

use std::{
    fmt::Debug,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use longhaul_store::{
    Answered, Batch, EntryKey, EventStore as _, Json, NewTask, Outcome, Owner, Phase, Postgres,
    PostgresOptions, Redis, RedisOptions, Registry, Reply, Scope, Settings, Sqlite, SqliteOptions,
    StoreError, Stream, TaskId, TaskStore, Value,
    sealed::{Sealed, is_sealed},
    transfer::{Mark, Place, Progress, Transfer, TransferError, abandon, copy},
};

/// Where a store is opened to be copied.
async fn open(url: &str) -> Box<dyn Transfer> {
    match url.split(':').next().unwrap() {
        "postgres" => Box::new(PostgresOptions::new().open_to_copy(url).await.unwrap()),
        "redis+unix" => Box::new(RedisOptions::new().open_to_copy(url).await.unwrap()),
        _ => Box::new(SqliteOptions::new().open_to_copy(url).unwrap()),
    }
}

/// Where a store is opened to be served.
async fn serve(url: &str) -> Result<Arc<dyn Transfer>, StoreError> {
    Ok(match url.split(':').next().unwrap() {
        "postgres" => Arc::new(Postgres::open(url).await?),
        "redis+unix" => Arc::new(Redis::open(url).await?),
        _ => Arc::new(Sqlite::open(url)?),
    })
}

async fn copied(from: &str, to: &str) -> Result<u64, TransferError> {
    let (one, other) = (open(from).await, open(to).await);
    let (one, other) = (Place { name: from, store: &*one }, Place { name: to, store: &*other });
    copy(one, other, &mut |_| {}).await.map(|copied| copied.tasks)
}

/// Why the store is not to be served.
async fn refused(url: &str) -> Option<Mark> {
    match serve(url).await {
        Ok(_) => None,
        Err(StoreError::OutOfService { mark }) => Some(mark),
        Err(error) => panic!("{error:?}"),
    }
}

/// Why the store is neither copied nor copied into.
fn mark(refusal: Result<impl Debug, TransferError>) -> Mark {
    match refusal.unwrap_err() {
        TransferError::OutOfService { mark, .. } => mark,
        refusal => panic!("{refusal:?}"),
    }
}

fn id(name: &str) -> TaskId {
    TaskId::new(name).unwrap()
}

fn in_folder(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

/// Everything goes there and back, and goes on there.
async fn goes_there_and_back(there: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (first, last) = (in_folder(folder.path(), "first.db"), in_folder(folder.path(), "last.db"));
    let store = Sqlite::open(&first).unwrap();
    let many = lived::through(&store).await;
    let ann = Owner::principal("ann").unwrap();
    let session = EntryKey::of(&ann, "session", "s1");
    let lasts = Value::lasting(b"kept", Duration::from_secs(3600));
    store.put(session, lasts).await.unwrap();
    let before = store.get(Scope::Operator, &id("full")).await.unwrap().unwrap();
    drop(store);
    // A stream of which the first events are kept no more.
    let mut few = Settings::default();
    few.limits.max_stream_events = 3;
    let store = SqliteOptions::new().with_settings(few).open(&first).unwrap();
    let stream = Stream::new(&ann, "s1", "stream");
    for number in 1..=10 {
        store.append(stream, &format!("event {number}")).await.unwrap();
    }
    drop(store);

    assert_eq!(copied(&first, there).await.unwrap(), many);
    assert_eq!(refused(&first).await, Some(Mark::Moved(there.to_owned())));
    assert!(refused(there).await.is_none());
    let store = open(there).await;
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.open, counts.retained), (lived::OPEN, many));
    assert_eq!(store.miscounted().await.unwrap(), []);
    assert_eq!(store.rows().await.unwrap(), many);
    assert_eq!(&*store.entry(session).await.unwrap().unwrap().value, b"kept");
    let mut after = store.get(Scope::Operator, &id("full")).await.unwrap().unwrap();
    after.seq = before.seq;
    assert_eq!(after, before);
    let parts = store.parts(Scope::Owner(&ann), &id("full"), 0, 10).await.unwrap().unwrap();
    assert_eq!((parts.parts.len(), parts.total), (2, 2));
    let events = store.replay(stream, 8, 10).await.unwrap().unwrap();
    assert_eq!(
        events.iter().map(|event| (event.number, &*event.text)).collect::<Vec<_>>(),
        [(9, "event 9"), (10, "event 10")]
    );
    assert!(store.replay(stream, 6, 10).await.unwrap().is_none(), "and no more than was kept");
    // The same call is the same task, and what is forgotten stays so.
    let again = store.create(lived::full()).await.unwrap();
    assert_eq!(again.into_record().id, id("full"));
    let spent = store.create(lived::erased("another")).await.unwrap_err();
    assert!(matches!(spent, StoreError::KeySpent { .. }), "{spent:?}");
    drop(store);

    assert_eq!(copied(there, &last).await.unwrap(), many);
    for url in [there, &last] {
        let is_last = url == last;
        assert_eq!(refused(url).await.is_none(), is_last);
    }
    let store = open(&last).await;
    assert_eq!(store.counts().await.unwrap(), counts);
    assert_eq!(store.miscounted().await.unwrap(), []);
    assert_eq!(store.rows().await.unwrap(), many);
    assert_eq!(store.replay(stream, 7, 10).await.unwrap().unwrap().len(), 3);
    assert_eq!(store.append(stream, "event 11").await.unwrap(), 11);
    assert!(goes_on(&*store).await);
}

/// A question that waited is answered, and work that was under way goes on, each once.
async fn goes_on(store: &dyn Transfer) -> bool {
    let answer = Reply::new("q-parked", Json::parse("1").unwrap());
    let answered = store.answer(Scope::Operator, &id("parked"), &[answer]).await.unwrap();
    assert!(matches!(answered, Answered::Recorded { taken: 1, .. }), "{answered:?}");
    let parked = store.claim_one(&id("parked")).await.unwrap().unwrap();
    let steps = store.steps(&parked.id, parked.epoch).await.unwrap();
    assert_eq!(steps.len(), 1, "what it has learnt is there");
    // Whoever had it is gone with the store that it came from.
    let full = store.claim_one(&id("full")).await.unwrap().unwrap();
    assert!(store.claim_one(&id("full")).await.unwrap().is_none());
    assert_eq!(store.steps(&full.id, full.epoch).await.unwrap().len(), lived::STEPS);
    let outcome = Outcome::result(Json::parse("{}").unwrap(), false);
    store.finish(&full.id, full.epoch, outcome, Batch::new()).await.unwrap();
    let ended = store.get(Scope::Operator, &id("full")).await.unwrap().unwrap();
    matches!(ended.phase, Phase::Done(_))
}

#[tokio::test]
async fn everything_goes_to_postgres_and_back() {
    let there = postgres::shared().database();
    Box::pin(goes_there_and_back(&there)).await;
}

#[tokio::test]
async fn everything_goes_to_redis_and_back() {
    let there = redis::shared().store();
    Box::pin(goes_there_and_back(&there)).await;
}

#[tokio::test]
async fn what_was_copied_to_redis_goes_on_there() {
    let (folder, there) = (tempfile::tempdir().unwrap(), redis::shared().store());
    let from = in_folder(folder.path(), "tasks.db");
    lived::through(&Sqlite::open(&from).unwrap()).await;
    copied(&from, &there).await.unwrap();
    assert!(goes_on(&*open(&there).await).await);
}

#[tokio::test]
async fn what_was_copied_to_postgres_goes_on_there() {
    let (folder, there) = (tempfile::tempdir().unwrap(), postgres::shared().database());
    let from = in_folder(folder.path(), "tasks.db");
    lived::through(&Sqlite::open(&from).unwrap()).await;
    copied(&from, &there).await.unwrap();
    assert!(goes_on(&*open(&there).await).await);
}

#[tokio::test]
async fn what_is_sealed_stays_so_and_opens_with_its_key() {
    let (folder, to) = (tempfile::tempdir().unwrap(), redis::shared().store());
    let from = in_folder(folder.path(), "tasks.db");
    let store = Sealed::open(Sqlite::open(&from).unwrap(), sealing::keys()).await.unwrap();
    store.create(lived::full()).await.unwrap();
    let sealed = store.inner().get(Scope::Operator, &id("full")).await.unwrap().unwrap().arguments;
    drop(store);
    copied(&from, &to).await.unwrap();
    let store = Redis::open(&to).await.unwrap();
    assert!(is_sealed(&store).await.unwrap());
    let kept = store.get(Scope::Operator, &id("full")).await.unwrap().unwrap().arguments;
    assert!(kept == sealed && kept.as_str().starts_with("\"sealed1."), "{}", kept.as_str());
    let store = Sealed::open(store, sealing::keys()).await.unwrap();
    let opened = store.get(Scope::Operator, &id("full")).await.unwrap().unwrap();
    assert_eq!(opened.arguments, lived::full().arguments);
}

#[tokio::test]
async fn what_is_in_use_or_not_empty_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let from = in_folder(folder.path(), "tasks.db");
    let kinds =
        [in_folder(folder.path(), "other.db"), postgres::shared().database(), redis::shared().store()];
    let [file, postgres, redis] = &kinds;
    for (one, other) in [(&from, file), (&from, postgres), (&from, redis), (postgres, file), (redis, file)] {
        for busy in [one, other] {
            let server = open(busy).await;
            let refusal = copied(one, other).await.unwrap_err();
            assert!(matches!(refusal, TransferError::InUse { others: 1, .. }), "{refusal:?}");
            drop(server);
            assert!(refused(one).await.is_none() && refused(other).await.is_none(), "no mark stays behind");
        }
    }
    for to in &kinds {
        let new = NewTask::new(id("own"), Owner::Anonymous, "build", Json::parse("{}").unwrap());
        let store = open(to).await;
        store.create(new).await.unwrap();
        drop(store);
        let refusal = copied(&from, to).await.unwrap_err();
        assert!(matches!(refusal, TransferError::NotEmpty { .. }), "{refusal:?}");
        assert!(refused(&from).await.is_none() && refused(to).await.is_none());
    }
}

/// What the process that is killed copies, and where it says that it is at it.
const COPIED: [&str; 3] = ["LONGHAUL_TEST_FROM", "LONGHAUL_TEST_TO", "LONGHAUL_TEST_AT_IT"];

/// Not a test: the process that is killed. It stands still once some tasks are copied, and not all.
#[tokio::test]
async fn a_copy_that_waits_to_be_killed() {
    let [Ok(from), Ok(to), Ok(at_it)] = COPIED.map(std::env::var) else { return };
    let (one, other) = (open(&from).await, open(&to).await);
    let (one, other) = (Place { name: &from, store: &*one }, Place { name: &to, store: &*other });
    let mut wait = |progress: Progress| {
        if progress.done.tasks == 0 {
            return;
        }
        assert!(progress.done.tasks < progress.tasks, "there is more to copy");
        std::fs::write(&at_it, "at it").unwrap();
        std::thread::sleep(Duration::from_secs(600));
    };
    copy(one, other, &mut wait).await.unwrap();
}

#[tokio::test]
async fn a_copy_to_postgres_that_is_killed_is_begun_again() {
    is_begun_again(postgres::shared().database()).await;
}

#[tokio::test]
async fn a_copy_to_redis_that_is_killed_is_begun_again() {
    is_begun_again(redis::shared().store()).await;
}

async fn is_begun_again(to: String) {
    let folder = tempfile::tempdir().unwrap();
    let from = in_folder(folder.path(), "tasks.db");
    let many = lived::through_many(&Sqlite::open(&from).unwrap()).await;
    let at_it = in_folder(folder.path(), "at-it");
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", "a_copy_that_waits_to_be_killed"]).stdout(Stdio::null());
    let mut process = process.envs(COPIED.into_iter().zip([&from, &to, &at_it])).spawn().unwrap();
    until(async || Path::new(&at_it).exists()).await;
    let refusal = given_up(&from, &to).await.unwrap_err();
    assert!(matches!(refusal, TransferError::InUse { others: 1, .. }), "it is being made: {refusal:?}");
    process.kill().unwrap();
    process.wait().unwrap();

    // Neither is served: there is nothing that could run twice.
    assert_eq!(refused(&to).await, Some(Mark::CopyOf(from.clone())));
    assert_eq!(refused(&from).await, Some(Mark::Copying(to.clone())));
    let half = open(&to).await.counts().await.unwrap().retained;
    assert!(half > 0 && half < many, "{half} of {many}");
    let elsewhere = in_folder(folder.path(), "elsewhere.db");
    assert_eq!(mark(copied(&from, &elsewhere).await), Mark::Copying(to.clone()));
    assert_eq!(mark(given_up(&from, &elsewhere).await), Mark::Copying(to.clone()));

    let refusal = copied(&from, &to).await.unwrap_err();
    assert!(matches!(refusal, TransferError::InUse { others: 1, .. }), "it might come back: {refusal:?}");
    assert_eq!(until_free(&from, &to).await, many);
    assert!(refused(&to).await.is_none());
    let moved = Mark::Moved(to.clone());
    assert_eq!(mark(copied(&from, &to).await), moved);
    assert_eq!(mark(given_up(&from, &to).await), moved, "it is too late");
}

/// The process that was killed counts as alive until the server has noticed that it is gone.
async fn until_free(from: &str, to: &str) -> u64 {
    let mut tasks = None;
    until(async || match copied(from, to).await {
        Ok(copied) => tasks.replace(copied).is_none(),
        Err(TransferError::InUse { .. }) => false,
        Err(error) => panic!("{error:?}"),
    })
    .await;
    tasks.unwrap()
}

/// Waits until it is so.
async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(300);
    while !is_so().await {
        assert!(Instant::now() < patience, "it does not become so");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn given_up(from: &str, to: &str) -> Result<bool, TransferError> {
    abandon(Place { name: from, store: &*open(from).await }, to).await
}

#[tokio::test]
async fn what_is_missing_in_redis_is_damage_and_not_nothing() {
    let (server, ann) = (redis::shared(), Owner::principal("ann").unwrap());
    let (url, folder) = (server.store(), tempfile::tempdir().unwrap());
    let to = in_folder(folder.path(), "tasks.db");
    let name = url.rsplit("name=").next().unwrap();
    let store = open(&url).await;
    store.put(EntryKey::of(&ann, "session", "s1"), Value::for_ever(b"kept")).await.unwrap();
    store.append(Stream::new(&ann, "s1", "stream"), "event").await.unwrap();
    drop(store);
    for kind in ["entry", "stream"] {
        let found = format!("return redis.call('KEYS', '{{{name}}}:{kind}:*ann*')[1]");
        let row = server.ask(&["EVAL", &found, "0"]);
        let gone = format!("{{{name}}}:hidden-{kind}");
        server.say(&["RENAME", &row, &gone]);
        let refusal = copied(&url, &to).await.unwrap_err();
        let TransferError::Store(error @ StoreError::Corrupt { .. }) = refusal else { panic!("{refusal:?}") };
        assert!(error.to_string().contains(&format!("{kind} without its row")), "{error}");
        server.say(&["RENAME", &gone, &row]);
    }
    assert_eq!(copied(&url, &to).await.unwrap(), 0);
}

#[tokio::test]
async fn a_file_whose_mark_of_life_was_cleaned_away_counts_only_others() {
    let folder = tempfile::tempdir().unwrap();
    let at = in_folder(folder.path(), "tasks.db");
    let store = open(&at).await;
    for file in std::fs::read_dir(format!("{at}.nodes")).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    assert_eq!(store.others().await.unwrap(), 0);
}
