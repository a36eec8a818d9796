//! Tasks as their contract tells of them, in as few words as can be: nothing is counted ahead, nothing is indexed, and
//! each operation is written down once. Times are milliseconds.

use std::collections::BTreeMap;

/// How long a claim holds, an outcome can be read at least, what is owed is kept, and an id stays taken.
pub(super) const LEASE: i64 = 30_000;
const READABLE: i64 = 300_000;
const UNDOABLE: i64 = 7 * 24 * 3_600_000;
const TOMBSTONE: i64 = 3_600_000;

/// Where a task, or its undoing, stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum At {
    /// Anyone may take it from then on.
    Queued(i64),
    /// It waits, until then if there is a time.
    Parked(Option<i64>),
    /// A node has it until then.
    Held(usize, i64),
    /// It ended so.
    Ended(How),
    /// Nothing is owed any more.
    Undone,
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum How {
    Done,
    SaysItFailed,
    Failed,
    Lost,
    Cancelled,
    Expired,
    /// A task that it could not do without has failed.
    LostChild,
}

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    Begun,
    /// A question, to be answered by then.
    Asked(Option<i64>),
    Owed,
    Child(usize),
    /// It came to this: what its worker says, an answer, or what became of a task.
    Learnt(Value),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Said,
    Failure,
    Answer,
    End(usize, How),
}

/// How long a task is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Keep {
    FromCreation(i64),
    AfterEnd(i64),
    Forever,
}

/// What ties a task to the one that made it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Link {
    pub(super) parent: usize,
    pub(super) step: usize,
    pub(super) outlives: bool,
    pub(super) essential: bool,
}

/// How far a task is undone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Undo {
    pub(super) at: At,
    pub(super) until: Option<i64>,
    pub(super) attempt: u32,
    pub(super) failed: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Task {
    pub(super) at: At,
    pub(super) epoch: u64,
    pub(super) attempt: u32,
    pub(super) started: bool,
    pub(super) keep: Keep,
    pub(super) created: i64,
    /// When its status changed, when anything did, and when it ended.
    pub(super) turned: i64,
    pub(super) updated: i64,
    pub(super) ended: Option<i64>,
    pub(super) expires: Option<i64>,
    pub(super) progress: Option<u8>,
    pub(super) said: Option<u8>,
    pub(super) steps: BTreeMap<usize, Step>,
    /// The steps whose questions wait, in the order in which they were asked.
    pub(super) asked: Vec<usize>,
    pub(super) link: Option<Link>,
    pub(super) undo: Option<Undo>,
    /// How many were made before it.
    born: usize,
}

/// What an operation came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Said {
    Well,
    /// Somebody else's by now, or nobody's.
    Fenced,
    /// Something else is recorded under that key.
    Recorded,
    /// There is, or was, a task of this name.
    Taken,
    /// There is no such task.
    Absent,
    /// It has ended, and nothing changed.
    HadEnded,
    /// It has not ended.
    Open,
    /// Nobody may have it now.
    Refused,
    /// So many answers counted.
    Answered(usize),
}

use Said::{Absent, Fenced, HadEnded, Recorded, Refused, Well};

/// All tasks, and who is alive.
#[derive(Debug)]
pub(super) struct World {
    pub(super) now: i64,
    pub(super) tasks: BTreeMap<usize, Task>,
    /// Names that stay taken until then.
    pub(super) tombs: BTreeMap<usize, i64>,
    pub(super) living: Vec<usize>,
    /// The names of all that ever were, in the order in which they were made.
    used: Vec<usize>,
}

impl Task {
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.at, At::Ended(_))
    }

    /// A worker has it at this epoch.
    fn is_held(&self, epoch: u64) -> bool {
        matches!(self.at, At::Held(..)) && self.epoch == epoch
    }

    /// A node has it at this epoch, to undo it.
    fn is_undone_by(&self, epoch: u64) -> bool {
        matches!(self.undo, Some(Undo { at: At::Held(..), .. })) && self.epoch == epoch
    }

    pub(super) fn owed(&self) -> usize {
        self.steps.values().filter(|step| **step == Step::Owed).count()
    }

    /// Whether a caller no longer finds it.
    fn is_forgotten(&self, now: i64) -> bool {
        !self.is_open() && self.expires.is_some_and(|at| at <= now)
    }

    fn holder(&self) -> Option<(usize, i64)> {
        match (self.at, self.undo) {
            (At::Held(node, until), _) | (_, Some(Undo { at: At::Held(node, until), .. })) => {
                Some((node, until))
            }
            _ => None,
        }
    }

    /// A change that callers can see, which has a date of its own.
    fn touch(&mut self, now: i64) {
        self.updated = now.max(self.updated + 1);
    }

    /// Changes what is asked; a status changes when the first question comes or the last goes.
    fn ask(&mut self, now: i64, change: impl FnOnce(&mut Vec<usize>)) {
        let before = self.asked.clone();
        change(&mut self.asked);
        if self.asked != before {
            self.touch(now);
        }
        if self.asked.is_empty() != before.is_empty() {
            self.turned = self.updated;
        }
    }

    fn end(&mut self, how: How, fenced: Option<(usize, i64)>, now: i64) {
        self.at = At::Ended(how);
        self.asked.clear();
        let ended = now.max(self.created);
        self.touch(now);
        (self.ended, self.turned) = (Some(ended), self.updated);
        self.expires = match self.keep {
            Keep::FromCreation(ttl) => Some((self.created + ttl).max(ended + READABLE)),
            Keep::AfterEnd(keep) => Some(ended + keep),
            Keep::Forever => None,
        };
        if how != How::Done && self.owed() > 0 {
            let at = fenced.map_or(At::Queued(ended), |(node, until)| At::Held(node, until));
            let until = Some(ended + UNDOABLE);
            self.undo = Some(Undo { at, until, attempt: 0, failed: 0 });
        }
    }

    /// Records a step, if it may stand in the place of what is there.
    fn record(&mut self, key: usize, new: Step, now: i64) -> Said {
        let known = self.steps.get(&key).copied();
        let is_same = match (known, new) {
            (Some(Step::Asked(_)), Step::Asked(_)) => true,
            (known, new) => known == Some(new),
        };
        if is_same {
            return Well;
        }
        let may = match known {
            None | Some(Step::Begun) => true,
            Some(Step::Asked(_)) => matches!(new, Step::Begun | Step::Learnt(_)),
            Some(Step::Owed) => matches!(new, Step::Learnt(_)),
            Some(Step::Child(_) | Step::Learnt(_)) => false,
        };
        if !may {
            return Recorded;
        }
        self.steps.insert(key, new);
        self.ask(now, |asked| {
            asked.retain(|asked| *asked != key);
            asked.extend(matches!(new, Step::Asked(_)).then_some(key));
        });
        Well
    }
}

impl World {
    /// No task, and two nodes.
    pub(super) fn new(now: i64) -> Self {
        Self { now, tasks: BTreeMap::new(), tombs: BTreeMap::new(), living: vec![0, 1], used: Vec::new() }
    }

    /// Makes a task; `by` works on it at once.
    pub(super) fn create(&mut self, name: usize, keep: Keep, by: Option<usize>) -> Said {
        if self.tasks.contains_key(&name) || self.tombs.contains_key(&name) {
            return Said::Taken;
        }
        let now = self.now;
        self.used.push(name);
        let mut task = Task {
            at: At::Queued(now),
            epoch: 0,
            attempt: 0,
            started: false,
            keep,
            created: now,
            turned: now,
            updated: now,
            ended: None,
            expires: if let Keep::FromCreation(ttl) = keep { Some(now + ttl) } else { None },
            progress: None,
            said: None,
            steps: BTreeMap::new(),
            asked: Vec::new(),
            link: None,
            undo: None,
            born: self.used.len(),
        };
        if let Some(node) = by {
            (task.at, task.epoch, task.attempt, task.started) = (At::Held(node, now + LEASE), 1, 1, true);
        }
        self.tasks.insert(name, task);
        Well
    }

    /// The task as a caller finds it.
    pub(super) fn found(&self, name: usize) -> Option<&Task> {
        self.tasks.get(&name).filter(|task| !task.is_forgotten(self.now))
    }

    /// Whether there was a task of this name, and nothing is left of it.
    pub(super) fn was_freed(&self, name: usize) -> bool {
        self.used.contains(&name) && !self.tasks.contains_key(&name) && !self.tombs.contains_key(&name)
    }

    pub(super) fn claim(&mut self, name: usize, by: usize) -> Said {
        let (now, living) = (self.now, self.living.clone());
        let Some(task) = self.tasks.get_mut(&name) else { return Refused };
        let is_free = |at: At| match at {
            At::Queued(due) | At::Parked(Some(due)) => due <= now,
            At::Held(node, until) => until <= now || !living.contains(&node),
            At::Parked(None) | At::Ended(_) | At::Undone => false,
        };
        let goes_on = task.holder().is_some_and(|(node, _)| node == by);
        let in_time = |until: Option<i64>| until.is_none_or(|until| until > now);
        if let Some(undo) = &mut task.undo {
            if undo.until.is_none() || !in_time(undo.until) || !is_free(undo.at) {
                return Refused;
            }
            undo.at = At::Held(by, now + LEASE);
            undo.attempt = (undo.attempt + u32::from(!goes_on)).max(1);
        } else {
            if !in_time(task.expires) || !is_free(task.at) {
                return Refused;
            }
            task.at = At::Held(by, now + LEASE);
            task.attempt += u32::from(!goes_on);
            if !std::mem::replace(&mut task.started, true) {
                task.touch(now);
                task.turned = task.updated;
            }
        }
        task.epoch += 1;
        Well
    }

    pub(super) fn renew(&mut self, name: usize, epoch: u64) -> Said {
        let now = self.now;
        self.work(name, epoch, |task, undoing| {
            let at = match &mut task.undo {
                Some(undo) if undoing => &mut undo.at,
                _ => &mut task.at,
            };
            if let At::Held(_, until) = at {
                *until = (*until).max(now + LEASE);
            }
            Well
        })
    }

    pub(super) fn release(&mut self, name: usize, epoch: u64) -> Said {
        let now = self.now;
        self.work(name, epoch, |task, undoing| {
            let (at, attempt) = match &mut task.undo {
                Some(undo) if undoing => (&mut undo.at, &mut undo.attempt),
                _ => (&mut task.at, &mut task.attempt),
            };
            (*at, *attempt) = (At::Queued(now), attempt.saturating_sub(1));
            task.epoch += 1;
            Well
        })
    }

    pub(super) fn report(&mut self, name: usize, epoch: u64, progress: Option<u8>, said: Option<u8>) -> Said {
        let now = self.now;
        self.work(name, epoch, |task, undoing| {
            let news = (progress.max(task.progress), said.or(task.said));
            if !undoing && news != (task.progress, task.said) {
                (task.progress, task.said) = news;
                task.touch(now);
            }
            Well
        })
    }

    pub(super) fn step(&mut self, name: usize, epoch: u64, key: usize, new: Step) -> Said {
        let now = self.now;
        self.work(name, epoch, |task, undoing| {
            let known = task.steps.get(&key).copied();
            if undoing && !matches!(known, Some(Step::Owed | Step::Learnt(_))) {
                return Recorded;
            }
            let said = task.record(key, new, now);
            let (owed, is_new) = (task.owed(), task.steps.get(&key) != known.as_ref());
            if !undoing && said == Well && is_new && matches!(new, Step::Learnt(_)) {
                task.attempt = task.attempt.min(1);
            }
            if let Some(undo) = task.undo.as_mut().filter(|_| undoing && said == Well && is_new) {
                undo.attempt = 1;
                undo.failed += u32::from(new == Step::Learnt(Value::Failure));
                if owed == 0 {
                    (undo.at, undo.until) = (At::Undone, None);
                }
            }
            said
        })
    }

    pub(super) fn forget(&mut self, name: usize, epoch: u64, key: usize) -> Said {
        let now = self.now;
        self.work(name, epoch, |task, undoing| {
            if !undoing && task.steps.remove(&key).is_some() {
                task.ask(now, |asked| asked.retain(|asked| *asked != key));
            }
            Well
        })
    }

    /// Puts a task aside until a question is answered, a task has ended, or a time has come.
    pub(super) fn park(
        &mut self,
        name: usize,
        epoch: u64,
        question: Option<usize>,
        child: Option<usize>,
        until: Option<i64>,
    ) -> Said {
        let now = self.now;
        self.work(name, epoch, |task, undoing| {
            if let Some(undo) = task.undo.as_mut().filter(|_| undoing) {
                undo.at = At::Queued(until.unwrap_or(now));
            } else {
                let is_asked = question.is_none_or(|key| task.asked.contains(&key));
                let is_made = child.is_none_or(|key| matches!(task.steps.get(&key), Some(Step::Child(_))));
                let waits = is_asked && is_made && (question.is_some() || child.is_some() || until.is_some());
                task.at = if waits { At::Parked(until) } else { At::Queued(now) };
                task.attempt = 0;
            }
            task.epoch += 1;
            Well
        })
    }

    pub(super) fn spawn(
        &mut self,
        name: usize,
        epoch: u64,
        child: usize,
        link: Link,
        keep: Keep,
        by: Option<usize>,
    ) -> Said {
        let Some(task) = self.tasks.get(&name).filter(|task| task.is_held(epoch)) else { return Fenced };
        match task.steps.get(&link.step) {
            Some(known) if *known == Step::Child(child) => return Well,
            Some(_) => return Recorded,
            None => {}
        }
        let said = self.create(child, keep, by);
        if said == Well {
            let now = self.now;
            if let Some(task) = self.tasks.get_mut(&name) {
                task.steps.insert(link.step, Step::Child(child));
                task.touch(now);
            }
            if let Some(child) = self.tasks.get_mut(&child) {
                child.link = Some(link);
            }
        }
        said
    }

    /// Answers the question of a step.
    pub(super) fn answer(&mut self, name: usize, key: usize) -> Said {
        let now = self.now;
        if self.found(name).is_none() {
            return Absent;
        }
        let Some(task) = self.tasks.get_mut(&name) else { return Absent };
        let in_time = match task.steps.get(&key) {
            Some(Step::Asked(deadline)) => deadline.is_none_or(|deadline| deadline > now),
            _ => false,
        };
        if !task.asked.contains(&key) || !in_time {
            return Said::Answered(0);
        }
        task.record(key, Step::Learnt(Value::Answer), now);
        if matches!(task.at, At::Parked(_)) {
            task.at = At::Queued(now);
        }
        Said::Answered(1)
    }

    pub(super) fn finish(&mut self, name: usize, epoch: u64, how: How) -> Said {
        let now = self.now;
        match self.found(name) {
            None => return Fenced,
            Some(task) if !task.is_open() => return HadEnded,
            Some(task) if !task.is_held(epoch) => return Fenced,
            Some(_) => {}
        }
        if let Some(task) = self.tasks.get_mut(&name) {
            task.end(how, None, now);
        }
        self.tell_family(name);
        Well
    }

    pub(super) fn cancel(&mut self, name: usize) -> Said {
        match self.found(name) {
            None => Absent,
            Some(task) if !task.is_open() => HadEnded,
            Some(_) => {
                self.take_away(name, How::Cancelled);
                Well
            }
        }
    }

    pub(super) fn erase(&mut self, name: usize) -> Said {
        let now = self.now;
        match self.found(name) {
            None => return Absent,
            Some(task) if task.is_open() => return Said::Open,
            Some(_) => {}
        }
        let Some(task) = self.tasks.get_mut(&name) else { return Absent };
        task.expires = Some(task.expires.map_or(now, |at| at.min(now)));
        if task.undo.is_none_or(|undo| undo.at == At::Undone) {
            // None of them has a key by which it could be asked for.
            self.bury(name, now);
        }
        Well
    }

    /// Ends what is past its time and forgets what has ended before, the earliest first.
    pub(super) fn sweep(&mut self) {
        let now = self.now;
        self.tombs.retain(|_, until| *until > now);
        let due = |task: &Task| {
            let undoable = task.undo.and_then(|undo| undo.until);
            task.expires.map(|at| at.max(undoable.unwrap_or(at)))
        };
        let mut all: Vec<_> =
            self.tasks.iter().filter_map(|(name, task)| Some((due(task)?, task.born, *name))).collect();
        all.retain(|(due, ..)| *due <= now);
        all.sort_unstable();
        for (_, _, name) in all {
            let Some(task) = self.tasks.get(&name) else { continue };
            if task.is_open() {
                self.take_away(name, How::Expired);
            } else if task.is_forgotten(now) {
                self.bury(name, now + TOMBSTONE);
            }
        }
    }

    fn bury(&mut self, name: usize, until: i64) {
        self.tasks.remove(&name);
        self.tombs.insert(name, until);
    }

    /// Lets whoever has the task at this epoch change it; `true`: to undo it.
    fn work(&mut self, name: usize, epoch: u64, change: impl FnOnce(&mut Task, bool) -> Said) -> Said {
        let Some(task) = self.tasks.get_mut(&name) else { return Fenced };
        let undoing = task.is_undone_by(epoch);
        if undoing || task.is_held(epoch) { change(task, undoing) } else { Fenced }
    }

    /// Ends an open task from outside, and fences its worker.
    fn take_away(&mut self, name: usize, how: How) {
        let now = self.now;
        if let Some(task) = self.tasks.get_mut(&name) {
            let fenced = task.holder();
            task.end(how, fenced, now);
            task.epoch += 1;
        }
        self.tell_family(name);
    }

    /// Tells the one that made a task of its end, and ends those that it made.
    fn tell_family(&mut self, name: usize) {
        let now = self.now;
        let Some((At::Ended(how), link)) = self.tasks.get(&name).map(|task| (task.at, task.link)) else {
            return;
        };
        let above = link.and_then(|link| Some((link, self.tasks.get_mut(&link.parent)?)));
        if let Some((link, parent)) = above.filter(|(_, parent)| parent.is_open()) {
            if parent.steps.get(&link.step) == Some(&Step::Child(name)) {
                parent.steps.insert(link.step, Step::Learnt(Value::End(name, how)));
            }
            parent.touch(now);
            if link.essential && how != How::Done {
                self.take_away(link.parent, How::LostChild);
            } else if matches!(parent.at, At::Parked(_)) {
                parent.at = At::Queued(now);
            }
        }
        let is_bound = |task: &Task| task.link.is_some_and(|link| link.parent == name && !link.outlives);
        let bound: Vec<usize> =
            self.tasks.iter().filter(|(_, task)| is_bound(task)).map(|(name, _)| *name).collect();
        for child in bound {
            if self.tasks.get(&child).is_some_and(Task::is_open) {
                self.take_away(child, How::Cancelled);
            }
        }
    }
}
