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
