//! Reads. What is read of one task is of one moment.

use std::{cmp::Reverse, collections::HashSet, sync::LazyLock};

use ::redis::{Cmd, FromRedisValue, Pipeline, Script, cmd, pipe};

use super::{
    Site,
    fault::{Fault, damaged},
    link::reading,
    row::{self, CLAIMED_BY, FIELDS, Row, SEQ, VERSION},
    tx::read_step,
};
use crate::{
    Counts, NodeId, Page, Part, Parts, Record, Scope, SeenStep, SeenSteps, Step, StoreError, TaskId,
    networked::{
        fault::pass_over,
        look::{
            Called, Candidates, Claimable, Count, Due, FEW, Get, List, ListAmong, Listing, Look, PartsOf,
            SeenStepsOf, Steps, Weigh,
        },
        server::Server as _,
    },
    page::LONGEST_SCAN,
    part::{LARGEST_STRETCH, LONGEST_STRETCH},
    transition,
};

/// Of one moment, as a transaction would be; but that is refused where the server has no memory left.
static STEPS: LazyLock<Script> = LazyLock::new(|| {
    reading("return {redis.call('HMGET', KEYS[1], unpack(ARGV)), redis.call('HVALS', KEYS[2])}")
});
/// The same without what was learnt, which may be large.
static SEEN_STEPS: LazyLock<Script> = LazyLock::new(|| reading(include_str!("seen_steps.lua")));
static COUNT: LazyLock<Script> =
    LazyLock::new(|| reading("return {redis.call('ZCARD', KEYS[1]), redis.call('ZCARD', KEYS[2])}"));

/// A field, which may not be there.
pub(super) type Field = Option<Vec<u8>>;

impl Site {
    async fn ask<T: FromRedisValue>(&self, doing: &'static str, asked: &Pipeline) -> Result<T, Fault> {
        self.link.ask(doing, asked).await
    }

    async fn row(&self, id: &TaskId) -> Result<Option<Row>, Fault> {
        let mut asked = pipe();
        asked.add_command(self.asked_row(id));
        let (fields,): (Vec<Field>,) = self.ask("reading a task", &asked).await?;
        Row::of(&fields)
    }

    fn asked_row(&self, id: &TaskId) -> Cmd {
        let mut asked = cmd("HMGET");
        asked.arg(self.keys.task(id)).arg(&FIELDS);
        asked
    }

    /// The task, read on the runtime in which the store was opened; `None` where the store's own threads have to.
    pub(super) async fn read_here(
        &self,
        scope: Scope<'_>,
        id: &TaskId,
    ) -> Option<Result<Option<Record>, StoreError>> {
        if let Err(refusal) = self.admit() {
            return Some(Err(refusal));
        }
        let sees = |row: &Row| row.is_visible(self.node.clock.now()) && scope.sees(&row.record.owner);
        let (here, generation) = (self.link.here()?, self.link.generation());
        if let Some(known) = self.recent.find(id) {
            let mut version = cmd("HGET");
            version.arg(self.keys.task(id)).arg(VERSION);
            let version: Option<String> = here.ask(&version, generation).await?;
            if version.is_some_and(|version| version == known.version) {
                return Some(Ok(sees(&known).then(|| known.record.clone())));
            }
        }
        let fields: Vec<Field> = here.ask(&self.asked_row(id), generation).await?;
        let row = match Row::of(&fields) {
            Ok(row) => row,
            Err(fault) => return Some(Err(self.place.error(fault))),
        };
        match &row {
            Some(row) => self.recent.keep(row.clone()),
            None => self.recent.forget([id]),
        }
        Some(Ok(row.filter(sees).map(|row| row.record)))
    }
}

impl Get {
    fn sees(&self, row: &Row, site: &Site) -> bool {
        row.is_visible(site.node.clock.now())
            && self.owner.as_ref().is_none_or(|owner| *owner == row.record.owner)
    }
}

impl Look<Site> for Get {
    type Found = Option<Record>;

    async fn look(&self, site: &Site) -> Result<Option<Record>, Fault> {
        Ok(site.row(&self.id).await?.filter(|row| self.sees(row, site)).map(|row| row.record))
    }
}

impl Look<Site> for Called {
    type Found = Option<Record>;

    async fn look(&self, site: &Site) -> Result<Option<Record>, Fault> {
        let mut asked = pipe();
        asked.cmd("HGET").arg(site.keys.calls_of(&self.owner)).arg(self.key.as_str());
        let (id,): (Option<String>,) = site.ask("looking for a call by its key", &asked).await?;
        let Some(id) = id else { return Ok(None) };
        Get { owner: Some(self.owner.clone()), id: TaskId::new(id).map_err(damaged)? }.look(site).await
    }
}

impl Look<Site> for Steps {
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

impl Look<Site> for SeenStepsOf {
    type Found = Option<SeenSteps>;

    async fn look(&self, site: &Site) -> Result<Option<SeenSteps>, Fault> {
        let keys = [site.keys.task(&self.task.id), site.keys.steps(&self.task.id)];
        let fields = FIELDS.map(|field| field.as_bytes().to_vec());
        let (fields, steps): (Vec<Field>, Vec<Vec<u8>>) =
            site.link.read("reading steps", &SEEN_STEPS, &keys, &fields).await?;
        if !Row::of(&fields)?.is_some_and(|row| self.task.sees(&row, site)) {
            return Ok(None);
        }
        let mut steps = steps.iter().map(|step| read_step(step)).collect::<Result<Vec<_>, _>>()?;
        steps.sort_by_key(|(place, _)| *place);
        let seen = steps.iter().map(|(_, step)| SeenStep::of(step));
        Ok(Some(SeenSteps::among(seen, self.after, self.limit)))
    }
}

impl Look<Site> for PartsOf {
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

impl Look<Site> for List {
    type Found = Page;

    async fn look(&self, site: &Site) -> Result<Page, Fault> {
        let set = match (&self.owner, self.filter.open_only) {
            (Some(owner), false) => site.keys.tasks_of(owner),
            (Some(owner), true) => site.keys.open_of(owner),
            (None, false) => site.keys.one(row::TASKS),
            (None, true) => site.keys.one(row::OPEN),
        };
        let mut listing = Listing::new(self, site.node.clock.now());
        loop {
            let (few, before) = (listing.few(), listing.before);
            let mut asked = pipe();
            let behind = if before == u64::MAX { "+inf".to_owned() } else { format!("({before}") };
            asked.cmd("ZRANGE").arg(&set).arg(behind).arg("-inf").arg("BYSCORE").arg("REV");
            asked.arg("LIMIT").arg(0).arg(few).arg("WITHSCORES");
            let (found,): (Vec<(String, f64)>,) = site.ask("listing tasks", &asked).await?;
            let placed =
                found.into_iter().map(|(id, place)| Ok((TaskId::new(id).map_err(damaged)?, place as u64)));
            let placed = placed.collect::<Result<Vec<_>, Fault>>()?;
            if put(site, &placed, &mut listing).await? || placed.len() < few {
                return Ok(listing.into_page());
            }
        }
    }
}

impl Look<Site> for ListAmong<TaskId> {
    type Found = Page;

    async fn look(&self, site: &Site) -> Result<Page, Fault> {
        let mut listing = Listing::new(&self.list, site.node.clock.now());
        let mut asked = pipe();
        asked.cmd("ZMSCORE").arg(site.keys.one(row::TASKS));
        for id in &self.among {
            asked.arg(id.as_str());
        }
        let (places,): (Vec<Option<f64>>,) = site.ask("listing tasks", &asked).await?;
        // What is gone has none.
        let placed =
            self.among.iter().zip(places).filter_map(|(id, place)| Some((id.clone(), place? as u64)));
        let mut placed: Vec<_> = placed.filter(|(_, place)| *place < self.list.before).collect();
        placed.sort_by_key(|(_, place)| Reverse(*place));
        for some in placed.chunks(listing.few()) {
            if put(site, some, &mut listing).await? {
                break;
            }
        }
        Ok(listing.into_page())
    }
}

/// Puts those of these tasks that are wanted into a page; whether it ends with one of them.
async fn put(site: &Site, placed: &[(TaskId, u64)], listing: &mut Listing<'_>) -> Result<bool, Fault> {
    let mut asked = pipe();
    for (id, _) in placed {
        asked.cmd("HMGET").arg(site.keys.task(id)).arg(&FIELDS);
    }
    let rows: Vec<Vec<Field>> =
        if placed.is_empty() { Vec::new() } else { site.ask("listing tasks", &asked).await? };
    for ((_, place), fields) in placed.iter().zip(rows) {
        let row = Row::of(&fields).map(|row| row.filter(|row| !row.is_tombstone()));
        if listing.take(*place, row.map(|row| row.map(|row| row.record)))? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Look<Site> for Count {
    type Found = Counts;

    async fn look(&self, site: &Site) -> Result<Counts, Fault> {
        let keys = [row::OPEN, row::TASKS].map(|set| site.keys.one(set));
        let (open, retained) = site.link.read("counting tasks", &COUNT, &keys, &[]).await?;
        Ok(Counts::new(open, retained))
    }
}

impl Look<Site> for Weigh {
    type Found = Option<u64>;

    async fn look(&self, site: &Site) -> Result<Option<u64>, Fault> {
        let mut asked = pipe();
        asked.cmd("INFO").arg("memory");
        let (info,): (String,) = site.ask("asking how large the store is", &asked).await?;
        let used = info.lines().find_map(|line| line.trim().strip_prefix("used_memory:"));
        Ok(used.and_then(|used| used.parse().ok()))
    }
}

impl Look<Site> for Claimable {
    type Found = Candidates<TaskId>;

    async fn look(&self, site: &Site) -> Result<Candidates<TaskId>, Fault> {
        let now = site.node.clock.now().unix_ms();
        let dead = dead(site).await?;
        let mut found = Found::default();
        collect(self, site, site.keys.one(row::WAITING), now, &mut found).await?;
        collect(self, site, site.keys.one(row::LEASES), now, &mut found).await?;
        for node in &dead {
            collect(self, site, site.keys.held(node), i64::MAX, &mut found).await?;
        }
        Ok(Candidates { rows: found.ids, dead })
    }
}

/// Tasks in the order in which they were found, each once: one that is overdue may be a dead node's, too.
#[derive(Default)]
struct Found {
    ids: Vec<TaskId>,
    known: HashSet<TaskId>,
}

/// Which nodes that have leases are dead.
async fn dead(site: &Site) -> Result<Vec<NodeId>, Fault> {
    let doing = "reading who holds leases";
    let mut asked = pipe();
    asked.cmd("HKEYS").arg(site.keys.one(row::HOLDERS));
    let (holders,): (Vec<String>,) = site.ask(doing, &asked).await?;
    let others: Vec<String> = holders.into_iter().filter(|node| node != site.node.id.as_str()).collect();
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
    dead.extend(site.node.suspects.dead_of(suspects));
    Ok(dead)
}

async fn collect(
    claimable: &Claimable,
    site: &Site,
    set: String,
    until: i64,
    Found { ids: found, known }: &mut Found,
) -> Result<(), Fault> {
    let mut behind = 0;
    while found.len() < claimable.limit {
        let few = (claimable.limit - found.len()).clamp(16, LONGEST_SCAN);
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
        if claimable.open_only && !ids.is_empty() {
            asked.cmd("ZMSCORE").arg(open).arg(ids.iter().map(TaskId::as_str).collect::<Vec<_>>());
        }
        let mut rows: Vec<Vec<Field>> =
            if ids.is_empty() { Vec::new() } else { site.ask(doing, &asked).await? };
        let open = if claimable.open_only { rows.pop() } else { None };
        let (many, now) = (ids.len(), site.node.clock.now().unix_ms());
        for (at, (id, fields)) in ids.into_iter().zip(rows).enumerate() {
            let is_wanted = open.as_ref().is_none_or(|open| open.get(at).is_some_and(Option::is_some));
            if found.len() < claimable.limit
                && is_wanted
                && !known.contains(&id)
                && admits(claimable, &id, &fields, now)?
            {
                known.insert(id.clone());
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

/// Whether a claim could take this task, whose fields are [`CLAIMED_BY`].
fn admits(claimable: &Claimable, id: &TaskId, fields: &[Field], now: i64) -> Result<bool, Fault> {
    let [tool, version, until, host] = fields else { return Ok(false) };
    if row::int(until)?.is_some_and(|until| until <= now) {
        return Ok(false);
    }
    let text = |field| row::text(field).ok().flatten();
    let Ok(host) = row::text(host) else {
        return pass_over(id, damaged("the host that it is bound to")).map(|()| false);
    };
    claimable.admits(id, text(tool), text(version), host)
}

impl Look<Site> for Due {
    type Found = Vec<TaskId>;

    async fn look(&self, site: &Site) -> Result<Vec<TaskId>, Fault> {
        let mut asked = pipe();
        let now = site.node.clock.now().unix_ms();
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
