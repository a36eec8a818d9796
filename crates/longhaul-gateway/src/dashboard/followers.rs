//! How many pages follow what happens, in all and of one owner.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul::store::Owner;

/// How many pages may follow what happens at once.
const MOST_FOLLOWERS: usize = 64;

/// How many of one owner may.
const MOST_FOLLOWERS_PER_OWNER: usize = 8;

/// The pages that follow, by whose they are.
#[derive(Default)]
pub(super) struct Followers(Mutex<HashMap<Owner, usize>>);

/// The place of one, until it is dropped.
pub(super) struct Place {
    followers: Arc<Followers>,
    owner: Owner,
}

impl Followers {
    /// A place for a page of `owner`, if there is room.
    pub(super) fn place(self: &Arc<Self>, owner: &Owner) -> Option<Place> {
        let mut places = self.places();
        let (all, own) = (places.values().sum::<usize>(), places.get(owner).copied().unwrap_or(0));
        if all >= MOST_FOLLOWERS || own >= MOST_FOLLOWERS_PER_OWNER {
            return None;
        }
        places.insert(owner.clone(), own + 1);
        Some(Place { followers: Arc::clone(self), owner: owner.clone() })
    }

    fn places(&self) -> MutexGuard<'_, HashMap<Owner, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.followers.places();
        match places.get_mut(&self.owner) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(places.remove(&self.owner)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_the_places_of_others() {
        let followers = Arc::new(Followers::default());
        let owner = |name: &str| Owner::principal(name).unwrap();
        let fill = |name: &str| -> Vec<Place> {
            std::iter::from_fn(|| followers.place(&owner(name))).take(MOST_FOLLOWERS).collect()
        };
        let mut anns = fill("ann");
        assert_eq!(anns.len(), MOST_FOLLOWERS_PER_OWNER);
        let others: Vec<Vec<Place>> = (0..20).map(|number| fill(&format!("other-{number}"))).collect();
        assert_eq!(others.iter().flatten().count(), MOST_FOLLOWERS - MOST_FOLLOWERS_PER_OWNER);
        drop(others);
        assert!(followers.place(&owner("ann")).is_none());
        anns.pop();
        assert!(followers.place(&owner("ann")).is_some());
        drop(anns);
        assert!(followers.places().is_empty(), "nothing is kept of who is gone");
    }
}
