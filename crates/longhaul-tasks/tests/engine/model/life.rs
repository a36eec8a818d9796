//! Lives of some tasks, in the store in memory and in the model: what each operation comes to, what is known of each task
//! after it, and what each dialect lets its callers see of that.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use longhaul_proto::model::TaskStatus;
use longhaul_store::{
    Answered, Batch, Cancellation, ChildEnd, Epoch, Erasure, Fingerprint, Finished, Json, Lease, Memory,
    NewChild, NewTask, NodeId, Outcome, Owner, Park, Phase, Progress, Question, Record, Reply, Retention,
    Scope, Settings, Start, Step as Kept, StepClock, StepState, StoreError, TaskId, TaskStore, Time,
    UndoPhase,
};
use longhaul_tasks::project;

use super::bytes::Bytes;
use super::shown::{VIEWS, may_go, shows};
use super::task::{At, How, Keep, LEASE, Link, Said, Step, Task, Undo, Value, World};

/// How many names there are for tasks, and for steps of each.
const NAMES: usize = 4;
const KEYS: usize = 4;

/// The tasks live as the model says, and show what the table says.
pub(super) fn story(bytes: &[u8]) -> Result<(), String> {
    let mut bytes = Bytes::new(bytes);
    let mut both = Both::begin(&mut bytes);
    let mut told = both.agree("begin")?;
    while !bytes.is_empty() {
        let now = both.world.now;
        let operation = Operation::read(&mut bytes, now);
        told += &format!("\n{operation:?}");
        let (found, expected) = both.play(&operation);
        told += &format!(" -> {found:?}");
        if found != expected {
            return Err(format!("{told}\n\nThe model says {expected:?}."));
        }
        both.agree(&told)?;
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Claim(usize),
    Renew(usize, u64),
    Release(usize, u64),
    Report(usize, u64, Option<u8>, Option<u8>),
    Step(usize, u64, usize, Step),
    Forget(usize, u64, usize),
    Park(usize, u64, [Option<usize>; 2], Option<i64>),
    Spawn(usize, u64, usize, Link, Keep, bool),
    Answer(usize, usize),
    Finish(usize, u64, How),
    Cancel(usize),
    Erase(usize),
    Sweep,
    Wait(i64),
    /// The node dies, and another comes.
    Die,
    /// The others act now.
    Turn,
}

impl Operation {
    fn read(bytes: &mut Bytes<'_>, now: i64) -> Self {
        let of = bytes.below(32);
        // Mostly the first task, and mostly by whoever holds it.
        let task = if bytes.flag() { 0 } else { bytes.below(NAMES) };
        let late = bytes.one(&[0, 0, 0, 0, 0, 1, 2]);
        let key = bytes.below(KEYS);
        match of {
            0..=4 => Self::Claim(task),
            5 => Self::Renew(task, late),
            6 => Self::Release(task, late),
            7 | 8 => {
                let number = |of: usize| u8::try_from(of).ok();
                Self::Report(task, late, number(key), number(bytes.below(3)).filter(|_| bytes.flag()))
            }
            9..=14 => {
                let deadline = bytes.flag().then_some(now + 50_000);
                let steps = [
                    Step::Begun,
                    Step::Asked(deadline),
                    Step::Owed,
                    Step::Owed,
                    Step::Learnt(Value::Said),
                    Step::Learnt(Value::Failure),
                ];
                Self::Step(task, late, key, bytes.one(&steps))
            }
            15 => Self::Forget(task, late, key),
            16 | 17 => {
                let question = bytes.flag().then_some(key);
                let child = bytes.flag().then_some(bytes.below(KEYS));
                Self::Park(task, late, [question, child], bytes.flag().then_some(now + 20_000))
            }
            18..=20 => {
                let child = 1 + bytes.below(NAMES - 1);
                let link =
                    Link { parent: task, step: key, outlives: bytes.below(4) == 0, essential: bytes.flag() };
                Self::Spawn(task, late, child, link, keep(bytes), bytes.flag())
            }
            21 | 22 => Self::Answer(task, key),
            23 | 24 => {
                Self::Finish(task, late, bytes.one(&[How::Done, How::SaysItFailed, How::Failed, How::Lost]))
            }
            25 => Self::Cancel(task),
            26 => Self::Erase(task),
            27 => Self::Sweep,
            28 | 29 => Self::Wait(bytes.one(&[0, 1, 20_000, LEASE, 120_000, 3_600_000, 8 * 24 * 3_600_000])),
            30 => Self::Die,
            _ => Self::Turn,
        }
    }
}

fn keep(bytes: &mut Bytes<'_>) -> Keep {
    bytes.one(&[
        Keep::FromCreation(100_000),
        Keep::FromCreation(3_600_000),
        Keep::AfterEnd(60_000),
        Keep::Forever,
    ])
}

/// The store and the model.
struct Both {
    world: World,
    store: Arc<Memory>,
    clock: StepClock,
    /// Two that live, and the names of all that ever did.
    nodes: [(usize, Memory); 2],
    names: Vec<NodeId>,
    /// What callers last saw of each task.
    seen: [Option<Seen>; NAMES],
}

/// What a caller saw of a task.
struct Seen {
    record: Record,
    shown: [TaskStatus; 3],
}

impl Both {
    fn begin(bytes: &mut Bytes<'_>) -> Self {
        let start = 1_800_000_000_000;
        let clock = StepClock::at(Time::from_unix_ms(start));
        let store = Arc::new(Memory::with(Settings::default(), Arc::new(clock.clone())));
        let nodes = [(0, store.another_node()), (1, store.another_node())];
        let names = nodes.iter().map(|(_, node)| node.node().clone()).collect();
        let world = World::new(start);
        let mut both = Self { world, store, clock, nodes, names, seen: [const { None }; NAMES] };
        let (keep, claimed) = (keep(bytes), bytes.flag());
        both.world.create(0, keep, claimed.then_some(0));
        let new = both.new_task(0, keep, claimed);
        at_once(both.nodes[0].1.create(new)).unwrap();
        both
    }

    fn new_task(&self, name: usize, keep: Keep, claimed: bool) -> NewTask {
        let mut task = NewTask::new(id(name), Owner::Anonymous, "tool", Json::null());
        let span = |ms| Duration::from_millis(u64::try_from(ms).unwrap());
        task.retention = match keep {
            Keep::FromCreation(ttl) => Retention::FromCreation(span(ttl)),
            Keep::AfterEnd(keep) => Retention::AfterTerminal(span(keep)),
            Keep::Forever => Retention::Unlimited,
        };
        if !claimed {
            task.start = Start::Queued { not_before: self.store.now() };
        }
        task
    }

    /// What the operation comes to, in the store and in the model.
    fn play(&mut self, operation: &Operation) -> (Said, Said) {
        let epoch_of = |world: &World, task: &usize, late: &u64| {
            world.tasks.get(task).map_or(0, |task| task.epoch).saturating_sub(*late)
        };
        match operation {
            Operation::Wait(ms) => {
                self.clock.advance(Duration::from_millis(u64::try_from(*ms).unwrap()));
                self.world.now += ms;
                (Said::Well, Said::Well)
            }
            Operation::Die => {
                let (number, node) = (self.names.len(), self.store.another_node());
                self.names.push(node.node().clone());
                let (dead, _) = std::mem::replace(&mut self.nodes[0], (number, node));
                self.world.living.retain(|living| *living != dead);
                self.world.living.push(number);
                (Said::Well, Said::Well)
            }
            Operation::Turn => {
                self.nodes.swap(0, 1);
                (Said::Well, Said::Well)
            }
            // A name that is free again would be that of two tasks.
            Operation::Spawn(_, _, child, ..) if self.world.was_freed(*child) => (Said::Well, Said::Well),
            Operation::Renew(task, late)
            | Operation::Release(task, late)
            | Operation::Report(task, late, ..)
            | Operation::Step(task, late, ..)
            | Operation::Forget(task, late, _)
            | Operation::Park(task, late, ..)
            | Operation::Spawn(task, late, ..)
            | Operation::Finish(task, late, _) => {
                let epoch = epoch_of(&self.world, task, late);
                (self.work(operation, *task, epoch), self.expect_work(operation, *task, epoch))
            }
            _ => (self.manage(operation), self.expect_manage(operation)),
        }
    }

    fn work(&self, operation: &Operation, task: usize, epoch: u64) -> Said {
        let (store, id, held) = (&self.nodes[0].1, id(task), Epoch::new(epoch));
        let batch = match operation {
            Operation::Renew(..) => {
                let lost = at_once(store.renew(&[(id, held)])).unwrap();
                return if lost.is_empty() { Said::Well } else { Said::Fenced };
            }
            Operation::Release(..) => return said(at_once(store.release(&id, held)).map(|_| Said::Well)),
            Operation::Finish(_, _, how) => {
                let ended = at_once(store.finish(&id, held, outcome(*how), Batch::new()));
                return said(ended.map(|ended| match ended {
                    Finished::Recorded(_) => Said::Well,
                    Finished::AlreadyTerminal(_) => Said::HadEnded,
                }));
            }
            Operation::Report(_, _, progress, message) => {
                let mut batch = Batch::new();
                batch.progress = progress.map(|value| Progress::new(value.into(), None, None));
                batch.status_message = message.map(|number| number.to_string().into());
                batch
            }
            Operation::Step(_, _, key, step) => Batch::new().with_step(kept(*key, *step)),
            Operation::Forget(_, _, key) => Batch::new().with_forgotten(format!("s{key}")),
            Operation::Park(_, _, [question, child], until) => {
                let on = question.iter().map(|key| format!("q{key}").into()).collect();
                let children = child.iter().map(|key| format!("s{key}").into()).collect();
                Batch::new().with_park(Park::new(on, until.map(Time::from_unix_ms)).or_children(children))
            }
            Operation::Spawn(_, _, child, link, keep, claimed) => {
                let new = self.new_task(*child, *keep, *claimed);
                let mut child = NewChild::new(format!("s{}", link.step), fingerprint(link.step), new);
                (child.outlives, child.essential) = (link.outlives, link.essential);
                Batch::new().with_child(child)
            }
            other => panic!("{other:?} is not a worker's"),
        };
        said(at_once(store.write(&id, held, batch)).map(|_| Said::Well))
    }

    fn expect_work(&mut self, operation: &Operation, task: usize, epoch: u64) -> Said {
        let (world, node) = (&mut self.world, self.nodes[0].0);
        match *operation {
            Operation::Renew(..) => world.renew(task, epoch),
            Operation::Release(..) => world.release(task, epoch),
            Operation::Report(_, _, progress, message) => world.report(task, epoch, progress, message),
            Operation::Step(_, _, key, step) => world.step(task, epoch, key, step),
            Operation::Forget(_, _, key) => world.forget(task, epoch, key),
            Operation::Park(_, _, [question, child], until) => {
                world.park(task, epoch, question, child, until)
            }
            Operation::Spawn(_, _, child, link, keep, claimed) => {
                world.spawn(task, epoch, child, link, keep, claimed.then_some(node))
            }
            Operation::Finish(_, _, how) => world.finish(task, epoch, how),
            other => panic!("{other:?} is not a worker's"),
        }
    }

    fn manage(&self, operation: &Operation) -> Said {
        let store = &self.nodes[0].1;
        match operation {
            Operation::Claim(task) => match at_once(store.claim_one(&id(*task))).unwrap() {
                Some(_) => Said::Well,
                None => Said::Refused,
            },
            Operation::Answer(task, key) => {
                let replies = [Reply::new(format!("q{key}"), value("answer"))];
                match at_once(store.answer(Scope::Owner(&Owner::Anonymous), &id(*task), &replies)).unwrap() {
                    Answered::Recorded { taken, .. } => Said::Answered(taken),
                    Answered::NotFound => Said::Absent,
                }
            }
            Operation::Cancel(task) => {
                match at_once(store.request_cancel(Scope::Operator, &id(*task), None)).unwrap() {
                    Cancellation::Cancelled(_) => Said::Well,
                    Cancellation::AlreadyTerminal(_) => Said::HadEnded,
                    Cancellation::NotFound => Said::Absent,
                }
            }
            Operation::Erase(task) => match at_once(store.erase(Scope::Operator, &id(*task))).unwrap() {
                Erasure::Erased => Said::Well,
                Erasure::Open => Said::Open,
                Erasure::NotFound => Said::Absent,
            },
            _ => said(at_once(store.sweep(100)).map(|_| Said::Well)),
        }
    }

    fn expect_manage(&mut self, operation: &Operation) -> Said {
        let (world, node) = (&mut self.world, self.nodes[0].0);
        match *operation {
            Operation::Claim(task) => world.claim(task, node),
            Operation::Answer(task, key) => world.answer(task, key),
            Operation::Cancel(task) => world.cancel(task),
            Operation::Erase(task) => world.erase(task),
            _ => {
                world.sweep();
                Said::Well
            }
        }
    }

    /// Whether the store and the model know the same, and callers see what they may.
    fn agree(&mut self, told: &str) -> Result<String, String> {
        for name in 0..NAMES {
            let record = at_once(self.store.get(Scope::Operator, &id(name))).unwrap();
            let found = record.as_ref().map(|record| self.facts(record));
            let expected = self.world.found(name).map(|task| facts(task, &self.world));
            if found != expected {
                return Err(format!("{told}\n\nTask {name} is   {found:?},\nby the model {expected:?}."));
            }
            if let Some(record) = &record {
                self.check_steps(name, record).map_err(|why| format!("{told}\n\nTask {name}: {why}"))?;
            }
            let seen = std::mem::take(&mut self.seen[name]);
            self.seen[name] = see(seen, record).map_err(|why| format!("{told}\n\nTask {name}: {why}"))?;
        }
        Ok(told.to_owned())
    }

    /// Whether whoever holds a task is told of the steps that it has.
    fn check_steps(&self, name: usize, record: &Record) -> Result<(), String> {
        let Ok(found) = at_once(self.store.steps(&id(name), record.epoch)) else { return Ok(()) };
        let expected = &self.world.tasks[&name].steps;
        let agrees = |step: &Kept| {
            expected.iter().any(|(key, known)| {
                let same = match (&step.state, known) {
                    (StepState::Asked(_), Step::Asked(_)) => true,
                    (StepState::Learnt { value, .. }, Step::Learnt(Value::End(name, ended))) => {
                        ChildEnd::read(value)
                            .is_ok_and(|end| (end.task, how(&end.outcome)) == (id(*name), *ended))
                    }
                    (state, known) => *state == kept(*key, *known).state,
                };
                *step.key == format!("s{key}") && same
            })
        };
        if found.len() == expected.len() && found.iter().all(agrees) {
            return Ok(());
        }
        Err(format!("its steps are {found:?}, by the model {expected:?}"))
    }

    fn facts(&self, record: &Record) -> Facts {
        let held = |lease: &Lease| {
            At::Held(self.names.iter().position(|name| *name == lease.node).unwrap(), lease.until.unix_ms())
        };
        let at = match &record.phase {
            Phase::Queued { not_before } => At::Queued(not_before.unix_ms()),
            Phase::Parked { until } => At::Parked(until.map(Time::unix_ms)),
            Phase::Running { lease } => held(lease),
            Phase::Done(outcome) => At::Ended(how(outcome)),
            other => panic!("{other:?} is in no model"),
        };
        let undo = record.undo.as_ref().map(|undo| Undo {
            at: match &undo.phase {
                UndoPhase::Queued { not_before } => At::Queued(not_before.unix_ms()),
                UndoPhase::Running { lease } => held(lease),
                UndoPhase::Done => At::Undone,
                other => panic!("{other:?} is in no model"),
            },
            until: undo.until.map(Time::unix_ms),
            attempt: undo.attempt,
            failed: undo.failed,
        });
        let asked = |question: &Question| question.step[1..].parse().unwrap();
        Facts {
            at,
            epoch: record.epoch.get(),
            attempt: record.attempt,
            started: record.started,
            dates: [record.created_at, record.status_changed_at, record.updated_at].map(Time::unix_ms),
            ended: record.terminal_at.map(Time::unix_ms),
            expires: record.expires_at.map(Time::unix_ms),
            progress: record.progress.as_ref().map(|progress| progress.value),
            said: record.status_message.as_deref().map(str::to_owned),
            asked: record.questions.iter().map(asked).collect(),
            steps: record.steps as usize,
            owed: record.owed as usize,
            open_children: (!record.is_terminal()).then_some(record.children.open as usize),
            undo,
        }
    }
}

/// What is compared of a task.
#[derive(Debug, PartialEq)]
struct Facts {
    at: At,
    epoch: u64,
    attempt: u32,
    started: bool,
    dates: [i64; 3],
    ended: Option<i64>,
    expires: Option<i64>,
    progress: Option<f64>,
    said: Option<String>,
    asked: Vec<usize>,
    steps: usize,
    owed: usize,
    open_children: Option<usize>,
    undo: Option<Undo>,
}

fn facts(task: &Task, world: &World) -> Facts {
    let is_open_child = |other: &&Task| {
        other.is_open()
            && other.link.is_some_and(|link| {
                world.tasks.get(&link.parent).is_some_and(|parent| std::ptr::eq(parent, task))
            })
    };
    Facts {
        at: task.at,
        epoch: task.epoch,
        attempt: task.attempt,
        started: task.started,
        dates: [task.created, task.turned, task.updated],
        ended: task.ended,
        expires: task.expires,
        progress: task.progress.map(f64::from),
        said: task.said.map(|number| number.to_string()),
        asked: task.asked.clone(),
        steps: task.steps.len(),
        owed: task.owed(),
        open_children: task.is_open().then(|| world.tasks.values().filter(is_open_child).count()),
        undo: task.undo,
    }
}

/// What callers see now, if it may follow what they saw before.
fn see(seen: Option<Seen>, record: Option<Record>) -> Result<Option<Seen>, String> {
    let Some(record) = record else {
        let gone = seen.as_ref().is_none_or(|seen| seen.record.is_terminal());
        return if gone { Ok(None) } else { Err("an open task is gone".to_owned()) };
    };
    for view in 0..VIEWS.len() {
        shows(&record, view)?;
    }
    let shown = VIEWS.map(|view| project::status(&record, view));
    let seen = seen.filter(|seen| seen.record.created_at == record.created_at);
    if let Some(before) = &seen {
        for view in 0..VIEWS.len() {
            if !may_go(view, before.shown[view], shown[view]) {
                return Err(format!("{:?} never goes from {:?} to {:?}", VIEWS[view], before.shown, shown));
            }
        }
        if before.record.is_terminal()
            && (&before.record.phase, before.record.terminal_at) != (&record.phase, record.terminal_at)
        {
            return Err("its end has changed".to_owned());
        }
        let turned = before.shown[1..] != shown[1..];
        if turned && record.status_changed_at < before.record.status_changed_at {
            return Err("its status changed, and its date went back".to_owned());
        }
        if record.updated_at < before.record.updated_at || record.epoch < before.record.epoch {
            return Err("a date or an epoch goes back".to_owned());
        }
        let told = |record: &Record| {
            let asked: Vec<_> = record.questions.iter().map(|question| question.key.clone()).collect();
            (record.status_message.clone(), asked, record.children.open, record.children.ended, record.parts)
        };
        let has_changed = before.shown != shown || told(&before.record) != told(&record);
        if has_changed && record.updated_at == before.record.updated_at {
            return Err("it has changed, and its date has not".to_owned());
        }
    }
    let is_woken = !matches!(record.phase, Phase::Parked { until: None })
        || !record.questions.is_empty()
        || record.children.open > 0
        || record.expires_at.is_some();
    if !is_woken {
        return Err("nothing will ever wake it".to_owned());
    }
    Ok(Some(Seen { record, shown }))
}

/// An operation of a store in memory waits for nothing.
fn at_once<T>(operation: impl Future<Output = T>) -> T {
    match pin!(operation).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("a store in memory waits for nothing"),
    }
}

fn said(done: Result<Said, StoreError>) -> Said {
    match done {
        Ok(said) => said,
        Err(StoreError::Fenced { .. }) => Said::Fenced,
        Err(StoreError::Recorded { .. }) => Said::Recorded,
        Err(StoreError::AlreadyExists { .. }) => Said::Taken,
        Err(other) => panic!("{other}"),
    }
}

fn id(name: usize) -> TaskId {
    TaskId::new(format!("t{name}")).unwrap()
}

fn fingerprint(key: usize) -> Fingerprint {
    Fingerprint::new([u8::try_from(key).unwrap(); Fingerprint::LEN])
}

fn value(said: &str) -> Json {
    Json::parse(format!("{said:?}")).unwrap()
}

fn kept(key: usize, step: Step) -> Kept {
    let learnt = |value, is_error| StepState::Learnt { value, is_error };
    let state = match step {
        Step::Begun => StepState::Begun,
        Step::Asked(deadline) => StepState::Asked(
            Question::new(format!("q{key}"), value("what?")).until(deadline.map(Time::from_unix_ms)),
        ),
        Step::Owed => StepState::Owed,
        Step::Child(name) => StepState::Child(id(name)),
        Step::Learnt(Value::Said) => learnt(value("said"), false),
        Step::Learnt(Value::Failure) => learnt(value("failure"), true),
        Step::Learnt(Value::Answer) => learnt(value("answer"), false),
        Step::Learnt(Value::End(name, how)) => {
            let end = ChildEnd::new(id(name), outcome(how));
            learnt(end.to_json(), !end.is_success())
        }
    };
    Kept::new(format!("s{key}"), fingerprint(key), state)
}

fn outcome(how: How) -> Outcome {
    let result = |is_error| {
        let value = format!(r#"{{"content":[],"isError":{is_error}}}"#);
        Outcome::result(Json::parse(value).unwrap(), is_error)
    };
    match how {
        How::Done => result(false),
        How::SaysItFailed => result(true),
        How::Failed => Outcome::error(-32602, "no", None),
        How::Lost => Outcome::lost("gone"),
        How::Cancelled => Outcome::cancelled(None),
        How::Expired => Outcome::expired(),
        How::LostChild => Outcome::error(-32603, "its task", None),
    }
}

fn how(outcome: &Outcome) -> How {
    match outcome {
        Outcome::Result { is_error: false, .. } => How::Done,
        Outcome::Result { is_error: true, .. } => How::SaysItFailed,
        Outcome::Error { message, .. } if message.starts_with("its task") => How::LostChild,
        Outcome::Error { .. } if *outcome == Outcome::expired() => How::Expired,
        Outcome::Error { .. } => How::Failed,
        Outcome::Lost { .. } => How::Lost,
        Outcome::Cancelled { .. } => How::Cancelled,
        other => panic!("{other:?} is in no model"),
    }
}
