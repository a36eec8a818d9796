//! Answering what a call or a task asks: each question once, whatever is seen of it again.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul_proto::jsonrpc::ObjectWriter;
use longhaul_proto::model::InputRequest;
use serde_json::value::RawValue;

use super::Client;

/// The questions of one task that were answered.
#[derive(Debug, Default)]
pub(super) struct Answered(Mutex<HashSet<String>>);

impl Answered {
    /// Those of the questions that were not answered yet.
    pub(super) fn news<'q>(
        &self,
        questions: impl IntoIterator<Item = (&'q str, &'q RawValue)>,
    ) -> Vec<(&'q str, &'q RawValue)> {
        let known = self.lock();
        questions.into_iter().filter(|(key, _)| !known.contains(*key)).collect()
    }

    /// These are: nobody is asked them again.
    pub(super) fn note<'q>(&self, questions: &[(&'q str, &'q RawValue)]) {
        self.lock().extend(questions.iter().map(|(key, _)| (*key).to_owned()));
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// What the application says to these questions, as the object of `inputResponses`; `None` if it does not answer one
    /// of them. One is put after the other: there is one user.
    pub(super) async fn answers_to(&self, questions: &[(&str, &RawValue)]) -> Option<String> {
        let mut responses = Vec::new();
        for (key, question) in questions {
            let answer = match InputRequest::read(question) {
                Ok(question) => self.options().answers.answer(question).await,
                Err(error) => {
                    tracing::warn!(%error, key, "a question of the server cannot be read");
                    return None;
                }
            };
            match answer {
                Ok(answer) => responses.push((*key, answer)),
                Err(error) => {
                    tracing::warn!(%error, key, "a question of the server is not answered");
                    return None;
                }
            }
        }
        let mut text = Vec::new();
        let mut object = ObjectWriter::new(&mut text);
        for (key, answer) in &responses {
            object.raw(key, answer.get());
        }
        object.end();
        String::from_utf8(text).ok()
    }
}
