//! A server whose memory is full, and what earlier releases have left on one.

use std::time::Duration;

use longhaul_store::{
    Batch, Erasure, EventStore, Fingerprint, Json, NewTask, Outcome, Owner, Quota, Redis, RedisOptions,
    Scope, SeenStep, Settings, Share, Step, StepState, StoreError, Stream, TaskId, TaskStore,
    transfer::{Miscount, Transfer as _},
};

use crate::rig::Server;

fn large(name: &str) -> NewTask {
    let arguments = Json::parse(format!("\"{}\"", "x".repeat(500_000))).unwrap();
    NewTask::new(TaskId::new(name).unwrap(), Owner::Anonymous, "build", arguments)
}

#[tokio::test]
async fn a_full_server_refuses_what_takes_room_and_loses_nothing() {
    let server = Server::with(&["--maxmemory", "16mb"]);
    let url = server.store();
    let store = Redis::open(&url).await.unwrap();
    let mut kept = Vec::new();
    let refusal = loop {
        match store.create(large(&format!("t{}", kept.len()))).await {
            Ok(made) => kept.push(made.into_record()),
            Err(refusal) => break refusal,
        }
        assert!(kept.len() < 100, "there is no room for so many");
    };
    assert!(matches!(refusal, StoreError::Full { .. }) && refusal.is_retryable(), "{refusal:?}");
    server.say(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let owner = Owner::principal("ann").unwrap();
    let refusal = store.append(Stream::new(&owner, "session", "stream"), "{}").await.unwrap_err();
    assert!(matches!(refusal, StoreError::Full { .. }), "{refusal:?}");
    assert_eq!(store.counts().await.unwrap().open, kept.len() as u64, "half a task is none");
    for task in &kept {
        assert_eq!(store.get(Scope::Operator, &task.id).await.unwrap().as_ref(), Some(task));
    }
    let held: Vec<_> = kept.iter().map(|task| (task.id.clone(), task.epoch)).collect();
    assert!(store.renew(&held).await.unwrap().is_empty(), "leases are prolonged");
    // A node says each second that it is there; one that could not would be taken for dead after another.
    let other = Redis::open(&url).await.unwrap();
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(other.claim(10, None).await.unwrap().is_empty(), "its holder lives");
    }
    let first = &kept[0].id;
    store.request_cancel(Scope::Operator, first, None).await.unwrap();
    assert_eq!(store.erase(Scope::Operator, first).await.unwrap(), Erasure::Erased);
    let second = &kept[1];
    store.request_cancel(Scope::Operator, &second.id, None).await.unwrap();
    store.erase(Scope::Operator, &second.id).await.unwrap();
    let refusal = store.create(large("none")).await.unwrap_err();
    assert!(matches!(refusal, StoreError::Full { .. }), "{refusal:?}");
    // With room again it goes on.
    server.say(&["CONFIG", "SET", "maxmemory", "0"]);
    let third = &kept[2];
    let outcome = Outcome::result(Json::parse("{}").unwrap(), false);
    store.finish(&third.id, third.epoch, outcome, Batch::new()).await.unwrap();
    store.create(large("last")).await.unwrap();
}

#[tokio::test]
async fn what_a_release_has_ended_that_knows_nothing_of_shares_takes_no_place() {
    let server = Server::start();
    let url = server.store();
    let mut settings = Settings::default();
    settings.limits.max_open_per_stranger = 2;
    let store = RedisOptions::new().with_settings(settings).open(&url).await.unwrap();
    let create = async |name: &str| {
        let mut new =
            NewTask::new(TaskId::new(name).unwrap(), Owner::Anonymous, "build", Json::parse("{}").unwrap());
        new.share = Some(Share::new(1));
        store.create(new).await
    };
    create("t1").await.unwrap();
    // Such a release takes a task that ends from among the open ones alone.
    let share = "{t0}:share:0000000000000001";
    assert!(server.ask(&["ZCARD", share]).starts_with(":1"));
    server.say(&["ZADD", share, "0", "ended"]);
    create("t2").await.unwrap();
    let refusal = create("t3").await.unwrap_err();
    assert!(
        matches!(refusal, StoreError::Overloaded { what: Quota::OpenPerStranger, limit: 2 }),
        "{refusal:?}"
    );
}

#[tokio::test]
async fn steps_of_an_earlier_release_are_read_without_their_times() {
    let server = Server::start();
    let store = RedisOptions::new().open(&server.store()).await.unwrap();
    let (id, of) = (TaskId::new("t").unwrap(), Fingerprint::new([1; Fingerprint::LEN]));
    let mut new = NewTask::new(id, Owner::Anonymous, "build", Json::parse("{}").unwrap());
    new.steps = vec![Step::new("begun", of, StepState::Begun)];
    let made = store.create(new).await.unwrap().into_record();
    let old = r#"[7,{"key":"learnt","of":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"state":{"Learnt":{"value":[1],"is_error":true}}}]"#;
    server.say(&["HSET", "{t0}:steps:t", "learnt", old]);
    let steps = store.steps(&made.id, made.epoch).await.unwrap();
    let times: Vec<_> = steps.iter().map(|step| (step.began_at, step.learnt_at)).collect();
    assert_eq!(times, [(Some(made.created_at), None), (None, None)]);
    let seen = store.seen_steps(Scope::Operator, &made.id, 0, 10).await.unwrap().unwrap();
    assert_eq!(seen.steps, steps.iter().map(SeenStep::of).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_a_release_knows_nothing_of_is_charged_once_another_writes_it_and_takes_no_room_when_it_is_gone()
{
    let server = Server::start();
    let mut settings = Settings::default();
    settings.limits.max_task_bytes_per_owner = 2 * ("{}".len() + "null".len()) as u64;
    let open =
        async || RedisOptions::new().with_settings(settings.clone()).open(&server.store()).await.unwrap();
    let store = open().await;
    let new = |name: &str| {
        NewTask::new(TaskId::new(name).unwrap(), Owner::Anonymous, "build", Json::parse("{}").unwrap())
    };
    let first = store.create(new("first")).await.unwrap().into_record();
    // As such a release makes one.
    server.say(&["HDEL", "{t0}:task:first", "k"]);
    server.say(&["HSET", "{t0}:task:first", "v", "theirs"]);
    server.say(&["DEL", "{t0}:task-bytes-of"]);
    assert_eq!(store.miscounted().await.unwrap(), []);
    store.create(new("second")).await.unwrap();
    store.release(&first.id, first.epoch).await.unwrap();
    assert_eq!(store.miscounted().await.unwrap(), []);
    let full =
        |refusal| matches!(refusal, Err(StoreError::Overloaded { what: Quota::TaskBytesPerOwner, .. }));
    assert!(full(store.create(new("third")).await));
    // As it removes one.
    server.say(&["DEL", "{t0}:task:second"]);
    for set in ["{t0}:tasks", "{t0}:open", "{t0}:tasks:\"Anonymous\"", "{t0}:open:\"Anonymous\""] {
        assert!(server.ask(&["ZREM", set, "second"]).starts_with(":1"), "{set}");
    }
    assert_eq!(store.miscounted().await.unwrap().len(), 1);
    // What takes a look at all tasks of an owner a node does seldom for each.
    assert!(full(store.create(new("third")).await));
    open().await.create(new("third")).await.unwrap();
    let fourth = store.create(new("fourth")).await;
    assert!(full(fourth.clone()), "{fourth:?}");
}

/// How many tasks one owner has, and how many owners have one each: some pages of both.
const MANY: u64 = 1_200;

/// Makes as many tasks like `t` of an owner `many`, each charged 3, and one each of as many others, charged 5.
const FILL: &str = r#"
local record = redis.call('HGET', '{t0}:task:t', 'r')
local add = function(id, owner, charged)
  local word = '{"Principal":"' .. owner .. '"}'
  local its, found = record:gsub('{"Principal":"ann"}', word)
  if found ~= 1 then return error('the owner of t') end
  redis.call('HSET', '{t0}:task:' .. id, 'r', its, 'k', charged)
  local place = redis.call('INCR', '{t0}:seq')
  redis.call('ZADD', '{t0}:tasks', place, id)
  redis.call('ZADD', '{t0}:tasks:' .. word, place, id)
  redis.call('HINCRBY', '{t0}:task-bytes-of', word, charged)
end
for n = 1, tonumber(ARGV[1]) do
  add('m' .. n, 'many', 3)
  add('o' .. n, 'other' .. n, 5)
end
return 'OK'"#;

#[tokio::test]
async fn what_many_owners_and_tasks_are_charged_is_counted_in_pages_and_to_the_byte() {
    let server = Server::start();
    let store = Redis::open(&server.store()).await.unwrap();
    let owner = Owner::principal("ann").unwrap();
    let new = NewTask::new(TaskId::new("t").unwrap(), owner, "build", Json::parse("{}").unwrap());
    store.create(new).await.unwrap();
    server.say(&["EVAL", FILL, "0", &MANY.to_string()]);
    assert_eq!(store.miscounted().await.unwrap(), []);
    assert_eq!(store.rows().await.unwrap(), 2 * MANY + 1);
    let word = |name: &str| format!(r#"{{"Principal":"{name}"}}"#);
    server.say(&["HINCRBY", "{t0}:task-bytes-of", &word("many"), "1"]);
    server.say(&["HDEL", "{t0}:task-bytes-of", &word("other1")]);
    server.say(&["HSET", "{t0}:task:o1200", "k", "9"]);
    server.say(&["HSET", "{t0}:task-bytes-of", &word("nobody"), "7"]);
    let mut wrong =
        [("many", 3 * MANY + 1, 3 * MANY), ("other1", 0, 5), ("other1200", 5, 9), ("nobody", 7, 0)]
            .map(|(name, charged, has)| Miscount::new(word(name), charged, has));
    wrong.sort_by(|one, other| one.owner.cmp(&other.owner));
    assert_eq!(store.miscounted().await.unwrap(), wrong);
    server.say(&["DEL", "{t0}:task:m7"]);
    assert_eq!(
        (store.rows().await.unwrap(), store.counts().await.unwrap().retained),
        (2 * MANY, 2 * MANY + 1)
    );
}
