//! `[servers.*]`: what others serve, served on.

use std::fs;
use std::path::Path;
use std::time::Duration;

use longhaul::client::auth::{FileTokens, TokenStore as _};
use rustix::process::{Pid, Signal, kill_process};

use super::{LONGHAUL, Server, TOKEN, TOOLS, left_running, longhaul, run};

/// A folder in which `longhaul.toml` serves another configuration on, `behind/longhaul.toml`.
pub(super) fn folder(front: &str, behind: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("behind")).unwrap();
    fs::write(folder.path().join("longhaul.toml"), front).unwrap();
    fs::write(folder.path().join("behind/longhaul.toml"), behind).unwrap();
    folder
}

/// The section of a server that runs this program on that configuration.
pub(super) fn over_pipes(more: &str) -> String {
    format!("[servers.behind]\ncommand = [{LONGHAUL:?}, \"serve\", \"--stdio\"]\ncwd = \"behind\"\n{more}\n")
}

const SAY: &str = "[tools.say]\ndescription = \"Say it\"\ncommand = [\"printf\", \"%s %s\", \"{what}\", \"{how}\"]\n\
                   input.what = { description = \"What\" }\ninput.how = { default = \"loudly\" }\n";

pub(super) fn start(folder: &Path) -> Server {
    Server::start(folder, &["--http", "127.0.0.1:0"])
}

#[test]
fn the_tools_of_another_server_are_served_beside_ones_own() {
    let own = "[tools.say]\ndescription = \"Say it here\"\ncommand = [\"printf\", \"here\"]\n";
    let more = "env.WHO = { from = \"file:who\" }\ntools.sing.limit = 1";
    let behind = format!(
        "{SAY}[tools.who]\ndescription = \"Who\"\ncommand = [\"sh\", \"-c\", \"printf \\\"$WHO $LONGHAUL_X\\\"\"]\n"
    );
    let folder = folder(&format!("{own}{}", over_pipes(more)), &behind);
    let at = folder.path();
    fs::write(at.join("who"), "ann\n").unwrap();
    let server = start(at);
    let said = &server.said;
    assert!(said.contains("  tools    say\n  server   behind   2 tools   20"), "{said}");
    assert!(said.contains("note     behind: `say` is served as `behind_say`\n"), "{said}");
    assert!(said.contains("note     behind: it has no tool `sing`"), "{said}");
    let url = server.url();
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        let call = |words: &[&str]| run(at, &[&["call", "--revision", revision, url], words].concat());
        assert_eq!(call(&["say"]).1, "here\n");
        assert_eq!(call(&["behind_say", "what=hush"]).1, "hush loudly\n");
        assert_eq!(call(&["who"]).1, "ann \n");
        let (code, _, err) = call(&["behind_say", "that=hush"]);
        assert!(code == 2 || code == 1, "{code} {err}");
        assert!(err.contains("what"), "{err}");
    }
    let (code, shown, err) = run(at, &["tools", url, "behind_say"]);
    assert_eq!(code, 0, "{err}");
    assert!(shown.contains("Say it\n") && shown.contains("what: string"), "{shown}");
}

#[test]
fn programs_see_no_secret_of_their_server_and_none_is_in_their_files() {
    // What a tool is given stands in its run's files too, which it can read as whoever runs the server.
    let shows = |name: &str| {
        format!(
            "[tools.{name}]\ndescription = \"Show\"\ncommand = [\"sh\", \"-c\", \"env; cat longhaul.db.runs/*/spec.json\"]\n"
        )
    };
    let own = "[tools.deploy]\ndescription = \"Deploy\"\ncommand = [\"printenv\", \"TOKEN\"]\nenv.TOKEN = { from = \"env:DEPLOY_TOKEN\" }\n";
    let url = "https://127.0.0.1:1/mcp";
    let signs_in = format!("[servers.away]\nurl = {url:?}\n");
    let folder = folder(&[own, &shows("here"), &over_pipes(""), &signs_in].concat(), &shows("there"));
    let at = folder.path();
    let secrets = [
        ("PGPASSWORD", "hunter-p"),
        ("REDISCLI_AUTH", "hunter-r"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=hunter-o"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "Authorization=hunter-t"),
        ("DEPLOY_TOKEN", "hunter-d"),
        ("APP_SECRET", "hunter-a"),
    ];
    // As `longhaul login --client-secret env:APP_SECRET` leaves it.
    let identity = r#"{"client_id":"app","client_secret":"env:APP_SECRET","issuer":"https://127.0.0.1:1"}"#;
    let tokens = FileTokens::new(at.join("state/longhaul/tokens.json"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(tokens.save(&format!("login {url}"), identity.to_owned().into())).unwrap();
    let mut serve = longhaul(at, &["serve", "--http", "127.0.0.1:0"]);
    serve.env("XDG_STATE_HOME", at.join("state"));
    let server = Server::of(serve.envs(secrets).env("HARMLESS", "1"));
    for tool in ["here", "there"] {
        let (code, seen, err) = run(at, &["call", server.url(), tool]);
        assert_eq!(code, 0, "{err}");
        assert!(seen.contains("HARMLESS=1") && seen.contains("\"marker\""), "{seen}");
        assert!(!seen.contains("hunter"), "{seen}");
    }
    assert_eq!(run(at, &["call", server.url(), "deploy"]).1, "hunter-d\n", "it names what it needs");
}

#[test]
fn a_server_over_http_is_shown_what_signs_in_and_callers_are_not() {
    let folder = folder("", &format!("[auth.tokens]\nfront = {{ from = \"file:token\" }}\n{SAY}"));
    let at = folder.path();
    fs::write(at.join("behind/token"), TOKEN).unwrap();
    let behind = start(&at.join("behind"));
    let front =
        |headers: &str| format!("[servers.behind]\nurl = {:?}\ntask = \"never\"\n{headers}\n", behind.url());
    let with_token = "headers.Authorization = { from = \"file:token\", prefix = \"Bearer \" }";
    fs::write(at.join("token"), TOKEN).unwrap();
    fs::write(at.join("longhaul.toml"), front(with_token)).unwrap();
    let server = start(at);
    assert!(server.said.contains("  server   behind   1 tool   20"), "{}", server.said);
    // One that shows nothing, or the wrong thing, is told what its operator can do.
    for (headers, advice) in [("", "`longhaul login http"), (with_token, "has to be another")] {
        let other = tempfile::tempdir().unwrap();
        fs::write(other.path().join("token"), "another").unwrap();
        fs::write(other.path().join("longhaul.toml"), front(headers)).unwrap();
        let shy = start(other.path());
        assert!(shy.said.contains("behind   not reached") && shy.said.contains(advice), "{}", shy.said);
    }
    assert_eq!(run(at, &["call", server.url(), "say", "what=hush"]).1, "hush loudly\n");
    // It ends and is there again, and nobody here has to do anything.
    let place = behind.url().trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    drop(behind);
    let (code, _, err) = run(at, &["call", server.url(), "say", "what=hush"]);
    assert_eq!(code, 1, "{err}");
    // Its tools are others by then, which is found out as well.
    let config = at.join("behind/longhaul.toml");
    let more = "[tools.sing]\ndescription = \"Sing\"\ncommand = [\"printf\", \"la\"]\n";
    fs::write(&config, format!("{}{more}", fs::read_to_string(&config).unwrap())).unwrap();
    let _behind = Server::start(&at.join("behind"), &["--http", &place]);
    assert_eq!(run(at, &["call", server.url(), "say", "what=hush"]).1, "hush loudly\n");
    let mut looks = 0;
    while run(at, &["call", server.url(), "sing"]).1 != "la\n" {
        std::thread::sleep(Duration::from_millis(100));
        looks += 1;
        assert!(looks < 600, "what it has by now is not served");
    }
}

#[test]
fn a_server_that_cannot_be_reached_keeps_no_other_tool_from_being_served() {
    let own = "[tools.say]\ndescription = \"Say it here\"\ncommand = [\"printf\", \"here\"]\n";
    let gone = "[servers.gone]\ncommand = [\"/nowhere/server\"]\n[servers.secret]\ncommand = [\"true\"]\n\
                env.TOKEN = { from = \"env:NOT_SET_ANYWHERE\" }\n";
    let folder = folder(&format!("{own}{gone}{}", over_pipes("prefix = \"b-\"")), SAY);
    let server = start(folder.path());
    let said = &server.said;
    assert!(
        said.contains("  server   gone   not reached, and tried again: its program `/nowhere/server`"),
        "{said}"
    );
    assert!(said.contains("secret   not reached, and tried again: the environment variable"), "{said}");
    assert!(said.contains("  server   behind   1 tool   20"), "{said}");
    assert_eq!(run(folder.path(), &["call", server.url(), "say"]).1, "here\n");
    assert_eq!(run(folder.path(), &["call", server.url(), "b-say", "what=x"]).1, "x loudly\n");
}

#[test]
fn doctor_tries_each_server_and_says_what_to_do_about_those_that_fail() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let answer = "HTTP/1.1 307 Temporary Redirect\r\nlocation: /mcp/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            // Not before it is asked.
            let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
            let _ = std::io::Write::write_all(&mut stream, answer.as_bytes());
            let _ = stream.shutdown(std::net::Shutdown::Write);
            // Who closes over what was not read takes the answer along.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    let others = format!(
        "[http]\nlisten = \"unix:mcp.sock\"\n[servers.gone]\ncommand = [\"/nowhere/server\", \"a b\"]\n\
         [servers.moved]\nurl = \"http://{address}/mcp?key=s3cret\"\n[servers.ends]\ncommand = [\"sh\", \"-c\", \"echo no disk >&2; exit 3\"]\n"
    );
    let folder = folder(&format!("{others}{}", over_pipes("")), SAY);
    let (code, said, _) = run(folder.path(), &["doctor"]);
    assert_eq!(code, 1, "{said}");
    for line in [
        "FAIL  servers   gone: its program `/nowhere/server` is not found\n".to_owned(),
        "mend `command` of `[servers.gone]`, which runs `/nowhere/server`, or its `cwd` or `env`\n"
            .to_owned(),
        format!(
            "FAIL  servers   moved: http://{address}/mcp answered HTTP 307: it redirects to http://{address}/mcp/, which is not followed"
        ),
        format!("`longhaul doctor http://{address}/mcp` looks closer\n"),
        "FAIL  servers   ends: it ended (".to_owned(),
        "); its last words: no disk\n".to_owned(),
        "ok    servers   behind: 1 tool, 20".to_owned(),
    ] {
        assert!(said.contains(&line), "{line}: {said}");
    }
    assert!(!said.contains("s3cret") && !said.contains("a b"), "arguments may be secret: {said}");
}

pub(super) const WORK: &str = r#"
[tools.work]
description = "Work until a file is there"
command = ["sh", "-c", "echo run >> runs; echo '1/2 at work' >&3; while [ -e runs ] && [ ! -e go ]; do sleep 0.02; done; printf ended"]
"#;

/// Waits until a file has so many lines.
pub(super) fn lines(file: &Path, count: usize) {
    let has = || fs::read_to_string(file).unwrap_or_default().lines().count();
    let mut looks = 0;
    while has() < count {
        std::thread::sleep(Duration::from_millis(20));
        looks += 1;
        assert!(looks < 3000, "{} has {} lines, not {count}", file.display(), has());
    }
}

/// A call that goes on as a task when this returns.
fn begun(at: &Path, url: &str) -> String {
    let (code, said, err) = left_running(|wait| run(at, &["call", "--wait", wait, "--json", url, "work"]));
    assert_eq!(code, 7, "{said}{err}");
    let (_, listed, _) = run(at, &["tasks", "list", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    listed["tasks"][0]["taskId"].as_str().unwrap_or_else(|| panic!("{listed}")).to_owned()
}

/// Waits until a task says what the command says that another server runs for it: what it was told of that task is on
/// disk by then.
fn followed(at: &Path, url: &str, id: &str) {
    let mut looks = 0;
    loop {
        let (_, said, err) = run(at, &["tasks", "get", "--json", "--url", url, id]);
        if said.contains("at work") {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
        looks += 1;
        assert!(looks < 3000, "{said}{err}");
    }
}

#[test]
fn what_another_server_made_a_task_of_is_gone_on_with_after_a_kill_and_ends_with_ours() {
    let folder = folder("", &format!("{WORK}task = \"after 50ms\""));
    let (at, behind_at) = (folder.path(), folder.path().join("behind"));
    let behind = start(&behind_at);
    let front = format!("[servers.behind]\nurl = {:?}\ntask = \"after 50ms\"\n", behind.url());
    fs::write(at.join("longhaul.toml"), front).unwrap();
    let server = start(at);
    let id = begun(at, server.url());
    lines(&behind_at.join("runs"), 1);
    followed(at, server.url(), &id);
    // It is killed, and what it has begun elsewhere goes on there.
    drop(server);
    let server = start(at);
    let cancelled = begun(at, server.url());
    let open = |at: &Path| {
        let (_, listed, _) = run(at, &["tasks", "list", "--json"]);
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let open = |task: &&serde_json::Value| task["status"] == "working";
        listed["tasks"].as_array().unwrap().iter().filter(open).count()
    };
    assert_ne!(id, cancelled);
    assert_eq!(open(&behind_at), 2);
    let (code, _, err) = run(at, &["tasks", "cancel", &cancelled, "--url", server.url()]);
    assert_eq!(code, 0, "{err}");
    let mut looks = 0;
    while open(&behind_at) != 1 {
        std::thread::sleep(Duration::from_millis(20));
        looks += 1;
        assert!(looks < 3000, "what was cancelled here goes on there");
    }
    fs::write(behind_at.join("go"), "").unwrap();
    let (code, said, err) = run(at, &["tasks", "wait", &id, "--url", server.url()]);
    assert_eq!(code, 0, "{said}{err}");
    assert_eq!(run(at, &["tasks", "result", &id]).1, "ended\n");
    let (code, _, err) = run(at, &["tasks", "cancel", &id, "--url", server.url()]);
    assert!(code == 1 && err.contains("has ended already: completed"), "{err}");
    lines(&behind_at.join("runs"), 2);
    assert_eq!(fs::read_to_string(behind_at.join("runs")).unwrap(), "run\nrun\n", "each began once");
}

#[test]
fn a_task_elsewhere_is_waited_for_while_its_server_is_away() {
    // An address of its own, where there are several: nobody takes the port while the server is away.
    let host = if cfg!(target_os = "linux") { "127.0.0.2" } else { "127.0.0.1" };
    let folder = folder("", &format!("[http]\nallowed_hosts = [{host:?}]\n{WORK}task = \"after 50ms\""));
    let (at, behind_at) = (folder.path(), folder.path().join("behind"));
    let behind = Server::start(&behind_at, &["--http", &format!("{host}:0")]);
    let place = behind.url().trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let front = format!("[servers.behind]\nurl = {:?}\ntask = \"after 50ms\"\n", behind.url());
    fs::write(at.join("longhaul.toml"), front).unwrap();
    let server = start(at);
    let id = begun(at, server.url());
    followed(at, server.url(), &id);
    let waits = |is_away: bool| {
        let mut looks = 0;
        loop {
            let (_, said, err) = run(at, &["tasks", "get", "--json", "--url", server.url(), &id]);
            assert!(said.contains("\"working\""), "{said}{err}");
            if said.contains("its server does not answer") == is_away {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
            looks += 1;
            assert!(looks < 3000, "{said}{err}");
        }
    };
    drop(behind);
    waits(true);
    let _behind = Server::start(&behind_at, &["--http", &place]);
    waits(false);
    fs::write(behind_at.join("go"), "").unwrap();
    let (code, said, err) = run(at, &["tasks", "wait", &id, "--url", server.url()]);
    assert_eq!(code, 0, "{said}{err}");
    assert_eq!(run(at, &["tasks", "result", &id]).1, "ended\n");
    assert_eq!(fs::read_to_string(behind_at.join("runs")).unwrap(), "run\n", "it began once");
}

#[test]
fn a_task_of_a_program_that_ends_with_us_is_gone_on_with_called_again_or_lost() {
    // Whether the program keeps its tasks, and what its operator says; how often it worked, and what comes of it.
    for (kept, rerun, runs, comes) in [
        // It says itself that what it ran has ended with it.
        ("sqlite:tasks.db", "never", 1, &["ended by SIGTERM", "was cancelled"][..]),
        ("memory:", "restart", 2, &["ended\n"]),
        ("memory:", "never", 1, &["no such task"]),
    ] {
        let behind = format!("{WORK}task = \"after 50ms\"\n");
        let front = format!(
            "[servers.behind]\ncommand = [{LONGHAUL:?}, \"serve\", \"--stdio\", \"--store\", {kept:?}]\n\
             cwd = \"behind\"\ntask = \"after 50ms\"\nrerun = {rerun:?}\n"
        );
        let folder = folder(&front, &behind);
        let (at, behind_at) = (folder.path(), folder.path().join("behind"));
        let server = start(at);
        assert!(server.said.contains("  server   behind   1 tool   20"), "{}", server.said);
        let id = begun(at, server.url());
        followed(at, server.url(), &id);
        // It is killed, and with it what is behind it.
        drop(server);
        let server = start(at);
        lines(&behind_at.join("runs"), runs);
        fs::write(behind_at.join("go"), "").unwrap();
        let (code, said, err) = run(at, &["tasks", "wait", &id, "--url", server.url()]);
        assert_eq!(code, i32::from(runs == 1), "{kept} {rerun}: {said}{err}");
        let (_, result, why) = run(at, &["tasks", "result", &id]);
        let came = format!("{result}{why}");
        assert!(comes.iter().any(|words| came.contains(words)), "{kept} {rerun}: {came}");
        assert_eq!(fs::read_to_string(behind_at.join("runs")).unwrap(), "run\n".repeat(runs));
    }
}

#[test]
fn s38_a_call_whose_answer_died_with_us_is_lost_or_made_again_as_its_operator_says() {
    for (rerun, runs) in [("never", 1), ("restart", 2)] {
        let folder = folder("", &format!("{WORK}task = \"never\"\nannotations.readOnlyHint = true\n"));
        let (at, behind_at) = (folder.path(), folder.path().join("behind"));
        let front = over_pipes(&format!("task = \"after 50ms\"\nrerun = \"{rerun}\""));
        fs::write(at.join("longhaul.toml"), front).unwrap();
        let server = start(at);
        let id = begun(at, server.url());
        lines(&behind_at.join("runs"), 1);
        drop(server);
        let server = start(at);
        if runs == 2 {
            lines(&behind_at.join("runs"), 2);
        }
        fs::write(behind_at.join("go"), "").unwrap();
        let (code, said, err) = run(at, &["tasks", "wait", &id, "--url", server.url()]);
        let (_, result, lost) = run(at, &["tasks", "result", &id]);
        match runs {
            1 => assert!(code == 1 && lost.contains("it is not called twice"), "{said}{err}{lost}"),
            _ => assert!(code == 0 && result == "ended\n", "{said}{err}{result}"),
        }
        assert_eq!(fs::read_to_string(behind_at.join("runs")).unwrap(), "run\n".repeat(runs));
    }
}

#[test]
fn a_call_of_another_server_may_end_when_ours_is_stopped() {
    let folder = folder("", &format!("{WORK}task = \"never\"\n"));
    let (at, behind_at) = (folder.path(), folder.path().join("behind"));
    fs::write(at.join("longhaul.toml"), over_pipes("task = \"after 50ms\"")).unwrap();
    let mut server = start(at);
    let id = begun(at, server.url());
    lines(&behind_at.join("runs"), 1);
    kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
    server.says("stopping: waiting for 1 call");
    fs::write(behind_at.join("go"), "").unwrap();
    assert!(server.child.wait().unwrap().success());
    let server = start(at);
    let (code, said, err) = run(at, &["tasks", "wait", &id, "--url", server.url()]);
    assert_eq!((code, run(at, &["tasks", "result", &id]).1.as_str()), (0, "ended\n"), "{said}{err}");
    assert_eq!(fs::read_to_string(behind_at.join("runs")).unwrap(), "run\n");
}

#[test]
fn nothing_of_a_server_outlives_us_though_we_are_killed() {
    let script = "setsid sleep 987 & echo $! >> pids; echo $$ >> pids; \"$0\" serve --stdio; sleep 986";
    let front =
        format!("[servers.behind]\ncommand = [\"sh\", \"-c\", {script:?}, {LONGHAUL:?}]\ncwd = \"behind\"\n");
    let folder = folder(&front, SAY);
    let (at, pids) = (folder.path(), folder.path().join("behind/pids"));
    let server = start(at);
    assert!(server.said.contains("  server   behind   1 tool   20"), "{}", server.said);
    assert_eq!(run(at, &["call", server.url(), "say", "what=hush"]).1, "hush loudly\n");
    lines(&pids, 2);
    // It is killed: nobody tells the others to end.
    drop(server);
    let living = || {
        let pids = fs::read_to_string(&pids).unwrap();
        let stat = |pid: &str| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        pids.lines().map(stat).filter(|stat| !stat.is_empty() && !stat.contains(") Z ")).count()
    };
    let mut looks = 0;
    while living() > 0 {
        std::thread::sleep(Duration::from_millis(20));
        looks += 1;
        assert!(looks < 3000, "{} of its processes live", living());
    }
}

#[test]
fn a_server_is_started_by_its_first_call_once_it_is_known_what_it_has() {
    let script = "echo $$ >> pids; exec \"$0\" serve --stdio";
    let front = format!(
        "[servers.behind]\ncommand = [\"sh\", \"-c\", {script:?}, {LONGHAUL:?}]\ncwd = \"behind\"\nstart = \"first-call\"\n"
    );
    let folder = folder(&front, SAY);
    let (at, pids) = (folder.path(), folder.path().join("behind/pids"));
    let server = start(at);
    assert!(server.said.contains("  server   behind   1 tool   20"), "{}", server.said);
    let started = || fs::read_to_string(&pids).unwrap();
    let is_gone = |pid: &str| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    };
    let mut looks = 0;
    while !started().lines().all(is_gone) {
        std::thread::sleep(Duration::from_millis(20));
        looks += 1;
        assert!(looks < 3000, "it goes on, though nobody needs it");
    }
    drop(server);
    let server = start(at);
    let rests = "not connected, and offered still: nothing has needed it yet, and the first call starts it";
    assert!(server.said.contains("  server   behind   1 tool   20"), "{}", server.said);
    assert!(server.said.contains(rests), "{}", server.said);
    assert_eq!(started().lines().count(), 1, "it was started once, to learn what it has");
    assert_eq!(run(at, &["call", server.url(), "say", "what=hush"]).1, "hush loudly\n");
    assert_eq!(started().lines().count(), 2);
}

#[test]
fn an_existing_server_is_made_durable_as_its_example_says() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/existing-server");
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for file in ["notes.sh", "today.txt"] {
        fs::copy(example.join(file), at.join(file)).unwrap();
    }
    let text = fs::read_to_string(example.join("longhaul.toml")).unwrap();
    let (before, behind) = text.split_once("task = \"after 1s\"").unwrap();
    let sooner = format!("{before}task = \"after 50ms\"\nenv.NOTES_PAUSE = \"3\"{behind}");
    fs::write(at.join("longhaul.toml"), sooner).unwrap();
    let server = start(at);
    let said = &server.said;
    assert!(said.contains("  server   notes   1 tool, 1 prompt, 1 resource   2025-06-18\n"), "{said}");
    let call = |wait: &str| run(at, &["call", "--wait", wait, "--json", server.url(), "index"]);
    let (code, said, err) = left_running(call);
    assert_eq!(code, 7, "{said}{err}");
    let (_, listed, _) = run(at, &["tasks", "list", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let id = listed["tasks"][0]["taskId"].as_str().unwrap_or_else(|| panic!("{listed}"));
    drop(server);
    let server = start(at);
    let (code, said, err) = run(at, &["tasks", "wait", id, "--url", server.url()]);
    assert_eq!(code, 0, "{said}{err}");
    assert_eq!(run(at, &["tasks", "result", id]).1, "8 words\n");
}

#[test]
fn a_timeout_goes_on_while_nobody_serves() {
    let behind = TOOLS.replace("after 50ms", "never").replace("\"while", "\"echo run >> runs; while");
    let folder = folder(&over_pipes("task = \"always\"\nrerun = \"restart\"\ntimeout = \"3s\""), &behind);
    let (at, runs) = (folder.path(), folder.path().join("behind/runs"));
    let server = start(at);
    let (code, _, err) = left_running(|wait| run(at, &["call", "--wait", wait, server.url(), "work"]));
    assert_eq!(code, 7, "{err}");
    for _ in 0..3000 {
        if runs.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(server);
    std::thread::sleep(Duration::from_secs(3));
    let _server = start(at);
    let listed: serde_json::Value = serde_json::from_str(&run(at, &["tasks", "list", "--json"]).1).unwrap();
    let id = listed["tasks"][0]["taskId"].as_str().unwrap();
    assert_ne!(run(at, &["tasks", "wait", id]).0, 0);
    let (_, out, err) = run(at, &["tasks", "result", id]);
    assert!((out + &err).contains("it took longer than its timeout of 3s"), "{err}");
    assert_eq!(
        fs::read_to_string(runs).unwrap().lines().count(),
        1,
        "it has no time left to be called again"
    );
}
