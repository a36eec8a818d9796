//! Who looks: the operator of the server, or a caller who sees what is its own.

use longhaul::server::{Caller, local_user};
use longhaul::store::{Owner, Scope};

/// Who looks, and calls.
#[derive(Clone, Debug)]
pub struct Viewer {
    caller: Caller,
    owner: Owner,
    is_operator: bool,
}

impl Viewer {
    /// The operator of the server: sees every task, and calls as the user of this machine that the server runs as.
    #[must_use]
    pub fn operator() -> Self {
        Self::of(Caller::new(Some(local_user())), true)
    }

    /// A caller, who sees its own tasks; an operator sees every task.
    #[must_use]
    pub fn of(caller: Caller, is_operator: bool) -> Self {
        Self { owner: caller.owner(), caller, is_operator }
    }

    /// As whom the store is asked.
    #[must_use]
    pub fn scope(&self) -> Scope<'_> {
        if self.is_operator { Scope::Operator } else { Scope::Owner(&self.owner) }
    }

    /// Whether it sees the tasks of others.
    #[must_use]
    pub fn is_operator(&self) -> bool {
        self.is_operator
    }

    /// Why a task was cancelled that it has cancelled.
    pub(crate) fn reason(&self) -> &'static str {
        if self.is_operator { "cancelled by the operator" } else { "cancelled on the page" }
    }

    /// By which name it is known.
    pub(crate) fn principal(&self) -> Option<&str> {
        self.caller.principal.as_ref().map(longhaul::server::Principal::as_str)
    }

    /// As whom it calls.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Whose tasks its calls become.
    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }
}
