//! The mark on a result that is none yet: the server hands its caller over to the task that goes on.

#[cfg(feature = "client")]
use longhaul_proto::model::CallToolResult;
use longhaul_proto::model::Meta;
use serde::Serialize;

/// The member of `_meta` that marks such a result, in every revision.
const KEY: &str = "dev.longhaul/handedOver";

/// Marks a result as one that hands over to what `task` tells of.
pub(crate) fn mark(task: &impl Serialize) -> Meta {
    Meta::new().with(KEY, task)
}

/// The id of the task that a longhaul server hands its caller over to, when `result` says so: the work goes on, and
/// its result is the task's.
///
/// A caller that takes tasks is given one instead, see [`Started::Task`](super::client::Started::Task).
///
/// # Examples
///
/// ```
/// use longhaul::client::handed_over;
/// use longhaul::proto::model::CallToolResult;
///
/// assert_eq!(handed_over(&CallToolResult::text("Still running, says the tool itself")), None);
/// ```
#[cfg(feature = "client")]
pub fn handed_over(result: &CallToolResult) -> Option<String> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Task {
        task_id: String,
    }
    let task: Task = serde_json::from_str(result.meta.find(KEY)?.get()).ok()?;
    Some(task.task_id)
}
