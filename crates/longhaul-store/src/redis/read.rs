//! Reads. What is read of one task is of one moment.

use std::sync::LazyLock;

use ::redis::{FromRedisValue, Pipeline, Script, pipe};

use super::{
    Site,
    fault::{Fault, damaged, pass_over},
    link::reading,
    operation::FEW,
    row::{self, CLAIMED_BY, FIELDS, Row, SEQ},
    tx::read_step,
};
use crate::{
    CallKey, Counts, Cursor, Epoch, Filter, NodeId, Owner, Page, Part, Parts, Record, Runnable, Scope, Step,
    StoreError, TaskId, ToolVersion,
    page::{LARGEST_PAGE, LONGEST_SCAN},
    part::{LARGEST_STRETCH, LONGEST_STRETCH},
    transition,
};

/// Of one moment, as a transaction would be; but that is refused where the server has no memory left.
static STEPS: LazyLock<Script> = LazyLock::new(|| {
    reading("return {redis.call('HMGET', KEYS[1], unpack(ARGV)), redis.call('HVALS', KEYS[2])}")
});
static COUNT: LazyLock<Script> =
    LazyLock::new(|| reading("return {redis.call('ZCARD', KEYS[1]), redis.call('ZCARD', KEYS[2])}"));

/// Something that is read. It may be tried several times, so it keeps what it was given.
pub(super) trait Look: Send + Sync + 'static {
    /// What is found.
    type Found: Send + 'static;

    fn look<'a>(&'a self, site: &'a Site) -> impl Future<Output = Result<Self::Found, Fault>> + Send + 'a;
}

/// A field, which may not be there.
pub(super) type Field = Option<Vec<u8>>;

impl Site {
    async fn ask<T: FromRedisValue>(&self, doing: &'static str, asked: &Pipeline) -> Result<T, Fault> {
        self.link.ask(doing, asked).await
    }

    async fn row(&self, id: &TaskId) -> Result<Option<Row>, Fault> {
        let mut asked = pipe();
        asked.cmd("HMGET").arg(self.keys.task(id)).arg(&FIELDS);
        let (fields,): (Vec<Field>,) = self.ask("reading a task", &asked).await?;
        Row::of(&fields)
    }
}

pub(super) struct Get {
    pub(super) owner: Option<Owner>,
    pub(super) id: TaskId,
}

impl Get {
    fn sees(&self, row: &Row, site: &Site) -> bool {
        row.is_visible(site.clock.now()) && self.owner.as_ref().is_none_or(|owner| *owner == row.record.owner)
    }
}

impl Look for Get {
    type Found = Option<Record>;

    async fn look(&self, site: &Site) -> Result<Option<Record>, Fault> {
        Ok(site.row(&self.id).await?.filter(|row| self.sees(row, site)).map(|row| row.record))
    }
}

/// The task of an owner that was created under a key.
pub(super) struct Called {
    pub(super) owner: Owner,
    pub(super) key: CallKey,
}

impl Look for Called {
    type Found = Option<Record>;

    async fn look(&self, site: &Site) -> Result<Option<Record>, Fault> {
        let mut asked = pipe();
        asked.cmd("HGET").arg(site.keys.calls_of(&self.owner)).arg(self.key.as_str());
        let (id,): (Option<String>,) = site.ask("looking for a call by its key", &asked).await?;
        let Some(id) = id else { return Ok(None) };
        Get { owner: Some(self.owner.clone()), id: TaskId::new(id).map_err(damaged)? }.look(site).await
    }
}

/// The steps of a task that is held.
pub(super) struct Steps {
    pub(super) id: TaskId,
    pub(super) epoch: Epoch,
}

impl Look for Steps {
    type Found = Vec<Step>;

    async fn look(&self, site: &Site) -> Result<Vec<Step>, Fault> {
        let keys = [site.keys.task(&self.id), site.keys.steps(&self.id)];
        let fields = FIELDS.map(|field| field.as_bytes().to_vec());
        let (fields, steps): (Vec<Field>, Vec<Vec<u8>>) =
            site.link.read("reading steps", &STEPS, &keys, &fields).await?;
        let row = Row::of(&fields)?.filter(|row| !row.is_tombstone());
        let lost = || StoreError::Fenced { id: self.id.clone(), held: self.epoch };
        transition::check_held(&row.ok_or_else(lost)?.record, self.epoch)?;
        let mut steps = steps.iter().map(|step| read_step(step)).collect::<Result<Vec<_>, _>>()?;
        steps.sort_by_key(|(place, _)| *place);
        Ok(steps.into_iter().map(|(_, step)| step).collect())
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

    async fn look(&self, site: &Site) -> Result<Option<Parts>, Fault> {
        let Some(row) = site.row(&self.task.id).await?.filter(|row| self.task.sees(row, site)) else {
            return Ok(None);
        };
        let total = u64::from(row.record.parts);
        let (mut parts, mut bytes, start) = (Vec::new(), 0, self.after.min(total));
        let limit = self.limit.clamp(1, LONGEST_STRETCH).min(usize::try_from(total - start).unwrap_or(0));
        // A part may be large, so they come a few at a time. They are only ever added to, until all of them go.
        'all: while parts.len() < limit {
            let few = (limit - parts.len()).min(FEW) as u64;
            let first = start + parts.len() as u64;
            let mut asked = pipe();
            asked.cmd("LRANGE").arg(site.keys.parts(&self.task.id)).arg(first).arg(first + few - 1);
            let (found,): (Vec<Vec<u8>>,) = site.ask("reading parts", &asked).await?;
            for part in &found {
                let part: Part = serde_json::from_slice(part).map_err(damaged)?;
                bytes += part.content.as_str().len();
                if bytes > LARGEST_STRETCH && !parts.is_empty() {
                    break 'all;
                }
                parts.push(part.content);
            }
            if (found.len() as u64) < few {
                // It is forgotten meanwhile.
                return Ok(None);
            }
        }
        Ok(Some(Parts::new(start, parts, total, row.record.is_terminal())))
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

    async fn look(&self, site: &Site) -> Result<Page, Fault> {
        let scope = self.owner.as_ref().map_or(Scope::Operator, Scope::Owner);
        let set = match (&self.owner, self.filter.open_only) {
            (Some(owner), false) => site.keys.tasks_of(owner),
            (Some(owner), true) => site.keys.open_of(owner),
            (None, false) => site.keys.one(row::TASKS),
            (None, true) => site.keys.one(row::OPEN),
        };
        let (mut page, mut scanned, mut bytes) = (Page::default(), 0, 0);
        let mut before = self.before;
        // What a task carries may be large, so they come a few at a time.
        loop {
            let few = FEW.min(self.limit.max(16));
            let mut asked = pipe();
            let behind = if before == u64::MAX { "+inf".to_owned() } else { format!("({before}") };
            asked.cmd("ZRANGE").arg(&set).arg(behind).arg("-inf").arg("BYSCORE").arg("REV");
            asked.arg("LIMIT").arg(0).arg(few).arg("WITHSCORES");
            let (found,): (Vec<(String, f64)>,) = site.ask("listing tasks", &asked).await?;
            let mut rows = pipe();
            for (id, _) in &found {
                let id = TaskId::new(id.as_str()).map_err(damaged)?;
                rows.cmd("HMGET").arg(site.keys.task(&id)).arg(&FIELDS);
            }
            let rows: Vec<Vec<Field>> =
                if rows.is_empty() { Vec::new() } else { site.ask("listing tasks", &rows).await? };
            for ((id, number), fields) in found.iter().zip(rows) {
                before = *number as u64;
                scanned += 1;
                if let Some(record) = self.wanted(site, id, &fields)? {
                    bytes +=
                        record.arguments.as_str().len() + record.outcome().map_or(0, crate::Outcome::len);
                    page.tasks.push(record);
                }
                if page.tasks.len() == self.limit || scanned == LONGEST_SCAN || bytes >= LARGEST_PAGE {
                    page.next = Some(Cursor::behind(scope, before));
                    return Ok(page);
                }
            }
            if found.len() < few {
                return Ok(page);
            }
        }
    }
}

impl List {
    fn wanted(&self, site: &Site, id: &str, fields: &[Field]) -> Result<Option<Record>, Fault> {
        let now = site.clock.now();
        let row = match Row::of(fields) {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(None),
            // It must not hide its neighbours; whoever asks for it by id is told.
            Err(Fault::Refused(error)) => {
                tracing::error!(task = id, %error, "a damaged task is left out of a list");
                return Ok(None);
            }
            Err(fault) => return Err(fault),
        };
        let is_dead = |node: &NodeId| self.claimable.as_ref().is_some_and(|dead| dead.contains(node));
        let is_wanted = row.is_visible(now)
            && self.filter.admits(&row.record)
            && (self.claimable.is_none() || transition::is_claimable(&row.record, now, &is_dead));
        Ok(Some(row.record).filter(|_| is_wanted))
    }
}

/// How many tasks there are.
pub(super) struct Count;

impl Look for Count {
    type Found = Counts;

    async fn look(&self, site: &Site) -> Result<Counts, Fault> {
        let keys = [row::OPEN, row::TASKS].map(|set| site.keys.one(set));
        let (open, retained) = site.link.read("counting tasks", &COUNT, &keys, &[]).await?;
        Ok(Counts::new(open, retained))
    }
}

/// What a claim could take.
pub(super) struct Claimable {
    /// Of tasks that have not ended alone.
    pub(super) open_only: bool,
    /// So many at most.
    pub(super) limit: usize,
    /// Of these tools, in these versions.
    pub(super) runs: Option<Vec<Runnable>>,
}

/// The tasks that a claim could take, and the nodes that are dead.
pub(super) struct Candidates {
    pub(super) ids: Vec<TaskId>,
    pub(super) dead: Vec<NodeId>,
}

impl Look for Claimable {
    type Found = Candidates;

    async fn look(&self, site: &Site) -> Result<Candidates, Fault> {
        let now = site.clock.now().unix_ms();
        let dead = dead(site).await?;
        let mut ids = Vec::new();
        self.collect(site, site.keys.one(row::WAITING), now, &mut ids).await?;
        self.collect(site, site.keys.one(row::LEASES), now, &mut ids).await?;
        for node in &dead {
            self.collect(site, site.keys.held(node), i64::MAX, &mut ids).await?;
        }
        Ok(Candidates { ids, dead })
    }
}

/// Which nodes that have leases are dead.
async fn dead(site: &Site) -> Result<Vec<NodeId>, Fault> {
    let doing = "reading who holds leases";
    let mut asked = pipe();
    asked.cmd("HKEYS").arg(site.keys.one(row::HOLDERS));
    let (holders,): (Vec<String>,) = site.ask(doing, &asked).await?;
    let others: Vec<String> = holders.into_iter().filter(|node| node != site.node.as_str()).collect();
    if others.is_empty() {
        return Ok(Vec::new());
    }
    let mut asked = pipe();
    asked.cmd("HMGET").arg(site.keys.one(NODES)).arg(&others);
    asked.cmd("PUBSUB").arg("NUMSUB");
    for node in &others {
        asked.arg(site.keys.node(node));
    }
    let (known, listening): (Vec<Field>, Vec<(String, u64)>) = site.ask(doing, &asked).await?;
    let (mut dead, mut suspects) = (Vec::new(), Vec::new());
    for ((name, known), (_, listening)) in others.iter().zip(known).zip(listening) {
        let Ok(node) = NodeId::new(name.as_str()) else {
            tracing::error!(name, "a lease is damaged and is passed over");
            continue;
        };
        match (known, listening) {
            (None, 0) => dead.push(node),
            (Some(_), 0) => suspects.push(node),
            _ => {}
        }
    }
    dead.extend(site.suspects.dead_of(suspects));
    Ok(dead)
}

impl Claimable {
    async fn collect(
        &self,
        site: &Site,
        set: String,
        until: i64,
        found: &mut Vec<TaskId>,
    ) -> Result<(), Fault> {
        let mut behind = 0;
        while found.len() < self.limit {
            let few = (self.limit - found.len()).clamp(16, LONGEST_SCAN);
            let doing = "looking for tasks to claim";
            let mut asked = pipe();
            asked.cmd("ZRANGE").arg(&set).arg("-inf").arg(until).arg("BYSCORE");
            asked.arg("LIMIT").arg(behind).arg(few);
            let (ids,): (Vec<String>,) = site.ask(doing, &asked).await?;
            let ids = ids.into_iter().map(|id| TaskId::new(id).map_err(damaged));
            let ids = ids.collect::<Result<Vec<_>, _>>()?;
            let mut asked = pipe();
            for id in &ids {
                asked.cmd("HMGET").arg(site.keys.task(id)).arg(&CLAIMED_BY);
            }
            let open = site.keys.one(row::OPEN);
            if self.open_only && !ids.is_empty() {
                asked.cmd("ZMSCORE").arg(open).arg(ids.iter().map(TaskId::as_str).collect::<Vec<_>>());
            }
            let mut rows: Vec<Vec<Field>> =
                if ids.is_empty() { Vec::new() } else { site.ask(doing, &asked).await? };
            let open = if self.open_only { rows.pop() } else { None };
            let (many, now) = (ids.len(), site.clock.now().unix_ms());
            for (at, (id, fields)) in ids.into_iter().zip(rows).enumerate() {
                let is_wanted = open.as_ref().is_none_or(|open| open.get(at).is_some_and(Option::is_some));
                if found.len() < self.limit
                    && is_wanted
                    && !found.contains(&id)
                    && self.admits(&id, &fields, now)?
                {
                    found.push(id);
                }
            }
            if many < few {
                break;
            }
            behind += many;
        }
        Ok(())
    }

    fn admits(&self, id: &TaskId, fields: &[Field], now: i64) -> Result<bool, Fault> {
        let [tool, version, until] = fields else { return Ok(false) };
        if row::int(until)?.is_some_and(|until| until <= now) {
            return Ok(false);
        }
        let Some(runs) = &self.runs else { return Ok(true) };
        let (Some(tool), Some(version)) = (row::text(tool)?, row::text(version)?) else {
            return pass_over(id, damaged("its tool or the version of that")).map(|()| false);
        };
        let Ok(version) = ToolVersion::new(version) else {
            return pass_over(id, damaged("the version of its tool")).map(|()| false);
        };
        Ok(runs.iter().any(|run| run.admits(tool, &version)))
    }
}

/// What time demands something of: at most so many.
pub(super) struct Due(pub(super) usize);

impl Look for Due {
    type Found = Vec<TaskId>;

    async fn look(&self, site: &Site) -> Result<Vec<TaskId>, Fault> {
        let mut asked = pipe();
        let now = site.clock.now().unix_ms();
        asked.cmd("ZRANGE").arg(site.keys.one(row::DUE)).arg("-inf").arg(now).arg("BYSCORE");
        asked.arg("LIMIT").arg(0).arg(i64::try_from(self.0).unwrap_or(i64::MAX));
        let (ids,): (Vec<String>,) = site.ask("looking for expired tasks", &asked).await?;
        ids.into_iter().map(|id| TaskId::new(id).map_err(damaged)).collect()
    }
}

/// The latest changes of these tasks.
pub(super) async fn seqs(site: &Site, ids: &[TaskId]) -> Result<Vec<Option<u64>>, Fault> {
    let mut asked = pipe();
    for id in ids {
        asked.cmd("HGET").arg(site.keys.task(id)).arg(SEQ);
    }
    site.ask("looking for changes", &asked).await
}

/// The nodes that are there, and since when that is known.
pub(super) const NODES: &str = "nodes";
