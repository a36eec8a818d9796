//! What one call's client was told, and whether what it is told later agrees.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::mcp::{Client, Era, Reply};
use crate::place::Job;

/// One call as its client saw it.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) job: Job,
    pub(crate) era: Era,
    /// Whether its client has an answer to it.
    pub(crate) acknowledged: bool,
    /// The task it became, as the client was told or the store says.
    pub(crate) task: Option<String>,
    /// The answer, when it was no task.
    pub(crate) answer: Option<Result<Value, Value>>,
    /// Whether it was asked to be cancelled, heard or not: a server may be killed between what it does and what it says.
    pub(crate) asked_to_cancel: bool,
    /// Whether a cancel was acknowledged that may have ended it.
    pub(crate) cancelled: bool,
    terminal: Option<Terminal>,
    /// What must not have happened.
    pub(crate) violations: Vec<String>,
}

/// How a task ended, as it was told: every later telling must be the same to the byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terminal {
    /// The status word.
    pub(crate) status: String,
    /// The answer to `tasks/get`.
    pub(crate) shown: String,
    /// The answer to `tasks/result`, in D2.
    pub(crate) payload: Option<Result<String, String>>,
}

impl Terminal {
    /// The result of the call, or the error.
    pub(crate) fn outcome(&self) -> Result<Result<Value, Value>> {
        match &self.payload {
            Some(Ok(result)) => Ok(Ok(serde_json::from_str(result)?)),
            Some(Err(error)) => Ok(Err(serde_json::from_str(error)?)),
            None => {
                let shown: Value = serde_json::from_str(&self.shown)?;
                let result = shown.get("result").cloned();
                Ok(result.ok_or_else(|| shown.get("error").cloned().unwrap_or_default()))
            }
        }
    }
}

impl Call {
    /// A call that is about to be made.
    pub(crate) fn new(job: Job, era: Era) -> Self {
        Self {
            job,
            era,
            acknowledged: false,
            task: None,
            answer: None,
            asked_to_cancel: false,
            cancelled: false,
            terminal: None,
            violations: Vec::new(),
        }
    }

    /// Its answer, or silence.
    pub(crate) fn told(&mut self, reply: Reply) {
        let (result, is_result) = match reply {
            Reply::Silence => return,
            Reply::Result(raw) => (raw, true),
            Reply::Error(raw) => (raw, false),
        };
        self.acknowledged = true;
        let value: Value = match serde_json::from_str(result.get()) {
            Ok(value) => value,
            Err(error) => return self.violations.push(format!("an answer is not JSON: {error}")),
        };
        let places = ["/taskId", "/task/taskId", "/structuredContent/taskId"];
        let task = places.iter().find_map(|place| value.pointer(place)?.as_str()).map(str::to_owned);
        if is_result && task.is_some() {
            self.task = task;
        } else {
            self.answer = Some(if is_result { Ok(value) } else { Err(value) });
        }
    }

    /// How it ended, once that was seen.
    pub(crate) fn terminal(&self) -> Option<&Terminal> {
        self.terminal.as_ref()
    }

    /// Asks where the task stands, and holds the answer against what was told before. Says whether it has ended;
    /// `None` without an answer.
    pub(crate) fn look(&mut self, client: &Client) -> Option<bool> {
        let task = self.task.clone()?;
        let shown = match client.task(&format!("look-{task}"), &task) {
            Reply::Silence => return None,
            Reply::Error(error) => {
                self.violations.push(format!("{task}: tasks/get gives the error {}", error.get()));
                return Some(true);
            }
            Reply::Result(result) => result.get().to_owned(),
        };
        let status = serde_json::from_str::<Value>(&shown)
            .ok()
            .and_then(|shown| Some(shown["status"].as_str()?.to_owned()));
        let Some(status) = status else {
            self.violations.push(format!("{task}: tasks/get shows no status: {shown}"));
            return Some(true);
        };
        if status == "working" {
            if let Some(before) = &self.terminal {
                self.violations.push(format!("{task}: was {} and is working again", before.status));
            }
            if self.cancelled {
                self.violations.push(format!("{task}: an acknowledged cancel left it working"));
            }
            return Some(false);
        }
        let payload = match self.era {
            Era::D3 => None,
            Era::D2 => Some(match client.task_result(&task) {
                Reply::Silence => return None,
                Reply::Result(result) => Ok(result.get().to_owned()),
                Reply::Error(error) => Err(error.get().to_owned()),
            }),
        };
        let now = Terminal { status, shown, payload };
        match &self.terminal {
            None => self.terminal = Some(now),
            Some(before) if *before == now => {}
            Some(before) => {
                self.violations.push(format!("{task}: how it ended has changed from {before:?} to {now:?}"));
            }
        }
        Some(true)
    }

    /// Cancels the task. Says whether that was acknowledged.
    pub(crate) fn cancel(&mut self, client: &Client) -> Result<bool> {
        let task = self.task.clone().context("a call that is a task")?;
        self.asked_to_cancel = true;
        match client.cancel(&task) {
            Reply::Silence => Ok(false),
            Reply::Result(_) => {
                self.cancelled = true;
                Ok(true)
            }
            // D2 says so when the task had ended; whether it had is looked at.
            Reply::Error(error) => {
                if !error.get().contains("already") {
                    self.violations.push(format!("{task}: tasks/cancel gives the error {}", error.get()));
                }
                Ok(true)
            }
        }
    }
}
