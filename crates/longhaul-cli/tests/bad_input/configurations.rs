//! Configurations with mistakes, at `check` and at `serve`: exit code 2, and where and what to change.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Output;

use crate::rig::place::Place;

fn run(place: &Place, arguments: &[&str]) -> (i32, String) {
    let Output { status, stdout, stderr } = place.program().args(arguments).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&stdout), "", "standard output is for results");
    (status.code().unwrap(), String::from_utf8(stderr).unwrap())
}

/// Configurations of every kind of mistake, kept with what the library says of them.
fn mistakes() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../longhaul-gateway/tests/config_mistakes");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect()
}

#[test]
fn every_kind_of_mistake_ends_both_verbs_with_code_2() {
    let place = Place::new("");
    let files = mistakes();
    assert!(files.len() > 40, "{} kinds of mistake", files.len());
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        fs::copy(&file, place.path(name)).unwrap();
        let (code, said) = run(&place, &["check", name]);
        if code == 0 {
            // What is only doubtful is said and served.
            assert!(said.contains("warning"), "{name}: {said}");
            continue;
        }
        assert_eq!(code, 2, "{name}: {said}");
        assert!(said.contains("error: ") && said.contains(&format!("{name}:")), "{said}");
        assert!(!said.contains('\u{1b}'), "no colour where nobody sees it: {said:?}");
        for arguments in [["serve", name, "--http", "127.0.0.1:0"].as_slice(), &["serve", name, "--stdio"]] {
            assert_eq!(run(&place, arguments), (2, said.clone()), "{name}: both verbs say the same");
        }
        assert!(!place.path("longhaul.db").exists(), "{name}: nothing is begun");
    }
}

#[test]
fn a_mistake_is_shown_with_its_line_a_caret_and_what_to_write() {
    let place = Place::new("");
    fs::write(place.path("bad.toml"), "[tools.x]\ndescription = \"d\"\ncomand = [\"true\"]\n").unwrap();
    let (code, said) = run(&place, &["check", "bad.toml"]);
    assert_eq!(code, 2);
    for part in ["error: ", "--> bad.toml:3:1", "comand = [\"true\"]", "^^^^^^", "command"] {
        assert!(said.contains(part), "{part:?} in\n{said}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_said_so() {
    let place = Place::new("");
    let attacks: Vec<(&str, &str)> = vec![
        ("missing.toml", "missing.toml"),
        (".", "name the file inside it"),
        ("longhaul.toml/x", "longhaul.toml/x"),
    ];
    for (file, part) in attacks {
        for arguments in [["check", file].as_slice(), &["serve", file, "--http", "127.0.0.1:0"]] {
            let (code, said) = run(&place, arguments);
            assert_eq!(code, 2, "{said}");
            assert!(said.starts_with("error: ") && said.contains(part), "{said}");
        }
    }
    fs::write(place.path("latin.toml"), b"[server]\nname = \"\xff\"\n").unwrap();
    let (code, said) = run(&place, &["check", "latin.toml"]);
    assert!(code == 2 && said.contains("UTF-8"), "{said}");
    fs::write(place.path("nul.toml"), b"\0\0\0\0").unwrap();
    assert_eq!(run(&place, &["check", "nul.toml"]).0, 2);
    fs::write(place.path("empty.toml"), b"").unwrap();
    let (code, said) = run(&place, &["check", "empty.toml"]);
    assert!(code == 0 && said.contains("has no tools") && said.contains("help: a tool is"), "{said}");
    if !rustix::process::geteuid().is_root() {
        fs::set_permissions(place.path("longhaul.toml"), fs::Permissions::from_mode(0o000)).unwrap();
        let (code, said) = run(&place, &["check", "longhaul.toml"]);
        assert!(code == 2 && said.contains("ermission"), "{said}");
    }
}

#[test]
fn command_lines_with_mistakes_are_refused_with_code_2() {
    let place = Place::new("");
    let attacks: &[(&[&str], &str)] = &[
        (&["serve", "longhaul.toml", "--http", "nowhere"], "invalid value 'nowhere'"),
        (&["serve", "longhaul.toml", "--http", "127.0.0.1:99999"], "invalid value"),
        (&["serve", "longhaul.toml", "--http", "127.0.0.1:0", "--stdio"], "cannot be used with"),
        (&["serve", "longhaul.toml", "--store", "mysql://x"], "mysql"),
        (&["serve", "longhaul.toml", "--sotre", "memory:"], "--store"),
        (&["serve", "longhaul.toml", "more"], "unexpected argument"),
        (&["serv"], "serve"),
        (&["--no-such"], "--no-such"),
    ];
    for (arguments, part) in attacks {
        let (code, said) = run(&place, arguments);
        assert_eq!(code, 2, "{arguments:?}: {said}");
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
    for address in ["0.0.0.0:0", "[::]:0"] {
        let (code, said) = run(&place, &["serve", "longhaul.toml", "--http", address]);
        assert_eq!(code, 2, "{said}");
        assert!(
            said.contains(
                "help: serve on 127.0.0.1, say in `[auth]` who may call, or pass --allow-anonymous"
            ),
            "{said}"
        );
    }
    assert!(!place.path("longhaul.db").exists());
}

#[test]
fn a_port_in_use_is_said_and_the_store_is_left_alone() {
    let place = Place::new("");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, said) =
        run(&place, &["serve", "longhaul.toml", "--http", &address, "--store", "sqlite:tasks.db"]);
    assert_ne!(code, 0);
    assert!(said.contains(&address) && said.contains("choose a port: --http"), "{said}");
    assert!(!place.path("tasks.db").exists(), "a server that cannot serve takes nothing up");
}

#[test]
fn stores_of_kinds_to_come_are_refused() {
    let place = Place::new("");
    for url in ["mysql://localhost/x", "mongodb://localhost"] {
        let (code, said) = run(&place, &["serve", "longhaul.toml", "--http", "127.0.0.1:0", "--store", url]);
        assert_eq!(code, 2, "a mistake in the command line: {said}");
        assert!(
            said.contains("use sqlite:FILE, postgres://HOST/DATABASE, redis://HOST or memory:"),
            "{said}"
        );
        fs::write(
            place.path("other.toml"),
            format!("[store]\nurl = \"{url}\"\n[tools.t]\ndescription = \"d\"\ncommand = [\"true\"]\n"),
        )
        .unwrap();
        let (code, said) = run(&place, &["check", "other.toml"]);
        assert_ne!(code, 0, "{said}");
        assert!(
            said.contains(
                "in this release: use sqlite:FILE, postgres://HOST/DATABASE, redis://HOST or memory:"
            ),
            "{said}"
        );
    }
}
