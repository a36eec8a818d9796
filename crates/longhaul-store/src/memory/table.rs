//! The tasks and what finds them. Every change goes through here, so that no index falls behind.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::{
    parts::Given,
    rows::{Beneath, RowKey, corrupt},
    steps::Steps,
};
use crate::{
    CallKey, Counts, Cursor, Digest, Filter, Limits, NodeId, Owner, Page, Part, Parts, Phase, Record,
    Runnable, Scope, SeenSteps, Share, Step, StoreError, TaskId, Time,
    room::Room,
    transfer::Miscount,
    transition::{self, Kept, Noted},
};

/// How names of nodes begin.
const NODE: &str = "node-";

#[derive(Debug, Default)]
pub(super) struct Table {
    /// By the number of their creation, which is the number of their first change.
    tasks: BTreeMap<u64, Slot>,
    by_id: HashMap<TaskId, u64>,
    accounts: HashMap<Owner, Account>,
    open: BTreeSet<u64>,
    /// How many of them are of each stranger who has any.
    shares: HashMap<Share, u64>,
    /// Those that have ended and are to be undone.
    undoing: BTreeSet<u64>,
    joins: HashMap<(Owner, Digest), u64>,
    /// What was created under which key, tombstones included.
    calls: HashMap<(Owner, CallKey), u64>,
    /// The steps of those tasks that have any.
    steps: HashMap<u64, Steps>,
    /// The parts of those that have given any.
    parts: HashMap<u64, Given>,
    /// The open tasks that each task has made.
    children: HashMap<TaskId, BTreeSet<u64>>,
    /// When time next demands something of a task.
    due: BTreeSet<(Time, u64)>,
    living: HashSet<NodeId>,
    nodes: u64,
    seq: u64,
    /// Which rows have changed since that was last asked, if anybody asks.
    changed: Option<BTreeSet<RowKey>>,
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Slot {
    record: Record,
    /// The task's number among its owner's.
    nth: u64,
    /// Set once it is a tombstone: when that may go.
    removable_at: Option<Time>,
}

impl Slot {
    fn due(&self) -> Option<Time> {
        self.removable_at.or_else(|| self.record.swept_at())
    }

    fn weight(&self) -> u64 {
        if self.removable_at.is_some() { 0 } else { self.record.weight() }
    }
}

/// What there is of one owner.
#[derive(Debug, Default)]
struct Account {
    /// Its tasks, by their numbers among them.
    tasks: BTreeMap<u64, u64>,
    open: u64,
    last: u64,
    /// What they weigh.
    bytes: u64,
}

impl Table {
    /// Lets a node in and names it.
    pub(super) fn join(&mut self) -> NodeId {
        self.nodes += 1;
        let node =
            NodeId::new(format!("{NODE}{}", self.nodes)).expect("letters, a dash and digits make a name");
        self.living.insert(node.clone());
        node
    }

    pub(super) fn leave(&mut self, node: &NodeId) {
        self.living.remove(node);
    }

    pub(super) fn is_alive(&self, node: &NodeId) -> bool {
        self.living.contains(node)
    }

    /// A task that is not a tombstone.
    pub(super) fn find(&self, id: &TaskId) -> Option<&Record> {
        let slot = self.tasks.get(self.by_id.get(id)?)?;
        slot.removable_at.is_none().then_some(&slot.record)
    }

    /// The open task that this one joins.
    pub(super) fn joinable(&self, new: &Record) -> Option<&Record> {
        let ord = self.joins.get(&(new.owner.clone(), new.join?))?;
        self.tasks.get(ord).map(|slot| &slot.record)
    }

    /// The task of this key, unless it is a tombstone.
    pub(super) fn called(&self, owner: &Owner, key: &CallKey) -> Option<&Record> {
        let slot = self.tasks.get(self.calls.get(&(owner.clone(), key.clone()))?)?;
        slot.removable_at.is_none().then_some(&slot.record)
    }

    /// What the new task comes to if its key was used before.
    pub(super) fn again(&self, new: &Record, now: Time) -> Option<Result<Record, StoreError>> {
        let once = new.once.as_ref()?;
        let slot = self.tasks.get(self.calls.get(&(new.owner.clone(), once.key.clone()))?)?;
        let found = &slot.record;
        Some(if found.once.as_ref().is_none_or(|known| known.of != once.of) {
            Err(StoreError::KeyTaken)
        } else if slot.removable_at.is_some() || found.is_forgotten(now) {
            Err(StoreError::KeySpent { id: found.id.clone() })
        } else {
            Ok(found.clone())
        })
    }

    /// Whether there is room for it.
    pub(super) fn admit(&self, new: &Record, limits: &Limits) -> Result<(), StoreError> {
        if self.by_id.contains_key(&new.id) {
            return Err(StoreError::AlreadyExists { id: new.id.clone() });
        }
        let Counts { open, retained, .. } = self.counts();
        let account = self.accounts.get(&new.owner);
        let (own_open, own_retained, own_bytes) =
            account.map_or((0, 0, 0), |a| (a.open, a.tasks.len() as u64, a.bytes));
        let of_share = new.share.and_then(|share| self.shares.get(&share)).copied().unwrap_or(0);
        limits.admit(new, Room { open, retained, own_open, own_retained, own_bytes, of_share })
    }

    pub(super) fn insert(&mut self, mut record: Record) -> Record {
        self.seq += 1;
        record.seq = self.seq;
        let account = self.accounts.entry(record.owner.clone()).or_default();
        account.last += 1;
        account.tasks.insert(account.last, self.seq);
        let slot = Slot { record: record.clone(), nth: account.last, removable_at: None };
        self.by_id.insert(record.id.clone(), self.seq);
        if let Some(once) = &record.once {
            self.calls.insert((record.owner.clone(), once.key.clone()), self.seq);
        }
        self.index(self.seq, &slot);
        self.tasks.insert(self.seq, slot);
        self.mark(self.seq, Beneath::Task);
        record
    }

    /// Puts a changed record in the place of the old and numbers the change.
    pub(super) fn replace(&mut self, mut record: Record) -> Record {
        self.seq += 1;
        record.seq = self.seq;
        self.keep(record)
    }

    /// Puts a record in the place of the old, with nothing changed that anyone can see.
    pub(super) fn keep(&mut self, record: Record) -> Record {
        let ord = self.by_id[&record.id];
        let mut slot = self.tasks.remove(&ord).expect("an id points at a task");
        self.unindex(ord, &slot);
        slot.record = record.clone();
        slot.record.share = record.share.filter(|_| !record.is_terminal());
        self.index(ord, &slot);
        self.tasks.insert(ord, slot);
        self.mark(ord, Beneath::Task);
        record
    }

    /// The step of a task under this key.
    pub(super) fn step(&self, id: &TaskId, key: &str) -> Option<&Step> {
        self.steps.get(self.by_id.get(id)?)?.find(key)
    }

    /// All of them.
    pub(super) fn steps(&self, id: &TaskId) -> Vec<Step> {
        let steps = self.by_id.get(id).and_then(|ord| self.steps.get(ord));
        steps.map(|steps| steps.list().cloned().collect()).unwrap_or_default()
    }

    /// What is seen of some of them.
    pub(super) fn seen_steps(&self, id: &TaskId, after: u64, limit: usize) -> SeenSteps {
        let steps = self.by_id.get(id).and_then(|ord| self.steps.get(ord));
        steps.map_or_else(|| SeenSteps::new(0, Vec::new(), 0), |steps| steps.seen(after, limit))
    }

    /// The topmost of the open tasks above this one.
    pub(super) fn top(&self, record: &Record) -> Option<&Record> {
        let mut top = None;
        let mut above = record.parent.as_ref();
        let open = |id| self.find(id).filter(|found| !found.is_terminal());
        while let Some(found) = above.and_then(|link| open(&link.task)) {
            (top, above) = (Some(found), found.parent.as_ref());
        }
        top
    }

    /// The open tasks that this one has made.
    pub(super) fn children(&self, id: &TaskId) -> Vec<TaskId> {
        let children = self.children.get(id).into_iter().flatten().filter_map(|ord| self.tasks.get(ord));
        children.map(|slot| slot.record.id.clone()).collect()
    }

    /// Some of its parts, of a task that is not a tombstone.
    pub(super) fn parts(&self, record: &Record, after: u64, limit: usize) -> Parts {
        let given = self.by_id.get(&record.id).and_then(|ord| self.parts.get(ord));
        Given::stretch(given, record, after, limit)
    }

    pub(super) fn note(&mut self, id: &TaskId, mut noted: Noted) {
        let Some(ord) = self.by_id.get(id).copied().filter(|_| !noted.is_empty()) else { return };
        let parts = std::mem::take(&mut noted.parts);
        if !parts.is_empty() {
            for number in self.parts.entry(ord).or_default().append(parts) {
                self.mark(ord, Beneath::Part(number));
            }
        }
        if !noted.is_empty() {
            for place in self.steps.entry(ord).or_default().note(noted) {
                self.mark(ord, Beneath::Step(place));
            }
        }
    }

    /// Makes a finished task a tombstone.
    pub(super) fn erase(&mut self, id: &TaskId, removable_at: Time) {
        let ord = self.by_id[id];
        let mut slot = self.tasks.remove(&ord).expect("an id points at a task");
        self.unindex(ord, &slot);
        for (place, _) in self.steps.remove(&ord).iter().flat_map(Steps::places) {
            self.mark(ord, Beneath::Step(place));
        }
        for number in 0..self.parts.remove(&ord).map_or(0, |given| given.count()) {
            self.mark(ord, Beneath::Part(number));
        }
        self.mark(ord, Beneath::Task);
        let old = &slot.record;
        let null = crate::Json::parse("null").expect("null is JSON");
        let mut record = Record::new(
            old.id.clone(),
            old.owner.clone(),
            old.tool.clone(),
            null.clone(),
            null,
            old.created_at,
        );
        record.phase = Phase::Done(crate::Outcome::cancelled(None));
        record.once.clone_from(&old.once);
        record.seq = old.seq;
        slot = Slot { record, nth: slot.nth, removable_at: Some(removable_at) };
        self.index(ord, &slot);
        self.tasks.insert(ord, slot);
    }

    pub(super) fn remove(&mut self, id: &TaskId) {
        let Some(ord) = self.by_id.remove(id) else { return };
        let Some(slot) = self.tasks.remove(&ord) else { return };
        self.unindex(ord, &slot);
        self.mark(ord, Beneath::Task);
        if let Some(once) = slot.record.once {
            self.calls.remove(&(slot.record.owner.clone(), once.key));
        }
        if let Some(account) = self.accounts.get_mut(&slot.record.owner) {
            account.tasks.remove(&slot.nth);
            if account.tasks.is_empty() {
                self.accounts.remove(&slot.record.owner);
            }
        }
    }

    pub(super) fn claimable(&self, now: Time, limit: usize, runs: Option<&[Runnable]>) -> Vec<TaskId> {
        let open =
            self.open.union(&self.undoing).filter_map(|ord| self.tasks.get(ord)).map(|slot| &slot.record);
        let runs_it = |record: &&Record| {
            runs.is_none_or(|runs| {
                runs.iter().any(|run| run.admits(&record.tool, &record.version, record.host.as_ref()))
            })
        };
        open.filter(runs_it)
            .filter(|record| transition::is_claimable(record, now, &|node| !self.is_alive(node)))
            .take(limit)
            .map(|record| record.id.clone())
            .collect()
    }

    /// The tasks of which time demands something.
    pub(super) fn due(&self, now: Time, limit: usize) -> Vec<TaskId> {
        let due = self.due.iter().take_while(|(at, _)| *at <= now).take(limit);
        due.filter_map(|(_, ord)| self.tasks.get(ord)).map(|slot| slot.record.id.clone()).collect()
    }

    pub(super) fn list(
        &self,
        scope: Scope<'_>,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
        now: Time,
    ) -> Result<Page, StoreError> {
        let before = after.map_or(Ok(u64::MAX), |cursor| cursor.number(scope))?;
        let numbers: Box<dyn Iterator<Item = (u64, u64)>> = match scope {
            Scope::Owner(Owner::Anonymous) => return Err(StoreError::Unlistable),
            Scope::Owner(owner) => match self.accounts.get(owner) {
                Some(account) => Box::new(account.tasks.range(..before).rev().map(|(nth, ord)| (*nth, *ord))),
                None => return Ok(Page::default()),
            },
            Scope::Operator => Box::new(self.tasks.range(..before).rev().map(|(ord, _)| (*ord, *ord))),
        };
        let mut page = Page::default();
        for (number, ord) in numbers {
            let Some(slot) = self.tasks.get(&ord) else { continue };
            if slot.removable_at.is_some() || slot.record.is_forgotten(now) || !filter.admits(&slot.record) {
                continue;
            }
            let is_dead = |node: &NodeId| !self.is_alive(node);
            if filter.claimable_only && !transition::is_claimable(&slot.record, now, &is_dead) {
                continue;
            }
            page.tasks.push(slot.record.clone());
            if page.tasks.len() == limit {
                page.next = Some(Cursor::behind(scope, number));
                break;
            }
        }
        Ok(page)
    }

    pub(super) fn counts(&self) -> Counts {
        Counts::new(self.open.len() as u64, self.tasks.len() as u64)
    }

    /// The owners that are charged for other bytes of tasks than they have.
    pub(super) fn miscounted(&self) -> Vec<Miscount> {
        let mut has: HashMap<&Owner, u64> = HashMap::new();
        for slot in self.tasks.values() {
            *has.entry(&slot.record.owner).or_default() += slot.weight();
        }
        let charged = |owner: &Owner| self.accounts.get(owner).map_or(0, |account| account.bytes);
        let all = has.into_iter().map(|(owner, has)| (owner, charged(owner), has));
        let wrong = all.filter(|(_, charged, has)| charged != has);
        wrong.map(|(owner, charged, has)| Miscount::new(format!("{owner:?}"), charged, has)).collect()
    }

    /// Puts a task where it was.
    pub(super) fn put_back(&mut self, ord: u64, slot: Slot) {
        let record = &slot.record;
        self.seq = self.seq.max(ord).max(record.seq);
        // Names of nodes are in leases alone: none that may still be read there is given again.
        let node = record.lease().and_then(|lease| lease.node.as_str().strip_prefix(NODE)?.parse().ok());
        self.nodes = self.nodes.max(node.unwrap_or(0));
        let account = self.accounts.entry(record.owner.clone()).or_default();
        account.last = account.last.max(slot.nth);
        account.tasks.insert(slot.nth, ord);
        self.by_id.insert(record.id.clone(), ord);
        if let Some(once) = &record.once {
            self.calls.insert((record.owner.clone(), once.key.clone()), ord);
        }
        self.index(ord, &slot);
        self.tasks.insert(ord, slot);
    }

    /// Puts a step of such a task where it was.
    pub(super) fn put_step_back(&mut self, ord: u64, place: u64, step: Step) -> Result<(), StoreError> {
        if !self.tasks.contains_key(&ord) {
            return Err(corrupt("a step of no task", None));
        }
        self.steps.entry(ord).or_default().restore(place, step);
        Ok(())
    }

    /// Puts a part of such a task behind those before it.
    pub(super) fn put_part_back(&mut self, ord: u64, number: u64, part: Part) -> Result<(), StoreError> {
        let given = self.parts.entry(ord).or_default();
        if !self.tasks.contains_key(&ord) || given.count() != number {
            return Err(corrupt("a part of no task, or not the next of its task", None));
        }
        let _its_number = given.append(vec![part]);
        Ok(())
    }

    /// From now on it is noted which rows change.
    pub(super) fn follow_changes(&mut self) {
        self.changed = Some(BTreeSet::new());
    }

    /// The rows that have changed since, if that is noted.
    pub(super) fn followed(&mut self) -> Option<&mut BTreeSet<RowKey>> {
        self.changed.as_mut()
    }

    pub(super) fn slot(&self, ord: u64) -> Option<&Slot> {
        self.tasks.get(&ord)
    }

    pub(super) fn step_at(&self, ord: u64, place: u64) -> Option<&Step> {
        self.steps.get(&ord)?.at(place)
    }

    pub(super) fn part_at(&self, ord: u64, number: u64) -> Option<&Part> {
        self.parts.get(&ord)?.at(number)
    }

    /// The latest date of any task.
    pub(super) fn latest(&self) -> Option<Time> {
        self.tasks.values().map(|slot| slot.record.updated_at).max()
    }

    /// Gives all changes of one second its date, as an earlier build gave those of one instant.
    #[cfg(test)]
    pub(super) fn share_dates(&mut self) {
        let second = |at: &mut Time| *at = Time::from_unix_ms(at.unix_ms() / 1000 * 1000);
        self.tasks.values_mut().for_each(|slot| {
            second(&mut slot.record.updated_at);
            second(&mut slot.record.status_changed_at);
        });
    }

    /// Makes those tasks as an earlier build wrote them.
    #[cfg(test)]
    pub(super) fn forget_spells(&mut self, of: impl Fn(&TaskId) -> bool) {
        let slots = self.tasks.values_mut().filter(|slot| of(&slot.record.id));
        slots.for_each(|slot| slot.record.spells.clear());
    }

    #[cfg(test)]
    pub(super) fn forget_times_of_steps(&mut self, of: impl Fn(&TaskId) -> bool) {
        let slots = self.tasks.iter().filter(|(_, slot)| of(&slot.record.id));
        for (ord, _) in slots {
            self.steps.get_mut(ord).into_iter().for_each(Steps::forget_times);
        }
    }

    /// Whether this is what the other is, but for who lives and for numbers that nothing has any more.
    #[cfg(test)]
    pub(super) fn holds_what(&self, other: &Self) -> bool {
        let steps = |table: &Self| -> BTreeMap<u64, Vec<Step>> {
            let any =
                table.steps.iter().map(|(ord, steps)| (*ord, steps.list().cloned().collect::<Vec<_>>()));
            any.filter(|(_, steps)| !steps.is_empty()).collect()
        };
        let accounts = |table: &Self| -> BTreeMap<Owner, (BTreeMap<u64, u64>, u64, u64)> {
            let all = table.accounts.iter();
            let of = |account: &Account| (account.tasks.clone(), account.open, account.bytes);
            all.map(|(owner, account)| (owner.clone(), of(account))).collect()
        };
        self.tasks == other.tasks
            && self.by_id == other.by_id
            && accounts(self) == accounts(other)
            && (&self.open, &self.undoing, &self.due) == (&other.open, &other.undoing, &other.due)
            && (&self.joins, &self.calls) == (&other.joins, &other.calls)
            && self.shares == other.shares
            && self.children == other.children
            && steps(self) == steps(other)
            && self.parts == other.parts
    }

    fn mark(&mut self, ord: u64, beneath: Beneath) {
        if let Some(changed) = &mut self.changed {
            changed.insert(beneath.key(ord));
        }
    }

    fn index(&mut self, ord: u64, slot: &Slot) {
        if let Some(at) = slot.due() {
            self.due.insert((at, ord));
        }
        if slot.record.is_undoing() {
            self.undoing.insert(ord);
        }
        if let Some(account) = self.accounts.get_mut(&slot.record.owner) {
            account.bytes += slot.weight();
            account.open += u64::from(!slot.record.is_terminal());
        }
        if slot.record.is_terminal() {
            return;
        }
        self.open.insert(ord);
        if let Some(share) = slot.record.share {
            *self.shares.entry(share).or_default() += 1;
        }
        if let Some(link) = &slot.record.parent {
            self.children.entry(link.task.clone()).or_default().insert(ord);
        }
        if let Some(digest) = slot.record.join {
            self.joins.insert((slot.record.owner.clone(), digest), ord);
        }
    }

    fn unindex(&mut self, ord: u64, slot: &Slot) {
        if let Some(at) = slot.due() {
            self.due.remove(&(at, ord));
        }
        self.undoing.remove(&ord);
        if let Some(account) = self.accounts.get_mut(&slot.record.owner) {
            account.bytes -= slot.weight();
            account.open -= u64::from(!slot.record.is_terminal());
        }
        if slot.record.is_terminal() {
            return;
        }
        self.open.remove(&ord);
        if let Some(share) = slot.record.share
            && let Some(open) = self.shares.get_mut(&share)
        {
            *open -= 1;
            if *open == 0 {
                self.shares.remove(&share);
            }
        }
        if let Some(link) = &slot.record.parent
            && let Some(children) = self.children.get_mut(&link.task)
        {
            children.remove(&ord);
            if children.is_empty() {
                self.children.remove(&link.task);
            }
        }
        if let Some(digest) = slot.record.join {
            self.joins.remove(&(slot.record.owner.clone(), digest));
        }
    }
}

/// What is kept of a task beside its record.
pub(super) struct Beside<'t> {
    pub(super) table: &'t Table,
    pub(super) task: &'t TaskId,
}

impl Kept for Beside<'_> {
    fn step(&mut self, key: &str) -> Result<Option<Step>, StoreError> {
        Ok(self.table.step(self.task, key).cloned())
    }

    fn has_part(&mut self, key: &str) -> Result<bool, StoreError> {
        let given = self.table.by_id.get(self.task).and_then(|ord| self.table.parts.get(ord));
        Ok(given.is_some_and(|given| given.has(key)))
    }
}
