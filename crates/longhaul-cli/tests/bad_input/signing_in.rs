//! Signing in at the command line: to servers that want what they must not have, and by programs that do it at once.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use serde_json::json;

use crate::rig::eventually;
use crate::rig::grantor::{Grantor, pairs};
use crate::rig::http::{connect, request, send};
use crate::rig::place::Place;

/// The program, as somebody whose tokens are kept in this place.
fn somebody(place: &Place, words: &[&str]) -> Command {
    let mut command = place.program();
    command.args(words).env("XDG_STATE_HOME", place.path("state"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn ended(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn run(place: &Place, words: &[&str]) -> (i32, String, String) {
    ended(&somebody(place, words).output().unwrap())
}

/// Signs in, and agrees to whatever is asked for: the parameters with which the user was sent there.
#[track_caller]
fn sign_in(command: &mut Command) -> std::collections::BTreeMap<String, String> {
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut address = String::new();
    while !address.trim_start().starts_with("http") {
        address.clear();
        assert_ne!(said.read_line(&mut address).unwrap(), 0, "nobody is asked to sign in");
    }
    let asked = pairs(address.trim().split_once('?').unwrap().1);
    let (host, path) = asked["redirect_uri"].strip_prefix("http://").unwrap().split_once('/').unwrap();
    // The code says what was agreed to.
    let scope = asked.get("scope").map(|scope| scope.replace(' ', "+")).unwrap_or_default();
    let back = format!("/{path}?code={scope}&state={}", asked["state"]);
    assert_eq!(send(host.parse().unwrap(), &request("GET", &back, &[], b"")).status, 200);
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success(), "{rest}");
    asked
}

#[test]
fn s53_of_programs_that_renew_a_token_at_once_one_asks_and_all_go_on() {
    let (place, grantor) = (Place::new(""), Grantor::start(json!({})));
    let url = grantor.server();
    sign_in(&mut somebody(&place, &["login", "--no-browser", &url]));
    for round in 1..=2 {
        // Whoever renews is answered once all of them want to.
        grantor.expire(4);
        let calls: Vec<_> =
            (0..4).map(|_| somebody(&place, &["call", &url, "echo"]).spawn().unwrap()).collect();
        for call in calls {
            let (code, out, err) = ended(&call.wait_with_output().unwrap());
            assert_eq!((code, out.as_str()), (0, "done\n"), "{err}");
        }
        assert_eq!(grantor.renewals(), round);
    }
}

#[test]
fn who_was_signed_out_elsewhere_is_told_how_to_sign_in() {
    let (place, grantor) = (Place::new(""), Grantor::start(json!({})));
    let url = grantor.server();
    sign_in(&mut somebody(&place, &["login", "--no-browser", &url]));
    grantor.revoke();
    let (code, _, err) = run(&place, &["call", &url, "echo"]);
    assert!(code == 3 && err.contains(&format!("`longhaul login {url}` gets another")), "{err}");
    assert!(!err.contains("access-") && !err.contains("refresh-"), "{err}");
    sign_in(&mut somebody(&place, &["login", "--no-browser", &url]));
    assert_eq!(run(&place, &["call", &url, "echo"]).0, 0);
    assert_eq!(run(&place, &["logout", &url]).0, 0);
    assert_eq!(grantor.heard("POST /revoke").len(), 1);
    assert_eq!(run(&place, &["logout", &url]).0, 5);
}

#[test]
fn c15_who_lacks_a_scope_is_told_how_to_sign_in_for_it() {
    let (place, grantor) = (Place::new(""), Grantor::start(json!({})));
    let url = grantor.server();
    let asked = sign_in(&mut somebody(&place, &["login", "--no-browser", &url]));
    assert_eq!(asked["scope"], "use");
    // A scope may have whatever a shell would run.
    for (scope, written) in [("deploy", "deploy"), ("$(id)`'", r"'$(id)`'\'''")] {
        grantor.demand(scope);
        let (code, _, err) = run(&place, &["call", &url, "echo"]);
        let hint = format!("`longhaul login {url} --scope {written}` signs in for it");
        assert!(code == 3 && err.contains(&hint), "{err}");
        let asked = sign_in(&mut somebody(&place, &["login", "--no-browser", &url, "--scope", scope]));
        assert!(asked["scope"].split(' ').any(|one| one == scope), "{asked:?}");
        assert!(asked["scope"].split(' ').any(|one| one == "use"), "nothing is lost: {asked:?}");
        assert_eq!(run(&place, &["call", &url, "echo"]).1, "done\n");
    }
}

#[test]
fn c05_c08_a_client_that_was_registered_beforehand_is_itself_in_every_verb() {
    let (place, grantor) = (Place::new(""), Grantor::start(json!({ "registration_endpoint": null })));
    let url = grantor.server();
    let login = ["login", "--no-browser", &url, "--client-id", "app"];
    let with = |more: &[&'static str]| -> Vec<&str> { [&login[..], more].concat() };
    let (code, _, err) = run(&place, &with(&["--client-secret", "env:APP"]));
    assert!(code == 2 && err.contains("--issuer"), "whom may it be shown to? {err}");
    let (code, _, err) = run(&place, &with(&["--issuer", "x", "--client-secret", "s3cret"]));
    assert!(code == 2 && err.contains("env:NAME"), "{err}");
    let known = [&login[..], &["--issuer", &grantor.url, "--client-secret", "env:APP"]].concat();
    let (code, _, err) = run(&place, &known);
    assert!(code == 2 && err.contains("cannot be read from env:APP"), "{err}");
    let asked = sign_in(somebody(&place, &known).env("APP", "s3cret"));
    assert_eq!(asked["client_id"], "app");
    let kept = fs::read_to_string(place.path("state/longhaul/tokens.json")).unwrap();
    assert!(kept.contains("env:APP") && !kept.contains("s3cret"), "{kept}");
    grantor.expire(0);
    let call = ended(&somebody(&place, &["call", &url, "echo"]).env("APP", "s3cret").output().unwrap());
    assert_eq!(call.0, 0, "{}", call.2);
    assert_eq!(grantor.renewals(), 1);
    for heard in grantor.heard("POST /token") {
        assert!(heard.authorization.starts_with("Basic "), "{heard:?}");
    }
    let signed_out = somebody(&place, &["logout", &url]).env("APP", "s3cret").output().unwrap();
    assert_eq!(ended(&signed_out).0, 0);
    assert!(!fs::read_to_string(place.path("state/longhaul/tokens.json")).unwrap().contains("env:APP"));
    // Another authorization server is not told who it is.
    let (code, _, err) = run(&place, &with(&["--issuer", "https://login.example"]));
    assert!(code == 3 && err.contains("register one there"), "{err}");
}

#[test]
fn c21_s46_a_browser_is_given_one_word_that_is_an_address() {
    let place = Place::new("");
    let opener = place.path("xdg-open");
    fs::write(&opener, "#!/bin/sh\nprintf '%s\\n' \"$#\" \"$@\" > opened.new && mv opened.new opened\n")
        .unwrap();
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", place.path("").display(), std::env::var("PATH").unwrap());
    for page in [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "http://login.example/authorize",
        "calc.exe",
        "--help",
        "https://me@login.example/authorize",
        "https://login.example/authorize#x",
        "https://login.example/authorize?state=theirs",
    ] {
        let grantor = Grantor::start(json!({ "authorization_endpoint": page }));
        let output = somebody(&place, &["login", &grantor.server()]).env("PATH", &path).output().unwrap();
        let (code, _, err) = ended(&output);
        assert_eq!(code, 3, "{page}: {err}");
        assert!(grantor.heard("POST /register").is_empty(), "{page}");
    }
    assert!(!place.path("opened").exists());
    let grantor = Grantor::start(json!({}));
    let page = format!("{}/a b\"'`$(id);&|<>\n%0a--help?x=$(id)&y='\"", grantor.url);
    let grantor = Grantor::start(json!({ "authorization_endpoint": page }));
    let mut login = somebody(&place, &["login", &grantor.server()]);
    let mut login = login.env("PATH", &path).spawn().unwrap();
    let opened = eventually("the browser", || fs::read_to_string(place.path("opened")).ok());
    let words: Vec<&str> = opened.lines().collect();
    assert_eq!((words[0], words.len()), ("1", 2), "{opened}");
    let address = words[1];
    assert!(address.starts_with("http://127.0.0.1:") && !address.contains([' ', '"', '<', '>']), "{address}");
    // Nothing that comes to the port but the answer ends the sign-in.
    let asked = pairs(address.split_once('?').unwrap().1);
    let (host, _) = asked["redirect_uri"].strip_prefix("http://").unwrap().split_once('/').unwrap();
    let _silent = connect(host.parse().unwrap());
    for junk in ["/", "/callback", "/callback?code=x", "/callback?code=x&state=y", "//callback?state="] {
        assert_eq!(send(host.parse().unwrap(), &request("GET", junk, &[], b"")).status, 404, "{junk}");
    }
    assert!(login.try_wait().unwrap().is_none());
    login.kill().unwrap();
    login.wait().unwrap();
}
