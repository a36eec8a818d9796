//! What a load found.

use std::time::Duration;

use serde::Serialize;

/// The figures of one run. Every answer was there, once, and was right.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    /// How many calls were answered.
    pub(crate) calls: u32,
    /// From the first byte sent to the last answer.
    pub(crate) seconds: f64,
    /// How long half of the calls took at most, in microseconds; absent where calls do not wait for each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p50_us: Option<u32>,
    /// How long 99 of 100 calls took at most, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99_us: Option<u32>,
    /// How long 999 of 1,000 calls took at most, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p999_us: Option<u32>,
    /// User and system time of a server that ran for this load alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_seconds: Option<f64>,
    /// The most memory that such a server had resident, in kB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) peak_rss_kb: Option<u64>,
    /// The answer to the first call, where all others are the same but for their numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<String>,
}

impl Figures {
    pub(crate) fn new(calls: u32, took: Duration) -> Self {
        Self {
            calls,
            seconds: took.as_secs_f64(),
            p50_us: None,
            p99_us: None,
            p999_us: None,
            cpu_seconds: None,
            peak_rss_kb: None,
            answer: None,
        }
    }

    pub(crate) fn with_latencies(mut self, mut microseconds: Vec<u32>) -> Self {
        microseconds.sort_unstable();
        let at = |part: usize| microseconds.get(microseconds.len() * part / 1000).copied();
        (self.p50_us, self.p99_us, self.p999_us) = (at(500), at(990), at(999));
        self
    }
}
