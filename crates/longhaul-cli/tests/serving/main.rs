//! What `longhaul serve` says when it is ready, and when it cannot be.

#![expect(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]
#![expect(clippy::duplicate_mod, reason = "each kind of server is started by the same means")]

mod behind;
mod chapters;
mod cut_off;
mod fleet;
mod hosts;
mod left;
mod metrics;
mod packaged;
mod rates;
mod reload;
mod roles;
mod sealing;
mod store_verb;
mod trails;
mod upstreams;
mod versions;

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use tempfile::TempDir;

const LONGHAUL: &str = env!("CARGO_BIN_EXE_longhaul");

const TOOLS: &str = r#"
[tools.say]
description = "Say it"
command = ["printf", "hello"]

[tools.work]
description = "Work until a file is there, or another is not"
command = ["sh", "-c", "while [ -e longhaul.toml ] && [ ! -e go ]; do sleep 0.02; done; printf ended"]
task = "after 50ms"
"#;

/// What a call comes to that is left running as a task: half a second is enough for that, unless the machine is busy.
fn left_running(call: impl Fn(&str) -> (i32, String, String)) -> (i32, String, String) {
    Some(call("500ms")).filter(|(code, ..)| *code == 7).unwrap_or_else(|| call("30s"))
}

fn folder(more: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("longhaul.toml"), format!("{more}\n{TOOLS}")).unwrap();
    folder
}

fn longhaul(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(LONGHAUL);
    command.args(words).current_dir(folder).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(folder: &Path, words: &[&str]) -> (i32, String, String) {
    let output = longhaul(folder, words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// A server that is ready, with what it has said until then. Ends with the test.
struct Server {
    child: Child,
    said: String,
    /// What it says from then on.
    later: mpsc::Receiver<String>,
}

impl Server {
    fn start(folder: &Path, words: &[&str]) -> Self {
        let words: Vec<&str> = ["serve"].iter().chain(words).copied().collect();
        Self::of(&mut longhaul(folder, &words))
    }

    /// The one that this starts.
    fn of(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        while !said.lines().any(|line| line.starts_with("ready")) {
            let line = lines.next().unwrap_or_else(|| panic!("it ended; it said:\n{said}")).unwrap();
            said += &format!("{line}\n");
        }
        let (tell, later) = mpsc::channel();
        std::thread::spawn(move || {
            // Whoever does not listen any more keeps it from nothing.
            lines.map_while(Result::ok).for_each(|line| drop(tell.send(line)));
        });
        Self { child, said, later }
    }

    /// Waits until it says so; what it said before that is over.
    fn says(&self, what: &str) {
        let mut heard = String::new();
        while !heard.lines().last().is_some_and(|line| line.contains(what)) {
            match self.later.recv_timeout(Duration::from_secs(60)) {
                Ok(line) => heard += &format!("{line}\n"),
                Err(error) => panic!("{what:?} is not said ({error}); this was:\n{heard}"),
            }
        }
    }

    fn url(&self) -> &str {
        let at = self.said.find("http://").unwrap();
        self.said[at..].split_whitespace().next().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_filter_of_the_log_that_is_none_is_told() {
    let folder = folder("");
    for (filter, said) in [
        ("nonsense", "warning: `nonsense` of LONGHAUL_LOG is no level (error, "),
        ("longhaul=verbose", "warning: LONGHAUL_LOG is not understood ("),
        ("info,longhaul=debug", ""),
    ] {
        let mut serve = longhaul(folder.path(), &["serve", "--http", "127.0.0.1:0"]);
        let server = Server::of(serve.env("LONGHAUL_LOG", filter));
        let warns = server.said.contains("LONGHAUL_LOG");
        assert!(server.said.contains(said) && warns != said.is_empty(), "{filter}: {}", server.said);
    }
}

#[test]
fn a_server_says_what_it_has_and_what_to_paste() {
    let folder = folder("[server]\nname = \"Ann's builds\"\nversion = \"2.5\"");
    let server = Server::start(folder.path(), &["--http", "127.0.0.1:0"]);
    let said = &server.said;
    assert!(said.starts_with("longhaul ") && said.contains("   Ann's builds 2.5\n"), "{said}");
    assert!(said.contains("  config   longhaul.toml, watching\n  store    sqlite:"), "{said}");
    assert!(said.contains("longhaul.db   no open tasks\n  tools    say work\n"), "{said}");
    let url = server.url();
    assert!(said.contains(&format!("  mcp      {url}   20")), "{said}");
    let paste = format!(r"ready    next: claude mcp add --transport http 'Ann'\''s builds' {url}");
    assert!(said.ends_with(&format!("{paste}\n")), "{said}");

    let (code, _, err) = left_running(|wait| run(folder.path(), &["call", "--wait", wait, url, "work"]));
    assert_eq!(code, 7, "{err}");
    drop(server);
    let server = Server::start(folder.path(), &["--http", "127.0.0.1:0"]);
    assert!(server.said.contains("longhaul.db   1 open, 1 taken up\n"), "{}", server.said);
    // While one node has it, another only counts it.
    let other = Server::start(folder.path(), &["--http", "127.0.0.1:0"]);
    assert!(other.said.contains("longhaul.db   1 open task\n"), "{}", other.said);
}

/// What a server answers to whoever follows a link.
fn status(url: &str) -> u16 {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn the_page_is_opened_by_a_link_that_is_good_once() {
    let folder = folder("");
    let server = Server::start(folder.path(), &["--http", "127.0.0.1:0"]);
    let (_, link) = server.said.split_once("  page     ").unwrap();
    let link = link.split_whitespace().next().unwrap();
    assert_eq!((status(link), status(link)), (303, 401), "{link}");
    let address = &link.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
    let (code, another, err) = run(folder.path(), &["page", "--http", address]);
    assert_eq!(code, 0, "{err}");
    assert_eq!((status(another.trim()), status(another.trim())), (303, 401), "{another}");
    drop(server);

    for words in [&["--http", "127.0.0.1:0", "--no-page"][..], &["--http", "0.0.0.0:0", "--allow-anonymous"]]
    {
        let server = Server::start(folder.path(), words);
        assert!(!server.said.contains("  page "), "{}", server.said);
        assert_eq!(status(server.url().strip_suffix("mcp").unwrap()), 404, "{words:?}");
    }
    let (code, _, err) = run(folder.path(), &["page", "--store", "memory:"]);
    assert_eq!(code, 2, "{err}");
    // Where nothing listens that is said of the link.
    let (code, out, err) = run(folder.path(), &["page", "--http", address]);
    assert!(
        code == 0 && out.contains("/?key=") && err.contains(&format!("nothing listens at {address}")),
        "{err}"
    );
    for address in ["127.0.0.1:0", "0.0.0.0:8420"] {
        let (code, out, err) = run(folder.path(), &["page", "--http", address]);
        assert!(code == 2 && out.is_empty(), "{address}: {out}{err}");
    }
}

#[test]
fn no_link_opens_what_is_not_there_and_looking_for_it_makes_nothing() {
    let folder = folder("");
    for words in [&["page"][..], &["page", "--store", "sqlite:typo.db"]] {
        let (code, out, err) = run(folder.path(), words);
        assert!(code == 2 && out.is_empty() && err.contains("there is no store"), "{words:?}: {out}{err}");
    }
    let there: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(there, ["longhaul.toml"]);
    let config = format!("[page]\nenabled = false\n{TOOLS}");
    std::fs::write(folder.path().join("longhaul.toml"), config).unwrap();
    let (code, _, err) = run(folder.path(), &["page"]);
    assert!(code == 2 && err.contains("has no pages"), "{err}");
}

#[test]
fn an_address_that_cannot_be_had_is_a_mistake_of_usage() {
    let folder = folder("");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, _, err) = run(folder.path(), &["serve", "--http", &address]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains(&address) && err.contains("help: ") && err.contains("--http 127.0.0.1:"), "{err}");
    // One that is nobody's here: reserved for documentation.
    let (code, _, err) = run(folder.path(), &["serve", "--http", "192.0.2.1:8420", "--allow-anonymous"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("no such address"), "{err}");
}

#[test]
fn who_serves_everybody_says_so_and_gets_an_address_that_works() {
    let folder = folder("");
    let (code, _, err) = run(folder.path(), &["serve", "--http", "0.0.0.0:0"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("--allow-anonymous"), "{err}");

    let server = Server::start(folder.path(), &["--http", "0.0.0.0:0", "--allow-anonymous"]);
    assert!(server.said.contains("allowed_hosts = [\""), "{}", server.said);
    assert_eq!(run(folder.path(), &["call", server.url(), "say"]).1, "hello\n");
    drop(server);

    let config = folder.path().join("longhaul.toml");
    std::fs::write(config, format!("[http]\nallowed_hosts = [\"localhost\"]\n{TOOLS}")).unwrap();
    let server = Server::start(folder.path(), &["--http", "0.0.0.0:0", "--allow-anonymous"]);
    assert!(server.url().starts_with("http://localhost:"), "{}", server.said);
    assert!(!server.said.contains("note"), "{}", server.said);
    assert_eq!(run(folder.path(), &["call", server.url(), "say"]).1, "hello\n");
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// What a caller with this token gets: its code, its standard output and its standard error.
fn call_as(folder: &Path, token: &str, words: &[&str]) -> (i32, String, String) {
    let mut command = longhaul(folder, words);
    let output = command.env("TOKEN", token).env("XDG_STATE_HOME", folder).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

#[test]
fn a_protected_server_lets_in_who_shows_a_token() {
    let auth = "[auth]\nscope = \"mcp\"\ntokens.ann = { from = \"file:token\" }\n\
                tokens.ci = { from = \"file:ci\", scope = \"mcp\" }\n";
    let folder = folder(auth);
    let (path, scoped) = (
        folder.path(),
        "[tools.deploy]\ndescription = \"Deploy\"\ncommand = [\"printf\", \"deployed\"]\nscope = \"deploy\"\n",
    );
    std::fs::write(path.join("longhaul.toml"), format!("{auth}\n{TOOLS}\n{scoped}")).unwrap();
    let (code, _, err) = run(path, &["serve", "--http", "127.0.0.1:0"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("nobody could sign in: the token `ann` cannot be read"), "{err}");
    std::fs::write(path.join("token"), format!("{TOKEN}\n")).unwrap();
    std::fs::write(path.join("ci"), "short").unwrap();
    let (code, _, err) = run(path, &["serve", "--http", "127.0.0.1:0"]);
    assert!(code == 2 && err.contains("shorter than 20 characters") && !err.contains("short\""), "{err}");
    let ci = "ci0123456789abcdef0123456789";
    std::fs::write(path.join("ci"), ci).unwrap();
    let (code, _, err) = run(path, &["serve", "--http", "127.0.0.1:0", "--allow-anonymous"]);
    assert!(code == 2 && err.contains("--allow-anonymous lets everybody in"), "{err}");

    // With a way to sign in, an address that others reach is fine.
    let server = Server::start(path, &["--http", "0.0.0.0:0"]);
    assert!(server.said.contains("  auth     the tokens of ann ci\n"), "{}", server.said);
    assert!(server.said.contains("--header \"Authorization: Bearer TOKEN\"\n"), "{}", server.said);
    assert!(!server.said.contains(TOKEN), "{}", server.said);
    let url = server.url();
    for (token, words, code, said) in [
        ("", &["call", url, "say"][..], 3, "--token-env NAME"),
        ("", &["tools", url], 3, "longhaul login http"),
        ("", &["call", "--token-env", "TOKEN", url, "say"], 2, "holds no token"),
        ("wrong0123456789abcdef", &["call", "--token-env", "TOKEN", url, "say"], 3, "meant for this server"),
        (TOKEN, &["call", "--token-env", "TOKEN", url, "say"], 0, "hello\n"),
        (TOKEN, &["call", "--token-env", "TOKEN", url, "deploy"], 0, "deployed\n"),
        (ci, &["call", "--token-env", "TOKEN", url, "say"], 0, "hello\n"),
        (ci, &["call", "--token-env", "TOKEN", url, "deploy"], 3, "a token that has the scope"),
        (ci, &["tools", "--token-env", "TOKEN", url], 0, "deploy"),
    ] {
        for revision in ["2025-11-25", "2026-07-28"] {
            let words = [words, &["--revision", revision]].concat();
            let (ended, out, err) = call_as(path, token, &words);
            assert_eq!(ended, code, "{words:?}: {out}{err}");
            assert!(out.contains(said) || err.contains(said), "{words:?}: {out}{err}");
            assert!(token.is_empty() || !err.contains(token), "{words:?}: {err}");
        }
    }
    let (ended, _, err) = call_as(path, "", &["logout", url]);
    assert!(ended == 5 && err.contains("there is no token for"), "{err}");
    // A task is its caller's.
    let (code, _, err) = left_running(|wait| {
        call_as(path, TOKEN, &["call", "--token-env", "TOKEN", "--wait", wait, "--json", url, "work"])
    });
    assert_eq!(code, 7, "{err}");
    let (_, list, _) = run(path, &["tasks", "list", "--json"]);
    assert!(list.contains("\"owner\":\"token:ann\""), "{list}");
    let id = list.split("\"taskId\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let get = ["tasks", "get", &id, "--url", url, "--token-env", "TOKEN"];
    assert_eq!(call_as(path, TOKEN, &get).0, 0);
    assert_eq!(call_as(path, ci, &get).0, 5, "somebody else's is not there");
}

#[test]
fn a_server_at_a_socket_is_its_users_alone() {
    let folder = folder("");
    let path = folder.path();
    let server = Server::start(path, &["--http", "unix:mcp.sock"]);
    let target = format!("unix:{}", path.canonicalize().unwrap().join("mcp.sock").display());
    assert!(server.said.contains(&format!("ready    next: longhaul tools {target}")), "{}", server.said);
    let (code, tools, err) = run(path, &["tools", &target]);
    assert_eq!(code, 0, "{err}");
    assert!(tools.contains("say"), "{tools}");
    let (code, said, err) = run(path, &["call", "unix:mcp.sock", "say"]);
    assert_eq!((code, said.trim_end()), (0, "hello"), "{err}");

    let (code, _, err) = run(path, &["serve", "--http", "unix:mcp.sock"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("a server listens there") && err.contains("help: "), "{err}");
    // What was killed leaves its file, which keeps nobody from serving.
    drop(server);
    assert!(path.join("mcp.sock").exists());
    drop(Server::start(path, &["--http", "unix:mcp.sock"]));
}

#[test]
fn what_became_of_a_task_is_shown_and_what_was_changed_is_found() {
    let folder = folder("[audit]\npath = \"audit\"");
    let at = folder.path();
    let server = Server::start(at, &["--http", "127.0.0.1:0"]);
    let (code, _, err) = left_running(|wait| run(at, &["call", "--wait", wait, server.url(), "work"]));
    assert_eq!(code, 7, "{err}");
    let listed: serde_json::Value = serde_json::from_str(&run(at, &["tasks", "list", "--json"]).1).unwrap();
    let id = listed["tasks"][0]["taskId"].as_str().unwrap_or_else(|| panic!("{listed}")).to_owned();
    let (code, _, err) = run(at, &["tasks", "cancel", &id, "--url", server.url()]);
    assert_eq!(code, 0, "{err}");
    let told = |words: &[&str]| {
        // An entry is written when it has happened, a moment after its caller knows.
        let mut told = (0..500).map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            run(at, &[&["audit", "show", "audit"], words].concat()).1
        });
        told.find(|told| told.contains("cancelled")).unwrap()
    };
    let told_of_it = told(&["--task", &id]);
    let words: Vec<_> = told_of_it.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    // Whoever cancels a task at a server looks how it ended, which is noted a moment later.
    assert!(words.starts_with(&["created", "cancelled"]), "{told_of_it}");
    let (code, out, err) = run(at, &["tasks", "cancel", &id, "--url", server.url(), "--json"]);
    assert!(code == 0 && out.contains("\"status\":\"cancelled\""), "it is what was asked for: {out}{err}");
    assert!(told_of_it.contains("tool=work") && told_of_it.contains("by=anonymous"), "{told_of_it}");
    let first = told(&["--json"]);
    let first: serde_json::Value = serde_json::from_str(first.lines().next().unwrap()).unwrap();
    assert_eq!((&first["what"], &first["seq"]), (&"began".into(), &1.into()));
    assert_eq!(run(at, &["audit", "show", "audit", "--who", "ann"]).1, "");
    drop(server);

    // On a busy machine the call that gave up has made a task as well, of which there is an entry too.
    let entries = run(at, &["audit", "show", "audit"]).1.lines().count();
    assert!(entries >= 3, "{entries}");
    let (code, heads, err) = run(at, &["audit", "verify", "audit"]);
    let found = format!("{entries} entries in 1 files are as they were written");
    assert!(code == 0 && err.contains(&found), "{found}: {err}");
    let head = heads.split_whitespace().next().unwrap();
    assert_eq!(run(at, &["audit", "verify", "audit", "--head", head]).0, 0);
    let (code, _, err) = run(at, &["audit", "verify", "audit", "--head", &"0".repeat(64)]);
    assert!(code == 1 && err.contains("no entry has the digest"), "{err}");

    let file = std::fs::read_dir(at.join("audit")).unwrap().next().unwrap().unwrap().path();
    let changed = std::fs::read_to_string(&file).unwrap().replace("\"tool\":\"work\"", "\"tool\":\"play\"");
    std::fs::write(&file, changed).unwrap();
    let (code, _, err) = run(at, &["audit", "verify", "audit"]);
    assert!(code == 1 && err.contains("was changed"), "{err}");
    let (code, _, err) = run(at, &["audit", "verify", "elsewhere"]);
    assert!(code == 2 && err.contains("help: "), "{err}");
}

/// A7 of `conformance/REQUIREMENTS.md`.
#[test]
fn a7_a_sealed_store_tells_nothing_to_who_has_no_key() {
    const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const NEWER: &str = "//////////////////////////////////////////8=";
    let keys = |keys: &str| {
        format!(
            "[store]\nkeys = [{keys}]\n{TOOLS}\n[tools.echo]\ndescription = \"Echo\"\n\
             command = [\"printf\", \"heard %s\", \"{{what}}\"]\ninput.what = {{ description = \"What\" }}\ntask = \"always\"\n"
        )
    };
    let folder = tempfile::tempdir().unwrap();
    let (at, config) = (folder.path(), folder.path().join("longhaul.toml"));
    std::fs::write(&config, keys("\"file:key\"")).unwrap();
    let (code, _, err) = run(at, &["check"]);
    assert!(code == 0 && err.contains("a key of `[store]` cannot be read now"), "{err}");
    let (code, _, err) = run(at, &["serve", "--http", "127.0.0.1:0"]);
    assert!(code == 2 && err.contains("the key of the store cannot be read from file:"), "{err}");
    std::fs::write(at.join("key"), "no key").unwrap();
    let (code, _, err) = run(at, &["check"]);
    assert!(code == 2 && err.contains("holds no key of a store") && err.contains("openssl rand"), "{err}");

    std::fs::write(at.join("key"), format!("{KEY}\n")).unwrap();
    let server = Server::start(at, &["--http", "127.0.0.1:0"]);
    let (code, said, err) = run(at, &["call", server.url(), "echo", "what=hush"]);
    assert!(code == 0 && said == "heard hush\n", "{said} {err}");
    drop(server);
    let (_, listed, _) = run(at, &["tasks", "list", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let id = listed["tasks"][0]["taskId"].as_str().unwrap_or_else(|| panic!("{listed}"));
    assert_eq!(run(at, &["tasks", "result", id]).1, "heard hush\n", "it can be read with the key");
    for file in ["longhaul.db", "longhaul.db-wal"] {
        let bytes = std::fs::read(at.join(file)).unwrap_or_default();
        assert!(!bytes.windows(4).any(|bytes| bytes == b"hush"), "{file}");
    }

    let (code, _, err) = run(at, &["tasks", "list", "--store", "sqlite:longhaul.db"]);
    assert!(code == 2 && err.contains("is sealed, and no keys are given"), "{err}");
    std::fs::write(at.join("newer"), NEWER).unwrap();
    std::fs::write(&config, keys("\"file:newer\"")).unwrap();
    let (code, _, err) = run(at, &["tasks", "list"]);
    assert!(code == 2 && err.contains("the store is sealed with the key "), "{err}");
    std::fs::write(&config, keys("\"file:newer\", \"file:key\"")).unwrap();
    assert_eq!(run(at, &["tasks", "result", id]).1, "heard hush\n", "an older key still opens");
}
