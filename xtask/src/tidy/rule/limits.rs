//! Rule: the page of limits is what the code says, and says of each what becomes of what goes beyond it.

use crate::limits::{PAGE, TABLE, page};
use crate::tidy::Repository;
use crate::tidy::finding::{Finding, Report};

/// Examines the page.
pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    let read = |path: &str| repository.tree.file(path).and_then(|file| file.text.clone());
    if read(TABLE).is_none() {
        return report;
    }
    report.examined(match page(read) {
        Ok(page) if read(PAGE).as_deref() == Some(page.as_str()) => None,
        Ok(_) => Some(Finding::new(PAGE, 1, "it is not what the code says", "run `cargo xtask limits`")),
        Err(error) => Some(Finding::new(TABLE, 1, format!("{error:#}"), "correct it")),
    });
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;

    #[test]
    fn a_page_that_is_not_what_the_code_says_is_found() {
        let table = "head = \"x\"\npart = []\n";
        let found = |page: &str| {
            let repository =
                Repository { tree: Tree::of(&[(TABLE, table), (PAGE, page)]), ..Repository::default() };
            check(&repository).findings.len()
        };
        let read = |path: &str| (path == TABLE).then(|| table.to_owned());
        assert_eq!((found("old"), found(&page(read).unwrap())), (1, 0));
    }
}
