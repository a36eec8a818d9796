//! Which changes a client wants to hear of (2026-07-28, Patterns, Subscriptions).

use serde::{Deserialize, Serialize};

/// The key of `_meta` under which everything that belongs to a subscription carries its id: that of the request that
/// opened it.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// The kinds of changes of one subscription: what a client asks for, and what of it the server agrees to.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct SubscriptionFilter {
    /// The tools are others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tools_list_changed: bool,
    /// The prompts are others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prompts_list_changed: bool,
    /// The resources or their templates are others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resources_list_changed: bool,
    /// One of these resources, by URI, has changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_subscriptions: Vec<String>,
    /// One of these tasks has changed (the tasks extension, Task Status Notifications).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub task_ids: Vec<String>,
}

impl SubscriptionFilter {
    /// The same, and every list that changes.
    #[must_use]
    pub fn lists(mut self) -> Self {
        (self.tools_list_changed, self.prompts_list_changed, self.resources_list_changed) =
            (true, true, true);
        self
    }

    /// The same, and the resource of this URI.
    #[must_use]
    pub fn resource(mut self, uri: impl Into<String>) -> Self {
        self.resource_subscriptions.push(uri.into());
        self
    }

    /// The same, and the task of this id.
    #[must_use]
    pub fn task(mut self, id: impl Into<String>) -> Self {
        self.task_ids.push(id.into());
        self
    }
}
