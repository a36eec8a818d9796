//! Which trace of the caller's a request belongs to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::jsonrpc::Text;

/// The `traceparent` of W3C Trace Context: a trace, and the span in it that asks.
///
/// A request says it in its `_meta`. What is no `traceparent` is passed over, as W3C Trace Context (3.2) wants it: it
/// fails no request.
///
/// ```
/// use longhaul_proto::model::TraceParent;
///
/// let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// let parent: TraceParent = text.parse()?;
/// assert_eq!(parent.trace_id(), 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
/// assert!(parent.is_sampled());
/// assert_eq!(parent.to_string(), text);
/// # Ok::<(), longhaul_proto::model::InvalidTraceParent>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct TraceParent {
    trace: u128,
    span: u64,
    flags: u8,
}

impl TraceParent {
    /// A trace, a span of it, and whether it is recorded. `None` where one of the ids is zero, which names nothing.
    pub fn new(trace_id: u128, span_id: u64, sampled: bool) -> Option<Self> {
        (trace_id != 0 && span_id != 0).then_some(Self {
            trace: trace_id,
            span: span_id,
            flags: sampled.into(),
        })
    }

    /// The trace.
    pub const fn trace_id(self) -> u128 {
        self.trace
    }

    /// The span in it that asks.
    pub const fn span_id(self) -> u64 {
        self.span
    }

    /// Whether the caller records the trace.
    pub const fn is_sampled(self) -> bool {
        self.flags & 1 == 1
    }
}

impl fmt::Display for TraceParent {
    /// As version `00` writes it, the only one there is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

/// This is no `traceparent`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not a traceparent: it is written as in 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]
#[non_exhaustive]
pub struct InvalidTraceParent;

impl FromStr for TraceParent {
    type Err = InvalidTraceParent;

    /// Reads every version but `ff`: a later one may have more behind what version `00` has.
    fn from_str(text: &str) -> Result<Self, InvalidTraceParent> {
        let mut parts = text.splitn(5, '-');
        let mut part = |digits: usize| {
            let part = parts.next().filter(|part| part.len() == digits).ok_or(InvalidTraceParent)?;
            let is_hex = part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            is_hex.then(|| u128::from_str_radix(part, 16).ok()).flatten().ok_or(InvalidTraceParent)
        };
        let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        let more = parts.next();
        if version == 0xff || (version == 0 && more.is_some()) {
            return Err(InvalidTraceParent);
        }
        let span = u64::try_from(span).map_err(|_| InvalidTraceParent)?;
        // Of the flags only the first means anything yet, and what means nothing is not passed on.
        Self::new(trace, span, flags & 1 == 1).ok_or(InvalidTraceParent)
    }
}

impl Serialize for TraceParent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceParent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_is_read_is_written_again() {
        for text in [PARENT, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"] {
            assert_eq!(text.parse::<TraceParent>().map(|parent| parent.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn a_later_version_may_say_more() {
        let later = format!("cc{}-and-more", &PARENT[2..]);
        assert_eq!(later.parse::<TraceParent>(), PARENT.parse());
        let same = format!("cc{}", &PARENT[2..]);
        assert_eq!(same.parse::<TraceParent>(), PARENT.parse());
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b71692033311-01",
            "00-0af7651916cd43dd8448eb211c80319ä-b7ad6b7169203331-01",
        ] {
            assert_eq!(text.parse::<TraceParent>(), Err(InvalidTraceParent), "{text}");
        }
    }
}
