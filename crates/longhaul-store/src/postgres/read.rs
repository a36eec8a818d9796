//! Reads: each of one moment.

use std::{cmp::Reverse, collections::HashSet, slice, sync::Arc};

use tokio_postgres::Row;

use super::{
    Site,
    fault::{Fault, damaged},
    link::Session,
    sql,
    steps::{self, Asked},
    tx::{int, text},
    value::Value,
};
use crate::{
    Counts, NodeId, Page, Parts, Record, SeenSteps, Step, StoreError, TaskId, Time,
    networked::{
        fault::pass_over,
        look::{
            Called, Candidates, Claimable, Count, Due, FEW, Get, List, ListAmong, Listing, Look, PartsOf,
            SeenStepsOf, Steps, Weigh,
        },
    },
    page::LONGEST_SCAN,
    part::{LARGEST_STRETCH, LONGEST_STRETCH},
    row::{self, Cells as _, Place, encode_owner, part, phase, signed, step},
    transition,
};

/// What is read by: one transaction, unless it takes one statement alone.
pub(super) struct Moment {
    pub(super) session: Session,
    pub(super) site: Arc<Site>,
}

impl crate::networked::look::Moment for Moment {
    type Fault = Fault;
}

/// Looks once.
pub(super) async fn attempt<L: Look<Moment>>(site: &Arc<Site>, look: &L) -> Result<L::Found, Fault> {
    let session = Session::take(&site.pool, site.is_pooled).await?;
    let mut moment = Moment { session, site: Arc::clone(site) };
    if !L::SEVERAL {
        return look.look(&moment).await;
    }
    moment.session.begin(sql::BEGIN_READ).await?;
    let found = look.look(&moment).await;
    moment.session.roll_back().await;
    found
}

/// The record of a row that is no tombstone, with what its task asks.
pub(super) async fn record(session: &Session, row: &Row) -> Result<Record, Fault> {
    whole(row, &Asked::of(session, slice::from_ref(row)).await?)
}

/// The record of one of the rows of which it is known what their tasks ask.
fn whole(row: &Row, asked: &Asked) -> Result<Record, Fault> {
    let mut record = row::decode(row)?;
    if row::asked(row)? > 0 {
        record.questions = asked.questions(row::ord(row)?)?;
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

impl Get {
    async fn row(&self, session: &Session) -> Result<Option<Row>, Fault> {
        let owner = Value::maybe_words(self.owner.as_ref().map(encode_owner));
        let values = [Value::text(self.id.as_str()), owner];
        Ok(session.query("reading a task", sql::GET, &values).await?.pop())
    }
}

/// A task that asks nothing, in one statement.
pub(super) struct Plain(pub(super) Get);

/// `None` if it asks something: then it takes several statements.
impl Look<Moment> for Plain {
    type Found = Option<Option<Record>>;

    const SEVERAL: bool = false;

    async fn look(&self, Moment { session, site }: &Moment) -> Result<Self::Found, Fault> {
        let row = self.0.row(session).await?;
        match &row {
            Some(row) if Place::of(row, site.node.clock.now())?.is_visible() => {
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

impl Look<Moment> for Get {
    type Found = Option<Record>;

    async fn look(&self, Moment { session, site }: &Moment) -> Result<Self::Found, Fault> {
        let row = self.row(session).await?;
        visible(session, row.as_ref(), site.node.clock.now()).await
    }
}

impl Look<Moment> for Called {
    type Found = Option<Record>;

    async fn look(&self, Moment { session, site }: &Moment) -> Result<Self::Found, Fault> {
        let values = [Value::words(encode_owner(&self.owner)), Value::text(self.key.as_str())];
        let row = session.query("looking for a call by its key", sql::CALLED, &values).await?.pop();
        visible(session, row.as_ref(), site.node.clock.now()).await
    }
}

impl Look<Moment> for Steps {
    type Found = Vec<Step>;

    async fn look(&self, Moment { session, .. }: &Moment) -> Result<Self::Found, Fault> {
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

impl Look<Moment> for SeenStepsOf {
    type Found = Option<SeenSteps>;

    async fn look(&self, Moment { session, site }: &Moment) -> Result<Self::Found, Fault> {
        let Some(row) = self.task.row(session).await? else { return Ok(None) };
        let place = Place::of(&row, site.node.clock.now())?;
        if !place.is_visible() {
            return Ok(None);
        }
        let total = row::steps(&row)?;
        let (start, limit) = SeenSteps::bounds(total, self.after, self.limit);
        let values = [Value::count(place.ord), Value::count(start), Value::count(limit as u64)];
        let rows = session.query("reading the steps of a task", sql::SEEN_STEPS, &values).await?;
        let steps = rows.iter().map(|row| Ok(step::seen(row)?.1)).collect::<Result<_, Fault>>()?;
        Ok(Some(SeenSteps::new(start, steps, total)))
    }
}

impl Look<Moment> for PartsOf {
    type Found = Option<Parts>;

    async fn look(&self, Moment { session, site }: &Moment) -> Result<Self::Found, Fault> {
        let Some(row) = self.task.row(session).await? else { return Ok(None) };
        let place = Place::of(&row, site.node.clock.now())?;
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

impl Look<Moment> for List {
    type Found = Page;

    async fn look(&self, Moment { session, site }: &Moment) -> Result<Page, Fault> {
        let sql = match (&self.owner, self.filter.open_only) {
            (Some(_), false) => sql::LIST_OWN,
            (Some(_), true) => sql::LIST_OWN_OPEN,
            (None, false) => sql::LIST_ALL,
            (None, true) => sql::LIST_ALL_OPEN,
        };
        let (owner, now) = (Value::maybe_words(self.owner.as_ref().map(encode_owner)), site.node.clock.now());
        let mut listing = Listing::new(self, now);
        loop {
            let few = listing.few();
            let values = [Value::count(listing.before), Value::count(few as u64), owner];
            let rows = session.query("listing tasks", sql, &values).await?;
            if put(self, session, &rows, now, &mut listing).await? || rows.len() < few {
                return Ok(listing.into_page());
            }
        }
    }
}

impl Look<Moment> for ListAmong<i64> {
    type Found = Page;

    async fn look(&self, Moment { session, site }: &Moment) -> Result<Page, Fault> {
        let now = site.node.clock.now();
        let mut listing = Listing::new(&self.list, now);
        let mut ords = self.among.clone();
        ords.retain(|ord| *ord < signed(self.list.before));
        ords.sort_unstable_by_key(|ord| Reverse(*ord));
        ords.dedup();
        for some in ords.chunks(listing.few()) {
            let rows = session.query("listing tasks", sql::LIST_AMONG, &[Value::Ints(some)]).await?;
            if put(&self.list, session, &rows, now, &mut listing).await? {
                break;
            }
        }
        Ok(listing.into_page())
    }
}

/// Puts those of these rows that are wanted into a page; whether it ends with one of them.
async fn put(
    list: &List,
    session: &Session,
    rows: &[Row],
    now: Time,
    listing: &mut Listing<'_>,
) -> Result<bool, Fault> {
    let asked = Asked::of(session, rows).await?;
    for row in rows {
        let place = Place::of(row, now)?;
        let is_of_tool = match &list.filter.tool {
            Some(tool) => row::tool(row)? == &**tool,
            None => true,
        };
        let found = match is_of_tool && place.is_visible() {
            true => whole(row, &asked).map(Some),
            false => Ok(None),
        };
        if listing.take(if list.owner.is_some() { place.nth } else { place.ord }, found)? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Look<Moment> for Count {
    type Found = Counts;

    const SEVERAL: bool = false;

    async fn look(&self, Moment { session, .. }: &Moment) -> Result<Counts, Fault> {
        let rows = session.query("counting tasks", sql::TOTALS, &[]).await?;
        let row = rows.first().ok_or_else(|| damaged("the totals"))?;
        let number = |at| int(row, at).map(|number| u64::try_from(number).unwrap_or(0));
        Ok(Counts::new(number(0)?, number(1)?))
    }
}

impl Look<Moment> for Weigh {
    type Found = Option<u64>;

    const SEVERAL: bool = false;

    async fn look(&self, Moment { session, .. }: &Moment) -> Result<Option<u64>, Fault> {
        let rows = session.query("asking how large the store is", sql::SIZE, &[]).await?;
        let row = rows.first().ok_or_else(|| damaged("its size"))?;
        Ok(u64::try_from(int(row, 0)?).ok())
    }
}

impl Look<Moment> for Claimable {
    type Found = Candidates<i64>;

    const SEVERAL: bool = false;

    async fn look(&self, Moment { session, site }: &Moment) -> Result<Candidates<i64>, Fault> {
        let now = site.node.clock.now().unix_ms();
        let me = Value::text(site.node.id.as_str());
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
        dead.extend(site.node.suspects.dead_of(suspects));
        let mut rows = Vec::new();
        collect(self, session, sql::WAITING, now, None, &mut rows).await?;
        for node in &nodes {
            let until = if dead.contains(node) { i64::MAX } else { now };
            collect(self, session, sql::OVERDUE, now, Some((node, until)), &mut rows).await?;
        }
        Ok(Candidates { rows, dead })
    }
}

/// Finds what a statement finds: due, or held by a node until a time.
async fn collect(
    claimable: &Claimable,
    session: &Session,
    sql: &'static str,
    now: i64,
    held: Option<(&NodeId, i64)>,
    found: &mut Vec<i64>,
) -> Result<(), Fault> {
    let tools: Option<HashSet<&str>> =
        claimable.runs.as_ref().map(|runs| runs.iter().map(|run| &*run.tool).collect());
    let tools: Option<Vec<&[u8]>> = tools.map(|tools| tools.iter().map(|tool| tool.as_bytes()).collect());
    let tools = Value::AllBytes(tools.as_deref());
    let (mut behind, mut at) = (i64::MIN, i64::MIN);
    while found.len() < claimable.limit {
        let few = (claimable.limit - found.len()).clamp(16, LONGEST_SCAN);
        let mut values = vec![
            Value::int(now),
            Value::int(if claimable.open_only { phase::DONE } else { phase::TOMBSTONE }),
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
            let Some(id) = sound_id(row, 2) else { continue };
            let (tool, version) = (row.text(3).ok().flatten(), row.text(4).ok().flatten());
            let Ok(host) = row.text(5) else {
                pass_over(&id, damaged("the host that it is bound to"))?;
                continue;
            };
            if found.len() < claimable.limit && claimable.admits::<Fault>(&id, tool, version, host)? {
                found.push(at);
            }
        }
        if rows.len() < few {
            break;
        }
    }
    Ok(())
}

impl Look<Moment> for Due {
    type Found = Vec<TaskId>;

    const SEVERAL: bool = false;

    async fn look(&self, Moment { session, site }: &Moment) -> Result<Vec<TaskId>, Fault> {
        let values = [Value::int(site.node.clock.now().unix_ms()), Value::int(signed(self.0 as u64))];
        let rows = session.query("looking for expired tasks", sql::DUE, &values).await?;
        Ok(rows.iter().filter_map(|row| sound_id(row, 0)).collect())
    }
}

/// The id in this column of a row; `None` where it is damaged, which must not stop the work on all others.
fn sound_id(row: &Row, column: usize) -> Option<TaskId> {
    let id = row.text(column).ok().flatten().and_then(|id| TaskId::new(id).ok());
    if id.is_none() {
        tracing::error!("a task whose id is damaged is passed over");
    }
    id
}
