//! How long signing in may take, and how much strangers may say.

use std::time::Duration;

/// The limits of a client that signs in: [`OAuth::limits`](super::OAuth::limits).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// How long one question to an authorization server may take, or one to the server for its metadata, with its answer.
    pub timeout: Duration,
    /// Bytes of such an answer.
    pub max_answer: usize,
    /// How long before its end a token is renewed.
    pub early: Duration,
    /// How long another program that keeps its tokens in the same place may take to renew one.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            max_answer: 1 << 20,
            early: Duration::from_secs(30),
            patience: Duration::from_secs(60),
        }
    }
}

impl Limits {
    /// Gives each question this long.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Reads this many bytes of an answer.
    #[must_use]
    pub fn max_answer(mut self, bytes: usize) -> Self {
        self.max_answer = bytes;
        self
    }

    /// Renews tokens this long before their end.
    #[must_use]
    pub fn early(mut self, early: Duration) -> Self {
        self.early = early;
        self
    }

    /// Waits this long for another program that renews a token.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }
}
