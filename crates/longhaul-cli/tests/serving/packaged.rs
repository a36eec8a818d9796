//! What `packaging/` has the program run, held against the program.

use std::path::Path;

use crate::{Server, TOKEN, call_as, folder, longhaul, run};

/// A file of `packaging/`.
fn packaged(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What an instruction of the recipe says, the last of that name.
fn instruction(name: &str) -> String {
    let recipe = packaged("container/Containerfile");
    let found = recipe.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).next_back();
    found.unwrap_or_else(|| panic!("the recipe has no {name}")).to_owned()
}

/// The words that the image gives the program by itself.
fn by_itself() -> Vec<String> {
    let words = |name| serde_json::from_str::<Vec<String>>(&instruction(name)).unwrap();
    assert_eq!(words("ENTRYPOINT"), ["longhaul"]);
    words("CMD")
}

/// The lines that run a container, and what each gives the program.
fn documented() -> Vec<(String, Vec<String>)> {
    let page = packaged("README.md");
    let runs = page.lines().filter(|line| line.starts_with("podman run ") || line.starts_with("docker run "));
    runs.map(|line| {
        let (_, given) = line.split_once(" longhaul").unwrap_or_else(|| panic!("no image in {line}"));
        let given: Vec<String> = given.split_whitespace().map(str::to_owned).collect();
        (line.to_owned(), if given.is_empty() { by_itself() } else { given })
    })
    .collect()
}

/// The same words with another address where the container's is.
fn at(address: &str, words: &[String]) -> Vec<String> {
    const EVERYWHERE: &str = "0.0.0.0:8420";
    assert!(words.iter().any(|word| word == EVERYWHERE), "{words:?} serve what the port does not lead to");
    words.iter().map(|word| if word == EVERYWHERE { address } else { word }.to_owned()).collect()
}

fn as_strs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// An address that other machines reach, and that no machine has: it is refused before it is listened on, or then.
const ELSEWHERE: &str = "203.0.113.1:8420";

#[test]
fn an_image_lets_nobody_in_by_itself_without_a_credential() {
    let words = at(ELSEWHERE, &by_itself());
    let open = folder("");
    let (code, _, err) = run(open.path(), &as_strs(&words));
    assert!(code == 2 && err.contains("nobody would have to sign in"), "{err}");

    let protected = folder("[auth]\ntokens.ci = { from = \"file:token\" }\n");
    let at_home = protected.path();
    std::fs::write(at_home.join("token"), TOKEN).unwrap();
    let words = at("127.0.0.1:0", &by_itself());
    let server = Server::of(&mut longhaul(at_home, &as_strs(&words)));
    assert_ne!(call_as(at_home, "", &["call", server.url(), "say"]).0, 0);
    let (code, said, err) = call_as(at_home, TOKEN, &["call", server.url(), "--token-env", "TOKEN", "say"]);
    assert!(code == 0 && said.contains("hello"), "{said}{err}");
}

#[test]
fn what_is_documented_for_a_container_serves() {
    let documented = documented();
    assert!(documented.iter().any(|(line, _)| line.starts_with("podman")), "{documented:?}");
    for (line, words) in documented {
        let served = folder("");
        let (_, _, err) = run(served.path(), &as_strs(&at(ELSEWHERE, &words)));
        assert!(err.contains("cannot be listened on"), "{line}: {err}");
        let words = at("127.0.0.1:0", &words);
        let server = Server::of(&mut longhaul(served.path(), &as_strs(&words)));
        let (code, said, err) = run(served.path(), &["call", server.url(), "say"]);
        assert!(code == 0 && said.contains("hello"), "{line}: {said}{err}");
        assert!(served.path().join("longhaul.db").exists(), "{line}: the store is not in the volume");
    }
}

#[test]
fn a_documented_container_is_its_callers_alone_and_writes_as_their_user() {
    let recipe = packaged("container/Containerfile");
    let uid = recipe.split_once("--uid ").and_then(|(_, rest)| rest.split_whitespace().next()).unwrap();
    let published = format!("-p 127.0.0.1:{0}:{0} ", instruction("EXPOSE"));
    let of_podman = format!("--userns=keep-id:uid={uid},gid={uid} ");
    for (line, _) in documented() {
        let owner = if line.starts_with("podman") { &*of_podman } else { "--user \"$(id -u):$(id -g)\" " };
        assert!(line.contains(owner), "{line} cannot write its volume");
        assert!(line.contains(&published), "{line} is published on more than this machine");
        let volume = format!(":{}", instruction("VOLUME"));
        assert!(line.contains(&volume) && instruction("WORKDIR") == instruction("VOLUME"), "{line}");
    }
}

#[test]
fn what_was_built_here_is_not_copied_into_an_image() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let left_out = read(".dockerignore");
    let leaves_out = |name: &str| left_out.lines().any(|line| line == name.trim_start_matches('/'));
    for name in read(".gitignore").lines().chain([".git"]) {
        assert!(leaves_out(name), "{name} is copied into the image");
    }
}

#[test]
fn what_the_unit_runs_serves() {
    let unit = packaged("systemd/longhaul.service");
    let kills = unit.lines().find_map(|line| line.strip_prefix("KillMode="));
    assert_eq!(kills, Some("process"), "what a stopped server leaves running would be ended with it");
    let served = folder("");
    let state = served.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let here = |word: &str| {
        let word = word.replace("/etc/longhaul/", &format!("{}/", served.path().display()));
        word.replace("/var/lib/longhaul/", &format!("{}/", state.display()))
    };
    let words = |key: &str| -> Vec<String> {
        let line = unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let line = line.unwrap_or_else(|| panic!("the unit has no {key}"));
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some("/usr/bin/longhaul"), "{line}");
        words.map(here).collect()
    };
    let (before, mut start) = (words("ExecStartPre"), words("ExecStart"));
    assert_eq!((&*before[0], &before[1..]), ("check", &start[1..]), "what is checked is not what is served");
    let (code, _, err) = run(&state, &as_strs(&before));
    assert_eq!(code, 0, "{err}");
    start.extend(["--http".to_owned(), "127.0.0.1:0".to_owned()]);
    let server = Server::of(&mut longhaul(&state, &as_strs(&start)));
    assert!(state.join("longhaul.db").exists(), "{}", server.said);
    // The pages that it names are those that the program makes.
    let pages = served.path().join("man");
    std::fs::create_dir(&pages).unwrap();
    assert_eq!(run(served.path(), &["man", "man"]).0, 0);
    let named = unit.split_once("man:").and_then(|(_, rest)| rest.split_once('(')).unwrap().0;
    assert!(pages.join(format!("{named}.1")).exists(), "{named}");
}
