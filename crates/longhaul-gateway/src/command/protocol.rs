//! What a server and a supervisor say to each other: one JSON object a line, over a Unix stream socket.
//!
//! Unknown fields and events are skipped and an unknown request is answered as such, so that an old supervisor and
//! a new server understand what both know.

use serde::{Deserialize, Serialize};

use super::{exit::Exit, status::Status};

/// A server's request.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub(super) enum Request {
    /// Live on without a server. Answered by [`Event::Committed`] once that is on the disk.
    Commit,
    /// End the run. Answered by [`Event::Cancelling`]; [`Event::Exit`] follows when the tree is gone.
    Cancel,
    #[serde(other)]
    Unknown,
}

/// What a supervisor says, asked or not.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event {
    /// The command has started. The first event of every connection that does not end at once.
    Running {
        protocol: u32,
        committed: bool,
    },
    /// The supervisor does not run this directory; the connection ends.
    Refused {
        reason: Refusal,
        message: String,
    },
    Status(Status),
    Committed,
    CommitFailed {
        message: String,
    },
    Cancelling,
    /// The run is over and its end is on the disk; the connection ends.
    Exit(Exit),
    NotUnderstood,
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Refusal {
    /// Another supervisor runs it, or did.
    AlreadyStarted,
    /// Nothing was started, for the reason in the message.
    Failed,
    #[serde(other)]
    Unknown,
}

pub(super) fn line<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(message).expect("plain data with string keys is always JSON");
    bytes.push(b'\n');
    bytes
}

pub(super) const PROTOCOL: u32 = 1;

/// No line of either side is longer, in bytes.
pub(super) const MAX_LINE: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_later_release_are_known_as_unknown() {
        let request: Request = serde_json::from_str(r#"{"request":"levitate","height":3}"#).unwrap();
        assert_eq!(request, Request::Unknown);
        let event: Event = serde_json::from_str(r#"{"event":"levitated"}"#).unwrap();
        assert!(matches!(event, Event::Unknown));
    }

    #[test]
    fn the_words_are_these() {
        assert_eq!(line(&Request::Commit), b"{\"request\":\"commit\"}\n");
        assert_eq!(line(&Event::Cancelling), b"{\"event\":\"cancelling\"}\n");
    }
}
