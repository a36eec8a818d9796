//! The steps and parts of tasks, each a row.

use std::collections::HashMap;

use tokio_postgres::Row;

use super::{
    fault::{Fault, damaged},
    link::Session,
    sql,
    tx::{Tx, int, time},
    value::Value,
};
use crate::{
    Batch, Question, Record, Step,
    networked::beside::Beside,
    row::{
        self, Cells as _, part, signed,
        step::{self, Columns, is_asked},
    },
    transition::Noted,
};

/// What is kept of a task beside its row that this report is held against.
pub(super) async fn beside(tx: &Tx, task: u64, batch: &Batch) -> Result<Beside, Fault> {
    let bytes = |keys: Vec<_>| keys.into_iter().map(str::as_bytes).collect::<Vec<_>>();
    let (steps, parts) = Beside::wanted(batch);
    let (steps, parts) = (bytes(steps), bytes(parts));
    let mut beside = Beside::default();
    for step in find(tx, task, &steps).await? {
        beside.steps.insert(step.key.to_string(), step);
    }
    if !parts.is_empty() {
        let values = [Value::count(task), Value::AllBytes(Some(&parts))];
        for row in tx.query("reading the parts of a task", sql::PARTS_OF, &values).await? {
            let key = row.text(0).map_err(damaged)?.unwrap_or_default();
            beside.parts.insert(key.to_owned());
        }
    }
    Ok(beside)
}

/// The step of a task under this key.
pub(super) async fn find_one(tx: &Tx, task: u64, key: &str) -> Result<Option<Step>, Fault> {
    Ok(find(tx, task, &[key.as_bytes()]).await?.pop())
}

async fn find(tx: &Tx, task: u64, keys: &[&[u8]]) -> Result<Vec<Step>, Fault> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let values = [Value::count(task), Value::AllBytes(Some(keys))];
    let rows = tx.query("reading the steps of a task", sql::STEPS_OF, &values).await?;
    rows.iter().map(|row| Ok(step::decode(row)?.1)).collect()
}

/// The steps of a task, in the order in which they began.
pub(super) async fn all(session: &Session, task: u64) -> Result<Vec<Step>, Fault> {
    let rows = session.query("reading the steps of a task", sql::STEPS, &[Value::count(task)]).await?;
    rows.iter().map(|row| Ok(step::decode(row)?.1)).collect()
}

/// Where [`sql::QUESTIONS`] says whose a step is: behind what is read of any.
const OF_TASK: usize = 8;

/// The questions of some tasks that wait for an answer, read by one statement.
#[derive(Debug, Default)]
pub(super) struct Asked(HashMap<i64, Vec<Row>>);

impl Asked {
    /// Those of the tasks of these rows, if any asks something.
    pub(super) async fn of(session: &Session, rows: &[Row]) -> Result<Self, Fault> {
        // A row that does not say is damaged, as whoever reads its record will find.
        let asks = |row: &&Row| row::asked(*row).is_ok_and(|asked| asked > 0);
        let tasks: Vec<_> =
            rows.iter().filter(asks).filter_map(|row| row::ord(row).ok()).map(signed).collect();
        let mut asked = Self::default();
        if !tasks.is_empty() {
            let rows =
                session.query("reading what tasks ask", sql::QUESTIONS, &[Value::Ints(&tasks)]).await?;
            for row in rows {
                asked.0.entry(int(&row, OF_TASK)?).or_default().push(row);
            }
        }
        Ok(asked)
    }

    /// Those of one of them, in the order in which they were asked.
    pub(super) fn questions(&self, task: u64) -> Result<Vec<Question>, Fault> {
        let rows = self.0.get(&signed(task)).map_or(&[][..], Vec::as_slice);
        let steps = rows.iter().map(step::decode).collect::<Result<Vec<_>, _>>()?;
        Ok(step::questions(steps))
    }
}

/// Forgets some steps, puts each of the others in the place of the one under its key or behind the others, and new parts
/// behind the parts, which the record counts already.
pub(super) async fn note(tx: &mut Tx, task: u64, record: &Record, noted: &Noted) -> Result<(), Fault> {
    let of = Value::count(task);
    for key in &noted.forgotten {
        tx.execute(sql::FORGET_STEP, &[of, Value::words(key)]).await?;
    }
    // New questions come behind those that wait already.
    let last = if noted.steps.iter().any(is_asked) {
        let found = tx.query("reading what a task asks", sql::LAST_ASKED, &[of]).await?;
        int(found.first().ok_or_else(|| damaged("what a task asks"))?, 0)?
    } else {
        0
    };
    for step in &noted.steps {
        let row = Columns::of(step);
        let place = record.questions.iter().position(|question| question.step == step.key);
        let asked = is_asked(step).then(|| last.saturating_add(1 + place.unwrap_or(0) as i64));
        let values = [
            of,
            Value::words(&step.key),
            Value::Bytes(Some(step.of.as_bytes().as_slice())),
            Value::int(row.state),
            Value::maybe_words(row.name.as_deref()),
            Value::Int(asked),
            time(row.asked_at),
            time(row.until),
            Value::Text(row.json),
        ];
        tx.execute(sql::PUT_STEP, &values).await?;
    }
    let before = u64::from(record.parts) - noted.parts.len() as u64;
    for (nth, part) in (before + 1..).zip(&noted.parts) {
        let kind = Value::int(part::kind(&part.content));
        let values =
            [of, Value::count(nth), Value::words(&part.key), kind, Value::words(part.content.as_str())];
        tx.execute(sql::ADD_PART, &values).await?;
    }
    Ok(())
}
