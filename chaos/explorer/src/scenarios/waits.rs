//! Waits: for a time, between two words about how far it is, and for another process.

use std::time::Duration;

use longhaul::Cx;
use longhaul::proto::model::Progress;
use longhaul::server::ToolError;

use super::{effect, resumable};
use crate::explore::{Often, Scenario, explore};
use crate::world::Hands;

async fn sleeping(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    effect(&hands, &cx, "before").await?;
    cx.sleep(Duration::from_secs(15)).await;
    effect(&hands, &cx, "between").await?;
    cx.sleep(Duration::from_secs(1)).await;
    effect(&hands, &cx, "after").await?;
    Ok("rested".to_owned())
}

#[test]
fn k04_k07_a_sleep_ends_when_it_was_to_end() {
    static SCENARIO: Scenario = Scenario {
        name: "k04_k07 a sleep",
        tools: |hands| resumable(hands, sleeping),
        play: |client| {
            let id = client.call("tool");
            client.end(&id)
        },
        comes_to: r#""text":"rested""#,
        or_else: &[],
        effects: &[
            ("before", Often::AtLeastOnce),
            ("between", Often::AtLeastOnce),
            ("after", Often::AtLeastOnce),
        ],
    };
    explore(&SCENARIO);
}

#[test]
fn k27_a_server_that_is_stopped_in_order_gives_back_what_it_holds() {
    static SCENARIO: Scenario = Scenario {
        name: "k27 a server is stopped in order",
        tools: |hands| resumable(hands, sleeping),
        play: |client| {
            let id = client.call("tool");
            client.drain();
            client.pass(Duration::from_secs(16));
            client.drain();
            client.end(&id)
        },
        comes_to: r#""text":"rested""#,
        or_else: &[],
        effects: &[
            ("before", Often::AtLeastOnce),
            ("between", Often::AtLeastOnce),
            ("after", Often::AtLeastOnce),
        ],
    };
    explore(&SCENARIO);
}

async fn counting(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    for shard in 0..4_u32 {
        cx.progress(Progress::new(f64::from(shard)).of(4.0)).await;
        cx.status(format!("shard {shard}"));
        let key = cx.effect_key(("shard", shard));
        let run = cx.step(("shard", shard), || async {
            hands.effect(&format!("shard {shard}"), &key).await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            Ok::<_, ToolError>(())
        });
        run.await?;
    }
    Ok("counted".to_owned())
}

#[test]
fn k06_k16_how_far_it_is_costs_nothing_that_was_recorded() {
    static SCENARIO: Scenario = Scenario {
        name: "k06_k16 progress",
        tools: |hands| resumable(hands, counting),
        play: |client| {
            let id = client.call("tool");
            client.end(&id)
        },
        comes_to: r#""text":"counted""#,
        or_else: &[],
        effects: &[
            ("shard 0", Often::AtLeastOnce),
            ("shard 1", Often::AtLeastOnce),
            ("shard 2", Often::AtLeastOnce),
            ("shard 3", Often::AtLeastOnce),
        ],
    };
    explore(&SCENARIO);
}
