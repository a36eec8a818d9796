//! Parts: what is given before the end is given once, and what was read of it stays.

use longhaul::Cx;
use longhaul::server::{Json, ToolError};
use serde_json::{Value, json};

use super::{effect, resumable};
use crate::client::Client;
use crate::explore::{Often, Scenario, explore};
use crate::world::Hands;

async fn giving(hands: Hands, cx: Cx) -> Result<String, ToolError> {
    cx.emit("begun").await?;
    let key = cx.effect_key("search");
    cx.step("search", || async {
        cx.emit("searching").await?;
        let times = hands.effect("search", &key).await;
        // Another one each time: the first that was given stays.
        cx.emit(Json(json!({ "times": times }))).await?;
        Ok::<_, ToolError>(times)
    })
    .await?;
    let mut round = cx.checkpointed(0_usize).await;
    while *round < 2 {
        cx.emit(format!("round {}", *round)).await?;
        effect(&hands, &cx, LOOKS[*round]).await?;
        *round += 1;
        round.save().await?;
    }
    effect(&hands, &cx, "end").await?;
    cx.emit("all").await?;
    Ok("done".to_owned())
}

const LOOKS: [&str; 2] = ["look 0", "look 1"];

/// The parts of a task so far.
fn parts(client: &mut Client, id: &str) -> Vec<Value> {
    let read = client.ask("resources/read", &json!({"uri": format!("longhaul://tasks/{id}/parts")}));
    let contents = read["result"]["contents"].as_array().cloned().unwrap_or_default();
    contents.iter().map(|part| part["text"].clone()).filter(|text| text != "").collect()
}

#[test]
fn k05_k06_k07_a_part_is_given_once_and_stays() {
    static SCENARIO: Scenario = Scenario {
        name: "k05_k06_k07 parts of a result",
        tools: |hands| resumable(hands, giving),
        play: |client| {
            let id = client.call("tool");
            let early = parts(client, &id);
            let end = client.end(&id);
            let all = parts(client, &id);
            if !all.starts_with(&early) {
                client.complain(format!("I4: parts that were read, {early:?}, became {all:?}"));
            }
            json!([all, end["status"]])
        },
        comes_to: r#"[["begun","searching","{\"times\":1}","round 0","round 1","all"],"completed"]"#,
        // The number is given when the effect was had again before it, after one crash or two.
        or_else: &[
            r#"[["begun","searching","{\"times\":2}","round 0","round 1","all"],"completed"]"#,
            r#"[["begun","searching","{\"times\":3}","round 0","round 1","all"],"completed"]"#,
        ],
        effects: &[
            ("search", Often::AtLeastOnce),
            (LOOKS[0], Often::AtLeastOnce),
            (LOOKS[1], Often::AtLeastOnce),
            ("end", Often::AtLeastOnce),
        ],
    };
    explore(&SCENARIO);
}
