//! Scopes: branches of a handler that are numbered each for itself.

use std::sync::{Mutex, PoisonError};

use super::context::Cx;
use super::step::{self, StepName};

/// What the keys that are made here begin with, from now on.
#[derive(Debug, Default)]
pub(super) struct Scope(Mutex<String>);

impl Scope {
    fn new(prefix: String) -> Self {
        Self(Mutex::new(prefix))
    }

    /// The key of this name here.
    fn key(&self, name: &str) -> String {
        let prefix = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if prefix.is_empty() { name.to_owned() } else { format!("{prefix}{name}") }
    }

    /// What is made here from now on has keys that begin so.
    pub(super) fn enter(&self, prefix: &str) {
        prefix.clone_into(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The name as a part of a key, which ends where the next begins, whatever is in the name.
pub(super) fn in_key(name: impl StepName) -> String {
    name.step_name().replace('%', "%25").replace('/', "%2F")
}

impl Cx {
    /// The same call, for a branch of its work: its steps and questions are numbered and named apart from those of
    /// every other scope.
    ///
    /// Steps of one name are numbered in the order in which they are made, and branches that run at the same time
    /// make theirs in whichever order they get on. So each branch needs a scope of its own, made before it runs.
    ///
    /// ```
    /// # use longhaul::{Cx, server::ToolError};
    /// # async fn fetch(part: &str) -> Result<String, std::io::Error> { Ok(part.to_owned()) }
    /// async fn mirror(cx: Cx, site: String) -> Result<String, ToolError> {
    ///     cx.step("fetch", || fetch(&site)).await
    /// }
    ///
    /// async fn both(cx: Cx) -> Result<String, ToolError> {
    ///     let (one, two) = (cx.scope("mirror"), cx.scope("mirror"));
    ///     let (one, two) = tokio::join!(mirror(one, "one".to_owned()), mirror(two, "two".to_owned()));
    ///     Ok(one? + &two?)
    /// }
    /// ```
    #[must_use]
    pub fn scope(&self, name: impl StepName) -> Self {
        let key = self.reserve(&format!("scope:{}", in_key(name)));
        self.within(Scope::new(format!("{key}/")))
    }

    /// The key of this name in its scope.
    pub(super) fn scoped(&self, name: &str) -> String {
        self.current_scope().key(name)
    }

    /// The key of the part of a result that is given next.
    pub(super) fn next_part(&self) -> String {
        let scope = self.scoped("");
        // Counted apart in a step, for its body may not run again.
        let place = match step::current() {
            Some(step) => format!("{step}/{scope}"),
            None => scope,
        };
        let number = self.interview().count(&place);
        format!("{place}#{number}")
    }

    /// The same, or that name with a number, which is taken from now on.
    pub(super) fn reserve(&self, name: &str) -> String {
        self.interview().reserve(&self.scoped(name))
    }
}
