//! Questions: asked once, answered once, however long it takes and whoever is there.

use std::time::Duration;

use longhaul::Cx;
use longhaul::server::{AskError, Elicited, TaskMode, TaskPolicy, ToolError};
use longhaul::store::Rerun;
use serde_json::{Value, json};

use super::{Approve, effect, resumable, tool};
use crate::client::Client;
use crate::explore::{Often, Scenario, explore};
use crate::world::{Hands, NO_KEY};

const SHIP: &str = "Ship it?";

pub(super) async fn order(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    effect(&hands, &cx, "charge").await?;
    let answer = cx.elicit::<Approve>(SHIP).await?;
    let go = matches!(answer, Elicited::Accepted(Approve { go: true }));
    hands.told("the answer", go).await;
    if go {
        effect(&hands, &cx, "ship").await?;
    }
    Ok(if go { "shipped" } else { "kept" }.to_owned())
}

/// Answers, and then tries to change the answer.
fn answer_twice(client: &mut Client, id: &str) -> Value {
    let asked = client.asked(id);
    let question = asked.get(SHIP).cloned().unwrap_or_default();
    client.answer(id, &question, &json!({"action": "accept", "content": {"go": true}}));
    client.answer(id, &question, &json!({"action": "decline"}));
    client.end(id)
}

#[test]
fn k10_k11_k13_k14_a_question_that_is_answered_at_once() {
    static SCENARIO: Scenario = Scenario {
        name: "k10_k11_k13_k14 a question, answered at once",
        tools: |hands| resumable(hands, order),
        play: |client| {
            let id = client.call("tool");
            answer_twice(client, &id)
        },
        comes_to: r#""text":"shipped""#,
        or_else: &[],
        effects: &[("charge", Often::AtLeastOnce), ("ship", Often::AtLeastOnce)],
    };
    explore(&SCENARIO);
}

#[test]
fn k11_k13_k14_a_question_that_is_answered_when_its_work_was_put_aside() {
    static SCENARIO: Scenario = Scenario {
        name: "k11_k13_k14 a question, answered later",
        tools: |hands| resumable(hands, order),
        play: |client| {
            let id = client.call("tool");
            client.asked(&id);
            client.pass(Duration::from_secs(5));
            answer_twice(client, &id)
        },
        comes_to: r#""text":"shipped""#,
        or_else: &[],
        effects: &[("charge", Often::AtLeastOnce), ("ship", Often::AtLeastOnce)],
    };
    explore(&SCENARIO);
}

#[test]
fn k12_a_question_that_is_answered_after_thirty_days_without_a_process() {
    static SCENARIO: Scenario = Scenario {
        name: "k12 a question, answered after thirty days",
        tools: |hands| resumable(hands, order),
        play: |client| {
            let id = client.call("tool");
            client.asked(&id);
            client.pass(Duration::from_secs(4));
            client.switch_off(Duration::from_secs(30 * 24 * 3600));
            answer_twice(client, &id)
        },
        comes_to: r#""text":"shipped""#,
        or_else: &[],
        effects: &[("charge", Often::AtLeastOnce), ("ship", Often::AtLeastOnce)],
    };
    explore(&SCENARIO);
}

#[test]
fn k13_a_no_is_an_answer() {
    static SCENARIO: Scenario = Scenario {
        name: "k13 a question, declined",
        tools: |hands| resumable(hands, order),
        play: |client| {
            let id = client.call("tool");
            let asked = client.asked(&id);
            let question = asked.get(SHIP).cloned().unwrap_or_default();
            client.answer(&id, &question, &json!({"action": "decline"}));
            client.end(&id)
        },
        comes_to: r#""text":"kept""#,
        or_else: &[],
        effects: &[("charge", Often::AtLeastOnce), ("ship", Often::Never)],
    };
    explore(&SCENARIO);
}

async fn impatient(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    let answer = cx.elicit::<Approve>(SHIP).within(Duration::from_secs(20)).await;
    let said = match &answer {
        Ok(_) => "an answer came",
        Err(AskError::TimedOut { .. }) => "no answer came",
        Err(_) => "it could not be asked",
    };
    hands.told("the answer", said).await;
    effect(&hands, &cx, "after it").await?;
    Ok(said.to_owned())
}

#[test]
fn k11_k12_a_question_whose_time_is_up() {
    static SCENARIO: Scenario = Scenario {
        name: "k11_k12 a question whose time is up",
        tools: |hands| resumable(hands, impatient),
        play: |client| {
            let id = client.call("tool");
            client.end(&id)
        },
        comes_to: r#""text":"no answer came""#,
        or_else: &[],
        effects: &[("after it", Often::AtLeastOnce)],
    };
    explore(&SCENARIO);
}

#[test]
fn k13_k14_a_question_that_is_answered_in_time() {
    static SCENARIO: Scenario = Scenario {
        name: "k13_k14 a question, answered in time",
        tools: |hands| resumable(hands, impatient),
        play: |client| {
            let id = client.call("tool");
            client.pass(Duration::from_secs(6));
            client.accept(&id, SHIP, &json!({"go": true}));
            client.end(&id)
        },
        comes_to: r#""text":"an answer came""#,
        or_else: &[],
        effects: &[("after it", Often::AtLeastOnce)],
    };
    explore(&SCENARIO);
}

async fn two_together(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    let (one, two) = (cx.elicit::<Approve>("One?").key("one"), cx.elicit::<Approve>("Two?").key("two"));
    let (one, two) = tokio::join!(one, two);
    hands.told("the answers", format!("{one:?} {two:?}")).await;
    effect(&hands, &cx, "after both").await?;
    Ok(format!("{} {}", one?.accepted().is_some(), two?.accepted().is_some()))
}

#[test]
fn k15_between_the_answers_to_two_questions() {
    static SCENARIO: Scenario = Scenario {
        name: "k15 two questions at once",
        tools: |hands| resumable(hands, two_together),
        play: |client| {
            let id = client.call("tool");
            client.accept(&id, "Two?", &json!({"go": true}));
            client.pass(Duration::from_secs(4));
            client.accept(&id, "One?", &json!({"go": false}));
            client.end(&id)
        },
        comes_to: r#""text":"true true""#,
        or_else: &[],
        effects: &[("after both", Often::AtLeastOnce)],
    };
    explore(&SCENARIO);
}

pub(super) async fn two_in_a_row(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    for (question, effect_of) in [("One?", "one"), ("Two?", "two")] {
        let answer = cx.elicit::<Approve>(question).await?;
        hands.told(question, format!("{answer:?}")).await;
        effect(&hands, &cx, effect_of).await?;
    }
    Ok("both".to_owned())
}

#[test]
fn k11_k14_k15_two_questions_in_a_row() {
    static SCENARIO: Scenario = Scenario {
        name: "k11_k14_k15 two questions in a row",
        tools: |hands| resumable(hands, two_in_a_row),
        play: |client| {
            let id = client.call("tool");
            client.accept(&id, "One?", &json!({"go": true}));
            client.follow(&id, |task| task.to_string().contains("Two?"));
            client.pass(Duration::from_secs(4));
            client.accept(&id, "Two?", &json!({"go": true}));
            client.end(&id)
        },
        comes_to: r#""text":"both""#,
        or_else: &[],
        effects: &[("one", Often::AtLeastOnce), ("two", Often::AtLeastOnce)],
    };
    explore(&SCENARIO);
}

#[test]
fn k10_k11_k13_k14_questions_of_a_call_whose_caller_takes_no_tasks() {
    static SCENARIO: Scenario = Scenario {
        name: "k10_k11_k13_k14 questions in rounds of a held call",
        tools: |hands| resumable(hands, two_in_a_row),
        play: |client| {
            let answer = client.held("tool", &json!({"go": true}));
            json!([answer["result"]["content"], answer["error"]])
        },
        comes_to: r#""text":"both""#,
        or_else: &[],
        effects: &[("one", Often::AtLeastOnce), ("two", Often::AtLeastOnce)],
    };
    explore(&SCENARIO);
}

/// Of a call that is no task the first effect spends the state that was brought: what was had of it nobody has again.
async fn two_and_no_task(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    for (question, effect_of) in [("One?", "one"), ("Two?", "two")] {
        let answer = cx.elicit::<Approve>(question).await?;
        hands.told(question, format!("{answer:?}")).await;
        cx.step(effect_of, || async { Ok::<_, ToolError>(hands.effect(effect_of, NO_KEY).await) }).await?;
    }
    Ok("both".to_owned())
}

#[test]
fn k06_k13_a_state_that_was_spent_is_spent_for_every_process() {
    static SCENARIO: Scenario = Scenario {
        name: "k06_k13 rounds of a call that is no task",
        tools: |hands| {
            let mut policy = TaskPolicy::new(TaskMode::Never);
            policy.rerun = Rerun::Resumable;
            vec![tool(hands, "tool", Rerun::Resumable, two_and_no_task).task(policy)]
        },
        play: |client| {
            let answer = client.waited_for("tool", &json!({"go": true}));
            json!([answer["result"]["content"], answer["error"]["data"]])
        },
        comes_to: r#""text":"both""#,
        or_else: &["worker_lost"],
        effects: &[("one", Often::AtMostOnce), ("two", Often::AtMostOnce)],
    };
    explore(&SCENARIO);
}
