//! What the two ends of a message tell of it that is not read: it is longer than the limit, or no JSON.

use super::id::RequestId;

/// How much of each end of a message it takes.
pub const GLIMPSED: usize = 1 << 10;

/// What a message is, as far as its beginning and its end tell.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC has these three")]
pub enum Glimpse {
    /// An answer to this request.
    Answer(RequestId),
    /// A request of this id.
    Request(RequestId),
    /// It has a method, and no id where ids stand.
    Notification,
}

impl Glimpse {
    /// What a message is that begins with `head` and ends with `tail`; `None` where nobody can tell. What is large stands last
    /// (`params`, `result`) or before everything else, and nothing within it is taken for the message's own.
    ///
    /// ```
    /// use longhaul_proto::jsonrpc::{Glimpse, RequestId};
    ///
    /// let answer = Glimpse::Answer(RequestId::from(7));
    /// assert_eq!(Glimpse::of(br#"{"jsonrpc":"2.0","id":7,"result":{"content":"#, b"]}}"), Some(answer.clone()));
    /// assert_eq!(Glimpse::of(br#"{"result":{"content":"#, br#"]},"jsonrpc":"2.0","id":7}"#), Some(answer));
    /// assert_eq!(Glimpse::of(br#"{"result":{"content":"#, br#"{"id":7}]}}"#), None);
    /// ```
    pub fn of(head: &[u8], tail: &[u8]) -> Option<Self> {
        let Beginning { id, has_method, is_answer } = Beginning::read(head)?;
        let id = || id.or_else(|| id_at_end(tail));
        match (has_method, is_answer) {
            (true, _) => Some(id().map_or(Self::Notification, Self::Request)),
            (false, true) => id().map(Self::Answer),
            (false, false) => None,
        }
    }
}

/// What the first members of a message say.
#[derive(Default)]
struct Beginning {
    id: Option<RequestId>,
    has_method: bool,
    /// There is a result or an error.
    is_answer: bool,
}

impl Beginning {
    /// Reads members as far as they are texts and numbers; `None` if it is no object.
    fn read(head: &[u8]) -> Option<Self> {
        let mut read = Self::default();
        let mut rest = head.trim_ascii_start().strip_prefix(b"{")?;
        loop {
            let Some((name, value)) = member(rest) else { return Some(read) };
            match name {
                b"result" | b"error" => {
                    read.is_answer = true;
                    return Some(read);
                }
                b"jsonrpc" | b"id" | b"method" => {}
                _ => return Some(read),
            }
            let Some((value, after)) = scalar(value) else { return Some(read) };
            match name {
                b"id" => read.id = serde_json::from_slice(value).ok(),
                b"method" => read.has_method = true,
                _ => {}
            }
            let Some(next) = after.trim_ascii_start().strip_prefix(b",") else { return Some(read) };
            rest = next;
        }
    }
}

/// The name of the next member, and what follows its colon.
fn member(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, rest) = string(text.trim_ascii_start())?;
    let value = rest.trim_ascii_start().strip_prefix(b":")?;
    Some((&name[1..name.len() - 1], value.trim_ascii_start()))
}

/// A string with its quotes, and what follows it. One with escapes is none of those that are looked for.
fn string(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = text.strip_prefix(b"\"")?.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    (text[length + 1] == b'"').then(|| text.split_at(length + 2))
}

/// A string or an integer, and what follows it, of which something has to be there.
fn scalar(text: &[u8]) -> Option<(&[u8], &[u8])> {
    if text.starts_with(b"\"") {
        return string(text);
    }
    let length = text.iter().position(|byte| !is_of_integer(*byte)).filter(|length| *length > 0)?;
    Some(text.split_at(length))
}

fn is_of_integer(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b'-'
}

/// The id, if it is among the last members and nothing but the version follows it. Before the last brace there is no other: what
/// stands there is a member of the message itself.
fn id_at_end(tail: &[u8]) -> Option<RequestId> {
    let mut rest = tail.trim_ascii_end().strip_suffix(b"}")?;
    loop {
        let (before, value) = last_scalar(rest.trim_ascii_end())?;
        let (before, name) = last_string(before.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end())?;
        match name {
            b"\"id\"" => return serde_json::from_slice(value).ok(),
            b"\"jsonrpc\"" => rest = before.trim_ascii_end().strip_suffix(b",")?,
            _ => return None,
        }
    }
}

/// What comes before the string at the end, and that string with its quotes. Its beginning has to be certain.
fn last_string(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = text.strip_suffix(b"\"")?;
    let start = inner.iter().rposition(|byte| matches!(byte, b'"' | b'\\'))?;
    let (before, string) = text.split_at(start);
    (text[start] == b'"' && before.last().is_some_and(|byte| *byte != b'\\')).then_some((before, string))
}

/// What comes before the string or integer at the end, and that.
fn last_scalar(text: &[u8]) -> Option<(&[u8], &[u8])> {
    if text.ends_with(b"\"") {
        return last_string(text);
    }
    let start = text.iter().rposition(|byte| !is_of_integer(*byte))? + 1;
    (start < text.len()).then(|| text.split_at(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Option<Glimpse> {
        Glimpse::of(text.as_bytes(), text.as_bytes())
    }

    #[test]
    fn an_answer_is_known_by_the_id_at_either_end() {
        let answer = Some(Glimpse::Answer(RequestId::from(12)));
        for text in [
            r#"{"jsonrpc":"2.0","id":12,"result":{"#,
            r#" { "id" : 12 , "jsonrpc" : "2.0" , "error" : "#,
            r#"{"result":{"id":3},"jsonrpc":"2.0","id":12}"#,
            r#"{"error":"x", "id": 12, "jsonrpc": "2.0" } "#,
            r#"{"jsonrpc":"2.0","result":[{"id":3},"\"id\":4"],"id":12}"#,
        ] {
            assert_eq!(whole(text), answer, "{text}");
        }
        let named = r#"{"result":{},"id":"a-1"}"#;
        assert_eq!(whole(named), Some(Glimpse::Answer(RequestId::from("a-1"))));
    }

    #[test]
    fn what_a_result_says_is_no_id_of_its_message() {
        for text in [
            r#"{"jsonrpc":"2.0","result":{"id":3}}"#,
            r#"{"result":"\"id\":3}"#,
            r#"{"result":"x\\\"id":3}"#,
            r#"{"result":{},"id":null}"#,
            r#"{"result":{},"other":1,"id"#,
            r#"{"jsonrpc":"2.0","other":{},"id":3}"#,
            r#"{"jsonrpc":"2.0","id":3"#,
            r#"[{"id":3,"result":{}}]"#,
            "",
        ] {
            assert_eq!(whole(text), None, "{text}");
        }
        // A number that is cut off may be another.
        assert_eq!(Glimpse::of(br#"{"jsonrpc":"2.0","id":1"#, b"]}}"), None);
    }

    #[test]
    fn what_has_a_method_is_no_answer() {
        let request = |id: RequestId| Some(Glimpse::Request(id));
        assert_eq!(whole(r#"{"jsonrpc":"2.0","id":3,"method":"a","params":{"#), request(3.into()));
        assert_eq!(whole(r#"{"method":"a","params":{"x":1},"jsonrpc":"2.0","id":0}"#), request(0.into()));
        assert_eq!(whole(r#"{"id":"s","method":"a"}"#), request("s".into()));
        assert_eq!(whole(r#"{"jsonrpc":"2.0","method":"a","params":{"id":3}}"#), Some(Glimpse::Notification));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(head: Vec<u8>, tail: Vec<u8>, text in r#"[{}"\\:, id0-9a-z]*"#) {
            let _ = (Glimpse::of(&head, &tail), whole(&text), whole(&format!("{{{text}}}")));
        }
    }
}
