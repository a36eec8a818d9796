//! The stages that are cargo's own: format, lints, tests, documentation.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::Result;

use super::libtest::{self, Tests};
use crate::chaos::EXPLORER;
use crate::site::Site;
use crate::tally::Tally;
use crate::tools::system;
use crate::wire::{self, Whose};
use crate::workspace::{Package, Workspace};

/// Every file is formatted.
pub(super) fn fmt(site: &Site) -> Result<Tally> {
    system::require_component(site, "rustfmt", "fmt")?;
    Ok(Tally::one(site.run(&mut site.cargo(&["fmt", "--all", "--check"]))?.success))
}

/// No warning in any target with all features.
pub(super) fn clippy(site: &Site) -> Result<Tally> {
    system::require_component(site, "clippy", "clippy")?;
    // The features that members of the workspace turn on for one another are nearly all there are: a run with those
    // alone would see nothing that this one does not.
    let all = ["clippy", "--quiet", "--locked", "--workspace", "--all-targets", "--all-features"];
    Ok(Tally::one(site.run(site.cargo(&all).args(["--", "-D", "warnings"]))?.success))
}

/// No warning in any library with none of its features: to build what others wrote for more than that takes minutes each.
pub(super) fn features(site: &Site) -> Result<Tally> {
    check(site, some(&Workspace::members(&site.root)?, |_| Vec::new()))
}

/// The same, and with one of any two features without the other, and the tests of each package without the features that
/// other packages need: `cargo xtask features`.
///
/// # Errors
///
/// When cargo cannot be run.
pub(crate) fn any_two_features(site: &Site) -> Result<Tally> {
    let workspace = Workspace::members(&site.root)?;
    let mut tally = check(site, some(&workspace, apart))?;
    tally += tests_by_themselves(site, &workspace)?;
    Ok(tally)
}

fn tests_by_themselves(site: &Site, workspace: &Workspace) -> Result<Tally> {
    let mut tally = Tally::default();
    for package in workspace.our_packages() {
        let check = ["check", "--quiet", "--locked", "--tests", "-p", &package.name];
        tally += Tally::one(site.run(&mut site.patient_cargo(&check))?.success);
    }
    Ok(tally)
}

fn check(site: &Site, runs: Vec<Vec<String>>) -> Result<Tally> {
    let mut tally = Tally::default();
    for arguments in runs {
        // What a missing feature leaves behind, the compiler sees: a name that is not there, or that nobody uses.
        // Clippy has read the same lines with all features, and would take twice as long.
        let mut command = site.patient_cargo(&["rustc", "--quiet", "--locked", "--profile", "check"]);
        command.args(arguments).args(["--", "-D", "warnings"]);
        tally += Tally::one(site.run(&mut command)?.success);
    }
    Ok(tally)
}

/// The features without which a test would be left out in silence.
const TESTED: &str = "longhaul/child-process,longhaul/http,longhaul/http2,longhaul/http-client,longhaul/oauth,\
    longhaul/sqlite,longhaul-store/conformance,longhaul-store/postgres,longhaul-store/redis,longhaul-store/sealed,\
    longhaul-store/sqlite,longhaul-store/wrap,longhaul-store/crash-points,longhaul-gateway/crash-points,longhaul-cli/otel";

/// The program of this name, built with what the tests are built with: after them it is there already. Its crash
/// points can be armed.
///
/// # Errors
///
/// When it does not build.
pub(crate) fn program(site: &Site, name: &str) -> Result<PathBuf> {
    if !site.are_programs_built.load(Ordering::Relaxed) {
        let build = ["build", "--quiet", "--locked", "--workspace", "--features", TESTED, "--bin", name];
        site.must_run(&mut site.cargo(&build))?;
    }
    Ok(site.target.join("debug").join(name))
}

/// How many tests run at once: most wait for a process or for a time.
const AT_ONCE: &str = "8";

/// Every test and every program builds, with the features that all stages use.
pub(super) fn build(site: &Site) -> Result<Tally> {
    let workspace = Workspace::members(&site.root)?;
    // Those of the benches, the lints have read, and nothing runs them here.
    let is_run = |package: &&Package| !workspace.folder(package).starts_with("benches");
    let programs = workspace.our_packages().filter(is_run).flat_map(Package::programs);
    // Together, since for the programs alone what they share with tests would be built with fewer features again.
    let mut build =
        site.cargo(&["build", "--quiet", "--workspace", "--locked", "--tests", "--features", TESTED]);
    build.args(["--exclude", EXPLORER]);
    build.args(programs.flat_map(|program| ["--bin", program]));
    let ran = site.run(&mut build)?;
    site.are_programs_built.store(ran.success, Ordering::Relaxed);
    Ok(Tally::one(ran.success))
}

/// How many test binaries are named that took longest.
const TOLD: usize = 12;

/// Every test of every crate, and the examples in the documentation; and that all our servers and clients have said in
/// them is what the schemas say.
pub(super) fn tests(site: &Site) -> Result<Tally> {
    // What tests send to them is often wrong on purpose.
    wire::held(site, "tests", Whose::Ours, run_tests)
}

/// Installs what tests start.
pub(super) fn set_up(site: &Site) -> Result<()> {
    // One of them looks for what is flushed, some start databases.
    system::require(site, &system::STRACE)?;
    system::require(site, &system::POSTGRES)?;
    system::require(site, &system::PGBOUNCER)?;
    system::require(site, &system::REDIS)
}

fn run_tests(site: &Site) -> Result<Tally> {
    set_up(site)?;
    let mut command =
        site.cargo(&["test", "--workspace", "--locked", "--no-fail-fast", "--features", TESTED]);
    command.args(["--exclude", EXPLORER]);
    // Tests panic on purpose, in processes of their own too, and a failed one says where it stands.
    command.env("RUST_BACKTRACE", "0").env("RUST_TEST_THREADS", AT_ONCE);
    let ran = site.run_telling(&mut command, libtest::failures)?;
    let tests = Tests::read(&ran.lines, ran.success);
    for name in &tests.ignored {
        println!("left out: {name}");
    }
    println!("the slowest:");
    for (seconds, binary) in tests.took.iter().take(TOLD) {
        println!("{seconds:>8.1} s  {binary}");
    }
    Ok(tests.tally)
}

/// The documentation builds without a warning: first of the libraries, then of the published programs, one of which
/// has the name of a library.
pub(super) fn docs(site: &Site) -> Result<Tally> {
    let workspace = Workspace::members(&site.root)?;
    let mut tally = Tally::default();
    let mut doc = |which: &[&str]| {
        // With all features: what others wrote has been read with these for the lints.
        let mut command =
            site.cargo(&["doc", "--workspace", "--all-features", "--no-deps", "--locked", "--quiet"]);
        command.args(which).env("RUSTDOCFLAGS", "-D warnings");
        tally += Tally::one(site.run(&mut command)?.success);
        anyhow::Ok(())
    };
    doc(&["--lib"])?;
    let published = workspace.our_packages().filter(|package| package.is_published());
    for program in published.flat_map(Package::programs) {
        doc(&["--bin", program])?;
    }
    Ok(tally)
}

/// Each library with none of its features, and with each of some `sets` of them. A list of arguments each.
fn some(workspace: &Workspace, sets: for<'f> fn(&[&'f str]) -> Vec<Vec<&'f str>>) -> Vec<Vec<String>> {
    let mut runs = Vec::new();
    for package in workspace.our_packages().filter(|package| package.builds("lib")) {
        // A private feature changes a build for its own purpose and is checked with all the others.
        // One that is only passed on to a library of ours is checked there.
        let is_ours = |turned_on: &String| turned_on.starts_with("longhaul") && turned_on.contains('/');
        let is_passed_on = |turns_on: &[String]| !turns_on.is_empty() && turns_on.iter().all(is_ours);
        let features: Vec<&str> = (package.features.iter())
            .filter(|(name, turns_on)| {
                *name != "default" && !name.starts_with("__") && !is_passed_on(turns_on)
            })
            .map(|(name, _)| name.as_str())
            .collect();
        if package.features.is_empty() {
            continue;
        }
        let of = |more: &[&str]| {
            let start = ["-p", &package.name, "--lib", "--no-default-features"].into_iter();
            start.chain(more.iter().copied()).map(str::to_owned).collect::<Vec<_>>()
        };
        runs.push(of(&[]));
        runs.extend(sets(&features).iter().map(|features| of(&["--features", &features.join(",")])));
    }
    runs
}

/// As few sets as tell each feature from every other, both ways, so that what one needs of another and does not say is seen.
/// No feature is in all the sets that another is in, for each is in as many of them as any other, and no two in the same
/// (Sperner's theorem).
fn apart<'f>(features: &[&'f str]) -> Vec<Vec<&'f str>> {
    // The smaller half: what few features need is built sooner.
    let is_half = |members: &u32, sets: u32| members.count_ones() == (sets / 2).max(1);
    let codes = |sets: u32| (0..1u32 << sets).filter(move |members| is_half(members, sets));
    let fits = |sets: &u32| codes(*sets).count() >= features.len();
    let sets = if features.is_empty() { 0 } else { (1..u32::BITS).find(fits).unwrap_or_default() };
    let coded: Vec<(u32, &str)> = codes(sets).zip(features.iter().copied()).collect();
    let of = |set: u32| {
        coded.iter().filter(|(members, _)| members >> set & 1 == 1).map(|(_, name)| *name).collect()
    };
    (0..sets).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_features_each_is_checked_without_the_other() {
        let workspace = Workspace::parse(
            r#"{"packages": [
                {"name": "a", "id": "a", "manifest_path": "/r/crates/a/Cargo.toml", "dependencies": [],
                 "features": {"default": ["x"], "x": [], "y": ["x"], "on": ["longhaul-store/on"], "__z": []},
                 "targets": [{"name": "a", "kind": ["lib"]}]},
                {"name": "b", "id": "b", "manifest_path": "/r/crates/b/Cargo.toml", "dependencies": [],
                 "features": {"x": []}, "targets": [{"name": "b", "kind": ["bin"]}]}
            ], "workspace_root": "/r", "target_directory": "/r/target", "workspace_members": ["a", "b"], "resolve": null}"#,
        )
        .unwrap();
        let runs: Vec<String> = some(&workspace, apart).iter().map(|run| run.join(" ")).collect();
        assert_eq!(
            runs,
            [
                "-p a --lib --no-default-features",
                "-p a --lib --no-default-features --features x",
                "-p a --lib --no-default-features --features y",
            ]
        );
    }

    #[test]
    fn any_two_features_are_told_apart_in_a_few_runs() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"];
        for count in 0..=names.len() {
            let features = &names[..count];
            let sets = apart(features);
            for one in features {
                assert!(sets.iter().any(|set| set.contains(one)), "{one} of {count}");
                for other in features.iter().filter(|other| *other != one) {
                    let apart = sets.iter().any(|set| set.contains(one) && !set.contains(other));
                    assert!(apart, "{one} without {other}, of {count}");
                }
            }
        }
        assert_eq!(apart(&names).len(), 6);
        assert_eq!(apart(&names[..1]), [["a"]]);
    }
}
