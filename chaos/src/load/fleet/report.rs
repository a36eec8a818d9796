//! What a run has shown: of each invariant how much was held against it, and whether anything was done at all that could have
//! broken it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::sight::Looked;
use super::super::verdict::Verdict;
use super::super::watch::Watched;
use super::super::{CALLERS, OBSERVERS};
use super::Fault;
use super::driver::Figures;
use super::remains::Remains;
use super::witness::Seen;

/// From when on a run has to show everything: in less the seed may well leave something out.
const LONG: Duration = Duration::from_secs(5 * 60);

/// What was done, and what was looked at.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) within: Duration,
    pub(super) tasks: usize,
    pub(super) answers: usize,
    pub(super) figures: Figures,
    /// What was to fail, and how often it did.
    pub(super) faults: Vec<Fault>,
    pub(super) done: BTreeMap<Fault, usize>,
    /// Of I1 and those that follow how often something was held against it, and what that was.
    pub(super) held: [(usize, String); 14],
}

impl Report {
    /// A line for each invariant.
    pub(super) fn lines(&self, broken: &[String]) -> Vec<String> {
        let line = |((_, what), number): (&(usize, String), usize)| {
            let count = broken.iter().filter(|broken| broken.contains(&format!("I{number}: "))).count();
            format!("{:<4} {count} violations: {what}", format!("I{number}"))
        };
        self.held.iter().zip(1..).map(line).collect()
    }

    /// What was to be shown, and was not.
    pub(super) fn not_shown(&self) -> Vec<String> {
        let mut not = Vec::new();
        if self.tasks == 0 {
            not.push("nothing was called".to_owned());
        }
        if self.within < LONG {
            return not;
        }
        let mut must = |is: bool, what: &dyn Fn() -> String| {
            if !is {
                not.push(what());
            }
        };
        for fault in &self.faults {
            must(self.done.contains_key(fault), &|| format!("no {fault}"));
        }
        must(self.answers > 0, &|| "nothing was answered".to_owned());
        let takes = [Fault::Kill, Fault::Stop, Fault::Cut, Fault::Silence];
        let fences = [Fault::Stop, Fault::Cut, Fault::Silence];
        let any = |of: &[Fault]| self.faults.iter().any(|fault| of.contains(fault));
        must(self.figures.takeovers > 0 || !any(&takes), &|| "nothing was taken over".to_owned());
        must(self.figures.fenced > 0 || !any(&fences), &|| "no write was fenced".to_owned());
        for ((held, what), number) in self.held.iter().zip(1..) {
            must(*held > 0, &|| format!("nothing was held against I{number}: {what}"));
        }
        not
    }
}

/// What was looked at by all of them.
#[derive(Debug)]
pub(super) struct Held<'a> {
    pub(super) looked: Looked,
    pub(super) verdict: &'a Verdict,
    pub(super) seen: &'a Seen,
    pub(super) watched: &'a Watched,
    pub(super) remains: &'a Remains,
    /// Acknowledged answers.
    pub(super) answers: usize,
    /// What strangers have tried.
    pub(super) tried: usize,
}

impl Held<'_> {
    /// How often something was held against each invariant, and what.
    pub(super) fn each(&self) -> [(usize, String); 14] {
        let Held { looked, verdict, seen, watched, remains, answers, tried } = self;
        let Looked { looks, waits, changes, again, ends, questions, gone } = looked;
        let Seen { claims, taken, ends: ended, steps, gaps, .. } = seen;
        let (keys, longest) = (verdict.keys, watched.longest.as_secs_f64());
        let (tasks, counters) = (remains.tasks(), remains.counters.len());
        let (among, kinds) = (remains.among(), remains.left.len());
        [
            (
                *again,
                format!(
                    "{again} statuses followed others, {changes} of them another; {} were made",
                    verdict.calls
                ),
            ),
            (*ends, format!("{ends} ends were shown again, {waits} results waited for")),
            (*looks, format!("{looks} looks by {} observers at what was made", CALLERS + OBSERVERS)),
            (
                *answers,
                format!("{answers} answers acknowledged, {} of them in sessions", verdict.in_sessions),
            ),
            (
                questions.min(&keys).to_owned(),
                format!("{questions} questions shown, {keys} keys of effects told"),
            ),
            (
                *claims,
                format!(
                    "{} writes witnessed: {claims} leases given, {taken} of them taken from others, {ended} ended and \
                 {steps} steps recorded under one; {gaps} gaps",
                    seen.changes
                ),
            ),
            (verdict.effects, format!("effects had {}", verdict.told_of_effects())),
            (
                watched.rows,
                format!(
                    "{} looks at the store saw {} open tasks, the longest {longest:.1} s over its time",
                    watched.looks, watched.rows
                ),
            ),
            (*tried, format!("strangers tried {tried} times to learn or change what is another's")),
            (*again, format!("{again} dates followed others")),
            (*gone, format!("{gone} looks at what was forgotten")),
            (tasks, format!("{counters} counters counted again, of {tasks} tasks")),
            (verdict.calls, format!("{} keys of calls", verdict.calls)),
            (among, format!("{among} looks at what is there for {kinds} kinds of remains")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(within: Duration) -> Report {
        let faults = vec![Fault::Kill, Fault::Stop];
        let done = faults.iter().map(|fault| (*fault, 1)).collect();
        let figures = Figures { takeovers: 1, fenced: 1 };
        let held = std::array::from_fn(|at| (1, format!("things of {at}")));
        Report { within, tasks: 1, answers: 1, figures, faults, done, held }
    }

    #[test]
    fn a_run_that_could_break_nothing_shows_nothing() {
        let not = |within, change: fn(&mut Report)| {
            let mut report = report(within);
            change(&mut report);
            report.not_shown().join(", ")
        };
        assert_eq!(not(LONG, |_| {}), "");
        assert_eq!(not(LONG, |report| report.tasks = 0), "nothing was called");
        assert_eq!(not(LONG, |report| report.answers = 0), "nothing was answered");
        assert_eq!(not(LONG, |report| report.figures.takeovers = 0), "nothing was taken over");
        assert_eq!(not(LONG, |report| report.figures.fenced = 0), "no write was fenced");
        let never_stopped = |report: &mut Report| report.done.retain(|fault, _| *fault != Fault::Stop);
        assert_eq!(not(LONG, never_stopped), format!("no {}", Fault::Stop));
        assert_eq!(not(LONG, |report| report.held[8].0 = 0), "nothing was held against I9: things of 8");
        let only_killed = |report: &mut Report| {
            report.faults.pop();
            report.figures.fenced = 0;
        };
        assert_eq!(not(LONG, only_killed), "");
        let short = LONG - Duration::from_secs(1);
        assert_eq!(not(short, |report| report.figures.fenced = 0), "");
        assert_eq!(not(short, |report| report.tasks = 0), "nothing was called");
    }

    #[test]
    fn what_was_asked_of_an_empty_database_is_nothing() {
        let held = |remains: &Remains| {
            let (verdict, seen, watched) = (&Verdict::default(), &Seen::default(), &Watched::default());
            let looked = Looked::default();
            let [.., counted, _, left] =
                Held { looked, verdict, seen, watched, remains, answers: 0, tried: 0 }.each();
            [counted.0, left.0]
        };
        let remains = |found: i64| Remains {
            counters: vec![("tasks".to_owned(), found, found)],
            left: vec![("leases".to_owned(), 0, found)],
        };
        assert_eq!((held(&remains(0)), held(&remains(3))), ([0, 0], [3, 3]));
    }

    #[test]
    fn each_invariant_has_what_broke_it() {
        let broken = ["t1: I1: it is so".to_owned(), "I11: it is gone".to_owned(), "it ended".to_owned()];
        let lines = report(LONG).lines(&broken);
        assert_eq!(lines[0], "I1   1 violations: things of 0");
        assert_eq!((&*lines[10], lines.len()), ("I11  1 violations: things of 10", 14));
        assert_eq!(lines.iter().filter(|line| line.contains(" 0 violations")).count(), 12);
    }
}
