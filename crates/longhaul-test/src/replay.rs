//! Entering a handler again at every question, which must change nothing.

use std::future::Future;

use serde_json::{Value, json};

/// How a call went.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Went {
    /// What each round asked, by key.
    pub asked: Vec<Value>,
    /// The result, or the error.
    pub outcome: Value,
}

/// What made a call go one way and then another.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Astray {
    /// The same round, made twice, came to two things.
    #[error("round {round} came to {first}, and again to {second}")]
    #[non_exhaustive]
    Round {
        /// Which round, from 0.
        round: usize,
        /// What it came to first.
        first: Value,
        /// What it came to when it was made again.
        second: Value,
    },
    /// It asked and asked.
    #[error("after {rounds} rounds it still asks")]
    #[non_exhaustive]
    Endless {
        /// How many.
        rounds: usize,
    },
}

/// The most rounds a call may take.
const MAX_ROUNDS: usize = 64;

/// Makes a call of the modern era in rounds, each twice, so that the handler is entered again at every question, and
/// again from every question on. Its questions and its outcome must be the same each time.
///
/// `params` are those of a `tools/call` without `_meta`; `send` makes it one, sends it and gives the whole answer;
/// `answer` answers a question by its key.
///
/// # Errors
///
/// [`Astray`], for a handler that may not be entered again.
pub async fn replay_always<F: Future<Output = Value>>(
    params: &Value,
    mut send: impl FnMut(Value) -> F,
    mut answer: impl FnMut(&str, &Value) -> Value,
) -> Result<Went, Astray> {
    let (mut asked, mut next) = (Vec::new(), params.clone());
    for round in 0..MAX_ROUNDS {
        let (first, second) = (send(next.clone()).await, send(next).await);
        if told(&first) != told(&second) {
            return Err(Astray::Round { round, first: told(&first), second: told(&second) });
        }
        let Some(questions) = first["result"]["inputRequests"].as_object() else {
            return Ok(Went { asked, outcome: told(&first) });
        };
        let answers = questions.iter().map(|(key, question)| (key.clone(), answer(key, question)));
        next = params.clone();
        next["inputResponses"] = Value::Object(answers.collect());
        // Either state will do.
        next["requestState"] =
            if round % 2 == 0 { second } else { first.clone() }["result"]["requestState"].take();
        asked.push(first["result"]["inputRequests"].clone());
    }
    Err(Astray::Endless { rounds: MAX_ROUNDS })
}

/// What an answer says, without what is never the same twice.
fn told(answer: &Value) -> Value {
    let mut result = answer["result"].clone();
    if let Some(members) = result.as_object_mut() {
        members.remove("requestState");
        return result;
    }
    json!({"error": answer["error"]})
}
