//! Three people on connections of their own; the server is killed while one of them thinks, and once the last has answered.

use longhaul::Client;
use longhaul::client::{Options, TaskHandle};
use longhaul::proto::model::ElicitResult;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use crate::served::{Served, begin, ends_with, until};

/// A client that can be asked, and whose person sees what is asked rather than a program.
async fn connect(server: &Served) -> Client {
    server
        .connect_with(Options::default().on_form(|form| async move { panic!("asked {}", form.message) }))
        .await
}

/// The question that is open, by its key.
async fn question(order: &TaskHandle) -> (String, String) {
    let seen = until(order, async |task| !task.questions.is_empty()).await;
    let [(key, question)] = &seen.questions[..] else { panic!("{:?}", seen.questions) };
    let question: Value = serde_json::from_str(question.get()).unwrap();
    (key.clone(), question["params"]["message"].as_str().unwrap().to_owned())
}

fn decision(approve: bool) -> ElicitResult {
    ElicitResult::accepted(to_raw_value(&json!({"approve": approve})).unwrap())
}

#[tokio::test]
async fn each_is_asked_once_and_what_all_approve_is_ordered_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Served::start("approval-chain", folder.path()).await;
    let buyer = connect(&server).await;
    let order = begin(&buyer, "buy", json!({"item": "a lathe", "price": 9000})).await;
    let lines = |file: &str| {
        let text = std::fs::read_to_string(folder.path().join(file)).unwrap_or_default();
        text.lines().map(|line| line.split(" [").next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let mut asked = Vec::new();
    for person in ["team_lead", "finance", "director"] {
        let (key, question) = question(&connect(&server).await.task(order.id())).await;
        asked.push(format!("To the {person}: may we buy a lathe for 9000?"));
        assert_eq!(Some(&question), asked.last(), "whoever has answered is not asked again");
        assert_eq!(lines("mail"), asked);
        if person == "finance" {
            server.kill_and_restart().await;
        }

        let theirs = connect(&server).await.task(order.id());
        assert_eq!(self::question(&theirs).await, (key.clone(), question), "the same question");
        assert_eq!(lines("orders"), [""; 0], "before all have approved");
        theirs.answer([(key, decision(true))]).await.unwrap();
    }
    // The director was told that the answer is there: that outlives the server.
    server.kill_and_restart().await;
    assert_eq!(ends_with(&order).await, "a lathe is ordered");
    assert_eq!((lines("mail"), lines("orders")), (asked, vec!["a lathe".to_owned()]));
}

#[tokio::test]
async fn who_does_not_approve_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Served::start("approval-chain", folder.path()).await;
    let order = begin(&connect(&server).await, "buy", json!({"item": "a yacht", "price": 900_000})).await;
    let (key, _) = question(&order).await;
    order.answer([(key, decision(false))]).await.unwrap();
    server.kill_and_restart().await;
    assert_eq!(ends_with(&order).await, "the team_lead does not approve of a yacht");
    assert!(!folder.path().join("orders").exists());
}
