//! Revision 2025-06-18: elicitation, structured results, links to resources, titles; batches are gone.

use super::{Dialect, Era, Revision, legacy};
use crate::method::Method;

pub(super) static DIALECT: Dialect = Dialect {
    revision: Revision::V2025_06_18,
    date: "2025-06-18",
    era: Era::Legacy,
    requests: &[&legacy::REQUESTS],
    notices: &[&legacy::NOTICES],
    server_requests: &[&legacy::SERVER_REQUESTS, &[("elicitation/create", Method::Elicit)]],
    server_notices: &[&legacy::SERVER_NOTICES],
};
