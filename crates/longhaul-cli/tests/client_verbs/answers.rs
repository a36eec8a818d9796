//! What servers ask, put to a person at a terminal or answered later.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use longhaul::proto::model::{ElicitUrl, Field, Form, InputKind};
use longhaul::server::{Elicited, TaskMode, TaskPolicy, ToolError};
use longhaul::transport::http::server::{Options, serve};
use longhaul::{Cx, Tool};
use longhaul_store::{Rerun, Sqlite};
use serde_json::Value;

use super::{ended, eventually, longhaul, open_terminal, run};

/// A server whose tools ask, in this process, with a store in `folder`.
struct Asking {
    _runtime: tokio::runtime::Runtime,
    url: String,
}

type Nothing = BTreeMap<String, String>;

async fn deploy(cx: Cx, _: Nothing) -> Result<String, ToolError> {
    let form = Form::new()
        .with("shards", Field::integer().titled("How many at once").within(1.0, 64.0).defaulting_to(8))
        .with("to", Field::named_choice([("stage", "Staging"), ("prod", "Production")]))
        .with("go", Field::flag());
    Ok(match cx.elicit_form("Deploy \u{1b}[31mit\u{1b}]0;x\u{7}?", form).await? {
        Elicited::Accepted(answer) => format!("accepted {answer}"),
        Elicited::Declined => "declined".to_owned(),
        Elicited::Cancelled => "cancelled".to_owned(),
    })
}

async fn visit(cx: Cx, _: Nothing) -> Result<String, ToolError> {
    let page = ElicitUrl::new("Sign in there", "https://bank.example/login?a=b", "1");
    Ok(format!("{:?}", cx.elicit_url(page).await?))
}

/// Says and asks at length.
async fn sign(cx: Cx, _: Nothing) -> Result<String, ToolError> {
    cx.status("s".repeat(150));
    let (form, name) = (Form::new(), Form::new().with("name", Field::text()));
    let both = (cx.elicit_form("q".repeat(500), form), cx.elicit_form("By whom?\nIn full.", name));
    let (signed, name) = tokio::join!(both.0, both.1);
    Ok(format!("{:?} {:?}", signed?, name?))
}

async fn fail(_: Cx, _: Nothing) -> Result<String, ToolError> {
    Err(ToolError::new("no luck"))
}

impl Asking {
    fn start(folder: &Path) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let store = Sqlite::open(folder.join("longhaul.db")).unwrap();
        let url = runtime.block_on(async {
            let tool = |name: &str, task: TaskPolicy| {
                Tool::typed(name, "Deploy", deploy).asks(InputKind::Form).task(task)
            };
            let mut restarted = TaskPolicy::always();
            restarted.rerun = Rerun::Restart;
            let dispatcher = longhaul::Server::new("deploys", "1")
                .tool(tool("deploy", TaskPolicy::always()))
                .tool(tool("held", TaskPolicy::new(TaskMode::Never)))
                .tool(
                    Tool::typed("visit", "Visit", visit)
                        .asks(InputKind::Url)
                        .task(TaskPolicy::new(TaskMode::Never)),
                )
                .tool(Tool::typed("sign", "Sign", sign).asks(InputKind::Form).task(TaskPolicy::always()))
                .tool(Tool::typed("fail", "Fail", fail).task(restarted))
                .tool(Tool::typed("once", "Fail", fail).task(TaskPolicy::always()))
                .store(store)
                .dispatcher()
                .unwrap();
            dispatcher.start().await.unwrap();
            let listener =
                tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
            let url = format!("http://{}/mcp", listener.local_addr().unwrap());
            tokio::spawn(serve(dispatcher, listener, Options::default(), std::future::pending()));
            url
        });
        Self { _runtime: runtime, url }
    }
}

/// Somebody at a terminal, in front of the program.
pub(super) struct Person {
    child: Child,
    master: File,
    seen: String,
}

impl Person {
    pub(super) fn at(folder: &Path, words: &[&str]) -> Self {
        let (master, terminal) = open_terminal();
        let stdin = terminal.try_clone().unwrap();
        // The command is dropped with its ends of the terminal.
        let child =
            longhaul(folder, words).stdin(stdin).stderr(terminal).stdout(Stdio::piped()).spawn().unwrap();
        Self { child, master: File::from(master), seen: String::new() }
    }

    /// Reads on until `words` are there, which have not been seen before.
    pub(super) fn sees(&mut self, words: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut bytes = [0; 4096];
        while !self.seen.contains(words) && Instant::now() < deadline {
            match self.master.read(&mut bytes) {
                Ok(read @ 1..) => self.seen += &String::from_utf8_lossy(&bytes[..read]),
                _ => break,
            }
        }
        let at = self.seen.find(words).unwrap_or_else(|| panic!("`{words}` is not shown: {}", self.seen));
        self.seen.drain(..at + words.len());
    }

    pub(super) fn types(&mut self, line: &str) {
        self.master.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// What the program has come to: its code, its standard output, and what was shown since.
    pub(super) fn ends(mut self) -> (i32, String, String) {
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = self.master.read(&mut bytes) {
            self.seen += &String::from_utf8_lossy(&bytes[..read]);
        }
        (self.child.wait().unwrap().code().unwrap_or(-1), out, self.seen)
    }
}

const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

#[test]
fn a_person_is_asked_field_by_field_in_either_era_by_calls_and_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let server = Asking::start(folder.path());
    for (revision, tool) in
        [REVISIONS[0], REVISIONS[1]].iter().flat_map(|one| [(one, "deploy"), (one, "held")])
    {
        let mut person = Person::at(folder.path(), &["call", "--revision", revision, &server.url, tool]);
        person.sees(" asks: Deploy it?");
        person.sees(&format!("from {}, which calls itself deploys", server.url));
        person.sees("shards, 1 to 64 [8]: ");
        person.types("65");
        person.sees("! it takes a whole number, 1 to 64");
        person.types("4");
        person.sees("1  Staging (stage)");
        person.sees("to, 1 to 2: ");
        person.types("2");
        person.sees("go, y/n: ");
        person.types("y");
        person.sees("send it? [Y, or a field to change]: ");
        person.types("");
        let (code, out, seen) = person.ends();
        let accepted = "accepted {\"go\":true,\"shards\":4,\"to\":\"prod\"}\n";
        assert_eq!((code, out.as_str()), (0, accepted), "{revision} {tool}: {seen}");

        let mut person = Person::at(folder.path(), &["call", "--revision", revision, &server.url, tool]);
        person.sees("shards, 1 to 64 [8]: ");
        person.types("!decline");
        assert_eq!(person.ends().1, "declined\n", "{revision} {tool}");
    }
}

#[test]
fn a_page_is_shown_and_opened_by_nobody_who_was_not_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let server = Asking::start(folder.path());
    for revision in REVISIONS {
        let mut person = Person::at(folder.path(), &["call", "--revision", revision, &server.url, "visit"]);
        person.sees("asks you to visit a page: Sign in there");
        person.sees("https://bank.example/login?a=b");
        person.sees("it leads to bank.example");
        person.sees("[o/y/n]: ");
        person.types("y");
        assert_eq!(person.ends().1, "Accepted(())\n", "{revision}");
    }
}

#[test]
fn without_a_terminal_a_task_that_asks_waits_for_whoever_answers_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Asking::start(folder.path());
    let at = |words: &[&str]| run(folder.path(), words);
    for revision in REVISIONS {
        let call = ["call", "--json", "--revision", revision, &server.url];
        let (code, _, err) = at(&[&call[..], &["deploy"]].concat());
        assert_eq!(code, 6, "{revision}: {err}");
        let error: Value = serde_json::from_str(err.trim_end()).unwrap();
        let message = error["error"]["message"].as_str().unwrap();
        let id = message.split_once(" asks: ").unwrap_or_else(|| panic!("{err}")).0;
        let next = error["error"]["next"].as_str().unwrap();
        assert!(next.starts_with(&format!("longhaul tasks answer {id} --url {}", server.url)), "{next}");
        // Nobody is there who could be asked, so the call is not left waiting.
        let (code, _, err) = at(&[&call[..], &["held"]].concat());
        assert_eq!(code, 6, "{revision}: {err}");

        // From here on it is found by its id alone.
        assert!(at(&["tasks", "get", id]).1.contains("input_required"), "{revision}");
        let (code, _, err) = at(&["tasks", "answer", id]);
        assert!(code == 6 && err.contains("asks: "), "{revision}: {err}");
        let (code, _, err) = at(&["tasks", "answer", id, "to=moon", "go=yes"]);
        assert!(
            code == 2 && err.contains("`to` takes one of Staging, Production"),
            "{revision}: {code} {err}"
        );
        let (code, _, err) = at(&["tasks", "answer", &id[..id.len() - 1], "to=prod", "go=yes"]);
        assert_eq!(code, 0, "{revision}: {err}");
        let (code, out, err) = at(&["tasks", "watch", id]);
        let accepted = "accepted {\"go\":true,\"shards\":8,\"to\":\"prod\"}\n";
        assert_eq!((code, out.as_str()), (0, accepted), "{revision}: {err}");
        let (code, _, err) = at(&["tasks", "answer", id, "--decline"]);
        assert!(code == 1 && err.contains("it has ended"), "{revision}: {err}");
    }
    let (code, out, err) = at(&["tasks"]);
    assert!(
        code == 0 && out.contains("deploy-") && out.contains(&server.url),
        "no store is here: {out} {err}"
    );
    let (_, out, _) = at(&["tasks", "list", "--limit", "1", "--json"]);
    let list: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&list["tasks"][0]["tool"], &list["hasMore"]), (&"deploy".into(), &true.into()));
}

/// Starts a call of `deploy` that nobody answers: the id of its task.
fn start_asking(folder: &Path, server: &Asking, revision: &str) -> String {
    start_asking_by(folder, server, revision, "deploy")
}

/// The same of another tool.
fn start_asking_by(folder: &Path, server: &Asking, revision: &str, tool: &str) -> String {
    let (code, _, err) = run(folder, &["call", "--no-input", "--revision", revision, &server.url, tool]);
    assert_eq!(code, 6, "{err}");
    let line = err.lines().find_map(|line| line.strip_prefix("error: ")).unwrap();
    line.split_once(' ').unwrap().0.to_owned()
}

#[test]
fn a_task_is_answered_on_its_store_and_at_a_terminal_too() {
    let folder = tempfile::tempdir().unwrap();
    let server = Asking::start(folder.path());
    let store = ["--store", "sqlite:longhaul.db"];
    for revision in REVISIONS {
        let id = start_asking(folder.path(), &server, revision);
        let (code, out, err) =
            run(folder.path(), &[&["tasks", "answer", &id, "--json", "--decline"], &store[..]].concat());
        assert_eq!(code, 0, "{revision}: {err}");
        let done: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&done["taskId"], done["answered"].as_array().unwrap().len()), (&id.as_str().into(), 1));
        let (_, out, _) = run(folder.path(), &["tasks", "watch", &id]);
        assert_eq!(out, "declined\n", "{revision}");

        for by in [&store[..], &[]] {
            let id = start_asking(folder.path(), &server, revision);
            let mut person = Person::at(folder.path(), &[&["tasks", "answer", &id], by].concat());
            person.sees(&format!("? {id} asks: Deploy it?"));
            person.sees("[8]: ");
            person.types("!cancel");
            person.sees("is answered");
            assert_eq!(person.ends().0, 0, "{revision} {by:?}");
            assert_eq!(run(folder.path(), &["tasks", "watch", &id]).1, "cancelled\n", "{revision} {by:?}");
        }
    }
}

#[test]
fn a_task_that_asks_says_what_whole_and_how_to_answer_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Asking::start(folder.path());
    let id = start_asking(folder.path(), &server, "2026-07-28");
    let two = start_asking_by(folder.path(), &server, "2026-07-28", "sign");
    for by in [&["--store", "sqlite:longhaul.db"][..], &[]] {
        let get = |words: &[&str]| {
            let (code, out, err) = run(folder.path(), &[&["tasks", "get"][..], words, by].concat());
            assert_eq!(code, 0, "{by:?}: {err}");
            out
        };
        let found = by.iter().map(|word| format!(" {word}")).collect::<String>();
        let shown = get(&[&id]);
        for part in [
            "  asks        Deploy it?\n".to_owned(),
            "              shards, 1 to 64 [8]: How many at once\n".to_owned(),
            "              to, one of stage (Staging), prod (Production)\n".to_owned(),
            "              go, y/n\n".to_owned(),
            format!(
                "  answer with longhaul tasks answer {id}{found} [shards=NUMBER] to=stage|prod go=yes|no\n"
            ),
            "  may answer  ".to_owned(),
        ] {
            assert!(shown.contains(&part), "{by:?}: {part}: {shown}");
        }
        let json: Value = serde_json::from_str(&get(&[&id, "--json"])).unwrap();
        assert_eq!(json["questions"][0]["requestedSchema"]["properties"]["go"]["type"], "boolean", "{json}");

        // Of several each has its key.
        let shown = get(&[&two]);
        assert!(shown.contains(&"s".repeat(150)) && shown.contains(&"q".repeat(500)), "{by:?}: {shown}");
        assert!(shown.contains("  asks        By whom?\n              In full.\n"), "{by:?}: {shown}");
        let json: Value = serde_json::from_str(&get(&[&two, "--json"])).unwrap();
        let keys: Vec<&str> =
            json["questions"].as_array().unwrap().iter().map(|one| one["key"].as_str().unwrap()).collect();
        assert_eq!(keys.len(), 2, "{json}");
        for key in keys {
            assert!(shown.contains(&format!("longhaul tasks answer {two}{found} {key} ")), "{by:?}: {shown}");
        }
    }
}

/// Keys stand in the configuration before its server is started with them.
#[test]
fn what_verbs_with_keys_write_is_read_by_a_server_that_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let server = Asking::start(folder.path());
    std::fs::write(folder.path().join("key"), "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
    let keyed = "[store]\nkeys = [\"file:key\"]\nread_plain = true\n";
    std::fs::write(folder.path().join("keyed.toml"), keyed).unwrap();
    let at = |words: &[&str]| run(folder.path(), words);
    let by = ["--config", "keyed.toml"];
    let id = start_asking(folder.path(), &server, "2026-07-28");
    let (code, _, err) = at(&[&["tasks", "answer", &id][..], &by, &["to=prod", "go=yes"]].concat());
    assert_eq!(code, 0, "{err}");
    let (code, out, err) = at(&["tasks", "watch", &id, "--store", "sqlite:longhaul.db"]);
    let accepted = "accepted {\"go\":true,\"shards\":8,\"to\":\"prod\"}\n";
    assert_eq!((code, out.as_str()), (0, accepted), "{err}");
}

#[test]
fn who_watches_a_store_and_can_see_no_question_is_told_of_it_and_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let server = Asking::start(folder.path());
    let id = start_asking(folder.path(), &server, "2026-07-28");
    let store = ["--store", "sqlite:longhaul.db"];
    let watch = [&["tasks", "watch", &id][..], &store].concat();
    for more in [&[][..], &["--no-input"], &["--events"], &["--json"]] {
        let (code, _, err) = run(folder.path(), &[&watch[..], more].concat());
        assert_eq!(code, 6, "{more:?}: {err}");
        assert!(err.contains(&format!("{id} asks: Deploy it?")), "{more:?}: {err}");
        assert!(err.contains(&format!("longhaul tasks answer {id} --store sqlite:longhaul.db ")), "{err}");
    }
    // At a terminal it is waited for whoever answers it elsewhere, unless nobody is to be asked.
    let quiet = Person::at(folder.path(), &[&watch[..], &["--no-input"]].concat());
    assert_eq!(quiet.ends().0, 6);
    let mut person = Person::at(folder.path(), &watch);
    person.sees(&format!("{id} asks: Deploy it?"));
    assert_eq!(run(folder.path(), &[&["tasks", "answer", &id, "--decline"][..], &store].concat()).0, 0);
    let (code, out, seen) = person.ends();
    assert_eq!((code, out.as_str()), (0, "declined\n"), "{seen}");
}

#[test]
fn scripts_wait_for_tasks_and_start_them_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = Asking::start(folder.path());
    let at = |words: &[&str]| run(folder.path(), words);
    let asks = start_asking(folder.path(), &server, "2026-07-28");
    let (code, _, err) = at(&["call", &server.url, "fail"]);
    assert_eq!(code, 1, "{err}");
    let (_, out, _) = at(&["tasks", "list", "--tool", "fail", "--json", "--store", "sqlite:longhaul.db"]);
    let list: Value = serde_json::from_str(&out).unwrap();
    let fails = list["tasks"][0]["taskId"].as_str().unwrap().to_owned();

    for by in [&["--store", "sqlite:longhaul.db"][..], &[]] {
        let wait = |words: &[&str]| at(&[&["tasks", "wait"], words, by].concat());
        let (code, out, err) = wait(&[&fails]);
        assert_eq!((code, out), (1, format!("{fails}  failed  no luck\n")), "{by:?}: {err}");
        let (code, out, err) = wait(&["--any", &asks, &fails]);
        assert_eq!((code, out), (1, format!("{fails}  failed  no luck\n")), "{by:?}: {err}");
        let (code, out, err) = wait(&["--for", "1s", &asks, &fails, "--json"]);
        assert_eq!(code, 7, "{by:?}: {err}");
        assert!(
            err.contains(&format!("note: {asks} waits for an answer: longhaul tasks answer {asks}")),
            "{err}"
        );
        let ended: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(ended["waiting"], serde_json::json!([asks]), "{by:?}");
        assert_eq!(ended["tasks"][0]["status"], "failed", "{by:?}");

        let (code, out, err) = at(&[&["tasks", "again", &fails], by].concat());
        assert_eq!(code, 0, "{by:?}: {err}");
        let again = out.trim_end();
        assert!(again.starts_with("fail-") && again != fails, "{by:?}: {out}");
        let (code, out, err) = wait(&[again]);
        assert_eq!((code, out), (1, format!("{again}  failed  no luck\n")), "{by:?}: {err}");
    }
    // What never runs twice is begun anew by its server alone.
    assert_eq!(at(&["call", &server.url, "once"]).0, 1);
    let (_, out, _) = at(&["tasks", "list", "--tool", "once", "--json", "--store", "sqlite:longhaul.db"]);
    let list: Value = serde_json::from_str(&out).unwrap();
    let once = list["tasks"][0]["taskId"].as_str().unwrap();
    let (code, _, err) = at(&["tasks", "again", once, "--store", "sqlite:longhaul.db"]);
    assert!(code == 1 && err.contains("never runs twice"), "{err}");
    let (code, out, err) = at(&["tasks", "again", once]);
    assert!(code == 0 && out.starts_with("once-"), "{out} {err}");
    let (code, _, err) = at(&["tasks", "again", "nobody"]);
    assert!(code == 2 && err.contains("was not started from here"), "{err}");
    let mut waiting = longhaul(folder.path(), &["tasks", "wait", &asks]);
    let waiting = waiting.spawn().unwrap();
    eventually("it is not answered", || at(&["tasks", "answer", &asks, "--decline"]).0 == 0);
    let (code, out, err) = ended(waiting.wait_with_output().unwrap());
    assert_eq!((code, out), (0, format!("{asks}  completed\n")), "{err}");
}
