//! Resources that are watched: how many, by whom; and who tells of those that change elsewhere, for as long as any client
//! watches one.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

use super::dispatch::Caller;
use super::grant::Grant;
use super::places::{Bounds, Full, Places, Whose};

/// A resource that a client is about to watch, as [`Server::tell_of_resources`](crate::Server::tell_of_resources) is asked
/// for it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ToWatch<'w> {
    /// Its URI.
    pub uri: &'w str,
    /// The URI or the template that it is offered by; `None` for one that only [`Resources`](super::Resources) have.
    pub offered_as: Option<&'w str>,
    /// What the client's credential allows; `None` where nothing is out of its reach.
    pub grant: Option<&'w Grant>,
}

type Telling = Pin<Box<dyn Future<Output = ()> + Send>>;

type Tell = dyn Fn(ToWatch<'_>) -> Option<Telling> + Send + Sync;

/// Who tells of what.
#[derive(Default)]
pub(super) struct Herald(Option<Box<Tell>>);

impl Herald {
    pub(super) fn by<F>(tell: impl Fn(ToWatch<'_>) -> Option<F> + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self(Some(Box::new(move |what| tell(what).map(|telling| -> Telling { Box::pin(telling) }))))
    }
}

/// The resources that the clients of one server watch.
pub(super) struct Watched {
    herald: Herald,
    open: Mutex<Open>,
}

struct Open {
    told: HashMap<Arc<str>, Told>,
    /// Each resource is counted for each client.
    places: Places,
}

/// A resource of which is told.
struct Told {
    watches: usize,
    telling: AbortHandle,
}

/// A client watches a resource, until this is dropped.
pub(super) struct Watch {
    watched: Arc<Watched>,
    whose: Whose,
    /// What somebody tells of.
    told: Option<Arc<str>>,
}

/// Why a resource is not watched.
#[derive(Debug)]
pub(super) enum Unwatched {
    /// Nobody tells this client of it.
    Untold,
    /// Too many are watched.
    TooMany(Full),
}

impl Watched {
    /// Of which `herald` tells, if it does, and which are no more than these.
    pub(super) fn new(herald: Herald, bounds: Bounds) -> Arc<Self> {
        let open = Open { told: HashMap::new(), places: Places::new(bounds) };
        Arc::new(Self { herald, open: Mutex::new(open) })
    }

    /// One more client, of this caller's, watches a resource. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// Why it does not.
    pub(super) fn watch(self: &Arc<Self>, caller: &Caller, what: ToWatch<'_>) -> Result<Watch, Unwatched> {
        let whose = Whose::of(caller);
        self.lock().places.room(&whose).map_err(Unwatched::TooMany)?;
        // It may do what it likes, and is not asked while others wait for this.
        let telling = match &self.herald.0 {
            Some(tell) => Some(tell(what).ok_or(Unwatched::Untold)?),
            None => None,
        };
        let mut open = self.lock();
        open.places.take(&whose).map_err(Unwatched::TooMany)?;
        let told = telling.map(|telling| {
            let uri: Arc<str> = what.uri.into();
            match open.told.get_mut(&uri) {
                Some(told) => told.watches += 1,
                None => {
                    let telling = tokio::spawn(telling).abort_handle();
                    open.told.insert(Arc::clone(&uri), Told { watches: 1, telling });
                }
            }
            uri
        });
        Ok(Watch { watched: Arc::clone(self), whose, told })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut open = self.watched.lock();
        open.places.leave(&self.whose);
        let Some(uri) = &self.told else { return };
        let Some(told) = open.told.get_mut(uri) else { return };
        told.watches -= 1;
        if told.watches == 0 {
            told.telling.abort();
            open.told.remove(uri);
        }
    }
}

impl fmt::Debug for Herald {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Herald").field(&self.0.is_some()).finish()
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("open", &self.lock().places.in_all()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&self.told).finish()
    }
}
