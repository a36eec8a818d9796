//! Revision 2024-11-05: the first, with sessions.

use super::{Dialect, Era, Revision, legacy};

pub(super) static DIALECT: Dialect = Dialect {
    revision: Revision::V2024_11_05,
    date: "2024-11-05",
    era: Era::Legacy,
    requests: &[&legacy::REQUESTS],
    notices: &[&legacy::NOTICES],
    server_requests: &[&legacy::SERVER_REQUESTS],
    server_notices: &[&legacy::SERVER_NOTICES],
};
