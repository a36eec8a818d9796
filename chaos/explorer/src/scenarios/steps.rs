//! Steps: each kind, and what becomes of its effect when a crash comes around it.

use std::time::Duration;

use longhaul::Cx;
use longhaul::server::ToolError;

use super::{effect, resumable};
use crate::explore::{Often, Scenario, explore};
use crate::world::{Hands, NO_KEY};

async fn at_least_once(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    effect(&hands, &cx, "first").await?;
    effect(&hands, &cx, "second").await?;
    Ok("done".to_owned())
}

#[test]
fn k01_k02_k03_k04_k05_k06_k07_k16_steps_are_done_at_least_once() {
    static SCENARIO: Scenario = Scenario {
        name: "k01_k02_k03_k04_k05_k06_k07_k16 steps at least once",
        tools: |hands| resumable(hands, at_least_once),
        play: |client| {
            let id = client.call("tool");
            client.end(&id)
        },
        comes_to: r#""text":"done""#,
        or_else: &[],
        effects: &[("first", Often::AtLeastOnce), ("second", Often::AtLeastOnce)],
    };
    explore(&SCENARIO);
}

async fn at_most_once(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    let key = cx.effect_key("charge");
    let charge = cx.step("charge", || async { Ok::<_, ToolError>(hands.effect("charge", &key).await) });
    let charged = charge.at_most_once().await;
    hands.told("whether it was charged", charged.is_ok()).await;
    Ok(charged.map_or("in doubt", |_| "charged").to_owned())
}

#[test]
fn k05_k06_a_step_is_done_at_most_once_and_is_in_doubt_otherwise() {
    static SCENARIO: Scenario = Scenario {
        name: "k05_k06 a step at most once",
        tools: |hands| resumable(hands, at_most_once),
        play: |client| {
            let id = client.call("tool");
            client.end(&id)
        },
        comes_to: r#""text":"charged""#,
        or_else: &[r#""text":"in doubt""#],
        effects: &[("charge", Often::AtMostOnce)],
    };
    explore(&SCENARIO);
}

async fn reconciled(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    let key = cx.effect_key("charge");
    let charge = cx.step("charge", || async { Ok::<_, ToolError>(hands.effect("charge", &key).await) });
    let asked = hands.clone();
    let times =
        charge.reconcile(|key| async move { Ok::<_, ToolError>(asked.had("charge", &key).await) }).await?;
    hands.told("charge", times).await;
    Ok(format!("charged {times} times"))
}

#[test]
fn k05_k06_a_step_that_is_asked_after_is_done_once() {
    static SCENARIO: Scenario = Scenario {
        name: "k05_k06 a step that is asked after",
        tools: |hands| resumable(hands, reconciled),
        play: |client| {
            let id = client.call("tool");
            client.end(&id)
        },
        comes_to: r#""text":"charged 1 times""#,
        or_else: &[],
        effects: &[("charge", Often::Once)],
    };
    explore(&SCENARIO);
}

async fn many(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    let resolved = hands.clone();
    let look = || async move { Ok::<_, ToolError>(resolved.effect("look", NO_KEY).await) };
    cx.step("look", look).pure().await?;
    for (shard, name) in SHARDS.into_iter().enumerate() {
        let key = cx.effect_key(("shard", shard));
        let run = || async { Ok::<_, ToolError>(hands.effect(name, &key).await) };
        let times = cx.step(("shard", shard), run).await?;
        hands.told(name, times).await;
    }
    Ok("all of them".to_owned())
}

const SHARDS: [&str; 8] =
    ["shard 0", "shard 1", "shard 2", "shard 3", "shard 4", "shard 5", "shard 6", "shard 7"];

#[test]
fn k05_k06_k07_of_many_steps_none_that_was_recorded_is_done_again() {
    static SCENARIO: Scenario = Scenario {
        name: "k05_k06_k07 many steps",
        tools: |hands| resumable(hands, many),
        play: |client| {
            let id = client.call("tool");
            client.end(&id)
        },
        comes_to: r#""text":"all of them""#,
        or_else: &[],
        effects: &[
            ("look", Often::AtLeastOnce),
            (SHARDS[0], Often::AtLeastOnce),
            (SHARDS[1], Often::AtLeastOnce),
            (SHARDS[2], Often::AtLeastOnce),
            (SHARDS[3], Often::AtLeastOnce),
            (SHARDS[4], Often::AtLeastOnce),
            (SHARDS[5], Often::AtLeastOnce),
            (SHARDS[6], Often::AtLeastOnce),
            (SHARDS[7], Often::AtLeastOnce),
        ],
    };
    explore(&SCENARIO);
}

async fn failing(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    let key = cx.effect_key("refused");
    let step = cx.step("refused", || async {
        let times = hands.effect("refused", &key).await;
        Err::<(), _>(ToolError::new(format!("refused the time number {times}")))
    });
    let refused = step.await.map_or_else(|error| format!("{error:?}"), |()| "granted".to_owned());
    hands.told("why it was refused", refused).await;
    effect(&hands, &cx, "instead").await?;
    Ok("something else was done".to_owned())
}

#[test]
fn k06_k07_what_a_step_failed_with_is_recorded_like_a_result() {
    static SCENARIO: Scenario = Scenario {
        name: "k06_k07 a step that fails",
        tools: |hands| resumable(hands, failing),
        play: |client| {
            let id = client.call("tool");
            client.end(&id)
        },
        comes_to: r#""text":"something else was done""#,
        or_else: &[],
        effects: &[("refused", Often::AtLeastOnce), ("instead", Often::AtLeastOnce)],
    };
    explore(&SCENARIO);
}

async fn looping(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    let mut state = cx.checkpointed(0_usize).await;
    while *state < 4 {
        let round = *state;
        let key = cx.effect_key("round");
        let run = || async { Ok::<_, ToolError>(hands.effect(SHARDS[round], &key).await) };
        let times = cx.step("round", run).await?;
        hands.told(SHARDS[round], times).await;
        *state += 1;
        state.save().await?;
    }
    Ok("four rounds".to_owned())
}

#[test]
fn k05_k06_k07_a_loop_with_a_checkpoint_makes_no_round_again_that_was_saved() {
    static SCENARIO: Scenario = Scenario {
        name: "k05_k06_k07 a loop with a checkpoint",
        tools: |hands| resumable(hands, looping),
        play: |client| {
            let id = client.call("tool");
            client.end(&id)
        },
        comes_to: r#""text":"four rounds""#,
        or_else: &[],
        effects: &[
            (SHARDS[0], Often::AtLeastOnce),
            (SHARDS[1], Often::AtLeastOnce),
            (SHARDS[2], Often::AtLeastOnce),
            (SHARDS[3], Often::AtLeastOnce),
        ],
    };
    explore(&SCENARIO);
}

async fn branch(hands: &Hands, cx: Cx, name: &'static str, takes: u64) -> Result<(), ToolError> {
    for half in 0..2 {
        let key = cx.effect_key("half");
        let run = || async {
            let times = hands.effect(&format!("{name} {half}"), &key).await;
            tokio::time::sleep(Duration::from_secs(takes)).await;
            Ok::<_, ToolError>(times)
        };
        let times = cx.step("half", run).await?;
        hands.told(&format!("{name} {half}"), times).await;
    }
    Ok(())
}

async fn branching(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    let (slow, fast) = (cx.scope("branch"), cx.scope("branch"));
    let (slow, fast) = tokio::join!(branch(&hands, slow, "slow", 3), branch(&hands, fast, "fast", 1));
    slow.and(fast)?;
    Ok("both branches".to_owned())
}

#[test]
fn k05_k06_k07_branches_that_run_together_find_their_own_steps() {
    static SCENARIO: Scenario = Scenario {
        name: "k05_k06_k07 branches",
        tools: |hands| resumable(hands, branching),
        play: |client| {
            let id = client.call("tool");
            client.end(&id)
        },
        comes_to: r#""text":"both branches""#,
        or_else: &[],
        effects: &[
            ("slow 0", Often::AtLeastOnce),
            ("slow 1", Often::AtLeastOnce),
            ("fast 0", Often::AtLeastOnce),
            ("fast 1", Often::AtLeastOnce),
        ],
    };
    explore(&SCENARIO);
}
