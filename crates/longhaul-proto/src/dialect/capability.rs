//! What a server offers, as a revision writes and reads it.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::Dialect;
use crate::jsonrpc::ObjectWriter;
use crate::model::{DURABLE_TASKS, Meta, ServerCapabilities, TASKS_EXTENSION};

impl Dialect {
    /// Writes the member `capabilities`.
    pub(super) fn write_offer(&self, offer: &ServerCapabilities, mut out: ObjectWriter<'_>) {
        let list = if offer.list_changes { r#"{"listChanged":true}"# } else { "{}" };
        if offer.tools {
            out.raw("tools", list);
        }
        if offer.prompts {
            out.raw("prompts", list);
        }
        if offer.resources {
            let mut resources = out.object("resources");
            if offer.resource_updates {
                resources.field("subscribe", &true);
            }
            if offer.list_changes {
                resources.field("listChanged", &true);
            }
            resources.end();
        }
        if offer.completions && self.declares_completions() {
            out.raw("completions", "{}");
        }
        if offer.logging {
            out.raw("logging", "{}");
        }
        if offer.tasks && self.asks_for_tasks() {
            let mut tasks = out.object("tasks");
            if offer.task_lists {
                tasks.raw("list", "{}");
            }
            tasks.raw("cancel", "{}").raw("requests", r#"{"tools":{"call":{}}}"#);
            tasks.end();
            // Here extensions have no place of their own.
            if let Some(durable) = offer.extensions.find(DURABLE_TASKS) {
                let mut experimental = out.object("experimental");
                experimental.raw(DURABLE_TASKS, durable.get());
                experimental.end();
            }
        } else if offer.drafted_tasks && self.has_drafted_tasks() {
            // "By request category, with boolean properties" (SEP-1686, Capabilities); it gives no example.
            out.raw("tasks", r#"{"tools":{"call":true}}"#);
        }
        let tasks = offer.tasks && self.has_tasks_extension();
        if self.has_extensions() && (tasks || !offer.extensions.is_empty()) {
            let mut extensions = out.object("extensions");
            if tasks {
                // Exactly `{}`: peers read any other value as "no tasks".
                extensions.raw(TASKS_EXTENSION, "{}");
            }
            for (id, payload) in offer.extensions.iter().filter(|(id, _)| *id != TASKS_EXTENSION) {
                extensions.raw(id, payload.get());
            }
            extensions.end();
        }
        out.end();
    }
}

/// What a server of any revision says it offers. What a revision has no word for is simply absent.
#[derive(Deserialize)]
pub(super) struct Offered {
    tools: Option<List>,
    prompts: Option<List>,
    resources: Option<List>,
    completions: Option<IgnoredAny>,
    logging: Option<IgnoredAny>,
    tasks: Option<Tasks>,
    extensions: Option<Meta>,
    experimental: Option<Meta>,
}

// Every member may be `null`: servers whose language has no other "absent" write it so.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List {
    list_changed: Option<bool>,
    subscribe: Option<bool>,
}

#[derive(Default, Deserialize)]
struct Tasks {
    list: Option<IgnoredAny>,
    cancel: Option<IgnoredAny>,
    requests: Option<Requests>,
    /// What the draft has in their place, whose form it leaves open: what cannot be read offers nothing.
    tools: Option<Value>,
}

#[derive(Deserialize)]
struct Requests {
    tools: Option<ToolRequests>,
}

#[derive(Deserialize)]
struct ToolRequests {
    call: Option<IgnoredAny>,
}

impl Offered {
    /// The offer, and whether its tasks can be cancelled.
    pub(super) fn read(self) -> (ServerCapabilities, bool) {
        let mut extensions = self.extensions.unwrap_or_default();
        let experimental = self.experimental.unwrap_or_default();
        if let Some(durable) =
            experimental.find(DURABLE_TASKS).filter(|_| extensions.find(DURABLE_TASKS).is_none())
        {
            extensions = extensions.with(DURABLE_TASKS, &durable);
        }
        let extension = extensions.find(TASKS_EXTENSION).is_some();
        let tasks = self.tasks.unwrap_or_default();
        let drafted = tasks.tools.is_some_and(|tools| tools["call"] == true);
        let calls = tasks.requests.and_then(|requests| requests.tools).and_then(|tools| tools.call);
        let lists = [&self.tools, &self.prompts, &self.resources];
        let offer = ServerCapabilities {
            tools: self.tools.is_some(),
            prompts: self.prompts.is_some(),
            resources: self.resources.is_some(),
            resource_updates: self
                .resources
                .as_ref()
                .is_some_and(|resources| resources.subscribe == Some(true)),
            completions: self.completions.is_some(),
            list_changes: lists.into_iter().flatten().any(|list| list.list_changed == Some(true)),
            logging: self.logging.is_some(),
            tasks: extension || calls.is_some(),
            task_lists: tasks.list.is_some(),
            drafted_tasks: drafted,
            extensions: extensions.without(TASKS_EXTENSION),
        };
        (offer, extension || tasks.cancel.is_some())
    }
}
