//! Undoing: a task that has ended without success, and what it did.

use std::time::Duration;

use longhaul::Cx;
use longhaul::server::ToolError;

use super::resumable;
use crate::client::Client;
use crate::explore::{Often, Scenario, explore};
use crate::world::Hands;

/// Has an effect in a step, and another when that is undone, which takes half a second.
async fn undoable(
    hands: &Hands,
    cx: &Cx,
    name: &'static str,
    undoes: &'static str,
) -> Result<usize, ToolError> {
    let (key, undoing) = (cx.effect_key(name), hands.clone());
    let undo = move |_: usize, key: String| {
        let hands = undoing.clone();
        async move {
            hands.effect(undoes, &key).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            Ok::<_, ToolError>(())
        }
    };
    cx.step(name, || async { Ok::<_, ToolError>(hands.effect(name, &key).await) }).compensate(undo).await
}

async fn failing(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    undoable(&hands, &cx, "charge", "refund").await?;
    undoable(&hands, &cx, "ship", "fetch back").await?;
    Err(ToolError::new("broke"))
}

/// What a task comes to, once nothing of it is owed any more.
pub(super) fn end_and_undo(client: &mut Client, id: &str) -> serde_json::Value {
    let end = client.end(id);
    client.pass(UNDONE_BY);
    end
}

/// By then it is, also when two processes have crashed meanwhile.
const UNDONE_BY: Duration = Duration::from_secs(12);

const EFFECTS: &[(&str, Often)] = &[
    ("charge", Often::AtLeastOnce),
    ("ship", Often::AtLeastOnce),
    ("refund", Often::AtLeastOnce),
    ("fetch back", Often::AtLeastOnce),
];

#[test]
fn k19_what_has_failed_is_undone() {
    static SCENARIO: Scenario = Scenario {
        name: "k19 what has failed is undone",
        tools: |hands| resumable(hands, failing),
        play: |client| {
            let id = client.call("tool");
            end_and_undo(client, &id)
        },
        comes_to: "broke",
        or_else: &[],
        effects: EFFECTS,
    };
    explore(&SCENARIO);
}

#[test]
fn k19_k27_servers_that_stop_in_order_undo_it_between_them() {
    static SCENARIO: Scenario = Scenario {
        name: "k19 k27 servers that stop in order undo it",
        tools: |hands| resumable(hands, failing),
        play: |client| {
            let id = client.call("tool");
            let end = client.end(&id);
            client.pass(Duration::from_secs(1));
            client.drain();
            client.pass(UNDONE_BY);
            end
        },
        comes_to: "broke",
        or_else: &[],
        effects: EFFECTS,
    };
    explore(&SCENARIO);
}

pub(super) async fn long(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    undoable(&hands, &cx, "charge", "refund").await?;
    let key = cx.effect_key("ship");
    let ship = cx.step("ship", || async {
        hands.effect("ship", &key).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        Ok::<_, ToolError>(())
    });
    ship.await?;
    Ok("done".to_owned())
}

#[test]
fn k18_k19_what_is_cancelled_in_a_step_is_undone() {
    static SCENARIO: Scenario = Scenario {
        name: "k18 k19 what is cancelled in a step is undone",
        tools: |hands| resumable(hands, long),
        play: |client| {
            let id = client.call("tool");
            client.pass(Duration::from_secs(12));
            client.cancel(&id);
            end_and_undo(client, &id)
        },
        comes_to: r#""status":"cancelled""#,
        or_else: &[],
        effects: &[
            ("charge", Often::AtLeastOnce),
            ("ship", Often::AtLeastOnce),
            ("refund", Often::AtLeastOnce),
        ],
    };
    explore(&SCENARIO);
}
