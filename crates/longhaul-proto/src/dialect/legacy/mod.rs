//! What every revision with an `initialize` handshake has in its table.

pub(super) mod lifecycle;

use crate::method::{Method, Notice};

/// The requests a client may send in all of them.
pub(super) const REQUESTS: [(&str, Method); 13] = [
    ("tools/call", Method::CallTool),
    ("tools/list", Method::ListTools),
    ("resources/read", Method::ReadResource),
    ("resources/list", Method::ListResources),
    ("resources/templates/list", Method::ListResourceTemplates),
    ("resources/subscribe", Method::Subscribe),
    ("resources/unsubscribe", Method::Unsubscribe),
    ("prompts/get", Method::GetPrompt),
    ("prompts/list", Method::ListPrompts),
    ("completion/complete", Method::Complete),
    ("ping", Method::Ping),
    ("logging/setLevel", Method::SetLogLevel),
    ("initialize", Method::Initialize),
];

/// The notifications a client may send in all of them.
pub(super) const NOTICES: [(&str, Notice); 3] = [
    ("notifications/initialized", Notice::Initialized),
    ("notifications/cancelled", Notice::Cancelled),
    ("notifications/roots/list_changed", Notice::RootsChanged),
];

/// The requests a server may send in all of them.
pub(super) const SERVER_REQUESTS: [(&str, Method); 3] =
    [("ping", Method::Ping), ("sampling/createMessage", Method::Sample), ("roots/list", Method::ListRoots)];

/// The notifications a server may send in all of them.
pub(super) const SERVER_NOTICES: [(&str, Notice); 7] = [
    ("notifications/cancelled", Notice::Cancelled),
    ("notifications/progress", Notice::Progress),
    ("notifications/message", Notice::Log),
    ("notifications/tools/list_changed", Notice::ToolsChanged),
    ("notifications/resources/list_changed", Notice::ResourcesChanged),
    ("notifications/resources/updated", Notice::ResourceUpdated),
    ("notifications/prompts/list_changed", Notice::PromptsChanged),
];
