//! The steps of tasks, each a row: the rows of one task are numbered in the order in which its steps began.

use rusqlite::{Connection, params};

use super::{
    sql,
    tx::{Site, Tx},
};
use crate::{
    Question, Record, Scope, SeenSteps, Step, StoreError, TaskId, Time,
    row::{
        self, Place, signed,
        step::{self, Columns, is_asked},
    },
    transition::Noted,
};

/// The steps of a task, in the order in which they began.
pub(super) fn all(conn: &Connection, site: &Site, task: u64) -> Result<Vec<Step>, StoreError> {
    let mut steps = read(conn, site, sql::STEPS, params![signed(task)])?;
    steps.sort_by_key(|(ord, _)| *ord);
    Ok(steps.into_iter().map(|(_, step)| step).collect())
}

/// What is seen of those of a task behind the first `after`.
pub(super) fn seen(
    conn: &Connection,
    site: &Site,
    scope: Scope<'_>,
    id: &TaskId,
    after: u64,
    limit: usize,
    now: Time,
) -> Result<Option<SeenSteps>, StoreError> {
    let failed = |error| site.error("reading the steps of a task", error);
    let owner = match scope {
        Scope::Owner(owner) => Some(row::encode_owner(owner)),
        Scope::Operator => None,
    };
    let mut of_task = conn.prepare_cached(sql::GET).map_err(failed)?;
    let mut found = of_task.query(params![id.as_str(), owner]).map_err(failed)?;
    // It stays under way, so that the steps are those of the same moment.
    let Some(task) = found.next().map_err(failed)? else { return Ok(None) };
    let place = Place::of(task, now)?;
    if !place.is_visible() {
        return Ok(None);
    }
    let mut statement = conn.prepare_cached(sql::SEEN_STEPS).map_err(failed)?;
    let mut rows = statement.query(params![signed(place.ord)]).map_err(failed)?;
    let mut steps = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        steps.push(step::seen(row)?);
    }
    steps.sort_by_key(|(ord, _)| *ord);
    Ok(Some(SeenSteps::among(steps.into_iter().map(|(_, step)| step), after, limit)))
}

/// The questions of a task that wait for an answer, in the order in which they were asked.
pub(super) fn questions(conn: &Connection, site: &Site, task: u64) -> Result<Vec<Question>, StoreError> {
    read(conn, site, sql::QUESTIONS, params![signed(task)]).map(step::questions)
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
                row.name.as_deref(),
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
        steps.push(step::decode(row)?);
    }
    Ok(steps)
}
