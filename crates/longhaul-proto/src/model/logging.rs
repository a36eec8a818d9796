//! Severities of log messages.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How severe a log message is, as in RFC 5424; ordered from least to most severe.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "RFC 5424 has these eight")]
pub enum LoggingLevel {
    /// Detail for whoever debugs.
    Debug,
    /// Ordinary operation.
    Info,
    /// Ordinary, but worth notice.
    Notice,
    /// Something may go wrong.
    Warning,
    /// Something went wrong.
    Error,
    /// A component failed.
    Critical,
    /// Act at once.
    Alert,
    /// Unusable.
    Emergency,
}

impl fmt::Display for LoggingLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        })
    }
}
