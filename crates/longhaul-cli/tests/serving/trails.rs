//! Audit trails that are not where they should be.

use super::{Server, folder, run};

#[test]
fn a_trail_that_is_moved_away_goes_on_in_its_folder_and_that_is_told() {
    let folder = folder(
        "[audit]\npath = \"audit\"\n[tools.note]\ndescription = \"d\"\ncommand = [\"true\"]\ntask = \"always\"",
    );
    let at = folder.path();
    let server = Server::start(at, &["--http", "127.0.0.1:0"]);
    let call = || assert_eq!(run(at, &["call", server.url(), "note"]).0, 0);
    std::fs::rename(at.join("audit"), at.join("moved")).unwrap();
    call();
    server.says("the audit trail's file was removed or replaced");
    let shown = || run(at, &["audit", "show", "audit"]).1;
    let ended = |shown: String| shown.lines().filter(|line| line.contains(" ended ")).count();
    let until = |many: usize| {
        let told = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            ended(shown()) == many
        });
        assert!(told, "{}", shown());
    };
    until(1);
    std::fs::remove_dir_all(at.join("audit")).unwrap();
    call();
    server.says("the audit trail's file was removed or replaced");
    until(1);
    let (code, _, err) = run(at, &["audit", "verify", "audit"]);
    assert!(code == 1 && err.contains("those before it are missing"), "{err}");
}

#[test]
fn where_no_trail_is_nothing_is_as_it_was_written() {
    let folder = folder("");
    let at = folder.path();
    std::fs::create_dir(at.join("audit")).unwrap();
    for words in [
        &["audit", "verify", "audit"][..],
        &["audit", "verify", "."],
        &["audit", "show", "audit", "--who", "ann"],
        &["audit", "show", "audit", "--json"],
    ] {
        let (code, out, err) = run(at, words);
        assert!(
            code == 5 && out.is_empty() && err.contains("there is no trail in "),
            "{words:?}: {code} {err}"
        );
        assert!(err.contains("[audit] path"), "{err}");
    }
}

#[test]
fn a_trail_that_was_taken_away_is_missed_by_who_kept_its_digest() {
    let folder = folder("[audit]\npath = \"audit\"");
    let at = folder.path();
    drop(Server::start(at, &["--http", "127.0.0.1:0"]));
    let (code, out, err) = run(at, &["audit", "verify", "audit"]);
    assert_eq!(code, 0, "{err}");
    let head = out.split_whitespace().next().unwrap();
    let missed = || {
        let (code, out, err) = run(at, &["audit", "verify", "audit", "--head", head]);
        assert!(code == 1 && out.is_empty(), "{code} {out}");
        assert!(err.contains(&format!("error: no entry has the digest {head}\n")), "{err}");
        assert!(err.contains("note: there is no entry in audit\n"), "{err}");
    };
    for file in std::fs::read_dir(at.join("audit")).unwrap() {
        std::fs::write(file.unwrap().path(), "").unwrap();
    }
    missed();
    for file in std::fs::read_dir(at.join("audit")).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    missed();
    std::fs::remove_dir(at.join("audit")).unwrap();
    missed();
    // Nobody says that there was one.
    assert_eq!(run(at, &["audit", "verify", "audit"]).0, 2);
}
