//! `[metrics]`: numbers for whoever watches the server.

use std::net::SocketAddr;
use std::path::Path;

use super::listen::Listen;
use super::reader::{Reader, Section};

/// Where the numbers of a server are, apart from what callers reach.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// Where `/metrics` is listened for: whoever reaches it reads it.
    pub listen: Listen,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { listen: Listen::Address(SocketAddr::from(([127, 0, 0, 1], PORT))) }
    }
}

impl Metrics {
    pub(super) fn read(reader: &mut Reader<'_>, section: &Section<'_>, base: &Path) -> Self {
        reader.reject_unknown(section, &["listen"]);
        Listen::read(reader, section, base, PORT).map_or_else(Self::default, |listen| Self { listen })
    }

    /// The numbers at this place.
    #[must_use]
    pub fn at(listen: Listen) -> Self {
        Self { listen }
    }
}

/// The port unless another is said: the one that exporters of OpenTelemetry have.
const PORT: u16 = 9464;
