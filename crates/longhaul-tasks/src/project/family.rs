//! What every answer about a task says of the task that made it, and of those that it has made.

use longhaul_proto::model::Meta;
use longhaul_store::Record;
use serde::Serialize;

/// Besides `meta`: by which task it was made, and how many it has made; nothing of a task without family.
pub(super) fn told(record: &Record, meta: Meta) -> Meta {
    #[derive(Serialize)]
    struct Children {
        made: u32,
        /// How many of them go on, while somebody counts.
        #[serde(skip_serializing_if = "Option::is_none")]
        open: Option<u32>,
    }
    let meta = match &record.parent {
        Some(parent) => meta.with("dev.longhaul/parentTaskId", &parent.task.as_str()),
        None => meta,
    };
    let (open, ended) = (record.children.open, record.children.ended);
    let made = open.saturating_add(ended);
    if made == 0 {
        return meta;
    }
    // Those that outlive it tell it nothing.
    let open = Some(open).filter(|_| !record.is_terminal());
    meta.with("dev.longhaul/children", &Children { made, open })
}
