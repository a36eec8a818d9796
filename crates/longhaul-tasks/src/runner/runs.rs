//! The runs of this node: how to reach each, the leases of those that hold a task, and how many callers wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use foldhash::fast::FixedState;
use longhaul_store::{Epoch, Lease, Record, Rerun, StoreError, TaskId, Time};
use tokio::sync::Notify;

use super::Inner;
use super::control::{Control, Controls};
use super::operation::is_ours;

/// Every run of this node, by the id of its call.
#[derive(Debug, Default)]
pub(super) struct Runs {
    entries: Mutex<Entries>,
    waiting: Arc<Waiting>,
    undoing: Arc<Waiting>,
    handing_over: Arc<Waiting>,
}

/// Ids are random already: a hash need not withstand anybody. It is the same each time, so that what is done with all of them is done
/// in the same order: a simulator repeats what it has done.
type Entries = HashMap<TaskId, Entry, FixedState>;

#[derive(Debug)]
struct Entry {
    controls: Controls,
    /// Under which epoch it holds its task, if there is one.
    epoch: Option<Epoch>,
    /// By what it holds it, as far as that is known.
    hold: Option<Hold>,
    /// Alive while its own caller waits for it, if it may be made again.
    caller: Weak<()>,
    /// Its work is a job, which does not end with this process.
    outside: bool,
    /// Another node that takes its task up enters the work again.
    re_entrant: bool,
    /// Its work stands still, for its lease is about to be over.
    held_back: bool,
}

impl Entry {
    fn new(controls: &Controls) -> Self {
        Self {
            controls: controls.clone(),
            epoch: None,
            hold: None,
            caller: Weak::new(),
            outside: false,
            re_entrant: false,
            held_back: false,
        }
    }

    fn hold(&mut self, record: &Record) {
        let hold = |lease: &Lease| Hold { lease: lease.until, alive: None };
        (self.epoch, self.hold) = (Some(record.epoch), record.lease().map(hold));
        self.let_on();
    }

    /// The lease holds again: what stands still goes on.
    fn let_on(&mut self) {
        if std::mem::take(&mut self.held_back) {
            self.controls.tell(Control::Lease);
        }
    }
}

/// What a task is held by, if the store says that it is when it is asked after this was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    /// When the lease ends.
    lease: Time,
    /// [`TaskStore::alive_until`](longhaul_store::TaskStore::alive_until), where there is such a time and it was asked for.
    alive: Option<Time>,
}

impl Hold {
    /// By a lease that is renewed now.
    pub(super) fn renewed(inner: &Inner) -> Self {
        let store = &inner.store;
        Self { lease: store.now().after(store.lease()), alive: store.alive_until() }
    }

    /// Whether an effect may begin now: nobody else can be at the task, and a third of the lease is left for it to get out in.
    pub(super) fn lets_begin(self, inner: &Inner) -> bool {
        let (store, now) = (&inner.store, inner.store.now());
        self.is_leased(inner)
            && (self.alive.is_some_and(|alive| now <= alive) || store.alive_until().is_none())
    }

    /// Whether a third of the lease is left.
    fn is_leased(self, inner: &Inner) -> bool {
        inner.store.now().after(inner.store.lease() / 3) <= self.lease
    }
}

impl Runs {
    /// Tells the run of this id; says whether there is one.
    pub(super) fn tell(&self, id: &TaskId, control: Control) -> bool {
        self.lock().get(id).map(|entry| entry.controls.tell(control)).is_some()
    }

    pub(super) fn tell_all(&self, control: Control) {
        self.lock().values().for_each(|entry| entry.controls.tell(control));
    }

    /// How many have work that ends with this process, or a task that is just being handed over to others.
    pub(super) fn work_here(&self) -> usize {
        self.handing_over.count() + self.lock().values().filter(|entry| !entry.outside).count()
    }

    /// How many of those are tasks that nobody else goes on with.
    pub(super) fn only_here(&self) -> usize {
        let is_only_here = |entry: &&Entry| !entry.outside && !entry.re_entrant && entry.epoch.is_some();
        self.lock().values().filter(is_only_here).count()
    }

    /// A caller waits, for as long as this is kept.
    pub(super) fn waits(&self) -> Waits {
        Waiting::begin(&self.waiting)
    }

    /// How many callers wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.count()
    }

    /// Completes once no caller waits.
    pub(super) async fn nobody_waits(&self) {
        self.waiting.nobody().await;
    }

    /// A task is being handed over to whoever goes on with it, for as long as this is kept.
    pub(super) fn hands_over(&self) -> Waits {
        Waiting::begin(&self.handing_over)
    }

    /// A task is being undone, for as long as this is kept.
    pub(super) fn undoes(&self) -> Waits {
        Waiting::begin(&self.undoing)
    }

    /// Completes once no task is being undone.
    pub(super) async fn nothing_is_undone(&self) {
        self.undoing.nobody().await;
    }

    /// This node has claimed back what the run of this id holds, whose lease had run out while the process stood still: the
    /// run looks, and goes on. Says whether there is one that may: had another node had the task in between, the run
    /// would not know what was done there, and ends.
    pub(super) fn claimed_back(&self, record: &Record) -> bool {
        let mut entries = self.lock();
        let Some(entry) = entries.get_mut(&record.id) else { return false };
        let goes_on = record.epoch.succeeds(entry.epoch.unwrap_or(Epoch::FIRST));
        if goes_on {
            entry.hold(record);
        }
        entry.controls.tell(Control::LookAgain);
        goes_on
    }

    /// Whether there is a run of this id.
    pub(super) fn has(&self, id: &TaskId) -> bool {
        self.lock().contains_key(id)
    }

    /// Whether the run that `controls` reach is the one of this id.
    pub(super) fn is(&self, id: &TaskId, controls: &Controls) -> bool {
        self.lock().get(id).is_some_and(|entry| entry.controls.same(controls))
    }

    /// Whether the caller of the run of this id waits for it, which may be made again.
    pub(super) fn is_waited_for(&self, id: &TaskId) -> bool {
        self.lock().get(id).is_some_and(|entry| entry.caller.strong_count() > 0)
    }

    /// Whether the run that `controls` reach may begin an effect, whatever has become of its task since that was learnt.
    pub(super) fn lets_begin(&self, id: &TaskId, controls: &Controls, inner: &Inner) -> bool {
        let hold =
            self.lock().get(id).filter(|entry| entry.controls.same(controls)).and_then(|entry| entry.hold);
        hold.is_some_and(|hold| hold.lets_begin(inner))
    }

    /// The lease of an epoch was renewed: the task is held so at least.
    pub(super) fn renewed(&self, id: &TaskId, epoch: Epoch, by: Hold) {
        if let Some(entry) = self.lock().get_mut(id)
            && entry.epoch == Some(epoch)
        {
            let before = entry.hold.unwrap_or(by);
            let hold = Hold { lease: before.lease.max(by.lease), alive: before.alive.max(by.alive) };
            entry.hold = Some(hold);
            entry.let_on();
        }
    }

    /// Has all work stand still that another node may soon enter again, for no renewal of its lease got through: two must not be at
    /// it side by side. It goes on where it stood once the lease holds again.
    fn hold_back(&self, inner: &Inner) {
        for (id, entry) in self.lock().iter_mut() {
            let is_ending = entry.hold.is_some_and(|hold| !hold.is_leased(inner));
            if entry.re_entrant && is_ending && !entry.held_back {
                tracing::warn!(task = %id, "a task stands still here, for its lease is about to be over");
                entry.held_back = true;
                entry.controls.tell(Control::Lease);
            }
        }
    }

    /// Whether the work of the run that `controls` reach stands still.
    pub(super) fn is_held_back(&self, id: &TaskId, controls: &Controls) -> bool {
        self.lock().get(id).is_some_and(|entry| entry.controls.same(controls) && entry.held_back)
    }

    /// A write under an epoch was taken, and until `alive` this node was not taken for dead when that was asked.
    pub(super) fn wrote(&self, id: &TaskId, epoch: Epoch, alive: Option<Time>) {
        if let Some(entry) = self.lock().get_mut(id)
            && entry.epoch == Some(epoch)
            && let Some(hold) = &mut entry.hold
        {
            hold.alive = hold.alive.max(alive);
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    fn leases(&self) -> Vec<(TaskId, Epoch)> {
        let lease = |(id, entry): (&TaskId, &Entry)| Some((id.clone(), entry.epoch?));
        self.lock().iter().filter_map(lease).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One call among the runs of its node, until dropped: from before its run begins to its end.
pub(super) struct Listed {
    pub(super) inner: Arc<Inner>,
    pub(super) id: TaskId,
    pub(super) controls: Controls,
}

impl Listed {
    /// A call that is reached by `controls`.
    pub(super) fn new(inner: Arc<Inner>, id: TaskId, controls: Controls) -> Self {
        inner.runs.lock().insert(id.clone(), Entry::new(&controls));
        Self { inner, id, controls }
    }

    /// Its caller waits for as long as it keeps this, or until it is [forgotten](Self::forget_caller).
    pub(super) fn expect_caller(&self) -> Arc<()> {
        let waits = Arc::new(());
        self.set_caller(Arc::downgrade(&waits));
        waits
    }

    /// Its caller does not wait any more.
    pub(super) fn forget_caller(&self) {
        self.set_caller(Weak::new());
    }

    fn set_caller(&self, caller: Weak<()>) {
        if let Some(entry) = self.inner.runs.lock().get_mut(&self.id)
            && entry.controls.same(&self.controls)
        {
            entry.caller = caller;
        }
    }

    /// It is no longer among them, and whoever takes its task up does not find it; at which epoch it held that until now, if it did.
    pub(super) fn leave(&self) -> Option<Epoch> {
        let mut entries = self.inner.runs.lock();
        entries.get(&self.id).filter(|entry| entry.controls.same(&self.controls))?;
        entries.remove(&self.id)?.epoch
    }

    /// Whether an open task is this run's, under whichever epoch: the node's, and no other run's of it. One that had
    /// left to put its task aside may find that another has begun in its place.
    pub(super) fn owns(&self, record: &Record) -> bool {
        is_ours(&self.inner, record) && self.inner.runs.is(&self.id, &self.controls)
    }

    /// At which epoch it holds its task, if it does.
    pub(super) fn epoch(&self) -> Option<Epoch> {
        let entries = self.inner.runs.lock();
        entries.get(&self.id).filter(|entry| entry.controls.same(&self.controls))?.epoch
    }

    /// It holds its task as `record` says, and the lease is renewed from now on.
    pub(super) fn hold(&self, record: &Record) {
        let outside = self.inner.workers.job(&record.tool).is_some();
        let re_entrant = !outside && matches!(record.rerun, Rerun::Resumable | Rerun::Restart);
        let mut entries = self.inner.runs.lock();
        let entry = entries.entry(self.id.clone()).or_insert_with(|| Entry::new(&self.controls));
        if entry.controls.same(&self.controls) {
            entry.hold(record);
            (entry.outside, entry.re_entrant) = (outside, re_entrant);
        }
    }
}

impl Drop for Listed {
    /// Another of the same id since is left alone.
    fn drop(&mut self) {
        self.leave();
    }
}

/// How many there are of a kind.
#[derive(Debug, Default)]
struct Waiting {
    count: AtomicUsize,
    /// Tells that none is left.
    gone: Notify,
}

impl Waiting {
    fn begin(this: &Arc<Self>) -> Waits {
        this.count.fetch_add(1, Ordering::Relaxed);
        Waits(Arc::clone(this))
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Completes once there is none.
    async fn nobody(&self) {
        loop {
            let gone = self.gone.notified();
            if self.count() == 0 {
                return;
            }
            gone.await;
        }
    }
}

/// One of them, such as a caller that waits, until dropped.
#[derive(Debug)]
pub(super) struct Waits(Arc<Waiting>);

impl Drop for Waits {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.gone.notify_waiters();
        }
    }
}

/// Renews every lease of this node, for ever, or sooner where that is [demanded](Inner::renew_now).
///
/// A renewal that fails is tried again soon: a lease lasts for several.
pub(super) async fn renew_leases(inner: Arc<Inner>) {
    let mut pause = inner.pace.renew_every;
    loop {
        tokio::select! {
            biased;
            () = inner.environment.sleep(pause) => {}
            () = inner.renew_now.notified() => {}
        }
        pause = inner.pace.renew_every;
        let leases = inner.runs.leases();
        if leases.is_empty() {
            continue;
        }
        let hold = Hold::renewed(&inner);
        match renew(&inner, &leases).await {
            Ok(fenced) => {
                for (id, epoch) in leases.iter().filter(|(id, _)| !fenced.contains(id)) {
                    inner.runs.renewed(id, *epoch, hold);
                }
                inner.counts.fenced_writes.add(fenced.len());
                for id in &fenced {
                    inner.runs.tell(id, Control::LookAgain);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "leases could not be renewed");
                pause = inner.pace.renew_every / 10;
            }
        }
        inner.runs.hold_back(&inner);
    }
}

/// Renews these. A store that is cut off may say so only when leases are over: what they are of is held back before.
async fn renew(inner: &Inner, leases: &[(TaskId, Epoch)]) -> Result<Vec<TaskId>, StoreError> {
    let mut renewal = inner.store.renew(leases);
    loop {
        tokio::select! {
            biased;
            renewed = &mut renewal => return renewed,
            () = inner.environment.sleep(inner.pace.renew_every / 10) => inner.runs.hold_back(inner),
        }
    }
}

/// Has every run look at its task now and then, for ever: of what another node has done with it the store may have told
/// nobody.
pub(super) async fn keep_looking(inner: Arc<Inner>) {
    loop {
        inner.environment.sleep(inner.pace.look_every).await;
        inner.runs.tell_all(Control::LookAgain);
    }
}

#[cfg(test)]
mod tests {
    use longhaul_store::{Json, Memory, NewTask, Owner, TaskStore as _};

    use super::*;
    use crate::environment::Tokio;
    use crate::runner::{Engine, Pace};

    #[test]
    fn all_runs_are_told_and_renewed_in_the_same_order_each_time() {
        let order = || {
            let engine = Engine::new(Arc::new(Memory::new()), Arc::new(Tokio::new()), Pace::default(), []);
            let listed: Vec<_> = (0..64)
                .map(|number| {
                    let id = TaskId::new(format!("t{number}")).unwrap();
                    Listed::new(Arc::clone(&engine.0), id, Controls::default())
                })
                .collect();
            let order: Vec<_> = engine.0.runs.lock().keys().cloned().collect();
            assert_eq!(order.len(), listed.len());
            order
        };
        assert_eq!(order(), order());
    }

    #[tokio::test]
    async fn who_leaves_learns_under_which_epoch_its_task_was_claimed_back() {
        let store = Arc::new(Memory::new());
        let engine = Engine::new(Arc::clone(&store) as _, Arc::new(Tokio::new()), Pace::default(), []);
        let new =
            NewTask::new(TaskId::new("t").unwrap(), Owner::Anonymous, "work", Json::parse("{}").unwrap());
        let mut record = store.create(new).await.unwrap().into_record();
        let listed = Listed::new(Arc::clone(&engine.0), record.id.clone(), Controls::default());
        listed.hold(&record);
        record.epoch = record.epoch.next();
        assert!(engine.0.runs.claimed_back(&record));
        assert_eq!([listed.leave(), listed.leave()], [Some(record.epoch), None]);
    }
}
