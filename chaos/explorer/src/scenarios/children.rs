//! Tasks that a task makes: one each, whatever crashes, and none that goes on for nobody.

use std::time::Duration;

use longhaul::server::{ChildError, ToolError};
use longhaul::store::Rerun;
use longhaul::{Cx, Tool};
use serde_json::json;

use super::{effect, tool};
use crate::explore::{Often, Scenario, explore};
use crate::world::{Hands, NO_KEY};

/// The parent, and tools for its children.
pub(super) fn family<F>(hands: &Hands, body: impl Fn(Hands, Cx) -> F + Send + Sync + 'static) -> Vec<Tool>
where
    F: Future<Output = Result<String, ToolError>> + Send + 'static,
{
    let one = tool(hands, "one", Rerun::Resumable, |hands, cx| async move {
        effect(&hands, &cx, "one").await?;
        Ok("1".to_owned())
    });
    let two = tool(hands, "two", Rerun::Resumable, |hands, cx| async move {
        cx.sleep(Duration::from_secs(10)).await;
        effect(&hands, &cx, "two").await?;
        Ok("2".to_owned())
    });
    let long = tool(hands, "long", Rerun::Resumable, |hands, cx| async move {
        cx.sleep(Duration::from_secs(3600)).await;
        effect(&hands, &cx, "long").await?;
        Ok("3".to_owned())
    });
    vec![tool(hands, "tool", Rerun::Resumable, body), one, two, long]
}

pub(super) async fn joining(hands: Hands, cx: Cx, second: &'static str) -> Result<String, ToolError> {
    effect(&hands, &cx, "before").await?;
    let children = [cx.spawn("one", json!({})).await?, cx.spawn(second, json!({})).await?];
    hands.told("who they are", format!("{} {}", children[0].id(), children[1].id())).await;
    let ends = cx.join_all(&children).await;
    let said: Vec<_> = ends.iter().flatten().filter_map(|end| end.content[0].as_text()).collect();
    hands.told("what they came to", said.join(" and ")).await;
    effect(&hands, &cx, "after").await?;
    Ok(said.join(" and "))
}

#[test]
fn k21_children_are_made_once_and_joined() {
    static SCENARIO: Scenario = Scenario {
        name: "k21 children are joined",
        tools: |hands| family(hands, |hands, cx| joining(hands, cx, "two")),
        play: |client| {
            let id = client.call("tool");
            let end = client.end(&id);
            client.made(2);
            end
        },
        comes_to: r#""text":"1 and 2""#,
        or_else: &[],
        effects: &[
            ("before", Often::AtLeastOnce),
            ("one", Often::AtLeastOnce),
            ("two", Often::AtLeastOnce),
            ("after", Often::AtLeastOnce),
        ],
    };
    explore(&SCENARIO);
}

async fn racing(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    let children = [
        cx.spawn("two", json!({})).await?,
        cx.spawn("two", json!({})).await?,
        cx.spawn("one", json!({})).await?,
    ];
    let Some((first, _)) = cx.race(&children).await else { return Err(ToolError::new("nobody")) };
    hands.told("who was first", first).await;
    for (at, child) in children.iter().enumerate().filter(|(at, _)| *at != first) {
        let is_cancelled = matches!(child.join().await, Err(ChildError::Cancelled { .. }));
        hands.told(&format!("whether {at} was cancelled"), is_cancelled).await;
    }
    effect(&hands, &cx, "after").await?;
    Ok("raced".to_owned())
}

#[test]
fn k21_a_race_has_one_winner() {
    static SCENARIO: Scenario = Scenario {
        name: "k21 children race",
        tools: |hands| family(hands, racing),
        play: |client| {
            let id = client.call("tool");
            let end = client.end(&id);
            client.made(3);
            end
        },
        comes_to: r#""text":"raced""#,
        or_else: &[],
        effects: &[("one", Often::AtLeastOnce), ("after", Often::AtLeastOnce)],
    };
    explore(&SCENARIO);
}

#[test]
fn k21_children_are_cancelled_with_their_parent() {
    static SCENARIO: Scenario = Scenario {
        name: "k21 children are cancelled",
        tools: |hands| family(hands, |hands, cx| joining(hands, cx, "long")),
        play: |client| {
            let id = client.call("tool");
            client.pass(Duration::from_secs(5));
            client.cancel(&id);
            client.pass(Duration::from_secs(15));
            client.end(&id)
        },
        comes_to: r#""status":"cancelled""#,
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

async fn with_one_that_is_never_run_twice(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    let child = cx.spawn("once", json!({})).await?;
    let came = match child.join().await {
        Ok(_) => "done",
        Err(ChildError::Lost { .. }) => "lost",
        Err(_) => "otherwise",
    };
    hands.told("what it came to", came).await;
    Ok(came.to_owned())
}

#[test]
fn k21_k08_a_child_that_is_never_run_twice_is_lost_with_its_process() {
    static SCENARIO: Scenario = Scenario {
        name: "k21_k08 a child is lost",
        tools: |hands| {
            let once = tool(hands, "once", Rerun::Never, |hands, cx| async move {
                cx.step("work", || async {
                    hands.effect("work", NO_KEY).await;
                    tokio::time::sleep(Duration::from_secs(3)).await;
                    Ok::<_, ToolError>(())
                })
                .await?;
                Ok("done".to_owned())
            });
            vec![tool(hands, "tool", Rerun::Resumable, with_one_that_is_never_run_twice), once]
        },
        play: |client| {
            let id = client.call("tool");
            let end = client.end(&id);
            client.made(1);
            end
        },
        comes_to: r#""text":"done""#,
        or_else: &[r#""text":"lost""#],
        effects: &[("work", Often::AtMostOnce)],
    };
    explore(&SCENARIO);
}
