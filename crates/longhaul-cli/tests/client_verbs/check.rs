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
}
