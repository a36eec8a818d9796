//! What a journal keeps of calls to servers that do not know keys, and of calls that have a name.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use longhaul::client::{CallOptions, Client, Error, FileJournal, Journal, Options, Recovered};
use longhaul::proto::model::{CallToolResult, ElicitResult};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::peer::{self, Peer};

struct Life {
    client: Client,
    peer: Peer,
    journal: FileJournal,
    asked: Arc<Mutex<Vec<String>>>,
}

/// A process with the journal at `path`.
async fn live(path: &Path) -> Life {
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let (journal, forms) = (FileJournal::open(path).unwrap(), Arc::clone(&asked));
    let options = Options::default().journal(journal.clone()).on_form(move |form| {
        forms.lock().unwrap().push(form.message);
        let content = serde_json::value::to_raw_value(&json!({ "go": true })).unwrap();
        async move { ElicitResult::accepted(content) }
    });
    let (client, peer) = peer::modern(options).await;
    Life { client, peer, journal, asked }
}

/// The journal as a process leaves it that is killed now.
fn killed(path: &Path, name: &str) -> PathBuf {
    let left = path.with_file_name(name);
    std::fs::copy(path, &left).unwrap();
    left
}

fn call(client: &Client, named: Option<&str>, n: u32) -> JoinHandle<Result<CallToolResult, Error>> {
    let (client, options) = (client.clone(), CallOptions::default());
    let options = named.map_or_else(|| options.clone(), |name| options.clone().name(name));
    tokio::spawn(async move { client.call_with("build", &json!({ "n": n }), options).await })
}

fn recover(client: &Client) -> JoinHandle<Vec<Recovered>> {
    let client = client.clone();
    tokio::spawn(async move { client.recover().await.unwrap() })
}

fn built() -> Value {
    json!({ "content": [{ "type": "text", "text": "built" }], "resultType": "complete" })
}

async fn list(peer: &mut Peer, hints: Value) {
    let list = peer.expect("tools/list").await;
    let tool = json!({ "name": "build", "inputSchema": { "type": "object" }, "annotations": hints });
    peer.answer(
        &list,
        json!({ "tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "private" }),
    )
    .await;
}

#[tokio::test]
async fn a_call_that_may_have_been_done_is_made_again_only_where_that_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mut first = live(&path).await;
    let calling = call(&first.client, None, 1);
    let sent = first.peer.expect("tools/call").await;
    let key = sent["params"]["_meta"]["dev.longhaul/idempotencyKey"].as_str().unwrap();
    assert!(key.len() >= 22, "nobody can guess {key}");
    let (one, other) = (killed(&path, "one"), killed(&path, "other"));
    // Its own future is dropped: the call is cancelled, and nobody will ask for it.
    calling.abort();
    let mut is_forgotten = false;
    while !is_forgotten {
        is_forgotten = Journal::open(&first.journal).await.unwrap().is_empty();
        tokio::task::yield_now().await;
    }

    let mut second = live(&one).await;
    let recovering = recover(&second.client);
    list(&mut second.peer, json!({ "destructiveHint": true })).await;
    let recovered = recovering.await.unwrap();
    assert_eq!((recovered.len(), recovered[0].arguments.get()), (1, r#"{"n":1}"#));
    assert!(matches!(&recovered[0].outcome, Err(Error::Unsettled { tool, .. }) if tool == "build"));
    assert!(recover(&second.client).await.unwrap().is_empty(), "it is told once");

    let mut third = live(&other).await;
    let recovering = recover(&third.client);
    list(&mut third.peer, json!({ "idempotentHint": true })).await;
    let again = third.peer.expect("tools/call").await;
    assert_eq!(again["params"]["_meta"]["dev.longhaul/idempotencyKey"], key);
    assert_eq!(again["params"]["arguments"], json!({ "n": 1 }));
    third.peer.answer(&again, built()).await;
    let recovered = recovering.await.unwrap();
    assert_eq!(recovered[0].outcome.as_ref().unwrap().content[0].as_text(), Some("built"));
    assert!(Journal::open(&third.journal).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_was_answered_in_a_round_is_told_again_and_not_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let asks = |message: &str| {
        let schema = json!({ "type": "object", "properties": { "go": { "type": "boolean" } } });
        let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
        let question = json!({ "method": "elicitation/create", "params": params });
        json!({ "resultType": "input_required", "requestState": "s", "inputRequests": { "q": question } })
    };
    let mut first = live(&path).await;
    let calling = call(&first.client, None, 1);
    let sent = first.peer.expect("tools/call").await;
    first.peer.answer(&sent, asks("Go?")).await;
    let answered = first.peer.expect("tools/call").await;
    let left = killed(&path, "left");
    calling.abort();

    let mut second = live(&left).await;
    let recovering = recover(&second.client);
    list(&mut second.peer, json!({ "readOnlyHint": true })).await;
    let anew = second.peer.expect("tools/call").await;
    assert_eq!(anew["params"].get("inputResponses"), None);
    second.peer.answer(&anew, asks("Go?")).await;
    let again = second.peer.expect("tools/call").await;
    assert_eq!(again["params"]["inputResponses"], answered["params"]["inputResponses"]);
    second.peer.answer(&again, asks("Sure?")).await;
    let other = second.peer.expect("tools/call").await;
    second.peer.answer(&other, built()).await;
    recovering.await.unwrap()[0].outcome.as_ref().unwrap();
    assert_eq!(*second.asked.lock().unwrap(), ["Sure?"], "the same key, and another question");
}

#[tokio::test]
async fn a_call_that_has_a_name_is_made_once_until_it_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mut life = live(&path).await;
    let calling = call(&life.client, Some("mine"), 1);
    let sent = life.peer.expect("tools/call").await;
    let meanwhile = call(&life.client, Some("mine"), 1).await.unwrap().unwrap_err();
    assert!(meanwhile.to_string().contains("under way"), "{meanwhile}");
    life.peer.answer(&sent, built()).await;
    let result = calling.await.unwrap().unwrap();
    drop(life);

    let again = tokio::time::timeout(std::time::Duration::from_secs(60), async {
        // The journal is let go of once the first client is.
        while FileJournal::open(&path).is_err() {
            tokio::task::yield_now().await;
        }
        live(&path).await
    });
    let mut life = again.await.unwrap();
    let given = call(&life.client, Some("mine"), 1).await.unwrap().unwrap();
    assert_eq!(given.content[0].as_text(), result.content[0].as_text(), "nobody was asked for it");
    let other = call(&life.client, Some("mine"), 2).await.unwrap().unwrap_err();
    assert!(matches!(&other, Error::Arguments { reason, .. } if reason.contains("another call")), "{other}");
    let recovered = recover(&life.client).await.unwrap();
    assert_eq!(recovered[0].name.as_deref(), Some("mine"));
    life.client.forget("mine").await.unwrap();
    assert!(recover(&life.client).await.unwrap().is_empty());
    let calling = call(&life.client, Some("mine"), 2);
    let sent = life.peer.expect("tools/call").await;
    life.peer.answer(&sent, built()).await;
    calling.await.unwrap().unwrap();
}
