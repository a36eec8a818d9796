//! A client whose model has an answer for each prompt. The server is killed while the model thinks about the second round.

use std::sync::{Arc, Mutex};

use longhaul::client::Options;
use longhaul::proto::model::{CreateMessageParams, CreateMessageResult};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::served::{Served, begin, ends_with, parts};

/// What the model says: where the notes end decides.
fn say(prompt: &CreateMessageParams) -> &'static str {
    let notes = prompt.messages[0].content[0].as_text().unwrap();
    match notes.matches("Round").count() {
        0 => "how whales sleep",
        1 => "half a brain awake",
        2 => "breathing while asleep",
        _ => "Whales sleep with half a brain.",
    }
}

#[tokio::test]
async fn no_round_is_sampled_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Served::start("deep-research", folder.path()).await;
    let (asked, thinks) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Semaphore::new(0)));
    let (goes_on, model) = (Arc::new(Semaphore::new(0)), (Arc::clone(&asked), Arc::clone(&thinks)));
    let wait = Arc::clone(&goes_on);
    let options = Options::default().on_sample(move |prompt| {
        let answer = say(&prompt);
        let (asked, thinks) = &model;
        let nth = {
            let mut asked = asked.lock().unwrap();
            asked.push(answer);
            asked.len()
        };
        let (thinks, wait) = (Arc::clone(thinks), Arc::clone(&wait));
        async move {
            if nth == 2 {
                thinks.add_permits(1);
                wait.acquire().await.unwrap().forget();
            }
            Ok(CreateMessageResult::new("a model", answer))
        }
    });
    let client = server.connect_with(options).await;
    let research = begin(&client, "research", json!({"topic": "whales"})).await;
    let id = research.id().to_owned();
    let report = tokio::spawn(async move { ends_with(&research).await });
    thinks.acquire().await.unwrap().forget();
    assert_eq!(parts(&client, &id, 0).await, ["there are many papers on how whales sleep"]);
    server.kill_and_restart().await;
    goes_on.add_permits(1);

    assert_eq!(report.await.unwrap(), "Whales sleep with half a brain.");
    let searches = ["how whales sleep", "half a brain awake", "breathing while asleep"];
    let all = [&searches[..], &["Whales sleep with half a brain."]].concat();
    assert_eq!(*asked.lock().unwrap(), all, "each prompt once");
    let searched = std::fs::read_to_string(folder.path().join("searches")).unwrap();
    assert_eq!(searched.lines().collect::<Vec<_>>(), searches, "each search once");
    assert_eq!(parts(&client, &id, 0).await.len(), 3);
}
