//! Revision 2025-11-25: sessions, and tasks that the caller asks for (D2).

pub(super) mod lifecycle;
pub(super) mod task;

use super::{Dialect, Era, Revision};
use crate::method::{Method, Notice};

pub(super) static DIALECT: Dialect = Dialect {
    revision: Revision::V2025_11_25,
    era: Era::Legacy,
    requests: &[
        ("tools/call", Method::CallTool),
        ("tools/list", Method::ListTools),
        ("tasks/get", Method::GetTask),
        ("tasks/result", Method::TaskResult),
        ("tasks/cancel", Method::CancelTask),
        ("resources/read", Method::ReadResource),
        ("resources/list", Method::ListResources),
        ("resources/templates/list", Method::ListResourceTemplates),
        ("ping", Method::Ping),
        ("logging/setLevel", Method::SetLogLevel),
        ("initialize", Method::Initialize),
    ],
    notices: &[
        ("notifications/initialized", Notice::Initialized),
        ("notifications/cancelled", Notice::Cancelled),
    ],
    server_requests: &[("ping", Method::Ping)],
    server_notices: &[
        ("notifications/progress", Notice::Progress),
        ("notifications/message", Notice::Log),
        ("notifications/tasks/status", Notice::TaskStatus),
        ("notifications/tools/list_changed", Notice::ToolsChanged),
    ],
};
