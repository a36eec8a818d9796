//! What a task went through so far, as a table: attempts, steps, questions, waits and its end.

use longhaul::store::{Phase, Record, Time};
use maud::{Markup, html};

use super::form::encoded;
use super::frame;
use crate::admin::{ShownStep, State, state_of};
use crate::clean;

/// One thing that a task went through.
struct Turn {
    what: Markup,
    how: String,
    took: Markup,
    /// It is a part of what is above it.
    is_step: bool,
}

/// What it went through so far; `steps` are those of its work, where they can be had.
pub(super) fn timeline(record: &Record, steps: Option<&[ShownStep]>, now: Time) -> Markup {
    let turns = turns(record, steps, now);
    html! {
        section id="timeline" aria-labelledby="timeline-title" {
            h2 id="timeline-title" { "Timeline" }
            div.scroll tabindex="0" role="group" aria-label="Timeline, a table" {
                table {
                    thead { tr { th scope="col" { "What" } th scope="col" { "Outcome" } th scope="col" { "When" } } }
                    tbody {
                        @for turn in turns {
                            tr class=[turn.is_step.then_some("step")] { th scope="row" { (turn.what) } td { (turn.how) } td { (turn.took) } }
                        }
                    }
                }
            }
        }
    }
}

fn turns(record: &Record, steps: Option<&[ShownStep]>, now: Time) -> Vec<Turn> {
    let turn = |what: Markup, how: String, took: Markup| Turn { what, how, took, is_step: false };
    let mut turns = Vec::new();
    let made = match &record.parent {
        Some(parent) => {
            html! { "Made by " a href={ "/tasks/" (encoded(parent.task.as_str())) } { "another task" } }
        }
        None => html! { "Called" },
    };
    turns.push(turn(made, String::new(), frame::ago(record.created_at, now)));
    if record.attempt > 1 {
        let lost = record.attempt - 1;
        let times = if lost == 1 { "once".to_owned() } else { format!("{lost} times") };
        turns.push(turn(html! { "Cut off" }, format!("{times} since it last got further"), html! {}));
    }
    if record.attempt > 0 {
        let node = record.lease().map(|lease| format!("on node {}", lease.node));
        let what = html! { "Attempt " (record.attempt) };
        turns.push(turn(what, node.unwrap_or_default(), html! {}));
    }
    if record.steps > 0 {
        turns.push(turn(html! { "Steps" }, format!("{} noted", record.steps), html! {}));
    }
    turns.extend(steps.into_iter().flat_map(latest));
    let mut count = |what: &str, how: String| turns.push(turn(html! { (what) }, how, html! {}));
    if record.parts > 0 {
        count("Parts of the result", format!("{} given", record.parts));
    }
    let children = record.children;
    if children.open + children.ended > 0 {
        count(
            "Tasks that it made",
            format!("{}, of which {} have ended", children.open + children.ended, children.ended),
        );
    }
    for question in &record.questions {
        let what = html! { span.asked { "Question" } };
        turns.push(turn(what, "waits for an answer".to_owned(), frame::ago(question.asked_at, now)));
    }
    if let Phase::Parked { until: Some(until) } = &record.phase {
        turns.push(turn(html! { "Waits" }, "until its time".to_owned(), frame::within(*until, now)));
    }
    if let Some(ended) = record.terminal_at {
        let how = State::name(state_of(record)).to_owned();
        turns.push(turn(html! { "Ended" }, how, frame::ago(ended, now)));
    }
    if record.undo.is_some() {
        let how = if record.owed == 0 { "done".to_owned() } else { format!("{} steps left", record.owed) };
        turns.push(turn(html! { "Undone" }, how, html! {}));
    }
    turns
}

/// How many steps are shown: the latest.
const MOST_STEPS: usize = 50;

/// The latest of these steps.
fn latest(steps: &[ShownStep]) -> Vec<Turn> {
    let before = steps.len().saturating_sub(MOST_STEPS);
    let step = |what: Markup, how: &str| Turn { what, how: how.to_owned(), took: html! {}, is_step: true };
    let earlier = (before > 0).then(|| step(html! { "… and " (before) " before" }, ""));
    let shown = steps[before..].iter().map(|shown| {
        let name = clean::line(&shown.name, 120);
        let how = match shown.state {
            "begun" => "begun",
            "waits" => "waits for its time",
            "task" => "is a task",
            "owed" => "undoes another, should the task fail",
            other => other,
        };
        match &shown.task_id {
            Some(task) => step(html! { a href={ "/tasks/" (encoded(task)) } { (name) } }, how),
            None => step(html! { (name) }, how),
        }
    });
    earlier.into_iter().chain(shown).collect()
}
