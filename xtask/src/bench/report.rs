//! What a run found: printed as it is found, and written as a page when it is to be kept.

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};

use super::bars;
use super::figures::{self, Figures};
use super::goal::Goal;
use crate::tally::Tally;

/// Everything that one run found.
#[derive(Debug, Default)]
pub(super) struct Report {
    sections: Vec<Section>,
    tally: Tally,
}

/// What one bench found.
#[derive(Debug)]
struct Section {
    name: &'static str,
    /// What it measures.
    what: String,
    /// What was found, as Markdown.
    text: String,
    /// One picture, as SVG.
    plot: Option<String>,
}

impl Report {
    /// Begins what the bench of this name finds; a line says what it measures.
    pub(super) fn begin(&mut self, name: &'static str, what: &str, rounds: usize) {
        println!("\n== {name}: {what} ({rounds} rounds)");
        let what = format!("{} ({rounds} rounds).", capitalized(what));
        self.sections.push(Section { name, what, text: String::new(), plot: None });
    }

    /// A remark.
    pub(super) fn remark(&mut self, line: &str) {
        println!("{line}");
        self.write(&format!("\n{}.\n", capitalized(line)));
    }

    /// Rows under their heads.
    pub(super) fn table<const COLUMNS: usize>(&mut self, heads: [&str; COLUMNS], rows: &[[String; COLUMNS]]) {
        figures::print_table(heads, rows);
        let mut table = format!("\n| {} |\n|---{}|\n", heads.join(" | "), "|---:".repeat(COLUMNS - 1));
        for row in rows {
            // A string takes any line.
            let _ = writeln!(table, "| {} |", row.join(" | "));
        }
        self.write(&table);
    }

    /// A ratio that binds nobody.
    pub(super) fn ratio(&mut self, what: &str, figures: &Figures) {
        println!("{what}: {figures}");
        self.item(&format!("{what}: **{figures}**"));
    }

    /// A figure and what it must be: one part that passes or fails.
    pub(super) fn judge(&mut self, goal: Goal, what: &str, figures: &Figures) {
        let word = if goal.is_met(figures) { "met" } else { "MISSED" };
        println!("{word}: {what}: {figures}; goal: {goal}");
        self.item(&format!("{word}: {what}: **{figures}**; goal: {goal}"));
        self.tally += Tally::one(goal.is_met(figures));
    }

    /// As [`judge`](Self::judge), beside what the least that must be done anyway takes: where that alone misses the goal, it is
    /// out of reach here, which is said with what it is and fails nothing.
    pub(super) fn judge_beside(
        &mut self,
        goal: Goal,
        what: &str,
        figures: &Figures,
        limit: (&str, &Figures),
    ) {
        let (least, alone) = limit;
        if goal.is_met(figures) || goal.is_met(alone) {
            return self.judge(goal, what, figures);
        }
        let found = |figures: &str, alone: &str| {
            format!("out of reach: {what}: {figures}; goal: {goal}; {least}: {alone}")
        };
        println!("{}", found(&figures.to_string(), &alone.to_string()));
        self.item(&found(&format!("**{figures}**"), &format!("**{alone}**")));
    }

    /// Shows one figure of each as bars, in the page alone. The first plot of a bench is kept.
    pub(super) fn plot(&mut self, what: &str, bars: &[(&str, f64)]) {
        if let Some(section) = self.sections.last_mut() {
            section.plot.get_or_insert_with(|| bars::svg(what, bars));
        }
    }

    /// How many goals were met and missed.
    pub(super) fn tally(&self) -> Tally {
        self.tally
    }

    /// Writes what these benches found `of` something into the page of this name and its pictures, in a folder. What others of them
    /// have found before stays there. Whether there was anything to write.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or written.
    pub(super) fn keep(
        &self,
        folder: &Path,
        page: &str,
        head: &str,
        benches: &[&str],
        of: &str,
    ) -> Result<bool> {
        if !self.sections.iter().any(|section| benches.contains(&section.name)) {
            return Ok(false);
        }
        let plots = folder.join("plots");
        fs::create_dir_all(&plots).with_context(|| format!("cannot make {}", plots.display()))?;
        let file = folder.join(page);
        let before = match fs::read_to_string(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            before => before.with_context(|| format!("cannot read {}", file.display()))?,
        };
        let mut page = head.to_owned();
        for bench in benches {
            if let Some(section) = self.sections.iter().find(|section| section.name == *bench) {
                page.push_str(&format!("\n## {bench}\n\n{}\n\n{of}{}", section.what, section.text));
                if let Some(plot) = &section.plot {
                    let file = plots.join(bench).with_extension("svg");
                    fs::write(&file, plot).with_context(|| format!("cannot write {}", file.display()))?;
                    page.push_str(&format!("\n![{bench}](plots/{bench}.svg)\n"));
                }
            } else if let Some(kept) = section_of(&before, bench) {
                page.push_str(&format!("\n{kept}\n"));
            }
        }
        fs::write(&file, page).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(true)
    }

    /// Items of a list stand together.
    fn item(&mut self, text: &str) {
        let Some(section) = self.sections.last_mut() else { return };
        let is_first = !section.text.lines().last().is_some_and(|line| line.starts_with("- "));
        section.text.push_str(if is_first { "\n- " } else { "- " });
        section.text.push_str(text);
        section.text.push('\n');
    }

    fn write(&mut self, text: &str) {
        if let Some(section) = self.sections.last_mut() {
            section.text.push_str(text);
        }
    }
}

/// What a page has of a bench, from its heading on.
fn section_of<'p>(page: &'p str, bench: &str) -> Option<&'p str> {
    let heading = format!("\n## {bench}\n");
    let from = page.find(&heading)? + 1;
    let section = &page[from..];
    Some(section.find("\n## ").map_or(section, |until| &section[..until]).trim_end())
}

/// With a capital at its beginning.
pub(super) fn capitalized(line: &str) -> String {
    let mut letters = line.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_a_page_and_a_tally() {
        let mut report = Report::default();
        let mut figures = Figures::default();
        figures.push(2.0);
        report.begin("http", "calls over HTTP", 1);
        report.table(["", "calls/s"], &[["longhaul".to_owned(), "9".to_owned()]]);
        report.ratio("ours over theirs", &figures);
        report.judge(Goal::AtLeast(1.5), "calls", &figures);
        report.judge(Goal::AtMost(1.5), "CPU", &figures);
        let mut alone = Figures::default();
        alone.push(1.75);
        report.judge_beside(Goal::AtMost(1.5), "CPU", &figures, ("a bare loop's", &alone));
        report.judge_beside(Goal::AtMost(1.8), "CPU", &figures, ("a bare loop's", &alone));
        report.plot("CPU", &[("longhaul", 1.0)]);
        assert_eq!(report.tally().to_string(), "1 passed, 2 failed");
        let folder = tempfile::tempdir().unwrap();
        let kept = |report: &Report, of: &str| {
            let benches = ["http", "stdio"];
            assert!(report.keep(folder.path(), "RESULTS.md", "# Results\n", &benches, of).unwrap());
            fs::read_to_string(folder.path().join("RESULTS.md")).unwrap()
        };
        let page = kept(&report, "- commit 1\n");
        assert_eq!(
            page,
            "# Results\n\n## http\n\nCalls over HTTP (1 rounds).\n\n- commit 1\n\n|  | calls/s |\n|---|---:|\n| longhaul | 9 |\n\n\
             - ours over theirs: **2.00 (2.00-2.00)**\n- met: calls: **2.00 (2.00-2.00)**; goal: at least 1.5\n\
             - MISSED: CPU: **2.00 (2.00-2.00)**; goal: at most 1.5\n\
             - out of reach: CPU: **2.00 (2.00-2.00)**; goal: at most 1.5; a bare loop's: **1.75 (1.75-1.75)**\n\
             - MISSED: CPU: **2.00 (2.00-2.00)**; goal: at most 1.8\n\n![http](plots/http.svg)\n"
        );
        assert!(fs::read_to_string(folder.path().join("plots/http.svg")).unwrap().starts_with("<svg"));

        let mut of_another = Report::default();
        of_another.begin("stdio", "calls over stdio", 1);
        of_another.ratio("ours over theirs", &figures);
        let both = kept(&of_another, "- commit 2\n");
        assert_eq!(
            both.strip_prefix(&page).unwrap(),
            "\n## stdio\n\nCalls over stdio (1 rounds).\n\n- commit 2\n\n- ours over theirs: **2.00 (2.00-2.00)**\n"
        );
        // What is found again stands in the place of what was.
        assert_eq!(kept(&report, "- commit 1\n"), both);
        assert!(!of_another.keep(folder.path(), "SCALE.md", "# Results\n", &["scale"], "").unwrap());
    }
}
