//! Calls that are tasks as SEP-1686 drafted them (D1), for a client that is told to ask for them: it names each task, hears when
//! there is one, and is answered by the call all the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use longhaul_proto::dialect::{DraftedTask, Keep};
use longhaul_proto::jsonrpc::{ErrorObject, RequestId};
use longhaul_proto::method::Method;
use longhaul_proto::model::{CallToolResult, Task, TaskStatus};
use longhaul_tasks::environment::BoxFuture;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::Client;
use super::call::{Started, Wish};
use super::error::Error;
use super::journal::{Page, random_key};
use super::link::Outgoing;
use super::options::CallOptions;
use super::task::{Form, TaskHandle};
use crate::wire::{self, By};

/// What a call has come to by its own answer.
pub(super) type Answer = Result<CallToolResult, Error>;

/// Who waits to hear that there is a task of that name.
#[derive(Debug, Default)]
pub(crate) struct Expected(Mutex<HashMap<String, Weak<Notify>>>);

impl Expected {
    fn expect(&self, id: &str) -> Arc<Notify> {
        let created = Arc::new(Notify::new());
        let mut expected = lock(&self.0);
        expected.retain(|_, created| created.strong_count() > 0);
        expected.insert(id.to_owned(), Arc::downgrade(&created));
        created
    }

    /// There is one.
    pub(super) fn note(&self, id: &str) {
        if let Some(created) = lock(&self.0).remove(id).and_then(|created| created.upgrade()) {
            created.notify_one();
        }
    }
}

/// A task that a call is to be, and the request by which it was asked for.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) task: DraftedTask,
    /// Under which id it was sent last.
    sent: Mutex<Option<RequestId>>,
}

impl Named {
    /// Remembers under which id the request is sent. It is given up by that alone: what becomes of a task does not hang on who
    /// waits for the answer.
    pub(super) fn follow<'a>(self: &Arc<Self>, request: &mut Outgoing<'a>) {
        let (this, write) = (Arc::clone(self), std::mem::replace(&mut request.write, Box::new(|_, _, _| ())));
        request.write = Box::new(move |id, token, out| {
            *lock(&this.sent) = Some(id.clone());
            write(id, token, out);
        });
        request.cancellable = false;
    }
}

/// A call under way that is to be a drafted task, or is one. Dropped, it is no longer listened to, and goes on.
#[derive(Debug)]
pub(super) struct Original {
    client: Client,
    named: Arc<Named>,
    answer: watch::Receiver<Option<Answer>>,
    driver: AbortHandle,
}

impl Original {
    fn send(
        client: &Client,
        task: DraftedTask,
        name: String,
        arguments: String,
        options: CallOptions,
    ) -> Self {
        let named = Arc::new(Named { task, sent: Mutex::new(None) });
        let (sender, answer) = watch::channel(None);
        let (caller, wish) = (client.clone(), Wish::Named(Arc::clone(&named)));
        let driver = tokio::spawn(async move {
            let answer = match caller.send_until_answered(&name, &arguments, &options, &wish, None).await {
                Ok(Started::Result(result)) => Ok(result),
                Ok(Started::Task(_)) => Err(Error::protocol("a task that nobody has named")),
                Err(error) => Err(error),
            };
            sender.send_replace(Some(answer));
        });
        Self { client: client.clone(), named, answer, driver: driver.abort_handle() }
    }

    /// Its answer.
    async fn answered(&self) -> Answer {
        let mut answer = self.answer.clone();
        match answer.wait_for(Option::is_some).await {
            Ok(answer) => answer.clone().unwrap_or(Err(Error::Lost { cause: None })),
            Err(_) => Err(Error::Lost { cause: None }),
        }
    }

    /// Says that nobody wants it any more, which ends its task (SEP-1686, Task Cancellation).
    async fn cancel(&self) -> Result<(), Error> {
        let sent = lock(&self.named.sent).clone();
        let is_answered = matches!(&*self.answer.borrow(), Some(Ok(_) | Err(Error::Answer(_))));
        let Some(id) = sent.filter(|_| !is_answered) else { return Ok(()) };
        let dialect = self.client.dialect();
        match wire::cancelled(By::Client, dialect, &id, "no longer wanted") {
            Some(message) => self.client.0.link.notify(dialect, message).await,
            None => Ok(()),
        }
    }
}

impl Drop for Original {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A call of which nobody has heard yet whether it is a task: given up, it is cancelled.
struct Unheard(Option<Original>);

impl Drop for Unheard {
    fn drop(&mut self) {
        if let Some(original) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                if let Err(error) = original.cancel().await {
                    tracing::debug!(%error, "a call that is no longer wanted was not cancelled");
                }
            });
        }
    }
}

impl Client {
    /// Whether calls are to be drafted tasks here: we are told to ask for them, and the server has no newer ones.
    pub(super) fn has_drafted_tasks(&self) -> bool {
        let (dialect, offered) = (self.dialect(), self.capabilities());
        let has_newer = offered.tasks && dialect.asks_for_tasks();
        self.options().drafted_tasks && offered.drafted_tasks && dialect.has_drafted_tasks() && !has_newer
    }

    /// Makes a call that is to be a drafted task. Whether it is one shows when its server says so, or answers before.
    pub(super) async fn begin_drafted(
        &self,
        page: Option<Arc<Page>>,
        name: &str,
        arguments: String,
        options: CallOptions,
    ) -> Result<Started, Error> {
        // A call of the journal has a name that another process knows again.
        let id = match &page {
            Some(page) => page.key().to_owned(),
            None => random_key()?,
        };
        if let Some(page) = &page {
            // What it asks may come before we have heard that there is a task.
            page.is_task(&id);
        }
        let keep = options
            .ttl
            .map_or(Keep::Unsaid, |ttl| Keep::Millis(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)));
        let task = DraftedTask::new(id.as_str(), keep);
        let created = self.0.table.expected().expect(&id);
        let mut call = Unheard(Some(Original::send(self, task, name.to_owned(), arguments, options)));
        let answered = async {
            match &call.0 {
                Some(original) => original.answered().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            answer = answered => {
                let is_given_up = matches!(answer, Err(Error::TimedOut { .. }));
                if !is_given_up {
                    call.0 = None;
                }
                return self.noted(answer.map(Started::Result), page.as_ref()).await;
            }
            () = created.notified() => {}
        }
        let task = TaskHandle::drafted(self, id, call.0.take()).of(name);
        tracing::debug!(task = task.id(), tool = name, "a call has become a drafted task");
        self.noted(Ok(Started::Task(task)), page.as_ref()).await
    }

    /// What is asked of a drafted task names it, beside what it says of it.
    pub(super) fn prepare_drafted<'a>(&'a self, method: Method, id: &'a str) -> Result<Outgoing<'a>, Error> {
        let dialect = self.dialect();
        let Some(name) = dialect.drafted_name_of(method) else {
            return Err(Error::NotOffered { what: "this of a drafted task", revision: dialect.revision() });
        };
        let mut request = Outgoing::named(dialect, method, name, self.declaration(), move |params| {
            params.field("taskId", id).about_drafted_task(id);
        });
        request.idle = Some(self.options().request_timeout);
        Ok(request)
    }
}

impl Form {
    /// The answer of the call itself, where it brings the result of its task. What else becomes of it the task says.
    pub(super) fn coming(&self) -> Option<BoxFuture<'_, Option<Answer>>> {
        let Self::Drafted(Some(original)) = self else { return None };
        Some(Box::pin(async {
            match original.answered().await {
                answer @ (Ok(_) | Err(Error::Unfit { .. })) => Some(answer),
                Err(_) => None,
            }
        }))
    }

    /// Ends a task by its call; `false` where that is not done so.
    pub(super) async fn cancel(&self, client: &Client) -> Result<bool, Error> {
        match self {
            Self::Agreed => Ok(false),
            Self::Drafted(Some(original)) => original.cancel().await.map(|()| true),
            Self::Drafted(None) => {
                let what = "cancelling a drafted task that another connection has begun";
                Err(Error::NotOffered { what, revision: client.dialect().revision() })
            }
        }
    }

    /// Why a drafted task has failed: what its call was answered with, or else the words of its status.
    pub(super) async fn failure(&self, task: &Task) -> Option<Answer> {
        let Self::Drafted(original) = self else { return None };
        if task.status != TaskStatus::Failed {
            return None;
        }
        if let Some(original) = original
            && let Ok(answer @ (Ok(_) | Err(Error::Answer(_)))) = timeout(PATIENCE, original.answered()).await
        {
            return Some(answer);
        }
        let said = task.status_message.clone().unwrap_or_else(|| "the task has failed".to_owned());
        Some(Err(Error::Answer(ErrorObject::internal(said))))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long the answer of a call is waited for whose task has failed: it says more, and is due.
const PATIENCE: Duration = Duration::from_secs(5);
