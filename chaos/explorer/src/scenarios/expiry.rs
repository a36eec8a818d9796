//! Expiry: a task whose time is up while it is open fails once, whatever it was doing, and whoever was there.

use std::time::Duration;

use longhaul::server::{CancelPolicy, TaskPolicy, ToolError};
use longhaul::store::Rerun;
use longhaul::{Cx, Tool};
use serde_json::{Value, json};

use super::children::{family, joining};
use super::ends::{asking, long};
use super::undoing::{self, end_and_undo};
use super::{Approve, effect, resumable, tool};
use crate::client::Client;
use crate::explore::{Often, Scenario, explore};
use crate::world::Hands;

/// How long a task has from its creation.
const TTL: Duration = Duration::from_secs(20);

/// After so long its time was up, and somebody has swept since.
const OVER: Duration = Duration::from_secs(40);

const EXPIRED: &str = r#""message":"task expired""#;

fn timed() -> TaskPolicy {
    let mut policy = TaskPolicy::always().with_ttl_from_creation(TTL);
    policy.rerun = Rerun::Resumable;
    policy
}

/// The same tools, of which the first has a time.
fn in_time(mut tools: Vec<Tool>) -> Vec<Tool> {
    let first = tools.remove(0);
    tools.insert(0, first.task(timed()));
    tools
}

/// Answers what a task has asked when its time is up: it is acknowledged, and nobody is told.
fn answer_late(client: &mut Client, id: &str) -> Value {
    let asked = client.asked(id);
    client.pass(OVER);
    for question in asked.values() {
        client.answer(id, question, &json!({"action": "accept", "content": {"go": true}}));
    }
    client.end(id)
}

#[test]
fn t4_a_task_expires_in_a_step() {
    static SCENARIO: Scenario = Scenario {
        name: "t4 expired in a step",
        tools: |hands| in_time(resumable(hands, long)),
        play: |client| {
            let id = client.call("tool");
            client.pass(OVER);
            client.end(&id)
        },
        comes_to: EXPIRED,
        or_else: &[],
        effects: &[("before", Often::AtLeastOnce), ("long", Often::AtLeastOnce), ("after", Often::Never)],
    };
    explore(&SCENARIO);
}

/// Asks while it works, so that it is not put aside.
async fn asking_at_work(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    let key = cx.effect_key("long");
    let work = cx.step("long", || async {
        hands.effect("long", &key).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        Ok::<_, ToolError>(())
    });
    let (answer, work) = tokio::join!(cx.elicit::<Approve>("Go on?"), work);
    hands.told("the answer", format!("{answer:?}")).await;
    work?;
    effect(&hands, &cx, "after").await?;
    Ok("done".to_owned())
}

#[test]
fn t4_a_task_expires_while_it_asks() {
    static SCENARIO: Scenario = Scenario {
        name: "t4 expired while it asks",
        tools: |hands| in_time(resumable(hands, asking_at_work)),
        play: |client| {
            let id = client.call("tool");
            answer_late(client, &id)
        },
        comes_to: EXPIRED,
        or_else: &[],
        effects: &[("long", Often::AtLeastOnce), ("after", Often::Never)],
    };
    explore(&SCENARIO);
}

#[test]
fn t4_a_task_expires_when_it_was_put_aside() {
    static SCENARIO: Scenario = Scenario {
        name: "t4 expired when it was put aside",
        tools: |hands| in_time(resumable(hands, asking)),
        play: |client| {
            let id = client.call("tool");
            answer_late(client, &id)
        },
        comes_to: EXPIRED,
        or_else: &[],
        effects: &[("after", Often::Never)],
    };
    explore(&SCENARIO);
}

#[test]
fn t4_a_task_expires_while_no_process_is_there() {
    static SCENARIO: Scenario = Scenario {
        name: "t4 expired while no process was there",
        tools: |hands| in_time(resumable(hands, long)),
        play: |client| {
            let id = client.call("tool");
            client.pass(Duration::from_secs(4));
            client.switch_off(Duration::from_secs(3600));
            client.end(&id)
        },
        comes_to: EXPIRED,
        or_else: &[],
        effects: &[("before", Often::AtLeastOnce), ("long", Often::AtLeastOnce), ("after", Often::Never)],
    };
    explore(&SCENARIO);
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Place {
    /// Whether another one stands before it.
    behind: bool,
}

/// A tool of which one call runs at once, and never ends by itself.
fn narrow(hands: &Hands) -> Vec<Tool> {
    let (hands, mut policy) = (hands.clone(), timed());
    policy.limit = Some(1);
    let tool = Tool::typed("tool", "A tool with one place", move |cx: Cx, Place { behind }| {
        let hands = hands.clone();
        async move {
            hands.effect(if behind { "behind" } else { "first" }, &cx.effect_key("work")).await;
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Ok::<_, ToolError>("done")
        }
    });
    vec![tool.task(policy)]
}

#[test]
fn t4_k03_a_task_expires_in_a_line() {
    static SCENARIO: Scenario = Scenario {
        name: "t4 k03 expired in a line",
        tools: narrow,
        play: |client| {
            let first = client.call_about("one", "tool", &json!({"behind": false}));
            let behind = client.call_about("two", "tool", &json!({"behind": true}));
            client.pass(OVER);
            let ends = [client.end(&first), client.end(&behind)];
            if client.fleet.world.effects().is_empty() {
                client.complain("K3: the place was free, and nobody in line was begun");
            }
            json!(ends.map(|end| end["error"]["message"].clone()))
        },
        comes_to: r#"["task expired","task expired"]"#,
        or_else: &[],
        effects: &[("first", Often::UnlessLostTwice), ("behind", Often::AfterCrashes)],
    };
    explore(&SCENARIO);
}

#[test]
fn t4_k21_a_task_expires_and_its_children_end_with_it() {
    static SCENARIO: Scenario = Scenario {
        name: "t4 k21 expired with a child",
        tools: |hands| in_time(family(hands, |hands, cx| joining(hands, cx, "long"))),
        play: |client| {
            let id = client.call("tool");
            client.pass(OVER);
            let end = client.end(&id);
            client.made(2);
            end
        },
        comes_to: EXPIRED,
        or_else: &[],
        effects: &[
            ("before", Often::AtLeastOnce),
            ("one", Often::AtLeastOnce),
            ("long", Often::Never),
            ("after", Often::Never),
        ],
    };
    explore(&SCENARIO);
}

async fn waiting_for_one_with_a_time(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    let child = cx.spawn("brief", json!({})).await?;
    let came = child.join().await.map_or_else(|error| error.to_string(), |_| "done".to_owned());
    hands.told("what it came to", &came).await;
    effect(&hands, &cx, "after").await?;
    Ok(came)
}

#[test]
fn t4_k21_a_child_expires_and_its_parent_is_told() {
    static SCENARIO: Scenario = Scenario {
        name: "t4 k21 a child has expired",
        tools: |hands| {
            let brief = tool(hands, "brief", Rerun::Resumable, asking).task(timed());
            vec![tool(hands, "tool", Rerun::Resumable, waiting_for_one_with_a_time), brief]
        },
        play: |client| {
            let id = client.call("tool");
            client.pass(OVER);
            let end = client.end(&id);
            client.made(1);
            end
        },
        comes_to: "task expired",
        or_else: &[],
        effects: &[("after", Often::AtLeastOnce)],
    };
    explore(&SCENARIO);
}

#[test]
fn t4_k19_what_has_expired_is_undone() {
    static SCENARIO: Scenario = Scenario {
        name: "t4 k19 what has expired is undone",
        tools: |hands| in_time(resumable(hands, undoing::long)),
        play: |client| {
            let id = client.call("tool");
            client.pass(OVER);
            end_and_undo(client, &id)
        },
        comes_to: EXPIRED,
        or_else: &[],
        effects: &[
            ("charge", Often::AtLeastOnce),
            ("ship", Often::AtLeastOnce),
            ("refund", Often::AtLeastOnce),
        ],
    };
    explore(&SCENARIO);
}

#[test]
fn t4_k18_a_task_whose_time_is_up_before_that_of_its_cancel_is_cancelled() {
    static SCENARIO: Scenario = Scenario {
        name: "t4 k18 cancelled, and out of time",
        tools: |hands| {
            let mut policy = timed();
            policy.cancel = CancelPolicy::Cooperative { grace: Duration::from_secs(1800) };
            vec![tool(hands, "tool", Rerun::Resumable, asking).task(policy)]
        },
        play: |client| {
            let id = client.call("tool");
            client.asked(&id);
            client.cancel(&id);
            client.pass(OVER);
            client.end(&id)
        },
        comes_to: r#""status":"cancelled""#,
        or_else: &[],
        effects: &[("after", Often::Never)],
    };
    explore(&SCENARIO);
}
