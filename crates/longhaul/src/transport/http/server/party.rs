//! Who has sessions, as far as they can be told apart: where there are as many as may be, each has a share.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::server::{Caller, Origin, Principal};

/// Whose sessions count together.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Party {
    /// A principal's.
    Principal(Principal),
    /// Those of strangers from one network, or from where they cannot be told apart.
    Strangers(Option<IpAddr>),
}

impl Party {
    pub(super) fn of(caller: &Caller) -> Self {
        match (&caller.principal, caller.origin) {
            (Some(principal), _) => Self::Principal(principal.clone()),
            (None, Origin::Network(network)) => Self::Strangers(Some(network)),
            // Whoever goes by many connections would be many.
            (None, Origin::Unknown | Origin::Connection(_)) => Self::Strangers(None),
        }
    }

    pub(super) fn principal(&self) -> Option<&Principal> {
        match self {
            Self::Principal(principal) => Some(principal),
            Self::Strangers(_) => None,
        }
    }
}

/// How many each has.
pub(super) struct Shares<'p>(HashMap<&'p Party, usize>);

impl<'p> Shares<'p> {
    pub(super) fn of(all: impl Iterator<Item = &'p Party>) -> Self {
        let mut shares = HashMap::new();
        for party in all {
            *shares.entry(party).or_default() += 1;
        }
        Self(shares)
    }

    pub(super) fn of_party(&self, party: &Party) -> usize {
        self.0.get(party).copied().unwrap_or(0)
    }
}

#[cfg(test)]
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
