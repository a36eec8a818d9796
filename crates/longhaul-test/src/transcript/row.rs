//! A row: one rule, where it holds, and the conversation that shows it. `conformance/transcripts/README.md` says how it
//! is written.

use std::time::Duration;

use longhaul_proto::dialect::{Dialect, Era, Revision};
use serde_json::{Value, json};

use super::names::Apart;

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
    /// What the one that is not held to it declares it can do.
    pub able: Value,
    /// Whether a session is opened before the first line, where there are sessions; with a client that is held to it, whether
    /// its server is greeted.
    pub opened: bool,
    /// Which server is held to it.
    pub server: String,
    /// What a client does that is held to it, in place of a server.
    pub client: Option<String>,
    /// Who the clients are, where there are several; the first begins.
    pub clients: Vec<String>,
    /// The names that are held apart.
    pub apart: Apart,
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

/// One line of a conversation. Who is held to the rule is heard, and the other says something: the client, mostly.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a runner must know them all")]
pub enum Line {
    /// This is said, over HTTP with these headers; one without a value is left out.
    Say {
        /// What.
        words: Words,
        /// In which revision, if not in that of the row.
        revision: Option<String>,
        /// Headers of its own.
        headers: Vec<(String, Option<String>)>,
    },
    /// This is heard next.
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
    /// What was heard last has this header, over HTTP.
    Header {
        /// Which.
        name: String,
        /// Its value, with names in it.
        value: String,
        /// What would break the rule in its place; nothing is no header.
        breaches: Vec<String>,
    },
    /// Another client speaks from here on.
    Turn(String),
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
            client: None,
            clients: Vec::new(),
            apart: Apart::default(),
            room: 256,
            aside: Vec::new(),
            lines: Vec::new(),
        };
        let mut headers = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            row.read(line, &mut headers).map_err(|what| format!("{name}:{}: {what}: {line}", number + 1))?;
        }
        if row.breaches() == 0 {
            return Err(format!("{name}: nothing is said that would break the rule"));
        }
        Ok(row)
    }

    /// Reads one line. Headers stand before what they belong to.
    fn read(&mut self, line: &str, headers: &mut Vec<(String, Option<String>)>) -> Result<(), String> {
        let Some((sign, rest)) = line.split_at_checked(1) else { return Ok(()) };
        let is_said = sign == if self.client.is_some() { "<" } else { ">" };
        let (right_behind, rest) = match rest.split_once(' ') {
            Some((right_behind, rest)) => (right_behind, rest.trim()),
            None => (rest, ""),
        };
        match sign {
            "#" => {}
            "<" | ">" if is_said => {
                let (revision, rest) = match rest.strip_prefix('@').and_then(|rest| rest.split_once(' ')) {
                    Some((revision, rest)) => (Some(revision.to_owned()), rest),
                    None => (None, rest),
                };
                let words = Words::read(rest)?;
                self.lines.push(Line::Say { words, revision, headers: std::mem::take(headers) });
            }
            "<" | ">" => self.lines.push(Line::Hear { words: Words::read(rest)?, breaches: Vec::new() }),
            "=" => {
                let status = rest.parse().map_err(|_| "not a status")?;
                self.lines.push(Line::Status { status, breaches: Vec::new() });
            }
            // What of the requirements is broken stands right behind the sign, for whoever counts them.
            "!" if right_behind.is_empty() || right_behind.starts_with(|c: char| c.is_ascii_uppercase()) => {
                self.read_breach(rest)?;
            }
            "!" => return Err("no requirement".to_owned()),
            "+" => {
                let (header, value) = rest.split_once(':').ok_or("not a header")?;
                let (name, value) = (header.to_ascii_lowercase(), value.trim().to_owned());
                if self.client.is_some() {
                    self.lines.push(Line::Header { name, value, breaches: Vec::new() });
                } else {
                    headers.push((name, Some(value).filter(|value| !value.is_empty())));
                }
            }
            "@" if self.clients.iter().any(|client| client == rest) => {
                self.lines.push(Line::Turn(rest.to_owned()));
            }
            "@" => return Err("none of the clients".to_owned()),
            "?" => {
                let (task, status) = rest.split_once(' ').ok_or("a task and its status")?;
                self.lines.push(Line::Settle { task: task.to_owned(), status: status.trim().to_owned() });
            }
            "." => {
                let millis = rest.parse().map_err(|_| "not a number of milliseconds")?;
                self.lines.push(Line::Wait(Duration::from_millis(millis)));
            }
            _ => self.set(line)?,
        }
        Ok(())
    }

    /// Reads what would break the rule in place of the last line.
    fn read_breach(&mut self, text: &str) -> Result<(), String> {
        match self.lines.last_mut() {
            Some(Line::Hear { breaches, .. }) => breaches.push(Words::read(text)?),
            Some(Line::Status { breaches, .. }) => breaches.push(text.parse().map_err(|_| "not a status")?),
            Some(Line::Header { breaches, .. }) => breaches.push(text.to_owned()),
            _ => return Err("only what is heard can be a breach".to_owned()),
        }
        Ok(())
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
            "client" => {
                self.client = Some(value.trim().to_owned());
                self.over = vec![Over::Pair, Over::Http];
            }
            "clients" => self.clients = words.map(str::to_owned).collect(),
            "apart" => self.apart.different = words.map(str::to_owned).collect(),
            "secret" => self.apart.secret = words.map(str::to_owned).collect(),
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
            Line::Header { breaches, .. } => breaches.len(),
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
        assert!(refused("< 1 result\n!1 result").contains("r:2: no requirement"));
        assert!(refused("clients: ann bob\n@ eve").contains("r:2: none of the clients"));
    }

    #[test]
    fn a_breach_may_say_what_it_breaks() {
        let row = Row::parse("r", "> 1 ping\n< 1 result\n!R2-01,R3-C1 1 error\n! ~").unwrap();
        let Line::Hear { breaches, .. } = &row.lines[1] else { panic!("{row:?}") };
        assert!(matches!(&breaches[..], [Words::Answer(..), Words::Raw(_)]), "{breaches:?}");
    }

    #[test]
    fn a_client_is_heard_where_it_is_held_to_the_rule() {
        let text = "client: call\nclients: ann bob\n> $c ping\n! ~\n+ Mcp-Name: $c\n!R3-48 x\n!R3-48\n< $c result\n@ bob\n";
        let row = Row::parse("r", text).unwrap();
        assert!(matches!(&row.lines[0], Line::Hear { breaches, .. } if breaches.len() == 1));
        assert!(matches!(&row.lines[1], Line::Header { breaches, .. } if breaches[..] == ["x", ""]));
        assert!(matches!(&row.lines[2], Line::Say { .. }));
        assert!(matches!(&row.lines[3], Line::Turn(who) if who == "bob"));
        assert_eq!(row.over, [Over::Pair, Over::Http]);
    }
}
