//! What of a task is sealed on its way in, and opened on its way out.

use std::sync::Arc;

use super::keys::{MARK, Place, Unopened};
use super::{Sealing, fitting};
use crate::{
    Batch, ChildEnd, Created, Json, Limits, NewTask, Outcome, Part, PartContent, Parts, Phase, Progress,
    Question, Record, Reply, Step, StepState, StoreError, TaskId,
};

impl Sealing {
    pub(super) fn seal_new(&self, mut task: NewTask) -> NewTask {
        task.arguments = self.seal_json("arguments", &task.id, "", &task.arguments);
        task.caller = self.seal_json("caller", &task.id, "", &task.caller);
        task.status_message = task.status_message.map(|words| self.seal_words(&task.id, &words));
        task.steps = task.steps.into_iter().map(|step| self.seal_step(&task.id, step)).collect();
        task
    }

    pub(super) fn seal_batch(&self, id: &TaskId, mut batch: Batch) -> Batch {
        batch.status_message = batch.status_message.map(|words| self.seal_words(id, &words));
        batch.progress = batch.progress.map(|Progress { value, total, message }| {
            let message = message.map(|words| self.seal_words(id, &words));
            Progress { value, total, message }
        });
        batch.steps = batch.steps.into_iter().map(|step| self.seal_step(id, step)).collect();
        batch.parts = batch.parts.into_iter().map(|part| self.seal_part(id, part)).collect();
        if let Some(mut child) = batch.child.take() {
            child.task = self.seal_new(child.task);
            batch.child = Some(child);
        }
        batch
    }

    pub(super) fn seal_reply(&self, id: &TaskId, reply: &Reply) -> Reply {
        Reply { value: self.seal_json("step", id, &reply.key, &reply.value), ..reply.clone() }
    }

    pub(super) fn seal_outcome(&self, id: &TaskId, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Result { value, is_error } => {
                Outcome::Result { value: self.seal_json("result", id, "", &value), is_error }
            }
            Outcome::Error { code, message, data } => {
                let data = data.map(|data| self.seal_json("data", id, "", &data));
                Outcome::Error { code, message: self.seal_words(id, &message), data }
            }
            Outcome::Cancelled { reason } => {
                Outcome::Cancelled { reason: reason.map(|reason| self.seal_words(id, &reason)) }
            }
            Outcome::Lost { reason } => Outcome::Lost { reason: self.seal_words(id, &reason) },
        }
    }

    fn seal_step(&self, id: &TaskId, mut step: Step) -> Step {
        match &mut step.state {
            StepState::Asked(Question { key, request, .. }) => {
                *request = self.seal_json("question", id, key, request);
            }
            StepState::Learnt { value, .. } => *value = self.seal_json("step", id, &step.key, value),
            StepState::Begun | StepState::Due(_) | StepState::Child(_) | StepState::Owed => {}
        }
        step
    }

    fn seal_part(&self, id: &TaskId, Part { key, content }: Part) -> Part {
        let content = match content {
            PartContent::Text(text) => {
                PartContent::Text(self.keys.seal_text(place("part", id), &key, &text).into())
            }
            PartContent::Json(json) => PartContent::Json(self.seal_json("part", id, &key, &json)),
        };
        Part { key, content }
    }

    fn seal_json(&self, kind: &'static str, id: &TaskId, like: &str, json: &Json) -> Json {
        let sealed = self.keys.seal_text(place(kind, id), like, json.as_str());
        Json::parse(format!("\"{sealed}\"")).expect("letters, digits, dots and dashes are a string")
    }

    /// Why somebody cancels. Its end is left out if it is too long: a cancel must not fail for its words.
    pub(super) fn seal_reason(&self, id: &TaskId, reason: &str, limits: &Limits) -> Arc<str> {
        self.seal_words(id, &reason[..reason.floor_char_boundary(fitting(limits.max_text))])
    }

    /// The store may tell them of another task, so they are not of one.
    fn seal_words(&self, id: &TaskId, words: &str) -> Arc<str> {
        self.keys.seal_text(WORDS, id.as_str(), words).into()
    }

    pub(super) fn open_created(&self, created: Created) -> Result<Created, StoreError> {
        Ok(match created {
            Created::New(record) => Created::New(self.open(record)?),
            Created::Joined(record) => Created::Joined(self.open(record)?),
            Created::Again(record) => Created::Again(self.open(record)?),
        })
    }

    pub(super) fn open(&self, mut record: Record) -> Result<Record, StoreError> {
        let id = &record.id;
        record.arguments = self.open_json("arguments", id, &record.arguments)?;
        record.caller = self.open_json("caller", id, &record.caller)?;
        record.status_message = self.open_if_any(id, record.status_message)?;
        if let Some(progress) = &mut record.progress {
            progress.message = self.open_if_any(id, progress.message.take())?;
        }
        for question in &mut record.questions {
            question.request = self.open_json("question", id, &question.request)?;
        }
        // Without words there is nothing to open.
        if let Some(reason) = record.cancelling.take() {
            record.cancelling = Some(if reason.is_empty() { reason } else { self.open_words(id, reason)? });
        }
        if let Phase::Done(outcome) = record.phase {
            record.phase = Phase::Done(self.open_outcome(id, outcome)?);
        }
        Ok(record)
    }

    pub(super) fn open_step(&self, id: &TaskId, mut step: Step) -> Result<Step, StoreError> {
        match &mut step.state {
            StepState::Asked(question) => {
                question.request = self.open_json("question", id, &question.request)?
            }
            StepState::Learnt { value, .. } => *value = self.open_learnt(id, value)?,
            StepState::Begun | StepState::Due(_) | StepState::Child(_) | StepState::Owed => {}
        }
        Ok(step)
    }

    pub(super) fn open_parts(&self, id: &TaskId, mut parts: Parts) -> Result<Parts, StoreError> {
        for part in &mut parts.parts {
            *part = match part {
                PartContent::Json(json) => PartContent::Json(self.open_json("part", id, json)?),
                PartContent::Text(text) => match self.keys.open_text(place("part", id), text) {
                    Some(opened) => PartContent::Text(opened.map_err(|why| refusal("part", id, why))?.into()),
                    None if self.reads_plain => continue,
                    None => return Err(not_sealed("part", id)),
                },
            };
        }
        Ok(parts)
    }

    /// What a step came to. The end of a child is put there by the store, of what is sealed for the child.
    fn open_learnt(&self, id: &TaskId, value: &Json) -> Result<Json, StoreError> {
        if let Some(opened) = self.open_sealed("step", id, value) {
            return opened;
        }
        match ChildEnd::read(value) {
            Ok(ChildEnd { task, outcome }) => {
                let outcome = self.open_outcome(&task, outcome)?;
                Ok(ChildEnd::new(task, outcome).to_json())
            }
            Err(_) if self.reads_plain => Ok(value.clone()),
            Err(_) => Err(not_sealed("step", id)),
        }
    }

    fn open_outcome(&self, id: &TaskId, outcome: Outcome) -> Result<Outcome, StoreError> {
        Ok(match outcome {
            Outcome::Result { value, is_error } => {
                Outcome::Result { value: self.open_json("result", id, &value)?, is_error }
            }
            Outcome::Error { code, message, data } => {
                // The store says itself why some tasks ended.
                let open = |data: Json| self.open_sealed("data", id, &data).unwrap_or(Ok(data));
                let data = data.map(open).transpose()?;
                Outcome::Error { code, message: self.open_words(id, message)?, data }
            }
            Outcome::Cancelled { reason } => Outcome::Cancelled { reason: self.open_if_any(id, reason)? },
            Outcome::Lost { reason } => Outcome::Lost { reason: self.open_words(id, reason)? },
        })
    }

    fn open_json(&self, kind: &'static str, id: &TaskId, json: &Json) -> Result<Json, StoreError> {
        match self.open_sealed(kind, id, json) {
            Some(opened) => opened,
            None if self.reads_plain => Ok(json.clone()),
            None => Err(not_sealed(kind, id)),
        }
    }

    /// `None` if it does not look sealed.
    fn open_sealed(&self, kind: &'static str, id: &TaskId, json: &Json) -> Option<Result<Json, StoreError>> {
        let text = json.as_str().strip_prefix('"')?.strip_suffix('"')?;
        let opened = self.keys.open_text(place(kind, id), text)?;
        let read = |text| Json::parse(text).map_err(|_| Unopened::Damaged);
        Some(opened.and_then(read).map_err(|why| refusal(kind, id, why)))
    }

    fn open_if_any(&self, id: &TaskId, words: Option<Arc<str>>) -> Result<Option<Arc<str>>, StoreError> {
        words.map(|words| self.open_words(id, words)).transpose()
    }

    /// What the store says itself is not sealed, but it may go on with words that are.
    fn open_words(&self, id: &TaskId, words: Arc<str>) -> Result<Arc<str>, StoreError> {
        let Some(at) = words.find(MARK) else { return Ok(words) };
        let (before, sealed) = words.split_at(at);
        let Some(opened) = self.keys.open_text(WORDS, sealed) else { return Ok(words) };
        let opened = opened.map_err(|why| refusal("words", id, why))?;
        Ok(if before.is_empty() { opened.into() } else { format!("{before}{opened}").into() })
    }
}

const WORDS: Place<'static> = Place { kind: "words", of: "" };

fn place<'a>(kind: &'static str, id: &'a TaskId) -> Place<'a> {
    Place { kind, of: id.as_str() }
}

/// Why something of a task does not open.
fn refusal(kind: &str, id: &TaskId, why: Unopened) -> StoreError {
    super::refusal(format!("{kind} of task {id}"), why)
}

fn not_sealed(kind: &str, id: &TaskId) -> StoreError {
    StoreError::NotSealed { what: format!("{kind} of task {id}") }
}
