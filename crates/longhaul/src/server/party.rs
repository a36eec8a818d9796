//! Whose requests, sessions and tasks count together, as far as callers can be told apart: where there are as many as may be, each has a
//! share, and buckets of its own where there may be only so many in so long.

#[cfg(feature = "http")]
use std::collections::HashMap;
use std::net::IpAddr;

use longhaul_tasks::store::Share;
#[cfg(feature = "http")]
use sha2::{Digest as _, Sha256};

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

/// Who has buckets of its own, which fill within minutes.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Asker {
    Principal(Principal),
    /// Where it asks from, which is known.
    Stranger(Origin),
}

impl Asker {
    /// None has who is told from nobody: one for all of them would be emptied by one.
    pub(super) fn of(caller: &Caller) -> Option<Self> {
        match (&caller.principal, caller.origin) {
            (Some(principal), _) => Some(Self::Principal(principal.clone())),
            (None, origin) => Some(origin).filter(|origin| *origin != Origin::Unknown).map(Self::Stranger),
        }
    }

    /// A stranger of that network.
    pub(super) fn of_network(network: IpAddr) -> Option<Self> {
        #[cfg(feature = "http")]
        return Some(Self::Stranger(Origin::Network(network)));
        #[cfg(not(feature = "http"))]
        {
            let _ = network;
            None
        }
    }

    /// The network of a stranger that is told by it.
    pub(super) fn network(&self) -> Option<IpAddr> {
        match self {
            #[cfg(feature = "http")]
            Self::Stranger(Origin::Network(network)) => Some(*network),
            Self::Stranger(_) | Self::Principal(_) => None,
        }
    }

    /// Whether it is one caller, as far as can be told: a connection of this machine may be a proxy's, and a bucket that
    /// takes minutes to fill would be emptied by one stranger for all who come by it.
    pub(super) fn is_one(&self) -> bool {
        match self {
            #[cfg(feature = "http")]
            Self::Stranger(Origin::Connection(_)) => false,
            Self::Principal(_) | Self::Stranger(_) => true,
        }
    }
}

impl Caller {
    /// Among whose open tasks its own are counted, if it is a stranger that is told from others. What it makes by several connections
    /// of this machine is counted for each alone, for one may be a proxy's, and whoever comes by another is not to be refused for it.
    pub(crate) fn share(&self) -> Option<Share> {
        match (&self.principal, self.origin) {
            (Some(_), _) | (None, Origin::Unknown) => None,
            #[cfg(feature = "http")]
            (None, Origin::Network(network)) => Some(share(network)),
            #[cfg(feature = "http")]
            (None, Origin::Connection(number)) => Some(Share::new(number)),
        }
    }
}

/// The same in every process of a fleet, whichever release it is.
#[cfg(feature = "http")]
fn share(network: IpAddr) -> Share {
    let digest: [u8; 32] = match network {
        IpAddr::V4(ip) => Sha256::digest(ip.octets()),
        IpAddr::V6(ip) => Sha256::digest(ip.octets()),
    }
    .into();
    Share::new(u64::from_be_bytes(*digest.first_chunk().expect("32 bytes begin with 8")))
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

    #[test]
    fn tasks_are_counted_by_network_and_on_this_machine_by_connection() {
        let of = |origin| Caller { origin, ..Caller::default() }.share();
        let network = |ip: &str| of(Origin::Network(ip.parse().unwrap()));
        // Nodes of other releases say the same.
        assert_eq!(network("192.0.2.1"), Some(Share::new(0x4b8f_eb93_6451_2928)));
        let all = [network("192.0.2.1"), network("192.0.2.2"), network("2001:db8::")];
        let all = [&all[..], &[1, 2].map(|number| of(Origin::Connection(number)))].concat();
        assert!(all.iter().all(Option::is_some));
        assert!((1..all.len()).all(|at| !all[..at].contains(&all[at])), "{all:?}");
        assert_eq!(of(Origin::Unknown), None);
        let origin = Origin::Connection(1);
        let ann = Caller { origin, ..Caller::new(Some(Principal::new("ann").unwrap())) };
        assert_eq!(ann.share(), None);
    }
}
