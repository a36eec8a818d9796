//! What one caller has, and another would like to have.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use crate::rig::{Host, hear, hello, request};

#[tokio::test]
async fn s6_the_id_of_a_session_is_nobodys_to_guess() {
    let host = Host::start().await;
    let mut ids = HashSet::new();
    for _ in 0..64 {
        let id = host.initialize().await;
        assert!(id.len() >= 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        assert!(ids.insert(id));
    }
    // 128 bits, each of which is set in about half of them.
    let ids: Vec<u128> = ids.iter().map(|id| u128::from_str_radix(&id[..32], 16).unwrap()).collect();
    for bit in 0..128 {
        let set = ids.iter().filter(|id| *id >> bit & 1 == 1).count();
        assert!((8..=56).contains(&set), "bit {bit} is set in {set} of {}", ids.len());
    }
}

#[tokio::test]
async fn s7_what_was_sent_in_a_stream_is_replayed_to_no_stranger() {
    let host = Host::start().await;
    let (ours, theirs) = (host.initialize().await, host.initialize().await);
    // Both sessions have a call of the same id, as all clients have.
    let mut events = Vec::new();
    for session in [&ours, &theirs] {
        let call = request(
            "tools/call",
            json!({"name": "nap", "arguments": {"millis": 1}, "_meta": {"progressToken": 1}}),
        );
        let answer = host.in_session(session, &call).await;
        let id = answer
            .body
            .lines()
            .find_map(|line| line.strip_prefix("id:"))
            .unwrap_or_else(|| panic!("{answer:?}"));
        events.push(id.trim().to_owned());
    }
    let resume = async |session: &str, event: &str| {
        let headers =
            [("accept", "text/event-stream"), ("mcp-session-id", session), ("last-event-id", event)];
        host.request("GET", "/mcp", &headers, "").await
    };
    assert_eq!(resume(&ours, &events[0]).await.status, 200);
    let stream = events[0].rsplit_once('-').unwrap().0;
    let forged = [
        events[1].clone(),
        format!("{stream}-999"),
        format!("{stream}--1"),
        format!("{stream}-0x0"),
        "-0".to_owned(),
        "_GET_stream-0".to_owned(),
        "1-0".to_owned(),
        format!("{stream}-18446744073709551616"),
        stream.to_owned(),
        format!("../{stream}-0"),
        "%00".to_owned(),
        "0".repeat(7000),
    ];
    for event in &forged {
        let answer = resume(&ours, event).await;
        assert_eq!(answer.status, 400, "{event}: {answer:?}");
        assert!(!answer.body.contains("rested"), "{event}");
    }
}

/// A6 of `conformance/REQUIREMENTS.md`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s8_an_answer_goes_to_whom_it_answers() {
    const CALLS: usize = 40;
    let host = Arc::new(Host::start().await);
    let mut clients = JoinSet::new();
    for client in 0..16 {
        let host = Arc::clone(&host);
        clients.spawn(async move {
            let session = host.initialize().await;
            for id in 0..CALLS {
                let nonce = format!("{client}/{id}/{}", client * 7919 + id);
                let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                    "params": {"name": "echo", "arguments": {"message": nonce}, "_meta": {"progressToken": id}}});
                let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                    "params": {"requestId": id + 1}});
                let (answer, _) =
                    tokio::join!(host.in_session(&session, &call), host.in_session(&session, &cancel));
                let answer = answer.json();
                assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(id), &json!(nonce)));
            }
        });
    }
    clients.join_all().await;
    assert_eq!(host.runs(), 16 * CALLS);
}

/// The stream of a session is not taken from whoever has it.
#[tokio::test]
async fn s6_a_stream_is_not_taken_from_who_has_it() {
    let host = Host::start().await;
    let session = host.initialize().await;
    let (mut first, mut second) = (host.listen(&session).await, host.listen(&session).await);
    // A task of the older revision tells of itself on the session's own stream.
    let call = request("tools/call", json!({"name": "long_nap", "arguments": {"millis": 50}, "task": {}}));
    host.in_session(&session, &call).await;
    let (first, second) = tokio::join!(
        hear(&mut first, Duration::from_millis(700)),
        hear(&mut second, Duration::from_millis(700))
    );
    assert!(first.body.contains("notifications/tasks/status"), "{first:?}");
    assert!(!second.body.contains("notifications/tasks/status"), "each message is sent once: {second:?}");
}

#[tokio::test]
async fn s6_a_client_that_comes_anew_is_told_what_its_lost_stream_would_have_been() {
    let host = Host::start().await;
    let session = host.initialize().await;
    drop(host.listen(&session).await);
    let mut anew = host.listen(&session).await;
    // Until the server has seen that the first is gone.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let call = request("tools/call", json!({"name": "long_nap", "arguments": {"millis": 50}, "task": {}}));
    host.in_session(&session, &call).await;
    let heard = hear(&mut anew, Duration::from_millis(700)).await;
    assert!(heard.body.contains("notifications/tasks/status"), "{heard:?}");
}

#[tokio::test]
async fn s23_the_id_of_a_task_is_nobodys_to_guess() {
    const IDS: usize = 256;
    // Letters of base 32, of which the last 32 are 160 random bits, behind a time.
    const LETTERS: usize = 40;
    const TIME: usize = 8;
    let host = Host::start().await;
    let (mut ids, mut seen) = (HashSet::new(), vec![HashSet::new(); LETTERS]);
    for _ in 0..IDS {
        let created = host.call("long_nap", json!({"millis": 600_000})).await.json();
        let id = created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
        let random = id.rsplit('-').next().unwrap();
        assert_eq!(random.len(), LETTERS, "{id}");
        for (place, letter) in seen.iter_mut().zip(random.chars()) {
            place.insert(letter);
        }
        assert!(ids.insert(id), "no two are alike");
    }
    // A letter is missing at a place in one run of a hundred, and nine in none: 32 times (31/32)^256 are on average 0.01.
    for (place, letters) in seen.iter().enumerate().skip(TIME) {
        assert!(letters.len() >= 24, "{place} is one of {} letters", letters.len());
    }
    // Nor is one place that of another, as it would be if bits were drawn once and repeated.
    let text = |id: &String| id.rsplit('-').next().unwrap().as_bytes().to_vec();
    for (one, other) in (TIME..LETTERS).flat_map(|one| (one + 1..LETTERS).map(move |other| (one, other))) {
        let alike = ids.iter().map(text).filter(|id| id[one] == id[other]).count();
        assert!(alike < IDS / 4, "{one} and {other} are alike in {alike} ids");
    }
    let known = ids.iter().next().unwrap();
    let (name, random) = known.rsplit_once('-').unwrap_or(("", known));
    let last = if random.ends_with('0') { "1" } else { "0" };
    for guess in [
        format!("{name}-{}{last}", &random[..random.len() - 1]),
        random.to_owned(),
        format!("{known}0"),
        name.to_owned(),
        known.to_uppercase(),
        format!("{name}-%"),
        format!("{name}-' OR '1'='1"),
    ] {
        for method in ["tasks/get", "tasks/cancel"] {
            let answer = host.modern(method, json!({"taskId": guess})).await;
            assert_eq!(answer.code(), -32602, "{method} {guess}");
        }
    }
}

#[tokio::test]
async fn s29_what_a_caller_sees_is_nothing_to_share() {
    let host = Host::start().await;
    let listed = host.modern("tools/list", json!({})).await.json();
    assert_eq!(listed["result"]["cacheScope"], "private");
    let answer = host.call("echo", json!({"message": "hi"})).await;
    assert_eq!(answer.json()["result"].get("cacheScope"), None, "a result of a call is not kept at all");
    // Nor is anything kept on the way.
    for answer in [answer, host.post(&[], &hello()).await] {
        let cached = answer.header("cache-control").unwrap_or_default();
        assert!(!cached.contains("public") && !cached.contains("max-age"), "{answer:?}");
    }
}
