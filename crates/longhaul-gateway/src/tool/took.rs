//! How long a task took, in the words of its command where it has any.

use std::time::Duration;

use longhaul::store::{Outcome, Record, Time};
use serde::Deserialize;

/// How long a task took, or has taken until `now`. What a command says of itself comes first: its end may have been seen later.
#[must_use]
pub fn took(record: &Record, now: Time) -> Duration {
    let known = || record.terminal_at.unwrap_or(now).since(record.created_at);
    record.outcome().and_then(ran).unwrap_or_else(known)
}

/// How long the command ran whose result this is.
fn ran(outcome: &Outcome) -> Option<Duration> {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(rename = "_meta")]
        meta: Meta,
    }
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "dev.longhaul/run")]
        run: Run,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Run {
        duration_ms: u64,
    }
    let Outcome::Result { value, .. } = outcome else { return None };
    let answer: Answer = serde_json::from_str(value.as_str()).ok()?;
    Some(Duration::from_millis(answer.meta.run.duration_ms))
}
