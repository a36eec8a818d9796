//! What callers try with the arguments of a command, and advisories about programs that gave in.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use longhaul_gateway::config::{CommandTool, check};
use serde_json::json;

/// The one tool of a configuration with these lines in it.
fn tool(lines: &str) -> CommandTool {
    let text = format!("[tools.t]\ndescription = \"d\"\n{lines}");
    match check("longhaul.toml", &text) {
        Ok(checked) => checked.config.tools.into_iter().next().unwrap(),
        Err(mistakes) => panic!("{mistakes}"),
    }
}

/// Words that mean something to some shell, some program or some terminal.
const PAYLOADS: [&str; 28] = [
    "; id",
    "| id",
    "&& id",
    "|| id",
    "& id",
    "$(id)",
    "`id`",
    "${IFS}id",
    "$HOME",
    "%PATH%",
    "!!",
    "> /tmp/x",
    "< /etc/passwd",
    "a b",
    "'a'",
    "\"a\"",
    "a\\",
    "*",
    "?",
    "~",
    "~root",
    "@file",
    "{a}",
    "{{a}}",
    "$((1))",
    "#x",
    "=x",
    "a;b'c\"d`e$f",
];

#[test]
fn s30_a_value_is_one_argument_whatever_is_in_it() {
    let tool = tool("command = [\"x\", \"{a}\", \"--p={a}\", \"end\"]\ninput.a = {}\n");
    for payload in PAYLOADS {
        let bound = tool.bind(&json!({"a": payload}).to_string()).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(bound.argv, ["x", payload, &format!("--p={payload}"), "end"]);
    }
}

#[test]
fn s30_no_placeholder_stands_in_a_script() {
    for shell in ["sh", "bash", "/bin/sh", "dash", "zsh"] {
        let text = format!(
            "[tools.t]\ndescription = \"d\"\ncommand = [\"{shell}\", \"-c\", \"echo {{a}}\"]\ninput.a = {{}}\n"
        );
        assert!(check("longhaul.toml", &text).is_err(), "{shell}");
    }
}

#[test]
fn s31_what_a_program_would_take_for_an_option_is_refused() {
    let tool = tool("command = [\"cargo\", \"test\", \"-p\", \"{a}\"]\ninput.a = {}\n");
    for option in
        ["--config=net.offline=false", "-Zunstable", "-", "--", "--upload-pack=id", "-oProxyCommand=id"]
    {
        assert!(tool.bind(&json!({"a": option}).to_string()).is_err(), "{option}");
    }
    for control in ["a\0b", "\0"] {
        assert!(tool.bind(&json!({"a": control}).to_string()).is_err(), "{control:?}");
    }
}

/// LiteLLM let whoever could call it add a server, which is a command. Here what a caller sends is data alone.
#[test]
fn advisory_cve_2026_30623() {
    let tool = tool("command = [\"x\", \"{a}\"]\ninput.a = {}\n");
    for members in [
        json!({"a": "b", "command": ["sh", "-c", "id"]}),
        json!({"a": "b", "env": {"LD_PRELOAD": "/tmp/x.so"}}),
        json!({"a": "b", "cwd": "/"}),
        json!({"a": ["b", "c"]}),
        json!({"a": {"from": "HOME"}}),
    ] {
        assert!(tool.bind(&members.to_string()).is_err(), "{members}");
    }
}

/// Flowise let a request choose the arguments of a program that it had on a list of harmless ones.
#[test]
fn advisory_cve_2026_40933() {
    let tool = tool("command = [\"npx\", \"{a}\"]\ninput.a = { pattern = \"^[a-z]+$\" }\n");
    for package in ["-c", "-y", "--call=id", "x --call id", "x\n-c", "x\n", "../x", "@evil/x"] {
        assert!(tool.bind(&json!({"a": package}).to_string()).is_err(), "{package:?}");
    }
}

/// FastMCP's installer put a server's name into a line that a shell read.
#[test]
fn advisory_cve_2025_62801() {
    for name in ["a & calc", "a;id", "a b", "$(id)", "a\nb", "a/../b"] {
        let text = format!("[tools.{name:?}]\ndescription = \"d\"\ncommand = [\"x\"]\n");
        assert!(check("longhaul.toml", &text).is_err(), "{name:?} is no name");
    }
}

/// And did it again with what stood behind an `&`.
#[test]
fn advisory_cve_2025_64340() {
    let tool = tool("command = [\"x\", \"{a}\"]\ninput.a = {}\n");
    for payload in ["a&calc", "a&&calc", "a|calc", "a^&calc", "%COMSPEC% /c calc"] {
        let bound = tool.bind(&json!({"a": payload}).to_string()).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(bound.argv, ["x", payload]);
    }
}
