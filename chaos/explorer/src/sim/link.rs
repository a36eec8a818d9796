//! The way from one node to the store: slow, cut, and losing answers; and whatever comes through is looked at.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::random::Random;
use longhaul_store::{
    Answered, Batch, CancelAsked, Cancellation, Created, Epoch, Erasure, Finished, Memory, NewTask,
    Operation, Outcome, Overlay, Owner, Quota, Record, Reply, Runnable, Scope, StoreError, StoreFuture,
    Swept, TaskId, TaskStore,
};

use super::executor::{Executor, WORLD};
use super::ledger::Ledger;

/// How the way is. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Weather(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    random: Random,
    /// Nothing comes through.
    cut: bool,
    /// How many of a thousand operations go wrong.
    bad: u64,
    /// How long one takes at most, in milliseconds, each way.
    slow: u64,
}

/// What becomes of one operation.
#[derive(Clone, Copy, Debug, Default)]
struct Trouble {
    before: u64,
    refused: bool,
    after: u64,
    answer_lost: bool,
}

impl Weather {
    pub(crate) fn new(random: Random) -> Self {
        Self(Arc::new(Mutex::new(State { random, cut: false, bad: 0, slow: 0 })))
    }

    pub(crate) fn set(&self, cut: bool, bad: u64, slow: u64) {
        let mut state = self.lock();
        (state.cut, state.bad, state.slow) = (cut, bad, slow);
    }

    fn trouble(&self) -> Option<Trouble> {
        let mut state = self.lock();
        let State { random, cut, bad, slow } = &mut *state;
        let mut trouble = Trouble::default();
        if *cut {
            trouble.refused = true;
            trouble.before = if random.percent(50) { 0 } else { 5000 };
        } else if *bad > 0 && random.below(1000) < *bad {
            match random.below(4) {
                0 => trouble.refused = true,
                1 => trouble.answer_lost = true,
                2 => trouble.before = random.below(20_000),
                // An answer that comes when the lease may have run out.
                _ => trouble.after = random.below(60_000),
            }
        } else if *slow > 0 {
            (trouble.before, trouble.after) = (random.below(*slow), random.below(*slow));
        } else {
            return None;
        }
        Some(trouble)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

/// A store as one node reaches it.
pub(crate) struct Link {
    memory: Memory,
    executor: Executor,
    ledger: Ledger,
    weather: Weather,
    max_open: u64,
}

impl Link {
    pub(crate) fn new(
        memory: Memory,
        executor: &Executor,
        ledger: &Ledger,
        weather: &Weather,
        max_open: u64,
    ) -> Self {
        let (executor, ledger, weather) = (executor.clone(), ledger.clone(), weather.clone());
        Self { memory, executor, ledger, weather, max_open }
    }

    /// Carries an operation to the store, and its answer back; `touched` are those tasks that it may have changed.
    async fn carry<'a, T: fmt::Debug>(
        &'a self,
        what: Operation,
        id: Option<&TaskId>,
        doing: impl Future<Output = Result<T, StoreError>> + Send + 'a,
        touched: impl FnOnce(&T) -> Vec<TaskId> + Send,
    ) -> Result<T, StoreError> {
        let trouble = self.weather.trouble();
        let Trouble { before, refused, after, answer_lost } = trouble.unwrap_or_default();
        if trouble.is_some() {
            self.executor.stir();
        }
        if before > 0 {
            self.executor.sleep(WORLD, Duration::from_millis(before)).await;
        }
        let about = || id.map_or_else(|| what.to_string(), |id| format!("{what} of {id}"));
        if refused {
            self.ledger.tell(|| format!("{} does not get to {}", self.memory.node(), about()));
            return Err(unreachable());
        }
        self.executor.tick();
        let done = doing.await;
        let fenced = done.as_ref().is_err_and(StoreError::is_fenced);
        let mut changed = match &done {
            Ok(done) => touched(done),
            Err(_) => Vec::new(),
        };
        changed.extend(id.cloned());
        // What is made of a task, and what has made it, may end with it, or hear of its end.
        let mut changed: Vec<TaskId> = changed.iter().flat_map(|id| self.ledger.family_of(id)).collect();
        changed.sort();
        changed.dedup();
        if !changed.is_empty()
            && self.ledger.count(what, id.map_or("", TaskId::as_str), done.is_ok()) > TOO_MANY
        {
            self.ledger.complain("I14: operations go round in circles");
            return std::future::pending().await;
        }
        for task in &changed {
            if !self.ledger.look(task, &what, fenced) && id != Some(task) {
                continue;
            }
            let id = task;
            let came = || done.as_ref().map_or_else(ToString::to_string, |_| self.ledger.outline(id));
            self.ledger.tell(|| {
                format!("{}: {what} {}{}: {}", self.memory.node(), id.as_str(), shown(trouble), came())
            });
        }
        if !changed.is_empty() {
            self.ledger.look_at_all(&changed, &what);
        }
        if after > 0 {
            self.executor.sleep(WORLD, Duration::from_millis(after)).await;
        }
        if answer_lost { Err(unreachable()) } else { done }
    }

    /// What a worker writes is taken under the epoch of its own claim alone.
    async fn as_worker<'a, T>(
        &'a self,
        id: &'a TaskId,
        epoch: Epoch,
        doing: impl Future<Output = Result<T, StoreError>> + Send + 'a,
        is_written: impl Fn(&T) -> bool + Send,
    ) -> Result<T, StoreError> {
        let before = self.ledger.task(id);
        let done = doing.await;
        let Some(before) = before.filter(|_| done.as_ref().is_ok_and(is_written)) else { return done };
        let other = before.lease().is_some_and(|lease| lease.node != *self.memory.node());
        if before.epoch != epoch || other {
            let node = self.memory.node();
            self.ledger
                .complain(format!("I6: {node} writes at {epoch:?} of {}", crate::invariant::brief(&before)));
        }
        done
    }

    /// A read changes nothing that would have to be looked at.
    async fn read<'a, T>(
        &'a self,
        doing: impl Future<Output = Result<T, StoreError>> + Send + 'a,
    ) -> Result<T, StoreError> {
        let Some(Trouble { before, refused, after, answer_lost }) = self.weather.trouble() else {
            return doing.await;
        };
        self.executor.stir();
        self.executor.sleep(WORLD, Duration::from_millis(before)).await;
        if refused {
            return Err(unreachable());
        }
        let done = doing.await;
        self.executor.sleep(WORLD, Duration::from_millis(after)).await;
        if answer_lost { Err(unreachable()) } else { done }
    }

    /// A quota that refuses is full, and one that is full refuses.
    fn check_quota(&self, owner: &Owner, done: &Result<Created, StoreError>) {
        let open = |tasks: &[Record]| {
            tasks.iter().filter(|task| !task.is_terminal() && task.owner == *owner).count() as u64
        };
        match done {
            Err(StoreError::Overloaded { what: Quota::OpenPerOwner, .. }) => {
                let open = open(&self.ledger.tasks());
                if open < self.max_open {
                    self.ledger.complain(format!(
                        "I12: a call is refused where {open} of {} are open",
                        self.max_open
                    ));
                }
            }
            Ok(Created::New(_)) => {
                // It is not among them yet.
                let open = open(&self.ledger.tasks());
                if open >= self.max_open {
                    self.ledger
                        .complain(format!("I12: a call is taken where {open} of {} are open", self.max_open));
                }
            }
            _ => {}
        }
    }
}

/// No seed needs as many operations, unless something goes round in circles; that may be without an end to the turn.
const TOO_MANY: u64 = 100_000;

/// What goes wrong with an operation, if anything does.
fn shown(trouble: Option<Trouble>) -> String {
    trouble.map_or_else(String::new, |Trouble { before, after, answer_lost, .. }| {
        let lost = if answer_lost { ", and its answer is lost" } else { "" };
        format!(" (there in {before} ms, back in {after} ms{lost})")
    })
}

/// What a worker wants to be written, in short.
fn wanted(batch: &Batch) -> String {
    let steps: Vec<String> = batch
        .steps
        .iter()
        .map(|step| {
            let state = format!("{:?}", step.state);
            format!("{} {}", step.key, state.split([' ', '(']).next().unwrap_or_default())
        })
        .collect();
    let park = batch.park.as_ref().map_or("", |_| " and to be put aside");
    format!("[{}]{park}", steps.join(", "))
}

fn unreachable() -> StoreError {
    StoreError::Backend { doing: "reaching it", source: Arc::new(std::io::Error::other("the way is cut")) }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Link").field(self.memory.node()).finish()
    }
}

fn nothing<T>(_: &T) -> Vec<TaskId> {
    Vec::new()
}

impl Overlay for Link {
    type Below = Memory;

    fn below(&self) -> &Memory {
        &self.memory
    }

    /// A read that is not written below. What an operation changes has to be looked at, so one that writes is.
    fn around<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        doing: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        use Operation::{Called, Counts, List, Parts, SeenSteps, Size, Steps};
        assert!(
            matches!(operation, Called | Counts | List | Parts | SeenSteps | Size | Steps),
            "what does {operation} change?"
        );
        Box::pin(self.read(doing))
    }

    fn create(&self, task: NewTask) -> StoreFuture<'_, Created> {
        Box::pin(async move {
            let (owner, id) = (task.owner.clone(), task.id.clone());
            let key = task.once.as_ref().map(|once| once.key.as_str().to_owned());
            let doing = async {
                let done = self.memory.create(task).await;
                self.check_quota(&owner, &done);
                if let (Ok(Created::New(record) | Created::Again(record)), Some(key)) = (&done, &key) {
                    self.ledger.note_key(&owner, key, &record.id);
                }
                done
            };
            self.carry(Operation::Create, Some(&id), doing, nothing).await
        })
    }

    fn get<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        Box::pin(self.read(async move {
            let done = self.memory.get(scope, id).await;
            if let (Ok(Some(record)), Scope::Owner(owner)) = (&done, scope)
                && record.owner != *owner
            {
                self.ledger.complain(format!("I9: {owner:?} is shown {id}, which is another's"));
            }
            done
        }))
    }

    fn claim<'a>(&'a self, limit: usize, runs: Option<&'a [Runnable]>) -> StoreFuture<'a, Vec<Record>> {
        let claimed = |records: &Vec<Record>| records.iter().map(|record| record.id.clone()).collect();
        Box::pin(self.carry(Operation::Claim, None, self.memory.claim(limit, runs), claimed))
    }

    fn claim_one<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        Box::pin(self.carry(Operation::ClaimOne, Some(id), self.memory.claim_one(id), nothing))
    }

    fn renew<'a>(&'a self, held: &'a [(TaskId, Epoch)]) -> StoreFuture<'a, Vec<TaskId>> {
        let renewed = |_: &Vec<TaskId>| {
            let mut ids: Vec<TaskId> = held.iter().map(|(id, _)| id.clone()).collect();
            ids.sort();
            ids
        };
        Box::pin(self.carry(Operation::Renew, None, self.memory.renew(held), renewed))
    }

    fn release<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Record> {
        let doing = self.as_worker(id, epoch, self.memory.release(id, epoch), |_| true);
        Box::pin(self.carry(Operation::Release, Some(id), doing, nothing))
    }

    fn write<'a>(&'a self, id: &'a TaskId, epoch: Epoch, batch: Batch) -> StoreFuture<'a, u64> {
        self.ledger.tell(|| {
            format!("{} wants of {} at {epoch:?}: {}", self.memory.node(), id.as_str(), wanted(&batch))
        });
        let made = batch.child.as_ref().map(|child| child.task.id.clone());
        let doing = self.as_worker(id, epoch, self.memory.write(id, epoch, batch), |_| true);
        Box::pin(self.carry(Operation::Write, Some(id), doing, move |_: &u64| made.into_iter().collect()))
    }

    fn answer<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        replies: &'a [Reply],
    ) -> StoreFuture<'a, Answered> {
        let doing = async move {
            let before = self.ledger.task(id);
            let done = self.memory.answer(scope, id, replies).await;
            if let (Ok(Answered::Recorded { .. }), Some(before)) = (&done, &before) {
                let now = self.memory.now();
                for reply in replies {
                    let open = before.questions.iter().find(|question| question.key == reply.key);
                    if open.is_some_and(|question| question.deadline.is_none_or(|at| at > now)) {
                        self.ledger.note_answer(id, &reply.key, reply.value.as_str());
                    }
                }
            }
            self.check_owner(scope, before.as_ref(), matches!(done, Ok(Answered::Recorded { .. })));
            done
        };
        Box::pin(self.carry(Operation::Answer, Some(id), doing, nothing))
    }

    fn finish<'a>(
        &'a self,
        id: &'a TaskId,
        epoch: Epoch,
        outcome: Outcome,
        last: Batch,
    ) -> StoreFuture<'a, Finished> {
        let recorded = |done: &Finished| matches!(done, Finished::Recorded(_));
        let doing = self.as_worker(id, epoch, self.memory.finish(id, epoch, outcome, last), recorded);
        Box::pin(self.carry(Operation::Finish, Some(id), doing, nothing))
    }

    fn request_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, Cancellation> {
        let doing = async move {
            let before = self.ledger.task(id);
            let done = self.memory.request_cancel(scope, id, reason).await;
            let found = matches!(done, Ok(Cancellation::Cancelled(_) | Cancellation::AlreadyTerminal(_)));
            self.check_owner(scope, before.as_ref(), found);
            done
        };
        Box::pin(self.carry(Operation::RequestCancel, Some(id), doing, nothing))
    }

    fn ask_to_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, CancelAsked> {
        let doing = async move {
            let before = self.ledger.task(id);
            let done = self.memory.ask_to_cancel(scope, id, reason).await;
            let found = !matches!(done, Err(_) | Ok(CancelAsked::AtOnce(Cancellation::NotFound)));
            self.check_owner(scope, before.as_ref(), found);
            done
        };
        Box::pin(self.carry(Operation::AskToCancel, Some(id), doing, nothing))
    }

    fn came_back<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, bool> {
        let doing = async move { self.memory.came_back(scope, id).await };
        Box::pin(self.carry(Operation::CameBack, Some(id), doing, nothing))
    }

    fn make_due<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, bool> {
        Box::pin(self.carry(Operation::MakeDue, Some(id), self.memory.make_due(id), nothing))
    }

    fn erase<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Erasure> {
        Box::pin(self.carry(Operation::Erase, Some(id), self.memory.erase(scope, id), nothing))
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        Box::pin(async move {
            // What is forgotten is named nowhere: any of them may be among it.
            let before: Vec<TaskId> = self.ledger.tasks().into_iter().map(|task| task.id).collect();
            let any = move |swept: &Swept| if swept.total() > 0 { before } else { Vec::new() };
            self.carry(Operation::Sweep, None, self.memory.sweep(limit), any).await
        })
    }
}

impl Link {
    /// Who is told of a task is its owner, or works on it.
    fn check_owner(&self, scope: Scope<'_>, task: Option<&Record>, found: bool) {
        if let (Scope::Owner(owner), Some(task)) = (scope, task)
            && found
            && task.owner != *owner
        {
            self.ledger.complain(format!("I9: {owner:?} has reached {}, which is another's", task.id));
        }
    }
}
