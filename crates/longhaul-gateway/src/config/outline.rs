//! What can stand in a configuration: noted by the code that reads one, while it reads the one with every key.
//!
//! Each way of reading a key (a text, a duration, one of a few words) notes what it looks for before it looks, whether the key
//! is there or not. So the outline is not a second list of the keys, which could differ from the first.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::{ffi::OsString, io};

use toml::de::{DeTable, DeValue};

use super::{
    check::read_root,
    environment::Sources,
    reader::{Reader, Section},
    tool::read::Context,
};

/// A configuration with every key that there is, each with a comment that says what it means.
pub const REFERENCE: &str = include_str!("reference.toml");

/// A form that the value of a key can have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    Text,
    Boolean,
    /// A whole number that is at least this.
    Count(u32),
    Number,
    Duration,
    Size,
    /// One of these.
    Word(Vec<String>),
    /// When a call becomes a task.
    Task,
    Texts,
    Numbers,
    /// Whatever TOML can say.
    Anything,
}

/// What was asked of the tables of a text. A table is known by where the key that names it begins.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// The keys that a table may have; any are allowed in one that is not here.
    known: HashMap<usize, BTreeSet<String>>,
    /// How a key of a table is read.
    forms: BTreeMap<(usize, String), BTreeSet<Form>>,
    /// The keys whose values are read as tables, by where they begin.
    tables: BTreeSet<usize>,
}

impl Asked {
    pub(super) fn known(&mut self, table: usize, keys: &[&str]) {
        self.known.entry(table).or_default().extend(keys.iter().map(|key| (*key).to_owned()));
    }

    pub(super) fn form(&mut self, table: usize, key: &str, form: Form) {
        self.forms.entry((table, key.to_owned())).or_default().insert(form);
    }

    pub(super) fn table(&mut self, key: usize) {
        self.tables.insert(key);
    }

    /// How the keys of a table are read.
    fn of(&self, table: usize) -> impl Iterator<Item = (&String, &BTreeSet<Form>)> {
        let from = (table, String::new());
        let here = self.forms.range(from..).take_while(move |((its, _), _)| *its == table);
        here.map(|((_, key), forms)| (key, forms))
    }
}

/// What can stand behind a key.
#[derive(Clone, Debug, Default)]
pub(super) struct Outline {
    pub(super) forms: BTreeSet<Form>,
    pub(super) table: Option<Keys>,
    /// What it means, in words.
    pub(super) about: Option<String>,
}

/// The keys of a table.
#[derive(Clone, Debug)]
pub(super) enum Keys {
    /// These.
    Known(BTreeMap<String, Outline>),
    /// Whichever the author chooses, all of one kind.
    Chosen(Box<Outline>),
}

impl Outline {
    /// That of a whole configuration.
    pub(super) fn of_configuration() -> Self {
        let mut reader = Reader::noting(REFERENCE);
        let (parsed, _) = DeTable::parse_recoverable(REFERENCE);
        let table = parsed.get_ref();
        let root = Section { table, place: "the configuration".to_owned(), span: ROOT..ROOT };
        read_root(&mut reader, &root, Context { base: Path::new(""), sources: &Nothing });
        let asked = reader.into_asked();
        Self { forms: BTreeSet::new(), table: Some(keys(table, ROOT, &asked)), about: None }
    }

    fn merge(&mut self, other: Self) {
        self.forms.extend(other.forms);
        self.about = self.about.take().or(other.about);
        match (&mut self.table, other.table) {
            (Some(Keys::Known(ours)), Some(Keys::Known(theirs))) => {
                for (key, outline) in theirs {
                    ours.entry(key).or_default().merge(outline);
                }
            }
            (Some(Keys::Chosen(ours)), Some(Keys::Chosen(theirs))) => ours.merge(*theirs),
            (ours, theirs) => *ours = ours.take().or(theirs),
        }
    }
}

fn keys(table: &DeTable<'_>, at: usize, asked: &Asked) -> Keys {
    let mut keys: BTreeMap<String, Outline> = BTreeMap::new();
    for (key, forms) in asked.of(at) {
        keys.entry(key.clone()).or_default().forms.clone_from(forms);
    }
    for (key, value) in table.iter() {
        let begin = key.span().start;
        let outline = keys.entry(key.get_ref().to_string()).or_default();
        outline.about = comment_above(REFERENCE, begin);
        if let (true, DeValue::Table(inner)) = (asked.tables.contains(&begin), value.get_ref()) {
            outline.table = Some(self::keys(inner, begin, asked));
        }
    }
    match asked.known.get(&at) {
        Some(known) => {
            for key in known {
                keys.entry(key.clone()).or_default();
            }
            Keys::Known(keys)
        }
        None => {
            let mut each = Outline::default();
            keys.into_values().for_each(|outline| each.merge(outline));
            Keys::Chosen(Box::new(each))
        }
    }
}

/// The comment in the lines before the one that this place is in.
fn comment_above(text: &str, place: usize) -> Option<String> {
    let line = text[..place].rfind('\n').unwrap_or(0);
    let above = text[..line].lines().rev().map_while(|line| line.strip_prefix('#'));
    let mut lines: Vec<&str> = above.map(str::trim).collect();
    lines.reverse();
    (!lines.is_empty()).then(|| lines.join(" "))
}

/// Where nothing is set, so that the outline is the same everywhere.
struct Nothing;

impl Sources for Nothing {
    fn variable(&self, _: &str) -> Option<OsString> {
        None
    }

    fn variables(&self) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    fn file(&self, _: &Path, _: usize) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Where the whole begins: in no key, for the reference begins with a comment.
const ROOT: usize = 0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::check_with;

    #[test]
    fn the_reference_has_no_mistakes_but_that_its_secrets_are_not_there() {
        let checked = match check_with("reference.toml", REFERENCE, &Nothing) {
            Ok(checked) => checked,
            Err(mistakes) => panic!("{mistakes}"),
        };
        let shown = checked.warnings.to_string();
        let others = shown.lines().filter(|line| line.starts_with("warning: "));
        let others: Vec<_> = others.filter(|line| !line.contains(" now: ")).collect();
        assert!(others.is_empty(), "{shown}");
    }

    /// Everything that is amiss below an outline.
    fn gaps(path: &str, outline: &Outline, found: &mut Vec<String>) {
        if outline.forms.is_empty() && outline.table.is_none() {
            found.push(format!(
                "{path} is not in reference.toml, or the code that reads it does not note how"
            ));
        }
        match &outline.table {
            Some(Keys::Known(keys)) => {
                for (key, inner) in keys {
                    let path = format!("{path}.{key}");
                    if inner.about.is_none() {
                        found.push(format!("{path} has no comment in reference.toml"));
                    }
                    gaps(&path, inner, found);
                }
            }
            Some(Keys::Chosen(inner)) => gaps(&format!("{path}.NAME"), inner, found),
            None => {}
        }
    }

    #[test]
    fn every_key_is_in_the_reference_and_explained() {
        let mut found = Vec::new();
        gaps("", &Outline::of_configuration(), &mut found);
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn a_comment_is_the_lines_above() {
        let text = "# no\n\n# one\n#  two\n[a.b]\nc = 1\n";
        let about = |key: &str| comment_above(text, text.find(key).unwrap());
        assert_eq!((about("b]"), about("c =")), (Some("one two".to_owned()), None));
    }
}
