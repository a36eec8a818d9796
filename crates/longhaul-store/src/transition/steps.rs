//! What becomes of a task's steps and questions.

use std::{collections::HashSet, sync::Arc};

use super::{Kept, fits, spells, touch};
use crate::{
    Limits, Park, Part, Phase, Question, Quota, Record, Reply, Scope, SpellOver, Step, StepState, StoreError,
    Time,
};

/// What becomes of what is kept of a task beside its record.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Noted {
    /// The keys of those that are kept no more: they go first.
    pub forgotten: Vec<Arc<str>>,
    /// Those that are to be kept, each in the place of the one under its key.
    pub steps: Vec<Step>,
    /// The new parts, which come behind the others.
    pub parts: Vec<Part>,
}

impl Noted {
    /// This one is to be kept.
    pub(crate) fn one(step: Step) -> Self {
        Self { steps: vec![step], ..Self::default() }
    }

    /// Whether nothing becomes of it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.forgotten.is_empty() && self.steps.is_empty() && self.parts.is_empty()
    }
}

/// Takes the steps of a worker's report, once those it forgets are gone.
///
/// # Errors
///
/// [`StoreError::Recorded`], [`StoreError::TooLarge`], [`StoreError::Overloaded`].
pub fn take_steps(
    record: &mut Record,
    forget: &[Arc<str>],
    steps: &[Step],
    kept: &mut dyn Kept,
    now: Time,
    limits: &Limits,
) -> Result<Noted, StoreError> {
    let (mut gone, mut forgotten) = (HashSet::new(), Vec::new());
    for key in forget {
        if gone.insert(&**key)
            && let Some(step) = kept.step(key)?
        {
            forget_step(record, &step, now);
            forgotten.push(key.clone());
        }
    }
    let mut taken: Vec<Step> = Vec::with_capacity(steps.len());
    for step in steps {
        let earlier = taken.iter().position(|earlier| earlier.key == step.key);
        let before = match earlier {
            Some(at) => Some(taken[at].clone()),
            None if gone.contains(&*step.key) => None,
            None => kept.step(&step.key)?,
        };
        let Some(step) = take_step(record, before.as_ref(), step, now, limits)? else { continue };
        match earlier {
            Some(at) => taken[at] = step,
            None => taken.push(step),
        }
    }
    let is_learnt = |step: &Step| matches!(step.state, StepState::Learnt { .. });
    if !record.is_terminal() && taken.iter().any(is_learnt) {
        // It has got further than those before it: they are no sign of work that ends whoever takes it.
        record.attempt = record.attempt.min(1);
    }
    Ok(Noted { forgotten, steps: taken, parts: Vec::new() })
}

/// Counts a step no more.
fn forget_step(record: &mut Record, step: &Step, now: Time) {
    record.steps = record.steps.saturating_sub(1);
    record.owed = record.owed.saturating_sub(u32::from(is_owed(step)));
    record.step_bytes = record.step_bytes.saturating_sub(step.size() as u64);
    let asked_before = record.questions.len();
    record.questions.retain(|question| question.step != step.key);
    if record.questions.len() != asked_before {
        asked(record, asked_before, now);
    }
}

/// One of them; `None` if it says nothing new.
fn take_step(
    record: &mut Record,
    before: Option<&Step>,
    step: &Step,
    now: Time,
    limits: &Limits,
) -> Result<Option<Step>, StoreError> {
    if let Some(before) = before {
        if before.of != step.of || !may_become(&before.state, &step.state) {
            return Err(StoreError::Recorded { id: record.id.clone(), key: step.key.clone() });
        }
        if is_same(&before.state, &step.state) {
            return Ok(None);
        }
    }
    if matches!(step.state, StepState::Child(_)) {
        // It is made with its task, and in no other way.
        return Err(StoreError::Recorded { id: record.id.clone(), key: step.key.clone() });
    }
    record.step_bytes = limits.admit_step(record.steps, record.step_bytes, before, step)?;
    record.steps += u32::from(before.is_none());
    record.owed = record.owed.saturating_sub(u32::from(before.is_some_and(is_owed)));
    record.owed += u32::from(is_owed(step));
    let asked_before = record.questions.len();
    record.questions.retain(|question| question.step != step.key);
    let mut changes = record.questions.len() != asked_before;
    let mut step = step.clone();
    (step.began_at, step.learnt_at) = times(before, &step, now);
    if let StepState::Asked(question) = &mut step.state {
        if record.questions.len() >= limits.max_questions {
            let limit = limits.max_questions as u64;
            return Err(StoreError::Overloaded { what: Quota::Questions, limit });
        }
        (question.step, question.of, question.asked_at) = (step.key.clone(), step.of, now);
        record.questions.push(question.clone());
        changes = true;
    }
    if changes {
        asked(record, asked_before, now);
    }
    Ok(Some(step))
}

/// When a step began and was learnt that is noted now in the place of the one before. Of one that was learnt its worker may
/// know better; when one began that is owed says nothing of when it is done.
fn times(before: Option<&Step>, step: &Step, now: Time) -> (Option<Time>, Option<Time>) {
    let known = before.filter(|before| !is_owed(before)).and_then(|before| before.began_at);
    match &step.state {
        StepState::Learnt { .. } => {
            let learnt = step.learnt_at.map_or(now, |at| at.min(now));
            (known.or(step.began_at).map(|at| at.min(learnt)), Some(learnt))
        }
        StepState::Asked(_) => (Some(now), None),
        _ => (known.or(Some(now)), None),
    }
}

/// Counts a step that is new, if there is room for it.
pub(super) fn add(record: &mut Record, step: &Step, limits: &Limits) -> Result<(), StoreError> {
    record.step_bytes = limits.admit_step(record.steps, record.step_bytes, None, step)?;
    record.steps += 1;
    Ok(())
}

fn is_owed(step: &Step) -> bool {
    matches!(step.state, StepState::Owed)
}

impl Limits {
    /// Refuses one more step, or one in the place of another, where there are so many already of so many bytes; gives the
    /// bytes that there are with it.
    ///
    /// # Errors
    ///
    /// [`StoreError::TooLarge`], [`StoreError::Overloaded`].
    pub fn admit_step(
        &self,
        steps: u32,
        bytes: u64,
        before: Option<&Step>,
        step: &Step,
    ) -> Result<u64, StoreError> {
        fits("a step", step.size(), self.max_step)?;
        if before.is_none() && steps >= self.max_steps {
            return Err(StoreError::Overloaded { what: Quota::Steps, limit: self.max_steps.into() });
        }
        self.weigh_steps(bytes, before.map_or(0, Step::size), step.size())
    }

    /// The bytes of all steps once one of them has grown so.
    pub(super) fn weigh_steps(&self, bytes: u64, before: usize, after: usize) -> Result<u64, StoreError> {
        let bytes = bytes.saturating_sub(before as u64) + after as u64;
        if bytes > self.max_step_bytes {
            return Err(StoreError::Overloaded { what: Quota::StepBytes, limit: self.max_step_bytes });
        }
        Ok(bytes)
    }
}

/// Whether a step that stood so may stand so: what was learnt stays, and a key asks one question for ever.
fn may_become(before: &StepState, after: &StepState) -> bool {
    match (before, after) {
        (StepState::Begun, _) => true,
        (StepState::Asked(_) | StepState::Due(_) | StepState::Owed, StepState::Learnt { .. }) => true,
        (StepState::Asked(_), StepState::Begun) => true,
        _ => is_same(before, after),
    }
}

fn is_same(before: &StepState, after: &StepState) -> bool {
    match (before, after) {
        (StepState::Asked(before), StepState::Asked(after)) => before.key == after.key,
        _ => before == after,
    }
}

/// Puts the task aside and ends the worker's lease. What it waits for may have come meanwhile; and where nothing
/// would ever wake it, it is due at once.
pub(super) fn park(
    record: &mut Record,
    park: &Park,
    kept: &mut dyn Kept,
    now: Time,
) -> Result<(), StoreError> {
    let is_open = |key: &Arc<str>| record.questions.iter().any(|question| question.key == *key);
    // Work that is asked to end may not have heard so yet.
    let mut waits = record.cancelling.is_none()
        && park.on.iter().all(is_open)
        && !(park.on.is_empty() && park.children.is_empty() && park.until.is_none());
    for key in &park.children {
        waits &= kept.step(key)?.is_some_and(|step| matches!(step.state, StepState::Child(_)));
    }
    spells::end(record, SpellOver::Aside(now));
    record.phase =
        if waits { Phase::Parked { until: park.until } } else { Phase::Queued { not_before: now } };
    record.attempt = 0;
    record.epoch = record.epoch.next();
    Ok(())
}

/// Takes the answers to what is asked, given as them; gives the steps that are learnt by them.
///
/// # Errors
///
/// [`StoreError::TooLarge`], [`StoreError::Overloaded`].
pub fn answer(
    record: &mut Record,
    replies: &[Reply],
    by: Scope<'_>,
    now: Time,
    limits: &Limits,
) -> Result<Noted, StoreError> {
    let (mut learnt, asked_before) = (Vec::new(), record.questions.len());
    for reply in replies {
        let is_open = |question: &Question| {
            question.key == reply.key && question.deadline.is_none_or(|deadline| deadline > now)
        };
        let Some(at) = record.questions.iter().position(is_open) else { continue };
        let question = record.questions[at].clone();
        let of = question.of;
        let state = StepState::Learnt { value: reply.value.clone(), is_error: reply.is_error };
        let step = Step::new(question.step.clone(), of, state)
            .between(Some(question.asked_at), Some(now))
            .answered(Some(by.into()));
        let before = Step::new(question.step.clone(), of, StepState::Asked(question)).size();
        fits("an answer", reply.value.as_str().len(), limits.max_step)?;
        record.step_bytes = limits.weigh_steps(record.step_bytes, before, step.size())?;
        record.questions.remove(at);
        learnt.push(step);
    }
    if !learnt.is_empty() {
        asked(record, asked_before, now);
        if matches!(record.phase, Phase::Parked { .. }) {
            record.phase = Phase::Queued { not_before: now };
        }
    }
    Ok(Noted { steps: learnt, ..Noted::default() })
}

/// What is asked has changed, where there were so many questions before: a status does when the first comes or the last goes.
fn asked(record: &mut Record, before: usize, now: Time) {
    touch(record, now);
    if (before == 0) != record.questions.is_empty() {
        record.status_changed_at = record.updated_at;
    }
}
