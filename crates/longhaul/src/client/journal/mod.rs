//! What a client writes down of its calls before it does anything about them, so that it can go on after its own death:
//! nothing is called twice, and nobody is asked twice.
//!
//! `page` is what is written of one call, `recover` what is done with it afterwards, `file` where it is kept.

mod file;
mod page;
mod recover;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_proto::model::CallToolResult;
use longhaul_tasks::environment::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use file::FileJournal;
pub use recover::Recovered;

pub(crate) use page::Book;
pub(super) use page::{Page, name_of, random_key};

/// Keeps what a client notes of its calls: [`Options::journal`](super::Options::journal).
///
/// [`FileJournal`] is one. Another tells its entries to a [`Calls`], which knows what they come to.
pub trait Journal: fmt::Debug + Send + Sync {
    /// Keeps an entry about the call of that id, behind those that were kept before. Ready when neither the end of the process
    /// nor of the machine can lose it.
    fn note<'a>(&'a self, call: &'a str, entry: Entry) -> BoxFuture<'a, Result<(), JournalError>>;

    /// The calls that are not over, in the order in which they began.
    fn open(&self) -> BoxFuture<'_, Result<Vec<Kept>, JournalError>>;
}

/// One thing that is known of a call.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Entry {
    /// It is about to be made.
    Begun(Begun),
    /// It is the task of that id.
    Task(String),
    /// It is the task of that id as SEP-1686 drafted them.
    Drafted(String),
    /// A question of it was answered, which is about to be told.
    #[non_exhaustive]
    Answered {
        /// Which question.
        question: String,
        /// What was answered.
        answer: Box<RawValue>,
    },
    /// It has ended so.
    Ended(Ended),
    /// Nobody will ask for it any more.
    Forgotten,
}

/// A call as it was begun.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Begun {
    /// The server: [`Client::server`](super::Client::server).
    pub server: String,
    /// What the application calls it, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Box<RawValue>,
    /// How long its task is to be kept, in milliseconds, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
}

/// What a call has ended with.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Ended {
    /// This result.
    Result(CallToolResult),
    /// This error of the server's.
    Error(ErrorObject),
    /// As a task that was cancelled.
    Cancelled,
    /// As a task that its server no longer knows.
    Gone,
}

/// A call that is not over, and all that is known of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Kept {
    /// Its id, which is the key under which a server makes it once.
    pub id: String,
    /// As it was begun.
    pub begun: Begun,
    /// The task that it is, if that is known.
    pub task: Option<String>,
    /// That task is one as SEP-1686 drafted them.
    pub drafted: bool,
    /// What was answered, by the questions.
    pub answers: BTreeMap<String, Box<RawValue>>,
    /// What it has ended with, if it has.
    pub ended: Option<Ended>,
}

/// What entries come to: the calls that are not over.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    calls: BTreeMap<String, (u64, Kept)>,
    /// How many were begun.
    begun: u64,
}

impl Calls {
    /// Takes in an entry about the call of that id. One about a call that was not begun says nothing.
    pub fn apply(&mut self, call: &str, entry: Entry) {
        if let Entry::Begun(begun) = entry {
            self.begun += 1;
            let (id, answers) = (call.to_owned(), BTreeMap::new());
            self.calls.insert(
                id.clone(),
                (self.begun, Kept { id, begun, task: None, drafted: false, answers, ended: None }),
            );
            return;
        }
        let Some((_, kept)) = self.calls.get_mut(call) else { return };
        match entry {
            Entry::Begun(_) => {}
            Entry::Task(id) => (kept.task, kept.drafted) = (Some(id), false),
            Entry::Drafted(id) => (kept.task, kept.drafted) = (Some(id), true),
            Entry::Answered { question, answer } => {
                kept.answers.insert(question, answer);
            }
            Entry::Ended(ended) => kept.ended = Some(ended),
            Entry::Forgotten => {
                self.calls.remove(call);
            }
        }
    }

    /// The calls that are not over, in the order in which they began.
    pub fn open(&self) -> Vec<Kept> {
        let mut calls: Vec<_> = self.calls.values().collect();
        calls.sort_by_key(|(nth, _)| *nth);
        calls.into_iter().map(|(_, kept)| kept.clone()).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The fewest entries that come to the same, each with its call.
    pub fn entries(&self) -> Vec<(String, Entry)> {
        let mut entries = Vec::new();
        for kept in self.open() {
            let Kept { id, begun, task, drafted, answers, ended } = kept;
            let named = if drafted { Entry::Drafted } else { Entry::Task };
            let answers = answers.into_iter().map(|(question, answer)| Entry::Answered { question, answer });
            let of_it = [Some(Entry::Begun(begun)), task.map(named)].into_iter().flatten();
            let of_it = of_it.chain(answers).chain(ended.map(Entry::Ended));
            entries.extend(of_it.map(|entry| (id.clone(), entry)));
        }
        entries
    }
}

/// Why a journal keeps nothing.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Another process has it.
    #[error("{} is in use by another process: give each a journal of its own", path.display())]
    #[non_exhaustive]
    InUse {
        /// Which file.
        path: PathBuf,
    },
    /// It has been changed, or its disk is broken.
    #[error("{} is damaged at byte {at}: move it away, and see what became of its calls", path.display())]
    #[non_exhaustive]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Where.
        at: usize,
    },
    /// There are too many calls in it that are not over.
    #[error("{max} calls are noted and not over: recover or forget some")]
    #[non_exhaustive]
    Full {
        /// How many there may be.
        max: usize,
    },
    /// An earlier entry may or may not have been kept: what is kept after it would be worth nothing.
    #[error("{} could not be written: open it again, and recover", path.display())]
    #[non_exhaustive]
    Broken {
        /// Which file.
        path: PathBuf,
    },
    /// It cannot be read or written.
    #[error("{what}")]
    #[non_exhaustive]
    Store {
        /// What was tried.
        what: String,
        /// What the system said.
        #[source]
        cause: super::Cause,
    },
}

impl JournalError {
    /// That it cannot be read or written, for a journal of one's own.
    pub fn store(what: impl Into<String>, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Store { what: what.into(), cause: Arc::new(cause) }
    }
}
