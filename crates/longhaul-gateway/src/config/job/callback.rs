//! Where the API of a job can call back, and what of a call is believed.

use std::time::Duration;

use longhaul::transport::http::server::CALLBACKS;
use reqwest::Url;

/// How an API calls back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Callback {
    /// This server, as the API reaches it.
    pub url: Url,
    /// What the body of a call is.
    pub body: CallbackBody,
}

/// What the body of a call is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "what is believed has to be decided in each case")]
pub enum CallbackBody {
    /// Nothing that is believed: the API is asked how the job stands.
    #[default]
    Ignored,
    /// The job's status, as if it had been asked for.
    Status,
}

impl Callback {
    /// How long the API can call back, where a job has no timeout: as long as a task can be kept.
    pub const LASTING: Duration = Duration::from_secs(7 * 24 * 3600);

    /// The address for one job, whose token this is.
    #[must_use]
    pub fn address(&self, token: &str) -> String {
        format!("{}{CALLBACKS}{token}", self.url.as_str().trim_end_matches('/'))
    }
}
