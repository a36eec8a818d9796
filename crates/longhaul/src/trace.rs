//! One line for each message, at TRACE: what it is and how long, and nothing of what it carries.

use std::fmt;

use longhaul_proto::jsonrpc::{Limits, Message, RequestId, clip};
use tracing::{enabled, trace};

/// A message has come.
pub(crate) fn received(bytes: &[u8]) {
    if enabled!(tracing::Level::TRACE) {
        trace!(bytes = bytes.len(), "received {}", Brief(bytes));
    }
}

/// A message is on its way.
pub(crate) fn sent(bytes: &[u8]) {
    if enabled!(tracing::Level::TRACE) {
        trace!(bytes = bytes.len(), "sent {}", Brief(bytes));
    }
}

/// What kind of message these bytes are. They are read again for this, which nobody pays for who does not look.
struct Brief<'a>(&'a [u8]);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut limits = Limits::default();
        limits.max_bytes = usize::MAX;
        match Message::decode(self.0, &limits) {
            Ok(Message::Request(request)) => {
                write!(f, "request {} {:?}", brief(&request.id), clip(&request.method))
            }
            Ok(Message::Notification(notification)) => {
                write!(f, "notification {:?}", clip(&notification.method))
            }
            Ok(Message::Response(response)) => {
                match &response.outcome {
                    Ok(_) => f.write_str("result")?,
                    Err(error) => write!(f, "error {}", error.code.0)?,
                }
                match &response.id {
                    Some(id) => write!(f, " for {}", brief(id)),
                    None => Ok(()),
                }
            }
            Err(_) => f.write_str("what is no message"),
        }
    }
}

fn brief(id: &RequestId) -> String {
    clip(&id.to_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_a_message_is_and_nothing_of_what_it_carries() {
        for (message, line) in [
            (
                r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"k":"secret"}}"#,
                r#"request "a" "tools/call""#,
            ),
            (r#"{"jsonrpc":"2.0","method":"x\n","params":{"k":"secret"}}"#, r#"notification "x\n""#),
            (r#"{"jsonrpc":"2.0","id":7,"result":{"k":"secret"}}"#, "result for 7"),
            (r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"secret"}}"#, "error -32700"),
            ("secret", "what is no message"),
        ] {
            assert_eq!(Brief(message.as_bytes()).to_string(), line);
        }
    }
}
