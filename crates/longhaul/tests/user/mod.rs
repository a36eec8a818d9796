//! A user who is asked what a server asks as tasks, and the client between them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::client::{Client, Hosting, Options};
use longhaul::proto::jsonrpc::{Code, ErrorObject};
use longhaul::proto::model::{CreateMessageResult, ElicitResult};
use longhaul::store::{Filter, Json, Outcome, Scope, TaskStore};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::peer::{self, Peer};

/// A user who answers when they are let, and whether nobody waits for them any more.
#[derive(Default)]
pub(crate) struct User {
    pub(crate) answers: Notify,
    pub(crate) left: Arc<Notify>,
    /// What they were asked.
    pub(crate) asked: Mutex<Vec<String>>,
}

impl User {
    /// How often they were asked anything.
    pub(crate) fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

struct Leaves(Arc<Notify>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// A client that hosts what is asked so. It breaks where it is asked to panic.
pub(crate) fn hosting(hosting: Hosting) -> (Options, Arc<User>) {
    let user = Arc::new(User::default());
    let asked = Arc::clone(&user);
    let options = Options::default()
        .host_tasks(hosting)
        .on_form(move |form| {
            let user = Arc::clone(&asked);
            async move {
                let _leaves = Leaves(Arc::clone(&user.left));
                user.asked.lock().unwrap().push(form.message.clone());
                assert!(form.message != "Panic?", "the application is broken");
                user.answers.notified().await;
                ElicitResult::accepted(to_raw_value(&json!({ "go": true })).unwrap())
            }
        })
        .on_sample(|params| async move {
            match params.max_tokens {
                0 => Err(ErrorObject::new(Code(-1), "the user says no")),
                _ => Ok(CreateMessageResult::new("the model", "Forty-two.")),
            }
        });
    (options, user)
}

pub(crate) async fn connected(options: Options) -> (Client, Peer) {
    peer::legacy(options, json!({ "tools": {} })).await
}

/// The code of an answer that is an error.
pub(crate) fn code_of(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer}"))
}

/// How every task of a store has ended.
pub(crate) async fn outcomes(store: &impl TaskStore) -> Vec<Option<Outcome>> {
    let page = store.list(Scope::Operator, &Filter::all(), None, 10).await.unwrap();
    page.tasks.iter().map(|record| record.outcome().cloned()).collect()
}

/// Waits until the only task of a store has come to what the user says.
pub(crate) async fn is_answered(store: &impl TaskStore) {
    let said = Outcome::result(Json::parse(r#"{"action":"accept","content":{"go":true}}"#).unwrap(), false);
    let answered = async {
        while outcomes(store).await != [Some(said.clone())] {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), answered).await.unwrap();
}
