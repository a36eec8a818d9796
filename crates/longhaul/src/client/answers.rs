//! What the application says when a server asks it something.

use std::fmt;
use std::sync::Arc;

use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_proto::model::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitForm, ElicitParams,
    ElicitResult, ElicitUrl, Elicitation, InputRequest, ListRootsResult, Root, Sampling,
};
use longhaul_tasks::environment::BoxFuture;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::pages::Pages;

/// How a kind of question is answered.
type Answer<Q, A> = Arc<dyn Fn(Q) -> BoxFuture<'static, A> + Send + Sync>;

/// Who answers what. What nobody answers is not declared, so that no server asks it.
#[derive(Clone, Default)]
pub(crate) struct Answers {
    pub(super) form: Option<Answer<ElicitForm, ElicitResult>>,
    pub(super) page: Option<Answer<ElicitUrl, ElicitAction>>,
    pub(super) sample: Option<Answer<CreateMessageParams, Result<CreateMessageResult, ErrorObject>>>,
    /// Whoever samples can do so with tools.
    pub(super) with_tools: bool,
    pub(super) roots: Option<Answer<(), Vec<Root>>>,
    /// Who answers everything, in the place of all of them.
    pub(super) any: Option<Answer<Question, Result<Box<RawValue>, ErrorObject>>>,
}

/// What a server asks, for who answers [whatever is asked](super::Options::on_question).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Question {
    /// What is asked.
    pub request: InputRequest,
    /// The task that asks, by its server's id, where the server says so: in a session, of a call that has become one (2025-11-25,
    /// Tasks, "Related task metadata").
    pub task: Option<String>,
}

impl From<InputRequest> for Question {
    /// One of which nobody says that a task asks it.
    fn from(request: InputRequest) -> Self {
        Self { request, task: None }
    }
}

impl Answers {
    /// Whether anything can be asked.
    pub(super) fn is_empty(&self) -> bool {
        let Self { form, page, sample, with_tools: _, roots, any } = self;
        form.is_none() && page.is_none() && sample.is_none() && roots.is_none() && any.is_none()
    }

    /// Says what can be asked.
    pub(super) fn declare(&self, capabilities: &mut ClientCapabilities) {
        let any = self.any.is_some();
        let elicits = Elicitation::new(any || self.form.is_some(), any || self.page.is_some());
        capabilities.elicitation = (elicits.form || elicits.url).then_some(elicits);
        let samples = any || self.sample.is_some();
        capabilities.sampling = samples.then(|| Sampling::new(any || self.with_tools, false));
        capabilities.roots = any || self.roots.is_some();
    }

    /// The answer to a question, as JSON.
    ///
    /// # Errors
    ///
    /// What the application says instead, or that nobody answers such questions.
    pub(super) async fn answer(
        &self,
        question: Question,
        pages: &Pages,
    ) -> Result<Box<RawValue>, ErrorObject> {
        if let Some(any) = &self.any {
            return any(question).await;
        }
        let unasked = ErrorObject::method_not_found(question.request.method());
        match question.request {
            InputRequest::Elicit(ElicitParams::Form(form)) => {
                written(&self.form.as_ref().ok_or(unasked)?(form).await)
            }
            InputRequest::Elicit(ElicitParams::Url(page)) => {
                written(&ElicitResult::of(self.visit(page, pages).await?))
            }
            InputRequest::Sample(params) if self.with_tools || !params.needs_tools() => {
                written(&self.sample.as_ref().ok_or(unasked)?(*params).await?)
            }
            InputRequest::ListRoots => {
                let mut result = ListRootsResult::default();
                result.roots = self.roots.as_ref().ok_or(unasked)?(()).await;
                written(&result)
            }
            InputRequest::Sample(_) => Err(unasked),
        }
    }

    /// Whether the user goes to a page.
    ///
    /// # Errors
    ///
    /// When nobody is asked such things, or the page cannot be one.
    pub(super) async fn visit(&self, page: ElicitUrl, pages: &Pages) -> Result<ElicitAction, ErrorObject> {
        let ask = match (&self.page, &self.any) {
            (_, Some(any)) => {
                let answer = any(InputRequest::Elicit(ElicitParams::Url(page)).into()).await?;
                let answer: ElicitResult = serde_json::from_str(answer.get())
                    .map_err(|error| ErrorObject::internal(error.to_string()))?;
                return Ok(answer.action);
            }
            (Some(ask), None) => ask,
            (None, None) => return Err(ErrorObject::method_not_found("elicitation/create")),
        };
        if !page.url.starts_with("https://") && !page.url.starts_with("http://") {
            return Err(ErrorObject::invalid_params("a page to visit must be at an http or https URL"));
        }
        let id = page.id.clone();
        // The server may say that the user is done before the application does.
        pages.open(&id);
        let mut visit = Visit { pages, id: Some(id) };
        let action = ask(page).await;
        if action == ElicitAction::Accept {
            visit.id = None;
        }
        Ok(action)
    }
}

/// A page that nobody has gone to yet: dropped, nobody will.
struct Visit<'p> {
    pages: &'p Pages,
    /// `None` once somebody does.
    id: Option<String>,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            self.pages.close(id);
        }
    }
}

fn written<T: Serialize>(answer: &T) -> Result<Box<RawValue>, ErrorObject> {
    to_raw_value(answer).map_err(|error| ErrorObject::internal(error.to_string()))
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { form, page, sample, with_tools: _, roots, any } = self;
        if any.is_some() {
            return f.write_str("Answers(all)");
        }
        let answered = (form.is_some(), page.is_some(), sample.is_some(), roots.is_some());
        write!(f, "Answers(form, page, sample, roots: {answered:?})")
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test]
    async fn a_page_is_open_until_nobody_will_go_there_or_the_user_is_done() {
        let visit = |said: Option<ElicitAction>| Answers {
            page: Some(Arc::new(move |_| match said {
                Some(action) => Box::pin(ready(action)),
                None => Box::pin(pending()),
            })),
            ..Answers::default()
        };
        let (pages, page) = (Pages::new(4), || ElicitUrl::new("Sign in", "https://a.example/", "p"));
        let is_open = || pages.any(&["p".to_owned()]);

        let answers = visit(None);
        let mut asking = Box::pin(answers.visit(page(), &pages));
        assert!(asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() && is_open());
        drop(asking);
        assert!(!is_open(), "its server has withdrawn it");
        for (said, goes) in
            [(ElicitAction::Decline, false), (ElicitAction::Cancel, false), (ElicitAction::Accept, true)]
        {
            visit(Some(said)).visit(page(), &pages).await.unwrap();
            assert_eq!(is_open(), goes, "{said:?}");
        }
    }
}
