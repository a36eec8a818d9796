//! Who a list is for: callers that can take tasks, and callers that cannot.

use longhaul_proto::dialect::Dialect;

use super::dispatch::Caller;

/// For whom the tools are listed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Audience {
    /// Its calls come back as tasks: it needs no tools to follow them.
    TakesTasks,
    /// Its calls are held and handed over: it follows them with the companions.
    Waits,
}

/// Clients of the legacy era that drive tasks. Their declaration does not say so: it lists only what they
/// host themselves.
const DRIVE_TASKS: [&str; 2] = ["Visual Studio Code", "Visual Studio Code - Insiders"];

impl Audience {
    pub(super) const ALL: [Self; 2] = [Self::TakesTasks, Self::Waits];

    /// By what this request, or its session's handshake, says of the caller: never by an earlier request.
    pub(super) fn of(dialect: &Dialect, caller: &Caller) -> Self {
        let takes = if dialect.has_tasks_extension() {
            caller.capabilities.extensions.tasks
        } else {
            caller.client().is_some_and(|client| DRIVE_TASKS.contains(&client.name.as_str()))
        };
        if takes { Self::TakesTasks } else { Self::Waits }
    }
}
