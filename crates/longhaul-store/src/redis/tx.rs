//! One attempt at an operation: what it has read, and what it is to write if all of that is still so.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, LazyLock},
    time::Duration,
};

use ::redis::{Pipeline, Script, pipe};

use super::{
    Site,
    commit::{Block, Commit},
    fault::{Fault, damaged},
    link::script_in_want,
    row::{self, FIELDS, Row, VERSION},
};
use crate::{
    Batch, Created, Limits, Owner, Part, Record, Step, StoreError, TaskId, Time,
    networked::{
        beside::Beside,
        fault::pass_over,
        node::Node,
        transaction::{Aged, Change, Operation, Transaction, Written},
    },
    room::Room,
    transition::Noted,
};

static STAND: LazyLock<Script> = LazyLock::new(|| script_in_want(include_str!("stand.lua")));
static COUNT_ANEW: LazyLock<Script> = LazyLock::new(|| script_in_want(include_str!("count_anew.lua")));

/// An attempt under way.
///
/// It comes to nothing if anything that it has read is otherwise when it writes. Whoever ends a task ends those that it has made, and of
/// many that report there may be one at any moment: so an attempt that follows others which came to nothing **stands** before such a
/// family. Nobody else writes to its tasks for a moment but who stands as well, and so it finds them as they were.
pub(super) struct Tx {
    site: Arc<Site>,
    now: Time,
    /// What every row that it writes has as its version.
    version: String,
    /// Whether others were faster before.
    insists: bool,
    /// Whether it stands before a family.
    stands: bool,
    rows: BTreeMap<TaskId, Held>,
    /// What else was read, as it must still be.
    read: Vec<(String, String, String)>,
    /// At how many moments it was read; what was known without being read is of none that anybody knows.
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
    /// How many were at hand when it was made; 0 if it was read.
    made_after: usize,
    steps: HashMap<String, Option<(u64, Step)>>,
    parts: HashMap<String, bool>,
    /// The steps that are put and those that are forgotten.
    put: BTreeMap<String, Option<Vec<u8>>>,
    given: Vec<Part>,
}

impl Tx {
    /// Runs an operation once, which others may have been faster than too often; gives which tasks have changed.
    pub(super) async fn attempt<O: Operation<Self>>(
        site: &Arc<Site>,
        operation: &O,
        insists: bool,
    ) -> Result<(O::Done, Vec<TaskId>), Fault> {
        let mut tx = Self {
            site: Arc::clone(site),
            now: site.node.clock.now(),
            version: site.next_version(),
            insists,
            stands: false,
            rows: BTreeMap::new(),
            read: Vec::new(),
            moments: 0,
        };
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

    /// The row as it is by now.
    fn found(&self, id: &TaskId) -> Option<&Row> {
        self.rows.get(id).and_then(|held| held.now.as_ref())
    }

    /// The task as it is by now, unless it is a tombstone.
    fn living(&self, id: &TaskId) -> Option<Record> {
        self.found(id).filter(|row| !row.is_tombstone()).map(|row| row.record.clone())
    }

    /// Reads a task, and what is kept under these keys of its steps and parts.
    async fn look(&mut self, id: &TaskId, steps: &[&str], parts: &[&str]) -> Result<(), Fault> {
        let keys = &self.site.keys;
        let known = self.rows.get(id);
        let unknown = |key: &&&str| known.is_none_or(|held| !held.steps.contains_key(**key));
        let steps: Vec<&str> = steps.iter().filter(unknown).copied().collect();
        let at_hand = if known.is_none() { self.site.recent.take(id, &self.site.node.id) } else { None };
        let is_row_wanted = known.is_none() && at_hand.is_none();
        if let Some(row) = at_hand {
            self.moments += 2;
            let row = Arc::unwrap_or_clone(row);
            let held = Held { before: Some(row.clone()), now: Some(row), ..Held::default() };
            self.rows.insert(id.clone(), held);
        }
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

    /// Reads tasks, but for those that are damaged.
    async fn look_at_all(&mut self, ids: &[TaskId]) -> Result<(), Fault> {
        let mut asked = pipe();
        for id in ids {
            asked.cmd("HMGET").arg(self.site.keys.task(id)).arg(&FIELDS);
        }
        let answers = self.ask(&asked).await?;
        for (id, fields) in ids.iter().zip(answers) {
            match Row::of(&fields) {
                Ok(row) => {
                    let held = Held { before: row.clone(), now: row, ..Held::default() };
                    self.rows.insert(id.clone(), held);
                }
                Err(fault) => pass_over(id, fault)?,
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
    async fn field(&mut self, key: String, field: String) -> Result<Option<String>, Fault> {
        self.moments += 1;
        let mut asked = pipe();
        asked.cmd("HGET").arg(&key).arg(&field);
        let (found,): (Option<String>,) = self.site.link.ask("reading tasks", &asked).await?;
        self.read.push((key, field, found.clone().unwrap_or_default()));
        Ok(found)
    }

    /// The task that was created under the key of this new one before.
    async fn again(&mut self, new: &Record) -> Result<Option<Record>, Fault> {
        let Some(once) = &new.once else { return Ok(None) };
        let calls = self.site.keys.calls_of(&new.owner);
        let Some(id) = named(self.field(calls, once.key.as_str().to_owned()).await?)? else {
            return Ok(None);
        };
        self.look(&id, &[], &[]).await?;
        let Some(row) = self.found(&id) else { return Err(Fault::Changed) };
        if row.record.once.as_ref().is_none_or(|known| known.of != once.of) {
            return Err(StoreError::KeyTaken.into());
        }
        if !row.is_visible(self.now) {
            return Err(StoreError::KeySpent { id }.into());
        }
        Ok(Some(row.record.clone()))
    }

    /// The open task of this owner and digest.
    async fn joinable(&mut self, new: &Record) -> Result<Option<Record>, Fault> {
        let Some(digest) = new.join_key() else { return Ok(None) };
        let joins = self.site.keys.joins_of(&new.owner);
        let Some(id) = named(self.field(joins, digest).await?)? else { return Ok(None) };
        // One that has ended meanwhile is joined no more.
        let found = self.load(&id).await?.filter(|record| !record.is_terminal());
        found.map(Some).ok_or(Fault::Changed)
    }

    /// Writes everything, if all that was read is still so.
    async fn write(&self, takes_room: bool, each: bool) -> Result<(Written, Vec<TaskId>), Fault> {
        let mut changed: Vec<&TaskId> =
            self.rows.iter().filter(|(_, held)| held.is_changed).map(|(id, _)| id).collect();
        // New ones are numbered in the order in which they were made.
        changed.sort_by_key(|id| self.rows[*id].made_after);
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
        match self.written(blocks, changed, each) {
            Err(Fault::Refused(refusal)) => match self.new_one() {
                Some(new) if self.site.node.may_count_anew(&refusal, &new.owner) => {
                    // It is refused whether or not they can be counted.
                    let counted = self.count_anew(new).await;
                    Err(counted.map_or(Fault::Refused(refusal), |()| Fault::Changed))
                }
                _ => Err(Fault::Refused(refusal)),
            },
            written => written,
        }
    }

    /// Counts anew what the owner of the task that is to be made is charged.
    async fn count_anew(&self, new: &Record) -> Result<(), Fault> {
        let keys = &self.site.keys;
        let about = [keys.one(row::CHARGES), keys.tasks_of(&new.owner)];
        let args = [super::keys::word(&new.owner), keys.tasks()].map(String::into_bytes);
        let _counted: u64 =
            self.site.link.write("counting an owner's tasks anew", &COUNT_ANEW, &about, &args).await?;
        Ok(())
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
                    ids.iter().for_each(|id| self.keep(id, &written));
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

    /// Keeps a row as it was just written, for who goes on with it.
    fn keep(&self, id: &TaskId, written: &Written) {
        let Some(row) = self.rows[id].now.as_ref() else { return self.site.recent.forget([id]) };
        let mut row = Row { version: self.version.clone(), charged: row.weight(), ..row.clone() };
        written.number(&mut row.record);
        // As it is kept.
        row.record.share = row.record.share.filter(|_| !row.record.is_terminal());
        self.site.recent.keep(row);
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

    fn full(&self, [own_open, own_retained, open, retained, of_share, own_bytes]: [u64; 6]) -> Fault {
        let limits = &self.settings().limits;
        let room = Room { open, retained, own_open, own_retained, own_bytes, of_share };
        let refused = |record: &Record| limits.admit(record, room);
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
                if let Some(share) = row.record.share {
                    let most = limits.max_open_per_stranger;
                    commit.share(keys.open_of_share(share), keys.one(row::OPEN), most);
                }
                commit.room([
                    (open_of, own_open(limits, &row.record)),
                    (of_owner, limits.max_retained_per_owner),
                    (keys.one(row::OPEN), limits.max_open),
                    (keys.one(row::TASKS), limits.max_retained),
                ]);
                let (weight, most) = (row.weight(), limits.max_task_bytes_per_owner);
                commit.bytes(keys.one(row::CHARGES), &super::keys::word(owner), weight, most);
            }
            (before, now) => {
                commit.same(keys.task(id), VERSION, before.as_ref().map_or("", |row| &row.version));
                if let Some(row) = now.as_ref().filter(|_| held.is_changed && !self.stands) {
                    let above = row.record.parent.as_ref().map(|parent| &parent.task);
                    for of in above.into_iter().chain((row.record.children.open > 0).then_some(id)) {
                        commit.same(keys.stand(of), "by", "");
                    }
                }
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
                let fields = new.fields(&self.version);
                commit.run("HSET", row, new.lasting().into_iter().chain(fields));
                if new.record.is_terminal() {
                    // It comes from another store.
                    self.close(commit, &new.record);
                } else if let Some(digest) = new.record.join_key() {
                    commit.run("HSET", keys.joins_of(owner), [digest.as_str(), name]);
                }
                if let Some(once) = &new.record.once {
                    commit.run("HSET", keys.calls_of(owner), [once.key.as_str(), name]);
                }
            }
            (Some(before), Some(now)) => {
                commit.run("HSET", row.clone(), now.fields(&self.version));
                if now.is_tombstone() && !before.is_tombstone() {
                    commit.run("HDEL", row, ["a", "c"]);
                    for beside in [keys.steps(id), keys.parts(id), keys.given(id)] {
                        // What many parts take up is freed beside what else the server does.
                        commit.run("UNLINK", beside, [""; 0]);
                    }
                }
                if now.record.is_terminal() && !before.record.is_terminal() {
                    self.close(commit, &before.record);
                    if let Some(digest) = before.record.join_key() {
                        commit.run("HDEL", keys.joins_of(&before.record.owner), [digest]);
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
        self.charge(commit, held);
        self.index(commit, id, held);
        self.put_beside(commit, id, held);
    }

    /// Charges the owner of a task for what it weighs by now, in the place of what it was charged.
    fn charge(&self, commit: &mut Commit, held: &Held) {
        let Some(of) = held.now.as_ref().or(held.before.as_ref()) else { return };
        let charged = held.before.as_ref().map_or(0, |row| row.charged);
        let weight = held.now.as_ref().map_or(0, Row::weight);
        if weight != charged {
            let by = weight.cast_signed().saturating_sub(charged.cast_signed()).to_string();
            commit.count(self.site.keys.one(row::CHARGES), &super::keys::word(&of.record.owner), &by);
        }
    }

    /// Takes a task that has ended from among the open ones.
    fn close(&self, commit: &mut Commit, record: &Record) {
        let (keys, owner) = (&self.site.keys, &record.owner);
        commit.run("ZREM", keys.one(row::OPEN), [record.id.as_str()]);
        commit.run("ZREM", keys.open_of(owner), [record.id.as_str()]);
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
            let words = format!("{} {}", self.site.node.id, numbered.join(" "));
            let own = self.site.keys.node(self.site.node.id.as_str());
            commit.tell(&self.site.keys.one(row::HINTS), &own, &words);
        }
    }
}

impl Transaction for Tx {
    type Fault = Fault;
    type Row = TaskId;

    fn node(&self) -> &Node {
        &self.site.node
    }

    fn now(&self) -> Time {
        self.now
    }

    async fn known(&mut self, new: &Record) -> Result<Option<Created>, Fault> {
        match self.again(new).await? {
            Some(found) => Ok(Some(Created::Again(found))),
            None => Ok(self.joinable(new).await?.map(Created::Joined)),
        }
    }

    /// Whether its id is free and whether there is room for it is found out when it is written.
    async fn insert(&mut self, record: &Record) -> Result<(), Fault> {
        let made_after = self.rows.len();
        let held = self.rows.entry(record.id.clone()).or_default();
        if held.now.is_some() {
            return Err(StoreError::AlreadyExists { id: record.id.clone() }.into());
        }
        (held.now, held.made_after) = (Some(Row::new(record.clone())), made_after);
        (held.is_changed, held.is_numbered) = (true, true);
        Ok(())
    }

    async fn load(&mut self, id: &TaskId) -> Result<Option<Record>, Fault> {
        self.look(id, &[], &[]).await?;
        Ok(self.living(id))
    }

    async fn load_with(&mut self, id: &TaskId, batch: &Batch) -> Result<Option<(Record, Beside)>, Fault> {
        let (steps, parts) = Beside::wanted(batch);
        self.look(id, &steps, &parts).await?;
        let (Some(record), Some(held)) = (self.living(id), self.rows.get(id)) else { return Ok(None) };
        let known = held.steps.iter();
        let beside = Beside {
            steps: known.filter_map(|(key, step)| Some((key.clone(), step.as_ref()?.1.clone()))).collect(),
            parts: held.parts.iter().filter(|(_, has)| **has).map(|(key, _)| key.clone()).collect(),
        };
        Ok(Some((record, beside)))
    }

    async fn load_many(&mut self, ids: &[TaskId]) -> Result<Vec<Record>, Fault> {
        let unknown: Vec<TaskId> = ids.iter().filter(|id| !self.rows.contains_key(*id)).cloned().collect();
        if !unknown.is_empty() {
            self.look_at_all(&unknown).await?;
        }
        Ok(ids.iter().filter_map(|id| self.living(id)).collect())
    }

    /// What others take meanwhile shows when it is written.
    async fn load_free(&mut self, ids: &[TaskId], _: usize) -> Result<Vec<Record>, Fault> {
        self.look_at_all(ids).await?;
        Ok(ids.iter().filter_map(|id| self.living(id)).collect())
    }

    async fn step(&mut self, record: &Record, key: &str) -> Result<Option<Step>, Fault> {
        self.look(&record.id, &[key], &[]).await?;
        let known = self.rows.get(&record.id).and_then(|held| held.steps.get(key));
        Ok(known.and_then(|step| step.as_ref().map(|(_, step)| step.clone())))
    }

    async fn children(&mut self, of: &Record) -> Result<Vec<TaskId>, Fault> {
        self.moments += 1;
        let (doing, children) = ("looking for the children of a task", self.site.keys.children(&of.id));
        let found: Vec<String> = if self.insists {
            self.stands = true;
            let keys = [self.site.keys.stand(&of.id), children];
            let args = [self.site.node.id.to_string(), MOMENT.as_millis().to_string()];
            self.site.link.read(doing, &STAND, &keys, &args.map(String::into_bytes)).await?
        } else {
            let mut asked = pipe();
            asked.cmd("ZRANGE").arg(children).arg(0).arg(-1);
            let (found,) = self.site.link.ask(doing, &asked).await?;
            found
        };
        found.into_iter().map(|id| TaskId::new(id).map_err(damaged)).collect()
    }

    async fn put(&mut self, record: &Record, change: Change) -> Result<(), Fault> {
        if let Some(held) = self.rows.get_mut(&record.id)
            && let Some(row) = &mut held.now
        {
            row.record = record.clone();
            held.is_changed = true;
            held.is_numbered |= matches!(change, Change::Any | Change::Report);
        }
        Ok(())
    }

    async fn note(&mut self, record: &Record, noted: Noted) -> Result<(), Fault> {
        if noted.is_empty() {
            return Ok(());
        }
        let keys: Vec<&str> = noted.steps.iter().map(|step| &*step.key).collect();
        let is_new = self.rows.get(&record.id).is_some_and(|held| held.before.is_none());
        if !is_new {
            self.look(&record.id, &keys, &[]).await?;
        }
        let Some(held) = self.rows.get_mut(&record.id) else { return Ok(()) };
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

    async fn load_aged(&mut self, ids: &[TaskId]) -> Result<Aged, Fault> {
        self.look_at_all(ids).await?;
        // What is gone was read all the same.
        let is_damaged = |id: &&TaskId| !self.rows.contains_key(*id);
        let mut aged = Aged { damaged: ids.iter().filter(is_damaged).cloned().collect(), ..Aged::default() };
        for row in ids.iter().filter_map(|id| self.found(id)) {
            match row.removable_at {
                None => aged.living.push(row.record.clone()),
                Some(at) if at <= self.now => {
                    aged.tombstones.push((row.record.id.clone(), row.record.owner.clone()));
                }
                Some(_) => {}
            }
        }
        Ok(aged)
    }

    async fn erase(&mut self, records: &[Record], until: Time) -> Result<(), Fault> {
        for record in records {
            let Some(held) = self.rows.get_mut(&record.id) else { continue };
            let Some(row) = &mut held.now else { continue };
            let null = crate::Json::null();
            let (id, owner) = (record.id.clone(), record.owner.clone());
            let mut left = Record::new(id, owner, record.tool.clone(), null.clone(), null, record.created_at);
            left.phase = crate::Phase::Done(crate::Outcome::cancelled(None));
            left.once.clone_from(&record.once);
            (row.record, row.removable_at) = (left, Some(until));
            held.is_changed = true;
        }
        Ok(())
    }

    async fn remove(&mut self, tombstones: &[(TaskId, Owner)]) -> Result<(), Fault> {
        for (id, _) in tombstones {
            if let Some(held) = self.rows.get_mut(id) {
                (held.now, held.is_changed) = (None, true);
            }
        }
        Ok(())
    }
}

fn named(id: Option<String>) -> Result<Option<TaskId>, Fault> {
    id.map(TaskId::new).transpose().map_err(damaged)
}

/// How many open tasks the owner of this one may have.
fn own_open(limits: &Limits, record: &Record) -> u64 {
    match record.owner {
        Owner::Principal(_) => limits.max_open_per_owner,
        Owner::Anonymous => limits.max_open_anonymous,
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

/// How long a family is stood before: for as long as it may take to read it and to write to it.
const MOMENT: Duration = Duration::from_millis(250);
