//! Where a request comes from, as far as it is somebody's own address.

use std::net::{IpAddr, SocketAddr};

use http::Extensions;

use crate::server::Caller;

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
    pub(super) caller: Option<Caller>,
    /// Where it comes from.
    #[cfg(feature = "auth")]
    pub(super) peer: Option<Peer>,
}

impl Known {
    /// What these say.
    pub(super) fn of(extensions: &mut Extensions) -> Self {
        Self {
            caller: extensions.remove(),
            #[cfg(feature = "auth")]
            peer: extensions.get().copied(),
        }
    }
}

impl Peer {
    pub(super) fn of(address: SocketAddr) -> Option<Self> {
        let ip = address.ip().to_canonical();
        (!ip.is_loopback()).then_some(Self(ip))
    }
}
