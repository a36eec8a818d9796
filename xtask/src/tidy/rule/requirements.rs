//! Rule: every requirement of the table is shown by something that is there, or said to be open; each that is a MUST and shows
//! in messages by a transcript with a breach of it; and no more are open than were.

use crate::requirements::{Entry, PAGE, Part, TABLE, TRANSCRIPTS, Table, is_transcript};
use crate::tidy::Repository;
use crate::tidy::finding::{Finding, Report};
use crate::tidy::function::Function;
use crate::tidy::tree::{File, Tree};

/// Examines every id of the table, and the page.
pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    let tree = &repository.tree;
    let Some(file) = tree.file(TABLE) else { return report };
    let table = match Table::parse(file.text.as_deref().unwrap_or_default()) {
        Ok(table) => table,
        Err(error) => {
            report.examined([Finding::new(TABLE, 1, format!("{error:#}"), "correct it")]);
            return report;
        }
    };
    for part in table.parts() {
        examine(&part, file, tree, &mut report);
    }
    for file in
        tree.files.iter().filter(|file| TRANSCRIPTS.iter().any(|folder| file.path.starts_with(folder)))
    {
        report.examined(strangers(file, &table));
    }
    let open = table.count_open();
    report.examined((open > table.open).then(|| {
        let what = format!("{open} are open, where {} were", table.open);
        Finding::new(TABLE, line_of(file, "open"), what, "show one of them, or say why more are open")
    }));
    let page = tree.file(PAGE).and_then(|page| page.text.as_deref());
    report.examined(
        (page != Some(&table.page())).then(|| {
            Finding::new(PAGE, 1, "it is not what the table says", "run `cargo xtask requirements`")
        }),
    );
    report
}

fn examine(part: &Part<'_>, file: &File, tree: &Tree, report: &mut Report) {
    for id in part.entries.keys().filter(|id| !part.ids.contains(id)) {
        let what = format!("there is no {id} in \"{}\"", part.title);
        report.examined([Finding::new(TABLE, line_of(file, id), what, "correct the id")]);
    }
    for id in &part.ids {
        let Some(entry) = part.entries.get(id) else {
            let what = format!("{id} is missing from \"{}\"", part.title);
            report.examined([Finding::new(TABLE, 1, what, "say what shows it, or that it is open")]);
            continue;
        };
        let finding = |(what, fix): (String, &str)| {
            Finding::new(TABLE, line_of(file, id), format!("{id}: {what}"), fix)
        };
        let unbroken = part.on_the_wire.then(|| unbroken(id, entry, tree)).flatten();
        report.examined(wrong(id, entry, tree).into_iter().chain(unbroken).map(finding));
    }
}

/// A MUST of which no transcript has a breach, and what to do.
fn unbroken(id: &str, entry: &Entry, tree: &Tree) -> Option<(String, &'static str)> {
    let shows = entry.open.is_none() && entry.aside.is_none() && entry.off_the_wire.is_none();
    if !entry.level.starts_with("must") || !shows {
        return None;
    }
    let mut transcripts =
        entry.by.iter().filter(|by| is_transcript(by)).filter_map(|by| transcript(by, tree));
    let is_broken = |file: &File| breaches(file).any(|(_, broken)| broken == id);
    (!transcripts.any(is_broken)).then(|| {
        let fix = "write `!ID …` below what that would take the place of, or say `off_the_wire` why it shows in no message";
        ("no transcript of it has a breach of it".to_owned(), fix)
    })
}

/// Breaches of what their transcript is not said to show.
fn strangers(file: &File, table: &Table) -> Vec<Finding> {
    let name = file.path.rsplit('/').next().and_then(|name| name.strip_suffix(".txt")).unwrap_or_default();
    let is_strange = |id: &str| !table.entry(id).is_some_and(|entry| entry.by.iter().any(|by| by == name));
    let strange = breaches(file).filter(|(_, id)| is_strange(id));
    let finding = |(number, id): (usize, &str)| {
        let what = format!("it has a breach of {id}, which it is not said to show in {TABLE}");
        Finding::new(&*file.path, number, what, "name it there, or correct the id")
    };
    strange.map(finding).collect()
}

/// What the breaches of a transcript break, each with its line.
fn breaches(file: &File) -> impl Iterator<Item = (usize, &str)> {
    file.lines().flat_map(|(number, line)| {
        let ids = line.strip_prefix('!').and_then(|rest| rest.split(' ').next()).unwrap_or_default();
        ids.split(',').filter(|id| !id.is_empty()).map(move |id| (number, id))
    })
}

fn transcript<'t>(name: &str, tree: &'t Tree) -> Option<&'t File> {
    TRANSCRIPTS.iter().find_map(|folder| tree.file(&format!("{folder}/{name}.txt")))
}

/// What is wrong with an entry, and what to do.
fn wrong(id: &str, entry: &Entry, tree: &Tree) -> Vec<(String, &'static str)> {
    if entry.by.is_empty() && entry.open.is_none() && entry.aside.is_none() {
        return vec![("nothing shows it".to_owned(), "name a test, or write `open` with the reason")];
    }
    let shown = |by: &String| {
        if is_transcript(by) { of_transcript(id, by, tree) } else { of_test(id, by, tree) }
    };
    entry.by.iter().filter_map(shown).collect()
}

fn of_transcript(id: &str, name: &str, tree: &Tree) -> Option<(String, &'static str)> {
    let Some(file) = transcript(name, tree) else {
        return Some((format!("there is no transcript {name}"), "correct its name"));
    };
    let starting = |sign: &'static str| file.lines().filter_map(move |(_, line)| line.strip_prefix(sign));
    if !starting("#").any(|line| words(line).any(|word| word == id)) {
        return Some((format!("{name} does not name it"), "name the id in the transcript's comment"));
    }
    if starting("!").next().is_none() {
        return Some((format!("{name} has no breach"), "say what would break the rule"));
    }
    // The stepped core is no transport.
    let transports = |over: &str| over.split_whitespace().filter(|over| *over != "core").count();
    let over = starting("over:").next().map_or(4, transports);
    let is_of_http = starting("over:").any(|over| over.trim() == "http");
    (over < 2 && !is_of_http).then(|| {
        (format!("{name} goes over one transport"), "let it go over two, if it is no rule of HTTP itself")
    })
}

fn of_test(id: &str, by: &str, tree: &Tree) -> Option<(String, &'static str)> {
    let (path, name) = by.split_once("::").map_or((by, None), |(path, name)| (path, Some(name)));
    let Some(file) = tree.file(path) else {
        return Some((format!("there is no {path}"), "correct the path"));
    };
    let of_matrix = id.chars().nth(1).is_some_and(|second| second.is_ascii_digit()) && !id.contains('-');
    let Some(name) = name else {
        return of_matrix.then(|| (format!("{path} is no test"), "name what is in it that shows this"));
    };
    if file.source.is_none() {
        return of_others(name, file);
    }
    let Some(function) = Function::find(tree, file, name) else {
        return Some((format!("there is no {name} in {path}"), "correct its name"));
    };
    if !function.is_test {
        return Some((format!("{name} is no test"), "name one that runs"));
    }
    if function.is_ignored {
        return Some((format!("{name} is left out when tests run"), "name one that runs"));
    }
    let named = name.split('_').any(|word| is_row(word, id)) || words(&function.doc).any(|word| word == id);
    (of_matrix && !named).then(|| (format!("{name} does not name it"), "name the id in the test or above it"))
}

/// A check by clients and suites of others: a scenario, in a list of how many of its checks must succeed, or its words in a
/// script.
fn of_others(name: &str, file: &File) -> Option<(String, &'static str)> {
    let is_scenario = |line: &str| {
        let (scenario, least) = line.split_once(' ')?;
        (scenario == name).then(|| least.parse::<usize>().ok()).flatten()
    };
    let words = format!("\"{name}\"");
    let is_check = |line: &str| is_scenario(line).map_or_else(|| line.contains(&words), |least| least > 0);
    let is_there = file.lines().any(|(_, line)| is_check(line));
    (!is_there).then(|| (format!("there is no check {name:?} in {}", file.path), "correct its words"))
}

/// Whether a word of a test's name is the id of a row: `K1` is `k1` and `k01`.
fn is_row(word: &str, id: &str) -> bool {
    let apart =
        |text: &str| text.split_at_checked(1).map(|(kind, number)| (kind.to_owned(), number.to_owned()));
    apart(word).zip(apart(id)).is_some_and(|((kind, number), (wanted, row))| {
        kind.eq_ignore_ascii_case(&wanted) && number.trim_start_matches('0') == row
    })
}

/// Words as ids are written.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
}

/// The line on which a key of the table stands.
fn line_of(file: &File, key: &str) -> usize {
    let is_here = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(' '));
    file.lines().find(|(_, line)| is_here(line)).map_or(1, |(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = "# R2-01: why\nover: pair http\n> 1 ping\n< 1 result\n! ~\n";
    const TESTS: &str = "#[tokio::test(start_paused = true)]\nasync fn k1_it_is() {}\n#[test]\nfn k01_k02_it_is() {}\n\
                         /// Why. K2, K3.\n#[test]\nfn also() {}\n#[test]\n#[ignore = \"x\"]\nfn out() {}\nfn none() {}\n";

    fn of(entry: &str, id: &str, rule: &str) -> Vec<String> {
        let entry: Entry = toml::from_str(&format!("says = \"x\"\n{entry}")).unwrap();
        let tree = Tree::of(&[
            ("conformance/transcripts/rules/rule.txt", rule),
            ("crates/a/tests/t.rs", TESTS),
            ("suite/all.txt", "# Scenarios\nlists 4\nlater 0\n"),
            ("others/rig.mjs", "const checks = [[\"lists the tools\", lists]];\n"),
            ("crates/longhaul-store/src/conformance/a.rs", "/// K4.\npub(super) async fn kept() {}"),
            ("crates/longhaul-store/src/conformance/mod.rs", "checks! { a::{kept} }"),
        ]);
        wrong(id, &entry, &tree).into_iter().map(|(what, _)| what).collect()
    }

    #[test]
    fn a_transcript_names_its_id_goes_over_two_transports_and_has_a_breach() {
        let by = "by = [\"rule\"]";
        assert_eq!(of(by, "R2-01", RULE), [""; 0]);
        assert_eq!(of(by, "R2-1", RULE), ["rule does not name it"]);
        assert_eq!(of(by, "R2-01", &RULE.replace('!', ".")), ["rule has no breach"]);
        assert_eq!(of(by, "R2-01", &RULE.replace("pair http", "pair")), ["rule goes over one transport"]);
        assert_eq!(
            of(by, "R2-01", &RULE.replace("pair http", "core pair")),
            ["rule goes over one transport"]
        );
        assert_eq!(of(by, "R2-01", &RULE.replace("pair http", "http")), [""; 0]);
        assert_eq!(of("by = [\"gone\"]", "R2-01", RULE), ["there is no transcript gone"]);
    }

    #[test]
    fn what_must_be_has_a_breach_or_shows_in_no_message() {
        let found = |entry: &str, rule: &str| {
            let entry: Entry = toml::from_str(&format!("says = \"x\"\nby = [\"rule\"]\n{entry}")).unwrap();
            unbroken("R2-01", &entry, &Tree::of(&[("conformance/transcripts/rules/rule.txt", rule)]))
                .is_some()
        };
        for level in ["must", "must not"] {
            let level = format!("level = \"{level}\"\n");
            assert!(found(&level, RULE), "its breach is of nothing in particular");
            assert!(found(&level, &RULE.replace('!', "!R2-010")));
            assert!(!found(&level, &RULE.replace('!', "!R2-02,R2-01")));
            assert!(!found(&format!("{level}off_the_wire = \"x\""), RULE));
            assert!(!found(&format!("{level}open = \"x\""), RULE));
        }
        assert!(!found("level = \"should\"", RULE));
    }

    #[test]
    fn a_breach_is_of_what_its_transcript_shows() {
        let table = "open = 0\n[core]\nR2-01 = { says = \"x\", by = [\"rule\"] }\nR2-02 = { says = \"x\", by = [\"other\"] }\n\
                     [extension]\n[drafted]\n[library]\n[matrix]\n[authorization]\n[threats]\n[peers]\n";
        let rule = RULE.replace('!', "!R2-01,R2-02,R9-1");
        let tree = Tree::of(&[(TABLE, table), ("conformance/transcripts/rules/rule.txt", &rule)]);
        let found: Vec<_> = check(&Repository { tree, ..Repository::default() })
            .findings
            .iter()
            .map(ToString::to_string)
            .filter(|finding| finding.contains("it has a breach of"))
            .collect();
        assert_eq!(found.len(), 2, "{found:?}");
        let path = "conformance/transcripts/rules/rule.txt:5: it has a breach of ";
        assert!(
            found[0].starts_with(&format!("{path}R2-02, ")) && found[1].starts_with(&format!("{path}R9-1, "))
        );
    }

    #[test]
    fn a_test_is_there_and_runs_and_one_of_the_matrix_names_its_row() {
        let by = |name: &str| format!("by = [\"crates/a/tests/t.rs::{name}\"]");
        assert_eq!(of(&by("k1_it_is"), "K1", RULE), [""; 0]);
        assert_eq!(of(&by("k01_k02_it_is"), "K2", RULE), [""; 0]);
        assert_eq!(of(&by("also"), "K2", RULE), [""; 0]);
        assert_eq!(of(&by("also"), "K1", RULE), ["also does not name it"]);
        assert_eq!(of(&by("also"), "R2-01", RULE), [""; 0]);
        assert_eq!(of(&by("out"), "R2-01", RULE), ["out is left out when tests run"]);
        assert_eq!(of(&by("none"), "R2-01", RULE), ["none is no test"]);
        assert_eq!(of(&by("gone"), "R2-01", RULE), ["there is no gone in crates/a/tests/t.rs"]);
        assert_eq!(of("by = [\"crates/longhaul-store/src/conformance/a.rs::kept\"]", "K4", RULE), [""; 0]);
        assert_eq!(of("", "K4", RULE), ["nothing shows it"]);
    }

    #[test]
    fn a_check_of_others_is_a_scenario_that_must_succeed_or_stands_in_their_script() {
        let by = |by: &str| of(&format!("by = [\"{by}\"]"), "X5", RULE);
        assert_eq!(by("suite/all.txt::lists"), [""; 0]);
        assert_eq!(by("others/rig.mjs::lists the tools"), [""; 0]);
        assert_eq!(by("suite/all.txt::later"), ["there is no check \"later\" in suite/all.txt"]);
        assert_eq!(by("others/rig.mjs::lists"), ["there is no check \"lists\" in others/rig.mjs"]);
        assert_eq!(by("suite/all.txt"), ["suite/all.txt is no test"]);
        assert_eq!(of("by = [\"suite/all.txt\"]", "R2-62", RULE), [""; 0]);
    }

    #[test]
    fn ids_are_known_and_no_more_are_open_than_were() {
        let table = "open = 0\n[core]\nR2-99 = { says = \"x\", aside = \"x\" }\nR2-02 = { says = \"x\", open = \"x\" }\n\
                     [extension]\n[drafted]\n[library]\n[matrix]\n[authorization]\n[threats]\n[peers]\n";
        let repository = Repository { tree: Tree::of(&[(TABLE, table)]), ..Repository::default() };
        let found: Vec<_> = check(&repository).findings.iter().map(ToString::to_string).collect();
        assert!(found[0].starts_with("conformance/requirements.toml:3: there is no R2-99"), "{found:?}");
        assert!(found.iter().any(|f| f.contains("R2-01 is missing")));
        assert!(found.iter().any(|f| f.contains("1 are open, where 0 were")));
        assert!(found.last().unwrap().contains("cargo xtask requirements"));
    }
}
