//! `[servers.*]`: what others serve, served on.

use std::fs;
use std::path::Path;

use super::{LONGHAUL, Server, TOKEN, run};

/// A folder in which `longhaul.toml` serves another configuration on, `behind/longhaul.toml`.
fn folder(front: &str, behind: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("behind")).unwrap();
    fs::write(folder.path().join("longhaul.toml"), front).unwrap();
    fs::write(folder.path().join("behind/longhaul.toml"), behind).unwrap();
    folder
}

/// The section of a server that runs this program on that configuration.
fn over_pipes(more: &str) -> String {
    format!("[servers.behind]\ncommand = [{LONGHAUL:?}, \"serve\", \"--stdio\"]\ncwd = \"behind\"\n{more}\n")
}

const SAY: &str = "[tools.say]\ndescription = \"Say it\"\ncommand = [\"printf\", \"%s %s\", \"{what}\", \"{how}\"]\n\
                   input.what = { description = \"What\" }\ninput.how = { default = \"loudly\" }\n";

fn start(folder: &Path) -> Server {
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
    for revision in ["2024-11-05", "2025-11-25", "2026-07-28"] {
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
fn a_server_over_http_is_shown_what_signs_in_and_callers_are_not() {
    let folder = folder("", &format!("[auth.tokens]\nfront = {{ from = \"file:token\" }}\n{SAY}"));
    let at = folder.path();
    fs::write(at.join("behind/token"), TOKEN).unwrap();
    let behind = start(&at.join("behind"));
    let front = |headers: &str| format!("[servers.behind]\nurl = {:?}\n{headers}\n", behind.url());
    let with_token = "headers.Authorization = { from = \"file:token\", prefix = \"Bearer \" }";
    fs::write(at.join("token"), TOKEN).unwrap();
    fs::write(at.join("longhaul.toml"), front(with_token)).unwrap();
    let server = start(at);
    assert!(server.said.contains("  server   behind   1 tool   20"), "{}", server.said);
    assert_eq!(run(at, &["call", server.url(), "say", "what=hush"]).1, "hush loudly\n");
    // It ends and is there again, and nobody here has to do anything.
    let place = behind.url().trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    drop(behind);
    let (code, _, err) = run(at, &["call", server.url(), "say", "what=hush"]);
    assert_eq!(code, 1, "{err}");
    let _behind = Server::start(&at.join("behind"), &["--http", &place]);
    assert_eq!(run(at, &["call", server.url(), "say", "what=hush"]).1, "hush loudly\n");
}

#[test]
fn a_server_that_cannot_be_reached_keeps_no_other_tool_from_being_served() {
    let own = "[tools.say]\ndescription = \"Say it here\"\ncommand = [\"printf\", \"here\"]\n";
    let gone = "[servers.gone]\ncommand = [\"/nowhere/server\"]\n[servers.secret]\ncommand = [\"true\"]\n\
                env.TOKEN = { from = \"env:NOT_SET_ANYWHERE\" }\n";
    let folder = folder(&format!("{own}{gone}{}", over_pipes("prefix = \"b-\"")), SAY);
    let server = start(folder.path());
    let said = &server.said;
    assert!(said.contains("  server   gone   not reached, and tried again: cannot reach "), "{said}");
    assert!(said.contains("secret   not reached, and tried again: the environment variable"), "{said}");
    assert!(said.contains("  server   behind   1 tool   20"), "{said}");
    assert_eq!(run(folder.path(), &["call", server.url(), "say"]).1, "here\n");
    assert_eq!(run(folder.path(), &["call", server.url(), "b-say", "what=x"]).1, "x loudly\n");
}
