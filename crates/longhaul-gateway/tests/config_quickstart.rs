//! The quickstart is what newcomers run first: its configuration has no mistake, and its tools do what they say.

#![expect(clippy::unwrap_used, reason = "a test, and what it is built of, fails by panicking")]

use std::{
    path::Path,
    process::{Command, Output},
};

use longhaul_gateway::config::{Checked, Machine, check};

const TEXT: &str = include_str!("../../../examples/quickstart/longhaul.toml");

fn quickstart() -> Checked {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/quickstart/longhaul.toml");
    check(path.to_str().unwrap(), TEXT).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// Runs a tool as the server would, building into `target` so that nothing is left in the repository.
fn run(tool: &str, arguments: &str, target: &Path) -> Output {
    let checked = quickstart();
    let bound = checked.config.tool(tool).unwrap().bind(arguments).unwrap();
    Command::new(&bound.argv[0])
        .args(&bound.argv[1..])
        .current_dir(&bound.cwd)
        .env_clear()
        .envs(bound.environment(&Machine).unwrap())
        .env("CARGO_TARGET_DIR", target)
        .output()
        .unwrap()
}

#[test]
fn the_quickstart_has_no_mistake_and_no_warning() {
    let checked = quickstart();
    assert!(checked.warnings.is_empty(), "{}", checked.warnings);
    let signatures: Vec<_> = checked.config.tools.iter().map(|tool| tool.signature()).collect();
    assert_eq!(
        signatures,
        ["build(profile?: string = \"dev\")", "test(filter?: string)", "count(limit?: integer = 100000000)"]
    );
}

#[test]
fn the_tools_of_the_quickstart_work() {
    let target = tempfile::tempdir().unwrap();
    let built = run("build", "{}", target.path());
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));

    let tested = run("test", r#"{"filter":"sieve_counts"}"#, target.path());
    let said = String::from_utf8_lossy(&tested.stdout);
    assert!(tested.status.success() && said.contains("1 passed; 0 failed"), "{said}");

    let counted = run("count", r#"{"limit":1000}"#, target.path());
    let said = String::from_utf8_lossy(&counted.stdout);
    assert!(said.ends_with("20/20 168 primes below 1000\n"), "{said}");
    let checked = quickstart();
    let progress = checked.config.tool("count").unwrap().progress.as_ref().unwrap();
    assert!(said.lines().all(|line| progress.pattern.is_match(line)), "{said}");
}
