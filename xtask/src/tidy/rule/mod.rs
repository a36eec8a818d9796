//! The rules, one a file, and the list of them.

mod architecture;
mod arrows;
mod core;
mod engine;
mod forbidden;
mod length;
mod limits;
mod machine_path;
mod manifest;
mod module_doc;
mod msrv;
mod mutants;
mod promises;
mod registry;
mod requirements;
mod revisions;
mod sabotage;
mod shown;
mod store_time;
mod unfinished;

use super::Repository;
use super::exception::Exceptions;
use super::finding::Report;
use super::tree::Tree;

/// A rule's name, what it keeps, and its check.
pub(super) type Rule = (&'static str, &'static str, fn(&Repository, &Exceptions) -> Report);

/// Every rule, in the order they run.
pub(super) const ALL: &[Rule] = &[
    ("arrows", "dependencies between our crates point down", |r, _| arrows::check(r)),
    ("revisions", "only the dialects name a protocol revision", |r, _| revisions::check(r)),
    ("core", "longhaul-proto has no I/O, clock, runtime or further dependency", |r, _| core::check(r)),
    ("engine", "longhaul-tasks takes clock and spawn from its caller", engine::check),
    ("store-time", "what follows jobs and commands' tasks goes by the store's time", |r, _| {
        store_time::check(r)
    }),
    ("length", "files end by 800 lines", length::check),
    ("architecture", "ARCHITECTURE.md names what is there, all of it", |r, _| architecture::check(r)),
    ("module-doc", "every Rust file says what lives in it", |r, _| module_doc::check(r)),
    ("manifest", "every crate takes lints and versions from the workspace", |r, _| manifest::check(r)),
    ("msrv", "the oldest Rust that is supported is the one that checks run with", |r, _| msrv::check(r)),
    ("machine-path", "no path of one machine", |r, _| machine_path::check(r)),
    ("registry", "packages come from the public registries", |r, _| registry::check(r)),
    ("requirements", "every requirement of tasks is shown, or said to be open", |r, _| {
        requirements::check(r)
    }),
    ("promises", "every promise of the manual names what shows it", |r, _| promises::check(r)),
    ("limits", "LIMITS.md says what the code says", |r, _| limits::check(r)),
    ("sabotage", "what takes a guard away still applies", |r, _| sabotage::check(r)),
    ("mutants", "tests notice what is broken in the machine", |r, _| mutants::check(r)),
    ("shown", "what is kept of long runs can be read", |r, _| shown::check(r)),
    ("unfinished", "nothing unfinished, no lint allowed", |r, _| unfinished::check(r)),
];

/// The line of a manifest that asks for a dependency, or its first.
fn manifest_line(tree: &Tree, path: &str, dependency: &str) -> usize {
    let asks = |line: &str| {
        let rest = line.trim_start().trim_start_matches('"').strip_prefix(dependency);
        rest.is_some_and(|rest| rest.starts_with(['.', ' ', '=', '"']))
    };
    let mut lines = tree.file(path).into_iter().flat_map(|file| file.lines());
    lines.find(|(_, line)| asks(line)).map_or(1, |(number, _)| number)
}
