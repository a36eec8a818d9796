//! How far a call has come: a bar for a person, lines for a log, events for a program.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use longhaul::proto::model::{Progress, TaskStatus};
use serde_json::{Value, json};

use super::{clean, is_watched, note, watched_width, write};

/// In what manner a verb speaks while it works.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Manner {
    /// To a person, or to a log.
    Words,
    /// Not at all: there will be one object at the end.
    Quiet,
    /// Each event as a line of JSON on standard output.
    Events,
}

impl Manner {
    pub(crate) fn new(json: bool, events: bool) -> Self {
        match (json, events) {
            (_, true) => Self::Events,
            (true, false) => Self::Quiet,
            (false, false) => Self::Words,
        }
    }

    /// Whether failures are reported as JSON.
    pub(crate) fn is_json(self) -> bool {
        self != Self::Words
    }
}

/// Shows how far something has come. Shared by whoever hears of it.
#[derive(Debug)]
pub(crate) struct Show {
    manner: Manner,
    /// There if a person watches.
    bar: Option<ProgressBar>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    name: String,
    is_task: bool,
    status: String,
    progress: Option<Progress>,
    said: String,
    said_at: Option<Instant>,
    /// Something else has the terminal, and this much time had passed when it took it.
    paused: Option<Duration>,
}

/// The least time between two lines that say how far something is.
const EVERY: Duration = Duration::from_secs(10);

/// How often a bar is drawn although nothing has changed.
const TICK: Duration = Duration::from_millis(120);

/// How long words beside a bar may be.
const WORDS: usize = 60;

/// How long a name before a bar may be: the beginning of an id will do to come back on a store.
const PREFIX: usize = 20;

/// On a terminal of fewer columns there is no room for a bar, what is said, and so much of a name.
const NARROW: u16 = 64;
const NARROW_PREFIX: usize = 12;

impl Show {
    /// Shows what is called `name` for now.
    pub(crate) fn new(manner: Manner, name: &str) -> Self {
        let bar = (manner == Manner::Words && is_watched()).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
            bar.set_style(style(false));
            bar.enable_steady_tick(TICK);
            bar
        });
        let state = State {
            name: clean::line(name, WORDS),
            is_task: false,
            status: String::new(),
            progress: None,
            said: String::new(),
            said_at: None,
            paused: None,
        };
        let show = Self { manner, bar, state: Mutex::new(state) };
        show.draw(&mut show.lock());
        show
    }

    /// Shows nothing of how far it is, but has the name of what is asked about.
    pub(crate) fn quiet(name: &str) -> Self {
        Self::new(Manner::Quiet, name)
    }

    /// It is a task now, and stands so.
    pub(crate) fn task(&self, id: &str, status: TaskStatus, message: Option<&str>) {
        self.event(
            || json!({ "event": "task", "taskId": id, "status": status.as_str(), "message": message }),
        );
        let mut state = self.lock();
        let name = clean::line(id, 128);
        if state.name != name {
            // What it is called from now on is worth a line at once: it is how to come back.
            state.name = name;
            state.said_at = None;
        }
        state.is_task = true;
        state.status = clean::line(message.unwrap_or_default(), WORDS);
        self.draw(&mut state);
    }

    /// No more progress will come: what came so far would only grow old.
    pub(crate) fn forget_progress(&self) {
        self.lock().progress = None;
    }

    pub(crate) fn progress(&self, progress: &Progress) {
        self.event(|| {
            let Progress { value, total, message, .. } = progress;
            json!({ "event": "progress", "progress": value, "total": total, "message": message })
        });
        let mut state = self.lock();
        if let Some(message) = &progress.message {
            state.status = clean::line(message, WORDS);
        }
        state.progress = Some(progress.clone());
        self.draw(&mut state);
    }

    /// A line of somebody else's, above whatever else is shown.
    pub(crate) fn say(&self, event: &str, line: &str) {
        self.event(|| json!({ "event": event, "text": line }));
        if self.manner != Manner::Words {
            return;
        }
        let line = clean::line(line, LINE);
        match &self.bar {
            Some(bar) => bar.println(format!("  {line}")),
            None => note(&format!("  {line}")),
        }
    }

    /// Draws nothing until it may [go on](Self::go_on).
    pub(crate) fn pause(&self) {
        let mut state = self.lock();
        if let Some(bar) = &self.bar {
            state.paused.get_or_insert_with(|| bar.elapsed());
            bar.finish_and_clear();
        }
    }

    /// Draws again.
    pub(crate) fn go_on(&self) {
        let mut state = self.lock();
        if let (Some(bar), Some(elapsed)) = (&self.bar, state.paused.take()) {
            bar.reset();
            drop(bar.clone().with_elapsed(elapsed));
            bar.enable_steady_tick(TICK);
            self.draw(&mut state);
        }
    }

    /// What it is called now.
    pub(crate) fn name(&self) -> String {
        self.lock().name.clone()
    }

    /// Nothing more will be shown.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Writes an event, if that is the manner. A reader that has gone is noticed at the end.
    pub(crate) fn event(&self, event: impl FnOnce() -> Value) {
        if self.manner == Manner::Events {
            let line = clean::json(&event().to_string());
            drop(write(format!("{line}\n").as_bytes()));
        }
    }

    fn draw(&self, state: &mut State) {
        let words = counted(state.progress.as_ref(), &state.status, "  ");
        match &self.bar {
            Some(_) if state.paused.is_some() => {}
            Some(bar) => {
                let total = state.progress.as_ref().and_then(|progress| progress.total);
                let is_narrow = watched_width().is_some_and(|width| width < NARROW);
                bar.set_style(if is_narrow { narrow_style() } else { style(total.is_some()) });
                if let (Some(total), Some(progress)) = (total, &state.progress) {
                    bar.set_length(STEPS);
                    bar.set_position(portion(progress.value, total));
                }
                bar.set_prefix(clean::line(&state.name, if is_narrow { NARROW_PREFIX } else { PREFIX }));
                bar.set_message(words);
            }
            None if self.manner == Manner::Words && state.is_under_way() => state.speak(&words),
            None => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Show {
    fn drop(&mut self) {
        self.end();
    }
}

impl State {
    /// Whether there is anything to say: a call that is answered at once needs no words.
    fn is_under_way(&self) -> bool {
        self.is_task || self.progress.is_some()
    }

    /// Says a line if it is another than the last and that was long enough ago.
    fn speak(&mut self, words: &str) {
        let is_early = self.said_at.is_some_and(|at| at.elapsed() < EVERY);
        let words = format!("{}  {words}", self.name);
        if words.trim_end() == self.said || is_early {
            return;
        }
        let words = words.trim_end().to_owned();
        note(&words);
        self.said = words;
        self.said_at = Some(Instant::now());
    }
}

/// How long a line of somebody else's may be.
const LINE: usize = 400;

/// Into how many steps a bar is divided, whatever the unit of what it shows.
const STEPS: u64 = 1000;

fn style(has_total: bool) -> ProgressStyle {
    styled(if has_total {
        "{prefix}  ▕{bar:22}▏ {elapsed}  {wide_msg}"
    } else {
        "{prefix}  {spinner} {elapsed}  {wide_msg}"
    })
}

/// What is said begins with how far it is.
fn narrow_style() -> ProgressStyle {
    styled("{prefix} {spinner} {wide_msg}")
}

fn styled(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("█▓░")
}

fn portion(value: f64, total: f64) -> u64 {
    let share = if total > 0.0 { (value / total).clamp(0.0, 1.0) } else { 0.0 };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "between 0 and 1000"
    )]
    let steps = (share * STEPS as f64) as u64;
    steps
}

/// How far something is, and what is said of it: `212/412 running api::auth`. A line that begins with the count, such
/// as one that the count was read from, has said it.
pub(crate) fn counted(progress: Option<&Progress>, words: &str, between: &str) -> String {
    let count = progress.map(count).unwrap_or_default();
    let said = words.strip_prefix(&count).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
    match (said || count.is_empty(), words.is_empty()) {
        (true, _) => words.to_owned(),
        (false, true) => count,
        (false, false) => format!("{count}{between}{words}"),
    }
}

/// `212/412`, or `212` where there is no end in sight: never a made-up percentage.
fn count(progress: &Progress) -> String {
    match progress.total {
        Some(total) => format!("{}/{}", number(progress.value), number(total)),
        None => number(progress.value),
    }
}

fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_short_and_honest() {
        assert_eq!(count(&Progress::new(212.0).of(412.0)), "212/412");
        assert_eq!(count(&Progress::new(0.5)), "0.5");
        let progress = Progress::new(9.0).of(20.0);
        let counted = |words| counted(Some(&progress), words, " ");
        assert_eq!(counted("linking"), "9/20 linking");
        assert_eq!(counted("9/20 602489 primes"), "9/20 602489 primes", "once is enough");
        assert_eq!(counted("9/200"), "9/20 9/200", "another number");
        assert_eq!(counted(""), "9/20");
        assert_eq!(portion(1.0, 4.0), 250);
        assert_eq!(portion(9.0, 4.0), STEPS);
        assert_eq!(portion(1.0, 0.0), 0);
        assert_eq!(portion(f64::NAN, 1.0), 0);
    }
}
