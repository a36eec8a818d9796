//! One attempt at an operation: what it has read, and what it is to write if all of that is still so.

use std::collections::{BTreeMap, HashMap, HashSet};

use ::redis::{Pipeline, pipe};

use super::{
    Site,
    commit::{Block, Commit},
    fault::{Fault, damaged},
    row::{self, FIELDS, Row, VERSION},
};
use crate::{
    Limits, Part, Record, Settings, Step, StoreError, TaskId, Time,
    transition::{Kept, Noted},
};

/// Something that is done as a whole or not at all. It may be tried several times, so it keeps what it was given.
pub(super) trait Operation: Send + Sync + 'static {
    /// What it comes to.
    type Done: Send + 'static;

    /// Whether it is refused where the server has no memory left.
    const TAKES_ROOM: bool = false;

    /// Whether what it does to one task stands by itself: then it leaves out those that others were at.
    const EACH_BY_ITSELF: bool = false;

    fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> impl Future<Output = Result<Self::Done, Fault>> + Send + 'a;

    /// It is written, and what has come of it can be told of.
    fn settle(_: &mut Self::Done, _: &Written) {}
}

/// What was written.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// The numbers of the changes.
    seqs: HashMap<TaskId, u64>,
    /// The tasks that others were at.
    lost: HashSet<TaskId>,
}

impl Written {
    /// Gives a record the number of its change.
    pub(super) fn number(&self, record: &mut Record) {
        if let Some(seq) = self.seqs.get(&record.id) {
            record.seq = *seq;
        }
    }

    /// Whether others were at it.
    pub(super) fn has_lost(&self, id: &TaskId) -> bool {
        self.lost.contains(id)
    }
}

/// An attempt under way.
pub(super) struct Tx<'s> {
    pub(super) site: &'s Site,
    now: Time,
    rows: BTreeMap<TaskId, Held>,
    /// What else was read, as it must still be.
    read: Vec<(String, String, String)>,
    /// At how many moments it was read.
    moments: usize,
}

/// A task that was read or made.
#[derive(Debug, Default)]
struct Held {
    before: Option<Row>,
    now: Option<Row>,
    /// Whether it was changed, be it as nobody sees.
    is_changed: bool,
    /// Whether the change has a number.
    is_numbered: bool,
    steps: HashMap<String, Option<(u64, Step)>>,
    parts: HashMap<String, bool>,
    /// The steps that are put and those that are forgotten.
    put: BTreeMap<String, Option<Vec<u8>>>,
    given: Vec<Part>,
}

impl<'s> Tx<'s> {
    /// Runs an operation once; gives which tasks have changed.
    pub(super) async fn attempt<O: Operation>(
        site: &'s Site,
        operation: &O,
    ) -> Result<(O::Done, Vec<TaskId>), Fault> {
        let mut tx = Tx { site, now: site.clock.now(), rows: BTreeMap::new(), read: Vec::new(), moments: 0 };
        match operation.run(&mut tx).await {
            Ok(mut done) => {
                let (written, changes) = tx.write(O::TAKES_ROOM, O::EACH_BY_ITSELF).await?;
                O::settle(&mut done, &written);
                Ok((done, changes))
            }
            // What was read at several moments may never have been so.
            Err(Fault::Refused(refusal)) => {
                tx.rows.values_mut().for_each(|held| held.is_changed = false);
                tx.write(false, false).await?;
                Err(refusal.into())
            }
            Err(fault) => Err(fault),
        }
    }

    pub(super) fn now(&self) -> Time {
        self.now
    }

    pub(super) fn settings(&self) -> &'s Settings {
        &self.site.settings
    }

    /// Reads a task that is no tombstone.
    pub(super) async fn load(&mut self, id: &TaskId) -> Result<Option<Record>, Fault> {
        self.load_with(id, &[], &[]).await
    }

    /// The same, together with what is kept under these keys of its steps and parts.
    pub(super) async fn load_with(
        &mut self,
        id: &TaskId,
        steps: &[&str],
        parts: &[&str],
    ) -> Result<Option<Record>, Fault> {
        self.look(id, steps, parts).await?;
        Ok(self.found(id).filter(|row| !row.is_tombstone()).map(|row| row.record.clone()))
    }

    /// The row as it is by now.
    pub(super) fn found(&self, id: &TaskId) -> Option<&Row> {
        self.rows.get(id).and_then(|held| held.now.as_ref())
    }

    async fn look(&mut self, id: &TaskId, steps: &[&str], parts: &[&str]) -> Result<(), Fault> {
        let keys = &self.site.keys;
        let known = self.rows.get(id);
        let unknown = |key: &&&str| known.is_none_or(|held| !held.steps.contains_key(**key));
        let steps: Vec<&str> = steps.iter().filter(unknown).copied().collect();
        let is_row_wanted = known.is_none();
        let mut asked = pipe();
        if is_row_wanted {
            asked.cmd("HMGET").arg(keys.task(id)).arg(&FIELDS);
        }
        if !steps.is_empty() {
            asked.cmd("HMGET").arg(keys.steps(id)).arg(&steps);
        }
        if !parts.is_empty() {
            asked.cmd("HMGET").arg(keys.given(id)).arg(parts);
        }
        if asked.is_empty() {
            return Ok(());
        }
        let mut answers: std::vec::IntoIter<Vec<Option<Vec<u8>>>> = self.ask(&asked).await?.into_iter();
        let mut next = || answers.next().ok_or_else(|| damaged("an answer that is too short"));
        let row = if is_row_wanted { Some(Row::of(&next()?)?) } else { None };
        let held = self.rows.entry(id.clone()).or_default();
        if let Some(row) = row {
            (held.before, held.now) = (row.clone(), row);
        }
        if !steps.is_empty() {
            for (key, found) in steps.iter().zip(next()?) {
                held.steps.insert((*key).to_owned(), found.map(|step| read_step(&step)).transpose()?);
            }
        }
        if !parts.is_empty() {
            for (key, found) in parts.iter().zip(next()?) {
                held.parts.insert((*key).to_owned(), found.is_some());
            }
        }
        Ok(())
    }

    /// Reads several tasks at once.
    pub(super) async fn look_at_all(&mut self, ids: &[TaskId]) -> Result<(), Fault> {
        let mut asked = pipe();
        for id in ids {
            asked.cmd("HMGET").arg(self.site.keys.task(id)).arg(&FIELDS);
        }
        let answers: Vec<Vec<Option<Vec<u8>>>> = self.ask(&asked).await?;
        for (id, fields) in ids.iter().zip(answers) {
            match Row::of(&fields) {
                Ok(row) => {
                    let held = Held { before: row.clone(), now: row, ..Held::default() };
                    self.rows.insert(id.clone(), held);
                }
                Err(fault) => super::fault::pass_over(id, fault)?,
            }
        }
        Ok(())
    }

    /// Asks for answers, each a list.
    async fn ask(&mut self, asked: &Pipeline) -> Result<Vec<Vec<Option<Vec<u8>>>>, Fault> {
        self.moments += asked.len();
        self.site.link.ask("reading tasks", asked).await
    }

    /// Reads a field of a hash which must still be so when this is written.
    pub(super) async fn field(&mut self, key: String, field: String) -> Result<Option<String>, Fault> {
        self.moments += 1;
        let mut asked = pipe();
        asked.cmd("HGET").arg(&key).arg(&field);
        let (found,): (Option<String>,) = self.site.link.ask("reading tasks", &asked).await?;
        self.read.push((key, field, found.clone().unwrap_or_default()));
        Ok(found)
    }

    /// The step of a task under this key, which was read.
    pub(super) async fn step(&mut self, id: &TaskId, key: &str) -> Result<Option<Step>, Fault> {
        self.look(id, &[key], &[]).await?;
        let known = self.rows.get(id).and_then(|held| held.steps.get(key));
        Ok(known.and_then(|step| step.as_ref().map(|(_, step)| step.clone())))
    }

    /// What was read that is kept of a task beside its record.
    pub(super) fn beside(&self, id: &TaskId) -> Beside {
        let Some(held) = self.rows.get(id) else { return Beside::default() };
        let known = held.steps.iter();
        Beside {
            steps: known.filter_map(|(key, step)| Some((key.clone(), step.as_ref()?.1.clone()))).collect(),
            parts: held.parts.iter().filter(|(_, has)| **has).map(|(key, _)| key.clone()).collect(),
        }
    }

    /// The open tasks that one has made.
    pub(super) async fn children(&mut self, id: &TaskId) -> Result<Vec<TaskId>, Fault> {
        self.moments += 1;
        let mut asked = pipe();
        asked.cmd("ZRANGE").arg(self.site.keys.children(id)).arg(0).arg(-1);
        let (found,): (Vec<String>,) =
            self.site.link.ask("looking for the children of a task", &asked).await?;
        found.into_iter().map(|id| TaskId::new(id).map_err(damaged)).collect()
    }

    /// Adds a new task, whose id must not be taken.
    pub(super) fn insert(&mut self, record: Record) -> Result<(), Fault> {
        let held = self.rows.entry(record.id.clone()).or_default();
        if held.now.is_some() {
            return Err(StoreError::AlreadyExists { id: record.id }.into());
        }
        held.now = Some(Row::new(record));
        (held.is_changed, held.is_numbered) = (true, true);
        Ok(())
    }

    /// Puts a task in the place of what it was, and numbers the change.
    pub(super) fn put(&mut self, record: &Record) {
        self.keep(record);
        if let Some(held) = self.rows.get_mut(&record.id) {
            held.is_numbered = true;
        }
    }

    /// The same of a change that nobody sees.
    pub(super) fn keep(&mut self, record: &Record) {
        if let Some(held) = self.rows.get_mut(&record.id)
            && let Some(row) = &mut held.now
        {
            row.record = record.clone();
            held.is_changed = true;
        }
    }

    /// Notes what becomes of a task's steps and parts.
    pub(super) async fn note(&mut self, id: &TaskId, noted: Noted) -> Result<(), Fault> {
        if noted.is_empty() {
            return Ok(());
        }
        let keys: Vec<&str> = noted.steps.iter().map(|step| &*step.key).collect();
        let is_new = self.rows.get(id).is_some_and(|held| held.before.is_none());
        if !is_new {
            self.look(id, &keys, &[]).await?;
        }
        let Some(held) = self.rows.get_mut(id) else { return Ok(()) };
        let Some(row) = &mut held.now else { return Ok(()) };
        for key in noted.forgotten {
            held.put.insert(key.to_string(), None);
            held.steps.insert(key.to_string(), None);
        }
        for step in noted.steps {
            let known = held.steps.get(&*step.key).and_then(|step| step.as_ref().map(|(place, _)| *place));
            let place = known.unwrap_or_else(|| {
                row.begun += 1;
                row.begun
            });
            held.put.insert(step.key.to_string(), Some(super::keys::word(&(place, &step)).into_bytes()));
            held.steps.insert(step.key.to_string(), Some((place, step)));
        }
        held.given.extend(noted.parts);
        Ok(())
    }

    /// Makes a task that has ended a tombstone.
    pub(super) fn erase(&mut self, record: &Record, until: Time) {
        let Some(held) = self.rows.get_mut(&record.id) else { return };
        let Some(row) = &mut held.now else { return };
        let null = crate::Json::null();
        let (id, owner) = (record.id.clone(), record.owner.clone());
        let mut left = Record::new(id, owner, record.tool.clone(), null.clone(), null, record.created_at);
        left.phase = crate::Phase::Done(crate::Outcome::cancelled(None));
        left.once.clone_from(&record.once);
        (row.record, row.removable_at) = (left, Some(until));
        held.is_changed = true;
    }

    /// Removes a tombstone.
    pub(super) fn remove(&mut self, id: &TaskId) {
        if let Some(held) = self.rows.get_mut(id) {
            (held.now, held.is_changed) = (None, true);
        }
    }

    /// Writes everything, if all that was read is still so.
    async fn write(&self, takes_room: bool, each: bool) -> Result<(Written, Vec<TaskId>), Fault> {
        let changed: Vec<&TaskId> =
            self.rows.iter().filter(|(_, held)| held.is_changed).map(|(id, _)| id).collect();
        if changed.is_empty() && (self.moments < 2 || each) {
            return Ok((Written::default(), Vec::new()));
        }
        let keys = &self.site.keys;
        let mut commit = Commit::new(keys.one(row::CHANGES));
        if takes_room {
            commit.takes_room();
        }
        if each {
            for id in &changed {
                commit.begin();
                self.check(&mut commit, id);
                self.change(&mut commit, id);
                self.tell(&mut commit, &[id]);
            }
        } else {
            commit.begin();
            for (key, field, was) in &self.read {
                commit.same(key.clone(), field, was);
            }
            self.rows.keys().for_each(|id| self.check(&mut commit, id));
            changed.iter().for_each(|id| self.change(&mut commit, id));
            self.tell(&mut commit, &changed);
        }
        let blocks = self.site.link.commit(&mut commit).await?;
        self.written(blocks, changed, each)
    }

    fn written(
        &self,
        blocks: Vec<Block>,
        changed: Vec<&TaskId>,
        each: bool,
    ) -> Result<(Written, Vec<TaskId>), Fault> {
        let mut written = Written::default();
        let groups: Vec<Vec<&TaskId>> =
            if each { changed.into_iter().map(|id| vec![id]).collect() } else { vec![changed] };
        let mut done = Vec::new();
        for (ids, block) in groups.into_iter().zip(blocks) {
            match block {
                Block::Done(seqs) => {
                    let numbered = ids.iter().filter(|id| self.rows[**id].is_numbered);
                    written.seqs.extend(numbered.map(|id| (*id).clone()).zip(seqs));
                    done.extend(ids.into_iter().cloned());
                }
                Block::Changed if each => written.lost.extend(ids.into_iter().cloned()),
                Block::Changed => return Err(Fault::Changed),
                Block::Taken => return Err(self.taken()),
                Block::Full(found) => return Err(self.full(found)),
            }
        }
        Ok((written, done))
    }

    fn new_one(&self) -> Option<&Record> {
        let is_new = |held: &&Held| held.is_changed && held.before.is_none();
        self.rows.values().find(is_new).and_then(|held| held.now.as_ref()).map(|row| &row.record)
    }

    fn taken(&self) -> Fault {
        match self.new_one() {
            Some(record) => StoreError::AlreadyExists { id: record.id.clone() }.into(),
            None => Fault::Changed,
        }
    }

    fn full(&self, [own_open, own_retained, open, retained]: [u64; 4]) -> Fault {
        let limits = &self.settings().limits;
        let refused = |record: &Record| limits.admit(&record.owner, open, retained, own_open, own_retained);
        match self.new_one().map(refused) {
            Some(Err(refusal)) => refusal.into(),
            _ => Fault::Changed,
        }
    }

    /// What must hold for a task.
    fn check(&self, commit: &mut Commit, id: &TaskId) {
        let (keys, held) = (&self.site.keys, &self.rows[id]);
        match (&held.before, &held.now) {
            (None, Some(row)) if held.is_changed => {
                commit.free(keys.task(id));
                let (owner, limits) = (&row.record.owner, &self.settings().limits);
                let (of_owner, open_of) = (keys.tasks_of(owner), keys.open_of(owner));
                commit.room([
                    (open_of, own_open(limits, &row.record)),
                    (of_owner, limits.max_retained_per_owner),
                    (keys.one(row::OPEN), limits.max_open),
                    (keys.one(row::TASKS), limits.max_retained),
                ]);
            }
            (before, _) => {
                commit.same(keys.task(id), VERSION, before.as_ref().map_or("", |row| &row.version));
            }
        }
    }

    /// What becomes of a task.
    fn change(&self, commit: &mut Commit, id: &TaskId) {
        let (keys, held) = (&self.site.keys, &self.rows[id]);
        let (row, name) = (keys.task(id), id.as_str());
        if held.is_numbered && held.before.is_some() {
            commit.number(row.clone());
        }
        match (&held.before, &held.now) {
            (None, Some(new)) => {
                let owner = &new.record.owner;
                let sets =
                    [keys.one(row::TASKS), keys.one(row::OPEN), keys.tasks_of(owner), keys.open_of(owner)];
                commit.new_row(row.clone(), name, sets);
                let fields = new.fields(&self.site.next_version());
                commit.run("HSET", row, new.lasting().into_iter().chain(fields));
                if let Some(digest) = new.record.join_key() {
                    commit.run("HSET", keys.joins_of(owner), [digest.as_str(), name]);
                }
                if let Some(once) = &new.record.once {
                    commit.run("HSET", keys.calls_of(owner), [once.key.as_str(), name]);
                }
            }
            (Some(before), Some(now)) => {
                commit.run("HSET", row.clone(), now.fields(&self.site.next_version()));
                if now.is_tombstone() && !before.is_tombstone() {
                    commit.run("HDEL", row, ["a", "c"]);
                    for beside in [keys.steps(id), keys.parts(id), keys.given(id)] {
                        commit.run("DEL", beside, [""; 0]);
                    }
                }
                if now.record.is_terminal() && !before.record.is_terminal() {
                    let owner = &before.record.owner;
                    commit.run("ZREM", keys.one(row::OPEN), [name]);
                    commit.run("ZREM", keys.open_of(owner), [name]);
                    if let Some(digest) = before.record.join_key() {
                        commit.run("HDEL", keys.joins_of(owner), [digest]);
                    }
                }
            }
            (Some(before), None) => {
                let owner = &before.record.owner;
                commit.run("DEL", row, [""; 0]);
                commit.run("ZREM", keys.one(row::TASKS), [name]);
                commit.run("ZREM", keys.tasks_of(owner), [name]);
                if let Some(once) = &before.record.once {
                    commit.run("HDEL", keys.calls_of(owner), [once.key.as_str()]);
                }
            }
            (None, None) => {}
        }
        self.index(commit, id, held);
        self.put_beside(commit, id, held);
    }

    /// Brings a task's places in the sorted sets up to date.
    fn index(&self, commit: &mut Commit, id: &TaskId, held: &Held) {
        let keys = &self.site.keys;
        let places = |row: &Option<Row>| row.as_ref().map(|row| row.places(keys)).unwrap_or_default();
        let (before, now) = (places(&held.before), places(&held.now));
        for key in before.keys().filter(|key| !now.contains_key(*key)) {
            commit.run("ZREM", key.clone(), [id.as_str()]);
        }
        for (key, score) in now.iter().filter(|(key, score)| before.get(*key) != Some(score)) {
            commit.run("ZADD", key.clone(), [&score.to_string(), id.as_str()]);
        }
        let holder = |row: &Option<Row>| row.as_ref().and_then(Row::holder).map(ToString::to_string);
        let (before, now) = (holder(&held.before), holder(&held.now));
        if before != now {
            for (node, by) in [(before, "-1"), (now, "1")] {
                if let Some(node) = node {
                    commit.count(keys.one(row::HOLDERS), &node, by);
                }
            }
        }
    }

    /// Writes a task's steps and parts.
    fn put_beside(&self, commit: &mut Commit, id: &TaskId, held: &Held) {
        let keys = &self.site.keys;
        for (key, step) in &held.put {
            match step {
                Some(step) => commit.run("HSET", keys.steps(id), [key.as_bytes().to_vec(), step.clone()]),
                None => commit.run("HDEL", keys.steps(id), [key.as_str()]),
            }
        }
        for part in &held.given {
            commit.run("RPUSH", keys.parts(id), [super::keys::word(part)]);
            commit.run("HSET", keys.given(id), [&*part.key, "1"]);
        }
    }

    /// Tells the other nodes of what they can see.
    fn tell(&self, commit: &mut Commit, changed: &[&TaskId]) {
        let numbered: Vec<&str> =
            changed.iter().filter(|id| self.rows[**id].is_numbered).map(|id| id.as_str()).collect();
        if !numbered.is_empty() {
            let words = format!("{} {}", self.site.node, numbered.join(" "));
            commit.tell(&self.site.keys.one(row::HINTS), &words);
        }
    }
}

/// How many open tasks the owner of this one may have.
fn own_open(limits: &Limits, record: &Record) -> u64 {
    match record.owner {
        crate::Owner::Principal(_) => limits.max_open_per_owner,
        crate::Owner::Anonymous => limits.max_open_anonymous,
    }
}

impl Record {
    /// The digest by which another call joins it, in hexadecimal digits.
    pub(super) fn join_key(&self) -> Option<String> {
        let digest = self.join.as_ref()?;
        Some(digest.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// A step and its place.
pub(super) fn read_step(text: &[u8]) -> Result<(u64, Step), Fault> {
    serde_json::from_slice(text).map_err(damaged)
}

/// What is kept of a task beside its row, as far as a report is held against it.
#[derive(Debug, Default)]
pub(super) struct Beside {
    steps: HashMap<String, Step>,
    parts: HashSet<String>,
}

impl Kept for Beside {
    fn step(&mut self, key: &str) -> Result<Option<Step>, StoreError> {
        Ok(self.steps.get(key).cloned())
    }

    fn has_part(&mut self, key: &str) -> Result<bool, StoreError> {
        Ok(self.parts.contains(key))
    }
}
