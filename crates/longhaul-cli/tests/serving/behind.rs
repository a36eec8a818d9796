//! What `longhaul doctor` says of the servers behind this one, held against what `serve` says.

use std::fs;
use std::path::Path;

use longhaul::client::auth::{FileTokens, TokenStore as _};
use serde_json::Value;

use super::upstreams::{folder, over_pipes, start};
use super::{longhaul, run};

/// A server of the legacy era that lists one tool twice, and another that is none.
const LISTS: &str = r#"
answer() {
    printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"
}
while IFS= read -r line; do
    id=${line#*\"id\":} id=${id%%,*}
    case $line in
    *'"method":"initialize"'*)
        answer '"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"lists","version":"1"}}'
        ;;
    *'"method":"tools/list"'*)
        answer '"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}},{"name":"a","inputSchema":{"type":"object"}},{"name":"bad"}]}'
        ;;
    *'"id":'*) answer '"error":{"code":-32601,"message":"Method not found"}' ;;
    esac
done
"#;

#[test]
fn doctor_warns_of_what_serve_leaves_out() {
    let front = "[http]\nlisten = \"unix:mcp.sock\"\n[servers.lists]\ncommand = [\"sh\", \"lists.sh\"]\n";
    let folder = folder(front, "");
    let at = folder.path();
    fs::write(at.join("lists.sh"), LISTS).unwrap();
    let (code, said, _) = run(at, &["doctor"]);
    let bad = "lists: 1 tool, 2025-06-18; a tool that is listed as \"bad\" is not served: missing field `inputSchema`; and 1 more\n";
    assert!(code == 0 && said.contains(&format!("warn  servers   {bad}")), "{said}");
    let served = start(at).said.clone();
    assert!(served.contains("  server   lists   1 tool   2025-06-18"), "{served}");
    assert!(served.contains("a tool that is listed as \"bad\" is not served"), "{served}");
}

#[test]
fn a_server_that_does_not_speak_the_revision_it_is_held_to_is_told_so() {
    let front = "[servers.old]\ncommand = [\"sh\", \"lists.sh\"]\nrevision = \"2026-07-28\"\n";
    let folder = folder(front, "");
    let at = folder.path();
    fs::write(at.join("lists.sh"), LISTS).unwrap();
    let why = "it does not speak 2026-07-28, as `revision` of `[servers.old]` wants it to: Method not found";
    let (code, said, _) = run(at, &["doctor"]);
    assert!(code == 1 && said.contains(&format!("FAIL  servers   old: {why}\n")), "{said}");
    let served = start(at).said.clone();
    assert!(served.contains(why), "{served}");
}

/// What `doctor --json` finds, each with how it is; and its exit code.
fn findings(at: &Path) -> (i32, Vec<(String, String, String)>) {
    let mut doctor = longhaul(at, &["doctor", "--json"]);
    let output = doctor.env("XDG_STATE_HOME", at.join("state")).env_remove("APP_SECRET").output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let text = |finding: &Value, member: &str| finding[member].as_str().unwrap().to_owned();
    let checks = found["checks"].as_array().unwrap().iter();
    let checks = checks.map(|one| (text(one, "check"), text(one, "state"), text(one, "found"))).collect();
    (output.status.code().unwrap(), checks)
}

#[test]
fn what_is_kept_of_signing_in_and_cannot_be_used_keeps_doctor_from_nothing_else() {
    let url = "https://127.0.0.1:1/mcp";
    let front =
        format!("[http]\nlisten = \"unix:mcp.sock\"\n[servers.away]\nurl = {url:?}\n{}", over_pipes(""));
    let folder = folder(&front, "[tools.say]\ndescription = \"Say it\"\ncommand = [\"printf\", \"hello\"]\n");
    let (at, kept) = (folder.path(), folder.path().join("state/longhaul/tokens.json"));
    let has = |found: &[(String, String, String)], check: &str, state: &str, words: &str| {
        let is_it =
            |one: &&(String, String, String)| one.0 == check && one.1 == state && one.2.contains(words);
        assert_eq!(found.iter().filter(is_it).count(), 1, "{check} {state} {words}: {found:?}");
    };
    // Of one server: its secret is where nothing is.
    let identity = r#"{"client_id":"app","client_secret":"env:APP_SECRET","issuer":"https://127.0.0.1:1"}"#;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let tokens = FileTokens::new(&kept);
    runtime.block_on(tokens.save(&format!("login {url}"), identity.to_owned().into())).unwrap();
    let (code, found) = findings(at);
    assert_eq!(code, 1, "{found:?}");
    has(&found, "servers", "fail", "away: ");
    has(&found, "servers", "ok", "behind: 1 tool");
    has(&found, "address", "ok", "is free");
    // All of it: then it is not known what programs may not inherit, and none is started.
    fs::write(&kept, "{").unwrap();
    let (code, found) = findings(at);
    assert_eq!(code, 1, "{found:?}");
    has(&found, "servers", "fail", "");
    has(&found, "address", "ok", "is free");
}
