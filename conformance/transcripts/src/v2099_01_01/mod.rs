//! A revision that nobody has written: 2099-01-01, of the modern era, with a method more than the one before it. It is
//! registered by tests alone, and all that is known of it is here.

use longhaul::proto::dialect::{Dialect, Era, RegisterError, Tables};
use longhaul::proto::method::{Method, Notice};

static DIALECT: Dialect = Dialect::new(
    "2099-01-01",
    Era::Modern,
    Tables {
        requests: &[&[
            // What the year 2099 calls a discovery.
            ("server/introduce", Method::Discover),
            ("server/discover", Method::Discover),
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
    },
);

/// Lets this process speak it.
///
/// # Errors
///
/// When something has been spoken already.
pub fn register() -> Result<(), RegisterError> {
    Dialect::register(&[&DIALECT])
}
