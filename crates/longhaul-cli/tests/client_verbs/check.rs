//! `longhaul check`: what it says of a configuration beyond its text.

use super::run;

#[test]
fn a_configuration_is_checked_against_its_machine() {
    let folder = tempfile::tempdir().unwrap();
    let tools = "[tools.a]\ndescription = \"d\"\ncommand = [\"true\"]\ncwd = \"nowhere\"\n\
                 [tools.b]\ndescription = \"d\"\ncommand = [\"no-such-program-at-all\"]\n\
                 [tools.c]\ndescription = \"d\"\ncommand = [\"./longhaul.toml\"]\n\
                 [tools.d]\ndescription = \"d\"\ncommand = [\"true\"]\n\
                 [servers.e]\ncommand = [\"no-such-server-at-all\"]\n\
                 [servers.f]\ncommand = [\"true\"]\ncwd = \"nowhere\"\n\
                 [servers.g]\ncommand = [\"sh\"]\n[servers.h]\ncommand = [\"x\"]\nenv.PATH = \"/opt\"\n";
    std::fs::write(folder.path().join("longhaul.toml"), tools).unwrap();
    let (code, _, err) = run(folder.path(), &["check"]);
    assert_eq!(code, 0, "they are warnings: {err}");
    assert!(err.contains("`cwd` of tool `a` is no folder"), "{err}");
    assert!(err.contains("`no-such-program-at-all` is not found"), "{err}");
    assert!(err.contains("`./longhaul.toml` is not found"), "what cannot be executed is no program: {err}");
    assert!(!err.contains("tool `d`"), "{err}");
    assert!(err.contains("server `e` has no program to run: `no-such-server-at-all` is not found"), "{err}");
    assert!(err.contains("`cwd` of server `f` is no folder"), "{err}");
    assert!(!err.contains("server `g`") && !err.contains("server `h`"), "{err}");
    for place in [4, 7, 10, 15, 18] {
        assert!(err.contains(&format!("longhaul.toml:{place}:")), "line {place}: {err}");
    }
}

#[test]
fn what_serve_refuses_check_refuses_in_the_same_words() {
    let folder = tempfile::tempdir().unwrap();
    let tool = "[tools.a]\ndescription = \"d\"\ncommand = [\"true\"]\n";
    let open = "[http]\nlisten = \"0.0.0.0:18555\"\n";
    let alone = "[server]\nrole = \"front\"\n[store]\nurl = \"memory:\"\n";
    for (refused, why) in [(open, "can be reached from other machines"), (alone, "share a store")] {
        std::fs::write(folder.path().join("longhaul.toml"), format!("{refused}{tool}")).unwrap();
        let (code, _, err) = run(folder.path(), &["check"]);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains(why) && err.contains("help: ") && !err.contains("no mistakes"), "{err}");
        assert_eq!(run(folder.path(), &["serve"]), (2, String::new(), err));
    }
    std::fs::write(folder.path().join("longhaul.toml"), format!("{open}{tool}")).unwrap();
    let (code, _, err) = run(folder.path(), &["check", "--allow-anonymous"]);
    assert_eq!(code, 0, "{err}");
    let (_, said, _) = run(folder.path(), &["doctor"]);
    assert!(said.contains("warn  address   0.0.0.0:18555 can be reached from other machines"), "{said}");
    std::fs::write(folder.path().join("longhaul.toml"), format!("{alone}{tool}")).unwrap();
    let (code, said, _) = run(folder.path(), &["doctor"]);
    assert!(code == 1 && said.contains("FAIL  store     fronts and workers share a store"), "{said}");
    assert!(!said.contains("address   fronts"), "{said}");
}

#[test]
fn check_says_what_serve_with_the_same_words_does() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let tool = "[tools.a]\ndescription = \"d\"\ncommand = [\"true\"]\n";
    let open = "[http]\nlisten = \"0.0.0.0:18555\"\n";
    let worker = "[server]\nrole = \"worker\"\n[store]\nurl = \"memory:\"\n";
    let checked = |config: &str, words: &str| {
        std::fs::write(at.join("longhaul.toml"), format!("{config}{tool}")).unwrap();
        run(at, &["check"].into_iter().chain(words.split_whitespace()).collect::<Vec<_>>())
    };
    for (config, words) in [
        (open, "longhaul.toml --stdio"),
        (open, "--http 127.0.0.1:0 --no-page --no-watch"),
        (open, "--allow-anonymous --metrics 127.0.0.1:0"),
        (worker, "longhaul.toml --store sqlite:tasks.db --state state"),
        (worker, "--role all"),
        ("", "--role front --store sqlite:tasks.db"),
    ] {
        let (code, _, err) = checked(config, words);
        assert!(code == 0 && err.contains("no mistakes"), "{words}: {err}");
    }
    for (config, words, why) in [
        (worker, "--store sqlite:tasks.db --stdio", "a worker answers nobody"),
        ("", "--http 0.0.0.0:18555", "can be reached from other machines"),
        ("", "--role worker --store memory:", "share a store"),
        ("", "--store sqlite:tasks.db --stdio --http 127.0.0.1:0", "cannot be used with"),
    ] {
        let (code, out, err) = checked(config, words);
        assert!(code == 2 && err.contains(why), "{words}: {err}");
        let serve: Vec<_> = ["serve"].into_iter().chain(words.split_whitespace()).collect();
        assert_eq!(run(at, &serve), (code, out, err.replace("longhaul check", "longhaul serve")), "{words}");
    }
    let there: Vec<_> = std::fs::read_dir(at).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(there, ["longhaul.toml"], "nothing is begun");
}
