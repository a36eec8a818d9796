//! Lists of tasks: those that wait for an answer first, then the newest.

use std::time::Duration;

use longhaul::store::{Cursor, Filter, Record};
use tokio::time::Instant;

use super::reading::Reading;
use super::{Admin, AdminError, Find, State, Viewer, state_of};

/// How many tasks a page of the list has.
pub(crate) const PAGE: usize = 100;

/// How many open tasks are looked at for those that wait for an answer.
const MOST_OPEN: usize = 2000;

/// How many kept tasks are looked at for how many have ended how.
const MOST_KEPT: usize = 1000;

/// How long a look waits for the next at most, whatever it has read: what is rare is shown within a minute.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A page of tasks.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// On the first page: those that wait for an answer.
    pub(crate) asking: Vec<Record>,
    /// The others, newest first.
    pub(crate) tasks: Vec<Record>,
    /// Where the next page begins, if there may be one.
    pub(crate) next: Option<Cursor>,
    /// How many there are.
    pub(crate) counts: Counts,
}

/// How many tasks stand where, of those that were looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    by_state: [usize; State::ALL.len()],
    /// There are more open tasks than were looked at.
    has_more_open: bool,
    /// And more that have ended.
    has_more_ended: bool,
    /// How many there are in all, for who sees all.
    pub(crate) all: Option<u64>,
}

impl Counts {
    /// How many stand so, at least.
    pub(crate) fn of(&self, state: State) -> usize {
        self.by_state[state as usize]
    }

    /// Whether there may be more that stand so.
    pub(crate) fn has_more(&self, state: State) -> bool {
        if state.is_open() { self.has_more_open } else { self.has_more_ended }
    }
}

/// When one who follows a list looks again at what: the later, the more has to be read for it. So a page of a busy server reads
/// no more in the mean than its own length, twice; a page of what is rare is read once a minute all the same.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    counts: Counts,
    counts_due: Option<Instant>,
    page_due: Option<Instant>,
}

impl Pace {
    fn is_due(at: Option<Instant>) -> bool {
        at.is_none_or(|at| at <= Instant::now())
    }

    /// Whether all may be read again.
    pub(crate) fn is_over(&self) -> bool {
        Self::is_due(self.counts_due) && Self::is_due(self.page_due)
    }

    /// When what was worth so many rows may be read again.
    fn after(cost: usize) -> Option<Instant> {
        let seconds = u64::try_from(cost / PAGE).unwrap_or(u64::MAX);
        Instant::now().checked_add(Duration::from_secs(seconds).min(LONGEST_PAUSE))
    }
}

impl Admin {
    /// A page of the tasks that `viewer` sees, from `after` on.
    ///
    /// # Errors
    ///
    /// [`AdminError::TooOften`]; when the store cannot be read, or the cursor is none.
    pub(crate) async fn list(
        &self,
        viewer: &Viewer,
        find: &Find,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Listing, AdminError> {
        self.list_again(viewer, find, after, limit, &mut Pace::default()).await
    }

    /// The same for who follows it: at most every second, and of what is not [due](Pace) yet nothing.
    pub(crate) async fn list_again(
        &self,
        viewer: &Viewer,
        find: &Find,
        after: Option<&Cursor>,
        limit: usize,
        pace: &mut Pace,
    ) -> Result<Listing, AdminError> {
        let _poll = self.poll(viewer, 0)?;
        let mut listing = Listing::default();
        let limit = limit.clamp(1, PAGE);
        if Pace::is_due(pace.counts_due) {
            let most = if find.state.is_none() && after.is_none() { limit } else { 0 };
            let cost = self.count(viewer, find, most, &mut listing).await?;
            (pace.counts, pace.counts_due) = (listing.counts, Pace::after(cost));
        }
        listing.counts = pace.counts;
        if Pace::is_due(pace.page_due) {
            let cost = self.page(viewer, find, after, limit, &mut listing).await?;
            // A page that was filled at once is as long as what it shows.
            pace.page_due = Pace::after(cost.saturating_sub(PAGE));
        }
        Ok(listing)
    }

    /// Reads a page of the list itself; how many rows that was worth.
    async fn page(
        &self,
        viewer: &Viewer,
        find: &Find,
        after: Option<&Cursor>,
        limit: usize,
        listing: &mut Listing,
    ) -> Result<usize, AdminError> {
        let (filter, now) = (find.filter(), self.now());
        let mut reading = Reading::new(self, viewer, &filter, after);
        while listing.tasks.len() < limit
            && let Some(tasks) = reading.more(limit - listing.tasks.len()).await?
        {
            for record in tasks {
                if find.ends_before(&record, now) {
                    return Ok(reading.cost());
                }
                // Those that wait for an answer stand before all others already, as many as there is room for.
                let is_first = listing.asking.iter().any(|shown| shown.id == record.id);
                if !is_first && find.admits(&record) {
                    listing.tasks.push(record);
                }
            }
        }
        listing.next = reading.next().cloned();
        Ok(reading.cost())
    }

    /// Counts what there is, and keeps at most `most` of those that wait for an answer; how many rows that was worth.
    async fn count(
        &self,
        viewer: &Viewer,
        find: &Find,
        most: usize,
        listing: &mut Listing,
    ) -> Result<usize, AdminError> {
        let kept = self.look_through(viewer, (&Filter::all(), MOST_KEPT), (find, most)).await?;
        let mut cost = kept.cost;
        let mut counts =
            Counts { by_state: kept.by_state, has_more_ended: kept.has_more, ..Counts::default() };
        listing.asking = kept.asking;
        if kept.has_more {
            // The open ones may be older than those.
            let open = self.look_through(viewer, (&Filter::open(), MOST_OPEN), (find, most)).await?;
            for state in State::ALL.into_iter().filter(|state| state.is_open()) {
                counts.by_state[state as usize] = open.by_state[state as usize];
            }
            counts.has_more_open = open.has_more;
            listing.asking = open.asking;
            cost += open.cost;
        }
        if viewer.is_operator() {
            counts.all = Some(self.engine().counts().await?.retained);
        }
        listing.counts = counts;
        Ok(cost)
    }

    /// Looks through the newest tasks of a filter, so many at most; keeps so many of those that wait for an answer and are
    /// looked for.
    async fn look_through(
        &self,
        viewer: &Viewer,
        (filter, most): (&Filter, usize),
        (find, most_asking): (&Find, usize),
    ) -> Result<Seen, AdminError> {
        let (mut seen, mut reading) = (Seen::default(), Reading::new(self, viewer, filter, None));
        let mut rows = 0;
        // Few at once, for arguments may be long.
        while rows < most
            && let Some(tasks) = reading.more(PAGE).await?
        {
            rows += tasks.len();
            for record in tasks {
                let state = state_of(&record);
                seen.by_state[state as usize] += 1;
                if state == State::Input && seen.asking.len() < most_asking && find.admits(&record) {
                    seen.asking.push(record);
                }
            }
        }
        (seen.has_more, seen.cost) = (reading.has_more(), reading.cost());
        Ok(seen)
    }
}

/// What was seen of tasks.
#[derive(Default)]
struct Seen {
    /// How many rows it was worth.
    cost: usize,
    by_state: [usize; State::ALL.len()],
    asking: Vec<Record>,
    has_more: bool,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use longhaul::Server;
    use longhaul::store::{Batch, Epoch, Json, Memory, NewTask, Outcome, Owner, TaskId, TaskStore as _};

    use super::*;
    use crate::command::RunsDir;
    use crate::config::Role;
    use crate::fleet::Fleet;
    use crate::tool::{Copies, Streams};

    #[tokio::test]
    async fn a_page_of_ten_thousand_tasks_reads_no_more_rows_than_it_may() {
        let store = Arc::new(Memory::new());
        let runs = tempfile::tempdir().unwrap();
        let dispatcher = Server::new("ci", "1.0.0").store(Arc::clone(&store)).dispatcher().unwrap();
        dispatcher.start().await.unwrap();
        let fleet = Fleet::new(Arc::<Memory>::clone(&store), dispatcher.engine().clone(), Role::Worker);
        let streams = Streams::new(RunsDir::open(runs.path().join("runs")).unwrap(), Copies::none());
        let admin = Admin::new(dispatcher, Arc::<Memory>::clone(&store), streams, fleet);
        for number in 0..10_000 {
            let (id, owner) = (TaskId::new(format!("t-{number}")).unwrap(), Owner::principal("ann").unwrap());
            let arguments = Json::parse("{}").unwrap();
            store.create(NewTask::new(id.clone(), owner, "test", arguments.clone())).await.unwrap();
            // The first ones stay open, behind all that the first look sees.
            if number >= 500 {
                let outcome = Outcome::result(arguments, false);
                store.finish(&id, Epoch::FIRST, outcome, Batch::new()).await.unwrap();
            }
        }
        let (viewer, mut after) = (Viewer::operator(), None);
        let all = Find::default();
        for _ in 0..20 {
            let mut listing = Listing::default();
            let counted = admin.count(&viewer, &all, PAGE, &mut listing).await.unwrap();
            assert!(counted <= MOST_KEPT + MOST_OPEN, "{counted} rows were read to count");
            let read = admin.page(&viewer, &all, after.as_ref(), PAGE, &mut listing).await.unwrap();
            assert_eq!((read, listing.tasks.len()), (PAGE, PAGE));
            after = listing.next;
        }
        // What nothing says is looked for among some of them, and then on the next page.
        let (nothing, mut listing) = (Find::read("nothing-says-this", None).unwrap(), Listing::default());
        let read = admin.page(&viewer, &nothing, None, PAGE, &mut listing).await.unwrap();
        assert!(read <= 2_000 && listing.tasks.is_empty() && listing.next.is_some(), "{read} rows were read");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_rare_is_looked_for_again_within_a_minute() {
        let pause = |cost| Pace::after(cost).map(|due| due.duration_since(Instant::now()).as_secs());
        assert_eq!([pause(99), pause(5_000), pause(100_000)], [Some(0), Some(50), Some(60)]);
        let due = Pace::after(100_000);
        tokio::time::advance(LONGEST_PAUSE).await;
        assert!(Pace::is_due(due));
    }
}
