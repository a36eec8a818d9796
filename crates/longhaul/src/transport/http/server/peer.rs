//! Where a request comes from, as far as it is somebody's own address.

use std::net::{IpAddr, SocketAddr};

/// The address of whoever sends a request, among the request's extensions. An application that a server is mounted in
/// may say it; [`serve`](super::serve) does for all but this machine, where it is a proxy's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "it is an address and nothing else")]
pub struct Peer(pub IpAddr);

impl Peer {
    pub(super) fn of(address: SocketAddr) -> Option<Self> {
        let ip = address.ip().to_canonical();
        (!ip.is_loopback()).then_some(Self(ip))
    }
}
