//! A short load, which finds a guard that is gone: `cargo xtask sabotage` takes some away that only several processes need.

use std::process::Command;

#[test]
#[ignore = "the stage `crash` plays the same, and `cargo xtask sabotage` runs it"]
fn a_load_breaks_no_promise() {
    let mut load = Command::new(env!("CARGO_BIN_EXE_longhaul-chaos"));
    load.args(["load", "--tasks", "300", "--kills", "20", "--minutes", "4", "--seed", "7"]);
    let output = load.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
