//! Changing what a server offers while it serves.

use std::sync::{Arc, OnceLock, Weak};

use super::BuildError;
use super::changes::Seen;
use super::dispatch::Shared;
use super::kind::Kind;
use super::shelf::{Shelf, Taken};

/// What a server offers, to be changed while it serves. Clones are of one server.
///
/// A change is seen by the next request. Clients that want to know are told within a moment, and once for many changes
/// in a row. Things are listed in the order in which they were added; what is put in the place of another of its name,
/// or hidden and shown again, stays where it was.
///
/// # Examples
///
/// ```
/// use longhaul::Server;
/// use longhaul::server::{Resource, Tool};
///
/// # fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let (server, catalogue) = Server::new("plugins", "1.0.0").dynamic();
/// let dispatcher = server.dispatcher()?; // or serve it
///
/// catalogue.add(Resource::text("plugins://loaded", "loaded", "none"))?;
/// catalogue.put(Resource::text("plugins://loaded", "loaded", "one"))?;
/// catalogue.resource_updated("plugins://loaded")?;
/// catalogue.remove::<Resource>("plugins://loaded")?;
/// # Ok(())
/// # }
/// # run().unwrap();
/// ```
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    shared: Arc<OnceLock<Weak<Shared>>>,
    /// Where what it changes is seen.
    seen: Seen,
}

/// Why what is offered could not be changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The server is not put together yet, or is gone.
    #[error("the server does not serve: put it together before changing what it offers")]
    NotServing,
    /// It cannot be offered.
    #[error(transparent)]
    Refused(#[from] BuildError),
}

/// What a [`Catalogue`] holds: [`Tool`](super::Tool), [`Prompt`](super::Prompt), [`Resource`](super::Resource) (by URI)
/// and [`ResourceTemplate`](super::ResourceTemplate) (by template).
#[expect(private_bounds, reason = "nobody outside can add a kind")]
pub trait Offered: Kind {}

impl<T: Kind> Offered for T {}

impl Catalogue {
    /// The same catalogue for what every node of a fleet sees for itself and offers as it does, like that of a server that all of
    /// them serve on.
    ///
    /// Clients of nodes that share sessions are told of such a change once, and not once for each node: a second later, with all that
    /// the others have seen by then. What is seen later than that is told again, so nothing is lost where a node is late, or has
    /// seen what no other has. Where no sessions are shared this is no different.
    ///
    /// ```
    /// # use longhaul::Server;
    /// let (server, catalogue) = Server::new("front", "1.0.0").dynamic();
    /// let behind = catalogue.seen_by_each(); // for whoever keeps it like the server behind this one
    /// # let _ = (server, behind);
    /// ```
    #[must_use]
    pub fn seen_by_each(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), seen: Seen::ByEach }
    }

    /// Offers something more, listed behind the others of its kind.
    ///
    /// # Errors
    ///
    /// When its name is taken, or it could not be offered from the start either.
    pub fn add<T: Offered>(&self, item: T) -> Result<(), ChangeError> {
        self.change(|shared, shelf: &Shelf<T>| {
            item.check(&shared.offer)?;
            shelf.change(|stock| {
                if !stock.has(item.key()) {
                    item.prepare(shared);
                }
                stock.add(item).map(|()| true).map_err(|Taken(name)| T::taken(name))
            })
        })?;
        Ok(())
    }

    /// Offers something in place of what has its name, or as something more.
    ///
    /// # Errors
    ///
    /// When it could not be offered from the start either.
    pub fn put<T: Offered>(&self, item: T) -> Result<(), ChangeError> {
        self.change(|shared, shelf: &Shelf<T>| {
            item.check(&shared.offer)?;
            item.prepare(shared);
            shelf.change(|stock| {
                stock.put(item);
                Ok(true)
            })
        })?;
        Ok(())
    }

    /// Makes many changes as one: offers each of `put` as [`put`](Self::put) does, and those of `gone` no longer, by their names.
    /// What could not be offered from the start either is left as it was, and given back by name with the reason.
    ///
    /// # Errors
    ///
    /// When the server does not serve.
    pub fn renew<T: Offered>(
        &self,
        gone: impl IntoIterator<Item = impl AsRef<str>>,
        put: impl IntoIterator<Item = T>,
    ) -> Result<Vec<(String, BuildError)>, ChangeError> {
        let (put, gone): (Vec<T>, Vec<_>) = (put.into_iter().collect(), gone.into_iter().collect());
        let mut refused = Vec::new();
        if put.is_empty() && gone.is_empty() {
            return Ok(refused);
        }
        self.change(|shared, shelf: &Shelf<T>| {
            let mut fit = Vec::with_capacity(put.len());
            for item in put {
                match item.check(&shared.offer) {
                    Ok(()) => {
                        item.prepare(shared);
                        fit.push(item);
                    }
                    Err(error) => refused.push((item.key().to_owned(), error)),
                }
            }
            shelf.change(|stock| {
                let mut changed = !fit.is_empty();
                for name in &gone {
                    changed |= stock.remove(name.as_ref());
                }
                fit.into_iter().for_each(|item| stock.put(item));
                Ok(changed)
            })
        })?;
        Ok(refused)
    }

    /// Offers it no longer; `false` when it was not offered. What runs goes on.
    ///
    /// # Errors
    ///
    /// When the server does not serve.
    pub fn remove<T: Offered>(&self, name: &str) -> Result<bool, ChangeError> {
        self.change(|_, shelf: &Shelf<T>| shelf.change(|stock| Ok(stock.remove(name))))
    }

    /// Shows it or hides it: what is hidden is not there for anybody. `false` when it was so already, or is not
    /// offered at all.
    ///
    /// # Errors
    ///
    /// When the server does not serve.
    pub fn enable<T: Offered>(&self, name: &str, enabled: bool) -> Result<bool, ChangeError> {
        self.change(|_, shelf: &Shelf<T>| shelf.change(|stock| Ok(stock.enable(name, enabled))))
    }

    /// Tells the clients that watch it that the resource at `uri` has changed.
    ///
    /// # Errors
    ///
    /// When the server does not serve.
    pub fn resource_updated(&self, uri: &str) -> Result<(), ChangeError> {
        let shared = self.shared()?;
        if let Ok(changes) = shared.changes() {
            changes.resource_updated(uri, self.seen);
        }
        Ok(())
    }

    /// The server is put together.
    pub(super) fn open(&self, shared: &Arc<Shared>) {
        self.shared.get_or_init(|| Arc::downgrade(shared));
    }

    /// Makes a change, and says so to whom it concerns if it was one.
    fn change<T: Offered>(
        &self,
        change: impl FnOnce(&Shared, &Shelf<T>) -> Result<bool, BuildError>,
    ) -> Result<bool, ChangeError> {
        let shared = self.shared()?;
        let changed = change(&shared, T::shelf(&shared.offer))?;
        if changed && let Ok(changes) = shared.changes() {
            changes.list_changed(T::LISTED, self.seen);
        }
        Ok(changed)
    }

    fn shared(&self) -> Result<Arc<Shared>, ChangeError> {
        self.shared.get().and_then(Weak::upgrade).ok_or(ChangeError::NotServing)
    }
}
