//! How much of a store one look at its tasks reads.

use longhaul::store::{Cursor, Filter, Outcome, Record};

use super::{Admin, AdminError, Viewer};

/// How often the store is asked for one look: what is rare is found on a later page.
const ROUNDS: usize = 20;

/// After how many bytes of arguments and outcomes a look ends.
const MOST_BYTES: usize = 16 << 20;

/// How many tasks a store passes over, at most, before it says where to go on.
const LONGEST_SCAN: usize = 5000;

/// And after how many bytes of those that it gives.
const LARGEST_PAGE: usize = 4 << 20;

/// So many bytes cost as much as one more row.
const BYTES_OF_ROW: usize = 16 << 10;

/// One look at the tasks that somebody sees, newest first. It ends when it has read enough, whatever there is.
pub(super) struct Reading<'a> {
    admin: &'a Admin,
    viewer: &'a Viewer,
    filter: &'a Filter,
    next: Option<Cursor>,
    has_more: bool,
    rounds: usize,
    bytes: usize,
    cost: usize,
}

impl<'a> Reading<'a> {
    /// A look at those of `filter`, from `after` on.
    pub(super) fn new(
        admin: &'a Admin,
        viewer: &'a Viewer,
        filter: &'a Filter,
        after: Option<&Cursor>,
    ) -> Self {
        let (next, has_more) = (after.cloned(), true);
        Self { admin, viewer, filter, next, has_more, rounds: 0, bytes: 0, cost: 0 }
    }

    /// The next of them: `wanted` at most, and none where many were passed over. `None` when there are no more, or enough
    /// was read.
    pub(super) async fn more(&mut self, wanted: usize) -> Result<Option<Vec<Record>>, AdminError> {
        if !self.has_more || self.rounds == ROUNDS || self.bytes >= MOST_BYTES {
            return Ok(None);
        }
        if self.rounds > 0 {
            // A store that is a file never waits: whoever shares the thread has a turn.
            tokio::task::yield_now().await;
        }
        self.rounds += 1;
        let page =
            self.admin.engine().list(self.viewer.scope(), self.filter, self.next.as_ref(), wanted).await?;
        let bytes: usize = page.tasks.iter().map(bytes_of).sum();
        self.cost += cost(page.tasks.len(), bytes, page.next.is_some() && page.tasks.len() < wanted);
        self.bytes += bytes;
        (self.has_more, self.next) = (page.next.is_some(), page.next);
        Ok(Some(page.tasks))
    }

    /// Whether there may be more.
    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Where the next look goes on, if there may be more.
    pub(super) fn next(&self) -> Option<&Cursor> {
        self.next.as_ref().filter(|_| self.has_more)
    }

    /// What it took, in rows.
    pub(super) fn cost(&self) -> usize {
        self.cost
    }
}

/// What a store counts of a task in a list.
fn bytes_of(record: &Record) -> usize {
    record.arguments.as_str().len() + record.outcome().map_or(0, Outcome::len)
}

/// What so many rows and bytes cost, in rows. A store that gives fewer than it might have, and has more, has passed over many,
/// unless those that it gives are long.
fn cost(rows: usize, bytes: usize, is_short: bool) -> usize {
    if is_short && bytes < LARGEST_PAGE { LONGEST_SCAN } else { rows + bytes / BYTES_OF_ROW }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_passed_over_and_what_is_long_costs_more_than_it_has_rows() {
        assert_eq!((cost(100, 100_000, false), cost(3, 100, false)), (106, 3));
        assert_eq!((cost(0, 0, true), cost(99, 100_000, true)), (5000, 5000));
        assert_eq!((cost(4, 4 << 20, true), cost(1, 16 << 20, true)), (260, 1025));
    }
}
