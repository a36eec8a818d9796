//! What was seen to go wrong with the tasks of others, told of ours. `conformance/REQUIREMENTS.md` has the whole list, and
//! which of it is shown elsewhere.

use std::time::Duration;

use longhaul::Cx;
use longhaul::server::{AskError, Elicited, TaskMode, TaskPolicy, ToolError};
use longhaul::store::Rerun;
use serde_json::json;

use super::{Approve, effect, resumable, tool};
use crate::explore::{Often, Scenario, explore, tell};
use crate::world::{Hands, NO_KEY};

const PAY: &str = "Pay it?";

const HOUR: Duration = Duration::from_secs(3600);

async fn paying(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    let answer = cx.elicit::<Approve>(PAY).await?;
    effect(&hands, &cx, "pay").await?;
    Ok(if matches!(answer, Elicited::Accepted(Approve { go: true })) { "paid" } else { "left" }.to_owned())
}

/// There it was not found any more, a quarter of an hour after it began to wait.
#[test]
fn fastmcp_1_a_task_that_waits_for_its_user_is_there_when_the_user_comes_back() {
    static SCENARIO: Scenario = Scenario {
        name: "fastmcp_1 the user comes back an hour later",
        tools: |hands| resumable(hands, paying),
        play: |client| {
            let id = client.call("tool");
            client.asked(&id);
            // Nobody looks at it meanwhile.
            client.pass(HOUR);
            client.accept(&id, PAY, &json!({"go": true}));
            client.end(&id)
        },
        comes_to: r#""text":"paid""#,
        or_else: &[],
        effects: &[("pay", Often::Once)],
    };
    tell(&SCENARIO);
}

async fn impatient(_: Hands, cx: Cx) -> Result<String, ToolError> {
    Ok(match cx.elicit::<Approve>(PAY).within(HOUR).await {
        Ok(_) => "an answer came",
        Err(AskError::TimedOut { .. }) => "no answer came",
        Err(_) => "it could not be asked",
    }
    .to_owned())
}

/// There it was `completed`, with a result of `null`, once the time to answer was over.
#[test]
fn fastmcp_2_a_task_that_is_not_answered_ends_as_its_tool_says_and_not_before() {
    static SCENARIO: Scenario = Scenario {
        name: "fastmcp_2 nobody answers in time",
        tools: |hands| resumable(hands, impatient),
        play: |client| {
            let id = client.call("tool");
            client.asked(&id);
            client.pass(HOUR / 2);
            if client.get(&id)["status"] != "input_required" {
                client.complain("it asks no more while there is time to answer");
            }
            client.pass(HOUR);
            client.end(&id)
        },
        comes_to: r#""text":"no answer came""#,
        or_else: &[],
        effects: &[],
    };
    tell(&SCENARIO);
}

async fn two_hours(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    let key = cx.effect_key("work");
    let work = cx.step("work", || async {
        hands.effect("work", &key).await;
        tokio::time::sleep(2 * HOUR).await;
        Ok::<_, ToolError>(())
    });
    work.await?;
    Ok("worked".to_owned())
}

/// There it was not found any more after half an hour without a look, and worked on unseen.
#[test]
fn fastmcp_3_a_task_that_nobody_looks_at_is_found_while_it_works_and_when_it_has_ended() {
    static SCENARIO: Scenario = Scenario {
        name: "fastmcp_3 nobody looks for hours",
        tools: |hands| resumable(hands, two_hours),
        play: |client| {
            let id = client.call("tool");
            client.pass(HOUR);
            if client.get(&id)["status"] != "working" {
                client.complain("it is not found at work");
            }
            client.pass(2 * HOUR);
            client.get(&id)
        },
        comes_to: r#""text":"worked""#,
        or_else: &[],
        effects: &[("work", Often::Once)],
    };
    tell(&SCENARIO);
}

async fn charging(hands: Hands, _: Cx) -> Result<String, ToolError> {
    hands.effect("charge", NO_KEY).await;
    Ok("charged".to_owned())
}

/// There the tool had begun by the time its caller was refused.
#[test]
fn rmcp_2_a_caller_that_is_refused_a_task_has_had_nothing_done() {
    static SCENARIO: Scenario = Scenario {
        name: "rmcp_2 a caller that takes no tasks",
        tools: |hands| {
            let mut policy = TaskPolicy::new(TaskMode::Required);
            policy.rerun = Rerun::Restart;
            vec![tool(hands, "tool", Rerun::Restart, charging).task(policy)]
        },
        play: |client| {
            let refused = client.ask_without_tasks("tools/call", &json!({"name": "tool", "arguments": {}}));
            client.pass(Duration::from_secs(5));
            refused
        },
        comes_to: r#""code":-32021"#,
        or_else: &[],
        effects: &[("charge", Often::Never)],
    };
    explore(&SCENARIO);
}
