//! Requests that may ask before they answer: made again, with answers, until they are answered.
//!
//! (2026-07-28, Multi Round-Trip Requests.)

use longhaul_proto::dialect::{Asked, RequestWriter};
use longhaul_proto::method::Method;

use super::Client;
use super::error::Error;

/// What the next round of a request brings, and how many there were.
pub(super) struct Rounds<'c> {
    client: &'c Client,
    times: u32,
    /// The answers to what was asked last, as the object of `inputResponses`, if anything was.
    answers: Option<String>,
    /// What the server gave to come back with them, unread.
    state: Option<String>,
}

impl<'c> Rounds<'c> {
    pub(super) fn new(client: &'c Client) -> Self {
        Self { client, times: 0, answers: None, state: None }
    }

    /// Writes what this round brings.
    pub(super) fn write(&self, params: &mut RequestWriter<'_, '_>) {
        if let Some(answers) = &self.answers {
            params.raw("inputResponses", answers);
        }
        params.optional("requestState", self.state.as_ref());
    }

    /// Answers what the server asks: the request is then to be made again.
    ///
    /// # Errors
    ///
    /// When the application answers no such question, or the server has asked too often.
    pub(super) async fn answer(&mut self, asked: Asked) -> Result<(), Error> {
        let options = self.client.options();
        if !asked.questions.is_empty() && options.answers.is_empty() {
            return Err(Error::InputRequired { task: None });
        }
        self.times += 1;
        if self.times > options.stuck_after {
            return Err(Error::Stuck { task: None, times: options.stuck_after });
        }
        let questions: Vec<_> = asked.questions.iter().map(|(key, raw)| (key.as_str(), &**raw)).collect();
        self.answers = if questions.is_empty() {
            None
        } else {
            let answers = self.client.answers_to(&questions).await;
            Some(answers.ok_or(Error::InputRequired { task: None })?)
        };
        self.state = asked.state;
        Ok(())
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
        let mut rounds = Rounds::new(self);
        loop {
            let mut request = self.prepare(method, |params| {
                body(params);
                rounds.write(params);
            })?;
            request.name = Some(name);
            let result = self.ask(request).await?.result;
            let asked = self.dialect().read_asked(&result);
            match asked.map_err(|error| Error::protocol(error.message))? {
                Some(asked) => rounds.answer(asked).await?,
                None => return Ok(result),
            }
        }
    }
}
