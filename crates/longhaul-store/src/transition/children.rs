//! What becomes of a task and of the one that made it: when it is made, and when either ends.

use super::{Noted, cancel, create, end, held, steps, touch};
use crate::{
    ChildEnd, Dialect, Epoch, Json, Limits, NewChild, NodeId, Outcome, Parent, Phase, Quota, Record,
    Settings, Step, StepState, StoreError, Time,
};

/// A task that another makes.
#[derive(Debug)]
#[non_exhaustive]
pub struct Spawned {
    /// It.
    pub record: Record,
    /// What becomes of its own steps.
    pub noted: Noted,
    /// The step that it is of its parent.
    pub step: Step,
}

/// Lets a task make another, which its worker reports; `None` if it has been made. `known` is the step under the child's
/// key as it is kept, and `top` the topmost of the open tasks above, if there is one.
///
/// # Errors
///
/// [`StoreError::Fenced`], [`StoreError::Recorded`], [`StoreError::TooLarge`], [`StoreError::Overloaded`].
#[expect(clippy::too_many_arguments, reason = "two tasks, and where and when")]
pub fn spawn(
    parent: &mut Record,
    epoch: Epoch,
    child: &NewChild,
    known: Option<&Step>,
    top: Option<&mut Record>,
    by: &NodeId,
    now: Time,
    settings: &Settings,
) -> Result<Option<Spawned>, StoreError> {
    held(parent, epoch)?;
    let step = Step::new(child.step.clone(), child.of, StepState::Child(child.task.id.clone()));
    let step = step.between(Some(now), None);
    match known {
        Some(known) if known.is(&step) => return Ok(None),
        Some(_) => return Err(StoreError::Recorded { id: parent.id.clone(), key: step.key }),
        None => {}
    }
    let limits = &settings.limits;
    let (depth, below) = (parent.depth() + 1, top.map_or(&mut parent.children, |top| &mut top.children));
    let full = |what, limit: u32| Err(StoreError::Overloaded { what, limit: limit.into() });
    if depth > limits.max_depth {
        return full(Quota::Depth, limits.max_depth);
    }
    let made_with = (child.task.arguments.as_str().len() + child.task.caller.as_str().len()) as u64;
    let counted = below.below.saturating_add(shares(made_with, limits).saturating_add(1));
    if counted > limits.max_descendants {
        return full(Quota::Descendants, limits.max_descendants);
    }
    below.below = counted;
    if parent.children.open >= limits.max_children {
        return full(Quota::Children, limits.max_children);
    }
    parent.children.open += 1;
    // Every answer about it says how many it has made.
    touch(parent, now);
    steps::add(parent, &step, limits)?;
    let mut task = child.task.clone();
    (task.owner, task.share) = (parent.owner.clone(), parent.share);
    (task.join, task.once) = (None, None);
    // Whoever made it is a task, which hears of its end.
    task.orphan = None;
    // A drafted task is known by the name that its caller gave it, and nobody has given this one any.
    task.dialect = if parent.dialect == Dialect::D1 { Dialect::Held } else { parent.dialect };
    let (mut record, noted) = create(&task, by, now, settings)?;
    let link = Parent::new(parent.id.clone(), child.step.clone(), depth);
    record.parent = Some(Parent { outlives: child.outlives, essential: child.essential, ..link });
    Ok(Some(Spawned { record, noted, step }))
}

/// Tells an open task that a child of its own has ended, and gives what becomes of its steps; `known` is the step that the
/// child is there, as it is kept. What waited goes on, and what cannot do without the child has failed.
pub fn hear(
    parent: &mut Record,
    child: &Record,
    known: Option<&Step>,
    now: Time,
    settings: &Settings,
) -> Noted {
    let (Some(link), Some(outcome), false) = (&child.parent, child.outcome(), parent.is_terminal()) else {
        return Noted::default();
    };
    parent.children.open = parent.children.open.saturating_sub(1);
    parent.children.ended = parent.children.ended.saturating_add(1);
    touch(parent, now);
    // What is kept of it, and of those below it, is the parent's to answer for, and in the end that of the topmost.
    let kept = child.step_bytes + child.part_bytes + outcome.len() as u64;
    let below = child.children.below.saturating_add(shares(kept, &settings.limits));
    parent.children.below = parent.children.below.saturating_add(below);
    let noted =
        match known {
            Some(step) if matches!(&step.state, StepState::Child(id) if *id == child.id) => Noted::one(
                learn(parent, step, ChildEnd::new(child.id.clone(), outcome.clone()), now, &settings.limits),
            ),
            // It was forgotten with the round of a loop.
            _ => Noted::default(),
        };
    if link.essential && !outcome.is_success() {
        let fenced = parent.lease().cloned();
        end(parent, failed_with(child, outcome), fenced, now, settings);
        parent.epoch = parent.epoch.next();
    } else if matches!(parent.phase, Phase::Parked { .. }) {
        parent.phase = Phase::Queued { not_before: now };
    }
    noted
}

/// As how many tasks below one so many bytes count.
fn shares(bytes: u64, limits: &Limits) -> u32 {
    let share = limits.max_descendant_bytes / u64::from(limits.max_descendants.max(1));
    u32::try_from(bytes / share.max(1)).unwrap_or(u32::MAX)
}

/// Ends an open task with the one that made it and has ended; `false` if it goes on.
pub fn end_with_parent(child: &mut Record, parent: &Record, now: Time, settings: &Settings) -> bool {
    let goes_on = child.parent.as_ref().is_none_or(|link| link.outlives || link.task != parent.id);
    !goes_on && cancel(child, Some("the task that made it has ended"), now, settings)
}

/// The step of a child that has ended. There is always room for it: for less than what it came to, if need be.
fn learn(parent: &mut Record, step: &Step, end: ChildEnd, now: Time, limits: &Limits) -> Step {
    let learnt = |end: &ChildEnd| {
        let state = StepState::Learnt { value: end.to_json(), is_error: !end.is_success() };
        Step::new(step.key.clone(), step.of, state).between(step.began_at, Some(now))
    };
    let whole = learnt(&end);
    let bytes = limits.weigh_steps(parent.step_bytes, step.size(), whole.size());
    if let (true, Ok(bytes)) = (whole.size() <= limits.max_step, bytes) {
        parent.step_bytes = bytes;
        return whole;
    }
    let less = learnt(&ChildEnd::too_large(end.task, &end.outcome));
    parent.step_bytes = parent.step_bytes.saturating_sub(step.size() as u64) + less.size() as u64;
    less
}

/// How a task ends that cannot do without a child that has failed.
fn failed_with(child: &Record, outcome: &Outcome) -> Outcome {
    let why = match outcome {
        Outcome::Error { message, .. } => message,
        Outcome::Lost { reason } | Outcome::Cancelled { reason: Some(reason) } => reason,
        Outcome::Cancelled { reason: None } => "it was cancelled",
        Outcome::Result { .. } => "it says that it failed",
    };
    let message = format!("its task {} of {} has failed: {why}", child.id, child.tool);
    let data = Json::parse(format!(r#"{{"reason":"child_failed","taskId":"{}"}}"#, child.id)).ok();
    Outcome::error(INTERNAL_ERROR, message, data)
}

/// JSON-RPC "internal error".
const INTERNAL_ERROR: i64 = -32603;
