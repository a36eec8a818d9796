//! Fuzzing: libFuzzer tells stories to the targets of `fuzz/` and keeps those that reach something new.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::site::Site;
use crate::tally::Tally;
use crate::tools::system;

/// How long building and fuzzing may take together, beside what was asked for.
pub(crate) const BUDGET: Duration = Duration::from_secs(60 * 60);

/// The targets, and what each tries.
const TARGETS: [(&str, &str); 3] = [
    ("machine", "the machine of a call against its rules"),
    ("lives", "tasks in the store in memory against their model, and what each dialect shows of them"),
    ("decode", "the decoder of what peers send"),
];

/// Marks in every branch, which the toolchain of every day can set; only sanitizers need a nightly one.
const MARKS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Fuzzes these targets, or all of them, for so long each. What was found worth keeping is gone on from the next time, and a
/// story that fails is kept and told as a test tells it.
///
/// # Errors
///
/// When a target is none, or does not build.
pub(crate) fn run(site: &Site, names: &[String], seconds: u64) -> Result<Tally> {
    if let Some(unknown) = names.iter().find(|name| TARGETS.iter().all(|(target, _)| target != name)) {
        bail!("there is no target {unknown:?}; name any of machine, lives, decode");
    }
    system::require(site, &system::CXX)?;
    let place = site.target.join("fuzz");
    let machine = machine(site)?;
    // For a machine by its name, though it be this one: then what runs while it is built bears no marks.
    let mut build = site.cargo(&["build", "--locked", "--quiet", "--bins", "--target", &machine]);
    build.current_dir(site.root.join("fuzz")).env("CARGO_TARGET_DIR", &place).env("RUSTFLAGS", MARKS);
    site.must_run(&mut build)?;
    let mut tally = Tally::default();
    for (target, what) in TARGETS {
        if !names.is_empty() && !names.iter().any(|name| name == target) {
            continue;
        }
        let (kept, failed) = (place.join("kept").join(target), place.join("failed").join(target));
        fs::create_dir_all(&kept)?;
        fs::create_dir_all(&failed)?;
        println!("{target}: {what}");
        let mut fuzz = Command::new(place.join(&machine).join("debug").join(target));
        fuzz.arg(&kept).arg(format!("-max_total_time={seconds}")).arg("-max_len=512");
        fuzz.arg(format!("-artifact_prefix={}/", failed.display()))
            .args(["-print_final_stats=1", "-timeout=30"]);
        fuzz.env("RUST_BACKTRACE", "0").current_dir(&place);
        let ran = site.run(&mut fuzz)?;
        ran.lines.iter().filter(|line| is_sum(line)).for_each(|line| println!("  {line}"));
        tally += Tally::one(ran.success);
    }
    Ok(tally)
}

/// The name of this machine, as the compiler calls it.
fn machine(site: &Site) -> Result<String> {
    let said = site.must_run(&mut site.cargo(&["-vV"]))?.lines;
    let host = said.iter().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("cargo does not say what this machine is")?.to_owned())
}

/// How many stories were told, and how far they came.
fn is_sum(line: &str) -> bool {
    line.starts_with("stat::number_of_executed_units") || line.contains(" DONE ")
}

/// The targets, a line each, for the help text.
pub(crate) fn targets() -> String {
    TARGETS.iter().map(|(name, what)| format!("  {name:<10} {what}\n")).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn an_unknown_target_is_refused_with_the_known_ones() {
        let site = Site::new(".".into(), ".".into(), Instant::now());
        let error = run(&site, &["decoder".to_owned()], 1).unwrap_err().to_string();
        assert!(TARGETS.iter().all(|(target, _)| error.contains(target)), "{error}");
    }
}
