//! Places of which there are only so many: each caller has a share of them, and strangers, who can be as many as they like, leave
//! the rest to those who are known.

use std::collections::HashMap;
use std::fmt;

use longhaul_tasks::store::Share;

use super::dispatch::Caller;
use super::principal::Principal;

/// How many places there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) in_all: usize,
    /// For one principal, or for one stranger that is told from others.
    pub(super) each: usize,
    /// For all strangers together.
    pub(super) anonymous: usize,
}

/// Whose a place is.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Whose {
    Principal(Principal),
    /// A stranger's, by what tells it from others, if anything does.
    Stranger(Option<Share>),
}

impl Whose {
    pub(super) fn of(caller: &Caller) -> Self {
        match &caller.principal {
            Some(principal) => Self::Principal(principal.clone()),
            None => Self::Stranger(caller.share()),
        }
    }
}

/// The places that are taken.
#[derive(Debug)]
pub(super) struct Places {
    bounds: Bounds,
    in_all: usize,
    anonymous: usize,
    each: HashMap<Whose, usize>,
}

/// There is no place: of these there are as many as may be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Full {
    /// The caller's own.
    Own(usize),
    /// Those of all strangers.
    Anonymous(usize),
    /// Everybody's.
    All(usize),
}

impl Places {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self { bounds, in_all: 0, anonymous: 0, each: HashMap::new() }
    }

    pub(super) fn in_all(&self) -> usize {
        self.in_all
    }

    /// Whether there is a place.
    ///
    /// # Errors
    ///
    /// What there is too much of.
    pub(super) fn room(&self, whose: &Whose) -> Result<(), Full> {
        let Bounds { in_all, each, anonymous } = self.bounds;
        let own = self.each.get(whose).copied().unwrap_or(0);
        // One bucket of all whom nothing tells apart would be emptied by one of them: theirs is that of all strangers.
        let is_told_apart = !matches!(whose, Whose::Stranger(None));
        let is_stranger = matches!(whose, Whose::Stranger(_));
        if is_told_apart && own >= each {
            Err(Full::Own(each))
        } else if is_stranger && self.anonymous >= anonymous {
            Err(Full::Anonymous(anonymous))
        } else if self.in_all >= in_all {
            Err(Full::All(in_all))
        } else {
            Ok(())
        }
    }

    /// Takes a place, until it is [left](Self::leave).
    ///
    /// # Errors
    ///
    /// As [`room`](Self::room); nothing is taken then.
    pub(super) fn take(&mut self, whose: &Whose) -> Result<(), Full> {
        self.room(whose)?;
        self.in_all += 1;
        self.anonymous += usize::from(matches!(whose, Whose::Stranger(_)));
        *self.each.entry(whose.clone()).or_default() += 1;
        Ok(())
    }

    /// A place that was taken is free again.
    pub(super) fn leave(&mut self, whose: &Whose) {
        self.in_all -= 1;
        self.anonymous -= usize::from(matches!(whose, Whose::Stranger(_)));
        if let Some(own) = self.each.get_mut(whose) {
            *own -= 1;
            if *own == 0 {
                self.each.remove(whose);
            }
        }
    }
}

/// Behind what there is too much of.
impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(limit) => write!(f, "{limit}, the limit of one caller"),
            Self::Anonymous(limit) => write!(f, "{limit}, the limit of all callers who have not signed in"),
            Self::All(limit) => write!(f, "{limit}, the limit of all callers"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ann() -> Whose {
        Whose::Principal(Principal::new("ann").unwrap())
    }

    fn stranger(digest: u64) -> Whose {
        Whose::Stranger(Some(Share::new(digest)))
    }

    #[test]
    fn strangers_have_a_share_each_and_leave_places_to_principals() {
        let mut places = Places::new(Bounds { in_all: 6, each: 2, anonymous: 3 });
        for _ in 0..2 {
            places.take(&stranger(1)).unwrap();
        }
        assert_eq!(places.take(&stranger(1)), Err(Full::Own(2)));
        places.take(&stranger(2)).unwrap();
        assert_eq!(places.take(&stranger(2)), Err(Full::Anonymous(3)));
        assert_eq!(places.take(&Whose::Stranger(None)), Err(Full::Anonymous(3)));
        for _ in 0..2 {
            places.take(&ann()).unwrap();
        }
        assert_eq!(places.take(&ann()), Err(Full::Own(2)));
        let bob = Whose::Principal(Principal::new("bob").unwrap());
        places.take(&bob).unwrap();
        assert_eq!(places.take(&bob), Err(Full::All(6)));
        places.leave(&stranger(1));
        assert_eq!(places.room(&stranger(1)), Ok(()), "one that is left is free");
        places.take(&bob).unwrap();
    }

    #[test]
    fn whom_nothing_tells_apart_share_what_strangers_have() {
        let mut places = Places::new(Bounds { in_all: 6, each: 2, anonymous: 3 });
        for _ in 0..3 {
            places.take(&Whose::Stranger(None)).unwrap();
        }
        assert_eq!(places.take(&Whose::Stranger(None)), Err(Full::Anonymous(3)));
        for _ in 0..3 {
            places.leave(&Whose::Stranger(None));
        }
        assert_eq!(
            (places.in_all(), places.anonymous, places.each.len()),
            (0, 0, 0),
            "nothing is left of them"
        );
    }
}
