//! What is written of one call while it is driven, each thing before what follows from it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_proto::model::CallToolResult;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::{Begun, Ended, Entry, Journal, JournalError, Kept};
use crate::client::asked::Replies;
use crate::client::error::Error;
use crate::hex::hex;

/// A journal, and which of its calls are driven now.
pub(crate) struct Book {
    journal: Arc<dyn Journal>,
    driven: Mutex<HashSet<String>>,
    /// Those of them that are tasks, by the task.
    tasks: Mutex<HashMap<String, Weak<Page>>>,
}

impl Book {
    pub(crate) fn new(journal: Arc<dyn Journal>) -> Arc<Self> {
        Arc::new(Self { journal, driven: Mutex::default(), tasks: Mutex::default() })
    }

    /// Begins a call, under a key that nobody can guess.
    pub(in crate::client) async fn begin(self: &Arc<Self>, begun: Begun) -> Result<Arc<Page>, Error> {
        let key = random_key()?;
        let is_named = begun.name.is_some();
        let page = Page::new(self, key.clone(), is_named, Replies::new());
        lock(&self.driven).insert(key);
        page.note(Entry::Begun(begun)).await?;
        page.is_call.store(true, Ordering::Release);
        Ok(page)
    }

    /// Goes on with a call, unless that is done already.
    pub(in crate::client) fn take_up(self: &Arc<Self>, kept: &Kept) -> Option<Arc<Page>> {
        if !lock(&self.driven).insert(kept.id.clone()) {
            return None;
        }
        let page = Page::new(self, kept.id.clone(), kept.begun.name.is_some(), kept.answers.clone());
        if let Some(task) = &kept.task {
            self.know(task, &page);
        }
        Some(page)
    }

    /// The calls of that server which are not over.
    pub(in crate::client) async fn open(&self, server: &str) -> Result<Vec<Kept>, Error> {
        let mut calls = self.journal.open().await?;
        calls.retain(|kept| kept.begun.server == server);
        Ok(calls)
    }

    /// Nobody will ask for a call any more.
    pub(in crate::client) async fn forget(&self, call: &str) -> Result<(), Error> {
        Ok(self.journal.note(call, Entry::Forgotten).await?)
    }

    /// What is written of the task of that id, if it is driven now.
    pub(in crate::client) fn of_task(&self, task: &str) -> Option<Arc<Page>> {
        lock(&self.tasks).get(task).and_then(Weak::upgrade)
    }

    fn know(&self, task: &str, page: &Arc<Page>) {
        let mut tasks = lock(&self.tasks);
        tasks.retain(|_, page| page.strong_count() > 0);
        tasks.insert(task.to_owned(), Arc::downgrade(page));
    }
}

impl fmt::Debug for Book {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Book").field(&self.journal).finish()
    }
}

/// One call of a journal, for as long as it is driven.
#[derive(Debug)]
pub(in crate::client) struct Page {
    book: Arc<Book>,
    key: String,
    /// Its application asks for it by name, and says when it is done with it.
    is_named: bool,
    /// What was answered in an earlier life of this process, and not asked since.
    earlier: Mutex<Replies>,
    /// It ends with whoever waits for it, as long as it is no task.
    is_call: AtomicBool,
}

impl Page {
    fn new(book: &Arc<Book>, key: String, is_named: bool, earlier: Replies) -> Arc<Self> {
        let (book, earlier, is_call) = (Arc::clone(book), Mutex::new(earlier), AtomicBool::new(false));
        Arc::new(Self { book, key, is_named, earlier, is_call })
    }

    /// The key under which a server makes the call once.
    pub(in crate::client) fn key(&self) -> &str {
        &self.key
    }

    /// The call is that task.
    pub(in crate::client) async fn task(self: &Arc<Self>, id: &str, is_drafted: bool) -> Result<(), Error> {
        self.is_call.store(false, Ordering::Release);
        self.is_task(id);
        let entry = if is_drafted { Entry::Drafted } else { Entry::Task };
        self.note(entry(id.to_owned())).await
    }

    /// What that task asks is answered here, if it is one.
    pub(in crate::client) fn is_task(self: &Arc<Self>, id: &str) {
        self.book.know(id, self);
    }

    /// A question was answered, which is about to be told.
    pub(in crate::client) async fn answered(&self, question: &str, answer: &RawValue) -> Result<(), Error> {
        self.note(Entry::Answered { question: question.to_owned(), answer: answer.to_owned() }).await
    }

    /// The answer to a question: what was said in an earlier life, once, for it may not have come; else what is said now, which
    /// is noted before it is told. `unnoted` says what comes of an answer that cannot be.
    pub(in crate::client) async fn answer_once<E>(
        &self,
        question: &str,
        answering: impl Future<Output = Result<Box<RawValue>, E>>,
        unnoted: impl FnOnce(Error) -> E,
    ) -> Result<Box<RawValue>, E> {
        let earlier = lock(&self.earlier).remove(question);
        if let Some(answer) = earlier {
            return Ok(answer);
        }
        let answer = answering.await?;
        self.answered(question, &answer).await.map_err(unnoted)?;
        Ok(answer)
    }

    /// All that was answered in an earlier life.
    pub(in crate::client) fn all_earlier(&self) -> Replies {
        lock(&self.earlier).clone()
    }

    /// Nobody knows what becomes of the call: it stays open.
    pub(in crate::client) fn leave(&self) {
        self.is_call.store(false, Ordering::Release);
    }

    /// Whether that was said, or it is a task.
    pub(in crate::client) fn is_left(&self) -> bool {
        !self.is_call.load(Ordering::Acquire)
    }

    /// What has become of it, if that is its end; else it stays open. An end that cannot be noted is told all the same.
    pub(in crate::client) async fn settle(&self, outcome: &Result<CallToolResult, Error>) {
        self.leave();
        if let Some(ended) = Ended::of(outcome) {
            self.end(if self.is_named { Entry::Ended(ended) } else { Entry::Forgotten }).await;
        }
    }

    /// Nothing has come of it, and nothing will.
    pub(in crate::client) async fn give_up(&self) {
        self.leave();
        self.end(Entry::Forgotten).await;
    }

    async fn end(&self, entry: Entry) {
        if let Err(error) = self.note(entry).await {
            tracing::error!(%error, "the end of a call was not noted: it will be recovered again");
        }
    }

    async fn note(&self, entry: Entry) -> Result<(), Error> {
        Ok(self.book.journal.note(&self.key, entry).await?)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        lock(&self.book.driven).remove(&self.key);
        // Whoever waited for it has gone, and has cancelled it by that.
        if self.is_call.load(Ordering::Acquire)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (book, key) = (Arc::clone(&self.book), std::mem::take(&mut self.key));
            runtime.spawn(async move {
                if let Err(error) = book.forget(&key).await {
                    tracing::error!(%error, "a call that was given up was not noted as such");
                }
            });
        }
    }
}

impl Ended {
    /// How a call has ended, if it has.
    fn of(outcome: &Result<CallToolResult, Error>) -> Option<Self> {
        match outcome {
            Ok(result) => Some(Self::Result(result.clone())),
            Err(error) if error.is_throttled() => None,
            Err(Error::Answer(error)) => Some(Self::Error(error.clone())),
            Err(Error::Cancelled { .. }) => Some(Self::Cancelled),
            Err(Error::NoSuchTask { .. }) => Some(Self::Gone),
            Err(_) => None,
        }
    }

    /// The same, for whoever asks for it again.
    pub(in crate::client) fn into_outcome(self, task: Option<String>) -> Result<CallToolResult, Error> {
        let id = task.unwrap_or_default();
        match self {
            Self::Result(result) => Ok(result),
            Self::Error(error) => Err(Error::Answer(error)),
            Self::Cancelled => Err(Error::Cancelled { id }),
            Self::Gone => Err(Error::NoSuchTask { id, answer: None::<ErrorObject> }),
        }
    }
}

/// What a question is known by that has no key which stands for it alone: what it asks, in whatever order it is written.
pub(in crate::client) fn name_of(kind: &str, question: &str) -> String {
    let told = serde_json::from_str::<serde_json::Value>(question).map(|mut question| {
        if let Some(members) = question.as_object_mut() {
            members.remove("_meta");
        }
        question.to_string()
    });
    let told = told.as_deref().unwrap_or(question);
    format!("{kind}/{}", hex(&Sha256::digest(told)[..16]))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A key that nobody can guess.
pub(in crate::client) fn random_key() -> Result<String, Error> {
    let mut key = [0; KEY];
    getrandom::fill(&mut key)
        .map_err(|error| JournalError::store("there is no randomness for a key", error))?;
    Ok(hex(&key))
}

/// Random bytes of a key: as many as keep strangers from a task.
const KEY: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_known_by_what_it_asks() {
        let (one, other) = (r#"{"a": 1, "b": "x", "_meta": {"progressToken": 1}}"#, r#"{"b":"x","a":1}"#);
        assert_eq!(name_of("k", one), name_of("k", other));
        assert_ne!(name_of("k", one), name_of("k", r#"{"a": 2, "b": "x"}"#));
        assert_ne!(name_of("k", one), name_of("l", one));
    }
}
