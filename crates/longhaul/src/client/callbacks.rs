//! What the application answers, and what it hears: the callbacks of [`Options`].

use std::sync::Arc;

use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_proto::model::{
    CreateMessageParams, CreateMessageResult, ElicitAction, ElicitForm, ElicitResult, ElicitUrl,
    LoggingLevel, Root,
};
use longhaul_tasks::environment::BoxFuture;
use serde_json::value::RawValue;

use super::answers::Question;
use super::options::{LogMessage, Options};

impl Options {
    /// Fills in the forms that servers ask for while they work, whether on a call or on a task. A question is answered
    /// once, however often it is seen.
    ///
    /// Without this no server asks. Show who asks: the user decides what it learns.
    ///
    /// ```
    /// use longhaul::client::Options;
    /// use longhaul::proto::model::ElicitResult;
    ///
    /// let options = Options::default().on_form(|form| async move {
    ///     println!("{}", form.message);
    ///     ElicitResult::declined()
    /// });
    /// ```
    #[must_use]
    pub fn on_form<F: Future<Output = ElicitResult> + Send + 'static>(
        mut self,
        fill_in: impl Fn(ElicitForm) -> F + Send + Sync + 'static,
    ) -> Self {
        self.answers.form = Some(Arc::new(move |form| -> BoxFuture<'static, _> { Box::pin(fill_in(form)) }));
        self
    }

    /// Asks the user whether to visit the pages that servers name, for what must not pass through this client.
    ///
    /// Show the whole URL and who asks, and open it only once the user agrees, where neither this program nor a model reads
    /// the page. [`ElicitAction::Accept`] says that the user went there, not that what is to be done there is done.
    ///
    /// A request that is refused until pages were visited (2025-11-25) is made again once the user goes there, and again
    /// until it is not refused any more: as soon as the server says that they are done, and now and then until it does. Each
    /// page is asked about once. Who does not go there is given the server's error.
    #[must_use]
    pub fn on_page<F: Future<Output = ElicitAction> + Send + 'static>(
        mut self,
        ask: impl Fn(ElicitUrl) -> F + Send + Sync + 'static,
    ) -> Self {
        self.answers.page = Some(Arc::new(move |page| -> BoxFuture<'static, _> { Box::pin(ask(page)) }));
        self
    }

    /// Calls `on_page_done` with the [id](ElicitUrl::id) of a page that the user went to, once its server says that they are
    /// done there (2025-11-25). It must not block.
    #[must_use]
    pub fn on_page_done(mut self, on_page_done: impl Fn(String) + Send + Sync + 'static) -> Self {
        self.on_page_done = Some(Arc::new(on_page_done));
        self
    }

    /// Samples a model for servers that ask for it; an error is said to them where they can be told one.
    #[must_use]
    pub fn on_sample<F: Future<Output = Result<CreateMessageResult, ErrorObject>> + Send + 'static>(
        mut self,
        sample: impl Fn(CreateMessageParams) -> F + Send + Sync + 'static,
    ) -> Self {
        self.answers.sample =
            Some(Arc::new(move |params| -> BoxFuture<'static, _> { Box::pin(sample(params)) }));
        self
    }

    /// As [`on_sample`](Self::on_sample), for a model that can ask for the tools a server names: what it asks for goes back
    /// to the server, which calls them.
    #[must_use]
    pub fn on_sample_with_tools<
        F: Future<Output = Result<CreateMessageResult, ErrorObject>> + Send + 'static,
    >(
        mut self,
        sample: impl Fn(CreateMessageParams) -> F + Send + Sync + 'static,
    ) -> Self {
        self.answers.with_tools = true;
        self.on_sample(sample)
    }

    /// Says where servers may work. [`Client::roots_changed`](super::Client::roots_changed) tells them that it is elsewhere now.
    #[must_use]
    pub fn on_roots<F: Future<Output = Vec<Root>> + Send + 'static>(
        mut self,
        roots: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self {
        self.answers.roots = Some(Arc::new(move |()| -> BoxFuture<'static, _> { Box::pin(roots()) }));
        self
    }

    /// Answers whatever servers ask, in the place of all that answers one kind of question: for a program that stands between
    /// a server and those who can be asked. An answer is the JSON of a result as the question wants it; an error is said to
    /// the server where it can be told one.
    ///
    /// It is called in the future that makes the call where the server asks by answering it (2026-07-28), and apart from it
    /// where the server asks by a request, which does not say to what call it belongs, but may name a task.
    ///
    /// ```
    /// use longhaul::client::Options;
    /// use longhaul::proto::jsonrpc::ErrorObject;
    ///
    /// let options = Options::default()
    ///     .on_question(|question| async move { Err(ErrorObject::method_not_found(question.request.method())) });
    /// # drop(options);
    /// ```
    #[must_use]
    pub fn on_question<F: Future<Output = Result<Box<RawValue>, ErrorObject>> + Send + 'static>(
        mut self,
        answer: impl Fn(Question) -> F + Send + Sync + 'static,
    ) -> Self {
        self.answers.any =
            Some(Arc::new(move |question| -> BoxFuture<'static, _> { Box::pin(answer(question)) }));
        self
    }

    /// Calls `on_log` for each log message at least as severe as `level`. It must not block.
    #[must_use]
    pub fn on_log(
        mut self,
        level: LoggingLevel,
        on_log: impl Fn(LogMessage) + Send + Sync + 'static,
    ) -> Self {
        self.log_level = Some(level);
        self.on_log = Some(Arc::new(on_log));
        self
    }

    /// Calls `on_stderr` for each line that a child process writes to its standard error, or to its standard
    /// output without being a message. It must not block.
    #[must_use]
    pub fn on_stderr(mut self, on_stderr: impl Fn(String) + Send + Sync + 'static) -> Self {
        self.on_stderr = Some(Arc::new(on_stderr));
        self
    }
}
