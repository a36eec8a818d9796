//! Servers by the names that editors have for them, and editors told of servers.

use std::path::Path;

use serde_json::{Value, json};

use super::answers::Person;
use super::ends::{WAITS, call_for};
use super::{Server, folder, longhaul};

/// Runs the program for a user whose home is in `folder`.
pub(super) fn run(folder: &Path, words: &[&str]) -> (i32, String, String) {
    let home = folder.join("home");
    let mut command = longhaul(folder, words);
    super::ended(command.env("HOME", &home).env_remove("XDG_CONFIG_HOME").output().unwrap())
}

#[test]
fn a_server_is_found_by_the_name_that_an_editor_has_for_it() {
    let folder = folder();
    let server = Server::start(folder.path());
    let file = folder.path().join(".vscode/mcp.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let text =
        format!("{{ // ours\n\"servers\": {{ \"ci\": {{ \"url\": \"{}?key=s3cret\" }} }} }}", server.url);
    std::fs::write(file, text).unwrap();
    let at = |words: &[&str]| run(folder.path(), words);
    assert!(at(&["tools", "vscode:ci"]).1.contains("say(word: hello|bye"));
    assert_eq!(at(&["call", "vscode:ci", "say", "word=hello"]).1, "hello\n");
    let (_, code, out, err) = call_for(at, &WAITS, &["vscode:ci", "work"]);
    let id = err.split_once("longhaul tasks watch ").unwrap_or_else(|| panic!("{err}")).1;
    let id = id.split_whitespace().next().unwrap().to_owned();
    assert!(code == 7 && out.is_empty() && err.contains("--url vscode:ci"), "{err}");
    assert_eq!(at(&["tasks", "get", &id, "--url", "vscode:ci"]).0, 0);
    super::let_go(folder.path());
    let (_, out, _) = at(&["targets", "--json"]);
    let targets: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&targets["targets"][0]["target"], &targets["targets"][0]["place"]),
        (&"vscode:ci".into(), &server.url.as_str().into())
    );
    let (code, out, err) = at(&["targets", "vscode"]);
    assert!(code == 0 && !(out + &err).contains("s3cret"), "{err}");
    let state = std::fs::read_to_string(folder.path().join("state/longhaul/tasks.json")).unwrap();
    assert!(!state.contains("s3cret"), "{state}");
    for (words, said) in [
        (["tools", "vscod:ci"], "did you mean `vscode`?"),
        (["tools", "vscode:ic"], "did you mean `vscode:ci`?"),
        (["tools", "cursor:ci"], "Cursor has no server `ci`"),
    ] {
        let (code, _, err) = at(&words);
        assert!(code == 2 && err.contains(said), "{words:?}: {err}");
    }
}

/// C22 of `conformance/REQUIREMENTS.md`, too.
#[test]
fn a_host_is_told_of_a_server_when_its_user_agrees() {
    let folder = folder();
    let at = |words: &[&str]| run(folder.path(), words);
    let file = folder.path().join(".mcp.json");
    let (code, out, _) = at(&["connect", "claude", "--print"]);
    assert!(code == 0 && out.contains("\"bench\"") && out.contains("http://127.0.0.1:8420/mcp"), "{out}");
    let (code, _, err) = at(&["connect", "claude"]);
    assert!(code == 2 && err.contains("nothing is written") && !file.exists(), "{err}");
    let mut person = Person::at(folder.path(), &["connect", "claude"]);
    person.sees("+     \"bench\": {");
    person.sees("write it? [y/N]: ");
    person.types("n");
    person.sees("nothing is written");
    assert!(person.ends().0 == 0 && !file.exists());
    let (code, _, err) = at(&["connect", "claude", "--stdio", "--yes"]);
    assert_eq!(code, 0, "{err}");
    let (code, out, err) = at(&["call", "claude:bench", "say", "word=bye"]);
    assert_eq!((code, out.as_str()), (0, "bye\n"), "{err}");
    let starts = err.lines().find(|line| line.starts_with("note: claude:bench starts "));
    assert!(starts.is_some_and(|line| line.contains(" serve ") && line.contains(" --stdio")), "C22: {err}");
    let (code, _, err) = at(&["connect", "claude", "--stdio"]);
    assert!(code == 0 && err.contains("has it already"), "{err}");
    let (code, _, err) = at(&["connect", "claude", "--yes"]);
    assert!(code == 0 && err.contains("what it was is in"), "{err}");
    assert!(std::fs::read_to_string(&file).unwrap().contains("\"type\": \"http\""));
    // A line of another server that changes is not shown.
    std::fs::write(&file, "{\"mcpServers\": {\"a\": {\"env\": {\"K\": \"s3cret\"}}}}").unwrap();
    let (code, _, err) = at(&["connect", "claude", "--yes"]);
    assert!(code == 0 && err.contains("+     \"bench\": {") && !err.contains("s3cret"), "{err}");
    let (code, _, err) = at(&["connect", "codex", "--user", "--yes", "--url", "https://h.example/mcp"]);
    assert_eq!(code, 0, "{err}");
    let codex = std::fs::read_to_string(folder.path().join("home/.codex/config.toml")).unwrap();
    assert_eq!(codex, "[mcp_servers.longhaul]\nurl = \"https://h.example/mcp\"\n");
    for (words, said) in [
        (&["connect", "vscod"][..], "did you mean `vscode`?"),
        (&["connect", "claude", "none.toml"], "there is no none.toml"),
        (&["connect", "claude-desktop", "--url", "https://h/mcp"], "takes commands only"),
        (
            &["connect", "opencode", "--url", "https://h/mcp", "--name", "servers"],
            "takes `servers` for a setting",
        ),
    ] {
        let (code, _, err) = at(words);
        assert!(code == 2 && err.contains(said), "{words:?}: {err}");
    }
}

#[test]
fn where_no_copy_can_be_kept_nothing_is_changed_and_nothing_passes_for_one() {
    let folder = folder();
    let before = format!("{{\"mcpServers\": {{\"a\": {{\"command\": \"{}\"}}}}}}", "x".repeat(2000));
    std::fs::write(folder.path().join(".mcp.json"), &before).unwrap();
    // No file may be longer than a block of 512 bytes or 1,024, and a write that goes beyond fails.
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" connect claude --yes";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, super::LONGHAUL]).current_dir(folder.path());
    let (code, _, err) = super::ended(command.env("HOME", folder.path().join("home")).output().unwrap());
    assert!(code == 2 && err.contains("File too large"), "{code} {err}");
    let there = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut there: Vec<_> = there.collect();
    there.sort();
    assert_eq!(there, [".mcp.json", "longhaul.toml"]);
    assert_eq!(std::fs::read_to_string(folder.path().join(".mcp.json")).unwrap(), before);
}

#[test]
fn each_host_is_told_in_its_own_form() {
    let folder = folder();
    let at = |words: &[&str]| run(folder.path(), words);
    let url = "https://h.example/mcp";
    let token = "[auth]\nresource = \"https://h.example/mcp\"\n[auth.tokens.ann]\nfrom = \"env:CI_TOKEN\"\n";
    let tool = "[tools.t]\ndescription = \"T\"\ncommand = [\"true\"]\n";
    std::fs::write(folder.path().join("guarded.toml"), format!("[server]\nname = \"ci\"\n{token}{tool}"))
        .unwrap();
    for (host, user, file, member, entry, bearer) in [
        ("zed", true, "home/.config/zed/settings.json", "context_servers", json!({}), "Bearer <CI_TOKEN>"),
        ("zed", false, ".zed/settings.json", "context_servers", json!({}), "Bearer <CI_TOKEN>"),
        (
            "opencode",
            false,
            "opencode.json",
            "mcp",
            json!({ "type": "remote", "enabled": true }),
            "Bearer {env:CI_TOKEN}",
        ),
        (
            "continue",
            false,
            ".continue/mcpServers/mcp.json",
            "mcpServers",
            json!({ "type": "http" }),
            "Bearer <CI_TOKEN>",
        ),
        ("lmstudio", false, "home/.lmstudio/mcp.json", "mcpServers", json!({}), "Bearer <CI_TOKEN>"),
        ("kiro", false, ".kiro/settings/mcp.json", "mcpServers", json!({}), "Bearer ${CI_TOKEN}"),
        (
            "cline",
            false,
            "home/.cline/data/settings/cline_mcp_settings.json",
            "mcpServers",
            json!({ "type": "streamableHttp" }),
            "Bearer <CI_TOKEN>",
        ),
    ] {
        let user: &[&str] = if user { &["--user"] } else { &[] };
        let mut expected = entry.clone();
        expected["url"] = url.into();
        let (code, _, err) = at(&[&["connect", host, "--yes", "--url", url, "--name", "ci"], user].concat());
        assert_eq!(code, 0, "{host}: {err}");
        let path = folder.path().join(file);
        let written =
            |path: &Path| serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(written(&path)[member]["ci"], expected, "{host}");

        let (code, _, err) = at(&[&["connect", host, "guarded.toml", "--yes"], user].concat());
        let is_blank = bearer.contains('<');
        assert!(
            code == 0 && err.contains("put the token itself in the place of <CI_TOKEN>") == is_blank,
            "{host}: {err}"
        );
        expected["headers"] = json!({ "Authorization": bearer });
        assert_eq!(written(&path)[member]["ci"], expected, "{host}");

        // What it wrote is read back: the program started, too.
        assert_eq!(at(&[&["connect", host, "--stdio", "--yes"], user].concat()).0, 0);
        let (code, out, err) = at(&["call", &format!("{host}:bench"), "say", "word=bye"]);
        assert_eq!((code, out.as_str()), (0, "bye\n"), "{host}: {err}");
    }
    // Files of opencode 2 have them one level below.
    let text = r#"{ "mcp": { "servers": { "new": { "type": "remote", "url": "https://new.example/mcp" } }, "old": { "type": "local", "command": ["npx"] } } }"#;
    std::fs::write(folder.path().join("opencode.json"), text).unwrap();
    let (_, out, _) = at(&["targets", "opencode", "--json"]);
    let targets: Value = serde_json::from_str(&out).unwrap();
    let places: Vec<String> = targets["targets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|target| format!("{} {}", target["target"].as_str().unwrap(), target["place"].as_str().unwrap()))
        .collect();
    assert_eq!(places, ["opencode:new https://new.example/mcp", "opencode:old npx …"]);
    let print = || {
        let (code, out, err) = at(&["connect", "opencode", "--url", "https://h.example/mcp", "--print"]);
        assert_eq!(code, 0, "{err}");
        serde_json::from_str::<Value>(&out).unwrap()
    };
    assert!(print()["mcp"]["servers"]["longhaul"].is_object(), "what is printed fits in there");
    std::fs::write(folder.path().join("opencode.json"), "{ \"mcp\": ").unwrap();
    assert!(print()["mcp"]["longhaul"].is_object(), "what cannot be read keeps nothing from being printed");
}

#[test]
fn a_host_with_links_has_one() {
    let folder = folder();
    let link = |host: &str, name: &str| {
        let (code, _, err) =
            run(folder.path(), &["connect", host, "--print", "--url", "https://h/mcp", "--name", name]);
        assert_eq!(code, 0, "{err}");
        err.lines().find_map(|line| line.strip_prefix("or open ")).map(str::to_owned)
    };
    // {"url":"https://h/mcp"}
    let config = "eyJ1cmwiOiJodHRwczovL2gvbWNwIn0%3D";
    let cursor = format!("cursor://anysphere.cursor-deeplink/mcp/install?name=ci&config={config}");
    assert_eq!(link("cursor", "ci"), Some(cursor));
    assert_eq!(link("lmstudio", "a&b"), Some(format!("lmstudio://add_mcp?name=a%26b&config={config}")));
    assert_eq!(link("claude", "ci"), None);
}

/// What was found of each check, by its name; of several under one name the first.
fn doctor(folder: &Path, words: &[&str]) -> (i32, std::collections::BTreeMap<String, (String, String)>) {
    let (code, out, err) = run(folder, &[&["doctor", "--json"], words].concat());
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut found = std::collections::BTreeMap::new();
    for check in report["checks"].as_array().unwrap() {
        let said = format!("{} {}", text(&check["found"]), check["next"].as_str().unwrap_or_default());
        found.entry(text(&check["check"])).or_insert_with(|| (text(&check["state"]), said));
    }
    (code, found)
}

#[test]
fn a_doctor_says_of_a_server_what_is_well_and_what_to_do_about_the_rest() {
    let folder = folder();
    let server = Server::start(folder.path());
    let (code, found) = doctor(folder.path(), &[&server.url]);
    assert_eq!(code, 0, "{found:?}");
    for (check, state, said) in [
        ("reach", "ok", "answers in"),
        ("revision", "ok", "2026-07-28, of the modern era   bench"),
        ("tools", "ok", "5 in"),
        ("tasks", "ok", "io.modelcontextprotocol/tasks (Claude Code), 2025-11-25 (VS Code)"),
        ("auth", "ok", "on this machine"),
        ("clock", "ok", ""),
        ("streams", "ok", ""),
    ] {
        let (found, words) = found.get(check).unwrap_or_else(|| panic!("{check}: {found:?}"));
        assert!(found == state && words.contains(said), "{check}: {found} {words}");
    }
    let (code, found) = doctor(folder.path(), &["http://127.0.0.1:1/mcp"]);
    assert_eq!(code, 1);
    assert!(found["reach"].0 == "fail" && found["reach"].1.contains("is the server running"), "{found:?}");
    let (code, out, _) = run(folder.path(), &["doctor", "http://127.0.0.1:1/mcp"]);
    assert!(code == 1 && out.starts_with("FAIL  reach     cannot reach"), "{out}");
}

#[test]
fn a_doctor_looks_at_what_is_here() {
    let folder = folder();
    let config = format!("{}\n[http]\nlisten = \"127.0.0.1:0\"\n", super::CONFIGURATION);
    std::fs::write(folder.path().join("longhaul.toml"), config).unwrap();
    let (code, found) = doctor(folder.path(), &[]);
    assert_eq!(code, 0, "{found:?}");
    assert!(
        found["config"].1.contains("is never used") && found["store"].1.contains("will be made"),
        "{found:?}"
    );
    assert!(found.contains_key("files") && found["address"].1.contains("is free"), "{found:?}");
    drop(Server::start(folder.path()));
    let (_, found) = doctor(folder.path(), &[]);
    assert!(found["store"].1.contains("0 open of 0 tasks") && found["clock"].0 == "ok", "{found:?}");
    std::fs::write(folder.path().join("longhaul.toml"), "[tools]\nx = 1\n").unwrap();
    let (code, found) = doctor(folder.path(), &[]);
    assert!(code == 1 && found["config"].1.contains("longhaul check longhaul.toml"), "{found:?}");
    std::fs::remove_file(folder.path().join("longhaul.toml")).unwrap();
    let (code, found) = doctor(folder.path(), &[]);
    assert!(code == 1 && found["config"].1.contains("there is no longhaul.toml here"), "{found:?}");
}
