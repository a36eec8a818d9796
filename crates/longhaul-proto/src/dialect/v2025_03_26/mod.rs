//! Revision 2025-03-26: batches, sounds, hints about tools, completions declared.

use super::{Dialect, Era, Revision, legacy};

pub(super) static DIALECT: Dialect = Dialect {
    revision: Revision::V2025_03_26,
    date: "2025-03-26",
    era: Era::Legacy,
    requests: &[&legacy::REQUESTS],
    notices: &[&legacy::NOTICES],
    server_requests: &[&legacy::SERVER_REQUESTS],
    server_notices: &[&legacy::SERVER_NOTICES],
};
