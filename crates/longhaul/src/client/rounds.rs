//! Requests that may ask before they answer: made again, with answers, until they are answered.
//!
//! (2026-07-28, Multi Round-Trip Requests. In 2025-11-25 an error may name pages that are to be visited before.)

use std::sync::Arc;

use longhaul_proto::dialect::{Asked, RequestWriter};
use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_proto::method::Method;
use longhaul_proto::model::ElicitAction;
use serde_json::value::RawValue;
use tokio::time::sleep;

use super::Client;
use super::asked::{Replies, written};
use super::error::Error;
use super::journal::{Page, name_of};
use super::pace::Pauses;

/// What the next round of a request brings, and how many there were.
pub(super) struct Rounds<'c> {
    client: &'c Client,
    times: u32,
    /// The answers to what was asked last, as the object of `inputResponses`, if anything was.
    answers: Option<String>,
    /// What the server gave to come back with them, unread.
    state: Option<String>,
    /// The pages that the user was asked to visit.
    visited: Vec<String>,
    /// They were not known to be done there when the request was last made.
    was_open: bool,
    pauses: Pauses,
    /// Where answers are noted.
    page: Option<&'c Arc<Page>>,
}

impl<'c> Rounds<'c> {
    pub(super) fn new(client: &'c Client, page: Option<&'c Arc<Page>>) -> Self {
        let (visited, pauses) = (Vec::new(), Pauses::new());
        Self { client, times: 0, answers: None, state: None, visited, was_open: false, pauses, page }
    }

    /// Writes what this round brings.
    pub(super) fn write(&self, params: &mut RequestWriter<'_, '_>) {
        if let Some(answers) = &self.answers {
            params.raw("inputResponses", answers);
        }
        params.optional("requestState", self.state.as_ref());
    }

    /// Answers what the server asks: the request is then to be made again. A server that asks nothing wants to be asked
    /// later, and later still each time.
    ///
    /// # Errors
    ///
    /// When the application answers no such question, or the server has asked too often.
    pub(super) async fn answer(&mut self, asked: Asked) -> Result<(), Error> {
        let options = self.client.options();
        if !asked.questions.is_empty() && options.answers.is_empty() {
            return Err(Error::InputRequired { task: None });
        }
        self.again()?;
        if asked.questions.is_empty() {
            sleep(self.pauses.next(None)).await;
            self.answers = None;
        } else {
            self.pauses = Pauses::new();
            let mut replies = Replies::new();
            // One is put after the other: there is one user.
            for (key, question) in &asked.questions {
                let answer = self.answer_one(key, question).await?;
                replies.insert(key.clone(), answer);
            }
            self.answers = Some(written(&replies));
        }
        self.state = asked.state;
        Ok(())
    }

    /// The answer to one question. A call that is made anew after a crash may ask it anew.
    async fn answer_one(&self, key: &str, question: &RawValue) -> Result<Box<RawValue>, Error> {
        let answering =
            async { self.client.answer_to(key, question).await.ok_or(Error::InputRequired { task: None }) };
        match self.page {
            Some(page) => page.answer_once(&name_of(key, question.get()), answering, |error| error).await,
            None => answering.await,
        }
    }

    /// Has the user visit the pages without which the request is refused: it is then to be made again. Those that they were
    /// sent to before are waited for, for a while.
    ///
    /// # Errors
    ///
    /// The error itself, if it is another or the user does not go there; and when the server has refused too often.
    pub(super) async fn visit(&mut self, error: ErrorObject) -> Result<(), Error> {
        let Some(pages) = self.client.dialect().read_pages(&error) else { return Err(Error::Answer(error)) };
        let (answers, open) = (&self.client.options().answers, self.client.0.table.pages());
        self.again()?;
        let ids: Vec<String> = pages.iter().map(|page| page.id.clone()).collect();
        let mut is_sent = false;
        for page in pages {
            if self.visited.contains(&page.id) {
                continue;
            }
            self.visited.push(page.id.clone());
            is_sent = true;
            match answers.visit(page, open).await {
                Ok(ElicitAction::Accept) => {}
                Ok(_) | Err(_) => return Err(Error::Answer(error)),
            }
        }
        let is_open = open.any(&ids);
        if is_sent {
            self.pauses = Pauses::new();
        } else if is_open {
            tokio::select! {
                () = open.closed(&ids) => {}
                () = sleep(self.pauses.next(None)) => {}
            }
        } else if !self.was_open {
            sleep(self.pauses.next(None)).await;
        }
        // Done since the request was last made: then it is made at once, and else later each time.
        self.was_open = open.any(&ids);
        Ok(())
    }

    /// Whether the server has begun on it: it has asked something.
    pub(super) fn have_begun(&self) -> bool {
        self.times > 0
    }

    /// What a round that failed says of the whole request. What has been begun counts as lost where this round was not received: nobody
    /// must take the request for one that was never made.
    pub(super) fn unanswered(&self, error: Error) -> Error {
        let is_unsent = matches!(error, Error::Unreachable { .. } | Error::Http { status: 429, .. });
        if is_unsent && self.have_begun() { Error::lost(error) } else { error }
    }

    /// Counts one time more.
    fn again(&mut self) -> Result<(), Error> {
        self.times += 1;
        let times = self.client.options().stuck_after;
        if self.times > times { Err(Error::Stuck { task: None, times }) } else { Ok(()) }
    }
}

impl Client {
    /// Makes a request that HTTP names `name`, as often as it takes, and gives its result.
    pub(super) async fn ask_in_rounds(
        &self,
        method: Method,
        name: &str,
        body: impl Fn(&mut RequestWriter<'_, '_>) + Send + Sync,
    ) -> Result<String, Error> {
        let mut rounds = Rounds::new(self, None);
        loop {
            let mut request = self.prepare(method, |params| {
                body(params);
                rounds.write(params);
            })?;
            request.name = Some(name);
            let result = match self.ask(request).await {
                Ok(answered) => answered.result,
                Err(Error::Answer(error)) => {
                    rounds.visit(error).await?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let asked = self.dialect().read_asked(&result);
            match asked.map_err(|error| Error::protocol(error.message))? {
                Some(asked) => rounds.answer(asked).await?,
                None => return Ok(result),
            }
        }
    }
}
