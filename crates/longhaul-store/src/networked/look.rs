//! What is read: each store supplies how.

use super::fault::{Fault, pass_over};
use crate::{
    CallKey, Cursor, Epoch, Filter, HostId, NodeId, Owner, Page, Record, Runnable, Scope, TaskId, Time,
    ToolVersion,
    error::corrupt,
    page::{LARGEST_PAGE, LONGEST_SCAN},
    transition,
};

/// Something that is read of one moment. It may be tried several times, so it keeps what it was given.
pub(crate) trait Look<M: Moment>: Send + Sync + 'static {
    /// What is found.
    type Found: Send + 'static;

    /// Whether it takes several statements, where these must be told that they are to see one moment.
    const SEVERAL: bool = true;

    /// Whether it goes on for as long as there is anything to look at. Then it sees to it that each of its questions is answered in
    /// time.
    const LASTS: bool = false;

    /// Looks once.
    fn look(&self, at: &M) -> impl Future<Output = Result<Self::Found, M::Fault>> + Send;
}

/// By what it is read.
pub(crate) trait Moment: Send + Sync {
    /// Why nothing is found out.
    type Fault;
}

/// A task.
pub(crate) struct Get {
    pub(crate) owner: Option<Owner>,
    pub(crate) id: TaskId,
}

/// The task of an owner that was created under a key.
pub(crate) struct Called {
    pub(crate) owner: Owner,
    pub(crate) key: CallKey,
}

/// The steps of a task that is held.
pub(crate) struct Steps {
    pub(crate) id: TaskId,
    pub(crate) epoch: Epoch,
}

/// A stretch of what is seen of the steps of a task.
pub(crate) struct SeenStepsOf {
    pub(crate) task: Get,
    pub(crate) after: u64,
    pub(crate) limit: usize,
}

/// A stretch of the parts of a task.
pub(crate) struct PartsOf {
    pub(crate) task: Get,
    pub(crate) after: u64,
    pub(crate) limit: usize,
}

/// A page of tasks.
pub(crate) struct List {
    pub(crate) owner: Option<Owner>,
    pub(crate) filter: Filter,
    /// Only what can be claimed, if anything can, now that these nodes are dead.
    pub(crate) claimable: Option<Vec<NodeId>>,
    pub(crate) before: u64,
    pub(crate) limit: usize,
}

impl List {
    fn is_wanted(&self, record: &Record, now: Time) -> bool {
        let is_dead = |node: &NodeId| self.claimable.as_ref().is_some_and(|dead| dead.contains(node));
        !record.is_forgotten(now)
            && self.filter.admits(record)
            && (self.claimable.is_none() || transition::is_claimable(record, now, &is_dead))
    }
}

/// A page of what can be claimed, of all owners: these are all of them.
pub(crate) struct ListAmong<R> {
    pub(crate) list: List,
    pub(crate) among: Vec<R>,
}

/// A page of tasks that is made.
pub(crate) struct Listing<'a> {
    list: &'a List,
    now: Time,
    page: Page,
    /// Behind which place the next row is.
    pub(crate) before: u64,
    scanned: usize,
    bytes: usize,
}

impl<'a> Listing<'a> {
    pub(crate) fn new(list: &'a List, now: Time) -> Self {
        Self { list, now, page: Page::default(), before: list.before, scanned: 0, bytes: 0 }
    }

    /// How many rows come next: what a task carries may be large, so they come a few at a time.
    pub(crate) fn few(&self) -> usize {
        FEW.min(self.list.limit.max(16))
    }

    /// Takes the next row, which is at this place; `None` if it holds none of the tasks that are looked for. Whether the page
    /// ends with it.
    pub(crate) fn take<F: Fault>(&mut self, place: u64, found: Result<Option<Record>, F>) -> Result<bool, F> {
        (self.before, self.scanned) = (place, self.scanned + 1);
        match found.map_err(Fault::refusal) {
            Ok(Some(record)) if self.list.is_wanted(&record, self.now) => {
                self.bytes +=
                    record.arguments.as_str().len() + record.outcome().map_or(0, crate::Outcome::len);
                self.page.tasks.push(record);
            }
            Ok(_) => {}
            // It must not hide its neighbours; whoever asks for it by id is told.
            Err(Ok(error)) => tracing::error!(place, %error, "a damaged task is left out of a list"),
            Err(Err(fault)) => return Err(fault),
        }
        let is_full = self.page.tasks.len() == self.list.limit
            || self.scanned == LONGEST_SCAN
            || self.bytes >= LARGEST_PAGE;
        if is_full {
            let scope = self.list.owner.as_ref().map_or(Scope::Operator, Scope::Owner);
            self.page.next = Some(Cursor::behind(scope, place));
        }
        Ok(is_full)
    }

    pub(crate) fn into_page(self) -> Page {
        self.page
    }
}

/// How many tasks there are.
pub(crate) struct Count;

/// How large the store is, if its server says so.
pub(crate) struct Weigh;

/// What a claim could take.
pub(crate) struct Claimable {
    /// Of tasks that have not ended alone.
    pub(crate) open_only: bool,
    /// So many at most.
    pub(crate) limit: usize,
    /// Of these tools, in these versions.
    pub(crate) runs: Option<Vec<Runnable>>,
}

impl Claimable {
    /// Whether a task of this tool, in this version, and bound to this host or to none, is one of those.
    pub(crate) fn admits<F: Fault>(
        &self,
        id: &TaskId,
        tool: Option<&str>,
        version: Option<&str>,
        host: Option<&str>,
    ) -> Result<bool, F> {
        let Some(runs) = &self.runs else { return Ok(true) };
        let damaged = |what| pass_over(id, F::from(corrupt(what))).map(|()| false);
        let (Some(tool), Some(version)) = (tool, version) else {
            return damaged("its tool or the version of that");
        };
        let Ok(version) = ToolVersion::new(version) else { return damaged("the version of its tool") };
        let Ok(host) = host.map(HostId::new).transpose() else {
            return damaged("the host that it is bound to");
        };
        Ok(runs.iter().any(|run| run.admits(tool, &version, host.as_ref())))
    }
}

/// The tasks that a claim could take, and the nodes that are dead.
pub(crate) struct Candidates<R> {
    pub(crate) rows: Vec<R>,
    pub(crate) dead: Vec<NodeId>,
}

/// What time demands something of: at most so many.
pub(crate) struct Due(pub(crate) usize);

/// How many rows come at once that may be large.
pub(crate) const FEW: usize = 64;
