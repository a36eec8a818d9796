//! Creation: one call, one task, whatever becomes of the answer; and how a task is forgotten.

use std::time::Duration;

use longhaul::server::{TaskPolicy, ToolError};
use longhaul::store::Rerun;
use longhaul::{Cx, Tool};
use serde_json::{Value, json};

use super::{effect, resumable, tool};
use crate::explore::{Often, Scenario, explore};
use crate::world::Hands;

async fn work(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    effect(&hands, &cx, "work").await?;
    Ok("done".to_owned())
}

#[test]
fn k01_k02_k03_a_call_under_a_key_is_made_once() {
    static SCENARIO: Scenario = Scenario {
        name: "k01_k02_k03 a call under a key",
        tools: |hands| {
            let other = tool(hands, "other", Rerun::Resumable, |_, _| async { Ok("other".to_owned()) });
            let mut tools = resumable(hands, work);
            tools.push(other);
            tools
        },
        play: |client| {
            let id = client.call("tool");
            // While it is open, and when it has ended.
            client.call("tool");
            let end = client.end(&id);
            client.call("tool");
            let conflict = client.call_with("the-call", "other", &json!({}));
            json!([end, conflict["error"]["data"]["reason"]])
        },
        comes_to: r#","idempotency_conflict"]"#,
        or_else: &[],
        effects: &[("work", Often::AtLeastOnce)],
    };
    explore(&SCENARIO);
}

#[test]
fn k01_k02_k03_two_calls_under_two_keys_are_two_tasks() {
    static SCENARIO: Scenario = Scenario {
        name: "k01_k02_k03 two calls",
        tools: |hands| {
            resumable(hands, |_, cx| async move {
                cx.sleep(Duration::from_secs(1)).await;
                Ok("done".to_owned())
            })
        },
        play: |client| {
            let (one, two) = (client.call_as("one", "tool"), client.call_as("two", "tool"));
            if one == two {
                client.complain("I13: two keys are one task");
            }
            json!([client.end(&one), client.end(&two)])
        },
        comes_to: r#""text":"done""#,
        or_else: &[],
        effects: &[],
    };
    explore(&SCENARIO);
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Place {
    /// Whether another one stands before it.
    behind: bool,
}

/// A tool of which one call runs at once, and none is ever run twice.
fn narrow(hands: &Hands) -> Vec<Tool> {
    let (hands, mut policy) = (hands.clone(), TaskPolicy::always());
    policy.limit = Some(1);
    let tool = Tool::typed("tool", "A tool with one place", move |cx: Cx, Place { behind }| {
        let hands = hands.clone();
        async move {
            hands.effect(if behind { "behind" } else { "first" }, &cx.effect_key("work")).await;
            cx.sleep(Duration::from_secs(3)).await;
            Ok::<_, ToolError>(if behind { "behind is done" } else { "first is done" })
        }
    });
    vec![tool.task(policy)]
}

#[test]
fn k03_k08_what_stands_in_line_is_begun_once() {
    static SCENARIO: Scenario = Scenario {
        name: "k03_k08 a line",
        tools: narrow,
        play: |client| {
            let first = client.call_about("one", "tool", &json!({"behind": false}));
            client.pass(Duration::from_secs(1));
            let behind = client.call_about("two", "tool", &json!({"behind": true}));
            let said = |end: Value| match &end["result"]["content"][0]["text"] {
                Value::Null => end["error"]["data"]["reason"].clone(),
                text => text.clone(),
            };
            let ends = [said(client.end(&first)), said(client.end(&behind))];
            let lost = ends.iter().filter(|end| *end == "worker_lost").count();
            if lost > client.fleet.crashed() {
                client.complain(format!("K8: what had not begun is lost: {ends:?}"));
            }
            json!(ends)
        },
        comes_to: r#"["first is done","behind is done"]"#,
        or_else: &["worker_lost"],
        effects: &[("first", Often::AtMostOnce), ("behind", Often::AtMostOnce)],
    };
    explore(&SCENARIO);
}

#[test]
fn k20_a_task_that_is_forgotten_is_never_half_there() {
    static SCENARIO: Scenario = Scenario {
        name: "k20 a task is forgotten",
        tools: |hands| resumable(hands, work),
        play: |client| {
            let id = client.call("tool");
            let end = client.end(&id);
            let mut told = Vec::new();
            // Past its time, and past that of its id.
            for off in [25, 2] {
                client.switch_off(Duration::from_secs(off * 3600));
                let gone = client.ask("tasks/get", &json!({"taskId": id}));
                client.pass(Duration::from_secs(31));
                let still_gone = client.ask("tasks/get", &json!({"taskId": id}));
                told.push(json!([gone["error"]["code"], still_gone["error"]["code"]]));
            }
            json!([end["status"], told])
        },
        comes_to: r#"["completed",[[-32602,-32602],[-32602,-32602]]]"#,
        or_else: &[],
        effects: &[("work", Often::AtLeastOnce)],
    };
    explore(&SCENARIO);
}
