//! The table of requirements: `conformance/requirements.toml`, and the page made of it.
//!
//! What the rule `requirements` of `cargo xtask tidy` asks of the table stands there.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::tally::Tally;

/// Where the table is.
pub(crate) const TABLE: &str = "conformance/requirements.toml";

/// Where the page is.
pub(crate) const PAGE: &str = "conformance/REQUIREMENTS.md";

/// Where the transcripts are.
pub(crate) const TRANSCRIPTS: [&str; 2] = ["conformance/transcripts/rules", "conformance/transcripts/hosts"];

/// Every requirement, and what shows it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    /// How many may be open at most.
    pub(crate) open: usize,
    /// 2025-11-25, tasks of the core.
    pub(crate) core: BTreeMap<String, Entry>,
    /// The tasks extension.
    pub(crate) extension: BTreeMap<String, Entry>,
    /// SEP-1686 as drafted.
    pub(crate) drafted: BTreeMap<String, Entry>,
    /// What follows for the library.
    pub(crate) library: BTreeMap<String, Entry>,
    /// What can go wrong.
    pub(crate) matrix: BTreeMap<String, Entry>,
    /// What a client must do to be let in.
    pub(crate) authorization: BTreeMap<String, Entry>,
    /// What whoever it meets on the way may try.
    pub(crate) threats: BTreeMap<String, Entry>,
    /// What was seen to go wrong with the tasks of others.
    pub(crate) peers: BTreeMap<String, Entry>,
}

/// One requirement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    /// Whose it is: `server`, `client`, `host` or `both`; nothing in the matrix, and the peer where it is a peer's.
    #[serde(default)]
    pub(crate) who: String,
    /// `must`, `should`, `may`, or nothing where the text only says how it is.
    #[serde(default)]
    pub(crate) level: String,
    /// What is required.
    pub(crate) says: String,
    /// Transcripts by their names, tests as `FILE::FUNCTION`, and checks of others as `FILE::WORDS`; other files by their paths.
    #[serde(default)]
    pub(crate) by: Vec<String>,
    /// What nothing shows yet, and why.
    pub(crate) open: Option<String>,
    /// What is not shown here, and why not.
    pub(crate) aside: Option<String>,
    /// Why it shows in no message, so that no transcript can have a breach of it.
    pub(crate) off_the_wire: Option<String>,
}

/// A part of the table: its title, its entries, and every id that it must have, in order.
pub(crate) struct Part<'t> {
    pub(crate) title: &'static str,
    pub(crate) entries: &'t BTreeMap<String, Entry>,
    pub(crate) ids: Vec<String>,
    /// Whether it is about what is said.
    pub(crate) on_the_wire: bool,
}

impl Table {
    /// Reads a table.
    ///
    /// # Errors
    ///
    /// When it is not the TOML this expects; a key that stands twice is an error of TOML.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).with_context(|| format!("cannot read {TABLE}"))
    }

    /// The parts, in the order of the page.
    pub(crate) fn parts(&self) -> Vec<Part<'_>> {
        let matrix = [("K", 28), ("N", 10), ("D", 8), ("T", 7), ("S", 5), ("V", 4), ("A", 8), ("X", 6)];
        vec![
            Part::said("Tasks of 2025-11-25", &self.core, numbered("R2-", 68)),
            Part::said(
                "The tasks extension",
                &self.extension,
                [numbered("R3-", 64), counted("R3-C", 17), counted("R3-I", 6)].concat(),
            ),
            Part::said("Tasks as SEP-1686 drafted them", &self.drafted, numbered("R1-", 20)),
            Part::new("The library", &self.library, numbered("RP-", 6)),
            Part::new(
                "What can go wrong",
                &self.matrix,
                matrix.into_iter().flat_map(|(kind, many)| counted(kind, many)).collect(),
            ),
            Part::new("How a client gets in", &self.authorization, counted("C", 24)),
            Part::new(
                "What its servers, and others on the way, may try",
                &self.threats,
                THREATS.map(|number| format!("S{number}")).to_vec(),
            ),
            Part::new(
                "What went wrong with others",
                &self.peers,
                [counted("FastMCP-", 6), counted("rmcp-", 2)].concat(),
            ),
        ]
    }

    /// The requirement of that id.
    pub(crate) fn entry(&self, id: &str) -> Option<&Entry> {
        self.parts().into_iter().find_map(|part| part.entries.get(id))
    }

    /// How many are open.
    pub(crate) fn count_open(&self) -> usize {
        self.parts()
            .iter()
            .flat_map(|part| part.entries.values())
            .filter(|entry| entry.open.is_some())
            .count()
    }

    /// The page.
    pub(crate) fn page(&self) -> String {
        let mut page = HEAD.to_owned();
        page.push_str("\n| part | shown | open | not shown here |\n|---|---|---|---|\n");
        for part in self.parts() {
            let count = |is: fn(&Entry) -> bool| part.entries.values().filter(|entry| is(entry)).count();
            let shown = count(|entry| entry.open.is_none() && !entry.by.is_empty());
            let aside = count(|entry| entry.open.is_none() && entry.by.is_empty());
            let open = count(|entry| entry.open.is_some());
            let _ = writeln!(page, "| {} | {shown} | {open} | {aside} |", part.title);
        }
        for part in self.parts() {
            let _ =
                write!(page, "\n## {}\n\n| id | whose | what | shown by |\n|---|---|---|---|\n", part.title);
            for id in &part.ids {
                if let Some(entry) = part.entries.get(id) {
                    let _ =
                        writeln!(page, "| {id} | {} | {} | {} |", entry.whose(), entry.says, entry.shown());
                }
            }
        }
        page
    }
}

impl<'t> Part<'t> {
    fn new(title: &'static str, entries: &'t BTreeMap<String, Entry>, ids: Vec<String>) -> Self {
        Self { title, entries, ids, on_the_wire: false }
    }

    fn said(title: &'static str, entries: &'t BTreeMap<String, Entry>, ids: Vec<String>) -> Self {
        Self { on_the_wire: true, ..Self::new(title, entries, ids) }
    }
}

/// The numbers of those threats.
const THREATS: [u8; 16] = [28, 37, 38, 39, 40, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 64];

impl Entry {
    fn whose(&self) -> String {
        format!("{} {}", self.who, self.level).trim().to_owned()
    }

    fn shown(&self) -> String {
        let mut shown: Vec<_> = self.by.iter().map(|by| link(by)).collect();
        shown.extend(self.open.as_ref().map(|why| format!("**open**: {why}")));
        shown.extend(self.aside.as_ref().map(|why| format!("not here: {why}")));
        shown.extend(self.off_the_wire.as_ref().map(|why| format!("in no message: {why}")));
        shown.join("<br>")
    }
}

/// Whether this names a transcript and not a file.
pub(crate) fn is_transcript(by: &str) -> bool {
    !by.contains(['/', '.'])
}

fn link(by: &str) -> String {
    if is_transcript(by) {
        return format!("`{by}`");
    }
    match by.split_once("::") {
        Some((file, name)) => format!("[{name}](../{file})"),
        None => format!("[{by}](../{by})"),
    }
}

/// Writes the page.
///
/// # Errors
///
/// When the table cannot be read or the page not written.
pub(crate) fn write(root: &Path) -> Result<Tally> {
    let text = fs::read_to_string(root.join(TABLE)).with_context(|| format!("cannot read {TABLE}"))?;
    let page = Table::parse(&text)?.page();
    fs::write(root.join(PAGE), page).with_context(|| format!("cannot write {PAGE}"))?;
    Ok(Tally::one(true))
}

/// `R2-01` and so on.
fn numbered(prefix: &str, many: usize) -> Vec<String> {
    (1..=many).map(|number| format!("{prefix}{number:02}")).collect()
}

/// `K1` and so on.
fn counted(prefix: &str, many: usize) -> Vec<String> {
    (1..=many).map(|number| format!("{prefix}{number}")).collect()
}

const HEAD: &str = "\
# What is required of tasks and of signing in, and what shows it

Written by `cargo xtask requirements` from `requirements.toml`: change that. A name alone is a transcript
(`transcripts/rules/NAME.txt`), which goes over more than one transport and has breaches that are found out; each MUST of
the first three parts has one with a breach of its own, or it is said why it shows in no message. Anything else
is a test, or the clients and suites of others. **Open** is what nothing shows yet. How many are open can only fall.
The last part is what was measured of other servers' tasks, and what shows that ours do not do it.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_counts_and_shows_everything_in_order() {
        let table = Table::parse(
            "open = 1\n[core]\nR2-02 = { who = \"server\", level = \"must\", says = \"two\", open = \"why\" }\n\
             R2-01 = { says = \"one\", by = [\"a_rule\", \"a/b.rs::c\"], off_the_wire = \"so\" }\n[extension]\n[drafted]\n[library]\n[matrix]\n[authorization]\n[threats]\n[peers]\n",
        )
        .unwrap();
        assert_eq!(table.count_open(), 1);
        let page = table.page();
        assert!(page.contains("| Tasks of 2025-11-25 | 1 | 1 | 0 |"), "{page}");
        let rows = "| R2-01 |  | one | `a_rule`<br>[c](../a/b.rs)<br>in no message: so |\n| R2-02 | server must | two | **open**: why |\n";
        assert!(page.contains(rows), "{page}");
    }

    #[test]
    fn an_id_stands_once() {
        let twice = "open = 0\n[core]\nR2-01 = { says = \"x\" }\nR2-01 = { says = \"y\" }\n";
        assert!(Table::parse(twice).is_err());
    }
}
