//! Every tool of the examples, entered again wherever it waits: it must ask the same and come to the same. A call in rounds
//! has each round made twice, and one that changes something is made once at each of two servers that began alike; the server
//! of a task is killed whenever there is news of it, and ends at each operation of its store. Those of `existing-server`,
//! `http-job`, `quickstart` and `test-run` are none of ours: commands and jobs are never entered again. For `agent-to-agent` and
//! `code-migration`, which wait for others, time is not stepped.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "use-cases/agent-to-agent/agents.rs"]
mod agents;
#[path = "use-cases/approval-chain/approvals.rs"]
mod approvals;
#[path = "axum-mount/axum_mount.rs"]
mod axum_mount;
#[path = "subtasks/boats.rs"]
mod boats;
#[path = "websocket/server.rs"]
mod counter;
#[expect(dead_code, reason = "nothing is called here only once")]
mod host;
#[path = "use-cases/code-migration/migration.rs"]
mod migration;
#[path = "protected/notebook.rs"]
mod notebook;
#[path = "durable/orders.rs"]
mod orders;
mod processes;
#[path = "use-cases/deep-research/research.rs"]
mod research;
#[path = "use-cases/molecule-screen/screen.rs"]
mod screen;
#[path = "websocket/socket.rs"]
mod socket;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::ready;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use host::{Answer, Host, REVISIONS, nothing};
use longhaul::Server;
use longhaul::transport::http::server::{Options, Socket};
use longhaul_store::Memory;
use longhaul_store::wrap::Moment;
use longhaul_test::replay_always;
use processes::{Passing, Processes};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// A call, and what must come of it.
struct Call {
    tool: &'static str,
    arguments: Value,
    /// In how many rounds it asks.
    asks: usize,
    /// The text it answers with.
    says: &'static str,
}

fn call(tool: &'static str, arguments: Value, asks: usize, says: &'static str) -> Call {
    Call { tool, arguments, asks, says }
}

/// Plays the calls, which are of every tool that the server has but those that are `left_out`: each round is made twice.
/// `exchange` sends a request and gives the whole answer.
async fn play_through<F: Future<Output = Value>>(
    mut exchange: impl FnMut(&'static str, Value) -> F,
    answer: Answer,
    calls: &[Call],
    left_out: &[&str],
) {
    let listed = exchange("tools/list", json!({})).await;
    let listed = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    let listed = listed.iter().filter_map(|tool| tool["name"].as_str());
    // What callers without tasks follow them by is nobody's example.
    let listed: BTreeSet<&str> = listed.filter(|tool| !tool.starts_with("task_")).collect();
    let played = calls.iter().map(|call| call.tool).chain(left_out.iter().copied());
    assert_eq!(listed, played.collect());
    for call in calls {
        replay(|params| exchange("tools/call", params), answer, call).await;
    }
}

/// Plays a call, each round of it twice; `send` sends it and gives the whole answer.
async fn replay<F: Future<Output = Value>>(send: impl FnMut(Value) -> F, answer: Answer, call: &Call) {
    let params = json!({"name": call.tool, "arguments": call.arguments});
    let reply = |_: &str, question: &Value| {
        answer(question["method"].as_str().unwrap_or_default(), &question["params"])
    };
    let went = replay_always(&params, send, reply).await;
    let went = went.unwrap_or_else(|astray| panic!("{}: {astray}", call.tool));
    assert_eq!(went.asked.len(), call.asks, "{}: {went:?}", call.tool);
    assert_eq!(went.outcome["content"][0]["text"], call.says, "{}", call.tool);
}

/// Plays the calls over pipes.
async fn play(mut command: Command, answer: Answer, calls: &[Call], left_out: &[&str]) {
    let able = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}});
    let host = RefCell::new(Host::start(&mut command, REVISIONS[1], able, answer));
    let exchange = |method: &'static str, params| ready(host.borrow_mut().exchange(method, params));
    play_through(exchange, answer, calls, left_out).await;
}

/// Plays calls that ask nothing and change something, over pipes: each is made once at either of two servers.
async fn play_apart(mut program: impl FnMut() -> Command, calls: &[Call]) {
    let mut start = || RefCell::new(Host::start(&mut program(), REVISIONS[1], json!({}), nothing));
    let (hosts, turn) = ([start(), start()], Cell::new(0));
    for call in calls {
        let send = |params| {
            turn.set(turn.get() + 1);
            ready(hosts[turn.get() % 2].borrow_mut().exchange("tools/call", params))
        };
        replay(send, nothing, call).await;
    }
}

/// A request of the modern era, of a client that can be asked nothing.
fn request(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": REVISIONS[1],
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// Plays the calls over HTTP, for whoever shows this token.
async fn play_http(url: &str, token: Option<&str>, calls: &[Call], left_out: &[&str]) {
    let exchange = |method, params| exchange_http(url, token, method, params);
    play_through(exchange, nothing, calls, left_out).await;
}

/// The whole answer to a request over HTTP, of whoever shows this token.
async fn exchange_http(url: &str, token: Option<&str>, method: &str, params: Value) -> Value {
    let request = request(method, params);
    let mut post = reqwest::Client::new()
        .post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", REVISIONS[1])
        .header("mcp-method", method)
        .body(request.to_string());
    if let Some(name) = request["params"]["name"].as_str() {
        post = post.header("mcp-name", name);
    }
    if let Some(token) = token {
        post = post.bearer_auth(token);
    }
    let body = post.send().await.unwrap().text().await.unwrap();
    // An answer that takes long comes as the last event of a stream.
    let last = body.lines().rev().find_map(|line| line.strip_prefix("data: "));
    serde_json::from_str(last.unwrap_or(&body)).unwrap_or_else(|_| panic!("{body}"))
}

/// The program of an example.
fn program(path: &str) -> Command {
    Command::new(path)
}

#[tokio::test]
async fn tools_that_ask_nothing() {
    let sum = call("add", json!({"a": 40, "b": 2}), 0, "42");
    let part = call("divide", json!({"dividend": 1, "divisor": 4}), 0, "0.25");
    play(program(env!("CARGO_BIN_EXE_calculator")), nothing, &[sum, part], &[]).await;
    let echo = call("echo", json!({"message": "again"}), 0, "again");
    play(program(env!("CARGO_BIN_EXE_echo")), nothing, &[echo], &[]).await;
    let tea = call("brew", json!({"cups": 1}), 0, "1 cups of tea");
    play(program(env!("CARGO_BIN_EXE_progress")), nothing, &[tea], &[]).await;

    let counter = [
        call("get_value", json!({}), 0, "0"),
        call("say_hello", json!({}), 0, "hello"),
        call("echo", json!({"a": 1}), 0, r#"{"a":1}"#),
        call("sum", json!({"a": 1, "b": 2}), 0, "3"),
    ];
    // Two calls of these count twice, and the last takes ten seconds.
    let apart = ["increment", "decrement", "long_task"];
    play(program(env!("CARGO_BIN_EXE_from-rmcp")), nothing, &counter, &apart).await;

    let phrase = call("learn", json!({"name": "hello", "text": "Moin!"}), 0, "learnt");
    // A second call finds nothing to forget.
    play(program(env!("CARGO_BIN_EXE_dynamic")), nothing, &[phrase], &["forget"]).await;
}

#[tokio::test]
async fn tools_that_change_something() {
    let counted = [
        call("increment", json!({}), 0, "1"),
        call("increment", json!({}), 0, "2"),
        call("decrement", json!({}), 0, "1"),
        call("get_value", json!({}), 0, "1"),
        call("long_task", json!({}), 0, "Long task completed"),
    ];
    play_apart(|| program(env!("CARGO_BIN_EXE_from-rmcp")), &counted).await;

    let learnt = [
        call("learn", json!({"name": "hello", "text": "Moin!"}), 0, "learnt"),
        call("say_hello", json!({}), 0, "Moin!"),
        call("forget", json!({"name": "hello"}), 0, "forgotten"),
    ];
    play_apart(|| program(env!("CARGO_BIN_EXE_dynamic")), &learnt).await;
}

#[tokio::test]
async fn tools_that_are_given_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut units = program(env!("CARGO_BIN_EXE_low-level"));
    units.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/low-level/units.json"));
    let calls = [
        call("km_to_miles", json!({"value": 10}), 0, "6.21371"),
        call("kg_to_pounds", json!({"value": 1}), 0, "2.204623"),
        call("length", json!({}), 0, "2 bytes"),
    ];
    play(units, nothing, &calls, &[]).await;

    let birds = folder.path().join("birds.db");
    rusqlite::Connection::open(&birds).unwrap().execute_batch("CREATE TABLE bird (name TEXT)").unwrap();
    let mut explorer = program(env!("CARGO_BIN_EXE_sqlite-explorer"));
    explorer.arg(&birds);
    let none = r#"{"columns":["name"],"rows":[],"more":false}"#;
    play(explorer, nothing, &[call("query", json!({"sql": "SELECT * FROM bird"}), 0, none)], &[]).await;
}

#[tokio::test]
async fn tools_that_ask() {
    let user: Answer = |_, params| match params["mode"] == "url" {
        true => json!({"action": "accept"}),
        false => json!({"action": "accept", "content": {"people": 2, "meal": "dinner", "outside": true}}),
    };
    let table = call("book", json!({"restaurant": "Noma"}), 2, "Noma: a table for 2 outside, for dinner");
    play(program(env!("CARGO_BIN_EXE_elicitation")), user, &[table], &[]).await;

    let model: Answer = |method, _| {
        assert_eq!(method, "sampling/createMessage");
        json!({"role": "assistant", "model": "a model", "content": {"type": "text", "text": "The weather."}})
    };
    let summary = call("summarize", json!({"text": "It rains. It has for days."}), 1, "The weather.");
    play(program(env!("CARGO_BIN_EXE_sampling")), model, &[summary], &[]).await;
}

/// A place for a server that others serve too.
async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[tokio::test]
async fn tools_that_are_called_over_http() {
    let (place, address) = listener().await;
    let (application, _mcp) = axum_mount::application().await.unwrap();
    tokio::spawn(axum::serve(place, application).into_future());
    play_http(&format!("http://{address}/mcp"), None, &[call("visits", json!({}), 0, "0")], &[]).await;

    let (place, address) = listener().await;
    let token = "ann-0123456789abcdef0123456789abcdef";
    let options = notebook::options(token, "bob-0123456789abcdef0123456789abcdef").unwrap();
    tokio::spawn(notebook::server().unwrap().serve_http(place, options));
    // Each note is made twice, which only who reads them sees: none is ever entered again.
    let calls = [call("read", json!({}), 0, ""), call("write", json!({"text": "buy milk"}), 0, "noted")];
    play_http(&format!("http://{address}/mcp"), Some(token), &calls, &[]).await;

    let books = [GuestBook::open(), GuestBook::open()];
    let zero = call("count_down", json!({"from": 2}), 0, "zero");
    play_http(&books[0].url, None, &[zero], &["sign"]).await;
    // Whoever signs twice stands there twice.
    let turn = Cell::new(0);
    for (name, guests) in [("Ada", "Ada"), ("Bob", "Ada, Bob")] {
        let send = |params| {
            turn.set(turn.get() + 1);
            exchange_http(&books[turn.get() % 2].url, None, "tools/call", params)
        };
        replay(send, nothing, &call("sign", json!({"name": name}), 0, guests)).await;
    }
}

/// The guest book of `browser`, which ends with this.
struct GuestBook {
    process: Child,
    url: String,
}

impl GuestBook {
    fn open() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_browser"));
        let mut process = process.arg("127.0.0.1:0").stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(process.stderr.take().unwrap()).read_line(&mut said).unwrap();
        Self { process, url: said.trim_end().rsplit(' ').next().unwrap().to_owned() }
    }
}

impl Drop for GuestBook {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn a_tool_that_is_called_over_a_websocket() {
    let (place, address) = listener().await;
    tokio::spawn(counter::serve(place));
    let (reader, writer) = socket::connect(&format!("ws://{address}/"), 1 << 20).await.unwrap();
    let ends = tokio::sync::Mutex::new((tokio::io::BufReader::new(reader).lines(), writer));
    let exchange = async |method: &'static str, params: Value| {
        let (lines, writer) = &mut *ends.lock().await;
        writer.write_all(format!("{}\n", request(method, params)).as_bytes()).await.unwrap();
        writer.flush().await.unwrap();
        serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap()
    };
    play_through(exchange, nothing, &[call("count", json!({"to": 3}), 0, "3")], &[]).await;
}

/// What a task comes to whose server is killed whenever there is news of it, and its user's answer is given once the next
/// one asks the same.
fn survive(program: &str, files: [&Path; 2], call: &Call, answer: Answer) -> Value {
    let able = json!({"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let start = || Host::start(Command::new(program).args(files), REVISIONS[1], able.clone(), answer);
    let mut host = start();
    let made = host.ask("tools/call", json!({"name": call.tool, "arguments": call.arguments}));
    let (id, mut news, mut asked) = (&made["taskId"], json!([null, null, null]), 0);
    for _ in 0..1200 {
        let task = host.ask("tasks/get", json!({"taskId": id}));
        if !["working", "input_required"].contains(&task["status"].as_str().unwrap()) {
            assert_eq!(asked, call.asks, "{task}");
            return task["result"].clone();
        }
        let now = json!([task["inputRequests"], task["statusMessage"], task["_meta"]["dev.longhaul/parts"]]);
        if news != now {
            news = now;
            // Its process is killed.
            drop(std::mem::replace(&mut host, start()));
        } else if let Some(questions) = task["inputRequests"].as_object() {
            asked += 1;
            let reply = |question: &Value| answer(question["method"].as_str().unwrap(), &question["params"]);
            let replies: Value =
                questions.iter().map(|(key, question)| (key.clone(), reply(question))).collect();
            host.ask("tasks/update", json!({"taskId": id, "inputResponses": replies}));
        } else {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    panic!("{} does not end", call.tool);
}

#[tokio::test]
async fn tools_whose_tasks_outlive_their_servers() {
    let folder = tempfile::tempdir().unwrap();
    let (store, done) = (folder.path().join("tasks"), folder.path().join("done"));
    let yes: Answer = |_, _| json!({"action": "accept", "content": {"now": true}});
    let order =
        call("order", json!({"item": "a lamp", "amount": 40}), 1, "receipt for 40; a lamp is on its way");
    let ended = survive(env!("CARGO_BIN_EXE_durable"), [&store, &done], &order, yes);
    assert_eq!(ended["content"][0]["text"], order.says);
    let ledger = std::fs::read_to_string(&done).unwrap();
    assert_eq!(ledger.lines().count(), 1, "{ledger}");

    let (store, done) = (folder.path().join("boats"), folder.path().join("yard"));
    let boat = call("build_boat", json!({"parts": ["hull", "sail"]}), 0, "a boat of hull, sail");
    let ended = survive(env!("CARGO_BIN_EXE_subtasks"), [&store, &done], &boat, nothing);
    assert_eq!(ended["content"][0]["text"], boat.says);
    assert_eq!(std::fs::read_to_string(&done).unwrap().lines().count(), 2);

    // Its own test kills it between its lines; here each of two calls writes them.
    let mut writer = program(env!("CARGO_BIN_EXE_own-store"));
    writer.args(["tasks.redb", "lines"].map(|name| folder.path().join(name)));
    play(writer, nothing, &[call("write_lines", json!({"lines": 3}), 0, "3 lines")], &[]).await;
    let lines = std::fs::read_to_string(folder.path().join("lines")).unwrap();
    assert_eq!(lines.lines().count(), 6, "{lines}");
}

/// What a call's task comes to, for each operation of the store at which the first process of its server ends: just before
/// it, or before anybody hears that it was done. `is_so` looks at each, and at the folder that its server has written to.
fn end_everywhere(
    server: fn(&Path) -> Server,
    call: &Call,
    answer: Answer,
    is_so: impl Fn(&Value, &Path) + Sync,
) {
    end_everywhere_in(Passing::Stepped, server, call, answer, is_so);
}

fn end_everywhere_in(
    passing: Passing,
    server: fn(&Path) -> Server,
    call: &Call,
    answer: Answer,
    is_so: impl Fn(&Value, &Path) + Sync,
) {
    let folder = tempfile::tempdir().unwrap();
    let params = json!({"name": call.tool, "arguments": call.arguments});
    let until_none_is_left = |moment| {
        for number in 1.. {
            let place = folder.path().join(format!("{moment} {number}"));
            std::fs::create_dir(&place).unwrap();
            let mut processes = Processes::new(|| server(&place), number, moment, passing);
            let task = end(&mut processes, &params, answer);
            is_so(&task, &place);
            if !processes.has_ended() {
                // There is no operation after those.
                break;
            }
            assert!(number < 1000, "it asks its store for ever");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| until_none_is_left(Moment::Before));
        scope.spawn(|| until_none_is_left(Moment::After));
    });
}

/// The task of a call once it has ended, all of whose questions are answered.
fn end<F: Fn() -> Server>(processes: &mut Processes<F>, params: &Value, answer: Answer) -> Value {
    let id = processes.ask("tools/call", params)["taskId"].clone();
    for _ in 0..10_000 {
        let task = processes.ask("tasks/get", &json!({"taskId": id}));
        match task["status"].as_str() {
            Some("working") => {}
            Some("input_required") => {
                let asked = task["inputRequests"].as_object().unwrap().iter();
                let reply =
                    |question: &Value| answer(question["method"].as_str().unwrap(), &question["params"]);
                let replies: Value = asked.map(|(key, question)| (key.clone(), reply(question))).collect();
                processes.ask("tasks/update", &json!({"taskId": id, "inputResponses": replies}));
            }
            _ => return task,
        }
    }
    panic!("it does not end");
}

/// The lines of a file that a server has written, if it has.
fn lines(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn tools_whose_processes_end_wherever_they_wait() {
    let order =
        call("order", json!({"item": "a lamp", "amount": 40}), 1, "receipt for 40; a lamp is on its way");
    let yes: Answer = |_, _| json!({"action": "accept", "content": {"now": true}});
    end_everywhere(
        |place| orders::server(place.join("charges")),
        &order,
        yes,
        |task, place| {
            let charges = lines(&place.join("charges"));
            // Whether it was charged is not known where the process ended between the two records of the charge.
            let in_doubt = task["result"]["isError"] == true;
            assert!(in_doubt || task["result"]["content"][0]["text"] == order.says, "{task}");
            assert!(charges.len() == 1 || in_doubt && charges.is_empty(), "{charges:?}: {task}");
        },
    );
    let boat = call("build_boat", json!({"parts": ["hull", "sail"]}), 0, "a boat of hull, sail");
    end_everywhere(
        |place| boats::server(place.join("yard")),
        &boat,
        nothing,
        |task, place| {
            let built = lines(&place.join("yard"));
            assert_eq!(task["result"]["content"][0]["text"], boat.says, "{task}");
            let times = |part: &str| built.iter().filter(|line| *line == part).count();
            // Only what was cut off is built again, and one process ends before that.
            assert!(["hull", "sail"].iter().all(|part| (1..=2).contains(&times(part))), "{built:?}");
        },
    );
}

#[test]
fn approvals_whose_process_ends_wherever_it_waits() {
    let lathe = call("buy", json!({"item": "a lathe", "price": 9000}), 3, "a lathe is ordered");
    let yes: Answer = |_, _| json!({"action": "accept", "content": {"approve": true}});
    end_everywhere(approvals::server, &lathe, yes, |task, place| {
        assert_eq!(task["result"]["content"][0]["text"], lathe.says, "{task}");
        assert_eq!((lines(&place.join("mail")).len(), lines(&place.join("orders")).len()), (3, 1));
    });
}

#[test]
fn research_whose_process_ends_wherever_it_waits() {
    let whales = call("research", json!({"topic": "whales"}), 4, "whales");
    let model: Answer = |_, _| json!({"role": "assistant", "model": "a model", "content": {"type": "text", "text": "whales"}});
    end_everywhere(research::server, &whales, model, |task, place| {
        assert_eq!(task["result"]["content"][0]["text"], whales.says, "{task}");
        // Only what was cut off is searched again.
        assert!((3..=4).contains(&lines(&place.join("searches")).len()), "{task}");
    });
}

#[test]
fn a_screen_whose_process_ends_wherever_it_waits() {
    let screen = call("screen", json!({}), 0, "");
    let lab = |place: &Path| {
        let library = place.join("library");
        if !library.exists() {
            std::fs::create_dir(&library).unwrap();
            std::fs::write(library.join("000"), "CCO\nCCN\n").unwrap();
            std::fs::write(library.join("001"), "CCC\n").unwrap();
        }
        screen::server(place)
    };
    end_everywhere(lab, &screen, nothing, |task, place| {
        assert_eq!(task["result"]["structuredContent"]["molecules"], 3, "{task}");
        let scores = rusqlite::Connection::open(place.join("scores.db")).unwrap();
        let count =
            |of: &str| scores.query_row(&format!("SELECT count({of}) FROM score"), (), |row| row.get(0));
        assert_eq!((count("*"), count("DISTINCT molecule")), (Ok(3), Ok(3)), "each is scored once");
    });
}

/// The traveller's server, and that of the hotel in its folder, which does not end with it.
fn traveller(place: &Path) -> Server {
    let hotel = place.join("hotel");
    if !hotel.exists() {
        std::fs::create_dir(&hotel).unwrap();
        std::fs::write(hotel.join("open"), "").unwrap();
        let server = agents::hotel(&hotel).store(Memory::new());
        let (ready, is_ready) = std::sync::mpsc::channel();
        // It is there as long as the test.
        std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.enable_all().build().unwrap().block_on(async {
                let socket = Socket::bind(hotel.join("mcp")).await.unwrap();
                ready.send(()).unwrap();
                server.serve_http(socket, Options::default()).await
            })
        });
        is_ready.recv().unwrap();
    }
    agents::traveller(place)
}

#[test]
fn a_journey_whose_process_ends_wherever_it_waits() {
    let journey = call("travel", json!({"city": "Oslo", "nights": 3}), 0, "to Oslo: a room for 3 nights");
    end_everywhere_in(Passing::Real, traveller, &journey, nothing, |task, place| {
        assert_eq!(task["result"]["content"][0]["text"], journey.says, "{task}");
        assert_eq!(lines(&place.join("hotel/bookings")), ["Oslo, 3 nights"], "one room");
    });
}

fn git(repository: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=test", "-c", "user.email=test@localhost"]);
    let output = command.args(arguments).current_dir(repository).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The server of a repository, which is made for the first process.
fn migration(place: &Path) -> Server {
    let repository = place.join("repository");
    if repository.exists() {
        // What the process before has begun goes on without it, for as long as it takes.
        std::thread::sleep(Duration::from_millis(200));
    } else {
        std::fs::create_dir(&repository).unwrap();
        for (name, text) in [("a.rs", "old"), ("b.rs", "old, older"), ("c.rs", "other"), ("check", "true")] {
            std::fs::write(repository.join(name), text).unwrap();
        }
        for arguments in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "Begin"]] {
            git(&repository, arguments);
        }
    }
    migration::server(place)
}

#[test]
fn a_migration_whose_process_ends_wherever_it_waits() {
    let rename = call("rename", json!({"from": "old", "to": "new"}), 0, "2 files changed in ");
    end_everywhere_in(Passing::Real, migration, &rename, nothing, |task, place| {
        let said = task["result"]["content"][0]["text"].as_str().unwrap();
        assert!(said.starts_with(rename.says), "{task}");
        let repository = place.join("repository");
        assert_eq!(git(&repository, &["rev-list", "--count", "HEAD"]).trim(), "2", "one commit");
        assert_eq!(git(&repository, &["status", "--porcelain"]), "", "and nothing besides");
        let text = |name| std::fs::read_to_string(repository.join(name)).unwrap();
        assert_eq!(["a.rs", "b.rs", "c.rs"].map(text), ["new", "new, newer", "other"]);
    });
}
