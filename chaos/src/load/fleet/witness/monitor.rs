//! What a server of Redis tells of all that it does (`MONITOR`): the commands of a script come one after the other, each as it
//! was carried out, and a task says in each of its versions which node has written it.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use longhaul_store::Record;
use serde_json::Value;

use super::{Seen, Standing};

/// Listens to one server, and again when it was killed.
#[derive(Debug)]
pub(in super::super) struct Monitor {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    listens: JoinHandle<Result<Seen>>,
}

/// How long it takes until another try to reach a server that was killed.
const RETRY: Duration = Duration::from_millis(2);

/// Said to the server when enough was heard.
const OVER: &str = "longhaul-chaos-has-heard-enough";

impl Monitor {
    pub(super) fn begin(address: SocketAddr) -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let first = listen(address).context("the server cannot be listened to")?;
        let its = Arc::clone(&is_over);
        let listens = move || {
            let (mut told, mut stream) = (Told::new(), first);
            loop {
                if told.hear(stream)? {
                    return Ok(told.seen);
                }
                // It was killed, and something may be done before it is listened to again.
                told.seen.gaps += 1;
                stream = loop {
                    let again =
                        listen(address).and_then(|stream| Ok((stream, kept(address, told.seen.gaps)?)));
                    match again {
                        Ok((stream, kept)) => {
                            told.pass_over(kept);
                            break stream;
                        }
                        Err(error) if its.load(Ordering::SeqCst) => return Err(error),
                        Err(_) => thread::sleep(RETRY),
                    }
                };
            }
        };
        let listens = thread::Builder::new().name("who listens".to_owned()).spawn(listens)?;
        Ok(Self { address, is_over, listens })
    }

    pub(super) fn end(self) -> Result<Seen> {
        self.is_over.store(true, Ordering::SeqCst);
        let mut stream = TcpStream::connect(self.address)?;
        write!(stream, "ECHO {OVER}\r\n")?;
        self.listens.join().expect("who listens does not panic")
    }
}

/// A connection on which the server tells what it does from now on.
fn listen(address: SocketAddr) -> Result<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"MONITOR\r\n")?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    // One that has just been started reads what it had kept first.
    if line != "+OK\r\n" {
        bail!("it says {line:?}");
    }
    Ok(reader)
}

/// A task as it is kept: its name, its version, when it is gone, its record, and its steps.
type Kept = (String, String, String, String, Vec<String>);

/// What is under way, all at one moment, which shows in what is told: there this is said.
const KEPT: &str = r#"
redis.call('ECHO', ARGV[2])
local tag, kept, known = ARGV[1], {}, {}
for _, set in ipairs({'open', 'leases', 'waiting'}) do
  for _, id in ipairs(redis.call('ZRANGE', tag .. set, 0, -1)) do
    if not known[id] then
      known[id] = true
      local row = redis.call('HMGET', tag .. 'task:' .. id, 'v', 'g', 'r')
      kept[#kept + 1] = {id, row[1], row[2] or '', row[3], redis.call('HGETALL', tag .. 'steps:' .. id)}
    end
  end
end
return kept
"#;

/// What is under way on a server that was killed.
fn kept(address: SocketAddr, gap: usize) -> Result<Vec<Kept>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let how = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(10)));
        let client = redis::Client::open(format!("redis://{address}"))?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&how).await?;
        let script = redis::Script::new(KEPT);
        Ok(script.arg("{longhaul}:").arg(again(gap)).invoke_async(&mut connection).await?)
    })
}

/// What is said of what was kept in this gap.
fn again(gap: usize) -> String {
    format!("longhaul-chaos-hears-again-after-{gap}.")
}

/// What was told.
#[derive(Debug)]
struct Told {
    /// What was kept in the gap that is over, until that is told of: what comes before it is in it.
    next: Option<Vec<Kept>>,
    seen: Seen,
    tasks: HashMap<String, Task>,
    /// What the steps of open tasks came to, by their tasks and keys.
    learnt: HashMap<String, HashMap<String, Value>>,
}

/// A task as it was last written, and by which node.
#[derive(Debug)]
struct Task {
    by: String,
    at: Standing,
    /// Whether all of it was seen, from when it was made.
    is_whole: bool,
}

/// How the keys of tasks and of their steps begin, in the store that a URL without a name is.
const TASK: &str = "{longhaul}:task:";
const STEPS: &str = "{longhaul}:steps:";

impl Told {
    fn new() -> Self {
        let seen = Seen { by_nodes: true, ..Seen::default() };
        Self { next: None, seen, tasks: HashMap::new(), learnt: HashMap::new() }
    }

    /// Forgets what may not be so any more; this is, from when it is told of.
    fn pass_over(&mut self, kept: Vec<Kept>) {
        self.tasks.clear();
        self.learnt.clear();
        self.next = Some(kept);
    }

    /// Goes on with what was kept.
    fn go_on(&mut self, kept: Vec<Kept>) -> Result<()> {
        for (id, version, gone, record, steps) in &kept {
            let (by, at) = standing(version, gone, record)?;
            self.tasks.insert(id.clone(), Task { by, at, is_whole: true });
            let learnt = self.learnt.entry(id.clone()).or_default();
            for pair in steps.chunks_exact(2) {
                let step: Value = serde_json::from_str(&pair[1])?;
                learnt.insert(pair[0].clone(), step[1]["state"].clone());
            }
        }
        Ok(())
    }

    /// Hears all that is told on a connection; whether that was enough.
    fn hear(&mut self, mut stream: BufReader<TcpStream>) -> Result<bool> {
        let mut line = Vec::new();
        loop {
            line.clear();
            if stream.read_until(b'\n', &mut line).is_err() || !line.ends_with(b"\n") {
                return Ok(false);
            }
            let text = String::from_utf8_lossy(&line);
            if text.contains(OVER) && text.to_ascii_lowercase().contains("\"echo\"") {
                return Ok(true);
            }
            if let Some(kept) = self.next.take() {
                // It is asked for as well before the server knows the script.
                match text.contains(r#" lua] "ECHO""#) && text.contains(&again(self.seen.gaps)) {
                    true => self.go_on(kept)?,
                    false => self.next = Some(kept),
                }
                continue;
            }
            if let Some((_, command)) = text.split_once(" lua] ") {
                let words = words(command).with_context(|| format!("it is told {text:?}"))?;
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                self.see(&words).with_context(|| format!("it is told {text:?}"))?;
            }
        }
    }

    /// A script does this.
    fn see(&mut self, words: &[&str]) -> Result<()> {
        match words {
            ["HSET", key, fields @ ..] if key.starts_with(TASK) => self.write(&key[TASK.len()..], fields),
            ["HSET", key, steps @ ..] if key.starts_with(STEPS) => self.record(&key[STEPS.len()..], steps),
            ["HDEL", key, steps @ ..] if key.starts_with(STEPS) => {
                let learnt = self.learnt.get_mut(&key[STEPS.len()..]);
                learnt.into_iter().for_each(|learnt| learnt.retain(|step, _| !steps.contains(&&**step)));
                Ok(())
            }
            ["DEL" | "UNLINK", key] => {
                if let Some(task) = key.strip_prefix(TASK) {
                    self.tasks.remove(task);
                } else if let Some(task) = key.strip_prefix(STEPS) {
                    self.learnt.remove(task);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn write(&mut self, task: &str, fields: &[&str]) -> Result<()> {
        let field = |name: &str| fields.chunks_exact(2).find(|pair| pair[0] == name).map(|pair| pair[1]);
        // A number alone, or a lease that is renewed.
        let (Some(version), Some(record)) = (field("v"), field("r")) else { return Ok(()) };
        let (by, at) = standing(version, field("g").unwrap_or_default(), record)?;
        // What it is called with is written once.
        let is_new = field("a").is_some();
        let before = self.tasks.remove(task);
        let is_whole = is_new || before.as_ref().is_some_and(|before| before.is_whole);
        let before = before.map(|task| task.at);
        if is_new || before.as_ref().is_some_and(|before| *before != at) {
            self.seen.changed(task, &by, before.as_ref(), &at);
        }
        self.tasks.insert(task.to_owned(), Task { by, at, is_whole });
        Ok(())
    }

    /// Steps are written behind their task, in the same script.
    fn record(&mut self, task: &str, steps: &[&str]) -> Result<()> {
        // Else it is not known how far they were.
        let Some(Task { by, at, .. }) = self.tasks.get(task).filter(|task| task.is_whole) else {
            return Ok(());
        };
        let learnt = self.learnt.entry(task.to_owned()).or_default();
        for pair in steps.chunks_exact(2) {
            let [key, step] = pair else { continue };
            let step: Value = serde_json::from_str(step)?;
            let state = &step[1]["state"];
            let before = learnt.insert((*key).to_owned(), state.clone());
            let was = before.as_ref().map_or("Begun", kind);
            match kind(state) {
                _ if was == "Learnt" && before.as_ref() != Some(state) => {
                    self.seen.recorded_otherwise(task, by, key);
                }
                "Learnt" if matches!(was, "Begun" | "Due" | "Owed") => {
                    self.seen.recorded(task, by, key, at.holder.as_deref());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Who has written a task, and where it stands: by its version, when it is gone, and its record.
fn standing(version: &str, gone: &str, record: &str) -> Result<(String, Standing)> {
    let (by, _) = version.rsplit_once('.').context("a version is of no node")?;
    let record: Record = serde_json::from_str(record)?;
    let is_erased = !gone.is_empty();
    let end = record
        .outcome()
        .map(|how| format!("{how:?} {:?} {:?}", record.terminal_at, record.status_changed_at));
    let at = Standing {
        epoch: record.epoch.get(),
        holder: record.lease().filter(|_| !is_erased).map(|lease| lease.node.to_string()),
        end: end.filter(|_| !is_erased),
        is_erased,
    };
    Ok((by.to_owned(), at))
}

/// How far a step is, in a word.
fn kind(state: &Value) -> &str {
    let only = state.as_object().and_then(|members| members.keys().next());
    state.as_str().or_else(|| only.map(String::as_str)).unwrap_or_default()
}

/// The words of a command as it is told: each in quotes, with what is no plain text escaped.
fn words(told: &str) -> Option<Vec<String>> {
    let (mut words, mut rest) = (Vec::new(), told.trim_end().bytes());
    while let Some(first) = rest.next() {
        if first != b'"' {
            continue;
        }
        let mut word = Vec::new();
        loop {
            match rest.next()? {
                b'"' => break,
                b'\\' => word.push(match rest.next()? {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'a' => 7,
                    b'b' => 8,
                    b'x' => {
                        let digits = [rest.next()?, rest.next()?];
                        u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                    }
                    other => other,
                }),
                other => word.push(other),
            }
        }
        words.push(String::from_utf8_lossy(&word).into_owned());
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_read_as_it_was_said() {
        let told =
            r#""HSET" "{longhaul}:task:t" "r" "{\"a\":\"gr\xc3\xb6\xc3\x9fer \\\"x\\\"\"}" "v" "n.1\n""#;
        let said = ["HSET", "{longhaul}:task:t", "r", r#"{"a":"größer \"x\""}"#, "v", "n.1\n"];
        assert_eq!(words(&format!("{told}\r\n")).unwrap(), said);
        assert_eq!(words(r#""cut off"#), None);
    }

    /// A record as it is kept.
    fn record(epoch: u64, holder: &str) -> String {
        use longhaul_store::{Json, Owner, TaskId, Time};
        let (id, at) = (TaskId::new("t").unwrap(), Time::from_unix_ms(0));
        let record = Record::new(id, Owner::Anonymous, "tool", Json::null(), Json::null(), at);
        let mut record = serde_json::to_value(record).unwrap();
        record["epoch"] = epoch.into();
        record["phase"] = serde_json::json!({"Running": {"lease": {"node": holder, "until": 1}}});
        record.to_string()
    }

    #[test]
    fn a_step_that_another_node_records_is_seen() {
        let mut told = Told::new();
        let (task, steps) = (format!("{TASK}t"), format!("{STEPS}t"));
        let mut say = |words: &[&str]| {
            told.see(words).unwrap();
            told.seen.broken.len()
        };
        assert_eq!(say(&["HSET", &task, "v", "a.1", "g", "", "r", &record(1, "a"), "a", "{}"]), 0);
        let step = |state: &str| format!(r#"[1,{{"key":"k","state":{state}}}]"#);
        let learnt = |value: u8| step(&format!(r#"{{"Learnt":{{"value":{value},"is_error":false}}}}"#));
        assert_eq!(say(&["HSET", &steps, "k", &step(r#""Begun""#), "j", &learnt(1)]), 0);
        assert_eq!(
            say(&["HSET", &task, "v", "b.1", "g", "", "r", &record(1, "a")]),
            0,
            "it says nothing new"
        );
        assert_eq!(say(&["HSET", &steps, "k", &learnt(1)]), 1, "b records what a alone knows");
        assert_eq!(say(&["HSET", &steps, "j", &learnt(2)]), 2, "it was recorded otherwise");
        assert_eq!(say(&["HSET", &task, "v", "b.2", "g", "", "r", &record(1, "b")]), 3, "no other epoch");
        assert_eq!((told.seen.claims, told.seen.steps), (2, 2));
    }

    #[test]
    fn it_goes_on_after_a_gap_with_what_was_kept_then() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let quoted = |word: &str| format!("\"{}\"", word.replace('\\', r"\\").replace('"', "\\\""));
        let line = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            format!("+1.5 [0 lua] {}\r\n", words.join(" "))
        };
        let task = format!("{TASK}t");
        let write = |version: &str, record: &str| line(&["HSET", &task, "v", version, "g", "", "r", record]);
        let mut told = Told::new();
        told.seen.gaps = 3;
        let step = r#"[1,{"state":"Begun"}]"#;
        let steps = vec!["k".to_owned(), step.to_owned()];
        told.pass_over(vec![("t".to_owned(), "b.9".to_owned(), String::new(), record(2, "b"), steps)]);
        let asked = format!("+1.5 [0 127.0.0.1:1] \"EVALSHA\" {}\r\n", quoted(&again(3)));
        let said = [
            asked,
            write("a.1", &record(1, "a")),
            line(&["ECHO", &again(3)]),
            line(&["HSET", &format!("{STEPS}t"), "k", r#"[1,{"state":{"Learnt":{"value":1}}}]"#]),
            write("c.1", &record(2, "c")),
            format!("+1.5 [0 127.0.0.1:1] \"ECHO\" \"{OVER}\"\r\n"),
        ];
        server.accept().unwrap().0.write_all(said.concat().as_bytes()).unwrap();
        assert!(told.hear(BufReader::new(stream)).unwrap());
        assert_eq!((told.seen.changes, told.seen.steps), (1, 1));
        let broken = told.seen.broken.join(", ");
        assert!(broken.contains("c has got it from Some(\"b\") without another epoch"), "{broken}");
    }

    #[test]
    fn what_was_written_before_it_is_listened_is_nobodys_fault() {
        let mut told = Told::new();
        told.see(&["HSET", &format!("{TASK}t"), "v", "b.1", "g", "", "r", &record(1, "a")]).unwrap();
        told.see(&["HSET", &format!("{STEPS}t"), "k", r#"[1,{"state":{"Learnt":{"value":1}}}]"#]).unwrap();
        assert_eq!((told.seen.changes, told.seen.steps, told.seen.broken.len()), (0, 0, 0));
        told.see(&["HSET", &format!("{TASK}t"), "v", "b.2", "g", "", "r", &record(2, "c")]).unwrap();
        assert_eq!((told.seen.claims, told.seen.broken.len()), (1, 1), "b takes it for c");
    }
}
