//! Named cases, some at a time, and the line that says what they came to.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::Result;

use crate::place::Place;
use crate::processes;

/// What a case does, and what it says of how it went.
pub(crate) type Story = Box<dyn FnOnce(&Place) -> Result<String> + Send>;

/// One case: its name, and what it does in a place of its own. What it gives back is said with its name.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) run: Story,
}

impl Case {
    /// A case.
    pub(crate) fn new(
        name: impl Into<String>,
        run: impl FnOnce(&Place) -> Result<String> + Send + 'static,
    ) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}

/// How many cases passed and failed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

/// Runs all cases, `at_once` at a time, and says of each what came of it.
pub(crate) fn run_all(program: &Path, cases: Vec<Case>, at_once: usize) -> Tally {
    let waiting = Mutex::new(VecDeque::from(cases));
    let tally = Mutex::new(Tally::default());
    thread::scope(|scope| {
        for _worker in 0..at_once.max(1) {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(case) = next else { return };
                    let passed = run_one(program, case);
                    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                    tally.passed += usize::from(passed);
                    tally.failed += usize::from(!passed);
                }
            });
        }
    });
    tally.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn run_one(program: &Path, case: Case) -> bool {
    let Case { name, run } = case;
    let began = Instant::now();
    let outcome: Result<String, (anyhow::Error, Option<PathBuf>)> = match Place::new(program) {
        Err(error) => Err((error, None)),
        Ok(place) => match run(&place) {
            Ok(note) => Ok(note),
            Err(error) => {
                processes::end_all(&place);
                Err((error, Some(place.keep())))
            }
        },
    };
    let took = began.elapsed().as_secs_f64();
    match outcome {
        Ok(note) => {
            let note = if note.is_empty() { note } else { format!("   {note}") };
            println!("ok      {name}   {took:.1} s{note}");
            true
        }
        Err((error, kept)) => {
            let kept = kept.map(|folder| format!("\n  its files are kept in {}", folder.display()));
            let text = format!("{error:#}").replace('\n', "\n  ");
            println!("FAILED  {name}   {took:.1} s\n  {text}{}", kept.unwrap_or_default());
            false
        }
    }
}
