//! What a server declares it can do.

use super::meta::Meta;

/// What a server offers, for every revision; the dialect writes what its revision has a word for.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ServerCapabilities {
    /// It has tools.
    pub tools: bool,
    /// It has resources.
    pub resources: bool,
    /// Who wants to hears when a resource has changed.
    pub resource_updates: bool,
    /// It has prompts.
    pub prompts: bool,
    /// It completes arguments.
    pub completions: bool,
    /// Who wants to hears when a list has changed.
    pub list_changes: bool,
    /// It can send log messages.
    pub logging: bool,
    /// Calls can become tasks.
    pub tasks: bool,
    /// Whoever is told of this can list its tasks.
    pub task_lists: bool,
    /// Calls can become tasks as they were drafted, too.
    pub drafted_tasks: bool,
    /// Other extensions, by identifier, each with what it says of itself: an object.
    pub extensions: Meta,
}

impl ServerCapabilities {
    /// The same, with tools or without.
    #[must_use]
    pub fn with_tools(mut self, tools: bool) -> Self {
        self.tools = tools;
        self
    }

    /// The same, with resources or without.
    #[must_use]
    pub fn with_resources(mut self, resources: bool) -> Self {
        self.resources = resources;
        self
    }

    /// The same, with prompts or without.
    #[must_use]
    pub fn with_prompts(mut self, prompts: bool) -> Self {
        self.prompts = prompts;
        self
    }

    /// The same, completing arguments or not.
    #[must_use]
    pub fn with_completions(mut self, completions: bool) -> Self {
        self.completions = completions;
        self
    }

    /// The same, telling of changes or not.
    #[must_use]
    pub fn with_changes(mut self, changes: bool) -> Self {
        (self.list_changes, self.resource_updates) = (changes, changes);
        self
    }

    /// The same, with log messages or without.
    #[must_use]
    pub fn with_logging(mut self, logging: bool) -> Self {
        self.logging = logging;
        self
    }

    /// The same, with tasks or without.
    #[must_use]
    pub fn with_tasks(mut self, tasks: bool) -> Self {
        self.tasks = tasks;
        self
    }

    /// The same, for a caller who can list its tasks or one who cannot.
    #[must_use]
    pub fn with_task_lists(mut self, task_lists: bool) -> Self {
        self.task_lists = task_lists;
        self
    }

    /// The same, with drafted tasks or without.
    #[must_use]
    pub fn with_drafted_tasks(mut self, drafted_tasks: bool) -> Self {
        self.drafted_tasks = drafted_tasks;
        self
    }

    /// The same, with these extensions beside that of tasks.
    #[must_use]
    pub fn with_extensions(mut self, extensions: Meta) -> Self {
        self.extensions = extensions;
        self
    }
}
