//! A configuration that changes while it is served.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use longhaul::client::{Change, Client};
use longhaul::proto::model::SubscriptionFilter;
use rustix::process::{Pid, Signal, kill_process};

use super::{LONGHAUL, Server, TOOLS, folder, left_running, run};

/// Writes the configuration, and tells the server.
fn rewrite(server: &Server, at: &Path, text: &str) {
    fs::write(at.join("longhaul.toml"), text).unwrap();
    hang_up(server);
}

fn hang_up(server: &Server) {
    kill_process(Pid::from_child(&server.child), Signal::HUP).unwrap();
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{what}");
}

#[test]
fn tools_come_change_and_go_and_what_they_have_begun_goes_on() {
    let folder = folder("");
    let at = folder.path();
    let server = Server::start(at, &["--http", "127.0.0.1:0"]);
    assert!(server.said.contains("  config   longhaul.toml, watching\n"), "{}", server.said);
    let url = server.url();
    let call = |tool: &str| run(at, &["call", url, tool]);
    let (code, _, err) = left_running(|wait| run(at, &["call", "--wait", wait, url, "work"]));
    assert_eq!(code, 7, "{err}");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut changes = runtime.block_on(async {
        let client = Client::connect(url).await.unwrap();
        client.subscribe(SubscriptionFilter::default().lists()).await.unwrap()
    });

    // Nobody tells it: it looks by itself.
    let tool = |name: &str, says: &str| {
        format!("[tools.{name}]\ndescription = \"Say\"\ncommand = [\"printf\", \"{says}\"]\n")
    };
    let text = [tool("say", "bye"), tool("work", "new"), tool("more", "more")].concat();
    fs::write(at.join("longhaul.toml"), &text).unwrap();
    server.says("longhaul.toml was read again: tool added: more");
    server.says("longhaul.toml was read again: tools changed: say work");
    let next =
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), changes.next()).await });
    assert!(matches!(next, Ok(Ok(Some(Change::Tools)))), "{next:?}");
    assert_eq!(
        (call("say").1.as_str(), call("work").1.as_str(), call("more").1.as_str()),
        ("bye\n", "new\n", "more\n")
    );

    // What was begun before goes on as it was.
    fs::write(at.join("go"), "").unwrap();
    let result = || run(at, &["tasks", "list", "--json"]).1;
    eventually("the task does not end", || result().contains("completed"));
    let listed: serde_json::Value = serde_json::from_str(&result()).unwrap();
    let id = listed["tasks"][0]["taskId"].as_str().unwrap();
    assert_eq!(run(at, &["tasks", "result", id]).1, "ended\n");

    // A mistake changes nothing, and is shown as at the start.
    rewrite(&server, at, &text.replace("command = [\"printf\", \"bye\"]", "comand = []"));
    server.says("error: unknown key `comand` in tool `say`");
    server.says("longhaul.toml:3:1");
    server.says("longhaul.toml was read again and has mistakes: what was read before goes on");
    assert_eq!((call("say").1.as_str(), call("more").1.as_str()), ("bye\n", "more\n"));

    rewrite(&server, at, &format!("{}[http]\nhttp2 = true\n", tool("say", "bye")));
    server.says("longhaul.toml was read again: tools removed: more work");
    server.says("what it says in `[http]` is not what is served: that takes effect at the next start");
    assert_eq!((call("say").1.as_str(), call("more").0), ("bye\n", 5));
    rewrite(&server, at, &tool("say", "bye"));
    server.says("nothing that is served has changed");
    fs::remove_file(at.join("longhaul.toml")).unwrap();
    server.says("longhaul.toml is not there any more: what was read before goes on");
    assert_eq!(call("say").1, "bye\n");
}

/// Whether the process whose id is on this line of the file lives.
fn lives(pids: &Path, line: usize) -> bool {
    let pids = fs::read_to_string(pids).unwrap();
    let stat =
        fs::read_to_string(format!("/proc/{}/stat", pids.lines().nth(line).unwrap())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn servers_come_change_and_go_and_finish_what_they_have_begun() {
    let folder = tempfile::tempdir().unwrap();
    let (at, behind) = (folder.path(), folder.path().join("behind"));
    fs::create_dir(&behind).unwrap();
    fs::write(
        behind.join("longhaul.toml"),
        TOOLS.replace("after 50ms", "never").replace("\"while", "\"echo run >> runs; while"),
    )
    .unwrap();
    let section = |name: &str, more: &str| {
        let script = format!("echo $$ >> {name}.pids; exec \"$0\" serve --stdio --store memory:");
        format!(
            "[servers.{name}]\ncommand = [\"sh\", \"-c\", {script:?}, {LONGHAUL:?}]\ncwd = \"behind\"\nprefix = \"{name}_\"\n{more}\n"
        )
    };
    let pids = |name: &str| behind.join(format!("{name}.pids"));
    let starts = |name: &str| fs::read_to_string(pids(name)).unwrap_or_default().lines().count();
    let both = section("a", "") + &section("b", "");
    fs::write(at.join("longhaul.toml"), &both).unwrap();
    let server = Server::start(at, &["--http", "127.0.0.1:0", "--no-watch"]);
    assert!(
        server.said.contains("  server   a   2 tools") && server.said.contains("  server   b   2 tools"),
        "{}",
        server.said
    );
    let url = server.url();
    std::thread::scope(|scope| {
        let working = scope.spawn(|| run(at, &["call", url, "b_work"]));
        eventually("it is not called", || behind.join("runs").exists());
        let more = section("a", "timeout = \"1h\"") + &section("c", "");
        rewrite(&server, at, &more);
        server.says("longhaul.toml was read again: server added: c");
        server.says("longhaul.toml was read again: server changed: a");
        server.says("longhaul.toml was read again: server removed: b");
        assert_eq!(run(at, &["call", url, "b_say"]).0, 5);
        eventually("what was added is not served", || run(at, &["call", url, "c_say"]).1 == "hello\n");
        eventually("what was changed is not started anew", || starts("a") == 2 && !lives(&pids("a"), 0));
        assert_eq!(run(at, &["call", url, "a_say"]).1, "hello\n");
        assert!(!working.is_finished() && lives(&pids("b"), 0), "it has a call to finish");
        fs::write(behind.join("go"), "").unwrap();
        let (code, said, err) = working.join().unwrap();
        assert_eq!((code, said.as_str()), (0, "ended\n"), "{err}");
        eventually("nobody uses it any more", || !lives(&pids("b"), 0));
    });
    // What is as it was is not touched.
    rewrite(&server, at, &(section("a", "timeout = \"1h\"") + &section("b", "") + TOOLS));
    server.says("longhaul.toml was read again: tools added: say work");
    server.says("longhaul.toml was read again: server added: b");
    eventually("what is back is not served", || run(at, &["call", url, "b_say"]).1 == "hello\n");
    assert_eq!((starts("a"), starts("b"), starts("c")), (2, 2, 1));
    assert!(lives(&pids("a"), 1));
    // The name of a server's tool stays that server's.
    rewrite(&server, at, &TOOLS.replace("tools.say", "tools.a_say"));
    server.says("longhaul.toml was read again: tool removed: say");
    server.says("`a_say` is a tool of the server `a`, which callers know");
    assert_eq!(run(at, &["call", url, "a_say"]).0, 5);
    // It is not forgotten what does not hold yet.
    hang_up(&server);
    server.says("longhaul.toml was read again: `a_say` is a tool of the server `a`, which callers know");
    rewrite(&server, at, TOOLS);
    server.says("longhaul.toml was read again: tool added: say");
}

#[test]
fn what_is_no_file_is_said_so_and_keeps_nothing_from_being_read_later() {
    let folder = folder("");
    let (at, file) = (folder.path(), folder.path().join("longhaul.toml"));
    let server = Server::start(at, &["--http", "127.0.0.1:0"]);
    fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    server.says("it is a pipe, a socket or a device");
    server.says("longhaul.toml was read again and has mistakes: what was read before goes on");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    server.says("it is a folder");
    fs::remove_dir(&file).unwrap();
    fs::write(&file, TOOLS.replace("tools.say", "tools.tell")).unwrap();
    server.says("longhaul.toml was read again: tool added: tell");
}

#[test]
fn with_its_terminal_a_server_ends_in_order() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let folder = folder("");
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let terminal = fs::OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut command = Command::new("setsid");
    command.args(["--ctty", LONGHAUL, "serve", "--http", "127.0.0.1:0"]).current_dir(folder.path());
    let mut server = Server::of(command.stdin(terminal).stdout(Stdio::null()).stderr(Stdio::piped()));
    // A signal alone is heeded.
    hang_up(&server);
    server.says("nothing that is served has changed");
    drop(master);
    let status = server.child.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{status}");
}
