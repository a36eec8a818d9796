//! Lists of tasks: those that wait for an answer first, then the newest.

use longhaul::store::{Cursor, Filter, Record};

use super::{Admin, AdminError, Find, State, Viewer, state_of};

/// How many tasks a page of the list has.
pub(crate) const PAGE: usize = 100;

/// How many open tasks are looked at for those that wait for an answer.
const MOST_OPEN: usize = 2000;

/// How often the store is asked for one page: what is rare is found on a later page.
const ROUNDS: usize = 20;

/// A page of tasks.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// On the first page: those that wait for an answer.
    pub(crate) asking: Vec<Record>,
    /// The others, newest first.
    pub(crate) tasks: Vec<Record>,
    /// Where the next page begins, if there may be one.
    pub(crate) next: Option<Cursor>,
    /// How many wait for an answer, and how many others are open.
    pub(crate) open: (usize, usize),
    /// There are more open tasks than were counted.
    pub(crate) has_more_open: bool,
    /// How many there are in all, for who sees all.
    pub(crate) all: Option<u64>,
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
        let _poll = self.poll(viewer, 0)?;
        let mut listing = Listing::default();
        let limit = limit.clamp(1, PAGE);
        let most_asking = if find.state.is_none() && after.is_none() { limit } else { 0 };
        self.look_at_open(viewer, find, most_asking, &mut listing).await?;
        let (filter, now) = (find.filter(), self.now());
        let mut after = after.cloned();
        for _ in 0..ROUNDS {
            let wanted = limit - listing.tasks.len();
            let page = self.engine().list(viewer.scope(), &filter, after.as_ref(), wanted).await?;
            listing.next = page.next.clone();
            for record in page.tasks {
                if find.ends_before(&record, now) {
                    listing.next = None;
                    return Ok(listing);
                }
                // Those that wait for an answer stand before all others already, as many as there is room for.
                let is_first = listing.asking.iter().any(|shown| shown.id == record.id);
                if !is_first && find.admits(&record) {
                    listing.tasks.push(record);
                }
            }
            after = page.next;
            if after.is_none() || listing.tasks.len() >= limit {
                break;
            }
        }
        Ok(listing)
    }

    /// Counts what is open, and keeps at most `most` of those that wait for an answer.
    async fn look_at_open(
        &self,
        viewer: &Viewer,
        find: &Find,
        most: usize,
        listing: &mut Listing,
    ) -> Result<(), AdminError> {
        let (mut asking, mut seen, mut after) = (0, 0, None);
        while seen < MOST_OPEN {
            // Few at once, for arguments may be long.
            let page = self.engine().list(viewer.scope(), &Filter::open(), after.as_ref(), PAGE).await?;
            seen += page.tasks.len();
            for record in page.tasks.into_iter().filter(|record| state_of(record) == State::Input) {
                asking += 1;
                if listing.asking.len() < most && find.admits(&record) {
                    listing.asking.push(record);
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        listing.open = (asking, seen - asking);
        listing.has_more_open = after.is_some();
        if viewer.is_operator() {
            listing.all = Some(self.engine().counts().await?.retained);
        }
        Ok(())
    }
}
