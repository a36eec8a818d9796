//! What is read to be copied.

use std::{
    collections::{BTreeMap, HashSet},
    sync::LazyLock,
};

use ::redis::{Script, pipe};
use serde::Deserialize;

use super::{
    Redis, Site,
    events::Named,
    fault::{Fault, damaged},
    keys,
    link::{reading, script},
    read::{Field, NODES},
    row::{CHARGED, CHARGES, FIELDS, RECORD, Row, TASKS, int, text},
    tx::read_step,
};
use crate::{
    Event, NodeId, Owner, Part, StoreFuture, TaskId, Time,
    event_store::{follows_not, room},
    networked::{
        look::{FEW, Look},
        transfer::{LATELY, Miscounts, Others, Rows, Take, WholeEntries, WholeStreams, WholeTasks},
    },
    page::LARGEST_PAGE,
    transfer::{Miscount, Transfer, WholeEntry, WholeStream, WholeTask},
};

impl Transfer for Redis {
    fn other_nodes(&self) -> StoreFuture<'_, Vec<NodeId>> {
        self.handle.look(|| Others)
    }

    fn whole_tasks(&self, after: u64) -> StoreFuture<'_, Vec<(u64, WholeTask)>> {
        self.handle.look(move || WholeTasks(after))
    }

    fn take_tasks(&self, tasks: Vec<WholeTask>) -> StoreFuture<'_, ()> {
        self.handle.change(move || Take(tasks))
    }

    fn miscounted(&self) -> StoreFuture<'_, Vec<Miscount>> {
        self.handle.look(|| Miscounts)
    }

    fn rows(&self) -> StoreFuture<'_, u64> {
        self.handle.look(|| Rows)
    }

    fn whole_entries(&self, after: u64) -> StoreFuture<'_, Vec<(u64, WholeEntry)>> {
        self.handle.look(move || WholeEntries(after))
    }

    fn whole_streams(&self, after: u64) -> StoreFuture<'_, Vec<(u64, WholeStream)>> {
        self.handle.look(move || WholeStreams(after))
    }

    fn take_events(&self, stream: WholeStream, events: Vec<Event>) -> StoreFuture<'_, ()> {
        self.on_own(move |site| async move {
            take(&site, stream, &events).await.map_err(|fault| site.place.error(fault))
        })
    }
}

impl Look<Site> for Others {
    type Found = Vec<NodeId>;

    async fn look(&self, site: &Site) -> Result<Vec<NodeId>, Fault> {
        let mut asked = pipe();
        asked.cmd("HGETALL").arg(site.keys.one(NODES));
        let (mut nodes,): (Vec<(String, i64)>,) = site.link.ask("looking for other nodes", &asked).await?;
        nodes.retain(|(node, _)| node != site.node.id.as_str());
        let mut asked = pipe();
        asked.cmd("PUBSUB").arg("NUMSUB");
        for (node, _) in &nodes {
            asked.arg(site.keys.node(node));
        }
        let (listening,): (Vec<(String, u64)>,) = site.link.ask("looking for other nodes", &asked).await?;
        let lately = site.node.clock.now().unix_ms() - LATELY.as_millis() as i64;
        let is_there =
            |((_, seen_at), (_, many)): &((String, i64), (String, u64))| *many > 0 || *seen_at > lately;
        let there = nodes.into_iter().zip(listening).filter(is_there);
        there.map(|((node, _), _)| NodeId::new(node).map_err(damaged)).collect()
    }
}

/// What is read of a record to know whose it is.
#[derive(Deserialize)]
struct Owned {
    owner: Owner,
}

/// A few owners at a time, and of each a few tasks.
impl Look<Site> for Miscounts {
    type Found = Vec<Miscount>;

    const LASTS: bool = true;

    async fn look(&self, site: &Site) -> Result<Vec<Miscount>, Fault> {
        let mut wrong = BTreeMap::new();
        let mut cursor = 0_u64;
        loop {
            let mut asked = pipe();
            asked.cmd("HSCAN").arg(site.keys.one(CHARGES)).arg(cursor).arg("COUNT").arg(FEW);
            let ((next, charges),): ((u64, Vec<(String, u64)>),) = site.link.ask(COUNTING, &asked).await?;
            for (owner, charged) in charges {
                let has = has(site, &serde_json::from_str(&owner).map_err(damaged)?).await?;
                // One may come twice.
                if charged == has {
                    wrong.remove(&owner);
                } else {
                    wrong.insert(owner.clone(), Miscount::new(owner, charged, has));
                }
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        uncharged(site, &mut wrong).await?;
        Ok(wrong.into_values().collect())
    }
}

/// For how many bytes the tasks of an owner are charged.
async fn has(site: &Site, owner: &Owner) -> Result<u64, Fault> {
    let mut has = 0;
    for first in (0_i64..).step_by(MANY) {
        let mut asked = pipe();
        asked.cmd("ZRANGE").arg(site.keys.tasks_of(owner)).arg(first).arg(first + MANY as i64 - 1);
        let (ids,): (Vec<String>,) = site.link.ask(COUNTING, &asked).await?;
        if ids.is_empty() {
            break;
        }
        let mut asked = pipe();
        for id in ids {
            asked.cmd("HGET").arg(site.keys.task(&TaskId::new(id).map_err(damaged)?)).arg(CHARGED);
        }
        let charged: Vec<Field> = site.link.ask(COUNTING, &asked).await?;
        for charged in &charged {
            has += int(charged)?.unwrap_or(0).unsigned_abs();
        }
    }
    Ok(has)
}

/// Adds the owners that are charged for nothing, and have tasks that are.
async fn uncharged(site: &Site, wrong: &mut BTreeMap<String, Miscount>) -> Result<(), Fault> {
    for first in (0_i64..).step_by(FEW) {
        let mut asked = pipe();
        asked.cmd("ZRANGE").arg(site.keys.one(TASKS)).arg(first).arg(first + FEW as i64 - 1);
        let (ids,): (Vec<String>,) = site.link.ask(COUNTING, &asked).await?;
        if ids.is_empty() {
            break;
        }
        let mut asked = pipe();
        for id in ids {
            let id = TaskId::new(id).map_err(damaged)?;
            asked.cmd("HMGET").arg(site.keys.task(&id)).arg(&[RECORD, CHARGED]);
        }
        let rows: Vec<[Field; 2]> = site.link.ask(COUNTING, &asked).await?;
        let mut owners = BTreeMap::new();
        for [record, charged] in rows {
            let Some(record) = text(&record)? else { continue };
            let Owned { owner } = serde_json::from_str(record).map_err(damaged)?;
            let word = keys::word(&owner);
            if int(&charged)?.is_some_and(|charged| charged != 0) && !wrong.contains_key(&word) {
                owners.insert(word, owner);
            }
        }
        if owners.is_empty() {
            continue;
        }
        let mut asked = pipe();
        for word in owners.keys() {
            asked.cmd("HEXISTS").arg(site.keys.one(CHARGES)).arg(word);
        }
        let are_charged: Vec<bool> = site.link.ask(COUNTING, &asked).await?;
        let uncharged = owners.into_iter().zip(are_charged).filter(|(_, is_charged)| !is_charged);
        for ((word, owner), _) in uncharged {
            let has = has(site, &owner).await?;
            if has > 0 {
                wrong.insert(word.clone(), Miscount::new(word, 0, has));
            }
        }
    }
    Ok(())
}

/// The keys themselves are counted, for the set of all tasks is what says how many there are.
impl Look<Site> for Rows {
    type Found = u64;

    const LASTS: bool = true;

    async fn look(&self, site: &Site) -> Result<u64, Fault> {
        let (mut rows, mut cursor) = (HashSet::new(), 0_u64);
        let (begins, all) = (site.keys.tasks(), format!("{}*", keys::literally(&site.keys.tasks())));
        loop {
            let mut asked = pipe();
            asked.cmd("SCAN").arg(cursor).arg("MATCH").arg(&all).arg("COUNT").arg(MANY);
            let ((next, found),): ((u64, Vec<String>),) =
                site.link.ask("counting the rows of tasks", &asked).await?;
            // One may come twice.
            rows.extend(found.iter().filter_map(|key| key.strip_prefix(&begins)).map(str::to_owned));
            cursor = next;
            if cursor == 0 {
                return Ok(rows.len() as u64);
            }
        }
    }
}

/// What is done, as errors say it.
const COUNTING: &str = "counting bytes of tasks";

/// How many are asked at once for what is short.
const MANY: usize = 500;

/// A task, and its place among all if it still has one.
static WHOLE_TASK: LazyLock<Script> = LazyLock::new(|| {
    reading(
        "return {redis.call('ZSCORE', KEYS[1], ARGV[1]), redis.call('HMGET', KEYS[2], unpack(ARGV, 2)), \
            redis.call('HVALS', KEYS[3]), redis.call('LRANGE', KEYS[4], 0, -1)}",
    )
});

/// Its place, its fields, its steps and its parts.
type ReadTask = (Field, Vec<Field>, Vec<Vec<u8>>, Vec<Vec<u8>>);

/// Each task is of one moment. Others may come and go meanwhile, and those that are gone by the time they are read are left out.
impl Look<Site> for WholeTasks {
    type Found = Vec<(u64, WholeTask)>;

    async fn look(&self, site: &Site) -> Result<Self::Found, Fault> {
        let (mut tasks, mut bytes, mut after) = (Vec::new(), 0, self.0);
        // None is the end: a page is not empty for that all of it has gone.
        while tasks.is_empty() {
            let mut asked = pipe();
            asked.cmd("ZRANGE").arg(site.keys.one(TASKS)).arg(format!("({after}")).arg("+inf");
            asked.arg("BYSCORE").arg("LIMIT").arg(0).arg(FEW).arg("WITHSCORES");
            let (found,): (Vec<(String, f64)>,) = site.link.ask("reading whole tasks", &asked).await?;
            if found.is_empty() {
                break;
            }
            for (id, place) in found {
                after = place as u64;
                let Some(task) = whole_task(site, &TaskId::new(id).map_err(damaged)?).await? else {
                    continue;
                };
                bytes += task.size();
                tasks.push((after, task));
                if bytes >= LARGEST_PAGE {
                    break;
                }
            }
        }
        Ok(tasks)
    }
}

/// The task, unless it is gone.
async fn whole_task(site: &Site, id: &TaskId) -> Result<Option<WholeTask>, Fault> {
    let keys = [site.keys.one(TASKS), site.keys.task(id), site.keys.steps(id), site.keys.parts(id)];
    let args: Vec<Vec<u8>> =
        [id.as_str()].iter().chain(&FIELDS).map(|word| word.as_bytes().to_vec()).collect();
    let (place, fields, steps, parts): ReadTask =
        site.link.read("reading whole tasks", &WHOLE_TASK, &keys, &args).await?;
    let Some(row) = Row::of(&fields)? else {
        return if place.is_none() { Ok(None) } else { Err(damaged("a task without its row")) };
    };
    let mut steps = steps.iter().map(|step| read_step(step)).collect::<Result<Vec<_>, _>>()?;
    steps.sort_by_key(|(place, _)| *place);
    let steps = steps.into_iter().map(|(_, step)| step).collect();
    let part = |part: &Vec<u8>| serde_json::from_slice::<Part>(part).map_err(damaged);
    let parts = parts.iter().map(part).collect::<Result<_, _>>()?;
    let mut task = WholeTask::new(row.record, steps, parts);
    task.removable_at = row.removable_at;
    Ok(Some(task))
}

/// Entries, each with its place among all if it still has one.
static WHOLE_ENTRIES: LazyLock<Script> = LazyLock::new(|| {
    reading(
        "local read = {} \
         for at, word in ipairs(ARGV) do \
             local row = redis.call('HMGET', KEYS[at + 1], 'ends', 'value') \
             read[at] = {redis.call('ZSCORE', KEYS[1], word), row[1], row[2]} \
         end \
         return read",
    )
});

/// They are scanned, for where they end moves whenever they are written: a scan comes by all that are there from its beginning to
/// its end, whatever else comes, goes and moves, by some of them maybe twice. Its cursor means something only to the server that gave
/// it, so it begins anew once another may be asked. A place is the generation of the connection, and the cursor behind it.
impl Look<Site> for WholeEntries {
    type Found = Vec<(u64, WholeEntry)>;

    async fn look(&self, site: &Site) -> Result<Self::Found, Fault> {
        let (mut entries, mut place) = (Vec::new(), self.0);
        while entries.is_empty() && place != SCANNED {
            let generation = site.link.generation();
            let of_generation = generation << 32;
            let cursor = if place & !CURSOR == of_generation { place & CURSOR } else { 0 };
            let mut asked = pipe();
            asked.cmd("ZSCAN").arg(site.keys.one("entries")).arg(cursor).arg("COUNT").arg(FEW);
            let ((next, found),): ((u64, Vec<(String, String)>),) = site.link.ask(LISTING, &asked).await?;
            if site.link.generation() != generation {
                continue;
            }
            place = match next {
                0 => SCANNED,
                1..CURSOR => of_generation | next,
                _ => return Err(damaged("a cursor")),
            };
            let words: Vec<String> = found.into_iter().map(|(word, _)| word).collect();
            for few in words.chunks(FEW) {
                entries.extend(whole_entries(site, few).await?.into_iter().map(|entry| (place, entry)));
            }
        }
        Ok(entries)
    }
}

/// The place behind all entries.
const SCANNED: u64 = u64::MAX;

/// The part of a place that is a cursor: these number the buckets of a table, and have no more bits than that needs.
const CURSOR: u64 = 0xffff_ffff;

/// What is done, as errors say it.
const LISTING: &str = "listing entries";

/// Those of the entries that are still there.
async fn whole_entries(site: &Site, words: &[String]) -> Result<Vec<WholeEntry>, Fault> {
    let rows = words.iter().map(|word| site.keys.one(&format!("entry:{word}")));
    let keys: Vec<String> = [site.keys.one("entries")].into_iter().chain(rows).collect();
    let args: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let rows: Vec<[Field; 3]> = site.link.read(LISTING, &WHOLE_ENTRIES, &keys, &args).await?;
    let mut entries = Vec::new();
    for (word, [place, ends, value]) in words.iter().zip(rows) {
        let value = match (value, place) {
            (Some(value), _) => value.into(),
            (None, None) => continue,
            (None, Some(_)) => return Err(damaged("an entry without its row")),
        };
        let (owner, kind, name) = serde_json::from_str(word).map_err(damaged)?;
        let expires_at = match text(&ends)? {
            Some("inf") => None,
            _ => Some(Time::from_unix_ms(int(&ends)?.ok_or_else(|| damaged("an entry without its end"))?)),
        };
        entries.push(WholeEntry { owner, kind, name, value, expires_at });
    }
    Ok(entries)
}

/// Their places are those among all, which nobody changes meanwhile: only who copies looks for them, and is alone.
impl Look<Site> for WholeStreams {
    type Found = Vec<(u64, WholeStream)>;

    async fn look(&self, site: &Site) -> Result<Self::Found, Fault> {
        let doing = "listing streams";
        let mut asked = pipe();
        asked.cmd("ZRANGE").arg(site.keys.one("streams")).arg(self.0).arg(self.0 + FEW as u64 - 1);
        let (words,): (Vec<String>,) = site.link.ask(doing, &asked).await?;
        let mut streams = Vec::new();
        for (word, place) in words.iter().zip(self.0 + 1..) {
            let (owner, session, name) = serde_json::from_str(word).map_err(damaged)?;
            let named = Named { owner, session, name };
            let [stream, events, ..] = named.keys(site);
            let mut asked = pipe();
            asked.cmd("HMGET").arg(stream).arg(&["last", "ends"]);
            asked.cmd("LLEN").arg(events);
            let ([last, ends], many): ([Field; 2], u64) = site.link.ask(doing, &asked).await?;
            let (Some(last), Some(ends)) = (int(&last)?, int(&ends)?) else {
                return Err(damaged("a stream without its row"));
            };
            let (last, expires_at) = (last.unsigned_abs(), Time::from_unix_ms(ends));
            let Named { owner, session, name } = named;
            let begins_after = last.saturating_sub(many);
            streams.push((place, WholeStream { owner, session, name, begins_after, last, expires_at }));
        }
        Ok(streams)
    }
}

static TAKE: LazyLock<Script> = LazyLock::new(|| script(include_str!("take.lua")));

async fn take(site: &Site, stream: WholeStream, events: &[Event]) -> Result<(), Fault> {
    let WholeStream { owner, session, name, begins_after, expires_at, .. } = stream;
    let Some(first) = events.first() else { return Ok(()) };
    if expires_at <= site.node.clock.now() {
        return Ok(());
    }
    let named = Named { owner, session, name };
    let about = [
        named.word(),
        keys::word(&named.owner),
        begins_after.to_string(),
        first.number.to_string(),
        expires_at.unix_ms().to_string(),
        room("").to_string(),
    ];
    let texts = events.iter().map(|event| event.text.as_bytes().to_vec());
    let args: Vec<Vec<u8>> = about.into_iter().map(String::into_bytes).chain(texts).collect();
    match site.link.write("taking events", &TAKE, &named.keys(site), &args).await? {
        0_u64 => Err(Fault::Refused(follows_not())),
        _ => Ok(()),
    }
}
