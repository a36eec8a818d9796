//! Rule: nothing unfinished and no lint silenced without a reason that the compiler checks.

use crate::tidy::Repository;
use crate::tidy::finding::{Finding, Report};
use crate::tidy::source::reads;

/// Tokens that must not be committed, and what to do instead.
const REFUSED: &[(&[&str], &str, &str)] = &[
    (&["todo", "!"], "unfinished code", "finish it"),
    (
        &["unimplemented", "!"],
        "unfinished code",
        "finish it, or return an error that says what is not supported",
    ),
    (&["#", "[", "allow", "("], "a lint is allowed", "write #[expect(…, reason = \"…\")]"),
    (&["#", "!", "[", "allow", "("], "a lint is allowed", "write #![expect(…, reason = \"…\")]"),
];

/// Examines every Rust file, tests too.
pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    for file in repository.tree.rust() {
        let Some(source) = file.tokens() else { continue };
        let mut found = Vec::new();
        for (at, token) in source.all.iter().enumerate() {
            for (texts, what, fix) in REFUSED {
                if reads(&source.all, at, texts) {
                    found.push(Finding::new(&file.path, token.line, *what, *fix));
                }
            }
        }
        report.examined(found);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;

    fn found(text: &str) -> Vec<usize> {
        let tree = Tree::of(&[("crates/a/src/lib.rs", text)]);
        check(&Repository { tree, ..Repository::default() }).findings.iter().map(|f| f.line).collect()
    }

    #[test]
    fn unfinished_code_is_found_in_tests_too() {
        assert_eq!(found("fn f() { todo!() }\nfn g() { unimplemented!(\"x\") }"), [1, 2]);
        assert_eq!(found("#[cfg(test)]\nmod tests { fn f() { todo ! () } }"), [2]);
    }

    #[test]
    fn a_silenced_lint_is_found() {
        assert_eq!(found("#![allow(dead_code)]\n#[allow(unused)]\nfn f() {}"), [1, 2]);
        assert_eq!(found("#[expect(unused, reason = \"x\")]\nfn f() {}"), [0; 0]);
    }

    #[test]
    fn words_in_comments_and_strings_are_fine() {
        assert_eq!(found("// todo!()\nconst A: &str = \"#[allow(\";"), [0; 0]);
    }
}
