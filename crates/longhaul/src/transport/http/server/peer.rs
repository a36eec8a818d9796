//! Where a request comes from, as far as it is somebody's own address.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use http::Extensions;

use crate::server::{Caller, Origin};

/// The address of whoever sends a request, among the request's extensions. An application that a server is mounted in
/// may say it; [`serve`](super::serve) does for all but this machine, where it is a proxy's: behind one, requests
/// that do not sign in are the proxy's to bound (nginx: `limit_req`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "it is an address and nothing else")]
pub struct Peer(pub IpAddr);

/// What is known of whoever sends a request without looking at it.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Who it is, where no credential is asked for.
    caller: Option<Box<Caller>>,
    /// Where it comes from.
    #[cfg(feature = "auth")]
    pub(super) peer: Option<Peer>,
    /// The same, by which strangers are told apart.
    pub(super) origin: Origin,
}

impl Known {
    /// Who it is, where no credential is asked for.
    pub(super) fn caller(self) -> Caller {
        self.caller.map(|caller| *caller).unwrap_or_default()
    }

    /// What these say.
    pub(super) fn of(extensions: &mut Extensions) -> Self {
        let peer: Option<Peer> = extensions.get().copied();
        Self {
            caller: extensions.remove().map(Box::new),
            #[cfg(feature = "auth")]
            peer,
            origin: peer.map_or(Origin::Unknown, |Peer(ip)| Origin::Network(network(ip))),
        }
    }

    /// The same of a connection of ours, which is told from others if its address says nothing.
    pub(super) fn of_connection(extensions: &mut Extensions) -> Self {
        // They begin anywhere, for tasks are counted by them that outlive the connection and this process.
        static CONNECTIONS: LazyLock<AtomicU64> =
            LazyLock::new(|| AtomicU64::new(getrandom::u64().unwrap_or_default()));
        let mut known = Self::of(extensions);
        if known.origin == Origin::Unknown {
            known.origin = Origin::Connection(CONNECTIONS.fetch_add(1, Ordering::Relaxed));
        }
        known
    }
}

/// Of the new addresses a customer has a whole network.
pub(crate) fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}

impl Peer {
    pub(super) fn of(address: SocketAddr) -> Option<Self> {
        let ip = address.ip().to_canonical();
        (!ip.is_loopback()).then_some(Self(ip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_counts_as_one() {
        let of = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("::ffff:192.0.2.1"), "192.0.2.1");
    }
}
