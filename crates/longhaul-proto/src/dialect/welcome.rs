//! What a server says of itself, read back: by a client that opens a connection.

use serde::Deserialize;

use super::{Declaration, Dialect, Era, legacy, v2026_07_28};
use crate::jsonrpc::{Code, ErrorObject, RequestId, write_request};
use crate::method::Notice;
use crate::model::{Elicitation, Implementation, ServerCapabilities};

/// What a server has said of itself, and in which dialect to speak to it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Welcome {
    /// How to speak to it.
    pub dialect: &'static Dialect,
    /// What it offers.
    pub capabilities: ServerCapabilities,
    /// Whether tasks can be cancelled.
    pub cancels_tasks: bool,
    /// Who it says it is, if it says so.
    pub info: Option<Implementation>,
    /// How to use it as a whole, for the model.
    pub instructions: Option<String>,
}

/// The peer speaks no revision that this crate does.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "the server speaks {}, and this client {}",
    if offered.is_empty() { "no revision it names".to_owned() } else { offered.join(", ") },
    Dialect::dates().collect::<Vec<_>>().join(", ")
)]
#[non_exhaustive]
pub struct Unsupported {
    /// The revisions the server named.
    pub offered: Vec<String>,
}

/// What an error says about the era of the server that gave it.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must decide what to do in each case")]
pub enum Words {
    /// Only a server of the modern era says this: an `initialize` would hide the cause.
    Modern,
    /// It is of the modern era, but wants one of these revisions.
    Revisions(Vec<String>),
    /// A server of any era may say this.
    Any,
}

impl Dialect {
    /// What an error to a modern request says about the server that gave it.
    pub fn words_of(error: &ErrorObject) -> Words {
        #[derive(Deserialize)]
        struct Data {
            supported: Vec<String>,
        }
        match error.code {
            Code::HEADER_MISMATCH | Code::MISSING_CAPABILITY => Words::Modern,
            Code::UNSUPPORTED_VERSION => {
                let data = error.data.as_ref().and_then(|data| serde_json::from_str::<Data>(data.get()).ok());
                data.map_or(Words::Any, |data| Words::Revisions(data.supported))
            }
            _ => Words::Any,
        }
    }

    /// Whether an error that refuses a revision names this one among those that its server speaks.
    pub fn is_offered_by(&self, error: &ErrorObject) -> bool {
        matches!(Self::words_of(error), Words::Revisions(offered) if offered.iter().any(|date| date == self.date))
    }

    /// That no revision of `offered` is spoken here.
    pub fn unsupported(offered: Vec<String>) -> Unsupported {
        Unsupported { offered }
    }

    /// The newest revision of that era in `offered` which this crate speaks.
    pub fn newest_of(era: Era, offered: &[String]) -> Option<&'static Self> {
        let offers = |dialect: &&Self| offered.iter().any(|date| date == dialect.date);
        Self::spoken().filter(offers).find(|dialect| dialect.era == era)
    }

    /// Reads the answer to `server/discover`: the newest dialect of either era that both sides speak.
    ///
    /// # Errors
    ///
    /// `-32603` saying what is wrong with the answer; the outer error when there is no common revision.
    pub fn read_discover(result: &str) -> Result<Result<Welcome, Unsupported>, ErrorObject> {
        let (offered, welcome) = v2026_07_28::lifecycle::read_discover(result)?;
        let dialect =
            Self::newest_of(Era::Modern, &offered).or_else(|| Self::newest_of(Era::Legacy, &offered));
        Ok(match dialect {
            Some(dialect) => Ok(Welcome { dialect, ..welcome }),
            None => Err(Unsupported { offered }),
        })
    }

    /// Appends an `initialize` that asks for this revision.
    pub fn write_initialize_request(&self, out: &mut Vec<u8>, id: &RequestId, declaration: &Declaration) {
        write_request(out, id, "initialize", |params| {
            params.field("protocolVersion", self.date);
            // What a client declares here is what it lets the server ask of it.
            let able = &declaration.capabilities;
            let mut declared = params.object("capabilities");
            // Before there were pages, whoever could be asked could be asked by a form.
            let elicits = |by: &&Elicitation| self.elicits() && (by.form || self.elicits_by_url());
            declared.optional("elicitation", able.elicitation.as_ref().filter(elicits));
            declared.optional("sampling", able.sampling.as_ref());
            if self.asks_for_tasks() && !able.tasks.is_empty() {
                // The server may choose an older revision, which has nothing but the draft.
                declared.field("tasks", &able.tasks);
            } else if self.has_drafted_tasks() && !able.tasks.as_drafted().is_empty() {
                declared.field("tasks", &able.tasks.as_drafted());
            }
            if able.roots {
                declared.raw("roots", r#"{"listChanged":true}"#);
            }
            declared.end();
            params.field("clientInfo", &declaration.info);
        });
    }

    /// Reads the answer to `initialize`.
    ///
    /// # Errors
    ///
    /// `-32603` saying what is wrong with the answer; the outer error when the server chose a revision
    /// that is not spoken here.
    pub fn read_initialize(result: &str) -> Result<Result<Welcome, Unsupported>, ErrorObject> {
        let (chosen, welcome) = legacy::lifecycle::read_initialize(result)?;
        let offered = vec![chosen];
        Ok(match Self::newest_of(Era::Legacy, &offered) {
            Some(dialect) => Ok(Welcome { dialect, ..welcome }),
            None => Err(Unsupported { offered }),
        })
    }

    /// The notification that the session is open, if this revision has sessions.
    pub fn initialized(&self) -> Option<Vec<u8>> {
        self.notification(Notice::Initialized, |_| ())
    }

    /// The notification that a request is no longer wanted, if this revision has one.
    pub fn cancelled(&self, id: &RequestId, reason: &str) -> Option<Vec<u8>> {
        self.notification(Notice::Cancelled, |params| {
            params.field("requestId", id).field("reason", reason);
        })
    }
}

/// `-32603` for an answer that does not say what it must.
pub(super) fn invalid(what: impl std::fmt::Display) -> ErrorObject {
    ErrorObject::internal(format!("the server's answer is invalid: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{ResultWriter, Revision};
    use crate::model::DURABLE_TASKS;

    fn result_of(write: impl FnOnce(&mut ResultWriter<'_>), dialect: &'static Dialect) -> String {
        let mut out = Vec::new();
        dialect.write_result(&mut out, &RequestId::from(1), r#"{"name":"s","version":"1"}"#, write);
        let text = String::from_utf8(out).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value["result"].to_string()
    }

    #[test]
    fn a_null_among_what_a_server_offers_is_an_absent_one() {
        let text = r#"{"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1"},"capabilities":{
            "tools":{"listChanged":null},"resources":{"subscribe":null,"listChanged":true},"prompts":null,
            "tasks":{"cancel":null,"requests":null},"extensions":null}}"#;
        let read = Dialect::read_initialize(text).unwrap().unwrap();
        let offered = read.capabilities;
        assert!(offered.tools && offered.resources && offered.list_changes);
        assert!(!offered.resource_updates && !offered.prompts && !offered.tasks && !read.cancels_tasks);
    }

    #[test]
    fn what_a_server_says_of_itself_is_read_back_in_both_eras() {
        let offered = ServerCapabilities::default().with_tools(true).with_tasks(true).with_logging(true);
        let modern = Dialect::newest_modern();
        let text = result_of(|out| modern.write_discover(out, &offered, Some("use it")), modern);
        let read = Dialect::read_discover(&text).unwrap().unwrap();
        assert_eq!(read.dialect.revision(), modern.revision());
        assert_eq!(read.capabilities, offered);
        assert_eq!(read.info.unwrap().name, "s");
        assert_eq!(read.instructions.as_deref(), Some("use it"));
        assert!(read.cancels_tasks);

        let legacy = Dialect::newest_legacy();
        let offered = offered.with_task_lists(true);
        let info = Implementation::new("s", "1");
        let text = result_of(|out| legacy.write_initialize(out, &offered, &info, None), legacy);
        let read = Dialect::read_initialize(&text).unwrap().unwrap();
        assert_eq!(read.dialect.revision(), legacy.revision());
        assert_eq!((read.capabilities, read.cancels_tasks), (offered, true));
        assert_eq!(read.info.unwrap().version, "1");
    }

    #[test]
    fn that_keys_make_calls_once_is_said_wherever_there_are_tasks() {
        let keys = crate::model::Meta::new().with(DURABLE_TASKS, &serde_json::json!({"idempotencyKey": {}}));
        let mut offered = ServerCapabilities::default().with_tasks(true);
        offered.extensions = keys;
        let modern = Dialect::newest_modern();
        let text = result_of(|out| modern.write_discover(out, &offered, None), modern);
        assert_eq!(Dialect::read_discover(&text).unwrap().unwrap().capabilities, offered);
        let legacy = Dialect::newest_legacy();
        let info = Implementation::new("s", "1");
        let text = result_of(|out| legacy.write_initialize(out, &offered, &info, None), legacy);
        assert!(text.contains("\"experimental\":{\"dev.longhaul/durable-tasks\""), "{text}");
        assert_eq!(Dialect::read_initialize(&text).unwrap().unwrap().capabilities, offered);
    }

    #[test]
    fn legacy_tasks_count_only_where_calls_may_become_them() {
        let text = r#"{"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1"},
            "capabilities":{"tasks":{"list":{},"requests":{"sampling":{}}}}}"#;
        let read = Dialect::read_initialize(text).unwrap().unwrap();
        assert!(!read.capabilities.tasks && !read.cancels_tasks && !read.capabilities.tools);
    }

    #[test]
    fn r1_01_drafted_tasks_are_read_as_they_are_declared_and_no_other_form_is_an_error() {
        let older = Dialect::of(Revision::V2025_06_18);
        let offered = ServerCapabilities::default().with_tools(true).with_drafted_tasks(true);
        let info = Implementation::new("s", "1");
        let text = result_of(|out| older.write_initialize(out, &offered, &info, None), older);
        assert_eq!(Dialect::read_initialize(&text).unwrap().unwrap().capabilities, offered);
        for other in [r#"{"call":false}"#, "{}", "7", "null", r#"["call"]"#] {
            let text = format!(
                r#"{{"protocolVersion":"2025-06-18","serverInfo":{{"name":"s","version":"1"}},"capabilities":{{"tasks":{{"tools":{other}}}}}}}"#
            );
            assert!(!Dialect::read_initialize(&text).unwrap().unwrap().capabilities.drafted_tasks, "{other}");
        }
    }

    #[test]
    fn a_server_of_other_revisions_only_is_named_so() {
        let text = r#"{"supportedVersions":["2031-01-01"],"capabilities":{}}"#;
        let unsupported = Dialect::read_discover(text).unwrap().unwrap_err();
        assert_eq!(
            unsupported.to_string(),
            "the server speaks 2031-01-01, and this client 2026-07-28, 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05"
        );
        let text =
            r#"{"protocolVersion":"1999-01-01","serverInfo":{"name":"s","version":"1"},"capabilities":{}}"#;
        assert_eq!(Dialect::read_initialize(text).unwrap().unwrap_err().offered, ["1999-01-01"]);
        assert!(Dialect::read_discover("{}").is_err());
        assert!(Dialect::read_initialize("[]").is_err());
    }

    #[test]
    fn a_discovery_without_our_modern_revision_leads_to_a_legacy_one() {
        let text = r#"{"supportedVersions":["2030-01-01","2025-11-25"],"capabilities":{"tools":{}}}"#;
        let read = Dialect::read_discover(text).unwrap().unwrap();
        assert_eq!(read.dialect.era(), Era::Legacy);
    }

    #[test]
    fn errors_tell_the_era_only_where_only_one_era_has_them() {
        let words = |code: i64| Dialect::words_of(&ErrorObject::new(Code(code), "x"));
        assert_eq!(words(-32020), Words::Modern);
        assert_eq!(words(-32021), Words::Modern);
        for any in [-32601, -32602, -32600, -32000, -32022] {
            assert_eq!(words(any), Words::Any, "{any}");
        }
        let refused = Dialect::named_by_request("2031-01-01").unwrap_err();
        assert_eq!(
            Dialect::words_of(&refused),
            Words::Revisions(Revision::ALL.map(|revision| revision.as_str().to_owned()).to_vec())
        );
    }
}
