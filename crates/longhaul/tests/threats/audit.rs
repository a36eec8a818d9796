//! What the trail tells of tasks, and of who asked after them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use longhaul::audit::{Audit, End, Event, Forged, Party, What};
use longhaul::proto::dialect::Revision;
use longhaul::server::{PollOptions, TaskPolicy, ToolError};
use longhaul::store::{Owner, Scope, TaskId};
use longhaul::tasks::environment::BoxFuture;
use longhaul::tasks::store::Rerun;
use longhaul::transport::http::server::{Callbacks, NotTaken, Options};
use longhaul::{Cx, Tool};
use serde_json::json;

use crate::polls::Rig;
use crate::rig::{Host, server};

#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<Event>>>);

impl Audit for Kept {
    fn note(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

impl Kept {
    /// What happened to the task, and who did it.
    fn of(&self, id: &str) -> Vec<(What, Option<Party>)> {
        let events = self.0.lock().unwrap();
        let its = events.iter().filter(|event| event.task.as_ref().is_some_and(|task| task.as_str() == id));
        its.map(|event| (event.what.clone(), event.by.clone())).collect()
    }
}

fn party(name: &str) -> Option<Party> {
    Some(Party::of(&Owner::principal(name).unwrap()))
}

/// R2-66 and R1-20 of `conformance/REQUIREMENTS.md`.
#[tokio::test(start_paused = true)]
async fn r2_66_the_trail_tells_who_made_fetched_and_ended_which_task() {
    let kept = Kept::default();
    let rig = Rig::of(server(&Arc::default()).audit(kept.clone()), PollOptions::default().in_vain(2));
    let (ann, bob) = (Some("ann"), Some("bob"));
    let nap = json!({"name": "long_nap", "arguments": {"millis": 50}, "task": {}});
    let created = rig.ask_in(Revision::V2025_11_25, ann, "tools/call", nap).await.unwrap();
    let (ended, cancelled) =
        (created["result"]["task"]["taskId"].as_str().unwrap().to_owned(), rig.task_of(bob).await);
    for _ in 0..2 {
        // Once is enough to know.
        let result = json!({"taskId": ended});
        let result = rig.ask_in(Revision::V2025_11_25, ann, "tasks/result", result).await.unwrap();
        assert_eq!(result["result"]["content"][0]["text"], "rested", "{result}");
    }
    rig.ask(bob, "tasks/cancel", json!({"taskId": cancelled})).await;
    for _ in 0..4 {
        let _ = rig.get(bob, &ended).await;
    }
    assert_eq!(
        kept.of(&ended),
        [(What::Created, party("ann")), (What::Ended(End::Result), None), (What::Fetched, party("ann")),]
    );
    assert_eq!(kept.of(&cancelled), [(What::Created, party("bob")), (What::Cancelled, party("bob"))]);
    let events = kept.0.lock().unwrap().clone();
    let refused: Vec<_> = events.iter().filter(|event| event.what == What::Refused).collect();
    assert_eq!(refused.len(), 1, "once, however often");
    assert_eq!((&refused[0].by, &refused[0].task), (&party("bob"), &None));
    let all = format!("{events:?}");
    for secret in ["rested", "millis", "ann\"", "bob\""] {
        assert!(!all.contains(secret), "{secret} in {all}");
    }
    assert!(
        events
            .iter()
            .filter(|event| event.task.is_some())
            .all(|event| event.tool.as_deref() == Some("long_nap"))
    );
}

#[tokio::test(start_paused = true)]
async fn a2_who_guesses_ids_is_in_the_trail_with_the_number_and_not_once_a_guess() {
    let kept = Kept::default();
    let rig = Rig::of(server(&Arc::default()).audit(kept.clone()), PollOptions::default());
    let theirs = rig.task_of(Some("ann")).await;
    let guess = async |who, guesses: u32| {
        for number in 0..guesses {
            let id = if number == 0 { theirs.clone() } else { format!("long_nap-{number}") };
            assert!(rig.get(who, &id).await["error"].is_object());
        }
    };
    let told = || {
        let events = kept.0.lock().unwrap().clone();
        let vain = events.into_iter().filter_map(|event| match event.what {
            What::AskedInVain(tasks) => {
                assert_eq!(
                    (event.task, event.tool, event.owner),
                    (None, None, None),
                    "whose they are is not told"
                );
                Some((tasks, event.by.unwrap()))
            }
            _ => None,
        });
        vain.collect::<Vec<_>>()
    };
    let (mallory, nobody) = (party("mallory").unwrap(), Party::of(&Owner::Anonymous));
    guess(Some("mallory"), 19).await;
    guess(Some("carol"), 19).await;
    assert_eq!(told(), [], "nineteen are a client that was away");
    guess(Some("mallory"), 2000).await;
    let mut all = vec![(20, mallory.clone())];
    assert_eq!(told(), all);
    // Those of this machine and of nowhere are not refused for it, and in the trail they are one.
    guess(None, 50).await;
    all.push((20, nobody));
    assert_eq!(told(), all);
    tokio::time::advance(Duration::from_secs(600)).await;
    guess(Some("mallory"), 100).await;
    all.push((281, mallory));
    assert_eq!(told(), all, "300 were looked up before it was refused, of which 20 were told");
}

/// Knows one token, which came late.
#[derive(Debug)]
struct Late;

impl Callbacks for Late {
    fn called<'a>(&'a self, token: &'a str, _body: Bytes) -> BoxFuture<'a, Result<(), NotTaken>> {
        let why = if token == "late" { NotTaken::Unknown } else { NotTaken::Forged };
        Box::pin(async move { Err(why) })
    }
}

#[tokio::test]
async fn a6_a_callback_with_a_token_that_was_never_made_is_noted_once_and_answered_as_a_late_one() {
    let kept = Kept::default();
    let audit = kept.clone();
    let host = Host::of(|server| server.audit(audit), Options::default().callbacks(Late)).await;
    let call = async |token: &str| host.request("POST", &format!("/callbacks/{token}"), &[], "").await;
    let told = || {
        let events = kept.0.lock().unwrap().clone();
        events.into_iter().map(|event| (event.what, event.by, event.task)).collect::<Vec<_>>()
    };
    let late = call("late").await;
    assert_eq!((late.status, told()), (404, vec![]), "{late:?}");
    for forged in ["made-up", "", "another"] {
        let answer = call(forged).await;
        assert_eq!((answer.status, &answer.body), (404, &late.body), "{forged}");
    }
    let nobody = Some(Party::of(&Owner::Anonymous));
    assert_eq!(told(), [(What::Forged(Forged::Callback), nobody, None)]);
}

#[tokio::test(start_paused = true)]
async fn what_is_fetched_any_other_way_and_what_is_answered_is_told_too() {
    let kept = Kept::default();
    let ask = |cx: Cx, _: serde_json::Map<String, serde_json::Value>| async move {
        #[derive(serde::Deserialize, schemars::JsonSchema)]
        struct Sure {
            sure: bool,
        }
        match cx.elicit::<Sure>("Sure?").await {
            Ok(longhaul::server::Elicited::Accepted(Sure { sure: true })) => "sure",
            _ => "not sure",
        }
    };
    let mut policy = TaskPolicy::always();
    policy.rerun = Rerun::Resumable;
    let asks = Tool::typed("ask", "Ask", ask).task(policy).answer_by_model(true);
    let rig = Rig::of(server(&Arc::default()).tool(asks).audit(kept.clone()), PollOptions::default());
    let ann = Some("ann");
    let created = rig.ask(ann, "tools/call", json!({"name": "ask", "arguments": {}})).await;
    let id = created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
    let companion = |name: &str, arguments| json!({"name": name, "arguments": arguments});
    tokio::time::sleep(Duration::from_millis(100)).await;
    let answer = companion("task_answer", json!({"id": id, "content": {"sure": true}}));
    let answered = rig.ask(ann, "tools/call", answer).await;
    assert_eq!(answered["result"]["isError"], serde_json::Value::Null, "{answered}");
    let waited = rig.ask(ann, "tools/call", companion("task_wait", json!({"id": id}))).await;
    assert_eq!(waited["result"]["content"][0]["text"], "sure", "{waited}");
    assert_eq!(
        kept.of(&id),
        [
            (What::Created, party("ann")),
            (What::Asked(1), None),
            (What::Answered(1), party("ann")),
            (What::Ended(End::Result), None),
            (What::Fetched, party("ann")),
        ]
    );
    let engine = rig.dispatcher.engine();
    engine.erase(Scope::Operator, &TaskId::new(id.as_str()).unwrap()).await.unwrap();
    assert_eq!(kept.of(&id).last(), Some(&(What::Deleted, None)), "by the operator");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_a_task_makes_is_told_of_too() {
    let kept = Kept::default();
    let work = |cx: Cx, _: serde_json::Map<String, serde_json::Value>| async move {
        cx.spawn("long_nap", json!({"millis": 1})).await?.join().await?;
        Ok::<_, ToolError>("joined")
    };
    let mut policy = TaskPolicy::always();
    policy.rerun = Rerun::Resumable;
    let work = Tool::typed("work", "Work", work).task(policy);
    let rig = Rig::of(server(&Arc::default()).tool(work).audit(kept.clone()), PollOptions::default());
    let ann = Some("ann");
    let created = rig.ask(ann, "tools/call", json!({"name": "work", "arguments": {}})).await;
    let id = created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
    rig.dispatcher.engine().ended(Scope::Operator, &TaskId::new(id.as_str()).unwrap()).await.unwrap();
    let events = kept.0.lock().unwrap().clone();
    let of_child: Vec<_> =
        events.iter().filter(|event| event.task.as_ref().is_some_and(|task| task.as_str() != id)).collect();
    let told: Vec<_> = of_child.iter().map(|event| (&event.what, event.tool.as_deref())).collect();
    assert_eq!(
        told,
        [What::Created, What::Claimed, What::Ended(End::Result)]
            .each_ref()
            .map(|what| (what, Some("long_nap"))),
        "{events:?}"
    );
}
