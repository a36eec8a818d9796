//! Revision 2026-07-28: every request stands alone, and tasks are an extension (D3).

pub(super) mod lifecycle;
pub(super) mod task;

use super::{Dialect, Era, Revision};
use crate::method::{Method, Notice};

pub(super) static DIALECT: Dialect = Dialect {
    revision: Revision::V2026_07_28,
    date: "2026-07-28",
    era: Era::Modern,
    requests: &[&[
        ("tools/call", Method::CallTool),
        ("tools/list", Method::ListTools),
        ("tasks/get", Method::GetTask),
        ("tasks/update", Method::UpdateTask),
        ("tasks/cancel", Method::CancelTask),
        ("resources/read", Method::ReadResource),
        ("resources/list", Method::ListResources),
        ("resources/templates/list", Method::ListResourceTemplates),
        ("prompts/get", Method::GetPrompt),
        ("prompts/list", Method::ListPrompts),
        ("completion/complete", Method::Complete),
        ("subscriptions/listen", Method::Listen),
        ("server/discover", Method::Discover),
    ]],
    notices: &[&[("notifications/cancelled", Notice::Cancelled)]],
    server_requests: &[],
    server_notices: &[&[
        ("notifications/progress", Notice::Progress),
        ("notifications/message", Notice::Log),
        ("notifications/tasks", Notice::TaskStatus),
        ("notifications/tools/list_changed", Notice::ToolsChanged),
        ("notifications/resources/list_changed", Notice::ResourcesChanged),
        ("notifications/resources/updated", Notice::ResourceUpdated),
        ("notifications/prompts/list_changed", Notice::PromptsChanged),
        ("notifications/subscriptions/acknowledged", Notice::Listening),
    ]],
};
