//! Cancelling all tasks that somebody looks at.

use longhaul::store::{Cancellation, Cursor, TaskId, Time};

use super::list::PAGE;
use super::reading::Reading;
use super::{Admin, AdminError, Find, Viewer};

/// How many are cancelled at once.
const MOST: usize = 1000;

/// What became of tasks that were all to be cancelled.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Cancelled {
    pub(crate) tasks: usize,
    /// From where on there may be more, for whoever goes on.
    pub(crate) next: Option<Cursor>,
}

impl Admin {
    /// Cancels the open tasks among those that `find` finds, as [`cancel`](Self::cancel) does each, but for those that were
    /// begun after `until`: nobody has seen them. At most 1,000, from `after` on, and as far as one look reads.
    ///
    /// # Errors
    ///
    /// [`AdminError::Unreadable`] if `find` leaves none out, for that is too easily said;
    /// [`AdminError::TooOften`]; when the store cannot be used. What was cancelled until then is.
    pub(crate) async fn cancel_all(
        &self,
        viewer: &Viewer,
        find: &Find,
        until: Time,
        after: Option<&Cursor>,
    ) -> Result<Cancelled, AdminError> {
        if !find.is_of_some() {
            let which = "say which: by words, or tool:, status:, owner: or since:";
            return Err(AdminError::Unreadable(which.to_owned()));
        }
        let _poll = self.poll(viewer, 0)?;
        let (found, next) = self.open_among(viewer, find, until, after).await?;
        let mut tasks = 0;
        for id in found {
            let cancelled = self.engine().cancel(viewer.scope(), &id, Some(viewer.reason())).await?;
            // One that has ended meanwhile stays as it ended.
            tasks += usize::from(matches!(cancelled, Cancellation::Cancelled(_)));
        }
        Ok(Cancelled { tasks, next })
    }

    /// The open tasks among those that `find` finds, and where to go on if there may be more.
    async fn open_among(
        &self,
        viewer: &Viewer,
        find: &Find,
        until: Time,
        after: Option<&Cursor>,
    ) -> Result<(Vec<TaskId>, Option<Cursor>), AdminError> {
        let (filter, now) = (find.filter_open(), self.now());
        let (mut found, mut reading) = (Vec::new(), Reading::new(self, viewer, &filter, after));
        // Never more of them than there is room for: the cursor stands behind all that were read.
        while found.len() < MOST
            && let Some(tasks) = reading.more(PAGE.min(MOST - found.len())).await?
        {
            for record in tasks {
                if find.ends_before(&record, now) {
                    return Ok((found, None));
                }
                if record.created_at <= until && find.admits(&record) {
                    found.push(record.id);
                }
            }
        }
        Ok((found, reading.next().cloned()))
    }
}
