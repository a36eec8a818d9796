//! Progress as a caller is told of it: under the token of its call, and never less than before.

use std::sync::Arc;

use longhaul_proto::dialect::{Dialect, write_drafted_relation, write_related_task};
use longhaul_proto::jsonrpc::ProgressToken;
use longhaul_proto::method::Notice;
use longhaul_proto::model::Progress;

use crate::wire::{self, By};

/// How far a caller was told that its call is, and how it is told more. Of the call it holds nothing else, so that a task
/// which is put aside can be told of for days.
#[derive(Clone, Debug)]
pub(super) struct ToldProgress {
    pub(super) dialect: &'static Dialect,
    /// `None` if it did not ask for progress.
    pub(super) token: Option<ProgressToken>,
    /// The drafted task that the call is.
    pub(super) drafted: Option<Arc<str>>,
    pub(super) last: Option<Progress>,
}

impl ToldProgress {
    /// The notification of progress of a task (D2), if it rises and the caller asked for it.
    pub(super) fn message(&mut self, progress: &Progress, task: &str) -> Option<Vec<u8>> {
        let token = self.token.as_ref()?;
        if !rises(&mut self.last, progress) {
            return None;
        }
        message(self.dialect, token, progress, Some(task), self.drafted.as_deref())
    }
}

/// Whether progress is further than the last, which it then replaces.
pub(super) fn rises(last: &mut Option<Progress>, progress: &Progress) -> bool {
    let rises = progress.value.is_finite() && last.as_ref().is_none_or(|last| progress.value > last.value);
    if rises {
        *last = Some(progress.clone());
    }
    rises
}

/// The notification of progress: of a call, or of its `task` (D2); what is `drafted` is named besides.
pub(super) fn message(
    dialect: &Dialect,
    token: &ProgressToken,
    progress: &Progress,
    task: Option<&str>,
    drafted: Option<&str>,
) -> Option<Vec<u8>> {
    wire::notification(By::Server, dialect, Notice::Progress, |params| {
        params.field("progressToken", token).field("progress", &progress.value);
        params.optional("total", progress.total.as_ref());
        params.optional("message", progress.message.as_ref());
        if let Some(task) = task {
            write_related_task(params, task);
        }
        if let Some(id) = drafted {
            write_drafted_relation(params, id);
        }
    })
}
