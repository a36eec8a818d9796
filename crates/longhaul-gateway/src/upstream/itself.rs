//! A server behind this one that is this one: each that serves others on says which it is, by an extension of ours, and is not served
//! on by itself. What it has would otherwise be listed once more with each listing.

use std::fmt::Write as _;
use std::sync::Arc;

use longhaul::Server;
use longhaul::client::Client;
use serde::{Deserialize, Serialize};

/// The extension by which a server says which it is.
const GATEWAY: &str = "dev.longhaul/gateway";

/// What it says.
#[derive(Deserialize, Serialize)]
struct Said<S> {
    instance: S,
}

/// Which server this is of all there are.
#[derive(Clone, Debug)]
pub(super) struct Instance(Arc<str>);

impl Instance {
    /// One that no other is.
    pub(super) fn new() -> Self {
        let mut random = [0_u8; 16];
        getrandom::fill(&mut random).expect("the system has randomness");
        let mut name = String::with_capacity(2 * random.len());
        for byte in random {
            // A string takes everything.
            let _ = write!(name, "{byte:02x}");
        }
        Self(name.into())
    }

    /// The server, which says that it is this one.
    pub(super) fn declare(&self, server: Server) -> Server {
        server.extension(GATEWAY, &Said { instance: &*self.0 })
    }

    /// Whether it is this server that is at the other end.
    pub(super) fn is_behind(&self, client: &Client) -> bool {
        let said = client.capabilities().extensions.find(GATEWAY);
        let said = said.and_then(|said| serde_json::from_str::<Said<String>>(said.get()).ok());
        said.is_some_and(|said| *said.instance == *self.0)
    }
}
