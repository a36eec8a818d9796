//! The other process of these tests: a node that does as it is told over its standard input.

use std::{
    env,
    fmt::Display,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use longhaul_store::{
    Answered, Batch, CallKey, Created, Digest, Epoch, EventStore, Fingerprint, Json, NewTask, Once,
    OrphanRule, Outcome, Owner, Park, Question, Reply, Rerun, Retention, Scope, Sqlite, SqliteOptions, Start,
    Step, StepState, Stream, TaskId, TaskStore, Time,
};
use rustix::process::{Pid, Signal, kill_process};

/// A process that has a store open.
pub(crate) struct Node {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Node {
    /// Starts this very test program as a node on the store in `path`.
    pub(crate) fn start(path: &Path) -> Self {
        Self::start_with(path, &[])
    }

    pub(crate) fn start_with(path: &Path, environment: &[(&str, &str)]) -> Self {
        Self::run(Command::new(env::current_exe().expect("this program has a name")), path, environment)
    }

    /// The same, with what it writes, flushes and says noted in `trace`.
    #[cfg(target_os = "linux")]
    pub(crate) fn traced(path: &Path, trace: &Path) -> Self {
        let mut command = Command::new("strace");
        let calls = "trace=write,pwrite64,fsync,fdatasync";
        command.args(["-f", "-y", "-s", "64", "-e", calls, "-o"]).arg(trace);
        command.arg(env::current_exe().expect("this program has a name"));
        Self::run(command, path, &[])
    }

    fn run(mut command: Command, path: &Path, environment: &[(&str, &str)]) -> Self {
        let mut child = command
            .args(["--exact", "--ignored", "--nocapture", "node::a_node_does_as_it_is_told"])
            .env(PATH, path)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the node starts");
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("its output is ours"));
        Self { child, orders, answers }
    }

    /// Gives an order without waiting for the answer.
    pub(crate) fn order(&mut self, order: impl Display) {
        let orders = self.orders.as_mut().expect("it still listens");
        writeln!(orders, "{order}").expect("it still listens");
    }

    /// The next answer; `None` if the process has ended.
    pub(crate) fn answer(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.answers.read_line(&mut line).expect("its output can be read") > 0 {
            // The test harness of the child talks too.
            if let Some(at) = line.find(MARK) {
                return Some(line[at + MARK.len()..].trim_end().to_owned());
            }
            line.clear();
        }
        None
    }

    pub(crate) fn ask(&mut self, order: impl Display) -> String {
        let order = order.to_string();
        self.order(&order);
        self.answer().unwrap_or_else(|| panic!("the node ended over {order:?}"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("it has a process id");
        kill_process(pid, signal).expect("it is ours to signal");
    }

    /// Ends it as a power cut would, as far as the process can tell.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.wait().expect("it ends");
    }

    /// Lets it close its store and end.
    pub(crate) fn leave(mut self) -> ExitStatus {
        drop(self.orders.take());
        while self.answer().is_some() {}
        self.child.wait().expect("it ends")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Already ended in most tests; one that failed must not leave its nodes behind.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
#[ignore = "is the other process of these tests, started by them"]
fn a_node_does_as_it_is_told() {
    let Some(path) = env::var_os(PATH) else { panic!("started by hand: {PATH} names no store") };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let store = Arc::new(SqliteOptions::new().with_patience(Duration::from_secs(20)).open(&path).unwrap());
    say(format!("open {}", store.node()));
    for order in std::io::stdin().lines() {
        let order = order.unwrap();
        let words: Vec<&str> = order.split(' ').collect();
        let answer = runtime.block_on(obey(&store, &words));
        say(answer);
    }
}

fn say(answer: impl Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{MARK}{answer}").unwrap();
    out.flush().unwrap();
}

/// Puts a task aside for an hour.
fn in_an_hour(now: Time) -> Batch {
    Batch::new().with_park(Park::new(vec![], Some(now.after(Duration::from_secs(3600)))))
}

/// Asks, and puts the task aside until that is answered.
fn question() -> Batch {
    let question = Question::new("q", Json::parse("\"how?\"").unwrap());
    let step = Step::new("ask", Fingerprint::new([1; 16]), StepState::Asked(question));
    Batch::new().with_step(step).with_park(Park::new(vec!["q".into()], None))
}

async fn obey(store: &Arc<Sqlite>, words: &[&str]) -> String {
    let epoch = |text: &str| Epoch::new(text.parse().unwrap());
    match words {
        ["create", id] => show(store.create(task(id)).await.map(|created| created.into_record().epoch)),
        [kind @ ("create-brief" | "create-queued" | "create-awaited"), id] => {
            let mut new = task(id);
            match *kind {
                "create-brief" => new.retention = Retention::FromCreation(Duration::ZERO),
                "create-queued" => new.start = Start::Queued { not_before: Time::from_unix_ms(0) },
                _ => new.orphan = Some(OrphanRule::default()),
            }
            show(store.create(new).await.map(|created| created.into_record().epoch))
        }
        ["come-back", id] => show(store.came_back(Scope::Operator, &name(id)).await),
        ["create-once", id] => {
            let mut new = task(id);
            new.once = Some(Once::new(CallKey::new("key").unwrap(), Digest::new([1; 32])));
            show(store.create(new).await.map(|created| match created {
                Created::Again(record) => format!("again {}", record.id),
                other => format!("new {}", other.into_record().id),
            }))
        }
        ["claim", limit] => show(store.claim(limit.parse().unwrap(), None).await.map(|claims| {
            let mut ids: Vec<_> = claims.iter().map(|claim| claim.id.to_string()).collect();
            ids.sort();
            ids.join(",")
        })),
        ["renew", id, at] => show(store.renew(&[(name(id), epoch(at))]).await.map(|fenced| fenced.len())),
        ["release", id, at] => show(store.release(&name(id), epoch(at)).await.map(|record| record.epoch)),
        ["write", id, at, message] => {
            let report = Batch::new().with_status_message(*message);
            show(store.write(&name(id), epoch(at), report).await.map(|_| "written"))
        }
        ["ask", id, at] => show(store.write(&name(id), epoch(at), question()).await.map(|_| "asked")),
        ["put-aside", id, at] => {
            let batch = in_an_hour(store.now());
            show(store.write(&name(id), epoch(at), batch).await.map(|_| "put aside"))
        }
        ["make-due", id] => show(store.make_due(&name(id)).await),
        ["answer", id] => {
            let reply = Reply::new("q", Json::parse("\"so\"").unwrap());
            let answered = store.answer(Scope::Operator, &name(id), &[reply]).await;
            show(answered.map(|answered| match answered {
                Answered::Recorded { taken, .. } => taken.to_string(),
                Answered::NotFound => "not found".to_owned(),
            }))
        }
        ["finish", id, at] => {
            let finished = store.finish(&name(id), epoch(at), Outcome::lost("done"), Batch::new()).await;
            show(finished.map(|_| "finished"))
        }
        ["cancel", id] => {
            show(store.request_cancel(Scope::Operator, &name(id), None).await.map(|_| "cancelled"))
        }
        ["erase", id] => {
            show(store.erase(Scope::Operator, &name(id)).await.map(|erasure| format!("{erasure:?}")))
        }
        ["append", text] => show(store.append(Stream::new(&Owner::Anonymous, "s", "t"), text).await),
        ["sweep"] => show(store.sweep(100).await.map(|swept| swept.total())),
        ["watch", id] => {
            let (mut watch, id) = (store.watch(&name(id)), name(id));
            let before = store.get(Scope::Operator, &id).await.unwrap().unwrap();
            say("watching");
            loop {
                watch.changed().await;
                let now = store.get(Scope::Operator, &id).await.unwrap().unwrap();
                if now.seq != before.seq {
                    return now.status_message.unwrap_or_default().to_string();
                }
            }
        }
        // Says each task as soon as it is acknowledged.
        ["hammer", prefix, tasks, creators] => {
            let (tasks, creators): (usize, usize) = (tasks.parse().unwrap(), creators.parse().unwrap());
            let creators = (0..creators).map(|creator| {
                let (store, prefix) = (store.clone(), (*prefix).to_owned());
                tokio::spawn(async move {
                    for number in 0..tasks {
                        let id = format!("{prefix}-{creator}-{number}");
                        let made = store.create(task(&id)).await.expect("it is created").into_record();
                        say(format!("made {id}"));
                        if number % 2 == 0 {
                            let end = store.finish(&made.id, made.epoch, Outcome::lost("done"), Batch::new());
                            end.await.expect("it ends");
                            say(format!("ended {id}"));
                        }
                    }
                })
            });
            let creators: Vec<_> = creators.collect();
            for creator in creators {
                creator.await.unwrap();
            }
            "hammered".to_owned()
        }
        other => panic!("unknown order {other:?}"),
    }
}

fn show<T: Display>(result: Result<T, longhaul_store::StoreError>) -> String {
    match result {
        Ok(value) => value.to_string(),
        Err(error) => format!("error: {error}"),
    }
}

fn name(id: &str) -> TaskId {
    TaskId::new(id).unwrap()
}

fn task(id: &str) -> NewTask {
    let mut task =
        NewTask::new(name(id), Owner::principal("ann").unwrap(), "build", Json::parse("{}").unwrap());
    task.rerun = Rerun::Restart;
    task
}

const PATH: &str = "LONGHAUL_TEST_STORE";
const MARK: &str = "@@ ";
