//! A step as a row and back.

use std::{borrow::Cow, fmt, sync::Arc};

use super::{Cells, decode_owner, encode_owner};
use crate::{
    Answerer, Fingerprint, Json, Question, SeenState, SeenStep, Step, StepState, StoreError, TaskId, Time,
    error::corrupt,
};

/// The columns of a step, as [`decode`] reads them.
macro_rules! step_columns {
    () => {
        "ord, key, fingerprint, state, name, asked_at, until, json"
    };
}

/// The columns of what is seen of a step, as [`seen`] reads them.
macro_rules! seen_columns {
    () => {
        "ord, key, state, name, asked_at, until"
    };
}

pub(crate) use {seen_columns, step_columns};

/// The columns that say how far a step is. One that is learnt has its time where others have one until which they last, and who
/// answered where a question has its name; each began when a question was asked: so they need no more columns than the first
/// releases made.
pub(crate) struct Columns<'a> {
    pub(crate) state: i64,
    pub(crate) name: Option<Cow<'a, str>>,
    pub(crate) asked_at: Option<Time>,
    pub(crate) until: Option<Time>,
    pub(crate) json: Option<&'a str>,
}

impl<'a> Columns<'a> {
    pub(crate) fn of(step: &'a Step) -> Self {
        let blank = Self { state: BEGUN, name: None, asked_at: step.began_at, until: None, json: None };
        match &step.state {
            StepState::Begun => blank,
            StepState::Asked(question) => Self {
                state: ASKED,
                name: Some((&*question.key).into()),
                asked_at: Some(question.asked_at),
                until: question.deadline,
                json: Some(question.request.as_str()),
            },
            StepState::Owed => Self { state: OWED, ..blank },
            StepState::Child(task) => Self { state: CHILD, name: Some(task.as_str().into()), ..blank },
            StepState::Due(at) => Self { state: DUE, until: Some(*at), ..blank },
            StepState::Learnt { value, is_error } => Self {
                state: if *is_error { FAILED } else { LEARNT },
                name: step.answered_by.as_ref().map(encode_answerer),
                until: step.learnt_at,
                json: Some(value.as_str()),
                ..blank
            },
        }
    }
}

/// Reads a step, and its place among those of its task.
pub(crate) fn decode(row: &impl Cells) -> Result<(i64, Step), StoreError> {
    let maybe_int = |at: usize| row.int(at).map_err(damaged);
    let int = |at: usize| maybe_int(at)?.ok_or_else(|| damaged("null"));
    let text = |at: usize| row.text(at).map_err(damaged)?.ok_or_else(|| damaged("null"));
    let json = || Json::parse(text(7)?).map_err(damaged);
    let time = |at: usize| int(at).map(Time::from_unix_ms);
    let key: Arc<str> = text(1)?.into();
    let of = row.bytes(2).map_err(damaged)?.ok_or_else(|| damaged("null"))?;
    let of = Fingerprint::new(of.try_into().map_err(damaged)?);
    let state = match int(3)? {
        BEGUN => StepState::Begun,
        ASKED => StepState::Asked(Question {
            key: text(4)?.into(),
            step: key.clone(),
            of,
            request: json()?,
            asked_at: time(5)?,
            deadline: maybe_int(6)?.map(Time::from_unix_ms),
        }),
        DUE => StepState::Due(time(6)?),
        OWED => StepState::Owed,
        CHILD => StepState::Child(TaskId::new(text(4)?).map_err(damaged)?),
        LEARNT => StepState::Learnt { value: json()?, is_error: false },
        FAILED => StepState::Learnt { value: json()?, is_error: true },
        other => return Err(damaged(format!("state {other}"))),
    };
    let began = maybe_int(5)?.map(Time::from_unix_ms);
    let (learnt, by) = match state {
        StepState::Learnt { .. } => (maybe_int(6)?.map(Time::from_unix_ms), answered_by(row, 4)?),
        _ => (None, None),
    };
    Ok((int(0)?, Step::new(key, of, state).between(began, learnt).answered(by)))
}

/// Reads what is seen of a step, and its place among those of its task.
pub(crate) fn seen(row: &impl Cells) -> Result<(i64, SeenStep), StoreError> {
    let maybe_time = |at: usize| Ok(row.int(at).map_err(damaged)?.map(Time::from_unix_ms));
    let int = |at: usize| row.int(at).map_err(damaged)?.ok_or_else(|| damaged("null"));
    let text = |at: usize| row.text(at).map_err(damaged)?.ok_or_else(|| damaged("null"));
    let (began_at, until) = (maybe_time(4)?, maybe_time(5)?);
    let state = match int(2)? {
        BEGUN => SeenState::Begun,
        ASKED => SeenState::Asked,
        DUE => SeenState::Due(until.ok_or_else(|| damaged("null"))?),
        OWED => SeenState::Owed,
        CHILD => SeenState::Child(TaskId::new(text(3)?).map_err(damaged)?),
        LEARNT => SeenState::Learnt,
        FAILED => SeenState::Failed,
        other => return Err(damaged(format!("state {other}"))),
    };
    let (learnt_at, answered_by) = match state {
        SeenState::Learnt | SeenState::Failed => (until, answered_by(row, 3)?),
        _ => (None, None),
    };
    Ok((int(0)?, SeenStep { key: text(1)?.into(), state, began_at, learnt_at, answered_by }))
}

/// Who answered what is learnt, if anybody did.
fn answered_by(row: &impl Cells, at: usize) -> Result<Option<Answerer>, StoreError> {
    let Some(text) = row.text(at).map_err(damaged)? else { return Ok(None) };
    match text.strip_prefix(CALLER) {
        Some(owner) => decode_owner(owner).map(Answerer::Caller).map(Some),
        None if text == OPERATOR => Ok(Some(Answerer::Operator)),
        None => Err(damaged(format!("answered by {text:?}"))),
    }
}

fn encode_answerer(answerer: &Answerer) -> Cow<'_, str> {
    match answerer {
        Answerer::Caller(owner) => format!("{CALLER}{}", encode_owner(owner)).into(),
        Answerer::Operator => OPERATOR.into(),
    }
}

/// Whether a step is a question that waits for an answer.
pub(crate) fn is_asked(step: &Step) -> bool {
    matches!(step.state, StepState::Asked(_))
}

/// The questions among the steps that a store has found.
pub(crate) fn questions(steps: Vec<(i64, Step)>) -> Vec<Question> {
    let asked = steps.into_iter().filter_map(|(_, step)| match step.state {
        StepState::Asked(question) => Some(question),
        _ => None,
    });
    asked.collect()
}

fn damaged(why: impl fmt::Display) -> StoreError {
    corrupt(format!("a step of a task: {why}"))
}

// Who answered, as it is stored: an owner stands behind the first.
const CALLER: &str = "caller:";
const OPERATOR: &str = "operator";

// States as they are stored; the number of an open question stands in a partial index.
const BEGUN: i64 = 0;
const ASKED: i64 = 1;
const DUE: i64 = 2;
const LEARNT: i64 = 3;
const FAILED: i64 = 4;
const OWED: i64 = 5;
const CHILD: i64 = 6;
