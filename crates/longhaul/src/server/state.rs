//! What the handlers of a server share.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::BuildError;

/// A value that the handlers of a server share. Clones are the same value.
///
/// A server is given one of each type; a handler has it from its context, or as a parameter of a function with an
/// attribute.
///
/// # Examples
///
/// ```
/// use longhaul::{Cx, Server, Tool};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// #[derive(Default)]
/// struct Visits(AtomicU64);
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct NoArguments {}
///
/// let count = Tool::inline("count", "Count the calls", |cx: Cx, NoArguments {}| {
///     cx.state::<Visits>().map_or(0, |visits| visits.0.fetch_add(1, Ordering::Relaxed) + 1)
/// });
/// let server = Server::new("visits", "1.0.0").state(Visits::default()).tool(count.needs::<Visits>());
/// # assert!(server.dispatcher().is_ok());
/// ```
pub struct State<T>(Arc<T>);

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("State").field(&self.0).finish()
    }
}

/// What handlers share, by type.
#[derive(Clone, Default)]
pub(super) struct States(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl States {
    pub(super) fn put<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(value));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get<T: Send + Sync + 'static>(&self) -> Option<State<T>> {
        let value = Arc::clone(self.0.get(&TypeId::of::<T>())?);
        value.downcast().ok().map(State)
    }

    /// Whether all is there that something needs.
    pub(super) fn check(&self, needs: &[Need], of: impl FnOnce() -> String) -> Result<(), BuildError> {
        match needs.iter().find(|need| !self.0.contains_key(&need.id)) {
            None => Ok(()),
            Some(missing) => Err(BuildError::NoState { of: of(), state: missing.name }),
        }
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("States").field(&self.0.len()).finish()
    }
}

/// A type of which a handler needs the value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    id: TypeId,
    name: &'static str,
}

impl Need {
    pub(super) fn of<T: 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: type_name::<T>() }
    }
}
