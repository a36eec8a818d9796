//! A row: one rule, where it holds, and the conversation that shows it. `conformance/transcripts/README.md` says how it
//! is written.

use std::time::Duration;

use longhaul_proto::dialect::{Dialect, Era, Revision};
use serde_json::{Value, json};

/// One rule.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Row {
    /// Where it was found.
    pub name: String,
    /// The revisions it holds in, as written.
    within: Vec<String>,
    /// What it is shown over.
    pub over: Vec<Over>,
    /// What the client declares it can do.
    pub able: Value,
    /// Whether a session is opened before the first line, where there are sessions.
    pub opened: bool,
    /// Which server is held to it.
    pub server: String,
    /// How many requests it lets run at once.
    pub room: usize,
    /// Notifications whose order among the other messages is not part of the rule.
    pub aside: Vec<String>,
    /// The conversation.
    pub lines: Vec<Line>,
}

/// What a conversation goes over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a runner must know them all")]
pub enum Over {
    /// Two connection machines, stepped.
    Core,
    /// A pair of pipes within the process.
    Pair,
    /// The standard streams of a process.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE, in the revision that had it.
    Sse,
}

impl Over {
    fn read(word: &str) -> Option<Self> {
        Some(match word {
            "core" => Self::Core,
            "pair" => Self::Pair,
            "stdio" => Self::Stdio,
            "http" => Self::Http,
            "sse" => Self::Sse,
            _ => return None,
        })
    }
}

/// One line of a conversation.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a runner must know them all")]
pub enum Line {
    /// The client says this, over HTTP with these headers; one without a value is left out.
    Say {
        /// What.
        words: Words,
        /// In which revision, if not in that of the row.
        revision: Option<String>,
        /// Headers of its own.
        headers: Vec<(String, Option<String>)>,
    },
    /// The server says this next.
    Hear {
        /// What.
        words: Words,
        /// What would break the rule in its place.
        breaches: Vec<Words>,
    },
    /// The answer over HTTP has this status.
    Status {
        /// Which.
        status: u16,
        /// What would break the rule in its place.
        breaches: Vec<u16>,
    },
    /// So much time passes.
    Wait(Duration),
    /// A task is asked after until it has another status.
    Settle {
        /// Its id.
        task: String,
        /// The status that it leaves.
        status: String,
    },
}

/// What is said.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a runner must know them all")]
pub enum Words {
    /// A request: its id, its method and its parameters.
    Request(Value, String, Value),
    /// A notification: its method and its parameters.
    Notice(String, Value),
    /// An answer: the request's id, `result` or `error`, and what that is.
    Answer(Value, String, Value),
    /// A message as it is written.
    Message(Value),
    /// Bytes that may be no message at all.
    Raw(String),
    /// A method of HTTP without a body; `HANGUP` closes the connection of what was asked last.
    Verb(String),
}

const VERBS: [&str; 3] = ["GET", "DELETE", "HANGUP"];

impl Row {
    /// Reads a row.
    ///
    /// # Errors
    ///
    /// Names the line that says nothing, or what the row lacks.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut row = Self {
            name: name.to_owned(),
            within: vec!["all".to_owned()],
            over: vec![Over::Core, Over::Pair, Over::Stdio, Over::Http, Over::Sse],
            able: json!({}),
            opened: true,
            server: "rules".to_owned(),
            room: 256,
            aside: Vec::new(),
            lines: Vec::new(),
        };
        let mut headers = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            let wrong = |what: &str| format!("{name}:{}: {what}: {line}", number + 1);
            let Some((sign, rest)) = line.split_at_checked(1) else { continue };
            let rest = rest.trim();
            match sign {
                "#" => {}
                ">" => {
                    let (revision, rest) = match rest.strip_prefix('@').and_then(|rest| rest.split_once(' '))
                    {
                        Some((revision, rest)) => (Some(revision.to_owned()), rest),
                        None => (None, rest),
                    };
                    let words = Words::read(rest).map_err(|what| wrong(&what))?;
                    row.lines.push(Line::Say { words, revision, headers: std::mem::take(&mut headers) });
                }
                "<" => {
                    let words = Words::read(rest).map_err(|what| wrong(&what))?;
                    row.lines.push(Line::Hear { words, breaches: Vec::new() });
                }
                "=" => {
                    let status = rest.parse().map_err(|_| wrong("not a status"))?;
                    row.lines.push(Line::Status { status, breaches: Vec::new() });
                }
                "!" => match row.lines.last_mut() {
                    Some(Line::Hear { breaches, .. }) => {
                        breaches.push(Words::read(rest).map_err(|what| wrong(&what))?);
                    }
                    Some(Line::Status { breaches, .. }) => {
                        breaches.push(rest.parse().map_err(|_| wrong("not a status"))?);
                    }
                    _ => return Err(wrong("only what is heard can be a breach")),
                },
                "+" => {
                    let (header, value) = rest.split_once(':').ok_or_else(|| wrong("not a header"))?;
                    let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
                    headers.push((header.to_ascii_lowercase(), value));
                }
                "?" => {
                    let (task, status) =
                        rest.split_once(' ').ok_or_else(|| wrong("a task and its status"))?;
                    row.lines.push(Line::Settle { task: task.to_owned(), status: status.trim().to_owned() });
                }
                "." => {
                    let millis = rest.parse().map_err(|_| wrong("not a number of milliseconds"))?;
                    row.lines.push(Line::Wait(Duration::from_millis(millis)));
                }
                _ => row.set(line).map_err(|what| wrong(&what))?,
            }
        }
        if row.breaches() == 0 {
            return Err(format!("{name}: nothing is said that would break the rule"));
        }
        Ok(row)
    }

    fn set(&mut self, line: &str) -> Result<(), String> {
        let (key, value) = line.split_once(':').ok_or("neither a line of a conversation nor `key: value`")?;
        let mut words = value.split_whitespace();
        match key {
            "in" => self.within = words.map(str::to_owned).collect(),
            "over" => self.over = words.map(Over::read).collect::<Option<_>>().ok_or("over what?")?,
            "able" => self.able = serde_json::from_str(value).map_err(|error| error.to_string())?,
            "aside" => self.aside = words.map(str::to_owned).collect(),
            "opened" => self.opened = words.next() != Some("no"),
            "server" => self.server = words.collect(),
            "room" => self.room = value.trim().parse().map_err(|_| "not a number".to_owned())?,
            _ => return Err("no such key".to_owned()),
        }
        Ok(())
    }

    /// How many ways to break the rule it shows.
    pub fn breaches(&self) -> usize {
        let of = |line: &Line| match line {
            Line::Hear { breaches, .. } => breaches.len(),
            Line::Status { breaches, .. } => breaches.len(),
            _ => 0,
        };
        self.lines.iter().map(of).sum()
    }

    /// Whether a message is a notification whose order is not part of the rule.
    pub fn is_aside(&self, message: &Value) -> bool {
        message["method"].as_str().is_some_and(|method| self.aside.iter().any(|aside| aside == method))
    }

    /// Whether it can be shown over `over` in `dialect`.
    pub fn goes(&self, over: Over, dialect: &Dialect) -> bool {
        let spoken = over != Over::Sse || dialect.revision() == Revision::V2024_11_05;
        spoken && self.over.contains(&over) && self.holds_in(dialect)
    }

    /// Whether the rule holds in `dialect`: named by its date, by its era, or by a date with a `+` that is not later.
    fn holds_in(&self, dialect: &Dialect) -> bool {
        let date = dialect.revision().as_str();
        self.within.iter().any(|word| match word.as_str() {
            "all" => true,
            "legacy" => dialect.era() == Era::Legacy,
            "modern" => dialect.era() == Era::Modern,
            word => word.strip_suffix('+').map_or(word == date, |first| first <= date),
        })
    }
}

impl Words {
    fn read(text: &str) -> Result<Self, String> {
        let value = |text: &str| match text {
            "" => Ok(Value::Null),
            text => serde_json::from_str::<Value>(text).map_err(|error| error.to_string()),
        };
        let split = |text: &str| match text.split_once(' ') {
            Some((first, rest)) => (first.to_owned(), rest.trim().to_owned()),
            None => (text.to_owned(), String::new()),
        };
        if let Some(raw) = text.strip_prefix('~') {
            return Ok(Self::Raw(raw.trim().to_owned()));
        }
        if text.starts_with(['{', '[']) {
            return Ok(Self::Message(value(text)?));
        }
        let (first, rest) = split(text);
        if VERBS.contains(&first.as_str()) {
            return Ok(Self::Verb(first));
        }
        let id = if first.starts_with('$') { Ok(json!(first)) } else { serde_json::from_str(&first) };
        let Ok(id) = id else { return Ok(Self::Notice(first, value(&rest)?)) };
        let (second, rest) = split(&rest);
        match second.as_str() {
            "" => Err("an id, and nothing with it".to_owned()),
            "result" | "error" if rest.is_empty() => Ok(Self::Answer(id, second, json!({}))),
            "result" | "error" => Ok(Self::Answer(id, second, value(&rest)?)),
            _ => Ok(Self::Request(id, second, value(&rest)?)),
        }
    }

    /// As a message, in no revision in particular; `None` for what is none.
    pub fn message(&self) -> Option<Value> {
        Some(match self {
            Self::Request(id, method, Value::Null) => json!({"jsonrpc": "2.0", "id": id, "method": method}),
            Self::Request(id, method, params) => {
                json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
            }
            Self::Notice(method, Value::Null) => json!({"jsonrpc": "2.0", "method": method}),
            Self::Notice(method, params) => json!({"jsonrpc": "2.0", "method": method, "params": params}),
            Self::Answer(Value::Null, outcome, value) => json!({"jsonrpc": "2.0", outcome: value}),
            Self::Answer(id, outcome, value) => json!({"jsonrpc": "2.0", "id": id, outcome: value}),
            Self::Message(message) => message.clone(),
            Self::Raw(_) | Self::Verb(_) => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_line_by_line() {
        let text = "# A rule.\nin: 2025-06-18+\nover: core http\nable: {\"roots\": {}}\n\n\
            + Mcp-Method: x\n> 1 tools/list\n= 400\n! 200\n< 1 error {\"code\": -32020}\n! 1 result {}\n. 20\n? $t working\n\
            > @2025-11-25 \"a\" ping\n> notifications/initialized\n> ~ {\n> DELETE\n";
        let row = Row::parse("r", text).unwrap();
        assert_eq!((row.over.len(), row.breaches(), row.lines.len()), (2, 2, 9));
        let dates = ["2025-03-26", "2025-06-18", "2026-07-28"];
        let held = dates.map(|date| row.holds_in(Dialect::of(Revision::from_date(date).unwrap())));
        assert_eq!(held, [false, true, true]);
        assert!(matches!(&row.lines[0], Line::Say { headers, .. } if headers.len() == 1));
        let Line::Say { words, revision: Some(_), headers } = &row.lines[5] else { panic!("{row:?}") };
        assert!(headers.is_empty());
        assert!(
            matches!(&row.lines[4], Line::Settle { task, status } if task == "$t" && status == "working")
        );
        assert_eq!(words.message().unwrap()["id"], "a");
    }

    #[test]
    fn what_is_no_row_is_refused() {
        let refused = |text: &str| Row::parse("r", text).unwrap_err();
        assert!(refused("> 1 ping\n< 1 result").contains("nothing is said that would break"));
        assert!(refused("! 1 result").contains("r:1: only what is heard"));
        assert!(refused("hello").contains("r:1: neither"));
        assert!(refused("> 1").contains("an id, and nothing"));
        assert!(refused("> {").contains("r:1"));
        assert!(refused("? $task").contains("a task and its status"));
        assert!(refused("over: mail").contains("over what?"));
    }
}
