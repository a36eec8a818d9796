//! Whose requests and sessions count together, as far as callers can be told apart: where there are as many as may be, each has a share.

#[cfg(feature = "http")]
use std::collections::HashMap;
use std::net::IpAddr;

use super::dispatch::{Caller, Origin};
use super::principal::Principal;

/// Who has a share.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Party {
    /// A principal.
    Principal(Principal),
    /// The strangers of one network, or of where they cannot be told apart.
    Strangers(Option<IpAddr>),
}

impl Party {
    pub(crate) fn of(caller: &Caller) -> Self {
        match (&caller.principal, caller.origin) {
            (Some(principal), _) => Self::Principal(principal.clone()),
            #[cfg(feature = "http")]
            (None, Origin::Network(network)) => Self::Strangers(Some(network)),
            // Whoever goes by many connections would be many.
            #[cfg(feature = "http")]
            (None, Origin::Connection(_)) => Self::Strangers(None),
            (None, Origin::Unknown) => Self::Strangers(None),
        }
    }

    #[cfg(feature = "http")]
    pub(crate) fn principal(&self) -> Option<&Principal> {
        match self {
            Self::Principal(principal) => Some(principal),
            Self::Strangers(_) => None,
        }
    }
}

/// How many each has.
#[cfg(feature = "http")]
pub(crate) struct Shares<'p>(HashMap<&'p Party, usize>);

#[cfg(feature = "http")]
impl<'p> Shares<'p> {
    pub(crate) fn of(all: impl Iterator<Item = &'p Party>) -> Self {
        let mut shares = HashMap::new();
        for party in all {
            *shares.entry(party).or_default() += 1;
        }
        Self(shares)
    }

    pub(crate) fn of_party(&self, party: &Party) -> usize {
        self.0.get(party).copied().unwrap_or(0)
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use super::*;

    fn stranger(origin: Origin) -> Party {
        Party::of(&Caller { origin, ..Caller::default() })
    }

    #[test]
    fn strangers_are_of_their_network_and_on_this_machine_all_one() {
        let [one, other] =
            ["192.0.2.1", "192.0.2.2"].map(|ip| stranger(Origin::Network(ip.parse().unwrap())));
        assert_ne!(one, other);
        assert_eq!(stranger(Origin::Connection(1)), stranger(Origin::Connection(2)));
        let ann = Party::of(&Caller::new(Some(Principal::new("ann").unwrap())));
        let shares = Shares::of([&one, &ann, &one].into_iter());
        assert_eq!([&one, &other, &ann].map(|party| shares.of_party(party)), [2, 0, 1]);
    }
}
