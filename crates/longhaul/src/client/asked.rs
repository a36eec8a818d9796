//! Answering what a call or a task asks: each question once, whatever is seen of it again.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul_proto::jsonrpc::ObjectWriter;
use longhaul_proto::model::InputRequest;
use serde_json::value::RawValue;

use super::Client;

/// Answers by the keys of their questions.
pub(super) type Replies = BTreeMap<String, Box<RawValue>>;

/// The questions of one task that were answered.
#[derive(Debug, Default)]
pub(super) struct Answered(Mutex<BTreeMap<String, Said>>);

/// What was said to a question.
#[derive(Debug)]
enum Said {
    /// This, and the server may not have it yet.
    Now(Box<RawValue>),
    /// Something that the server has taken.
    Taken,
}

impl Answered {
    /// Those of the questions that nobody was asked yet.
    pub(super) fn news<'q>(
        &self,
        questions: impl IntoIterator<Item = (&'q str, &'q RawValue)>,
    ) -> Vec<(&'q str, &'q RawValue)> {
        let known = self.lock();
        questions.into_iter().filter(|(key, _)| !known.contains_key(*key)).collect()
    }

    /// This was said to that question: nobody is asked it again.
    pub(super) fn note(&self, key: &str, answer: &RawValue) {
        self.lock().insert(key.to_owned(), Said::Now(answer.to_owned()));
    }

    /// These were answered, however that was.
    pub(super) fn note_taken<'k>(&self, keys: impl IntoIterator<Item = &'k String>) {
        self.lock().extend(keys.into_iter().map(|key| (key.clone(), Said::Taken)));
    }

    /// What of the questions was answered, with answers that the server may not have.
    pub(super) fn due<'q>(&self, questions: impl IntoIterator<Item = &'q str>) -> Replies {
        let known = self.lock();
        let due = questions.into_iter().filter_map(|key| match known.get(key) {
            Some(Said::Now(answer)) => Some((key.to_owned(), answer.clone())),
            _ => None,
        });
        due.collect()
    }

    /// The keys of all that were answered.
    pub(super) fn keys(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Said>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// What the application says to a question; `None` if it does not answer it.
    pub(super) async fn answer_to(&self, key: &str, question: &RawValue) -> Option<Box<RawValue>> {
        let answer = match InputRequest::read(question) {
            Ok(question) => self.options().answers.answer(question.into(), self.0.table.pages()).await,
            Err(error) => {
                tracing::warn!(%error, key, "a question of the server cannot be read");
                return None;
            }
        };
        answer
            .inspect_err(|error| tracing::warn!(%error, key, "a question of the server is not answered"))
            .ok()
    }
}

/// Answers as the object of `inputResponses`.
pub(super) fn written(replies: &Replies) -> String {
    let mut text = Vec::new();
    let mut object = ObjectWriter::new(&mut text);
    for (key, answer) in replies {
        object.raw(key, answer.get());
    }
    object.end();
    String::from_utf8(text).expect("JSON is UTF-8")
}
