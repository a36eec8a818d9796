//! Servers that have lost their store, or their clients: what is said meanwhile, and what goes on.

use std::{fs, time::Duration};

use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use self::way::{Way, Weather};
use super::fleet::{CONFIG, Fleet, Node, posted, redis, rig, told};

#[path = "../../../longhaul-store/tests/networked/way.rs"]
#[expect(dead_code, reason = "most weather is for the tests of the store")]
mod way;

/// Waits until a server is told to be ready, or not to be, as programs that watch over it ask; gives what it says.
async fn until_ready(node: &Node, status: u16) -> String {
    for _ in 0..1500 {
        let (found, words) = told(node, "readyz").await;
        if found == status {
            return words;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{:?}", told(node, "readyz").await)
}

#[tokio::test]
async fn a_server_is_not_ready_while_its_database_is_down_and_is_again_after() {
    let mut database = rig::Server::start();
    let fleet = Fleet::on(CONFIG, database.database());
    let node = fleet.node(&[]);
    assert_eq!(until_ready(&node, 200).await, "ready");
    database = spawn_blocking(move || {
        database.kill();
        database
    })
    .await
    .unwrap();
    is_alive_and_not_ready(&node).await;
    let _database = spawn_blocking(move || {
        database.launch();
        database
    })
    .await
    .unwrap();
    until_ready(&node, 200).await;
}

#[tokio::test]
async fn a_server_is_not_ready_while_its_redis_is_down_and_is_again_after() {
    let mut redis = redis::Server::start();
    let fleet = Fleet::on(CONFIG, redis.store());
    let node = fleet.node(&[]);
    assert_eq!(until_ready(&node, 200).await, "ready");
    redis = spawn_blocking(move || {
        redis.kill();
        redis
    })
    .await
    .unwrap();
    is_alive_and_not_ready(&node).await;
    let _redis = spawn_blocking(move || {
        redis.launch();
        redis
    })
    .await
    .unwrap();
    until_ready(&node, 200).await;
}

#[tokio::test]
async fn a_server_is_not_ready_while_its_redis_may_throw_tasks_away() {
    let redis = redis::Server::start();
    let fleet = Fleet::on(CONFIG, redis.store());
    let node = fleet.node(&[]);
    assert_eq!(until_ready(&node, 200).await, "ready");
    redis.say(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let words = until_ready(&node, 503).await;
    assert!(words.contains("allkeys-lru") && words.contains("noeviction"), "{words}");
    redis.say(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    until_ready(&node, 200).await;
}

async fn is_alive_and_not_ready(node: &Node) {
    let words = until_ready(node, 503).await;
    assert!(words.contains("store"), "{words}");
    assert_eq!(told(node, "healthz").await, (200, "ok".to_owned()), "to restart it would change nothing");
}

#[tokio::test]
async fn n3_a_server_that_is_cut_from_its_database_says_so_and_makes_up_nothing() {
    let fleet = Fleet::new(CONFIG);
    let way = Way::to(&rig::shared().folder().join(".s.PGSQL.5432"));
    let by = format!("postgres://tester@{}/{}", way.address, fleet.store.rsplit('/').next().unwrap());
    makes_up_nothing(&fleet, &way, &by).await;
}

#[tokio::test]
async fn n3_a_server_that_is_cut_from_its_redis_says_so_and_makes_up_nothing() {
    let fleet = Fleet::on_redis(CONFIG);
    let way = Way::to(&redis::shared().socket());
    let by = format!("redis://{}/?{}", way.address, fleet.store.split_once('?').unwrap().1);
    makes_up_nothing(&fleet, &way, &by).await;
}

async fn makes_up_nothing(fleet: &Fleet, way: &Way, by: &str) {
    let (cut, other) = (fleet.node_by(by, &[]), fleet.node(&[]));
    let task = other.call("ann", "work", json!({"until": "go"})).await;
    let found = cut.ask("ann", "tasks/get", json!({"taskId": task})).await;
    assert_eq!(found["result"]["status"], "working", "{found}");
    way.set(Weather::Cut);
    is_alive_and_not_ready(&cut).await;
    fs::write(fleet.path().join("go"), "").unwrap();
    let ended = other.until(&task, |task| task["status"] == "completed").await;
    // Neither how it stood before, nor that there is none.
    for asked in [task.as_str(), "work-00000000000000000000000000"] {
        for method in ["tasks/get", "tasks/cancel"] {
            let said = cut.ask("ann", method, json!({"taskId": asked})).await;
            let error = &said["error"];
            assert_eq!(
                (&error["code"], &error["data"]["reason"]),
                (&json!(-32603), &json!("store_unavailable")),
                "{said}"
            );
            assert!(error["data"]["retryAfterMs"].is_u64(), "{said}");
        }
    }
    way.set(Weather::Clear);
    until_ready(&cut, 200).await;
    let found = cut.until(&task, |task| task["status"] == "completed").await;
    assert_eq!(found["result"], ended["result"], "{found}");
}

#[tokio::test]
async fn n8_a_question_whose_stream_died_is_put_again_at_another_server_and_the_first_answer_counts() {
    a_question_is_put_again(&Fleet::new(CONFIG)).await;
}

#[tokio::test]
async fn n8_a_question_whose_stream_died_is_put_again_at_another_server_and_the_first_answer_counts_on_redis()
{
    a_question_is_put_again(&Fleet::on_redis(CONFIG)).await;
}

async fn a_question_is_put_again(fleet: &Fleet) {
    let (one, two) = (fleet.node(&[]), fleet.node(&[]));
    let session = one.session("ann").await;
    let asked = json!({"name": "ask", "arguments": {}, "task": {}});
    let created = one.in_session(&session, "tools/call", asked).await.answer().await;
    let task = created["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}"));
    let waits = || json!({"taskId": task});
    let mut waiting = one.in_session(&session, "tasks/result", waits()).await;
    let first = question(&mut waiting).await;
    drop(waiting);

    let mut waiting = two.in_session(&session, "tasks/result", waits()).await;
    let again = question(&mut waiting).await;
    assert_ne!(first["id"], again["id"], "no id is used twice");
    assert_eq!(answered(&two, &session, &again, true).await, 202);
    let result = waiting.answer().await;
    assert_eq!(result["result"]["content"][0]["text"], "went on", "{result}");
    // Whatever is said of that, it changes nothing.
    answered(&one, &session, &first, false).await;
    let result = one.in_session(&session, "tasks/result", waits()).await.answer().await;
    assert_eq!(result["result"]["content"][0]["text"], "went on", "{result}");
}

/// The next question of a stream, whatever is told before it.
async fn question(stream: &mut super::fleet::Events) -> Value {
    loop {
        let (_, message) = stream.next().await.expect("it goes on");
        if message["method"] == "elicitation/create" {
            return message;
        }
    }
}

async fn answered(node: &Node, session: &str, question: &Value, go: bool) -> u16 {
    let request = node.request(reqwest::Method::POST, "ann").header("mcp-session-id", session);
    let result = json!({"action": "accept", "content": {"go": go}});
    posted(request, &json!({"jsonrpc": "2.0", "id": question["id"], "result": result}))
        .await
        .status()
        .as_u16()
}
