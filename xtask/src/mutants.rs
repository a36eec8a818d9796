//! The machine, the transitions of a task and the projections broken in every small way there is, one at a time: their tests
//! must notice.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::site::Site;
use crate::stamp;
use crate::tally::Tally;
use crate::tools::installed;

/// How long all of it may take.
pub(crate) const BUDGET: Duration = Duration::from_secs(4 * 60 * 60);

/// Where it is written what came of it.
pub(crate) const LIST: &str = "conformance/mutants.toml";

/// How many of a hundred must be noticed.
const LEAST: usize = 90;

/// What the program says last when it has tried all that it was to.
const TRIED: &str = " tested in ";

/// What is broken of a package.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) package: &'static str,
    /// Files and folders.
    pub(crate) places: &'static [&'static str],
    features: &'static str,
    /// What must notice.
    tests: &'static [&'static str],
}

/// All that is broken. The transitions are what every store does to a row: the suite of stores on the one in memory judges
/// them in a second, and any other store is slower.
static BROKEN: [Broken; 2] = [
    Broken {
        package: "longhaul-tasks",
        places: &["crates/longhaul-tasks/src/machine/", "crates/longhaul-tasks/src/project/"],
        features: "",
        tests: &["--lib", "--test", "engine"],
    },
    Broken {
        package: "longhaul-store",
        places: &["crates/longhaul-store/src/transition.rs", "crates/longhaul-store/src/transition/"],
        features: "conformance,sealed,sqlite,wrap",
        tests: &["--lib", "--test", "conformance", "--", "transition::", "memory_keeps_every_promise"],
    },
];

/// What is kept, by package: to try all of one takes hours.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Lists(BTreeMap<String, List>);

/// What was tried of a package, what was noticed, and of the others why they were not.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct List {
    /// The stamp of the code that was broken.
    of: Option<String>,
    tried: usize,
    killed: usize,
    #[serde(default)]
    survivor: Vec<Survivor>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Survivor {
    mutant: String,
    why: String,
}

/// What is broken, package by package.
pub(crate) fn all() -> &'static [Broken] {
    &BROKEN
}

/// The packages that have mutants in this part, with them. A small part may have none of one; all of them together have some of
/// each, or its code is no longer where it is looked for.
fn some(
    mut listed: Vec<(&'static Broken, Vec<String>)>,
    shard: Shard,
) -> Result<Vec<(&'static Broken, Vec<String>)>> {
    if let Some((broken, _)) = listed.iter().find(|(_, mutants)| mutants.is_empty() && shard.of == 1) {
        bail!("{} has no mutants: is its code still in {}?", broken.package, broken.places.join(" and "));
    }
    listed.retain(|(_, mutants)| !mutants.is_empty());
    Ok(listed)
}

impl Broken {
    /// Whether a file is broken.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.places.iter().any(|place| path.starts_with(place)) && !path.ends_with("tests.rs")
    }

    /// Tells the program which mutants of it are meant.
    fn mutants(&self, program: &Path, root: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(root).args(["mutants", "--colors", "never", "--package", self.package]);
        for place in self.places {
            let all = if place.ends_with('/') { "**/*.rs" } else { "" };
            command.args(["--file".to_owned(), format!("{place}{all}")]);
        }
        if !self.features.is_empty() {
            command.args(["--features", self.features]);
        }
        command
    }
}

impl Lists {
    /// Reads what is kept.
    ///
    /// # Errors
    ///
    /// When it is no such text.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).with_context(|| format!("cannot read {LIST}"))
    }

    /// What is kept of a package.
    pub(crate) fn of(&self, package: &str) -> Option<&List> {
        self.0.get(package)
    }

    fn read(root: &Path) -> Result<Self> {
        match fs::read_to_string(root.join(LIST)) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {LIST}")),
        }
    }
}

impl List {
    /// Whether it is of the code with this stamp.
    pub(crate) fn is_of(&self, stamp: &str) -> bool {
        self.of.as_deref() == Some(stamp)
    }

    /// What is wrong with it.
    pub(crate) fn fault(&self) -> Option<String> {
        let share = format!("{} of {} mutants are killed", self.killed, self.tried);
        if self.killed * 100 < self.tried * LEAST || self.tried == 0 {
            return Some(format!("{share}, and {LEAST} of 100 must be"));
        }
        if self.killed + self.survivor.len() != self.tried {
            return Some(format!("{share}, and {} are said to survive", self.survivor.len()));
        }
        let unexplained = self.survivor.iter().find(|survivor| survivor.why.trim().is_empty())?;
        Some(format!("why does this survive: {}", unexplained.mutant))
    }
}

impl fmt::Display for Lists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# What became of every small change to the machine and the projections (longhaul-tasks), and to the transitions of a"
        )?;
        writeln!(
            f,
            "# task (longhaul-store). Written by `cargo xtask mutants`, which keeps what is said of why one survives."
        )?;
        let text = |text: &str| toml::Value::from(text);
        for (package, list) in &self.0 {
            writeln!(f, "\n[{package}]")?;
            if let Some(of) = &list.of {
                writeln!(f, "of = {}", text(of))?;
            }
            writeln!(f, "tried = {}\nkilled = {}", list.tried, list.killed)?;
            for Survivor { mutant, why } in &list.survivor {
                writeln!(f, "\n[[{package}.survivor]]\nmutant = {}\nwhy = {}", text(mutant), text(why))?;
            }
        }
        Ok(())
    }
}

/// One part of the mutants, `0/4` to `3/4`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shard {
    number: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (number, of) = text.split_once('/').context("write it as 0/4")?;
        let shard = Self { number: number.parse()?, of: of.parse()? };
        if shard.number >= shard.of {
            bail!("the parts of {of} are 0/{of} to {}/{of}", shard.of.saturating_sub(1));
        }
        Ok(shard)
    }
}

/// Tries every mutant, or those of one part, package by package. With `resume` those that were noticed before are not tried
/// again. Once all of a package have been tried its list is written.
///
/// # Errors
///
/// When they cannot be made, or the tests fail without any.
pub(crate) fn run(site: &Site, shard: Option<Shard>, resume: bool) -> Result<Tally> {
    let shard = shard.unwrap_or(Shard { number: 0, of: 1 });
    let program = installed::install(site, &installed::CARGO_MUTANTS)?.join("cargo-mutants");
    let list = |broken: &'static Broken| {
        let mut command = broken.mutants(&program, &site.root);
        command.args(["--list", "--shard"]).arg(format!("{}/{}", shard.number, shard.of));
        let ran = site.must_run(&mut command)?;
        Ok((broken, ran.lines))
    };
    let listed = some(BROKEN.iter().map(list).collect::<Result<_>>()?, shard)?;
    let mut tally = Tally::default();
    for (broken, mutants) in listed {
        tally += broken.tried(site, &program, shard, resume, &mutants)?;
    }
    Ok(tally)
}

impl Broken {
    /// Tries those of a part, and writes the list if there are no others.
    fn tried(
        &self,
        site: &Site,
        program: &Path,
        shard: Shard,
        resume: bool,
        mutants: &[String],
    ) -> Result<Tally> {
        let place = site.target.join("mutants");
        let stamp = stamp::of(&site.root, |path| self.has(path))?;
        let here = Part::new(&place, shard, self.package);
        if !resume {
            stamp::clear(&here.folder)?;
        }
        here.begin(&stamp)?;
        here.note(mutants)?;
        let known = here.gather()?;
        let is_left = |mutant: &&String| known.get(*mutant).is_none_or(|verdict| *verdict == Verdict::Missed);
        let left: Vec<_> = mutants.iter().filter(is_left).collect();
        if !left.is_empty() {
            let ran = self.try_out(site, program, &here, &left);
            here.gather()?;
            ran?;
        }
        let mut all = BTreeMap::new();
        for number in 0..shard.of {
            let part = Part::new(&place, Shard { number, ..shard }, self.package);
            let told = part.read()?;
            let left = part.mutants().iter().filter(|mutant| !told.contains_key(*mutant)).count();
            if part.stamp().as_deref() != Some(&stamp) || left > 0 {
                let (package, of) = (self.package, shard.of);
                let left = if left > 0 { left.to_string() } else { "all".to_owned() };
                println!(
                    "{left} of {package}'s in part {number}/{of} are to be tried: cargo xtask mutants --shard {number}/{of} --resume"
                );
                return Ok(Tally::one(true));
            }
            all.extend(told);
        }
        write(&site.root, self.package, stamp, &all)
    }

    fn try_out(&self, site: &Site, program: &Path, here: &Part, left: &[&String]) -> Result<()> {
        let place = site.target.join("mutants");
        let mut command = self.mutants(program, &site.root);
        // With `--iterate` it would try again those that the tests did not come to an end with.
        command.args(left.iter().flat_map(|mutant| ["--re".to_owned(), exactly(mutant)]));
        command.args(["--no-shuffle", "--jobs", "1", "--minimum-test-timeout", "120"]);
        command.arg("--output").arg(&here.folder).arg("--").args(self.tests);
        // The same stories each time, and a build that goes on from the one before.
        command
            .env("LONGHAUL_MODEL_SEED", "1")
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        command.env("CARGO_TARGET_DIR", place.join("target")).env("TMPDIR", &place);
        let ran = site.run_telling(&mut command, |lines| {
            let of_mutants = |line: &&str| !line.starts_with("MISSED") && !line.starts_with("TIMEOUT");
            lines.iter().map(String::as_str).filter(of_mutants).collect()
        })?;
        // It fails as well when one is missed.
        if !ran.success && !ran.lines.iter().any(|line| line.contains(TRIED)) {
            bail!(
                "not all of {}'s mutants were tried: do the tests pass as the code is? With --resume it goes on",
                self.package
            );
        }
        Ok(())
    }
}

/// Writes the list of a package whose code has this stamp, with what was said of the survivors before.
fn write(root: &Path, package: &str, stamp: String, verdicts: &BTreeMap<String, Verdict>) -> Result<Tally> {
    let mut lists = Lists::read(root)?;
    let old = lists.0.remove(package).unwrap_or_default();
    let why = |mutant: &str| {
        let known = old.survivor.iter().find(|survivor| survivor.mutant == mutant);
        known.map(|survivor| survivor.why.clone()).unwrap_or_default()
    };
    let of = |wanted: Verdict| verdicts.iter().filter(move |(_, verdict)| **verdict == wanted);
    let survivors = of(Verdict::Missed).map(|(mutant, _)| {
        let mutant = without_place(mutant);
        Survivor { why: why(&mutant), mutant }
    });
    let killed = of(Verdict::Killed).count();
    let survivor: Vec<Survivor> = survivors.collect();
    let list = List { of: Some(stamp), tried: killed + survivor.len(), killed, survivor };
    println!("{package}: {} tried, {} killed: see {LIST}", list.tried, list.killed);
    let fault = list.fault();
    lists.0.insert(package.to_owned(), list);
    fs::write(root.join(LIST), lists.to_string()).with_context(|| format!("cannot write {LIST}"))?;
    if let Some(fault) = &fault {
        println!("{fault}");
    }
    Ok(Tally::one(fault.is_none()))
}

/// The regular expression of this mutant and no other.
fn exactly(mutant: &str) -> String {
    let mut expression = "^".to_owned();
    for character in mutant.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(character) {
            expression.push('\\');
        }
        expression.push(character);
    }
    expression.push('$');
    expression
}

/// A mutant by its file and what it does, for lines move: `path:line:column: what` without its numbers.
fn without_place(mutant: &str) -> String {
    let mut parts = mutant.splitn(4, ':');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(path), Some(_), Some(_), Some(what)) => format!("{path}:{what}"),
        _ => mutant.to_owned(),
    }
}

/// What came of a mutant.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    /// A test failed, or no longer ended.
    Killed,
    /// All tests passed.
    Missed,
    /// It is no Rust.
    Unviable,
}

impl Verdict {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Killed, "caught.txt"),
        (Self::Killed, "timeout.txt"),
        (Self::Missed, "missed.txt"),
        (Self::Unviable, "unviable.txt"),
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Missed => "missed",
            Self::Unviable => "unviable",
        }
    }
}

/// A part of a package's mutants, and the folder with what came of them.
struct Part {
    folder: PathBuf,
}

impl Part {
    fn new(place: &Path, shard: Shard, package: &str) -> Self {
        Self { folder: place.join(format!("{}-of-{}", shard.number, shard.of)).join(package) }
    }

    /// Notes of what code these are the mutants.
    fn begin(&self, stamp: &str) -> Result<()> {
        stamp::begin(&self.folder, stamp)
    }

    fn stamp(&self) -> Option<String> {
        stamp::read(&self.folder)
    }

    /// Notes which mutants there are.
    fn note(&self, mutants: &[String]) -> Result<()> {
        Ok(fs::write(self.folder.join("all"), mutants.join("\n"))?)
    }

    fn mutants(&self) -> Vec<String> {
        let all = fs::read_to_string(self.folder.join("all")).unwrap_or_default();
        all.lines().map(str::to_owned).collect()
    }

    fn read(&self) -> Result<BTreeMap<String, Verdict>> {
        let text = fs::read_to_string(self.folder.join("verdicts")).unwrap_or_default();
        text.lines()
            .map(|line| {
                let (word, mutant) = line.split_once(' ').context("a line of no verdict")?;
                let known = Verdict::ALL.iter().find(|(verdict, _)| verdict.word() == word);
                Ok((mutant.to_owned(), known.context("no such verdict")?.0))
            })
            .collect()
    }

    /// Adds what the latest run found to what was found before.
    fn gather(&self) -> Result<BTreeMap<String, Verdict>> {
        let mut all = self.read()?;
        for (verdict, file) in Verdict::ALL {
            let told = self.folder.join("mutants.out").join(file);
            let text = fs::read_to_string(told).unwrap_or_default();
            all.extend(text.lines().map(|mutant| (mutant.to_owned(), verdict)));
        }
        let mut text = String::new();
        for (mutant, verdict) in &all {
            writeln!(text, "{} {mutant}", verdict.word())?;
        }
        fs::write(self.folder.join("verdicts"), text)?;
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(killed: usize, whys: &[&str]) -> List {
        let survivor =
            |why: &&str| Survivor { mutant: "a.rs: replace \"x\"".to_owned(), why: (*why).to_owned() };
        List { of: Some("1".to_owned()), tried: 20, killed, survivor: whys.iter().map(survivor).collect() }
    }

    #[test]
    fn nine_of_ten_are_noticed_and_of_the_others_it_is_said_why() {
        assert_eq!(list(18, &["it is the same", "so is it"]).fault(), None);
        assert!(list(17, &["a", "b", "c"]).fault().unwrap().contains("90 of 100"));
        assert!(list(19, &[" "]).fault().unwrap().contains("why does this survive: a.rs"));
        assert!(list(19, &[]).fault().unwrap().contains("0 are said to survive"));
        assert!(List::default().fault().is_some());
    }

    /// A folder with what is kept of one package.
    fn kept(lists: &Lists) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join(LIST).parent().unwrap()).unwrap();
        fs::write(root.path().join(LIST), lists.to_string()).unwrap();
        root
    }

    #[test]
    fn a_package_is_written_beside_others_and_keeps_what_was_said_of_its_survivors() {
        let root = kept(&Lists(BTreeMap::from([
            ("one".to_owned(), list(19, &["it is the same"])),
            ("other".to_owned(), list(20, &[])),
        ])));
        let tried = |killed: usize, missed: &str| {
            let killed = (0..killed).map(|line| (format!("b.rs:{line}:1: replace"), Verdict::Killed));
            killed.chain([(missed.to_owned(), Verdict::Missed)]).collect::<BTreeMap<_, _>>()
        };
        let write = |stamp: &str, tried| write(root.path(), "one", stamp.to_owned(), &tried).unwrap();
        assert_eq!(write("2", tried(9, "a.rs:7:7: replace \"x\"")), Tally::one(true));
        let lists = Lists::read(root.path()).unwrap();
        assert!(lists.of("one").unwrap().is_of("2") && lists.of("other").unwrap().is_of("1"));
        assert_eq!(write("3", tried(9, "c.rs:7:7: another")), Tally::one(false), "nothing is said of it");
    }

    #[test]
    fn transitions_are_broken_and_tests_are_not() {
        for (path, package) in [
            ("crates/longhaul-tasks/src/machine/mod.rs", Some("longhaul-tasks")),
            ("crates/longhaul-store/src/transition.rs", Some("longhaul-store")),
            ("crates/longhaul-store/src/transition/undo.rs", Some("longhaul-store")),
            ("crates/longhaul-store/src/transition/tests.rs", None),
            ("crates/longhaul-store/src/step.rs", None),
        ] {
            let broken = all().iter().find(|broken| broken.has(path));
            assert_eq!(broken.map(|broken| broken.package), package, "{path}");
        }
    }

    #[test]
    fn all_of_them_are_some_of_each_package() {
        let shard = |text: &str| text.parse::<Shard>().unwrap();
        let listed = |second: &[&str]| {
            let second = second.iter().map(|mutant| (*mutant).to_owned()).collect();
            vec![(&BROKEN[0], vec!["a.rs:1:2: one".to_owned()]), (&BROKEN[1], second)]
        };
        assert_eq!(some(listed(&["b.rs:1:2: two"]), shard("0/1")).unwrap().len(), 2);
        assert_eq!(some(listed(&[]), shard("3/4")).unwrap().len(), 1);
        let none = some(listed(&[]), shard("0/1")).unwrap_err().to_string();
        assert!(none.contains("longhaul-store has no mutants"), "{none}");
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let lists = [("a-b".to_owned(), list(19, &["it is \"the same\""])), ("c".to_owned(), list(20, &[]))];
        let written = Lists(BTreeMap::from(lists)).to_string();
        let read = Lists::parse(&written).unwrap();
        assert_eq!(read.to_string(), written);
        let list = read.of("a-b").unwrap();
        assert!(list.is_of("1") && !list.is_of("2"));
    }

    #[test]
    fn what_was_found_is_kept_when_it_goes_on() {
        let place = tempfile::tempdir().unwrap();
        let part = Part::new(place.path(), "0/1".parse().unwrap(), "longhaul-tasks");
        part.begin("1").unwrap();
        let told = |file: &str, text: &str| {
            let folder = part.folder.join("mutants.out");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(file), text).unwrap();
        };
        told("caught.txt", "a.rs:1:2: one\n");
        told("missed.txt", "a.rs:3:4: two\n");
        part.gather().unwrap();
        told("caught.txt", "a.rs:3:4: two\n");
        told("missed.txt", "");
        assert_eq!(part.gather().unwrap().into_values().collect::<Vec<_>>(), [Verdict::Killed; 2]);
        assert!(part.begin("2").is_err(), "of other code");
    }

    #[test]
    fn a_mutant_is_known_wherever_its_line_is() {
        assert_eq!(
            without_place("a/b.rs:12:5: replace f -> bool with true"),
            "a/b.rs: replace f -> bool with true"
        );
    }

    #[test]
    fn a_mutant_is_named_by_what_matches_no_other() {
        assert_eq!(
            exactly("a.rs:1:2: replace f -> Vec<T> with vec![]"),
            r"^a\.rs:1:2: replace f \-> Vec<T> with vec!\[\]$"
        );
    }

    #[test]
    fn a_part_is_one_of_some() {
        assert_eq!("1/4".parse::<Shard>().unwrap(), Shard { number: 1, of: 4 });
        for bad in ["4/4", "1", "a/b", "0/0"] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }
}
