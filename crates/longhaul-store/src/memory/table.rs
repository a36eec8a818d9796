//! The tasks and what finds them. Every change goes through here, so that no index falls behind.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{parts::Given, steps::Steps};
use crate::{
    CallKey, Counts, Cursor, Digest, Filter, Limits, NodeId, Owner, Page, Parts, Phase, Quota, Record,
    Runnable, Scope, Step, StoreError, TaskId, Time,
    transition::{self, Kept, Noted},
};

#[derive(Debug, Default)]
pub(super) struct Table {
    /// By the number of their creation, which is the number of their first change.
    tasks: BTreeMap<u64, Slot>,
    by_id: HashMap<TaskId, u64>,
    accounts: HashMap<Owner, Account>,
    open: BTreeSet<u64>,
    /// Those that have ended and are to be undone.
    undoing: BTreeSet<u64>,
    joins: HashMap<(Owner, Digest), u64>,
    /// What was created under which key, tombstones included.
    calls: HashMap<(Owner, CallKey), u64>,
    /// The steps of those tasks that have any.
    steps: HashMap<u64, Steps>,
    /// The parts of those that have given any.
    parts: HashMap<u64, Given>,
    /// When time next demands something of a task.
    due: BTreeSet<(Time, u64)>,
    living: HashSet<NodeId>,
    nodes: u64,
    seq: u64,
}

#[derive(Debug)]
struct Slot {
    record: Record,
    /// The task's number among its owner's.
    nth: u64,
    /// Set once it is a tombstone: when that may go.
    removable_at: Option<Time>,
}

impl Slot {
    fn due(&self) -> Option<Time> {
        self.removable_at.or(self.record.expires_at)
    }
}

/// What there is of one owner.
#[derive(Debug, Default)]
struct Account {
    /// Its tasks, by their numbers among them.
    tasks: BTreeMap<u64, u64>,
    open: u64,
    last: u64,
}

impl Table {
    /// Lets a node in and names it.
    pub(super) fn join(&mut self) -> NodeId {
        self.nodes += 1;
        let node =
            NodeId::new(format!("node-{}", self.nodes)).expect("letters, a dash and digits make a name");
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
        let (own_open, own_retained) = account.map_or((0, 0), |a| (a.open, a.tasks.len() as u64));
        limits.admit(&new.owner, open, retained, own_open, own_retained)
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
        self.index(ord, &slot);
        self.tasks.insert(ord, slot);
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

    /// Some of its parts, of a task that is not a tombstone.
    pub(super) fn parts(&self, record: &Record, after: u64, limit: usize) -> Parts {
        let given = self.by_id.get(&record.id).and_then(|ord| self.parts.get(ord));
        Given::stretch(given, record, after, limit)
    }

    pub(super) fn note(&mut self, id: &TaskId, mut noted: Noted) {
        let Some(ord) = self.by_id.get(id).filter(|_| !noted.is_empty()) else { return };
        let parts = std::mem::take(&mut noted.parts);
        if !parts.is_empty() {
            self.parts.entry(*ord).or_default().append(parts);
        }
        if !noted.is_empty() {
            self.steps.entry(*ord).or_default().note(noted);
        }
    }

    /// Makes a finished task a tombstone.
    pub(super) fn erase(&mut self, id: &TaskId, removable_at: Time) {
        let ord = self.by_id[id];
        let mut slot = self.tasks.remove(&ord).expect("an id points at a task");
        self.unindex(ord, &slot);
        self.steps.remove(&ord);
        self.parts.remove(&ord);
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
            runs.is_none_or(|runs| runs.iter().any(|run| run.admits(&record.tool, &record.version)))
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

    fn index(&mut self, ord: u64, slot: &Slot) {
        if let Some(at) = slot.due() {
            self.due.insert((at, ord));
        }
        if slot.record.is_undoing() {
            self.undoing.insert(ord);
        }
        if slot.record.is_terminal() {
            return;
        }
        self.open.insert(ord);
        if let Some(digest) = slot.record.join {
            self.joins.insert((slot.record.owner.clone(), digest), ord);
        }
        if let Some(account) = self.accounts.get_mut(&slot.record.owner) {
            account.open += 1;
        }
    }

    fn unindex(&mut self, ord: u64, slot: &Slot) {
        if let Some(at) = slot.due() {
            self.due.remove(&(at, ord));
        }
        self.undoing.remove(&ord);
        if slot.record.is_terminal() {
            return;
        }
        self.open.remove(&ord);
        if let Some(digest) = slot.record.join {
            self.joins.remove(&(slot.record.owner.clone(), digest));
        }
        if let Some(account) = self.accounts.get_mut(&slot.record.owner) {
            account.open -= 1;
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

impl Limits {
    /// Refuses one more task where there are these already.
    pub(crate) fn admit(
        &self,
        owner: &Owner,
        open: u64,
        retained: u64,
        own_open: u64,
        own_retained: u64,
    ) -> Result<(), StoreError> {
        let own = match owner {
            Owner::Principal(_) => (Quota::OpenPerOwner, self.max_open_per_owner),
            Owner::Anonymous => (Quota::OpenAnonymous, self.max_open_anonymous),
        };
        let quotas = [
            (own.0, own_open, own.1),
            (Quota::RetainedPerOwner, own_retained, self.max_retained_per_owner),
            (Quota::Open, open, self.max_open),
            (Quota::Retained, retained, self.max_retained),
        ];
        match quotas.into_iter().find(|(_, found, limit)| found >= limit) {
            Some((what, _, limit)) => Err(StoreError::Overloaded { what, limit }),
            None => Ok(()),
        }
    }
}
