//! Playing a row: against a server, and against what was heard of one.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::Future;
use std::time::Duration;

use longhaul_proto::dialect::{Dialect, Era, Revision};
use serde_json::{Value, json};

use super::names::Names;
use super::row::{Line, Row, Words};
use super::schema::Book;

/// What is said to who is held to a rule.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Said<'s> {
    /// The words, in full.
    pub text: &'s str,
    /// The message that they are, if they are one.
    pub message: Option<&'s Value>,
    /// The revision that they are in.
    pub revision: &'s str,
    /// Headers of their own; one without a value is left out.
    pub headers: &'s [(String, Option<String>)],
    /// They are a method of HTTP, not a body.
    pub is_verb: bool,
}

/// What is heard of who is held to a rule.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "all that a row can ask for")]
pub enum Heard {
    /// A message.
    Message(Value),
    /// The status of an answer.
    Status(u16),
    /// The value of a header, nothing where there is none.
    Header(String),
}

/// The other end of who is held to a rule.
pub trait Leg {
    /// Says something.
    fn say(&mut self, said: Said<'_>) -> impl Future<Output = Result<(), String>>;

    /// The next message. Where several streams have no order among them, it is that of a stream which begins like
    /// `expected`, or with a notification of `aside`.
    fn hear(&mut self, expected: &Value, aside: &[String]) -> impl Future<Output = Result<Value, String>>;

    /// What has come by the end and was not heard, where streams have no order that would have shown it before.
    fn left(&mut self) -> Vec<Value> {
        Vec::new()
    }

    /// The status of the answer to what was said last.
    ///
    /// # Errors
    ///
    /// Where there is none.
    fn status(&mut self) -> Result<u16, String>;

    /// A header of what was heard last, nothing if it is not there.
    ///
    /// # Errors
    ///
    /// Where there are none.
    fn header(&mut self, name: &str) -> Result<String, String> {
        Err(format!("there is no {name} without HTTP"))
    }

    /// Lets another client speak.
    fn turn(&mut self, who: &str) -> impl Future<Output = Result<(), String>> {
        std::future::ready(Err(format!("there is no {who} here")))
    }

    /// Lets time pass.
    fn wait(&mut self, time: Duration) -> impl Future<Output = ()>;

    /// What the leg itself has a name for.
    fn names(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// The rule was broken.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{row}, {revision}: {what}")]
#[non_exhaustive]
pub struct Breach {
    /// Whose rule.
    pub row: String,
    /// In which revision.
    pub revision: &'static str,
    /// How.
    pub what: String,
}

/// Holds who is at the other end of `leg` to `row`; gives what was heard.
///
/// # Errors
///
/// How it broke the rule, or said what its revision does not.
pub async fn play(
    row: &Row,
    dialect: &'static Dialect,
    leg: &mut impl Leg,
    book: &Book,
) -> Result<Vec<Heard>, Breach> {
    Talk::new(row, dialect, book).run(row, leg, None).await
}

/// Plays what was `heard` again, as it was and then with each breach of the row in its place.
///
/// # Errors
///
/// When what was heard is refused, or a breach is not found out.
pub async fn breaches(
    row: &Row,
    dialect: &'static Dialect,
    heard: &[Heard],
    book: &Book,
) -> Result<usize, Breach> {
    let again = async |instead| {
        let mut recorded = Recorded(heard.iter().cloned().collect());
        Talk::new(row, dialect, book).run(row, &mut recorded, instead).await
    };
    again(None).await?;
    let mut found_out = 0;
    for (index, line) in row.lines.iter().enumerate() {
        let breaches = match line {
            Line::Hear { breaches, .. } => breaches.len(),
            Line::Status { breaches, .. } => breaches.len(),
            Line::Header { breaches, .. } => breaches.len(),
            _ => 0,
        };
        for breach in 0..breaches {
            if again(Some((index, breach))).await.is_ok() {
                let what = format!("its breach {} of line {} is not found out", breach + 1, index + 1);
                return Err(Breach { row: row.name.clone(), revision: dialect.revision().as_str(), what });
            }
            found_out += 1;
        }
    }
    Ok(found_out)
}

/// A conversation under way.
struct Talk<'b> {
    dialect: &'static Dialect,
    book: &'b Book,
    names: Names,
    heard: Vec<Heard>,
    /// What came before it was asked for, and may.
    aside: VecDeque<Value>,
    /// How often tasks were looked at.
    looks: usize,
    /// Whose sessions are open.
    open: HashSet<String>,
    /// The revision and the method of each request, either side's, by its id.
    asked: HashMap<String, (String, String)>,
}

impl<'b> Talk<'b> {
    fn new(row: &Row, dialect: &'static Dialect, book: &'b Book) -> Self {
        let mut names = Names::new(row.apart.clone());
        names.set("revision", dialect.revision().as_str().into());
        names.set("spoken", json!(Dialect::dates().collect::<Vec<_>>()));
        let open = row.clients.first().cloned().into_iter().collect();
        let (heard, aside, asked) = (Vec::new(), VecDeque::new(), HashMap::new());
        Self { dialect, book, names, heard, aside, looks: 0, open, asked }
    }

    /// With `instead`, a breach takes the place of what is heard: which one, and of which line.
    async fn run(
        mut self,
        row: &Row,
        leg: &mut impl Leg,
        instead: Option<(usize, usize)>,
    ) -> Result<Vec<Heard>, Breach> {
        let broken =
            |what| Breach { row: row.name.clone(), revision: self.dialect.revision().as_str(), what };
        let opening = self.opening(row);
        for line in &opening {
            self.line(row, line, leg, None).await.map_err(broken)?;
        }
        for (index, line) in row.lines.iter().enumerate() {
            let breach = instead.and_then(|(at, breach)| (at == index).then_some(breach));
            let at = |what| broken(format!("line {}: {what}", index + 1));
            self.line(row, line, leg, breach).await.map_err(at)?;
            let begins = matches!(line, Line::Turn(who) if self.open.insert(who.clone()));
            for line in opening.iter().filter(|_| begins) {
                self.line(row, line, leg, None).await.map_err(at)?;
            }
        }
        match leg.left().iter().find(|left| !row.is_aside(left)) {
            Some(left) => Err(broken(format!("nobody expects {left}"))),
            None => Ok(self.heard),
        }
    }

    /// What opens a session, where there are sessions.
    fn opening(&self, row: &Row) -> Vec<Line> {
        if !row.opened {
            return Vec::new();
        }
        if row.client.is_some() {
            return self.greeting(row);
        }
        if self.dialect.era() == Era::Modern {
            return Vec::new();
        }
        let revision = self.dialect.revision().as_str();
        let client = json!({"name": "transcript", "version": "1"});
        let hello = json!({"protocolVersion": revision, "capabilities": row.able, "clientInfo": client});
        let say = |words| Line::Say { words, revision: None, headers: Vec::new() };
        let welcome = Words::Answer("open".into(), "result".into(), json!({"protocolVersion": revision}));
        vec![
            say(Words::Request("open".into(), "initialize".into(), hello)),
            Line::Hear { words: welcome, breaches: Vec::new() },
            say(Words::Notice("notifications/initialized".into(), json!({}))),
        ]
    }

    /// How a client is greeted that is held to a rule: it asks what the server is, and is told.
    fn greeting(&self, row: &Row) -> Vec<Line> {
        let hear = |words| Line::Hear { words, breaches: Vec::new() };
        let say = |words| Line::Say { words, revision: None, headers: Vec::new() };
        let (revision, server) =
            (self.dialect.revision().as_str(), json!({"name": "transcript", "version": "1"}));
        let hello = json!("$hello");
        if self.dialect.era() == Era::Modern {
            let told = json!({
                "resultType": "complete", "supportedVersions": [revision], "capabilities": row.able, "ttlMs": 0,
                "cacheScope": "private", "_meta": {"io.modelcontextprotocol/serverInfo": server},
            });
            return vec![
                hear(Words::Request(hello.clone(), "server/discover".into(), json!({}))),
                say(Words::Answer(hello, "result".into(), told)),
            ];
        }
        let told = json!({"protocolVersion": revision, "capabilities": row.able, "serverInfo": server});
        vec![
            hear(Words::Request(hello.clone(), "initialize".into(), json!({"protocolVersion": revision}))),
            say(Words::Answer(hello, "result".into(), told)),
            hear(Words::Notice("notifications/initialized".into(), Value::Null)),
        ]
    }

    async fn line(
        &mut self,
        row: &Row,
        line: &Line,
        leg: &mut impl Leg,
        breach: Option<usize>,
    ) -> Result<(), String> {
        for (name, value) in leg.names() {
            self.names.set(name, value.into());
        }
        match line {
            Line::Say { words, revision, headers } => {
                self.say(row, words, revision.as_deref(), headers, leg).await
            }
            Line::Hear { words, breaches } => {
                let expected = words.message().ok_or("only messages are heard")?;
                let mut heard = self.next(row, &expected, leg).await?;
                if let Some(breach) = breach {
                    let breach = breaches[breach].message().ok_or("nothing was heard")?;
                    // One that says nothing takes nothing's place, and so is not found out.
                    heard = self.names.fill(&breach).unwrap_or(heard);
                }
                self.judge(&expected, &heard)?;
                self.heard.push(Heard::Message(heard));
                Ok(())
            }
            Line::Status { status, breaches } => {
                let heard = leg.status()?;
                let heard = breach.map_or(heard, |breach| breaches[breach]);
                self.heard.push(Heard::Status(heard));
                if heard == *status {
                    Ok(())
                } else {
                    Err(format!("expected the status {status}, found {heard}"))
                }
            }
            Line::Header { name, value, breaches } => {
                let expected = self.names.fill(&json!(value))?;
                let heard = leg.header(name)?;
                let heard = breach.map_or(heard, |breach| breaches[breach].clone());
                self.heard.push(Heard::Header(heard.clone()));
                if expected == heard {
                    Ok(())
                } else {
                    Err(format!("{name}: expected {expected}, found {heard:?}"))
                }
            }
            Line::Turn(who) => leg.turn(who).await,
            Line::Wait(time) => {
                leg.wait(*time).await;
                Ok(())
            }
            Line::Settle { task, status } => self.settle(row, task, status, leg).await,
        }
    }

    /// Asks after a task until it has another status.
    async fn settle(
        &mut self,
        row: &Row,
        task: &str,
        status: &str,
        leg: &mut impl Leg,
    ) -> Result<(), String> {
        for _ in 0..MAX_LOOKS {
            self.looks += 1;
            let id = json!(format!("look {}", self.looks));
            let look = Words::Request(id.clone(), "tasks/get".into(), json!({"taskId": task}));
            self.say(row, &look, None, &[], leg).await?;
            let expected = json!({"jsonrpc": "2.0", "id": id, "result": {"status": "*"}});
            let heard = self.next(row, &expected, leg).await?;
            self.judge(&expected, &heard)?;
            let is_settled = heard["result"]["status"] != status;
            self.heard.push(Heard::Message(heard));
            if is_settled {
                return Ok(());
            }
            leg.wait(BETWEEN_LOOKS).await;
        }
        Err(format!("it is {status} for ever"))
    }

    /// The next message, but for those that may come at any time.
    async fn next(&mut self, row: &Row, expected: &Value, leg: &mut impl Leg) -> Result<Value, String> {
        let wanted = |message: &Value| message["method"] == expected["method"];
        if let Some(at) = self.aside.iter().position(wanted)
            && let Some(message) = self.aside.remove(at)
        {
            return Ok(message);
        }
        loop {
            let heard = leg.hear(expected, &row.aside).await?;
            if !row.is_aside(&heard) || wanted(&heard) {
                return Ok(heard);
            }
            self.aside.push_back(heard);
        }
    }

    async fn say(
        &mut self,
        row: &Row,
        words: &Words,
        revision: Option<&str>,
        headers: &[(String, Option<String>)],
        leg: &mut impl Leg,
    ) -> Result<(), String> {
        let revision = revision.unwrap_or_else(|| self.dialect.revision().as_str()).to_owned();
        let message = words.message().map(|message| self.names.fill(&message)).transpose()?;
        let message = message.map(|message| self.described(row, words, &revision, message));
        if let Some(message) = &message {
            self.note(&revision, message);
            if !matches!(words, Words::Message(_)) {
                self.book.check(
                    &revision,
                    message,
                    self.asked_by(message).map(|(_, method)| method.as_str()),
                )?;
            }
        }
        let fill = |(name, value): &(String, Option<String>)| match value {
            Some(value) => {
                let value = self.names.fill(&json!(value))?;
                Ok((name.clone(), Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))))
            }
            None => Ok((name.clone(), None)),
        };
        let headers: Vec<_> = headers.iter().map(fill).collect::<Result<_, String>>()?;
        let text = match (words, &message) {
            (Words::Raw(text) | Words::Verb(text), _) => text.clone(),
            (_, message) => message.as_ref().map(Value::to_string).unwrap_or_default(),
        };
        leg.say(Said {
            text: &text,
            message: message.as_ref(),
            revision: &revision,
            headers: &headers,
            is_verb: matches!(words, Words::Verb(_)),
        })
        .await
    }

    /// A request that says of itself what its revision wants to be said.
    fn described(&self, row: &Row, words: &Words, revision: &str, mut message: Value) -> Value {
        let known = Revision::from_date(revision).map(Dialect::of);
        let modern = known.is_some_and(|dialect| dialect.era() == Era::Modern);
        if modern && let Words::Request(..) = words {
            let meta = &mut message["params"]["_meta"];
            let has = |meta: &Value, key: &str| meta.get(key).is_some();
            for (key, value) in [
                ("io.modelcontextprotocol/protocolVersion", json!(revision)),
                ("io.modelcontextprotocol/clientInfo", json!({"name": "transcript", "version": "1"})),
                ("io.modelcontextprotocol/clientCapabilities", row.able.clone()),
            ] {
                if !has(meta, key) {
                    meta[key] = value;
                }
            }
        }
        message
    }

    /// Keeps what a request asks, for its answer.
    fn note(&mut self, revision: &str, message: &Value) {
        for message in each(message) {
            if let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) {
                self.asked.insert(id.to_string(), (revision.to_owned(), method.to_owned()));
            }
        }
    }

    fn asked_by(&self, message: &Value) -> Option<&(String, String)> {
        self.asked.get(&message.get("id")?.to_string())
    }

    fn judge(&mut self, expected: &Value, heard: &Value) -> Result<(), String> {
        self.names.check(expected, heard).map_err(|what| format!("{what}\n  received {heard}"))?;
        for message in each(heard) {
            let asked = self.asked_by(message).filter(|_| message.get("method").is_none()).cloned();
            let (revision, method) =
                asked.unwrap_or_else(|| (self.dialect.revision().as_str().to_owned(), String::new()));
            let method = Some(method.as_str()).filter(|method| !method.is_empty());
            self.book.check(&revision, message, method)?;
            self.note(&revision, message);
        }
        Ok(())
    }
}

/// No oftener than a server that bounds who asks lets anybody.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// For ten seconds.
const MAX_LOOKS: usize = 200;

/// The messages of a batch, or the one message that is none.
fn each(message: &Value) -> &[Value] {
    message.as_array().map_or_else(|| std::slice::from_ref(message), Vec::as_slice)
}

/// What was heard of a server once.
struct Recorded(VecDeque<Heard>);

impl Leg for Recorded {
    async fn say(&mut self, _: Said<'_>) -> Result<(), String> {
        Ok(())
    }

    async fn hear(&mut self, _: &Value, _: &[String]) -> Result<Value, String> {
        match self.0.pop_front() {
            Some(Heard::Message(message)) => Ok(message),
            other => Err(format!("no message was heard, but {other:?}")),
        }
    }

    fn status(&mut self) -> Result<u16, String> {
        match self.0.pop_front() {
            Some(Heard::Status(status)) => Ok(status),
            other => Err(format!("no status was heard, but {other:?}")),
        }
    }

    fn header(&mut self, _: &str) -> Result<String, String> {
        match self.0.pop_front() {
            Some(Heard::Header(value)) => Ok(value),
            other => Err(format!("no header was heard, but {other:?}")),
        }
    }

    async fn turn(&mut self, _: &str) -> Result<(), String> {
        Ok(())
    }

    async fn wait(&mut self, _: Duration) {}

    fn names(&self) -> Vec<(&'static str, String)> {
        ["session", "event"].map(|name| (name, name.to_owned())).to_vec()
    }
}
