//! What files say, and the servers that they mean.

use super::*;

fn here(folder: &Path) -> Here {
    let home = folder.join("home");
    let project = home.join("work/project");
    std::fs::create_dir_all(project.join("deep")).unwrap();
    Here { folder: project.join("deep"), configuration: Some(home.join(".config")), home: Some(home) }
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn shown(server: Outcome<Server>) -> String {
    match server {
        Ok(server) => format!("{server:?}"),
        Err(failure) => format!("{failure:?}"),
    }
}

#[test]
fn the_servers_of_every_host_are_found_the_nearest_first() {
    let folder = tempfile::tempdir().unwrap();
    let here = here(folder.path());
    let (home, project) = (here.home.clone().unwrap(), here.folder.parent().unwrap().to_owned());
    write(
        &project.join(".vscode/mcp.json"),
        r#"{
        // The one of this project.
        "servers": { "ci": { "type": "http", "url": "http://127.0.0.1:1/mcp" }, },
    }"#,
    );
    write(
        &home.join(".config/Code/User/mcp.json"),
        r#"{"servers":{"ci":{"url":"http://far/mcp"},"mine":{"command":"npx"}}}"#,
    );
    write(
        &project.join(".mcp.json"),
        r#"{"mcpServers":{"a":{"command":"shared"},"b":{"command":"shared"}}}"#,
    );
    let local = serde_json::json!({
        "mcpServers": { "b": { "command": "user" }, "c": { "command": "user" } },
        "projects": { project.to_str().unwrap(): { "mcpServers": { "d": { "command": "local" } } } },
    });
    write(&home.join(".claude.json"), &local.to_string());
    write(
        &home.join(".codex/config.toml"),
        "model = \"x\"\n[mcp_servers.docs]\nurl = \"https://docs.example/mcp\"\n",
    );
    write(&home.join(".cursor/mcp.json"), "{ \"secret\": nonsense");
    let names = |host: &str| {
        let (entries, problems) = Host::named(host).unwrap().servers(&here);
        let names: Vec<String> =
            entries.iter().map(|entry| format!("{} {}", entry.name, entry.place())).collect();
        (names.join(", "), problems.join("; "))
    };
    assert_eq!(names("vscode").0, "ci http://127.0.0.1:1/mcp, mine npx …");
    assert_eq!(names("claude-code").0, "a shared …, b shared …, d local …, c user …");
    assert_eq!(names("codex").0, "docs https://docs.example/mcp");
    assert_eq!(names("gemini"), (String::new(), String::new()));
    let (found, problems) = names("cursor");
    assert!(found.is_empty() && problems.contains("mcp.json: line 1 is no JSON"), "{problems}");

    for (word, said) in [
        ("vscode:ci", "http://127.0.0.1:1/mcp"),
        ("vscod:ci", "did you mean `vscode`?"),
        ("vscode:ci2", "did you mean `vscode:ci`?"),
        ("codex:other", "it has docs"),
        ("gemini:x", "it has none; looked in"),
        ("cursor:x", "is no JSON"),
    ] {
        assert!(is_name(word), "{word}");
        let found = shown(server(word, &here));
        assert!(found.contains(said), "{word}: {found}");
    }
    for word in ["http://host/mcp", "unix:/run/x", "localhost:8420/mcp", "say", "key:=1", "127.0.0.1:80"] {
        assert!(!is_name(word), "{word}");
    }
}

#[test]
fn what_stands_for_something_else_is_replaced_and_no_secret_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let here = here(folder.path());
    let (home, project) = (here.home.clone().unwrap(), here.folder.parent().unwrap().to_owned());
    write(&project.join(".env"), "# secrets\nexport KEY='s3cret one'\nB=2\n");
    write(
        &project.join(".vscode/mcp.json"),
        r#"{
        "inputs": [{ "id": "token", "type": "promptString", "password": true, "description": "The token" },
                   { "id": "mode", "type": "pickString", "default": "fast" }],
        "servers": {
            "run": { "command": "${workspaceFolder}/run", "args": ["${input:mode}", "${env:PATH_THAT_IS_NOT}"] },
            "good": { "command": "${workspaceFolder}/run", "args": ["${input:mode}", "$5"], "envFile": "${workspaceFolder}/.env", "env": { "N": 1 } },
            "ask": { "url": "https://h/mcp?key=s3cret", "headers": { "Authorization": "Bearer ${input:token}" } },
            "neither": {} } }"#,
    );
    write(
        &project.join(".mcp.json"),
        r#"{"mcpServers":{
        "x": {"url":"${LONGHAUL_NO_SUCH:-http://127.0.0.1:2}/mcp","headers":{"authorization":"bearer s3cret"}},
        "y": {"url":"${LONGHAUL_NO_SUCH}/mcp"}}}"#,
    );
    let at = |word: &str| shown(server(word, &here));
    let good = at("vscode:good");
    assert!(
        good.contains(&format!("{}/run", project.display())) && good.contains("\"fast\", \"$5\""),
        "{good}"
    );
    assert!(!good.contains("s3cret"), "{good}");
    assert!(at("vscode:run").contains("`PATH_THAT_IS_NOT` is not known here"));
    // No terminal is there to ask at.
    let ask = at("vscode:ask");
    assert!(ask.contains("LONGHAUL_INPUT_TOKEN") && !ask.contains("s3cret"), "{ask}");
    assert!(at("vscode:neither").contains("neither a command nor a URL"));
    let x = at("claude:x");
    assert!(x.contains("http://127.0.0.1:2/mcp") && !x.contains("s3cret"), "{x}");
    assert!(at("claude:y").contains("`LONGHAUL_NO_SUCH` is not known here"));
    write(
        &project.join("opencode.json"),
        r#"{"mcp":{"run":{"type":"local","command":["{env:LONGHAUL_NO_SUCH}run","$5"],"environment":{"N":"{env:LONGHAUL_NO_SUCH}"}},
        "far":{"type":"remote","url":"https://h/mcp","headers":{"Authorization":"Bearer {env:LONGHAUL_NO_SUCH"}}}}"#,
    );
    let (run, far) = (at("opencode:run"), at("opencode:far"));
    assert!(run.contains("\"run\", \"$5\"") && run.contains("\"N\""), "what is not there is nothing: {run}");
    assert!(far.contains("https://h/mcp"), "{far}");
    write(&project.join("opencode.json"), r#"{"mcp":{"servers":{"type":"remote","url":"https://one/mcp"}}}"#);
    assert!(at("opencode:servers").contains("https://one/mcp"), "a server of opencode 1 by this name");
    write(
        &project.join("opencode.json"),
        r#"{"mcp":{"servers":{"two":{"type":"remote","url":"https://two/mcp"}}}}"#,
    );
    assert!(at("opencode:two").contains("https://two/mcp"));
    assert!(at("opencode:servers").contains("has no server"));
    let (entries, _) = Host::named("vscode").unwrap().servers(&here);
    let shown: Vec<String> = entries.iter().map(Entry::place).collect();
    assert!(shown.contains(&"https://h/mcp".to_owned()), "{shown:?}");
    assert!(!home.join(".mcp.json").exists());
}
