//! Reads: each of one moment.

use std::collections::HashSet;

use tokio_postgres::Row;

use super::{
    Site,
    fault::{Fault, damaged, pass_over},
    link::Session,
    sql, steps,
    tx::{int, text},
    value::Value,
};
use crate::{
    CallKey, Counts, Cursor, Epoch, Filter, NodeId, Owner, Page, Parts, Record, Runnable, Scope, Step,
    StoreError, TaskId, Time, ToolVersion,
    page::{LARGEST_PAGE, LONGEST_SCAN},
    part::{LARGEST_STRETCH, LONGEST_STRETCH},
    row::{self, Cells as _, Place, encode_owner, part, signed},
    transition,
};

/// Something that is read. It may be tried several times, so it keeps what it was given.
pub(super) trait Look: Send + Sync + 'static {
    /// What is found.
    type Found: Send + 'static;

    /// Whether it takes several statements, which must see the same moment.
    const SEVERAL: bool = true;

    fn look<'a>(
        &'a self,
        session: &'a Session,
        site: &'a Site,
    ) -> impl Future<Output = Result<Self::Found, Fault>> + Send + 'a;
}

/// Looks once.
pub(super) async fn attempt<L: Look>(site: &Site, look: &L) -> Result<L::Found, Fault> {
    let mut session = Session::take(&site.pool, site.is_pooled).await?;
    if !L::SEVERAL {
        return look.look(&session, site).await;
    }
    session.begin(sql::BEGIN_READ).await?;
    let found = look.look(&session, site).await;
    session.roll_back().await;
    found
}

/// The record of a row that is no tombstone, with what its task asks.
pub(super) async fn record(session: &Session, row: &Row) -> Result<Record, Fault> {
    let mut record = row::decode(row)?;
    if row::asked(row)? > 0 {
        record.questions = steps::questions(session, row::ord(row)?).await?;
    }
    Ok(record)
}

/// The record of a row that a reader may see.
async fn visible(session: &Session, row: Option<&Row>, now: Time) -> Result<Option<Record>, Fault> {
    match row {
        Some(row) if Place::of(row, now)?.is_visible() => record(session, row).await.map(Some),
        _ => Ok(None),
    }
}

/// A task that asks nothing, which is nearly every one, in one statement.
pub(super) struct Get {
    pub(super) owner: Option<Owner>,
    pub(super) id: TaskId,
}

impl Get {
    async fn row(&self, session: &Session) -> Result<Option<Row>, Fault> {
        let owner = Value::maybe_words(self.owner.as_ref().map(encode_owner));
        let values = [Value::text(self.id.as_str()), owner];
        Ok(session.query("reading a task", sql::GET, &values).await?.pop())
    }
}

/// `None` if it asks something: then it takes several statements.
impl Look for Get {
    type Found = Option<Option<Record>>;

    const SEVERAL: bool = false;

    async fn look(&self, session: &Session, site: &Site) -> Result<Self::Found, Fault> {
        let row = self.row(session).await?;
        match &row {
            Some(row) if Place::of(row, site.clock.now())?.is_visible() => {
                if row::asked(row)? > 0 {
                    Ok(None)
                } else {
                    Ok(Some(Some(row::decode(row)?)))
                }
            }
            _ => Ok(Some(None)),
        }
    }
}

/// A task and what it asks.
pub(super) struct GetAsking(pub(super) Get);

impl Look for GetAsking {
    type Found = Option<Record>;

    async fn look(&self, session: &Session, site: &Site) -> Result<Self::Found, Fault> {
        let row = self.0.row(session).await?;
        visible(session, row.as_ref(), site.clock.now()).await
    }
}

/// The task of an owner that was created under a key.
pub(super) struct Called {
    pub(super) owner: Owner,
    pub(super) key: CallKey,
}

impl Look for Called {
    type Found = Option<Record>;

    async fn look(&self, session: &Session, site: &Site) -> Result<Self::Found, Fault> {
        let values = [Value::words(encode_owner(&self.owner)), Value::text(self.key.as_str())];
        let row = session.query("looking for a call by its key", sql::CALLED, &values).await?.pop();
        visible(session, row.as_ref(), site.clock.now()).await
    }
}

/// The steps of a task that is held.
pub(super) struct Steps {
    pub(super) id: TaskId,
    pub(super) epoch: Epoch,
}

impl Look for Steps {
    type Found = Vec<Step>;

    async fn look(&self, session: &Session, _: &Site) -> Result<Self::Found, Fault> {
        let values = [Value::text(self.id.as_str()), Value::Bytes(None)];
        match session.query("reading a task", sql::GET, &values).await?.first() {
            Some(row) if !row::is_tombstone(row)? => {
                transition::check_held(&row::decode(row)?, self.epoch)?;
                steps::all(session, row::ord(row)?).await
            }
            _ => Err(StoreError::Fenced { id: self.id.clone(), held: self.epoch }.into()),
        }
    }
}

/// A stretch of the parts of a task.
pub(super) struct PartsOf {
    pub(super) task: Get,
    pub(super) after: u64,
    pub(super) limit: usize,
}

impl Look for PartsOf {
    type Found = Option<Parts>;

    async fn look(&self, session: &Session, site: &Site) -> Result<Self::Found, Fault> {
        let Some(row) = self.task.row(session).await? else { return Ok(None) };
        let place = Place::of(&row, site.clock.now())?;
        if !place.is_visible() {
            return Ok(None);
        }
        let total = row::parts(&row)?;
        let (mut parts, mut bytes, start) = (Vec::new(), 0, self.after.min(total));
        let limit = self.limit.clamp(1, LONGEST_STRETCH);
        // A part may be large, so they come a few at a time.
        'all: while parts.len() < limit {
            let few = (limit - parts.len()).min(FEW);
            let behind = Value::count(start + parts.len() as u64);
            let values = [Value::count(place.ord), behind, Value::count(few as u64)];
            let rows = session.query("reading the parts of a task", sql::PARTS, &values).await?;
            for row in &rows {
                let part = part::decode(row)?;
                bytes += part.as_str().len();
                if bytes > LARGEST_STRETCH && !parts.is_empty() {
                    break 'all;
                }
                parts.push(part);
            }
            if rows.len() < few {
                break;
            }
        }
        Ok(Some(Parts::new(start, parts, total, place.is_terminal())))
    }
}

/// A page of tasks.
pub(super) struct List {
    pub(super) owner: Option<Owner>,
    pub(super) filter: Filter,
    /// Only what can be claimed, if anything can, now that these nodes are dead.
    pub(super) claimable: Option<Vec<NodeId>>,
    pub(super) before: u64,
    pub(super) limit: usize,
}

impl Look for List {
    type Found = Page;

    async fn look(&self, session: &Session, site: &Site) -> Result<Page, Fault> {
        let now = site.clock.now();
        let scope = self.owner.as_ref().map_or(Scope::Operator, Scope::Owner);
        let sql = match (scope, self.filter.open_only) {
            (Scope::Owner(_), false) => sql::LIST_OWN,
            (Scope::Owner(_), true) => sql::LIST_OWN_OPEN,
            (Scope::Operator, false) => sql::LIST_ALL,
            (Scope::Operator, true) => sql::LIST_ALL_OPEN,
        };
        let owner = Value::maybe_words(self.owner.as_ref().map(encode_owner));
        let (mut page, mut scanned, mut bytes) = (Page::default(), 0, 0);
        let mut before = self.before;
        // What a task carries may be large, so they come a few at a time.
        loop {
            let few = FEW.min(self.limit.max(16));
            let rows = session
                .query("listing tasks", sql, &[Value::count(before), Value::count(few as u64), owner])
                .await?;
            for row in &rows {
                let place = Place::of(row, now)?;
                before = if self.owner.is_some() { place.nth } else { place.ord };
                scanned += 1;
                if let Some(record) = self.wanted(session, row, place, now).await? {
                    bytes +=
                        record.arguments.as_str().len() + record.outcome().map_or(0, crate::Outcome::len);
                    page.tasks.push(record);
                }
                if page.tasks.len() == self.limit || scanned == LONGEST_SCAN || bytes >= LARGEST_PAGE {
                    page.next = Some(Cursor::behind(scope, before));
                    return Ok(page);
                }
            }
            if rows.len() < few {
                return Ok(page);
            }
        }
    }
}

impl List {
    async fn wanted(
        &self,
        session: &Session,
        row: &Row,
        place: Place,
        now: Time,
    ) -> Result<Option<Record>, Fault> {
        let is_of_tool = match &self.filter.tool {
            Some(tool) => row::tool(row)? == &**tool,
            None => true,
        };
        if !is_of_tool || !place.is_visible() {
            return Ok(None);
        }
        let record = match record(session, row).await {
            Ok(record) => record,
            // It must not hide its neighbours; whoever asks for it by id is told.
            Err(Fault::Refused(error)) => {
                tracing::error!(ord = place.ord, %error, "a damaged task is left out of a list");
                return Ok(None);
            }
            Err(fault) => return Err(fault),
        };
        let is_dead = |node: &NodeId| self.claimable.as_ref().is_some_and(|dead| dead.contains(node));
        let is_wanted = self.claimable.is_none() || transition::is_claimable(&record, now, &is_dead);
        Ok(Some(record).filter(|_| is_wanted))
    }
}

/// How many tasks there are.
pub(super) struct Count;

impl Look for Count {
    type Found = Counts;

    const SEVERAL: bool = false;

    async fn look(&self, session: &Session, _: &Site) -> Result<Counts, Fault> {
        let rows = session.query("counting tasks", sql::TOTALS, &[]).await?;
        let row = rows.first().ok_or_else(|| damaged("the totals"))?;
        let number = |at| int(row, at).map(|number| u64::try_from(number).unwrap_or(0));
        Ok(Counts::new(number(0)?, number(1)?))
    }
}

/// What a claim could take.
pub(super) struct Claimable {
    /// Of phases below this one.
    pub(super) below: i64,
    /// So many at most.
    pub(super) limit: usize,
    /// Of these tools, in these versions.
    pub(super) runs: Option<Vec<Runnable>>,
}

/// The rows that a claim could take, and the nodes that are dead.
pub(super) struct Candidates {
    pub(super) rows: Vec<i64>,
    pub(super) dead: Vec<NodeId>,
}

impl Look for Claimable {
    type Found = Candidates;

    const SEVERAL: bool = false;

    async fn look(&self, session: &Session, site: &Site) -> Result<Candidates, Fault> {
        let now = site.clock.now().unix_ms();
        let me = Value::text(site.node.as_str());
        let holders = session.query("reading who holds leases", sql::HOLDERS, &[me]).await?;
        let (mut nodes, mut dead) = (Vec::new(), Vec::new());
        let mut suspects = Vec::new();
        for row in &holders {
            let name = text(row, 0)?;
            let Ok(node) = NodeId::new(name) else {
                tracing::error!(name, "a lease is damaged and is passed over");
                continue;
            };
            let flag = |at| row.try_get::<_, bool>(at).map_err(damaged);
            match (flag(1)?, flag(2)?) {
                (false, true) => dead.push(node.clone()),
                (true, true) => suspects.push(node.clone()),
                _ => {}
            }
            nodes.push(node);
        }
        dead.extend(site.suspects.dead_of(suspects));
        let mut rows = Vec::new();
        self.collect(session, sql::WAITING, now, None, &mut rows).await?;
        for node in &nodes {
            let until = if dead.contains(node) { i64::MAX } else { now };
            self.collect(session, sql::OVERDUE, now, Some((node, until)), &mut rows).await?;
        }
        Ok(Candidates { rows, dead })
    }
}

impl Claimable {
    async fn collect(
        &self,
        session: &Session,
        sql: &'static str,
        now: i64,
        held: Option<(&NodeId, i64)>,
        found: &mut Vec<i64>,
    ) -> Result<(), Fault> {
        let tools: Option<HashSet<&str>> =
            self.runs.as_ref().map(|runs| runs.iter().map(|run| &*run.tool).collect());
        let tools: Option<Vec<&[u8]>> = tools.map(|tools| tools.iter().map(|tool| tool.as_bytes()).collect());
        let tools = Value::AllBytes(tools.as_deref());
        let (mut behind, mut at) = (i64::MIN, i64::MIN);
        while found.len() < self.limit {
            let few = (self.limit - found.len()).clamp(16, LONGEST_SCAN);
            let mut values = vec![
                Value::int(now),
                Value::int(self.below),
                tools,
                Value::int(behind),
                Value::int(at),
                Value::count(few as u64),
            ];
            if let Some((node, until)) = held {
                values.extend([Value::text(node.as_str()), Value::int(until)]);
            }
            let rows = session.query("looking for tasks to claim", sql, &values).await?;
            for row in &rows {
                (at, behind) = (int(row, 0)?, int(row, 1)?);
                if found.len() < self.limit && self.admits(row)? {
                    found.push(at);
                }
            }
            if rows.len() < few {
                break;
            }
        }
        Ok(())
    }

    fn admits(&self, row: &Row) -> Result<bool, Fault> {
        let Some(runs) = &self.runs else { return Ok(true) };
        let id = TaskId::new(text(row, 2)?).map_err(damaged)?;
        let (Ok(Some(tool)), Ok(Some(version))) = (row.text(3), row.text(4)) else {
            return pass_over(&id, damaged("its tool or the version of that")).map(|()| false);
        };
        let Ok(version) = ToolVersion::new(version) else {
            return pass_over(&id, damaged("the version of its tool")).map(|()| false);
        };
        Ok(runs.iter().any(|run| run.admits(tool, &version)))
    }
}

/// What time demands something of: at most so many.
pub(super) struct Due(pub(super) usize);

impl Look for Due {
    type Found = Vec<TaskId>;

    const SEVERAL: bool = false;

    async fn look(&self, session: &Session, site: &Site) -> Result<Vec<TaskId>, Fault> {
        let values = [Value::int(site.clock.now().unix_ms()), Value::int(signed(self.0 as u64))];
        let rows = session.query("looking for expired tasks", sql::DUE, &values).await?;
        rows.iter().map(|row| TaskId::new(text(row, 0)?).map_err(damaged)).collect()
    }
}

/// How many rows come at once that may be large.
const FEW: usize = 64;
