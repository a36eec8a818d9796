//! The steps of tasks, each a row: the rows of one task are numbered in the order in which its steps began.

use rusqlite::{Connection, Row, params};

use super::{
    fault::corrupt,
    row::signed,
    sql,
    tx::{Site, Tx},
};
use crate::{
    Fingerprint, Json, Question, Record, Step, StepState, StoreError, TaskId, Time, transition::Noted,
};

/// The steps of a task, in the order in which they began.
pub(super) fn all(conn: &Connection, site: &Site, task: u64) -> Result<Vec<Step>, StoreError> {
    let mut steps = read(conn, site, sql::STEPS, params![signed(task)])?;
    steps.sort_by_key(|(ord, _)| *ord);
    Ok(steps.into_iter().map(|(_, step)| step).collect())
}

/// The questions of a task that wait for an answer, in the order in which they were asked.
pub(super) fn questions(conn: &Connection, site: &Site, task: u64) -> Result<Vec<Question>, StoreError> {
    let steps = read(conn, site, sql::QUESTIONS, params![signed(task)])?;
    let asked = steps.into_iter().filter_map(|(_, step)| match step.state {
        StepState::Asked(question) => Some(question),
        _ => None,
    });
    Ok(asked.collect())
}

/// The step of a task under this key.
pub(super) fn find(tx: &Tx<'_>, task: u64, key: &str) -> Result<Option<Step>, StoreError> {
    let found = read(tx.conn, tx.site, sql::STEP, params![signed(task), key])?;
    Ok(found.into_iter().next().map(|(_, step)| step))
}

/// Forgets some, then puts each of the others in the place of the one under its key, or behind the others.
pub(super) fn note(tx: &mut Tx<'_>, task: u64, record: &Record, noted: &Noted) -> Result<(), StoreError> {
    let (task, steps) = (signed(task), &noted.steps);
    for key in &noted.forgotten {
        tx.execute(sql::FORGET_STEP, params![task, &**key])?;
    }
    let is_asked = |step: &Step| matches!(step.state, StepState::Asked(_));
    // New questions come behind those that wait already.
    let last: i64 = if steps.iter().any(is_asked) {
        tx.prepare(sql::LAST_ASKED)?
            .query_row(params![task], |row| row.get(0))
            .map_err(|error| tx.site.error("reading what a task asks", error))?
    } else {
        0
    };
    for step in steps {
        let row = Columns::of(step);
        let place = record.questions.iter().position(|question| question.step == step.key);
        let asked = is_asked(step).then(|| last.saturating_add(1 + place.unwrap_or(0) as i64));
        tx.execute(
            sql::PUT_STEP,
            params![
                task,
                &*step.key,
                step.of.as_bytes().as_slice(),
                row.state,
                row.name,
                asked,
                row.asked_at.map(Time::unix_ms),
                row.until.map(Time::unix_ms),
                row.json,
            ],
        )?;
    }
    Ok(())
}

/// Removes all of a task's.
pub(super) fn remove(tx: &mut Tx<'_>, task: u64) -> Result<(), StoreError> {
    tx.execute(sql::REMOVE_STEPS, params![signed(task)]).map(drop)
}

/// The columns that say how far a step is.
struct Columns<'a> {
    state: i64,
    name: Option<&'a str>,
    asked_at: Option<Time>,
    until: Option<Time>,
    json: Option<&'a str>,
}

impl<'a> Columns<'a> {
    fn of(step: &'a Step) -> Self {
        let blank = Self { state: BEGUN, name: None, asked_at: None, until: None, json: None };
        match &step.state {
            StepState::Begun => blank,
            StepState::Asked(question) => Self {
                state: ASKED,
                name: Some(&question.key),
                asked_at: Some(question.asked_at),
                until: question.deadline,
                json: Some(question.request.as_str()),
            },
            StepState::Owed => Self { state: OWED, ..blank },
            StepState::Child(task) => Self { state: CHILD, name: Some(task.as_str()), ..blank },
            StepState::Due(at) => Self { state: DUE, until: Some(*at), ..blank },
            StepState::Learnt { value, is_error } => {
                Self { state: if *is_error { FAILED } else { LEARNT }, json: Some(value.as_str()), ..blank }
            }
        }
    }
}

fn read(
    conn: &Connection,
    site: &Site,
    sql: &str,
    values: &[&dyn rusqlite::ToSql],
) -> Result<Vec<(i64, Step)>, StoreError> {
    let failed = |error| site.error("reading the steps of a task", error);
    let mut statement = conn.prepare_cached(sql).map_err(failed)?;
    let mut rows = statement.query(values).map_err(failed)?;
    let mut steps = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        steps.push((row.get(0).map_err(damaged)?, decode(row)?));
    }
    Ok(steps)
}

fn decode(row: &Row<'_>) -> Result<Step, StoreError> {
    let text = |index: usize| row.get_ref(index).map_err(damaged)?.as_str().map_err(damaged);
    let json = || Json::parse(text(7)?).map_err(damaged);
    let time = |index: usize| row.get::<_, i64>(index).map(Time::from_unix_ms).map_err(damaged);
    let key: std::sync::Arc<str> = text(1)?.into();
    let of = row.get::<_, [u8; Fingerprint::LEN]>(2).map(Fingerprint::new).map_err(damaged)?;
    let state = match row.get::<_, i64>(3).map_err(damaged)? {
        BEGUN => StepState::Begun,
        ASKED => {
            let deadline: Option<i64> = row.get(6).map_err(damaged)?;
            StepState::Asked(Question {
                key: text(4)?.into(),
                step: key.clone(),
                of,
                request: json()?,
                asked_at: time(5)?,
                deadline: deadline.map(Time::from_unix_ms),
            })
        }
        DUE => StepState::Due(time(6)?),
        OWED => StepState::Owed,
        CHILD => StepState::Child(TaskId::new(text(4)?).map_err(damaged)?),
        LEARNT => StepState::Learnt { value: json()?, is_error: false },
        FAILED => StepState::Learnt { value: json()?, is_error: true },
        other => return Err(damaged(format!("state {other}"))),
    };
    Ok(Step::new(key, of, state))
}

fn damaged(why: impl std::fmt::Display) -> StoreError {
    corrupt(format!("a step of a task: {why}"))
}

// States as they are stored; the number of an open question stands in a partial index.
const BEGUN: i64 = 0;
const ASKED: i64 = 1;
const DUE: i64 = 2;
const LEARNT: i64 = 3;
const FAILED: i64 = 4;
const OWED: i64 = 5;
const CHILD: i64 = 6;
