//! Resources that are watched: how many, by whom; and who tells of those that change elsewhere, for as long as any client
//! watches one.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_tasks::store::Owner;
use tokio::task::AbortHandle;

use super::grant::Grant;

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
    /// How many there may be, each counted for each client; and how many of one principal's.
    bounds: (usize, usize),
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    told: HashMap<Arc<str>, Told>,
    in_all: usize,
    each: HashMap<Owner, usize>,
}

/// A resource of which is told.
struct Told {
    watches: usize,
    telling: AbortHandle,
}

/// A client watches a resource, until this is dropped.
pub(super) struct Watch {
    watched: Arc<Watched>,
    owner: Owner,
    /// What somebody tells of.
    told: Option<Arc<str>>,
}

/// Why a resource is not watched.
#[derive(Debug)]
pub(super) enum Unwatched {
    /// Nobody tells this client of it.
    Untold,
    /// So many are watched.
    TooMany(usize),
}

impl Watched {
    /// Of which `herald` tells, if it does; `in_all` of them at most, and `each` of one principal's.
    pub(super) fn new(herald: Herald, in_all: usize, each: usize) -> Arc<Self> {
        Arc::new(Self { herald, bounds: (in_all, each), open: Mutex::default() })
    }

    /// One more client watches a resource. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// Why it does not.
    pub(super) fn watch(self: &Arc<Self>, owner: &Owner, what: ToWatch<'_>) -> Result<Watch, Unwatched> {
        self.room(&self.lock(), owner)?;
        // It may do what it likes, and is not asked while others wait for this.
        let telling = match &self.herald.0 {
            Some(tell) => Some(tell(what).ok_or(Unwatched::Untold)?),
            None => None,
        };
        let mut open = self.lock();
        self.room(&open, owner)?;
        open.in_all += 1;
        *open.each.entry(owner.clone()).or_default() += 1;
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
        Ok(Watch { watched: Arc::clone(self), owner: owner.clone(), told })
    }

    fn room(&self, open: &Open, owner: &Owner) -> Result<(), Unwatched> {
        let (in_all, each) = self.bounds;
        let bound = match owner {
            Owner::Principal(_) => each.min(in_all),
            // Strangers share one owner, so that they share the whole.
            Owner::Anonymous => in_all,
        };
        let own = open.each.get(owner).copied().unwrap_or(0);
        if own >= bound || open.in_all >= in_all { Err(Unwatched::TooMany(bound)) } else { Ok(()) }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut open = self.watched.lock();
        open.in_all -= 1;
        if let Some(own) = open.each.get_mut(&self.owner) {
            *own -= 1;
            if *own == 0 {
                open.each.remove(&self.owner);
            }
        }
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
        f.debug_struct("Watched").field("open", &self.lock().in_all).finish_non_exhaustive()
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&self.told).finish()
    }
}
