//! What a task went through so far, as a table: when it was queued, worked on and waited, each with a bar; steps, questions
//! and its end.

use longhaul::store::{Phase, Record, Time};
use maud::{Markup, html};

use super::bars::{Bar, bars};
use super::form::encoded;
use super::frame;
use crate::admin::{Leg, Over, ShownStep, State, What, course, span, state_of};
use crate::clean;

/// One thing that a task went through.
struct Turn {
    what: Markup,
    how: String,
    when: Markup,
    bar: Option<Bar>,
    /// It is a part of what is above it.
    is_step: bool,
}

impl Turn {
    fn new(what: Markup, how: impl Into<String>, when: Markup) -> Self {
        Self { what, how: how.into(), when, bar: None, is_step: false }
    }

    fn words(what: &str, how: impl Into<String>) -> Self {
        Self::new(html! { (what) }, how, html! {})
    }
}

/// What it went through so far; `steps` are those of its work, where they can be had.
pub(super) fn timeline(record: &Record, steps: Option<&[ShownStep]>, now: Time) -> Markup {
    let turns = turns(record, steps, now);
    html! {
        section id="timeline" aria-labelledby="timeline-title" {
            h2 id="timeline-title" { "Timeline" }
            div.scroll tabindex="0" role="group" aria-label="Timeline, a table" {
                table.timeline {
                    thead {
                        tr {
                            th scope="col" { "What" }
                            th scope="col" { "Outcome" }
                            th scope="col" { "When" }
                            // It shows nothing that the others do not say.
                            td aria-hidden="true" {}
                        }
                    }
                    tbody {
                        @for turn in turns {
                            tr class=[turn.is_step.then_some("step")] {
                                th scope="row" { (turn.what) }
                                td { (turn.how) }
                                td { (turn.when) }
                                td.where aria-hidden="true" { @if let Some(bar) = turn.bar { (bar.drawn()) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn turns(record: &Record, steps: Option<&[ShownStep]>, now: Time) -> Vec<Turn> {
    let made = match &record.parent {
        Some(parent) => {
            html! { "Made by " a href={ "/tasks/" (encoded(parent.task.as_str())) } { "another task" } }
        }
        None => html! { "Called" },
    };
    let mut turns = vec![Turn::new(made, "", frame::ago(record.created_at, now))];
    let legs = course(record, now);
    turns.extend(legs.iter().zip(bars(&legs)).map(|(leg, bar)| Turn { bar: Some(bar), ..part(leg) }));
    if record.attempt > 1 {
        let lost = record.attempt - 1;
        let times = if lost == 1 { "once".to_owned() } else { format!("{lost} times") };
        turns.push(Turn::words("Cut off", format!("{times} since it last got further")));
    }
    if record.steps > 0 {
        turns.push(Turn::words("Steps", format!("{} noted", record.steps)));
    }
    turns.extend(steps.into_iter().flat_map(latest));
    if record.parts > 0 {
        turns.push(Turn::words("Parts of the result", format!("{} given", record.parts)));
    }
    let children = record.children;
    if children.open + children.ended > 0 {
        let how = format!("{}, of which {} have ended", children.open + children.ended, children.ended);
        turns.push(Turn::words("Tasks that it made", how));
    }
    for question in &record.questions {
        let what = html! { span.asked { "Question" } };
        turns.push(Turn::new(what, "waits for an answer", frame::ago(question.asked_at, now)));
    }
    if let Phase::Parked { until: Some(until) } = &record.phase {
        turns.push(Turn::new(html! { "Waits" }, "until its time", frame::within(*until, now)));
    }
    if let Some(ended) = record.terminal_at {
        turns.push(Turn::new(html! { "Ended" }, State::name(state_of(record)), frame::ago(ended, now)));
    }
    if record.undo.is_some() {
        let how = if record.owed == 0 { "done".to_owned() } else { format!("{} steps left", record.owed) };
        turns.push(Turn::words("Undone", how));
    }
    turns
}

/// A part of its course.
fn part(leg: &Leg) -> Turn {
    let (what, how) = match &leg.what {
        What::Queued => ("In the queue".to_owned(), String::new()),
        What::Waited => ("Waited".to_owned(), String::new()),
        What::Left { spells: 1 } => ("…".to_owned(), "one attempt more".to_owned()),
        What::Left { spells } => ("…".to_owned(), format!("{spells} attempts more")),
        What::Work { nth, node, over } => {
            let on = node.as_deref().map(|node| format!("on node {node}"));
            let over = over.map(|over| match over {
                Over::PutAside => "put aside",
                Over::GivenBack => "given back",
                Over::Lost => "cut off",
            });
            let how: Vec<&str> = on.as_deref().into_iter().chain(over).collect();
            (format!("Attempt {nth}"), how.join(", "))
        }
    };
    let took = match leg.goes_on {
        true => frame::since(leg.from, leg.until),
        false => html! { (span(leg.until.since(leg.from))) },
    };
    Turn::new(html! { (what) }, how, took)
}

/// How many steps are shown: the latest.
const MOST_STEPS: usize = 50;

/// The latest of these steps.
fn latest(steps: &[ShownStep]) -> Vec<Turn> {
    let before = steps.len().saturating_sub(MOST_STEPS);
    let step = |what: Markup, how: &str| Turn { is_step: true, ..Turn::new(what, how, html! {}) };
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
