//! `cargo xtask tidy` as a whole, on small repositories written for the purpose.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A repository that breaks no rule.
const WHOLE: &[(&str, &str)] = &[
    (
        "Cargo.toml",
        "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n[workspace.lints.rust]\nunsafe_code = \"forbid\"\n\
         [workspace.dependencies]\nlonghaul-proto = { path = \"crates/longhaul-proto\" }\n\
         longhaul-store = { path = \"crates/longhaul-store\" }\n",
    ),
    (
        "ARCHITECTURE.md",
        "# Map\n\n## Code map\n\n- `crates/longhaul-proto/` is the core.\n- `crates/longhaul-store/` stores.\n",
    ),
    ("crates/longhaul-proto/Cargo.toml", PROTO),
    ("crates/longhaul-proto/src/lib.rs", "//! The core.\n"),
    ("crates/longhaul-proto/src/dialect/mod.rs", "//! Dialects.\n"),
    (
        "crates/longhaul-store/Cargo.toml",
        "[package]\nname = \"longhaul-store\"\nedition = \"2024\"\n[dependencies]\n[lints]\nworkspace = true\n",
    ),
    ("crates/longhaul-store/src/lib.rs", "//! Stores.\n"),
];

const PROTO: &str =
    "[package]\nname = \"longhaul-proto\"\nedition = \"2024\"\n[dependencies]\n[lints]\nworkspace = true\n";

/// Runs tidy over the whole repository with these files changed or added.
fn tidy(changes: &[(&str, &str)]) -> (bool, String) {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in WHOLE.iter().chain(changes) {
        let full = root.path().join(path);
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        fs::write(full, text).unwrap();
    }
    let lock = run("cargo", &["generate-lockfile", "--offline"], root.path());
    assert!(lock.status.success(), "{}", String::from_utf8_lossy(&lock.stderr));
    let root = root.path().to_str().unwrap();
    let output = run(env!("CARGO_BIN_EXE_xtask"), &["tidy", "--root", root], Path::new(root));
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.success(), text)
}

fn run(program: &str, arguments: &[&str], folder: &Path) -> Output {
    Command::new(program).args(arguments).current_dir(folder).output().unwrap()
}

/// Changes the repository, and expects one finding: this line.
fn expect_finding(changes: &[(&str, &str)], finding: &str) {
    let (passed, text) = tidy(changes);
    assert!(!passed, "{text}");
    assert!(text.lines().any(|line| line.starts_with(finding)), "no line begins with {finding:?}:\n{text}");
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("tidy: ") && last.ends_with(" passed, 1 failed"), "{text}");
}

#[test]
fn a_whole_repository_passes_with_one_line() {
    let (passed, text) = tidy(&[]);
    assert!(passed, "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("tidy: ") && text.trim_end().ends_with(" passed, 0 failed"), "{text}");
}

#[test]
fn a_wrong_arrow_fails_the_build() {
    let manifest = PROTO.replace("[dependencies]", "[dev-dependencies]\nlonghaul-store.workspace = true");
    expect_finding(
        &[("crates/longhaul-proto/Cargo.toml", &manifest)],
        "crates/longhaul-proto/Cargo.toml:5: longhaul-proto must not depend on longhaul-store (dev), ",
    );
}

#[test]
fn a_revision_outside_the_dialects_fails_the_build() {
    expect_finding(
        &[(
            "crates/longhaul-store/src/lib.rs",
            "//! Stores.\nfn f() -> Revision { Revision::V2026_07_28 }\n",
        )],
        "crates/longhaul-store/src/lib.rs:2: Revision::V2026_07_28 is named outside the dialects, ",
    );
}

#[test]
fn a_clock_in_the_core_fails_the_build() {
    expect_finding(
        &[(
            "crates/longhaul-proto/src/timer.rs",
            "//! Timers.\nfn f() {\n    std::time::Instant::now();\n}\n",
        )],
        "crates/longhaul-proto/src/timer.rs:3: std::time::Instant::now reads the clock, ",
    );
}

#[test]
fn io_in_the_core_fails_the_build() {
    expect_finding(
        &[("crates/longhaul-proto/src/file.rs", "//! Files.\nuse std::fs::File;\n")],
        "crates/longhaul-proto/src/file.rs:2: std::fs::File does I/O, ",
    );
}

#[test]
fn a_folder_that_the_document_does_not_name_fails_the_build() {
    expect_finding(&[("chaos/notes.md", "Later.\n")], "ARCHITECTURE.md:3: `chaos/` is not named, ");
}

#[test]
fn a_path_that_the_document_invents_fails_the_build() {
    let map = WHOLE[1].1.to_owned() + "- `fuzz/` fuzzes.\n";
    expect_finding(&[("ARCHITECTURE.md", &map)], "ARCHITECTURE.md:7: `fuzz/` does not exist, ");
}

#[test]
fn the_committed_exceptions_can_be_read() {
    expect_finding(
        &[("crates/longhaul-proto/src/long.rs", &("//! Long.\n".to_owned() + &"//\n".repeat(800)))],
        "crates/longhaul-proto/src/long.rs:801: 801 lines where 800 are the ceiling, ",
    );
    let (passed, text) = tidy(&[("xtask/tidy.toml", "[short_files]\n")]);
    assert!(!passed && text.contains("cannot read xtask/tidy.toml"), "{text}");
}
