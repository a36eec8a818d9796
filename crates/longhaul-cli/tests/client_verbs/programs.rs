//! What programs that run this one can rely on: failures as JSON, and exit codes.

use std::process::Child;

use serde_json::Value;

use super::{Calling, LONGHAUL, Server, ended, eventually, folder, let_go, longhaul, run, start_work};

/// The failure that is the last line of standard error.
fn failure(err: &str) -> Value {
    let line = err.lines().last().unwrap_or_default();
    serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("no JSON: {err}"))["error"].take()
}

#[test]
fn a_command_line_that_is_none_is_a_line_of_json_where_json_is_asked_for() {
    let folder = folder();
    for (words, said) in [
        (&["tasks", "get", "--json"][..], "not provided: <ID>"),
        (&["call", "--json", "--bogus", "http://127.0.0.1:1/mcp", "x"], "'--bogus'"),
        (&["call", "--json", "--revision", "1999-01-01", "http://127.0.0.1:1/mcp", "x"], "speaks 2026-07-28"),
        (&["call", "--events"], "not provided: <WORDS>"),
        (&["tasks", "gte", "x", "--json"], "'gte'"),
        (&["audit", "show", "gone", "--json"], "cannot be read"),
    ] {
        let (code, out, err) = run(folder.path(), words);
        assert_eq!((code, out.as_str(), err.lines().count()), (2, "", 1), "{words:?}: {err}");
        let failure = failure(&err);
        let message = failure["message"].as_str().unwrap_or_else(|| panic!("{words:?}: {err}"));
        assert!(failure["code"] == "usage" && message.contains(said), "{words:?}: {err}");
        assert!(failure["next"].as_str().is_some_and(|next| !next.is_empty()), "{words:?}: {err}");
    }
    let (code, _, err) = run(folder.path(), &["tools", "--bogus", "--", "serves", "--json"]);
    assert!(code == 2 && err.starts_with("error: "), "that is a word of the command: {err}");
    let (code, out, _) = run(folder.path(), &["call", "--json", "--help"]);
    assert!(code == 0 && out.contains("Usage: "), "{out}");
}

#[test]
fn a_server_that_does_not_speak_the_revision_asked_for_is_one_all_the_same() {
    let folder = folder();
    // It is of the legacy era; and what answers nothing else is no server.
    let script = |initialize: &str| {
        let refused = r#"printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}\n' "$id""#;
        format!(
            "while IFS= read -r line; do id=${{line#*\\\"id\\\":}} id=${{id%%,*}}\n\
             case $line in {initialize} *'\"id\":'*) {refused} ;; esac done\n"
        )
    };
    let greets = r#"*'"method":"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"old","version":"1"}}}\n' "$id" ;;"#;
    std::fs::write(folder.path().join("old.sh"), script(greets)).unwrap();
    std::fs::write(folder.path().join("none.sh"), script("")).unwrap();
    let told = |words: &[&str]| {
        let (code, _, err) = run(folder.path(), &[&["tools", "--json"], words].concat());
        (code, failure(&err))
    };
    let (code, asked) = told(&["--revision", "2026-07-28", "--", "sh", "old.sh"]);
    let said = asked["message"].as_str().unwrap();
    assert!(code == 1 && said == "the command `sh` does not speak 2026-07-28: Method not found", "{asked}");
    assert!(asked["next"].as_str().unwrap().contains("leave out --revision"), "{asked}");
    let (code, asked) = told(&["--", "sh", "none.sh"]);
    let said = asked["message"].as_str().unwrap();
    assert!(code == 4 && said == "the command `sh` is no MCP server: Method not found", "{asked}");
}

#[test]
fn a_configuration_is_described_for_editors_and_for_people() {
    let folder = folder();
    let (code, out, err) = run(folder.path(), &["schema"]);
    let schema: Value = serde_json::from_str(&out).unwrap();
    assert!(code == 0 && err.is_empty() && schema["properties"]["tools"]["description"].is_string(), "{out}");
    let (code, out, _) = run(folder.path(), &["schema", "--reference"]);
    assert!(code == 0 && out.contains("\n# How long it may run."), "{out}");
    std::fs::write(folder.path().join("longhaul.toml"), out).unwrap();
    let (code, _, err) = run(folder.path(), &["check"]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn a_registry_is_told_of_a_configuration_in_its_own_form() {
    let published = include_str!("../../../../conformance/registry/server.schema.json");
    let schema = jsonschema::draft7::new(&serde_json::from_str(published).unwrap()).unwrap();
    let folder = folder();
    let config = |text: &str| std::fs::write(folder.path().join("longhaul.toml"), text).unwrap();
    let told = |words: &[&str]| {
        let (code, out, err) = run(folder.path(), &[&["server-json"], words].concat());
        assert_eq!(code, 0, "{err}");
        let json: Value = serde_json::from_str(&out).unwrap();
        let mistakes: Vec<_> = schema.iter_errors(&json).map(|error| error.to_string()).collect();
        assert!(mistakes.is_empty(), "{mistakes:?} in\n{out}");
        json
    };
    let tool =
        "[tools.t]\ndescription = \"T\"\ncommand = [\"true\"]\nenv.TOKEN = { from = \"env:CI_TOKEN\" }\n";
    let auth = "[auth]\nresource = \"https://ci.example.com/mcp\"\n[auth.tokens.ann]\nfrom = \"env:ANN\"\n";
    config(&format!(
        "[server]\nname = \"com.example/ci\"\nversion = \"1.2.0\"\ntitle = \"CI\"\ninstructions = \"Build and test. Ask first.\"\n{auth}{tool}"
    ));
    let json = told(&["--repository", "https://github.com/example/ci"]);
    assert_eq!((&json["name"], &json["version"]), (&"com.example/ci".into(), &"1.2.0".into()));
    assert_eq!((&json["title"], &json["description"]), (&"CI".into(), &"Build and test.".into()));
    assert_eq!(json["repository"]["source"], "github");
    assert_eq!(json["remotes"][0]["url"], "https://ci.example.com/mcp");
    assert_eq!(json["remotes"][0]["headers"][0]["isSecret"], true);
    assert_eq!(json["$schema"], serde_json::from_str::<Value>(published).unwrap()["$id"]);

    config(&format!("[server]\nname = \"ci\"\n{tool}"));
    let words = ["--name", "io.github.ann/ci", "--description", "Build"];
    let json =
        told(&[&words[..], &["--package", "oci:ghcr.io/ann/ci:1.2.0", "--package", "npm:@ann/ci"]].concat());
    assert_eq!(json["packages"][0]["identifier"], "ghcr.io/ann/ci:1.2.0");
    assert_eq!(json["packages"][1]["environmentVariables"][0]["name"], "CI_TOKEN");
    let json = told(&[&words[..], &["--package", "cargo:ann-ci"]].concat());
    let package = &json["packages"][0];
    assert_eq!((&package["registryType"], &package["identifier"]), (&"cargo".into(), &"ann-ci".into()));
    assert!(package["version"].is_string() && package["transport"]["type"] == "stdio", "{json}");
    for (words, said) in [
        (&[][..], "`ci` is no name in a registry"),
        (&["--name", "io.github.ann/ci"], "no description"),
        (&words[..], "neither served nor packaged"),
        (&["--name", "io.github.ann/ci", "--description", "B", "--package", "ci"], "no package"),
        (&["--name", "io.github.ann/ci", "--description", "B", "--url", "ci"], "no URL"),
    ] {
        let (code, out, err) = run(folder.path(), &[&["server-json"], words].concat());
        assert!(
            code == 2 && out.is_empty() && err.contains(said) && err.contains("help: "),
            "{words:?}: {err}"
        );
    }
}

/// Waits until Ctrl-C is for the program to handle.
fn listens(child: &Child) {
    let status = format!("/proc/{}/status", child.id());
    eventually("it does not listen for Ctrl-C", || {
        let text = std::fs::read_to_string(&status).unwrap();
        let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & 0b10 != 0
    });
}

#[test]
fn a_program_is_told_that_its_user_has_left() {
    let folder = folder();
    let server = Server::start(folder.path());
    let (_calling, _out, id) = start_work(folder.path(), &server.url, &[]);
    let url = format!(" --url {}", server.url);
    for (words, by_url) in [
        (&["tasks", "watch", &id, "--json"][..], true),
        (&["tasks", "watch", &id, "--events"], false),
        (&["tasks", "wait", &id, "--json"], true),
        (&["tasks", "log", &id, "--follow", "--json"], false),
    ] {
        let at: &[&str] = if by_url { &["--url", &server.url] } else { &[] };
        let mut leaving = Calling(longhaul(folder.path(), &[words, at].concat()).spawn().unwrap());
        listens(&leaving.0);
        leaving.interrupt();
        let mut err = String::new();
        std::io::Read::read_to_string(&mut leaving.0.stderr.take().unwrap(), &mut err).unwrap();
        assert_eq!(leaving.code(), Some(130), "{words:?}: {err}");
        let failure = failure(&err);
        assert!(failure["message"].as_str().is_some_and(|said| said.contains(&id)), "{words:?}: {err}");
        let next = format!("longhaul tasks {} {id}{}", words[1], if by_url { &url } else { "" });
        assert_eq!(
            (&failure["code"], &failure["next"]),
            (&"detached".into(), &next.into()),
            "{words:?}: {err}"
        );
    }
    let_go(folder.path());
}

/// Of these processes, those that have not ended.
#[cfg(target_os = "linux")]
fn living(pids: &str) -> Vec<&str> {
    let stat = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let lives = |pid: &&str| stat(pid).rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'));
    pids.lines().filter(lives).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_was_started_ends_with_whoever_started_it_however_that_ends() {
    use rustix::process::Signal;
    // It says nothing, and does not look whether anybody is there.
    let server = "sleep 987 & echo $! >> pids; echo $$ >> pids; while :; do sleep 1; done";
    for verb in [&["call", "say"][..], &["tools"]] {
        for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::KILL] {
            let folder = folder();
            let words = [verb, &["--", "sh", "-c", server]].concat();
            let calling = Calling(longhaul(folder.path(), &words).spawn().unwrap());
            let pids = || std::fs::read_to_string(folder.path().join("pids")).unwrap_or_default();
            eventually("it does not begin", || pids().lines().count() == 2);
            if verb[0] == "call" {
                listens(&calling.0);
            }
            calling.signal(signal);
            eventually(&format!("{verb:?} {signal:?}: its server lives on"), || living(&pids()).is_empty());
        }
    }
}

/// A command that goes on without its server is not taken along.
#[cfg(target_os = "linux")]
#[test]
fn a_durable_command_of_a_server_that_was_started_outlives_whoever_started_it() {
    let folder = folder();
    let words = ["call", "work", "--", LONGHAUL, "serve", "--stdio"];
    let calling = Calling(longhaul(folder.path(), &words).spawn().unwrap());
    let tasks = || run(folder.path(), &["tasks", "list", "--json"]).1;
    eventually("it is no task", || tasks().contains("\"working\""));
    calling.signal(rustix::process::Signal::KILL);
    // What was started is gone by then.
    std::thread::sleep(std::time::Duration::from_secs(5));
    let_go(folder.path());
    let listed: Value = serde_json::from_str(&tasks()).unwrap();
    let id = listed["tasks"][0]["taskId"].as_str().unwrap_or_else(|| panic!("{listed}"));
    let (code, out, err) = run(folder.path(), &["tasks", "watch", id]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("ended"), "{out}");
}

#[test]
fn what_is_no_url_of_a_server_is_used_nowhere() {
    let folder = folder();
    for (words, said) in [
        (&["login", "notaurl"][..], "`notaurl` is no URL of a server"),
        (&["logout", "notaurl"], "`notaurl` is no URL of a server"),
        (&["login", "localhost:8420/mcp"], "did you mean `http://localhost:8420/mcp`?"),
        (&["connect", "vscode", "--yes", "--url", "javascript:x"], "`javascript:x` is no URL of a server"),
        (&["connect", "vscode", "--yes", "--url", "notaurl"], "`notaurl` is no URL of a server"),
        (&["connect", "vscode", "--yes", "--url", "http://"], "`http://` is no URL of a server"),
        (&["connect", "vscode", "--print", "--url", "file:///etc/passwd"], "is no URL of a server"),
    ] {
        let (code, out, err) = ended(longhaul(folder.path(), words).output().unwrap());
        assert_eq!((code, out.as_str()), (2, ""), "{words:?}: {err}");
        assert!(err.contains(said) && err.contains("\nhelp: "), "{words:?}: {err}");
    }
    assert!(!folder.path().join(".vscode").exists(), "an entry was written");
}

#[test]
fn a_shell_completes_every_verb_and_man_shows_each_with_its_example() {
    let folder = folder();
    let (_, help, _) = run(folder.path(), &["help"]);
    let verbs: Vec<&str> = (help.lines().skip_while(|line| *line != "Commands:").skip(1))
        .map_while(|line| line.split_whitespace().next())
        .collect();
    assert!(verbs.contains(&"serve") && verbs.contains(&"man"), "{help}");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let (code, script, err) = run(folder.path(), &["completions", shell]);
        assert_eq!((code, err.as_str()), (0, ""), "{shell}");
        verbs.iter().for_each(|verb| assert!(script.contains(verb), "{shell} knows no {verb}"));
    }
    // As a shell reads it, with the words that a person has typed.
    let (_, script, _) = run(folder.path(), &["completions", "bash"]);
    let completing = format!(
        "{script}\nCOMP_WORDS=(longhaul tasks wa) COMP_CWORD=2\n_longhaul longhaul wa tasks\necho \"${{COMPREPLY[@]}}\""
    );
    let output = std::process::Command::new("bash").args(["-c", &completing]).output().unwrap();
    assert_eq!(ended(output), (0, "watch wait\n".to_owned(), String::new()));

    let (code, out, err) = run(folder.path(), &["man", "pages/man1"]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
    for verb in verbs.iter().filter(|verb| **verb != "help") {
        let page =
            std::fs::read_to_string(folder.path().join(format!("pages/man1/longhaul-{verb}.1"))).unwrap();
        let shown = format!("longhaul {}", verb.replace('-', r"\-"));
        assert!(page.starts_with(".ie") && page.contains(&shown), "{page}");
    }
    std::fs::write(folder.path().join("taken"), "").unwrap();
    let (code, _, err) = run(folder.path(), &["man", "taken"]);
    assert!(code == 1 && err.starts_with("error: taken cannot be made"), "{code}: {err}");
}
