//! Rule: only the dialects know what year it is. No shipped code elsewhere names a protocol revision.

use crate::tidy::Repository;
use crate::tidy::finding::{Finding, Report};
use crate::tidy::source::{Source, paths};

/// Where revisions may be named.
const HOME: &str = "crates/longhaul-proto/src/dialect";

/// The revisions as the wire spells them.
const DATES: &[&str] = &["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// Examines the shipped sources of every crate.
pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    for file in repository.tree.rust() {
        let is_shipped = file.path.starts_with("crates/") && file.path.contains("/src/") && !file.is_test;
        let at_home = file.path.starts_with(&format!("{HOME}/")) || file.path == format!("{HOME}.rs");
        let Some(source) = file.tokens().filter(|_| is_shipped && !at_home) else { continue };
        report.examined(named(source).into_iter().map(|(line, name)| {
            Finding::new(
                &file.path,
                line,
                format!("{name} is named outside the dialects"),
                format!("ask a predicate of {HOME}/rules.rs instead"),
            )
        }));
    }
    report
}

fn named(source: &Source) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = paths(&source.shipped)
        .into_iter()
        .filter(|path| {
            let of_the_type =
                path.segments.windows(2).any(|w| w[0] == "Revision" && (is_variant(&w[1]) || w[1] == "*"));
            of_the_type || path.segments.iter().any(|segment| is_dated(segment))
        })
        .map(|path| (path.line, path.written()))
        .collect();
    let dates = source.strings().filter(|(text, _)| DATES.contains(text));
    found.extend(dates.map(|(text, line)| (line, format!("the revision {text:?}"))));
    found.sort();
    found
}

/// `V2026_07_28`, and any other variant that is spelled as a version.
fn is_variant(segment: &str) -> bool {
    segment.strip_prefix('V').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '_'))
}

/// `V2026_07_28` or `v2026_07_28`, under whatever type or module.
fn is_dated(segment: &str) -> bool {
    let Some(date) = segment.strip_prefix(['V', 'v']) else { return false };
    DATES.iter().any(|known| known.replace('-', "_") == date)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;

    fn found(path: &str, text: &str) -> Vec<String> {
        let repository = Repository { tree: Tree::of(&[(path, text)]), ..Repository::default() };
        check(&repository).findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_revision_named_in_a_handler_is_found() {
        let text = "//! Doc.\nfn f(r: Revision) -> bool { r >= Revision::V2026_07_28 }";
        let found = found("crates/longhaul/src/server/mod.rs", text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/longhaul/src/server/mod.rs:2: Revision::V2026_07_28 is named"));
    }

    #[test]
    fn no_import_hides_a_revision() {
        for text in [
            "use longhaul_proto::Revision::*;",
            "use longhaul_proto::{Revision::{self, V2025_11_25}};",
            "use longhaul_proto::Revision as R; const X: R = R::V2025_11_25;",
            "use longhaul_proto::dialect::v2026_07_28::Codec;",
            "const LATEST: &str = \"2026-07-28\";",
        ] {
            assert!(!found("crates/longhaul/src/lib.rs", text).is_empty(), "{text}");
        }
    }

    #[test]
    fn the_dialects_tests_and_docs_may_name_revisions() {
        let text = "fn f() { Revision::V2026_07_28; }";
        for path in [
            "crates/longhaul-proto/src/dialect/rules.rs",
            "crates/longhaul-proto/src/dialect.rs",
            "crates/longhaul/tests/api.rs",
            "crates/longhaul-test/src/lib.rs",
            "conformance/everything-server/src/main.rs",
        ] {
            assert_eq!(found(path, text), [""; 0], "{path}");
        }
        let text =
            "/// `Revision::V2026_07_28` and \"2026-07-28\".\n#[cfg(test)] mod tests { use Revision::*; }";
        assert_eq!(found("crates/longhaul/src/lib.rs", text), [""; 0]);
    }

    #[test]
    fn other_types_may_have_such_variants() {
        assert_eq!(
            found("crates/longhaul/src/lib.rs", "fn f() { Ip::V4; Store::V1; \"2026-08-01\"; }"),
            [""; 0]
        );
    }
}
