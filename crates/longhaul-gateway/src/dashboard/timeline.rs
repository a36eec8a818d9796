//! What a task went through so far, as a table: when it was queued, worked on and waited, each with a bar; steps, questions
//! and its end.

use longhaul::store::{Phase, Record, Rerun, SeenStep, TaskId, Time};
use longhaul::tasks::made_again_of;
use maud::{Markup, html};

use super::bars::{Axis, Bar};
use super::form::encoded;
use super::frame;
use crate::admin::{
    Admin, Ends, Leg, Over, Place, ShownStep, Stands, State, Viewer, What, course, span, state_of,
};
use crate::clean;

/// How many steps are shown of those with which a task begins, and of those with which it ends.
const FIRST_STEPS: usize = 20;
const LAST_STEPS: usize = 30;

/// The steps of a task that its timeline shows; `None` where they cannot be had for now.
pub(super) async fn steps(admin: &Admin, viewer: &Viewer, record: &Record) -> Option<Ends> {
    admin.ends_of_steps(viewer, record, FIRST_STEPS, LAST_STEPS).await
}

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
pub(super) fn timeline(record: &Record, steps: Option<&Ends>, now: Time) -> Markup {
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

fn turns(record: &Record, steps: Option<&Ends>, now: Time) -> Vec<Turn> {
    let link =
        |task: &TaskId, words: &str| html! { a href={ "/tasks/" (encoded(task.as_str())) } { (words) } };
    let made = match (&record.parent, made_again_of(record)) {
        (Some(parent), _) => html! { "Made by " (link(&parent.task, "another task")) },
        (None, Some(first)) => html! { "Run again, as " (link(&first, "an earlier task")) " was" },
        (None, None) => html! { "Called" },
    };
    let mut turns = vec![Turn::new(made, "", frame::ago(record.created_at, now))];
    let legs = course(record, now);
    let (axis, are_known) = (Axis::of(&legs), steps.is_some());
    let mut steps =
        steps.map(|ends| Stepped { record, legs: &legs, axis: &axis, now }.turns(ends)).unwrap_or_default();
    let mut take = |place: Place| -> Vec<Turn> {
        let here = steps.extract_if(.., |(at, _)| *at == place);
        here.map(|(_, turn)| turn).collect()
    };
    let spell = spell(record, &legs);
    for (nth, (leg, bar)) in legs.iter().zip(axis.bars()).enumerate() {
        turns.push(Turn { bar: Some(bar), ..part(leg, spell) });
        turns.extend(take(Place::Leg(nth)));
    }
    if record.attempt > 1 {
        let lost = record.attempt - 1;
        let times = if lost == 1 { "once".to_owned() } else { format!("{lost} times") };
        turns.push(Turn::words("Cut off", format!("{times} since it last got further")));
    }
    if record.steps > 0 && !are_known {
        turns.push(Turn::words("Steps", format!("{} noted", record.steps)));
    }
    let unknown = take(Place::Unknown);
    if !unknown.is_empty() {
        turns.push(Turn::words("Steps at no known time", "noted by an earlier release"));
        turns.extend(unknown);
    }
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
        turns.extend(take(Place::Undoing));
    }
    turns
}

/// What a spell of work on it is called: of a job that runs elsewhere, and is asked after now and then, it is no attempt.
fn spell(record: &Record, legs: &[Leg]) -> &'static str {
    let was_aside = |leg: &Leg| matches!(leg.what, What::Work { over: Some(Over::PutAside), .. });
    let is_job = record.rerun == Rerun::Reattach && legs.iter().any(was_aside);
    if is_job { "Look" } else { "Attempt" }
}

/// A part of its course, which has such spells.
fn part(leg: &Leg, spell: &str) -> Turn {
    let (what, how) = match &leg.what {
        What::Queued => ("In the queue".to_owned(), String::new()),
        What::Waited => ("Waited".to_owned(), String::new()),
        What::Left { spells: 1 } => ("…".to_owned(), format!("one {} more", spell.to_lowercase())),
        What::Left { spells } => ("…".to_owned(), format!("{spells} {}s more", spell.to_lowercase())),
        What::Work { nth, node, over } => {
            let on = node.as_deref().map(|node| format!("on node {node}"));
            let over = over.map(|over| match over {
                Over::PutAside => "put aside",
                Over::GivenBack => "given back",
                Over::Lost => "cut off",
            });
            let how: Vec<&str> = on.as_deref().into_iter().chain(over).collect();
            (format!("{spell} {nth}"), how.join(", "))
        }
    };
    let took = match leg.goes_on {
        true => frame::since(leg.from, leg.until),
        false => html! { (span(leg.until.since(leg.from))) },
    };
    Turn::new(html! { (what) }, how, took)
}

/// What there is to know of a task whose steps are shown.
struct Stepped<'a> {
    record: &'a Record,
    legs: &'a [Leg],
    axis: &'a Axis<'a>,
    now: Time,
}

impl Stepped<'_> {
    /// The steps, each with its place in the course.
    fn turns(&self, ends: &Ends) -> Vec<(Place, Turn)> {
        let shown = |step: &SeenStep| {
            let step = ShownStep::of(step, self.record, self.legs, self.now);
            // What is asked is shown as a question, and of what is not needed there is nothing to say.
            let is_shown = !matches!(step.state, Stands::Asked | Stands::NotNeeded);
            is_shown.then(|| (step.place, self.turn(&step)))
        };
        let mut turns: Vec<(Place, Turn)> = ends.first.iter().filter_map(shown).collect();
        if ends.between > 0 {
            let place = turns.last().map_or(Place::Unknown, |(place, _)| *place);
            turns.push((place, self.between(ends)));
        }
        turns.extend(ends.last.iter().filter_map(shown));
        turns
    }

    fn turn(&self, step: &ShownStep) -> Turn {
        let name = clean::line(&step.name, 120);
        let what = match &step.task_id {
            Some(task) => html! { a href={ "/tasks/" (encoded(task)) } { (name) } },
            None if step.answered_by.is_some() => html! { span.asked { "Question" } " " (name) },
            None => html! { (name) },
        };
        let mut how = match step.state {
            Stands::Running => "running",
            Stands::CutOff => "cut off",
            Stands::Recorded => "recorded",
            Stands::Failed => "failed",
            Stands::InVain => "let go of",
            Stands::Asked => "waits for an answer",
            Stands::Answered => "answered",
            Stands::Refused => "refused",
            Stands::Waits => "waits for its time",
            Stands::Waited => "waited",
            Stands::Task => "is a task",
            Stands::Owed => "if the task fails",
            Stands::NotNeeded => "would have undone another",
            Stands::Undone => "undone",
            Stands::NotUndone => "could not be undone",
        }
        .to_owned();
        if let Some(by) = &step.answered_by {
            how += &format!(" by {}", clean::line(by, 200));
        }
        if let Some(nth) = step.begun_in_attempt {
            how += &format!(", begun in attempt {nth}");
        }
        let took = match (step.began_at, step.ended_at, step.until) {
            (_, _, Some(until)) => frame::within(until, self.now),
            (_, Some(answered), _) if step.answered_by.is_some() => frame::ago(answered, self.now),
            (Some(began), Some(ended), _) => html! { (span(ended.since(began))) },
            (Some(began), None, _) if goes_on(step) => frame::since(began, self.now),
            _ => html! {},
        };
        Turn { bar: self.bar(step), is_step: true, ..Turn::new(what, how, took) }
    }

    fn bar(&self, step: &ShownStep) -> Option<Bar> {
        let kind = match step.state {
            Stands::Recorded => "recorded",
            Stands::Failed => "failed",
            Stands::Running => "work",
            Stands::Asked | Stands::Answered | Stands::Refused => "waited",
            Stands::Waits | Stands::Waited | Stands::Task | Stands::InVain => "waited",
            Stands::CutOff => "queued",
            Stands::Owed | Stands::NotNeeded | Stands::Undone | Stands::NotUndone => return None,
        };
        let Place::Leg(nth) = step.place else { return None };
        let from = step.began_at.or(step.ended_at)?;
        let until = match step.state {
            Stands::CutOff => self.legs.get(nth).map(|leg| leg.until),
            _ => step.ended_at,
        };
        Some(self.axis.during(kind, from, until))
    }

    /// Those that are not shown, which a script is told.
    fn between(&self, ends: &Ends) -> Turn {
        let id = encoded(self.record.id.as_str());
        let all = format!("/admin/api/tasks/{id}/steps?after={}", ends.first.len());
        let how_many = match ends.between {
            1 => "one step".to_owned(),
            many => format!("{} steps", frame::count(many)),
        };
        let what = html! { "… " a href=(all) { (how_many) } " between" };
        Turn { is_step: true, ..Turn::new(what, "", html! {}) }
    }
}

/// Whether time goes on for it.
fn goes_on(step: &ShownStep) -> bool {
    matches!(step.state, Stands::Running | Stands::Asked | Stands::Task)
}
