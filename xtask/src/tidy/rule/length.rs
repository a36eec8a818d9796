//! Rule: a file holds one idea, at most 800 lines, unless it is listed with a reason. (Functions are clippy's.)

use crate::tidy::Repository;
use crate::tidy::exception::{self, Exceptions};
use crate::tidy::finding::{Finding, Report};

/// The most lines a source file may have.
const CEILING: usize = 800;

/// Kinds of file that people write by hand.
const SOURCES: &[&str] = &[".rs", ".mjs", ".js", ".ts", ".py", ".sh"];

/// Examines every source file, and every exception.
pub(super) fn check(repository: &Repository, exceptions: &Exceptions) -> Report {
    let mut report = Report::default();
    for file in repository.tree.files.iter().filter(|f| SOURCES.iter().any(|kind| f.path.ends_with(kind))) {
        let lines = file.lines().count();
        let too_long = lines > CEILING && !exceptions.long_files.contains_key(&file.path);
        report.examined(too_long.then(|| {
            Finding::new(
                &file.path,
                CEILING + 1,
                format!("{lines} lines where {CEILING} are the ceiling"),
                format!(
                    "split it by idea, or list it under [long_files] in {} with a reason",
                    exception::PATH
                ),
            )
        }));
    }
    for (path, reason) in &exceptions.long_files {
        let lines = repository.tree.file(path).map(|file| file.lines().count());
        let stale = match lines {
            None => Some(Exceptions::stale(path, "no longer exists")),
            Some(lines) if lines <= CEILING => Some(Exceptions::stale(path, "is no longer needed")),
            Some(_) if reason.trim().is_empty() => Some(Finding::new(
                exception::PATH,
                1,
                format!("no reason for {path}"),
                "say why it is better whole",
            )),
            Some(_) => None,
        };
        report.examined(stale);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;

    fn found(lines: usize, listed: &[(&str, &str)]) -> Vec<String> {
        let tree =
            Tree::of(&[("crates/a/src/lib.rs", &"//\n".repeat(lines)), ("data.json", &"\n".repeat(9000))]);
        let long_files = listed.iter().map(|(path, why)| ((*path).to_owned(), (*why).to_owned())).collect();
        let exceptions = Exceptions { long_files, ..Exceptions::default() };
        let report = check(&Repository { tree, ..Repository::default() }, &exceptions);
        report.findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_past_the_ceiling_is_found() {
        assert_eq!(found(800, &[]), [""; 0]);
        assert!(found(801, &[])[0].starts_with("crates/a/src/lib.rs:801: 801 lines"));
    }

    #[test]
    fn an_exception_needs_a_reason_and_a_long_file() {
        assert_eq!(found(801, &[("crates/a/src/lib.rs", "one table")]), [""; 0]);
        assert!(found(801, &[("crates/a/src/lib.rs", " ")])[0].contains("no reason"));
        assert!(found(10, &[("crates/a/src/lib.rs", "one table")])[0].contains("no longer needed"));
        assert!(found(10, &[("gone.rs", "one table")])[0].contains("no longer exists"));
    }
}
