//! Ends: work that is cancelled, panics, may not or need not be done again, or takes its process along.

use std::time::Duration;

use longhaul::server::{CancelPolicy, TaskPolicy, ToolError};
use longhaul::store::Rerun;
use longhaul::{Cx, Tool};

use super::{Approve, Nothing, effect, resumable, tool};
use crate::explore::{Often, Scenario, explore};
use crate::world::{Hands, NO_KEY};

pub(super) async fn long(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    effect(&hands, &cx, "before").await?;
    let key = cx.effect_key("long");
    let step = cx.step("long", || async {
        hands.effect("long", &key).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        Ok::<_, ToolError>(())
    });
    step.await?;
    effect(&hands, &cx, "after").await?;
    Ok("done".to_owned())
}

#[test]
fn k18_cancelled_in_a_step() {
    static SCENARIO: Scenario = Scenario {
        name: "k18 cancelled in a step",
        tools: |hands| resumable(hands, long),
        play: |client| {
            let id = client.call("tool");
            client.pass(Duration::from_secs(12));
            client.cancel(&id);
            client.cancel(&id);
            client.end(&id)
        },
        comes_to: r#""status":"cancelled""#,
        or_else: &[],
        effects: &[("before", Often::AtLeastOnce), ("long", Often::AtLeastOnce), ("after", Often::Never)],
    };
    explore(&SCENARIO);
}

pub(super) async fn asking(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    let answer = cx.elicit::<Approve>("Go on?").await?;
    hands.told("the answer", format!("{answer:?}")).await;
    effect(&hands, &cx, "after").await?;
    Ok("done".to_owned())
}

#[test]
fn k18_cancelled_while_it_asks() {
    static SCENARIO: Scenario = Scenario {
        name: "k18 cancelled while it asks",
        tools: |hands| resumable(hands, asking),
        play: |client| {
            let id = client.call("tool");
            client.asked(&id);
            client.cancel(&id);
            client.end(&id)
        },
        comes_to: r#""status":"cancelled""#,
        or_else: &[],
        effects: &[("after", Often::Never)],
    };
    explore(&SCENARIO);
}

#[test]
fn k18_cancelled_when_it_was_put_aside() {
    static SCENARIO: Scenario = Scenario {
        name: "k18 cancelled when it was put aside",
        tools: |hands| resumable(hands, asking),
        play: |client| {
            let id = client.call("tool");
            client.asked(&id);
            client.pass(Duration::from_secs(5));
            client.cancel(&id);
            client.end(&id)
        },
        comes_to: r#""status":"cancelled""#,
        or_else: &[],
        effects: &[("after", Often::Never)],
    };
    explore(&SCENARIO);
}

async fn panicking(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    effect(&hands, &cx, "before").await?;
    // Not by a macro, whose words would be among those of the tests.
    std::panic::resume_unwind(Box::new("on purpose"))
}

#[test]
fn k25_a_tool_that_panics() {
    static SCENARIO: Scenario = Scenario {
        name: "k25 a tool that panics",
        tools: |hands| resumable(hands, panicking),
        play: |client| {
            let id = client.call("tool");
            client.end(&id)
        },
        comes_to: r#""status":"failed""#,
        or_else: &[],
        effects: &[("before", Often::AtLeastOnce)],
    };
    explore(&SCENARIO);
}

async fn plain(hands: Hands, _: Cx) -> Result<String, ToolError> {
    hands.effect("work", NO_KEY).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    hands.effect("rest of it", NO_KEY).await;
    Ok("done".to_owned())
}

#[test]
fn k09_a_tool_that_is_run_again_from_its_start() {
    static SCENARIO: Scenario = Scenario {
        name: "k09 a tool that is run again",
        tools: |hands| vec![tool(hands, "tool", Rerun::Restart, plain)],
        play: |client| {
            let id = client.call("tool");
            client.end(&id)
        },
        comes_to: r#""text":"done""#,
        or_else: &[],
        effects: &[("work", Often::AtLeastOnce), ("rest of it", Often::AtLeastOnce)],
    };
    explore(&SCENARIO);
}

#[test]
fn k08_a_tool_that_is_never_run_again() {
    static SCENARIO: Scenario = Scenario {
        name: "k08 a tool that is never run again",
        tools: |hands| vec![tool(hands, "tool", Rerun::Never, plain)],
        play: |client| {
            let id = client.call("tool");
            client.end(&id)
        },
        comes_to: r#""text":"done""#,
        or_else: &["worker_lost"],
        effects: &[("work", Often::AtMostOnce), ("rest of it", Often::AtMostOnce)],
    };
    explore(&SCENARIO);
}

async fn poisonous(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    effect(&hands, &cx, "before").await?;
    hands.crash().await;
    Ok("done".to_owned())
}

#[test]
fn k26_a_task_that_takes_every_process_along_is_given_up() {
    static SCENARIO: Scenario = Scenario {
        name: "k26 a task that takes every process along",
        tools: |hands| resumable(hands, poisonous),
        play: |client| {
            let id = client.call("tool");
            client.end(&id)
        },
        comes_to: "attempts_exhausted",
        or_else: &[],
        effects: &[("before", Often::AtLeastOnce)],
    };
    explore(&SCENARIO);
}

/// A tool whose work is asked to end, within so many seconds.
fn cooperative<F>(
    hands: &Hands,
    seconds: u64,
    body: impl Fn(Hands, Cx) -> F + Send + Sync + 'static,
) -> Vec<Tool>
where
    F: Future<Output = Result<String, ToolError>> + Send + 'static,
{
    let (hands, mut policy) = (hands.clone(), TaskPolicy::always());
    (policy.rerun, policy.cancel) =
        (Rerun::Resumable, CancelPolicy::Cooperative { grace: Duration::from_secs(seconds) });
    let work = move |cx, _: Nothing| body(hands.clone(), cx);
    vec![Tool::typed("tool", "A tool of the explorer's", work).task(policy)]
}

async fn heeds(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    effect(&hands, &cx, "before").await?;
    tokio::select! {
        answer = cx.elicit::<Approve>("Go on?") => {
            answer?;
            effect(&hands, &cx, "after").await?;
            Ok("done".to_owned())
        }
        () = cx.cancelled() => {
            effect(&hands, &cx, "clean up").await?;
            Ok("cleaned up".to_owned())
        }
    }
}

#[test]
fn k18_cancelled_while_it_asks_and_ends_as_it_sees_fit() {
    static SCENARIO: Scenario = Scenario {
        name: "k18 cancelled, and heeds it",
        tools: |hands| cooperative(hands, 1800, heeds),
        play: |client| {
            let id = client.call("tool");
            client.asked(&id);
            client.pass(Duration::from_secs(5));
            client.cancel(&id);
            client.end(&id)
        },
        comes_to: r#""text":"cleaned up""#,
        or_else: &[],
        effects: &[("before", Often::AtLeastOnce), ("clean up", Often::AtLeastOnce), ("after", Often::Never)],
    };
    explore(&SCENARIO);
}

#[test]
fn k18_cancelled_and_does_not_heed_it() {
    static SCENARIO: Scenario = Scenario {
        name: "k18 cancelled, and does not heed it",
        tools: |hands| cooperative(hands, 10, asking),
        play: |client| {
            let id = client.call("tool");
            client.asked(&id);
            client.cancel(&id);
            client.end(&id)
        },
        comes_to: r#""status":"cancelled""#,
        or_else: &[],
        effects: &[("after", Often::Never)],
    };
    explore(&SCENARIO);
}
