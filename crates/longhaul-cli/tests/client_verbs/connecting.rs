//! What `connect` does to files that are there, and what it refuses.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use super::folder;
use super::hosts::run;

#[test]
fn each_copy_of_a_file_stays_and_what_is_replaced_is_named_without_its_secrets() {
    let folder = folder();
    let at = |words: &[&str]| run(folder.path(), words);
    let (file, mine) = (folder.path().join(".mcp.json"), folder.path().join(".mcp.json.bak"));
    let first = r#"{ "mcpServers": { "ci": { "command": "npx", "args": ["--token", "s3cret"] } } }"#;
    fs::write(&file, first).unwrap();
    fs::write(&mine, "mine").unwrap();
    let connect = |url: &str| at(&["connect", "claude", "--yes", "--name", "ci", "--url", url]);
    let (code, _, err) = connect("https://one.example/mcp?team=a");
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("note: `ci` is there already (npx …): it is replaced"), "{err}");
    assert!(err.contains(".mcp.json.bak.1") && !err.contains("s3cret"), "{err}");
    let (code, _, err) = connect("https://two.example/mcp");
    assert!(code == 0 && err.contains("already (https://one.example/mcp): it is replaced"), "{err}");
    let copy =
        |number: &str| fs::read_to_string(folder.path().join(format!(".mcp.json.bak{number}"))).unwrap();
    assert_eq!((copy(""), copy(".1")), ("mine".to_owned(), first.to_owned()));
    assert!(copy(".2").contains("https://one.example/mcp"));

    // What it says in other words it has already.
    let entry = r#"{"mcpServers":{"ci":{"url":"https://two.example/mcp",   "type":"http"}}}"#;
    fs::write(&file, entry).unwrap();
    let (code, _, err) = connect("https://two.example/mcp");
    assert!(code == 0 && err.contains("has it already"), "{err}");
    assert_eq!(fs::read_to_string(&file).unwrap(), entry);
    let (code, _, err) = at(&["connect", "claude", "--yes", "--name", "new", "--url", "https://h/mcp"]);
    assert!(code == 0 && !err.contains("is replaced"), "{err}");
}

#[test]
fn a_file_that_begins_with_a_mark_of_its_bytes_is_read_and_keeps_it() {
    let folder = folder();
    let at = |words: &[&str]| run(folder.path(), words);
    let file = folder.path().join(".vscode/mcp.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "\u{feff}{ \"servers\": { \"a\": { \"url\": \"http://127.0.0.1:1/mcp\" } } }\n")
        .unwrap();
    let (code, out, err) = at(&["targets", "vscode"]);
    assert!(code == 0 && out.contains("vscode:a") && err.is_empty(), "{out}{err}");
    let (code, _, err) = at(&["connect", "vscode", "--yes", "--name", "b", "--url", "https://h.example/mcp"]);
    assert_eq!(code, 0, "{err}");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("\u{feff}{") && text.matches('\u{feff}').count() == 1, "{text:?}");
    let servers: Value = serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap();
    assert!(servers["servers"]["a"].is_object() && servers["servers"]["b"].is_object(), "{text}");
}

#[test]
fn of_opencode_the_file_that_is_there_is_used() {
    let folder = folder();
    let at = |words: &[&str]| run(folder.path(), words);
    let (plain, commented) = (folder.path().join("opencode.json"), folder.path().join("opencode.jsonc"));
    let before =
        "{\n  // Mine.\n  \"mcp\": { \"old\": { \"type\": \"remote\", \"url\": \"https://old/mcp\" } },\n}\n";
    fs::write(&commented, before).unwrap();
    let connect = |more: &[&str]| {
        let words = ["connect", "opencode", "--yes", "--name", "ci", "--url", "https://h.example/mcp"];
        let (code, _, err) = at(&[&words[..], more].concat());
        assert_eq!(code, 0, "{err}");
    };
    connect(&[]);
    let text = fs::read_to_string(&commented).unwrap();
    assert!(!plain.exists() && text.contains("// Mine.") && text.contains("\"ci\""), "{text}");
    let users = folder.path().join("home/.config/opencode/opencode.jsonc");
    fs::create_dir_all(users.parent().unwrap()).unwrap();
    fs::write(&users, "{}").unwrap();
    connect(&["--user"]);
    assert!(fs::read_to_string(&users).unwrap().contains("\"ci\"") && !users.with_extension("json").exists());
    let (_, out, _) = at(&["targets", "opencode"]);
    assert!(out.contains("opencode:old") && out.contains("opencode:ci"), "{out}");
    // Where both are there, both are read, as the host does it.
    fs::write(&plain, r#"{"mcp":{"new":{"type":"remote","url":"https://new/mcp"}}}"#).unwrap();
    let (_, out, _) = at(&["targets", "opencode"]);
    assert!(["old", "new", "ci"].iter().all(|name| out.contains(&format!("opencode:{name}"))), "{out}");
}

#[test]
fn what_is_in_the_place_of_a_file_is_left_alone_and_named() {
    let folder = folder();
    let connect = |host: &str| {
        let words = ["connect", host, "--yes", "--name", "a b", "--url", "https://h.example/mcp"];
        let (code, _, err) = run(folder.path(), &words);
        assert_eq!(code, 2, "{err}");
        err
    };
    let link = folder.path().join(".mcp.json");
    symlink("nowhere/at/all.json", &link).unwrap();
    let err = connect("claude");
    assert!(err.contains("it is a link to nowhere/at/all.json, which is not there"), "{err}");
    let again = "longhaul connect claude --url https://h.example/mcp --name 'a b' --print";
    assert!(err.contains(again), "{err}");
    assert!(link.is_symlink() && !link.exists(), "it stays what it was");
    fs::write(folder.path().join(".vscode"), "mine").unwrap();
    let err = connect("vscode");
    assert!(err.contains(".vscode is no folder"), "{err}");
    symlink("gone", folder.path().join(".kiro")).unwrap();
    let err = connect("kiro");
    assert!(err.contains(".kiro is a link to gone, which is not there"), "{err}");
}

#[test]
fn what_signs_in_stands_in_no_file_that_others_read() {
    let folder = folder();
    let at = |words: &[&str]| run(folder.path(), words);
    let secret = "https://ann:hunter2@h.example/mcp";
    for words in [
        &["connect", "claude", "--print", "--url", secret][..],
        &["connect", "claude", "--yes", "--url", secret],
        &["server-json", "--name", "com.example/ci", "--description", "Builds", "--url", secret],
    ] {
        let (code, out, err) = at(words);
        assert!(code == 2 && err.contains("a user name or a password"), "{words:?}: {err}");
        assert!(!(out + &err).contains("hunter2"), "{words:?}: {err}");
    }
    assert!(!folder.path().join(".mcp.json").exists());
    let url = "https://h.example/mcp?team=a&token=x";
    for words in [
        &["connect", "claude", "--print", "--url", url][..],
        &["server-json", "--name", "com.example/ci", "--description", "Builds", "--url", url],
    ] {
        let (code, _, err) = at(words);
        assert!(code == 0 && err.contains("`token` in the URL looks like a secret"), "{words:?}: {err}");
    }
}

#[test]
fn what_cannot_be_a_name_or_a_configuration_is_refused_in_words() {
    let folder = folder();
    for name in ["", " ", "../x", "a/../b", "a//b", "."] {
        let words = ["connect", "claude", "--yes", "--url", "https://h/mcp", "--name", name];
        let (code, _, err) = run(folder.path(), &words);
        assert!(code == 2 && err.contains("is no name of a server"), "{name:?}: {err}");
    }
    fs::write(folder.path().join("bad.toml"), "[tools.x]\n").unwrap();
    for words in [&["connect", "claude"][..], &["page"], &["server-json"], &["tasks", "--config"]] {
        for (file, said) in [
            ("none.toml", "error: there is no none.toml\nhelp: go where it is, or name it; "),
            (
                "bad.toml",
                "error: bad.toml is no configuration that can be used\nhelp: `longhaul check bad.toml` says why; ",
            ),
        ] {
            let (code, _, err) = run(folder.path(), &[words, &[file]].concat());
            assert!(code == 2 && err.starts_with(said), "{words:?}: {err}");
        }
    }
    // Each host that a verb takes is named by its help.
    let (_, connect, _) = run(folder.path(), &["connect", "--help"]);
    let (_, targets, _) = run(folder.path(), &["targets", "--help"]);
    let (_, _, err) = run(folder.path(), &["targets", "nothing-like-it"]);
    let names = err.split_once("there are ").unwrap_or_else(|| panic!("{err}")).1.trim();
    for name in names.split(", ") {
        assert!(connect.contains(name) && targets.contains(name), "{name}: {targets}");
    }
}
