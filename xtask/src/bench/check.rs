//! `cargo xtask bench check`: how many instructions the hottest operations take, counted by callgrind and held against
//! what was counted with the same compiler before. It needs no quiet machine: a count is the same on a busy one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::figures::print_table;
use crate::site::Site;
use crate::tally::Tally;
use crate::tools::system;

/// The program of the operations.
const PROGRAM: &str = "longhaul-count";

/// What was counted before, by compiler.
const RECORDED: &str = "benches/instructions.toml";

/// How many times as many instructions an operation may take as it did.
const GROWTH: f64 = 1.03;

/// A call that could become a task and is done soon, one that cannot, and how many times as many instructions the one is to
/// take at most as the other. It is a goal, which is told: what fails is what grows.
const PROMOTABLE: (&str, &str, f64) = ("call of a tool with tasks", "call", 1.03);

/// Instructions of operations, by name.
type Counts = BTreeMap<String, u64>;

/// Counts, and compares with what was counted before. With `record` what was counted is kept instead.
///
/// # Errors
///
/// When something cannot be built, or nothing can be counted.
pub(crate) fn run(site: &Site, record: bool) -> Result<Tally> {
    set_up(site)?;
    let counts = count(site)?;
    let (file, compiler) = (site.root.join(RECORDED), compiler()?);
    let mut recorded = read(&file)?;
    if record {
        recorded.insert(compiler, counts);
        fs::write(&file, written(&recorded)).with_context(|| format!("cannot write {}", file.display()))?;
        println!("kept in {RECORDED}");
        return Ok(Tally::one(true));
    }
    let tally = match recorded.get(&compiler) {
        Some(before) => compare(site, &counts, before),
        None => {
            let known = recorded.keys().map(String::as_str).collect::<Vec<_>>().join("; ");
            println!(
                "\n!!! NOTHING WAS COMPARED: {RECORDED} has no counts with {compiler}, only with {known}.\n\
                 !!! Count with a known one what was before, then: cargo xtask bench check --record\n"
            );
            print(&counts, &Counts::new());
            Tally::one(true)
        }
    };
    let (promotable, plain, goal) = PROMOTABLE;
    let of = |name| counts.get(name).copied().with_context(|| format!("{name} was not counted"));
    let ratio = of(promotable)? as f64 / of(plain)? as f64;
    let word = if ratio <= goal { "met" } else { "MISSED" };
    println!("{word}: {promotable}, of a {plain}: {ratio:.3}; goal: at most {goal}");
    Ok(tally)
}

/// Installs what counts.
pub(crate) fn set_up(site: &Site) -> Result<()> {
    system::require(site, &system::VALGRIND)
}

/// Builds the program and counts what it does.
fn count(site: &Site) -> Result<Counts> {
    let build = ["build", "--quiet", "--locked", "--profile", "count", "-p", PROGRAM];
    site.must_run(&mut site.patient_cargo(&build))?;
    let program = site.target.join("count").join(PROGRAM);
    let listed = site.must_run(&mut Command::new(&program))?;
    let folder = tempfile::tempdir().context("cannot make a folder for the counts")?;
    let mut counts = Counts::new();
    for (times, name) in listed.lines.iter().filter_map(|line| listed_in(line)) {
        let out = folder.path().join("out");
        let mut command = Command::new("valgrind");
        command
            .args(["--quiet", "--tool=callgrind", "--collect-atstart=no"])
            .arg("--toggle-collect=*counted_by_callgrind*")
            .arg(format!("--callgrind-out-file={}", out.display()))
            .args([&program, Path::new(name)]);
        site.must_run(&mut command)?;
        let dump = fs::read_to_string(&out).with_context(|| format!("callgrind did not count {name}"))?;
        let all = summary(&dump).with_context(|| format!("callgrind does not say how long {name} took"))?;
        ensure!(all > 0, "callgrind saw nothing of {name}");
        counts.insert(name.to_owned(), all / times);
    }
    ensure!(!counts.is_empty(), "{PROGRAM} lists nothing that it does");
    Ok(counts)
}

/// How often which operation is done.
fn listed_in(line: &str) -> Option<(u64, &str)> {
    let (times, name) = line.split_once(' ')?;
    Some((times.parse().ok().filter(|times| *times > 0)?, name))
}

/// All instructions of a dump.
fn summary(dump: &str) -> Option<u64> {
    dump.lines().find_map(|line| line.strip_prefix("summary: "))?.trim().parse().ok()
}

/// Whose counts can be compared with one another: those of one compiler, one C library and processors for which that has the
/// same functions to copy and compare bytes.
fn compiler() -> Result<String> {
    let says = |program: &str, argument: &str| {
        let said = Command::new(program).arg(argument).output();
        let said = said.with_context(|| format!("cannot run {program}"))?;
        String::from_utf8(said.stdout).with_context(|| format!("what {program} says of itself"))
    };
    let (rustc, libc) = (says("rustc", "-V")?, says("getconf", "GNU_LIBC_VERSION")?);
    Ok(format!("{}, {}, {}", rustc.trim(), libc.trim(), processor()))
}

#[cfg(target_arch = "x86_64")]
fn processor() -> &'static str {
    if std::is_x86_feature_detected!("avx2") { "x86_64 with AVX2" } else { "x86_64 without AVX2" }
}

#[cfg(not(target_arch = "x86_64"))]
fn processor() -> &'static str {
    std::env::consts::ARCH
}

fn read(file: &Path) -> Result<BTreeMap<String, Counts>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    toml::from_str(&text).with_context(|| format!("cannot read {}", file.display()))
}

fn written(recorded: &BTreeMap<String, Counts>) -> String {
    let mut text = "# How many instructions each operation takes, by compiler: `cargo xtask bench check --record` writes \
                    this.\n"
        .to_owned();
    for (compiler, counts) in recorded {
        text.push_str(&format!("\n[{compiler:?}]\n"));
        for (name, count) in counts {
            text.push_str(&format!("{name:?} = {count}\n"));
        }
    }
    text
}

/// A part that passes or fails for each operation, of those before as of these.
fn compare(site: &Site, counts: &Counts, before: &Counts) -> Tally {
    print(counts, before);
    let mut tally = Tally::default();
    for (name, count) in counts {
        tally += match before.get(name) {
            Some(was) => judge(site, name, *count, *was, GROWTH),
            None => site.complain(format!(
                "{name} has no count to be held against: cargo xtask bench check --record keeps this one"
            )),
        };
    }
    for name in before.keys().filter(|name| !counts.contains_key(*name)) {
        tally += site.complain(format!("{name} is recorded in {RECORDED}, and is counted no more"));
    }
    tally
}

fn judge(site: &Site, name: &str, count: u64, was: u64, most: f64) -> Tally {
    let ratio = count as f64 / was as f64;
    if ratio <= most {
        if ratio < 2.0 - most {
            println!(
                "{name}: {:.1} % fewer instructions; --record makes them the new bound",
                (1.0 - ratio) * 100.0
            );
        }
        return Tally::one(true);
    }
    site.complain(format!(
        "{name}: {count} instructions, {:.1} % more than {was}; at most {:.0} % may be. Look where they go with \
         `callgrind_annotate`, or say why they are needed and keep them with cargo xtask bench check --record",
        (ratio - 1.0) * 100.0,
        (most - 1.0) * 100.0
    ))
}

fn print(counts: &Counts, before: &Counts) {
    let rows: Vec<_> = counts
        .iter()
        .map(|(name, count)| {
            let was = before.get(name);
            let change = was.map_or_else(String::new, |was| {
                format!("{:+.1} %", (*count as f64 / *was as f64 - 1.0) * 100.0)
            });
            [name.clone(), count.to_string(), was.map(u64::to_string).unwrap_or_default(), change]
        })
        .collect();
    print_table(["", "instructions", "recorded", ""], &rows);
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn site() -> Site {
        Site::new(".".into(), ".".into(), Instant::now())
    }

    fn counts(counts: &[(&str, u64)]) -> Counts {
        counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn what_grows_by_more_than_three_in_a_hundred_fails_and_says_by_how_much() {
        let (site, before) = (site(), counts(&[("call", 10_000), ("get", 10_000)]));
        assert_eq!(
            compare(&site, &counts(&[("call", 10_300), ("get", 5_000)]), &before).to_string(),
            "2 passed, 0 failed"
        );
        assert!(site.complaints().is_empty());
        let tally = compare(&site, &counts(&[("call", 10_301), ("get", 10_000)]), &before);
        assert_eq!(tally, Tally { passed: 1, failed: 1 });
        let complaints = site.complaints();
        assert!(
            complaints[0].starts_with("call: 10301 instructions, 3.0 % more than 10000"),
            "{complaints:?}"
        );
    }

    #[test]
    fn an_operation_that_is_not_recorded_or_not_counted_fails() {
        let (site, call) = (site(), counts(&[("call", 1)]));
        assert_eq!(compare(&site, &call, &counts(&[("get", 1)])), Tally { passed: 0, failed: 2 });
    }

    #[test]
    fn what_is_recorded_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("counts.toml");
        let compiler = "rustc 1.95.0 (59807616e 2026-04-14), glibc 2.36, x86_64 with AVX2".to_owned();
        let recorded = BTreeMap::from([(compiler, counts(&[("call", 7), ("list of 100 tools", 9)]))]);
        fs::write(&file, written(&recorded)).unwrap();
        assert_eq!(read(&file).unwrap(), recorded);
    }

    #[test]
    fn the_program_and_callgrind_are_understood() {
        assert_eq!(listed_in("200 call over stdio"), Some((200, "call over stdio")));
        assert_eq!((listed_in("0 call"), listed_in("valgrind: a remark")), (None, None));
        assert_eq!(summary("events: Ir\nfn=(1) a\n1 5\nsummary: 5\ntotals: 5\n"), Some(5));
    }
}
