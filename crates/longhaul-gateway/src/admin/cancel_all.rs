//! Cancelling all tasks that somebody looks at.

use longhaul::store::{Cancellation, Scope, TaskId, Time};

use super::list::PAGE;
use super::{Admin, AdminError, Find, Viewer};

/// How many are cancelled at once.
const MOST: usize = 1000;

/// What became of tasks that were all to be cancelled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Cancelled {
    pub(crate) tasks: usize,
    /// There are more, for whoever asks again.
    pub(crate) has_more: bool,
}

impl Admin {
    /// Cancels the open tasks among those that `find` finds, as [`cancel`](Self::cancel) does each, but for those that were
    /// begun after `until`: nobody has seen them. At most 1,000.
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
    ) -> Result<Cancelled, AdminError> {
        if !find.is_of_some() {
            let which = "say which: by words, or tool:, status:, owner: or since:";
            return Err(AdminError::Unreadable(which.to_owned()));
        }
        let _poll = self.poll(viewer, 0)?;
        let (found, has_more) = self.open_among(viewer.scope(), find, until).await?;
        let mut tasks = 0;
        for id in found {
            let cancelled = self.engine().cancel(viewer.scope(), &id, Some(viewer.reason())).await?;
            // One that has ended meanwhile stays as it ended.
            tasks += usize::from(matches!(cancelled, Cancellation::Cancelled(_)));
        }
        Ok(Cancelled { tasks, has_more })
    }

    /// The open tasks among those that `find` finds, and whether there are more than are cancelled at once.
    async fn open_among(
        &self,
        scope: Scope<'_>,
        find: &Find,
        until: Time,
    ) -> Result<(Vec<TaskId>, bool), AdminError> {
        let (filter, now) = (find.filter_open(), self.now());
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = self.engine().list(scope, &filter, after.as_ref(), PAGE).await?;
            for record in page.tasks {
                if find.ends_before(&record, now) {
                    return Ok((found, false));
                }
                if record.created_at <= until && find.admits(&record) {
                    if found.len() == MOST {
                        return Ok((found, true));
                    }
                    found.push(record.id);
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok((found, false));
            }
        }
    }
}
